//! Layers of recurrent networks that keep what their gradients read, or have an attention or a projection: the products of all steps' inputs
//! by one matrix product, then one launch for the sequence.

use anydnn_backend::op::{Cell, Direction, Recurrent};
use anydnn_backend::{Arg, PrimitiveDesc};

use super::choice::Planned;
use super::recurrent_pieces::{Pieces, Place, Variables, alias, any, gates_merge, operand, row, rows_merge};
use super::space::Index;
use crate::plan::DeviceTraits;

const TRAINING: &str = anydnn_kernels::text("recurrent/training.cl");

/// Whether a layer needs this form.
pub(super) fn serves(desc: &PrimitiveDesc) -> bool {
    let own = [Recurrent::WORKSPACE, Recurrent::ATTENTION, Recurrent::PROJECTION];
    own.into_iter().any(|arg| desc.find(arg).is_some())
}

pub(super) fn plan(op: Recurrent, desc: &PrimitiveDesc, device: &DeviceTraits) -> Option<Planned> {
    let lanes = Pieces::new(op, desc, device)?.lanes();
    lanes.iter().find_map(|&lanes| in_lanes(Pieces::new(op, desc, device)?, lanes))
}

fn in_lanes(mut pieces: Pieces<'_>, lanes: usize) -> Option<Planned> {
    let op = pieces.op;
    let gates = input_products(&mut pieces)?;
    let (mut space, variables) = Variables::new(&pieces, lanes);
    let Variables { d, n, step, gate, k, turn, unit, .. } = &variables;
    let adds_up = op.direction == Direction::Sum;
    let (none, zero) = (Index::default(), Index::default());
    let shown = if adds_up { &none } else { d };
    let inputs: [(&str, Arg, &[&Index]); 9] = [
        ("STATE_WEIGHTS", Recurrent::STATE_WEIGHTS, &[d, k, gate, unit]),
        ("BIAS", Arg::Bias, &[d, gate, unit]),
        ("STATE_BIAS", Recurrent::STATE_BIAS, &[d, gate, unit]),
        ("INITIAL_STATE", Recurrent::INITIAL_STATE, &[d, n, unit]),
        ("INITIAL_CELL", Recurrent::INITIAL_CELL, &[d, n, unit]),
        ("LENGTHS", Recurrent::LENGTHS, &[n]),
        ("PEEPHOLES", Recurrent::PEEPHOLES, &[d, gate, unit]),
        ("ATTENTION", Recurrent::ATTENTION, &[step, n, &zero]),
        ("PROJECTION", Recurrent::PROJECTION, &[d, k, unit]),
    ];
    for (name, arg, index) in inputs {
        if pieces.has(arg) {
            operand(&mut space, name, &pieces.input(arg, any)?, index);
        }
    }
    let outputs: [(&str, Arg, &[&Index]); 4] = [
        ("LAST_STATE", Recurrent::LAST_STATE, &[d, n, unit]),
        ("LAST_CELL", Recurrent::LAST_CELL, &[d, n, unit]),
        ("WORKSPACE", Recurrent::WORKSPACE, &[d, step, n, gate, unit]),
        ("DST", Arg::DST, &[step, n, shown, unit]),
    ];
    for (name, arg, index) in outputs {
        if pieces.has(arg) {
            operand(&mut space, name, &pieces.output(arg, any)?, index);
        }
    }
    operand(&mut space, "GATES", &gates, &[d, step, n, gate, unit]);
    let (count, batch, hidden, units) = (pieces.directions(), pieces.batch, pieces.hidden, pieces.units);
    // States before a step and behind it change places.
    let states = pieces.working(&[2, count, batch, units]);
    operand(&mut space, "STATES", &states, &[turn, d, n, unit]);
    alias(&mut space, "STATES_K", "STATES", &states, &[turn, d, n, k]);
    let one = [count, batch, hidden];
    if op.cell.is_lstm() {
        operand(&mut space, "CELLS", &pieces.working(&one), &[d, n, unit]);
    }
    if op.cell == Cell::Gru {
        operand(&mut space, "UPDATES", &pieces.working(&one), &[d, n, unit]);
        let kept = pieces.working(&one);
        operand(&mut space, "KEPT", &kept, &[d, n, unit]);
        alias(&mut space, "KEPT_K", "KEPT", &kept, &[d, n, k]);
    }
    if pieces.has(Recurrent::PROJECTION) {
        let whole = pieces.working(&one);
        operand(&mut space, "WHOLE", &whole, &[d, n, unit]);
        alias(&mut space, "WHOLE_K", "WHOLE", &whole, &[d, n, k]);
    }
    if adds_up {
        let totals = pieces.working(&[pieces.steps, batch, units]);
        operand(&mut space, "TOTALS", &totals, &[step, n, unit]);
    }
    let gates_count = op.cell.gates();
    let first = if op.cell == Cell::Gru { 2 } else { gates_count };
    let each =
        |from: usize, to: usize| (from..to).map(|gate| format!("X(i, {gate})")).collect::<Vec<_>>().join(" ");
    let ways = if adds_up { 1 } else { count };
    pieces.steps((&space, &variables), ("recurrent_training", TRAINING), (ways, first), |source, _| {
        source
            .define("ADDS_UP", i32::from(adds_up))
            .define("WAYS", if adds_up { 2 } else { 1 })
            .define("ALL_V", gates_count)
            .define("ROWS", op.cell.rows())
            .define("ONE_V(X, i)", each(0, 1))
            .define("FIRST_V(X, i)", each(0, first))
            .define("SECOND_V(X, i)", each(if first < gates_count { first } else { 0 }, gates_count));
    })?;
    pieces.planned()
}

/// The matrix product of all steps' inputs, `[D, T, N, G, H]`.
fn input_products(pieces: &mut Pieces<'_>) -> Option<Place> {
    let src = pieces.input(Arg::SRC, rows_merge)?;
    let weights = pieces.input(Arg::Weights, gates_merge)?;
    let (count, rows, inputs) = (pieces.directions(), pieces.rows(), pieces.inputs);
    let columns = pieces.gates() * pieces.hidden;
    let gates = pieces.working(&[count, pieces.steps, pieces.batch, pieces.gates(), pieces.hidden]);
    let (from, by) = (src.strides()?, weights.strides()?);
    let a = src.seen(0, &[(1, 0), (rows, row(pieces, from)), (inputs, from[2])])?;
    let b = weights.seen(0, &[(count, by[0]), (inputs, by[1]), (columns, by[3])])?;
    let c = gates.seen(0, &[(count, rows * columns), (rows, columns), (columns, 1)])?;
    pieces.multiply(&a, &b, &c, false)?;
    Some(gates)
}

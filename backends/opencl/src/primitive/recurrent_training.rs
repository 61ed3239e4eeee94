//! Layers of recurrent networks that keep what their gradients read, have an attention or a projection, or are of integers: the products of all
//! steps' inputs by one matrix product, then one launch for the sequence.

use anydnn_backend::op::{Cell, Direction, Recurrent};
use anydnn_backend::{Arg, DataType, PrimitiveDesc};

use super::choice::Planned;
use super::recurrent_pieces::{Pieces, Place, Variables, alias, any, gates_merge, operand, row, rows_merge};
use super::space::Index;
use crate::plan::DeviceTraits;

const TRAINING: &str = anydnn_kernels::text("recurrent/training.cl");

/// Whether a layer needs this form.
pub(super) fn serves(desc: &PrimitiveDesc) -> bool {
    let own = [Recurrent::WORKSPACE, Recurrent::ATTENTION, Recurrent::PROJECTION, Recurrent::WEIGHTS_SCALES];
    own.into_iter().any(|arg| desc.find(arg).is_some())
}

/// Whether all that a layer has beside the usual is a workspace, and states that are multiplied as they are kept.
pub(super) fn keeps_alone(desc: &PrimitiveDesc) -> bool {
    let others = [Recurrent::ATTENTION, Recurrent::PROJECTION, Recurrent::WEIGHTS_SCALES];
    others.into_iter().all(|arg| desc.find(arg).is_none())
}

pub(super) fn plan(op: Recurrent, desc: &PrimitiveDesc, device: &DeviceTraits) -> Option<Planned> {
    let lanes = Pieces::new(op, desc, device)?.lanes();
    lanes.iter().find_map(|&lanes| in_lanes(Pieces::new(op, desc, device)?, lanes))
}

fn in_lanes(mut pieces: Pieces<'_>, lanes: usize) -> Option<Planned> {
    let (op, desc) = (pieces.op, pieces.desc);
    let (gates, sums) = input_products(&mut pieces)?;
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
    let mut lanes_of_weights = "lanes";
    for (name, arg, index) in inputs {
        if pieces.has(arg) {
            let mut given = pieces.input(arg, any)?;
            if arg == Recurrent::STATE_WEIGHTS {
                given = pieces.in_panels(&given, lanes).unwrap_or(given);
                lanes_of_weights = given.lanes();
            }
            operand(&mut space, name, &given, index);
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
    for (name, arg, index) in [
        ("WEIGHTS_SCALES", Recurrent::WEIGHTS_SCALES, &[d, gate, unit][..]),
        ("PROJECTION_SCALES", Recurrent::PROJECTION_SCALES, &[d, unit]),
    ] {
        if pieces.has(arg) {
            let factors = pieces.input(arg, any)?;
            // One factor stands for all indices of a dimension.
            let index = index.iter().zip(factors.desc.dims().iter());
            let index: Vec<&Index> =
                index.map(|(&index, &dim)| if dim == 1 { &none } else { index }).collect();
            operand(&mut space, name, &factors, &index);
        }
    }
    if let Some(sums) = &sums {
        operand(&mut space, "WEIGHTS_SUMS", sums, &[d, &zero, gate, unit]);
    }
    operand(&mut space, "GATES", &gates, &[d, step, n, gate, unit]);
    let (count, batch, hidden, units) = (pieces.directions(), pieces.batch, pieces.hidden, pieces.units);
    // States before a step and behind it change places.
    let of_states = op.quantization.map_or(pieces.value.storage(), |_| desc.src().data_type());
    let states = pieces.working_as(&[2, count, batch, units], of_states);
    operand(&mut space, "STATES", &states, &[turn, d, n, unit]);
    alias(&mut space, "STATES_K", "STATES", &states, &[turn, d, n, k]);
    let one = [count, batch, hidden];
    if op.cell.is_lstm() {
        operand(&mut space, "CELLS", &pieces.working(&one), &[d, n, unit]);
    }
    if op.cell == Cell::Gru {
        operand(&mut space, "UPDATES", &pieces.working(&one), &[d, n, unit]);
        let kept = pieces.working_as(&one, of_states);
        operand(&mut space, "KEPT", &kept, &[d, n, unit]);
        alias(&mut space, "KEPT_K", "KEPT", &kept, &[d, n, k]);
    }
    if pieces.has(Recurrent::PROJECTION) {
        let whole = pieces.working_as(&one, of_states);
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
    let is_integer = |arg| desc.find(arg).is_some_and(|desc| !desc.data_type().is_float());
    let value = pieces.value;
    pieces.steps((&space, &variables), ("recurrent_training", TRAINING), (ways, first), |source, _| {
        if let Some(own) = op.quantization {
            let (least, most) = if of_states == DataType::U8 { (0.0, 255.0) } else { (-128.0, 127.0) };
            source
                .define("SCALE", value.literal(own.scale))
                .define("SHIFT", value.literal(own.shift))
                .define("LEAST", value.literal(least))
                .define("MOST", value.literal(most))
                .define("GIVES_INTEGERS", i32::from(is_integer(Recurrent::INITIAL_STATE)))
                .define("SHOWS_INTEGERS", i32::from(is_integer(Arg::DST)))
                .define("ENDS_IN_INTEGERS", i32::from(is_integer(Recurrent::LAST_STATE)));
        }
        source
            .define("LANES_OF_STATE_WEIGHTS", lanes_of_weights)
            .define("LANES_OF_PROJECTION", "lanes")
            .define("IS_INTEGER", i32::from(op.quantization.is_some()))
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

/// The matrix product of all steps' inputs, `[D, T, N, G, H]`; of integers also the sums of the weights, `[D, 1, G, H]`.
fn input_products(pieces: &mut Pieces<'_>) -> Option<(Place, Option<Place>)> {
    let src = pieces.input(Arg::SRC, rows_merge)?;
    let weights = pieces.input(Arg::Weights, gates_merge)?;
    let (count, rows, inputs) = (pieces.directions(), pieces.rows(), pieces.inputs);
    let columns = pieces.gates() * pieces.hidden;
    let is_integer = pieces.op.quantization.is_some();
    let of_gates = if is_integer { DataType::S32 } else { pieces.value.storage() };
    let dims = [count, pieces.steps, pieces.batch, pieces.gates(), pieces.hidden];
    let gates = pieces.working_as(&dims, of_gates);
    let (from, by) = (src.strides()?, weights.strides()?);
    let a = src.seen(0, &[(1, 0), (rows, row(pieces, from)), (inputs, from[2])])?;
    let b = weights.seen(0, &[(count, by[0]), (inputs, by[1]), (columns, by[3])])?;
    let c = gates.seen(0, &[(count, rows * columns), (rows, columns), (columns, 1)])?;
    pieces.multiply(&a, &b, &c, false)?;
    let mut sums = None;
    if is_integer {
        let made = pieces.working_as(&[count, 1, pieces.gates(), pieces.hidden], DataType::F32);
        pieces.sum(&weights, &made)?;
        sums = Some(made);
    }
    Some((gates, sums))
}

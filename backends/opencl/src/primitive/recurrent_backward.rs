//! Gradients of recurrent layers: one launch for the gradients by the sums of the gates, from the last step to the first, then a matrix product
//! of all steps for the source and for each of the weights.

#[cfg(test)]
mod tests;

use anydnn_backend::op::{Cell, Direction, Recurrent, RecurrentBackward};
use anydnn_backend::{Arg, PrimitiveDesc, Result};

use super::Planner;
use super::choice::{Choice, Choices, Planned, Wanted};
use super::pointwise::padding;
use super::recurrent_pieces::{Pieces, Place, Variables, alias, any, gates_merge, operand, row, rows_merge};
use super::space::Index;
use crate::plan::{DeviceTraits, LaunchArg};

const BACKWARD: &str = anydnn_kernels::text("recurrent/backward.cl");

impl Planner for RecurrentBackward {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        let mut choices = Choices::new(desc, wanted);
        choices.offer("looped", "one launch for the sequence, then products of all steps", || {
            let lanes = Pieces::new(self.forward, desc, device)?.lanes();
            lanes.iter().find_map(|&lanes| in_lanes(Pieces::new(self.forward, desc, device)?, lanes))
        });
        Ok(choices.followed_by(|| {
            let results = desc.args().iter().filter(|operand| operand.access.writes());
            results.filter_map(|operand| padding(&operand.desc, operand.arg, device)).collect::<Vec<_>>()
        }))
    }
}

/// What the launch of the steps leaves for the products.
struct Made {
    /// The gradients by the sums of the gates, `[D, T, N, G, H]`, with one more row for the state's product before the reset.
    sums: Place,
    rows: usize,
    workspace: Place,
    /// What the candidate's product has read of the states, `[D, T, N, H]`.
    kept: Option<Place>,
    /// The states before a projection, `[D, T, N, H]`, and the gradients by those behind it, `[D, T, N, P]`.
    projected: Option<(Place, Place)>,
    /// `[D, N, 3, H]`
    peepholes: Option<Place>,
    /// `[D, T, N, H]`
    attention: Option<Place>,
}

fn in_lanes(mut pieces: Pieces<'_>, lanes: usize) -> Option<Planned> {
    let sums = steps(&mut pieces, lanes)?;
    source(&mut pieces, &sums)?;
    weights(&mut pieces, &sums)?;
    biases(&mut pieces, &sums)?;
    others(&mut pieces, &sums)?;
    pieces.planned()
}

/// From the last step to the first.
fn steps(pieces: &mut Pieces<'_>, lanes: usize) -> Option<Made> {
    let Recurrent { cell, direction, .. } = pieces.op;
    let (count, batch, hidden, units) = (pieces.directions(), pieces.batch, pieces.hidden, pieces.units);
    let (steps, gates) = (pieces.steps, pieces.gates());
    let turned = turned(pieces, lanes)?;
    let rows = gates + usize::from(cell == Cell::GruLinearBeforeReset);
    let (mut space, variables) = Variables::new(pieces, lanes);
    let Variables { d, n, step, gate, k, unit, .. } = &variables;
    let zero = Index::default();
    let shown = if direction == Direction::Concat { d } else { &zero };
    let workspace = pieces.input(RecurrentBackward::WORKSPACE, dense)?;
    operand(&mut space, "WORKSPACE", &workspace, &[d, step, n, gate, unit]);
    let inputs: [(&str, Arg, &[&Index]); 6] = [
        ("LENGTHS", Recurrent::LENGTHS, &[n]),
        ("PEEPHOLES", Recurrent::PEEPHOLES, &[d, gate, unit]),
        ("ATTENTION", Recurrent::ATTENTION, &[step, n, &zero]),
        ("DIFF_DST", RecurrentBackward::DIFF_DST, &[step, n, shown, unit]),
        ("DIFF_LAST_STATE", RecurrentBackward::DIFF_LAST_STATE, &[d, n, unit]),
        ("DIFF_LAST_CELL", RecurrentBackward::DIFF_LAST_CELL, &[d, n, unit]),
    ];
    for (name, arg, index) in inputs {
        if pieces.has(arg) {
            operand(&mut space, name, &pieces.input(arg, any)?, index);
        }
    }
    let outputs = [
        ("DIFF_INITIAL_STATE", RecurrentBackward::DIFF_INITIAL_STATE),
        ("DIFF_INITIAL_CELL", RecurrentBackward::DIFF_INITIAL_CELL),
    ];
    for (name, arg) in outputs {
        if pieces.has(arg) {
            operand(&mut space, name, &pieces.output(arg, any)?, &[d, n, unit]);
        }
    }
    operand(&mut space, "TURNED", &turned, &[d, gate, k, unit]);
    let sums = pieces.working(&[count, steps, batch, rows, hidden]);
    operand(&mut space, "OF_SUMS", &sums, &[d, step, n, gate, unit]);
    alias(&mut space, "OF_SUMS_K", "OF_SUMS", &sums, &[d, step, n, gate, k]);
    operand(&mut space, "OF_STATE", &pieces.working(&[count, batch, units]), &[d, n, unit]);
    let all = [count, steps, batch, hidden];
    let mut made =
        Made { sums, rows, workspace, kept: None, projected: None, peepholes: None, attention: None };
    if cell.is_lstm() {
        operand(&mut space, "OF_CELL", &pieces.working(&[count, batch, hidden]), &[d, n, unit]);
    }
    if cell == Cell::Gru && pieces.has(RecurrentBackward::DIFF_STATE_WEIGHTS) {
        let kept = pieces.working(&all);
        operand(&mut space, "KEPT", &kept, &[d, step, n, unit]);
        made.kept = Some(kept);
    }
    if pieces.has(Recurrent::PROJECTION) {
        let given = pieces.input(Recurrent::PROJECTION, any)?;
        let own = pieces.working(&[count, units, hidden]);
        let by = given.strides()?;
        let across = given.seen(0, &[(count, by[0]), (units, by[2]), (hidden, by[1])])?;
        pieces.reorder(&across, &own)?;
        operand(&mut space, "TURNED_PROJECTION", &own, &[d, k, unit]);
        let (whole, of_states) = (pieces.working(&all), pieces.working(&[count, steps, batch, units]));
        operand(&mut space, "WHOLE", &whole, &[d, step, n, unit]);
        operand(&mut space, "OF_STATES", &of_states, &[d, step, n, unit]);
        alias(&mut space, "OF_STATES_K", "OF_STATES", &of_states, &[d, step, n, k]);
        made.projected = Some((whole, of_states));
    }
    if pieces.has(RecurrentBackward::DIFF_PEEPHOLES) {
        let peepholes = pieces.working(&[count, batch, 3, hidden]);
        operand(&mut space, "OF_PEEPHOLES", &peepholes, &[d, n, gate, unit]);
        made.peepholes = Some(peepholes);
    }
    if pieces.has(RecurrentBackward::DIFF_ATTENTION) {
        let attention = pieces.working(&all);
        operand(&mut space, "OF_ATTENTION", &attention, &[d, step, n, unit]);
        made.attention = Some(attention);
    }
    pieces.steps((&space, &variables), ("recurrent_backward", BACKWARD), (count, 2), |source, _| {
        source
            .define("SUMS_COUNT", rows)
            .define("LANES_OF_TURNED", turned.lanes())
            .define("LANES_OF_TURNED_PROJECTION", "lanes");
    })?;
    Some(made)
}

fn dense(pieces: &Pieces<'_>, strides: &[usize]) -> bool {
    let row = pieces.op.cell.rows() * pieces.hidden;
    strides[1..] == [pieces.batch * row, row, pieces.hidden, 1]
}

/// The state's weights, `[D, G, H, P]` from `[D, P, G, H]`.
fn turned(pieces: &mut Pieces<'_>, lanes: usize) -> Option<Place> {
    let desc = pieces.desc.find(Recurrent::STATE_WEIGHTS)?.permuted(&[0, 2, 3, 1]).ok()?;
    let given = Place { at: LaunchArg::Memory(Recurrent::STATE_WEIGHTS), desc };
    if let Some(panels) = pieces.in_panels(&given, lanes) {
        return Some(panels);
    }
    let own = pieces.working(&[pieces.directions(), pieces.gates(), pieces.hidden, pieces.units]);
    pieces.reorder(&given, &own)?;
    Some(own)
}

/// The gradient by the source: a product for each direction, the second one added.
fn source(pieces: &mut Pieces<'_>, made: &Made) -> Option<()> {
    let (count, rows, inputs) = (pieces.directions(), pieces.rows(), pieces.inputs);
    let columns = pieces.gates() * pieces.hidden;
    let weights = pieces.input(Arg::Weights, gates_merge)?;
    // Half floats are not added up in.
    let storage = pieces.value.storage();
    let exact = count == 1 || pieces.desc.dst().data_type() == storage;
    let dst = pieces.output(Arg::DST, if exact { rows_merge } else { |_, _| false })?;
    let (by, to) = (weights.strides()?.to_vec(), dst.strides()?.to_vec());
    for d in 0..count {
        let row_of_sums = made.rows * pieces.hidden;
        let a = made.sums.seen(d * rows * row_of_sums, &[(rows, row_of_sums), (columns, 1)])?;
        let b = weights.seen(d * by[0], &[(columns, by[3]), (inputs, by[1])])?;
        let c = dst.seen(0, &[(rows, row(pieces, &to)), (inputs, to[2])])?;
        pieces.multiply(&a, &b, &c, d > 0)?;
    }
    Some(())
}

/// Some gates of the gradients by the sums, as the right factor of a product.
fn gates_of(pieces: &Pieces<'_>, made: &Made, first: usize, gates: usize) -> Option<Place> {
    let (rows, hidden) = (pieces.rows(), pieces.hidden);
    let row = made.rows * hidden;
    made.sums.seen(first * hidden, &[(pieces.directions(), rows * row), (rows, row), (gates * hidden, 1)])
}

/// The gradients by the weights of the input, of the state, and of the projection.
fn weights(pieces: &mut Pieces<'_>, made: &Made) -> Option<()> {
    let (count, rows, hidden, units) = (pieces.directions(), pieces.rows(), pieces.hidden, pieces.units);
    let (gates, inputs) = (pieces.gates(), pieces.inputs);
    let of_sums = |pieces: &Pieces<'_>, first, gates| gates_of(pieces, made, first, gates);
    if pieces.has(RecurrentBackward::DIFF_WEIGHTS) {
        let src = pieces.input(Arg::SRC, rows_merge)?;
        let dst = pieces.output(RecurrentBackward::DIFF_WEIGHTS, gates_merge)?;
        let (from, to) = (src.strides()?, dst.strides()?);
        let a = src.seen(0, &[(1, 0), (inputs, from[2]), (rows, row(pieces, from))])?;
        let c = dst.seen(0, &[(count, to[0]), (inputs, to[1]), (gates * hidden, to[3])])?;
        let b = of_sums(pieces, 0, gates)?;
        pieces.multiply(&a, &b, &c, false)?;
    }
    if pieces.has(RecurrentBackward::DIFF_STATE_WEIGHTS) {
        let dst = pieces.output(RecurrentBackward::DIFF_STATE_WEIGHTS, gates_merge)?;
        let to = dst.strides()?.to_vec();
        let cell = pieces.op.cell;
        let kept = cell.rows() * hidden;
        let before = made.workspace.seen(
            cell.state_row() * hidden,
            &[(count, made.workspace.strides()?[0]), (units, 1), (rows, kept)],
        )?;
        let after = |first: usize, gates: usize| {
            dst.seen(first * to[2], &[(count, to[0]), (units, to[1]), (gates * hidden, to[3])])
        };
        let first = if cell.is_gru() { 2 } else { gates };
        let b = of_sums(pieces, 0, first)?;
        pieces.multiply(&before, &b, &after(0, first)?, false)?;
        if first < gates {
            let left = match &made.kept {
                Some(kept) => kept.seen(0, &[(count, rows * hidden), (hidden, 1), (rows, hidden)])?,
                None => before,
            };
            let b = of_sums(pieces, made.rows - 1, 1)?;
            pieces.multiply(&left, &b, &after(first, 1)?, false)?;
        }
    }
    if let Some((whole, of_states)) =
        made.projected.as_ref().filter(|_| pieces.has(RecurrentBackward::DIFF_PROJECTION))
    {
        let dst = pieces.output(RecurrentBackward::DIFF_PROJECTION, any)?;
        let to = dst.strides()?;
        let a = whole.seen(0, &[(count, rows * hidden), (hidden, 1), (rows, hidden)])?;
        let b = of_states.seen(0, &[(count, rows * units), (rows, units), (units, 1)])?;
        let c = dst.seen(0, &[(count, to[0]), (hidden, to[1]), (units, to[2])])?;
        pieces.multiply(&a, &b, &c, false)?;
    }
    Some(())
}

/// The gradients by the biases: sums over all steps and sequences.
fn biases(pieces: &mut Pieces<'_>, made: &Made) -> Option<()> {
    let (count, rows, hidden, gates) = (pieces.directions(), pieces.rows(), pieces.hidden, pieces.gates());
    let row = made.rows * hidden;
    for arg in [RecurrentBackward::DIFF_BIAS, RecurrentBackward::DIFF_STATE_BIAS] {
        if !pieces.has(arg) {
            continue;
        }
        let dst = pieces.output(arg, any)?;
        let to = dst.strides()?.to_vec();
        // The state's product before the reset has a sum of its own.
        let apart = arg == RecurrentBackward::DIFF_STATE_BIAS && made.rows > gates;
        let first = if apart { gates - 1 } else { gates };
        let parts = [(0, 0, first), (made.rows - 1, first, gates - first)];
        for (from, at, gates) in parts.into_iter().filter(|&(_, _, gates)| gates > 0) {
            let own = [(count, rows * row), (rows, row), (gates, hidden), (hidden, 1)];
            let sums = made.sums.seen(from * hidden, &own)?;
            let result = dst.seen(at * to[1], &[(count, to[0]), (1, 0), (gates, to[1]), (hidden, to[2])])?;
            pieces.sum(&sums, &result)?;
        }
    }
    Some(())
}

/// The gradients by the peepholes and by the attention.
fn others(pieces: &mut Pieces<'_>, made: &Made) -> Option<()> {
    let (count, hidden) = (pieces.directions(), pieces.hidden);
    if let Some(peepholes) = &made.peepholes {
        let dst = pieces.output(RecurrentBackward::DIFF_PEEPHOLES, any)?;
        let to = dst.strides()?;
        let result = dst.seen(0, &[(count, to[0]), (1, 0), (3, to[1]), (hidden, to[2])])?;
        pieces.sum(peepholes, &result)?;
    }
    if let Some(attention) = &made.attention {
        let dst = pieces.output(RecurrentBackward::DIFF_ATTENTION, any)?;
        let to = dst.strides()?;
        let result = dst.seen(0, &[(1, 0), (pieces.steps, to[0]), (pieces.batch, to[1]), (1, 0)])?;
        pieces.sum(attention, &result)?;
    }
    Some(())
}

//! Layers of recurrent networks.

use anydnn_backend::op::Recurrent;
use anydnn_backend::{Arg, Blocking, Dims, Error, Layout, MemoryDesc, Result};

use super::{Anchor, ToPrimitive, input, views};
use crate::compile::program::{Program, Value};
use crate::graph::{Op, RecurrentInput, recurrent_inputs, recurrent_of};

/// `Recurrent`: the operands are views of those of the graph, which have the gates' units in one dimension.
pub(super) fn layer(program: &mut Program<'_>, op: &Op) -> Result<Anchor> {
    let primitive = recurrent_of(op)?;
    let (directions, gates) = (primitive.direction.count(), primitive.cell.gates());
    let src = input(program, op, 0)?;
    let index = op.outputs.first().and_then(|&id| program.graph.producer(id)).unwrap_or_default();
    let apart = |program: &mut Program<'_>, value: Value, dims: &[usize]| {
        views::reshaped(program, value, &Dims::new(dims), index)
    };
    let mut args = vec![(Arg::SRC, src)];
    // [D, G * H, terms] as [D, terms, G, H]
    for (i, arg) in [(1, Arg::Weights), (2, Recurrent::STATE_WEIGHTS)] {
        let value = input(program, op, i)?;
        let [rows, terms] = [value.desc.dims()[1], value.desc.dims()[2]];
        let value = apart(program, value, &[directions, gates, rows / gates, terms])?;
        let desc = value.desc.permuted(&[0, 3, 1, 2])?;
        args.push((arg, value.with_desc(desc)));
    }
    for (i, kind) in recurrent_inputs(op).into_iter().enumerate() {
        let value = input(program, op, 3 + i)?;
        match kind {
            RecurrentInput::Bias => {
                let hidden = value.desc.dims()[1] / (2 * gates);
                let both = apart(program, value, &[directions, 2, gates, hidden])?;
                for (i, arg) in [Arg::Bias, Recurrent::STATE_BIAS].into_iter().enumerate() {
                    args.push((arg, both.with_desc(half(&both.desc, i)?)));
                }
            }
            RecurrentInput::Lengths => args.push((Recurrent::LENGTHS, value)),
            RecurrentInput::InitialState => args.push((Recurrent::INITIAL_STATE, value)),
            RecurrentInput::InitialCell => args.push((Recurrent::INITIAL_CELL, value)),
            RecurrentInput::Peepholes => {
                let dims = [directions, 3, value.desc.dims()[1] / 3];
                args.push((Recurrent::PEEPHOLES, apart(program, value, &dims)?));
            }
        }
    }
    let mut extra = Vec::new();
    for (arg, &id) in [Recurrent::LAST_STATE, Recurrent::LAST_CELL].into_iter().zip(&op.outputs[1..]) {
        if program.is_read(id) {
            extra.push((arg, program.result(id)?));
        }
    }
    // [T, D, N, H] as [T, N, D, H]
    let shape = ToPrimitive { order: Some(vec![0, 2, 1, 3]), ..ToPrimitive::default() };
    Ok(Anchor { op: primitive.into(), args, shape, extra })
}

/// One of two biases `[D, 2, G, H]` as `[D, G, H]`.
fn half(both: &MemoryDesc, index: usize) -> Result<MemoryDesc> {
    let blocking = both.blocking().filter(|blocking| blocking.inner.is_empty());
    let blocking =
        blocking.ok_or_else(|| Error::unsupported("recurrent", format!("biases in the layout of {both}")))?;
    let (dims, strides) = (both.dims(), &blocking.strides);
    let layout = Layout::Blocked(Blocking {
        strides: Dims::from([strides[0], strides[2], strides[3]]),
        offset: blocking.offset + index * strides[1],
        ..blocking.clone()
    });
    MemoryDesc::with_layout([dims[0], dims[2], dims[3]], both.data_type(), layout)
}

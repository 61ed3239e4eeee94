//! What an attention makes of a row of products: the expression of its scores, or of its weights.

use anydnn_backend::op::{Expression, Node};
use anydnn_backend::{Arg, PrimitiveDesc};

use super::call::Call;
use super::functions;
use super::places::{Places, strides_of};
use crate::compute::Real;

/// An expression over rows of scores.
#[derive(Debug)]
pub(super) struct Scores {
    nodes: Vec<Step>,
    result: usize,
    /// Whether the result is the products themselves.
    is_identity: bool,
}

#[derive(Debug)]
enum Step {
    Products,
    Operand {
        arg: Arg,
        first: usize,
        rows: Places,
        column: usize,
    },
    Constant(f32),
    /// The index along the last axis, or the one that rows have along another.
    Column,
    Row {
        next: usize,
        length: usize,
    },
    Node(Node),
}

/// A node's value along a row.
#[derive(Clone, Copy)]
enum Value {
    One(f32),
    Row,
}

impl Scores {
    /// None for nodes that are not known here. Further operands are the sources from `Src(3)` on.
    pub(super) fn new(op: &Expression, desc: &PrimitiveDesc) -> Option<Self> {
        let dims = &op.dims;
        let last = dims.len() - 1;
        let mut nodes = Vec::with_capacity(op.nodes.len());
        for node in &op.nodes {
            nodes.push(match *node {
                Node::Operand(0) => Step::Products,
                Node::Operand(i) => {
                    let arg = Arg::Src(i + 2);
                    let (strides, first) = strides_of(desc.find(arg)?, dims)?;
                    let rows = Places::new((0..last).map(|axis| (dims[axis], strides[axis])));
                    Step::Operand { arg, first, rows, column: strides[last] }
                }
                Node::Constant(value) => Step::Constant(value),
                Node::Index(axis) if axis == last => Step::Column,
                Node::Index(axis) => {
                    Step::Row { next: dims[axis + 1..last].iter().product(), length: dims[axis] }
                }
                Node::Eltwise(..) | Node::Binary(..) | Node::Select(..) => Step::Node(*node),
                _ => return None,
            });
        }
        let &[result] = op.results.as_slice() else { return None };
        let is_identity = matches!(nodes.get(result), Some(Step::Products));
        Some(Self { nodes, result, is_identity })
    }

    /// Numbers that [`Scores::apply`] works in, for rows of a length.
    pub(super) fn room(&self, length: usize) -> usize {
        if self.is_identity { 0 } else { self.nodes.len() * length }
    }

    /// Replaces the products of a row of the whole space.
    pub(super) fn apply(&self, call: &Call<'_>, row: usize, products: &mut [f32], room: &mut [f32]) {
        if self.is_identity {
            return;
        }
        let length = products.len();
        let mut values: smallvec::SmallVec<[Value; 16]> = smallvec::SmallVec::new();
        for (number, step) in self.nodes.iter().enumerate() {
            let (before, own) = room.split_at_mut(number * length);
            let own = &mut own[..length];
            let of = |node: usize| -> &[f32] { &before[node * length..][..length] };
            let value = match step {
                Step::Products => {
                    own.copy_from_slice(products);
                    Value::Row
                }
                Step::Operand { arg, first, rows, column } => {
                    let data = &call.input(*arg)[first + rows.at(row)..];
                    match column {
                        0 => Value::One(data[0]),
                        1 => {
                            own.copy_from_slice(&data[..length]);
                            Value::Row
                        }
                        stride => {
                            own.iter_mut().zip(data.iter().step_by(*stride)).for_each(|(to, x)| *to = *x);
                            Value::Row
                        }
                    }
                }
                Step::Constant(value) => Value::One(*value),
                Step::Column => {
                    own.iter_mut().enumerate().for_each(|(i, to)| *to = i as f32);
                    Value::Row
                }
                Step::Row { next, length } => Value::One((row / next % length) as f32),
                Step::Node(node) => self.compute(call, *node, &values, &of, own),
            };
            values.push(value);
        }
        match values[self.result] {
            Value::One(value) => products.fill(value),
            Value::Row => products.copy_from_slice(&room[self.result * length..][..length]),
        }
    }

    fn compute<'r>(
        &self,
        call: &Call<'_>,
        node: Node,
        values: &[Value],
        of: &impl Fn(usize) -> &'r [f32],
        own: &mut [f32],
    ) -> Value {
        let level = call.level;
        match node {
            Node::Eltwise(function, a) => match values[a] {
                Value::One(mut value) => {
                    functions::eltwise(level, function, std::slice::from_mut(&mut value));
                    Value::One(value)
                }
                Value::Row => {
                    own.copy_from_slice(of(a));
                    functions::eltwise(level, function, own);
                    Value::Row
                }
            },
            Node::Binary(algorithm, a, b) => match (values[a], values[b]) {
                (Value::One(mut a), Value::One(b)) => {
                    f32::binary(algorithm, std::slice::from_mut(&mut a), &[b], false);
                    Value::One(a)
                }
                (Value::One(a), Value::Row) => {
                    own.copy_from_slice(of(b));
                    functions::binary(level, algorithm, own, &[a], true);
                    Value::Row
                }
                (Value::Row, Value::One(b)) => {
                    own.copy_from_slice(of(a));
                    functions::binary(level, algorithm, own, &[b], false);
                    Value::Row
                }
                (Value::Row, Value::Row) => {
                    functions::binary_of(level, algorithm, of(a), of(b), own);
                    Value::Row
                }
            },
            Node::Select(condition, a, b) => {
                let at = |node: usize, i: usize| match values[node] {
                    Value::One(value) => value,
                    Value::Row => of(node)[i],
                };
                for (i, to) in own.iter_mut().enumerate() {
                    *to = at(if at(condition, i) == 0.0 { b } else { a }, i);
                }
                Value::Row
            }
            _ => Value::One(0.0),
        }
    }
}

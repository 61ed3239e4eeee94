//! What an attention makes of a row of products: the expression of its scores, or of its weights.

use std::ops::Range;

use anydnn_backend::op::{Expression, Node};
use anydnn_backend::{Arg, BinaryAlgorithm, PrimitiveDesc};
use smallvec::SmallVec;

use super::call::Call;
use super::functions;
use super::places::{Places, strides_of};
use super::sink;
use crate::compute::Real;

/// An expression over rows of scores.
#[derive(Debug)]
pub(super) struct Scores {
    nodes: Vec<Step>,
    result: usize,
    /// The same as what is done to the products one after the other, where that is all.
    links: Option<Vec<Link>>,
}

/// A product or sum, or their opposites with one number, whose other operand is what came before.
#[derive(Debug)]
struct Link {
    algorithm: BinaryAlgorithm,
    by: Leaf,
}

#[derive(Clone, Debug)]
enum Leaf {
    Constant(f32),
    /// One element of an operand.
    One(Arg, usize),
    /// Rows of an operand, whose elements are neighbours.
    Rows {
        arg: Arg,
        first: usize,
        rows: Places,
    },
}

/// [`Link`]s of some rows.
pub(super) struct Links<'a> {
    links: SmallVec<[BoundLink<'a>; 3]>,
}

enum BoundLink<'a> {
    One(sink::Step<'static>),
    /// An operand's numbers, the offset of each row, and whether they are added instead of multiplied by.
    Rows {
        data: &'a [f32],
        offsets: Vec<usize>,
        adds: bool,
    },
}

impl Links<'_> {
    /// The steps behind the products of some of the rows from a column on.
    pub(super) fn steps(
        &self,
        rows: Range<usize>,
        column: usize,
        columns: usize,
    ) -> SmallVec<[sink::Step<'_>; 3]> {
        self.links.iter().map(|link| link.step(rows.clone(), column, columns)).collect()
    }
}

impl BoundLink<'_> {
    fn step(&self, rows: Range<usize>, column: usize, columns: usize) -> sink::Step<'_> {
        match self {
            Self::One(step) => *step,
            Self::Rows { data, offsets, adds } => {
                let offsets = &offsets[rows];
                let reach = offsets.iter().max().map_or(0, |last| last + columns);
                let from = data[column..][..reach].as_ptr();
                match adds {
                    true if offsets.iter().all(|&offset| offset == 0) => sink::Step::AddColumns(from),
                    true => sink::Step::Add(from, offsets),
                    false => sink::Step::Multiply(from, offsets),
                }
            }
        }
    }
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
        let links = links(&nodes, result);
        Some(Self { nodes, result, links })
    }

    /// What is done to the products of some rows of the whole space, one step after the other; none where that is not all, and
    /// [`Scores::apply`] is called instead.
    pub(super) fn links<'a>(&self, call: &Call<'a>, first_row: usize, count: usize) -> Option<Links<'a>> {
        let bind = |link: &Link| {
            let value = match &link.by {
                Leaf::Constant(value) => *value,
                Leaf::One(arg, first) => call.input(*arg)[*first],
                Leaf::Rows { arg, first, rows } => {
                    let mut offsets = Vec::with_capacity(count);
                    rows.fill(first_row, count, &mut offsets);
                    let adds = link.algorithm == BinaryAlgorithm::Add;
                    return Some(BoundLink::Rows { data: &call.input(*arg)[*first..], offsets, adds });
                }
            };
            Some(BoundLink::One(match link.algorithm {
                BinaryAlgorithm::Add => sink::Step::AddOne(value),
                BinaryAlgorithm::Subtract => sink::Step::AddOne(-value),
                BinaryAlgorithm::Multiply => sink::Step::MultiplyOne(value),
                // Within half a unit in the last place of the quotient, unless the inverse has few digits or is infinite.
                _ if (1.0 / value).is_normal() => sink::Step::MultiplyOne(1.0 / value),
                _ => return None,
            }))
        };
        Some(Links { links: self.links.as_ref()?.iter().map(bind).collect::<Option<_>>()? })
    }

    /// Numbers that [`Scores::apply`] works in, for rows of a length.
    pub(super) fn room(&self, length: usize) -> usize {
        if self.is_identity() { 0 } else { self.nodes.len() * length }
    }

    /// Whether scores are the products themselves.
    fn is_identity(&self) -> bool {
        self.links.as_ref().is_some_and(Vec::is_empty)
    }

    /// Replaces the products of a row of the whole space.
    pub(super) fn apply(&self, call: &Call<'_>, row: usize, products: &mut [f32], room: &mut [f32]) {
        if self.is_identity() {
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

/// The steps from the products to a node, where each joins what came before with a leaf.
fn links(nodes: &[Step], result: usize) -> Option<Vec<Link>> {
    use BinaryAlgorithm::{Add, Divide, Multiply, Subtract};
    let (mut links, mut at) = (Vec::new(), result);
    loop {
        match nodes.get(at)? {
            Step::Products => break,
            Step::Node(Node::Binary(algorithm, a, b)) => {
                let (by, before) = match (algorithm, leaf(&nodes[*a]), leaf(&nodes[*b])) {
                    (Add | Multiply, _, Some(by)) => (by, *a),
                    (Add | Multiply, Some(by), None) => (by, *b),
                    (Subtract | Divide, _, Some(by)) if !matches!(by, Leaf::Rows { .. }) => (by, *a),
                    _ => return None,
                };
                links.push(Link { algorithm: *algorithm, by });
                at = before;
            }
            _ => return None,
        }
    }
    links.reverse();
    Some(links)
}

/// A node that steps in registers can join with the products.
fn leaf(node: &Step) -> Option<Leaf> {
    match node {
        Step::Constant(value) => Some(Leaf::Constant(*value)),
        Step::Operand { arg, first, rows, column: 0 } if rows.stride() == Some(0) => {
            Some(Leaf::One(*arg, *first))
        }
        Step::Operand { arg, first, rows, column: 1 } => {
            Some(Leaf::Rows { arg: *arg, first: *first, rows: rows.clone() })
        }
        _ => None,
    }
}

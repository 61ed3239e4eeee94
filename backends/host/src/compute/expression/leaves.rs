//! What an expression reads: sources, indices and random numbers, at positions of a space whose axes may change places.

use anydnn_backend::op::{Expression, Node, keeps, random};
use anydnn_backend::{Arg, Dims, Result};
use smallvec::SmallVec;

use super::super::element::{Element, Float};
use super::super::operands::Operands;
use super::super::view::View;

/// The leaves of an expression by node.
#[derive(Debug)]
pub(crate) struct Leaves<'a>(Vec<Leaf<'a>>);

#[derive(Debug)]
enum Leaf<'a> {
    /// Not a leaf, or one that the caller has.
    None,
    View(Box<View<'a>>),
    /// An index along an axis of a length and stride.
    Index {
        stride: usize,
        length: usize,
    },
    Keep {
        seed: i64,
        offset: i64,
        probability: f32,
        place: Place,
    },
    Random {
        seed: i64,
        offset: i64,
        place: Place,
    },
}

/// From positions to row-major indices of the space: length, own stride and row-major stride of each axis, none where they are the same.
type Place = SmallVec<[(usize, usize, usize); 6]>;

impl<'a> Leaves<'a> {
    /// The leaves at positions of `dims` with the axes in `order`. `source` says which argument a source is, none for those that the
    /// caller has. The dimensions are those of the space, or of its folded form for nodes that do not vary.
    pub(crate) fn new(
        operands: &Operands<'a>,
        expression: &Expression,
        dims: &Dims,
        order: &[usize],
        source: impl Fn(u16) -> Option<Arg>,
    ) -> Result<Self> {
        let ordered: Dims = order.iter().map(|&axis| dims[axis]).collect();
        let own = ordered.row_major_strides();
        let stride_of = |axis: usize| order.iter().position(|&a| a == axis).map_or(1, |i| own[i]);
        let mut leaves = Vec::with_capacity(expression.nodes.len());
        for node in &expression.nodes {
            leaves.push(match *node {
                Node::Operand(i) => match source(i) {
                    // A source that varies has no place in the folded form of the space.
                    Some(arg) => {
                        let (desc, bytes) = operands.required(arg)?;
                        if desc.dims().broadcasts_by_blocks_to(dims) {
                            Leaf::View(Box::new(View::ordered(desc, bytes, dims, order)?))
                        } else {
                            Leaf::None
                        }
                    }
                    None => Leaf::None,
                },
                Node::Index(axis) => Leaf::Index { stride: stride_of(axis), length: dims[axis] },
                Node::Keep { .. } | Node::Random { .. } => {
                    let integer = |i: u16| scalar::<i64>(operands, source(i));
                    let row_major = dims.row_major_strides();
                    let mut place: Place = SmallVec::new();
                    if order.iter().enumerate().any(|(i, &axis)| i != axis) {
                        place.extend(
                            (0..dims.len()).map(|axis| (dims[axis], stride_of(axis), row_major[axis])),
                        );
                    }
                    match *node {
                        Node::Keep { seed, offset, probability } => Leaf::Keep {
                            seed: integer(seed)?,
                            offset: integer(offset)?,
                            probability: scalar::<f32>(operands, source(probability))?,
                            place,
                        },
                        Node::Random { seed, offset } => {
                            Leaf::Random { seed: integer(seed)?, offset: integer(offset)?, place }
                        }
                        _ => Leaf::None,
                    }
                }
                _ => Leaf::None,
            });
        }
        Ok(Self(leaves))
    }

    /// The values of a leaf from position `start` on.
    pub(crate) fn load<T: Float>(&self, node: usize, start: usize, values: &mut [T]) {
        match &self.0[node] {
            Leaf::None => values.fill(T::ZERO),
            Leaf::View(view) => view.load(start, values),
            Leaf::Index { stride, length } => {
                for (i, value) in values.iter_mut().enumerate() {
                    *value = T::from_i64(((start + i) / stride % length) as i64);
                }
            }
            Leaf::Keep { seed, offset, probability, place } => {
                for (i, value) in values.iter_mut().enumerate() {
                    let kept = keeps(*seed, *offset, row_major_index(place, start + i), *probability);
                    *value = if kept { T::ONE } else { T::ZERO };
                }
            }
            Leaf::Random { seed, offset, place } => {
                for (i, value) in values.iter_mut().enumerate() {
                    *value = T::from_f64(random(*seed, *offset, row_major_index(place, start + i)));
                }
            }
        }
    }
}

/// The row-major index in the space of a position.
fn row_major_index(place: &Place, at: usize) -> u64 {
    if place.is_empty() {
        return at as u64;
    }
    let index: usize = place.iter().map(|(length, own, row_major)| at / own % length * row_major).sum();
    index as u64
}

/// The only element of a source.
fn scalar<S: Element>(operands: &Operands<'_>, arg: Option<Arg>) -> Result<S> {
    let mut value = [S::ZERO];
    if let Some(arg) = arg {
        let (desc, bytes) = operands.required(arg)?;
        View::new(desc, bytes)?.load(0, &mut value);
    }
    Ok(value[0])
}

/// Whether an expression computes with the elements of a source; a dropout's seed, offset and probability are no such elements.
pub(crate) fn reads(expression: &Expression, source: u16) -> bool {
    expression.nodes.contains(&Node::Operand(source))
}

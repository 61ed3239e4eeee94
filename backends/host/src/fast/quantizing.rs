//! Quantisation by the range of the values themselves: an expression that folds a whole tensor into its extremes, computes a few numbers
//! from these, and makes an integer of eight bits of every element.

use std::sync::Mutex;

use anydnn_backend::op::{BinaryAlgorithm, Expression, Fold, Node, ReductionAlgorithm};
use anydnn_backend::{Arg, DataType, Eltwise, MemoryDesc, PrimitiveDesc};

use super::call::Call;
use super::crew::lock;
use super::level::for_levels;
use super::{Fast, sums};
use crate::compute::{Kind, Real, read_run, write_run};

/// Elements that one thread does sooner than another one comes to help.
const ALONE: usize = 1 << 14;
/// Elements of a task, and of a piece of which both extremes are taken while it is near.
const TASK: usize = 1 << 14;
const PIECE: usize = 1 << 11;

#[derive(Debug)]
pub(super) struct Quantizing {
    /// The operand whose elements are quantised.
    src: u16,
    elements: usize,
    /// The nodes with one value each, in order.
    numbers: Vec<(usize, Node)>,
    nodes: usize,
    target: Target,
    /// The other results, their nodes and types.
    results: Vec<(Arg, usize, Kind)>,
}

/// The result of every element: what is divided by the one number, rounded, and added to the other one.
#[derive(Clone, Copy, Debug)]
struct Target {
    arg: Arg,
    divisor: usize,
    point: usize,
}

impl Quantizing {
    pub(super) fn new(op: &Expression, desc: &PrimitiveDesc) -> Option<Self> {
        let is_one = |dims: &[usize]| dims.iter().all(|&dim| dim == 1);
        if !desc.attributes().post_ops.is_empty() || !is_one(&op.folded_dims()) || op.dims.elements() < 2 {
            return None;
        }
        let varies = op.varies(|i| desc.find(Arg::Src(i)).map(|desc| desc.dims().clone()));
        let mut varying = op.nodes.iter().zip(&varies).filter_map(|(node, varies)| match *node {
            Node::Operand(i) if *varies => Some(i),
            _ => None,
        });
        let (src, None) = (varying.next()?, varying.next()) else { return None };
        let is_src = |node: usize| op.nodes[node] == Node::Operand(src);
        let operand = desc.find(Arg::Src(src))?;
        if !is_dense(operand, op) || operand.data_type() != DataType::F32 {
            return None;
        }
        let mut reached = vec![false; op.nodes.len()];
        let mut target = None;
        let mut results = Vec::new();
        for (i, &node) in op.results.iter().enumerate() {
            let arg = Arg::Dst(i as u16);
            let stored = desc.find(arg)?;
            if is_one(stored.dims()) {
                reached[node] = true;
                results.push((arg, node, Kind::of(stored.data_type()).ok()?));
                continue;
            }
            let (divisor, point) = quantized(op, node, &varies, is_src)?;
            let along = |desc: &MemoryDesc, axis: usize| desc.strides().map(|strides| strides[axis]);
            let mut axes = (0..op.dims.len()).filter(|&axis| op.dims[axis] != 1);
            let same = axes.all(|axis| along(stored, axis) == along(operand, axis));
            if target.is_some() || stored.data_type() != DataType::U8 || !is_dense(stored, op) || !same {
                return None;
            }
            (reached[divisor], reached[point]) = (true, true);
            target = Some(Target { arg, divisor, point });
        }
        let mut numbers = Vec::new();
        // Last to first: what a node uses comes before it.
        for node in (0..op.nodes.len()).rev() {
            if !reached[node] {
                continue;
            }
            let own = op.nodes[node];
            let fits = match own {
                Node::Operand(i) => desc
                    .find(Arg::Src(i))
                    .is_some_and(|desc| desc.elements() == 1 && desc.data_type() == DataType::F32),
                Node::Constant(_) | Node::Eltwise(..) | Node::Binary(..) | Node::Select(..) => true,
                Node::Cast(data_type, _) => Kind::of(data_type).is_ok(),
                Node::Fold(Fold::Max | Fold::Min, of) => is_src(of),
                _ => false,
            };
            if !fits || varies[node] {
                return None;
            }
            if !matches!(own, Node::Fold(..)) {
                own.uses().for_each(|used| reached[used] = true);
            }
            numbers.push((node, own));
        }
        numbers.reverse();
        let (elements, nodes) = (op.dims.elements(), op.nodes.len());
        Some(Self { src, elements, numbers, nodes, target: target?, results })
    }

    /// The least and the largest element.
    fn extremes(&self, call: &Call<'_>, src: &[f32]) -> (f32, f32) {
        let of = |elements: &[f32]| {
            elements.chunks(PIECE).fold((f32::INFINITY, f32::NEG_INFINITY), |(least, most), piece| {
                let low = sums::fold(call.level, ReductionAlgorithm::Min, piece);
                let high = sums::fold(call.level, ReductionAlgorithm::Max, piece);
                (
                    sums::join(ReductionAlgorithm::Min, least, low),
                    sums::join(ReductionAlgorithm::Max, most, high),
                )
            })
        };
        if src.len() <= ALONE {
            return of(src);
        }
        let found = Mutex::new((f32::INFINITY, f32::NEG_INFINITY));
        call.crew.run(src.len().div_ceil(TASK), &|task| {
            let (low, high) = of(&src[task * TASK..src.len().min((task + 1) * TASK)]);
            let mut found = lock(&found);
            found.0 = sums::join(ReductionAlgorithm::Min, found.0, low);
            found.1 = sums::join(ReductionAlgorithm::Max, found.1, high);
        });
        *lock(&found)
    }

    /// The value of each node that has one.
    fn values(&self, call: &Call<'_>, (least, most): (f32, f32)) -> Vec<f32> {
        let mut values = vec![0.0_f32; self.nodes];
        for &(node, own) in &self.numbers {
            values[node] = match own {
                Node::Operand(i) => call.input(Arg::Src(i)).first().copied().unwrap_or_default(),
                Node::Constant(value) => value,
                Node::Eltwise(function, a) => {
                    let mut value = [values[a]];
                    f32::eltwise(function, &mut value);
                    value[0]
                }
                Node::Binary(algorithm, a, b) => {
                    let mut value = [values[a]];
                    f32::binary(algorithm, &mut value, &[values[b]], false);
                    value[0]
                }
                Node::Select(condition, a, b) => values[if values[condition] == 0.0 { b } else { a }],
                Node::Cast(data_type, a) => {
                    Kind::of(data_type).map_or(values[a], |kind| stored(kind, values[a]))
                }
                Node::Fold(Fold::Min, _) => least,
                _ => most,
            };
        }
        values
    }
}

/// A value after a store as a type and a load.
fn stored(kind: Kind, value: f32) -> f32 {
    let (mut bytes, mut back) = ([0_u64], [0.0_f32]);
    let bytes = &mut bytemuck::bytes_of_mut(&mut bytes)[..kind.data_type().bytes_for(1)];
    write_run(kind, &[value], bytes);
    read_run(kind, bytes, &mut back);
    back[0]
}

/// Whether an operand has the elements of the space one after the other, in whatever order.
fn is_dense(desc: &MemoryDesc, op: &Expression) -> bool {
    *desc.dims() == op.dims
        && desc.blocking().is_some_and(|blocking| blocking.inner.is_empty() && blocking.offset == 0)
        && desc.size() == op.dims.elements() * desc.data_type().bits() / 8
}

/// Divisor and zero point of `round(x / divisor) + point`, perhaps stored.
fn quantized(
    op: &Expression,
    node: usize,
    varies: &[bool],
    is_src: impl Fn(usize) -> bool,
) -> Option<(usize, usize)> {
    let sum = if let Node::Cast(DataType::U8, of) = op.nodes[node] { of } else { node };
    let Node::Binary(BinaryAlgorithm::Add, a, b) = op.nodes[sum] else { return None };
    let (steps, point) = if varies[a] { (a, b) } else { (b, a) };
    let Node::Eltwise(Eltwise::Round, quotient) = op.nodes[steps] else { return None };
    let Node::Binary(BinaryAlgorithm::Divide, x, divisor) = op.nodes[quotient] else { return None };
    (is_src(x) && !varies[divisor] && !varies[point]).then_some((divisor, point))
}

impl Fast for Quantizing {
    fn name(&self) -> &'static str {
        "host:quantizing"
    }

    fn run(&self, call: &Call<'_>) {
        let src = &call.input(Arg::Src(self.src))[..self.elements];
        let values = self.values(call, self.extremes(call, src));
        for &(arg, node, kind) in &self.results {
            // SAFETY: nothing else has a part of this result.
            let bytes = unsafe { call.output(arg).bytes_part(0, kind.data_type().bytes_for(1)) };
            write_run(kind, &[values[node]], bytes);
        }
        let dst = call.output(self.target.arg);
        let (divisor, point) = (values[self.target.divisor], values[self.target.point]);
        let work = |task: usize| {
            let first = task * TASK;
            let count = TASK.min(self.elements - first);
            // SAFETY: every task has bytes of its own.
            let to = unsafe { dst.bytes_part(first, count) };
            quantize(call.level, &src[first..][..count], divisor, point, to);
        };
        let tasks = self.elements.div_ceil(TASK);
        if self.elements <= ALONE { (0..tasks).for_each(work) } else { call.crew.run(tasks, &work) }
    }
}

for_levels! {
    fn quantize(values: &[f32], divisor: f32, point: f32, to: &mut [u8]) = quantize_body
}

#[inline(always)]
#[expect(clippy::manual_clamp, reason = "what is no number becomes zero")]
fn quantize_body(values: &[f32], divisor: f32, point: f32, to: &mut [u8]) {
    for (to, &value) in to.iter_mut().zip(values) {
        let stored = ((value / divisor).round_ties_even() + point).max(0.0).min(255.0);
        // A whole number beyond whose last bit there is none: the lowest bits are those of the integer.
        *to = (stored.round_ties_even() + 8_388_608.0).to_bits() as u8;
    }
}

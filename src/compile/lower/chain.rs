//! What rides on the result of a unit: a chain of operations, found before anything is emitted.

use std::sync::LazyLock;

use anydnn_backend::op::Eltwise;
use anydnn_backend::{DataType, MemoryDesc, Result};

use super::exact::is_exact;
use super::operand::Operand;
use super::pointwise::{binary_of, eltwise_of, is_unary};
use super::quantization::{is_per_tensor, is_quantize};
use super::region::{Free, Region};
use crate::formula::{Formula, any, find_map, parts};
use crate::graph::{Op, OpKind, TensorId, is_truth, order_of};

/// The operations behind a unit's result that it does before it stores it.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub(super) links: Vec<Link>,
    /// Views of the result, in order; where they are done the elements are stored as the last of them wants.
    pub(super) views: Vec<usize>,
    /// All operations, views included.
    pub(super) ops: Vec<usize>,
    /// What is stored.
    pub(super) result: TensorId,
}

/// One post-operation or more.
#[derive(Clone, Debug)]
pub(super) enum Link {
    /// A function of the element.
    Unary(usize),
    /// A product with a sigmoid of itself, which is this operation.
    Gated(usize),
    /// A bias along the channels.
    Bias(usize),
    /// A batch normalisation by given statistics.
    BatchNorm(usize),
    /// A function of the element and another tensor's; the chain is input `chain_input` of the operation.
    Binary { op: usize, chain_input: usize, other: Operand },
    /// A choice between the element and another tensor's; the chain is input `chain_input` of the operation.
    Select { op: usize, chain_input: usize },
    /// Division by scales; the store rounds.
    Quantize(usize),
}

impl Link {
    /// The operation whose other inputs are read.
    pub(super) fn op(&self) -> usize {
        match *self {
            Self::Unary(op)
            | Self::Gated(op)
            | Self::Bias(op)
            | Self::BatchNorm(op)
            | Self::Quantize(op)
            | Self::Binary { op, .. }
            | Self::Select { op, .. } => op,
        }
    }
}

impl Chain {
    /// Nothing rides on `result`.
    pub(super) fn none(result: TensorId) -> Self {
        Self { links: Vec::new(), views: Vec::new(), ops: Vec::new(), result }
    }

    /// As much as can ride on `start` and is not `taken`.
    pub(super) fn grow(region: &Region<'_>, start: TensorId, taken: impl Fn(usize) -> bool) -> Self {
        let mut chain = Self::none(start);
        // What must come last: a type that only the store makes.
        let mut closed = false;
        loop {
            let tensor = chain.result;
            if region.leaves(tensor) {
                break;
            }
            if !closed
                && chain.views.is_empty()
                && let Some([sigmoid, multiply]) = gated_by_itself(region, tensor, &taken)
            {
                chain.links.push(Link::Gated(sigmoid));
                chain.ops.extend([sigmoid, multiply]);
                chain.result = region.op(multiply).outputs[0];
                continue;
            }
            let Some(op) = region.only_reader(tensor).filter(|&op| !taken(op)) else { break };
            let Some(result) = region.only_result(op) else { break };
            match link(region, op, tensor, chain.views.is_empty(), closed) {
                None => break,
                Some(Step::View) => chain.views.push(op),
                Some(Step::Nothing) => {}
                Some(Step::Last(link)) => {
                    chain.links.extend(link);
                    closed = true;
                }
                Some(Step::Link(link)) => chain.links.push(link),
            }
            chain.ops.push(op);
            chain.result = result;
        }
        chain.drop_free_views(region);
        chain
    }

    /// Gives up the views at the end that cost nothing as they are: those of a dense temporary.
    fn drop_free_views(&mut self, region: &Region<'_>) {
        let trailing = self.ops.iter().rev().take_while(|op| self.views.contains(op)).count();
        if trailing == 0 || region.graph.outputs().contains(&self.result) {
            return;
        }
        let first = self.ops.len() - trailing;
        let source = region.op(self.ops[first]).inputs[0];
        let Some(dims) = region.dims(source) else { return };
        let mut desc = Ok(MemoryDesc::new(dims, DataType::F32));
        for &view in &self.ops[first..] {
            let op = region.op(view);
            desc = desc.and_then(|desc: MemoryDesc| match op.kind {
                OpKind::StaticTranspose => desc.permuted(&order_of(op, desc.rank())?),
                OpKind::StaticReshape => desc.reshaped(region.dims(op.outputs[0]).unwrap_or_default()),
                _ => Ok(desc),
            });
        }
        if desc.is_ok() {
            self.ops.truncate(first);
            self.views.truncate(self.views.len() - trailing);
            self.result = source;
        }
    }

    /// Finds what the operands of the chain can be read through.
    pub(super) fn plan_operands(&mut self, region: &Region<'_>, taken: impl Fn(usize) -> bool) {
        for link in &mut self.links {
            if let Link::Binary { op, other, .. } = link {
                let kind = region.kind(*op);
                let dequantize = matches!(kind, OpKind::Add | OpKind::Subtract | OpKind::Multiply);
                let planned = Operand::plan(region, other.tensor, dequantize, &taken);
                // Post-operations stretch their operands, but not by groups; and zero points are added, not multiplied.
                let in_groups = |op: &Op| op.attrs.says("qtype", "per_group");
                let fails = |op: &Op| in_groups(op) || kind == OpKind::Multiply && has_zero_points(op);
                *other = if planned.dequantize(region.graph).is_some_and(fails) {
                    Operand::plan(region, other.tensor, false, &taken)
                } else {
                    planned
                };
            }
        }
    }

    /// The tensors that the links read besides the chain.
    pub(super) fn reads(&self, region: &Region<'_>) -> Vec<TensorId> {
        let mut reads = Vec::new();
        for link in &self.links {
            match link {
                Link::Binary { other, .. } => reads.extend(other.reads(region.graph)),
                Link::Select { op, chain_input } => {
                    let inputs = region.op(*op).inputs.iter().enumerate();
                    reads.extend(inputs.filter(|(i, _)| i != chain_input).map(|(_, &id)| id));
                }
                _ => reads.extend(region.op(link.op()).inputs.iter().skip(1)),
            }
        }
        reads
    }
}

/// What an operation is for a chain.
enum Step {
    View,
    /// A cast between floats.
    Nothing,
    /// Only views may follow.
    Last(Option<Link>),
    Link(Link),
}

fn link(region: &Region<'_>, op: usize, tensor: TensorId, own_shape: bool, closed: bool) -> Option<Step> {
    let operation = region.op(op);
    let chain_input = operation.inputs.iter().position(|&id| id == tensor)?;
    let (own, result) = (region.dims(tensor)?, region.dims(operation.outputs[0])?);
    match operation.kind {
        OpKind::StaticReshape | OpKind::StaticTranspose => return Some(Step::View),
        OpKind::Reorder => return Some(Step::Nothing),
        _ if closed || own != result => return None,
        // Post-operations are computed in floats.
        _ if is_exact(region.graph, op) => return None,
        _ => {}
    }
    match operation.kind {
        OpKind::TypeCast if region.casts_floats(op) => Some(Step::Nothing),
        OpKind::TypeCast => Some(Step::Last(None)),
        kind if is_quantize(kind) && chain_input == 0 && (own_shape || is_per_tensor(operation)) => {
            Some(Step::Last(Some(Link::Quantize(op))))
        }
        kind if is_unary(kind) => Some(Step::Link(Link::Unary(op))),
        OpKind::BiasAdd if own_shape && chain_input == 0 => Some(Step::Link(Link::Bias(op))),
        OpKind::BatchNormInference if own_shape && chain_input == 0 => Some(Step::Link(Link::BatchNorm(op))),
        OpKind::Select if own_shape && chain_input > 0 => Some(Step::Link(Link::Select { op, chain_input })),
        kind if binary_of(kind).is_some() => {
            let other = operation.inputs[1 - chain_input];
            if !own_shape && region.dims(other)?.elements() != 1 {
                return None;
            }
            let link = Link::Binary { op, chain_input, other: Operand::plain(other) };
            // A truth value is what the store makes of it.
            Some(if is_truth(kind) { Step::Last(Some(link)) } else { Step::Link(link) })
        }
        _ => None,
    }
}

/// The sigmoid and the product of a tensor that is gated by itself and read by nothing else.
fn gated_by_itself(
    region: &Region<'_>,
    tensor: TensorId,
    taken: &dyn Fn(usize) -> bool,
) -> Option<[usize; 2]> {
    static FORMULA: LazyLock<Formula> =
        LazyLock::new(|| Formula::new(parts::gated_by_itself(&any().named("x"))));
    let &[a, b] = region.readers(tensor).as_slice() else { return None };
    let product = if region.kind(a) == OpKind::Multiply { a } else { b };
    if region.leaves(tensor) || taken(product) {
        return None;
    }
    find_map(&Free { region, taken }, &FORMULA, product, |found| {
        let sigmoid = found.op("sigmoid").filter(|sigmoid| [a, b].contains(sigmoid))?;
        (found.tensor("x") == Some(tensor)).then_some([sigmoid, product])
    })
}

/// Whether a dequantisation subtracts something.
fn has_zero_points(op: &Op) -> bool {
    let given = op.attrs.s64s("zps").is_ok_and(|zps| zps.iter().any(|&zp| zp != 0));
    given || op.inputs.len() > 2
}

/// What a tensor becomes that is gated by itself through an operation.
pub(super) fn gated_eltwise(sigmoid: &Op) -> Result<Eltwise> {
    Ok(match eltwise_of(sigmoid)? {
        Eltwise::HardSigmoid { alpha, beta } => Eltwise::HardSwish { alpha, beta },
        _ => Eltwise::Swish { alpha: 1.0 },
    })
}

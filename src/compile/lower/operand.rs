//! What a unit reads: a tensor, and the operations that it does as it reads.

use anydnn_backend::{Dims, Error, Result};

use super::quantization::{Scales, is_dequantize, reshaped_blocks, scale_dims};
use super::region::Region;
use super::views;
use crate::compile::program::{Program, Value, declared};
use crate::graph::{Graph, Op, OpKind, TensorId, order_of};

/// An operand of a unit: a tensor, seen through operations that need no step of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operand {
    /// The tensor that is read.
    pub(super) tensor: TensorId,
    /// The operations between it and the operand, in order: casts, views and at most one dequantisation.
    pub(super) through: Vec<usize>,
}

/// An operand's value.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) value: Value,
    /// How it is dequantised, in the dimensions of the value.
    pub(super) scales: Option<Scales>,
}

impl Operand {
    /// The tensor itself.
    pub(super) fn plain(tensor: TensorId) -> Self {
        Self { tensor, through: Vec::new() }
    }

    /// The operand `tensor` seen through as many operations as can be; `taken` are those that others do.
    pub(super) fn plan(
        region: &Region<'_>,
        tensor: TensorId,
        dequantize: bool,
        taken: impl Fn(usize) -> bool,
    ) -> Self {
        let mut best = Self::plain(tensor);
        let mut above = Vec::new();
        let (mut at, mut quantized) = (tensor, false);
        while let Some(op) = region.producer(at).filter(|&op| !taken(op)) {
            let kind = region.kind(op);
            // A view alone costs nothing anyway; what is behind it may be worth looking through.
            let worth = match kind {
                OpKind::TypeCast if region.casts_floats(op) => true,
                OpKind::Reorder => keeps_rows(region, region.op(op).inputs[0], &taken),
                OpKind::StaticReshape | OpKind::StaticTranspose => false,
                _ if is_dequantize(kind) && dequantize && !quantized => {
                    if !fits_views(region, op, &above) {
                        break;
                    }
                    quantized = true;
                    true
                }
                _ => break,
            };
            above.push(op);
            at = region.op(op).inputs[0];
            if worth {
                best = Self { tensor: at, through: above.iter().rev().copied().collect() };
            }
        }
        best
    }

    /// The tensors whose values it needs.
    pub(super) fn reads(&self, graph: &Graph) -> Vec<TensorId> {
        let mut reads = vec![self.tensor];
        for &op in &self.through {
            reads.extend(graph.ops()[op].inputs.iter().skip(1));
        }
        reads
    }

    /// The operation that dequantises it.
    pub(super) fn dequantize<'g>(&self, graph: &'g Graph) -> Option<&'g Op> {
        self.through.iter().map(|&op| &graph.ops()[op]).find(|op| is_dequantize(op.kind))
    }

    /// The value, with what dequantises it.
    pub(super) fn read(&self, program: &mut Program<'_>) -> Result<Read> {
        let graph = program.graph;
        let mut read = Read { value: program.value(self.tensor)?, scales: None };
        for &index in &self.through {
            let op = &graph.ops()[index];
            match op.kind {
                OpKind::StaticTranspose => {
                    let order = order_of(op, read.value.desc.rank())?;
                    read.value = read.value.with_desc(read.value.desc.permuted(&order)?);
                    read.scales =
                        read.scales.map(|scales| scales.viewed(|desc| desc.permuted(&order))).transpose()?;
                }
                OpKind::StaticReshape => {
                    let from = declared(graph, op.inputs[0])?.dims().clone();
                    let to = declared(graph, op.outputs[0])?.dims().clone();
                    let blocks = |desc: &anydnn_backend::MemoryDesc| {
                        let dims = reshaped_blocks(desc.dims(), &from, &to).ok_or_else(|| {
                            Error::unsupported(op.to_string(), format!("scales {desc} for {to}"))
                        })?;
                        desc.reshaped(dims)
                    };
                    read.scales = read.scales.map(|scales| scales.viewed(blocks)).transpose()?;
                    read.value = views::reshaped(program, read.value, &to, index)?;
                }
                kind if is_dequantize(kind) => read.scales = Some(Scales::of(program, op)?),
                _ => {}
            }
        }
        Ok(read)
    }
}

/// Whether a tensor is a transposition that leaves the last axis where it is: its rows can be read as they lie.
fn keeps_rows(region: &Region<'_>, tensor: TensorId, taken: impl Fn(usize) -> bool) -> bool {
    let Some(op) = region.producer(tensor).filter(|&op| !taken(op)).map(|op| region.op(op)) else {
        return false;
    };
    let rank = region.dims(tensor).map_or(0, |dims| dims.len());
    op.kind == OpKind::StaticTranspose
        && order_of(op, rank).is_ok_and(|order| order.last().is_some_and(|&last| last + 1 == rank))
}

/// Whether the scales of a dequantisation can follow the views behind it, which come last to first.
fn fits_views(region: &Region<'_>, dequantize: usize, views: &[usize]) -> bool {
    let op = region.op(dequantize);
    let Some(mut dims) = region.dims(op.inputs[0]) else { return false };
    let Ok(mut blocks) = scale_dims(op, &dims) else { return false };
    for &view in views.iter().rev() {
        let view = region.op(view);
        let Some(to) = region.dims(view.outputs[0]) else { return false };
        match view.kind {
            OpKind::StaticTranspose => {
                let Ok(order) = order_of(view, dims.len()) else { return false };
                blocks = order.iter().map(|&axis| blocks[axis]).collect::<Dims>();
            }
            OpKind::StaticReshape => {
                let Some(reshaped) = reshaped_blocks(&blocks, &dims, &to) else { return false };
                blocks = reshaped;
            }
            _ => {}
        }
        dims = to;
    }
    true
}

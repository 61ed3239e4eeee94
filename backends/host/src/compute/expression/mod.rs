//! Expressions: chunk by chunk, folded axes in slabs that stay in the cache.

mod fold;
mod leaves;
mod plan;
mod slab;

use anydnn_backend::op::{Expression, Node};
use anydnn_backend::{Arg, Dims, Error, MemoryDesc, PrimitiveDesc, Result, check_host_memory};
use rayon::prelude::*;

use super::element::Float;
use super::epilogue::{Epilogue, produce};
use super::operands::{Operands, Results};
use super::pack::pack;
use super::{CHUNK, Compute};
pub(crate) use leaves::{Leaves, reads};
pub(crate) use plan::{Plan, Used};
use slab::{Output, Program, Slab};

/// Elements of a slab, unless one group has more. It does not depend on the number of threads, so that neither do the sums.
const SLAB: usize = 1 << 14;

pub(crate) fn compute<T: Float>(
    op: &Expression,
    operands: &Operands<'_>,
    results: &mut Results<'_, '_>,
) -> Result<()> {
    let space = Space::new(op);
    let epilogue = Epilogue::new(operands)?;
    let mut buffers: Vec<Buffer<'_, T>> = Vec::new();
    for (arg, bytes) in results.0.iter_mut() {
        if let (Arg::Dst(i), Some(desc)) = (*arg, operands.desc.find(*arg)) {
            let follows = *arg == Arg::DST && !operands.desc.attributes().post_ops.is_empty();
            buffers.push(Buffer::new(usize::from(i), desc, bytes, &space, follows)?);
        }
    }
    buffers.sort_by_key(|buffer| buffer.result);
    let outputs: Vec<Output> = buffers
        .iter()
        .map(|buffer| Output { node: op.results[buffer.result], full: *buffer.desc.dims() == op.dims })
        .collect();
    let program = Program::new(op, operands, &space, &outputs)?;
    let mut slabs: Vec<Slab<'_, T>> = (0..space.slabs()).map(|i| space.slab(i)).collect();
    for (buffer, output) in buffers.iter_mut().zip(&outputs) {
        let groups = space.outer_of_slab * space.inner;
        let length = if output.full { groups * space.folded } else { groups };
        let mut pieces = buffer.values().chunks_mut(length.max(1));
        for slab in &mut slabs {
            slab.outputs.push(pieces.next().unwrap_or_default());
        }
    }
    slabs.into_par_iter().for_each(|slab| program.run(slab));
    buffers.into_iter().try_for_each(|buffer| buffer.store(&space, &epilogue))
}

/// The space with its axes in the order outer, folded, inner: those that are kept around those that are folded.
#[derive(Debug)]
pub(crate) struct Space {
    order: Vec<usize>,
    outer: usize,
    folded: usize,
    inner: usize,
    outer_of_slab: usize,
}

impl Space {
    fn new(op: &Expression) -> Self {
        let is_folded = |axis: usize| op.folded.contains(&axis);
        let last = (0..op.dims.len()).rev().find(|&axis| is_folded(axis) && op.dims[axis] != 1);
        let is_inner = |axis: usize| !is_folded(axis) && last.is_some_and(|last| axis > last);
        let axes =
            |which: &dyn Fn(usize) -> bool| (0..op.dims.len()).filter(|&a| which(a)).collect::<Vec<_>>();
        // An axis of length one has no place: without others the order stays.
        let parts = match last {
            None => [(0..op.dims.len()).collect(), Vec::new(), Vec::new()],
            Some(_) => [axes(&|a| !is_folded(a) && !is_inner(a)), axes(&is_folded), axes(&is_inner)],
        };
        let product = |axes: &[usize]| axes.iter().map(|&axis| op.dims[axis]).product::<usize>();
        let [outer, folded, inner] = [0, 1, 2].map(|i| product(&parts[i]));
        let outer_of_slab = (SLAB / (folded * inner).max(1)).clamp(1, outer.max(1));
        Self { order: parts.concat(), outer, folded, inner, outer_of_slab }
    }

    fn slabs(&self) -> usize {
        if self.inner == 0 { 0 } else { self.outer.div_ceil(self.outer_of_slab) }
    }

    fn slab<T>(&self, i: usize) -> Slab<'static, T> {
        let first = i * self.outer_of_slab;
        Slab { first, outer: self.outer_of_slab.min(self.outer - first), outputs: Vec::new() }
    }

    fn keeps_order(&self) -> bool {
        self.order.iter().enumerate().all(|(i, &axis)| i == axis)
    }
}

/// A result while it is computed, in the order of the space.
struct Buffer<'b, T> {
    result: usize,
    desc: &'b MemoryDesc,
    values: Values<'b, T>,
    /// Whether post-operations follow.
    follows: bool,
}

enum Values<'b, T> {
    /// The result's memory itself.
    Direct(&'b mut [T]),
    Apart(Vec<T>, &'b mut [u8]),
}

impl<'b, T: Float> Buffer<'b, T> {
    fn new(
        result: usize,
        desc: &'b MemoryDesc,
        bytes: &'b mut [u8],
        space: &Space,
        follows: bool,
    ) -> Result<Self> {
        let elements = desc.elements();
        let fits = desc.data_type() == T::DATA_TYPE
            && desc.is_row_major()
            && space.keeps_order()
            && !follows
            && bytemuck::try_cast_slice::<u8, T>(&bytes[..desc.size()]).is_ok();
        let values = if fits {
            let size = desc.size();
            Values::Direct(bytemuck::try_cast_slice_mut(&mut bytes[..size]).map_err(|error| {
                Error::invalid("expression", format!("dst{result}"), error.to_string(), "aligned memory")
            })?)
        } else {
            check_host_memory(elements.saturating_mul(size_of::<T>()), || format!("a copy of {desc}"))?;
            Values::Apart(vec![T::ZERO; elements], bytes)
        };
        Ok(Self { result, desc, values, follows })
    }

    fn values(&mut self) -> &mut [T] {
        match &mut self.values {
            Values::Direct(values) => values,
            Values::Apart(values, _) => values,
        }
    }

    /// Writes the values into the result's own layout and type.
    fn store(self, space: &Space, epilogue: &Epilogue<'_>) -> Result<()> {
        let Values::Apart(values, bytes) = self.values else { return Ok(()) };
        if !self.follows {
            return pack(&self.desc.permuted(&space.order)?, &values, bytes);
        }
        let values =
            if space.keeps_order() { values } else { restored(self.desc.dims(), &space.order, &values)? };
        produce(self.desc, bytes, epilogue, |start, chunk: &mut [T]| {
            chunk.copy_from_slice(&values[start..][..chunk.len()]);
        })
    }
}

/// Values in the order of the space as a row-major tensor.
fn restored<T: Float>(dims: &Dims, order: &[usize], values: &[T]) -> Result<Vec<T>> {
    let desc = MemoryDesc::new(dims.clone(), T::DATA_TYPE);
    let mut row_major = vec![T::ZERO; values.len()];
    pack(&desc.permuted(order)?, values, bytemuck::cast_slice_mut(&mut row_major))?;
    Ok(row_major)
}

/// Computes the only result of an expression without folds at the `out.len()` positions from `start` on; `given` are the values of the
/// source 0 there.
pub(crate) fn apply<T: Float>(
    plan: &Plan,
    op: &Expression,
    leaves: &Leaves<'_>,
    start: usize,
    out: &mut [T],
) {
    let mut slots = plan.slots();
    let is_given = |node: usize| matches!(op.nodes[node], Node::Operand(0));
    for (i, chunk) in out.chunks_mut(CHUNK).enumerate() {
        let first = start + i * CHUNK;
        let given = &*chunk;
        plan.run(&mut slots, first, given.len(), |node, at, values| {
            if is_given(node) { values.copy_from_slice(given) } else { leaves.load(node, at, values) }
        });
        chunk.copy_from_slice(plan.target(&slots, 0, chunk.len()));
    }
}

impl Compute for Expression {
    fn implementation(&self, _desc: &PrimitiveDesc) -> &'static str {
        "host:expression"
    }

    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        compute::<T>(self, operands, results)
    }

    fn uses_value_of(&self, arg: Arg) -> bool {
        !matches!(arg, Arg::Src(i) if !reads(self, i))
    }
}

#[cfg(test)]
mod tests;

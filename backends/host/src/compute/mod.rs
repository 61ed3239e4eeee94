//! What primitives compute, on plain bytes.
//!
//! Operands are read through [views](view::View) that hide layout, type and broadcasting; kernels work on dense row-major tensors of
//! one working type; an [epilogue](epilogue::Epilogue) applies bias and post-operations and stores the result in its own layout and
//! type. The working type is f32, or f64 where f32 cannot hold an operand or an integer sum exactly, or i64 for exact integer copies
//! and arithmetic.

mod attention;
mod concat;
mod convolution;
mod deconvolution;
mod element;
mod elementwise;
mod epilogue;
mod expression;
mod gemm;
mod matmul;
mod movement;
mod normalization;
mod operands;
mod pack;
mod pooling;
mod pooling_backward;
mod reduction;
mod resampling;
mod softmax;
mod storage;
mod view;
mod window;

use anydnn_backend::{Arg, ArgDesc, DataType, Op, PrimitiveDesc, Result};
use rayon::prelude::*;

use element::Float;
pub(crate) use operands::supported;
use operands::{Operands, Results};
pub(crate) use storage::Kind;

/// Computes a primitive on bytes laid out as `desc` says (all layouts resolved).
///
/// Operands that are read are in `inputs`, those that are written or changed in `outputs`. Slices start at the memory's first byte;
/// the descriptor's offset applies inside. They may lie at any address; those aligned for their type are used without a copy.
///
/// ```
/// use anydnn_backend::op::{Eltwise, Op};
/// use anydnn_backend::{Arg, DataType, MemoryDesc, PrimitiveDesc};
///
/// let tensor = MemoryDesc::new([3], DataType::S8);
/// let relu = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(tensor.clone()).dst(tensor).build()?;
/// let (src, mut dst) = ([1_u8, 0xFF, 2], [0_u8; 3]);
/// anydnn_host::compute(&relu, &[(Arg::SRC, &src)], &mut [(Arg::DST, &mut dst)])?;
/// assert_eq!(dst, [1, 0, 2]);
/// # Ok::<(), anydnn_backend::Error>(())
/// ```
///
/// # Errors
/// [`Error::Invalid`](anydnn_backend::Error::Invalid) when an operand is missing or its bytes are too few,
/// [`Error::Unsupported`](anydnn_backend::Error::Unsupported) for data types without conversion.
pub fn compute(
    desc: &PrimitiveDesc,
    inputs: &[(Arg, &[u8])],
    outputs: &mut [(Arg, &mut [u8])],
) -> Result<()> {
    let operands = Operands::new(desc, inputs, outputs)?;
    let mut results = Results(outputs);
    let moved = match desc.op() {
        Op::Remap(op) => Some(movement::remap(op, &operands, &mut results)),
        Op::Gather(op) => Some(movement::gather(*op, &operands, &mut results)),
        _ => None,
    };
    if let Some(moved) = moved {
        return moved.map_err(|error| error.at(desc.name()));
    }
    match working_type(desc) {
        DataType::S64 => elementwise::compute::<i64>(&operands, &mut results),
        DataType::F64 => compute_in::<f64>(&operands, &mut results),
        _ => compute_in::<f32>(&operands, &mut results),
    }
    .map_err(|error| error.at(desc.name()))
}

/// The name of the implementation that computes a primitive.
pub(crate) fn implementation(desc: &PrimitiveDesc) -> &'static str {
    match desc.op() {
        Op::MatMul(_) | Op::GatedMatMul(_) => "host:gemm",
        Op::Expression(_) => "host:expression",
        Op::Attention(_) => "host:flash",
        Op::Convolution(op) => convolution::implementation(op, desc),
        Op::Deconvolution(_) => "host:gemm+col2im",
        Op::ConvolutionWeights(_) => "host:im2col+gemm",
        Op::Reorder
        | Op::Eltwise(_)
        | Op::Binary(_)
        | Op::Select(_)
        | Op::BatchNormalization(_)
        | Op::Concat(_)
        | Op::Remap(_)
        | Op::Gather(_) => "host:streaming",
        _ => "host:ref",
    }
}

fn compute_in<T: Float>(operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
    match operands.desc.op() {
        Op::MatMul(_) => matmul::compute::<T>(operands, results),
        Op::Convolution(op) => convolution::compute::<T>(op, operands, results),
        Op::Deconvolution(op) => deconvolution::compute::<T>(op, operands, results),
        Op::ConvolutionWeights(op) => deconvolution::weights::<T>(op, operands, results),
        Op::PoolingBackward(op) => pooling_backward::compute::<T>(op, operands, results),
        Op::Resampling(op) => resampling::forward::<T>(*op, operands, results),
        Op::ResamplingBackward(op) => resampling::backward::<T>(*op, operands, results),
        Op::Pooling(op) => pooling::compute::<T>(op, operands, results),
        Op::Softmax(op) => softmax::compute::<T>(*op, operands, results),
        Op::LayerNormalization(op) => normalization::layer::<T>(op, operands, results),
        Op::GroupNormalization(op) => normalization::group::<T>(op, operands, results),
        Op::Reduction(op) => reduction::compute::<T>(*op, operands, results),
        Op::Expression(op) => expression::compute::<T>(op, operands, results),
        Op::Attention(op) => attention::compute::<T>(op, operands, results),
        Op::GatedMatMul(op) => matmul::gated::<T>(*op, operands, results),
        _ => elementwise::compute::<T>(operands, results),
    }
}

/// The type to compute in, named by the storage type of the same representation.
fn working_type(desc: &PrimitiveDesc) -> DataType {
    let any = |f: fn(DataType) -> bool| desc.args().iter().any(|a| counts(desc, a) && f(a.desc.data_type()));
    let all = |f: fn(DataType) -> bool| desc.args().iter().all(|a| f(a.desc.data_type()));
    let exact_in_i64 = matches!(desc.op(), Op::Reorder | Op::Binary(_) | Op::Select(_) | Op::Concat(_))
        && desc.attributes().post_ops.is_empty();
    if exact_in_i64 && any(|t| t == DataType::S64) && all(|t| t.is_integer() || t == DataType::Boolean) {
        return DataType::S64;
    }
    // Products of 8-bit integers and their sums stay below 2^53: f64 holds them exactly.
    let integer_sums =
        matches!(desc.op(), Op::MatMul(_) | Op::Convolution(_) | Op::Deconvolution(_) | Op::GatedMatMul(_))
            && [Arg::SRC, Arg::Weights]
                .iter()
                .all(|&arg| desc.find(arg).is_some_and(|d| !d.data_type().is_float()));
    if integer_sums || any(|t| matches!(t, DataType::S32 | DataType::S64 | DataType::F64)) {
        return DataType::F64;
    }
    DataType::F32
}

/// Whether an operand's type bears on the type to compute in: zero points are small, and what a dropout reads is no element.
fn counts(desc: &PrimitiveDesc, operand: &ArgDesc) -> bool {
    match (desc.op(), operand.arg) {
        (_, Arg::ZeroPointOf(_)) => false,
        (Op::Expression(op), Arg::Src(i)) => expression::reads(op, i),
        (Op::Attention(op), Arg::Src(i)) => {
            i < 3
                || [Some(&op.scores), op.weights.as_ref()]
                    .into_iter()
                    .flatten()
                    .any(|e| expression::reads(e, i - 2))
        }
        _ => true,
    }
}

/// Elements that one task works on: they and a second operand stay in the first cache level.
const CHUNK: usize = 2048;

/// Runs `work` on pieces of `len` items with their positions, on all threads when there is more than one piece.
fn parallel_chunks<T: Send, R: Outcome>(
    items: &mut [T],
    len: usize,
    work: impl Fn(usize, &mut [T]) -> R + Sync + Send,
) -> R {
    if items.len() <= len {
        return if items.is_empty() { R::DONE } else { work(0, items) };
    }
    items.par_chunks_mut(len).enumerate().map(|(i, chunk)| work(i, chunk)).reduce(|| R::DONE, R::and)
}

/// What a piece of work returns: nothing, or a result of which the first error counts.
trait Outcome: Send {
    const DONE: Self;
    fn and(self, other: Self) -> Self;
}

impl Outcome for () {
    const DONE: Self = ();

    fn and(self, (): Self) {}
}

impl Outcome for Result<()> {
    const DONE: Self = Ok(());

    fn and(self, other: Self) -> Self {
        Result::and(self, other)
    }
}

#[cfg(test)]
mod tests;

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
mod grouped_matmul;
mod local_response;
mod matmul;
mod movement;
mod normalization;
mod operands;
mod pack;
mod panels;
mod parallel;
mod pooling;
mod pooling_backward;
mod recurrent;
mod recurrent_backward;
mod recurrent_training;
mod reduction;
mod resampling;
mod softmax;
mod storage;
mod team;
mod view;
mod window;

use anydnn_backend::{Arg, ArgDesc, DataType, Error, PrimitiveDesc, Result, each_operation};

use element::Float;
pub(crate) use element::Real;
pub(crate) use expression::{Plan, Used};
pub(crate) use operands::supported;
use operands::{Operands, Results};
pub(crate) use storage::{Kind, read_run, write_run};
pub(crate) use window::{Window, padded, split};

/// What an operation answers, or that the backend does not know it.
macro_rules! dispatch {
    ($desc:expr, $op:pat => $answer:expr) => {
        each_operation!(
            $desc.op(),
            $op => $answer,
            other => Err(Error::unsupported(other.name(), "the host backend does not know this operation"))
        )
    };
}
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
    match working_type(desc) {
        DataType::S64 => dispatch!(desc, op => op.compute_integers(&operands, &mut results)),
        DataType::F64 => dispatch!(desc, op => op.compute::<f64>(&operands, &mut results)),
        _ => dispatch!(desc, op => op.compute::<f32>(&operands, &mut results)),
    }
    .map_err(|error| error.at(desc.name()))
}

/// The name of the implementation that computes a primitive.
pub(crate) fn implementation(desc: &PrimitiveDesc) -> &'static str {
    each_operation!(desc.op(), op => op.implementation(desc), _ => "host:none")
}

/// An operation as this backend computes it, implemented in the operation's own file.
trait Compute {
    /// The name of the implementation.
    fn implementation(&self, _desc: &PrimitiveDesc) -> &'static str {
        "host:ref"
    }

    /// Computes in a floating-point type. Operations that only move bytes do so whatever the type is.
    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()>;

    /// Whether integers of 64 bits give the exact result of integers.
    fn is_exact_in_integers(&self) -> bool {
        false
    }

    /// Computes in integers of 64 bits, if they are exact.
    fn compute_integers(&self, operands: &Operands<'_>, _results: &mut Results<'_, '_>) -> Result<()> {
        Err(Error::unsupported(operands.desc.name(), "the host backend does not compute it in integers"))
    }

    /// Whether it sums products of the source and the weights.
    fn sums_products(&self) -> bool {
        false
    }

    /// Whether the values of an operand take part, so that its type bears on the type to compute in.
    fn uses_value_of(&self, _arg: Arg) -> bool {
        true
    }

    /// The axis of the result along which a bias lies; without one it broadcasts to the result.
    fn bias_axis(&self) -> Option<usize> {
        None
    }
}

/// The axis of the result along which a bias lies.
fn bias_axis(desc: &PrimitiveDesc) -> Option<usize> {
    each_operation!(desc.op(), op => op.bias_axis(), _ => None)
}

/// The type to compute in, named by the storage type of the same representation.
fn working_type(desc: &PrimitiveDesc) -> DataType {
    let any = |f: fn(DataType) -> bool| desc.args().iter().any(|a| counts(desc, a) && f(a.desc.data_type()));
    let all = |f: fn(DataType) -> bool| desc.args().iter().all(|a| f(a.desc.data_type()));
    let exact_in_i64 = each_operation!(desc.op(), op => op.is_exact_in_integers(), _ => false)
        && desc.attributes().post_ops.is_empty();
    if exact_in_i64 && any(|t| t == DataType::S64) && all(|t| t.is_integer() || t == DataType::Boolean) {
        return DataType::S64;
    }
    // Products of 8-bit integers and their sums stay below 2^53: f64 holds them exactly.
    let integer_sums = each_operation!(desc.op(), op => op.sums_products(), _ => false)
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
    !matches!(operand.arg, Arg::ZeroPointOf(_))
        && each_operation!(desc.op(), op => op.uses_value_of(operand.arg), _ => true)
}

/// Elements that one task works on: they and a second operand stay in the first cache level.
const CHUNK: usize = 2048;

#[cfg(test)]
mod tests;

//! The operations of the contract: parameters, shape and type inference, argument checks.
//!
//! Every operation works on *logical* dimensions: `[N, C, spatial..]` for images whatever the layout, `[.., M, K] x [.., K, N]` for
//! matmul. Channels-last data and transposed matrices are layouts, given by strides.

mod attention;
pub(crate) mod attributes;
mod binary;
mod concat;
mod convolution;
mod convolution_weights;
mod deconvolution;
mod elementwise;
mod eltwise;
mod expression;
mod gated_matmul;
mod gather;
mod grouped_matmul;
mod local_response;
mod matmul;
mod normalization;
mod operation;
mod pooling;
mod pooling_backward;
pub(crate) mod primitive_desc;
mod recurrent;
mod recurrent_backward;
mod reduction;
mod remap;
mod reorder;
mod resampling;
mod select;
mod softmax;
pub(crate) mod specialize;

pub use attention::Attention;
pub use binary::{Binary, BinaryAlgorithm, BinaryFunction};
pub use concat::Concat;
pub use convolution::Convolution;
pub use convolution_weights::ConvolutionWeights;
pub use deconvolution::Deconvolution;
pub use eltwise::{Attributes as EltwiseAttributes, Domain, Eltwise, Function, Parameter, Spelling};
pub use expression::{Expression, Fold, Node, keeps, random};
pub use gated_matmul::GatedMatMul;
pub use gather::Gather;
pub use grouped_matmul::GroupedMatMul;
pub use local_response::{LocalResponseNormalization, LocalResponseNormalizationBackward};
pub use matmul::MatMul;
pub use normalization::{BatchNormalization, GroupNormalization, LayerNormalization};
pub(crate) use operation::{ErrorGrowth, Operation};
pub use pooling::{Pooling, PoolingAlgorithm};
pub use pooling_backward::PoolingBackward;
pub use recurrent::{Activation, Cell, Direction, GateOrder, Recurrent, StateQuantization};
pub use recurrent_backward::RecurrentBackward;
pub use reduction::{Reduction, ReductionAlgorithm};
pub use remap::{Border, Remap};
pub use reorder::Reorder;
pub use resampling::{Resampling, ResamplingAlgorithm, ResamplingBackward};
pub use select::Select;
pub use softmax::Softmax;

use enum_dispatch::enum_dispatch;

use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::{Error, InvalidKind, Result};
use crate::memory_desc::MemoryDesc;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

/// An operation with its parameters. The operands' descriptors are beside it in a [`PrimitiveDesc`].
#[enum_dispatch(Operation)]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Op {
    /// Batched matrix product.
    MatMul(MatMul),
    /// Grouped, dilated, strided convolution in one to three dimensions.
    Convolution(Convolution),
    /// Maximum or average over windows.
    Pooling(Pooling),
    /// A function of each element.
    Eltwise(Eltwise),
    /// A function of two tensors' elements, with broadcasting.
    Binary(Binary),
    /// One of two tensors' elements by a condition, with broadcasting.
    Select(Select),
    /// Softmax or its logarithm along an axis.
    Softmax(Softmax),
    /// Layer or root-mean-square normalisation over the trailing dimensions.
    LayerNormalization(LayerNormalization),
    /// Normalisation of each channel by given statistics.
    BatchNormalization(BatchNormalization),
    /// Normalisation over groups of channels.
    GroupNormalization(GroupNormalization),
    /// A fold along axes.
    Reduction(Reduction),
    /// Tensors side by side along an axis.
    Concat(Concat),
    /// A copy into another layout or element type.
    Reorder(Reorder),
    /// Element-wise functions of several tensors, with folds along axes.
    Expression(Expression),
    /// Scaled dot-product attention.
    Attention(Attention),
    /// A matrix product gated by another one.
    GatedMatMul(GatedMatMul),
    /// Transposed convolution: the gradient of a convolution for its source.
    Deconvolution(Deconvolution),
    /// The gradient of a convolution for its weights.
    ConvolutionWeights(ConvolutionWeights),
    /// The gradient of a pooling.
    PoolingBackward(PoolingBackward),
    /// Another size of the spatial dimensions.
    Resampling(Resampling),
    /// The gradient of a resampling.
    ResamplingBackward(ResamplingBackward),
    /// Elements in other places.
    Remap(Remap),
    /// Elements by indices.
    Gather(Gather),
    /// A layer of a recurrent network.
    Recurrent(Recurrent),
    /// The gradients of a recurrent layer.
    RecurrentBackward(RecurrentBackward),
    /// Normalisation by the squares around each element.
    LocalResponseNormalization(LocalResponseNormalization),
    /// The gradient of a normalisation by the squares around.
    LocalResponseNormalizationBackward(LocalResponseNormalizationBackward),
    /// Matrix products of groups.
    GroupedMatMul(GroupedMatMul),
}

/// Does the same with the parameters of whichever operation it is: `each_operation!(op, inner => …)`. Backends dispatch with it to a trait
/// of their own that they implement for each type of parameters; one that they forget does not compile.
///
/// [`Op`] is open, so that outside of this crate a last arm says what to do with an operation that comes later.
///
/// ```
/// use anydnn_backend::each_operation;
/// use anydnn_backend::op::{Op, Reorder, Softmax};
///
/// fn parameters(op: &Op) -> String {
///     each_operation!(op, inner => format!("{inner:?}"), _ => "unknown".to_owned())
/// }
///
/// assert_eq!(parameters(&Softmax::new(1).into()), "Softmax { axis: 1, log: false, inf_as_zero: false }");
/// assert_eq!(parameters(&Reorder.into()), "Reorder");
/// ```
#[macro_export]
macro_rules! each_operation {
    ($op:expr, $inner:pat => $answer:expr $(, $other:pat => $otherwise:expr)? $(,)?) => {
        match $op {
            $crate::op::Op::MatMul($inner) => $answer,
            $crate::op::Op::Convolution($inner) => $answer,
            $crate::op::Op::Pooling($inner) => $answer,
            $crate::op::Op::Eltwise($inner) => $answer,
            $crate::op::Op::Binary($inner) => $answer,
            $crate::op::Op::Select($inner) => $answer,
            $crate::op::Op::Softmax($inner) => $answer,
            $crate::op::Op::LayerNormalization($inner) => $answer,
            $crate::op::Op::BatchNormalization($inner) => $answer,
            $crate::op::Op::GroupNormalization($inner) => $answer,
            $crate::op::Op::Reduction($inner) => $answer,
            $crate::op::Op::Concat($inner) => $answer,
            $crate::op::Op::Reorder($inner) => $answer,
            $crate::op::Op::Expression($inner) => $answer,
            $crate::op::Op::Attention($inner) => $answer,
            $crate::op::Op::GatedMatMul($inner) => $answer,
            $crate::op::Op::Deconvolution($inner) => $answer,
            $crate::op::Op::ConvolutionWeights($inner) => $answer,
            $crate::op::Op::PoolingBackward($inner) => $answer,
            $crate::op::Op::Resampling($inner) => $answer,
            $crate::op::Op::ResamplingBackward($inner) => $answer,
            $crate::op::Op::Remap($inner) => $answer,
            $crate::op::Op::Gather($inner) => $answer,
            $crate::op::Op::Recurrent($inner) => $answer,
            $crate::op::Op::RecurrentBackward($inner) => $answer,
            $crate::op::Op::LocalResponseNormalization($inner) => $answer,
            $crate::op::Op::LocalResponseNormalizationBackward($inner) => $answer,
            $crate::op::Op::GroupedMatMul($inner) => $answer,
            $(#[allow(unreachable_patterns, reason = "the enumeration is open to other crates alone")] $other => $otherwise,)?
        }
    };
}

impl Op {
    /// The operation's name.
    pub fn name(&self) -> &'static str {
        // Without an arm for the rest: a variant that the macro lacks does not compile.
        each_operation!(self, op => Operation::name(op))
    }

    /// Whether result elements may be given post-operations.
    pub fn takes_post_ops(&self) -> bool {
        Operation::takes_post_ops(self)
    }

    /// Whether an operand may be dequantised as it is read.
    pub fn dequantizes(&self, arg: Arg) -> bool {
        Operation::dequantizes(self, arg)
    }

    /// Whether each result element depends on the source element at the same index alone, so that the result may overwrite a
    /// source of the same descriptor.
    pub fn is_elementwise(&self) -> bool {
        Operation::is_elementwise(self)
    }
}

/// A shape that does not fit.
fn shape_error(
    op: &str,
    subject: impl Into<String>,
    given: impl Into<String>,
    expected: impl Into<String>,
) -> Error {
    Error::invalid_kind(InvalidKind::Shape, op, subject, given, expected)
}

/// A data type that does not fit.
fn type_error(op: &str, subject: impl Into<String>, given: DataType, expected: impl Into<String>) -> Error {
    Error::invalid_kind(InvalidKind::DataType, op, subject, given.name(), expected)
}

/// Checks that an operand has exactly these dimensions.
fn expect_dims(op: &str, arg: Arg, desc: &MemoryDesc, dims: &[usize]) -> Result<()> {
    if **desc.dims() == *dims {
        return Ok(());
    }
    Err(shape_error(op, format!("{arg} dimensions"), desc.dims().to_string(), Dims::new(dims).to_string()))
}

/// Checks that an axis exists.
fn expect_axis(op: &str, axis: usize, rank: usize) -> Result<()> {
    if axis < rank {
        return Ok(());
    }
    Err(shape_error(op, "axis", axis.to_string(), format!("less than the rank {rank}")))
}

/// Checks that an operand is of a floating-point type.
fn expect_float(op: &str, arg: Arg, desc: &MemoryDesc) -> Result<()> {
    if desc.data_type().is_float() {
        return Ok(());
    }
    Err(type_error(op, format!("{arg} data type"), desc.data_type(), "a floating-point type"))
}

/// The output length of a window sliding over one dimension, or an error naming what does not fit.
fn window_output(
    op: &str,
    axis: usize,
    input: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    pads: (usize, usize),
    ceil: bool,
) -> Result<usize> {
    if stride == 0 || dilation == 0 || kernel == 0 {
        return Err(shape_error(
            op,
            format!("stride, dilation and kernel of spatial dimension {axis}"),
            format!("{stride}, {dilation} and {kernel}"),
            "positive numbers",
        ));
    }
    let reach = (kernel - 1).checked_mul(dilation).and_then(|r| r.checked_add(1));
    let padded = input.checked_add(pads.0).and_then(|n| n.checked_add(pads.1));
    // Positions count from before the padding: they have a sign.
    let (Some(reach), Some(padded)) = (reach, padded.filter(|&n| isize::try_from(n).is_ok())) else {
        return Err(shape_error(
            op,
            format!("padded size of spatial dimension {axis}"),
            "too large to count",
            "a size that fits the address space",
        ));
    };
    if padded < reach {
        return Err(shape_error(
            op,
            format!("padded size of spatial dimension {axis}"),
            padded.to_string(),
            format!("at least the dilated kernel's {reach}"),
        ));
    }
    let steps = padded - reach;
    Ok(if ceil { steps.div_ceil(stride) } else { steps / stride } + 1)
}

/// Checks that a parameter has one entry for each spatial dimension.
fn expect_spatial(op: &str, subject: &str, entries: &[usize], spatial: usize) -> Result<()> {
    if entries.len() == spatial {
        return Ok(());
    }
    Err(shape_error(
        op,
        subject,
        format!("{} entries", entries.len()),
        format!("{spatial}, one for each spatial dimension"),
    ))
}

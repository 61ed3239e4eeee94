//! The operations of the contract: parameters, shape and type inference, argument checks.
//!
//! Every operation works on *logical* dimensions: `[N, C, spatial..]` for images whatever the layout, `[.., M, K] x [.., K, N]` for
//! matmul. Channels-last data and transposed matrices are layouts, given by strides.

mod attention;
mod binary;
mod concat;
mod convolution;
mod convolution_weights;
mod deconvolution;
mod eltwise;
mod expression;
mod gated_matmul;
mod gather;
mod matmul;
mod normalization;
mod pooling;
mod pooling_backward;
mod reduction;
mod remap;
mod resampling;
mod select;
mod softmax;

pub use attention::Attention;
pub use binary::{Binary, BinaryAlgorithm, BinaryFunction};
pub use concat::Concat;
pub use convolution::Convolution;
pub use convolution_weights::ConvolutionWeights;
pub use deconvolution::Deconvolution;
pub use eltwise::{Attributes as EltwiseAttributes, Domain, Eltwise, Function, Parameter, Spelling};
pub use expression::{Expression, Fold, Node, keeps};
pub use gated_matmul::GatedMatMul;
pub use gather::Gather;
pub use matmul::MatMul;
pub use normalization::{BatchNormalization, GroupNormalization, LayerNormalization};
pub use pooling::{Pooling, PoolingAlgorithm};
pub use pooling_backward::PoolingBackward;
pub use reduction::{Reduction, ReductionAlgorithm};
pub use remap::{Border, Remap};
pub use resampling::{Resampling, ResamplingAlgorithm, ResamplingBackward};
pub use select::Select;
pub use softmax::Softmax;

use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::{Error, InvalidKind, Result};
use crate::memory_desc::MemoryDesc;
use crate::primitive_desc::Operands;

/// An operation with its parameters. The operands' descriptors are beside it in a [`PrimitiveDesc`](crate::PrimitiveDesc).
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
    Reorder,
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
}

impl Op {
    /// The operation's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::MatMul(_) => "matmul",
            Self::Convolution(_) => "convolution",
            Self::Pooling(_) => "pooling",
            Self::Eltwise(_) => "eltwise",
            Self::Binary(_) => "binary",
            Self::Select(_) => "select",
            Self::Softmax(_) => "softmax",
            Self::LayerNormalization(_) => "layer_normalization",
            Self::BatchNormalization(_) => "batch_normalization",
            Self::GroupNormalization(_) => "group_normalization",
            Self::Reduction(_) => "reduction",
            Self::Concat(_) => "concat",
            Self::Reorder => "reorder",
            Self::Expression(_) => "expression",
            Self::Attention(_) => "attention",
            Self::GatedMatMul(_) => "gated_matmul",
            Self::Deconvolution(_) => "deconvolution",
            Self::ConvolutionWeights(_) => "convolution_weights",
            Self::PoolingBackward(_) => "pooling_backward",
            Self::Resampling(_) => "resampling",
            Self::ResamplingBackward(_) => "resampling_backward",
            Self::Remap(_) => "remap",
            Self::Gather(_) => "gather",
        }
    }

    /// Whether result elements may be given post-operations.
    pub const fn takes_post_ops(&self) -> bool {
        !matches!(self, Self::Concat(_) | Self::Remap(_) | Self::Gather(_))
    }

    /// Whether an operand may be dequantised as it is read.
    pub const fn dequantizes(&self, arg: Arg) -> bool {
        match self {
            Self::MatMul(_) | Self::Convolution(_) | Self::Deconvolution(_) => {
                matches!(arg, Arg::Src(0) | Arg::Weights)
            }
            Self::GatedMatMul(_) => matches!(arg, Arg::Src(0 | 1) | Arg::Weights),
            Self::Attention(_) => matches!(arg, Arg::Src(0..=2)),
            _ => false,
        }
    }

    /// Whether each result element depends on the source element at the same index alone, so that the result may overwrite a
    /// source of the same descriptor.
    pub fn is_elementwise(&self) -> bool {
        match self {
            Self::Eltwise(_)
            | Self::Binary(_)
            | Self::Select(_)
            | Self::BatchNormalization(_)
            | Self::Reorder => true,
            // Several results may be made one after the other.
            Self::Expression(op) => op.folded.is_empty() && op.results.len() == 1,
            _ => false,
        }
    }

    /// The result's dimensions and element type; [`Operands::dst`] tells a reduction its dimensions.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the operand that is missing, unknown or does not fit.
    pub(crate) fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        match self {
            Self::MatMul(op) => op.infer(operands),
            Self::Convolution(op) => op.infer(operands),
            Self::Pooling(op) => op.infer(operands),
            Self::Eltwise(op) => op.infer(operands),
            Self::Binary(op) => op.infer(operands),
            Self::Select(op) => op.infer(operands),
            Self::Softmax(op) => op.infer(operands),
            Self::LayerNormalization(op) => op.infer(operands),
            Self::BatchNormalization(op) => op.infer(operands),
            Self::GroupNormalization(op) => op.infer(operands),
            Self::Reduction(op) => op.infer(operands),
            Self::Concat(op) => op.infer(operands),
            Self::Expression(op) => op.infer(operands),
            Self::Attention(op) => op.infer(operands),
            Self::GatedMatMul(op) => op.infer(operands),
            Self::Deconvolution(op) => op.infer(operands),
            Self::ConvolutionWeights(op) => op.infer(operands),
            Self::PoolingBackward(op) => op.infer(operands),
            Self::Resampling(op) => op.infer(operands),
            Self::ResamplingBackward(op) => op.infer(operands),
            Self::Remap(op) => op.infer(operands),
            Self::Gather(op) => op.infer(operands),
            Self::Reorder => {
                let src = operands.only(self.name(), &[Arg::SRC], &[])?.required(Arg::SRC)?;
                Ok((src.dims().clone(), src.data_type()))
            }
        }
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

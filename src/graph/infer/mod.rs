//! Shapes and types of outputs from those of inputs.

mod axis;
mod conv;
mod elementwise;
mod movement;
mod normalization;
mod products;
mod quantization;
mod recurrent;
mod types;
mod window;

pub use axis::normalize_axis;
pub use window::Window;

pub(crate) use movement::{exchanges_last_axes, gather_of, order_of, remap_of};
pub(crate) use recurrent::{RecurrentInput, recurrent_inputs, recurrent_of};
pub(crate) use types::{Types, infer_types, is_truth};

use anydnn_backend::{Dims, Error, InvalidKind, Result};

use super::op::Op;
use super::op_kind::OpKind as K;

/// The dimensions of every output; none where they follow from values instead of shapes.
pub(super) type Shapes = Option<Vec<Dims>>;

/// The dimensions of an operation's outputs, more than it has where optional outputs are left out.
///
/// # Errors
/// [`Error::Invalid`] that names the operation when the inputs' dimensions or the attributes do not fit.
pub(super) fn infer_shapes(op: &Op, inputs: &[Dims]) -> Result<Shapes> {
    let one = |dims: Dims| Ok(Some(vec![dims]));
    match op.kind {
        K::Add | K::Divide | K::GreaterEqual | K::Maximum | K::Minimum | K::Multiply => {
            one(elementwise::broadcast(op, inputs)?)
        }
        K::Modulo
        | K::Power
        | K::Quotient
        | K::Remainder
        | K::Select
        | K::SquaredDifference
        | K::Subtract => one(elementwise::broadcast(op, inputs)?),
        kind if types::is_truth(kind) => one(elementwise::broadcast(op, inputs)?),
        K::BiasAdd => one(elementwise::bias_add(op, inputs)?),
        K::BiasAddBackward => one(Dims::from([channels(op, &inputs[0])?])),
        K::PReLU => one(elementwise::prelu(op, inputs)?),
        K::PReLUBackward => {
            elementwise::prelu(op, &inputs[..2])?;
            elementwise::same(op, &[inputs[0].clone(), inputs[2].clone()])?;
            Ok(Some(inputs[..2].to_vec()))
        }
        K::GenIndex => {
            attr_axis(op, "axis", inputs[0].len())?;
            one(inputs[0].clone())
        }
        K::Dropout => Ok(Some(vec![inputs[0].clone(); 2])),

        K::MatMul => one(products::matmul(op, inputs)?),
        K::Convolution => one(conv::forward(op, inputs)?),
        K::ConvTranspose => one(conv::transpose(op, inputs)?),
        K::ConvolutionBackwardData if op.inputs.len() == 2 && op.attrs.get("dst_shape").is_none() => {
            one(conv::backward_data(op, inputs)?)
        }
        K::ConvolutionBackwardData => from_attr(op, "dst_shape", 2),
        K::ConvolutionBackwardWeights | K::ConvTransposeBackwardWeights => from_attr(op, "weights_shape", 2),
        K::ConvTransposeBackwardData => one(conv::transpose_backward_data(op, inputs)?),
        K::AvgPool | K::MaxPool => one(conv::pool(op, inputs)?),
        K::AvgPoolBackward => from_attr(op, "src_shape", 1),
        K::MaxPoolBackward | K::InterpolateBackward => one(inputs[0].clone()),
        K::Interpolate => conv::interpolate(op, inputs),

        K::BatchNormInference | K::BatchNormForwardTraining | K::BatchNormTrainingBackward => {
            normalization::batch(op, inputs)
        }
        K::GroupNorm => normalization::group(op, inputs),
        K::LayerNorm | K::RMSNorm => normalization::layer(op, inputs),
        K::LayerNormBackward => normalization::layer_backward(op, inputs),
        K::SoftMax | K::LogSoftmax => normalization::softmax(op, inputs),
        K::SoftMaxBackward | K::LogSoftmaxBackward => {
            attr_axis(op, "axis", inputs[0].len())?;
            one(elementwise::same(op, inputs)?)
        }

        K::ReduceL1
        | K::ReduceL2
        | K::ReduceMax
        | K::ReduceMean
        | K::ReduceMin
        | K::ReduceProd
        | K::ReduceSum => movement::reduce(op, inputs),
        K::Concat => one(movement::concat(op, inputs)?),
        K::Remap => one(movement::remap(op, inputs)?),
        K::Gather => one(movement::gather(op, inputs)?),
        K::Recurrent => recurrent::layer(op, inputs),
        K::StaticReshape => one(movement::reshape(op, &inputs[0])?),
        K::StaticTranspose => one(movement::transpose(op, &inputs[0])?),

        K::Quantize | K::Dequantize => one(quantization::fixed(op, &inputs[0])?),
        K::DynamicQuantize | K::DynamicDequantize => one(quantization::dynamic(op, inputs)?),
        K::End => Ok(Some(Vec::new())),
        K::Wildcard => Ok(None),
        // Unary operations and their gradients keep the shape; a gradient's two inputs have the same one.
        _ => one(elementwise::same(op, inputs)?),
    }
}

/// A shape that an attribute gives, unless the input at `input`, whose values are not known here, overrides it.
fn from_attr(op: &Op, name: &str, input: usize) -> Result<Shapes> {
    if op.inputs.len() > input || op.attrs.get(name).is_none() {
        return Ok(None);
    }
    let given = op.attrs.s64s(name)?;
    let dims: Option<Dims> = given.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    let dims = dims.ok_or_else(|| bad_attr(op, name, format!("{given:?}"), "no negative dimensions"))?;
    Ok(Some(vec![dims]))
}

/// The axis that an attribute names, counted from the front.
fn attr_axis(op: &Op, name: &str, rank: usize) -> Result<usize> {
    let axis = op.attrs.s64(name)?;
    axis::from_front(axis, rank)
        .ok_or_else(|| bad_attr(op, name, axis, format!("an axis of {rank} dimensions")))
}

/// The position of the channels in `dims`.
fn channel_axis(op: &Op, dims: &Dims) -> Result<usize> {
    if dims.len() < 2 {
        return Err(bad_shape(op, "src", dims, "a batch and a channel dimension"));
    }
    Ok(if op.attrs.string("data_format")? == "NCX" { 1 } else { dims.len() - 1 })
}

/// The number of channels of `dims`.
fn channels(op: &Op, dims: &Dims) -> Result<usize> {
    Ok(dims[channel_axis(op, dims)?])
}

/// A wrong shape of an operand.
#[allow(clippy::needless_pass_by_value, reason = "numbers and references alike")]
fn bad_shape(op: &Op, subject: &str, given: impl ToString, expected: impl Into<String>) -> Error {
    let subject = format!("shape of {subject}");
    Error::invalid_kind(InvalidKind::Shape, op.to_string(), subject, given.to_string(), expected)
}

/// An attribute that does not fit the shapes.
#[allow(clippy::needless_pass_by_value, reason = "numbers and references alike")]
fn bad_attr(op: &Op, name: &str, given: impl ToString, expected: impl Into<String>) -> Error {
    let subject = format!("attribute {name}");
    Error::invalid_kind(InvalidKind::GraphOp, op.to_string(), subject, given.to_string(), expected)
}

//! What a graph computes, in f64 with plain loops over the graph's own shapes and attributes: no primitives, no backend.

mod gradients;
mod images;
mod movement;
mod pointwise;
mod quantization;
mod rows;
mod windows;

use std::collections::HashMap;

use anydnn::backend::DataType;
use anydnn::graph::{Graph, Op, OpKind as K, TensorId};

use super::tensor::Tensor;

/// The value of every tensor of a graph, from those of its inputs and constants.
pub fn evaluate(graph: &Graph, given: &HashMap<TensorId, Tensor>) -> HashMap<TensorId, Tensor> {
    let mut values = given.clone();
    for op in graph.ops() {
        let inputs: Vec<Tensor> = op.inputs.iter().map(|id| values[id].clone()).collect();
        values.extend(op.outputs.iter().copied().zip(results(graph, op, &inputs)));
    }
    values
}

/// The results of one operation, from its inputs.
pub fn results(graph: &Graph, op: &Op, inputs: &[Tensor]) -> Vec<Tensor> {
    let stored = |(&id, value): (&TensorId, Tensor)| {
        let tensor = graph.tensor(id).unwrap();
        let dims = tensor.known_dims().unwrap().to_vec();
        assert_eq!(dims, value.dims, "inferred and reference shape of {op}");
        let whole = tensor.data_type.is_some_and(DataType::is_integer);
        if whole { value.map(f64::round_ties_even) } else { value }
    };
    op.outputs.iter().zip(compute(graph, op, inputs)).map(stored).collect()
}

fn compute(graph: &Graph, op: &Op, inputs: &[Tensor]) -> Vec<Tensor> {
    match op.kind {
        K::MatMul => vec![rows::matmul(op, inputs)],
        K::Convolution => vec![windows::convolution(op, inputs)],
        K::MaxPool | K::AvgPool => vec![windows::pooling(op, &inputs[0])],
        K::ConvTranspose => vec![images::conv_transpose(op, inputs)],
        K::ConvTransposeBackwardData => vec![images::conv_transpose_backward_data(op, inputs)],
        K::ConvTransposeBackwardWeights => vec![images::conv_transpose_backward_weights(op, inputs)],
        K::ConvolutionBackwardData => vec![images::convolution_backward_data(op, inputs)],
        K::ConvolutionBackwardWeights => vec![images::convolution_backward_weights(op, inputs)],
        K::MaxPoolBackward | K::AvgPoolBackward => vec![images::pooling_backward(op, inputs)],
        K::Interpolate => vec![images::interpolate(op, inputs)],
        K::InterpolateBackward => vec![images::interpolate_backward(op, inputs)],
        K::SoftMax | K::LogSoftmax => rows::softmax(op, &inputs[0]),
        K::LayerNorm | K::RMSNorm => rows::layer_norm(op, inputs),
        K::BatchNormInference => vec![rows::batch_norm(op, inputs)],
        K::GroupNorm => rows::group_norm(op, inputs),
        K::ReduceL1
        | K::ReduceL2
        | K::ReduceMax
        | K::ReduceMean
        | K::ReduceMin
        | K::ReduceProd
        | K::ReduceSum => vec![rows::reduce(op, inputs)],
        K::BatchNormForwardTraining => rows::batch_norm_training(op, inputs),
        K::BatchNormTrainingBackward => gradients::batch_norm(op, inputs),
        K::LayerNormBackward => gradients::layer_norm(op, inputs),
        K::SoftMaxBackward | K::LogSoftmaxBackward => vec![gradients::softmax(op, inputs)],
        K::BiasAddBackward => vec![gradients::bias(op, &inputs[0])],
        K::PReLU => vec![pointwise::prelu(op, inputs)],
        K::PReLUBackward => gradients::prelu(op, inputs),
        K::AbsBackward
        | K::ClampBackward
        | K::EluBackward
        | K::GELUBackward
        | K::HardSigmoidBackward
        | K::HardSwishBackward
        | K::MishBackward
        | K::ReLUBackward
        | K::SigmoidBackward
        | K::SoftPlusBackward
        | K::SqrtBackward
        | K::TanhBackward => vec![gradients::unary(op, inputs)],
        K::Quantize | K::Dequantize | K::DynamicQuantize | K::DynamicDequantize => {
            let to = graph.tensor(op.outputs[0]).unwrap().data_type.unwrap();
            vec![quantization::quantization(op, inputs, to)]
        }
        K::GenIndex => {
            let axis = front(op.attrs.s64("axis").unwrap(), inputs[0].rank());
            vec![Tensor::of(&inputs[0].dims, |index| index[axis] as f64)]
        }
        K::Dropout => pointwise::dropout(inputs),
        K::Concat => vec![movement::concat(op, inputs)],
        K::StaticReshape => vec![movement::reshape(op, &inputs[0])],
        K::StaticTranspose => vec![movement::transpose(op, &inputs[0])],
        K::Reorder | K::TypeCast => vec![inputs[0].clone()],
        K::Select => vec![pointwise::select(inputs)],
        K::BiasAdd => vec![pointwise::bias_add(op, inputs)],
        K::End => Vec::new(),
        _ if inputs.len() == 2 => vec![pointwise::binary(op, inputs)],
        _ => vec![pointwise::unary(op, &inputs[0])],
    }
}

/// An axis attribute's value counted from the front.
fn front(axis: i64, rank: usize) -> usize {
    (if axis < 0 { axis + rank as i64 } else { axis }) as usize
}

/// The channel dimension by `data_format`.
fn channel_axis(op: &Op, rank: usize) -> usize {
    match op.attrs.string("data_format").unwrap() {
        "NCX" => 1,
        "NXC" => rank - 1,
        other => panic!("data_format {other}"),
    }
}

//! Shapes of inputs from those of results.

use anydnn_backend::Dims;

use super::infer::normalize_axis;
use super::op::Op;
use super::op_kind::OpKind as K;

/// The dimensions of an operation's input that its other tensors tell; none where they leave it open.
pub(super) fn input_dims(
    op: &Op,
    input: usize,
    inputs: &[Option<Dims>],
    outputs: &[Option<Dims>],
) -> Option<Dims> {
    let dst = || outputs.first().cloned().flatten();
    let src = || inputs.first().cloned().flatten();
    match (op.kind, input) {
        (K::MatMul, 0) => {
            let (dst, weights) = (dst()?, inputs.get(1)?.clone()?);
            let (rest, last) = (dst.len().checked_sub(1)?, weights.len().checked_sub(1)?);
            let k = if flag(op, "transpose_b") { weights[last] } else { weights[last.checked_sub(1)?] };
            let mut dims: Vec<usize> = dst[..rest].iter().copied().chain([k]).collect();
            if flag(op, "transpose_a") {
                dims.swap(rest.checked_sub(1)?, rest);
            }
            Some(dims.into())
        }
        (K::MatMul, 1) => {
            let (dst, src) = (dst()?, src()?);
            let (n, last) = (*dst.last()?, src.len().checked_sub(1)?);
            let k = if flag(op, "transpose_a") { src[last.checked_sub(1)?] } else { src[last] };
            Some(if flag(op, "transpose_b") { [n, k] } else { [k, n] }.into())
        }
        (K::MatMul, 2) => {
            let columns = |weights: Dims| {
                let from_back = if flag(op, "transpose_b") { 2 } else { 1 };
                weights.len().checked_sub(from_back).map(|axis| weights[axis])
            };
            let weights = inputs.get(1).cloned().flatten().and_then(columns);
            Some([weights.or_else(|| dst()?.last().copied())?].into())
        }
        (K::BiasAdd | K::PReLU, 1) => Some([channels(op, &src().or_else(dst)?)?].into()),
        (K::Convolution, 2) => {
            let made = |weights: &Dims| {
                let first = op.attrs.string("weights_format").ok()? == "OIX";
                if first { weights.first().copied() } else { weights.last().copied() }
            };
            let weights = inputs.get(1)?.as_ref().and_then(made);
            Some([weights.or_else(|| channels(op, &dst()?))?].into())
        }
        (K::ConvTranspose, 2) => Some([channels(op, &dst()?)?].into()),
        (K::BatchNormInference | K::BatchNormForwardTraining | K::GroupNorm, 1..) => {
            Some([channels(op, &src().or_else(dst)?)?].into())
        }
        (K::LayerNorm | K::RMSNorm, 1..) => {
            let src = src().or_else(dst)?;
            let axis = normalize_axis(op.attrs.s64("begin_norm_axis").ok()?, src.len()).ok()?;
            Some(Dims::new(&src[axis..]))
        }
        (K::StaticTranspose, 0) => {
            let dst = dst()?;
            let mut dims = dst.clone();
            for (&axis, &dim) in op.attrs.s64s("order").ok()?.iter().zip(dst.iter()) {
                *dims.get_mut(normalize_axis(axis, dst.len()).ok()?)? = dim;
            }
            Some(dims)
        }
        // Any shape of as many elements will do.
        (K::StaticReshape, 0) => Some([dst()?.elements()].into()),
        (K::Concat, _) => {
            let mut dims = dst()?;
            let axis = normalize_axis(op.attrs.s64("axis").ok()?, dims.len()).ok()?;
            for (_, other) in inputs.iter().enumerate().filter(|(i, _)| *i != input) {
                dims[axis] = dims[axis].checked_sub(*other.as_ref()?.get(axis)?)?;
            }
            Some(dims)
        }
        (K::DynamicQuantize | K::DynamicDequantize, 1..) => {
            (op.attrs.string("qtype").ok()? == "per_tensor").then(|| [1].into())
        }
        // An operand that does not stretch is as good as one that does.
        (
            K::Add
            | K::Divide
            | K::GreaterEqual
            | K::Maximum
            | K::Minimum
            | K::Multiply
            | K::Select
            | K::SquaredDifference
            | K::Subtract,
            _,
        ) => dst().or_else(|| inputs.iter().flatten().max_by_key(|dims| dims.elements()).cloned()),
        _ if keeps_shape(op.kind, input) => dst(),
        _ => None,
    }
}

/// Whether an input has, or may have, the shape of the first output.
const fn keeps_shape(kind: K, input: usize) -> bool {
    match kind {
        K::Wildcard
        | K::End
        | K::MatMul
        | K::Convolution
        | K::ConvolutionBackwardData
        | K::ConvolutionBackwardWeights
        | K::ConvTranspose
        | K::ConvTransposeBackwardData
        | K::ConvTransposeBackwardWeights
        | K::AvgPool
        | K::AvgPoolBackward
        | K::MaxPool
        | K::Recurrent
        | K::Interpolate
        | K::BiasAddBackward
        | K::ReduceL1
        | K::ReduceL2
        | K::ReduceMax
        | K::ReduceMean
        | K::ReduceMin
        | K::ReduceProd
        | K::ReduceSum => false,
        K::MaxPoolBackward
        | K::InterpolateBackward
        | K::BiasAdd
        | K::PReLU
        | K::BatchNormInference
        | K::BatchNormForwardTraining
        | K::GroupNorm
        | K::LayerNorm
        | K::RMSNorm
        | K::Dropout
        | K::DynamicQuantize
        | K::DynamicDequantize => input == 0,
        K::LayerNormBackward | K::BatchNormTrainingBackward => input < 2,
        K::PReLUBackward => input != 1,
        _ => true,
    }
}

fn channels(op: &Op, dims: &Dims) -> Option<usize> {
    let last = dims.len().checked_sub(1)?;
    let first = op.attrs.string("data_format").ok()? == "NCX";
    dims.get(if first { 1 } else { last }).copied()
}

fn flag(op: &Op, name: &str) -> bool {
    op.attrs.bool(name).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Attrs, OpId, TensorId};

    fn told(kind: K, attrs: Attrs, inputs: &[Option<&[usize]>], output: &[usize]) -> Option<Vec<usize>> {
        let mut op =
            Op { id: OpId(0), name: "op".into(), kind, attrs, inputs: Vec::new(), outputs: Vec::new() };
        op.inputs = (0..inputs.len() as u64).map(TensorId).collect();
        op.outputs = vec![TensorId(99)];
        crate::graph::complete(&mut op).unwrap();
        let input = inputs.iter().position(Option::is_none).unwrap();
        let inputs: Vec<_> = inputs.iter().map(|dims| dims.map(Dims::new)).collect();
        input_dims(&op, input, &inputs, &[Some(Dims::new(output))]).map(|dims| dims.to_vec())
    }

    #[test]
    fn results_tell_the_shapes_of_inputs() {
        let none = Attrs::new;
        let transposed = || Attrs::new().with("transpose_b", true);
        assert_eq!(told(K::MatMul, none(), &[Some(&[2, 3, 4]), None], &[2, 3, 5]), Some(vec![4, 5]));
        assert_eq!(told(K::MatMul, transposed(), &[Some(&[3, 4]), None], &[3, 5]), Some(vec![5, 4]));
        assert_eq!(told(K::MatMul, transposed(), &[None, Some(&[5, 4])], &[3, 5]), Some(vec![3, 4]));
        assert_eq!(told(K::MatMul, none(), &[Some(&[3, 4]), Some(&[4, 5]), None], &[3, 5]), Some(vec![5]));
        assert_eq!(told(K::Add, none(), &[Some(&[3, 1]), None], &[3, 5]), Some(vec![3, 5]));
        assert_eq!(told(K::Tanh, none(), &[None], &[7]), Some(vec![7]));
        assert_eq!(
            told(
                K::LayerNorm,
                none().with("keep_stats", false),
                &[Some(&[2, 3, 4]), None, Some(&[4])],
                &[2, 3, 4]
            ),
            Some(vec![4])
        );
        let order = Attrs::new().with("order", [0, 2, 1]);
        assert_eq!(told(K::StaticTranspose, order, &[None], &[2, 4, 3]), Some(vec![2, 3, 4]));
        let axis = Attrs::new().with("axis", -1_i64);
        assert_eq!(told(K::Concat, axis, &[Some(&[2, 3]), None], &[2, 10]), Some(vec![2, 7]));
        let reduce = Attrs::new().with("axes", [1]).with("keep_dims", true);
        assert_eq!(told(K::ReduceSum, reduce, &[None], &[2, 1]), None);
    }
}

//! Scaled integers.

use anydnn::backend::DataType;
use anydnn::graph::{Op, OpKind as K};
use anydnn::model::HostTensor;

use super::super::tensor::Tensor;
use super::front;

/// All four operations; `to` is the type of the result.
pub fn quantization(op: &Op, inputs: &[Tensor], to: DataType) -> Tensor {
    let src = &inputs[0];
    let constant = |name: &str| -> Option<Tensor> {
        let values: Vec<f64> = match name {
            "scales" => op.attrs.f32s(name).unwrap().iter().map(|&v| f64::from(v)).collect(),
            _ => op.attrs.s64s(name).ok()?.iter().map(|&v| v as f64).collect(),
        };
        Some(Tensor::new(&[values.len()], values))
    };
    let in_attributes = matches!(op.kind, K::Quantize | K::Dequantize);
    let scales = if in_attributes { constant("scales").unwrap() } else { inputs[1].clone() };
    let zps = if in_attributes { constant("zps") } else { inputs.get(2).cloned() };
    let of = |tensor: &Tensor, index: &[usize]| -> f64 {
        if tensor.values.len() == 1 {
            return tensor.values[0];
        }
        match op.attrs.string("qtype").unwrap() {
            "per_channel" => tensor.values[index[front(op.attrs.s64("axis").unwrap(), src.rank())]],
            "per_group" => {
                let groups = op.attrs.s64s("group_shape").unwrap();
                let place: Vec<usize> =
                    index.iter().zip(groups).map(|(&i, &size)| i / size as usize).collect();
                tensor.at(&place)
            }
            other => panic!("qtype {other}"),
        }
    };
    Tensor::of(&src.dims, |index| {
        let (scale, zp) = (of(&scales, index), zps.as_ref().map_or(0.0, |zps| of(zps, index)));
        match op.kind {
            K::Quantize | K::DynamicQuantize => {
                // Rounded and limited as every store of the type is.
                let steps = src.at(index) / scale;
                let rounds_first = op.attrs.bool("round_first").unwrap_or(false);
                let value = [if rounds_first { steps.round_ties_even() } else { steps } + zp];
                HostTensor::from_f64([1], to, &value).unwrap().to_f64s()[0]
            }
            _ => (src.at(index) - zp) * scale,
        }
    })
}

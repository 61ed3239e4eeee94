//! Between floats and scaled integers.

use anydnn_backend::{DataType, Dims, Result};

use super::super::tensor::data_type;
use super::call::Call;
use super::cast::limited_to;
use super::numbers::strides;
use crate::graph::normalize_axis;
use crate::model::HostTensor;

pub(in crate::onnx) fn quantize(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let to = match (call.optional(2), call.node.int("output_dtype", 0)?) {
        (Some(points), _) => points.data_type(),
        (None, 0) => DataType::U8,
        (None, number) => data_type(i32::try_from(number).unwrap_or(-1))?,
    };
    let parameters = Parameters::of(call, src)?;
    let limited = call.node.flag("saturate", true)?;
    let values: Vec<f64> = src
        .to_f64s()
        .into_iter()
        .zip(parameters.places(src.dims()))
        .map(|(value, at)| {
            // In f32, as the definition has it: halves decide where results round to.
            let scaled = f64::from(value as f32 / parameters.scales[at] as f32);
            match to {
                to if to.is_float() && limited => limited_to(to, scaled + parameters.points[at]),
                to if to.is_float() => scaled + parameters.points[at],
                _ => scaled.round_ties_even() + parameters.points[at],
            }
        })
        .collect();
    call.output(src.dims().clone(), to, &values)
}

pub(in crate::onnx) fn dequantize(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let to = match call.node.int("output_dtype", 0)? {
        0 => call.tensor(1)?.data_type(),
        number => data_type(i32::try_from(number).unwrap_or(-1))?,
    };
    let parameters = Parameters::of(call, src)?;
    let of = |(value, at): (f64, usize)| (value - parameters.points[at]) * parameters.scales[at];
    let values: Vec<f64> = src.to_f64s().into_iter().zip(parameters.places(src.dims())).map(of).collect();
    call.output(src.dims().clone(), to, &values)
}

/// Scales and zero points: one of each, one for each index along an axis, or one for each block along it.
struct Parameters {
    scales: Vec<f64>,
    points: Vec<f64>,
    dims: Dims,
    axis: usize,
    block: usize,
}

impl Parameters {
    fn of(call: &Call, src: &HostTensor) -> Result<Self> {
        let scale = call.tensor(1)?;
        let count = scale.dims().elements();
        let mut made = Self {
            scales: scale.to_f64s(),
            points: call.values_or(2, count, 0.0)?,
            dims: scale.dims().clone(),
            axis: 0,
            block: 1,
        };
        if count == 1 && scale.dims().len() <= 1 {
            made.dims = Dims::default();
            return Ok(made);
        }
        let rank = src.dims().len();
        made.axis = normalize_axis(call.node.int("axis", 1)?, rank)?;
        let extent = src.dims()[made.axis];
        let block = usize::try_from(call.node.int("block_size", 0)?).unwrap_or(0);
        let fits = if scale.dims().len() == 1 && rank > 0 && block == 0 {
            scale.dims()[0] == extent
        } else {
            // Without a size, blocks are as large as the scales divide the axis.
            made.block = if block > 0 {
                block
            } else {
                extent.div_ceil(scale.dims().get(made.axis).copied().unwrap_or(1).max(1)).max(1)
            };
            scale.dims().len() == rank
                && (0..rank).all(|d| {
                    let extent = src.dims()[d];
                    scale.dims()[d] == if d == made.axis { extent.div_ceil(made.block) } else { extent }
                })
        };
        if fits {
            return Ok(made);
        }
        let expected =
            format!("one, or one for each index or block along axis {} of {}", made.axis, src.dims());
        Err(call.invalid("scales", scale.dims(), expected))
    }

    /// The scale of each element.
    fn places(&self, dims: &Dims) -> Vec<usize> {
        if self.dims.is_empty() {
            return vec![0; dims.elements()];
        }
        if self.dims.len() == 1 && dims.len() > 1 {
            return dims.indices().map(|index| index[self.axis]).collect();
        }
        let strides = strides(&self.dims);
        let at =
            |(d, &i): (usize, &usize)| (if d == self.axis { i / self.block } else { i }) as i64 * strides[d];
        dims.indices().map(|index| index.iter().enumerate().map(at).sum::<i64>() as usize).collect()
    }
}

/// The zero points of an input for a number of channels, zero without.
pub(super) fn zero_points(call: &Call, index: usize, channels: usize) -> Result<Vec<f64>> {
    match call.optional(index) {
        Some(tensor) if tensor.dims().elements() == 1 => Ok(vec![tensor.to_f64s()[0]; channels]),
        _ => call.values_or(index, channels, 0.0),
    }
}

/// Values as scaled integers, with scale and zero point in two inputs.
pub(super) fn requantized(
    call: &mut Call,
    dims: Dims,
    values: &[f64],
    index: usize,
) -> Result<Vec<HostTensor>> {
    let scale = call.number(index)?.ok_or_else(|| call.invalid("scale", "missing", "one number"))?;
    let (point, to) = (call.number(index + 1)?.unwrap_or(0.0), call.tensor(index + 1)?.data_type());
    let of = |value: &f64| f64::from((value / scale) as f32).round_ties_even() + point;
    let made: Vec<f64> = values.iter().map(of).collect();
    call.output(dims, to, &made)
}

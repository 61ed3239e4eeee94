//! Between floats and scaled integers, with scales known when the model is imported.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::super::tensor;
use super::floats;
use crate::graph::{Attrs, OpKind, normalize_axis};
use crate::model::HostTensor;

pub(super) fn quantize(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let to = match (node.optional(2), node.int("output_dtype", 0)?) {
        (Some(zero_points), _) => zero_points.data_type,
        (None, 0) => DataType::U8,
        (None, number) => tensor::data_type(i32::try_from(number).unwrap_or(-1))?,
    };
    if !matches!(to, DataType::U8 | DataType::S8) {
        return Err(node.unsupported(format!("results of {to} are not read")));
    }
    let attrs = Parameters::of(network, node, src)?.attrs();
    Ok(vec![network.op_to(node, OpKind::Quantize, &[src], attrs, Some(to))?])
}

pub(super) fn dequantize(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = node.input(0)?;
    if !src.data_type.is_integer() {
        return Err(node.unsupported(format!("sources of {} are not read", src.data_type)));
    }
    if node.input(1)?.data_type != DataType::F32 {
        return Err(node.unsupported("only scales of f32 are read"));
    }
    let parameters = Parameters::of(network, node, src)?;
    // Biases of 32 bits are few: the device gets them as floats.
    if let (DataType::S32, Some(known)) = (src.data_type, network.known(src)) {
        let tensor = parameters.dequantized(known)?;
        return Ok(vec![network.constant(node.name(), tensor)?]);
    }
    Ok(vec![network.op_to(node, OpKind::Dequantize, &[src], parameters.attrs(), Some(DataType::F32))?])
}

/// Scales and zero points: one of each, or one for each index along an axis.
struct Parameters {
    scales: Vec<f32>,
    zero_points: Vec<i64>,
    axis: Option<usize>,
}

impl Parameters {
    fn of(network: &Network, node: &Node, src: &Value) -> Result<Self> {
        if node.int("block_size", 0)? != 0 {
            return Err(node.unsupported("scales of blocks are not read"));
        }
        let scale = node.input(1)?;
        let Some(scales) = network.known(scale).map(HostTensor::to_f32s) else {
            return Err(node.unsupported("scales that are given on execution are not read"));
        };
        let axis = if scales.len() == 1 && scale.rank() <= 1 {
            None
        } else {
            let axis = normalize_axis(node.int("axis", 1)?, src.rank())?;
            if *scale.dims != [src.dims[axis]] {
                let expected = format!("one, or one for each index along axis {axis} of {}", src.dims);
                return Err(node.invalid("scales", &scale.dims, expected));
            }
            Some(axis)
        };
        let zero_points: Vec<i64> = match node.optional(2) {
            None => vec![0; scales.len()],
            Some(points) => match network.known(points) {
                Some(points) => points.to_f64s().into_iter().map(|point| point as i64).collect(),
                None => return Err(node.unsupported("zero points that are given on execution are not read")),
            },
        };
        if zero_points.len() != scales.len() {
            return Err(node.invalid(
                "zero points",
                zero_points.len(),
                format!("{}, as scales", scales.len()),
            ));
        }
        Ok(Self { scales, zero_points, axis })
    }

    fn attrs(self) -> Attrs {
        let qtype = if self.axis.is_some() { "per_channel" } else { "per_tensor" };
        let attrs =
            Attrs::new().with("qtype", qtype).with("scales", self.scales).with("zps", self.zero_points);
        match self.axis {
            Some(axis) => attrs.with("axis", axis as i64),
            None => attrs,
        }
    }

    fn dequantized(&self, src: &HostTensor) -> Result<HostTensor> {
        let dims = src.dims();
        let (extent, inner) = match self.axis {
            Some(axis) => (dims[axis], Dims::new(&dims[axis + 1..]).elements()),
            None => (1, 1),
        };
        let value = |(i, number): (usize, f64)| {
            let at = i / inner.max(1) % extent.max(1);
            (number - self.zero_points[at] as f64) * f64::from(self.scales[at])
        };
        let values: Vec<f64> = src.to_f64s().into_iter().enumerate().map(value).collect();
        HostTensor::from_f64(dims.clone(), DataType::F32, &values)
    }
}

//! Scales and zero points of integers, wherever a node has them.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use crate::graph::{Attrs, OpKind};
use crate::model::HostTensor;

/// Where an operand's parameters are among the inputs; without a scale it is one.
#[derive(Clone, Copy)]
pub(super) struct Inputs {
    pub(super) scale: Option<usize>,
    pub(super) point: usize,
}

/// Scales and zero points, known now or given on execution.
pub(super) struct Parameters {
    scale: Option<Value>,
    point: Option<Value>,
    axis: Option<usize>,
}

impl Parameters {
    pub(super) fn of(
        network: &Network,
        node: &Node,
        inputs: Inputs,
        (src, axis): (&Value, Option<usize>),
    ) -> Result<Self> {
        let scale = inputs.scale.map(|index| node.input(index).cloned()).transpose()?;
        let point = node.optional(inputs.point).cloned();
        if let Some(scale) = scale.as_ref().filter(|scale| scale.data_type != DataType::F32) {
            return Err(node.unsupported(format!("scales of {} are not read", scale.data_type)));
        }
        let count = |value: &Option<Value>| value.as_ref().map_or(1, |value| value.dims.elements());
        let most = count(&scale).max(count(&point));
        let is_line = |value: &Value| value.rank() <= 1 || value.dims.elements() == 1;
        if ![&scale, &point].into_iter().flatten().all(is_line) {
            return Err(node.unsupported("scales and zero points of several dimensions are not read"));
        }
        if most == 1 {
            return Ok(Self { scale, point, axis: None });
        }
        let extent = axis.map(|axis| src.dims[axis]);
        let fits = |n: usize| n == most || n == 1;
        if extent != Some(most) || !fits(count(&scale)) || !fits(count(&point)) {
            let expected = format!("one, or one for each of {}", extent.unwrap_or(1));
            let given = format!("{} and {}", count(&scale), count(&point));
            return Err(node.invalid("scales and zero points", given, expected));
        }
        // Of several on execution all have to be there.
        let spread = |value: &Option<Value>| {
            value.as_ref().is_none_or(|value| value.dims.elements() == most || network.is_known(value))
        };
        if !spread(&scale) || !spread(&point) {
            return Err(node.unsupported("one number for several is not spread on execution"));
        }
        Ok(Self { scale, point, axis })
    }

    /// Whether all of them are known now.
    pub(super) fn are_known(&self, network: &Network) -> bool {
        [&self.scale, &self.point].into_iter().flatten().all(|value| network.is_known(value))
    }

    /// The floats that known integers stand for, if the parameters are known, too.
    pub(super) fn dequantized(&self, network: &Network, src: &HostTensor) -> Option<Result<HostTensor>> {
        let dims = src.dims();
        let (extent, inner) = match self.axis {
            Some(axis) => (dims[axis], Dims::new(&dims[axis + 1..]).elements()),
            None => (1, 1),
        };
        let (Some(scales), Some(points)) = self.numbers(network, extent) else { return None };
        let value = |(i, number): (usize, f64)| {
            let at = i / inner.max(1) % extent.max(1);
            (number - points[at]) * scales[at]
        };
        let values: Vec<f64> = src.to_f64s().into_iter().enumerate().map(value).collect();
        Some(HostTensor::from_f64(dims.clone(), DataType::F32, &values))
    }

    /// Adds the quantisation of floats. They are rounded before the zero point is added: halves go to the even number of steps, and no digits
    /// of the quotient are lost to a sum.
    pub(super) fn quantize(
        mut self,
        network: &mut Network,
        node: &Node,
        src: &Value,
        to: DataType,
    ) -> Result<Value> {
        let kinds = [OpKind::Quantize, OpKind::DynamicQuantize];
        if self.are_known(network) {
            return self.apply(network, node, src, kinds, to);
        }
        let mut steps = src.clone();
        if let Some(scale) = self.scale.take() {
            let mut dims: Dims = std::iter::repeat_n(1, src.rank()).collect();
            if let Some(axis) = self.axis {
                dims[axis] = scale.dims.elements();
            }
            let scale = network.reshape(node, &scale, dims)?;
            steps = network.op(node, OpKind::Divide, &[src, &scale], Attrs::new())?;
            steps = network.op(node, OpKind::Round, &[&steps], Attrs::new())?;
        }
        self.apply(network, node, &steps, kinds, to)
    }

    /// As many scales and zero points as there are indices along the axis, each if they are known.
    fn numbers(&self, network: &Network, count: usize) -> (Option<Vec<f64>>, Option<Vec<f64>>) {
        let numbers = |value: &Option<Value>, absent: f64| {
            let Some(value) = value else { return Some(vec![absent; count]) };
            let numbers = network.known(value)?.to_f64s();
            Some(if numbers.len() == 1 { vec![numbers[0]; count] } else { numbers })
        };
        (numbers(&self.scale, 1.0), numbers(&self.point, 0.0))
    }

    /// Adds the operation for known parameters or the one for others.
    pub(super) fn apply(
        self,
        network: &mut Network,
        node: &Node,
        src: &Value,
        [known, dynamic]: [OpKind; 2],
        to: DataType,
    ) -> Result<Value> {
        let count = self.axis.map_or(1, |axis| src.dims[axis]);
        let attrs = match self.axis {
            Some(axis) => Attrs::new().with("qtype", "per_channel").with("axis", axis as i64),
            None => Attrs::new().with("qtype", "per_tensor"),
        };
        let (scales, points) = self.numbers(network, count);
        if let (Some(scales), Some(points)) = (&scales, &points) {
            let scales: Vec<f32> = scales.iter().map(|&scale| scale as f32).collect();
            let points: Vec<i64> = points.iter().map(|&point| point as i64).collect();
            // Where nothing is added the order does not matter.
            let rounds = known == OpKind::Quantize && points.iter().any(|&point| point != 0);
            let mut attrs = attrs.with("scales", scales).with("zps", points);
            if rounds {
                attrs.set("round_first", true);
            }
            return network.op_to(node, known, &[src], attrs, Some(to));
        }
        let dims = Dims::from([count]);
        let scale = match (&self.scale, scales) {
            (Some(scale), None) => network.reshape(node, scale, dims.clone())?,
            (_, scales) => {
                let scales: Vec<f32> = scales.unwrap_or_default().iter().map(|&scale| scale as f32).collect();
                network.computed(&format!("{}/scale", node.name()), dims.clone(), &scales)?
            }
        };
        let mut operands = vec![src.clone(), scale];
        if let Some(point) = &self.point {
            operands.push(match points {
                // One for several.
                Some(points) if point.dims.elements() != count => {
                    let points = HostTensor::from_f64(dims, point.data_type, &points)?;
                    network.constant(&format!("{}/point", node.name()), points)?
                }
                _ => network.reshape(node, point, dims)?,
            });
        }
        network.op_to(node, dynamic, &operands.iter().collect::<Vec<_>>(), attrs, Some(to))
    }
}

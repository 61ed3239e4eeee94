//! The same numbers for everybody: each tensor's values follow from its number and their positions alone, so that no data travels
//! between processes.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread::{available_parallelism, scope};

use anydnn::backend::{DataType, MemoryDesc, Result};
use anydnn::graph::{Graph, LogicalTensor, OpKind, TensorId};
use anydnn::model::HostTensor;
use serde_json::{Value, json};

/// Elements that a thread computes at least.
const SHARE: usize = 1 << 16;

/// A tensor of a case with what its values follow from.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) id: u64,
    pub(crate) dims: Vec<usize>,
    pub(crate) data_type: DataType,
    /// Whether it is given once.
    pub(crate) constant: bool,
    /// Values are `offset + scale * u` with `u` from -1 to 1.
    pub(crate) offset: f32,
    pub(crate) scale: f32,
}

impl Tensor {
    /// Inputs and constants of a graph.
    pub(crate) fn of_graph(graph: &Graph) -> Result<Vec<Self>> {
        let inputs = graph.inputs().iter().filter_map(|&id| graph.tensor(id)).map(|tensor| (tensor, false));
        let constants = graph.constants().map(|tensor| (tensor, true));
        inputs.chain(constants).map(|(tensor, constant)| Self::new(graph, tensor, constant)).collect()
    }

    fn new(graph: &Graph, tensor: &LogicalTensor, constant: bool) -> Result<Self> {
        let desc = tensor.memory_desc()?;
        let (offset, scale) = range(graph, tensor.id, desc.dims());
        let name = tensor.label();
        let (dims, data_type) = (desc.dims().to_vec(), desc.data_type());
        Ok(Self { id: tensor.id.0, name, dims, data_type, constant, offset, scale })
    }

    /// The values of a set of inputs; constants are those of set zero.
    pub(crate) fn values(&self, set: usize) -> Result<HostTensor> {
        let desc = MemoryDesc::new(self.dims.clone(), self.data_type);
        let elements = desc.elements();
        let seed = self.seed(set);
        let mut bytes = Vec::with_capacity(elements * 4);
        if self.data_type.is_integer() {
            let integers: Vec<f64> = (0..elements).map(|i| self.integer(hash(i as u32, seed))).collect();
            return HostTensor::from_f64(self.dims.clone(), self.data_type, &integers);
        }
        let part = elements.div_ceil(available_parallelism().map_or(1, NonZero::get)).max(SHARE);
        let floats = |first: usize| {
            let value = |i| {
                let unit = (hash(i as u32, seed) >> 8) as f32 / 8_388_608.0 - 1.0;
                self.scale * unit + self.offset
            };
            let values: Vec<f32> = (first..elements.min(first + part)).map(value).collect();
            let f32s = HostTensor::from_f32([values.len()], &values)?;
            Ok(if self.data_type == DataType::F32 { f32s } else { f32s.cast(self.data_type) })
        };
        let floats = &floats;
        let parts: Vec<Result<HostTensor>> = scope(|scope| {
            let starts = (0..elements).step_by(part);
            let threads: Vec<_> = starts.map(|first| scope.spawn(move || floats(first))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .collect()
        });
        for part in parts {
            bytes.extend_from_slice(part?.bytes());
        }
        HostTensor::new(desc, bytes)
    }

    /// From 0 to 15, or as many on either side of zero, so that sums of their products are of either sign.
    fn integer(&self, hash: u32) -> f64 {
        match self.data_type {
            DataType::U8 | DataType::U4 => f64::from(hash >> 28),
            _ => f64::from(((hash >> 16) * 15) >> 16) - 7.0,
        }
    }

    /// What a peer is told.
    pub(crate) fn json(&self, sets: usize) -> Value {
        let seeds: Vec<u32> = (0..if self.constant { 1 } else { sets }).map(|set| self.seed(set)).collect();
        json!({
            "id": self.id,
            "name": self.name,
            "dims": self.dims,
            "type": self.data_type.to_string(),
            "constant": self.constant,
            "offset": self.offset,
            "scale": self.scale,
            "seeds": seeds,
        })
    }

    /// As [`Tensor::json`] wrote it.
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let number = |key: &str| value[key].as_f64().map(|number| number as f32);
        Some(Self {
            name: value["name"].as_str()?.to_owned(),
            id: value["id"].as_u64()?,
            dims: value["dims"]
                .as_array()?
                .iter()
                .map(|dim| Some(dim.as_u64()? as usize))
                .collect::<Option<_>>()?,
            data_type: value["type"].as_str()?.parse().ok()?,
            constant: value["constant"].as_bool()?,
            offset: number("offset")?,
            scale: number("scale")?,
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        MemoryDesc::new(self.dims.clone(), self.data_type).size()
    }

    fn seed(&self, set: usize) -> u32 {
        mix((self.id as u32).wrapping_mul(31).wrapping_add(set as u32 * 7919) + 1)
    }
}

fn hash(index: u32, seed: u32) -> u32 {
    mix(index.wrapping_mul(0x9e37_79b9) ^ seed)
}

/// Every bit of the result depends on every bit of the argument.
fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// Offset and scale that keep results finite and of the size of the inputs.
fn range(graph: &Graph, id: TensorId, dims: &[usize]) -> (f32, f32) {
    let name = graph.label(id);
    for &reader in graph.consumers(id) {
        let op = &graph.ops()[reader];
        let Some(port) = op.inputs.iter().position(|input| *input == id) else { continue };
        match (op.kind, port) {
            (OpKind::Divide, 1) if name.ends_with("_scale") => {
                let query = graph.producer(op.inputs[0]).map(|producer| graph.ops()[producer].inputs[0]);
                let size = query.and_then(|q| graph.tensor(q)?.dims.as_ref()?.last().copied().flatten());
                return (size.map_or(8.0, |size| (size as f32).sqrt()), 0.0);
            }
            (OpKind::Select, 2) if name.ends_with("_never") => return (-60_000.0, 0.0),
            (OpKind::MatMul | OpKind::Convolution, 1) if !dims.is_empty() => {
                let summed: usize = match op.kind {
                    OpKind::MatMul => dims[dims.len().saturating_sub(2)],
                    _ => dims[..dims.len() - 1].iter().product(),
                };
                let constant = graph.constants().any(|tensor| tensor.id == id);
                return (0.0, if constant { (3.0 / summed.max(1) as f32).sqrt() } else { 1.0 });
            }
            (OpKind::Dropout, 3) => return (0.25, 0.0),
            (OpKind::DynamicDequantize, 1) => return (0.1, 0.05),
            // States that reach neither end of their functions.
            (OpKind::Recurrent, 1 | 2) => {
                let summed = dims.last().copied().unwrap_or(1);
                return (0.0, (3.0 / summed.max(1) as f32).sqrt());
            }
            (OpKind::Recurrent, 3..) => return (0.0, 0.25),
            (OpKind::BatchNormInference, 1 | 4)
            | (OpKind::BatchNormForwardTraining, 2 | 3)
            | (OpKind::BatchNormTrainingBackward, 3 | 4)
            | (OpKind::Divide | OpKind::LayerNorm | OpKind::RMSNorm, 1)
            | (OpKind::Sqrt | OpKind::Log | OpKind::Pow | OpKind::Reciprocal, 0) => return (1.0, 0.5),
            _ => {}
        }
    }
    (0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{graphs, notation};

    #[test]
    fn sums_of_products_of_integers_are_of_either_sign() {
        for text in ["matmul 2x2723:2723x64 u8 +bias+gelu", "matmul 2x2723:2723x64 s8"] {
            let spec = notation::parse(text).unwrap_or_else(|failure| panic!("{failure}"));
            let tensors = Tensor::of_graph(&graphs::graph(&spec).expect("a graph")).expect("tensors");
            let values = |name| {
                let tensor = tensors.iter().find(|t| t.name == name).expect("a tensor of that name");
                tensor.values(0).expect("values").to_f32s()
            };
            let (src, weights) = (values("src"), values("weights"));
            let (least, most) = weights.iter().fold((0.0_f32, 0.0_f32), |(a, b), &v| (a.min(v), b.max(v)));
            assert_eq!((least, most), (-7.0, 7.0));
            let sums = (0..128).map(|i| -> f32 {
                (0..2723).map(|k| src[i / 64 * 2723 + k] * weights[k * 64 + i % 64]).sum()
            });
            let above = sums.filter(|&sum| sum > 0.0).count();
            assert!((32..96).contains(&above), "{text}: {above} of 128");
        }
    }

    #[test]
    fn tensors_travel_as_json_and_their_values_follow() {
        let spec = notation::parse("matmul 8x300:300x4 +bias").unwrap_or_else(|failure| panic!("{failure}"));
        let graph = graphs::graph(&spec).expect("a graph");
        let tensors = Tensor::of_graph(&graph).expect("tensors");
        assert_eq!(tensors.iter().map(|t| t.constant).collect::<Vec<_>>(), [false, true, true]);
        for tensor in tensors {
            let there = Tensor::from_json(&tensor.json(2)).expect("a tensor");
            assert_eq!(there.values(1).expect("values"), tensor.values(1).expect("values"));
            let values = tensor.values(0).expect("values").to_f32s();
            assert_ne!(values, tensor.values(1).expect("values").to_f32s());
            let largest = values.iter().fold(0.0_f32, |max, v| max.max(v.abs()));
            assert!(largest <= tensor.scale && largest > 0.5 * tensor.scale, "{largest} of {}", tensor.scale);
            let mean = values.iter().sum::<f32>() / values.len() as f32;
            assert!(mean.abs() < 0.5 * tensor.scale, "{mean}");
        }
    }
}

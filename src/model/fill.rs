//! Values for constants that a model comes without.

use anydnn_backend::{Error, Result, check_host_memory};

use super::{HostTensor, Model};
use crate::graph::{Graph, OpKind, TensorId};

impl Model {
    /// Gives every missing constant pseudo-random values that depend on the seed and the tensor alone. They keep results finite:
    /// variances, divisors and quantization scales are positive, weights shrink with the number of products that are summed.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a constant's type or shape is unknown,
    /// [`Error::OutOfMemory`] when the host has not as much memory; nothing is filled then.
    pub fn fill_missing_constants(&mut self, seed: u64) -> Result<()> {
        let missing = self.missing_constants();
        let descs = missing.iter().map(|tensor| Ok((tensor.id, tensor.memory_desc()?)));
        let descs: Vec<_> = descs.collect::<Result<_>>()?;
        let total =
            descs.iter().fold(0_usize, |sum, (_, desc)| sum.saturating_add(desc.to_row_major().size()));
        check_host_memory(total, || format!("{} constants without values", descs.len()))?;
        let mut filled = Vec::with_capacity(descs.len());
        for (id, desc) in descs {
            let role = if desc.data_type().is_float() { role(&self.graph, id) } else { Role::Other };
            let products = desc.elements() as f64 / desc.dims().first().copied().unwrap_or(1).max(1) as f64;
            let scale = 1.0 / products.sqrt().max(1.0);
            let seed = seed ^ id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let tensor = HostTensor::random_with(&desc, seed, |value| role.apply(value, scale))?;
            filled.push((id, tensor.labelled(desc.label().unwrap_or_default())));
        }
        self.constants.extend(filled);
        Ok(())
    }
}

/// Pseudo-random values for an input of a graph, which depend on the seed and the tensor alone, in the range of its type. Where a
/// reader takes only positive numbers, they are.
///
/// # Errors
/// [`Error::Invalid`](anydnn_backend::Error::Invalid) when the input's type or shape is unknown,
/// [`Error::OutOfMemory`](anydnn_backend::Error::OutOfMemory) when the host has not as much memory.
pub fn random_input(graph: &Graph, id: TensorId, seed: u64) -> Result<HostTensor> {
    let unknown = || Error::invalid("random input", "tensor", id.to_string(), "a tensor of the graph");
    let desc = graph.tensor(id).ok_or_else(unknown)?.memory_desc()?;
    let seed = seed ^ id.0.wrapping_mul(0xd1b5_4a32_d192_ed03);
    let role = if desc.data_type().is_float() { role(graph, id) } else { Role::Other };
    HostTensor::random_with(&desc, seed, |value| match role {
        Role::Weights => value,
        role => role.apply(value, 1.0),
    })
}

fn role(graph: &Graph, id: TensorId) -> Role {
    for &reader in graph.consumers(id) {
        let op = &graph.ops()[reader];
        for (i, _) in op.inputs.iter().enumerate().filter(|(_, input)| **input == id) {
            match (op.kind, i) {
                (OpKind::BatchNormInference, 4)
                | (OpKind::BatchNormForwardTraining, 2)
                | (OpKind::BatchNormTrainingBackward | OpKind::LayerNormBackward, 3)
                | (OpKind::Divide, 1)
                | (OpKind::Log | OpKind::Sqrt | OpKind::Reciprocal | OpKind::Pow, 0) => {
                    return Role::Positive;
                }
                (OpKind::Dropout, 3) => return Role::Probability,
                (OpKind::DynamicDequantize | OpKind::DynamicQuantize, 1) => return Role::Scale,
                (OpKind::MatMul | OpKind::Convolution | OpKind::ConvTranspose, 1) => {
                    return Role::Weights;
                }
                _ => {}
            }
        }
    }
    Role::Other
}

#[derive(Clone, Copy)]
enum Role {
    Positive,
    Probability,
    Scale,
    Weights,
    Other,
}

impl Role {
    /// A number from -1 to 1 as one that fits the role.
    fn apply(self, value: f64, scale: f64) -> f64 {
        match self {
            Self::Positive => 1.0 + value / 2.0,
            Self::Probability => 0.5 + value / 4.0,
            Self::Scale => (1.5 + value) / 100.0,
            Self::Weights => value * scale,
            Self::Other => value,
        }
    }
}

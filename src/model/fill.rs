//! Values for constants that a model comes without.

use anydnn_backend::{Result, check_host_memory};

use super::{HostTensor, Model};
use crate::graph::{OpKind, TensorId};

impl Model {
    /// Gives every missing constant pseudo-random values that depend on the seed and the tensor alone. They keep results finite:
    /// variances, divisors and quantization scales are positive, weights shrink with the number of products that are summed.
    ///
    /// # Errors
    /// [`Error::Invalid`](anydnn_backend::Error::Invalid) when a constant's type or shape is unknown,
    /// [`Error::OutOfMemory`](anydnn_backend::Error::OutOfMemory) when the host has not as much memory; nothing is filled then.
    pub fn fill_missing_constants(&mut self, seed: u64) -> Result<()> {
        let missing = self.missing_constants();
        let descs = missing.iter().map(|tensor| Ok((tensor.id, tensor.memory_desc()?)));
        let descs: Vec<_> = descs.collect::<Result<_>>()?;
        let total =
            descs.iter().fold(0_usize, |sum, (_, desc)| sum.saturating_add(desc.to_row_major().size()));
        check_host_memory(total, || format!("{} constants without values", descs.len()))?;
        let mut filled = Vec::with_capacity(descs.len());
        for (id, desc) in descs {
            let role = if desc.data_type().is_float() { self.role(id) } else { Role::Other };
            let products = desc.elements() as f64 / desc.dims().first().copied().unwrap_or(1).max(1) as f64;
            let scale = 1.0 / products.sqrt().max(1.0);
            let seed = seed ^ id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let tensor = HostTensor::random_with(&desc, seed, |value| match role {
                Role::Positive => 1.0 + value / 2.0,
                Role::Scale => (1.5 + value) / 100.0,
                Role::Weights => value * scale,
                Role::Other => value,
            })?;
            filled.push((id, tensor.labelled(desc.label().unwrap_or_default())));
        }
        self.constants.extend(filled);
        Ok(())
    }

    fn role(&self, id: TensorId) -> Role {
        for &reader in self.graph.consumers(id) {
            let op = &self.graph.ops()[reader];
            for (i, _) in op.inputs.iter().enumerate().filter(|(_, input)| **input == id) {
                match (op.kind, i) {
                    (OpKind::BatchNormInference, 4)
                    | (OpKind::BatchNormForwardTraining, 2)
                    | (OpKind::Divide, 1) => {
                        return Role::Positive;
                    }
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
}

enum Role {
    Positive,
    Scale,
    Weights,
    Other,
}

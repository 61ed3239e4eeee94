//! Values for constants that a model comes without.

use anydnn_backend::{DataType, Result};

use super::{HostTensor, Model};
use crate::graph::{OpKind, TensorId};

impl Model {
    /// Gives every missing constant pseudo-random values that depend on the seed and the tensor alone. They keep results finite:
    /// variances, divisors and quantization scales are positive, weights shrink with the number of products that are summed.
    ///
    /// # Errors
    /// [`Error::Invalid`](anydnn_backend::Error::Invalid) when a constant's type or shape is unknown.
    pub fn fill_missing_constants(&mut self, seed: u64) -> Result<()> {
        let missing: Vec<_> = self.missing_constants().into_iter().map(|tensor| tensor.id).collect();
        for id in missing {
            let Some(tensor) = self.graph.tensor(id) else { continue };
            let desc = tensor.memory_desc()?;
            let random = HostTensor::random(&desc, seed ^ id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let filled = if desc.data_type().is_float() && desc.data_type() != DataType::F64 {
                let role = self.role(id);
                let scale = 1.0
                    / (desc.elements() as f64 / desc.dims().first().copied().unwrap_or(1).max(1) as f64)
                        .sqrt()
                        .max(1.0);
                let values: Vec<f64> = random
                    .to_f64s()
                    .into_iter()
                    .map(|value| match role {
                        Role::Positive => 1.0 + value / 2.0,
                        Role::Scale => (1.5 + value) / 100.0,
                        Role::Weights => value * scale,
                        Role::Other => value,
                    })
                    .collect();
                HostTensor::from_f64(desc.dims().clone(), desc.data_type(), &values)?
            } else {
                random
            };
            self.constants.insert(id, filled.labelled(&tensor.label()));
        }
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

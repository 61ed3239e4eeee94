//! How a model is compiled.

use std::fmt;
use std::sync::Arc;

use anydnn_backend::{DataType, Specialize};

use super::Startup;
use crate::fusion::Policy;

/// The types that floats are computed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Those of the model.
    #[default]
    Model,
    /// f16 in place of f32, for weights and between operators: less memory, less exact, and beyond 65,504 infinite. Inputs and outputs keep
    /// their types; sums, norms and exponentials are still computed in f32 where kernels do so.
    F16,
    /// bf16 in place of f32, as [`Precision::F16`] with the range of f32 and 8 bits of it.
    BF16,
}

impl Precision {
    /// The type in place of f32.
    pub(in crate::onnx) fn narrow(self) -> Option<DataType> {
        match self {
            Self::Model => None,
            Self::F16 => Some(DataType::F16),
            Self::BF16 => Some(DataType::BF16),
        }
    }
}

/// How a model is compiled for an engine, and what its session keeps.
#[derive(Clone)]
pub struct SessionOptions {
    /// The types that floats are computed with.
    pub precision: Precision,
    /// How far fusion goes.
    pub policy: Policy,
    /// Called with the number of primitives created and their total, for each graph that is compiled; possibly from several threads.
    pub progress: Option<Arc<dyn Fn(usize, usize) + Send + Sync>>,
    /// When kernels get programs for one shape; if none, the engine decides.
    pub specialize: Option<Specialize>,
    /// Whether convolutions are always sums of products, never computed by Winograd's transforms, whose results are rounded otherwise.
    pub direct: bool,
    /// Who answers while the device's programs are compiled; if none, what `ANYDNN_STARTUP` says, else the host.
    pub startup: Option<Startup>,
    /// Whether the host runs loops of few elements, true by default: launching their rounds takes a device longer than computing them. A loop
    /// that turns out to compute with many is left to the device.
    pub host_loops: bool,
    /// How many plans are kept, 16 by default; the one not used for longest goes first. At least one.
    pub plans: usize,
    /// How many plans are made ahead: where executions go on by the same step, such as a decoder's whose keys grow by one, those for the next
    /// shapes are made in the background. If none, one for every four cores, at least two and at most four; none on one core. Of models whose
    /// plans depend on shapes alone, on engines that work in the background; at most half of the plans that are kept.
    pub plans_ahead: Option<usize>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        let (precision, policy) = (Precision::default(), Policy::default());
        Self {
            precision,
            policy,
            progress: None,
            specialize: None,
            direct: false,
            startup: None,
            host_loops: true,
            plans: 16,
            plans_ahead: None,
        }
    }
}

impl fmt::Debug for SessionOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionOptions")
            .field("precision", &self.precision)
            .field("policy", &self.policy)
            .field("progress", &self.progress.is_some())
            .field("specialize", &self.specialize)
            .field("direct", &self.direct)
            .field("startup", &self.startup)
            .field("host_loops", &self.host_loops)
            .field("plans", &self.plans)
            .field("plans_ahead", &self.plans_ahead)
            .finish()
    }
}

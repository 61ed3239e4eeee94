//! What the examples that run ONNX models over and over have in common.

use std::error::Error;

use anydnn::model::HostTensor;
use anydnn::onnx::{Dim, Session};
use anydnn::select::{AnyBackend, AnyEngine};

/// Inputs of zeros, whose open dimensions have the extents that `extent` tells by their names.
pub(crate) fn zeros(
    session: &Session<AnyBackend>,
    extent: impl Fn(&str) -> Option<usize>,
) -> Result<Vec<(&str, HostTensor)>, Box<dyn Error>> {
    let mut inputs = Vec::new();
    for input in session.inputs() {
        let mut dims = Vec::new();
        for dim in &input.dims {
            dims.push(match dim {
                Dim::Fixed(extent) => *extent,
                Dim::Open(open) => extent(open).ok_or_else(|| format!("dimension {open:?} has no extent"))?,
            });
        }
        inputs.push((input.name.as_str(), HostTensor::zeros(dims, input.data_type)?));
    }
    Ok(inputs)
}

/// The programs that an OpenCL engine has made so far.
pub(crate) fn programs(engine: &AnyEngine) -> u64 {
    match engine {
        #[cfg(feature = "opencl")]
        AnyEngine::OpenCl(engine) => {
            let stats = engine.program_stats();
            stats.built + stats.from_disk
        }
        _ => 0,
    }
}

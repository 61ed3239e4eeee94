//! The native half of the Python package `anydnn`: sessions, graphs and devices. Its other half, in `python/anydnn`, turns arrays and
//! objects of other packages into what these functions take; it is the only caller.

#![allow(clippy::needless_pass_by_value, reason = "what Python gives is taken by value")]

mod devices;
mod error;
mod fork;
mod graph;
mod in_place;
mod opencl;
mod parked;
mod session;
mod tensor;
mod worker;

use pyo3::prelude::*;

/// The module `anydnn._native`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::devices::candidates;
    #[pymodule_export]
    use crate::graph::{Builder, Compiled, Graph, load_model};
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::tensor::Tensor;
    #[pymodule_export]
    use crate::worker::{Cancel, join};

    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

//! What there is to run on.

use anydnn::select::{AnyEngine, Selector};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::OrRaise;
use crate::fork;

/// Every device of every backend, and each backend without one with the reason.
#[pyfunction]
pub(crate) fn candidates(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    fork::check()?;
    let found = py.detach(|| Selector::new().candidates());
    // The package is built without the mock device.
    let told = found.iter().filter(|candidate| candidate.backend() != "mock").map(|candidate| {
        let told = PyDict::new(py);
        told.set_item("name", candidate.name())?;
        told.set_item("backend", candidate.backend())?;
        let device = candidate.device();
        told.set_item("kind", device.map(|device| device.kind.to_string()))?;
        told.set_item("platform", device.map(|device| &*device.platform))?;
        told.set_item("device", device.map(|device| &*device.name))?;
        told.set_item("vendor", device.map(|device| &*device.vendor))?;
        told.set_item("driver", device.map(|device| &*device.driver))?;
        told.set_item("reason", candidate.unavailable().map(ToString::to_string))?;
        Ok(told)
    });
    told.collect()
}

/// The engine of a backend by its name, or by the environment's choice, with the name of what was chosen.
pub(crate) fn engine(py: Python<'_>, backend: Option<&str>) -> PyResult<(AnyEngine, String)> {
    fork::check()?;
    let selection = py.detach(|| match backend {
        Some(backend) => Selector::parse(backend)?.select(),
        None => Selector::from_env()?.select(),
    });
    let selection = selection.or_raise()?;
    Ok((selection.engine, selection.chosen))
}

//! The backend that a command works on.

use anydnn::backend::{Result, ResultExt, Specialize};
use anydnn::select::{AnyEngine, Selection, Selector};

/// The backend of `--backend`, else the environment's choice.
pub(crate) fn select(backend: Option<&str>) -> Result<Selection> {
    let selector = match backend {
        Some(backend) => Selector::parse(backend).at(|| "--backend")?,
        None => Selector::from_env()?,
    };
    selector.select()
}

/// When kernels get programs for one shape; none on backends that compile nothing.
pub(crate) fn specialization(engine: &AnyEngine) -> Option<Specialize> {
    match engine {
        AnyEngine::OpenCl(engine) => Some(engine.specialization()),
        _ => None,
    }
}

/// When kernels that are measured get programs for one shape: at once, as after many executions; none as the environment says.
pub(crate) fn specialization_measured() -> Option<Specialize> {
    let is_set = std::env::var_os(Specialize::VARIABLE).is_some_and(|value| !value.is_empty());
    (!is_set).then_some(Specialize::Eager)
}

/// Sets when kernels get programs for one shape, on backends that compile.
pub(crate) fn specialize(engine: &AnyEngine, when: Specialize) {
    if let AnyEngine::OpenCl(engine) = engine {
        let _ = engine.clone().with_specialization(when);
    }
}

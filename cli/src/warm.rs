//! `anydnn warm`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anydnn::backend::{Engine, Error};
use anydnn::onnx::{Model, SessionOptions, Startup};
use anydnn::select::{AnyBackend, AnyEngine};

use crate::backend::Opening;
use crate::failure::Outcome;
use crate::model::{dim, is_onnx};
use crate::output::{print, progress, time};

#[derive(Debug, clap::Args)]
pub(crate) struct WarmArgs {
    /// An ONNX file.
    model: PathBuf,
    /// The value of an open dimension of the model's inputs, such as batch=4.
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dim)]
    dims: Vec<(String, usize)>,
    /// The backend, instead of the environment's choice; `anydnn --help` names them.
    #[arg(long, value_name = "BACKEND")]
    backend: Option<String>,
}

/// Compiles what a model needs and keeps it on disk, so that the first answer of later processes comes at once.
pub(crate) fn warm(args: &WarmArgs) -> Outcome {
    if !is_onnx(&args.model) {
        return Err(Error::invalid("warm", "model", args.model.display().to_string(), "an ONNX file").into());
    }
    let opening = Opening::start(args.backend.as_deref())?;
    let model = Model::load(&args.model)?;
    let selection = opening.finish()?;
    let bar = progress("compiling", 0);
    let shown = bar.clone();
    let told = move |done: usize, all: usize| {
        shown.set_length(all as u64);
        shown.set_position(done as u64);
    };
    let options = SessionOptions {
        progress: Some(Arc::new(told)),
        startup: Some(Startup::Device),
        ..SessionOptions::default()
    };
    let start = Instant::now();
    let session = model.compile_with::<AnyEngine, AnyBackend>(&selection.engine, &[], &options)?;
    let dims: Vec<_> = args.dims.iter().map(|(name, extent)| (name.as_str(), *extent)).collect();
    session.warm_up(&dims)?;
    let warmed = start.elapsed();
    let programs = match &selection.engine {
        AnyEngine::OpenCl(engine) => {
            engine.save_programs();
            format!(", {} programs compiled", engine.program_stats().built)
        }
        _ => String::new(),
    };
    bar.finish_and_clear();
    let device = &selection.engine.device().name;
    Ok(print(&format!("{} ({device}): warm after {}{programs}\n", selection.chosen, time(warmed)))?)
}

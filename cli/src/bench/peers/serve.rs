//! The loop of a peer that is this program itself.

use std::io::{BufRead, Write};
use std::time::Instant;

use anydnn::backend::Error;
use serde_json::{Value, json};

use super::server::{Refusal, Serve};
use super::{clblast, onednn, pin};
use crate::failure::Outcome;

/// Serves requests on standard input until it closes.
pub(crate) fn serve(peer: &str, library: &str) -> Outcome {
    super::suspend::end_with_parent();
    let mut server: Result<Box<dyn Serve>, String> = match peer {
        "onednn" => onednn::OneDnn::load(library).map(|server| Box::new(server) as Box<dyn Serve>),
        "clblast" => clblast::ClBlast::load(library).map(|server| Box::new(server) as Box<dyn Serve>),
        #[cfg(feature = "rten")]
        "rten" => Ok(Box::new(super::rten::Rten::default()) as Box<dyn Serve>),
        other => Err(format!("no peer {other:?} is built in")),
    };
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Error::io("standard input", error))?;
        let request: Value = serde_json::from_str(&line).unwrap_or_default();
        let answer = match &mut server {
            Ok(server) => answer(server.as_mut(), &request),
            Err(error) => json!({ "error": error }),
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}")
            .and_then(|()| out.flush())
            .map_err(|error| Error::io("standard output", error))?;
    }
    Ok(())
}

fn answer(server: &mut dyn Serve, request: &Value) -> Value {
    let result = if let Some(hello) = request.get("hello") {
        if let Some(count) = hello["threads"].as_u64() {
            server.threads(usize::try_from(count).unwrap_or(usize::MAX));
        }
        Ok(json!({ "version": server.version() }))
    } else if let Some(case) = request.get("prepare") {
        if case.get("model").is_some() && !server.reads_models() {
            return json!({ "refused": "it reads no ONNX files" });
        }
        match server.prepare(case) {
            Ok(note) => Ok(json!({ "ready": note })),
            Err(Refusal::Unsupported(why)) => Ok(json!({ "refused": why })),
            Err(Refusal::Failed(why)) => Err(why),
        }
    } else if let Some(times) = request["run"].as_u64() {
        run(server, times).map(|seconds| json!({ "seconds": seconds }))
    } else if let Some(path) = request["read"].as_str() {
        server.outputs().and_then(|values| {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
            std::fs::write(path, bytes).map_err(|error| error.to_string())?;
            Ok(json!({ "read": values.len() }))
        })
    } else {
        Err(format!("unknown request {request}"))
    };
    result.unwrap_or_else(|error| json!({ "error": error }))
}

fn run(server: &mut dyn Serve, times: u64) -> Result<f64, String> {
    pin::run(|| {
        let start = Instant::now();
        for _ in 0..times {
            server.run()?;
        }
        server.wait()?;
        Ok(start.elapsed().as_secs_f64())
    })
}

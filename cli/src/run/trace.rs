//! When each step ran, for the viewers of Chrome's trace events: Perfetto and Chrome's own.

use std::path::Path;

use anydnn::backend::{Error, Result};
use anydnn::compile::StepInfo;
use anydnn::graph::Graph;
use anydnn::onnx::StepTime;
use serde_json::{Value, json};

use super::session::Run;

/// Writes the steps of runs, in the order in which they ran.
pub(super) fn write(file: &Path, graph: &Graph, steps: &[StepInfo], runs: &[&Run]) -> Result<()> {
    let first = runs.iter().flat_map(|run| &run.spans).map(|span| span.started).min();
    let Some(first) = first else {
        let why = "the device takes no timestamps";
        return Err(Error::unsupported(format!("--trace {}", file.display()), why));
    };
    let event = |name: &str, track: u32, started: u64, ended: u64, args: Value| {
        event(name, track, started.saturating_sub(first), ended.saturating_sub(started), &args)
    };
    let mut events = vec![called(1, "executions"), called(2, "device")];
    for (number, run) in runs.iter().enumerate() {
        let started = run.spans.iter().map(|span| span.started).min();
        let ended = run.spans.iter().map(|span| span.ended).max();
        if let (Some(started), Some(ended)) = (started, ended) {
            events.push(event(&format!("execution {number}"), 1, started, ended, json!({})));
        }
        for span in &run.spans {
            let Some(step) = steps.get(span.step) else { continue };
            let ops: Vec<_> = step.ops.iter().map(|&op| graph.ops()[op].name.as_str()).collect();
            let args = json!({ "implementation": step.implementation, "operations": ops });
            events.push(event(step.desc.op().name(), 2, span.started, span.ended, args));
        }
    }
    save(file, &events)
}

/// Writes the steps of a session, which the host and the device took.
pub(super) fn write_session(file: &Path, steps: &[StepTime]) -> Result<()> {
    let mut events = vec![called(1, "host"), called(2, "device")];
    for step in steps {
        let (Some(started), Some(time)) = (step.started, step.time) else { continue };
        let args =
            json!({ "implementation": step.implementation, "operations": step.name, "stage": step.stage });
        let track = if step.on_host { 1 } else { 2 };
        events.push(event(&step.operator, track, started.as_nanos() as u64, time.as_nanos() as u64, &args));
    }
    save(file, &events)
}

/// Something that took so long, in nanoseconds.
fn event(name: &str, track: u32, started: u64, took: u64, args: &Value) -> Value {
    let micros = |nanoseconds: u64| nanoseconds as f64 / 1e3;
    json!({ "name": name, "ph": "X", "ts": micros(started), "dur": micros(took), "pid": 1, "tid": track, "args": args })
}

/// The name of a track.
fn called(track: u32, name: &str) -> Value {
    json!({ "name": "thread_name", "ph": "M", "pid": 1, "tid": track, "args": { "name": name } })
}

fn save(file: &Path, events: &[Value]) -> Result<()> {
    let text = json!({ "displayTimeUnit": "ns", "traceEvents": events });
    std::fs::write(file, format!("{text}\n")).map_err(|error| Error::io(file.display(), error))
}

//! What `anydnn run` says.

use std::fmt::Write;
use std::time::Duration;

use anydnn::backend::Engine;
use anydnn::graph::TensorId;
use anydnn::model::Model;
use anydnn::select::{AnyBackend, HOW_TO_GET_A_DEVICE, Selection};
use indexmap::IndexMap;
use serde_json::{Value, json};

use super::Pass;
use super::against::Compared;
use super::args::RunArgs;
use super::check::Checked;
use super::classify::Classification;
use super::profile::Profile;
use super::session::{Run, Session};
use super::statistics;
use super::tensors::Statistics;
use super::work::{Work, label};
use crate::devices::{device_json, rejected_json};
use crate::output::{Style, bytes, time};

/// Everything that a run found out.
pub(super) struct Report<'a> {
    pub(super) args: &'a RunArgs,
    pub(super) model: &'a Model,
    pub(super) work: &'a Work,
    pub(super) selection: &'a Selection,
    pub(super) session: &'a Session<AnyBackend>,
    pub(super) passes: &'a [Pass],
    pub(super) checks: &'a [Checked],
    pub(super) compared: &'a [Compared],
    pub(super) classification: Option<&'a Classification>,
    pub(super) random_constants: usize,
}

impl Report<'_> {
    /// The report in words.
    pub(super) fn text(&self, style: Style) -> String {
        let mut text = String::new();
        self.head(&mut text, style);
        text.push('\n');
        text +=
            &Profile::new(&self.work.graph, self.session.compiled.steps(), &self.timed_runs()).text(style);
        text.push('\n');
        if self.args.times {
            let profile = Profile::new(&self.work.graph, self.session.compiled.steps(), &self.timed_runs());
            text += &profile.summary(style);
            text.push('\n');
        }
        match self.classification {
            Some(classification) => {
                text += &classification.pictures(style, &self.model.classes);
                self.accuracy(&mut text, style, classification);
            }
            None => text += &statistics::text(style, self.outputs()),
        }
        let (wall, count) = (self.median(), self.passes.len().saturating_sub(1).max(1));
        let _ = writeln!(
            text,
            "time      {} for all of it, inputs written and outputs read (median of {count})",
            time(wall)
        );
        for checked in self.checks {
            let verdict = if checked.passed() { style.good("passed") } else { style.bad("failed") };
            let _ = writeln!(text, "check     {verdict}: {}", checked.describe());
        }
        for compared in self.compared {
            let verdict = if compared.passed() { style.good("passed") } else { style.bad("failed") };
            let _ = writeln!(text, "check     {verdict}: {}", compared.describe());
        }
        text
    }

    /// The report as a JSON object.
    pub(super) fn json(&self) -> Value {
        let compiled = &self.session.compiled;
        let checks = self.checks.iter().map(Checked::json);
        let checks: Vec<Value> = checks.chain(self.compared.iter().map(Compared::json)).collect();
        let passed = self.checks.iter().all(Checked::passed) && self.compared.iter().all(Compared::passed);
        let check = json!({ "passed": passed, "outputs": checks });
        json!({
            "model": self.model.name,
            "backend": self.selection.chosen,
            "device": device_json(self.selection.engine.device()),
            "rejected": rejected_json(self.selection),
            "batch": self.work.batch,
            "seed": self.args.seed,
            "random_inputs": self.work.random,
            "random_constants": self.random_constants,
            "ops": self.work.graph.ops().len(),
            "partitions": compiled.partitioning().partitions.len(),
            "cut": self.cut_json(),
            "arena_bytes": compiled.arena_bytes(),
            "compile_ms": self.session.compile_time.as_secs_f64() * 1e3,
            "first_ms": self.passes[0].wall.as_secs_f64() * 1e3,
            "median_ms": self.median().as_secs_f64() * 1e3,
            "runs": self.passes.len(),
            "steps": Profile::new(&self.work.graph, compiled.steps(), &self.timed_runs()).json(),
            "outputs": self.outputs_json(),
            "classification": self.classification.map(|c| c.json(self.per_second())),
            "check": if self.args.check.is_some() { check } else { Value::Null },
        })
    }

    fn head(&self, text: &mut String, style: Style) {
        let graph = &self.work.graph;
        let compiled = &self.session.compiled;
        let device = self.selection.engine.device();
        let title = format!("{}  {}", style.bold(&self.model.name), self.model.description);
        let _ = writeln!(text, "{}", title.trim_end());
        let _ = writeln!(
            text,
            "device    {}: {} ({}, {})",
            style.good(&self.selection.chosen),
            device.name,
            device.kind,
            device.platform
        );
        let on_host = self.selection.engine.backend() == "host";
        if on_host && !self.selection.rejected.is_empty() {
            for rejected in &self.selection.rejected {
                let _ = writeln!(text, "          not {rejected}");
            }
            let _ = writeln!(text, "          for an OpenCL device, {HOW_TO_GET_A_DEVICE}");
        }
        let _ = writeln!(
            text,
            "plan      {} operations in {} partitions, {} of temporary memory, compiled in {}",
            graph.ops().len(),
            compiled.partitioning().partitions.len(),
            bytes(compiled.arena_bytes() as u64),
            time(self.session.compile_time)
        );
        let cut = &self.model.cut;
        if !cut.ops.is_empty() {
            let _ = writeln!(
                text,
                "cut out   {}",
                counted(cut.ops.iter().map(|op| (op.kind.name(), op.name.as_str())))
            );
            if !cut.inputs.is_empty() {
                let names: Vec<_> = cut.inputs.iter().map(|&id| label(graph, id)).collect();
                let _ = writeln!(text, "          given instead: {}", names.join(", "));
            }
            if !cut.outputs.is_empty() {
                let names: Vec<_> = cut.outputs.iter().map(|&id| label(graph, id)).collect();
                let _ = writeln!(text, "          shown, too: {}", names.join(", "));
            }
        }
        if !self.work.random.is_empty() || self.random_constants > 0 {
            let _ = writeln!(
                text,
                "data      random with seed {}: {} inputs, {} constants",
                self.args.seed,
                self.work.random.len(),
                self.random_constants
            );
        }
    }

    fn accuracy(&self, text: &mut String, style: Style, classification: &Classification) {
        let samples = classification.samples();
        if let Some(correct) = classification.correct() {
            let percent = format!("{:.2} %", 100.0 * correct as f64 / samples.max(1) as f64);
            let _ = writeln!(text, "accuracy  {} ({correct} of {samples} images)", style.bold(&percent));
        }
        let batch = self.work.batch.map_or_else(String::new, |batch| format!(", {batch} at once"));
        let _ =
            writeln!(text, "speed     {} images/s{batch}", style.bold(&format!("{:.0}", self.per_second())));
    }

    fn cut_json(&self) -> Value {
        let cut = &self.model.cut;
        let names = |ids: &[TensorId]| ids.iter().map(|&id| label(&self.work.graph, id)).collect::<Vec<_>>();
        let ops: Vec<Value> = cut
            .ops
            .iter()
            .map(|op| json!({ "id": op.id.0, "name": op.name, "kind": op.kind.name() }))
            .collect();
        json!({ "ops": ops, "inputs": names(&cut.inputs), "outputs": names(&cut.outputs) })
    }

    fn outputs_json(&self) -> Value {
        self.outputs().map(|(name, tensor, _)| statistics::json(&name, tensor)).collect()
    }

    /// The outputs of the first batch.
    fn outputs(&self) -> impl Iterator<Item = (String, &anydnn::model::HostTensor, Statistics)> {
        let outputs = self.passes[0].runs.first().map_or(&[][..], |run| &run.outputs);
        outputs
            .iter()
            .map(|(id, tensor)| (label(&self.work.graph, *id), tensor, Statistics::of(&tensor.to_f64s())))
    }

    fn per_second(&self) -> f64 {
        let images = self.work.batches.len() * self.work.batch.unwrap_or(1);
        images as f64 / self.median().as_secs_f64().max(1e-9)
    }

    /// The passes that count for times: all but the first, where there are others.
    fn timed(&self) -> &[Pass] {
        if self.passes.len() > 1 { &self.passes[1..] } else { self.passes }
    }

    fn timed_runs(&self) -> Vec<&Run> {
        self.timed().iter().flat_map(|pass| &pass.runs).collect()
    }

    fn median(&self) -> Duration {
        let mut walls: Vec<Duration> = self.timed().iter().map(|pass| pass.wall).collect();
        walls.sort_unstable();
        walls.get(walls.len() / 2).copied().unwrap_or_default()
    }
}

/// How often each operation is there: `5 Wildcard "aten::reshape", 1 End "end"`.
fn counted<'a>(ops: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut counts: IndexMap<(&str, &str), usize> = IndexMap::new();
    for op in ops {
        *counts.entry(op).or_default() += 1;
    }
    let words: Vec<_> =
        counts.iter().map(|((kind, name), count)| format!("{count} {kind} {name:?}")).collect();
    words.join(", ")
}

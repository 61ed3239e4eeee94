//! How long the steps of an execution take.

use std::time::Duration;

use anydnn_backend::{Backend, Event, Result};

use crate::compile::CompiledGraph;
use crate::execute::StepEvent;
use crate::onnx::program::Step;

/// How long one step of an execution took.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTime {
    /// The stage, behind the loops around it: `stage 2`, `decode/stage 1`.
    pub stage: String,
    /// The names of the operations, or of the node.
    pub name: String,
    /// The kinds of the operations, or the node's operator.
    pub operator: String,
    /// The backend's name for how it was computed; `host` for a step of the host.
    pub implementation: String,
    /// Whether the host computed it, as the device cannot.
    pub on_host: bool,
    /// Time on the device, or of the host for its steps; none where the device does not tell.
    pub time: Option<Duration>,
}

/// The steps of an execution so far.
#[derive(Debug)]
pub(super) struct Trace<B: Backend> {
    pub(super) timed: Vec<Timed<B>>,
}

/// A step, perhaps under way.
#[derive(Debug)]
pub(super) struct Timed<B: Backend> {
    time: StepTime,
    event: Option<B::Event>,
}

impl<B: Backend> Timed<B> {
    pub(super) fn device(stage: &str, compiled: &CompiledGraph<B>, step: StepEvent<B>) -> Self {
        let info = compiled.steps().get(step.step);
        let operators = info.map(|info| {
            let kinds = info.ops.iter().filter_map(|&op| compiled.graph().ops().get(op));
            kinds.map(|op| op.kind.to_string()).collect::<Vec<_>>().join("+")
        });
        let time = StepTime {
            stage: stage.to_owned(),
            name: info.map(|info| info.name.clone()).unwrap_or_default(),
            operator: operators.unwrap_or_default(),
            implementation: info.map(|info| info.implementation.clone()).unwrap_or_default(),
            on_host: false,
            time: None,
        };
        Self { time, event: Some(step.event) }
    }

    pub(super) fn host(stage: &str, step: &Step, time: Duration) -> Self {
        let time = StepTime {
            stage: stage.to_owned(),
            name: step.name().to_owned(),
            operator: step.operator().to_owned(),
            implementation: "host".into(),
            on_host: true,
            time: Some(time),
        };
        Self { time, event: None }
    }

    /// The time, once everything has ended.
    pub(super) fn told(self) -> Result<StepTime> {
        let Some(event) = self.event else { return Ok(self.time) };
        let stamps = event.timestamps()?;
        Ok(StepTime { time: stamps.map(|stamps| Duration::from_nanos(stamps.duration())), ..self.time })
    }
}

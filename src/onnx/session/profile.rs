//! How long the steps of an execution take.

use std::time::{Duration, Instant};

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
    /// When it began, from the beginning of the execution. The device's clock is taken to show the host's time when the first step of a
    /// stage is enqueued.
    pub started: Option<Duration>,
    /// Time on the device, or of the host for its steps; none where the device does not tell.
    pub time: Option<Duration>,
}

/// The steps of an execution so far.
#[derive(Debug)]
pub(super) struct Trace<B: Backend> {
    began: Instant,
    timed: Vec<Timed<B>>,
}

impl<B: Backend> Trace<B> {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), timed: Vec::new() }
    }

    /// Adds what was enqueued for a stage since then.
    pub(super) fn device(
        &mut self,
        stage: &str,
        compiled: &CompiledGraph<B>,
        since: Instant,
        steps: Vec<StepEvent<B>>,
    ) {
        let at = since - self.began;
        self.timed.extend(steps.into_iter().map(|step| Timed::device(stage, compiled, step, at)));
    }

    /// Adds a step that the host has computed since then.
    pub(super) fn host(&mut self, stage: &str, step: &Step, since: Instant) {
        self.timed.push(Timed::host(stage, step, since - self.began, since.elapsed()));
    }

    /// The times, once everything has ended.
    pub(super) fn told(self) -> Result<Vec<StepTime>> {
        // When the stage's first step was enqueued, by the host's clock and by the device's.
        let mut enqueued = None;
        let one = |timed: Timed<B>| {
            let Some(event) = timed.event else { return Ok(timed.time) };
            let Some(stamps) = event.timestamps()? else { return Ok(timed.time) };
            let (host, device) = *enqueued
                .insert(enqueued.filter(|(at, _)| *at == timed.at).unwrap_or((timed.at, stamps.queued)));
            let started = Some(host + Duration::from_nanos(stamps.started.saturating_sub(device)));
            Ok(StepTime { started, time: Some(Duration::from_nanos(stamps.duration())), ..timed.time })
        };
        self.timed.into_iter().map(one).collect()
    }
}

/// A step, perhaps under way.
#[derive(Debug)]
struct Timed<B: Backend> {
    time: StepTime,
    event: Option<B::Event>,
    /// When its stage was enqueued, from the beginning.
    at: Duration,
}

impl<B: Backend> Timed<B> {
    fn device(stage: &str, compiled: &CompiledGraph<B>, step: StepEvent<B>, at: Duration) -> Self {
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
            started: None,
            time: None,
        };
        Self { time, event: Some(step.event), at }
    }

    fn host(stage: &str, step: &Step, at: Duration, time: Duration) -> Self {
        let time = StepTime {
            stage: stage.to_owned(),
            name: step.name().to_owned(),
            operator: step.operator().to_owned(),
            implementation: "host".into(),
            on_host: true,
            started: Some(at),
            time: Some(time),
        };
        Self { time, event: None, at }
    }
}

//! Tuning: times the implementations that serve a description, within a budget, and remembers the fastest that computes the same.
//!
//! Everything runs in a context of its own, so that a kernel that faults takes nothing of the user's with it.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use anydnn_backend::{Engine, Error, PrimitiveDesc, Result, Stream, StreamDesc};

use crate::backend::engine::OpenClEngine;
use crate::backend::primitive::OpenClPrimitive;
use crate::backend::stream::OpenClStream;
use crate::backend::trial_operands::{self, Operands};
use crate::plan::KernelPlan;
use crate::primitive::{self, Choice, Wanted};

/// The least part of the default's time that another implementation must save to be preferred: below it differences are noise.
const GAIN: f64 = 0.03;
/// How many times slower than the default an implementation may be expected to be at worst: none is started that could overrun the budget.
const WORST: u32 = 20;
/// The most samples of one implementation.
const SAMPLES: usize = 15;

/// What tuning a description found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tuned {
    /// The implementation that [`Engine::create_primitive`] takes from now on.
    pub implementation: String,
    /// Every implementation in the default order; empty where the choice was remembered.
    pub trials: Vec<Trial>,
}

/// What became of one implementation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Trial {
    /// Its [name](crate::Implementation::name).
    pub implementation: String,
    /// Its time, or why it has none.
    pub outcome: Outcome,
}

/// The outcome of a [`Trial`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// The median time of an execution, enqueued and waited for.
    Timed(Duration),
    /// It failed or computed something else, and is never taken.
    Rejected(String),
    /// Not tried.
    Skipped(&'static str),
}

impl OpenClEngine {
    /// Times the implementations that serve a description, in about `budget` besides the building of their programs, and makes
    /// [`Engine::create_primitive`] take the fastest from now on, in later processes too where there is a [`DiskCache`](crate::DiskCache).
    /// An implementation whose result differs from the default's by more than [`Tolerance`](anydnn_backend::Tolerance) allows is
    /// rejected, and one that fails likewise. A choice that is remembered is not measured again.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use anydnn_backend::op::{MatMul, Op};
    /// use anydnn_backend::{DataType, Engine, MemoryDesc, Primitive, PrimitiveDesc};
    /// use anydnn_opencl::{DiskCache, OpenClEngine};
    ///
    /// let matrix = MemoryDesc::new([64, 64], DataType::F32);
    /// let product = PrimitiveDesc::builder(Op::MatMul(MatMul)).src(matrix.clone()).weights(matrix.clone()).dst(matrix).build()?;
    /// for device in anydnn_opencl::devices()?.iter().take(1) {
    ///     let engine = OpenClEngine::on_device(device)?.with_disk_cache(DiskCache::off());
    ///     let tuned = engine.tune(&product, Duration::from_millis(20))?;
    ///     assert_eq!(engine.create_primitive(&product)?.implementation(), tuned.implementation);
    /// }
    /// # Ok::<(), anydnn_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Engine::resolve`]; a device error of the default implementation, for one that there is too little memory for another
    /// set of operands.
    pub fn tune(&self, desc: &PrimitiveDesc, budget: Duration) -> Result<Tuned> {
        if let Some(implementation) = self.remembered(desc)? {
            return Ok(Tuned { implementation, trials: Vec::new() });
        }
        let choices = primitive::choices(desc, &self.traits(), Wanted::All)?;
        let tuned = self.tune_among(&choices, budget)?;
        self.remember(desc, &tuned.implementation)?;
        Ok(tuned)
    }

    /// Notes what was chosen. Open layouts are those that are chosen for them.
    fn remember(&self, desc: &PrimitiveDesc, implementation: &str) -> Result<()> {
        let desc = self.resolve(desc)?;
        self.inner.tuning.remember(&self.inner.programs, &self.inner.device, &desc, implementation);
        Ok(())
    }

    /// Tunes every description, with this budget, when this engine or a clone of it first makes a primitive of it. As if
    /// `ANYDNN_TUNE` were set to this many milliseconds.
    pub fn with_tuning(self, budget: Duration) -> Self {
        self.inner.tuning.set_budget(Some(budget));
        self
    }

    /// The plan to make a primitive of: the one that was found to be fastest, else the default.
    pub(crate) fn plan(&self, desc: &PrimitiveDesc) -> Result<KernelPlan> {
        let chosen = match self.inner.tuning.budget() {
            // Trials of what runs once take longer than they save.
            _ if desc.attributes().once => None,
            None => self.remembered(desc)?,
            Some(budget) => match self.tune(desc, budget) {
                Ok(tuned) => Some(tuned.implementation),
                Err(error) => {
                    tracing::warn!(%error, "not tuned");
                    None
                }
            },
        };
        let wanted = chosen.as_deref().map_or(Wanted::First, Wanted::Named);
        primitive::choose(desc, &self.traits(), wanted).map(|choice| choice.plan)
    }

    /// The implementation that was chosen before, if it still serves the description.
    fn remembered(&self, desc: &PrimitiveDesc) -> Result<Option<String>> {
        let desc = &self.resolve(desc)?;
        let name = self.inner.tuning.recall(&self.inner.programs, &self.inner.device, desc);
        let Some(name) = name else { return Ok(None) };
        let serves = primitive::choices(desc, &self.traits(), Wanted::Named(&name))?;
        Ok((!serves.is_empty()).then_some(name))
    }

    /// The fastest of these choices, the first of which is trusted.
    fn tune_among(&self, choices: &[Choice], budget: Duration) -> Result<Tuned> {
        let Some((first, rest)) = choices.split_first() else {
            return Err(Error::unsupported("tune", "no implementation"));
        };
        let mut trials = Vec::with_capacity(choices.len());
        if rest.is_empty() {
            let only = Outcome::Skipped("the only implementation");
            trials.push(Trial { implementation: first.plan.implementation.clone(), outcome: only });
            return Ok(Tuned { implementation: first.plan.implementation.clone(), trials });
        }
        let share = budget / u32::try_from(choices.len()).unwrap_or(u32::MAX);
        let mut harness = Harness::new(self, &first.plan)?;
        let expected = harness.result(&first.plan)?;
        let start = Instant::now();
        let default = harness.time(&first.plan, share)?;
        let mut left = budget.saturating_sub(start.elapsed());
        let mut best = (first.plan.implementation.clone(), default);
        trials.push(Trial { implementation: best.0.clone(), outcome: Outcome::Timed(default) });
        for choice in rest {
            let name = choice.plan.implementation.clone();
            let outcome = if name.ends_with(":ref") {
                Outcome::Skipped("serves everything and is fast at nothing")
            } else if default * WORST > left {
                Outcome::Skipped("the budget is spent")
            } else {
                let start = Instant::now();
                let outcome = harness.trial(&choice.plan, &expected, share.min(left));
                left = left.saturating_sub(start.elapsed());
                outcome
            };
            match &outcome {
                Outcome::Timed(time) if time.as_secs_f64() < best.1.as_secs_f64() * (1.0 - GAIN) => {
                    best = (name.clone(), *time);
                }
                Outcome::Rejected(reason) => {
                    tracing::warn!(implementation = name, reason, "an implementation is rejected");
                    // A fault leaves nothing usable behind.
                    harness = Harness::new(self, &first.plan)?;
                }
                _ => {}
            }
            trials.push(Trial { implementation: name, outcome });
        }
        tracing::debug!(implementation = best.0, ?trials, "tuned");
        Ok(Tuned { implementation: best.0, trials })
    }
}

/// A context, a queue and operands for trials.
struct Harness {
    engine: OpenClEngine,
    stream: OpenClStream,
    operands: Operands,
}

impl Harness {
    fn new(user: &OpenClEngine, plan: &KernelPlan) -> Result<Self> {
        let engine = OpenClEngine::on_device(&user.inner.device)?;
        engine.inner.programs.share_disk(&user.inner.programs);
        let stream = engine.create_stream(&StreamDesc::default())?;
        let operands = Operands::new(&engine, &stream, plan)?;
        Ok(Self { engine, stream, operands })
    }

    /// The bytes of every result.
    fn result(&self, plan: &KernelPlan) -> Result<Vec<Vec<u8>>> {
        let primitive = OpenClPrimitive::from_plan(&self.engine, plan.clone())?;
        let args = self.operands.for_plan(&self.engine, &self.stream, plan)?;
        self.stream.execute(&primitive, &args, &[])?;
        self.operands.results(&self.stream)
    }

    /// The median time of an execution.
    fn time(&self, plan: &KernelPlan, budget: Duration) -> Result<Duration> {
        let primitive = OpenClPrimitive::from_plan(&self.engine, plan.clone())?;
        let args = self.operands.for_plan(&self.engine, &self.stream, plan)?;
        let sample = || {
            let start = Instant::now();
            self.stream.execute(&primitive, &args, &[])?;
            self.stream.wait()?;
            Ok::<_, Error>(start.elapsed())
        };
        sample()?;
        let start = Instant::now();
        let mut samples = Vec::with_capacity(SAMPLES);
        while samples.is_empty() || (samples.len() < SAMPLES && start.elapsed() < budget) {
            samples.push(sample()?);
        }
        samples.sort_unstable();
        Ok(samples[samples.len() / 2])
    }

    fn trial(&self, plan: &KernelPlan, expected: &[Vec<u8>], budget: Duration) -> Outcome {
        let tried = self.result(plan).and_then(|actual| {
            if let Some(difference) = trial_operands::difference(&plan.desc, &actual, expected) {
                return Ok(Outcome::Rejected(difference));
            }
            self.time(plan, budget).map(Outcome::Timed)
        });
        tried.unwrap_or_else(|error| Outcome::Rejected(error.to_string()))
    }
}

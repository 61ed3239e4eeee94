//! The suite that any backend can run on itself.
//!
//! ```no_run
//! use anydnn_backend::{Backend, conformance};
//!
//! fn my_backend_conforms<B: Backend>(engine: &B::Engine) {
//!     conformance::run::<B>(engine).assert_passed();
//! }
//! ```
//!
//! Every [`Case`] is independent of the others. The primitives' results are compared with [`mod@reference`] within the
//! [`Tolerance`](crate::Tolerance) of the contract; bytes that are no element of a result must stay as they were.
//!
//! Three environment variables steer [`run`]: `ANYDNN_CONFORMANCE=thorough` adds wide sweeps over shapes and types,
//! `ANYDNN_CONFORMANCE_FILTER` keeps the cases whose name contains it, and `ANYDNN_SAMPLE=8` every eighth of those (a [`Sample`]).

pub mod data;
pub mod random;
pub mod reference;
pub mod sample;
pub mod values;

mod allocator;
mod engine;
mod errors;
mod memory;
mod primitives;
mod report;
mod streams;
mod subject;
mod trial;

#[cfg(test)]
mod tests;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Instant;

pub use report::{Entry, Failure, Lacking, Outcome, Report};
pub use sample::Sample;
pub use subject::Subject;

use crate::{Backend, DataType};

/// One named check of a backend.
pub struct Case<B: Backend> {
    name: String,
    check: Check<B>,
}

type Check<B> = Box<dyn Fn(&Subject<B>) -> Result<Outcome, Failure> + Send + Sync>;

impl<B: Backend> Case<B> {
    fn new(
        name: impl Into<String>,
        check: impl Fn(&Subject<B>) -> Result<Outcome, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), check: Box::new(check) }
    }

    /// The case's name, a path such as `matmul/f16/batched`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs the case.
    ///
    /// # Errors
    /// What the backend did and what was expected instead. A panic of the backend counts as a failure.
    pub fn run(&self, subject: &Subject<B>) -> Result<Outcome, Failure> {
        caught(|| (self.check)(subject))
    }
}

/// Runs a check; a panic counts as a failure.
fn caught(check: impl FnOnce() -> Result<Outcome, Failure>) -> Result<Outcome, Failure> {
    std::panic::catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("without a message");
        Err(Failure::panicked(message))
    })
}

impl<B: Backend> fmt::Debug for Case<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How much to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every operation, attribute, type and layout, once or a few times each.
    #[default]
    Standard,
    /// Also pseudo-random sweeps and every pair of types.
    Thorough,
}

/// What to run, and on what.
#[derive(Clone, Debug)]
#[must_use]
pub struct Suite<B: Backend> {
    subject: Subject<B>,
    level: Level,
    filter: Option<String>,
    sample: Sample,
    device: usize,
}

impl<B: Backend> Suite<B> {
    /// Everything at the standard level.
    pub fn new(engine: &B::Engine) -> Self {
        let subject = Subject::new(engine);
        Self { subject, level: Level::Standard, filter: None, sample: Sample::ALL, device: 0 }
    }

    /// Level, filter and sample from the environment.
    pub fn from_env(engine: &B::Engine) -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let thorough = variable("ANYDNN_CONFORMANCE").is_some_and(|v| v.eq_ignore_ascii_case("thorough"));
        Self {
            level: if thorough { Level::Thorough } else { Level::Standard },
            filter: variable("ANYDNN_CONFORMANCE_FILTER"),
            sample: Sample::from_env(),
            ..Self::new(engine)
        }
    }

    /// With another engine, of its own context, to check that objects of two engines do not mix.
    pub fn with_second_engine(mut self, engine: &B::Engine) -> Self {
        self.subject = self.subject.with_second_engine(engine);
        self
    }

    /// At a level.
    pub fn with_level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Only cases whose name contains `filter`.
    pub fn with_filter(mut self, filter: impl Into<String>) -> Self {
        self.filter = Some(filter.into());
        self
    }

    /// Only the cases of a sample.
    pub fn with_sample(mut self, sample: Sample) -> Self {
        self.sample = sample;
        self
    }

    /// As the device of a number, among those that share the cases of a [`Sample`].
    pub fn as_device(mut self, number: usize) -> Self {
        self.device = number;
        self
    }

    /// Runs the cases one after another.
    pub fn run(&self) -> Report {
        let chosen = |case: &Case<B>| self.filter.as_ref().is_none_or(|filter| case.name.contains(filter));
        let entries = cases::<B>(self.level)
            .iter()
            .filter(|case| chosen(case))
            .enumerate()
            .filter(|(i, _)| self.sample.takes(*i, self.device))
            .map(|(_, case)| {
                let begin = Instant::now();
                let result = case.run(&self.subject);
                Entry { name: case.name.clone(), result, elapsed: begin.elapsed() }
            })
            .collect();
        let device = self.subject.device();
        Report::new(device, entries)
            .require(Lacking::DataType(DataType::F32))
            .require(Lacking::DataType(DataType::F16))
    }
}

/// Every case of a level.
pub fn cases<B: Backend>(level: Level) -> Vec<Case<B>> {
    let mut all = engine::cases();
    all.extend(allocator::cases());
    all.extend(memory::cases());
    all.extend(streams::cases());
    all.extend(errors::cases());
    all.extend(primitives::cases(level));
    all
}

/// Runs everything that the environment asks for. [`Suite`] has more to choose.
pub fn run<B: Backend>(engine: &B::Engine) -> Report {
    Suite::<B>::from_env(engine).run()
}

//! The run-time choice of a backend and device.

use std::ffi::OsString;
use std::fmt;

use anydnn_backend::{DeviceKind, ErasedEngine, Error, Result};

use super::any::AnyEngine;
use super::candidate::{self, Candidate, HOW_TO_GET_A_DEVICE};
use super::pattern::Pattern;

/// Chooses a backend and a device.
///
/// Without wishes the order is: a GPU, an accelerator, another OpenCL device, the host; of devices of one kind those that their vendor's
/// driver serves come before those of drivers for everybody's devices (PoCL, Mesa's). With wishes only what they name is tried, in their
/// order, and that order decides where a wish names several. A candidate whose engine cannot be made is rejected, and the next one is tried.
///
/// ```
/// use anydnn::select::Selector;
/// let selection = Selector::parse("host").unwrap().select().unwrap();
/// assert_eq!(selection.chosen, "host");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Selector {
    wanted: Vec<Pattern>,
    prefer: Vec<DeviceKind>,
    allow: Vec<Pattern>,
    deny: Vec<Pattern>,
    engines: Vec<ErasedEngine>,
}

/// What a [`Selector`] chose.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The engine.
    pub engine: AnyEngine,
    /// The chosen candidate's name.
    pub chosen: String,
    /// The candidates before it in the order of preference, and why each was not taken.
    pub rejected: Vec<Rejected>,
}

/// A candidate that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The candidate's name.
    pub candidate: String,
    /// Why it was not taken.
    pub reason: String,
}

impl Selector {
    /// The environment variable that [`Selector::from_env`] reads.
    pub const VARIABLE: &'static str = "ANYDNN_BACKEND";

    /// A selector without wishes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The selector that the environment variable `ANYDNN_BACKEND` asks for; without wishes when it is unset or empty.
    ///
    /// # Errors
    /// [`Error::Invalid`] listing the allowed forms.
    pub fn from_env() -> Result<Self> {
        Self::from_value(std::env::var_os(Self::VARIABLE))
    }

    /// The selector that a value of the environment variable asks for.
    ///
    /// # Errors
    /// [`Error::Invalid`] listing the allowed forms.
    pub fn from_value(value: Option<OsString>) -> Result<Self> {
        match value {
            None => Ok(Self::new()),
            Some(value) => Self::parse(&value.to_string_lossy()).map_err(|error| error.at(Self::VARIABLE)),
        }
    }

    /// The selector that a comma-separated list of [`Pattern`]s asks for, the most wanted first; without wishes when it is empty.
    ///
    /// # Errors
    /// [`Error::Invalid`] listing the allowed forms.
    pub fn parse(text: &str) -> Result<Self> {
        let wanted = if text.trim().is_empty() { Vec::new() } else { Pattern::list(text)? };
        Ok(Self { wanted, ..Self::default() })
    }

    /// With one more wish, after those before.
    pub fn want(mut self, pattern: Pattern) -> Self {
        self.wanted.push(pattern);
        self
    }

    /// Prefers these kinds of devices, in this order, to all others, among the candidates that one wish (or none) names.
    pub fn prefer(mut self, kinds: impl IntoIterator<Item = DeviceKind>) -> Self {
        self.prefer = kinds.into_iter().collect();
        self
    }

    /// Allows only what this or another allowed pattern names.
    pub fn allow(mut self, pattern: Pattern) -> Self {
        self.allow.push(pattern);
        self
    }

    /// Denies what the pattern names.
    pub fn deny(mut self, pattern: Pattern) -> Self {
        self.deny.push(pattern);
        self
    }

    /// Lets the engine of a third party's backend take part. Among equals it comes first.
    pub fn with_engine(mut self, engine: ErasedEngine) -> Self {
        self.engines.push(engine);
        self
    }

    /// Every candidate of every backend, wanted or not. No engine is made.
    pub fn candidates(&self) -> Vec<Candidate> {
        self.gather(|_| true)
    }

    /// Chooses, and makes the engine.
    ///
    /// # Errors
    /// [`Error::Unavailable`] listing every candidate with its reason, and what to do.
    pub fn select(&self) -> Result<Selection> {
        // The mock device takes part only when asked for; the drivers of backends that nobody asked for are not even loaded.
        let asked = |backend: &str| {
            if self.wanted.is_empty() {
                backend != "mock" || self.allow.iter().any(|p| p.backend() == "mock")
            } else {
                self.wanted.iter().any(|pattern| pattern.backend() == backend)
            }
        };
        self.choose(&self.gather(asked))
    }

    fn gather(&self, asked: impl Fn(&str) -> bool) -> Vec<Candidate> {
        let mut found = candidate::erased(&self.engines);
        found.retain(|_| asked("erased"));
        if asked("opencl") {
            found.extend(candidate::opencl());
        }
        if asked("host") {
            found.extend(candidate::host());
        }
        if asked("mock") {
            found.extend(candidate::mock());
        }
        found
    }

    pub(super) fn choose(&self, candidates: &[Candidate]) -> Result<Selection> {
        let mut rejected = Vec::new();
        let mut reject = |candidate: &Candidate, reason: String| {
            tracing::debug!(%candidate, reason, "rejected");
            rejected.push(Rejected { candidate: candidate.name().into(), reason });
        };
        let order = self.order(candidates);
        for &(index, seed) in &order {
            let candidate = &candidates[index];
            if let Some(reason) = self.refusal(candidates, index) {
                reject(candidate, reason);
                continue;
            }
            match candidate.create_seeded(seed) {
                Ok(engine) => {
                    let chosen = candidate.name().to_owned();
                    tracing::info!(%candidate, "chosen");
                    return Ok(Selection { engine, chosen, rejected });
                }
                Err(Error::Unavailable { why, .. }) => reject(candidate, why),
                Err(error) => reject(candidate, error.to_string()),
            }
        }
        for (index, candidate) in candidates.iter().enumerate() {
            if !order.iter().any(|&(tried, _)| tried == index) {
                reject(candidate, format!("{} does not name it", self.wish()));
            }
        }
        Err(self.nothing(&rejected))
    }

    /// The candidates to try, each with a seed that its pattern carries.
    fn order(&self, candidates: &[Candidate]) -> Vec<(usize, Option<u64>)> {
        let prefer: &[DeviceKind] = match self.prefer.as_slice() {
            [] => &[DeviceKind::Gpu, DeviceKind::Accelerator],
            kinds => kinds,
        };
        let ranked = |mut found: Vec<usize>| {
            found.sort_by_key(|&index| candidates[index].rank(prefer));
            found
        };
        if self.wanted.is_empty() {
            return ranked((0..candidates.len()).collect()).into_iter().map(|index| (index, None)).collect();
        }
        let mut order: Vec<(usize, Option<u64>)> = Vec::new();
        for pattern in &self.wanted {
            let seed = if let Pattern::Mock { seed } = pattern { *seed } else { None };
            for index in ranked(pattern.matches(candidates)) {
                if !order.iter().any(|&(earlier, _)| earlier == index) {
                    order.push((index, seed));
                }
            }
        }
        order
    }

    fn refusal(&self, candidates: &[Candidate], index: usize) -> Option<String> {
        let names = |pattern: &&Pattern| pattern.matches(candidates).contains(&index);
        if let Some(denied) = self.deny.iter().find(names) {
            return Some(format!("{denied} is denied"));
        }
        if !self.allow.is_empty() && !self.allow.iter().any(|pattern| names(&pattern)) {
            return Some(format!("only {} is allowed", list(&self.allow)));
        }
        None
    }

    fn nothing(&self, rejected: &[Rejected]) -> Error {
        let head = if rejected.is_empty() { "there is no candidate" } else { "every candidate was rejected" };
        let mut lines: Vec<String> =
            std::iter::once(head.to_owned()).chain(rejected.iter().map(ToString::to_string)).collect();
        let asked = |backend: &str| self.wanted.iter().any(|pattern| pattern.backend() == backend);
        if asked("erased") && self.engines.is_empty() {
            lines.push("erased: the program gave no engine of its own".into());
        }
        if rejected.iter().any(|one| one.candidate.starts_with("opencl")) {
            lines.push(format!("for another OpenCL device, {HOW_TO_GET_A_DEVICE}"));
        }
        if !self.wanted.is_empty() && !asked("host") && cfg!(feature = "host") {
            lines.push("without a device, use host".into());
        }
        Error::unavailable(format!("the backend {}", self.wish()), lines.join("\n  "))
    }

    fn wish(&self) -> String {
        if self.wanted.is_empty() { "of any device".into() } else { list(&self.wanted) }
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.candidate, self.reason)
    }
}

fn list(patterns: &[Pattern]) -> String {
    patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

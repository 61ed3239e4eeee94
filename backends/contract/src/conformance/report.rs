//! What came out of a run.

use std::fmt;
use std::time::Duration;

use crate::{DataType, Error, MemoryKind, Mismatched};

/// How a case ended that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was as it should be.
    Passed,
    /// The backend says that it lacks what the case needs, and the contract allows that.
    Unsupported(Lacking),
}

/// What a backend may do without.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lacking {
    /// A data type that is not among its [`storage_types`](crate::Capabilities::storage_types).
    DataType(DataType),
    /// A kind of memory that is not among its [`memory_kinds`](crate::Capabilities::memory_kinds).
    MemoryKind(MemoryKind),
    /// Out-of-order streams.
    OutOfOrder,
    /// Device timestamps.
    Profiling,
    /// A second engine, which the caller did not provide.
    SecondEngine,
    /// A combination of types, layouts and attributes, for the reason that the backend gave.
    Combination(String),
}

/// Why a case failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Failure {
    reason: String,
    is_error: bool,
}

/// The result of one case.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The case's name.
    pub name: String,
    /// How it ended.
    pub result: Result<Outcome, Failure>,
    /// How long it took.
    pub elapsed: Duration,
}

/// The results of a run. Its display is a table.
#[derive(Clone, Debug)]
pub struct Report {
    device: String,
    entries: Vec<Entry>,
    required: Vec<Lacking>,
}

impl Failure {
    /// A failure with its reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_error: false }
    }

    /// A panic of the backend.
    pub(super) fn panicked(message: &str) -> Self {
        Self { reason: format!("panicked: {message}"), is_error: true }
    }

    /// Whether a call failed, in contrast to a result that is wrong.
    pub fn is_error(&self) -> bool {
        self.is_error
    }

    /// The same failure with the place in front.
    pub fn at(self, place: impl fmt::Display) -> Self {
        Self { reason: format!("{place}: {}", self.reason), ..self }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { reason: error.to_string(), is_error: true }
    }
}

impl From<Mismatched> for Failure {
    fn from(mismatch: Mismatched) -> Self {
        Self::new(mismatch.to_string())
    }
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DataType(data_type) => write!(f, "{data_type} is not a storage type"),
            Self::MemoryKind(kind) => write!(f, "no memory of kind {kind}"),
            Self::OutOfOrder => f.write_str("no out-of-order streams"),
            Self::Profiling => f.write_str("no profiling"),
            Self::SecondEngine => f.write_str("no second engine was given"),
            Self::Combination(why) => f.write_str(why),
        }
    }
}

impl Report {
    pub(super) fn new(device: String, entries: Vec<Entry>) -> Self {
        Self { device, entries, required: Vec::new() }
    }

    /// Makes the lack of something count as a failure. [`Suite::run`](super::Suite::run) requires f32 and f16.
    #[must_use]
    pub fn require(mut self, lacking: Lacking) -> Self {
        self.required.push(lacking);
        self
    }

    /// Every case that ran.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The number of cases that passed.
    pub fn passed(&self) -> usize {
        self.entries.iter().filter(|entry| entry.result == Ok(Outcome::Passed)).count()
    }

    /// The names of failed cases with the reasons. A case that lacks something required has failed.
    pub fn failed(&self) -> Vec<(&str, String)> {
        self.entries
            .iter()
            .filter_map(|entry| match &entry.result {
                Err(failure) => Some((&*entry.name, failure.to_string())),
                Ok(Outcome::Unsupported(lacking)) if self.required.contains(lacking) => {
                    Some((&*entry.name, format!("required: {lacking}")))
                }
                Ok(_) => None,
            })
            .collect()
    }

    /// The names of cases that do not apply, with what the backend lacks for them. Required ones are not among them.
    pub fn unsupported(&self) -> Vec<(&str, &Lacking)> {
        self.entries
            .iter()
            .filter_map(|entry| match &entry.result {
                Ok(Outcome::Unsupported(lacking)) if !self.required.contains(lacking) => {
                    Some((&*entry.name, lacking))
                }
                _ => None,
            })
            .collect()
    }

    /// Whether at least one case ran and none failed.
    pub fn is_success(&self) -> bool {
        !self.entries.is_empty() && self.failed().is_empty()
    }

    /// Panics with the failures, if there are any or nothing ran.
    ///
    /// # Panics
    /// See above; it is meant for tests.
    #[track_caller]
    pub fn assert_passed(&self) {
        assert!(self.is_success(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (failed, unsupported) = (self.failed(), self.unsupported());
        writeln!(f, "conformance of {}", self.device)?;
        writeln!(f, "{:<28} {:>6} {:>6} {:>11} {:>9}", "group", "passed", "failed", "unsupported", "ms")?;
        let group = |name: &str| name.split('/').next().unwrap_or_default().to_owned();
        let mut groups: Vec<String> = Vec::new();
        for entry in &self.entries {
            if !groups.contains(&group(&entry.name)) {
                groups.push(group(&entry.name));
            }
        }
        for name in &groups {
            let within: Vec<&Entry> = self.entries.iter().filter(|e| group(&e.name) == *name).collect();
            let bad = failed.iter().filter(|(case, _)| group(case) == *name).count();
            let lacking = unsupported.iter().filter(|(case, _)| group(case) == *name).count();
            let passed = within.len() - bad - lacking;
            let elapsed: Duration = within.iter().map(|e| e.elapsed).sum();
            writeln!(f, "{name:<28} {passed:>6} {bad:>6} {lacking:>11} {:>9}", elapsed.as_millis())?;
        }
        let elapsed: Duration = self.entries.iter().map(|e| e.elapsed).sum();
        writeln!(
            f,
            "{:<28} {:>6} {:>6} {:>11} {:>9}",
            "all",
            self.passed(),
            failed.len(),
            unsupported.len(),
            elapsed.as_millis()
        )?;
        for (name, lacking) in unsupported {
            writeln!(f, "unsupported {name}: {lacking}")?;
        }
        for (name, reason) in failed {
            writeln!(f, "FAILED {name}: {reason}")?;
        }
        if self.entries.is_empty() {
            writeln!(f, "FAILED: no case was chosen")?;
        }
        Ok(())
    }
}

/// Fails a case with a formatted reason unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($reason:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Failure::new(format!($($reason)+)));
        }
    };
}
pub(super) use ensure;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, result: Result<Outcome, Failure>) -> Entry {
        Entry { name: name.into(), result, elapsed: Duration::from_millis(2) }
    }

    #[test]
    fn a_required_lack_is_a_failure() {
        let lacking = Lacking::DataType(DataType::F16);
        let report = Report::new(
            "device".into(),
            vec![
                entry("a/one", Ok(Outcome::Passed)),
                entry("a/two", Ok(Outcome::Unsupported(lacking.clone()))),
                entry("b/three", Ok(Outcome::Unsupported(Lacking::Profiling))),
            ],
        );
        assert!(report.is_success() && report.unsupported().len() == 2);
        let report = report.require(lacking);
        assert!(!report.is_success() && report.unsupported().len() == 1);
        let text = report.to_string();
        assert!(text.contains("FAILED a/two: required: f16 is not a storage type"), "{text}");
        assert!(text.contains("unsupported b/three: no profiling"), "{text}");
    }

    #[test]
    #[should_panic(expected = "FAILED x: off by one")]
    fn failures_panic_with_their_reasons() {
        Report::new("device".into(), vec![entry("x", Err(Failure::new("off by one")))]).assert_passed();
    }

    #[test]
    fn nothing_run_is_no_success() {
        assert!(!Report::new("device".into(), vec![]).is_success());
    }
}

//! The readable record of what the device was told and what it did.

use std::fmt::Display;

/// Lines in the order of happening. They name objects by their order of creation, never by address or process-wide number, so a
/// program and a seed give the same text on every run.
#[derive(Debug, Default)]
pub(crate) struct Log(Vec<String>);

impl Log {
    pub(crate) fn line(&mut self, line: impl Display) {
        let line = line.to_string();
        tracing::trace!(target: "anydnn_mock", "{line}");
        self.0.push(line);
    }

    pub(crate) fn text(&self) -> String {
        self.0.join("\n")
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

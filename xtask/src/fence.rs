//! The electric fence around buffers, and which of its modes a run has.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fmt;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::command::root;

/// The variable that names the layer for [`ledger::run`](crate::ledger::run).
pub(crate) const LAYER: &str = "ANYDNN_FENCE_LAYER";
/// The layer's own variable for its mode.
pub(crate) const MODE: &str = "ANYDNN_FENCE";

/// Where the inaccessible page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Behind each allocation.
    Over,
    /// In front of each allocation.
    Under,
}

impl Mode {
    pub(crate) const ALL: [Self; 2] = [Self::Over, Self::Under];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Over => "over",
            Self::Under => "under",
        }
    }

    /// The mode that a day has: each has every other one.
    pub(crate) fn of_day(day: u64) -> Self {
        Self::ALL[(day % 2) as usize]
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The number of the day, counted from the first of January 1970 in UTC.
pub(crate) fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() / 86_400)
}

/// The library of a layer where cargo puts it beside the programs that depend on its package, in the profile `dev`.
pub(crate) fn library(package: &str) -> PathBuf {
    target().join("debug/deps").join(format!("{DLL_PREFIX}{package}{DLL_SUFFIX}"))
}

/// The folder that cargo builds in.
pub(crate) fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    root().join(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_take_turns_by_the_day() {
        assert_eq!([20_780, 20_781].map(Mode::of_day), [Mode::Over, Mode::Under]);
        assert!(today() > 20_000);
    }
}

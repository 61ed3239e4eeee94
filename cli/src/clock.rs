//! How long the process has run.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

static BEGAN: OnceLock<Instant> = OnceLock::new();

/// Notes that the process begins.
pub(crate) fn begin() {
    BEGAN.get_or_init(Instant::now);
}

/// How long ago that was.
pub(crate) fn age() -> Duration {
    BEGAN.get().map(Instant::elapsed).unwrap_or_default()
}

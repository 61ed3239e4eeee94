//! What the environment asks for.

use std::sync::OnceLock;

use anydnn_layer::{Target, exit_status, variable};

/// Which side of an allocation the inaccessible page is next to, or whether canaries stand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Over,
    Under,
    Canary,
    Off,
}

/// The settings of the process.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    /// The least alignment of an allocation, in bytes.
    pub(crate) align: usize,
    pub(crate) report: Option<Target>,
    /// The status to end with when something outside of an allocation was overwritten.
    pub(crate) exit: Option<i32>,
}

/// The widest vectors of 4-byte elements. Arrays of wider elements have sizes that are multiples of these, so that they are aligned
/// to their elements as well.
const DEFAULT_ALIGN: usize = 64;
/// The smallest size of a page anywhere.
pub(crate) const MAX_ALIGN: usize = 4096;

/// Set when a loader uses this copy of the library as a layer.
static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Reads the environment.
pub(crate) fn configure() -> Result<(), String> {
    let mode = match variable("ANYDNN_FENCE").as_deref() {
        None | Some("over") => Mode::Over,
        Some("under") => Mode::Under,
        Some("canary") => Mode::Canary,
        Some("off") => Mode::Off,
        Some(other) => {
            return Err(format!("ANYDNN_FENCE is {other:?}, expected over, under, canary or off"));
        }
    };
    let align = match variable("ANYDNN_FENCE_ALIGN") {
        None => DEFAULT_ALIGN,
        Some(value) => {
            let parsed = value.trim().parse().ok();
            let align = parsed.filter(|align: &usize| align.is_power_of_two() && *align <= MAX_ALIGN);
            align.ok_or_else(|| {
                format!("ANYDNN_FENCE_ALIGN is {value:?}, expected a power of two of at most {MAX_ALIGN}")
            })?
        }
    };
    let report = Target::from_variable("ANYDNN_FENCE_REPORT");
    let settings = Settings { mode, align, report, exit: exit_status("ANYDNN_FENCE_EXIT")? };
    SETTINGS.set(settings).map_err(|_| "the layer is set up already".to_owned())
}

/// The settings; `None` in a copy of the library that is no layer.
pub(crate) fn settings() -> Option<&'static Settings> {
    SETTINGS.get()
}

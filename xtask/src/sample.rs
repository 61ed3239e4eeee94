//! Which cases of long lists a run of the tests takes.

use std::fmt;

use crate::steps::Extent;

/// The variable that says so to the tests.
pub(crate) const SAMPLE: &str = "ANYDNN_SAMPLE";

/// The OpenCL devices of a run, which take turns.
const DEVICES: u64 = 2;

/// Each so-many-th case of each device, from a number on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    stride: u64,
    first: u64,
}

impl Sample {
    /// That of an extent on a day: one case in eight, or in four, on each device. What takes long is compiling for them. The turn changes every
    /// second day, as the fence changes its mode every day: so each device has each case in both modes after a while. A long run takes
    /// all on every device.
    pub(crate) fn of(extent: Extent, day: u64) -> Option<Self> {
        let stride = match extent {
            Extent::Fast => 8,
            Extent::Whole => 2 * DEVICES,
            Extent::Long => return None,
        };
        Some(Self { stride, first: day / 2 })
    }

    /// The sample of programs whose every case a whole run takes on one of the devices.
    pub(crate) fn complete(self) -> Self {
        let stride = if self.stride == 2 * DEVICES { DEVICES } else { self.stride };
        Self { stride, ..self }
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.stride, self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_runs_take_few_and_long_ones_all() {
        let samples = |extent| Sample::of(extent, 20_783).map(|s| (s.to_string(), s.complete().to_string()));
        assert_eq!(samples(Extent::Fast), Some(("8@10391".into(), "8@10391".into())));
        assert_eq!(samples(Extent::Whole), Some(("4@10391".into(), "2@10391".into())));
        assert_eq!(samples(Extent::Long), None);
        // The same turn in both modes of the fence.
        assert_eq!(Sample::of(Extent::Whole, 20_782), Sample::of(Extent::Whole, 20_783));
        assert_ne!(Sample::of(Extent::Whole, 20_782), Sample::of(Extent::Whole, 20_784));
    }
}

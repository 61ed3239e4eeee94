//! A part of a long list of cases: for a quick look at everything, or for devices that take turns.

/// The devices that take turns: a case of a list belongs to one of so many.
const DEVICES: usize = 2;

/// Each so-many-th case of a list. Each device begins one case before the last one did, so that with a stride of two each case runs on one
/// of two devices, and on the other with the next number to begin at.
///
/// ```
/// use anydnn_backend::conformance::sample::Sample;
///
/// let sample = Sample::new(2, 0);
/// assert_eq!([0, 1, 2, 3].map(|case| sample.takes(case, 0)), [true, false, true, false]);
/// assert_eq!([0, 1, 2, 3].map(|case| sample.takes(case, 1)), [false, true, false, true]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    stride: usize,
    first: usize,
}

impl Sample {
    /// Every case, on every device.
    pub const ALL: Self = Self { stride: 1, first: 0 };

    /// Each `stride`-th case, beginning with the number `first`; a stride of zero is one of one.
    pub fn new(stride: usize, first: usize) -> Self {
        let stride = stride.max(1);
        Self { stride, first: first % stride }
    }

    /// What `ANYDNN_SAMPLE` says: `8` is each eighth case, `8@3` the same from number 3 on, counted from zero. Anything else is all of them.
    pub fn from_env() -> Self {
        Self::parse(std::env::var("ANYDNN_SAMPLE").ok().as_deref().unwrap_or_default())
    }

    fn parse(said: &str) -> Self {
        let (stride, first) = said.split_once('@').unwrap_or((said, "0"));
        match (stride.parse(), first.parse()) {
            (Ok(stride), Ok(first)) => Self::new(stride, first),
            _ => Self::ALL,
        }
    }

    /// Whether a device runs a case, both by their numbers.
    pub fn takes(self, case: usize, device: usize) -> bool {
        (case % self.stride + device % self.stride + self.stride - self.first).is_multiple_of(self.stride)
    }

    /// Whether one of two devices runs a case.
    pub fn takes_somewhere(self, case: usize) -> bool {
        (0..DEVICES).any(|device| self.takes(case, device))
    }

    /// Whether each case runs somewhere.
    pub fn covers_all(self) -> bool {
        self.stride <= DEVICES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cases_run_unless_a_sample_is_asked_for() {
        assert_eq!(Sample::parse("8"), Sample::new(8, 0));
        assert_eq!(Sample::parse("3@20783"), Sample::new(3, 2));
        for all in ["", "0", "-3", "few", "2@", "@1", "2@x"] {
            assert_eq!(Sample::parse(all), Sample::ALL, "{all:?}");
        }
    }

    #[test]
    fn two_devices_share_the_cases_and_swap_them_the_next_day() {
        for day in 0..3 {
            let (today, tomorrow) = (Sample::new(2, day), Sample::new(2, day + 1));
            for case in 0..5 {
                assert_ne!(today.takes(case, 0), today.takes(case, 1));
                assert_eq!(today.takes(case, 0), tomorrow.takes(case, 1));
                assert!(today.takes_somewhere(case));
            }
        }
        assert!(Sample::new(2, 1).covers_all() && !Sample::new(3, 1).covers_all());
    }

    #[test]
    fn small_samples_are_that_small_on_each_device() {
        let sample = Sample::new(8, 3);
        for device in 0..3 {
            assert_eq!((0..80).filter(|&case| sample.takes(case, device)).count(), 10);
        }
        assert_eq!((0..80).filter(|&case| sample.takes_somewhere(case)).count(), 20);
        assert!((0..9).all(|case| Sample::ALL.takes(case, case)));
    }
}

//! Virtual time.

/// Nanoseconds that pass only when the device does something: one for each submission, one for each element or byte of work.
#[derive(Debug, Default)]
pub(crate) struct Clock(u64);

impl Clock {
    pub(crate) fn now(&self) -> u64 {
        self.0
    }

    /// Lets time pass and returns the new time.
    pub(crate) fn advance(&mut self, nanoseconds: u64) -> u64 {
        self.0 = self.0.saturating_add(nanoseconds);
        self.0
    }
}

//! Device time per execution.

use std::collections::VecDeque;
use std::sync::Arc;

/// One execution of a primitive on a profiling stream, from [`Stream::profile`](crate::Stream::profile).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profiled {
    /// The primitive's name: its label, or else that of its operation.
    pub operation: Arc<str>,
    /// The implementation's name, such as `ocl:gemm:tiled`.
    pub implementation: Arc<str>,
    /// The device commands that it took; zero where there was nothing to do.
    pub commands: usize,
    /// Nanoseconds from the start of its first command to the end of its last.
    pub nanoseconds: u64,
}

/// The executions that a stream remembers until it is told to forget them, in the order of submission.
///
/// It holds at most [`ProfileLog::LIMIT`], so that a stream which nobody resets does not grow for ever; the oldest go first.
///
/// ```
/// let mut log = anydnn_backend::ProfileLog::default();
/// let number = log.push("running");
/// *log.entry_mut(number).unwrap() = "done";
/// assert_eq!(log.iter().collect::<Vec<_>>(), [&"done"]);
/// log.clear();
/// assert_eq!(log.entry_mut(number), None);
/// ```
#[derive(Clone, Debug)]
pub struct ProfileLog<T> {
    entries: VecDeque<T>,
    /// The number of the oldest entry.
    first: u64,
}

impl<T> ProfileLog<T> {
    /// The most executions that are remembered.
    pub const LIMIT: usize = 1 << 20;

    /// Adds an entry and returns its number; no two entries of a log have the same.
    pub fn push(&mut self, entry: T) -> u64 {
        if self.entries.len() == Self::LIMIT {
            self.entries.pop_front();
            self.first += 1;
        }
        self.entries.push_back(entry);
        self.first + self.entries.len() as u64 - 1
    }

    /// An entry by its number, unless it is forgotten.
    pub fn entry_mut(&mut self, number: u64) -> Option<&mut T> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.entries.get_mut(index)
    }

    /// The entries, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter()
    }

    /// Forgets every entry.
    pub fn clear(&mut self) {
        self.first += self.entries.len() as u64;
        self.entries = VecDeque::new();
    }
}

impl<T> Default for ProfileLog<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), first: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entries_go_first_and_numbers_stay() {
        let mut log = ProfileLog::default();
        let numbers: Vec<u64> = (0..ProfileLog::<usize>::LIMIT + 3).map(|i| log.push(i)).collect();
        assert_eq!(log.iter().count(), ProfileLog::<usize>::LIMIT);
        assert_eq!(log.iter().next(), Some(&3));
        assert_eq!(log.entry_mut(numbers[2]), None);
        assert_eq!(log.entry_mut(numbers[3]), Some(&mut 3));
        log.clear();
        assert_eq!(log.iter().next(), None);
        assert_eq!(log.entry_mut(numbers[3]), None);
        let next = log.push(7);
        assert!(!numbers.contains(&next));
        assert_eq!(log.entry_mut(next), Some(&mut 7));
    }
}

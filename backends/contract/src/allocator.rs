//! Allocators of temporary memory.

use std::fmt::Debug;

use crate::backend::Backend;
use crate::error::Result;

/// Where a graph's temporaries come from.
///
/// ```
/// # use anydnn_backend::{Backend, Engine, Result, Stream};
/// /// Leaves nothing behind.
/// fn with_temporary<B: Backend>(engine: &B::Engine, stream: &B::Stream) -> Result<()> {
///     let allocator = engine.allocator();
///     let temporary = allocator.allocate(1 << 20, 64)?;
///     let written = stream.write(&temporary, 0, &[1; 100], &[])?;
///     allocator.free(temporary, Some(&written))?;
///     assert_eq!(allocator.stats().in_use_bytes, 0);
///     stream.wait()?;
///     allocator.trim();
///     assert_eq!(allocator.stats().parked_bytes, 0);
///     Ok(())
/// }
/// ```
pub trait Allocator: Debug + Send + Sync {
    /// The backend whose memory this is.
    type B: Backend;

    /// Memory of `bytes` bytes (a `u8` tensor of one dimension) whose start is a multiple of `alignment`; zero means any.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), a device error.
    fn allocate(&self, bytes: usize, alignment: usize) -> Result<<Self::B as Backend>::Memory>;

    /// Takes memory back. It is not reused or freed before `after` is complete.
    ///
    /// # Errors
    /// [`Error::Mismatch`](crate::Error::Mismatch) for memory of another engine, a device error.
    fn free(
        &self,
        memory: <Self::B as Backend>::Memory,
        after: Option<&<Self::B as Backend>::Event>,
    ) -> Result<()>;

    /// What is in use, and what has been done.
    fn stats(&self) -> AllocatorStats;

    /// Frees everything that was given back, except what commands have not done with.
    fn trim(&self);

    /// Whether each allocation is by itself, of exactly the bytes that were asked for and never reused, so that an access outside of one
    /// can be seen. Who needs several pieces of memory then asks for each of them instead of dividing a large one.
    fn keeps_apart(&self) -> bool {
        false
    }
}

/// What an allocator holds and has done. Allocations may take more bytes than were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AllocatorStats {
    /// Bytes handed out that have not come back.
    pub in_use_bytes: usize,
    /// The most bytes that were in use at once.
    pub peak_bytes: usize,
    /// Bytes given back that wait for reuse or for the end of the commands that use them.
    pub parked_bytes: usize,
    /// Allocations made.
    pub created: usize,
    /// Requests served by an older allocation.
    pub reused: usize,
}

impl AllocatorStats {
    /// Notes a new allocation of `bytes` bytes.
    pub fn create(&mut self, bytes: usize) {
        self.created += 1;
        self.hand_out(bytes);
    }

    /// Notes that `bytes` bytes in use came back and wait.
    pub fn park(&mut self, bytes: usize) {
        self.take_back(bytes);
        self.parked_bytes += bytes;
    }

    /// Notes that `bytes` bytes that waited are in use again.
    pub fn reuse(&mut self, bytes: usize) {
        self.reused += 1;
        self.release(bytes);
        self.hand_out(bytes);
    }

    /// Notes that `bytes` bytes in use came back and do not wait.
    pub fn take_back(&mut self, bytes: usize) {
        self.in_use_bytes = self.in_use_bytes.saturating_sub(bytes);
    }

    /// Notes that `bytes` bytes that waited were freed.
    pub fn release(&mut self, bytes: usize) {
        self.parked_bytes = self.parked_bytes.saturating_sub(bytes);
    }

    fn hand_out(&mut self, bytes: usize) {
        self.in_use_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.in_use_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_balance() {
        let mut stats = AllocatorStats::default();
        stats.create(100);
        stats.create(20);
        stats.park(100);
        assert_eq!((stats.in_use_bytes, stats.parked_bytes, stats.peak_bytes), (20, 100, 120));
        stats.reuse(100);
        stats.take_back(20);
        stats.park(100);
        stats.release(100);
        assert_eq!(stats, AllocatorStats { peak_bytes: 120, created: 2, reused: 1, ..Default::default() });
    }
}

//! Where programs came from.

use std::sync::atomic::{AtomicU64, Ordering};

/// Where an engine's programs came from, in programs since the engine was made.
///
/// ```
/// use anydnn_backend::Engine;
///
/// for device in anydnn_opencl::devices()? {
///     let engine = anydnn_opencl::OpenClEngine::on_device(&device)?;
///     assert_eq!(engine.program_stats(), anydnn_opencl::ProgramStats::default());
/// }
/// # Ok::<(), anydnn_backend::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramStats {
    /// Built from source.
    pub built: u64,
    /// Loaded from the cache blob that the engine was made with.
    pub from_blob: u64,
    /// Loaded from the cache on disk.
    pub from_disk: u64,
    /// Found in the engine's memory.
    pub reused: u64,
    /// Cached and not used: a file that did not pass verification, or a binary that the driver refused.
    pub rejected: u64,
    /// Features of the device that were probed by building and running a program, where neither the process nor a cache knew them.
    pub probed: u64,
}

/// The numbers while they are counted.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) built: AtomicU64,
    pub(super) from_blob: AtomicU64,
    pub(super) from_disk: AtomicU64,
    pub(super) reused: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) probed: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self) -> ProgramStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ProgramStats {
            built: read(&self.built),
            from_blob: read(&self.from_blob),
            from_disk: read(&self.from_disk),
            reused: read(&self.reused),
            rejected: read(&self.rejected),
            probed: read(&self.probed),
        }
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

//! Compiled programs that outlive the process: the engine's cache blob and the cache on disk.
//!
//! Both hold binaries that a driver made, under the full [key](key::DeviceKey) of the device, its driver and this library, inside of a
//! [frame](frame) with length and checksum. Everything is verified before a driver sees a byte, because some drivers crash on binaries
//! that are cut short. What does not pass is a miss with a [reason](CacheMiss), never an error. A checksum finds accidents, not malice:
//! a blob must come from a source that is trusted as much as the program itself.

mod blob;
mod disk;
mod folder;
mod frame;
mod key;
mod processes;
mod programs;
mod stats;
pub(crate) mod tuning;

pub use disk::DiskCache;
pub use frame::CacheMiss;
pub(crate) use key::id;
pub use processes::compile_in_processes;
pub(crate) use programs::ProgramCache;
pub use stats::ProgramStats;

/// What became of the cache blob that an engine was to start with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheOutcome {
    /// The blob was taken.
    Warm {
        /// Compiled programs in it.
        programs: usize,
    },
    /// The blob was not taken; the engine is as one without a blob.
    Miss {
        /// Why.
        reason: CacheMiss,
    },
}

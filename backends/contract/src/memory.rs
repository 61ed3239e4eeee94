//! Memory: a descriptor plus bytes on a device.

use std::fmt;
use std::fmt::Debug;

use crate::backend::Backend;
use crate::engine::EngineId;
use crate::error::Result;
use crate::memory_desc::MemoryDesc;

/// Bytes on a device with a descriptor. Clones and views are handles to the same bytes, which live as long as any handle.
pub trait Memory: Clone + Debug + Send + Sync + 'static {
    /// The backend this memory belongs to.
    type B: Backend<Memory = Self>;

    /// The engine this memory was made on.
    fn engine_id(&self) -> EngineId;

    /// What the bytes mean.
    fn desc(&self) -> &MemoryDesc;

    /// The kind of memory.
    fn kind(&self) -> MemoryKind;

    /// Where the bytes lie: which allocation, and which part of it.
    fn region(&self) -> Region;

    /// Other meaning for a part of the same bytes, from byte `offset` of this memory on.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) when the view reaches past the end or its layout is open.
    fn view(&self, desc: &MemoryDesc, offset: usize) -> Result<Self>;

    /// The bytes as host memory. Wait for commands that touch them first; enqueue no others before the mapping ends.
    ///
    /// # Errors
    /// A device error.
    fn map(&self, mode: MapMode) -> Result<Box<dyn Mapping>>;
}

/// Bytes of a device mapped to the host. Dropping it unmaps; [`Mapping::unmap`] also reports whether that worked.
pub trait Mapping: Debug + Send {
    /// The bytes.
    fn bytes(&self) -> &[u8];

    /// The bytes, to change them; empty when mapped for reading.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Ends the mapping; changes are visible to commands enqueued from then on.
    ///
    /// # Errors
    /// A device error.
    fn unmap(self: Box<Self>) -> Result<()>;
}

/// What a mapping is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapMode {
    /// Reading; changes are not written back.
    Read,
    /// Overwriting; the old content may be undefined.
    Write,
    /// Reading and changing.
    ReadWrite,
}

/// Kinds of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum MemoryKind {
    /// A buffer object of the device (`cl_mem`).
    Buffer,
    /// Unified shared memory on the host.
    UsmHost,
    /// Unified shared memory on the device.
    UsmDevice,
    /// Unified shared memory that moves between them.
    UsmShared,
    /// Shared virtual memory.
    Svm,
    /// Plain memory of the host.
    Host,
}

impl MemoryKind {
    /// The kind's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Buffer => "buffer",
            Self::UsmHost => "usm-host",
            Self::UsmDevice => "usm-device",
            Self::UsmShared => "usm-shared",
            Self::Svm => "svm",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Part of an allocation. Two memories share bytes exactly when their regions do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// The allocation, unique among those alive in this process.
    pub allocation: u64,
    /// The first byte.
    pub offset: usize,
    /// The number of bytes.
    pub bytes: usize,
}

impl Region {
    /// Whether two regions share a byte.
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.allocation == other.allocation
            && self.offset < other.offset + other.bytes
            && other.offset < self.offset + self.bytes
    }
}

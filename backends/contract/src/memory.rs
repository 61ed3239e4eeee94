//! Memory: a descriptor plus bytes on a device.

use std::fmt;
use std::fmt::Debug;

use crate::backend::Backend;
use crate::engine::EngineId;
use crate::error::Result;
use crate::memory_desc::MemoryDesc;
use crate::validate;

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

    /// Names the object that holds the bytes: clones and views of one memory share it. Memory made anew over the same bytes has another
    /// one, and so does memory that has [taken](Memory::replace) others. No two objects alive at once share it, while the same address may
    /// come back with other content: what is remembered of a memory's content goes by this, and keeps the memory.
    fn identity(&self) -> u64 {
        self.region().allocation
    }

    /// Whether there are bytes behind it. Memory [made without](crate::Engine::create_unbacked_memory) has none until it
    /// [takes](Memory::replace) some.
    fn is_backed(&self) -> bool {
        self.region().bytes >= self.desc().size()
    }

    /// Takes the bytes of other memory, from its start on, in place of its own, and is of their kind from then on. Clones, views and commands enqueued before keep the
    /// bytes that they have.
    ///
    /// ```
    /// # use anydnn_backend::{Backend, Engine, Memory, MemoryDesc, MemoryKind, Result};
    /// /// One descriptor that goes from one set of bytes to the next.
    /// fn turns<B: Backend>(engine: &B::Engine, desc: &MemoryDesc, all: &[B::Memory]) -> Result<()> {
    ///     let mut memory = engine.create_unbacked_memory(desc, all[0].kind())?;
    ///     for bytes in all {
    ///         memory.replace(bytes)?;
    ///         assert!(memory.is_backed());
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Error::Mismatch`](crate::Error::Mismatch) for memory of another engine, [`Error::Invalid`](crate::Error::Invalid) when
    /// it is too small.
    fn replace(&mut self, bytes: &Self) -> Result<()> {
        validate::replacement(self, bytes)?;
        *self = bytes.view(self.desc(), 0)?;
        Ok(())
    }

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
///
/// ```
/// # use anydnn_backend::Mapping;
/// fn first(mapping: Box<dyn Mapping>) -> u8 {
///     let first = mapping.bytes()[0];
///     mapping.unmap().unwrap();
///     first
/// }
/// ```
///
/// Its bytes cannot be used after it ended:
///
/// ```compile_fail,E0505
/// # use anydnn_backend::Mapping;
/// fn first(mapping: Box<dyn Mapping>) -> u8 {
///     let bytes = mapping.bytes();
///     mapping.unmap().unwrap();
///     bytes[0]
/// }
/// ```
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
    /// Shared virtual memory of coarse grain: the host touches it while it is mapped.
    Svm,
    /// Shared virtual memory of fine grain: the host touches it whenever no command does.
    SvmFine,
    /// Memory of the host's own allocator that the device reads and writes in place.
    System,
    /// Plain memory of the host.
    Host,
}

impl MemoryKind {
    /// Every kind, in the order of declaration.
    pub const ALL: [Self; 8] = [
        Self::Buffer,
        Self::UsmHost,
        Self::UsmDevice,
        Self::UsmShared,
        Self::Svm,
        Self::SvmFine,
        Self::System,
        Self::Host,
    ];

    /// Whether such memory has an address of the device's that a user passes around, as against a buffer object.
    pub const fn is_pointer(self) -> bool {
        !matches!(self, Self::Buffer | Self::Host)
    }

    /// The kind's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Buffer => "buffer",
            Self::UsmHost => "usm-host",
            Self::UsmDevice => "usm-device",
            Self::UsmShared => "usm-shared",
            Self::Svm => "svm",
            Self::SvmFine => "svm-fine",
            Self::System => "system",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Part of an allocation. Two memories share bytes exactly when their regions do. All memory that has an address of the process may lie
/// in one allocation, the address space.
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

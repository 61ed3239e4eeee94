//! Bytes that several memories may share.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use anydnn_backend::{Error, MemoryKind, Region, Result, check_host_memory};
use bytemuck::{Pod, Zeroable};
use memmap2::MmapMut;

use crate::user_allocator::UserAllocator;

/// Bytes that several memories may share.
#[derive(Debug)]
pub(crate) struct Allocation {
    id: u64,
    /// Whether the allocator handed it out and waits for it.
    lent: AtomicBool,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// The library's own, whose address nobody else knows. Commands lock each that they touch once, in ascending order of identity.
    /// `size` counts the bytes in front of the aligned start too.
    Locked { size: usize, bytes: RwLock<Bytes> },
    /// Those at an address that others may know, who see to it that nobody else touches them while a command does.
    Fixed(Fixed),
}

impl Allocation {
    /// The allocation of all regions that have an address of the process: the address space.
    const ADDRESS_SPACE: u64 = 0;

    /// Zeroed bytes; `what` names their purpose when there are none.
    pub(crate) fn new(bytes: usize, limit: u64, what: impl FnOnce() -> String) -> Result<Self> {
        let bytes = new_bytes(bytes, limit, what)?;
        Ok(Self::of(Place::Locked { size: bytes.len(), bytes: RwLock::new(bytes) }))
    }

    /// Zeroed bytes that stay at their address.
    pub(crate) fn with_address(bytes: usize, limit: u64, what: impl FnOnce() -> String) -> Result<Self> {
        let (start, owner) = match new_bytes(bytes, limit, what)?.lines {
            Lines::Boxed(lines) => {
                let lines = Box::into_raw(lines);
                (lines.cast(), Owner::Library(lines))
            }
            Lines::Mapped(mut pages) => (pages.as_mut_ptr(), Owner::Pages { _own: pages }),
        };
        Ok(Self::of(Place::Fixed(Fixed { start, bytes, owner })))
    }

    /// Bytes at the user's address, or of the user's allocator, which gets it back in the end.
    pub(crate) fn of_user(start: *mut u8, bytes: usize, allocator: Option<UserAllocator>) -> Self {
        let owner = allocator.map_or(Owner::User, Owner::Allocator);
        Self::of(Place::Fixed(Fixed { start, bytes, owner }))
    }

    fn of(place: Place) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(Allocation::ADDRESS_SPACE + 1);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), lent: AtomicBool::new(false), place }
    }

    /// The identity, unique in this process.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The number of bytes, those in front of the aligned start included.
    pub(crate) fn size(&self) -> usize {
        match &self.place {
            Place::Locked { size, .. } => *size,
            Place::Fixed(fixed) => fixed.bytes,
        }
    }

    pub(crate) fn kind(&self) -> MemoryKind {
        match &self.place {
            Place::Locked { .. } => MemoryKind::Host,
            Place::Fixed(_) => MemoryKind::System,
        }
    }

    /// The region of the first bytes.
    pub(crate) fn region(&self, bytes: usize) -> Region {
        match &self.place {
            Place::Locked { .. } => Region { allocation: self.id, offset: 0, bytes },
            Place::Fixed(fixed) => {
                Region { allocation: Self::ADDRESS_SPACE, offset: fixed.start.addr(), bytes }
            }
        }
    }

    /// The address of a region; null where bytes have none that others may know.
    pub(crate) fn address(&self, region: Region) -> *mut u8 {
        match &self.place {
            Place::Locked { .. } => ptr::null_mut(),
            Place::Fixed(fixed) => fixed.start.with_addr(region.offset),
        }
    }

    /// Marks it as handed out by the allocator, or not; tells what it was.
    pub(crate) fn set_lent(&self, lent: bool) -> bool {
        self.lent.swap(lent, Ordering::Relaxed)
    }

    /// Locks the bytes to read them, or to change them too, where they have a lock. A panic while they were written leaves bytes that are
    /// wrong, but bytes.
    pub(crate) fn lock(&self, writes: bool) -> Guard<'_> {
        match &self.place {
            Place::Locked { bytes, .. } if writes => {
                Guard::Write(bytes.write().unwrap_or_else(PoisonError::into_inner))
            }
            Place::Locked { bytes, .. } => Guard::Read(bytes.read().unwrap_or_else(PoisonError::into_inner)),
            Place::Fixed(fixed) => Guard::Fixed(fixed),
        }
    }

    /// The same allocation, beginning at the first address that is a multiple of `alignment`; at its very first byte for zero. Bytes that
    /// have an address stay there.
    pub(crate) fn aligned(mut self, alignment: usize) -> Self {
        if let Place::Locked { bytes, .. } = &mut self.place {
            let bytes = bytes.get_mut().unwrap_or_else(PoisonError::into_inner);
            bytes.start = 0;
            if alignment > 0 {
                bytes.start = (alignment - bytes.as_ptr().addr() % alignment) % alignment;
            }
        }
        self
    }
}

/// An allocation that is locked as long as this lives.
pub(crate) enum Guard<'a> {
    Read(RwLockReadGuard<'a, Bytes>),
    Write(RwLockWriteGuard<'a, Bytes>),
    Fixed(&'a Fixed),
}

impl Guard<'_> {
    /// The address to which the offset of a region [wraps around](pointer::wrapping_add), to that of its first byte. Asked for once: asking
    /// again ends the use of what was given before. What lies in regions may be read, and written where that was locked for.
    pub(crate) fn origin(&mut self) -> *mut u8 {
        match self {
            Guard::Read(bytes) => bytes.as_ptr().cast_mut(),
            Guard::Write(bytes) => bytes.as_mut_ptr(),
            Guard::Fixed(fixed) => fixed.start.with_addr(0),
        }
    }
}

/// Bytes at an address.
pub(crate) struct Fixed {
    start: *mut u8,
    bytes: usize,
    owner: Owner,
}

/// Whose an address is.
enum Owner {
    /// The user's.
    User,
    /// The library's, from a box.
    Library(*mut [Line]),
    /// The library's, which the system takes back with this.
    Pages { _own: MmapMut },
    /// From the user's allocator.
    Allocator(UserAllocator),
}

// SAFETY: the address may be used on any thread; who knows it sees to the order.
unsafe impl Send for Fixed {}
// SAFETY: as above.
unsafe impl Sync for Fixed {}

impl Drop for Fixed {
    fn drop(&mut self) {
        match &self.owner {
            Owner::User | Owner::Pages { .. } => {}
            // SAFETY: from a box, and no memory of it is left.
            Owner::Library(lines) => drop(unsafe { Box::from_raw(*lines) }),
            Owner::Allocator(allocator) => allocator.free(self.start),
        }
    }
}

impl fmt::Debug for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:p}", self.bytes, self.start)
    }
}

/// Whole cache lines of bytes, from some byte on.
#[derive(Default)]
pub(crate) struct Bytes {
    lines: Lines,
    start: usize,
}

/// Whole lines, which begin at multiples of their length.
enum Lines {
    Boxed(Box<[Line]>),
    /// Where they are many: pages of the system are zeros already, and huge ones are soon there.
    Mapped(MmapMut),
}

impl Default for Lines {
    fn default() -> Self {
        Self::Boxed(Box::default())
    }
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; Bytes::LINE]);

impl Bytes {
    /// Bytes of a line, and the alignment of the first one.
    pub(crate) const LINE: usize = 64;
    /// Bytes that are pages of the system.
    const MANY: usize = 1 << 20;

    /// Zeroed lines for a number of bytes; none when there is no such memory.
    fn zeroed(bytes: usize) -> Option<Self> {
        let count = bytes.div_ceil(Self::LINE);
        let lines = if bytes < Self::MANY {
            Lines::Boxed(bytemuck::allocation::try_zeroed_slice_box(count).ok()?)
        } else {
            Lines::Mapped(pages(count.checked_mul(Self::LINE)?)?)
        };
        Some(Self { lines, start: 0 })
    }

    /// Aligned lines that begin with these bytes.
    pub(crate) fn copied(bytes: &[u8]) -> Result<Self> {
        let mut copy = Self::zeroed(bytes.len())
            .ok_or_else(|| Error::OutOfMemory { what: "a copy in host memory".into(), bytes: bytes.len() })?;
        copy[..bytes.len()].copy_from_slice(bytes);
        Ok(copy)
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let bytes = match &self.lines {
            Lines::Boxed(lines) => bytemuck::cast_slice(lines),
            Lines::Mapped(pages) => &**pages,
        };
        &bytes[self.start..]
    }
}

impl std::ops::DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        let bytes = match &mut self.lines {
            Lines::Boxed(lines) => bytemuck::cast_slice_mut(lines),
            Lines::Mapped(pages) => &mut **pages,
        };
        &mut bytes[self.start..]
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

/// Pages of zeros; none when there is no such memory.
fn pages(bytes: usize) -> Option<MmapMut> {
    let pages = MmapMut::map_anon(bytes).ok()?;
    // Advice that is not taken changes nothing but the time.
    #[cfg(target_os = "linux")]
    let _ = pages.advise(memmap2::Advice::HugePage);
    Some(pages)
}

fn new_bytes(bytes: usize, limit: u64, what: impl FnOnce() -> String) -> Result<Bytes> {
    if bytes as u64 > limit {
        return Err(Error::OutOfMemory { what: what(), bytes });
    }
    let what = what();
    check_host_memory(bytes, || what.clone())?;
    Bytes::zeroed(bytes).ok_or(Error::OutOfMemory { what, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_whole_lines_of_zeros_whoever_gives_them() {
        for bytes in [1, Bytes::LINE, Bytes::MANY - 1, Bytes::MANY, Bytes::MANY + 3] {
            let mut own = Bytes::zeroed(bytes).unwrap();
            assert_eq!(own.len(), bytes.next_multiple_of(Bytes::LINE));
            assert!(own.iter().all(|&byte| byte == 0) && own.as_ptr().addr().is_multiple_of(Bytes::LINE));
            own[bytes - 1] = 7;
            let copy = Bytes::copied(&own[..bytes]).unwrap();
            assert_eq!(copy[..bytes], own[..bytes]);
            let fixed = Allocation::with_address(bytes, u64::MAX, String::new).unwrap();
            let start = fixed.lock(true).origin().with_addr(fixed.region(bytes).offset);
            // SAFETY: the allocation's last byte, which nothing else touches.
            let last = unsafe {
                start.add(bytes - 1).write(9);
                start.add(bytes - 1).read()
            };
            assert_eq!((last, start.addr() % Bytes::LINE), (9, 0));
        }
    }
}

//! Memory between inaccessible pages.

use std::sync::OnceLock;

use crate::settings::Mode;
use crate::zone::{self, Damage};

/// Inaccessible bytes on each side of memory of the layer's own. They take addresses only.
const OWN_GUARD: usize = 1 << 20;
/// The same within memory that a driver has allocated.
const DRIVER_GUARD: usize = 64 << 10;

/// An allocation that ends, or begins, at an inaccessible page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The first address that belongs to the block, inaccessible pages included.
    pub(crate) low: usize,
    /// The address behind the last.
    pub(crate) high: usize,
    /// The allocation's first byte.
    pub(crate) start: usize,
    /// The allocation's bytes.
    pub(crate) size: usize,
    /// The accessible pages.
    body: (usize, usize),
}

impl Block {
    /// A block in new memory. `None` when there is none.
    pub(crate) fn map(size: usize, align: usize, mode: Mode) -> Option<Self> {
        let total = body(size, align)?.checked_add(2 * OWN_GUARD)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new memory at an address of the system's choice.
        let low = unsafe { libc::mmap(std::ptr::null_mut(), total, libc::PROT_NONE, flags, -1, 0) };
        if low == libc::MAP_FAILED {
            return None;
        }
        let block = Self::place((low.addr(), low.addr() + total), OWN_GUARD, size, align, mode)?;
        if !block.protect(block.body, libc::PROT_READ | libc::PROT_WRITE) {
            block.unmap();
            return None;
        }
        Some(block)
    }

    /// The bytes that a driver must allocate for [`within`](Self::within).
    pub(crate) fn room(size: usize, align: usize) -> Option<usize> {
        body(size, align)?.checked_add(2 * DRIVER_GUARD + 2 * page())
    }

    /// A block within memory that a driver has allocated. `None` when its pages cannot be protected, as those of another device's
    /// memory; then nothing has changed.
    ///
    /// # Safety
    /// - The memory has `room` bytes and nobody uses it until the block is [open](Self::open) again.
    pub(crate) unsafe fn within(
        base: usize,
        room: usize,
        size: usize,
        align: usize,
        mode: Mode,
    ) -> Option<Self> {
        let ends = (base.next_multiple_of(page()), (base + room) / page() * page());
        let block = Self::place(ends, DRIVER_GUARD, size, align, mode)?;
        let guards = [(block.low, block.body.0), (block.body.1, block.high)];
        if guards.iter().all(|guard| block.protect(*guard, libc::PROT_NONE)) {
            return Some(block);
        }
        block.open();
        None
    }

    fn place(ends: (usize, usize), guard: usize, size: usize, align: usize, mode: Mode) -> Option<Self> {
        let first = ends.0 + guard;
        let last = first + body(size, align)?;
        let start = if mode == Mode::Under { first } else { last - size.next_multiple_of(align) };
        (last + guard <= ends.1).then_some(Self {
            low: ends.0,
            high: ends.1,
            start,
            size,
            body: (first, last),
        })
    }

    /// The addresses that the block takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.high - self.low
    }

    /// Fills the allocation, if it has no contents yet, and what is beside it up to the inaccessible pages.
    pub(crate) fn fill(&self, contents: Option<*const u8>) {
        for (address, bytes) in self.slack() {
            // SAFETY: accessible memory of the block that nobody else uses.
            zone::fill(unsafe { bytes_mut(address, bytes) }, address);
        }
        let start = std::ptr::with_exposed_provenance_mut::<u8>(self.start);
        match contents {
            // SAFETY: the program gives as many bytes as the allocation has.
            Some(contents) => unsafe { start.copy_from_nonoverlapping(contents, self.size) },
            None => {
                for part in zone::filled(self.size) {
                    // SAFETY: within the allocation.
                    unsafe { start.add(part.start).write_bytes(zone::FRESH, part.len()) };
                }
            }
        }
    }

    /// What has been overwritten beside the allocation since the last time.
    pub(crate) fn damage(&self) -> Vec<Damage> {
        let check = |(address, bytes): (usize, usize)| {
            // SAFETY: accessible memory of the block. A kernel may be writing there, which is what is looked for.
            let zone = unsafe { bytes_mut(address, bytes) };
            let damage = zone::damage(zone, address, address.wrapping_sub(self.start) as isize);
            if damage.is_some() {
                zone::fill(zone, address);
            }
            damage
        };
        self.slack().into_iter().filter_map(check).collect()
    }

    /// Makes the whole block inaccessible and gives its memory, not its addresses, back to the system.
    pub(crate) fn close(&self) {
        self.protect((self.low, self.high), libc::PROT_NONE);
        let low = std::ptr::with_exposed_provenance_mut(self.low);
        // SAFETY: private memory whose contents nobody needs. Where that fails, the memory is kept until the block goes.
        unsafe { libc::madvise(low, self.high - self.low, libc::MADV_DONTNEED) };
    }

    /// Makes the whole block accessible.
    pub(crate) fn open(&self) {
        self.protect((self.low, self.high), libc::PROT_READ | libc::PROT_WRITE);
    }

    /// Gives the addresses of a block of the layer's own back to the system.
    pub(crate) fn unmap(&self) {
        // SAFETY: the mapping was made for this block and nobody uses it.
        unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(self.low), self.high - self.low) };
    }

    /// The accessible bytes before and behind the allocation: address and number.
    fn slack(&self) -> [(usize, usize); 2] {
        let end = self.start + self.size;
        [(self.body.0, self.start - self.body.0), (end, self.body.1 - end)]
    }

    fn protect(&self, (from, to): (usize, usize), protection: i32) -> bool {
        debug_assert!(self.low <= from && to <= self.high);
        // SAFETY: whole pages of the block.
        unsafe { libc::mprotect(std::ptr::with_exposed_provenance_mut(from), to - from, protection) == 0 }
    }
}

/// The bytes of the accessible pages.
fn body(size: usize, align: usize) -> Option<usize> {
    size.checked_next_multiple_of(align)?.checked_next_multiple_of(page())
}

/// The size of a page.
fn page() -> usize {
    static PAGE: OnceLock<usize> = OnceLock::new();
    // SAFETY: the function has no conditions.
    *PAGE.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize)
}

/// # Safety
/// - There are as many bytes at the address, which nobody else uses.
unsafe fn bytes_mut<'a>(address: usize, bytes: usize) -> &'a mut [u8] {
    // SAFETY: by contract.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(address), bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(address: usize, byte: u8) {
        // SAFETY: accessible memory of a test's own block.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address).write(byte) };
    }

    #[test]
    fn the_end_or_the_start_is_at_an_inaccessible_page() {
        for (size, align) in [(1, 1), (1600, 64), (1604, 64), (4096, 64), (5000, 4), (9, 4096)] {
            let over = Block::map(size, align, Mode::Over).unwrap();
            assert_eq!(over.start % align, 0);
            assert_eq!(over.body.1 - over.start, size.next_multiple_of(align));
            let under = Block::map(size, align, Mode::Under).unwrap();
            assert_eq!(under.start, under.body.0);
            assert_eq!(under.start % page(), 0);
            for block in [over, under] {
                assert!(block.low + OWN_GUARD <= block.body.0 && block.body.1 + OWN_GUARD <= block.high);
                block.unmap();
            }
        }
        assert!(Block::map(usize::MAX - 100, 64, Mode::Over).is_none());
    }

    #[test]
    fn damage_beside_the_allocation_is_found_once() {
        let block = Block::map(100, 64, Mode::Over).unwrap();
        block.fill(None);
        assert_eq!(block.damage(), []);
        for i in 0..100 {
            write(block.start + i, 1);
        }
        assert_eq!(block.damage(), [], "what is inside may change");
        write(block.start - 3, 0);
        write(block.start + 101, 0);
        write(block.start + 104, 0);
        let before = Damage { first: -3, last: -3 };
        assert_eq!(block.damage(), [before, Damage { first: 101, last: 104 }]);
        assert_eq!(block.damage(), []);
        block.unmap();
    }

    #[test]
    fn memory_of_others_takes_a_block_and_gets_back_whole() {
        let room = Block::room(1000, 64).unwrap();
        let mut memory = vec![7_u8; room];
        let base = memory.as_mut_ptr().expose_provenance();
        // SAFETY: the memory above, which nobody uses until it is open again.
        let block = unsafe { Block::within(base, room, 1000, 64, Mode::Over) }.unwrap();
        block.fill(Some([9; 1000].as_ptr()));
        assert_eq!(block.damage(), []);
        block.close();
        block.open();
        assert!(memory.iter().all(|byte| [0, 7].contains(byte)));
        // SAFETY: there is no memory that anybody could use.
        let nowhere = unsafe { Block::within(1 << 12, room, 1000, 64, Mode::Over) };
        assert!(nowhere.is_none());
    }
}

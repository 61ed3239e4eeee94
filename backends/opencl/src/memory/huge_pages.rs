//! Large buffers of CPU devices in huge pages: a core that reads them misses fewer translations of addresses, and they are made present
//! with a 512th of the faults. docs/measurements/experiments/processors.md has the difference.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use anydnn_backend::Result;
use cl3::memory::{CL_MEM_READ_WRITE, CL_MEM_USE_HOST_PTR};
use cl3::types::cl_mem;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::driver::handle;

/// The size of a huge page, which also is its alignment.
const HUGE_PAGE: usize = 2 << 20;
/// The size of other pages at most.
const PAGE: usize = 64 << 10;

/// Memory of the process that lies in huge pages where the system grants them.
#[derive(Debug)]
struct Region {
    address: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the region is owned by this value alone.
unsafe impl Send for Region {}

/// A buffer object over at least so many bytes in huge pages, which live as long as the object; none where a huge page would not be
/// filled or something is refused: the driver's own memory does as well.
pub(crate) fn buffer(context: &handle::Context, bytes: usize) -> Option<Result<handle::Mem>> {
    let region = Box::new(Region::new(bytes)?);
    // SAFETY: a live context; the region has the bytes, and is kept until the object's destructor has been called.
    let raw = unsafe {
        let flags = CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR;
        cl3::memory::create_buffer(context.raw(), flags, bytes, region.address.as_ptr())
    }
    .ok()?;
    let region = Box::into_raw(region);
    // SAFETY: a live object; the callback takes the region over, once.
    let set = unsafe { cl3::memory::set_mem_object_destructor_callback(raw, free, region.cast()) };
    // SAFETY: the driver returned this object with one reference for the caller.
    let mem = unsafe { handle::Mem::from_owned(raw) };
    if set.is_err() {
        drop(mem);
        // SAFETY: the object that used it is gone, and nobody else was told of it.
        drop(unsafe { Box::from_raw(region) });
        return None;
    }
    Some(mem)
}

/// What a driver calls after the last use of a buffer object.
extern "C" fn free(_: cl_mem, region: *mut c_void) {
    // SAFETY: it was given up by `buffer` for this call, which is the only one.
    drop(unsafe { Box::from_raw(region.cast::<Region>()) });
}

impl Region {
    fn new(bytes: usize) -> Option<Self> {
        if bytes < HUGE_PAGE {
            return None;
        }
        // What does not fill half a huge page is left to small ones.
        let rest = bytes % HUGE_PAGE;
        let unit = if rest > HUGE_PAGE / 2 { HUGE_PAGE } else { PAGE };
        let bytes = bytes.checked_next_multiple_of(unit)?;
        let mapped = bytes.checked_add(HUGE_PAGE)?;
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new memory, wherever the system puts it.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), mapped, flags, MapFlags::PRIVATE) }.ok()?;
        let before = start.addr().next_multiple_of(HUGE_PAGE) - start.addr();
        let address = start.wrapping_byte_add(before);
        // SAFETY: parts of what was just mapped, in front of the region and behind it, in whole pages.
        unsafe {
            give_up(start, before);
            give_up(address.wrapping_byte_add(bytes), mapped - before - bytes);
        }
        let region = Self { address: NonNull::new(address)?, bytes };
        // SAFETY: nothing is in the region yet, and advice does not change what is there.
        unsafe { madvise(address, bytes, Advice::LinuxHugepage) }.ok()?;
        Some(region)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: this owns it.
        unsafe { give_up(self.address.as_ptr(), self.bytes) };
    }
}

/// Unmaps memory.
///
/// # Safety
/// It consists of whole pages that were mapped and that nobody uses.
unsafe fn give_up(address: *mut c_void, bytes: usize) {
    if bytes == 0 {
        return;
    }
    // SAFETY: by contract.
    if let Err(error) = unsafe { munmap(address, bytes) } {
        tracing::warn!(%error, bytes, "memory was not given back");
    }
}

#[cfg(test)]
mod tests {
    use anydnn_backend::{DataType, DeviceKind, Engine, Event, MemoryDesc, MemoryKind, Stream, StreamDesc};

    use super::*;
    use crate::OpenClMemory;
    use crate::testing::test_engines;

    #[test]
    fn regions_begin_with_huge_pages_and_end_soon() {
        assert!(Region::new(HUGE_PAGE - 1).is_none());
        for (bytes, expected) in [
            (HUGE_PAGE, HUGE_PAGE),
            (HUGE_PAGE + 1, HUGE_PAGE + PAGE),
            (HUGE_PAGE + HUGE_PAGE / 2 + 1, 2 * HUGE_PAGE),
            (5 * HUGE_PAGE + 4096, 5 * HUGE_PAGE + PAGE),
        ] {
            let region = Region::new(bytes).expect("memory");
            assert_eq!((region.address.addr().get() % HUGE_PAGE, region.bytes), (0, expected), "{bytes}");
            // SAFETY: within the region.
            unsafe {
                let last = region.address.cast::<u8>().add(bytes - 1);
                assert_eq!((region.address.cast::<u8>().read(), last.read()), (0, 0));
                last.write(1);
            }
        }
    }

    /// Addresses of this process, in bytes.
    fn mapped() -> usize {
        let status = std::fs::read_to_string("/proc/self/statm").expect("statm");
        status.split(' ').next().and_then(|pages| pages.parse::<usize>().ok()).expect("pages") * 4096
    }

    #[test]
    fn buffers_in_huge_pages_outlive_us_with_the_users_reference_and_are_given_back_after_it() {
        const BYTES: usize = 64 << 20;
        for engine in test_engines().into_iter().filter(|engine| engine.device().kind == DeviceKind::Cpu) {
            let desc = MemoryDesc::new([BYTES], DataType::U8);
            let stream = engine.create_stream(&StreamDesc::default()).expect("a stream");
            let mut before = usize::MAX;
            for round in 0..40 {
                let memory = engine.create_memory(&desc, MemoryKind::Buffer).expect("a buffer");
                stream.write(&memory, BYTES - 3, &[1, 2, 3], &[]).expect("a write").wait().expect("written");
                let raw = memory.raw_mem();
                // SAFETY: a live buffer.
                let kept = unsafe { handle::Mem::from_borrowed(raw) }.expect("a reference");
                drop(memory);
                // SAFETY: a live buffer, of which this becomes another owner.
                let again = unsafe { OpenClMemory::from_raw(&engine, &desc, kept.raw()) }.expect("memory");
                let mut bytes = [0; 3];
                stream.read(&again, BYTES - 3, &mut bytes, &[]).expect("a read");
                assert_eq!(bytes, [1, 2, 3]);
                if round == 7 {
                    before = mapped();
                }
            }
            // Those of 32 rounds would be 2 GiB.
            let after = mapped();
            assert!(after < before + (1 << 30), "{}: {before} and {after}", engine.device().name);
        }
    }
}

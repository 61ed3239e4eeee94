//! Which parts of an allocation are open to the host. Not every driver counts how often one is mapped, so it is counted here.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use anydnn_backend::{MapMode, Result};

/// The mappings of one allocation.
#[derive(Debug, Default)]
pub(crate) struct OpenMaps {
    open: Mutex<Vec<OpenMap>>,
}

#[derive(Debug)]
struct OpenMap {
    offset: usize,
    bytes: usize,
    mode: MapMode,
    pointer: *mut c_void,
    count: usize,
}

impl OpenMaps {
    /// Where a part is mapped: by a mapping that is open already and good enough, or else by `map`.
    pub(crate) fn open(
        &self,
        (offset, bytes): (usize, usize),
        mode: MapMode,
        map: impl FnOnce() -> Result<*mut c_void>,
    ) -> Result<*mut c_void> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let serves = |other: &&mut OpenMap| {
            let allowed = other.mode == mode || other.mode == MapMode::ReadWrite;
            other.offset == offset && other.bytes >= bytes && allowed
        };
        if let Some(other) = open.iter_mut().find(serves) {
            other.count += 1;
            return Ok(other.pointer);
        }
        let pointer = map()?;
        open.push(OpenMap { offset, bytes, mode, pointer, count: 1 });
        Ok(pointer)
    }

    /// Ends one mapping at `pointer`, with `unmap` if it was the last.
    pub(crate) fn close(&self, pointer: *mut c_void, unmap: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(i) = open.iter().position(|map| map.pointer == pointer) {
            open[i].count -= 1;
            if open[i].count > 0 {
                return Ok(());
            }
            open.swap_remove(i);
        }
        unmap()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::ptr;

    use super::*;

    #[test]
    fn a_part_is_mapped_once_and_unmapped_by_the_last() {
        let (maps, calls) = (OpenMaps::default(), Cell::new((0, 0)));
        let open = |part, mode| {
            maps.open(part, mode, || {
                let (mapped, unmapped) = calls.get();
                calls.set((mapped + 1, unmapped));
                Ok(ptr::without_provenance_mut(mapped + 1))
            })
            .unwrap()
        };
        let close = |pointer| {
            maps.close(pointer, || {
                calls.set((calls.get().0, calls.get().1 + 1));
                Ok(())
            })
            .unwrap();
        };
        let first = open((0, 8), MapMode::Read);
        assert_eq!(open((0, 4), MapMode::Read), first);
        // Larger, elsewhere, or for more than the open one is.
        let others = [
            open((0, 9), MapMode::Read),
            open((4, 4), MapMode::Read),
            open((0, 8), MapMode::Write),
            open((0, 8), MapMode::ReadWrite),
        ];
        assert!(!others.contains(&first));
        assert_eq!(calls.get(), (5, 0));
        close(first);
        assert_eq!(calls.get(), (5, 0));
        close(first);
        others.into_iter().for_each(close);
        assert_eq!(calls.get(), (5, 5));
        assert_ne!(open((0, 8), MapMode::Read), first);
    }
}

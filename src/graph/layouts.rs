//! Opaque layouts: numbers for layouts that strides cannot tell.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anydnn_backend::MemoryDesc;
use indexmap::IndexSet;

/// Every layout that has a number. The numbers hold for the life of the process: a user may keep one longer than what made it.
static KNOWN: Mutex<Option<IndexSet<MemoryDesc>>> = Mutex::new(None);

/// Not zero, which callers may hold for "none".
const FIRST: u64 = 1;

/// The number of a descriptor's layout.
pub(super) fn layout_id(desc: &MemoryDesc) -> u64 {
    // A label is no part of a layout.
    let plain = MemoryDesc::with_layout(desc.dims().clone(), desc.data_type(), desc.layout().clone());
    let (index, _) = lock().get_or_insert_default().insert_full(plain.unwrap_or_else(|_| desc.clone()));
    FIRST + index as u64
}

/// The descriptor that a number stands for.
pub(super) fn desc(id: u64) -> Option<MemoryDesc> {
    let index = usize::try_from(id.checked_sub(FIRST)?).ok()?;
    lock().as_ref()?.get_index(index).cloned()
}

fn lock() -> MutexGuard<'static, Option<IndexSet<MemoryDesc>>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anydnn_backend::DataType;

    #[test]
    fn a_layout_keeps_its_number() {
        let blocked = MemoryDesc::with_tag([4, 32], DataType::F32, "aB16b").unwrap();
        let id = layout_id(&blocked);
        assert_eq!(layout_id(&blocked.clone().labelled("weights")), id);
        assert_ne!(layout_id(&MemoryDesc::with_tag([4, 32], DataType::F32, "aB8b").unwrap()), id);
        assert_eq!(desc(id), Some(blocked));
        assert_eq!((desc(0), desc(u64::MAX)), (None, None));
    }
}

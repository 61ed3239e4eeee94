//! Temporary memory from callbacks of the user.

use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use anydnn_backend::{Error, Result};

type AllocateFn = dyn Fn(usize, usize) -> *mut c_void + Send + Sync;
type FreeFn = dyn Fn(*mut c_void) + Send + Sync;

/// The user's own source of temporary memory, for [`HostEngine::with_allocator`](crate::HostEngine::with_allocator).
///
/// `allocate(bytes, alignment)` returns the address of that many bytes, or null when there are none. The alignment is a power of two from 64
/// on. It is never called for zero bytes. `free(pointer)` gets each address once, never null, when no command uses the memory any more.
///
/// Both may be called from any thread, by several at once. A panic in them is caught: in `allocate` it is an [`Error::Unavailable`]; in
/// `free` the memory counts as freed.
///
/// ```
/// use std::alloc::{Layout, alloc, dealloc};
/// use anydnn_backend::Engine;
/// use anydnn_host::{HostEngine, UserAllocator};
///
/// let layout = |bytes| Layout::from_size_align(bytes, 64).unwrap();
/// // SAFETY: the size is not zero; every address is of 1000 bytes, and freed once.
/// let allocator = unsafe {
///     UserAllocator::new(move |bytes, _| alloc(layout(bytes)).cast(), move |pointer| dealloc(pointer.cast(), layout(1000)))
/// };
/// let engine = HostEngine::new().with_allocator(allocator);
/// let temporary = engine.allocator().allocate(1000, 64)?;
/// engine.allocator().free(temporary, None)?;
/// assert_eq!(engine.allocator().stats().created, 1);
/// # Ok::<(), anydnn_backend::Error>(())
/// ```
#[derive(Clone)]
pub struct UserAllocator(Arc<Callbacks>);

struct Callbacks {
    allocate: Box<AllocateFn>,
    free: Box<FreeFn>,
}

impl UserAllocator {
    /// An allocator of plain memory of the process.
    ///
    /// # Safety
    /// - `allocate` returns null, or the address of at least that many bytes that nobody else uses.
    /// - They stay allocated until `free` gets the address.
    pub unsafe fn new(
        allocate: impl Fn(usize, usize) -> *mut c_void + Send + Sync + 'static,
        free: impl Fn(*mut c_void) + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Callbacks { allocate: Box::new(allocate), free: Box::new(free) }))
    }

    /// The address of new memory; null when there is none.
    pub(crate) fn allocate(&self, bytes: usize, alignment: usize) -> Result<*mut u8> {
        let called = catch_unwind(AssertUnwindSafe(|| (self.0.allocate)(bytes, alignment)));
        called.map(<*mut c_void>::cast).map_err(|_| {
            Error::unavailable("temporary memory", "the user's callback for allocation panicked")
        })
    }

    /// Gives an address back to the user. It is no use after that.
    pub(crate) fn free(&self, address: *mut u8) {
        if catch_unwind(AssertUnwindSafe(|| (self.0.free)(address.cast()))).is_err() {
            tracing::error!(?address, "the user's callback for freeing panicked");
        }
    }
}

impl fmt::Debug for UserAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserAllocator").finish_non_exhaustive()
    }
}

//! Temporary memory from callbacks of the user.

use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use anydnn_backend::{Error, MemoryKind, Result};
use cl3::types::{cl_context, cl_device_id, cl_event};

use crate::driver::handle;
use crate::driver::platform::OpenClDevice;
use crate::memory::allocation::TEMPORARY;

type AllocateFn = dyn Fn(usize, usize, cl_device_id, cl_context) -> *mut c_void + Send + Sync;
type FreeFn = dyn Fn(*mut c_void, cl_device_id, cl_context, Option<cl_event>) + Send + Sync;

/// The user's own source of temporary memory, for [`OpenClEngine::with_allocator`](crate::OpenClEngine::with_allocator).
///
/// `allocate(bytes, alignment, device, context)` returns the address of that many bytes, or null when there are none. The alignment is
/// a power of two, or zero for any. It is never called for zero bytes.
///
/// `free(pointer, device, context, event)` gets each address once, never null, and only when no command uses the memory any more. The
/// event, where there is one, is that of the last command, which has ended; it is the library's, so retain it to keep it.
///
/// Both may be called from any thread, by several at once, and while the library is in the middle of something: they may use OpenCL, but
/// no stream, event or allocator of this library. A panic in them is caught: in `allocate` it is an [`Error::Unavailable`]; in `free` the memory counts as
/// freed.
///
/// ```
/// use anydnn_backend::{Allocator, Engine, MemoryKind};
/// use anydnn_opencl::{OpenClEngine, UserAllocator};
/// use cl3::memory::{CL_MEM_READ_WRITE, svm_alloc, svm_free};
///
/// for device in anydnn_opencl::devices()? {
///     let engine = OpenClEngine::on_device(&device)?;
///     if engine.capabilities().memory_kinds.contains(&MemoryKind::Svm) {
///         let allocate = |bytes, alignment, _device, context| {
///             // SAFETY: the context is live.
///             unsafe { svm_alloc(context, CL_MEM_READ_WRITE, bytes, alignment as u32) }.unwrap_or(std::ptr::null_mut())
///         };
///         // SAFETY: the pointer came from `allocate`, and no command uses it any more.
///         let free = |pointer, _device, context, _event| drop(unsafe { svm_free(context, pointer) });
///         // SAFETY: shared virtual memory of the context, which lives until it is freed.
///         let allocator = unsafe { UserAllocator::new(allocate, free) }.with_kind(MemoryKind::Svm);
///         let engine = engine.with_allocator(allocator)?;
///         let temporary = engine.allocator().allocate(1000, 64)?;
///         engine.allocator().free(temporary, None)?;
///         assert_eq!(engine.allocator().stats().created, 1);
///     }
/// }
/// # Ok::<(), anydnn_backend::Error>(())
/// ```
#[derive(Clone)]
pub struct UserAllocator {
    callbacks: Arc<Callbacks>,
    kind: Option<MemoryKind>,
}

struct Callbacks {
    allocate: Box<AllocateFn>,
    free: Box<FreeFn>,
}

impl UserAllocator {
    /// An allocator whose memory is of whatever kind the driver says, as in [`OpenClMemory::from_pointer`](crate::OpenClMemory::from_pointer).
    ///
    /// # Safety
    /// - `allocate` returns null, or the address of at least that many bytes that nobody else uses: of unified shared memory of the
    ///   device, of shared virtual memory of the context where the driver has no unified shared memory, or of any memory of the process
    ///   where the device takes it.
    /// - They stay allocated until `free` gets the address.
    pub unsafe fn new(
        allocate: impl Fn(usize, usize, cl_device_id, cl_context) -> *mut c_void + Send + Sync + 'static,
        free: impl Fn(*mut c_void, cl_device_id, cl_context, Option<cl_event>) + Send + Sync + 'static,
    ) -> Self {
        let callbacks = Callbacks { allocate: Box::new(allocate), free: Box::new(free) };
        Self { callbacks: Arc::new(callbacks), kind: None }
    }

    /// All addresses are of this kind, so that the driver is not asked. Needed for shared virtual memory of a device that has unified
    /// shared memory too.
    #[must_use]
    pub fn with_kind(mut self, kind: MemoryKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// The kind of memory, if it was stated.
    pub fn kind(&self) -> Option<MemoryKind> {
        self.kind
    }
}

impl fmt::Debug for UserAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserAllocator").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// What it takes to call the user back, whether or not the engine is still there.
pub(crate) struct UserRelease {
    callbacks: Arc<Callbacks>,
    device: OpenClDevice,
    context: handle::Context,
    /// The last command that used the memory.
    after: OnceLock<handle::Event>,
}

impl UserRelease {
    pub(crate) fn new(
        allocator: &UserAllocator,
        context: &handle::Context,
        device: &OpenClDevice,
    ) -> Result<Self> {
        Ok(Self {
            callbacks: Arc::clone(&allocator.callbacks),
            device: device.clone(),
            context: context.try_clone()?,
            after: OnceLock::new(),
        })
    }

    pub(crate) fn set_after(&self, event: handle::Event) {
        // The first command that the memory was given back after is the one; there is no second.
        let _ = self.after.set(event);
    }

    /// The address of new memory, unless there is none.
    pub(crate) fn allocate(&self, bytes: usize, alignment: usize) -> Result<Option<NonNull<c_void>>> {
        let (device, context) = (self.device.raw_device(), self.context.raw());
        let called =
            catch_unwind(AssertUnwindSafe(|| (self.callbacks.allocate)(bytes, alignment, device, context)));
        called
            .map(NonNull::new)
            .map_err(|_| Error::unavailable(TEMPORARY, "the user's callback for allocation panicked"))
    }

    /// Gives an address back to the user. It is no use after that.
    pub(crate) fn free(&self, address: NonNull<c_void>) {
        let (device, context) = (self.device.raw_device(), self.context.raw());
        let after = self.after.get().map(handle::Event::raw);
        let called = catch_unwind(AssertUnwindSafe(|| {
            (self.callbacks.free)(address.as_ptr(), device, context, after);
        }));
        if called.is_err() {
            tracing::error!(?address, "the user's callback for freeing panicked");
        }
    }
}

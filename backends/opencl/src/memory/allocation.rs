//! Allocations: the bytes behind memory, of every kind, and their release.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use anydnn_backend::{DeviceKind, Error, MemoryKind, Result};
use cl3::memory::{CL_MEM_READ_WRITE, CL_MEM_SVM_FINE_GRAIN_BUFFER};
use cl3::types::cl_mem;

use crate::driver::call;
use crate::driver::handle;
use crate::driver::platform::OpenClDevice;
use crate::driver::usm::Usm;
use crate::memory::ledger::Lease;
use crate::memory::open_maps::OpenMaps;
use crate::memory::user_allocator::UserRelease;

/// The allocation that all pointers belong to: their region's offset is their address.
const ADDRESS_SPACE: u64 = u64::MAX;
/// What OpenCL aligns memory to without being asked: the size of its largest type.
pub(crate) const NATURAL_ALIGNMENT: usize = 128;
/// What temporary memory is called in messages.
pub(crate) const TEMPORARY: &str = "temporary memory";

/// The sizes of memory that is made here are multiples of this many bytes.
const WORD: usize = 4;

/// Bytes behind memory, and where they lie among the allocations of the process.
pub(crate) struct Allocation {
    storage: Storage,
    /// Names it for the life of the process: handles and addresses come back for other memory.
    pub(crate) serial: u64,
    /// The buffer object's address; of the whole buffer for a sub-buffer of the user.
    pub(crate) identity: u64,
    /// Bytes from the start of the whole.
    pub(crate) base: usize,
    /// Bytes from the start of this on.
    pub(crate) capacity: usize,
    /// The first byte's address as far as its alignment is known: zero for buffer objects that the driver aligns.
    pub(crate) address: usize,
    /// Where a buffer's whole lies for native commands, once that was found out.
    pub(crate) native: OnceLock<usize>,
    /// Parts that are mapped to the host.
    pub(crate) maps: OpenMaps,
    /// The entry in an allocator's books. Dropped last: what is gone there is really gone.
    lease: Option<Lease>,
}

enum Storage {
    Nothing,
    Buffer(handle::Mem),
    Pointer { address: NonNull<c_void>, kind: MemoryKind, usm: Option<Usm>, owner: Owner },
}

/// Who frees a pointer's memory, and how.
enum Owner {
    User,
    Usm { usm: Usm, context: handle::Context },
    Svm { context: handle::Context },
    System { layout: Layout },
    Callbacks(Box<UserRelease>),
}

/// How bytes are given to kernels and commands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Binding {
    /// A buffer object, or null for nothing.
    Mem(cl_mem),
    /// An address that the extension's functions take.
    Usm(*mut c_void, Usm),
    /// An address that the functions for shared virtual memory take.
    Svm(*mut c_void),
}

// SAFETY: an address is given to OpenCL alone, which any thread may do; the memory behind it is freed once, by the last owner.
unsafe impl Send for Allocation {}
// SAFETY: as above; what changes while an allocation is shared is behind a lock.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// No bytes, so no object, which OpenCL would refuse.
    pub(crate) fn empty() -> Self {
        Self {
            storage: Storage::Nothing,
            serial: next_serial(),
            identity: 0,
            base: 0,
            capacity: 0,
            address: 0,
            maps: OpenMaps::default(),
            native: OnceLock::new(),
            lease: None,
        }
    }

    /// New memory of a kind that the device has; `apart` from other memory of the process even where it would be faster not to be.
    pub(crate) fn create(
        context: &handle::Context,
        device: &OpenClDevice,
        kind: MemoryKind,
        bytes: usize,
        apart: bool,
        what: &str,
    ) -> Result<Self> {
        if bytes == 0 {
            return Ok(Self::empty());
        }
        // Some drivers make memory of any size and fail at its first use.
        if bytes as u64 > device.memory_bytes() {
            return Err(Error::OutOfMemory { what: what.into(), bytes });
        }
        let failed = |call: &str, code| match code {
            // Drivers also call memory that is larger than they can make of invalid size.
            cl3::error_codes::CL_INVALID_BUFFER_SIZE => Error::OutOfMemory { what: what.into(), bytes },
            code if call::is_out_of_memory(code) => Error::OutOfMemory { what: what.into(), bytes },
            code => call::error(what, call, code),
        };
        let usm = device.usm();
        // Elements of four bits are stored through the whole word around them.
        let (asked, bytes) = (bytes, bytes.checked_next_multiple_of(WORD).unwrap_or(bytes));
        let pointer = |address, owner| Ok(Self::pointer(address, kind, usm, owner, asked));
        match kind {
            MemoryKind::Buffer => {
                #[cfg(target_os = "linux")]
                if device.kind() == DeviceKind::Cpu
                    && !apart
                    && let Some(mem) = crate::memory::huge_pages::buffer(context, bytes)
                {
                    let mem = mem?;
                    let identity = mem.raw().addr() as u64;
                    return Ok(Self::adopt(mem, identity, 0, asked));
                }
                // SAFETY: a live context; no host memory is passed.
                let raw = unsafe {
                    cl3::memory::create_buffer(context.raw(), CL_MEM_READ_WRITE, bytes, ptr::null_mut())
                }
                .map_err(|code| failed("clCreateBuffer", code))?;
                // SAFETY: the driver returned this object with one reference for the caller.
                let mem = unsafe { handle::Mem::from_owned(raw) }?;
                Ok(Self::adopt(mem, raw.addr() as u64, 0, asked))
            }
            MemoryKind::UsmHost | MemoryKind::UsmDevice | MemoryKind::UsmShared => {
                let Some(usm) = usm else { return Err(no_kind(kind)) };
                let owner = Owner::Usm { usm, context: context.try_clone()? };
                // SAFETY: the context has the device.
                let address = unsafe { usm.allocate(kind, context.raw(), device.raw_device(), bytes, 0) }
                    .map_err(|code| failed("clMemAllocINTEL", code))?;
                pointer(address, owner)
            }
            MemoryKind::Svm | MemoryKind::SvmFine => {
                let fine = if kind == MemoryKind::SvmFine { CL_MEM_SVM_FINE_GRAIN_BUFFER } else { 0 };
                let owner = Owner::Svm { context: context.try_clone()? };
                // SAFETY: a live context.
                let raw =
                    unsafe { cl3::memory::svm_alloc(context.raw(), CL_MEM_READ_WRITE | fine, bytes, 0) };
                let raw = match raw {
                    // The driver returned no memory and cannot say why.
                    Err(cl3::error_codes::CL_INVALID_VALUE) => {
                        return Err(Error::OutOfMemory { what: what.into(), bytes });
                    }
                    raw => raw.map_err(|code| failed("clSVMAlloc", code))?,
                };
                let address = NonNull::new(raw).ok_or(Error::OutOfMemory { what: what.into(), bytes })?;
                pointer(address, owner)
            }
            MemoryKind::System => {
                let out_of_memory = || Error::OutOfMemory { what: what.into(), bytes };
                anydnn_backend::check_host_memory(bytes, || what.to_owned())?;
                let layout =
                    Layout::from_size_align(bytes, NATURAL_ALIGNMENT).map_err(|_| out_of_memory())?;
                // SAFETY: the layout has bytes.
                let address =
                    NonNull::new(unsafe { alloc_zeroed(layout) }.cast()).ok_or_else(out_of_memory)?;
                pointer(address, Owner::System { layout })
            }
            _ => Err(no_kind(kind)),
        }
    }

    /// A buffer object with `capacity` bytes that lies `base` bytes into the whole called `identity`.
    pub(crate) fn adopt(mem: handle::Mem, identity: u64, base: usize, capacity: usize) -> Self {
        Self {
            storage: Storage::Buffer(mem),
            serial: next_serial(),
            identity,
            base,
            capacity,
            address: 0,
            maps: OpenMaps::default(),
            native: OnceLock::new(),
            lease: None,
        }
    }

    /// The same as a buffer object over the user's host memory at an address, which the device may use in place.
    pub(crate) fn over_host_memory(self, address: usize) -> Self {
        Self { address, ..self }
    }

    /// Memory of the user's, who frees it.
    pub(crate) fn borrow(
        address: NonNull<c_void>,
        kind: MemoryKind,
        usm: Option<Usm>,
        capacity: usize,
    ) -> Self {
        Self::pointer(address, kind, usm, Owner::User, capacity)
    }

    /// Memory from the user's allocator, which gets it back.
    pub(crate) fn of_user(
        address: NonNull<c_void>,
        kind: MemoryKind,
        usm: Option<Usm>,
        release: UserRelease,
        capacity: usize,
    ) -> Self {
        Self::pointer(address, kind, usm, Owner::Callbacks(Box::new(release)), capacity)
    }

    fn pointer(
        address: NonNull<c_void>,
        kind: MemoryKind,
        usm: Option<Usm>,
        owner: Owner,
        capacity: usize,
    ) -> Self {
        let base = address.as_ptr().expose_provenance();
        let storage = Storage::Pointer { address, kind, usm, owner };
        Self {
            storage,
            serial: next_serial(),
            identity: ADDRESS_SPACE,
            base,
            capacity,
            address: base,
            maps: OpenMaps::default(),
            native: OnceLock::new(),
            lease: None,
        }
    }

    /// The same, in an allocator's books.
    pub(crate) fn leased(self, lease: Lease) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// Notes in the books that it came back; false if it did so already, or is in none.
    pub(crate) fn park(&self) -> bool {
        self.lease.as_ref().is_some_and(Lease::park)
    }

    /// Notes in the books that it is handed out again.
    pub(crate) fn reuse(&self) {
        if let Some(lease) = &self.lease {
            lease.reuse();
        }
    }

    /// The kind of memory; buffers for nothing.
    pub(crate) fn kind(&self) -> MemoryKind {
        match &self.storage {
            Storage::Nothing | Storage::Buffer(_) => MemoryKind::Buffer,
            Storage::Pointer { kind, .. } => *kind,
        }
    }

    /// Whether it came from the user's allocator.
    pub(crate) fn is_users(&self) -> bool {
        matches!(&self.storage, Storage::Pointer { owner: Owner::Callbacks(_), .. })
    }

    /// Tells the user's allocator which command used it last.
    pub(crate) fn set_last_use(&self, event: handle::Event) {
        if let Storage::Pointer { owner: Owner::Callbacks(release), .. } = &self.storage {
            release.set_after(event);
        }
    }

    /// Whether commands must hold it until they have ended: OpenCL keeps buffer objects for them, but neither what pointers lead to nor
    /// a pool from reusing.
    pub(crate) fn is_freed_with_last_owner(&self) -> bool {
        match &self.storage {
            Storage::Nothing | Storage::Buffer(_) => self.lease.is_some(),
            Storage::Pointer { owner, .. } => !matches!(owner, Owner::User),
        }
    }

    /// How commands take it.
    pub(crate) fn binding(&self) -> Binding {
        match &self.storage {
            Storage::Nothing => Binding::Mem(ptr::null_mut()),
            Storage::Buffer(mem) => Binding::Mem(mem.raw()),
            Storage::Pointer { address, kind: MemoryKind::Svm | MemoryKind::SvmFine, .. } => {
                Binding::Svm(address.as_ptr())
            }
            Storage::Pointer { address, usm: Some(usm), .. } => Binding::Usm(address.as_ptr(), *usm),
            Storage::Pointer { address, .. } => Binding::Svm(address.as_ptr()),
        }
    }

    /// The buffer object that this one is or is a part of, and where it begins in it; none for other kinds and for nothing.
    pub(crate) fn whole(&self) -> (Option<cl_mem>, usize) {
        match &self.storage {
            Storage::Buffer(_) => (Some(ptr::with_exposed_provenance_mut(self.identity as usize)), self.base),
            Storage::Nothing | Storage::Pointer { .. } => (None, 0),
        }
    }

    /// The buffer object; null for other kinds and for nothing.
    pub(crate) fn raw_mem(&self) -> cl_mem {
        match &self.storage {
            Storage::Buffer(mem) => mem.raw(),
            Storage::Nothing | Storage::Pointer { .. } => ptr::null_mut(),
        }
    }

    /// The first byte's address; null for other kinds and for nothing.
    pub(crate) fn raw_pointer(&self) -> *mut c_void {
        match &self.storage {
            Storage::Pointer { address, .. } => address.as_ptr(),
            Storage::Nothing | Storage::Buffer(_) => ptr::null_mut(),
        }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        let Self::Pointer { address, owner, .. } = self else { return };
        if handle::is_exiting() {
            return;
        }
        let freed = match owner {
            Owner::User => return,
            Owner::Callbacks(release) => return release.free(*address),
            // SAFETY: allocated in this context and freed once, here; commands hold the allocation until they have ended.
            Owner::Usm { usm, context } => unsafe { usm.free(context.raw(), *address) },
            // SAFETY: as above.
            Owner::Svm { context } => unsafe { cl3::memory::svm_free(context.raw(), address.as_ptr()) },
            Owner::System { layout } => {
                // SAFETY: as above, with the same layout.
                unsafe { dealloc(address.as_ptr().cast(), *layout) };
                return;
            }
        };
        if let Err(code) = freed {
            tracing::warn!(code, "pointer memory was not freed");
        }
    }
}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocation")
            .field("binding", &self.binding())
            .field("base", &self.base)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

fn next_serial() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The error for a kind that a device does not have.
pub(crate) fn no_kind(kind: MemoryKind) -> Error {
    Error::unsupported(
        format!("{kind} memory"),
        "the device has none; its capabilities list its kinds of memory",
    )
}

//! Pointer memory as a user's program makes it: with the driver's functions, looked up by name, and freed by the program itself.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::ptr;

use anydnn_backend::{Engine, MemoryDesc, MemoryKind};
use anydnn_opencl::{OpenClEngine, OpenClMemory};
use cl3::types::{cl_bool, cl_command_queue, cl_context, cl_device_id, cl_event, cl_int, cl_uint};

type AllocHost = unsafe extern "C" fn(cl_context, *const u64, usize, cl_uint, *mut cl_int) -> *mut c_void;
type AllocDevice =
    unsafe extern "C" fn(cl_context, cl_device_id, *const u64, usize, cl_uint, *mut cl_int) -> *mut c_void;
type Free = unsafe extern "C" fn(cl_context, *mut c_void) -> cl_int;
type Memcpy = unsafe extern "C" fn(
    cl_command_queue,
    cl_bool,
    *mut c_void,
    *const c_void,
    usize,
    cl_uint,
    *const cl_event,
    *mut cl_event,
) -> cl_int;

/// Memory of the test's own, with room for any alignment; freed when dropped.
#[derive(Debug)]
pub struct UserMemory {
    pub kind: MemoryKind,
    pub bytes: usize,
    address: *mut c_void,
    engine: OpenClEngine,
}

impl UserMemory {
    /// Memory of a kind that the device has.
    pub fn new(engine: &OpenClEngine, kind: MemoryKind, bytes: usize) -> Self {
        let (context, device) = (engine.raw_context(), engine.raw_device());
        let mut code = 0;
        let address = unsafe {
            match kind {
                MemoryKind::UsmHost => {
                    let alloc: AllocHost = transmute(function(engine, c"clHostMemAllocINTEL"));
                    alloc(context, ptr::null(), bytes, 0, &raw mut code)
                }
                MemoryKind::UsmDevice => {
                    let alloc: AllocDevice = transmute(function(engine, c"clDeviceMemAllocINTEL"));
                    alloc(context, device, ptr::null(), bytes, 0, &raw mut code)
                }
                MemoryKind::UsmShared => {
                    let alloc: AllocDevice = transmute(function(engine, c"clSharedMemAllocINTEL"));
                    alloc(context, device, ptr::null(), bytes, 0, &raw mut code)
                }
                MemoryKind::Svm | MemoryKind::SvmFine => {
                    let fine = cl3::memory::CL_MEM_SVM_FINE_GRAIN_BUFFER;
                    let fine = if kind == MemoryKind::SvmFine { fine } else { 0 };
                    let flags = cl3::memory::CL_MEM_READ_WRITE | fine;
                    cl3::memory::svm_alloc(context, flags, bytes, 0).unwrap()
                }
                MemoryKind::System => alloc_zeroed(layout(bytes)).cast(),
                kind => panic!("{kind} memory has no address"),
            }
        };
        assert!(code == 0 && !address.is_null(), "{kind} memory: {code}");
        Self { kind, bytes, address, engine: engine.clone() }
    }

    /// One of every kind of pointer that the device takes.
    pub fn of_every_kind(engine: &OpenClEngine, bytes: usize) -> Vec<Self> {
        pointer_kinds(engine).into_iter().map(|kind| Self::new(engine, kind, bytes)).collect()
    }

    pub fn pointer(&self) -> *mut c_void {
        self.address
    }

    /// The library's view of it from byte `offset` on.
    pub fn wrap(&self, desc: &MemoryDesc, offset: usize) -> OpenClMemory {
        self.wrap_on(&self.engine, desc, offset)
    }

    /// The same on another engine of the context.
    pub fn wrap_on(&self, engine: &OpenClEngine, desc: &MemoryDesc, offset: usize) -> OpenClMemory {
        assert!(offset + desc.size() <= self.bytes);
        let address = self.address.wrapping_byte_add(offset);
        match self.kind {
            MemoryKind::Svm | MemoryKind::SvmFine => unsafe { OpenClMemory::from_svm(engine, desc, address) },
            _ => unsafe { OpenClMemory::from_pointer(engine, desc, address) },
        }
        .unwrap()
    }

    /// All bytes, read past the library.
    pub fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        self.transfer(bytes.as_mut_ptr().cast(), self.address);
        bytes
    }

    /// Sets all bytes past the library.
    pub fn write(&self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.bytes);
        self.transfer(self.address, bytes.as_ptr().cast());
    }

    fn transfer(&self, to: *mut c_void, from: *const c_void) {
        if self.kind == MemoryKind::System {
            unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast(), self.bytes) };
            return;
        }
        let queue = super::queue(&self.engine, self.engine.raw_context(), 0);
        unsafe {
            if matches!(self.kind, MemoryKind::Svm | MemoryKind::SvmFine) {
                let event =
                    cl3::command_queue::enqueue_svm_mem_cpy(queue, 1, to, from, self.bytes, 0, ptr::null())
                        .unwrap();
                super::release_event(event);
            } else {
                let memcpy: Memcpy = transmute(function(&self.engine, c"clEnqueueMemcpyINTEL"));
                let code = memcpy(queue, 1, to, from, self.bytes, 0, ptr::null(), ptr::null_mut());
                assert_eq!(code, 0);
            }
            cl3::command_queue::finish(queue).unwrap();
            super::release_queue(queue);
        }
    }
}

impl Drop for UserMemory {
    fn drop(&mut self) {
        let context = self.engine.raw_context();
        unsafe {
            match self.kind {
                MemoryKind::Svm | MemoryKind::SvmFine => {
                    cl3::memory::svm_free(context, self.address).unwrap();
                }
                MemoryKind::System => dealloc(self.address.cast(), layout(self.bytes)),
                _ => {
                    let free: Free = transmute(function(&self.engine, c"clMemFreeINTEL"));
                    // Would fail if somebody else had freed it.
                    assert_eq!(free(context, self.address), 0);
                }
            }
        }
    }
}

/// The kinds of pointers that the device takes.
pub fn pointer_kinds(engine: &OpenClEngine) -> Vec<MemoryKind> {
    let mut kinds = engine.capabilities().memory_kinds.clone();
    kinds.retain(|kind| kind.is_pointer());
    kinds
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes.max(1), 64).unwrap()
}

/// An extension's function on the engine's platform.
fn function(engine: &OpenClEngine, name: &CStr) -> *mut c_void {
    let platform =
        cl3::device::get_device_data(engine.raw_device(), cl3::device::CL_DEVICE_PLATFORM).unwrap();
    let platform = usize::from_ne_bytes(platform.try_into().unwrap());
    let library = cl3::load_library().as_ref().unwrap();
    let platform = ptr::with_exposed_provenance_mut(platform);
    let address = library.clGetExtensionFunctionAddressForPlatform(platform, name.as_ptr()).unwrap();
    assert!(!address.is_null(), "the platform has no {name:?}");
    address
}

//! A device in a context with a queue and kernels, and memory of every kind.

use std::ffi::{CStr, CString, c_void};
use std::ptr;

use cl3::command_queue as cl;
use cl3::memory::{CL_MEM_COPY_HOST_PTR, CL_MEM_READ_WRITE, create_buffer, release_mem_object};
use cl3::types::{
    CL_BLOCKING, cl_command_queue, cl_context, cl_device_id, cl_event, cl_kernel, cl_mem, cl_platform_id,
    cl_program,
};

const ALL: u64 = cl3::device::CL_DEVICE_TYPE_ALL;

const SOURCE: &str = "
kernel void read_at(global const float* a, int i, global float* result) { *result = a[i]; }
kernel void write_at(global float* a, int i, global float* result) { a[i] = 1.5f; *result = 1; }
kernel void fill(global float* a) { a[get_global_id(0)] = get_global_id(0); }
kernel void add(global const float* a, global const float* b, global float* c) {
    size_t i = get_global_id(0);
    c[i] = a[i] + b[i];
}
kernel void keep_address(global float* a, global ulong* address) { *address = (ulong)a; }
kernel void read_kept(global const ulong* address, int i, global float* result) {
    *result = ((global float*)*address)[i];
}
kernel void row_sums(global const float* matrix, global float* sums, int columns) {
    size_t row = get_global_id(0);
    float sum = 0;
    for (int i = 0; i < columns; i++) sum += matrix[row * columns + i];
    sums[row] = sum;
}
";

/// The short names of the platforms with devices.
pub(crate) fn platforms() -> Vec<String> {
    let ids = cl3::platform::get_platform_ids().unwrap_or_default();
    let with_devices = ids.into_iter().filter(|id| cl3::device::get_device_ids(*id, ALL).is_ok());
    with_devices.map(alias).collect()
}

fn alias(platform: cl_platform_id) -> String {
    let name = cl3::platform::get_platform_data(platform, cl3::platform::CL_PLATFORM_NAME).unwrap();
    let name = String::from_utf8_lossy(&name).into_owned();
    for (part, alias) in [("Portable", "pocl"), ("Intel", "intel"), ("NVIDIA", "nvidia")] {
        if name.contains(part) {
            return alias.into();
        }
    }
    name.split_whitespace().next().unwrap_or("unknown").to_lowercase()
}

/// A device in a context.
pub(crate) struct Rig {
    pub(crate) platform: cl_platform_id,
    pub(crate) device: cl_device_id,
    pub(crate) context: cl_context,
    pub(crate) queue: cl_command_queue,
    pub(crate) program: cl_program,
}

impl Rig {
    pub(crate) fn new(platform: &str) -> Self {
        let ids = cl3::platform::get_platform_ids().unwrap();
        let platform = ids.into_iter().find(|id| alias(*id) == platform).unwrap();
        let device = cl3::device::get_device_ids(platform, ALL).unwrap()[0];
        let context = cl3::context::create_context(&[device], ptr::null(), None, ptr::null_mut()).unwrap();
        let end = [0];
        let queue =
            unsafe { cl::create_command_queue_with_properties(context, device, end.as_ptr()) }.unwrap();
        let program = cl3::program::create_program_with_source(context, &[SOURCE]).unwrap();
        cl3::program::build_program(program, &[device], c"", None, ptr::null_mut()).unwrap();
        Self { platform, device, context, queue, program }
    }

    pub(crate) fn kernel(&self, name: &str) -> cl_kernel {
        cl3::kernel::create_kernel(self.program, &CString::new(name).unwrap()).unwrap()
    }

    pub(crate) fn set_value<T: Copy>(&self, kernel: cl_kernel, index: u32, value: T) {
        let bytes = (&raw const value).cast();
        unsafe { cl3::kernel::set_kernel_arg(kernel, index, size_of::<T>(), bytes) }.unwrap();
    }

    pub(crate) fn enqueue(&self, kernel: cl_kernel, items: usize) {
        self.enqueue_after(kernel, items, &[]);
    }

    pub(crate) fn enqueue_after(&self, kernel: cl_kernel, items: usize, wait: &[cl_event]) {
        let list = if wait.is_empty() { ptr::null() } else { wait.as_ptr() };
        let local = ptr::null();
        let event = unsafe {
            let count = wait.len() as u32;
            cl::enqueue_nd_range_kernel(
                self.queue,
                kernel,
                1,
                ptr::null(),
                &raw const items,
                local,
                count,
                list,
            )
        };
        self.release_event(event.unwrap());
    }

    pub(crate) fn finish(&self) {
        cl::finish(self.queue).unwrap();
    }

    pub(crate) fn release_event(&self, event: cl_event) {
        unsafe { cl3::event::release_event(event) }.unwrap();
    }

    pub(crate) fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
        let library = cl3::load_library().as_ref().unwrap();
        let address = library.clGetExtensionFunctionAddressForPlatform(self.platform, name.as_ptr()).unwrap();
        (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
    }

    pub(crate) fn has(&self, extension: &str) -> bool {
        let info = cl3::device::CL_DEVICE_EXTENSIONS;
        let extensions = cl3::device::get_device_data(self.device, info).unwrap();
        String::from_utf8_lossy(&extensions).contains(extension)
    }

    pub(crate) fn release(self) {
        unsafe {
            cl3::program::release_program(self.program).unwrap();
            cl::release_command_queue(self.queue).unwrap();
            cl3::context::release_context(self.context).unwrap();
        }
    }
}

type AllocHost = unsafe extern "C" fn(cl_context, *const u64, usize, u32, *mut i32) -> *mut c_void;
type AllocOn =
    unsafe extern "C" fn(cl_context, cl_device_id, *const u64, usize, u32, *mut i32) -> *mut c_void;
type Free = unsafe extern "C" fn(cl_context, *mut c_void) -> i32;
type SetArg = unsafe extern "C" fn(cl_kernel, u32, *const c_void) -> i32;
type WithProperties =
    unsafe extern "C" fn(cl_context, *const u64, u64, usize, *mut c_void, *mut i32) -> cl_mem;

/// Memory of some kind.
#[derive(Debug)]
pub(crate) enum Memory {
    Buffer(cl_mem),
    /// A buffer and a part of it.
    Sub(cl_mem, cl_mem),
    Svm(*mut c_void),
    Usm(*mut c_void),
}

/// Where the part of [`Memory::Sub`] begins.
pub(crate) const PART: usize = 1024;

impl Memory {
    pub(crate) fn new(rig: &Rig, kind: &str, bytes: usize) -> Self {
        let none = ptr::null_mut();
        let context = rig.context;
        let mut code = 0;
        let plain = || unsafe { create_buffer(context, CL_MEM_READ_WRITE, bytes, none) }.unwrap();
        let memory = match kind {
            "buffer" => Self::Buffer(plain()),
            "copy" => {
                let mut contents = vec![7_u8; bytes];
                let flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
                let from = contents.as_mut_ptr().cast();
                Self::Buffer(unsafe { create_buffer(context, flags, bytes, from) }.unwrap())
            }
            "properties" => {
                let create: WithProperties = rig.function(c"clCreateBufferWithPropertiesINTEL").unwrap();
                let flags = CL_MEM_READ_WRITE;
                Self::Buffer(unsafe {
                    create(context, ptr::null(), flags, bytes, ptr::null_mut(), &raw mut code)
                })
            }
            "sub" => {
                let whole = plain();
                let region = [PART, bytes - PART];
                let kind = cl3::memory::CL_BUFFER_CREATE_TYPE_REGION;
                let part = unsafe { cl3::memory::create_sub_buffer(whole, 0, kind, region.as_ptr().cast()) };
                Self::Sub(whole, part.unwrap())
            }
            "svm" => Self::Svm(
                unsafe { cl3::memory::svm_alloc(context, CL_MEM_READ_WRITE, bytes, 0) }.unwrap().cast(),
            ),
            "usm_host" => unsafe {
                let alloc: AllocHost = rig.function(c"clHostMemAllocINTEL").unwrap();
                Self::Usm(alloc(context, ptr::null(), bytes, 0, &raw mut code))
            },
            "usm_device" => unsafe {
                let alloc: AllocOn = rig.function(c"clDeviceMemAllocINTEL").unwrap();
                Self::Usm(alloc(context, rig.device, ptr::null(), bytes, 0, &raw mut code))
            },
            "usm_shared" => unsafe {
                let alloc: AllocOn = rig.function(c"clSharedMemAllocINTEL").unwrap();
                Self::Usm(alloc(context, rig.device, ptr::null(), bytes, 0, &raw mut code))
            },
            other => panic!("no memory of kind {other}"),
        };
        assert_eq!(code, 0, "{kind}");
        memory
    }

    /// The kinds of a platform's device.
    pub(crate) fn kinds(platform: &str) -> Vec<&'static str> {
        let mut kinds = vec!["buffer", "copy", "sub"];
        match platform {
            "intel" => kinds.extend(["svm", "usm_host", "usm_device", "usm_shared"]),
            "pocl" | "nvidia" => kinds.push("svm"),
            _ => {}
        }
        kinds
    }

    pub(crate) fn mem(&self) -> cl_mem {
        match self {
            Self::Buffer(mem) | Self::Sub(_, mem) => *mem,
            Self::Svm(_) | Self::Usm(_) => panic!("no memory object"),
        }
    }

    pub(crate) fn set_arg(&self, rig: &Rig, kernel: cl_kernel, index: u32) {
        match self {
            Self::Buffer(mem) | Self::Sub(_, mem) => rig.set_value(kernel, index, *mem),
            Self::Svm(pointer) => {
                unsafe { cl3::kernel::set_kernel_arg_svm_pointer(kernel, index, *pointer) }.unwrap();
            }
            Self::Usm(pointer) => {
                let set: SetArg = rig.function(c"clSetKernelArgMemPointerINTEL").unwrap();
                assert_eq!(unsafe { set(kernel, index, *pointer) }, 0);
            }
        }
    }

    /// The first number of a buffer.
    pub(crate) fn read(&self, rig: &Rig) -> f32 {
        let mut bytes = [0_u8; 4];
        self.read_bytes(rig, &mut bytes);
        f32::from_ne_bytes(bytes)
    }

    /// The first bytes of a buffer.
    pub(crate) fn read_bytes(&self, rig: &Rig, bytes: &mut [u8]) {
        let (to, size) = (bytes.as_mut_ptr().cast(), bytes.len());
        let event = unsafe {
            cl::enqueue_read_buffer(rig.queue, self.mem(), CL_BLOCKING, 0, size, to, 0, ptr::null())
        };
        rig.release_event(event.unwrap());
    }

    /// Sets the first bytes of a buffer.
    pub(crate) fn write(&self, rig: &Rig, bytes: &[u8]) {
        let from = bytes.as_ptr().cast_mut().cast();
        let event = unsafe {
            cl::enqueue_write_buffer(rig.queue, self.mem(), CL_BLOCKING, 0, bytes.len(), from, 0, ptr::null())
        };
        rig.release_event(event.unwrap());
    }

    pub(crate) fn map(&self, rig: &Rig, bytes: usize) -> *mut c_void {
        let mut pointer = ptr::null_mut();
        let flags = cl3::memory::CL_MAP_READ | cl3::memory::CL_MAP_WRITE;
        let event = unsafe {
            cl::enqueue_map_buffer(
                rig.queue,
                self.mem(),
                CL_BLOCKING,
                flags,
                0,
                bytes,
                &mut pointer,
                0,
                ptr::null(),
            )
        };
        rig.release_event(event.unwrap());
        pointer
    }

    pub(crate) fn unmap(&self, rig: &Rig, pointer: *mut c_void) {
        let event = unsafe { cl::enqueue_unmap_mem_object(rig.queue, self.mem(), pointer, 0, ptr::null()) };
        rig.release_event(event.unwrap());
        rig.finish();
    }

    pub(crate) fn release(&self, rig: &Rig) {
        match self {
            Self::Buffer(mem) => unsafe { release_mem_object(*mem) }.unwrap(),
            Self::Sub(whole, part) => unsafe {
                release_mem_object(*part).unwrap();
                release_mem_object(*whole).unwrap();
            },
            Self::Svm(_) | Self::Usm(_) => assert_eq!(self.free_again(rig), 0),
        }
    }

    /// Frees memory that may have been freed, and gives the code.
    pub(crate) fn free_again(&self, rig: &Rig) -> i32 {
        match self {
            Self::Svm(pointer) => {
                unsafe { cl3::memory::svm_free(rig.context, *pointer) }.unwrap();
                0
            }
            Self::Usm(pointer) => unsafe {
                let free: Free = rig.function(c"clMemFreeINTEL").unwrap();
                free(rig.context, *pointer)
            },
            Self::Buffer(_) | Self::Sub(..) => panic!("no pointer"),
        }
    }
}

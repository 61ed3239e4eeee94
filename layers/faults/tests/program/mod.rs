//! Programs that use OpenCL as programs do, right and wrong.

use std::ffi::{CStr, c_void};
use std::ptr;

use anydnn_faults::{Control, Fault, documented_codes};
use cl3::command_queue as cl;
use cl3::types::{CL_BLOCKING, cl_command_queue, cl_context, cl_device_id, cl_event, cl_mem, cl_platform_id};

/// Names the scenario and the platform that a child runs.
pub(crate) const SCENARIO: &str = "ANYDNN_FAULTS_SCENARIO";

/// A name, and a program that gets the platform's short name.
type Scenario = (&'static str, fn(&str));

/// What a child can run; those that begin with `env` need settings.
pub(crate) const SCENARIOS: &[Scenario] = &[
    ("counts", counts),
    ("once_and_always", once_and_always),
    ("ledger", ledger),
    ("kept_objects", kept_objects),
    ("violations", violations),
    ("wait_lists", wait_lists),
    ("every_code", every_code),
    ("mapping", mapping),
    ("svm", svm),
    ("usm", usm),
    ("sub_devices", sub_devices),
    ("kernels", kernels),
    ("threads", threads),
    ("env_faults", env_faults),
    ("env_wrong", env_wrong),
    ("env_wrong_setting", env_wrong_setting),
    ("env_failed_release", env_failed_release),
    ("env_readme", env_readme),
];

/// The short names of the platforms with devices.
pub(crate) fn platforms() -> Vec<String> {
    let ids = cl3::platform::get_platform_ids().unwrap_or_default();
    let with_devices = ids.into_iter().filter(|id| cl3::device::get_device_ids(*id, ALL).is_ok());
    with_devices.map(alias).collect()
}

const ALL: u64 = cl3::device::CL_DEVICE_TYPE_ALL;

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
struct Rig {
    platform: cl_platform_id,
    device: cl_device_id,
    context: cl_context,
}

impl Rig {
    fn new(platform: &str) -> Self {
        let ids = cl3::platform::get_platform_ids().unwrap();
        let platform = ids.into_iter().find(|id| alias(*id) == platform).unwrap();
        let device = cl3::device::get_device_ids(platform, ALL).unwrap()[0];
        let context = cl3::context::create_context(&[device], ptr::null(), None, ptr::null_mut()).unwrap();
        Self { platform, device, context }
    }

    fn buffer(&self) -> Result<cl_mem, i32> {
        unsafe {
            cl3::memory::create_buffer(self.context, cl3::memory::CL_MEM_READ_WRITE, 64, ptr::null_mut())
        }
    }

    fn queue(&self) -> cl_command_queue {
        let end = [0];
        unsafe { cl::create_command_queue_with_properties(self.context, self.device, end.as_ptr()) }.unwrap()
    }

    fn write(queue: cl_command_queue, mem: cl_mem, wait: &[cl_event]) -> Result<cl_event, i32> {
        let bytes = [7_u8; 64];
        let list = if wait.is_empty() { ptr::null() } else { wait.as_ptr() };
        let host = bytes.as_ptr().cast_mut().cast();
        unsafe { cl::enqueue_write_buffer(queue, mem, CL_BLOCKING, 0, 64, host, wait.len() as u32, list) }
    }

    fn extension<F: Copy>(&self, name: &CStr) -> Option<F> {
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
        let library = cl3::load_library().as_ref().unwrap();
        let address = library.clGetExtensionFunctionAddressForPlatform(self.platform, name.as_ptr()).unwrap();
        (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
    }

    fn release(self) {
        unsafe { cl3::context::release_context(self.context) }.unwrap();
    }
}

fn release_mem(mem: cl_mem) -> Result<(), i32> {
    unsafe { cl3::memory::release_mem_object(mem) }
}

fn release_event(event: cl_event) {
    unsafe { cl3::event::release_event(event) }.unwrap();
}

fn release_queue(queue: cl_command_queue) {
    unsafe { cl::release_command_queue(queue) }.unwrap();
}

fn live(layer: &Control) -> Vec<(String, String, u64)> {
    layer.live().into_iter().map(|object| (object.kind, object.creator, object.references)).collect()
}

fn assert_live(layer: &Control, expected: &[(&str, &str, u64)]) {
    let expected: Vec<_> = expected.iter().map(|(k, c, n)| ((*k).to_owned(), (*c).to_owned(), *n)).collect();
    assert_eq!(live(layer), expected);
}

fn fault(pattern: &str, call: u64, code: i32, persistent: bool) -> Fault {
    Fault::new(pattern, call, code, persistent).unwrap()
}

/// The wrongs noted so far, which are then forgotten.
fn wrongs(layer: &Control) -> Vec<(String, String)> {
    let wrongs = layer.violations().into_iter().map(|v| (v.function, v.what)).collect();
    layer.reset();
    wrongs
}

fn wrong(function: &str, what: &str) -> (String, String) {
    (function.to_owned(), what.to_owned())
}

const TWICE: &str = "release without a reference";
const AFTER: &str = "use after release";

fn counts(platform: &str) {
    let rig = Rig::new(platform);
    let layer = Control::from_env().unwrap();
    assert_eq!(layer.count("clCreateContext"), 1);
    layer.reset();
    layer.start_trace();
    let mem = rig.buffer().unwrap();
    unsafe { cl3::memory::retain_mem_object(mem) }.unwrap();
    release_mem(mem).unwrap();
    release_mem(mem).unwrap();
    assert_eq!(layer.count("clReleaseMemObject"), 2);
    assert_eq!(layer.count("cl*MemObject"), 3);
    assert_eq!(layer.count("*"), 4);
    assert_eq!(layer.count("clFinish"), 0);
    assert_eq!(
        layer.trace(),
        ["clCreateBuffer", "clRetainMemObject", "clReleaseMemObject", "clReleaseMemObject"]
    );
    layer.reset();
    assert_eq!((layer.count("*"), layer.trace().len()), (0, 0));
    rig.release();
}

fn once_and_always(platform: &str) {
    let rig = Rig::new(platform);
    let layer = Control::from_env().unwrap();
    let attempts = |n: usize| -> Vec<Option<i32>> {
        let attempt = |_| rig.buffer().map(|mem| release_mem(mem).unwrap()).err();
        (0..n).map(attempt).collect()
    };
    layer.arm(&fault("clCreateBuffer", 2, -4, false));
    assert_eq!(attempts(4), [None, Some(-4), None, None]);
    layer.arm(&fault("clCreate*", 3, -6, true));
    assert_eq!(attempts(5), [None, None, Some(-6), Some(-6), Some(-6)]);
    let injected: Vec<_> = layer.injected().into_iter().map(|i| (i.call, i.code)).collect();
    assert_eq!(injected, [(2, -4), (7, -6), (8, -6), (9, -6)]);
    layer.disarm();
    assert_eq!(attempts(1), [None]);
    rig.release();
}

fn ledger(platform: &str) {
    let rig = Rig::new(platform);
    let layer = Control::from_env().unwrap();
    assert_live(&layer, &[("context", "clCreateContext", 1)]);
    let queue = rig.queue();
    let mem = rig.buffer().unwrap();
    unsafe { cl3::memory::retain_mem_object(mem) }.unwrap();
    let event = Rig::write(queue, mem, &[]).unwrap();
    let user = cl3::event::create_user_event(rig.context).unwrap();
    assert_live(
        &layer,
        &[
            ("context", "clCreateContext", 1),
            ("queue", "clCreateCommandQueueWithProperties", 1),
            ("memory object", "clCreateBuffer", 2),
            ("event", "clEnqueueWriteBuffer", 1),
            ("event", "clCreateUserEvent", 1),
        ],
    );
    cl3::event::set_user_event_status(user, 0).unwrap();
    for event in [event, user] {
        release_event(event);
    }
    release_mem(mem).unwrap();
    release_mem(mem).unwrap();
    release_queue(queue);
    assert_live(&layer, &[("context", "clCreateContext", 1)]);
    rig.release();
    assert_live(&layer, &[]);
    assert!(layer.violations().is_empty());
}

fn kept_objects(platform: &str) {
    let rig = Rig::new(platform);
    let layer = Control::from_env().unwrap();
    let queue = rig.queue();
    let context = rig.context;
    rig.release();
    // The queue keeps its context, so its handle may be asked for and used. Intel's driver refuses that by itself.
    let info = cl3::context::CL_CONTEXT_REFERENCE_COUNT;
    let asked = cl3::context::get_context_data(context, info);
    assert_eq!(asked.is_err(), platform == "intel");
    if unsafe { cl3::context::retain_context(context) }.is_ok() {
        unsafe { cl3::context::release_context(context) }.unwrap();
    }
    assert_eq!(wrongs(&layer), []);
    release_queue(queue);
    assert_eq!(cl3::context::get_context_data(context, info), Err(-34));
    assert_eq!(wrongs(&layer), [wrong("clGetContextInfo", AFTER)]);
}

fn violations(platform: &str) {
    let rig = Rig::new(platform);
    let layer = Control::from_env().unwrap();
    let mem = rig.buffer().unwrap();
    release_mem(mem).unwrap();
    assert_eq!(release_mem(mem), Err(-38));
    assert_eq!(unsafe { cl3::memory::retain_mem_object(mem) }, Err(-38));
    let queue = rig.queue();
    assert_eq!(Rig::write(queue, mem, &[]), Err(-38));
    let violation = layer.violations().remove(0);
    assert_eq!((violation.kind.as_str(), violation.creator.as_str()), ("memory object", "clCreateBuffer"));
    assert_eq!(violation.handle, mem.addr());
    assert_eq!(
        wrongs(&layer),
        [
            wrong("clReleaseMemObject", TWICE),
            wrong("clRetainMemObject", AFTER),
            wrong("clEnqueueWriteBuffer", AFTER),
        ]
    );
    release_queue(queue);
    assert_eq!(cl::finish(queue), Err(-36));
    assert_eq!(wrongs(&layer), [wrong("clFinish", AFTER)]);
    // An address that a driver uses again is a new object.
    for _ in 0..100 {
        release_mem(rig.buffer().unwrap()).unwrap();
    }
    assert_eq!(wrongs(&layer), []);
    rig.release();
    assert_live(&layer, &[]);
}

fn wait_lists(platform: &str) {
    let rig = Rig::new(platform);
    let layer = Control::from_env().unwrap();
    let (queue, mem) = (rig.queue(), rig.buffer().unwrap());
    let user = cl3::event::create_user_event(rig.context).unwrap();
    cl3::event::set_user_event_status(user, 0).unwrap();
    let event = Rig::write(queue, mem, &[user]).unwrap();
    release_event(user);
    assert_eq!(Rig::write(queue, mem, &[event, user]), Err(-57));
    assert_eq!(cl3::event::wait_for_events(&[event, user]), Err(-58));
    assert_eq!(wrongs(&layer), [wrong("clEnqueueWriteBuffer", AFTER), wrong("clWaitForEvents", AFTER)]);
    release_event(event);
    release_mem(mem).unwrap();
    release_queue(queue);
    rig.release();
    assert_live(&layer, &[]);
}

fn every_code(platform: &str) {
    let rig = Rig::new(platform);
    let layer = Control::from_env().unwrap();
    for persistent in [false, true] {
        for &code in documented_codes("clCreateBuffer") {
            layer.arm(&fault("clCreateBuffer", 1, code, persistent));
            assert_eq!(rig.buffer(), Err(code));
            layer.disarm();
        }
    }
    rig.release();
}

fn mapping(platform: &str) {
    let rig = Rig::new(platform);
    let layer = Control::from_env().unwrap();
    let (queue, mem) = (rig.queue(), rig.buffer().unwrap());
    let map = || {
        let mut pointer = ptr::null_mut();
        let flags = cl3::memory::CL_MAP_READ;
        let event = unsafe {
            cl::enqueue_map_buffer(queue, mem, CL_BLOCKING, flags, 0, 64, &mut pointer, 0, ptr::null())
        };
        event.map(|event| {
            release_event(event);
            pointer
        })
    };
    let unmap = |pointer| {
        let event = unsafe { cl::enqueue_unmap_mem_object(queue, mem, pointer, 0, ptr::null()) };
        event.map(release_event)
    };
    let before = layer.live();
    let pointer = map().unwrap();
    assert_eq!(layer.live().last().unwrap().kind, "mapped region");
    unmap(pointer).unwrap();
    assert_eq!(layer.live(), before);
    assert_eq!(unmap(pointer), Err(-30));
    assert_eq!(wrongs(&layer), [wrong("clEnqueueUnmapMemObject", TWICE)]);
    layer.arm(&fault("clEnqueueMapBuffer", 1, -12, false));
    assert_eq!(map(), Err(-12));
    // An unmapping that fails happens all the same, without an event.
    let pointer = map().unwrap();
    layer.arm(&fault("clEnqueueUnmapMemObject", 1, -6, false));
    assert_eq!(unmap(pointer), Err(-6));
    assert_eq!(layer.live(), before);
    cl::finish(queue).unwrap();
    release_mem(mem).unwrap();
    release_queue(queue);
    rig.release();
    assert_live(&layer, &[]);
}

fn svm(platform: &str) {
    let rig = Rig::new(platform);
    let layer = Control::from_env().unwrap();
    let alloc = || unsafe { cl3::memory::svm_alloc(rig.context, cl3::memory::CL_MEM_READ_WRITE, 64, 0) };
    let queue = rig.queue();
    let before = layer.live();
    let pointer = alloc().unwrap();
    assert_eq!(live(&layer).last().unwrap(), &("SVM allocation".into(), "clSVMAlloc".into(), 1));
    let flags = cl3::memory::CL_MAP_WRITE;
    let mapped = unsafe { cl::enqueue_svm_map(queue, CL_BLOCKING, flags, pointer, 64, 0, ptr::null()) };
    release_event(mapped.unwrap());
    assert_eq!(layer.live().last().unwrap().kind, "mapped SVM region");
    release_event(unsafe { cl::enqueue_svm_unmap(queue, pointer, 0, ptr::null()) }.unwrap());
    cl::finish(queue).unwrap();
    unsafe { cl3::memory::svm_free(rig.context, pointer) }.unwrap();
    assert_eq!(layer.live(), before);
    unsafe { cl3::memory::svm_free(rig.context, pointer) }.unwrap();
    assert_eq!(wrongs(&layer), [wrong("clSVMFree", TWICE)]);
    layer.arm(&fault("clSVMAlloc", 1, -5, false));
    assert!(alloc().is_err());
    let pointers = [alloc().unwrap().cast_const(), alloc().unwrap().cast_const()];
    let freed =
        unsafe { cl::enqueue_svm_free(queue, 2, pointers.as_ptr(), None, ptr::null_mut(), 0, ptr::null()) };
    release_event(freed.unwrap());
    cl::finish(queue).unwrap();
    assert_eq!(layer.live(), before);
    release_queue(queue);
    rig.release();
}

type Allocate = unsafe extern "C" fn(cl_context, *const u64, usize, u32, *mut i32) -> *mut c_void;
type AllocateOn =
    unsafe extern "C" fn(cl_context, cl_device_id, *const u64, usize, u32, *mut i32) -> *mut c_void;
type Free = unsafe extern "C" fn(cl_context, *mut c_void) -> i32;
type Fill = unsafe extern "C" fn(
    cl_command_queue,
    *mut c_void,
    *const c_void,
    usize,
    usize,
    u32,
    *const cl_event,
    *mut cl_event,
) -> i32;

fn usm(platform: &str) {
    let rig = Rig::new(platform);
    let layer = Control::from_env().unwrap();
    let extensions = cl3::device::get_device_data(rig.device, cl3::device::CL_DEVICE_EXTENSIONS).unwrap();
    let named = String::from_utf8_lossy(&extensions).contains("cl_intel_unified_shared_memory");
    let host = rig.extension::<Allocate>(c"clHostMemAllocINTEL");
    assert_eq!(host.is_some(), named, "the functions are there when the device names them");
    assert!(rig.extension::<Free>(c"clNoSuchFunction").is_none());
    let Some(host) = host else { return rig.release() };
    let device = rig.extension::<AllocateOn>(c"clDeviceMemAllocINTEL").unwrap();
    let shared = rig.extension::<AllocateOn>(c"clSharedMemAllocINTEL").unwrap();
    let free = rig.extension::<Free>(c"clMemFreeINTEL").unwrap();
    let blocking_free = rig.extension::<Free>(c"clMemBlockingFreeINTEL").unwrap();
    let fill = rig.extension::<Fill>(c"clEnqueueMemFillINTEL").unwrap();
    let before = layer.live();
    let mut code = 0;
    let pointers = unsafe {
        [
            host(rig.context, ptr::null(), 64, 0, &raw mut code),
            device(rig.context, rig.device, ptr::null(), 64, 0, &raw mut code),
            shared(rig.context, rig.device, ptr::null(), 64, 0, &raw mut code),
        ]
    };
    assert!(code == 0 && pointers.iter().all(|pointer| !pointer.is_null()));
    let usm = |creator: &str| ("USM allocation".to_owned(), creator.to_owned(), 1);
    assert_eq!(
        live(&layer)[1..],
        ["clHostMemAllocINTEL", "clDeviceMemAllocINTEL", "clSharedMemAllocINTEL"].map(usm)
    );
    let queue = rig.queue();
    let mut event = ptr::null_mut();
    let byte = [5_u8];
    let mut filled =
        || unsafe { fill(queue, pointers[0], byte.as_ptr().cast(), 1, 64, 0, ptr::null(), &raw mut event) };
    layer.arm(&fault("clEnqueueMemFillINTEL", 1, -59, false));
    assert_eq!((filled(), filled()), (-59, 0));
    assert_eq!(live(&layer).last().unwrap(), &("event".into(), "clEnqueueMemFillINTEL".into(), 1));
    cl3::event::wait_for_events(&[event]).unwrap();
    assert_eq!(unsafe { *pointers[0].cast::<[u8; 64]>() }, [5; 64], "the driver's own function was called");
    release_event(event);
    release_queue(queue);
    for pointer in &pointers[1..] {
        assert_eq!(unsafe { free(rig.context, *pointer) }, 0);
    }
    assert_eq!(unsafe { blocking_free(rig.context, pointers[0]) }, 0);
    assert_eq!(layer.live(), before);
    assert_eq!(unsafe { free(rig.context, pointers[1]) }, -30);
    assert_eq!(layer.count("clMemFreeINTEL"), 3);
    assert_eq!(wrongs(&layer), [wrong("clMemFreeINTEL", TWICE)]);
    layer.arm(&fault("clHostMemAllocINTEL", 1, -6, false));
    assert!(unsafe { host(rig.context, ptr::null(), 64, 0, &raw mut code) }.is_null());
    assert_eq!(code, -6);
    rig.release();
    assert_live(&layer, &[]);
}

fn sub_devices(platform: &str) {
    let rig = Rig::new(platform);
    let layer = Control::from_env().unwrap();
    let before = layer.live();
    let properties = [cl3::device::CL_DEVICE_PARTITION_EQUALLY, 1, 0]
        .map(|p| p as cl3::types::cl_device_partition_property);
    if let Ok(parts) = cl3::device::create_sub_devices(rig.device, &properties) {
        let made = layer.live();
        assert_eq!(made.len(), before.len() + parts.len());
        assert_eq!((made[1].kind.as_str(), made[1].creator.as_str()), ("sub-device", "clCreateSubDevices"));
        for part in parts {
            unsafe { cl3::device::release_device(part) }.unwrap();
        }
    }
    assert_eq!(layer.live(), before);
    // Whole devices are not counted.
    unsafe { cl3::device::release_device(rig.device) }.unwrap();
    unsafe { cl3::device::release_device(rig.device) }.unwrap();
    assert!(layer.violations().is_empty());
    rig.release();
}

fn kernels(platform: &str) {
    let rig = Rig::new(platform);
    let layer = Control::from_env().unwrap();
    let before = layer.live();
    let source = "kernel void a(global int *p) { p[0] = 1; } kernel void b(global int *p) { p[0] = 2; }";
    let program = cl3::program::create_program_with_source(rig.context, &[source]).unwrap();
    layer.arm(&fault("clBuildProgram", 1, -11, false));
    let build = || cl3::program::build_program(program, &[rig.device], c"", None, ptr::null_mut());
    assert_eq!((build(), build()), (Err(-11), Ok(())));
    let one = cl3::kernel::create_kernel(program, c"a").unwrap();
    let all = cl3::kernel::create_kernels_in_program(program).unwrap();
    assert_eq!(all.len(), 2);
    let kernels: Vec<_> = layer.live().into_iter().filter(|object| object.kind == "kernel").collect();
    assert_eq!(kernels.len(), 3);
    assert_eq!(kernels[2].creator, "clCreateKernelsInProgram");
    // A kernel keeps its program.
    unsafe { cl3::program::release_program(program) }.unwrap();
    let asked = cl3::program::get_program_data(program, cl3::program::CL_PROGRAM_NUM_KERNELS);
    assert_eq!(asked.is_err(), platform == "intel");
    assert!(layer.violations().is_empty());
    // A released buffer is no argument.
    let mem = rig.buffer().unwrap();
    let set = || unsafe { cl3::kernel::set_kernel_arg(one, 0, size_of::<cl_mem>(), (&raw const mem).cast()) };
    set().unwrap();
    release_mem(mem).unwrap();
    assert_eq!(set(), Err(-38));
    assert_eq!(wrongs(&layer), [wrong("clSetKernelArg", AFTER)]);
    for kernel in all.into_iter().chain([one]) {
        unsafe { cl3::kernel::release_kernel(kernel) }.unwrap();
    }
    assert_eq!(layer.live(), before);
    rig.release();
}

fn threads(platform: &str) {
    let rig = Rig::new(platform);
    let layer = Control::from_env().unwrap();
    let before = layer.live();
    layer.reset();
    let context = rig.context.addr();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                let context = ptr::with_exposed_provenance_mut(context);
                for _ in 0..1000 {
                    let flags = cl3::memory::CL_MEM_READ_WRITE;
                    let mem = unsafe { cl3::memory::create_buffer(context, flags, 64, ptr::null_mut()) };
                    let mem = mem.unwrap();
                    unsafe { cl3::memory::retain_mem_object(mem) }.unwrap();
                    release_mem(mem).unwrap();
                    release_mem(mem).unwrap();
                }
            });
        }
    });
    assert_eq!(layer.count("*"), 16_000);
    assert_eq!(layer.live(), before);
    assert!(layer.violations().is_empty(), "{}", layer.report());
    rig.release();
}

fn env_faults(platform: &str) {
    let rig = Rig::new(platform);
    let armed = std::env::var_os("ANYDNN_FAULTS").is_some();
    let made: Vec<_> = (0..3).map(|_| rig.buffer()).collect();
    assert_eq!(made[1].err(), armed.then_some(-4));
    let queue = rig.queue();
    let finished = [cl::finish(queue), cl::finish(queue)];
    assert_eq!(finished, if armed { [Err(-5); 2] } else { [Ok(()); 2] });
    for mem in made.into_iter().flatten() {
        release_mem(mem).unwrap();
    }
    release_queue(queue);
    rig.release();
}

fn env_wrong(platform: &str) {
    let rig = Rig::new(platform);
    let (lost, freed) = (rig.buffer().unwrap(), rig.buffer().unwrap());
    unsafe { cl3::memory::retain_mem_object(lost) }.unwrap();
    release_mem(freed).unwrap();
    assert_eq!(release_mem(freed), Err(-38));
    let info = cl3::memory::get_mem_object_data(freed, cl3::memory::CL_MEM_SIZE);
    assert_eq!(info, Err(-38));
    cl3::event::create_user_event(rig.context).unwrap();
}

fn env_wrong_setting(platform: &str) {
    let rig = Rig::new(platform);
    release_mem(rig.buffer().unwrap()).unwrap();
    rig.release();
}

fn env_failed_release(platform: &str) {
    let rig = Rig::new(platform);
    let mem = rig.buffer().unwrap();
    assert_eq!(release_mem(mem), Err(-5));
    rig.release();
}

fn env_readme(_platform: &str) {
    let platform = cl3::platform::get_platform_ids().unwrap()[0];
    let device = cl3::device::get_device_ids(platform, ALL).unwrap()[0];
    let context = cl3::context::create_context(&[device], ptr::null(), None, ptr::null_mut()).unwrap();
    let rig = Rig { platform, device, context };
    assert_eq!(rig.buffer(), Err(-4));
    let mem = rig.buffer().unwrap();
    release_mem(mem).unwrap();
    assert_eq!(release_mem(mem), Err(-38));
    cl3::event::create_user_event(rig.context).unwrap();
    rig.release();
}

//! Programs that use OpenCL as programs do, within their buffers and outside of them.

pub(crate) mod rig;
pub(crate) mod transparent;

use std::ffi::c_void;
use std::ptr;

use cl3::command_queue as cl;
use cl3::memory::{CL_MEM_READ_WRITE, create_buffer, release_mem_object};
use cl3::types::CL_BLOCKING;

use rig::{Memory, Rig};

/// Names what a child does: words with `:` between them, the platform's short name first.
pub(crate) const SCENARIO: &str = "ANYDNN_FENCE_SCENARIO";

/// The bytes of the memory in most scenarios.
pub(crate) const BYTES: usize = 1600;

/// Does what a child is asked for.
pub(crate) fn run(scenario: &str) {
    let words: Vec<&str> = scenario.split(':').collect();
    match words[..] {
        [platform, "read", memory, index] => access(platform, "read_at", memory, index),
        [platform, "write", memory, index] => access(platform, "write_at", memory, index),
        [platform, "released", memory] => released(platform, memory),
        [platform, "released_by_command"] => released_by_command(platform),
        [platform, "twice", memory] => twice(platform, memory),
        [platform, "own_handler"] => own_handler(platform),
        [platform, "host"] => host(platform),
        [platform, "large"] => large(platform),
        [platform, "recorded"] => recorded(platform),
        [platform, "unfinished"] => unfinished(platform),
        [platform, "late"] => late(platform),
        [platform, "transparent"] => transparent::print_all(platform),
        [platform, "readme"] => readme(platform),
        _ => panic!("no scenario {scenario}"),
    }
}

/// Reads or writes one element of new memory with a kernel, by index from the start of what the kernel gets.
fn access(platform: &str, kernel: &str, memory: &str, index: &str) {
    let rig = Rig::new(platform);
    let memory = Memory::new(&rig, memory, BYTES);
    let result = Memory::new(&rig, "buffer", 4);
    let kernel = rig.kernel(kernel);
    let index: i32 = index.parse().unwrap();
    memory.set_arg(&rig, kernel, 0);
    rig.set_value(kernel, 1, index);
    result.set_arg(&rig, kernel, 2);
    rig.enqueue(kernel, 1);
    rig.finish();
    // Only a read or write that nobody stops comes here.
    println!("the kernel has finished: {:?}", result.read(&rig));
    memory.release(&rig);
    result.release(&rig);
    rig.release();
}

/// Reads memory with a kernel after it was released, by the address that another kernel has kept.
fn released(platform: &str, memory: &str) {
    let rig = Rig::new(platform);
    let memory = Memory::new(&rig, memory, BYTES);
    let (address, result) = (Memory::new(&rig, "buffer", 8), Memory::new(&rig, "buffer", 4));
    let keep = rig.kernel("keep_address");
    memory.set_arg(&rig, keep, 0);
    address.set_arg(&rig, keep, 1);
    rig.enqueue(keep, 1);
    rig.finish();
    // The kernel may keep what it has had.
    unsafe { cl3::kernel::release_kernel(keep) }.unwrap();
    memory.release(&rig);
    read_kept(&rig, &address, &result);
}

/// The same of shared virtual memory that a command has freed.
fn released_by_command(platform: &str) {
    let rig = Rig::new(platform);
    let Memory::Svm(pointer) = Memory::new(&rig, "svm", BYTES) else { unreachable!() };
    let address = Memory::new(&rig, "buffer", 8);
    let result = Memory::new(&rig, "buffer", 4);
    address.write(&rig, &(pointer as u64).to_ne_bytes());
    let pointers = [pointer.cast_const()];
    let event = unsafe {
        cl::enqueue_svm_free(rig.queue, 1, pointers.as_ptr(), None, ptr::null_mut(), 0, ptr::null())
    };
    rig.release_event(event.unwrap());
    rig.finish();
    read_kept(&rig, &address, &result);
}

fn read_kept(rig: &Rig, address: &Memory, result: &Memory) {
    let kernel = rig.kernel("read_kept");
    address.set_arg(rig, kernel, 0);
    rig.set_value(kernel, 1, 4_i32);
    result.set_arg(rig, kernel, 2);
    rig.enqueue(kernel, 1);
    rig.finish();
    println!("the kernel has finished: {:?}", result.read(rig));
}

/// Frees memory twice.
fn twice(platform: &str, memory: &str) {
    let rig = Rig::new(platform);
    let memory = Memory::new(&rig, memory, BYTES);
    memory.release(&rig);
    println!("freed again: {}", memory.free_again(&rig));
    rig.release();
}

/// Reads outside of a buffer with a handler of its own, which is installed after the layer's.
fn own_handler(platform: &str) {
    extern "C" fn handler(_: i32) {
        unsafe { libc::_exit(43) };
    }
    let rig = Rig::new(platform);
    let memory = Memory::new(&rig, "buffer", BYTES);
    unsafe { libc::signal(libc::SIGSEGV, handler as *const () as usize) };
    let (result, kernel) = (Memory::new(&rig, "buffer", 4), rig.kernel("read_at"));
    memory.set_arg(&rig, kernel, 0);
    rig.set_value(kernel, 1, (BYTES / 4) as i32);
    result.set_arg(&rig, kernel, 2);
    rig.enqueue(kernel, 1);
    rig.finish();
}

/// Writes outside of a mapped buffer itself.
fn host(platform: &str) {
    let rig = Rig::new(platform);
    let memory = Memory::new(&rig, "buffer", BYTES);
    let mapped = memory.map(&rig, BYTES);
    unsafe { mapped.cast::<u8>().sub(1).write_volatile(1) };
    memory.unmap(&rig, mapped);
    memory.release(&rig);
    rig.release();
}

/// Makes a buffer that is too large to be filled whole, and reads its ends.
fn large(platform: &str) {
    const LARGE: usize = 80 << 20;
    let rig = Rig::new(platform);
    let memory = Memory::new(&rig, "buffer", LARGE);
    let mut bytes = vec![0_u8; LARGE];
    memory.read_bytes(&rig, &mut bytes);
    println!("first {:#x}, last {:#x}", bytes[0], bytes[LARGE - 1]);
    memory.release(&rig);
    rig.release();
}

type CreateCommands = unsafe extern "C" fn(u32, *const usize, *const u64, *mut i32) -> *mut c_void;
type Command = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    *const u64,
    *mut c_void,
    u32,
    *const usize,
    *const usize,
    *const usize,
    u32,
    *const u32,
    *mut u32,
    *mut *mut c_void,
) -> i32;
type Finalize = unsafe extern "C" fn(*mut c_void) -> i32;
type EnqueueCommands =
    unsafe extern "C" fn(u32, *const usize, *mut c_void, u32, *const c_void, *mut c_void) -> i32;

/// Reads behind the end of a buffer with a kernel in a command buffer.
fn recorded(platform: &str) {
    let rig = Rig::new(platform);
    let Some(create) = rig.function::<CreateCommands>(c"clCreateCommandBufferKHR") else {
        println!("no command buffers");
        return;
    };
    let command: Command = rig.function(c"clCommandNDRangeKernelKHR").unwrap();
    let finalize: Finalize = rig.function(c"clFinalizeCommandBufferKHR").unwrap();
    let enqueue: EnqueueCommands = rig.function(c"clEnqueueCommandBufferKHR").unwrap();
    let (memory, result) = (Memory::new(&rig, "buffer", BYTES), Memory::new(&rig, "buffer", 4));
    let kernel = rig.kernel("read_at");
    memory.set_arg(&rig, kernel, 0);
    rig.set_value(kernel, 1, (BYTES / 4) as i32);
    result.set_arg(&rig, kernel, 2);
    let (queue, mut code, items, none) = (rig.queue as usize, 0, 1, ptr::null_mut());
    unsafe {
        let commands = create(1, &raw const queue, ptr::null(), &raw mut code);
        assert_eq!(code, 0);
        let (offset, local) = (ptr::null(), ptr::null());
        let (wait, point) = (ptr::null(), ptr::null_mut());
        let added = command(
            commands,
            none,
            ptr::null(),
            kernel,
            1,
            offset,
            &raw const items,
            local,
            0,
            wait,
            point,
            ptr::null_mut(),
        );
        assert_eq!((added, finalize(commands)), (0, 0));
        assert_eq!(enqueue(0, ptr::null(), commands, 0, ptr::null(), none), 0);
    }
    rig.finish();
}

/// Reads outside of a buffer behind a kernel that has finished and before one that has not begun.
fn unfinished(platform: &str) {
    let rig = Rig::new(platform);
    let (memory, other) = (Memory::new(&rig, "buffer", BYTES), Memory::new(&rig, "buffer", BYTES));
    let fill = rig.kernel("fill");
    other.set_arg(&rig, fill, 0);
    rig.enqueue(fill, 1);
    rig.finish();
    let user = cl3::event::create_user_event(rig.context).unwrap();
    let kernel = rig.kernel("read_at");
    memory.set_arg(&rig, kernel, 0);
    rig.set_value(kernel, 1, (BYTES / 4) as i32);
    memory.set_arg(&rig, kernel, 2);
    rig.enqueue_after(kernel, 1, &[user]);
    let keep = rig.kernel("keep_address");
    for index in [0, 1] {
        other.set_arg(&rig, keep, index);
    }
    rig.enqueue(keep, 1);
    cl3::event::set_user_event_status(user, 0).unwrap();
    rig.finish();
}

/// Writes behind a buffer and releases it without waiting for the kernel.
fn late(platform: &str) {
    let rig = Rig::new(platform);
    let memory = Memory::new(&rig, "buffer", BYTES - 4);
    let other = Memory::new(&rig, "buffer", 64);
    let kernel = rig.kernel("write_at");
    memory.set_arg(&rig, kernel, 0);
    rig.set_value(kernel, 1, (BYTES / 4 - 1) as i32);
    other.set_arg(&rig, kernel, 2);
    rig.enqueue(kernel, 1);
    memory.release(&rig);
    // Waits, since the queue is in order.
    other.read(&rig);
    let event = unsafe { cl::enqueue_marker_with_wait_list(rig.queue, 0, ptr::null()) }.unwrap();
    cl3::event::wait_for_events(&[event]).unwrap();
    rig.release_event(event);
    rig.finish();
    other.release(&rig);
    rig.release();
}

/// The program of the documentation: sums rows of a matrix, of which it has one less than it thinks.
fn readme(platform: &str) {
    const COLUMNS: usize = 100;
    let rig = Rig::new(platform);
    let buffer = |bytes| unsafe {
        create_buffer(rig.context, CL_MEM_READ_WRITE, bytes, ptr::null_mut::<c_void>()).unwrap()
    };
    let (matrix, sums) = (buffer(4 * COLUMNS * 4), buffer(5 * 4));
    let kernel = rig.kernel("row_sums");
    for (index, mem) in [matrix, sums].iter().enumerate() {
        unsafe {
            let handle = (&raw const *mem).cast();
            cl3::kernel::set_kernel_arg(kernel, index as u32, size_of::<usize>(), handle).unwrap();
        }
    }
    rig.set_value(kernel, 2, COLUMNS as i32);
    rig.enqueue(kernel, 5);
    let mut bytes = [0_u8; 4];
    let read = unsafe {
        let to = bytes.as_mut_ptr().cast();
        cl::enqueue_read_buffer(rig.queue, sums, CL_BLOCKING, 0, 4, to, 0, ptr::null())
    };
    rig.release_event(read.unwrap());
    for mem in [matrix, sums] {
        unsafe { release_mem_object(mem) }.unwrap();
    }
}

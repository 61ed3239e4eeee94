//! A program that does nothing wrong and prints what it gets, so that its output with the layer and without can be compared.

use std::ffi::c_void;
use std::ptr;

use cl3::command_queue as cl;
use cl3::memory as m;
use cl3::types::cl_mem;

use super::rig::{Memory, PART, Rig};

/// Uses memory of every kind within its bounds, and asks for everything that there is to know of it.
pub(crate) fn print_all(platform: &str) {
    let rig = Rig::new(platform);
    buffers(&rig);
    host_pointers(&rig);
    sub_buffers(&rig, platform);
    refused(&rig);
    mapping(&rig);
    references(&rig);
    for kind in Memory::kinds(platform) {
        sums(&rig, kind);
    }
    if rig.has("cl_intel_unified_shared_memory") {
        usm(&rig);
    }
    rig.release();
}

/// What a driver says of a memory object. Handles are compared with those that are given.
fn say(what: &str, mem: cl_mem, named: &[(&str, usize)]) {
    let name = |address: usize| {
        let known = named.iter().find(|(_, known)| *known == address);
        known.map_or_else(
            || if address == 0 { "null".to_owned() } else { "another".to_owned() },
            |(name, _)| (*name).to_owned(),
        )
    };
    let number = |info: u32| {
        let data = m::get_mem_object_data(mem, info).unwrap();
        let mut bytes = [0; 8];
        bytes[..data.len()].copy_from_slice(&data);
        u64::from_ne_bytes(bytes)
    };
    let maps = number(m::CL_MEM_MAP_COUNT);
    // Some drivers hold references of what is mapped.
    let references = if maps == 0 { number(m::CL_MEM_REFERENCE_COUNT) } else { 0 };
    println!(
        "{what}: type {:#x}, flags {:#x}, size {}, host {}, maps {maps}, references {references}, of {}, offset {}, svm {}",
        number(m::CL_MEM_TYPE),
        number(m::CL_MEM_FLAGS),
        number(m::CL_MEM_SIZE),
        name(number(m::CL_MEM_HOST_PTR) as usize),
        name(number(m::CL_MEM_ASSOCIATED_MEMOBJECT) as usize),
        number(m::CL_MEM_OFFSET),
        number(m::CL_MEM_USES_SVM_POINTER),
    );
}

fn buffers(rig: &Rig) {
    for access in [0, m::CL_MEM_READ_WRITE, m::CL_MEM_READ_ONLY, m::CL_MEM_WRITE_ONLY] {
        for host in [0, m::CL_MEM_HOST_READ_ONLY, m::CL_MEM_HOST_WRITE_ONLY, m::CL_MEM_HOST_NO_ACCESS] {
            for size in [1, 100, 1600, 10_000] {
                let mem =
                    unsafe { m::create_buffer(rig.context, access | host, size, ptr::null_mut()) }.unwrap();
                say("buffer", mem, &[]);
                unsafe { m::release_mem_object(mem) }.unwrap();
            }
        }
    }
}

fn host_pointers(rig: &Rig) {
    let mut bytes = [5_u8; 1000];
    let host = bytes.as_mut_ptr().cast::<c_void>();
    let named = [("ours", host as usize)];
    for (flags, pointer) in [
        (m::CL_MEM_COPY_HOST_PTR, host),
        (m::CL_MEM_USE_HOST_PTR, host),
        (m::CL_MEM_ALLOC_HOST_PTR, ptr::null_mut()),
        (m::CL_MEM_ALLOC_HOST_PTR | m::CL_MEM_COPY_HOST_PTR, host),
    ] {
        let mem = unsafe { m::create_buffer(rig.context, flags, 1000, pointer) }.unwrap();
        say("host pointer", mem, &named);
        let region = [0_usize, 100];
        let part =
            unsafe { m::create_sub_buffer(mem, 0, m::CL_BUFFER_CREATE_TYPE_REGION, region.as_ptr().cast()) };
        say("its part", part.unwrap(), &[named[0], ("the buffer", mem as usize)]);
        if flags & (m::CL_MEM_COPY_HOST_PTR | m::CL_MEM_USE_HOST_PTR) != 0 {
            let mut read = [0; 1000];
            Memory::Buffer(mem).read_bytes(rig, &mut read);
            println!("contents are there: {}", read == [5; 1000]);
        }
        unsafe {
            m::release_mem_object(part.unwrap()).unwrap();
            m::release_mem_object(mem).unwrap();
        }
    }
}

fn sub_buffers(rig: &Rig, platform: &str) {
    let region = |origin: usize, size: usize| [origin, size];
    let flags = m::CL_MEM_READ_WRITE | m::CL_MEM_HOST_READ_ONLY;
    let mem = unsafe { m::create_buffer(rig.context, flags, 4000, ptr::null_mut()) }.unwrap();
    let create = |of: cl_mem, flags: u64, region: [usize; 2]| unsafe {
        m::create_sub_buffer(of, flags, m::CL_BUFFER_CREATE_TYPE_REGION, region.as_ptr().cast())
    };
    let named = [("the buffer", mem as usize)];
    for flags in [0, m::CL_MEM_READ_ONLY, m::CL_MEM_HOST_NO_ACCESS] {
        let part = create(mem, flags, region(PART, 400)).unwrap();
        say("part", part, &named);
        println!("part of a part: {:?}", create(part, 0, region(0, 4)).map(|_| ()));
        unsafe { m::release_mem_object(part) }.unwrap();
    }
    // NVIDIA's driver makes parts that are longer than their buffers. With canaries they are refused.
    if platform != "nvidia" {
        println!("too long: {:?}", create(mem, 0, region(PART, 100_000)).map(|_| ()));
    }
    println!("empty: {:?}", create(mem, 0, region(PART, 0)).map(|_| ()));
    println!("too far: {:?}", create(mem, 0, region(4096, 4)).map(|_| ()));
    // A part keeps its buffer.
    let part = create(mem, 0, region(PART, 400)).unwrap();
    unsafe { m::release_mem_object(mem) }.unwrap();
    let owner = m::get_mem_object_data(part, m::CL_MEM_ASSOCIATED_MEMOBJECT).unwrap();
    println!("still of the buffer: {}", owner == (mem as usize).to_ne_bytes());
    unsafe { m::release_mem_object(part) }.unwrap();
}

fn refused(rig: &Rig) {
    let mut bytes = [0_u8; 64];
    let host = bytes.as_mut_ptr().cast::<c_void>();
    let none = ptr::null_mut();
    let (copy, used, alloc) = (m::CL_MEM_COPY_HOST_PTR, m::CL_MEM_USE_HOST_PTR, m::CL_MEM_ALLOC_HOST_PTR);
    for (flags, size, pointer) in [
        (0, 0, none),
        (copy, 64, none),
        (used, 64, none),
        (0, 64, host),
        (used | copy, 64, host),
        (used | alloc, 64, host),
        (m::CL_MEM_READ_ONLY | m::CL_MEM_WRITE_ONLY, 64, none),
        (0, usize::MAX / 2, none),
    ] {
        let made = unsafe { m::create_buffer(rig.context, flags, size, pointer) };
        println!("buffer with flags {flags:#x} and {size} bytes: {:?}", made.map(|_| ()));
    }
}

fn mapping(rig: &Rig) {
    for flags in [m::CL_MEM_READ_WRITE, m::CL_MEM_ALLOC_HOST_PTR] {
        let mem = unsafe { m::create_buffer(rig.context, flags, 1000, ptr::null_mut()) }.unwrap();
        let memory = Memory::Buffer(mem);
        let mapped = memory.map(rig, 1000);
        unsafe { mapped.cast::<u8>().write_bytes(3, 1000) };
        say("mapped", mem, &[]);
        memory.unmap(rig, mapped);
        let mut read = [0; 1000];
        memory.read_bytes(rig, &mut read);
        println!("what was written is there: {}", read == [3; 1000]);
        memory.release(rig);
    }
}

/// Memory that is released holds no references of its context.
fn references(rig: &Rig) {
    let count = || {
        let data =
            cl3::context::get_context_data(rig.context, cl3::context::CL_CONTEXT_REFERENCE_COUNT).unwrap();
        u32::from_ne_bytes(data.try_into().unwrap())
    };
    // Drivers' threads let go of what they have used a moment after it has finished.
    let least = |enough: u32| {
        let mut least = u32::MAX;
        for _ in 0..50 {
            std::thread::sleep(std::time::Duration::from_millis(2));
            least = least.min(count());
            if least <= enough {
                break;
            }
        }
        least
    };
    rig.finish();
    let before = least(0);
    for kind in ["buffer", "sub", "svm"] {
        let memory = Memory::new(rig, kind, 1600);
        memory.release(rig);
        println!("references that {kind} leaves: {}", least(before) - before);
    }
}

/// Adds numbers in memory of some kind.
fn sums(rig: &Rig, kind: &str) {
    const BYTES: usize = 1600;
    let memories = [(); 3].map(|()| Memory::new(rig, kind, BYTES));
    let items = if kind == "sub" { (BYTES - PART) / 4 } else { BYTES / 4 };
    for memory in &memories[..2] {
        let fill = rig.kernel("fill");
        memory.set_arg(rig, fill, 0);
        rig.enqueue(fill, items);
        unsafe { cl3::kernel::release_kernel(fill) }.unwrap();
    }
    let add = rig.kernel("add");
    for (index, memory) in memories.iter().enumerate() {
        memory.set_arg(rig, add, index as u32);
    }
    rig.enqueue(add, items);
    rig.finish();
    unsafe { cl3::kernel::release_kernel(add) }.unwrap();
    let mut result = vec![0_f32; items];
    let bytes = unsafe { std::slice::from_raw_parts_mut(result.as_mut_ptr().cast::<u8>(), 4 * items) };
    match &memories[2] {
        Memory::Svm(pointer) => {
            let to = bytes.as_mut_ptr().cast();
            let event =
                unsafe { cl::enqueue_svm_mem_cpy(rig.queue, 1, to, *pointer, bytes.len(), 0, ptr::null()) };
            rig.release_event(event.unwrap());
        }
        Memory::Usm(pointer) => {
            type Copy = unsafe extern "C" fn(
                *mut c_void,
                u32,
                *mut c_void,
                *const c_void,
                usize,
                u32,
                *const c_void,
                *mut c_void,
            ) -> i32;
            let copy: Copy = rig.function(c"clEnqueueMemcpyINTEL").unwrap();
            let (to, none) = (bytes.as_mut_ptr().cast(), ptr::null_mut());
            let code = unsafe { copy(rig.queue, 1, to, *pointer, bytes.len(), 0, ptr::null(), none) };
            assert_eq!(code, 0);
        }
        memory => memory.read_bytes(rig, bytes),
    }
    let expected: Vec<f32> = (0..items).map(|i| 2.0 * i as f32).collect();
    println!("sums in {kind} are right: {}", result == expected);
    for memory in memories {
        memory.release(rig);
    }
}

fn usm(rig: &Rig) {
    type Info = unsafe extern "C" fn(*mut c_void, *const c_void, u32, usize, *mut c_void, *mut usize) -> i32;
    let info: Info = rig.function(c"clGetMemAllocInfoINTEL").unwrap();
    for kind in ["usm_host", "usm_device", "usm_shared"] {
        let memory = Memory::new(rig, kind, 1600);
        let Memory::Usm(pointer) = memory else { unreachable!() };
        for offset in [0, 100, 1599, 1600] {
            let ask = |what: u32| {
                let mut value = 0_u64;
                let place = (&raw mut value).cast();
                let at = pointer.wrapping_byte_add(offset);
                assert_eq!(unsafe { info(rig.context, at, what, 8, place, ptr::null_mut()) }, 0);
                value
            };
            let base = ask(0x419B) as usize;
            let base = if base == pointer as usize {
                "its start"
            } else if base == 0 {
                "null"
            } else {
                "other"
            };
            println!("{kind} at {offset}: type {:#x}, base {base}, size {}", ask(0x419A), ask(0x419C));
        }
        memory.release(rig);
    }
}

//! Buffers, and what is made from them.

use std::ffi::c_void;
use std::sync::Arc;

use crate::allocation::{Fence, Kind};
use crate::canary::{self, Memory, Zones};
use crate::context::{self, Way};
use crate::handle::{Context, Mem};
use crate::pages::Block;
use crate::settings::settings;
use crate::state::{self, MemObject, Role};
use crate::{below, cl, extension, handler, zone};

/// `cl_buffer_region`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Region {
    origin: usize,
    size: usize,
}

/// `cl_image_desc`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct ImageDescription {
    kind: u32,
    sizes: [usize; 6],
    levels: u32,
    samples: u32,
    memory: Mem,
}

/// A buffer that the program asks for.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    context: Context,
    flags: u64,
    size: usize,
    host: *mut c_void,
    code: *mut i32,
}

pub(crate) unsafe extern "C" fn create(
    context: Context,
    flags: u64,
    size: usize,
    host: *mut c_void,
    code: *mut i32,
) -> Mem {
    let make = |flags, size, host| {
        // SAFETY: the program's own call, with memory of as many bytes where it is another's.
        unsafe { below::clCreateBuffer(context, flags, size, host, code) }
    };
    create_by(Wanted { context, flags, size, host, code }, make)
}

pub(crate) unsafe extern "C" fn create_with_properties(
    context: Context,
    properties: *const u64,
    flags: u64,
    size: usize,
    host: *mut c_void,
    code: *mut i32,
) -> Mem {
    let make = |flags, size, host| {
        // SAFETY: as above.
        unsafe { below::clCreateBufferWithProperties(context, properties, flags, size, host, code) }
    };
    create_by(Wanted { context, flags, size, host, code }, make)
}

pub(crate) unsafe extern "C" fn create_with_properties_intel<const PLACE: usize>(
    context: Context,
    properties: *const u64,
    flags: u64,
    size: usize,
    host: *mut c_void,
    code: *mut i32,
) -> Mem {
    let make = |flags, size, host| {
        // SAFETY: as above.
        unsafe {
            extension::clCreateBufferWithPropertiesINTEL(PLACE, context, properties, flags, size, host, code)
        }
    };
    create_by(Wanted { context, flags, size, host, code }, make)
}

pub(crate) unsafe extern "C" fn create_sub_buffer(
    buffer: Mem,
    flags: u64,
    kind: u32,
    region: *const c_void,
    code: *mut i32,
) -> Mem {
    let known = state::lock().mems.get(&buffer).copied();
    let parent = known.filter(|object| object.role == Role::Whole).and_then(|object| object.zones);
    let is_region = kind == cl::BUFFER_CREATE_TYPE_REGION && !region.is_null();
    // SAFETY: the program gives a region.
    let wanted = is_region.then(|| unsafe { region.cast::<Region>().read() });
    let (Some(object), Some(wanted)) = (known, wanted) else {
        // SAFETY: the program's own call, which the driver will refuse for a fenced buffer.
        return unsafe {
            below::clCreateSubBuffer(parent.map_or(buffer, |(mem, _)| mem), flags, kind, region, code)
        };
    };
    let Some((parent, zone)) = parent else {
        // SAFETY: the program's own call.
        let made = unsafe { below::clCreateSubBuffer(buffer, flags, kind, region, code) };
        return made_from(made, object, Role::Part, buffer, wanted.origin);
    };
    if wanted.origin.checked_add(wanted.size).is_none_or(|end| end > object.size) {
        put(code, cl::INVALID_VALUE);
        return Mem::NULL;
    }
    let moved = Region { origin: wanted.origin + zone, size: wanted.size };
    let inherited = if flags & cl::MEM_HOST_ACCESS == 0 { object.flags & cl::MEM_HOST_ACCESS } else { 0 };
    // SAFETY: the program's own call on the buffer that holds its buffer, which it gets a reference of.
    let made =
        unsafe { below::clCreateSubBuffer(parent, flags | inherited, kind, (&raw const moved).cast(), code) };
    if !made.is_null() {
        // The program may ask for the buffer of a sub-buffer after it has released it.
        // SAFETY: the program's buffer, which it has just used.
        unsafe { below::clRetainMemObject(buffer) };
    }
    let inherits = flags & cl::MEM_ACCESS == 0;
    made_from(made, MemObject { inherits, ..object }, Role::Part, buffer, wanted.origin)
}

pub(crate) unsafe extern "C" fn create_image(
    context: Context,
    flags: u64,
    format: *const c_void,
    description: *const c_void,
    host: *mut c_void,
    code: *mut i32,
) -> Mem {
    // SAFETY: the program's own call.
    let made = unsafe { below::clCreateImage(context, flags, format, description, host, code) };
    image_made(made, description)
}

pub(crate) unsafe extern "C" fn create_image_with_properties(
    context: Context,
    properties: *const u64,
    flags: u64,
    format: *const c_void,
    description: *const c_void,
    host: *mut c_void,
    code: *mut i32,
) -> Mem {
    // SAFETY: the program's own call.
    let made = unsafe {
        below::clCreateImageWithProperties(context, properties, flags, format, description, host, code)
    };
    image_made(made, description)
}

/// Answers as if the buffer were the program's own, not one over memory of the layer's or a part of a larger one.
pub(crate) unsafe extern "C" fn info(
    memory: Mem,
    info: u32,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> i32 {
    // SAFETY: the program's own call.
    let code = unsafe { below::clGetMemObjectInfo(memory, info, size, value, size_ret) };
    let known = state::lock().mems.get(&memory).copied();
    let Some(object) = known.filter(|_| code == 0 && !value.is_null()) else { return code };
    let canary = object.zones.filter(|_| object.role != Role::Image);
    // SAFETY: the driver has written a value of this type here.
    unsafe {
        match info {
            cl::MEM_FLAGS => {
                let flags = value.cast::<u64>();
                flags.write_unaligned(object.answered_flags(flags.read_unaligned()));
            }
            cl::MEM_HOST_PTR => value.cast::<usize>().write_unaligned(0),
            cl::MEM_USES_SVM_POINTER => value.cast::<u32>().write_unaligned(0),
            cl::MEM_ASSOCIATED_MEMOBJECT if canary.is_some() => {
                value.cast::<Mem>().write_unaligned(object.made_from);
            }
            cl::MEM_OFFSET if canary.is_some() => value.cast::<usize>().write_unaligned(object.offset),
            cl::MEM_MAP_COUNT => {
                if let Some((parent, _)) = canary.filter(|_| object.role == Role::Whole) {
                    // Drivers count what is mapped of a part in the part or in what it is a part of.
                    let count = value.cast::<u32>();
                    let parents = query(parent, cl::MEM_MAP_COUNT, 0_u32);
                    count.write_unaligned(count.read_unaligned().max(parents));
                }
            }
            _ => {}
        }
    }
    code
}

impl MemObject {
    /// The flags of the memory object as the program gave them, by what the driver answers.
    fn answered_flags(&self, driver: u64) -> u64 {
        let own = cl::MEM_ALLOC_HOST_PTR | cl::MEM_COPY_HOST_PTR;
        match (self.role, self.zones) {
            (Role::Whole, Some(_)) => self.answer,
            // What the buffer's flags would not be, its part does not inherit.
            (Role::Part, Some(_)) if self.inherits => {
                let access = self.answer & cl::MEM_ACCESS;
                driver & !cl::MEM_ACCESS | access | self.flags & own
            }
            _ => driver & !cl::MEM_USE_HOST_PTR | self.flags & own,
        }
    }
}

/// What a driver says of a memory object.
fn query<T>(memory: Mem, info: u32, mut value: T) -> T {
    let place = (&raw mut value).cast();
    // SAFETY: a place of the size that is told.
    unsafe { below::clGetMemObjectInfo(memory, info, size_of::<T>(), place, std::ptr::null_mut()) };
    value
}

/// Makes a buffer by a function that takes flags, bytes and host memory.
fn create_by(wanted: Wanted, make: impl Fn(u64, usize, *mut c_void) -> Mem) -> Mem {
    let Wanted { context, flags, size, host, .. } = wanted;
    let plain = || make(flags, size, host);
    if flags & cl::MEM_USE_HOST_PTR != 0 {
        let made = plain();
        state::lock().tally.host_memory += u64::from(!made.is_null());
        return made;
    }
    let copies = flags & cl::MEM_COPY_HOST_PTR != 0;
    if size == 0 || copies == host.is_null() {
        // The driver refuses it.
        return plain();
    }
    let Some(way) = context::way(context) else { return plain() };
    handler::ensure();
    // What no flags stand for, which drivers see in the absence of all flags only.
    let wanted = Wanted { flags: if flags == 0 { cl::MEM_READ_WRITE } else { flags }, ..wanted };
    let made = if way.pages { with_pages(wanted, &make) } else { with_canary(wanted, way, &make) };
    made.unwrap_or_else(|| {
        let made = plain();
        state::lock().tally.no_room += u64::from(!made.is_null());
        made
    })
}

/// A buffer over memory between inaccessible pages. `None` when there is no room.
fn with_pages(wanted: Wanted, make: impl Fn(u64, usize, *mut c_void) -> Mem) -> Option<Mem> {
    let settings = settings()?;
    let block = Block::map(wanted.size, settings.align, settings.mode)?;
    block.fill(wanted.contents());
    let flags = wanted.flags & !(cl::MEM_COPY_HOST_PTR | cl::MEM_ALLOC_HOST_PTR) | cl::MEM_USE_HOST_PTR;
    let made = make(flags, wanted.size, std::ptr::with_exposed_provenance_mut(block.start));
    if made.is_null() {
        block.unmap();
        return Some(made);
    }
    Some(made_new(made, wanted, Fence::Pages(block), None, 0))
}

/// A buffer that is a part of a larger one. `None` when there is no room.
fn with_canary(wanted: Wanted, way: Way, make: impl Fn(u64, usize, *mut c_void) -> Mem) -> Option<Mem> {
    let zone = canary::zone(way);
    let total = wanted.size.checked_add(2 * zone)?;
    let flags = wanted.flags & !(cl::MEM_COPY_HOST_PTR | cl::MEM_HOST_ACCESS);
    let parent = make(flags, total, std::ptr::null_mut());
    if parent.is_null() {
        return None;
    }
    let zones = Zones::new(wanted.context, Memory::Buffer(parent), wanted.size, zone);
    let flags = wanted.flags & !(cl::MEM_COPY_HOST_PTR | cl::MEM_ALLOC_HOST_PTR);
    let region = Region { origin: zone, size: wanted.size };
    let region = (&raw const region).cast();
    // SAFETY: a part of the buffer above.
    let made = unsafe {
        below::clCreateSubBuffer(parent, flags, cl::BUFFER_CREATE_TYPE_REGION, region, wanted.code)
    };
    if made.is_null() {
        return None;
    }
    if !zones.fill(wanted.contents()) {
        // SAFETY: the only reference.
        unsafe { below::clReleaseMemObject(made) };
        return None;
    }
    // The driver's answer for a buffer that the program makes with these flags. Parts and larger buffers may have others.
    let like = make(wanted.flags, 1, wanted.host);
    let answer = query(like, cl::MEM_FLAGS, wanted.flags);
    if !like.is_null() {
        // SAFETY: the only reference.
        unsafe { below::clReleaseMemObject(like) };
    }
    put(wanted.code, 0);
    Some(made_new(made, wanted, Fence::Canary(Arc::new(zones)), Some((parent, zone)), answer))
}

/// Notes a new buffer.
fn made_new(made: Mem, wanted: Wanted, fence: Fence, zones: Option<(Mem, usize)>, answer: u64) -> Mem {
    let Wanted { context, flags, size, .. } = wanted;
    let mut state = state::lock();
    state.tally.filled_in_part +=
        u64::from(wanted.contents().is_none() && zone::is_filled_in_part(wanted.size));
    let allocation = state.add(Kind::Buffer, context, size, fence);
    let role = Role::Whole;
    let made_from = Mem::NULL;
    let inherits = false;
    let object = MemObject { allocation, flags, size, role, made_from, offset: 0, zones, answer, inherits };
    state.mems.insert(made, object);
    drop(state);
    let number = std::ptr::without_provenance_mut(allocation as usize);
    // SAFETY: a function of the layer's, which stays loaded. Where that fails, the buffer is never known to be gone.
    unsafe { below::clSetMemObjectDestructorCallback(made, destroyed, number) };
    made
}

/// Notes a memory object that is made from a fenced one.
fn made_from(made: Mem, object: MemObject, role: Role, buffer: Mem, origin: usize) -> Mem {
    if !made.is_null() {
        let offset = object.offset + origin;
        let object = MemObject { role, made_from: buffer, offset, ..object };
        state::lock().mems.insert(made, object);
        // SAFETY: a function of the layer's, which stays loaded.
        unsafe { below::clSetMemObjectDestructorCallback(made, part_destroyed, std::ptr::null_mut()) };
    }
    made
}

fn image_made(made: Mem, description: *const c_void) -> Mem {
    if made.is_null() {
        return made;
    }
    // SAFETY: the driver has made an image of the program's description.
    let buffer = unsafe { description.cast::<ImageDescription>().read() }.memory;
    let known = state::lock().mems.get(&buffer).copied();
    known.map_or(made, |object| made_from(made, object, Role::Image, buffer, 0))
}

/// The driver is done with a buffer.
unsafe extern "C" fn destroyed(memory: Mem, number: *mut c_void) {
    let number = number.addr() as u64;
    let mut state = state::lock();
    if state.mems.get(&memory).is_some_and(|object| object.allocation == number) {
        state.mems.remove(&memory);
    }
    let released = state.retire(number);
    drop(state);
    context::give_back(released);
}

/// The driver is done with what was made from a buffer.
unsafe extern "C" fn part_destroyed(memory: Mem, _: *mut c_void) {
    let object = state::lock().mems.remove(&memory);
    if let Some(object) = object.filter(|object| object.role == Role::Part && object.zones.is_some()) {
        // SAFETY: the reference taken when the part was made.
        unsafe { below::clReleaseMemObject(object.made_from) };
    }
}

impl Wanted {
    /// What the buffer begins with, if the program says that.
    fn contents(&self) -> Option<*const u8> {
        (!self.host.is_null()).then_some(self.host.cast())
    }
}

fn put(place: *mut i32, code: i32) {
    if !place.is_null() {
        // SAFETY: the program gives a place for the code, or null.
        unsafe { place.write(code) };
    }
}

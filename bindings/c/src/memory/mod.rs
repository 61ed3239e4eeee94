//! Memory: descriptors with bytes on a device, or with a value on the host.

mod object;
mod storage;

use std::ffi::{c_int, c_void};
use std::ptr;

pub(crate) use object::MemoryObject;
pub(crate) use storage::{HandleKind, Storage, byte_desc};

use crate::boundary::{self, Failure, Outcome};
use crate::desc::{Format, Md};
use crate::engine;
use crate::handle;
use crate::object_types::{const_dnnl_memory_t, dnnl_engine_t, dnnl_memory_t};
use crate::types::{const_dnnl_memory_desc_t, dnnl_out_of_memory, dnnl_status_t};

/// Makes memory on an engine. `handle` is an address on the host, a buffer object on a device, `DNNL_MEMORY_ALLOCATE` or `DNNL_MEMORY_NONE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_create(
    memory: *mut dnnl_memory_t,
    memory_desc: const_dnnl_memory_desc_t,
    engine: dnnl_engine_t,
    handle: *mut c_void,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_create", || {
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { create(memory, memory_desc, engine, &[handle]) }
    })
}

/// Makes memory with several handles on an engine; see [`dnnl_memory_create`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_create_v2(
    memory: *mut dnnl_memory_t,
    memory_desc: const_dnnl_memory_desc_t,
    engine: dnnl_engine_t,
    nhandles: c_int,
    handles: *mut *mut c_void,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_create_v2", || {
        // SAFETY: the caller passes null or so many handles.
        let handles = unsafe { handle_list(nhandles, handles) }?;
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { create(memory, memory_desc, engine, handles) }
    })
}

/// Makes memory of a value on the host, which is copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_create_host_scalar(
    memory: *mut dnnl_memory_t,
    memory_desc: const_dnnl_memory_desc_t,
    scalar_ptr: *mut c_void,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_create_host_scalar", || {
        let make = || {
            // SAFETY: the caller passes null or a descriptor that lives.
            let desc = unsafe { handle::borrow(memory_desc) }?;
            if !matches!(desc.format, Format::HostScalar) {
                return Err(Failure::invalid("the descriptor is not one of a value on the host"));
            }
            let object = MemoryObject::host_scalar(desc, [0; 8]);
            // SAFETY: the caller passes null or a value of the descriptor's type.
            unsafe { read_scalar(&object, scalar_ptr) }?;
            Ok(object)
        };
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(memory, make) }
    })
}

/// Ends memory; null is none. Commands on their way keep the bytes that the library allocated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_destroy(memory: dnnl_memory_t) -> dnnl_status_t {
    boundary::status("dnnl_memory_destroy", || {
        // SAFETY: the caller passes null or memory that lives, and gives it up.
        unsafe { handle::destroy(memory) }
    })
}

/// Lends the descriptor of memory, for as long as the memory lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_get_memory_desc(
    memory: const_dnnl_memory_t,
    memory_desc: *mut const_dnnl_memory_desc_t,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_get_memory_desc", || {
        // SAFETY: the caller passes null or memory that lives.
        let object = unsafe { handle::borrow(memory) }?;
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::write(memory_desc, "memory_desc", object.desc_handle()) }
    })
}

/// Tells the engine of memory: the handle that the memory was made with, or null for a value on the host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_get_engine(
    memory: const_dnnl_memory_t,
    engine: *mut dnnl_engine_t,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_get_engine", || {
        // SAFETY: the caller passes null or memory that lives.
        let owner = unsafe { handle::borrow(memory) }?.engine();
        let raw = owner.as_ref().map_or(ptr::null_mut(), engine::raw);
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::write(engine, "engine", raw) }
    })
}

/// Tells the handle of memory; null for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_get_data_handle(
    memory: const_dnnl_memory_t,
    handle: *mut *mut c_void,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_get_data_handle", || {
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { data_handle(memory, handle, 0) }
    })
}

/// Tells one of the handles of memory; null for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_get_data_handle_v2(
    memory: const_dnnl_memory_t,
    handle: *mut *mut c_void,
    index: c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_get_data_handle_v2", || {
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { data_handle(memory, handle, index) }
    })
}

/// Gives memory another handle: a buffer object or an address, as the memory was made with. Nothing is looked at or changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_set_data_handle(
    memory: dnnl_memory_t,
    handle: *mut c_void,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_set_data_handle", || {
        // SAFETY: the caller passes null or memory that lives, and a handle of its kind.
        unsafe { handle::borrow(memory)?.set_handle(0, handle) }
    })
}

/// Gives memory another one of its handles; see [`dnnl_memory_set_data_handle`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_set_data_handle_v2(
    memory: dnnl_memory_t,
    handle: *mut c_void,
    index: c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_set_data_handle_v2", || {
        // SAFETY: the caller passes null or memory that lives, and a handle of its kind.
        unsafe { handle::borrow(memory)?.set_handle(index, handle) }
    })
}

/// Maps memory to the host. Wait for commands that use it first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_map_data(
    memory: const_dnnl_memory_t,
    mapped_ptr: *mut *mut c_void,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_map_data", || {
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { map(memory, mapped_ptr, 0) }
    })
}

/// Maps the bytes of one of the handles of memory to the host; see [`dnnl_memory_map_data`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_map_data_v2(
    memory: const_dnnl_memory_t,
    mapped_ptr: *mut *mut c_void,
    index: c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_map_data_v2", || {
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { map(memory, mapped_ptr, index) }
    })
}

/// Ends a mapping: changes are on the device afterwards. Null is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_unmap_data(
    memory: const_dnnl_memory_t,
    mapped_ptr: *mut c_void,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_unmap_data", || {
        // SAFETY: the caller passes null or memory that lives.
        unsafe { handle::borrow(memory) }?.unmap(0, mapped_ptr)
    })
}

/// Ends a mapping of one of the handles; see [`dnnl_memory_unmap_data`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_unmap_data_v2(
    memory: const_dnnl_memory_t,
    mapped_ptr: *mut c_void,
    index: c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_unmap_data_v2", || {
        // SAFETY: the caller passes null or memory that lives.
        unsafe { handle::borrow(memory) }?.unmap(index, mapped_ptr)
    })
}

/// Copies the value of memory on the host to `value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_get_host_scalar_value(
    memory: const_dnnl_memory_t,
    value: *mut c_void,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_get_host_scalar_value", || {
        // SAFETY: the caller passes null or memory that lives.
        let object = unsafe { handle::borrow(memory) }?;
        if value.is_null() {
            return Err(Failure::null("value"));
        }
        let bytes = object.scalar()?;
        // SAFETY: the caller has room for a value of the memory's type.
        unsafe { value.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), object.scalar_bytes()) };
        Ok(())
    })
}

/// Copies `value` to memory on the host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_set_host_scalar_value(
    memory: dnnl_memory_t,
    value: *const c_void,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_set_host_scalar_value", || {
        // SAFETY: the caller passes null or memory that lives.
        let object = unsafe { handle::borrow(memory) }?;
        // SAFETY: the caller passes null or a value of the memory's type.
        unsafe { read_scalar(object, value) }
    })
}

/// An array of handles.
///
/// # Safety
/// `handles` is null or holds `count` handles for `'a`.
pub(crate) unsafe fn handle_list<'a>(count: c_int, handles: *mut *mut c_void) -> Outcome<&'a [*mut c_void]> {
    let count = usize::try_from(count)
        .ok()
        .filter(|&count| count > 0)
        .ok_or_else(|| Failure::invalid(format!("there are {count} handles, expected some")))?;
    // SAFETY: by contract.
    unsafe { handle::slice(handles, count, "handles") }
}

/// Checks that memory on a device can be made for a descriptor with so many handles.
pub(crate) fn check(desc: &Md, handles: usize) -> Outcome {
    match desc.format {
        Format::Any | Format::Packed { .. } => {
            Err(Failure::invalid("the descriptor leaves its layout to a primitive"))
        }
        Format::HostScalar => Err(Failure::invalid("the descriptor is one of a value on the host")),
        _ if desc.is_runtime() => {
            Err(Failure::invalid("the descriptor has dimensions or strides that are not known yet"))
        }
        _ if handles != desc.handles() => {
            let wanted = desc.handles();
            Err(Failure::invalid(format!("there are {handles} handles, expected {wanted}")))
        }
        _ => Ok(()),
    }
}

/// # Safety
/// The pointers are null, or handles that live and a place to write.
unsafe fn create(
    memory: *mut dnnl_memory_t,
    memory_desc: const_dnnl_memory_desc_t,
    engine: dnnl_engine_t,
    handles: &[*mut c_void],
) -> Outcome {
    let make = || {
        // SAFETY: by contract.
        let engine = unsafe { engine::reference(engine) }?;
        let empty = Md::empty();
        // SAFETY: by contract.
        let desc = unsafe { handle::borrow_optional(memory_desc) }?.unwrap_or(&empty);
        check(desc, handles.len())?;
        let kind = HandleKind::of(engine.value());
        // SAFETY: by contract.
        let object = unsafe { MemoryObject::on_device(desc, engine, kind, handles) };
        object.map_err(swallowed)
    };
    // SAFETY: by contract.
    unsafe { handle::create_at(memory, make) }
}

/// These functions tell one status for everything that goes wrong with the bytes.
fn swallowed(failure: Failure) -> Failure {
    Failure::Status(dnnl_out_of_memory, failure.into_parts().1)
}

/// # Safety
/// The pointers are null, or memory that lives and a place to write.
unsafe fn data_handle(memory: const_dnnl_memory_t, out: *mut *mut c_void, index: c_int) -> Outcome {
    if out.is_null() {
        return Err(Failure::null("handle"));
    }
    // SAFETY: by contract.
    let object = unsafe { handle::borrow_optional(memory) }?;
    let raw = object.map_or(Ok(ptr::null_mut()), |object| object.handle(index))?;
    // SAFETY: by contract.
    unsafe { handle::write(out, "handle", raw) }
}

/// # Safety
/// The pointers are null, or memory that lives and a place to write.
unsafe fn map(memory: const_dnnl_memory_t, out: *mut *mut c_void, index: c_int) -> Outcome {
    // SAFETY: by contract.
    let object = unsafe { handle::borrow(memory) }?;
    if out.is_null() {
        return Err(Failure::null("mapped_ptr"));
    }
    // SAFETY: the user's bytes live while they are mapped.
    let address = unsafe { object.map(index) }?;
    // SAFETY: by contract.
    unsafe { handle::write(out, "mapped_ptr", address) }
}

/// # Safety
/// `value` is null or holds a value of the memory's type.
unsafe fn read_scalar(object: &MemoryObject, value: *const c_void) -> Outcome {
    if value.is_null() {
        return Err(Failure::null("the value"));
    }
    let mut bytes = object.scalar()?;
    // SAFETY: by contract.
    unsafe { value.cast::<u8>().copy_to_nonoverlapping(bytes.as_mut_ptr(), object.scalar_bytes()) };
    object.set_scalar(bytes)
}

//! Allocators of temporary memory, and engines with one.

use anydnn_opencl::{OpenClEngine, UserAllocator};

use super::types::*;
use crate::boundary::{self, Outcome};
use crate::engine;
use crate::handle::{self, Handle};
use crate::interop;
use crate::object_types::{cl_context, cl_device_id, dnnl_engine_kind_t, dnnl_engine_t};
use crate::types::dnnl_status_t;

/// Makes an allocator of the host's memory. Engines here take their working memory from devices, so it is never called; it is there
/// for programs that make one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_allocator_create(
    allocator: *mut dnnl_graph_allocator_t,
    _host_malloc: dnnl_graph_host_allocate_f,
    _host_free: dnnl_graph_host_deallocate_f,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_allocator_create", || {
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(allocator, || Ok(AllocatorObject { user: None })) }
    })
}

/// Makes an allocator of memory that devices reach by address. With a null callback it is the library's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_ocl_interop_allocator_create(
    allocator: *mut dnnl_graph_allocator_t,
    ocl_malloc: dnnl_graph_ocl_allocate_f,
    ocl_free: dnnl_graph_ocl_deallocate_f,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_ocl_interop_allocator_create", || {
        let make = || {
            let user = ocl_malloc.zip(ocl_free).map(|(allocate, free)| {
                // SAFETY: the caller vouches for callbacks that allocate such memory, and keep it until it is freed.
                unsafe {
                    UserAllocator::new(
                        move |bytes, alignment, device, context| {
                            allocate(bytes, alignment, device.cast(), context.cast())
                        },
                        move |pointer, device, context, event| {
                            let event = event.unwrap_or(std::ptr::null_mut());
                            free(pointer, device.cast(), context.cast(), event.cast());
                        },
                    )
                }
            });
            Ok(AllocatorObject { user })
        };
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(allocator, make) }
    })
}

/// Ends an allocator; null is none. Engines that were made with it keep its callbacks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_allocator_destroy(allocator: dnnl_graph_allocator_t) -> dnnl_status_t {
    boundary::status("dnnl_graph_allocator_destroy", || {
        // SAFETY: the caller passes null or an allocator that lives, and gives it up.
        unsafe { handle::destroy(allocator) }
    })
}

/// Makes an engine on the device of that index, with an allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_make_engine_with_allocator(
    engine: *mut dnnl_engine_t,
    kind: dnnl_engine_kind_t,
    index: usize,
    alloc: const_dnnl_graph_allocator_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_make_engine_with_allocator", || {
        // SAFETY: the caller passes null or an allocator that lives.
        let allocator = unsafe { handle::borrow(alloc) }?;
        // SAFETY: the caller passes null or a handle to write.
        unsafe { engine::create_at(engine, || allocator.on(engine::at_index(kind, index)?)) }
    })
}

/// Makes an engine on the user's device and context, with an allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_ocl_interop_make_engine_with_allocator(
    engine: *mut dnnl_engine_t,
    device: cl_device_id,
    context: cl_context,
    alloc: const_dnnl_graph_allocator_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_ocl_interop_make_engine_with_allocator", || {
        // SAFETY: the caller passes null or an allocator that lives.
        let allocator = unsafe { handle::borrow(alloc) }?;
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { interop::create_engine_as(engine, device, context, None, |engine| allocator.on(engine)) }
    })
}

/// Makes an engine on the user's device and context from a cache blob, with an allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_ocl_interop_make_engine_from_cache_blob_with_allocator(
    engine: *mut dnnl_engine_t,
    device: cl_device_id,
    context: cl_context,
    alloc: const_dnnl_graph_allocator_t,
    size: usize,
    cache_blob: *const u8,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_ocl_interop_make_engine_from_cache_blob_with_allocator", || {
        // SAFETY: the caller passes null or an allocator that lives.
        let allocator = unsafe { handle::borrow(alloc) }?;
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe {
            let blob = handle::slice(cache_blob, size, "cache_blob")?;
            interop::create_engine_as(engine, device, context, Some(blob), |engine| allocator.on(engine))
        }
    })
}

/// What is behind an allocator's handle.
#[derive(Debug)]
pub(crate) struct AllocatorObject {
    /// The user's callbacks; none for the library's own memory.
    user: Option<UserAllocator>,
}

impl Handle for dnnl_graph_allocator {
    type Value = AllocatorObject;
    const TAG: u64 = u64::from_le_bytes(*b"any-allo");
    const NAME: &'static str = "allocator";
}

impl AllocatorObject {
    /// The engine with this allocator.
    fn on(&self, engine: OpenClEngine) -> Outcome<OpenClEngine> {
        match &self.user {
            Some(user) => Ok(engine.with_allocator(user.clone())?),
            None => Ok(engine),
        }
    }
}

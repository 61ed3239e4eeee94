//! Allocators of temporary memory, and engines with one.

use anydnn::select::AnyEngine;
use anydnn_opencl::OpenClEngine;

use super::types::*;
use crate::boundary::{self, Outcome};
use crate::engine;
use crate::handle::{self, Handle};
use crate::interop;
use crate::object_types::{cl_context, cl_device_id, dnnl_engine_kind_t, dnnl_engine_t};
use crate::types::dnnl_status_t;

/// Makes an allocator of the host's memory, for the working memory of graphs on the host. With a null callback it is the library's own. Engines
/// of devices take their working memory from the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_allocator_create(
    allocator: *mut dnnl_graph_allocator_t,
    host_malloc: dnnl_graph_host_allocate_f,
    host_free: dnnl_graph_host_deallocate_f,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_allocator_create", || {
        let make = || {
            let user = host_malloc.zip(host_free).map(|(allocate, free)| {
                // SAFETY: the caller vouches for callbacks that allocate such memory, and keep it until it is freed.
                let user = unsafe {
                    anydnn_host::UserAllocator::new(
                        move |bytes, alignment| allocate(bytes, alignment),
                        move |pointer| free(pointer),
                    )
                };
                User::Host(user)
            });
            Ok(AllocatorObject { user })
        };
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(allocator, make) }
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
                let user = unsafe {
                    anydnn_opencl::UserAllocator::new(
                        move |bytes, alignment, device, context| {
                            allocate(bytes, alignment, device.cast(), context.cast())
                        },
                        move |pointer, device, context, event| {
                            let event = event.unwrap_or(std::ptr::null_mut());
                            free(pointer, device.cast(), context.cast(), event.cast());
                        },
                    )
                };
                User::Device(user)
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
        unsafe { engine::create_at(engine, || allocator.on_any(engine::at_index(kind, index)?)) }
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
    user: Option<User>,
}

/// The user's callbacks.
#[derive(Debug)]
enum User {
    /// Of the host's memory.
    Host(anydnn_host::UserAllocator),
    /// Of memory that devices reach.
    Device(anydnn_opencl::UserAllocator),
}

impl Handle for dnnl_graph_allocator {
    type Value = AllocatorObject;
    const TAG: u64 = u64::from_le_bytes(*b"any-allo");
    const NAME: &'static str = "allocator";
}

impl AllocatorObject {
    /// The engine with this allocator, where it is one for engines of that kind.
    fn on_any(&self, engine: AnyEngine) -> Outcome<AnyEngine> {
        match (engine, &self.user) {
            (AnyEngine::Host(engine), Some(User::Host(user))) => {
                Ok(engine.with_allocator(user.clone()).into())
            }
            (AnyEngine::OpenCl(engine), _) => Ok(self.on(engine)?.into()),
            (engine, _) => Ok(engine),
        }
    }

    /// The engine of a device with this allocator.
    fn on(&self, engine: OpenClEngine) -> Outcome<OpenClEngine> {
        match &self.user {
            Some(User::Device(user)) => Ok(engine.with_allocator(user.clone())?),
            Some(User::Host(_)) | None => Ok(engine),
        }
    }
}

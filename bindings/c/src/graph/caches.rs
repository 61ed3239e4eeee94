//! The caches of the process.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use anydnn::partition::{ConstantCache, PartitionCache};
use anydnn_backend::DeviceKind;
use anydnn_opencl::OpenCl;

use crate::boundary::{self, Failure, Outcome};
use crate::handle;
use crate::object_types::{dnnl_cpu, dnnl_engine_kind_t, dnnl_gpu};
use crate::types::dnnl_status_t;

/// Tells how many compiled partitions are kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_get_compiled_partition_cache_capacity(
    capacity: *mut c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_get_compiled_partition_cache_capacity", || {
        let own = c_int::try_from(PartitionCache::<OpenCl>::process().capacity()).unwrap_or(c_int::MAX);
        // SAFETY: the caller passes null or a number to write.
        unsafe { handle::write(capacity, "capacity", own) }
    })
}

/// Sets how many compiled partitions are kept; zero for none.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_graph_set_compiled_partition_cache_capacity(capacity: c_int) -> dnnl_status_t {
    boundary::status("dnnl_graph_set_compiled_partition_cache_capacity", || {
        let given = usize::try_from(capacity).map_err(|_| {
            Failure::invalid(format!("capacity is {capacity}, expected none that is negative"))
        })?;
        PartitionCache::<OpenCl>::process().set_capacity(given);
        Ok(())
    })
}

/// Switches the cache of what follows from constant tensors on, without bound, or off.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_graph_set_constant_tensor_cache(flag: c_int) -> dnnl_status_t {
    boundary::status("dnnl_graph_set_constant_tensor_cache", || {
        if flag < 0 {
            return Err(Failure::invalid(format!("flag is {flag}, expected zero or more")));
        }
        set_bytes(if flag == 0 { 0 } else { usize::MAX });
        Ok(())
    })
}

/// Tells whether the cache of what follows from constant tensors is on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_get_constant_tensor_cache(flag: *mut c_int) -> dnnl_status_t {
    boundary::status("dnnl_graph_get_constant_tensor_cache", || {
        let is_on = ConstantCache::<OpenCl>::process().kind_capacity(DeviceKind::Gpu) > 0;
        // SAFETY: the caller passes null or a number to write.
        unsafe { handle::write(flag, "flag", c_int::from(is_on)) }
    })
}

/// Sets how many megabytes of what follows from constant tensors are kept for each engine of a kind. What was kept is forgotten.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_graph_set_constant_tensor_cache_capacity(
    eng_kind: dnnl_engine_kind_t,
    size: usize,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_set_constant_tensor_cache_capacity", || {
        if is_ours(eng_kind)? {
            set_bytes(size.saturating_mul(MEGABYTE));
        } else {
            OF_NO_ENGINE.store(size, Ordering::Relaxed);
        }
        Ok(())
    })
}

/// Tells how many megabytes of what follows from constant tensors are kept for each engine of a kind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_get_constant_tensor_cache_capacity(
    eng_kind: dnnl_engine_kind_t,
    size: *mut usize,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_get_constant_tensor_cache_capacity", || {
        let megabytes = if is_ours(eng_kind)? {
            ConstantCache::<OpenCl>::process().kind_capacity(DeviceKind::Gpu) / MEGABYTE
        } else {
            OF_NO_ENGINE.load(Ordering::Relaxed)
        };
        // SAFETY: the caller passes null or a number to write.
        unsafe { handle::write(size, "size", megabytes) }
    })
}

const MEGABYTE: usize = 1 << 20;

/// What was set for engines of kind `dnnl_cpu`, of which there are none: programs read it back.
static OF_NO_ENGINE: AtomicUsize = AtomicUsize::new(0);

/// Whether engines of a kind are there at all. Any OpenCL device, processors too, is one of kind `dnnl_gpu`.
fn is_ours(kind: dnnl_engine_kind_t) -> Outcome<bool> {
    match kind {
        dnnl_gpu => Ok(true),
        dnnl_cpu => Ok(false),
        other => Err(Failure::invalid(format!("{other} is no kind of engine with constant tensors"))),
    }
}

fn set_bytes(bytes: usize) {
    let cache = ConstantCache::<OpenCl>::process();
    cache.set_kind_capacity(DeviceKind::Cpu, bytes);
    cache.set_kind_capacity(DeviceKind::Gpu, bytes);
}

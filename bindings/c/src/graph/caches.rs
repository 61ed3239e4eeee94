//! The caches of the process.

use std::ffi::c_int;
use std::sync::OnceLock;

use anydnn::partition::{ConstantCache, PartitionCache};
use anydnn::select::AnyBackend;
use anydnn_backend::DeviceKind;

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
        let own = c_int::try_from(PartitionCache::<AnyBackend>::process().capacity()).unwrap_or(c_int::MAX);
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
        PartitionCache::<AnyBackend>::process().set_capacity(given);
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
        for kind in [dnnl_cpu, dnnl_gpu] {
            set_bytes(kind, if flag == 0 { 0 } else { usize::MAX });
        }
        Ok(())
    })
}

/// Tells whether the cache of what follows from constant tensors is on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_get_constant_tensor_cache(flag: *mut c_int) -> dnnl_status_t {
    boundary::status("dnnl_graph_get_constant_tensor_cache", || {
        let is_on = [dnnl_cpu, dnnl_gpu].into_iter().any(|kind| bytes(kind) > 0);
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
        set_bytes(checked(eng_kind)?, size.saturating_mul(MEGABYTE));
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
        let megabytes = bytes(checked(eng_kind)?) / MEGABYTE;
        // SAFETY: the caller passes null or a number to write.
        unsafe { handle::write(size, "size", megabytes) }
    })
}

const MEGABYTE: usize = 1 << 20;

/// The cache of engines of a kind: processors are of both, as the host and as devices of OpenCL.
pub(super) fn constants(kind: dnnl_engine_kind_t) -> ConstantCache<AnyBackend> {
    static HOST: OnceLock<ConstantCache<AnyBackend>> = OnceLock::new();
    static DEVICES: OnceLock<ConstantCache<AnyBackend>> = OnceLock::new();
    let (cache, kind) = if kind == dnnl_cpu { (&HOST, DeviceKind::Cpu) } else { (&DEVICES, DeviceKind::Gpu) };
    // At first there is as much room as the environment says.
    cache
        .get_or_init(|| ConstantCache::new(ConstantCache::<AnyBackend>::process().kind_capacity(kind)))
        .clone()
}

/// A kind of engine, which must be one.
fn checked(kind: dnnl_engine_kind_t) -> Outcome<dnnl_engine_kind_t> {
    match kind {
        dnnl_cpu | dnnl_gpu => Ok(kind),
        other => Err(Failure::invalid(format!("{other} is no kind of engine with constant tensors"))),
    }
}

fn bytes(kind: dnnl_engine_kind_t) -> usize {
    constants(kind).kind_capacity(DeviceKind::Gpu)
}

fn set_bytes(kind: dnnl_engine_kind_t, bytes: usize) {
    for device in [DeviceKind::Cpu, DeviceKind::Gpu] {
        constants(kind).set_kind_capacity(device, bytes);
    }
}

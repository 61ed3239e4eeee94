//! Partitions.

use anydnn::partition::Partition;

use super::logical_tensor::from_tensor;
use super::open::device_kind;
use super::types::*;
use crate::boundary::{self, Failure, Outcome};
use crate::handle::{self, Handle};
use crate::object_types::dnnl_engine_kind_t;
use crate::types::dnnl_status_t;

/// Makes a partition of one operation that is in no graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_partition_create_with_op(
    partition: *mut dnnl_graph_partition_t,
    op: const_dnnl_graph_op_t,
    ekind: dnnl_engine_kind_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_partition_create_with_op", || {
        let make = || {
            // SAFETY: the caller passes null or an operation that lives.
            let described = unsafe { handle::borrow(op) }?.lock().clone();
            let partition = Partition::of_op(described.op, &described.tensors, device_kind(ekind)?)?;
            Ok(PartitionObject { partition, kind: ekind })
        };
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(partition, make) }
    })
}

/// Ends a partition; null is none. What was compiled of it lives on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_partition_destroy(partition: dnnl_graph_partition_t) -> dnnl_status_t {
    boundary::status("dnnl_graph_partition_destroy", || {
        // SAFETY: the caller passes null or a partition that lives, and gives it up.
        unsafe { handle::destroy(partition) }
    })
}

/// Tells the number of operations.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_partition_get_op_num(
    partition: const_dnnl_graph_partition_t,
    num: *mut usize,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_partition_get_op_num", || {
        // SAFETY: the caller passes null or a partition that lives.
        let count = unsafe { handle::borrow(partition) }?.partition.ops().count();
        // SAFETY: the caller passes null or a number to write.
        unsafe { handle::write(num, "num", count) }
    })
}

/// Tells the identities of the operations; `num` is exactly their number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_partition_get_ops(
    partition: dnnl_graph_partition_t,
    num: usize,
    ids: *mut usize,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_partition_get_ops", || {
        // SAFETY: the caller passes null or a partition that lives.
        let partition = unsafe { handle::borrow(partition) }?;
        let own: Vec<usize> = partition.partition.ops().map(|op| op.id.0 as usize).collect();
        // SAFETY: the caller passes null or room for so many.
        unsafe { fill(&own, num, ids, "ids") }
    })
}

/// Tells the identity of a partition.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_partition_get_id(
    partition: const_dnnl_graph_partition_t,
    id: *mut usize,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_partition_get_id", || {
        // SAFETY: the caller passes null or a partition that lives.
        let number = unsafe { handle::borrow(partition) }?.partition.id().0 as usize;
        // SAFETY: the caller passes null or a number to write.
        unsafe { handle::write(id, "id", number) }
    })
}

/// Tells the number of tensors that come from outside.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_partition_get_input_ports_num(
    partition: const_dnnl_graph_partition_t,
    num: *mut usize,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_partition_get_input_ports_num", || {
        // SAFETY: the caller passes null or a partition that lives.
        let count = unsafe { handle::borrow(partition) }?.partition.inputs().len();
        // SAFETY: the caller passes null or a number to write.
        unsafe { handle::write(num, "num", count) }
    })
}

/// Tells the tensors that come from outside; `num` is exactly their number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_partition_get_input_ports(
    partition: const_dnnl_graph_partition_t,
    num: usize,
    inputs: *mut dnnl_graph_logical_tensor_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_partition_get_input_ports", || {
        // SAFETY: the caller passes null or a partition that lives.
        let tensors = unsafe { handle::borrow(partition) }?.partition.inputs();
        let tensors = tensors.iter().map(from_tensor).collect::<Outcome<Vec<_>>>()?;
        // SAFETY: the caller passes null or room for so many.
        unsafe { fill(&tensors, num, inputs, "inputs") }
    })
}

/// Tells the number of tensors that leave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_partition_get_output_ports_num(
    partition: const_dnnl_graph_partition_t,
    num: *mut usize,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_partition_get_output_ports_num", || {
        // SAFETY: the caller passes null or a partition that lives.
        let count = unsafe { handle::borrow(partition) }?.partition.outputs().len();
        // SAFETY: the caller passes null or a number to write.
        unsafe { handle::write(num, "num", count) }
    })
}

/// Tells the tensors that leave; `num` is exactly their number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_partition_get_output_ports(
    partition: const_dnnl_graph_partition_t,
    num: usize,
    outputs: *mut dnnl_graph_logical_tensor_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_partition_get_output_ports", || {
        // SAFETY: the caller passes null or a partition that lives.
        let tensors = unsafe { handle::borrow(partition) }?.partition.outputs();
        let tensors = tensors.iter().map(from_tensor).collect::<Outcome<Vec<_>>>()?;
        // SAFETY: the caller passes null or room for so many.
        unsafe { fill(&tensors, num, outputs, "outputs") }
    })
}

/// Tells whether a partition can be compiled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_partition_is_supported(
    partition: const_dnnl_graph_partition_t,
    is_supported: *mut u8,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_partition_is_supported", || {
        // SAFETY: the caller passes null or a partition that lives.
        let is = unsafe { handle::borrow(partition) }?.partition.is_supported();
        // SAFETY: the caller passes null or a truth value to write.
        unsafe { handle::write(is_supported, "is_supported", u8::from(is)) }
    })
}

/// Tells the kind of engine that a partition is for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_partition_get_engine_kind(
    partition: const_dnnl_graph_partition_t,
    kind: *mut dnnl_engine_kind_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_partition_get_engine_kind", || {
        // SAFETY: the caller passes null or a partition that lives.
        let own = unsafe { handle::borrow(partition) }?.kind;
        // SAFETY: the caller passes null or a kind to write.
        unsafe { handle::write(kind, "kind", own) }
    })
}

/// What is behind a partition's handle.
#[derive(Clone, Debug)]
pub(crate) struct PartitionObject {
    pub(super) partition: Partition,
    pub(super) kind: dnnl_engine_kind_t,
}

impl Handle for dnnl_graph_partition {
    type Value = PartitionObject;
    const TAG: u64 = u64::from_le_bytes(*b"any-part");
    const NAME: &'static str = "partition";
}

/// Stores a list for which the caller has exactly the right room.
///
/// # Safety
/// `out` is null or can take `room` values.
unsafe fn fill<T: Copy>(values: &[T], room: usize, out: *mut T, what: &str) -> Outcome {
    if room != values.len() {
        return Err(Failure::invalid(format!("num is {room}, expected {}", values.len())));
    }
    if values.is_empty() {
        return Ok(());
    }
    if out.is_null() {
        return Err(Failure::null(what));
    }
    for (i, value) in values.iter().enumerate() {
        // SAFETY: the caller vouches for the room.
        unsafe { out.add(i).write_unaligned(*value) };
    }
    Ok(())
}

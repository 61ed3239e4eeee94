//! The types and constants of the graph API. Enumerations are integers, because C may pass any.

use std::ffi::{c_int, c_uint, c_void};
use std::fmt;

use crate::object_types::{cl_context, cl_device_id, cl_event};
use crate::types::{dnnl_data_type_t, dnnl_dims_t};

/// The number of dimensions is not known.
pub const DNNL_GRAPH_UNKNOWN_NDIMS: c_int = -1;
/// A dimension or stride is not known.
pub const DNNL_GRAPH_UNKNOWN_DIM: i64 = i64::MIN;

/// How a layout is told.
pub type dnnl_graph_layout_type_t = c_int;
/// Not at all.
pub const dnnl_graph_layout_type_undef: dnnl_graph_layout_type_t = 0;
/// The implementation chooses.
pub const dnnl_graph_layout_type_any: dnnl_graph_layout_type_t = 1;
/// By strides.
pub const dnnl_graph_layout_type_strided: dnnl_graph_layout_type_t = 2;
/// By a number that a compiled partition gave.
pub const dnnl_graph_layout_type_opaque: dnnl_graph_layout_type_t = 3;

/// The role of a tensor.
pub type dnnl_graph_tensor_property_t = c_int;
/// Not told.
pub const dnnl_graph_tensor_property_undef: dnnl_graph_tensor_property_t = 0;
/// Different on every execution.
pub const dnnl_graph_tensor_property_variable: dnnl_graph_tensor_property_t = 1;
/// The same on every execution.
pub const dnnl_graph_tensor_property_constant: dnnl_graph_tensor_property_t = 2;
/// One value on the host.
pub const dnnl_graph_tensor_property_host_scalar: dnnl_graph_tensor_property_t = 3;

/// A logical tensor: what a graph knows of a tensor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dnnl_graph_logical_tensor_t {
    /// Its identity.
    pub id: usize,
    /// The number of dimensions, or [`DNNL_GRAPH_UNKNOWN_NDIMS`].
    pub ndims: c_int,
    /// The dimensions, each of which may be [`DNNL_GRAPH_UNKNOWN_DIM`].
    pub dims: dnnl_dims_t,
    /// The element type.
    pub data_type: dnnl_data_type_t,
    /// The role.
    pub property: dnnl_graph_tensor_property_t,
    /// Which field of the layout holds.
    pub layout_type: dnnl_graph_layout_type_t,
    /// The layout.
    pub layout: dnnl_graph_layout_t,
}

/// The layout of a logical tensor.
#[repr(C)]
#[derive(Clone, Copy)]
pub union dnnl_graph_layout_t {
    /// Strides in elements.
    pub strides: dnnl_dims_t,
    /// The number of an opaque layout.
    pub layout_id: usize,
}

impl fmt::Debug for dnnl_graph_logical_tensor_t {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "logical tensor {}", self.id)
    }
}

impl fmt::Debug for dnnl_graph_layout_t {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("layout")
    }
}

/// How far fusion goes.
pub type dnnl_graph_partition_policy_t = c_int;
/// As far as patterns allow.
pub const dnnl_graph_partition_policy_fusion: dnnl_graph_partition_policy_t = 1;
/// Not at all.
pub const dnnl_graph_partition_policy_debug: dnnl_graph_partition_policy_t = 2;

/// What is written to files, in bits.
pub type dnnl_graph_dump_mode_t = c_uint;
/// Nothing.
pub const dnnl_graph_dump_mode_none: dnnl_graph_dump_mode_t = 0;
/// Partitions as they are compiled.
pub const dnnl_graph_dump_mode_subgraph: dnnl_graph_dump_mode_t = 1;
/// Graphs, whole and partitioned.
pub const dnnl_graph_dump_mode_graph: dnnl_graph_dump_mode_t = 2;

/// A kind of operation, numbered in the order of oneDNN's enumeration.
pub type dnnl_graph_op_kind_t = c_int;
/// An attribute of an operation.
pub type dnnl_graph_op_attr_t = c_int;

/// An operation of a graph.
#[derive(Debug)]
pub struct dnnl_graph_op(());
/// A handle of an operation.
pub type dnnl_graph_op_t = *mut dnnl_graph_op;
/// A handle of an operation that is only read.
pub type const_dnnl_graph_op_t = *const dnnl_graph_op;

/// A graph.
#[derive(Debug)]
pub struct dnnl_graph_graph(());
/// A handle of a graph.
pub type dnnl_graph_graph_t = *mut dnnl_graph_graph;
/// A handle of a graph that is only read.
pub type const_dnnl_graph_graph_t = *const dnnl_graph_graph;

/// A partition of a graph.
#[derive(Debug)]
pub struct dnnl_graph_partition(());
/// A handle of a partition.
pub type dnnl_graph_partition_t = *mut dnnl_graph_partition;
/// A handle of a partition that is only read.
pub type const_dnnl_graph_partition_t = *const dnnl_graph_partition;

/// A partition compiled for an engine.
#[derive(Debug)]
pub struct dnnl_graph_compiled_partition(());
/// A handle of a compiled partition.
pub type dnnl_graph_compiled_partition_t = *mut dnnl_graph_compiled_partition;
/// A handle of a compiled partition that is only read.
pub type const_dnnl_graph_compiled_partition_t = *const dnnl_graph_compiled_partition;

/// A tensor: a logical tensor with bytes.
#[derive(Debug)]
pub struct dnnl_graph_tensor(());
/// A handle of a tensor.
pub type dnnl_graph_tensor_t = *mut dnnl_graph_tensor;
/// A handle of a tensor that is only read.
pub type const_dnnl_graph_tensor_t = *const dnnl_graph_tensor;

/// An allocator of temporary memory.
#[derive(Debug)]
pub struct dnnl_graph_allocator(());
/// A handle of an allocator.
pub type dnnl_graph_allocator_t = *mut dnnl_graph_allocator;
/// A handle of an allocator that is only read.
pub type const_dnnl_graph_allocator_t = *const dnnl_graph_allocator;

/// Allocates memory of the host.
pub type dnnl_graph_host_allocate_f =
    Option<unsafe extern "C" fn(size: usize, alignment: usize) -> *mut c_void>;
/// Frees memory of the host.
pub type dnnl_graph_host_deallocate_f = Option<unsafe extern "C" fn(buffer: *mut c_void)>;
/// Allocates memory that a device reaches by address. An alignment of zero is any.
pub type dnnl_graph_ocl_allocate_f = Option<
    unsafe extern "C" fn(
        size: usize,
        alignment: usize,
        device: cl_device_id,
        context: cl_context,
    ) -> *mut c_void,
>;
/// Frees memory after an event, which may be null for at once.
pub type dnnl_graph_ocl_deallocate_f = Option<
    unsafe extern "C" fn(buffer: *mut c_void, device: cl_device_id, context: cl_context, event: cl_event),
>;

/// An input whose memory may be that of an output.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dnnl_graph_inplace_pair_t {
    /// The input's identity.
    pub input_id: usize,
    /// The output's identity.
    pub output_id: usize,
}

//! The functions of oneDNN's graph API that are called, by their published declarations.

use std::ffi::{c_char, c_int, c_void};

use libloading::Library;

use super::api::{Dims, Handle};

pub(super) const ANY: c_int = 1;
pub(super) const STRIDED: c_int = 2;
pub(super) const VARIABLE: c_int = 1;
pub(super) const CONSTANT: c_int = 2;
pub(super) const FUSION: c_int = 1;
pub(super) const CPU: c_int = 1;

/// `dnnl_graph_logical_tensor_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LogicalTensor {
    pub(super) id: usize,
    pub(super) ndims: c_int,
    pub(super) dims: Dims,
    pub(super) data_type: c_int,
    pub(super) property: c_int,
    pub(super) layout_type: c_int,
    pub(super) strides: Dims,
}

macro_rules! api {
    ($($field:ident: $name:ident($($arg:ty),*);)*) => {
        #[derive(Debug)]
        pub(super) struct GraphApi { $(pub(super) $field: unsafe extern "C" fn($($arg),*) -> c_int,)* }

        impl GraphApi {
            pub(super) fn of(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of the published headers, and the library stays loaded as long as the process.
                unsafe { Ok(Self { $($field: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)* }) }
            }
        }
    };
}

api! {
    op_create: dnnl_graph_op_create(*mut Handle, usize, c_int, *const c_char);
    op_destroy: dnnl_graph_op_destroy(Handle);
    op_input: dnnl_graph_op_add_input(Handle, *const LogicalTensor);
    op_output: dnnl_graph_op_add_output(Handle, *const LogicalTensor);
    attr_f32: dnnl_graph_op_set_attr_f32(Handle, c_int, *const f32, usize);
    attr_bool: dnnl_graph_op_set_attr_bool(Handle, c_int, *const u8, usize);
    attr_s64: dnnl_graph_op_set_attr_s64(Handle, c_int, *const i64, usize);
    attr_str: dnnl_graph_op_set_attr_str(Handle, c_int, *const c_char, usize);
    graph_create: dnnl_graph_graph_create(*mut Handle, c_int);
    graph_destroy: dnnl_graph_graph_destroy(Handle);
    graph_add: dnnl_graph_add_op(Handle, Handle);
    graph_finalize: dnnl_graph_graph_finalize(Handle);
    graph_filter: dnnl_graph_graph_filter(Handle, c_int);
    partition_count: dnnl_graph_graph_get_partition_num(Handle, *mut usize);
    partitions: dnnl_graph_graph_get_partitions(Handle, usize, *mut Handle);
    partition_destroy: dnnl_graph_partition_destroy(Handle);
    is_supported: dnnl_graph_partition_is_supported(Handle, *mut u8);
    input_count: dnnl_graph_partition_get_input_ports_num(Handle, *mut usize);
    inputs: dnnl_graph_partition_get_input_ports(Handle, usize, *mut LogicalTensor);
    output_count: dnnl_graph_partition_get_output_ports_num(Handle, *mut usize);
    outputs: dnnl_graph_partition_get_output_ports(Handle, usize, *mut LogicalTensor);
    compiled_create: dnnl_graph_compiled_partition_create(*mut Handle, Handle);
    compiled_destroy: dnnl_graph_compiled_partition_destroy(Handle);
    compile: dnnl_graph_partition_compile(
        Handle, Handle, usize, *const *const LogicalTensor, usize, *const *const LogicalTensor, Handle);
    compiled_tensor: dnnl_graph_compiled_partition_query_logical_tensor(Handle, usize, *mut LogicalTensor);
    tensor_size: dnnl_graph_logical_tensor_get_mem_size(*const LogicalTensor, *mut usize);
    execute: dnnl_graph_compiled_partition_execute(Handle, Handle, usize, *const Handle, usize, *const Handle);
    tensor_create: dnnl_graph_tensor_create(*mut Handle, *const LogicalTensor, Handle, *mut c_void);
    tensor_destroy: dnnl_graph_tensor_destroy(Handle);
    constant_capacity: dnnl_graph_set_constant_tensor_cache_capacity(c_int, usize);
}

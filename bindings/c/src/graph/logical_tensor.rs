//! Logical tensors: values of C, and what the library makes of them.

use std::ffi::c_int;

use anydnn::graph::{LogicalTensor, Property, TensorId, TensorLayout};
use anydnn_backend::DataType;

use super::types::*;
use crate::boundary::{self, Failure, Outcome};
use crate::desc::{number, type_code};
use crate::handle;
use crate::types::{
    dnnl_data_type_t, dnnl_data_type_undef, dnnl_dims_t, dnnl_f32, dnnl_invalid_arguments, dnnl_s32,
    dnnl_s64, dnnl_status_t,
};

const MAX_NDIMS: c_int = 12;

/// Fills in a logical tensor of unknown dimensions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_logical_tensor_init(
    logical_tensor: *mut dnnl_graph_logical_tensor_t,
    tid: usize,
    dtype: dnnl_data_type_t,
    ndims: i32,
    ltype: dnnl_graph_layout_type_t,
    ptype: dnnl_graph_tensor_property_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_logical_tensor_init", || {
        if ndims < 0 {
            check_host_scalar(dtype, 0, ptype)?;
        } else {
            check(ndims, dtype, ptype)?;
        }
        let mut tensor = empty(tid, dtype, ltype, ptype);
        tensor.ndims = ndims.max(DNNL_GRAPH_UNKNOWN_NDIMS);
        // SAFETY: the caller passes null or a logical tensor to write.
        unsafe { handle::write(logical_tensor, "logical_tensor", tensor) }
    })
}

/// Fills in a logical tensor. One with strides gets those of the dense row-major layout where all dimensions are known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_logical_tensor_init_with_dims(
    logical_tensor: *mut dnnl_graph_logical_tensor_t,
    tid: usize,
    dtype: dnnl_data_type_t,
    ndims: i32,
    dims: *const i64,
    ltype: dnnl_graph_layout_type_t,
    ptype: dnnl_graph_tensor_property_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_logical_tensor_init_with_dims", || {
        check(ndims, dtype, ptype)?;
        let mut tensor = empty(tid, dtype, ltype, ptype);
        tensor.ndims = ndims;
        // SAFETY: the caller passes null or so many dimensions.
        let dims = unsafe { handle::slice(dims, ndims as usize, "dims") }?;
        tensor.dims[..dims.len()].copy_from_slice(dims);
        if ltype == dnnl_graph_layout_type_strided && dims.iter().all(|&dim| dim >= 0) {
            let mut strides = [DNNL_GRAPH_UNKNOWN_DIM; 12];
            let mut stride = 1_i64;
            for (to, &dim) in strides[..dims.len()].iter_mut().zip(dims).rev() {
                *to = stride;
                stride = stride.saturating_mul(dim.max(1));
            }
            tensor.layout = dnnl_graph_layout_t { strides };
        }
        // SAFETY: the caller passes null or a logical tensor to write.
        unsafe { handle::write(logical_tensor, "logical_tensor", tensor) }
    })
}

/// Fills in a logical tensor with strides in elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_logical_tensor_init_with_strides(
    logical_tensor: *mut dnnl_graph_logical_tensor_t,
    tid: usize,
    dtype: dnnl_data_type_t,
    ndims: i32,
    dims: *const i64,
    strides: *const i64,
    ptype: dnnl_graph_tensor_property_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_logical_tensor_init_with_strides", || {
        check(ndims, dtype, ptype)?;
        let mut tensor = empty(tid, dtype, dnnl_graph_layout_type_strided, ptype);
        tensor.ndims = ndims;
        // SAFETY: the caller passes null or so many dimensions and strides.
        let (dims, given) = unsafe {
            (handle::slice(dims, ndims as usize, "dims")?, handle::slice(strides, ndims as usize, "strides")?)
        };
        tensor.dims[..dims.len()].copy_from_slice(dims);
        let mut strides = [DNNL_GRAPH_UNKNOWN_DIM; 12];
        strides[..given.len()].copy_from_slice(given);
        tensor.layout = dnnl_graph_layout_t { strides };
        // SAFETY: the caller passes null or a logical tensor to write.
        unsafe { handle::write(logical_tensor, "logical_tensor", tensor) }
    })
}

/// Tells the bytes that a tensor takes: the largest number where that is not known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_logical_tensor_get_mem_size(
    logical_tensor: *const dnnl_graph_logical_tensor_t,
    size: *mut usize,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_logical_tensor_get_mem_size", || {
        // SAFETY: the caller passes null or a logical tensor.
        let given = unsafe { read(logical_tensor) }?;
        let tensor = to_tensor(&given)?;
        let is_open = matches!(given.layout_type, dnnl_graph_layout_type_undef | dnnl_graph_layout_type_any);
        let bytes = match tensor.memory_desc() {
            Ok(desc) if !is_open => desc.size(),
            _ => usize::MAX,
        };
        // SAFETY: the caller passes null or a size to write.
        unsafe { handle::write(size, "size", bytes) }
    })
}

/// Tells whether two logical tensors are the same, or at least the same bytes mean the same under both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_logical_tensor_is_equal(
    lt1: *const dnnl_graph_logical_tensor_t,
    lt2: *const dnnl_graph_logical_tensor_t,
    is_equal: *mut u8,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_logical_tensor_is_equal", || {
        // SAFETY: the caller passes null or logical tensors.
        let (a, b) = unsafe { (read(lt1)?, read(lt2)?) };
        let equal = is_same(&a, &b)?;
        // SAFETY: the caller passes null or a truth value to write.
        unsafe { handle::write(is_equal, "is_equal", u8::from(equal)) }
    })
}

fn is_same(a: &dnnl_graph_logical_tensor_t, b: &dnnl_graph_logical_tensor_t) -> Outcome<bool> {
    let (one, other) = (to_tensor(a)?, to_tensor(b)?);
    let alike = a.id == b.id
        && a.ndims == b.ndims
        && one.dims == other.dims
        && a.data_type == b.data_type
        && a.property == b.property;
    if !alike || a.layout_type == b.layout_type {
        return Ok(alike && one.layout == other.layout);
    }
    let told = |tensor: &dnnl_graph_logical_tensor_t| {
        matches!(tensor.layout_type, dnnl_graph_layout_type_strided | dnnl_graph_layout_type_opaque)
    };
    Ok(match (one.memory_desc(), other.memory_desc()) {
        (Ok(a_desc), Ok(b_desc)) if told(a) && told(b) => a_desc.same_bytes(&b_desc),
        _ => false,
    })
}

/// A logical tensor of C, by value.
///
/// # Safety
/// `tensor` is null or a logical tensor.
pub(super) unsafe fn read(
    tensor: *const dnnl_graph_logical_tensor_t,
) -> Outcome<dnnl_graph_logical_tensor_t> {
    if tensor.is_null() {
        return Err(Failure::null("logical_tensor"));
    }
    // SAFETY: the caller vouches for it.
    Ok(unsafe { tensor.read_unaligned() })
}

/// Logical tensors behind an array of pointers.
///
/// # Safety
/// `tensors` is null or `count` pointers, each null or to a logical tensor.
pub(super) unsafe fn read_all(
    tensors: *const *const dnnl_graph_logical_tensor_t,
    count: usize,
    what: &str,
) -> Outcome<Vec<LogicalTensor>> {
    // SAFETY: by contract.
    let pointers = unsafe { handle::slice(tensors, count, what) }?;
    // SAFETY: by contract.
    pointers.iter().map(|&tensor| to_tensor(&unsafe { read(tensor) }?)).collect()
}

/// What the library knows a logical tensor of C as.
pub(super) fn to_tensor(given: &dnnl_graph_logical_tensor_t) -> Outcome<LogicalTensor> {
    let number_of = |dim: i64, what: &str| match dim {
        DNNL_GRAPH_UNKNOWN_DIM => Ok(None),
        dim => usize::try_from(dim)
            .map(Some)
            .map_err(|_| Failure::invalid(format!("a {what} of logical tensor {} is {dim}", given.id))),
    };
    if given.ndims > MAX_NDIMS {
        return Err(Failure::invalid(format!("logical tensor {} has {} dimensions", given.id, given.ndims)));
    }
    let rank = usize::try_from(given.ndims).ok();
    let dims = rank
        .map(|rank| {
            given.dims[..rank].iter().map(|&dim| number_of(dim, "dimension")).collect::<Outcome<Vec<_>>>()
        })
        .transpose()?;
    let layout = match given.layout_type {
        dnnl_graph_layout_type_undef => TensorLayout::Undefined,
        dnnl_graph_layout_type_any => TensorLayout::Any,
        dnnl_graph_layout_type_strided => {
            // SAFETY: the layout type says so, and every bit pattern is strides.
            let strides = unsafe { given.layout.strides };
            let strides = &strides[..rank.unwrap_or(0)];
            let strides = strides.iter().map(|&s| number_of(s, "stride")).collect::<Outcome<Vec<_>>>()?;
            // Strides that are not known yet are those of a dense tensor.
            if rank.is_none() || strides.contains(&None) {
                TensorLayout::Undefined
            } else {
                TensorLayout::Strided(strides)
            }
        }
        dnnl_graph_layout_type_opaque => {
            // SAFETY: the layout type says so, and every bit pattern is a number.
            TensorLayout::Opaque(unsafe { given.layout.layout_id } as u64)
        }
        other => return Err(Failure::invalid(format!("{other} is no type of layout"))),
    };
    Ok(LogicalTensor {
        id: TensorId(given.id as u64),
        data_type: data_type(given.data_type)?,
        dims,
        layout,
        property: property(given.property)?,
        name: None,
    })
}

/// A logical tensor of the library as C knows it.
pub(super) fn from_tensor(tensor: &LogicalTensor) -> Outcome<dnnl_graph_logical_tensor_t> {
    let property = match tensor.property {
        Property::Undefined => dnnl_graph_tensor_property_undef,
        Property::Variable => dnnl_graph_tensor_property_variable,
        Property::Constant => dnnl_graph_tensor_property_constant,
        Property::HostScalar => dnnl_graph_tensor_property_host_scalar,
    };
    let data_type = tensor.data_type.map_or(Some(dnnl_data_type_undef), number);
    let data_type = data_type.ok_or_else(|| Failure::invalid("the data type is not one of the C API"))?;
    let layout_type = match tensor.layout {
        TensorLayout::Undefined => dnnl_graph_layout_type_undef,
        TensorLayout::Any => dnnl_graph_layout_type_any,
        TensorLayout::Strided(_) => dnnl_graph_layout_type_strided,
        TensorLayout::Opaque(_) => dnnl_graph_layout_type_opaque,
    };
    let mut made = empty(tensor.id.0 as usize, data_type, layout_type, property);
    if let Some(dims) = &tensor.dims {
        made.ndims = dims.len() as c_int;
        made.dims = numbers(dims);
    }
    made.layout = match &tensor.layout {
        TensorLayout::Strided(strides) => dnnl_graph_layout_t { strides: numbers(strides) },
        TensorLayout::Opaque(id) => dnnl_graph_layout_t { layout_id: *id as usize },
        TensorLayout::Undefined | TensorLayout::Any => made.layout,
    };
    Ok(made)
}

/// A logical tensor of which nothing is known.
pub(super) fn zeroed() -> dnnl_graph_logical_tensor_t {
    let layout = dnnl_graph_layout_t { strides: [0; 12] };
    dnnl_graph_logical_tensor_t {
        id: 0,
        ndims: 0,
        dims: [0; 12],
        data_type: 0,
        property: 0,
        layout_type: 0,
        layout,
    }
}

fn empty(
    id: usize,
    data_type: dnnl_data_type_t,
    layout_type: dnnl_graph_layout_type_t,
    property: dnnl_graph_tensor_property_t,
) -> dnnl_graph_logical_tensor_t {
    let unknown = [DNNL_GRAPH_UNKNOWN_DIM; 12];
    let layout = match layout_type {
        dnnl_graph_layout_type_opaque => dnnl_graph_layout_t { layout_id: 0 },
        _ => dnnl_graph_layout_t { strides: unknown },
    };
    let ndims = DNNL_GRAPH_UNKNOWN_NDIMS;
    dnnl_graph_logical_tensor_t { id, ndims, dims: unknown, data_type, property, layout_type, layout }
}

fn numbers(values: &[Option<usize>]) -> dnnl_dims_t {
    let mut numbers = [DNNL_GRAPH_UNKNOWN_DIM; 12];
    for (to, value) in numbers.iter_mut().zip(values) {
        *to = value.and_then(|value| i64::try_from(value).ok()).unwrap_or(DNNL_GRAPH_UNKNOWN_DIM);
    }
    numbers
}

fn check(ndims: c_int, data_type: dnnl_data_type_t, property: dnnl_graph_tensor_property_t) -> Outcome {
    if !(0..=MAX_NDIMS).contains(&ndims) {
        return Err(Failure::invalid(format!("ndims is {ndims}, expected 0 to {MAX_NDIMS}")));
    }
    check_host_scalar(data_type, ndims, property)
}

fn check_host_scalar(
    data_type: dnnl_data_type_t,
    ndims: c_int,
    property: dnnl_graph_tensor_property_t,
) -> Outcome {
    let fits = ndims == 0 && matches!(data_type, dnnl_f32 | dnnl_s32 | dnnl_s64);
    if property == dnnl_graph_tensor_property_host_scalar && !fits {
        let given = format!("a host scalar of type {data_type} with {ndims} dimensions");
        return Err(Failure::Status(
            dnnl_invalid_arguments,
            format!("{given}, expected f32, s32 or s64 with none"),
        ));
    }
    Ok(())
}

fn data_type(number: dnnl_data_type_t) -> Outcome<Option<DataType>> {
    if number == dnnl_data_type_undef {
        return Ok(None);
    }
    let known = type_code(number)?.data_type();
    known.map(Some).ok_or_else(|| Failure::invalid(format!("graphs do not compute with data type {number}")))
}

fn property(number: dnnl_graph_tensor_property_t) -> Outcome<Property> {
    Ok(match number {
        dnnl_graph_tensor_property_undef => Property::Undefined,
        dnnl_graph_tensor_property_variable => Property::Variable,
        dnnl_graph_tensor_property_constant => Property::Constant,
        dnnl_graph_tensor_property_host_scalar => Property::HostScalar,
        other => return Err(Failure::invalid(format!("{other} is no property of tensors"))),
    })
}

//! Memory descriptors.

mod blob;
mod build;
mod convert;
mod query;
mod size;
pub(crate) mod tags;
mod types;
mod view;

use std::ffi::{CStr, c_char, c_int};

pub(crate) use build::type_code;
pub use query::{dnnl_memory_desc_query, dnnl_memory_desc_query_v2};
pub(crate) use types::{Format, Md, TypeCode, number};

use crate::boundary::{self, Failure, Outcome};
use crate::handle::{self, Handle};
use crate::types::{
    DNNL_MAX_NDIMS, const_dnnl_memory_desc_t, dnnl_data_type_t, dnnl_dim_t, dnnl_format_tag_any,
    dnnl_format_tag_t, dnnl_format_tag_undef, dnnl_memory_desc, dnnl_memory_desc_t, dnnl_status_t,
};

/// The size of an element in bytes, or `SIZE_MAX` for what is no data type. Two elements of a 4-bit type share a byte.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_data_type_size(data_type: dnnl_data_type_t) -> usize {
    boundary::value("dnnl_data_type_size", usize::MAX, || Ok(build::type_code(data_type)?.bits().div_ceil(8)))
}

/// Makes a descriptor with a layout by number. No dimensions, or no layout, make the empty one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_create_with_tag(
    memory_desc: *mut dnnl_memory_desc_t,
    ndims: c_int,
    dims: *const dnnl_dim_t,
    data_type: dnnl_data_type_t,
    tag: dnnl_format_tag_t,
) -> dnnl_status_t {
    make("dnnl_memory_desc_create_with_tag", memory_desc, || {
        if ndims == 0 || tag == dnnl_format_tag_undef {
            return Ok(Md::empty());
        }
        // SAFETY: the caller passes null or as many dimensions.
        let dims = unsafe { numbers(dims, ndims, "dims") }?;
        Md::with_tag(dims, data_type, tag)
    })
}

/// Makes a descriptor with strides; null strides are those of row-major order. No dimensions make the empty one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_create_with_strides(
    memory_desc: *mut dnnl_memory_desc_t,
    ndims: c_int,
    dims: *const dnnl_dim_t,
    data_type: dnnl_data_type_t,
    strides: *const dnnl_dim_t,
) -> dnnl_status_t {
    make("dnnl_memory_desc_create_with_strides", memory_desc, || {
        if ndims == 0 {
            return Ok(Md::empty());
        }
        // SAFETY: the caller passes null or as many dimensions.
        let dims = unsafe { numbers(dims, ndims, "dims") }?;
        if strides.is_null() {
            return Md::with_strides(dims, data_type, None);
        }
        // SAFETY: not null, so the caller passes as many strides.
        let strides = unsafe { numbers(strides, ndims, "strides") }?;
        Md::with_strides(dims, data_type, Some(strides))
    })
}

/// Makes a sparse descriptor by coordinates: a memory of it has values and, for each dimension, indices.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_create_with_coo_encoding(
    memory_desc: *mut dnnl_memory_desc_t,
    ndims: c_int,
    dims: *const dnnl_dim_t,
    data_type: dnnl_data_type_t,
    nnz: dnnl_dim_t,
    indices_dt: dnnl_data_type_t,
) -> dnnl_status_t {
    make("dnnl_memory_desc_create_with_coo_encoding", memory_desc, || {
        if ndims == 0 {
            return Ok(Md::empty());
        }
        // SAFETY: the caller passes null or as many dimensions.
        let dims = unsafe { numbers(dims, ndims, "dims") }?;
        Md::with_coordinates(dims, data_type, nnz, indices_dt)
    })
}

/// Makes a sparse descriptor of a matrix by compressed rows: a memory of it has values, column indices, and positions where rows begin.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_create_with_csr_encoding(
    memory_desc: *mut dnnl_memory_desc_t,
    ndims: c_int,
    dims: *const dnnl_dim_t,
    data_type: dnnl_data_type_t,
    nnz: dnnl_dim_t,
    indices_dt: dnnl_data_type_t,
    pointers_dt: dnnl_data_type_t,
) -> dnnl_status_t {
    make("dnnl_memory_desc_create_with_csr_encoding", memory_desc, || {
        if ndims == 0 {
            return Ok(Md::empty());
        }
        // SAFETY: the caller passes null or as many dimensions.
        let dims = unsafe { numbers(dims, ndims, "dims") }?;
        Md::with_rows(dims, data_type, nnz, indices_dt, pointers_dt)
    })
}

/// Makes a sparse descriptor whose encoding is a primitive's to choose, as a layout left open. There is no memory of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_create_with_packed_encoding(
    memory_desc: *mut dnnl_memory_desc_t,
    ndims: c_int,
    dims: *const dnnl_dim_t,
    data_type: dnnl_data_type_t,
    nnz: dnnl_dim_t,
) -> dnnl_status_t {
    make("dnnl_memory_desc_create_with_packed_encoding", memory_desc, || {
        if ndims == 0 {
            return Ok(Md::empty());
        }
        // SAFETY: the caller passes null or as many dimensions.
        let dims = unsafe { numbers(dims, ndims, "dims") }?;
        Md::packed(dims, data_type, nnz)
    })
}

/// Makes a descriptor of `group_count` tensors one behind the other, which differ in the size of one dimension; `dims` has their sum there. A
/// memory of it has values, and the positions (s32) where tensors end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_create_with_grouped_encoding(
    memory_desc: *mut dnnl_memory_desc_t,
    ndims: c_int,
    dims: *const dnnl_dim_t,
    data_type: dnnl_data_type_t,
    variable_dim_idx: c_int,
    group_count: dnnl_dim_t,
    offsets_dt: dnnl_data_type_t,
) -> dnnl_status_t {
    make("dnnl_memory_desc_create_with_grouped_encoding", memory_desc, || {
        if ndims == 0 {
            return Ok(Md::empty());
        }
        // SAFETY: the caller passes null or as many dimensions.
        let dims = unsafe { numbers(dims, ndims, "dims") }?;
        Md::grouped(dims, data_type, variable_dim_idx, group_count, offsets_dt)
    })
}

/// Writes a descriptor as bytes: their number where `blob` is null, else the bytes, which [`dnnl_memory_desc_create_with_blob`] reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_get_blob(
    blob: *mut u8,
    size: *mut usize,
    memory_desc: const_dnnl_memory_desc_t,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_desc_get_blob", || {
        // SAFETY: the caller passes null, or a descriptor that lives and places to write.
        unsafe { handle::bytes_out(&handle::borrow(memory_desc)?.to_blob(), size, blob) }
    })
}

/// Makes the descriptor that was written as bytes. Bytes that are none are an invalid argument.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_create_with_blob(
    memory_desc: *mut dnnl_memory_desc_t,
    blob: *const u8,
) -> dnnl_status_t {
    make("dnnl_memory_desc_create_with_blob", memory_desc, || {
        if blob.is_null() {
            return Err(Failure::null("blob"));
        }
        // SAFETY: not null, so the caller passes bytes that begin as a blob does and are as many as that says.
        unsafe { Md::from_blob(blob) }
    })
}

/// Makes a descriptor of one value on the host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_create_host_scalar(
    memory_desc: *mut dnnl_memory_desc_t,
    data_type: dnnl_data_type_t,
) -> dnnl_status_t {
    make("dnnl_memory_desc_create_host_scalar", memory_desc, || Md::host_scalar(data_type))
}

/// Makes a descriptor of the part of `dims` elements from `offsets` on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_create_submemory(
    memory_desc: *mut dnnl_memory_desc_t,
    parent_memory_desc: const_dnnl_memory_desc_t,
    dims: *const dnnl_dim_t,
    offsets: *const dnnl_dim_t,
) -> dnnl_status_t {
    make("dnnl_memory_desc_create_submemory", memory_desc, || {
        // SAFETY: the caller passes null or a descriptor that lives.
        let parent = unsafe { handle::borrow(parent_memory_desc) }?;
        // SAFETY: the caller passes null or as many numbers as the parent has dimensions.
        let (dims, offsets) = unsafe {
            (handle::slice(dims, parent.rank, "dims")?, handle::slice(offsets, parent.rank, "offsets")?)
        };
        parent.part(dims, offsets)
    })
}

/// Copies a descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_clone(
    memory_desc: *mut dnnl_memory_desc_t,
    existing_memory_desc: const_dnnl_memory_desc_t,
) -> dnnl_status_t {
    // SAFETY: the caller passes null or a descriptor that lives.
    make("dnnl_memory_desc_clone", memory_desc, || unsafe { handle::borrow(existing_memory_desc) }.cloned())
}

/// Makes a descriptor of the same bytes with axis `i` moved to `permutation[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_permute_axes(
    out_memory_desc: *mut dnnl_memory_desc_t,
    in_memory_desc: const_dnnl_memory_desc_t,
    permutation: *const c_int,
) -> dnnl_status_t {
    make("dnnl_memory_desc_permute_axes", out_memory_desc, || {
        // SAFETY: the caller passes null or a descriptor that lives.
        let md = unsafe { handle::borrow(in_memory_desc) }?;
        // SAFETY: the caller passes null or as many numbers as there are dimensions.
        md.permuted(unsafe { handle::slice(permutation, md.rank, "permutation") }?)
    })
}

/// Makes a descriptor of the same bytes under other dimensions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_reshape(
    out_memory_desc: *mut dnnl_memory_desc_t,
    in_memory_desc: const_dnnl_memory_desc_t,
    ndims: c_int,
    dims: *const dnnl_dim_t,
) -> dnnl_status_t {
    make("dnnl_memory_desc_reshape", out_memory_desc, || {
        // SAFETY: the caller passes null or a descriptor that lives.
        let md = unsafe { handle::borrow(in_memory_desc) }?;
        // SAFETY: the caller passes null or as many dimensions.
        md.reshaped(unsafe { numbers(dims, ndims, "dims") }?)
    })
}

/// Whether two descriptors mean the same bytes: 1 or 0. Null equals null alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_equal(
    lhs: const_dnnl_memory_desc_t,
    rhs: const_dnnl_memory_desc_t,
) -> c_int {
    boundary::value("dnnl_memory_desc_equal", 0, || {
        // SAFETY: the caller passes null or descriptors that live.
        let (lhs, rhs) = unsafe { (handle::borrow_optional(lhs)?, handle::borrow_optional(rhs)?) };
        Ok(c_int::from(lhs == rhs))
    })
}

/// The bytes that a memory of the descriptor has: zero for null and for an open layout, `DNNL_RUNTIME_SIZE_VAL` where dimensions or
/// strides are known at execution only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_get_size(memory_desc: const_dnnl_memory_desc_t) -> usize {
    boundary::value("dnnl_memory_desc_get_size", 0, || {
        // SAFETY: the caller passes null or a descriptor that lives.
        Ok(unsafe { handle::borrow_optional(memory_desc) }?.map_or(0, |md| md.size(0)))
    })
}

/// The bytes of the data of one handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_get_size_v2(
    memory_desc: const_dnnl_memory_desc_t,
    index: c_int,
) -> usize {
    boundary::value("dnnl_memory_desc_get_size_v2", 0, || {
        // SAFETY: the caller passes null or a descriptor that lives.
        let md = unsafe { handle::borrow_optional(memory_desc) }?;
        Ok(md.map_or(0, |md| md.size(usize::try_from(index).unwrap_or(usize::MAX))))
    })
}

/// Ends a descriptor; null is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_destroy(memory_desc: dnnl_memory_desc_t) -> dnnl_status_t {
    boundary::status("dnnl_memory_desc_destroy", || {
        // SAFETY: the caller passes null or a descriptor that lives, and gives it up.
        unsafe { handle::destroy(memory_desc) }
    })
}

/// The number of the layout with those letters (`acdb`, `aBcd16b`, `any`), or 0 where it has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anydnn_format_tag(letters: *const c_char) -> dnnl_format_tag_t {
    boundary::value("anydnn_format_tag", dnnl_format_tag_undef, || {
        if letters.is_null() {
            return Err(Failure::null("letters"));
        }
        // SAFETY: not null, so the caller passes a string.
        let letters = unsafe { CStr::from_ptr(letters) }.to_string_lossy();
        if letters == "any" {
            return Ok(dnnl_format_tag_any);
        }
        tags::number(&letters)
            .ok_or_else(|| Failure::invalid(format!("the layout {letters:?} has no number")))
    })
}

impl Handle for dnnl_memory_desc {
    type Value = Md;
    const TAG: u64 = u64::from_le_bytes(*b"any-desc");
    const NAME: &'static str = "memory descriptor";
}

fn make(
    function: &'static str,
    out: *mut dnnl_memory_desc_t,
    value: impl FnOnce() -> Outcome<Md>,
) -> dnnl_status_t {
    // SAFETY: the callers pass on what C vouches for: null, or a handle to write.
    boundary::status(function, || unsafe { handle::create_at(out, value) })
}

/// # Safety
/// `data` is null or holds `len` numbers for `'a`.
unsafe fn numbers<'a>(data: *const dnnl_dim_t, len: c_int, what: &str) -> Outcome<&'a [i64]> {
    let len = usize::try_from(len)
        .ok()
        .filter(|len| (1..=DNNL_MAX_NDIMS).contains(len))
        .ok_or_else(|| Failure::invalid(format!("ndims is {len}, expected 1 to {DNNL_MAX_NDIMS}")))?;
    // SAFETY: as the caller vouches.
    unsafe { handle::slice(data, len, what) }
}

//! What descriptors tell.

use std::ffi::{c_int, c_void};

use crate::boundary::{self, Failure, Outcome};
use crate::desc::types::{Blocks, Format, Md, TypeCode};
use crate::handle;
use crate::refusals::Lack;
use crate::types::{
    const_dnnl_memory_desc_t, dnnl_blocked, dnnl_coo, dnnl_csr, dnnl_dims_t, dnnl_format_kind_any,
    dnnl_format_kind_host_scalar, dnnl_format_kind_sparse, dnnl_format_kind_t, dnnl_format_kind_undef,
    dnnl_grouped, dnnl_packed, dnnl_query_data_type, dnnl_query_dims, dnnl_query_format_kind,
    dnnl_query_inner_blks, dnnl_query_inner_idxs, dnnl_query_inner_nblks_s32, dnnl_query_ndims_s32,
    dnnl_query_nnz_s64, dnnl_query_num_handles_s32, dnnl_query_padded_dims, dnnl_query_padded_offsets,
    dnnl_query_sparse_encoding, dnnl_query_strides, dnnl_query_submemory_offset_s64, dnnl_query_t,
    dnnl_status_t,
};

/// Asks a descriptor for `what`. `result` points to what the query's number says; arrays live as long as the descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_query(
    memory_desc: const_dnnl_memory_desc_t,
    what: dnnl_query_t,
    result: *mut c_void,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_desc_query", || {
        // SAFETY: the caller passes null or a descriptor that lives.
        let md = unsafe { handle::borrow(memory_desc) }?;
        if matches!(what, dnnl_query_sparse_encoding | dnnl_query_nnz_s64 | dnnl_query_num_handles_s32) {
            return Err(Lack::Query.failure(format_args!("query {what}, one of dnnl_memory_desc_query_v2")));
        }
        // SAFETY: the caller passes null or a result of the query's type.
        unsafe { query(md, what, 0, result) }
    })
}

/// Asks a descriptor for `what`; for the data type, that of handle `index`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_memory_desc_query_v2(
    memory_desc: const_dnnl_memory_desc_t,
    what: dnnl_query_t,
    index: c_int,
    result: *mut c_void,
) -> dnnl_status_t {
    boundary::status("dnnl_memory_desc_query_v2", || {
        // SAFETY: the caller passes null or a descriptor that lives.
        let md = unsafe { handle::borrow(memory_desc) }?;
        // SAFETY: the caller passes null or a result of the query's type.
        unsafe { query(md, what, index, result) }
    })
}

/// # Safety
/// `result` is null or can take what the query gives.
unsafe fn query(md: &Md, what: dnnl_query_t, index: c_int, result: *mut c_void) -> Outcome {
    match answer(md, what, index)? {
        // SAFETY: the caller vouches for the type.
        Answer::Int(value) => unsafe { handle::write(result.cast(), "result", value) },
        // SAFETY: as above.
        Answer::Long(value) => unsafe { handle::write(result.cast(), "result", value) },
        // SAFETY: as above.
        Answer::Dims(value) => unsafe { handle::write(result.cast(), "result", value) },
    }
}

enum Answer {
    Int(c_int),
    Long(i64),
    Dims(*const dnnl_dims_t),
}

fn answer(md: &Md, what: dnnl_query_t, index: c_int) -> Outcome<Answer> {
    Ok(match what {
        dnnl_query_ndims_s32 => Answer::Int(md.rank as c_int),
        dnnl_query_dims => Answer::Dims(&raw const md.dims),
        dnnl_query_data_type => Answer::Int(data_type(md, index)?.map_or(0, TypeCode::value)),
        dnnl_query_submemory_offset_s64 => Answer::Long(md.offset),
        dnnl_query_padded_dims => Answer::Dims(&raw const md.padded_dims),
        dnnl_query_padded_offsets => Answer::Dims(&raw const md.padded_offsets),
        dnnl_query_format_kind => Answer::Int(md.kind()),
        dnnl_query_strides => Answer::Dims(&raw const md.blocks()?.strides),
        dnnl_query_inner_nblks_s32 => Answer::Int(md.blocks()?.count as c_int),
        dnnl_query_inner_blks => Answer::Dims(&raw const md.blocks()?.sizes),
        dnnl_query_inner_idxs => Answer::Dims(&raw const md.blocks()?.axes),
        dnnl_query_num_handles_s32 => Answer::Int(md.handles() as c_int),
        dnnl_query_sparse_encoding => Answer::Int(sparse(md)?.0),
        dnnl_query_nnz_s64 => Answer::Long(sparse(md)?.1),
        _ => {
            return Err(Lack::Query.failure(format_args!("query {what} of a memory descriptor")));
        }
    })
}

impl Md {
    /// How the layout is described.
    pub(crate) fn kind(&self) -> dnnl_format_kind_t {
        match self.format {
            Format::Undef => dnnl_format_kind_undef,
            Format::Any => dnnl_format_kind_any,
            Format::Blocked(_) => dnnl_blocked,
            Format::Coo { .. } | Format::Csr { .. } | Format::Packed { .. } | Format::Grouped { .. } => {
                dnnl_format_kind_sparse
            }
            Format::HostScalar => dnnl_format_kind_host_scalar,
        }
    }

    fn blocks(&self) -> Outcome<&Blocks> {
        match &self.format {
            Format::Blocked(blocks) => Ok(blocks),
            _ => Err(Failure::invalid("the memory descriptor has no strides")),
        }
    }
}

fn data_type(md: &Md, index: c_int) -> Outcome<Option<TypeCode>> {
    match (index, &md.format) {
        (0, _) => Ok(md.data_type),
        (1.., Format::Coo { indices, .. }) if index as usize <= md.rank => Ok(Some(*indices)),
        (1, Format::Csr { indices, .. }) => Ok(Some(*indices)),
        (2, Format::Csr { pointers, .. }) => Ok(Some(*pointers)),
        (1, Format::Grouped { offsets, .. }) => Ok(Some(*offsets)),
        _ => Err(Failure::invalid(format!("there is no data type {index} of {} handles", md.handles()))),
    }
}

/// The encoding of a sparse tensor, and its number of entries.
fn sparse(md: &Md) -> Outcome<(c_int, i64)> {
    match md.format {
        Format::Coo { nnz, .. } => Ok((dnnl_coo, nnz)),
        Format::Csr { nnz, .. } => Ok((dnnl_csr, nnz)),
        Format::Packed { nnz } => Ok((dnnl_packed, nnz)),
        Format::Grouped { .. } => {
            let elements = md.dims[..md.rank].iter().try_fold(1_i64, |n, &dim| n.checked_mul(dim));
            Ok((dnnl_grouped, elements.unwrap_or(i64::MAX)))
        }
        _ => Err(Failure::invalid("the memory descriptor is not sparse")),
    }
}

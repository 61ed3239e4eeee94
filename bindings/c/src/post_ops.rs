//! Post-operations.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use anydnn_backend::op::BinaryFunction;
use anydnn_backend::{BinaryAlgorithm, DataType, Eltwise};

use crate::boundary::{self, Failure, Outcome};
use crate::desc::{Format, Md, type_code};
use crate::eltwise::function;
use crate::handle::{self, Embedded, Handle};
use crate::kinds::{BINARY_SELECT, kind};
use crate::object_types::{const_dnnl_post_ops_t, dnnl_alg_kind_t, dnnl_post_ops, dnnl_post_ops_t};
use crate::primitive::operand;
use crate::refusals::Lack;
use crate::types::{
    const_dnnl_memory_desc_t, dnnl_data_type_t, dnnl_dim_t, dnnl_memory_desc, dnnl_out_of_memory,
    dnnl_status_t,
};

/// Makes an empty list of post-operations.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_create(post_ops: *mut dnnl_post_ops_t) -> dnnl_status_t {
    boundary::status("dnnl_post_ops_create", || {
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(post_ops, || Ok(Vec::new())) }
    })
}

/// Copies a list of post-operations.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_clone(
    post_ops: *mut dnnl_post_ops_t,
    existing_post_ops: const_dnnl_post_ops_t,
) -> dnnl_status_t {
    boundary::status("dnnl_post_ops_clone", || {
        // SAFETY: the caller passes null, or a list that lives and a handle to write.
        unsafe { handle::create_at(post_ops, || Ok(handle::borrow(existing_post_ops)?.clone())) }
    })
}

/// Ends a list of post-operations; null is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_destroy(post_ops: dnnl_post_ops_t) -> dnnl_status_t {
    boundary::status("dnnl_post_ops_destroy", || {
        // SAFETY: the caller passes null or a list that lives, and gives it up.
        unsafe { handle::destroy(post_ops) }
    })
}

/// The number of post-operations; zero for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_len(post_ops: const_dnnl_post_ops_t) -> c_int {
    boundary::value("dnnl_post_ops_len", 0, || {
        // SAFETY: the caller passes null or a list that lives.
        Ok(unsafe { handle::borrow_optional(post_ops) }?.map_or(0, |list| list.len() as c_int))
    })
}

/// The kind of a post-operation, as that of a primitive; zero where there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_get_kind(post_ops: const_dnnl_post_ops_t, index: c_int) -> c_int {
    boundary::value("dnnl_post_ops_get_kind", 0, || {
        // SAFETY: the caller passes null or a list that lives.
        Ok(match unsafe { at(post_ops, index) }? {
            PostOpEntry::Sum { .. } => kind::SUM,
            PostOpEntry::Eltwise { .. } => kind::ELTWISE,
            PostOpEntry::Binary { .. } => kind::BINARY,
            PostOpEntry::Prelu { .. } => kind::PRELU,
            PostOpEntry::Depthwise { .. } => kind::CONVOLUTION,
        })
    })
}

/// Appends the old content of the result, read as `data_type` (its own for none): `scale * (old - zero_point)` is added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_append_sum(
    post_ops: dnnl_post_ops_t,
    scale: f32,
    zero_point: i32,
    data_type: dnnl_data_type_t,
) -> dnnl_status_t {
    boundary::status("dnnl_post_ops_append_sum", || {
        let seen = match data_type {
            0 => None,
            code => Some(known(code)?),
        };
        // SAFETY: the caller passes null or a list that lives, and uses it nowhere else meanwhile.
        unsafe { append(post_ops, PostOpEntry::Sum { scale, zero_point, data_type: seen, code: data_type }) }
    })
}

/// Appends a function of the result element.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_append_eltwise(
    post_ops: dnnl_post_ops_t,
    alg_kind: dnnl_alg_kind_t,
    alpha: f32,
    beta: f32,
) -> dnnl_status_t {
    boundary::status("dnnl_post_ops_append_eltwise", || {
        let function = function(alg_kind, alpha, beta)?;
        // SAFETY: the caller passes null or a list that lives, and uses it nowhere else meanwhile.
        unsafe { append(post_ops, PostOpEntry::Eltwise { kind: alg_kind, alpha, beta, function }) }
    })
}

/// Appends a depthwise convolution. No primitive takes it yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_append_dw(
    post_ops: dnnl_post_ops_t,
    weights_data_type: dnnl_data_type_t,
    bias_data_type: dnnl_data_type_t,
    dst_data_type: dnnl_data_type_t,
    kernel_size: dnnl_dim_t,
    stride_size: dnnl_dim_t,
    padding_l_size: dnnl_dim_t,
) -> dnnl_status_t {
    boundary::status("dnnl_post_ops_append_dw", || {
        known(weights_data_type)?;
        let types = [weights_data_type, bias_data_type, dst_data_type];
        let sizes = [kernel_size, stride_size, padding_l_size];
        if kernel_size <= 0 || stride_size <= 0 || padding_l_size < 0 || padding_l_size > kernel_size {
            return Err(Failure::invalid(format!("{sizes:?} are no kernel, stride and padding")));
        }
        // SAFETY: the caller passes null or a list that lives, and uses it nowhere else meanwhile.
        unsafe { append(post_ops, PostOpEntry::Depthwise { types, sizes }) }
    })
}

/// Appends a function of a result element and one of another tensor, which broadcasts to the result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_append_binary(
    post_ops: dnnl_post_ops_t,
    alg_kind: dnnl_alg_kind_t,
    src1_desc: const_dnnl_memory_desc_t,
) -> dnnl_status_t {
    boundary::status("dnnl_post_ops_append_binary", || {
        let algorithm = Some(algorithm(alg_kind)?);
        // SAFETY: the caller passes null or a descriptor that lives.
        let src1 = Arc::new(Embedded::new(unsafe { operand(src1_desc, "src1_desc") }?.clone()));
        // SAFETY: the caller passes null or a list that lives, and uses it nowhere else meanwhile.
        unsafe { append(post_ops, PostOpEntry::Binary { kind: alg_kind, algorithm, src1, src2: None }) }
    })
}

/// Appends a function of a result element and one or two of other tensors; the second is the condition of a choice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_append_binary_v2(
    post_ops: dnnl_post_ops_t,
    alg_kind: dnnl_alg_kind_t,
    src1_desc: const_dnnl_memory_desc_t,
    src2_desc: const_dnnl_memory_desc_t,
) -> dnnl_status_t {
    boundary::status("dnnl_post_ops_append_binary_v2", || {
        let is_choice = alg_kind == BINARY_SELECT;
        let algorithm = if is_choice { None } else { Some(algorithm(alg_kind)?) };
        // SAFETY: the caller passes null or descriptors that live.
        let (src1, src2) = unsafe {
            let second = if is_choice { Some(operand(src2_desc, "src2_desc")?) } else { None };
            (operand(src1_desc, "src1_desc")?, second)
        };
        let lend = |md: &Md| Arc::new(Embedded::new(md.clone()));
        let (src1, src2) = (lend(src1), src2.map(lend));
        // SAFETY: the caller passes null or a list that lives, and uses it nowhere else meanwhile.
        unsafe { append(post_ops, PostOpEntry::Binary { kind: alg_kind, algorithm, src1, src2 }) }
    })
}

/// Appends a rectifier whose slope below zero comes from a tensor that differs along the dimensions of a mask.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_append_prelu(post_ops: dnnl_post_ops_t, mask: c_int) -> dnnl_status_t {
    boundary::status("dnnl_post_ops_append_prelu", || {
        if mask < 0 {
            return Err(Failure::invalid(format!("{mask} is no mask")));
        }
        // SAFETY: the caller passes null or a list that lives, and uses it nowhere else meanwhile.
        unsafe { append(post_ops, PostOpEntry::Prelu { mask }) }
    })
}

/// Tells the parameters of a sum.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_get_params_sum(
    post_ops: const_dnnl_post_ops_t,
    index: c_int,
    scale: *mut f32,
    zero_point: *mut i32,
    data_type: *mut dnnl_data_type_t,
) -> dnnl_status_t {
    boundary::status("dnnl_post_ops_get_params_sum", || {
        // SAFETY: the caller passes null, or a list that lives and places to write.
        unsafe {
            let PostOpEntry::Sum { scale: s, zero_point: z, code, .. } = at(post_ops, index)? else {
                return Err(another(index));
            };
            tell(scale, *s);
            tell(zero_point, *z);
            tell(data_type, *code);
        }
        Ok(())
    })
}

/// Tells the parameters of a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_get_params_eltwise(
    post_ops: const_dnnl_post_ops_t,
    index: c_int,
    alg_kind: *mut dnnl_alg_kind_t,
    alpha: *mut f32,
    beta: *mut f32,
) -> dnnl_status_t {
    boundary::status("dnnl_post_ops_get_params_eltwise", || {
        // SAFETY: the caller passes null, or a list that lives and places to write.
        unsafe {
            let PostOpEntry::Eltwise { kind, alpha: a, beta: b, .. } = at(post_ops, index)? else {
                return Err(another(index));
            };
            tell(alg_kind, *kind);
            tell(alpha, *a);
            tell(beta, *b);
        }
        Ok(())
    })
}

/// Tells the parameters of a depthwise convolution.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_get_params_dw(
    post_ops: const_dnnl_post_ops_t,
    index: c_int,
    weights_data_type: *mut dnnl_data_type_t,
    bias_data_type: *mut dnnl_data_type_t,
    dst_data_type: *mut dnnl_data_type_t,
    kernel_size: *mut dnnl_dim_t,
    stride_size: *mut dnnl_dim_t,
    padding_l_size: *mut dnnl_dim_t,
) -> dnnl_status_t {
    boundary::status("dnnl_post_ops_get_params_dw", || {
        // SAFETY: the caller passes null, or a list that lives and places to write.
        unsafe {
            let PostOpEntry::Depthwise { types, sizes } = at(post_ops, index)? else {
                return Err(another(index));
            };
            tell(weights_data_type, types[0]);
            tell(bias_data_type, types[1]);
            tell(dst_data_type, types[2]);
            tell(kernel_size, sizes[0]);
            tell(stride_size, sizes[1]);
            tell(padding_l_size, sizes[2]);
        }
        Ok(())
    })
}

/// Tells the parameters of a binary function; the descriptor is lent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_get_params_binary(
    post_ops: const_dnnl_post_ops_t,
    index: c_int,
    alg_kind: *mut dnnl_alg_kind_t,
    src1_desc: *mut const_dnnl_memory_desc_t,
) -> dnnl_status_t {
    boundary::status("dnnl_post_ops_get_params_binary", || {
        // SAFETY: the caller passes null, or a list that lives and places to write.
        unsafe { binary_params(post_ops, index, alg_kind, src1_desc, ptr::null_mut()) }
    })
}

/// Tells the parameters of a binary function or a choice; the descriptors are lent, null for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_get_params_binary_v2(
    post_ops: const_dnnl_post_ops_t,
    index: c_int,
    alg_kind: *mut dnnl_alg_kind_t,
    src1_desc: *mut const_dnnl_memory_desc_t,
    src2_desc: *mut const_dnnl_memory_desc_t,
) -> dnnl_status_t {
    boundary::status("dnnl_post_ops_get_params_binary_v2", || {
        // SAFETY: the caller passes null, or a list that lives and places to write.
        unsafe { binary_params(post_ops, index, alg_kind, src1_desc, src2_desc) }
    })
}

/// Tells the mask of a rectifier with slopes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_get_params_prelu(
    post_ops: const_dnnl_post_ops_t,
    index: c_int,
    mask: *mut c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_post_ops_get_params_prelu", || {
        // SAFETY: the caller passes null, or a list that lives and a place to write.
        unsafe {
            let PostOpEntry::Prelu { mask: given } = at(post_ops, index)? else { return Err(another(index)) };
            tell(mask, *given);
        }
        Ok(())
    })
}

/// A post-operation as C tells it.
#[derive(Clone)]
pub(crate) enum PostOpEntry {
    Sum {
        scale: f32,
        zero_point: i32,
        data_type: Option<DataType>,
        code: dnnl_data_type_t,
    },
    Eltwise {
        kind: dnnl_alg_kind_t,
        alpha: f32,
        beta: f32,
        function: Eltwise,
    },
    /// Without an algorithm, a choice by `src2`.
    Binary {
        kind: dnnl_alg_kind_t,
        algorithm: Option<BinaryAlgorithm>,
        src1: Arc<Embedded<dnnl_memory_desc>>,
        src2: Option<Arc<Embedded<dnnl_memory_desc>>>,
    },
    Prelu {
        mask: c_int,
    },
    Depthwise {
        types: [dnnl_data_type_t; 3],
        sizes: [dnnl_dim_t; 3],
    },
}

impl Handle for dnnl_post_ops {
    type Value = Vec<PostOpEntry>;
    const TAG: u64 = u64::from_le_bytes(*b"any-post");
    const NAME: &'static str = "post-operations object";
}

/// The most post-operations of a primitive.
const MOST: usize = 32;

/// The binary function of that number.
pub(crate) fn algorithm(kind: dnnl_alg_kind_t) -> Outcome<BinaryAlgorithm> {
    let row = BinaryFunction::of_onednn(kind);
    row.map(|row| row.algorithm)
        .ok_or_else(|| Failure::invalid(format!("{kind:#x} is not a binary algorithm")))
}

/// The contract's type of that number.
pub(crate) fn known(code: dnnl_data_type_t) -> Outcome<DataType> {
    type_code(code)?.data_type().ok_or_else(|| Lack::DataType.failure(format_args!("the data type {code}")))
}

/// # Safety
/// `post_ops` is null or a list that lives, used nowhere else meanwhile.
unsafe fn append(post_ops: dnnl_post_ops_t, post_op: PostOpEntry) -> Outcome {
    // SAFETY: by contract.
    let list = unsafe { handle::borrow_mut(post_ops) }?;
    if list.len() >= MOST {
        let message = format!("there are {MOST} post-operations already");
        return Err(Failure::Status(dnnl_out_of_memory, message));
    }
    if let PostOpEntry::Binary { src1, .. } = &post_op
        && matches!(src1.value().format, Format::Undef)
    {
        return Err(Failure::invalid("src1_desc has no layout"));
    }
    list.push(post_op);
    Ok(())
}

/// # Safety
/// `post_ops` is null or a list that lives for `'a`.
unsafe fn at<'a>(post_ops: const_dnnl_post_ops_t, index: c_int) -> Outcome<&'a PostOpEntry> {
    // SAFETY: by contract.
    let list = unsafe { handle::borrow(post_ops) }?;
    usize::try_from(index)
        .ok()
        .and_then(|index| list.get(index))
        .ok_or_else(|| Failure::invalid(format!("there is no post-operation {index}")))
}

/// # Safety
/// As for [`at`]; the other pointers are null or can be written.
unsafe fn binary_params(
    post_ops: const_dnnl_post_ops_t,
    index: c_int,
    alg_kind: *mut dnnl_alg_kind_t,
    src1_desc: *mut const_dnnl_memory_desc_t,
    src2_desc: *mut const_dnnl_memory_desc_t,
) -> Outcome {
    // SAFETY: by contract.
    unsafe {
        let PostOpEntry::Binary { kind, src1, src2, .. } = at(post_ops, index)? else {
            return Err(another(index));
        };
        tell(alg_kind, *kind);
        tell(src1_desc, src1.as_ptr());
        tell(src2_desc, src2.as_ref().map_or(ptr::null(), |md| md.as_ptr()));
    }
    Ok(())
}

/// Writes what is asked for; null asks for nothing.
///
/// # Safety
/// `out` is null or can be written.
unsafe fn tell<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: not null, so the caller vouches for it.
        unsafe { out.write_unaligned(value) };
    }
}

fn another(index: c_int) -> Failure {
    Failure::invalid(format!("post-operation {index} is of another kind"))
}

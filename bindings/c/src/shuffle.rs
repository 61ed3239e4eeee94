//! Channels in another order.

use std::ffi::c_int;

use anydnn_backend::Dims;

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::kinds::{arg, dnnl_backward_data, kind, query};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::pooling::both_settled;
use crate::primitive::{Facts, axis_of, closed, describe, is_training, open, same_dims};
use crate::recipe::{Recipe, Tensor, View, settled};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes channels in another order: groups of an axis are transposed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_shuffle_forward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    src_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    axis: c_int,
    group_size: dnnl_dim_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        is_training(prop_kind)?;
        // SAFETY: the caller passes null or descriptors that live.
        let (src, dst) = unsafe { (closed(src_desc, "src_desc")?, open(dst_desc, "dst_desc")?) };
        attr.check_plain()?;
        same_dims(&src, &dst, "dst_desc")?;
        let dst = settled(dst, &src)?;
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        let (at, groups) = split(&src, axis, group_size)?;
        let rows = src.dims()[at] / groups;
        transpose(recipe, &src, &dst, at, rows)?;
        Ok(facts(prop_kind, axis, group_size))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_shuffle_forward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// Describes the gradient of a shuffle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_shuffle_backward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    diff_src_desc: const_dnnl_memory_desc_t,
    diff_dst_desc: const_dnnl_memory_desc_t,
    axis: c_int,
    group_size: dnnl_dim_t,
    _hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let (diff_src, diff_dst) =
            unsafe { (open(diff_src_desc, "diff_src_desc")?, open(diff_dst_desc, "diff_dst_desc")?) };
        attr.check_plain()?;
        same_dims(&diff_src, &diff_dst, "diff_dst_desc")?;
        let (diff_src, diff_dst) = both_settled(diff_src, diff_dst)?;
        let diff_dst = recipe.operand(arg::DIFF_DST, (query::DIFF_DST, 0), diff_dst);
        let diff_src = recipe.operand(arg::DIFF_SRC, (query::DIFF_SRC, 0), diff_src);
        let (at, groups) = split(&diff_dst, axis, group_size)?;
        transpose(recipe, &diff_dst, &diff_src, at, groups)?;
        Ok(facts(dnnl_backward_data, axis, group_size))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_shuffle_backward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

fn split(tensor: &Tensor, axis: c_int, group_size: dnnl_dim_t) -> Outcome<(usize, usize)> {
    let axis = axis_of(axis, tensor.dims().len(), "axis")?;
    let groups = usize::try_from(group_size)
        .ok()
        .filter(|&groups| groups > 0 && tensor.dims()[axis].is_multiple_of(groups));
    let groups = groups
        .ok_or_else(|| Failure::invalid(format!("groups of {group_size} do not divide {}", tensor.dims())))?;
    Ok((axis, groups))
}

/// Copies with an axis seen as `[outer, rest]` in the source and `[rest, outer]` in the result.
fn transpose(recipe: &mut Recipe, src: &Tensor, dst: &Tensor, axis: usize, outer: usize) -> Outcome {
    let inner = src.dims()[axis] / outer.max(1);
    let divided = |first: usize, second: usize| -> Dims {
        let dims = src.dims();
        dims[..axis].iter().copied().chain([first, second]).chain(dims[axis + 1..].iter().copied()).collect()
    };
    let from = recipe.read_as(src, divided(outer, inner))?;
    let mut order: Vec<usize> = (0..=src.dims().len()).collect();
    order.swap(axis, axis + 1);
    let from = recipe.read(&from, &[View::Permuted(order)])?;
    let (to, pending) = recipe.write_as(dst, divided(inner, outer))?;
    recipe.reorder(&from, &to)?;
    pending.store(recipe)
}

fn facts(prop: dnnl_prop_kind_t, axis: c_int, group_size: dnnl_dim_t) -> Facts {
    Facts::new(kind::SHUFFLE, prop).integer(query::AXIS, axis).integer(query::GROUP_SIZE, group_size)
}

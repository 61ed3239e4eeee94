//! Pooling and its gradient.

use anydnn_backend::op::{Pooling, PoolingAlgorithm, PoolingBackward, Reorder};
use anydnn_backend::{Arg, Attributes, Dims, MemoryDesc};

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::convolution::Windows;
use crate::handle;
use crate::kinds::{
    POOLING_AVG_EXCLUDE, POOLING_AVG_INCLUDE, POOLING_MAX, arg, dnnl_backward_data, kind, query,
};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::primitive::{Facts, closed, describe, is_training, numbers, open};
use crate::recipe::{Recipe, dense, settled};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes the maximum or average over windows. For training, a maximum keeps its source as workspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_pooling_forward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    alg_kind: dnnl_alg_kind_t,
    src_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    strides: *const dnnl_dim_t,
    kernel: *const dnnl_dim_t,
    dilation: *const dnnl_dim_t,
    padding_l: *const dnnl_dim_t,
    padding_r: *const dnnl_dim_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        let is_training = is_training(prop_kind)?;
        // SAFETY: the caller passes null or descriptors that live.
        let (src, dst) = unsafe { (closed(src_desc, "src_desc")?, open(dst_desc, "dst_desc")?) };
        // SAFETY: the caller passes null or arrays as long as there are spatial dimensions.
        let (windows, kernel) = unsafe {
            let windows = Windows::read(src.rank(), [strides, dilation, padding_l, padding_r])?;
            (windows, numbers(kernel, src.rank() - 2, "kernel", None)?)
        };
        let op = pooling(alg_kind, &windows, &kernel, &src, &dst)?;
        let dst = settled(dst, &src)?;
        let keeps = is_training && alg_kind == POOLING_MAX;
        let kept = src.clone();
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        recipe.main(op, &[(Arg::SRC, &src)], &dst, attr)?;
        if keeps {
            let workspace =
                recipe.operand(arg::WORKSPACE, (query::WORKSPACE, 0), settled(kept.to_any(), &kept)?);
            recipe.step(Reorder, &[(Arg::SRC, &src), (Arg::DST, &workspace)], &Attributes::default())?;
        }
        Ok(facts(&windows, &kernel, prop_kind, alg_kind))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_pooling_forward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// Describes the gradient of a pooling for its source. That of a maximum reads the workspace of the forward pass.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_pooling_backward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    alg_kind: dnnl_alg_kind_t,
    diff_src_desc: const_dnnl_memory_desc_t,
    diff_dst_desc: const_dnnl_memory_desc_t,
    strides: *const dnnl_dim_t,
    kernel: *const dnnl_dim_t,
    dilation: *const dnnl_dim_t,
    padding_l: *const dnnl_dim_t,
    padding_r: *const dnnl_dim_t,
    hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let (diff_src, diff_dst) =
            unsafe { (open(diff_src_desc, "diff_src_desc")?, open(diff_dst_desc, "diff_dst_desc")?) };
        // SAFETY: the caller passes null or arrays as long as there are spatial dimensions.
        let (windows, kernel) = unsafe {
            let windows = Windows::read(diff_src.rank(), [strides, dilation, padding_l, padding_r])?;
            (windows, numbers(kernel, diff_src.rank() - 2, "kernel", None)?)
        };
        let op = pooling(alg_kind, &windows, &kernel, &diff_src, &diff_dst)?;
        attr.check_plain()?;
        let (diff_src, diff_dst) = both_settled(diff_src, diff_dst)?;
        let diff_dst = recipe.operand(arg::DIFF_DST, (query::DIFF_DST, 0), diff_dst);
        let kept = if alg_kind == POOLING_MAX {
            // SAFETY: the caller passes null or a description that lives.
            let forward = unsafe { handle::borrow(hint_fwd_pd) }?;
            let kept = forward.operands.iter().find(|operand| operand.number == arg::WORKSPACE);
            let kept = kept.ok_or_else(|| Failure::invalid("the hint has no workspace"))?;
            if kept.desc.dims() != diff_src.dims() {
                return Err(Failure::invalid("the hint is of another shape"));
            }
            Some(recipe.operand(arg::WORKSPACE, (query::WORKSPACE, 0), kept.desc.clone()))
        } else {
            None
        };
        let diff_src = recipe.operand(arg::DIFF_SRC, (query::DIFF_SRC, 0), diff_src);
        let mut args = vec![(Arg::Src(0), &diff_dst)];
        args.extend(kept.as_ref().map(|kept| (Arg::Src(1), kept)));
        args.push((Arg::DST, &diff_src));
        recipe.step(PoolingBackward::new(op), &args, &Attributes::default())?;
        Ok(facts(&windows, &kernel, dnnl_backward_data, alg_kind))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_pooling_backward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// Two layouts, of which one that is open becomes like the other.
pub(crate) fn both_settled(a: MemoryDesc, b: MemoryDesc) -> Outcome<(MemoryDesc, MemoryDesc)> {
    let a = settled(a, &b)?;
    let a = dense(a);
    let b = settled(b, &a)?;
    Ok((a, b))
}

fn pooling(
    algorithm: dnnl_alg_kind_t,
    windows: &Windows,
    kernel: &Dims,
    src: &MemoryDesc,
    dst: &MemoryDesc,
) -> Outcome<Pooling> {
    let algorithm = match algorithm {
        POOLING_MAX => PoolingAlgorithm::Max,
        POOLING_AVG_INCLUDE => PoolingAlgorithm::AverageIncludePadding,
        POOLING_AVG_EXCLUDE => PoolingAlgorithm::AverageExcludePadding,
        other => return Err(Failure::invalid(format!("{other:#x} is not a pooling algorithm"))),
    };
    if dst.rank() != src.rank() || dst.dims()[..2] != src.dims()[..2] {
        return Err(Failure::invalid(format!("source {} and result {} do not fit", src.dims(), dst.dims())));
    }
    for axis in 0..kernel.len() {
        let count = windows.count(axis, src.dims()[axis + 2], kernel[axis]);
        if count != Some(dst.dims()[axis + 2]) || kernel[axis] == 0 {
            let given = format!("{} does not lead to {}", src.dims(), dst.dims());
            return Err(Failure::invalid(format!("spatial dimension {axis} of {given}")));
        }
    }
    Ok(Pooling::new(algorithm, kernel.clone())
        .with_strides(windows.strides.clone())
        .with_dilations(windows.dilations.clone())
        .with_pads(windows.before.clone(), windows.after.clone()))
}

fn facts(windows: &Windows, kernel: &Dims, prop: dnnl_prop_kind_t, algorithm: dnnl_alg_kind_t) -> Facts {
    let kernel: Vec<i64> = kernel.iter().map(|&n| n as i64).collect();
    windows.facts(kind::POOLING, prop, algorithm).array(query::KERNEL, &kernel)
}

//! Softmax and its gradient.

use anydnn_backend::op::Softmax;
use anydnn_backend::{Arg, Eltwise};

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::kinds::{SOFTMAX_INF_AS_ZERO, arg, dnnl_backward_data, kind, query};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::primitive::{Facts, axis_of, closed, describe, is_training, open, same_dims};
use crate::recipe::{Formula, Recipe, settled};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes the forward pass of softmax, or of its logarithm, along an axis.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_softmax_forward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    alg_kind: dnnl_alg_kind_t,
    src_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    softmax_axis: i32,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let (src, dst) = unsafe { (closed(src_desc, "src_desc")?, open(dst_desc, "dst_desc")?) };
        is_training(prop_kind)?;
        let axis = axis_of(softmax_axis, src.rank(), "softmax_axis")?;
        let inf_as_zero = alg_kind == SOFTMAX_INF_AS_ZERO;
        let op = Softmax { axis, log: is_logarithm(alg_kind)?, inf_as_zero };
        same_dims(&src, &dst, "dst_desc")?;
        let dst = settled(dst, &src)?;
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        let attr = recipe.scale_behind(&src, attr)?;
        recipe.main(op, &[(Arg::SRC, &src)], &dst, &attr)?;
        Ok(Facts::new(kind::SOFTMAX, prop_kind).algorithm(alg_kind).integer(query::AXIS, softmax_axis))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_softmax_forward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// Describes the gradient of softmax, or of its logarithm, from its result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_softmax_backward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    alg_kind: dnnl_alg_kind_t,
    diff_src_desc: const_dnnl_memory_desc_t,
    diff_dst_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    softmax_axis: i32,
    _hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let (diff_src, diff_dst, dst) = unsafe {
            (
                open(diff_src_desc, "diff_src_desc")?,
                open(diff_dst_desc, "diff_dst_desc")?,
                closed(dst_desc, "dst_desc")?,
            )
        };
        let axis = axis_of(softmax_axis, dst.rank(), "softmax_axis")?;
        let is_logarithm = is_logarithm(alg_kind)?;
        attr.check_plain()?;
        same_dims(&dst, &diff_src, "diff_src_desc")?;
        same_dims(&dst, &diff_dst, "diff_dst_desc")?;
        let (diff_dst, diff_src) = (settled(diff_dst, &dst)?, settled(diff_src, &dst)?);
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        let diff_dst = recipe.operand(arg::DIFF_DST, (query::DIFF_DST, 0), diff_dst);
        let diff_src = recipe.operand(arg::DIFF_SRC, (query::DIFF_SRC, 0), diff_src);
        let mut f = Formula::new(dst.dims()).folded([axis]);
        let (y, dy) = (f.tensor(&dst), f.tensor(&diff_dst));
        let gradient = if is_logarithm {
            let sum = f.sum(dy);
            let share = f.apply(Eltwise::Exp, y);
            let common = f.mul(share, sum);
            f.sub(dy, common)
        } else {
            let product = f.mul(dy, y);
            let sum = f.sum(product);
            let rest = f.sub(dy, sum);
            f.mul(y, rest)
        };
        f.result(gradient, &diff_src);
        recipe.formula(f)?;
        Ok(Facts::new(kind::SOFTMAX, dnnl_backward_data)
            .algorithm(alg_kind)
            .integer(query::AXIS, softmax_axis))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_softmax_backward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

fn is_logarithm(algorithm: dnnl_alg_kind_t) -> Outcome<bool> {
    match algorithm {
        dnnl_softmax_accurate | SOFTMAX_INF_AS_ZERO => Ok(false),
        dnnl_softmax_log => Ok(true),
        other => Err(Failure::invalid(format!("{other:#x} is not a softmax algorithm"))),
    }
}

//! A rectifier with slopes, and its gradient.

use anydnn_backend::MemoryDesc;

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::kinds::{arg, dnnl_backward, kind, query};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::primitive::{Facts, closed, describe, is_training, open, same_dims};
use crate::recipe::{Formula, Recipe, like, settled};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes a rectifier whose slope below zero comes from weights, which broadcast to the source.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_prelu_forward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    src_desc: const_dnnl_memory_desc_t,
    weights_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        is_training(prop_kind)?;
        // SAFETY: the caller passes null or descriptors that live.
        let (src, weights, dst) = unsafe {
            (closed(src_desc, "src_desc")?, open(weights_desc, "weights_desc")?, open(dst_desc, "dst_desc")?)
        };
        attr.check_plain()?;
        same_dims(&src, &dst, "dst_desc")?;
        let (weights, dst) = (slopes(weights, &src)?, settled(dst, &src)?);
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let weights = recipe.operand(arg::WEIGHTS, (query::WEIGHTS, 0), weights);
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        let mut f = Formula::new(src.dims());
        let (x, slope) = (f.tensor(&src), f.tensor(&weights));
        let below = f.mul(x, slope);
        let positive = f.is_positive(x);
        let y = f.select(positive, x, below);
        f.result(y, &dst);
        recipe.formula(f)?;
        Ok(Facts::new(kind::PRELU, prop_kind))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_prelu_forward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// Describes the gradient of a rectifier for its source and its weights.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_prelu_backward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    src_desc: const_dnnl_memory_desc_t,
    weights_desc: const_dnnl_memory_desc_t,
    diff_src_desc: const_dnnl_memory_desc_t,
    diff_weights_desc: const_dnnl_memory_desc_t,
    diff_dst_desc: const_dnnl_memory_desc_t,
    _hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let (src, weights, diff_src, diff_weights, diff_dst) = unsafe {
            (
                closed(src_desc, "src_desc")?,
                open(weights_desc, "weights_desc")?,
                open(diff_src_desc, "diff_src_desc")?,
                open(diff_weights_desc, "diff_weights_desc")?,
                open(diff_dst_desc, "diff_dst_desc")?,
            )
        };
        attr.check_plain()?;
        same_dims(&src, &diff_src, "diff_src_desc")?;
        same_dims(&src, &diff_dst, "diff_dst_desc")?;
        same_dims(&weights, &diff_weights, "diff_weights_desc")?;
        let weights = slopes(weights, &src)?;
        let (diff_src, diff_weights, diff_dst) =
            (settled(diff_src, &src)?, settled(diff_weights, &weights)?, settled(diff_dst, &src)?);
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let weights = recipe.operand(arg::WEIGHTS, (query::WEIGHTS, 0), weights);
        let diff_dst = recipe.operand(arg::DIFF_DST, (query::DIFF_DST, 0), diff_dst);
        let diff_src = recipe.operand(arg::DIFF_SRC, (query::DIFF_SRC, 0), diff_src);
        let diff_weights = recipe.operand(arg::DIFF_WEIGHTS, (query::DIFF_WEIGHTS, 0), diff_weights);
        let folded = (0..src.dims().len()).filter(|&axis| src.dims()[axis] != weights.dims()[axis]);
        let mut f = Formula::new(src.dims()).folded(folded);
        let (x, slope, dy) = (f.tensor(&src), f.tensor(&weights), f.tensor(&diff_dst));
        let positive = f.is_positive(x);
        let below = f.mul(dy, slope);
        let dx = f.select(positive, dy, below);
        f.result(dx, &diff_src);
        let product = f.mul(dy, x);
        let zero = f.number(0.0);
        let part = f.select(positive, zero, product);
        let sum = f.sum(part);
        f.result(sum, &diff_weights);
        recipe.formula(f)?;
        Ok(Facts::new(kind::PRELU, dnnl_backward))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_prelu_backward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

fn slopes(weights: MemoryDesc, src: &MemoryDesc) -> Outcome<MemoryDesc> {
    if weights.rank() != src.rank() || !weights.dims().broadcasts_to(src.dims()) {
        return Err(Failure::invalid(format!(
            "weights {} do not broadcast to {}",
            weights.dims(),
            src.dims()
        )));
    }
    if weights.is_any() { like(src, weights.dims(), weights.data_type()) } else { Ok(weights) }
}

//! Resampling and its gradient.

use std::sync::Arc;

use anydnn_backend::op::{Resampling, ResamplingAlgorithm, ResamplingBackward};
use anydnn_backend::{Arg, Attributes, Dims, MemoryDesc};

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::handle;
use crate::kinds::{RESAMPLING_LINEAR, RESAMPLING_NEAREST, arg, dnnl_backward_data, kind, query};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::pooling::both_settled;
use crate::primitive::{Facts, closed, describe, is_training, open, optional};
use crate::recipe::{Recipe, like, settled};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes another size of the spatial dimensions: that of the result, or the source's times `factors`, one of which may be null or empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_resampling_forward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    alg_kind: dnnl_alg_kind_t,
    factors: *const f32,
    src_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        is_training(prop_kind)?;
        // SAFETY: the caller passes null or descriptors that live.
        let (src, dst) = unsafe { (closed(src_desc, "src_desc")?, optional(dst_desc, "dst_desc")?) };
        let op = resampling(alg_kind, &src)?;
        // SAFETY: the caller passes null, or a number for each spatial dimension.
        let factors = unsafe { Factors::read(factors, &src)? };
        let dst = match (dst, &factors) {
            (Some(dst), _) => dst,
            (None, Some(factors)) => like(&src, &factors.applied(&src), src.data_type())?,
            (None, None) => return Err(Failure::invalid("neither factors nor dst_desc tell the size")),
        };
        check(&src, &dst, factors.as_ref())?;
        let dst = settled(dst, &src)?;
        let facts = Factors::facts(factors.as_ref(), &src, &dst, prop_kind, alg_kind);
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        recipe.main(op, &[(Arg::SRC, &src)], &dst, attr)?;
        Ok(facts)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_resampling_forward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// Describes the gradient of a resampling for its source.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_resampling_backward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    alg_kind: dnnl_alg_kind_t,
    factors: *const f32,
    diff_src_desc: const_dnnl_memory_desc_t,
    diff_dst_desc: const_dnnl_memory_desc_t,
    _hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let (diff_src, diff_dst) =
            unsafe { (open(diff_src_desc, "diff_src_desc")?, open(diff_dst_desc, "diff_dst_desc")?) };
        let op = resampling(alg_kind, &diff_src)?;
        attr.check_plain()?;
        // SAFETY: the caller passes null, or a number for each spatial dimension.
        let factors = unsafe { Factors::read(factors, &diff_src)? };
        check(&diff_src, &diff_dst, factors.as_ref())?;
        let (diff_src, diff_dst) = both_settled(diff_src, diff_dst)?;
        let facts = Factors::facts(factors.as_ref(), &diff_src, &diff_dst, dnnl_backward_data, alg_kind);
        let diff_dst = recipe.operand(arg::DIFF_DST, (query::DIFF_DST, 0), diff_dst);
        let diff_src = recipe.operand(arg::DIFF_SRC, (query::DIFF_SRC, 0), diff_src);
        let args = [(Arg::SRC, &diff_dst), (Arg::DST, &diff_src)];
        recipe.step(ResamplingBackward::new(op), &args, &Attributes::default())?;
        Ok(facts)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_resampling_backward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

fn resampling(algorithm: dnnl_alg_kind_t, src: &MemoryDesc) -> Outcome<Resampling> {
    if !(3..=5).contains(&src.rank()) {
        return Err(Failure::invalid(format!(
            "the source {} has no one to three spatial dimensions",
            src.dims()
        )));
    }
    match algorithm {
        RESAMPLING_NEAREST => Ok(Resampling::new(ResamplingAlgorithm::Nearest)),
        RESAMPLING_LINEAR => Ok(Resampling::new(ResamplingAlgorithm::Linear)),
        other => Err(Failure::invalid(format!("{other:#x} is not a resampling algorithm"))),
    }
}

/// Factors of the spatial dimensions.
struct Factors(Vec<f32>);

impl Factors {
    /// # Safety
    /// `factors` is null, or a number for each spatial dimension of the source.
    unsafe fn read(factors: *const f32, src: &MemoryDesc) -> Outcome<Option<Self>> {
        if factors.is_null() {
            return Ok(None);
        }
        // SAFETY: by contract.
        let given = unsafe { handle::slice(factors, src.rank() - 2, "factors") }?;
        if given.iter().any(|&factor| !factor.is_finite() || factor <= 0.0) {
            return Err(Failure::invalid(format!("the factors are {given:?}, expected positive ones")));
        }
        Ok(Some(Self(given.to_vec())))
    }

    fn applied(&self, src: &MemoryDesc) -> Dims {
        let mut dims = src.dims().clone();
        for (dim, factor) in dims[2..].iter_mut().zip(&self.0) {
            *dim = (*dim as f32 * factor) as usize;
        }
        dims
    }

    fn facts(
        factors: Option<&Self>,
        src: &MemoryDesc,
        dst: &MemoryDesc,
        prop: dnnl_prop_kind_t,
        algorithm: dnnl_alg_kind_t,
    ) -> Facts {
        let mut told = [0.0; 12];
        for (i, slot) in told[..src.rank() - 2].iter_mut().enumerate() {
            let own = dst.dims()[i + 2] as f32 / src.dims()[i + 2] as f32;
            *slot = factors.map_or(own, |factors| factors.0[i]);
        }
        Facts { factors: Some(Arc::new(told)), ..Facts::new(kind::RESAMPLING, prop).algorithm(algorithm) }
    }
}

fn check(src: &MemoryDesc, dst: &MemoryDesc, factors: Option<&Factors>) -> Outcome {
    let fits = src.rank() == dst.rank()
        && src.dims()[..2] == dst.dims()[..2]
        && factors.is_none_or(|factors| factors.applied(src) == *dst.dims());
    if fits {
        Ok(())
    } else {
        Err(Failure::invalid(format!("{} is not resampled to {}", src.dims(), dst.dims())))
    }
}

//! Functions of each element.

use anydnn_backend::op::Function;
use anydnn_backend::{Arg, BinaryAlgorithm, Eltwise};

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::kinds::{arg, dnnl_backward_data, kind, query};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::primitive::{Facts, closed, describe, is_training, open, operand, same_dims};
use crate::recipe::{Formula, Recipe, settled};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes the forward pass of a function of each element.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_eltwise_forward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    alg_kind: dnnl_alg_kind_t,
    src_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    alpha: f32,
    beta: f32,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let (src, dst, given) = unsafe {
            let given = [operand(src_desc, "src_desc")?, operand(dst_desc, "dst_desc")?];
            (closed(src_desc, "src_desc")?, open(dst_desc, "dst_desc")?, given)
        };
        is_training(prop_kind)?;
        let function = function(alg_kind, alpha, beta)?;
        let is_f32 = |md: &crate::desc::Md| md.data_type.is_some_and(|code| code.value() == dnnl_f32);
        if function == Eltwise::Round && !given.into_iter().all(is_f32) {
            return Err(Failure::invalid("rounding is of f32 alone"));
        }
        same_dims(&src, &dst, "dst_desc")?;
        let dst = settled(dst, &src)?;
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        recipe.main(function, &[(Arg::SRC, &src)], &dst, attr)?;
        Ok(facts(prop_kind, alg_kind, alpha, beta))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_eltwise_forward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// Describes the gradient of a function of each element. `data_desc` is of the source, or of the result for the algorithms that use it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_eltwise_backward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    alg_kind: dnnl_alg_kind_t,
    diff_src_desc: const_dnnl_memory_desc_t,
    diff_dst_desc: const_dnnl_memory_desc_t,
    data_desc: const_dnnl_memory_desc_t,
    alpha: f32,
    beta: f32,
    _hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let (diff_src, diff_dst, data) = unsafe {
            (
                open(diff_src_desc, "diff_src_desc")?,
                open(diff_dst_desc, "diff_dst_desc")?,
                closed(data_desc, "data_desc")?,
            )
        };
        let function = function(alg_kind, alpha, beta)?;
        attr.check_plain()?;
        same_dims(&data, &diff_src, "diff_src_desc")?;
        same_dims(&data, &diff_dst, "diff_dst_desc")?;
        let of_result = alg_kind >= dnnl_eltwise_relu_use_dst_for_bwd;
        let (diff_dst, diff_src) = (settled(diff_dst, &data)?, settled(diff_src, &data)?);
        let data = if of_result {
            recipe.operand(arg::DST, (query::DST, 0), data)
        } else {
            recipe.operand(arg::SRC, (query::SRC, 0), data)
        };
        let diff_dst = recipe.operand(arg::DIFF_DST, (query::DIFF_DST, 0), diff_dst);
        let diff_src = recipe.operand(arg::DIFF_SRC, (query::DIFF_SRC, 0), diff_src);
        let mut f = Formula::new(data.dims());
        let (at, diff) = (f.tensor(&data), f.tensor(&diff_dst));
        let gradient = match function {
            // This algorithm alone passes the gradient on at its upper bound.
            Eltwise::Clamp { min, max } if alg_kind == dnnl_eltwise_clip => {
                let (min, max, zero) = (f.number(min), f.number(max), f.number(0.0));
                let is_below = f.binary(BinaryAlgorithm::LessEqual, at, max);
                let is_above = f.binary(BinaryAlgorithm::Greater, at, min);
                let below = f.select(is_below, diff, zero);
                f.select(is_above, below, zero)
            }
            _ => f.gradient(function, of_result, at, diff),
        };
        f.result(gradient, &diff_src);
        recipe.formula(f)?;
        Ok(facts(dnnl_backward_data, alg_kind, alpha, beta))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_eltwise_backward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

fn facts(prop: dnnl_prop_kind_t, algorithm: dnnl_alg_kind_t, alpha: f32, beta: f32) -> Facts {
    Facts::new(kind::ELTWISE, prop).algorithm(algorithm).float(query::ALPHA, alpha).float(query::BETA, beta)
}

/// The function that an algorithm with its parameters is. The forward pass of the variants for training is the same.
pub(crate) fn function(algorithm: dnnl_alg_kind_t, alpha: f32, beta: f32) -> Outcome<Eltwise> {
    let needs_sign =
        matches!(algorithm, dnnl_eltwise_relu_use_dst_for_bwd | dnnl_eltwise_elu_use_dst_for_bwd);
    if needs_sign && (alpha.is_nan() || alpha < 0.0) {
        return Err(Failure::invalid(format!("alpha is {alpha}, expected one that is not negative")));
    }
    let row = Function::of_onednn(algorithm);
    let row = row.ok_or_else(|| Failure::invalid(format!("{algorithm:#x} is not an eltwise algorithm")))?;
    let mut given = [alpha, beta].into_iter();
    let function = row.example.with_parameters(|name| {
        given
            .next()
            .ok_or_else(|| Failure::invalid(format!("{name} of {} is not in the interface", row.name)))
    })?;
    match function {
        Eltwise::LeakyRelu { alpha: 0.0 } => Ok(Eltwise::Relu),
        Eltwise::Clamp { min, max } if min.is_nan() || max.is_nan() || min > max => {
            Err(Failure::invalid(format!("alpha is {alpha}, expected at most beta, {beta}")))
        }
        function => Ok(function),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_checked() {
        for (algorithm, alpha, beta) in [
            (dnnl_eltwise_relu_use_dst_for_bwd, -1.0, 0.0),
            (dnnl_eltwise_elu_use_dst_for_bwd, f32::NAN, 0.0),
            (dnnl_eltwise_clip, 2.0, 1.0),
            (dnnl_eltwise_clip_v2, f32::NAN, 1.0),
            (0, 0.0, 0.0),
            (dnnl_eltwise_hardswish + 1, 0.0, 0.0),
            (dnnl_eltwise_clip_v2_use_dst_for_bwd + 1, 0.0, 0.0),
        ] {
            assert!(function(algorithm, alpha, beta).is_err(), "{algorithm:#x} {alpha} {beta}");
        }
        let all = (dnnl_eltwise_relu..=dnnl_eltwise_hardswish)
            .chain(dnnl_eltwise_relu_use_dst_for_bwd..=dnnl_eltwise_clip_v2_use_dst_for_bwd);
        assert_eq!(all.filter(|&algorithm| function(algorithm, 1.0, 2.0).is_ok()).count(), 28);
    }
}

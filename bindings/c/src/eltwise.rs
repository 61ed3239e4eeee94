//! Functions of each element.

use anydnn_backend::op::Function;
use anydnn_backend::{Eltwise, Op};

use crate::boundary::{self, Failure, Outcome};
use crate::desc::Format;
use crate::engine;
use crate::handle;
#[allow(clippy::wildcard_imports, reason = "every algorithm")]
use crate::object_types::*;
use crate::primitive::{Described, attributes, operand};
use crate::types::{const_dnnl_memory_desc_t, const_dnnl_primitive_attr_t, dnnl_f32, dnnl_status_t};

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
    boundary::status("dnnl_eltwise_forward_primitive_desc_create", || {
        let make = || {
            // SAFETY: the caller passes null or an engine that lives.
            let engine = unsafe { engine::reference(engine) }?;
            // SAFETY: the caller passes null or descriptors and attributes that live.
            let (src, dst, attributes) = unsafe {
                (operand(src_desc, "src_desc")?, operand(dst_desc, "dst_desc")?, attributes(attr)?)
            };
            if !matches!(prop_kind, dnnl_forward_training | dnnl_forward_inference) {
                return Err(Failure::invalid(format!("{prop_kind} is not a forward propagation kind")));
            }
            let function = function(alg_kind, alpha, beta)?;
            if matches!(src.format, Format::Any | Format::Undef) {
                return Err(Failure::invalid("src_desc has no layout"));
            }
            let f32_only = |md: &crate::desc::Md| md.data_type.is_some_and(|code| code.value() == dnnl_f32);
            if function == Eltwise::Round && !(f32_only(src) && f32_only(dst)) {
                return Err(Failure::invalid("rounding is of f32 alone"));
            }
            let src = src.to_memory_desc()?;
            // An open result has the layout of its source.
            let dst = match dst.format {
                Format::Any => {
                    let dst = dst.to_memory_desc()?;
                    if dst.dims() == src.dims() { src.with_data_type(dst.data_type()) } else { dst }
                }
                _ => dst.to_memory_desc()?,
            };
            Described::unary(Op::Eltwise(function), src, dst, &attributes, engine)
        };
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(primitive_desc, make) }
    })
}

/// The function that an algorithm with its parameters is. The forward pass of the variants for training is the same.
fn function(algorithm: dnnl_alg_kind_t, alpha: f32, beta: f32) -> Outcome<Eltwise> {
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
        Eltwise::SoftPlus { beta: 0.0 } => Err(Failure::invalid("alpha is 0, by which soft relu divides")),
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
            (dnnl_eltwise_soft_relu, 0.0, 0.0),
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

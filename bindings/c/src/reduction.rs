//! Folds along dimensions.

use anydnn_backend::op::{Fold, Reduction, ReductionAlgorithm};
use anydnn_backend::{Arg, BinaryAlgorithm, DataType, Eltwise, MemoryDesc};

use crate::attributes::Attr;
use crate::boundary::Failure;
use crate::kinds::{REDUCTION_MAX, REDUCTION_POWER_SUM, arg, kind, query};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::primitive::{Facts, closed, describe, open};
use crate::recipe::{Formula, Recipe, settled};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes a fold along the dimensions in which the result has one element.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_reduction_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    alg_kind: dnnl_alg_kind_t,
    src_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    p: f32,
    eps: f32,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let (src, dst) = unsafe { (closed(src_desc, "src_desc")?, open(dst_desc, "dst_desc")?) };
        if !(REDUCTION_MAX..=REDUCTION_POWER_SUM).contains(&alg_kind) {
            return Err(Failure::invalid(format!("{alg_kind:#x} is not a reduction algorithm")));
        }
        let fits = src.rank() == dst.rank()
            && src.dims() != dst.dims()
            && src.dims().iter().zip(dst.dims().iter()).all(|(s, d)| s == d || *d == 1);
        if !fits {
            return Err(Failure::invalid(format!("{} does not fold into {}", src.dims(), dst.dims())));
        }
        let dst = settled(dst, &src)?;
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        let facts =
            Facts::new(kind::REDUCTION, 0).algorithm(alg_kind).float(query::P, p).float(query::EPSILON, eps);
        let simple = match alg_kind - REDUCTION_MAX {
            0 => Some(ReductionAlgorithm::Max),
            1 => Some(ReductionAlgorithm::Min),
            2 => Some(ReductionAlgorithm::Sum),
            3 => Some(ReductionAlgorithm::Product),
            4 => Some(ReductionAlgorithm::Mean),
            _ => None,
        };
        if let Some(algorithm) = simple {
            recipe.main(Reduction::new(algorithm), &[(Arg::SRC, &src)], &dst, attr)?;
            return Ok(facts);
        }
        if p.is_nan() || p < 1.0 {
            return Err(Failure::invalid(format!("p is {p}, expected at least 1")));
        }
        attr.check_supported()?;
        attr.check_used(|number| number == arg::DST)?;
        let folded = (0..src.dims().len()).filter(|&axis| src.dims()[axis] != dst.dims()[axis]);
        let mut f = Formula::new(src.dims()).folded(folded);
        let x = f.tensor(&src);
        let magnitude = f.apply(Eltwise::Abs, x);
        let power = f.power(magnitude, p);
        let sum = f.fold(Fold::Sum, power);
        let takes_maximum = matches!(alg_kind - REDUCTION_MAX, 5 | 7);
        let eps = f.number(eps);
        let combine = if takes_maximum { BinaryAlgorithm::Maximum } else { BinaryAlgorithm::Add };
        let mut y = f.binary(combine, sum, eps);
        if alg_kind - REDUCTION_MAX < 7 {
            y = f.power(y, 1.0 / p);
        }
        let plain = recipe.temporary(MemoryDesc::new(dst.dims().clone(), DataType::F32));
        f.result(y, &plain);
        recipe.formula(f)?;
        let post_operands = recipe.post_operands(attr, &dst)?;
        recipe.epilogue(&plain, &dst, attr, &post_operands)?;
        Ok(facts)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_reduction_primitive_desc_create", primitive_desc, engine, attr, make) }
}

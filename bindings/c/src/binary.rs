//! Functions of two tensors.

use anydnn_backend::op::{Binary, Select};
use anydnn_backend::{Arg, MemoryDesc};

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::kinds::{self, BINARY_SELECT, arg, query};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::post_ops::algorithm;
use crate::primitive::{Facts, closed, describe, open, optional};
use crate::recipe::{Recipe, like, settled};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes a function of two tensors' elements; the second broadcasts to the first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_binary_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    alg_kind: dnnl_alg_kind_t,
    src0_desc: const_dnnl_memory_desc_t,
    src1_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let (src0, src1, src2, dst) = unsafe {
            (
                closed(src0_desc, "src0_desc")?,
                open(src1_desc, "src1_desc")?,
                None,
                open(dst_desc, "dst_desc")?,
            )
        };
        binary(recipe, attr, alg_kind, [src0, src1, dst], src2)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_binary_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// Describes a function of two tensors' elements, or a choice between them by a third.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_binary_primitive_desc_create_v2(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    alg_kind: dnnl_alg_kind_t,
    src0_desc: const_dnnl_memory_desc_t,
    src1_desc: const_dnnl_memory_desc_t,
    src2_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let (src0, src1, src2, dst) = unsafe {
            (
                closed(src0_desc, "src0_desc")?,
                open(src1_desc, "src1_desc")?,
                optional(src2_desc, "src2_desc")?,
                open(dst_desc, "dst_desc")?,
            )
        };
        binary(recipe, attr, alg_kind, [src0, src1, dst], src2)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_binary_primitive_desc_create_v2", primitive_desc, engine, attr, make) }
}

fn binary(
    recipe: &mut Recipe,
    attr: &Attr,
    kind: dnnl_alg_kind_t,
    [src0, src1, dst]: [MemoryDesc; 3],
    src2: Option<MemoryDesc>,
) -> Outcome<Facts> {
    let algorithm = if kind == BINARY_SELECT { None } else { Some(algorithm(kind)?) };
    let broadcasts = |desc: &MemoryDesc| desc.rank() == dst.rank() && desc.dims().broadcasts_to(dst.dims());
    if !broadcasts(&src0) || !broadcasts(&src1) || src2.as_ref().is_some_and(|desc| !broadcasts(desc)) {
        let given = format!("{} and {}", src0.dims(), src1.dims());
        return Err(Failure::invalid(format!("{given} do not broadcast to {}", dst.dims())));
    }
    let dst = settled(dst, &src0)?;
    let src1 = if src1.is_any() { like(&src0, src1.dims(), src1.data_type())? } else { src1 };
    let src0 = recipe.operand(arg::SRC, (query::SRC, 0), src0);
    let src1 = recipe.operand(arg::SRC_1, (query::SRC, 1), src1);
    let facts = Facts::new(kinds::kind::BINARY, 0).algorithm(kind);
    if let Some(algorithm) = algorithm {
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        recipe.main(Binary::new(algorithm), &[(Arg::Src(0), &src0), (Arg::Src(1), &src1)], &dst, attr)?;
    } else {
        let src2 = src2.ok_or_else(|| Failure::invalid("a choice needs src2_desc"))?;
        let src2 = settled(src2, &src0.desc)?;
        let src2 = recipe.operand(arg::SRC_2, (query::SRC, 2), src2);
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        let inputs = [(Arg::Src(0), &src2), (Arg::Src(1), &src0), (Arg::Src(2), &src1)];
        recipe.main(Select, &inputs, &dst, attr)?;
    }
    Ok(facts)
}

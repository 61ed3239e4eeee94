//! Matrix products.

use anydnn_backend::Arg;
use anydnn_backend::op::MatMul;

use crate::attributes::Attr;
use crate::kinds::{arg, kind, query};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::primitive::{Facts, describe, open, optional};
use crate::recipe::Recipe;
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes a (batched) product of matrices, with an optional bias that broadcasts to the result. Any layout may be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_matmul_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    src_desc: const_dnnl_memory_desc_t,
    weights_desc: const_dnnl_memory_desc_t,
    bias_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let (src, weights, bias, dst) = unsafe {
            (
                open(src_desc, "src_desc")?,
                open(weights_desc, "weights_desc")?,
                optional(bias_desc, "bias_desc")?,
                open(dst_desc, "dst_desc")?,
            )
        };
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let weights = recipe.operand(arg::WEIGHTS, (query::WEIGHTS, 0), weights);
        let bias = bias.map(|bias| recipe.operand(arg::BIAS, (query::WEIGHTS, 1), bias));
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        let mut inputs = vec![(Arg::SRC, &src), (Arg::Weights, &weights)];
        inputs.extend(bias.as_ref().map(|bias| (Arg::Bias, bias)));
        recipe.main(MatMul, &inputs, &dst, attr)?;
        Ok(Facts::new(kind::MATMUL, 0))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_matmul_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// The instruction set that the library uses: none in particular, because it has no engines of processors of its own.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_get_effective_cpu_isa() -> dnnl_cpu_isa_t {
    dnnl_cpu_isa_default
}

//! Matrix products.

use anydnn_backend::op::MatMul;
use anydnn_backend::{Arg, MemoryDesc};

use crate::attributes::Attr;
use crate::boundary::{self, Failure, Outcome};
use crate::desc::{Format, Md};
use crate::kinds::{arg, kind, query};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::primitive::{Facts, attributes, tensor, unknown};
use crate::recipe::Recipe;
use crate::refusals::Lack;
use crate::runtime::{self, Given};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;
use crate::{engine, grouped, handle, sparse};

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
    boundary::status("dnnl_matmul_primitive_desc_create", || {
        let make = || {
            // SAFETY: the caller passes null, or objects that live.
            let (engine, attr, src, weights, bias, dst) = unsafe {
                (
                    engine::reference(engine)?,
                    attributes(attr)?,
                    unknown(src_desc, "src_desc")?,
                    unknown(weights_desc, "weights_desc")?,
                    handle::borrow_optional(bias_desc)?.filter(|md| !matches!(md.format, Format::Undef)),
                    unknown(dst_desc, "dst_desc")?,
                )
            };
            let given = |number, md: &Md, what| Given { number, md: md.clone(), what };
            let mut operands = vec![
                given(arg::SRC, src, "src_desc"),
                given(arg::WEIGHTS, weights, "weights_desc"),
                given(arg::DST, dst, "dst_desc"),
            ];
            operands.extend(bias.map(|md| given(arg::BIAS, md, "bias_desc")));
            if operands.iter().any(|operand| grouped::is_grouped(&operand.md)) {
                if operands.iter().any(|operand| operand.md.is_runtime()) {
                    return Err(Lack::Unknown.failure("unknown dimensions beside grouped ones"));
                }
                return runtime::describe(&engine, None, &attr, operands, &[], grouped::product);
            }
            let rank = src.rank;
            if rank < 2 || operands.iter().any(|operand| operand.md.rank != rank) {
                return Err(Failure::invalid(
                    "the operands have different numbers of dimensions, or less than two",
                ));
            }
            let axes = ["mk", "kn", "mn", "MN"].map(|tail| letters(rank, tail));
            runtime::describe(&engine, None, &attr, operands, &axes, product)
        };
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(primitive_desc, make) }
    })
}

/// The recipe for the source, the weights, the result, and the bias where there is one.
fn product(recipe: &mut Recipe, attr: &Attr, mds: &[Md]) -> Outcome<Facts> {
    if mds[..2].iter().any(sparse::is_sparse) {
        return sparse::product(recipe, attr, mds);
    }
    let src = recipe.operand(arg::SRC, (query::SRC, 0), tensor(&mds[0], "src_desc")?);
    let weights = recipe.operand(arg::WEIGHTS, (query::WEIGHTS, 0), unpacked(&mds[1])?);
    let bias = mds.get(3).map(|md| tensor(md, "bias_desc")).transpose()?;
    let bias = bias.map(|bias| recipe.operand(arg::BIAS, (query::WEIGHTS, 1), bias));
    let dst = recipe.operand(arg::DST, (query::DST, 0), tensor(&mds[2], "dst_desc")?);
    let mut inputs = vec![(Arg::SRC, &src), (Arg::Weights, &weights)];
    inputs.extend(bias.as_ref().map(|bias| (Arg::Bias, bias)));
    recipe.main(MatMul, &inputs, &dst, attr)?;
    Ok(Facts::new(kind::MATMUL, 0))
}

/// Weights, whose packed encoding is a dense layout of the library's choice.
fn unpacked(md: &Md) -> Outcome<MemoryDesc> {
    let open = matches!(md.format, Format::Packed { .. }).then(|| Md { format: Format::Any, ..md.clone() });
    tensor(open.as_ref().unwrap_or(md), "weights_desc")
}

/// Letters of an operand's axes: those of the batch may be one, then the last two.
fn letters(rank: usize, tail: &str) -> Vec<char> {
    "ABCDEFGHIJ".chars().take(rank - 2).chain(tail.chars()).collect()
}

/// The instruction set that the library uses: none in particular, because it has no engines of processors of its own.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_get_effective_cpu_isa() -> dnnl_cpu_isa_t {
    dnnl_cpu_isa_default
}

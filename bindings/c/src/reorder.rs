//! Copies into another layout, element type or context.

use anydnn_backend::op::Reorder;
use anydnn_backend::{Arg, DataType, MemoryDesc};

use crate::attributes::Attr;
use crate::boundary::{self, Failure, Outcome};
use crate::desc::{Format, Md};
use crate::engine;
use crate::handle;
use crate::kinds::{arg, kind, query};
use crate::object_types::{dnnl_cpu, dnnl_engine_t, dnnl_primitive_desc_t};
use crate::primitive::{Facts, attributes, same_dims, tensor, unknown};
use crate::recipe::{Formula, Recipe};
use crate::recurrent_attributes::Factors;
use crate::recurrent_layers::TERMS;
use crate::refusals::Lack;
use crate::runtime::{self, Given};
use crate::types::{const_dnnl_memory_desc_t, const_dnnl_primitive_attr_t, dnnl_status_t};

/// Describes a copy from one engine's memory to another's, or to the same one's. It runs on streams of the target's engine; from a device to
/// the host, on those of the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_reorder_primitive_desc_create(
    reorder_primitive_desc: *mut dnnl_primitive_desc_t,
    src_desc: const_dnnl_memory_desc_t,
    src_engine: dnnl_engine_t,
    dst_desc: const_dnnl_memory_desc_t,
    dst_engine: dnnl_engine_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    boundary::status("dnnl_reorder_primitive_desc_create", || {
        let make = || {
            // SAFETY: the caller passes null or engines, descriptors and attributes that live.
            let (source, target, src, dst, attr) = unsafe {
                (
                    engine::reference(src_engine)?,
                    engine::reference(dst_engine)?,
                    unknown(src_desc, "src_desc")?,
                    unknown(dst_desc, "dst_desc")?,
                    attributes(attr)?,
                )
            };
            for (md, what) in [(src, "src_desc"), (dst, "dst_desc")] {
                if matches!(md.format, Format::Any) {
                    return Err(Failure::invalid(format!("{what} leaves its layout open")));
                }
            }
            if src.rank != dst.rank {
                return Err(Failure::invalid(format!("{} dimensions become {}", src.rank, dst.rank)));
            }
            let (engine, elsewhere) = if source.value().shares_memory_with(target.value()) {
                (target, None)
            } else if target.value().kind() == dnnl_cpu {
                (source, Some((arg::DST, target)))
            } else {
                (target, Some((arg::SRC, source)))
            };
            let given = |number, md: &Md, what| Given { number, md: md.clone(), what };
            let operands = vec![given(arg::SRC, src, "src_desc"), given(arg::DST, dst, "dst_desc")];
            let letters: Vec<char> = ('a'..='l').take(src.rank).collect();
            runtime::describe(&engine, elsewhere, &attr, operands, &[letters.clone(), letters], copy)
        };
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(reorder_primitive_desc, make) }
    })
}

/// The recipe for the source and the result.
fn copy(recipe: &mut Recipe, attr: &Attr, mds: &[Md]) -> Outcome<Facts> {
    let (src, dst) = (tensor(&mds[0], "src_desc")?, tensor(&mds[1], "dst_desc")?);
    same_dims(&src, &dst, "dst_desc")?;
    if !attr.recurrent.is_default() {
        return quantized(recipe, attr, src, dst);
    }
    let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
    let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
    recipe.main(Reorder, &[(Arg::SRC, &src)], &dst, attr)?;
    Ok(Facts::new(kind::REORDER, 0))
}

/// The recipe for floats that a recurrent layer reads as integers. Weights are s8 of five dimensions, or of four and not dense along the last one,
/// as layers choose for a projection that is left open; everything else is an input or a state.
fn quantized(recipe: &mut Recipe, attr: &Attr, src: MemoryDesc, dst: MemoryDesc) -> Outcome<Facts> {
    let (own, to) = (&attr.recurrent, dst.data_type());
    attr.without_recurrent().check_plain()?;
    let is_projection = dst.rank() == 4 && dst.blocking().is_some_and(|blocking| blocking.strides[3] != 1);
    let factors = match dst.rank() {
        _ if to != DataType::S8 => None,
        5 => own.weights.as_ref(),
        4 if is_projection => own.projection.as_ref(),
        _ => None,
    };
    if !src.data_type().is_float() || !matches!(to, DataType::U8 | DataType::S8) {
        let asked = format_args!("{} to {to} by the attributes of recurrent layers", src.data_type());
        return Err(Lack::Attribute.failure(asked));
    }
    let factors = factors.map(|own| Factors::tensor(Some(own), recipe, &dst, TERMS)).transpose()?;
    let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
    let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
    let mut f = Formula::new(dst.dims());
    let x = f.tensor(&src);
    let made = if let Some(factors) = &factors {
        let factors = f.tensor(factors);
        f.mul(x, factors)
    } else {
        let (scale, shift) = own.data();
        let scaled = f.times(x, scale);
        f.plus(scaled, shift)
    };
    f.result(made, &dst);
    recipe.formula(f)?;
    Ok(Facts::new(kind::REORDER, 0))
}

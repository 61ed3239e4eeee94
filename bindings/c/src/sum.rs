//! Tensors side by side, and their sums.

use std::ffi::c_int;

use anydnn_backend::op::Concat;
use anydnn_backend::{Arg, DataType, MemoryDesc};

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::handle;
use crate::kinds::{arg, kind, query};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::primitive::{Facts, axis_of, closed, describe, optional, same_dims};
use crate::recipe::{Formula, Recipe, Tensor, like, settled};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes tensors side by side along a dimension. An absent or open result is dense.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_concat_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    dst_desc: const_dnnl_memory_desc_t,
    n: c_int,
    concat_dimension: c_int,
    src_descs: *const const_dnnl_memory_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null, or so many descriptors that live.
        let (sources, given) = unsafe { (all(src_descs, n)?, optional(dst_desc, "dst_desc")?) };
        let first = &sources[0];
        let axis = axis_of(concat_dimension, first.rank(), "concat_dimension")?;
        let mut dims = first.dims().clone();
        dims[axis] = 0;
        for source in &sources {
            let fits = source.rank() == first.rank()
                && (0..first.rank()).all(|i| i == axis || source.dims()[i] == first.dims()[i]);
            if !fits {
                return Err(Failure::invalid(format!(
                    "{} does not lie beside {}",
                    source.dims(),
                    first.dims()
                )));
            }
            dims[axis] += source.dims()[axis];
        }
        let dst = match given {
            Some(given) if *given.dims() != dims => {
                return Err(Failure::invalid(format!("dst_desc is {}, expected {dims}", given.dims())));
            }
            Some(given) => settled(given, first)?,
            None => like(first, &dims, first.data_type())?,
        };
        let sources = operands(recipe, sources);
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        let (sources, attr) = scaled(recipe, sources, attr)?;
        let inputs: Vec<_> =
            sources.iter().enumerate().map(|(i, tensor)| (Arg::Src(i as u16), tensor)).collect();
        recipe.main(Concat::new(axis), &inputs, &dst, &attr)?;
        Ok(Facts::new(kind::CONCAT, 0).integer(query::AXIS, concat_dimension))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_concat_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// Describes the sum of tensors, each with a factor. An absent or open result is like the first source.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_sum_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    dst_desc: const_dnnl_memory_desc_t,
    n: c_int,
    scales: *const f32,
    src_descs: *const const_dnnl_memory_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null, or so many descriptors that live.
        let (sources, given) = unsafe { (all(src_descs, n)?, optional(dst_desc, "dst_desc")?) };
        // SAFETY: the caller passes null, or as many numbers.
        let scales = unsafe { handle::slice(scales, sources.len(), "scales") }?.to_vec();
        for source in &sources {
            same_dims(&sources[0], source, "a source")?;
        }
        let dst = match given {
            Some(given) => {
                same_dims(&sources[0], &given, "dst_desc")?;
                settled(given, &sources[0])?
            }
            None => like(&sources[0], sources[0].dims(), sources[0].data_type())?,
        };
        let sources = operands(recipe, sources);
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        let mut f = Formula::new(dst.dims());
        let mut total = None;
        for (source, &scale) in sources.iter().zip(&scales) {
            let x = f.tensor(source);
            let part = f.times(x, scale);
            total = Some(total.map_or(part, |total| f.add(total, part)));
        }
        let total = total.ok_or_else(|| Failure::invalid("there is nothing to add"))?;
        attr.check_plain()?;
        f.result(total, &dst);
        recipe.formula(f)?;
        Ok(Facts::new(kind::SUM, 0))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_sum_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// The descriptors of sources.
///
/// # Safety
/// `descs` is null or holds `count` descriptors, each null or one that lives.
unsafe fn all(descs: *const const_dnnl_memory_desc_t, count: c_int) -> Outcome<Vec<MemoryDesc>> {
    let count = usize::try_from(count).ok().filter(|&count| count > 0);
    let count = count.ok_or_else(|| Failure::invalid("there are no sources"))?;
    // SAFETY: by contract.
    let descs = unsafe { handle::slice(descs, count, "src_descs") }?;
    // SAFETY: by contract.
    descs.iter().map(|&desc| unsafe { closed(desc, "a source") }).collect()
}

/// Sources by their scales, and the attributes for what follows. All of them are in f32 where one has a scale.
fn scaled(recipe: &mut Recipe, mut sources: Vec<Tensor>, attr: &Attr) -> Outcome<(Vec<Tensor>, Attr)> {
    let mut rest = attr.clone();
    let has_scale = |i: usize| attr.scale(arg::MULTIPLE_SRC + i as c_int).is_some();
    if !(0..sources.len()).any(has_scale) {
        return Ok((sources, rest));
    }
    for source in &mut sources {
        let (float, left) = recipe.in_floats(source.clone(), &rest)?;
        let is_f32 = float.desc.data_type() == DataType::F32;
        *source = if is_f32 { float } else { recipe.dequantized(&float, None, None)? };
        rest = left;
    }
    Ok((sources, rest))
}

fn operands(recipe: &mut Recipe, sources: Vec<MemoryDesc>) -> Vec<Tensor> {
    let one = |(i, desc)| recipe.operand(arg::MULTIPLE_SRC + i as c_int, (query::SRC, i as c_int), desc);
    sources.into_iter().enumerate().map(one).collect()
}

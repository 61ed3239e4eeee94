//! Fully connected layers and their gradients.

use anydnn_backend::op::MatMul;
use anydnn_backend::{Arg, Attributes, DataType, Dims, MemoryDesc};

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::kinds::{arg, dnnl_backward_data, dnnl_backward_weights, kind, query};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::primitive::{Facts, describe, is_training, open, optional, same_dims};
use crate::recipe::{Pending, Recipe, Tensor, View, dense, like};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes a fully connected layer: `src` `[N, C, spatial..]`, `weights` `[O, C, spatial..]`, an optional bias `[O]`, `dst` `[N, O]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_inner_product_forward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    src_desc: const_dnnl_memory_desc_t,
    weights_desc: const_dnnl_memory_desc_t,
    bias_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        is_training(prop_kind)?;
        // SAFETY: the caller passes null or descriptors that live.
        let (src, weights, bias, dst) = unsafe {
            (
                open(src_desc, "src_desc")?,
                open(weights_desc, "weights_desc")?,
                optional(bias_desc, "bias_desc")?,
                open(dst_desc, "dst_desc")?,
            )
        };
        // A matrix whose layout is open lies as the product likes it best.
        let stays_open = weights.is_any() && weights.rank() == 2;
        let (src, chosen) = layouts(src, weights.clone(), &dst)?;
        let weights = if stays_open { weights } else { chosen };
        let dst = dense(dst);
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let weights = recipe.operand(arg::WEIGHTS, (query::WEIGHTS, 0), weights);
        if let Some(bias) = &bias {
            same_dims(&MemoryDesc::new([weights.dims()[0]], DataType::F32), bias, "bias_desc")?;
        }
        let bias = bias.map(|bias| recipe.operand(arg::BIAS, (query::WEIGHTS, 1), dense(bias)));
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        let (src, weights) = matrices(recipe, &src, &weights)?;
        let weights = recipe.read(&weights, &[View::Permuted(vec![1, 0])])?;
        let mut inputs = vec![(Arg::SRC, &src), (Arg::Weights, &weights)];
        inputs.extend(bias.as_ref().map(|bias| (Arg::Bias, bias)));
        recipe.main(MatMul, &inputs, &dst, attr)?;
        Ok(Facts::new(kind::INNER_PRODUCT, prop_kind))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe {
        describe("dnnl_inner_product_forward_primitive_desc_create", primitive_desc, engine, attr, make)
    }
}

/// Describes the gradient of a fully connected layer for its source.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_inner_product_backward_data_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    diff_src_desc: const_dnnl_memory_desc_t,
    weights_desc: const_dnnl_memory_desc_t,
    diff_dst_desc: const_dnnl_memory_desc_t,
    _hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let (diff_src, weights, diff_dst) = unsafe {
            (
                open(diff_src_desc, "diff_src_desc")?,
                open(weights_desc, "weights_desc")?,
                open(diff_dst_desc, "diff_dst_desc")?,
            )
        };
        attr.check_plain()?;
        let (diff_src, weights) = layouts(diff_src, weights, &diff_dst)?;
        let diff_dst = dense(diff_dst);
        let diff_dst = recipe.operand(arg::DIFF_DST, (query::DIFF_DST, 0), diff_dst);
        let weights = recipe.operand(arg::WEIGHTS, (query::WEIGHTS, 0), weights);
        let diff_src = recipe.operand(arg::DIFF_SRC, (query::DIFF_SRC, 0), diff_src);
        let weights = flat(recipe, &weights)?;
        let (view, pending) = flat_result(recipe, &diff_src)?;
        let args = [(Arg::SRC, &diff_dst), (Arg::Weights, &weights), (Arg::DST, &view)];
        recipe.step(MatMul, &args, &Attributes::default().with_fpmath(attr.fpmath))?;
        pending.store(recipe)?;
        Ok(Facts::new(kind::INNER_PRODUCT, dnnl_backward_data))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe {
        describe("dnnl_inner_product_backward_data_primitive_desc_create", primitive_desc, engine, attr, make)
    }
}

/// Describes the gradient of a fully connected layer for its weights, and for its bias where there is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_inner_product_backward_weights_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    src_desc: const_dnnl_memory_desc_t,
    diff_weights_desc: const_dnnl_memory_desc_t,
    diff_bias_desc: const_dnnl_memory_desc_t,
    diff_dst_desc: const_dnnl_memory_desc_t,
    _hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let (src, diff_weights, diff_bias, diff_dst) = unsafe {
            (
                open(src_desc, "src_desc")?,
                open(diff_weights_desc, "diff_weights_desc")?,
                optional(diff_bias_desc, "diff_bias_desc")?,
                open(diff_dst_desc, "diff_dst_desc")?,
            )
        };
        attr.check_plain()?;
        let (src, diff_weights) = layouts(src, diff_weights, &diff_dst)?;
        let diff_dst = dense(diff_dst);
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let diff_dst = recipe.operand(arg::DIFF_DST, (query::DIFF_DST, 0), diff_dst);
        let diff_weights = recipe.operand(arg::DIFF_WEIGHTS, (query::DIFF_WEIGHTS, 0), diff_weights);
        let columns = flat(recipe, &src)?;
        let rows = recipe.read(&diff_dst, &[View::Permuted(vec![1, 0])])?;
        let (view, pending) = flat_result(recipe, &diff_weights)?;
        let args = [(Arg::SRC, &rows), (Arg::Weights, &columns), (Arg::DST, &view)];
        recipe.step(MatMul, &args, &Attributes::default().with_fpmath(attr.fpmath))?;
        pending.store(recipe)?;
        crate::convolution::bias_gradient(recipe, &diff_dst, diff_bias)?;
        Ok(Facts::new(kind::INNER_PRODUCT, dnnl_backward_weights))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe {
        describe(
            "dnnl_inner_product_backward_weights_primitive_desc_create",
            primitive_desc,
            engine,
            attr,
            make,
        )
    }
}

/// The layouts of a source and weights, of which the one that is open becomes like the other.
fn layouts(src: MemoryDesc, weights: MemoryDesc, dst: &MemoryDesc) -> Outcome<(MemoryDesc, MemoryDesc)> {
    let fits = src.rank() == weights.rank()
        && (2..=5).contains(&src.rank())
        && src.dims()[1..] == weights.dims()[1..]
        && *dst.dims() == Dims::from([src.dims()[0], weights.dims()[0]]);
    if !fits {
        let given = format!("{}, {} and {}", src.dims(), weights.dims(), dst.dims());
        return Err(Failure::invalid(format!("source, weights and result are {given}, which do not fit")));
    }
    Ok(match (src.is_any(), weights.is_any()) {
        (true, true) => (src.to_row_major(), weights.to_row_major()),
        (true, false) => (plain_like(&weights, &src)?, weights),
        (false, true) => {
            let weights = plain_like(&src, &weights)?;
            (src, weights)
        }
        (false, false) => (src, weights),
    })
}

/// An open descriptor with the order of axes of another one, where that has no blocks.
fn plain_like(template: &MemoryDesc, open: &MemoryDesc) -> Outcome<MemoryDesc> {
    let is_blocked = template.blocking().is_none_or(|blocking| !blocking.inner.is_empty());
    if is_blocked { Ok(open.to_row_major()) } else { like(template, open.dims(), open.data_type()) }
}

/// Both as matrices `[rows, C x spatial]` with their columns in the same order.
fn matrices(recipe: &mut Recipe, src: &Tensor, weights: &Tensor) -> Outcome<(Tensor, Tensor)> {
    Ok((flat(recipe, src)?, flat(recipe, weights)?))
}

/// A tensor as a matrix to read. Its columns are in row-major order.
fn flat(recipe: &mut Recipe, tensor: &Tensor) -> Outcome<Tensor> {
    let rank = tensor.dims().len();
    if rank == 2 { Ok(tensor.clone()) } else { recipe.read(tensor, &[View::Merged(1, rank - 1)]) }
}

/// A tensor as a matrix to write; see [`flat`].
fn flat_result(recipe: &mut Recipe, tensor: &Tensor) -> Outcome<(Tensor, Pending)> {
    let rank = tensor.dims().len();
    let changes = if rank == 2 { Vec::new() } else { vec![View::Merged(1, rank - 1)] };
    recipe.write(tensor, &changes)
}

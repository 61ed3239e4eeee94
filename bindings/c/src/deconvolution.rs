//! Transposed convolution and its gradients.

use anydnn_backend::op::ConvolutionWeights;
use anydnn_backend::{Arg, Attributes};

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::convolution::{Windows, bias_gradient, groups};
use crate::kinds::{
    DECONVOLUTION_DIRECT, DECONVOLUTION_WINOGRAD, arg, dnnl_backward_data, dnnl_backward_weights, kind, query,
};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::primitive::{describe, is_training, open, optional};
use crate::recipe::{Recipe, Tensor, View, dense};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes a transposed convolution: `src` `[N, C, spatial..]`, `weights` `[O, C, kernel..]` or `[G, O / G, C / G, kernel..]`, an optional bias `[O]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_deconvolution_forward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    alg_kind: dnnl_alg_kind_t,
    src_desc: const_dnnl_memory_desc_t,
    weights_desc: const_dnnl_memory_desc_t,
    bias_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    strides: *const dnnl_dim_t,
    dilates: *const dnnl_dim_t,
    padding_l: *const dnnl_dim_t,
    padding_r: *const dnnl_dim_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        is_training(prop_kind)?;
        check_algorithm(alg_kind)?;
        // SAFETY: the caller passes null or descriptors that live.
        let (src, weights, bias, dst) = unsafe {
            (
                open(src_desc, "src_desc")?,
                open(weights_desc, "weights_desc")?,
                optional(bias_desc, "bias_desc")?,
                open(dst_desc, "dst_desc")?,
            )
        };
        // SAFETY: the caller passes null or arrays as long as there are spatial dimensions.
        let windows = unsafe { Windows::read(src.rank(), [strides, dilates, padding_l, padding_r]) }?;
        let (groups, rank) = (groups(&weights, src.rank())?, src.rank());
        windows.check(&src, &weights, &dst, true)?;
        let weights = dense(weights);
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let weights = recipe.operand(arg::WEIGHTS, (query::WEIGHTS, 0), weights);
        let bias = bias.map(|bias| recipe.operand(arg::BIAS, (query::WEIGHTS, 1), dense(bias)));
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        let weights = recipe.read(&weights, &transposed(&weights, rank))?;
        let mut inputs = vec![(Arg::SRC, &src), (Arg::Weights, &weights)];
        inputs.extend(bias.as_ref().map(|bias| (Arg::Bias, bias)));
        recipe.main(windows.deconvolution(groups), &inputs, &dst, attr)?;
        Ok(windows.facts(kind::DECONVOLUTION, prop_kind, alg_kind))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe {
        describe("dnnl_deconvolution_forward_primitive_desc_create", primitive_desc, engine, attr, make)
    }
}

/// Describes the gradient of a transposed convolution for its source.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_deconvolution_backward_data_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    alg_kind: dnnl_alg_kind_t,
    diff_src_desc: const_dnnl_memory_desc_t,
    weights_desc: const_dnnl_memory_desc_t,
    diff_dst_desc: const_dnnl_memory_desc_t,
    strides: *const dnnl_dim_t,
    dilates: *const dnnl_dim_t,
    padding_l: *const dnnl_dim_t,
    padding_r: *const dnnl_dim_t,
    _hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        check_algorithm(alg_kind)?;
        // SAFETY: the caller passes null or descriptors that live.
        let (diff_src, weights, diff_dst) = unsafe {
            (
                open(diff_src_desc, "diff_src_desc")?,
                open(weights_desc, "weights_desc")?,
                open(diff_dst_desc, "diff_dst_desc")?,
            )
        };
        // SAFETY: the caller passes null or arrays as long as there are spatial dimensions.
        let windows = unsafe { Windows::read(diff_src.rank(), [strides, dilates, padding_l, padding_r]) }?;
        let (groups, rank) = (groups(&weights, diff_src.rank())?, diff_src.rank());
        windows.check(&diff_src, &weights, &diff_dst, true)?;
        attr.check_plain()?;
        let weights = dense(weights);
        let diff_dst = recipe.operand(arg::DIFF_DST, (query::DIFF_DST, 0), diff_dst);
        let weights = recipe.operand(arg::WEIGHTS, (query::WEIGHTS, 0), weights);
        let diff_src = recipe.operand(arg::DIFF_SRC, (query::DIFF_SRC, 0), diff_src);
        let weights = recipe.read(&weights, &transposed(&weights, rank))?;
        let inputs = [(Arg::SRC, &diff_dst), (Arg::Weights, &weights)];
        recipe.main(windows.convolution(groups), &inputs, &diff_src, attr)?;
        Ok(windows.facts(kind::DECONVOLUTION, dnnl_backward_data, alg_kind))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe {
        describe("dnnl_deconvolution_backward_data_primitive_desc_create", primitive_desc, engine, attr, make)
    }
}

/// Describes the gradient of a transposed convolution for its weights, and for its bias where there is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_deconvolution_backward_weights_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    alg_kind: dnnl_alg_kind_t,
    src_desc: const_dnnl_memory_desc_t,
    diff_weights_desc: const_dnnl_memory_desc_t,
    diff_bias_desc: const_dnnl_memory_desc_t,
    diff_dst_desc: const_dnnl_memory_desc_t,
    strides: *const dnnl_dim_t,
    dilates: *const dnnl_dim_t,
    padding_l: *const dnnl_dim_t,
    padding_r: *const dnnl_dim_t,
    _hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        check_algorithm(alg_kind)?;
        // SAFETY: the caller passes null or descriptors that live.
        let (src, diff_weights, diff_bias, diff_dst) = unsafe {
            (
                open(src_desc, "src_desc")?,
                open(diff_weights_desc, "diff_weights_desc")?,
                optional(diff_bias_desc, "diff_bias_desc")?,
                open(diff_dst_desc, "diff_dst_desc")?,
            )
        };
        // SAFETY: the caller passes null or arrays as long as there are spatial dimensions.
        let windows = unsafe { Windows::read(src.rank(), [strides, dilates, padding_l, padding_r]) }?;
        let (groups, rank) = (groups(&diff_weights, src.rank())?, src.rank());
        windows.check(&src, &diff_weights, &diff_dst, true)?;
        attr.check_plain()?;
        let diff_weights = dense(diff_weights);
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let diff_dst = recipe.operand(arg::DIFF_DST, (query::DIFF_DST, 0), diff_dst);
        let diff_weights = recipe.operand(arg::DIFF_WEIGHTS, (query::DIFF_WEIGHTS, 0), diff_weights);
        let (view, pending) = recipe.write(&diff_weights, &transposed(&diff_weights, rank))?;
        let op = ConvolutionWeights::new(windows.convolution(groups));
        recipe.step(
            op,
            &[(Arg::Src(0), &diff_dst), (Arg::Src(1), &src), (Arg::DST, &view)],
            &Attributes::default(),
        )?;
        pending.store(recipe)?;
        bias_gradient(recipe, &diff_dst, diff_bias)?;
        Ok(windows.facts(kind::DECONVOLUTION, dnnl_backward_weights, alg_kind))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe {
        describe(
            "dnnl_deconvolution_backward_weights_primitive_desc_create",
            primitive_desc,
            engine,
            attr,
            make,
        )
    }
}

/// What makes a convolution's `[C, O / G, ..]` of weights `[O, C, ..]` or `[G, O / G, C / G, ..]`.
fn transposed(weights: &Tensor, rank: usize) -> Vec<View> {
    let mut order: Vec<usize> = (0..weights.dims().len()).collect();
    if order.len() == rank {
        order.swap(0, 1);
        return vec![View::Permuted(order)];
    }
    order.swap(1, 2);
    vec![View::Permuted(order), View::Merged(0, 2)]
}

fn check_algorithm(algorithm: dnnl_alg_kind_t) -> Outcome {
    if (DECONVOLUTION_DIRECT..=DECONVOLUTION_WINOGRAD).contains(&algorithm) {
        return Ok(());
    }
    Err(Failure::invalid(format!("{algorithm:#x} is not a deconvolution algorithm")))
}

//! Convolution and its gradients.

use anydnn_backend::op::{Convolution, ConvolutionWeights, Deconvolution, Reduction, ReductionAlgorithm};
use anydnn_backend::{Arg, Attributes, Dims, MemoryDesc};

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::depthwise::Depthwise;
use crate::kinds::{
    CONVOLUTION_AUTO, CONVOLUTION_DIRECT, arg, dnnl_backward_data, dnnl_backward_weights, kind, query,
};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::primitive::{Facts, describe, is_training, numbers, open, optional};
use crate::recipe::{Recipe, Tensor, View, dense};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes a convolution: `src` `[N, C, spatial..]`, `weights` `[O, C, kernel..]` or `[G, O / G, C / G, kernel..]`, an optional bias `[O]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_convolution_forward_primitive_desc_create(
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
        let alg_kind = algorithm(alg_kind)?;
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
        let groups = groups(&weights, src.rank())?;
        windows.check(&src, &weights, &dst, false)?;
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let weights = recipe.operand(
            arg::WEIGHTS,
            (query::WEIGHTS, 0),
            grouped_settled(weights, 2 + windows.strides.len()),
        );
        let bias = bias.map(|bias| recipe.operand(arg::BIAS, (query::WEIGHTS, 1), dense(bias)));
        let weights = recipe.read(&weights, &merge(&weights, 2 + windows.strides.len()))?;
        let mut inputs = vec![(Arg::SRC, &src), (Arg::Weights, &weights)];
        inputs.extend(bias.as_ref().map(|bias| (Arg::Bias, bias)));
        let op = windows.convolution(groups);
        if let Some(depthwise) = Depthwise::find(attr)? {
            depthwise.behind(recipe, op, &inputs, &dst, attr)?;
        } else {
            let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
            recipe.main(op, &inputs, &dst, attr)?;
        }
        Ok(windows.facts(kind::CONVOLUTION, prop_kind, alg_kind))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_convolution_forward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// Describes the gradient of a convolution for its source.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_convolution_backward_data_primitive_desc_create(
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
        let alg_kind = algorithm(alg_kind)?;
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
        let groups = groups(&weights, diff_src.rank())?;
        windows.check(&diff_src, &weights, &diff_dst, false)?;
        attr.check_plain()?;
        let diff_dst = recipe.operand(arg::DIFF_DST, (query::DIFF_DST, 0), diff_dst);
        let weights = recipe.operand(
            arg::WEIGHTS,
            (query::WEIGHTS, 0),
            grouped_settled(weights, 2 + windows.strides.len()),
        );
        let diff_src = recipe.operand(arg::DIFF_SRC, (query::DIFF_SRC, 0), diff_src);
        let weights = recipe.read(&weights, &merge(&weights, 2 + windows.strides.len()))?;
        let inputs = [(Arg::SRC, &diff_dst), (Arg::Weights, &weights)];
        recipe.main(windows.deconvolution(groups), &inputs, &diff_src, attr)?;
        Ok(windows.facts(kind::CONVOLUTION, dnnl_backward_data, alg_kind))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe {
        describe("dnnl_convolution_backward_data_primitive_desc_create", primitive_desc, engine, attr, make)
    }
}

/// Describes the gradient of a convolution for its weights, and for its bias where there is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_convolution_backward_weights_primitive_desc_create(
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
        let alg_kind = algorithm(alg_kind)?;
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
        let groups = groups(&diff_weights, src.rank())?;
        windows.check(&src, &diff_weights, &diff_dst, false)?;
        attr.check_plain()?;
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let diff_dst = recipe.operand(arg::DIFF_DST, (query::DIFF_DST, 0), diff_dst);
        let diff_weights = grouped_settled(diff_weights, src.dims().len());
        let diff_weights = recipe.operand(arg::DIFF_WEIGHTS, (query::DIFF_WEIGHTS, 0), diff_weights);
        let (view, pending) =
            recipe.write(&diff_weights, &merge(&diff_weights, 2 + windows.strides.len()))?;
        let op = ConvolutionWeights::new(windows.convolution(groups));
        recipe.step(
            op,
            &[(Arg::Src(0), &src), (Arg::Src(1), &diff_dst), (Arg::DST, &view)],
            &Attributes::default(),
        )?;
        pending.store(recipe)?;
        bias_gradient(recipe, &diff_dst, diff_bias)?;
        Ok(windows.facts(kind::CONVOLUTION, dnnl_backward_weights, alg_kind))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe {
        describe(
            "dnnl_convolution_backward_weights_primitive_desc_create",
            primitive_desc,
            engine,
            attr,
            make,
        )
    }
}

/// How windows slide over the spatial dimensions.
pub(crate) struct Windows {
    pub(crate) strides: Dims,
    /// Steps between taps; one is dense.
    pub(crate) dilations: Dims,
    pub(crate) before: Dims,
    pub(crate) after: Dims,
}

impl Windows {
    /// Strides, dilations (null for none), padding before and behind (null for the same).
    ///
    /// # Safety
    /// The pointers are null or arrays with a number for each spatial dimension of a tensor of that rank.
    pub(crate) unsafe fn read(
        rank: usize,
        [strides, dilates, before, after]: [*const dnnl_dim_t; 4],
    ) -> Outcome<Self> {
        if !(3..=5).contains(&rank) {
            return Err(Failure::invalid(format!("the tensors have {rank} dimensions, expected 3 to 5")));
        }
        let count = rank - 2;
        // SAFETY: by contract.
        unsafe {
            let strides = numbers(strides, count, "strides", None)?;
            let dilations = numbers(dilates, count, "dilates", Some(0))?;
            let before = numbers(before, count, "padding_l", None)?;
            let after =
                if after.is_null() { before.clone() } else { numbers(after, count, "padding_r", None)? };
            if strides.contains(&0) {
                return Err(Failure::invalid("a stride is zero"));
            }
            let dilations = dilations.iter().map(|d| d + 1).collect();
            Ok(Self { strides, dilations, before, after })
        }
    }

    /// Whether shapes fit a convolution of `src` into `dst`; transposed, one of `dst` into `src`, with `weights` for the latter.
    pub(crate) fn check(
        &self,
        src: &MemoryDesc,
        weights: &MemoryDesc,
        dst: &MemoryDesc,
        transposed: bool,
    ) -> Outcome {
        let rank = src.rank();
        let groups = groups(weights, rank)?;
        let kernel = &weights.dims()[weights.rank() - (rank - 2)..];
        let (outer, inner) =
            (weights.dims()[weights.rank() - rank], weights.dims()[weights.rank() - rank + 1]);
        let wrong = |what: String| Err(Failure::invalid(what));
        if dst.rank() != rank || src.dims()[0] != dst.dims()[0] {
            return wrong(format!("source {} and result {} do not fit", src.dims(), dst.dims()));
        }
        if outer * groups != dst.dims()[1] || inner * groups != src.dims()[1] {
            return wrong(format!(
                "weights {} do not lead from {} to {}",
                weights.dims(),
                src.dims(),
                dst.dims()
            ));
        }
        let (larger, smaller) = if transposed { (dst, src) } else { (src, dst) };
        for (axis, &taps) in kernel.iter().enumerate() {
            if self.count(axis, larger.dims()[axis + 2], taps) != Some(smaller.dims()[axis + 2]) {
                return wrong(format!(
                    "spatial dimension {axis} of {} does not lead to {}",
                    src.dims(),
                    dst.dims()
                ));
            }
        }
        Ok(())
    }

    /// The windows of so many taps along a spatial dimension of that size; none where not one fits.
    pub(crate) fn count(&self, axis: usize, size: usize, taps: usize) -> Option<usize> {
        let size = size.checked_add(self.before[axis])?.checked_add(self.after[axis])?;
        let reach = taps.saturating_sub(1).checked_mul(self.dilations[axis])?.checked_add(1)?;
        size.checked_sub(reach).map(|rest| rest / self.strides[axis] + 1)
    }

    pub(crate) fn convolution(&self, groups: usize) -> Convolution {
        Convolution::new(self.strides.len())
            .with_strides(self.strides.clone())
            .with_dilations(self.dilations.clone())
            .with_pads(self.before.clone(), self.after.clone())
            .with_groups(groups)
    }

    pub(crate) fn deconvolution(&self, groups: usize) -> Deconvolution {
        Deconvolution::new(self.strides.len())
            .with_strides(self.strides.clone())
            .with_dilations(self.dilations.clone())
            .with_pads(self.before.clone(), self.after.clone())
            .with_groups(groups)
    }

    pub(crate) fn facts(&self, kind: i32, prop: i32, algorithm: i32) -> Facts {
        let numbers = |dims: &Dims, less: i64| dims.iter().map(|&n| n as i64 - less).collect::<Vec<_>>();
        Facts::new(kind, prop)
            .algorithm(algorithm)
            .array(query::STRIDES, &numbers(&self.strides, 0))
            .array(query::DILATIONS, &numbers(&self.dilations, 1))
            .array(query::PADDING_L, &numbers(&self.before, 0))
            .array(query::PADDING_R, &numbers(&self.after, 0))
    }
}

/// The groups of weights for tensors of that rank, which they have in front.
pub(crate) fn groups(weights: &MemoryDesc, rank: usize) -> Outcome<usize> {
    if weights.rank() == rank {
        return Ok(1);
    }
    if weights.rank() == rank + 1 && weights.dims()[0] > 0 {
        return Ok(weights.dims()[0]);
    }
    Err(Failure::invalid(format!("weights {} are not for tensors of {rank} dimensions", weights.dims())))
}

/// An open layout of weights with groups is the row-major one; others stay open.
pub(crate) fn grouped_settled(weights: MemoryDesc, rank: usize) -> MemoryDesc {
    if weights.is_any() && weights.rank() > rank { weights.to_row_major() } else { weights }
}

/// The gradient for a bias: the sum over everything but channels.
pub(crate) fn bias_gradient(
    recipe: &mut Recipe,
    diff_dst: &Tensor,
    diff_bias: Option<MemoryDesc>,
) -> Outcome {
    let Some(diff_bias) = diff_bias else { return Ok(()) };
    let channels = diff_dst.dims()[1];
    if *diff_bias.dims() != Dims::from([channels]) {
        return Err(Failure::invalid(format!(
            "diff_bias_desc is {}, expected {channels} elements",
            diff_bias.dims()
        )));
    }
    let desc = dense(diff_bias);
    let diff_bias = recipe.operand(arg::DIFF_BIAS, (query::DIFF_WEIGHTS, 1), desc);
    let mut dims: Dims = diff_dst.dims().iter().map(|_| 1).collect();
    dims[1] = channels;
    let view = diff_bias.dense_as(dims)?;
    let sum = Reduction::new(ReductionAlgorithm::Sum);
    recipe.step(sum, &[(Arg::SRC, diff_dst), (Arg::DST, &view)], &Attributes::default())
}

/// What makes `[O, ..]` of weights `[G, O / G, ..]`.
fn merge(weights: &Tensor, rank: usize) -> Vec<View> {
    if weights.dims().len() > rank { vec![View::Merged(0, 2)] } else { Vec::new() }
}

/// The algorithm of that number; what is left to the library is the direct one.
fn algorithm(number: dnnl_alg_kind_t) -> Outcome<dnnl_alg_kind_t> {
    match number {
        CONVOLUTION_AUTO => Ok(CONVOLUTION_DIRECT),
        CONVOLUTION_DIRECT..CONVOLUTION_AUTO => Ok(number),
        other => Err(Failure::invalid(format!("{other:#x} is not a convolution algorithm"))),
    }
}

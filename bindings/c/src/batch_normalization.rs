//! Batch normalisation and its gradient.

use anydnn_backend::op::BatchNormalization;
use anydnn_backend::{Arg, DataType, Dims, Eltwise, MemoryDesc};

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::kinds::{
    arg, dnnl_backward, dnnl_backward_data, dnnl_fuse_norm_add_relu, dnnl_fuse_norm_relu,
    dnnl_normalization_flags_t, dnnl_use_global_stats, dnnl_use_scale, dnnl_use_shift, kind, query,
};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::primitive::{Facts, closed, describe, is_training, open, same_dims};
use crate::recipe::{Formula, Recipe, Tensor, settled};
use crate::refusals::Lack;
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes the normalisation of each channel, by given statistics or by its own, which training tells.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_batch_normalization_forward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    src_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    epsilon: f32,
    flags: dnnl_normalization_flags_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        let is_training = is_training(prop_kind)?;
        // SAFETY: the caller passes null or descriptors that live.
        let (src, dst) = unsafe { (closed(src_desc, "src_desc")?, open(dst_desc, "dst_desc")?) };
        check_flags(flags)?;
        same_dims(&src, &dst, "dst_desc")?;
        let dst = settled(dst, &src)?;
        let shape = Channels::of(&src)?;
        let has = |flag| flags & flag != 0;
        let fuses = has(dnnl_fuse_norm_relu | dnnl_fuse_norm_add_relu);
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let added = has(dnnl_fuse_norm_add_relu)
            .then(|| recipe.operand(arg::SRC_1, (query::SRC, 3), src.desc.clone()));
        attr.check_used(|_| false)?;
        let (src, attr) = recipe.normalized_source(src, attr)?;
        let mut statistics = None;
        if has(dnnl_use_global_stats) {
            let mean = shape.vector(recipe, arg::MEAN, (query::SRC, 1));
            let variance = shape.vector(recipe, arg::VARIANCE, (query::SRC, 2));
            statistics = Some((mean, variance));
        } else if is_training {
            let mean = shape.vector(recipe, arg::MEAN, (query::DST, 1));
            let variance = shape.vector(recipe, arg::VARIANCE, (query::DST, 2));
            statistics = Some((mean, variance));
        }
        let scale = has(dnnl_use_scale).then(|| shape.vector(recipe, arg::SCALE, (query::WEIGHTS, 0)));
        let shift = has(dnnl_use_shift).then(|| shape.vector(recipe, arg::SHIFT, (query::WEIGHTS, 1)));
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        if !has(dnnl_use_global_stats) {
            let (mean, variance) = match &statistics {
                Some(both) => both.clone(),
                None => (shape.temporary(recipe), shape.temporary(recipe)),
            };
            shape.statistics(recipe, &src, &mean, &variance)?;
            statistics = Some((mean, variance));
        }
        let (mean, variance) = statistics.ok_or_else(|| Failure::invalid("there are no statistics"))?;
        let is_plain = !fuses;
        if is_plain {
            let vectors: Vec<_> = [
                Some((Arg::Mean, &mean)),
                Some((Arg::Variance, &variance)),
                scale.as_ref().map(|s| (Arg::Scale, s)),
                shift.as_ref().map(|s| (Arg::Shift, s)),
            ]
            .into_iter()
            .flatten()
            .map(|(to, tensor)| Ok((to, tensor.dense_as([shape.len])?)))
            .collect::<Outcome<_>>()?;
            let mut inputs = vec![(Arg::SRC, &src)];
            inputs.extend(vectors.iter().map(|(to, tensor)| (*to, tensor)));
            recipe.main(BatchNormalization::new(epsilon), &inputs, &dst, &attr)?;
        } else {
            attr.check_plain()?;
            let mut f = Formula::new(src.dims());
            let (x, mean, variance) = (f.tensor(&src), f.tensor(&mean), f.tensor(&variance));
            let mut y = f.sub(x, mean);
            let inverse = f.inverse_deviation(variance, epsilon);
            y = f.mul(y, inverse);
            if let Some(scale) = &scale {
                let scale = f.tensor(scale);
                y = f.mul(y, scale);
            }
            if let Some(shift) = &shift {
                let shift = f.tensor(shift);
                y = f.add(y, shift);
            }
            if let Some(added) = &added {
                let added = f.tensor(added);
                y = f.add(y, added);
            }
            let is_kept = f.is_positive(y);
            let y = f.apply(Eltwise::Relu, y);
            f.result(y, &dst);
            if is_training {
                let mask = MemoryDesc::new(src.dims().clone(), DataType::U8);
                let mask = recipe.operand(arg::WORKSPACE, (query::WORKSPACE, 0), mask);
                f.result(is_kept, &mask);
            }
            recipe.formula(f)?;
        }
        Ok(Facts::new(kind::BATCH_NORMALIZATION, prop_kind)
            .float(query::EPSILON, epsilon)
            .integer(query::FLAGS, flags))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe {
        describe("dnnl_batch_normalization_forward_primitive_desc_create", primitive_desc, engine, attr, make)
    }
}

/// Describes the gradient of a batch normalisation for its source, and for scale and shift unless for data alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_batch_normalization_backward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    diff_src_desc: const_dnnl_memory_desc_t,
    diff_dst_desc: const_dnnl_memory_desc_t,
    src_desc: const_dnnl_memory_desc_t,
    epsilon: f32,
    flags: dnnl_normalization_flags_t,
    _hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        let for_all = is_backward(prop_kind)?;
        check_flags(flags)?;
        attr.check_plain()?;
        // SAFETY: the caller passes null or descriptors that live.
        let (diff_src, diff_dst, src) = unsafe {
            (
                open(diff_src_desc, "diff_src_desc")?,
                open(diff_dst_desc, "diff_dst_desc")?,
                closed(src_desc, "src_desc")?,
            )
        };
        same_dims(&src, &diff_src, "diff_src_desc")?;
        same_dims(&src, &diff_dst, "diff_dst_desc")?;
        let (diff_dst, diff_src) = (settled(diff_dst, &src)?, settled(diff_src, &src)?);
        let shape = Channels::of(&src)?;
        let has = |flag| flags & flag != 0;
        let fuses = has(dnnl_fuse_norm_relu | dnnl_fuse_norm_add_relu);
        let dims = src.dims().clone();
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let mean = shape.vector(recipe, arg::MEAN, (query::SRC, 1));
        let variance = shape.vector(recipe, arg::VARIANCE, (query::SRC, 2));
        let scale = has(dnnl_use_scale).then(|| shape.vector(recipe, arg::SCALE, (query::WEIGHTS, 0)));
        let diff_dst = recipe.operand(arg::DIFF_DST, (query::DIFF_DST, 0), diff_dst);
        let mask = fuses.then(|| {
            let mask = MemoryDesc::new(dims.clone(), DataType::U8);
            recipe.operand(arg::WORKSPACE, (query::WORKSPACE, 0), mask)
        });
        let diff_src = recipe.operand(arg::DIFF_SRC, (query::DIFF_SRC, 0), diff_src);
        // Both have descriptors where one of them is computed, as in oneDNN.
        let has_gradients = for_all && (has(dnnl_use_scale) || has(dnnl_use_shift));
        let diff_scale = has_gradients
            .then(|| shape.vector(recipe, arg::DIFF_SCALE, (query::DIFF_WEIGHTS, 0)))
            .filter(|_| has(dnnl_use_scale));
        let diff_shift = has_gradients
            .then(|| shape.vector(recipe, arg::DIFF_SHIFT, (query::DIFF_WEIGHTS, 1)))
            .filter(|_| has(dnnl_use_shift));
        let diff_added = has(dnnl_fuse_norm_add_relu)
            .then(|| recipe.operand(arg::DIFF_SRC_1, (query::DIFF_SRC, 1), diff_src.desc.clone()));
        let mut f = Formula::new(&dims).folded(shape.others.iter().copied());
        let (x, mean, variance) = (f.tensor(&src), f.tensor(&mean), f.tensor(&variance));
        let mut dy = f.tensor(&diff_dst);
        if let Some(mask) = &mask {
            let (mask, zero) = (f.tensor(mask), f.number(0.0));
            dy = f.select(mask, dy, zero);
        }
        let inverse = f.inverse_deviation(variance, epsilon);
        let centred = f.sub(x, mean);
        let normal = f.mul(centred, inverse);
        let weighted = f.mul(dy, normal);
        let (along_scale, along_shift) = (f.sum(weighted), f.sum(dy));
        let mut dx = dy;
        if !has(dnnl_use_global_stats) {
            let through = f.mul(normal, along_scale);
            let both = f.add(through, along_shift);
            let mean = f.times(both, 1.0 / shape.count as f32);
            dx = f.sub(dx, mean);
        }
        let mut factor = inverse;
        if let Some(scale) = &scale {
            let scale = f.tensor(scale);
            factor = f.mul(factor, scale);
        }
        let dx = f.mul(dx, factor);
        f.result(dx, &diff_src);
        for (node, tensor) in [(along_scale, &diff_scale), (along_shift, &diff_shift), (dy, &diff_added)] {
            if let Some(tensor) = tensor {
                f.result(node, tensor);
            }
        }
        recipe.formula(f)?;
        Ok(Facts::new(kind::BATCH_NORMALIZATION, prop_kind)
            .float(query::EPSILON, epsilon)
            .integer(query::FLAGS, flags))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe {
        describe(
            "dnnl_batch_normalization_backward_primitive_desc_create",
            primitive_desc,
            engine,
            attr,
            make,
        )
    }
}

/// Whether a backward propagation kind is for everything, or for data alone.
pub(crate) fn is_backward(prop: dnnl_prop_kind_t) -> Outcome<bool> {
    match prop {
        dnnl_backward => Ok(true),
        dnnl_backward_data => Ok(false),
        _ => Err(Failure::invalid(format!("{prop} is not a backward propagation kind"))),
    }
}

/// The channels of a tensor, and what is folded for each.
struct Channels {
    len: usize,
    /// The elements of a channel.
    count: usize,
    /// Ones but for the channels.
    dims: Dims,
    others: Vec<usize>,
}

impl Channels {
    fn of(src: &MemoryDesc) -> Outcome<Self> {
        if src.rank() < 2 {
            return Err(Failure::invalid(format!("the source {} has no channels", src.dims())));
        }
        let channels = src.dims()[1];
        let mut dims: Dims = src.dims().iter().map(|_| 1).collect();
        dims[1] = channels;
        let others = (0..src.rank()).filter(|&axis| axis != 1).collect();
        Ok(Self { len: channels, count: src.elements() / channels.max(1), dims, others })
    }

    /// An operand with a number for each channel, seen with the rank of the tensor.
    fn vector(&self, recipe: &mut Recipe, number: i32, query: (i32, i32)) -> Tensor {
        let operand = recipe.operand(number, query, MemoryDesc::new([self.len], DataType::F32));
        Tensor { desc: MemoryDesc::new(self.dims.clone(), DataType::F32), ..operand }
    }

    fn temporary(&self, recipe: &mut Recipe) -> Tensor {
        recipe.temporary(MemoryDesc::new(self.dims.clone(), DataType::F32))
    }

    /// Means and biased variances of the channels.
    fn statistics(&self, recipe: &mut Recipe, src: &Tensor, mean: &Tensor, variance: &Tensor) -> Outcome {
        moments(recipe, src, mean, variance, &self.others, self.count)
    }
}

/// Means and biased variances along axes that hold `count` elements; zeros where that is none.
pub(crate) fn moments(
    recipe: &mut Recipe,
    src: &Tensor,
    mean: &Tensor,
    variance: &Tensor,
    axes: &[usize],
    count: usize,
) -> Outcome {
    let mut f = Formula::new(src.dims()).folded(axes.iter().copied());
    let x = f.tensor(src);
    let total = f.sum(x);
    let share = 1.0 / count.max(1) as f32;
    let average = f.times(total, share);
    let centred = f.sub(x, average);
    let square = f.mul(centred, centred);
    let squares = f.sum(square);
    let spread = f.times(squares, share);
    f.result(average, mean);
    f.result(spread, variance);
    recipe.formula(f)
}

fn check_flags(flags: dnnl_normalization_flags_t) -> Outcome {
    if flags >= 32 {
        return Err(Failure::invalid(format!("{flags:#x} has unknown flags")));
    }
    if flags & dnnl_fuse_norm_relu != 0 && flags & dnnl_fuse_norm_add_relu != 0 {
        return Err(Lack::Rectifiers.failure("two fused rectifiers"));
    }
    Ok(())
}

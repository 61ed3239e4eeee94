//! Group normalisation and its gradient.

use anydnn_backend::op::GroupNormalization;
use anydnn_backend::{Arg, DataType, Dims, MemoryDesc};

use crate::attributes::Attr;
use crate::batch_normalization::{is_backward, moments};
use crate::boundary::{Failure, Outcome};
use crate::kinds::{
    arg, dnnl_normalization_flags_t, dnnl_use_global_stats, dnnl_use_scale, dnnl_use_shift, kind, query,
};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::primitive::{Facts, closed, describe, is_training, open, same_dims};
use crate::recipe::{Formula, Recipe, Tensor, settled};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes the normalisation of each sample's groups of channels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_group_normalization_forward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    src_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    groups: dnnl_dim_t,
    epsilon: f32,
    flags: dnnl_normalization_flags_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        let is_training = is_training(prop_kind)?;
        // SAFETY: the caller passes null or descriptors that live.
        let (src, dst) = unsafe { (closed(src_desc, "src_desc")?, open(dst_desc, "dst_desc")?) };
        same_dims(&src, &dst, "dst_desc")?;
        let shape = Groups::of(&src, groups, flags)?;
        let dst = settled(dst, &src)?;
        let has = |flag| flags & flag != 0;
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let (src, attr) = recipe.normalized_source(src, attr)?;
        let is_given = has(dnnl_use_global_stats);
        let side = if is_given { query::SRC } else { query::DST };
        let statistics = (is_given || is_training).then(|| {
            (
                shape.statistics(recipe, arg::MEAN, (side, 1)),
                shape.statistics(recipe, arg::VARIANCE, (side, 2)),
            )
        });
        let scale = has(dnnl_use_scale).then(|| shape.vector(recipe, arg::SCALE, (query::WEIGHTS, 0)));
        let shift = has(dnnl_use_shift).then(|| shape.vector(recipe, arg::SHIFT, (query::WEIGHTS, 1)));
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        if let Some((mean, variance)) = statistics.as_ref().filter(|_| !is_given) {
            let view = recipe.read_as(&src, shape.dims.clone())?;
            moments(recipe, &view, mean, variance, &[2, 3], shape.count)?;
        }
        let has_own = !is_given;
        if has_own {
            let mut inputs = vec![(Arg::SRC, &src)];
            let parameters = [(Arg::Scale, &scale), (Arg::Shift, &shift)];
            let parameters: Vec<(Arg, Tensor)> = parameters
                .into_iter()
                .filter_map(|(to, tensor)| tensor.as_ref().map(|tensor| (to, tensor)))
                .map(|(to, tensor)| Ok((to, tensor.dense_as([shape.channels])?)))
                .collect::<Outcome<_>>()?;
            inputs.extend(parameters.iter().map(|(to, tensor)| (*to, tensor)));
            recipe.main(GroupNormalization::new(shape.number, epsilon), &inputs, &dst, &attr)?;
        } else {
            let view = recipe.read_as(&src, shape.dims.clone())?;
            let plain = recipe.temporary(MemoryDesc::new(dst.dims().clone(), DataType::F32));
            let mut f = Formula::new(&shape.dims);
            let mut y = f.tensor(&view);
            if let Some((mean, variance)) = &statistics {
                let (mean, variance) = (f.tensor(mean), f.tensor(variance));
                y = f.sub(y, mean);
                let inverse = f.inverse_deviation(variance, epsilon);
                y = f.mul(y, inverse);
            }
            if let Some(scale) = &scale {
                let scale = f.tensor(scale);
                y = f.mul(y, scale);
            }
            if let Some(shift) = &shift {
                let shift = f.tensor(shift);
                y = f.add(y, shift);
            }
            f.result(y, &plain.dense_as(shape.dims.clone())?);
            recipe.formula(f)?;
            attr.check_supported()?;
            attr.check_used(|number| number == arg::DST)?;
            let post_operands = recipe.post_operands(&attr, &dst)?;
            recipe.epilogue(&plain, &dst, &attr, &post_operands)?;
        }
        Ok(shape.facts(prop_kind, epsilon, flags))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe {
        describe("dnnl_group_normalization_forward_primitive_desc_create", primitive_desc, engine, attr, make)
    }
}

/// Describes the gradient of a group normalisation for its source, and for scale and shift unless for data alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_group_normalization_backward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    diff_src_desc: const_dnnl_memory_desc_t,
    diff_dst_desc: const_dnnl_memory_desc_t,
    src_desc: const_dnnl_memory_desc_t,
    groups: dnnl_dim_t,
    epsilon: f32,
    flags: dnnl_normalization_flags_t,
    _hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        let for_all = is_backward(prop_kind)?;
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
        let shape = Groups::of(&src, groups, flags)?;
        let (diff_dst, diff_src) = (settled(diff_dst, &src)?, settled(diff_src, &src)?);
        let has = |flag| flags & flag != 0;
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let mean = shape.statistics(recipe, arg::MEAN, (query::SRC, 1));
        let variance = shape.statistics(recipe, arg::VARIANCE, (query::SRC, 2));
        let scale = has(dnnl_use_scale).then(|| shape.vector(recipe, arg::SCALE, (query::WEIGHTS, 0)));
        let diff_dst = recipe.operand(arg::DIFF_DST, (query::DIFF_DST, 0), diff_dst);
        let diff_src = recipe.operand(arg::DIFF_SRC, (query::DIFF_SRC, 0), diff_src);
        // Both have descriptors where one of them is computed, as in oneDNN.
        let has_gradients = for_all && (has(dnnl_use_scale) || has(dnnl_use_shift));
        let diff_scale = has_gradients
            .then(|| shape.vector(recipe, arg::DIFF_SCALE, (query::DIFF_WEIGHTS, 0)))
            .filter(|_| has(dnnl_use_scale));
        let diff_shift = has_gradients
            .then(|| shape.vector(recipe, arg::DIFF_SHIFT, (query::DIFF_WEIGHTS, 1)))
            .filter(|_| has(dnnl_use_shift));
        let x = recipe.read_as(&src, shape.dims.clone())?;
        let dy = recipe.read_as(&diff_dst, shape.dims.clone())?;
        let (dx, pending) = recipe.write_as(&diff_src, shape.dims.clone())?;
        let normalised = |f: &mut Formula| {
            let (x, mean, variance) = (f.tensor(&x), f.tensor(&mean), f.tensor(&variance));
            let centred = f.sub(x, mean);
            let inverse = f.inverse_deviation(variance, epsilon);
            (f.mul(centred, inverse), inverse)
        };
        if diff_scale.is_some() || diff_shift.is_some() {
            let mut f = Formula::new(&shape.dims).folded([0, 3]);
            let (normal, _) = normalised(&mut f);
            let dy = f.tensor(&dy);
            for (tensor, is_scale) in [(&diff_scale, true), (&diff_shift, false)] {
                let Some(tensor) = tensor else { continue };
                let part = if is_scale { f.mul(dy, normal) } else { dy };
                let sum = f.sum(part);
                f.result(sum, tensor);
            }
            recipe.formula(f)?;
        }
        let mut f = Formula::new(&shape.dims).folded([2, 3]);
        let (normal, inverse) = normalised(&mut f);
        let mut gradient = f.tensor(&dy);
        if let Some(scale) = &scale {
            let scale = f.tensor(scale);
            gradient = f.mul(gradient, scale);
        }
        let mut result = gradient;
        if !has(dnnl_use_global_stats) {
            let weighted = f.mul(gradient, normal);
            let (along, sum) = (f.sum(weighted), f.sum(gradient));
            let through = f.mul(normal, along);
            let both = f.add(through, sum);
            let mean = f.times(both, 1.0 / shape.count as f32);
            result = f.sub(result, mean);
        }
        let result = f.mul(result, inverse);
        f.result(result, &dx);
        recipe.formula(f)?;
        pending.store(recipe)?;
        Ok(shape.facts(prop_kind, epsilon, flags))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe {
        describe(
            "dnnl_group_normalization_backward_primitive_desc_create",
            primitive_desc,
            engine,
            attr,
            make,
        )
    }
}

/// A tensor as `[N, groups, channels of a group, positions]`.
struct Groups {
    number: usize,
    channels: usize,
    /// The elements of a group.
    count: usize,
    dims: Dims,
}

impl Groups {
    fn of(src: &MemoryDesc, groups: dnnl_dim_t, flags: dnnl_normalization_flags_t) -> Outcome<Self> {
        if flags & !(dnnl_use_global_stats | dnnl_use_scale | dnnl_use_shift) != 0 {
            return Err(Failure::invalid(format!(
                "{flags:#x} has flags that group normalization does not know"
            )));
        }
        let dims = src.dims();
        let groups = usize::try_from(groups)
            .ok()
            .filter(|&groups| src.rank() >= 2 && groups > 0 && dims[1].is_multiple_of(groups));
        let groups = groups
            .ok_or_else(|| Failure::invalid(format!("the groups do not divide the channels of {dims}")))?;
        let (inner, positions) = (dims[1] / groups, dims[2..].iter().product::<usize>());
        let view = Dims::from([dims[0], groups, inner, positions]);
        Ok(Self { number: groups, channels: dims[1], count: inner * positions, dims: view })
    }

    fn statistics(&self, recipe: &mut Recipe, number: i32, query: (i32, i32)) -> Tensor {
        let operand =
            recipe.operand(number, query, MemoryDesc::new([self.dims[0], self.number], DataType::F32));
        Tensor { desc: MemoryDesc::new([self.dims[0], self.number, 1, 1], DataType::F32), ..operand }
    }

    fn vector(&self, recipe: &mut Recipe, number: i32, query: (i32, i32)) -> Tensor {
        let operand = recipe.operand(number, query, MemoryDesc::new([self.channels], DataType::F32));
        Tensor { desc: MemoryDesc::new([1, self.number, self.dims[2], 1], DataType::F32), ..operand }
    }

    fn facts(&self, prop: dnnl_prop_kind_t, epsilon: f32, flags: dnnl_normalization_flags_t) -> Facts {
        Facts::new(kind::GROUP_NORMALIZATION, prop)
            .float(query::EPSILON, epsilon)
            .integer(query::FLAGS, flags)
            .integer(query::GROUP_SIZE, self.number as i64)
    }
}

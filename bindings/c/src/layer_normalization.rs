//! Layer normalisation and its gradient.

use anydnn_backend::op::LayerNormalization;
use anydnn_backend::{Arg, DataType, Dims, MemoryDesc};

use crate::attributes::Attr;
use crate::batch_normalization::is_backward;
use crate::boundary::{Failure, Outcome};
use crate::kinds::{
    arg, dnnl_normalization_flags_t, dnnl_rms_norm, dnnl_use_global_stats, dnnl_use_scale, dnnl_use_shift,
    kind, query,
};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::post_ops::known;
use crate::primitive::{Facts, closed, describe, is_training, open, optional, same_dims};
use crate::recipe::{Formula, Recipe, Tensor, dense, settled};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes the normalisation along the last dimension, with scale and shift in f32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_layer_normalization_forward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    src_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    stat_desc: const_dnnl_memory_desc_t,
    epsilon: f32,
    flags: dnnl_normalization_flags_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let tensors = unsafe {
            [
                Some(closed(src_desc, "src_desc")?),
                Some(open(dst_desc, "dst_desc")?),
                optional(stat_desc, "stat_desc")?,
            ]
        };
        let kinds = Kinds { prop: prop_kind, epsilon, flags, parameters: DataType::F32 };
        kinds.forward(recipe, attr, tensors)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe {
        describe("dnnl_layer_normalization_forward_primitive_desc_create", primitive_desc, engine, attr, make)
    }
}

/// Describes the normalisation along the last dimension, with scale and shift of a type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_layer_normalization_forward_primitive_desc_create_v2(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    src_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    stat_desc: const_dnnl_memory_desc_t,
    scale_shift_data_type: dnnl_data_type_t,
    epsilon: f32,
    flags: dnnl_normalization_flags_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let tensors = unsafe {
            [
                Some(closed(src_desc, "src_desc")?),
                Some(open(dst_desc, "dst_desc")?),
                optional(stat_desc, "stat_desc")?,
            ]
        };
        let kinds = Kinds { prop: prop_kind, epsilon, flags, parameters: known(scale_shift_data_type)? };
        kinds.forward(recipe, attr, tensors)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe {
        describe(
            "dnnl_layer_normalization_forward_primitive_desc_create_v2",
            primitive_desc,
            engine,
            attr,
            make,
        )
    }
}

/// Describes the gradient of a layer normalisation, with scale and shift in f32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_layer_normalization_backward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    diff_src_desc: const_dnnl_memory_desc_t,
    diff_dst_desc: const_dnnl_memory_desc_t,
    src_desc: const_dnnl_memory_desc_t,
    stat_desc: const_dnnl_memory_desc_t,
    epsilon: f32,
    flags: dnnl_normalization_flags_t,
    _hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let tensors = unsafe {
            [
                Some(open(diff_src_desc, "diff_src_desc")?),
                Some(open(diff_dst_desc, "diff_dst_desc")?),
                Some(closed(src_desc, "src_desc")?),
                optional(stat_desc, "stat_desc")?,
            ]
        };
        let kinds = Kinds { prop: prop_kind, epsilon, flags, parameters: DataType::F32 };
        kinds.backward(recipe, attr, tensors, DataType::F32)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe {
        describe(
            "dnnl_layer_normalization_backward_primitive_desc_create",
            primitive_desc,
            engine,
            attr,
            make,
        )
    }
}

/// Describes the gradient of a layer normalisation, with scale and shift and their gradients of types.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_layer_normalization_backward_primitive_desc_create_v2(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    diff_src_desc: const_dnnl_memory_desc_t,
    diff_dst_desc: const_dnnl_memory_desc_t,
    src_desc: const_dnnl_memory_desc_t,
    stat_desc: const_dnnl_memory_desc_t,
    diff_scale_shift_data_type: dnnl_data_type_t,
    scale_shift_data_type: dnnl_data_type_t,
    epsilon: f32,
    flags: dnnl_normalization_flags_t,
    _hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        // SAFETY: the caller passes null or descriptors that live.
        let tensors = unsafe {
            [
                Some(open(diff_src_desc, "diff_src_desc")?),
                Some(open(diff_dst_desc, "diff_dst_desc")?),
                Some(closed(src_desc, "src_desc")?),
                optional(stat_desc, "stat_desc")?,
            ]
        };
        let kinds = Kinds { prop: prop_kind, epsilon, flags, parameters: known(scale_shift_data_type)? };
        kinds.backward(recipe, attr, tensors, known(diff_scale_shift_data_type)?)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe {
        describe(
            "dnnl_layer_normalization_backward_primitive_desc_create_v2",
            primitive_desc,
            engine,
            attr,
            make,
        )
    }
}

struct Kinds {
    prop: dnnl_prop_kind_t,
    epsilon: f32,
    flags: dnnl_normalization_flags_t,
    /// The type of scale and shift.
    parameters: DataType,
}

impl Kinds {
    fn has(&self, flag: dnnl_normalization_flags_t) -> bool {
        self.flags & flag != 0
    }

    fn facts(&self) -> Facts {
        Facts::new(kind::LAYER_NORMALIZATION, self.prop)
            .float(query::EPSILON, self.epsilon)
            .integer(query::FLAGS, self.flags)
    }

    /// `tensors` are source, result and statistics.
    fn forward(&self, recipe: &mut Recipe, attr: &Attr, tensors: [Option<MemoryDesc>; 3]) -> Outcome<Facts> {
        let [Some(src), Some(dst), stat] = tensors else { return Err(Failure::null("a descriptor")) };
        let is_training = is_training(self.prop)?;
        let shape = Rows::of(&src, self.flags)?;
        same_dims(&src, &dst, "dst_desc")?;
        let dst = settled(dst, &src)?;
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let (src, attr) = recipe.normalized_source(src, attr)?;
        let is_given = self.has(dnnl_use_global_stats);
        let rms = self.has(dnnl_rms_norm);
        let side = if is_given { query::SRC } else { query::DST };
        let statistics = if is_given || is_training {
            let stat = shape.statistics(stat, &src.desc)?;
            let mean = if rms { None } else { Some(recipe.operand(arg::MEAN, (side, 1), stat.clone())) };
            Some((mean, recipe.operand(arg::VARIANCE, (side, 2), stat)))
        } else {
            None
        };
        let scale = self
            .has(dnnl_use_scale)
            .then(|| shape.vector(recipe, arg::SCALE, (query::WEIGHTS, 0), self.parameters));
        let shift = self
            .has(dnnl_use_shift)
            .then(|| shape.vector(recipe, arg::SHIFT, (query::WEIGHTS, 1), self.parameters));
        let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
        if !is_given && let Some((mean, variance)) = &statistics {
            shape.moments(recipe, &src, mean.as_ref(), variance)?;
        }
        let parameters: Vec<(Arg, Tensor)> = [(Arg::Scale, &scale), (Arg::Shift, &shift)]
            .into_iter()
            .filter_map(|(to, tensor)| tensor.as_ref().map(|tensor| (to, tensor.clone())))
            .collect();
        let takes_all = !rms || shift.is_none();
        if takes_all && !is_given {
            let last = shape.rank - 1;
            let op = if rms {
                LayerNormalization::rms(last, self.epsilon)
            } else {
                LayerNormalization::new(last, self.epsilon)
            };
            let mut inputs = vec![(Arg::SRC, &src)];
            inputs.extend(parameters.iter().map(|(to, tensor)| (*to, tensor)));
            recipe.main(op, &inputs, &dst, &attr)?;
            return Ok(self.facts());
        }
        let plain = recipe.temporary(settled(dst.desc.to_any().with_data_type(DataType::F32), &dst.desc)?);
        let mut f = Formula::new(src.dims()).folded(if is_given { None } else { Some(shape.rank - 1) });
        let mut y = f.tensor(&src);
        let variance = match &statistics {
            Some((mean, variance)) if is_given => {
                if let Some(mean) = mean {
                    let mean = f.tensor(&shape.column(mean)?);
                    y = f.sub(y, mean);
                }
                f.tensor(&shape.column(variance)?)
            }
            _ => {
                let square = f.mul(y, y);
                let squares = f.sum(square);
                f.times(squares, 1.0 / shape.length as f32)
            }
        };
        let inverse = f.inverse_deviation(variance, self.epsilon);
        y = f.mul(y, inverse);
        if let Some(scale) = &scale {
            let scale = f.tensor(scale);
            y = f.mul(y, scale);
        }
        if let Some(shift) = &shift {
            let shift = f.tensor(shift);
            y = f.add(y, shift);
        }
        f.result(y, &plain);
        recipe.formula(f)?;
        attr.check_supported()?;
        attr.check_used(|number| number == arg::DST)?;
        let post_operands = recipe.post_operands(&attr, &dst)?;
        recipe.epilogue(&plain, &dst, &attr, &post_operands)?;
        Ok(self.facts())
    }

    /// `tensors` are the gradients of source and result, the source and statistics.
    fn backward(
        &self,
        recipe: &mut Recipe,
        attr: &Attr,
        tensors: [Option<MemoryDesc>; 4],
        gradients: DataType,
    ) -> Outcome<Facts> {
        let [Some(diff_src), Some(diff_dst), Some(src), stat] = tensors else {
            return Err(Failure::null("a descriptor"));
        };
        let for_all = is_backward(self.prop)?;
        attr.check_plain()?;
        let shape = Rows::of(&src, self.flags)?;
        same_dims(&src, &diff_src, "diff_src_desc")?;
        same_dims(&src, &diff_dst, "diff_dst_desc")?;
        let (diff_dst, diff_src) = (settled(diff_dst, &src)?, settled(diff_src, &src)?);
        let rms = self.has(dnnl_rms_norm);
        let stat = shape.statistics(stat, &src)?;
        let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
        let mean = (!rms).then(|| recipe.operand(arg::MEAN, (query::SRC, 1), stat.clone()));
        let variance = recipe.operand(arg::VARIANCE, (query::SRC, 2), stat);
        let scale = self
            .has(dnnl_use_scale)
            .then(|| shape.vector(recipe, arg::SCALE, (query::WEIGHTS, 0), self.parameters));
        let diff_dst = recipe.operand(arg::DIFF_DST, (query::DIFF_DST, 0), diff_dst);
        let diff_src = recipe.operand(arg::DIFF_SRC, (query::DIFF_SRC, 0), diff_src);
        // Both have descriptors where one of them is computed, as in oneDNN.
        let has_gradients = for_all && (self.has(dnnl_use_scale) || self.has(dnnl_use_shift));
        let diff_scale = has_gradients
            .then(|| shape.vector(recipe, arg::DIFF_SCALE, (query::DIFF_WEIGHTS, 0), gradients))
            .filter(|_| self.has(dnnl_use_scale));
        let diff_shift = has_gradients
            .then(|| shape.vector(recipe, arg::DIFF_SHIFT, (query::DIFF_WEIGHTS, 1), gradients))
            .filter(|_| self.has(dnnl_use_shift));
        let normalised = |f: &mut Formula| -> Outcome<(usize, usize)> {
            let mut x = f.tensor(&src);
            if let Some(mean) = &mean {
                let mean = f.tensor(&shape.column(mean)?);
                x = f.sub(x, mean);
            }
            let variance = f.tensor(&shape.column(&variance)?);
            let inverse = f.inverse_deviation(variance, self.epsilon);
            Ok((f.mul(x, inverse), inverse))
        };
        if diff_scale.is_some() || diff_shift.is_some() {
            let mut f = Formula::new(src.dims()).folded(0..shape.rank - 1);
            let (normal, _) = normalised(&mut f)?;
            let dy = f.tensor(&diff_dst);
            for (tensor, is_scale) in [(&diff_scale, true), (&diff_shift, false)] {
                let Some(tensor) = tensor else { continue };
                let part = if is_scale { f.mul(dy, normal) } else { dy };
                let sum = f.sum(part);
                f.result(sum, &shape.row(tensor)?);
            }
            recipe.formula(f)?;
        }
        let mut f = Formula::new(src.dims()).folded([shape.rank - 1]);
        let (normal, inverse) = normalised(&mut f)?;
        let mut dy = f.tensor(&diff_dst);
        if let Some(scale) = &scale {
            let scale = f.tensor(scale);
            dy = f.mul(dy, scale);
        }
        let mut dx = dy;
        if !self.has(dnnl_use_global_stats) {
            let weighted = f.mul(dy, normal);
            let along = f.sum(weighted);
            let mut both = f.mul(normal, along);
            if !rms {
                let sum = f.sum(dy);
                both = f.add(both, sum);
            }
            let mean = f.times(both, 1.0 / shape.length as f32);
            dx = f.sub(dx, mean);
        }
        let dx = f.mul(dx, inverse);
        f.result(dx, &diff_src);
        recipe.formula(f)?;
        Ok(self.facts())
    }
}

/// Rows along the last dimension.
struct Rows {
    rank: usize,
    length: usize,
    /// All dimensions with a one instead of the last.
    folded: Dims,
}

impl Rows {
    fn of(src: &MemoryDesc, flags: dnnl_normalization_flags_t) -> Outcome<Self> {
        if flags & !(dnnl_use_global_stats | dnnl_use_scale | dnnl_use_shift | dnnl_rms_norm) != 0 {
            return Err(Failure::invalid(format!(
                "{flags:#x} has flags that layer normalization does not know"
            )));
        }
        let rank = src.rank();
        if rank < 2 {
            return Err(Failure::invalid(format!("the source {} has less than two dimensions", src.dims())));
        }
        let mut folded = src.dims().clone();
        folded[rank - 1] = 1;
        Ok(Self { rank, length: src.dims()[rank - 1], folded })
    }

    /// The descriptor of statistics: as given, or dense where it is absent or open.
    fn statistics(&self, given: Option<MemoryDesc>, src: &MemoryDesc) -> Outcome<MemoryDesc> {
        let dims: Dims = src.dims()[..self.rank - 1].iter().copied().collect();
        let stat = given.unwrap_or_else(|| MemoryDesc::new(dims.clone(), DataType::F32));
        if *stat.dims() != dims {
            return Err(Failure::invalid(format!(
                "stat_desc has the dimensions {}, expected {dims}",
                stat.dims()
            )));
        }
        if stat.data_type() != DataType::F32 {
            return Err(Failure::invalid(format!("stat_desc is of {}, expected f32", stat.data_type())));
        }
        Ok(dense(stat))
    }

    /// Scale or shift: a number for each element of a row.
    fn vector(&self, recipe: &mut Recipe, number: i32, query: (i32, i32), data_type: DataType) -> Tensor {
        recipe.operand(number, query, MemoryDesc::new([self.length], data_type))
    }

    /// A vector as a tensor of the source's rank.
    fn row(&self, vector: &Tensor) -> Outcome<Tensor> {
        let mut dims: Dims = self.folded.iter().map(|_| 1).collect();
        dims[self.rank - 1] = self.length;
        vector.dense_as(dims)
    }

    /// Statistics as a tensor of the source's rank.
    fn column(&self, statistics: &Tensor) -> Outcome<Tensor> {
        statistics.dense_as(self.folded.clone())
    }

    fn moments(
        &self,
        recipe: &mut Recipe,
        src: &Tensor,
        mean: Option<&Tensor>,
        variance: &Tensor,
    ) -> Outcome {
        let variance = self.column(variance)?;
        if let Some(mean) = mean {
            let mean = self.column(mean)?;
            return crate::batch_normalization::moments(
                recipe,
                src,
                &mean,
                &variance,
                &[self.rank - 1],
                self.length,
            );
        }
        let mut f = Formula::new(src.dims()).folded([self.rank - 1]);
        let x = f.tensor(src);
        let square = f.mul(x, x);
        let squares = f.sum(square);
        let average = f.times(squares, 1.0 / self.length as f32);
        f.result(average, &variance);
        recipe.formula(f)
    }
}

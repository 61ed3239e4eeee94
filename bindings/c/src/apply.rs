//! Attributes at work: scales and zero points around a step, post-operations behind it.

use std::ffi::c_int;

use anydnn_backend::{
    Arg, Attributes, BinaryAlgorithm, DataType, Dequantize, Dims, Error, MemoryDesc, Op, PostOp, Quantized,
};

use crate::attributes::{Attr, QuantParam};
use crate::boundary::{Failure, Outcome};
use crate::kinds::arg;
use crate::post_ops::PostOpEntry;
use crate::randomness::check_rounding;
use crate::recipe::{Formula, Recipe, Tensor, settled};
use crate::reductions::Beside;
use crate::refusals::Lack;
use crate::types::dnnl_unimplemented;

impl Recipe {
    /// The step that makes the result, with all that the attributes say: operands are dequantised, post-operations follow in order, the
    /// result is quantised. What the operation does not do itself becomes a formula beside it.
    pub(crate) fn main(
        &mut self,
        op: impl Into<Op>,
        inputs: &[(Arg, &Tensor)],
        dst: &Tensor,
        attr: &Attr,
    ) -> Outcome {
        self.main_as(op, inputs, dst, self.number(dst), attr)
    }

    /// See [`Recipe::main`]; attributes know the result by a number that may be another one than its operand's.
    pub(crate) fn main_as(
        &mut self,
        op: impl Into<Op>,
        inputs: &[(Arg, &Tensor)],
        dst: &Tensor,
        result: c_int,
        attr: &Attr,
    ) -> Outcome {
        let op = op.into();
        attr.check_supported()?;
        match &op {
            Op::Eltwise(_) | Op::Pooling(_) | Op::Reduction(_) | Op::Resampling(_) => {
                attr.check_used(|_| false)?;
            }
            Op::Binary(_) | Op::Select(_) => attr.check_used(|number| number != result)?,
            _ => {}
        }
        self.check_result(&op, dst, attr)?;
        self.check_reductions(&op, attr)?;
        let mut attributes =
            Attributes::default().with_fpmath(attr.fpmath).with_deterministic(attr.deterministic);
        let mut args: Vec<(Arg, Tensor)> = Vec::new();
        let mut used = Vec::new();
        let mut beside = Beside::default();
        for &(to, tensor) in inputs {
            let number = self.number(tensor);
            let (scale, zero_point) = (attr.scale(number), attr.zero_point(number));
            if scale.is_none() && zero_point.is_none() {
                args.push((to, tensor.clone()));
                continue;
            }
            used.push(number);
            let scale =
                scale.map(|factor| self.factor(arg::ATTR_SCALES, number, tensor, factor)).transpose()?;
            let zero_point = zero_point
                .map(|factor| self.factor(arg::ATTR_ZERO_POINTS, number, tensor, factor))
                .transpose()?;
            let mut zero_point = zero_point;
            match (attr.reductions.is_some(), to) {
                (true, Arg::SRC) => {
                    (beside.src_scale, beside.src_zero_point) = (scale.clone(), zero_point.clone());
                }
                // Sums that the caller knows tell what these zero points change.
                (true, Arg::Weights) => {
                    (beside.weights_scale, beside.weights_zero_point) = (scale.clone(), zero_point.take());
                    if scale.is_none() {
                        args.push((to, tensor.clone()));
                        continue;
                    }
                }
                _ => {}
            }
            let quantized = match to {
                Arg::Src(i) => Some(Quantized::Src(i)),
                Arg::Weights => Some(Quantized::Weights),
                _ => None,
            };
            match quantized.filter(|_| op.dequantizes(to)) {
                Some(operand) => {
                    attributes = attributes.with_dequantize(Dequantize {
                        operand,
                        scale: scale.as_ref().map(|tensor| tensor.desc.clone()),
                        zero_point: zero_point.as_ref().map(|tensor| tensor.desc.clone()),
                    });
                    args.push((to, tensor.clone()));
                    args.extend(scale.map(|tensor| (Arg::ScaleOf(operand), tensor)));
                    args.extend(zero_point.map(|tensor| (Arg::ZeroPointOf(operand), tensor)));
                }
                None => args.push((to, self.dequantized(tensor, scale, zero_point)?)),
            }
        }
        attr.check_used(|number| used.contains(&number) || number == result)?;
        let weights = inputs.iter().find(|(to, _)| *to == Arg::Weights).map(|(_, tensor)| tensor.dims());
        let taken = match (&attr.reductions, weights) {
            (Some(factor), Some(weights)) => Some(self.taken_by_zero_points(factor, weights, &beside)?),
            _ => None,
        };
        if let Some(taken) = &taken {
            let less = PostOp::binary(BinaryAlgorithm::Subtract, taken.desc.clone());
            attributes = attributes.with_post_op(less);
            args.push((Arg::PostOp(0), taken.clone()));
        }
        let quantizes = attr.scale(result).is_some() || attr.zero_point(result).is_some();
        let post_operands = self.post_operands(attr, dst)?;
        let is_random = attr.dropout.is_some() || attr.stochastic.contains(&result);
        let is_plain = !quantizes && !is_random && attr.result_factor.is_none();
        let is_native = is_plain && (attr.post_ops().is_empty() || op.takes_post_ops());
        if let Some(post_ops) = native(attr, &post_operands).filter(|_| is_native) {
            let mut all = args.clone();
            let before = u16::from(taken.is_some());
            all.extend(post_operands.iter().map(|(to, tensor)| (behind(*to, before), tensor.clone())));
            all.push((Arg::DST, dst.clone()));
            let list: Vec<_> = all.iter().map(|(to, tensor)| (*to, tensor)).collect();
            let with = post_ops.into_iter().fold(attributes.clone(), Attributes::with_post_op);
            match self.step(op.clone(), &list, &with) {
                Err(Failure::Error(Error::Unsupported { .. }) | Failure::Status(dnnl_unimplemented, _))
                    if !attr.post_ops().is_empty() => {}
                outcome => return outcome,
            }
        }
        let plain = self.temporary(dst.desc.with_data_type(DataType::F32));
        args.push((Arg::DST, plain.clone()));
        let list: Vec<_> = args.iter().map(|(to, tensor)| (*to, tensor)).collect();
        self.step(op, &list, &attributes)?;
        self.epilogue_as(&plain, dst, result, attr, &post_operands)
    }

    /// Whether a result can be what attributes say of it.
    fn check_result(&self, op: &Op, dst: &Tensor, attr: &Attr) -> Outcome {
        let has_found = attr.scales.iter().any(|(_, factor)| factor.found.is_some());
        if has_found && !matches!(op, Op::MatMul(_)) {
            return Err(Lack::FoundScales.failure("scales that anything but a product finds"));
        }
        if attr.stochastic.is_empty() { Ok(()) } else { check_rounding(dst.desc.data_type()) }
    }

    /// Dropout, post-operations and quantisation of a value in f32, into the result.
    pub(crate) fn epilogue(
        &mut self,
        plain: &Tensor,
        dst: &Tensor,
        attr: &Attr,
        post_operands: &[(Arg, Tensor)],
    ) -> Outcome {
        self.epilogue_as(plain, dst, self.number(dst), attr, post_operands)
    }

    fn epilogue_as(
        &mut self,
        plain: &Tensor,
        dst: &Tensor,
        result: c_int,
        attr: &Attr,
        post_operands: &[(Arg, Tensor)],
    ) -> Outcome {
        let plain = Tensor { desc: self.current(plain), ..plain.clone() };
        let mut dst = dst.clone();
        if self.current(&dst).is_any() {
            let slot = self.slot(&dst);
            *slot = settled(slot.clone(), &plain.desc)?;
        }
        dst.desc = self.current(&dst);
        let plain = match self.dropout(attr, &dst.desc)? {
            Some(dropout) => self.dropped(&plain, &dropout)?,
            None => plain,
        };
        let mut f = Formula::new(dst.dims());
        let mut x = f.tensor(&plain);
        if let Some(factor) = &attr.result_factor {
            let factor = f.tensor(factor);
            x = f.mul(x, factor);
        }
        let operand =
            |to: Arg| post_operands.iter().find(|(other, _)| *other == to).map(|(_, tensor)| tensor);
        for (i, post_op) in attr.post_ops().iter().enumerate() {
            let i = i as u16;
            match post_op {
                PostOpEntry::Sum { scale, zero_point, data_type, .. } => {
                    let seen = data_type.unwrap_or(dst.desc.data_type());
                    let old = f.tensor(&Tensor { desc: dst.desc.with_data_type(seen), ..dst.clone() });
                    let old = f.plus(old, -(*zero_point as f32));
                    let old = f.times(old, *scale);
                    x = f.add(x, old);
                }
                PostOpEntry::Eltwise { function, .. } => x = f.apply(*function, x),
                PostOpEntry::Binary { algorithm: Some(algorithm), .. } => {
                    let other = f.tensor(operand(Arg::PostOp(i)).ok_or_else(lost)?);
                    x = f.binary(*algorithm, x, other);
                }
                PostOpEntry::Binary { algorithm: None, .. } => {
                    let condition = f.tensor(operand(Arg::PostOp(i)).ok_or_else(lost)?);
                    let other = f.tensor(operand(Arg::PostOpOther(i)).ok_or_else(lost)?);
                    x = f.select(condition, x, other);
                }
                PostOpEntry::Prelu { .. } => {
                    let slope = f.tensor(operand(Arg::PostOp(i)).ok_or_else(lost)?);
                    let below = f.mul(x, slope);
                    let positive = f.is_positive(x);
                    x = f.select(positive, x, below);
                }
                PostOpEntry::Depthwise { .. } => return Err(lost()),
            }
        }
        let scale = attr.scale(result);
        if let Some(factor) = scale.filter(|factor| factor.found.is_none()) {
            let scale = self.factor(arg::ATTR_SCALES, result, &dst, factor)?;
            let scale = f.tensor(&scale);
            x = f.div(x, scale);
        }
        if let Some(factor) = attr.zero_point(result) {
            let zero_point = self.factor(arg::ATTR_ZERO_POINTS, result, &dst, factor)?;
            let zero_point = f.tensor(&zero_point);
            x = f.add(x, zero_point);
        }
        let found = scale.and_then(|factor| Some((factor, factor.found?)));
        if attr.stochastic.contains(&result) && found.is_none() {
            x = self.rounded(&mut f, x, dst.desc.data_type(), result)?;
        }
        // Groups are looked at in a dense value.
        let to = match found {
            Some(_) => self.temporary(MemoryDesc::new(dst.dims().clone(), DataType::F32)),
            None => dst.clone(),
        };
        f.result(x, &to);
        self.formula(f)?;
        let Some((factor, found)) = found else { return Ok(()) };
        let scales = self.stored_factor(arg::ATTR_SCALES, result, &dst, factor)?;
        self.quantize_by_found(&to, &dst, &scales, factor, found)
    }

    /// The tensors that post-operations read, as operands of the primitive.
    pub(crate) fn post_operands(&mut self, attr: &Attr, dst: &Tensor) -> Outcome<Vec<(Arg, Tensor)>> {
        let mut all = Vec::new();
        for (i, post_op) in attr.post_ops().iter().enumerate() {
            let base = arg::ATTR_POST_OP * ((attr.post_ops_before + i) as c_int + 1);
            let index = i as u16;
            let mut push = |recipe: &mut Self, to: Arg, number: c_int, desc: MemoryDesc| -> Outcome {
                if desc.rank() != dst.desc.rank() {
                    let (given, wanted) = (desc.rank(), dst.desc.rank());
                    return Err(Failure::invalid(format!(
                        "the operand of post-operation {i} has {given} dimensions, expected {wanted}"
                    )));
                }
                let desc = settled(desc, &dst.desc)?;
                let operand = recipe.operand(base | number, (0, 0), desc);
                all.push((to, recipe.spread_to_rows(operand, dst.dims())?));
                Ok(())
            };
            match post_op {
                PostOpEntry::Binary { algorithm: Some(_), src1, .. } => {
                    let desc = self.post_operand_desc(base | arg::SRC_1, src1.value())?;
                    push(self, Arg::PostOp(index), arg::SRC_1, desc)?;
                }
                PostOpEntry::Binary { algorithm: None, src1, src2, .. } => {
                    let condition = src2.as_ref().ok_or_else(lost)?.value().to_memory_desc()?;
                    push(self, Arg::PostOp(index), arg::SRC_2, condition)?;
                    push(self, Arg::PostOpOther(index), arg::SRC_1, src1.value().to_memory_desc()?)?;
                }
                PostOpEntry::Prelu { mask } => {
                    let dims = masked(dst.dims(), *mask, &[])?;
                    // Slopes lie with their channels last, however the result does.
                    let slopes = match ["a", "ab", "acb", "acdb", "acdeb"].get(dims.len() - 1) {
                        Some(tag) => MemoryDesc::with_tag(dims, DataType::F32, tag)?,
                        None => MemoryDesc::new(dims, DataType::F32),
                    };
                    push(self, Arg::PostOp(index), arg::WEIGHTS, slopes)?;
                }
                PostOpEntry::Sum { .. } | PostOpEntry::Eltwise { .. } | PostOpEntry::Depthwise { .. } => {}
            }
        }
        Ok(all)
    }

    /// Scales or zero points of an operand, in the view that a step has of it; exponents as the powers of two that they are.
    fn factor(&mut self, base: c_int, number: c_int, of: &Tensor, factor: &QuantParam) -> Outcome<Tensor> {
        let stored = self.stored_factor(base, number, of, factor)?;
        let tensor = if factor.exponents { self.powers(&stored)? } else { stored };
        let mut desc = tensor.desc.clone();
        for change in &of.changes {
            desc = change.of(&desc)?;
        }
        Ok(Tensor { desc, ..tensor })
    }

    /// Scales or zero points as the caller has them.
    fn stored_factor(
        &mut self,
        base: c_int,
        number: c_int,
        of: &Tensor,
        factor: &QuantParam,
    ) -> Outcome<Tensor> {
        let dims = match self.operand_of(of) {
            Some(i) => self.operands[i].desc.dims().clone(),
            None => self.slot(of).dims().clone(),
        };
        let desc = MemoryDesc::new(masked(&dims, factor.mask, &factor.groups)?, factor.data_type);
        Ok(self.operand(base | number, (0, 0), desc))
    }

    /// An operand as f32, dequantised by a formula.
    pub(crate) fn dequantized(
        &mut self,
        tensor: &Tensor,
        scale: Option<Tensor>,
        zero_point: Option<Tensor>,
    ) -> Outcome<Tensor> {
        let mut f = Formula::new(tensor.dims());
        let mut x = f.tensor(tensor);
        if let Some(zero_point) = zero_point {
            let zero_point = f.tensor(&zero_point);
            x = f.sub(x, zero_point);
        }
        if let Some(scale) = scale {
            let scale = f.tensor(&scale);
            x = f.mul(x, scale);
        }
        let data_type = DataType::F32;
        let to = self.temporary(crate::recipe::like(&tensor.desc, tensor.dims(), data_type)?);
        f.result(x, &to);
        self.formula(f)?;
        Ok(to)
    }

    /// A source in floats, by its scale where it has one, and the attributes for what follows.
    pub(crate) fn in_floats(&mut self, source: Tensor, attr: &Attr) -> Outcome<(Tensor, Attr)> {
        let (scale, rest) = self.without_scale(&source, attr)?;
        let source = if scale.is_none() && source.desc.data_type().is_float() {
            source
        } else {
            self.dequantized(&source, scale, None)?
        };
        Ok((source, rest))
    }

    /// The source of a normalisation in floats, and the attributes for what follows, with the source's scale behind.
    pub(crate) fn normalized_source(&mut self, source: Tensor, attr: &Attr) -> Outcome<(Tensor, Attr)> {
        let rest = self.scale_behind(&source, attr)?;
        let is_float = source.desc.data_type().is_float();
        Ok((if is_float { source } else { self.dequantized(&source, None, None)? }, rest))
    }

    /// Attributes by which the source's scale multiplies the result of the operation, before post-operations: a softmax or a normalisation of
    /// a source does with it as oneDNN does, whose guide to quantisation writes `dst = scale * Op(..)`.
    pub(crate) fn scale_behind(&mut self, source: &Tensor, attr: &Attr) -> Outcome<Attr> {
        let (result_factor, rest) = self.without_scale(source, attr)?;
        Ok(Attr { result_factor, ..rest })
    }

    /// The scale of a source, where it is given, and the attributes without it.
    fn without_scale(&mut self, source: &Tensor, attr: &Attr) -> Outcome<(Option<Tensor>, Attr)> {
        let number = self.number(source);
        let mut rest = attr.clone();
        let Some(factor) = attr.scale(number).filter(|factor| factor.found.is_none()) else {
            return Ok((None, rest));
        };
        rest.scales.retain(|(of, _)| *of != number);
        Ok((Some(self.factor(arg::ATTR_SCALES, number, source, factor)?), rest))
    }

    /// The number of an operand, or of its copy, by which attributes know it; zero for other temporaries, and for what lies beside an operand's values.
    fn number(&self, tensor: &Tensor) -> c_int {
        let operand = self.operand_of(tensor).map(|i| &self.operands[i]);
        operand.filter(|operand| operand.part == 0).map_or(0, |operand| operand.number)
    }
}

/// The place of a post-operation's operand where others are in front of it.
fn behind(to: Arg, before: u16) -> Arg {
    match to {
        Arg::PostOp(i) => Arg::PostOp(i + before),
        Arg::PostOpOther(i) => Arg::PostOpOther(i + before),
        other => other,
    }
}

/// The dimensions that a mask keeps, divided by groups of the last ones; the others are one.
pub(crate) fn masked(dims: &Dims, mask: c_int, groups: &[usize]) -> Outcome<Dims> {
    if mask < 0 || mask >> dims.len() != 0 {
        return Err(Failure::invalid(format!("the mask {mask} is not one of {} dimensions", dims.len())));
    }
    let first_group = dims.len().saturating_sub(groups.len());
    let keep = |(axis, &dim): (usize, &usize)| {
        if mask >> axis & 1 == 0 {
            return Ok(1);
        }
        let group = if axis < first_group { 1 } else { groups[axis - first_group] };
        if group == 0 || dim % group != 0 {
            return Err(Failure::invalid(format!("groups of {group} do not divide {dim}")));
        }
        Ok(dim / group)
    };
    dims.iter().enumerate().map(keep).collect()
}

/// Post-operations as the contract has them, where it has them all.
fn native(attr: &Attr, operands: &[(Arg, Tensor)]) -> Option<Vec<PostOp>> {
    let desc =
        |to: Arg| operands.iter().find(|(other, _)| *other == to).map(|(_, tensor)| tensor.desc.clone());
    let convert = |(i, post_op): (usize, &PostOpEntry)| {
        let i = i as u16;
        Some(match post_op {
            PostOpEntry::Sum { scale, zero_point, data_type, .. } => {
                PostOp::Sum { scale: *scale, zero_point: *zero_point, data_type: *data_type }
            }
            PostOpEntry::Eltwise { function, .. } => PostOp::Eltwise(*function),
            PostOpEntry::Binary { algorithm: Some(algorithm), .. } => {
                PostOp::binary(*algorithm, desc(Arg::PostOp(i))?)
            }
            PostOpEntry::Binary { algorithm: None, .. } => PostOp::Select {
                condition: desc(Arg::PostOp(i))?,
                other: desc(Arg::PostOpOther(i))?,
                other_where_true: false,
            },
            PostOpEntry::Prelu { .. } | PostOpEntry::Depthwise { .. } => return None,
        })
    };
    attr.post_ops().iter().enumerate().map(convert).collect()
}

fn lost() -> Failure {
    Lack::Attribute.failure("this post-operation here")
}

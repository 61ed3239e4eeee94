//! Sums over groups of a product's source that the caller knows, and what zero points of the weights take from the product by them.

use anydnn_backend::op::{MatMul, Op};
use anydnn_backend::{Arg, Attributes, DataType, Dims, MemoryDesc};

use crate::apply::masked;
use crate::attributes::{Attr, QuantParam};
use crate::boundary::{Failure, Outcome};
use crate::kinds::arg;
use crate::recipe::{Formula, Recipe, Tensor};
use crate::refusals::Lack;

/// What the sums stand beside: scales and zero points of both factors, as the product has them.
#[derive(Default)]
pub(crate) struct Beside {
    pub(crate) src_scale: Option<Tensor>,
    pub(crate) src_zero_point: Option<Tensor>,
    pub(crate) weights_scale: Option<Tensor>,
    pub(crate) weights_zero_point: Option<Tensor>,
}

impl Recipe {
    /// Whether an operation can take the sums that attributes promise, where they promise some.
    pub(crate) fn check_reductions(&self, op: &Op, attr: &Attr) -> Outcome {
        let Some(factor) = &attr.reductions else { return Ok(()) };
        let lacks =
            |what: &str| Err(Lack::Attribute.failure(format_args!("precomputed reductions of {what}")));
        if !matches!(op, Op::MatMul(_)) {
            return lacks("anything but a product");
        }
        let src = self.source_of_sums()?;
        if !src.data_type().is_integer() {
            return lacks("a source that is no integers");
        }
        if attr.zero_point(arg::WEIGHTS).is_none() {
            return lacks("a product whose weights have no zero points");
        }
        let rank = src.dims().len();
        if factor.mask != (1 << rank) - 1 || factor.groups.iter().rev().skip(1).any(|&rows| rows != 1) {
            return lacks("anything but groups of terms of each row");
        }
        Ok(())
    }

    /// `sums of src * zero points of weights`, with the scales of both, for each element of a product: what the zero points take from it. Of a
    /// source with a zero point the sums are those without it.
    pub(crate) fn taken_by_zero_points(
        &mut self,
        factor: &QuantParam,
        weights: &Dims,
        beside: &Beside,
    ) -> Outcome<Tensor> {
        let dims = self.source_of_sums()?.dims().clone();
        let rank = dims.len();
        let group = factor.groups.last().copied().unwrap_or(1);
        let sums = MemoryDesc::new(masked(&dims, factor.mask, &factor.groups)?, factor.data_type);
        let sums = self.operand(arg::ATTR_REDUCTIONS | arg::SRC, (0, 0), sums);
        let groups = sums.dims()[rank - 1];
        let fits = |tensor: &Option<Tensor>, axis: usize| {
            let count = tensor.as_ref().map_or(1, |tensor| tensor.dims()[axis]);
            groups.checked_rem(count).is_none_or(|rest| rest == 0)
        };
        if !fits(&beside.weights_zero_point, rank - 2) {
            return Err(Failure::invalid(format!(
                "reductions of groups of {group} terms, expected a divisor of the groups of the weights' zero points"
            )));
        }
        let others = [
            (&beside.src_scale, rank - 1),
            (&beside.src_zero_point, rank - 1),
            (&beside.weights_scale, rank - 2),
        ];
        if !others.into_iter().all(|(tensor, axis)| fits(tensor, axis)) {
            return Err(Lack::Attribute
                .failure("precomputed reductions over several scales or zero points of the source"));
        }
        let mut f = Formula::new(sums.dims());
        let mut x = f.tensor(&sums);
        if let Some(zero_point) = &beside.src_zero_point {
            let zero_point = f.tensor(zero_point);
            let of_group = f.times(zero_point, group as f32);
            x = f.sub(x, of_group);
        }
        if let Some(scale) = &beside.src_scale {
            let scale = f.tensor(scale);
            x = f.mul(x, scale);
        }
        let left = self.temporary(MemoryDesc::new(sums.dims().clone(), DataType::F32));
        f.result(x, &left);
        self.formula(f)?;

        let mut space = weights.clone();
        space[rank - 2] = groups;
        let mut f = Formula::new(&space);
        let mut x = match &beside.weights_zero_point {
            Some(zero_point) => f.tensor(zero_point),
            None => f.number(0.0),
        };
        if let Some(scale) = &beside.weights_scale {
            let scale = f.tensor(scale);
            x = f.mul(x, scale);
        }
        let right = self.temporary(MemoryDesc::new(space.clone(), DataType::F32));
        f.result(x, &right);
        self.formula(f)?;

        let batch = Dims::new(&sums.dims()[..rank - 2]).broadcast(&Dims::new(&space[..rank - 2]))?;
        let product: Dims = batch.iter().copied().chain([dims[rank - 2], space[rank - 1]]).collect();
        let taken = self.temporary(MemoryDesc::new(product, DataType::F32));
        let args = [(Arg::SRC, &left), (Arg::Weights, &right), (Arg::DST, &taken)];
        self.step(MatMul, &args, &Attributes::default())?;
        Ok(taken)
    }

    /// The source as the caller describes it.
    fn source_of_sums(&self) -> Outcome<&MemoryDesc> {
        let src = self.operands.iter().find(|operand| operand.number == arg::SRC);
        src.map(|operand| &operand.desc).ok_or_else(|| Failure::invalid("a product without a source"))
    }
}

//! Scales of a result that the primitive finds, one for each group of elements, and scales that are powers of two by their exponents.

use anydnn_backend::op::Fold;
use anydnn_backend::{BinaryAlgorithm, DataType, Dims, Eltwise, MemoryDesc};

use crate::attributes::{Found, QuantParam};
use crate::boundary::{Failure, Outcome};
use crate::recipe::{Formula, Recipe, Tensor};
use crate::refusals::Lack;

impl Recipe {
    /// Divides a dense value in f32 by the scales of its groups, which are stored too.
    pub(crate) fn quantize_by_found(
        &mut self,
        plain: &Tensor,
        dst: &Tensor,
        scales: &Tensor,
        factor: &QuantParam,
        found: Found,
    ) -> Outcome {
        let data_type = dst.desc.data_type();
        let Some((largest, exponent)) = largest(data_type) else {
            return Err(Lack::FoundScales.failure(format_args!("scales that are found for {data_type}")));
        };
        if found == Found::Exponent && !factor.exponents {
            return Err(Failure::invalid("scales by the MX specification are of the type e8m0"));
        }
        // Each axis that is divided into groups becomes two, the groups and what is in them.
        let (mut space, mut folded) = (Vec::new(), Vec::new());
        for (&dim, &count) in plain.dims().iter().zip(scales.dims().iter()) {
            if count != 1 {
                space.push(count);
            }
            if count != dim {
                folded.push(space.len());
                space.push(dim / count);
            }
        }
        if folded.is_empty() {
            folded.push(space.len());
            space.push(1);
        }
        let space = Dims::from(space);
        let per_group: Dims = space
            .iter()
            .enumerate()
            .map(|(axis, &dim)| if folded.contains(&axis) { 1 } else { dim })
            .collect();
        let (view, pending) = self.write_as(dst, space.clone())?;
        let mut f = Formula::new(&space).folded(folded);
        let x = f.tensor(&plain.dense_as(space)?);
        let size = f.apply(Eltwise::Abs, x);
        let most = f.fold(Fold::Max, size);
        let (scaled, stored) = match found {
            Found::Exponent => {
                let exponent = f.exponent_of(most, exponent);
                let negative = f.times(exponent, -1.0);
                let inverse = f.two_to(negative);
                (f.mul(x, inverse), f.plus(exponent, EXPONENT_BIAS))
            }
            Found::Float => {
                let largest = f.number(largest);
                let scale = f.div(most, largest);
                let scale = f.cast(factor.data_type, scale);
                let (zero, one) = (f.number(0.0), f.number(1.0));
                let is_any = f.binary(BinaryAlgorithm::Greater, scale, zero);
                let divisor = f.select(is_any, scale, one);
                (f.div(x, divisor), scale)
            }
        };
        let scaled = f.apply(Eltwise::Clamp { min: -largest, max: largest }, scaled);
        f.result(scaled, &view);
        f.result(stored, &scales.dense_as(per_group)?);
        self.formula(f)?;
        pending.store(self)
    }

    /// Powers of two by their exponents, as numbers.
    pub(crate) fn powers(&mut self, exponents: &Tensor) -> Outcome<Tensor> {
        let to = self.temporary(MemoryDesc::new(exponents.dims().clone(), DataType::F32));
        let mut f = Formula::new(exponents.dims());
        let stored = f.tensor(exponents);
        let exponent = f.plus(stored, -EXPONENT_BIAS);
        let power = f.two_to(exponent);
        let (none, not_a_number) = (f.number(255.0), f.number(f32::NAN));
        let is_none = f.binary(BinaryAlgorithm::Equal, stored, none);
        let power = f.select(is_none, not_a_number, power);
        f.result(power, &to);
        self.formula(f)?;
        Ok(to)
    }
}

impl Formula {
    /// Two to the power of a whole number: near to it first, then by a type that has no other number as near.
    fn two_to(&mut self, exponent: usize) -> usize {
        let two = self.number(2.0);
        let power = self.binary(BinaryAlgorithm::Power, two, exponent);
        self.cast(DataType::BF16, power)
    }

    /// The exponent of the largest power of two in a number, less that of the largest number of a type; as e8m0 holds it.
    fn exponent_of(&mut self, number: usize, largest: f32) -> usize {
        let logarithm = self.apply(Eltwise::Log, number);
        let logarithm = self.times(logarithm, std::f32::consts::LOG2_E);
        let nearest = self.apply(Eltwise::Round, logarithm);
        let power = self.two_to(nearest);
        let is_more = self.binary(BinaryAlgorithm::Greater, power, number);
        let exponent = self.sub(nearest, is_more);
        let exponent = self.plus(exponent, -largest);
        self.apply(Eltwise::Clamp { min: -EXPONENT_BIAS, max: EXPONENT_BIAS }, exponent)
    }
}

/// What e8m0 adds to an exponent.
const EXPONENT_BIAS: f32 = 127.0;

/// The largest number of a type, and the exponent of its power of two.
fn largest(data_type: DataType) -> Option<(f32, f32)> {
    let largest = data_type.greatest_of_mini()? as f32;
    Some((largest, largest.log2().floor()))
}

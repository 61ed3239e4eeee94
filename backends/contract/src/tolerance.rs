//! How far a result may be from the reference, derived from the data type and the length of the sums behind it.

use crate::data_type::DataType;
use crate::op::Operation;
use crate::op::primitive_desc::PrimitiveDesc;
use crate::{Arg, PostOp};

/// An absolute and a relative bound; a value passes when `|value - reference| <= absolute + relative * max(|reference|, scale)`, where
/// the scale is the largest magnitude among the reference's elements for results of sums, and zero otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Bound near zero.
    pub absolute: f64,
    /// Bound as a part of the reference.
    pub relative: f64,
    /// Whether errors scale with the largest element (sums may cancel) instead of each element.
    pub scaled: bool,
}

impl Tolerance {
    /// The bound for the result of a primitive.
    ///
    /// Arithmetic is in f32 (unit roundoff `u = 2^-24`) and storage rounds once more to the result's type. A sum of `n` terms in any
    /// order errs by at most `n*u` of the sum of magnitudes, and by about `sqrt(n)*u` for terms without a common sign (Higham,
    /// *Accuracy and Stability of Numerical Algorithms*, 4.2), for which `8*sqrt(n)` leaves room. OpenCL permits built-in functions
    /// up to 16 ulp (OpenCL C 1.2, 7.4).
    ///
    /// The nodes of an expression count as that many functions, and a cast to a float rounds once more. The error of a score of an
    /// attention becomes a relative one of its weight, in proportion to the score's magnitude, for which a magnitude of eight is assumed. A product
    /// that gates another one adds its own error. What is rounded to integers inside of a primitive may be one or a few of them off, as an integer
    /// result may. The states of a recurrent layer come out of functions bounded by one, and keep the errors of
    /// that magnitude where they are small themselves.
    pub fn of(desc: &PrimitiveDesc) -> Self {
        Self::of_result(desc, Arg::DST)
    }

    /// The bound for one of the results of a primitive, which may differ in their types.
    pub fn of_result(desc: &PrimitiveDesc, arg: Arg) -> Self {
        let unit = DataType::F32.unit_roundoff();
        let growth = desc.op().error_growth(desc);
        // A bias is one more term.
        let length = (growth.terms + usize::from(desc.find(Arg::Bias).is_some())) as f64;
        let attributes = desc.attributes();
        let functions = (attributes.post_ops.len() + attributes.dequantize.len() + growth.functions) as f64;
        let one_sum = |length: f64| if length > 1.0 { 8.0 * length.sqrt() * unit } else { 0.0 };
        let sum = one_sum(length) * growth.sums + SCORE * one_sum(growth.inner_terms as f64);
        // Both factors of each product, also of a single one, whose errors add up no faster than the products do.
        let multiplies = length > 1.0 || desc.op().dequantizes(Arg::SRC);
        let factors = if multiplies { 2.0 * attributes.fpmath.unit_step() } else { 0.0 };
        let function = functions * 32.0 * unit;
        let data_type = match arg {
            Arg::Dst(_) => desc.find(arg).unwrap_or(desc.dst()).data_type(),
            _ => desc.dst().data_type(),
        };
        let storage = 2.0 * data_type.unit_roundoff() + growth.casts;
        let rounds_to_integer = !data_type.is_float();
        let relative = sum + factors + function + storage;
        Self {
            // An integer result may land on the other side of a rounding boundary.
            absolute: if rounds_to_integer && !is_exact(desc, arg) {
                growth.neighbours as f64
            } else {
                // Below the least normal number a device may flush to zero.
                let flushed = 1e-30_f64.max(data_type.least_normal());
                flushed.max(relative * growth.magnitude) + growth.neighbours as f64 * growth.quantum
            },
            relative,
            scaled: length > 1.0 || !attributes.post_ops.is_empty() || growth.cancels,
        }
    }

    /// A bound for a chain of primitives: the sum of their relative bounds, the largest absolute one.
    pub fn of_chain<'a>(descs: impl IntoIterator<Item = &'a PrimitiveDesc>) -> Self {
        descs.into_iter().map(Self::of).fold(
            Self { absolute: 0.0, relative: 0.0, scaled: false },
            |total, one| Self {
                absolute: total.absolute.max(one.absolute),
                relative: total.relative + one.relative,
                scaled: total.scaled || one.scaled,
            },
        )
    }

    /// Compares element by element. NaN matches NaN, an infinity itself.
    ///
    /// # Errors
    /// The worst element and by how much it misses the bound.
    pub fn compare(&self, actual: &[f64], reference: &[f64]) -> Result<Comparison, Mismatched> {
        let scale = if self.scaled {
            reference.iter().filter(|v| v.is_finite()).fold(0.0_f64, |m, v| m.max(v.abs()))
        } else {
            0.0
        };
        compare_within(actual, reference, |_, reference| {
            self.absolute + self.relative * reference.abs().max(scale)
        })
    }
}

/// Compares element by element; how far an element may be off follows from it and its reference. NaN matches NaN, an infinity itself.
pub(crate) fn compare_within(
    actual: &[f64],
    reference: &[f64],
    allowed: impl Fn(f64, f64) -> f64,
) -> Result<Comparison, Mismatched> {
    if actual.len() != reference.len() {
        return Err(Mismatched {
            index: actual.len().min(reference.len()),
            actual: f64::NAN,
            reference: f64::NAN,
            allowed: 0.0,
            count: usize::MAX,
        });
    }
    let mut worst: Option<(f64, Mismatched)> = None;
    let mut summary = Comparison { elements: actual.len(), max_error: 0.0, max_of_allowed: 0.0 };
    let mut count = 0;
    for (index, (&actual, &reference)) in actual.iter().zip(reference).enumerate() {
        #[expect(clippy::float_cmp, reason = "equal infinities pass")]
        let same = actual == reference || (actual.is_nan() && reference.is_nan());
        if same {
            continue;
        }
        let allowed = allowed(actual, reference);
        let error = (actual - reference).abs();
        let ratio = if error.is_finite() && allowed.is_finite() { error / allowed } else { f64::INFINITY };
        summary.max_error = summary.max_error.max(error);
        summary.max_of_allowed = summary.max_of_allowed.max(ratio);
        if ratio > 1.0 {
            count += 1;
            if worst.as_ref().is_none_or(|(w, _)| ratio > *w) {
                worst = Some((ratio, Mismatched { index, actual, reference, allowed, count: 0 }));
            }
        }
    }
    match worst {
        None => Ok(summary),
        Some((_, worst)) => Err(Mismatched { count, ..worst }),
    }
}

/// How close a passing comparison was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The number of elements compared.
    pub elements: usize,
    /// The largest difference.
    pub max_error: f64,
    /// The largest difference as a part of what was allowed.
    pub max_of_allowed: f64,
}

/// The worst element of a failed comparison.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("element {index} is {actual}, expected {reference} within {allowed:.3e} ({count} elements differ)")]
pub struct Mismatched {
    /// The element's row-major index.
    pub index: usize,
    /// What was computed.
    pub actual: f64,
    /// What was expected.
    pub reference: f64,
    /// The bound on the difference.
    pub allowed: f64,
    /// The number of elements beyond the bound.
    pub count: usize,
}

/// The magnitude up to which scores of an attention are expected.
const SCORE: f64 = 8.0;

/// Whether the result is the same on every device.
fn is_exact(desc: &PrimitiveDesc, arg: Arg) -> bool {
    let exact = |p: &PostOp| matches!(p, PostOp::Eltwise(function) if function.row().is_exact);
    desc.op().is_exact(arg) && desc.attributes().post_ops.iter().all(exact)
}

#[cfg(test)]
mod tests {
    use approx::assert_abs_diff_eq;

    use super::*;
    use crate::op::{BinaryAlgorithm, Expression, Node, Op};
    use crate::{DataType, FpMath, MemoryDesc};

    #[test]
    fn a_bias_may_cancel_a_single_product() -> crate::Result<()> {
        let f32 = |dims: &[usize]| MemoryDesc::new(dims, DataType::F32);
        let matmul =
            PrimitiveDesc::builder(Op::MatMul(crate::op::MatMul)).src(f32(&[2, 1])).weights(f32(&[1, 9]));
        assert!(!Tolerance::of(&matmul.clone().build()?).scaled);
        assert!(Tolerance::of(&matmul.bias(f32(&[9])).build()?).scaled);
        Ok(())
    }

    #[test]
    fn factors_of_a_single_product_may_be_rounded_where_that_is_permitted() -> crate::Result<()> {
        let f32 = |dims: &[usize]| MemoryDesc::new(dims, DataType::F32);
        let product = |fpmath: FpMath| {
            let attributes = crate::Attributes::default().with_fpmath(fpmath);
            PrimitiveDesc::builder(Op::MatMul(crate::op::MatMul))
                .src(f32(&[2, 1]))
                .weights(f32(&[1, 9]))
                .attributes(attributes)
                .build()
        };
        assert!(Tolerance::of(&product(FpMath::TF32)?).relative > 2.0 * FpMath::TF32.unit_step());
        assert!(Tolerance::of(&product(FpMath::Strict)?).relative < 1e-5);
        Ok(())
    }

    /// Masks of comparisons are the same everywhere; a rounded quotient may be one off.
    #[test]
    fn choices_are_exact_and_quotients_are_not() -> crate::Result<()> {
        let mut op = Expression::new([4]);
        let (x, one) = (op.push(Node::Operand(0)), op.push(Node::Constant(1.5)));
        let above = op.push(Node::Binary(BinaryAlgorithm::Greater, x, one));
        let quotient = op.push(Node::Binary(BinaryAlgorithm::Divide, x, one));
        op.results = vec![above, quotient];
        let integers = MemoryDesc::new([4], DataType::U8);
        let desc = PrimitiveDesc::builder(Op::Expression(op))
            .src(MemoryDesc::new([4], DataType::F32))
            .dst(integers.clone())
            .arg(Arg::Dst(1), integers)
            .build()?;
        assert!(Tolerance::of_result(&desc, Arg::Dst(0)).absolute < 1e-9);
        assert_abs_diff_eq!(Tolerance::of_result(&desc, Arg::Dst(1)).absolute, 1.0, epsilon = 1e-9);
        Ok(())
    }
}

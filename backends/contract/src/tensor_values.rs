//! The values of a tensor, for the assertions of the `approx` crate.

use std::cell::Cell;
use std::fmt;

use approx::{AbsDiffEq, RelativeEq, UlpsEq};

use crate::conformance::data;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::{Error, Result};
use crate::memory_desc::MemoryDesc;
use crate::tolerance::{Comparison, Mismatched, Tolerance, compare_within};

/// How many values a message shows.
const SHOWN: usize = 16;

/// The values of a tensor in logical row-major order, with the type that they are stored in.
///
/// The assertions of the `approx` crate compare them element by element: by numbers of the test's own, or
/// [`within`](TensorValues::within) a [`Tolerance`]. As in [`Tolerance::compare`], NaN matches NaN, and an infinity itself alone. Tensors of
/// other dimensions differ; the types may, and units in the last place are those of the left side's. When an assertion fails, its left side
/// names the worst element, what was computed, what was expected, and the bound.
///
/// ```
/// use anydnn_backend::op::{Softmax, Op};
/// use anydnn_backend::{DataType, MemoryDesc, PrimitiveDesc, TensorValues, Tolerance};
/// use approx::{assert_abs_diff_eq, assert_relative_eq, assert_ulps_eq};
///
/// let layout = MemoryDesc::new([1, 2], DataType::F32);
/// let softmax = PrimitiveDesc::builder(Op::Softmax(Softmax::new(1))).src(layout.clone()).build()?;
/// // What a backend wrote for two equal elements.
/// let got = TensorValues::decode(&layout, &[0.5_f32.to_le_bytes(), 0.500_000_06_f32.to_le_bytes()].concat())?;
/// let expected = TensorValues::new(&layout, [0.5, 0.5])?;
///
/// assert_relative_eq!(got, expected.within(Tolerance::of(&softmax)));
/// assert_relative_eq!(got, expected, max_relative = 1e-6);
/// assert_abs_diff_eq!(got, expected, epsilon = 1e-6);
/// assert_ulps_eq!(got, expected, max_ulps = 1);
/// # Ok::<(), anydnn_backend::Error>(())
/// ```
#[derive(Clone)]
pub struct TensorValues {
    data_type: DataType,
    dims: Dims,
    values: Vec<f64>,
    /// The worst element, if the latest comparison failed. The assertions of `approx` show both sides and nothing of what was compared.
    worst: Cell<Option<Mismatched>>,
}

impl TensorValues {
    /// Values for a descriptor's dimensions and type; its layout does not matter. They are not rounded to the type, so that a reference
    /// stays as exact as it is.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there are not as many values as elements.
    pub fn new(desc: &MemoryDesc, values: impl IntoIterator<Item: Into<f64>>) -> Result<Self> {
        let list = Self::list(desc.data_type(), values);
        if list.values.len() != desc.elements() {
            let (given, expected) =
                (list.values.len().to_string(), format!("{} for {desc}", desc.elements()));
            return Err(Error::invalid("tensor", "number of values", given, expected));
        }
        Ok(Self { dims: desc.dims().clone(), ..list })
    }

    /// The values that the bytes of a tensor hold, whatever its strides or blocks.
    ///
    /// # Errors
    /// As [`conformance::data::decode`](data::decode).
    pub fn decode(desc: &MemoryDesc, bytes: &[u8]) -> Result<Self> {
        Self::new(desc, data::decode(desc, bytes)?)
    }

    /// Values of one dimension.
    pub fn list(data_type: DataType, values: impl IntoIterator<Item: Into<f64>>) -> Self {
        let values: Vec<f64> = values.into_iter().map(Into::into).collect();
        Self { data_type, dims: Dims::from([values.len()]), values, worst: Cell::new(None) }
    }

    /// These values as what is expected, with how far a result may be off: the right side of
    /// [`assert_relative_eq!`](approx::assert_relative_eq) or [`assert_abs_diff_eq!`](approx::assert_abs_diff_eq), which mean the same here
    /// and take no further options.
    pub fn within(&self, tolerance: Tolerance) -> Within<'_> {
        Within { expected: self, tolerance }
    }

    /// The type that the values are stored in.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The dimensions in elements.
    pub fn dims(&self) -> &Dims {
        &self.dims
    }

    /// The values in row-major order.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Whether a comparison of values of the same dimensions passes; the worst element is kept otherwise.
    fn passes(
        &self,
        other: &Self,
        compare: impl FnOnce(&[f64], &[f64]) -> Result<Comparison, Mismatched>,
    ) -> bool {
        self.worst.set(None);
        self.dims == other.dims
            && compare(&self.values, &other.values).inspect_err(|worst| self.worst.set(Some(*worst))).is_ok()
    }
}

/// Values that are expected within a [`Tolerance`], made by [`TensorValues::within`].
#[derive(Clone, Copy)]
pub struct Within<'a> {
    expected: &'a TensorValues,
    tolerance: Tolerance,
}

impl PartialEq for TensorValues {
    fn eq(&self, other: &Self) -> bool {
        self.dims == other.dims && self.data_type == other.data_type && self.values == other.values
    }
}

impl AbsDiffEq for TensorValues {
    type Epsilon = f64;

    /// One unit in the last place of 1 in f32, the type that arithmetic is in.
    fn default_epsilon() -> f64 {
        f64::from(f32::EPSILON)
    }

    fn abs_diff_eq(&self, other: &Self, epsilon: f64) -> bool {
        self.passes(other, |own, other| compare_within(own, other, |_, _| epsilon))
    }
}

impl RelativeEq for TensorValues {
    /// As [`AbsDiffEq::default_epsilon`].
    fn default_max_relative() -> f64 {
        <Self as AbsDiffEq>::default_epsilon()
    }

    /// Each element is within `epsilon`, or within `max_relative` of the larger one of the two.
    fn relative_eq(&self, other: &Self, epsilon: f64, max_relative: f64) -> bool {
        let allowed = |a: f64, b: f64| epsilon.max(max_relative * a.abs().max(b.abs()));
        self.passes(other, |own, other| compare_within(own, other, allowed))
    }
}

impl UlpsEq for TensorValues {
    /// Four, as for the floats of the `approx` crate.
    fn default_max_ulps() -> u32 {
        4
    }

    /// Each element is within `epsilon`, or within as many units in the last place that the other one has in this tensor's type; those of
    /// integers are ones.
    fn ulps_eq(&self, other: &Self, epsilon: f64, max_ulps: u32) -> bool {
        let allowed = |_, b: f64| epsilon.max(f64::from(max_ulps) * unit_in_last_place(self.data_type, b));
        self.passes(other, |own, other| compare_within(own, other, allowed))
    }
}

impl PartialEq<Within<'_>> for TensorValues {
    /// Whether the values are the expected ones to the bit.
    fn eq(&self, other: &Within<'_>) -> bool {
        self == other.expected
    }
}

impl AbsDiffEq<Within<'_>> for TensorValues {
    /// The tolerance says all, and no option widens it.
    type Epsilon = ();

    fn default_epsilon() {}

    fn abs_diff_eq(&self, other: &Within<'_>, (): ()) -> bool {
        self.passes(other.expected, |own, expected| other.tolerance.compare(own, expected))
    }
}

impl RelativeEq<Within<'_>> for TensorValues {
    fn default_max_relative() {}

    fn relative_eq(&self, other: &Within<'_>, (): (), (): ()) -> bool {
        self.abs_diff_eq(other, ())
    }
}

impl fmt::Debug for TensorValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {:?}", self.data_type, self.dims)?;
        if let Some(worst) = self.worst.get() {
            let index = self.dims.indices().nth(worst.index).unwrap_or_default();
            write!(f, ": at {index:?}, {worst}")?;
        }
        let shown = &self.values[..self.values.len().min(SHOWN)];
        write!(f, ": {shown:?}")?;
        if self.values.len() > SHOWN { write!(f, " and {} more", self.values.len() - SHOWN) } else { Ok(()) }
    }
}

impl fmt::Debug for Within<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tolerance { absolute, relative, scaled } = self.tolerance;
        let of = if scaled { "the largest" } else { "each" };
        write!(f, "{:?} within {absolute:.3e} + {relative:.3e} of {of} element", self.expected)
    }
}

/// The distance between neighbours of a type around a value.
fn unit_in_last_place(data_type: DataType, value: f64) -> f64 {
    if !data_type.is_float() {
        return 1.0;
    }
    let normal = value.abs().max(data_type.least_normal()).max(f64::MIN_POSITIVE);
    // Without its mantissa a number is the power of two below it.
    let power = f64::from_bits(normal.to_bits() & f64::INFINITY.to_bits());
    2.0 * data_type.unit_roundoff() * power
}

#[cfg(test)]
mod tests {
    use approx::{abs_diff_eq, assert_relative_eq, assert_ulps_eq, relative_eq, ulps_eq};

    use super::*;

    fn floats<const N: usize>(values: [f64; N]) -> TensorValues {
        TensorValues::list(DataType::F32, values)
    }

    #[test]
    fn numbers_of_the_test_bound_each_element() {
        let (got, expected) = (floats([1.0, 100.5, -4.0]), floats([1.0, 100.0, -4.0]));
        assert!(abs_diff_eq!(got, expected, epsilon = 0.5) && !abs_diff_eq!(got, expected, epsilon = 0.49));
        assert!(relative_eq!(got, expected, max_relative = 0.005));
        assert!(!relative_eq!(got, expected, max_relative = 0.0049));
        assert!(relative_eq!(got, expected, epsilon = 0.5, max_relative = 0.0));
        // Without numbers, rounding in f32 passes and no more.
        assert!(relative_eq!(floats([100.000_01]), floats([100.0])));
        assert!(!relative_eq!(floats([100.000_02]), floats([100.0])));
    }

    #[test]
    fn units_in_the_last_place_are_those_of_the_type() {
        let apart = |data_type, a: f64, b: f64, max_ulps| {
            let (a, b) = (TensorValues::list(data_type, [a]), TensorValues::list(data_type, [b]));
            ulps_eq!(a, b, epsilon = 0.0, max_ulps = max_ulps)
        };
        // Neighbours of 1 are 2^-23, 2^-10 and 2^-7 away, those of 1000 in f16 half of one, the smallest of f16 2^-24 from zero.
        for (data_type, value, unit) in [
            (DataType::F32, 1.0, 2_f64.powi(-23)),
            (DataType::F16, 1.0, 2_f64.powi(-10)),
            (DataType::BF16, -1.0, 2_f64.powi(-7)),
            (DataType::F16, 1000.0, 0.5),
            (DataType::F16, 0.0, 2_f64.powi(-24)),
            (DataType::F32, 0.0, 2_f64.powi(-149)),
            (DataType::F8E4M3, 2.0, 0.25),
            (DataType::F64, 1.0, f64::EPSILON),
            (DataType::S8, 7.0, 1.0),
        ] {
            assert!(apart(data_type, value + 2.0 * unit, value, 2), "{data_type} {value}");
            assert!(!apart(data_type, value + 2.0 * unit, value, 1), "{data_type} {value}");
        }
        assert_ulps_eq!(floats([1.0 + 4.0 * 2_f64.powi(-23)]), floats([1.0]), epsilon = 0.0);
    }

    #[test]
    fn only_like_matches_what_is_no_number() {
        let odd = floats([f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
        assert!(abs_diff_eq!(odd, odd.clone(), epsilon = 0.0) && ulps_eq!(odd, odd.clone()));
        for (a, b) in [(f64::NAN, 1.0), (1.0, f64::NAN), (f64::INFINITY, f64::MAX), (1.0, f64::INFINITY)] {
            assert!(!relative_eq!(floats([a]), floats([b]), epsilon = 1e300, max_relative = 1e300));
            assert!(!ulps_eq!(floats([a]), floats([b]), max_ulps = u32::MAX), "{a} {b}");
        }
    }

    /// A bound of the contract passes and fails what it passes and fails by itself.
    #[test]
    fn tolerances_are_neither_widened_nor_narrowed() {
        let expected = floats([0.0, 1.0, -8.0]);
        for scaled in [false, true] {
            let tolerance = Tolerance { absolute: 1e-3, relative: 1e-2, scaled };
            for off in [1e-4, 9e-3, 1.09e-2, 1.11e-2, 8.09e-2, 8.11e-2] {
                for at in 0..3 {
                    let mut got = expected.clone();
                    got.values[at] += off;
                    let passes = tolerance.compare(&got.values, &expected.values).is_ok();
                    assert_eq!(relative_eq!(got, expected.within(tolerance)), passes, "{got:?}");
                    assert_eq!(abs_diff_eq!(got, expected.within(tolerance)), passes, "{got:?}");
                }
            }
        }
    }

    #[test]
    fn a_failure_names_the_worst_element_and_its_bound() {
        let layout = MemoryDesc::new([2, 2], DataType::F32);
        let got = TensorValues::new(&layout, [1.0, 2.1, 3.5, 4.0]).unwrap();
        let expected = TensorValues::new(&layout, [1.0, 2.0, 3.0, 4.0]).unwrap();
        let tolerance = Tolerance { absolute: 0.0, relative: 0.01, scaled: false };
        let assertion = std::panic::AssertUnwindSafe(|| assert_relative_eq!(got, expected.within(tolerance)));
        let panic = std::panic::catch_unwind(assertion);
        let message = *panic.unwrap_err().downcast::<String>().unwrap();
        let worst = "at [1, 0], element 2 is 3.5, expected 3 within 3.000e-2 (2 elements differ)";
        assert!(message.contains(worst) && message.contains("1.000e-2 of each element"), "{message}");
        // A comparison that passes leaves nothing of one that failed.
        let failed = TensorValues::new(&layout, [1.0, 2.1, 3.5, 4.0]).unwrap();
        assert!(
            !abs_diff_eq!(failed, expected, epsilon = 0.1) && format!("{failed:?}").contains("element 2")
        );
        assert!(abs_diff_eq!(failed, expected, epsilon = 0.6) && !format!("{failed:?}").contains("element"));
        let long = format!("{:?}", TensorValues::list(DataType::F16, (0..20_u8).map(f64::from)));
        assert!(long.starts_with("f16 of ") && long.ends_with("15.0] and 4 more"), "{long}");
    }

    #[test]
    fn tensors_of_other_dimensions_differ() {
        let of = |dims: [usize; 2]| {
            TensorValues::new(&MemoryDesc::new(dims, DataType::F32), vec![1.0; dims[0] * dims[1]]).unwrap()
        };
        assert!(!relative_eq!(of([2, 3]), of([3, 2])) && !relative_eq!(of([2, 3]), of([2, 2])));
        assert!(abs_diff_eq!(of([0, 3]), of([0, 3])) && of([2, 3]) != of([3, 2]));
        let error = TensorValues::new(&MemoryDesc::new([3], DataType::F32), [1.0]).unwrap_err().to_string();
        assert!(error.contains("number of values is 1, expected 3"), "{error}");
    }

    #[test]
    fn bytes_are_decoded_in_their_layout() {
        let column_major = MemoryDesc::with_strides([2, 2], DataType::S8, [1, 2]).unwrap();
        let decoded = TensorValues::decode(&column_major, &[1, 3, 2, 0xFC]).unwrap();
        assert_eq!(decoded, TensorValues::new(&column_major, [1.0, 2.0, 3.0, -4.0]).unwrap());
    }
}

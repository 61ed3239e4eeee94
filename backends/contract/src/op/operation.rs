//! What is known of an operation whatever computes it.

use enum_dispatch::enum_dispatch;

use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

/// The facts of an operation, beside its parameters. [`Op`](super::Op) has them by dispatch to its variants.
#[enum_dispatch]
pub(crate) trait Operation {
    /// The operation's name.
    fn name(&self) -> &'static str;

    /// The result's dimensions and element type; [`Operands::dst`] tells a reduction its dimensions.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) naming the operand that is missing, unknown or does not fit.
    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)>;

    /// Whether result elements may be given post-operations.
    fn takes_post_ops(&self) -> bool {
        true
    }

    /// Whether an operand may be dequantised as it is read.
    fn dequantizes(&self, _arg: Arg) -> bool {
        false
    }

    /// Whether each result element depends on the source element at the same index alone, so that the result may overwrite a
    /// source of the same descriptor.
    fn is_elementwise(&self) -> bool {
        false
    }

    /// Whether every backend reads an element of a post-operation's operand just before it writes the result's element there.
    fn reads_post_operands_in_place(&self) -> bool {
        self.is_elementwise()
    }

    /// Whether an operand is written. The statistics of most normalisations are results.
    fn is_result(&self, arg: Arg) -> bool {
        matches!(arg, Arg::Dst(_) | Arg::Mean | Arg::Variance)
    }

    /// How rounding errors grow from the sources to a result.
    fn error_growth(&self, _desc: &PrimitiveDesc) -> ErrorGrowth {
        ErrorGrowth::default()
    }

    /// Whether a result is the same on every device.
    fn is_exact(&self, _result: Arg) -> bool {
        false
    }

    /// The terms that the reference visits for each result element.
    #[cfg_attr(not(feature = "conformance"), allow(dead_code, reason = "the suite alone asks"))]
    fn visits(&self, desc: &PrimitiveDesc) -> usize {
        self.error_growth(desc).terms
    }
}

/// How the rounding errors of an operation grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ErrorGrowth {
    /// The terms of the sum behind one result element; 1 without a sum.
    pub(crate) terms: usize,
    /// How many such sums add up their errors.
    pub(crate) sums: f64,
    /// The terms of sums inside of what is summed; 1 without.
    pub(crate) inner_terms: usize,
    /// The functions that are applied one after the other, at most.
    pub(crate) functions: usize,
    /// What casts to floats inside of the operation round, as a part of the value.
    pub(crate) casts: f64,
    /// Whether differences of nearly equal numbers may lose relative accuracy.
    pub(crate) cancels: bool,
    /// The magnitude of what sums inside of the operation go through, whose errors do not shrink with a result; zero without.
    pub(crate) magnitude: f64,
    /// How many neighbours apart results may be that are rounded to integers, inside of the operation or as they are stored.
    pub(crate) neighbours: usize,
    /// The distance of such neighbours where the rounding is inside of the operation; zero without.
    pub(crate) quantum: f64,
}

impl Default for ErrorGrowth {
    /// One function of each element.
    fn default() -> Self {
        Self {
            terms: 1,
            sums: 1.0,
            inner_terms: 1,
            functions: 1,
            casts: 0.0,
            cancels: false,
            magnitude: 0.0,
            neighbours: 1,
            quantum: 0.0,
        }
    }
}

impl ErrorGrowth {
    /// That of one sum.
    pub(crate) fn of_sum(terms: usize) -> Self {
        Self { terms, ..Self::default() }
    }
}

use super::{ErrorGrowth, Operation, type_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

/// What is known of a function of two elements beside its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BinaryFunction {
    /// The function.
    pub algorithm: BinaryAlgorithm,
    /// The name in this project's notations, in `snake_case`.
    pub name: &'static str,
    /// Whether the result is a truth value.
    pub is_comparison: bool,
    /// Whether the operands may change places.
    pub is_commutative: bool,
    /// The operation of the graph API.
    pub graph: &'static str,
    /// The number of oneDNN's algorithm kind.
    pub onednn: Option<i32>,
}

impl BinaryFunction {
    /// The row of an algorithm kind of oneDNN.
    pub fn of_onednn(kind: i32) -> Option<&'static Self> {
        BinaryAlgorithm::TABLE.iter().find(|row| row.onednn == Some(kind))
    }

    /// The row of an operation of the graph API.
    pub fn of_graph(operation: &str) -> Option<&'static Self> {
        BinaryAlgorithm::TABLE.iter().find(|row| row.graph == operation)
    }
}

/// Rows: documentation, name, the name in notations, the definition, what it is, the graph operation, oneDNN's number.
macro_rules! functions {
    ($(
        #[doc = $doc:literal]
        $algorithm:ident $name:literal |$a:ident, $b:ident| $value:expr;
        $(is $($nature:ident)+;)? graph $graph:literal; $(onednn $onednn:literal;)?
    )+) => {
        /// A function of two elements. [`BinaryAlgorithm::reference`] is its definition.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum BinaryAlgorithm {
            $(#[doc = $doc] $algorithm,)+
        }

        impl BinaryAlgorithm {
            /// Every function, in the order of the enumeration. A new one is a row here, and its formula in OpenCL C in
            /// `kernels/common/binary.cl`.
            pub const TABLE: &'static [BinaryFunction] = &[$(
                BinaryFunction {
                    $($($nature: true,)+)?
                    $(onednn: Some($onednn),)?
                    ..BinaryFunction {
                        algorithm: Self::$algorithm,
                        name: $name,
                        is_comparison: false,
                        is_commutative: false,
                        graph: $graph,
                        onednn: None,
                    }
                },
            )+];

            /// Every algorithm.
            pub const ALL: [Self; Self::TABLE.len()] = [$(Self::$algorithm,)+];

            /// The definition, in f64; truth is one. Maximum and minimum give NaN when an operand is NaN.
            #[expect(clippy::float_cmp, reason = "equality of elements is exact by definition")]
            pub fn reference(self, a: f64, b: f64) -> f64 {
                match self {
                    $(Self::$algorithm => {
                        let ($a, $b) = (a, b);
                        $value
                    })+
                }
            }
        }
    };
}

functions! {
    /// `a + b`
    Add "add" |a, b| a + b;
        is is_commutative; graph "Add"; onednn 0x1_fff0;
    /// `a - b`
    Subtract "subtract" |a, b| a - b;
        graph "Subtract"; onednn 0x1_fff5;
    /// `a * b`
    Multiply "multiply" |a, b| a * b;
        is is_commutative; graph "Multiply"; onednn 0x1_fff1;
    /// `a / b`
    Divide "divide" |a, b| a / b;
        graph "Divide"; onednn 0x1_fff4;
    /// the larger
    Maximum "maximum" |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
        is is_commutative; graph "Maximum"; onednn 0x1_fff2;
    /// the smaller
    Minimum "minimum" |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) };
        is is_commutative; graph "Minimum"; onednn 0x1_fff3;
    /// `(a - b)^2`
    SquaredDifference "squared_difference" |a, b| (a - b) * (a - b);
        is is_commutative; graph "SquaredDifference";
    /// `a^b`
    Power "power" |a, b| a.powf(b);
        graph "Power";
    /// `a >= b`
    GreaterEqual "greater_equal" |a, b| truth(a >= b);
        is is_comparison; graph "GreaterEqual"; onednn 0x1_fff6;
    /// `a > b`
    Greater "greater" |a, b| truth(a > b);
        is is_comparison; graph "Greater"; onednn 0x1_fff7;
    /// `a <= b`
    LessEqual "less_equal" |a, b| truth(a <= b);
        is is_comparison; graph "LessEqual"; onednn 0x1_fff8;
    /// `a < b`
    Less "less" |a, b| truth(a < b);
        is is_comparison; graph "Less"; onednn 0x1_fff9;
    /// `a == b`
    Equal "equal" |a, b| truth(a == b);
        is is_comparison is_commutative; graph "Equal"; onednn 0x1_fffa;
    /// `a != b`
    NotEqual "not_equal" |a, b| truth(a != b);
        is is_comparison is_commutative; graph "NotEqual"; onednn 0x1_fffb;
    /// both are not zero
    And "and" |a, b| truth(a != 0.0 && b != 0.0);
        is is_comparison is_commutative; graph "And";
    /// one is not zero
    Or "or" |a, b| truth(a != 0.0 || b != 0.0);
        is is_comparison is_commutative; graph "Or";
    /// exactly one is not zero
    Xor "xor" |a, b| truth((a != 0.0) != (b != 0.0));
        is is_comparison is_commutative; graph "Xor";
    /// the integer towards zero of `a / b`; NaN, which integers store as zero, where `b` is zero
    Quotient "quotient" |a, b| quotient(a, b);
        graph "Quotient";
    /// what [`BinaryAlgorithm::Quotient`] leaves of `a`, with the sign of `a`
    Remainder "remainder" |a, b| a % b;
        graph "Remainder";
    /// the remainder with the sign of `b`
    Modulo "modulo" |a, b| modulo(a, b);
        graph "Modulo";
}

impl BinaryAlgorithm {
    /// The row of the table.
    pub const fn row(self) -> &'static BinaryFunction {
        &Self::TABLE[self as usize]
    }

    /// The function's name.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether the result is a truth value.
    pub const fn is_comparison(self) -> bool {
        self.row().is_comparison
    }

    /// Whether the operands may change places.
    pub const fn is_commutative(self) -> bool {
        self.row().is_commutative
    }
}

fn truth(truth: bool) -> f64 {
    f64::from(u8::from(truth))
}

/// The division may round up to the next integer; the remainder is exact.
fn quotient(a: f64, b: f64) -> f64 {
    if b == 0.0 { f64::NAN } else { ((a - a % b) / b).round() }
}

fn modulo(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}

/// `dst = src0 op src1`, both broadcast to the result (numpy).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Binary {
    /// The operation.
    pub algorithm: BinaryAlgorithm,
}

impl Binary {
    /// The operation on two tensors.
    pub const fn new(algorithm: BinaryAlgorithm) -> Self {
        Self { algorithm }
    }
}

impl Operation for Binary {
    fn name(&self) -> &'static str {
        "binary"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let operands = operands.only(self.name(), &[Arg::Src(0), Arg::Src(1)], &[])?;
        let (src0, src1) = (operands.required(Arg::Src(0))?, operands.required(Arg::Src(1))?);
        let dims = src0.dims().broadcast(src1.dims())?;
        if !self.algorithm.is_comparison()
            && let Some(dst) = operands.dst()
            && dst.data_type() == DataType::Boolean
            && src0.data_type() != DataType::Boolean
        {
            return Err(type_error(
                self.name(),
                format!("dst data type of {}", self.algorithm.name()),
                DataType::Boolean,
                "an arithmetic type",
            ));
        }
        Ok((dims, if self.algorithm.is_comparison() { DataType::Boolean } else { src0.data_type() }))
    }

    fn is_elementwise(&self) -> bool {
        true
    }

    fn error_growth(&self, _desc: &PrimitiveDesc) -> ErrorGrowth {
        ErrorGrowth { cancels: true, ..ErrorGrowth::default() }
    }

    fn is_exact(&self, _result: Arg) -> bool {
        self.algorithm.is_comparison()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_each_of_their_names() {
        for row in BinaryAlgorithm::TABLE {
            assert_eq!(row.algorithm.row(), row);
            assert_eq!(BinaryFunction::of_graph(row.graph), Some(row));
            assert_eq!(row.onednn.and_then(BinaryFunction::of_onednn), row.onednn.map(|_| row));
            let same = BinaryAlgorithm::TABLE.iter().filter(|other| other.name == row.name);
            assert_eq!(same.count(), 1, "{}", row.name);
        }
        assert_eq!(BinaryFunction::of_onednn(0x1_fff1).map(|row| row.name), Some("multiply"));
        assert_eq!(BinaryFunction::of_onednn(0), None);
    }

    #[test]
    fn what_commutes_does_and_comparisons_give_truth() {
        let numbers = [-2.5, -1.0, 0.0, 0.5, 3.0];
        for row in BinaryAlgorithm::TABLE {
            let of = |a: f64, b: f64| row.algorithm.reference(a, b).to_bits();
            let pairs = || numbers.iter().flat_map(|&a| numbers.iter().map(move |&b| (a, b)));
            assert_eq!(row.is_commutative, pairs().all(|(a, b)| of(a, b) == of(b, a)), "{}", row.name);
            let is_truth = |bits| bits == 0f64.to_bits() || bits == 1f64.to_bits();
            assert_eq!(row.is_comparison, pairs().all(|(a, b)| is_truth(of(a, b))), "{}", row.name);
        }
    }

    #[test]
    fn divisions_of_integers_round_towards_zero_and_their_rests_have_a_sign() {
        let of = |algorithm: BinaryAlgorithm, a: f64, b: f64| algorithm.reference(a, b) as i64;
        for (a, b, quotient, remainder, modulo) in
            [(7.0, 2.0, 3, 1, 1), (-7.0, 2.0, -3, -1, 1), (7.0, -2.0, -3, 1, -1)]
        {
            assert_eq!(of(BinaryAlgorithm::Quotient, a, b), quotient);
            assert_eq!(of(BinaryAlgorithm::Remainder, a, b), remainder);
            assert_eq!(of(BinaryAlgorithm::Modulo, a, b), modulo);
        }
        assert!(BinaryAlgorithm::Quotient.reference(1.0, 0.0).is_nan());
    }
}

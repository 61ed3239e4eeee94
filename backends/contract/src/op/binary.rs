use super::type_error;
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::primitive_desc::Operands;

/// A function of two elements. [`BinaryAlgorithm::reference`] is its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BinaryAlgorithm {
    /// `a + b`
    Add,
    /// `a - b`
    Subtract,
    /// `a * b`
    Multiply,
    /// `a / b`
    Divide,
    /// the larger
    Maximum,
    /// the smaller
    Minimum,
    /// `(a - b)^2`
    SquaredDifference,
    /// `a^b`
    Power,
    /// `a >= b`
    GreaterEqual,
    /// `a > b`
    Greater,
    /// `a <= b`
    LessEqual,
    /// `a < b`
    Less,
    /// `a == b`
    Equal,
    /// `a != b`
    NotEqual,
    /// both are not zero
    And,
    /// one is not zero
    Or,
    /// exactly one is not zero
    Xor,
    /// the integer towards zero of `a / b`; NaN, which integers store as zero, where `b` is zero
    Quotient,
    /// what [`BinaryAlgorithm::Quotient`] leaves of `a`, with the sign of `a`
    Remainder,
    /// the remainder with the sign of `b`
    Modulo,
}

impl BinaryAlgorithm {
    /// Every algorithm.
    pub const ALL: [Self; 20] = [
        Self::Add,
        Self::Subtract,
        Self::Multiply,
        Self::Divide,
        Self::Maximum,
        Self::Minimum,
        Self::SquaredDifference,
        Self::Power,
        Self::GreaterEqual,
        Self::Greater,
        Self::LessEqual,
        Self::Less,
        Self::Equal,
        Self::NotEqual,
        Self::And,
        Self::Or,
        Self::Xor,
        Self::Quotient,
        Self::Remainder,
        Self::Modulo,
    ];

    /// The function's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Subtract => "subtract",
            Self::Multiply => "multiply",
            Self::Divide => "divide",
            Self::Maximum => "maximum",
            Self::Minimum => "minimum",
            Self::SquaredDifference => "squared_difference",
            Self::Power => "power",
            Self::GreaterEqual => "greater_equal",
            Self::Greater => "greater",
            Self::LessEqual => "less_equal",
            Self::Less => "less",
            Self::Equal => "equal",
            Self::NotEqual => "not_equal",
            Self::And => "and",
            Self::Or => "or",
            Self::Xor => "xor",
            Self::Quotient => "quotient",
            Self::Remainder => "remainder",
            Self::Modulo => "modulo",
        }
    }

    /// Whether the result is a truth value.
    pub const fn is_comparison(self) -> bool {
        matches!(
            self,
            Self::GreaterEqual
                | Self::Greater
                | Self::LessEqual
                | Self::Less
                | Self::Equal
                | Self::NotEqual
                | Self::And
                | Self::Or
                | Self::Xor
        )
    }

    /// Whether the operands may change places.
    pub const fn is_commutative(self) -> bool {
        matches!(
            self,
            Self::Add
                | Self::Multiply
                | Self::Maximum
                | Self::Minimum
                | Self::SquaredDifference
                | Self::Equal
                | Self::NotEqual
                | Self::And
                | Self::Or
                | Self::Xor
        )
    }

    /// The definition, in f64; truth is one. Maximum and minimum give NaN when an operand is NaN.
    #[expect(clippy::float_cmp, reason = "equality of elements is exact by definition")]
    pub fn reference(self, a: f64, b: f64) -> f64 {
        let truth = |t: bool| f64::from(u8::from(t));
        match self {
            Self::Add => a + b,
            Self::Subtract => a - b,
            Self::Multiply => a * b,
            Self::Divide => a / b,
            Self::Maximum | Self::Minimum if a.is_nan() || b.is_nan() => f64::NAN,
            Self::Maximum => a.max(b),
            Self::Minimum => a.min(b),
            Self::SquaredDifference => (a - b) * (a - b),
            Self::Power => a.powf(b),
            Self::GreaterEqual => truth(a >= b),
            Self::Greater => truth(a > b),
            Self::LessEqual => truth(a <= b),
            Self::Less => truth(a < b),
            Self::Equal => truth(a == b),
            Self::NotEqual => truth(a != b),
            Self::And => truth(a != 0.0 && b != 0.0),
            Self::Or => truth(a != 0.0 || b != 0.0),
            Self::Xor => truth((a != 0.0) != (b != 0.0)),
            Self::Quotient if b == 0.0 => f64::NAN,
            // The division may round up to the next integer; the remainder is exact.
            Self::Quotient => ((a - a % b) / b).round(),
            Self::Remainder => a % b,
            Self::Modulo => {
                let rest = a % b;
                if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
            }
        }
    }
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

    pub(super) fn infer(self, operands: &Operands) -> Result<(Dims, DataType)> {
        let operands = operands.only("binary", &[Arg::Src(0), Arg::Src(1)], &[])?;
        let (src0, src1) = (operands.required(Arg::Src(0))?, operands.required(Arg::Src(1))?);
        let dims = src0.dims().broadcast(src1.dims())?;
        if !self.algorithm.is_comparison()
            && let Some(dst) = operands.dst()
            && dst.data_type() == DataType::Boolean
            && src0.data_type() != DataType::Boolean
        {
            return Err(type_error(
                "binary",
                format!("dst data type of {}", self.algorithm.name()),
                DataType::Boolean,
                "an arithmetic type",
            ));
        }
        Ok((dims, if self.algorithm.is_comparison() { DataType::Boolean } else { src0.data_type() }))
    }
}

//! The kinds of graph operations.

use std::fmt;
use std::str::FromStr;

use anydnn_backend::op::{BinaryFunction, Function};
use anydnn_backend::{Error, InvalidKind};

/// Declares the kinds once: those of the C ABI's enumeration in its order, then the extensions.
macro_rules! op_kinds {
    (
        $($(#[doc = $doc:literal])+ $kind:ident;)*
        extensions: $($(#[doc = $extra_doc:literal])+ $extra:ident;)*
    ) => {
        /// What a graph operation does, named as in the oneDNN Graph specification; and [extensions](OpKind::EXTENSIONS) of it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum OpKind {
            $($(#[doc = $doc])+ $kind,)*
            $($(#[doc = $extra_doc])+ $extra,)*
        }

        impl OpKind {
            /// Every kind of the specification; a kind's position is its number in the C ABI.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// Kinds beyond the specification, which the C ABI has no numbers for.
            pub const EXTENSIONS: &'static [Self] = &[$(Self::$extra,)*];

            /// The name in graph JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($kind),)*
                    $(Self::$extra => stringify!($extra),)*
                }
            }
        }
    };
}

op_kinds! {
    /// Absolute value.
    Abs;
    /// Gradient of [`OpKind::Abs`].
    AbsBackward;
    /// Sum of two tensors.
    Add;
    /// Average over windows.
    AvgPool;
    /// Gradient of [`OpKind::AvgPool`].
    AvgPoolBackward;
    /// Gradient of [`OpKind::BatchNormForwardTraining`].
    BatchNormTrainingBackward;
    /// Batch normalization while training: also makes the running statistics.
    BatchNormForwardTraining;
    /// Batch normalization with given statistics.
    BatchNormInference;
    /// Adds a vector along the channels.
    BiasAdd;
    /// Gradient of [`OpKind::BiasAdd`] for the bias.
    BiasAddBackward;
    /// Limits to an interval.
    Clamp;
    /// Gradient of [`OpKind::Clamp`].
    ClampBackward;
    /// Joins tensors along an axis.
    Concat;
    /// Convolution.
    Convolution;
    /// Gradient of [`OpKind::Convolution`] for the source.
    ConvolutionBackwardData;
    /// Gradient of [`OpKind::Convolution`] for the weights.
    ConvolutionBackwardWeights;
    /// Transposed convolution.
    ConvTranspose;
    /// Gradient of [`OpKind::ConvTranspose`] for the source.
    ConvTransposeBackwardData;
    /// Gradient of [`OpKind::ConvTranspose`] for the weights.
    ConvTransposeBackwardWeights;
    /// Integers to floats by scales and zero points known when the graph is built.
    Dequantize;
    /// Quotient of two tensors.
    Divide;
    /// Integers to floats by scales and zero points given on execution.
    DynamicDequantize;
    /// Floats to integers by scales and zero points given on execution.
    DynamicQuantize;
    /// Exponential linear unit.
    Elu;
    /// Gradient of [`OpKind::Elu`].
    EluBackward;
    /// Marks a tensor as an output of the graph.
    End;
    /// Exponential function.
    Exp;
    /// Gaussian error linear unit.
    GELU;
    /// Gradient of [`OpKind::GELU`].
    GELUBackward;
    /// Source times its piecewise linear sigmoid.
    HardSwish;
    /// Gradient of [`OpKind::HardSwish`].
    HardSwishBackward;
    /// Resampling of the spatial dimensions.
    Interpolate;
    /// Gradient of [`OpKind::Interpolate`].
    InterpolateBackward;
    /// Normalization over the inner dimensions.
    LayerNorm;
    /// Gradient of [`OpKind::LayerNorm`].
    LayerNormBackward;
    /// Rectifier with a slope for negative values.
    LeakyReLU;
    /// Natural logarithm.
    Log;
    /// Logarithm of the softmax.
    LogSoftmax;
    /// Gradient of [`OpKind::LogSoftmax`].
    LogSoftmaxBackward;
    /// Matrix product.
    MatMul;
    /// Larger of two tensors.
    Maximum;
    /// Largest value of windows.
    MaxPool;
    /// Gradient of [`OpKind::MaxPool`].
    MaxPoolBackward;
    /// Smaller of two tensors.
    Minimum;
    /// Source times tanh of its soft plus.
    Mish;
    /// Gradient of [`OpKind::Mish`].
    MishBackward;
    /// Product of two tensors.
    Multiply;
    /// Rectifier with learned slopes for negative values.
    PReLU;
    /// Gradient of [`OpKind::PReLU`].
    PReLUBackward;
    /// Floats to integers by scales and zero points known when the graph is built.
    Quantize;
    /// One over the source.
    Reciprocal;
    /// Sum of absolute values over axes.
    ReduceL1;
    /// Euclidean norm over axes.
    ReduceL2;
    /// Largest value over axes.
    ReduceMax;
    /// Mean over axes.
    ReduceMean;
    /// Smallest value over axes.
    ReduceMin;
    /// Product over axes.
    ReduceProd;
    /// Sum over axes.
    ReduceSum;
    /// Rectifier.
    ReLU;
    /// Gradient of [`OpKind::ReLU`].
    ReLUBackward;
    /// Copy to another layout.
    Reorder;
    /// Rounding to the nearest integer, halves to even.
    Round;
    /// Logistic function.
    Sigmoid;
    /// Gradient of [`OpKind::Sigmoid`].
    SigmoidBackward;
    /// Softmax along an axis.
    SoftMax;
    /// Gradient of [`OpKind::SoftMax`].
    SoftMaxBackward;
    /// Soft plus.
    SoftPlus;
    /// Gradient of [`OpKind::SoftPlus`].
    SoftPlusBackward;
    /// Square root.
    Sqrt;
    /// Gradient of [`OpKind::Sqrt`].
    SqrtBackward;
    /// Square.
    Square;
    /// Square of the difference of two tensors.
    SquaredDifference;
    /// Same elements in another shape.
    StaticReshape;
    /// Dimensions in another order.
    StaticTranspose;
    /// Difference of two tensors.
    Subtract;
    /// Hyperbolic tangent.
    Tanh;
    /// Gradient of [`OpKind::Tanh`].
    TanhBackward;
    /// Conversion to another data type.
    TypeCast;
    /// Anything: an operation that this library passes through without knowing it.
    Wildcard;
    /// Piecewise linear sigmoid.
    HardSigmoid;
    /// Gradient of [`OpKind::HardSigmoid`].
    HardSigmoidBackward;
    /// Choice between two tensors by a third.
    Select;
    /// Power with an exponent known when the graph is built.
    Pow;
    /// Normalization over groups of channels.
    GroupNorm;
    /// Every element's index along an axis.
    GenIndex;
    /// Comparison of two tensors.
    GreaterEqual;
    /// Normalization by the root mean square over the inner dimensions.
    RMSNorm;
    /// Random zeroing while training.
    Dropout;

    extensions:
    /// Inverse cosine.
    Acos;
    /// Inverse hyperbolic cosine.
    Acosh;
    /// Whether two truth values both hold.
    And;
    /// Inverse sine.
    Asin;
    /// Inverse hyperbolic sine.
    Asinh;
    /// Inverse tangent.
    Atan;
    /// Inverse hyperbolic tangent.
    Atanh;
    /// Rounding up.
    Ceil;
    /// Cosine.
    Cos;
    /// Hyperbolic cosine.
    Cosh;
    /// Whether two tensors' elements are equal.
    Equal;
    /// Error function.
    Erf;
    /// Rounding down.
    Floor;
    /// Elements by indices.
    Gather;
    /// Whether the first element is greater.
    Greater;
    /// Whether the first element is less.
    Less;
    /// Whether the first element is not greater.
    LessEqual;
    /// What a division rounded down leaves: it has the sign of the divisor.
    Modulo;
    /// Whether two tensors' elements differ.
    NotEqual;
    /// Whether at least one of two truth values holds.
    Or;
    /// Power with an exponent for each element.
    Power;
    /// Division rounded towards zero.
    Quotient;
    /// A layer of a recurrent network.
    Recurrent;
    /// What a division rounded towards zero leaves: it has the sign of the dividend.
    Remainder;
    /// Slices, paddings, repetitions: elements in other places.
    Remap;
    /// -1, 0 or 1.
    Sign;
    /// Sine.
    Sin;
    /// Hyperbolic sine.
    Sinh;
    /// Tangent.
    Tan;
    /// Rounding towards zero.
    Truncate;
    /// Whether exactly one of two truth values holds.
    Xor;
}

impl OpKind {
    /// The number in the C ABI; of an extension a number that the C ABI does not know.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Whether each element of the result is computed from those at the same place of one or two tensors.
    pub(crate) fn is_pointwise(self) -> bool {
        Function::is_graph(self.name()) || BinaryFunction::of_graph(self.name()).is_some()
    }

    /// Every kind, extensions included.
    fn known() -> impl Iterator<Item = Self> {
        Self::ALL.iter().chain(Self::EXTENSIONS).copied()
    }

    /// The kind with a number of the C ABI.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for OpKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::known().find(|kind| kind.name() == name).ok_or_else(|| {
            Error::invalid_kind(
                InvalidKind::GraphOp,
                "operation",
                "kind",
                format!("{name:?}"),
                suggestion(name),
            )
        })
    }
}

/// What to write instead of an unknown kind.
fn suggestion(name: &str) -> String {
    // Names longer than any kind are no typing mistakes, and the distance costs quadratic time.
    let nearest =
        OpKind::known().filter(|_| name.len() <= 64).min_by_key(|kind| edit_distance(name, kind.name()));
    match nearest {
        Some(kind) if edit_distance(name, kind.name()) <= kind.name().len() / 2 => {
            format!("{:?}?", kind.name())
        }
        _ => format!(
            "one of the {} kinds of the oneDNN Graph operation set or of the {} beyond it",
            OpKind::ALL.len(),
            OpKind::EXTENSIONS.len()
        ),
    }
}

/// The Levenshtein distance without regard to case.
pub(crate) fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_round_trip() {
        assert_eq!(OpKind::ALL.len(), 88);
        assert_eq!((OpKind::MatMul.number(), OpKind::Dropout.number()), (39, 87));
        for (number, kind) in OpKind::ALL.iter().enumerate() {
            assert_eq!(kind.number() as usize, number);
            assert_eq!(OpKind::from_number(number as u32), Some(*kind));
            assert_eq!(kind.name().parse::<OpKind>().unwrap(), *kind);
        }
        assert_eq!(OpKind::from_number(88), None);
        for (i, kind) in OpKind::EXTENSIONS.iter().enumerate() {
            assert_eq!(kind.number() as usize, 88 + i);
            assert_eq!(kind.name().parse::<OpKind>().unwrap(), *kind);
        }
        assert!(OpKind::EXTENSIONS.is_sorted_by_key(|kind| kind.name()));
    }

    #[test]
    fn unknown_names_suggest_the_nearest() {
        let message = "Matmul".parse::<OpKind>().unwrap_err().to_string();
        assert!(message.contains("\"Matmul\"") && message.contains("\"MatMul\""), "{message}");
        let message = "Flux capacitor".parse::<OpKind>().unwrap_err().to_string();
        assert!(message.contains("88 kinds"), "{message}");
    }
}

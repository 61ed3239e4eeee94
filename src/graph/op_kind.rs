//! The kinds of graph operations.

use std::fmt;
use std::str::FromStr;

use anydnn_backend::{Error, InvalidKind};

/// Declares the kinds once, in the order of the C ABI's enumeration.
macro_rules! op_kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident;)*) => {
        /// What a graph operation does, named as in the oneDNN Graph specification.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum OpKind {
            $($(#[doc = $doc])+ $kind,)*
        }

        impl OpKind {
            /// Every kind; a kind's position is its number in the C ABI.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// The name in graph JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($kind),)*
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
}

impl OpKind {
    /// The number in the C ABI.
    pub fn number(self) -> u32 {
        self as u32
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
        Self::ALL.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| {
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
        OpKind::ALL.iter().filter(|_| name.len() <= 64).min_by_key(|kind| edit_distance(name, kind.name()));
    match nearest {
        Some(kind) if edit_distance(name, kind.name()) <= kind.name().len() / 2 => {
            format!("{:?}?", kind.name())
        }
        _ => format!("one of the {} kinds of the oneDNN Graph operation set", OpKind::ALL.len()),
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
    }

    #[test]
    fn unknown_names_suggest_the_nearest() {
        let message = "Matmul".parse::<OpKind>().unwrap_err().to_string();
        assert!(message.contains("\"Matmul\"") && message.contains("\"MatMul\""), "{message}");
        let message = "Flux capacitor".parse::<OpKind>().unwrap_err().to_string();
        assert!(message.contains("88 kinds"), "{message}");
    }
}

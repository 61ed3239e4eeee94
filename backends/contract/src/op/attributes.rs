//! Attributes and post-operations of a primitive.

use crate::arg::Quantized;
use crate::data_type::DataType;
use crate::memory_desc::MemoryDesc;
use crate::op::specialize::Specialize;
use crate::op::{BinaryAlgorithm, Eltwise};

/// What changes how a primitive computes without changing which one it is.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each permits or asks for one thing")]
pub struct Attributes {
    /// Applied to each result element in order, in f32, before it is stored.
    pub post_ops: Vec<PostOp>,
    /// Who provides working memory.
    pub scratchpad: ScratchpadMode,
    /// Which narrower arithmetic f32 work may use.
    pub fpmath: FpMath,
    /// The same result bits on every run.
    pub deterministic: bool,
    /// Operands that are dequantised as they are read.
    pub dequantize: Vec<Dequantize>,
    /// It runs once, as what prepares weights does: being ready soon counts for more than being fast.
    pub once: bool,
    /// When its kernels get programs for its shape; if none, the engine decides.
    pub specialize: Option<Specialize>,
    /// Whether convolutions may be computed by Winograd's transforms, which take fewer multiplications. Their results are rounded otherwise
    /// than sums of products, by about as much, and what is not finite in the source makes results beside those that see it not finite.
    pub winograd: bool,
    /// Whether a device may leave what takes a moment to the processor that it is, as a native command of its queue: launching a kernel
    /// takes longer than many a small primitive, and neighbours share a command.
    pub native: bool,
}

impl Attributes {
    /// Attributes with one more post-operation.
    pub fn with_post_op(mut self, post_op: PostOp) -> Self {
        self.post_ops.push(post_op);
        self
    }

    /// Attributes that dequantise one more operand.
    pub fn with_dequantize(mut self, dequantize: Dequantize) -> Self {
        self.dequantize.push(dequantize);
        self
    }

    /// Attributes with working memory from `mode`.
    pub fn with_scratchpad(mut self, mode: ScratchpadMode) -> Self {
        self.scratchpad = mode;
        self
    }

    /// Attributes that permit `fpmath`.
    pub fn with_fpmath(mut self, fpmath: FpMath) -> Self {
        self.fpmath = fpmath;
        self
    }

    /// Attributes of what runs once.
    pub fn with_once(mut self, once: bool) -> Self {
        self.once = once;
        self
    }

    /// Attributes that say when kernels get programs for one shape; none leaves it to the engine.
    pub fn with_specialize(mut self, specialize: impl Into<Option<Specialize>>) -> Self {
        self.specialize = specialize.into();
        self
    }

    /// Attributes that permit Winograd's transforms.
    pub fn with_winograd(mut self, winograd: bool) -> Self {
        self.winograd = winograd;
        self
    }

    /// Attributes that permit native commands.
    pub fn with_native(mut self, native: bool) -> Self {
        self.native = native;
        self
    }

    /// Attributes that ask for the same bits on every run.
    pub fn with_deterministic(mut self, deterministic: bool) -> Self {
        self.deterministic = deterministic;
        self
    }
}

/// How an operand of a matmul, gated matmul, convolution, deconvolution or attention is dequantised as it is read:
/// `(x - zero_point) * scale`. Scales and zero points broadcast to the operand by blocks
/// ([`Dims::broadcasts_by_blocks_to`](crate::Dims::broadcasts_by_blocks_to)): one element, one for each channel, or one for each group.
/// They are bound as [`Arg::ScaleOf`](crate::Arg::ScaleOf) and [`Arg::ZeroPointOf`](crate::Arg::ZeroPointOf).
#[derive(Clone, Debug, PartialEq)]
pub struct Dequantize {
    /// The operand.
    pub operand: Quantized,
    /// The scales; one if none.
    pub scale: Option<MemoryDesc>,
    /// The zero points; zero if none.
    pub zero_point: Option<MemoryDesc>,
}

/// An operation on each result element of a primitive, done before the element is stored.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "a primitive has few of them")]
pub enum PostOp {
    /// `x = f(x)`.
    Eltwise(Eltwise),
    /// `x = x op operand`, or `operand op x` when reversed. The operand broadcasts to the result (numpy) and is bound as
    /// [`Arg::PostOp`](crate::Arg::PostOp) with the post-operation's index.
    Binary {
        /// The operation.
        algorithm: BinaryAlgorithm,
        /// The second operand.
        operand: MemoryDesc,
        /// Whether the operand stands on the left.
        reversed: bool,
    },
    /// `x = x` where the condition is not zero, else the other operand; the opposite when `other_where_true`. Both broadcast to the result
    /// (numpy) and are bound as [`Arg::PostOp`](crate::Arg::PostOp) and [`Arg::PostOpOther`](crate::Arg::PostOpOther) with the
    /// post-operation's index.
    Select {
        /// The condition.
        condition: MemoryDesc,
        /// What stands where `x` does not.
        other: MemoryDesc,
        /// Whether the other operand stands where the condition is not zero.
        other_where_true: bool,
    },
    /// `x = x + scale * (old - zero_point)`, with the old content of the result read as `data_type` (its own type if none).
    Sum {
        /// The factor of the old content.
        scale: f32,
        /// Subtracted from the old content.
        zero_point: i32,
        /// How the old content is read; of the same size as the result's type.
        data_type: Option<DataType>,
    },
}

impl PostOp {
    /// A binary post-operation with the operand on the right.
    pub fn binary(algorithm: BinaryAlgorithm, operand: MemoryDesc) -> Self {
        Self::Binary { algorithm, operand, reversed: false }
    }

    /// The old content of the result, added with a factor of `scale`.
    pub fn sum(scale: f32) -> Self {
        Self::Sum { scale, zero_point: 0, data_type: None }
    }
}

/// Who provides a primitive's working memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScratchpadMode {
    /// The backend, out of sight.
    #[default]
    Library,
    /// The caller, as [`Arg::Scratchpad`](crate::Arg::Scratchpad).
    User,
}

/// Which narrower arithmetic f32 work may use inside a primitive; storage never changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FpMath {
    /// None.
    #[default]
    Strict,
    /// bf16.
    BF16,
    /// f16.
    F16,
    /// tf32.
    TF32,
    /// Any of them.
    Any,
}

impl FpMath {
    /// Whether the factors of f32 products may be taken as tf32.
    pub const fn allows_tf32(self) -> bool {
        matches!(self, Self::TF32 | Self::Any)
    }

    /// By how much a factor may be off, relative to it: the step between neighbours of the coarsest type that is allowed, because
    /// devices also round towards zero.
    pub fn unit_step(self) -> f64 {
        match self {
            Self::Strict => 0.0,
            Self::BF16 | Self::Any => 1.0 / 128.0,
            Self::F16 | Self::TF32 => 1.0 / 1024.0,
        }
    }
}

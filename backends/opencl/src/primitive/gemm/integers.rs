//! Which products have sums of integers, and what comes behind those.

use anydnn_backend::{Arg, DataType, MemoryDesc};

use super::Product;
use crate::primitive::quantized;
use crate::primitive::space::Operand;

/// Terms of products of integers of eight bits whose sums fit 32 bits: 255 * 255 * 33025 still fits 31.
const MOST_INTEGERS: usize = 33_000;

impl Product<'_> {
    /// Whether sums can be of integers of 32 bits: factors have eight at most and are dequantised, if at all, by what waits for the sums.
    pub(super) fn sums_integers(&self) -> bool {
        let factors = [Arg::SRC, Arg::Weights].map(|arg| self.desc.find(arg).map(MemoryDesc::data_type));
        let small = |data_type: &Option<DataType>| data_type.is_some_and(|t| t.is_integer() && t.bits() <= 8);
        factors.iter().all(small) && self.terms() <= MOST_INTEGERS && self.scales_wait()
    }

    /// Whether operands are dequantised, if at all, by scales alone that are the same for all terms of a sum.
    pub(super) fn scales_wait(&self) -> bool {
        let mut names = ["SRC0", "WEIGHTS"].into_iter();
        names.all(|name| {
            let scale = self.space.find(&format!("SCALE_{name}"));
            self.space.find(&format!("ZERO_{name}")).is_none()
                && scale.is_none_or(|o| self.is_same_for_terms(o))
        })
    }

    /// Whether an operand has one element for all terms of a sum.
    pub(super) fn is_same_for_terms(&self, operand: &Operand) -> bool {
        quantized::is_same_for_terms(&self.space, operand, self.loops.k.clone())
    }

    /// Whether the result is the sums of integers themselves.
    pub(super) fn is_exact(&self) -> bool {
        let attributes = self.desc.attributes();
        self.desc.dst().data_type() == DataType::S32
            && self.sums_integers()
            && attributes.post_ops.is_empty()
            && attributes.dequantize.is_empty()
            && self.desc.find(Arg::Bias).is_none()
            && self.space.coefficient("DST", self.loops.n.start) == Some(1)
    }
}

//! Graphs that differ in extents alone.

use std::hash::{Hash, Hasher};

use super::Graph;
use super::op::{AttrValue, Op};
use super::op_kind::OpKind;
use super::tensor::{LogicalTensor, TensorLayout};

impl Graph {
    /// Whether another graph has the same operations on the same tensors, whatever their extents are.
    pub(crate) fn has_structure_of(&self, other: &Self) -> bool {
        self.inputs == other.inputs
            && self.outputs == other.outputs
            && self.fpmath == other.fpmath
            && self.fpmath_apply_to_int == other.fpmath_apply_to_int
            && self.ops.len() == other.ops.len()
            && self.tensors.len() == other.tensors.len()
            && self.tensors.values().zip(other.tensors.values()).all(|(own, its)| alike(own, its))
            && self.ops.iter().zip(&other.ops).all(|(own, its)| same(own, its))
    }

    /// Puts what graphs of one structure have in common into a hash.
    pub(crate) fn hash_structure(&self, hasher: &mut impl Hasher) {
        (self.ops.len(), self.tensors.len(), &self.inputs, &self.outputs).hash(hasher);
        for op in &self.ops {
            (op.kind, &op.inputs, &op.outputs).hash(hasher);
        }
    }
}

fn alike(own: &LogicalTensor, its: &LogicalTensor) -> bool {
    let what = |tensor: &LogicalTensor| (tensor.id, tensor.data_type, tensor.property);
    let known = |tensor: &LogicalTensor| tensor.dims.as_ref().map(|dims| dims.iter().all(Option::is_some));
    let rank = |tensor: &LogicalTensor| tensor.dims.as_ref().map(Vec::len);
    // Strides are numbers of another kind.
    let is_plain = !matches!(own.layout, TensorLayout::Strided(_));
    what(own) == what(its)
        && rank(own) == rank(its)
        && known(own) == known(its)
        && own.layout == its.layout
        && is_plain
}

/// Whether operations are the same but for attributes that are extents and places themselves, which no formula asks for.
fn same(own: &Op, its: &Op) -> bool {
    let varies = |name: &str| match own.kind {
        OpKind::StaticReshape => name == "shape",
        OpKind::Remap => matches!(name, "shape" | "starts"),
        _ => false,
    };
    let same_value = |(name, value): (&str, &AttrValue)| {
        its.attrs.get(name).is_some_and(|its| varies(name) || its == value)
    };
    // Mostly they were set in the same order.
    let in_order = || {
        let mut pairs = own.attrs.iter().zip(its.attrs.iter());
        pairs.all(|((name, value), (other, its))| name == other && (varies(name) || its == value))
    };
    own.kind == its.kind
        && own.inputs == its.inputs
        && own.outputs == its.outputs
        && own.attrs.iter().count() == its.attrs.iter().count()
        && (in_order() || own.attrs.iter().all(same_value))
}

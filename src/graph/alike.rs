//! Graphs that differ in extents alone.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

use super::Graph;
use super::op::{AttrValue, Op};
use super::op_kind::OpKind;
use super::tensor::{LogicalTensor, TensorLayout};

impl Graph {
    /// Whether another graph has the same operations on the same tensors, and extents that are equal to each other, to zero, to one and to
    /// numbers of groups just where they are here. What is decided by comparing extents is decided alike for both.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        let same_ends = self.inputs == other.inputs && self.outputs == other.outputs;
        let same_mode = self.fpmath == other.fpmath && self.fpmath_apply_to_int == other.fpmath_apply_to_int;
        if !same_ends
            || !same_mode
            || self.ops.len() != other.ops.len()
            || self.tensors.len() != other.tensors.len()
        {
            return false;
        }
        let groups = self.ops.iter().filter_map(|op| match op.attrs.get("groups") {
            Some(AttrValue::S64(groups)) => usize::try_from(*groups).ok(),
            _ => None,
        });
        let mut extents = Extents::new(groups);
        let pairs = self.tensors.values().zip(other.tensors.values());
        let mut tensors = pairs.map(|(own, its)| alike(own, its, &mut extents));
        tensors.all(|alike| alike) && self.ops.iter().zip(&other.ops).all(|(own, its)| same(own, its))
    }
}

impl Graph {
    /// A number that [alike](Graph::is_alike) graphs have in common, and hardly any others.
    pub(crate) fn likeness(&self) -> u64 {
        let mut hasher = FxHasher::default();
        (self.ops.len(), &self.inputs, &self.outputs).hash(&mut hasher);
        for op in &self.ops {
            (op.kind, &op.inputs, &op.outputs).hash(&mut hasher);
        }
        // Which extents are equal to each other, to zero and to one.
        let mut extents: FxHashMap<usize, usize> = [(0, 0), (1, 1)].into_iter().collect();
        for tensor in self.tensors.values() {
            for extent in tensor.dims.iter().flatten().flatten() {
                let next = extents.len();
                extents.entry(*extent).or_insert(next).hash(&mut hasher);
            }
        }
        hasher.finish()
    }
}

/// Which extent of one graph stands for which of the other.
struct Extents {
    there: FxHashMap<usize, usize>,
    back: FxHashMap<usize, usize>,
}

impl Extents {
    /// Zero, one and these stand for themselves.
    fn new(fixed: impl Iterator<Item = usize>) -> Self {
        let there: FxHashMap<usize, usize> =
            [0, 1].into_iter().chain(fixed).map(|fixed| (fixed, fixed)).collect();
        Self { back: there.clone(), there }
    }

    fn fit(&mut self, own: usize, its: usize) -> bool {
        *self.there.entry(own).or_insert(its) == its && *self.back.entry(its).or_insert(own) == own
    }
}

fn alike(own: &LogicalTensor, its: &LogicalTensor, extents: &mut Extents) -> bool {
    let what = |tensor: &LogicalTensor| (tensor.id, tensor.data_type, tensor.property);
    let is_plain = |tensor: &LogicalTensor| !matches!(tensor.layout, TensorLayout::Strided(_));
    let mut fits = |pair: (&Option<usize>, &Option<usize>)| match pair {
        (Some(own), Some(its)) => extents.fit(*own, *its),
        (None, None) => true,
        _ => false,
    };
    let dims = match (&own.dims, &its.dims) {
        (Some(own), Some(its)) => own.len() == its.len() && own.iter().zip(its).all(&mut fits),
        (None, None) => true,
        _ => false,
    };
    // Strides are numbers of another kind.
    dims && what(own) == what(its) && own.layout == its.layout && is_plain(own)
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

//! The words that patterns are written in.

use crate::graph::OpKind;

/// A chain of operations: an anchor, then what may ride on its result.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) name: &'static str,
    pub(super) anchor: Vec<OpKind>,
    pub(super) tail: Vec<Item>,
}

/// One part of a pattern's tail; all parts may be absent.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// At most one of these.
    Optional(Vec<OpKind>),
    /// Up to so many of these.
    Repeat(Vec<OpKind>, usize),
}

/// A pattern: `pattern("conv_post_ops", [Convolution]).then(optional([BiasAdd])).then(..)`.
pub(super) fn pattern(name: &'static str, anchor: impl Into<Vec<OpKind>>) -> Pattern {
    Pattern { name, anchor: anchor.into(), tail: Vec::new() }
}

/// At most one of these operations.
pub(super) fn optional(kinds: impl Into<Vec<OpKind>>) -> Item {
    Item::Optional(kinds.into())
}

/// Up to `most` of these operations.
pub(super) fn repeat(kinds: impl Into<Vec<OpKind>>, most: usize) -> Item {
    Item::Repeat(kinds.into(), most)
}

impl Pattern {
    /// With one more part behind.
    pub(super) fn then(mut self, item: Item) -> Self {
        self.tail.push(item);
        self
    }

    /// Whether an operation can be the anchor.
    pub(super) fn starts_with(&self, kind: OpKind) -> bool {
        self.anchor.contains(&kind)
    }

    /// A fresh walk through the tail.
    pub(super) fn walk(&self) -> Walk<'_> {
        Walk { tail: &self.tail, used: 0 }
    }
}

/// A walk through a pattern's tail, fed with one operation at a time.
#[derive(Clone, Debug)]
pub(super) struct Walk<'a> {
    tail: &'a [Item],
    used: usize,
}

impl Walk<'_> {
    /// Whether the pattern has room for this operation next; if so, the walk moves past it.
    pub(super) fn accept(&mut self, kind: OpKind) -> bool {
        let mut walk = self.clone();
        while let Some(item) = walk.tail.first() {
            let (kinds, most) = match item {
                Item::Optional(kinds) => (kinds, 1),
                Item::Repeat(kinds, most) => (kinds, *most),
            };
            if kinds.contains(&kind) && walk.used < most {
                walk.used += 1;
                *self = walk;
                return true;
            }
            walk.tail = &walk.tail[1..];
            walk.used = 0;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OpKind::{Add, BiasAdd, MatMul, ReLU, TypeCast};

    #[test]
    fn a_walk_takes_parts_in_order() {
        let formula = pattern("p", [MatMul])
            .then(optional([BiasAdd]))
            .then(repeat([ReLU, Add], 2))
            .then(optional([TypeCast]));
        let accepts = |kinds: &[OpKind]| {
            let mut walk = formula.walk();
            kinds.iter().all(|&kind| walk.accept(kind))
        };
        assert!(
            accepts(&[])
                && accepts(&[BiasAdd, ReLU, Add, TypeCast])
                && accepts(&[Add])
                && accepts(&[TypeCast])
        );
        assert!(
            !accepts(&[BiasAdd, BiasAdd])
                && !accepts(&[ReLU, ReLU, ReLU])
                && !accepts(&[TypeCast, ReLU])
                && !accepts(&[ReLU, BiasAdd])
        );
    }
}

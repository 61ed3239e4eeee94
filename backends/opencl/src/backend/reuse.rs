//! Primitives that an engine has made: another one of an equal description is the same kernels under another name. Networks repeat their
//! layers, and their plans for several shapes have in common what does not depend on these.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anydnn_backend::{Op, PostOp, PrimitiveDesc, Specialize};
use rustc_hash::FxHasher;

/// What was made, by description, as long as a primitive has it.
#[derive(Debug)]
pub(crate) struct Reuse<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    /// By a hash of the operands.
    entries: HashMap<u64, Vec<Entry<T>>>,
    count: usize,
    /// How many entries there are before those are looked for that nobody has any more.
    limit: usize,
}

/// On what else than the description it depends what is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conditions {
    pub(crate) specialize: Specialize,
    /// Whether it may be a native command.
    pub(crate) native: bool,
    /// [`Record::generation`](crate::cache::tuning::Record::generation).
    pub(crate) tuning: usize,
}

#[derive(Debug)]
struct Entry<T> {
    desc: PrimitiveDesc,
    conditions: Conditions,
    made: Weak<T>,
}

/// The entries that are kept before the first search for those that are gone.
const FEW: usize = 64;

impl<T> Default for Reuse<T> {
    fn default() -> Self {
        Self { state: Mutex::new(State { entries: HashMap::new(), count: 0, limit: FEW }) }
    }
}

impl<T> Reuse<T> {
    /// What was made for an equal description, whatever its labels.
    pub(crate) fn find(&self, desc: &PrimitiveDesc, conditions: Conditions) -> Option<Arc<T>> {
        // Several threads look at once: under the lock there is nothing but the look.
        let key = key(desc);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |entry: &&Entry<T>| {
            entry.made.strong_count() > 0 && entry.conditions == conditions && is_same(&entry.desc, desc)
        };
        state.entries.get(&key)?.iter().filter(is_same).find_map(|entry| entry.made.upgrade())
    }

    /// Notes what was made.
    pub(crate) fn keep(&self, desc: &PrimitiveDesc, conditions: Conditions, made: &Arc<T>) {
        if !is_exact(desc) {
            return;
        }
        let key = key(desc);
        let entry = Entry { desc: desc.clone(), conditions, made: Arc::downgrade(made) };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.count >= state.limit {
            state.entries.retain(|_, entries| {
                entries.retain(|entry| entry.made.strong_count() > 0);
                !entries.is_empty()
            });
            state.count = state.entries.values().map(Vec::len).sum();
            state.limit = (2 * state.count).max(FEW);
        }
        state.count += 1;
        state.entries.entry(key).or_default().push(entry);
    }
}

fn key(desc: &PrimitiveDesc) -> u64 {
    let mut hasher = FxHasher::default();
    desc.op().name().hash(&mut hasher);
    desc.attributes().post_ops.len().hash(&mut hasher);
    for operand in desc.args() {
        operand.arg.hash(&mut hasher);
        operand.desc.hash(&mut hasher);
    }
    hasher.finish()
}

fn is_same(a: &PrimitiveDesc, b: &PrimitiveDesc) -> bool {
    a.args() == b.args() && a.op() == b.op() && a.attributes() == b.attributes() && is_exact(b)
}

/// Whether equality tells descriptions apart that give different bits: it takes the zeros of both signs for one number.
fn is_exact(desc: &PrimitiveDesc) -> bool {
    let is_negative_zero = |number: f32| number.to_bits() == (-0.0_f32).to_bits();
    let op = match desc.op() {
        Op::MatMul(_) | Op::Convolution(_) | Op::Reorder(_) => true,
        op => !format!("{op:?}").contains("-0.0"),
    };
    op && desc.attributes().post_ops.iter().all(|post_op| match post_op {
        PostOp::Eltwise(function) => !function.parameters().into_iter().any(is_negative_zero),
        PostOp::Sum { scale, .. } => !is_negative_zero(*scale),
        PostOp::Binary { .. } | PostOp::Select { .. } => true,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use anydnn_backend::op::Eltwise;
    use anydnn_backend::{DataType, MemoryDesc};

    use super::*;

    const NEVER: Conditions = Conditions { specialize: Specialize::Never, native: false, tuning: 0 };

    fn desc(n: usize, function: Eltwise, label: &str) -> PrimitiveDesc {
        let desc = MemoryDesc::new([n], DataType::F32).labelled(label);
        PrimitiveDesc::builder(Op::Eltwise(function))
            .src(desc.clone())
            .dst(desc)
            .label(label)
            .build()
            .unwrap()
    }

    #[test]
    fn equal_descriptions_find_what_was_made_whatever_they_are_called() {
        let (made, thing, never) = (Reuse::default(), Arc::new(1), NEVER);
        made.keep(&desc(4, Eltwise::Relu, "a"), never, &thing);
        assert_eq!(made.find(&desc(4, Eltwise::Relu, "b"), never), Some(Arc::clone(&thing)));
        assert_eq!(made.find(&desc(5, Eltwise::Relu, "a"), never), None);
        assert_eq!(made.find(&desc(4, Eltwise::Abs, "a"), never), None);
        let others = [
            Conditions { specialize: Specialize::Eager, ..never },
            Conditions { native: true, ..never },
            Conditions { tuning: 1, ..never },
        ];
        for other in others {
            assert_eq!(made.find(&desc(4, Eltwise::Relu, "a"), other), None);
        }
    }

    #[test]
    fn zeros_of_both_signs_are_two_numbers() {
        let linear = |beta| desc(4, Eltwise::Linear { alpha: 2.0, beta }, "linear");
        let (made, never) = (Reuse::default(), NEVER);
        let (plus, minus) = (Arc::new(1), Arc::new(2));
        made.keep(&linear(0.0), never, &plus);
        made.keep(&linear(-0.0), never, &minus);
        assert_eq!(made.find(&linear(-0.0), never), None);
        assert_eq!(made.find(&linear(0.0), never), Some(plus));
    }

    #[test]
    fn what_nobody_has_any_more_goes() {
        let (made, never) = (Reuse::default(), NEVER);
        for n in 1..1000 {
            let thing = Arc::new(n);
            made.keep(&desc(n, Eltwise::Relu, "a"), never, &thing);
            assert_eq!(made.find(&desc(n, Eltwise::Relu, "b"), never), Some(thing));
        }
        assert_eq!(made.find(&desc(999, Eltwise::Relu, "a"), never), None);
        assert!(made.state.lock().unwrap().count <= FEW);
    }
}

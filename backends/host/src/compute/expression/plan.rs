//! The steps that compute some nodes of an expression, a chunk of elements at a time.

use std::ops::Range;

use anydnn_backend::Result;
use anydnn_backend::op::{Expression, Node};

use super::super::CHUNK;
use super::super::element::Float;
use super::super::storage::{Kind, read_run, write_run};

/// Steps in order; values lie in slots, which later steps use again.
#[derive(Debug)]
pub(crate) struct Plan {
    steps: Vec<Step>,
    slots: usize,
    /// Where the values of the targets are in the end.
    targets: Vec<usize>,
}

#[derive(Debug)]
struct Step {
    node: usize,
    action: Action,
    slot: usize,
    uses: Vec<usize>,
}

#[derive(Debug)]
enum Action {
    /// The caller has the values.
    Load,
    Compute(Node),
    Cast(Kind),
}

/// Room for the values of a plan, a chunk of each slot.
#[derive(Debug)]
pub(crate) struct Slots<T>(Vec<T>);

/// What a step reads: the values of the nodes that its own one uses.
#[derive(Debug)]
pub(crate) struct Used<'r, T> {
    before: &'r [T],
    behind: &'r [T],
    slots: &'r [usize],
    piece: usize,
    length: usize,
}

impl<'r, T> Used<'r, T> {
    /// The values of the `i`-th of them.
    pub(crate) fn get(&self, i: usize) -> &'r [T] {
        let at = self.slots[i] * self.piece;
        // The step's own slot, between both, is none of those that it reads.
        let values = if at < self.before.len() {
            &self.before[at..]
        } else {
            &self.behind[at - self.before.len() - self.piece..]
        };
        &values[..self.length]
    }
}

impl Plan {
    /// The steps to `targets`. Leaves, sources, indices, random numbers and folds are loaded, all else is computed.
    pub(crate) fn new(
        expression: &Expression,
        targets: &[usize],
        is_leaf: impl Fn(usize) -> bool,
    ) -> Result<Self> {
        let loaded = |node: usize| {
            is_leaf(node)
                || match expression.nodes[node] {
                    Node::Operand(_) | Node::Index(_) | Node::Keep { .. } | Node::Random { .. } => true,
                    // Without folded axes a fold joins one value.
                    Node::Fold(..) => !expression.folded.is_empty(),
                    _ => false,
                }
        };
        let count = expression.nodes.len();
        let (mut needed, mut last_use) = (vec![false; count], vec![0; count]);
        for &target in targets {
            needed[target] = true;
            last_use[target] = usize::MAX;
        }
        for node in (0..count).rev() {
            if needed[node] && !loaded(node) {
                for used in expression.nodes[node].uses() {
                    needed[used] = true;
                    last_use[used] = last_use[used].max(node);
                }
            }
        }
        let (mut free, mut slots) = (Vec::new(), 0);
        let mut slot_of = vec![usize::MAX; count];
        let mut steps = Vec::new();
        for node in (0..count).filter(|&node| needed[node]) {
            let slot = free.pop().unwrap_or_else(|| {
                slots += 1;
                slots - 1
            });
            slot_of[node] = slot;
            let (action, uses) = if loaded(node) {
                (Action::Load, Vec::new())
            } else {
                let action = match expression.nodes[node] {
                    Node::Cast(data_type, _) => Action::Cast(Kind::of(data_type)?),
                    other => Action::Compute(other),
                };
                (action, expression.nodes[node].uses().collect())
            };
            let mut ended: Vec<usize> = uses.iter().copied().filter(|&used| last_use[used] == node).collect();
            steps.push(Step { node, action, slot, uses: uses.iter().map(|&used| slot_of[used]).collect() });
            ended.sort_unstable();
            ended.dedup();
            free.extend(ended.into_iter().map(|used| slot_of[used]));
        }
        Ok(Self { steps, slots, targets: targets.iter().map(|&target| slot_of[target]).collect() })
    }

    pub(crate) fn slots<T: Float>(&self) -> Slots<T> {
        Slots(vec![T::ZERO; self.room(CHUNK)])
    }

    /// The numbers of room for so many of each slot.
    pub(crate) fn room(&self, piece: usize) -> usize {
        self.slots * piece
    }

    /// Computes the `length` elements from `start` on, at most [`CHUNK`]; `load` gives the values of a loaded node.
    pub(crate) fn run<T: Float>(
        &self,
        slots: &mut Slots<T>,
        start: usize,
        length: usize,
        load: impl Fn(usize, usize, &mut [T]),
    ) {
        self.run_in(&mut slots.0, CHUNK, start..start + length, load, compute);
    }

    /// Computes the elements of a range, at most `piece` and at most [`CHUNK`], in [room](Self::room) for so many of each slot; `load` gives
    /// the values of a loaded node, `compute` those of another one.
    pub(crate) fn run_in<T: Float>(
        &self,
        room: &mut [T],
        piece: usize,
        range: Range<usize>,
        load: impl Fn(usize, usize, &mut [T]),
        compute: impl Fn(Node, &Used<'_, T>, &mut [T]),
    ) {
        let length = range.len();
        for Step { node, action, slot, uses } in &self.steps {
            let (before, rest) = room.split_at_mut(slot * piece);
            let (own, behind) = rest.split_at_mut(piece);
            let (own, used) = (&mut own[..length], Used { before, behind, slots: uses, piece, length });
            match action {
                Action::Load => load(*node, range.start, own),
                Action::Cast(kind) => cast(*kind, used.get(0), own),
                Action::Compute(node) => compute(*node, &used, own),
            }
        }
    }

    /// The values of the `i`-th target after a run of `length` elements.
    pub(crate) fn target<'s, T>(&self, slots: &'s Slots<T>, i: usize, length: usize) -> &'s [T] {
        self.target_in(&slots.0, CHUNK, i, length)
    }

    /// The same in [room](Self::room) for `piece` elements of each slot.
    pub(crate) fn target_in<'s, T>(&self, room: &'s [T], piece: usize, i: usize, length: usize) -> &'s [T] {
        &room[self.targets[i] * piece..][..length]
    }
}

fn compute<T: Float>(node: Node, used: &Used<'_, T>, out: &mut [T]) {
    match node {
        Node::Constant(value) => out.fill(T::from_f32(value)),
        Node::Eltwise(function, _) => {
            out.copy_from_slice(used.get(0));
            T::eltwise(function, out);
        }
        Node::Binary(algorithm, ..) => {
            out.copy_from_slice(used.get(0));
            T::binary(algorithm, out, used.get(1), false);
        }
        Node::Select(..) => {
            let of = used.get(0).iter().zip(used.get(1)).zip(used.get(2));
            for (out, ((condition, a), b)) in out.iter_mut().zip(of) {
                *out = if condition.is_nonzero() { *a } else { *b };
            }
        }
        Node::Gradient { function, of_result, .. } => {
            for ((out, at), diff) in out.iter_mut().zip(used.get(0)).zip(used.get(1)) {
                *out = T::from_f64(function.gradient(of_result, at.to_f64(), diff.to_f64()));
            }
        }
        Node::Fold(..) => out.copy_from_slice(used.get(0)),
        // Loaded nodes and casts are none of these; `supported` refuses what this backend does not know.
        _ => out.fill(T::ZERO),
    }
}

/// The values after a store as a type and a load.
fn cast<T: Float>(kind: Kind, values: &[T], out: &mut [T]) {
    let mut bytes = [0_u64; CHUNK];
    let bytes =
        &mut bytemuck::cast_slice_mut::<u64, u8>(&mut bytes)[..kind.data_type().bytes_for(values.len())];
    write_run(kind, values, bytes);
    read_run(kind, bytes, out);
}

//! The steps that compute some nodes of an expression, a chunk of elements at a time.

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

/// Room for the values of a plan.
#[derive(Debug)]
pub(crate) struct Slots<T>(Vec<Vec<T>>);

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
        Slots((0..self.slots).map(|_| vec![T::ZERO; CHUNK]).collect())
    }

    /// Computes the `length` elements from `start` on, at most [`CHUNK`]; `load` gives the values of a loaded node.
    pub(crate) fn run<T: Float>(
        &self,
        slots: &mut Slots<T>,
        start: usize,
        length: usize,
        load: impl Fn(usize, usize, &mut [T]),
    ) {
        for step in &self.steps {
            // The step's own slot is none of those that it reads.
            let mut out = std::mem::take(&mut slots.0[step.slot]);
            let values = &mut out[..length];
            let used = |i: usize| &slots.0[step.uses[i]][..length];
            match step.action {
                Action::Load => load(step.node, start, values),
                Action::Cast(kind) => cast(kind, used(0), values),
                Action::Compute(node) => compute(node, &used, values),
            }
            slots.0[step.slot] = out;
        }
    }

    /// The values of the `i`-th target after a run of `length` elements.
    pub(crate) fn target<'s, T>(&self, slots: &'s Slots<T>, i: usize, length: usize) -> &'s [T] {
        &slots.0[self.targets[i]][..length]
    }
}

fn compute<'s, T: Float>(node: Node, used: &impl Fn(usize) -> &'s [T], out: &mut [T]) {
    match node {
        Node::Constant(value) => out.fill(T::from_f32(value)),
        Node::Eltwise(function, _) => {
            out.copy_from_slice(used(0));
            T::eltwise(function, out);
        }
        Node::Binary(algorithm, ..) => {
            out.copy_from_slice(used(0));
            T::binary(algorithm, out, used(1), false);
        }
        Node::Select(..) => {
            for (((out, condition), a), b) in out.iter_mut().zip(used(0)).zip(used(1)).zip(used(2)) {
                *out = if condition.is_nonzero() { *a } else { *b };
            }
        }
        Node::Gradient { function, of_result, .. } => {
            for ((out, at), diff) in out.iter_mut().zip(used(0)).zip(used(1)) {
                *out = T::from_f64(function.gradient(of_result, at.to_f64(), diff.to_f64()));
            }
        }
        Node::Fold(..) => out.copy_from_slice(used(0)),
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

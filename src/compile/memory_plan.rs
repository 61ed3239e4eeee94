//! Where temporaries lie in the arena: memory is reused when its last reader is done for sure, and elementwise steps overwrite their
//! source where that is legal.
//!
//! Reuse makes a step wait for others. So memory goes only to steps that wait for them anyway: branches that are independent stay so, and
//! overlap on out-of-order streams.

use std::ops::Range;

use anydnn_backend::{Access, Arg};

use super::dependencies::{Ancestors, touches};
use super::program::{ProtoStep, Storage, Temp};

/// The start of every temporary is a multiple of this many bytes.
pub(crate) const ALIGNMENT: usize = 128;

/// The place of each temporary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemoryPlan {
    /// The byte offset of each temporary; none for constants and for those nothing uses.
    pub(super) offsets: Vec<Option<usize>>,
    /// The size of the arena in bytes.
    pub(super) bytes: usize,
    /// The parts of the arena that are allocated, in order: one, or with `apart` one for each temporary that has bytes of its own.
    pub(super) parts: Vec<Range<usize>>,
    /// What the temporaries would take without reuse.
    pub(super) bytes_without_reuse: usize,
    /// The temporaries that took over another one's bytes: `(new, old)`.
    pub(super) in_place: Vec<(usize, usize)>,
}

impl MemoryPlan {
    /// Where a temporary of so many bytes at an offset lies: the number of the part, and the offset in it.
    pub(super) fn part_of(&self, offset: usize, bytes: usize) -> (usize, usize) {
        let holds = |part: &Range<usize>| part.start <= offset && offset + bytes <= part.end;
        let part = self.parts.iter().position(|part| holds(part) && (bytes > 0 || part.is_empty()));
        part.map_or((0, offset), |part| (part, offset - self.parts[part].start))
    }
}

/// Plans the arena for the steps of an execution (those that do not depend on constants alone). With `apart` no two temporaries share
/// memory, unless one is the other overwritten.
pub(super) fn plan(steps: &[&ProtoStep], temps: &[Temp], apart: bool) -> MemoryPlan {
    let mut lives = lifetimes(steps, temps);
    let mut users = users(steps, temps);
    let own: Vec<_> = steps.iter().map(|step| touches(step, &vec![None; temps.len()], |_| 0)).collect();
    let before = Ancestors::new(&own);
    let mut owner: Vec<usize> = (0..temps.len()).collect();
    let mut in_place = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let waits_for_others = |root: usize| users[root].iter().all(|&u| u == at || before.is_before(u, at));
        if let Some((new, old)) =
            overwritable(step, at, temps, &lives, &owner).filter(|&(_, old)| waits_for_others(owner[old]))
        {
            let root = owner[old];
            let taken_over = std::mem::take(&mut users[new]);
            users[root].extend(taken_over);
            owner[new] = root;
            in_place.push((new, old));
            if let (Some(new_life), Some(old_life)) = (lives[new].take(), lives[root].as_mut()) {
                old_life.1 = old_life.1.max(new_life.1);
            }
        }
    }
    // One of them is through before the other begins, whatever the order of steps that do not wait for each other.
    let may_share = |a: usize, b: usize| {
        let ends_before = |a: usize, b: usize| {
            lives[b].is_some_and(|(first, _)| users[a].iter().all(|&user| before.is_before(user, first)))
        };
        !apart && (ends_before(a, b) || ends_before(b, a))
    };
    let mut offsets = place(temps, &lives, may_share);
    let own = |t: usize| offsets[t].filter(|_| owner[t] == t).map(|start| start..start + temps[t].bytes);
    let mut parts: Vec<Range<usize>> = (0..temps.len()).filter_map(own).collect();
    parts.sort_unstable_by_key(|part| (part.start, part.end));
    for temp in 0..temps.len() {
        // An owner is always older, so its own place is final.
        offsets[temp] = offsets[owner[temp]];
    }
    let end = |(temp, offset): (usize, &Option<usize>)| offset.map_or(0, |o| o + temps[temp].bytes);
    let bytes = offsets.iter().enumerate().map(end).max().unwrap_or(0);
    if !apart && !parts.is_empty() {
        parts = vec![Range { start: 0, end: bytes }];
    }
    let bytes_without_reuse = (0..temps.len())
        .filter(|&t| offsets[t].is_some())
        .map(|t| temps[t].bytes.next_multiple_of(ALIGNMENT))
        .sum();
    MemoryPlan { offsets, bytes, parts, bytes_without_reuse, in_place }
}

/// The steps that touch each temporary.
fn users(steps: &[&ProtoStep], temps: &[Temp]) -> Vec<Vec<usize>> {
    let mut users = vec![Vec::new(); temps.len()];
    for (at, step) in steps.iter().enumerate() {
        for (_, value) in &step.args {
            if let Storage::Temp(t) = value.storage {
                users[t].push(at);
            }
        }
    }
    users
}

/// The first and last step that touch each temporary.
fn lifetimes(steps: &[&ProtoStep], temps: &[Temp]) -> Vec<Option<(usize, usize)>> {
    let mut lives: Vec<Option<(usize, usize)>> = vec![None; temps.len()];
    for (at, step) in steps.iter().enumerate() {
        for (_, value) in &step.args {
            if let Storage::Temp(t) = value.storage
                && !temps[t].constant
            {
                let life = lives[t].get_or_insert((at, at));
                life.1 = at;
            }
        }
    }
    lives
}

/// A temporary that the step makes and one that it may overwrite for it: of the same descriptor, read here for the last time, and bound
/// to no other argument.
fn overwritable(
    step: &ProtoStep,
    at: usize,
    temps: &[Temp],
    lives: &[Option<(usize, usize)>],
    owner: &[usize],
) -> Option<(usize, usize)> {
    let dst = step.args.iter().find(|(arg, _)| *arg == Arg::DST)?;
    let Storage::Temp(new) = dst.1.storage else { return None };
    if temps[new].constant
        || lives[new].is_none_or(|(first, _)| first != at)
        || step.desc.access(Arg::DST) != Some(Access::Write)
    {
        return None;
    }
    step.args.iter().find_map(|(arg, value)| {
        let Storage::Temp(old) = value.storage else { return None };
        let root = owner[old];
        let dies_here = old != new && !temps[old].constant && lives[root].is_some_and(|(_, last)| last == at);
        let bound_once = step
            .args
            .iter()
            .filter(|(_, v)| matches!(v.storage, Storage::Temp(t) if owner[t] == root))
            .count()
            == 1;
        (dies_here && bound_once && step.desc.may_overwrite(*arg) && temps[old].bytes == temps[new].bytes)
            .then_some((new, old))
    })
}

/// Greedy by size: the largest temporaries choose first, each the lowest gap among those alive at the same time (Pisarchyk and Lee,
/// *Efficient Memory Management for Deep Neural Net Inference*, 2020, section 5.2).
fn place(
    temps: &[Temp],
    lives: &[Option<(usize, usize)>],
    may_share: impl Fn(usize, usize) -> bool,
) -> Vec<Option<usize>> {
    let mut order: Vec<usize> = (0..temps.len()).filter(|&t| lives[t].is_some()).collect();
    order.sort_by_key(|&t| (std::cmp::Reverse(temps[t].bytes), lives[t]));
    let mut offsets: Vec<Option<usize>> = vec![None; temps.len()];
    for &t in &order {
        let mut busy: Vec<(usize, usize)> = order
            .iter()
            .filter(|&&o| o != t && !may_share(o, t))
            .filter_map(|&o| offsets[o].map(|start| (start, start + temps[o].bytes)))
            .collect();
        busy.sort_unstable();
        let mut start = 0_usize;
        for (from, to) in busy {
            if start + temps[t].bytes <= from {
                break;
            }
            start = start.max(to.next_multiple_of(ALIGNMENT));
        }
        offsets[t] = Some(start);
    }
    offsets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::program::Value;
    use anydnn_backend::{DataType, Eltwise, MemoryDesc, Op, PrimitiveDesc};

    fn value(storage: Storage, elements: usize) -> Value {
        Value { storage, desc: MemoryDesc::new([elements], DataType::F32) }
    }

    fn relu(from: Storage, to: Storage, elements: usize) -> ProtoStep {
        let (src, dst) = (value(from, elements), value(to, elements));
        let desc = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu))
            .src(src.desc.clone())
            .dst(dst.desc.clone())
            .build()
            .unwrap();
        ProtoStep { desc, args: vec![(Arg::SRC, src), (Arg::DST, dst)], ops: vec![] }
    }

    fn temps(sizes: &[usize]) -> Vec<Temp> {
        sizes.iter().map(|&n| Temp { bytes: n * 4, constant: false }).collect()
    }

    #[test]
    fn a_chain_of_elementwise_steps_stays_in_place() {
        let steps = [
            relu(Storage::Input(0), Storage::Temp(0), 100),
            relu(Storage::Temp(0), Storage::Temp(1), 100),
            relu(Storage::Temp(1), Storage::Temp(2), 100),
            relu(Storage::Temp(2), Storage::Output(0), 100),
        ];
        let plan = plan(&steps.iter().collect::<Vec<_>>(), &temps(&[100, 100, 100]), false);
        assert_eq!((plan.bytes, plan.in_place.len()), (400, 2));
        assert_eq!(plan.offsets, [Some(0); 3]);
    }

    #[test]
    fn a_source_that_is_read_again_is_not_overwritten() {
        let steps = [
            relu(Storage::Input(0), Storage::Temp(0), 100),
            relu(Storage::Temp(0), Storage::Temp(1), 100),
            relu(Storage::Temp(0), Storage::Output(0), 100),
            relu(Storage::Temp(1), Storage::Output(1), 100),
        ];
        let plan = plan(&steps.iter().collect::<Vec<_>>(), &temps(&[100, 100]), false);
        assert!(plan.in_place.is_empty());
        assert_ne!(plan.offsets[0], plan.offsets[1]);
    }

    #[test]
    fn memory_of_the_dead_is_reused() {
        let chain = |second: Storage| {
            let steps = [
                relu(Storage::Input(0), Storage::Temp(0), 64),
                relu(Storage::Temp(0), Storage::Output(0), 64),
                relu(second, Storage::Temp(1), 32),
                relu(Storage::Temp(1), Storage::Output(1), 32),
            ];
            let plan = plan(&steps.iter().collect::<Vec<_>>(), &temps(&[64, 32]), false);
            (plan.bytes, plan.bytes_without_reuse)
        };
        assert_eq!(chain(Storage::Output(0)), (256, 384));
        // Independent of the first two: these may run meanwhile.
        assert_eq!(chain(Storage::Input(0)), (384, 384));
    }

    #[test]
    fn overwriting_does_not_make_a_step_wait() {
        let steps = [
            relu(Storage::Input(0), Storage::Temp(0), 64),
            relu(Storage::Temp(0), Storage::Output(0), 64),
            relu(Storage::Temp(0), Storage::Temp(1), 64),
            relu(Storage::Temp(1), Storage::Output(1), 64),
        ];
        let plan = plan(&steps.iter().collect::<Vec<_>>(), &temps(&[64, 64]), false);
        assert!(plan.in_place.is_empty() && plan.offsets[0] != plan.offsets[1]);
    }

    proptest::proptest! {
        #[test]
        fn the_living_never_share_bytes(edges in proptest::collection::vec((0_usize..40, 1_usize..300), 1..40)) {
            // Step i reads an older temporary and makes temporary i.
            let sizes: Vec<usize> = edges.iter().map(|&(_, size)| size).collect();
            let steps: Vec<ProtoStep> = edges.iter().enumerate().map(|(i, &(from, _))| {
                let storage = if i == 0 { Storage::Input(0) } else { Storage::Temp(from % i) };
                let elements = if i == 0 { sizes[0] } else { sizes[from % i] };
                let mut step = relu(storage, Storage::Temp(i), elements);
                step.args[1].1 = value(Storage::Temp(i), sizes[i]);
                if sizes[i] != elements {
                    // Not elementwise any more: the descriptors differ, so it cannot run in place.
                    let src = value(storage, elements);
                    let dst = value(Storage::Temp(i), sizes[i]);
                    step.desc = PrimitiveDesc::builder(Op::Concat(anydnn_backend::op::Concat::new(0)))
                        .src(dst.desc.clone()).dst(dst.desc.clone()).build().unwrap();
                    step.args = vec![(Arg::SRC, src), (Arg::DST, dst)];
                }
                step
            }).collect();
            let temps = temps(&sizes);
            let refs: Vec<_> = steps.iter().collect();
            let plan = plan(&refs, &temps, false);
            let lives = lifetimes(&refs, &temps);
            for a in 0..temps.len() {
                for b in 0..a {
                    let (Some(la), Some(lb)) = (lives[a], lives[b]) else { continue };
                    // In place: the new one's life begins where the old one's ends.
                    let strictly = la.0 < lb.1 && lb.0 < la.1;
                    let same_time = strictly || (la.0 <= lb.1 && lb.0 <= la.1 && !plan.in_place.contains(&(a, b)));
                    let (oa, ob) = (plan.offsets[a].unwrap(), plan.offsets[b].unwrap());
                    let apart = oa + temps[a].bytes <= ob || ob + temps[b].bytes <= oa;
                    proptest::prop_assert!(!same_time || apart || shares_owner(&plan, a, b, la, lb), "{a} {b} {plan:?}");
                    proptest::prop_assert_eq!(oa % ALIGNMENT, 0);
                }
            }
        }
    }

    /// Whether `a` took over the bytes of `b`, directly or through others, without both being alive at once.
    fn shares_owner(plan: &MemoryPlan, a: usize, b: usize, la: (usize, usize), lb: (usize, usize)) -> bool {
        let mut at = a;
        while let Some(&(_, old)) = plan.in_place.iter().find(|(new, _)| *new == at) {
            at = old;
            if at == b {
                return lb.1 <= la.0;
            }
        }
        false
    }
}

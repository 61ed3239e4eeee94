//! Which steps must wait for which, from the declared access to the bytes they touch.

use anydnn_backend::{Access, Arg};

use super::program::{ProtoStep, Storage};

/// A range of bytes that a step touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Touch {
    pub(super) place: Place,
    pub(super) access: Access,
}

/// Bytes of one of the memories that an execution works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A whole memory given by the user, or a constant.
    Whole(Storage),
    /// Part of the arena.
    Arena { start: usize, end: usize },
}

impl Place {
    fn overlaps(self, other: Self) -> bool {
        match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => a == b,
            (Self::Arena { start: a, end: b }, Self::Arena { start: c, end: d }) => a < d && c < b,
            _ => false,
        }
    }
}

/// The bytes that a step touches; `arena` gives the place of its scratchpad.
pub(super) fn touches(
    step: &ProtoStep,
    offsets: &[Option<usize>],
    bytes: impl Fn(usize) -> usize,
) -> Vec<Touch> {
    let mut all: Vec<Touch> = Vec::new();
    for (arg, value) in &step.args {
        let access = if *arg == Arg::Scratchpad {
            Access::Write
        } else {
            step.desc.access(*arg).unwrap_or(Access::ReadWrite)
        };
        let place = match value.storage {
            Storage::Temp(t) => match offsets[t] {
                Some(start) => Place::Arena { start, end: start + bytes(t) },
                None => Place::Whole(value.storage),
            },
            other => Place::Whole(other),
        };
        all.push(Touch { place, access });
    }
    all
}

/// For each step the earlier steps it must wait for, without those that another one of them waits for already.
pub(super) fn dependencies(touches: &[Vec<Touch>]) -> Vec<Vec<usize>> {
    let words = touches.len().div_ceil(64);
    // ancestors[i] holds a bit for every step that is done before step i starts.
    let mut ancestors: Vec<Vec<u64>> = Vec::with_capacity(touches.len());
    let mut result = Vec::with_capacity(touches.len());
    for (i, own) in touches.iter().enumerate() {
        let mut before = vec![0_u64; words];
        let mut direct = Vec::new();
        // From the latest back: whatever an accepted step waits for need not be named again.
        for j in (0..i).rev() {
            if before[j / 64] >> (j % 64) & 1 == 1 {
                continue;
            }
            let conflict = own.iter().any(|a| {
                touches[j].iter().any(|b| a.access.conflicts(b.access) && a.place.overlaps(b.place))
            });
            if conflict {
                direct.push(j);
                before[j / 64] |= 1 << (j % 64);
                before.iter_mut().zip(&ancestors[j]).for_each(|(bits, more)| *bits |= more);
            }
        }
        direct.reverse();
        ancestors.push(before);
        result.push(direct);
    }
    result
}

/// Which steps are done before which, whatever the order of those that do not wait for each other.
#[derive(Debug)]
pub(super) struct Ancestors(Vec<Vec<u64>>);

impl Ancestors {
    /// The steps that [`dependencies`] puts before one another.
    pub(super) fn new(touches: &[Vec<Touch>]) -> Self {
        let words = touches.len().div_ceil(64);
        let mut all: Vec<Vec<u64>> = Vec::with_capacity(touches.len());
        for direct in dependencies(touches) {
            let mut before = vec![0_u64; words];
            for j in direct {
                before[j / 64] |= 1 << (j % 64);
                before.iter_mut().zip(&all[j]).for_each(|(bits, more)| *bits |= more);
            }
            all.push(before);
        }
        Self(all)
    }

    /// Whether `earlier` is done before `later` starts.
    pub(super) fn is_before(&self, earlier: usize, later: usize) -> bool {
        self.0[later][earlier / 64] >> (earlier % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(start: usize, end: usize, access: Access) -> Touch {
        Touch { place: Place::Arena { start, end }, access }
    }

    #[test]
    fn reads_wait_for_writes_and_reuse_waits_for_reads() {
        use Access::{Read, Write};
        let steps = vec![
            vec![touch(0, 10, Write)],
            vec![touch(0, 10, Read), touch(10, 20, Write)],
            vec![touch(0, 10, Read), touch(20, 30, Write)],
            vec![touch(10, 20, Read), touch(0, 5, Write)],
        ];
        // The last step overwrites what steps 1 and 2 read; step 0 is behind both.
        assert_eq!(dependencies(&steps), [vec![], vec![0], vec![0], vec![1, 2]]);
    }

    #[test]
    fn chains_are_named_once() {
        use Access::{Read, Write};
        let steps = vec![
            vec![touch(0, 1, Write)],
            vec![touch(0, 1, Read), touch(1, 2, Write)],
            vec![touch(0, 1, Read), touch(1, 2, Read), touch(2, 3, Write)],
        ];
        assert_eq!(dependencies(&steps), [vec![], vec![0], vec![1]]);
    }

    #[test]
    fn independent_steps_do_not_wait() {
        let steps = vec![vec![touch(0, 4, Access::Write)], vec![touch(4, 8, Access::Write)]];
        assert_eq!(dependencies(&steps), [Vec::<usize>::new(), vec![]]);
    }
}

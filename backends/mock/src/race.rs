//! Races: two commands at the same bytes, one of them writing, with nothing that orders them.

use std::fmt;
use std::ops::Range;

use anydnn_backend::{Access, Error, Region};

use crate::past::Past;

/// Two conflicting uses of the same bytes without a path of dependencies, stream order or host waits between them.
///
/// It is found when the later one is submitted, from what was declared alone; whether the seed's order would have hit it does not
/// matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// The use that was submitted first.
    pub earlier: Touch,
    /// The use that was submitted second and that misses a dependency.
    pub later: Touch,
    /// The memory's name in the log.
    pub memory: String,
    /// The bytes that both touch, counted from the start of the allocation.
    pub bytes: Range<usize>,
}

/// One use of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The command as the log names it (`#3 relu`); `map` or `free` for those.
    pub command: String,
    /// The argument of the command: `src0`, `dst0`, `from`, `to`.
    pub arg: String,
    /// How the bytes are touched.
    pub access: Access,
    /// The bytes, counted from the start of the allocation.
    pub bytes: Range<usize>,
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { earlier, later, memory, bytes } = self;
        write!(
            f,
            "{} ({} {}) and {} ({} {}) are unordered at {memory}[{}..{}]",
            earlier.command,
            earlier.arg,
            verb(earlier.access),
            later.command,
            later.arg,
            verb(later.access),
            bytes.start,
            bytes.end
        )
    }
}

impl Race {
    /// The error that the later submission reports.
    pub(crate) fn error(&self) -> Error {
        let Self { earlier, later, memory, .. } = self;
        let at = |touch: &Touch| {
            format!(
                "{} {memory}[{}..{}] ({})",
                touch.arg,
                touch.bytes.start,
                touch.bytes.end,
                verb(touch.access)
            )
        };
        let (given, expected): (String, &str) = match &*earlier.command {
            "free" => ("freed memory".into(), "memory that was not given back to the allocator"),
            "map" => (
                format!("mapped to the host: {}", at(earlier)),
                "an unmapped memory: end the mapping before enqueuing",
            ),
            command => (
                format!("unordered with {} of {command}", at(earlier)),
                "a path between them: a dependency, the order of a stream or a wait of the host",
            ),
        };
        Error::invalid(&*later.command, at(later), given, expected)
    }
}

/// What an allocation remembers of a use, as long as a later one may race with it.
#[derive(Clone, Debug)]
pub(crate) struct Footprint {
    pub(crate) moment: Moment,
    pub(crate) touch: Touch,
}

/// When a use happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// With the command of this number.
    Command(u64),
    /// From the mapping of this number until it ends, on the host; commands are never ordered with it.
    Map(u64),
    /// From the giving back on, for ever.
    Free,
}

impl Moment {
    pub(crate) fn is_in(self, past: &Past) -> bool {
        matches!(self, Self::Command(number) if past.contains(number))
    }
}

/// The uses of one allocation that later ones may race with.
#[derive(Debug, Default)]
pub(crate) struct Footprints(Vec<Footprint>);

impl Footprints {
    /// The first earlier use that conflicts with `later` and is not in its past.
    pub(crate) fn race(&self, later: &Touch, past: &Past, memory: &str) -> Option<Race> {
        self.0
            .iter()
            .filter(|earlier| earlier.touch.access.conflicts(later.access) && !earlier.moment.is_in(past))
            .find_map(|earlier| {
                let bytes = overlap(&earlier.touch.bytes, &later.bytes)?;
                Some(Race {
                    earlier: earlier.touch.clone(),
                    later: later.clone(),
                    memory: memory.into(),
                    bytes,
                })
            })
    }

    /// Remembers a use and forgets those that no longer matter.
    pub(crate) fn add(&mut self, new: Footprint, past: &Past, host: &Past) {
        let later = &new.touch;
        self.0.retain(|earlier| {
            // Everything to come is ordered after what the host has waited for.
            if earlier.moment.is_in(host) {
                return false;
            }
            // Whatever conflicts with the earlier use conflicts with the new one too, and being after the new one is after both.
            let covered = later.bytes.start <= earlier.touch.bytes.start
                && earlier.touch.bytes.end <= later.bytes.end
                && (later.access.writes() || !earlier.touch.access.writes());
            !(covered && earlier.moment.is_in(past))
        });
        self.0.push(new);
    }

    pub(crate) fn end_map(&mut self, map: u64) {
        self.0.retain(|footprint| footprint.moment != Moment::Map(map));
    }
}

impl Touch {
    pub(crate) fn new(command: &str, arg: impl Into<String>, access: Access, region: Region) -> Self {
        Self {
            command: command.into(),
            arg: arg.into(),
            access,
            bytes: region.offset..region.offset + region.bytes,
        }
    }
}

pub(crate) fn verb(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
        Access::ReadWrite => "read and write",
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> Option<Range<usize>> {
    let both = a.start.max(b.start)..a.end.min(b.end);
    (!both.is_empty()).then_some(both)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footprint(number: u64, access: Access, bytes: Range<usize>) -> Footprint {
        let touch = Touch { command: format!("#{number}"), arg: "to".into(), access, bytes };
        Footprint { moment: Moment::Command(number), touch }
    }

    #[test]
    fn chains_leave_one_footprint() {
        let (mut prints, mut past, host) = (Footprints::default(), Past::default(), Past::default());
        for number in 1..=1000 {
            past.insert(number);
            prints.add(footprint(number, Access::Write, 0..8), &past, &host);
        }
        assert_eq!(prints.0.len(), 1);
    }

    #[test]
    fn a_read_does_not_hide_the_write_before_it() {
        let (mut prints, mut past, host) = (Footprints::default(), Past::default(), Past::default());
        for (number, access) in [(1, Access::Write), (2, Access::Read)] {
            past.insert(number);
            prints.add(footprint(number, access, 0..8), &past, &host);
        }
        let reader = footprint(3, Access::Read, 4..6).touch;
        let race = prints.race(&reader, &Past::default(), "m0").unwrap();
        assert_eq!((&*race.earlier.command, race.bytes), ("#1", 4..6));
    }

    #[test]
    fn neighbours_do_not_race() {
        let mut prints = Footprints::default();
        prints.add(footprint(1, Access::Write, 0..8), &Past::default(), &Past::default());
        assert!(prints.race(&footprint(2, Access::Write, 8..16).touch, &Past::default(), "m0").is_none());
    }
}

//! One allocation of the program's and what stands around it.

use std::fmt;
use std::sync::Arc;

use crate::canary::Zones;
use crate::handle::Context;
use crate::launch::Suspect;
use crate::pages::Block;
use crate::zone::Damage;

/// What the program asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Buffer,
    Svm,
    UsmHost,
    UsmDevice,
    UsmShared,
}

/// An allocation of the program's.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) id: Id,
    pub(crate) context: Context,
    pub(crate) fence: Fence,
    /// Whether the program may still use it.
    pub(crate) live: bool,
    /// The kernels that have had it as an argument since it was checked.
    pub(crate) suspects: Vec<Suspect>,
    /// How many of their launches are not known to be finished.
    pub(crate) pending: usize,
    /// How many threads are comparing its canaries.
    pub(crate) checks: usize,
}

/// What a report calls an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id {
    pub(crate) kind: Kind,
    /// Its place in the order of creation, from one.
    pub(crate) number: u64,
    /// Its bytes.
    pub(crate) size: usize,
}

/// What keeps watch over an allocation.
#[derive(Clone, Debug)]
pub(crate) enum Fence {
    /// Inaccessible pages around memory of the layer's own.
    Pages(Block),
    /// Inaccessible pages within memory that the driver has allocated.
    DriverPages(Block, Freed),
    /// Bytes around it that are compared.
    Canary(Arc<Zones>),
}

/// How memory is given back to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    /// The address that the driver gave.
    pub(crate) base: usize,
    /// The function that takes it back.
    pub(crate) by: FreedBy,
}

/// The function that takes memory back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreedBy {
    /// `clSVMFree`
    Svm,
    /// `clMemFreeINTEL` of the platform with a place.
    Usm(usize),
}

impl Kind {
    pub(crate) const ALL: [Self; 5] =
        [Self::Buffer, Self::Svm, Self::UsmHost, Self::UsmDevice, Self::UsmShared];

    /// The kind in words.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Buffer => "buffer",
            Self::Svm => "SVM allocation",
            Self::UsmHost => "USM host allocation",
            Self::UsmDevice => "USM device allocation",
            Self::UsmShared => "USM shared allocation",
        }
    }
}

/// A number of bytes in words.
#[derive(Clone, Copy, Debug)]
struct Bytes(usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} byte{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{} of {}", self.kind.name(), self.number, Bytes(self.size))
    }
}

impl Id {
    /// Says where an offset from the start is.
    pub(crate) fn write_place(&self, out: &mut dyn fmt::Write, offset: isize, live: bool) -> fmt::Result {
        let released = if live { "" } else { "released " };
        if offset < 0 {
            write!(out, "{} before the start of {released}{self}", Bytes(offset.unsigned_abs()))?;
        } else if offset as usize >= self.size {
            let far = Bytes(offset as usize - self.size + 1);
            write!(out, "{far} behind the end of {released}{self}")?;
        } else {
            write!(out, "in {released}{self}")?;
        }
        write!(out, " (offset {offset})")
    }

    /// Says what has been overwritten.
    pub(crate) fn write_damage(&self, out: &mut dyn fmt::Write, damage: Damage) -> fmt::Result {
        let Damage { first, last } = damage;
        if first < 0 {
            let far = Bytes(first.unsigned_abs());
            write!(out, "up to {far} before the start of {self} (offsets {first} to {last})")
        } else {
            let far = Bytes(last as usize - self.size + 1);
            write!(out, "up to {far} behind the end of {self} (offsets {first} to {last})")
        }
    }
}

impl Allocation {
    /// The addresses that belong to the allocation and its fence: the first, and the one behind the last. `None` without addresses.
    pub(crate) fn span(&self) -> Option<(usize, usize)> {
        match &self.fence {
            Fence::Pages(block) | Fence::DriverPages(block, _) => Some((block.low, block.high)),
            Fence::Canary(zones) => zones.span(),
        }
    }

    /// The address of the first byte. `None` without addresses.
    pub(crate) fn start(&self) -> Option<usize> {
        match &self.fence {
            Fence::Pages(block) | Fence::DriverPages(block, _) => Some(block.start),
            Fence::Canary(zones) => zones.start(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_said_relative_to_the_allocation() {
        let id = Id { kind: Kind::Buffer, number: 17, size: 1600 };
        let place = |offset, live| {
            let mut text = String::new();
            id.write_place(&mut text, offset, live).unwrap();
            text
        };
        assert_eq!(place(1600, true), "1 byte behind the end of buffer #17 of 1600 bytes (offset 1600)");
        assert_eq!(place(-4, true), "4 bytes before the start of buffer #17 of 1600 bytes (offset -4)");
        assert_eq!(place(16, false), "in released buffer #17 of 1600 bytes (offset 16)");
        let mut text = String::new();
        id.write_damage(&mut text, Damage { first: 1600, last: 1603 }).unwrap();
        assert_eq!(text, "up to 4 bytes behind the end of buffer #17 of 1600 bytes (offsets 1600 to 1603)");
        text.clear();
        id.write_damage(&mut text, Damage { first: -8, last: -5 }).unwrap();
        assert_eq!(text, "up to 8 bytes before the start of buffer #17 of 1600 bytes (offsets -8 to -5)");
    }
}

//! The bytes beside an allocation that nobody may change, and the bytes it begins with.

use std::ops::Range;

/// The byte that a new allocation is filled with: not a number in every type of floating-point numbers.
pub(crate) const FRESH: u8 = 0xFF;
/// Larger allocations are filled in part only.
const FILLED_WHOLE: usize = 64 << 20;

/// What has been overwritten beside an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// The first byte, relative to the allocation's start.
    pub(crate) first: isize,
    /// The last byte, likewise.
    pub(crate) last: isize,
}

/// The parts of an allocation that are filled: all of it, or the first and last 32 MiB of a large one.
pub(crate) fn filled(size: usize) -> [Range<usize>; 2] {
    if size <= FILLED_WHOLE {
        [0..size, size..size]
    } else {
        [0..FILLED_WHOLE / 2, size - FILLED_WHOLE / 2..size]
    }
}

/// Whether [`filled`] leaves something out.
pub(crate) fn is_filled_in_part(size: usize) -> bool {
    size > FILLED_WHOLE
}

/// Fills a zone whose first byte has an address, or an offset, of this parity. The pattern is no number in every type of floating-point
/// numbers, and not what integers of -1 leave.
pub(crate) fn fill(zone: &mut [u8], first: usize) {
    for (i, byte) in zone.iter_mut().enumerate() {
        *byte = pattern(first.wrapping_add(i));
    }
}

/// The bytes of a zone from the first to the last that has changed.
pub(crate) fn changed(zone: &[u8], first: usize) -> Option<Range<usize>> {
    let differs = |(i, byte): (usize, &u8)| *byte != pattern(first.wrapping_add(i));
    let start = zone.iter().enumerate().position(differs)?;
    let last = (start..zone.len()).rev().find(|&i| differs((i, &zone[i])))?;
    Some(start..last + 1)
}

/// The damage of a zone that begins at an offset relative to the allocation's start.
pub(crate) fn damage(zone: &[u8], first: usize, offset: isize) -> Option<Damage> {
    let changed = changed(zone, first)?;
    Some(Damage { first: offset + changed.start as isize, last: offset + changed.end as isize - 1 })
}

fn pattern(address: usize) -> u8 {
    if address.is_multiple_of(2) { 0xF1 } else { 0xFF }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_seen_where_it_is() {
        for first in [0, 1] {
            let mut zone = [0; 16];
            fill(&mut zone, first);
            assert_eq!(changed(&zone, first), None);
            zone[4..8].copy_from_slice(&(-1_i32).to_ne_bytes());
            let seen = changed(&zone, first).unwrap();
            assert!(seen.start >= 4 && seen.end <= 8 && seen.len() >= 3, "{seen:?}");
            zone[12] = 0;
            assert_eq!(damage(&zone, first, -16).unwrap().last, -4);
        }
        assert_eq!(changed(&[], 0), None);
    }

    #[test]
    fn the_pattern_is_no_number() {
        let mut zone = [0; 8];
        fill(&mut zone, 0);
        assert!(f32::from_le_bytes(zone[..4].try_into().unwrap()).is_nan());
        assert!(f64::from_le_bytes(zone).is_nan());
        let half = u16::from_le_bytes([zone[0], zone[1]]);
        assert!(half & 0x7C00 == 0x7C00 && half & 0x3FF != 0, "f16");
        assert!(half & 0x7F80 == 0x7F80 && half & 0x7F != 0, "bf16");
    }

    #[test]
    fn large_allocations_are_filled_at_both_ends() {
        assert_eq!(filled(100), [0..100, 100..100]);
        assert_eq!(filled(FILLED_WHOLE)[0], 0..FILLED_WHOLE);
        let size = FILLED_WHOLE + 1;
        assert_eq!(filled(size), [0..32 << 20, size - (32 << 20)..size]);
        assert!(is_filled_in_part(size) && !is_filled_in_part(FILLED_WHOLE));
    }
}

//! What a work-item of sums by vectors computes (`convolution/vector.cl`).

use crate::plan::DeviceTraits;
use crate::primitive::source::Source;

/// The terms of the positions that a work-item takes, of each of its panels, unless more than so many work-items of a unit would have none.
const VECTOR_WORK: usize = 1 << 10;
const ITEMS_PER_UNIT: usize = 4;

/// The share of a work-item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VectorShare {
    /// The panels: one or all.
    panels: usize,
    /// The whole lines, one where a line has parts.
    lines: usize,
    /// The parts of a line, and the positions of each.
    parts: usize,
    part: usize,
}

impl VectorShare {
    /// Of so many lines, each of so many positions in tiles; all panels of weights that a core's cache keeps are one work-item's, which then
    /// writes rows of the result as they lie: cores do not store into the same cache lines.
    pub(super) fn of(
        [line, tile, lines]: [usize; 3],
        panels: usize,
        terms: usize,
        stays_near: bool,
        device: &DeviceTraits,
    ) -> Self {
        let wanted = device.compute_units.max(1) * ITEMS_PER_UNIT;
        let tiles = line.div_ceil(tile).max(1);
        // A line has parts where there are too few for all units.
        let parts_of = |beside: usize, each: usize| {
            let most = (line * terms * each / VECTOR_WORK).clamp(1, tiles);
            wanted.div_ceil((beside * lines).max(1)).clamp(1, most)
        };
        let is_all = stays_near && lines * parts_of(1, panels) >= wanted;
        let (each, beside) = if is_all { (panels, 1) } else { (1, panels) };
        let part = tiles.div_ceil(parts_of(beside, each));
        // Short lines of few terms are over sooner than a work-group begins.
        let shared = (beside * lines / wanted).max(1);
        Self {
            panels: each,
            lines: (VECTOR_WORK / (line * terms * each).max(1)).clamp(1, shared),
            parts: tiles.div_ceil(part),
            part: part * tile,
        }
    }

    /// The work-items of so many panels and lines.
    pub(super) fn items(&self, panels: usize, lines: usize) -> usize {
        panels / self.panels.max(1) * lines.div_ceil(self.lines) * self.parts
    }

    /// Defines it for so many panels and lines; work-items one after another share the panels or, where these are inside, the rows.
    pub(super) fn define(&self, panels: usize, lines: usize, panels_inside: bool, source: &mut Source) {
        let of_rows = lines.div_ceil(self.lines) * self.parts;
        source
            .number_of("PANELS_EACH", self.panels)
            .number_of("PANELS_INSIDE", i32::from(panels_inside))
            .number_of("INNER", if panels_inside { panels / self.panels.max(1) } else { of_rows })
            .number_of("LINES_EACH", self.lines)
            .number_of("PARTS", self.parts)
            .number_of("PART", self.part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitive::tests::cpu;

    #[test]
    fn work_items_share_rows_only_where_they_must() {
        let device = DeviceTraits { compute_units: 2, ..cpu() };
        let share = |sizes, panels, stays| VectorShare::of(sizes, panels, 1, stays, &device);
        let all = share([31, 7, 108], 4, true);
        assert_eq!(all, VectorShare { panels: 4, lines: 8, parts: 1, part: 35 });
        assert_eq!(all.items(4, 108), 14);
        // Weights that do not stay, and lines of which there are few, long or short.
        assert_eq!(share([31, 7, 108], 4, false), VectorShare { panels: 1, lines: 33, parts: 1, part: 35 });
        let parts = share([3000, 7, 3], 2, true);
        assert_eq!(parts, VectorShare { panels: 2, lines: 1, parts: 3, part: 1001 });
        assert_eq!(parts.items(2, 3), 9);
        assert_eq!(share([10, 5, 2], 2, true), VectorShare { panels: 1, lines: 1, parts: 1, part: 10 });
    }
}

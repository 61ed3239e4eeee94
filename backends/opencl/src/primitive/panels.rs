//! Weights in panels: `[batch][columns / width][inner..][width]`, the order in which a register tile reads them, and the tile's shape.

use std::ops::Range;

use super::pointwise;
use super::rows::CPU_LANES;
use super::source::Source;
use super::space::{Address, Binding, Operand, Space};
use super::value::Value;
use crate::plan::{DeviceTraits, Launch};

/// Vectors of sums that a register tile holds: of 32 registers of 512 bits, and of 16 of 256 bits or 32 of 128 bits.
const SUMS: usize = 24;
const FEW_SUMS: usize = 6;
/// The part of the widest panels' time that narrower ones have to take, as they need programs of their own.
const WORTH_NARROW: (usize, usize) = (9, 10);
/// Vectors of the widest panel, which are half of what a tile reads for a term.
const WIDEST: usize = 4;

/// The loops that weights depend on, by number.
#[derive(Debug)]
pub(super) struct Panels<'a> {
    pub(super) panel: usize,
    /// Inside a panel.
    pub(super) lane: usize,
    /// The number of columns in all panels, the last of which may be partial.
    pub(super) columns: usize,
    /// From the outermost to the innermost.
    pub(super) inner: &'a [usize],
    pub(super) batch: Range<usize>,
}

/// Where panels are that weights are copied into, or out of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    Into(Binding),
    OutOf(Binding),
}

/// Weights copied into panels of f32.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) bytes: usize,
    pub(super) launches: Vec<Launch>,
}

/// How many vectors of sums registers hold beside what the sums are made of.
pub(super) fn sums(device: &DeviceTraits) -> usize {
    if device.float_lanes < CPU_LANES { FEW_SUMS } else { SUMS }
}

/// Vectors of the widest panel where registers hold so many vectors of sums.
pub(super) fn widest(sums: usize) -> usize {
    if sums < SUMS { 1 } else { WIDEST }
}

/// The panels' width for a number of columns: the widest, or a narrower one where much of the last panel would be empty.
pub(super) fn width(columns: usize, sums: usize) -> usize {
    let vectors = columns.div_ceil(CPU_LANES).max(1);
    // In percent of what a vector of the widest panels takes: narrow ones read the source more often.
    let cost = |width: usize| vectors.next_multiple_of(width) * if width == 2 { 108 } else { 100 };
    let widest = widest(sums).min(vectors);
    let narrow = (2..widest).rev().min_by_key(|&width| cost(width));
    let pays = |width: &usize| cost(*width) * WORTH_NARROW.1 <= cost(widest) * WORTH_NARROW.0;
    narrow.filter(pays).unwrap_or(widest) * CPU_LANES
}

/// The bytes of a panel that the first-level cache keeps while a tile's rows pass.
const NEAR_BYTES: usize = 24 << 10;
/// How far on panels are fetched into that cache that it does not keep.
const AHEAD_BYTES: usize = 2 << 10;

/// Whether the first-level cache keeps f32 weights of so many columns and terms.
pub(super) fn stays_near(columns: usize, terms: usize) -> bool {
    columns * terms * size_of::<f32>() <= NEAR_BYTES
}

/// How many terms ahead to fetch f32 weights in panels of a width; none where they stay in the first-level cache.
pub(super) fn terms_ahead(width: usize, terms: usize) -> usize {
    if stays_near(width, terms) { 0 } else { AHEAD_BYTES.div_ceil(width * size_of::<f32>()) }
}

/// The rows of a register tile: at most `most`, as many as waste the fewest in the last tile. Of eight tiles the last one counts little, and
/// programs that serve any number of rows are better.
pub(super) fn tile_rows(rows: usize, most: usize) -> usize {
    if rows >= 8 * most {
        return most;
    }
    (1..=most.min(rows.max(1))).rev().min_by_key(|&tile| waste(rows, tile)).unwrap_or(1)
}

/// Defines the repetitions over a register tile's rows and vectors.
pub(super) fn repetitions(source: &mut Source, rows: usize, vectors: usize) {
    let each =
        |count: usize, call: &dyn Fn(usize) -> String| (0..count).map(call).collect::<Vec<_>>().join(" ");
    source
        .define("TILE_M", rows)
        .define("EACH_M(X)", each(rows, &|i| format!("X({i})")))
        .define("EACH_V(X, i)", each(vectors, &|j| format!("X(i, {j})")));
}

impl Panels<'_> {
    /// Copies the weights of a space into the scratchpad and lets its operand `WEIGHTS` read them there. None when they do not lie
    /// linearly in these loops.
    pub(super) fn pack(&self, space: &mut Space, wide: bool, device: &DeviceTraits) -> Option<Packed> {
        let launches = self.copies(space, Way::Into(Binding::Scratchpad(0)), wide, device)?;
        let bytes = self.address(space, Binding::Scratchpad(0))?;
        Some(Packed { bytes, launches })
    }

    /// Lets the operand `WEIGHTS` of a space read panels, which take so many bytes.
    pub(super) fn address(&self, space: &mut Space, binding: Binding) -> Option<usize> {
        let position = space.operands.iter().position(|o| o.name == "WEIGHTS")?;
        let (to, elements) = self.steps(space, position)?;
        let operand = &mut space.operands[position];
        operand.binding = binding;
        operand.data_type = Value::F32.storage();
        operand.address = Address::linear(to);
        Some(Value::F32.storage().bytes_for(elements))
    }

    /// What a step of each loop is worth in panels, and their elements.
    fn steps(&self, space: &Space, position: usize) -> Option<(Vec<usize>, usize)> {
        let Address::Linear { coefficients: from, .. } = &space.operands[position].address else {
            return None;
        };
        let mut to = vec![0; space.loops.len()];
        let mut stride = space.loops[self.lane].extent;
        to[self.lane] = 1;
        let batch = self.batch.clone().filter(|&v| from[v] != 0);
        for v in
            batch.chain([self.panel]).chain(self.inner.iter().copied()).collect::<Vec<_>>().into_iter().rev()
        {
            to[v] = stride;
            stride *= space.loops[v].extent;
        }
        Some((to, stride))
    }

    /// The launches that copy the weights of a space into panels, or back from them.
    pub(super) fn copies(
        &self,
        space: &Space,
        way: Way,
        wide: bool,
        device: &DeviceTraits,
    ) -> Option<Vec<Launch>> {
        let position = space.operands.iter().position(|o| o.name == "WEIGHTS")?;
        let Address::Linear { base, coefficients } = &space.operands[position].address else { return None };
        let (base, from) = (*base, coefficients.clone());
        let (to, _) = self.steps(space, position)?;
        let width = space.loops[self.lane].extent;
        let (whole, rest) = (self.columns / width, self.columns % width);
        let mut launches = Vec::new();
        // The partial panel is a copy of its own, so that both stay free of bounds checks. What it has is repeated in the other lanes: sums
        // of whatever memory held, thrown away, may take many times as long where processors are slow with the smallest numbers.
        let repeats = width.checked_div(rest).unwrap_or(0);
        let end = repeats * rest;
        let (repeats, count) = match way {
            Way::Into(_) => (repeats, 3),
            Way::OutOf(_) => (1, 2),
        };
        let parts =
            [(whole, width, (0, 0), 1), (1, rest, (whole, 0), repeats), (1, width - end, (whole, end), 1)];
        for (panels, lanes, (start, lane), repeats) in
            parts.into_iter().take(if rest > 0 { count } else { 1 })
        {
            if panels * lanes == 0 {
                continue;
            }
            let mut copy = space.clone();
            copy.push("repeat", repeats);
            let at = |base: isize, coefficients: &[usize], lane: usize, repeat: usize| Address::Linear {
                base: base + (start * coefficients[self.panel] + lane) as isize,
                coefficients: [coefficients, &[repeat]].concat(),
            };
            let own = Operand { address: at(base, &from, 0, 0), ..copy.operands[position].clone() };
            let in_panels = |binding: Binding| Operand {
                name: String::new(),
                binding,
                data_type: Value::F32.storage(),
                address: at(0, &to, lane, lanes),
            };
            let (source, result) = match way {
                Way::Into(there) => (own, in_panels(there)),
                Way::OutOf(there) => (in_panels(there), own),
            };
            copy.operands =
                vec![Operand { name: "SRC0".into(), ..source }, Operand { name: "DST".into(), ..result }];
            copy.loops[self.panel].extent = panels;
            copy.loops[self.lane].extent = lanes;
            for v in (0..to.len()).rev() {
                if to[v] == 0 {
                    copy.remove(v);
                }
            }
            launches.push(pointwise::copy(copy, Value::F32, wide, device));
        }
        Some(launches)
    }
}

/// Rows computed and thrown away, per row kept, in thousandths.
fn waste(rows: usize, tile: usize) -> usize {
    // Small tiles load each vector of weights more often: as if they wasted a share of their work.
    let computed = rows.next_multiple_of(tile) * 1000 / rows.max(1);
    computed + 600 / tile
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fit_the_rows() {
        assert_eq!(tile_rows(1, 6), 1);
        assert_eq!(tile_rows(128, 6), 6);
        assert_eq!(tile_rows(7, 7), 7);
        assert_eq!(tile_rows(8, 6), 4);
        assert_eq!(tile_rows(44, 6), 5);
        assert_eq!(tile_rows(50, 6), 6);
        assert_eq!(tile_rows(0, 6), 1);
    }

    #[test]
    fn narrow_results_have_narrow_panels() {
        assert_eq!([1, 16, 17, 64, 1000].map(|columns| width(columns, SUMS)), [16, 16, 32, 64, 64]);
        // Two panels of three vectors for five or six, and the widest where these are as many.
        assert_eq!(
            [65, 96, 112, 135, 160, 176].map(|columns| width(columns, SUMS)),
            [48, 48, 64, 48, 32, 64]
        );
        assert_eq!([1, 17, 1000].map(|columns| width(columns, FEW_SUMS)), [16; 3]);
    }
}

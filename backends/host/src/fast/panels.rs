//! Weights in panels: some columns of every term side by side.

use std::ops::Range;

use anydnn_backend::{DataType, MemoryDesc};

use super::level::Level;
use super::places::{Places, is_narrow};
use super::sink::WIDTH;
use super::transpose::{self, BLOCK};

/// The layout of one matrix `[1.., K, N]` in panels; none where it is of no use.
pub(super) fn matrix_layout(desc: &MemoryDesc) -> Option<MemoryDesc> {
    let (batch, [_, columns]) = desc.dims().split_last_chunk::<2>()?;
    if batch.iter().any(|&dim| dim != 1) {
        return None;
    }
    let letter = |axis: usize| char::from(b'a' + axis as u8);
    let (lead, term, column): (String, _, _) =
        ((0..batch.len()).map(letter).collect(), letter(batch.len()), letter(batch.len() + 1));
    layout(desc, &format!("{lead}{}{term}{}{column}", column.to_ascii_uppercase(), width(*columns)))
}

/// The layout of filters `[O, C / groups, spatial..]` in panels; none where a panel would span groups.
pub(super) fn filters_layout(desc: &MemoryDesc, groups: usize) -> Option<MemoryDesc> {
    let outputs = desc.dims()[0] / groups.max(1);
    let width = width(outputs);
    if groups > 1 && !outputs.is_multiple_of(width) {
        return None;
    }
    let taps: String = (2..desc.rank()).map(|axis| char::from(b'a' + axis as u8)).collect();
    layout(desc, &format!("A{taps}b{width}a"))
}

/// The layout of filters `[O, C, spatial..]` that are applied to `O` channels and make `C`, in panels.
pub(super) fn transposed_filters_layout(desc: &MemoryDesc) -> Option<MemoryDesc> {
    let taps: String = (2..desc.rank()).map(|axis| char::from(b'a' + axis as u8)).collect();
    layout(desc, &format!("B{taps}a{}b", width(desc.dims()[1])))
}

fn layout(desc: &MemoryDesc, tag: &str) -> Option<MemoryDesc> {
    let is_known = desc.data_type() == DataType::F32 || is_narrow(desc.data_type());
    if !is_known || desc.elements() == 0 {
        return None;
    }
    let tagged = MemoryDesc::with_tag(desc.dims().clone(), desc.data_type(), tag).ok()?;
    Some(match desc.label() {
        Some(label) => tagged.labelled(label),
        None => tagged,
    })
}

/// Columns of a panel.
pub(super) const fn width(columns: usize) -> usize {
    if columns <= WIDTH / 2 { WIDTH / 2 } else { WIDTH }
}

/// A matrix of weights that lies anywhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain<'a> {
    pub(super) data: &'a [f32],
    /// Where the terms lie.
    pub(super) terms: &'a Places,
    pub(super) column: usize,
}

impl Plain<'_> {
    /// The first column of a panel and the numbers between its terms: as it lies, where that may be and is of use, else in `room`.
    pub(super) fn panel(
        &self,
        level: Level,
        columns: Range<usize>,
        width: usize,
        in_place: bool,
        room: &mut [f32],
    ) -> (*const f32, usize) {
        match self.terms.stride() {
            Some(stride) if in_place && self.column == 1 && columns.len() == width && stride > 0 => {
                let reach = (room.len() / width).max(1) - 1;
                (self.data[columns.start..][..reach * stride + width].as_ptr(), stride)
            }
            _ => {
                self.pack(level, columns.start, columns.len(), width, room);
                (room.as_ptr(), width)
            }
        }
    }

    /// The first term of the first of few columns, whose terms are neighbours, and the numbers between columns: as they lie, where that may be,
    /// else in `room` for all of them.
    pub(super) fn by_columns(&self, columns: usize, room: &mut [f32]) -> (*const f32, usize) {
        let terms = room.len() / columns;
        if self.terms.stride() == Some(1) {
            return (self.data[..(columns - 1) * self.column + terms].as_ptr(), self.column);
        }
        for (column, room) in room.chunks_exact_mut(terms).enumerate() {
            let data = &self.data[column * self.column..];
            room.iter_mut().enumerate().for_each(|(term, to)| *to = data[self.terms.at(term)]);
        }
        (room.as_ptr(), terms)
    }

    /// Copies columns from the `first` on, at most `width` of them, into a panel; those beyond the last become zero.
    pub(super) fn pack(&self, level: Level, first: usize, columns: usize, width: usize, panel: &mut [f32]) {
        let data = &self.data[(first * self.column).min(self.data.len())..];
        match self.terms.stride() {
            Some(stride) if self.column == 1 => {
                for (term, panel) in panel.chunks_exact_mut(width).enumerate() {
                    panel[..columns].copy_from_slice(&data[term * stride..][..columns]);
                    panel[columns..].fill(0.0);
                }
            }
            Some(1) => transposed(level, data, self.column, columns, width, panel),
            _ => {
                for (term, panel) in panel.chunks_exact_mut(width).enumerate() {
                    let start = self.terms.at(term);
                    for (column, to) in panel[..columns].iter_mut().enumerate() {
                        *to = data[start + column * self.column];
                    }
                    panel[columns..].fill(0.0);
                }
            }
        }
    }
}

/// Rows `stride` apart become columns of a panel. Blocks of a row's cache lines follow one another, so that lines that displace one another are
/// read once.
fn transposed(level: Level, data: &[f32], stride: usize, columns: usize, width: usize, panel: &mut [f32]) {
    for (part, panel) in panel.chunks_mut(TERMS * width).enumerate() {
        let (first, terms) = (part * TERMS, panel.len() / width);
        for column in (0..columns).step_by(BLOCK) {
            let whole = if column + BLOCK <= columns { terms - terms % BLOCK } else { 0 };
            for term in (0..whole).step_by(BLOCK) {
                let data = &data[column * stride + first + term..];
                transpose::block(level, data, stride, &mut panel[term * width + column..], width);
            }
            for column in column..columns.min(column + BLOCK) {
                let row = &data[column * stride + first..][..terms];
                for (panel, &value) in panel.chunks_exact_mut(width).zip(row).skip(whole) {
                    panel[column] = value;
                }
            }
        }
        panel.chunks_exact_mut(width).for_each(|panel| panel[columns..].fill(0.0));
    }
}

/// Terms that are copied at a time, a cache line of a row.
const TERMS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_hold_the_columns_of_any_layout() {
        let (terms, columns) = (37, 45);
        let data: Vec<f32> = (0..terms * columns).map(|i| i as f32).collect();
        let part = (terms / 37, 1);
        let split = Places::new([(terms, 1), part]);
        let (by_rows, by_columns) = (Places::new([(terms, columns)]), Places::new([(terms, 1)]));
        let apart = Places::new([(1, 0), (terms, columns)]);
        for (places, column) in [(&by_rows, 1), (&by_columns, terms), (&split, terms), (&apart, 1)] {
            let plain = Plain { data: &data, terms: places, column };
            for (first, count, width) in [(0, 32, 32), (32, 13, 32), (44, 1, 16)] {
                for &level in Level::available() {
                    let mut panel = vec![-1.0; terms * width];
                    plain.pack(level, first, count, width, &mut panel);
                    for (term, j) in (0..terms).flat_map(|t| (0..width).map(move |j| (t, j))) {
                        let expected =
                            if j < count { data[places.at(term) + (first + j) * column] } else { 0.0 };
                        assert_eq!(panel[term * width + j], expected, "{term} {j}");
                    }
                }
            }
        }
    }
}

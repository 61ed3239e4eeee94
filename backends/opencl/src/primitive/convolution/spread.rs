//! Transposed convolutions whose taps neither overlap nor leave gaps: each element of the source makes a block of the result of its own, so
//! that they are products of the elements and the taps, which `blocked` computes.

use std::ops::Range;

use anydnn_backend::{Dims, MemoryDesc};

use super::{Shape, blocked};
use crate::plan::DeviceTraits;
use crate::primitive::choice::Planned;
use crate::primitive::rows::CPU_LANES;
use crate::primitive::space::{Index, Space};
use crate::primitive::value::Value;
use crate::primitive::window::Window;

/// The taps as loops over the result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread<'a> {
    taps: &'a [usize],
    /// Whether lanes run along the last tap, as they do where there is one channel.
    along_taps: bool,
}

/// The loops over taps before the last that all convolutions by panels have, so that they share programs: those of two dimensions.
const OTHERS: usize = 1;

/// The loops over the taps of these axes, where there is one of each.
fn push_single(space: &mut Space, axes: Range<usize>) {
    for axis in axes {
        space.push(format!("tap{axis}"), 1);
    }
}

/// The loops over taps of convolutions whose taps are no results.
pub(super) fn push_none(space: &mut Space) {
    push_single(space, 0..OTHERS);
    space.push("tap", 1);
}

impl<'a> Shape<'a> {
    /// The taps of a transposed convolution of this kind.
    fn spread_of(&self) -> Option<Spread<'a>> {
        let Window { src, dst, kernel, strides, dilations, pads_begin, pads_end, transposed } = self.window;
        let apart = |axis: usize| {
            strides[axis] == kernel[axis]
                && dilations[axis] == 1
                && pads_begin[axis] + pads_end[axis] == 0
                && dst[axis] == src[axis] * kernel[axis]
        };
        let along_taps = self.outputs == 1;
        let serves = transposed
            && self.groups == 1
            && (along_taps || self.outputs >= CPU_LANES / 2)
            && (0..kernel.len()).all(apart);
        serves.then_some(Spread { taps: kernel, along_taps })
    }

    /// The tag of the layout for weights that [`Shape::spread`] reads in place.
    pub(super) fn spread_tag(&self) -> Option<String> {
        let spread = self.spread_of()?;
        let taps: Vec<char> = (0..spread.taps.len()).map(|axis| char::from(b'c' + axis as u8)).collect();
        let (last, others) = taps.split_last()?;
        let line = self.window.src.last().copied().unwrap_or(1);
        let columns = if spread.along_taps { spread.taps.last().copied()? } else { self.outputs };
        let width = blocked::panel_width(columns, line, self.channels, false, self.sums);
        let (taps, others) = (taps.iter().collect::<String>(), others.iter().collect::<String>());
        Some(if spread.along_taps {
            format!("b{others}{}a{width}{last}", last.to_ascii_uppercase())
        } else {
            format!("B{taps}a{width}b")
        })
    }

    /// A convolution without a window whose result's lines are taken apart by the taps.
    pub(super) fn spread(&self, value: Value, device: &DeviceTraits) -> Option<Planned> {
        let spread = self.spread_of()?;
        let ones: Dims = spread.taps.iter().map(|_| 1).collect();
        let zeros: Dims = spread.taps.iter().map(|_| 0).collect();
        let window = Window::single_tap(self.window.src, &ones, &zeros);
        let spread = Some(spread);
        Shape { window, spread, ..*self }.blocked(value, device, false)
    }

    /// The number of results side by side that lanes run along.
    pub(super) fn columns(&self) -> usize {
        match self.spread {
            Some(spread) if spread.along_taps => spread.taps.last().copied().unwrap_or(1),
            _ => self.outputs,
        }
    }
}

impl Spread<'_> {
    /// The axis of weights `[I, O, kernel..]` that panels are blocks of.
    pub(super) fn panel_axis(&self, weights: &MemoryDesc) -> usize {
        if self.along_taps { weights.rank() - 1 } else { 1 }
    }

    /// Adds the loops over the taps and the panels: the index of the result's channel, and those of the taps.
    pub(super) fn push(
        &self,
        space: &mut Space,
        width: usize,
        outputs: usize,
    ) -> (Vec<(usize, usize)>, Vec<Index>) {
        let (&last, others) = self.taps.split_last().unwrap_or((&1, &[]));
        let mut taps: Vec<Index> = others
            .iter()
            .enumerate()
            .map(|(axis, &extent)| Index::of(space.push(format!("tap{axis}"), extent)))
            .collect();
        // Both kinds have the same loops.
        push_single(space, others.len()..OTHERS);
        let tap = space.push("tap", if self.along_taps { 1 } else { last });
        if !self.along_taps {
            taps.push(Index::of(tap));
        }
        let columns = if self.along_taps { last } else { outputs };
        let panel = space.push("panel", columns.div_ceil(width));
        let column = vec![(panel, width), (space.push("lane", width), 1)];
        if self.along_taps {
            taps.push(Index::sum(&column));
            return (Vec::new(), taps);
        }
        (column, taps)
    }

    /// The result's positions: those of the source, each with its taps.
    pub(super) fn positions(&self, source: &[Index], taps: &[Index]) -> Vec<Index> {
        let position = |((source, tap), &extent): ((&Index, &Index), &usize)| {
            let blocks = source.terms.iter().map(|&(variable, factor)| (variable, factor * extent));
            Index::sum(&blocks.chain(tap.terms.iter().copied()).collect::<Vec<_>>())
        };
        source.iter().zip(taps).zip(self.taps).map(position).collect()
    }
}

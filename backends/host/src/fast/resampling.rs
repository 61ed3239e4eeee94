//! Resampling of images: whole pixels where their channels are neighbours, else element by element of a line.

use anydnn_backend::op::{Resampling as Op, ResamplingAlgorithm};
use anydnn_backend::{Arg, PrimitiveDesc};
use smallvec::SmallVec;

use super::Fast;
use super::call::{Call, with_own_room};
use super::finish::{Finish, FinishPlan, Rows};
use super::level::for_levels;
use super::places::strides_of;
use crate::compute::padded;

/// Elements that one thread makes sooner than another one comes to help.
const ALONE: usize = 1 << 13;
/// The most positions along an axis that are kept.
const POSITIONS: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Resampling {
    samples: usize,
    channels: usize,
    first: usize,
    sample: usize,
    to: [usize; 3],
    /// Two offsets with their weights, for each position along each axis.
    parts: [Vec<[(usize, f32); 2]>; 3],
    finish: FinishPlan,
}

impl Resampling {
    pub(super) fn new(op: Op, desc: &PrimitiveDesc) -> Option<Self> {
        let (src, dst) = (desc.src(), desc.dst());
        if src.elements() == 0 || dst.elements() == 0 {
            return None;
        }
        let (strides, first) = strides_of(src, src.dims())?;
        if strides[1] != 1 && src.dims()[1] != 1 {
            return None;
        }
        let (from, to) = (padded(&src.dims()[2..], 1), padded(&dst.dims()[2..], 1));
        let strides_of_pixels = padded(&strides[2..], 0);
        if to.iter().any(|&length| length > POSITIONS) {
            return None;
        }
        let mut parts = [const { Vec::new() }; 3];
        for axis in 0..3 {
            for x in 0..to[axis] {
                let [a, b] = parts_of(op, x, from[axis], to[axis])?;
                parts[axis].push([a, b].map(|(at, weight)| (at * strides_of_pixels[axis], weight)));
            }
        }
        let rows: SmallVec<[usize; 6]> = (0..dst.rank()).filter(|&axis| axis != 1).collect();
        Some(Self {
            samples: dst.dims()[0],
            channels: dst.dims()[1],
            first,
            sample: strides[0],
            to,
            parts,
            finish: FinishPlan::new(desc, &rows, &[1])?,
        })
    }

    fn line(&self, call: &Call<'_>, src: &[f32], line: usize, finish: &Finish<'_>) {
        let lines = self.to[0] * self.to[1];
        let (sample, d, h) = (line / lines, line % lines / self.to[1], line % self.to[1]);
        let width = self.to[2];
        let mut rows = Rows::default();
        finish.rows(line * width, width, &mut rows);
        let base = self.first + sample * self.sample;
        let used = |parts: [(usize, f32); 2]| parts.into_iter().filter(|(_, weight)| *weight != 0.0);
        let mut outer: SmallVec<[(usize, f32); 4]> = SmallVec::new();
        for (d, in_depth) in used(self.parts[0][d]) {
            outer.extend(used(self.parts[1][h]).map(|(h, in_height)| (base + d + h, in_depth * in_height)));
        }
        with_own_room(self.channels, |values| {
            for (at, parts) in self.parts[2].iter().enumerate() {
                let mut is_first = true;
                for &(row, in_line) in &outer {
                    for (w, in_width) in used(*parts) {
                        let from = &src[row + w..][..self.channels];
                        add_part(call.level, from, in_line * in_width, is_first, values);
                        is_first = false;
                    }
                }
                // SAFETY: every line has rows of the result of its own.
                unsafe { finish.store(&rows, at, 0, values) };
            }
        });
    }
}

impl Fast for Resampling {
    fn name(&self) -> &'static str {
        "host:pixels"
    }

    fn run(&self, call: &Call<'_>) {
        let src = call.input(Arg::SRC);
        let finish = self.finish.bind(call);
        let lines = self.samples * self.to[0] * self.to[1];
        let work = |line: usize| self.line(call, src, line, &finish);
        if lines * self.to[2] * self.channels <= ALONE {
            (0..lines).for_each(work);
        } else {
            call.crew.run(lines, &work);
        }
    }
}

/// The source positions of a position, with their weights.
fn parts_of(op: Op, x: usize, from: usize, to: usize) -> Option<[(usize, f32); 2]> {
    let position = op.position(x, from, to);
    let last = from.saturating_sub(1);
    // A negative position becomes zero.
    let at = |position: f64| (position as usize).min(last);
    Some(match op.algorithm {
        ResamplingAlgorithm::Nearest => [(at((position + 0.5).floor()), 1.0), (0, 0.0)],
        ResamplingAlgorithm::Linear => {
            let below = position.floor();
            let part = position - below;
            [(at(below), (1.0 - part) as f32), (at(below + 1.0), part as f32)]
        }
        _ => return None,
    })
}

for_levels! {
    fn add_part(from: &[f32], weight: f32, is_first: bool, values: &mut [f32]) = add_part_body
}

#[expect(clippy::float_cmp, reason = "a weight of exactly one multiplies nothing")]
#[inline(always)]
fn add_part_body(from: &[f32], weight: f32, is_first: bool, values: &mut [f32]) {
    match (is_first, weight == 1.0) {
        (true, true) => values.copy_from_slice(from),
        (true, false) => values.iter_mut().zip(from).for_each(|(value, &x)| *value = weight * x),
        _ => values.iter_mut().zip(from).for_each(|(value, &x)| *value += weight * x),
    }
}

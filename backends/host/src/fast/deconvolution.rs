//! Transposed convolutions: every pixel of the result gathers the taps that reach it. Pixels with the same remainders by the strides meet
//! the same taps, so that they are taken together.

use anydnn_backend::op::Deconvolution as Op;
use anydnn_backend::{Arg, PrimitiveDesc};
use smallvec::SmallVec;

use super::Fast;
use super::call::{Call, Rooms};
use super::convolution::channels_last;
use super::dots;
use super::finish::{Along, FinishPlan};
use super::images::Image;
use super::panels::{transposed_filters_layout, width};
use super::places::{Places, strides_of};
use super::product::{Grid, Source, Weights};
use super::tile::Run;
use crate::compute::{Window, split};

/// The description with filters in panels and images with their channels last, where layouts are open.
pub(super) fn resolve(op: &Op, desc: PrimitiveDesc) -> PrimitiveDesc {
    let mut resolved = desc.clone();
    for arg in [Arg::Weights, Arg::SRC, Arg::DST] {
        let Some(open) = resolved.find(arg).filter(|operand| operand.is_any()).cloned() else { continue };
        let layout = match arg {
            Arg::Weights if op.groups > 1 => None,
            Arg::Weights => transposed_filters_layout(&open),
            _ => channels_last(&open),
        };
        let Some(layout) = layout else { continue };
        let Ok(next) = resolved.resolved(arg, layout) else { return desc };
        resolved = next;
    }
    let known = resolved.clone().resolved_row_major();
    if super::plan(&known).is_some() { known } else { desc }
}

#[derive(Debug)]
pub(super) struct Deconvolution {
    grid: Grid,
    image: Image,
    /// That of the convolution from the result to the source.
    window: Window,
    /// The remainders by which pixels are taken together, and how many pixels each has.
    phases: [usize; 3],
    extents: [usize; 3],
    weights: Weights,
    finish: FinishPlan,
    rooms: Rooms,
}

impl Deconvolution {
    pub(super) fn new(op: &Op, desc: &PrimitiveDesc) -> Option<Self> {
        let (src, dst, weights) = (desc.src(), desc.dst(), desc.find(Arg::Weights)?);
        if src.elements() == 0 || dst.elements() == 0 || weights.elements() == 0 {
            return None;
        }
        let kernel = &weights.dims()[2..];
        let window = Window::new(
            &dst.dims()[2..],
            kernel,
            &src.dims()[2..],
            &op.strides,
            &op.dilations,
            &op.pads_begin,
        );
        let channels = src.dims()[1] / op.groups;
        let columns = weights.dims()[1];
        let in_panels = op.groups == 1
            && transposed_filters_layout(weights).is_some_and(|layout| layout.same_bytes(weights));
        let weights = if in_panels {
            Weights::Panels
        } else {
            let (strides, first) = strides_of(weights, weights.dims())?;
            let taps = kernel.iter().copied().zip(strides[2..].iter().copied());
            let terms = Places::new(taps.chain([(channels, strides[0])]));
            let groups = Places::new([(op.groups, channels * strides[0])]);
            Weights::Plain { first, groups, terms, column: strides[1], dots: dots::fits(columns, channels) }
        };
        // Where remainders are not equally many, pixels stay in their order.
        let phases: [usize; 3] = std::array::from_fn(|axis| {
            if window.input[axis].is_multiple_of(window.strides[axis]) { window.strides[axis] } else { 1 }
        });
        let extents: [usize; 3] = std::array::from_fn(|axis| window.input[axis] / phases[axis]);
        let grid = Grid {
            groups: op.groups,
            rows: dst.dims()[0] * window.inputs(),
            columns,
            terms: window.taps() * channels,
            own: channels,
            width: width(columns),
            next_rows: 0,
            next_columns: columns,
        };
        let lead = 3 - (dst.rank() - 2);
        let axes = |steps: bool| {
            (lead..3).map(move |axis| Along {
                axis: axis - lead + 2,
                length: if steps { phases[axis] } else { extents[axis] },
                step: if steps { 1 } else { phases[axis] },
            })
        };
        let batch = Along { axis: 0, length: dst.dims()[0], step: 1 };
        let rows: SmallVec<[Along; 8]> = axes(true).chain([batch]).chain(axes(false)).collect();
        Some(Self {
            grid,
            image: Image::new(src, channels)?,
            window,
            phases,
            extents,
            weights,
            finish: FinishPlan::with_rows(desc, &rows, &[1])?,
            rooms: Rooms::default(),
        })
    }

    /// The sample and the place of a row's pixel.
    fn place(&self, row: usize) -> (usize, [usize; 3]) {
        let pixels: usize = self.extents.iter().product();
        let samples = self.grid.rows / self.window.inputs();
        let phase = split(row / (pixels * samples), &self.phases);
        let rest = row % (pixels * samples);
        let at = split(rest % pixels, &self.extents);
        (rest / pixels, std::array::from_fn(|axis| at[axis] * self.phases[axis] + phase[axis]))
    }

    /// The taps that reach the pixels of a phase along an axis, each with the place in the source of the first of them.
    fn taps_of(&self, axis: usize, phase: usize) -> SmallVec<[(usize, isize); 8]> {
        let window = &self.window;
        let place = |tap: usize| {
            let steps = (phase + window.pads_begin[axis]) as isize - (tap * window.dilations[axis]) as isize;
            let stride = window.strides[axis] as isize;
            (steps % stride == 0).then_some((tap, steps / stride))
        };
        (0..window.kernel[axis]).filter_map(place).collect()
    }

    /// The place in the source that a tap takes to a place of the result.
    fn source(&self, axis: usize, place: usize, tap: usize) -> Option<usize> {
        let window = &self.window;
        let steps = (place + window.pads_begin[axis]).checked_sub(tap * window.dilations[axis])?;
        let at = steps / window.strides[axis];
        (steps.is_multiple_of(window.strides[axis]) && at < window.output[axis]).then_some(at)
    }
}

impl Fast for Deconvolution {
    fn name(&self) -> &'static str {
        self.weights.form()
    }

    fn run(&self, call: &Call<'_>) {
        let finish = self.finish.bind(call);
        let given = call.input(Arg::SRC);
        let zeros = self.grid.terms / self.window.taps();
        self.rooms.with(zeros + self.image.room(), |room| {
            let (zeros, room) = room.split_at_mut(zeros);
            zeros.fill(0.0);
            let data = self.image.channels_last(call, given, room);
            let source = Pixels { plan: self, data, zeros };
            self.weights.multiply(call, &self.grid, &source, &finish);
        });
    }
}

struct Pixels<'a> {
    plan: &'a Deconvolution,
    data: &'a [f32],
    /// What is read where no tap reaches.
    zeros: &'a [f32],
}

impl Pixels<'_> {
    /// The runs of pixels of one phase, which the same taps reach.
    fn of_phase(
        &self,
        phase: [usize; 3],
        group: usize,
        pixels: std::ops::Range<usize>,
        runs: &mut Vec<Run>,
        rows: &mut Vec<*const f32>,
    ) {
        let Deconvolution { window, image, extents, .. } = self.plan;
        let channels = self.zeros.len();
        let [planes, lines, width] = *extents;
        let places: SmallVec<[(usize, [usize; 3]); 16]> = pixels
            .map(|pixel| {
                let (line, w) = (pixel / width, pixel % width);
                (line / lines / planes, [line / lines % planes, line % lines, w])
            })
            .collect();
        let of_axis: [_; 3] = std::array::from_fn(|axis| self.plan.taps_of(axis, phase[axis]));
        let inside = |axis: usize, at: usize, first: isize| {
            at.checked_add_signed(first).filter(|&at| at < window.output[axis])
        };
        for &(d, first_d) in &of_axis[0] {
            for &(h, first_h) in &of_axis[1] {
                for &(w, first_w) in &of_axis[2] {
                    let before = rows.len();
                    let mut any = false;
                    rows.extend(places.iter().map(|&(sample, [at_d, at_h, at_w])| {
                        let found = inside(0, at_d, first_d)
                            .zip(inside(1, at_h, first_h))
                            .zip(inside(2, at_w, first_w));
                        let Some(((d, h), w)) = found else { return self.zeros.as_ptr() };
                        any = true;
                        let at = image.at(sample, [d, h, w]) + group * channels;
                        self.data[at..at + channels].as_ptr()
                    }));
                    if any {
                        let tap = (d * window.kernel[1] + h) * window.kernel[2] + w;
                        runs.push(Run { first: tap * channels, terms: channels });
                    } else {
                        rows.truncate(before);
                    }
                }
            }
        }
    }
}

impl Source for Pixels<'_> {
    fn tile(
        &self,
        group: usize,
        first: usize,
        count: usize,
        runs: &mut Vec<Run>,
        rows: &mut Vec<*const f32>,
    ) {
        let plan = self.plan;
        let channels = self.zeros.len();
        let of_phase = plan.grid.rows / plan.phases.iter().product::<usize>();
        let (phase, start) = (first / of_phase, first % of_phase);
        if plan.phases == plan.window.strides && start + count <= of_phase {
            self.of_phase(split(phase, &plan.phases), group, start..start + count, runs, rows);
            return;
        }
        let places: SmallVec<[(usize, [usize; 3]); 16]> =
            (first..first + count).map(|row| plan.place(row)).collect();
        for tap in 0..plan.window.taps() {
            let taps = split(tap, &plan.window.kernel);
            let before = rows.len();
            let mut any = false;
            for (sample, place) in &places {
                let along = |axis: usize| plan.source(axis, place[axis], taps[axis]);
                rows.push(match (along(0), along(1), along(2)) {
                    (Some(d), Some(h), Some(w)) => {
                        any = true;
                        let at = plan.image.at(*sample, [d, h, w]) + group * channels;
                        self.data[at..at + channels].as_ptr()
                    }
                    _ => self.zeros.as_ptr(),
                });
            }
            if any {
                runs.push(Run { first: tap * channels, terms: channels });
            } else {
                rows.truncate(before);
            }
        }
    }
}

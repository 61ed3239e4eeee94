//! Convolutions of images whose channels are neighbours, without unfolded windows in memory: the taps of a filter meet the pixels where
//! they lie.

use anydnn_backend::op::Convolution as Op;
use anydnn_backend::{Arg, MemoryDesc, PrimitiveDesc};
use smallvec::SmallVec;

use super::Fast;
use super::call::{Call, Rooms};
use super::depthwise::{self, Depthwise};
use super::dots;
use super::finish::FinishPlan;
use super::images::Image;
use super::integers;
use super::lines::{self, Lines};
use super::panels::{filters_layout, width};
use super::places::{Places, strides_of};
use super::product::{Grid, Source, Weights};
use super::sink::WIDTH;
use super::streaming::{Streaming, is_scaling};
use super::tile::Run;
use crate::compute::{Window, split};

/// Channels up to which an image is copied with its padding, as the runs of single taps would be short.
const FEW_CHANNELS: usize = 8;
/// Pixels of a row up to which it is copied with its padding for few columns, as all tiles would meet the padding.
const NARROW: usize = 16;

/// The description with filters in panels and images with their channels last, where layouts are open.
pub(super) fn resolve(op: &Op, desc: PrimitiveDesc) -> PrimitiveDesc {
    let mut resolved = desc.clone();
    for arg in [Arg::Weights, Arg::SRC, Arg::DST] {
        let Some(open) = resolved.find(arg).filter(|operand| operand.is_any()).cloned() else { continue };
        let layout = match arg {
            Arg::Weights if depthwise::fits(op, &resolved) || is_scaling(op, &resolved) => {
                depthwise::filters_layout(&open)
            }
            Arg::Weights if lines::fits(op, &resolved) => Some(open.to_row_major()),
            Arg::Weights => integers::weights_layout(&resolved)
                .or_else(|| dots::filters_layout(&open, op.groups))
                .or_else(|| filters_layout(&open, op.groups)),
            _ => channels_last(&open),
        };
        let Some(layout) = layout else { continue };
        let Ok(next) = resolved.resolved(arg, layout) else { return desc };
        resolved = next;
    }
    let all_known = !resolved.args().iter().any(|operand| operand.desc.is_any());
    if all_known && super::plan(&resolved).is_some() { resolved } else { desc }
}

pub(super) fn channels_last(desc: &MemoryDesc) -> Option<MemoryDesc> {
    let taps: String = (2..desc.rank()).map(|axis| char::from(b'a' + axis as u8)).collect();
    let tagged = MemoryDesc::with_tag(desc.dims().clone(), desc.data_type(), &format!("a{taps}b")).ok()?;
    Some(match desc.label() {
        Some(label) => tagged.labelled(label),
        None => tagged,
    })
}

/// How a convolution is computed.
pub(super) fn plan(op: &Op, desc: &PrimitiveDesc) -> Option<Box<dyn Fast>> {
    if desc.dst().elements() == 0 || desc.src().elements() == 0 || desc.find(Arg::Weights)?.elements() == 0 {
        return None;
    }
    if is_scaling(op, desc)
        && let Some(made) = Streaming::new(desc)
    {
        return Some(Box::new(made));
    }
    if lines::fits(op, desc)
        && let Some(made) = Lines::new(op, desc)
    {
        return Some(Box::new(made));
    }
    if depthwise::fits(op, desc) {
        return Depthwise::new(op, desc).map(|made| Box::new(made) as Box<dyn Fast>);
    }
    Convolution::new(op, desc).map(|made| Box::new(made) as Box<dyn Fast>)
}

#[derive(Debug)]
struct Convolution {
    grid: Grid,
    image: Image,
    window: Window,
    /// Whether a row of taps is one run: its pixels are neighbours, and so are their channels.
    merges: bool,
    /// The first output position along each axis whose window lies inside of the image, and the one behind the last.
    whole: [[usize; 2]; 3],
    /// Whether all of them do.
    is_whole: bool,
    weights: Weights,
    finish: FinishPlan,
    rooms: Rooms,
}

impl Convolution {
    fn new(op: &Op, desc: &PrimitiveDesc) -> Option<Self> {
        let (src, dst, weights) = (desc.src(), desc.dst(), desc.find(Arg::Weights)?);
        let kernel = &weights.dims()[2..];
        let mut window = Window::new(
            &src.dims()[2..],
            kernel,
            &dst.dims()[2..],
            &op.strides,
            &op.dilations,
            &op.pads_begin,
        );
        let channels = weights.dims()[1];
        let columns = dst.dims()[1] / op.groups;
        let terms = window.taps() * channels;
        let in_panels = filters_layout(weights, op.groups).is_some_and(|layout| layout.same_bytes(weights));
        let weights = if in_panels {
            Weights::Panels
        } else {
            let (strides, first) = strides_of(weights, weights.dims())?;
            let taps = kernel.iter().copied().zip(strides[2..].iter().copied());
            let terms = Places::new(taps.chain([(channels, strides[1])]));
            let groups = Places::new([(op.groups, columns * strides[0])]);
            Weights::Plain { first, groups, terms, column: strides[0], dots: dots::fits(columns, channels) }
        };
        let mut image = Image::new(src, channels)?;
        let whole = window.without_padding();
        let is_small = whole.inputs() <= window.inputs().saturating_mul(3);
        let is_narrow = window.output[2] <= NARROW && columns <= 2 * WIDTH;
        if (channels <= FEW_CHANNELS || is_narrow) && op.groups == 1 && window.has_padding() && is_small {
            // A copy with the padding makes a row of taps one run for every pixel.
            image = image.with_zeros(window.pads_begin, whole.input);
            window = whole;
        }
        let grid = Grid {
            groups: op.groups,
            rows: dst.dims()[0] * window.outputs(),
            columns,
            terms,
            own: terms.min(channels * window.strides.iter().product::<usize>()),
            width: width(columns),
            next_rows: 0,
            next_columns: columns,
        };
        let axes: SmallVec<[usize; 6]> = (0..dst.rank()).filter(|&axis| axis != 1).collect();
        let merges =
            op.groups == 1 && window.dilations[2] == 1 && window.kernel[2] > 1 && image.is_dense(2, channels);
        let finish = FinishPlan::new(desc, &axes, &[1])?;
        let whole = std::array::from_fn(|axis| {
            let (first, last) = (window.inside(axis, 0), window.inside(axis, window.kernel[axis] - 1));
            [first.start.max(last.start), first.end.min(last.end)]
        });
        let is_whole = (0..3).all(|axis| whole[axis] == [0, window.output[axis]]);
        Some(Self { grid, image, window, merges, whole, is_whole, weights, finish, rooms: Rooms::default() })
    }
}

impl Fast for Convolution {
    fn name(&self) -> &'static str {
        self.weights.form()
    }

    fn reads_in_place(&self, arg: Arg) -> bool {
        self.finish.reads_in_place(arg)
    }

    fn run(&self, call: &Call<'_>) {
        let finish = self.finish.bind(call);
        let zeros = self.grid.terms;
        let given = call.input(Arg::SRC);
        self.rooms.with(zeros + self.image.room(), |room| {
            let (zeros, room) = room.split_at_mut(zeros);
            zeros.fill(call.padding());
            let data = self.image.channels_last(call, given, room);
            let source = Pixels { plan: self, data, zeros };
            self.weights.multiply(call, &self.grid, &source, &finish);
        });
    }
}

struct Pixels<'a> {
    plan: &'a Convolution,
    data: &'a [f32],
    /// What padding is read as.
    zeros: &'a [f32],
}

impl Pixels<'_> {
    /// The runs of rows whose windows lie inside: these differ by where they begin alone.
    fn inside(
        &self,
        starts: &[usize],
        of_group: usize,
        merges: bool,
        runs: &mut Vec<Run>,
        rows: &mut Vec<*const f32>,
    ) {
        let Convolution { window, image, grid, .. } = self.plan;
        let channels = grid.terms / window.taps();
        let width = if merges { window.kernel[2] } else { 1 };
        let strides = image.strides();
        let step: [usize; 3] = std::array::from_fn(|axis| window.dilations[axis] * strides[axis]);
        let last: usize = (0..3).map(|axis| (window.kernel[axis] - 1) * step[axis]).sum::<usize>() + channels;
        let reach = starts.iter().max().map_or(0, |start| start + of_group + last);
        assert!(reach <= self.data.len(), "windows lie inside of their image");
        let data = self.data.as_ptr().wrapping_add(of_group);
        for tap in (0..window.taps()).step_by(width) {
            let [d, h, w] = split(tap, &window.kernel);
            let data = data.wrapping_add(d * step[0] + h * step[1] + w * step[2]);
            rows.extend(starts.iter().map(|&start| data.wrapping_add(start)));
            runs.push(Run { first: tap * channels, terms: width * channels });
        }
    }

    /// Where the windows of some output pixels begin, if none is in padding.
    fn starts(&self, first: usize, count: usize) -> SmallVec<[usize; 16]> {
        let Convolution { window, image, .. } = self.plan;
        let strides = image.strides();
        let step: [usize; 3] = std::array::from_fn(|axis| window.strides[axis] * strides[axis]);
        let (mut sample, mut at) =
            (first / window.outputs(), split(first % window.outputs(), &window.output));
        let mut starts = SmallVec::new();
        while starts.len() < count {
            let line = image.at(sample, [0; 3]) + at[0] * step[0] + at[1] * step[1];
            let run = (window.output[2] - at[2]).min(count - starts.len());
            starts.extend((at[2]..at[2] + run).map(|w| line + w * step[2]));
            at[2] = 0;
            at[1] += 1;
            if at[1] == window.output[1] {
                (at[0], at[1]) = (at[0] + 1, 0);
            }
            if at[0] == window.output[0] {
                (sample, at[0]) = (sample + 1, 0);
            }
        }
        starts
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
        let Convolution { window, image, grid, .. } = self.plan;
        let taps = window.taps();
        let channels = grid.terms / taps;
        let of_group = group * channels;
        if self.plan.is_whole && window.pads_begin == [0; 3] {
            self.inside(&self.starts(first, count), of_group, self.plan.merges, runs, rows);
            return;
        }
        let mut places: SmallVec<[(usize, [usize; 3]); 16]> = SmallVec::new();
        let (mut sample, mut at) =
            (first / window.outputs(), split(first % window.outputs(), &window.output));
        for _ in 0..count {
            places.push((sample, at));
            at[2] += 1;
            for axis in [2, 1] {
                if at[axis] == window.output[axis] {
                    at[axis] = 0;
                    at[axis - 1] += 1;
                }
            }
            if at[0] == window.output[0] {
                (sample, at[0]) = (sample + 1, 0);
            }
        }
        let inside = |axis: usize| {
            let [first, last] = self.plan.whole[axis];
            places.iter().all(|(_, at)| (first..last).contains(&at[axis]))
        };
        let merges = self.plan.merges && inside(2);
        let width = if merges { window.kernel[2] } else { 1 };
        if inside(0) && inside(1) && inside(2) {
            let starts: SmallVec<[usize; 16]> = places
                .iter()
                .map(|&(sample, at)| {
                    let begin = |axis: usize| at[axis] * window.strides[axis] - window.pads_begin[axis];
                    image.at(sample, [begin(0), begin(1), begin(2)])
                })
                .collect();
            self.inside(&starts, of_group, merges, runs, rows);
            return;
        }
        let zeros = self.zeros.as_ptr();
        for tap in (0..taps).step_by(width) {
            let [d, h, w] = split(tap, &window.kernel);
            let terms = width * channels;
            let before = rows.len();
            let mut any = false;
            for &(n, [out_d, out_h, out_w]) in &places {
                let inside = window
                    .position(0, out_d, d)
                    .zip(window.position(1, out_h, h))
                    .zip(window.position(2, out_w, w));
                rows.push(match inside {
                    Some(((d, h), w)) => {
                        any = true;
                        let at = image.at(n, [d, h, w]) + of_group;
                        self.data[at..at + terms].as_ptr()
                    }
                    None => zeros,
                });
            }
            if any {
                runs.push(Run { first: tap * channels, terms });
            } else {
                rows.truncate(before);
            }
        }
    }
}

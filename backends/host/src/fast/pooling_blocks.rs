//! The windows of a block of an image.

use anydnn_backend::op::PoolingAlgorithm;
use smallvec::SmallVec;

use super::call::{Call, with_own_room};
use super::finish::Finish;
use super::pooling::{Block, Pooling};
use super::windows::{Join, Windows, divide, has_nan, join_pixels, join_rows, pick};

/// Lines shorter than this are joined many at a time, with what lies between those that are wanted.
const SHORT: usize = 256;
/// Strides up to which pixels of few channels are joined together with those between them.
const NEAR: usize = 4;
/// Channels from which on registers hold those of a pixel.
const MANY: usize = 16;

/// What is under a block's windows: where depths begin in a plane, lines and pixels.
struct View<'a> {
    depths: &'a [usize],
    tall: usize,
    wide: usize,
}

impl Pooling {
    /// Computes the windows of a block.
    pub(super) fn block(&self, call: &Call<'_>, src: &[f32], block: &Block, finish: &Finish<'_>) {
        let window = &self.window;
        let [_, sh, sw] = window.strides;
        let [_, kh, kw] = window.kernel;
        let [_, dh, dw] = window.dilations;
        let (planes, lines, width) = (block.planes.len(), block.lines.len(), block.pixels.len());
        let channels = block.channels.len();
        // Lines and pixels of the input under the windows.
        let (tall, wide) = ((lines - 1) * sh + (kh - 1) * dh + 1, (width - 1) * sw + (kw - 1) * dw + 1);
        let run = wide * channels;
        let depths: SmallVec<[usize; 8]> = window
            .taps_inside(0, block.depth)
            .filter_map(|tap| window.position(0, block.depth, tap))
            .map(|at| at * self.strides[0])
            .collect();
        let view = View { depths: &depths, tall, wide };
        let is_flat = run < SHORT && sh <= NEAR && !depths.is_empty();
        let in_place = is_flat.then(|| self.in_place(block, &view)).flatten();
        // Planes, depths and lines of a copy lie one behind the other.
        let line = if in_place.is_some() && tall > 1 { self.strides[1] } else { run };
        let depth = tall * line;
        let plane = match (&in_place, planes) {
            (_, 1) => 0,
            (Some(_), _) => self.next_plane().unwrap_or(0),
            _ => depths.len() * depth,
        };
        let joined =
            if is_flat { (planes - 1) * plane + (lines - 1) * sh * line + run } else { planes * lines * run };
        let starts: SmallVec<[usize; 32]> = (0..planes * lines)
            .map(|at| if is_flat { at / lines * plane + at % lines * sh * line } else { at * run })
            .collect();
        let results = planes * lines * width * channels;
        let copied = if is_flat && in_place.is_none() { planes * depths.len() * depth } else { 0 };
        with_own_room(copied + 2 * joined + results, |room| {
            let (copy, room) = room.split_at_mut(copied);
            let (of_lines, room) = room.split_at_mut(joined);
            let (of_pixels, room) = room.split_at_mut(joined);
            let (of_lines, join) = if is_flat {
                let (from, depths) = if let Some(base) = in_place {
                    (&src[base..], depths.clone())
                } else {
                    self.copy(call, src, block, &view, copy);
                    (&*copy, (0..depths.len()).map(|d| d * depth).collect())
                };
                let rows: SmallVec<[usize; 16]> =
                    depths.iter().flat_map(|d| (0..kh).map(move |i| d + i * dh * line)).collect();
                let last = rows.last().copied().unwrap_or(0) + joined;
                let join = self.join(|| has_nan(call.level, &from[rows[0]..last]));
                if let [row] = *rows {
                    (&from[row..][..joined], join)
                } else {
                    join_rows(call.level, join, from, &rows, of_lines);
                    (&*of_lines, join)
                }
            } else {
                self.join_lines(call, src, block, &view, of_lines);
                (&*of_lines, self.join(|| has_nan(call.level, of_lines)))
            };
            let windows = Windows { width, channels, next: sw * channels, taps: kw, step: dw * channels };
            let make = |to: &mut [f32]| {
                if kw == 1 {
                    pick(call.level, of_lines, &starts, &windows, to);
                } else if sw == 1 || channels < MANY && sw <= NEAR {
                    let taps: SmallVec<[usize; 16]> = (0..kw).map(|tap| tap * windows.step).collect();
                    let of_pixels = &mut of_pixels[..joined - (kw - 1) * windows.step];
                    join_rows(call.level, join, of_lines, &taps, of_pixels);
                    pick(call.level, of_pixels, &starts, &windows, to);
                } else {
                    join_pixels(call.level, join, of_lines, &starts, &windows, to);
                }
                self.divide(call, block, to);
            };
            let [depths, height, all] = window.output;
            let first = (block.planes.start * depths + block.depth) * height + block.lines.start;
            let lines = planes * lines;
            let (first, count, column) = if self.by_channels {
                (first * all + block.pixels.start, lines * width, block.channels.start)
            } else {
                (first, lines, block.pixels.start)
            };
            // SAFETY: every block has rows and columns of the result of its own.
            unsafe { finish.make_rows(first..first + count, column, &mut room[..results], make) };
        });
    }

    /// How elements become one.
    fn join(&self, has_nan: impl FnOnce() -> bool) -> Join {
        match self.algorithm {
            PoolingAlgorithm::Max if has_nan() => Join::MaxOrNan,
            PoolingAlgorithm::Max => Join::Max,
            _ => Join::Sum,
        }
    }

    /// What padding counts as.
    fn neutral(&self) -> f32 {
        if self.algorithm == PoolingAlgorithm::Max { f32::NEG_INFINITY } else { 0.0 }
    }

    /// Divides sums by what is under their windows.
    fn divide(&self, call: &Call<'_>, block: &Block, to: &mut [f32]) {
        if self.divisors.is_empty() {
            return;
        }
        let (width, channels) = (block.pixels.len(), block.channels.len());
        let (_, all) = self.planes();
        let divisors = &self.divisors[block.pixels.start * all..];
        // Lines, or pixels of which some channels are computed.
        let (run, next) = if channels == all { (width * all, 0) } else { (channels, all) };
        for (at, to) in to.chunks_exact_mut(width * channels).enumerate() {
            let line = block.lines.start + at % block.lines.len();
            let outer = self.taps(0, block.depth) * self.taps(1, line);
            for (pixel, to) in to.chunks_exact_mut(run).enumerate() {
                divide(call.level, to, &divisors[pixel * next..], outer as f32);
            }
        }
    }

    /// Where the elements under a block's windows begin, if all are there and lie as a copy's would, lines and planes anywhere near.
    fn in_place(&self, block: &Block, view: &View<'_>) -> Option<usize> {
        let window = &self.window;
        let from = |axis: usize, at: usize, count: usize| {
            let begin = (at * window.strides[axis]).checked_sub(window.pads_begin[axis])?;
            (begin + count <= window.input[axis]).then_some(begin)
        };
        let (h, w) = (from(1, block.lines.start, view.tall)?, from(2, block.pixels.start, view.wide)?);
        let run = view.wide * block.channels.len();
        let is_near = |next: usize, own: usize, count: usize| count == 1 || next <= 2 * own;
        let planes = self.next_plane().or((block.planes.len() == 1).then_some(0))?;
        let lies_so = (view.wide == 1 || self.strides[2] == block.channels.len())
            && is_near(self.strides[1], run, view.tall)
            && is_near(planes, view.tall * self.strides[1], block.planes.len());
        let base = self.plane(block.planes.start) + block.channels.start;
        lies_so.then_some(base + h * self.strides[1] + w * self.strides[2])
    }

    /// The pixels of an input line under a block's windows: how many are in front of the line, the first one inside, and how many are.
    fn pixels(&self, block: &Block, wide: usize) -> [usize; 3] {
        let left = block.pixels.start * self.window.strides[2];
        let pad = self.window.pads_begin[2];
        let before = pad.saturating_sub(left).min(wide);
        let begin = (left + before).saturating_sub(pad);
        [before, begin, self.window.input[2].saturating_sub(begin).min(wide - before)]
    }

    /// Joins the lines under each line of windows, with padding at their ends.
    fn join_lines(&self, call: &Call<'_>, src: &[f32], block: &Block, view: &View<'_>, to: &mut [f32]) {
        let (window, channels) = (&self.window, block.channels.len());
        let [before, begin, count] = self.pixels(block, view.wide);
        let pixel = self.strides[2];
        let join = self.join(|| true);
        let mut rows: SmallVec<[usize; 16]> = SmallVec::new();
        for (at, to) in to.chunks_exact_mut(view.wide * channels).enumerate() {
            let (plane, line) = (at / block.lines.len(), block.lines.start + at % block.lines.len());
            let (front, rest) = to.split_at_mut(before * channels);
            let (own, behind) = rest.split_at_mut(count * channels);
            front.fill(self.neutral());
            behind.fill(self.neutral());
            rows.clear();
            for depth in view.depths {
                let inside = window.taps_inside(1, line).filter_map(|tap| window.position(1, line, tap));
                rows.extend(inside.map(|at| depth + at * self.strides[1]));
            }
            if rows.is_empty() || count == 0 {
                own.fill(self.neutral());
                continue;
            }
            let from = &src[self.plane(block.planes.start + plane) + begin * pixel + block.channels.start..];
            if pixel == channels {
                join_rows(call.level, join, from, &rows, own);
                continue;
            }
            for (at, own) in own.chunks_exact_mut(channels).enumerate() {
                join_rows(call.level, join, &from[at * pixel..], &rows, own);
            }
        }
    }

    /// Copies what is under the windows, with what padding counts as around it.
    fn copy(&self, call: &Call<'_>, src: &[f32], block: &Block, view: &View<'_>, to: &mut [f32]) {
        let (window, channels) = (&self.window, block.channels.len());
        let [before, begin, count] = self.pixels(block, view.wide);
        let top = block.lines.start * window.strides[1];
        let pixel = self.strides[2];
        let windows = Windows { width: count, channels, next: pixel, taps: 1, step: 0 };
        let mut lines = to.chunks_exact_mut(view.wide * channels);
        for (plane, &depth) in
            block.planes.clone().flat_map(|plane| view.depths.iter().map(move |d| (plane, d)))
        {
            for (line, to) in (top..top + view.tall).zip(&mut lines) {
                let at = line.checked_sub(window.pads_begin[1]).filter(|&at| at < window.input[1]);
                let Some(at) = at.filter(|_| count > 0) else {
                    to.fill(self.neutral());
                    continue;
                };
                let (front, rest) = to.split_at_mut(before * channels);
                let (own, behind) = rest.split_at_mut(count * channels);
                front.fill(self.neutral());
                behind.fill(self.neutral());
                let from = self.plane(plane) + depth + at * self.strides[1] + block.channels.start;
                let from = &src[from + begin * pixel..][..(count - 1) * pixel + channels];
                pick(call.level, from, &[0], &windows, own);
            }
        }
    }
}

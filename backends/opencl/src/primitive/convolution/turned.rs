//! Along what tiles run: the last spatial dimension, or another one, or the images, where that is too short to fill them; without a window,
//! all positions of all images in a row.

use anydnn_backend::Dims;

use super::Shape;
use super::blocked::{compete_at, panel_width, vector_sizes};
use crate::plan::DeviceTraits;
use crate::primitive::choice::Planned;
use crate::primitive::space::{Address, Index, Space};
use crate::primitive::value::Value;
use crate::primitive::window::Window;

/// The positions in whose time a tile of one starts and ends.
const TILE_ENDS: usize = 5;
/// Terms from which on the weights of a wide panel do not stay in a second-level cache, and the positions in whose time a tile reads them.
const FAR_TERMS: usize = 4 << 10;
const FAR_POSITIONS: usize = 12;
/// A line of positions without a window has no more tiles, and a core gets so many lines if there are enough.
const LONGEST: usize = 8;
const LINES: usize = 8;

/// What the dimensions of a window are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Along<'a> {
    /// The spatial dimensions in their order.
    Spatial,
    /// The axes of the tensors in this order, which may end with the images: zero.
    Axes(&'a [usize]),
    /// Lines of all positions in a row. The window as the tensors have it, and the number of positions.
    Flat(&'a Window<'a>, usize),
}

impl Along<'_> {
    /// The images that are no dimension of the window.
    pub(super) fn images(&self, images: usize) -> usize {
        if self.is_by_images() { 1 } else { images }
    }

    /// The index of an element, by axis.
    pub(super) fn place(&self, image: Index, channel: Index, window: &[Index]) -> Vec<Index> {
        let Self::Axes(axes) = self else {
            return [image, channel].into_iter().chain(window.iter().cloned()).collect();
        };
        let mut place = vec![Index::default(); 2 + axes.len() - usize::from(self.is_by_images())];
        place[0] = image;
        place[1] = channel;
        for (&axis, index) in axes.iter().zip(window) {
            place[axis] = index.clone();
        }
        place
    }

    /// The taps in the order of the weights' dimensions.
    pub(super) fn taps(&self, taps: &[Index]) -> Vec<Index> {
        match self {
            Self::Axes(axes) => (2..2 + axes.len())
                .filter_map(|axis| taps.get(axes.iter().position(|&own| own == axis)?).cloned())
                .collect(),
            _ => taps.to_vec(),
        }
    }

    /// The axis of the tensors that a dimension of a window of so many is.
    pub(super) fn axis(&self, dimension: usize) -> usize {
        match self {
            Self::Axes(axes) => axes[dimension],
            _ => 2 + dimension,
        }
    }

    fn is_by_images(&self) -> bool {
        matches!(self, Self::Axes(axes) if axes.contains(&0))
    }
}

impl Shape<'_> {
    /// Register tiles along what fills them best.
    pub(super) fn blocked(&self, value: Value, device: &DeviceTraits, packing: bool) -> Option<Planned> {
        let width = self.best_panel_width();
        if let Some(positions) = self.positions_in_a_row() {
            let share = positions / (device.compute_units * LINES).max(1);
            let [tile, _] = vector_sizes(self.sums);
            let line = share.next_multiple_of(tile).clamp(tile, LONGEST * tile);
            let (extents, ones, zeros) =
                ([positions.div_ceil(line), line], Dims::from([1, 1]), Dims::from([0, 0]));
            let window = Window::single_tap(&extents, &ones, &zeros);
            let shape = Shape { window, along: Along::Flat(&self.window, positions), ..*self };
            let planned = shape.blocked_along(value, device, packing, width);
            if planned.is_some() {
                return planned;
            }
        }
        match self.best_axes() {
            Some(axes) => self.turned(&axes, |turned| turned.blocked_along(value, device, packing, width)),
            None => self.blocked_along(value, device, packing, width),
        }
    }

    /// What comes of the shape whose window has these axes of the tensors.
    pub(super) fn turned<T>(&self, axes: &[usize], then: impl FnOnce(&Shape<'_>) -> T) -> T {
        let images = self.desc.src().dims()[0];
        let of = |values: &[usize], of_images: usize| -> Dims {
            axes.iter().map(|axis| axis.checked_sub(2).map_or(of_images, |i| values[i])).collect()
        };
        let own = &self.window;
        let (src, dst, kernel) = (of(own.src, images), of(own.dst, images), of(own.kernel, 1));
        let (strides, dilations) = (of(own.strides, 1), of(own.dilations, 1));
        let (pads_begin, pads_end) = (of(own.pads_begin, 0), of(own.pads_end, 0));
        let window = Window {
            src: &src,
            dst: &dst,
            kernel: &kernel,
            strides: &strides,
            dilations: &dilations,
            pads_begin: &pads_begin,
            pads_end: &pads_end,
            transposed: false,
        };
        then(&Shape { window, along: Along::Axes(axes), ..*self })
    }

    /// The axes of the tensors with one of them last, the images among them where it is they.
    pub(super) fn axes_up_to(&self, last: usize) -> Vec<usize> {
        (2..2 + self.window.dst.len()).filter(|&axis| axis != last).chain([last]).collect()
    }

    /// The width of panels that suits a convolution whose weights have no layout yet.
    pub(super) fn best_panel_width(&self) -> usize {
        let width = |line: usize, step: usize| {
            panel_width(self.columns(), line, self.terms(), compete_at(step), self.sums)
        };
        if let Some(positions) = self.positions_in_a_row() {
            let last = 1 + self.window.dst.len();
            return width(positions.min(LONGEST * vector_sizes(self.sums)[0]), self.step(last));
        }
        let axis =
            self.best_axes().and_then(|axes| axes.last().copied()).unwrap_or(1 + self.window.dst.len());
        width(self.extent(axis), self.step(axis))
    }

    /// The number of all positions, where there is no window and they could be one line.
    fn positions_in_a_row(&self) -> Option<usize> {
        let Window { kernel, strides, pads_begin, pads_end, transposed, .. } = self.window;
        let ones = kernel.iter().chain(strides.iter()).all(|&number| number == 1);
        let unpadded = pads_begin.iter().chain(pads_end.iter()).all(|&pad| pad == 0);
        let positions = self.desc.src().dims()[0] * self.window.dst.iter().product::<usize>();
        (!transposed && self.spread.is_none() && ones && unpadded && positions > 1).then_some(positions)
    }

    /// The axes in the order of the window's dimensions, if another one than the last fills tiles better.
    fn best_axes(&self) -> Option<Vec<usize>> {
        let rank = 2 + self.window.dst.len();
        if self.window.transposed || self.spread.is_some() || self.window.dst.is_empty() {
            return None;
        }
        let [tile, half] = vector_sizes(self.sums);
        let cost = |axis: usize| {
            let positions = self.extent(axis).max(1);
            let rest = positions % tile;
            let last = if rest <= half { half } else { tile };
            let far = if self.terms() < FAR_TERMS { 0 } else { FAR_POSITIONS };
            let computed = positions / tile * tile.max(far) + if rest == 0 { 0 } else { last.max(far) };
            let time = computed + TILE_ENDS * positions.div_ceil(tile);
            // Five positions at a time then.
            let crowded = if compete_at(self.step(axis)) { 8 } else { 5 };
            (time * crowded) as f64 / positions as f64
        };
        // A window has three dimensions at most.
        let others = (2..rank - 1).rev().chain((rank <= 4).then_some(0));
        let best = others.min_by(|&a, &b| cost(a).total_cmp(&cost(b)))?;
        if cost(best) > 0.8 * cost(rank - 1) {
            return None;
        }
        Some(self.axes_up_to(best))
    }

    /// The axis that lines run along; none without spatial dimensions.
    pub(super) fn line_axis(&self) -> Option<usize> {
        self.window.dst.len().checked_sub(1).map(|last| self.along.axis(last))
    }

    /// The positions along an axis of the result.
    pub(super) fn extent(&self, axis: usize) -> usize {
        self.desc.dst().dims()[axis]
    }

    /// How far positions along it are from each other in the source, in elements; zero where that is not known.
    fn step(&self, axis: usize) -> usize {
        let stride = axis.checked_sub(2).map_or(1, |i| self.window.strides[i]);
        let strides = self.desc.src().strides();
        strides.and_then(|strides| strides.get(axis).copied()).map_or(0, |step| step * stride)
    }
}

/// Makes lines of all positions, which are the first loops of a space; none where some operand does not have them in a row.
pub(super) fn flatten(space: &mut Space, loops: usize, lines: usize, line: usize) -> Option<()> {
    let mut steps = Vec::new();
    for operand in &space.operands {
        let Address::Linear { coefficients, .. } = &operand.address else { return None };
        let mut of_rows = (0..loops).rev().filter(|&v| space.loops[v].extent > 1);
        let last = of_rows.next()?;
        let mut step = coefficients[last].checked_mul(space.loops[last].extent)?;
        for v in of_rows {
            if coefficients[v] != step {
                return None;
            }
            step = step.checked_mul(space.loops[v].extent)?;
        }
        steps.push(coefficients[last]);
    }
    for v in 0..loops {
        space.loops[v].extent = 1;
    }
    space.set_extent(loops - 1, line);
    space.set_extent(loops - 2, lines);
    for (operand, step) in space.operands.iter_mut().zip(steps) {
        if let Address::Linear { coefficients, .. } = &mut operand.address {
            coefficients[..loops].fill(0);
            coefficients[loops - 1] = step;
            coefficients[loops - 2] = step * line;
        }
    }
    Some(())
}

//! Along what the tiles of units run (`packed.rs`): the lines of the result, or another dimension or the images where lines are shorter than
//! tiles.

use super::{Order, Shape};
use crate::plan::DeviceTraits;
use crate::primitive::choice::Planned;
use crate::primitive::rows::CPU_LANES;
use crate::primitive::unit_panels::{Factors, Unit};

impl Shape<'_> {
    /// Tiles of places by panels of output channels, of operands in place or copied first.
    pub(super) fn packed(&self, unit: Unit, device: &DeviceTraits, packing: bool) -> Option<Planned> {
        let factors = self.factors_of(unit, device)?;
        let axes = self.unit_axes(factors, packing);
        let turned =
            axes.and_then(|axes| self.turned(&axes, |turned| turned.packed_along(factors, device, packing)));
        // Weights in place may lie as lines want them.
        turned.or_else(|| self.packed_along(factors, device, packing))
    }

    /// The tag of weights that the caller leaves open, where they had better lie in parts of 16 channels.
    pub(super) fn liked_parts_tag(&self, device: &DeviceTraits) -> Option<String> {
        let tag = |shape: &Shape<'_>| Some(shape.parts_tag(shape.likes_parts(device)?));
        match self.factors(device).and_then(|factors| self.unit_axes(factors, false)) {
            Some(axes) => self.turned(&axes, tag),
            None => tag(self),
        }
    }

    /// The axes of the window with that one last along which tiles take less time than along lines; none where lines fill them.
    fn unit_axes(&self, factors: Factors, packing: bool) -> Option<Vec<usize>> {
        let line = self.line_axis()?;
        let own = self.extent(line);
        if own >= factors.unit.rows || self.window.transposed || self.spread.is_some() {
            return None;
        }
        // How weights lie makes no difference.
        let dense = self.weights.to_row_major();
        let shape = Shape { weights: &dense, ..*self };
        let clocks = |shape: &Shape<'_>| {
            let (space, _) = shape.space(Order::Spatial(Some(CPU_LANES)));
            shape.way(&space, factors, packing).map(|way| shape.clocks(&way))
        };
        // A window has three dimensions at most.
        let images = (self.window.dst.len() < 3).then_some(0);
        let others = (2..line).rev().chain(images).filter(|&axis| self.extent(axis) > own);
        let turned = others.filter_map(|axis| {
            let axes = shape.axes_up_to(axis);
            Some((shape.turned(&axes, clocks)?, axes))
        });
        let (least, axes) = turned.min_by_key(|(clocks, _)| *clocks)?;
        clocks(&shape).is_none_or(|lines| least * 5 < lines * 4).then_some(axes)
    }
}

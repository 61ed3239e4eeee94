//! Weights of several groups in panels: where a group's outputs are no multiple of the panels' width, each group fills up its last panel, which
//! no blocks of all outputs can tell.

use std::iter;

use anydnn_backend::{Arg, MemoryDesc, PrimitiveDesc};

use super::Shape;
use crate::plan::DeviceTraits;
use crate::primitive::choice::Planned;
use crate::primitive::opaque::GroupPanels;
use crate::primitive::panels::{Panels, Way};
use crate::primitive::pointwise::is_wide;
use crate::primitive::rows::is_cpu;
use crate::primitive::space::{Binding, Index, Space};
use crate::primitive::value::Value;

impl Shape<'_> {
    /// The layout of weights of several groups in panels of this width, where register tiles are sure to read them.
    pub(super) fn group_panels(&self, width: usize, device: &DeviceTraits) -> Option<MemoryDesc> {
        let desc = self.desc;
        let is_read = is_cpu(device)
            && self.groups > 1
            && !self.window.transposed
            && self.window.dst.iter().product::<usize>() * self.terms() > 0
            && Value::of(desc, true) == Value::F32
            && desc.attributes().dequantize.is_empty()
            && desc.args().iter().all(|operand| {
                let is_strided = operand.desc.is_any() || operand.desc.strides().is_some();
                is_strided || operand.arg == Arg::Weights
            });
        let panels = is_read.then_some(GroupPanels { groups: self.groups, width })?;
        // What offsets of 32 bits do not reach would be another program.
        let is_near = |own: &MemoryDesc| i32::try_from(own.size()).is_ok() && !self.wide;
        panels.layout(self.weights).filter(is_near)
    }
}

/// Copies weights `[O, C, taps..]` of any type into panels of their groups, or back.
pub(in crate::primitive) fn relayout(desc: &PrimitiveDesc, device: &DeviceTraits) -> Option<Planned> {
    let (src, dst) = (desc.src(), desc.dst());
    let (own, arg, panels, way) = match GroupPanels::of(dst) {
        Some(panels) => (src, Arg::SRC, panels, Way::Into(Binding::Arg(Arg::DST))),
        None => (dst, Arg::DST, GroupPanels::of(src)?, Way::OutOf(Binding::Arg(Arg::SRC))),
    };
    let GroupPanels { groups, width } = panels;
    let attributes = desc.attributes();
    let moves = attributes.post_ops.is_empty() && attributes.dequantize.is_empty() && desc.args().len() == 2;
    let is_near = i32::try_from(src.size().max(dst.size())).is_ok() && !is_wide(desc);
    if !moves || !is_near || own.strides().is_none() || Value::of(desc, true) != Value::F32 {
        return None;
    }
    let &[outputs, channels, ref taps @ ..] = &own.dims()[..] else { return None };
    let outputs = outputs / groups;
    let mut space = Space::default();
    let group = space.push("g", groups);
    let panel = space.push("panel", outputs.div_ceil(width));
    let lane = space.push("lane", width);
    let channel = space.push("c", channels);
    let taps: Vec<usize> =
        taps.iter().zip(["k0", "k1", "k2"]).map(|(&extent, name)| space.push(name, extent)).collect();
    let output = Index::sum(&[(group, outputs), (panel, width), (lane, 1)]);
    let each_tap = taps.iter().map(|&tap| Index::of(tap));
    let index: Vec<Index> = [output, Index::of(channel)].into_iter().chain(each_tap).collect();
    space.operand("WEIGHTS", Binding::Arg(arg), own, &index);
    let inner: Vec<usize> = taps.iter().copied().chain(iter::once(channel)).collect();
    let panels = Panels { panel, lane, columns: outputs, inner: &inner, batch: group..group + 1 };
    let launches = panels.copies(&space, way, false, device)?;
    Some(Planned { scratchpad: 0, launches })
}

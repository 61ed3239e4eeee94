//! Convolutions by register tiles along the width, of operands in f32 (`convolution/blocked.cl`).

use anydnn_backend::DataType;

use super::{Order, Shape};
use crate::plan::DeviceTraits;
use crate::primitive::choice::Planned;
use crate::primitive::matmul::tile;
use crate::primitive::panels::{self, Panels};
use crate::primitive::rows::CPU_LANES;
use crate::primitive::source::{Source, is_contiguous};
use crate::primitive::value::Value;
use crate::primitive::window::WINDOW;

const BLOCKED: &str = include_str!("../../../../../kernels/convolution/blocked.cl");

impl Shape<'_> {
    /// Register tiles that read positions a constant distance apart, of weights in panels or packed into them first.
    pub(super) fn blocked(&self, value: Value, device: &DeviceTraits, packing: bool) -> Option<Planned> {
        let plain =
            self.desc.src().data_type() == DataType::F32 && self.desc.attributes().dequantize.is_empty();
        let line = self.window.dst.last().copied().unwrap_or(1);
        if value != Value::F32 || !plain || self.window.transposed || line * self.terms() == 0 {
            return None;
        }
        let outputs = self.outputs;
        let own_panels = self.panel_width();
        let width = own_panels.unwrap_or_else(|| panels::width(outputs));
        let (mut space, outer) = self.space(Order::Spatial(Some(width)));
        let [group, panel, lane, channel] =
            ["g", "panel", "lane", "c"].map(|name| space.variable(name).unwrap_or(outer));
        if !space.has_steps(lane, CPU_LANES) {
            return None;
        }
        let mut planned = Planned { scratchpad: 0, launches: Vec::new() };
        let in_place = own_panels.is_some() || outputs.is_multiple_of(width);
        if packing {
            let inner = [channel + 1, channel + 2, channel + 3, channel];
            let panels = Panels { panel, lane, columns: outputs, inner: &inner, batch: group..group + 1 };
            let packed = panels.pack(&mut space, self.wide, device)?;
            planned = Planned { scratchpad: packed.bytes, launches: packed.launches };
        } else if !in_place
            || !is_contiguous(&space, "WEIGHTS", lane)
            || self.weights.data_type() != DataType::F32
        {
            return None;
        }
        let (ow, kw) = (space.variable("ow")?, space.variable("kw")?);
        let step = |name: &str, v: usize| space.coefficient(name, v);
        let (c_step, weights_step) = (step("SRC0", channel)?, step("WEIGHTS", channel)?);
        // The terms of taps side by side follow each other in both operands.
        let merged = (step("SRC0", kw)?, step("WEIGHTS", kw)?)
            == (c_step * self.channels, weights_step * self.channels);
        let taps = self.window.kernel.last().copied().unwrap_or(1);
        let vectors = width / CPU_LANES;
        let most = [14, 14, 9, 7][vectors - 1];
        let tiles = line.div_ceil(most);
        let (least, more) = (line / tiles, line % tiles);
        let each: Vec<String> = (0..vectors).map(|j| format!("X(i, {j})")).collect();
        let mut source = Source::new(&space, value, (CPU_LANES, Some(lane)), self.wide, true);
        source
            .declare("DECLARE_PANEL", &space, group..panel + 1)
            .declare("DECLARE_LINE", &space, 0..ow)
            .define("EACH_V(X, i)", each.join(" "))
            .define("PANEL", width)
            .define("GROUP_OUTPUTS", outputs)
            .define("RUN_TAPS", if merged { taps } else { 1 })
            .define("TILES", tiles)
            .define("TILES_MORE", more)
            .define("TILE_LEAST", least)
            .define("TILE_MOST", least + usize::from(more > 0))
            .define("A_SPACE", "__global")
            .define("A_STEP_M", format!("(idx){}", step("SRC0", ow)?))
            .define("A_STEP_K", format!("(idx){c_step}"))
            .define("B_SPACE", "__global")
            .define("B_STEP_K", format!("(idx){weights_step}"))
            .define("B_AT(j)", "((j) * 16)");
        self.define(&mut source, &space, &[]);
        let alias = |name: &str, other: &str| format!("#define {name} {other}\n");
        let files = [
            tile("tile_one", 1),
            if least > 1 { tile("tile_least", least) } else { alias("tile_least", "tile_one") },
            if more > 0 { tile("tile_more", least + 1) } else { alias("tile_more", "tile_least") },
            if least > 2 && taps > 1 { tile("tile_edge", least - 1) } else { alias("tile_edge", "tile_one") },
        ];
        let files: Vec<&str> =
            std::iter::once(WINDOW).chain(files.iter().map(String::as_str)).chain([BLOCKED]).collect();
        let global = [space.count(group..panel + 1), space.count(0..ow), 1];
        planned.launches.push(source.launch("convolution_blocked", &files, global, Some([1, 1, 1])));
        Some(planned)
    }
}

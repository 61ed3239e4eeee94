//! Convolutions of windows of 3 x 3 by Winograd's transforms (`convolution/winograd.cl`), of weights in a layout of their own.

use std::borrow::Cow;

use anydnn_backend::{Arg, DataType, MemoryDesc, PrimitiveDesc};

use super::{Order, Shape};
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::choice::Planned;
use crate::primitive::epilogue::{EPILOGUE, Epilogue};
use crate::primitive::numbers::any_quotient;
use crate::primitive::opaque::{PANEL, PLACES, TAPS, is_transformed, transformed};
use crate::primitive::panels;
use crate::primitive::rows::{CPU_LANES, is_cpu};
use crate::primitive::source::{Source, is_contiguous};
use crate::primitive::space::{Address, Binding, Index, Space};
use crate::primitive::unit_panels::place;
use crate::primitive::value::Value;
use crate::primitive::window::WINDOW;

const WINOGRAD: &str = anydnn_kernels::text("convolution/winograd.cl");
const STORE: &str = anydnn_kernels::text("convolution/store.cl");
const WEIGHTS: &str = anydnn_kernels::text("convolution/winograd_weights.cl");

/// Results along each side of a tile.
const SIDE: usize = 2;
/// Register tiles where registers hold many vectors of sums, and few.
const MANY_SUMS: Block = Block { tiles: 14, few: 7, at_once: 2, registers: 1 };
const FEW_SUMS: Block = Block { tiles: 6, few: 3, at_once: 1, registers: 2 };
/// Channels below which the transforms take as long as the products that they save.
const LEAST_CHANNELS: usize = 32;
/// Cycles of a core: to transform a tile's vector of channels, to finish a tile of a panel, and for a vector's products of a term, with what
/// is beside them. Lines of weights that a second-level cache keeps take few, others many.
const TRANSFORM: usize = 90;
const FINISH: usize = 130;
const PRODUCTS: [usize; 2] = [10, 12];
const LINE: [usize; 2] = [2, 10];
/// Bytes of weights that such a cache keeps while blocks pass, and of transformed blocks that it keeps while panels pass.
const NEAR_WEIGHTS: usize = 512 << 10;
const NEAR_BLOCKS: usize = 1 << 20;
/// Work-items for each core, beyond which one takes several groups of blocks after the other.
const ITEMS: usize = 8;

/// Tiles that are transformed and multiplied together.
#[derive(Clone, Copy, Debug)]
struct Block {
    tiles: usize,
    /// Of a small block.
    few: usize,
    /// Vectors of a panel that are multiplied at once.
    at_once: usize,
    /// Registers of a vector.
    registers: usize,
}

/// How work-items share the blocks and the panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    /// Blocks that are transformed at once, and all that an item takes.
    group: usize,
    item_blocks: usize,
    item_panels: usize,
    /// Cycles until all are done.
    time: usize,
}

impl Shape<'_> {
    /// The layout of weights that are multiplied in transformed form, where that takes less time than sums of products.
    pub(super) fn winograd_layout(&self, device: &DeviceTraits) -> Option<MemoryDesc> {
        let serves = self.desc.attributes().winograd
            && self.suits_winograd(device)
            && self.saves_by_transforms(device);
        // What offsets of 32 bits do not reach would be another program.
        let is_near = |own: &MemoryDesc| i32::try_from(own.size()).is_ok();
        serves.then(|| transformed(self.weights)).flatten().filter(is_near)
    }

    fn suits_winograd(&self, device: &DeviceTraits) -> bool {
        let window = &self.window;
        let all = |values: &[usize], value: usize| values.iter().all(|&own| own == value);
        let is_f32 = |operand: &MemoryDesc| operand.data_type() == DataType::F32;
        is_cpu(device)
            && self.desc.attributes().dequantize.is_empty()
            && [self.desc.src(), self.weights, self.desc.dst()].into_iter().all(is_f32)
            && self.groups == 1
            && !window.transposed
            && window.kernel == TAPS
            && all(window.strides, 1)
            && all(window.dilations, 1)
            && self.channels >= LEAST_CHANNELS
            && self.outputs >= LEAST_CHANNELS
            && self.has_channels_last()
            && !self.wide
    }

    /// Whether all of it takes clearly less time than sums of products.
    fn saves_by_transforms(&self, device: &DeviceTraits) -> bool {
        let positions = self.desc.dst().elements() / self.outputs;
        let taps: usize = TAPS.iter().product();
        let vectors = positions * taps * self.channels * self.outputs.div_ceil(CPU_LANES);
        // Two products at a time, and what is beside them.
        let direct = vectors * self.block().registers * 5 / (8 * device.compute_units);
        // One panel alone does not pay for what is transformed where memory is slow.
        self.tiles().iter().product::<usize>() >= MANY_SUMS.tiles
            && self.outputs > PANEL
            && self.share(device).time * 6 < direct * 5
    }

    /// The share that takes the least time.
    fn share(&self, device: &DeviceTraits) -> Share {
        let (blocks, panels, units) = (self.blocks(), self.outputs.div_ceil(PANEL), device.compute_units);
        let tiles = self.tiles().iter().product::<usize>();
        let Block { tiles: most_tiles, few, registers, .. } = self.block();
        let computed = if tiles.div_ceil(blocks.max(1)) > few { most_tiles } else { few };
        let vectors = self.channels.div_ceil(CPU_LANES);
        let transform = computed * vectors * TRANSFORM * registers;
        let terms = PLACES * self.channels;
        let near = usize::from(panels * PANEL * terms * size_of::<f32>() > NEAR_WEIGHTS);
        let weights = terms * (PANEL / CPU_LANES) * LINE[near];
        // Of two vectors, at two a cycle.
        let products = registers * computed * (terms * PRODUCTS[1] / PRODUCTS[0] + FINISH);
        let block_bytes = PLACES * most_tiles * vectors * CPU_LANES * size_of::<f32>();
        let most = (NEAR_BLOCKS / block_bytes.max(1)).clamp(1, blocks.max(1));
        let shares = (1..=most).flat_map(|group| {
            (1..=panels).map(move |item_panels| {
                let items = blocks.div_ceil(group) * panels.div_ceil(item_panels);
                let item = group * transform + item_panels * (group * products + weights);
                let groups = blocks.div_ceil(group);
                let item_blocks = group * groups.div_ceil(units * ITEMS).max(1);
                Share { group, item_blocks, item_panels, time: items.div_ceil(units) * item }
            })
        });
        let one = Share { group: 1, item_blocks: 1, item_panels: panels, time: usize::MAX };
        shares.min_by_key(|share| share.time).unwrap_or(one)
    }

    /// Tiles of the images, of their height and of their width.
    fn tiles(&self) -> [usize; 3] {
        let [height, width] = [0, 1].map(|i| self.window.dst[i].div_ceil(SIDE));
        [self.desc.src().dims()[0], height, width]
    }

    fn block(&self) -> Block {
        if panels::widest(self.sums) == 1 { FEW_SUMS } else { MANY_SUMS }
    }

    fn blocks(&self) -> usize {
        self.tiles().iter().product::<usize>().div_ceil(self.block().tiles)
    }

    /// Blocks of tiles by panels of output channels.
    pub(super) fn winograd(&self, value: Value, device: &DeviceTraits) -> Option<Planned> {
        if !is_transformed(self.weights) || value != Value::F32 || !self.suits_winograd(device) {
            return None;
        }
        let plain = MemoryDesc::new(self.weights.dims().clone(), DataType::F32);
        let shape = Shape { weights: &plain, ..*self };
        let (mut space, outer) = shape.space(Order::Spatial(Some(PANEL)));
        let [image, ow, of_group, panel, lane, channel, kh, kw] =
            ["image", "ow", "g", "panel", "lane", "c", "kh", "kw"]
                .map(|name| space.variable(name).unwrap_or(outer));
        let nothing = Address::linear(vec![0; space.loops.len()]);
        place(&mut space, "WEIGHTS", Binding::Arg(Arg::Weights), nothing);
        if !space.has_steps(lane, CPU_LANES) || !is_contiguous(&space, "SRC0", channel) {
            return None;
        }
        self.complete_bias(&mut space, lane)?;
        let listed = Epilogue::of(self.desc, &mut space, lane);
        let is_listed = listed.is_some();
        let epilogue = listed.unwrap_or_else(|| Epilogue::none(self.desc, &mut space));
        let transformed = Address::linear(vec![0; space.loops.len()]);
        space.addressed("TRANSFORMED", Binding::Scratchpad(0), DataType::F32, transformed);
        space.complete = Some(lane);
        let step = |name: &str, v: usize| space.coefficient(name, v);
        let is_plain = is_listed && is_contiguous(&space, "DST", lane);

        let [images, tiles_h, tiles_w] = self.tiles();
        let (tiles, blocks) = (images * tiles_h * tiles_w, self.blocks());
        let panels = self.outputs.div_ceil(PANEL);
        let Share { group, item_blocks, item_panels, .. } = self.share(device);
        let (items, parts) = (blocks.div_ceil(item_blocks), panels.div_ceil(item_panels));
        let item_floats = group * PLACES * self.block().tiles * self.channels.next_multiple_of(CPU_LANES);
        let scratchpad = items * parts * item_floats * size_of::<f32>();

        let wide = i32::try_from(scratchpad).is_err();
        let mut source = Source::new(&space, value, (CPU_LANES, Some(lane)), wide, true);
        source
            .gains(10, 2 * self.desc.dst().elements() * self.terms())
            .declare("DECLARE_LINE", &space, image..ow)
            .declare("DECLARE_PANEL", &space, of_group..panel + 1)
            .define("PLACES", PLACES)
            .define("VECTORS", PANEL / CPU_LANES)
            .define("TILES", self.block().tiles)
            .define("FEW_TILES", self.block().few)
            .define("AT_ONCE", self.block().at_once)
            .number_of("BLOCK_TILES", tiles / blocks)
            .number_of("BLOCKS_MORE", tiles % blocks)
            .number_of("TILES_H", tiles_h)
            .number_of("TILES_W", tiles_w)
            .define("BY_TILES_H(t)", any_quotient("(t)", tiles_h))
            .define("BY_TILES_W(t)", any_quotient("(t)", tiles_w))
            .number_of("BLOCKS", blocks)
            .number_of("GROUP", group)
            .number_of("ITEM_BLOCKS", item_blocks)
            .number_of("ITEM_ROOM", item_floats)
            .number_of("PARTS", parts)
            .define("BY_PARTS(t)", any_quotient("(t)", parts))
            .number_of("ITEM_PANELS", item_panels)
            .number_of("PANELS", panels)
            .number_of("OUTPUTS", self.outputs)
            .number_of("SRC_ROW_STEP", step("SRC0", kh)?)
            .number_of("SRC_PLACE_STEP", step("SRC0", kw)?)
            .number_of("DST_STEP", step("DST", ow).unwrap_or(0))
            .number_of("HAS_BIAS", i32::from(self.desc.find(Arg::Bias).is_some()))
            .number_of("PLAIN", i32::from(is_plain));
        self.define_operands(&mut source, &space, &[]);
        if is_listed {
            source.no_post_ops();
        } else {
            source.post_ops(self.desc);
        }
        epilogue.define(&mut source, &space, ow);
        let files: Vec<Cow<'static, str>> = [WINDOW, EPILOGUE, STORE, WINOGRAD].map(Cow::from).to_vec();
        let global = [items * parts, 1, 1];
        let launch = source.launch("convolution_winograd", &files, global, Some([1, 1, 1]));
        Some(Planned { scratchpad, launches: vec![launch] })
    }
}

/// Prepares weights in that layout; none where they are not f32, or change otherwise.
pub(in crate::primitive) fn prepare(desc: &PrimitiveDesc) -> Option<Launch> {
    let (src, dst) = (desc.src(), desc.dst());
    let &[outputs, channels, ref taps @ ..] = &src.dims()[..] else { return None };
    let attributes = desc.attributes();
    let moves = attributes.post_ops.is_empty() && attributes.dequantize.is_empty() && desc.args().len() == 2;
    if !is_transformed(dst) || !moves || src.data_type() != DataType::F32 || *taps != TAPS {
        return None;
    }
    let &[_, _, row, tap] = src.strides()? else { return None };
    let mut space = Space::default();
    let [o, c] = [("o", outputs), ("c", channels)].map(|(name, extent)| space.push(name, extent));
    space.operand(
        "SRC0",
        Binding::Arg(Arg::SRC),
        src,
        &[Index::of(o), Index::of(c), Index::default(), Index::default()],
    );
    let address = Address::linear(vec![0; space.loops.len()]);
    space.addressed("DST", Binding::Arg(Arg::DST), DataType::F32, address);
    let wide = i32::try_from(src.size().max(dst.size())).is_err();
    let mut source = Source::new(&space, Value::F32, (1, None), wide, true);
    source
        .general()
        .define("PLACES", PLACES)
        .define("PANEL", PANEL)
        .number_of("OUTPUTS", outputs)
        .number_of("CHANNELS", channels)
        .define("BY_CHANNELS(t)", any_quotient("(t)", channels))
        .number_of("TAP_H_STEP", row)
        .number_of("TAP_W_STEP", tap);
    let global = [outputs.div_ceil(PANEL) * channels, 1, 1];
    Some(source.launch("convolution_winograd_weights", &[WEIGHTS], global, Some([1, 1, 1])))
}

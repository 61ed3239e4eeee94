//! Convolution and its transpose, which differ in where a tap's source element is and in the order of the weights' channels.
//!
//! Variants: by the units of `units.rs` (CPUs: panels of operands of one or two bytes, `-packing` copies weights first; other devices: large
//! tiles), `winograd` (CPUs: windows of 3 x 3 in f32, where attributes permit it), `blocked` (CPUs: register tiles along the width, in f32),
//! `vector` (CPUs: register tiles of vectors along the output channels, weights in panels), `depthwise-flat` (few channels) and
//! `depthwise-rows` (CPUs; `depthwise-beside` of copies, where channels lie elsewhere; `grouped-rows` of groups of two or four channels), `depthwise-strip` (other devices) and `depthwise`
//! (channels last: lanes along the channels), `simt` and `tiled` (other devices: an implicit matrix product) and `ref` (anything).

mod beside;
mod blocked;
mod copies;
mod depthwise_flat;
mod depthwise_rows;
mod depthwise_strip;
mod dequantized;
mod dots;
pub(super) mod groups;
#[cfg(test)]
mod groups_tests;
mod items;
mod line_tiles;
mod lines;
mod packed;
#[cfg(test)]
mod packed_tests;
mod spread;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod transposed_tests;
mod turned;
mod vector_share;
mod ways;
pub(super) mod winograd;
#[cfg(test)]
mod winograd_tests;

use anydnn_backend::op::{Convolution, Deconvolution};
use anydnn_backend::{Arg, DataType, Dims, Layout, MemoryDesc, Op, PrimitiveDesc, Quantized, Result};

use self::spread::Spread;
use self::turned::Along;
use self::vector_share::VectorShare;
use super::choice::{Choice, Choices, Planned, Wanted};
use super::epilogue;
use super::gemm::Product;
use super::matmul::MANY_TERMS;
use super::numbers::mark;
use super::opaque::{GroupPanels, is_transformed};
use super::panels::{self, Panels};
use super::pointwise::{is_wide, padding};
use super::rows::{CPU_LANES, Rows, is_cpu};
use super::source::{Source, add_post_ops, is_contiguous};
use super::space::{Address, Binding, Index, Space};
use super::sums::{accumulator, define_bias, fits_f32, is_real};
use super::tiles::{self, Tiles};
use super::unit_panels::Unit;
use super::value::Value;
use super::window::{WINDOW, Window};
use super::{Planner, quantized};
use crate::capability::instruction::Multiplicand;
use crate::plan::{DeviceTraits, Launch};

const REFERENCE: &str = anydnn_kernels::text("convolution/reference.cl");
const DEPTHWISE: &str = anydnn_kernels::text("convolution/depthwise.cl");
const VECTOR: &str = anydnn_kernels::text("convolution/vector.cl");
/// Multiply-adds from which on two more launches take less time than the reference.
const WIDENING_WORK: usize = 1 << 15;

/// The layout for weights `[O, C / groups, kernel..]` that the caller leaves open: panels of the result's channels where the vector
/// variant reads them in place, taps outermost for depthwise ones, row-major else.
pub(super) fn weights_layout(
    desc: &PrimitiveDesc,
    groups: usize,
    weights: &MemoryDesc,
    device: &DeviceTraits,
) -> Result<MemoryDesc> {
    let rank = weights.rank();
    let transposed = matches!(desc.op(), Op::Deconvolution(_));
    let (first, second) = (weights.dims()[0] / groups, weights.dims()[1]);
    let outputs = if transposed { second } else { first };
    let taps: String = (2..rank).map(|axis| char::from(b'a' + axis as u8)).collect();
    if !transposed && channels_last(desc, device).is_some() {
        return MemoryDesc::with_tag(weights.dims().clone(), weights.data_type(), &format!("{taps}ba"));
    }
    if let Op::Convolution(op) = desc.op()
        && weights.elements() > 0
    {
        let shape = Shape::new(desc, op, device);
        if let Some(transformed) = shape.winograd_layout(device) {
            return Ok(transformed);
        }
        // A filter a channel is none.
        let is_no_product = shape.suits_flat() && fits_f32(desc, shape.terms());
        let parts = || if is_no_product { None } else { shape.liked_parts_tag(device) };
        let loose = || shape.likes_loose(device).then(|| format!("{taps}ba"));
        let tag = if shape.likes_dots(device) { Some(format!("a{taps}b")) } else { parts().or_else(loose) };
        if let Some(tag) = tag {
            return MemoryDesc::with_tag(weights.dims().clone(), weights.data_type(), &tag);
        }
    }
    if let Op::Deconvolution(op) = desc.op()
        && is_cpu(device)
        && is_real(desc)
        && weights.elements() > 0
    {
        let shape = Shape::transposed(desc, op, device);
        let is_f32 = [desc.src(), weights].iter().all(|operand| operand.data_type() == DataType::F32);
        let spread = is_f32.then(|| shape.spread_tag()).flatten();
        if let Some(tag) = spread.or_else(|| shape.likes_dots(device).then(|| format!("b{taps}a"))) {
            return MemoryDesc::with_tag(weights.dims().clone(), weights.data_type(), &tag);
        }
    }
    let terms = weights.dims()[2..].iter().product();
    let depthwise = first == 1 && second == 1 && fits_f32(desc, terms);
    if !is_cpu(device) || !(is_real(desc) || depthwise) || weights.elements() == 0 {
        return Ok(weights.to_row_major());
    }
    let is_f32 = [desc.src(), weights].iter().all(|operand| operand.data_type() == DataType::F32);
    let width = match desc.op() {
        Op::Convolution(op) if is_f32 => Shape::new(desc, op, device).best_panel_width(),
        _ => panels::width(outputs, panels::sums(device)),
    };
    // A single filter of one channel has no others to lie beside.
    let least = if is_f32 { 1 } else { CPU_LANES / 2 };
    let tag = if first == 1 && second == 1 && (groups > 1 || transposed || !is_f32) {
        format!("{taps}ba")
    } else if transposed && outputs >= least {
        format!("B{taps}a{width}b")
    } else if !transposed && outputs >= least && (groups == 1 || outputs.is_multiple_of(width)) {
        format!("A{taps}b{width}a")
    } else {
        let shape = match desc.op() {
            Op::Convolution(op) if is_f32 => Some(Shape::new(desc, op, device)),
            _ => None,
        };
        if let Some(tag) = shape.as_ref().and_then(|shape| shape.grouped_rows_tag(device)) {
            return MemoryDesc::with_tag(weights.dims().clone(), weights.data_type(), &tag);
        }
        let panels = shape.and_then(|shape| shape.group_panels(width, device));
        return Ok(panels.unwrap_or_else(|| weights.to_row_major()));
    };
    MemoryDesc::with_tag(weights.dims().clone(), weights.data_type(), &tag)
}

/// The layout of images with the channels innermost, where tensor cores like it best.
pub(super) fn channels_last(desc: &PrimitiveDesc, device: &DeviceTraits) -> Option<String> {
    let src = desc.src();
    let factor = match src.data_type() {
        DataType::F16 => Multiplicand::F16,
        DataType::BF16 => Multiplicand::BF16,
        _ => return None,
    };
    let taps: String = (2..src.rank()).map(|axis| char::from(b'a' + axis as u8)).collect();
    device.has_tiles_of(factor).then(|| format!("a{taps}b"))
}

/// The implementations of a convolution whose layouts are resolved.
pub(super) fn choices(
    desc: &PrimitiveDesc,
    op: &Convolution,
    device: &DeviceTraits,
    wanted: Wanted<'_>,
) -> Vec<Choice> {
    Shape::new(desc, op, device).choices(device, wanted)
}

/// The implementations of a transposed convolution whose layouts are resolved.
pub(super) fn choices_transposed(
    desc: &PrimitiveDesc,
    op: &Deconvolution,
    device: &DeviceTraits,
    wanted: Wanted<'_>,
) -> Vec<Choice> {
    Shape::transposed(desc, op, device).choices(device, wanted)
}

/// A convolution with its loops: `image`, `g`, `og` (or `panel` and `lane`) and `od`, `oh`, `ow` over the result, `c` and `kd`,
/// `kh`, `kw` over the terms of a sum.
struct Shape<'a> {
    desc: &'a PrimitiveDesc,
    weights: &'a MemoryDesc,
    groups: usize,
    /// The result's channels of a group.
    outputs: usize,
    /// The source's channels of a group.
    channels: usize,
    window: Window<'a>,
    wide: bool,
    /// How many vectors of sums registers hold.
    sums: usize,
    /// Taps that are loops over the result.
    spread: Option<Spread<'a>>,
    /// What the loops over the window are, where that is not the spatial dimensions in their order.
    along: Along<'a>,
}

/// The order of the loops over the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// `image, g, og, od, oh, ow`.
    Channels,
    /// `image, od, oh, ow, g, og`, or with the panels' width `panel` and `lane` instead of `og`.
    Spatial(Option<usize>),
    /// `g, image, od, oh, ow, og`.
    Product,
    /// The same, with the channels innermost in the sums.
    ByTaps,
}

impl<'a> Shape<'a> {
    fn new(desc: &'a PrimitiveDesc, op: &'a Convolution, device: &DeviceTraits) -> Self {
        let steps = [&op.strides, &op.dilations, &op.pads_begin, &op.pads_end];
        Self::of(desc, steps, (op.groups, false), device)
    }

    fn transposed(desc: &'a PrimitiveDesc, op: &'a Deconvolution, device: &DeviceTraits) -> Self {
        let steps = [&op.strides, &op.dilations, &op.pads_begin, &op.pads_end];
        Self::of(desc, steps, (op.groups, true), device)
    }

    fn of(
        desc: &'a PrimitiveDesc,
        [strides, dilations, pads_begin, pads_end]: [&'a Dims; 4],
        (groups, transposed): (usize, bool),
        device: &DeviceTraits,
    ) -> Self {
        let weights = desc.find(Arg::Weights).unwrap_or(desc.src());
        let (src, dst) = (&desc.src().dims()[2..], &desc.dst().dims()[2..]);
        let kernel = &weights.dims()[2..];
        let (from, to) = if transposed { (1, 0) } else { (0, 1) };
        Self {
            desc,
            weights,
            groups,
            outputs: weights.dims()[from] / if transposed { 1 } else { groups },
            channels: weights.dims()[to] / if transposed { groups } else { 1 },
            window: Window { src, dst, kernel, strides, dilations, pads_begin, pads_end, transposed },
            wide: is_wide(desc),
            sums: panels::sums(device),
            spread: None,
            along: Along::Spatial,
        }
    }
}

impl Shape<'_> {
    fn choices(&self, device: &DeviceTraits, wanted: Wanted<'_>) -> Vec<Choice> {
        let mut choices = Choices::new(self.desc, wanted);
        self.offer(&mut choices, Value::of(self.desc, true), device);
        choices.followed_by(|| padding(self.desc.dst(), Arg::DST, device))
    }

    /// The images that are no dimension of the window.
    fn images(&self) -> usize {
        self.along.images(self.desc.src().dims()[0])
    }

    /// The number of terms of a sum.
    fn terms(&self) -> usize {
        self.channels * self.window.kernel.iter().product::<usize>()
    }

    /// Offers the variants that apply, best first.
    fn offer(&self, choices: &mut Choices<'_>, value: Value, device: &DeviceTraits) {
        let (outputs, channels) = (self.outputs, self.channels);
        if is_transformed(self.weights) {
            choices.offer("winograd", "weights are transformed", || self.winograd(value, device));
            return;
        }
        if GroupPanels::of(self.weights).is_some() {
            let reason = "weights of groups lie in panels";
            choices.offer("blocked", reason, || self.blocked(value, device, false));
            return;
        }
        if is_cpu(device) {
            if is_real(self.desc) && self.window.transposed {
                choices.offer("spread", "taps neither overlap nor leave gaps", || self.spread(value, device));
            }
            choices.offer("dots", "few outputs of many channels, which lie side by side", || {
                self.dots(value, device)
            });
            let is_depthwise = fits_f32(self.desc, self.terms()) && outputs == 1 && channels == 1;
            if is_depthwise {
                choices.offer("depthwise-flat", "a filter a channel, few channels, which lie last", || {
                    self.depthwise_flat(value, device)
                });
            }
            for unit in Unit::all(device) {
                let ([in_place, packing], reason) = (unit.panels.variants, unit.panels.reason);
                choices.offer(in_place, reason, || self.packed(unit, device, false));
                choices.offer(packing, reason, || self.packed(unit, device, true));
            }
            if is_depthwise {
                choices.offer("depthwise-rows", "a filter a channel, channels last, by rows", || {
                    self.depthwise_rows(value, device)
                });
                choices.offer("depthwise-beside", "a filter a channel, copied to have channels last", || {
                    self.depthwise_beside(value, device)
                });
                choices.offer("depthwise", "a filter a channel, channels last", || {
                    self.depthwise(value, device)
                });
            }
            choices.offer("grouped-rows", "groups of few channels, channels last, by rows", || {
                self.grouped_rows(value, device)
            });
            let offer_vector = |choices: &mut Choices<'_>| {
                choices.offer("vector", "weights lie in panels", || self.vector(value, device, false));
                choices.offer("vector-packing", "weights do not lie in panels", || {
                    self.vector(value, device, true)
                });
            };
            // Halves of few terms are read as they are in less time than they are copied.
            let by_vectors = is_real(self.desc) && (outputs >= CPU_LANES / 2 || self.window.transposed);
            let is_f32 = self.desc.src().data_type() == DataType::F32;
            let first = by_vectors && self.terms() < CPU_LANES && (!is_f32 || self.needs_no_tiles());
            if first {
                offer_vector(choices);
            }
            if is_real(self.desc) && self.pays_in_panels(outputs) {
                choices.offer("blocked", "weights lie in panels", || self.blocked(value, device, false));
                if self.panel_width(CPU_LANES / 2).is_none() {
                    let reason = "weights do not lie in panels";
                    choices.offer("blocked-packing", reason, || self.blocked(value, device, true));
                }
                choices.offer("blocked-widening", "operands are copied as f32 first", || {
                    self.blocked(value, device, true)
                });
            }
            choices.offer("dequantized", "operands are dequantised into working memory first", || {
                self.dequantized(value, device)
            });
            let reason = "channels that the result has apart are copied there";
            choices.offer("vector-beside", reason, || self.vector_beside(value, device));
            if by_vectors && !first {
                offer_vector(choices);
            }
            choices.offer("ref", "serves every layout and type", || Some(self.reference(value, device)));
            choices.offer("tiled", "meant for GPUs", || self.tiled(value, device));
            if is_depthwise {
                choices.offer("depthwise-strip", "meant for GPUs", || self.depthwise_strip(value, device));
            }
            return;
        }
        if fits_f32(self.desc, self.terms()) && value == Value::F32 && outputs == 1 && channels == 1 {
            choices.offer(
                "depthwise-strip",
                "a filter a channel, channels last, by strips of the width",
                || self.depthwise_strip(value, device),
            );
            choices.offer("depthwise", "a filter a channel, channels last", || self.depthwise(value, device));
        }
        let large = self.large(value);
        if outputs >= 16 && self.terms() >= 8 {
            large.offer(choices, device);
            choices
                .offer("tiled", "an implicit product by tiles in local memory", || self.tiled(value, device));
        }
        if self.terms() >= MANY_TERMS {
            large.offer(choices, device);
        }
        choices.offer("ref", "serves every layout and type", || Some(self.reference(value, device)));
        large.offer(choices, device);
        choices.offer("tiled", "too small to fill tiles", || self.tiled(value, device));
    }

    /// The loops and operands, and the number of loops over the result.
    fn space(&self, order: Order) -> (Space, usize) {
        self.space_of(order, self.desc.src())
    }

    /// The same with a source in another layout or type.
    fn space_of(&self, order: Order, source: &MemoryDesc) -> (Space, usize) {
        let (desc, channels, outputs) = (self.desc, self.channels, self.outputs);
        let mut space = Space::default();
        let window = match self.along {
            Along::Flat(window, _) => window,
            _ => &self.window,
        };
        let images = self.images();
        let (image, group, in_group, result);
        let mut spread_taps = None;
        match order {
            Order::Channels => {
                image = space.push("image", images);
                group = space.push("g", self.groups);
                in_group = vec![(space.push("og", outputs), 1)];
                result = window.push_result(&mut space);
            }
            Order::Spatial(width) => {
                image = space.push("image", images);
                result = window.push_result(&mut space);
                group = space.push("g", self.groups);
                in_group = match (width, self.spread) {
                    (None, _) => vec![(space.push("og", outputs), 1)],
                    (Some(width), Some(spread)) => {
                        let (column, taps) = spread.push(&mut space, width, outputs);
                        spread_taps = Some((spread, taps));
                        column
                    }
                    (Some(width), None) => {
                        spread::push_none(&mut space);
                        let panel = space.push("panel", outputs.div_ceil(width));
                        vec![(panel, width), (space.push("lane", width), 1)]
                    }
                };
            }
            Order::Product | Order::ByTaps => {
                group = space.push("g", self.groups);
                image = space.push("image", images);
                result = window.push_result(&mut space);
                in_group = vec![(space.push("og", outputs), 1)];
            }
        }
        let outer = space.loops.len();
        // Sums run over the taps first where channels are far apart in the source.
        let (channel, taps);
        if order == Order::ByTaps {
            taps = window.push_taps(&mut space);
            channel = space.push("c", channels);
        } else {
            channel = space.push("c", channels);
            taps = window.push_taps(&mut space);
        }
        let output = Index::sum(&[&[(group, outputs)], in_group.as_slice()].concat());
        let at = |channel: Index, spatial: &[Index]| self.along.place(Index::of(image), channel, spatial);
        let src_channel = Index::sum(&[(group, channels), (channel, 1)]);
        let src = at(src_channel.clone(), &window.source_index(&mut space, &result, &taps));
        space.operand("SRC0", Binding::Arg(Arg::SRC), source, &src);
        quantized::add(&mut space, desc, Quantized::Src(0), "SRC0", desc.src().dims(), &src);
        let mut filter = if window.transposed {
            let in_group = Index::sum(&in_group);
            vec![src_channel, in_group]
        } else {
            vec![output.clone(), Index::of(channel)]
        };
        let mut positions = result;
        if let Some((spread, spread_taps)) = spread_taps {
            filter = vec![Index::of(channel), Index::sum(&in_group)];
            positions = spread.positions(&positions, &spread_taps);
            filter.extend(spread_taps);
        } else {
            filter.extend(self.along.taps(&taps));
        }
        space.operand("WEIGHTS", Binding::Arg(Arg::Weights), self.weights, &filter);
        quantized::add(&mut space, desc, Quantized::Weights, "WEIGHTS", self.weights.dims(), &filter);
        if let Some(bias) = desc.find(Arg::Bias) {
            space.operand("BIAS", Binding::Arg(Arg::Bias), bias, std::slice::from_ref(&output));
        }
        let dst = at(output, &positions);
        space.operand("DST", Binding::Arg(Arg::DST), desc.dst(), &dst);
        add_post_ops(&mut space, desc, &dst);
        (space, outer)
    }

    /// Puts the result, which is not read as such, in the place of a bias that there is not: programs with and without have the same
    /// parameters. `lane` is the loop along vectors.
    fn complete_bias(&self, space: &mut Space, lane: usize) -> Option<()> {
        if self.desc.find(Arg::Bias).is_none() {
            let mut coefficients = vec![0; space.loops.len()];
            coefficients[lane] = 1;
            let address = Address::linear(coefficients);
            space.addressed("BIAS", Binding::Arg(Arg::DST), DataType::F32, address);
            let dst = space.operands.iter().position(|operand| operand.name == "DST")?;
            space.operands[dst..].rotate_right(1);
        }
        Some(())
    }

    fn reference(&self, value: Value, device: &DeviceTraits) -> Launch {
        let (space, outer) = self.space(Order::Channels);
        let rows = Rows::outputs(space, outer, value, device, None).complete(device);
        let terms = self.terms();
        let mut source = rows.source(value, self.wide, device, terms);
        source.define("ACC", accumulator(self.desc, terms, value));
        self.define_operands(&mut source, &rows.space, &[]);
        epilogue::define_all(&mut source, self.desc, value, device);
        define_bias(&mut source, self.desc);
        rows.launch(source, "convolution_reference", &[WINDOW, REFERENCE], device, terms)
    }

    /// Lanes along the groups, where they are contiguous.
    fn depthwise(&self, value: Value, device: &DeviceTraits) -> Option<Launch> {
        let (mut space, mut outer) = self.space(Order::Spatial(None));
        space.remove(space.variable("og")?);
        outer -= 1;
        space.remove(space.variable("c")?);
        let rows = if is_cpu(device) {
            Rows::outputs(space, outer, value, device, Some(("g", &["SRC0"])))
        } else {
            Rows::vectors_of_outputs(space, outer, ("g", &["SRC0"]))?.complete(device)
        };
        if !rows.space.has_steps(rows.lane?, rows.lanes) {
            return None;
        }
        let taps: usize = self.weights.dims()[2..].iter().product();
        let work = taps * rows.lanes;
        let mut source = rows.source(value, self.wide, device, work);
        self.define_operands(&mut source, &rows.space, &[]);
        epilogue::define_all(&mut source, self.desc, value, device);
        define_bias(&mut source, self.desc);
        Some(rows.launch(source, "convolution_depthwise", &[WINDOW, DEPTHWISE], device, work))
    }

    /// Register tiles of vectors along the output channels of a group, of weights in place or packed into panels first; none where an
    /// operand's layout has no use for them.
    fn vector(&self, value: Value, device: &DeviceTraits, packing: bool) -> Option<Planned> {
        let outputs = self.outputs;
        let own_panels = self.panel_width(CPU_LANES);
        let width = own_panels.unwrap_or_else(|| panels::width(outputs, self.sums));
        let (mut space, outer) = self.space(Order::Spatial(Some(width)));
        let [group, panel, lane, channel] =
            ["g", "panel", "lane", "c"].map(|name| space.variable(name).unwrap_or(outer));
        if !space.has_steps(lane, CPU_LANES) || packing && !self.pays_packed(outputs) {
            return None;
        }
        let mut launches = Vec::new();
        let mut scratchpad = 0;
        let in_place =
            is_contiguous(&space, "WEIGHTS", lane) && (own_panels.is_some() || outputs.is_multiple_of(width));
        if packing {
            // Taps outside, channels inside: the order of the kernel's loops.
            let inner = [channel + 1, channel + 2, channel + 3, channel];
            let panels = Panels { panel, lane, columns: outputs, inner: &inner, batch: group..group + 1 };
            let packed = panels.pack(&mut space, self.wide, device)?;
            scratchpad = packed.bytes;
            launches.extend(packed.launches);
        } else if !in_place {
            return None;
        }
        let line = self.window.dst.last().copied().unwrap_or(1);
        let mut source = Source::new(&space, value, (CPU_LANES, Some(lane)), self.wide, true);
        let most = (self.sums * CPU_LANES / width).clamp(1, 7);
        // Of a transposed one the positions that the same taps reach are taken together.
        let (turns, terms_each) = self.turns();
        let span = line.div_ceil(turns);
        let tile = panels::tile_rows(span, most);
        let span = if self.window.transposed { span.next_multiple_of(tile) } else { span };
        panels::repetitions(&mut source, tile, width / CPU_LANES);
        let ow = space.variable("ow")?;
        source
            .general()
            .gains(10, 2 * self.desc.dst().elements() * terms_each)
            .declare("DECLARE_PANEL", &space, group..panel + 1)
            .declare("DECLARE_LINE", &space, 0..ow)
            .define("PANEL", width)
            .number_of("GROUP_OUTPUTS", outputs)
            .define("C_STEP_SRC0", mark(space.coefficient("SRC0", channel)?))
            .define("C_STEP_WEIGHTS", mark(space.coefficient("WEIGHTS", channel)?));
        let terms: Vec<usize> = (outer..space.loops.len()).collect();
        self.define(&mut source, &space, &terms);
        let [panels, lines] = [space.count(group..panel + 1), space.count(0..ow)];
        let stays = panels::stays_near(panels * width, self.terms());
        let share = VectorShare::of([turns * span, tile, lines], panels, terms_each, stays, device);
        share.define(panels, lines, self.has_panels_inside(), &mut source);
        if self.window.transposed {
            source.number_of("SPAN", span);
        }
        source.number_of("LINES", lines);
        let global = [share.items(panels, lines), 1, 1];
        launches.push(source.launch("convolution_vector", &[WINDOW, VECTOR], global, Some([1, 1, 1])));
        Some(Planned { scratchpad, launches })
    }

    /// Whether work-items one after another share lines of the source; else panels of the weights, which are more.
    fn has_panels_inside(&self) -> bool {
        self.weights.elements() <= self.desc.src().elements()
    }

    /// In how many turns the positions of a line are taken, each of those that the same taps reach, and how many terms each has about.
    fn turns(&self) -> (usize, usize) {
        if !self.window.transposed {
            return (1, self.terms());
        }
        let apart: usize = self.window.strides.iter().product();
        (self.window.strides.last().copied().unwrap_or(1).max(1), self.terms().div_ceil(apart.max(1)))
    }

    /// The implicit matrix product with the channels innermost in the sums.
    fn large(&self, value: Value) -> Product<'_> {
        let (space, outer) = self.space(Order::ByTaps);
        let inside =
            if self.window.is_unpadded() { "true" } else { "INSIDE_DEPTH && INSIDE_HEIGHT && INSIDE_WIDTH" };
        let loops = Tiles { batch: 0..1, m: 1..outer - 1, n: outer - 1..outer, k: outer..outer + 4, inside };
        Product { desc: self.desc, space, loops, window: Some(&self.window), value, wide: self.wide }
    }

    /// An implicit matrix product of `[image * od * oh * ow, c * taps]` and the weights, per group.
    fn tiled(&self, value: Value, device: &DeviceTraits) -> Option<Launch> {
        let (space, outer) = self.space(Order::Product);
        let inside = if self.window.is_unpadded() {
            "(true)"
        } else {
            "INSIDE_DEPTH && INSIDE_HEIGHT && INSIDE_WIDTH"
        };
        // The terms are the channels and the taps of three dimensions.
        let tiles = Tiles { batch: 0..1, m: 1..outer - 1, n: outer - 1..outer, k: outer..outer + 4, inside };
        tiles::launch(self.desc, &space, &tiles, value, self.wide, device, |source| {
            self.window.define(source);
        })
    }

    /// The macros that the variants have in common; scales may wait for the end of the sums over the loops `terms`.
    fn define(&self, source: &mut Source, space: &Space, terms: &[usize]) {
        self.define_operands(source, space, terms);
        source.post_ops(self.desc);
        define_bias(source, self.desc);
    }

    /// The same without what comes after the sums.
    fn define_operands(&self, source: &mut Source, space: &Space, terms: &[usize]) {
        self.window.define(source);
        for name in ["SRC0", "WEIGHTS"] {
            quantized::define(source, space, name, terms);
        }
        source.number_of("CHANNELS", self.channels);
    }

    /// Whether register tiles pay: fewer outputs than half a vector of 16 bits take launches that widen and pack them.
    fn pays_in_panels(&self, outputs: usize) -> bool {
        let is_f32 = self.desc.src().data_type() == DataType::F32;
        let operations = self.desc.dst().elements().saturating_mul(self.terms());
        is_f32 || outputs >= CPU_LANES / 2 || operations >= WIDENING_WORK
    }

    /// Whether sums take longer one by one than launches that pack weights whose lanes leave most of a vector empty.
    fn pays_packed(&self, outputs: usize) -> bool {
        let operations = self.desc.dst().elements().saturating_mul(self.terms());
        outputs >= CPU_LANES / 2 || operations >= WIDENING_WORK
    }

    /// Whether sums of few terms of f32 are over before tiles pay: those of one tap, and of a few where they serve many outputs. A position or two
    /// take what other layers have, as models would compile a program more for them.
    fn needs_no_tiles(&self) -> bool {
        let taps: usize = self.window.kernel.iter().product();
        let few_positions = self.desc.dst().dims().elements() < CPU_LANES * self.outputs;
        !few_positions && (taps == 1 || taps <= 4 && self.outputs >= 4 * CPU_LANES)
    }

    /// The width of the panels that weights already lie in: blocks of the output channels alone, of so many lanes or a multiple of
    /// them, none of which spans two groups.
    fn panel_width(&self, lanes: usize) -> Option<usize> {
        if let Some(panels) = GroupPanels::of(self.weights) {
            return Some(panels.width);
        }
        let Layout::Blocked(blocking) = self.weights.layout() else { return None };
        let own = match self.spread {
            Some(spread) => spread.panel_axis(self.weights),
            None => usize::from(self.window.transposed),
        };
        let [(axis, block)] = *blocking.inner.as_slice() else { return None };
        let whole = axis == own && block % lanes == 0 && block <= 64;
        let apart = own != 0 || self.groups == 1 || self.outputs.is_multiple_of(block);
        (whole && apart).then_some(block)
    }
}

impl Planner for Convolution {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(choices(desc, self, device, wanted))
    }

    fn resolve(&self, desc: PrimitiveDesc, device: &DeviceTraits) -> Result<PrimitiveDesc> {
        let mut desc = with_weights_layout(desc, self.groups, device)?;
        let Some(layout) = channels_last(&desc, device) else { return Ok(desc) };
        for arg in [Arg::SRC, Arg::DST] {
            if let Some(open) = desc.find(arg).filter(|d| d.is_any()) {
                let layout = MemoryDesc::with_tag(open.dims().clone(), open.data_type(), &layout)?;
                desc = desc.resolved(arg, layout)?;
            }
        }
        Ok(desc)
    }
}

impl Planner for Deconvolution {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(choices_transposed(desc, self, device, wanted))
    }

    fn resolve(&self, desc: PrimitiveDesc, device: &DeviceTraits) -> Result<PrimitiveDesc> {
        with_weights_layout(desc, self.groups, device)
    }
}

/// The description with the layout that suits the weights best, where it is open.
fn with_weights_layout(desc: PrimitiveDesc, groups: usize, device: &DeviceTraits) -> Result<PrimitiveDesc> {
    let Some(open) = desc.find(Arg::Weights).filter(|weights| weights.is_any()) else { return Ok(desc) };
    let layout = weights_layout(&desc, groups, open, device)?;
    desc.resolved(Arg::Weights, layout)
}

//! Large products in tiles of registers, for matmul and convolution on GPUs: `simt` in f32 on any, `sub-groups` where there are such, `wgmma` by the tensor cores of NVIDIA's
//! Hopper. Where tiles are too few for the device, the sums are split among work-groups and a second launch adds up the parts; `wgmma` does so
//! with the tiles that would not fill the device after all others too.

mod integers;
mod shares;
#[cfg(test)]
mod shares_tests;
mod simt;
#[cfg(test)]
mod store_tests;
mod sub_groups;
#[cfg(test)]
mod tests;
mod wgmma;

use std::ops::Range;

pub(super) use self::shares::{LAUNCH_CLOCKS, UNIT_BYTES};

use anydnn_backend::{DataType, PrimitiveDesc};

use super::choice::{Choices, Planned};
use super::epilogue;
use super::numbers::always;
use super::pointwise::{self, Statements};
use super::quantized;
use super::rows::CPU_LANES;
use super::source::Source;
use super::space::{Address, Binding, Operand, Space, linear_text};
use super::sums::{accumulator, define_bias};
use super::tiles::Tiles;
use super::value::Value;
use super::window::{WINDOW, Window};
use crate::capability::units::Tile;
use crate::plan::{DeviceTraits, Launch};

/// A product to plan.
#[derive(Debug)]
pub(super) struct Product<'a> {
    pub(super) desc: &'a PrimitiveDesc,
    /// Its loops; the columns are one of them.
    pub(super) space: Space,
    pub(super) loops: Tiles,
    /// The window of a convolution.
    pub(super) window: Option<&'a Window<'a>>,
    pub(super) value: Value,
    pub(super) wide: bool,
}

/// How a kernel gets an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fetch {
    /// Several neighbours along K at once.
    Terms,
    /// Several neighbours along the rows (the columns of the result for the weights) at once.
    Rows,
    /// One by one.
    Element,
}

/// What a program serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serves {
    OneShape,
    /// All shapes, whose numbers come with the launch.
    Shapes,
    /// All shapes, and all functions that come last behind the sums.
    ShapesAndFunctions,
}

/// The longest vectors that results are stored by.
pub(super) const MOST_LANES: usize = 8;
/// What a product gains by a program of its own, as parts of its time: on an H100 one for every shape takes 1.07 of the time of small
/// convolutions, and from so many operations on up to 1.4.
const GAIN: u64 = 10;
const LARGE: usize = 1 << 28;
const LARGE_GAIN: u64 = 4;
/// The most parts of a sum that a work-item of the second launch loads before it adds the first of them.
const TOGETHER: usize = 8;

impl Product<'_> {
    /// Offers those by tensor cores alone, best first.
    pub(super) fn offer_tensor_cores(&self, choices: &mut Choices<'_>, device: &DeviceTraits) {
        if self.applies() {
            wgmma::offer(self, choices, device);
        }
    }

    /// Offers the implementations for large products, best first.
    pub(super) fn offer(&self, choices: &mut Choices<'_>, device: &DeviceTraits) {
        if !self.applies() {
            return;
        }
        wgmma::offer(self, choices, device);
        let units = if self.sums_floats() { sub_groups::Unit::all(self, device) } else { Vec::new() };
        let mut tiles: Vec<Tile> = units.iter().flat_map(|unit| unit.tiles(device)).collect();
        tiles.extend(simt::tiles(self, device));
        for (i, (tile, parts)) in self.ranked(&tiles, device).into_iter().enumerate() {
            let reason =
                if i == 0 { "a tile in registers that fits the size" } else { "another tile in registers" };
            choices.offer(tile.variant, reason, || match units.iter().find(|unit| unit.has(tile.variant)) {
                Some(unit) => Some(unit.plan(self, &tile, parts, device)),
                None => simt::plan(self, &tile, parts, device),
            });
        }
    }

    /// Whether tiles read weights whose rows are no whole vectors as fast as others.
    pub(super) fn copies_weights(&self, device: &DeviceTraits) -> bool {
        self.applies() && simt::copies_weights(self, device)
    }

    fn applies(&self) -> bool {
        let [m, n] = [&self.loops.m, &self.loops.n].map(|loops| self.space.count(loops.clone()));
        m > 0
            && n > 0
            && self.terms() > 0
            && self.space.find("SRC1").is_none()
            && self.value == Value::F32
            && self.loops.n.len() == 1
    }

    /// Whether the sums are floats, of whatever is exact in f32.
    fn sums_floats(&self) -> bool {
        accumulator(self.desc, self.terms(), self.value) == "float"
    }

    fn terms(&self) -> usize {
        self.space.count(self.loops.k.clone())
    }

    /// The number of results.
    fn results(&self) -> usize {
        self.space.count(0..self.loops.k.start)
    }

    /// Elements from a part of the results to the next: each starts where a whole vector may.
    fn part(&self) -> usize {
        self.results().next_multiple_of(MOST_LANES)
    }

    /// How an operand whose rows are these loops comes in chunks of several elements, each at a multiple of its length. The last chunk of a
    /// run may be cut short where copies can be.
    fn fetch(&self, name: &str, rows: &Range<usize>, chunk: usize, cut: bool) -> Fetch {
        self.fetch_aligned(name, rows, chunk, cut, chunk)
    }

    /// The same where chunks need be at multiples of so many elements only.
    fn fetch_aligned(&self, name: &str, rows: &Range<usize>, chunk: usize, cut: bool, grain: usize) -> Fetch {
        let always = self.loops.inside == "true";
        // Whether an element exists must not depend on the loop that runs through a chunk.
        let terms = always || self.space.loops[self.loops.k.end - 1].name == "c";
        if terms && self.lies_along(name, &self.loops.k, (chunk, cut), grain) {
            Fetch::Terms
        } else if (always || name != "SRC0") && self.lies_along(name, rows, (chunk, cut), grain) {
            Fetch::Rows
        } else {
            Fetch::Element
        }
    }

    /// Whether an operand's elements along some loops come in chunks of neighbours, each at a multiple of so many elements.
    fn lies_along(
        &self,
        name: &str,
        loops: &Range<usize>,
        (chunk, cut): (usize, bool),
        grain: usize,
    ) -> bool {
        let Some(Operand { address: Address::Linear { base, coefficients }, .. }) = self.space.find(name)
        else {
            return false;
        };
        let extent = |v: usize| self.space.loops[v].extent;
        let Some(last) = loops.clone().rev().find(|&v| extent(v) > 1) else { return false };
        let alone = loops.clone().all(|v| v == last || extent(v) == 1);
        let others = (0..coefficients.len()).filter(|&v| v != last && extent(v) > 1);
        coefficients[last] == 1
            && (extent(last).is_multiple_of(chunk) || (cut && alone))
            && others.map(|v| coefficients[v]).all(|c| c.is_multiple_of(grain))
            && base % grain as isize == 0
    }

    /// From a term of an operand to the next, in elements, where that is the same for all of them.
    fn stride(&self, name: &str) -> Option<usize> {
        let extent = |v: usize| self.space.loops[v].extent;
        let (mut stride, mut reach) = (None, 0);
        for v in self.loops.k.clone().rev().filter(|&v| extent(v) > 1) {
            let step = self.space.coefficient(name, v)?;
            if stride.is_some() && step != reach {
                return None;
            }
            stride = stride.or(Some(step));
            reach = step * extent(v);
        }
        stride.filter(|_| name != "SRC0" || self.loops.inside == "true")
    }

    /// Of a window each of whose slices of so many terms holds channels of one tap: the channels, the taps, and the offset of a term
    /// from the first one of its row.
    fn taps(&self, name: &str, slice: usize) -> Option<(usize, usize, String)> {
        let loops = &self.space.loops;
        // Under a transposed window no part of an offset belongs to the term alone.
        self.window.filter(|window| !window.transposed)?;
        let Address::Linear { coefficients, .. } = &self.space.find(name)?.address else { return None };
        let taps = self.space.count(self.loops.k.start..self.loops.k.end - 1);
        let last = loops.get(self.loops.k.end - 1).filter(|last| last.name == "c")?;
        if !last.extent.is_multiple_of(slice) || taps > 32 {
            return None;
        }
        let along = self.loops.k.clone().map(|v| (v, coefficients[v]));
        Some((last.extent, taps, linear_text(0, along, loops)))
    }

    /// Whether neighbours of an operand along some loops are closer in memory than those along K.
    fn is_closer(&self, name: &str, loops: &Range<usize>) -> bool {
        let closest = |loops: &Range<usize>| {
            let steps = loops.clone().filter_map(|v| self.space.coefficient(name, v));
            steps.filter(|&c| c > 0).min().unwrap_or(usize::MAX)
        };
        closest(loops) < closest(&self.loops.k)
    }

    /// Whether vectors along the columns reach every operand of the epilogue.
    fn has_vectors(&self, lanes: usize) -> bool {
        // Scales that wait for the end of the sums are read there.
        let waits = |o: &Operand| o.name.starts_with("SCALE_") && self.is_same_for_terms(o);
        let is_factor = |o: &Operand| {
            let of_factor = o.name.ends_with("_SRC0") || o.name.ends_with("_WEIGHTS");
            matches!(&*o.name, "SRC0" | "WEIGHTS") || of_factor && !waits(o)
        };
        let mut epilogue = self.space.operands.iter().filter(|o| !is_factor(o));
        epilogue.all(|o| o.address.step(self.loops.n.start, lanes).is_some())
    }

    /// The operations of the product.
    fn operations(&self) -> usize {
        2_usize.saturating_mul(self.results()).saturating_mul(self.terms())
    }

    /// The launches of a kernel for a tile, which `define` completes and `launch` makes of its source and the range of work-groups. Scales
    /// may wait for the end of sums over the loops `sum`.
    fn plan(
        &self,
        (tile, parts): (&Tile, usize),
        (lanes, serves): (usize, Serves),
        sum: &[usize],
        device: &DeviceTraits,
        define: impl FnOnce(&mut Source),
        launch: impl FnOnce(Source, &[&'static str], [usize; 3]) -> Launch,
    ) -> Planned {
        let written_for_all = serves != Serves::OneShape;
        let mut space = self.space.clone();
        if parts > 1 {
            space.operands.push(self.partial());
            if written_for_all {
                // What comes after the sums is for the launch that adds them up.
                space.operands.retain(|o| belongs_to_sums(&o.name) || o.name == "PARTIAL");
            }
        }
        let operations = self.operations();
        space.complete = written_for_all.then_some(self.loops.n.start);
        space.by_rank = true;
        space.apart = self.apart(&space);
        let mut source = Source::new(&space, self.value, (lanes, Some(self.loops.n.start)), self.wide, true);
        source
            .declare("DECLARE_BATCH", &space, self.loops.batch.clone())
            .declare("DECLARE_M", &space, self.loops.m.clone())
            .declare("DECLARE_K", &space, self.loops.k.clone())
            .define("DECLARE_N(t)", format_args!("const idx {} = (t);", space.loops[self.loops.n.start].name))
            .define("SRC_INSIDE", self.loops.inside)
            .define("ACC", "float")
            .define("TILE_M", tile.m)
            .define("TILE_N", tile.n)
            .define("K_TILE", tile.k)
            .number_of("M_SIZE", space.count(self.loops.m.clone()))
            .number_of("N_SIZE", space.count(self.loops.n.clone()))
            .number_of("K_SIZE", self.terms())
            .define("SPLIT", i32::from(parts > 1))
            .number_of("PARTS", parts)
            .number_of("PARTIAL_SIZE", self.part());
        if written_for_all {
            source.gains(if operations < LARGE { GAIN } else { LARGE_GAIN }, operations);
        }
        match serves {
            Serves::ShapesAndFunctions if parts == 1 => epilogue::define_final(&mut source, self.desc),
            Serves::ShapesAndFunctions => {}
            _ => _ = source.post_ops(self.desc),
        }
        for name in ["SRC0", "WEIGHTS"] {
            quantized::define(&mut source, &space, name, sum);
        }
        if !written_for_all || parts == 1 {
            define_bias(&mut source, self.desc);
        }
        if let Some(window) = self.window {
            window.define(&mut source);
        }
        define(&mut source);
        let files: &[&'static str] = if self.window.is_some() { &[WINDOW] } else { &[] };
        let groups = [self.tiles(tile), space.count(self.loops.batch.clone()), parts];
        let mut launches = vec![launch(source, files, groups)];
        if parts == 1 {
            return Planned { scratchpad: 0, launches };
        }
        launches.push(self.sum(parts, device));
        Planned { scratchpad: bytes_of_parts(parts, self.part()), launches }
    }

    /// The loops on which operands depend in no shape.
    fn apart(&self, space: &Space) -> Vec<(String, Range<usize>)> {
        let Tiles { m, n, k, .. } = &self.loops;
        let mut apart = Vec::new();
        for Operand { name, .. } in &space.operands {
            if name.ends_with("SRC0") {
                apart.push((name.clone(), n.clone()));
            } else {
                // A convolution has one filter and one bias for all places.
                let is_filter = self.window.is_some() && name == "BIAS";
                if name.ends_with("WEIGHTS") || is_filter {
                    apart.push((name.clone(), m.clone()));
                }
                if !name.ends_with("WEIGHTS") {
                    apart.push((name.clone(), k.clone()));
                }
            }
        }
        apart
    }

    /// The parts of the results, one behind the other.
    fn partial(&self) -> Operand {
        let mut coefficients = vec![0; self.space.loops.len()];
        let mut step = 1;
        for v in (0..self.loops.k.start).rev() {
            coefficients[v] = step;
            step *= self.space.loops[v].extent;
        }
        let address = Address::linear(coefficients);
        let binding = Binding::Scratchpad(0);
        Operand { name: "PARTIAL".into(), binding, data_type: DataType::F32, address }
    }

    /// The launch that adds up the parts and does what comes after the sums.
    fn sum(&self, parts: usize, device: &DeviceTraits) -> Launch {
        let mut space = self.space.clone();
        space.operands.push(self.partial());
        for v in (self.loops.k.start..space.loops.len()).rev() {
            space.remove(v);
        }
        let partial = Partial { parts, size: self.part(), wide: self.wide };
        partial.sum(space, self.desc, self.value, device)
    }
}

/// Bytes of so many parts, a whole vector of which, of any device, may start at the last result.
pub(super) fn bytes_of_parts(parts: usize, part: usize) -> usize {
    (parts * part + CPU_LANES - 1) * size_of::<f32>()
}

/// Parts of sums in `PARTIAL`, which lie so many elements apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partial {
    pub(super) parts: usize,
    pub(super) size: usize,
    pub(super) wide: bool,
}

impl Partial {
    /// The launch that adds them up and does what comes after the sums. Loops of the space are those over the results.
    pub(super) fn sum(
        self,
        mut space: Space,
        desc: &PrimitiveDesc,
        value: Value,
        device: &DeviceTraits,
    ) -> Launch {
        space.operands.retain(|o| !belongs_to_sums(&o.name));
        let bias = space.find("BIAS").map_or("", |_| "v += LD_BIAS(OFF_BIAS, n); ");
        let (parts, size) = (always(self.parts), always(self.size));
        let part =
            |ahead: &str| format!("LD_PARTIAL(OFF_PARTIAL + (part{ahead}) * {size}, PARTIAL_LANES(n))");
        // Parts that are on their way at the same time: what a joint takes is their latency.
        let together = |count: usize| {
            format!(
                "{{ V some[{count}]; EACH(ahead, {count}) some[ahead] = {}; \
                 EACH(ahead, {count}) read += some[ahead]; part += {count}; }} ",
                part(" + ahead")
            )
        };
        let (most, half) = (TOGETHER, TOGETHER / 2);
        let read = format!(
            "V read = LD_PARTIAL(OFF_PARTIAL, PARTIAL_LANES(n)); idx part = 1; \
             NOT_UNROLLED while (part + {most} <= {parts}) {} if (part + {half} <= {parts}) {} \
             NOT_UNROLLED for (; part < {parts}; ++part) read += {}; ",
            together(most),
            together(half),
            part("")
        );
        let compute = format!("V v = read; {bias}");
        let statements =
            Statements { read: Some(("PARTIAL", &read)), compute: &compute, ..Statements::default() };
        pointwise::launch_all(space, value, Some(desc), statements, self.wide, device).0
    }
}

/// Whether an operand makes up the terms of sums.
pub(super) fn belongs_to_sums(name: &str) -> bool {
    name.ends_with("SRC0") || name.ends_with("WEIGHTS")
}

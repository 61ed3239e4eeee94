//! Matrix products, also gated by another one of the same source.
//!
//! Variants: by the units of `units.rs` (CPUs: panels of operands of one or two bytes, `-packing` copies weights first; other devices: large
//! tiles), `apart` (other devices: a gated product as two), `narrow` (CPUs: a few columns), `blocked` (CPUs: blocks that stay in cache,
//! copied where they must be), `vector` (CPUs: register tiles of vectors along N, weights in place or in panels), `dot` (vectors or groups
//! along K), `skinny` (other devices: few rows; `-bits` of weights of few bits and rows of 16, `-integers` of any rows), `expanded` (many rows by such weights), `simt` (large tiles
//! in registers), `tiled` (tiles in local memory) and `ref` (anything).

mod apart;
mod blocked;
mod expanded;
mod narrow;
pub(super) mod packed;
mod skinny;
mod skinny_bits;
mod skinny_integers;
impl Planner for MatMul {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(choices(desc, device, wanted))
    }

    fn resolve(&self, desc: PrimitiveDesc, device: &DeviceTraits) -> Result<PrimitiveDesc> {
        with_layout(desc, Arg::Weights, device)
    }
}

impl Planner for GatedMatMul {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(choices(desc, device, wanted))
    }

    fn resolve(&self, desc: PrimitiveDesc, device: &DeviceTraits) -> Result<PrimitiveDesc> {
        with_layout(with_layout(desc, Arg::Weights, device)?, Arg::Src(1), device)
    }
}

/// The description with the layout that suits a matrix best, where it is open.
fn with_layout(desc: PrimitiveDesc, arg: Arg, device: &DeviceTraits) -> Result<PrimitiveDesc> {
    let Some(open) = desc.find(arg).filter(|matrix| matrix.is_any()) else { return Ok(desc) };
    let layout = weights_layout(&desc, open, device)?;
    desc.resolved(arg, layout)
}

#[cfg(test)]
mod bits_tests;
#[cfg(test)]
mod packed_tests;
#[cfg(test)]
mod tests;

use anydnn_backend::op::{GatedMatMul, MatMul, Op};
use anydnn_backend::{Arg, DataType, Layout, MemoryDesc, PrimitiveDesc, Quantized, Result};

use super::choice::{Choice, Choices, Planned, Wanted};
use super::epilogue;
use super::gemm::Product;
use super::numbers::mark;
use super::panels::{self, Panels, width};
use super::pointwise::{is_wide, padding};
use super::rows::{CPU_LANES, Mode, Rows, fits_sub_groups, gpu_lanes, is_cpu};
use super::source::{Source, add_post_ops, is_contiguous};
use super::space::{Binding, Index, Space, broadcast};
use super::sums::{accumulator, define_bias, define_gate, is_real};
use super::tiles::{self, Tiles};
use super::unit_panels::{Factors, Unit};
use super::value::Value;
use super::{Planner, quantized};
use crate::capability::Feature;
use crate::capability::instruction::Multiplicand;
use crate::plan::{DeviceTraits, Launch};

const REFERENCE: &str = anydnn_kernels::text("matmul/reference.cl");
const VECTOR: &str = anydnn_kernels::text("matmul/vector.cl");
const DOT: &str = anydnn_kernels::text("matmul/dot.cl");

/// Rows from which on copying the weights into panels pays for itself.
const PACK_ROWS: usize = 48;
/// Rows from which on units pay for packing the weights, and matrix units, and terms of floats of 16 bits from which on these pay at all.
const FEW_ROWS: usize = 12;
const FEW_ROWS_OF_TILES: usize = 8;
const FEW_FLOATS: usize = 8;
/// Rows from which on copies of weights cost nothing beside what is multiplied by them.
const MANY_ROWS: usize = 10 * PACK_ROWS;
/// Results of a matrix whose sums have no use for vectors of columns, nor for tiles of rows, where they do not lie along their terms.
const FEW_RESULTS: usize = 8;
/// Rows of a work-item's block on a CPU.
const BLOCK_ROWS: usize = 48;
/// Weights that stay in the first level of the cache beside the rows that are written.
const NEAR_WEIGHTS: usize = 4096;
/// Weights that no cache near a core holds, so many of whose terms are read at a time, and the sums that a work-item keeps meanwhile.
const FAR_WEIGHTS: usize = 1 << 20;
const BLOCK_TERMS: usize = 8;
const HELD_SUMS: usize = 4 << 10;
/// Work-items for each core, so that none waits long for another one.
const ITEMS: usize = 16;
/// Terms from which on devices that want many work-items share the sums of a narrow result among work-groups, however little of a tile it
/// fills.
pub(super) const MANY_TERMS: usize = 512;
/// Terms up to which, on CPUs, a tile's sums are stored more often than blocks are read again.
const FEW_TERMS: usize = 64;
/// Terms that take less than what a result without whole vectors takes to store, and the shortest vector of a row.
const FEWER_TERMS: usize = 32;
const SHORTEST_VECTOR: usize = 4;
/// Rows and columns from which on tiles pay for weights of f32 whose rows are no whole vectors: on an H200 16 rows by 1797 x 6995 take 38 us so
/// and 58 by `skinny`, 8 rows 37 and 37.
const FEW_ROWS_BY_COPIES: usize = 10;
const SHORTEST_COPIED: usize = 16;
/// Products of a gated one from which on a second launch pays for itself.
const APART: usize = 1 << 20;
/// The loops over batches that programs have in common, on devices that want many work-items.
const BATCHES: usize = 2;

/// The layout for weights `[.., K, N]` that the caller leaves open: panels for CPUs, row-major elsewhere.
pub(super) fn weights_layout(
    desc: &PrimitiveDesc,
    weights: &MemoryDesc,
    device: &DeviceTraits,
) -> Result<MemoryDesc> {
    let rank = weights.rank();
    let n = weights.dims()[rank - 1];
    let along_terms = || {
        let order: Vec<usize> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
        weights.to_row_major().permuted(&order)?.to_row_major().permuted(&order)
    };
    if lies_along_terms(desc, weights, device) {
        return along_terms();
    }
    let holds = |factors: &Factors| weights.dims()[rank - 2] <= factors.most_terms(desc);
    if matches!(desc.op(), Op::MatMul(_))
        && fills_units(desc, weights, device)
        && let Some(factors) =
            Unit::all(device).find_map(|unit| Factors::of(desc, unit, device).filter(holds))
    {
        let tag = packed::layout_tag(rank, factors);
        return MemoryDesc::with_tag(weights.dims().clone(), weights.data_type(), &tag);
    }
    let is_f32 = weights.data_type() == DataType::F32 && desc.src().data_type() == DataType::F32;
    if is_cpu(device) && is_f32 && narrow::are_few(n, weights.dims()[rank - 2]) && weights.elements() > 0 {
        return along_terms();
    }
    if !is_cpu(device) || !is_real(desc) || n < CPU_LANES || weights.elements() == 0 {
        return Ok(weights.to_row_major());
    }
    let letter = |axis: usize| char::from(b'a' + axis as u8);
    let batch: String = (0..rank - 2).map(letter).collect();
    let (k, n_letter) = (letter(rank - 2), letter(rank - 1));
    let width = width(n, panels::sums(device));
    let tag = format!("{batch}{}{k}{}{n_letter}", n_letter.to_ascii_uppercase(), width);
    MemoryDesc::with_tag(weights.dims().clone(), weights.data_type(), &tag)
}

/// Whether a product's weights are taken along K alone: by matrix units those of tf32, of bytes and floats of as many bits, and of few bits
/// that become floats; these for a few rows by any device that wants many work-items.
fn lies_along_terms(desc: &PrimitiveDesc, weights: &MemoryDesc, device: &DeviceTraits) -> bool {
    let is_small = weights.data_type().is_integer()
        && weights.data_type().bits() <= 8
        && quantized::is_dequantized(desc, Arg::Weights)
        && matches!(desc.op(), Op::MatMul(_));
    let dst = desc.dst();
    let has_few_rows = dst.dims()[dst.rank() - 2] <= skinny_integers::MOST_ROWS;
    let expands = match desc.src().data_type() {
        DataType::F16 | DataType::BF16 if device.has(Feature::NvidiaMma) => true,
        DataType::F32 | DataType::F16 | DataType::BF16 => has_few_rows && !is_cpu(device),
        _ => false,
    };
    if is_small && expands {
        return true;
    }
    let takes =
        |factor: Multiplicand, of: &MemoryDesc| factor.takes(of.data_type(), desc.attributes().fpmath);
    let both = |factor: Multiplicand| {
        takes(factor, weights) && takes(factor, desc.src()) && device.has_tiles_of(factor)
    };
    [Multiplicand::Tf32, Multiplicand::Bytes, Multiplicand::F8].into_iter().any(both)
}

/// Rows from which on a unit pays for packing the weights.
fn few_rows(unit: Unit) -> usize {
    if unit.panels.repeats_rows { FEW_ROWS } else { FEW_ROWS_OF_TILES }
}

/// Whether a product is worth the copies that matrix units need: it fills one of their tiles, of 16 by 16 results and 64 terms. Sums of few
/// floats take longer to finish than to make, unless a unit without tiles rounds them.
fn fills_units(desc: &PrimitiveDesc, weights: &MemoryDesc, device: &DeviceTraits) -> bool {
    let terms = weights.dims()[weights.rank() - 2];
    let least = match desc.src().data_type() {
        // Whether the device has them takes a compilation to tell: types that they do not multiply need not know.
        DataType::BF16 if device.has(Feature::Amx) => FEW_FLOATS,
        float if float.is_float() => 2,
        _ => 1,
    };
    terms >= least && desc.dst().elements() * terms >= 16 * 16 * 64
}

/// The implementations of a matrix product whose layouts are resolved.
pub(super) fn choices(desc: &PrimitiveDesc, device: &DeviceTraits, wanted: Wanted<'_>) -> Vec<Choice> {
    let mut choices = Choices::new(desc, wanted);
    Shape::new(desc).offer(&mut choices, Value::of(desc, true), device);
    choices.followed_by(|| padding(desc.dst(), Arg::DST, device))
}

/// A matrix product with its loops: batches, `m`, `col` (or `panel` and `lane`), `k`.
struct Shape<'a> {
    desc: &'a PrimitiveDesc,
    weights: &'a MemoryDesc,
    /// The weights of a gate, of the same dimensions.
    gate: Option<&'a MemoryDesc>,
    wide: bool,
}

impl<'a> Shape<'a> {
    fn new(desc: &'a PrimitiveDesc) -> Self {
        let gate = desc.find(Arg::Src(1)).filter(|_| matches!(desc.op(), Op::GatedMatMul(_)));
        Self { desc, weights: desc.find(Arg::Weights).unwrap_or(desc.src()), gate, wide: is_wide(desc) }
    }

    /// The names of the operands that are matrices of weights.
    fn matrices(&self) -> &'static [&'static str] {
        if self.gate.is_some() { &["WEIGHTS", "SRC1"] } else { &["WEIGHTS"] }
    }

    /// The terms that have the same scales and zero points of the weights, where these are more than one and less than all.
    fn group(&self) -> Option<usize> {
        let terms = self.weights.dims()[self.weights.rank() - 2];
        let parts = |arg| {
            let factors = self.desc.find(arg)?;
            factors.rank().checked_sub(2).map(|axis| factors.dims()[axis])
        };
        let scales = parts(Arg::ScaleOf(Quantized::Weights))?;
        let points = parts(Arg::ZeroPointOf(Quantized::Weights)).unwrap_or(1);
        let fits = (1..terms).contains(&scales) && scales > 1 && terms.is_multiple_of(scales);
        (fits && (points == 1 || points == scales)).then(|| terms / scales)
    }

    /// Whether all matrices of weights have their elements side by side along a loop.
    fn weights_along(&self, space: &Space, variable: usize) -> bool {
        self.matrices().iter().all(|name| is_contiguous(space, name, variable))
    }

    /// Offers the variants that apply, best first.
    fn offer(&self, choices: &mut Choices<'_>, value: Value, device: &DeviceTraits) {
        let mut space = self.space(None);
        if !is_cpu(device) {
            space.pad(0, (BATCHES + 3_usize).saturating_sub(space.loops.len()));
            let batches = space.loops.len() - 3;
            for (i, batch) in space.loops[..batches].iter_mut().enumerate() {
                batch.name = format!("batch{i}");
            }
        }
        let dims = self.desc.dst().dims();
        let (n, terms) = (dims[dims.len() - 1], self.weights.dims()[dims.len() - 2]);
        let k = space.loops.len() - 1;
        let batch = space.loops.len() - 3;
        let m = space.loops[batch].extent;
        // A vector takes its elements by the coefficient of its loop, which every operand must have.
        let lanes = if is_cpu(device) { CPU_LANES } else { 1 };
        let along_k = is_contiguous(&space, "SRC0", k) && self.weights_along(&space, k);
        let along_k = along_k && space.has_steps(k, lanes);
        let real = is_real(self.desc);
        let dot = || Some(self.dot(space.clone(), value, device));
        let tiles = Tiles {
            batch: 0..batch,
            m: batch..batch + 1,
            n: batch + 1..batch + 2,
            k: batch + 2..batch + 3,
            inside: "true",
        };
        let large = || {
            let (space, loops) = (space.clone(), tiles.clone());
            Product { desc: self.desc, space, loops, window: None, value, wide: self.wide }
        };
        let tiled = || tiles::launch(self.desc, &space, &tiles, value, self.wide, device, |_| {});
        if is_cpu(device) {
            let pays = fills_units(self.desc, self.weights, device);
            let panels = self.own_panels().is_some();
            // Units multiply bytes of many rows in less time, for one of their columns.
            let takes_long = self.desc.src().data_type().is_float() || m < PACK_ROWS;
            let is_f32 = self.desc.src().data_type() == DataType::F32;
            if real && along_k && n == 1 && terms >= CPU_LANES && !panels && !is_f32 && takes_long {
                choices.offer("dot", "a single column, and both operands lie along K", dot);
            }
            for unit in Unit::all(device) {
                let ([in_place, packing], reason) = (unit.panels.variants, unit.panels.reason);
                choices.offer(in_place, reason, || self.packed(unit, device, false));
                let factors = Factors::of(self.desc, unit, device);
                if pays && (m >= few_rows(unit) || along_k) {
                    choices.offer(packing, reason, || self.packed(unit, device, true));
                } else if pays && real && n >= CPU_LANES && factors.is_some() {
                    choices.offer("vector", "too few rows to pack the weights for", || {
                        self.vector(value, device, false)
                    });
                }
            }
            if m >= CPU_LANES && narrow::are_few(n, terms) {
                choices.offer("narrow", "a few columns", || self.narrow(&space, value, device));
            }
            let (few, many) = (m < PACK_ROWS / 8, m >= PACK_ROWS);
            if real && along_k && terms >= CPU_LANES && few && !panels {
                choices.offer("dot", "few rows, and both operands lie along K", dot);
            }
            let float = |arg| self.desc.find(arg).is_none_or(|d| d.data_type() == DataType::F32);
            if real && self.gate.is_none() && float(Arg::SRC) && float(Arg::Weights) && n >= CPU_LANES {
                let copied = !panels && !n.is_multiple_of(width(n, panels::sums(device)));
                // The part of a panel that ends early is read slowly, for every tile of rows.
                let ends_early = copied && m >= MANY_ROWS && terms >= FEWER_TERMS / 2;
                if m >= PACK_ROWS / 8 && terms <= FEW_TERMS && !ends_early {
                    let reason = "few terms: sums stay in registers";
                    choices.offer("vector", reason, || self.vector(value, device, false));
                }
                if !many && !panels && self.is_far() {
                    let reason = "few rows: weights that no cache holds read once, in runs";
                    choices.offer("vector", reason, || self.vector(value, device, false));
                }
                if !many && copied {
                    let reason = "too few rows to pay for copies of the weights";
                    choices.offer("vector", reason, || self.vector(value, device, false));
                }
            }
            if !along_k && m * n <= FEW_RESULTS && terms >= MANY_TERMS {
                let reason = "long sums of a few results, one by one";
                choices.offer("ref", reason, || Some(self.reference(space.clone(), value, device)));
            }
            if real && (m >= PACK_ROWS / 8 || float(Arg::Weights)) && n >= 4 {
                choices.offer("blocked", "blocks that stay in cache", || self.blocked(value, device));
            }
            if real && n >= CPU_LANES / 2 {
                if many && !panels {
                    choices.offer("vector-packing", "enough rows to pay for packing the weights", || {
                        self.vector(value, device, true)
                    });
                }
                let reason =
                    if panels { "weights lie in panels" } else { "too few rows to pack the weights for" };
                choices.offer("vector", reason, || self.vector(value, device, false));
                choices.offer("vector-packing", "weights do not lie along N", || {
                    self.vector(value, device, true)
                });
            }
            if real && along_k && terms >= CPU_LANES {
                choices.offer("dot", "both operands lie along K", dot);
            }
            choices.offer("blocked", "a narrow result", || self.blocked(value, device));
            for unit in Unit::all(device).filter(|&unit| !pays || m < few_rows(unit)) {
                let reason = "too few products to pay for copies";
                choices.offer(unit.panels.variants[1], reason, || self.packed(unit, device, true));
            }
        } else {
            if real && self.gate.is_some() && m * n * terms >= APART {
                choices.offer("apart", "two products by tiles that have no second sum", || {
                    self.apart(value, device)
                });
            }
            let expanded = || self.expanded(device).filter(|_| real);
            choices.offer("skinny-bits", "few rows: weights of few bits read once, by matrix units", || {
                self.skinny_bits(&space, value, device).filter(|_| real)
            });
            choices.offer("skinny-integers", "few rows: weights of few bits read once", || {
                self.skinny_integers(&space, value, device).filter(|_| real)
            });
            if m > skinny_bits::MOST_ROWS {
                choices.offer("expanded", "many rows: weights of few bits become floats first", expanded);
            }
            let skinny = |mma| self.skinny(&space, value, device, mma).filter(|_| real);
            // On an H200 461 x 15 by 15 x 5093 in f16 takes 11 us so, and 16 to 26 by larger tiles, whose groups store for the most part.
            if m >= 16 && n >= 16 && (1..=FEWER_TERMS).contains(&terms) && !n.is_multiple_of(SHORTEST_VECTOR)
            {
                choices.offer("tiled", "few terms, and a result without whole vectors", tiled);
            }
            // On an H200 16 rows by weights of 4096 x 4096 in f16 take 17 us so, and 25 by the other matrix units.
            if m >= 16 && terms.is_multiple_of(8) && n.is_multiple_of(8) {
                large().offer_tensor_cores(choices, device);
            }
            if m > 1 {
                choices.offer("skinny-mma", "few rows: weights read once, by matrix units", || skinny(true));
            }
            if m >= FEW_ROWS_BY_COPIES && n >= SHORTEST_COPIED && large().copies_weights(device) {
                // Vectors of such weights come element by element.
                large().offer(choices, device);
            }
            choices.offer("skinny", "few rows: weights read once", || skinny(false));
            choices.offer("expanded", "weights of few bits become floats first", expanded);
            if m >= 16 && n >= 16 && terms > 0 {
                large().offer(choices, device);
                choices.offer("tiled", "tiles in local memory", tiled);
            }
            if along_k && value == Value::F32 && real && terms >= 64 {
                choices.offer("dot", "a small result, and both operands lie along K", dot);
            }
            if terms >= MANY_TERMS {
                large().offer(choices, device);
            }
        }
        choices.offer("skinny-mma", "one row: matrix units are idle", || {
            self.skinny(&space, value, device, true).filter(|_| real)
        });
        choices.offer("ref", "serves every layout and type", || {
            Some(self.reference(space.clone(), value, device))
        });
        if !is_cpu(device) {
            large().offer(choices, device);
            choices.offer("apart", "too few products for two launches", || self.apart(value, device));
        }
        if terms > 0 {
            let reason = if is_cpu(device) { "meant for GPUs" } else { "a small result fills no tile" };
            choices.offer("tiled", reason, tiled);
        }
    }

    /// The width of the panels that all weights already lie in.
    fn own_panels(&self) -> Option<usize> {
        panel_width(self.weights)
            .filter(|&width| self.gate.is_none_or(|gate| panel_width(gate) == Some(width)))
    }

    /// Whether a matrix of weights is larger than what a core has near, and long enough to be read a few terms at a time.
    fn is_far(&self) -> bool {
        let terms = self.weights.dims()[self.weights.rank() - 2];
        terms >= 4 * BLOCK_TERMS && self.weights.elements() > FAR_WEIGHTS
    }

    /// The loops and operands, batches merged as far as they go. With `panel`, a width and a number of parts, columns are triples of
    /// panel, part of it, and lane.
    fn space(&self, panel: Option<(usize, usize)>) -> Space {
        let desc = self.desc;
        let dst = desc.dst();
        let rank = dst.rank();
        let (m, n) = (dst.dims()[rank - 2], dst.dims()[rank - 1]);
        let mut space = Space::default();
        let mut index: Vec<Index> =
            (0..rank - 2).map(|i| Index::of(space.push(format!("batch{i}"), dst.dims()[i]))).collect();
        index.push(Index::of(space.push("m", m)));
        index.push(match panel {
            None => Index::of(space.push("col", n)),
            Some((width, parts)) => {
                let panel = space.push("panel", n.div_ceil(width * parts));
                let part = space.push("part", parts);
                Index::sum(&[(panel, width * parts), (part, width), (space.push("lane", width), 1)])
            }
        });
        let k = Index::of(space.push("k", self.weights.dims()[rank - 2]));
        let batch = |operand: &MemoryDesc| -> Vec<Index> {
            (0..rank - 2)
                .map(|i| if operand.dims()[i] == dst.dims()[i] { index[i].clone() } else { Index::default() })
                .collect()
        };
        let mut at = batch(desc.src());
        at.extend([index[rank - 2].clone(), k.clone()]);
        space.operand("SRC0", Binding::Arg(Arg::SRC), desc.src(), &at);
        quantized::add(&mut space, desc, Quantized::Src(0), "SRC0", desc.src().dims(), &at);
        let mut at = batch(self.weights);
        at.extend([k, index[rank - 1].clone()]);
        space.operand("WEIGHTS", Binding::Arg(Arg::Weights), self.weights, &at);
        quantized::add(&mut space, desc, Quantized::Weights, "WEIGHTS", self.weights.dims(), &at);
        if let Some(gate) = self.gate {
            space.operand("SRC1", Binding::Arg(Arg::Src(1)), gate, &at);
            quantized::add(&mut space, desc, Quantized::Src(1), "SRC1", gate.dims(), &at);
        }
        if let Some(bias) = desc.find(Arg::Bias) {
            space.operand("BIAS", Binding::Arg(Arg::Bias), bias, &broadcast(bias, dst.dims(), &index));
        }
        space.operand("DST", Binding::Arg(Arg::DST), dst, &index);
        add_post_ops(&mut space, desc, &index);
        space.collapse(0..rank - 1, self.matrices());
        space
    }

    fn reference(&self, space: Space, value: Value, device: &DeviceTraits) -> Launch {
        let k = space.loops.len() - 1;
        let terms = space.loops[k].extent;
        let rows = Rows::outputs(space, k, value, device, None).complete(device);
        let mut source = rows.source(value, self.wide, device, terms);
        source.define("ACC", accumulator(self.desc, terms, value)).number_of("K_SIZE", terms);
        self.define_operands(&mut source, &rows.space, value, &[]);
        epilogue::define_all(&mut source, self.desc, value, device);
        rows.launch(source, "matmul_reference", &[REFERENCE], device, terms)
    }

    fn dot(&self, space: Space, value: Value, device: &DeviceTraits) -> Launch {
        let k = space.loops.len() - 1;
        let terms = space.loops[k].extent;
        let cpu = is_cpu(device);
        let vectors = gpu_lanes(&space, k);
        let by_sub_groups = !cpu
            && value == Value::F32
            && space.is_linear()
            && space.has_steps(k, vectors)
            && fits_sub_groups(device, terms.div_ceil(vectors));
        let (mode, lanes, lane) = match (cpu, by_sub_groups) {
            (true, _) => (Mode::Item, CPU_LANES, Some(k)),
            (false, true) => (Mode::SubGroup, vectors, Some(k)),
            (false, false) => (Mode::Group, 1, None),
        };
        let rows = Rows { space, outer: k, mode, lanes, lane, overlaps: false };
        let rows = rows.in_common(device).overlapping(false);
        let mut source = rows.source(value, self.wide, device, terms);
        self.define_operands(&mut source, &rows.space, value, &[]);
        epilogue::define_all(&mut source, self.desc, value, device);
        rows.launch(source, "matmul_dot", &[DOT], device, terms)
    }

    /// The macros that the variants have in common; scales may wait for the end of the sums over the loops `terms`.
    fn define(&self, source: &mut Source, space: &Space, value: Value, terms: &[usize]) {
        self.define_operands(source, space, value, terms);
        source.post_ops(self.desc);
    }

    /// The same without the post-operations.
    fn define_operands(&self, source: &mut Source, space: &Space, value: Value, terms: &[usize]) {
        self.define_factors(source, space, value, terms);
        define_bias(source, self.desc);
    }

    /// What is multiplied alone.
    fn define_factors(&self, source: &mut Source, space: &Space, value: Value, terms: &[usize]) {
        for name in ["SRC0"].iter().chain(self.matrices()) {
            quantized::define(source, space, name, terms);
        }
        define_gate(source, self.desc, value);
    }

    /// Register tiles of vectors along N, of weights in place or packed into panels first; none where an operand's layout has no use
    /// for them.
    fn vector(&self, value: Value, device: &DeviceTraits, packing: bool) -> Option<Planned> {
        let rank = self.weights.rank();
        let n = self.weights.dims()[rank - 1];
        let own_panels = self.own_panels();
        let width = own_panels.unwrap_or_else(|| width(n, panels::sums(device)));
        let mut space = self.space(Some((width, 1)));
        let [panel, lane, k] = ["panel", "lane", "k"].map(|name| space.variable(name));
        let (panel, lane, k) = (panel?, lane?, k?);
        let m = panel.checked_sub(1)?;
        if !space.has_steps(lane, CPU_LANES) {
            return None;
        }
        let rows = space.loops[m].extent;
        let mut launches = Vec::new();
        let (mut scratchpad, mut whole) = (0, n.is_multiple_of(width) || own_panels.is_some());
        if packing {
            if own_panels.is_some() || self.gate.is_some() {
                return None;
            }
            let inner = [k];
            let panels = Panels { panel, lane, columns: n, inner: &inner, batch: 0..m };
            let packed = panels.pack(&mut space, self.wide, device)?;
            (scratchpad, whole) = (packed.bytes, true);
            launches.extend(packed.launches);
        } else if !self.weights_along(&space, lane) {
            return None;
        }
        let vectors = width / CPU_LANES * self.matrices().len();
        let tile = panels::tile_rows(rows, (panels::sums(device) / vectors).clamp(1, 6));
        // Work-items of whole lines, where there may be enough of them: cores that store into the same cache lines wait for one another.
        let shared = !n.is_multiple_of(CPU_LANES);
        let near = if shared { 2 * NEAR_WEIGHTS } else { NEAR_WEIGHTS };
        let stay = self.weights.dims()[rank - 2].saturating_mul(n) <= near;
        let batch = space.count(0..m);
        let wanted =
            if stay && shared { (device.compute_units.max(1) * ITEMS).div_ceil(batch.max(1)) } else { 1 };
        let block = rows.div_ceil(wanted).clamp(tile, BLOCK_ROWS).next_multiple_of(tile);
        let fetches = !packing
            && own_panels.is_none()
            && self.gate.is_none()
            && self.weights.data_type() == DataType::F32;
        // Few terms: a tile's rows are written line by line while all panels stay in the first level of the cache.
        let (panels_of_rows, blocks) = (space.loops[panel].extent, rows.div_ceil(block));
        let enough = blocks.saturating_mul(batch) >= device.compute_units.max(1) * ITEMS / 2;
        let item_panels = if stay && enough { panels_of_rows } else { 1 };
        // A few terms of several panels at a time where no cache holds the weights.
        let held_rows = rows.next_multiple_of(tile);
        let by_blocks = fetches && self.is_far() && held_rows * width <= HELD_SUMS;
        let (item_panels, blocks) = if by_blocks {
            (panels_of_items(panels_of_rows, HELD_SUMS / (held_rows * width), device, batch), 1)
        } else {
            (item_panels, blocks)
        };
        let has_points = space.find("ZERO_WEIGHTS").is_some();
        let group = if by_blocks || self.gate.is_some() { None } else { self.group() };
        let mut source = Source::new(&space, value, (CPU_LANES, Some(lane)), self.wide, true);
        panels::repetitions(&mut source, tile, width / CPU_LANES);
        source
            .general()
            .declare("DECLARE_BATCH", &space, 0..m)
            .define("PANEL", width)
            .define("WHOLE_PANELS", i32::from(whole))
            .define("HAS_VECTOR", i32::from(!whole && n >= CPU_LANES))
            .define("WHOLE_COLUMNS", i32::from(n.is_multiple_of(width)))
            .define("FETCHES", i32::from(fetches))
            .define("BY_BLOCKS", i32::from(by_blocks))
            .define("GROUPED", i32::from(group.is_some()))
            .number_of("GROUP", group.unwrap_or(1))
            .define("SUMS_OF_GROUPS", i32::from(tile <= 2))
            .define(
                "ZERO_OF_GROUP(n)",
                if has_points { "LD_ZERO_WEIGHTS(OFF_ZERO_WEIGHTS, n)" } else { "(V)(0)" },
            )
            .number_of("M_BLOCK", block)
            .number_of("ITEM_PANELS", item_panels)
            .number_of("PANELS", panels_of_rows)
            .number_of("M_SIZE", rows)
            .number_of("N_SIZE", n)
            .number_of("K_SIZE", space.loops[k].extent)
            .define("K_STEP_SRC0", mark(space.coefficient("SRC0", k)?))
            .define("K_STEP_WEIGHTS", mark(space.coefficient("WEIGHTS", k)?));
        if self.gate.is_some() {
            source.define("K_STEP_SRC1", mark(space.coefficient("SRC1", k)?));
        }
        if by_blocks {
            source
                .define("ROOM", HELD_SUMS)
                .define("ONE_TILE", i32::from(held_rows == tile))
                .number_of("HELD_ROWS", held_rows)
                .number_of("K_BLOCK", BLOCK_TERMS);
        }
        self.define(&mut source, &space, value, &[k]);
        let global = [panels_of_rows.div_ceil(item_panels), blocks, batch];
        launches.push(source.launch("matmul_vector", &[VECTOR], global, Some([1, 1, 1])));
        Some(Planned { scratchpad, launches })
    }
}

/// How many panels a work-item has, at most `most`: as many as leave no core with nothing to do for long.
fn panels_of_items(panels: usize, most: usize, device: &DeviceTraits, batch: usize) -> usize {
    let units = device.compute_units.max(1).div_ceil(batch.max(1));
    // The panels of the core that has the most, where each takes another item when it is done with one.
    let longest = |item: usize| {
        let (whole, rest) = (panels / item, panels % item);
        let (rounds, over) = (whole / units * item, whole % units);
        rounds + if over == 0 { rest } else { item }
    };
    let all = 1..=most.min(panels).max(1);
    let least = all.clone().map(longest).min().unwrap_or(panels);
    all.rev().find(|&item| longest(item) <= least).unwrap_or(1)
}

/// The width of the panels that weights already lie in: blocks of the last dimension alone, of whole vectors.
fn panel_width(weights: &MemoryDesc) -> Option<usize> {
    let Layout::Blocked(blocking) = weights.layout() else { return None };
    match *blocking.inner.as_slice() {
        [(axis, block)] if axis + 1 == weights.rank() && block % CPU_LANES == 0 && block <= 64 => Some(block),
        _ => None,
    }
}

//! Products by blocks of rows, columns and terms that stay in a processor's cache (`matmul/blocked.cl`).

mod text;

use anydnn_backend::{Arg, DataType};

use self::text::Blocks;
use super::{Shape, is_real};
use crate::plan::DeviceTraits;
use crate::primitive::choice::Planned;
use crate::primitive::epilogue::Epilogue;
use crate::primitive::panels::{sums, terms_ahead, widest, width};
use crate::primitive::quantized;
use crate::primitive::rows::CPU_LANES;
use crate::primitive::space::{Operand, Space};
use crate::primitive::value::Value;

/// Terms up to which a panel of weights stays in a second-level cache whole.
const WHOLE_TERMS: usize = 1024;
/// Terms of a block where there are more of them, or where blocks are copied.
const BLOCK_TERMS: usize = 256;
/// The same where so few rows share the weights that these are better fetched while others are in use.
const FETCHED_TERMS: usize = 96;
/// The most rows of a work-item's block.
const BLOCK_ROWS: usize = 192;
/// The same where the source is copied, too.
const COPIED_ROWS: usize = 96;
/// Rows that make a work-item worth its own copy of the weights.
const WORTH_ROWS: usize = 24;
/// Bytes of panels that stay in a first-level cache beside a tile's rows.
const NEAR_BYTES: usize = 16 << 10;
/// What part of its time a product gains by post-operations that are a part of its program, as the number that it is divided by.
const LIST_GAIN: u64 = 20;
/// Terms of a sum beside which a list costs little.
const LIST_TERMS: usize = 96;
/// Work-items for each core, so that none waits long for another one.
const ITEMS: usize = 8;

/// The vectors along which a tile of so many rows runs. Few rows are read along several panels at once, which a processor fetches ahead
/// better than one. The panels are the same for any number of rows, so that packed weights serve all of them.
fn vectors_along(rows: usize, columns: usize, sums: usize) -> usize {
    match rows {
        _ if widest(sums) == 1 => (sums / rows.max(1)).max(1),
        1 => 16,
        2 | 3 => 8,
        _ => width(columns, sums) / CPU_LANES,
    }
}

/// How a work-item reads an operand; the numbers are those of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    InPlace = 0,
    /// Copied by vectors along K, M or N.
    AlongK = 1,
    AlongM = 2,
    AlongN = 3,
    OneByOne = 4,
}

impl Shape<'_> {
    /// Blocks that stay in cache, of operands in place or copied as they are needed; none where layouts are not linear.
    pub(super) fn blocked(&self, value: Value, device: &DeviceTraits) -> Option<Planned> {
        let desc = self.desc;
        let n = self.weights.dims()[self.weights.rank() - 1];
        let sums = sums(device);
        let own_panels = self.own_panels();
        let flat = self.space(None);
        let likely_rows = flat.loops[flat.loops.len() - 3].extent;
        // As many neighbouring vectors as there are registers for, if that leaves enough panels for every core.
        let enough = (n / CPU_LANES / (device.compute_units * 4)).max(widest(sums));
        let most = vectors_along(likely_rows, n, sums).min(enough).min(n.div_ceil(CPU_LANES)) * CPU_LANES;
        let (part, parts) = own_panels.map_or((most, 1), |own| (own, (most / own).max(1)));
        let width = part * parts;
        let space = self.space(Some((part, parts)));
        let [panel, lane, k] = ["panel", "lane", "k"].map(|name| space.variable(name));
        let (panel, lane, k) = (panel?, lane?, k?);
        let m = panel.checked_sub(1)?;
        // Batches may have joined the rows here that could not where columns are one loop.
        let [rows, panels, terms] = [m, panel, k].map(|v| space.loops[v].extent);
        let batch = space.count(0..m);
        let empty = rows * n * terms * batch == 0;
        if value != Value::F32 || !is_real(desc) || empty || !space.has_steps(lane, CPU_LANES) {
            return None;
        }
        let source = reading_source(self, &space, (m, k))?;
        let weights =
            reading_weights(self, &space, (m, lane, k), own_panels.is_some() || n.is_multiple_of(width))?;
        let missing = parts > 1 && !n.div_ceil(part).is_multiple_of(parts);
        let most_tile = (sums / (width / CPU_LANES)).clamp(1, 12);
        let in_panels =
            weights == Reading::InPlace && parts == 1 && space.coefficient("WEIGHTS", k) == Some(width);
        let sum_bytes = rows * width * self.matrices().len() * size_of::<f32>();
        let fetched = in_panels
            && source == Reading::InPlace
            && (most_tile + 1..=BLOCK_ROWS).contains(&rows)
            && sum_bytes <= device.local_memory_bytes;
        let whole = if rows <= most_tile {
            terms
        } else if fetched {
            2 * FETCHED_TERMS
        } else if weights == Reading::InPlace && source == Reading::InPlace {
            WHOLE_TERMS
        } else {
            BLOCK_TERMS
        };
        let most_terms = if fetched { FETCHED_TERMS } else { BLOCK_TERMS };
        let parts_of_k = if terms <= whole { 1 } else { terms.div_ceil(most_terms) };
        let block = terms.div_ceil(parts_of_k).next_multiple_of(CPU_LANES);

        let (tiles, least, more, two_sizes) = tiles_of(rows, most_tile);
        let greatest = least + usize::from(two_sizes);
        let most_rows = if source == Reading::InPlace { BLOCK_ROWS } else { COPIED_ROWS };
        let wanted = (device.compute_units * ITEMS).div_ceil(panels * batch);
        // Each core gets some rows, whatever they are worth.
        let least_blocks = device.compute_units.div_ceil(panels * batch).min(rows / most_tile);
        let blocks = rows.div_ceil(most_rows).max(wanted.min(rows / WORTH_ROWS)).max(least_blocks);
        let blocks = blocks.clamp(1, tiles);
        let item_tiles = tiles.div_ceil(blocks);
        let blocks = tiles.div_ceil(item_tiles);
        let item_rows = item_tiles * greatest;
        // Lines of the next block for each four terms of a tile, all of them by all tiles.
        let ahead = if in_panels && item_tiles > 1 { width.div_ceil(4 * item_tiles) } else { 0 };
        // One row or a few wait for memory, which this does not help.
        let has_near = in_panels && least * 2 >= most_tile;
        let by_tile = block >= terms && self.gate.is_none();
        let in_place = source == Reading::InPlace && weights == Reading::InPlace;
        // A copy of the source serves several panels, and so does a tile's part of it where the panels stay near.
        let near_panels = match source {
            Reading::InPlace if in_place && by_tile => NEAR_BYTES / (block * width * size_of::<f32>()),
            Reading::InPlace => 1,
            _ => 8,
        };
        let each = panels * batch * blocks / (device.compute_units * ITEMS);
        let item_panels = each.min(near_panels).clamp(1, panels);
        let tiles_outside = in_place && item_panels > 1;
        let ahead = if tiles_outside { 0 } else { ahead };
        let has_ahead = in_panels && two_sizes;
        // Room for as many rows and terms as other shapes have, which then share the program.
        let rooms = Rooms {
            width,
            source,
            copies_weights: weights != Reading::InPlace,
            matrices: self.matrices().len(),
        };
        let (item_rows_room, block_room) = (item_rows.max(most_rows), block.max(BLOCK_TERMS));
        let wide_rooms = rooms.of(item_rows_room, item_rows_room, block_room);
        let room = if wide_rooms.fit(device) {
            wide_rooms
        } else {
            rooms.of(if by_tile { greatest } else { item_rows }, item_rows, block)
        };
        if !room.fit(device) {
            return None;
        }
        let at = |name: &str, v: usize| space.coefficient(name, v);
        let (m_step, k_step) = match source {
            Reading::InPlace => (at("SRC0", m)?, at("SRC0", k)?),
            Reading::AlongM => (1, padded(item_rows)),
            _ => (padded(block), 1),
        };
        let (b_step, b_part, b_part_step) = match weights {
            Reading::InPlace => (at("WEIGHTS", k)?, part, at("WEIGHTS", panel + 1)?),
            _ => (width, width, 0),
        };
        let blocks_of = Blocks {
            m,
            lane,
            k,
            width,
            part,
            panels,
            columns: n,
            rows,
            terms,
            block,
            tiles,
            least,
            more,
            two_sizes,
            item_tiles,
            item_panels,
            tiles_outside,
            ahead: has_ahead.then_some(ahead),
            near: has_near.then(|| terms_ahead(width, block)),
            last_vectors: 0,
            missing,
            source,
            weights,
            room,
            source_steps: (m_step, k_step),
            weights_steps: (b_step, b_part, b_part_step),
        };
        let global = [panels.div_ceil(item_panels), blocks, batch];
        let (own, (mut text, files), is_empty) = match self.listed(&space, terms, (panel + 1, lane)) {
            Some((alike, list)) => {
                (list.own_space(&alike), blocks_of.text(self, alike, Some(&list)), list.is_empty())
            }
            None => (space.clone(), blocks_of.text(self, space, None), true),
        };
        let (common, empty) = (blocks_of.common_rows(), blocks_of.empty_vectors());
        if is_empty && common == 0 && empty == 0 {
            return Some(text.launch("matmul_blocked", &files, global, Some([1, 1, 1])).into());
        }
        let by_rows = (tiles * least).checked_div(common);
        let by_columns = (panels * width / CPU_LANES).checked_div(empty);
        let gains = [by_rows, by_columns].into_iter().flatten();
        let gain = gains.map(|gain| gain as u64).fold(LIST_GAIN, u64::min);
        text.gains(gain, 2 * rows * n * terms * batch);
        let special = || blocks_of.exact().text(self, own, None);
        let launch = text.launch_beside("matmul_blocked", &files, (global, Some([1, 1, 1])), device, special);
        Some(launch.into())
    }

    /// The post-operations and the bias as a list that comes with the launch, and the space whose operands it names, where its loops over
    /// parts of panels and over lanes are these. None where a list does not serve them, or would take longer than their own text.
    fn listed(&self, space: &Space, terms: usize, (part, lane): (usize, usize)) -> Option<(Space, Epilogue)> {
        let scaled = [Arg::SRC, Arg::Weights].iter().any(|arg| quantized::is_dequantized(self.desc, *arg));
        if self.gate.is_some() || scaled || terms < LIST_TERMS {
            return None;
        }
        // Panels are as wide as all of their parts, which lie side by side.
        let side_by_side = |operand: &Operand| {
            let step = |v: usize| operand.address.coefficient(v);
            space.loops[part].extent == 1
                || step(part) == step(lane).map(|step| step * space.loops[lane].extent)
        };
        let is_joined = |o: &&Operand| o.name == "BIAS" || o.name.starts_with("POST");
        if !space.operands.iter().filter(is_joined).all(side_by_side) {
            return None;
        }
        let mut alike = space.clone();
        let bias = self.desc.find(Arg::Bias).map(|_| "BIAS");
        let epilogue = Epilogue::behind(bias, self.desc, &mut alike, lane)?;
        Some((alike, epilogue))
    }
}

/// How many register tiles of at most `most` rows there are for a number of rows, the rows of the smaller ones, how many have one more,
/// and whether a program has tiles of both sizes. Nearly all numbers of rows make tiles of the same two sizes and share a program: where
/// fewer rows are left for the last tile than it has, it computes some of those before it once more.
fn tiles_of(rows: usize, most: usize) -> (usize, usize, usize, bool) {
    let tiles = rows.div_ceil(most);
    let least = most - 1;
    match rows {
        _ if most == 1 => (tiles, 1, 0, false),
        _ if rows < least => (1, rows, 0, false),
        _ => (tiles, least, rows.saturating_sub(tiles * least), true),
    }
}

/// The distance of lines of a copy, of which neighbours do not compete for places in a cache.
fn padded(length: usize) -> usize {
    length.next_multiple_of(CPU_LANES) + CPU_LANES
}

/// What a work-item keeps in local memory.
struct Rooms {
    width: usize,
    source: Reading,
    copies_weights: bool,
    matrices: usize,
}

/// Numbers of f32.
#[derive(Debug)]
struct Room {
    sums: usize,
    source: usize,
    weights: usize,
    /// Of sums and of a block of weights.
    matrices: usize,
}

impl Rooms {
    /// For so many rows of sums, rows of a block, and terms.
    fn of(&self, sums: usize, rows: usize, terms: usize) -> Room {
        let source = match self.source {
            Reading::InPlace => 0,
            Reading::AlongM => terms * padded(rows),
            _ => rows * padded(terms),
        };
        let weights = if self.copies_weights { terms * self.width } else { 0 };
        Room { sums: sums * self.width, source, weights, matrices: self.matrices }
    }
}

impl Room {
    fn fit(&self, device: &DeviceTraits) -> bool {
        (self.sums * self.matrices + self.source + self.weights) * size_of::<f32>()
            <= device.local_memory_bytes
    }
}

/// How to read the source, of which `m` and `k` are the loops.
fn reading_source(shape: &Shape<'_>, space: &Space, (m, k): (usize, usize)) -> Option<Reading> {
    let (m_step, k_step) = (space.coefficient("SRC0", m)?, space.coefficient("SRC0", k)?);
    let plain =
        shape.desc.src().data_type() == DataType::F32 && !quantized::is_dequantized(shape.desc, Arg::SRC);
    let along = |v: usize| {
        let names = ["SCALE_SRC0", "ZERO_SRC0"];
        names.iter().filter_map(|name| space.find(name)).all(|o| o.address.step(v, CPU_LANES) == Some(0))
    };
    Some(if plain && (k_step <= 1 || space.loops[m].extent < WORTH_ROWS) {
        Reading::InPlace
    } else if k_step == 1 && along(k) {
        Reading::AlongK
    } else if m_step == 1 && along(m) {
        Reading::AlongM
    } else {
        Reading::OneByOne
    })
}

/// How to read the matrices of weights, of which `lane` and `k` are the loops; `whole` tells that no vector of columns ends early.
fn reading_weights(
    shape: &Shape<'_>,
    space: &Space,
    (m, lane, k): (usize, usize, usize),
    whole: bool,
) -> Option<Reading> {
    let matrices = || shape.matrices().iter().zip([Arg::Weights, Arg::Src(1)]);
    let is_plain = |(name, arg): (&&str, Arg)| {
        space.find(name).is_some_and(|o| o.data_type == DataType::F32)
            && !quantized::is_dequantized(shape.desc, arg)
    };
    let plain = matrices().all(is_plain);
    let dequantized = matrices().any(|(_, arg)| quantized::is_dequantized(shape.desc, arg));
    let step = |name: &str, v: usize| space.coefficient(name, v);
    if shape.matrices().iter().any(|name| step(name, lane).is_none() || step(name, k).is_none()) {
        return None;
    }
    let same = |v: usize| shape.matrices().iter().all(|name| step(name, v) == step("WEIGHTS", v));
    let same_step = same(k) && same(lane - 1);
    let along = |v: usize| shape.matrices().iter().all(|name| step(name, v) == Some(1));
    // Rows far apart fall into few sets of a cache and into many pages.
    let near = super::panel_width(shape.weights).is_some() || step("WEIGHTS", k)? < 1024;
    let many = space.loops[m].extent >= WORTH_ROWS * 2;
    Some(if plain && whole && same_step && along(lane) && (near || !many) {
        Reading::InPlace
    } else if along(k) && !dequantized {
        Reading::AlongK
    } else {
        Reading::AlongN
    })
}

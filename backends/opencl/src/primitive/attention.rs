//! Attention in one launch, the scores never in memory.
//!
//! Variants: `decode` (CPUs: few queries, vectors along their elements), `vector` (CPUs: vectors along the queries), `split` (other devices:
//! few queries, keys split among work-groups), `wgmma` (tensor cores of NVIDIA's Hopper), `mma` (NVIDIA's matrix units), `tiled` (other
//! devices: tiles of queries and keys in local memory) and `ref` (anything).

mod decode;
mod hidden;
mod split;
#[cfg(test)]
mod tests;
mod wgmma;

use anydnn_backend::op::{Attention, Expression, Node};
use anydnn_backend::{Arg, BinaryAlgorithm, DataType, Dims, FpMath, PrimitiveDesc, Quantized, Result};

use super::choice::{Choice, Choices, Wanted};
use super::epilogue;
use super::nodes::{self, Leaves};
use super::numbers::{always, float, mark};
use super::pointwise::{is_wide, padding};
use super::rows::{CPU_LANES, is_cpu, items};
use super::source::{Source, add_post_ops};
use super::space::{Binding, Index, Space, broadcast_by_blocks};
use super::value::{Value, storage};
use super::{Planner, panels, quantized};
use crate::capability::Feature;
use crate::plan::{DeviceTraits, Launch};

const REFERENCE: &str = anydnn_kernels::text("attention/reference.cl");
const JOIN: &str = anydnn_kernels::text("common/join.cl");
const DECODE: &str = anydnn_kernels::text("attention/decode.cl");
const VECTOR: &str = anydnn_kernels::text("attention/vector.cl");
const TRANSPOSE: &str = anydnn_kernels::text("common/transpose.cl");
const TILED: &str = anydnn_kernels::text("attention/tiled.cl");
const MMA: &str = anydnn_kernels::text("attention/mma.cl");
const WARP: &str = anydnn_kernels::text("attention/warp.cl");

/// Elements of a result row that a work-item of the reference holds.
const E_BLOCK: usize = 128;
/// Keys whose weights lie in local memory at a time on a CPU: few enough for a first-level cache, and whole tiles.
const T_BLOCK: usize = 66;
/// Vectors of queries of a tile on a CPU, and of so many queries that those beside the last one do not count.
const VECTORS: usize = 2;
const MANY_VECTORS: usize = 4;
const MANY_QUERIES: usize = 256;
/// The tiles of `tiled.cl`: queries and keys, a slice, work-items.
const GROUP_TILE: usize = 64;
const GROUP_SLICE: usize = 16;
const GROUP: usize = 256;
/// The loops over batches that its programs have in common.
const BATCHES: usize = 4;
/// What such a program costs beside one of its own, as parts of its time.
const GAIN: u64 = 6;
/// The most elements of a result row for which a work-group has registers.
const GROUP_WIDTH: usize = 256;
/// The same for a warp of `mma.cl`, also of a query.
const WARP_WIDTH: usize = 128;
/// Its keys in local memory at a time, and queries of a warp.
const WARP_KEYS: usize = 64;
const WARP_QUERIES: usize = 16;

/// The implementations of an attention whose layouts are resolved.
pub(super) fn choices(
    desc: &PrimitiveDesc,
    op: &Attention,
    device: &DeviceTraits,
    wanted: Wanted<'_>,
) -> Vec<Choice> {
    let shape = Shape::new(desc, op, device);
    let mut choices = Choices::new(desc, wanted);
    if is_cpu(device) {
        if shape.has_few_queries() {
            choices.offer("decode", "few queries", || shape.decode(device));
        }
        choices.offer("vector", "vectors along the queries", || shape.vector(device));
        choices.offer("decode", "vectors along the elements", || shape.decode(device));
    }
    if !is_cpu(device) && shape.queries() <= split::FEW_QUERIES {
        choices.offer("split", "few queries: keys are split among work-groups", || shape.split(device));
    }
    choices.offer("wgmma", "16-bit operands on Hopper's tensor cores", || shape.wgmma(device));
    choices.offer("mma", "16-bit operands on matrix units", || shape.mma(device));
    if !is_cpu(device) && shape.tiles() * 2 <= device.compute_units {
        choices.offer("split", "too few queries to fill the device with tiles", || shape.split(device));
    }
    let reason = if is_cpu(device) { "meant for GPUs" } else { "tiles in local memory" };
    choices.offer("tiled", reason, || shape.tiled(device));
    choices.offer("ref", "serves every layout and type", || Some(shape.reference(device)));
    choices.offer("split", "meant for few queries on GPUs", || shape.split(device));
    choices.followed_by(|| {
        [Arg::DST, Arg::Dst(1)].into_iter().filter_map(|arg| padding(desc.find(arg)?, arg, device))
    })
}

/// An attention with its loops: batches, `s`, `t`, `d`, `e`.
#[derive(Clone)]
struct Shape<'a> {
    desc: &'a PrimitiveDesc,
    op: &'a Attention,
    space: Space,
    /// The indices of the dimensions of the scores, `[.., S, T]`.
    index: Vec<Index>,
    /// The numbers of the loops; the batches are those before `s`.
    s: usize,
    t: usize,
    d: usize,
    e: usize,
    value: Value,
}

impl<'a> Shape<'a> {
    fn new(desc: &'a PrimitiveDesc, op: &'a Attention, device: &DeviceTraits) -> Self {
        let [query, key, value] = [0, 1, 2].map(|i| desc.find(Arg::Src(i)).unwrap_or(desc.src()));
        let dst = desc.dst();
        let rank = query.rank();
        let batches = |space: &mut Space| -> Vec<Index> {
            (0..rank - 2).map(|axis| push_batch(space, desc, axis, query.dims()[axis])).collect()
        };
        let (mut space, mut own) = (Space::default(), Space::default());
        batches(&mut own);
        // As many batches as other shapes have, by the same names.
        for _ in own.loops.len()..if is_cpu(device) { 0 } else { BATCHES } {
            space.push("", 1);
        }
        let mut index = batches(&mut space);
        for (i, batch) in space.loops.iter_mut().enumerate() {
            batch.name = format!("i{i}");
        }
        let s = space.push("s", query.dims()[rank - 2]);
        let t = space.push("t", key.dims()[rank - 2]);
        let d = space.push("d", query.dims()[rank - 1]);
        let e = space.push("e", dst.dims()[rank - 1]);
        index.extend([Index::of(s), Index::of(t)]);
        let at = |row: usize, column: usize| -> Vec<Index> {
            index[..rank - 2].iter().cloned().chain([Index::of(row), Index::of(column)]).collect()
        };
        for (i, operand, index) in [(0, query, at(s, d)), (1, key, at(t, d)), (2, value, at(t, e))] {
            let whole: Dims = [&query.dims()[..rank - 2], &operand.dims()[rank - 2..]].concat().into();
            let index = broadcast_by_blocks(operand.dims(), &whole, &index);
            let name = format!("SRC{i}");
            space.operand(name.clone(), Binding::Arg(Arg::Src(i)), operand, &index);
            quantized::add(&mut space, desc, Quantized::Src(i), &name, operand.dims(), &index);
        }
        for i in 3..op.sources() as u16 {
            if let Some(operand) = desc.find(Arg::Src(i)) {
                let index = broadcast_by_blocks(operand.dims(), &op.scores.dims, &index);
                space.operand(format!("SRC{i}"), Binding::Arg(Arg::Src(i)), operand, &index);
            }
        }
        space.operand("DST", Binding::Arg(Arg::DST), dst, &at(s, e));
        if let Some(statistics) = desc.find(Arg::Dst(1)) {
            let mut index = at(s, e);
            index[rank - 1] = Index::default();
            space.operand("STATISTICS", Binding::Arg(Arg::Dst(1)), statistics, &index);
        }
        add_post_ops(&mut space, desc, &at(s, e));
        Self { desc, op, space, index, s, t, d, e, value: Value::of(desc, false) }
    }

    /// How many tiles the queries fill.
    fn tiles(&self) -> usize {
        self.space.count(0..self.s + 1) / GROUP_TILE
    }

    /// Whether most of a vector along the queries would be empty for many keys.
    fn has_few_queries(&self) -> bool {
        let (queries, keys) = (self.extent(self.s), self.extent(self.t));
        queries == 1 || (queries <= decode::FEW_QUERIES && keys >= 4 * queries)
    }

    fn extent(&self, variable: usize) -> usize {
        self.space.loops[variable].extent
    }

    fn reference(&self, device: &DeviceTraits) -> Launch {
        let mut source = self.source(1);
        let block = self.extent(self.e).clamp(1, E_BLOCK);
        let blocks = self.extent(self.e).div_ceil(block).max(1);
        let count = self.space.count(0..self.s + 1) * blocks;
        source
            .post_ops(self.desc)
            .declare("DECLARE_ROW", &self.space, 0..self.s + 1)
            .define("E_BLOCK", block)
            .define("E_BLOCKS", blocks)
            .define("ITEMS", count);
        let (global, local) = items(device, count);
        source.launch("attention_reference", &[REFERENCE], global, local)
    }

    /// Vectors along the queries; none where an operand has no steps along them or local memory is short.
    fn vector(&self, device: &DeviceTraits) -> Option<Launch> {
        let space = &self.space;
        if self.value != Value::F32 || !space.has_steps(self.s, CPU_LANES) {
            return None;
        }
        let step = |name: &str, v: usize| space.find(name)?.address.step(v, 1);
        let (d_step, key_apart) = (step("SRC1", self.d)?, step("SRC1", self.t)?);
        let (t_step, value_apart) = (step("SRC2", self.t)?, step("SRC2", self.e)?);
        let (queries, batches) = (self.extent(self.s), space.count(0..self.s));
        let sums = panels::sums(device);
        // Wide tiles of queries load keys and values less often, but every compute unit needs some. Few queries fill one in part: all
        // lengths of a sequence share a program.
        let enough = |&vectors: &usize| {
            let groups = queries.div_ceil(CPU_LANES * vectors) * batches;
            vectors == 1 || (6 * vectors <= sums && groups >= 2 * device.compute_units)
        };
        let (d, e) = (self.extent(self.d).max(1), self.extent(self.e).max(1));
        let (keys, d_rows) = (self.extent(self.t).max(1), d.next_multiple_of(CPU_LANES));
        let converts = |i| self.desc.find(Arg::Src(i)).is_some_and(|a| a.data_type() != DataType::F32);
        let copies = converts(1) || converts(2);
        let width = d_rows.max(e.next_multiple_of(CPU_LANES));
        let tiles = |copy_width: usize| {
            let many = if queries > MANY_QUERIES { MANY_VECTORS } else { VECTORS };
            [many, VECTORS, 1].into_iter().filter(enough).find_map(|vectors| {
                let tile = panels::tile_rows(e, (sums / vectors).clamp(1, 12));
                // The last block has keys for a whole tile, too, unless there are fewer at all.
                let is_whole = |block: &usize| keys % block == 0 || keys % block >= tile;
                let block = (tile.min(keys)..=T_BLOCK.min(keys)).rev().find(is_whole)?;
                let fits = |keys: &usize| {
                    let bytes = ((d_rows + e + keys) * vectors * CPU_LANES + keys * copy_width) * 4;
                    bytes <= device.local_memory_bytes
                };
                // Room for as many keys as other shapes have, which then share the program.
                let room = [T_BLOCK, block].into_iter().find(fits)?;
                Some((vectors, tile, (block, room), copy_width))
            })
        };
        let copied = if copies { tiles(width) } else { None };
        let (vectors, tile, (block, room), copy_width) = copied.or_else(|| tiles(0))?;
        let mut source = self.source(CPU_LANES);
        panels::repetitions(&mut source, tile, vectors);
        source
            .post_ops(self.desc)
            .general()
            .define("QUERIES", vectors)
            .define("D_ROWS", d_rows)
            .define("E_ROWS", e)
            .number_of("T_BLOCK", block)
            .define("T_ROOM", room)
            .define("D_STEP", mark(d_step))
            .define("T_STEP", mark(t_step))
            .define("KEY_APART", mark(key_apart))
            .define("VALUE_APART", mark(value_apart))
            .define("IN_PLACE", i32::from(!copies && (1..3).all(|i| self.is_plain(i))))
            .define("SCORES_ARE_PLAIN", i32::from(self.op.sources() == 3))
            .define("COPY_WIDTH", copy_width);
        for (name, along) in [("SRC1", self.d), ("SRC2", self.e)] {
            let wide = self.line(name, along);
            let one = format!("*(to) = DEQ1_{name}(LD1_{name}(o));");
            let (step, copy) = match &wide {
                Some((load, _)) => (CPU_LANES, format!("vstore16({load}, 0, to);")),
                None => (1, one),
            };
            source.define(format!("COPY_STEP_{name}"), step).define(format!("COPY_{name}(o, n, to)"), copy);
        }
        let (queries_lines, result_lines) = (self.line("SRC0", self.d), self.line("DST", self.e));
        source
            .define("LOAD_LINES", i32::from(queries_lines.is_some()))
            .define("STORE_LINES", i32::from(result_lines.is_some()));
        if let Some((load, _)) = queries_lines {
            source.define("LOAD_LINE(o, n)", load);
        }
        if let Some((_, store)) = result_lines {
            source.define("STORE_LINE(o, n, v)", store);
        }
        let global = [queries.div_ceil(CPU_LANES * vectors), batches, 1];
        Some(source.launch("attention_vector", &[TRANSPOSE, VECTOR], global, Some([1, 1, 1])))
    }

    /// Whether a source is f32 and means what it is.
    fn is_plain(&self, i: u16) -> bool {
        let is_f32 = self.desc.find(Arg::Src(i)).is_some_and(|a| a.data_type() == DataType::F32);
        is_f32 && !quantized::is_dequantized(self.desc, Arg::Src(i))
    }

    /// The load of `n` elements of an operand at offset `o` along one of its own loops, and the store of a vector `v` there; none where
    /// they do not lie side by side or mean something else.
    fn line(&self, name: &str, along: usize) -> Option<(String, String)> {
        let operand = self.space.find(name)?;
        let is_known = matches!(operand.data_type, DataType::F16 | DataType::BF16 | DataType::F32);
        let Binding::Arg(arg) = operand.binding else { return None };
        let means_more = quantized::is_dequantized(self.desc, arg);
        if !is_known || means_more || operand.address.step(along, CPU_LANES) != Some(1) {
            return None;
        }
        let (bits, kind) = storage(operand.data_type);
        let pointer = name.to_lowercase();
        let at = format!("{bits}_{CPU_LANES}({pointer}, o, n");
        Some(match operand.data_type {
            DataType::F16 => {
                let at = format!("{kind}_{CPU_LANES}({pointer}, o, n");
                (format!("load_{at})"), format!("store_{at}, v)"))
            }
            _ => (
                format!("unpack_{kind}_{CPU_LANES}(load_{at}))"),
                format!("store_{at}, pack_{kind}_{CPU_LANES}(v))"),
            ),
        })
    }

    /// Tiles in local memory; none where the device has too little of it or too small work-groups.
    fn tiled(&self, device: &DeviceTraits) -> Option<Launch> {
        let e = self.extent(self.e);
        if self.value != Value::F32 || e == 0 || e > GROUP_WIDTH || device.max_work_group < GROUP {
            return None;
        }
        // Columns of a work-item, as many as many widths have in common.
        let columns = e.div_ceil(GROUP_SLICE).next_power_of_two().max(2);
        let width = (columns * GROUP_SLICE).max(GROUP_TILE);
        let slices = GROUP_SLICE * (GROUP_TILE + 1 + width + 1);
        let softmax = GROUP_TILE * (GROUP_TILE + 1 + 3 + 4);
        if (slices + softmax) * 4 > device.local_memory_bytes {
            return None;
        }
        let fast = |name: &str, row: usize| {
            let step = |v| self.space.find(name).and_then(|o| o.address.step(v, 1)).unwrap_or(usize::MAX);
            i32::from(step(self.d) <= step(row))
        };
        let mut shape = self.clone();
        shape.space.complete = (shape.space.is_linear() && shape.s == BATCHES).then_some(usize::MAX);
        let mut source = shape.source(1);
        let products = [self.s, self.t, self.d].map(|v| self.extent(v)).iter().product::<usize>();
        source
            .general()
            .gains(GAIN, products.saturating_mul(4).saturating_mul(self.space.count(0..self.s)))
            .define("E_ITEMS", columns)
            .define("B_WIDTH", width)
            .define("FAST_D0", fast("SRC0", self.s))
            .define("FAST_D1", fast("SRC1", self.t));
        epilogue::define_all(&mut source, self.desc, self.value, device);
        let groups = self.extent(self.s).div_ceil(GROUP_TILE);
        let global = [groups * GROUP, self.space.count(0..self.s), 1];
        Some(source.launch("attention_tiled", &[TILED], global, Some([GROUP, 1, 1])))
    }

    /// Matrix units of NVIDIA's; none where they do not take the operands' types and layouts, or weights change before they meet the values.
    fn mma(&self, device: &DeviceTraits) -> Option<Launch> {
        let (d, e) = (self.extent(self.d), self.extent(self.e));
        let fits = |width: usize| (8..=WARP_WIDTH).contains(&width) && width.is_multiple_of(8);
        let operands = [("SRC0", self.d), ("SRC1", self.d), ("SRC2", self.e)];
        let data_type = self.desc.src().data_type();
        let unit = Feature::NvidiaMma;
        let name = unit.instruction(data_type, FpMath::Strict)?.factor.name();
        let plain = |i: usize| !quantized::is_dequantized(self.desc, Arg::Src(i as u16));
        if !fits(d)
            || !fits(e)
            || self.op.weights.is_some()
            || !(0..3).all(plain)
            || !operands.iter().all(|&(name, along)| self.in_chunks(name, along, data_type))
            || !device.has(unit)
        {
            return None;
        }
        let queries = self.extent(self.s);
        let groups = queries.div_ceil(WARP_QUERIES * 8) * self.space.count(0..self.s);
        // More queries share the keys that a group loads, and a mask's reads hide behind more warps; several small groups share a
        // compute unit better where sums take most registers.
        let masked = self.op.sources() > 3;
        let enough = device.compute_units * if masked { 1 } else { 4 };
        let warps = if groups >= enough && (masked || d + e <= WARP_WIDTH) { 8 } else { 4 };
        let pitch = |width: usize| width.next_multiple_of(16) * 2 + 16;
        let bytes = (WARP_KEYS * (pitch(d) + pitch(e))).max(WARP_QUERIES * warps * pitch(d));
        if bytes > device.local_memory_bytes || warps * 32 > device.max_work_group {
            return None;
        }
        let pairs = self.desc.attributes().post_ops.is_empty()
            && self
                .space
                .find("DST")
                .is_some_and(|dst| dst.data_type == data_type && dst.address.is_aligned(self.e, 2));
        let mut source = self.source_of_warps();
        source
            .post_ops(self.desc)
            .define("TYPE", format!("\"{name}\""))
            .define("WARPS", warps)
            .define("PAIRS", i32::from(pairs));
        let global = [queries.div_ceil(WARP_QUERIES * warps) * warps * 32, self.space.count(0..self.s), 1];
        Some(source.launch("attention_mma", &[WARP, MMA], global, Some([warps * 32, 1, 1])))
    }

    /// The number that products of queries and keys are multiplied by, if scores of keys that are not hidden are just that.
    fn plain_factor(&self) -> Option<String> {
        let nodes = &self.op.scores.nodes;
        let mut node = self.op.scores.results[0];
        if hidden::seen_or_score(self.desc, self.op).is_some()
            && let Node::Select(_, score, _) = nodes[node]
        {
            node = score;
        }
        let is_number = |node: usize| hidden::is_number(self.desc, &nodes[node]);
        match nodes[node] {
            Node::Operand(0) => Some(self.value.literal(1.0)),
            Node::Binary(algorithm, a, b) => match (algorithm, &nodes[a], &nodes[b]) {
                (BinaryAlgorithm::Multiply, Node::Operand(0), _) if is_number(b) => Some(self.number(b)),
                (BinaryAlgorithm::Multiply, _, Node::Operand(0)) if is_number(a) => Some(self.number(a)),
                (BinaryAlgorithm::Divide, Node::Operand(0), _) if is_number(b) => {
                    Some(format!("({} / {})", self.value.literal(1.0), self.number(b)))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// A node that is the same for all queries and keys, as a scalar.
    fn number(&self, node: usize) -> String {
        match self.op.scores.nodes[node] {
            Node::Constant(number) => self.value.literal(number),
            Node::Operand(i) => format!("LD1_SRC{0}(OFF_SRC{0})", i + 2),
            // Not asked for.
            _ => self.value.literal(f32::NAN),
        }
    }

    /// Whether an operand of this type lies in chunks of eight elements along a loop.
    fn in_chunks(&self, name: &str, along: usize, data_type: DataType) -> bool {
        self.space.find(name).is_some_and(|o| o.data_type == data_type && o.address.is_aligned(along, 8))
    }

    /// The macros that the variants have in common, with lanes along the queries.
    fn source(&self, lanes: usize) -> Source {
        self.source_along(self.s, lanes)
    }

    /// The same with lanes along a loop.
    fn source_along(&self, along: usize, lanes: usize) -> Source {
        self.source_hiding((lanes, along), hidden::seen(self.desc, self.op))
    }

    /// The source of warps on tensor cores, which know the keys that are hidden and the factor of scores as far as they are plain.
    fn source_of_warps(&self) -> Source {
        let hidden = hidden::seen_or_score(self.desc, self.op);
        let mut source = self.source_hiding((1, self.s), hidden.map(|(seen, _)| seen));
        if let Some(factor) = self.plain_factor() {
            source.define("FACTOR", factor);
        }
        if let Some((_, score)) = hidden.filter(|_| hidden::seen(self.desc, self.op).is_none()) {
            source.define("HIDDEN_SCORE", self.number(score));
        }
        source
    }

    /// The same, with the node that says whether a query sees a key.
    fn source_hiding(&self, (lanes, along): (usize, usize), seen: Option<usize>) -> Source {
        let wide = is_wide(self.desc);
        let mut source = Source::new(&self.space, self.value, (lanes, Some(along)), wide, true);
        for name in ["SRC0", "SRC1", "SRC2"] {
            quantized::define(&mut source, &self.space, name, &[]);
        }
        let statistics = match self.desc.find(Arg::Dst(1)) {
            Some(_) => "{ const V x = sum; ST_STATISTICS(OFF_STATISTICS, n, x); }",
            None => "{}",
        };
        for (name, v) in [("D_SIZE", self.d), ("E_SIZE", self.e)] {
            match self.space.complete {
                Some(_) => source.number_of(name, self.extent(v)),
                None => source.define(name, self.extent(v)),
            };
        }
        source
            .declare_before("DECLARE_BATCH", &self.space, 0..self.s)
            .number_of("S_SIZE", self.extent(self.s))
            .number_of("T_SIZE", self.extent(self.t))
            .define("TWO_PASSES", i32::from(self.op.weights.is_some()))
            .define("INF_AS_ZERO", i32::from(self.op.inf_as_zero))
            .define("NOTHING_IS_ZERO", i32::from(self.op.inf_as_zero || self.extent(self.t) == 0))
            .define("STORE_STATISTICS(sum, n)", statistics);
        let scores = &self.op.scores;
        self.expression(&mut source, ("SCORE", "SCORED", "score"), scores, scores.results[0], (lanes, along));
        source.define("HIDES", i32::from(seen.is_some()));
        if let Some(seen) = seen {
            self.expression(&mut source, ("SEE", "SEEN_LANES", "seen"), scores, seen, (1, along));
            source.define("SEEN", if lanes > 1 { "SEEN_LANES.s0" } else { "SEEN_LANES" });
            if let Node::Select(_, score, _) = scores.nodes[scores.results[0]] {
                self.expression(
                    &mut source,
                    ("SCORE_SEEN", "SCORED_SEEN", "plain"),
                    scores,
                    score,
                    (lanes, along),
                );
            }
        }
        match &self.op.weights {
            Some(weights) => {
                let names = ("WEIGHT", "WEIGHTED", "weight");
                self.expression(&mut source, names, weights, weights.results[0], (lanes, along));
            }
            None => {
                source.define("WEIGHT(x)", "").define("WEIGHTED", "0");
            }
        }
        source
    }

    /// Defines the macros that compute the node `wanted` of an expression of `x`, and name it.
    fn expression(
        &self,
        source: &mut Source,
        (compute, result, prefix): (&str, &str, &str),
        expression: &Expression,
        wanted: usize,
        (lanes, along): (usize, usize),
    ) {
        let needed = nodes::needed(&expression.nodes, [wanted]);
        let leaves = Scores { shape: self, lanes, along };
        let text = nodes::statements(&expression.nodes, &needed, prefix, self.value, &leaves);
        source.define(format!("{compute}(x)"), text).define(result, format!("{prefix}{wanted}"));
    }
}

/// What the nodes of scores and weights start from: the product or weight `x` and the further sources, at `s` and `t`; lanes run
/// along one of them.
struct Scores<'a> {
    shape: &'a Shape<'a>,
    lanes: usize,
    along: usize,
}

impl Scores<'_> {
    fn index_text(&self, axis: usize) -> String {
        let (index, loops) = (&self.shape.index[axis], &self.shape.space.loops);
        if !self.is_in_common() {
            return index.text(loops);
        }
        let terms = index.terms.iter().map(|&(v, factor)| match factor {
            1 => loops[v].name.clone(),
            _ => format!("{} * {}", loops[v].name, always(factor)),
        });
        format!("({})", terms.collect::<Vec<_>>().join(" + "))
    }

    /// Whether shapes have the text in common.
    fn is_in_common(&self) -> bool {
        self.shape.space.complete.is_some()
    }

    /// Whether the lanes run along an axis of the scores.
    fn is_lane(&self, axis: usize) -> bool {
        let from_end = if self.along == self.shape.s { 2 } else { 1 };
        self.lanes > 1 && axis + from_end == self.shape.index.len() && self.shape.extent(self.along) > 1
    }
}

impl Leaves for Scores<'_> {
    fn operand(&self, i: u16) -> String {
        match i {
            0 => "x".into(),
            _ => format!("LD_SRC{0}(OFF_SRC{0}, n)", i + 2),
        }
    }

    fn index(&self, axis: usize) -> String {
        let text = self.index_text(axis);
        if self.is_lane(axis) {
            format!("CONVERT(R, (VEC(int))((int)({text})) + LANE_NUMBERS)")
        } else {
            format!("(V)((R)({text}))")
        }
    }

    fn position(&self) -> String {
        let dims = &self.shape.op.scores.dims;
        let (mut terms, mut lanes) = (Vec::new(), String::new());
        for axis in 0..dims.len() {
            let stride: usize = dims[axis + 1..].iter().product();
            let number = if self.is_in_common() { always(stride) } else { stride.to_string() };
            terms.push(format!("(ulong)({}) * {number}", self.index_text(axis)));
            if self.is_lane(axis) {
                lanes = format!(" + CONVERT(ulong, LANE_NUMBERS) * (VEC(ulong))({stride})");
            }
        }
        format!("(VEC(ulong))({}){lanes}", terms.join(" + "))
    }

    fn constant(&self, value: Value, number: f32) -> String {
        match value {
            Value::F32 if self.is_in_common() => float(number),
            value => value.literal(number),
        }
    }

    fn scalar(&self, i: u16) -> String {
        format!("NAT1_SRC{0}(OFF_SRC{0})", i + 2)
    }

    // An attention's expressions have no folds; the contract refuses them.
    fn fold(&self, _: usize) -> String {
        "(V)(NAN)".into()
    }
}

/// Adds the loop over a batch dimension; a pair of loops where an operand has an element for each block of neighbours, which keeps its
/// address linear.
fn push_batch(space: &mut Space, desc: &PrimitiveDesc, axis: usize, extent: usize) -> Index {
    let rank = desc.src().rank();
    let blocks = desc.args().iter().filter(|a| matches!(a.arg, Arg::Src(_))).find_map(|a| {
        let own = a.desc.dims()[(axis + a.desc.rank()).checked_sub(rank)?];
        (own > 1 && own < extent && extent.is_multiple_of(own)).then_some(own)
    });
    match blocks {
        Some(blocks) => {
            let outer = space.push(format!("i{axis}"), blocks);
            let inner = space.push(format!("i{axis}b"), extent / blocks);
            Index::sum(&[(outer, extent / blocks), (inner, 1)])
        }
        None => Index::of(space.push(format!("i{axis}"), extent)),
    }
}

impl Planner for Attention {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(choices(desc, self, device, wanted))
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        std::iter::once(&self.scores).chain(&self.weights).flat_map(|expression| &expression.nodes)
    }
}

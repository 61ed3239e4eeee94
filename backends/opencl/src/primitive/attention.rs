//! Attention in one launch, the scores never in memory.
//!
//! Variants: `decode` (CPUs: few queries, vectors along their elements), `vector` (CPUs: vectors along the queries), `split` (other devices:
//! few queries, keys split among work-groups), `wgmma` (tensor cores of NVIDIA's Hopper), `mma` (NVIDIA's matrix units), `tiled` (other
//! devices: tiles of queries and keys in local memory) and `ref` (anything).

mod decode;
mod hidden;
mod mma;
mod scores;
mod split;
#[cfg(test)]
mod tests;
mod tiled;
mod vector;
mod wgmma;

use anydnn_backend::op::{Attention, Expression, Node};
use anydnn_backend::{Arg, BinaryAlgorithm, DataType, Dims, PrimitiveDesc, Quantized, Result};

use self::scores::Scores;
use super::choice::{Choice, Choices, Wanted};
use super::nodes;
use super::pointwise::{is_wide, padding};
use super::rows::{CPU_LANES, is_cpu, items};
use super::source::{Source, add_post_ops};
use super::space::{Binding, Index, Space, broadcast_by_blocks};
use super::value::{Value, storage};
use super::{Planner, quantized};
use crate::plan::{DeviceTraits, Launch};

const REFERENCE: &str = anydnn_kernels::text("attention/reference.cl");
const WARP: &str = anydnn_kernels::text("attention/warp.cl");

/// Elements of a result row that a work-item of the reference holds.
const E_BLOCK: usize = 128;
/// The tiles of queries and keys of `tiled.cl`.
const GROUP_TILE: usize = 64;
/// The loops over batches that programs of GPUs have in common.
const BATCHES: usize = 4;

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

    /// The load of `n` elements of an operand at offset `o` along one of its own loops, of floats or bytes, with what they mean if that is
    /// the same for all of them.
    fn load_line(&self, name: &str, along: usize) -> Option<String> {
        if let Some((load, _)) = self.line(name, along) {
            return Some(load);
        }
        let operand = self.space.find(name)?;
        let is_constant = |prefix: &str| {
            let operand = self.space.find(&format!("{prefix}_{name}"));
            operand.is_none_or(|o| o.address.step(along, CPU_LANES) == Some(0))
        };
        let is_known = matches!(
            operand.data_type,
            DataType::F16 | DataType::BF16 | DataType::F32 | DataType::S8 | DataType::U8
        );
        let is_line = operand.address.step(along, CPU_LANES) == Some(1);
        if !is_known || !is_line || !is_constant("SCALE") || !is_constant("ZERO") {
            return None;
        }
        let (bits, kind) = storage(operand.data_type);
        let load = format!("load_{bits}_{CPU_LANES}({}, o, n)", name.to_lowercase());
        let converted = format!("convert_float{CPU_LANES}(unpack_{kind}_{CPU_LANES}({load}))");
        let Binding::Arg(arg) = operand.binding else { return None };
        let means_more = quantized::is_dequantized(self.desc, arg);
        Some(if means_more { format!("DEQ1_{name}({converted})") } else { converted })
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
        source.define(format_args!("{compute}(x)"), text).define(result, format!("{prefix}{wanted}"));
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

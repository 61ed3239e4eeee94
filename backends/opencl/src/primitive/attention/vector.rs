//! Attention of many queries on processors: vectors along the queries (`attention/vector.cl`).

use anydnn_backend::{Arg, DataType};

use super::Shape;
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::numbers::mark;
use crate::primitive::rows::CPU_LANES;
use crate::primitive::value::Value;
use crate::primitive::{panels, quantized};

const VECTOR: &str = anydnn_kernels::text("attention/vector.cl");
const TRANSPOSE: &str = anydnn_kernels::text("common/transpose.cl");

/// Keys whose weights lie in local memory at a time: few enough for a first-level cache, and whole tiles.
const T_BLOCK: usize = 66;
/// Vectors of queries of a tile, and of so many queries that those beside the last one do not count.
const VECTORS: usize = 2;
const MANY_VECTORS: usize = 4;
const MANY_QUERIES: usize = 256;
/// Where weights are more than shares, scores are kept for all keys, by whole multiples of so many, instead of computed twice.
const KEPT: usize = 128;

impl Shape<'_> {
    /// Vectors along the queries; none where an operand has no steps along them or local memory is short.
    pub(super) fn vector(&self, device: &DeviceTraits) -> Option<Launch> {
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
        let copies =
            [1, 2].map(|i| self.desc.find(Arg::Src(i)).is_some_and(|a| a.data_type() != DataType::F32));
        let widths = [d_rows, e.next_multiple_of(CPU_LANES)];
        let width = widths.iter().zip(copies).map(|(&width, copies)| if copies { width } else { 0 }).max();
        let tiles = |copy_width: usize| {
            let many = if queries > MANY_QUERIES { MANY_VECTORS } else { VECTORS };
            [many, VECTORS, 1].into_iter().filter(enough).find_map(|vectors| {
                let tile = panels::tile_rows(e, (sums / vectors).clamp(1, 12));
                // The last block has keys for a whole tile, too, unless there are fewer at all.
                let is_whole = |block: &usize| keys % block == 0 || keys % block >= tile;
                let block = (tile.min(keys)..=T_BLOCK.min(keys)).rev().find(is_whole)?;
                let fits = |weights: usize, keys: usize| {
                    let rows = d_rows + e + weights;
                    (rows * vectors * CPU_LANES + keys * copy_width) * 4 <= device.local_memory_bytes
                };
                // Room for as many keys as other shapes have, which then share the program.
                let room = [T_BLOCK, block].into_iter().find(|&keys| fits(keys, keys))?;
                let kept = keys.next_multiple_of(KEPT);
                let keeps = self.op.weights.is_some() && fits(kept, room);
                Some((vectors, tile, (block, room, keeps.then_some(kept)), copy_width))
            })
        };
        let copied = width.filter(|&width| width > 0).and_then(tiles);
        let (vectors, tile, (block, room, kept), copy_width) = copied.or_else(|| tiles(0))?;
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
            .define("WEIGHTS_ROOM", kept.unwrap_or(room))
            .define("KEEPS", i32::from(kept.is_some()))
            .define("D_STEP", mark(d_step))
            .define("T_STEP", mark(t_step))
            .define("KEY_APART", mark(key_apart))
            .define("VALUE_APART", mark(value_apart))
            .define("SCORES_ARE_PLAIN", i32::from(self.op.sources() == 3))
            .define("COPY_WIDTH", copy_width);
        for (i, along, copies) in [(1, self.d, copies[0]), (2, self.e, copies[1])] {
            let name = format!("SRC{i}");
            let one = format!("*(to) = DEQ1_{name}(LD1_{name}(o));");
            let (step, copy) = match self.load_line(&name, along) {
                Some(load) => (CPU_LANES, format!("vstore16({load}, 0, to);")),
                None => (1, one),
            };
            let is_copied = copies && copy_width > 0;
            source
                .define(format_args!("COPIES_{name}"), i32::from(is_copied))
                .define(format_args!("IN_PLACE_{name}"), i32::from(!is_copied && self.is_plain(i)))
                .define(format_args!("COPY_STEP_{name}"), step)
                .define(format_args!("COPY_{name}(o, n, to)"), copy);
        }
        let (queries_lines, result_lines) = (self.load_line("SRC0", self.d), self.line("DST", self.e));
        source
            .define("LOAD_LINES", i32::from(queries_lines.is_some()))
            .define("STORE_LINES", i32::from(result_lines.is_some()));
        if let Some(load) = queries_lines {
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
}

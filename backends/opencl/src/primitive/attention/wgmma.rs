//! Attention by the tensor cores of NVIDIA's Hopper (`attention/wgmma.cl`).

use std::fmt::Write;

use anydnn_backend::{Arg, FpMath};

use super::{Shape, WARP, hidden};
use crate::capability::Feature;
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::quantized;
use crate::primitive::source::Source;

const COPIES: &str = anydnn_kernels::text("attention/wgmma_copies.cl");
const SCORES: &str = anydnn_kernels::text("attention/wgmma_scores.cl");
const WGMMA: &str = anydnn_kernels::text("attention/wgmma.cl");

/// Warpgroups that multiply, and the queries of each.
const CONSUMERS: usize = 2;
const QUERIES: usize = 64;
/// Places for keys and values, which are all of local memory that OpenCL grants, and the bytes of each.
const SLOTS: usize = 3;
const SLOT_BYTES: usize = 16 << 10;
/// What the elements of an operand's row are a multiple of, as four work-items exchange them, and the most of them.
const BLOCK: usize = 32;
const WIDEST: usize = 128;
/// Registers of a work-item: together as many as a multiprocessor has.
const PRODUCER_REGISTERS: usize = 56;
const CONSUMER_REGISTERS: usize = 224;
/// Keys from which on it is the faster one: a block of queries takes some time to begin and to end.
const MANY_KEYS: usize = 256;
/// Keys and values of so many bytes stay in the second-level cache, of which other work needs a part.
const CACHED_BYTES: usize = 24 << 20;

impl Shape<'_> {
    /// Hopper's tensor cores; none where they do not take the operands' types and layouts, or for too little work.
    pub(super) fn wgmma(&self, device: &DeviceTraits) -> Option<Launch> {
        let [queries, keys, d, e] = [self.s, self.t, self.d, self.e].map(|v| self.extent(v));
        let unit = Feature::Wgmma;
        let data_type = self.desc.src().data_type();
        let name =
            unit.instruction(data_type, FpMath::Strict).filter(|i| i.factor.bytes() == 2)?.factor.name();
        let fits = |width: usize| (BLOCK..=WIDEST).contains(&width) && width.is_multiple_of(BLOCK);
        let operands = [("SRC0", self.d), ("SRC1", self.d), ("SRC2", self.e)];
        let plain = |i: usize| !quantized::is_dequantized(self.desc, Arg::Src(i as u16));
        let batches = self.space.count(0..self.s);
        let block = CONSUMERS * QUERIES;
        let blocks = queries.div_ceil(block) * batches;
        let group = (CONSUMERS + 1) * 128;
        if !fits(d)
            || !fits(e)
            || keys < MANY_KEYS
            || blocks * 2 < device.compute_units
            || self.op.weights.is_some()
            || !(0..3).all(plain)
            || !operands.iter().all(|&(name, along)| self.in_chunks(name, along, data_type))
            || SLOTS * SLOT_BYTES > device.local_memory_bytes
            || group > device.max_work_group
            || !device.has(unit)
        {
            return None;
        }
        // Rows of local memory have 64 elements.
        let tile = SLOT_BYTES / (2 * d.max(e).next_multiple_of(64));
        let mut source = self.source_of_warps();
        let row = |name: &str| self.space.coefficient(name, self.t);
        let whole = self.desc.attributes().post_ops.is_empty() && self.in_chunks("DST", self.e, data_type);
        // Where queries differ in the keys that they see, only all of them together share the work evenly.
        let bytes = keys * (d + e) * 2;
        let hides = hidden::seen_or_score(self.desc, self.op).is_some();
        let section = if hides { batches } else { (CACHED_BYTES / bytes).clamp(1, batches) };
        source
            .post_ops(self.desc)
            .define("SRC1_ROW", row("SRC1")?)
            .define("SRC2_ROW", row("SRC2")?)
            .define("TYPE", format_args!("\"{name}\""))
            .define("CONSUMERS", CONSUMERS)
            .define("TILE", tile)
            .define("SLOTS", SLOTS)
            .define("BATCHES", batches)
            .define("SECTION", section)
            .define("PRODUCER_REGISTERS", format_args!("\"{PRODUCER_REGISTERS}\""))
            .define("CONSUMER_REGISTERS", format_args!("\"{CONSUMER_REGISTERS}\""))
            .define("WHOLE", i32::from(whole));
        define_instructions(&mut source, name, tile, e);
        let groups = blocks.min(device.compute_units.max(1));
        let files = [WARP, COPIES, SCORES, WGMMA];
        let mut launch =
            source.launch("attention_wgmma", &files, [groups * group, 1, 1], Some([group, 1, 1]));
        launch.alignment = 16;
        Some(launch)
    }
}

/// Defines the instructions, which name every register of the products and of the sums.
fn define_instructions(source: &mut Source, name: &str, keys: usize, columns: usize) {
    let multiply = |columns: usize, registers: &str, scale: &str, order: usize| {
        let count = columns / 2;
        let mut names = String::new();
        for i in 0..count {
            let _ = write!(names, "{}%{i}", if i > 0 { ", " } else { "" });
        }
        let [a, b, c, d, at] = [0, 1, 2, 3, 4].map(|i| count + i);
        format!(
            "asm volatile(SM90A \"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{name}.{name} {{{names}}}, \
             {{%{a}, %{b}, %{c}, %{d}}}, %{at}, {scale}, 1, 1, {order};\" : {registers} : \"r\"((a)[0]), \"r\"((a)[1]), \
             \"r\"((a)[2]), \"r\"((a)[3]), \"l\"(b))"
        )
    };
    let wait = |left: &str, registers: &str| {
        format!("asm volatile(SM90A \"wgmma.wait_group.sync.aligned {left};\" : {registers} :: \"memory\")")
    };
    let registers = |name: &str, count: usize| {
        let each: Vec<String> = (0..count).map(|i| format!("\"+f\"({name}[{i}])")).collect();
        each.join(", ")
    };
    let (products, sums) = (registers("products", keys / 2), registers("sums", columns / 2));
    source
        .define("MULTIPLY_KEYS(scale, a, b)", multiply(keys, &products, "\" scale \"", 0))
        .define("SCORES_WAIT(left)", wait("\" left \"", &products))
        .define("MULTIPLY_VALUES(a, b)", multiply(columns, &sums, "1", 1))
        .define("SUMS_WAIT", wait("0", &sums));
}

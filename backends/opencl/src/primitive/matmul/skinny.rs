//! Products of a few rows on GPUs: bound by the weights, which every work-group reads a part of (`matmul/skinny.cl`).

use anydnn_backend::{Arg, FpMath};

use super::Shape;
use crate::capability::Feature;
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::choice::Planned;
use crate::primitive::gemm::{
    LAUNCH_CLOCKS, MOST_LANES, Partial, UNIT_BYTES, belongs_to_sums, bytes_of_parts,
};
use crate::primitive::numbers::always;
use crate::primitive::quantized;
use crate::primitive::source::Source;
use crate::primitive::space::{Address, Binding, Operand, Space};
use crate::primitive::sums::define_bias;
use crate::primitive::value::Value;

const SKINNY: &str = anydnn_kernels::text("matmul/skinny.cl");
const SKINNY_MMA: &str = anydnn_kernels::text("matmul/skinny_mma.cl");
pub(super) const SUMS: &str = anydnn_kernels::text("matmul/skinny_sums.cl");

/// The most rows that have their sums in registers.
const MOST_ROWS: usize = 16;
/// The work-items of `skinny.cl`: of a group, in a line, lines.
const GROUP: usize = 256;
const LINE: usize = 32;
const DEPTH: usize = GROUP / LINE;
/// The shortest line whose work-items have vectors of columns, 128 bytes side by side, and the work-items of a group of such lines.
const SHORTEST_LINE: usize = 8;
const WHOLE_GROUP: usize = 512;
/// Terms of the source in local memory at a time: of one row, and of several.
const ROW_BLOCK: usize = 4096;
const BLOCK: usize = 256;
/// The numbers of rows that programs have registers for, the terms of the source in local memory, and the room for a term's rows, which must not
/// meet in a memory bank.
const ROOMS: [(usize, usize, usize); 5] =
    [(1, ROW_BLOCK, 1), (4, BLOCK, 4), (8, BLOCK, 12), (12, BLOCK, 12), (MOST_ROWS, BLOCK, 20)];
/// What parts of K are multiples of.
const SLICE: usize = 256;
/// The columns of a work-group of `skinny_mma.cl`, and its local memory.
const MMA_COLUMNS: usize = 64;
const MMA_LOCAL: usize = 8 * MOST_ROWS * (MMA_COLUMNS + 8);
/// Weights from which on a product gains by a program of its own: this part of its time.
const LARGE: usize = 1 << 23;
const GAIN: u64 = 10;
/// The same where programs have registers for more rows than there are.
const EMPTY_GAIN: u64 = 8;
/// Bytes that a compute unit reads in a clock while others do too, and where few do.
const ALONE_BYTES: usize = UNIT_BYTES * 3 / 2;
/// Work-groups that fill a compute unit.
const FILLING: usize = 4;

/// The lines that a group of `skinny.cl` may have, the longest first.
fn lines() -> impl Iterator<Item = usize> {
    (SHORTEST_LINE.ilog2()..=LINE.ilog2()).rev().map(|exponent| 1 << exponent)
}

/// The longest line of which groups of few columns are enough to keep the device busy, so that no sum needs a second launch, or else the
/// shortest where the weights take the groups that there are less time than that launch.
fn whole_line(groups: impl Fn(usize) -> usize, bytes: usize, device: &DeviceTraits) -> Option<usize> {
    let units = device.compute_units.max(1);
    let busy = |line: &usize| 2 * groups(*line) >= 3 * units;
    let nearly_busy = |line: &usize| 8 * groups(*line) >= 7 * units;
    let is_soon_done = |line: &usize| {
        let clocks = |units: usize, rate: usize| bytes / (units.max(1) * rate);
        clocks(groups(*line), ALONE_BYTES) <= LAUNCH_CLOCKS + clocks(units, UNIT_BYTES)
    };
    let short = [SHORTEST_LINE, SHORTEST_LINE / 2];
    lines()
        .find(busy)
        .or_else(|| short.into_iter().find(nearly_busy))
        .or_else(|| Some(short[1]).filter(is_soon_done))
}

/// The longest line of which groups of few columns and few terms keep the device busy.
fn line_of_parts(groups: impl Fn(usize) -> usize, terms: usize, device: &DeviceTraits) -> usize {
    if terms <= SLICE / 2 {
        return LINE;
    }
    let busy = |line: &usize| groups(*line) * terms.div_ceil(SLICE) >= 2 * device.compute_units;
    lines().find(busy).unwrap_or(SHORTEST_LINE)
}

impl Shape<'_> {
    /// Weights read once by vectors, on matrix units or not; none where there are too many rows or an operand's layout has no use for
    /// vectors.
    pub(super) fn skinny(
        &self,
        space: &Space,
        value: Value,
        device: &DeviceTraits,
        mma: bool,
    ) -> Option<Planned> {
        let all = space.loops.len();
        let [m, col, k] = [all - 3, all - 2, all - 1];
        let [rows, columns, terms] = [m, col, k].map(|v| space.loops[v].extent);
        let weights = space.find("WEIGHTS")?;
        let lanes = if weights.data_type.bits() <= 16 { 8 } else { 4 };
        let lies_along =
            |v: usize| weights.address.coefficient(v) == Some(1) && space.loops[v].extent >= lanes;
        let along_k = lies_along(k) && terms.is_multiple_of(lanes);
        let outside = self.gate.is_some() || value != Value::F32 || !space.is_linear();
        if outside || rows > MOST_ROWS || columns == 0 || device.max_work_group < GROUP || terms < lanes {
            return None;
        }
        if !along_k && !lies_along(col) {
            return None;
        }
        let instruction = self.instruction(space, device).filter(|_| mma && terms.is_multiple_of(lanes));
        if mma && instruction.is_none() {
            return None;
        }
        // Columns that a work-item takes share what it loads of the source.
        let columns_of_item = if rows == 1 { 1 } else { 4 };
        let batches = space.count(0..m);
        let groups_of = |line: usize| columns.div_ceil(line * lanes) * batches;
        let takes_whole = rows == 1 && !mma && !along_k && device.max_work_group >= WHOLE_GROUP;
        let bytes = (columns * terms).saturating_mul(batches * weights.data_type.bits() / 8);
        let whole = whole_line(groups_of, bytes, device).filter(|_| takes_whole);
        let (line, group) = match whole {
            Some(line) => (line, WHOLE_GROUP),
            None if mma || along_k => (LINE, GROUP),
            None => (line_of_parts(groups_of, terms, device), GROUP),
        };
        let &(most, block, room) = ROOMS.iter().find(|(most, ..)| rows <= *most)?;
        let (columns_of_group, local) = match along_k {
            _ if mma => (MMA_COLUMNS, MMA_LOCAL),
            true => (DEPTH * columns_of_item, 8 * GROUP),
            false => (line * lanes, block * room + group * lanes),
        };
        if local * size_of::<f32>() > device.local_memory_bytes {
            return None;
        }
        let groups = columns.div_ceil(columns_of_group);
        let wanted = (device.compute_units * FILLING).div_ceil(groups * batches.max(1));
        let wanted = if whole.is_some() { 1 } else { wanted };
        let slice = terms.div_ceil(wanted).next_multiple_of(SLICE.max(LINE * lanes));
        let splits = terms.div_ceil(slice);

        let mut space = space.clone();
        let total = space.count(0..k);
        // The vectors of every part are aligned.
        let part = total.next_multiple_of(MOST_LANES);
        if splits > 1 {
            let strides = (0..all).map(|v| if v == k { 0 } else { space.count(v + 1..k) }).collect();
            space.operands.push(Operand {
                name: "PARTIAL".into(),
                binding: Binding::Scratchpad(0),
                data_type: Value::F32.storage(),
                address: Address::linear(strides),
            });
            // What comes after the sum is for the launch that joins its parts.
            space.operands.retain(|o| belongs_to_sums(&o.name) || o.name == "PARTIAL");
        }
        let lane = if along_k { k } else { col };
        let mut source = Source::new(&space, value, (lanes, Some(lane)), self.wide, true);
        // On an H100 large ones take a little longer by a program for every shape.
        let operations = 2_usize.saturating_mul(total).saturating_mul(terms);
        if terms * columns >= LARGE {
            source.gains(GAIN, operations);
        } else if rows < most && !mma {
            // Sums of rows that are not there take as long as others.
            source.gains(EMPTY_GAIN, operations);
        }
        source
            .general()
            .declare("DECLARE_BATCH", &space, 0..m)
            .define("ALONG_K", i32::from(along_k))
            .define("COLUMNS", columns_of_item)
            .number_of("M_SIZE", rows)
            .define("MOST_ROWS", most)
            .number_of("N_SIZE", columns)
            .number_of("K_SIZE", terms)
            .number_of("K_SLICE", slice)
            .define_whole();
        if !mma {
            source
                .define("GROUP", group)
                .define("LINE", line)
                .define("ROOM", room)
                .define("BLOCK", block)
                .define("AHEAD", if whole.is_some() { 8 } else { 4 });
        }
        if let Some(instruction) = instruction {
            let whole = |name: &str, along: usize| {
                let is_whole = space.find(name).is_some_and(|o| o.address.is_aligned(along, lanes));
                if is_whole { "load_whole_16_8" } else { "load_16_8" }
            };
            source
                .define("TYPE", format_args!("\"{instruction}\""))
                .define("RAW_SRC0(o)", format_args!("{}(src0, o, 8)", whole("SRC0", k)))
                .define("RAW_WEIGHTS(o, n)", format_args!("{}(weights, o, n)", whole("WEIGHTS", lane)));
        }
        for name in ["SRC0", "WEIGHTS"] {
            quantized::define(&mut source, &space, name, &[]);
        }
        let finish = if splits > 1 {
            format!("put_32(partial, OFF_PARTIAL + (idx)split * {}, as_uint(x));", always(part))
        } else {
            define_bias(&mut source, self.desc);
            source.post_ops(self.desc);
            "{ V v = (V)(x); ADD_BIAS(v, 1) POST_OPS(v, 1) ST_DST(OFF_DST, 1, v); }".into()
        };
        source.define("FINISH(x)", finish);
        let global = [groups * group, batches, splits];
        let files: &[&str] = if mma { &[SUMS, SKINNY_MMA] } else { &[SKINNY] };
        let mut launches = vec![source.launch("matmul_skinny", files, global, Some([group, 1, 1]))];
        if splits == 1 {
            return Some(Planned { scratchpad: 0, launches });
        }
        launches.push(self.join(value, part, splits, device));
        Some(Planned { scratchpad: bytes_of_parts(splits, part), launches })
    }

    /// The type of operands that matrix units multiply, if source and weights have it and the source lies along K.
    fn instruction(&self, space: &Space, device: &DeviceTraits) -> Option<&'static str> {
        let (src, weights) = (space.find("SRC0")?, space.find("WEIGHTS")?);
        let plain = |arg: Arg| !quantized::is_dequantized(self.desc, arg);
        let along_k = src.address.coefficient(space.loops.len() - 1) == Some(1);
        let fits = along_k && src.data_type == weights.data_type && plain(Arg::SRC) && plain(Arg::Weights);
        let unit = Feature::NvidiaMma;
        let instruction =
            unit.instruction(src.data_type, FpMath::Strict).filter(|_| fits && device.has(unit));
        instruction.map(|instruction| instruction.factor.name())
    }

    /// The launch that joins the parts of sums and finishes the product.
    fn join(&self, value: Value, part: usize, splits: usize, device: &DeviceTraits) -> Launch {
        let mut space = self.space(None);
        let k = space.loops.len() - 1;
        let strides = (0..=k).map(|v| if v == k { 0 } else { space.count(v + 1..k) }).collect();
        space.operands.push(Operand {
            name: "PARTIAL".into(),
            binding: Binding::Scratchpad(0),
            data_type: Value::F32.storage(),
            address: Address::linear(strides),
        });
        space.remove(k);
        let partial = Partial { parts: splits, size: part, wide: self.wide };
        partial.sum(space, self.desc, value, device)
    }
}

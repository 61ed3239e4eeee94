//! Products of a few rows of floats by weights of four or eight bits on GPUs: bound by the weights, which are read once and become floats
//! exactly (`matmul/skinny_integers.cl`).

use anydnn_backend::{Arg, DataType};

use super::Shape;
use super::skinny_bits::define_factors;
use crate::plan::DeviceTraits;
use crate::primitive::choice::Planned;
use crate::primitive::quantized;
use crate::primitive::source::Source;
use crate::primitive::space::{Operand, Space};
use crate::primitive::sums::define_bias;
use crate::primitive::value::Value;

const SKINNY_INTEGERS: &str = anydnn_kernels::text("matmul/skinny_integers.cl");

/// The most rows, and how many of them have their sums in the registers of a work-group; others read the weights again.
pub(super) const MOST_ROWS: usize = 16;
const GROUP_ROWS: usize = 8;
/// Rows that wait in local memory for their total at a time.
const WAITING_ROWS: usize = 4;
/// Rows up to which twice as many work-items have registers enough.
const FEW_ROWS: usize = 4;
const GROUP: usize = 256;
/// Columns side by side.
const OUTER: usize = 8;
/// Weights from which on a product gains by a program of its own: this part of its time.
const LARGE: usize = 1 << 23;
const GAIN: u64 = 10;
/// Elements of rows that are loaded at once.
const ROW_WORDS: usize = 4;
/// Bits of weights that a work-item loads at once.
const LOADED_BITS: usize = 128;

impl Shape<'_> {
    /// The launch; none where there are too many rows, or types and layouts are not those of the kernel.
    pub(super) fn skinny_integers(
        &self,
        space: &Space,
        value: Value,
        device: &DeviceTraits,
    ) -> Option<Planned> {
        let all = space.loops.len();
        let [m, col, k] = [all - 3, all - 2, all - 1];
        let [rows, columns, terms] = [m, col, k].map(|v| space.loops[v].extent);
        let (src, weights) = (space.find("SRC0")?, space.find("WEIGHTS")?);
        let bits = weights.data_type.bits();
        let is_small = |data_type: DataType| data_type.is_integer() && matches!(data_type.bits(), 4 | 8);
        let is_plain = |arg: Arg| !quantized::is_dequantized(self.desc, arg);
        let serves = value == Value::F32
            && self.gate.is_none()
            && (1..=MOST_ROWS).contains(&rows)
            && columns > 0
            && src.data_type.is_float()
            && is_small(weights.data_type)
            && is_plain(Arg::SRC)
            && !is_plain(Arg::Weights);
        if !serves {
            return None;
        }
        let (stretch, word) = (LOADED_BITS / bits, 32 / bits);
        let lies = terms > 0
            && terms.is_multiple_of(stretch)
            && weights.address.is_aligned(k, stretch)
            && src.address.step(k, word) == Some(1);
        let (scale, zero) = (space.find("SCALE_WEIGHTS"), space.find("ZERO_WEIGHTS"));
        if !lies || !zero.is_none_or(|zero| is_small(zero.data_type)) {
            return None;
        }
        let is_same = |operand: Option<&Operand>, terms: usize| {
            operand.is_none_or(|operand| operand.address.step(k, terms) == Some(0))
        };
        let scales = [1, 2, 4].into_iter().find(|scales| {
            let terms = stretch / scales;
            is_same(scale, terms) && is_same(zero, terms)
        })?;
        let chunks = rows.div_ceil(GROUP_ROWS);
        let of_group = rows.div_ceil(chunks);
        let batches = space.count(0..m);
        // Columns that a work-item takes share what it loads of the rows; there must be groups enough nevertheless.
        let groups = |sides: usize| columns.div_ceil(sides * OUTER) * chunks * batches;
        let is_busy = |sides: &usize| 4 * groups(*sides) >= 3 * device.compute_units;
        let sides = [4, 2].into_iter().find(is_busy).unwrap_or(1);
        // Several rows take more registers than two groups have, and where there is but one for each unit it should have more work-items: if
        // there are terms for them.
        let is_long = terms > stretch * GROUP / OUTER && of_group <= FEW_ROWS;
        let is_alone = of_group > 1 || groups(sides) <= device.compute_units;
        let doubles = is_long && is_alone && device.max_work_group >= 2 * GROUP;
        let group = if doubles { 2 * GROUP } else { GROUP };
        let local = group / OUTER * of_group.min(WAITING_ROWS) * sides * OUTER * size_of::<f32>();
        if device.max_work_group < GROUP || local > device.local_memory_bytes {
            return None;
        }

        let mut source = Source::new(space, value, (word, Some(k)), self.wide, true);
        if terms * columns >= LARGE {
            source.gains(GAIN, 2_usize.saturating_mul(space.count(0..k)).saturating_mul(terms));
        }
        source
            .general()
            .declare("DECLARE_BATCH", space, 0..m)
            .define("BITS", bits)
            .define("SIGNED", i32::from(matches!(weights.data_type, DataType::S4 | DataType::S8)))
            .define("SCALES", scales)
            .define("SIDES", sides)
            .define("ROWS", of_group)
            .define("GROUP", group)
            .number_of("M_SIZE", rows)
            .number_of("N_SIZE", columns)
            .number_of("K_SIZE", terms);
        if src.data_type == DataType::F32 && src.address.is_aligned(k, ROW_WORDS) {
            source.define("ROW_WORDS", 1);
        }
        define_factors(&mut source, scale, zero);
        define_bias(&mut source, self.desc);
        source.post_ops(self.desc);
        source.define("FINISH(x)", "{ V v = (V)(x); ADD_BIAS(v, 1) POST_OPS(v, 1) ST_DST(OFF_DST, 1, v); }");
        let global = [columns.div_ceil(sides * OUTER) * group, batches, chunks];
        let mut launch = source.launch("matmul_skinny", &[SKINNY_INTEGERS], global, Some([group, 1, 1]));
        launch.alignment = 16;
        Some(launch.into())
    }
}

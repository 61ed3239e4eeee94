//! Products of a few rows of 16 bits by weights of four or eight bits on GPUs with matrix units: bound by the weights, which are read once
//! and become floats in registers (`matmul/skinny_bits.cl`).

use anydnn_backend::{Arg, DataType, FpMath};

use super::Shape;
use super::skinny::SUMS;
use crate::capability::Feature;
use crate::plan::DeviceTraits;
use crate::primitive::choice::Planned;
use crate::primitive::quantized;
use crate::primitive::source::Source;
use crate::primitive::space::{Operand, Space};
use crate::primitive::sums::define_bias;
use crate::primitive::value::{Value, storage};

const SKINNY_BITS: &str = anydnn_kernels::text("matmul/skinny_bits.cl");

/// The most rows that have their sums in registers.
pub(super) const MOST_ROWS: usize = 32;
const GROUP: usize = 256;
/// Warps of a work-group. Each has a row of padded columns in local memory.
const WARPS: usize = GROUP / 32;
/// Rows up to which a work-group has twice as many columns.
const FEW_ROWS: usize = 16;
const COLUMNS: usize = 16;
/// Weights from which on a product gains by a program of its own: this part of its time.
const LARGE: usize = 1 << 23;
const GAIN: u64 = 10;
/// Bits of weights that a work-item loads at once, which are a quarter of what four share.
const LOADED_BITS: usize = 128;

impl Shape<'_> {
    /// The launch; none where there are too many rows, or types and layouts are not those of the kernel.
    pub(super) fn skinny_bits(&self, space: &Space, value: Value, device: &DeviceTraits) -> Option<Planned> {
        let all = space.loops.len();
        let [m, col, k] = [all - 3, all - 2, all - 1];
        let [rows, columns, terms] = [m, col, k].map(|v| space.loops[v].extent);
        let (src, weights) = (space.find("SRC0")?, space.find("WEIGHTS")?);
        let unit = Feature::NvidiaMma;
        let factor = unit.instruction(src.data_type, FpMath::Strict).filter(|_| device.has(unit))?.factor;
        let bits = weights.data_type.bits();
        let of_group = if rows <= FEW_ROWS { 2 * COLUMNS } else { COLUMNS };
        let local = rows.next_multiple_of(8) * WARPS * (of_group + 1) * size_of::<f32>();
        let is_small = weights.data_type.is_integer() && (bits == 4 || bits == 8);
        let is_plain = |arg: Arg| !quantized::is_dequantized(self.desc, arg);
        let fits = value == Value::F32
            && self.gate.is_none()
            && (1..=MOST_ROWS).contains(&rows)
            && columns > 0
            && is_small
            && is_plain(Arg::SRC)
            && !is_plain(Arg::Weights)
            && device.max_work_group >= GROUP
            && local <= device.local_memory_bytes;
        if !fits {
            return None;
        }
        let (quarter, word) = (LOADED_BITS / bits, 32 / bits);
        let lies = terms > 0
            && terms.is_multiple_of(quarter)
            && weights.address.is_aligned(k, quarter)
            && src.address.is_aligned(k, word);
        let (scale, zero) = (space.find("SCALE_WEIGHTS"), space.find("ZERO_WEIGHTS"));
        // Differences of others do not fit into the floats.
        let has_own_type = |zero: &Operand| zero.data_type == weights.data_type;
        if !lies || !zero.is_none_or(has_own_type) {
            return None;
        }
        let is_same = |operand: Option<&Operand>, terms: usize| {
            operand.is_none_or(|operand| operand.address.step(k, terms) == Some(0))
        };
        let pieces = [4, 2, 1]
            .into_iter()
            .find(|pieces| is_same(scale, pieces * quarter) && is_same(zero, pieces * quarter))?;

        let mut source = Source::new(space, value, (word, Some(k)), self.wide, true);
        // What is not worked out from numbers of the launch is left to the weights.
        if terms * columns >= LARGE {
            source.gains(GAIN, 2_usize.saturating_mul(space.count(0..k)).saturating_mul(terms));
        }
        let signed = matches!(weights.data_type, DataType::S4 | DataType::S8);
        source
            .general()
            .declare("DECLARE_BATCH", space, 0..m)
            .define("BITS", bits)
            .define("TYPE", format_args!("\"{}\"", factor.name()))
            .define("IS_BF16", i32::from(src.data_type == DataType::BF16))
            .define("SIGNED", i32::from(signed))
            .define("HAS_ZERO", i32::from(zero.is_some()))
            .define("PIECES", pieces)
            .define("M_SIZE", rows)
            .number_of("N_SIZE", columns)
            .number_of("K_SIZE", terms);
        define_factors(&mut source, scale, zero);
        define_bias(&mut source, self.desc);
        source.post_ops(self.desc);
        source.define("FINISH(x)", "{ V v = (V)(x); ADD_BIAS(v, 1) POST_OPS(v, 1) ST_DST(OFF_DST, 1, v); }");
        let global = [columns.div_ceil(of_group) * GROUP, space.count(0..m), 1];
        let mut launch = source.launch("matmul_skinny", &[SUMS, SKINNY_BITS], global, Some([GROUP, 1, 1]));
        launch.alignment = 16;
        Some(launch.into())
    }
}

/// Defines how scales and zero points come: as bits, whose meaning is worked out when they are there.
pub(super) fn define_factors(source: &mut Source, scale: Option<&Operand>, zero: Option<&Operand>) {
    let (raw, meaning) = scale.map_or(("0".into(), "1.0f".into()), |scale| {
        let (bits, kind) = storage(scale.data_type);
        let pointer = scale.name.to_lowercase();
        (format!("get_{bits}({pointer}, OFF_SCALE_WEIGHTS)"), format!("(float)unpack_{kind}_1(raw)"))
    });
    source.define("RAW_SCALE", raw).define("SCALE_OF(raw)", meaning);
    let (raw, meaning) = zero.map_or(("0".into(), "0".into()), |zero| {
        let (bits, kind) = storage(zero.data_type);
        if bits == 8 {
            return ("get_8(zero_weights, OFF_ZERO_WEIGHTS)".to_owned(), format!("unpack_{kind}_1(raw)"));
        }
        // Two share a byte.
        let half = "(raw >> ((int)((OFF_ZERO_WEIGHTS) & 1) * 4) & 15)";
        ("zero_weights[(OFF_ZERO_WEIGHTS) >> 1]".to_owned(), format!("unpack_{kind}_1({half})"))
    });
    source.define("RAW_ZERO", raw).define("ZERO_OF(raw)", meaning);
}

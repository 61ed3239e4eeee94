//! Products of a few columns on processors: lanes along the columns would be empty for the most part (`matmul/narrow.cl`).

use anydnn_backend::{Arg, DataType};

use super::Shape;
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::epilogue;
use crate::primitive::numbers::always;
use crate::primitive::quantized;
use crate::primitive::rows::CPU_LANES;
use crate::primitive::source::Source;
use crate::primitive::space::Space;
use crate::primitive::sums::define_bias;
use crate::primitive::value::Value;

const NARROW: &str = anydnn_kernels::text("matmul/narrow.cl");
const JOIN: &str = anydnn_kernels::text("common/join.cl");

/// The most columns.
pub(super) const FEW_COLUMNS: usize = 4;
/// Terms for each column beside the first from which on sums along rows are faster than columns side by side.
pub(super) const TERMS: usize = 12;
/// Floats of columns that stay in the first-level cache, and room that many shapes have in common.
const MOST_FLOATS: usize = 4 << 10;
const ROOM: usize = 1 << 10;
/// Products that make a work-item worth its copy of the columns, and work-items for each core.
const WORTH: usize = 16 << 10;
const ITEMS: usize = 8;

impl Shape<'_> {
    /// Vectors along K of one row after the other; none where rows do not lie along K, or operands are not plain f32.
    pub(super) fn narrow(&self, space: &Space, value: Value, device: &DeviceTraits) -> Option<Launch> {
        let all = space.loops.len();
        let [m, col, k] = [all - 3, all - 2, all - 1];
        let [rows, columns, terms] = [m, col, k].map(|v| space.loops[v].extent);
        let plain = |name: &str, arg| {
            space.find(name).is_some_and(|o| o.data_type == DataType::F32)
                && !quantized::is_dequantized(self.desc, arg)
        };
        let step = terms.next_multiple_of(CPU_LANES);
        let floats = columns.saturating_mul(step);
        let serves = value == Value::F32
            && self.gate.is_none()
            && (1..=FEW_COLUMNS).contains(&columns)
            && terms > 0
            && floats <= MOST_FLOATS
            && floats * size_of::<f32>() <= device.local_memory_bytes
            && plain("SRC0", Arg::SRC)
            && plain("WEIGHTS", Arg::Weights)
            && (terms == 1 || space.coefficient("SRC0", k) == Some(1))
            && space.has_steps(m, CPU_LANES);
        if !serves {
            return None;
        }
        let batch = space.count(0..m);
        let worth = WORTH.div_ceil(floats).next_multiple_of(CPU_LANES);
        let share = (rows * batch).div_ceil(device.compute_units.max(1) * ITEMS);
        let item_rows = share.max(worth).next_multiple_of(CPU_LANES);
        let end = self.desc.src().size() / size_of::<f32>();
        let mut source = Source::new(space, value, (CPU_LANES, Some(m)), self.wide, true);
        source
            .general()
            .declare("DECLARE_BATCH", space, 0..m)
            .define("ROOM", if floats <= ROOM { ROOM } else { MOST_FLOATS })
            .define("M_STEP", always(space.coefficient("SRC0", m)?))
            .number_of("M_SIZE", rows)
            .number_of("N_SIZE", columns)
            .number_of("K_SIZE", terms)
            .number_of("COLUMN_STEP", step)
            .number_of("ITEM_ROWS", item_rows)
            .number_of("SRC_END", end);
        epilogue::define_all(&mut source, self.desc, value, device);
        define_bias(&mut source, self.desc);
        let global = [rows.div_ceil(item_rows), batch, 1];
        Some(source.launch("matmul_narrow", &[JOIN, NARROW], global, Some([1, 1, 1])))
    }
}

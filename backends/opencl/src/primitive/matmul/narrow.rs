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

/// The most columns: of 16 side by side half are empty then.
const FEW_COLUMNS: usize = 8;
/// Terms for each column beside the first from which on sums along rows are faster than columns side by side.
const TERMS: usize = 12;
/// Floats of columns for which there is room: in a second-level cache, in the first one, and as many as most shapes have.
const ROOMS: [usize; 3] = [32 << 10, 4 << 10, 1 << 10];
/// Columns at a time.
const AT_ONCE: usize = 4;
/// Rows of a work-item that make it worth its copy of the columns one by one, and products that do by vectors; work-items for each core.
const WORTH_ROWS: usize = 64;
const WORTH: usize = 16 << 10;
const ITEMS: usize = 8;

/// Whether so many columns are few beside the terms: sums along rows are faster than columns side by side.
pub(super) fn are_few(columns: usize, terms: usize) -> bool {
    columns <= FEW_COLUMNS && terms >= TERMS * columns.saturating_sub(1)
}

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
            && floats <= ROOMS[0]
            && floats * size_of::<f32>() <= device.local_memory_bytes
            && plain("SRC0", Arg::SRC)
            && plain("WEIGHTS", Arg::Weights)
            && (terms == 1 || space.coefficient("SRC0", k) == Some(1))
            && space.has_steps(m, CPU_LANES);
        if !serves {
            return None;
        }
        let batch = space.count(0..m);
        let along_k = terms == 1 || space.coefficient("WEIGHTS", k) == Some(1);
        let worth = if along_k { WORTH.div_ceil(floats) } else { WORTH_ROWS };
        let units = device.compute_units.max(1);
        let share = (rows * batch).div_ceil(units * ITEMS);
        let item_rows = share.max(worth.min((rows * batch).div_ceil(units))).next_multiple_of(CPU_LANES);
        let fits = |room: &&usize| floats <= **room && **room * size_of::<f32>() <= device.local_memory_bytes;
        let room = ROOMS.iter().rev().find(fits).copied().unwrap_or(floats);
        let end = self.desc.src().size() / size_of::<f32>();
        let mut source = Source::new(space, value, (CPU_LANES, Some(m)), self.wide, true);
        source
            .general()
            .declare("DECLARE_BATCH", space, 0..m)
            .define("ROOM", room)
            .define("AT_ONCE", columns.div_ceil(columns.div_ceil(AT_ONCE)))
            .define("ALONG_K", i32::from(along_k))
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

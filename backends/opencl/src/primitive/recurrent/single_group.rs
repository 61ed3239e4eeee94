//! A launch for the whole sequence on devices that want many work-items: a work-group has all hidden units of a few sequences, their weights in registers
//! and their states in local memory.

use super::{CELLS, Shape};
use crate::plan::DeviceTraits;
use crate::primitive::choice::Planned;
use crate::primitive::embedded::Scratch;
use crate::primitive::rows::is_cpu;
use crate::primitive::source::Source;
use crate::primitive::space::{Index, Space};
use crate::primitive::value::Value;

const SINGLE_GROUP: &str = anydnn_kernels::text("recurrent/single_group.cl");

/// Units come in steps of so many, so that layers of about as many share a program.
const UNITS: usize = 16;
/// The most weights of a work-item.
const MOST_UNITS: usize = 160;
/// Registers of a compute unit, and of a work-item beside its weights.
const REGISTERS: usize = 1 << 16;
const OTHERS: usize = 56;
/// The most sequences of a work-group.
const MOST_ROWS: usize = 4;
/// Work-groups of a compute unit, up to which each has one sequence, and beyond which other kernels share weights among more sequences.
const FEW_GROUPS: usize = 2;
const MOST_GROUPS: usize = 8;
/// Steps whose inputs are on their way: memory answers after two or three.
const AHEAD: usize = 4;

impl Shape<'_> {
    /// Where a work-group holds the layer.
    pub(super) fn single_group(&self, device: &DeviceTraits) -> Option<Planned> {
        let gates = self.op.cell.gates();
        let units = self.hidden.next_multiple_of(UNITS);
        let group = gates * units;
        let chains = |rows| self.batch.div_ceil(rows) * self.apart;
        // Powers of two alone, so that numbers of sequences share programs.
        let rows = chains(1).div_ceil(FEW_GROUPS * device.compute_units).next_power_of_two().min(MOST_ROWS);
        let floats = rows * (units * 2 + group + AHEAD * group);
        let fits = !is_cpu(device)
            && self.value == Value::F32
            && self.batch > 0
            && self.steps > 0
            && units <= MOST_UNITS
            && group <= device.max_work_group
            && group * (units + OTHERS) <= REGISTERS
            && floats * size_of::<f32>() <= device.local_memory_bytes
            && chains(rows) <= MOST_GROUPS * device.compute_units;
        if !fits {
            return None;
        }
        let mut scratch = Scratch { bytes: 0 };
        let (sums, mut launches) = self.input_products(device, &mut scratch)?;
        let of_way = self.batch.div_ceil(rows);
        let kept = scratch.bytes;
        // Directions of a sum add to what the one before has stored.
        for way in 0..self.count() / self.apart {
            // Every launch has the same working memory.
            scratch.bytes = kept;
            let mut space = Space::default();
            let unit = Index::of(space.push("unit", self.hidden));
            let variables = self.variables(&mut space, unit);
            self.operands(&mut space, &variables, Some(sums), None, &mut scratch);
            let elsewhere = ["STATES", "STATES_K", "CELLS", "UPDATES", "KEPT", "KEPT_K"];
            space.operands.retain(|operand| !elsewhere.contains(&&*operand.name));
            let mut source = Source::new(&space, self.value, (1, None), self.wide(), false);
            self.define(&mut source, &space);
            source
                .define("GATES_COUNT", gates)
                .define("UNITS", units)
                .define("ROWS", rows)
                .define("AHEAD", AHEAD)
                .number_of("BATCH", self.batch)
                .number_of("CHAINS_OF_WAY", of_way)
                .number_of("FIRST_CHAIN", way * of_way);
            let global = [group * of_way * self.apart, 1, 1];
            launches.push(source.launch(
                "recurrent_single_group",
                &[CELLS, SINGLE_GROUP],
                global,
                Some([group, 1, 1]),
            ));
        }
        Some(Planned { scratchpad: scratch.bytes, launches })
    }
}

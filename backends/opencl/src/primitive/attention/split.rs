//! Attention of few queries on devices that want many work-items, the keys split among work-groups (`attention/split.cl`).

use anydnn_backend::{Arg, DataType, FpMath};

use super::{BATCHES, Shape, WARP};
use crate::capability::Feature;
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::choice::Planned;
use crate::primitive::quantized;
use crate::primitive::rows::is_cpu;
use crate::primitive::space::{Address, Binding};
use crate::primitive::value::Value;

const PARTS: &str = anydnn_kernels::text("attention/parts.cl");
const SPLIT: &str = anydnn_kernels::text("attention/split.cl");
const SPLIT_MMA: &str = anydnn_kernels::text("attention/split_mma.cl");

/// Queries of the same keys up to which it is the faster one: tiles would be empty for the most part.
pub(super) const FEW_QUERIES: usize = 8;
/// Queries that go together: their sums stay in registers.
const MOST_TOGETHER: usize = 8;
/// The most elements of a row, of which vectors have so many.
const WIDEST: usize = 256;
const LANES: usize = 8;
/// Work-items of a group, as many as keys that go together.
const GROUP: usize = 128;
/// Work-items that multiply a key.
const SHARE: usize = 4;
/// Work-groups that keep a compute unit busy, and those of matrix units with the widest rows, whose registers hold what is on its way.
const RESIDENT: usize = 8;
const RESIDENT_MMA: usize = 2;
/// Keys that a warp of matrix units takes at a time.
const MMA_KEYS: usize = 16;
/// What rooms for elements of matrix units are multiples of, and the largest, for registers.
const MMA_ROOM: usize = 64;
const MMA_WIDEST: usize = 128;
/// The warps of a group.
const WARPS: usize = GROUP / 32;

impl Shape<'_> {
    /// The first loop over the queries that have the same keys and values: those of several heads may share them.
    fn queries_from(&self) -> usize {
        let is_shared = |v: usize| {
            let apart = |name: &str| self.space.coefficient(name, v);
            self.extent(v) > 1 && apart("SRC1") == Some(0) && apart("SRC2") == Some(0)
        };
        let own = self.s.checked_sub(1).filter(|&v| is_shared(v));
        own.unwrap_or(self.s)
    }

    /// How many queries see the same keys.
    pub(super) fn queries(&self) -> usize {
        self.space.count(self.queries_from()..self.s + 1)
    }

    /// Keys split among work-groups; none where elements of queries, keys and values do not lie side by side in whole vectors, or weights
    /// change before they meet the values.
    pub(super) fn split(&self, device: &DeviceTraits) -> Option<Planned> {
        let (d, e, keys) = (self.extent(self.d), self.extent(self.e), self.extent(self.t));
        let data_type = self.desc.src().data_type();
        let is_float = matches!(data_type, DataType::F32 | DataType::F16 | DataType::BF16);
        let fits = |size: usize| (LANES..=WIDEST).contains(&size) && size.is_multiple_of(LANES);
        let operands = [("SRC0", self.d), ("SRC1", self.d), ("SRC2", self.e)];
        if !is_float
            || self.value != Value::F32
            || !fits(d)
            || !fits(e)
            || keys == 0
            || self.op.weights.is_some()
            || (0..3).any(|i| quantized::is_dequantized(self.desc, Arg::Src(i)))
            || !operands.iter().all(|&(name, along)| self.in_chunks(name, along, data_type))
            || device.max_work_group < GROUP
        {
            return None;
        }
        let from = self.queries_from();
        let (batches, queries) = (self.space.count(0..from), self.queries());
        if batches == 0 || queries == 0 {
            return None;
        }
        let together = queries.next_power_of_two().min(MOST_TOGETHER);
        let blocks = queries.div_ceil(together);
        let mma = Feature::NvidiaMma.instruction(data_type, FpMath::Strict);
        let mma = mma.filter(|_| device.has(Feature::NvidiaMma) && d.max(e) <= MMA_WIDEST);
        let rooms = match mma {
            Some(_) => [d, e].map(|size| size.next_multiple_of(MMA_ROOM)),
            // Narrow heads share a program, as queries take a small part of local memory.
            None => [d, e].map(|size| if size <= WIDEST / 2 { WIDEST / 2 } else { WIDEST }),
        };
        let floats = match mma {
            Some(_) => WARPS * (together * rooms[1] + 2 * MOST_TOGETHER) + 2 * MOST_TOGETHER,
            None => together * (rooms[0] + GROUP + GROUP * SHARE + 40) + GROUP * 8,
        };
        if floats * size_of::<f32>() > device.local_memory_bytes {
            return None;
        }
        let resident =
            if mma.is_some() { RESIDENT_MMA * MMA_WIDEST / rooms[0].max(rooms[1]) } else { RESIDENT };
        let (wanted, step) = match mma {
            // All at once: one more would wait for the others.
            Some(_) => (device.compute_units * resident / (batches * blocks), WARPS * MMA_KEYS),
            None => ((device.compute_units * resident).div_ceil(batches * blocks), GROUP),
        };
        let part_keys = keys.div_ceil(wanted.clamp(1, keys.div_ceil(GROUP))).next_multiple_of(step);
        let parts = keys.div_ceil(part_keys);
        let records = batches * blocks * parts * together;
        let mut shape = self.clone();
        if parts > 1 {
            let address = Address::linear(vec![0; self.space.loops.len()]);
            shape.space.addressed("PARTIAL", Binding::Scratchpad(0), DataType::F32, address);
        }
        let in_common = !is_cpu(device) && shape.space.is_linear() && shape.s == BATCHES;
        shape.space.complete = in_common.then_some(usize::MAX);
        // The group that ends last joins the parts, where groups can tell each other; else a second launch does.
        let joined = parts > 1 && device.has(Feature::NvidiaPtx);
        let mut source = shape.source(1);
        if joined {
            source.numbered();
        }
        source
            .general()
            .declare_before("DECLARE_KEYS", &shape.space, 0..from)
            .declare("DECLARE_QUERY", &shape.space, from..self.s + 1)
            .define("BYTES", data_type.bits() / 8)
            .define("IS_HALF", i32::from(data_type == DataType::F16))
            .define("QUERIES", together)
            .define("D_ROOM", rooms[0])
            .define("E_ROOM", rooms[1])
            .define("SPLIT", i32::from(parts > 1))
            .define("JOINED", i32::from(joined))
            .number_of("ALL_QUERIES", queries)
            .number_of("BLOCKS", blocks)
            .number_of("PARTS", parts)
            .number_of("PART_KEYS", part_keys)
            .number_of("RECORDS", records)
            .post_ops(self.desc);
        let global = [parts * GROUP, batches, blocks];
        let files: &[&str] = match mma {
            Some(instruction) => {
                source.define("TYPE", format_args!("\"{}\"", instruction.factor.name()));
                &[WARP, PARTS, SPLIT_MMA]
            }
            None => &[PARTS, SPLIT],
        };
        let mut first = source.launch("attention_split", files, global, Some([GROUP, 1, 1]));
        first.alignment = 16;
        let mut launches = vec![first];
        if parts > 1 && !joined {
            // The same program.
            let join = Launch {
                kernel: "attention_join".into(),
                global: [queries * GROUP, batches, 1],
                ..launches[0].clone()
            };
            launches.push(join);
        }
        let words = if joined { batches * blocks * size_of::<u64>() } else { 0 };
        let scratchpad = if parts > 1 { records * (e + 2) * size_of::<f32>() + words } else { 0 };
        Some(Planned { scratchpad, launches })
    }
}

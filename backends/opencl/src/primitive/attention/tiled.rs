//! Attention by tiles of queries and keys in local memory (`attention/tiled.cl`).

use super::{BATCHES, GROUP_TILE, Shape};
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::epilogue;
use crate::primitive::value::Value;

const TILED: &str = anydnn_kernels::text("attention/tiled.cl");

/// A slice of what is multiplied, and work-items.
const GROUP_SLICE: usize = 16;
const GROUP: usize = 256;
/// What such a program costs beside one of its own, as parts of its time.
const GAIN: u64 = 6;
/// The most elements of a result row for which a work-group has registers.
const GROUP_WIDTH: usize = 256;

impl Shape<'_> {
    /// Tiles in local memory; none where the device has too little of it or too small work-groups.
    pub(super) fn tiled(&self, device: &DeviceTraits) -> Option<Launch> {
        let e = self.extent(self.e);
        if self.value != Value::F32 || e == 0 || e > GROUP_WIDTH || device.max_work_group < GROUP {
            return None;
        }
        // Columns of a work-item, as many as many widths have in common.
        let columns = e.div_ceil(GROUP_SLICE).next_power_of_two().max(2);
        let width = (columns * GROUP_SLICE).max(GROUP_TILE);
        let slices = GROUP_SLICE * (GROUP_TILE + 1 + width + 1);
        let softmax = GROUP_TILE * (GROUP_TILE + 1 + 3 + 4);
        if (slices + softmax) * 4 > device.local_memory_bytes {
            return None;
        }
        let fast = |name: &str, row: usize| {
            let step = |v| self.space.find(name).and_then(|o| o.address.step(v, 1)).unwrap_or(usize::MAX);
            i32::from(step(self.d) <= step(row))
        };
        let mut shape = self.clone();
        shape.space.complete = (shape.space.is_linear() && shape.s == BATCHES).then_some(usize::MAX);
        let mut source = shape.source(1);
        let products = [self.s, self.t, self.d].map(|v| self.extent(v)).iter().product::<usize>();
        source
            .general()
            .gains(GAIN, products.saturating_mul(4).saturating_mul(self.space.count(0..self.s)))
            .define("E_ITEMS", columns)
            .define("B_WIDTH", width)
            .define("FAST_D0", fast("SRC0", self.s))
            .define("FAST_D1", fast("SRC1", self.t));
        epilogue::define_all(&mut source, self.desc, self.value, device);
        let groups = self.extent(self.s).div_ceil(GROUP_TILE);
        let global = [groups * GROUP, self.space.count(0..self.s), 1];
        Some(source.launch("attention_tiled", &[TILED], global, Some([GROUP, 1, 1])))
    }
}

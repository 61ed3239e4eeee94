//! Attention by NVIDIA's matrix units (`attention/mma.cl`).

use anydnn_backend::{Arg, FpMath};

use super::{Shape, WARP};
use crate::capability::Feature;
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::quantized;

const MMA: &str = anydnn_kernels::text("attention/mma.cl");

/// The most elements of a query's or a result's row for which a warp has registers.
const WARP_WIDTH: usize = 128;
/// Its keys in local memory at a time, and queries of a warp.
const WARP_KEYS: usize = 64;
const WARP_QUERIES: usize = 16;

impl Shape<'_> {
    /// Matrix units of NVIDIA's; none where they do not take the operands' types and layouts, or weights change before they meet the values.
    pub(super) fn mma(&self, device: &DeviceTraits) -> Option<Launch> {
        let (d, e) = (self.extent(self.d), self.extent(self.e));
        let fits = |width: usize| (8..=WARP_WIDTH).contains(&width) && width.is_multiple_of(8);
        let operands = [("SRC0", self.d), ("SRC1", self.d), ("SRC2", self.e)];
        let data_type = self.desc.src().data_type();
        let unit = Feature::NvidiaMma;
        let name = unit.instruction(data_type, FpMath::Strict)?.factor.name();
        let plain = |i: usize| !quantized::is_dequantized(self.desc, Arg::Src(i as u16));
        if !fits(d)
            || !fits(e)
            || self.op.weights.is_some()
            || !(0..3).all(plain)
            || !operands.iter().all(|&(name, along)| self.in_chunks(name, along, data_type))
            || !device.has(unit)
        {
            return None;
        }
        let queries = self.extent(self.s);
        let groups = queries.div_ceil(WARP_QUERIES * 8) * self.space.count(0..self.s);
        // More queries share the keys that a group loads, and a mask's reads hide behind more warps; several small groups share a
        // compute unit better where sums take most registers.
        let masked = self.op.sources() > 3;
        let enough = device.compute_units * if masked { 1 } else { 4 };
        let warps = if groups >= enough && (masked || d + e <= WARP_WIDTH) { 8 } else { 4 };
        let pitch = |width: usize| width.next_multiple_of(16) * 2 + 16;
        let bytes = (WARP_KEYS * (pitch(d) + pitch(e))).max(WARP_QUERIES * warps * pitch(d));
        if bytes > device.local_memory_bytes || warps * 32 > device.max_work_group {
            return None;
        }
        let pairs = self.desc.attributes().post_ops.is_empty()
            && self
                .space
                .find("DST")
                .is_some_and(|dst| dst.data_type == data_type && dst.address.is_aligned(self.e, 2));
        let mut source = self.source_of_warps();
        source
            .post_ops(self.desc)
            .define("TYPE", format_args!("\"{name}\""))
            .define("WARPS", warps)
            .define("PAIRS", i32::from(pairs));
        let global = [queries.div_ceil(WARP_QUERIES * warps) * warps * 32, self.space.count(0..self.s), 1];
        Some(source.launch("attention_mma", &[WARP, MMA], global, Some([warps * 32, 1, 1])))
    }
}

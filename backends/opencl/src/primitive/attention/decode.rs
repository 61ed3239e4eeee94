//! Attention of few queries on processors: a query a work-item, as decoders have them that make one token after another.

use super::Shape;
use crate::plan::{DeviceTraits, Launch};
use crate::primitive::rows::CPU_LANES;
use crate::primitive::value::Value;

const JOIN: &str = anydnn_kernels::text("common/join.cl");
const DECODE: &str = anydnn_kernels::text("attention/decode.cl");

/// Queries up to which it is the faster one: vectors along the queries would be empty for the most part.
const FEW_QUERIES: usize = 7;
/// Keys whose weights wait for their values at a time, whole vectors of them.
const T_BLOCK: usize = 128;
/// The most elements of a query's or a result's row: they stay in registers and the first-level cache.
const WIDEST: usize = 256;

impl Shape<'_> {
    /// Whether most of a vector along the queries would be empty for many keys.
    pub(super) fn has_few_queries(&self) -> bool {
        let (queries, keys) = (self.extent(self.s), self.extent(self.t));
        queries == 1 || (queries <= FEW_QUERIES && keys >= 4 * queries)
    }

    /// Vectors along the elements of keys and values; none where these do not lie side by side, or more is wanted than the result.
    pub(super) fn decode(&self, device: &DeviceTraits) -> Option<Launch> {
        let fits = |v| (1..=WIDEST).contains(&self.extent(v));
        let is_plain = self.op.weights.is_none()
            && self.desc.attributes().post_ops.is_empty()
            && self.space.find("STATISTICS").is_none();
        if self.value != Value::F32
            || !is_plain
            || !fits(self.d)
            || !fits(self.e)
            || !self.space.has_steps(self.t, CPU_LANES)
            || T_BLOCK * size_of::<f32>() > device.local_memory_bytes
        {
            return None;
        }
        let load = |name, along| Some(self.line(name, along)?.0);
        let (query, key, value) = (load("SRC0", self.d)?, load("SRC1", self.d)?, load("SRC2", self.e)?);
        let (_, store) = self.line("DST", self.e)?;
        let mut source = self.source_along(self.t, CPU_LANES);
        source
            .general()
            .define("T_BLOCK", T_BLOCK)
            .define("LOAD_QUERY(o, n)", query)
            .define("LOAD_KEY(o, n)", key)
            .define("LOAD_VALUE(o, n)", value)
            .define("STORE_LINE(o, n, v)", store);
        let global = [self.extent(self.s), self.space.count(0..self.s), 1];
        Some(source.launch("attention_decode", &[JOIN, DECODE], global, Some([1, 1, 1])))
    }
}

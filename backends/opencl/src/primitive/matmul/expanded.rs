//! Products of many rows of 16 bits by weights of fewer bits, on devices whose matrix units take floats of 16 bits: the weights become such
//! in working memory, then they are multiplied.

use anydnn_backend::op::MatMul;
use anydnn_backend::{Arg, DataType, FpMath, MemoryDesc, PrimitiveDesc, Quantized};

use super::Shape;
use crate::capability::instruction::Multiplicand;
use crate::plan::{DeviceTraits, Launch, LaunchArg};
use crate::primitive::choice::Planned;
use crate::primitive::embedded::{Scratch, embedded};
use crate::primitive::pointwise::{self, Statements};
use crate::primitive::quantized;
use crate::primitive::source::Source;
use crate::primitive::space::{Binding, Index, Space};
use crate::primitive::value::{Value, storage};

const EXPAND: &str = anydnn_kernels::text("matmul/expand.cl");

/// Weights that become floats at once, and the work-items and the tile of `expand.cl`.
const RUN: usize = 8;
const GROUP: usize = 256;
const TILE_K: usize = 128;
const TILE_N: usize = 64;

impl Shape<'_> {
    /// The launches, where tensor cores have tiles for the floats.
    pub(super) fn expanded(&self, device: &DeviceTraits) -> Option<Planned> {
        let factors = [(Multiplicand::F16, DataType::F16), (Multiplicand::BF16, DataType::BF16)];
        let has =
            |(factor, data_type)| self.desc.src().data_type() == data_type && device.has_tiles_of(factor);
        if factors.into_iter().any(has) { self.expanded_by(device) } else { None }
    }

    /// The launches; none where a type is not of that kind. Scales of groups of terms round the weights, which must be permitted; others wait
    /// for the sums.
    pub(super) fn expanded_by(&self, device: &DeviceTraits) -> Option<Planned> {
        let desc = self.desc;
        let own = desc.src().data_type();
        let permits = match own {
            DataType::F16 => [FpMath::F16, FpMath::Any],
            DataType::BF16 => [FpMath::BF16, FpMath::Any],
            _ => return None,
        };
        let weights = self.weights;
        let rank = weights.rank();
        let small = weights.data_type().is_integer() && weights.data_type().bits() <= 8;
        let [one] = desc.attributes().dequantize.as_slice() else { return None };
        let applies =
            small && one.operand == Quantized::Weights && self.gate.is_none() && weights.elements() > 0;
        if !applies {
            return None;
        }
        let waits = one.scale.as_ref().is_none_or(|scale| blocks_of_terms(scale) == 1);
        // Zero points of other types may be of any size.
        let is_exact =
            waits && one.zero_point.as_ref().is_none_or(|zero| zero.data_type() == weights.data_type());
        if !is_exact && !permits.contains(&desc.attributes().fpmath) {
            return None;
        }

        let order: Vec<usize> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
        let mut whole = MemoryDesc::new(weights.dims().clone(), own);
        // Rows of tiles are copied the fastest, but in whole runs.
        if !weights.dims()[rank - 1].is_multiple_of(RUN) {
            whole = whole.permuted(&order).ok()?.to_row_major().permuted(&order).ok()?;
        }
        let mut scratch = Scratch::default();
        let start = scratch.take(whole.size());
        let mut product = desc.attributes().clone();
        product.dequantize[0].zero_point = None;
        if !is_exact || product.dequantize[0].scale.is_none() {
            product.dequantize.clear();
        }
        let mut builder = PrimitiveDesc::builder(MatMul).src(desc.src().clone()).weights(whole.clone());
        if let Some(bias) = desc.find(Arg::Bias) {
            builder = builder.bias(bias.clone());
        }
        let product = builder.dst(desc.dst().clone()).attributes(product).build().ok()?;
        let mut launches = vec![self.expand(&whole, start, !is_exact, device)?];
        launches.extend(embedded(&product, device, &mut scratch, |arg| match arg {
            Arg::Weights => LaunchArg::Scratchpad { offset: start },
            other => LaunchArg::Memory(other),
        })?);
        Some(Planned { scratchpad: scratch.bytes, launches })
    }

    /// The launch that writes the weights as floats into working memory from this byte on, with their scales or without.
    fn expand(
        &self,
        whole: &MemoryDesc,
        start: usize,
        is_scaled: bool,
        device: &DeviceTraits,
    ) -> Option<Launch> {
        let dims = whole.dims();
        let rank = dims.len();
        let one = self.desc.attributes().dequantize.first()?;
        let operands = [(&one.scale, is_scaled), (&one.zero_point, true)];
        // Runs of terms have one of each.
        let blocks = operands.iter().filter(|(_, counts)| *counts).filter_map(|(desc, _)| desc.as_ref());
        let block = blocks.map(|desc| dims[rank - 2] / blocks_of_terms(desc)).min();
        let block = block.unwrap_or(dims[rank - 2]).max(1);
        let mut space = Space::default();
        let mut index: Vec<Index> =
            (0..rank - 2).map(|i| Index::of(space.push(format!("batch{i}"), dims[i]))).collect();
        let column = space.push("col", dims[rank - 1]);
        let block_loop = space.push("block", dims[rank - 2] / block);
        let term = space.push("k", block);
        index.push(Index::sum(&[(block_loop, block), (term, 1)]));
        index.push(Index::of(column));
        space.operand("SRC0", Binding::Arg(Arg::Weights), self.weights, &index);
        let compute = quantized::meaning(&mut space, self.desc, Quantized::Weights, dims, &index, is_scaled);
        space.operand("DST", Binding::Scratchpad(start), whole, &index);
        let wide = self.wide || whole.size() > i32::MAX as usize;
        let own = self.weights.data_type();
        let has_own_zero = one.zero_point.as_ref().is_none_or(|zero| zero.data_type() == own);
        let fits = has_own_zero && device.max_work_group >= GROUP;
        if let Some(launch) = fits.then(|| expand_runs(&space, own, is_scaled, wide)).flatten() {
            return Some(launch);
        }
        let compute = format!("V v = {compute};");
        let statements = Statements { compute: &compute, ..Statements::default() };
        Some(pointwise::launch_all(space, Value::F32, None, statements, wide, device).0)
    }
}

/// The launch for weights whose columns lie in whole runs, and floats whose rows do. The last loops of the space are columns, blocks of
/// terms and terms.
fn expand_runs(space: &Space, data_type: DataType, is_scaled: bool, wide: bool) -> Option<Launch> {
    let last = space.loops.len() - 1;
    let [columns, blocks, block] = [last - 2, last - 1, last].map(|v| space.loops[v].extent);
    let (weights, whole) = (space.find("SRC0")?, space.find("DST")?);
    let fits = columns.is_multiple_of(RUN)
        && block.is_multiple_of(RUN)
        && weights.address.is_aligned(last, RUN)
        && whole.address.is_aligned(last - 2, RUN);
    if !fits {
        return None;
    }
    let terms = blocks * block;
    let mut source = Source::new(space, Value::F32, (RUN, Some(last - 2)), wide, true);
    let zero = space.find("ZERO").map_or("0", |_| "NAT1_ZERO(OFF_ZERO)");
    let kind = storage(whole.data_type).1;
    let tiles = [columns.div_ceil(TILE_N), terms.div_ceil(TILE_K)];
    source
        .general()
        .declare("DECLARE_BATCH", space, 0..last - 2)
        .number_of("N_SIZE", columns)
        .number_of("K_SIZE", terms)
        .number_of("TILES_N", tiles[0])
        .number_of("BLOCK", block)
        .define("SAME", i32::from(block.is_multiple_of(4 * RUN)))
        .define("BITS", data_type.bits())
        .define("SIGNED", i32::from(matches!(data_type, DataType::S4 | DataType::S8)))
        .define("SCALED", i32::from(is_scaled && space.find("SCALE").is_some()))
        .define("ZERO_POINT", zero)
        .define("PACK(v)", format_args!("pack_{kind}_8(v)"))
        .define("STORE(o, x)", "store_whole_16_8(dst, o, 8, x)");
    let global = [tiles[0] * tiles[1] * GROUP, space.count(0..last - 2), 1];
    let mut launch = source.launch("matmul_expand", &[EXPAND], global, Some([GROUP, 1, 1]));
    launch.alignment = 16;
    Some(launch)
}

/// How many scales or zero points there are along the terms.
fn blocks_of_terms(desc: &MemoryDesc) -> usize {
    let dims = desc.dims();
    dims.len().checked_sub(2).map_or(1, |axis| dims[axis].max(1))
}

//! Matrix products of groups whose sizes lie in memory: work is launched for the most tiles that groups of any sizes can have, and each
//! work-item finds its group.
//!
//! Variants: `vector` (vectors of columns) and `ref` (every layout and type).

use anydnn_backend::op::GroupedMatMul;
use anydnn_backend::{Arg, Dims, PrimitiveDesc, Quantized, Result};

use super::choice::{Choice, Choices, Wanted};
use super::panels;
use super::pointwise::{is_wide, padding};
use super::rows::{CPU_LANES, gpu_lanes, is_cpu, items};
use super::source::{Source, add_post_ops};
use super::space::{Binding, Index, Space};
use super::sums::{accumulator, is_real};
use super::value::Value;
use super::{Planner, quantized};
use crate::plan::{DeviceTraits, Launch};

const GROUPED: &str = anydnn_kernels::text("matmul/grouped.cl");

/// Rows of a tile, at most: on CPUs as many as there are registers for.
const CPU_ROWS: usize = 12;
const GPU_ROWS: usize = 8;

impl Planner for GroupedMatMul {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        let mut choices = Choices::new(desc, wanted);
        let shape = Shape::new(*self, desc);
        choices.offer("vector", "real numbers in vectors of columns", || shape.vector(device));
        choices.offer("ref", "serves every layout and type", || Some(shape.reference(device)));
        Ok(choices.followed_by(|| padding(desc.dst(), Arg::DST, device)))
    }
}

// The loops, by number.
const GROUP: usize = 0;
const M: usize = 1;
const COLUMN: usize = 2;
const K: usize = 3;

struct Shape<'a> {
    desc: &'a PrimitiveDesc,
    by_rows: bool,
    value: Value,
    space: Space,
}

impl<'a> Shape<'a> {
    fn new(op: GroupedMatMul, desc: &'a PrimitiveDesc) -> Self {
        let by_rows = op == GroupedMatMul::Rows;
        let extent = |arg: Arg, from_end: usize| {
            let dims = desc.find(arg).map_or_else(Dims::default, |operand| operand.dims().clone());
            dims.len().checked_sub(from_end).map_or(1, |axis| dims[axis])
        };
        let mut space = Space::default();
        let extents =
            [extent(Arg::Src(1), 1), extent(Arg::SRC, 2), extent(Arg::Weights, 1), extent(Arg::SRC, 1)];
        for (name, extent) in ["group", "m", "col", "k"].into_iter().zip(extents) {
            space.push(name, extent);
        }
        let [group, m, column, k] = [GROUP, M, COLUMN, K].map(Index::of);
        let of_src = [m.clone(), k.clone()];
        space.operand("SRC0", Binding::Arg(Arg::SRC), desc.src(), &of_src);
        quantized::add(&mut space, desc, Quantized::Src(0), "SRC0", desc.src().dims(), &of_src);
        let (of_weights, of_dst) = if by_rows {
            (vec![group.clone(), k, column.clone()], vec![m, column.clone()])
        } else {
            (vec![k, column.clone()], vec![group.clone(), m, column.clone()])
        };
        if let Some(weights) = desc.find(Arg::Weights) {
            space.operand("WEIGHTS", Binding::Arg(Arg::Weights), weights, &of_weights);
            quantized::add(&mut space, desc, Quantized::Weights, "WEIGHTS", weights.dims(), &of_weights);
        }
        if let Some(ends) = desc.find(Arg::Src(1)) {
            space.operand("ENDS", Binding::Arg(Arg::Src(1)), ends, std::slice::from_ref(&group));
        }
        if let Some(bias) = desc.find(Arg::Src(2)) {
            space.operand("BIAS", Binding::Arg(Arg::Src(2)), bias, &[group, column]);
        }
        space.operand("DST", Binding::Arg(Arg::DST), desc.dst(), &of_dst);
        add_post_ops(&mut space, desc, &of_dst);
        Self { desc, by_rows, value: Value::of(desc, true), space }
    }

    fn vector(&self, device: &DeviceTraits) -> Option<Launch> {
        let lanes = if is_cpu(device) { CPU_LANES } else { gpu_lanes(&self.space, COLUMN) };
        let applies = self.value == Value::F32
            && is_real(self.desc)
            && self.space.loops[COLUMN].extent >= lanes
            && self.space.has_steps(COLUMN, lanes);
        applies.then(|| self.launch(device, lanes))
    }

    fn reference(&self, device: &DeviceTraits) -> Launch {
        self.launch(device, 1)
    }

    fn launch(&self, device: &DeviceTraits, lanes: usize) -> Launch {
        let [groups, m, n, k] = [GROUP, M, COLUMN, K].map(|v| self.space.loops[v].extent);
        let most = if is_cpu(device) { panels::sums(device).min(CPU_ROWS) } else { GPU_ROWS };
        let rows = if self.by_rows {
            // As many as groups have in the mean; their sizes are not known.
            m.div_ceil(groups.max(1)).max(1).next_power_of_two().min(most)
        } else {
            panels::tile_rows(m, most)
        };
        // Each group may end in a tile that is not full, and so may what is behind them.
        let tiles = if self.by_rows { m / rows + m.min(groups + 1) } else { groups * m.div_ceil(rows) };
        let vectors = n.div_ceil(lanes);
        let work_items = tiles * vectors;
        let lane = (lanes > 1).then_some(COLUMN);
        let mut source = Source::new(&self.space, self.value, (lanes, lane), is_wide(self.desc), true);
        panels::repetitions(&mut source, rows, 1);
        source
            .general()
            .define("BY_ROWS", i32::from(self.by_rows))
            .define("WHOLE_COLUMNS", i32::from(n.is_multiple_of(lanes)))
            .number_of("ITEMS", work_items)
            .number_of("VECTORS", vectors)
            .number_of("ROW_TILES", m.div_ceil(rows).max(1))
            .number_of("GROUPS", groups)
            .number_of("M_SIZE", m)
            .number_of("N_SIZE", n)
            .number_of("K_SIZE", k);
        // Scales wait for the end of sums in floats alone.
        let terms: &[usize] = if lanes > 1 { &[K] } else { &[] };
        for name in ["SRC0", "WEIGHTS"] {
            quantized::define(&mut source, &self.space, name, terms);
        }
        if lanes > 1 {
            source
                .define("SUM", "V")
                .define("FACTOR_SRC0", "(R)DEQ1_SRC0(LD1_SRC0(OFF_SRC0))")
                .define("FACTOR_WEIGHTS", "DEQ_WEIGHTS(LD_WEIGHTS(OFF_WEIGHTS, n_lanes), n_lanes)");
        } else {
            source
                .define("ACC", accumulator(self.desc, k, self.value))
                .define("SUM", "ACC")
                .define("FACTOR_SRC0", "READ_SRC0")
                .define("FACTOR_WEIGHTS", "READ_WEIGHTS");
        }
        let bias = self.desc.find(Arg::Src(2)).map_or("", |_| "v += LD_BIAS(OFF_BIAS, n);");
        source.define("ADD_BIAS(v, n)", bias).post_ops(self.desc);
        let (global, local) = items(device, work_items);
        source.launch("matmul_grouped", &[GROUPED], global, local)
    }
}

#[cfg(test)]
mod tests {
    use anydnn_backend::conformance::values::Values;
    use anydnn_backend::{DataType, DeviceKind, MemoryDesc, Op};

    use super::*;
    use crate::primitive::choices;
    use crate::primitive::tests::{check_on, f32};
    use crate::testing::engines_for;

    fn product(
        op: GroupedMatMul,
        src: &[usize],
        groups: usize,
        weights: &[usize],
        bias: bool,
    ) -> PrimitiveDesc {
        let ends = MemoryDesc::new([groups], DataType::S32);
        let builder =
            PrimitiveDesc::builder(Op::GroupedMatMul(op)).src(f32(src)).src(ends).weights(f32(weights));
        let builder = if bias { builder.src(f32(&[groups, weights[2]])) } else { builder };
        builder.build().unwrap()
    }

    /// With the tiles and lanes that processors and other devices get.
    #[test]
    fn every_variant_computes_what_groups_mean() {
        use GroupedMatMul::{Rows, Terms};
        for (desc, ends) in [
            (product(Rows, &[61, 19], 3, &[3, 19, 50], true), vec![40, 41, 58]),
            (product(Rows, &[5, 24], 9, &[9, 24, 32], false), vec![1, 1, 1, 4, 4, 4, 5, 5, 5]),
            (product(Rows, &[40, 8], 1, &[1, 8, 21], false), vec![40]),
            (product(Terms, &[29, 33], 4, &[33, 35], false), vec![3, 20, 20, 33]),
        ] {
            let ends = Values::Listed(ends.into_iter().map(f64::from).collect());
            for engine in engines_for(&desc) {
                let own = engine.traits();
                for device in [
                    own.clone(),
                    DeviceTraits { float_lanes: 8, ..own.clone() },
                    DeviceTraits { kind: DeviceKind::Gpu, ..own },
                ] {
                    let all = choices(&desc, &device, Wanted::All).unwrap();
                    assert_eq!(all.len(), 2);
                    for choice in all {
                        check_on(&engine, choice.plan, |arg| (arg == Arg::Src(1)).then(|| ends.clone()));
                    }
                }
            }
        }
    }
}

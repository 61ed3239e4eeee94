//! Products by units that multiply panels, of weights that an execution copies, against the reference.

use anydnn_backend::op::{MatMul, Op};
use anydnn_backend::{
    Attributes, DataType, Dequantize, Eltwise, MemoryDesc, PostOp, PrimitiveDesc, PrimitiveDescBuilder,
    Quantized,
};

use crate::capability::Feature;
use crate::plan::DeviceTraits;
use crate::primitive::tests::{check_those, cpu, f32, planned};

fn product(dims: [usize; 4], [src, weights, dst]: [DataType; 3], tag: &str) -> PrimitiveDescBuilder {
    let [batch, m, k, n] = dims;
    PrimitiveDesc::builder(Op::MatMul(MatMul))
        .src(MemoryDesc::new([batch, m, k], src))
        .weights(MemoryDesc::with_tag([batch, k, n], weights, tag).unwrap())
        .dst(MemoryDesc::new([batch, m, n], dst))
}

fn check_packing(desc: &PrimitiveDesc) {
    check_those(desc, |name| name.ends_with("-packing"));
}

const BF16: [DataType; 3] = [DataType::BF16; 3];
const BYTES: [DataType; 3] = [DataType::U8, DataType::S8, DataType::F32];

/// What one work-item alone reads does not pass through memory; those of matrix units are narrower where
/// more columns had no room.
#[test]
fn units_copy_the_weights_of_a_panel_where_nobody_else_reads_them() {
    let amx = cpu().with(Feature::Amx, Ok("made up"));
    let vectors = cpu().with(Feature::Bytes, Ok("made up")).with(Feature::Pairs, Ok("made up"));
    let text = |dims: [usize; 4], types: [DataType; 3], device: &DeviceTraits| {
        let plan = planned(product(dims, types, "abc"), device);
        assert!(plan.implementation.ends_with("-packing"), "{dims:?} {}", plan.implementation);
        (plan.launches.len(), plan.launches.last().unwrap().program.source.to_string())
    };
    for (types, device) in [(BF16, &amx), (BYTES, &amx), (BF16, &vectors), (BYTES, &vectors)] {
        let (launches, few) = text([60, 40, 128, 70], types, device);
        assert!(launches == 1 && few.contains("#define PACKS 1\n"));
        let (launches, many) = text([1, 4000, 1024, 70], types, device);
        assert!(launches == 2 && many.contains("#define PACKS 0\n"));
    }
    // Few rows are worth it for matrix units alone.
    assert_eq!(text([60, 8, 128, 70], BF16, &amx).0, 1);
    let few = planned(product([60, 8, 128, 70], BF16, "abc"), &vectors).implementation;
    assert!(!few.ends_with(":pairs-packing"), "{few}");
    let (launches, long) = text([1, 16, 3200, 1600], BF16, &amx);
    assert!(launches == 1 && long.contains("#define PANEL 16\n"));
    let (launches, longer) = text([1, 16, 6400, 1600], BF16, &amx);
    assert!(launches == 2 && longer.contains("#define PACKS 0\n"));
}

#[test]
fn weights_that_are_copied_for_each_panel_mean_the_same() {
    let zero = |operand, data_type| Dequantize {
        operand,
        scale: None,
        zero_point: Some(MemoryDesc::new([1_usize, 1, 1], data_type)),
    };
    let zeros = Attributes::default()
        .with_dequantize(zero(Quantized::Src(0), DataType::U8))
        .with_dequantize(zero(Quantized::Weights, DataType::S8));
    let relu = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Relu));
    for dims in [[2, 20, 64, 33], [12, 40, 100, 70], [1, 7, 129, 100], [2, 70, 31, 16], [1, 33, 2600, 20]] {
        for tag in ["abc", "acb"] {
            for types in [BF16, [DataType::BF16, DataType::BF16, DataType::F32], BYTES] {
                check_packing(&product(dims, types, tag).build().unwrap());
                let bias = product(dims, types, tag).bias(f32(&[1, 1, dims[3]]));
                check_packing(&bias.attributes(relu.clone()).build().unwrap());
            }
            let sums = [DataType::U8, DataType::S8, DataType::S32];
            check_packing(&product(dims, sums, tag).attributes(zeros.clone()).build().unwrap());
        }
    }
}

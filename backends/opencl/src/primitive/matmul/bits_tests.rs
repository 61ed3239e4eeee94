//! Products by weights of four and eight bits, and of integers by tensor cores: as plans, and on the devices that have what they need.

use anydnn_backend::conformance::values::{Random, Values};
use anydnn_backend::op::MatMul;
use anydnn_backend::{
    Arg, Attributes, DataType, Dequantize, DeviceKind, Eltwise, FpMath, MemoryDesc, Op, PostOp,
    PrimitiveDesc, PrimitiveDescBuilder, Quantized,
};

use super::Shape;
use crate::capability::Feature;
use crate::plan::{DeviceTraits, KernelPlan};
use crate::primitive::tests::{check_on, check_those, cpu, f32, gpu, planned, sweep};
use crate::primitive::{Wanted, choices};
use crate::testing::{engines_for, shared_test_engines};

fn ampere() -> DeviceTraits {
    gpu().with(Feature::NvidiaMma, Ok("made up"))
}

fn hopper() -> DeviceTraits {
    ampere().with(Feature::Wgmma, Ok("made up"))
}

fn typed(dims: &[usize], data_type: DataType) -> MemoryDesc {
    MemoryDesc::new(dims, data_type)
}

fn matmul(src: MemoryDesc, weights: MemoryDesc) -> PrimitiveDescBuilder {
    PrimitiveDesc::builder(Op::MatMul(MatMul)).src(src).weights(weights)
}

/// Weights with a scale for so many blocks of terms of each column, and a zero point where they have one of this type.
fn blocks(count: usize, columns: usize, zero: Option<DataType>) -> Attributes {
    Attributes::default().with_dequantize(Dequantize {
        operand: Quantized::Weights,
        scale: Some(typed(&[count, columns], DataType::F16)),
        zero_point: zero.map(|data_type| typed(&[count, columns], data_type)),
    })
}

fn small_scales(arg: Arg) -> Option<Values> {
    matches!(arg, Arg::ScaleOf(_)).then_some(Values::AwayFromZero(0.05, 0.2))
}

/// The rest of a plan's program from a macro's definition on.
fn defines(plan: &KernelPlan, text: &str) -> bool {
    plan.launches[0].program.source.to_string().lines().any(|line| line == format!("#define {text}"))
}

#[test]
fn weights_of_few_bits_are_read_once_or_become_floats() {
    let make = |m: usize, bits: DataType, count: usize, zero: Option<DataType>, fpmath| {
        matmul(typed(&[m, 4096], DataType::F16), typed(&[4096, 512], bits).to_any())
            .attributes(blocks(count, 512, zero).with_fpmath(fpmath))
    };
    let plan = |device: &DeviceTraits, m, bits, count, zero| {
        planned(make(m, bits, count, zero, FpMath::F16), device)
    };
    let (s4, u4, s8, u8) = (DataType::S4, DataType::U4, DataType::S8, DataType::U8);
    for (bits, count, zero, pieces) in [
        (u4, 32, Some(u4), 4),
        (s4, 64, None, 2),
        (s4, 128, None, 1),
        (u8, 64, Some(u8), 4),
        (s8, 128, Some(s8), 2),
        (s8, 1, None, 4),
    ] {
        let plan = plan(&ampere(), 5, bits, count, zero);
        assert_eq!((plan.implementation.as_str(), plan.launches.len()), ("ocl:matmul:skinny-bits", 1));
        assert!(defines(&plan, &format!("PIECES {pieces}")), "{bits} in {count} blocks");
    }
    // Blocks that break a piece, and zero points whose differences do not fit.
    for (bits, count, zero) in [(u4, 256, None), (u4, 32, Some(s8))] {
        assert_ne!(plan(&ampere(), 5, bits, count, zero).implementation, "ocl:matmul:skinny-bits");
    }
    assert!(!plan(&gpu(), 5, u4, 32, None).implementation.contains("bits"));
    let many = plan(&hopper(), 512, u4, 32, Some(u4));
    assert_eq!((many.implementation.as_str(), many.launches.len() >= 2), ("ocl:matmul:expanded", true));
    assert!(many.scratchpad >= 4096 * 512 * 2);
    // Strictly, weights are not rounded: scales of columns wait for the sums, those of blocks cannot.
    let strict = |count| planned(make(512, u4, count, Some(u4), FpMath::Strict), &hopper()).implementation;
    assert_eq!((strict(1).as_str(), strict(32).contains("expanded")), ("ocl:matmul:expanded", false));
    assert_ne!(plan(&ampere(), 512, u4, 32, None).implementation, "ocl:matmul:expanded");
}

/// Rows of floats of any type, on every device that wants many work-items: one launch, the weights along their terms.
#[test]
fn few_rows_of_floats_read_weights_of_few_bits_once() {
    let name = "ocl:matmul:skinny-integers";
    let (s4, u4, s8, u8) = (DataType::S4, DataType::U4, DataType::S8, DataType::U8);
    let make =
        |[m, k, n]: [usize; 3], src: DataType, bits: DataType, block: usize, zero: Option<DataType>| {
            matmul(typed(&[m, k], src), typed(&[k, n], bits).to_any()).attributes(blocks(k / block, n, zero))
        };
    let plan = |sizes, bits, block, zero| planned(make(sizes, DataType::F32, bits, block, zero), &gpu());
    for (sizes, bits, block, zero, macros) in [
        ([1, 4096, 512], u4, 32, Some(u4), ["SCALES 1", "SIDES 1", "ROWS 1"]),
        ([4, 4096, 512], s4, 16, None, ["SCALES 2", "SIDES 1", "ROWS 4"]),
        ([9, 4096, 20_000], u8, 16, Some(s8), ["SCALES 1", "SIDES 4", "ROWS 5"]),
        ([16, 4096, 512], s8, 4, None, ["SCALES 4", "SIDES 1", "ROWS 8"]),
    ] {
        let plan = plan(sizes, bits, block, zero);
        assert_eq!((plan.implementation.as_str(), plan.launches.len()), (name, 1), "{sizes:?} {bits}");
        assert!(macros.iter().all(|text| defines(&plan, text)), "{sizes:?} {bits} wants {macros:?}");
    }
    // More rows, terms that are no whole stretches, scales that change within a word, and zero points of more bits.
    for (sizes, bits, block, zero) in [
        ([17, 4096, 512], u4, 32, None),
        ([1, 4104, 512], u4, 8, None),
        ([1, 4096, 512], u4, 4, None),
        ([1, 4096, 512], u4, 32, Some(DataType::S32)),
    ] {
        assert_ne!(plan(sizes, bits, block, zero).implementation, name, "{sizes:?} {bits} by {block}");
    }
    for (i, (sizes, bits, block, zero)) in [
        ([1, 96, 50], u4, 32, Some(u4)),
        ([3, 1120, 9], s4, 16, None),
        ([4, 320, 33], u4, 8, Some(s8)),
        ([2, 2080, 40], s4, 32, Some(s4)),
        ([1, 400, 21], u8, 16, Some(u8)),
        ([11, 144, 30], s8, 8, None),
        ([15, 128, 70], s8, 4, Some(s8)),
        ([5, 576, 12], u8, 576, None),
    ]
    .into_iter()
    .enumerate()
    {
        let src = [DataType::F32, DataType::F32, DataType::BF16, DataType::F16][i % 4];
        let n = sizes[2];
        let relu = PostOp::Eltwise(Eltwise::Relu);
        let desc = matmul(typed(&[sizes[0], sizes[1]], src), turned(sizes[1], n, bits))
            .attributes(blocks(sizes[1] / block, n, zero).with_post_op(relu))
            .bias(f32(&[n]))
            .build()
            .unwrap();
        for engine in engines_for(&desc) {
            for compute_units in [1, 132] {
                let max_work_group = engine.traits().max_work_group.min(256);
                let kind = DeviceKind::Gpu;
                let device = DeviceTraits { kind, max_work_group, compute_units, ..engine.traits() };
                let choice = choices(&desc, &device, Wanted::Named(name)).unwrap().remove(0);
                check_on(&engine, choice.plan, small_scales);
            }
        }
    }
}

#[test]
fn bytes_find_tensor_cores() {
    let (s8, u8) = (DataType::S8, DataType::U8);
    let make = |src, weights, dst| {
        matmul(typed(&[4096, 4096], src), typed(&[4096, 4096], weights).to_any())
            .dst(typed(&[4096, 4096], dst))
    };
    let plan = planned(make(u8, s8, DataType::S32), &hopper());
    assert_eq!(plan.implementation, "ocl:matmul:wgmma-128x128");
    assert!(defines(&plan, "EXACT 1") && defines(&plan, "BYTES 1") && defines(&plan, "K_TILE 64"));
    assert!(defines(&plan, "A_FETCH BY_TERMS") && defines(&plan, "B_FETCH BY_TERMS"));
    assert!(plan.launches[0].program.source.to_string().contains("k32.s32.u8.s8"));
    let scaled = |dims: &[usize], zero_point| {
        let one =
            |operand, dims: &[usize], zero_point| Dequantize { operand, scale: Some(f32(dims)), zero_point };
        Attributes::default()
            .with_dequantize(one(Quantized::Src(0), &[1, 1], zero_point))
            .with_dequantize(one(Quantized::Weights, dims, None))
    };
    let floats = |attributes| planned(make(s8, s8, DataType::F32).attributes(attributes), &hopper());
    let by_column = floats(scaled(&[1, 4096], None));
    assert_eq!(by_column.implementation, "ocl:matmul:wgmma-128x128");
    assert!(defines(&by_column, "SCALED 1") && defines(&by_column, "EXACT 0"));
    // Sums of what has other scales or a zero point are no sums of integers.
    assert!(!floats(scaled(&[2, 4096], None)).implementation.contains("wgmma"));
    assert!(!floats(scaled(&[1, 1], Some(f32(&[1, 1])))).implementation.contains("wgmma"));
    // More terms than 31 bits hold.
    let long = matmul(typed(&[64, 40_000], s8), typed(&[40_000, 64], s8)).build().unwrap();
    let names = choices(&long, &hopper(), Wanted::All).unwrap();
    assert!(!names.iter().any(|choice| choice.plan.implementation.contains("wgmma")));
}

/// The expansion runs everywhere, whatever multiplies afterwards.
#[test]
fn expanded_weights_mean_what_they_are() {
    let list = [
        (DataType::U4, 3, Some(DataType::U4), FpMath::F16),
        (DataType::S4, 1, None, FpMath::Strict),
        (DataType::U8, 6, Some(DataType::U8), FpMath::Any),
        (DataType::S8, 1, Some(DataType::S8), FpMath::Strict),
    ];
    for (i, (bits, count, zero, fpmath)) in list.into_iter().chain(list).enumerate() {
        // The second time in whole runs of columns.
        let n = if i < 4 { 50 } else { 72 };
        let half = if i % 2 == 0 { DataType::F16 } else { DataType::BF16 };
        // Weights that lie as the floats will, and others.
        let weights = typed(&[96, n], bits);
        let weights = if i % 4 < 2 && i < 4 { weights } else { turned(96, n, bits) };
        let fpmath = if half == DataType::BF16 { FpMath::Strict } else { fpmath };
        let desc = matmul(typed(&[40, 96], half), weights)
            .dst(typed(&[40, n], half))
            .bias(f32(&[n]))
            .attributes(
                blocks(count, n, zero).with_fpmath(fpmath).with_post_op(PostOp::Eltwise(Eltwise::Relu)),
            )
            .build()
            .unwrap();
        for engine in engines_for(&desc) {
            let max_work_group = engine.traits().max_work_group.min(256);
            let device = DeviceTraits { kind: DeviceKind::Gpu, max_work_group, ..engine.traits() };
            let planned = Shape::new(&desc).expanded_by(&device).unwrap();
            let plan = KernelPlan {
                implementation: "ocl:matmul:expanded".into(),
                scratchpad: planned.scratchpad,
                launches: planned.launches,
                desc: desc.clone(),
            };
            check_on(&engine, plan, small_scales);
        }
    }
}

/// A matrix whose columns lie in rows.
fn turned(rows: usize, columns: usize, data_type: DataType) -> MemoryDesc {
    MemoryDesc::with_tag([rows, columns], data_type, "ba").unwrap()
}

fn random_weights(random: &mut Random) -> PrimitiveDesc {
    let pick = |random: &mut Random, list: &[usize]| list[random.below(list.len() as u64) as usize];
    let m = pick(random, &[1, 2, 7, 8, 9, 17, 32, 33, 130]);
    let (block, count) = (pick(random, &[16, 32, 64, 128, 160]), 1 + random.below(9) as usize);
    let (k, n) = (block * count, 1 + random.below(200) as usize);
    let half = [DataType::F16, DataType::BF16, DataType::F32][random.below(3) as usize];
    let bits = [DataType::U4, DataType::S4, DataType::U8, DataType::S8][random.below(4) as usize];
    let zero = (random.below(2) == 0).then_some(bits);
    let blocks_of = if random.below(3) == 0 { 1 } else { count };
    let fpmath = match half {
        DataType::F16 => FpMath::F16,
        DataType::BF16 => FpMath::BF16,
        _ => FpMath::Strict,
    };
    let weights = if random.below(4) == 0 { typed(&[k, n], bits) } else { turned(k, n, bits) };
    let mut attributes = blocks(blocks_of, n, zero).with_fpmath(fpmath);
    if random.below(2) == 0 {
        attributes = attributes.with_post_op(PostOp::Eltwise(Eltwise::Relu));
    }
    let mut builder = matmul(typed(&[m, k], half), weights).attributes(attributes);
    if random.below(2) == 0 {
        builder = builder.bias(f32(&[n]));
    }
    builder.build().unwrap()
}

fn random_integers(random: &mut Random) -> PrimitiveDesc {
    let mut size = |most: u64| 1 + random.below(most) as usize;
    let (m, k, n) = (size(300), size(700), size(300));
    let k = if random.below(2) == 0 { k.next_multiple_of(16) } else { k };
    let mut byte = || [DataType::S8, DataType::U8][random.below(2) as usize];
    let (src, weights) = (byte(), byte());
    let weights = if random.below(3) == 0 { typed(&[k, n], weights) } else { turned(k, n, weights) };
    let dst = [DataType::S32, DataType::F32, DataType::F16][random.below(3) as usize];
    let mut builder = matmul(typed(&[m, k], src), weights).dst(typed(&[m, n], dst));
    if dst != DataType::S32 {
        let one = |operand, dims: &[usize]| Dequantize { operand, scale: Some(f32(dims)), zero_point: None };
        let rows = if random.below(2) == 0 { [m, 1] } else { [1, 1] };
        builder = builder.attributes(
            Attributes::default()
                .with_dequantize(one(Quantized::Src(0), &rows))
                .with_dequantize(one(Quantized::Weights, &[1, n])),
        );
    }
    if random.below(3) == 0 {
        builder = builder.bias(f32(&[n]));
    }
    builder.build().unwrap()
}

/// Where a device has matrix units that take them: NVIDIA's alone are served.
#[test]
fn random_products_of_few_bits_mean_the_same() {
    let (count, mut random) = sweep(6);
    for i in 0..count {
        let desc = if i % 2 == 0 { random_weights(&mut random) } else { random_integers(&mut random) };
        let small = |arg: Arg| match arg {
            Arg::ScaleOf(_) => Some(Values::AwayFromZero(0.002, 0.02)),
            _ => None,
        };
        for engine in shared_test_engines() {
            let max_work_group = engine.traits().max_work_group.min(256);
            let device = DeviceTraits { kind: DeviceKind::Gpu, max_work_group, ..engine.traits() };
            let own =
                |name: &str| ["bits", "integers", "expanded", "wgmma"].iter().any(|part| name.contains(part));
            for choice in choices(&desc, &device, Wanted::All).unwrap() {
                if own(&choice.plan.implementation) {
                    check_on(&engine, choice.plan, small);
                }
            }
        }
    }
}

/// Scales and zero points of a group of terms stay in registers on processors, with the sums of the group where rows are few.
#[test]
fn groups_of_terms_share_their_factors() {
    let (u4, s8, u8) = (DataType::U4, DataType::S8, DataType::U8);
    for (rows, columns, bits, zero) in [
        (1, 48, u4, Some(u4)),
        (2, 151, u4, None),
        (5, 67, u4, Some(u4)),
        (1, 150, u8, Some(u8)),
        (5, 66, s8, None),
        (3, 16, u4, Some(u4)),
        (1, 9, u8, Some(u8)),
    ] {
        let terms = 96;
        for (count, points) in [(3, 3), (6, 1)] {
            let dequantize = Dequantize {
                operand: Quantized::Weights,
                scale: Some(f32(&[count, columns])),
                zero_point: zero.map(|data_type| typed(&[points, columns], data_type)),
            };
            let attributes = Attributes::default().with_dequantize(dequantize);
            let builder = matmul(f32(&[rows, terms]), typed(&[terms, columns], bits)).attributes(attributes);
            let plan = planned(builder.clone(), &cpu());
            assert_eq!(plan.implementation, "ocl:matmul:vector");
            assert!(
                defines(&plan, "GROUPED 1")
                    && defines(&plan, &format!("SUMS_OF_GROUPS {}", i32::from(rows <= 2)))
            );
            check_those(&builder.build().expect("a product"), |name| name.ends_with("vector"));
        }
    }
}

//! What results of 16 bits become where they are stored.

use anydnn_backend::conformance::data;
use anydnn_backend::{
    Arg, DataType, Engine, Event, MemoryDesc, MemoryKind, PrimitiveDesc, Stream, StreamDesc,
};
use half::{bf16, f16};

use super::tests::{defines, hopper, named};
use crate::OpenClPrimitive;
use crate::capability::Feature;
use crate::plan::KernelPlan;
use crate::primitive::tests::{check_plan, matmul, tagged};
use crate::primitive::{Wanted, choices};
use crate::testing::shared_test_engines;

const TILES: [&str; 4] = ["128x128", "128x64", "64x128", "64x64"];

fn product(data_type: DataType, [m, k, n]: [usize; 3]) -> PrimitiveDesc {
    matmul(MemoryDesc::new([m, k], data_type), MemoryDesc::new([k, n], data_type)).build().unwrap()
}

/// Halves that fall between two results, the greatest ones, infinities, what is no number and the least ones: sums `a + b / 2`.
fn addends(data_type: DataType) -> Vec<[f64; 2]> {
    let inf = f64::INFINITY;
    let (unit, most, least) = match data_type {
        DataType::F16 => (2048.0, 65504.0, 2_f64.powi(-24)),
        _ => (256.0, f64::from(bf16::MAX), f64::from(bf16::MIN_POSITIVE)),
    };
    let half = if data_type == DataType::F16 { 16.0 } else { 2_f64.powi(119) };
    let mut list = vec![[inf, 1.0], [1.0, -inf], [inf, -inf], [f64::NAN, 0.0], [-0.0, -0.0]];
    for sign in [1.0, -1.0] {
        list.extend((0..8).map(|i| [sign * unit, sign * 2.0 * f64::from(i)]));
        list.extend([[sign * most, 0.0], [sign * most, sign * half], [sign * most, sign * half * 2.0]]);
        list.extend([[sign * least, 0.0], [0.0, sign * 2.0 * least]]);
        if data_type == DataType::F16 {
            list.extend([[sign * least, sign * least], [0.0, sign * least], [0.0, sign * 3.0 * least]]);
        }
    }
    list
}

/// Runs a plan of a product of two terms with every addend in turn, and compares bits.
fn check_bits(engine: &crate::OpenClEngine, plan: KernelPlan, data_type: DataType, [m, n]: [usize; 2]) {
    let list = addends(data_type);
    let of = |i: usize| list[i % list.len()];
    // Rows differ by nothing, so that every lane of a vector meets every addend.
    let src: Vec<f64> = (0..m).flat_map(|_| [1.0, 0.5]).collect();
    let weights: Vec<f64> = (0..n).map(|i| of(i)[0]).chain((0..n).map(|i| of(i)[1])).collect();
    let primitive = OpenClPrimitive::from_plan(engine, plan).unwrap();
    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
    let desc = anydnn_backend::Primitive::desc(&primitive);
    let mut args = Vec::new();
    for (arg, values) in [(Arg::SRC, src), (Arg::Weights, weights), (Arg::DST, vec![0.0; m * n])] {
        let layout = desc.find(arg).unwrap();
        let memory = engine.create_memory(layout, MemoryKind::Buffer).unwrap();
        stream.write(&memory, 0, &data::encode(layout, &values).unwrap(), &[]).unwrap();
        args.push((arg, memory));
    }
    stream.execute(&primitive, &args, &[]).unwrap().wait().unwrap();
    let mut bytes = vec![0; m * n * 2];
    stream.read(&args[2].1, 0, &mut bytes, &[]).unwrap();
    for (i, found) in bytes.as_chunks().0.iter().map(|bytes| u16::from_ne_bytes(*bytes)).enumerate() {
        let [a, b] = of(i % n);
        #[expect(clippy::cast_possible_truncation, reason = "such sums are exact in f32")]
        let sum = (a + b / 2.0) as f32;
        let (right, is_nan) = match data_type {
            DataType::F16 => (f16::from_f32(sum).to_bits(), f16::from_bits(found).is_nan()),
            _ => (bf16::from_f32(sum).to_bits(), bf16::from_bits(found).is_nan()),
        };
        // Whether zeros keep their sign in a sum is the unit's to choose.
        let is_zero = sum == 0.0 && matches!(found, 0 | 0x8000);
        assert!(
            is_zero || if sum.is_nan() { is_nan } else { found == right },
            "{a} + {b} / 2 in {data_type} by {} on {} is {found:#06x} instead of {right:#06x}",
            anydnn_backend::Primitive::implementation(&primitive),
            engine.traits().name
        );
    }
}

#[test]
fn results_of_16_bits_round_to_even_and_keep_what_is_special() {
    for engine in shared_test_engines() {
        for data_type in [DataType::F16, DataType::BF16] {
            // Rows of whole vectors and others.
            for n in [72, 67] {
                let desc = product(data_type, [5, 2, n]);
                for choice in choices(&desc, &engine.traits(), Wanted::All).unwrap() {
                    check_bits(&engine, choice.plan, data_type, [5, n]);
                }
            }
        }
    }
}

/// Only where all vectors of a result lie at multiples of 16 bytes.
#[test]
fn whole_vectors_of_16_bits_are_packed_by_pairs() {
    let packed = |desc: &PrimitiveDesc| {
        let plan = named(desc, &hopper(), "ocl:matmul:wgmma-64x64");
        ["f16", "bf16"].into_iter().find(|name| defines(&plan, &format!("PACKED_RESULT \"{name}\"")))
    };
    assert_eq!(packed(&product(DataType::F16, [64, 64, 72])), Some("f16"));
    assert_eq!(packed(&product(DataType::BF16, [64, 64, 72])), Some("bf16"));
    assert_eq!(packed(&product(DataType::F16, [64, 64, 68])), None);
    let to = |dst: MemoryDesc| {
        matmul(MemoryDesc::new([64, 64], DataType::F16), MemoryDesc::new([64, 72], DataType::F16))
            .dst(dst)
            .build()
            .unwrap()
    };
    assert_eq!(packed(&to(tagged(&[64, 72], "ab"))), None, "results of 32 bits");
    assert_eq!(packed(&to(MemoryDesc::with_tag([64, 72], DataType::F16, "ba").unwrap())), None);
    // Rows may lie further apart than they are long: their last vector is no whole one.
    let apart = matmul(MemoryDesc::new([64, 64], DataType::F16), MemoryDesc::new([64, 67], DataType::F16))
        .dst(MemoryDesc::with_strides([64, 67], DataType::F16, [72, 1]).unwrap())
        .build()
        .unwrap();
    assert_eq!(packed(&apart), Some("f16"));
    for engine in shared_test_engines().into_iter().filter(|engine| engine.traits().has(Feature::Wgmma)) {
        for desc in
            [&apart, &product(DataType::BF16, [130, 70, 136]), &product(DataType::F16, [130, 70, 132])]
        {
            for tile in TILES {
                let plan = named(desc, &engine.traits(), &format!("ocl:matmul:wgmma-{tile}"));
                check_plan(&engine, plan.clone(), 0);
                check_plan(&engine, plan, 2);
            }
        }
    }
}

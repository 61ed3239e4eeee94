use std::collections::BTreeSet;

use super::*;
use crate::op::Op;
use crate::{Arg, DataType};

/// Writes the names of variants, and the function that tells which of them an operation is; a new one does not compile until it is listed.
macro_rules! variants {
    ($($variant:ident,)+) => {
        const VARIANTS: &[&str] = &[$(stringify!($variant)),+];

        fn variant(op: &Op) -> &'static str {
            match op {
                $(Op::$variant(_) => stringify!($variant),)+
            }
        }
    };
}

variants! {
    MatMul,
    Convolution,
    Pooling,
    Eltwise,
    Binary,
    Select,
    Softmax,
    LayerNormalization,
    BatchNormalization,
    GroupNormalization,
    Reduction,
    Concat,
    Reorder,
    Expression,
    Attention,
    GatedMatMul,
    Deconvolution,
    ConvolutionWeights,
    PoolingBackward,
    Resampling,
    ResamplingBackward,
    Remap,
    Gather,
    Recurrent,
    RecurrentBackward,
    LocalResponseNormalization,
    LocalResponseNormalizationBackward,
    GroupedMatMul,
}

#[test]
fn every_draw_describes_something_and_its_text_gives_it_again() {
    let (mut variants, mut types) = (BTreeSet::new(), BTreeSet::new());
    for &family in Family::all() {
        for seed in 0..300 {
            let (recipe, sample) = Recipe::draw(family, seed, Limits::QUICK, None).unwrap();
            let (again, _) = Recipe::draw(family, seed, Limits::QUICK, None).unwrap();
            assert_eq!(recipe, again);
            let read: Recipe = recipe.to_string().parse().unwrap();
            assert_eq!(read, recipe);
            let (same, replayed) = read.normalized(Limits::WIDE).unwrap();
            assert_eq!((same, replayed.to_string()), (recipe, sample.to_string()));
            assert_eq!(replayed.desc(), sample.desc());
            variants.insert(variant(sample.desc().op()));
            types.extend(sample.desc().args().iter().map(|operand| operand.desc.data_type()));
        }
    }
    assert_eq!(variants, VARIANTS.iter().copied().collect());
    assert_eq!(types, DataType::ALL.into_iter().collect());
}

#[test]
fn no_choices_mean_something_small_and_plain() {
    for &family in Family::all() {
        let sample = Recipe { family, choices: Vec::new() }.sample(Limits::QUICK).unwrap();
        let desc = sample.desc();
        assert!(desc.attributes().post_ops.is_empty(), "{sample}");
        assert!(sample.work() <= 16, "{sample}");
        for operand in desc.args() {
            assert!(operand.desc.is_row_major(), "{sample}");
        }
    }
}

#[test]
fn samples_stay_within_their_limits() {
    for &family in Family::all() {
        for seed in 0..200 {
            let (recipe, sample) = Recipe::draw(family, seed, Limits::SMALL, None).unwrap();
            for operand in sample.desc().args() {
                // Windows make room for themselves, and operands lie side by side.
                assert!(operand.desc.elements() <= 16 * Limits::SMALL.elements, "{recipe} {sample}");
            }
        }
    }
}

#[test]
fn a_wanted_type_is_everywhere() {
    for &family in Family::all() {
        let wanted = Some(DataType::F16);
        let drawn = (0..20).filter(|&seed| {
            let (_, sample) = Recipe::draw(family, seed, Limits::SMALL, wanted).unwrap();
            sample.desc().args().iter().any(|operand| operand.desc.data_type() == DataType::F16)
        });
        assert!(drawn.count() >= 5, "{family:?}");
    }
}

#[test]
fn shrinking_ends_at_the_edge_of_a_planted_fault() {
    let matmul = Family::named("matmul").unwrap();
    let fails = |_: &Recipe, sample: &Sample| {
        let desc = sample.desc();
        desc.find(Arg::Bias).is_some() && desc.dst().dims().last().is_some_and(|&n| n >= 37)
    };
    let mut found = 0;
    for seed in 0..60 {
        let (recipe, sample) = Recipe::draw(matmul, seed, Limits::QUICK, None).unwrap();
        if !fails(&recipe, &sample) {
            continue;
        }
        found += 1;
        let small = shrink(&recipe, Limits::QUICK, 1000, fails);
        assert_eq!(small.to_string(), "matmul:0,0,36,0,0,0,0,0,0,0,0,0,0,0,0,1", "from {recipe}");
    }
    assert!(found > 5);
}

#[test]
fn shrinking_stops_after_its_attempts() {
    let (recipe, _) = Recipe::draw(Family::named("binary").unwrap(), 3, Limits::QUICK, None).unwrap();
    let mut calls = 0;
    shrink(&recipe, Limits::QUICK, 5, |_, _| {
        calls += 1;
        true
    });
    assert!(calls <= 5);
}

#[test]
fn texts_that_are_no_recipes_are_errors() {
    for (text, expected) in [
        ("matmul", "a family and its choices"),
        ("mammul:1", "a family among matmul"),
        ("matmul:1,-2", "whole numbers"),
        ("matmul:99999999999999999999", "whole numbers"),
    ] {
        let error = text.parse::<Recipe>().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    // Larger than any limit: cut.
    let sample = "matmul:18446744073709551615,5".parse::<Recipe>().unwrap().sample(Limits::WIDE).unwrap();
    assert_eq!(sample.desc().src().dims()[0], 8192);
}

#[test]
fn what_failed_once_is_described_by_the_list() {
    let recipes = regressions().unwrap();
    let text = |name: &str| {
        let (_, recipe) = recipes.iter().find(|(own, _)| *own == name).unwrap();
        recipe.sample(Limits::WIDE).unwrap().to_string()
    };
    assert_eq!(
        text("matmul_2x845x1929_bias_gelu_open"),
        "matmul src0=f32:2x845 weights=f32:845x1929:any bias=f32:1929 dst0=f32:2x1929 +Eltwise(GeluErf)"
    );
    for (name, recipe) in &recipes {
        let (normalized, _) = recipe.normalized(Limits::WIDE).unwrap();
        assert_eq!(normalized, *recipe, "{name}");
    }
}

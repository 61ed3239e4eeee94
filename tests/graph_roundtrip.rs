//! Random small graphs survive being written and read.

#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "test helpers fail the test, and values are exact")]

use anydnn::backend::{DataType, FpMath};
use anydnn::graph::{
    AttrValue, Attrs, Graph, GraphBuilder, LogicalTensor, Op, OpId, OpKind, Property, TensorId, TensorLayout,
};
use proptest::prelude::*;

/// One operation to add: its kind by number, which earlier tensors it reads, and how its output is described.
#[derive(Clone, Debug)]
struct Step {
    kind: usize,
    sources: (usize, usize),
    number: f32,
    described: bool,
    layout: u8,
}

fn step() -> impl Strategy<Value = Step> {
    let number = prop_oneof![
        any::<f32>().prop_filter("NaN differs from itself", |v| !v.is_nan()),
        Just(f32::INFINITY)
    ];
    (0..9_usize, any::<(usize, usize)>(), number, any::<bool>(), 0..3_u8).prop_map(
        |(kind, sources, number, described, layout)| Step { kind, sources, number, described, layout },
    )
}

fn operation(step: &Step, a: u64, b: u64, rank: usize) -> (OpKind, Attrs, Vec<u64>) {
    let none = Attrs::new;
    match step.kind {
        0 => (OpKind::ReLU, none(), vec![a]),
        1 => (OpKind::Add, none().with("auto_broadcast", "numpy"), vec![a, b]),
        2 => (OpKind::Elu, none().with("alpha", step.number), vec![a]),
        3 => (OpKind::Clamp, none().with("min", -1.5).with("max", step.number), vec![a]),
        4 => (OpKind::SoftMax, none().with("axis", -1_i64), vec![a]),
        5 => {
            let order: Vec<i64> = (0..rank as i64).rev().collect();
            (OpKind::StaticTranspose, none().with("order", order), vec![a])
        }
        6 => (OpKind::ReduceMax, none().with("axes", [0]).with("keep_dims", true), vec![a]),
        7 => (OpKind::Select, none(), vec![0, a, b]),
        _ => (OpKind::Wildcard, none().with("numbers", vec![step.number, 0.1]).with("flag", true), vec![a]),
    }
}

fn graph(dims: &[usize], steps: &[Step], fpmath: FpMath, apply_to_int: bool) -> Graph {
    let square: Vec<usize> = vec![dims[0]; dims.len()];
    let mut g = GraphBuilder::new().with_fpmath(fpmath).with_fpmath_apply_to_int(apply_to_int);
    let leaf = |id: u64, data_type| LogicalTensor::new(TensorId(id), data_type, square.as_slice());
    let mut tensors = vec![
        leaf(0, DataType::Boolean).with_property(Property::Variable),
        leaf(1, DataType::F32).with_property(Property::Variable),
        leaf(2, DataType::F32).with_property(Property::Constant),
    ];
    tensors[2].layout = TensorLayout::Strided(square.iter().map(|_| Some(0)).collect());
    for (i, step) in steps.iter().enumerate() {
        let readable = tensors.len() - 1;
        let pick = |source: usize| (1 + source % readable) as u64;
        let (kind, attrs, inputs) = operation(step, pick(step.sources.0), pick(step.sources.1), square.len());
        let id = tensors.len() as u64;
        let mut output = LogicalTensor::unknown(TensorId(id));
        if step.described || kind == OpKind::Wildcard {
            output = leaf(id, DataType::F32);
        }
        if step.described && kind != OpKind::Wildcard {
            output.dims = Some(vec![None; square.len()]);
        }
        output.layout = match step.layout {
            0 => TensorLayout::Undefined,
            1 => TensorLayout::Any,
            _ if step.described => {
                TensorLayout::Strided(vec![Some(0); square.len() - 1].into_iter().chain([Some(1)]).collect())
            }
            _ => TensorLayout::Opaque(id),
        };
        tensors.push(output);
        let op = Op {
            id: OpId(i as u64 * 3),
            name: format!("{kind} \"{i}\" ümlaut"),
            kind,
            attrs,
            inputs: inputs.iter().copied().map(TensorId).collect(),
            outputs: vec![TensorId(id)],
        };
        let said: Vec<_> = inputs.iter().chain([&id]).map(|&id| tensors[id as usize].clone()).collect();
        g.add_op(op, &said).unwrap();
    }
    g.build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_graphs_read_back_the_same(
        extent in 1..4_usize,
        rank in 1..5_usize,
        steps in proptest::collection::vec(step(), 1..12),
        fpmath in prop_oneof![Just(FpMath::Strict), Just(FpMath::BF16), Just(FpMath::F16), Just(FpMath::TF32), Just(FpMath::Any)],
        apply_to_int: bool,
    ) {
        let graph = graph(&vec![extent; rank], &steps, fpmath, apply_to_int);
        let text = graph.to_json();
        prop_assert_eq!(Graph::from_json(&text).unwrap(), graph, "{}", text);
    }

    #[test]
    fn every_attribute_value_reads_back_the_same(
        float: f32,
        floats in proptest::collection::vec(any::<f32>(), 0..5),
        integer: i64,
        integers in proptest::collection::vec(any::<i64>(), 0..5),
        truth: bool,
        word in ".*",
    ) {
        let mut g = GraphBuilder::new();
        let attrs = Attrs::new()
            .with("f", float)
            .with("fs", floats.clone())
            .with("i", integer)
            .with("is", integers)
            .with("b", truth)
            .with("s", word.as_str());
        g.op_multi("any", OpKind::Wildcard, &[], attrs.clone(), 0).unwrap();
        let graph = Graph::from_json(&g.build().unwrap().to_json()).unwrap();
        for (name, value) in attrs.iter() {
            let read = graph.ops()[0].attrs.get(name).unwrap();
            match (value, read) {
                (AttrValue::F32(a), AttrValue::F32(b)) => prop_assert!(a == b || a.is_nan() && b.is_nan()),
                (AttrValue::F32s(a), AttrValue::F32s(b)) => {
                    prop_assert!(a.len() == b.len());
                    prop_assert!(a.iter().zip(b).all(|(a, b)| a == b || a.is_nan() && b.is_nan()));
                }
                (a, b) => prop_assert_eq!(a, b),
            }
        }
    }
}

//! What the schemas accept and refuse.

#![allow(clippy::unwrap_used, reason = "test helpers fail the test")]

use anydnn::backend::{DataType, Error, Status};
use anydnn::graph::{Absent, AttrType, Attrs, GraphBuilder, OpKind, Schema};
use rstest::rstest;

/// The number of attributes of each kind that has any, as the specification counts them.
const ATTRIBUTES: &[(OpKind, usize)] = &[
    (OpKind::Add, 1),
    (OpKind::AvgPool, 8),
    (OpKind::AvgPoolBackward, 8),
    (OpKind::BatchNormInference, 2),
    (OpKind::BatchNormForwardTraining, 3),
    (OpKind::BatchNormTrainingBackward, 2),
    (OpKind::BiasAdd, 1),
    (OpKind::BiasAddBackward, 1),
    (OpKind::Clamp, 2),
    (OpKind::ClampBackward, 3),
    (OpKind::Concat, 1),
    (OpKind::Convolution, 8),
    (OpKind::ConvolutionBackwardData, 10),
    (OpKind::ConvolutionBackwardWeights, 9),
    (OpKind::ConvTranspose, 9),
    (OpKind::ConvTransposeBackwardWeights, 10),
    (OpKind::Dequantize, 4),
    (OpKind::Divide, 1),
    (OpKind::DynamicDequantize, 3),
    (OpKind::DynamicQuantize, 2),
    (OpKind::Elu, 1),
    (OpKind::EluBackward, 2),
    (OpKind::GELU, 1),
    (OpKind::GELUBackward, 1),
    (OpKind::GenIndex, 1),
    (OpKind::GreaterEqual, 1),
    (OpKind::GroupNorm, 5),
    (OpKind::HardSigmoid, 2),
    (OpKind::HardSigmoidBackward, 2),
    (OpKind::Interpolate, 5),
    (OpKind::InterpolateBackward, 5),
    (OpKind::LayerNorm, 4),
    (OpKind::LayerNormBackward, 3),
    (OpKind::LeakyReLU, 1),
    (OpKind::LogSoftmax, 1),
    (OpKind::LogSoftmaxBackward, 1),
    (OpKind::MatMul, 3),
    (OpKind::Maximum, 1),
    (OpKind::MaxPool, 8),
    (OpKind::MaxPoolBackward, 7),
    (OpKind::Minimum, 1),
    (OpKind::Multiply, 1),
    (OpKind::Pow, 1),
    (OpKind::PReLU, 2),
    (OpKind::PReLUBackward, 1),
    (OpKind::Quantize, 4),
    (OpKind::ReduceSum, 2),
    (OpKind::ReLUBackward, 1),
    (OpKind::RMSNorm, 2),
    (OpKind::Select, 1),
    (OpKind::SigmoidBackward, 1),
    (OpKind::SoftMax, 2),
    (OpKind::SoftMaxBackward, 1),
    (OpKind::SoftPlus, 1),
    (OpKind::SoftPlusBackward, 1),
    (OpKind::SqrtBackward, 1),
    (OpKind::SquaredDifference, 1),
    (OpKind::StaticReshape, 2),
    (OpKind::StaticTranspose, 1),
    (OpKind::Subtract, 1),
    (OpKind::TanhBackward, 1),
    (OpKind::ReLU, 0),
    (OpKind::End, 0),
    (OpKind::Dropout, 0),
    (OpKind::TypeCast, 0),
    (OpKind::Reorder, 0),
];

#[test]
fn the_table_has_as_many_attributes_as_the_specification() {
    for &(kind, count) in ATTRIBUTES {
        let attrs = Schema::of(kind).attrs.iter();
        assert_eq!(attrs.filter(|attr| !attr.extension).count(), count, "{kind}");
    }
}

#[test]
fn the_table_is_consistent() {
    for &kind in OpKind::ALL {
        let schema = Schema::of(kind);
        for ports in [schema.inputs, schema.outputs] {
            assert!(ports.required <= ports.names.len(), "{kind}");
        }
        for (i, spec) in schema.attrs.iter().enumerate() {
            assert!(schema.attrs[..i].iter().all(|other| other.name != spec.name), "{kind} {}", spec.name);
            let fits = match (spec.value, spec.absent) {
                (_, Absent::Required | Absent::Nothing)
                | (AttrType::F32, Absent::F32(_))
                | (AttrType::S64, Absent::S64(_))
                | (AttrType::Bool, Absent::Bool(_)) => true,
                (AttrType::Word(words), Absent::Word(word)) => words.contains(&word),
                (AttrType::S64s, Absent::Repeat(_, like)) => schema.attr(like).is_some(),
                _ => false,
            };
            assert!(fits, "{kind} {}", spec.name);
        }
    }
}

fn refused(kind: OpKind, inputs: usize, attrs: Attrs, outputs: usize) -> Error {
    let mut g = GraphBuilder::new();
    let ids: Vec<_> = (0..inputs).map(|i| g.input(&format!("in{i}"), DataType::F32, [2, 3, 4])).collect();
    g.op_multi("it", kind, &ids, attrs, outputs).unwrap_err()
}

#[rstest]
#[case(OpKind::ReLU, 2, Attrs::new(), 1, &["number of inputs is 2", "1 (src)"])]
#[case(OpKind::MatMul, 1, Attrs::new(), 1, &["number of inputs is 1", "2 to 3 (src, weights, bias)"])]
#[case(OpKind::Concat, 0, Attrs::new(), 1, &["number of inputs is 0", "at least 1"])]
#[case(OpKind::ReLU, 1, Attrs::new(), 2, &["number of outputs is 2", "1 (dst)"])]
#[case(OpKind::End, 1, Attrs::new(), 1, &["number of outputs is 1", "none"])]
#[case(OpKind::ReLU, 1, Attrs::new().with("alpha", 1.0), 1, &["\"alpha\"", "no attributes"])]
#[case(OpKind::SoftMax, 1, Attrs::new().with("axes", 1_i64), 1, &["\"axes\"", "\"axis\"?"])]
#[case(OpKind::Add, 2, Attrs::new().with("fused", true), 1, &["\"fused\"", "auto_broadcast"])]
#[case(OpKind::Elu, 1, Attrs::new(), 1, &["attribute alpha is missing", "f32"])]
#[case(OpKind::Elu, 1, Attrs::new().with("alpha", 1_i64), 1, &["attribute alpha is of type s64", "type f32"])]
#[case(OpKind::Add, 2, Attrs::new().with("auto_broadcast", "numpi"), 1, &["\"numpi\"", "none, numpy"])]
#[case(OpKind::LayerNorm, 3, Attrs::new(), 1, &["number of outputs is 1", "keep_stats is true"])]
#[case(OpKind::LayerNorm, 1, Attrs::new().with("keep_stats", false), 1, &["inputs is 1", "use_affine"])]
#[case(OpKind::Interpolate, 1, Attrs::new().with("mode", "nearest"), 1, &["sizes", "either sizes or scales"])]
#[case(OpKind::Quantize, 1, Attrs::new().with("scales", vec![1.0, 2.0]), 1, &["length of attribute scales is 2", "per_tensor"])]
#[case(
    OpKind::GroupNorm, 3, Attrs::new().with("groups", 0_i64), 3, &["attribute groups is 0", "at least 1"]
)]
fn wrong_operations_are_told(
    #[case] kind: OpKind,
    #[case] inputs: usize,
    #[case] attrs: Attrs,
    #[case] outputs: usize,
    #[case] expected: &[&str],
) {
    let error = refused(kind, inputs, attrs, outputs);
    let text = error.to_string();
    assert_eq!(error.status(), Status::InvalidGraphOp, "{text}");
    assert!(text.contains(&format!("{kind} \"it\" (op0)")), "{text}");
    for part in expected {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[test]
fn defaults_are_filled_in_and_words_get_one_spelling() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", DataType::F32, [1, 8, 8, 3]);
    let attrs = Attrs::new()
        .with("strides", [1, 1])
        .with("pads_begin", [0, 0])
        .with("pads_end", [0, 0])
        .with("kernel", [2, 2])
        .with("auto_pad", "same_upper");
    g.op("pool", OpKind::MaxPool, &[x], attrs).unwrap();
    let graph = g.build().unwrap();
    let attrs = &graph.ops()[0].attrs;
    assert_eq!(attrs.string("auto_pad").unwrap(), "SAME_UPPER");
    assert_eq!(attrs.string("rounding_type").unwrap(), "floor");
    assert_eq!(attrs.string("data_format").unwrap(), "NXC");
    assert_eq!(attrs.s64s("dilations").unwrap(), [1, 1]);
}

#[test]
fn a_wildcard_takes_anything() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", DataType::F32, [2]);
    let attrs = Attrs::new().with("whatever", 3_i64);
    assert_eq!(g.op_multi("any", OpKind::Wildcard, &[x, x, x], attrs, 0).unwrap(), []);
    assert!(g.build().is_ok());
}

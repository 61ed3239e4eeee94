//! Shapes and types that operations give their outputs, against shapes worked out by hand.

#![allow(clippy::unwrap_used, reason = "test helpers fail the test")]

use anydnn::backend::{DataType, Dims, Result, Status};
use anydnn::graph::{
    Attrs, Graph, GraphBuilder, LogicalTensor, Op, OpId, OpKind, TensorId, TensorLayout, Window,
};
use rstest::rstest;

const F32: DataType = DataType::F32;

fn graph(kind: OpKind, inputs: &[&[usize]], attrs: Attrs, outputs: usize) -> Result<Graph> {
    let mut g = GraphBuilder::new();
    let ids: Vec<_> = inputs
        .iter()
        .enumerate()
        .map(|(i, dims)| {
            let data_type = match (kind, i) {
                (OpKind::Select, 0) => DataType::Boolean,
                (OpKind::Dequantize | OpKind::DynamicDequantize, 0) => DataType::S8,
                _ => F32,
            };
            g.input(&format!("in{i}"), data_type, *dims)
        })
        .collect();
    g.op_multi("it", kind, &ids, attrs, outputs)?;
    g.build()
}

fn shapes(kind: OpKind, inputs: &[&[usize]], attrs: Attrs, outputs: usize) -> Result<Vec<Vec<usize>>> {
    let graph = graph(kind, inputs, attrs, outputs)?;
    Ok(graph.ops()[0]
        .outputs
        .iter()
        .map(|&id| graph.tensor(id).unwrap().known_dims().unwrap().to_vec())
        .collect())
}

fn shape(kind: OpKind, inputs: &[&[usize]], attrs: Attrs) -> Vec<usize> {
    shapes(kind, inputs, attrs, 1).unwrap().remove(0)
}

fn message(kind: OpKind, inputs: &[&[usize]], attrs: Attrs) -> String {
    shapes(kind, inputs, attrs, 1).unwrap_err().to_string()
}

#[rstest]
#[case(&[2, 3], &[3, 4], false, false, &[2, 4])]
#[case(&[3, 2], &[3, 4], true, false, &[2, 4])]
#[case(&[2, 3], &[4, 3], false, true, &[2, 4])]
#[case(&[5, 1, 2, 3], &[7, 3, 4], false, false, &[5, 7, 2, 4])]
#[case(&[8, 2, 3], &[3, 4], false, false, &[8, 2, 4])]
#[case(&[3], &[3, 4], false, false, &[4])]
#[case(&[3], &[3, 4], true, false, &[4])]
#[case(&[2, 3], &[3], false, true, &[2])]
#[case(&[3], &[3], false, false, &[])]
#[case(&[6, 3], &[2, 3, 4], false, false, &[2, 6, 4])]
#[case(&[0, 3], &[3, 4], false, false, &[0, 4])]
fn matmul(
    #[case] a: &[usize],
    #[case] b: &[usize],
    #[case] ta: bool,
    #[case] tb: bool,
    #[case] out: &[usize],
) {
    let attrs = Attrs::new().with("transpose_a", ta).with("transpose_b", tb);
    assert_eq!(shape(OpKind::MatMul, &[a, b], attrs), out);
}

#[test]
fn matmul_names_what_disagrees() {
    let text = message(OpKind::MatMul, &[&[2, 3], &[4, 5]], Attrs::new());
    assert!(
        text.contains("MatMul \"it\"") && text.contains("2x3 times 4x5") && text.contains("3 and 4"),
        "{text}"
    );
    let text = message(OpKind::MatMul, &[&[2, 2, 3], &[3, 3, 5]], Attrs::new());
    assert!(text.contains("batch dimensions"), "{text}");
    let text = message(OpKind::MatMul, &[&[2, 3], &[3, 5], &[4]], Attrs::new());
    assert!(text.contains("shape of bias is 4") && text.contains("2x5"), "{text}");
}

fn conv() -> Attrs {
    Attrs::new()
        .with("strides", [2, 1])
        .with("pads_begin", [1, 0])
        .with("pads_end", [1, 2])
        .with("dilations", [1, 2])
        .with("data_format", "NCX")
        .with("weights_format", "OIX")
}

#[test]
fn convolution() {
    use OpKind::Convolution as C;
    // Rows: (9 + 2 - 3) / 2 + 1 = 5. Columns: reach 5, 8 + 2 - 5 + 1 = 6.
    assert_eq!(shape(C, &[&[1, 4, 9, 8], &[6, 4, 3, 3]], conv()), [1, 6, 5, 6]);
    assert_eq!(shape(C, &[&[1, 4, 9, 8], &[6, 4, 3, 3], &[6]], conv()), [1, 6, 5, 6]);
    let nhwc = conv().with("data_format", "NXC").with("weights_format", "XIO");
    assert_eq!(shape(C, &[&[1, 9, 8, 4], &[3, 3, 4, 6]], nhwc), [1, 5, 6, 6]);
    let grouped = conv().with("groups", 2_i64);
    assert_eq!(shape(C, &[&[1, 8, 9, 8], &[6, 4, 3, 3]], grouped), [1, 6, 5, 6]);
    let line = Attrs::new()
        .with("strides", [1])
        .with("pads_begin", [0])
        .with("pads_end", [0])
        .with("dilations", [1]);
    assert_eq!(shape(C, &[&[2, 10, 3], &[4, 3, 7]], line), [2, 7, 7]);
    for (auto_pad, rows) in [("SAME_UPPER", 5), ("SAME_LOWER", 5), ("same_upper", 5), ("VALID", 4)] {
        let attrs = conv().with("auto_pad", auto_pad).with("dilations", [1, 1]);
        let columns = if auto_pad == "VALID" { 6 } else { 8 };
        assert_eq!(shape(C, &[&[1, 4, 9, 8], &[6, 4, 3, 3]], attrs), [1, 6, rows, columns], "{auto_pad}");
    }
}

#[test]
fn convolution_names_what_disagrees() {
    use OpKind::Convolution as C;
    let text = message(C, &[&[1, 5, 9, 8], &[6, 4, 3, 3]], conv());
    assert!(text.contains("with 5 channels") && text.contains("4 input channels"), "{text}");
    let text = message(C, &[&[1, 4, 9, 8], &[6, 4, 3, 3], &[5]], conv());
    assert!(text.contains("shape of bias is 5") && text.contains('6'), "{text}");
    let text = message(C, &[&[1, 4, 9, 8], &[6, 4, 3]], conv());
    assert!(text.contains("shape of weights is 6x4x3"), "{text}");
    let text = message(C, &[&[1, 4, 9, 1], &[6, 4, 3, 3]], conv());
    assert!(text.contains("spatial dimension 1") && text.contains("reach"), "{text}");
    let text = message(C, &[&[1, 4, 9, 8], &[6, 4, 3, 3]], conv().with("strides", [0, 1]));
    assert!(text.contains("attribute strides is [0, 1]") && text.contains("at least 1"), "{text}");
    let text = message(C, &[&[1, 4, 9, 8], &[6, 4, 3, 3]], conv().with("pads_begin", [1]));
    assert!(text.contains("attribute pads_begin is [1]") && text.contains("2 values"), "{text}");
    let text = message(C, &[&[1, 8, 9, 8], &[5, 4, 3, 3]], conv().with("groups", 2_i64));
    assert!(text.contains("5 output channels") && text.contains("multiple of 2"), "{text}");
    let huge = conv().with("pads_begin", [i64::MAX, 0]).with("pads_end", [i64::MAX, 0]);
    assert!(message(C, &[&[1, 4, 9, 8], &[6, 4, 3, 3]], huge).contains("pads"));
}

#[test]
fn windows_work_out_their_padding() {
    let op = |attrs: Attrs| {
        graph(OpKind::Convolution, &[&[1, 1, 6], &[1, 1, 3]], attrs, 1).unwrap().ops()[0].clone()
    };
    let attrs = Attrs::new()
        .with("strides", [2])
        .with("pads_begin", [7])
        .with("pads_end", [7])
        .with("dilations", [1])
        .with("data_format", "NCX")
        .with("weights_format", "OIX");
    // 3 windows of 3 taps reach over 7 elements: one zero, behind or in front.
    let upper = Window::new(&op(attrs.clone().with("auto_pad", "SAME_UPPER")), &[6], &[3]).unwrap();
    assert_eq!((upper.pads_begin[0], upper.pads_end[0], upper.output[0]), (0, 1, 3));
    let lower = Window::new(&op(attrs.with("auto_pad", "SAME_LOWER")), &[6], &[3]).unwrap();
    assert_eq!((lower.pads_begin[0], lower.pads_end[0], lower.output[0]), (1, 0, 3));
}

fn pool() -> Attrs {
    Attrs::new()
        .with("strides", [2, 2])
        .with("pads_begin", [0, 0])
        .with("pads_end", [0, 0])
        .with("kernel", [3, 3])
        .with("data_format", "NCX")
}

#[test]
fn pools() {
    let src: &[&[usize]] = &[&[1, 4, 8, 9]];
    assert_eq!(shape(OpKind::MaxPool, src, pool()), [1, 4, 3, 4]);
    assert_eq!(shape(OpKind::MaxPool, src, pool().with("rounding_type", "ceil")), [1, 4, 4, 4]);
    assert_eq!(shape(OpKind::MaxPool, src, pool().with("dilations", [2, 2])), [1, 4, 2, 3]);
    let avg = pool().with("exclude_pad", true);
    assert_eq!(shape(OpKind::AvgPool, src, avg.clone()), [1, 4, 3, 4]);
    assert_eq!(shape(OpKind::AvgPool, src, avg.clone().with("auto_pad", "SAME_UPPER")), [1, 4, 4, 5]);
    assert_eq!(shape(OpKind::AvgPool, &[&[1, 8, 9, 4]], avg.with("data_format", "NXC")), [1, 3, 4, 4]);
    let ceil = graph(OpKind::MaxPool, src, pool().with("rounding_type", "ceil"), 1).unwrap();
    let window = Window::new(&ceil.ops()[0], &[8, 9], &[3, 3]).unwrap();
    assert_eq!((window.pads_end.to_vec(), window.dilations.to_vec()), (vec![1, 0], vec![1, 1]));
}

#[test]
fn transposed_convolution() {
    use OpKind::ConvTranspose as T;
    let attrs = Attrs::new()
        .with("strides", [2])
        .with("pads_begin", [1])
        .with("pads_end", [1])
        .with("dilations", [1])
        .with("data_format", "NCX")
        .with("weights_format", "IOX");
    // (5 - 1) * 2 + 3 - 2 = 9
    assert_eq!(shape(T, &[&[1, 4, 5], &[4, 6, 3]], attrs.clone()), [1, 6, 9]);
    assert_eq!(shape(T, &[&[1, 4, 5], &[4, 6, 3]], attrs.clone().with("output_padding", [1])), [1, 6, 10]);
    assert_eq!(shape(T, &[&[1, 4, 5], &[4, 6, 3]], attrs.clone().with("auto_pad", "SAME_UPPER")), [1, 6, 10]);
    assert_eq!(shape(T, &[&[1, 4, 5], &[4, 6, 3]], attrs.clone().with("auto_pad", "VALID")), [1, 6, 11]);
    // As oneDNN's CPU library has it: the output padding comes behind, and upper is behind.
    let padded = attrs.clone().with("auto_pad", "SAME_UPPER").with("output_padding", [1]);
    let graph = graph(T, &[&[1, 4, 5], &[4, 6, 3]], padded, 1).unwrap();
    assert_eq!(graph.tensor(graph.outputs()[0]).unwrap().known_dims().unwrap().to_vec(), [1, 6, 11]);
    let window = Window::transposed(&graph.ops()[0], &[5], &[3]).unwrap();
    assert_eq!((window.pads_begin.to_vec(), window.pads_end.to_vec()), (vec![0], vec![1]));
    assert_eq!(shape(T, &[&[1, 8, 5], &[4, 6, 3]], attrs.clone().with("groups", 2_i64)), [1, 6, 9]);
    let xoi = attrs.with("data_format", "NXC").with("weights_format", "XOI");
    assert_eq!(shape(T, &[&[1, 5, 4], &[3, 6, 4]], xoi), [1, 9, 6]);
}

#[test]
fn unary_operations_keep_shape_and_type() {
    use OpKind as K;
    let alpha = || Attrs::new().with("alpha", 0.5);
    let all = [
        (K::Abs, Attrs::new()),
        (K::Clamp, Attrs::new().with("min", 0.0).with("max", 6.0)),
        (K::Elu, alpha()),
        (K::Exp, Attrs::new()),
        (K::GELU, Attrs::new()),
        (K::HardSigmoid, alpha().with("beta", 0.5)),
        (K::HardSwish, Attrs::new()),
        (K::LeakyReLU, alpha()),
        (K::Log, Attrs::new()),
        (K::Mish, Attrs::new()),
        (K::Pow, Attrs::new().with("beta", 2.0)),
        (K::ReLU, Attrs::new()),
        (K::Reciprocal, Attrs::new()),
        (K::Reorder, Attrs::new()),
        (K::Round, Attrs::new()),
        (K::Sigmoid, Attrs::new()),
        (K::SoftPlus, Attrs::new()),
        (K::Sqrt, Attrs::new()),
        (K::Square, Attrs::new()),
        (K::Tanh, Attrs::new()),
        (K::LogSoftmax, Attrs::new()),
    ];
    for (kind, attrs) in all {
        let graph = graph(kind, &[&[2, 0, 5]], attrs, 1).unwrap();
        let out = graph.tensor(graph.outputs()[0]).unwrap();
        assert_eq!((out.known_dims().unwrap().to_vec(), out.data_type), (vec![2, 0, 5], Some(F32)), "{kind}");
    }
}

#[test]
fn gradients_have_the_shape_of_what_they_are_for() {
    use OpKind as K;
    let alpha = || Attrs::new().with("alpha", 0.5);
    let range = Attrs::new().with("min", 0.0).with("max", 6.0);
    let all = [
        (K::AbsBackward, Attrs::new()),
        (K::ClampBackward, range),
        (K::EluBackward, alpha()),
        (K::GELUBackward, Attrs::new()),
        (K::HardSigmoidBackward, alpha().with("beta", 0.5)),
        (K::HardSwishBackward, Attrs::new()),
        (K::MishBackward, Attrs::new()),
        (K::ReLUBackward, Attrs::new()),
        (K::SigmoidBackward, Attrs::new()),
        (K::SoftPlusBackward, Attrs::new()),
        (K::SqrtBackward, Attrs::new()),
        (K::TanhBackward, Attrs::new()),
        (K::SoftMaxBackward, Attrs::new()),
        (K::LogSoftmaxBackward, Attrs::new()),
    ];
    for (kind, attrs) in all {
        assert_eq!(shape(kind, &[&[2, 3], &[2, 3]], attrs.clone()), [2, 3], "{kind}");
        assert!(message(kind, &[&[2, 3], &[3, 2]], attrs).contains("3x2"), "{kind}");
    }
    let x: &[usize] = &[2, 4, 6, 6];
    let ncx = || Attrs::new().with("data_format", "NCX");
    assert_eq!(shape(K::BiasAddBackward, &[x], ncx()), [4]);
    assert_eq!(shape(K::MaxPoolBackward, &[x, &[2, 4, 2, 2]], pool()), x);
    let avg = pool().with("exclude_pad", false).with("src_shape", [2, 4, 6, 6]);
    assert_eq!(shape(K::AvgPoolBackward, &[&[2, 4, 2, 2]], avg), x);
    assert_eq!(
        shape(K::ConvolutionBackwardData, &[x, &[4, 3, 3, 3]], conv().with("dst_shape", [2, 3, 9, 9])),
        [2, 3, 9, 9]
    );
    let weights = conv().with("weights_shape", [4, 3, 3, 3]);
    assert_eq!(shape(K::ConvolutionBackwardWeights, &[&[2, 3, 9, 9], x], weights), [4, 3, 3, 3]);
    assert_eq!(shapes(K::PReLUBackward, &[x, &[4], x], ncx(), 2).unwrap(), [x, &[4][..]]);
    let stats = shapes(K::LayerNormBackward, &[&[2, 5, 6], &[2, 5, 6], &[2, 5], &[2, 5]], Attrs::new(), 3);
    assert_eq!(stats.unwrap(), [vec![2, 5, 6], vec![6], vec![6]]);
    let epsilon = ncx().with("epsilon", 1e-5);
    let out = shapes(K::BatchNormTrainingBackward, &[x, x, &[4], &[4], &[4]], epsilon.clone(), 3).unwrap();
    assert_eq!(out, [x, &[4], &[4]]);
    let out = shapes(K::BatchNormForwardTraining, &[x, &[4], &[4]], epsilon, 5).unwrap();
    assert_eq!(out, [x, &[4], &[4], &[4], &[4]]);
}

#[test]
fn shapes_that_follow_from_values_must_be_given() {
    let inputs: &[&[usize]] = &[&[2, 4, 2, 2], &[4]];
    let avg = pool().with("exclude_pad", false);
    let error = shapes(OpKind::AvgPoolBackward, inputs, avg.clone(), 1).unwrap_err();
    assert_eq!(error.status(), Status::Unimplemented);
    assert!(error.to_string().contains("shape inference of AvgPoolBackward \"it\""), "{error}");
    let ids = [0, 1, 2].map(TensorId);
    let op = Op {
        id: OpId(0),
        name: "it".into(),
        kind: OpKind::AvgPoolBackward,
        attrs: avg,
        inputs: ids[..2].to_vec(),
        outputs: vec![ids[2]],
    };
    let tensors = [
        LogicalTensor::new(ids[0], F32, [2, 4, 2, 2]),
        LogicalTensor::new(ids[1], DataType::S32, [4]),
        LogicalTensor::new(ids[2], F32, [2, 4, 6, 6]),
    ];
    let mut g = GraphBuilder::new();
    g.add_op(op, &tensors).unwrap();
    assert_eq!(g.build().unwrap().tensor(ids[2]).unwrap().known_dims().unwrap(), Dims::from([2, 4, 6, 6]));
}

#[rstest]
#[case(OpKind::Add)]
#[case(OpKind::Subtract)]
#[case(OpKind::Multiply)]
#[case(OpKind::Divide)]
#[case(OpKind::Maximum)]
#[case(OpKind::Minimum)]
#[case(OpKind::SquaredDifference)]
#[case(OpKind::GreaterEqual)]
fn binary_operations_broadcast(#[case] kind: OpKind) {
    assert_eq!(shape(kind, &[&[2, 1, 4], &[3, 1]], Attrs::new()), [2, 3, 4]);
    assert_eq!(shape(kind, &[&[], &[3]], Attrs::new()), [3]);
    assert!(message(kind, &[&[2, 3], &[2, 4]], Attrs::new()).contains("2x3 with 2x4"));
    let none = Attrs::new().with("auto_broadcast", "none");
    assert_eq!(shape(kind, &[&[2, 3], &[2, 3]], none.clone()), [2, 3]);
    assert!(message(kind, &[&[2, 3], &[1, 3]], none).contains("shape of src_1 is 1x3"));
    let graph = graph(kind, &[&[2], &[2]], Attrs::new(), 1).unwrap();
    let expected = if kind == OpKind::GreaterEqual { DataType::Boolean } else { F32 };
    assert_eq!(graph.tensor(graph.outputs()[0]).unwrap().data_type, Some(expected));
}

#[test]
fn select_bias_and_prelu() {
    assert_eq!(shape(OpKind::Select, &[&[1, 3], &[2, 1], &[]], Attrs::new()), [2, 3]);
    let ncx = || Attrs::new().with("data_format", "NCX");
    assert_eq!(shape(OpKind::BiasAdd, &[&[2, 3, 4], &[3]], ncx()), [2, 3, 4]);
    assert_eq!(shape(OpKind::BiasAdd, &[&[2, 3, 4], &[4]], Attrs::new()), [2, 3, 4]);
    assert!(message(OpKind::BiasAdd, &[&[2, 3, 4], &[4]], ncx()).contains("shape of bias is 4, expected 3"));
    for slope in [&[3][..], &[1], &[3, 1], &[2, 3, 4]] {
        assert_eq!(shape(OpKind::PReLU, &[&[2, 3, 4], slope], ncx()), [2, 3, 4]);
    }
    assert!(message(OpKind::PReLU, &[&[2, 3, 4], &[5]], ncx()).contains("shape of slope is 5"));
}

#[test]
fn normalizations() {
    use OpKind as K;
    let x: &[usize] = &[2, 6, 5];
    assert_eq!(shapes(K::LayerNorm, &[x, &[5], &[5]], Attrs::new(), 3).unwrap(), [x, &[2, 6], &[2, 6]]);
    let wide = Attrs::new().with("begin_norm_axis", 1_i64).with("use_affine", false);
    assert_eq!(shapes(K::LayerNorm, &[x], wide, 3).unwrap(), [x, &[2], &[2]]);
    let alone = Attrs::new().with("keep_stats", false);
    assert_eq!(shape(K::LayerNorm, &[x, &[5], &[5]], alone.clone()), x);
    assert!(message(K::LayerNorm, &[x, &[4], &[5]], alone).contains("shape of gamma is 4"));
    assert_eq!(shape(K::RMSNorm, &[x, &[5]], Attrs::new()), x);
    assert_eq!(shapes(K::RMSNorm, &[x, &[5]], Attrs::new(), 2).unwrap(), [x, &[2, 6]]);
    let grouped = Attrs::new().with("groups", 3_i64).with("data_format", "NCX");
    assert_eq!(shapes(K::GroupNorm, &[x, &[6], &[6]], grouped.clone(), 3).unwrap(), [x, &[2, 3], &[2, 3]]);
    let text =
        shapes(K::GroupNorm, &[x, &[6], &[6]], grouped.with("groups", 4_i64), 3).unwrap_err().to_string();
    assert!(text.contains("attribute groups is 4") && text.contains("6 channels"), "{text}");
    let batch = Attrs::new().with("epsilon", 1e-5).with("data_format", "NCX");
    assert_eq!(shape(K::BatchNormInference, &[x, &[6], &[6], &[6], &[6]], batch.clone()), x);
    let text = message(K::BatchNormInference, &[x, &[6], &[6], &[5], &[6]], batch);
    assert!(text.contains("shape of mean is 5"), "{text}");
    assert_eq!(shapes(K::SoftMax, &[x], Attrs::new().with("axis", -2_i64), 2).unwrap(), [x, &[2, 1, 5]]);
    let text = message(K::SoftMax, &[x], Attrs::new().with("axis", 3_i64));
    assert!(text.contains("attribute axis is 3") && text.contains("3 dimensions"), "{text}");
}

#[rstest]
#[case(&[1], false, &[2, 4])]
#[case(&[-1, 0], false, &[3])]
#[case(&[-1, 0], true, &[1, 3, 1])]
#[case(&[0, 1, 2], false, &[])]
#[case(&[], false, &[2, 3, 4])]
fn reductions(#[case] axes: &[i64], #[case] keep: bool, #[case] out: &[usize]) {
    use OpKind as K;
    for kind in
        [K::ReduceL1, K::ReduceL2, K::ReduceMax, K::ReduceMean, K::ReduceMin, K::ReduceProd, K::ReduceSum]
    {
        let attrs = Attrs::new().with("axes", axes.to_vec()).with("keep_dims", keep);
        assert_eq!(shape(kind, &[&[2, 3, 4]], attrs), out, "{kind}");
    }
    assert!(message(K::ReduceSum, &[&[2, 3, 4]], Attrs::new().with("axes", [0, -3])).contains("[0, -3]"));
}

#[rstest]
#[case(&[2, 12], true, &[2, 12])]
#[case(&[0, -1], true, &[2, 12])]
#[case(&[4, -1, 2], false, &[4, 3, 2])]
#[case(&[0, 3, 2, 0], true, &[])]
fn reshapes(#[case] to: &[i64], #[case] zero: bool, #[case] out: &[usize]) {
    let attrs = Attrs::new().with("shape", to.to_vec()).with("special_zero", zero);
    if out.is_empty() {
        assert!(message(OpKind::StaticReshape, &[&[2, 3, 4]], attrs).contains("attribute shape"));
    } else {
        assert_eq!(shape(OpKind::StaticReshape, &[&[2, 3, 4]], attrs), out);
    }
}

#[test]
fn wrong_reshapes_are_told() {
    for (to, zero, expected) in [
        (vec![-1, -1], true, "at most one -1"),
        (vec![5, 5], false, "24 elements"),
        (vec![-2, 12], false, "below -1"),
        (vec![0, -1], false, "beside a dimension of 0"),
        (vec![7, -1], false, "24 elements"),
        (vec![i64::MAX, i64::MAX], false, "24 elements"),
    ] {
        let attrs = Attrs::new().with("shape", to.clone()).with("special_zero", zero);
        let text = message(OpKind::StaticReshape, &[&[2, 3, 4]], attrs);
        assert!(text.contains(expected) && text.contains(&format!("{to:?}")), "{text}");
    }
}

#[test]
fn movements() {
    use OpKind as K;
    assert_eq!(shape(K::StaticTranspose, &[&[2, 3, 4]], Attrs::new().with("order", [2, 0, 1])), [4, 2, 3]);
    assert_eq!(shape(K::StaticTranspose, &[&[2, 3, 4]], Attrs::new().with("order", [-1, 0, 1])), [4, 2, 3]);
    assert!(
        message(K::StaticTranspose, &[&[2, 3, 4]], Attrs::new().with("order", [0, 0, 1]))
            .contains("permutation")
    );
    let axis = |axis: i64| Attrs::new().with("axis", axis);
    assert_eq!(shape(K::Concat, &[&[2, 3], &[2, 4], &[2, 1]], axis(-1)), [2, 8]);
    assert!(message(K::Concat, &[&[2, 3], &[3, 4]], axis(1)).contains("shape of input 1 is 3x4"));
    let graph = graph(K::GenIndex, &[&[2, 3]], axis(1), 1).unwrap();
    assert_eq!(graph.tensor(graph.outputs()[0]).unwrap().to_string(), "it:s32:2x3");
    let sizes = Attrs::new().with("mode", "nearest").with("sizes", [7, 5]);
    assert_eq!(shape(K::Interpolate, &[&[1, 4, 6, 3]], sizes), [1, 7, 5, 3]);
    let scales =
        Attrs::new().with("mode", "linear").with("scales", vec![0.5, 2.0]).with("data_format", "NCX");
    assert_eq!(shape(K::Interpolate, &[&[1, 3, 5, 6]], scales), [1, 3, 2, 12]);
    assert_eq!(shapes(K::Dropout, &[&[2, 3], &[], &[], &[]], Attrs::new(), 2).unwrap(), [[2, 3], [2, 3]]);
}

#[test]
fn quantization() {
    use OpKind as K;
    let scales = |scales: Vec<f32>| Attrs::new().with("scales", scales);
    assert_eq!(shape(K::Dequantize, &[&[2, 3]], scales(vec![0.5])), [2, 3]);
    let channel = scales(vec![0.5; 3]).with("qtype", "per_channel");
    assert_eq!(shape(K::Dequantize, &[&[2, 3]], channel.clone()), [2, 3]);
    assert!(message(K::Dequantize, &[&[2, 4]], channel).contains("attribute scales is 3 values"));
    let grouped = Attrs::new().with("qtype", "per_group").with("group_shape", [4, 1]);
    assert_eq!(shape(K::DynamicDequantize, &[&[8, 3], &[2, 3]], grouped.clone()), [8, 3]);
    assert!(
        message(K::DynamicDequantize, &[&[8, 3], &[8, 3]], grouped.clone())
            .contains("shape of scales is 8x3")
    );
    assert!(message(K::DynamicDequantize, &[&[9, 3], &[2, 3]], grouped).contains("group_shape"));
    assert!(message(K::DynamicDequantize, &[&[8, 3], &[2]], Attrs::new()).contains("one element"));
    let graph = graph(K::Dequantize, &[&[2]], scales(vec![1.0]), 1).unwrap();
    assert_eq!(graph.tensor(graph.outputs()[0]).unwrap().data_type, Some(F32));
}

#[test]
fn a_given_shape_that_contradicts_is_told_with_both() {
    let op = Op {
        id: OpId(4),
        name: "relu".into(),
        kind: OpKind::ReLU,
        attrs: Attrs::new(),
        inputs: vec![TensorId(0)],
        outputs: vec![TensorId(1)],
    };
    let build = |out: LogicalTensor| {
        let mut g = GraphBuilder::new();
        g.add_op(op.clone(), &[LogicalTensor::new(TensorId(0), F32, [2, 3]), out]).unwrap();
        g.build()
    };
    let error = build(LogicalTensor::new(TensorId(1), F32, [3, 2])).unwrap_err();
    assert_eq!(error.status(), Status::InvalidShape);
    let text = error.to_string();
    assert!(text.contains("ReLU \"relu\" (op4)") && text.contains("3x2") && text.contains("2x3"), "{text}");
    let mut partly = LogicalTensor::unknown(TensorId(1));
    partly.dims = Some(vec![None, Some(3)]);
    partly.layout = TensorLayout::Strided(vec![None, Some(1)]);
    let graph = build(partly).unwrap();
    assert_eq!(graph.tensor(TensorId(1)).unwrap().memory_desc().unwrap().to_string(), "t1:f32:2x3");
}

#[test]
fn impossible_types_are_told() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", F32, [2]);
    g.op("pick", OpKind::Select, &[x, x, x], Attrs::new()).unwrap();
    let error = g.build().unwrap_err();
    assert_eq!(error.status(), Status::InvalidDataType);
    assert!(error.to_string().contains("data type of cond is f32, expected boolean"), "{error}");
}

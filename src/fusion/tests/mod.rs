//! Partitions and the reasons where chains end.

mod cases;
mod document;
mod formulas;
mod random;
mod text;
mod why;

use anydnn_backend::DataType::F32;

use super::{Partition, Policy, partition};
use crate::graph::{Attrs, Graph, GraphBuilder, OpKind, TensorId};

fn conv(g: &mut GraphBuilder, name: &str, src: TensorId) -> TensorId {
    let w = g.constant(&format!("{name}.w"), F32, [8, 8, 3, 3]);
    let attrs = Attrs::new()
        .with("strides", [1, 1])
        .with("pads_begin", [1, 1])
        .with("pads_end", [1, 1])
        .with("dilations", [1, 1]);
    g.op(name, OpKind::Convolution, &[src, w], attrs.with("data_format", "NCX").with("weights_format", "OIX"))
        .unwrap()
}

fn unary(g: &mut GraphBuilder, name: &str, kind: OpKind, src: TensorId) -> TensorId {
    g.op(name, kind, &[src], Attrs::new()).unwrap()
}

fn add(g: &mut GraphBuilder, name: &str, a: TensorId, b: TensorId) -> TensorId {
    g.op(name, OpKind::Add, &[a, b], Attrs::new()).unwrap()
}

fn describe(graph: &Graph) -> String {
    partition(graph, Policy::Fusion).describe(graph)
}

#[test]
fn a_residual_block_is_two_convolutions() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", F32, [1, 8, 6, 6]);
    let first = conv(&mut g, "conv1", x);
    let [gamma, beta, mean, variance] =
        ["gamma", "beta", "mean", "variance"].map(|name| g.constant(name, F32, [8]));
    let attrs = Attrs::new().with("epsilon", 1e-5_f32).with("data_format", "NCX");
    let bn = g.op("bn", OpKind::BatchNormInference, &[first, gamma, beta, mean, variance], attrs).unwrap();
    let relu = unary(&mut g, "relu1", OpKind::ReLU, bn);
    let second = conv(&mut g, "conv2", relu);
    let sum = add(&mut g, "sum", second, x);
    unary(&mut g, "relu2", OpKind::ReLU, sum);
    insta::assert_snapshot!(describe(&g.build().unwrap()), @r#"
      0  conv/post_ops          Convolution conv1 + BatchNormInference bn + ReLU relu1
                                ends here: Convolution "conv2" (op3) cannot ride on another operation
      1  conv/post_ops          Convolution conv2 + Add sum + ReLU relu2
    "#);
}

#[test]
fn every_end_says_why() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", F32, [4, 8]);
    let w = g.constant("w", F32, [8, 8]);
    let big = g.input("big", F32, [2, 4, 8]);
    let dense = g.op("dense", OpKind::MatMul, &[x, w], Attrs::new()).unwrap();
    let relu = unary(&mut g, "relu", OpKind::ReLU, dense);
    let tanh = unary(&mut g, "tanh", OpKind::Tanh, relu);
    let both = add(&mut g, "both", relu, tanh);
    let wide = add(&mut g, "wide", both, big);
    let last = unary(&mut g, "last", OpKind::Exp, wide);
    g.output(wide);
    g.output(last);
    insta::assert_snapshot!(describe(&g.build().unwrap()), @r#"
      0  matmul/post_ops        MatMul dense + ReLU relu + Tanh tanh + Add both
                                ends here: Add "wide" (op4) stretches 4x8 to 2x4x8
      1  single_op              Add wide
                                ends here: wide is also an output of the graph
      2  single_op              Exp last
    "#);
}

#[test]
fn a_value_gated_by_itself_is_one_link() {
    let linear = Attrs::new().with("alpha", 0.25_f32).with("beta", 0.5_f32);
    for (kind, attrs) in [(OpKind::Sigmoid, Attrs::new()), (OpKind::HardSigmoid, linear)] {
        let mut g = GraphBuilder::new();
        let x = g.input("x", F32, [4, 8]);
        let w = g.constant("w", F32, [8, 8]);
        let dense = g.op("dense", OpKind::MatMul, &[x, w], Attrs::new()).unwrap();
        let gate = g.op("gate", kind, &[dense], attrs).unwrap();
        g.op("swish", OpKind::Multiply, &[gate, dense], Attrs::new()).unwrap();
        let graph = g.build().unwrap();
        let parts = partition(&graph, Policy::Fusion);
        assert_eq!(parts.partitions.len(), 1, "{}", parts.describe(&graph));
        assert_eq!(parts.partitions[0].ops, [0, 1, 2]);
    }
}

#[test]
fn debug_policy_leaves_every_operation_alone() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", F32, [4]);
    let a = unary(&mut g, "a", OpKind::Abs, x);
    unary(&mut g, "b", OpKind::Exp, a);
    let graph = g.build().unwrap();
    assert_eq!(partition(&graph, Policy::Fusion).partitions.len(), 1);
    let parts = partition(&graph, Policy::Debug);
    assert_eq!(parts.partitions.len(), 2);
    assert!(parts.why_not_fused(&graph, &[0, 1]).unwrap().contains("policy is debug"));
}

#[test]
fn why_not_fused_answers_for_any_operations() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", F32, [4, 8]);
    let w = g.constant("w", F32, [8, 8]);
    let dense = g.op("dense", OpKind::MatMul, &[x, w], Attrs::new()).unwrap();
    let relu = unary(&mut g, "relu", OpKind::ReLU, dense);
    g.op("second", OpKind::MatMul, &[relu, w], Attrs::new()).unwrap();
    let graph = g.build().unwrap();
    let parts = partition(&graph, Policy::Fusion);
    assert_eq!(parts.why_not_fused(&graph, &[0, 1]), None);
    let why = parts.why_not_fused(&graph, &[1, 2]).unwrap();
    assert!(why.contains("dense + relu") && why.contains("cannot ride"), "{why}");
}

#[test]
fn a_second_result_in_use_ends_the_chain() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", F32, [4, 8]);
    let attrs = Attrs::new().with("use_affine", false).with("keep_stats", true);
    let outs = g.op_multi("norm", OpKind::LayerNorm, &[x], attrs, 3).unwrap();
    let relu = unary(&mut g, "relu", OpKind::ReLU, outs[0]);
    g.output(relu);
    g.output(outs[1]);
    let graph = g.build().unwrap();
    let text = describe(&graph);
    assert!(text.contains("second result in use, norm.1"), "{text}");
}

#[test]
fn pointwise_chains_begin_at_their_first_operation() {
    let mut g = GraphBuilder::new();
    let (x, y) = (g.input("x", F32, [4]), g.input("y", F32, [4]));
    let a = unary(&mut g, "a", OpKind::Exp, x);
    let b = add(&mut g, "b", a, y);
    let c = unary(&mut g, "c", OpKind::Sqrt, b);
    add(&mut g, "d", c, y);
    let parts = partition(&g.build().unwrap(), Policy::Fusion);
    assert_eq!(parts.partitions.len(), 1);
}

#[test]
fn any_operations_make_a_partition() {
    let mut g = GraphBuilder::new();
    let (x, y) = (g.input("x", F32, [4]), g.input("y", F32, [4]));
    let a = unary(&mut g, "a", OpKind::Exp, x);
    let b = add(&mut g, "b", a, y);
    let c = unary(&mut g, "c", OpKind::Sqrt, a);
    let d = add(&mut g, "d", c, b);
    let graph = g.build().unwrap();
    let part = Partition::of_ops(&graph, "mine", [2, 0, 2]);
    assert_eq!((part.ops, part.inputs, part.outputs), (vec![0, 2], vec![x], vec![a, c]));
    assert!(part.supported);
    let part = Partition::of_ops(&graph, "mine", 0..4);
    assert_eq!((part.inputs, part.outputs), (vec![x, y], vec![d]));
}

#[test]
fn unknown_operations_are_unsupported_and_marked_tensors_leave() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", F32, [4]);
    let a = unary(&mut g, "a", OpKind::Exp, x);
    g.op_multi("mark", OpKind::End, &[a], Attrs::new(), 0).unwrap();
    g.op_multi("what", OpKind::Wildcard, &[a], Attrs::new(), 0).unwrap();
    let graph = g.build().unwrap();
    let supported: Vec<bool> =
        partition(&graph, Policy::Fusion).partitions.iter().map(|part| part.supported).collect();
    assert_eq!(supported, [true, false, false]);
    let part = Partition::of_ops(&graph, "mine", [0, 1]);
    assert_eq!((part.outputs, part.supported), (vec![a], true));
    let part = Partition::of_ops(&graph, "mine", [0, 2]);
    assert_eq!((part.outputs, part.supported), (vec![a], false));
}

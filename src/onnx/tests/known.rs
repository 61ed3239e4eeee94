//! What is known while importing, and what a session leaves to the host.

use super::*;
use crate::onnx::Session;

/// The number of operations of the graph, and its first output.
fn made(draft: &Draft) -> (usize, HostTensor) {
    let model = draft.load().unwrap().graph(&[]).unwrap();
    let ops = model.graph.ops().iter().filter(|op| op.kind != crate::graph::OpKind::Reorder).count();
    (ops, run(&model, &[]).unwrap().remove(0))
}

/// The first output of a session on the host for one input.
fn in_session(draft: &Draft, x: HostTensor) -> HostTensor {
    let engine = anydnn_host::HostEngine::new();
    let session: Session<anydnn_host::Host> = draft.load().unwrap().compile(&engine, &[]).unwrap();
    session.run(&[("x", x)]).unwrap().remove(0).1
}

#[test]
fn known_floats_are_computed_with_the_graph_of_their_operator() {
    let draft = Draft::new(13).floats("a", &[2, 2], &[-3.0, 4.0, 0.0, 9.0]).ints("axes", &[1], &[1]);
    let draft = draft.node("b = Abs(a)", vec![]).node("c = Sqrt(b)", vec![]).node("d = Neg(c)", vec![]);
    let sum = draft.clone().node("y = ReduceSum(b, axes)", vec![int("keepdims", 0)]).output("y");
    assert_eq!((made(&sum).0, made(&sum).1.to_f32s()), (0, vec![7.0, 9.0]));
    let less = draft.clone().node("y = Less(d, a)", vec![]).output("y");
    assert_eq!(made(&less).1.data_type(), DataType::Boolean);
    assert_eq!((made(&less).0, made(&less).1.to_f32s()), (0, vec![0.0, 1.0, 0.0, 1.0]));
    let clipped = draft.floats("low", &[], &[-2.5]).node("y = Clip(d, low)", vec![]).output("y");
    let (ops, y) = made(&clipped);
    assert_eq!((ops, y.to_f32s()[1..].to_vec()), (0, vec![-2.0, 0.0, -2.5]));
}

#[test]
fn known_integers_have_all_their_digits() {
    let large = (1 << 53) + 1;
    let draft = Draft::new(18).ints("a", &[2], &[large, -7]).ints("b", &[2], &[2, 2]);
    let all = |draft: &Draft| made(draft).1.bytes().to_vec();
    let bytes = |values: [i64; 2]| values.map(i64::to_ne_bytes).concat();
    let sum = draft.clone().node("y = Add(a, b)", vec![]).output("y");
    assert_eq!(all(&sum), bytes([large + 2, -5]));
    let quotient = draft.clone().node("y = Div(a, b)", vec![]).output("y");
    assert_eq!(all(&quotient), bytes([large / 2, -3]));
    let axes = draft.ints("axes", &[1], &[0]).node("m = ReduceMean(a, axes)", vec![]);
    let mean = axes.node("y = Concat(m, m)", vec![int("axis", 0)]).output("y");
    assert_eq!(all(&mean), bytes([(large - 7) / 2; 2]));
}

#[test]
fn large_results_are_left_to_the_device() {
    let draft = Draft::new(18).ints("shape", &[2], &[1 << 12, (1 << 10) + 1]);
    let draft = draft.floats("one", &[1], &[-1.0]).node("wide = Expand(one, shape)", vec![]);
    let large = draft.clone().node("y = Abs(wide)", vec![]).output("y").load().unwrap().graph(&[]).unwrap();
    assert_eq!(large.graph.ops().iter().map(|op| op.kind).collect::<Vec<_>>(), [crate::graph::OpKind::Abs]);
    // What is read may be large.
    let few = draft.ints("axes", &[2], &[0, 1]).node("y = ReduceMin(wide, axes)", vec![]).output("y");
    assert_eq!((made(&few).0, made(&few).1.to_f32s()), (0, vec![-1.0]));
}

#[test]
fn statistics_of_a_batch_are_one_graph() {
    let draft = Draft::new(15).input("x", &["2", "1", "2"]).floats("one", &[1], &[1.0]);
    let draft = draft.floats("zero", &[1], &[0.0]);
    let text = "y, mean, variance = BatchNormalization(x, one, zero, zero, one)";
    let attributes = vec![int("training_mode", 1), float("momentum", 0.75), float("epsilon", 0.0)];
    let draft = draft.node(text, attributes).output("y").output("mean").output("variance");
    let outputs = draft.run(&[], &[tensor([2, 1, 2], &[1.0, 3.0, 1.0, 3.0])]).unwrap();
    let values: Vec<_> = outputs.iter().map(HostTensor::to_f32s).collect();
    assert_eq!(values, [vec![-1.0, 1.0, -1.0, 1.0], vec![0.5], vec![1.0]]);
}

#[test]
fn means_and_deviations_of_layers_are_one_graph() {
    let draft = Draft::new(17).input("x", &["2", "2"]).floats("one", &[2], &[1.0, 1.0]);
    let text = "y, mean, inverse = LayerNormalization(x, one)";
    let draft = draft.node(text, vec![float("epsilon", 0.0)]).output("mean").output("inverse");
    let outputs = draft.run(&[], &[tensor([2, 2], &[1.0, 3.0, 2.0, 10.0])]).unwrap();
    let values: Vec<_> = outputs.iter().map(HostTensor::to_f32s).collect();
    assert_eq!((outputs[0].dims().to_vec(), values[0].clone()), (vec![2, 1], vec![2.0, 6.0]));
    assert!((values[1][0] - 1.0).abs() < 1e-5 && (values[1][1] - 0.25).abs() < 1e-5, "{values:?}");
}

/// Types that no device computes with, and integers where the graph has floats.
#[test]
fn other_types_are_computed_as_wider_ones() {
    let pow = Draft::new(15).typed("x", 12, &["2"]).floats("base", &[2], &[3.0, 2.0]);
    let pow = pow.node("y = Pow(base, x)", vec![]).output("y");
    let exponents = HostTensor::from_f64([2], DataType::U32, &[2.0, 10.0]).unwrap();
    assert_eq!(in_session(&pow, exponents).to_f32s(), [9.0, 1024.0]);
    let gemm = Draft::new(13).typed("x", INT64, &["1", "2"]).ints("w", &[2, 2], &[1, 2, 3, 4]);
    let gemm = gemm.ints("b", &[2], &[10, -50]).node("y = Gemm(x, w, b)", vec![]).output("y");
    let y = in_session(&gemm, HostTensor::from_f64([1, 2], DataType::S64, &[5.0, 6.0]).unwrap());
    assert_eq!((y.data_type(), y.to_f64s()), (DataType::S64, vec![33.0, -16.0]));
}

/// An operator that neither the device nor the host has is told when the model is compiled.
#[test]
fn what_nothing_computes_is_refused_early() {
    let draft = Draft::new(13).input("x", &["2"]).node("y = Nothing(x)", vec![]).output("y");
    let engine = anydnn_host::HostEngine::new();
    let refused = draft.load().unwrap().compile(&engine, &[]).unwrap_err().to_string();
    assert!(refused.contains("Nothing"), "{refused}");
}

//! Building graphs: order, ports, contradictions, other input shapes.

#![allow(clippy::unwrap_used, reason = "test helpers fail the test")]

use anydnn::backend::{DataType, Dims, FpMath, Status};
use anydnn::graph::{
    Attrs, Changes, Graph, GraphBuilder, LogicalTensor, Op, OpId, OpKind, Property, TensorId, TensorLayout,
};

const F32: DataType = DataType::F32;

fn op(id: u64, name: &str, kind: OpKind, inputs: &[u64], outputs: &[u64]) -> Op {
    let ids = |ids: &[u64]| ids.iter().copied().map(TensorId).collect();
    Op {
        id: OpId(id),
        name: name.into(),
        kind,
        attrs: Attrs::new(),
        inputs: ids(inputs),
        outputs: ids(outputs),
    }
}

fn tensor(id: u64) -> LogicalTensor {
    LogicalTensor::new(TensorId(id), F32, [2, 3])
}

fn build(ops: &[Op]) -> anydnn::backend::Result<Graph> {
    let mut g = GraphBuilder::new();
    for op in ops {
        let tensors: Vec<_> = op.inputs.iter().chain(&op.outputs).map(|id| tensor(id.0)).collect();
        g.add_op(op.clone(), &tensors)?;
    }
    g.build()
}

fn names(graph: &Graph) -> Vec<&str> {
    graph.ops().iter().map(|op| op.name.as_str()).collect()
}

#[test]
fn operations_are_sorted_and_otherwise_stay_in_order() {
    let graph = build(&[
        op(0, "last", OpKind::Add, &[1, 2], &[3]),
        op(1, "b", OpKind::ReLU, &[0], &[2]),
        op(2, "a", OpKind::Abs, &[0], &[1]),
        op(3, "aside", OpKind::Exp, &[0], &[4]),
    ])
    .unwrap();
    assert_eq!(names(&graph), ["b", "a", "last", "aside"]);
    assert_eq!(graph.inputs(), [TensorId(0)]);
    assert_eq!(graph.outputs(), [TensorId(3), TensorId(4)]);
    assert_eq!(graph.producer(TensorId(1)), Some(1));
    assert_eq!(graph.consumers(TensorId(0)), [0, 1, 3]);
}

#[test]
fn a_cycle_names_its_operations_alone() {
    let error = build(&[
        op(0, "start", OpKind::ReLU, &[0], &[1]),
        op(1, "mix", OpKind::Add, &[1, 4], &[2]),
        op(2, "loop", OpKind::Abs, &[2], &[3]),
        op(3, "back", OpKind::Exp, &[3], &[4]),
        op(4, "after", OpKind::Exp, &[3], &[5]),
    ])
    .unwrap_err();
    assert_eq!(error.status(), Status::InvalidGraph);
    let text = error.to_string();
    for name in ["mix", "loop", "back"] {
        assert!(text.contains(&format!("{name:?}")), "{text}");
    }
    assert!(!text.contains("start") && !text.contains("after"), "{text}");
    assert!(text.contains("\"mix\" -> \"loop\"") && text.contains("acyclic"), "{text}");
    let error = build(&[op(0, "self", OpKind::ReLU, &[1], &[1])]).unwrap_err();
    assert!(error.to_string().contains("\"self\" -> \"self\""), "{error}");
}

#[test]
fn a_tensor_made_twice_names_both_makers() {
    let error =
        build(&[op(0, "one", OpKind::ReLU, &[0], &[1]), op(1, "two", OpKind::Abs, &[0], &[1])]).unwrap_err();
    assert_eq!(error.status(), Status::InvalidGraph);
    let text = error.to_string();
    assert!(text.contains("tensor t1") && text.contains("\"one\"") && text.contains("\"two\""), "{text}");
}

#[test]
fn an_operation_that_is_already_there_is_ignored() {
    let graph =
        build(&[op(0, "one", OpKind::ReLU, &[0], &[1]), op(0, "two", OpKind::Abs, &[0], &[2])]).unwrap();
    assert_eq!(names(&graph), ["one"]);
}

#[test]
fn a_tensor_said_twice_must_be_the_same() {
    let mut wrong = [tensor(1), tensor(1), tensor(1), tensor(1)];
    wrong[0].data_type = Some(DataType::F16);
    wrong[1].dims = Some(vec![Some(3), Some(2)]);
    wrong[2].layout = TensorLayout::Strided(vec![Some(1), Some(2)]);
    wrong[3].property = Property::Constant;
    for (wrong, what) in wrong.into_iter().zip(["data type", "shape", "layout", "property"]) {
        let mut g = GraphBuilder::new();
        let mut first = tensor(1).with_property(Property::Variable);
        first.layout = TensorLayout::Strided(vec![Some(3), Some(1)]);
        g.add_op(op(0, "one", OpKind::ReLU, &[0], &[1]), &[tensor(0), first]).unwrap();
        let error = g.add_op(op(1, "two", OpKind::Abs, &[1], &[2]), &[wrong, tensor(2)]).unwrap_err();
        assert_eq!(error.status(), Status::InvalidGraph);
        let text = error.to_string();
        assert!(text.contains("Abs \"two\"") && text.contains("tensor t1") && text.contains(what), "{text}");
    }
}

#[test]
fn what_is_known_in_one_place_holds_in_all() {
    let mut g = GraphBuilder::new();
    let mut half = LogicalTensor::unknown(TensorId(1));
    half.dims = Some(vec![None, Some(3)]);
    g.add_op(op(0, "any", OpKind::Wildcard, &[0], &[1]), &[tensor(0), half]).unwrap();
    let mut other = LogicalTensor::unknown(TensorId(1));
    other.dims = Some(vec![Some(2), None]);
    other.data_type = Some(F32);
    g.add_op(op(1, "relu", OpKind::ReLU, &[1], &[2]), &[other, LogicalTensor::unknown(TensorId(2))]).unwrap();
    assert_eq!(g.build().unwrap().tensor(TensorId(2)).unwrap().to_string(), "t2:f32:2x3");
}

#[test]
fn ports_are_checked() {
    let start = || {
        let mut g = GraphBuilder::new();
        let x = g.input("x", F32, [2]);
        let y = g.op("y", OpKind::ReLU, &[x], Attrs::new()).unwrap();
        (g, x, y)
    };
    let (mut g, _, y) = start();
    g.output(y);
    g.output(y);
    assert!(g.build().unwrap_err().to_string().contains("output port is y, twice"));
    let (mut g, x, _) = start();
    g.output(x);
    assert!(g.build().unwrap_err().to_string().contains("output port is x, which none"));
    let (mut g, ..) = start();
    g.output(TensorId(99));
    assert!(g.build().unwrap_err().to_string().contains("t99, which is no tensor"));
    let (mut g, _, y) = start();
    g.input_port(y);
    assert!(g.build().unwrap_err().to_string().contains("input port is y, which ReLU \"y\""));
    let (mut g, ..) = start();
    g.input("forgotten", F32, [2]);
    let error = g.build().unwrap_err();
    assert_eq!(error.status(), Status::InvalidGraph);
    assert!(error.to_string().contains("tensor forgotten is dangling"), "{error}");
    let (mut g, ..) = start();
    let error = g.op("z", OpKind::ReLU, &[TensorId(77)], Attrs::new()).unwrap_err();
    assert!(error.to_string().contains("input is t77"), "{error}");
}

#[test]
fn an_end_makes_its_tensor_an_output() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", F32, [2]);
    let w = g.constant("w", F32, [2]);
    let y = g.op("y", OpKind::Add, &[x, w], Attrs::new()).unwrap();
    g.op_multi("end", OpKind::End, &[y], Attrs::new(), 0).unwrap();
    let graph = g.with_fpmath(FpMath::BF16).with_fpmath_apply_to_int(true).build().unwrap();
    assert_eq!((graph.outputs(), graph.inputs()), (&[y][..], &[x][..]));
    assert_eq!(graph.constants().map(|t| t.id).collect::<Vec<_>>(), [w]);
    assert_eq!((graph.fpmath(), graph.fpmath_apply_to_int()), (FpMath::BF16, true));
    assert_eq!(graph.tensor_named("w").unwrap().id, w);
}

#[test]
fn bad_tensors_are_told() {
    let with = |change: &dyn Fn(&mut LogicalTensor)| {
        let mut bad = tensor(0);
        change(&mut bad);
        let mut g = GraphBuilder::new();
        g.add_op(op(0, "relu", OpKind::ReLU, &[0], &[1]), &[bad, LogicalTensor::unknown(TensorId(1))])
            .unwrap();
        g.build().unwrap_err().to_string()
    };
    let text = with(&|t| t.dims = Some(vec![Some(usize::MAX), Some(2)]));
    assert!(text.contains("tensor t0: shape is") && text.contains("address space"), "{text}");
    let text = with(&|t| t.dims = Some(vec![Some(1); 13]));
    assert!(text.contains("number of dimensions is 13"), "{text}");
    let text = with(&|t| t.layout = TensorLayout::Strided(vec![Some(1)]));
    assert!(text.contains("number of strides is 1 for 2"), "{text}");
    let text = with(&|t| t.property = Property::HostScalar);
    assert!(text.contains("host scalar is 2x3"), "{text}");
    let text = with(&|t| t.layout = TensorLayout::Strided(vec![Some(usize::MAX), Some(1)]));
    assert!(text.contains("tensor t0: memory descriptor: size"), "{text}");
}

/// Convolution, pool, reshape that keeps the batch, dense layer, softmax.
fn network(shape: [i64; 2]) -> Graph {
    let mut g = GraphBuilder::new();
    let x = g.input("x", F32, [1, 3, 8, 8]);
    let factor = g.input("factor", F32, [1]);
    let seed = g.host_scalar("seed", DataType::S64);
    let w = g.constant("w", F32, [4, 3, 3, 3]);
    let dense = g.constant("dense", F32, [64, 10]);
    let conv = Attrs::new()
        .with("strides", [1, 1])
        .with("pads_begin", [1, 1])
        .with("pads_end", [1, 1])
        .with("dilations", [1, 1])
        .with("data_format", "NCX")
        .with("weights_format", "OIX");
    let pool = Attrs::new()
        .with("strides", [2, 2])
        .with("pads_begin", [0, 0])
        .with("pads_end", [0, 0])
        .with("kernel", [2, 2])
        .with("data_format", "NCX");
    let y = g.op("scale", OpKind::Multiply, &[x, factor], Attrs::new()).unwrap();
    let y = g.op("conv", OpKind::Convolution, &[y, w], conv).unwrap();
    let y = g.op("pool", OpKind::MaxPool, &[y], pool).unwrap();
    let flat = Attrs::new().with("shape", shape).with("special_zero", true);
    let y = g.op("flat", OpKind::StaticReshape, &[y], flat).unwrap();
    let y = g.op("dense", OpKind::MatMul, &[y, dense], Attrs::new()).unwrap();
    let y = g.op("probabilities", OpKind::SoftMax, &[y], Attrs::new()).unwrap();
    g.op_multi("draw", OpKind::Wildcard, &[seed], Attrs::new(), 0).unwrap();
    g.output(y);
    g.build().unwrap()
}

#[test]
fn another_batch_is_inferred_anew() {
    let one = network([0, 64]);
    for batch in [1, 5, 0] {
        let graph = one.with_batch(batch).unwrap();
        let dims = |name: &str| graph.tensor_named(name).unwrap().known_dims().unwrap().to_vec();
        assert_eq!(dims("x"), [batch, 3, 8, 8]);
        assert_eq!(dims("pool"), [batch, 4, 4, 4]);
        assert_eq!(dims("probabilities"), [batch, 10]);
        assert_eq!((dims("factor"), dims("w")), (vec![1], vec![4, 3, 3, 3]));
        assert_eq!(graph.outputs(), one.outputs());
    }
    assert_eq!(one.with_batch(7).unwrap().with_batch(1).unwrap(), one);
    assert_eq!(
        network([-1, 64]).with_batch(3).unwrap().tensor_named("flat").unwrap().known_dims().unwrap(),
        [3, 64].into()
    );
}

#[test]
fn a_fixed_batch_in_a_reshape_is_told() {
    let error = network([1, 64]).with_batch(2).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("StaticReshape \"flat\"") && text.contains("128 elements"), "{text}");
}

#[test]
fn other_input_dims_keep_the_order_of_strides() {
    let mut channels_last = LogicalTensor::new(TensorId(0), F32, [1, 3, 4, 5]);
    channels_last.layout = TensorLayout::Strided([60, 1, 15, 3].map(Some).to_vec());
    let mut out = LogicalTensor::new(TensorId(1), F32, [1, 3, 4, 5]);
    out.layout = channels_last.layout.clone();
    let mut g = GraphBuilder::new();
    g.add_op(op(0, "relu", OpKind::ReLU, &[0], &[1]), &[channels_last, out]).unwrap();
    let graph = g.build().unwrap();
    let resized = graph.with_input_dims(&[(TensorId(0), Dims::from([2, 3, 6, 5]))]).unwrap();
    let strides =
        |id: u64| resized.tensor(TensorId(id)).unwrap().memory_desc().unwrap().strides().unwrap().to_vec();
    assert_eq!(strides(0), [90, 1, 15, 3]);
    assert_eq!(strides(1), [90, 30, 5, 1]);
    assert_eq!(graph.with_input_dims(&[(TensorId(0), Dims::from([1, 3, 4, 5]))]).unwrap(), graph);
    let error = graph.with_input_dims(&[(TensorId(1), Dims::from([1]))]).unwrap_err();
    assert!(error.to_string().contains("t1") && error.to_string().contains("an input"), "{error}");
}

#[test]
fn unknown_dims_wait_for_the_input() {
    let mut x = LogicalTensor::new(TensorId(0), F32, [1, 3]);
    x.dims = Some(vec![None, Some(3)]);
    let mut g = GraphBuilder::new();
    g.add_op(op(0, "relu", OpKind::ReLU, &[0], &[1]), &[x, LogicalTensor::unknown(TensorId(1))]).unwrap();
    let graph = g.build().unwrap();
    let out = graph.tensor(TensorId(1)).unwrap();
    assert_eq!((out.data_type, out.known_dims()), (Some(F32), None));
    assert!(out.memory_desc().unwrap_err().to_string().contains("shape is unknown"));
    let graph = graph.with_batch(4).unwrap();
    assert_eq!(graph.tensor(TensorId(1)).unwrap().known_dims().unwrap(), Dims::from([4, 3]));
}

#[test]
fn types_change_where_operations_allow_it() {
    let graph = network([0, 64]);
    let changes = Changes { floats: Some(DataType::BF16), ..Changes::default() };
    let changed = graph.with_changes(&changes).unwrap();
    assert!(changed.tensors().all(|tensor| tensor.data_type != Some(F32)), "{changed:?}");
    let x = graph.tensor_named("x").unwrap().id;
    let changes = Changes { data_types: vec![(x, DataType::F16)], ..Changes::default() };
    let changed = graph.with_changes(&changes).unwrap();
    let types = |name: &str| changed.tensor_named(name).unwrap().data_type;
    assert_eq!((types("x"), types("scale"), types("w")), (Some(DataType::F16), Some(F32), Some(F32)));
    let changes = Changes { floats: Some(DataType::S8), ..Changes::default() };
    assert!(graph.with_changes(&changes).unwrap_err().to_string().contains("f32, f16 or bf16"));

    let mut g = GraphBuilder::new();
    let x = g.input("x", F32, [2, 8]);
    let gamma = g.constant("gamma", F32, [8]);
    let beta = g.constant("beta", F32, [8]);
    let made = g.op_multi("norm", OpKind::LayerNorm, &[x, gamma, beta], Attrs::new(), 3).unwrap();
    let changes =
        Changes { floats: Some(DataType::F16), dims: vec![(x, Dims::from([5, 8]))], ..Changes::default() };
    let changed = g.build().unwrap().with_changes(&changes).unwrap();
    let of = |id| changed.tensor(id).unwrap();
    assert_eq!((of(made[0]).data_type, of(made[1]).data_type), (Some(DataType::F16), Some(F32)));
    assert_eq!(of(made[0]).known_dims().unwrap(), Dims::from([5, 8]));
    let changes = Changes { dims: vec![(made[0], Dims::from([5, 8]))], ..Changes::default() };
    assert!(changed.with_changes(&changes).unwrap_err().to_string().contains("an input or a constant"));
}

#[test]
fn wildcards_and_ends_leave_ports_behind() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", F32, [2, 8]);
    let unused = g.input("unused", F32, [3]);
    let y = g.op("y", OpKind::ReLU, &[x], Attrs::new()).unwrap();
    let tensor = LogicalTensor::new(TensorId(70), F32, [2, 8]);
    g.add_op(op(50, "any", OpKind::Wildcard, &[y.0, unused.0], &[70]), &[tensor]).unwrap();
    let z = g.op("z", OpKind::Add, &[y, TensorId(70)], Attrs::new()).unwrap();
    let end = g.op("end", OpKind::Tanh, &[z], Attrs::new()).unwrap();
    g.op_multi("mark", OpKind::End, &[z], Attrs::new(), 0).unwrap();
    g.output(end);
    let (graph, cut) = g.build().unwrap().without_wildcards().unwrap();
    let kinds: Vec<_> = graph.ops().iter().map(|op| op.kind).collect();
    assert_eq!(kinds, [OpKind::ReLU, OpKind::Add, OpKind::Tanh]);
    assert_eq!((graph.inputs(), graph.outputs()), (&[x, TensorId(70)][..], &[end, y, z][..]));
    assert_eq!((cut.ops.len(), cut.inputs, cut.outputs), (2, vec![TensorId(70)], vec![y, z]));
    assert!(graph.tensor(unused).is_none());
    assert_eq!(graph.without_wildcards().unwrap().0, graph);
}

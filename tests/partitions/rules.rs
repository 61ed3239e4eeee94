//! What a graph takes, and the status of what it refuses.

use anydnn::backend::{DataType, DeviceKind, FpMath, Result, Status};
use anydnn::fusion::Policy;
use anydnn::graph::{LogicalTensor, Op, OpKind, TensorId, TensorLayout};
use anydnn::partition::{OpenGraph, Partition, PartitionOptions};

use crate::common::{graph, lt, op, single, t, unknown};

fn status<T: std::fmt::Debug>(result: Result<T>) -> Status {
    result.unwrap_err().status()
}

fn abs(id: u64, from: u64, to: u64) -> Op {
    op(id, OpKind::Abs, &[from], &[to])
}

#[test]
fn operations_are_checked_when_they_are_added() {
    let mut graph = OpenGraph::new();
    let tensors: Vec<_> = (0..4).map(|id| lt(id, [2])).collect();
    let mut add = |op| graph.add_op(op, &tensors);
    assert_eq!(status(add(op(0, OpKind::Abs, &[0, 1], &[2]))), Status::InvalidGraphOp);
    assert_eq!(status(add(op(0, OpKind::Abs, &[0], &[]))), Status::InvalidGraphOp);
    assert_eq!(status(add(op(0, OpKind::Elu, &[0], &[1]))), Status::InvalidGraphOp, "without alpha");
    let mut named = abs(0, 0, 1);
    named.attrs.set("colour", 1.0_f32);
    assert_eq!(status(add(named)), Status::InvalidGraphOp);
    assert_eq!(status(add(abs(0, 0, 9))), Status::InvalidGraphOp, "without a tensor");
    let refused = add(op(0, OpKind::Select, &[0, 1, 2], &[3]));
    assert_eq!(status(refused), Status::InvalidGraphOp, "conditions are boolean");
    // None of them took the identity.
    graph.add_op(abs(0, 0, 1), &tensors).unwrap();
    graph.add_op(op(0, OpKind::Exp, &[0], &[2]), &tensors).unwrap();
    graph.finalize().unwrap();
    assert_eq!(graph.graph().unwrap().ops().len(), 1, "the second one of an identity is ignored");
}

#[test]
fn a_finalised_graph_is_closed() {
    let mut graph = OpenGraph::new().with_engine_kind(DeviceKind::Gpu);
    graph.set_fpmath(FpMath::BF16, true).unwrap();
    graph.add_op(abs(0, 0, 1), &[lt(0, [2]), lt(1, [2])]).unwrap();
    assert_eq!(status(graph.partitions(Policy::Fusion)), Status::InvalidGraph);
    graph.finalize().unwrap();
    graph.finalize().unwrap();
    assert!(graph.is_finalized());
    assert_eq!(status(graph.add_op(abs(1, 1, 2), &[])), Status::InvalidGraph);
    assert_eq!(status(graph.set_fpmath(FpMath::Strict, false)), Status::InvalidGraph);
    assert_eq!(graph.fpmath(), (FpMath::BF16, true));
    let partition = &graph.partitions(Policy::Debug).unwrap()[0];
    assert_eq!(partition.engine_kind(), DeviceKind::Gpu);
    assert_eq!(partition.graph().fpmath(), FpMath::BF16);
    assert_ne!(partition.id(), graph.partitions(Policy::Debug).unwrap()[0].id());
}

#[test]
fn contradictions_and_cycles_are_found_when_a_graph_is_finalised() {
    let finalize = |ops: &[(Op, Vec<LogicalTensor>)]| {
        let mut graph = OpenGraph::new();
        for (op, tensors) in ops {
            graph.add_op(op.clone(), tensors).unwrap();
        }
        graph.finalize()
    };
    let chain = |middle: LogicalTensor| {
        finalize(&[(abs(0, 0, 1), vec![lt(0, [2]), lt(1, [2])]), (abs(1, 1, 2), vec![middle, lt(2, [2])])])
    };
    chain(unknown(1)).unwrap();
    assert_eq!(status(chain(lt(1, [3]))), Status::InvalidGraph);
    let half = LogicalTensor { data_type: Some(DataType::F16), ..lt(1, [2]) };
    let f16 = LogicalTensor { data_type: Some(DataType::F16), ..lt(2, [2]) };
    let conflict = finalize(&[(abs(0, 0, 1), vec![lt(0, [2]), lt(1, [2])]), (abs(1, 1, 2), vec![half, f16])]);
    assert_eq!(status(conflict), Status::InvalidGraph);
    let strided = |stride| lt(1, [2]).with_layout(TensorLayout::Strided(vec![Some(stride)]));
    let conflict = finalize(&[
        (abs(0, 0, 1), vec![lt(0, [2]), strided(1)]),
        (abs(1, 1, 2), vec![strided(2), lt(2, [2])]),
    ]);
    assert_eq!(status(conflict), Status::InvalidGraph);
    let all: Vec<_> = (0..3).map(|id| lt(id, [2])).collect();
    assert_eq!(
        status(finalize(&[(abs(0, 0, 1), all.clone()), (abs(1, 1, 0), all.clone())])),
        Status::InvalidGraph
    );
    assert_eq!(status(finalize(&[(abs(0, 0, 2), all.clone()), (abs(1, 1, 2), all)])), Status::InvalidGraph);
}

/// Channels lie where the convolution in front has them, unless the operation itself says where.
#[test]
fn formats_that_are_not_given_follow_the_operation_in_front() {
    let tensors =
        [lt(0, [1, 3, 4, 4]), lt(1, [2, 3, 1, 1]), lt(2, [1, 2, 4, 4]), lt(3, [1, 2, 4, 4]), lt(4, [2])];
    let behind = [lt(5, [1, 2, 4, 4]), lt(6, [1, 2, 4, 4])];
    let all: Vec<_> = tensors.into_iter().chain(behind).collect();
    let mut convolution = op(0, OpKind::Convolution, &[0, 1], &[2]);
    for name in ["strides", "dilations"] {
        convolution.attrs.set(name, [1, 1]);
    }
    for name in ["pads_begin", "pads_end"] {
        convolution.attrs.set(name, [0, 0]);
    }
    convolution.attrs.set("data_format", "NCX");
    convolution.attrs.set("weights_format", "OIX");
    let relu = op(1, OpKind::ReLU, &[2], &[3]);
    let bias = op(2, OpKind::BiasAdd, &[3, 4], &[5]);
    let mut normalization = op(3, OpKind::BatchNormInference, &[5, 4, 4, 4, 4], &[6]);
    normalization.attrs.set("epsilon", 0.1_f32);
    let formats = |ops: &[Op]| -> Result<Vec<String>> {
        let mut graph = OpenGraph::new();
        for op in ops {
            graph.add_op(op.clone(), &all)?;
        }
        graph.finalize()?;
        let graph = graph.graph().unwrap();
        Ok(graph
            .ops()
            .iter()
            .filter_map(|op| Some(op.attrs.string("data_format").ok()?.to_owned()))
            .collect())
    };
    let ops = [convolution, relu, bias, normalization];
    assert_eq!(formats(&ops).unwrap(), ["NCX"; 3]);
    // By itself the bias has its channels last, as the documentation says.
    assert_eq!(formats(&ops[2..3]).unwrap(), ["NXC"]);
    let mut told = ops.clone();
    told[2].attrs.set("data_format", "NXC");
    assert_eq!(formats(&told).unwrap(), ["NCX", "NXC", "NXC"]);
}

#[test]
fn partitions_come_in_order_and_know_their_ports() {
    let all: Vec<_> = (0..6).map(|id| lt(id, [4, 4])).collect();
    let ops = [abs(2, 3, 4), op(1, OpKind::MatMul, &[1, 2], &[3]), abs(0, 0, 1)];
    let graph = graph(&ops, &all);
    let ids = |tensors: Vec<LogicalTensor>| tensors.into_iter().map(|t| t.id).collect::<Vec<TensorId>>();
    let debug = graph.partitions(Policy::Debug).unwrap();
    let kinds: Vec<_> = debug.iter().map(|partition| partition.ops().next().unwrap().id.0).collect();
    assert_eq!(kinds, [0, 1, 2]);
    assert_eq!((ids(debug[1].inputs()), ids(debug[1].outputs())), (vec![t(1), t(2)], vec![t(3)]));
    let fused = graph.partitions(Policy::Fusion).unwrap();
    assert_eq!(fused.len(), 2);
    assert_eq!(ids(fused[1].outputs()), [t(4)]);
    assert_eq!(fused[1].ops().count(), 2);
}

#[test]
fn what_computes_nothing_is_not_supported() {
    let tensors = [lt(0, [2]), lt(1, [2])];
    let wildcard = Partition::of_op(op(0, OpKind::Wildcard, &[0], &[1]), &tensors, DeviceKind::Cpu).unwrap();
    assert!(!wildcard.is_supported());
    assert!(wildcard.why_unsupported().unwrap().contains("Wildcard"));
    let engine = anydnn_mock::MockDevice::new(1).engine();
    let refused = wildcard.compile(&engine, &tensors[..1], &tensors[1..], &PartitionOptions::default());
    assert_eq!(status(refused), Status::InvalidArguments);
    let alone = Partition::of_op(abs(0, 0, 1), &tensors, DeviceKind::Cpu).unwrap();
    assert!(alone.is_supported() && alone.why_unsupported().is_none());
    assert_eq!(alone.fused().ops, single(abs(0, 0, 1), &tensors).fused().ops);
}

//! Layouts and shapes that are settled when a partition is compiled.

use anydnn::backend::{DataType, Engine, MemoryDesc, Status};
use anydnn::fusion::Policy;
use anydnn::graph::{LogicalTensor, OpKind, TensorLayout};
use anydnn::partition::PartitionOptions;

use crate::common::{any, arg, compile, graph, lt, op, port, read, single, stream, t, unknown};

crate::everywhere!(
    tensors_between_partitions_take_any_layout,
    opaque_tensors_keep_their_values,
    shapes_are_inferred
);

/// `[5, 8] x [8, 20]`, then the positive part: two partitions with a tensor of any layout between them, and weights in the layout that the
/// product likes, which a third one makes.
fn tensors_between_partitions_take_any_layout<E: Engine>(engine: &E) {
    let said = [lt(0, [5, 8]), any(1, [8, 20]), any(2, [5, 20]), lt(3, [5, 20])];
    let ops = [op(0, OpKind::MatMul, &[0, 1], &[2]), op(1, OpKind::ReLU, &[2], &[3])];
    let partitions = graph(&ops, &said).partitions(Policy::Debug).unwrap();
    assert_eq!(partitions.len(), 2);
    let product = compile(engine, &partitions[0], &said[..2], &said[2..3]);
    let [weights, between] = [1, 2].map(|id| product.logical_tensor(t(id)).unwrap().clone());
    for tensor in [&weights, &between] {
        assert!(matches!(tensor.layout, TensorLayout::Strided(_) | TensorLayout::Opaque(_)), "{tensor:?}");
    }
    let positive = compile(engine, &partitions[1], &[between], &said[3..]);
    let plain = lt(9, [8, 20]);
    let reorder = single(op(7, OpKind::Reorder, &[9], &[1]), &[plain.clone(), weights.clone()]);
    let reorder = compile(engine, &reorder, &[plain], &[weights]);

    let (stream, w) = (stream(engine), |i: usize| (i % 7) as f32 - 3.0);
    let x = |i: usize| (i % 5) as f32 - 2.0;
    let (given, packed) = (port(engine, &reorder, 9, w), port(engine, &reorder, 1, |_| 0.0));
    let packed_now =
        reorder.execute(&stream, &[arg(9, &given)], &[(t(1), packed.clone())], None, &[]).unwrap();
    let (source, middle) = (port(engine, &product, 0, x), port(engine, &product, 2, |_| 0.0));
    let inputs = [arg(1, &packed), arg(0, &source)];
    let done = product.execute(&stream, &inputs, &[(t(2), middle.clone())], None, &[packed_now]).unwrap();
    let result = port(engine, &positive, 3, |_| 0.0);
    let done =
        positive.execute(&stream, &[arg(2, &middle)], &[(t(3), result.clone())], None, &[done]).unwrap();
    let expected: Vec<f32> = (0..100)
        .map(|i| (0..8).map(|k| x(i / 20 * 8 + k) * w(k * 20 + i % 20)).sum::<f32>().max(0.0))
        .collect();
    assert_eq!(read(engine, &result, &done), expected, "{}", engine.device().name);
}

/// Blocked tensors in and out, as the compiled partition of another library's might make them.
fn opaque_tensors_keep_their_values<E: Engine>(engine: &E) {
    let blocked = |id: u64, tag: &str| {
        LogicalTensor::of(t(id), &MemoryDesc::with_tag([3, 10], DataType::F32, tag).unwrap())
    };
    let (x, y) = (blocked(0, "aB4b"), blocked(1, "BA8b2a"));
    let partition = single(op(0, OpKind::Abs, &[0], &[1]), &[lt(0, [3, 10]), lt(1, [3, 10])]);
    let compiled = compile(engine, &partition, std::slice::from_ref(&x), std::slice::from_ref(&y));
    assert_eq!(compiled.inputs()[0].layout, x.layout);
    assert_eq!(compiled.outputs()[0].layout, y.layout);
    let value = |i: usize| i as f32 - 15.0;
    let (source, target) = (port(engine, &compiled, 0, value), port(engine, &compiled, 1, |_| 0.0));
    let done =
        compiled.execute(&stream(engine), &[arg(0, &source)], &[(t(1), target.clone())], None, &[]).unwrap();
    let expected: Vec<f32> = (0..30).map(|i| value(i).abs()).collect();
    assert_eq!(read(engine, &target, &done), expected);
    // A layout of something else, and one that nobody made.
    for (dims, layout) in [([3, 11], x.layout.clone()), ([3, 10], TensorLayout::Opaque(u64::MAX))] {
        let wrong = lt(0, dims).with_layout(layout);
        let error =
            partition.compile(engine, &[wrong], &[unknown(1)], &PartitionOptions::default()).unwrap_err();
        assert_eq!(error.status(), Status::InvalidArguments, "{error}");
    }
}

/// A graph whose shapes nobody knows, compiled for two batches; what is given later must fit.
fn shapes_are_inferred<E: Engine>(engine: &E) {
    let open = [unknown(0), unknown(1), unknown(2), unknown(3)];
    let ops = [op(0, OpKind::MatMul, &[0, 1], &[2]), op(1, OpKind::ReLU, &[2], &[3])];
    let partitions = graph(&ops, &open).partitions(Policy::Fusion).unwrap();
    assert_eq!(partitions.len(), 1, "the chain is one partition");
    let partition = &partitions[0];
    for batch in [2, 3] {
        let compiled = compile(engine, partition, &[lt(0, [batch, 4]), lt(1, [4, 6])], &[unknown(3)]);
        assert_eq!(compiled.logical_tensor(t(3)).unwrap().known_dims().unwrap(), [batch, 6].into());
        let (a, b) = (port(engine, &compiled, 0, |i| i as f32), port(engine, &compiled, 1, |_| 1.0));
        let y = port(engine, &compiled, 3, |_| 0.0);
        let done = compiled
            .execute(&stream(engine), &[arg(0, &a), arg(1, &b)], &[(t(3), y.clone())], None, &[])
            .unwrap();
        let expected: Vec<f32> =
            (0..batch * 6).map(|i| (0..4).map(|k| (i / 6 * 4 + k) as f32).sum()).collect();
        assert_eq!(read(engine, &y, &done), expected);
    }
    assert!(partition.inputs()[0].dims.is_none(), "the partition is as it was");
    let status = |inputs: &[LogicalTensor], output: LogicalTensor| {
        let options = PartitionOptions::default();
        partition.compile(engine, inputs, &[output], &options).unwrap_err().status()
    };
    assert_eq!(status(&[lt(0, [2, 4]), unknown(1)], unknown(3)), Status::InvalidShape);
    assert_eq!(status(&[lt(0, [2, 4]), lt(1, [4, 6])], lt(3, [2, 7])), Status::InvalidShape);
    assert_eq!(status(&[lt(0, [2, 4])], unknown(3)), Status::InvalidArguments);
    let integers = LogicalTensor { data_type: Some(DataType::S32), ..lt(0, [2, 4]) };
    assert_eq!(status(&[integers, lt(1, [4, 6])], unknown(3)), Status::InvalidArguments);
}

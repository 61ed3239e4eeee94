//! Expressions, choices and comparisons beside the reference.

use anydnn_backend::Dims;
use anydnn_backend::op::{Expression, Fold, Node, Select};

use super::*;

fn of(data_type: DataType, dims: &[usize]) -> MemoryDesc {
    MemoryDesc::new(dims, data_type)
}

fn expression(
    dims: &[usize],
    nodes: &[Node],
    results: &[usize],
    sources: &[MemoryDesc],
    stored: &[DataType],
) -> PrimitiveDesc {
    let op = Expression {
        dims: Dims::new(dims),
        folded: Dims::default(),
        nodes: nodes.to_vec(),
        results: results.to_vec(),
    };
    let mut builder = PrimitiveDesc::builder(Op::Expression(op));
    for (i, source) in sources.iter().enumerate() {
        builder = builder.arg(Arg::Src(i as u16), source.clone());
    }
    for (i, &data_type) in stored.iter().enumerate() {
        builder = builder.arg(Arg::Dst(i as u16), of(data_type, dims));
    }
    builder.build().unwrap()
}

fn form(desc: &PrimitiveDesc) -> &'static str {
    plan(&desc.clone().resolved_row_major()).map_or("none", |fast| fast.name())
}

/// What a cell does behind its products, in one row and in many, whose states repeat in each or lie apart.
#[test]
fn gates_are_computed_node_by_node() {
    use Node::{Binary as B, Constant, Eltwise as E, Operand};
    let nodes = [
        Operand(0),
        Operand(1),
        B(BinaryAlgorithm::Add, 0, 1),
        E(Eltwise::Sigmoid, 2),
        Operand(2),
        B(BinaryAlgorithm::Multiply, 3, 4),
        E(Eltwise::Tanh, 5),
        Constant(1.0),
        B(BinaryAlgorithm::Subtract, 7, 3),
        B(BinaryAlgorithm::Multiply, 8, 6),
        Node::Fold(Fold::Sum, 9),
        Node::Cast(DataType::BF16, 10),
    ];
    for dims in [vec![1, 300], vec![70, 33], vec![3, 5, 2, 400]] {
        let mut shared = dims.clone();
        shared[0] = 1;
        let mut one = vec![1; dims.len()];
        one[dims.len() - 1] = dims[dims.len() - 1];
        let sources = [f32(&dims), f32(&shared), f32(&one)];
        let desc = expression(&dims, &nodes, &[9, 11], &sources, &[DataType::F32, DataType::BF16]);
        assert_eq!(form(&desc), "host:expression");
        check(&desc);
    }
    let turned = MemoryDesc::with_tag([40, 30], DataType::F32, "ba").unwrap();
    let sources = [turned, of(DataType::F16, &[40, 1]), f32(&[30])];
    check(&expression(&[40, 30], &nodes, &[9], &sources, &[DataType::F32]));
}

#[test]
fn choices_and_truth_values_are_computed_piece_by_piece() {
    let select = |condition: MemoryDesc, a: MemoryDesc, b: MemoryDesc| {
        let builder = PrimitiveDesc::builder(Op::Select(Select));
        builder.arg(Arg::Src(0), condition).arg(Arg::Src(1), a).arg(Arg::Src(2), b).build().unwrap()
    };
    for (condition, a, b) in [
        (of(DataType::Boolean, &[501, 8]), f32(&[1, 8]), f32(&[501, 8])),
        (of(DataType::Boolean, &[501, 1]), f32(&[501, 50]), f32(&[1])),
        (f32(&[3, 1, 700]), of(DataType::S8, &[3, 2, 700]), of(DataType::S8, &[2, 1])),
    ] {
        let desc = select(condition, a, b);
        assert_eq!(form(&desc), "host:streaming");
        check(&desc);
    }
    for algorithm in BinaryAlgorithm::ALL.into_iter().filter(|algorithm| algorithm.is_comparison()) {
        for (a, b) in [
            (f32(&[1, 501, 1]), f32(&[1, 1, 50])),
            (of(DataType::Boolean, &[4, 300]), of(DataType::Boolean, &[4, 300])),
            (of(DataType::U8, &[7, 9]), of(DataType::BF16, &[9])),
        ] {
            let builder = PrimitiveDesc::builder(Op::Binary(Binary::new(algorithm)));
            let dims = a.dims().broadcast(b.dims()).unwrap();
            let desc = builder.src(a).arg(Arg::Src(1), b).dst(MemoryDesc::new(dims, DataType::Boolean));
            let desc = desc.build().unwrap();
            assert_eq!(form(&desc), "host:streaming");
            check(&desc);
        }
    }
}

/// A source that is not bound lies in the place of the result.
#[test]
fn sources_may_be_where_results_are_written() {
    let nodes = [Node::Operand(0), Node::Operand(1), Node::Binary(BinaryAlgorithm::Subtract, 1, 0)];
    let desc = expression(&[3, 700], &nodes, &[2], &[f32(&[3, 700]), f32(&[700])], &[DataType::F32]);
    let fast = plan(&desc).unwrap();
    assert!(fast.reads_in_place(Arg::Src(0)) && !fast.reads_in_place(Arg::Src(1)));
    let row: Vec<f32> = (0..700).map(|i| i as f32).collect();
    let inputs = [(Arg::Src(1), bytemuck::cast_slice(&row))];
    for &level in Level::available() {
        let mut values: Vec<f32> = (0..2100).map(|i| (i % 13) as f32).collect();
        let expected: Vec<f32> = values.iter().enumerate().map(|(i, x)| (i % 700) as f32 - x).collect();
        let mut outputs = [(Arg::DST, bytemuck::cast_slice_mut(&mut values))];
        let crew = Crew::new(2);
        let call = Call::new(level, &crew, &desc, &*fast, &inputs, &mut outputs);
        fast.run(&call.expect("the other source is there"));
        assert_eq!(values, expected);
    }
}

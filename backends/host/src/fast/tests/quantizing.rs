//! Quantisation by the range of the values.

use anydnn_backend::op::{BinaryAlgorithm as B, Expression, Fold, Node, Op};
use anydnn_backend::{Arg, DataType, Eltwise, MemoryDesc, PrimitiveDesc};

use super::{check, f32, plan};

/// What `DynamicQuantizeLinear` is made of, with a product of its scale.
fn expression(dims: &[usize]) -> Expression {
    let axes: Vec<usize> = (0..dims.len()).collect();
    let mut e = Expression::new(dims).with_folded(axes);
    let x = e.push(Node::Operand(0));
    let zero = e.push(Node::Constant(0.0));
    let [low, high] = [(Fold::Min, B::Minimum), (Fold::Max, B::Maximum)].map(|(fold, pair)| {
        let fold = e.push(Node::Fold(fold, x));
        e.push(Node::Binary(pair, fold, zero))
    });
    let range = e.push(Node::Binary(B::Subtract, high, low));
    let steps = e.push(Node::Constant(255.0));
    let scale = e.push(Node::Binary(B::Divide, range, steps));
    let below = e.push(Node::Binary(B::Subtract, zero, low));
    let point = e.push(Node::Binary(B::Divide, below, scale));
    let point = e.push(Node::Eltwise(Eltwise::Round, point));
    let quotient = e.push(Node::Binary(B::Divide, x, scale));
    let whole = e.push(Node::Eltwise(Eltwise::Round, quotient));
    let moved = e.push(Node::Binary(B::Add, whole, point));
    let stored = e.push(Node::Cast(DataType::U8, moved));
    let factor = e.push(Node::Operand(1));
    let product = e.push(Node::Binary(B::Multiply, scale, factor));
    e.results.extend([stored, scale, point, product]);
    e
}

fn desc(expression: Expression, src: MemoryDesc, dst: MemoryDesc) -> PrimitiveDesc {
    let one = vec![1; src.rank()];
    let number = |data_type| MemoryDesc::new(one.clone(), data_type);
    PrimitiveDesc::builder(Op::Expression(expression))
        .arg(Arg::Src(0), src)
        .arg(Arg::Src(1), f32(&[1]))
        .arg(Arg::Dst(0), dst)
        .arg(Arg::Dst(1), number(DataType::F32))
        .arg(Arg::Dst(2), number(DataType::U8))
        .arg(Arg::Dst(3), number(DataType::F32))
        .build()
        .unwrap()
}

#[test]
fn values_are_quantized_by_their_range() {
    for dims in [&[1, 2][..], &[3, 5, 7], &[1, 40_007], &[2, 9, 64, 65]] {
        check(&desc(expression(dims), f32(dims), MemoryDesc::new(dims, DataType::U8)));
    }
    let last = |data_type| MemoryDesc::with_tag([1, 5, 6, 7], data_type, "acdb").unwrap();
    check(&desc(expression(&[1, 5, 6, 7]), last(DataType::F32), last(DataType::U8)));
}

#[test]
fn other_layouts_and_functions_have_no_such_form() {
    let dims = [1, 5, 6, 7];
    let bytes = MemoryDesc::new(dims, DataType::U8);
    let last = MemoryDesc::with_tag(dims, DataType::F32, "acdb").unwrap();
    assert!(plan(&desc(expression(&dims), last, bytes.clone())).is_none());
    let mut sum = expression(&dims);
    sum.nodes[2] = Node::Fold(Fold::Sum, 0);
    assert!(plan(&desc(sum, f32(&dims), bytes.clone())).is_none());
    let mut product = expression(&dims);
    product.nodes[12] = Node::Binary(B::Multiply, 0, 6);
    assert!(plan(&desc(product, f32(&dims), bytes)).is_none());
}

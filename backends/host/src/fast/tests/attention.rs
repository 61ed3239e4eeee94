//! Attention beside the reference: what becomes of a product in registers, and what does not.

use anydnn_backend::op::{Attention, Expression, Node, Op};
use anydnn_backend::{Arg, BinaryAlgorithm, Eltwise, MemoryDesc, PrimitiveDesc};

use super::{check, f32};

/// What is made of products; operands beside them are the sources from `Src(3)` on.
type Scores = fn(&mut Expression, usize) -> usize;

fn desc(
    [heads, rows, length, depth, columns]: [usize; 5],
    scores: Scores,
    others: &[MemoryDesc],
    change: impl FnOnce(&mut Attention),
) -> anydnn_backend::PrimitiveDescBuilder {
    let mut expression = Expression::new([heads, rows, length]);
    let products = expression.push(Node::Operand(0));
    let result = scores(&mut expression, products);
    expression.results.push(result);
    let mut op = Attention::new(expression);
    change(&mut op);
    let builder = PrimitiveDesc::builder(Op::Attention(op))
        .src(f32(&[heads, rows, depth]))
        .src(f32(&[heads, length, depth]))
        .src(f32(&[heads, length, columns]))
        .dst(f32(&[heads, rows, columns]));
    others.iter().fold(builder, |builder, other| builder.src(other.clone()))
}

/// Heads, queries, keys, depth and columns of the values, with keys that are kept for all rows and with more than that.
const SIZES: [[usize; 5]; 6] = [
    [3, 1, 5, 8, 4],
    [2, 2, 33, 16, 33],
    [2, 70, 96, 32, 32],
    [1, 150, 128, 8, 40],
    [2, 31, 600, 64, 16],
    [1, 17, 1100, 3, 1],
];

#[test]
fn scores_are_made_in_registers_where_they_are_sums_and_products() {
    let divided: Scores = |e, x| {
        let by = e.push(Node::Constant(5.656_854));
        let x = e.push(Node::Binary(BinaryAlgorithm::Divide, x, by));
        let mask = e.push(Node::Operand(1));
        e.push(Node::Binary(BinaryAlgorithm::Add, mask, x))
    };
    let multiplied: Scores = |e, x| {
        let by = e.push(Node::Operand(1));
        let x = e.push(Node::Binary(BinaryAlgorithm::Multiply, x, by));
        let less = e.push(Node::Constant(0.25));
        e.push(Node::Binary(BinaryAlgorithm::Subtract, x, less))
    };
    for size in SIZES {
        let [heads, rows, length, ..] = size;
        check(&desc(size, |_, x| x, &[], |_| ()).build().unwrap());
        let shapes = [[1, 1, length], [heads, 1, length], [heads, rows, length], [1, rows, 1], [1, 1, 1]];
        for (scores, other) in [divided, multiplied].iter().flat_map(|s| shapes.iter().map(move |o| (s, o))) {
            check(&desc(size, *scores, &[f32(other)], |_| ()).build().unwrap());
        }
    }
}

#[test]
fn other_scores_and_weights_go_row_by_row() {
    let limited: Scores = |e, x| {
        let x = e.push(Node::Eltwise(Eltwise::Tanh, x));
        let from = e.push(Node::Operand(1));
        e.push(Node::Binary(BinaryAlgorithm::Subtract, from, x))
    };
    for size in SIZES {
        let [heads, rows, length, ..] = size;
        check(&desc(size, limited, &[f32(&[1, rows, length])], |_| ()).build().unwrap());
        let weighted = |op: &mut Attention| {
            let mut weights = Expression::new([heads, rows, length]);
            let weight = weights.push(Node::Operand(0));
            let keep = weights.push(Node::Operand(1));
            let kept = weights.push(Node::Binary(BinaryAlgorithm::Multiply, weight, keep));
            weights.results.push(kept);
            op.weights = Some(weights);
        };
        check(&desc(size, |_, x| x, &[f32(&[heads, 1, length])], weighted).build().unwrap());
    }
}

#[test]
fn rows_of_minus_infinity_and_the_logarithms_of_sums() {
    // A product without finite value where the mask is negative.
    let masked: Scores = |e, x| {
        let (mask, zero) = (e.push(Node::Operand(1)), e.push(Node::Constant(0.0)));
        let low = e.push(Node::Constant(f32::NEG_INFINITY));
        let is_kept = e.push(Node::Binary(BinaryAlgorithm::Greater, mask, zero));
        e.push(Node::Select(is_kept, x, low))
    };
    for (size, inf_as_zero) in SIZES.into_iter().flat_map(|size| [(size, true), (size, false)]) {
        let [heads, rows, ..] = size;
        let built = desc(size, masked, &[f32(&[1, rows, 1])], |op| op.inf_as_zero = inf_as_zero)
            .arg(Arg::Dst(1), f32(&[heads, rows, 1]));
        check(&built.build().unwrap());
    }
}

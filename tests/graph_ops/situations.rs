//! Shapes of graphs: views as outputs, tensors read several times, constants alone, branches.

use anydnn::backend::DataType::{self, F32};
use anydnn::compile::{CompileOptions, CompiledGraph};
use anydnn::graph::{Attrs, OpKind as K};
use anydnn_host::HostEngine;

use super::case::Case;

fn order(order: [i64; 2]) -> Attrs {
    Attrs::new().with("order", order)
}

#[test]
fn outputs_that_are_views_of_inputs_and_constants() {
    let mut case = Case::on_devices();
    let (x, c) = (case.input(&[3, 4]), case.constant(&[2, 6]));
    case.op(K::StaticTranspose, &[x], order([1, 0]));
    case.op(K::StaticReshape, &[c], Attrs::new().with("shape", [4, 3]).with("special_zero", false));
    case.op(K::StaticTranspose, &[c], order([1, 0]));
    case.op(K::Reorder, &[c], Attrs::new());
    case.check();
}

#[test]
fn an_output_read_again() {
    let mut case = Case::on_devices();
    let (x, w) = (case.input(&[3, 4]), case.constant(&[4, 4]));
    let first = case.op(K::MatMul, &[x, w], Attrs::new());
    let second = case.op(K::ReLU, &[first], Attrs::new());
    let view = case.op(K::StaticTranspose, &[second], order([1, 0]));
    let third = case.op(K::MatMul, &[view, first], Attrs::new());
    case.outputs(&[third, second, view, first]);
    case.check();
}

/// One value under several names is copied to each output.
#[test]
fn outputs_that_are_the_same_value() {
    let mut case = Case::on_devices();
    let x = case.input(&[3, 4]);
    let y = case.op(K::Tanh, &[x], Attrs::new());
    let twice = case.op(K::StaticTranspose, &[y], order([0, 1]));
    let thrice = case.op(K::Reorder, &[twice], Attrs::new());
    let turned = case.op(K::StaticTranspose, &[thrice], order([1, 0]));
    case.outputs(&[turned, twice, thrice, y]);
    case.check();
}

/// The same tensor cannot be bound to two ports, and the graph says so.
#[test]
fn an_output_named_twice_is_refused() {
    let mut case = Case::new();
    let x = case.input(&[3]);
    let y = case.op(K::Abs, &[x], Attrs::new());
    case.outputs(&[y, y]);
    let message = case.g.build().unwrap_err().to_string();
    assert!(message.contains("twice"), "{message}");
}

#[test]
fn a_tensor_twice_in_one_operation() {
    let mut case = Case::on_devices();
    let x = case.input(&[4, 5]);
    let y = case.op(K::Tanh, &[x], Attrs::new());
    let sum = case.op(K::Add, &[y, y], Attrs::new());
    let zero = case.op(K::Subtract, &[sum, sum], Attrs::new());
    let mask = case.op(K::GreaterEqual, &[sum, y], Attrs::new());
    let one = case.op(K::Select, &[mask, sum, sum], Attrs::new());
    case.op(K::MatMul, &[one, one], Attrs::new().with("transpose_a", true));
    case.op(K::Concat, &[y, y, zero], Attrs::new().with("axis", 0_i64));
    case.check();
}

/// A chain whose operand is its own source.
#[test]
fn a_chain_that_adds_its_source() {
    let mut case = Case::on_devices();
    let x = case.input(&[4, 4]);
    let y = case.op(K::Exp, &[x], Attrs::new());
    let z = case.op(K::MatMul, &[y, y], Attrs::new());
    let z = case.op(K::Subtract, &[y, z], Attrs::new());
    case.op(K::Multiply, &[z, x], Attrs::new());
    case.check();
}

/// What depends on constants alone is computed once, also where it is an output.
#[test]
fn constants_alone() {
    let mut case = Case::on_devices();
    let (x, a, b) = (case.input(&[2, 3]), case.constant(&[3, 4]), case.constant(&[4, 5]));
    let w = case.op(K::MatMul, &[a, b], Attrs::new());
    let w = case.op(K::Tanh, &[w], Attrs::new());
    let turned = case.op(K::StaticTranspose, &[w], order([1, 0]));
    let y = case.op(K::MatMul, &[x, turned], Attrs::new().with("transpose_b", true));
    let sums = case.op(K::ReduceSum, &[a], Attrs::new().with("axes", [1]));
    case.outputs(&[y, sums]);
    case.in_steps(2).check();
}

/// A graph of constants: everything is an output.
#[test]
fn no_inputs_at_all() {
    let mut case = Case::new();
    let a = case.constant(&[2, 3]);
    let y = case.op(K::Square, &[a], Attrs::new());
    case.op(K::ReduceSum, &[y], Attrs::new().with("axes", [0, 1]));
    case.check();
}

#[test]
fn scalars() {
    let mut case = Case::on_devices();
    let (x, y) = (case.input(&[]), case.input_of(F32, &[], |v| v + 3.0));
    let sum = case.op(K::Divide, &[x, y], Attrs::new());
    let sum = case.op(K::Exp, &[sum], Attrs::new());
    let mask = case.op(K::GreaterEqual, &[sum, y], Attrs::new());
    case.op(K::Select, &[mask, x, y], Attrs::new());
    case.check();
}

/// An operation that marks a tensor as an output computes nothing.
#[test]
fn end_marks_an_output() {
    let mut case = Case::new();
    let x = case.input(&[2, 3]);
    let y = case.op(K::Tanh, &[x], Attrs::new());
    case.ops(K::End, &[y], Attrs::new(), 0);
    case.op(K::Square, &[y], Attrs::new());
    case.check();
}

/// Attention with two heads, whose middle moves heads about with views.
#[test]
fn attention() {
    let mut case = Case::on_devices();
    let x = case.input(&[2, 5, 8]);
    let weights: Vec<_> = (0..4).map(|_| case.constant(&[8, 8])).collect();
    let heads = |case: &mut Case, i: usize, axes: [i64; 4]| {
        let y = case.op(K::MatMul, &[x, weights[i]], Attrs::new());
        let shape = Attrs::new().with("shape", [0, 0, 2, 4]).with("special_zero", true);
        let y = case.op(K::StaticReshape, &[y], shape);
        case.op(K::StaticTranspose, &[y], Attrs::new().with("order", axes))
    };
    let q = heads(&mut case, 0, [0, 2, 1, 3]);
    let k = heads(&mut case, 1, [0, 2, 3, 1]);
    let v = heads(&mut case, 2, [0, 2, 1, 3]);
    let scale = case.constant(&[1]);
    case.set(scale, &[2.0]);
    let scores = case.op(K::MatMul, &[q, k], Attrs::new());
    let scores = case.op(K::Divide, &[scores, scale], Attrs::new());
    let weighted = case.op(K::SoftMax, &[scores], Attrs::new().with("axis", -1_i64));
    let y = case.op(K::MatMul, &[weighted, v], Attrs::new());
    let y = case.op(K::StaticTranspose, &[y], Attrs::new().with("order", [0, 2, 1, 3]));
    let y =
        case.op(K::StaticReshape, &[y], Attrs::new().with("shape", [2, 5, 8]).with("special_zero", false));
    let y = case.op(K::MatMul, &[y, weights[3]], Attrs::new());
    case.op(K::Add, &[y, x], Attrs::new());
    case.check();
}

/// Where the axes of a reduction are a tensor, the shapes must say which they are.
#[test]
fn unclear_axes_are_refused() {
    let mut case = Case::new();
    let x = case.input(&[3, 3]);
    let axes = case.input_of(DataType::S64, &[1], |_| 0.0);
    let y = case.op(K::ReduceSum, &[x, axes], Attrs::new());
    case.dims_of(y, &[3]);
    let graph = case.g.build().unwrap();
    let error = CompiledGraph::new(&graph, &HostEngine::new(), &CompileOptions::default()).unwrap_err();
    assert!(matches!(error.root(), anydnn::backend::Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("axes"), "{error}");
}

//! Which operations share an expression, and that it changes nothing.

mod random;

use anydnn_backend::DataType::{self, F32};
use anydnn_backend::op::{Expression, Node};
use anydnn_backend::{Dims, Result};

use super::group::{Group, group};
use super::*;
use crate::graph::{Attrs, Graph, GraphBuilder, LogicalTensor};

/// The names of each group's operations.
fn groups(graph: &Graph) -> Vec<String> {
    grouped(graph).iter().map(|group| names(graph, group)).collect()
}

fn grouped(graph: &Graph) -> Vec<Group> {
    let ops: Vec<usize> = (0..graph.ops().len()).collect();
    group(graph, &ops, graph.outputs()).unwrap()
}

fn names(graph: &Graph, group: &Group) -> String {
    group.parts.iter().map(|part| graph.ops()[part.op].name.as_str()).collect::<Vec<_>>().join(" ")
}

fn axis(axis: i64) -> Attrs {
    Attrs::new().with("axis", axis)
}

fn axes(axes: &[i64], keep: bool) -> Attrs {
    Attrs::new().with("axes", axes.to_vec()).with("keep_dims", keep)
}

fn op(g: &mut GraphBuilder, name: &str, kind: K, inputs: &[TensorId], attrs: Attrs) -> TensorId {
    g.op(name, kind, inputs, attrs).unwrap()
}

#[test]
fn a_row_operation_takes_its_neighbours() {
    let mut g = GraphBuilder::new();
    let (x, bias) = (g.input("x", F32, [4, 6]), g.input("bias", F32, [6]));
    let y = op(&mut g, "add", K::Add, &[x, bias], Attrs::new());
    let y = op(&mut g, "softmax", K::SoftMax, &[y], axis(1));
    let y = op(&mut g, "square", K::Square, &[y], Attrs::new());
    // Along the same axis, then along the other.
    let y = op(&mut g, "log", K::LogSoftmax, &[y], axis(1));
    let y = op(&mut g, "turned", K::SoftMax, &[y], axis(0));
    op(&mut g, "tanh", K::Tanh, &[y], Attrs::new());
    assert_eq!(groups(&g.build().unwrap()), ["add softmax square log", "turned tanh"]);
}

/// The statistics of rows written out: every value lies where its dimensions were folded, whether they are kept or not.
#[test]
fn what_a_fold_makes_stays_in_the_expression() {
    for keep in [true, false] {
        let mut g = GraphBuilder::new();
        let x = g.input("x", F32, [4, 4]);
        let mean = op(&mut g, "mean", K::ReduceMean, &[x], axes(&[0], keep));
        let centred = op(&mut g, "centred", K::Subtract, &[x, mean], Attrs::new());
        let square = op(&mut g, "square", K::Square, &[centred], Attrs::new());
        let variance = op(&mut g, "variance", K::ReduceMean, &[square], axes(&[0], keep));
        let root = op(&mut g, "root", K::Sqrt, &[variance], Attrs::new());
        op(&mut g, "normal", K::Divide, &[centred, root], Attrs::new());
        let graph = g.build().unwrap();
        assert_eq!(groups(&graph), ["mean centred square variance root normal"], "{keep}");
    }
}

/// In a square matrix a row's mean without its axis broadcasts along the other axis: what was folded is not where it is read.
#[test]
fn a_dropped_axis_may_come_back_elsewhere() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", F32, [4, 4]);
    let mean = op(&mut g, "mean", K::ReduceMean, &[x], axes(&[1], false));
    op(&mut g, "add", K::Add, &[x, mean], Attrs::new());
    assert_eq!(groups(&g.build().unwrap()), ["mean", "add"]);
}

/// A fold of what was folded already would count it again.
#[test]
fn folding_a_folded_axis_again_stands_alone() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", F32, [4, 5]);
    let max = op(&mut g, "max", K::ReduceMax, &[x], axes(&[1], true));
    op(&mut g, "sum", K::ReduceSum, &[max], axes(&[1], true));
    assert_eq!(groups(&g.build().unwrap()), ["max", "sum"]);
}

/// A small tensor is computed where it is read, unless somebody else needs it too.
#[test]
fn small_tensors_are_repeated() {
    for shared in [false, true] {
        let mut g = GraphBuilder::new();
        let (x, scale) = (g.input("x", F32, [2, 3, 5]), g.input("scale", F32, [3, 1]));
        let root = op(&mut g, "root", K::Sqrt, &[scale], Attrs::new());
        let y = op(&mut g, "multiply", K::Multiply, &[x, root], Attrs::new());
        g.output(y);
        if shared {
            g.output(root);
        }
        let expected: &[&str] = if shared { &["root", "multiply"] } else { &["root multiply"] };
        assert_eq!(groups(&g.build().unwrap()), expected);
    }
}

#[test]
fn operations_on_both_sides_of_another_stay_apart() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", F32, [4, 4]);
    let a = op(&mut g, "a", K::SoftMax, &[x], axis(1));
    let b = op(&mut g, "b", K::SoftMax, &[a], axis(0));
    op(&mut g, "c", K::Add, &[a, b], Attrs::new());
    assert_eq!(groups(&g.build().unwrap()), ["a", "b c"]);
}

#[test]
fn readers_of_one_tensor_go_together() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", F32, [4, 4]);
    op(&mut g, "a", K::Tanh, &[x], Attrs::new());
    op(&mut g, "b", K::Exp, &[x], Attrs::new());
    let graph = g.build().unwrap();
    assert_eq!(groups(&graph), ["a b"]);
    assert_eq!(grouped(&graph)[0].plan.results.len(), 2);
}

/// The gradients of a normalisation's source and parameters fold different axes.
#[test]
fn gradients_of_parameters_fold_the_other_axes() {
    let mut g = GraphBuilder::new();
    let inputs = [[4, 6].as_slice(), &[4, 6], &[4], &[4], &[6], &[6]]
        .map(|dims| g.input(&format!("{dims:?}"), F32, dims.to_vec()));
    g.op_multi("backward", K::LayerNormBackward, &inputs, Attrs::new(), 3).unwrap();
    let graph = g.build().unwrap();
    let folded: Vec<Dims> =
        grouped(&graph).iter().map(|group| group.plan.expression.folded.clone()).collect();
    assert_eq!(folded, [Dims::from([1]), Dims::from([0])]);
}

/// Groups of channels are an axis of their own, for neighbours too.
#[test]
fn neighbours_of_a_group_normalisation_are_split_like_it() {
    let mut g = GraphBuilder::new();
    let (x, scale) = (g.input("x", F32, [2, 6, 5]), g.input("scale", F32, [6, 1]));
    let attrs = Attrs::new()
        .with("groups", 2_i64)
        .with("keep_stats", false)
        .with("use_affine", false)
        .with("data_format", "NCX");
    let y = op(&mut g, "norm", K::GroupNorm, &[x], attrs);
    op(&mut g, "scale", K::Multiply, &[y, scale], Attrs::new());
    let graph = g.build().unwrap();
    let made = grouped(&graph);
    assert_eq!(made.len(), 1);
    let plan = &made[0].plan;
    assert_eq!(
        (&plan.expression.dims, &plan.expression.folded),
        (&Dims::from([2, 2, 3, 5]), &Dims::from([2, 3]))
    );
    assert_eq!(plan.operands[1].view, Dims::from([1, 2, 3, 1]));
}

/// f32 has not all digits of wide integers: such operations keep their exact primitives, unless they count indices.
#[test]
fn wide_integers_stand_alone() {
    let mut g = GraphBuilder::new();
    let (a, b) = (g.input("a", DataType::S32, [4, 4]), g.input("b", DataType::S32, [4, 4]));
    let sum = op(&mut g, "sum", K::Add, &[a, b], Attrs::new());
    op(&mut g, "maximum", K::Maximum, &[sum, b], Attrs::new());
    assert_eq!(groups(&g.build().unwrap()), ["sum", "maximum"]);

    let mut g = GraphBuilder::new();
    let (x, shift) = (g.input("x", F32, [4, 4]), g.input("shift", DataType::S32, [1]));
    let row = op(&mut g, "row", K::GenIndex, &[x], axis(0));
    let row = op(&mut g, "shifted", K::Add, &[row, shift], Attrs::new());
    let column = op(&mut g, "column", K::GenIndex, &[x], axis(1));
    let keep = op(&mut g, "keep", K::GreaterEqual, &[row, column], Attrs::new());
    let low = g.input("low", F32, [1]);
    op(&mut g, "masked", K::Select, &[keep, x, low], Attrs::new());
    assert_eq!(groups(&g.build().unwrap()), ["row shifted column keep masked"]);
}

/// Roundings to 16-bit floats between operations are left out; those to integers stay.
#[test]
fn casts_between_operations() {
    for (to, stays) in [(DataType::BF16, false), (DataType::F16, false), (DataType::S8, true)] {
        let mut g = GraphBuilder::new();
        let x = g.input("x", F32, [4]);
        let y = op(&mut g, "there", K::TypeCast, &[x], Attrs::new());
        let mut tensor = LogicalTensor::unknown(y);
        tensor.data_type = Some(to);
        g.add_tensor(tensor).unwrap();
        let z = op(&mut g, "back", K::TypeCast, &[y], Attrs::new());
        let mut tensor = LogicalTensor::unknown(z);
        tensor.data_type = Some(F32);
        g.add_tensor(tensor).unwrap();
        let graph = g.build().unwrap();
        let made = grouped(&graph);
        assert_eq!(made.len(), 1);
        let cast = made[0].plan.expression.nodes.contains(&Node::Cast(to, 0));
        assert_eq!(cast, stays, "{to}");
    }
}

/// Long chains are cut before a launch has too many nodes or arguments.
#[test]
fn long_chains_are_cut() {
    let mut g = GraphBuilder::new();
    let mut x = g.input("x", F32, [4]);
    for i in 0..40 {
        let other = g.input(&format!("x{i}"), F32, [4]);
        x = op(&mut g, &format!("add{i}"), K::Add, &[x, other], Attrs::new());
    }
    let graph = g.build().unwrap();
    let made = grouped(&graph);
    assert!(made.len() > 1 && made.len() < 6, "{}", made.len());
    assert!(made.iter().all(|group| group.plan.operands.len() <= 20));
}

/// What nobody reads is not computed.
#[test]
fn results_that_nobody_reads_are_left_out() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", F32, [4, 6]);
    let made = g.op_multi("norm", K::RMSNorm, &[x], Attrs::new(), 2).unwrap();
    g.output(made[0]);
    let graph = g.build().unwrap();
    assert_eq!(grouped(&graph)[0].plan.results.len(), 1);
}

/// The nodes between scores and their softmax, behind nodes that are there already.
#[test]
fn scores_are_scaled_and_masked_by_nodes() -> Result<()> {
    let mut g = GraphBuilder::new();
    let scores = g.input("scores", F32, [2, 3, 4, 4]);
    let (scale, mask) = (g.input("scale", F32, [1]), g.input("mask", F32, [2, 1, 1, 4]));
    let scaled = op(&mut g, "scaled", K::Divide, &[scores, scale], Attrs::new());
    let row = op(&mut g, "row", K::GenIndex, &[scores], axis(-2));
    let column = op(&mut g, "column", K::GenIndex, &[scores], axis(-1));
    let keep = op(&mut g, "keep", K::GreaterEqual, &[row, column], Attrs::new());
    let low = g.input("low", F32, []);
    let masked = op(&mut g, "masked", K::Select, &[keep, scaled, low], Attrs::new());
    let output = op(&mut g, "added", K::Add, &[masked, mask], Attrs::new());
    let graph = g.build()?;
    let ops: Vec<usize> = (0..graph.ops().len()).collect();
    let mut program = Program::new(&graph)?;
    let mut expression = Expression::new([2, 3, 4, 4]);
    let mut operands = Vec::new();
    let node = score_nodes(&mut program, &mut expression, &ops, scores, output, &mut operands)?;
    assert_eq!(node, expression.nodes.len() - 1);
    let dims: Vec<Dims> = operands.iter().map(|value| value.desc.dims().clone()).collect();
    assert_eq!(dims, [[1, 1, 1, 1], [1, 1, 1, 1], [2, 1, 1, 4]].map(Dims::from));
    assert!(expression.nodes.contains(&Node::Index(2)) && expression.nodes.contains(&Node::Operand(3)));
    Ok(())
}

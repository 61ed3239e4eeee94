//! The obstacle is named.

use super::text;
use crate::fusion::{Policy, partition};
use crate::graph::Graph;

fn why(graph: &Graph, names: &[&str]) -> String {
    let ops: Vec<usize> =
        names.iter().map(|name| graph.ops().iter().position(|op| op.name == *name).unwrap()).collect();
    partition(graph, Policy::Fusion).why_not_fused(graph, &ops).unwrap_or_default()
}

#[test]
fn the_pattern_that_comes_closest_says_what_it_expected() {
    let graph = text::graph(
        "q f32 2x4x8; k f32 2x8x4; v f32 2x4x8; s MatMul q k; h Log s; p LogSoftmax h axis=-1; o MatMul p v",
    );
    insta::assert_snapshot!(why(&graph, &["s", "p", "o"]), @"");
    let graph = text::graph(
        "q f32 2x4x8; k f32 2x8x4; v f32 2x4x8; s MatMul q k; h Log s; p SoftMax h axis=-1; o MatMul p v",
    );
    insta::assert_snapshot!(why(&graph, &["s", "h", "p", "o"]), @"");
}

#[test]
fn tensors_that_are_wanted_outside_are_named() {
    let graph = text::graph(
        "x f32 4x8; u f32 8x6; g f32 8x6; d f32 6x8; a MatMul x u; b MatMul x g; s ReLU b; m Multiply a s; y MatMul m d; \
         z SoftMax s; out y; out z",
    );
    insta::assert_snapshot!(why(&graph, &["a", "b", "s", "m", "y"]), @"");
}

#[test]
fn types_and_shapes_that_do_not_fit_are_named() {
    let graph =
        text::graph("x s32 4x8; w s8 8x6; xf Dequantize x; wf Dequantize w; a MatMul xf wf; b:u8 Quantize a");
    insta::assert_snapshot!(why(&graph, &["xf", "a"]), @"");
    let graph = text::graph("x f32 4x8; w f32 8x6; r f32 2x4x6; a MatMul x w; b Add a r");
    insta::assert_snapshot!(why(&graph, &["a", "b"]), @"");
}

#[test]
fn ways_out_and_back_and_scattered_operations_are_named() {
    let graph = text::graph(
        "x f32 4x8; a Exp x; b SoftMax a; c StaticTranspose b order=[1,0]; d MatMul a c; y f32 4; z Abs y; out d; out z",
    );
    insta::assert_snapshot!(why(&graph, &["a", "d"]), @"");
    insta::assert_snapshot!(why(&graph, &["a", "z"]), @"");
}

#[test]
fn others_that_came_first_are_named() {
    let graph =
        text::graph("x f32 4x8; w f32 8x6; r f32 4x6; a MatMul x w; b Add a r; c SoftMax b; d Exp c; out d");
    insta::assert_snapshot!(why(&graph, &["b", "c"]), @"");
    assert_eq!(why(&graph, &["c", "d"]), "");
}

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
    insta::assert_snapshot!(why(&graph, &["s", "p", "o"]), @r#"s + h (matmul/post_ops): LogSoftmax "p" (op5) cannot ride on another operation; p (single_op): MatMul "o" (op6) cannot ride on another operation; matmul/post_ops comes closest: it takes s + h and has no place for LogSoftmax "p" (op5)"#);
    let graph = text::graph(
        "q f32 2x4x8; k f32 2x8x4; v f32 2x4x8; s MatMul q k; h Log s; p SoftMax h axis=-1; o MatMul p v",
    );
    insta::assert_snapshot!(why(&graph, &["s", "h", "p", "o"]), @r#"s + h (matmul/post_ops): SoftMax "p" (op5) cannot ride on another operation; p (single_op): MatMul "o" (op6) cannot ride on another operation; sdp/float comes closest: with p + o matched, there is Log "h" (op4) where it expects Select or Multiply|Divide or Add|Subtract|Maximum|Minimum or Tanh or TypeCast or MatMul"#);
}

#[test]
fn tensors_that_are_wanted_outside_are_named() {
    let graph = text::graph(
        "x f32 4x8; u f32 8x6; g f32 8x6; d f32 6x8; a MatMul x u; b MatMul x g; s ReLU b; m Multiply a s; y MatMul m d; \
         z SoftMax s; out y; out z",
    );
    insta::assert_snapshot!(why(&graph, &["a", "b", "s", "m", "y"]), @r#"b + s (matmul/post_ops): s is read 2 times (by m, z); a + m (matmul/post_ops): MatMul "y" (op8) cannot ride on another operation; mlp/gated comes closest: with a + b + s + m + y matched, s is also read by SoftMax "z" (op9)"#);
}

#[test]
fn types_and_shapes_that_do_not_fit_are_named() {
    let graph =
        text::graph("x s32 4x8; w s8 8x6; xf Dequantize x; wf Dequantize w; a MatMul xf wf; b:u8 Quantize a");
    insta::assert_snapshot!(why(&graph, &["xf", "a"]), @r#"xf (single_op): MatMul "a" (op4) cannot ride on another operation; matmul/int8 comes closest: with a + b matched, Dequantize "xf" (op2) reads s32, not s8 or u8 or s4 or u4 or f8_e5m2 or f8_e4m3"#);
    let graph = text::graph("x f32 4x8; w f32 8x6; r f32 2x4x6; a MatMul x w; b Add a r");
    insta::assert_snapshot!(why(&graph, &["a", "b"]), @r#"a (single_op): Add "b" (op4) stretches 4x6 to 2x4x6; matmul/post_ops comes closest: with b matched, Add "b" (op4) stretches 4x6 to 2x4x6"#);
}

#[test]
fn ways_out_and_back_and_scattered_operations_are_named() {
    let graph = text::graph(
        "x f32 4x8; a Exp x; b SoftMax a; c StaticTranspose b order=[1,0]; d MatMul a c; y f32 4; z Abs y; out d; out z",
    );
    insta::assert_snapshot!(why(&graph, &["a", "d"]), @r#"MatMul "d" (op4) needs c, which comes back to it through SoftMax "b" (op2), StaticTranspose "c" (op3), not one of these"#);
    insta::assert_snapshot!(why(&graph, &["a", "z"]), @r#"no tensor connects Abs "z" (op6) with a"#);
}

#[test]
fn others_that_came_first_are_named() {
    let graph =
        text::graph("x f32 4x8; w f32 8x6; r f32 4x6; a MatMul x w; b Add a r; c SoftMax b; d Exp c; out d");
    insta::assert_snapshot!(why(&graph, &["b", "c"]), @r#"a + b (matmul/post_ops): SoftMax "c" (op5) cannot ride on another operation; matmul/post_ops comes closest: it takes a + b and has no place for SoftMax "c" (op5)"#);
    assert_eq!(why(&graph, &["c", "d"]), "");
}

//! Quantised operands are dequantised as they are read, results quantised as they are stored.

use anydnn_backend::DataType::{BF16, F16, F32, S4, S8, S32, U4, U8};
use anydnn_backend::{Arg, Quantized};

use super::graphs::Net;
use super::{check, check_on_host};
use crate::graph::{Attrs, OpKind as K};

/// Weights are quantised once; everything else is one product.
#[test]
fn a_product_with_a_residual() {
    let mut net = Net::default();
    let (x, other) = (net.input(U8, &[4, 16]), net.input(S8, &[4, 8]));
    let (w, bias) = (net.weights(F32, &[16, 8]), net.weights(F32, &[8]));
    let x = net.dequantize(x, 0.5, 7);
    let other = net.dequantize(other, 0.25, 2);
    let attrs = || {
        let scales: Vec<f32> = (1..=8).map(|i| i as f32 / 16.0).collect();
        Attrs::new()
            .with("qtype", "per_channel")
            .with("axis", 1_i64)
            .with("scales", scales)
            .with("zps", vec![0; 8])
    };
    let w = net.typed(K::Quantize, &[w], attrs(), S8);
    let w = net.op(K::Dequantize, &[w], attrs());
    let y = net.op(K::MatMul, &[x, w, bias], Attrs::new());
    let y = net.plain(K::Add, &[y, other]);
    let y = net.plain(K::ReLU, &[y]);
    net.quantize(y, 0.125, 3, U8);
    check(&net.0.build().unwrap(), "[expression] matmul");
}

#[test]
fn a_product_in_narrow_floats() {
    let mut net = Net::default();
    let (x, w) = (net.input(U8, &[4, 16]), net.weights(S8, &[8, 16]));
    let (x, w) = (net.dequantize(x, 0.5, 7), net.dequantize(w, 0.5, 0));
    let (x, w) = (net.cast(x, BF16), net.cast(w, BF16));
    let w = net.transpose(w, &[1, 0]);
    let y = net.matmul(x, w);
    let y = net.plain(K::GELU, &[y]);
    let y = net.cast(y, F32);
    net.quantize(y, 0.125, 0, S8);
    check_on_host(&net.0.build().unwrap(), "matmul");
}

/// Constants become floats once where many positions read them, but not beside integers, which are multiplied as they are.
#[test]
fn weights_of_convolutions() {
    let conv = |of: anydnn_backend::DataType, size: usize| {
        let mut net = Net::default();
        let (x, w) = (net.input(of, &[1, 4, size, size]), net.weights(S8, &[8, 4, 3, 3]));
        let x = if of == F32 { x } else { net.dequantize(x, 0.5, 7) };
        let w = net.dequantize(w, 0.5, 0);
        let none = || vec![0_i64; 2];
        let attrs = Attrs::new()
            .with("strides", vec![1_i64; 2])
            .with("pads_begin", none())
            .with("pads_end", none())
            .with("dilations", vec![1_i64; 2])
            .with("data_format", "NCX")
            .with("weights_format", "OIX");
        let y = net.op(K::Convolution, &[x, w], attrs);
        net.plain(K::ReLU, &[y]);
        net.0.build().unwrap()
    };
    check(&conv(F32, 10), "[expression] convolution");
    check(&conv(F32, 6), "convolution");
    check(&conv(U8, 10), "convolution");
}

#[test]
fn weights_in_groups() {
    let mut net = Net::default();
    let x = net.input(F16, &[4, 16]);
    let w = net.weights(U4, &[16, 8]);
    let (scale, zp) = (net.weights(F16, &[4, 8]), net.weights(U4, &[4, 8]));
    let attrs = Attrs::new().with("qtype", "per_group").with("group_shape", [4, 1]);
    let w = net.typed(K::DynamicDequantize, &[w, scale, zp], attrs, F16);
    net.matmul(x, w);
    check(&net.0.build().unwrap(), "matmul");
}

/// A dequantised tensor that something else wants too is computed for that, and read as it is by the product.
#[test]
fn a_shared_operand() {
    let mut net = Net::default();
    let (x, w) = (net.input(U8, &[4, 8]), net.weights(F32, &[8, 8]));
    let x = net.dequantize(x, 0.5, 7);
    let y = net.matmul(x, w);
    let z = net.plain(K::Tanh, &[x]);
    net.0.output(y);
    net.0.output(z);
    check(&net.0.build().unwrap(), "matmul expression");
}

#[test]
fn a_convolution_with_a_residual() {
    let mut net = Net::default();
    let (x, other) = (net.input(U8, &[1, 6, 6, 8]), net.input(U8, &[1, 6, 6, 4]));
    let (x, other) = (net.dequantize(x, 0.5, 7), net.dequantize(other, 0.25, 0));
    let (w, bias) = (net.weights(S8, &[3, 3, 8, 4]), net.weights(F32, &[4]));
    let scales = Attrs::new().with("qtype", "per_channel").with("axis", 3_i64);
    let w = net.op(K::Dequantize, &[w], scales.with("scales", vec![0.5, 0.25, 0.125, 1.0]));
    let y = net.conv(x, w, 1);
    let y = net.op(K::BiasAdd, &[y, bias], Attrs::new().with("data_format", "NXC"));
    let y = net.plain(K::Add, &[other, y]);
    let y = net.plain(K::ReLU, &[y]);
    let y = net.quantize(y, 0.125, 3, U8);
    net.reshape(y, &[36, 4]);
    check(&net.0.build().unwrap(), "convolution");
}

#[test]
fn poolings() {
    let pool = |kind: K, extra: Attrs, expected: &str| {
        let mut net = Net::default();
        let x = net.input(U8, &[1, 4, 6, 6]);
        let x = net.dequantize(x, 0.5, 7);
        let attrs = extra
            .with("strides", [2, 2])
            .with("kernel", [2, 2])
            .with("pads_begin", [1, 1])
            .with("pads_end", [1, 1])
            .with("data_format", "NCX");
        let y = net.op(kind, &[x], attrs);
        net.quantize(y, 0.25, 3, U8);
        check(&net.0.build().unwrap(), expected);
    };
    pool(K::MaxPool, Attrs::new(), "pooling");
    pool(K::AvgPool, Attrs::new().with("exclude_pad", true), "pooling");
    // Padding counts zeros, which are not the zero point.
    pool(K::AvgPool, Attrs::new().with("exclude_pad", false), "expression pooling");
}

/// Functions of stored integers are one expression, rounded wherever the graph stores integers in between.
#[test]
fn functions_of_elements() {
    let mut net = Net::default();
    let x = net.input(U8, &[2, 4, 3, 3]);
    let limits = Attrs::new().with("min", -6.0_f32).with("max", 6.0_f32);
    let (a, b) = (net.dequantize(x, 0.5, 7), net.dequantize(x, 0.5, 7));
    let shift = net.weights(F32, &[1]);
    let y = net.plain(K::Add, &[a, shift]);
    let y = net.op(K::Clamp, &[y], limits);
    let y = net.quantize(y, 0.125, 60, U8);
    let y = net.dequantize(y, 0.125, 60);
    let y = net.plain(K::Multiply, &[b, y]);
    net.quantize(y, 0.5, 9, U8);
    check(&net.0.build().unwrap(), "expression");
}

#[test]
fn a_concatenation() {
    for (scale, expected) in [(0.5, "concat"), (0.25, "eltwise concat")] {
        let mut net = Net::default();
        let (a, b) = (net.input(U8, &[2, 4]), net.input(U8, &[2, 6]));
        let (a, b) = (net.dequantize(a, 0.5, 7), net.dequantize(b, scale, 7));
        let y = net.op(K::Concat, &[a, b], Attrs::new().with("axis", 1_i64));
        net.quantize(y, 0.5, 7, U8);
        check(&net.0.build().unwrap(), expected);
    }
}

/// What is rounded before an odd zero point is added: alone, behind a product, channel by channel and side by side.
#[test]
fn halves_are_rounded_before_the_zero_point_is_added() {
    let shifted = |net: &mut Net, x, scales: Vec<f32>, zps: Vec<i64>| {
        let qtype = if scales.len() == 1 { "per_tensor" } else { "per_channel" };
        let attrs = Attrs::new().with("qtype", qtype).with("axis", 1_i64).with("scales", scales);
        net.typed(K::Quantize, &[x], attrs.with("zps", zps).with("round_first", true), U8)
    };
    for (scales, zps) in [(vec![2.0], vec![7]), (vec![2.0, 4.0, 8.0, 2.0], vec![7, 9, 11, 13])] {
        let mut net = Net::default();
        let x = net.input(U8, &[4, 4]);
        let x = net.dequantize(x, 1.0, 0);
        shifted(&mut net, x, scales.clone(), zps.clone());
        check(&net.0.build().unwrap(), "expression");

        let mut net = Net::default();
        let (x, w) = (net.input(U8, &[4, 16]), net.weights(S8, &[16, 4]));
        let (x, w) = (net.dequantize(x, 1.0, 0), net.dequantize(w, 1.0, 0));
        let y = net.matmul(x, w);
        shifted(&mut net, y, scales, zps);
        check(&net.0.build().unwrap(), "matmul");
    }
    let mut net = Net::default();
    let (a, b) = (net.input(U8, &[2, 4]), net.input(U8, &[2, 6]));
    let (a, b) = (net.dequantize(a, 0.5, 7), net.dequantize(b, 0.25, 7));
    let y = net.op(K::Concat, &[a, b], Attrs::new().with("axis", 1_i64));
    shifted(&mut net, y, vec![0.5], vec![7]);
    check(&net.0.build().unwrap(), "eltwise concat");
}

#[test]
fn a_gated_product_of_compressed_weights() {
    let mut net = Net::default();
    let x = net.input(F16, &[4, 16]);
    let mut weights = |dims: [usize; 2]| {
        let w = net.weights(S4, &dims);
        let scale = net.weights(F16, &[dims[0] / 8, dims[1]]);
        let attrs = Attrs::new().with("qtype", "per_group").with("group_shape", [8, 1]);
        net.typed(K::DynamicDequantize, &[w, scale], attrs, F16)
    };
    let [up, gate, down] = [[16, 24], [16, 24], [24, 16]].map(&mut weights);
    let (up, gate) = (net.matmul(x, up), net.matmul(x, gate));
    let sigmoid = net.plain(K::Sigmoid, &[gate]);
    let gate = net.plain(K::Multiply, &[gate, sigmoid]);
    let y = net.plain(K::Multiply, &[up, gate]);
    net.matmul(y, down);
    check(&net.0.build().unwrap(), "gated_matmul matmul");
}

/// Kernels that copy an image with its borders put the zero point there, as an element.
#[test]
fn zero_points_have_the_type_of_what_they_are_taken_from() {
    let type_of = |data_type, zp| {
        let mut net = Net::default();
        let (x, w) = (net.input(data_type, &[1, 6, 6, 8]), net.weights(S8, &[3, 3, 8, 4]));
        let (x, w) = (net.dequantize(x, 0.5, zp), net.dequantize(w, 0.5, 0));
        net.conv(x, w, 1);
        let graph = net.0.build().unwrap();
        check(&graph, "convolution");
        super::operand_type(&graph, Arg::ZeroPointOf(Quantized::Src(0)))
    };
    assert_eq!(type_of(U8, 7), Some(U8));
    assert_eq!(type_of(S8, -128), Some(S8));
    // What does not fit is not cut off.
    assert_eq!(type_of(S8, 200), Some(S32));
    assert_eq!(type_of(U8, 0), None);
}

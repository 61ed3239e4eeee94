//! Attention in its many spellings is one primitive.

use anydnn_backend::DataType::{BF16, Boolean, F16, F32, S4, S8, S32, S64, U8};

use super::graphs::Net;
use super::{check, check_on_host};
use crate::graph::{Attrs, Graph, OpKind as K, TensorId};

/// Query, key and value of two batches, four heads, eight queries, six keys.
fn qkv(net: &mut Net) -> [TensorId; 3] {
    [net.x(&[2, 4, 8, 16]), net.x(&[2, 4, 6, 16]), net.x(&[2, 4, 6, 16])]
}

fn scaled(net: &mut Net) -> Graph {
    let [q, k, v] = qkv(net);
    let (scale, mask) = (net.x(&[1]), net.x(&[2, 1, 1, 6]));
    let s = net.matmul_with(q, k, [false, true]);
    let s = net.plain(K::Divide, &[s, scale]);
    let s = net.plain(K::Add, &[s, mask]);
    let p = net.softmax(s);
    net.matmul(p, v);
    net.0.clone().build().unwrap()
}

#[test]
fn scaled_and_masked() {
    check_on_host(&scaled(&mut Net::default()), "attention");
}

/// Heads are brought forward and back by transpositions; the result leaves as it lies in memory.
#[test]
fn with_transpositions_and_reshapes_around() {
    let mut net = Net::default();
    let [q, k, v] = [(); 3].map(|()| net.x(&[2, 8, 64]));
    let heads = |net: &mut Net, x, order: [i64; 4]| {
        let x = net.reshape(x, &[2, 8, 4, 16]);
        net.transpose(x, &order)
    };
    let q = heads(&mut net, q, [0, 2, 1, 3]);
    let k = heads(&mut net, k, [0, 2, 3, 1]);
    let v = heads(&mut net, v, [0, 2, 1, 3]);
    let s = net.matmul(q, k);
    let p = net.softmax(s);
    let o = net.matmul(p, v);
    let o = net.transpose(o, &[0, 2, 1, 3]);
    net.reshape(o, &[2, 8, 64]);
    check(&net.0.build().unwrap(), "attention");
}

/// An index is compared with another: no mask is read. Offsets for the bottom right corner come as scalars.
#[test]
fn with_an_implicit_causal_mask() {
    for bottom_right in [false, true] {
        let mut net = Net::default();
        let [q, k, v] = qkv(&mut net);
        let low = net.x(&[1]);
        let s = net.matmul_with(q, k, [false, true]);
        let mut row = net.op(K::GenIndex, &[s], Attrs::new().with("axis", -2_i64));
        let column = net.op(K::GenIndex, &[s], Attrs::new().with("axis", -1_i64));
        if bottom_right {
            let (keys, queries) = (net.0.host_scalar("keys", S32), net.0.host_scalar("queries", S32));
            row = net.plain(K::Add, &[row, keys]);
            row = net.plain(K::Subtract, &[row, queries]);
        }
        let seen = net.plain(K::GreaterEqual, &[row, column]);
        let s = net.plain(K::Select, &[seen, s, low]);
        let p = net.softmax(s);
        net.matmul(p, v);
        check(&net.0.build().unwrap(), "attention");
    }
}

#[test]
fn with_a_soft_cap_and_a_selecting_mask() {
    let mut net = Net::default();
    let [q, k, v] = qkv(&mut net);
    let (cap, low) = (net.x(&[1]), net.x(&[1]));
    let seen = net.input(Boolean, &[2, 1, 8, 6]);
    let s = net.matmul_with(q, k, [false, true]);
    let s = net.plain(K::Divide, &[s, cap]);
    let s = net.plain(K::Tanh, &[s]);
    let s = net.plain(K::Multiply, &[s, cap]);
    let s = net.plain(K::Select, &[seen, s, low]);
    let p = net.softmax(s);
    net.matmul(p, v);
    check(&net.0.build().unwrap(), "attention");
}

/// Two key heads for four query heads: five dimensions, reached by reshapes or given.
#[test]
fn with_grouped_queries() {
    let mut net = Net::default();
    let q = net.x(&[2, 4, 8, 16]);
    let [k, v] = [(); 2].map(|()| net.x(&[2, 2, 6, 16]));
    let mask = net.x(&[2, 1, 1, 8, 6]);
    let q = net.reshape(q, &[2, 2, 2, 8, 16]);
    let [k, v] = [k, v].map(|x| net.reshape(x, &[2, 2, 1, 6, 16]));
    let s = net.matmul_with(q, k, [false, true]);
    let s = net.plain(K::Add, &[s, mask]);
    let p = net.softmax(s);
    let o = net.matmul(p, v);
    net.reshape(o, &[2, 4, 8, 16]);
    check_on_host(&net.0.build().unwrap(), "attention");
}

#[test]
fn in_narrow_floats_with_casts() {
    for narrow in [BF16, F16] {
        let mut net = Net::default();
        let [q, k, v] = [8, 6, 6].map(|rows| net.input(narrow, &[2, 4, rows, 16]));
        let (scale, mask) = (net.input(narrow, &[1]), net.input(narrow, &[2, 1, 8, 6]));
        let s = net.typed(K::MatMul, &[q, k], Attrs::new().with("transpose_b", true), F32);
        let (scale, mask) = (net.cast(scale, F32), net.cast(mask, F32));
        let s = net.plain(K::Multiply, &[s, scale]);
        let s = net.plain(K::Add, &[s, mask]);
        let p = net.softmax(s);
        let p = net.cast(p, narrow);
        net.matmul(p, v);
        check(&net.0.build().unwrap(), "attention");
    }
}

#[test]
fn in_integers() {
    let mut net = Net::default();
    let [q, k, v] = [8, 6, 6].map(|rows| net.input(U8, &[2, 4, rows, 16]));
    let [q, k, v] = [q, k, v].map(|x| net.dequantize(x, 0.5, 3));
    let scale = net.x(&[1]);
    let s = net.matmul_with(q, k, [false, true]);
    let s = net.plain(K::Divide, &[s, scale]);
    let p = net.softmax(s);
    let p = net.quantize(p, 1.0 / 256.0, 0, U8);
    let p = net.dequantize(p, 1.0 / 256.0, 0);
    let o = net.matmul(p, v);
    let o = net.transpose(o, &[0, 2, 1, 3]);
    let o = net.reshape(o, &[2, 8, 64]);
    net.quantize(o, 0.25, 1, U8);
    check(&net.0.build().unwrap(), "attention");
}

/// Keys and values in few bits, with a scale for every group of eight.
#[test]
fn with_compressed_keys_and_values() {
    let mut net = Net::default();
    let q = net.input(F16, &[2, 4, 8, 16]);
    let mut compressed = |kind, groups: [usize; 4], shape: [i64; 4]| {
        let x = net.input(kind, &[2, 4, 6, 16]);
        let (scale, zp) = (net.input(F16, &groups), net.input(S8, &groups));
        let attrs = Attrs::new().with("qtype", "per_group").with("group_shape", shape);
        net.typed(K::DynamicDequantize, &[x, scale, zp], attrs, F16)
    };
    let k = compressed(S4, [2, 4, 6, 2], [1, 1, 1, 8]);
    let v = compressed(S8, [2, 4, 6, 1], [1, 1, 1, 16]);
    let s = net.typed(K::MatMul, &[q, k], Attrs::new().with("transpose_b", true), F32);
    let p = net.typed(K::SoftMax, &[s], Attrs::new().with("axis", -1_i64), F16);
    net.matmul(p, v);
    check(&net.0.build().unwrap(), "attention");
}

/// The forward pass of training: statistics leave, weights are dropped.
#[test]
fn with_statistics_and_dropout() {
    let mut net = Net::default();
    let [q, k, v] = qkv(&mut net);
    let (seed, offset) = (net.0.host_scalar("seed", S64), net.0.host_scalar("offset", S64));
    let probability = net.0.host_scalar("probability", F32);
    let s = net.matmul_with(q, k, [false, true]);
    let p = net.ops(K::SoftMax, &[s], Attrs::new().with("axis", -1_i64).with("mode", "inf_as_zero"), 2);
    let d = net.plain(K::Dropout, &[p[0], seed, offset, probability]);
    let o = net.matmul(d, v);
    net.0.output(o);
    net.0.output(p[1]);
    check(&net.0.build().unwrap(), "attention");
}

/// Scores that are read elsewhere too must exist, and so must weights.
#[test]
fn scores_in_use_are_stored() {
    let mut net = Net::default();
    let [q, k, v] = qkv(&mut net);
    let s = net.matmul_with(q, k, [false, true]);
    let p = net.softmax(s);
    let o = net.matmul(p, v);
    net.0.output(o);
    net.0.output(p);
    check_on_host(&net.0.build().unwrap(), "matmul softmax matmul");
}

/// The backward pass, weights computed again from the statistics: five products and two folds of a row each.
#[test]
fn backward() {
    for narrow in [false, true] {
        let mut net = Net::default();
        let [q, k, v] = qkv(&mut net);
        let (d_o, stats) = (net.x(&[2, 4, 8, 16]), net.x(&[2, 4, 8, 1]));
        let scale = net.x(&[1]);
        let cast = |net: &mut Net, x| if narrow { net.cast(x, BF16) } else { x };
        let s = net.matmul_with(q, k, [false, true]);
        let s = net.plain(K::Multiply, &[s, scale]);
        let s = net.plain(K::Subtract, &[s, stats]);
        let p = net.plain(K::Exp, &[s]);
        let p16 = cast(&mut net, p);
        let d_o16 = cast(&mut net, d_o);
        let d_v = net.matmul_with(p16, d_o16, [true, false]);
        let d_p = net.matmul_with(d_o, v, [false, true]);
        let d_s = net.op(K::SoftMaxBackward, &[d_p, p], Attrs::new().with("axis", -1_i64));
        let d_s = net.plain(K::Multiply, &[d_s, scale]);
        let d_q = net.matmul(d_s, k);
        let d_k = net.matmul_with(d_s, q, [true, false]);
        for id in [d_q, d_k, d_v] {
            net.0.output(id);
        }
        check(&net.0.build().unwrap(), "matmul matmul matmul expression matmul matmul");
    }
}

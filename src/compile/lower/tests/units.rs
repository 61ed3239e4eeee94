//! Chains, views, groups between units, and what nobody needs.

use anydnn_backend::DataType::{BF16, F32, U8};

use super::super::super::program::Program;
use super::graphs::Net;
use super::{check, check_on_host};
use crate::fusion::Partition;
use crate::graph::{Attrs, OpKind as K};

#[test]
fn a_gated_product_takes_any_activation() {
    for kind in [K::GELU, K::ReLU, K::Sigmoid] {
        let mut net = Net::default();
        let x = net.x(&[4, 16]);
        let [up, gate, down] = [[16, 24], [16, 24], [24, 16]].map(|dims| net.weights(F32, &dims));
        let (up, gate) = (net.matmul(x, up), net.matmul(x, gate));
        let gate = net.plain(kind, &[gate]);
        let y = net.plain(K::Multiply, &[gate, up]);
        net.matmul(y, down);
        check(&net.0.build().unwrap(), "gated_matmul matmul");
    }
}

/// Products of different sources are no gated product; the second takes the multiplication.
#[test]
fn products_of_different_sources_stay_two() {
    let mut net = Net::default();
    let (x, z) = (net.x(&[4, 16]), net.x(&[4, 16]));
    let (up, gate) = (net.weights(F32, &[16, 24]), net.weights(F32, &[16, 24]));
    let (up, gate) = (net.matmul(x, up), net.matmul(z, gate));
    let gate = net.plain(K::GELU, &[gate]);
    net.plain(K::Multiply, &[gate, up]);
    check_on_host(&net.0.build().unwrap(), "matmul matmul");
}

/// A bottleneck with a projection beside it: four convolutions.
#[test]
fn a_residual_stage() {
    let mut net = Net::default();
    let x = net.x(&[1, 6, 6, 8]);
    let mut block = |x, dims: [usize; 4], relu: bool| {
        let w = net.weights(F32, &dims);
        let bias = net.weights(F32, &[dims[3]]);
        let y = net.conv(x, w, (dims[0] / 2) as i64);
        let y = net.op(K::BiasAdd, &[y, bias], Attrs::new().with("data_format", "NXC"));
        if relu { net.plain(K::ReLU, &[y]) } else { y }
    };
    let a = block(x, [1, 1, 8, 4], true);
    let b = block(a, [3, 3, 4, 4], true);
    let c = block(b, [1, 1, 4, 16], false);
    let d = block(x, [1, 1, 8, 16], false);
    let y = net.plain(K::Add, &[c, d]);
    net.plain(K::ReLU, &[y]);
    check_on_host(&net.0.build().unwrap(), "convolution convolution convolution convolution");
}

/// Positions in a column are computed together as those of a line are, in either format, with what rides on the convolution.
#[test]
fn a_column_becomes_a_line() {
    for format in ["NXC", "NCX"] {
        let mut net = Net::default();
        let image = |net: &mut Net, channels: usize, rows: usize| match format {
            "NXC" => net.x(&[2, rows, 1, channels]),
            _ => net.x(&[2, channels, rows, 1]),
        };
        let (x, other) = (image(&mut net, 16, 9), image(&mut net, 32, 4));
        let (w, bias) = (net.weights(F32, &[32, 16, 3, 1]), net.weights(F32, &[32]));
        let attrs = Attrs::new()
            .with("strides", [2, 1])
            .with("pads_begin", [1, 0])
            .with("pads_end", [0, 0])
            .with("dilations", [1, 1])
            .with("data_format", format)
            .with("weights_format", "OIX");
        let y = net.op(K::Convolution, &[x, w], attrs);
        let y = net.op(K::BiasAdd, &[y, bias], Attrs::new().with("data_format", format));
        let y = net.plain(K::ReLU, &[y]);
        net.plain(K::Add, &[y, other]);
        let graph = net.0.build().unwrap();
        check(&graph, "convolution");
        let partition = Partition::of_ops(&graph, "test", 0..graph.ops().len());
        let mut program = Program::new(&graph).unwrap();
        super::super::partition(&mut program, &partition).unwrap();
        let (src, dst) = (program.steps[0].desc.src(), program.steps[0].desc.dst());
        assert_eq!((src.dims().to_vec(), dst.dims().to_vec()), (vec![2, 16, 1, 9], vec![2, 32, 1, 4]));
    }
}

#[test]
fn a_choice_rides_on_a_product() {
    let mut net = Net::default();
    let (x, w, low) = (net.x(&[2, 4, 8]), net.x(&[2, 8, 6]), net.x(&[1]));
    let seen = net.input(anydnn_backend::DataType::Boolean, &[2, 1, 6]);
    let y = net.matmul(x, w);
    let y = net.plain(K::Select, &[seen, low, y]);
    net.cast(y, BF16);
    check(&net.0.build().unwrap(), "matmul");
}

/// An index does not need the product whose shape it has.
#[test]
fn indices_wait_for_nothing() {
    let mut net = Net::default();
    let (x, w, low) = (net.x(&[4, 8]), net.x(&[8, 6]), net.x(&[1]));
    let y = net.matmul(x, w);
    let row = net.op(K::GenIndex, &[y], Attrs::new().with("axis", 0_i64));
    let column = net.op(K::GenIndex, &[y], Attrs::new().with("axis", 1_i64));
    let seen = net.plain(K::GreaterEqual, &[row, column]);
    net.plain(K::Select, &[seen, y, low]);
    check(&net.0.build().unwrap(), "[expression] matmul");
}

/// What is computed for a product's chain and what follows from that are one group each.
#[test]
fn groups_lie_between_units() {
    let mut net = Net::default();
    let (x, w) = (net.x(&[4, 8]), net.x(&[8, 6]));
    let y = net.matmul(x, w);
    let a = net.plain(K::Exp, &[y]);
    let b = net.plain(K::Tanh, &[y]);
    let c = net.plain(K::Add, &[a, b]);
    let z = net.matmul_with(c, w, [false, true]);
    let d = net.plain(K::Abs, &[z]);
    let e = net.plain(K::Square, &[b]);
    for id in [d, e] {
        net.0.output(id);
    }
    check(&net.0.build().unwrap(), "matmul expression matmul");
}

/// A shuffle copies once, straight into the output; a transposition before another product copies nothing.
#[test]
fn views_cost_at_most_one_copy() {
    let mut net = Net::default();
    let x = net.x(&[2, 12, 5]);
    let y = net.reshape(x, &[2, 3, 4, 5]);
    let y = net.transpose(y, &[0, 2, 1, 3]);
    net.reshape(y, &[2, 12, 5]);
    check_on_host(&net.0.build().unwrap(), "reorder");

    let mut net = Net::default();
    let (x, w) = (net.x(&[4, 8]), net.x(&[8, 6]));
    let y = net.matmul(x, w);
    let y = net.transpose(y, &[1, 0]);
    let y = net.matmul(y, x);
    net.transpose(y, &[1, 0]);
    check_on_host(&net.0.build().unwrap(), "matmul matmul");
}

/// A result that an output is under other dimensions is written there, also where others read it.
#[test]
fn results_go_to_outputs_that_are_views_of_them() {
    let pool = |net: &mut Net, x| {
        let attrs = Attrs::new().with("strides", [2, 2]).with("kernel", [2, 2]).with("data_format", "NXC");
        net.op(K::MaxPool, &[x], attrs.with("pads_begin", [0, 0]).with("pads_end", [0, 0]))
    };
    for read in [false, true] {
        let mut net = Net::default();
        let x = net.x(&[1, 4, 6, 3]);
        let y = pool(&mut net, x);
        let flat = net.reshape(y, &[2, 9]);
        let z = net.reshape(flat, &[18]);
        net.0.output(z);
        if read {
            let soft = net.softmax(y);
            net.0.output(soft);
        }
        check_on_host(&net.0.build().unwrap(), if read { "pooling softmax" } else { "pooling" });
    }
}

#[test]
fn what_nobody_reads_is_not_computed() {
    let mut net = Net::default();
    let x = net.x(&[4, 8]);
    let attrs = Attrs::new().with("use_affine", false).with("keep_stats", true);
    let norm = net.ops(K::LayerNorm, &[x], attrs, 3);
    let relu = net.plain(K::ReLU, &[norm[0]]);
    net.plain(K::Exp, &[x]);
    net.0.output(relu);
    let graph = net.0.build().unwrap();
    check_on_host(&graph, "layer_normalization");
    let mut program = super::super::Program::new(&graph).unwrap();
    let whole = crate::fusion::Partition::of_ops(&graph, "test", 0..graph.ops().len());
    super::super::partition(&mut program, &whole).unwrap();
    assert_eq!(
        program.steps[0].desc.args().len(),
        2,
        "the statistics are results: {}",
        program.steps[0].desc
    );
}

/// Heads of different positions: no strides of the result are what a product of matrices stores, so it is copied, cast as the store casts.
#[test]
fn views_that_no_store_can_do_are_copied() {
    for (cast, quantized) in [(false, false), (true, false), (false, true)] {
        let mut net = Net::default();
        let (x, w) = (net.x(&[2, 4, 8]), net.weights(F32, &[8, 6]));
        let y = net.matmul(x, w);
        let y = net.reshape(y, &[2, 4, 2, 3]);
        let y = net.transpose(y, &[0, 2, 1, 3]);
        match (cast, quantized) {
            (true, _) => net.cast(y, BF16),
            (_, true) => net.quantize(y, 0.05, 3, U8),
            _ => net.plain(K::Reorder, &[y]),
        };
        check_on_host(&net.0.build().unwrap(), "matmul reorder");
    }
}

//! Convolutions, pooling and resampling, with their gradients.

use anydnn::graph::{Attrs, OpKind as K};

use super::{Cases, none, x};

pub(super) fn add(cases: &mut Cases) {
    convolutions(cases);
    transposed(cases);
    pooling(cases);
    resampling(cases);
}

/// Attributes of a window in so many dimensions, the same in each.
fn window(spatial: usize, stride: i64, begin: i64, end: i64) -> Attrs {
    let list = |v: i64| vec![v; spatial];
    none().with("strides", list(stride)).with("pads_begin", list(begin)).with("pads_end", list(end))
}

fn conv(spatial: usize, stride: i64, begin: i64, end: i64) -> Attrs {
    window(spatial, stride, begin, end).with("dilations", vec![1_i64; spatial])
}

fn first(attrs: Attrs, weights: &str) -> Attrs {
    attrs.with("data_format", "NCX").with("weights_format", weights)
}

fn convolutions(cases: &mut Cases) {
    let (last, grouped, same) = (
        conv(2, 1, 1, 1),
        first(conv(2, 2, 1, 0), "OIX").with("groups", 2_i64),
        conv(2, 2, 0, 0).with("auto_pad", "SAME_UPPER"),
    );
    let dilated = first(conv(2, 1, 2, 2), "OIX").with("dilations", [2, 1]);
    cases.add(K::Convolution, last.clone(), &[x(&[1, 5, 4, 3]), x(&[3, 3, 3, 4])]);
    cases.add(K::Convolution, grouped.clone(), &[x(&[2, 4, 6, 5]), x(&[6, 2, 3, 2]), x(&[6])]);
    cases.add(K::Convolution, same, &[x(&[1, 5, 6, 2]), x(&[3, 2, 2, 3])]);
    cases.add(K::Convolution, dilated.clone(), &[x(&[1, 2, 6, 5]), x(&[3, 2, 3, 2])]);
    cases.add(K::Convolution, conv(1, 1, 0, 0), &[x(&[2, 7, 3]), x(&[3, 3, 4])]);
    cases.add(K::Convolution, conv(3, 1, 0, 1), &[x(&[1, 3, 4, 3, 2]), x(&[2, 2, 2, 2, 3])]);

    let data = |attrs: Attrs, shape: &[i64]| attrs.with("dst_shape", shape.to_vec());
    cases.add(
        K::ConvolutionBackwardData,
        data(last.clone(), &[1, 5, 4, 3]),
        &[x(&[1, 5, 4, 4]), x(&[3, 3, 3, 4])],
    );
    cases.add(
        K::ConvolutionBackwardData,
        data(grouped.clone(), &[2, 4, 6, 5]),
        &[x(&[2, 6, 3, 3]), x(&[6, 2, 3, 2])],
    );
    cases.add(
        K::ConvolutionBackwardData,
        data(dilated, &[1, 2, 6, 5]),
        &[x(&[1, 3, 6, 8]), x(&[3, 2, 3, 2])],
    );
    let weights = |attrs: Attrs, shape: &[i64]| attrs.with("weights_shape", shape.to_vec());
    cases.add(
        K::ConvolutionBackwardWeights,
        weights(last, &[3, 3, 3, 4]),
        &[x(&[1, 5, 4, 3]), x(&[1, 5, 4, 4])],
    );
    cases.add(
        K::ConvolutionBackwardWeights,
        weights(grouped, &[6, 2, 3, 2]),
        &[x(&[2, 4, 6, 5]), x(&[2, 6, 3, 3])],
    );
}

fn transposed(cases: &mut Cases) {
    let last = conv(2, 2, 1, 0);
    let grouped = first(conv(2, 2, 1, 1), "IOX").with("groups", 2_i64);
    let padded = first(conv(2, 2, 0, 0), "IOX").with("output_padding", [1, 1]);
    cases.add(K::ConvTranspose, last.clone(), &[x(&[1, 4, 3, 3]), x(&[3, 3, 4, 3])]);
    cases.add(K::ConvTranspose, grouped.clone(), &[x(&[2, 4, 3, 3]), x(&[4, 3, 3, 3])]);
    cases.add(K::ConvTranspose, padded, &[x(&[1, 2, 3, 3]), x(&[2, 3, 2, 2]), x(&[3])]);
    cases.add(K::ConvTransposeBackwardData, last.clone(), &[x(&[1, 8, 6, 4]), x(&[3, 3, 4, 3])]);
    cases.add(K::ConvTransposeBackwardData, grouped.clone(), &[x(&[2, 6, 5, 5]), x(&[4, 3, 3, 3])]);
    let weights = |attrs: Attrs, shape: &[i64]| attrs.with("weights_shape", shape.to_vec());
    let kind = K::ConvTransposeBackwardWeights;
    cases.add(kind, weights(last, &[3, 3, 4, 3]), &[x(&[1, 4, 3, 3]), x(&[1, 8, 6, 4])]);
    cases.add(kind, weights(grouped, &[4, 3, 3, 3]), &[x(&[2, 4, 3, 3]), x(&[2, 6, 5, 5])]);
}

fn pooling(cases: &mut Cases) {
    let kernel = |attrs: Attrs| attrs.with("kernel", [3, 2]);
    let average = |exclude: bool| kernel(window(2, 2, 1, 1)).with("exclude_pad", exclude);
    let ncx = |attrs: Attrs| attrs.with("data_format", "NCX");
    cases.add(K::AvgPool, average(true), &[x(&[1, 5, 4, 3])]);
    cases.add(K::AvgPool, ncx(average(false)), &[x(&[2, 3, 5, 6])]);
    cases.add(K::AvgPool, average(true).with("rounding_type", "ceil"), &[x(&[1, 6, 5, 2])]);
    let shape = |attrs: Attrs, shape: &[i64]| attrs.with("src_shape", shape.to_vec());
    cases.add(K::AvgPoolBackward, shape(average(true), &[1, 5, 4, 3]), &[x(&[1, 3, 3, 3])]);
    cases.add(K::AvgPoolBackward, shape(ncx(average(false)), &[2, 3, 5, 6]), &[x(&[2, 3, 3, 4])]);
    let largest = || kernel(window(2, 2, 1, 1));
    let dilated = || ncx(kernel(window(2, 1, 0, 0))).with("dilations", [2, 1]);
    cases.add(K::MaxPool, largest(), &[x(&[1, 5, 4, 3])]);
    cases.add(K::MaxPool, dilated(), &[x(&[2, 3, 6, 5])]);
    cases.add(K::MaxPool, largest().with("rounding_type", "ceil"), &[x(&[1, 6, 5, 2])]);
    cases.add(K::MaxPoolBackward, dilated(), &[x(&[2, 3, 6, 5]), x(&[2, 3, 2, 4])]);
    cases.add(K::MaxPoolBackward, largest(), &[x(&[1, 5, 4, 3]), x(&[1, 3, 3, 3])]);
}

fn resampling(cases: &mut Cases) {
    let mode = |mode: &str, format: &str| none().with("mode", mode).with("data_format", format);
    let sizes = |attrs: Attrs, sizes: &[i64]| attrs.with("sizes", sizes.to_vec());
    let images: [(&str, &str, &[i64], &[usize], &[usize]); 4] = [
        ("nearest", "NCX", &[6, 3], &[1, 2, 3, 4], &[1, 2, 6, 3]),
        ("bilinear", "NXC", &[6, 3], &[1, 3, 4, 2], &[1, 6, 3, 2]),
        ("linear", "NCX", &[7], &[2, 2, 4], &[2, 2, 7]),
        ("trilinear", "NCX", &[3, 4, 5], &[1, 2, 2, 3, 3], &[1, 2, 3, 4, 5]),
    ];
    for (word, format, to, from, dst) in images {
        cases.add(K::Interpolate, sizes(mode(word, format), to), &[x(from)]);
        cases.add(K::InterpolateBackward, sizes(mode(word, format), to), &[x(from), x(dst)]);
    }
    let scaled = mode("bilinear", "NCX").with("scales", vec![2.0_f32, 1.5]);
    cases.add(K::Interpolate, scaled, &[x(&[1, 2, 3, 4])]);
}

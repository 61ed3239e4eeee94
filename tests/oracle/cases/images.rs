//! Windows over images and resampling, whose shapes, types and attributes follow from a seed.

use anydnn::graph::{Attrs, OpKind as K};

use super::pick::Pick;
use super::{Case, Cases, none, x};

pub(super) fn has(kind: K) -> bool {
    kind.name().contains("Conv") || kind.name().contains("Pool") || kind.name().contains("Interpolate")
}

pub(super) fn add<'c>(cases: &'c mut Cases, kind: K, p: &mut Pick) -> &'c mut Case {
    match kind {
        K::Convolution | K::ConvolutionBackwardData | K::ConvolutionBackwardWeights => {
            convolution(cases, kind, p)
        }
        K::ConvTranspose | K::ConvTransposeBackwardData | K::ConvTransposeBackwardWeights => {
            transposed(cases, kind, p)
        }
        K::Interpolate | K::InterpolateBackward => resampling(cases, kind, p),
        _ => pooling(cases, kind, p),
    }
}

/// One spatial dimension of a window: sizes, strides and pads such that the result is not empty.
struct Side {
    small: usize,
    large: usize,
    kernel: usize,
    stride: usize,
    begin: usize,
    end: usize,
    dilation: usize,
}

impl Side {
    /// The larger one holds the smaller one's windows, and up to a stride more.
    fn new(p: &mut Pick, may_dilate: bool, exact: bool) -> Self {
        let (kernel, stride, small) = (p.of(1, 3), p.of(1, 2), p.of(1, 4));
        let dilation = if may_dilate && p.rarely(3) { 2 } else { 1 };
        let (begin, end) = (p.of(0, kernel - 1), p.of(0, kernel - 1));
        let span = (small - 1) * stride + (kernel - 1) * dilation + 1;
        let over = if exact { 0 } else { p.of(0, stride - 1) };
        // Pads never take all of the image.
        let (begin, end) = if begin + end < span + over { (begin, end) } else { (0, 0) };
        Self { small, large: span + over - begin - end, kernel, stride, begin, end, dilation }
    }
}

fn lists(sides: &[Side]) -> Attrs {
    let list = |of: fn(&Side) -> usize| sides.iter().map(|side| of(side) as i64).collect::<Vec<_>>();
    none()
        .with("strides", list(|s| s.stride))
        .with("pads_begin", list(|s| s.begin))
        .with("pads_end", list(|s| s.end))
}

fn spread(format: &str, n: usize, c: usize, sides: &[Side], of: fn(&Side) -> usize) -> Vec<usize> {
    let spatial = sides.iter().map(of);
    if format == "NCX" {
        [n, c].into_iter().chain(spatial).collect()
    } else {
        std::iter::once(n).chain(spatial).chain([c]).collect()
    }
}

fn long(dims: &[usize]) -> Vec<i64> {
    dims.iter().map(|&dim| dim as i64).collect()
}

fn convolution<'c>(cases: &'c mut Cases, kind: K, p: &mut Pick) -> &'c mut Case {
    let sides: Vec<_> = (0..p.one(&[1, 2, 2, 3])).map(|_| Side::new(p, true, false)).collect();
    let groups = p.one(&[1, 1, 2]);
    let (n, ic, oc) = (p.of(1, 2), groups * p.of(1, 3), groups * p.of(1, 3));
    let format = p.one(&["NXC", "NCX"]);
    let order = p.one(&["XIO", "OIX"]);
    let kernel = sides.iter().map(|side| side.kernel);
    let weights: Vec<usize> = if order == "OIX" {
        [oc, ic / groups].into_iter().chain(kernel).collect()
    } else {
        kernel.chain([ic / groups, oc]).collect()
    };
    let src = spread(format, n, ic, &sides, |s| s.large);
    let dst = spread(format, n, oc, &sides, |s| s.small);
    let dilations: Vec<_> = sides.iter().map(|side| side.dilation as i64).collect();
    let attrs = lists(&sides)
        .with("dilations", dilations)
        .with("groups", groups as i64)
        .with("data_format", format)
        .with("weights_format", order);
    match kind {
        K::Convolution if p.rarely(3) => cases.add(kind, attrs, &[x(&src), x(&weights), x(&[oc])]),
        K::Convolution => cases.add(kind, attrs, &[x(&src), x(&weights)]),
        K::ConvolutionBackwardData => {
            cases.add(kind, attrs.with("dst_shape", long(&src)), &[x(&dst), x(&weights)])
        }
        _ => cases.add(kind, attrs.with("weights_shape", long(&weights)), &[x(&src), x(&dst)]),
    }
}

/// The smaller image is the source here, and weights have all its channels, as oneDNN's library has it: not as its documentation says.
fn transposed<'c>(cases: &'c mut Cases, kind: K, p: &mut Pick) -> &'c mut Case {
    let sides: Vec<_> = (0..p.one(&[1, 2, 2, 3])).map(|_| Side::new(p, true, true)).collect();
    let groups = p.one(&[1, 1, 2]);
    let (n, ic, oc) = (p.of(1, 2), groups * p.of(1, 3), groups * p.of(1, 3));
    let format = p.one(&["NXC", "NCX"]);
    let order = p.one(&["XOI", "IOX"]);
    let kernel = sides.iter().map(|side| side.kernel);
    let weights: Vec<usize> = if order == "IOX" {
        [ic, oc / groups].into_iter().chain(kernel).collect()
    } else {
        kernel.chain([oc / groups, ic]).collect()
    };
    let src = spread(format, n, ic, &sides, |s| s.small);
    let dst = spread(format, n, oc, &sides, |s| s.large);
    let dilations: Vec<_> = sides.iter().map(|side| side.dilation as i64).collect();
    let attrs = lists(&sides)
        .with("dilations", dilations)
        .with("groups", groups as i64)
        .with("data_format", format)
        .with("weights_format", order);
    match kind {
        K::ConvTranspose if p.rarely(3) => cases.add(kind, attrs, &[x(&src), x(&weights), x(&[oc])]),
        K::ConvTranspose => cases.add(kind, attrs, &[x(&src), x(&weights)]),
        K::ConvTransposeBackwardData => cases.add(kind, attrs, &[x(&dst), x(&weights)]),
        _ => cases.add(kind, attrs.with("weights_shape", long(&weights)), &[x(&src), x(&dst)]),
    }
}

fn pooling<'c>(cases: &'c mut Cases, kind: K, p: &mut Pick) -> &'c mut Case {
    let largest = matches!(kind, K::MaxPool | K::MaxPoolBackward);
    let forward = matches!(kind, K::AvgPool | K::MaxPool);
    let sides: Vec<_> = (0..p.one(&[1, 2, 2, 3])).map(|_| Side::new(p, largest, false)).collect();
    let (n, c) = (p.of(1, 2), p.of(1, 4));
    let format = p.one(&["NXC", "NCX"]);
    let kernel: Vec<_> = sides.iter().map(|side| side.kernel as i64).collect();
    let mut attrs = lists(&sides).with("kernel", kernel).with("data_format", format);
    if largest {
        let dilations: Vec<_> = sides.iter().map(|side| side.dilation as i64).collect();
        attrs = attrs.with("dilations", dilations);
    } else {
        attrs = attrs.with("exclude_pad", p.flag());
    }
    if forward && p.rarely(3) {
        attrs = attrs.with("rounding_type", "ceil");
    }
    let src = spread(format, n, c, &sides, |s| s.large);
    let dst = spread(format, n, c, &sides, |s| s.small);
    match kind {
        K::AvgPoolBackward => cases.add(kind, attrs.with("src_shape", long(&src)), &[x(&dst)]),
        K::MaxPoolBackward => cases.add(kind, attrs, &[x(&src), x(&dst)]),
        _ => cases.add(kind, attrs, &[x(&src)]),
    }
}

fn resampling<'c>(cases: &'c mut Cases, kind: K, p: &mut Pick) -> &'c mut Case {
    let (mode, spatial) =
        p.one(&[("nearest", 1), ("nearest", 2), ("linear", 1), ("bilinear", 2), ("trilinear", 3)]);
    let (from, to) = (p.dims(spatial, 1, 5), p.dims(spatial, 1, 6));
    let (n, c) = (p.of(1, 2), p.of(1, 3));
    let format = p.one(&["NXC", "NCX"]);
    let whole = |spatial: &[usize]| -> Vec<usize> {
        if format == "NCX" { [&[n, c], spatial].concat() } else { [&[n], spatial, &[c]].concat() }
    };
    let attrs = none().with("mode", mode).with("data_format", format).with("sizes", long(&to));
    if kind == K::Interpolate {
        cases.add(kind, attrs, &[x(&whole(&from))])
    } else {
        cases.add(kind, attrs, &[x(&whole(&from)), x(&whole(&to))])
    }
}

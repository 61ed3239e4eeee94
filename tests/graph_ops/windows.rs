//! `Convolution`, `MaxPool` and `AvgPool` in every format.

use anydnn::graph::{Attrs, OpKind, TensorId};
use rstest::rstest;

use super::case::Case;

/// Where windows lie: kernel, strides, dilations, pads before and after.
type Steps<'a> = (&'a [usize], &'a [i64], &'a [i64], &'a [i64], &'a [i64]);

const PLAIN_1D: Steps<'static> = (&[3], &[1], &[1], &[0], &[0]);
const UNEVEN_1D: Steps<'static> = (&[4], &[2], &[2], &[3], &[1]);
const PLAIN_2D: Steps<'static> = (&[3, 3], &[1, 1], &[1, 1], &[1, 1], &[1, 1]);
const STRIDED_2D: Steps<'static> = (&[3, 2], &[2, 3], &[1, 1], &[0, 1], &[2, 0]);
const DILATED_2D: Steps<'static> = (&[2, 3], &[1, 2], &[3, 2], &[1, 2], &[0, 2]);
const POINT_2D: Steps<'static> = (&[1, 1], &[1, 1], &[1, 1], &[0, 0], &[0, 0]);
const PLAIN_3D: Steps<'static> = (&[2, 3, 2], &[1, 2, 1], &[1, 1, 2], &[1, 0, 1], &[0, 1, 1]);

fn window(steps: Steps<'_>, auto_pad: &str, format: &str) -> Attrs {
    let (_, strides, _, begin, end) = steps;
    Attrs::new()
        .with("strides", strides.to_vec())
        .with("pads_begin", begin.to_vec())
        .with("pads_end", end.to_vec())
        .with("auto_pad", auto_pad)
        .with("data_format", format)
}

fn image(n: usize, c: usize, spatial: &[usize], format: &str) -> Vec<usize> {
    if format == "NCX" { [&[n, c], spatial].concat() } else { [&[n], spatial, &[c]].concat() }
}

/// Adds an image and a convolution of it.
pub fn convolve(
    case: &mut Case,
    (spatial, channels, outputs, groups): (&[usize], usize, usize, usize),
    steps: Steps<'_>,
    auto_pad: &str,
    (format, weights_format): (&str, &str),
    bias: bool,
) -> TensorId {
    let src = case.input(&image(2, channels, spatial, format));
    let (kernel, inner) = (steps.0, channels / groups);
    let weights = if weights_format == "OIX" {
        case.constant(&[&[outputs, inner], kernel].concat())
    } else {
        case.constant(&[kernel, &[inner, outputs]].concat())
    };
    let mut inputs = vec![src, weights];
    if bias {
        inputs.push(case.constant(&[outputs]));
    }
    let attrs = window(steps, auto_pad, format)
        .with("dilations", steps.2.to_vec())
        .with("groups", groups as i64)
        .with("weights_format", weights_format);
    case.op(OpKind::Convolution, &inputs, attrs)
}

#[rstest]
#[case::plain_1d((&[9][..], 3, 4, 1), PLAIN_1D)]
#[case::uneven_1d((&[11][..], 2, 3, 1), UNEVEN_1D)]
#[case::plain_2d((&[5, 6][..], 3, 4, 1), PLAIN_2D)]
#[case::strided_2d((&[7, 8][..], 2, 3, 1), STRIDED_2D)]
#[case::dilated_2d((&[6, 9][..], 2, 3, 1), DILATED_2D)]
#[case::point_2d((&[4, 3][..], 5, 6, 1), POINT_2D)]
#[case::groups_2d((&[5, 4][..], 6, 4, 2), PLAIN_2D)]
#[case::depthwise_2d((&[5, 4][..], 3, 6, 3), DILATED_2D)]
#[case::plain_3d((&[3, 5, 4][..], 2, 3, 1), PLAIN_3D)]
#[case::groups_3d((&[3, 4, 4][..], 4, 4, 2), PLAIN_3D)]
fn convolutions(#[case] shape: (&[usize], usize, usize, usize), #[case] steps: Steps<'_>) {
    for formats in [("NCX", "OIX"), ("NXC", "XIO"), ("NCX", "XIO"), ("NXC", "OIX")] {
        for (auto_pad, bias) in
            [("None", true), ("SAME_UPPER", false), ("SAME_LOWER", true), ("VALID", false)]
        {
            // Where a dilated window does not fit without padding, there is nothing valid.
            let fits = |i: usize| (steps.0[i] - 1) * (steps.2[i] as usize) < shape.0[i];
            if auto_pad == "VALID" && !(0..shape.0.len()).all(fits) {
                continue;
            }
            let mut case = Case::new();
            convolve(&mut case, shape, steps, auto_pad, formats, bias);
            case.in_steps(1).check();
        }
    }
}

#[rstest]
fn convolutions_on_devices(
    #[values(("NCX", "OIX"), ("NXC", "XIO"))] formats: (&str, &str),
    #[values("None", "SAME_LOWER")] auto_pad: &str,
) {
    let mut case = Case::on_devices();
    convolve(&mut case, (&[6, 9], 4, 6, 2), DILATED_2D, auto_pad, formats, true);
    case.check();
}

/// The bias may be spelled with ones around it.
#[rstest]
#[case::channels_first("NCX", &[1, 4, 1, 1])]
#[case::channels_last("NXC", &[1, 1, 1, 4])]
fn convolution_bias_with_ones(#[case] format: &str, #[case] dims: &[usize]) {
    let mut case = Case::new();
    let (src, weights) = (case.input(&image(1, 3, &[4, 5], format)), case.constant(&[4, 3, 3, 3]));
    let bias = case.constant(dims);
    let attrs = window(PLAIN_2D, "None", format).with("dilations", [1, 1]).with("weights_format", "OIX");
    case.op(OpKind::Convolution, &[src, weights, bias], attrs);
    case.check();
}

#[rstest]
fn pools(
    #[values("NCX", "NXC")] format: &str,
    #[values("None", "SAME_UPPER", "SAME_LOWER", "VALID")] auto_pad: &str,
    #[values("floor", "ceil")] rounding: &str,
    #[values(None, Some(true), Some(false))] exclude_pad: Option<bool>,
) {
    let shapes: [(&[usize], Steps<'_>); 4] = [
        (&[10], (&[3], &[2], &[1], &[1], &[1])),
        (&[6, 7], (&[3, 2], &[2, 2], &[1, 1], &[1, 1], &[1, 0])),
        (&[8, 8], (&[2, 2], &[2, 2], &[1, 1], &[0, 0], &[0, 0])),
        (&[3, 5, 6], (&[2, 3, 3], &[1, 2, 2], &[1, 1, 1], &[1, 1, 0], &[0, 1, 1])),
    ];
    for (i, (spatial, steps)) in shapes.into_iter().enumerate() {
        let mut case = if i == 1 && auto_pad == "None" { Case::on_devices() } else { Case::new() };
        let src = case.input(&image(2, 3, spatial, format));
        let kernel: Vec<i64> = steps.0.iter().map(|&k| k as i64).collect();
        let attrs = window(steps, auto_pad, format).with("kernel", kernel).with("rounding_type", rounding);
        match exclude_pad {
            None => case.op(OpKind::MaxPool, &[src], attrs),
            Some(exclude) => case.op(OpKind::AvgPool, &[src], attrs.with("exclude_pad", exclude)),
        };
        case.in_steps(1).check();
    }
}

#[rstest]
fn dilated_max_pools(#[values("NCX", "NXC")] format: &str, #[values("None", "SAME_UPPER")] auto_pad: &str) {
    let mut case = Case::new();
    let src = case.input(&image(1, 2, &[7, 9], format));
    let attrs = window(DILATED_2D, auto_pad, format).with("kernel", [2, 3]).with("dilations", [3, 2]);
    case.op(OpKind::MaxPool, &[src], attrs);
    case.check();
}

/// Padding never wins, not even against negative numbers.
#[test]
fn max_pool_of_negative_numbers() {
    let mut case = Case::on_devices();
    let src = case.input_of(anydnn::backend::DataType::F32, &[1, 2, 4, 4], |v| v - 2.0);
    let attrs = window((&[3, 3], &[2, 2], &[1, 1], &[1, 1], &[1, 1]), "None", "NCX").with("kernel", [3, 3]);
    case.op(OpKind::MaxPool, &[src], attrs);
    case.check();
}

/// The global average of a classifier.
#[rstest]
fn global_average(#[values("NCX", "NXC")] format: &str) {
    let mut case = Case::new();
    let src = case.input(&image(3, 4, &[5, 5], format));
    let attrs = window((&[5, 5], &[1, 1], &[1, 1], &[0, 0], &[0, 0]), "None", format);
    case.op(OpKind::AvgPool, &[src], attrs.with("kernel", [5, 5]).with("exclude_pad", false));
    case.check();
}

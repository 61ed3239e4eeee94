//! Transposed convolutions, gradients of convolutions and poolings, and interpolation, in every format.

use anydnn::backend::DataType;
use anydnn::graph::{Attrs, LogicalTensor, OpKind as K, TensorId};
use rstest::rstest;

use super::case::Case;

/// Images of one size: samples, channels of the larger image, of the smaller one, groups, and the larger image's spatial dimensions.
struct Shape {
    channels: usize,
    outputs: usize,
    groups: usize,
    kernel: &'static [usize],
    strides: &'static [i64],
    dilations: &'static [i64],
    pads: [&'static [i64]; 2],
    larger: &'static [usize],
    smaller: &'static [usize],
}

const PLAIN_1D: Shape = Shape {
    channels: 3,
    outputs: 4,
    groups: 1,
    kernel: &[3],
    strides: &[1],
    dilations: &[1],
    pads: [&[1], &[0]],
    larger: &[9],
    smaller: &[8],
};
/// The last row and column of the larger image are in no window.
const STRIDED_2D: Shape = Shape {
    channels: 4,
    outputs: 6,
    groups: 2,
    kernel: &[3, 2],
    strides: &[2, 3],
    dilations: &[1, 2],
    pads: [&[1, 0], &[0, 2]],
    larger: &[7, 9],
    smaller: &[3, 3],
};
const PLAIN_3D: Shape = Shape {
    channels: 2,
    outputs: 3,
    groups: 1,
    kernel: &[2, 3, 2],
    strides: &[1, 2, 1],
    dilations: &[1, 1, 1],
    pads: [&[0, 1, 1], &[1, 1, 0]],
    larger: &[3, 5, 4],
    smaller: &[3, 3, 4],
};

impl Shape {
    fn attrs(&self, auto_pad: &str, format: &str, weights_format: &str) -> Attrs {
        Attrs::new()
            .with("strides", self.strides.to_vec())
            .with("dilations", self.dilations.to_vec())
            .with("pads_begin", self.pads[0].to_vec())
            .with("pads_end", self.pads[1].to_vec())
            .with("auto_pad", auto_pad)
            .with("groups", self.groups as i64)
            .with("data_format", format)
            .with("weights_format", weights_format)
    }

    fn larger(&self, format: &str) -> Vec<usize> {
        image(2, self.channels, self.larger, format)
    }

    fn smaller(&self, format: &str) -> Vec<usize> {
        image(2, self.outputs, self.smaller, format)
    }

    /// The weights of the convolution from the larger to the smaller image.
    fn weights(&self, format: &str) -> Vec<usize> {
        filter(self.kernel, self.outputs, self.channels / self.groups, format == "OIX")
    }

    /// The weights of the transposed convolution from the smaller to the larger image, with the channels of one group on either side.
    fn transposed_weights(&self, format: &str, is_whole: bool) -> Vec<usize> {
        let [inputs, outputs] = if is_whole { [1, self.groups] } else { [self.groups, 1] };
        filter(self.kernel, self.outputs / inputs, self.channels / outputs, format == "IOX")
    }
}

fn image(n: usize, c: usize, spatial: &[usize], format: &str) -> Vec<usize> {
    if format == "NCX" { [&[n, c], spatial].concat() } else { [&[n], spatial, &[c]].concat() }
}

fn filter(kernel: &[usize], first: usize, second: usize, channels_first: bool) -> Vec<usize> {
    if channels_first { [&[first, second], kernel].concat() } else { [kernel, &[second, first]].concat() }
}

fn whole(dims: &[usize]) -> Vec<i64> {
    dims.iter().map(|&dim| dim as i64).collect()
}

#[rstest]
#[case::plain_1d(PLAIN_1D)]
#[case::strided_2d(STRIDED_2D)]
#[case::plain_3d(PLAIN_3D)]
fn transposed_convolutions(
    #[case] shape: Shape,
    #[values(("NCX", "IOX"), ("NXC", "XOI"))] formats: (&str, &str),
    #[values("None", "SAME_UPPER", "SAME_LOWER", "VALID")] auto_pad: &str,
    #[values(false, true)] is_whole: bool,
) {
    let on_devices = shape.groups == 2 && auto_pad == "None" && !is_whole;
    let mut case = if on_devices { Case::on_devices() } else { Case::new() };
    let src = case.input(&shape.smaller(formats.0));
    let weights = case.constant(&shape.transposed_weights(formats.1, is_whole));
    let bias = case.constant(&[shape.channels]);
    let attrs = shape
        .attrs(auto_pad, formats.0, formats.1)
        .with("output_padding", shape.strides.iter().map(|s| s - 1).collect::<Vec<_>>());
    case.op(K::ConvTranspose, &[src, weights, bias], attrs);
    case.in_steps(1).check();
}

#[rstest]
fn gradients_of_convolutions(
    #[values(PLAIN_1D, STRIDED_2D, PLAIN_3D)] shape: Shape,
    #[values(("NCX", "OIX"), ("NXC", "XIO"))] formats: (&str, &str),
) {
    let on_devices = shape.groups == 2;
    let new = || if on_devices { Case::on_devices() } else { Case::new() };
    let attrs = shape.attrs("None", formats.0, formats.1);
    let mut case = new();
    let diff = case.input(&shape.smaller(formats.0));
    let weights = case.constant(&shape.weights(formats.1));
    let dst_shape = whole(&shape.larger(formats.0));
    case.op(K::ConvolutionBackwardData, &[diff, weights], attrs.clone().with("dst_shape", dst_shape));
    case.in_steps(1).check();

    let mut case = new();
    let (src, diff) = (case.input(&shape.larger(formats.0)), case.input(&shape.smaller(formats.0)));
    let weights_shape = whole(&shape.weights(formats.1));
    case.op(K::ConvolutionBackwardWeights, &[src, diff], attrs.with("weights_shape", weights_shape));
    case.in_steps(1).check();
}

#[rstest]
fn gradients_of_transposed_convolutions(
    #[values(PLAIN_1D, STRIDED_2D, PLAIN_3D)] shape: Shape,
    #[values(("NCX", "IOX"), ("NXC", "XOI"))] formats: (&str, &str),
    #[values(false, true)] is_whole: bool,
) {
    let on_devices = shape.groups == 2 && formats.0 == "NCX" && !is_whole;
    let new = || if on_devices { Case::on_devices() } else { Case::new() };
    let attrs = shape.attrs("None", formats.0, formats.1);
    let mut case = new();
    let diff = case.input(&shape.larger(formats.0));
    let weights = case.constant(&shape.transposed_weights(formats.1, is_whole));
    case.op(K::ConvTransposeBackwardData, &[diff, weights], attrs.clone());
    case.in_steps(1).check();

    let mut case = new();
    let (src, diff) = (case.input(&shape.smaller(formats.0)), case.input(&shape.larger(formats.0)));
    let weights_shape = whole(&shape.transposed_weights(formats.1, is_whole));
    case.op(K::ConvTransposeBackwardWeights, &[src, diff], attrs.with("weights_shape", weights_shape));
    // Groups come first in the primitive's weights, and second in the graph's where these have one group's inputs.
    case.in_steps(if shape.groups == 1 || is_whole { 1 } else { 3 }).check();
}

/// Both gradients pad as the operation they are of.
#[rstest]
fn gradients_pad_on_the_side_of_their_operation(#[values("SAME_UPPER", "SAME_LOWER")] auto_pad: &str) {
    let shape = Shape { kernel: &[4], larger: &[8], smaller: &[8], ..PLAIN_1D };
    let attrs = shape.attrs(auto_pad, "NCX", "OIX");
    let mut case = Case::new();
    let (src, diff) = (case.input(&shape.larger("NCX")), case.input(&shape.smaller("NCX")));
    let weights = case.constant(&shape.weights("OIX"));
    let dst_shape = whole(&shape.larger("NCX"));
    case.op(K::ConvolutionBackwardData, &[diff, weights], attrs.clone().with("dst_shape", dst_shape));
    let weights_shape = whole(&shape.weights("OIX"));
    case.op(K::ConvolutionBackwardWeights, &[src, diff], attrs.with("weights_shape", weights_shape));
    let attrs = shape.attrs(auto_pad, "NCX", "IOX");
    let weights = case.constant(&shape.transposed_weights("IOX", false));
    case.op(K::ConvTransposeBackwardData, &[src, weights], attrs.clone());
    let weights_shape = whole(&shape.transposed_weights("IOX", false));
    case.op(K::ConvTransposeBackwardWeights, &[diff, src], attrs.with("weights_shape", weights_shape));
    case.check();
}

/// Without a shape the source is the smallest one, with the output padding behind it.
#[test]
fn sources_that_are_not_given_are_the_smallest() {
    let shape = Shape { larger: &[5, 8], ..STRIDED_2D };
    let mut case = Case::new();
    let diff = case.input(&shape.smaller("NCX"));
    let weights = case.constant(&shape.weights("OIX"));
    let attrs = shape.attrs("None", "NCX", "OIX").with("output_padding", [0, 1]);
    let graph = {
        let mut case = Case::new();
        let (diff, weights) = (case.input(&shape.smaller("NCX")), case.constant(&shape.weights("OIX")));
        case.op(K::ConvolutionBackwardData, &[diff, weights], attrs.clone());
        case.g.build().unwrap()
    };
    // (3 - 1) * 2 + 3 - 1 and (3 - 1) * 3 + 3 - 2 + 1
    let inferred = graph.tensor(graph.outputs()[0]).unwrap().known_dims().unwrap().to_vec();
    assert_eq!(inferred, [2, 4, 6, 8]);
    let given = attrs.with("dst_shape", whole(&inferred));
    case.op(K::ConvolutionBackwardData, &[diff, weights], given);
    case.check();
}

/// Shapes may be inputs; the result's own is what counts.
#[test]
fn shapes_from_inputs() {
    let shape = STRIDED_2D;
    let mut case = Case::new();
    let diff = case.input(&shape.smaller("NCX"));
    let weights = case.constant(&shape.weights("OIX"));
    let dims = shape.larger("NCX");
    let given = case.input_of(DataType::S32, &[4], |v| v);
    case.set(given, &dims.iter().map(|&dim| dim as f64).collect::<Vec<_>>());
    let out = case.op(K::ConvolutionBackwardData, &[diff, weights, given], shape.attrs("None", "NCX", "OIX"));
    shaped(&mut case, out, &dims);
    case.check();
}

fn shaped(case: &mut Case, id: TensorId, dims: &[usize]) {
    case.g.add_tensor(LogicalTensor::new(id, DataType::F32, dims.to_vec())).unwrap();
}

#[rstest]
fn gradients_of_poolings(
    #[values("NCX", "NXC")] format: &str,
    #[values("None", "SAME_UPPER", "SAME_LOWER", "VALID")] auto_pad: &str,
    #[values(None, Some(true), Some(false))] exclude_pad: Option<bool>,
) {
    let spatial: &[usize] = &[6, 7];
    let windows: &[usize] = match auto_pad {
        "VALID" => &[2, 3],
        _ => &[3, 4],
    };
    let mut case = if auto_pad == "None" { Case::on_devices() } else { Case::new() };
    let attrs = Attrs::new()
        .with("strides", [2, 2])
        .with("kernel", [3, 2])
        .with("pads_begin", [1, 1])
        .with("pads_end", [1, 0])
        .with("auto_pad", auto_pad)
        .with("data_format", format);
    match exclude_pad {
        None => {
            // Few values: many equal ones.
            let src = case.input_of(DataType::F32, &image(2, 3, spatial, format), |v| (2.0 * v).round());
            let diff = case.input(&image(2, 3, windows, format));
            case.op(K::MaxPoolBackward, &[src, diff], attrs);
        }
        Some(exclude) => {
            let diff = case.input(&image(2, 3, windows, format));
            let attrs =
                attrs.with("exclude_pad", exclude).with("src_shape", whole(&image(2, 3, spatial, format)));
            case.op(K::AvgPoolBackward, &[diff], attrs);
        }
    }
    case.in_steps(1).check();
}

/// As many windows as rounding up makes: the last one goes beyond the source.
#[rstest]
fn gradients_of_poolings_that_rounded_up(#[values(None, Some(true), Some(false))] exclude_pad: Option<bool>) {
    let mut case = Case::new();
    let attrs = Attrs::new()
        .with("strides", [2])
        .with("kernel", [3])
        .with("pads_begin", [1])
        .with("pads_end", [0])
        .with("data_format", "NCX");
    let diff = case.input(&[2, 3, 4]);
    match exclude_pad {
        None => {
            let src = case.input(&[2, 3, 7]);
            case.op(K::MaxPoolBackward, &[src, diff], attrs);
        }
        Some(exclude) => {
            let attrs = attrs.with("exclude_pad", exclude).with("src_shape", [2, 3, 7]);
            case.op(K::AvgPoolBackward, &[diff], attrs);
        }
    }
    case.check();
}

#[rstest]
fn interpolation(
    #[values("NCX", "NXC")] format: &str,
    #[values("nearest", "linear", "bilinear")] mode: &str,
    #[values("half_pixel", "align_corners")] coordinates: &str,
) {
    let on_devices = coordinates == "half_pixel" && format == "NCX" && mode != "linear";
    let new = || if on_devices { Case::on_devices() } else { Case::new() };
    let attrs = Attrs::new()
        .with("mode", mode)
        .with("coordinate_transformation_mode", coordinates)
        .with("data_format", format);
    let mut case = new();
    let src = case.input(&image(2, 3, &[4, 6], format));
    case.op(K::Interpolate, &[src], attrs.clone().with("sizes", [7, 3]));
    case.op(K::Interpolate, &[src], attrs.clone().with("scales", vec![0.5, 1.5]));
    case.check();
    let mut case = new();
    let src = case.input(&image(2, 3, &[4, 6], format));
    let diff = case.input(&image(2, 3, &[7, 3], format));
    case.op(K::InterpolateBackward, &[src, diff], attrs.with("sizes", [7, 3]));
    case.in_steps(1).check();
}

/// What follows rides on the primitive, in one step.
#[test]
fn chains_ride_on_transposed_convolutions_and_interpolation() {
    let mut case = Case::on_devices();
    let shape = PLAIN_1D;
    let (src, weights) =
        (case.input(&shape.smaller("NCX")), case.constant(&shape.transposed_weights("IOX", false)));
    let out = case.op(K::ConvTranspose, &[src, weights], shape.attrs("None", "NCX", "IOX"));
    let bias = case.constant(&[3]);
    let out = case.op(K::BiasAdd, &[out, bias], Attrs::new().with("data_format", "NCX"));
    case.op(K::ReLU, &[out], Attrs::new());
    case.in_steps(1).check();
    let mut case = Case::on_devices();
    let (src, other) = (case.input(&[1, 2, 4]), case.input(&[1, 2, 1]));
    let attrs = Attrs::new().with("mode", "linear").with("sizes", [7]).with("data_format", "NCX");
    let out = case.op(K::Interpolate, &[src], attrs);
    let out = case.op(K::Multiply, &[out, other], Attrs::new());
    case.op(K::Tanh, &[out], Attrs::new());
    case.in_steps(1).check();
}

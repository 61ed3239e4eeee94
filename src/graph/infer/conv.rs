//! Operations with spatial dimensions: convolutions, pools and resampling.

use anydnn_backend::{Dims, Result};

use super::super::op::Op;
use super::window::{Window, list};
use super::{Shapes, bad_attr, bad_shape, channel_axis};

pub(super) fn forward(op: &Op, inputs: &[Dims]) -> Result<Dims> {
    let src = Image::of(op, &inputs[0])?;
    let weights = Kernel::of(op, &inputs[0], &inputs[1])?;
    let groups = groups(op)?;
    check_channels(op, &inputs[0], src.channels, &inputs[1], weights.input, groups)?;
    check_output_channels(op, &inputs[1], weights.output, groups)?;
    check_bias(op, inputs, weights.output)?;
    let window = Window::new(op, &src.spatial, &weights.spatial)?;
    Ok(src.with(op, weights.output, &window.output))
}

pub(super) fn transpose(op: &Op, inputs: &[Dims]) -> Result<Dims> {
    let src = Image::of(op, &inputs[0])?;
    let mut weights = Kernel::of(op, &inputs[0], &inputs[1])?;
    let groups = groups(op)?;
    if weights.input == src.channels {
        weights = weights.with_whole_input(groups);
    }
    check_channels(op, &inputs[0], src.channels, &inputs[1], weights.input, groups)?;
    check_output_channels(op, &inputs[1], weights.output, groups)?;
    check_bias(op, inputs, weights.output)?;
    let window = Window::transposed(op, &src.spatial, &weights.spatial)?;
    Ok(src.with(op, weights.output, &window.output))
}

/// The gradient of a transposed convolution for its source is the convolution of the gradient with the same weights.
pub(super) fn transpose_backward_data(op: &Op, inputs: &[Dims]) -> Result<Dims> {
    let diff_dst = Image::of(op, &inputs[0])?;
    let mut weights = Kernel::of(op, &inputs[0], &inputs[1])?;
    let groups = groups(op)?;
    if weights.output != diff_dst.channels && weights.input.is_multiple_of(groups) {
        weights = weights.with_whole_input(groups);
    }
    if diff_dst.channels != weights.output {
        let expected = format!("{} channels, as weights {} make", weights.output, inputs[1]);
        return Err(bad_shape(op, "diff_dst", &inputs[0], expected));
    }
    check_output_channels(op, &inputs[1], weights.output, groups)?;
    let window = Window::new(op, &diff_dst.spatial, &weights.spatial)?;
    let channels = weights.input.saturating_mul(groups);
    Ok(diff_dst.with(op, channels, &window.output))
}

/// The smallest source of a convolution that has such a result, with `output_padding` behind it.
pub(super) fn backward_data(op: &Op, inputs: &[Dims]) -> Result<Dims> {
    let diff_dst = Image::of(op, &inputs[0])?;
    let weights = Kernel::of(op, &inputs[0], &inputs[1])?;
    if diff_dst.channels != weights.output {
        let expected = format!("{} channels, as weights {} make", weights.output, inputs[1]);
        return Err(bad_shape(op, "diff_dst", &inputs[0], expected));
    }
    let window = Window::transposed(op, &diff_dst.spatial, &weights.spatial)?;
    let channels = weights.input.saturating_mul(groups(op)?);
    Ok(diff_dst.with(op, channels, &window.output))
}

pub(super) fn pool(op: &Op, inputs: &[Dims]) -> Result<Dims> {
    let src = Image::of(op, &inputs[0])?;
    let kernel = list(op, "kernel", src.spatial.len(), 1)?;
    let window = Window::new(op, &src.spatial, &kernel)?;
    Ok(src.with(op, src.channels, &window.output))
}

pub(super) fn interpolate(op: &Op, inputs: &[Dims]) -> Result<Shapes> {
    if inputs.len() > 1 {
        return Ok(None);
    }
    let src = Image::of(op, &inputs[0])?;
    let rank = src.spatial.len();
    let sizes_given = op.attrs.s64s("sizes").is_ok_and(|sizes| !sizes.is_empty());
    let spatial = if sizes_given {
        list(op, "sizes", rank, 1)?
    } else {
        let scales = op.attrs.f32s("scales")?;
        if scales.len() != rank || scales.iter().any(|scale| !scale.is_finite() || *scale <= 0.0) {
            let expected = format!("{rank} positive scales, one for each spatial dimension");
            return Err(bad_attr(op, "scales", format!("{scales:?}"), expected));
        }
        // The product is rounded to f32 before the floor, so that 3 times 1/3 is 1.
        src.spatial
            .iter()
            .zip(scales)
            .map(|(&extent, &scale)| (extent as f32 * scale).floor() as usize)
            .collect()
    };
    Ok(Some(vec![src.with(op, src.channels, &spatial)]))
}

/// An activation tensor taken apart by `data_format`.
struct Image {
    batch: usize,
    channels: usize,
    spatial: Dims,
}

impl Image {
    fn of(op: &Op, dims: &Dims) -> Result<Self> {
        if dims.len() < 3 {
            return Err(bad_shape(op, "src", dims, "a batch, a channel and at least one spatial dimension"));
        }
        let axis = channel_axis(op, dims)?;
        let spatial = (1..dims.len()).filter(|&i| i != axis).map(|i| dims[i]).collect();
        Ok(Self { batch: dims[0], channels: dims[axis], spatial })
    }

    /// The dimensions of a tensor in the same format with other channels and spatial dimensions.
    fn with(&self, op: &Op, channels: usize, spatial: &[usize]) -> Dims {
        let ncx = op.attrs.says("data_format", "NCX");
        let (before, after) = if ncx { (Some(channels), None) } else { (None, Some(channels)) };
        std::iter::once(self.batch).chain(before).chain(spatial.iter().copied()).chain(after).collect()
    }
}

/// Weights taken apart by `weights_format`.
struct Kernel {
    input: usize,
    output: usize,
    spatial: Dims,
}

impl Kernel {
    fn of(op: &Op, src: &Dims, dims: &Dims) -> Result<Self> {
        if dims.len() != src.len() {
            return Err(bad_shape(op, "weights", dims, format!("{} dimensions, as src {src}", src.len())));
        }
        let last = dims.len() - 1;
        let (input, output, spatial) = match op.attrs.string("weights_format")? {
            "OIX" => (dims[1], dims[0], &dims[2..]),
            "IOX" => (dims[0], dims[1], &dims[2..]),
            "XIO" => (dims[last - 1], dims[last], &dims[..last - 1]),
            _ => (dims[last], dims[last - 1], &dims[..last - 1]),
        };
        Ok(Self { input, output, spatial: Dims::new(spatial) })
    }

    /// Weights of a transposed convolution with all input channels and those of one group's output, which oneDNN's library and the
    /// frameworks on it have, as the documented ones with those of one group's input and all output channels.
    fn with_whole_input(self, groups: usize) -> Self {
        let input = self.input.checked_div(groups).unwrap_or(self.input);
        Self { input, output: self.output.saturating_mul(groups), spatial: self.spatial }
    }
}

fn groups(op: &Op) -> Result<usize> {
    let groups = op.attrs.s64("groups")?;
    usize::try_from(groups).map_err(|_| bad_attr(op, "groups", groups, "at least 1"))
}

fn check_channels(
    op: &Op,
    src: &Dims,
    channels: usize,
    weights: &Dims,
    input: usize,
    groups: usize,
) -> Result<()> {
    if input.checked_mul(groups) == Some(channels) {
        return Ok(());
    }
    let expected = format!("{input} input channels of weights {weights} times {groups} groups");
    Err(bad_shape(op, "src", format!("{src} with {channels} channels"), expected))
}

fn check_output_channels(op: &Op, weights: &Dims, output: usize, groups: usize) -> Result<()> {
    if output.is_multiple_of(groups) {
        return Ok(());
    }
    let given = format!("{weights} with {output} output channels");
    Err(bad_shape(op, "weights", given, format!("a multiple of {groups} groups")))
}

fn check_bias(op: &Op, inputs: &[Dims], channels: usize) -> Result<()> {
    match inputs.get(2) {
        Some(bias) if bias.elements() != channels || !bias.iter().all(|&dim| dim == 1 || dim == channels) => {
            Err(bad_shape(op, "bias", bias, format!("{channels}, the output channels")))
        }
        _ => Ok(()),
    }
}

//! Convolutions.

use anydnn_backend::{Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::super::window::{Window, signed, sizes};
use super::{floats, known_ints};
use crate::graph::OpKind;
use crate::model::HostTensor;

pub(super) fn forward(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    Ok(vec![convolved(network, node, &inputs(node)?)?])
}

/// The convolution of source, weights and, if it is there, bias, with a node's attributes.
pub(super) fn convolved(network: &mut Network, node: &Node, operands: &[&Value]) -> Result<Value> {
    convolved_by(network, node, operands, groups(node)?)
}

/// The same with another number of groups.
pub(super) fn convolved_by(
    network: &mut Network,
    node: &Node,
    operands: &[&Value],
    groups: i64,
) -> Result<Value> {
    let (mut window, spatial) = window(node, operands)?;
    window.slide(node, &spatial, false)?;
    let attrs = window
        .attrs()
        .with("dilations", signed(&window.dilations))
        .with("groups", groups)
        .with("weights_format", "OIX");
    network.op(node, OpKind::Convolution, operands, attrs)
}

pub(super) fn transposed(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let operands = inputs(node)?;
    let (mut window, spatial) = window(node, &operands)?;
    let mut extra = sizes(node, "output_padding", spatial.len(), 0, 0)?;
    let wanted =
        if node.has("output_shape") { Some(sizes(node, "output_shape", spatial.len(), 1, 1)?) } else { None };
    window.slide_transposed(node, &spatial, &mut extra, wanted.as_deref())?;
    let attrs = window
        .attrs()
        .with("dilations", signed(&window.dilations))
        .with("output_padding", signed(&extra))
        .with("groups", groups(node)?)
        .with("weights_format", "IOX");
    Ok(vec![network.op(node, OpKind::ConvTranspose, &operands, attrs)?])
}

/// The most elements of the weights that take columns to their places.
const MOST_PLACES: usize = 1 << 20;

/// `Col2Im`: sums of the columns that a convolution reads, at their places in the image. Transposed convolutions do that by weights of
/// which each has a single one.
pub(super) fn columns_to_image(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    let lists = |network: &Network, index: usize, what: &str| -> Result<Vec<usize>> {
        let values = known_ints(network, node, node.input(index)?, what)?;
        let sizes: Option<Vec<usize>> =
            values.iter().map(|&value| usize::try_from(value).ok().filter(|&size| size > 0)).collect();
        sizes.ok_or_else(|| node.invalid(what, format!("{values:?}"), "sizes of at least 1"))
    };
    let (image, kernel) = (lists(network, 1, "the image's sizes")?, lists(network, 2, "the block's sizes")?);
    let count = |sizes: &[usize]| sizes.iter().try_fold(1_usize, |count, &size| count.checked_mul(size));
    let taps = count(&kernel).unwrap_or(usize::MAX);
    let [batch, rows, columns] = src.dims[..] else {
        return Err(node.invalid("input 0", &src.dims, "[batch, rows, columns]"));
    };
    let mut window = Window::new(node, &kernel)?;
    let counts_alike = image.len() == kernel.len() && window.pads_begin.len() == image.len();
    if !counts_alike || !rows.is_multiple_of(taps) || rows == 0 {
        return Err(node.unsupported(format!("blocks of {taps} elements in {rows} rows are not read")));
    }
    window.slide(node, &image, false)?;
    let spatial = window.results(&image);
    if count(&spatial) != Some(columns) || rows.saturating_mul(taps) > MOST_PLACES {
        return Err(node.unsupported(format!("{rows} rows of {columns} columns are not read")));
    }
    // What no window reaches behind the last one.
    let extra = |d: usize| {
        let reach = (kernel[d] - 1) * window.dilations[d] + (spatial[d] - 1) * window.strides[d] + 1;
        image[d].saturating_add(window.pads_begin[d]).saturating_add(window.pads_end[d]) - reach
    };
    let extra: Vec<usize> = (0..image.len()).map(extra).collect();
    let dims: Dims = [batch, rows].into_iter().chain(spatial.iter().copied()).collect();
    let src = network.reshape(node, src, dims)?;
    let ones: Vec<f64> = (0..rows * taps).map(|i| f64::from(u8::from(i / taps % taps == i % taps))).collect();
    let dims: Dims = [rows, 1].into_iter().chain(kernel.iter().copied()).collect();
    let weights = HostTensor::from_f64(dims, src.data_type, &ones)?;
    let weights = network.constant(&format!("{}/places", node.name()), weights)?;
    let attrs = window
        .attrs()
        .with("dilations", signed(&window.dilations))
        .with("output_padding", signed(&extra))
        .with("groups", (rows / taps) as i64)
        .with("weights_format", "IOX");
    Ok(vec![network.op(node, OpKind::ConvTranspose, &[&src, &weights], attrs)?])
}

pub(super) fn groups(node: &Node) -> Result<i64> {
    match node.int("group", 1)? {
        groups if groups > 0 => Ok(groups),
        groups => Err(node.invalid("attribute group", groups, "at least 1")),
    }
}

/// Source, weights and, if it is there, bias.
fn inputs<'a>(node: &'a Node) -> Result<Vec<&'a Value>> {
    let mut inputs = vec![floats(node, 0)?, floats(node, 1)?];
    inputs.extend(node.optional(2));
    Ok(inputs)
}

/// The window, and the spatial dimensions of the source.
fn window(node: &Node, operands: &[&Value]) -> Result<(Window, Dims)> {
    let (src, weights) = (operands[0], operands[1]);
    if src.rank() < 3 || weights.rank() != src.rank() {
        let given = format!("{} and {}", src.dims, weights.dims);
        return Err(node.invalid("source and weights", given, "as many dimensions, at least three"));
    }
    let (spatial, kernel) = (Dims::new(&src.dims[2..]), &weights.dims[2..]);
    if sizes(node, "kernel_shape", kernel.len(), 0, 1)? != kernel && node.has("kernel_shape") {
        return Err(node.invalid(
            "attribute kernel_shape",
            "another",
            format!("that of weights {}", weights.dims),
        ));
    }
    Ok((Window::new(node, kernel)?, spatial))
}

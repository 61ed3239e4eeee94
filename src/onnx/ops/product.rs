//! Matrix products.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::super::tensor::{check_size, dims};
use super::activation::scaled;
use super::{floats, known_ints};
use crate::graph::{Attrs, OpKind};
use crate::model::HostTensor;

/// The most elements of a grid.
const MOST_PLACES: usize = 1 << 24;

pub(super) fn matmul(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (a, b) = (floats(node, 0)?, floats(node, 1)?);
    if let Some(rows) = rows_of_table(network, node, a, b)? {
        return Ok(vec![rows]);
    }
    Ok(vec![network.op(node, OpKind::MatMul, &[a, b], Attrs::new())?])
}

/// What rows with a single one each take from a matrix of constants: the row of their index, and zeros for an index beyond them.
fn rows_of_table(network: &mut Network, node: &Node, hot: &Value, table: &Value) -> Result<Option<Value>> {
    let Some(indices) = indices_of(network, hot) else { return Ok(None) };
    let Some(known) = network.known(table).filter(|known| known.data_type() == DataType::F32) else {
        return Ok(None);
    };
    let [rows, columns] = table.dims[..] else { return Ok(None) };
    let mut values = known.to_f32s();
    // Zero times anything else is no zero.
    if rows != hot.dims[hot.rank() - 1] || values.iter().any(|value| !value.is_finite()) {
        return Ok(None);
    }
    // Indices below zero count from the end: all of them are the last one here, of a row of zeros.
    values.resize(values.len() + columns, 0.0);
    let dims = Dims::from([rows + 1, columns]);
    let table = network.computed(&format!("{}/table", node.name()), dims, &values)?;
    let last = network.scalar(node, -1.0, &indices)?;
    let bounded = network.op(node, OpKind::Maximum, &[&indices, &last], Attrs::new())?;
    let bounded = network.reshape(node, &bounded, Dims::new(&hot.dims[..hot.rank() - 1]))?;
    let attrs = Attrs::new().with("mode", "axis").with("axis", 0_i64);
    network.op(node, OpKind::Gather, &[&table, &bounded], attrs).map(Some)
}

/// The integers, of one column, that the last axis of `hot` tells where they equal 0, 1, 2 and so on.
fn indices_of(network: &Network, hot: &Value) -> Option<Value> {
    let (OpKind::TypeCast, same) = network.maker(hot)? else { return None };
    let (OpKind::Equal, pair) = network.maker(same.first()?)? else { return None };
    let counts = |value: &Value| {
        let counted = value.dims.last() == hot.dims.last() && value.dims.elements() == *hot.dims.last()?;
        let known = network.known(Some(value).filter(|_| counted)?)?;
        known
            .to_f64s()
            .iter()
            .enumerate()
            .all(|(i, &count)| count.to_bits() == (i as f64).to_bits())
            .then_some(())
    };
    let fits = |value: &Value| {
        let (last, outer) = hot.dims.split_last()?;
        let is_column = value.dims.split_last() == Some((&1, outer));
        let integers = matches!(value.data_type, DataType::S32 | DataType::S64);
        (is_column && integers && *last > 1).then(|| value.clone())
    };
    let [a, b] = &pair[..] else { return None };
    counts(b).and_then(|()| fits(a)).or_else(|| counts(a).and_then(|()| fits(b)))
}

/// alpha times the product of two matrices, plus beta times a tensor that broadcasts to it.
#[expect(clippy::float_cmp, reason = "only exactly one leaves the product as it is")]
pub(super) fn gemm(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (a, b) = (floats(node, 0)?, floats(node, 1)?);
    if a.rank() != 2 || b.rank() != 2 {
        return Err(node.invalid("inputs", format!("{} and {}", a.dims, b.dims), "two matrices"));
    }
    let (alpha, beta) = (f64::from(node.float("alpha", 1.0)?), f64::from(node.float("beta", 1.0)?));
    let (trans_a, trans_b) = (node.flag("transA", false)?, node.flag("transB", false)?);
    let attrs = Attrs::new().with("transpose_a", trans_a).with("transpose_b", trans_b);
    let columns = b.dims[usize::from(!trans_b)];
    let bias = match node.optional(2) {
        Some(bias) if beta != 0.0 => Some(scaled(network, node, bias, beta)?),
        _ => None,
    };
    match bias {
        // A vector along the columns is a bias of the product itself.
        Some(bias) if alpha == 1.0 && *bias.dims == [columns] => {
            Ok(vec![network.op(node, OpKind::MatMul, &[a, b, &bias], attrs)?])
        }
        bias => {
            let product = network.op(node, OpKind::MatMul, &[a, b], attrs)?;
            let product = scaled(network, node, &product, alpha)?;
            let Some(bias) = bias else { return Ok(vec![product]) };
            if !bias.dims.broadcasts_to(&product.dims) {
                let expected = format!("dimensions that broadcast to {}", product.dims);
                return Err(node.invalid("input 2", &bias.dims, expected));
            }
            Ok(vec![network.op(node, OpKind::Add, &[&product, &bias], Attrs::new())?])
        }
    }
}

/// `AffineGrid`: the places of an image's elements, from -1 to 1 along each dimension, under affine maps.
pub(super) fn affine_grid(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let maps = floats(node, 0)?;
    let size = dims(&known_ints(network, node, node.input(1)?, "the image's sizes")?, DataType::F64)?;
    let rank = size.len().saturating_sub(2);
    if rank == 0 || *maps.dims != [size[0], rank, rank + 1] {
        let expected = format!("a map for images of {size}");
        return Err(node.invalid("maps", &maps.dims, expected));
    }
    let aligned = node.flag("align_corners", false)?;
    let place = |i: usize, extent: usize| {
        let (i, extent) = (i as f64, extent as f64);
        match (aligned, extent > 1.0) {
            (false, _) => (2.0 * i + 1.0) / extent - 1.0,
            (true, true) => 2.0 * i / (extent - 1.0) - 1.0,
            (true, false) => -1.0,
        }
    };
    let image = Dims::new(&size[2..]);
    check_size(&Dims::from([image.elements(), rank + 1]), DataType::F64)?;
    if image.elements() > MOST_PLACES {
        return Err(node.unsupported(format!("grids of {image} are not made here")));
    }
    let mut places = Vec::with_capacity(image.elements() * (rank + 1));
    for index in image.indices() {
        // Coordinates begin with the last dimension.
        places.extend((0..rank).rev().map(|d| place(index[d], image[d])));
        places.push(1.0);
    }
    let places = HostTensor::from_f64([image.elements(), rank + 1], maps.data_type, &places)?;
    let places = network.constant(&format!("{}/places", node.name()), places)?;
    let attrs = Attrs::new().with("transpose_b", true);
    let grid = network.op(node, OpKind::MatMul, &[&places, maps], attrs)?;
    let dims = [size[0]].into_iter().chain(image.iter().copied()).chain([rank]).collect();
    Ok(vec![network.reshape(node, &grid, dims)?])
}

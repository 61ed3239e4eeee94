//! Resampling: by the graph's operation where that computes the same, else axis by axis.

use anydnn_backend::{DataType, Dims, Error, Result};

use super::super::host::{Lists, Resized};
use super::super::network::{Network, Value};
use super::super::node::Node;
use super::{floats, known_ints};
use crate::graph::{Attrs, OpKind};
use crate::model::HostTensor;

/// With more elements to a sum, a product with a matrix is faster.
const MOST_TAPS: usize = 4;
/// The most elements of such a matrix.
const MOST_WEIGHTS: usize = 1 << 22;

pub(super) fn resize(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    match interpolated(network, node) {
        Err(error) if matches!(error.root(), Error::Unsupported { .. }) => by_axes(network, node),
        made => made,
    }
}

/// Each axis on its own: elements along it by known indices, weighed and summed.
fn by_axes(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let mut made = node.input(0)?.clone();
    let mut lists = Lists::default();
    for (index, list) in
        Lists::inputs(node).into_iter().zip([&mut lists.region, &mut lists.scales, &mut lists.sizes])
    {
        let Some(value) = index.and_then(|index| node.optional(index)) else { continue };
        if value.dims.elements() == 0 {
            continue;
        }
        let Some(tensor) = network.demand(value) else {
            return Err(node.unsupported("scales or sizes are given on execution"));
        };
        *list = Some(tensor.to_f64s());
    }
    for axis in Resized::all(node, &made.dims, lists)? {
        let taps = axis.taps(node)?;
        let Some(taps) = taps.into_iter().collect::<Option<Vec<_>>>() else {
            return Err(node.unsupported("what lies outside of the source is not made on a device"));
        };
        if taps.is_empty() {
            return Err(node.unsupported("a result without elements"));
        }
        let most = taps.iter().map(Vec::len).max().unwrap_or(0);
        let copies =
            taps.iter().all(|taps| matches!(taps[..], [(_, weight)] if weight.to_bits() == 1_f64.to_bits()));
        made = if copies {
            taken(network, node, &made, axis.index, taps.iter().map(|taps| taps[0].0))?
        } else if !made.data_type.is_float() {
            return Err(
                node.unsupported(format!("elements of {} are not weighed on a device", made.data_type))
            );
        } else if taps.iter().any(Vec::is_empty) || most > MOST_TAPS {
            multiplied(network, node, &made, axis.index, &taps)?
        } else {
            weighed(network, node, &made, axis.index, &taps, most)?
        };
    }
    Ok(vec![made])
}

/// Elements along an axis by indices.
fn taken(
    network: &mut Network,
    node: &Node,
    src: &Value,
    axis: usize,
    indices: impl Iterator<Item = usize>,
) -> Result<Value> {
    let indices: Vec<f64> = indices.map(|index| index as f64).collect();
    let indices = HostTensor::from_f64([indices.len()], DataType::S32, &indices)?;
    let indices = network.constant(&format!("{}/indices", node.name()), indices)?;
    let attrs = Attrs::new().with("mode", "axis").with("axis", axis as i64);
    network.op(node, OpKind::Gather, &[src, &indices], attrs)
}

/// The sum of a few elements along an axis for each of the result.
fn weighed(
    network: &mut Network,
    node: &Node,
    src: &Value,
    axis: usize,
    taps: &[Vec<(usize, f64)>],
    most: usize,
) -> Result<Value> {
    let mut taps = taps.to_vec();
    for taps in &mut taps {
        // The last element twice, with half of its weight each time: a weight of zero would make NaN of infinity.
        while taps.len() < most
            && let Some((last, weight)) = taps.last_mut()
        {
            *weight /= 2.0;
            let half = (*last, *weight);
            taps.push(half);
        }
    }
    let mut sum: Option<Value> = None;
    for part in 0..most {
        let some = taken(network, node, src, axis, taps.iter().map(|taps| taps[part].0))?;
        let mut dims = vec![1; src.rank()];
        dims[axis] = taps.len();
        let weights: Vec<f64> = taps.iter().map(|taps| taps[part].1).collect();
        let weights = HostTensor::from_f64(dims, src.data_type, &weights)?;
        let weights = network.constant(&format!("{}/weights", node.name()), weights)?;
        let product = network.op(node, OpKind::Multiply, &[&some, &weights], Attrs::new())?;
        sum = Some(match sum {
            None => product,
            Some(sum) => network.op(node, OpKind::Add, &[&sum, &product], Attrs::new())?,
        });
    }
    sum.ok_or_else(|| node.unsupported("a result without elements"))
}

/// The product with a matrix along an axis.
fn multiplied(
    network: &mut Network,
    node: &Node,
    src: &Value,
    axis: usize,
    taps: &[Vec<(usize, f64)>],
) -> Result<Value> {
    let (rows, columns) = (src.dims[axis], taps.len());
    if rows.saturating_mul(columns) > MOST_WEIGHTS || src.rank() == 0 {
        return Err(node.unsupported(format!("resampling of {rows} elements to {columns} is not read")));
    }
    let mut weights = vec![0.0; rows * columns];
    for (column, taps) in taps.iter().enumerate() {
        for &(row, weight) in taps {
            weights[row * columns + column] += weight;
        }
    }
    let weights = HostTensor::from_f64([rows, columns], src.data_type, &weights)?;
    let weights = network.constant(&format!("{}/weights", node.name()), weights)?;
    let last = src.rank() - 1;
    let mut order: Vec<i64> = (0..src.rank() as i64).collect();
    order.swap(axis, last);
    let swap = |network: &mut Network, value: &Value| {
        if axis == last {
            return Ok(value.clone());
        }
        network.op(node, OpKind::StaticTranspose, &[value], Attrs::new().with("order", order.clone()))
    };
    let turned = swap(network, src)?;
    let mut dims = turned.dims.clone();
    let flat = network.reshape(node, &turned, Dims::from([dims.elements() / rows.max(1), rows]))?;
    let made = network.op(node, OpKind::MatMul, &[&flat, &weights], Attrs::new())?;
    dims[last] = columns;
    let made = network.reshape(node, &made, dims)?;
    swap(network, &made)
}

fn interpolated(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    if node.flag("antialias", false)? || node.ints("axes")?.is_some() {
        return Err(node.unsupported("neither antialiasing nor axes are read"));
    }
    let sizes = sizes(network, node, src)?;
    if src.rank() < 3 || sizes[..2] != src.dims[..2] {
        return Err(node.unsupported(format!(
            "resampling of {} to {sizes:?}: only spatial dimensions are read",
            src.dims
        )));
    }
    let (from, to) = (&src.dims[2..], &sizes[2..]);
    // Before opset 11 there was one way, by whole distances from the origin.
    let (coordinates, rounding) = match node.opset() {
        ..=10 => ("asymmetric".to_owned(), "floor".to_owned()),
        _ => (
            node.word("coordinate_transformation_mode", "half_pixel")?,
            node.word("nearest_mode", "round_prefer_floor")?,
        ),
    };
    let coordinates = match coordinates.as_str() {
        // They differ only where a single element is made.
        "pytorch_half_pixel" if to.iter().all(|&extent| extent > 1) => "half_pixel",
        other => other,
    };
    let whole = from.iter().zip(to).all(|(&from, &to)| from > 0 && to.is_multiple_of(from));
    let (mode, coordinates) = match (node.word("mode", "nearest")?.as_str(), coordinates, rounding.as_str()) {
        // By whole factors every element is repeated, whichever of these says so.
        ("nearest", "half_pixel", "round_prefer_floor" | "round_prefer_ceil")
        | ("nearest", "asymmetric", "floor")
            if whole =>
        {
            ("nearest", "half_pixel")
        }
        ("linear", coordinates @ ("half_pixel" | "align_corners"), _) => match from.len() {
            1 => ("linear", coordinates),
            2 => ("bilinear", coordinates),
            3 => ("trilinear", coordinates),
            _ => return Err(node.unsupported("more than three spatial dimensions are not read")),
        },
        (mode, coordinates, rounding) => {
            let why = format!(
                "mode {mode}, coordinates {coordinates}, rounding {rounding}, {} to {sizes:?}",
                src.dims
            );
            return Err(node.unsupported(format!("this resampling is not read: {why}")));
        }
    };
    let sizes: Vec<i64> = to.iter().map(|&extent| extent as i64).collect();
    let attrs = Attrs::new()
        .with("mode", mode)
        .with("coordinate_transformation_mode", coordinates)
        .with("sizes", sizes)
        .with("data_format", "NCX");
    Ok(vec![network.op(node, OpKind::Interpolate, &[src], attrs)?])
}

/// The dimensions of the result, from sizes or from scales that give whole numbers.
fn sizes(network: &Network, node: &Node, src: &Value) -> Result<Vec<usize>> {
    let given = |index: usize| node.optional(index).filter(|value| value.dims.elements() > 0);
    let scales = if node.opset() < 11 { given(1) } else { given(2) };
    let sizes = if node.opset() < 11 { None } else { given(3) };
    let wrong = |shown: String| {
        node.invalid(
            "sizes or scales",
            shown,
            format!("a positive number for each dimension of {}", src.dims),
        )
    };
    if let Some(sizes) = sizes {
        if node.word("keep_aspect_ratio_policy", "stretch")? != "stretch" {
            return Err(node.unsupported("only sizes that stretch are read"));
        }
        let values = known_ints(network, node, sizes, "sizes")?;
        let sizes: Option<Vec<usize>> =
            values.iter().map(|&size| usize::try_from(size).ok().filter(|size| *size > 0)).collect();
        return sizes.filter(|sizes| sizes.len() == src.rank()).ok_or_else(|| wrong(format!("{values:?}")));
    }
    let scales = match scales {
        Some(scales) => match network.known(scales) {
            Some(scales) => scales.to_f32s(),
            None => return Err(node.unsupported("scales that are given on execution are not read")),
        },
        None => node.floats("scales")?.ok_or_else(|| wrong("missing".into()))?,
    };
    if scales.len() != src.rank() || scales.iter().any(|scale| !(scale.is_finite() && *scale > 0.0)) {
        return Err(wrong(format!("{scales:?}")));
    }
    let sizes: Vec<f32> = src.dims.iter().zip(&scales).map(|(&dim, scale)| dim as f32 * scale).collect();
    if sizes.iter().any(|size| size.fract() != 0.0 || *size < 1.0 || *size > 1e9) {
        // Positions follow from the scale then, and the graph's operation takes them from the sizes.
        return Err(node.unsupported(format!("scales {scales:?} of {} do not give whole sizes", src.dims)));
    }
    Ok(sizes.into_iter().map(|size| size as usize).collect())
}

//! Resampling, where the graph's operation computes the same.

use anydnn_backend::Result;

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::{floats, known_ints};
use crate::graph::{Attrs, OpKind};

pub(super) fn resize(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
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

//! Other numbers of elements along axes, with those in between interpolated.

use anydnn_backend::{Dims, Result};

use super::call::Call;
use super::numbers::around;
use crate::graph::normalize_axis;
use crate::model::HostTensor;
use crate::onnx::node::Node;

/// The most elements of a source that are looked at for the indices along an axis.
const MOST_STEPS: f64 = 8_388_608.0;

/// What inputs say of the result.
#[derive(Debug, Default)]
pub(in crate::onnx) struct Lists {
    pub(in crate::onnx) region: Option<Vec<f64>>,
    pub(in crate::onnx) scales: Option<Vec<f64>>,
    pub(in crate::onnx) sizes: Option<Vec<f64>>,
}

impl Lists {
    /// Which inputs the region, the scales and the sizes are.
    pub(in crate::onnx) fn inputs(node: &Node) -> [Option<usize>; 3] {
        // Before opset 11, and for Upsample, scales are the second input.
        if is_old(node) { [None, Some(1), None] } else { [Some(1), Some(2), Some(3)] }
    }
}

fn is_old(node: &Node) -> bool {
    node.opset() < 11 || node.operator() == "Upsample"
}

/// How one axis is resized.
pub(in crate::onnx) struct Resized {
    pub(in crate::onnx) index: usize,
    extent: usize,
    pub(in crate::onnx) result: usize,
    scale: f64,
    /// The part of the axis that is taken.
    region: (f64, f64),
}

/// For an index of the result, what it is the sum of; none where it lies outside.
pub(in crate::onnx) type Taps = Option<Vec<(usize, f64)>>;

pub(in crate::onnx) fn resize(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let mut dims = src.dims().clone();
    let (mut values, mut outside) = (src.to_f64s(), vec![Vec::new(); dims.len()]);
    let list = |index: Option<usize>| {
        let tensor = index.and_then(|index| call.optional(index));
        tensor.filter(|tensor| tensor.dims().elements() > 0).map(HostTensor::to_f64s)
    };
    let [region, scales, sizes] = Lists::inputs(call.node).map(list);
    for axis in Resized::all(call.node, src.dims(), Lists { region, scales, sizes })? {
        let taps = axis.taps(call.node)?;
        let (outer, extent, inner) = around(&dims, axis.index);
        dims[axis.index] = axis.result;
        call.take(&dims, src.data_type())?;
        let mut made = Vec::with_capacity(dims.elements());
        for o in 0..outer {
            for tap in &taps {
                let parts = tap.as_deref().unwrap_or_default();
                made.extend((0..inner).map(|k| {
                    parts.iter().map(|(i, weight)| weight * values[(o * extent + i) * inner + k]).sum::<f64>()
                }));
            }
        }
        values = made;
        outside[axis.index] = taps.iter().map(Option::is_none).collect();
    }
    if outside.iter().flatten().any(|&outside| outside) {
        let value = f64::from(call.node.float("extrapolation_value", 0.0)?);
        for (index, element) in dims.indices().zip(&mut values) {
            if (0..dims.len()).any(|d| outside[d].get(index[d]).is_some_and(|&outside| outside)) {
                *element = value;
            }
        }
    }
    if src.data_type().is_integer() {
        // Integers are cut off, not rounded.
        values.iter_mut().for_each(|value| *value = (*value + 1e-9).floor());
    }
    call.output(dims, src.data_type(), &values)
}

impl Resized {
    /// The axes that change, from scales or sizes.
    pub(in crate::onnx) fn all(node: &Node, dims: &Dims, lists: Lists) -> Result<Vec<Self>> {
        let rank = dims.len();
        let Lists { region, scales, sizes } = lists;
        let scales = match scales {
            None => node.floats("scales")?.map(|scales| scales.into_iter().map(f64::from).collect()),
            given => given,
        };
        let named = node.ints("axes")?.unwrap_or_else(|| (0..rank as i64).collect());
        let count = named.len();
        let given = scales.as_ref().or(sizes.as_ref()).map_or(0, Vec::len);
        if given != count || region.as_ref().is_some_and(|region| region.len() != 2 * count) {
            return Err(node.invalid("scales or sizes", given, format!("{count} numbers")));
        }
        let axes: Vec<usize> = named.iter().map(|&axis| normalize_axis(axis, rank)).collect::<Result<_>>()?;
        let cropped = node.word("coordinate_transformation_mode", "half_pixel")? == "tf_crop_and_resize";
        let bounds = |i: usize| match &region {
            Some(region) if cropped => (region[i], region[count + i]),
            _ => (0.0, 1.0),
        };
        let mut made = Vec::new();
        for (i, &axis) in axes.iter().enumerate() {
            let extent = dims[axis];
            let (begin, end) = bounds(i);
            let (scale, result) = match (&scales, &sizes) {
                (Some(scales), _) => (scales[i], (extent as f64 * (end - begin) * scales[i]).floor()),
                (_, Some(sizes)) => (sizes[i] / extent as f64, sizes[i]),
                _ => (1.0, extent as f64),
            };
            made.push(Self {
                index: axis,
                extent,
                result: result.max(0.0) as usize,
                scale,
                region: (begin, end),
            });
        }
        let policy = node.word("keep_aspect_ratio_policy", "stretch")?;
        if sizes.is_some() && policy != "stretch" {
            let pick = if policy == "not_larger" { f64::min } else { f64::max };
            let scale = made.iter().map(|axis| axis.scale).reduce(pick).unwrap_or(1.0);
            for axis in &mut made {
                axis.scale = scale;
                axis.result = (scale * axis.extent as f64 + 0.5).floor() as usize;
            }
        }
        if made.iter().any(|axis| axis.extent == 0 || axis.scale.is_nan() || axis.scale <= 0.0) {
            return Err(node.invalid("scales", dims, "positive scales of a tensor that is not empty"));
        }
        let plain = |axis: &Self| {
            axis.result == axis.extent && axis.region == (0.0, 1.0) && (axis.scale - 1.0).abs() < 1e-12
        };
        made.retain(|axis| !plain(axis));
        Ok(made)
    }

    /// What each index along the axis is the sum of.
    pub(in crate::onnx) fn taps(&self, node: &Node) -> Result<Vec<Taps>> {
        let (axis, old) = (self, is_old(node));
        let way =
            node.word("coordinate_transformation_mode", if old { "asymmetric" } else { "half_pixel" })?;
        let rounding = node.word("nearest_mode", if old { "floor" } else { "round_prefer_floor" })?;
        let mode = node.word("mode", "nearest")?;
        let (outside, a) =
            (node.flag("exclude_outside", false)?, f64::from(node.float("cubic_coeff_a", -0.75)?));
        let stretch = if node.flag("antialias", false)? { axis.scale.min(1.0) } else { 1.0 };
        // Elements that are looked at: files may ask for any number.
        if (axis.result as f64) * (2.0 / stretch + 1.0) > MOST_STEPS {
            let why = format!("{} elements resampled to {} are not read", axis.extent, axis.result);
            return Err(node.unsupported(why));
        }
        let last = axis.extent as f64 - 1.0;
        let mut all = Vec::with_capacity(axis.result);
        for i in 0..axis.result {
            let at = source(&way, axis, i as f64);
            if way == "tf_crop_and_resize" && !(0.0..=last).contains(&at) {
                all.push(None);
                continue;
            }
            let taps = match mode.as_str() {
                "nearest" => {
                    let at = match rounding.as_str() {
                        "floor" => at.floor(),
                        "ceil" => at.ceil(),
                        "round_prefer_ceil" => (at + 0.5).floor(),
                        _ => (at - 0.5).ceil(),
                    };
                    vec![(at, 1.0)]
                }
                "linear" | "bilinear" | "trilinear" => {
                    weighed(at, 1.0, stretch, |x| (1.0 - x.abs()).max(0.0))
                }
                "cubic" => weighed(at, 2.0, stretch, |x| cubic(x, a)),
                other => return Err(node.invalid("attribute mode", other, "nearest, linear or cubic")),
            };
            let within = |at: f64| (0.0..=last).contains(&at);
            let cut = outside && taps.iter().any(|(at, _)| !within(*at));
            let mut taps: Vec<(f64, f64)> = taps.into_iter().filter(|(at, _)| !cut || within(*at)).collect();
            if cut || stretch < 1.0 {
                let sum: f64 = taps.iter().map(|(_, weight)| weight).sum();
                taps.iter_mut().for_each(|(_, weight)| *weight /= sum);
            }
            all.push(Some(
                taps.into_iter().map(|(at, weight)| (at.clamp(0.0, last) as usize, weight)).collect(),
            ));
        }
        Ok(all)
    }
}

/// The elements around a place, weighed by their distance; `stretch` below one widens the filter.
fn weighed(at: f64, reach: f64, stretch: f64, filter: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    let span = (reach / stretch).ceil() as i64;
    let base = at.floor();
    let near = (-span..=span + 1).map(|i| base + i as f64);
    near.map(|i| (i, filter((i - at) * stretch))).filter(|(_, weight)| *weight != 0.0).collect()
}

/// Robert Keys' cubic convolution.
pub(super) fn cubic(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}

/// The place in the source of an index of the result.
fn source(way: &str, axis: &Resized, i: f64) -> f64 {
    let (extent, result) = (axis.extent as f64, axis.result as f64);
    let half = (i + 0.5) / axis.scale - 0.5;
    match way {
        "align_corners" | "pytorch_half_pixel" if axis.result == 1 => 0.0,
        "align_corners" => i * (extent - 1.0) / (axis.scale * extent - 1.0),
        "asymmetric" => i / axis.scale,
        "half_pixel_symmetric" => {
            let adjustment = result / (axis.scale * extent);
            extent / 2.0 * (1.0 - adjustment) + half
        }
        "tf_crop_and_resize" if axis.result == 1 => {
            f64::midpoint(axis.region.0, axis.region.1) * (extent - 1.0)
        }
        "tf_crop_and_resize" => {
            let (begin, end) = axis.region;
            begin * (extent - 1.0) + i * (end - begin) * (extent - 1.0) / (result - 1.0)
        }
        _ => half,
    }
}

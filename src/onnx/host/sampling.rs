//! Images read at places between their elements.

use anydnn_backend::{DataType, Dims, Result};

use super::call::Call;
use super::numbers::product;
use super::resize::cubic;
use crate::model::HostTensor;

/// Linear interpolation in an image of two dimensions, with zeros around it.
pub(super) fn between(image: &[f64], (height, width): (usize, usize), y: f64, x: f64) -> f64 {
    let (top, left) = (y.floor(), x.floor());
    let mut sum = 0.0;
    for (row, by) in [(top, 1.0 - (y - top)), (top + 1.0, y - top)] {
        for (column, bx) in [(left, 1.0 - (x - left)), (left + 1.0, x - left)] {
            let inside = (0.0..height as f64).contains(&row) && (0.0..width as f64).contains(&column);
            if inside {
                sum += by * bx * image[row as usize * width + column as usize];
            }
        }
    }
    sum
}

/// What lies outside an image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outside {
    Zeros,
    Border,
    Reflection,
}

/// Images read at the places of a grid, which go from -1 to 1 along each dimension, the last first.
pub(in crate::onnx) fn grid_sample(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (src, grid) = (call.tensor(0)?, call.tensor(1)?);
    let rank = src.dims().len().saturating_sub(2);
    let fits = rank > 0
        && grid.dims().len() == rank + 2
        && grid.dims()[0] == src.dims()[0]
        && grid.dims()[rank + 1] == rank
        && src.dims()[2..].iter().all(|&extent| extent > 0);
    if !fits {
        return Err(call.invalid("grid", grid.desc(), format!("places in the images of {}", src.desc())));
    }
    let outside = match call.node.word("padding_mode", "zeros")?.as_str() {
        "border" => Outside::Border,
        "reflection" => Outside::Reflection,
        _ => Outside::Zeros,
    };
    let aligned = call.node.flag("align_corners", false)?;
    let mode = call.node.word("mode", "linear")?;
    let image = &src.dims()[2..];
    let (batch, channels) = (src.dims()[0], src.dims()[1]);
    let points = product(&grid.dims()[1..=rank]);
    let dims: Dims = [batch, channels].iter().chain(&grid.dims()[1..=rank]).copied().collect();
    call.take(&dims, src.data_type())?;
    let (values, grid) = (src.to_f64s(), grid.to_f64s());
    let (size, strides) = (product(image), Dims::new(image).row_major_strides());
    let mut made = vec![0.0; dims.elements()];
    for n in 0..batch {
        for point in 0..points {
            let place = &grid[(n * points + point) * rank..][..rank];
            // The elements that count, with their weights, one dimension after the other.
            let mut taps = vec![(0, 1.0)];
            for d in 0..rank {
                let extent = image[d];
                let at = located(place[rank - 1 - d], extent, aligned, outside);
                let own = weights(&mode, at);
                let mut next = Vec::with_capacity(taps.len() * own.len());
                for &(base, weight) in &taps {
                    for &(i, part) in &own {
                        if let Some(i) = element(i, extent, aligned, outside) {
                            next.push((base + i * strides[d], weight * part));
                        }
                    }
                }
                taps = next;
            }
            for c in 0..channels {
                let plane = &values[(n * channels + c) * size..][..size];
                made[(n * channels + c) * points + point] =
                    taps.iter().map(|(i, weight)| weight * plane[*i]).sum();
            }
        }
    }
    call.output(dims, src.data_type(), &made)
}

/// The place along a dimension that a number from -1 to 1 means.
fn located(given: f64, extent: usize, aligned: bool, outside: Outside) -> f64 {
    let extent = extent as f64;
    let at = if aligned {
        f64::midpoint(given, 1.0) * (extent - 1.0)
    } else {
        ((given + 1.0) * extent - 1.0) / 2.0
    };
    let (low, high) = bounds(extent, aligned);
    if (low..=high).contains(&at) {
        return at;
    }
    match outside {
        Outside::Zeros => at,
        Outside::Border => at.clamp(0.0, extent - 1.0),
        Outside::Reflection => reflected(at, low, high),
    }
}

fn bounds(extent: f64, aligned: bool) -> (f64, f64) {
    if aligned { (0.0, extent - 1.0) } else { (-0.5, extent - 0.5) }
}

/// A place mirrored at both ends until it lies between them.
fn reflected(at: f64, low: f64, high: f64) -> f64 {
    let span = high - low;
    if span <= 0.0 || !at.is_finite() {
        return low.max(0.0);
    }
    let over = (at - low).rem_euclid(2.0 * span);
    low + if over > span { 2.0 * span - over } else { over }
}

/// The neighbours of a place and their weights.
fn weights(mode: &str, at: f64) -> Vec<(f64, f64)> {
    let base = at.floor();
    match mode {
        "nearest" => vec![(at.round_ties_even(), 1.0)],
        "cubic" | "bicubic" => {
            (-1..3).map(|i| (base + f64::from(i), cubic(base + f64::from(i) - at, -0.75))).collect()
        }
        _ => vec![(base, 1.0 - (at - base)), (base + 1.0, at - base)],
    }
}

/// The element at an index that may lie outside.
fn element(i: f64, extent: usize, aligned: bool, outside: Outside) -> Option<usize> {
    let last = extent as f64 - 1.0;
    if (0.0..=last).contains(&i) {
        return Some(i as usize);
    }
    match outside {
        Outside::Zeros => None,
        Outside::Border => Some(i.clamp(0.0, last) as usize),
        Outside::Reflection => {
            let (low, high) = bounds(extent as f64, aligned);
            Some(reflected(i, low, high).clamp(0.0, last) as usize)
        }
    }
}

/// The places in an image of those of another under affine maps.
pub(in crate::onnx) fn affine_grid(call: &mut Call) -> Result<Vec<HostTensor>> {
    let theta = call.ranked(0, 3)?;
    let size = super::super::tensor::dims(&call.ints(1)?, DataType::F64)?;
    let rank = size.len().saturating_sub(2);
    if rank == 0 || **theta.dims() != [size[0], rank, rank + 1] {
        return Err(call.invalid("size", &size, format!("batch, channels and image for {}", theta.desc())));
    }
    let aligned = call.node.flag("align_corners", false)?;
    let image = Dims::new(&size[2..]);
    let mut dims: Vec<usize> = vec![size[0]];
    dims.extend(image.iter());
    dims.push(rank);
    let dims = Dims::from(dims);
    call.take(&dims, theta.data_type())?;
    let place = |i: usize, extent: usize| {
        let (i, extent) = (i as f64, extent as f64);
        if !aligned {
            (2.0 * i + 1.0) / extent - 1.0
        } else if extent > 1.0 {
            2.0 * i / (extent - 1.0) - 1.0
        } else {
            -1.0
        }
    };
    let maps = theta.to_f64s();
    let mut made = Vec::with_capacity(dims.elements());
    for n in 0..size[0] {
        for index in image.indices() {
            for row in 0..rank {
                let row = &maps[(n * rank + row) * (rank + 1)..][..=rank];
                // Coordinates begin with the last dimension.
                let parts = (0..rank).map(|d| row[d] * place(index[rank - 1 - d], image[rank - 1 - d]));
                made.push(parts.sum::<f64>() + row[rank]);
            }
        }
    }
    call.output(dims, theta.data_type(), &made)
}

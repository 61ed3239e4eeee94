//! Images read at places between their elements.

use anydnn_backend::{DataType, Dims, Result};

use super::call::Call;
use super::numbers::product;
use super::resize::cubic;
use super::stencils::{Planes, Stencils};
use crate::model::HostTensor;

/// Linear interpolation in an image of two dimensions, with zeros around it: the elements and their weights, these times another.
pub(super) fn between(
    stencils: &mut Stencils,
    (height, width): (usize, usize),
    [y, x]: [f64; 2],
    times: f64,
) {
    let (top, left) = (y.floor(), x.floor());
    for (row, by) in [(top, 1.0 - (y - top)), (top + 1.0, y - top)] {
        for (column, bx) in [(left, 1.0 - (x - left)), (left + 1.0, x - left)] {
            let inside = (0.0..height as f64).contains(&row) && (0.0..width as f64).contains(&column);
            if inside {
                stencils.add(row as usize * width + column as usize, times * by * bx);
            }
        }
    }
}

/// What lies outside an image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outside {
    Zeros,
    Border,
    Reflection,
}

/// Places whose elements and weights are held at a time.
const POINTS: usize = 1 << 16;

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
    let kernel = match call.node.word("mode", "linear")?.as_str() {
        "nearest" => Kernel::Nearest,
        "cubic" | "bicubic" => Kernel::Cubic,
        _ => Kernel::Linear,
    };
    let image = &src.dims()[2..];
    let (batch, channels) = (src.dims()[0], src.dims()[1]);
    let points = product(&grid.dims()[1..=rank]);
    let dims: Dims = [batch, channels].iter().chain(&grid.dims()[1..=rank]).copied().collect();
    call.take(&dims, src.data_type())?;
    let (planes, grid) = (Planes::of(src), grid.to_f64s());
    let (size, strides) = (product(image), Dims::new(image).row_major_strides());
    let mut made = planes.zeros(dims.elements());
    // The elements that count, with their weights, one dimension after the other.
    let mut taps: Vec<(usize, f64)> = Vec::new();
    let mut next = Vec::new();
    for (n, start) in (0..batch).flat_map(|n| (0..points).step_by(POINTS).map(move |start| (n, start))) {
        let mut stencils = Stencils::default();
        let count = POINTS.min(points - start);
        for place in grid[(n * points + start) * rank..][..count * rank].chunks_exact(rank) {
            taps.clear();
            taps.push((0, 1.0));
            for d in 0..rank {
                let extent = image[d];
                let at = located(place[rank - 1 - d], extent, aligned, outside);
                next.clear();
                for (i, part) in kernel.weights(at) {
                    let Some(i) = element(i, extent, aligned, outside) else { continue };
                    next.extend(taps.iter().map(|&(base, weight)| (base + i * strides[d], weight * part)));
                }
                std::mem::swap(&mut taps, &mut next);
            }
            taps.iter().for_each(|&(place, weight)| stencils.add(place, weight));
            stencils.end();
        }
        let mut part = planes.like(channels * count);
        planes.apply(n * channels..(n + 1) * channels, size, &stencils, &mut part);
        for c in 0..channels {
            made.put((n * channels + c) * points + start, &part, c * count, count);
        }
    }
    Ok(vec![made.tensor(dims, src.data_type())?])
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

/// Which neighbours of a place count.
#[derive(Clone, Copy)]
enum Kernel {
    Nearest,
    Linear,
    Cubic,
}

impl Kernel {
    /// The neighbours of a place and their weights.
    fn weights(self, at: f64) -> impl Iterator<Item = (f64, f64)> {
        let (base, rest) = (at.floor(), at - at.floor());
        let (count, taps) = match self {
            Self::Nearest => (1, [(at.round_ties_even(), 1.0); 4]),
            Self::Linear => (2, [(base, 1.0 - rest), (base + 1.0, rest), (base, 0.0), (base, 0.0)]),
            Self::Cubic => {
                let tap = |i: f64| (base + i, cubic(base + i - at, -0.75));
                (4, [tap(-1.0), tap(0.0), tap(1.0), tap(2.0)])
            }
        };
        taps.into_iter().take(count)
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

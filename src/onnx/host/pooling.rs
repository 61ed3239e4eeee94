//! Pools.

use anydnn_backend::{Dims, Result};

use super::super::window::{Window, sizes};
use super::call::Call;
use super::convolution::Taps;
use super::numbers::{indices, picked, product};
use super::order::compared;
use crate::model::HostTensor;

/// A window over the images of a tensor.
struct Pool {
    window: Window,
    image: Vec<usize>,
    result: Vec<usize>,
    planes: usize,
    dims: Dims,
    /// What counts as padding behind the image, without what only fills the last window.
    pads_end: Vec<usize>,
}

impl Pool {
    fn of(call: &Call) -> Result<Self> {
        let src = call.tensor(0)?;
        if src.dims().len() < 3 {
            return Err(call.invalid("input 0", src.desc(), "at least three dimensions"));
        }
        let image = src.dims()[2..].to_vec();
        if !call.node.has("kernel_shape") {
            return Err(call.invalid("attribute kernel_shape", "missing", "a list of sizes"));
        }
        let kernel = sizes(call.node, "kernel_shape", image.len(), 1, 1)?;
        let mut window = Window::new(call.node, &kernel)?;
        window.slide(call.node, &image, false)?;
        let pads_end = window.pads_end.clone();
        if call.node.flag("ceil_mode", false)? {
            window = Window::new(call.node, &kernel)?;
            window.slide(call.node, &image, true)?;
        }
        let result = window.results(&image);
        let dims: Dims = src.dims()[..2].iter().chain(&result).copied().collect();
        Ok(Self { window, planes: product(&src.dims()[..2]), image, result, dims, pads_end })
    }
}

/// The greatest element of each window, and where it is.
pub(in crate::onnx) fn max_pool(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let pool = Pool::of(call)?;
    call.take(&pool.dims, src.data_type())?;
    let taps = Taps::new(&pool.window, &pool.image, &pool.result);
    let (image, positions) = (product(&pool.image), product(&pool.result));
    let values = src.to_f64s();
    let mut found = Vec::with_capacity(pool.dims.elements());
    for plane in 0..pool.planes {
        for position in 0..positions {
            let at = |place: usize| values[plane * image + place];
            let better =
                |best: usize, next: usize| if compared(at(next), at(best)).is_gt() { next } else { best };
            let best = taps.of(position).map(|(_, place)| place).reduce(better);
            let best = best.ok_or_else(|| call.unfit(src))?;
            found.push(plane * image + best);
        }
    }
    let mut made = vec![picked(src, pool.dims.clone(), found.iter().copied())?];
    if call.node.outputs() > 1 {
        let columns_first = call.node.flag("storage_order", false)?;
        let index = |&place: &usize| {
            let (plane, mut at) = (place / image, place % image);
            if columns_first {
                // The first spatial dimension runs fastest.
                let (mut index, mut stride) = (Vec::new(), 1);
                for &extent in pool.image.iter().rev() {
                    index.push(at % extent);
                    at /= extent;
                }
                for (i, &extent) in index.iter().rev().zip(&pool.image) {
                    at += i * stride;
                    stride *= extent;
                }
            }
            (plane * image + at) as i64
        };
        let found: Vec<i64> = found.iter().map(index).collect();
        made.push(indices(pool.dims, &found)?);
    }
    Ok(made)
}

pub(in crate::onnx) fn average(call: &mut Call) -> Result<Vec<HostTensor>> {
    let pool = Pool::of(call)?;
    let counts_pads = call.node.flag("count_include_pad", false)?;
    let counts: Vec<f64> = counts(&pool, counts_pads);
    pooled(call, &pool, |position, parts| parts.sum::<f64>() / counts[position])
}

/// How many elements, with or without padding, each window has.
fn counts(pool: &Pool, with_pads: bool) -> Vec<f64> {
    let (window, kernel) = (&pool.window, Dims::new(&pool.window.kernel));
    let inside = |position: &Dims, tap: &Dims| {
        (0..pool.image.len()).all(|d| {
            let at = position[d] * window.strides[d] + tap[d] * window.dilations[d];
            let (first, last) = (window.pads_begin[d], window.pads_begin[d] + pool.image[d]);
            if with_pads { at < last + pool.pads_end[d] } else { (first..last).contains(&at) }
        })
    };
    let count = |position: Dims| kernel.indices().filter(|tap| inside(&position, tap)).count() as f64;
    Dims::new(&pool.result).indices().map(count).collect()
}

/// The root of the sum of powers of each window.
pub(in crate::onnx) fn lp_pool(call: &mut Call) -> Result<Vec<HostTensor>> {
    let pool = Pool::of(call)?;
    let p = call.node.int("p", 2)? as f64;
    pooled(call, &pool, |_, parts| parts.map(|x| x.abs().powf(p)).sum::<f64>().powf(1.0 / p))
}

fn pooled(
    call: &mut Call,
    pool: &Pool,
    of: impl Fn(usize, &mut dyn Iterator<Item = f64>) -> f64,
) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    call.take(&pool.dims, src.data_type())?;
    let taps = Taps::new(&pool.window, &pool.image, &pool.result);
    let (image, values) = (product(&pool.image), src.to_f64s());
    let mut made = Vec::with_capacity(pool.dims.elements());
    for plane in 0..pool.planes {
        for position in 0..product(&pool.result) {
            made.push(of(position, &mut taps.of(position).map(|(_, place)| values[plane * image + place])));
        }
    }
    call.output(pool.dims.clone(), src.data_type(), &made)
}

/// The root of the sum of powers of each channel.
pub(in crate::onnx) fn global_lp(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let rank = src.dims().len();
    if rank < 2 {
        return Err(call.invalid("input 0", src.desc(), "at least two dimensions"));
    }
    let image = product(&src.dims()[2..]);
    let dims: Dims = (0..rank).map(|d| if d < 2 { src.dims()[d] } else { 1 }).collect();
    let p = call.node.int("p", 2)? as f64;
    let of = |part: &[f64]| part.iter().map(|x| x.abs().powf(p)).sum::<f64>().powf(1.0 / p);
    let made: Vec<f64> = src.to_f64s().chunks(image.max(1)).map(of).collect();
    call.output(dims, src.data_type(), &made)
}

/// Elements back to where a pool found them, zeros elsewhere.
pub(in crate::onnx) fn max_unpool(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (src, places) = (call.tensor(0)?, call.ints(1)?);
    let rank = src.dims().len().saturating_sub(2);
    let kernel = sizes(call.node, "kernel_shape", rank, 1, 1)?;
    let window = Window::new(call.node, &kernel)?;
    let mut dims = src.dims().clone();
    for d in 0..rank {
        let full = (dims[2 + d].max(1) - 1).saturating_mul(window.strides[d]).saturating_add(kernel[d]);
        dims[2 + d] = full.saturating_sub(window.pads_begin[d]).saturating_sub(window.pads_end[d]);
    }
    let wanted = match call.optional(2) {
        Some(_) => super::super::tensor::dims(&call.ints(2)?, src.data_type())?,
        None => dims.clone(),
    };
    if wanted.len() != dims.len() || places.len() != src.dims().elements() {
        return Err(call.invalid("output shape", wanted, format!("dimensions like {dims}")));
    }
    call.take(&wanted, src.data_type())?;
    let mut made = vec![0.0; wanted.elements()];
    let (from, to) = (dims.row_major_strides(), wanted.row_major_strides());
    for (value, &place) in src.to_f64s().into_iter().zip(&places) {
        let mut rest = usize::try_from(place).unwrap_or(usize::MAX);
        let mut target = 0;
        for d in 0..dims.len() {
            let at = rest / from[d].max(1);
            rest %= from[d].max(1);
            if at >= wanted[d] {
                return Err(call.invalid("index", place, format!("within {wanted}")));
            }
            target += at * to[d];
        }
        made[target] = value;
    }
    call.output(wanted, src.data_type(), &made)
}

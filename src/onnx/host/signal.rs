//! Fourier transforms.

use std::sync::Arc;

use anydnn_backend::{Dims, Result};
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftDirection, FftPlanner};

use super::call::Call;
use super::numbers::around;
use crate::graph::normalize_axis;
use crate::model::HostTensor;

/// A line of complex numbers.
type Line = Vec<(f64, f64)>;

/// Along an axis; real numbers have one part in the last dimension, complex ones two.
pub(in crate::onnx) fn fourier(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let rank = src.dims().len();
    let given = match (call.int(2)?, call.node.opset() < 20) {
        (Some(axis), _) => axis,
        (None, true) => call.node.int("axis", 1)?,
        (None, false) => -2,
    };
    let axis = normalize_axis(given, rank)?;
    let parts = src.dims().last().copied().unwrap_or(0);
    if axis + 1 >= rank || !(1..=2).contains(&parts) {
        return Err(call.invalid("axis", axis, format!("one before the last of {}", src.desc())));
    }
    let (inverse, onesided) = (call.node.flag("inverse", false)?, call.node.flag("onesided", false)?);
    let extent = src.dims()[axis];
    let length = match call.int(1)? {
        Some(length) => usize::try_from(length).unwrap_or(0),
        // Half a spectrum is that of twice as many numbers, less the two that stand alone.
        None if inverse && onesided => 2 * extent.saturating_sub(1),
        None => extent,
    };
    let half = length / 2 + 1;
    let (count, made_parts) = match (inverse, onesided) {
        (true, true) => (length, 1),
        (false, true) => (half, 2),
        _ => (length, 2),
    };
    let mut dims = src.dims().clone();
    dims[axis] = count;
    dims[rank - 1] = made_parts;
    call.take(&dims, src.data_type())?;
    let (outer, _, inner) = around(&src.dims()[..rank - 1], axis);
    let values = src.to_f64s();
    let mut made = vec![0.0; dims.elements()];
    let transform = Transform::new(length, inverse);
    for o in 0..outer {
        for k in 0..inner {
            let part = |i: usize, part: usize| {
                if i < extent && part < parts {
                    values[((o * extent + i) * inner + k) * parts + part]
                } else {
                    0.0
                }
            };
            let mut line: Line = (0..length).map(|i| (part(i, 0), part(i, 1))).collect();
            if inverse && onesided {
                for i in half..length {
                    line[i] = (line[length - i].0, -line[length - i].1);
                }
            }
            for (i, (real, imaginary)) in transform.of(line, count).into_iter().enumerate() {
                let at = ((o * count + i) * inner + k) * made_parts;
                made[at] = real;
                if made_parts == 2 {
                    made[at + 1] = imaginary;
                }
            }
        }
    }
    call.output(dims, src.data_type(), &made)
}

/// The transform of lines of so many numbers.
struct Transform {
    plan: Arc<dyn Fft<f64>>,
    scale: f64,
}

impl Transform {
    fn new(length: usize, inverse: bool) -> Self {
        let direction = if inverse { FftDirection::Inverse } else { FftDirection::Forward };
        let scale = if inverse { 1.0 / length.max(1) as f64 } else { 1.0 };
        Self { plan: FftPlanner::new().plan_fft(length.max(1), direction), scale }
    }

    /// The first numbers of a line's transform.
    fn of(&self, line: Line, count: usize) -> Line {
        let mut numbers: Vec<Complex<f64>> = line.into_iter().map(|(re, im)| Complex { re, im }).collect();
        if !numbers.is_empty() {
            self.plan.process(&mut numbers);
        }
        let scaled = |number: &Complex<f64>| (number.re * self.scale, number.im * self.scale);
        numbers.iter().take(count).map(scaled).collect()
    }
}

/// Windows that step over signals, each transformed.
pub(in crate::onnx) fn short_time_fourier(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.ranked(0, 3)?;
    let [batch, extent, parts] = [0, 1, 2].map(|i| src.dims()[i]);
    let size = |given: Option<i64>| given.map(|value| usize::try_from(value).unwrap_or(0));
    let step = size(call.int(1)?).unwrap_or(0);
    let length =
        size(call.int(3)?).or(call.optional(2).map(|window| window.dims().elements())).unwrap_or(extent);
    if step == 0 || length == 0 || length > extent || !(1..=2).contains(&parts) {
        let given = format!("{step} and {length}");
        return Err(call.invalid("step and length", given, format!("those of frames of {}", src.desc())));
    }
    let window = call.values_or(2, length, 1.0)?;
    let count = if call.node.flag("onesided", true)? { length / 2 + 1 } else { length };
    let frames = (extent - length) / step + 1;
    let dims = Dims::from([batch, frames, count, 2]);
    call.take(&dims, src.data_type())?;
    let values = src.to_f64s();
    let mut made = Vec::with_capacity(dims.elements());
    let transform = Transform::new(length, false);
    for n in 0..batch {
        for frame in 0..frames {
            let part = |i: usize, part: usize| {
                let at = (n * extent + frame * step + i) * parts + part;
                if part < parts { values[at] * window[i] } else { 0.0 }
            };
            let line: Line = (0..length).map(|i| (part(i, 0), part(i, 1))).collect();
            made.extend(
                transform.of(line, count).into_iter().flat_map(|(real, imaginary)| [real, imaginary]),
            );
        }
    }
    call.output(dims, src.data_type(), &made)
}

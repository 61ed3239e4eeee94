//! Gradients of convolutions: for the source (transposed convolutions) and for the weights, as matrix products.

use anydnn_backend::op::{ConvolutionWeights, Deconvolution};
use anydnn_backend::{Arg, PrimitiveDesc, Result};

use super::Compute;
use super::convolution::{COLUMN_BYTES, Geometry};
use super::element::Float;
use super::epilogue::{Epilogue, produce_dense};
use super::gemm::{Matrix, multiply, multiply_add};
use super::operands::{Operands, Results};
use super::parallel::parallel_chunks;
use super::window::{Window, split};

pub(crate) fn compute<T: Float>(
    op: &Deconvolution,
    operands: &Operands<'_>,
    results: &mut Results<'_, '_>,
) -> Result<()> {
    let desc = operands.desc;
    let (src, dst) = (desc.src().dims(), desc.dst().dims());
    let kernel = desc.find(Arg::Weights).map_or(&[][..], |weights| &weights.dims()[2..]);
    let geometry = Geometry {
        window: Window::new(&dst[2..], kernel, &src[2..], &op.strides, &op.dilations, &op.pads_begin),
        groups: op.groups,
        inputs: dst[1] / op.groups,
        outputs: src[1] / op.groups,
    };
    let epilogue = Epilogue::new(operands)?;
    produce_dense(desc.dst(), results.dst()?, &epilogue, |out: &mut [T]| {
        let (src, weights) = (operands.dense::<T>(Arg::SRC)?, operands.dense::<T>(Arg::Weights)?);
        if src.is_empty() || weights.is_empty() {
            out.fill(T::ZERO);
        } else {
            spread(&geometry, &src, &weights, out);
        }
        Ok(())
    })
}

pub(crate) fn weights<T: Float>(
    op: &ConvolutionWeights,
    operands: &Operands<'_>,
    results: &mut Results<'_, '_>,
) -> Result<()> {
    let (desc, op) = (operands.desc, &op.convolution);
    let (src, dst) = (desc.src().dims(), desc.dst().dims());
    let output = desc.find(Arg::Src(1)).map_or(&[][..], |diff| &diff.dims()[2..]);
    let geometry = Geometry {
        window: Window::new(&src[2..], &dst[2..], output, &op.strides, &op.dilations, &op.pads_begin),
        groups: op.groups,
        inputs: dst[1],
        outputs: dst[0] / op.groups,
    };
    let epilogue = Epilogue::new(operands)?;
    produce_dense(desc.dst(), results.dst()?, &epilogue, |out: &mut [T]| {
        let (src, diff) = (operands.dense::<T>(Arg::Src(0))?, operands.dense::<T>(Arg::Src(1))?);
        let samples = operands.desc.src().dims()[0];
        let block = geometry.outputs * geometry.inputs * geometry.window.taps();
        let one = |(group, out): (usize, &mut [T]), parallel| {
            correlate(&geometry, samples, group, &src, &diff, out, parallel);
        };
        if geometry.groups >= rayon::current_num_threads() {
            parallel_chunks(out, block, |unit, out| one((unit, out), false));
        } else {
            out.chunks_mut(block).enumerate().for_each(|unit| one(unit, true));
        }
        Ok(())
    })
}

/// `[C * taps, O] x [O, pixels]` for some channels at a time, each product added up where its taps lie.
fn spread<T: Float>(geometry: &Geometry, src: &[T], weights: &[T], out: &mut [T]) {
    let Geometry { window, groups, inputs, outputs } = geometry;
    let (taps, pixels, plane) = (window.taps(), window.outputs(), window.inputs());
    let share = (out.len() / plane).div_ceil(2 * rayon::current_num_threads());
    let most = (COLUMN_BYTES / (taps * pixels * size_of::<T>())).clamp(1, *inputs);
    let block = most.min(share);
    parallel_chunks(out, inputs * plane, |unit, out| {
        let source = &src[unit * outputs * pixels..][..outputs * pixels];
        let source =
            Matrix { data: source, rows: *outputs, columns: pixels, row_stride: pixels, column_stride: 1 };
        let filters = &weights[unit % groups * outputs * inputs * taps..][..outputs * inputs * taps];
        parallel_chunks(out, block * plane, |i, out| {
            let rows = out.len() / plane * taps;
            let filters = Matrix {
                data: &filters[i * block * taps..],
                rows,
                columns: *outputs,
                row_stride: 1,
                column_stride: inputs * taps,
            };
            let mut columns = vec![T::ZERO; rows * pixels];
            multiply(&filters, &source, &mut columns, pixels, false);
            for (out, columns) in out.chunks_mut(plane).zip(columns.chunks(taps * pixels)) {
                fold(window, columns, out);
            }
        });
    });
}

/// Adds what each tap has at the output positions to the plane that the window slides over.
fn fold<T: Float>(window: &Window, columns: &[T], plane: &mut [T]) {
    plane.fill(T::ZERO);
    let width = window.output[2];
    for (at, column) in columns.chunks(window.outputs()).enumerate() {
        let tap = split(at, &window.kernel);
        let inside = window.inside(2, tap[2]);
        let Some(first) = window.position(2, inside.start, tap[2]) else { continue };
        for (row, values) in column.chunks(width).enumerate() {
            let (d, h) = (row / window.output[1], row % window.output[1]);
            let Some((d, h)) = window.position(0, d, tap[0]).zip(window.position(1, h, tap[1])) else {
                continue;
            };
            let plane = &mut plane[(d * window.input[1] + h) * window.input[2] + first..];
            let values = &values[inside.clone()];
            if window.strides[2] == 1 {
                plane.iter_mut().zip(values).for_each(|(to, &x)| *to += x);
            } else {
                plane.iter_mut().step_by(window.strides[2]).zip(values).for_each(|(to, &x)| *to += x);
            }
        }
    }
}

/// `[O, pixels] x [pixels, C * taps]` of one group, added up over the samples and some pixels at a time.
fn correlate<T: Float>(
    geometry: &Geometry,
    samples: usize,
    group: usize,
    src: &[T],
    diff: &[T],
    out: &mut [T],
    parallel: bool,
) {
    let Geometry { window, groups, inputs, outputs } = geometry;
    let (depth, pixels) = (inputs * window.taps(), window.outputs());
    out.fill(T::ZERO);
    for sample in 0..samples {
        let unit = sample * groups + group;
        let source = &src[unit * inputs * window.inputs()..][..inputs * window.inputs()];
        let diff = &diff[unit * outputs * pixels..][..outputs * pixels];
        geometry.each_tile(source, parallel, |start, width, columns| {
            let diff = Matrix {
                data: &diff[start..],
                rows: *outputs,
                columns: width,
                row_stride: pixels,
                column_stride: 1,
            };
            let columns =
                Matrix { data: columns, rows: width, columns: depth, row_stride: 1, column_stride: width };
            multiply_add(&diff, &columns, out, depth, parallel);
        });
    }
}

impl Compute for Deconvolution {
    fn implementation(&self, _desc: &PrimitiveDesc) -> &'static str {
        "host:gemm+col2im"
    }

    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        compute::<T>(self, operands, results)
    }

    fn sums_products(&self) -> bool {
        true
    }

    fn bias_axis(&self) -> Option<usize> {
        Some(1)
    }
}

impl Compute for ConvolutionWeights {
    fn implementation(&self, _desc: &PrimitiveDesc) -> &'static str {
        "host:im2col+gemm"
    }

    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        weights::<T>(self, operands, results)
    }
}

#[cfg(test)]
mod tests {
    use crate::compute::tests::{bytes_of, run, values_of};
    use anydnn_backend::op::{Convolution, ConvolutionWeights, Deconvolution};
    use anydnn_backend::{Arg, DataType, MemoryDesc, Op, PrimitiveDesc};

    fn f32(dims: &[usize]) -> MemoryDesc {
        MemoryDesc::new(dims, DataType::F32)
    }

    #[test]
    fn elements_are_spread_and_the_padding_dropped() {
        let op = Deconvolution::new(1).with_strides([2]).with_pads([1], [0]);
        let desc = PrimitiveDesc::builder(Op::Deconvolution(op))
            .src(f32(&[1, 2, 2]))
            .weights(f32(&[2, 1, 3]))
            .bias(f32(&[1]))
            .build()
            .unwrap()
            .resolved_row_major();
        let src = bytes_of(&f32(&[4]), &[1.0, 2.0, 10.0, 0.0]);
        let weights = bytes_of(&f32(&[6]), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let bias = bytes_of(&f32(&[1]), &[100.0]);
        let mut out = vec![0; desc.dst().size()];
        let inputs: [(Arg, &[u8]); 3] = [(Arg::SRC, &src), (Arg::Weights, &weights), (Arg::Bias, &bias)];
        run(&desc, &inputs, &mut [(Arg::DST, &mut out)]).unwrap();
        assert_eq!(values_of(desc.dst(), &out), [152.0, 165.0, 104.0, 106.0]);
    }

    #[test]
    fn gradients_of_weights_add_up_over_samples() {
        let op = ConvolutionWeights::new(Convolution::new(1).with_pads([1], [0]));
        let desc = PrimitiveDesc::builder(Op::ConvolutionWeights(op))
            .src(f32(&[2, 1, 3]))
            .src(f32(&[2, 1, 3]))
            .dst(f32(&[1, 1, 2]))
            .build()
            .unwrap();
        let src = bytes_of(&f32(&[6]), &[1.0, 2.0, 3.0, 1.0, 0.0, 0.0]);
        let diff = bytes_of(&f32(&[6]), &[1.0, 10.0, 100.0, 1000.0, 0.0, 0.0]);
        let mut out = vec![0; 8];
        run(&desc, &[(Arg::Src(0), &src), (Arg::Src(1), &diff)], &mut [(Arg::DST, &mut out)]).unwrap();
        assert_eq!(values_of(desc.dst(), &out), [210.0, 1321.0]);
    }
}

//! Convolutions: as matrix products over unfolded windows, or directly where a channel has a window of its own.

use anydnn_backend::op::Convolution;
use anydnn_backend::{Arg, PrimitiveDesc, Result};

use super::Compute;
use super::element::Float;
use super::epilogue::{Epilogue, produce_dense};
use super::gemm::{Matrix, multiply};
use super::operands::{Operands, Results};
use super::parallel::parallel_chunks;
use super::window::{Window, split};

/// Bytes of unfolded windows that a product works on at a time.
pub(super) const COLUMN_BYTES: usize = 2 << 20;

/// The name of the way a convolution is computed.
pub(crate) fn implementation(op: &Convolution, desc: &PrimitiveDesc) -> &'static str {
    match Geometry::new(op, desc).method() {
        Method::Direct => "host:direct",
        Method::Pointwise => "host:gemm",
        Method::Unfold => "host:im2col+gemm",
    }
}

pub(crate) fn compute<T: Float>(
    op: &Convolution,
    operands: &Operands<'_>,
    results: &mut Results<'_, '_>,
) -> Result<()> {
    let geometry = Geometry::new(op, operands.desc);
    let epilogue = Epilogue::new(operands)?;
    produce_dense(operands.desc.dst(), results.dst()?, &epilogue, |out: &mut [T]| {
        let (src, weights) = (operands.dense::<T>(Arg::SRC)?, operands.dense::<T>(Arg::Weights)?);
        match geometry.method() {
            Method::Direct => geometry.direct(&src, &weights, out),
            Method::Pointwise => geometry.products(&src, &weights, out, Geometry::pointwise),
            Method::Unfold => geometry.products(&src, &weights, out, Geometry::unfolded),
        }
        Ok(())
    })
}

enum Method {
    Direct,
    Pointwise,
    Unfold,
}

/// The shapes of a convolution, by which its gradients go too.
pub(super) struct Geometry {
    pub(super) window: Window,
    pub(super) groups: usize,
    /// Input channels of a group.
    pub(super) inputs: usize,
    /// Output channels of a group.
    pub(super) outputs: usize,
}

impl Geometry {
    fn new(op: &Convolution, desc: &PrimitiveDesc) -> Self {
        let (src, dst) = (desc.src().dims(), desc.dst().dims());
        let kernel = desc.find(Arg::Weights).map_or(&[][..], |weights| &weights.dims()[2..]);
        Self {
            window: Window::new(&src[2..], kernel, &dst[2..], &op.strides, &op.dilations, &op.pads_begin),
            groups: op.groups,
            inputs: src[1] / op.groups,
            outputs: dst[1] / op.groups,
        }
    }

    fn method(&self) -> Method {
        let window = &self.window;
        let pointwise = window.taps() == 1
            && window.strides == [1; 3]
            && window.pads_begin == [0; 3]
            && window.input == window.output;
        match self.inputs {
            1 => Method::Direct,
            _ if pointwise => Method::Pointwise,
            _ => Method::Unfold,
        }
    }

    /// One output channel after another, tap by tap; each reads a single input channel.
    fn direct<T: Float>(&self, src: &[T], weights: &[T], out: &mut [T]) {
        let window = &self.window;
        let channels = self.groups * self.outputs;
        parallel_chunks(out, window.outputs(), |plane, out| {
            let (n, channel) = (plane / channels, plane % channels);
            let source =
                &src[(n * self.groups + channel / self.outputs) * window.inputs()..][..window.inputs()];
            let taps = &weights[channel * window.taps()..][..window.taps()];
            out.fill(T::ZERO);
            for (at, &weight) in taps.iter().enumerate() {
                let tap = split(at, &window.kernel);
                let columns = window.inside(2, tap[2]);
                let Some(first) = window.position(2, columns.start, tap[2]) else { continue };
                for (row, out) in out.chunks_mut(window.output[2]).enumerate() {
                    let (d, h) = (row / window.output[1], row % window.output[1]);
                    let inside = window.position(0, d, tap[0]).zip(window.position(1, h, tap[1]));
                    let Some((d, h)) = inside else { continue };
                    let source = &source[(d * window.input[1] + h) * window.input[2] + first..];
                    let out = &mut out[columns.clone()];
                    if window.strides[2] == 1 {
                        out.iter_mut().zip(source).for_each(|(out, &x)| *out += weight * x);
                    } else {
                        let source = source.iter().step_by(window.strides[2]);
                        out.iter_mut().zip(source).for_each(|(out, &x)| *out += weight * x);
                    }
                }
            }
        });
    }

    /// One matrix product for each sample and group: whole products side by side when there are enough for all threads, else each
    /// on all threads.
    fn products<T: Float>(
        &self,
        src: &[T],
        weights: &[T],
        out: &mut [T],
        product: impl Fn(&Self, &[T], &[T], &mut [T], bool) + Sync,
    ) {
        let source = self.inputs * self.window.inputs();
        let filters = self.outputs * self.inputs * self.window.taps();
        let one = |unit: usize, out: &mut [T], parallel: bool| {
            let group = unit % self.groups;
            product(
                self,
                &src[unit * source..][..source],
                &weights[group * filters..][..filters],
                out,
                parallel,
            );
        };
        let block = self.outputs * self.window.outputs();
        if out.len() / block >= rayon::current_num_threads() {
            parallel_chunks(out, block, |unit, out| one(unit, out, false));
        } else {
            out.chunks_mut(block).enumerate().for_each(|(unit, out)| one(unit, out, true));
        }
    }

    /// `[O, C] x [C, pixels]`
    fn pointwise<T: Float>(&self, src: &[T], weights: &[T], out: &mut [T], parallel: bool) {
        let pixels = self.window.outputs();
        let source =
            Matrix { data: src, rows: self.inputs, columns: pixels, row_stride: pixels, column_stride: 1 };
        multiply(&self.filters(weights), &source, out, pixels, parallel);
    }

    /// `[O, C * taps] x [C * taps, pixels]`, some pixels at a time.
    fn unfolded<T: Float>(&self, src: &[T], weights: &[T], out: &mut [T], parallel: bool) {
        let window = &self.window;
        let (rows, pixels) = (self.inputs * window.taps(), window.outputs());
        self.each_tile(src, parallel, |start, width, columns| {
            let columns = Matrix { data: columns, rows, columns: width, row_stride: width, column_stride: 1 };
            multiply(&self.filters(weights), &columns, &mut out[start..], pixels, parallel);
        });
    }

    /// Unfolds a group's windows, some pixels at a time: `visit` gets the first pixel, how many, and
    /// `[C * taps, pixels]`.
    pub(super) fn each_tile<T: Float>(
        &self,
        src: &[T],
        parallel: bool,
        mut visit: impl FnMut(usize, usize, &[T]),
    ) {
        let window = &self.window;
        let (rows, pixels) = (self.inputs * window.taps(), window.outputs());
        let tile = (COLUMN_BYTES / (rows.max(1) * size_of::<T>())).clamp(16.min(pixels), pixels);
        let mut columns = vec![T::ZERO; rows * tile];
        for start in (0..pixels).step_by(tile.max(1)) {
            let width = tile.min(pixels - start);
            let columns = &mut columns[..rows * width];
            let fill = |row: usize, out: &mut [T]| {
                let (channel, tap) = (row / window.taps(), split(row % window.taps(), &window.kernel));
                unfold(window, &src[channel * window.inputs()..][..window.inputs()], tap, start, out);
            };
            if parallel {
                parallel_chunks(columns, width, fill);
            } else {
                columns.chunks_mut(width).enumerate().for_each(|(row, out)| fill(row, out));
            }
            visit(start, width, columns);
        }
    }

    fn filters<'a, T>(&self, weights: &'a [T]) -> Matrix<'a, T> {
        let depth = self.inputs * self.window.taps();
        Matrix { data: weights, rows: self.outputs, columns: depth, row_stride: depth, column_stride: 1 }
    }
}

/// What a tap sees of a plane at the output positions from `start` on; zeros in the padding.
fn unfold<T: Float>(window: &Window, plane: &[T], tap: [usize; 3], start: usize, out: &mut [T]) {
    let inside = window.inside(2, tap[2]);
    let width = window.output[2];
    let (mut out, mut at) = (out, start);
    while !out.is_empty() {
        let [d, h, w] = split(at, &window.output);
        let (run, rest) = out.split_at_mut((width - w).min(out.len()));
        at += run.len();
        out = rest;
        let row = window.position(0, d, tap[0]).zip(window.position(1, h, tap[1]));
        let (from, to) = (inside.start.clamp(w, w + run.len()), inside.end.clamp(w, w + run.len()));
        let first = window.position(2, from, tap[2]);
        let (Some((d, h)), Some(first), true) = (row, first, from < to) else {
            run.fill(T::ZERO);
            continue;
        };
        let source = &plane[(d * window.input[1] + h) * window.input[2] + first..];
        run[..from - w].fill(T::ZERO);
        run[to - w..].fill(T::ZERO);
        let run = &mut run[from - w..to - w];
        if window.strides[2] == 1 {
            run.copy_from_slice(&source[..run.len()]);
        } else {
            run.iter_mut().zip(source.iter().step_by(window.strides[2])).for_each(|(to, &from)| *to = from);
        }
    }
}

impl Compute for Convolution {
    fn implementation(&self, desc: &PrimitiveDesc) -> &'static str {
        implementation(self, desc)
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

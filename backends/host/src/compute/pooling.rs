//! Maximum and average over windows.

use anydnn_backend::op::{Pooling, PoolingAlgorithm};
use anydnn_backend::{Arg, Error, Result};

use super::Compute;
use super::element::Float;
use super::epilogue::{Epilogue, produce_dense};
use super::operands::{Operands, Results};
use super::parallel::parallel_chunks;
use super::window::{Window, padded, split};

pub(crate) fn compute<T: Float>(
    op: &Pooling,
    operands: &Operands<'_>,
    results: &mut Results<'_, '_>,
) -> Result<()> {
    let (src, dst) = (operands.desc.src().dims(), operands.desc.dst().dims());
    let window = Window::new(&src[2..], &op.kernel, &dst[2..], &op.strides, &op.dilations, &op.pads_begin);
    let pads_end = padded(&op.pads_end, 0);
    let value = match op.algorithm {
        PoolingAlgorithm::Max => max::<T>,
        PoolingAlgorithm::AverageExcludePadding => average_inside::<T>,
        PoolingAlgorithm::AverageIncludePadding => average_padded::<T>,
        other => {
            return Err(Error::unsupported(format!("{other:?} pooling"), "not known to the host backend"));
        }
    };
    let epilogue = Epilogue::new(operands)?;
    produce_dense(operands.desc.dst(), results.dst()?, &epilogue, |out: &mut [T]| {
        let src = operands.dense::<T>(Arg::SRC)?;
        parallel_chunks(out, window.outputs(), |plane, out| {
            let source = &src[plane * window.inputs()..][..window.inputs()];
            for (at, out) in out.iter_mut().enumerate() {
                *out = value(&window, &pads_end, source, split(at, &window.output));
            }
        });
        Ok(())
    })
}

fn max<T: Float>(window: &Window, _: &[usize; 3], source: &[T], at: [usize; 3]) -> T {
    let mut largest = T::from_f64(f64::NEG_INFINITY);
    for_each_inside(window, at, |offset| {
        let value = source[offset];
        // The second condition is true for NaN alone, which then stays.
        #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
        if value > largest || value != value {
            largest = value;
        }
    });
    largest
}

fn average_inside<T: Float>(window: &Window, _: &[usize; 3], source: &[T], at: [usize; 3]) -> T {
    let (mut sum, mut count) = (0.0, 0_usize);
    for_each_inside(window, at, |offset| {
        sum += source[offset].to_f64();
        count += 1;
    });
    T::from_f64(sum / count as f64)
}

fn average_padded<T: Float>(window: &Window, pads_end: &[usize; 3], source: &[T], at: [usize; 3]) -> T {
    let mut sum = 0.0;
    for_each_inside(window, at, |offset| sum += source[offset].to_f64());
    T::from_f64(sum / taps_padded(window, pads_end, at))
}

/// The taps on elements and on padding, of the window at an output position.
pub(super) fn taps_padded(window: &Window, pads_end: &[usize; 3], at: [usize; 3]) -> f64 {
    let taps = |axis: usize| {
        let length = window.pads_begin[axis] + window.input[axis] + pads_end[axis];
        let rest = length.saturating_sub(at[axis] * window.strides[axis]);
        rest.div_ceil(window.dilations[axis]).min(window.kernel[axis]) as f64
    };
    taps(0) * taps(1) * taps(2)
}

/// Visits the places in a plane of the elements under the window at an output position, in row-major order.
pub(super) fn for_each_inside(window: &Window, at: [usize; 3], mut visit: impl FnMut(usize)) {
    let positions = |axis: usize| {
        window.taps_inside(axis, at[axis]).filter_map(move |tap| window.position(axis, at[axis], tap))
    };
    for d in positions(0) {
        for h in positions(1) {
            let row = (d * window.input[1] + h) * window.input[2];
            positions(2).for_each(|w| visit(row + w));
        }
    }
}

impl Compute for Pooling {
    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        compute::<T>(self, operands, results)
    }
}

#[cfg(test)]
mod tests {
    use crate::compute::tests::{assert_close, bytes_of, run, values_of};
    use anydnn_backend::op::{Pooling, PoolingAlgorithm};
    use anydnn_backend::{Arg, DataType, MemoryDesc, Op, PrimitiveDesc};

    fn pool(op: Pooling, src: &[f64]) -> Vec<f64> {
        let src_desc = MemoryDesc::new([1, 1, 1, src.len()], DataType::F32);
        let desc = PrimitiveDesc::builder(Op::Pooling(op))
            .src(src_desc.clone())
            .build()
            .unwrap()
            .resolved_row_major();
        let mut out = vec![0; desc.dst().size()];
        run(&desc, &[(Arg::SRC, &bytes_of(&src_desc, src))], &mut [(Arg::DST, &mut out)]).unwrap();
        values_of(desc.dst(), &out)
    }

    fn op(algorithm: PoolingAlgorithm) -> Pooling {
        Pooling::new(algorithm, [1, 3]).with_strides([1, 2]).with_pads([0, 1], [0, 1])
    }

    #[test]
    fn padding_never_wins_and_counts_only_when_asked() {
        let src = [-4.0, -2.0, -6.0, -8.0, -3.0];
        assert_eq!(pool(op(PoolingAlgorithm::Max), &src), [-2.0, -2.0, -3.0]);
        assert_eq!(
            pool(op(PoolingAlgorithm::AverageExcludePadding), &src),
            [-3.0, -16.0 / 3.0, -5.5].map(|v: f64| f64::from(v as f32))
        );
        assert_eq!(
            pool(op(PoolingAlgorithm::AverageIncludePadding), &src),
            [-2.0, -16.0 / 3.0, -11.0 / 3.0].map(|v: f64| f64::from(v as f32))
        );
    }

    #[test]
    fn rounding_up_clips_the_last_window() {
        let op = Pooling::new(PoolingAlgorithm::AverageIncludePadding, [1, 2])
            .with_strides([1, 2])
            .with_ceil(true);
        assert_eq!(pool(op, &[1.0, 3.0, 5.0]), [2.0, 5.0]);
    }

    #[test]
    fn a_window_far_larger_than_the_source_takes_no_longer() {
        let far = (1_usize << 40) - 1;
        for (algorithm, expected) in [
            (PoolingAlgorithm::Max, 5.0),
            (PoolingAlgorithm::AverageExcludePadding, 3.0),
            (PoolingAlgorithm::AverageIncludePadding, 0.0),
        ] {
            let op = Pooling::new(algorithm, [far, far]).with_pads([far / 2; 2], [far / 2; 2]);
            let out = pool(op, &[1.0, 3.0, 5.0]);
            assert_close(&out, &[expected; 3], 1e-12);
        }
    }

    #[test]
    fn nan_stays() {
        let out = pool(op(PoolingAlgorithm::Max), &[f64::NAN, 1.0, 2.0, 3.0, 4.0]);
        assert!(out[0].is_nan() && out[1..] == [3.0, 4.0], "{out:?}");
    }
}

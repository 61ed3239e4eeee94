//! Gradients of maxima and averages over windows.

use anydnn_backend::op::{PoolingAlgorithm, PoolingBackward};
use anydnn_backend::{Arg, Error, Result};

use super::Compute;
use super::element::Float;
use super::epilogue::{Epilogue, produce_dense};
use super::operands::{Operands, Results};
use super::parallel::parallel_chunks;
use super::pooling::{for_each_inside, taps_padded};
use super::window::{Window, padded, split};

pub(crate) fn compute<T: Float>(
    op: &PoolingBackward,
    operands: &Operands<'_>,
    results: &mut Results<'_, '_>,
) -> Result<()> {
    let op = &op.pooling;
    let (diff, dst) = (operands.desc.src().dims(), operands.desc.dst().dims());
    let window = Window::new(&dst[2..], &op.kernel, &diff[2..], &op.strides, &op.dilations, &op.pads_begin);
    let pads_end = padded(&op.pads_end, 0);
    let spread = match op.algorithm {
        PoolingAlgorithm::Max => to_first_largest::<T>,
        PoolingAlgorithm::AverageExcludePadding => in_parts_inside::<T>,
        PoolingAlgorithm::AverageIncludePadding => in_parts_padded::<T>,
        other => {
            return Err(Error::unsupported(format!("{other:?} pooling"), "not known to the host backend"));
        }
    };
    let epilogue = Epilogue::new(operands)?;
    produce_dense(operands.desc.dst(), results.dst()?, &epilogue, |out: &mut [T]| {
        let diff = operands.dense::<T>(Arg::Src(0))?;
        let src = operands.find_dense::<T>(Arg::Src(1))?;
        parallel_chunks(out, window.inputs(), |plane, out| {
            out.fill(T::ZERO);
            let src = src.as_ref().map_or(&[][..], |src| &src[plane * window.inputs()..][..window.inputs()]);
            let diff = &diff[plane * window.outputs()..][..window.outputs()];
            for (at, &gradient) in diff.iter().enumerate() {
                spread(&window, &pads_end, src, split(at, &window.output), gradient, out);
            }
        });
        Ok(())
    })
}

fn to_first_largest<T: Float>(
    window: &Window,
    _: &[usize; 3],
    src: &[T],
    at: [usize; 3],
    gradient: T,
    out: &mut [T],
) {
    let mut best: Option<usize> = None;
    for_each_inside(window, at, |offset| {
        if best.is_none_or(|best| src[offset] > src[best]) {
            best = Some(offset);
        }
    });
    if let Some(best) = best {
        out[best] += gradient;
    }
}

fn in_parts_inside<T: Float>(
    window: &Window,
    _: &[usize; 3],
    _: &[T],
    at: [usize; 3],
    gradient: T,
    out: &mut [T],
) {
    let count: usize = (0..3).map(|axis| window.taps_inside(axis, at[axis]).len()).product();
    let part = T::from_f64(gradient.to_f64() / count as f64);
    for_each_inside(window, at, |offset| out[offset] += part);
}

fn in_parts_padded<T: Float>(
    window: &Window,
    pads_end: &[usize; 3],
    _: &[T],
    at: [usize; 3],
    gradient: T,
    out: &mut [T],
) {
    let part = T::from_f64(gradient.to_f64() / taps_padded(window, pads_end, at));
    for_each_inside(window, at, |offset| out[offset] += part);
}

impl Compute for PoolingBackward {
    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        compute::<T>(self, operands, results)
    }
}

#[cfg(test)]
mod tests {
    use crate::compute::tests::{bytes_of, run, values_of};
    use anydnn_backend::op::{Pooling, PoolingAlgorithm, PoolingBackward};
    use anydnn_backend::{Arg, DataType, MemoryDesc, Op, PrimitiveDesc};

    #[test]
    fn the_first_of_equal_elements_gets_the_gradient() {
        let tensor = |length: usize| MemoryDesc::new([1, 1, length], DataType::F32);
        let op = PoolingBackward::new(
            Pooling::new(PoolingAlgorithm::Max, [3]).with_strides([2]).with_pads([1], [0]),
        );
        let desc = PrimitiveDesc::builder(Op::PoolingBackward(op))
            .src(tensor(2))
            .src(tensor(4))
            .dst(tensor(4))
            .build()
            .unwrap();
        let diff = bytes_of(&tensor(2), &[1.0, 10.0]);
        let src = bytes_of(&tensor(4), &[-2.0, -2.0, -2.0, -1.0]);
        let mut out = vec![0; 16];
        run(&desc, &[(Arg::Src(0), &diff), (Arg::Src(1), &src)], &mut [(Arg::DST, &mut out)]).unwrap();
        assert_eq!(values_of(desc.dst(), &out), [1.0, 0.0, 0.0, 10.0]);
    }
}

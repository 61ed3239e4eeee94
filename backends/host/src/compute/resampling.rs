//! Other sizes of the spatial dimensions.

use anydnn_backend::op::{Resampling, ResamplingAlgorithm, ResamplingBackward};
use anydnn_backend::{Arg, Error, Result, check_host_memory};

use super::Compute;
use super::element::Float;
use super::epilogue::{Epilogue, produce_dense};
use super::operands::{Operands, Results};
use super::parallel::parallel_chunks;
use super::window::{padded, split};

pub(crate) fn forward<T: Float>(
    op: Resampling,
    operands: &Operands<'_>,
    results: &mut Results<'_, '_>,
) -> Result<()> {
    let (from, to) = (operands.desc.src().dims(), operands.desc.dst().dims());
    let grid = Grid::new(op, &from[2..], &to[2..])?;
    let epilogue = Epilogue::new(operands)?;
    produce_dense(operands.desc.dst(), results.dst()?, &epilogue, |out: &mut [T]| {
        let src = operands.dense::<T>(Arg::SRC)?;
        parallel_chunks(out, grid.outputs(), |plane, out| {
            let src = &src[plane * grid.inputs()..][..grid.inputs()];
            for (at, out) in out.iter_mut().enumerate() {
                let mut sum = 0.0;
                grid.each_source(at, |offset, weight| sum += weight * src[offset].to_f64());
                *out = T::from_f64(sum);
            }
        });
        Ok(())
    })
}

pub(crate) fn backward<T: Float>(
    op: ResamplingBackward,
    operands: &Operands<'_>,
    results: &mut Results<'_, '_>,
) -> Result<()> {
    let (from, to) = (operands.desc.dst().dims(), operands.desc.src().dims());
    let grid = Grid::new(op.resampling, &from[2..], &to[2..])?;
    let epilogue = Epilogue::new(operands)?;
    produce_dense(operands.desc.dst(), results.dst()?, &epilogue, |out: &mut [T]| {
        let diff = operands.dense::<T>(Arg::SRC)?;
        parallel_chunks(out, grid.inputs(), |plane, out| {
            out.fill(T::ZERO);
            for (at, gradient) in diff[plane * grid.outputs()..][..grid.outputs()].iter().enumerate() {
                grid.each_source(at, |offset, weight| out[offset] += T::from_f64(weight * gradient.to_f64()));
            }
        });
        Ok(())
    })
}

/// What each index along each of three dimensions is made of.
struct Grid {
    from: [usize; 3],
    to: [usize; 3],
    /// Two source indices with their weights.
    parts: [Vec<[(usize, f64); 2]>; 3],
}

impl Grid {
    fn new(op: Resampling, from: &[usize], to: &[usize]) -> Result<Self> {
        let (from, to) = (padded(from, 1), padded(to, 1));
        let mut parts = [Vec::new(), Vec::new(), Vec::new()];
        for axis in 0..3 {
            let bytes = to[axis].saturating_mul(size_of::<[(usize, f64); 2]>());
            check_host_memory(bytes, || format!("positions of {} elements", to[axis]))?;
            parts[axis] =
                (0..to[axis]).map(|x| parts_of(op, x, from[axis], to[axis])).collect::<Result<_>>()?;
        }
        Ok(Self { from, to, parts })
    }

    fn inputs(&self) -> usize {
        self.from.iter().product()
    }

    fn outputs(&self) -> usize {
        self.to.iter().product()
    }

    /// Visits the source elements behind a result element, with their weights.
    fn each_source(&self, at: usize, mut visit: impl FnMut(usize, f64)) {
        let at = split(at, &self.to);
        let parts = |axis: usize| self.parts[axis][at[axis]].into_iter().filter(|(_, weight)| *weight != 0.0);
        for (d, in_depth) in parts(0) {
            for (h, in_height) in parts(1) {
                for (w, in_width) in parts(2) {
                    let offset = (d * self.from[1] + h) * self.from[2] + w;
                    visit(offset, in_depth * in_height * in_width);
                }
            }
        }
    }
}

fn parts_of(op: Resampling, x: usize, from: usize, to: usize) -> Result<[(usize, f64); 2]> {
    let position = op.position(x, from, to);
    let last = from.saturating_sub(1);
    // A negative position becomes zero.
    let at = |position: f64| (position as usize).min(last);
    Ok(match op.algorithm {
        ResamplingAlgorithm::Nearest => [(at((position + 0.5).floor()), 1.0), (0, 0.0)],
        ResamplingAlgorithm::Linear => {
            let below = position.floor();
            let part = position - below;
            [(at(below), 1.0 - part), (at(below + 1.0), part)]
        }
        other => {
            return Err(Error::unsupported(format!("{other:?} resampling"), "not known to the host backend"));
        }
    })
}

impl Compute for Resampling {
    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        forward::<T>(*self, operands, results)
    }
}

impl Compute for ResamplingBackward {
    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        backward::<T>(*self, operands, results)
    }
}

#[cfg(test)]
mod tests {
    use crate::compute::tests::{bytes_of, run, values_of};
    use anydnn_backend::op::{Resampling, ResamplingAlgorithm, ResamplingBackward};
    use anydnn_backend::{Arg, DataType, MemoryDesc, Op, PrimitiveDesc};

    fn resample(op: Op, from: usize, to: usize, values: &[f64]) -> Vec<f64> {
        let tensor = |length: usize| MemoryDesc::new([1, 1, length], DataType::F32);
        let desc = PrimitiveDesc::builder(op).src(tensor(from)).dst(tensor(to)).build().unwrap();
        let mut out = vec![0; desc.dst().size()];
        run(&desc, &[(Arg::SRC, &bytes_of(&tensor(from), values))], &mut [(Arg::DST, &mut out)]).unwrap();
        values_of(desc.dst(), &out)
    }

    #[test]
    fn halves_round_up_and_positions_are_clamped() {
        let nearest = Resampling::new(ResamplingAlgorithm::Nearest);
        let linear = Resampling::new(ResamplingAlgorithm::Linear);
        let index = [0.0, 1.0, 2.0, 3.0];
        assert_eq!(resample(Op::Resampling(nearest), 4, 2, &index), [1.0, 3.0]);
        assert_eq!(resample(Op::Resampling(linear), 4, 2, &index), [0.5, 2.5]);
        assert_eq!(resample(Op::Resampling(linear), 2, 4, &index[..2]), [0.0, 0.25, 0.75, 1.0]);
        let back = Op::ResamplingBackward(ResamplingBackward::new(linear));
        assert_eq!(resample(back, 4, 2, &[1.0; 4]), [2.0, 2.0]);
    }
}

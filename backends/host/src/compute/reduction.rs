//! Folds along axes, accumulated in f64.

use anydnn_backend::op::{Reduction, ReductionAlgorithm};
use anydnn_backend::{Arg, Error, Result};

use super::Compute;
use super::element::Float;
use super::epilogue::{Epilogue, produce_dense};
use super::operands::{Operands, Results};
use super::parallel::{parallel_chunks, parallel_map};

/// Elements that one task folds. It does not depend on the number of threads, so that neither do the sums.
const PIECE: usize = 1 << 15;
/// Neighbouring results that one task makes.
const COLUMNS: usize = 512;

pub(crate) fn compute<T: Float>(
    op: Reduction,
    operands: &Operands<'_>,
    results: &mut Results<'_, '_>,
) -> Result<()> {
    let (src, dst) = (operands.desc.src(), operands.desc.dst());
    let epilogue = Epilogue::new(operands)?;
    produce_dense(dst, results.dst()?, &epilogue, |out: &mut [T]| {
        let source = operands.dense::<T>(Arg::SRC)?;
        let count = src.elements() / dst.elements();
        let fold = Fold { source: &source, axes: Axes::new(src.dims(), dst.dims()) };
        let add = |a: f64, b: f64| a + b;
        match op.algorithm {
            ReductionAlgorithm::Sum => fold.run(out, 0.0, add, add, |sum| sum),
            ReductionAlgorithm::Mean => fold.run(out, 0.0, add, add, |sum| sum / count as f64),
            ReductionAlgorithm::Product => fold.run(out, 1.0, |a, b| a * b, |a, b| a * b, |product| product),
            ReductionAlgorithm::Max => fold.run(out, f64::NEG_INFINITY, larger, larger, |max| max),
            ReductionAlgorithm::Min => fold.run(out, f64::INFINITY, smaller, smaller, |min| min),
            ReductionAlgorithm::NormL1 => fold.run(out, 0.0, |a, x| a + x.abs(), add, |sum| sum),
            ReductionAlgorithm::NormL2 => fold.run(out, 0.0, |a, x| a + x * x, add, f64::sqrt),
            other => {
                return Err(Error::unsupported(
                    format!("{other:?} reduction"),
                    "not known to the host backend",
                ));
            }
        }
        Ok(())
    })
}

fn larger(a: f64, b: f64) -> f64 {
    if b > a || b.is_nan() { b } else { a }
}

fn smaller(a: f64, b: f64) -> f64 {
    if b < a || b.is_nan() { b } else { a }
}

/// Neighbouring axes of the source merged into alternately kept and folded ones.
struct Axes {
    /// Length and stride of the kept axes, the innermost of all aside.
    kept: Vec<(usize, usize)>,
    /// Offsets of all combinations of the folded axes, the innermost of all aside.
    folded: Vec<usize>,
    /// The length of the innermost axis.
    inner: usize,
    /// Whether the innermost axis is folded.
    inner_folded: bool,
}

impl Axes {
    fn new(src: &[usize], dst: &[usize]) -> Self {
        let mut merged: Vec<(usize, bool)> = Vec::new();
        for (&dim, &kept) in src.iter().zip(dst).filter(|&(&dim, _)| dim != 1) {
            let folded = dim != kept;
            match merged.last_mut() {
                Some((length, same)) if *same == folded => *length *= dim,
                _ => merged.push((dim, folded)),
            }
        }
        let (inner, inner_folded) = merged.pop().unwrap_or((1, true));
        let mut stride = inner;
        let (mut kept, mut folded) = (Vec::new(), vec![0]);
        for (length, is_folded) in merged.into_iter().rev() {
            if is_folded {
                folded = (0..length).flat_map(|i| folded.iter().map(move |o| i * stride + o)).collect();
            } else {
                kept.insert(0, (length, stride));
            }
            stride *= length;
        }
        Self { kept, folded, inner, inner_folded }
    }

    /// The offset of the `index`-th combination of the kept axes.
    fn start_of(&self, index: usize) -> usize {
        let (mut rest, mut start) = (index, 0);
        for &(length, stride) in self.kept.iter().rev() {
            start += rest % length * stride;
            rest /= length;
        }
        start
    }
}

struct Fold<'a, T> {
    source: &'a [T],
    axes: Axes,
}

impl<T: Float> Fold<'_, T> {
    /// Folds elements into accumulators by `step`, accumulators of parts by `combine`.
    fn run(
        &self,
        out: &mut [T],
        identity: f64,
        step: impl Fn(f64, f64) -> f64 + Sync,
        combine: impl Fn(f64, f64) -> f64 + Sync,
        finish: impl Fn(f64) -> f64 + Sync,
    ) {
        let axes = &self.axes;
        let fold = |values: &[T]| values.iter().fold(identity, |sum, x| step(sum, x.to_f64()));
        if !axes.inner_folded {
            return self.columns(out, identity, &step, &finish);
        }
        let one = |index: usize| {
            let start = axes.start_of(index);
            let run = |offset: usize| &self.source[start + offset..][..axes.inner];
            let total = axes.folded.len() * axes.inner;
            let parts: Vec<f64> = if total <= PIECE {
                axes.folded.iter().map(|&offset| fold(run(offset))).collect()
            } else if let [offset] = axes.folded[..] {
                let pieces: Vec<&[T]> = run(offset).chunks(PIECE).collect();
                parallel_map(pieces.len(), &|i| fold(pieces[i]))
            } else {
                let pieces: Vec<&[usize]> = axes.folded.chunks((PIECE / axes.inner.max(1)).max(1)).collect();
                parallel_map(pieces.len(), &|i| {
                    pieces[i].iter().fold(identity, |sum, &offset| combine(sum, fold(run(offset))))
                })
            };
            finish(parts.into_iter().fold(identity, &combine))
        };
        let together = (PIECE / (axes.folded.len() * axes.inner).max(1)).max(1);
        parallel_chunks(out, together, |i, out| {
            for (j, out) in out.iter_mut().enumerate() {
                *out = T::from_f64(one(i * together + j));
            }
        });
    }

    /// The innermost axis is kept: whole rows are folded element by element.
    fn columns(
        &self,
        out: &mut [T],
        identity: f64,
        step: &(impl Fn(f64, f64) -> f64 + Sync),
        finish: &(impl Fn(f64) -> f64 + Sync),
    ) {
        let axes = &self.axes;
        parallel_chunks(out, axes.inner, |index, out| {
            let start = axes.start_of(index);
            parallel_chunks(out, COLUMNS, |i, out| {
                let mut sums = [identity; COLUMNS];
                for offset in &axes.folded {
                    let row = &self.source[start + offset + i * COLUMNS..];
                    sums[..out.len()].iter_mut().zip(row).for_each(|(sum, x)| *sum = step(*sum, x.to_f64()));
                }
                out.iter_mut().zip(sums).for_each(|(out, sum)| *out = T::from_f64(finish(sum)));
            });
        });
    }
}

impl Compute for Reduction {
    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        compute::<T>(*self, operands, results)
    }
}

#[cfg(test)]
mod tests {
    use crate::compute::tests::{bytes_of, run, values_of};
    use anydnn_backend::op::{Reduction, ReductionAlgorithm};
    use anydnn_backend::{Arg, DataType, MemoryDesc, Op, PrimitiveDesc};
    use proptest::prelude::*;

    fn reduce(algorithm: ReductionAlgorithm, src: &[usize], dst: &[usize], values: &[f64]) -> Vec<f64> {
        let (src, dst) = (MemoryDesc::new(src, DataType::F32), MemoryDesc::new(dst, DataType::F32));
        let desc = PrimitiveDesc::builder(Op::Reduction(Reduction::new(algorithm)))
            .src(src.clone())
            .dst(dst.clone())
            .build()
            .unwrap();
        let mut out = vec![0; dst.size()];
        run(&desc, &[(Arg::SRC, &bytes_of(&src, values))], &mut [(Arg::DST, &mut out)]).unwrap();
        values_of(&dst, &out)
    }

    #[test]
    fn every_fold_by_hand() {
        let values = [1.0, -2.0, 2.0, 4.0];
        for (algorithm, expected) in [
            (ReductionAlgorithm::Sum, 5.0),
            (ReductionAlgorithm::Mean, 1.25),
            (ReductionAlgorithm::Product, -16.0),
            (ReductionAlgorithm::Max, 4.0),
            (ReductionAlgorithm::Min, -2.0),
            (ReductionAlgorithm::NormL1, 9.0),
            (ReductionAlgorithm::NormL2, 5.0),
        ] {
            assert_eq!(reduce(algorithm, &[2, 2], &[1, 1], &values), [expected], "{algorithm:?}");
        }
        assert_eq!(reduce(ReductionAlgorithm::Max, &[2, 2], &[1, 2], &values), [2.0, 4.0]);
        assert_eq!(reduce(ReductionAlgorithm::Max, &[2, 2], &[2, 1], &values), [1.0, 4.0]);
        assert!(reduce(ReductionAlgorithm::Max, &[2, 1], &[1, 1], &[f64::NAN, 1.0])[0].is_nan());
    }

    #[test]
    fn folds_of_nothing_have_their_identity() {
        for (algorithm, expected) in [
            (ReductionAlgorithm::Sum, 0.0),
            (ReductionAlgorithm::Product, 1.0),
            (ReductionAlgorithm::Max, f64::NEG_INFINITY),
            (ReductionAlgorithm::Min, f64::INFINITY),
        ] {
            assert_eq!(reduce(algorithm, &[2, 0], &[2, 1], &[]), [expected; 2]);
            assert_eq!(reduce(algorithm, &[0, 2], &[1, 2], &[]), [expected; 2]);
        }
        assert!(reduce(ReductionAlgorithm::Mean, &[0], &[1], &[])[0].is_nan());
    }

    #[test]
    fn long_folds_split_into_pieces() {
        let values: Vec<f64> = (0..200_000).map(|i| f64::from(i % 7)).collect();
        let sum: f64 = values.iter().sum();
        assert_eq!(reduce(ReductionAlgorithm::Sum, &[200_000], &[1], &values), [sum]);
        // Folded axes on both sides of a kept one.
        let halves = |odd: usize| {
            values.iter().enumerate().filter(|(i, _)| i / 50 % 2 == odd).map(|(_, v)| v).sum::<f64>()
        };
        assert_eq!(
            reduce(ReductionAlgorithm::Sum, &[2000, 2, 50], &[1, 2, 1], &values),
            [halves(0), halves(1)]
        );
    }

    proptest! {
        #[test]
        fn any_axes_fold(dims in proptest::collection::vec(1_usize..5, 1..5), mask in any::<u8>()) {
            let kept: Vec<usize> =
                dims.iter().enumerate().map(|(i, &dim)| if mask >> i & 1 == 1 { 1 } else { dim }).collect();
            let (src, dst) = (anydnn_backend::Dims::new(&dims), anydnn_backend::Dims::new(&kept));
            let values: Vec<f64> = (0..src.elements()).map(|i| (i * 3 % 17) as f64).collect();
            let strides = dst.row_major_strides();
            let mut expected = vec![0.0; dst.elements()];
            for (at, index) in src.indices().enumerate() {
                let to: usize = (0..dims.len()).map(|i| index[i] % kept[i] * strides[i]).sum();
                expected[to] += values[at];
            }
            prop_assert_eq!(reduce(ReductionAlgorithm::Sum, &dims, &kept, &values), expected);
        }
    }
}

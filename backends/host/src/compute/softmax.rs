//! Softmax and its logarithm.

use anydnn_backend::op::Softmax;
use anydnn_backend::{Arg, Result};

use super::element::Float;
use super::epilogue::{Epilogue, produce_dense};
use super::operands::{Operands, Results};
use super::parallel::parallel_chunks;
use super::{CHUNK, Compute};

pub(crate) fn compute<T: Float>(
    op: Softmax,
    operands: &Operands<'_>,
    results: &mut Results<'_, '_>,
) -> Result<()> {
    let dims = operands.desc.src().dims();
    let length = dims[op.axis];
    let inner: usize = dims[op.axis + 1..].iter().product();
    let epilogue = Epilogue::new(operands)?;
    produce_dense(operands.desc.dst(), results.dst()?, &epilogue, |out: &mut [T]| {
        let src = operands.dense::<T>(Arg::SRC)?;
        let block = length * inner;
        let blocks = (CHUNK / block).max(1);
        parallel_chunks(out, blocks * block, |i, out| {
            let src = &src[i * blocks * block..][..out.len()];
            for (src, out) in src.chunks(block).zip(out.chunks_mut(block)) {
                if inner == 1 { row(op, src, out) } else { rows(op, src, out, inner) }
            }
        });
        Ok(())
    })
}

/// One row whose elements are neighbours.
fn row<T: Float>(op: Softmax, src: &[T], out: &mut [T]) {
    let max = src.iter().fold(f64::NEG_INFINITY, |max, x| larger(max, x.to_f64()));
    let mut sum = 0.0;
    for x in src {
        sum += (x.to_f64() - max).exp();
    }
    let last = Last::new(op, max, sum);
    src.iter().zip(out).for_each(|(x, out)| *out = T::from_f64(last.of(x.to_f64())));
}

/// `inner` rows side by side, read in the order of memory.
fn rows<T: Float>(op: Softmax, src: &[T], out: &mut [T], inner: usize) {
    let mut max = vec![f64::NEG_INFINITY; inner];
    for src in src.chunks(inner) {
        max.iter_mut().zip(src).for_each(|(max, x)| *max = larger(*max, x.to_f64()));
    }
    let mut sum = vec![0.0; inner];
    for src in src.chunks(inner) {
        for ((sum, x), max) in sum.iter_mut().zip(src).zip(&max) {
            *sum += (x.to_f64() - max).exp();
        }
    }
    let last: Vec<Last> = max.iter().zip(&sum).map(|(&max, &sum)| Last::new(op, max, sum)).collect();
    for (src, out) in src.chunks(inner).zip(out.chunks_mut(inner)) {
        for ((x, out), last) in src.iter().zip(out).zip(&last) {
            *out = T::from_f64(last.of(x.to_f64()));
        }
    }
}

/// The last step of a row.
#[derive(Clone, Copy)]
enum Last {
    Zero,
    Softmax { max: f64, factor: f64 },
    Log { max: f64, log_sum: f64 },
}

impl Last {
    fn new(op: Softmax, max: f64, sum: f64) -> Self {
        if op.inf_as_zero && max == f64::NEG_INFINITY {
            Self::Zero
        } else if op.log {
            Self::Log { max, log_sum: sum.ln() }
        } else {
            Self::Softmax { max, factor: 1.0 / sum }
        }
    }

    fn of(self, x: f64) -> f64 {
        match self {
            Self::Zero => 0.0,
            Self::Softmax { max, factor } => (x - max).exp() * factor,
            Self::Log { max, log_sum } => x - max - log_sum,
        }
    }
}

/// The larger of two; NaN stays.
fn larger(max: f64, x: f64) -> f64 {
    if x > max || x.is_nan() { x } else { max }
}

impl Compute for Softmax {
    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        compute::<T>(*self, operands, results)
    }
}

#[cfg(test)]
mod tests {
    use crate::compute::tests::{assert_close, bytes_of, run, values_of};
    use anydnn_backend::op::Softmax;
    use anydnn_backend::{Arg, DataType, MemoryDesc, Op, PrimitiveDesc};

    fn softmax(op: Softmax, dims: &[usize], src: &[f64]) -> Vec<f64> {
        let tensor = MemoryDesc::new(dims, DataType::F32);
        let desc =
            PrimitiveDesc::builder(Op::Softmax(op)).src(tensor.clone()).dst(tensor.clone()).build().unwrap();
        let mut out = vec![0; tensor.size()];
        run(&desc, &[(Arg::SRC, &bytes_of(&tensor, src))], &mut [(Arg::DST, &mut out)]).unwrap();
        values_of(&tensor, &out)
    }

    #[test]
    fn rows_and_columns_sum_to_one() {
        let src = [0.0, 2f64.ln(), 1000.0, 1000.0];
        let made = |op| softmax(op, &[2, 2], &src);
        assert_close(&made(Softmax::new(1)), &[1.0 / 3.0, 2.0 / 3.0, 0.5, 0.5], 1e-6);
        assert_close(&made(Softmax::new(0)), &[0.0, 0.0, 1.0, 1.0], 1e-6);
        let third = (1.0_f64 / 3.0).ln();
        let logs = [third, third + 2f64.ln(), -(2f64.ln()), -(2f64.ln())];
        assert_close(&made(Softmax::log(1)), &logs, 1e-6);
    }

    #[test]
    fn a_masked_row_is_nan_or_zeros_as_asked() {
        let masked = [f64::NEG_INFINITY; 2];
        assert!(softmax(Softmax::new(1), &[1, 2], &masked).iter().all(|v| v.is_nan()));
        assert_eq!(softmax(Softmax { inf_as_zero: true, ..Softmax::new(1) }, &[1, 2], &masked), [0.0; 2]);
        assert!(softmax(Softmax::new(1), &[1, 2], &[f64::NAN, 0.0]).iter().all(|v| v.is_nan()));
    }
}

//! Normalisation by the squares around each element.

use anydnn_backend::op::{LocalResponseNormalization, LocalResponseNormalizationBackward};
use anydnn_backend::{Arg, Dims, Result, check_host_memory};

use super::Compute;
use super::element::Float;
use super::epilogue::{Epilogue, produce_dense};
use super::operands::{Operands, Results};
use super::parallel::parallel_chunks;

fn forward<T: Float>(
    op: &LocalResponseNormalization,
    operands: &Operands<'_>,
    results: &mut Results<'_, '_>,
) -> Result<()> {
    let sums = Sums::new(op, operands.desc.dst().dims());
    let epilogue = Epilogue::new(operands)?;
    produce_dense(operands.desc.dst(), results.dst()?, &epilogue, |out: &mut [T]| {
        let src = operands.dense::<T>(Arg::SRC)?;
        sums.check_memory()?;
        parallel_chunks(out, sums.elements(), |image, out| {
            let src = &src[image * sums.elements()..][..sums.elements()];
            let bases = sums.bases(src);
            for ((out, x), base) in out.iter_mut().zip(src).zip(bases) {
                *out = T::from_f64(x.to_f64() * base.powf(-sums.beta));
            }
        });
        Ok(())
    })
}

fn backward<T: Float>(
    op: &LocalResponseNormalizationBackward,
    operands: &Operands<'_>,
    results: &mut Results<'_, '_>,
) -> Result<()> {
    let sums = Sums::new(&op.forward, operands.desc.dst().dims());
    // An element lies in the windows of those whose windows reach it.
    let reached = Sums { before: sums.after.clone(), after: sums.before.clone(), ..sums.clone() };
    let epilogue = Epilogue::new(operands)?;
    produce_dense(operands.desc.dst(), results.dst()?, &epilogue, |out: &mut [T]| {
        let (diff, src) = (operands.dense::<T>(Arg::Src(0))?, operands.dense::<T>(Arg::Src(1))?);
        sums.check_memory()?;
        parallel_chunks(out, sums.elements(), |image, out| {
            let of_image = image * sums.elements()..(image + 1) * sums.elements();
            let (diff, src) = (&diff[of_image.clone()], &src[of_image]);
            let bases = sums.bases(src);
            let part = |i: usize| diff[i].to_f64() * src[i].to_f64() * bases[i].powf(-sums.beta - 1.0);
            let others = reached.over((0..bases.len()).map(part).collect());
            for (i, out) in out.iter_mut().enumerate() {
                let own = diff[i].to_f64() * bases[i].powf(-sums.beta);
                *out = T::from_f64(own - 2.0 * sums.alpha * sums.beta * src[i].to_f64() * others[i]);
            }
        });
        Ok(())
    })
}

/// Sums over windows in one image.
#[derive(Clone)]
struct Sums {
    /// Channels and spatial dimensions.
    dims: Vec<usize>,
    before: Dims,
    after: Dims,
    /// The factor of a sum.
    alpha: f64,
    beta: f64,
    k: f64,
}

impl Sums {
    fn new(op: &LocalResponseNormalization, dims: &[usize]) -> Self {
        Self {
            dims: dims[1..].to_vec(),
            before: op.before.clone(),
            after: op.after.clone(),
            alpha: f64::from(op.alpha) / op.count as f64,
            beta: f64::from(op.beta),
            k: f64::from(op.k),
        }
    }

    fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    fn check_memory(&self) -> Result<()> {
        check_host_memory(self.elements().saturating_mul(3 * size_of::<f64>()), || {
            "sums of squares".to_owned()
        })
    }

    /// What each element is divided by a power of.
    fn bases<T: Float>(&self, src: &[T]) -> Vec<f64> {
        let squares = src.iter().map(|x| x.to_f64() * x.to_f64()).collect();
        let mut sums = self.over(squares);
        for sum in &mut sums {
            *sum = self.k + self.alpha * *sum;
        }
        sums
    }

    /// The sums of `values` over windows: along one dimension after the other.
    fn over(&self, mut values: Vec<f64>) -> Vec<f64> {
        for (axis, &size) in self.dims.iter().enumerate() {
            let (before, after) = (self.before[axis], self.after[axis]);
            if before == 0 && after == 0 {
                continue;
            }
            let inner: usize = self.dims[axis + 1..].iter().product();
            let sum = |i: usize| -> f64 {
                let at = i / inner % size;
                let first = i - at * inner;
                let window = at.saturating_sub(before)..at.saturating_add(after).saturating_add(1).min(size);
                window.map(|j| values[first + j * inner]).sum()
            };
            values = (0..values.len()).map(sum).collect();
        }
        values
    }
}

impl Compute for LocalResponseNormalization {
    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        forward::<T>(self, operands, results)
    }
}

impl Compute for LocalResponseNormalizationBackward {
    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        backward::<T>(self, operands, results)
    }
}

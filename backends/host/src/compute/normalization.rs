//! Layer, root-mean-square and group normalisation by the data's own statistics.

use std::borrow::Cow;

use anydnn_backend::op::{GroupNormalization, LayerNormalization};
use anydnn_backend::{Arg, Result, check_host_memory};

use super::element::Float;
use super::epilogue::{Epilogue, produce_dense};
use super::operands::{Operands, Results};
use super::pack::pack;
use super::parallel::parallel_chunks;
use super::{CHUNK, Compute};

pub(crate) fn layer<T: Float>(
    op: &LayerNormalization,
    operands: &Operands<'_>,
    results: &mut Results<'_, '_>,
) -> Result<()> {
    let (outer, inner) = operands.desc.src().dims().split_at(op.begin_axis);
    let rows: usize = outer.iter().product();
    let factors = Factors::new(operands, 1)?;
    normalize::<T>(operands, results, rows, inner.iter().product(), op.rms, op.epsilon, |_, position| {
        factors.at(position)
    })
}

pub(crate) fn group<T: Float>(
    op: &GroupNormalization,
    operands: &Operands<'_>,
    results: &mut Results<'_, '_>,
) -> Result<()> {
    let dims = operands.desc.src().dims();
    let spatial: usize = dims[2..].iter().product();
    let channels = dims[1] / op.groups;
    let factors = Factors::new(operands, spatial)?;
    let (rows, length) = (dims[0] * op.groups, channels * spatial);
    normalize::<T>(operands, results, rows, length, false, op.epsilon, |row, position| {
        factors.at(row % op.groups * length + position)
    })
}

/// Normalises each of `rows` rows of `length` neighbours; `factors` gives scale and shift of a position in a row.
fn normalize<T: Float>(
    operands: &Operands<'_>,
    results: &mut Results<'_, '_>,
    rows: usize,
    length: usize,
    rms: bool,
    epsilon: f32,
    factors: impl Fn(usize, usize) -> (f64, f64) + Sync,
) -> Result<()> {
    let desc = operands.desc;
    let asked = [Arg::Mean, Arg::Variance].iter().any(|&arg| desc.find(arg).is_some());
    if length == 0 && !asked {
        return Ok(());
    }
    let src = operands.dense::<T>(Arg::SRC)?;
    let room = rows.saturating_mul(size_of::<(f64, f64)>());
    check_host_memory(room, || format!("statistics of {rows} rows"))?;
    let mut statistics = vec![(0.0, 0.0); rows];
    let together = (CHUNK / length.max(1)).max(1);
    parallel_chunks(&mut statistics, together, |i, statistics| {
        for (j, statistics) in statistics.iter_mut().enumerate() {
            *statistics = moments(&src[(i * together + j) * length..][..length], rms);
        }
    });
    let epilogue = Epilogue::new(operands)?;
    produce_dense(desc.dst(), results.dst()?, &epilogue, |out: &mut [T]| {
        parallel_chunks(out, together * length, |i, out| {
            for (j, out) in out.chunks_mut(length).enumerate() {
                let row = i * together + j;
                let (mean, variance) = statistics[row];
                let inverse = 1.0 / (variance + f64::from(epsilon)).sqrt();
                for (position, (x, out)) in src[row * length..].iter().zip(out).enumerate() {
                    let (scale, shift) = factors(row, position);
                    *out = T::from_f64((x.to_f64() - mean) * inverse * scale + shift);
                }
            }
        });
        Ok(())
    })?;
    for (arg, pick) in
        [(Arg::Mean, (|s: &(f64, f64)| s.0) as fn(&(f64, f64)) -> f64), (Arg::Variance, |s: &(f64, f64)| s.1)]
    {
        if let (Some(desc), Some(bytes)) = (desc.find(arg), results.find(arg)) {
            let values: Vec<f64> = statistics.iter().map(pick).collect();
            pack(desc, &values, bytes)?;
        }
    }
    Ok(())
}

/// Mean and biased variance, in two passes; zero and the mean square when `rms`.
fn moments<T: Float>(values: &[T], rms: bool) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = if rms { 0.0 } else { sum(values, |x| x) / count };
    (mean, sum(values, |x| (x - mean) * (x - mean)) / count)
}

/// The sum of a function of the elements, on several accumulators that do not wait for one another.
pub(crate) fn sum<T: Float>(values: &[T], f: impl Fn(f64) -> f64) -> f64 {
    let mut lanes = [0.0; 8];
    let chunks = values.chunks_exact(8);
    let rest: f64 = chunks.remainder().iter().map(|x| f(x.to_f64())).sum();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane += f(x.to_f64()));
    }
    lanes.iter().sum::<f64>() + rest
}

/// Scale and shift, each for a run of positions.
struct Factors<'a> {
    scale: Option<Cow<'a, [f64]>>,
    shift: Option<Cow<'a, [f64]>>,
    run: usize,
}

impl<'a> Factors<'a> {
    fn new(operands: &Operands<'a>, run: usize) -> Result<Self> {
        Ok(Self { scale: operands.find_dense(Arg::Scale)?, shift: operands.find_dense(Arg::Shift)?, run })
    }

    fn at(&self, position: usize) -> (f64, f64) {
        let at = |factors: &Option<Cow<'_, [f64]>>, otherwise: f64| {
            factors.as_ref().map_or(otherwise, |f| f[position / self.run])
        };
        (at(&self.scale, 1.0), at(&self.shift, 0.0))
    }
}

impl Compute for LayerNormalization {
    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        layer::<T>(self, operands, results)
    }
}

impl Compute for GroupNormalization {
    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        group::<T>(self, operands, results)
    }
}

#[cfg(test)]
mod tests {
    use crate::compute::tests::{assert_close, bytes_of, run, values_of};
    use anydnn_backend::op::{BatchNormalization, GroupNormalization, LayerNormalization};
    use anydnn_backend::{Arg, DataType, MemoryDesc, Op, PrimitiveDesc};

    fn f32(dims: &[usize]) -> MemoryDesc {
        MemoryDesc::new(dims, DataType::F32)
    }

    #[test]
    fn layer_normalisation_gives_statistics_too() {
        for stats in [f32(&[2]), f32(&[2, 1])] {
            let desc = PrimitiveDesc::builder(Op::LayerNormalization(LayerNormalization::new(1, 0.0)))
                .src(f32(&[2, 2]))
                .arg(Arg::Scale, f32(&[2]))
                .arg(Arg::Shift, f32(&[2]))
                .arg(Arg::Mean, stats.clone())
                .arg(Arg::Variance, stats.clone())
                .build()
                .unwrap()
                .resolved_row_major();
            let (mut out, mut mean, mut variance) = (vec![0; 16], vec![0; 8], vec![0; 8]);
            let src = bytes_of(&f32(&[4]), &[1.0, 3.0, -2.0, 6.0]);
            let (scale, shift) = (bytes_of(&f32(&[2]), &[1.0, 10.0]), bytes_of(&f32(&[2]), &[0.5, 0.0]));
            run(
                &desc,
                &[(Arg::SRC, &src), (Arg::Scale, &scale), (Arg::Shift, &shift)],
                &mut [(Arg::DST, &mut out), (Arg::Mean, &mut mean), (Arg::Variance, &mut variance)],
            )
            .unwrap();
            assert_eq!(values_of(&f32(&[4]), &out), [-0.5, 10.0, -0.5, 10.0]);
            assert_eq!(values_of(&stats, &mean), [2.0, 2.0]);
            assert_eq!(values_of(&stats, &variance), [1.0, 16.0]);
        }
    }

    #[test]
    fn root_mean_square_subtracts_nothing() {
        let desc = PrimitiveDesc::builder(Op::LayerNormalization(LayerNormalization::rms(0, 0.0)))
            .src(f32(&[2]))
            .build()
            .unwrap()
            .resolved_row_major();
        let mut out = vec![0; 8];
        run(&desc, &[(Arg::SRC, &bytes_of(&f32(&[2]), &[3.0, 4.0]))], &mut [(Arg::DST, &mut out)]).unwrap();
        let root = 12.5_f64.sqrt();
        assert_close(&values_of(&f32(&[2]), &out), &[3.0 / root, 4.0 / root], 1e-6);
    }

    #[test]
    fn groups_have_their_own_statistics_and_channels_their_own_factors() {
        let desc = PrimitiveDesc::builder(Op::GroupNormalization(GroupNormalization::new(2, 0.0)))
            .src(f32(&[1, 4, 1]))
            .arg(Arg::Scale, f32(&[4]))
            .build()
            .unwrap()
            .resolved_row_major();
        let mut out = vec![0; 16];
        let src = bytes_of(&f32(&[4]), &[1.0, 3.0, 10.0, 30.0]);
        let scale = bytes_of(&f32(&[4]), &[1.0, 2.0, 3.0, 4.0]);
        run(&desc, &[(Arg::SRC, &src), (Arg::Scale, &scale)], &mut [(Arg::DST, &mut out)]).unwrap();
        assert_close(&values_of(&f32(&[4]), &out), &[-1.0, 2.0, -3.0, 4.0], 1e-6);
    }

    #[test]
    fn batch_normalisation_takes_given_statistics() {
        let desc = PrimitiveDesc::builder(Op::BatchNormalization(BatchNormalization::new(1.0)))
            .src(f32(&[1, 2, 2]))
            .arg(Arg::Mean, f32(&[2]))
            .arg(Arg::Variance, f32(&[2]))
            .arg(Arg::Shift, f32(&[2]))
            .build()
            .unwrap()
            .resolved_row_major();
        let mut out = vec![0; 16];
        let src = bytes_of(&f32(&[4]), &[1.0, 2.0, 3.0, 4.0]);
        let (mean, variance) = (bytes_of(&f32(&[2]), &[1.0, 2.0]), bytes_of(&f32(&[2]), &[3.0, 0.0]));
        let shift = bytes_of(&f32(&[2]), &[0.0, 100.0]);
        run(
            &desc,
            &[(Arg::SRC, &src), (Arg::Mean, &mean), (Arg::Variance, &variance), (Arg::Shift, &shift)],
            &mut [(Arg::DST, &mut out)],
        )
        .unwrap();
        assert_close(&values_of(&f32(&[4]), &out), &[0.0, 0.5, 101.0, 102.0], 1e-6);
    }

    #[test]
    fn many_rows_of_nothing_are_nothing() {
        let tensor = MemoryDesc::new([1 << 40, 0], DataType::F32);
        let op = Op::LayerNormalization(LayerNormalization::new(1, 0.0));
        let desc = PrimitiveDesc::builder(op).src(tensor.clone()).dst(tensor).build().unwrap();
        run(&desc, &[(Arg::SRC, &[])], &mut [(Arg::DST, &mut [])]).unwrap();
    }
}

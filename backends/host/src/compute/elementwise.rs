//! Operations whose elements do not depend on one another, computed in cache-sized pieces without whole temporaries.

use anydnn_backend::op::{BatchNormalization, Binary, Op};
use anydnn_backend::{Arg, DataType, Error, MemoryDesc, Result};

use super::element::Real;
use super::epilogue::{Epilogue, produce};
use super::operands::{Operands, Results};
use super::view::View;
use super::{CHUNK, concat};

/// Computes an elementwise operation or a concatenation.
pub(crate) fn compute<T: Real>(operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
    let desc = operands.desc;
    let epilogue = Epilogue::new(operands)?;
    let (dst, bytes) = (desc.dst(), results.dst()?);
    match desc.op() {
        Op::Reorder => {
            let src = operands.view(Arg::SRC)?;
            produce(dst, bytes, &epilogue, |start, values: &mut [T]| src.load(start, values))
        }
        Op::Eltwise(function) => {
            let src = operands.view(Arg::SRC)?;
            produce(dst, bytes, &epilogue, |start, values: &mut [T]| {
                src.load(start, values);
                T::eltwise(*function, values);
            })
        }
        Op::Binary(Binary { algorithm }) => {
            let (a, b) = (operands.view(Arg::Src(0))?, operands.view(Arg::Src(1))?);
            produce(dst, bytes, &epilogue, |start, values: &mut [T]| {
                a.load(start, values);
                let mut second = [T::ZERO; CHUNK];
                let second = &mut second[..values.len()];
                b.load(start, second);
                T::binary(*algorithm, values, second, false);
            })
        }
        Op::Select(_) => {
            let condition = operands.view(Arg::Src(0))?;
            let (a, b) = (operands.view(Arg::Src(1))?, operands.view(Arg::Src(2))?);
            produce(dst, bytes, &epilogue, |start, values: &mut [T]| {
                let (mut truth, mut otherwise) = ([T::ZERO; CHUNK], [T::ZERO; CHUNK]);
                let (truth, otherwise) = (&mut truth[..values.len()], &mut otherwise[..values.len()]);
                condition.load(start, truth);
                a.load(start, values);
                b.load(start, otherwise);
                for ((value, truth), otherwise) in values.iter_mut().zip(&*truth).zip(&*otherwise) {
                    if !truth.is_nonzero() {
                        *value = *otherwise;
                    }
                }
            })
        }
        Op::BatchNormalization(op) => batch_normalization::<T>(op, operands, bytes, &epilogue),
        Op::Concat(op) => concat::compute::<T>(*op, operands, bytes, &epilogue),
        other => Err(Error::unsupported(other.name(), "the host backend does not know this operation")),
    }
}

fn batch_normalization<T: Real>(
    op: &BatchNormalization,
    operands: &Operands<'_>,
    bytes: &mut [u8],
    epilogue: &Epilogue<'_>,
) -> Result<()> {
    let dims = operands.desc.src().dims();
    let vector = MemoryDesc::new([dims[1]], DataType::F64);
    let (mean, variance) = (operands.dense::<f64>(Arg::Mean)?, operands.dense::<f64>(Arg::Variance)?);
    let (scale, shift) = (operands.find_dense::<f64>(Arg::Scale)?, operands.find_dense::<f64>(Arg::Shift)?);
    let at = |vector: &Option<std::borrow::Cow<'_, [f64]>>, c: usize, otherwise: f64| {
        vector.as_ref().map_or(otherwise, |v| v[c])
    };
    // y = factor*x + summand for each channel.
    let factors: Vec<f64> =
        (0..dims[1]).map(|c| at(&scale, c, 1.0) / (variance[c] + f64::from(op.epsilon)).sqrt()).collect();
    let summands: Vec<f64> = (0..dims[1]).map(|c| at(&shift, c, 0.0) - factors[c] * mean[c]).collect();
    let factors = View::along(&vector, bytemuck::cast_slice(&factors), dims, 1)?;
    let summands = View::along(&vector, bytemuck::cast_slice(&summands), dims, 1)?;
    let src = operands.view(Arg::SRC)?;
    produce(operands.desc.dst(), bytes, epilogue, |start, values: &mut [T]| {
        src.load(start, values);
        let (mut factor, mut summand) = ([0.0_f64; CHUNK], [0.0_f64; CHUNK]);
        let (factor, summand) = (&mut factor[..values.len()], &mut summand[..values.len()]);
        factors.load(start, factor);
        summands.load(start, summand);
        for ((value, factor), summand) in values.iter_mut().zip(&*factor).zip(&*summand) {
            *value = T::from_f64(factor * value.to_f64() + summand);
        }
    })
}

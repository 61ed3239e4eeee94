//! Operations whose elements do not depend on one another, computed in cache-sized pieces without whole temporaries.

use anydnn_backend::op::{BatchNormalization, Binary, Eltwise, Reorder, Select};
use anydnn_backend::{Arg, DataType, MemoryDesc, PrimitiveDesc, Result};

use super::element::{Float, Real};
use super::epilogue::{Epilogue, produce};
use super::operands::{Operands, Results};
use super::view::View;
use super::{CHUNK, Compute};

/// An operation whose elements do not depend on one another.
pub(super) trait Elementwise {
    /// Whether integers of 64 bits give the exact result of integers.
    const EXACT_IN_INTEGERS: bool = true;

    /// Writes the result's elements.
    fn elements<T: Real>(
        &self,
        operands: &Operands<'_>,
        bytes: &mut [u8],
        epilogue: &Epilogue<'_>,
    ) -> Result<()>;
}

impl<O: Elementwise> Compute for O {
    fn implementation(&self, _desc: &PrimitiveDesc) -> &'static str {
        "host:streaming"
    }

    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        self.elements::<T>(operands, results.dst()?, &Epilogue::new(operands)?)
    }

    fn is_exact_in_integers(&self) -> bool {
        O::EXACT_IN_INTEGERS
    }

    fn compute_integers(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        self.elements::<i64>(operands, results.dst()?, &Epilogue::new(operands)?)
    }
}

impl Elementwise for Reorder {
    fn elements<T: Real>(
        &self,
        operands: &Operands<'_>,
        bytes: &mut [u8],
        epilogue: &Epilogue<'_>,
    ) -> Result<()> {
        let src = operands.view(Arg::SRC)?;
        produce(operands.desc.dst(), bytes, epilogue, |start, values: &mut [T]| src.load(start, values))
    }
}

impl Elementwise for Eltwise {
    const EXACT_IN_INTEGERS: bool = false;

    fn elements<T: Real>(
        &self,
        operands: &Operands<'_>,
        bytes: &mut [u8],
        epilogue: &Epilogue<'_>,
    ) -> Result<()> {
        let src = operands.view(Arg::SRC)?;
        produce(operands.desc.dst(), bytes, epilogue, |start, values: &mut [T]| {
            src.load(start, values);
            T::eltwise(*self, values);
        })
    }
}

impl Elementwise for Binary {
    fn elements<T: Real>(
        &self,
        operands: &Operands<'_>,
        bytes: &mut [u8],
        epilogue: &Epilogue<'_>,
    ) -> Result<()> {
        let (a, b) = (operands.view(Arg::Src(0))?, operands.view(Arg::Src(1))?);
        produce(operands.desc.dst(), bytes, epilogue, |start, values: &mut [T]| {
            a.load(start, values);
            let mut second = [T::ZERO; CHUNK];
            let second = &mut second[..values.len()];
            b.load(start, second);
            T::binary(self.algorithm, values, second, false);
        })
    }
}

impl Elementwise for Select {
    fn elements<T: Real>(
        &self,
        operands: &Operands<'_>,
        bytes: &mut [u8],
        epilogue: &Epilogue<'_>,
    ) -> Result<()> {
        let condition = operands.view(Arg::Src(0))?;
        let (a, b) = (operands.view(Arg::Src(1))?, operands.view(Arg::Src(2))?);
        produce(operands.desc.dst(), bytes, epilogue, |start, values: &mut [T]| {
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
}

impl Elementwise for BatchNormalization {
    const EXACT_IN_INTEGERS: bool = false;

    fn elements<T: Real>(
        &self,
        operands: &Operands<'_>,
        bytes: &mut [u8],
        epilogue: &Epilogue<'_>,
    ) -> Result<()> {
        let dims = operands.desc.src().dims();
        let vector = MemoryDesc::new([dims[1]], DataType::F64);
        let (mean, variance) = (operands.dense::<f64>(Arg::Mean)?, operands.dense::<f64>(Arg::Variance)?);
        let (scale, shift) =
            (operands.find_dense::<f64>(Arg::Scale)?, operands.find_dense::<f64>(Arg::Shift)?);
        let at = |vector: &Option<std::borrow::Cow<'_, [f64]>>, c: usize, otherwise: f64| {
            vector.as_ref().map_or(otherwise, |v| v[c])
        };
        // y = factor*x + summand for each channel.
        let factors: Vec<f64> = (0..dims[1])
            .map(|c| at(&scale, c, 1.0) / (variance[c] + f64::from(self.epsilon)).sqrt())
            .collect();
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
}

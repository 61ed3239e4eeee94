//! Pseudo-random tensors. Without a seed every execution has another.

use std::f64::consts::TAU;
use std::sync::atomic::{AtomicU64, Ordering};

use anydnn_backend::{DataType, Dims, Result};

use super::super::tensor::{data_type, dims as checked_dims};
use super::call::Call;
use super::numbers::indices;
use crate::model::HostTensor;

/// Sebastiano Vigna's splitmix64.
struct Random(u64);

impl Random {
    fn of(call: &Call) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let seed = if call.node.has("seed") && call.operator() == "Dropout" {
            call.node.int("seed", 0)? as u64
        } else if call.node.has("seed") {
            u64::from(call.node.float("seed", 0.0)?.to_bits())
        } else {
            NEXT.fetch_add(0x1234_5678_9abc_def1, Ordering::Relaxed)
        };
        Ok(Self(seed))
    }

    /// From zero to before one.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// By the method of Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (TAU * self.uniform()).cos()
    }
}

/// Normal and uniform numbers, of a given shape or that of another tensor.
pub(in crate::onnx) fn random(call: &mut Call) -> Result<Vec<HostTensor>> {
    let like = call.optional(0);
    let to = match (call.node.int("dtype", 0)?, like) {
        (0, Some(like)) => like.data_type(),
        (0, None) => DataType::F32,
        (number, _) => data_type(i32::try_from(number).unwrap_or(-1))?,
    };
    let dims = match like {
        Some(like) => like.dims().clone(),
        None => checked_dims(&call.node.ints("shape")?.unwrap_or_default(), to)?,
    };
    call.take(&dims, to)?;
    let number = |name: &str, absent: f32| call.node.float(name, absent).map(f64::from);
    let mut source = Random::of(call)?;
    let values: Vec<f64> = if call.operator().starts_with("RandomNormal") {
        let (mean, scale) = (number("mean", 0.0)?, number("scale", 1.0)?);
        (0..dims.elements()).map(|_| mean + scale * source.normal()).collect()
    } else {
        let (low, high) = (number("low", 0.0)?, number("high", 1.0)?);
        (0..dims.elements()).map(|_| low + (high - low) * source.uniform()).collect()
    };
    call.output(dims, to, &values)
}

/// Ones with the probabilities of another tensor.
pub(in crate::onnx) fn bernoulli(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let to = match call.node.int("dtype", 0)? {
        0 => src.data_type(),
        number => data_type(i32::try_from(number).unwrap_or(-1))?,
    };
    let mut source = Random::of(call)?;
    let values: Vec<f64> = src.to_f64s().into_iter().map(|p| f64::from(source.uniform() < p)).collect();
    call.output(src.dims().clone(), to, &values)
}

/// Classes drawn by the logarithms of their probabilities.
pub(in crate::onnx) fn multinomial(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.ranked(0, 2)?;
    let (batch, classes) = (src.dims()[0], src.dims()[1]);
    let count = usize::try_from(call.node.int("sample_size", 1)?).unwrap_or(0);
    call.take(&[batch, count].into(), DataType::S64)?;
    let mut source = Random::of(call)?;
    let mut drawn = Vec::with_capacity(batch * count);
    for row in src.to_f64s().chunks(classes.max(1)) {
        let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let parts: Vec<f64> = row.iter().map(|score| (score - most).exp()).collect();
        for _ in 0..count {
            let mut rest = source.uniform() * parts.iter().sum::<f64>();
            let class = parts.iter().position(|part| {
                rest -= part;
                rest < 0.0
            });
            drawn.push(class.unwrap_or(classes.saturating_sub(1)) as i64);
        }
    }
    let to = data_type(i32::try_from(call.node.int("dtype", 6)?).unwrap_or(-1))?;
    let drawn = indices([batch, count], &drawn)?;
    Ok(vec![if to == DataType::S64 { drawn } else { drawn.cast(to) }])
}

/// Nothing is dropped outside training; the mask says what was kept.
pub(in crate::onnx) fn dropout(call: &mut Call) -> Result<Vec<HostTensor>> {
    call.node.check_inference()?;
    let src = call.tensor(0)?;
    let training = call.number(2)?.is_some_and(|training| training != 0.0);
    let ratio = call.number(1)?.unwrap_or(f64::from(call.node.float("ratio", 0.5)?));
    let mut source = Random::of(call)?;
    let dropped = |source: &mut Random| training && ratio > 0.0 && source.uniform() < ratio;
    let kept: Vec<f64> = (0..src.dims().elements()).map(|_| f64::from(!dropped(&mut source))).collect();
    let dims: Dims = src.dims().clone();
    let made = if training {
        let of = |(value, kept): (f64, &f64)| if *kept == 0.0 { 0.0 } else { value / (1.0 - ratio) };
        let values: Vec<f64> = src.to_f64s().into_iter().zip(&kept).map(of).collect();
        call.floats(dims.clone(), src.data_type(), &values)?
    } else {
        src.clone()
    };
    Ok(vec![made, call.floats(dims, DataType::Boolean, &kept)?])
}

//! Operands with random content, and how results are compared.

use anydnn_backend::{
    Arg, DataType, Engine, MemoryDesc, MemoryKind, PrimitiveDesc, Result, ScratchpadMode, Stream, Tolerance,
};

use crate::backend::engine::OpenClEngine;
use crate::backend::memory::OpenClMemory;
use crate::backend::stream::OpenClStream;
use crate::plan::KernelPlan;

/// What results hold before they are computed: no result of these operands.
const POISON: u8 = 0x7f;
/// Elements after which random content repeats; no power of two, so that rows differ.
const PERIOD: usize = 65_521;

/// Memory for every operand of a description.
pub(super) struct Operands {
    args: Vec<(Arg, OpenClMemory)>,
    /// The results, with their sizes.
    results: Vec<(usize, OpenClMemory)>,
}

impl Operands {
    pub(super) fn new(engine: &OpenClEngine, stream: &OpenClStream, plan: &KernelPlan) -> Result<Self> {
        let (mut args, mut results) = (Vec::new(), Vec::new());
        for (seed, operand) in plan.desc.args().iter().enumerate() {
            if operand.arg == Arg::Scratchpad {
                continue;
            }
            let memory = engine.create_memory(&operand.desc, MemoryKind::Buffer)?;
            if operand.access.reads() {
                stream.write(&memory, 0, &random(&operand.desc, seed as u64), &[])?;
            }
            if operand.access.writes() {
                results.push((operand.desc.size(), memory.clone()));
            }
            args.push((operand.arg, memory));
        }
        Ok(Self { args, results })
    }

    /// The operands as a plan wants them, with results of no meaning.
    pub(super) fn for_plan(
        &self,
        engine: &OpenClEngine,
        stream: &OpenClStream,
        plan: &KernelPlan,
    ) -> Result<Vec<(Arg, OpenClMemory)>> {
        for (size, memory) in &self.results {
            stream.write(memory, 0, &vec![POISON; *size], &[])?;
        }
        let mut args = self.args.clone();
        if plan.desc.attributes().scratchpad == ScratchpadMode::User {
            let pad = MemoryDesc::new([plan.scratchpad], DataType::U8);
            args.push((Arg::Scratchpad, engine.create_memory(&pad, MemoryKind::Buffer)?));
        }
        Ok(args)
    }

    pub(super) fn results(&self, stream: &OpenClStream) -> Result<Vec<Vec<u8>>> {
        let read = |(size, memory): &(usize, OpenClMemory)| {
            let mut bytes = vec![0; *size];
            stream.read(memory, 0, &mut bytes, &[])?;
            Ok(bytes)
        };
        self.results.iter().map(read).collect()
    }
}

/// What is wrong with results, if anything is.
pub(super) fn difference(desc: &PrimitiveDesc, actual: &[Vec<u8>], expected: &[Vec<u8>]) -> Option<String> {
    let results =
        desc.args().iter().filter(|operand| operand.access.writes() && operand.arg != Arg::Scratchpad);
    results.zip(actual.iter().zip(expected)).find_map(|(operand, (actual, expected))| {
        // Both are off from the truth, and not in the same direction.
        let mut tolerance = Tolerance::of_result(desc, operand.arg);
        tolerance.relative *= 2.0;
        differs(operand.desc.data_type(), tolerance, actual, expected)
            .map(|difference| format!("{}: {difference}", operand.arg))
    })
}

/// The first element that differs by more than a tolerance. Compared is all that the memory holds: padding is zero in both, and gaps
/// stay as they were.
fn differs(data_type: DataType, tolerance: Tolerance, actual: &[u8], expected: &[u8]) -> Option<String> {
    let count = expected.len() * 8 / data_type.bits();
    // What was not written says nothing about the size of results.
    let poison = data_type.read_at(&[POISON; 8], 0).to_bits();
    let finite =
        |i: usize| Some(data_type.read_at(expected, i)).filter(|v| v.is_finite() && v.to_bits() != poison);
    let scale = if tolerance.scaled {
        (0..count).filter_map(finite).fold(0.0, |m: f64, v| m.max(v.abs()))
    } else {
        0.0
    };
    (0..count).find_map(|i| {
        let (a, e) = (data_type.read_at(actual, i), data_type.read_at(expected, i));
        let allowed = tolerance.absolute + tolerance.relative * e.abs().max(scale);
        #[expect(clippy::float_cmp, reason = "equal infinities pass")]
        let same = a == e || (a.is_nan() && e.is_nan()) || (a - e).abs() <= allowed;
        (!same).then(|| format!("element {i} is {a}, not {e}"))
    })
}

/// The bytes of a tensor of numbers around one, half of them negative where the type has such.
fn random(desc: &MemoryDesc, seed: u64) -> Vec<u8> {
    let data_type = desc.data_type();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        // Marsaglia's xorshift64 (Xorshift RNGs, 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 32
    };
    // Pairs of elements fill whole bytes for every type.
    let period = 2 * PERIOD * data_type.bits() / 8;
    let mut tile = Vec::with_capacity(period);
    while tile.len() < period {
        let number = next();
        let real = (number & 0xffff) as f64 / 32768.0 - 1.0;
        let whole = (number % 7) as i8 - 3;
        match data_type {
            _ if data_type.bits() < 8 => tile.push((number & 0x77) as u8),
            DataType::U8 => tile.push(whole.unsigned_abs()),
            DataType::Boolean => tile.push((number & 1) as u8),
            _ => {
                let value = if data_type.is_float() { real } else { f64::from(whole) };
                data_type.write(std::iter::once(value), &mut tile);
            }
        }
    }
    tile.iter().copied().cycle().take(desc.size()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: Tolerance = Tolerance { absolute: 0.0, relative: 0.01, scaled: false };

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_ne_bytes()).collect()
    }

    #[test]
    fn differences_are_found_and_named() {
        let same = |actual: &[f32], expected: &[f32]| {
            differs(DataType::F32, TOLERANCE, &bytes(actual), &bytes(expected))
        };
        assert_eq!(same(&[1.0, f32::NAN, f32::INFINITY], &[1.005, f32::NAN, f32::INFINITY]), None);
        assert_eq!(same(&[1.0, 2.0], &[1.0, 2.1]).unwrap(), "element 1 is 2, not 2.0999999046325684");
        assert!(same(&[f32::NAN], &[1.0]).is_some() && same(&[1.0], &[f32::NAN]).is_some());
        assert!(same(&[f32::INFINITY], &[1.0]).is_some());
        assert_eq!(differs(DataType::S4, TOLERANCE, &[0xf1], &[0xf1]), None);
        assert_eq!(differs(DataType::S4, TOLERANCE, &[0xf1], &[0xe1]).unwrap(), "element 1 is -1, not -2");
    }

    #[test]
    fn operands_are_random_for_every_type() {
        for data_type in DataType::ALL {
            let desc = MemoryDesc::new([1000], data_type);
            let content = random(&desc, 3);
            assert_eq!(content.len(), desc.size(), "{data_type}");
            let values: Vec<f64> = (0..1000).map(|i| data_type.read_at(&content, i)).collect();
            assert!(values.iter().all(|v| v.is_finite() && v.abs() <= 8.0), "{data_type}");
            assert!(values.windows(2).any(|pair| pair[0] < pair[1]), "{data_type}");
        }
    }
}

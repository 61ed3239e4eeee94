//! Elements of narrow types as numbers of f32 and back, many at a time.

use super::Shared;
use super::call::Call;
use super::level::{Level, for_levels};
use crate::compute::{Kind, read_run, write_run};

/// Elements that are converted at a time.
pub(super) const CHUNK: usize = 1 << 13;

/// Converts elements by all threads; `then` gets the place and the numbers of each chunk.
pub(super) fn convert(
    call: &Call<'_>,
    kind: Kind,
    bytes: &[u8],
    to: &mut [f32],
    then: &(dyn Fn(usize, &mut [f32]) + Sync),
) {
    let (elements, element) = (to.len(), kind.bits() / 8);
    let to = Shared::new(to);
    let work = |chunk: usize| {
        let first = chunk * CHUNK;
        let count = CHUNK.min(elements - first);
        // SAFETY: every chunk has numbers of its own.
        let to = unsafe { to.part(first, count) };
        let from = &bytes[first * element..][..count * element];
        match kind {
            Kind::BF16 => of_bf16(call.level, from, to),
            Kind::U8 => of_u8(call.level, from, to),
            Kind::S8 => of_s8(call.level, from, to),
            kind => read_run(kind, from, to),
        }
        then(first, to);
    };
    call.crew.run(elements.div_ceil(CHUNK), &work);
}

/// Converts numbers to elements.
pub(super) fn narrow(level: Level, kind: Kind, from: &[f32], to: &mut [u8]) {
    match kind {
        Kind::BF16 => to_bf16(level, from, to),
        kind => write_run(kind, from, to),
    }
}

for_levels! {
    fn of_bf16(from: &[u8], to: &mut [f32]) = of_bf16_body
}

#[inline(always)]
fn of_bf16_body(from: &[u8], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from.as_chunks::<2>().0) {
        *to = f32::from_bits(u32::from(u16::from_ne_bytes(*from)) << 16);
    }
}

for_levels! {
    fn of_u8(from: &[u8], to: &mut [f32]) = of_u8_body
}

#[inline(always)]
fn of_u8_body(from: &[u8], to: &mut [f32]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = f32::from(from));
}

for_levels! {
    fn of_s8(from: &[u8], to: &mut [f32]) = of_s8_body
}

#[inline(always)]
fn of_s8_body(from: &[u8], to: &mut [f32]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = f32::from(from.cast_signed()));
}

for_levels! {
    /// To the nearest, ties to even; NaN stays NaN.
    fn to_bf16(from: &[f32], to: &mut [u8]) = to_bf16_body
}

#[inline(always)]
fn to_bf16_body(from: &[f32], to: &mut [u8]) {
    for (to, from) in to.as_chunks_mut::<2>().0.iter_mut().zip(from) {
        let bits = from.to_bits();
        let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
        let kept = if from.is_nan() { bits >> 16 | 0x40 } else { rounded };
        *to = (kept as u16).to_ne_bytes();
    }
}

for_levels! {
    /// Multiplies by a number, or subtracts it.
    pub(super) fn by_one(values: &mut [f32], number: f32, scales: bool) = by_one_body
}

#[inline(always)]
fn by_one_body(values: &mut [f32], number: f32, scales: bool) {
    for value in values {
        *value = if scales { *value * number } else { *value - number };
    }
}

for_levels! {
    /// Multiplies by numbers, or subtracts them.
    pub(super) fn by_all(values: &mut [f32], numbers: &[f32], scales: bool) = by_all_body
}

#[inline(always)]
fn by_all_body(values: &mut [f32], numbers: &[f32], scales: bool) {
    let pairs = values.iter_mut().zip(numbers);
    if scales {
        pairs.for_each(|(value, number)| *value *= number);
    } else {
        pairs.for_each(|(value, number)| *value -= number);
    }
}

//! Bytes that betray reading what was never written.

use anydnn_backend::MemoryDesc;

/// Repeated through fresh memory and through results about to be written: a signalling NaN as f32 and bf16, a NaN as f16, a number of
/// enormous size as f64, conspicuous as an integer.
pub const POISON: [u8; 2] = [0xA5, 0xFF];

/// Repeated through freed memory; floating-point types read it as they do [`POISON`].
pub const FREED: [u8; 2] = [0xBD, 0xFF];

/// Whether bytes are [`POISON`] or [`FREED`] all through, starting at either byte of the pattern. Never true without bytes.
///
/// ```
/// use anydnn_mock::{POISON, is_poison};
/// assert!(is_poison(&[0xA5, 0xFF, 0xA5]) && !is_poison(&[0xA5, 0xFF, 0]));
/// assert!(f32::from_le_bytes([POISON, POISON].concat().try_into().unwrap()).is_nan());
/// ```
pub fn is_poison(bytes: &[u8]) -> bool {
    let is = |pattern: [u8; 2], phase: usize| {
        bytes.iter().enumerate().all(|(i, &byte)| byte == pattern[(i + phase) % 2])
    };
    !bytes.is_empty() && [POISON, FREED].into_iter().any(|pattern| is(pattern, 0) || is(pattern, 1))
}

/// Fills bytes with a pattern.
pub(crate) fn fill(bytes: &mut [u8], pattern: [u8; 2]) {
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = pattern[i % 2];
    }
}

/// Poisons the elements of a tensor and leaves what lies between them.
pub(crate) fn fill_elements(bytes: &mut [u8], desc: &MemoryDesc) {
    let dense = desc.size().min(bytes.len());
    if desc.is_row_major() || desc.blocking().is_none() {
        return fill(&mut bytes[..dense], POISON);
    }
    let bits = desc.data_type().bits();
    for index in desc.dims().indices() {
        let Some(element) = desc.offset_of(&index) else { continue };
        let first = element * bits / 8;
        if bits < 8 {
            let mask = if element % 2 == 0 { 0x0F } else { 0xF0 };
            if let Some(byte) = bytes.get_mut(first) {
                *byte = (*byte & !mask) | (POISON[0] & mask);
            }
        } else if let Some(element) = bytes.get_mut(first..first + bits / 8) {
            fill(element, POISON);
        }
    }
}

#[cfg(test)]
mod tests {
    use anydnn_backend::DataType;

    use super::*;

    #[test]
    fn gaps_between_elements_stay() {
        let column = MemoryDesc::with_strides([2, 1], DataType::F32, [2, 1]).unwrap();
        let mut bytes = [0; 16];
        fill_elements(&mut bytes, &column);
        assert!(is_poison(&bytes[..4]) && is_poison(&bytes[8..12]));
        assert_eq!((&bytes[4..8], &bytes[12..]), (&[0; 4][..], &[0; 4][..]));
    }

    #[test]
    fn nibbles_between_elements_stay() {
        let sparse = MemoryDesc::with_strides([2], DataType::U4, [3]).unwrap();
        let mut bytes = [0; 2];
        fill_elements(&mut bytes, &sparse);
        assert_eq!(bytes, [0x05, 0xA0]);
    }

    #[test]
    fn the_kinds_of_poison_are_nan() {
        for pattern in [POISON, FREED] {
            let bits = u16::from_le_bytes(pattern);
            let word = u32::from(bits) << 16 | u32::from(bits);
            assert!(f32::from_bits(word).is_nan());
            assert!(f32::from_bits(u32::from(bits) << 16).is_nan(), "bf16");
            assert!(bits >> 10 & 0x1F == 0x1F && bits & 0x3FF != 0, "f16");
        }
    }
}

//! Elements as numbers: what their bytes mean, and the bytes of a number.

use half::{bf16, f16};

use super::{DataType, Format};

impl DataType {
    /// Gives the values of the first `elements` elements in the machine's byte order, of integers beyond 2^53 the nearest; less where
    /// there are fewer bytes. A boolean is given as its byte, so that one which is neither 0 nor 1 shows.
    ///
    /// ```
    /// use anydnn_backend::DataType;
    /// let mut values = Vec::new();
    /// DataType::S4.read(&[0x2f, 0x07], 3, |value| values.push(value));
    /// assert_eq!(values, [-1.0, 2.0, 7.0]);
    /// ```
    pub fn read(self, bytes: &[u8], elements: usize, mut each: impl FnMut(f64)) {
        let bits = self.bits();
        let parts = || parts(bytes, bits).take(elements);
        match (self.format(), bits) {
            (Format::Double, _) => words(bytes).take(elements).for_each(|w| each(f64::from_ne_bytes(w))),
            (Format::Single, _) => {
                words(bytes).take(elements).for_each(|w| each(f64::from(f32::from_ne_bytes(w))));
            }
            (Format::Half, _) => {
                words(bytes).take(elements).for_each(|w| each(f16::from_ne_bytes(w).to_f64()));
            }
            (Format::Brain, _) => {
                words(bytes).take(elements).for_each(|w| each(bf16::from_ne_bytes(w).to_f64()));
            }
            (Format::Mini(format), _) => parts().for_each(|part| each(format.decode(part))),
            (Format::Exponent, _) => parts().for_each(|part| each(power(part))),
            (Format::Signed, 64) => {
                words(bytes).take(elements).for_each(|w| each(i64::from_ne_bytes(w) as f64));
            }
            (Format::Signed, 32) => {
                words(bytes).take(elements).for_each(|w| each(f64::from(i32::from_ne_bytes(w))));
            }
            (Format::Signed, 16) => {
                words(bytes).take(elements).for_each(|w| each(f64::from(i16::from_ne_bytes(w))));
            }
            (Format::Signed, _) => {
                let unused = 8 - bits;
                parts().for_each(|part| each(f64::from((part << unused).cast_signed() >> unused)));
            }
            (Format::Unsigned, 64) => {
                words(bytes).take(elements).for_each(|w| each(u64::from_ne_bytes(w) as f64));
            }
            (Format::Unsigned, 32) => {
                words(bytes).take(elements).for_each(|w| each(f64::from(u32::from_ne_bytes(w))));
            }
            (Format::Unsigned, 16) => {
                words(bytes).take(elements).for_each(|w| each(f64::from(u16::from_ne_bytes(w))));
            }
            (Format::Unsigned | Format::Boolean, _) => parts().for_each(|part| each(f64::from(part))),
        }
    }

    /// Appends the bytes of elements nearest to the values, ties to even, in the machine's byte order. Integers saturate, and NaN becomes
    /// zero. Elements of less than a byte fill whole bytes, the last one with zeros.
    pub fn write(self, values: impl Iterator<Item = f64>, bytes: &mut impl Extend<u8>) {
        let bits = self.bits();
        let whole = values_rounded;
        match (self.format(), bits) {
            (Format::Double, _) => bytes.extend(values.flat_map(f64::to_ne_bytes)),
            (Format::Single, _) => bytes.extend(values.flat_map(|v| (v as f32).to_ne_bytes())),
            (Format::Half, _) => bytes.extend(values.flat_map(|v| f16::from_f64(v).to_ne_bytes())),
            (Format::Brain, _) => bytes.extend(values.flat_map(|v| bf16::from_f64(v).to_ne_bytes())),
            (Format::Mini(format), _) => pack(bytes, bits, values.map(|v| format.encode(v))),
            (Format::Exponent, _) => bytes.extend(values.map(exponent)),
            // Conversions from floats to integers saturate.
            (Format::Signed, 64) => bytes.extend(whole(values).flat_map(|v| (v as i64).to_ne_bytes())),
            (Format::Signed, 32) => bytes.extend(whole(values).flat_map(|v| (v as i32).to_ne_bytes())),
            (Format::Signed, 16) => bytes.extend(whole(values).flat_map(|v| (v as i16).to_ne_bytes())),
            (Format::Signed, _) => {
                let most = f64::from((1_i16 << (bits - 1)) - 1);
                let mask = u8::MAX >> (8 - bits);
                pack(
                    bytes,
                    bits,
                    whole(values).map(|v| (v.clamp(-most - 1.0, most) as i8).cast_unsigned() & mask),
                );
            }
            (Format::Unsigned, 64) => bytes.extend(whole(values).flat_map(|v| (v as u64).to_ne_bytes())),
            (Format::Unsigned, 32) => bytes.extend(whole(values).flat_map(|v| (v as u32).to_ne_bytes())),
            (Format::Unsigned, 16) => bytes.extend(whole(values).flat_map(|v| (v as u16).to_ne_bytes())),
            (Format::Unsigned, _) => {
                let most = f64::from(u8::MAX >> (8 - bits));
                pack(bytes, bits, whole(values).map(|v| v.clamp(0.0, most) as u8));
            }
            (Format::Boolean, _) => bytes.extend(values.map(|v| u8::from(v != 0.0))),
        }
    }

    /// The value of the element at an index, in elements; zero where there are too few bytes.
    pub fn read_at(self, bytes: &[u8], index: usize) -> f64 {
        let bits = self.bits();
        let mut value = 0.0;
        let mut read = |bytes: &[u8]| self.read(bytes, 1, |v| value = v);
        match bits {
            0..8 => {
                let part = bytes.get(index * bits / 8).map(|byte| byte >> (index * bits % 8));
                read(part.as_slice());
            }
            _ => read(bytes.get(index * bits / 8..).unwrap_or_default()),
        }
        value
    }

    /// Stores a value as the element at an index, in elements, as [`write`](Self::write) does; nothing where there are too few bytes.
    pub fn write_at(self, value: f64, bytes: &mut [u8], index: usize) {
        let bits = self.bits();
        let mut element = smallvec::SmallVec::<[u8; 8]>::new();
        self.write(std::iter::once(value), &mut element);
        let first = index * bits / 8;
        let Some(place) = bytes.get_mut(first..first + element.len()) else { return };
        if bits < 8 {
            let (shift, mask) = (index * bits % 8, u8::MAX >> (8 - bits));
            place[0] = place[0] & !(mask << shift) | element[0] << shift;
        } else {
            place.copy_from_slice(&element);
        }
    }

    /// The value that an element holds after `value` was stored in it.
    pub fn stored(self, value: f64) -> f64 {
        let mut element = [0; 8];
        self.write_at(value, &mut element, 0);
        self.read_at(&element, 0)
    }
}

fn values_rounded(values: impl Iterator<Item = f64>) -> impl Iterator<Item = f64> {
    values.map(f64::round_ties_even)
}

fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks().0.iter().copied()
}

/// Elements of at most eight bits, the low ones of a byte first.
fn parts(bytes: &[u8], bits: usize) -> impl Iterator<Item = u8> {
    let mask = u8::MAX >> (8 - bits.min(8));
    bytes.iter().flat_map(move |byte| (0..8 / bits.min(8)).map(move |i| byte >> (i * bits) & mask))
}

fn pack(bytes: &mut impl Extend<u8>, bits: usize, mut parts: impl Iterator<Item = u8>) {
    bytes.extend(std::iter::from_fn(|| {
        let low = parts.next()?;
        Some((1..8 / bits).fold(low, |byte, i| byte | parts.next().unwrap_or(0) << (i * bits)))
    }));
}

/// The value of an exponent without sign; all ones are NaN.
fn power(bits: u8) -> f64 {
    if bits == 0xff { f64::NAN } else { 2_f64.powi(i32::from(bits) - 127) }
}

/// The exponent of the nearest power of two, of two as near ones the greater; the least for what is not positive.
fn exponent(value: f64) -> u8 {
    if value.is_nan() {
        return 0xff;
    }
    let limited = value.clamp(2_f64.powi(-127), 2_f64.powi(127));
    let below = limited.log2().floor() as i32;
    let nearest = if limited < 1.5 * 2_f64.powi(below) { below } else { below + 1 };
    (nearest + 127).clamp(0, 254) as u8
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "conversions are exact")]
mod tests {
    use super::*;

    fn types() -> impl Iterator<Item = DataType> {
        DataType::ALL.into_iter().chain(DataType::HOST_ONLY)
    }

    #[test]
    fn elements_one_by_one_are_those_in_a_row() {
        let values = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0];
        for data_type in types() {
            let (mut row, mut single) = (Vec::new(), vec![0; data_type.bytes_for(values.len())]);
            data_type.write(values.into_iter(), &mut row);
            values.iter().enumerate().for_each(|(i, &value)| data_type.write_at(value, &mut single, i));
            assert_eq!(row, single, "{data_type}");
            let mut read = Vec::new();
            data_type.read(&row, values.len(), |value| read.push(value));
            let one_by_one: Vec<f64> = (0..values.len()).map(|i| data_type.read_at(&row, i)).collect();
            assert_eq!(read, one_by_one, "{data_type}");
            // A power of two is never zero.
            assert!(data_type == DataType::E8M0 || read == values, "{data_type}: {read:?}");
        }
    }

    #[test]
    fn integers_saturate_and_round_to_even() {
        for data_type in types().filter(|data_type| data_type.is_integer()) {
            let (least, most) = (data_type.stored(f64::NEG_INFINITY), data_type.stored(f64::INFINITY));
            let range = 2_f64.powi(data_type.bits() as i32) - 1.0;
            assert!((most - least - range).abs() <= range * f64::EPSILON, "{data_type}: {least} to {most}");
            assert_eq!((data_type.stored(0.5), data_type.stored(f64::NAN)), (0.0, 0.0), "{data_type}");
        }
        assert_eq!(DataType::S8.stored(-2.5), -2.0);
    }

    #[test]
    fn too_few_bytes_are_zero_and_nothing_is_written_behind() {
        for data_type in types() {
            assert_eq!(data_type.read_at(&[], 0), 0.0, "{data_type}");
            let mut bytes = vec![0; data_type.bytes_for(2)];
            data_type.write_at(1.0, &mut bytes, 9);
            assert!(bytes.iter().all(|&byte| byte == 0), "{data_type}");
        }
    }
}

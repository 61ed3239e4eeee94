//! Between f64 values in logical row-major order and the bytes of a tensor of any type and layout.
//!
//! Floats round to nearest even. Integers round half to even and saturate; NaN becomes zero. A boolean is true unless zero. The
//! padding of blocked layouts is zero. Integers of four bits lie two to a byte, the one at the even position in the low half.

use crate::{Dims, Error, MemoryDesc, Result};

/// Bytes of `desc.size()` length that hold `values`; bytes of no element are zero.
///
/// ```
/// use anydnn_backend::conformance::data;
/// use anydnn_backend::{DataType, MemoryDesc};
/// let column_major = MemoryDesc::with_strides([2, 2], DataType::S8, [1, 2])?;
/// assert_eq!(data::encode(&column_major, &[1.0, 2.5, 3.5, -200.0])?, [1, 4, 2, 0x80]);
/// # Ok::<(), anydnn_backend::Error>(())
/// ```
///
/// # Errors
/// As [`encode_into`].
pub fn encode(desc: &MemoryDesc, values: &[f64]) -> Result<Vec<u8>> {
    let mut bytes = vec![0; desc.size()];
    encode_into(desc, values, &mut bytes)?;
    Ok(bytes)
}

/// Writes `values` into the elements of a tensor, and zeros into its block padding; all other bytes stay. Where elements share bytes
/// (stride zero), the last one wins.
///
/// # Errors
/// [`Error::Invalid`] when the number of values or bytes does not fit; [`Error::Unsupported`] for an opaque or open layout and for
/// the types that this module does not handle.
pub fn encode_into(desc: &MemoryDesc, values: &[f64], bytes: &mut [u8]) -> Result<()> {
    check("encode", desc, bytes.len())?;
    if values.len() != desc.elements() {
        return Err(Error::invalid(
            "encode",
            "values",
            values.len().to_string(),
            format!("{} for {desc}", desc.elements()),
        ));
    }
    for place in places(desc).filter(|place| place.padding) {
        desc.data_type().write_at(0.0, bytes, place.element);
    }
    for (place, &value) in places(desc).filter(|place| !place.padding).zip(values) {
        desc.data_type().write_at(value, bytes, place.element);
    }
    Ok(())
}

/// The values of a tensor's elements. A boolean is given as its byte, so that one which is neither 0 nor 1 shows.
///
/// # Errors
/// [`Error::Invalid`] when there are too few bytes; [`Error::Unsupported`] as in [`encode_into`].
pub fn decode(desc: &MemoryDesc, bytes: &[u8]) -> Result<Vec<f64>> {
    check("decode", desc, bytes.len())?;
    Ok(places(desc)
        .filter(|place| !place.padding)
        .map(|place| desc.data_type().read_at(bytes, place.element))
        .collect())
}

/// What each byte of a tensor is for.
///
/// # Errors
/// [`Error::Unsupported`] as in [`encode_into`].
pub fn coverage(desc: &MemoryDesc) -> Result<Vec<Cover>> {
    check("coverage", desc, desc.size())?;
    let bits = desc.data_type().bits();
    let mut cover = vec![Cover::Gap; desc.size()];
    // The bits of an element of less than a byte, the first one lowest.
    let part = |element: usize| (((1_u32 << bits.min(8)) - 1) << (element * bits % 8)) as u8;
    for place in places(desc) {
        let (first, last) = (place.element * bits / 8, ((place.element + 1) * bits).div_ceil(8));
        for byte in &mut cover[first..last] {
            *byte = match *byte {
                // Where halves of a byte differ, the byte belongs to an element.
                Cover::Element => Cover::Element,
                _ if !place.padding => Cover::Element,
                Cover::PartPadding(other) if other | part(place.element) != u8::MAX => {
                    Cover::PartPadding(other | part(place.element))
                }
                Cover::Gap if bits < 8 => Cover::PartPadding(part(place.element)),
                _ => Cover::Padding,
            };
        }
    }
    Ok(cover)
}

/// What a byte of a tensor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// Part of an element.
    Element,
    /// Padding of a block, which is zero.
    Padding,
    /// Padding in these bits, and nothing in the others, which no primitive changes.
    PartPadding(u8),
    /// Nothing: a gap between strides or the bytes before the offset. No primitive changes it.
    Gap,
}

/// Where an element lies, in elements from the start of the memory.
struct Place {
    element: usize,
    padding: bool,
}

/// Every element, and every padding element of blocked layouts; the logical ones come in row-major order.
fn places(desc: &MemoryDesc) -> Box<dyn Iterator<Item = Place> + '_> {
    if desc.is_row_major() {
        return Box::new((0..desc.elements()).map(|element| Place { element, padding: false }));
    }
    let padded = if desc.elements() == 0 { Dims::from([0]) } else { desc.padded_dims() };
    Box::new(padded.indices().map(|index| Place {
        element: desc.offset_of(&index).unwrap_or_default(),
        padding: index.iter().zip(desc.dims().iter()).any(|(i, dim)| i >= dim),
    }))
}

fn check(operation: &str, desc: &MemoryDesc, bytes: usize) -> Result<()> {
    desc.validate()?;
    if desc.blocking().is_none() || desc.data_type().is_host_only() {
        return Err(Error::unsupported(operation, format!("the layout or the type of {desc}")));
    }
    if bytes < desc.size() {
        return Err(Error::invalid(
            operation,
            "bytes",
            bytes.to_string(),
            format!("{} for {desc}", desc.size()),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use approx::assert_abs_diff_eq;

    use super::*;
    use crate::DataType;

    #[test]
    fn values_survive_every_type() {
        for data_type in DataType::ALL {
            let desc = MemoryDesc::new([2, 2], data_type);
            let values = [0.0, 1.0, 1.0, 0.0];
            assert_eq!(decode(&desc, &encode(&desc, &values).unwrap()).unwrap(), values, "{data_type}");
        }
    }

    #[test]
    fn stored_is_what_encode_and_decode_make_of_a_value() {
        let values = [0.1, -2.5, 3.5, 300.0, -129.0, 1e10, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.4];
        for data_type in DataType::ALL {
            let desc = MemoryDesc::new([values.len()], data_type);
            let through = decode(&desc, &encode(&desc, &values).unwrap()).unwrap();
            for (value, got) in values.iter().zip(through) {
                let wanted = data_type.stored(*value);
                assert!(got.total_cmp(&wanted).is_eq(), "{data_type} {value}: {got} for {wanted}");
            }
        }
    }

    #[test]
    fn integers_round_half_to_even_and_saturate() {
        let desc = MemoryDesc::new([6], DataType::U8);
        assert_eq!(encode(&desc, &[0.5, 1.5, 2.5, 300.0, -3.0, f64::NAN]).unwrap(), [0, 2, 2, 255, 0, 0]);
        assert_abs_diff_eq!(DataType::S8.stored(-128.6), -128.0, epsilon = 1e-12);
        assert_abs_diff_eq!(DataType::S32.stored(3e9), 2_147_483_647.0, epsilon = 1e-12);
    }

    #[test]
    fn narrow_floats_round_to_nearest_even() {
        // 2049 lies halfway between the f16 neighbours 2048 and 2050, 257 between the bf16 neighbours 256 and 258.
        assert_eq!(DataType::F16.stored(2049.0).to_bits(), 2048f64.to_bits());
        assert_eq!(DataType::F16.stored(2051.0).to_bits(), 2052f64.to_bits());
        assert_eq!(DataType::BF16.stored(257.0).to_bits(), 256f64.to_bits());
        assert!(DataType::F16.stored(65520.0).is_infinite());
    }

    #[test]
    fn blocks_are_padded_with_zeros() {
        let desc = MemoryDesc::with_tag([1, 3, 2], DataType::U8, "aBc2b").unwrap();
        let mut bytes = vec![9; desc.size()];
        encode_into(&desc, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &mut bytes).unwrap();
        assert_eq!(bytes, [1, 3, 2, 4, 5, 0, 6, 0]);
        assert_eq!(decode(&desc, &bytes).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let cover = coverage(&desc).unwrap();
        assert_eq!(cover.iter().filter(|&&c| c == Cover::Padding).count(), 2);
        assert_eq!((cover[5], cover[7]), (Cover::Padding, Cover::Padding));
        let cover = |dims: [usize; 2], tag| coverage(&MemoryDesc::with_tag(dims, DataType::S4, tag).unwrap());
        let halves = [Cover::Element, Cover::PartPadding(0x0f)];
        assert_eq!(cover([1, 1], "Ab3a").unwrap(), halves, "the other half of the byte is nothing");
        assert_eq!(cover([1, 1], "Ab4a").unwrap(), [Cover::Element, Cover::Padding]);
    }

    #[test]
    fn gaps_and_offsets_stay() {
        let layout = crate::Layout::Blocked(crate::Blocking {
            strides: Dims::from([3, 1]),
            inner: smallvec::SmallVec::new(),
            offset: 2,
        });
        let desc = MemoryDesc::with_layout([2, 2], DataType::S8, layout).unwrap();
        let mut bytes = vec![7; desc.size()];
        encode_into(&desc, &[1.0, 2.0, 3.0, 4.0], &mut bytes).unwrap();
        assert_eq!(bytes, [7, 7, 1, 2, 7, 3, 4]);
        assert_eq!(coverage(&desc).unwrap()[4], Cover::Gap);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let desc = MemoryDesc::new([2], DataType::F32);
        assert!(matches!(encode(&desc, &[1.0]), Err(Error::Invalid(_))));
        assert!(matches!(decode(&desc, &[0; 7]), Err(Error::Invalid(_))));
        assert!(matches!(encode(&desc.to_any(), &[1.0, 2.0]), Err(Error::Unsupported { .. })));
    }

    #[test]
    fn nibbles_share_bytes() {
        let signed = MemoryDesc::new([5], DataType::S4);
        let bytes = encode(&signed, &[-8.0, 7.0, 99.0, -0.5, -9.0]).unwrap();
        // -8 and 7; 7 and 0; -8 alone.
        assert_eq!(bytes, [0x78, 0x07, 0x08]);
        assert_eq!(decode(&signed, &bytes).unwrap(), [-8.0, 7.0, 7.0, 0.0, -8.0]);
        assert_eq!(encode(&MemoryDesc::new([3], DataType::U4), &[15.5, -1.0, 2.5]).unwrap(), [0x0F, 0x02]);
        // Columns of two rows: the halves of a byte that hold no element stay.
        let strided = MemoryDesc::with_strides([2, 2], DataType::U4, [1, 3]).unwrap();
        let mut bytes = vec![0xAA; strided.size()];
        encode_into(&strided, &[1.0, 2.0, 3.0, 4.0], &mut bytes).unwrap();
        assert_eq!(bytes, [0x31, 0x2A, 0xA4]);
        let gap = MemoryDesc::with_strides([2], DataType::U4, [5]).unwrap();
        assert_eq!(coverage(&gap).unwrap(), [Cover::Element, Cover::Gap, Cover::Element]);
    }

    #[test]
    fn nothing_encodes_to_nothing() {
        let desc = MemoryDesc::new([3, 0], DataType::F32);
        assert!(encode(&desc, &[]).unwrap().is_empty());
        let blocked = MemoryDesc::with_tag([0, 3], DataType::F32, "aB4b").unwrap();
        assert!(encode(&blocked, &[]).unwrap().is_empty() && coverage(&blocked).unwrap().is_empty());
    }
}

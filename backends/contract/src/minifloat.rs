//! The 8-bit floats of the OCP specification.

/// A float of one sign, `exponent` and `mantissa` bits.
///
/// ```
/// use anydnn_backend::MiniFloat;
/// assert_eq!(MiniFloat::E4M3.decode(MiniFloat::E4M3.encode(1.1)), 1.125);
/// assert_eq!(MiniFloat::E5M2.decode(MiniFloat::E5M2.encode(1.1)), 1.0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MiniFloat {
    exponent: u32,
    mantissa: u32,
    /// Whether the greatest exponent is for infinity and NaN alone; else only all ones are NaN.
    ieee: bool,
}

impl MiniFloat {
    /// 5 exponent and 2 mantissa bits: the upper byte of binary16.
    pub const E5M2: Self = Self { exponent: 5, mantissa: 2, ieee: true };
    /// 4 exponent and 3 mantissa bits, without infinity.
    pub const E4M3: Self = Self { exponent: 4, mantissa: 3, ieee: false };

    const fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// The greatest finite value's bits.
    const fn greatest(self) -> u8 {
        if self.ieee { (((1_u32 << self.exponent) - 1) << self.mantissa) as u8 - 1 } else { 0x7e }
    }

    /// The value of these bits, exactly.
    pub fn decode(self, bits: u8) -> f64 {
        let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
        let magnitude = bits & 0x7f;
        if magnitude > self.greatest() {
            let is_infinity = self.ieee && magnitude == self.greatest() + 1;
            return if is_infinity { sign * f64::INFINITY } else { f64::NAN };
        }
        let exponent = i32::from(magnitude >> self.mantissa);
        let fraction = f64::from(magnitude & ((1 << self.mantissa) - 1)) / f64::from(1_u32 << self.mantissa);
        let value = if exponent == 0 {
            fraction * 2_f64.powi(1 - self.bias())
        } else {
            (1.0 + fraction) * 2_f64.powi(exponent - self.bias())
        };
        sign * value
    }

    /// Rounds to the nearest value, halves to even. What is too large becomes infinity, or NaN where there is none.
    pub fn encode(self, value: f64) -> u8 {
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        if value.is_nan() {
            return sign | 0x7f;
        }
        let overflow = if self.ieee { self.greatest() + 1 } else { 0x7f };
        if value.is_infinite() {
            return sign | overflow;
        }
        // Magnitudes of one sign are ordered as their bits are: the quantum is the distance between neighbours.
        let magnitude = value.abs();
        let least_exponent = 1 - self.bias();
        let exponent =
            if magnitude == 0.0 { least_exponent } else { binary_exponent(magnitude).max(least_exponent) };
        let quantum = 2_f64.powi(exponent - self.mantissa as i32);
        let steps = (magnitude / quantum).round_ties_even();
        let below = f64::from(exponent - least_exponent) * f64::from(1_u32 << self.mantissa);
        let bits = steps + below;
        if bits > f64::from(self.greatest()) { sign | overflow } else { sign | bits as u8 }
    }
}

fn binary_exponent(magnitude: f64) -> i32 {
    let biased = ((magnitude.to_bits() >> 52) & 0x7ff) as i32;
    // Subnormal doubles are far below every 8-bit float.
    if biased == 0 { -1023 } else { biased - 1023 }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "conversions are exact")]
mod tests {
    use super::*;

    const E5M2: MiniFloat = MiniFloat::E5M2;
    const E4M3: MiniFloat = MiniFloat::E4M3;

    #[test]
    fn every_value_round_trips() {
        for format in [E5M2, E4M3] {
            for bits in 0..=255_u8 {
                let value = format.decode(bits);
                if value.is_nan() {
                    assert!(format.decode(format.encode(value)).is_nan());
                } else {
                    assert_eq!(format.encode(value), bits, "{format:?} {value}");
                }
            }
        }
    }

    #[test]
    fn known_values() {
        assert_eq!(E4M3.decode(0x7e), 448.0);
        assert_eq!(E5M2.decode(0x7b), 57344.0);
        assert_eq!(E4M3.decode(0x01), 2_f64.powi(-9));
        assert_eq!(E5M2.decode(0x01), 2_f64.powi(-16));
        assert!(E4M3.decode(E4M3.encode(1e9)).is_nan());
        assert_eq!(E5M2.decode(E5M2.encode(-1e9)), f64::NEG_INFINITY);
    }

    #[test]
    fn halves_round_to_even() {
        // Between 1.0 and 1.125 in e4m3, and between 1.125 and 1.25.
        assert_eq!(E4M3.decode(E4M3.encode(1.0625)), 1.0);
        assert_eq!(E4M3.decode(E4M3.encode(1.1875)), 1.25);
        assert_eq!(E4M3.decode(E4M3.encode(1.1876)), 1.25);
        assert_eq!(E5M2.decode(E5M2.encode(1.99)), 2.0);
    }
}

//! Floats of 8 and 4 bits: those of the OCP specification, and those without negative zero that some hardware has.

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
    special: Special,
}

/// What a format has beside finite numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    /// The greatest exponent is for infinity and NaN alone.
    Ieee,
    /// All ones are NaN.
    AllOnes,
    /// What would be negative zero is NaN; exponents are one lower.
    NegativeZero,
    /// Nothing: what is too large becomes the greatest number, and NaN negative zero.
    None,
}

impl MiniFloat {
    /// 5 exponent and 2 mantissa bits: the upper byte of binary16.
    pub const E5M2: Self = Self { exponent: 5, mantissa: 2, special: Special::Ieee };
    /// 4 exponent and 3 mantissa bits, without infinity.
    pub const E4M3: Self = Self { exponent: 4, mantissa: 3, special: Special::AllOnes };
    /// As [`MiniFloat::E5M2`], without infinity and negative zero, down to half as large numbers.
    pub const E5M2_FNUZ: Self = Self { exponent: 5, mantissa: 2, special: Special::NegativeZero };
    /// As [`MiniFloat::E4M3`], without negative zero, down to half as large numbers.
    pub const E4M3_FNUZ: Self = Self { exponent: 4, mantissa: 3, special: Special::NegativeZero };
    /// 4 bits: 2 exponent and 1 mantissa bits, without infinity and NaN.
    pub const E2M1: Self = Self { exponent: 2, mantissa: 1, special: Special::None };

    /// The bits of the mantissa.
    pub(crate) const fn mantissa_bits(self) -> u32 {
        self.mantissa
    }

    /// The exponent of the least normal number.
    pub(crate) const fn least_exponent(self) -> i32 {
        1 - self.bias()
    }

    const fn bias(self) -> i32 {
        let bias = (1 << (self.exponent - 1)) - 1;
        if matches!(self.special, Special::NegativeZero) { bias + 1 } else { bias }
    }

    /// The bit of the sign.
    const fn sign(self) -> u8 {
        1 << (self.exponent + self.mantissa)
    }

    /// The greatest finite value's bits.
    pub(crate) const fn greatest(self) -> u8 {
        match self.special {
            Special::Ieee => (((1_u32 << self.exponent) - 1) << self.mantissa) as u8 - 1,
            Special::AllOnes => self.sign() - 2,
            Special::NegativeZero | Special::None => self.sign() - 1,
        }
    }

    /// The value of these bits, exactly.
    pub fn decode(self, bits: u8) -> f64 {
        if self.special == Special::NegativeZero && bits == self.sign() {
            return f64::NAN;
        }
        let sign = if bits & self.sign() == 0 { 1.0 } else { -1.0 };
        let magnitude = bits & (self.sign() - 1);
        if magnitude > self.greatest() {
            let is_infinity = self.special == Special::Ieee && magnitude == self.greatest() + 1;
            return if is_infinity { sign * f64::INFINITY } else { f64::NAN };
        }
        let exponent = i32::from(magnitude >> self.mantissa);
        let fraction = f64::from(magnitude & ((1 << self.mantissa) - 1)) / f64::from(1_u32 << self.mantissa);
        let value = if exponent == 0 {
            fraction * 2_f64.powi(self.least_exponent())
        } else {
            (1.0 + fraction) * 2_f64.powi(exponent - self.bias())
        };
        sign * value
    }

    /// Rounds to the nearest value, halves to even. What is too large becomes infinity, or NaN where there is none, or the greatest value
    /// where there is no NaN either; NaN is negative zero there.
    pub fn encode(self, value: f64) -> u8 {
        let sign = if value.is_sign_negative() { self.sign() } else { 0 };
        let overflow = match self.special {
            Special::Ieee => sign | (self.greatest() + 1),
            Special::AllOnes => sign | (self.sign() - 1),
            Special::NegativeZero => self.sign(),
            Special::None => sign | self.greatest(),
        };
        if value.is_nan() {
            return match self.special {
                Special::Ieee | Special::AllOnes => sign | (self.sign() - 1),
                Special::NegativeZero | Special::None => self.sign(),
            };
        }
        if value.is_infinite() {
            return overflow;
        }
        // Magnitudes of one sign are ordered as their bits are: the quantum is the distance between neighbours.
        let magnitude = value.abs();
        let least_exponent = self.least_exponent();
        let exponent =
            if magnitude == 0.0 { least_exponent } else { binary_exponent(magnitude).max(least_exponent) };
        let quantum = 2_f64.powi(exponent - self.mantissa as i32);
        let steps = (magnitude / quantum).round_ties_even();
        let below = f64::from(exponent - least_exponent) * f64::from(1_u32 << self.mantissa);
        let bits = steps + below;
        if bits > f64::from(self.greatest()) {
            overflow
        } else if bits == 0.0 && self.special == Special::NegativeZero {
            0
        } else {
            sign | bits as u8
        }
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
        for format in [E5M2, E4M3, MiniFloat::E5M2_FNUZ, MiniFloat::E4M3_FNUZ, MiniFloat::E2M1] {
            for bits in 0..=(format.sign() | (format.sign() - 1)) {
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
        let (e5m2, e4m3) = (MiniFloat::E5M2_FNUZ, MiniFloat::E4M3_FNUZ);
        assert_eq!((e4m3.decode(0x7f), e5m2.decode(0x7f)), (240.0, 57344.0));
        assert_eq!((e4m3.encode(-0.0), e4m3.encode(-1e-9), e4m3.encode(1e9)), (0, 0, 0x80));
        let four: Vec<f64> = (0..8).map(|bits| MiniFloat::E2M1.decode(bits)).collect();
        assert_eq!(four, [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
        assert_eq!((MiniFloat::E2M1.encode(2.5), MiniFloat::E2M1.encode(-99.0)), (4, 0xf));
        assert_eq!(MiniFloat::E2M1.encode(f64::NAN), 8);
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

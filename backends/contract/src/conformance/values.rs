//! Deterministic pseudo-random test data.

use crate::op::Domain;
use crate::{DataType, Eltwise};

/// Where an operand's values come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Evenly spread between two bounds.
    Uniform(f64, f64),
    /// Whole numbers between two bounds, both included.
    Integers(i64, i64),
    /// Of either sign, with magnitudes between two bounds: fit for a divisor.
    AwayFromZero(f64, f64),
    /// These, over and over.
    Listed(Vec<f64>),
}

impl Values {
    /// Values that suit a type: sums of a few hundred products stay exact for integers and small for floats.
    pub fn of(data_type: DataType) -> Self {
        match data_type {
            DataType::Boolean => Self::Integers(0, 1),
            DataType::U8 | DataType::U4 => Self::Integers(0, 9),
            data_type if data_type.is_integer() => Self::Integers(-7, 7),
            _ => Self::Uniform(-2.0, 2.0),
        }
    }

    /// `count` values; equal seeds give equal values.
    pub fn draw(&self, count: usize, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        (0..count)
            .map(|i| match self {
                Self::Uniform(low, high) => low + (high - low) * random.unit(),
                Self::Integers(low, high) => (low + random.below((high - low + 1) as u64) as i64) as f64,
                Self::AwayFromZero(low, high) => {
                    let magnitude = low + (high - low) * random.unit();
                    if random.below(2) == 0 { magnitude } else { -magnitude }
                }
                Self::Listed(list) => list[i % list.len().max(1)],
            })
            .collect()
    }
}

/// The generator splitmix64 (Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator; equal seeds give equal sequences.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from zero up to one, one not included.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A whole number below `limit`; zero when the limit is.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.bits().checked_rem(limit).unwrap_or_default()
    }

    /// One of a list's entries; none of an empty list.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len() as u64) as usize)
    }
}

/// Every function, with values from where it is interesting.
pub(in crate::conformance) fn functions() -> Vec<(Eltwise, Values)> {
    let values = |domain| match domain {
        Domain::Between(low, high) => Values::Uniform(low, high),
        Domain::AwayFromZero(low, high) => Values::AwayFromZero(low, high),
        Domain::Quarters => Values::Listed((-20..=20).map(|i| f64::from(i) * 0.25).collect()),
    };
    Eltwise::TABLE.iter().map(|row| (row.example, values(row.domain))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // The published sequence for the seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn values_stay_within_their_bounds() {
        let all = |values: Values| values.draw(500, 3);
        assert!(all(Values::Uniform(-1.0, 2.0)).iter().all(|v| (-1.0..2.0).contains(v)));
        assert!(all(Values::AwayFromZero(0.5, 2.0)).iter().all(|v| (0.5..2.0).contains(&v.abs())));
        let whole = all(Values::Integers(-2, 2));
        assert!((-2..=2).all(|i| whole.contains(&f64::from(i))) && whole.iter().all(|v| v.abs() <= 2.0));
        assert_eq!(Values::Listed(vec![1.0, 2.0]).draw(3, 0), [1.0, 2.0, 1.0]);
        assert_eq!(all(Values::of(DataType::F32)), all(Values::of(DataType::F32)));
    }
}

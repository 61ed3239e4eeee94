//! The choices that a random description is made of: integers that are drawn, recorded, replayed and lowered.

use crate::conformance::values::Random;
use crate::{DataType, Dims, Error, Result};

/// Where generators take their decisions from: a generator at random, which records them, or a record.
///
/// A decision is an integer below a limit. Zero always means the simplest that there is: one element, a dense layout, f32, no
/// post-operation. A record that ends early goes on with zeros and one that is too large is cut to its limit, so that every list of
/// integers describes something; what changes a failing case need not know what its integers mean (`MacIver` and Donaldson, *Test-Case
/// Reduction via Test-Case Generation*, ECOOP 2020).
#[derive(Clone, Debug)]
pub struct Choices {
    source: Source,
    taken: Vec<u64>,
    limits: Limits,
    wanted: Option<DataType>,
    /// How often the first of a list is drawn: plain cases and mixed ones both have their defects.
    plain: f64,
}

/// Where a drawn extent tends to. What is recorded is the extent alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lean {
    /// Nowhere.
    Any,
    /// To a few.
    Few,
    /// To many.
    Many,
}

#[derive(Clone, Debug)]
enum Source {
    Random(Random),
    Record(std::vec::IntoIter<u64>),
}

/// How large a described case may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most elements of a tensor.
    pub elements: usize,
    /// The most products that are summed, over all elements of the result.
    pub work: usize,
}

impl Limits {
    /// What a device's compiler takes longer for than the device.
    pub const QUICK: Self = Self { elements: 1 << 20, work: 1 << 27 };
    /// What the reference computes in a moment.
    pub const SMALL: Self = Self { elements: 1 << 12, work: 1 << 14 };
    /// What a case that someone wrote down may be.
    pub const WIDE: Self = Self { elements: 1 << 26, work: 1 << 36 };
}

/// The largest extent that is drawn.
const MOST: usize = 8192;

impl Choices {
    /// Decisions at random; equal seeds give equal ones.
    pub fn random(seed: u64, limits: Limits) -> Self {
        Self::new(Source::Random(Random::new(seed)), limits)
    }

    /// Decisions from a record.
    pub fn replay(record: Vec<u64>, limits: Limits) -> Self {
        Self::new(Source::Record(record.into_iter()), limits)
    }

    fn new(source: Source, limits: Limits) -> Self {
        let mut source = source;
        let plain = match &mut source {
            Source::Random(random) => [0.3, 0.5, 0.7, 0.95][random.below(4) as usize],
            Source::Record(_) => 0.5,
        };
        Self { source, taken: Vec::new(), limits, wanted: None, plain }
    }

    /// With one data type wherever it may be chosen at random.
    #[must_use]
    pub fn with_type(mut self, wanted: Option<DataType>) -> Self {
        self.wanted = wanted;
        self
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The decisions so far, without zeros at the end.
    pub fn into_record(mut self) -> Vec<u64> {
        while self.taken.last() == Some(&0) {
            self.taken.pop();
        }
        self.taken
    }

    /// A decision below `limit`, at random as `draw` says.
    pub fn choose(&mut self, limit: u64, draw: impl FnOnce(&mut Random) -> u64) -> u64 {
        let chosen = match &mut self.source {
            Source::Random(random) => draw(random),
            Source::Record(record) => record.next().unwrap_or(0),
        };
        let chosen = chosen.min(limit.saturating_sub(1));
        self.taken.push(chosen);
        chosen
    }

    /// A number below `limit`, each as likely as another.
    pub fn below(&mut self, limit: usize) -> usize {
        self.choose(limit as u64, |random| random.below(limit as u64)) as usize
    }

    /// Yes in one of `n` times; more rarely in a plain case.
    pub fn one_in(&mut self, n: u64) -> bool {
        let share = (2.0 * (1.0 - self.plain) / n as f64).min(0.8);
        self.choose(2, |random| u64::from(random.unit() < share)) == 1
    }

    /// A number below `limit` that only says where others lean to: zero from a record.
    pub fn hint(&mut self, limit: u64) -> u64 {
        match &mut self.source {
            Source::Random(random) => random.below(limit),
            Source::Record(_) => 0,
        }
    }

    /// One of a list, each as likely as another.
    ///
    /// # Errors
    /// [`Error::Invalid`] of an empty list.
    pub fn pick<T: Clone>(&mut self, list: &[T]) -> Result<T> {
        let at = self.below(list.len());
        list.get(at)
            .cloned()
            .ok_or_else(|| Error::invalid("draw", "list", "empty", "something to choose from"))
    }

    /// One of a list, the first about half of the times.
    ///
    /// # Errors
    /// As [`Choices::pick`].
    pub fn pick_often_first<T: Clone>(&mut self, list: &[T]) -> Result<T> {
        let count = list.len() as u64;
        let plain = self.plain;
        let at = self.choose(count, |random| if random.unit() < plain { 0 } else { random.below(count) });
        list.get(at as usize)
            .cloned()
            .ok_or_else(|| Error::invalid("draw", "list", "empty", "something to choose from"))
    }

    /// A data type of a list, the first about half of the times; always the wanted one if it is there.
    ///
    /// # Errors
    /// As [`Choices::pick`].
    pub fn data_type(&mut self, list: &[DataType]) -> Result<DataType> {
        let wanted = self.wanted.and_then(|wanted| list.iter().position(|&one| one == wanted));
        let (count, plain) = (list.len() as u64, self.plain);
        let at = self.choose(count, |random| match wanted {
            Some(at) => at as u64,
            None if random.unit() < plain => 0,
            None => random.below(count),
        });
        list.get(at as usize)
            .copied()
            .ok_or_else(|| Error::invalid("draw", "data types", "none", "something to choose from"))
    }

    /// An extent from one to `limit`, recorded as one less: evenly on a scale of powers of two, often odd, near the edge of a tile, small or
    /// one.
    pub fn size(&mut self, limit: usize) -> usize {
        self.leaning(limit, Lean::Any)
    }

    fn leaning(&mut self, limit: usize, lean: Lean) -> usize {
        let limit = limit.clamp(1, MOST);
        1 + self.choose(limit as u64, |random| drawn_size(random, limit, lean) as u64 - 1) as usize
    }

    /// As many extents whose product is at most `limit`.
    pub fn sizes(&mut self, count: usize, limit: usize) -> Vec<usize> {
        let product = |sizes: &[usize]| sizes.iter().fold(1_usize, |all, &one| all.saturating_mul(one));
        self.sizes_where(&vec![MOST; count], |sizes| product(sizes) <= limit)
    }

    /// An extent up to each of `most`; the largest is cut until all of them fit.
    pub fn sizes_where(&mut self, most: &[usize], fits: impl Fn(&[usize]) -> bool) -> Vec<usize> {
        let most: Vec<(usize, Lean)> = most.iter().map(|&most| (most, Lean::Any)).collect();
        self.sizes_leaning(&most, fits)
    }

    /// [`Choices::sizes_where`] of extents that tend somewhere.
    pub fn sizes_leaning(&mut self, most: &[(usize, Lean)], fits: impl Fn(&[usize]) -> bool) -> Vec<usize> {
        let first = self.taken.len();
        let mut sizes: Vec<usize> = most.iter().map(|&(most, lean)| self.leaning(most, lean)).collect();
        while !fits(&sizes) {
            let Some(largest) = sizes.iter_mut().max().filter(|largest| **largest > 1) else { break };
            *largest -= (*largest / 4).max(1);
        }
        for (taken, size) in self.taken[first..].iter_mut().zip(&sizes) {
            *taken = *size as u64 - 1;
        }
        sizes
    }

    /// The dimensions of a tensor: of rank one where the choices are zero, then higher, at last without any.
    pub fn dims(&mut self, most_rank: usize, limit: usize) -> Dims {
        let ranks = [1, 2, 3, 4, 5, 6, 0];
        let rank = ranks[self.below(ranks.len())].min(most_rank);
        Dims::from(self.sizes(rank, limit))
    }

    /// An order of axes; the first choice of each keeps it in its place.
    pub fn order(&mut self, rank: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..rank).collect();
        for i in 0..rank.saturating_sub(1) {
            let other = i + self.below(rank - i);
            order.swap(i, other);
        }
        order
    }

    /// A divisor of a number, one if the choice is zero.
    pub fn divisor(&mut self, of: usize) -> usize {
        let all: Vec<usize> = (1..=of.max(1)).filter(|&d| of.max(1).is_multiple_of(d)).collect();
        all[self.below(all.len())]
    }
}

fn drawn_size(random: &mut Random, limit: usize, lean: Lean) -> usize {
    let bits = (limit as f64).log2();
    let even = |random: &mut Random, bits: f64| (bits * random.unit()).exp2() as usize;
    let size = match random.below(8) {
        _ if lean == Lean::Few => 1 + random.below(16) as usize,
        odd if lean == Lean::Many => {
            (bits * (1.0 + random.unit()) / 2.0).exp2() as usize | (odd % 2) as usize
        }
        0 => 1,
        1 => 1 + random.below(8) as usize,
        // Beside the edges of tiles.
        2 | 3 => {
            let tile = [4, 8, 16, 32, 64, 128][random.below(6) as usize];
            let many = even(random, (bits - (tile as f64).log2()).max(0.0));
            (tile * many + random.below(3) as usize).saturating_sub(1)
        }
        4 => even(random, bits) | 1,
        _ => even(random, bits),
    };
    size.clamp(1, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_gives_the_same_again() {
        let draw = |choices: &mut Choices| {
            let sizes = choices.sizes(3, 1 << 20);
            (sizes, choices.order(4), choices.one_in(2), choices.divisor(12))
        };
        for seed in 0..200 {
            let mut first = Choices::random(seed, Limits::QUICK);
            let drawn = draw(&mut first);
            assert!(drawn.0.iter().product::<usize>() <= 1 << 20);
            let record = first.into_record();
            // Wider limits change nothing.
            let mut second = Choices::replay(record.clone(), Limits::WIDE);
            assert_eq!(draw(&mut second), drawn, "seed {seed}");
            assert_eq!(second.into_record(), record);
        }
    }

    #[test]
    fn nothing_recorded_means_the_simplest() {
        let mut choices = Choices::replay(Vec::new(), Limits::QUICK);
        assert_eq!(*choices.dims(6, 100), [1]);
        assert_eq!(choices.order(3), [0, 1, 2]);
        assert_eq!(choices.data_type(&[DataType::F32, DataType::F16]).unwrap(), DataType::F32);
        assert!(!choices.one_in(1) && choices.divisor(6) == 1);
        assert!(choices.pick::<u8>(&[]).is_err());
    }

    #[test]
    fn sizes_are_recorded_as_they_are_and_cut_to_their_limits() {
        let mut choices = Choices::replay(vec![399, 10_000, 7], Limits::QUICK);
        assert_eq!([choices.size(MOST), choices.size(64), choices.size(MOST)], [400, 64, 8]);
    }

    #[test]
    fn a_wanted_type_is_taken_wherever_it_may_be() {
        let list = [DataType::F32, DataType::F16, DataType::S8];
        for seed in 0..20 {
            let mut choices = Choices::random(seed, Limits::QUICK).with_type(Some(DataType::S8));
            assert_eq!(choices.data_type(&list).unwrap(), DataType::S8);
        }
    }

    #[test]
    fn sizes_have_all_magnitudes() {
        let mut choices = Choices::random(5, Limits::QUICK);
        let sizes: Vec<usize> = (0..2000).map(|_| choices.size(MOST)).collect();
        let share = |holds: &dyn Fn(usize) -> bool| sizes.iter().filter(|&&s| holds(s)).count();
        assert!(share(&|s| s == 1) > 200 && share(&|s| s > 2000) > 150 && share(&|s| s % 2 == 1) > 1000);
        assert!(share(&|s| s % 16 == 1 || s % 16 == 15) > 400);
    }
}

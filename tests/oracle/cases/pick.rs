//! Choices that follow from a seed.

use anydnn::backend::DataType::{self, BF16, F16, F32};

/// A source of choices.
#[derive(Debug)]
pub struct Pick(u64);

impl Pick {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number between two, both included.
    pub fn of(&mut self, least: usize, most: usize) -> usize {
        least + (self.next() % (most - least + 1) as u64) as usize
    }

    pub fn one<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.of(0, all.len() - 1)].clone()
    }

    pub fn flag(&mut self) -> bool {
        self.of(0, 1) == 1
    }

    /// True once in so many times.
    pub fn rarely(&mut self, times: usize) -> bool {
        self.of(1, times) == 1
    }

    /// A number between two, in sixteenths.
    pub fn float(&mut self, least: f32, most: f32) -> f32 {
        least + (most - least) * self.of(0, 16) as f32 / 16.0
    }

    /// So many sizes, at least and at most these.
    pub fn dims(&mut self, rank: usize, least: usize, most: usize) -> Vec<usize> {
        (0..rank).map(|_| self.of(least, most)).collect()
    }

    /// A shape of a rank between two.
    pub fn shape(&mut self, least: usize, most: usize) -> Vec<usize> {
        let rank = self.of(least, most);
        self.dims(rank, 1, if rank > 3 { 4 } else { 6 })
    }

    /// The type of floating-point operands.
    pub fn float_type(&mut self) -> DataType {
        self.one(&[F32, F32, F16, BF16])
    }

    /// An axis, counted from either end.
    pub fn axis(&mut self, rank: usize) -> i64 {
        let axis = self.of(0, rank - 1) as i64;
        if self.flag() { axis } else { axis - rank as i64 }
    }

    /// A shape that stretches to another one: some sizes are one, and leading ones may be absent.
    pub fn stretching(&mut self, to: &[usize]) -> Vec<usize> {
        let from = if self.rarely(3) { self.of(0, to.len() - 1) } else { 0 };
        to[from..].iter().map(|&dim| if self.rarely(4) { 1 } else { dim }).collect()
    }

    pub fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut all: Vec<_> = (0..count).collect();
        for i in (1..count).rev() {
            all.swap(i, self.of(0, i));
        }
        all
    }

    fn next(&mut self) -> u64 {
        // Sebastiano Vigna's splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

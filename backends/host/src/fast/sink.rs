//! Where the sums of a tile go, and the steps behind them while they are in registers.

use super::lanes::Lanes;

/// The most columns of a panel.
pub(super) const WIDTH: usize = 32;
/// The most rows of a tile at any level.
pub(super) const ROWS: usize = 14;

/// What follows the sums in registers, and where they go.
#[derive(Debug)]
pub(super) struct Target<'a> {
    pub(super) steps: &'a [Step<'a>],
    /// The place of the first column in a row at offset zero.
    pub(super) to: *mut f32,
    /// The offset of each row.
    pub(super) rows: &'a [usize],
    /// The column of the tile's first sum, from there on, and from what the steps lead to.
    pub(super) column: usize,
}

/// A step behind the sums. Pointers lead to what meets the first column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    /// Adds the same numbers to every row.
    AddColumns(*const f32),
    /// Adds or multiplies by numbers whose rows have offsets.
    Add(*const f32, &'a [usize]),
    Multiply(*const f32, &'a [usize]),
    /// Adds or multiplies by one number.
    AddOne(f32),
    MultiplyOne(f32),
    AtLeast(f32),
    AtMost(f32),
    /// `x * clamp(alpha * x + beta, 0, 1)`
    HardSwish(f32, f32),
    /// Multiplies every row by a number of its own, of numbers that follow one another.
    MultiplyRows(*const f32),
}

/// Where the sums of two vectors of columns go.
pub(super) trait Sink {
    /// # Safety
    /// The processor has the instructions of the lanes; rows and columns are those of [`multiply`](super::tile::multiply).
    unsafe fn put<L: Lanes, const ROWS: usize, const VECTORS: usize>(&self, sums: [[L; VECTORS]; ROWS]);
}

/// Rows of sums, [`WIDTH`] numbers apart, which may grow by what they were.
pub(super) struct ToSums {
    pub(super) to: *mut f32,
    pub(super) add: bool,
}

impl Sink for ToSums {
    #[inline(always)]
    unsafe fn put<L: Lanes, const ROWS: usize, const VECTORS: usize>(&self, sums: [[L; VECTORS]; ROWS]) {
        for (row, sums) in sums.into_iter().enumerate() {
            for (vector, mut sum) in sums.into_iter().enumerate() {
                // SAFETY: by the caller of `multiply`.
                unsafe {
                    let to = self.to.add(row * WIDTH + vector * L::COUNT);
                    if self.add {
                        sum = sum.add(L::load(to));
                    }
                    sum.store(to);
                }
            }
        }
    }
}

/// A target from a column on.
pub(super) struct ToTarget<'t> {
    pub(super) target: &'t Target<'t>,
    pub(super) first: usize,
    pub(super) columns: usize,
}

impl Sink for ToTarget<'_> {
    #[inline(always)]
    unsafe fn put<L: Lanes, const ROWS: usize, const VECTORS: usize>(&self, sums: [[L; VECTORS]; ROWS]) {
        // SAFETY: by the caller of `multiply_into`.
        unsafe {
            if self.columns == VECTORS * L::COUNT {
                self.put_some::<L, ROWS, VECTORS, true>(sums);
            } else {
                self.put_some::<L, ROWS, VECTORS, false>(sums);
            }
        }
    }
}

impl ToTarget<'_> {
    /// A vector of what meets the columns; the last one may not be whole.
    #[inline(always)]
    unsafe fn load<L: Lanes, const VECTORS: usize, const WHOLE: bool>(
        &self,
        from: *const f32,
        vector: usize,
    ) -> L {
        // SAFETY: the columns are there, by the caller of `multiply_into`.
        unsafe {
            let from = from.add(self.first + vector * L::COUNT);
            if WHOLE || vector + 1 < VECTORS {
                L::load(from)
            } else {
                L::load_some(from, self.columns - (VECTORS - 1) * L::COUNT)
            }
        }
    }

    #[expect(clippy::needless_range_loop, reason = "constant bounds, which the compiler unrolls")]
    #[inline(always)]
    unsafe fn put_some<L: Lanes, const ROWS: usize, const VECTORS: usize, const WHOLE: bool>(
        &self,
        mut sums: [[L; VECTORS]; ROWS],
    ) {
        let some = self.columns - (VECTORS - 1) * L::COUNT;
        // SAFETY: every row has its columns at its offset, by the caller of `multiply_into`.
        unsafe {
            for step in self.target.steps {
                match *step {
                    Step::AddColumns(from) => {
                        for vector in 0..VECTORS {
                            let values = self.load::<L, VECTORS, WHOLE>(from, vector);
                            for row in 0..ROWS {
                                sums[row][vector] = sums[row][vector].add(values);
                            }
                        }
                    }
                    Step::Add(from, rows) => {
                        for row in 0..ROWS {
                            let from = from.add(*rows.get_unchecked(row));
                            for vector in 0..VECTORS {
                                sums[row][vector] =
                                    sums[row][vector].add(self.load::<L, VECTORS, WHOLE>(from, vector));
                            }
                        }
                    }
                    Step::Multiply(from, rows) => {
                        for row in 0..ROWS {
                            let from = from.add(*rows.get_unchecked(row));
                            for vector in 0..VECTORS {
                                sums[row][vector] =
                                    sums[row][vector].multiply(self.load::<L, VECTORS, WHOLE>(from, vector));
                            }
                        }
                    }
                    Step::MultiplyRows(from) => {
                        for row in 0..ROWS {
                            let factor = L::splat(*from.add(row));
                            for vector in 0..VECTORS {
                                sums[row][vector] = sums[row][vector].multiply(factor);
                            }
                        }
                    }
                    Step::AddOne(value) => each(&mut sums, value, |sum, value| sum.add(value)),
                    Step::MultiplyOne(value) => each(&mut sums, value, |sum, value| sum.multiply(value)),
                    Step::AtLeast(low) => each(&mut sums, low, |sum, low| sum.at_least(low)),
                    Step::AtMost(high) => each(&mut sums, high, |sum, high| sum.at_most(high)),
                    Step::HardSwish(alpha, beta) => {
                        let (alpha, beta) = (L::splat(alpha), L::splat(beta));
                        let (zero, one) = (L::splat(0.0), L::splat(1.0));
                        for row in 0..ROWS {
                            for vector in 0..VECTORS {
                                let x = sums[row][vector];
                                let part = beta.plus_product(alpha, x).at_least(zero).at_most(one);
                                sums[row][vector] = x.multiply(part);
                            }
                        }
                    }
                }
            }
            for row in 0..ROWS {
                let to = self.target.to.add(*self.target.rows.get_unchecked(row) + self.first);
                for vector in 0..VECTORS {
                    let to = to.add(vector * L::COUNT);
                    if WHOLE || vector + 1 < VECTORS {
                        sums[row][vector].store(to);
                    } else {
                        sums[row][vector].store_some(to, some);
                    }
                }
            }
        }
    }
}

/// Joins every sum with the same number.
#[expect(clippy::needless_range_loop, reason = "constant bounds, which the compiler unrolls")]
#[inline(always)]
unsafe fn each<L: Lanes, const ROWS: usize, const VECTORS: usize>(
    sums: &mut [[L; VECTORS]; ROWS],
    value: f32,
    join: impl Fn(L, L) -> L,
) {
    // SAFETY: the processor has the instructions, by the caller of `put`.
    let value = unsafe { L::splat(value) };
    for row in 0..ROWS {
        for vector in 0..VECTORS {
            sums[row][vector] = join(sums[row][vector], value);
        }
    }
}

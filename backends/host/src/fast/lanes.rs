//! Vectors of f32 in registers, for sums of products.

/// A vector of [`Lanes::COUNT`] numbers.
///
/// # Safety
/// Every function asks that the processor has the type's instructions, and that pointers reach so many numbers.
pub(super) trait Lanes: Copy {
    const COUNT: usize;

    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn splat(value: f32) -> Self;
    /// The first `count` numbers, fewer than all; what is behind them is not read.
    unsafe fn load_some(from: *const f32, count: usize) -> Self;
    /// Writes the first `count` numbers, fewer than all.
    unsafe fn store_some(self, to: *mut f32, count: usize);
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn multiply(self, other: Self) -> Self;
    /// The larger of each pair; of one with NaN, and of zeros, `self`.
    unsafe fn at_least(self, low: Self) -> Self;
    /// The smaller of each pair; of one with NaN, and of zeros, `self`.
    unsafe fn at_most(self, high: Self) -> Self;
    /// `a * b + self`
    unsafe fn plus_product(self, a: Self, b: Self) -> Self;
    /// The sum of the numbers, by halves.
    unsafe fn total(self) -> f32;
    /// Asks for the numbers' cache lines, of which one begins at the address; any address may be asked for.
    unsafe fn prefetch(from: *const f32);
}

/// Four numbers, which every compiler keeps in a register.
#[derive(Clone, Copy)]
pub(super) struct Four([f32; 4]);

impl Lanes for Four {
    const COUNT: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's pointer reaches four numbers.
        Self(unsafe { from.cast::<[f32; 4]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as for `load`.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; 4])
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        Self([a + e, b + f, c + g, d + h])
    }

    #[inline(always)]
    unsafe fn load_some(from: *const f32, count: usize) -> Self {
        // SAFETY: the caller's pointer reaches so many numbers.
        Self(std::array::from_fn(|i| if i < count { unsafe { *from.add(i) } } else { 0.0 }))
    }

    #[inline(always)]
    unsafe fn store_some(self, to: *mut f32, count: usize) {
        for (i, value) in self.0.into_iter().enumerate().take(count) {
            // SAFETY: as for `load_some`.
            unsafe { *to.add(i) = value };
        }
    }

    #[inline(always)]
    unsafe fn multiply(self, other: Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        Self([a * e, b * f, c * g, d * h])
    }

    #[inline(always)]
    unsafe fn at_least(self, low: Self) -> Self {
        Self(std::array::from_fn(|i| if self.0[i] < low.0[i] { low.0[i] } else { self.0[i] }))
    }

    #[inline(always)]
    unsafe fn at_most(self, high: Self) -> Self {
        Self(std::array::from_fn(|i| if self.0[i] > high.0[i] { high.0[i] } else { self.0[i] }))
    }

    #[inline(always)]
    unsafe fn total(self) -> f32 {
        let [a, b, c, d] = self.0;
        (a + c) + (b + d)
    }

    #[inline(always)]
    unsafe fn prefetch(_: *const f32) {}

    #[inline(always)]
    unsafe fn plus_product(self, a: Self, b: Self) -> Self {
        let ([a0, a1, a2, a3], [b0, b1, b2, b3]) = (a.0, b.0);
        // SAFETY: it needs nothing.
        unsafe { self.add(Self([a0 * b0, a1 * b1, a2 * b2, a3 * b3])) }
    }
}

/// Asks for the cache lines of so many numbers, which will be written; for processors with AVX2 and later.
#[inline(always)]
pub(super) fn expect(first: *mut f32, count: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..count).step_by(16) {
        let line = first.wrapping_add(line);
        // The compiler's own hint becomes one for reading, which leaves a line with the core that wrote it last.
        // SAFETY: the instruction changes nothing that the program sees, whatever the address; processors
        // with AVX2 that lack it do nothing.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (first, count);
}

/// The pointer, of which the compiler knows nothing any more.
#[cfg_attr(
    target_arch = "x86_64",
    expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is read: there is no instruction")
)]
#[inline(always)]
pub(super) fn opaque(pointer: *const f32) -> *const f32 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut pointer = pointer;
        // SAFETY: there is no instruction.
        unsafe {
            std::arch::asm!("/* {} */", inout(reg) pointer, options(pure, nomem, nostack, preserves_flags));
        }
        pointer
    }
    #[cfg(not(target_arch = "x86_64"))]
    pointer
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256, __m256i, __m512, _MM_HINT_T0, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_movehdup_ps,
        _mm_movehl_ps, _mm_prefetch, _mm256_add_ps, _mm256_castps256_ps128, _mm256_cmpgt_epi32,
        _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_maskload_ps, _mm256_maskstore_ps,
        _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setr_epi32,
        _mm256_storeu_ps, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_storeu_ps,
        _mm512_maskz_loadu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_reduce_add_ps,
        _mm512_set1_ps, _mm512_storeu_ps,
    };

    use super::Lanes;

    /// Numbers of a cache line.
    const LINE: usize = 16;

    macro_rules! lanes {
        (
            $type:ty, $count:literal, $load:ident, $store:ident, $splat:ident, $add:ident, $multiply:ident, $max:ident, $min:ident,
            $multiply_add:ident, $total:ident, |$from:ident, $to:ident, $value:ident, $some:ident| $load_some:expr, $store_some:expr
        ) => {
            impl Lanes for $type {
                const COUNT: usize = $count;

                #[inline(always)]
                unsafe fn load(from: *const f32) -> Self {
                    // SAFETY: the caller's pointer reaches so many numbers, and the processor has the instruction.
                    unsafe { $load(from) }
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut f32) {
                    // SAFETY: as for `load`.
                    unsafe { $store(to, self) }
                }

                #[inline(always)]
                unsafe fn splat(value: f32) -> Self {
                    // SAFETY: the processor has the instruction.
                    unsafe { $splat(value) }
                }

                #[inline(always)]
                unsafe fn load_some($from: *const f32, $some: usize) -> Self {
                    // SAFETY: the instruction reads the numbers of its mask, which the caller's pointer reaches.
                    unsafe { $load_some }
                }

                #[inline(always)]
                unsafe fn store_some(self, $to: *mut f32, $some: usize) {
                    let $value = self;
                    // SAFETY: as for `load_some`.
                    unsafe { $store_some }
                }

                #[inline(always)]
                unsafe fn add(self, other: Self) -> Self {
                    // SAFETY: the processor has the instruction.
                    unsafe { $add(self, other) }
                }

                #[inline(always)]
                unsafe fn multiply(self, other: Self) -> Self {
                    // SAFETY: the processor has the instruction.
                    unsafe { $multiply(self, other) }
                }

                #[inline(always)]
                unsafe fn at_least(self, low: Self) -> Self {
                    // SAFETY: the processor has the instruction, which gives its second operand for NaN and for zeros.
                    unsafe { $max(low, self) }
                }

                #[inline(always)]
                unsafe fn at_most(self, high: Self) -> Self {
                    // SAFETY: as for `at_least`.
                    unsafe { $min(high, self) }
                }

                #[inline(always)]
                unsafe fn plus_product(self, a: Self, b: Self) -> Self {
                    // SAFETY: the processor has the instruction.
                    unsafe { $multiply_add(a, b, self) }
                }

                #[inline(always)]
                unsafe fn total(self) -> f32 {
                    // SAFETY: the processor has the instructions.
                    unsafe { $total(self) }
                }

                #[inline(always)]
                unsafe fn prefetch(from: *const f32) {
                    for line in (0..$count).step_by(LINE) {
                        // SAFETY: the instruction reads nothing that the program sees, whatever the address.
                        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(line).cast()) };
                    }
                }
            }
        };
    }

    lanes!(
        __m256,
        8,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_set1_ps,
        _mm256_add_ps,
        _mm256_mul_ps,
        _mm256_max_ps,
        _mm256_min_ps,
        _mm256_fmadd_ps,
        total_of_eight,
        |from, to, value, some| _mm256_maskload_ps(from, first(some)),
        _mm256_maskstore_ps(to, first(some), value)
    );
    lanes!(
        __m512,
        16,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_set1_ps,
        _mm512_add_ps,
        _mm512_mul_ps,
        _mm512_max_ps,
        _mm512_min_ps,
        _mm512_fmadd_ps,
        _mm512_reduce_add_ps,
        |from, to, value, some| _mm512_maskz_loadu_ps((1 << some) - 1, from),
        _mm512_mask_storeu_ps(to, (1 << some) - 1, value)
    );

    /// The sum of eight numbers, by halves.
    #[inline(always)]
    unsafe fn total_of_eight(numbers: __m256) -> f32 {
        // SAFETY: the processor has the instructions, by the caller.
        unsafe {
            let four = _mm_add_ps(_mm256_castps256_ps128(numbers), _mm256_extractf128_ps::<1>(numbers));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }

    /// A mask of the first lanes.
    #[inline(always)]
    unsafe fn first(count: usize) -> __m256i {
        // SAFETY: the processor has the instructions, by the caller.
        unsafe {
            _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
        }
    }
}

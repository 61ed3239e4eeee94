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
    unsafe fn add(self, other: Self) -> Self;
    /// `a * b + self`
    unsafe fn plus_product(self, a: Self, b: Self) -> Self;
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
    unsafe fn plus_product(self, a: Self, b: Self) -> Self {
        let ([a0, a1, a2, a3], [b0, b1, b2, b3]) = (a.0, b.0);
        // SAFETY: it needs nothing.
        unsafe { self.add(Self([a0 * b0, a1 * b1, a2 * b2, a3 * b3])) }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256, __m512, _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_storeu_ps,
        _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_storeu_ps,
    };

    use super::Lanes;

    macro_rules! lanes {
        ($type:ty, $count:literal, $load:ident, $store:ident, $splat:ident, $add:ident, $multiply_add:ident) => {
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
                unsafe fn add(self, other: Self) -> Self {
                    // SAFETY: the processor has the instruction.
                    unsafe { $add(self, other) }
                }

                #[inline(always)]
                unsafe fn plus_product(self, a: Self, b: Self) -> Self {
                    // SAFETY: the processor has the instruction.
                    unsafe { $multiply_add(a, b, self) }
                }
            }
        };
    }

    lanes!(__m256, 8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_add_ps, _mm256_fmadd_ps);
    lanes!(__m512, 16, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_add_ps, _mm512_fmadd_ps);
}

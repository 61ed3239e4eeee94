//! Products of matrices in the host's memory: `C = alpha * op(A) * op(B) + beta * C`, all in row-major order, with leading dimensions in
//! elements. They run on the host, at once; no engine takes part.

use std::ffi::c_char;

use crate::boundary::{self, Failure, Outcome};
use crate::types::{dnnl_dim_t, dnnl_status_t};

/// A product in f32. `transa` and `transb` are `N` or `T` in either case.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_sgemm(
    transa: c_char,
    transb: c_char,
    m: dnnl_dim_t,
    n: dnnl_dim_t,
    k: dnnl_dim_t,
    alpha: f32,
    a: *const f32,
    lda: dnnl_dim_t,
    b: *const f32,
    ldb: dnnl_dim_t,
    beta: f32,
    c: *mut f32,
    ldc: dnnl_dim_t,
) -> dnnl_status_t {
    boundary::status("dnnl_sgemm", || {
        let shape = Shape::read([transa, transb], [m, n, k], [lda, ldb, ldc])?;
        shape.check(a, b, c)?;
        if shape.m == 0 || shape.n == 0 {
            return Ok(());
        }
        let ([a_row, a_column], [b_row, b_column]) = (shape.a, shape.b);
        let parallelism =
            if shape.work() > PARALLEL { gemm::Parallelism::Rayon(0) } else { gemm::Parallelism::None };
        // SAFETY: the caller passes matrices of that shape, and C lies apart from A and B.
        unsafe {
            gemm::gemm(
                shape.m,
                shape.n,
                shape.k,
                c,
                1,
                shape.c as isize,
                // A result that is not wanted is not read: it may hold NaN.
                beta != 0.0,
                a,
                a_column as isize,
                a_row as isize,
                b,
                b_column as isize,
                b_row as isize,
                beta,
                alpha,
                false,
                false,
                false,
                parallelism,
            );
        }
        Ok(())
    })
}

/// A product of u8 and s8 into s32: `C = alpha * (op(A) - ao) * (op(B) - bo) + beta * C + co`, rounded half to even and saturated. `offsetc` says
/// what `co` holds: `F` one summand, `C` one for each row, `R` one for each column.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_gemm_u8s8s32(
    transa: c_char,
    transb: c_char,
    offsetc: c_char,
    m: dnnl_dim_t,
    n: dnnl_dim_t,
    k: dnnl_dim_t,
    alpha: f32,
    a: *const u8,
    lda: dnnl_dim_t,
    ao: u8,
    b: *const i8,
    ldb: dnnl_dim_t,
    bo: i8,
    beta: f32,
    c: *mut i32,
    ldc: dnnl_dim_t,
    co: *const i32,
) -> dnnl_status_t {
    boundary::status("dnnl_gemm_u8s8s32", || {
        let shape = Shape::read([transa, transb], [m, n, k], [lda, ldb, ldc])?;
        // SAFETY: the caller passes null or matrices of that shape, and as many summands as `offsetc` says.
        unsafe { integers(&shape, offsetc, [alpha, beta], (a, ao), (b, bo), c, co) }
    })
}

/// A product of s8 and s8 into s32; see [`dnnl_gemm_u8s8s32`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_gemm_s8s8s32(
    transa: c_char,
    transb: c_char,
    offsetc: c_char,
    m: dnnl_dim_t,
    n: dnnl_dim_t,
    k: dnnl_dim_t,
    alpha: f32,
    a: *const i8,
    lda: dnnl_dim_t,
    ao: i8,
    b: *const i8,
    ldb: dnnl_dim_t,
    bo: i8,
    beta: f32,
    c: *mut i32,
    ldc: dnnl_dim_t,
    co: *const i32,
) -> dnnl_status_t {
    boundary::status("dnnl_gemm_s8s8s32", || {
        let shape = Shape::read([transa, transb], [m, n, k], [lda, ldb, ldc])?;
        // SAFETY: the caller passes null or matrices of that shape, and as many summands as `offsetc` says.
        unsafe { integers(&shape, offsetc, [alpha, beta], (a, ao), (b, bo), c, co) }
    })
}

/// Products of more multiplications than this run on several threads.
const PARALLEL: usize = 1 << 18;

/// The dimensions of a product, and the distances in elements between rows and columns of `op(A)` and `op(B)`, and between rows of C.
struct Shape {
    m: usize,
    n: usize,
    k: usize,
    a: [usize; 2],
    b: [usize; 2],
    c: usize,
}

impl Shape {
    fn read(
        transposed: [c_char; 2],
        [m, n, k]: [dnnl_dim_t; 3],
        [lda, ldb, ldc]: [dnnl_dim_t; 3],
    ) -> Outcome<Self> {
        let flag = |given: c_char| match given as u8 {
            b'N' | b'n' => Ok(false),
            b'T' | b't' => Ok(true),
            other => Err(Failure::invalid(format!("{other} is no transposition, expected N or T"))),
        };
        let size = |given: dnnl_dim_t, what: &str| {
            usize::try_from(given).map_err(|_| Failure::invalid(format!("{what} is {given}")))
        };
        let [transa, transb] = [flag(transposed[0])?, flag(transposed[1])?];
        let (m, n, k) = (size(m, "M")?, size(n, "N")?, size(k, "K")?);
        let leading = |given: dnnl_dim_t, least: usize, what: &str| {
            let given = size(given, what)?;
            if given < least.max(1) {
                return Err(Failure::invalid(format!(
                    "{what} is {given}, expected at least {}",
                    least.max(1)
                )));
            }
            Ok(given)
        };
        let lda = leading(lda, if transa { m } else { k }, "lda")?;
        let ldb = leading(ldb, if transb { k } else { n }, "ldb")?;
        let c = leading(ldc, n, "ldc")?;
        let strides = |leading, transposed| if transposed { [1, leading] } else { [leading, 1] };
        Ok(Self { m, n, k, a: strides(lda, transa), b: strides(ldb, transb), c })
    }

    fn check<A, B, C>(&self, a: *const A, b: *const B, c: *const C) -> Outcome {
        for (is_null, what) in [(a.is_null(), "A"), (b.is_null(), "B"), (c.is_null(), "C")] {
            if is_null {
                return Err(Failure::null(what));
            }
        }
        Ok(())
    }

    fn work(&self) -> usize {
        self.m.saturating_mul(self.n).saturating_mul(self.k)
    }
}

/// # Safety
/// The pointers are null or to what [`dnnl_gemm_u8s8s32`] says; C and `co` lie apart from A and B.
unsafe fn integers<A: Copy + Into<i32>>(
    shape: &Shape,
    offsetc: c_char,
    [alpha, beta]: [f32; 2],
    (a, ao): (*const A, A),
    (b, bo): (*const i8, i8),
    c: *mut i32,
    co: *const i32,
) -> Outcome {
    shape.check(a, b, c)?;
    if co.is_null() {
        return Err(Failure::null("co"));
    }
    let [by_row, by_column] = match offsetc as u8 {
        b'F' | b'f' => [0, 0],
        b'C' | b'c' => [1, 0],
        b'R' | b'r' => [0, 1],
        other => return Err(Failure::invalid(format!("{other} is no offset of C, expected F, C or R"))),
    };
    let ([a_row, a_column], [b_row, b_column]) = (shape.a, shape.b);
    let (ao, bo): (i32, i32) = (ao.into(), i32::from(bo));
    let mut sums = vec![0_i64; shape.n];
    for i in 0..shape.m {
        sums.fill(0);
        for p in 0..shape.k {
            // SAFETY: inside A, by contract.
            let left: i32 = unsafe { a.add(i * a_row + p * a_column).read_unaligned() }.into();
            let left = i64::from(left - ao);
            for (j, sum) in sums.iter_mut().enumerate() {
                // SAFETY: inside B, by contract.
                let right = unsafe { b.add(p * b_row + j * b_column).read() };
                *sum += left * i64::from(i32::from(right) - bo);
            }
        }
        for (j, sum) in sums.iter().enumerate() {
            // SAFETY: inside C and `co`, by contract.
            unsafe {
                let at = c.add(i * shape.c + j);
                let offset = f64::from(co.add(i * by_row + j * by_column).read_unaligned());
                let old = if beta == 0.0 { 0.0 } else { f64::from(beta) * f64::from(at.read_unaligned()) };
                let value = f64::from(alpha) * *sum as f64 + old + offset;
                // The conversion saturates.
                at.write_unaligned(value.round_ties_even() as i32);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{dnnl_invalid_arguments, dnnl_success};

    fn letter(letter: u8) -> c_char {
        letter as c_char
    }

    #[test]
    fn products_in_floats_are_those_of_plain_loops() {
        let (m, n, k) = (3, 4, 5);
        let value = |i: usize| (i * 7 % 11) as f32 - 5.0;
        let (a, b): (Vec<f32>, Vec<f32>) = ((0..40).map(value).collect(), (3..43).map(value).collect());
        for (transa, transb, beta) in
            [(b'N', b'N', 0.0), (b'T', b'n', 2.0), (b'n', b'T', 1.0), (b't', b't', 0.5)]
        {
            let mut c = [1.5_f32; 24];
            // Rows of C are six apart; those of A and B seven or eight.
            // SAFETY: the arrays are large enough for these leading dimensions.
            let status = unsafe {
                dnnl_sgemm(
                    letter(transa),
                    letter(transb),
                    m,
                    n,
                    k,
                    0.5,
                    a.as_ptr(),
                    7,
                    b.as_ptr(),
                    8,
                    beta,
                    c.as_mut_ptr(),
                    6,
                )
            };
            assert_eq!(status, dnnl_success);
            for i in 0..3 {
                for j in 0..4 {
                    let sum: f32 = (0..5)
                        .map(|p| {
                            let left = if transa | 32 == b't' { a[p * 7 + i] } else { a[i * 7 + p] };
                            left * if transb | 32 == b't' { b[j * 8 + p] } else { b[p * 8 + j] }
                        })
                        .sum();
                    let wanted = 0.5 * sum + beta * 1.5;
                    assert!((c[i * 6 + j] - wanted).abs() < 1e-4, "{transa} {transb} {i} {j}");
                }
                assert_eq!(c[i * 6 + 4..i * 6 + 6], [1.5; 2]);
            }
        }
    }

    #[test]
    fn products_of_bytes_round_and_saturate() {
        let (a, b) = ([200_u8, 3, 4, 255], [5_i8, -6, 127, -128]);
        let run = |offsetc: u8, alpha: f32, beta: f32, co: &[i32]| {
            let mut c = [10_i32, 20, 30, i32::MAX];
            // SAFETY: the arrays are of two rows of two.
            let status = unsafe {
                dnnl_gemm_u8s8s32(
                    letter(b'N'),
                    letter(b'N'),
                    letter(offsetc),
                    2,
                    2,
                    2,
                    alpha,
                    a.as_ptr(),
                    2,
                    1,
                    b.as_ptr(),
                    2,
                    2,
                    beta,
                    c.as_mut_ptr(),
                    2,
                    co.as_ptr(),
                )
            };
            (status, c)
        };
        let plain = [199 * 3 + 2 * 125, 199 * -8 + 2 * -130, 3 * 3 + 254 * 125, 3 * -8 + 254 * -130];
        assert_eq!(run(b'F', 1.0, 0.0, &[7]), (dnnl_success, plain.map(|x| x + 7)));
        assert_eq!(run(b'C', 1.0, 0.0, &[1, 2]).1, [plain[0] + 1, plain[1] + 1, plain[2] + 2, plain[3] + 2]);
        assert_eq!(run(b'R', 1.0, 1.0, &[1, 2]).1[..3], [plain[0] + 11, plain[1] + 22, plain[2] + 31]);
        // 847 / 2 is halfway between two integers.
        assert_eq!(run(b'F', 0.5, 0.0, &[0]).1[0], 424);
        assert_eq!(run(b'F', -1e9, 0.0, &[0]).1[..2], [i32::MIN, i32::MAX]);
        assert_eq!(run(b'X', 1.0, 0.0, &[0]).0, dnnl_invalid_arguments);
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        let call = |trans: u8, m, lda, ldc| {
            let (a, b, mut c) = ([0.0; 16], [0.0; 16], [f32::NAN; 16]);
            // SAFETY: the arrays hold four rows of four.
            unsafe {
                dnnl_sgemm(
                    letter(trans),
                    letter(b'N'),
                    m,
                    3,
                    2,
                    1.0,
                    a.as_ptr(),
                    lda,
                    b.as_ptr(),
                    3,
                    0.0,
                    c.as_mut_ptr(),
                    ldc,
                )
            }
        };
        assert_eq!(call(b'N', 3, 2, 3), dnnl_success);
        assert_eq!(call(b'N', 0, 2, 3), dnnl_success);
        for (trans, m, lda, ldc) in
            [(b'X', 3, 2, 3), (b'N', -1, 2, 3), (b'N', 3, 1, 3), (b'T', 3, 2, 3), (b'N', 3, 2, 2)]
        {
            assert_eq!(call(trans, m, lda, ldc), dnnl_invalid_arguments, "{trans} {m} {lda} {ldc}");
        }
    }
}

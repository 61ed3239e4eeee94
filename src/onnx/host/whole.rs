//! Integers computed in the types that tensors have them in, in rows that compilers make vectors of.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::{BitAnd, BitOr, BitXor, Not};

use anydnn_backend::{DataType, Dims};
use bytemuck::Pod;

use super::numbers::{broadcast_strides, walk};
use crate::model::HostTensor;

/// An integer as tensors have it. What does not fit goes on at the other end of the type.
trait Whole:
    Pod + Ord + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> + Not<Output = Self>
{
    const ZERO: Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// The divisor is not zero.
    fn over(self, other: Self) -> Self;
    /// What a division leaves, with the sign of the dividend. The divisor is not zero.
    fn rest(self, other: Self) -> Self;
    fn wide(self) -> i64;
}

macro_rules! whole {
    ($($of:ty)*) => {$(
        impl Whole for $of {
            const ZERO: Self = 0;
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn over(self, other: Self) -> Self {
                self.wrapping_div(other)
            }
            fn rest(self, other: Self) -> Self {
                self.wrapping_rem(other)
            }
            fn wide(self) -> i64 {
                self as i64
            }
        }
    )*};
}

whole!(i8 u8 i16 u16 i32 u32 i64 u64);

/// Computes with the elements of a tensor of integers as what they are; none for another one.
macro_rules! each_whole {
    ($data_type:expr, $of:ident => $body:expr) => {
        match $data_type {
            DataType::S8 => each_whole!(i8, $of, $body),
            DataType::U8 => each_whole!(u8, $of, $body),
            DataType::S16 => each_whole!(i16, $of, $body),
            DataType::U16 => each_whole!(u16, $of, $body),
            DataType::S32 => each_whole!(i32, $of, $body),
            DataType::U32 => each_whole!(u32, $of, $body),
            DataType::S64 => each_whole!(i64, $of, $body),
            DataType::U64 => each_whole!(u64, $of, $body),
            _ => None,
        }
    };
    ($is:ty, $of:ident, $body:expr) => {{
        type $of = $is;
        $body
    }};
}

/// Two tensors in rows along which each of them has one element or neighbours.
struct Rows {
    /// Where each row starts in both.
    starts: Vec<(usize, usize)>,
    len: usize,
    /// From an element of a row to the next.
    steps: (i64, i64),
}

impl Rows {
    /// The elements of `dims` in order, with the strides of both tensors.
    fn of(dims: &Dims, a: &[i64], b: &[i64]) -> Self {
        let (mut outer, mut len, mut steps) = (dims.len(), 1_usize, (0, 0));
        while let Some(&extent) = dims[..outer].last() {
            let (a, b) = (a[outer - 1], b[outer - 1]);
            let goes_on = (a, b) == (steps.0 * len as i64, steps.1 * len as i64);
            if extent != 1 && len == 1 {
                steps = (a, b);
            } else if extent != 1 && !goes_on {
                break;
            }
            len *= extent;
            outer -= 1;
        }
        let starts = |strides: &[i64]| walk(&dims[..outer], &strides[..outer], 0);
        Self { starts: starts(a).into_iter().zip(starts(b)).collect(), len, steps }
    }

    /// A function of each pair of elements, in order, as bytes.
    fn join<T: Copy, R: Pod>(&self, a: &[T], b: &[T], of: impl Fn(T, T) -> R) -> Vec<u8> {
        let count = self.starts.len() * self.len;
        // Zeros that nobody wrote take no time, and a second copy of what is large takes more than what is computed.
        let mut bytes = vec![0; count * size_of::<R>()];
        if let Ok(made) = bytemuck::try_cast_slice_mut(&mut bytes) {
            self.join_into(made, a, b, of);
        } else {
            let mut made = vec![R::zeroed(); count];
            self.join_into(&mut made, a, b, of);
            bytes.copy_from_slice(bytemuck::cast_slice(&made));
        }
        bytes
    }

    fn join_into<T: Copy, R>(&self, made: &mut [R], a: &[T], b: &[T], of: impl Fn(T, T) -> R) {
        if self.len == 0 {
            return;
        }
        for (made, &(i, j)) in made.chunks_exact_mut(self.len).zip(&self.starts) {
            match self.steps {
                (1, 1) => {
                    let pairs = a[i..][..self.len].iter().zip(&b[j..][..self.len]);
                    made.iter_mut().zip(pairs).for_each(|(made, (&x, &y))| *made = of(x, y));
                }
                (1, 0) => {
                    let y = b[j];
                    made.iter_mut().zip(&a[i..]).for_each(|(made, &x)| *made = of(x, y));
                }
                (0, 1) => {
                    let x = a[i];
                    made.iter_mut().zip(&b[j..]).for_each(|(made, &y)| *made = of(x, y));
                }
                (x, y) => {
                    let (x, y) = (x as usize, y as usize);
                    made.iter_mut()
                        .enumerate()
                        .for_each(|(at, made)| *made = of(a[i + at * x], b[j + at * y]));
                }
            }
        }
    }
}

/// The elements of a tensor, in place where they lie as their type has to.
fn elements<T: Pod>(tensor: &HostTensor) -> Cow<'_, [T]> {
    let bytes = tensor.bytes();
    bytemuck::try_cast_slice(bytes).map_or_else(|_| bytemuck::pod_collect_to_vec(bytes).into(), Cow::Borrowed)
}

/// The bytes of an operator's result on two tensors of one type of integers or truth values; none where neither is computed here. `fmod` says
/// that remainders have the sign of the dividend.
pub(super) fn binary(
    operator: &str,
    fmod: bool,
    a: &HostTensor,
    b: &HostTensor,
    dims: &Dims,
) -> Option<Vec<u8>> {
    let rows = || Rows::of(dims, &broadcast_strides(a.dims(), dims), &broadcast_strides(b.dims(), dims));
    if a.data_type() == DataType::Boolean {
        let of: fn(bool, bool) -> bool = match operator {
            "And" => |a, b| a & b,
            "Or" => |a, b| a | b,
            "Xor" => |a, b| a ^ b,
            _ => return None,
        };
        return Some(rows().join(a.bytes(), b.bytes(), |a, b| u8::from(of(a != 0, b != 0))));
    }
    each_whole!(a.data_type(), T => {
        joined::<T>(operator, fmod, &elements(a), &elements(b), rows)
    })
}

fn joined<T: Whole>(
    operator: &str,
    fmod: bool,
    a: &[T],
    b: &[T],
    rows: impl Fn() -> Rows,
) -> Option<Vec<u8>> {
    let divides = || !b.contains(&T::ZERO);
    Some(match operator {
        "Add" | "Sum" => rows().join(a, b, T::plus),
        "Sub" => rows().join(a, b, T::minus),
        "Mul" => rows().join(a, b, T::times),
        "Div" if divides() => rows().join(a, b, T::over),
        "Mod" if fmod && divides() => rows().join(a, b, T::rest),
        "Mod" if divides() => rows().join(a, b, |a, b| {
            let rest = a.rest(b);
            let turns = rest != T::ZERO && (rest < T::ZERO) != (b < T::ZERO);
            if turns { rest.plus(b) } else { rest }
        }),
        "Min" => rows().join(a, b, T::min),
        "Max" => rows().join(a, b, T::max),
        "BitwiseAnd" => rows().join(a, b, |a, b| a & b),
        "BitwiseOr" => rows().join(a, b, |a, b| a | b),
        "BitwiseXor" => rows().join(a, b, |a, b| a ^ b),
        "Equal" => rows().join(a, b, |a, b| u8::from(a == b)),
        "Less" => rows().join(a, b, |a, b| u8::from(a < b)),
        "LessOrEqual" => rows().join(a, b, |a, b| u8::from(a <= b)),
        "Greater" => rows().join(a, b, |a, b| u8::from(a > b)),
        "GreaterOrEqual" => rows().join(a, b, |a, b| u8::from(a >= b)),
        _ => return None,
    })
}

/// The bytes of an operator's result on a tensor of integers or truth values; none where it is not computed here.
pub(super) fn unary(operator: &str, src: &HostTensor) -> Option<Vec<u8>> {
    let rows = Rows { starts: vec![(0, 0)], len: src.dims().elements(), steps: (1, 1) };
    if src.data_type() == DataType::Boolean {
        let values = src.bytes();
        return (operator == "Not").then(|| rows.join(values, values, |value, _| u8::from(value == 0)));
    }
    each_whole!(src.data_type(), T => single::<T>(operator, &elements(src), &rows))
}

fn single<T: Whole>(operator: &str, values: &[T], rows: &Rows) -> Option<Vec<u8>> {
    let negated = |value: T| T::ZERO.minus(value);
    Some(match operator {
        "Neg" => rows.join(values, values, |value, _| negated(value)),
        "Abs" => rows.join(values, values, |value, _| if value < T::ZERO { negated(value) } else { value }),
        "Relu" => rows.join(values, values, |value, _| value.max(T::ZERO)),
        "BitwiseNot" => rows.join(values, values, |value, _| !value),
        _ => return None,
    })
}

/// Folds integers that 63 bits hold along the dimensions that are gone into `kept` ones, each from `start` on; none where the tensor has others.
pub(super) fn fold(
    src: &HostTensor,
    kept: &Dims,
    gone: &[bool],
    start: i64,
    of: impl Fn(i64, i64) -> i64,
) -> Option<Vec<i64>> {
    if src.data_type() == DataType::U64 {
        return None;
    }
    let whole = broadcast_strides(src.dims(), src.dims());
    let to: Vec<i64> = broadcast_strides(kept, src.dims())
        .iter()
        .zip(gone)
        .map(|(&s, &gone)| if gone { 0 } else { s })
        .collect();
    let rows = Rows::of(src.dims(), &whole, &to);
    each_whole!(src.data_type(), T => {
        let (values, mut made) = (elements::<T>(src), vec![start; kept.elements()]);
        for &(from, to) in &rows.starts {
            let row = values.get(from..from + rows.len)?;
            if rows.steps.1 == 0 {
                made[to] = row.iter().fold(made[to], |all, &value| of(all, value.wide()));
            } else {
                made[to..][..rows.len].iter_mut().zip(row).for_each(|(all, &value)| *all = of(*all, value.wide()));
            }
        }
        Some(made)
    })
}

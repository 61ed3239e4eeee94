//! Integers computed in the types that tensors have them in, in rows that compilers make vectors of.

use std::ops::{BitAnd, BitOr, BitXor};

use anydnn_backend::{DataType, Dims};
use bytemuck::Pod;

use super::numbers::walk;
use crate::model::HostTensor;

/// An integer as tensors have it. What does not fit goes on at the other end of the type.
trait Whole: Pod + Ord + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> {
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

    /// A function of each pair of elements, in order.
    fn join<T: Copy, R>(&self, a: &[T], b: &[T], of: impl Fn(T, T) -> R) -> Vec<R> {
        let mut made = Vec::with_capacity(self.starts.len() * self.len);
        for &(i, j) in &self.starts {
            match self.steps {
                _ if self.len == 0 => {}
                (1, 1) => {
                    let pairs = a[i..][..self.len].iter().zip(&b[j..][..self.len]);
                    made.extend(pairs.map(|(&x, &y)| of(x, y)));
                }
                (1, 0) => {
                    let y = b[j];
                    made.extend(a[i..][..self.len].iter().map(|&x| of(x, y)));
                }
                (0, 1) => {
                    let x = a[i];
                    made.extend(b[j..][..self.len].iter().map(|&y| of(x, y)));
                }
                _ => {
                    let (x, y) = (self.steps.0 as usize, self.steps.1 as usize);
                    made.extend((0..self.len).map(|at| of(a[i + at * x], b[j + at * y])));
                }
            }
        }
        made
    }
}

/// The strides of a tensor along the dimensions of what it broadcasts to.
fn strides(from: &Dims, to: &Dims) -> Vec<i64> {
    let from = from.padded_to_rank(to.len());
    let strides = from.row_major_strides();
    strides.iter().zip(from.iter()).map(|(&stride, &dim)| if dim == 1 { 0 } else { stride as i64 }).collect()
}

fn elements<T: Pod>(tensor: &HostTensor) -> Vec<T> {
    bytemuck::pod_collect_to_vec(tensor.bytes())
}

fn bytes<T: Pod>(values: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(values).to_vec()
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
    let rows = || Rows::of(dims, &strides(a.dims(), dims), &strides(b.dims(), dims));
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
        "Add" | "Sum" => bytes(&rows().join(a, b, T::plus)),
        "Sub" => bytes(&rows().join(a, b, T::minus)),
        "Mul" => bytes(&rows().join(a, b, T::times)),
        "Div" if divides() => bytes(&rows().join(a, b, T::over)),
        "Mod" if fmod && divides() => bytes(&rows().join(a, b, T::rest)),
        "Mod" if divides() => bytes(&rows().join(a, b, |a, b| {
            let rest = a.rest(b);
            let turns = rest != T::ZERO && (rest < T::ZERO) != (b < T::ZERO);
            if turns { rest.plus(b) } else { rest }
        })),
        "Min" => bytes(&rows().join(a, b, T::min)),
        "Max" => bytes(&rows().join(a, b, T::max)),
        "BitwiseAnd" => bytes(&rows().join(a, b, |a, b| a & b)),
        "BitwiseOr" => bytes(&rows().join(a, b, |a, b| a | b)),
        "BitwiseXor" => bytes(&rows().join(a, b, |a, b| a ^ b)),
        "Equal" => rows().join(a, b, |a, b| u8::from(a == b)),
        "Less" => rows().join(a, b, |a, b| u8::from(a < b)),
        "LessOrEqual" => rows().join(a, b, |a, b| u8::from(a <= b)),
        "Greater" => rows().join(a, b, |a, b| u8::from(a > b)),
        "GreaterOrEqual" => rows().join(a, b, |a, b| u8::from(a >= b)),
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
    let whole = strides(src.dims(), src.dims());
    let to: Vec<i64> =
        strides(kept, src.dims()).iter().zip(gone).map(|(&s, &gone)| if gone { 0 } else { s }).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(dims: &[usize]) -> HostTensor {
        let count = Dims::new(dims).elements();
        let values: Vec<f64> = (0..count).map(|i| (i * 37 % 101) as f64 - 50.0).collect();
        HostTensor::from_f64(dims.to_vec(), DataType::S32, &values).unwrap()
    }

    /// An element by its index, along dimensions that may be one.
    fn at(tensor: &HostTensor, index: &[usize]) -> i64 {
        let dims = tensor.dims().padded_to_rank(index.len());
        let place = index.iter().zip(dims.iter()).fold(0, |place, (&i, &dim)| place * dim + i.min(dim - 1));
        tensor.to_f64s()[place] as i64
    }

    fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
        dims.iter().fold(vec![Vec::new()], |all, &dim| {
            all.iter().flat_map(|index| (0..dim).map(move |i| [&index[..], &[i]].concat())).collect()
        })
    }

    #[test]
    fn rows_broadcast_as_elements_do() {
        let pairs: [(&[usize], &[usize]); 9] = [
            (&[3, 4], &[3, 4]),
            (&[3, 4], &[4]),
            (&[3, 1], &[1, 4]),
            (&[2, 1, 5], &[3, 1]),
            (&[], &[2, 3]),
            (&[2, 3, 1, 4], &[1, 3, 5, 1]),
            (&[1, 1], &[1]),
            (&[6, 1], &[6, 1]),
            (&[0, 4], &[1, 4]),
        ];
        for (a, b) in pairs {
            let (a, b) = (counted(a), counted(b));
            let dims = a.dims().broadcast(b.dims()).unwrap();
            let bytes = binary("Sub", false, &a, &b, &dims).unwrap();
            let made =
                HostTensor::new(anydnn_backend::MemoryDesc::new(dims.clone(), DataType::S32), bytes).unwrap();
            for index in indices(&dims) {
                assert_eq!(at(&made, &index), at(&a, &index) - at(&b, &index), "{dims} {index:?}");
            }
        }
    }

    #[test]
    fn folds_take_every_element_once() {
        for gone in indices(&[2, 2, 2]) {
            let (src, gone) = (counted(&[3, 4, 5]), gone.iter().map(|&gone| gone == 1).collect::<Vec<_>>());
            let kept: Dims =
                src.dims().iter().zip(&gone).map(|(&dim, &gone)| if gone { 1 } else { dim }).collect();
            let made = fold(&src, &kept, &gone, 7, i64::wrapping_add).unwrap();
            let mut expected = vec![7; kept.elements()];
            for index in indices(&[3, 4, 5]) {
                let to = index.iter().zip(kept.iter()).fold(0, |to, (&i, &dim)| to * dim + i.min(dim - 1));
                expected[to] += at(&src, &index);
            }
            assert_eq!(made, expected, "{gone:?}");
        }
    }

    #[test]
    fn remainders_have_the_sign_that_is_asked_for_and_nothing_is_divided_by_zero() {
        let [a, b] = [[-7.0, 7.0, -8.0], [4.0, -4.0, 4.0]]
            .map(|values| HostTensor::from_f64([3], DataType::S8, &values).unwrap());
        let dims = Dims::from([3]);
        let made = |fmod| binary("Mod", fmod, &a, &b, &dims).unwrap().into_iter().map(|byte| byte as i8);
        assert_eq!(made(false).collect::<Vec<_>>(), [1, -1, 0]);
        assert_eq!(made(true).collect::<Vec<_>>(), [-3, 3, 0]);
        let zero = HostTensor::from_f64([1], DataType::S8, &[0.0]).unwrap();
        for operator in ["Div", "Mod"] {
            assert_eq!(binary(operator, false, &a, &zero, &dims), None);
        }
    }
}

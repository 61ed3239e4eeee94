//! Dimensions of a tensor and numpy broadcasting.

use std::fmt;
use std::ops::Deref;

use smallvec::SmallVec;

use crate::error::{Error, Result};

/// The most dimensions a tensor has.
pub const MAX_DIMS: usize = 12;

/// The dimensions of a tensor in elements, outermost first. No dimensions means one element.
///
/// ```
/// use anydnn_backend::Dims;
/// let dims = Dims::from([2, 3, 4]);
/// assert_eq!(dims.elements(), 24);
/// assert_eq!(dims.to_string(), "2x3x4");
/// ```
#[derive(PartialEq, Eq, Hash, Default)]
pub struct Dims(SmallVec<[usize; 6]>);

impl Clone for Dims {
    // Every execution and every plan clones some: one copy of their bytes, where `SmallVec` takes them one by one.
    fn clone(&self) -> Self {
        Self(SmallVec::from_slice(&self.0))
    }
}

impl Dims {
    /// Dimensions from a slice.
    pub fn new(dims: &[usize]) -> Self {
        Self(SmallVec::from_slice(dims))
    }

    /// The number of elements; the product saturates at `usize::MAX`.
    pub fn elements(&self) -> usize {
        if self.0.contains(&0) {
            return 0;
        }
        self.0.iter().fold(1, |product: usize, &dim| product.saturating_mul(dim))
    }

    /// Strides of the dense row-major layout, in elements.
    pub fn row_major_strides(&self) -> Self {
        let mut strides = Self::new(&self.0);
        let mut stride = 1_usize;
        for (out, &dim) in strides.0.iter_mut().zip(&self.0).rev() {
            *out = stride;
            stride = stride.saturating_mul(dim.max(1));
        }
        strides
    }

    /// The shape that both operands broadcast to by numpy's rule: aligned at the last dimension, a one stretches.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a pair of dimensions differs and neither is one.
    pub fn broadcast(&self, other: &Self) -> Result<Self> {
        let rank = self.len().max(other.len());
        let at = |dims: &Self, i: usize| (i + dims.len()).checked_sub(rank).map_or(1, |j| dims[j]);
        (0..rank)
            .map(|i| match (at(self, i), at(other, i)) {
                (a, b) if a == b => Ok(a),
                (1, b) => Ok(b),
                (a, 1) => Ok(a),
                _ => Err(Error::invalid(
                    "broadcast",
                    "dimensions",
                    format!("{self} with {other}"),
                    "equal dimensions or ones, aligned at the last",
                )),
            })
            .collect()
    }

    /// Whether these dimensions broadcast to `target` (numpy's rule) without changing it.
    pub fn broadcasts_to(&self, target: &[usize]) -> bool {
        self.len() <= target.len()
            && self.iter().rev().zip(target.iter().rev()).all(|(&own, &wanted)| own == wanted || own == 1)
    }

    /// Whether these dimensions broadcast to `target` by blocks: aligned at the last, each divides its counterpart. A dimension of `g`
    /// over one of `d` has one element for each block of `d / g` neighbours; one is numpy's stretching, `d` an element each.
    pub fn broadcasts_by_blocks_to(&self, target: &[usize]) -> bool {
        self.len() <= target.len()
            && self
                .iter()
                .rev()
                .zip(target.iter().rev())
                .all(|(&own, &wanted)| own == wanted || own == 1 || (own > 0 && wanted.is_multiple_of(own)))
    }

    /// These dimensions with ones put in front up to `rank`.
    pub fn padded_to_rank(&self, rank: usize) -> Self {
        std::iter::repeat_n(1, rank.saturating_sub(self.len())).chain(self.iter().copied()).collect()
    }

    /// Every index of the shape in row-major order.
    pub fn indices(&self) -> Indices {
        Indices {
            dims: self.clone(),
            next: (self.elements() > 0).then(|| Self(SmallVec::from_elem(0, self.len()))),
        }
    }
}

/// Row-major iterator over the indices of a shape, made by [`Dims::indices`].
#[derive(Clone, Debug)]
pub struct Indices {
    dims: Dims,
    next: Option<Dims>,
}

impl Iterator for Indices {
    type Item = Dims;

    fn next(&mut self) -> Option<Dims> {
        let current = self.next.take()?;
        let mut following = current.clone();
        for axis in (0..self.dims.len()).rev() {
            following.0[axis] += 1;
            if following.0[axis] < self.dims[axis] {
                self.next = Some(following);
                break;
            }
            following.0[axis] = 0;
        }
        Some(current)
    }
}

impl Deref for Dims {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl std::ops::DerefMut for Dims {
    fn deref_mut(&mut self) -> &mut [usize] {
        &mut self.0
    }
}

impl<const N: usize> From<[usize; N]> for Dims {
    fn from(dims: [usize; N]) -> Self {
        Self::new(&dims)
    }
}

impl From<&[usize]> for Dims {
    fn from(dims: &[usize]) -> Self {
        Self::new(dims)
    }
}

impl From<Vec<usize>> for Dims {
    fn from(dims: Vec<usize>) -> Self {
        Self(SmallVec::from_vec(dims))
    }
}

impl FromIterator<usize> for Dims {
    fn from_iter<I: IntoIterator<Item = usize>>(dims: I) -> Self {
        Self(dims.into_iter().collect())
    }
}

impl fmt::Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("scalar");
        }
        for (i, dim) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("x")?;
            }
            write!(f, "{dim}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting_follows_numpy() {
        let dims = |d: &[usize]| Dims::new(d);
        assert_eq!(dims(&[4, 1, 3]).broadcast(&dims(&[5, 1])).unwrap(), dims(&[4, 5, 3]));
        assert_eq!(dims(&[]).broadcast(&dims(&[2])).unwrap(), dims(&[2]));
        assert_eq!(dims(&[0]).broadcast(&dims(&[1])).unwrap(), dims(&[0]));
        assert!(dims(&[2]).broadcast(&dims(&[3])).is_err());
        assert!(dims(&[3]).broadcasts_to(&[2, 3]) && !dims(&[2, 3]).broadcasts_to(&[3]));
    }

    #[test]
    fn indices_count_in_row_major_order() {
        let all: Vec<_> = Dims::from([2, 2]).indices().collect();
        assert_eq!(all, [[0, 0], [0, 1], [1, 0], [1, 1]].map(Dims::from));
        assert_eq!(Dims::from([]).indices().count(), 1);
        assert_eq!(Dims::from([3, 0]).indices().count(), 0);
    }

    #[test]
    fn a_huge_product_saturates() {
        assert_eq!(Dims::from([usize::MAX, 2]).elements(), usize::MAX);
        assert_eq!(Dims::from([usize::MAX, 0]).elements(), 0);
    }
}

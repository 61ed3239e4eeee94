//! Where the elements of some axes lie, and which of them become f32 first.

use anydnn_backend::{DataType, MemoryDesc};
use smallvec::SmallVec;

/// Whether operands of a type are computed as f32.
pub(super) fn is_narrow(data_type: DataType) -> bool {
    matches!(data_type, DataType::F16 | DataType::BF16 | DataType::U8 | DataType::S8)
}

/// Offsets in elements of row-major positions over some axes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// Length and stride of each axis, outermost first, none of length one, neighbours merged where that changes nothing.
    axes: SmallVec<[(usize, usize); 4]>,
}

impl Places {
    pub(super) fn new(axes: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut merged: SmallVec<[(usize, usize); 4]> = SmallVec::new();
        for (length, stride) in axes.into_iter().filter(|&(length, _)| length != 1) {
            match merged.last_mut() {
                Some(outer) if outer.1 == stride * length => *outer = (outer.0 * length, stride),
                _ => merged.push((length, stride)),
            }
        }
        Self { axes: merged }
    }

    /// The stride of all positions, where they have one.
    pub(super) fn stride(&self) -> Option<usize> {
        match *self.axes.as_slice() {
            [] => Some(0),
            [(_, stride)] => Some(stride),
            _ => None,
        }
    }

    /// The offset of a position.
    pub(super) fn at(&self, position: usize) -> usize {
        if let [(_, stride)] = *self.axes.as_slice() {
            return position * stride;
        }
        let (mut rest, mut offset) = (position, 0);
        for &(length, stride) in self.axes.iter().rev() {
            offset += rest % length * stride;
            rest /= length;
        }
        offset
    }

    /// Appends the offsets of so many positions.
    pub(super) fn fill(&self, first: usize, count: usize, offsets: &mut Vec<usize>) {
        let Some((&(length, stride), outer)) = self.axes.split_last() else {
            offsets.extend(std::iter::repeat_n(0, count));
            return;
        };
        if outer.is_empty() {
            offsets.extend((first..first + count).map(|position| position * stride));
            return;
        }
        let mut position = first;
        while position < first + count {
            let (row, column) = (position / length, position % length);
            let run = (length - column).min(first + count - position);
            let (mut rest, mut base) = (row, column * stride);
            for &(length, stride) in outer.iter().rev() {
                base += rest % length * stride;
                rest /= length;
            }
            offsets.extend((0..run).map(|i| base + i * stride));
            position += run;
        }
    }
}

/// The strides of a plain f32 tensor stretched to `dims`, zero along what it repeats, and its first element; none for other types and
/// layouts.
pub(super) fn strides_of(desc: &MemoryDesc, dims: &[usize]) -> Option<(SmallVec<[usize; 6]>, usize)> {
    plain_strides(desc, dims).filter(|_| desc.data_type() == DataType::F32)
}

/// The same of a tensor of any type.
pub(super) fn plain_strides(desc: &MemoryDesc, dims: &[usize]) -> Option<(SmallVec<[usize; 6]>, usize)> {
    let blocking = desc.blocking().filter(|blocking| blocking.inner.is_empty())?;
    if desc.rank() > dims.len() {
        return None;
    }
    let lead = dims.len() - desc.rank();
    let mut strides: SmallVec<[usize; 6]> = SmallVec::from_elem(0, dims.len());
    for (axis, &dim) in desc.dims().iter().enumerate() {
        if dim == dims[lead + axis] {
            strides[lead + axis] = blocking.strides[axis];
        } else if dim != 1 {
            return None;
        }
    }
    Some((strides, blocking.offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_merge_and_offsets_follow_the_strides() {
        assert_eq!(Places::new([(2, 12), (1, 7), (3, 4), (4, 1)]), Places::new([(24, 1)]));
        assert_eq!(Places::new([(2, 0), (3, 0)]).stride(), Some(0));
        let places = Places::new([(2, 100), (3, 7), (2, 3)]);
        let expected = [0, 3, 7, 10, 14, 17, 100, 103, 107, 110, 114, 117];
        for first in 0..12 {
            let mut offsets = Vec::new();
            places.fill(first, 12 - first, &mut offsets);
            assert_eq!(offsets, expected[first..]);
            assert_eq!(places.at(first), expected[first]);
        }
    }

    #[test]
    fn tensors_stretch_along_what_they_lack() {
        let row = MemoryDesc::new([3, 1], DataType::F32);
        assert_eq!(strides_of(&row, &[2, 3, 4]), Some((SmallVec::from_slice(&[0, 1, 0]), 0)));
        assert_eq!(strides_of(&MemoryDesc::new([3], DataType::F16), &[3]), None);
        assert_eq!(strides_of(&MemoryDesc::new([2], DataType::F32), &[4]), None);
    }
}

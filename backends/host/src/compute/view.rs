//! Reading a tensor of any layout and type as if it were dense, row-major and broadcast.

use std::borrow::Cow;

use anydnn_backend::{Dims, Error, MemoryDesc, Result, check_host_memory};
use smallvec::SmallVec;

use super::CHUNK;
use super::element::Element;
use super::parallel::parallel_chunks;
use super::storage::{Kind, Storage, with_storage};

/// The bytes of a tensor with the way from row-major indices to them.
#[derive(Debug)]
pub(crate) struct View<'a> {
    bytes: &'a [u8],
    kind: Kind,
    /// Elements before the first one.
    base: usize,
    /// At least one, outermost first, neighbours merged where they are dense.
    axes: SmallVec<[Axis; 6]>,
}

#[derive(Debug)]
struct Axis {
    dim: usize,
    map: Map,
}

/// The offset in elements that an index of one axis adds. Axes never interact, not even in blocked layouts.
#[derive(Debug)]
enum Map {
    Stride(usize),
    Table(Vec<usize>),
}

impl<'a> View<'a> {
    /// A tensor as it is.
    pub(crate) fn new(desc: &MemoryDesc, bytes: &'a [u8]) -> Result<Self> {
        Self::broadcast(desc, bytes, desc.dims())
    }

    /// A tensor stretched to `dims`, to which its own dimensions broadcast, by blocks too.
    pub(crate) fn broadcast(desc: &MemoryDesc, bytes: &'a [u8], dims: &[usize]) -> Result<Self> {
        let order: SmallVec<[usize; 6]> = (0..dims.len()).collect();
        Self::ordered(desc, bytes, dims, &order)
    }

    /// As [`View::broadcast`], with the axes of `dims` in another order.
    pub(crate) fn ordered(
        desc: &MemoryDesc,
        bytes: &'a [u8],
        dims: &[usize],
        order: &[usize],
    ) -> Result<Self> {
        let lead = dims.len() - desc.rank().min(dims.len());
        Self::mapped(desc, bytes, order.iter().map(|&axis| (dims[axis], axis.checked_sub(lead))))
    }

    /// A vector stretched to `dims` along the given axis.
    pub(crate) fn along(desc: &MemoryDesc, bytes: &'a [u8], dims: &[usize], axis: usize) -> Result<Self> {
        Self::mapped(desc, bytes, dims.iter().enumerate().map(|(i, &dim)| (dim, (i == axis).then_some(0))))
    }

    /// Axes of the given lengths, each with the tensor's dimension along it.
    fn mapped(
        desc: &MemoryDesc,
        bytes: &'a [u8],
        lengths: impl Iterator<Item = (usize, Option<usize>)>,
    ) -> Result<Self> {
        let kind = Kind::of(desc.data_type())?;
        let blocking =
            desc.blocking().ok_or_else(|| Error::unsupported("host", format!("the layout of {desc}")))?;
        let mut axes: SmallVec<[Axis; 6]> = SmallVec::new();
        for (dim, own) in lengths.filter(|&(dim, _)| dim != 1) {
            let map = match own.filter(|&j| j < desc.rank() && desc.dims()[j] != 1) {
                None => Map::Stride(0),
                Some(j) if desc.dims()[j] == dim && blocking.block(j) == 1 => {
                    Map::Stride(blocking.strides[j])
                }
                Some(j) => {
                    let mut index = Dims::new(&vec![0; desc.rank()]);
                    let (start, repeated) = (blocking.offset, dim / desc.dims()[j].max(1));
                    let table = (0..dim).map(|at| {
                        index[j] = at / repeated;
                        blocking.offset_of(&index) - start
                    });
                    Map::Table(table.collect())
                }
            };
            if let (Some(outer), Map::Stride(stride)) = (axes.last_mut(), &map)
                && let Map::Stride(outer_stride) = &mut outer.map
                && *outer_stride == stride * dim
            {
                *outer_stride = *stride;
                outer.dim *= dim;
                continue;
            }
            axes.push(Axis { dim, map });
        }
        if axes.is_empty() {
            axes.push(Axis { dim: 1, map: Map::Stride(1) });
        }
        Ok(Self { bytes, kind, base: blocking.offset, axes })
    }

    /// Elements `start..` in row-major order.
    pub(crate) fn load<T: Element>(&self, start: usize, values: &mut [T]) {
        if !values.is_empty() {
            with_storage!(self.kind, S => self.load_as::<S, T>(start, values));
        }
    }

    /// As [`View::load`], on all threads.
    pub(crate) fn load_parallel<T: Element>(&self, start: usize, values: &mut [T]) {
        parallel_chunks(values, CHUNK, |i, chunk| self.load(start + i * CHUNK, chunk));
    }

    fn load_as<S: Storage, T: Element>(&self, start: usize, values: &mut [T]) {
        let Some((last, outer)) = self.axes.split_last() else { return };
        let mut position = start % last.dim;
        let mut rest = start / last.dim;
        let mut base = self.base;
        let mut index: SmallVec<[usize; 12]> = SmallVec::from_elem(0, outer.len());
        for (axis, i) in outer.iter().zip(&mut index).rev() {
            *i = rest % axis.dim;
            rest /= axis.dim;
            base += axis.at(*i);
        }
        let mut values = values;
        loop {
            let (run, following) = values.split_at_mut((last.dim - position).min(values.len()));
            self.load_run::<S, T>(base, &last.map, position, run);
            if following.is_empty() {
                return;
            }
            (values, position) = (following, 0);
            for (axis, i) in outer.iter().zip(&mut index).rev() {
                base -= axis.at(*i);
                *i += 1;
                if *i < axis.dim {
                    base += axis.at(*i);
                    break;
                }
                *i = 0;
            }
        }
    }

    fn load_run<S: Storage, T: Element>(&self, base: usize, map: &Map, first: usize, values: &mut [T]) {
        let element = |at: usize| S::load(self.bytes, at).get::<T>();
        match map {
            Map::Stride(1) => S::read_run(self.bytes, base + first, values),
            Map::Stride(0) => values.fill(element(base)),
            Map::Stride(stride) => {
                let mut at = base + first * stride;
                for value in values {
                    *value = element(at);
                    at += stride;
                }
            }
            Map::Table(table) => {
                for (value, offset) in values.iter_mut().zip(&table[first..]) {
                    *value = element(base + offset);
                }
            }
        }
    }
}

impl Axis {
    fn at(&self, index: usize) -> usize {
        match &self.map {
            Map::Stride(stride) => index * stride,
            Map::Table(table) => table[index],
        }
    }
}

/// A tensor as a dense row-major slice; without a copy where it is one.
pub(crate) fn dense<'a, T: Element>(desc: &MemoryDesc, bytes: &'a [u8]) -> Result<Cow<'a, [T]>> {
    if desc.is_row_major()
        && desc.data_type() == T::DATA_TYPE
        && let Ok(values) = bytemuck::try_cast_slice(&bytes[..desc.size()])
    {
        return Ok(Cow::Borrowed(values));
    }
    // Strides of zero make many elements of few bytes.
    check_host_memory(desc.elements().saturating_mul(size_of::<T>()), || format!("a dense copy of {desc}"))?;
    let mut values = vec![T::ZERO; desc.elements()];
    View::new(desc, bytes)?.load_parallel(0, &mut values);
    Ok(Cow::Owned(values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anydnn_backend::DataType;

    fn numbers(count: usize) -> Vec<u8> {
        (0..count).flat_map(|i| (i as f32).to_ne_bytes()).collect()
    }

    #[test]
    fn transposed_and_broadcast_views_read_in_row_major_order() {
        let bytes = numbers(6);
        let transposed = MemoryDesc::with_strides([3, 2], DataType::F32, [1, 3]).unwrap();
        assert_eq!(*dense::<f32>(&transposed, &bytes).unwrap(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        let row = MemoryDesc::new([3], DataType::F32);
        let mut out = [0.0_f32; 4];
        View::broadcast(&row, &bytes, &[2, 3]).unwrap().load(2, &mut out);
        assert_eq!(out, [2.0, 0.0, 1.0, 2.0]);
        let column = MemoryDesc::new([2, 1], DataType::F32);
        View::broadcast(&column, &bytes, &[2, 3]).unwrap().load(1, &mut out);
        assert_eq!(out, [0.0, 0.0, 1.0, 1.0]);
        View::along(&MemoryDesc::new([2], DataType::F32), &bytes, &[1, 2, 2], 1).unwrap().load(0, &mut out);
        assert_eq!(out, [0.0, 0.0, 1.0, 1.0]);
    }

    #[test]
    fn blocks_repeat_and_axes_change_places() {
        let bytes = numbers(6);
        let groups = MemoryDesc::new([2, 3], DataType::F32);
        let mut out = [0.0_f32; 6];
        View::broadcast(&groups, &bytes, &[4, 6]).unwrap().load(6, &mut out);
        assert_eq!(out, [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
        View::broadcast(&groups, &bytes, &[4, 6]).unwrap().load(12, &mut out);
        assert_eq!(out, [3.0, 3.0, 4.0, 4.0, 5.0, 5.0]);
        View::ordered(&groups, &bytes, &[2, 3], &[1, 0]).unwrap().load(0, &mut out);
        assert_eq!(out, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    }

    #[test]
    fn nibbles_are_read_at_any_position() {
        let row = MemoryDesc::with_strides([2, 2], DataType::S4, [3, 1]).unwrap();
        assert_eq!(*dense::<f32>(&row, &[0xF1, 0x2A, 0x08]).unwrap(), [1.0, -1.0, 2.0, -8.0]);
    }

    #[test]
    fn dense_tensors_are_borrowed_when_aligned() {
        let words = [1.0_f32, 2.0, 3.0];
        let bytes: &[u8] = bytemuck::cast_slice(&words);
        let desc = MemoryDesc::new([2], DataType::F32);
        assert!(matches!(dense::<f32>(&desc, bytes).unwrap(), Cow::Borrowed([1.0, 2.0])));
        let shifted = [&[0_u8], bytes].concat();
        assert_eq!(*dense::<f32>(&desc, &shifted[1..]).unwrap(), [1.0, 2.0]);
    }

    #[test]
    fn a_copy_beyond_memory_is_refused() {
        let repeated = MemoryDesc::with_strides([1 << 50], DataType::F32, [0]).unwrap();
        let error = dense::<f32>(&repeated, &numbers(1)).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    }
}

//! Writing a dense row-major result into memory of any layout and type.

use anydnn_backend::{Error, MemoryDesc, Result};
use smallvec::SmallVec;

use super::CHUNK;
use super::element::Element;
use super::parallel::parallel_chunks;
use super::storage::{Kind, Storage, with_storage};

/// Writes `values`, row-major in the dimensions of `desc`. Block padding becomes zero; bytes between elements stay.
pub(crate) fn pack<T: Element>(desc: &MemoryDesc, values: &[T], bytes: &mut [u8]) -> Result<()> {
    let kind = Kind::of(desc.data_type())?;
    if values.is_empty() {
        return Ok(());
    }
    with_storage!(kind, S => pack_as::<S, T>(desc, values, bytes))
}

fn pack_as<S: Storage, T: Element>(desc: &MemoryDesc, values: &[T], bytes: &mut [u8]) -> Result<()> {
    if desc.is_row_major() {
        // A chunk is of whole bytes even where elements are not.
        parallel_chunks(&mut bytes[..desc.size()], CHUNK * S::WIDTH / 8, |i, chunk| {
            let values = &values[i * CHUNK..];
            S::write_run(&values[..values.len().min(CHUNK)], chunk, 0);
        });
        return Ok(());
    }
    let nest = Nest::new(desc)?;
    let Some((top, inner)) = nest.loops.split_first() else { return Ok(()) };
    let cursor = Cursor { index: [0; 12], inside: true, source: 0 };
    let offset = desc.blocking().map_or(0, |blocking| blocking.offset);
    if S::WIDTH < 8 {
        // Two elements of different steps may share a byte.
        write::<S, T>(&nest, &nest.loops, &cursor, values, bytes, offset);
        return Ok(());
    }
    // Every stride clears what the smaller ones span, so each step of the outermost loop owns its bytes.
    let step = top.stride.max(1) * S::WIDTH / 8;
    let bytes = &mut bytes[offset * S::WIDTH / 8..];
    let (length, together) = (bytes.len().min(top.count * step), (CHUNK / top.stride.max(1)).max(1));
    parallel_chunks(&mut bytes[..length], together * step, |i, bytes| {
        for (j, bytes) in bytes.chunks_mut(step).enumerate() {
            let mut cursor = cursor;
            cursor.step(top, i * together + j, &nest);
            write::<S, T>(&nest, inner, &cursor, values, bytes, 0);
        }
    });
    Ok(())
}

/// The loops over a layout's elements in the order of memory, padding included.
struct Nest {
    loops: SmallVec<[Loop; 8]>,
    dims: SmallVec<[usize; 12]>,
}

#[derive(Clone, Copy)]
struct Loop {
    axis: usize,
    count: usize,
    /// Distance in memory of one step, in elements.
    stride: usize,
    /// What one step adds to the axis' logical index.
    step: usize,
    /// Distance in the row-major source of one step.
    source: usize,
    /// Whether the axis has padding.
    padded: bool,
}

/// Where the loops stand.
#[derive(Clone, Copy)]
struct Cursor {
    index: [usize; 12],
    /// Whether the index is within the dimensions; the rest is padding.
    inside: bool,
    source: usize,
}

impl Nest {
    fn new(desc: &MemoryDesc) -> Result<Self> {
        let blocking =
            desc.blocking().ok_or_else(|| Error::unsupported("host", format!("the layout of {desc}")))?;
        let dense = desc.dims().row_major_strides();
        let mut loops: SmallVec<[Loop; 8]> = SmallVec::new();
        let mut add = |axis: usize, count: usize, stride: usize, step: usize| {
            let padded = !desc.dims()[axis].is_multiple_of(blocking.block(axis));
            loops.push(Loop { axis, count, stride, step, source: step * dense[axis], padded });
        };
        for axis in 0..desc.rank() {
            let block = blocking.block(axis);
            add(axis, desc.dims()[axis].div_ceil(block), blocking.strides[axis], block);
        }
        let mut stride = 1;
        let mut steps: SmallVec<[usize; 12]> = SmallVec::from_elem(1, desc.rank());
        for &(axis, block) in blocking.inner.iter().rev() {
            add(axis, block, stride, steps[axis]);
            stride *= block;
            steps[axis] *= block;
        }
        loops.retain(|l| l.count != 1);
        loops.sort_by_key(|l| std::cmp::Reverse(l.stride));
        let mut merged: SmallVec<[Loop; 8]> = SmallVec::new();
        for inner in loops {
            match merged.last_mut() {
                Some(outer)
                    if !outer.padded
                        && !inner.padded
                        && outer.stride == inner.stride * inner.count
                        && outer.source == inner.source * inner.count =>
                {
                    *outer = Loop { count: outer.count * inner.count, ..inner };
                }
                _ => merged.push(inner),
            }
        }
        if merged.is_empty() {
            merged.push(Loop { axis: 0, count: 1, stride: 1, step: 1, source: 1, padded: false });
        }
        Ok(Self { loops: merged, dims: SmallVec::from_slice(desc.dims()) })
    }
}

impl Cursor {
    fn step(&mut self, along: &Loop, count: usize, nest: &Nest) {
        if along.padded {
            self.index[along.axis] += count * along.step;
            self.inside &= self.index[along.axis] < nest.dims[along.axis];
        }
        self.source += count * along.source;
    }
}

/// Runs the given loops from the element at position `at` on.
fn write<S: Storage, T: Element>(
    nest: &Nest,
    loops: &[Loop],
    cursor: &Cursor,
    values: &[T],
    bytes: &mut [u8],
    at: usize,
) {
    let Some((first, inner)) = loops.split_first() else {
        let value = if cursor.inside { values[cursor.source] } else { T::ZERO };
        S::put(value).store(bytes, at);
        return;
    };
    if !inner.is_empty() {
        for i in 0..first.count {
            let mut next = *cursor;
            next.step(first, i, nest);
            write::<S, T>(nest, inner, &next, values, bytes, at + i * first.stride);
        }
        return;
    }
    let filled = match (cursor.inside, first.padded) {
        (false, _) => 0,
        (true, false) => first.count,
        (true, true) => {
            (nest.dims[first.axis] - cursor.index[first.axis]).div_ceil(first.step).min(first.count)
        }
    };
    if first.stride == 1 && first.source == 1 {
        if filled > 0 {
            S::write_run(&values[cursor.source..][..filled], bytes, at);
        }
        for padding in filled..first.count {
            S::put(T::ZERO).store(bytes, at + padding);
        }
        return;
    }
    for i in 0..first.count {
        let value = if i < filled { values[cursor.source + i * first.source] } else { T::ZERO };
        S::put(value).store(bytes, at + i * first.stride);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::view::dense;
    use anydnn_backend::{Blocking, DataType, Dims, Layout};
    use proptest::prelude::*;

    #[test]
    fn padding_is_zeroed_and_gaps_stay() {
        let blocked = MemoryDesc::with_tag([1, 3, 2], DataType::U8, "aBc2b").unwrap();
        let mut bytes = [9_u8; 8];
        pack(&blocked, &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], &mut bytes).unwrap();
        // Channels 0 and 1 of both pixels, then channel 2 with padding.
        assert_eq!(bytes, [1, 3, 2, 4, 5, 0, 6, 0]);
        let strided = MemoryDesc::with_strides([2, 2], DataType::U8, [3, 1]).unwrap();
        let mut bytes = [9_u8; 6];
        pack(&strided, &[1.0_f32, 2.0, 3.0, 4.0], &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 9, 3, 4, 9]);
    }

    #[test]
    fn two_blocks_of_one_dimension_nest() {
        let desc = MemoryDesc::with_tag([6, 3], DataType::S8, "AB2a2b2a").unwrap();
        let values: Vec<f32> = (1..=18).map(|v| v as f32).collect();
        let mut bytes = vec![7_u8; desc.size()];
        pack(&desc, &values, &mut bytes).unwrap();
        for (row_major, index) in desc.dims().indices().enumerate() {
            assert_eq!(bytes[desc.offset_of(&index).unwrap()] as usize, row_major + 1, "{index:?}");
        }
        assert_eq!(bytes.iter().map(|&b| usize::from(b == 0)).sum::<usize>(), desc.size() - 18);
    }

    /// Random dimensions with their axes in random order in memory, gaps, an offset, and up to two blocks.
    fn layouts() -> impl Strategy<Value = MemoryDesc> {
        let dims = proptest::collection::vec(1_usize..6, 1..5);
        let parts = (
            dims,
            any::<u64>(),
            0_usize..4,
            0_usize..3,
            proptest::collection::vec((0_usize..4, 1_usize..5), 0..3),
        );
        parts.prop_map(|(dims, shuffle, offset, gap, blocks)| {
            let inner: SmallVec<[(usize, usize); 2]> =
                blocks.into_iter().map(|(axis, block)| (axis % dims.len(), block)).collect();
            let mut order: Vec<usize> = (0..dims.len()).collect();
            order.sort_by_key(|&axis| shuffle.rotate_left(axis as u32 * 13) % 101);
            let mut strides = Dims::new(&dims);
            let mut stride: usize = inner.iter().map(|&(_, block)| block).product();
            for axis in order {
                strides[axis] = stride;
                let block: usize = inner.iter().filter(|b| b.0 == axis).map(|b| b.1).product();
                stride = stride * dims[axis].div_ceil(block) + gap;
            }
            let data_type = [DataType::F32, DataType::BF16, DataType::S8, DataType::S64, DataType::U4]
                [shuffle as usize % 5];
            let layout = Layout::Blocked(Blocking { strides, inner, offset });
            MemoryDesc::with_layout(dims, data_type, layout).unwrap()
        })
    }

    proptest! {
        #[test]
        fn unpacking_gives_back_what_was_packed(desc in layouts()) {
            let limit = if desc.data_type() == DataType::U4 { 16 } else { 120 };
            let values: Vec<f32> = (0..desc.elements()).map(|i| (i % limit) as f32).collect();
            let mut bytes = vec![0xA5_u8; desc.size() + 3];
            pack(&desc, &values, &mut bytes).unwrap();
            prop_assert_eq!(&*dense::<f32>(&desc, &bytes).unwrap(), &values[..]);
            let kind = Kind::of(desc.data_type()).unwrap();
            for (i, index) in desc.dims().indices().enumerate() {
                let at = desc.offset_of(&index).unwrap();
                let one: f32 = with_storage!(kind, S => S::load(&bytes, at).get());
                prop_assert_eq!(one, values[i]);
            }
            prop_assert!(bytes[desc.size()..].iter().all(|&b| b == 0xA5));
            let offset = desc.blocking().map_or(0, |b| b.offset) * kind.bits() / 8;
            prop_assert!(bytes[..offset].iter().all(|&b| b == 0xA5));
        }
    }
}

//! Elements in other places: bytes, whatever they mean.

use anydnn_backend::op::{Gather, Remap};
use anydnn_backend::{Arg, Blocking, Dims, Error, MemoryDesc, PrimitiveDesc, Result};

use super::Compute;
use super::element::Float;
use super::operands::{Operands, Results};
use super::parallel::parallel_chunks;
use super::view::dense;

/// Bytes of rows that one thread copies sooner than another one comes to help.
const ALONE: usize = 1 << 16;

/// Slices, paddings and repetitions.
pub(crate) fn remap(op: &Remap, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
    let (src, src_bytes) = operands.required(Arg::SRC)?;
    let dst = operands.desc.dst();
    let size = src.data_type().bits() / 8;
    let from = blocking(src)?;
    let fill = operands.find(Arg::Src(1))?;
    let fill = match fill {
        Some((desc, bytes)) => {
            let start = blocking(desc)?.offset * size;
            bytes[start..start + size].to_vec()
        }
        None => vec![0; size],
    };
    // Axes never interact: the offset of an element is a sum of one entry of each table.
    let mut tables: Vec<Vec<Option<usize>>> = Vec::with_capacity(src.rank());
    for axis in 0..src.rank() {
        let place = |i: usize| op.border.index(op.starts[axis] + op.steps[axis] * i as i64, src.dims()[axis]);
        let offset = |i: usize| place(i).map(|at| along(from, axis, at, src.rank()));
        tables.push((0..op.dims[axis]).map(offset).collect());
    }
    place_all(dst, results.dst()?, size, |index| {
        let offsets: Option<usize> = index.iter().zip(&tables).map(|(&i, table)| table[i]).sum();
        match offsets {
            Some(offset) => &src_bytes[(from.offset + offset) * size..][..size],
            None => &fill,
        }
    })
}

/// Elements by indices.
pub(crate) fn gather(op: Gather, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
    let (src, src_bytes) = operands.required(Arg::Src(0))?;
    let (indices, index_bytes) = operands.required(Arg::Src(1))?;
    let dst = operands.desc.dst();
    let size = src.data_type().bits() / 8;
    let from = blocking(src)?;
    let values = dense::<i64>(indices, index_bytes)?;
    let strides = indices.dims().row_major_strides();
    let index =
        |at: &[usize]| values[at.iter().zip(strides.iter()).map(|(i, stride)| i * stride).sum::<usize>()];
    let zero = vec![0; size];
    if let (Gather::Axis(axis), true, true) = (op, src.is_row_major(), dst.is_row_major()) {
        rows(axis, (src, src_bytes), &values, results.dst()?, size);
        return Ok(());
    }
    place_all(dst, results.dst()?, size, |at| match op.place(src.dims(), indices.dims(), at, index) {
        Some(place) => &src_bytes[from.offset_of(&place) * size..][..size],
        None => &zero,
    })
}

/// Whole rows of dense tensors.
fn rows(axis: usize, (src, bytes): (&MemoryDesc, &[u8]), indices: &[i64], result: &mut [u8], size: usize) {
    let extent = src.dims()[axis];
    let row = Dims::new(&src.dims()[axis + 1..]).elements() * size;
    if row == 0 || indices.is_empty() {
        return;
    }
    let place = |&index: &i64| {
        let index = if index < 0 { index.saturating_add(extent as i64) } else { index };
        usize::try_from(index).ok().filter(|&at| at < extent)
    };
    let places: Vec<Option<usize>> = indices.iter().map(place).collect();
    let block = |number: usize, results: &mut [u8]| {
        let from = &bytes[number * extent * row..][..extent * row];
        match row {
            1 => elements::<1>(from, &places, results),
            2 => elements::<2>(from, &places, results),
            4 => elements::<4>(from, &places, results),
            8 => elements::<8>(from, &places, results),
            _ => {
                for (place, to) in places.iter().zip(results.chunks_exact_mut(row)) {
                    match place {
                        Some(at) => to.copy_from_slice(&from[at * row..][..row]),
                        None => to.fill(0),
                    }
                }
            }
        }
    };
    let length = row * places.len();
    let together = (ALONE / length).max(1);
    parallel_chunks(result, together * length, |piece, results| {
        results.chunks_exact_mut(length).enumerate().for_each(|(i, to)| block(piece * together + i, to));
    });
}

/// Rows of so few bytes that a copy of each takes as long as an instruction.
fn elements<const BYTES: usize>(from: &[u8], places: &[Option<usize>], to: &mut [u8]) {
    let from = from.as_chunks::<BYTES>().0;
    for (to, place) in to.as_chunks_mut::<BYTES>().0.iter_mut().zip(places) {
        *to = place.map_or([0; BYTES], |at| from[at]);
    }
}

/// Stores an element at every index, and zeros in padding.
fn place_all<'e>(
    dst: &MemoryDesc,
    bytes: &mut [u8],
    size: usize,
    mut element: impl FnMut(&Dims) -> &'e [u8],
) -> Result<()> {
    let to = blocking(dst)?;
    if dst.padded_dims() != *dst.dims() {
        for index in dst.padded_dims().indices() {
            bytes[to.offset_of(&index) * size..][..size].fill(0);
        }
    }
    for index in dst.dims().indices() {
        bytes[to.offset_of(&index) * size..][..size].copy_from_slice(element(&index));
    }
    Ok(())
}

/// What an index of one axis adds to the offset.
fn along(blocking: &Blocking, axis: usize, at: usize, rank: usize) -> usize {
    let mut index = Dims::new(&vec![0; rank]);
    index[axis] = at;
    blocking.offset_of(&index) - blocking.offset
}

fn blocking(desc: &MemoryDesc) -> Result<&Blocking> {
    desc.blocking().ok_or_else(|| Error::unsupported("host", format!("the layout of {desc}")))
}

impl Compute for Remap {
    fn implementation(&self, _desc: &PrimitiveDesc) -> &'static str {
        "host:streaming"
    }

    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        remap(self, operands, results)
    }
}

impl Compute for Gather {
    fn implementation(&self, _desc: &PrimitiveDesc) -> &'static str {
        "host:streaming"
    }

    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        gather(*self, operands, results)
    }
}

#[cfg(test)]
mod tests {
    use anydnn_backend::DataType;

    use super::*;

    /// Rows of so many bytes, by indices from either end and beyond them, of more blocks than one thread copies.
    #[test]
    fn rows_come_from_where_indices_say() {
        for row in [1, 2, 4, 8, 12] {
            let (blocks, extent) = (3, 50_usize);
            let indices: Vec<i64> = (0..9_000).map(|i| (i * 7919 % 120) - 60).collect();
            let src = MemoryDesc::new([blocks, extent, row], DataType::U8);
            let bytes: Vec<u8> = (0..src.size()).map(|i| (i * 31 % 251) as u8 + 1).collect();
            let mut made = vec![0xff; blocks * indices.len() * row];
            rows(1, (&src, &bytes), &indices, &mut made, 1);
            for (at, made) in made.chunks_exact(row).enumerate() {
                let (block, index) = (at / indices.len(), indices[at % indices.len()]);
                let index = if index < 0 { index + extent as i64 } else { index };
                let from = usize::try_from(index).ok().filter(|&index| index < extent);
                let expected =
                    from.map_or(vec![0; row], |from| bytes[(block * extent + from) * row..][..row].to_vec());
                assert_eq!(made, expected, "row {at} of {row} bytes");
            }
        }
    }
}

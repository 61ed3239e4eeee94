//! Elements in other places: bytes, whatever they mean.

use anydnn_backend::op::{Gather, Remap};
use anydnn_backend::{Arg, Blocking, Dims, Error, MemoryDesc, PrimitiveDesc, Result};

use super::Compute;
use super::element::Float;
use super::operands::{Operands, Results};
use super::view::dense;

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
    for (block, results) in result.chunks_exact_mut(row * indices.len()).enumerate() {
        for (&index, to) in indices.iter().zip(results.chunks_exact_mut(row)) {
            let index = if index < 0 { index.saturating_add(extent as i64) } else { index };
            match usize::try_from(index).ok().filter(|&at| at < extent) {
                Some(at) => to.copy_from_slice(&bytes[(block * extent + at) * row..][..row]),
                None => to.fill(0),
            }
        }
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

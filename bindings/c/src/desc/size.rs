//! Sizes and equality of descriptors.

use crate::desc::types::{Blocks, Format, Md, TypeCode};
use crate::types::{DNNL_RUNTIME_DIM_VAL, DNNL_RUNTIME_SIZE_VAL};

impl Md {
    /// The bytes of the data of one handle; those before a submemory do not count. Known at execution only where dimensions are.
    pub(crate) fn size(&self, handle: usize) -> usize {
        let none = self.is_empty() || (matches!(self.format, Format::Blocked(_)) && handle > 0);
        if self.is_runtime() && !none {
            return DNNL_RUNTIME_SIZE_VAL;
        }
        self.exact_size(handle).unwrap_or(usize::MAX)
    }

    /// The bytes that a memory needs for the data of one handle: the size, and what lies before a submemory.
    pub(crate) fn footprint(&self, handle: usize) -> usize {
        match self.size(handle) {
            size @ (0 | DNNL_RUNTIME_SIZE_VAL) => size,
            size => {
                let bits =
                    self.offset.unsigned_abs() as u128 * self.data_type.map_or(0, TypeCode::bits) as u128;
                usize::try_from(bits.div_ceil(8)).unwrap_or(usize::MAX).saturating_add(size)
            }
        }
    }

    /// How many handles a memory of this descriptor has.
    pub(crate) fn handles(&self) -> usize {
        match self.format {
            Format::Coo { .. } => self.rank + 1,
            Format::Csr { .. } => 3,
            Format::Grouped { .. } => 2,
            _ => 1,
        }
    }

    /// Whether a dimension or a stride is known at execution only.
    pub(crate) fn has_runtime(&self) -> bool {
        let strides = match &self.format {
            Format::Blocked(blocks) => &blocks.strides[..self.rank],
            _ => &[],
        };
        self.dims[..self.rank].contains(&DNNL_RUNTIME_DIM_VAL) || strides.contains(&DNNL_RUNTIME_DIM_VAL)
    }

    /// Whether the size is known at execution only.
    pub(crate) fn is_runtime(&self) -> bool {
        let nnz = match self.format {
            Format::Coo { nnz, .. } | Format::Csr { nnz, .. } | Format::Packed { nnz } => nnz,
            _ => 0,
        };
        self.has_runtime() || nnz == DNNL_RUNTIME_DIM_VAL
    }

    /// Whether there are no elements.
    pub(crate) fn is_empty(&self) -> bool {
        self.dims[..self.rank].contains(&0)
    }

    /// The size where it is known and fits the address space.
    pub(crate) fn exact_size(&self, handle: usize) -> Option<usize> {
        let bytes = |data_type: Option<TypeCode>, elements: i64| {
            let bits = i128::from(elements) * data_type.map_or(0, TypeCode::bits) as i128;
            isize::try_from((bits + 7) / 8).ok().map(isize::cast_unsigned)
        };
        match &self.format {
            Format::Grouped { count, offsets, .. } if handle == 1 => bytes(Some(*offsets), *count),
            _ if self.is_empty() => Some(0),
            Format::Undef | Format::Any | Format::Packed { .. } => Some(0),
            Format::Grouped { .. } => {
                let dims: &[i64] = if handle == 0 { &self.dims[..self.rank] } else { &[0] };
                bytes(self.data_type, dims.iter().try_fold(1_i64, |n, &dim| n.checked_mul(dim))?)
            }
            Format::Csr { nnz, indices, pointers } => match handle {
                0 => bytes(self.data_type, 1)?.checked_mul(usize::try_from(*nnz).ok()?).filter(fits),
                1 => bytes(Some(*indices), *nnz),
                2 => bytes(Some(*pointers), self.dims[0].checked_add(1)?),
                _ => Some(0),
            },
            // The value has no other part.
            Format::HostScalar => bytes(self.data_type, 1),
            Format::Coo { nnz, indices } => match handle {
                // An entry of a 4-bit type has a byte for itself.
                0 => bytes(self.data_type, 1)?.checked_mul(usize::try_from(*nnz).ok()?).filter(fits),
                i if i <= self.rank => bytes(Some(*indices), *nnz),
                _ => Some(0),
            },
            Format::Blocked(_) if handle > 0 => Some(0),
            Format::Blocked(blocks) => bytes(self.data_type, self.span(blocks)?),
        }
    }

    /// The elements from the first one up to the last one.
    fn span(&self, blocks: &Blocks) -> Option<i64> {
        let mut span = blocks.elements();
        for ((&dim, block), &stride) in
            self.padded_dims[..self.rank].iter().zip(blocks.per_axis()).zip(&blocks.strides)
        {
            let count = dim / block;
            if count > 1 {
                span = span.max(count.checked_mul(stride)?);
            }
        }
        Some(span)
    }
}

/// Whether two descriptors mean the same bytes; the strides of dimensions of one do not count.
impl PartialEq for Md {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
            && self.dims == other.dims
            && self.data_type == other.data_type
            && self.padded_dims == other.padded_dims
            && self.padded_offsets == other.padded_offsets
            && self.offset == other.offset
            && match (&self.format, &other.format) {
                (Format::Undef, Format::Undef)
                | (Format::Any, Format::Any)
                | (Format::HostScalar, Format::HostScalar) => true,
                (Format::Coo { nnz: a, indices: i }, Format::Coo { nnz: b, indices: j }) => a == b && i == j,
                (
                    Format::Csr { nnz: a, indices: i, pointers: p },
                    Format::Csr { nnz: b, indices: j, pointers: q },
                ) => a == b && i == j && p == q,
                (Format::Packed { nnz: a }, Format::Packed { nnz: b }) => a == b,
                (
                    Format::Grouped { axis: a, count: i, offsets: o },
                    Format::Grouped { axis: b, count: j, offsets: p },
                ) => a == b && i == j && o == p,
                (Format::Blocked(a), Format::Blocked(b)) => {
                    let same_stride =
                        |axis: usize| self.dims[axis] == 1 || a.strides[axis] == b.strides[axis];
                    a.inner().eq(b.inner()) && (0..self.rank).all(same_stride)
                }
                _ => false,
            }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "this is what filters take")]
fn fits(bytes: &usize) -> bool {
    isize::try_from(*bytes).is_ok()
}

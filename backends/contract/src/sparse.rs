//! Sparse tensors: a descriptor, and one dense memory for each of its parts.

use crate::backend::Backend;
use crate::data_type::DataType;
use crate::dims::{Dims, MAX_DIMS};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::memory_desc::MemoryDesc;

/// Dimensions, element type and encoding of a sparse tensor.
///
/// ```
/// use anydnn_backend::{DataType, SparseDesc, SparseEncoding};
/// let encoding = SparseEncoding::Coo { nnz: 7, indices: DataType::S32 };
/// let desc = SparseDesc::new([100, 100], DataType::F32, encoding).unwrap();
/// let parts: Vec<_> = desc.components().iter().map(ToString::to_string).collect();
/// assert_eq!(parts, ["values:f32:7", "indices 0:s32:7", "indices 1:s32:7"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SparseDesc {
    dims: Dims,
    data_type: DataType,
    encoding: SparseEncoding,
}

/// How the entries of a sparse tensor are stored. `nnz` is the number of stored entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SparseEncoding {
    /// Coordinates: `[nnz]` values, then `[nnz]` indices for each dimension.
    Coo {
        /// The number of stored entries.
        nnz: usize,
        /// The type of the indices.
        indices: DataType,
    },
    /// Compressed rows of a matrix: `[nnz]` values, `[nnz]` column indices, `[rows + 1]` positions where rows begin.
    Csr {
        /// The number of stored entries.
        nnz: usize,
        /// The type of the column indices.
        indices: DataType,
        /// The type of the positions.
        pointers: DataType,
    },
}

/// A sparse tensor on a device: one dense memory for each component of its descriptor.
#[derive(Debug)]
pub struct SparseMemory<B: Backend> {
    desc: SparseDesc,
    parts: Vec<B::Memory>,
}

impl SparseDesc {
    /// A sparse tensor.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the number of dimensions does not suit the encoding, an index type is no integer of whole bytes, or a
    /// component does not fit the address space.
    pub fn new(dims: impl Into<Dims>, data_type: DataType, encoding: SparseEncoding) -> Result<Self> {
        let desc = Self { dims: dims.into(), data_type, encoding };
        desc.validate()?;
        Ok(desc)
    }

    /// The dimensions in elements.
    pub fn dims(&self) -> &Dims {
        &self.dims
    }

    /// The type of the stored entries.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The encoding.
    pub fn encoding(&self) -> SparseEncoding {
        self.encoding
    }

    /// The dense parts: the values, then the index arrays in the encoding's order.
    pub fn components(&self) -> Vec<MemoryDesc> {
        let mut parts = vec![MemoryDesc::new([self.encoding.nnz()], self.data_type).labelled("values")];
        let index = |label: &str, len, data_type| MemoryDesc::new([len], data_type).labelled(label);
        match self.encoding {
            SparseEncoding::Coo { nnz, indices } => {
                parts
                    .extend((0..self.dims.len()).map(|axis| index(&format!("indices {axis}"), nnz, indices)));
            }
            SparseEncoding::Csr { nnz, indices, pointers } => {
                let rows = self.dims.first().copied().unwrap_or_default();
                parts.push(index("indices", nnz, indices));
                parts.push(index("pointers", rows.saturating_add(1), pointers));
            }
        }
        parts
    }

    fn validate(&self) -> Result<()> {
        let invalid = |subject: &str, given: String, expected: &str| {
            Err(Error::invalid("sparse descriptor", subject, given, expected))
        };
        let (ranks, types) = match self.encoding {
            SparseEncoding::Coo { indices, .. } => (1..=MAX_DIMS, [indices, indices]),
            SparseEncoding::Csr { indices, pointers, .. } => (2..=2, [indices, pointers]),
        };
        if !ranks.contains(&self.dims.len()) {
            let expected = format!("{} to {}", ranks.start(), ranks.end());
            return invalid("number of dimensions", self.dims.len().to_string(), &expected);
        }
        if let Some(index) = types.iter().find(|t| !t.is_integer() || t.bits() < 8) {
            return invalid("index type", index.name().to_owned(), "an integer type of whole bytes");
        }
        for part in self.components() {
            // The size saturates, so the largest one is none.
            if part.size() >= isize::MAX as usize {
                return invalid("size", part.to_string(), "bytes that fit the address space");
            }
        }
        Ok(())
    }
}

impl SparseEncoding {
    /// The number of stored entries.
    pub fn nnz(self) -> usize {
        match self {
            Self::Coo { nnz, .. } | Self::Csr { nnz, .. } => nnz,
        }
    }
}

impl<B: Backend> SparseMemory<B> {
    /// A sparse tensor of these parts, in the order of [`SparseDesc::components`].
    ///
    /// # Errors
    /// [`Error::Invalid`] when a part is missing, too many, or not what its component says; [`Error::Mismatch`] when the parts are of
    /// different engines.
    pub fn new(desc: SparseDesc, parts: Vec<B::Memory>) -> Result<Self> {
        let components = desc.components();
        if parts.len() != components.len() {
            return Err(Error::invalid(
                "sparse memory",
                "parts",
                parts.len().to_string(),
                components.len().to_string(),
            ));
        }
        for (i, (part, component)) in parts.iter().zip(&components).enumerate() {
            if !part.desc().same_bytes(component) {
                let (given, expected) = (part.desc().to_string(), component.to_string());
                return Err(Error::invalid("sparse memory", format!("part {i}"), given, expected));
            }
            if part.engine_id() != parts[0].engine_id() {
                let given = format!("part {i} of {}", part.engine_id());
                return Err(Error::mismatch("sparse memory", given, parts[0].engine_id().to_string()));
            }
        }
        Ok(Self { desc, parts })
    }

    /// What the parts mean.
    pub fn desc(&self) -> &SparseDesc {
        &self.desc
    }

    /// The parts, in the order of [`SparseDesc::components`].
    pub fn parts(&self) -> &[B::Memory] {
        &self.parts
    }
}

impl<B: Backend> Clone for SparseMemory<B> {
    fn clone(&self) -> Self {
        Self { desc: self.desc.clone(), parts: self.parts.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(desc: &SparseDesc) -> Vec<usize> {
        desc.components().iter().map(MemoryDesc::size).collect()
    }

    #[test]
    fn components_follow_the_encoding() {
        let coo = SparseEncoding::Coo { nnz: 5, indices: DataType::S64 };
        let desc = SparseDesc::new([4, 3, 2], DataType::F16, coo).unwrap();
        assert_eq!(sizes(&desc), [10, 40, 40, 40]);
        let csr = SparseEncoding::Csr { nnz: 0, indices: DataType::S32, pointers: DataType::S64 };
        let desc = SparseDesc::new([4, 3], DataType::U4, csr).unwrap();
        assert_eq!(sizes(&desc), [0, 0, 40]);
    }

    #[test]
    fn encodings_that_cannot_be_are_refused() {
        let coo = |rank: usize, nnz, indices| {
            SparseDesc::new(vec![2; rank], DataType::F32, SparseEncoding::Coo { nnz, indices })
        };
        assert!(coo(12, 1, DataType::S32).is_ok());
        for bad in [coo(0, 1, DataType::S32), coo(13, 1, DataType::S32), coo(2, 1, DataType::F32)] {
            assert!(bad.is_err());
        }
        assert!(coo(2, 1, DataType::S4).unwrap_err().to_string().contains("index type is s4"));
        assert!(coo(2, usize::MAX / 2, DataType::S32).is_err());
        let csr = SparseEncoding::Csr { nnz: 1, indices: DataType::S32, pointers: DataType::S32 };
        assert!(SparseDesc::new([3], DataType::F32, csr).is_err());
        assert!(SparseDesc::new([usize::MAX, 3], DataType::F32, csr).is_err());
    }
}

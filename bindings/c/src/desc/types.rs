//! What a descriptor holds, in oneDNN's terms.

use anydnn_backend::DataType;

use crate::types::{
    dnnl_bf16, dnnl_boolean, dnnl_data_type_t, dnnl_dims_t, dnnl_e8m0, dnnl_f4_e2m1, dnnl_f4_e3m0,
    dnnl_f8_e4m3, dnnl_f8_e5m2, dnnl_f16, dnnl_f32, dnnl_f64, dnnl_s4, dnnl_s8, dnnl_s32, dnnl_s64, dnnl_u4,
    dnnl_u8,
};

/// A memory descriptor. The arrays keep their place while the descriptor lives: queries give out pointers to them.
#[derive(Clone, Debug)]
pub(crate) struct Md {
    /// The number of dimensions.
    pub(crate) rank: usize,
    /// The dimensions; what lies behind `rank` is zero, here and in all arrays.
    pub(crate) dims: dnnl_dims_t,
    /// The element type; none in an empty descriptor.
    pub(crate) data_type: Option<TypeCode>,
    /// The dimensions with padding.
    pub(crate) padded_dims: dnnl_dims_t,
    /// Padding in front of each dimension.
    pub(crate) padded_offsets: dnnl_dims_t,
    /// Elements before the first one.
    pub(crate) offset: i64,
    /// The layout.
    pub(crate) format: Format,
}

/// How a descriptor describes its layout.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all are the largest")]
pub(crate) enum Format {
    /// Not at all: an empty descriptor.
    Undef,
    /// The implementation chooses.
    Any,
    /// By strides and inner blocks.
    Blocked(Blocks),
    /// By coordinates.
    Coo {
        /// The number of stored entries.
        nnz: i64,
        /// The type of the indices.
        indices: TypeCode,
    },
    /// By compressed rows of a matrix.
    Csr {
        /// The number of stored entries.
        nnz: i64,
        /// The type of the column indices.
        indices: TypeCode,
        /// The type of the positions where rows begin.
        pointers: TypeCode,
    },
    /// The implementation chooses how entries are stored.
    Packed {
        /// The number of stored entries.
        nnz: i64,
    },
    /// Tensors that differ in one dimension, one behind the other.
    Grouped {
        /// The dimension in which they differ.
        axis: usize,
        /// How many there are.
        count: i64,
        /// The type of the positions where they end.
        offsets: TypeCode,
    },
    /// One value on the host.
    HostScalar,
}

/// Strides and inner blocks in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// Distances between neighbours of each outer dimension.
    pub(crate) strides: dnnl_dims_t,
    /// The number of inner blocks.
    pub(crate) count: usize,
    /// The sizes of the inner blocks, from the outermost to the innermost.
    pub(crate) sizes: dnnl_dims_t,
    /// The dimensions of the inner blocks.
    pub(crate) axes: dnnl_dims_t,
}

/// One of the sixteen data types of the C API; two of them are known to descriptors alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeCode(dnnl_data_type_t);

impl TypeCode {
    /// The type of that number.
    pub(crate) fn new(value: dnnl_data_type_t) -> Option<Self> {
        (dnnl_f16..=dnnl_s64).contains(&value).then_some(Self(value))
    }

    /// The type's number.
    pub(crate) fn value(self) -> dnnl_data_type_t {
        self.0
    }

    /// The size of an element in bits.
    pub(crate) fn bits(self) -> usize {
        match self.0 {
            dnnl_e8m0 => 8,
            dnnl_f4_e3m0 => 4,
            _ => self.data_type().map_or(0, DataType::bits),
        }
    }

    /// The contract's type; none for those it lacks.
    pub(crate) fn data_type(self) -> Option<DataType> {
        TYPES.iter().find(|(number, _)| *number == self.0).map(|&(_, data_type)| data_type)
    }
}

/// The number of a type of the contract.
pub(crate) fn number(data_type: DataType) -> Option<dnnl_data_type_t> {
    TYPES.iter().find(|(_, own)| *own == data_type).map(|&(number, _)| number)
}

/// The types that primitives compute with.
const TYPES: [(dnnl_data_type_t, DataType); DataType::ALL.len()] = [
    (dnnl_f16, DataType::F16),
    (dnnl_bf16, DataType::BF16),
    (dnnl_f32, DataType::F32),
    (dnnl_s32, DataType::S32),
    (dnnl_s8, DataType::S8),
    (dnnl_u8, DataType::U8),
    (dnnl_f64, DataType::F64),
    (dnnl_boolean, DataType::Boolean),
    (dnnl_f8_e5m2, DataType::F8E5M2),
    (dnnl_f8_e4m3, DataType::F8E4M3),
    (dnnl_s4, DataType::S4),
    (dnnl_u4, DataType::U4),
    (dnnl_f4_e2m1, DataType::F4E2M1),
    (dnnl_s64, DataType::S64),
];

//! Between descriptors of C and those of the contract.

use anydnn_backend::{Blocking, DataType, Dims, Layout, MemoryDesc, SparseDesc, SparseEncoding};

use crate::boundary::{Failure, Outcome};
use crate::desc::build::type_code;
use crate::desc::types::{Blocks, Format, Md, TypeCode, number};
use crate::refusals::Lack;

impl Md {
    /// The contract's descriptor of a tensor with strides or an open layout.
    pub(crate) fn to_memory_desc(&self) -> Outcome<MemoryDesc> {
        self.check_known()?;
        let (dims, data_type) = (self.contract_dims(), self.contract_type()?);
        match &self.format {
            Format::Any => Ok(MemoryDesc::any(dims, data_type)),
            Format::Blocked(blocks) => {
                self.check_padding(blocks)?;
                let layout = Layout::Blocked(Blocking {
                    strides: blocks.strides[..self.rank].iter().map(|&stride| stride as usize).collect(),
                    inner: blocks.inner().map(|(axis, size)| (axis, size as usize)).collect(),
                    offset: self.offset as usize,
                });
                Ok(MemoryDesc::with_layout(dims, data_type, layout)?)
            }
            Format::Undef
            | Format::Coo { .. }
            | Format::Csr { .. }
            | Format::Packed { .. }
            | Format::Grouped { .. }
            | Format::HostScalar => {
                let lack = match self.format {
                    Format::Grouped { .. } => Lack::Grouped,
                    _ => Lack::Sparse,
                };
                Err(lack.failure("anything but a dense tensor here"))
            }
        }
    }

    /// The contract's descriptor of a sparse tensor.
    pub(crate) fn to_sparse_desc(&self) -> Outcome<SparseDesc> {
        self.check_known()?;
        let known = |code: TypeCode| code.data_type().ok_or_else(|| unknown(code));
        let encoding = match self.format {
            Format::Coo { nnz, indices } => {
                SparseEncoding::Coo { nnz: nnz as usize, indices: known(indices)? }
            }
            Format::Csr { nnz, indices, pointers } => SparseEncoding::Csr {
                nnz: nnz as usize,
                indices: known(indices)?,
                pointers: known(pointers)?,
            },
            _ => return Err(Failure::invalid("the memory descriptor is not sparse")),
        };
        Ok(SparseDesc::new(self.contract_dims(), self.contract_type()?, encoding)?)
    }

    /// The contract's descriptors of a grouped matrix: of its values, whose groups lie one after the other, and of the groups' ends.
    pub(crate) fn to_grouped_desc(&self) -> Outcome<(MemoryDesc, MemoryDesc)> {
        let Format::Grouped { axis, count, .. } = self.format else {
            return Err(Failure::invalid("the memory descriptor is not grouped"));
        };
        let (dims, data_type) = (self.contract_dims(), self.contract_type()?);
        let [rows, columns] = dims[..] else {
            return Err(Lack::Grouped.failure(format_args!("a grouped tensor of {} dimensions", self.rank)));
        };
        let strides = if axis == 0 { [columns.max(1), 1] } else { [1, rows.max(1)] };
        let values = MemoryDesc::with_strides(dims, data_type, strides)?;
        Ok((values, MemoryDesc::new([count as usize], DataType::S32)))
    }

    /// The descriptor that C gets for one of the contract.
    pub(crate) fn from_memory_desc(desc: &MemoryDesc) -> Outcome<Self> {
        let mut md = Self::empty();
        md.rank = desc.rank();
        let data_type = number(desc.data_type());
        let too_large = || Failure::invalid(format!("{desc} does not fit the C API"));
        let code = |n: usize| i64::try_from(n).map_err(|_| too_large());
        md.data_type = Some(type_code(data_type.ok_or_else(too_large)?)?);
        let slots = md.dims.iter_mut().zip(&mut md.padded_dims);
        if desc.rank() > slots.len() {
            return Err(too_large());
        }
        for ((dim, padded), (&n, &p)) in slots.zip(desc.dims().iter().zip(desc.padded_dims().iter())) {
            (*dim, *padded) = (code(n)?, code(p)?);
        }
        md.format = match desc.layout() {
            Layout::Any => Format::Any,
            Layout::Blocked(blocking) => {
                md.offset = code(blocking.offset)?;
                let mut blocks = Blocks::none();
                for (to, &stride) in blocks.strides.iter_mut().zip(blocking.strides.iter()) {
                    *to = code(stride)?;
                }
                if blocking.inner.len() > blocks.sizes.len() {
                    return Err(too_large());
                }
                blocks.count = blocking.inner.len();
                for (i, &(axis, size)) in blocking.inner.iter().enumerate() {
                    (blocks.axes[i], blocks.sizes[i]) = (axis as i64, code(size)?);
                }
                Format::Blocked(blocks)
            }
            _ => return Err(Lack::Layout.failure("an opaque layout")),
        };
        Ok(md)
    }

    fn check_known(&self) -> Outcome {
        if self.is_runtime() {
            return Err(Lack::Unknown.failure("numbers that are known at execution only"));
        }
        Ok(())
    }

    /// A tensor that ends inside a block shares the block with its neighbours: its padding is not its own.
    fn check_padding(&self, blocks: &Blocks) -> Outcome {
        let per_axis = blocks.per_axis();
        let whole = (0..self.rank).all(|axis| {
            self.padded_dims[axis] == (self.dims[axis] + per_axis[axis] - 1) / per_axis[axis] * per_axis[axis]
        });
        if whole && self.padded_offsets[..self.rank].iter().all(|&offset| offset == 0) {
            return Ok(());
        }
        Err(Lack::Part.failure("a submemory that is a part of a block"))
    }

    fn contract_dims(&self) -> Dims {
        self.dims[..self.rank].iter().map(|&dim| dim as usize).collect()
    }

    fn contract_type(&self) -> Outcome<DataType> {
        let code =
            self.data_type.ok_or_else(|| Failure::invalid("the memory descriptor has no data type"))?;
        code.data_type().ok_or_else(|| unknown(code))
    }
}

fn unknown(code: TypeCode) -> Failure {
    Lack::DataType.failure(format_args!("computing with the data type {}", code.value()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desc::tags;
    use crate::types::{
        DNNL_RUNTIME_DIM_VAL, dnnl_data_type_t, dnnl_f4_e3m0, dnnl_f16, dnnl_f32, dnnl_s64,
        dnnl_unimplemented,
    };

    fn tagged(dims: &[i64], data_type: dnnl_data_type_t, letters: &str) -> Md {
        Md::with_tag(dims, data_type, tags::number(letters).unwrap()).unwrap()
    }

    #[test]
    fn tensors_go_to_the_contract_and_back() {
        for (md, letters) in
            [(&[2, 17, 3, 5][..], "aBcd16b"), (&[20, 17][..], "AB8b16a2b"), (&[4, 5, 6][..], "acb")]
        {
            let md = tagged(md, dnnl_f32, letters);
            let desc = md.to_memory_desc().unwrap();
            assert_eq!(desc.size(), md.size(0));
            assert!(Md::from_memory_desc(&desc).unwrap() == md, "{letters}");
        }
        let part = tagged(&[4, 32], dnnl_f16, "ab").part(&[2, 8], &[1, 8]).unwrap();
        let desc = part.to_memory_desc().unwrap();
        assert_eq!(desc.offset_of(&[1, 2]), Some(32 + 8 + 32 + 2));
        assert_eq!((part.size(0), part.footprint(0)), (64 * 2, (40 + 64) * 2));
        assert!(Md::from_memory_desc(&desc).unwrap() == part);
    }

    #[test]
    fn sparse_tensors_keep_their_parts_sizes() {
        let md = Md::with_coordinates(&[4, 5], dnnl_f32, 7, dnnl_s64).unwrap();
        let sizes: Vec<_> = md.to_sparse_desc().unwrap().components().iter().map(MemoryDesc::size).collect();
        assert_eq!(sizes, [28, 56, 56]);
        assert_eq!((0..3).map(|i| md.size(i)).collect::<Vec<_>>(), sizes);
    }

    #[test]
    fn what_the_contract_lacks_is_unimplemented() {
        let blocked = tagged(&[2, 32, 4, 4], dnnl_f32, "aBcd16b");
        let unimplemented = [
            blocked.part(&[2, 8, 4, 4], &[0, 16, 0, 0]).unwrap(),
            tagged(&[4, 6], dnnl_f4_e3m0, "ab"),
            tagged(&[4, DNNL_RUNTIME_DIM_VAL], dnnl_f32, "ab"),
            Md::host_scalar(dnnl_f32).unwrap(),
        ];
        for md in unimplemented {
            let failure = md.to_memory_desc().unwrap_err();
            assert!(matches!(&failure, Failure::Status(dnnl_unimplemented, _)), "{failure:?}");
        }
        assert!(blocked.to_sparse_desc().is_err());
    }
}

//! What memory and primitives need to know about descriptors.

use anydnn_backend::{Blocking, DataType, Dims, Layout, MemoryDesc};

use crate::boundary::{Failure, Outcome};
use crate::desc::{Format, Md};
use crate::types::{DNNL_MAX_NDIMS, DNNL_RUNTIME_DIM_VAL, dnnl_unimplemented};

pub(crate) trait Facts {
    fn empty() -> Self;
    fn handle_count(&self) -> usize;
    fn has_runtime_values(&self) -> bool;
    fn size(&self, index: usize) -> usize;
    fn to_contract(&self) -> Outcome<MemoryDesc>;
}

impl Facts for Md {
    fn empty() -> Self {
        let zeros = [0; DNNL_MAX_NDIMS];
        Self {
            rank: 0,
            dims: zeros,
            data_type: None,
            padded_dims: zeros,
            padded_offsets: zeros,
            offset: 0,
            format: Format::Undef,
        }
    }

    fn handle_count(&self) -> usize {
        if matches!(self.format, Format::Coo { .. }) { self.rank + 1 } else { 1 }
    }

    fn has_runtime_values(&self) -> bool {
        let unknown = |values: &[i64]| values[..self.rank].contains(&DNNL_RUNTIME_DIM_VAL);
        unknown(&self.dims)
            || self.offset == DNNL_RUNTIME_DIM_VAL
            || matches!(&self.format, Format::Blocked(blocks) if unknown(&blocks.strides))
    }

    fn size(&self, index: usize) -> usize {
        let Some(code) = self.data_type else { return 0 };
        match &self.format {
            Format::Blocked(blocks) => {
                let elements = layout(self, blocks)
                    .and_then(|layout| MemoryDesc::with_layout(dims(self)?, DataType::U8, layout).ok());
                elements.map_or(usize::MAX, |desc| (desc.size() * code.bits()).div_ceil(8))
            }
            Format::Coo { nnz, indices } => {
                let bits = if index == 0 { code.bits() } else { indices.bits() };
                usize::try_from(*nnz).unwrap_or(0).saturating_mul(bits).div_ceil(8)
            }
            _ => 0,
        }
    }

    fn to_contract(&self) -> Outcome<MemoryDesc> {
        let unimplemented = |what: &str| Failure::Status(dnnl_unimplemented, what.into());
        if self.has_runtime_values() {
            return Err(unimplemented("dimensions or strides that are not known yet"));
        }
        let code = self.data_type.ok_or_else(|| Failure::invalid("the descriptor is empty"))?;
        let data_type = code.data_type().ok_or_else(|| unimplemented("a data type without kernels"))?;
        let dims = dims(self).ok_or_else(|| Failure::invalid("the dimensions are negative"))?;
        Ok(match &self.format {
            Format::Any => MemoryDesc::any(dims, data_type),
            Format::Blocked(blocks) => {
                let layout =
                    layout(self, blocks).ok_or_else(|| Failure::invalid("the strides are negative"))?;
                MemoryDesc::with_layout(dims, data_type, layout)?
            }
            _ => return Err(unimplemented("a descriptor that is neither dense nor strided")),
        })
    }
}

fn dims(md: &Md) -> Option<Dims> {
    md.dims[..md.rank]
        .iter()
        .map(|&dim| usize::try_from(dim).ok())
        .collect::<Option<Vec<_>>>()
        .map(Dims::from)
}

fn layout(md: &Md, blocks: &crate::desc::Blocks) -> Option<Layout> {
    let numbers =
        |values: &[i64]| values.iter().map(|&value| usize::try_from(value).ok()).collect::<Option<Vec<_>>>();
    let strides = Dims::from(numbers(&blocks.strides[..md.rank])?);
    let (sizes, axes) = (numbers(&blocks.sizes[..blocks.count])?, numbers(&blocks.axes[..blocks.count])?);
    let inner = axes.into_iter().zip(sizes).collect();
    Some(Layout::Blocked(Blocking { strides, inner, offset: usize::try_from(md.offset).ok()? }))
}

//! Memory descriptors.

mod types;

pub(crate) use types::{Blocks, Format, Md, TypeCode};

use crate::boundary::{self, Failure};
use crate::handle::Handle;
use crate::types::{dnnl_data_type_t, dnnl_memory_desc};

/// The size of an element in bytes, or `SIZE_MAX` for what is no data type. Two elements of a 4-bit type share a byte.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_data_type_size(data_type: dnnl_data_type_t) -> usize {
    boundary::value("dnnl_data_type_size", usize::MAX, || {
        let code = TypeCode::new(data_type)
            .ok_or_else(|| Failure::invalid(format!("there is no data type {data_type}")))?;
        Ok(code.bits().div_ceil(8))
    })
}

impl Handle for dnnl_memory_desc {
    type Value = Md;
    const TAG: u64 = u64::from_le_bytes(*b"any-desc");
    const NAME: &'static str = "memory descriptor";
}

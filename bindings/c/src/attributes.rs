//! Attributes of primitives.

use anydnn_backend::Attributes;

use crate::boundary;
use crate::handle::{self, Handle};
use crate::settings;
use crate::types::{dnnl_primitive_attr, dnnl_primitive_attr_t, dnnl_status_t};

/// Makes attributes with default values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_create(attr: *mut dnnl_primitive_attr_t) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_create", || {
        // SAFETY: the caller passes null or a handle to write.
        unsafe {
            handle::create_at(attr, || Ok(Attributes::default().with_fpmath(settings::default_fpmath())))
        }
    })
}

/// Ends attributes; null is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_destroy(attr: dnnl_primitive_attr_t) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_destroy", || {
        // SAFETY: the caller passes null or attributes that live, and gives them up.
        unsafe { handle::destroy(attr) }
    })
}

impl Handle for dnnl_primitive_attr {
    type Value = Attributes;
    const TAG: u64 = u64::from_le_bytes(*b"any-attr");
    const NAME: &'static str = "attributes object";
}

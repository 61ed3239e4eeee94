//! Attributes of primitives.

use anydnn_backend::{Attributes, ScratchpadMode};

use crate::boundary::{self, Failure};
use crate::handle::{self, Handle};
use crate::object_types::{
    const_dnnl_post_ops_t, dnnl_scratchpad_mode_library, dnnl_scratchpad_mode_t, dnnl_scratchpad_mode_user,
};
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

/// Says who gives primitives their working memory: the library, or the caller with every execution.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_scratchpad_mode(
    attr: dnnl_primitive_attr_t,
    mode: dnnl_scratchpad_mode_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_scratchpad_mode", || {
        let mode = match mode {
            dnnl_scratchpad_mode_library => ScratchpadMode::Library,
            dnnl_scratchpad_mode_user => ScratchpadMode::User,
            other => return Err(Failure::invalid(format!("{other} is no scratchpad mode"))),
        };
        // SAFETY: the caller passes null or attributes that live, and uses them nowhere else meanwhile.
        unsafe { handle::borrow_mut(attr) }?.scratchpad = mode;
        Ok(())
    })
}

/// Gives attributes a copy of post-operations; null for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_post_ops(
    attr: dnnl_primitive_attr_t,
    post_ops: const_dnnl_post_ops_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_post_ops", || {
        // SAFETY: the caller passes null, or objects that live, and uses the attributes nowhere else meanwhile.
        let (attr, post_ops) = unsafe { (handle::borrow_mut(attr)?, handle::borrow_optional(post_ops)?) };
        attr.post_ops = post_ops.cloned().unwrap_or_default();
        Ok(())
    })
}

impl Handle for dnnl_primitive_attr {
    type Value = Attributes;
    const TAG: u64 = u64::from_le_bytes(*b"any-attr");
    const NAME: &'static str = "attributes object";
}

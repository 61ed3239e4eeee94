//! Copies into another layout, element type or context.

use std::sync::Arc;

use anydnn_backend::Op;
use anydnn_backend::op::Reorder;

use crate::boundary::{self, Failure};
use crate::desc::Format;
use crate::engine;
use crate::handle;
use crate::object_types::{dnnl_engine_t, dnnl_primitive_desc_t};
use crate::primitive::{Described, attributes, operand};
use crate::types::{const_dnnl_memory_desc_t, const_dnnl_primitive_attr_t, dnnl_status_t};

/// Describes a copy from one engine's memory to another's, or to the same one's. It runs on streams of the target's engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_reorder_primitive_desc_create(
    reorder_primitive_desc: *mut dnnl_primitive_desc_t,
    src_desc: const_dnnl_memory_desc_t,
    src_engine: dnnl_engine_t,
    dst_desc: const_dnnl_memory_desc_t,
    dst_engine: dnnl_engine_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    boundary::status("dnnl_reorder_primitive_desc_create", || {
        let make = || {
            // SAFETY: the caller passes null or engines, descriptors and attributes that live.
            let (source_engine, engine, src, dst, attributes) = unsafe {
                (
                    engine::reference(src_engine)?,
                    engine::reference(dst_engine)?,
                    operand(src_desc, "src_desc")?,
                    operand(dst_desc, "dst_desc")?,
                    attributes(attr)?,
                )
            };
            for (desc, what) in [(src, "src_desc"), (dst, "dst_desc")] {
                if matches!(desc.format, Format::Any | Format::Undef) {
                    return Err(Failure::invalid(format!("{what} has no layout")));
                }
            }
            let (src, dst) = (src.to_memory_desc()?, dst.to_memory_desc()?);
            let described =
                Described::unary(Op::Reorder(Reorder), src, dst, &attributes, Arc::clone(&engine))?;
            let is_elsewhere =
                source_engine.value().engine.raw_context() != engine.value().engine.raw_context();
            Ok(Described { source_engine: is_elsewhere.then_some(source_engine), ..described })
        };
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(reorder_primitive_desc, make) }
    })
}

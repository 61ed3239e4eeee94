//! Copies into another layout, element type or context.

use std::sync::Arc;

use anydnn_backend::Arg;
use anydnn_backend::op::Reorder;

use crate::boundary;
use crate::engine;
use crate::handle;
use crate::kinds::{arg, kind, query};
use crate::object_types::{dnnl_engine_t, dnnl_primitive_desc_t};
use crate::primitive::{Described, Facts, attributes, closed, same_dims};
use crate::recipe::Recipe;
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
            let (source_engine, engine, src, dst, attr) = unsafe {
                (
                    engine::reference(src_engine)?,
                    engine::reference(dst_engine)?,
                    closed(src_desc, "src_desc")?,
                    closed(dst_desc, "dst_desc")?,
                    attributes(attr)?,
                )
            };
            same_dims(&src, &dst, "dst_desc")?;
            let mut recipe = Recipe::new(Arc::clone(&engine));
            let src = recipe.operand(arg::SRC, (query::SRC, 0), src);
            let dst = recipe.operand(arg::DST, (query::DST, 0), dst);
            recipe.main(Reorder, &[(Arg::SRC, &src)], &dst, &attr)?;
            let described = Described::new(Facts::new(kind::REORDER, 0), recipe, &attr)?;
            let is_elsewhere =
                source_engine.value().engine.raw_context() != engine.value().engine.raw_context();
            Ok(Described { source_engine: is_elsewhere.then_some(source_engine), ..described })
        };
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(reorder_primitive_desc, make) }
    })
}

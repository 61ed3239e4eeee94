//! Softmax.

use anydnn_backend::Op;
use anydnn_backend::op::Softmax;

use crate::boundary::{self, Failure};
use crate::desc::Format;
use crate::engine;
use crate::handle;
use crate::object_types::{
    dnnl_alg_kind_t, dnnl_engine_t, dnnl_forward_inference, dnnl_forward_training, dnnl_primitive_desc_t,
    dnnl_prop_kind_t, dnnl_softmax_accurate, dnnl_softmax_log,
};
use crate::primitive::{Described, attributes, operand};
use crate::types::{const_dnnl_memory_desc_t, const_dnnl_primitive_attr_t, dnnl_status_t};

/// Describes the forward pass of softmax, or of its logarithm, along an axis.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_softmax_forward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    alg_kind: dnnl_alg_kind_t,
    src_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    softmax_axis: i32,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    boundary::status("dnnl_softmax_forward_primitive_desc_create", || {
        let make = || {
            // SAFETY: the caller passes null, or objects that live.
            let (engine, src, dst, attributes) = unsafe {
                (
                    engine::reference(engine)?,
                    operand(src_desc, "src_desc")?,
                    operand(dst_desc, "dst_desc")?,
                    attributes(attr)?,
                )
            };
            if !matches!(prop_kind, dnnl_forward_training | dnnl_forward_inference) {
                return Err(Failure::invalid(format!("{prop_kind} is not a forward propagation kind")));
            }
            if matches!(src.format, Format::Any | Format::Undef) {
                return Err(Failure::invalid("src_desc has no layout"));
            }
            let src = src.to_memory_desc()?;
            let axis =
                usize::try_from(softmax_axis).ok().filter(|&axis| axis < src.rank()).ok_or_else(|| {
                    Failure::invalid(format!(
                        "softmax_axis is {softmax_axis}, expected less than {}",
                        src.rank()
                    ))
                })?;
            let softmax = match alg_kind {
                dnnl_softmax_accurate => Softmax::new(axis),
                dnnl_softmax_log => Softmax::log(axis),
                other => return Err(Failure::invalid(format!("{other:#x} is not a softmax algorithm"))),
            };
            // An open result has the layout of its source.
            let dst = match dst.format {
                Format::Any => {
                    let dst = dst.to_memory_desc()?;
                    if dst.dims() == src.dims() { src.with_data_type(dst.data_type()) } else { dst }
                }
                _ => dst.to_memory_desc()?,
            };
            Described::unary(Op::Softmax(softmax), src, dst, &attributes, engine)
        };
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(primitive_desc, make) }
    })
}

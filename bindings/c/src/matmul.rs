//! Matrix products.

use anydnn_backend::{Op, PrimitiveDesc, op};

use crate::boundary::{self, Failure, Outcome};
use crate::desc::Format;
use crate::engine;
use crate::handle;
use crate::object_types::{dnnl_cpu_isa_default, dnnl_cpu_isa_t, dnnl_engine_t, dnnl_primitive_desc_t};
use crate::primitive::{Described, attributes, operand};
use crate::types::{const_dnnl_memory_desc_t, const_dnnl_primitive_attr_t, dnnl_status_t};

/// Describes a (batched) product of matrices, with an optional bias that broadcasts to the result. Any layout may be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_matmul_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    src_desc: const_dnnl_memory_desc_t,
    weights_desc: const_dnnl_memory_desc_t,
    bias_desc: const_dnnl_memory_desc_t,
    dst_desc: const_dnnl_memory_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    boundary::status("dnnl_matmul_primitive_desc_create", || {
        let make = || {
            // SAFETY: the caller passes null, or objects that live.
            let (engine, attributes) = unsafe { (engine::reference(engine)?, attributes(attr)?) };
            let mut builder = PrimitiveDesc::builder(Op::MatMul(op::MatMul));
            // SAFETY: the caller passes null or descriptors that live.
            unsafe {
                builder =
                    builder.src(tensor(src_desc, "src_desc")?).weights(tensor(weights_desc, "weights_desc")?);
                // An empty descriptor is no bias.
                let bias =
                    handle::borrow_optional(bias_desc)?.filter(|md| !matches!(md.format, Format::Undef));
                if bias.is_some() {
                    builder = builder.bias(tensor(bias_desc, "bias_desc")?);
                }
                builder = builder.dst(tensor(dst_desc, "dst_desc")?);
            }
            Described::new(builder, &attributes, engine)
        };
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(primitive_desc, make) }
    })
}

/// The instruction set that the library uses: none in particular, because it has no engines of processors of its own.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_get_effective_cpu_isa() -> dnnl_cpu_isa_t {
    dnnl_cpu_isa_default
}

/// # Safety
/// `desc` is null or a descriptor that lives.
unsafe fn tensor(desc: const_dnnl_memory_desc_t, what: &str) -> Outcome<anydnn_backend::MemoryDesc> {
    // SAFETY: by contract.
    let md = unsafe { operand(desc, what) }?;
    if matches!(md.format, Format::Undef) {
        return Err(Failure::invalid(format!("{what} has no layout")));
    }
    md.to_memory_desc()
}

//! Primitives and their descriptions.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;
use std::time::Instant;

use anydnn_backend::{
    Arg, Attributes, DataType, Engine, MemoryDesc, Op, PrimitiveDesc, PrimitiveDescBuilder, ScratchpadMode,
};
use anydnn_opencl::OpenClPrimitive;

use crate::boundary::{self, Failure, Outcome};
use crate::desc::Md;
use crate::engine::EngineRef;
use crate::execute;
use crate::handle::{self, Embedded, Handle};
use crate::object_types::{
    const_dnnl_primitive_desc_t, dnnl_primitive, dnnl_primitive_desc, dnnl_primitive_desc_t, dnnl_primitive_t,
};
use crate::settings;
use crate::types::{
    const_dnnl_memory_desc_t, const_dnnl_primitive_attr_t, dnnl_memory_desc, dnnl_query_dst_md,
    dnnl_query_exec_arg_md, dnnl_query_scratchpad_md, dnnl_query_src_md, dnnl_query_t, dnnl_query_weights_md,
    dnnl_status_t, dnnl_unimplemented,
};
use crate::verbose;

/// Ends the description of a primitive; null is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_desc_destroy(primitive_desc: dnnl_primitive_desc_t) -> dnnl_status_t {
    boundary::status("dnnl_primitive_desc_destroy", || {
        // SAFETY: the caller passes null or a description that lives, and gives it up.
        unsafe { handle::destroy(primitive_desc) }
    })
}

/// Compiles a primitive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_create(
    primitive: *mut dnnl_primitive_t,
    primitive_desc: const_dnnl_primitive_desc_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_create", || {
        let make = || {
            // SAFETY: the caller passes null or a description that lives.
            let described = unsafe { handle::borrow(primitive_desc) }?;
            let start = Instant::now();
            let compiled = described
                .engine
                .value()
                .engine
                .create_primitive(&described.desc.clone().with_specialize(settings::specialize()))?;
            verbose::primitive(verbose::CREATION, "create", &compiled, start);
            Ok(PrimitiveObject { compiled, described: described.clone() })
        };
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(primitive, make) }
    })
}

/// Ends a primitive; null is none. Executions on their way are finished.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_destroy(primitive: dnnl_primitive_t) -> dnnl_status_t {
    boundary::status("dnnl_primitive_destroy", || {
        // SAFETY: the caller passes null or a primitive that lives, and gives it up.
        unsafe { handle::destroy(primitive) }
    })
}

/// What is behind the handle of a primitive's description.
#[derive(Clone)]
pub(crate) struct Described {
    pub(crate) desc: PrimitiveDesc,
    /// The engine that the primitive runs on.
    pub(crate) engine: EngineRef,
    /// The engine in another context that the source is on, where that is another one.
    pub(crate) source_engine: Option<EngineRef>,
    pub(crate) lent: Arc<Lent>,
}

/// What is behind a primitive's handle.
pub(crate) struct PrimitiveObject {
    pub(crate) compiled: OpenClPrimitive,
    pub(crate) described: Described,
}

impl Handle for dnnl_primitive_desc {
    type Value = Described;
    const TAG: u64 = u64::from_le_bytes(*b"any-pdes");
    const NAME: &'static str = "primitive descriptor";
}

impl Handle for dnnl_primitive {
    type Value = PrimitiveObject;
    const TAG: u64 = u64::from_le_bytes(*b"any-prim");
    const NAME: &'static str = "primitive";
}

/// Lends the descriptor of an operand, until the description ends; an empty one for an operand that the primitive does not have. Null for
/// what is no query of a descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_desc_query_md(
    primitive_desc: const_dnnl_primitive_desc_t,
    what: dnnl_query_t,
    index: c_int,
) -> const_dnnl_memory_desc_t {
    boundary::value("dnnl_primitive_desc_query_md", ptr::null(), || {
        // SAFETY: the caller passes null or a description that lives.
        let described = unsafe { handle::borrow(primitive_desc) }?;
        let arg = match (what, index) {
            (dnnl_query_src_md, 0) => Some(Arg::SRC),
            (dnnl_query_weights_md, 0) => Some(Arg::Weights),
            (dnnl_query_weights_md, 1) => Some(Arg::Bias),
            (dnnl_query_dst_md, 0) => Some(Arg::DST),
            (dnnl_query_scratchpad_md, 0) => Some(Arg::Scratchpad),
            (dnnl_query_exec_arg_md, number) => execute::argument(number, &described.desc),
            (129..=136, _) => None,
            _ => return Err(Failure::invalid(format!("{what} is no query of a memory descriptor"))),
        };
        let lent = &described.lent;
        let found = arg.and_then(|arg| lent.of.iter().find(|(other, _)| *other == arg));
        Ok(found.map_or(lent.none.as_ptr(), |(_, md)| md.as_ptr()))
    })
}

/// Descriptors that are lent to C.
pub(crate) struct Lent {
    of: Vec<(Arg, Embedded<dnnl_memory_desc>)>,
    none: Embedded<dnnl_memory_desc>,
}

impl Described {
    /// A description that an engine has a kernel for, with every layout resolved.
    pub(crate) fn new(
        builder: PrimitiveDescBuilder,
        attributes: &Attributes,
        engine: EngineRef,
    ) -> Outcome<Self> {
        let desc = builder.attributes(attributes.clone()).build()?;
        let (desc, scratchpad) = engine.value().engine.resolve_with_scratchpad(&desc)?;
        let lend = |md: &MemoryDesc| Ok::<_, Failure>(Embedded::new(Md::from_memory_desc(md)?));
        let mut of = desc.args().iter().map(|a| Ok((a.arg, lend(&a.desc)?))).collect::<Outcome<Vec<_>>>()?;
        if attributes.scratchpad == ScratchpadMode::User && scratchpad > 0 {
            of.push((Arg::Scratchpad, lend(&MemoryDesc::new([scratchpad], DataType::U8))?));
        }
        let lent = Arc::new(Lent { of, none: Embedded::new(Md::empty()) });
        Ok(Self { desc, engine, source_engine: None, lent })
    }

    /// The description of an operation with one source and one result, which an engine has a kernel for.
    pub(crate) fn unary(
        op: Op,
        src: MemoryDesc,
        dst: MemoryDesc,
        attributes: &Attributes,
        engine: EngineRef,
    ) -> Outcome<Self> {
        Self::new(PrimitiveDesc::builder(op).src(src).dst(dst), attributes, engine)
    }
}

/// Attributes, which may be null for none.
///
/// # Safety
/// `attr` is null or attributes that live.
pub(crate) unsafe fn attributes(attr: const_dnnl_primitive_attr_t) -> Outcome<Attributes> {
    // SAFETY: by contract.
    Ok(unsafe { handle::borrow_optional(attr) }?.cloned().unwrap_or_default())
}

/// A descriptor that an operation takes.
///
/// # Safety
/// `desc` is null or a descriptor that lives for `'a`.
pub(crate) unsafe fn operand<'a>(desc: const_dnnl_memory_desc_t, what: &str) -> Outcome<&'a Md> {
    if desc.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: by contract.
    let desc = unsafe { handle::borrow(desc) }?;
    if desc.is_runtime() {
        let message = format!("{what} has dimensions or strides that are known at execution only");
        return Err(Failure::Status(dnnl_unimplemented, message));
    }
    Ok(desc)
}

//! Primitives and their descriptions.

use std::ffi::c_int;
use std::sync::Arc;

use anydnn::select::{AnyMemory, AnyPrimitive};
use anydnn_backend::{Access, DataType, Dims, Engine, MapMode, Memory, MemoryDesc, ScratchpadMode};

use crate::attributes::Attr;
use crate::boundary::{self, Failure, Outcome};
use crate::desc::{Format, Md};
use crate::engine::{self, EngineRef};
use crate::handle::{self, Embedded, Handle};
use crate::kinds::{arg, query};
use crate::object_types::{
    const_dnnl_primitive_desc_t, const_dnnl_primitive_t, dnnl_engine_t, dnnl_forward_inference,
    dnnl_forward_training, dnnl_primitive, dnnl_primitive_desc, dnnl_primitive_desc_t, dnnl_primitive_t,
    dnnl_prop_kind_t,
};
use crate::recipe::{Constant, Operand, Place, Recipe, Step};
use crate::refusals::Lack;
use crate::runtime::{Deferred, Made};
use crate::settings;
use crate::told::tell;
use crate::types::{
    const_dnnl_memory_desc_t, const_dnnl_primitive_attr_t, dnnl_dim_t, dnnl_memory_desc, dnnl_primitive_attr,
    dnnl_status_t,
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
        // SAFETY: the caller passes null, or a description that lives and a handle to write.
        unsafe { handle::create_at(primitive, || PrimitiveObject::new(handle::borrow(primitive_desc)?)) }
    })
}

/// Compiles a primitive with what another one's blob holds. What an engine has compiled is kept with the engine, so that the blob says
/// nothing more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_create_from_cache_blob(
    primitive: *mut dnnl_primitive_t,
    primitive_desc: const_dnnl_primitive_desc_t,
    size: usize,
    cache_blob: *const u8,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_create_from_cache_blob", || {
        // SAFETY: the caller passes null, or a description that lives, `size` bytes and a handle to write.
        unsafe {
            if handle::slice(cache_blob, size, "cache_blob")?.is_empty() {
                return Err(Failure::invalid("the blob is empty"));
            }
            handle::create_at(primitive, || {
                let described = handle::borrow(primitive_desc)?;
                // Where nothing is compiled there are no blobs.
                described.engine.value().engine.cache_blob_id()?;
                PrimitiveObject::new(described)
            })
        }
    })
}

/// What [`dnnl_primitive_create_from_cache_blob`] takes: the size where `cache_blob` is null, else the bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_get_cache_blob(
    primitive: const_dnnl_primitive_t,
    size: *mut usize,
    cache_blob: *mut u8,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_get_cache_blob", || {
        // SAFETY: the caller passes null, or a primitive that lives and places to read and write.
        unsafe {
            let object = handle::borrow(primitive)?;
            let blob = object.described().engine.value().engine.cache_blob()?;
            handle::bytes_out(&blob, size, cache_blob)
        }
    })
}

/// Lends the description of a primitive, until the primitive ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_get_primitive_desc(
    primitive: const_dnnl_primitive_t,
    primitive_desc: *mut const_dnnl_primitive_desc_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_get_primitive_desc", || {
        // SAFETY: the caller passes null, or a primitive that lives and a place to write.
        unsafe {
            handle::write(primitive_desc, "primitive_desc", handle::borrow(primitive)?.described.as_ptr())
        }
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
    pub(crate) facts: Facts,
    /// How it runs.
    pub(crate) steps: Arc<[Step]>,
    /// The bytes and places of temporaries in working memory.
    pub(crate) temporaries: Arc<[MemoryDesc]>,
    /// Numbers that steps read.
    pub(crate) constants: Arc<[Constant]>,
    pub(crate) operands: Arc<[Operand]>,
    /// Whether the primitive writes each of them.
    pub(crate) written: Arc<[bool]>,
    /// The bytes of working memory that the caller may be asked for.
    pub(crate) scratchpad: usize,
    /// The engine that the primitive runs on.
    pub(crate) engine: EngineRef,
    /// The operand that is on an engine whose memory commands of this one do not take, by its number.
    pub(crate) elsewhere: Option<(c_int, EngineRef)>,
    pub(crate) attr: Arc<Embedded<dnnl_primitive_attr>>,
    pub(crate) lent: Arc<Lent>,
    /// What makes it once everything is known; the rest then speaks of stand-ins.
    pub(crate) deferred: Option<Arc<Deferred>>,
}

/// What queries tell beside descriptors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) kind: c_int,
    pub(crate) prop: c_int,
    pub(crate) algorithm: Option<c_int>,
    /// Numbers by query.
    pub(crate) integers: Vec<(c_int, i64)>,
    pub(crate) floats: Vec<(c_int, f32)>,
    /// Arrays by query, as long as a descriptor's.
    pub(crate) arrays: Vec<(c_int, Arc<[dnnl_dim_t; 12]>)>,
    /// Resampling's factors.
    pub(crate) factors: Option<Arc<[f32; 12]>>,
}

/// What is behind a primitive's handle.
pub(crate) struct PrimitiveObject {
    pub(crate) compiled: Vec<AnyPrimitive>,
    /// The constants of its recipe.
    pub(crate) constants: Vec<AnyMemory>,
    pub(crate) described: Embedded<dnnl_primitive_desc>,
    /// What executions made, where that is done by them.
    pub(crate) made: Made,
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

/// Descriptors that are lent to C: one for each operand, that of working memory, and an empty one.
pub(crate) struct Lent {
    pub(crate) of: Vec<Embedded<dnnl_memory_desc>>,
    pub(crate) scratchpad: Option<Embedded<dnnl_memory_desc>>,
    pub(crate) none: Embedded<dnnl_memory_desc>,
}

impl PrimitiveObject {
    pub(crate) fn new(described: &Described) -> Outcome<Self> {
        let engine = described.engine.value();
        let mut compiled = Vec::with_capacity(described.steps.len());
        let steps = if described.deferred.is_some() { &[] } else { &*described.steps };
        let start = verbose::start(verbose::CREATION);
        let mut all_there = true;
        for step in steps {
            let desc = step.desc.clone().with_specialize(settings::specialize());
            let create = || Ok(engine.engine.create_primitive(&desc)?);
            let (primitive, was_there) = engine.cache.primitive(&desc, create)?;
            all_there &= was_there;
            compiled.push(primitive);
        }
        // What is made at execution is told of then.
        if described.deferred.is_none() {
            let what = if all_there { "create:cache_hit" } else { "create:cache_miss" };
            tell(verbose::CREATION, what, described, &compiled, start);
        }
        let constant = |constant: &Constant| {
            let memory = engine.engine.create_memory(&constant.desc, engine.memory_kind())?;
            let mut mapping = memory.map(MapMode::Write)?;
            let bytes = constant.numbers.iter().flat_map(|number| number.to_ne_bytes());
            mapping.bytes_mut().iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
            mapping.unmap()?;
            Ok(memory)
        };
        let constants = described.constants.iter().map(constant).collect::<Outcome<_>>()?;
        Ok(Self { compiled, constants, described: Embedded::new(described.clone()), made: Made::default() })
    }

    pub(crate) fn described(&self) -> &Described {
        self.described.value()
    }
}

impl Described {
    /// The description of a finished recipe.
    pub(crate) fn new(facts: Facts, recipe: Recipe, attr: &Attr) -> Outcome<Self> {
        let Recipe { engine, operands, temporaries, constants, mut steps, scratchpad, described, .. } =
            recipe;
        let takes_scratchpad = attr.scratchpad == ScratchpadMode::User;
        let is_single = steps.len() == 1 && temporaries.is_empty();
        if is_single && takes_scratchpad {
            steps[0].desc = steps[0].desc.clone().with_scratchpad(ScratchpadMode::User);
        }
        let wanted = if is_single { scratchpad } else { arena(&temporaries).1 };
        let scratchpad = if takes_scratchpad { wanted } else { 0 };
        let lend = |md: &MemoryDesc| Ok::<_, Failure>(Embedded::new(Md::from_memory_desc(md)?));
        let told = |operand: &Operand| match described.iter().find(|(number, _)| *number == operand.number) {
            Some((_, md)) => Ok(Embedded::new(md.clone())),
            None => lend(&operand.desc),
        };
        let of = operands.iter().map(told).collect::<Outcome<Vec<_>>>()?;
        let bytes =
            (scratchpad > 0).then(|| lend(&MemoryDesc::new([scratchpad], DataType::U8))).transpose()?;
        let lent = Arc::new(Lent { of, scratchpad: bytes, none: Embedded::new(Md::empty()) });
        let mut written = vec![false; operands.len()];
        for step in &steps {
            for &(arg, place) in &step.args {
                if let Place::Operand(i) = place {
                    written[i] |= step.desc.access(arg).is_some_and(Access::writes);
                }
            }
        }
        Ok(Self {
            facts,
            written: written.into(),
            steps: steps.into(),
            temporaries: temporaries.into(),
            constants: constants.into(),
            operands: operands.into(),
            scratchpad,
            engine,
            elsewhere: None,
            attr: Arc::new(Embedded::new(attr.clone())),
            lent,
            deferred: None,
        })
    }

    /// The description of what is made at execution, for which this one holds stand-ins.
    pub(crate) fn deferred(self, deferred: Deferred) -> Outcome<Self> {
        let lend = |operand: &Operand| {
            Ok::<_, Failure>(Embedded::new(match deferred.md(operand.number).filter(|md| md.is_runtime()) {
                Some(md) => md.clone(),
                None => Md::from_memory_desc(&operand.desc)?,
            }))
        };
        let of = self.operands.iter().map(lend).collect::<Outcome<Vec<_>>>()?;
        let lent = Lent { of, scratchpad: None, none: Embedded::new(Md::empty()) };
        Ok(Self { lent: Arc::new(lent), deferred: Some(Arc::new(deferred)), ..self })
    }

    /// Whether a step writes an operand.
    pub(crate) fn writes(&self, operand: usize) -> bool {
        self.written[operand]
    }

    /// The engine whose memory an operand is.
    pub(crate) fn engine_of(&self, number: c_int) -> &EngineRef {
        let other = self.elsewhere.as_ref().filter(|(of, _)| *of == number);
        other.map_or(&self.engine, |(_, engine)| engine)
    }

    /// The position of the operand of that number.
    pub(crate) fn operand(&self, number: c_int) -> Option<usize> {
        self.operands.iter().position(|operand| operand.number == number)
    }

    /// The descriptor that a query asks for; none where the primitive has no such operand.
    pub(crate) fn lent(&self, what: c_int, index: c_int) -> Option<const_dnnl_memory_desc_t> {
        match what {
            query::SCRATCHPAD => self.lent.scratchpad.as_ref().filter(|_| index == 0).map(Embedded::as_ptr),
            query::EXEC_ARG if index == arg::SCRATCHPAD => {
                self.lent.scratchpad.as_ref().map(Embedded::as_ptr)
            }
            query::EXEC_ARG => self.operand(index).map(|i| self.lent.of[i].as_ptr()),
            _ => self
                .operands
                .iter()
                .position(|operand| operand.query == (what, index))
                .map(|i| self.lent.of[i].as_ptr()),
        }
    }
}

/// The places of temporaries in one piece of memory, and its size.
pub(crate) fn arena(temporaries: &[MemoryDesc]) -> (Vec<usize>, usize) {
    let mut end = 0;
    let offsets = temporaries.iter().map(|desc| {
        let offset = end;
        end += desc.size().max(1).next_multiple_of(ALIGNMENT);
        offset
    });
    (offsets.collect(), end)
}

const ALIGNMENT: usize = 256;

/// What every creator of descriptions does: the engine and the attributes come in, the description goes out.
///
/// # Safety
/// The pointers are null, or objects that live and a place to write.
pub(crate) unsafe fn describe(
    function: &'static str,
    out: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    attr: const_dnnl_primitive_attr_t,
    make: impl FnOnce(&mut Recipe, &Attr) -> Outcome<Facts>,
) -> dnnl_status_t {
    boundary::status(function, || {
        let make = || {
            // SAFETY: by contract.
            let (engine, attr) = unsafe { (engine::reference(engine)?, attributes(attr)?) };
            let mut recipe = Recipe::new(engine);
            recipe.stochastic.clone_from(&attr.stochastic);
            let facts = make(&mut recipe, &attr)?;
            recipe.store_rounded()?;
            Described::new(facts, recipe, &attr)
        };
        // SAFETY: by contract.
        unsafe { handle::create_at(out, make) }
    })
}

impl Facts {
    pub(crate) fn new(kind: c_int, prop: dnnl_prop_kind_t) -> Self {
        Self { kind, prop, ..Self::default() }
    }

    pub(crate) fn algorithm(mut self, algorithm: c_int) -> Self {
        self.algorithm = Some(algorithm);
        self
    }

    pub(crate) fn integer(mut self, query: c_int, value: impl Into<i64>) -> Self {
        self.integers.push((query, value.into()));
        self
    }

    pub(crate) fn float(mut self, query: c_int, value: f32) -> Self {
        self.floats.push((query, value));
        self
    }

    pub(crate) fn array(mut self, query: c_int, values: &[i64]) -> Self {
        let mut array = [0; 12];
        for (to, from) in array.iter_mut().zip(values) {
            *to = *from;
        }
        self.arrays.push((query, Arc::new(array)));
        self
    }
}

/// Attributes, which may be null for none.
///
/// # Safety
/// `attr` is null or attributes that live.
pub(crate) unsafe fn attributes(attr: const_dnnl_primitive_attr_t) -> Outcome<Attr> {
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
        let asked = format_args!("{what} with dimensions or strides that are known at execution only");
        return Err(Lack::Unknown.failure(asked));
    }
    Ok(desc)
}

/// A tensor that an operation takes, whose layout may be open.
///
/// # Safety
/// As for [`operand`].
pub(crate) unsafe fn open(desc: const_dnnl_memory_desc_t, what: &str) -> Outcome<MemoryDesc> {
    // SAFETY: by contract.
    let md = unsafe { operand(desc, what) }?;
    tensor(md, what)
}

/// The contract's descriptor of a tensor that an operation takes.
pub(crate) fn tensor(md: &Md, what: &str) -> Outcome<MemoryDesc> {
    if matches!(md.format, Format::Undef) {
        return Err(Failure::invalid(format!("{what} has no layout")));
    }
    md.to_memory_desc()
}

/// A descriptor whose dimensions or strides may be known at execution only.
///
/// # Safety
/// As for [`operand`].
pub(crate) unsafe fn unknown<'a>(desc: const_dnnl_memory_desc_t, what: &str) -> Outcome<&'a Md> {
    if desc.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: by contract.
    unsafe { handle::borrow(desc) }
}

/// A tensor that an operation takes, whose layout must be told.
///
/// # Safety
/// As for [`operand`].
pub(crate) unsafe fn closed(desc: const_dnnl_memory_desc_t, what: &str) -> Outcome<MemoryDesc> {
    // SAFETY: by contract.
    let desc = unsafe { open(desc, what) }?;
    if desc.is_any() { Err(Failure::invalid(format!("{what} leaves its layout open"))) } else { Ok(desc) }
}

/// A tensor that may be absent: null or an empty descriptor.
///
/// # Safety
/// As for [`operand`].
pub(crate) unsafe fn optional(desc: const_dnnl_memory_desc_t, what: &str) -> Outcome<Option<MemoryDesc>> {
    // SAFETY: by contract.
    let given = unsafe { handle::borrow_optional(desc) }?.filter(|md| !matches!(md.format, Format::Undef));
    // SAFETY: by contract.
    given.map(|_| unsafe { open(desc, what) }).transpose()
}

/// Whether a propagation kind is forward; for training or not.
pub(crate) fn is_training(prop: dnnl_prop_kind_t) -> Outcome<bool> {
    match prop {
        dnnl_forward_training => Ok(true),
        dnnl_forward_inference => Ok(false),
        _ => Err(Failure::invalid(format!("{prop} is not a forward propagation kind"))),
    }
}

/// Numbers of a caller's array, one for each spatial dimension; `fallback` for null.
///
/// # Safety
/// `values` is null or holds `count` numbers.
pub(crate) unsafe fn numbers(
    values: *const dnnl_dim_t,
    count: usize,
    what: &str,
    fallback: Option<i64>,
) -> Outcome<Dims> {
    if values.is_null()
        && let Some(value) = fallback
    {
        return Ok(std::iter::repeat_n(value as usize, count).collect());
    }
    // SAFETY: by contract.
    let given = unsafe { handle::slice(values, count, what) }?;
    given
        .iter()
        .map(|&n| usize::try_from(n).ok())
        .collect::<Option<Dims>>()
        .ok_or_else(|| Failure::invalid(format!("{what} is {given:?}, expected numbers from zero on")))
}

/// An axis of a tensor.
pub(crate) fn axis_of(axis: c_int, rank: usize, what: &str) -> Outcome<usize> {
    usize::try_from(axis)
        .ok()
        .filter(|&axis| axis < rank)
        .ok_or_else(|| Failure::invalid(format!("{what} is {axis}, expected less than {rank}")))
}

/// Whether two tensors have the same dimensions.
pub(crate) fn same_dims(a: &MemoryDesc, b: &MemoryDesc, what: &str) -> Outcome {
    if a.dims() == b.dims() {
        return Ok(());
    }
    Err(Failure::invalid(format!("{what} has the dimensions {}, expected {}", b.dims(), a.dims())))
}

//! Engines: the host is one of kind `dnnl_cpu`, any OpenCL device one of kind `dnnl_gpu`.
//!
//! An engine lives until its handle is destroyed and nothing that was made on it is left.

use std::ffi::c_int;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use anydnn::select::AnyEngine;
use anydnn_backend::{DeviceKind, Engine, Error, MemoryKind};
use anydnn_host::HostEngine;
use anydnn_opencl::{OpenClDevice, OpenClEngine};

use crate::boundary::{self, Failure, Outcome};
use crate::cache::Cache;
use crate::handle::{self, Embedded, Handle};
use crate::object_types::{dnnl_cpu, dnnl_engine, dnnl_engine_kind_t, dnnl_engine_t, dnnl_gpu};
use crate::types::dnnl_status_t;
use crate::verbose;

/// The number of engines of a kind: one of kind `dnnl_cpu`, the host; one of kind `dnnl_gpu` for each OpenCL device, of which GPUs come first,
/// then accelerators, then processors.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_engine_get_count(kind: dnnl_engine_kind_t) -> usize {
    boundary::value("dnnl_engine_get_count", 0, || match kind {
        dnnl_cpu => Ok(1),
        dnnl_gpu => Ok(devices()?.len()),
        _ => Ok(0),
    })
}

/// Makes an engine on the host, or on the device of that index in the context that all such engines of a device share.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_engine_create(
    engine: *mut dnnl_engine_t,
    kind: dnnl_engine_kind_t,
    index: usize,
) -> dnnl_status_t {
    boundary::status("dnnl_engine_create", || {
        // SAFETY: the caller passes null or a handle to write.
        unsafe { create_at(engine, || at_index(kind, index)) }
    })
}

/// Tells the kind of an engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_engine_get_kind(
    engine: dnnl_engine_t,
    kind: *mut dnnl_engine_kind_t,
) -> dnnl_status_t {
    boundary::status("dnnl_engine_get_kind", || {
        // SAFETY: the caller passes null or an engine that lives.
        let own = unsafe { handle::borrow(engine) }?.kind();
        // SAFETY: the caller passes null or a place to write.
        unsafe { handle::write(kind, "kind", own) }
    })
}

/// Gives up the handle of an engine; null is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_engine_destroy(engine: dnnl_engine_t) -> dnnl_status_t {
    boundary::status("dnnl_engine_destroy", || {
        // SAFETY: the caller passes null or an engine that lives, and gives it up.
        let Some(object) = (unsafe { handle::borrow_optional(engine) })? else { return Ok(()) };
        let given_up = object.user.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Dropped after the lock: it may be the last reference.
        given_up.map(drop).ok_or_else(|| Failure::invalid("the engine was destroyed before"))
    })
}

/// A counted reference to an engine. The handle that C knows is the address of what it refers to.
pub(crate) type EngineRef = Arc<Embedded<dnnl_engine>>;

/// What is behind an engine's handle.
pub(crate) struct EngineObject {
    pub(crate) engine: AnyEngine,
    /// Ends with the engine, as nothing in it refers to this object.
    pub(crate) cache: Cache,
    me: Weak<Embedded<dnnl_engine>>,
    /// The reference of the handle, until it is destroyed.
    user: Mutex<Option<EngineRef>>,
}

impl Handle for dnnl_engine {
    type Value = EngineObject;
    const TAG: u64 = u64::from_le_bytes(*b"any-engi");
    const NAME: &'static str = "engine";
}

impl EngineObject {
    /// The kind of engine.
    pub(crate) fn kind(&self) -> dnnl_engine_kind_t {
        if self.engine.as_host().is_some() { dnnl_cpu } else { dnnl_gpu }
    }

    /// The engine as one of a device of OpenCL.
    pub(crate) fn opencl(&self) -> Outcome<&OpenClEngine> {
        Ok(opencl(&self.engine)?)
    }

    /// The kind of memory for what the library keeps.
    pub(crate) fn memory_kind(&self) -> MemoryKind {
        self.engine.memory_kinds().first().copied().unwrap_or(MemoryKind::Host)
    }

    /// Whether temporary memory comes from callbacks of the user.
    pub(crate) fn has_user_allocator(&self) -> bool {
        self.engine.as_host().is_some_and(HostEngine::has_user_allocator)
            || self.engine.as_opencl().is_some_and(OpenClEngine::has_user_allocator)
    }

    /// Whether commands of one engine take memory of the other.
    pub(crate) fn shares_memory_with(&self, other: &Self) -> bool {
        match (self.engine.as_opencl(), other.engine.as_opencl()) {
            (Some(own), Some(other)) => own.raw_context() == other.raw_context(),
            (None, None) => true,
            _ => false,
        }
    }
}

/// An engine as one of a device of OpenCL.
pub(crate) fn opencl(engine: &AnyEngine) -> Result<&OpenClEngine, Error> {
    engine.as_opencl().ok_or_else(|| {
        Error::invalid("OpenCL", "the engine", "of kind dnnl_cpu", "one of a device, of kind dnnl_gpu")
    })
}

/// Writes the handle of a new engine to where C wants it.
///
/// # Safety
/// `out` is null or can be written.
pub(crate) unsafe fn create_at(
    out: *mut dnnl_engine_t,
    engine: impl FnOnce() -> Outcome<AnyEngine>,
) -> Outcome {
    if out.is_null() {
        return Err(Failure::null("the engine's place"));
    }
    let engine = engine()?;
    let shared: EngineRef = Arc::new_cyclic(|me| {
        Embedded::new(EngineObject {
            engine,
            cache: Cache::default(),
            me: me.clone(),
            user: Mutex::new(None),
        })
    });
    let handle = raw(&shared);
    *shared.value().user.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&shared));
    // SAFETY: not null, so the caller vouches for it.
    unsafe { handle::write(out, "engine", handle) }
}

/// The engine of that kind and index.
pub(crate) fn at_index(kind: dnnl_engine_kind_t, index: usize) -> Outcome<AnyEngine> {
    let missing = |count: usize| {
        Failure::invalid(format!("there is no engine {index} of kind {kind}: {count} are there"))
    };
    match kind {
        dnnl_cpu if index == 0 => Ok(HOST.clone().into()),
        dnnl_cpu => Err(missing(1)),
        dnnl_gpu => {
            let devices = devices()?;
            let device = devices.get(index).ok_or_else(|| missing(devices.len()))?;
            Ok(shared_context(device)?.into())
        }
        _ => Err(missing(0)),
    }
}

/// The host: all engines of kind `dnnl_cpu` are this one, but for those with an allocator.
static HOST: LazyLock<HostEngine> = LazyLock::new(HostEngine::new);

/// A new engine in the library's context of a device. The context stays to the end of the process, so that memory of it can be used when
/// the engines that it was made with have ended.
fn shared_context(device: &OpenClDevice) -> Outcome<OpenClEngine> {
    let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let raw = device.raw_device();
    if let Some(first) = contexts.iter().find(|engine| engine.raw_device() == raw) {
        // SAFETY: the kept engine holds both.
        return Ok(unsafe { OpenClEngine::from_raw(first.raw_device(), first.raw_context()) }?);
    }
    let first = OpenClEngine::on_device(device)?;
    // SAFETY: the engine holds both.
    let engine = unsafe { OpenClEngine::from_raw(first.raw_device(), first.raw_context()) }?;
    if contexts.is_empty() {
        // Registered after OpenCL was loaded, it runs before OpenCL ends. Where there is no room for it, contexts end with the process.
        atexit(release_contexts);
    }
    contexts.push(first);
    Ok(engine)
}

/// An engine for each device that an engine was asked of by its index; it holds the context.
static CONTEXTS: Mutex<Vec<OpenClEngine>> = Mutex::new(Vec::new());

unsafe extern "C" {
    safe fn atexit(function: extern "C" fn()) -> c_int;
}

extern "C" fn release_contexts() {
    let contexts = CONTEXTS.try_lock().map(|mut contexts| std::mem::take(&mut *contexts));
    // Nothing may unwind out of here.
    std::mem::forget(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(contexts))));
}

/// A reference to the engine behind a handle.
///
/// # Safety
/// `engine` is null or an engine that lives.
pub(crate) unsafe fn reference(engine: dnnl_engine_t) -> Outcome<EngineRef> {
    // SAFETY: as the caller vouches.
    let object = unsafe { handle::borrow(engine) }?;
    verbose::name_engine(object.kind());
    object.me.upgrade().ok_or_else(|| Failure::invalid("the engine is being destroyed"))
}

/// The handle of an engine.
pub(crate) fn raw(engine: &EngineRef) -> dnnl_engine_t {
    engine.as_ptr().cast_mut()
}

/// Whether devices of a kind may be engines: with `ANYDNN_STRICT_GPU=1` GPUs alone, as programs may rely on.
pub(crate) fn accepts(device: &OpenClDevice) -> bool {
    device.kind() == DeviceKind::Gpu || std::env::var_os("ANYDNN_STRICT_GPU").is_none_or(|value| value != "1")
}

/// The devices that engines of kind `dnnl_gpu` can be made on, in the order of their indices.
fn devices() -> Outcome<Vec<OpenClDevice>> {
    let mut devices = anydnn_opencl::devices()?;
    devices.retain(accepts);
    devices.sort_by_key(|device| match device.kind() {
        DeviceKind::Gpu => 0,
        DeviceKind::Accelerator => 1,
        DeviceKind::Cpu => 2,
        DeviceKind::Other => 3,
    });
    Ok(devices)
}

//! Engines: any OpenCL device is one of kind `dnnl_gpu`.
//!
//! An engine lives until its handle is destroyed and nothing that was made on it is left.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anydnn_backend::DeviceKind;
use anydnn_opencl::{OpenClDevice, OpenClEngine};

use crate::boundary::{self, Failure, Outcome};
use crate::cache::Cache;
use crate::handle::{self, Embedded, Handle};
use crate::object_types::{dnnl_engine, dnnl_engine_kind_t, dnnl_engine_t, dnnl_gpu};
use crate::types::dnnl_status_t;

/// The number of engines of a kind; none but `dnnl_gpu`. GPUs come first, then accelerators, then processors.
#[unsafe(no_mangle)]
pub extern "C" fn dnnl_engine_get_count(kind: dnnl_engine_kind_t) -> usize {
    boundary::value("dnnl_engine_get_count", 0, || Ok(devices(kind)?.len()))
}

/// Makes an engine on the device of that index, in the context that all such engines of a device share.
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
        unsafe { handle::borrow(engine) }?;
        // SAFETY: the caller passes null or a place to write.
        unsafe { handle::write(kind, "kind", dnnl_gpu) }
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
    pub(crate) engine: OpenClEngine,
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

/// Writes the handle of a new engine to where C wants it.
///
/// # Safety
/// `out` is null or can be written.
pub(crate) unsafe fn create_at(
    out: *mut dnnl_engine_t,
    engine: impl FnOnce() -> Outcome<OpenClEngine>,
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

/// An engine on the device of that index.
pub(crate) fn at_index(kind: dnnl_engine_kind_t, index: usize) -> Outcome<OpenClEngine> {
    let devices = devices(kind)?;
    let device = devices.get(index).ok_or_else(|| {
        let count = devices.len();
        Failure::invalid(format!("there is no engine {index} of kind {kind}: {count} are there"))
    })?;
    shared_context(device)
}

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

/// The devices that engines of a kind can be made on, in the order of their indices.
fn devices(kind: dnnl_engine_kind_t) -> Outcome<Vec<OpenClDevice>> {
    if kind != dnnl_gpu {
        return Ok(Vec::new());
    }
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

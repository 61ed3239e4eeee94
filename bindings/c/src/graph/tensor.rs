//! Tensors: logical tensors with bytes on a device, or with one value on the host.

use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anydnn::graph::{LogicalTensor, Property};
use anydnn::partition::Argument;
use anydnn::select::{AnyBackend, AnyEngine, AnyMemory};
use anydnn_backend::{Engine, EngineId, HostScalar, Memory, MemoryDesc};

use super::logical_tensor::{from_tensor, read, to_tensor};
use super::types::*;
use crate::boundary::{self, Failure, Outcome};
use crate::engine::{self, EngineObject, EngineRef};
use crate::handle::{self, Handle};
use crate::memory::{HandleKind, Storage};
use crate::object_types::{DNNL_MEMORY_ALLOCATE, cl_mem, dnnl_engine_t, dnnl_ocl_interop_buffer};
use crate::types::dnnl_status_t;

/// Makes a tensor at an address that the engine can read, `DNNL_MEMORY_ALLOCATE` for memory of the engine's allocator, or
/// `DNNL_MEMORY_NONE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_tensor_create(
    tensor: *mut dnnl_graph_tensor_t,
    logical_tensor: *const dnnl_graph_logical_tensor_t,
    engine: dnnl_engine_t,
    handle: *mut c_void,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_tensor_create", || {
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe {
            create(tensor, logical_tensor, engine, handle, |engine| Ok(HandleKind::of_addresses(engine)))
        }
    })
}

/// Makes a tensor of a buffer object; oneDNN has no such tensors. The buffer object is retained.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anydnn_graph_tensor_create_with_mem_object(
    tensor: *mut dnnl_graph_tensor_t,
    logical_tensor: *const dnnl_graph_logical_tensor_t,
    engine: dnnl_engine_t,
    mem_object: cl_mem,
) -> dnnl_status_t {
    boundary::status("anydnn_graph_tensor_create_with_mem_object", || {
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe {
            create(tensor, logical_tensor, engine, mem_object.cast(), |engine| {
                HandleKind::new(engine, dnnl_ocl_interop_buffer)
            })
        }
    })
}

/// Makes a tensor of one value on the host, which is copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_tensor_create_scalar(
    tensor: *mut dnnl_graph_tensor_t,
    logical_tensor: *const dnnl_graph_logical_tensor_t,
    handle: *mut c_void,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_tensor_create_scalar", || {
        let make = || {
            // SAFETY: the caller passes null or a logical tensor.
            let described = to_tensor(&unsafe { read(logical_tensor) }?)?;
            if described.property != Property::HostScalar {
                return Err(Failure::invalid("the logical tensor is no host scalar"));
            }
            if handle.is_null() || handle == DNNL_MEMORY_ALLOCATE {
                return Err(Failure::null("the value of a host scalar"));
            }
            let data_type = described.data_type.ok_or_else(|| Failure::invalid("the value has no type"))?;
            // SAFETY: the caller passes a value of the type.
            let bytes = unsafe { handle::slice(handle.cast::<u8>(), data_type.bits() / 8, "value") }?;
            let value = HostScalar::from_bytes(data_type, bytes)?;
            let state = Mutex::new(State::Scalar(Box::new((value, word(&value)))));
            Ok(TensorObject { described, engine: None, state })
        };
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(tensor, make) }
    })
}

/// Ends a tensor; null is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_tensor_destroy(tensor: dnnl_graph_tensor_t) -> dnnl_status_t {
    boundary::status("dnnl_graph_tensor_destroy", || {
        // SAFETY: the caller passes null or a tensor that lives, and gives it up.
        unsafe { handle::destroy(tensor) }
    })
}

/// Tells the address of a tensor's bytes, its buffer object, or where a value on the host is kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_tensor_get_data_handle(
    tensor: const_dnnl_graph_tensor_t,
    handle: *mut *mut c_void,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_tensor_get_data_handle", || {
        // SAFETY: the caller passes null or a tensor that lives.
        let tensor = unsafe { handle::borrow(tensor) }?;
        let address = match &*tensor.lock() {
            State::Device(bytes) => bytes.storage.handle(),
            State::Scalar(value) => (&raw const value.1).cast_mut().cast(),
        };
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::write(handle, "handle", address) }
    })
}

/// Sets the address of a tensor's bytes, or its buffer object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_tensor_set_data_handle(
    tensor: dnnl_graph_tensor_t,
    handle: *mut c_void,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_tensor_set_data_handle", || {
        // SAFETY: the caller passes null or a tensor that lives.
        let tensor = unsafe { handle::borrow(tensor) }?;
        match &mut *tensor.lock() {
            State::Scalar(_) => Err(Failure::invalid("the tensor is a value on the host")),
            State::Device(bytes) => {
                // SAFETY: the caller passes an address or a buffer object that lives.
                let storage = unsafe { Storage::user(bytes.kind, handle) }?;
                **bytes = Bytes { kind: bytes.kind, storage, seen: None };
                Ok(())
            }
        }
    })
}

/// Tells the engine of a tensor; null for a value on the host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_tensor_get_engine(
    tensor: const_dnnl_graph_tensor_t,
    engine: *mut dnnl_engine_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_tensor_get_engine", || {
        // SAFETY: the caller passes null or a tensor that lives.
        let tensor = unsafe { handle::borrow(tensor) }?;
        let own = tensor.engine.as_ref().map_or(ptr::null_mut(), engine::raw);
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::write(engine, "engine", own) }
    })
}

/// Tells the logical tensor of a tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_tensor_get_logical_tensor(
    tensor: const_dnnl_graph_tensor_t,
    logical_tensor: *mut dnnl_graph_logical_tensor_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_tensor_get_logical_tensor", || {
        // SAFETY: the caller passes null or a tensor that lives.
        let described = from_tensor(&unsafe { handle::borrow(tensor) }?.described)?;
        // SAFETY: the caller passes null or a logical tensor to write.
        unsafe { handle::write(logical_tensor, "logical_tensor", described) }
    })
}

/// What is behind a tensor's handle. The state is dropped before the engine.
pub(crate) struct TensorObject {
    pub(super) described: LogicalTensor,
    state: Mutex<State>,
    engine: Option<EngineRef>,
}

enum State {
    Device(Box<Bytes>),
    /// The value, and its bytes where C may read them.
    Scalar(Box<(HostScalar, [u8; 8])>),
}

/// Bytes on a device.
struct Bytes {
    kind: HandleKind,
    storage: Storage,
    /// The bytes as memory of an engine, kept so that caches know them again.
    seen: Option<(EngineId, usize, AnyMemory)>,
}

impl Handle for dnnl_graph_tensor {
    type Value = TensorObject;
    const TAG: u64 = u64::from_le_bytes(*b"any-gten");
    const NAME: &'static str = "tensor";
}

impl TensorObject {
    /// The tensor as an input of an execution.
    ///
    /// # Safety
    /// The bytes live until the commands that use them have ended.
    pub(super) unsafe fn argument(
        &self,
        engine: &AnyEngine,
        desc: &MemoryDesc,
    ) -> Outcome<Argument<AnyBackend>> {
        if let State::Scalar(value) = &*self.lock() {
            return Ok(Argument::Scalar(value.0));
        }
        // SAFETY: by contract.
        Ok(Argument::Memory(unsafe { self.memory(engine, desc) }?))
    }

    /// The tensor's bytes with the meaning that an execution gives them.
    ///
    /// # Safety
    /// As for [`TensorObject::argument`].
    pub(super) unsafe fn memory(&self, engine: &AnyEngine, desc: &MemoryDesc) -> Outcome<AnyMemory> {
        let id = self.described.id;
        let mut state = self.lock();
        let State::Device(bytes) = &mut *state else {
            return Err(Failure::invalid(format!("tensor {id} is a value on the host")));
        };
        let needed = desc.size();
        if matches!(bytes.storage, Storage::Nothing) && needed > 0 {
            return Err(Failure::invalid(format!("tensor {id} has no bytes, expected {needed}")));
        }
        let known = bytes.seen.as_ref().filter(|(of, had, _)| *of == engine.id() && *had >= needed);
        let memory = if let Some((_, _, memory)) = known {
            memory.clone()
        } else {
            // SAFETY: by contract.
            let memory = unsafe { bytes.storage.memory(engine, || needed) }?;
            bytes.seen = Some((engine.id(), needed, memory.clone()));
            memory
        };
        let given = memory.region().bytes;
        if given < needed {
            return Err(Failure::invalid(format!("tensor {id} has {given} bytes, expected {needed}")));
        }
        Ok(memory.view(desc, 0)?)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// # Safety
/// The pointers are null, or objects that live and a place to write; `handle` is special or of its kind.
unsafe fn create(
    out: *mut dnnl_graph_tensor_t,
    logical_tensor: *const dnnl_graph_logical_tensor_t,
    engine: dnnl_engine_t,
    handle: *mut c_void,
    kind: impl FnOnce(&EngineObject) -> Outcome<HandleKind>,
) -> Outcome {
    let make = || {
        // SAFETY: by contract.
        let (described, engine) = unsafe { (to_tensor(&read(logical_tensor)?)?, engine::reference(engine)?) };
        if described.property == Property::HostScalar {
            return Err(Failure::invalid("a host scalar is made by dnnl_graph_tensor_create_scalar"));
        }
        let (kind, own) = (kind(engine.value())?, &engine.value().engine);
        let storage = if handle == DNNL_MEMORY_ALLOCATE {
            let desc = described.memory_desc()?;
            if engine.value().has_user_allocator() && desc.size() > 0 {
                Storage::Library(Box::new(own.allocator().allocate(desc.size(), 0)?))
            } else {
                // SAFETY: an order to allocate.
                unsafe { Storage::create(own, kind, handle, desc.size()) }?
            }
        } else {
            // SAFETY: by contract.
            unsafe { Storage::user(kind, handle) }?
        };
        let state = Mutex::new(State::Device(Box::new(Bytes { kind, storage, seen: None })));
        Ok(TensorObject { described, state, engine: Some(engine) })
    };
    // SAFETY: by contract.
    unsafe { handle::create_at(out, make) }
}

fn word(value: &HostScalar) -> [u8; 8] {
    let mut word = [0; 8];
    let bytes = value.bytes();
    word[..bytes.len()].copy_from_slice(bytes);
    word
}

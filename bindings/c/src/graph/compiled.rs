//! Compiled partitions and their executions.

use std::ffi::c_int;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anydnn::graph::{LogicalTensor, Property, TensorId, TensorLayout};
use anydnn::partition::{CompiledPartition, PartitionOptions};
use anydnn::select::AnyBackend;
use anydnn_backend::{DataType, Dims, MemoryDesc};

use super::caches::constants;
use super::logical_tensor::{from_tensor, read_all, zeroed};
use super::partition::PartitionObject;
use super::tensor::TensorObject;
use super::types::*;
use crate::boundary::{self, Failure, Outcome};
use crate::engine::{self, EngineRef};
use crate::handle::{self, Handle};
use crate::interop::{events, give_event};
use crate::object_types::{cl_event, dnnl_engine_t, dnnl_stream_t};
use crate::settings;
use crate::types::dnnl_status_t;

/// Makes a compiled partition that is still to be compiled, by [`dnnl_graph_partition_compile`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_compiled_partition_create(
    compiled_partition: *mut dnnl_graph_compiled_partition_t,
    partition: dnnl_graph_partition_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_compiled_partition_create", || {
        let make = || {
            // SAFETY: the caller passes null or a partition that lives.
            let partition = unsafe { handle::borrow(partition) }?.clone();
            Ok(CompiledObject { partition, state: Mutex::new(None) })
        };
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(compiled_partition, make) }
    })
}

/// Compiles a partition for an engine, with what is known of its tensors by now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_partition_compile(
    partition: dnnl_graph_partition_t,
    compiled_partition: dnnl_graph_compiled_partition_t,
    in_num: usize,
    inputs: *mut *const dnnl_graph_logical_tensor_t,
    out_num: usize,
    outputs: *mut *const dnnl_graph_logical_tensor_t,
    engine: dnnl_engine_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_partition_compile", || {
        // SAFETY: the caller passes null or objects that live.
        let (partition, object, engine) = unsafe {
            (handle::borrow(partition)?, handle::borrow(compiled_partition)?, engine::reference(engine)?)
        };
        if partition.partition.id() != object.partition.partition.id() {
            return Err(Failure::invalid("the compiled partition was made for another partition"));
        }
        let kind = engine.value().kind();
        if partition.kind != kind {
            let message =
                format!("the partition is for engines of kind {}, given one of {kind}", partition.kind);
            return Err(Failure::invalid(message));
        }
        // SAFETY: the caller passes null or so many logical tensors.
        let (inputs, outputs) =
            unsafe { (read_all(inputs, in_num, "inputs")?, read_all(outputs, out_num, "outputs")?) };
        let own = &engine.value().engine;
        if let Some(why) = partition.partition.why_unsupported() {
            return Err(Failure::invalid(format!("the partition is not supported: {why}")));
        }
        let options = PartitionOptions {
            specialize: settings::specialize(),
            constants: Some(constants(kind)),
            ..PartitionOptions::shared()
        };
        let compiled = partition.partition.compile(own, &inputs, &outputs, &options)?;
        let pair = |(input, output): &(TensorId, TensorId)| dnnl_graph_inplace_pair_t {
            input_id: input.0 as usize,
            output_id: output.0 as usize,
        };
        let pairs = compiled.in_place_pairs().iter().map(pair).collect();
        *object.lock() = Some(Arc::new(State { compiled, pairs, engine }));
        Ok(())
    })
}

/// Ends a compiled partition; null is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_compiled_partition_destroy(
    compiled_partition: dnnl_graph_compiled_partition_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_compiled_partition_destroy", || {
        // SAFETY: the caller passes null or a compiled partition that lives, and gives it up.
        unsafe { handle::destroy(compiled_partition) }
    })
}

/// Tells a tensor with the shape and layout that compiling has found. One that the partition does not have is all zeros.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_compiled_partition_query_logical_tensor(
    compiled_partition: const_dnnl_graph_compiled_partition_t,
    tid: usize,
    lt: *mut dnnl_graph_logical_tensor_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_compiled_partition_query_logical_tensor", || {
        // SAFETY: the caller passes null or a compiled partition that lives.
        let state = unsafe { handle::borrow(compiled_partition) }?.compiled()?;
        let found = state.compiled.logical_tensor(TensorId(tid as u64));
        let tensor = found.map_or_else(|| Ok(zeroed()), from_tensor)?;
        // SAFETY: the caller passes null or a logical tensor to write.
        unsafe { handle::write(lt, "lt", tensor) }
    })
}

/// Lends the pairs of tensors that may share memory, until the partition is compiled anew or the compiled partition ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_compiled_partition_get_inplace_ports(
    compiled_partition: const_dnnl_graph_compiled_partition_t,
    num_inplace_pairs: *mut usize,
    inplace_pairs: *mut *const dnnl_graph_inplace_pair_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_compiled_partition_get_inplace_ports", || {
        // SAFETY: the caller passes null or a compiled partition that lives.
        let state = unsafe { handle::borrow(compiled_partition) }?.compiled()?;
        if num_inplace_pairs.is_null() || inplace_pairs.is_null() {
            return Err(Failure::null("num_inplace_pairs or inplace_pairs"));
        }
        let first = if state.pairs.is_empty() { ptr::null() } else { state.pairs.as_ptr() };
        // SAFETY: not null, so the caller vouches for both.
        unsafe {
            num_inplace_pairs.write_unaligned(state.pairs.len());
            inplace_pairs.write_unaligned(first);
        }
        Ok(())
    })
}

/// Describes the working memory that an execution may be given: a vector of bytes whose identity is the largest number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_compiled_partition_get_scratchpad_logical_tensor(
    compiled_partition: const_dnnl_graph_compiled_partition_t,
    lt: *mut dnnl_graph_logical_tensor_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_compiled_partition_get_scratchpad_logical_tensor", || {
        // SAFETY: the caller passes null or a compiled partition that lives.
        let state = unsafe { handle::borrow(compiled_partition) }?.compiled()?;
        let bytes = state.compiled.scratchpad_size();
        let mut tensor = LogicalTensor::new(TensorId(u64::MAX), DataType::U8, Dims::from([bytes]));
        tensor.layout = TensorLayout::Strided(vec![Some(1)]);
        // SAFETY: the caller passes null or a logical tensor to write.
        unsafe { handle::write(lt, "lt", from_tensor(&tensor)?) }
    })
}

/// Enqueues a compiled partition. On an out-of-order stream nothing orders it with what was enqueued before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_compiled_partition_execute(
    compiled_partition: const_dnnl_graph_compiled_partition_t,
    stream: dnnl_stream_t,
    num_inputs: usize,
    inputs: *mut const_dnnl_graph_tensor_t,
    num_outputs: usize,
    outputs: *mut const_dnnl_graph_tensor_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_compiled_partition_execute", || {
        let given = Given { num_inputs, inputs, num_outputs, outputs, scratchpad: ptr::null() };
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { execute(compiled_partition, stream, &given, None) }
    })
}

/// Enqueues a compiled partition with working memory of the caller's, which may be null for the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_compiled_partition_execute_v2(
    compiled_partition: const_dnnl_graph_compiled_partition_t,
    stream: dnnl_stream_t,
    num_inputs: usize,
    inputs: *mut const_dnnl_graph_tensor_t,
    num_outputs: usize,
    outputs: *mut const_dnnl_graph_tensor_t,
    scratchpad: const_dnnl_graph_tensor_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_compiled_partition_execute_v2", || {
        let given = Given { num_inputs, inputs, num_outputs, outputs, scratchpad };
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe { execute(compiled_partition, stream, &given, None) }
    })
}

/// Enqueues a compiled partition after `deps`. `return_event` becomes null on an in-order stream, else an event with one reference for
/// the caller; on failures nothing is written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_ocl_interop_compiled_partition_execute(
    compiled_partition: const_dnnl_graph_compiled_partition_t,
    stream: dnnl_stream_t,
    num_inputs: usize,
    inputs: *mut const_dnnl_graph_tensor_t,
    num_outputs: usize,
    outputs: *mut const_dnnl_graph_tensor_t,
    deps: *const cl_event,
    ndeps: c_int,
    return_event: *mut cl_event,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_ocl_interop_compiled_partition_execute", || {
        let given = Given { num_inputs, inputs, num_outputs, outputs, scratchpad: ptr::null() };
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe {
            let deps = Deps { events: deps, count: ndeps, return_event };
            execute(compiled_partition, stream, &given, Some(deps))
        }
    })
}

/// Enqueues a compiled partition after `deps`, with working memory of the caller's; see
/// [`dnnl_graph_ocl_interop_compiled_partition_execute`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_ocl_interop_compiled_partition_execute_v2(
    compiled_partition: const_dnnl_graph_compiled_partition_t,
    stream: dnnl_stream_t,
    num_inputs: usize,
    inputs: *mut const_dnnl_graph_tensor_t,
    num_outputs: usize,
    outputs: *mut const_dnnl_graph_tensor_t,
    scratchpad: const_dnnl_graph_tensor_t,
    deps: *const cl_event,
    ndeps: c_int,
    return_event: *mut cl_event,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_ocl_interop_compiled_partition_execute_v2", || {
        let given = Given { num_inputs, inputs, num_outputs, outputs, scratchpad };
        // SAFETY: the caller's pointers are null or as the API says.
        unsafe {
            let deps = Deps { events: deps, count: ndeps, return_event };
            execute(compiled_partition, stream, &given, Some(deps))
        }
    })
}

/// What is behind a compiled partition's handle.
pub(crate) struct CompiledObject {
    partition: PartitionObject,
    state: Mutex<Option<Arc<State>>>,
}

/// What compiling gave. Dropped before the engine.
struct State {
    compiled: CompiledPartition<AnyBackend>,
    pairs: Vec<dnnl_graph_inplace_pair_t>,
    engine: EngineRef,
}

impl Handle for dnnl_graph_compiled_partition {
    type Value = CompiledObject;
    const TAG: u64 = u64::from_le_bytes(*b"any-cprt");
    const NAME: &'static str = "compiled partition";
}

impl CompiledObject {
    fn compiled(&self) -> Outcome<Arc<State>> {
        self.lock().clone().ok_or_else(|| Failure::invalid("the partition has not been compiled"))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<State>>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tensors of an execution.
struct Given {
    num_inputs: usize,
    inputs: *mut const_dnnl_graph_tensor_t,
    num_outputs: usize,
    outputs: *mut const_dnnl_graph_tensor_t,
    scratchpad: const_dnnl_graph_tensor_t,
}

/// What an execution on a stream of a device waits for, and where its event goes.
#[derive(Clone, Copy)]
struct Deps {
    events: *const cl_event,
    count: c_int,
    return_event: *mut cl_event,
}

/// # Safety
/// The pointers are null, or objects that live and as many as the counts say; the bytes of the tensors live until the commands that use
/// them have ended.
unsafe fn execute(
    compiled_partition: const_dnnl_graph_compiled_partition_t,
    stream: dnnl_stream_t,
    given: &Given,
    deps: Option<Deps>,
) -> Outcome {
    // SAFETY: by contract.
    let (object, stream) = unsafe { (handle::borrow(compiled_partition)?, handle::borrow(stream)?) };
    if given.inputs.is_null() && given.num_inputs > 0 || given.outputs.is_null() {
        return Err(Failure::null("inputs or outputs"));
    }
    let negative = deps.filter(|deps| !deps.events.is_null() && deps.count < 0);
    if let Some(Deps { count, .. }) = negative {
        return Err(Failure::invalid(format!("ndeps is {count}")));
    }
    // SAFETY: by contract.
    let waits = deps.map(|deps| unsafe { events(stream, deps.events, deps.count) }).transpose()?;
    let state = object.compiled()?;
    let (compiled, engine) = (&state.compiled, &state.engine.value().engine);
    // SAFETY: by contract.
    let (inputs, outputs) = unsafe {
        (
            tensors(compiled, given.inputs, given.num_inputs, "inputs")?,
            tensors(compiled, given.outputs, given.num_outputs, "outputs")?,
        )
    };
    // SAFETY: by contract.
    let inputs = inputs
        .into_iter()
        .map(|(tensor, desc)| Ok((tensor.described.id, unsafe { tensor.argument(engine, desc) }?)))
        .collect::<Outcome<Vec<_>>>()?;
    // SAFETY: by contract.
    let outputs = outputs
        .into_iter()
        .map(|(tensor, desc)| Ok((tensor.described.id, unsafe { tensor.memory(engine, desc) }?)))
        .collect::<Outcome<Vec<_>>>()?;
    // SAFETY: by contract.
    let scratchpad = unsafe { handle::borrow_optional(given.scratchpad) }?
        .map(|tensor| {
            let desc = MemoryDesc::new([compiled.scratchpad_size()], DataType::U8);
            // SAFETY: by contract.
            unsafe { tensor.memory(engine, &desc) }
        })
        .transpose()?;
    let waits = waits.unwrap_or_default();
    let event = compiled.execute(&stream.stream, &inputs, &outputs, scratchpad.as_ref(), &waits)?;
    let out = deps.map_or(ptr::null_mut(), |deps| deps.return_event);
    // SAFETY: by contract.
    unsafe { give_event(stream, event, out) }
}

/// The tensors of the partition among those given, with the descriptors that they are bound with. Others are for other partitions.
///
/// # Safety
/// `given` is null or so many handles, each null or a tensor that lives for `'a`.
unsafe fn tensors<'a>(
    compiled: &'a CompiledPartition<AnyBackend>,
    given: *mut const_dnnl_graph_tensor_t,
    count: usize,
    what: &str,
) -> Outcome<Vec<(&'a TensorObject, &'a MemoryDesc)>> {
    // SAFETY: by contract.
    let handles = unsafe { handle::slice(given.cast_const(), count, what) }?;
    let mut bound: Vec<(&TensorObject, &MemoryDesc)> = Vec::with_capacity(count);
    for &handle in handles {
        // SAFETY: by contract.
        let tensor = unsafe { handle::borrow(handle) }?;
        let id = tensor.described.id;
        let repeated = bound.iter().any(|(other, _)| other.described.id == id);
        let Some(desc) = compiled.memory_desc(id).filter(|_| !repeated) else { continue };
        check_layout(&tensor.described, desc)?;
        bound.push((tensor, desc));
    }
    Ok(bound)
}

/// A tensor that says how its bytes lie must say what the compiled partition found.
fn check_layout(tensor: &LogicalTensor, desc: &MemoryDesc) -> Outcome {
    let told = matches!(tensor.layout, TensorLayout::Strided(_) | TensorLayout::Opaque(_));
    if !told || tensor.property == Property::HostScalar {
        return Ok(());
    }
    let own = tensor.memory_desc()?;
    // Strides of dimensions of one element mean nothing, and unknown shapes were settled when the partition was compiled.
    if own.same_bytes(desc)
        || (own.dims() == desc.dims()
            && own.to_row_major().same_bytes(&desc.to_row_major())
            && own.is_row_major()
            && desc.is_row_major())
    {
        return Ok(());
    }
    Err(Failure::invalid(format!("tensor {} is {own}, expected {desc}", tensor.id)))
}

//! Runs on arrays where they are, for processors that read any memory of the process, and what earlier runs of the same shapes tell.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anydnn::backend::{
    DeviceKind, Engine, Event, Memory, MemoryDesc, MemoryKind, Result, Stream, StreamDesc,
};
use anydnn::model::HostTensor;
use anydnn::onnx::{Cancel, Session};
use anydnn::select::{AnyBackend, AnyEngine, AnyMemory, AnyStream};
use anydnn_host::HostMemory;
use anydnn_opencl::OpenClMemory;

use crate::parked;

/// Runs that take no longer are waited for on the spot.
const SHORT: Duration = Duration::from_millis(10);
/// Combinations of shapes that are remembered.
const MOST: usize = 1024;

/// What earlier runs tell, by the shapes of their inputs.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    seen: Mutex<HashMap<u64, Seen>>,
    streams: Mutex<Vec<AnyStream>>,
}

/// What the last run with some shapes tells.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Whether it took a moment only.
    pub(crate) is_short: bool,
    /// The outputs, with their names as labels.
    outputs: Arc<[MemoryDesc]>,
}

impl Runs {
    pub(crate) fn seen(&self, key: u64) -> Option<Seen> {
        lock(&self.seen).get(&key).cloned()
    }

    pub(crate) fn note(&self, key: u64, took: Duration, outputs: &[HostTensor]) {
        let is_short = took <= SHORT;
        let mut seen = lock(&self.seen);
        if let Some(known) = seen.get_mut(&key) {
            known.is_short = is_short;
            if !known.outputs.iter().eq(outputs.iter().map(HostTensor::desc)) {
                known.outputs = descs(outputs);
            }
            return;
        }
        if seen.len() >= MOST {
            seen.clear();
        }
        seen.insert(key, Seen { is_short, outputs: descs(outputs) });
    }

    /// Does something on a stream that nothing else uses meanwhile.
    fn with_stream<T>(&self, engine: &AnyEngine, work: impl FnOnce(&AnyStream) -> Result<T>) -> Result<T> {
        let idle = lock(&self.streams).pop();
        let stream = match idle {
            Some(stream) => stream,
            None => engine.create_stream(&StreamDesc::default().labelled("session in place"))?,
        };
        let made = work(&stream);
        match &made {
            Ok(_) => lock(&self.streams).push(stream),
            // Nothing may use the arrays any more.
            Err(_) => drop(stream.wait()),
        }
        made
    }
}

/// A number for the shapes of inputs.
pub(crate) fn key(inputs: &[(String, HostTensor)]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (name, tensor) in inputs {
        (name, tensor.data_type(), &tensor.dims()[..]).hash(&mut hasher);
    }
    hasher.finish()
}

/// Whether a device reads any memory of the process as fast as its own, which processors do.
pub(crate) fn fits(engine: &AnyEngine) -> bool {
    engine.device().kind == DeviceKind::Cpu && engine.memory_kinds().contains(&MemoryKind::System)
}

/// Runs on the bytes of the inputs, and writes outputs, which are as `seen` says, where they stay.
///
/// # Errors
/// As [`Session::run_in_place`], also where an output turns out to be larger.
pub(crate) fn run(
    runs: &Runs,
    session: &Session<AnyBackend>,
    inputs: &[(String, HostTensor)],
    seen: &Seen,
    cancel: &Cancel,
) -> Result<Vec<HostTensor>> {
    let engine = session.engine();
    let mut rooms = seen.outputs.iter().map(|desc| parked::take(desc.size())).collect::<Result<Vec<_>>>()?;
    let made = runs.with_stream(engine, |stream| {
        // SAFETY: the tensors live until the end, which this waits for, and a session only reads its inputs.
        let memory = |tensor: &HostTensor| unsafe {
            memory_at(engine, tensor.desc(), tensor.bytes().as_ptr().cast_mut())
        };
        let given = inputs.iter().map(|(name, tensor)| Ok((name.as_str(), tensor.clone(), memory(tensor)?)));
        let given = given.collect::<Result<Vec<_>>>()?;
        let targets = seen.outputs.iter().zip(&mut rooms).map(|(desc, room)| {
            // SAFETY: the bytes live until the end, and nothing else uses them.
            let memory = unsafe { memory_at(engine, desc, room.as_mut_ptr()) }?;
            Ok((desc.label().unwrap_or_default(), memory))
        });
        let targets = targets.collect::<Result<Vec<_>>>()?;
        let (made, end) = session.run_in_place(stream, &given, &targets, cancel)?;
        end.wait()?;
        Ok(made.into_iter().map(|(name, memory)| memory.desc().clone().labelled(&name)).collect::<Vec<_>>())
    })?;
    let mut outputs = Vec::with_capacity(made.len());
    for (desc, mut room) in made.into_iter().zip(rooms) {
        room.truncate(desc.size());
        outputs.push(HostTensor::new(desc, room)?);
    }
    Ok(outputs)
}

fn descs(outputs: &[HostTensor]) -> Arc<[MemoryDesc]> {
    outputs.iter().map(|tensor| tensor.desc().clone()).collect()
}

/// Memory of a device at an address of the host.
///
/// # Safety
/// - As many bytes as the descriptor has stay there, which nobody else touches while a command does.
unsafe fn memory_at(engine: &AnyEngine, desc: &MemoryDesc, address: *mut u8) -> Result<AnyMemory> {
    if let Some(host) = engine.as_host() {
        // SAFETY: by contract.
        return unsafe { HostMemory::from_pointer(host, desc, address.cast()) }.map(Into::into);
    }
    let Some(opencl) = engine.as_opencl() else {
        return Err(anydnn::backend::Error::unsupported("run in place", "the backend has no addresses"));
    };
    // SAFETY: by contract; the device reads any memory of the process.
    let memory = unsafe { OpenClMemory::from_pointer(opencl, desc, address.cast()) };
    memory.map(Into::into)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

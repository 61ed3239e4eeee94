//! A graph of a model with the plans that were compiled for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Instant;

use anydnn_backend::{Backend, DataType, Dims, Engine, Error, Event, Memory, Result, ResultExt, Stream};
use rustc_hash::FxHashMap;

use super::hosted::HostedBody;
use super::slot::Slot;
use super::{Inner, SessionOptions, lock, memory_kind};
use crate::compile::{CompileOptions, CompiledGraph};
use crate::execute::{Executable, PreparedConstants, Sharing};
use crate::graph::TensorId;
use crate::model::HostTensor;
use crate::onnx::constant::Constant;
use crate::onnx::files::ExternalData;
use crate::onnx::import::{self, Have, Request, Stage};
use crate::onnx::program::{Program, StepKind, ValueId};
use crate::onnx::tensor::host_tensor;

/// Plans that differ only in the elements that they were made for; beyond these the host computes what asks for elements.
const VARIANTS: usize = 8;
/// Signatures of which it is remembered what elements plans were made for.
const SIGNATURES: usize = 64;

/// The plans that a new one is compared with, those used last: where one of them has the same operations, its partitions are the new one's.
const ALIKE: usize = 16;

/// How much longer the host takes for a byte of numbers that it has no vectors of, and how many of them take no time worth telling.
const ONE_BY_ONE: usize = 32;
const FEW: usize = 4096;

/// Bytes of weights that are read from a file before its pages are given back.
const READ_BYTES: usize = 1 << 20;
/// Bytes of constants that are made while their graph is compiled.
const AHEAD_BYTES: usize = 64 << 20;
/// Bytes of a weight that are copied to the device at once.
const PART_BYTES: usize = 4 << 20;

/// A model's graph or a loop's body, with its plans and weights.
#[derive(Debug)]
pub(super) struct Scope<B: Backend> {
    /// Empty for the model, else the names of the loops around it.
    pub(super) path: String,
    pub(super) program: Arc<Program>,
    /// The bodies of loops by their step.
    pub(super) bodies: HashMap<usize, Self>,
    /// The steps that read a value.
    pub(super) readers: Vec<Vec<usize>>,
    plans: Mutex<Vec<Arc<Plan<B>>>>,
    /// Plans that made room for others. Taking one apart takes about a tenth of the time of making one.
    retired: Mutex<Vec<Arc<Plan<B>>>>,
    compiling: Mutex<()>,
    /// The elements that plans were made for, also those that made room: a loop's counter is another in each round.
    variants: Mutex<FxHashMap<Signature, Vec<Elements>>>,
    weights: Mutex<HashMap<(ValueId, DataType), B::Memory>>,
    /// What plans have prepared from weights.
    prepared: PreparedConstants<B>,
    host_weights: Mutex<HashMap<ValueId, Arc<HostTensor>>>,
    /// The same on the host, once it ran there.
    hosted: OnceLock<Box<HostedBody>>,
}

/// What is there of a value: its shape and type, and whether graphs may be made for its elements.
pub(super) type Signature = Vec<(ValueId, Dims, DataType, bool)>;

/// The elements of values that a plan is good for.
type Elements = Vec<(ValueId, Arc<HostTensor>)>;

/// A stage, compiled.
#[derive(Debug)]
pub(super) struct Plan<B: Backend> {
    pub(super) signature: Signature,
    pub(super) stage: Stage,
    pub(super) executable: Option<Executable<B>>,
    pub(super) port_bytes: usize,
    bytes: OnceLock<usize>,
    /// Of the model's own open dimensions.
    pub(super) dims: Vec<(String, usize)>,
}

impl<B: Backend> Plan<B> {
    /// Bytes of all that its operations read and make; of what the host computes one by one so many more as that takes longer.
    pub(super) fn bytes(&self) -> usize {
        let of = |executable: &Executable<B>| {
            let compiled = executable.compiled();
            let tensors = compiled.graph().tensors();
            let bytes =
                tensors.filter_map(|tensor| Some((tensor.known_dims()?.elements(), tensor.data_type?)));
            let weighed = bytes.map(|(elements, data_type)| {
                let has_vectors = !matches!(data_type, DataType::S32 | DataType::S64 | DataType::F64);
                let is_slow = !has_vectors && elements > FEW;
                let bits = data_type.bits() * if is_slow { ONE_BY_ONE } else { 1 };
                elements.saturating_mul(bits) / 8
            });
            weighed.fold(0, usize::saturating_add)
        };
        *self.bytes.get_or_init(|| self.executable.as_ref().map_or(0, of))
    }
}

impl<B: Backend> Scope<B> {
    pub(super) fn new(program: Arc<Program>, path: &str) -> Self {
        let mut readers = vec![Vec::new(); program.names.len()];
        let mut bodies = HashMap::new();
        for (index, step) in program.steps.iter().enumerate() {
            step.needs().for_each(|value| readers[value].push(index));
            if let StepKind::Repeat(body) = &step.kind {
                let path = format!("{path}{}/", step.name());
                bodies.insert(index, Self::new(Arc::clone(&body.program), &path));
            }
        }
        Self {
            path: path.to_owned(),
            program,
            bodies,
            readers,
            plans: Mutex::default(),
            retired: Mutex::default(),
            compiling: Mutex::default(),
            variants: Mutex::default(),
            weights: Mutex::default(),
            prepared: PreparedConstants::default(),
            host_weights: Mutex::default(),
            hosted: OnceLock::new(),
        }
    }

    /// The plans at the moment, the one used last at the end.
    pub(super) fn plans(&self) -> Vec<Arc<Plan<B>>> {
        lock(&self.plans).clone()
    }

    /// Every plan of this graph and of the bodies in it.
    pub(super) fn each(&self, told: &mut dyn FnMut(&Self, &Plan<B>)) {
        self.plans().iter().for_each(|plan| told(self, plan));
        let mut bodies: Vec<_> = self.bodies.iter().collect();
        bodies.sort_by_key(|(step, _)| **step);
        for (_, body) in bodies {
            body.each(told);
        }
    }

    /// Bytes of weights on the device, in their own form and as they were prepared, and on the host, those of bodies with them.
    pub(super) fn weight_bytes(&self) -> (usize, usize, usize) {
        let device: usize = lock(&self.weights).values().map(|memory| memory.region().bytes).sum();
        let own: usize = lock(&self.host_weights).values().map(|tensor| tensor.bytes().len()).sum();
        let host = own + self.hosted.get().map_or(0, |hosted| hosted.weight_bytes());
        let inner = self.bodies.values().map(Self::weight_bytes);
        let own = (device, self.prepared.bytes(), host);
        inner.fold(own, |sum, more| (sum.0 + more.0, sum.1 + more.1, sum.2 + more.2))
    }

    /// A loop's body on the host.
    pub(super) fn hosted(&self) -> &HostedBody {
        self.hosted.get_or_init(|| Box::new(HostedBody::of(self)))
    }

    /// A weight of the file on the host.
    pub(super) fn weight(&self, inner: &Inner<B>, value: ValueId) -> Result<Option<Arc<HostTensor>>> {
        let Some(proto) = &self.program.weights[value] else { return Ok(None) };
        if let Some(known) = lock(&self.host_weights).get(&value) {
            return Ok(Some(Arc::clone(known)));
        }
        let mut external = ExternalData::new(&inner.model.origin);
        let tensor = Arc::new(
            host_tensor(proto, &mut external)
                .at(|| format!("initializer {:?}", self.program.names[value]))?,
        );
        lock(&self.host_weights).insert(value, Arc::clone(&tensor));
        Ok(Some(tensor))
    }

    /// The plan for what an execution has, compiled unless it is there.
    pub(super) fn plan(
        &self,
        inner: &Inner<B>,
        state: &[Option<Arc<Slot<B>>>],
        dims: &[(String, usize)],
    ) -> Result<Arc<Plan<B>>> {
        if let Some(plan) = self.find(state) {
            return Ok(plan);
        }
        let told = entries(state);
        let signature: Signature = told
            .map(|(value, dims, data_type, is_known)| (value, dims.clone(), data_type, is_known))
            .collect();
        if self.path.is_empty() {
            inner.ahead.wait(&signature);
        }
        let _one_by_one = lock(&self.compiling);
        if let Some(plan) = self.find(state) {
            return Ok(plan);
        }
        let have: Vec<_> = state.iter().map(|slot| slot.as_ref().map(|slot| slot.have())).collect();
        let specialises = self.specialises(&signature, state);
        self.make(inner, signature, &have, specialises, dims)
    }

    /// Whether there is a plan for what this tells.
    pub(super) fn has_plan(&self, signature: &Signature) -> bool {
        lock(&self.plans).iter().any(|plan| plan.signature == *signature)
    }

    /// Makes the plan for what there is, and keeps it.
    pub(super) fn make(
        &self,
        inner: &Inner<B>,
        signature: Signature,
        have: &[Option<Have>],
        specialises: bool,
        dims: &[(String, usize)],
    ) -> Result<Arc<Plan<B>>> {
        let (stage, executable) = self.compile(inner, have, specialises)?;
        self.remember(&signature, &stage.demanded);
        let port_bytes = executable.as_ref().map_or(0, |executable: &Executable<B>| {
            let compiled = executable.compiled();
            let graph = compiled.graph();
            let inputs = graph.inputs().iter().filter_map(|&id| compiled.input_desc(id));
            let outputs = graph.outputs().iter().filter_map(|&id| compiled.output_desc(id));
            inputs.chain(outputs).map(anydnn_backend::MemoryDesc::size).sum()
        });
        let plan = Arc::new(Plan {
            signature,
            stage,
            executable,
            port_bytes,
            bytes: OnceLock::new(),
            dims: dims.to_vec(),
        });
        let mut plans = lock(&self.plans);
        plans.push(Arc::clone(&plan));
        if plans.len() > inner.options.plans.max(1) {
            lock(&self.retired).push(plans.remove(0));
        }
        Ok(plan)
    }

    /// Whether a plan is made for elements that are there: the first ones with this signature, and those that one was made for before.
    fn specialises(&self, signature: &Signature, state: &[Option<Arc<Slot<B>>>]) -> bool {
        let variants = lock(&self.variants);
        let Some(variants) = variants.get(signature) else { return true };
        variants.len() < VARIANTS || variants.iter().any(|elements| are_there(elements, state))
    }

    fn remember(&self, signature: &Signature, elements: &Elements) {
        if elements.is_empty() {
            return;
        }
        let mut variants = lock(&self.variants);
        if variants.len() >= SIGNATURES && !variants.contains_key(signature) {
            variants.clear();
        }
        let same = |(value, tensor): &(ValueId, Arc<HostTensor>),
                    (other, wanted): &(ValueId, Arc<HostTensor>)| {
            value == other && tensor.bytes() == wanted.bytes()
        };
        let known = variants.entry(signature.clone()).or_default();
        let is_new = |other: &Elements| {
            other.len() != elements.len() || !elements.iter().zip(other).all(|(one, other)| same(one, other))
        };
        if known.len() < VARIANTS && known.iter().all(is_new) {
            known.push(elements.clone());
        }
    }

    /// Takes plans apart that made room for others: when the device has work, and nobody waits for it.
    pub(super) fn end_retired(&self) {
        let retired = std::mem::take(&mut *lock(&self.retired));
        drop(retired);
    }

    /// The plan that was made for what is there. Executions begin with this, so nothing is copied for it.
    fn find(&self, state: &[Option<Arc<Slot<B>>>]) -> Option<Arc<Plan<B>>> {
        let is_alike = |signature: &Signature| {
            let wanted =
                signature.iter().map(|(value, dims, data_type, known)| (*value, dims, *data_type, *known));
            entries(state).eq(wanted)
        };
        let mut plans = lock(&self.plans);
        let elements = |value: ValueId| state[value].as_ref().and_then(|slot| slot.known());
        let fits = |plan: &Arc<Plan<B>>| {
            is_alike(&plan.signature)
                && are_there(&plan.stage.demanded, state)
                && plan.stage.stretches.iter().all(|stretch| stretch.is_there(elements))
        };
        // Those that were used last are at the end.
        let at = plans.iter().rposition(fits)?;
        let plan = plans.remove(at);
        plans.push(Arc::clone(&plan));
        Some(plan)
    }

    /// Imports and compiles. What the engine refuses is left to the host.
    fn compile(
        &self,
        inner: &Inner<B>,
        have: &[Option<Have>],
        specialises: bool,
    ) -> Result<(Stage, Option<Executable<B>>)> {
        let mut kept_back: Vec<usize> = Vec::new();
        loop {
            let request = Request {
                program: &self.program,
                origin: &inner.model.origin,
                narrow: inner.options.precision.narrow(),
                specialises,
                repeats: !self.path.is_empty(),
                calls_are_free: inner.engine.launch_elements() == 0,
                kept_back: &kept_back,
            };
            let mut stage = import::stage(request, have)?;
            let error = match self.load(inner, &mut stage) {
                Ok(executable) => return Ok((stage, executable)),
                Err(error) if matches!(error.root(), Error::Unsupported { .. }) => error,
                Err(error) => return Err(error),
            };
            let text = error.to_string();
            let able: Vec<_> = stage.device.iter().copied().filter(|index| self.has_host(*index)).collect();
            let named = |index: &&usize| {
                !self.program.steps[**index].name().is_empty()
                    && text.contains(self.program.steps[**index].name())
            };
            let mut more: Vec<_> = able.iter().filter(named).copied().collect();
            if more.is_empty() {
                more = able;
            }
            if more.is_empty() {
                return Err(error);
            }
            kept_back.extend(more);
        }
    }

    fn has_host(&self, index: usize) -> bool {
        let step = &self.program.steps[index];
        crate::onnx::ops::has_host(&crate::onnx::node::Node::new(&step.proto, step.opset, Vec::new()))
    }

    /// Compiles a stage's graph and moves its constants to the device. Those that are only read to prepare others of them are not kept.
    fn load(&self, inner: &Inner<B>, stage: &mut Stage) -> Result<Option<Executable<B>>> {
        let Some(finished) = &mut stage.finished else { return Ok(None) };
        let SessionOptions { policy, progress, specialize, direct, .. } = &inner.options;
        let (progress, specialize) = (progress.clone(), *specialize);
        let options = CompileOptions { policy: *policy, progress, specialize, direct: *direct };
        let others: Vec<CompiledGraph<B>> = {
            let plans = lock(&self.plans);
            let compiled = plans.iter().rev().filter_map(|plan| Some(plan.executable.as_ref()?.compiled()));
            compiled.take(ALIKE).collect()
        };
        let mut constants = std::mem::take(&mut finished.constants);
        let compile = || CompiledGraph::beside(&finished.graph, &inner.engine, &options, &others);
        // What the first plan has made of them serves the others.
        let compiled = if others.is_empty() {
            beside_constants(constants.values().map(|(_, constant)| constant), compile)?
        } else {
            compile()?
        };
        let start = Instant::now();
        let kind = memory_kind::<B>(&inner.engine)?;
        let weights: FxHashMap<TensorId, ValueId> = finished.weights.iter().copied().collect();
        let named = |(id, (_, constant)): (&TensorId, &(Arc<str>, Constant))| Ok((*id, constant.identity()?));
        let names = constants.iter().map(named).collect::<Result<FxHashMap<TensorId, Arc<str>>>>()?;
        let find = |id: TensorId| names.get(&id).cloned();
        let sharing = Sharing { prepared: &self.prepared, name: &find };
        inner.with_stream(|stream| {
            let (mut own, mut read, mut has_read) = (Vec::new(), READ_BYTES, false);
            let executable = compiled.load_each(stream, Some(&sharing), |id, is_kept| {
                let (Some((label, constant)), Some(name)) = (constants.swap_remove(&id), names.get(&id))
                else {
                    let expected = "each constant of the graph once";
                    return Err(Error::invalid("load", "constant", id.to_string(), expected));
                };
                let key = weights.get(&id).map(|value| (*value, constant.desc().data_type()));
                if let Some(memory) = key.and_then(|key| lock(&self.weights).get(&key).cloned()) {
                    return Ok(memory);
                }
                if let Some(memory) = self.prepared.find(name) {
                    let shared = B::Memory::clone(&memory);
                    own.push(memory);
                    return Ok(shared);
                }
                has_read = true;
                let tensor = constant.into_elements()?.labelled(&label);
                let memory = inner.engine.create_memory(tensor.desc(), kind)?;
                for (at, part) in tensor.bytes().chunks(PART_BYTES).enumerate() {
                    if read >= READ_BYTES {
                        inner.model.origin.give_back();
                        read = 0;
                    }
                    read += part.len();
                    stream.write(&memory, at * PART_BYTES, part, &[])?.wait()?;
                }
                match key {
                    // What later plans ask for again others may, too, as long as one of them is there.
                    _ if !is_kept && !others.is_empty() => {
                        own.push(self.prepared.keep(name.to_string(), memory.clone()));
                    }
                    _ if !is_kept => {}
                    Some(key) => drop(lock(&self.weights).insert(key, memory.clone())),
                    None => own.push(self.prepared.keep(name.to_string(), memory.clone())),
                }
                Ok(memory)
            })?;
            if has_read {
                inner.model.origin.give_back();
            }
            tracing::debug!(milliseconds = start.elapsed().as_millis(), "loaded constants");
            Ok(Some(executable.holding(own)))
        })
    }
}

/// Makes constants on a thread of their own while their graph is compiled.
fn beside_constants<'a, T>(
    constants: impl Iterator<Item = &'a Constant> + Send,
    compile: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let is_compiled = AtomicBool::new(false);
    thread::scope(|scope| {
        // They are made when they are asked for, otherwise.
        let builder = thread::Builder::new().name("anydnn-constants".into());
        if let Err(error) = builder.spawn_scoped(scope, || make_ahead(constants, &is_compiled)) {
            tracing::debug!(%error, "no thread for constants");
        }
        let compiled = compile();
        is_compiled.store(true, Ordering::Relaxed);
        compiled
    })
}

/// Makes constants, up to some bytes of them.
fn make_ahead<'a>(constants: impl Iterator<Item = &'a Constant>, is_compiled: &AtomicBool) {
    let mut bytes = 0;
    for constant in constants.filter(|constant| constant.is_computed()) {
        bytes += constant.desc().size();
        // What fails now fails again for whoever asks.
        if bytes > AHEAD_BYTES || is_compiled.load(Ordering::Relaxed) || constant.elements().is_err() {
            return;
        }
    }
}

/// Whether an execution has these elements.
fn are_there<B: Backend>(elements: &Elements, state: &[Option<Arc<Slot<B>>>]) -> bool {
    elements.iter().all(|(value, wanted)| {
        let known = state[*value].as_ref().and_then(|slot| slot.known());
        known.is_some_and(|tensor| tensor.bytes() == wanted.bytes())
    })
}

/// What a [`Signature`] tells of the values that are there.
fn entries<B: Backend>(
    state: &[Option<Arc<Slot<B>>>],
) -> impl Iterator<Item = (ValueId, &Dims, DataType, bool)> {
    let there = state.iter().enumerate().filter_map(|(value, slot)| Some((value, slot.as_deref()?)));
    there.map(|(value, slot)| (value, slot.desc.dims(), slot.desc.data_type(), slot.known().is_some()))
}

//! What plans prepare from constants. Plans for other shapes prepare much of it alike; what is there is taken from the others.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

#[cfg(feature = "onnx")]
use anydnn_backend::Memory;
use anydnn_backend::{Arg, Attributes, Backend, Primitive, Result};

use super::prepared_memory;
use crate::compile::{Compiled, Step, Storage, TempPlace};
use crate::graph::TensorId;

/// Memory that plans have prepared, by what it is, as long as one of these plans is there.
#[derive(Debug)]
pub(crate) struct PreparedConstants<B: Backend> {
    memories: Mutex<HashMap<String, Weak<B::Memory>>>,
}

impl<B: Backend> Default for PreparedConstants<B> {
    fn default() -> Self {
        Self { memories: Mutex::default() }
    }
}

impl<B: Backend> PreparedConstants<B> {
    /// The bytes that are there.
    #[cfg(feature = "onnx")]
    pub(crate) fn bytes(&self) -> usize {
        self.lock().values().filter_map(Weak::upgrade).map(|memory| memory.region().bytes).sum()
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<B::Memory>> {
        self.lock().get(name)?.upgrade()
    }

    /// Keeps memory for others, as long as somebody has what this returns.
    pub(crate) fn keep(&self, name: String, memory: B::Memory) -> Arc<B::Memory> {
        let memory = Arc::new(memory);
        let mut memories = self.lock();
        memories.retain(|_, other| other.strong_count() > 0);
        memories.insert(name, Arc::downgrade(&memory));
        memory
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Weak<B::Memory>>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a plan looks for what others have prepared, and the names of its constants: equal names are of equal bytes, and none is of bytes
/// that no other plan has.
pub(crate) struct Sharing<'a, B: Backend> {
    pub(crate) prepared: &'a PreparedConstants<B>,
    pub(crate) name: &'a dyn Fn(TensorId) -> Option<Arc<str>>,
}

/// What a plan has yet to prepare.
#[derive(Debug)]
pub(super) struct Preparation<B: Backend> {
    /// Which of the steps that prepare something run.
    pub(super) runs: Vec<bool>,
    /// Memory for the temporaries that depend on constants alone, by index; none for what no step works on.
    pub(super) memories: Vec<Option<B::Memory>>,
    /// What each of them is, where it may be shared.
    names: Vec<Option<String>>,
    /// What is shared so far.
    shared: Vec<Option<Arc<B::Memory>>>,
    /// Whether executions read each of them.
    is_read: Vec<bool>,
}

/// What a plan has prepared.
#[derive(Debug)]
pub(super) struct Kept<B: Backend> {
    /// What executions read, by index; memory without bytes in place of what only led to it.
    pub(super) memories: Vec<Option<B::Memory>>,
    /// What other plans take over as long as this is held.
    pub(super) shared: Vec<Arc<B::Memory>>,
}

impl<B: Backend> Preparation<B> {
    pub(super) fn new(compiled: &Compiled<B>, sharing: Option<&Sharing<'_, B>>) -> Result<Self> {
        let count = compiled.temp_bytes.len();
        let mut is_read = vec![false; count];
        for (_, temp) in compiled.steps.iter().filter(|step| !step.constant).flat_map(temps) {
            is_read[temp] = true;
        }
        let names = sharing.map_or_else(|| vec![None; count], |sharing| names(compiled, sharing.name));
        let mut shared: Vec<Option<Arc<B::Memory>>> = vec![None; count];
        let find =
            |temp: usize| sharing.zip(names[temp].as_ref()).and_then(|(s, name)| s.prepared.find(name));
        let mut is_needed = is_read.clone();
        let steps: Vec<&Step<B>> = compiled.steps.iter().take_while(|step| step.constant).collect();
        let mut runs = vec![false; steps.len()];
        // What a step reads was prepared by earlier ones.
        for (step, runs) in steps.iter().zip(&mut runs).rev() {
            for (arg, temp) in temps(step) {
                if is_needed[temp] && writes(step, arg) {
                    shared[temp] = shared[temp].take().or_else(|| find(temp));
                    *runs |= shared[temp].is_none();
                }
            }
            if *runs {
                temps(step).for_each(|(_, temp)| is_needed[temp] = true);
            }
        }
        let memory = |(temp, place): (usize, &TempPlace)| {
            let TempPlace::Prepared { bytes } = place else { return Ok(None) };
            if let Some(shared) = &shared[temp] {
                return Ok(Some(B::Memory::clone(shared)));
            }
            if !is_needed[temp] {
                return Ok(None);
            }
            prepared_memory(compiled, *bytes).map(Some)
        };
        let memories = compiled.temp_bytes.iter().enumerate().map(memory).collect::<Result<_>>()?;
        Ok(Self { runs, memories, names, shared, is_read })
    }

    /// Once everything is prepared: what stays.
    pub(super) fn finish(
        mut self,
        compiled: &Compiled<B>,
        sharing: Option<&Sharing<'_, B>>,
        nothing: &B::Memory,
    ) -> Kept<B> {
        for (temp, place) in compiled.temp_bytes.iter().enumerate() {
            if !matches!(place, TempPlace::Prepared { .. }) {
                continue;
            }
            if !self.is_read[temp] {
                self.memories[temp] = Some(nothing.clone());
                self.shared[temp] = None;
            } else if let (None, Some(sharing), Some(name), Some(memory)) =
                (&self.shared[temp], sharing, self.names[temp].take(), &self.memories[temp])
            {
                self.shared[temp] = Some(sharing.prepared.keep(name, memory.clone()));
            }
        }
        Kept { memories: self.memories, shared: self.shared.into_iter().flatten().collect() }
    }
}

/// The temporaries among a step's arguments.
fn temps<B: Backend>(step: &Step<B>) -> impl Iterator<Item = (Arg, usize)> {
    step.args.iter().filter_map(|(arg, storage)| match storage {
        Storage::Temp(temp) => Some((*arg, *temp)),
        _ => None,
    })
}

fn writes<B: Backend>(step: &Step<B>, arg: Arg) -> bool {
    let operand = step.primitive.desc().args().iter().find(|operand| operand.arg == arg);
    operand.is_some_and(|operand| operand.access.writes())
}

/// What each temporary is that follows from constants with names: how it is made, and from what. None for one that several steps make.
fn names<B: Backend>(
    compiled: &Compiled<B>,
    constant: &dyn Fn(TensorId) -> Option<Arc<str>>,
) -> Vec<Option<String>> {
    let mut names: Vec<Option<String>> = vec![None; compiled.temp_bytes.len()];
    let mut makers = vec![0; names.len()];
    let steps = || compiled.steps.iter().take_while(|step| step.constant);
    for step in steps() {
        for (arg, temp) in temps(step) {
            makers[temp] += usize::from(writes(step, arg));
        }
    }
    for step in steps() {
        let Some(text) = description(compiled, step, &names, constant) else { continue };
        for (arg, temp) in temps(step) {
            if makers[temp] == 1 && writes(step, arg) {
                names[temp] = Some(format!("{arg} of {text}"));
            }
        }
    }
    names
}

/// A step in words, with the names of what it reads; none if something has no name.
fn description<B: Backend>(
    compiled: &Compiled<B>,
    step: &Step<B>,
    names: &[Option<String>],
    constant: &dyn Fn(TensorId) -> Option<Arc<str>>,
) -> Option<String> {
    let desc = step.primitive.desc();
    let mut text = format!("{:?}", desc.op());
    if *desc.attributes() != Attributes::default() {
        let _ = write!(text, " {:?}", desc.attributes());
    }
    for (arg, storage) in step.args.iter().filter(|(arg, _)| *arg != Arg::Scratchpad) {
        let operand = desc.args().iter().find(|operand| operand.arg == *arg)?;
        // Not its label, which tells nothing of the bytes.
        let desc = &operand.desc;
        let _ = write!(text, ", {arg} {:?} {} {:?}", desc.dims(), desc.data_type(), desc.layout());
        if !operand.access.reads() {
            continue;
        }
        let _ = match *storage {
            Storage::Constant(i) => write!(text, " = ({})", constant(compiled.constants[i])?),
            Storage::Literal(i) => write!(text, " = ({:?})", compiled.literals[i]),
            Storage::Temp(temp) => write!(text, " = ({})", names[temp].as_ref()?),
            Storage::Input(_) | Storage::Output(_) => return None,
        };
    }
    Some(text)
}

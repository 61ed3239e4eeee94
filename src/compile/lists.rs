//! Lists: the steps of an execution as backends ready them, kept from one execution to the next.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anydnn_backend::{Arg, Backend, Engine, List, ListStep, Part, Result};

use super::{Compiled, Storage, TempPlace};

/// The readied lists of a compiled graph that no execution uses at the moment.
#[derive(Debug)]
pub(crate) struct Lists<B: Backend> {
    state: Mutex<State<B>>,
}

#[derive(Debug)]
struct State<B: Backend> {
    idle: Vec<Box<dyn List<B>>>,
    /// Whether the backend has said that it has none.
    are_none: bool,
}

impl<B: Backend> Default for Lists<B> {
    fn default() -> Self {
        Self { state: Mutex::new(State { idle: Vec::new(), are_none: false }) }
    }
}

impl<B: Backend> Lists<B> {
    /// A list of the steps of an execution, to [give](Lists::give) back when it is enqueued; none where the backend has none.
    pub(crate) fn take(&self, compiled: &Compiled<B>) -> Result<Option<Box<dyn List<B>>>> {
        {
            let mut state = self.lock();
            if state.are_none {
                return Ok(None);
            }
            if let Some(list) = state.idle.pop() {
                return Ok(Some(list));
            }
        }
        let slots = Slots::new(compiled);
        let list = compiled.engine.ready(&slots.steps(compiled), slots.count)?;
        self.lock().are_none = list.is_none();
        Ok(list)
    }

    pub(crate) fn give(&self, list: Option<Box<dyn List<B>>>) {
        self.lock().idle.extend(list);
    }

    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which slot each storage is in: inputs, outputs, constants, literals, prepared temporaries, the arena's parts.
struct Slots {
    /// The first output, constant, literal.
    starts: [usize; 3],
    temps: Vec<Option<Part>>,
    count: usize,
}

impl Slots {
    fn new<B: Backend>(compiled: &Compiled<B>) -> Self {
        let outputs = compiled.graph.inputs().len();
        let constants = outputs + compiled.graph.outputs().len();
        let literals = constants + compiled.constants.len();
        let mut count = literals + compiled.literals.len();
        let prepared = |place: &&TempPlace| matches!(place, TempPlace::Prepared { .. });
        let arena = count + compiled.temp_bytes.iter().filter(prepared).count();
        let mut part = |place: &TempPlace| match *place {
            TempPlace::Arena { part, offset, .. } => Some(Part { slot: arena + part, offset }),
            TempPlace::Prepared { .. } => {
                count += 1;
                Some(Part { slot: count - 1, offset: 0 })
            }
            TempPlace::Unused => None,
        };
        let temps = compiled.temp_bytes.iter().map(&mut part).collect();
        let count = arena + compiled.arena_parts.len();
        Self { starts: [outputs, constants, literals], temps, count }
    }

    fn part(&self, storage: Storage) -> Option<Part> {
        let [outputs, constants, literals] = self.starts;
        let slot = match storage {
            Storage::Input(i) => i,
            Storage::Output(i) => outputs + i,
            Storage::Constant(i) => constants + i,
            Storage::Literal(i) => literals + i,
            Storage::Temp(i) => return self.temps.get(i).copied().flatten(),
        };
        Some(Part { slot, offset: 0 })
    }

    /// The steps that every execution runs.
    fn steps<B: Backend>(&self, compiled: &Compiled<B>) -> Vec<ListStep<B>> {
        let first = compiled.steps.iter().take_while(|step| step.constant).count();
        let args = |args: &[(Arg, Storage)]| {
            args.iter().filter_map(|(arg, storage)| Some((*arg, self.part(*storage)?))).collect()
        };
        compiled.steps[first..]
            .iter()
            .map(|step| ListStep {
                primitive: step.primitive.clone(),
                args: args(&step.args),
                waits_for: step.waits_for.iter().map(|&wanted| wanted - first).collect(),
            })
            .collect()
    }
}

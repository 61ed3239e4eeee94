//! Constants on their way to the device: steps that prepare them run as soon as what they read is there.

use anydnn_backend::{Arg, Backend, Event, Memory, Order, Primitive, Result, ResultExt, Stream, validate};

use super::{Memories, bind};
use crate::compile::{Compiled, Storage};

/// Bytes of constants that may wait for their last reader to end.
const WAITING_BYTES: usize = 4 << 20;

/// The constants of a plan while others are prepared from them.
#[derive(Debug)]
pub(super) struct Loading<'a, B: Backend> {
    compiled: &'a Compiled<B>,
    /// Those that are there.
    constants: Vec<Option<B::Memory>>,
    /// The last step that prepares something from each.
    last_reader: Vec<Option<usize>>,
    /// Which of the steps that prepare something run.
    runs: &'a [bool],
    /// Of those, by step.
    events: Vec<Option<B::Event>>,
}

impl<'a, B: Backend> Loading<'a, B> {
    pub(super) fn new(compiled: &'a Compiled<B>, runs: &'a [bool]) -> Self {
        let mut last_reader = vec![None; compiled.constants.len()];
        for (at, step) in compiled.steps[..runs.len()].iter().enumerate().filter(|(at, _)| runs[*at]) {
            for constant in read(&step.args) {
                last_reader[constant] = Some(at);
            }
        }
        let constants = vec![None; compiled.constants.len()];
        Self { compiled, constants, last_reader, runs, events: vec![None; runs.len()] }
    }

    /// Enqueues the steps that prepare something, each with the constants that it reads.
    pub(super) fn prepare(
        &mut self,
        stream: &B::Stream,
        literals: &[B::Memory],
        prepared: &[Option<B::Memory>],
        give: &mut impl FnMut(usize) -> Result<B::Memory>,
    ) -> Result<()> {
        let compiled = self.compiled;
        let mut waiting = 0;
        for at in (0..self.runs.len()).filter(|&at| self.runs[at]) {
            let step = &compiled.steps[at];
            for constant in read(&step.args) {
                self.take(constant, give)?;
            }
            let memories: Memories<'_, B> =
                Memories { inputs: &[], outputs: &[], constants: &[], literals, prepared, temps: &[] };
            let memory = |storage| match storage {
                Storage::Constant(i) => self.constants[i].as_ref().map_or_else(|| memories.get(storage), Ok),
                _ => memories.get(storage),
            };
            let args = step.args.iter().map(|(arg, storage)| Ok((*arg, memory(*storage)?.clone())));
            let args: Vec<(Arg, B::Memory)> = args.collect::<Result<_>>()?;
            let name = || step.primitive.desc().name().to_owned();
            validate::execution::<B>(stream, &step.primitive, &args).at(name)?;
            let waits: Vec<B::Event> = match stream.desc().order {
                Order::InOrder => Vec::new(),
                Order::OutOfOrder => step.waits_for.iter().filter_map(|&i| self.events[i].clone()).collect(),
            };
            let event = stream.execute_validated(&step.primitive, &args, &waits).at(name)?;
            for constant in read(&step.args) {
                if self.last_reader[constant] == Some(at) && !compiled.reads_constant(constant) {
                    let given = self.constants[constant].take();
                    waiting += given.map_or(0, |memory| memory.region().bytes);
                }
            }
            // The command holds its memory until it has ended.
            drop(args);
            if waiting > WAITING_BYTES {
                event.wait()?;
                waiting = 0;
            }
            self.events[at] = Some(event);
        }
        self.events.iter().flatten().try_for_each(Event::wait)
    }

    /// Waits for everything enqueued, whatever becomes of it: after a failure, which is the error to report.
    pub(super) fn settle(&self) {
        for event in self.events.iter().flatten() {
            let _ = event.wait();
        }
    }

    /// The constants that executions read, and `nothing` in place of the others.
    pub(super) fn kept(
        mut self,
        give: &mut impl FnMut(usize) -> Result<B::Memory>,
        nothing: &B::Memory,
    ) -> Result<Vec<B::Memory>> {
        let compiled = self.compiled;
        for constant in 0..self.constants.len() {
            if compiled.reads_constant(constant) {
                self.take(constant, give)?;
            } else {
                self.constants[constant] = Some(nothing.clone());
            }
        }
        Ok(self.constants.into_iter().flatten().collect())
    }

    fn take(&mut self, constant: usize, give: &mut impl FnMut(usize) -> Result<B::Memory>) -> Result<()> {
        if self.constants[constant].is_none() {
            let (id, desc) = (&self.compiled.constants[constant..=constant], constant..=constant);
            let given = give(constant)?;
            let bound =
                bind("constant", self.compiled, id, &self.compiled.constant_descs[desc], &[(id[0], given)])?;
            self.constants[constant] = bound.into_iter().next();
        }
        Ok(())
    }
}

/// The constants among a step's arguments.
fn read(args: &[(Arg, Storage)]) -> impl Iterator<Item = usize> {
    args.iter().filter_map(|(_, storage)| match storage {
        Storage::Constant(i) => Some(*i),
        _ => None,
    })
}

//! Device time of the executions on a profiling stream.
//!
//! An unreleased event keeps its queue's memory alive on some drivers, so executions that have ended are turned into numbers and their
//! events released as more are added.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anydnn_backend::{ProfileLog, Profiled, Result};

use crate::queue::fate::{Fate, times_of};

/// The executions of a stream.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    log: ProfileLog<Entry>,
    /// Executions that were still under way when last looked at, with their numbers in the log.
    open: VecDeque<(u64, Arc<Execution>)>,
    /// The number of open executions at which to look again.
    sweep_at: usize,
}

#[derive(Debug)]
enum Entry {
    Open,
    Ended(Profiled),
    Failed,
}

/// An execution with the events of its commands.
#[derive(Debug)]
pub(crate) struct Execution {
    pub(crate) operation: Arc<str>,
    pub(crate) implementation: Arc<str>,
    /// Its device commands.
    pub(crate) commands: Vec<Arc<Fate>>,
    /// Its event, a marker's where it had nothing to do.
    pub(crate) last: Arc<Fate>,
}

/// Open executions below this number are left alone.
const SWEEP: usize = 256;

impl Profile {
    /// Adds an execution.
    pub(crate) fn push(&self, execution: Execution) -> Result<()> {
        let mut state = self.lock();
        let number = state.log.push(Entry::Open);
        state.open.push_back((number, Arc::new(execution)));
        if state.open.len() >= state.sweep_at.max(SWEEP) {
            state.settle()?;
            state.sweep_at = 2 * state.open.len();
        }
        Ok(())
    }

    /// Waits for every execution so far and tells their times.
    pub(crate) fn collect(&self) -> Result<Vec<Profiled>> {
        let open: Vec<_> = self.lock().open.iter().map(|(_, execution)| Arc::clone(execution)).collect();
        for execution in open {
            // A failure is told by its event and by the stream's next wait.
            let _ = execution.last.wait()?;
        }
        let mut state = self.lock();
        state.settle()?;
        let ended = |entry: &Entry| match entry {
            Entry::Ended(profiled) => Some(profiled.clone()),
            Entry::Open | Entry::Failed => None,
        };
        Ok(state.log.iter().filter_map(ended).collect())
    }

    /// Forgets the executions so far.
    pub(crate) fn clear(&self) {
        let mut state = self.lock();
        state.log.clear();
        let open = std::mem::take(&mut state.open);
        drop(state);
        drop(open);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Turns executions that have ended into numbers.
    fn settle(&mut self) -> Result<()> {
        for (number, execution) in std::mem::take(&mut self.open) {
            match execution.ended()? {
                None => self.open.push_back((number, execution)),
                Some(ended) => {
                    if let Some(entry) = self.log.entry_mut(number) {
                        *entry = ended;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Execution {
    /// How it ended, if it has.
    fn ended(&self) -> Result<Option<Entry>> {
        match self.last.poll()? {
            None => return Ok(None),
            Some(Err(_)) => return Ok(Some(Entry::Failed)),
            Some(Ok(())) => {}
        }
        let mut span = None;
        for command in &self.commands {
            let Some(times) = times_of(command.raw()?)? else {
                tracing::warn!(operation = &*self.operation, "a command on a profiling queue has no times");
                return Ok(Some(Entry::Failed));
            };
            let (start, end) = span.unwrap_or((times.started, times.ended));
            span = Some((times.started.min(start), times.ended.max(end)));
        }
        Ok(Some(Entry::Ended(Profiled {
            operation: Arc::clone(&self.operation),
            implementation: Arc::clone(&self.implementation),
            commands: self.commands.len(),
            nanoseconds: span.map_or(0, |(start, end)| end.saturating_sub(start)),
        })))
    }
}

#[cfg(test)]
mod tests {
    use anydnn_backend::op::{Eltwise, Op};
    use anydnn_backend::{
        Arg, DataType, Engine, Event, MemoryDesc, MemoryKind, PrimitiveDesc, Stream, StreamDesc,
    };

    use super::*;
    use crate::OpenClPrimitive;
    use crate::plan::{KernelPlan, Launch, LaunchArg, ProgramSource};
    use crate::testing::test_engines;

    /// A primitive of three kernels, each of which adds one.
    fn plan() -> KernelPlan {
        const SOURCE: &str = "
            kernel void add(global const uchar *src, ulong from, global uchar *dst, ulong to) {
                size_t i = get_global_id(0);
                dst[to + i] = src[from + i] + 1;
            }";
        let desc = MemoryDesc::new([64], DataType::U8);
        let desc =
            PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(desc.clone()).dst(desc).label("three");
        let launch = || Launch {
            sub_group: None,
            program: ProgramSource { name: "add".into(), source: SOURCE.into(), options: String::new() },
            kernel: "add".into(),
            args: [Arg::SRC, Arg::DST].map(LaunchArg::Memory).to_vec(),
            table: Vec::new(),
            special: None,
            numbered: false,
            global: [64, 1, 1],
            local: None,
            alignment: 1,
        };
        KernelPlan {
            implementation: "ocl:test:three".into(),
            desc: desc.build().unwrap(),
            scratchpad: 0,
            launches: (0..3).map(|_| launch()).collect(),
        }
    }

    #[test]
    fn an_execution_spans_its_kernels_and_few_events_are_kept() {
        const EXECUTIONS: usize = 3 * SWEEP;
        for engine in test_engines() {
            let primitive = OpenClPrimitive::from_plan(&engine, plan()).unwrap();
            let memory =
                || engine.create_memory(&MemoryDesc::new([64], DataType::U8), MemoryKind::Buffer).unwrap();
            let args = [(Arg::SRC, memory()), (Arg::DST, memory())];
            for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
                let stream = engine.create_stream(&desc.with_profiling()).unwrap();
                let mut last = stream.marker(&[]).unwrap();
                for _ in 0..EXECUTIONS {
                    last = stream.execute(&primitive, &args, &[last]).unwrap();
                    last.wait().unwrap();
                }
                let profile = stream.inner.profile.as_ref().unwrap();
                assert!(profile.lock().open.len() <= SWEEP, "the events of ended executions are released");
                let entries = stream.profile().unwrap();
                assert_eq!(entries.len(), EXECUTIONS);
                for entry in &entries {
                    assert_eq!((&*entry.operation, &*entry.implementation), ("three", "ocl:test:three"));
                    assert!(entry.commands == 3 && entry.nanoseconds > 0, "{entry:?}");
                }
                // From the first kernel's start, so longer than the last kernel.
                let times = last.timestamps().unwrap().unwrap();
                assert!(entries[EXECUTIONS - 1].nanoseconds > times.duration());
            }
        }
    }
}

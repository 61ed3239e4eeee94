//! Streams: recording commands.

use std::sync::{Arc, OnceLock};

use anydnn_backend::{
    Access, Arg, EngineId, Memory, Order, Primitive, Profiled, Range, Region, Result, Stream, StreamDesc,
    validate,
};

use crate::Mock;
use crate::command::{Node, Work};
use crate::event::MockEvent;
use crate::faults::Point;
use crate::kernel::MockKernel;
use crate::memory::MockMemory;
use crate::primitive::MockPrimitive;
use crate::state::{Counter, Execution, Shared, State, Target, Token, labelled, same_device};

/// A stream that records. Commands run when something waits for them.
#[derive(Clone, Debug)]
pub struct MockStream {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    desc: StreamDesc,
    number: u64,
    /// `s0`
    name: String,
    token: Token,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.token.shared.lock().lanes.remove(&self.number);
    }
}

impl MockStream {
    pub(crate) fn new(shared: &Arc<Shared>, state: &mut State, desc: &StreamDesc) -> Self {
        let number = state.number(Counter::Stream);
        let name = format!("s{number}");
        let order = match desc.order {
            Order::InOrder => "in order",
            Order::OutOfOrder => "out of order",
        };
        state.log.line(labelled(format!("stream {name} {order}"), desc.label.as_deref()));
        let token = Token::new(shared, state, labelled(format!("stream {name}"), desc.label.as_deref()));
        Self { inner: Arc::new(Inner { desc: desc.clone(), number, name, token }) }
    }

    /// Enqueues a kernel of the user's on whole memories, with how it touches each.
    ///
    /// # Errors
    /// [`Error::Mismatch`](anydnn_backend::Error::Mismatch) for a memory or event of another device, a race, an injected fault.
    pub fn launch(
        &self,
        kernel: &MockKernel,
        args: &[(Access, MockMemory)],
        deps: &[MockEvent],
    ) -> Result<MockEvent> {
        let args = args
            .iter()
            .map(|(access, memory)| {
                Ok((*access, self.part(kernel.name(), memory, 0, memory.region().bytes)?))
            })
            .collect::<Result<_>>()?;
        self.enqueue(Point::Execute, Work::Kernel { kernel: kernel.clone(), args }, deps)
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.inner.token.shared
    }

    /// Counts the call, then enqueues.
    fn enqueue(&self, point: Point, work: Work, deps: &[MockEvent]) -> Result<MockEvent> {
        let (shared, inner) = (self.shared(), &*self.inner);
        let mut state = shared.enter(point, work.name())?;
        state.submission(work.name())?;
        for dep in deps {
            same_device(work.name(), "a dependency", dep.shared(), shared)?;
        }
        let deps: Vec<Arc<Node>> = deps.iter().map(|dep| Arc::clone(dep.node())).collect();
        let target = Target {
            stream: inner.number,
            name: &inner.name,
            in_order: inner.desc.order == Order::InOrder,
            profiling: inner.desc.profiling,
            races: shared.races,
        };
        let node = state.submit(&target, work, &deps)?;
        Ok(MockEvent::new(shared, &mut state, node))
    }

    fn part(&self, operation: &str, memory: &MockMemory, offset: usize, bytes: usize) -> Result<Region> {
        validate::transfer(operation, self.engine_id(), memory, offset, bytes)?;
        let region = memory.region();
        Ok(Region { offset: region.offset + offset, bytes, ..region })
    }
}

impl Stream for MockStream {
    type B = Mock;

    fn engine_id(&self) -> EngineId {
        self.shared().engine
    }

    fn desc(&self) -> &StreamDesc {
        &self.inner.desc
    }

    fn execute_validated(
        &self,
        primitive: &MockPrimitive,
        args: &[(Arg, MockMemory)],
        deps: &[MockEvent],
    ) -> Result<MockEvent> {
        let compiled = primitive.compiled();
        let args = args.iter().map(|(arg, memory)| (*arg, compiled.touched(*arg, memory.region()))).collect();
        same_device("execute", "the primitive", primitive.shared(), self.shared())?;
        let event = self.enqueue(Point::Execute, Work::Execute { compiled, args }, deps)?;
        if self.inner.desc.profiling {
            let (node, operation) = (Arc::clone(event.node()), primitive.desc().name().into());
            let mut state = self.shared().lock();
            state.lanes.entry(self.inner.number).or_default().profile.push(Execution { node, operation });
        }
        Ok(event)
    }

    fn copy(&self, from: Range<Mock>, to: Range<Mock>, deps: &[MockEvent]) -> Result<MockEvent> {
        validate::copy(self.engine_id(), &from, &to)?;
        let part = |range: &Range<Mock>| self.part("copy", &range.memory, range.offset, range.bytes);
        self.enqueue(Point::Copy, Work::Copy { from: part(&from)?, to: part(&to)? }, deps)
    }

    fn write(
        &self,
        memory: &MockMemory,
        offset: usize,
        bytes: &[u8],
        deps: &[MockEvent],
    ) -> Result<MockEvent> {
        let to = self.part("write", memory, offset, bytes.len())?;
        self.enqueue(Point::Write, Work::Write { to, bytes: bytes.to_vec() }, deps)
    }

    fn read(&self, memory: &MockMemory, offset: usize, bytes: &mut [u8], deps: &[MockEvent]) -> Result<()> {
        let from = self.part("read", memory, offset, bytes.len())?;
        let into = Arc::new(OnceLock::new());
        let event = self.enqueue(Point::Read, Work::Read { from, into: Arc::clone(&into) }, deps)?;
        event.force()?;
        if let Some(content) = into.get() {
            bytes.copy_from_slice(content);
        }
        Ok(())
    }

    fn marker(&self, deps: &[MockEvent]) -> Result<MockEvent> {
        self.enqueue(Point::Marker, Work::Marker, deps)
    }

    fn flush(&self) -> Result<()> {
        let mut state = self.shared().enter(Point::Flush, "flush")?;
        let now = state.clock.now();
        if let Some(lane) = state.lanes.get(&self.inner.number) {
            for node in &lane.open {
                node.submitted.get_or_init(|| now);
            }
        }
        state.log.line(format_args!("flush {}", self.inner.name));
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        let mut state = self.shared().enter(Point::Wait, "wait")?;
        state.log.line(format_args!("wait {}", self.inner.name));
        let Some(lane) = state.lanes.get(&self.inner.number) else { return Ok(()) };
        let open = lane.open.clone();
        state.force(&open)?;
        if let Some(lane) = state.lanes.get_mut(&self.inner.number) {
            lane.open.clear();
        }
        for node in &open {
            state.waited(node);
        }
        open.iter().find_map(|node| node.error()).map_or(Ok(()), |error| Err(error.clone()))
    }

    fn profile(&self) -> Result<Vec<Profiled>> {
        validate::profiling("profile", &self.inner.desc)?;
        let mut state = self.shared().enter(Point::Wait, "profile")?;
        state.log.line(format_args!("profile {}", self.inner.name));
        let Some(lane) = state.lanes.get(&self.inner.number) else { return Ok(Vec::new()) };
        let executions: Vec<Execution> = lane.profile.iter().cloned().collect();
        let nodes: Vec<_> = executions.iter().map(|execution| Arc::clone(&execution.node)).collect();
        state.force(&nodes)?;
        for node in &nodes {
            state.waited(node);
        }
        let entry = |execution: Execution| {
            let outcome = execution.node.outcome.get().filter(|outcome| outcome.error.is_none())?;
            Some(Profiled {
                operation: execution.operation,
                implementation: MockPrimitive::IMPLEMENTATION.into(),
                commands: 1,
                nanoseconds: outcome.timestamps.duration(),
            })
        };
        Ok(executions.into_iter().filter_map(entry).collect())
    }

    fn reset_profile(&self) -> Result<()> {
        validate::profiling("reset profile", &self.inner.desc)?;
        let mut state = self.shared().lock();
        if let Some(lane) = state.lanes.get_mut(&self.inner.number) {
            lane.profile.clear();
        }
        Ok(())
    }
}

//! Streams: commands run when they are submitted.

use std::sync::{Arc, Mutex};

use anydnn_backend::{
    Arg, Engine, EngineId, Error, Event, Primitive, ProfileLog, Profiled, Range, Result, Stream, StreamDesc,
    Timestamps, validate,
};

use crate::binding::{Part, with_slices};
use crate::engine::HostEngine;
use crate::event::{HostEvent, dependencies, now};
use crate::memory::HostMemory;
use crate::primitive::HostPrimitive;
use crate::{Host, lock};

/// A queue whose commands run when they are submitted, which keeps every order that a stream promises.
#[derive(Clone, Debug)]
pub struct HostStream(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: HostEngine,
    desc: StreamDesc,
    /// The first failure since the last wait.
    failure: Mutex<Option<Error>>,
    /// Executions of a profiling stream.
    profile: Mutex<ProfileLog<Profiled>>,
}

impl HostStream {
    pub(crate) fn new(engine: HostEngine, desc: StreamDesc) -> Self {
        Self(Arc::new(Inner { engine, desc, failure: Mutex::default(), profile: Mutex::default() }))
    }

    /// Runs a command unless a dependency failed. Its failure is the event's, and that of the next wait.
    fn submit(&self, operation: &str, deps: &[HostEvent], work: impl FnOnce() -> Result<()>) -> HostEvent {
        let submitted = now();
        let outcome = dependencies(operation, deps).and_then(|()| work());
        let ended = now();
        tracing::trace!(operation, stream = self.0.desc.label, nanoseconds = ended - submitted, "command");
        if let Err(error) = &outcome {
            tracing::warn!(operation, %error, "command failed");
            lock(&self.0.failure).get_or_insert_with(|| error.clone());
        }
        let times = Timestamps { queued: submitted, submitted, started: submitted, ended };
        HostEvent::new(outcome, self.0.desc.profiling.then_some(times))
    }

    /// Runs a primitive, to which `bind` hands its operands.
    pub(crate) fn execute_with(
        &self,
        primitive: &HostPrimitive,
        deps: &[HostEvent],
        bind: impl FnOnce(&dyn Fn(&[(Arg, &[u8])], &mut [(Arg, &mut [u8])]) -> Result<()>) -> Result<()>,
    ) -> Result<HostEvent> {
        let event = self.submit(primitive.desc().name(), deps, || {
            bind(&|inputs, outputs| primitive.compute(&self.0.engine, inputs, outputs))
        });
        self.note(primitive, &event)?;
        Ok(event)
    }

    /// Remembers an execution on a profiling stream.
    fn note(&self, primitive: &HostPrimitive, event: &HostEvent) -> Result<()> {
        if let (Some(times), Ok(())) = (event.timestamps()?, event.wait()) {
            lock(&self.0.profile).push(Profiled {
                operation: primitive.desc().name().into(),
                implementation: primitive.implementation().into(),
                commands: 1,
                nanoseconds: times.duration(),
            });
        }
        Ok(())
    }
}

impl Stream for HostStream {
    type B = Host;

    fn engine_id(&self) -> EngineId {
        self.0.engine.id()
    }

    fn desc(&self) -> &StreamDesc {
        &self.0.desc
    }

    fn execute_validated(
        &self,
        primitive: &HostPrimitive,
        args: &[(Arg, HostMemory)],
        deps: &[HostEvent],
    ) -> Result<HostEvent> {
        let desc = primitive.desc();
        let event = self.submit(desc.name(), deps, || {
            let in_place = |arg| primitive.reads_in_place(arg);
            with_slices(desc, args, &in_place, |inputs, outputs| {
                primitive.compute(&self.0.engine, inputs, outputs)
            })
        });
        self.note(primitive, &event)?;
        Ok(event)
    }

    fn copy(&self, from: Range<Host>, to: Range<Host>, deps: &[HostEvent]) -> Result<HostEvent> {
        validate::copy(self.engine_id(), &from, &to)?;
        let source = Part::new(&from.memory, from.offset, from.bytes);
        let target = Part::new(&to.memory, to.offset, to.bytes);
        Ok(self.submit("copy", deps, || source.copy_to(target)))
    }

    fn write(
        &self,
        memory: &HostMemory,
        offset: usize,
        bytes: &[u8],
        deps: &[HostEvent],
    ) -> Result<HostEvent> {
        validate::transfer("write", self.engine_id(), memory, offset, bytes.len())?;
        Ok(self.submit("write", deps, || {
            Part::new(memory, offset, bytes.len()).write(|to| to.copy_from_slice(bytes));
            Ok(())
        }))
    }

    fn read(&self, memory: &HostMemory, offset: usize, bytes: &mut [u8], deps: &[HostEvent]) -> Result<()> {
        validate::transfer("read", self.engine_id(), memory, offset, bytes.len())?;
        // The caller learns of a failure here, so it is not kept for the next wait.
        dependencies("read", deps)?;
        Part::new(memory, offset, bytes.len()).read(|from| bytes.copy_from_slice(from));
        Ok(())
    }

    fn marker(&self, deps: &[HostEvent]) -> Result<HostEvent> {
        Ok(self.submit("marker", deps, || Ok(())))
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        lock(&self.0.failure).take().map_or(Ok(()), Err)
    }

    fn profile(&self) -> Result<Vec<Profiled>> {
        validate::profiling("profile", &self.0.desc)?;
        Ok(lock(&self.0.profile).iter().cloned().collect())
    }

    fn reset_profile(&self) -> Result<()> {
        validate::profiling("reset profile", &self.0.desc)?;
        lock(&self.0.profile).clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anydnn_backend::op::{Eltwise, Op, Reorder};
    use anydnn_backend::{DataType, EventStatus, Memory, MemoryDesc, MemoryKind, PrimitiveDesc};

    fn tensor(elements: usize) -> MemoryDesc {
        MemoryDesc::new([elements], DataType::U8)
    }

    fn setup(desc: &StreamDesc) -> (HostEngine, HostStream, HostMemory, HostMemory) {
        let engine = HostEngine::with_threads(2).unwrap();
        let stream = engine.create_stream(desc).unwrap();
        let memory = || engine.create_memory(&tensor(4), MemoryKind::Host).unwrap();
        let (first, second) = (memory(), memory());
        (engine, stream, first, second)
    }

    fn part(memory: &HostMemory, offset: usize, bytes: usize) -> Range<Host> {
        Range { memory: memory.clone(), offset, bytes }
    }

    #[test]
    fn bytes_travel_both_ways_and_within() {
        let (_, stream, a, b) = setup(&StreamDesc::default());
        let written = stream.write(&a, 0, &[1, 2, 3, 4], &[]).unwrap();
        let there = stream.copy(part(&a, 1, 3), part(&b, 0, 3), &[written]).unwrap();
        let back = stream.copy(part(&b, 2, 1), part(&a, 0, 1), &[there]).unwrap();
        let within = stream.copy(part(&a, 0, 2), part(&a, 2, 2), &[back]).unwrap();
        let (mut first, mut second) = ([0; 4], [0; 2]);
        stream.read(&a, 0, &mut first, &[within]).unwrap();
        stream.read(&b, 1, &mut second, &[]).unwrap();
        assert_eq!((first, second), ([4, 2, 4, 2], [3, 4]));
        assert!(stream.read(&a, 3, &mut second, &[]).is_err() && stream.write(&a, 5, &[], &[]).is_err());
        assert!(stream.copy(part(&a, 0, 2), part(&a, 1, 2), &[]).is_err());
    }

    #[test]
    fn profiling_gives_rising_times() {
        let (_, stream, a, _) = setup(&StreamDesc::out_of_order().with_profiling());
        let first = stream.write(&a, 0, &[1], &[]).unwrap().timestamps().unwrap().unwrap();
        let second = stream.marker(&[]).unwrap().timestamps().unwrap().unwrap();
        assert!(
            first.queued <= first.started && first.started <= first.ended && first.ended <= second.queued
        );
        let (_, stream, ..) = setup(&StreamDesc::default());
        assert_eq!(stream.marker(&[]).unwrap().timestamps().unwrap(), None);
    }

    #[test]
    fn a_failed_dependency_stops_a_command_and_is_told_once() {
        let (engine, stream, a, b) = setup(&StreamDesc::default());
        stream.write(&a, 0, &[1, 2, 3, 4], &[]).unwrap();
        let failed = HostEvent::new(Err(Error::DeviceLost("unplugged".into())), None);
        assert_eq!(failed.status().unwrap(), EventStatus::Failed);
        let copy = PrimitiveDesc::builder(Op::Reorder(Reorder))
            .src(tensor(4))
            .dst(tensor(4))
            .label("move")
            .build()
            .unwrap();
        let copy = engine.create_primitive(&copy).unwrap();
        let args = [(Arg::SRC, a.clone()), (Arg::DST, b.clone())];
        let event = stream.execute(&copy, &args, &[stream.marker(&[]).unwrap(), failed]).unwrap();
        let error = event.wait().unwrap_err();
        assert!(
            matches!(&error, Error::Dependency { operation, cause } if operation == "move" && cause.contains("unplugged"))
        );
        let mut bytes = [9; 4];
        stream.read(&b, 0, &mut bytes, &[]).unwrap();
        assert_eq!(bytes, [0; 4]);
        assert!(matches!(stream.read(&b, 0, &mut bytes, &[event]), Err(Error::Dependency { .. })));
        assert!(matches!(stream.wait(), Err(Error::Dependency { .. })));
        stream.wait().unwrap();
    }

    #[test]
    fn primitives_run_from_several_threads_on_one_allocation() {
        let engine = HostEngine::with_threads(2).unwrap();
        let stream = engine.create_stream(&StreamDesc::out_of_order()).unwrap();
        let elements = 10_000;
        let whole = engine.create_memory(&tensor(8 * elements), MemoryKind::Host).unwrap();
        let linear = Op::Eltwise(Eltwise::Linear { alpha: 1.0, beta: 3.0 });
        let desc =
            PrimitiveDesc::builder(linear).src(tensor(elements)).dst(tensor(elements)).build().unwrap();
        let primitive = engine.create_primitive(&desc).unwrap();
        std::thread::scope(|scope| {
            for i in 0..4 {
                let (stream, primitive, whole) = (&stream, &primitive, &whole);
                scope.spawn(move || {
                    let view = |j| whole.view(&tensor(elements), j * elements).unwrap();
                    stream.write(&view(2 * i), 0, &vec![i as u8; elements], &[]).unwrap();
                    let args = [(Arg::SRC, view(2 * i)), (Arg::DST, view(2 * i + 1))];
                    stream.execute(primitive, &args, &[]).unwrap().wait().unwrap();
                });
            }
        });
        let mut bytes = vec![0; 8 * elements];
        stream.read(&whole, 0, &mut bytes, &[]).unwrap();
        for (i, part) in bytes.chunks(elements).enumerate() {
            let expected = (i / 2 + if i % 2 == 1 { 3 } else { 0 }) as u8;
            assert!(part.iter().all(|&b| b == expected), "part {i}");
        }
    }
}

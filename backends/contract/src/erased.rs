//! Any backend behind trait objects: [`Erased`] is itself a [`Backend`], so a third party's backend takes part in run-time selection.

use std::any::Any;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::allocator::{Allocator, AllocatorStats};
use crate::arg::Arg;
use crate::backend::Backend;
use crate::engine::{Capabilities, DeviceInfo, Engine, EngineId};
use crate::error::{Error, Result};
use crate::event::{Event, EventStatus, Timestamps};
use crate::memory::{MapMode, Mapping, Memory, MemoryKind, Region};
use crate::memory_desc::MemoryDesc;
use crate::op::primitive_desc::PrimitiveDesc;
use crate::primitive::Primitive;
use crate::profile::Profiled;
use crate::stream::{Range, Stream, StreamDesc};

/// The family of erased types.
#[derive(Debug)]
pub enum Erased {}

impl Backend for Erased {
    type Engine = ErasedEngine;
    type Stream = ErasedStream;
    type Memory = ErasedMemory;
    type Event = ErasedEvent;
    type Primitive = ErasedPrimitive;
}

/// An engine of some backend.
#[derive(Clone, Debug)]
pub struct ErasedEngine(Arc<dyn EngineObject>);

/// A stream of some backend.
#[derive(Clone, Debug)]
pub struct ErasedStream(Arc<dyn StreamObject>);

/// A memory of some backend.
#[derive(Clone, Debug)]
pub struct ErasedMemory(Arc<dyn MemoryObject>);

/// An event of some backend.
#[derive(Clone, Debug)]
pub struct ErasedEvent(Arc<dyn EventObject>);

/// A primitive of some backend.
#[derive(Clone, Debug)]
pub struct ErasedPrimitive(Arc<dyn PrimitiveObject>);

impl ErasedEngine {
    /// Hides an engine's type.
    pub fn new<E: Engine>(engine: E) -> Self {
        Self(Arc::new(engine))
    }

    /// The engine, if it is of type `E`.
    pub fn downcast<E: Engine>(&self) -> Option<&E> {
        self.0.any().downcast_ref()
    }
}

/// Generates an erased wrapper's constructor and downcast.
macro_rules! wrapper {
    ($name:ident, $bound:ident, $what:literal) => {
        impl $name {
            #[doc = concat!("Hides the type of ", $what, ".")]
            pub fn new<T: $bound>(value: T) -> Self {
                Self(Arc::new(value))
            }

            #[doc = concat!("The ", $what, ", if it is of type `T`.")]
            pub fn downcast<T: $bound>(&self) -> Option<&T> {
                self.0.any().downcast_ref()
            }
        }
    };
    ($name:ident, $bound:ident, $what:literal, expected) => {
        wrapper!($name, $bound, $what);

        impl $name {
            fn expect<T: $bound>(&self, operation: &str) -> Result<&T> {
                self.downcast().ok_or_else(|| {
                    Error::mismatch(
                        operation,
                        concat!("a ", $what, " of another backend"),
                        std::any::type_name::<T>(),
                    )
                })
            }
        }
    };
}

wrapper!(ErasedStream, Stream, "stream");
wrapper!(ErasedMemory, Memory, "memory", expected);
wrapper!(ErasedEvent, Event, "event", expected);
wrapper!(ErasedPrimitive, Primitive, "primitive", expected);

impl Engine for ErasedEngine {
    type B = Erased;

    fn id(&self) -> EngineId {
        self.0.id()
    }

    fn device(&self) -> &DeviceInfo {
        self.0.device()
    }

    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn create_stream(&self, desc: &StreamDesc) -> Result<ErasedStream> {
        self.0.create_stream(desc)
    }

    fn create_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<ErasedMemory> {
        self.0.create_memory(desc, kind)
    }

    fn create_unbacked_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<ErasedMemory> {
        self.0.create_unbacked_memory(desc, kind)
    }

    fn create_primitive(&self, desc: &PrimitiveDesc) -> Result<ErasedPrimitive> {
        self.0.create_primitive(desc)
    }

    fn allocator(&self) -> Arc<dyn Allocator<B = Erased>> {
        self.0.allocator()
    }

    fn cache_blob_id(&self) -> Result<Vec<u8>> {
        self.0.cache_blob_id()
    }

    fn cache_blob(&self) -> Result<Vec<u8>> {
        self.0.cache_blob()
    }
}

impl Stream for ErasedStream {
    type B = Erased;

    fn engine_id(&self) -> EngineId {
        self.0.engine_id()
    }

    fn desc(&self) -> &StreamDesc {
        self.0.desc()
    }

    fn execute_validated(
        &self,
        primitive: &ErasedPrimitive,
        args: &[(Arg, ErasedMemory)],
        deps: &[ErasedEvent],
    ) -> Result<ErasedEvent> {
        self.0.execute(primitive, args, deps)
    }

    fn copy(&self, from: Range<Erased>, to: Range<Erased>, deps: &[ErasedEvent]) -> Result<ErasedEvent> {
        self.0.copy(from, to, deps)
    }

    fn write(
        &self,
        memory: &ErasedMemory,
        offset: usize,
        bytes: &[u8],
        deps: &[ErasedEvent],
    ) -> Result<ErasedEvent> {
        self.0.write(memory, offset, bytes, deps)
    }

    fn read(
        &self,
        memory: &ErasedMemory,
        offset: usize,
        bytes: &mut [u8],
        deps: &[ErasedEvent],
    ) -> Result<()> {
        self.0.read(memory, offset, bytes, deps)
    }

    fn marker(&self, deps: &[ErasedEvent]) -> Result<ErasedEvent> {
        self.0.marker(deps)
    }

    fn flush(&self) -> Result<()> {
        self.0.flush()
    }

    fn wait(&self) -> Result<()> {
        self.0.wait()
    }

    fn profile(&self) -> Result<Vec<Profiled>> {
        self.0.profile()
    }

    fn reset_profile(&self) -> Result<()> {
        self.0.reset_profile()
    }
}

impl Memory for ErasedMemory {
    type B = Erased;

    fn engine_id(&self) -> EngineId {
        self.0.engine_id()
    }

    fn desc(&self) -> &MemoryDesc {
        self.0.desc()
    }

    fn kind(&self) -> MemoryKind {
        self.0.kind()
    }

    fn region(&self) -> Region {
        self.0.region()
    }

    fn identity(&self) -> u64 {
        self.0.identity()
    }

    fn view(&self, desc: &MemoryDesc, offset: usize) -> Result<Self> {
        self.0.view(desc, offset)
    }

    fn map(&self, mode: MapMode) -> Result<Box<dyn Mapping>> {
        self.0.map(mode)
    }
}

impl Event for ErasedEvent {
    fn wait(&self) -> Result<()> {
        self.0.wait()
    }

    fn status(&self) -> Result<EventStatus> {
        self.0.status()
    }

    fn timestamps(&self) -> Result<Option<Timestamps>> {
        self.0.timestamps()
    }
}

impl Primitive for ErasedPrimitive {
    type B = Erased;

    fn engine_id(&self) -> EngineId {
        self.0.engine_id()
    }

    fn desc(&self) -> &PrimitiveDesc {
        self.0.desc()
    }

    fn implementation(&self) -> &str {
        self.0.implementation()
    }

    fn scratchpad_size(&self) -> usize {
        self.0.scratchpad_size()
    }

    fn launches(&self) -> usize {
        self.0.launches()
    }
}

/// [`Engine`] as a trait object.
trait EngineObject: Debug + Send + Sync {
    fn any(&self) -> &dyn Any;
    fn id(&self) -> EngineId;
    fn device(&self) -> &DeviceInfo;
    fn capabilities(&self) -> &Capabilities;
    fn create_stream(&self, desc: &StreamDesc) -> Result<ErasedStream>;
    fn create_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<ErasedMemory>;
    fn create_unbacked_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<ErasedMemory>;
    fn create_primitive(&self, desc: &PrimitiveDesc) -> Result<ErasedPrimitive>;
    fn allocator(&self) -> Arc<dyn Allocator<B = Erased>>;
    fn cache_blob_id(&self) -> Result<Vec<u8>>;
    fn cache_blob(&self) -> Result<Vec<u8>>;
}

/// [`Stream`] as a trait object.
trait StreamObject: Debug + Send + Sync {
    fn any(&self) -> &dyn Any;
    fn engine_id(&self) -> EngineId;
    fn desc(&self) -> &StreamDesc;
    fn execute(
        &self,
        primitive: &ErasedPrimitive,
        args: &[(Arg, ErasedMemory)],
        deps: &[ErasedEvent],
    ) -> Result<ErasedEvent>;
    fn copy(&self, from: Range<Erased>, to: Range<Erased>, deps: &[ErasedEvent]) -> Result<ErasedEvent>;
    fn write(
        &self,
        memory: &ErasedMemory,
        offset: usize,
        bytes: &[u8],
        deps: &[ErasedEvent],
    ) -> Result<ErasedEvent>;
    fn read(
        &self,
        memory: &ErasedMemory,
        offset: usize,
        bytes: &mut [u8],
        deps: &[ErasedEvent],
    ) -> Result<()>;
    fn marker(&self, deps: &[ErasedEvent]) -> Result<ErasedEvent>;
    fn flush(&self) -> Result<()>;
    fn wait(&self) -> Result<()>;
    fn profile(&self) -> Result<Vec<Profiled>>;
    fn reset_profile(&self) -> Result<()>;
}

/// [`Memory`] as a trait object.
trait MemoryObject: Debug + Send + Sync {
    fn any(&self) -> &dyn Any;
    fn engine_id(&self) -> EngineId;
    fn desc(&self) -> &MemoryDesc;
    fn kind(&self) -> MemoryKind;
    fn region(&self) -> Region;
    fn identity(&self) -> u64;
    fn view(&self, desc: &MemoryDesc, offset: usize) -> Result<ErasedMemory>;
    fn map(&self, mode: MapMode) -> Result<Box<dyn Mapping>>;
}

/// [`Event`] as a trait object.
trait EventObject: Debug + Send + Sync {
    fn any(&self) -> &dyn Any;
    fn wait(&self) -> Result<()>;
    fn status(&self) -> Result<EventStatus>;
    fn timestamps(&self) -> Result<Option<Timestamps>>;
}

/// [`Primitive`] as a trait object.
trait PrimitiveObject: Debug + Send + Sync {
    fn any(&self) -> &dyn Any;
    fn engine_id(&self) -> EngineId;
    fn desc(&self) -> &PrimitiveDesc;
    fn implementation(&self) -> &str;
    fn scratchpad_size(&self) -> usize;
    fn launches(&self) -> usize;
}

impl<E: Engine> EngineObject for E {
    fn any(&self) -> &dyn Any {
        self
    }

    fn id(&self) -> EngineId {
        Engine::id(self)
    }

    fn device(&self) -> &DeviceInfo {
        Engine::device(self)
    }

    fn capabilities(&self) -> &Capabilities {
        Engine::capabilities(self)
    }

    fn create_stream(&self, desc: &StreamDesc) -> Result<ErasedStream> {
        Engine::create_stream(self, desc).map(ErasedStream::new)
    }

    fn create_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<ErasedMemory> {
        Engine::create_memory(self, desc, kind).map(ErasedMemory::new)
    }

    fn create_unbacked_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<ErasedMemory> {
        Engine::create_unbacked_memory(self, desc, kind).map(ErasedMemory::new)
    }

    fn create_primitive(&self, desc: &PrimitiveDesc) -> Result<ErasedPrimitive> {
        Engine::create_primitive(self, desc).map(ErasedPrimitive::new)
    }

    fn allocator(&self) -> Arc<dyn Allocator<B = Erased>> {
        Arc::new(ErasedAllocator::<E::B> { inner: Engine::allocator(self), backend: PhantomData })
    }

    fn cache_blob_id(&self) -> Result<Vec<u8>> {
        Engine::cache_blob_id(self)
    }

    fn cache_blob(&self) -> Result<Vec<u8>> {
        Engine::cache_blob(self)
    }
}

impl<S: Stream> StreamObject for S {
    fn any(&self) -> &dyn Any {
        self
    }

    fn engine_id(&self) -> EngineId {
        Stream::engine_id(self)
    }

    fn desc(&self) -> &StreamDesc {
        Stream::desc(self)
    }

    fn execute(
        &self,
        primitive: &ErasedPrimitive,
        args: &[(Arg, ErasedMemory)],
        deps: &[ErasedEvent],
    ) -> Result<ErasedEvent> {
        let primitive = primitive.expect::<<S::B as Backend>::Primitive>("execute")?;
        let args = args
            .iter()
            .map(|(arg, memory)| Ok((*arg, memory.expect::<<S::B as Backend>::Memory>("execute")?.clone())))
            .collect::<Result<Vec<_>>>()?;
        Stream::execute(self, primitive, &args, &events::<S::B>(deps)?).map(ErasedEvent::new)
    }

    fn copy(&self, from: Range<Erased>, to: Range<Erased>, deps: &[ErasedEvent]) -> Result<ErasedEvent> {
        Stream::copy(self, range::<S::B>(&from)?, range::<S::B>(&to)?, &events::<S::B>(deps)?)
            .map(ErasedEvent::new)
    }

    fn write(
        &self,
        memory: &ErasedMemory,
        offset: usize,
        bytes: &[u8],
        deps: &[ErasedEvent],
    ) -> Result<ErasedEvent> {
        Stream::write(self, memory.expect("write")?, offset, bytes, &events::<S::B>(deps)?)
            .map(ErasedEvent::new)
    }

    fn read(
        &self,
        memory: &ErasedMemory,
        offset: usize,
        bytes: &mut [u8],
        deps: &[ErasedEvent],
    ) -> Result<()> {
        Stream::read(self, memory.expect("read")?, offset, bytes, &events::<S::B>(deps)?)
    }

    fn marker(&self, deps: &[ErasedEvent]) -> Result<ErasedEvent> {
        Stream::marker(self, &events::<S::B>(deps)?).map(ErasedEvent::new)
    }

    fn flush(&self) -> Result<()> {
        Stream::flush(self)
    }

    fn wait(&self) -> Result<()> {
        Stream::wait(self)
    }

    fn profile(&self) -> Result<Vec<Profiled>> {
        Stream::profile(self)
    }

    fn reset_profile(&self) -> Result<()> {
        Stream::reset_profile(self)
    }
}

impl<M: Memory> MemoryObject for M {
    fn any(&self) -> &dyn Any {
        self
    }

    fn engine_id(&self) -> EngineId {
        Memory::engine_id(self)
    }

    fn desc(&self) -> &MemoryDesc {
        Memory::desc(self)
    }

    fn kind(&self) -> MemoryKind {
        Memory::kind(self)
    }

    fn region(&self) -> Region {
        Memory::region(self)
    }

    fn identity(&self) -> u64 {
        Memory::identity(self)
    }

    fn view(&self, desc: &MemoryDesc, offset: usize) -> Result<ErasedMemory> {
        Memory::view(self, desc, offset).map(ErasedMemory::new)
    }

    fn map(&self, mode: MapMode) -> Result<Box<dyn Mapping>> {
        Memory::map(self, mode)
    }
}

impl<T: Event> EventObject for T {
    fn any(&self) -> &dyn Any {
        self
    }

    fn wait(&self) -> Result<()> {
        Event::wait(self)
    }

    fn status(&self) -> Result<EventStatus> {
        Event::status(self)
    }

    fn timestamps(&self) -> Result<Option<Timestamps>> {
        Event::timestamps(self)
    }
}

impl<P: Primitive> PrimitiveObject for P {
    fn any(&self) -> &dyn Any {
        self
    }

    fn engine_id(&self) -> EngineId {
        Primitive::engine_id(self)
    }

    fn desc(&self) -> &PrimitiveDesc {
        Primitive::desc(self)
    }

    fn implementation(&self) -> &str {
        Primitive::implementation(self)
    }

    fn scratchpad_size(&self) -> usize {
        Primitive::scratchpad_size(self)
    }

    fn launches(&self) -> usize {
        Primitive::launches(self)
    }
}

/// Passes requests on to the allocator of an erased engine.
#[derive(Debug)]
struct ErasedAllocator<B: Backend> {
    inner: Arc<dyn Allocator<B = B>>,
    backend: PhantomData<B>,
}

impl<B: Backend> Allocator for ErasedAllocator<B> {
    type B = Erased;

    fn allocate(&self, bytes: usize, alignment: usize) -> Result<ErasedMemory> {
        self.inner.allocate(bytes, alignment).map(ErasedMemory::new)
    }

    fn free(&self, memory: ErasedMemory, after: Option<&ErasedEvent>) -> Result<()> {
        let after = after.map(|event| event.expect::<B::Event>("free")).transpose()?;
        let own = memory.expect::<B::Memory>("free")?.clone();
        // Another handle would keep the memory from being reused.
        drop(memory);
        self.inner.free(own, after)
    }

    fn stats(&self) -> AllocatorStats {
        self.inner.stats()
    }

    fn trim(&self) {
        self.inner.trim();
    }

    fn keeps_apart(&self) -> bool {
        self.inner.keeps_apart()
    }
}

fn events<B: Backend>(erased: &[ErasedEvent]) -> Result<Vec<B::Event>> {
    erased.iter().map(|event| event.expect::<B::Event>("dependency").cloned()).collect()
}

fn range<B: Backend>(erased: &Range<Erased>) -> Result<Range<B>> {
    let memory = erased.memory.expect::<B::Memory>("copy")?.clone();
    Ok(Range { memory, offset: erased.offset, bytes: erased.bytes })
}

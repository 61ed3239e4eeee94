//! [`AnyBackend`]: a backend whose types are enums over the enabled backends.

use std::fmt::{Debug, Display};
use std::sync::Arc;

use anydnn_backend::{
    Allocator, AllocatorStats, Arg, Backend, Capabilities, DeviceInfo, Engine, EngineId, Erased,
    ErasedEngine, ErasedEvent, ErasedMemory, ErasedPrimitive, ErasedStream, Error, Event, EventStatus, List,
    ListStep, MapMode, Mapping, Memory, MemoryDesc, MemoryKind, Primitive, PrimitiveDesc, Profiled, Range,
    Region, Result, Stream, StreamDesc, Timestamps,
};
#[cfg(feature = "host")]
use anydnn_host::{Host, HostEngine, HostEvent, HostMemory, HostPrimitive, HostStream};
#[cfg(feature = "mock")]
use anydnn_mock::{Mock, MockEngine, MockEvent, MockMemory, MockPrimitive, MockStream};
#[cfg(feature = "opencl")]
use anydnn_opencl::{OpenCl, OpenClEngine, OpenClEvent, OpenClMemory, OpenClPrimitive, OpenClStream};

/// The family of types that hold an object of any enabled backend.
///
/// Code that is generic over [`Backend`] runs on it unchanged; the backend is chosen at run time. Mixing objects of two backends is an
/// [`Error::Mismatch`].
#[derive(Debug)]
pub enum AnyBackend {}

impl Backend for AnyBackend {
    type Engine = AnyEngine;
    type Stream = AnyStream;
    type Memory = AnyMemory;
    type Event = AnyEvent;
    type Primitive = AnyPrimitive;
}

/// One enum over the backends' types of one role.
macro_rules! any_type {
    ($any:ident, $doc:literal, $($(#[$gate:meta])* $variant:ident($type:ty), $name:literal, $own:ident;)+) => {
        #[doc = $doc]
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum $any {
            $(
                $(#[$gate])*
                #[doc = concat!("Of the backend `", $name, "`.")]
                $variant($type),
            )+
        }

        impl $any {
            /// The name of the backend it belongs to.
            pub const fn backend(&self) -> &'static str {
                match self {
                    $($(#[$gate])* Self::$variant(_) => $name,)+
                }
            }

            $(
                $(#[$gate])*
                #[doc = concat!("The object itself, if it is of the backend `", $name, "`.")]
                pub const fn $own(&self) -> Option<&$type> {
                    match self {
                        Self::$variant(own) => Some(own),
                        // With a single enabled backend nothing is left.
                        #[allow(unreachable_patterns)]
                        _ => None,
                    }
                }
            )+
        }

        $(
            $(#[$gate])*
            impl From<$type> for $any {
                fn from(own: $type) -> Self {
                    Self::$variant(own)
                }
            }
        )+
    };
}

/// Generates the enums, their connection to [`Variant`], and `each!`, which evaluates an expression on whichever backend's object it is.
macro_rules! any_backend {
    ($d:tt $(
        $(#[$gate:meta])*
        $variant:ident, $name:literal, $own:ident,
        $backend:ty { $engine:ty, $stream:ty, $memory:ty, $event:ty, $primitive:ty }
    )+) => {
        any_type!(AnyEngine, "An engine of any enabled backend.", $($(#[$gate])* $variant($engine), $name, $own;)+);
        any_type!(AnyStream, "A stream of any enabled backend.", $($(#[$gate])* $variant($stream), $name, $own;)+);
        any_type!(AnyMemory, "A memory of any enabled backend.", $($(#[$gate])* $variant($memory), $name, $own;)+);
        any_type!(AnyEvent, "An event of any enabled backend.", $($(#[$gate])* $variant($event), $name, $own;)+);
        any_type!(AnyPrimitive, "A primitive of any enabled backend.", $($(#[$gate])* $variant($primitive), $name, $own;)+);

        $(
            $(#[$gate])*
            impl Variant for $backend {
                const NAME: &'static str = $name;

                fn stream(any: &AnyStream) -> Option<&Self::Stream> {
                    any.$own()
                }

                fn memory(any: &AnyMemory) -> Option<&Self::Memory> {
                    any.$own()
                }

                fn event(any: &AnyEvent) -> Option<&Self::Event> {
                    any.$own()
                }

                fn primitive(any: &AnyPrimitive) -> Option<&Self::Primitive> {
                    any.$own()
                }

                fn any_memory(own: Self::Memory) -> AnyMemory {
                    AnyMemory::$variant(own)
                }

                fn any_event(own: Self::Event) -> AnyEvent {
                    AnyEvent::$variant(own)
                }
            }
        )+

        macro_rules! each {
            ($d any:ident, $d value:expr, $d object:ident => $d result:expr) => {
                match $d value {
                    $($(#[$gate])* $d any::$variant($d object) => $d result,)+
                }
            };
            // The result is wrapped in the same backend's variant of another enum.
            ($d any:ident, $d value:expr, $d object:ident => $d result:expr, into $d other:ident) => {
                match $d value {
                    $($(#[$gate])* $d any::$variant($d object) => $d result.map($d other::$variant),)+
                }
            };
        }
    };
}

any_backend! { $
    #[cfg(feature = "host")]
    Host, "host", as_host, Host { HostEngine, HostStream, HostMemory, HostEvent, HostPrimitive }
    #[cfg(feature = "opencl")]
    OpenCl, "opencl", as_opencl, OpenCl { OpenClEngine, OpenClStream, OpenClMemory, OpenClEvent, OpenClPrimitive }
    #[cfg(feature = "mock")]
    Mock, "mock", as_mock, Mock { MockEngine, MockStream, MockMemory, MockEvent, MockPrimitive }
    Erased, "erased", as_erased, Erased { ErasedEngine, ErasedStream, ErasedMemory, ErasedEvent, ErasedPrimitive }
}

impl Engine for AnyEngine {
    type B = AnyBackend;

    fn id(&self) -> EngineId {
        each!(AnyEngine, self, engine => engine.id())
    }

    fn device(&self) -> &DeviceInfo {
        each!(AnyEngine, self, engine => engine.device())
    }

    fn capabilities(&self) -> &Capabilities {
        each!(AnyEngine, self, engine => engine.capabilities())
    }

    fn create_stream(&self, desc: &StreamDesc) -> Result<AnyStream> {
        each!(AnyEngine, self, engine => engine.create_stream(desc), into AnyStream)
    }

    fn create_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<AnyMemory> {
        each!(AnyEngine, self, engine => engine.create_memory(desc, kind), into AnyMemory)
    }

    fn create_unbacked_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<AnyMemory> {
        each!(AnyEngine, self, engine => engine.create_unbacked_memory(desc, kind), into AnyMemory)
    }

    fn create_primitive(&self, desc: &PrimitiveDesc) -> Result<AnyPrimitive> {
        each!(AnyEngine, self, engine => engine.create_primitive(desc), into AnyPrimitive)
    }

    fn ready(
        &self,
        steps: &[ListStep<AnyBackend>],
        slots: usize,
    ) -> Result<Option<Box<dyn List<AnyBackend>>>> {
        each!(AnyEngine, self, engine => ready(engine, steps, slots))
    }

    fn allocator(&self) -> Arc<dyn Allocator<B = AnyBackend>> {
        each!(AnyEngine, self, engine => Arc::new(AnyAllocator { inner: engine.allocator() }))
    }

    fn cache_blob_id(&self) -> Result<Vec<u8>> {
        each!(AnyEngine, self, engine => engine.cache_blob_id())
    }

    fn cache_blob(&self) -> Result<Vec<u8>> {
        each!(AnyEngine, self, engine => engine.cache_blob())
    }
}

impl Stream for AnyStream {
    type B = AnyBackend;

    fn engine_id(&self) -> EngineId {
        each!(AnyStream, self, stream => stream.engine_id())
    }

    fn desc(&self) -> &StreamDesc {
        each!(AnyStream, self, stream => stream.desc())
    }

    /// The backend's own stream validates, so the arguments are checked once.
    fn execute(
        &self,
        primitive: &AnyPrimitive,
        args: &[(Arg, AnyMemory)],
        deps: &[AnyEvent],
    ) -> Result<AnyEvent> {
        each!(AnyStream, self, stream => enqueue(stream, primitive, args, deps, Stream::execute))
    }

    fn execute_validated(
        &self,
        primitive: &AnyPrimitive,
        args: &[(Arg, AnyMemory)],
        deps: &[AnyEvent],
    ) -> Result<AnyEvent> {
        each!(AnyStream, self, stream => enqueue(stream, primitive, args, deps, Stream::execute_validated))
    }

    fn copy(&self, from: Range<AnyBackend>, to: Range<AnyBackend>, deps: &[AnyEvent]) -> Result<AnyEvent> {
        each!(AnyStream, self, stream => copy(stream, &from, &to, deps))
    }

    fn write(&self, memory: &AnyMemory, offset: usize, bytes: &[u8], deps: &[AnyEvent]) -> Result<AnyEvent> {
        each!(AnyStream, self, stream => write(stream, memory, offset, bytes, deps))
    }

    fn read(&self, memory: &AnyMemory, offset: usize, bytes: &mut [u8], deps: &[AnyEvent]) -> Result<()> {
        each!(AnyStream, self, stream => read(stream, memory, offset, bytes, deps))
    }

    fn marker(&self, deps: &[AnyEvent]) -> Result<AnyEvent> {
        each!(AnyStream, self, stream => marker(stream, deps))
    }

    fn flush(&self) -> Result<()> {
        each!(AnyStream, self, stream => stream.flush())
    }

    fn wait(&self) -> Result<()> {
        each!(AnyStream, self, stream => stream.wait())
    }

    fn profile(&self) -> Result<Vec<Profiled>> {
        each!(AnyStream, self, stream => stream.profile())
    }

    fn reset_profile(&self) -> Result<()> {
        each!(AnyStream, self, stream => stream.reset_profile())
    }
}

impl Memory for AnyMemory {
    type B = AnyBackend;

    fn engine_id(&self) -> EngineId {
        each!(AnyMemory, self, memory => memory.engine_id())
    }

    fn desc(&self) -> &MemoryDesc {
        each!(AnyMemory, self, memory => memory.desc())
    }

    fn kind(&self) -> MemoryKind {
        each!(AnyMemory, self, memory => memory.kind())
    }

    fn region(&self) -> Region {
        each!(AnyMemory, self, memory => memory.region())
    }

    fn identity(&self) -> u64 {
        each!(AnyMemory, self, memory => memory.identity())
    }

    fn view(&self, desc: &MemoryDesc, offset: usize) -> Result<Self> {
        each!(AnyMemory, self, memory => memory.view(desc, offset), into AnyMemory)
    }

    fn map(&self, mode: MapMode) -> Result<Box<dyn Mapping>> {
        each!(AnyMemory, self, memory => memory.map(mode))
    }
}

impl Event for AnyEvent {
    fn wait(&self) -> Result<()> {
        each!(AnyEvent, self, event => event.wait())
    }

    fn status(&self) -> Result<EventStatus> {
        each!(AnyEvent, self, event => event.status())
    }

    fn timestamps(&self) -> Result<Option<Timestamps>> {
        each!(AnyEvent, self, event => event.timestamps())
    }
}

impl Primitive for AnyPrimitive {
    type B = AnyBackend;

    fn engine_id(&self) -> EngineId {
        each!(AnyPrimitive, self, primitive => primitive.engine_id())
    }

    fn desc(&self) -> &PrimitiveDesc {
        each!(AnyPrimitive, self, primitive => primitive.desc())
    }

    fn implementation(&self) -> &str {
        each!(AnyPrimitive, self, primitive => primitive.implementation())
    }

    fn scratchpad_size(&self) -> usize {
        each!(AnyPrimitive, self, primitive => primitive.scratchpad_size())
    }

    fn launches(&self) -> usize {
        each!(AnyPrimitive, self, primitive => primitive.launches())
    }
}

/// A backend that has a variant in [`AnyBackend`].
trait Variant: Backend {
    /// The backend's name in messages.
    const NAME: &'static str;

    fn stream(any: &AnyStream) -> Option<&Self::Stream>;
    fn memory(any: &AnyMemory) -> Option<&Self::Memory>;
    fn event(any: &AnyEvent) -> Option<&Self::Event>;
    fn primitive(any: &AnyPrimitive) -> Option<&Self::Primitive>;
    fn any_memory(own: Self::Memory) -> AnyMemory;
    fn any_event(own: Self::Event) -> AnyEvent;
}

/// Passes requests on to the allocator of the backend.
#[derive(Debug)]
struct AnyAllocator<B: Backend> {
    inner: Arc<dyn Allocator<B = B>>,
}

impl<B: Variant> Allocator for AnyAllocator<B> {
    type B = AnyBackend;

    fn allocate(&self, bytes: usize, alignment: usize) -> Result<AnyMemory> {
        self.inner.allocate(bytes, alignment).map(B::any_memory)
    }

    fn free(&self, memory: AnyMemory, after: Option<&AnyEvent>) -> Result<()> {
        let after = after.map(|event| own_event::<B>("free", event)).transpose()?;
        let own = own_memory::<B>("free", "the memory", &memory)?.clone();
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

/// A list of a backend.
#[derive(Debug)]
struct AnyList<B: Backend>(Box<dyn List<B>>);

impl<B: Variant> List<AnyBackend> for AnyList<B> {
    fn enqueue(&mut self, stream: &AnyStream, slots: &[&AnyMemory], deps: &[AnyEvent]) -> Result<AnyEvent> {
        let own = B::stream(stream).ok_or_else(|| foreign::<B>("execute", "a stream", stream.backend()))?;
        let slots = slots
            .iter()
            .map(|memory| own_memory::<B>("execute", "the memory", memory))
            .collect::<Result<Vec<_>>>()?;
        self.0.enqueue(own, &slots, &events::<B>("execute", deps)?).map(B::any_event)
    }
}

fn ready<E>(
    engine: &E,
    steps: &[ListStep<AnyBackend>],
    slots: usize,
) -> Result<Option<Box<dyn List<AnyBackend>>>>
where
    E: Engine,
    E::B: Variant<Engine = E>,
{
    let own = |step: &ListStep<AnyBackend>| {
        let primitive = E::B::primitive(&step.primitive)
            .ok_or_else(|| foreign::<E::B>("execute", "a primitive", step.primitive.backend()))?;
        Ok(ListStep {
            primitive: primitive.clone(),
            args: step.args.clone(),
            waits_for: step.waits_for.clone(),
        })
    };
    let steps = steps.iter().map(own).collect::<Result<Vec<_>>>()?;
    let list = engine.ready(&steps, slots)?;
    Ok(list.map(|list| Box::new(AnyList(list)) as Box<dyn List<AnyBackend>>))
}

/// One of [`Stream::execute`] and [`Stream::execute_validated`].
type Execute<B> = fn(
    &<B as Backend>::Stream,
    &<B as Backend>::Primitive,
    &[(Arg, <B as Backend>::Memory)],
    &[<B as Backend>::Event],
) -> Result<<B as Backend>::Event>;

fn enqueue<S: Stream<B: Variant>>(
    stream: &S,
    primitive: &AnyPrimitive,
    args: &[(Arg, AnyMemory)],
    deps: &[AnyEvent],
    execute: Execute<S::B>,
) -> Result<AnyEvent> {
    let own = S::B::primitive(primitive).ok_or_else(|| {
        foreign::<S::B>("execute", format!("primitive {}", primitive.desc().name()), primitive.backend())
    })?;
    let args = args
        .iter()
        .map(|(arg, memory)| Ok((*arg, own_memory::<S::B>("execute", arg, memory)?.clone())))
        .collect::<Result<Vec<_>>>()?;
    execute(stream, own, &args, &events::<S::B>("execute", deps)?).map(S::B::any_event)
}

fn copy<S: Stream<B: Variant>>(
    stream: &S,
    from: &Range<AnyBackend>,
    to: &Range<AnyBackend>,
    deps: &[AnyEvent],
) -> Result<AnyEvent> {
    let (from, to) = (range::<S::B>("copy from", from)?, range::<S::B>("copy to", to)?);
    stream.copy(from, to, &events::<S::B>("copy", deps)?).map(S::B::any_event)
}

fn write<S: Stream<B: Variant>>(
    stream: &S,
    memory: &AnyMemory,
    offset: usize,
    bytes: &[u8],
    deps: &[AnyEvent],
) -> Result<AnyEvent> {
    let own = own_memory::<S::B>("write", "the memory", memory)?;
    stream.write(own, offset, bytes, &events::<S::B>("write", deps)?).map(S::B::any_event)
}

fn read<S: Stream<B: Variant>>(
    stream: &S,
    memory: &AnyMemory,
    offset: usize,
    bytes: &mut [u8],
    deps: &[AnyEvent],
) -> Result<()> {
    let own = own_memory::<S::B>("read", "the memory", memory)?;
    stream.read(own, offset, bytes, &events::<S::B>("read", deps)?)
}

fn marker<S: Stream<B: Variant>>(stream: &S, deps: &[AnyEvent]) -> Result<AnyEvent> {
    stream.marker(&events::<S::B>("marker", deps)?).map(S::B::any_event)
}

fn own_memory<'a, B: Variant>(
    operation: &str,
    what: impl Display,
    memory: &'a AnyMemory,
) -> Result<&'a B::Memory> {
    B::memory(memory).ok_or_else(|| foreign::<B>(operation, what, memory.backend()))
}

fn own_event<'a, B: Variant>(operation: &str, event: &'a AnyEvent) -> Result<&'a B::Event> {
    B::event(event).ok_or_else(|| foreign::<B>(operation, "a dependency", event.backend()))
}

fn events<B: Variant>(operation: &str, deps: &[AnyEvent]) -> Result<Vec<B::Event>> {
    deps.iter().map(|event| own_event::<B>(operation, event).cloned()).collect()
}

fn range<B: Variant>(operation: &str, range: &Range<AnyBackend>) -> Result<Range<B>> {
    let memory = own_memory::<B>(operation, "the memory", &range.memory)?.clone();
    Ok(Range { memory, offset: range.offset, bytes: range.bytes })
}

fn foreign<B: Variant>(operation: &str, what: impl Display, backend: &str) -> Error {
    Error::mismatch(operation, format!("{what} of backend {backend}"), format!("backend {}", B::NAME))
}

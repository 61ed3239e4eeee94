//! Mocks of the single traits, with expectations.

#![allow(
    missing_docs,
    reason = "the expectations are generated; the mocked traits are documented in the contract"
)]
#![allow(clippy::pedantic, reason = "generated code")]

mod identity;

use std::fmt;
use std::sync::Arc;

use anydnn_backend::{
    Allocator, AllocatorStats, Arg, Backend, Capabilities, DeviceInfo, Engine, EngineId, Event, EventStatus,
    List, ListStep, MapMode, Mapping, Memory, MemoryDesc, MemoryKind, Primitive, PrimitiveDesc, Profiled,
    Region, Result, Stream, StreamDesc, Timestamps,
};

pub use self::identity::MockallIdentity;

/// The family of the `mockall` mocks: nothing computes, every call answers what a test expects of it.
///
/// For one collaborator's error paths and call counts; [`Mock`](crate::Mock) is for everything that is to compute. [`MockallIdentity`] gives
/// mocks what objects of one engine have in common, for code that clones them and asks to whom they belong.
///
/// ```
/// use anydnn_backend::{Error, Event, Stream};
/// use anydnn_mock::{MockallEvent, MockallStream};
///
/// fn drain(stream: &impl Stream) -> anydnn_backend::Result<()> {
///     stream.flush()?;
///     stream.marker(&[])?.wait()
/// }
///
/// let mut stream = MockallStream::new();
/// stream.expect_flush().times(1).returning(|| Ok(()));
/// stream.expect_marker().times(1).returning(|_| {
///     let mut event = MockallEvent::new();
///     event.expect_wait().returning(|| Err(Error::DeviceLost("unplugged".into())));
///     Ok(event)
/// });
/// assert!(matches!(drain(&stream), Err(Error::DeviceLost(_))));
/// ```
#[derive(Debug)]
pub enum Mockall {}

impl Backend for Mockall {
    type Engine = MockallEngine;
    type Stream = MockallStream;
    type Memory = MockallMemory;
    type Event = MockallEvent;
    type Primitive = MockallPrimitive;
}

// The macro puts `Mock` in front of the names.
::mockall::mock! {
    pub allEngine {}

    impl Clone for allEngine {
        fn clone(&self) -> Self;
    }

    impl Engine for allEngine {
        type B = Mockall;
        fn id(&self) -> EngineId;
        fn device(&self) -> &DeviceInfo;
        fn capabilities(&self) -> &Capabilities;
        fn create_stream(&self, desc: &StreamDesc) -> Result<MockallStream>;
        fn create_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<MockallMemory>;
        fn create_unbacked_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<MockallMemory>;
        fn create_primitive(&self, desc: &PrimitiveDesc) -> Result<MockallPrimitive>;
        fn ready(&self, steps: &[ListStep<Mockall>], slots: usize) -> Result<Option<Box<dyn List<Mockall>>>>;
        fn allocator(&self) -> Arc<dyn Allocator<B = Mockall>>;
        fn cache_blob_id(&self) -> Result<Vec<u8>>;
        fn cache_blob(&self) -> Result<Vec<u8>>;
    }
}

::mockall::mock! {
    pub allStream {}

    impl Clone for allStream {
        fn clone(&self) -> Self;
    }

    impl Stream for allStream {
        type B = Mockall;
        fn engine_id(&self) -> EngineId;
        fn desc(&self) -> &StreamDesc;
        fn execute(
            &self,
            primitive: &MockallPrimitive,
            args: &[(Arg, MockallMemory)],
            deps: &[MockallEvent],
        ) -> Result<MockallEvent>;
        fn execute_validated(
            &self,
            primitive: &MockallPrimitive,
            args: &[(Arg, MockallMemory)],
            deps: &[MockallEvent],
        ) -> Result<MockallEvent>;
        fn copy(&self, from: anydnn_backend::Range<Mockall>, to: anydnn_backend::Range<Mockall>, deps: &[MockallEvent]) -> Result<MockallEvent>;
        fn write(
            &self,
            memory: &MockallMemory,
            offset: usize,
            bytes: &[u8],
            deps: &[MockallEvent],
        ) -> Result<MockallEvent>;
        fn read(
            &self,
            memory: &MockallMemory,
            offset: usize,
            bytes: &mut [u8],
            deps: &[MockallEvent],
        ) -> Result<()>;
        fn marker(&self, deps: &[MockallEvent]) -> Result<MockallEvent>;
        fn flush(&self) -> Result<()>;
        fn wait(&self) -> Result<()>;
        fn profile(&self) -> Result<Vec<Profiled>>;
        fn reset_profile(&self) -> Result<()>;
    }
}

::mockall::mock! {
    pub allMemory {}

    impl Clone for allMemory {
        fn clone(&self) -> Self;
    }

    impl Memory for allMemory {
        type B = Mockall;
        fn engine_id(&self) -> EngineId;
        fn desc(&self) -> &MemoryDesc;
        fn kind(&self) -> MemoryKind;
        fn region(&self) -> Region;
        fn identity(&self) -> u64;
        fn is_backed(&self) -> bool;
        fn replace(&mut self, bytes: &Self) -> Result<()>;
        fn view(&self, desc: &MemoryDesc, offset: usize) -> Result<Self>;
        fn map(&self, mode: MapMode) -> Result<Box<dyn Mapping>>;
    }
}

::mockall::mock! {
    pub allEvent {}

    impl Clone for allEvent {
        fn clone(&self) -> Self;
    }

    impl Event for allEvent {
        fn wait(&self) -> Result<()>;
        fn status(&self) -> Result<EventStatus>;
        fn timestamps(&self) -> Result<Option<Timestamps>>;
    }
}

::mockall::mock! {
    pub allPrimitive {}

    impl Clone for allPrimitive {
        fn clone(&self) -> Self;
    }

    impl Primitive for allPrimitive {
        type B = Mockall;
        fn engine_id(&self) -> EngineId;
        fn desc(&self) -> &PrimitiveDesc;
        fn implementation(&self) -> &str;
        fn scratchpad_size(&self) -> usize;
        fn launches(&self) -> usize;
    }
}

::mockall::mock! {
    pub allAllocator {}

    impl Allocator for allAllocator {
        type B = Mockall;
        fn allocate(&self, bytes: usize, alignment: usize) -> Result<MockallMemory>;
        fn free<'a>(&self, memory: MockallMemory, after: Option<&'a MockallEvent>) -> Result<()>;
        fn stats(&self) -> AllocatorStats;
        fn trim(&self);
        fn keeps_apart(&self) -> bool;
    }
}

::mockall::mock! {
    pub allList {}

    impl List<Mockall> for allList {
        fn enqueue<'a>(
            &mut self,
            stream: &MockallStream,
            slots: &[&'a MockallMemory],
            deps: &[MockallEvent],
        ) -> Result<MockallEvent>;
    }
}

/// The generated mocks have no `Debug` of their own, and the traits ask for it.
macro_rules! debug {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}

debug!(
    MockallEngine,
    MockallStream, MockallMemory, MockallEvent, MockallPrimitive, MockallAllocator, MockallList
);

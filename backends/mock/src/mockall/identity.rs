//! What mocks of one engine have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anydnn_backend::{
    Capabilities, DataType, DeviceInfo, DeviceKind, Engine, EngineId, Event, MemoryDesc, MemoryKind,
    PrimitiveDesc, Region, Stream, StreamDesc,
};

use super::{MockallAllocator, MockallEngine, MockallEvent, MockallMemory, MockallPrimitive, MockallStream};

/// An engine's identity for mocks: they belong to it, describe themselves, and their clones are handles to the same mock, as those of every
/// backend are. What they *do* is left to the test's expectations, and a call that no expectation takes fails the test.
///
/// ```
/// use anydnn_backend::{DataType, Engine, Error, Memory, MemoryDesc, MemoryKind};
/// use anydnn_mock::{MockallEngine, MockallIdentity};
///
/// let identity = MockallIdentity::new();
/// let mut engine = MockallEngine::new();
/// let made = identity.clone();
/// engine.expect_create_memory().times(1).returning(move |desc, _| Ok(made.memory(desc)));
/// let full = || Err(Error::OutOfMemory { what: "the second".into(), bytes: 8 });
/// engine.expect_create_memory().times(1).returning(move |_, _| full());
/// let engine = identity.engine(engine);
///
/// let desc = MemoryDesc::new([2], DataType::F32);
/// let memory = engine.create_memory(&desc, MemoryKind::Buffer)?;
/// assert_eq!(memory.engine_id(), engine.id());
/// // The clone is the same engine, so this is its second memory.
/// assert!(engine.clone().create_memory(&desc, MemoryKind::Buffer).is_err());
/// assert_eq!(identity.handles(), 1);
/// drop(memory);
/// assert_eq!(identity.handles(), 0);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MockallIdentity {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    engine: EngineId,
    device: DeviceInfo,
    capabilities: Capabilities,
    /// Every memory, primitive and event holds it.
    token: Arc<()>,
}

impl Default for MockallIdentity {
    fn default() -> Self {
        Self::new()
    }
}

/// Forwards calls of a mock to another one, which they share.
macro_rules! forward {
    ($from:ident to $to:ident: $($expect:ident => $method:ident($($argument:ident),*)),* $(,)?) => {$(
        let shared = Arc::clone(&$to);
        $from.$expect().returning(move |$($argument),*| shared.$method($($argument),*));
    )*};
}

impl MockallIdentity {
    /// An engine of its own, on an accelerator with buffers of every type.
    pub fn new() -> Self {
        let word = |word: &str| word.to_owned();
        let device = DeviceInfo {
            backend: word("mockall"),
            platform: word("mockall"),
            name: word("a mock without a device"),
            vendor: word("anydnn"),
            driver: word("1"),
            kind: DeviceKind::Accelerator,
        };
        let mut capabilities = Capabilities::default();
        capabilities.memory_kinds = vec![MemoryKind::Buffer];
        capabilities.storage_types = DataType::ALL.to_vec();
        capabilities.out_of_order = true;
        let inner = Inner { engine: EngineId::unique(), device, capabilities, token: Arc::new(()) };
        Self { inner: Arc::new(inner) }
    }

    /// How many handles to memories, primitives and events are alive, clones and views among them.
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.inner.token) - 1
    }

    /// The mock as this engine.
    pub fn engine(&self, mock: MockallEngine) -> MockallEngine {
        self.engine_handle(&Arc::new(mock))
    }

    /// The mock as a stream of this engine.
    pub fn stream(&self, mock: MockallStream, desc: &StreamDesc) -> MockallStream {
        self.stream_handle(&Arc::new(mock), desc)
    }

    /// The mock as an event.
    pub fn event(&self, mock: MockallEvent) -> MockallEvent {
        self.event_handle(&Arc::new(mock))
    }

    /// Memory of this engine that overlaps no other; it can be viewed, and not be mapped.
    pub fn memory(&self, desc: &MemoryDesc) -> MockallMemory {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let allocation = NEXT.fetch_add(1, Ordering::Relaxed);
        self.part(desc, Region { allocation, offset: 0, bytes: desc.size() })
    }

    /// A primitive of this engine; open layouts are row-major.
    pub fn primitive(&self, desc: &PrimitiveDesc) -> MockallPrimitive {
        let mut handle = MockallPrimitive::new();
        let desc = desc.clone().resolved_row_major();
        let (own, token, same) = (self.clone(), Arc::clone(&self.inner.token), desc.clone());
        handle.expect_clone().returning(move || {
            let _held = &token;
            own.primitive(&same)
        });
        handle.expect_engine_id().return_const(self.inner.engine);
        handle.expect_desc().return_const(desc);
        handle.expect_implementation().return_const("mockall".into());
        handle.expect_scratchpad_size().return_const(0_usize);
        handle.expect_launches().return_const(1_usize);
        handle
    }

    /// An allocator whose memory may lie next to other memory; what it allocates has to be expected.
    pub fn allocator() -> MockallAllocator {
        let mut mock = MockallAllocator::new();
        mock.expect_keeps_apart().return_const(false);
        mock
    }

    fn part(&self, desc: &MemoryDesc, region: Region) -> MockallMemory {
        let mut handle = MockallMemory::new();
        let (own, token, same) = (self.clone(), Arc::clone(&self.inner.token), desc.clone());
        handle.expect_clone().returning(move || {
            let _held = &token;
            own.part(&same, region)
        });
        let own = self.clone();
        handle.expect_view().returning(move |desc, offset| {
            Ok(own.part(desc, Region { offset: region.offset + offset, bytes: desc.size(), ..region }))
        });
        handle.expect_engine_id().return_const(self.inner.engine);
        handle.expect_desc().return_const(desc.clone());
        handle.expect_kind().return_const(MemoryKind::Buffer);
        handle.expect_region().return_const(region);
        handle.expect_identity().return_const(region.allocation);
        handle.expect_is_backed().return_const(region.bytes >= desc.size());
        handle
    }

    fn engine_handle(&self, shared: &Arc<MockallEngine>) -> MockallEngine {
        let mut handle = MockallEngine::new();
        let (own, same) = (self.clone(), Arc::clone(shared));
        handle.expect_clone().returning(move || own.engine_handle(&same));
        handle.expect_id().return_const(self.inner.engine);
        handle.expect_device().return_const(self.inner.device.clone());
        handle.expect_capabilities().return_const(self.inner.capabilities.clone());
        forward!(handle to shared:
            expect_create_stream => create_stream(desc),
            expect_create_memory => create_memory(desc, kind),
            expect_create_unbacked_memory => create_unbacked_memory(desc, kind),
            expect_create_primitive => create_primitive(desc),
            expect_ready => ready(steps, slots),
            expect_allocator => allocator(),
            expect_cache_blob_id => cache_blob_id(),
            expect_cache_blob => cache_blob(),
        );
        handle
    }

    fn stream_handle(&self, shared: &Arc<MockallStream>, desc: &StreamDesc) -> MockallStream {
        let mut handle = MockallStream::new();
        let (own, same, again) = (self.clone(), Arc::clone(shared), desc.clone());
        handle.expect_clone().returning(move || own.stream_handle(&same, &again));
        handle.expect_engine_id().return_const(self.inner.engine);
        handle.expect_desc().return_const(desc.clone());
        forward!(handle to shared:
            expect_execute => execute(primitive, args, deps),
            expect_execute_validated => execute_validated(primitive, args, deps),
            expect_copy => copy(from, to, deps),
            expect_write => write(memory, offset, bytes, deps),
            expect_read => read(memory, offset, bytes, deps),
            expect_marker => marker(deps),
            expect_flush => flush(),
            expect_wait => wait(),
            expect_profile => profile(),
            expect_reset_profile => reset_profile(),
        );
        handle
    }

    fn event_handle(&self, shared: &Arc<MockallEvent>) -> MockallEvent {
        let mut handle = MockallEvent::new();
        let (own, same, token) = (self.clone(), Arc::clone(shared), Arc::clone(&self.inner.token));
        handle.expect_clone().returning(move || {
            let _held = &token;
            own.event_handle(&same)
        });
        forward!(handle to shared:
            expect_wait => wait(),
            expect_status => status(),
            expect_timestamps => timestamps(),
        );
        handle
    }
}

//! The mock device's engine.

use std::sync::Arc;

use anydnn_backend::{
    Allocator, Capabilities, DeviceInfo, Engine, EngineId, Error, Layout, MemoryDesc, MemoryKind, Order,
    PrimitiveDesc, Result, StreamDesc, Work, validate,
};

use crate::Mock;
use crate::allocator::MockAllocator;
use crate::device::MockDevice;
use crate::faults::Point;
use crate::heap::Origin;
use crate::memory::MockMemory;
use crate::primitive::{self, MockPrimitive};
use crate::state::{Shared, labelled};
use crate::stream::MockStream;

/// The engine of a [`MockDevice`].
#[derive(Clone, Debug)]
pub struct MockEngine {
    shared: Arc<Shared>,
}

impl MockEngine {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The engine of a device that nobody guards: races and missing capabilities are still errors, leaks are not looked for.
    ///
    /// ```
    /// use anydnn_backend::Engine;
    /// use anydnn_mock::MockEngine;
    /// assert!(MockEngine::with_seed(1).capabilities().out_of_order);
    /// ```
    pub fn with_seed(seed: u64) -> Self {
        MockDevice::new(seed).engine()
    }

    fn memory(&self, desc: &MemoryDesc, kind: MemoryKind, bytes: usize) -> Result<MockMemory> {
        let mut state = self.shared.enter(Point::CreateMemory, "create memory")?;
        validate::allocation(desc)?;
        let capabilities = &self.shared.capabilities;
        if !capabilities.memory_kinds.contains(&kind) {
            let kinds: Vec<_> = capabilities.memory_kinds.iter().map(|kind| kind.name()).collect();
            return Err(Error::unsupported(
                format!("{kind} memory"),
                format!("this device has {}", kinds.join(", ")),
            ));
        }
        has_type(capabilities, desc)?;
        let what = labelled(format!("memory of {desc}"), desc.label());
        let region = state.allocate(bytes, Origin::Engine, &what, capabilities)?;
        Ok(MockMemory::new(&self.shared, &mut state, desc.clone(), kind, region))
    }
}

impl Engine for MockEngine {
    type B = Mock;

    fn id(&self) -> EngineId {
        self.shared.engine
    }

    fn device(&self) -> &DeviceInfo {
        &self.shared.info
    }

    fn capabilities(&self) -> &Capabilities {
        &self.shared.capabilities
    }

    fn create_stream(&self, desc: &StreamDesc) -> Result<MockStream> {
        let mut state = self.shared.enter(Point::CreateStream, "create stream")?;
        let capabilities = &self.shared.capabilities;
        if desc.order == Order::OutOfOrder && !capabilities.out_of_order {
            return Err(Error::unsupported("out-of-order stream", "this device has in-order streams only"));
        }
        if desc.profiling && !capabilities.profiling {
            return Err(Error::unsupported("stream with profiling", "this device takes no timestamps"));
        }
        Ok(MockStream::new(&self.shared, &mut state, desc))
    }

    fn create_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<MockMemory> {
        self.memory(desc, kind, desc.size())
    }

    fn create_unbacked_memory(&self, desc: &MemoryDesc, kind: MemoryKind) -> Result<MockMemory> {
        self.memory(desc, kind, 0)
    }

    fn in_background(&self, work: Work) -> Option<Work> {
        if !self.shared.works_ahead {
            return Some(work);
        }
        self.shared.lock().ahead.push(work);
        None
    }

    fn resolve(&self, desc: &PrimitiveDesc) -> Result<PrimitiveDesc> {
        primitive::resolve(&self.shared, &mut self.shared.lock(), desc)
    }

    fn create_primitive(&self, desc: &PrimitiveDesc) -> Result<MockPrimitive> {
        let mut state = self.shared.enter(Point::CreatePrimitive, "create primitive")?;
        state.faults.build(desc.label(), desc.op().name(), &self.shared.info.name)?;
        for arg in desc.args() {
            has_type(&self.shared.capabilities, &arg.desc)
                .and_then(|()| has_layout(&arg.desc))
                .map_err(|error| error.at(format!("{} {}", desc.name(), arg.arg)))?;
        }
        MockPrimitive::new(&self.shared, &mut state, desc)
    }

    fn allocator(&self) -> Arc<dyn Allocator<B = Mock>> {
        Arc::new(MockAllocator::new(Arc::clone(&self.shared)))
    }

    fn cache_blob_id(&self) -> Result<Vec<u8>> {
        Err(Error::unsupported("cache blob", "the mock device compiles nothing"))
    }

    fn cache_blob(&self) -> Result<Vec<u8>> {
        Err(Error::unsupported("cache blob", "the mock device compiles nothing"))
    }
}

fn has_type(capabilities: &Capabilities, desc: &MemoryDesc) -> Result<()> {
    if capabilities.storage_types.contains(&desc.data_type()) {
        return Ok(());
    }
    let types: Vec<_> = capabilities.storage_types.iter().map(|t| t.name()).collect();
    Err(Error::unsupported(
        format!("tensors of {}", desc.data_type()),
        format!("this device stores {}", types.join(", ")),
    ))
}

fn has_layout(desc: &MemoryDesc) -> Result<()> {
    if matches!(desc.layout(), Layout::Opaque { .. }) {
        return Err(Error::unsupported(desc.to_string(), "the mock device makes no opaque layouts"));
    }
    Ok(())
}

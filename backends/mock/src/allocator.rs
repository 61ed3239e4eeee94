//! The allocator of temporaries.

use std::sync::Arc;

use anydnn_backend::{
    Access, Allocator, AllocatorStats, DataType, Error, Memory, MemoryDesc, MemoryKind, Region, Result,
};

use crate::Mock;
use crate::event::MockEvent;
use crate::faults::Point;
use crate::heap::Origin;
use crate::memory::MockMemory;
use crate::past::Past;
use crate::race::{Footprint, Moment, Touch};
use crate::state::{Shared, same_device, short};

/// An allocator that never hands out the same bytes twice.
///
/// Giving memory back while commands at it are not in the past of `after` is a race, and so is every use from then on. The bytes turn
/// to [`FREED`](crate::FREED) when `after` completes. A block that was never given back counts as leaked even when its last handle is
/// gone.
#[derive(Clone, Debug)]
pub struct MockAllocator {
    shared: Arc<Shared>,
}

impl MockAllocator {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl Allocator for MockAllocator {
    type B = Mock;

    fn allocate(&self, bytes: usize, alignment: usize) -> Result<MockMemory> {
        let mut state = self.shared.enter(Point::Allocate, "allocate")?;
        let what = format!("allocator block of {bytes} bytes aligned to {}", alignment.max(1));
        let capabilities = &self.shared.capabilities;
        let region = state.allocate(bytes, Origin::Lent, &what, capabilities)?;
        let kind = capabilities.memory_kinds.first().copied().unwrap_or(MemoryKind::Buffer);
        state.lend(region);
        Ok(MockMemory::new(&self.shared, &mut state, MemoryDesc::new([bytes], DataType::U8), kind, region))
    }

    fn free(&self, memory: MockMemory, after: Option<&MockEvent>) -> Result<()> {
        let mut state = self.shared.enter(Point::Free, "free")?;
        same_device("free", "the memory", memory.shared(), &self.shared)?;
        if let Some(event) = after {
            same_device("free", "the event", event.shared(), &self.shared)?;
        }
        let allocation = memory.region().allocation;
        let block = state.heap.block(allocation)?;
        let name = block.name.clone();
        let given = match block.origin {
            Origin::Lent => None,
            Origin::Engine => Some("memory of the engine's own"),
            Origin::Returned => Some("memory given back already"),
        };
        if let Some(given) = given {
            return Err(Error::invalid("free", name, given, "memory that this allocator has lent"));
        }
        let whole = Region { allocation, offset: 0, bytes: block.bytes.len() };
        let node = after.map(MockEvent::node);
        let mut past = state.host.clone();
        past.join(node.map_or(&Past::default(), |node| &node.past));
        let touch = Touch::new("free", "memory", Access::Write, whole);
        state.check(allocation, &touch, &past, self.shared.races)?;
        state.take_back(allocation, Footprint { moment: Moment::Free, touch }, &past)?;
        if let Some(node) = node.filter(|node| !node.is_done()) {
            state.log.line(format_args!("free {name} after {}", short(&node.name)));
            state.stats.park(whole.bytes);
            state.frees.entry(node.key).or_default().push((allocation, whole.bytes));
        } else {
            state.stats.take_back(whole.bytes);
            state.log.line(format_args!("free {name}"));
            state.heap.free(allocation);
        }
        // Dropping the handle takes the lock again.
        drop(state);
        drop(memory);
        Ok(())
    }

    fn stats(&self) -> AllocatorStats {
        self.shared.lock().stats
    }

    /// Nothing: no block waits for reuse.
    fn trim(&self) {}

    fn keeps_apart(&self) -> bool {
        self.shared.keeps_apart
    }
}

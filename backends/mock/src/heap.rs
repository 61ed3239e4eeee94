//! The device's memory: allocations on the host, with their poison and their footprints.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use anydnn_backend::{Capabilities, Error, MemoryDesc, Region, Result};

use crate::poison;
use crate::race::Footprints;

/// Every allocation alive.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    blocks: HashMap<u64, Block>,
    used: u64,
    named: u64,
}

/// One allocation.
#[derive(Debug)]
pub(crate) struct Block {
    /// Its name in the log.
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) footprints: Footprints,
    /// Where it came from.
    pub(crate) origin: Origin,
    /// Commands that have not run.
    users: usize,
    /// Whether a handle is left.
    held: bool,
}

/// Where an allocation came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The engine.
    Engine,
    /// The allocator, which waits for it.
    Lent,
    /// The allocator, which has it back.
    Returned,
}

impl Heap {
    /// Poisoned bytes; returns the allocation's process-wide number.
    pub(crate) fn allocate(&mut self, bytes: usize, origin: Origin, limits: &Capabilities) -> Result<u64> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let out_of_memory = |what: String| Error::OutOfMemory { what, bytes };
        if bytes as u64 > limits.max_allocation_bytes {
            let most = limits.max_allocation_bytes;
            return Err(out_of_memory(format!("allocation, with at most {most} bytes in one")));
        }
        if self.used + bytes as u64 > limits.memory_bytes {
            let (used, all) = (self.used, limits.memory_bytes);
            return Err(out_of_memory(format!("allocation, with {used} of {all} bytes in use")));
        }
        let mut content = Vec::new();
        content.try_reserve_exact(bytes).map_err(|_| out_of_memory("allocation on the host".into()))?;
        content.resize(bytes, 0);
        poison::fill(&mut content, poison::POISON);
        let name = format!("m{}", self.named);
        self.named += 1;
        self.used += bytes as u64;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let block =
            Block { name, bytes: content, footprints: Footprints::default(), origin, users: 0, held: true };
        self.blocks.insert(id, block);
        Ok(id)
    }

    /// An allocation. Handles and pending commands keep theirs alive, so a missing one is a defect of this crate; it shows as an error.
    pub(crate) fn block(&self, id: u64) -> Result<&Block> {
        self.blocks.get(&id).ok_or_else(|| missing(id))
    }

    pub(crate) fn block_mut(&mut self, id: u64) -> Result<&mut Block> {
        self.blocks.get_mut(&id).ok_or_else(|| missing(id))
    }

    /// A region as the log names it.
    pub(crate) fn name(&self, region: Region) -> String {
        let name = self.blocks.get(&region.allocation).map_or("m?", |block| &block.name);
        format!("{name}[{}..{}]", region.offset, region.offset + region.bytes)
    }

    pub(crate) fn bytes(&self, region: Region) -> Result<&[u8]> {
        let block = self.block(region.allocation)?;
        block.bytes.get(region.offset..region.offset + region.bytes).ok_or_else(|| missing(region.allocation))
    }

    pub(crate) fn bytes_mut(&mut self, region: Region) -> Result<&mut [u8]> {
        let block = self.block_mut(region.allocation)?;
        block
            .bytes
            .get_mut(region.offset..region.offset + region.bytes)
            .ok_or_else(|| missing(region.allocation))
    }

    pub(crate) fn write(&mut self, region: Region, bytes: &[u8]) -> Result<()> {
        self.bytes_mut(region)?.copy_from_slice(bytes);
        Ok(())
    }

    /// Poisons the elements that `desc` describes at the start of a region, or the whole region.
    pub(crate) fn poison(&mut self, region: Region, desc: Option<&MemoryDesc>) -> Result<()> {
        let bytes = self.bytes_mut(region)?;
        match desc {
            Some(desc) => poison::fill_elements(bytes, desc),
            None => poison::fill(bytes, poison::POISON),
        }
        Ok(())
    }

    /// Poisons an allocation that was given back, if it is still there.
    pub(crate) fn free(&mut self, id: u64) {
        if let Some(block) = self.blocks.get_mut(&id) {
            poison::fill(&mut block.bytes, poison::FREED);
        }
    }

    /// A command is going to use the allocation.
    pub(crate) fn retain(&mut self, id: u64) {
        if let Some(block) = self.blocks.get_mut(&id) {
            block.users += 1;
        }
    }

    /// The command has run.
    pub(crate) fn release(&mut self, id: u64) {
        if let Some(block) = self.blocks.get_mut(&id) {
            block.users -= 1;
            self.reclaim(id);
        }
    }

    /// The last handle is gone.
    pub(crate) fn drop_handle(&mut self, id: u64) {
        if let Some(block) = self.blocks.get_mut(&id) {
            block.held = false;
            self.reclaim(id);
        }
    }

    fn reclaim(&mut self, id: u64) {
        if self.blocks.get(&id).is_some_and(|block| !block.held && block.users == 0)
            && let Some(block) = self.blocks.remove(&id)
        {
            self.used -= block.bytes.len() as u64;
        }
    }
}

fn missing(id: u64) -> Error {
    Error::invalid("mock device", format!("allocation {id}"), "released", "an allocation that is alive")
}

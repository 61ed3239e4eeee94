//! Memory of a backend that another one holds.

use super::{Holder, Holds, Object};
use crate::backend::Backend;
use crate::engine::EngineId;
use crate::error::Result;
use crate::memory::{MapMode, Mapping, Memory, MemoryKind, Region};
use crate::memory_desc::MemoryDesc;
use crate::methods;

methods!(Memory of W, object! { MemoryObject: Memory, Holds<T::B> });

fn view<W: Holds<M::B>, M: Memory>(memory: &M, desc: &MemoryDesc, offset: usize) -> Result<W::Memory> {
    memory.view(desc, offset).map(W::Memory::hold)
}

fn replace<W: Holds<M::B>, M: Memory>(memory: &M, bytes: &W::Memory) -> Result<W::Memory> {
    let mut replaced = memory.clone();
    // By its name, since a shared reference has `MemoryObject::replace`.
    Memory::replace(&mut replaced, W::inner("replace bytes", "the memory", bytes)?)?;
    Ok(W::Memory::hold(replaced))
}

//! Engines of a backend that another one holds.

use std::sync::Arc;

use super::allocator::HeldAllocator;
use super::list::HeldList;
use super::{Holder, Holds, Object};
use crate::allocator::Allocator;
use crate::backend::Backend;
use crate::engine::{Capabilities, DeviceInfo, Engine, EngineId, Work};
use crate::error::Result;
use crate::list::{List, ListStep};
use crate::memory::MemoryKind;
use crate::memory_desc::MemoryDesc;
use crate::methods;
use crate::op::primitive_desc::PrimitiveDesc;
use crate::stream::StreamDesc;

methods!(Engine of W, object! { EngineObject: Engine, Holds<T::B> });

fn create_stream<W: Holds<E::B>, E: Engine>(engine: &E, desc: &StreamDesc) -> Result<W::Stream> {
    engine.create_stream(desc).map(W::Stream::hold)
}

fn create_memory<W: Holds<E::B>, E: Engine>(
    engine: &E,
    desc: &MemoryDesc,
    kind: MemoryKind,
) -> Result<W::Memory> {
    engine.create_memory(desc, kind).map(W::Memory::hold)
}

fn create_unbacked_memory<W: Holds<E::B>, E: Engine>(
    engine: &E,
    desc: &MemoryDesc,
    kind: MemoryKind,
) -> Result<W::Memory> {
    engine.create_unbacked_memory(desc, kind).map(W::Memory::hold)
}

fn create_primitive<W: Holds<E::B>, E: Engine>(engine: &E, desc: &PrimitiveDesc) -> Result<W::Primitive> {
    engine.create_primitive(desc).map(W::Primitive::hold)
}

fn ready<W: Holds<E::B>, E: Engine>(
    engine: &E,
    steps: &[ListStep<W>],
    slots: usize,
) -> Result<Option<Box<dyn List<W>>>> {
    let inner = |step: &ListStep<W>| {
        let primitive: &<E::B as Backend>::Primitive = W::inner("execute", "a primitive", &step.primitive)?;
        Ok(ListStep {
            primitive: primitive.clone(),
            args: step.args.clone(),
            waits_for: step.waits_for.clone(),
        })
    };
    let steps = steps.iter().map(inner).collect::<Result<Vec<_>>>()?;
    let list = engine.ready(&steps, slots)?;
    Ok(list.map(|list| Box::new(HeldList::new(list)) as Box<dyn List<W>>))
}

fn allocator<W: Holds<E::B>, E: Engine>(engine: &E) -> Arc<dyn Allocator<B = W>> {
    Arc::new(HeldAllocator::new(engine.allocator()))
}

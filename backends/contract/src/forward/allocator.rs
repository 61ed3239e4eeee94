//! Allocators of a backend that another one holds.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::{Holder, Holds};
use crate::allocator::{Allocator, AllocatorStats};
use crate::backend::Backend;
use crate::error::Result;

/// An allocator in terms of the backend `W` that holds its own.
pub(super) struct HeldAllocator<W, B> {
    inner: Arc<dyn Allocator<B = B>>,
    outer: PhantomData<W>,
}

impl<W, B> HeldAllocator<W, B> {
    pub(super) fn new(inner: Arc<dyn Allocator<B = B>>) -> Self {
        Self { inner, outer: PhantomData }
    }
}

impl<W, B> fmt::Debug for HeldAllocator<W, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[deny(clippy::missing_trait_methods)]
impl<W: Holds<B>, B: Backend> Allocator for HeldAllocator<W, B> {
    type B = W;

    fn allocate(&self, bytes: usize, alignment: usize) -> Result<W::Memory> {
        self.inner.allocate(bytes, alignment).map(W::Memory::hold)
    }

    fn free(&self, memory: W::Memory, after: Option<&W::Event>) -> Result<()> {
        let after = after.map(|event| W::inner("free", "a dependency", event)).transpose()?;
        let inner: B::Memory = W::inner("free", "the memory", &memory).cloned()?;
        // Another handle would keep the memory from being reused.
        drop(memory);
        self.inner.free(inner, after)
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

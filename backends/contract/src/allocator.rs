//! Allocators of temporary memory.

use std::fmt::Debug;

use crate::backend::Backend;
use crate::error::Result;

/// Where a graph's temporaries come from.
pub trait Allocator: Debug + Send + Sync {
    /// The backend whose memory this is.
    type B: Backend;

    /// Memory of `bytes` bytes (a `u8` tensor of one dimension) whose start is a multiple of `alignment`; zero means any.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), a device error.
    fn allocate(&self, bytes: usize, alignment: usize) -> Result<<Self::B as Backend>::Memory>;

    /// Takes memory back. It is not reused or freed before `after` is complete.
    ///
    /// # Errors
    /// A device error.
    fn free(
        &self,
        memory: <Self::B as Backend>::Memory,
        after: Option<&<Self::B as Backend>::Event>,
    ) -> Result<()>;
}

//! The graph API and its OpenCL interoperability.

#![allow(clippy::wildcard_imports, reason = "every file needs a dozen of the API's types")]

mod allocator;
mod caches;
mod compiled;
mod logical_tensor;
mod op;
mod open;
mod partition;
mod tensor;
pub mod types;

pub use allocator::*;
pub use caches::*;
pub use compiled::*;
pub use logical_tensor::*;
pub use op::*;
pub use open::*;
pub use partition::*;
pub use tensor::*;

//! The host backend of anydnn.
mod compute;
pub use compute::compute;

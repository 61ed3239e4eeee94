//! What OpenCL and its drivers are asked: the library, platforms, devices, and what they can do.

pub(crate) mod availability;
pub(crate) mod call;
pub(crate) mod capability;
pub(crate) mod handle;
pub(crate) mod platform;
pub(crate) mod pointers;
pub(crate) mod probe;
pub(crate) mod processor;

//! OpenCL's library, platforms and devices; calls, and the owners of objects.

pub(crate) mod availability;
pub(crate) mod background;
pub(crate) mod call;
pub(crate) mod create;
pub(crate) mod handle;
pub(crate) mod platform;
pub(crate) mod processor;
pub(crate) mod usm;

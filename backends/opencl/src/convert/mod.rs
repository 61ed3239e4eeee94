//! Objects of other OpenCL crates in and out, each with a reference of its own.
//!
//! Those crates take over a raw handle without adding a reference and release it when dropped. So what goes out comes from `into_raw`,
//! which gives a counted reference away, never from the borrowed `raw_*`.

#[cfg(feature = "ocl-core")]
mod ocl_core;
#[cfg(feature = "opencl3")]
mod opencl3;
mod raw;

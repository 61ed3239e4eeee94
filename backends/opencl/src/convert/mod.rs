//! Objects of other OpenCL crates in and out, each with a reference of its own.

#[cfg(feature = "opencl3")]
mod opencl3;

//! The OpenCL backend of anydnn: any OpenCL device of any vendor, without an SDK at build time.
//!
//! The OpenCL library is loaded at run time. Where there is none, [`devices`] is empty and [`availability`] says why.
//!
//! [`OpenClEngine`], [`OpenClStream`], [`OpenClMemory`] and [`OpenClEvent`] each take the user's own OpenCL objects (`from_raw`) and
//! show theirs (`raw_*`, and `into_raw` with a reference for the caller).
//!
//! # Features
//! - `opencl3`: `from_opencl3` and `to_opencl3` on each of the four.
//! - `ocl-core`: `from_ocl_core` and `to_ocl_core`, also for programs written with `ocl`, which is built on `ocl-core`. That crate links
//!   OpenCL's loader at build time; its file `libOpenCL.so.1` is enough on Linux, a development package is not needed.

mod backend;
mod cache;
mod capability;
mod convert;
mod driver;
mod memory;
mod plan;
mod primitive;
mod program;
mod queue;

#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use anydnn_backend::AllocatorStats;
pub use backend::OpenCl;
pub use backend::allocator::OpenClAllocator;
pub use backend::buffer::OpenClBuffer;
pub use backend::engine::OpenClEngine;
pub use backend::event::OpenClEvent;
pub use backend::implementation::Implementation;
pub use backend::memory::OpenClMemory;
pub use backend::primitive::OpenClPrimitive;
pub use backend::stream::OpenClStream;
pub use backend::tune::{Outcome, Trial, Tuned};
pub use cache::{CacheMiss, CacheOutcome, DiskCache, ProgramStats, compile_in_processes};
pub use capability::serve_compiler;
pub use driver::availability::{Availability, Problem, availability};
pub use driver::platform::{OpenClDevice, devices, platform_alias};
pub use memory::user_allocator::UserAllocator;

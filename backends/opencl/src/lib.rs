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

mod allocation;
mod allocator;
mod availability;
mod buffer;
mod cache;
mod call;
mod capability;
mod convert;
mod crowding;
mod engine;
mod event;
mod handle;
#[cfg(target_os = "linux")]
mod huge_pages;
mod implementation;
mod interop;
mod keeper;
mod kernels;
mod launch;
mod ledger;
mod list;
mod mapping;
mod memory;
mod open_maps;
mod patience;
mod plan;
mod platform;
mod pointers;
mod pool;
mod primitive;
mod probe;
mod processor;
mod profile;
mod program;
mod ptx;
mod stream;
mod text;
mod transfer;
mod tune;
mod user_allocator;
mod usm;

#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use allocator::OpenClAllocator;
pub use anydnn_backend::AllocatorStats;
pub use availability::{Availability, Problem, availability};
pub use buffer::OpenClBuffer;
pub use cache::{CacheMiss, CacheOutcome, DiskCache, ProgramStats};
pub use engine::OpenClEngine;
pub use event::OpenClEvent;
pub use implementation::Implementation;
pub use launch::OpenClPrimitive;
pub use memory::OpenClMemory;
pub use platform::{OpenClDevice, devices, platform_alias};
pub use stream::OpenClStream;
pub use tune::{Outcome, Trial, Tuned};
pub use user_allocator::UserAllocator;

/// The OpenCL backend: a family of types, never instantiated.
#[derive(Clone, Copy, Debug)]
pub enum OpenCl {}

impl anydnn_backend::Backend for OpenCl {
    type Engine = OpenClEngine;
    type Stream = OpenClStream;
    type Memory = OpenClMemory;
    type Event = OpenClEvent;
    type Primitive = OpenClPrimitive;
}

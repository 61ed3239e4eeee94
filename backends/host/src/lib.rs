//! The host backend of anydnn: plain Rust on the CPU.
//!
//! It is the default where there is no OpenCL. [`compute`] gives the reference numerics without an engine, with which other backends are
//! compared: sums of normalisations, softmax, pooling and reductions are accumulated in f64, 8-bit integer products are exact, and functions
//! that cancel in f32 are computed in f64. An engine computes f32 in plain layouts by the processor's vector instructions instead, within the
//! contract's tolerance, 16-bit floats through f32, and products of 8-bit integers in 32 bits; the variable `ANYDNN_HOST` masks these, or
//! chooses the reference (`reference`, `portable`, `avx2`, `avx512`).
//!
//! ```
//! use anydnn_backend::op::{MatMul, Op};
//! use anydnn_backend::{Arg, DataType, Engine, MemoryDesc, MemoryKind, PrimitiveDesc, Stream, StreamDesc};
//! use anydnn_host::HostEngine;
//!
//! let engine = HostEngine::new();
//! let stream = engine.create_stream(&StreamDesc::default())?;
//! let square = MemoryDesc::new([2, 2], DataType::F32);
//! let matmul = PrimitiveDesc::builder(Op::MatMul(MatMul)).src(square.clone()).weights(square.clone()).dst(square.clone()).build()?;
//! let matmul = engine.create_primitive(&matmul)?;
//!
//! let memory = || engine.create_memory(&square, MemoryKind::Host);
//! let (src, weights, dst) = (memory()?, memory()?, memory()?);
//! for (memory, values) in [(&src, [1.0_f32, 2.0, 3.0, 4.0]), (&weights, [0.0, 1.0, 1.0, 0.0])] {
//!     stream.write(memory, 0, bytemuck::cast_slice(&values), &[])?;
//! }
//! let args = [(Arg::SRC, src), (Arg::Weights, weights), (Arg::DST, dst.clone())];
//! let done = stream.execute(&matmul, &args, &[])?;
//! let mut out = [0.0_f32; 4];
//! stream.read(&dst, 0, bytemuck::cast_slice_mut(&mut out), &[done])?;
//! assert_eq!(out, [2.0, 1.0, 4.0, 3.0]);
//! # Ok::<(), anydnn_backend::Error>(())
//! ```

#![cfg_attr(test, allow(clippy::float_cmp, reason = "results that must be exact are compared exactly"))]

mod addresses;
mod allocation;
mod allocator;
mod binding;
mod compute;
mod engine;
mod event;
mod fast;
mod list;
mod memory;
mod primitive;
mod stream;
mod user_allocator;

pub use allocator::HostAllocator;
pub use compute::compute;
pub use engine::HostEngine;
pub use event::HostEvent;
pub use memory::HostMemory;
pub use primitive::HostPrimitive;
pub use stream::HostStream;
pub use user_allocator::UserAllocator;

use std::sync::{Mutex, MutexGuard, PoisonError};

use anydnn_backend::Backend;

/// The family of the host backend's types.
#[derive(Debug)]
pub enum Host {}

impl Backend for Host {
    type Engine = HostEngine;
    type Stream = HostStream;
    type Memory = HostMemory;
    type Event = HostEvent;
    type Primitive = HostPrimitive;
}

/// Locks a mutex whose content is valid at every point, so that a panic elsewhere does not matter.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

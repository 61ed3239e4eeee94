//! A mock device that computes.
//!
//! Code written against [`anydnn_backend`] runs on this device unchanged and is watched while it does. Commands are recorded when they
//! are enqueued and run on host memory when something waits for them, in an order that a seed picks and that honours only what was
//! declared: dependencies on an out-of-order stream, the order of submission too on an in-order one. Code that works by luck on one
//! driver fails here, and fails again with the same seed:
//!
//! - two commands that touch the same bytes, one of them writing, without a path between them are a [`Race`], whatever the seed;
//! - fresh memory, results about to be written, scratchpads and freed memory hold [poison](is_poison): NaN where it is read as f32;
//! - [`Faults`] make any call, any execution or any allocation fail, a build break, the device disappear;
//! - [`MockDevice`] panics at the end of a test when a memory, stream, event, primitive or allocator block is still alive;
//! - [`MockDevice::log`] is a readable record for snapshot tests, and the clock is virtual, so timestamps are the same on every run.
//!
//! ```
//! use anydnn_backend::{
//!     Arg, DataType, Eltwise, Engine, MemoryDesc, MemoryKind, Op, PrimitiveDesc, Stream, StreamDesc,
//! };
//! use anydnn_mock::MockDevice;
//!
//! # fn main() -> anydnn_backend::Result<()> {
//! let device = MockDevice::builder().seed(7).build();
//! let engine = device.engine();
//! let stream = engine.create_stream(&StreamDesc::out_of_order())?;
//! let desc = MemoryDesc::new([2], DataType::F32);
//! let (src, dst) = (engine.create_memory(&desc, MemoryKind::Buffer)?, engine.create_memory(&desc, MemoryKind::Buffer)?);
//! let relu = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(desc.clone()).dst(desc).build()?;
//! let relu = engine.create_primitive(&relu)?;
//!
//! let written = stream.write(&src, 0, &[(-1.0_f32).to_le_bytes(), 2.0_f32.to_le_bytes()].concat(), &[])?;
//! let args = [(Arg::SRC, src), (Arg::DST, dst.clone())];
//!
//! // Forgetting the dependency is reported at once, not on one run in a thousand.
//! let error = stream.execute(&relu, &args, &[]).unwrap_err().to_string();
//! assert!(error.contains("src0 m0[0..8] (read)") && error.contains("#1 write"), "{error}");
//! assert_eq!(device.races().len(), 1);
//!
//! let done = stream.execute(&relu, &args, &[written])?;
//! let mut result = [0; 8];
//! stream.read(&dst, 0, &mut result, &[done])?;
//! assert_eq!(result[4..], 2.0_f32.to_le_bytes());
//! # Ok(())
//! # }
//! ```
//!
//! A test runs its code under many seeds; `for seed in 0..200` takes milliseconds for small graphs. With the feature `mockall` there
//! are also mocks of the single traits, for error paths and call counts of one collaborator.
//!
//! Memory of this device goes with streams of this device; the compiler refuses any other:
//!
//! ```
//! # use anydnn_backend::Stream;
//! # use anydnn_mock::{MockMemory, MockStream};
//! fn clear(stream: &MockStream, memory: &MockMemory) {
//!     let _ = stream.write(memory, 0, &[0; 4], &[]);
//! }
//! ```
//!
//! ```compile_fail,E0308
//! # use anydnn_backend::Stream;
//! # use anydnn_host::HostStream;
//! # use anydnn_mock::MockMemory;
//! fn clear(stream: &HostStream, memory: &MockMemory) {
//!     let _ = stream.write(memory, 0, &[0; 4], &[]);
//! }
//! ```

mod allocator;
mod clock;
mod command;
mod device;
mod engine;
mod event;
mod faults;
mod heap;
mod kernel;
mod log;
mod memory;
#[cfg(feature = "mockall")]
mod mockall;
mod past;
mod poison;
mod primitive;
mod race;
mod random;
mod schedule;
mod state;
mod stream;

use anydnn_backend::Backend;

pub use allocator::MockAllocator;
pub use device::{MockDevice, MockDeviceBuilder, OpenLayouts, RacePolicy};
pub use engine::MockEngine;
pub use event::{MockEvent, MockUserEvent};
pub use faults::{Faults, Point};
pub use kernel::MockKernel;
pub use memory::MockMemory;
#[cfg(feature = "mockall")]
pub use mockall::{
    Mockall, MockallAllocator, MockallEngine, MockallEvent, MockallIdentity, MockallList, MockallMemory,
    MockallPrimitive, MockallStream,
};
pub use poison::{FREED, POISON, is_poison};
pub use primitive::MockPrimitive;
pub use race::{Race, Touch};
pub use stream::MockStream;

/// The family of the mock device's types.
#[derive(Debug)]
pub enum Mock {}

impl Backend for Mock {
    type Engine = MockEngine;
    type Stream = MockStream;
    type Memory = MockMemory;
    type Event = MockEvent;
    type Primitive = MockPrimitive;
}

//! The contract between anydnn and its backends.
//!
//! A backend is a family of types tied together by [`Backend`]: an [`Engine`] is one device in one context, a [`Stream`] a queue of
//! commands, [`Memory`] a descriptor plus bytes on a device, an [`Event`] the completion of a command, a [`Primitive`] a compiled
//! operation, an [`Allocator`] the source of temporaries. What a primitive computes is a [`PrimitiveDesc`]: an [`Op`] with its
//! operands' [`MemoryDesc`]s and [`Attributes`], validated once when built.
//!
//! Code that is generic over `B: Backend` runs unchanged on every device. A third party writes a backend against this crate alone and
//! runs the `conformance` suite on it.
//!
//! Bytes are called bytes, elements elements; times are nanoseconds.

mod allocator;
mod arg;
mod backend;
mod data_type;
mod dims;
mod engine;
mod erased;
mod error;
mod event;
#[doc(hidden)]
pub mod forward;
mod host_memory;
mod host_scalar;
mod list;
mod memory;
mod memory_desc;
mod minifloat;
pub mod op;
mod primitive;
mod profile;
mod sparse;
mod stream;
mod tolerance;
pub mod validate;

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(any(feature = "approx", all(test, feature = "conformance")))]
mod tensor_values;

pub use allocator::{Allocator, AllocatorStats};
pub use arg::{Access, Arg, Quantized};
pub use backend::Backend;
pub use data_type::DataType;
pub use dims::{Dims, Indices, MAX_DIMS};
pub use engine::{Capabilities, DeviceInfo, DeviceKind, Engine, EngineId, Probe, Work};
pub use erased::{Erased, ErasedEngine, ErasedEvent, ErasedMemory, ErasedPrimitive, ErasedStream};
pub use error::{BuildFailure, DeviceFailure, Error, Invalid, InvalidKind, Result, ResultExt, Status};
pub use event::{Event, EventStatus, Timestamps};
pub use host_memory::check_host_memory;
pub use host_scalar::HostScalar;
pub use list::{List, ListStep, Part};
pub use memory::{MapMode, Mapping, Memory, MemoryKind, Region};
pub use memory_desc::{Blocking, Layout, MemoryDesc};
pub use minifloat::MiniFloat;
pub use op::attributes::{Attributes, Dequantize, FpMath, PostOp, ScratchpadMode};
pub use op::primitive_desc::{ArgDesc, PrimitiveDesc, PrimitiveDescBuilder};
pub use op::specialize::Specialize;
pub use op::{BinaryAlgorithm, Eltwise, Op};
pub use primitive::Primitive;
pub use profile::{ProfileLog, Profiled};
pub use sparse::{SparseDesc, SparseEncoding, SparseMemory};
pub use stream::{Order, Range, Stream, StreamDesc};
#[cfg(any(feature = "approx", all(test, feature = "conformance")))]
pub use tensor_values::{TensorValues, Within};
pub use tolerance::{Comparison, Mismatched, Tolerance};

//! The types that the contract asks of a backend, each with OpenCL objects in and out: what the crate shows.

pub(crate) mod allocator;
pub(crate) mod buffer;
pub(crate) mod engine;
pub(crate) mod event;
pub(crate) mod implementation;
mod interop;
mod list;
mod mapping;
pub(crate) mod memory;
mod native;
mod pointers;
mod pool;
pub(crate) mod primitive;
mod reuse;
pub(crate) mod specialize;
pub(crate) mod stream;
pub(crate) mod sub_groups;
mod transfer;
mod trial_operands;
pub(crate) mod tune;
mod user_source;

use self::engine::OpenClEngine;
use self::event::OpenClEvent;
use self::memory::OpenClMemory;
use self::primitive::OpenClPrimitive;
use self::stream::OpenClStream;

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

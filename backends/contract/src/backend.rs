//! The family of types that make up a backend.

use std::fmt::Debug;

use crate::engine::Engine;
use crate::event::Event;
use crate::memory::Memory;
use crate::primitive::Primitive;
use crate::stream::Stream;

// ANCHOR: backend
/// Ties the types of one backend together; it has no methods and is never instantiated.
pub trait Backend: Sized + Debug + Send + Sync + 'static {
    /// One device in one context.
    type Engine: Engine<B = Self>;
    /// A queue of commands.
    type Stream: Stream<B = Self>;
    /// Bytes on a device.
    type Memory: Memory<B = Self>;
    /// The completion of a command.
    type Event: Event;
    /// A compiled operation.
    type Primitive: Primitive<B = Self>;
}
// ANCHOR_END: backend

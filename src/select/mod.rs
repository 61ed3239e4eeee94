//! The run-time choice of a backend and a device.
//!
//! [`AnyBackend`] is itself a backend, whose types are enums over the enabled backends; [`Selector`] chooses one of their devices, by
//! preference, by the environment variable `ANYDNN_BACKEND`, or by a program's own wishes, and says why the others were not taken.

mod any;
mod candidate;
mod pattern;
mod selector;

#[cfg(test)]
mod tests;

pub use any::{AnyBackend, AnyEngine, AnyEvent, AnyMemory, AnyPrimitive, AnyStream};
pub use candidate::{Candidate, HOW_TO_GET_A_DEVICE};
pub use pattern::{DevicePattern, Pattern};
pub use selector::{Rejected, Selection, Selector};

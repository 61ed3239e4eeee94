//! Streams, events and lists of commands, and how they are waited for.

pub(crate) mod affinity;
pub(crate) mod deferred_release;
pub(crate) mod fate;
pub(crate) mod profile;
pub(crate) mod wait;

//! Streams, events and lists of commands, and how they are waited for.

pub(crate) mod affinity;
pub(crate) mod deferred_release;
pub(crate) mod event;
pub(crate) mod list;
pub(crate) mod profile;
pub(crate) mod stream;
pub(crate) mod wait;

//! Commands on their way: how they end, how they are waited for, and how their queues are let go of.

pub(crate) mod affinity;
pub(crate) mod deferred_release;
pub(crate) mod fate;
pub(crate) mod held;
pub(crate) mod native;
pub(crate) mod profile;
pub(crate) mod wait;

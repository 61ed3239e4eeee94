//! Allocations of every kind, who frees them, and the counts of those that are outstanding.

pub(crate) mod allocation;
#[cfg(target_os = "linux")]
pub(crate) mod huge_pages;
pub(crate) mod ledger;
pub(crate) mod open_maps;
pub(crate) mod user_allocator;

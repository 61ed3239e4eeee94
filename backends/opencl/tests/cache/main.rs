//! Cache blobs and the cache on disk: a warm start builds nothing, and nothing that is cached can hurt.

#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "the tests own every handle they pass, and fail by panicking"
)]

mod blobs;
#[path = "../common/mod.rs"]
mod common;
mod damage;
mod disk;
mod processes;
mod work;

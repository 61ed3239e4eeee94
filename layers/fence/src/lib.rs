#![doc = include_str!("../README.md")]
#![cfg(unix)]

mod allocation;
mod below;
mod buffer;
mod canary;
mod cl;
mod command_buffer;
mod context;
mod extension;
mod handle;
mod handler;
mod kernel;
mod launch;
mod layer;
mod pages;
mod pointer;
mod report;
mod settings;
mod state;
mod svm;
mod sync;
mod usm;
mod zone;

use std::path::PathBuf;

pub use layer::{clGetLayerInfo, clInitLayer};

/// The name of the layer's library on this system.
const LIBRARY: &str = if cfg!(target_os = "macos") { "libanydnn_fence.dylib" } else { "libanydnn_fence.so" };

/// The layer's library next to the running program, where cargo puts it for a program that depends on this crate.
pub fn layer_path() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?;
    // Tests and their libraries are in `deps`; examples are beside it.
    let folders =
        [Some(folder.to_owned()), Some(folder.join("deps")), folder.parent().map(|f| f.join("deps"))];
    folders.into_iter().flatten().map(|folder| folder.join(LIBRARY)).find(|path| path.is_file())
}

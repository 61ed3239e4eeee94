#![doc = include_str!("../README.md")]

mod extension;
mod layer;
mod report;
mod slot;

pub use extension::{Extensions, PLATFORMS};
pub use layer::Layer;
pub use report::{Target, end_process, exit_status, say, variable};
pub use slot::{NAMES, slot};

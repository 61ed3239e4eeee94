//! Deep-learning primitives and graphs on any OpenCL device, with oneDNN's programming model.

pub mod compile;
pub mod execute;
pub mod fusion;
pub mod graph;
pub mod model;
pub mod select;

pub use anydnn_backend as backend;

//! Graph JSON, the format of oneDNN's graph dumps.

mod read;
mod write;

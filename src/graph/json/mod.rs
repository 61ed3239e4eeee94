//! Graph JSON, the format of oneDNN's graph dumps.

mod fields;
mod read;
mod write;

/// The version of the format that is written.
const VERSION: &str = "3.14.0";

/// How an unknown dimension or stride is written.
const UNKNOWN_DIM: i64 = i64::MIN;

//! Every executed graph operation computes what the oneDNN Graph specification says, from graph builder to result: against references
//! written on the graph's own semantics, under both fusion policies and stream orders, on the host, the mock and OpenCL devices.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::float_cmp,
    clippy::type_complexity,
    unreachable_pub,
    missing_docs,
    reason = "tests and their helpers"
)]

mod backward;
mod bounds;
mod case;
mod fused;
mod images;
mod matmul;
mod movement;
mod normalization;
mod patterns;
mod pointwise;
mod quantization;
mod random;
mod reference;
mod rows;
mod situations;
mod statistics;
mod tensor;
mod types;
mod windows;

// The patterns' cases are shared with the library's own tests, where these are modules of the crate.
use anydnn::graph;

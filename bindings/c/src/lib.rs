//! The C ABI: oneDNN's public C functions, by name and signature, on anydnn.
//!
//! This package holds the functions; `anydnn-dnnl` and `anydnn-shared` link them as `libdnnl.so.3` and `libanydnn.so.0`. Programs are
//! compiled against oneDNN's published headers or against `include/anydnn.h`, which `cargo xtask header` makes from this crate.
//!
//! # Rules for all functions
//! - Pointers that a caller passes are null, or valid for what the function reads and writes, for the duration of the call. Handles are
//!   null, or came from this library and have not been destroyed. Null never crashes: it is an invalid argument, or means "nothing"
//!   where the table of functions says so.
//! - No function unwinds: a panic becomes `dnnl_runtime_error`.
//! - Each failure leaves a message on the calling thread: [`anydnn_last_error`].
//!
//! # Adding a function
//! ```text
//! #[unsafe(no_mangle)]
//! pub unsafe extern "C" fn dnnl_stream_wait(stream: dnnl_stream_t) -> dnnl_status_t {
//!     boundary::status("dnnl_stream_wait", || {
//!         // SAFETY: the caller passes null or a stream that lives.
//!         let stream = unsafe { handle::borrow(stream) }?;
//!         Ok(stream.wait()?)
//!     })
//! }
//! ```
//! - Write functions out in full, never by a macro: the header is made from the source. Enumerations come in as integers
//!   ([`types`]), never as Rust enums.
//! - `boundary::status` or `boundary::value` around each body. The body's `?` takes the contract's `anydnn_backend::Error`
//!   and `boundary::Failure` (a bare status with a message).
//! - A kind of object implements `handle::Handle`. `handle::create` makes a handle from a value, `handle::borrow` and
//!   `handle::borrow_mut` read it, `handle::destroy` ends it, `handle::Embedded` holds an object that another one lends.
//!   Shared state goes into an `Arc` inside the value, so that objects outlive each other's handles.
//! - `handle::write` stores a result; `handle::slice` reads an array; `handle::bytes_out` serves size-then-content queries.
//! - Add the function's name to `tests/exports.txt` and run `cargo xtask header`.
//!
//! # Adding a primitive
//! A file with its creators, each around `primitive::describe`. The body reads descriptors (`open`, `closed`, `optional`), names the
//! operands by argument and query (`recipe::Recipe::operand`), and adds steps: `Recipe::main` for the one that makes the result, which
//! applies all attributes; `Recipe::step` and `Recipe::formula` for others; `read`, `write` and their `_as` for views, which become dense
//! copies where a layout has none. It returns the `Facts` that queries tell.

#![allow(non_camel_case_types, non_upper_case_globals, reason = "names are those of the C API")]
#![allow(clippy::missing_safety_doc, reason = "the rules above hold for all functions")]

mod apply;
mod attributes;
mod attributes_numbers;
mod batch_normalization;
mod binary;
mod boundary;
mod cache;
mod convolution;
mod debug;
mod deconvolution;
mod depthwise;
mod desc;
mod eltwise;
mod engine;
mod execute;
mod found_scales;
mod gemm;
pub mod graph;
mod group_normalization;
mod grouped;
mod handle;
mod inner_product;
mod interop;
pub mod kinds;
mod layer_normalization;
mod lrn;
mod matmul;
mod memory;
pub mod object_types;
mod pooling;
mod post_ops;
mod prelu;
mod primitive;
mod primitive_desc;
mod processor;
mod profiling;
mod randomness;
mod recipe;
mod recurrent;
mod recurrent_attributes;
mod recurrent_backward;
mod recurrent_layers;
mod reduction;
mod reductions;
mod refusals;
mod reorder;
mod resampling;
mod runtime;
mod settings;
mod shuffle;
mod softmax;
mod sparse;
mod stream;
mod sum;
mod told;
mod told_attributes;
pub mod types;
mod v1;
mod verbose;
mod version;

pub use attributes::*;
pub use attributes_numbers::*;
pub use batch_normalization::*;
pub use binary::*;
pub use boundary::anydnn_last_error;
pub use convolution::*;
pub use debug::*;
pub use deconvolution::*;
pub use desc::*;
pub use eltwise::*;
pub use engine::*;
pub use execute::*;
pub use gemm::*;
pub use graph::*;
pub use group_normalization::*;
pub use inner_product::*;
pub use interop::*;
pub use layer_normalization::*;
pub use lrn::*;
pub use matmul::*;
pub use memory::*;
pub use pooling::*;
pub use post_ops::*;
pub use prelu::*;
pub use primitive::*;
pub use primitive_desc::*;
pub use processor::*;
pub use profiling::*;
pub use recurrent::*;
pub use recurrent_attributes::*;
pub use recurrent_backward::*;
pub use reduction::*;
pub use reorder::*;
pub use resampling::*;
pub use settings::*;
pub use shuffle::*;
pub use softmax::*;
pub use stream::*;
pub use sum::*;
pub use v1::*;
pub use version::*;

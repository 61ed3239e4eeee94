//! Deep-learning graphs and primitives on any OpenCL device, with oneDNN's programming model.
//!
//! A [`graph`] of operations is partitioned by [`fusion`], turned into a plan for one engine by [`compile`], and run on any of the
//! engine's streams by [`execute`]. Engines come from a backend ([`select`] picks one at run time) or from the user's own OpenCL
//! objects. [`model`] reads networks from disk. The contract that all backends keep is re-exported as [`backend`].
//!
//! ```
//! use anydnn::backend::{DataType, Engine, StreamDesc};
//! use anydnn::compile::{CompileOptions, CompiledGraph};
//! use anydnn::graph::{Attrs, GraphBuilder, OpKind};
//! use anydnn::model::HostTensor;
//! use anydnn::select::Selector;
//!
//! let mut g = GraphBuilder::new();
//! let x = g.input("x", DataType::F32, [1, 4]);
//! g.op("softmax", OpKind::SoftMax, &[x], Attrs::new().with("axis", 1_i64))?;
//!
//! let engine = Selector::from_env()?.select()?.engine;
//! let stream = engine.create_stream(&StreamDesc::default())?;
//! let network = CompiledGraph::new(&g.build()?, &engine, &CompileOptions::default())?.load(&stream, &[])?;
//! let outputs = network.run(&stream, &[(x, HostTensor::from_f32([1, 4], &[0.0; 4])?)])?;
//! assert_eq!(outputs[0].to_f32s(), [0.25; 4]);
//! # Ok::<(), anydnn::backend::Error>(())
//! ```

pub mod compile;
pub mod draw;
pub mod execute;
mod formula;
pub mod fusion;
pub mod graph;
pub mod model;
#[cfg(feature = "onnx")]
pub mod onnx;
pub mod partition;
pub mod rewrite;
pub mod select;

pub use anydnn_backend as backend;

/// The README's example is a test, and so are those of the guide.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[derive(Debug)]
pub struct Readme;

/// The examples of the guide by page.
#[cfg(doctest)]
#[doc = include_str!("../docs/guide/backends.md")]
#[doc = include_str!("../docs/guide/graphs.md")]
#[doc = include_str!("../docs/guide/testing.md")]
#[doc = include_str!("../docs/guide/backend.md")]
#[cfg_attr(feature = "onnx", doc = include_str!("../docs/guide/onnx.md"))]
#[derive(Debug)]
pub struct Guide;

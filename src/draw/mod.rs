//! Pictures of partitioned graphs: a box for each operation in the colour of its partition, and the tensors between them.
//!
//! ```
//! use anydnn::backend::DataType;
//! use anydnn::draw;
//! use anydnn::fusion::{Policy, partition};
//! use anydnn::graph::{Attrs, GraphBuilder, OpKind};
//!
//! let mut g = GraphBuilder::new();
//! let x = g.input("x", DataType::F32, [2, 3]);
//! g.op("activation", OpKind::ReLU, &[x], Attrs::new())?;
//! let graph = g.build()?;
//! let partitioning = partition(&graph, Policy::Fusion);
//! assert!(draw::svg(&graph, &partitioning).starts_with("<svg "));
//! assert!(draw::dot(&graph, &partitioning).starts_with("digraph "));
//! # Ok::<(), anydnn::backend::Error>(())
//! ```

mod dot;
mod layout;
mod picture;
mod svg;

use self::picture::Picture;
pub use self::picture::shape;
use crate::fusion::Partitioning;
use crate::graph::Graph;

/// The text of an SVG file. Boxes say why their partition ends to readers who point at them.
pub fn svg(graph: &Graph, partitioning: &Partitioning) -> String {
    svg::render(&Picture::new(graph, partitioning))
}

/// The text of a file in Graphviz's DOT language: partitions are clusters, tensors are labelled edges.
pub fn dot(graph: &Graph, partitioning: &Partitioning) -> String {
    dot::render(&Picture::new(graph, partitioning), partitioning)
}

//! The arguments of `anydnn graph`.

use std::path::PathBuf;

use crate::model::dim;

#[derive(Debug, clap::Args)]
pub(crate) struct GraphArgs {
    /// A folder with a model.json, an ONNX file, or a graph JSON file.
    pub(crate) model: PathBuf,
    /// The value of an open dimension of an ONNX model's inputs, such as batch=4.
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dim)]
    pub(crate) dims: Vec<(String, usize)>,
    /// Writes a picture in Graphviz's DOT language; - is standard output.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["svg", "json"])]
    pub(crate) dot: Option<PathBuf>,
    /// Writes a picture as SVG; - is standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) svg: Option<PathBuf>,
    /// Prints one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

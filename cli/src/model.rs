//! Models in any of the formats.

use std::path::Path;

use anydnn::backend::{Error, Result};
use anydnn::graph::Graph;
use anydnn::model::Model;
use anydnn::onnx;

/// The graph of a model.
pub(crate) fn load_graph(path: &Path, dims: &[(String, usize)]) -> Result<Graph> {
    load(path, dims).map(|model| model.graph)
}

/// A model in any of the formats.
pub(crate) fn load(path: &Path, dims: &[(String, usize)]) -> Result<Model> {
    if is_onnx(path) {
        let dims: Vec<_> = dims.iter().map(|(name, extent)| (name.as_str(), *extent)).collect();
        return onnx::Model::load(path)?.graph(&dims);
    }
    match dims.first() {
        None => Model::load(path),
        Some((name, _)) => Err(Error::invalid("--dim", "dimension", format!("{name:?}"), "an ONNX model")),
    }
}

/// Whether a file is named as an ONNX model.
pub(crate) fn is_onnx(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"))
}

/// The value of an open dimension: `batch=4`; a name may hold the sign too.
pub(crate) fn dim(text: &str) -> std::result::Result<(String, usize), String> {
    let parts = text.rsplit_once('=').filter(|(name, _)| !name.is_empty());
    let parsed = parts.and_then(|(name, number)| Some((name.to_owned(), number.parse().ok()?)));
    parsed.ok_or_else(|| "expected NAME=N such as batch=4".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dimension_is_a_name_and_a_number() {
        assert_eq!(dim("a=b=4"), Ok(("a=b".into(), 4)));
        assert!(dim("4").is_err() && dim("=4").is_err() && dim("n=-4").is_err());
    }
}

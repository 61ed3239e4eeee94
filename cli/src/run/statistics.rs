//! Outputs in a few numbers.

use anydnn::model::HostTensor;
use serde_json::{Value, json};

use super::tensors::Statistics;
use crate::output::{Style, table};

/// A table of outputs.
pub(super) fn text<'a>(
    style: Style,
    outputs: impl Iterator<Item = (String, &'a HostTensor, Statistics)>,
) -> String {
    let head = ["output", "type", "shape", "min", "max", "mean", "deviation", "not finite"];
    let rows: Vec<Vec<String>> = outputs
        .map(|(name, tensor, s)| {
            let number = |value: f64| format!("{value:.6}");
            vec![
                name,
                tensor.data_type().to_string(),
                tensor.dims().to_string(),
                number(s.min),
                number(s.max),
                number(s.mean),
                number(s.standard_deviation),
                s.not_finite.to_string(),
            ]
        })
        .collect();
    table(style, &head, &[3, 4, 5, 6, 7], &rows) + "\n"
}

/// One output.
pub(super) fn json(name: &str, tensor: &HostTensor) -> Value {
    let s = Statistics::of(&tensor.to_f64s());
    json!({
        "name": name,
        "data_type": tensor.data_type().name(),
        "shape": tensor.dims().to_vec(),
        "min": s.min,
        "max": s.max,
        "mean": s.mean,
        "standard_deviation": s.standard_deviation,
        "not_finite": s.not_finite,
    })
}

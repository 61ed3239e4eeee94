//! Differences that are known, each with its reason.

use super::random::Words;

/// Why a case may differ.
pub(crate) fn known(case: &Words) -> Option<&'static str> {
    let algorithm = case.get("alg").unwrap_or_default();
    if algorithm == "softmax_accurate_inf_as_zero" {
        return Some("rows of minus infinity that become zeros are not in the C API");
    }
    let is_zero = case.get("alpha").is_some_and(|alpha| alpha.parse() == Ok(0.0));
    if algorithm == "eltwise_soft_relu" && is_zero {
        return Some("soft ReLU divides by its alpha");
    }
    if case.get("prop") == Some("backward") && case.get("cell").is_some_and(|cell| cell.ends_with("augru")) {
        return Some(
            "oneDNN's gradients of cells with attention are not those of its own layers, by differences",
        );
    }
    if case.primitive() == "rnn" && case.get("flags") == Some("1") {
        return Some(
            "oneDNN leaves arbitrary numbers in gradients that shall be overwritten, others in each run",
        );
    }
    None
}

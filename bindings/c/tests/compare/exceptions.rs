//! Differences that are known, each with its reason.

use super::random::Words;

/// Why a case may differ.
pub(crate) fn known(case: &Words) -> Option<&'static str> {
    let has_no_terms = |key: &str| {
        let dims = case.get(key).and_then(|desc| desc.split(':').nth(1));
        dims.and_then(|dims| dims.split('x').next_back()) == Some("0")
    };
    if ["matmul", "inner_product"].contains(&case.primitive()) && has_no_terms("src") {
        return Some("oneDNN leaves results as they were that are sums of no terms");
    }
    if case.get("scale").is_some_and(|scale| scale.ends_with(":fp") || scale.ends_with(":mx")) {
        return Some(
            "what a group's scale leaves too large saturates, by the MX specification; in oneDNN it is no number",
        );
    }
    let is_single = |dims: &str| dims.split('x').skip(2).all(|dim| dim == "1");
    if case.primitive() == "resampling"
        && case.has("po", "binary")
        && case.get("dst").and_then(|desc| desc.split(':').nth(1)).is_some_and(is_single)
    {
        return Some(
            "oneDNN's resampling to one element takes a post-operation's first operand for all channels",
        );
    }
    if case.primitive() == "reorder"
        && case.get("scale").is_some()
        && case.get("dst").is_some_and(|desc| desc.starts_with("f4_e2m1"))
    {
        return Some("oneDNN's reorders to floats of four bits take scales and do not apply them");
    }
    let compares = ["ge", "gt", "le", "lt", "eq", "ne"].map(|how| format!("binary_{how}:"));
    if case.has("po", "eltwise_mish:") && compares.iter().any(|how| case.has("po", how)) {
        return Some(
            "oneDNN's mish of numbers far below zero is zero, which a comparison tells from a small number",
        );
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
    if case.primitive() == "prelu" && case.get("prop") == Some("backward") {
        let dims = case.get("wei").and_then(|desc| desc.split(':').nth(1)).unwrap_or_default();
        let dims: Vec<&str> = dims.split('x').collect();
        if let ["1", between @ .., "1"] = dims.as_slice()
            && between.iter().filter(|&&dim| dim != "1").count() > 1
        {
            return Some(
                "oneDNN's gradients by slopes along two inner axes are not those of its own forward pass",
            );
        }
    }
    None
}

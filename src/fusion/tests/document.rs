//! `docs/reference/patterns.md` lists what the patterns say of themselves.

use std::fmt::Write as _;

use super::cases::{self, Case};
use super::text;
use crate::formula::parts;
use crate::fusion::patterns;
use crate::graph::OpKind;

/// The groups of oneDNN's fusion patterns, how many patterns each has there, and which of ours take their graphs.
const UPSTREAM: [(&str, usize, &[&str]); 19] = [
    ("matmul post-ops", 14, &["matmul/"]),
    ("convolution post-ops", 11, &["conv/"]),
    ("convolution blocks", 14, &["conv_block/"]),
    ("transposed convolution", 5, &["conv_transpose/"]),
    ("attention", 16, &["sdp/"]),
    ("gated MLP", 4, &["mlp/"]),
    ("binary around matmul", 1, &["bmb/"]),
    ("batch normalisation", 3, &["bn/"]),
    ("layer normalisation", 1, &["layernorm/"]),
    ("group normalisation", 1, &["groupnorm/"]),
    ("softmax", 1, &["softmax/"]),
    ("pooling", 6, &["pool/"]),
    ("eltwise, binary, sum", 5, &["pointwise/"]),
    ("reduction", 1, &["reduction/"]),
    ("interpolate", 1, &["interpolate/"]),
    ("reorder", 4, &["reorder/"]),
    ("concat", 1, &["concat/"]),
    ("quantize", 1, &["quantize/"]),
    ("shuffle", 1, &["shuffle/"]),
];

fn document() -> String {
    let mut text = String::from(
        "# Fusion patterns\n\n\
         Written by the test `docs_list_every_pattern` from the patterns themselves (`ANYDNN_BLESS=1 cargo test -p anydnn --lib\n\
         docs_list` writes it anew).\n\n\
         A formula is read from left to right: `A + B` is B behind A, `it` is what comes from the left where it is not the first input, `_`\n\
         is any tensor from outside or inside, `[..]` may be absent, `(..){a..b}` stands that often, `name: (..)` is one tensor wherever the\n\
         name stands. Where a graph fits several patterns, the one with the higher priority takes it, and as much as it can.\n\n\
         ## Groups\n\n\
         oneDNN's fusion patterns by group. One formula of ours covers several of theirs where those differ in parts that may be absent or\n\
         in the kind of device.\n\n\
         | oneDNN's group | patterns there | formulas here |\n|---|---|---|\n",
    );
    for (group, count, names) in UPSTREAM {
        let ours = patterns().filter(|p| names.iter().any(|name| p.name.starts_with(name)));
        let ours: Vec<_> = ours.map(|p| format!("`{}`", p.name)).collect();
        let _ = writeln!(text, "| {group} | {count} | {} |", ours.join(", "));
    }
    let total: usize = UPSTREAM.iter().map(|(_, count, _)| count).sum();
    let _ = writeln!(text, "| all | {total} | {} |", patterns().count());
    text += "\nAn operation that no pattern takes is a partition of its own, `single_op`. `Wildcard` and `End` are then unsupported.\n";
    text += "\n## Launches\n\n\
        How many launches of the device the graphs of the tests take on every execution, be they for the host, PoCL or Intel's runtime; what\n\
        depends on constants alone runs once and is not counted. Where a formula stands several times for one use, its graphs differ in types\n\
        or operations (`src/fusion/tests/cases`). The tests `patterns` of `tests/graph_ops` run them, count, and compare the results with\n\
        those of the operations one by one. *Op by op* marks graphs that fusion does not save a launch.\n\n\
        | formula | graph | operations | launches |\n|---|---|---|---|\n";
    for case in cases::all() {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            case.pattern,
            case.covers,
            operations(&case),
            launches(&case)
        );
    }
    text += "\n## Patterns\n\nUnary, Binary, Reduction and Gradient stand for:\n\n";
    let sets: [(_, &[OpKind]); 4] = [
        ("Unary", &parts::UNARY),
        ("Binary", &parts::BINARY),
        ("Reduction", &parts::REDUCTION),
        ("Gradient", &parts::GRADIENT),
    ];
    for (name, kinds) in sets {
        let kinds: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
        let _ = writeln!(text, "- {name}: {}", kinds.join(", "));
    }
    for pattern in patterns() {
        let _ = write!(text, "\n### {} (priority {})\n\n", pattern.name, pattern.priority);
        for covered in pattern.covers {
            let _ = writeln!(text, "- {covered}");
        }
        let _ = write!(text, "\n```text\n{}\n```\n", pattern.formula);
    }
    text
}

/// The operations that compute something.
fn operations(case: &Case) -> usize {
    text::graph(case.text).ops().iter().filter(|op| op.kind != OpKind::End).count()
}

fn launches(case: &Case) -> String {
    let [host, opencl] = case.launches;
    let numbers = if host == opencl { host.to_string() } else { format!("{host} (host), {opencl} (OpenCL)") };
    let saved_none = operations(case) > 1 && host.max(opencl) >= operations(case);
    if saved_none { format!("{numbers}, *op by op*") } else { numbers }
}

#[test]
fn docs_list_every_pattern() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/patterns.md");
    let text = document();
    if std::env::var_os("ANYDNN_BLESS").is_some() {
        std::fs::write(file, &text).unwrap();
    }
    let known = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        known == text,
        "docs/reference/patterns.md is stale: ANYDNN_BLESS=1 cargo test -p anydnn --lib docs_list"
    );
    for pattern in patterns() {
        assert!(!pattern.covers.is_empty() && pattern.formula.len() > 3, "{}", pattern.name);
        let groups =
            UPSTREAM.iter().filter(|(_, _, names)| names.iter().any(|name| pattern.name.starts_with(name)));
        assert_eq!(groups.count(), 1, "{}", pattern.name);
    }
    assert_eq!(UPSTREAM.iter().map(|(_, count, _)| count).sum::<usize>(), 91);
}

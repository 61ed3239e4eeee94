//! Every graph operation, forward and backward, computes what oneDNN's own CPU library computes, and what plain loops in f64 do: one
//! operation at a time, over chosen shapes, types and attributes and ones that follow from seeds, on the host and on OpenCL devices. What
//! is checked in which way is the table of `docs/reference/operations.md`, which this test keeps true. Recurrent layers, which are no
//! operation there, are computed beside oneDNN's primitives.
//!
//! Kernels take long to compile, so OpenCL devices run some cases of each operation. `ANYDNN_ORACLE=all` runs all of them there, and
//! `ANYDNN_ORACLE=TEXT` those whose names contain a text.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::float_cmp,
    clippy::type_complexity,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    dead_code,
    reason = "tests and their helpers; the reference is that of the tests of graph operations"
)]

mod cases;
mod checks;
mod engines;
mod exceptions;
mod expected;
mod onednn;
mod recurrent;
#[path = "../graph_ops/reference/mod.rs"]
mod reference;
mod table;
#[path = "../graph_ops/tensor.rs"]
mod tensor;
mod trials;

use std::path::PathBuf;

use anydnn::backend::DataType;
use anydnn::graph::OpKind;

use engines::Outcome;

/// The types of the table.
const TYPES: [DataType; 12] = [
    DataType::F32,
    DataType::F16,
    DataType::BF16,
    DataType::S32,
    DataType::S8,
    DataType::U8,
    DataType::S4,
    DataType::U4,
    DataType::F8E5M2,
    DataType::F8E4M3,
    DataType::Boolean,
    DataType::S64,
];

/// Kinds that compute nothing.
const EMPTY: [OpKind; 2] = [OpKind::End, OpKind::Wildcard];

#[test]
fn every_operation_computes_as_in_onednn() {
    let Some(library) = std::env::var_os("ANYDNN_ONEDNN_LIBRARY").map(PathBuf::from) else {
        let message = "ANYDNN_ONEDNN_LIBRARY does not name oneDNN's own library; `cargo xtask setup` installs it and tells";
        assert!(std::env::var_os("ANYDNN_REQUIRE").is_none(), "{message}");
        eprintln!("NOT TESTED: {message}");
        return;
    };
    let trials = trials::all();
    if let Ok(task) = std::env::var(expected::CHILD) {
        expected::answer(&library, &task, &trials);
        return;
    }
    for kind in OpKind::ALL.iter().filter(|kind| !EMPTY.contains(kind)) {
        let has_case = trials.iter().any(|trial| trial.kind() == *kind);
        assert!(has_case || !trials::are_all(), "no case of {kind}");
    }
    let start = std::time::Instant::now();
    let answers = expected::ask(&library, &trials);
    println!("oneDNN: {} cases in {:.1} s", trials.len(), start.elapsed().as_secs_f64());
    let checks = checks::all(&trials, answers);
    let runs = engines::run(&trials, &checks);

    let mut wrong: Vec<String> = Vec::new();
    for run in &runs {
        for (trial, outcome) in trials.iter().zip(&run.outcomes) {
            match outcome {
                Outcome::Wrong(error) => wrong.push(format!("{}: {}: {error}", run.name, trial.name())),
                Outcome::Refused(error) if trial.role != trials::Role::Typed => {
                    wrong.push(format!("{} refuses {}: {error}", run.name, trial.name()));
                }
                _ => {}
            }
        }
    }
    let untrue = checks::untrue(&trials, &checks);
    assert!(
        wrong.is_empty() && untrue.is_empty(),
        "{} results differ:\n{}\n\n{} exceptions are not true:\n{}",
        wrong.len(),
        wrong.join("\n"),
        untrue.len(),
        untrue.join("\n")
    );
    if trials::are_all() {
        table::check(&trials, &checks, &runs);
    }
}

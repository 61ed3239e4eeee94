//! The node tests of the `onnx` package on every backend, and the table in docs/reference/onnx.md that says how they went.

#![cfg(feature = "onnx")]
#![allow(
    clippy::unwrap_used,
    clippy::format_push_string,
    reason = "a test fails by panicking, and its text is small"
)]

#[path = "../src/onnx/tests/node_tests.rs"]
mod node_tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anydnn::backend::conformance::Sample;
use anydnn::backend::{Backend, Engine, Error, TensorValues, Tolerance};
use anydnn::model::HostTensor;
use anydnn::onnx::{Model, SessionOptions, read_tensor};
use anydnn_host::HostEngine;

use node_tests::{EXCEPTIONS, compare, is_random};

/// The page with the table, which lies between these marks.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/onnx.md");
const BEGIN: &str = "<!-- Written by tests/onnx_nodes.rs: ANYDNN_BLESS=1 writes it anew. -->\n";
const END: &str = "<!-- To here. -->\n";

/// What is out of scope by the beginning of tests' names.
const SCOPE: [(&str, &str); 11] = [
    ("test_ad", "training"),
    ("test_identity_opt", "sequences and optionals"),
    ("test_identity_sequence", "sequences and optionals"),
    ("test_if_opt", "sequences and optionals"),
    ("test_if_seq", "sequences and optionals"),
    ("test_image_decoder", "decoding of images"),
    ("test_loop1", "sequences and optionals"),
    ("test_momentum", "training"),
    ("test_nesterov", "training"),
    ("test_optional_", "sequences and optionals"),
    ("test_s", "sequences and optionals"),
];

/// How a test went.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// Out of scope, with what for.
    Apart(String),
    Failed(String),
}

#[test]
fn node_tests_give_what_they_say() {
    let Some(folder) = node_tests::folder() else { return };
    let sample = Sample::from_env();
    let all = node_tests::cases(&folder).into_iter().enumerate();
    let cases: Vec<_> = all.filter(|(number, _)| sample.takes_somewhere(*number)).collect();
    let runs = runs(&cases, sample);
    let failed: Vec<String> = runs
        .iter()
        .flat_map(|(backend, outcomes)| {
            cases.iter().zip(outcomes).filter_map(move |((_, case), outcome)| match outcome {
                Some(Outcome::Failed(why)) => Some(format!("{backend} {}: {why}", name(case))),
                _ => None,
            })
        })
        .collect();
    println!("{} failed:\n{}", failed.len(), failed.join("\n"));
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
    // The table has these columns and counts all cases; a machine without one of them cannot write it.
    if sample.covers_all()
        && ["host", "opencl:pocl", "opencl:intel"].iter().all(|name| runs.iter().any(|(own, _)| own == name))
    {
        let cases: Vec<_> = cases.into_iter().map(|(_, case)| case).collect();
        check_table(&table(&cases, &merged(&runs)));
    }
}

/// A test with its number among all.
type Numbered = (usize, PathBuf);

/// How each case went on a backend, where its sample has it.
type Run = (String, Vec<Option<Outcome>>);

/// How every case went on every backend: all of them on the host, those of the sample on each device.
fn runs(cases: &[Numbered], sample: Sample) -> Vec<Run> {
    let on_host = || ("host".to_owned(), run(&HostEngine::new(), "host", cases, |_| true));
    #[cfg(not(feature = "opencl"))]
    return vec![on_host()];
    #[cfg(feature = "opencl")]
    std::thread::scope(|scope| {
        let engines = anydnn_opencl::testing::hasty_test_engines();
        let devices: Vec<_> = engines
            .into_iter()
            .enumerate()
            .map(|(device, engine)| {
                scope.spawn(move || {
                    let name = format!("opencl:{}", engine.opencl_device().alias());
                    let outcomes = run(&engine, &name, cases, |case| sample.takes(case, device));
                    (name, outcomes)
                })
            })
            .collect();
        let mut all = vec![on_host()];
        all.extend(devices.into_iter().map(|run| run.join().unwrap()));
        all
    })
}

fn run<E: Engine<B = B>, B: Backend<Engine = E>>(
    engine: &E,
    backend: &str,
    cases: &[Numbered],
    runs_here: impl Fn(usize) -> bool,
) -> Vec<Option<Outcome>> {
    let start = std::time::Instant::now();
    let outcome = |(number, case): &Numbered| {
        runs_here(*number).then(|| check(engine, case).err().unwrap_or(Outcome::Passed))
    };
    let outcomes: Vec<Option<Outcome>> = cases.iter().map(outcome).collect();
    let (ran, passed) = (outcomes.iter().flatten(), Some(Outcome::Passed));
    let passed = outcomes.iter().filter(|outcome| **outcome == passed).count();
    println!("{backend}: {passed} of {} passed in {:.1} s", ran.count(), start.elapsed().as_secs_f64());
    outcomes
}

/// How every case went on the host, and on the devices that ran it.
fn merged(runs: &[Run]) -> [(&'static str, Vec<Outcome>); 2] {
    let (host, devices) = runs.split_first().unwrap();
    let of_devices = |i: usize| devices.iter().find_map(|(_, outcomes)| outcomes[i].clone()).unwrap();
    let on_host = host.1.iter().flatten().cloned().collect();
    [("host", on_host), ("OpenCL", (0..host.1.len()).map(of_devices).collect())]
}

fn check<E: Engine<B = B>, B: Backend<Engine = E>>(engine: &E, case: &Path) -> Result<(), Outcome> {
    let fail = |error: Error| match (scope(&name(case)), missing_type(&error.to_string())) {
        (_, Some(name)) => Outcome::Apart(format!("elements of {name}")),
        (Some(why), None) => Outcome::Apart(why.into()),
        (None, None) => Outcome::Failed(error.to_string()),
    };
    let model = Model::load(case.join("model.onnx")).map_err(fail)?;
    let file = |kind: &str, index: usize| case.join(format!("test_data_set_0/{kind}_{index}.pb"));
    let mut given: Vec<(String, HostTensor)> = Vec::new();
    for (index, input) in model.inputs().map_err(fail)?.into_iter().enumerate() {
        given.push((input.name, read_tensor(file("input", index)).map_err(fail)?));
    }
    let given: Vec<(&str, HostTensor)> =
        given.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    // Loops of the backend that is tested.
    let options = SessionOptions { host_loops: false, ..SessionOptions::default() };
    let session = model.compile_with(engine, &[], &options).map_err(fail)?;
    for (index, (output, made)) in session.run(&given).map_err(fail)?.into_iter().enumerate() {
        let expected = read_tensor(file("output", index)).map_err(fail)?;
        compare(&made, &expected, is_random(&name(case))).map_err(|wrong| {
            match EXCEPTIONS.iter().find(|(own, _)| *own == name(case)) {
                Some((_, why)) => Outcome::Apart((*why).to_owned()),
                None => Outcome::Failed(format!("{output}: {wrong}")),
            }
        })?;
    }
    Ok(())
}

fn name(case: &Path) -> String {
    case.file_name().unwrap().to_string_lossy().into_owned()
}

/// Why a test that is refused need not pass.
fn scope(name: &str) -> Option<&'static str> {
    let own = SCOPE.iter().find(|(begin, _)| name.starts_with(begin));
    let own = own.filter(|(begin, _)| match *begin {
        "test_s" => name.starts_with("test_sequence_") || name.starts_with("test_split_to_sequence"),
        "test_ad" => name.starts_with("test_adam") || name.starts_with("test_adagrad"),
        "test_loop1" => name.starts_with("test_loop13_seq") || name.starts_with("test_loop16_seq"),
        _ => true,
    });
    own.map(|(_, why)| *why)
}

/// The type that anydnn lacks, if that is what an error says.
fn missing_type(error: &str) -> Option<&str> {
    if !error.contains("anydnn has no such type") {
        return None;
    }
    error.split("data type ").nth(1)?.split(':').next()
}

/// The tables: how many tests of each operator passed, and what the others are out of scope for.
fn table(cases: &[PathBuf], runs: &[(&str, Vec<Outcome>)]) -> String {
    let mut operators: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, case) in cases.iter().enumerate() {
        operators.entry(operator(case)).or_default().push(index);
    }
    let backends: Vec<&str> = runs.iter().map(|(backend, _)| *backend).collect();
    let mut text = format!("| operator | tests | out of scope | {} |\n", backends.join(" | "));
    text += &format!("|---|---:|---:|{}\n", "---:|".repeat(runs.len()));
    let all: Vec<usize> = (0..cases.len()).collect();
    let rows = operators.iter().map(|(name, indices)| (name.as_str(), indices));
    for (name, indices) in std::iter::once(("all", &all)).chain(rows) {
        let count = |outcomes: &[Outcome], wanted: fn(&Outcome) -> bool| {
            indices.iter().filter(|&&index| wanted(&outcomes[index])).count()
        };
        let apart = count(&runs[0].1, |outcome| matches!(outcome, Outcome::Apart(_)));
        let passed = runs.iter().map(|(_, outcomes)| count(outcomes, |outcome| *outcome == Outcome::Passed));
        let passed: Vec<String> = passed.map(|count| count.to_string()).collect();
        text += &format!("| {name} | {} | {apart} | {} |\n", indices.len(), passed.join(" | "));
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for outcome in &runs[0].1 {
        if let Outcome::Apart(why) = outcome {
            *reasons.entry(why).or_default() += 1;
        }
    }
    text += "\nOut of scope:\n\n| reason | tests |\n|---|---:|\n";
    for (why, count) in reasons {
        text += &format!("| {why} | {count} |\n");
    }
    text
}

/// The operator that a test is about: that of the test that this one writes out, or of its last node.
fn operator(case: &Path) -> String {
    let name = name(case);
    let plain = name.find("_expanded").map(|end| case.with_file_name(&name[..end]));
    let model = plain.and_then(|plain| Model::load(plain.join("model.onnx")).ok());
    let model = model.or_else(|| Model::load(case.join("model.onnx")).ok());
    let operators = model.map(|model| model.operators().map(str::to_owned).collect::<Vec<_>>());
    operators.and_then(|mut all| all.pop()).unwrap_or_else(|| "not read".into())
}

/// Compares the table with that of the page, or writes it there.
fn check_table(table: &str) {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (old, after) = rest.split_once(END).unwrap();
    let new = format!("\n{table}\n");
    if std::env::var_os("ANYDNN_BLESS").is_some() {
        std::fs::write(PAGE, format!("{before}{BEGIN}{new}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(old, new, "docs/reference/onnx.md has another table; ANYDNN_BLESS=1 writes it anew");
}

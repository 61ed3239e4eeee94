//! The program as a user starts it: results, exit codes, JSON, help.

mod compiling;
mod devices;
mod drawing;
mod dumps;
mod measuring;
mod onnx;
mod running;
mod sweeping;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn anydnn(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anydnn"));
    command.env_remove("ANYDNN_BACKEND").env_remove("ANYDNN_LOG").env("NO_COLOR", "1").env("COLUMNS", "110");
    command.current_dir(root()).args(args).output().expect("the program starts")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[track_caller]
fn succeeds(args: &[&str]) -> String {
    let output = anydnn(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "{args:?} writes to standard error");
    text(&output.stdout)
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    serde_json::from_str(&succeeds(args)).expect("one JSON object")
}

/// Runs and expects an exit code, an `error:` line with all of the words, and a `help:` line.
#[track_caller]
fn fails(args: &[&str], code: i32, words: &[&str]) {
    let output = anydnn(args);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
    assert_eq!(text(&output.stdout), "", "{args:?}");
    assert!(error.starts_with("error: "), "{error}");
    let missing: Vec<_> = words.iter().filter(|word| !error.contains(**word)).collect();
    assert!(missing.is_empty(), "{missing:?} not in {error}");
    assert!(error.contains("\nhelp: "), "{error}");
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn write(folder: &tempfile::TempDir, name: &str, content: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, content).expect("a temporary file");
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// A graph of one operation over `[2, 3]`, with parts to replace.
fn relu(replace: &[(&str, &str)]) -> String {
    let graph = r#"{"version": "3.14.0", "engine_kind": "cpu", "fpmath_mode": "strict", "graph": [
        {"id": 0, "name": "act", "kind": "ReLU", "attrs": {},
         "inputs": [{"id": 0, "dtype": "f32", "shape": [2, 3], "stride": [3, 1], "layout_type": "strided", "property_type": "variable"}],
         "outputs": [{"id": 1, "dtype": "f32", "shape": [2, 3], "stride": [3, 1], "layout_type": "strided", "property_type": "variable"}]}]}"#;
    replace.iter().fold(graph.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

/// The host and every OpenCL device that must be there.
fn backends() -> Vec<String> {
    let required = std::env::var("ANYDNN_REQUIRE").unwrap_or_default();
    let devices = required.split(',').filter(|entry| entry.starts_with("opencl:")).map(str::to_owned);
    ["host".to_owned()].into_iter().chain(devices).collect()
}

#[test]
fn wrong_usage_exits_with_two() {
    for args in [
        &["run"][..],
        &["frobnicate"],
        &["run", "x", "--batch", "0"],
        &["run", "x", "--input", "name"],
        &["graph", "x", "--dot", "a", "--svg", "b"],
    ] {
        let output = anydnn(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).starts_with("error: "), "{args:?}");
    }
}

#[test]
fn help_is_stable() {
    for command in ["", "devices", "run", "warm", "graph", "bench", "sweep"] {
        let args: Vec<&str> = [command, "--help"].into_iter().filter(|word| !word.is_empty()).collect();
        insta::assert_snapshot!(
            format!("help_{}", if command.is_empty() { "all" } else { command }),
            succeeds(&args)
        );
    }
}

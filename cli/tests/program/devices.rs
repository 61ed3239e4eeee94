//! Which devices there are, and what is said where there is none.

use std::process::Command;

use serde_json::Value;

use super::{fails, json, root, scratch, succeeds, text};
#[test]
fn backends_that_are_not_there_have_an_exit_code_of_their_own() {
    fails(
        &["run", "examples/digits", "--backend", "opencl:no-such-platform"],
        4,
        &["opencl:no-such-platform"],
    );
    fails(&["run", "examples/digits", "--backend", "erased"], 4, &["erased"]);
    fails(&["run", "examples/digits", "--backend", "cuda"], 2, &["--backend", "\"cuda\"", "opencl:PLATFORM"]);
}

#[test]
fn devices_are_listed_with_their_memory() {
    let report = json(&["devices", "--json"]);
    let candidates = report["candidates"].as_array().expect("a list");
    let host = candidates.iter().find(|candidate| candidate["name"] == "host").expect("the host");
    assert_eq!(host["unavailable"], Value::Null);
    assert!(!host["capabilities"]["memory_kinds"].as_array().expect("a list").is_empty());
    let chosen = report["chosen"].as_str().expect("a name");
    assert!(candidates.iter().any(|candidate| candidate["name"] == chosen));
    let words = succeeds(&["devices"]);
    assert!(words.contains("memory kinds") && words.contains(&format!("chosen: {chosen}")), "{words}");
}

#[test]
fn devices_follow_the_environment() {
    let output = Command::new(env!("CARGO_BIN_EXE_anydnn"))
        .args(["devices", "--json"])
        .env("ANYDNN_BACKEND", "mock")
        .output()
        .expect("the program starts");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(report["chosen"], "mock");
}

#[test]
fn without_opencl_the_host_runs_and_says_how_to_get_a_device() {
    let folder = scratch();
    let mut command = Command::new(env!("CARGO_BIN_EXE_anydnn"));
    command.current_dir(root()).args(["run", "examples/digits", "--repeat", "0"]);
    command.env_remove("ANYDNN_BACKEND").env("OPENCL_DYLIB_PATH", folder.path());
    command.env("OCL_ICD_VENDORS", folder.path()).env("OPENCL_VENDOR_PATH", folder.path());
    let output = command.output().expect("the program starts");
    let report = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for part in ["device    host", "accuracy  9", "install an OpenCL driver"] {
        assert!(report.contains(part), "{part:?} is not in\n{report}");
    }
}

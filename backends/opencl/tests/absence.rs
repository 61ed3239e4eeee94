//! What happens where there is no OpenCL. The library is loaded once per process, so each case runs in a process of its own.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::process::Command;

use anydnn_opencl::{Problem, availability, devices};

/// Runs one of the ignored tests below in a child with other surroundings.
fn run(case: &str, variables: &[(&str, &str)]) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", case, "--ignored", "--nocapture"]).envs(variables.iter().copied());
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn without_a_library_there_are_no_devices_and_a_reason() {
    // The name that the loader falls back to is looked up on this path first: a file that is no library hides the system's.
    let folder = std::env::temp_dir().join(format!("anydnn-no-opencl-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("libOpenCL.so.1"), b"not a library").unwrap();
    let path = folder.to_str().unwrap();
    run("case_no_library", &[("OPENCL_DYLIB_PATH", "/nonexistent/libOpenCL.so"), ("LD_LIBRARY_PATH", path)]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
#[ignore = "run by the test above"]
fn case_no_library() {
    // Some systems' loaders skip a broken file and find the real one; then there would be nothing to see.
    assert!(cl3::load_library().is_err());
    assert!(devices().unwrap().is_empty());
    let found = availability();
    assert!(matches!(found.problems[..], [Problem::NoLibrary { .. }]), "{found:?}");
    let error = found.into_devices().unwrap_err().to_string();
    assert!(error.contains("OpenCL is not available") && error.contains("OPENCL_DYLIB_PATH"), "{error}");
}

#[test]
fn without_a_driver_there_are_no_devices_and_a_reason() {
    let folder = std::env::temp_dir().join(format!("anydnn-no-drivers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    run("case_no_driver", &[("OCL_ICD_VENDORS", folder.to_str().unwrap())]);
    std::fs::write(folder.join("gone.icd"), "/nonexistent/libgone.so").unwrap();
    run("case_broken_driver", &[("OCL_ICD_VENDORS", folder.to_str().unwrap())]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
#[ignore = "run by the test above"]
fn case_no_driver() {
    assert!(devices().unwrap().is_empty());
    let found = availability();
    assert!(found.problems.iter().any(|p| matches!(p, Problem::NoVendors { .. })), "{found:?}");
    assert!(found.into_devices().is_err());
}

#[test]
#[ignore = "run by the test above"]
fn case_broken_driver() {
    assert!(devices().unwrap().is_empty());
    let reason = availability().reason();
    assert!(reason.contains("gone.icd") && reason.contains("/nonexistent/libgone.so"), "{reason}");
}

#[test]
fn a_required_backend_that_is_missing_fails() {
    let missing = [("ANYDNN_REQUIRE", "host, opencl:nosuchdriver")];
    run("case_required", &missing);
}

#[test]
#[ignore = "run by the test above"]
fn case_required() {
    let outcome = std::panic::catch_unwind(anydnn_opencl::testing::test_engines);
    let message = *outcome.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("opencl:nosuchdriver"), "{message}");
}

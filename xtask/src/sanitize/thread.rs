//! ThreadSanitizer: accesses of two threads that nothing orders.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::reports::Reports;
use super::{Outcome, folder, nightly, nightly_lacks, tests};
use crate::setup::Ready;
use crate::tally::Tally;
use crate::vendors;

/// What threads share: streams, events, pools of memory and kernels, caches. A package with its tests, all if none is named, and words of
/// which one is in the names of those that run.
const RUNS: [(&str, &[&str], &[&str]); 6] = [
    // Conformance computes for hours here, each case on a stream of its own.
    ("anydnn-backend", &["--lib"], &["allocator", "error", "host_memory", "list", "profile", "stream"]),
    ("anydnn-host", &["--lib"], &[]),
    ("anydnn-mock", &["--lib", "--test=device", "--test=faults", "--test=order", "--test=races"], &[]),
    (
        "anydnn-opencl",
        &["--lib"],
        &[
            "buffer",
            "cache",
            "capability",
            "affinity",
            "deferred_release",
            "launch",
            "ledger",
            "list",
            "open_maps",
            "wait",
            "platform",
            "pool",
            "profile",
            "tune",
        ],
    ),
    // Without those of failing chains: PoCL holds a lock for each of their commands, more than the sanitizer counts, and then waits for ever.
    (
        "anydnn-opencl",
        &[
            "--test=discovery",
            "--test=streams",
            "--test=streams_dependencies",
            "--test=streams_profile",
            "--test=threads",
            "--test=cache",
            "--test=allocators",
            "--test=lifetimes",
            "--test=spec_stream",
        ],
        &[],
    ),
    ("anydnn", &["--lib"], &["cache", "thread", "session", "process", "lists", "compiled"]),
];

/// On PoCL alone, which synchronises by what the sanitizer sees; Intel's runtime has means of its own.
pub(super) fn check(ready: &Ready) -> Result<Outcome> {
    // The standard library's own synchronisation must be built with the sanitizer, or what it orders looks like races.
    if let Some(why) = nightly_lacks("rust-src") {
        return Ok(Outcome::NotRun(why));
    }
    let folder = folder("thread")?;
    let reports = Reports::within(&folder)?;
    let vendors = pocl_alone(&folder)?;
    let (mut tally, mut findings) = (Tally::default(), Vec::new());
    for (package, selection, words) in RUNS {
        let mut command = nightly(&folder, "-Zsanitizer=thread");
        command.args(["test", "-Zbuild-std", "--all-features", "--no-fail-fast", "--package", package]);
        command.args(selection).arg("--").args(words);
        command.env("TSAN_OPTIONS", options(&reports, package));
        command.env("ANYDNN_REQUIRE", "host,mock,opencl:pocl").env(vendors::VARIABLE, &vendors);
        tests(&mut command, ready, &mut tally, &mut findings)?;
    }
    findings.extend(reports.findings()?);
    Ok(Outcome::Ran(tally, findings))
}

fn options(reports: &Reports, package: &str) -> String {
    let options = [
        format!("log_path={}", reports.path()),
        // Drivers and what they load are built without the sanitizer: what they access is ignored, their locks are seen all the same.
        "ignore_noninstrumented_modules=1".to_owned(),
        // Detached threads of drivers are not ours to end.
        "report_thread_leaks=0".to_owned(),
        // A report's second stack needs it.
        "history_size=4".to_owned(),
        // The order of locks, of which PoCL holds more at once than the sanitizer can count.
        format!("detect_deadlocks={}", u8::from(package != "anydnn-opencl")),
    ];
    options.join(":")
}

/// A folder of vendor files with those of PoCL.
fn pocl_alone(folder: &Path) -> Result<PathBuf> {
    let vendors = folder.join("vendors");
    vendors::copy_of("pocl", &vendors)?;
    Ok(vendors)
}

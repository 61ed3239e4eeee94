//! Valgrind: values that nobody wrote, which the other tools do not see, in what runs without a driver: the compilers within drivers use
//! instructions that it does not know.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Outcome, folder};
use crate::command::{cargo, root, succeeds};
use crate::packages;
use crate::programs::{self, End, Program, run_within};
use crate::setup::Ready;
use crate::tally::Tally;

/// Packages with code that is not checked by the compiler, beside the backend of drivers. Each test program counts as one test.
const PACKAGES: [&str; 3] = ["anydnn-host", "anydnn-mock", "anydnn-c"];

/// Test programs of those packages that start compilers, which is nothing to look at.
const LEFT_OUT: [&str; 4] = ["exports", "objects", "programs", "reference"];

const LONGEST: Duration = Duration::from_secs(1800);

/// The exit status of a program in which something was found.
const FOUND: u8 = 99;

pub(super) fn check(ready: &Ready) -> Result<Outcome> {
    if !succeeds("valgrind", &["--version"]) {
        println!("Valgrind is missing: installing packages");
        if let Err(error) = packages::install_also(&["valgrind"]) {
            return Ok(Outcome::NotRun(format!("valgrind is not installed ({error:#})")));
        }
    }
    let folder = folder("valgrind")?;
    let (mut tally, mut findings) = (Tally::default(), Vec::new());
    for program in programs()? {
        let log = folder.join(format!("{}.txt", program.name));
        let end = run_within(LONGEST, &mut under_valgrind(&program, &log, ready))?;
        let mut complaints = complaints(&fs::read_to_string(&log).unwrap_or_default());
        if end == End::TimeOut {
            complaints.push(format!("no end after {} s", LONGEST.as_secs()));
        } else if end == End::Failure && complaints.is_empty() {
            complaints.push("its tests failed".to_owned());
        }
        if complaints.is_empty() {
            tally.passed += 1;
        } else {
            tally.failed += 1;
        }
        findings.extend(complaints.into_iter().map(|text| format!("{}: {text}", program.name)));
    }
    Ok(Outcome::Ran(tally, findings))
}

fn programs() -> Result<Vec<Program>> {
    let mut command = cargo();
    command.args(["test", "--no-run", "--lib", "--tests", "--all-features"]).current_dir(root());
    for package in PACKAGES {
        command.args(["--package", package]);
    }
    let built = programs::build(&mut command).context("building what Valgrind starts")?;
    Ok(built.into_iter().filter(|program| !LEFT_OUT.contains(&&*program.name)).collect())
}

fn under_valgrind(program: &Program, log: &Path, ready: &Ready) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--track-origins=yes", "--fair-sched=yes"]);
    command.arg(format!("--error-exitcode={FOUND}")).arg(format!("--log-file={}", log.display()));
    command.arg(&program.path).arg("--test-threads=1").current_dir(&program.folder);
    command.envs(&ready.variables).env("OPENCL_DYLIB_PATH", "/nonexistent").env("RUST_BACKTRACE", "0");
    command.env_remove("ANYDNN_REQUIRE").env_remove("ANYDNN_BACKEND");
    command
}

/// The first lines of the reports of a log, with the place; a quiet log has nothing else.
fn complaints(log: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut lines = log.lines().map(without_process);
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with(' ') || line.starts_with('{') || line.starts_with('}') {
            continue;
        }
        let own = lines.by_ref().take_while(|line| !line.is_empty()).find(|line| line.contains("anydnn"));
        let text = format!("{line} {}", own.unwrap_or_default().trim());
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

/// `==12== text` without the number.
fn without_process(line: &str) -> &str {
    line.strip_prefix("==")
        .and_then(|rest| Some(rest.split_once("==")?.1))
        .map_or(line, |rest| rest.strip_prefix(' ').unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_told_by_what_and_where() {
        let log = "\
==7== Conditional jump or move depends on uninitialised value(s)
==7==    at 0x1: core::ptr::read (mod.rs:3)
==7==    by 0x2: anydnn_host::softmax::row (softmax.rs:14)
==7==  Uninitialised value was created by a heap allocation
==7==    at 0x3: malloc
==7== 
==7== Invalid read of size 8
==7==    at 0x4: memcpy
==7== 
";
        let found = complaints(log);
        assert_eq!(
            found,
            [
                "Conditional jump or move depends on uninitialised value(s) by 0x2: anydnn_host::softmax::row (softmax.rs:14)",
                "Invalid read of size 8 "
            ]
        );
        assert!(complaints("").is_empty());
    }
}

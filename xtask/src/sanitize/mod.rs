//! The workspace's tests under tools that see what a passing test does not tell: memory used after its time, data races, uninitialised
//! values, undefined behaviour. Each builds in a folder of its own, so that the ordinary build stays as it is.

mod address;
mod miri;
mod reports;
mod thread;
mod valgrind;

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::command::{output, root, run, stream, succeeds};
use crate::setup::{Ready, setup};
use crate::tally::{Tally, complains, test_result};

/// A tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// AddressSanitizer over the tests of the workspace and the C programs
    Address,
    /// ThreadSanitizer over the tests of what threads share
    Thread,
    /// Valgrind over what neither sees: uninitialised values
    Valgrind,
    /// Miri over what runs without a driver
    Miri,
}

const ALL: [Part; 4] = [Part::Address, Part::Thread, Part::Valgrind, Part::Miri];

/// How a part ended.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    /// What ran, and what was found.
    Ran(Tally, Vec<String>),
    /// Why it did not.
    NotRun(String),
}

/// Runs the parts, all if none is named, and ends with a line for each. Returns whether nothing was found; a part that was named must
/// also have run.
pub(crate) fn check(named: &[Part]) -> Result<bool> {
    let ready = setup()?;
    println!("{ready}");
    let parts = if named.is_empty() { &ALL[..] } else { named };
    let mut ended = Vec::new();
    for &part in parts {
        println!("\n== {part} ==");
        let start = Instant::now();
        let outcome = match part {
            Part::Address => address::check(&ready),
            Part::Thread => thread::check(&ready),
            Part::Valgrind => valgrind::check(&ready),
            Part::Miri => miri::check(),
        };
        // What keeps one part from running is no reason to leave out the others.
        let outcome =
            outcome.unwrap_or_else(|error| Outcome::Ran(Tally::default(), vec![format!("{error:#}")]));
        println!("== {part}: {outcome} ({:.0} s) ==", start.elapsed().as_secs_f64());
        ended.push((part, outcome));
    }
    println!("\nSanitizers:");
    for (part, outcome) in &ended {
        println!("  {part}: {outcome}");
        for finding in outcome.findings() {
            println!("    {finding}");
        }
    }
    Ok(ended.iter().all(|(_, outcome)| outcome.is_good(!named.is_empty())))
}

/// `anydnn`, built with AddressSanitizer, which ends its process where memory is used out of bounds.
pub(crate) fn program() -> Result<Command> {
    if let Some(why) = nightly_lacks("") {
        bail!("{why}: AddressSanitizer needs one");
    }
    let folder = folder("address")?;
    // Random cases are many, and references in plain loops: some optimisation makes them several times as fast.
    let mut build = nightly(&folder, "-Zsanitizer=address");
    run(build.args(["build", "--package", "anydnn-cli"]).env("CARGO_PROFILE_DEV_OPT_LEVEL", "1"))?;
    let mut command = Command::new(folder.join(TARGET).join("debug").join("anydnn"));
    // Cases ask for absurd sizes, which must be answered by an error; processes that are ended leave what they had.
    command.env("ASAN_OPTIONS", "allocator_may_return_null=1:detect_leaks=0");
    Ok(command)
}

impl Outcome {
    fn findings(&self) -> &[String] {
        match self {
            Self::Ran(_, findings) => findings,
            Self::NotRun(_) => &[],
        }
    }

    fn is_good(&self, must_run: bool) -> bool {
        match self {
            Self::Ran(tally, findings) => findings.is_empty() && tally.failed == 0 && tally.passed > 0,
            Self::NotRun(_) => !must_run,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ran(tally, findings) => {
                write!(f, "{} passed, {} failed, {} findings", tally.passed, tally.failed, findings.len())
            }
            Self::NotRun(why) => write!(f, "{why}, not run"),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "AddressSanitizer",
            Self::Thread => "ThreadSanitizer",
            Self::Valgrind => "Valgrind",
            Self::Miri => "Miri",
        })
    }
}

/// A folder for what a part builds and writes down.
fn folder(name: &str) -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let folder = root().join(target).join("sanitize").join(name);
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(folder)
}

/// Cargo of the nightly toolchain, which builds for the named target into `folder`. Build scripts and macros are for the host and so
/// built without the flags.
fn nightly(folder: &std::path::Path, flags: &str) -> Command {
    let mut command = Command::new("rustup");
    // What cargo sets for the programs that it starts, this one among them, is of another toolchain.
    for variable in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(variable);
    }
    command.args(["run", "nightly", "cargo"]).current_dir(root());
    command.env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", folder).env("CARGO_BUILD_TARGET", TARGET);
    command
}

/// Those that have sanitizers are named in rustc's book; the tests' drivers exist for this one.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Why the nightly toolchain cannot be used with a component, which is installed if that is possible.
fn nightly_lacks(component: &str) -> Option<String> {
    if !succeeds("rustup", &["run", "nightly", "rustc", "--version"]) {
        return Some("no nightly toolchain".to_owned());
    }
    let is_installed = || {
        let list = output("rustup", &["component", "list", "--toolchain", "nightly"]).unwrap_or_default();
        list.lines().any(|line| line.starts_with(component) && line.ends_with("(installed)"))
    };
    let install = ["component", "add", component, "--toolchain", "nightly"];
    let is_there = component.is_empty() || is_installed() || (succeeds("rustup", &install) && is_installed());
    (!is_there).then(|| format!("{component} of the nightly toolchain is not installed"))
}

/// Runs tests and adds up what they tell.
fn tests(command: &mut Command, ready: &Ready, tally: &mut Tally, findings: &mut Vec<String>) -> Result<()> {
    // The caller's choice of a backend is not ours. Programs come from source, not from an earlier run.
    command.env_remove("ANYDNN_BACKEND").env("ANYDNN_CACHE", "0").env("INSTA_UPDATE", "no");
    for (name, value) in &ready.variables {
        if command.get_envs().all(|(set, _)| set != name.as_str()) {
            command.env(name, value);
        }
    }
    let mut complaints = Vec::new();
    let status = stream(command, |line| {
        *tally += test_result(line).unwrap_or_default();
        if complains(line) {
            complaints.push(line.to_owned());
        }
    })?;
    if !status.success() {
        findings.push(format!("the tests end with {status}"));
        findings.append(&mut complaints);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(passed: usize, failed: usize, findings: &[&str]) -> Outcome {
        let tally = Tally { passed, failed, ignored: 0 };
        Outcome::Ran(tally, findings.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn only_a_run_without_findings_is_good() {
        assert!(ran(3, 0, &[]).is_good(true));
        assert!(!ran(0, 0, &[]).is_good(false));
        assert!(!ran(3, 1, &[]).is_good(false));
        assert!(!ran(3, 0, &["data race"]).is_good(false));
    }

    #[test]
    fn what_did_not_run_is_told_and_fails_where_it_was_named() {
        let missing = Outcome::NotRun("miri is not installed".to_owned());
        assert!(missing.is_good(false) && !missing.is_good(true));
        assert_eq!(missing.to_string(), "miri is not installed, not run");
        assert_eq!(ran(3, 1, &["one"]).to_string(), "3 passed, 1 failed, 1 findings");
    }
}

//! Miri: undefined behaviour in the language's own sense, in what runs without a driver and without the processor's instructions.

use anyhow::Result;

use super::{Outcome, folder, nightly, nightly_lacks};
use crate::command::stream;
use crate::tally::{Tally, complains, test_result};

/// A package with words of which one is in the names of its tests that run; the whole suites take hours in an interpreter.
const RUNS: [(&str, &[&str]); 2] = [
    ("anydnn-backend", &["memory", "layout", "data_type", "dims", "args"]),
    ("anydnn-host", &["memory", "allocator", "stream"]),
];

pub(super) fn check() -> Result<Outcome> {
    if let Some(why) = nightly_lacks("miri") {
        return Ok(Outcome::NotRun(why));
    }
    // Miri makes a standard library of its own.
    if let Some(why) = nightly_lacks("rust-src") {
        return Ok(Outcome::NotRun(why));
    }
    let folder = folder("miri")?;
    let (mut tally, mut findings) = (Tally::default(), Vec::new());
    for (package, words) in RUNS {
        let mut command = nightly(&folder, "");
        command.args(["miri", "test", "--package", package, "--lib", "--"]).args(words);
        // Tests read the clock and files.
        command.env("MIRIFLAGS", "-Zmiri-disable-isolation");
        let mut complaints = Vec::new();
        let status = stream(&mut command, |line| {
            tally += test_result(line).unwrap_or_default();
            if complains(line) {
                complaints.push(line.to_owned());
            }
        })?;
        if !status.success() {
            findings.push(format!("{package}: ended with {status}; the report is above"));
            findings.append(&mut complaints);
        }
    }
    Ok(Outcome::Ran(tally, findings))
}

//! AddressSanitizer: memory that is used beyond its ends or its life, and memory that nothing refers to at the end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::reports::Reports;
use super::{Outcome, folder, nightly, nightly_lacks, tests};
use crate::setup::Ready;
use crate::tally::Tally;
use crate::test::REQUIRED;

/// Leaks that are not ours, each with its reason.
const LEAKS: &str = include_str!("leaks.txt");

/// Over every test of the workspace but those of this program and those of what must not compile. The tests of the C ABI compile C programs
/// by [`compilers`], so that these are under the sanitizer as well.
pub(super) fn check(ready: &Ready) -> Result<Outcome> {
    if let Some(why) = nightly_lacks("") {
        return Ok(Outcome::NotRun(why));
    }
    let folder = folder("address")?;
    let reports = Reports::within(&folder)?;
    let leaks = folder.join("leaks.txt");
    fs::write(&leaks, LEAKS).with_context(|| format!("writing {}", leaks.display()))?;
    let [cc, cxx] = compilers(&folder)?;
    let mut command = nightly(&folder, "-Zsanitizer=address");
    command.args(["test", "--workspace", "--all-features", "--no-fail-fast", "--lib", "--bins", "--tests"]);
    command.args(["--exclude", "xtask"]);
    command.env("CC", cc).env("CXX", cxx).env("ANYDNN_REQUIRE", REQUIRED);
    command.env("ASAN_OPTIONS", options(&reports));
    command.env("LSAN_OPTIONS", format!("suppressions={}:print_suppressions=0", leaks.display()));
    let (mut tally, mut findings) = (Tally::default(), Vec::new());
    tests(&mut command, ready, &mut tally, &mut findings)?;
    findings.extend(reports.findings()?);
    Ok(Outcome::Ran(tally, findings))
}

fn options(reports: &Reports) -> String {
    let options = [
        format!("log_path={}", reports.path()),
        "detect_leaks=1".to_owned(),
        // Drivers bring their own C++ libraries, whose `new` and `delete` are not always of one kind.
        "alloc_dealloc_mismatch=0".to_owned(),
        // Absurd sizes are asked for in tests, which must be answered by an error.
        "allocator_may_return_null=1".to_owned(),
    ];
    options.join(":")
}

/// Compilers of C and C++ that build programs with the sanitizer; the libraries that they load have none of its run-time in them.
fn compilers(folder: &Path) -> Result<[PathBuf; 2]> {
    let make = |name: &str| -> Result<PathBuf> {
        let path = folder.join(format!("{name}.sh"));
        let script = format!("#!/bin/sh\nexec {name} -fsanitize=address -fno-omit-frame-pointer \"$@\"\n");
        fs::write(&path, script)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    };
    Ok([make("cc")?, make("c++")?])
}

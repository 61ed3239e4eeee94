//! The steps of the whole test run, in order. A new check is one more entry here.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::PathBuf;

use crate::command::root;
use crate::ledger::LAYER;
use crate::setup::Variables;
use crate::test::REQUIRED;

/// One command of the test run.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// What it checks, in a few words.
    pub(crate) name: &'static str,
    /// Arguments of `cargo`.
    pub(crate) cargo: Vec<&'static str>,
    /// Its environment, beside this program's.
    pub(crate) variables: Variables,
    /// What must hold, beside success.
    pub(crate) expect: Expect,
    /// Whether [`ledger::run`](crate::ledger::run) starts the programs.
    pub(crate) under_the_ledger: bool,
    /// Whether the fast run has it too.
    pub(crate) fast: bool,
}

/// What must hold for a step to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// The command succeeds.
    Success,
    /// It also tells the results of at least one test, and none failed.
    Tests,
}

/// All steps; `opencl` is what programs need in their environment to see the devices.
pub(crate) fn steps(opencl: &Variables) -> Vec<Step> {
    let with = |pairs: &[(&str, &str)]| {
        let mut variables = opencl.clone();
        variables.extend(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        variables
    };
    // The library's name and the vendor files lead nowhere, as on a machine without OpenCL.
    let without_opencl = |require: &str| {
        with(&[
            ("OPENCL_DYLIB_PATH", "/nonexistent"),
            ("OCL_ICD_VENDORS", "/nonexistent"),
            ("ANYDNN_REQUIRE", require),
        ])
    };
    vec![
        Step {
            name: "formatting",
            cargo: vec!["fmt", "--all", "--check"],
            variables: Variables::new(),
            expect: Expect::Success,
            under_the_ledger: false,
            fast: true,
        },
        Step {
            name: "lints",
            cargo: vec![
                "clippy",
                "--workspace",
                "--all-targets",
                "--all-features",
                "--",
                "--deny",
                "warnings",
            ],
            variables: Variables::new(),
            expect: Expect::Success,
            under_the_ledger: false,
            fast: false,
        },
        Step {
            name: "tests",
            cargo: vec!["test", "--workspace", "--all-features", "--no-fail-fast"],
            // A snapshot that differs is a failure, never an update. Programs come from source, not from an earlier run.
            variables: with(&[
                ("ANYDNN_REQUIRE", REQUIRED),
                ("INSTA_UPDATE", "no"),
                ("ANYDNN_CACHE", "0"),
                (LAYER, &layer()),
            ]),
            expect: Expect::Tests,
            under_the_ledger: true,
            fast: true,
        },
        Step {
            name: "documentation",
            cargo: vec!["doc", "--workspace", "--all-features", "--no-deps"],
            variables: with(&[("RUSTDOCFLAGS", "--deny warnings")]),
            expect: Expect::Success,
            under_the_ledger: false,
            fast: false,
        },
        Step {
            name: "conformance without OpenCL",
            // Of the whole workspace, so that nothing is built anew.
            cargo: vec!["test", "--workspace", "--all-features", "--test", "conformance"],
            variables: without_opencl("host,mock"),
            expect: Expect::Tests,
            under_the_ledger: false,
            fast: false,
        },
    ]
}

/// The layer that keeps the ledger, where cargo puts it beside the programs that depend on its package.
fn layer() -> String {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let name = format!("{DLL_PREFIX}anydnn_faults{DLL_SUFFIX}");
    root().join(target).join("debug/deps").join(name).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_require_every_backend_and_see_the_devices() {
        let opencl = Variables::from([("OCL_ICD_VENDORS".to_owned(), "/a/folder".to_owned())]);
        let steps = steps(&opencl);
        let tests = steps.iter().find(|step| step.name == "tests").unwrap();
        assert_eq!(tests.variables["ANYDNN_REQUIRE"], "host,mock,opencl:pocl,opencl:intel");
        assert_eq!(tests.variables["OCL_ICD_VENDORS"], "/a/folder");
        assert!(tests.fast);
    }

    #[test]
    fn steps_without_opencl_require_none_and_find_none() {
        let opencl = Variables::from([("OCL_ICD_VENDORS".to_owned(), "/a/folder".to_owned())]);
        let without: Vec<_> =
            steps(&opencl).into_iter().filter(|step| step.name.ends_with("without OpenCL")).collect();
        assert_eq!(without.len(), 1);
        for step in without {
            assert_eq!(step.variables["OCL_ICD_VENDORS"], "/nonexistent");
            assert!(!step.variables["ANYDNN_REQUIRE"].contains("opencl"));
        }
    }

    #[test]
    fn the_tests_run_under_the_ledger() {
        let steps = steps(&Variables::new());
        let under: Vec<_> = steps.iter().filter(|step| step.under_the_ledger).collect();
        assert_eq!(under.iter().map(|step| step.name).collect::<Vec<_>>(), ["tests"]);
        assert!(under[0].variables[LAYER].ends_with(DLL_SUFFIX));
    }

    #[test]
    fn names_are_told_apart() {
        let steps = steps(&Variables::new());
        for (i, step) in steps.iter().enumerate() {
            assert!(steps[..i].iter().all(|other| other.name != step.name), "{}", step.name);
        }
    }
}

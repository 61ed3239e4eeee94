//! The steps of the whole test run. Their commands run side by side, those of the first ones first: what `cargo` builds, one at a time,
//! then what takes a minute and cannot be split, short test programs last. A new check is one more entry here.

use std::path::PathBuf;
use std::{fs, io};

use crate::fence::{self, Mode};
use crate::ledger::{LAYER, UNDER_THE_FENCE};
use crate::sample::Sample;
use crate::setup::Variables;
use crate::test::REQUIRED;

/// One command of the test run.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// What it checks, in a few words.
    pub(crate) name: &'static str,
    pub(crate) work: Work,
    /// Its environment, beside this program's.
    pub(crate) variables: Variables,
    /// What must hold, beside success.
    pub(crate) expect: Expect,
    /// The least of the runs that has it.
    pub(crate) extent: Extent,
}

impl Step {
    /// Which cases of long lists it takes; all without one, as does what runs without OpenCL, which takes little time.
    pub(crate) fn sample(&self, extent: Extent, day: u64) -> Option<Sample> {
        Sample::of(extent, day).filter(|_| self.name != WITHOUT_OPENCL_STEP)
    }
}

/// What a step runs.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// `cargo` with these arguments.
    Cargo(Vec<&'static str>),
    /// This program with these arguments. Started by `cargo`, it would wait for what that builds meanwhile.
    Own(Vec<&'static str>),
    /// As [`Work::Own`], where the program starts `cargo`.
    OwnThatBuilds(Vec<&'static str>),
    /// The test programs that [`BUILD`] makes, all or those of these names, with or without their package's, each started by
    /// [`ledger::run`](crate::ledger::run).
    Programs(Option<&'static [&'static str]>),
}

/// How much a run of the tests does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extent {
    /// Without lints, documentation, the runs without OpenCL and the longest programs; of long lists of cases a small [`Sample`].
    Fast,
    /// Everything, of long lists of cases a [`Sample`], with the fence in the mode of the day.
    Whole,
    /// Also without the fence and in each of its modes.
    Long,
}

/// What must hold for a step to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// The command succeeds.
    Success,
    /// It also tells the results of at least one test, and none failed.
    Tests,
}

/// What `cargo` builds for all steps that run programs. Tests and programs are built by one command, as crates that only tests use choose
/// features of crates that both use: apart, most of them would be built twice.
pub(crate) const BUILD: [&str; 7] =
    ["build", "--workspace", "--all-features", "--lib", "--tests", "--bin", "anydnn"];

/// The step of what conforms on a machine without OpenCL: all cases of the host.
const WITHOUT_OPENCL_STEP: &str = "conformance without OpenCL";

/// What conforms, or has nothing to do, on a machine without OpenCL. The mock never looks for it.
const WITHOUT_OPENCL: [&str; 2] = ["conformance of host", "conformance of opencl"];

/// The variable that names the folder of the C libraries for tests, which build them themselves without it.
const C_LIBRARIES: &str = "ANYDNN_C_LIBRARIES";

/// The variable that names the folder of compiled programs, which the test programs of a run share.
const PROGRAMS: &str = "ANYDNN_CACHE_DIR";

/// Where they are. A whole run starts by [emptying](forget_programs) it.
fn programs_folder() -> PathBuf {
    fence::target().join("programs")
}

/// Deletes what an earlier run has compiled.
pub(crate) fn forget_programs() -> io::Result<()> {
    match fs::remove_dir_all(programs_folder()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The steps of a run of an extent on a day; `opencl` is what programs need in their environment to see the devices.
pub(crate) fn steps(opencl: &Variables, day: u64, extent: Extent) -> Vec<Step> {
    let mut steps = all_steps(opencl, day);
    steps.retain(|step| step.extent <= extent);
    steps
}

fn all_steps(opencl: &Variables, day: u64) -> Vec<Step> {
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
    let fenced = |mode: Mode| {
        // A snapshot that differs is a failure, never an update. Programs come from source or from this run, not from an earlier one.
        let mut variables = with(&[
            ("ANYDNN_REQUIRE", REQUIRED),
            ("INSTA_UPDATE", "no"),
            (PROGRAMS, &programs_folder().display().to_string()),
            (LAYER, &layer("anydnn_faults")),
            (C_LIBRARIES, &fence::target().join("debug").display().to_string()),
        ]);
        variables.extend([
            (fence::LAYER.to_owned(), layer("anydnn_fence")),
            (fence::MODE.to_owned(), mode.to_string()),
        ]);
        variables
    };
    // The seed is that of the day, which is printed.
    let sweep = |name, args: &[&'static str]| Step {
        name,
        work: Work::Own(
            ["sweep", "--dev", "--seed", "today"].into_iter().chain(args.iter().copied()).collect(),
        ),
        variables: opencl.clone(),
        expect: Expect::Success,
        extent: Extent::Whole,
    };
    let tests = fenced(Mode::of_day(day));
    let mut steps = vec![
        Step {
            name: "formatting",
            work: Work::Cargo(vec!["fmt", "--all", "--check"]),
            variables: Variables::new(),
            expect: Expect::Success,
            extent: Extent::Fast,
        },
        Step {
            name: "lints",
            work: Work::Cargo(vec![
                "clippy",
                "--workspace",
                "--all-targets",
                "--all-features",
                "--",
                "--deny",
                "warnings",
            ]),
            variables: Variables::new(),
            expect: Expect::Success,
            extent: Extent::Whole,
        },
        Step {
            name: "examples in the documentation",
            work: Work::Cargo(vec!["test", "--doc", "--workspace", "--all-features", "--no-fail-fast"]),
            variables: tests.clone(),
            expect: Expect::Tests,
            extent: Extent::Fast,
        },
        Step {
            name: "documentation",
            work: Work::Cargo(vec!["doc", "--workspace", "--all-features", "--no-deps"]),
            variables: with(&[("RUSTDOCFLAGS", "--deny warnings")]),
            expect: Expect::Success,
            extent: Extent::Whole,
        },
        Step {
            name: "Python package",
            work: Work::Own(vec!["python", "--built"]),
            variables: with(&[(PROGRAMS, &programs_folder().display().to_string())]),
            expect: Expect::Tests,
            extent: Extent::Whole,
        },
        Step {
            name: "Python wheel",
            work: Work::OwnThatBuilds(vec!["python"]),
            variables: with(&[(PROGRAMS, &programs_folder().display().to_string())]),
            expect: Expect::Tests,
            extent: Extent::Long,
        },
        sweep(
            "random cases on PoCL",
            &["--backend", "opencl:pocl", "--fence", Mode::of_day(day).name(), "--seconds", "50"],
        ),
        sweep("random cases on Intel's CPU runtime", &["--backend", "opencl:intel", "--seconds", "40"]),
        Step {
            name: "book",
            work: Work::Own(vec!["book"]),
            variables: Variables::new(),
            expect: Expect::Success,
            extent: Extent::Whole,
        },
        Step {
            name: WITHOUT_OPENCL_STEP,
            work: Work::Programs(Some(&WITHOUT_OPENCL)),
            variables: without_opencl("host,mock"),
            expect: Expect::Tests,
            extent: Extent::Whole,
        },
        Step {
            name: "tests",
            work: Work::Programs(None),
            variables: tests,
            expect: Expect::Tests,
            extent: Extent::Fast,
        },
    ];
    // The programs under the fence once more: plainly, and in the other mode.
    let mut again = |name, variables| {
        steps.push(Step {
            name,
            work: Work::Programs(Some(&UNDER_THE_FENCE)),
            variables,
            expect: Expect::Tests,
            extent: Extent::Long,
        });
    };
    let mut plain = fenced(Mode::Over);
    plain.retain(|name, _| name != fence::LAYER);
    again("tests without the fence", plain);
    again("tests in the fence's other mode", fenced(Mode::of_day(day + 1)));
    steps
}

/// A layer of this workspace, for a variable of the environment.
fn layer(package: &str) -> String {
    fence::library(package).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_require_every_backend_and_see_the_devices() {
        let opencl = Variables::from([("OCL_ICD_VENDORS".to_owned(), "/a/folder".to_owned())]);
        let steps = steps(&opencl, 0, Extent::Long);
        let tests = steps.iter().find(|step| step.name == "tests").unwrap();
        assert_eq!(tests.variables["ANYDNN_REQUIRE"], "host,mock,opencl:pocl,opencl:intel");
        assert_eq!(tests.variables["OCL_ICD_VENDORS"], "/a/folder");
        assert_eq!(tests.extent, Extent::Fast);
    }

    #[test]
    fn steps_without_opencl_require_none_and_find_none() {
        let opencl = Variables::from([("OCL_ICD_VENDORS".to_owned(), "/a/folder".to_owned())]);
        let without: Vec<_> = steps(&opencl, 0, Extent::Long)
            .into_iter()
            .filter(|step| step.name.ends_with("without OpenCL"))
            .collect();
        assert_eq!(without.len(), 1);
        for step in without {
            assert_eq!(step.variables["OCL_ICD_VENDORS"], "/nonexistent");
            assert!(!step.variables["ANYDNN_REQUIRE"].contains("opencl"));
        }
    }

    #[test]
    fn the_tests_run_under_the_ledger() {
        let steps = steps(&Variables::new(), 0, Extent::Long);
        let under: Vec<_> = steps
            .iter()
            .filter(|step| matches!(step.work, Work::Programs(_)) && step.variables.contains_key(LAYER))
            .collect();
        let names: Vec<_> = under.iter().map(|step| step.name).collect();
        assert_eq!(names, ["tests", "tests without the fence", "tests in the fence's other mode"]);
        let fence =
            |step: &Step| step.variables.get(fence::LAYER).map(|_| step.variables[fence::MODE].clone());
        let modes: Vec<_> = under.iter().map(|step| fence(step)).collect();
        assert_eq!(modes, [Some("over".to_owned()), None, Some("under".to_owned())]);
        assert!(under.iter().all(|step| step.variables[LAYER].contains("anydnn_faults")));
    }

    #[test]
    fn steps_take_the_sample_of_their_run() {
        let sample = |extent, name: &str| {
            let steps = steps(&Variables::new(), 20_783, extent);
            assert!(steps.iter().all(|step| step.extent <= extent));
            let step = steps.into_iter().find(|step| step.name == name).unwrap();
            step.sample(extent, 20_783)
        };
        for extent in [Extent::Fast, Extent::Whole, Extent::Long] {
            assert_eq!(sample(extent, "tests"), Sample::of(extent, 20_783));
        }
        assert_eq!(sample(Extent::Whole, WITHOUT_OPENCL_STEP), None);
    }

    #[test]
    fn names_are_told_apart() {
        let steps = steps(&Variables::new(), 0, Extent::Long);
        for (i, step) in steps.iter().enumerate() {
            assert!(steps[..i].iter().all(|other| other.name != step.name), "{}", step.name);
        }
    }
}

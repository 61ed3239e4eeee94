//! The baseline kernels under Oclgrind, a simulator of an OpenCL device that sees every access: conformance of every primitive, whose
//! kernels must not touch what is not theirs, race, or depend on what nobody wrote.

mod log;
mod planted;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::command::{cargo, root, succeeds};
use crate::programs::{self, End, Program, run_within};
use crate::setup::{Variables, cache};
use crate::{packages, vendors};

/// Parts of the names of conformance cases, each run in a process of its own. Cases of streams are left out, as the simulator ends the process when
/// two threads use it, and those of memory and errors compute with what nobody wrote on purpose.
const GROUPS: &[&str] = &[
    "attention/",
    "batch_normalization/",
    "binary/",
    "concat/",
    "convolution/",
    "convolution_weights/",
    "dequantize/",
    "eltwise/",
    "expression/",
    "gather/",
    "group_normalization/",
    "grouped_matmul/",
    "layer_normalization/",
    "local_response_normalization/",
    "local_response_normalization_backward/",
    "matmul/",
    "pooling/",
    "pooling_backward/",
    "post_ops/",
    "recurrent/",
    "recurrent_backward/",
    "reduction/",
    "remap/",
    "reorder/",
    "resampling/",
    "resampling_backward/",
    "rms_normalization/",
    "select/",
    "softmax/",
];

/// The longest that a group may take: attention needs eight minutes on two cores.
const LONGEST: Duration = Duration::from_secs(1800);

/// Runs every group, or the cases whose names contain `filter`; returns whether nothing was found and every case passed.
pub(crate) fn check(filter: Option<&str>) -> Result<bool> {
    let groups = filter.map_or_else(|| GROUPS.to_vec(), |filter| vec![filter]);
    let simulator = Simulator::ensure()?;
    planted::are_found(&simulator.folder)?;
    println!("The simulator finds what was planted: a bad access, a race and an uninitialised value");
    let program = conformance()?;
    let mut failed = Vec::new();
    for group in &groups {
        let start = Instant::now();
        let complaints = simulator.run(&program, group)?;
        let verdict = if complaints.is_empty() { "passed" } else { "FAILED" };
        println!("== {group}: {verdict} ({:.0} s) ==", start.elapsed().as_secs_f64());
        failed.extend(complaints.into_iter().map(|complaint| format!("{group} {complaint}")));
    }
    println!("\nOclgrind: {} groups of cases, {} findings", groups.len(), failed.len());
    for complaint in &failed {
        println!("  {complaint}");
    }
    Ok(failed.is_empty())
}

/// Builds the conformance test of the OpenCL backend.
fn conformance() -> Result<Program> {
    let mut command = cargo();
    let arguments =
        ["test", "--package", "anydnn-opencl", "--all-features", "--test", "conformance", "--no-run"];
    command.args(arguments).current_dir(root());
    let built = programs::build(&mut command)?.into_iter().find(|program| program.name == "conformance");
    built.context("cargo built no conformance test")
}

/// The simulator as the only OpenCL platform.
struct Simulator {
    /// For logs and the vendor file.
    folder: PathBuf,
}

impl Simulator {
    /// Installs it if it is missing.
    fn ensure() -> Result<Self> {
        if !succeeds("oclgrind", &["--version"]) {
            println!("Oclgrind is missing: installing packages");
            packages::install()?;
        }
        let folder = cache()?.join("oclgrind");
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        vendors::alone(&library()?, &folder)?;
        Ok(Self { folder })
    }

    /// Runs a group of cases and tells what was found, and that the run failed if it did.
    fn run(&self, program: &Program, group: &str) -> Result<Vec<String>> {
        let log = self.folder.join("log.txt");
        // A log of an earlier run is none of this one.
        fs::write(&log, "").with_context(|| format!("writing {}", log.display()))?;
        let mut command = Command::new(&program.path);
        command.current_dir(&program.folder).envs(options(&log));
        command.env(vendors::VARIABLE, &self.folder).env("ANYDNN_REQUIRE", "opencl:oclgrind");
        // Programs come from source, not from an earlier run; the caller's choice of a level is not ours.
        command.env("ANYDNN_CACHE", "0").env_remove("ANYDNN_CONFORMANCE").env("RUST_BACKTRACE", "0");
        command.env("ANYDNN_CONFORMANCE_FILTER", group);
        let end = run_within(LONGEST, &mut command)?;
        let log = fs::read_to_string(&log).with_context(|| format!("reading {}", log.display()))?;
        let mut complaints: Vec<String> =
            log::findings(&log).iter().map(|(finding, count)| format!("({count} times) {finding}")).collect();
        complaints.extend(match end {
            End::Success => None,
            End::Failure => Some("cases failed, see above".to_owned()),
            End::TimeOut => Some(format!("did not end in {} s", LONGEST.as_secs())),
        });
        Ok(complaints)
    }
}

/// The variables that make the simulator check, and write down what it finds.
fn options(log: &Path) -> Variables {
    let pairs = [
        ("OCLGRIND_DATA_RACES", "1"),
        ("OCLGRIND_UNINITIALIZED", "1"),
        // Its check for uninitialised values knows no `freeze`, which LLVM's optimiser inserts, and ends the process on it.
        ("OCLGRIND_BUILD_OPTIONS", "-cl-opt-disable"),
        ("OCLGRIND_MAX_ERRORS", "100000"),
        ("OCLGRIND_LOG", &log.display().to_string()),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The driver's library.
fn library() -> Result<PathBuf> {
    const NAME: &str = "liboclgrind-rt-icd.so";
    const FOLDERS: [&str; 5] =
        ["/usr/lib/oclgrind", "/usr/lib64/oclgrind", "/usr/lib", "/usr/local/lib/oclgrind", "/usr/local/lib"];
    let found = FOLDERS.iter().map(|folder| Path::new(folder).join(NAME)).find(|path| path.is_file());
    found.with_context(|| format!("{NAME} is in none of {}", FOLDERS.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands before the first slash in the names of cases.
    fn first_parts(text: &str) -> Vec<String> {
        let literals = text.split('"').skip(1).step_by(2);
        let part = |literal: &str| {
            let (part, _) = literal.split_once('/')?;
            let is_name = !part.is_empty() && part.chars().all(|c| c == '_' || c.is_ascii_lowercase());
            is_name.then(|| format!("{part}/"))
        };
        literals.filter_map(part).collect()
    }

    #[test]
    fn every_primitive_of_the_suite_is_in_a_group() {
        let folder = root().join("backends/contract/src/conformance/primitives");
        let mut found = 0;
        for file in fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            // The sweep is of the thorough level.
            if path.file_name().unwrap() == "sweep.rs" || path.is_dir() {
                continue;
            }
            for part in first_parts(&fs::read_to_string(&path).unwrap()) {
                let is_covered = GROUPS.iter().any(|group| part.contains(group));
                assert!(is_covered, "{part} of {} is in no group", path.display());
                found += 1;
            }
        }
        assert!(found > GROUPS.len(), "{found}");
    }
}

//! Mutated ONNX models end in errors or in models: never in a panic, in more memory than a process of two GiB has, or in ten seconds of
//! computing for one file.
//!
//! Ten seconds of it belong to every test run. `ANYDNN_FUZZ_SECONDS` asks for more (of the processor's time), `ANYDNN_FUZZ_SEED` for
//! other cases, and `ANYDNN_FUZZ_MODELS` names a folder with further models to mutate. A case that fails is written to a file, whose
//! name is told.

#![cfg(unix)]
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "tests")]

mod models;
mod mutate;
mod random;
mod wire;
mod worker;

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::models::Corpus;
use crate::worker::Progress;

/// Seconds of the processor's time that belong to every test run.
const SECONDS: u64 = 10;
/// After so many failures there is enough to mend.
const MOST: usize = 20;

#[test]
fn mutated_models_are_errors_or_models() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seconds = number("ANYDNN_FUZZ_SECONDS").unwrap_or(SECONDS);
    let seed = number("ANYDNN_FUZZ_SEED").unwrap_or(1);
    let corpus = Corpus::load();
    let folder = tempfile::tempdir().unwrap();
    let (mut total, mut failures) = (Progress::default(), Vec::new());
    while total.nanoseconds < seconds * 1_000_000_000 && failures.len() < MOST {
        let left = seconds * 1_000_000_000 - total.nanoseconds;
        let file = folder.path().join("progress");
        let (why, progress) = work(&file, seed, total.cases, left);
        total = total.after(&progress);
        if let Some(why) = why {
            let case = total.cases - 1;
            let path = save(&mutate::mutated(&corpus, seed, case), seed, case);
            println!("case {case}: {why}: {}", path.display());
            failures.push(format!("{} ({why})", path.display()));
        }
    }
    println!(
        "{} cases of {} models in {} s: {} decoded, {} imported, {} compiled, {} failed",
        total.cases,
        corpus.len(),
        total.nanoseconds / 1_000_000_000,
        total.decoded,
        total.imported,
        total.compiled,
        failures.len()
    );
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
    assert!(total.compiled > 0 && total.decoded > total.imported, "the mutations do not reach the importer");
}

/// What a case of an earlier run does: `ANYDNN_FUZZ_FILE` names it.
#[test]
#[ignore = "needs a file to look at"]
fn one_file() {
    let file = std::env::var_os("ANYDNN_FUZZ_FILE").expect("ANYDNN_FUZZ_FILE names a file");
    println!("{:?}", worker::import(&std::fs::read(file).unwrap(), &anydnn_host::HostEngine::new()));
}

#[test]
#[ignore = "the part of the test above that runs in a process of its own"]
fn worker() {
    worker::run();
}

/// Runs cases in a process of their own until it fails or the time is over. Returns why it failed, and how far it came.
fn work(file: &Path, seed: u64, first: u64, nanoseconds: u64) -> (Option<String>, Progress) {
    std::fs::write(file, Progress::default().bytes()).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["worker", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(worker::FILE, file).env(worker::SEED, seed.to_string());
    command.env(worker::FIRST, first.to_string()).env(worker::NANOSECONDS, nanoseconds.to_string());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let mut bytes = Progress::default().bytes();
    std::fs::File::open(file).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    let progress = Progress::from_bytes(&bytes);
    if output.status.success() {
        return (None, progress);
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = text.lines().filter(|line| !line.trim().is_empty()).take(3).collect::<Vec<_>>().join(" | ");
    assert!(progress.cases > 0, "the worker does not start: {}: {text}", output.status);
    (Some(format!("{}: {told}", output.status)), progress)
}

fn save(bytes: &[u8], seed: u64, case: u64) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("onnx-fuzz-{seed}-{case}.onnx"));
    std::fs::write(&path, bytes).unwrap();
    path
}

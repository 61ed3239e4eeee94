//! Starts a test program, those that use OpenCL as a user's program does under the layer that keeps a ledger of its objects, and those
//! that compute under an electric fence.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use wait_timeout::ChildExt;

use crate::fence;

/// The variable that names the layer for [`run`].
pub(crate) const LAYER: &str = "ANYDNN_LEDGER_LAYER";

/// Test programs whose leaks and uses after release are failures. Left out are those that make faults of their own, start children with
/// other surroundings, or leave objects behind on purpose.
const UNDER_THE_LEDGER: [&str; 22] = [
    "alignment",
    "allocators",
    "cache",
    "conformance",
    "convert_ocl_core",
    "convert_opencl3",
    "convert_raw",
    "digits",
    "interop",
    "interop_counts",
    "kinds",
    "lifetimes",
    "memory_kinds",
    "spec_engine",
    "spec_memory",
    "spec_stream",
    "streams",
    "streams_dependencies",
    "streams_poison",
    "streams_profile",
    "threads",
    "user_allocators",
];

/// Test programs whose kernels must stay inside of their operands: they compute with every primitive and graph operation. Left out are those
/// that count allocations or time, which the fence changes.
pub(crate) const UNDER_THE_FENCE: [&str; 7] =
    ["conformance", "digits", "graph_ops", "onnx_nodes", "oracle", "partitions", "programs"];

/// The exit status of a program that leaked or used something after releasing it.
const NOT_EMPTY: i32 = 70;

/// The longest that a program may run: one that hangs fails, and tells where, long before the whole run's time is over. Where PoCL has
/// compiled nothing before, the longest takes more than ten minutes.
const LONGEST: Duration = Duration::from_secs(1500);

/// The exit status in place of a program's own that did not end.
const HUNG: i32 = 124;

/// Runs a program to its end and gives its exit status; a failure is told on the standard output, with what the ledger says.
pub(crate) fn run(program: &Path, args: &[OsString]) -> Result<i32> {
    run_within(LONGEST, program, args)
}

fn run_within(longest: Duration, program: &Path, args: &[OsString]) -> Result<i32> {
    let mut command = Command::new(program);
    command.args(args).env_remove(LAYER).env_remove(fence::LAYER);
    let layer = |variable, listed: &[&str]| std::env::var_os(variable).filter(|_| is_listed(program, listed));
    let (ledger, fence) = (layer(LAYER, &UNDER_THE_LEDGER), layer(fence::LAYER, &UNDER_THE_FENCE));
    let layers: Vec<OsString> = ledger.iter().chain(&fence).cloned().collect();
    if !layers.is_empty() {
        command.env("OPENCL_LAYERS", layers.join(OsStr::new(":")));
    }
    if fence.is_some() {
        // Every byte counts: kernels rely on no more than the alignment of elements.
        command.env("ANYDNN_TEMPORARIES", "apart").env("ANYDNN_FENCE_ALIGN", "1");
        command.env("ANYDNN_FENCE_EXIT", NOT_EMPTY.to_string());
    }
    let report = std::env::temp_dir().join(format!("anydnn-ledger-{}.txt", std::process::id()));
    if ledger.is_some() {
        command.env("ANYDNN_FAULTS_EXIT", NOT_EMPTY.to_string()).env("ANYDNN_FAULTS_REPORT", &report);
    }
    let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
    let Some(status) = child.wait_timeout(longest)? else {
        println!("error: {}: no end after {} s; its threads:", program.display(), longest.as_secs());
        println!("{}", threads(child.id()));
        child.kill()?;
        child.wait()?;
        return Ok(HUNG);
    };
    if !status.success() {
        println!("error: {}: {status}", program.display());
        if status.code() == Some(NOT_EMPTY) {
            println!("{}", std::fs::read_to_string(&report).unwrap_or_default());
        }
    }
    // Only listed programs leave one.
    let _ = std::fs::remove_file(report);
    // A program that a signal ended has no status of its own.
    Ok(status.code().unwrap_or(101))
}

/// Where the threads of a process are: their stacks where there is a debugger, otherwise what the system tells of them.
fn threads(process: u32) -> String {
    let process = process.to_string();
    let stacks =
        Command::new("gdb").args(["-p", &process, "-batch", "-ex", "thread apply all bt 24"]).output();
    match stacks {
        Ok(stacks) if stacks.status.success() => String::from_utf8_lossy(&stacks.stdout).into_owned(),
        _ => tasks(&process),
    }
}

/// The threads' numbers and names, and the calls of the system that they are in.
fn tasks(process: &str) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let told = tasks.map(|task| {
        let read = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let (name, function, call) = (read("comm"), read("wchan"), read("syscall"));
        format!("{} {} {function} {}", task.file_name().display(), name.trim(), call.trim())
    });
    told.collect::<Vec<_>>().join("\n")
}

/// Whether a program, a path such as `deps/streams-0123456789abcdef`, is one of a list.
fn is_listed(program: &Path, list: &[&str]) -> bool {
    let name = program.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.rsplit_once('-'));
    name.is_some_and(|(name, _)| list.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_their_names() {
        let is_listed = |path| is_listed(Path::new(path), &UNDER_THE_LEDGER);
        assert!(is_listed("/target/debug/deps/streams_poison-29136a85ce6afae7"));
        assert!(!is_listed("/target/debug/deps/fault_sweep-29136a85ce6afae7"));
        assert!(!is_listed("streams_poison"));
    }

    #[test]
    fn the_status_is_the_programs_own() {
        let sh = |script: &str| run(Path::new("sh"), &["-c".into(), script.into()]).unwrap();
        assert_eq!((sh("exit 0"), sh("exit 70"), sh("kill -9 $$")), (0, 70, 101));
        assert!(run(Path::new("/no/such/program"), &[]).is_err());
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let hung = run_within(Duration::from_millis(50), Path::new("sleep"), &["60".into()]);
        assert_eq!(hung.unwrap(), HUNG);
    }

    #[test]
    fn threads_are_told_by_name() {
        let told = tasks("self");
        assert!(told.contains("ledger::tests::"), "{told}");
    }
}

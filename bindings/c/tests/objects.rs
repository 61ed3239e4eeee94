//! Engines, streams, memory and primitives through the C ABI, by programs compiled against oneDNN's published headers, on every device and on
//! the host.
//!
//! In a sample the devices take turns from program to program.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod common;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use anydnn_backend::conformance::Sample;
use common::{build, include, library, run, scratch};

#[test]
fn engines() {
    on_platforms("objects_engine.c");
}

/// The host's engines, and what goes between them and those of devices.
#[test]
fn engines_of_the_host() {
    on_engines("objects_host.c");
}

/// A program on the processor that a user would write, with an allocator that counts.
#[test]
fn a_program_on_the_host() {
    let Some(program) = compile("host.cpp") else { return };
    let printed = run_on(&program, "host.cpp", HOST);
    let counts = printed.lines().find_map(|line| line.strip_prefix("allocator: ")).unwrap();
    let numbers: Vec<u32> = counts.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[0] == numbers[1] && numbers[0] > 1, "{counts}");
    // It needs no OpenCL.
    let without =
        Command::new(&program.0).env("OPENCL_DYLIB_PATH", "/nowhere/libOpenCL.so").output().unwrap();
    assert!(without.status.success(), "{without:?}");
}

#[test]
fn cache_blobs() {
    on_platforms("objects_blob.c");
}

#[test]
fn streams() {
    on_platforms("objects_stream.c");
}

#[test]
fn memory() {
    on_platforms("objects_memory.c");
}

#[test]
fn execution() {
    on_platforms("objects_execution.c");
}

#[test]
fn graphs() {
    on_platforms("objects_graph.c");
}

#[test]
fn names_of_version_1() {
    on_platforms("objects_v1.c");
}

#[test]
fn threads() {
    on_platforms("objects_threads.cpp");
}

/// Recurrent layers of every cell and direction, against plain loops.
#[test]
fn recurrent_layers() {
    on_engines("recurrent.cpp");
}

/// Every group of primitives, forward and backward, against plain loops.
#[test]
fn primitives() {
    on_engines("primitives.cpp");
}

/// Attributes, unknown dimensions and sparse operands, against plain loops.
#[test]
fn attributes() {
    on_engines("attributes.cpp");
}

/// Normalisations of integers, and integers side by side with scales, against plain loops.
#[test]
fn integers() {
    on_engines("integers.cpp");
}

/// Products of groups whose sizes are in memory, against plain loops.
#[test]
fn grouped_products() {
    on_engines("grouped.cpp");
}

/// The program that a user would write, which prints its result.
#[test]
fn a_program_on_its_own_objects() {
    for printed in on_platforms("interop.cpp") {
        for order in ["in order", "out of order"] {
            let line = printed.lines().find(|line| line.starts_with(&format!("{order}:")));
            assert_eq!(line, Some(&*format!("{order}: 0 0 5 0 3 0 1 0 6 0 4 0 2 0 7")), "{printed}");
        }
    }
}

/// A graph program that a user would write, with an allocator that counts.
#[test]
fn a_graph_on_its_own_objects() {
    for printed in on_platforms("graph.cpp") {
        assert!(printed.contains("partitions: 2 of 4 and 2 operations"), "{printed}");
        let counts = printed.lines().find_map(|line| line.strip_prefix("allocator: ")).unwrap();
        let numbers: Vec<u32> = counts.split(' ').filter_map(|word| word.parse().ok()).collect();
        assert!(numbers[0] == numbers[1] && numbers[0] > 0, "{counts}");
    }
}

/// Grouped attention for training: each half is one partition, and computes what plain loops do.
#[test]
fn attention_in_training() {
    for printed in on_engines("graph_training.cpp") {
        let partitions = printed.lines().filter_map(|line| line.strip_prefix("partitions: 1 of "));
        let operations = ["5", "16", "5", "18", "5", "18"].map(|number| format!("{number} operations"));
        assert_eq!(partitions.collect::<Vec<_>>(), operations, "{printed}");
    }
}

/// Null for any pointer never crashes; and no exported function is left out.
#[test]
fn null_pointers() {
    let exported: BTreeSet<&str> =
        include_str!("exports.txt").lines().filter(|line| line.starts_with("dnnl_")).collect();
    for printed in on_engines("objects_null.c") {
        let called: BTreeSet<&str> =
            printed.lines().filter_map(|line| line.strip_prefix("called ")).collect();
        assert_eq!(called, exported);
    }
}

/// What is asked for is told on the standard output.
#[test]
fn verbose() {
    let Some(program) = compile("interop.cpp") else { return };
    for (level, created, executed) in [("0", 0, 0), ("1", 0, 4), ("2", 4, 4)] {
        let output = Command::new(&program.0).env("ONEDNN_VERBOSE", level).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let count = |what: &str| {
            text.lines().filter(|l| l.starts_with(&format!("onednn_verbose,v1,primitive,{what}"))).count()
        };
        let creations = count("create:cache_miss,gpu,") + count("create:cache_hit,gpu,");
        assert_eq!((creations, count("exec,gpu,")), (created, executed), "{level}: {text}");
    }
}

/// Lines tell the kind of engine, also of what is refused.
#[test]
fn verbose_on_the_host() {
    let Some(program) = compile("objects_host.c") else { return };
    let output = Command::new(&program.0).arg(HOST).env("ONEDNN_VERBOSE", "2").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let starts = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    for told in ["create:cache_miss,cpu,eltwise,", "create:cache_hit,cpu,eltwise,", "exec,cpu,reorder,"] {
        assert!(starts(&format!("onednn_verbose,v1,primitive,{told}")) > 0, "{told}: {text}");
    }
    assert_eq!(starts("onednn_verbose,v1,primitive,exec,gpu,"), 0, "{text}");
}

/// Lines about primitives say what those of oneDNN's own library say, but for the implementation and the time.
#[test]
fn verbose_lines_are_those_of_onednn() {
    let (Some(program), Some(onednn)) =
        (compile("verbose.cpp"), common::required("ANYDNN_ONEDNN_LIBRARY", "oneDNN's own library"))
    else {
        return;
    };
    let told = |folder: Option<&Path>| -> Vec<String> {
        let mut command = Command::new(&program.0);
        command.env("ONEDNN_VERBOSE", "profile_exec");
        if let Some(folder) = folder {
            command.env("LD_LIBRARY_PATH", folder);
        }
        let text = run(&mut command);
        let lines = text.lines().filter(|line| line.starts_with("onednn_verbose,v1,primitive,exec,"));
        let fields = lines.map(|line| line.split(',').collect::<Vec<_>>());
        fields.map(|fields| [&fields[..6], &fields[7..fields.len() - 1]].concat().join(",")).collect()
    };
    let (own, expected) = (told(None), told(onednn.parent()));
    assert_eq!(own, expected);
    assert!(own.len() > 25, "{own:#?}");
}

/// What is refused is told too, with the primitive and the reason.
#[test]
fn verbose_refusals() {
    let Some(program) = compile("objects_execution.c") else { return };
    let platform = platforms().into_iter().next().unwrap();
    let output = Command::new(&program.0).arg(platform).env("ONEDNN_VERBOSE", "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let starts = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert!(starts("onednn_verbose,v1,primitive,create:check,gpu,reorder,") > 0);
    assert!(starts("onednn_verbose,v1,error,api,dnnl_reorder_primitive_desc_create,") > 0);
}

/// A network that is trained through the C API reads at least 97 % of the digits that it has not seen, and its loss is that of oneDNN's own
/// library as long as rounding does not lead the two apart.
#[test]
fn a_network_is_trained() {
    let (Some(program), Some(onednn)) =
        (compile("digits.c"), common::required("ANYDNN_ONEDNN_LIBRARY", "oneDNN's own library"))
    else {
        return;
    };
    let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/heldout.safetensors");
    let train = |engine: &str, folder: Option<&Path>| {
        let mut command = Command::new("timeout");
        command.args([OsStr::new("300"), program.0.as_os_str(), digits.as_os_str()]).args([engine, "20"]);
        if let Some(folder) = folder {
            command.env("LD_LIBRARY_PATH", folder);
        }
        let printed = run(&mut command);
        let last = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        let losses: Vec<f64> = printed.lines().filter(|line| line.starts_with("epoch")).map(last).collect();
        let held = printed.lines().find_map(|line| line.strip_prefix("held back: ")).unwrap();
        let (right, all) = held.split_once(" of ").unwrap();
        let share = right.parse::<f64>().unwrap() / all.parse::<f64>().unwrap();
        assert!(share >= 0.97 && losses.len() == 20, "{engine}: {printed}");
        losses
    };
    let expected = train("cpu", onednn.parent());
    for platform in platforms().into_iter().chain([HOST.to_owned()]) {
        let losses = train(&platform, None);
        for (epoch, (loss, expected)) in losses.iter().zip(&expected).enumerate().take(2) {
            assert!(
                (loss - expected).abs() < 1e-4 * expected,
                "{platform}: epoch {epoch}: {loss}, {expected}"
            );
        }
    }
}

/// Objects that end with the process neither crash nor print.
#[test]
fn late_destruction() {
    let Some(program) = compile("objects_late.cpp") else { return };
    for platform in platforms() {
        let output = Command::new(&program.0).arg(&platform).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{platform}: {output:?}");
    }
}

/// Compiles a program and runs it on the platforms whose turn it is. Returns what it prints.
fn on_platforms(source: &str) -> Vec<String> {
    on(source, platforms().into_iter().collect())
}

/// As [`on_platforms`], and on the host.
fn on_engines(source: &str) -> Vec<String> {
    on(source, platforms().into_iter().chain([HOST.to_owned()]).collect())
}

/// What programs take for the host.
const HOST: &str = "cpu";

fn on(source: &str, engines: Vec<String>) -> Vec<String> {
    let Some(program) = compile(source) else { return Vec::new() };
    let (sample, number) = (Sample::from_env(), number(source));
    let chosen = engines.into_iter().enumerate().filter(|(i, _)| sample.takes(number, *i));
    chosen.map(|(_, engine)| run_on(&program, source, &engine)).collect()
}

/// Runs a program on an engine under a ledger of references, which must be empty in the end where OpenCL is used. Returns what it prints.
/// Checks that fail are named.
fn run_on(program: &Program, source: &str, engine: &str) -> String {
    let output = Command::new("timeout")
        .args([OsStr::new("300"), program.0.as_os_str(), OsStr::new(engine)])
        .env("OPENCL_LAYERS", build("anydnn-faults", "libanydnn_faults.so"))
        .env("ANYDNN_FAULTS_REPORT", "stderr")
        .env("ANYDNN_FAULTS_EXIT", "70")
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_even = report.contains("leaks: 0") && report.contains("violations: 0");
    assert!(is_even || (engine == HOST && report.is_empty()), "{source} on {engine}: {report}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed: Vec<_> = text.lines().filter(|line| line.starts_with("FAILED")).collect();
    let passed = text.lines().filter(|line| line.starts_with("ok ")).count();
    println!("{source} on {engine}: {passed} checks passed, {} failed", failed.len());
    assert!(
        output.status.success() && failed.is_empty() && passed > 0,
        "{source} on {engine}: {}\n{}\n{}",
        output.status,
        failed.join("\n"),
        report
    );
    text
}

/// The number of a program among all.
fn number(source: &str) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.as_os_str() < OsStr::new(source)).count()
}

/// The platforms that devices are of, by their short names; those that are required are among them.
fn platforms() -> BTreeSet<String> {
    let engines = anydnn_opencl::testing::test_engines();
    engines.iter().map(|engine| engine.opencl_device().alias()).collect()
}

/// A compiled program, whose file is removed in the end.
struct Program(PathBuf);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Tells programs apart that several tests compile.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Compiles and links a program, which finds the library where it was built.
fn compile(source: &str) -> Option<Program> {
    let include = include()?;
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let source = programs.join(source);
    let is_c = source.extension().is_some_and(|extension| extension == "c");
    let (variable, compiler, standard) =
        if is_c { ("CC", "cc", "-std=c11") } else { ("CXX", "c++", "-std=c++17") };
    let compiler = std::env::var_os(variable).unwrap_or_else(|| compiler.into());
    let name = source.file_name().unwrap().to_string_lossy().replace('.', "-");
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let program = scratch("programs").join(format!("{name}.{}.{number}", std::process::id()));
    let mut rpath = OsString::from("-Wl,-rpath,");
    rpath.push(library());
    run(Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-DCL_TARGET_OPENCL_VERSION=300"])
        .arg("-isystem")
        .arg(include)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(library())
        .args(["-l:libdnnl.so.3", "-l:libOpenCL.so.1", "-pthread", "-lm"])
        .arg(rpath));
    Some(Program(program))
}

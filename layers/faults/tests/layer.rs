//! A program of plain OpenCL calls under the layer, as a process of its own, on every platform there is.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the test owns every handle it passes")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod program;

use std::path::PathBuf;
use std::process::{Command, Output};

use program::{SCENARIO, SCENARIOS};

/// Runs a scenario as a child of this program under the layer.
struct Child {
    command: Command,
    report: PathBuf,
}

impl Child {
    fn new(scenario: &str, platform: &str) -> Self {
        let library = anydnn_faults::layer_path().expect("cargo builds the layer with its tests");
        let name = format!("anydnn-faults-{}-{scenario}-{platform}.txt", std::process::id());
        let report = std::env::temp_dir().join(name);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "in_a_child", "--nocapture", "--test-threads=1"])
            .env("OPENCL_LAYERS", library)
            .env(SCENARIO, format!("{scenario}:{platform}"))
            .env("ANYDNN_FAULTS_REPORT", &report)
            .env_remove("ANYDNN_FAULTS");
        Self { command, report }
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// The output and the report, with addresses masked.
    fn run(mut self) -> (Output, String) {
        let output = self.command.output().unwrap();
        let report = std::fs::read_to_string(&self.report).unwrap_or_default();
        let _ = std::fs::remove_file(&self.report);
        (output, masked(&report))
    }

    /// The report of a scenario that must go well.
    fn pass(self) -> String {
        let (output, report) = self.run();
        assert!(output.status.success(), "{output:?}\n{report}");
        report
    }
}

fn masked(text: &str) -> String {
    let words = text.split(' ').map(|word| if word.starts_with("0x") { "0x…" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// The part of a report from the faults on: how often information is read differs between drivers.
fn outcome(report: &str) -> &str {
    report
        .find("anydnn-faults: ")
        .and_then(|first| {
            report[first + 1..].find("anydnn-faults: ").map(|second| &report[first + 1 + second..])
        })
        .unwrap_or_else(|| panic!("no report: {report:?}"))
}

/// Does nothing unless a test of this program starts it as a child.
#[test]
fn in_a_child() {
    let Ok(wanted) = std::env::var(SCENARIO) else { return };
    let (name, platform) = wanted.split_once(':').unwrap();
    let (_, scenario) = SCENARIOS.iter().find(|(known, _)| *known == name).unwrap();
    scenario(platform);
}

#[test]
fn every_scenario_passes_on_every_platform() {
    let platforms = program::platforms();
    assert!(!platforms.is_empty(), "there is no OpenCL device to test the layer on");
    let required = std::env::var("ANYDNN_REQUIRE").unwrap_or_default();
    for wanted in required.split(',').filter_map(|entry| entry.trim().strip_prefix("opencl:")) {
        assert!(platforms.iter().any(|platform| platform == wanted), "no {wanted} among {platforms:?}");
    }
    for platform in &platforms {
        for (scenario, _) in SCENARIOS.iter().filter(|(name, _)| !name.starts_with("env")) {
            let (output, report) = Child::new(scenario, platform).run();
            assert!(output.status.success(), "{scenario} on {platform}: {output:#?}\n{report}");
        }
    }
}

#[test]
fn the_environment_injects_faults() {
    for platform in program::platforms() {
        let report = Child::new("env_faults", &platform)
            .env(
                "ANYDNN_FAULTS",
                "clCreateBuffer:2:CL_MEM_OBJECT_ALLOCATION_FAILURE:once; clFin*:1:-5:always",
            )
            .pass();
        assert_eq!(
            outcome(&report),
            "anydnn-faults: faults injected: 3\n  \
             clCreateBuffer call 2: -4 (CL_MEM_OBJECT_ALLOCATION_FAILURE)\n  \
             clFinish call 1: -5 (CL_OUT_OF_RESOURCES)\n  \
             clFinish call 2: -5 (CL_OUT_OF_RESOURCES)\n\
             anydnn-faults: leaks: 0\n\
             anydnn-faults: violations: 0\n"
        );
        assert!(report.contains("  clCreateBuffer 3\n") && report.contains("  clFinish 2\n"), "{report}");
    }
}

#[test]
fn leaks_and_violations_are_reported_and_change_the_status() {
    for platform in program::platforms() {
        let (output, report) = Child::new("env_wrong", &platform).env("ANYDNN_FAULTS_EXIT", "70").run();
        assert_eq!(output.status.code(), Some(70), "{output:?}");
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("test result: ok"),
            "what was printed is there"
        );
        assert_eq!(
            outcome(&report),
            "anydnn-faults: faults injected: 0\n\
             anydnn-faults: leaks: 3\n  \
             context by clCreateContext: 1, references: 1\n  \
             memory object by clCreateBuffer: 1, references: 2\n  \
             event by clCreateUserEvent: 1, references: 1\n\
             anydnn-faults: violations: 2\n  \
             clReleaseMemObject: release without a reference: memory object 0x… by clCreateBuffer\n  \
             clGetMemObjectInfo: use after release: memory object 0x… by clCreateBuffer\n"
        );
        let (output, _) = Child::new("env_faults", &platform).env("ANYDNN_FAULTS_EXIT", "70").run();
        assert_eq!(output.status.code(), Some(0), "nothing is wrong: {output:?}");
    }
}

#[test]
fn the_report_goes_where_it_should() {
    let platform = &program::platforms()[0];
    let (output, _) = Child::new("env_wrong", platform).env("ANYDNN_FAULTS_REPORT", "stderr").run();
    assert!(String::from_utf8_lossy(&output.stderr).contains("\nanydnn-faults: leaks: 3\n"), "{output:?}");
    assert!(output.status.success(), "the status is the program's own");
    let (output, _) = Child::new("env_wrong", platform).env("ANYDNN_FAULTS_REPORT", "").run();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("anydnn-faults"), "{output:?}");
}

#[test]
fn wrong_settings_are_said_and_the_layer_stays_away() {
    let platform = &program::platforms()[0];
    for (name, value, problem) in [
        ("ANYDNN_FAULTS", "clCreateBufer:1:-5:once", "\"clCreateBufer\" names no function"),
        ("ANYDNN_FAULTS_EXIT", "many", "ANYDNN_FAULTS_EXIT is \"many\""),
        ("ANYDNN_FAULTS_INVALID", "maybe", "expected refuse or pass"),
        ("ANYDNN_FAULTS_RELEASES", "maybe", "expected perform or keep"),
    ] {
        let (output, report) = Child::new("env_wrong_setting", platform).env(name, value).run();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(problem) && said.contains("the layer is not used"), "{name}: {said}");
        assert!(output.status.success() && report.is_empty(), "{output:?}\n{report}");
    }
}

#[test]
fn releases_that_fail_can_be_kept_from_happening() {
    for platform in program::platforms() {
        let report = Child::new("env_failed_release", &platform)
            .env("ANYDNN_FAULTS", "clReleaseMemObject:1:-5:once")
            .env("ANYDNN_FAULTS_RELEASES", "keep")
            .pass();
        assert!(report.contains("anydnn-faults: leaks: 1\n  memory object by clCreateBuffer"), "{report}");
        let report = Child::new("env_failed_release", &platform)
            .env("ANYDNN_FAULTS", "clReleaseMemObject:1:-5:once")
            .pass();
        assert!(report.contains("anydnn-faults: leaks: 0"), "{report}");
    }
}

#[test]
fn the_readme_shows_what_is_reported() {
    let report = Child::new("env_readme", "any")
        .env("ANYDNN_FAULTS", "clCreateBuffer:1:CL_MEM_OBJECT_ALLOCATION_FAILURE:once")
        .pass();
    let readme = include_str!("../README.md");
    assert!(readme.contains(&format!("```text\n{report}```")), "{report}");
}

#[test]
fn the_header_declares_what_the_library_has() {
    let folder = std::env::temp_dir().join(format!("anydnn-faults-c-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("control.c"), folder.join("control"));
    std::fs::write(&source, include_str!("program/control.c")).unwrap();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
    let mut compile = Command::new("cc");
    compile.args(["-std=gnu99", "-Wall", "-Wextra", "-Werror", include, "-o"]).args([&program, &source]);
    let compiled = compile.arg("-ldl").output().unwrap();
    assert!(compiled.status.success(), "{compiled:?}");
    let output = Command::new(&program).arg(anydnn_faults::layer_path().unwrap()).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "version 1, armed 0, refused -30, calls 0, live 0\n");
}

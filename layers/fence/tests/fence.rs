//! Programs of plain OpenCL calls under the layer, as processes of their own, on every platform there is.

#![cfg(unix)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "the test owns every handle it passes")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod program;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use program::rig::{Memory, PART, platforms};
use program::{BYTES, SCENARIO};

const LAYERS: &str = "OPENCL_LAYERS";
/// The index of the first number behind the memory of most scenarios.
const BEHIND: usize = BYTES / 4;

/// A scenario as a child of this program under the layer.
struct Child {
    command: Command,
    report: PathBuf,
}

/// What became of a child.
#[derive(Debug)]
struct Outcome {
    status: Option<i32>,
    signal: Option<i32>,
    stdout: String,
    stderr: String,
    report: String,
}

impl Child {
    fn new(platform: &str, scenario: &str) -> Self {
        let name = scenario.replace(':', "-");
        let report = format!("anydnn-fence-{}-{platform}-{name}.txt", std::process::id());
        let report = std::env::temp_dir().join(report);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "in_a_child", "--nocapture", "--test-threads=1"])
            .env(LAYERS, fence())
            .env(SCENARIO, format!("{platform}:{scenario}"))
            .env("ANYDNN_FENCE_REPORT", &report);
        for name in ["ANYDNN_FENCE", "ANYDNN_FENCE_ALIGN", "ANYDNN_FENCE_EXIT"] {
            command.env_remove(name);
        }
        Self { command, report }
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    fn mode(self, mode: &str) -> Self {
        self.env("ANYDNN_FENCE", mode)
    }

    fn run(mut self) -> Outcome {
        let Output { status, stdout, stderr } = self.command.output().unwrap();
        let report = std::fs::read_to_string(&self.report).unwrap_or_default();
        let _ = std::fs::remove_file(&self.report);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Outcome {
            status: status.code(),
            signal: status.signal(),
            stdout: text(stdout),
            stderr: text(stderr),
            report,
        }
    }

    /// Runs a program that must die of an access, about which these words are said.
    fn dies(self, words: &[&str]) -> Outcome {
        let shown = format!("{:?}", self.command);
        let outcome = self.run();
        assert_eq!(outcome.signal, Some(libc::SIGSEGV), "{shown}: {outcome:#?}");
        for word in words {
            assert!(outcome.stderr.contains(word), "{word:?} in {shown}: {outcome:#?}");
            assert!(outcome.report.contains(word), "the report has it as well: {outcome:#?}");
        }
        outcome
    }

    /// Runs a program that must end well.
    fn passes(self) -> Outcome {
        let shown = format!("{:?}", self.command);
        let outcome = self.run();
        assert_eq!(outcome.status, Some(0), "{shown}: {outcome:#?}");
        outcome
    }
}

impl Outcome {
    /// What the program itself has printed.
    fn said(&self) -> Vec<&str> {
        self.stdout.lines().filter(|line| !line.starts_with("test result")).collect()
    }

    /// Asserts that these violations and no others were found.
    fn violations(&self, expected: &[&str]) {
        let (_, found) = self.report.split_once("anydnn-fence: violations: ").unwrap_or_default();
        let found: Vec<_> = found.lines().skip(1).map(str::trim).collect();
        assert_eq!(found.len(), expected.len(), "{self:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{expected:?}: {self:#?}");
            assert!(self.stderr.contains(found), "it is said when it is found: {self:#?}");
        }
    }
}

fn fence() -> PathBuf {
    anydnn_fence::layer_path().expect("cargo builds the layer with its tests")
}

/// The layer that injects faults, which cargo builds for this test.
fn faults() -> PathBuf {
    let path = fence().with_file_name("libanydnn_faults.so");
    assert!(path.is_file(), "cargo builds the libraries of packages that are depended upon");
    path
}

/// The platforms whose devices share the process's memory, so that pages can be protected.
fn with_pages() -> Vec<String> {
    platforms().into_iter().filter(|platform| ["pocl", "intel"].contains(&platform.as_str())).collect()
}

/// The kinds of memory of a platform's device that have addresses.
fn pointers(platform: &str) -> Vec<&'static str> {
    Memory::kinds(platform).into_iter().filter(|kind| kind.contains("svm") || kind.contains("usm")).collect()
}

/// What a report calls a kind.
fn name(kind: &str) -> &str {
    match kind {
        "svm" => "SVM allocation",
        "usm_host" => "USM host allocation",
        "usm_device" => "USM device allocation",
        "usm_shared" => "USM shared allocation",
        _ => "buffer",
    }
}

/// The index of the first number behind what a kernel gets.
fn behind(kind: &str) -> usize {
    if kind == "sub" { (BYTES - PART) / 4 } else { BEHIND }
}

/// Does nothing unless a test of this program starts it as a child.
#[test]
fn in_a_child() {
    if let Ok(scenario) = std::env::var(SCENARIO) {
        program::run(&scenario);
    }
}

#[test]
fn required_platforms_are_there() {
    let platforms = platforms();
    assert!(!platforms.is_empty(), "there is no OpenCL device to test the layer on");
    let required = std::env::var("ANYDNN_REQUIRE").unwrap_or_default();
    for wanted in required.split(',').filter_map(|entry| entry.trim().strip_prefix("opencl:")) {
        assert!(platforms.iter().any(|platform| platform == wanted), "no {wanted} among {platforms:?}");
    }
}

#[test]
fn an_access_behind_the_end_ends_the_program_and_is_named() {
    for platform in with_pages() {
        for kind in Memory::kinds(&platform) {
            let index = behind(kind);
            let kernel_has = if kind == "sub" {
                format!("_at: it is argument 0 from offset {PART} on\n")
            } else {
                "_at: it is argument 0\n".to_owned()
            };
            let place = format!("1 byte behind the end of {} #1 of 1600 bytes (offset 1600)\n", name(kind));
            Child::new(&platform, &format!("read:{kind}:{index}"))
                .dies(&[&format!("anydnn-fence: SIGSEGV: read {place}"), &format!("  read{kernel_has}")]);
            Child::new(&platform, &format!("write:{kind}:{index}"))
                .dies(&[&format!("anydnn-fence: SIGSEGV: write {place}"), &format!("  write{kernel_has}")]);
        }
    }
}

#[test]
fn an_access_before_the_start_ends_the_program_and_is_named() {
    for platform in with_pages() {
        for kind in Memory::kinds(&platform) {
            let index = if kind == "sub" { -1 - PART as i32 / 4 } else { -1 };
            let place = format!("4 bytes before the start of {} #1 of 1600 bytes (offset -4)\n", name(kind));
            for access in ["read", "write"] {
                Child::new(&platform, &format!("{access}:{kind}:{index}"))
                    .mode("under")
                    .dies(&[&format!("anydnn-fence: SIGSEGV: {access} {place}")]);
            }
        }
    }
}

#[test]
fn the_other_side_is_fenced_by_whole_pages() {
    for platform in with_pages() {
        let far = BEHIND + 4096;
        Child::new(&platform, &format!("read:buffer:{far}"))
            .mode("under")
            .dies(&["16385 bytes behind the end of buffer #1 of 1600 bytes (offset 17984)\n"]);
        Child::new(&platform, "read:buffer:-4096")
            .dies(&["16384 bytes before the start of buffer #1 of 1600 bytes (offset -16384)\n"]);
    }
}

#[test]
fn memory_that_is_released_is_inaccessible() {
    for platform in with_pages() {
        for kind in Memory::kinds(&platform) {
            let offset = 16 + if kind == "sub" { PART } else { 0 };
            Child::new(&platform, &format!("released:{kind}"))
                .dies(&[&format!("read in released {} #1 of 1600 bytes (offset {offset})\n", name(kind))]);
        }
        Child::new(&platform, "released_by_command")
            .dies(&["read in released SVM allocation #1 of 1600 bytes (offset 16)\n"]);
    }
}

#[test]
fn kernels_that_are_not_known_to_be_finished_are_listed_with_the_memory_first() {
    for platform in with_pages() {
        Child::new(&platform, "unfinished").dies(&[
            "anydnn-fence: kernels enqueued and not known to be finished: 2\n  \
             read_at: it is argument 0, argument 2\n  \
             keep_address: it is no argument\n",
        ]);
    }
}

#[test]
fn what_is_beside_the_memory_within_its_pages_is_compared() {
    for platform in with_pages() {
        let outcome = Child::new(&platform, "write:buffer:-1").env("ANYDNN_FENCE_EXIT", "70").run();
        outcome.violations(&["overwritten up to 4 bytes before the start of buffer #1 of 1600 bytes \
             (offsets -4 to -1); kernels that have had it since it was checked last: write_at (argument 0)"]);
        assert_eq!(outcome.status, Some(70), "{outcome:#?}");
        assert!(outcome.stdout.contains("the kernel has finished: 1.0"), "{outcome:#?}");
        let outcome = Child::new(&platform, &format!("write:buffer:{BEHIND}")).mode("under").passes();
        outcome
            .violations(&["up to 4 bytes behind the end of buffer #1 of 1600 bytes (offsets 1600 to 1603)"]);
        let outcome = Child::new(&platform, "host").passes();
        outcome.violations(&["(offsets -1 to -1); no kernel has had it since it was checked last"]);
    }
}

#[test]
fn canaries_find_writes_and_name_the_kernels() {
    for platform in platforms() {
        for kind in Memory::kinds(&platform) {
            let (before, behind) = (if kind == "sub" { -1 - PART as i32 / 4 } else { -1 }, behind(kind));
            let who = "kernels that have had it since it was checked last: write_at (argument 0)";
            let name = name(kind);
            let outcome = Child::new(&platform, &format!("write:{kind}:{behind}")).mode("canary").passes();
            outcome.violations(&[&format!(
                "overwritten up to 4 bytes behind the end of {name} #1 of 1600 bytes (offsets 1600 to 1603); {who}"
            )]);
            let outcome = Child::new(&platform, &format!("write:{kind}:{before}"))
                .mode("canary")
                .env("ANYDNN_FENCE_EXIT", "71")
                .run();
            assert_eq!(outcome.status, Some(71), "{outcome:#?}");
            outcome.violations(&[&format!(
                "overwritten up to 4 bytes before the start of {name} #1 of 1600 bytes (offsets -4 to -1); {who}"
            )]);
        }
    }
}

#[test]
fn canaries_of_memory_that_is_released_early_are_checked_when_its_kernels_have_finished() {
    for platform in platforms() {
        let outcome = Child::new(&platform, "late").mode("canary").passes();
        outcome.violations(&["behind the end of buffer #1 of 1596 bytes (offsets 1596 to 1599)"]);
    }
}

#[test]
fn a_program_without_faults_cannot_tell() {
    for platform in platforms() {
        let without = Child::new(&platform, "transparent").env(LAYERS, "").passes();
        assert!(without.stdout.contains("sums in sub are right: true"), "{without:#?}");
        for (mode, align) in [("over", "64"), ("over", "1"), ("under", "64"), ("canary", "64")] {
            let with = Child::new(&platform, "transparent")
                .mode(mode)
                .env("ANYDNN_FENCE_ALIGN", align)
                .env("ANYDNN_FENCE_EXIT", "72")
                .passes();
            assert_eq!(with.said(), without.said(), "{platform} {mode} {align}");
            with.violations(&[]);
            // NVIDIA's driver makes a buffer of half of all addresses, but none that is larger.
            assert!(platform == "nvidia" || !with.report.contains("without room"), "{with:#?}");
            let by_pages = mode != "canary" && platform != "nvidia";
            let way = if by_pages { "by pages" } else { "by canaries" };
            for kind in ["buffer", "SVM allocation"] {
                assert!(with.report.contains(&format!("  {kind}, {way}: ")), "{with:#?}");
            }
        }
    }
}

#[test]
fn new_memory_is_no_number() {
    for platform in platforms() {
        for kind in Memory::kinds(&platform).into_iter().filter(|kind| *kind != "copy") {
            for mode in ["over", "canary"] {
                let outcome = Child::new(&platform, &format!("read:{kind}:7")).mode(mode).passes();
                assert!(outcome.stdout.contains("the kernel has finished: NaN"), "{outcome:#?}");
            }
        }
        let outcome = Child::new(&platform, "read:copy:7").passes();
        assert!(!outcome.stdout.contains("NaN"), "its contents are the program's: {outcome:#?}");
    }
}

#[test]
fn large_memory_is_filled_at_both_ends() {
    for platform in platforms() {
        for mode in ["over", "canary"] {
            let outcome = Child::new(&platform, "large").mode(mode).passes();
            assert!(outcome.stdout.contains("first 0xff, last 0xff"), "{outcome:#?}");
            assert!(outcome.report.contains("  allocations filled at both ends only: 1\n"), "{outcome:#?}");
        }
    }
}

#[test]
fn kernels_in_command_buffers_are_named() {
    for platform in with_pages() {
        let without = Child::new(&platform, "recorded").env(LAYERS, "").run();
        if !without.stdout.contains("no command buffers") {
            Child::new(&platform, "recorded")
                .dies(&["1 byte behind the end of buffer #1", "  read_at: it is argument 0\n"]);
        }
    }
}

#[test]
fn memory_that_is_freed_twice_is_reported() {
    for platform in platforms() {
        for kind in pointers(&platform) {
            for mode in ["over", "canary"] {
                let outcome = Child::new(&platform, &format!("twice:{kind}")).mode(mode).passes();
                outcome.violations(&[&format!("released again: {} #1 of 1600 bytes", name(kind))]);
                let code = if kind == "svm" { 0 } else { -30 };
                assert!(outcome.stdout.contains(&format!("freed again: {code}\n")), "{outcome:#?}");
            }
        }
    }
}

#[test]
fn a_handler_of_the_program_runs_after_the_report() {
    for platform in with_pages() {
        let outcome = Child::new(&platform, "own_handler").run();
        assert_eq!(outcome.status, Some(43), "{outcome:#?}");
        assert!(outcome.stderr.contains("(offset 1600)"), "{outcome:#?}");
    }
}

#[test]
fn layers_can_be_stacked_both_ways() {
    let stack = |layers: [&Path; 2]| layers.map(|path| path.display().to_string()).join(":");
    let (fence, faults) = (fence(), faults());
    for platform in with_pages() {
        let without = Child::new(&platform, "transparent").env(LAYERS, "").passes();
        for layers in [stack([&fence, &faults]), stack([&faults, &fence])] {
            for mode in ["over", "canary"] {
                let outcome = Child::new(&platform, "transparent")
                    .mode(mode)
                    .env(LAYERS, &layers)
                    .env("ANYDNN_FAULTS_REPORT", "stderr")
                    .passes();
                assert_eq!(outcome.said(), without.said());
                assert!(outcome.stderr.contains("anydnn-faults: leaks: 0\n"), "{outcome:#?}");
                assert!(outcome.stderr.contains("anydnn-faults: violations: 0\n"), "{outcome:#?}");
                outcome.violations(&[]);
            }
            Child::new(&platform, &format!("read:buffer:{BEHIND}"))
                .env(LAYERS, &layers)
                .dies(&["1 byte behind the end of buffer #1 of 1600 bytes"]);
        }
    }
}

#[test]
fn wrong_settings_are_said_and_the_layer_stays_away() {
    let platform = &platforms()[0];
    for (name, value, problem) in [
        ("ANYDNN_FENCE", "both", "ANYDNN_FENCE is \"both\", expected over, under, canary or off"),
        ("ANYDNN_FENCE_ALIGN", "3", "ANYDNN_FENCE_ALIGN is \"3\", expected a power of two"),
        ("ANYDNN_FENCE_ALIGN", "8192", "of at most 4096"),
        ("ANYDNN_FENCE_EXIT", "many", "ANYDNN_FENCE_EXIT is \"many\", expected 0 to 255"),
    ] {
        let outcome = Child::new(platform, "read:copy:0").env(name, value).passes();
        let said = &outcome.stderr;
        assert!(said.contains(problem) && said.contains("the layer is not used"), "{outcome:#?}");
        assert!(outcome.report.is_empty(), "{outcome:#?}");
    }
    let outcome = Child::new(platform, "read:copy:0").mode("off").passes();
    assert!(outcome.report.is_empty() && !outcome.stderr.contains("anydnn-fence"), "{outcome:#?}");
}

#[test]
fn the_report_goes_where_it_should() {
    let platform = &platforms()[0];
    let outcome = Child::new(platform, "read:copy:0").env("ANYDNN_FENCE_REPORT", "stderr").passes();
    assert!(outcome.stderr.contains("anydnn-fence: allocations fenced: 2\n"), "{outcome:#?}");
    assert!(outcome.stderr.contains("anydnn-fence: violations: 0\n"), "{outcome:#?}");
    let outcome = Child::new(platform, "read:copy:0").env("ANYDNN_FENCE_REPORT", "").passes();
    assert!(!outcome.stderr.contains("anydnn-fence"), "{outcome:#?}");
}

#[test]
fn the_readme_shows_what_is_said() {
    let readme = include_str!("../README.md");
    for platform in with_pages() {
        let outcome = Child::new(&platform, "readme").dies(&["row_sums"]);
        let (_, said) = outcome.stderr.split_once("anydnn-fence: ").unwrap();
        let said = said.split("\n  ").take(2).collect::<Vec<_>>().join("\n  ");
        let said = said.split("argument 0").next().unwrap();
        assert!(readme.contains(&format!("```text\nanydnn-fence: {said}argument 0\n```")), "{said}");
    }
}

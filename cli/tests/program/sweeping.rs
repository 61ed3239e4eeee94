//! `anydnn sweep`, also with workers that plant faults.

use std::process::Command;

use super::{fails, text};
/// A sweep whose worker plants a fault.
fn sweep(plant: &str, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anydnn"));
    command.env_remove("ANYDNN_BACKEND").env_remove("ANYDNN_LOG").env("ANYDNN_SWEEP_PLANT", plant);
    command.args(["sweep", "--backend", "host", "--no-color"]).args(args);
    let output = command.output().expect("the program starts");
    (output.status.code(), text(&output.stdout))
}

#[test]
fn a_sweep_passes_on_the_host_and_follows_from_its_seed() {
    let args = ["--cases", "12", "--seed", "5", "--family", "reorder,select,gather"];
    let (status, report) = sweep("", &args);
    assert_eq!(status, Some(0), "{report}");
    assert!(report.contains("sweep of host") && report.contains("12 cases in"), "{report}");
    let counts = |report: &str| report.lines().filter(|line| line.contains("gather")).count();
    assert_eq!(counts(&sweep("", &args).1), counts(&report));
    // The number that the word became is told.
    let (status, report) = sweep("", &["--cases", "1", "--seed", "today", "--family", "reorder"]);
    let seed: u64 =
        report.split("seed ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok()).expect("a seed");
    assert!(status == Some(0) && seed > 20_000, "{report}");
}

/// The others go on, and the case that is told is the smallest of its family.
#[test]
fn a_worker_that_aborts_or_is_wrong_is_survived() {
    let args = ["--cases", "9", "--family", "softmax,reorder,select"];
    for (plant, ending, why) in
        [("abort:softmax", "crashed", "SIGABRT"), ("wrong:softmax", "wrong", "planted")]
    {
        let (status, report) = sweep(plant, &args);
        assert_eq!(status, Some(3), "{report}");
        for part in [ending, why, "replay  softmax:\n", "small   softmax src0=f32:1 dst0=f32:1"] {
            assert!(report.contains(part), "{part} not in {report}");
        }
        let row = |family: &str| {
            report.lines().find(|line| line.starts_with(&format!("  {family} "))).map(str::to_owned)
        };
        let numbers = |family: &str| -> Vec<String> {
            row(family).expect("a row").split_whitespace().skip(1).take(6).map(str::to_owned).collect()
        };
        let failed =
            if ending == "wrong" { ["0", "0", "3", "0", "0", "0"] } else { ["0", "0", "0", "0", "3", "0"] };
        assert_eq!(numbers("softmax"), failed, "{report}");
        assert_eq!(numbers("reorder"), ["3", "0", "0", "0", "0", "0"], "{report}");
    }
}

#[test]
fn a_worker_that_hangs_is_ended() {
    let (status, report) = sweep(
        "hang:select",
        &["--cases", "2", "--seed", "5", "--family", "select,reorder", "--patience", "30", "--no-shrink"],
    );
    assert_eq!(status, Some(3), "{report}");
    assert!(report.contains("hung  select  no answer in 30 s"), "{report}");
    let row = |family: &str| -> Vec<&str> {
        let row = report.lines().find(|line| line.starts_with(&format!("  {family} ")));
        row.expect("a row").split_whitespace().skip(1).take(6).collect()
    };
    assert_eq!(row("select"), ["0", "0", "0", "0", "0", "1"], "{report}");
    assert_eq!(row("reorder"), ["1", "0", "0", "0", "0", "0"], "{report}");
}

#[test]
fn a_case_is_run_again_by_its_text() {
    let (status, report) = sweep("", &["--replay", "matmul:4,191,67"]);
    assert_eq!(status, Some(0), "{report}");
    assert!(report.contains("matmul src0=f32:5x192 weights=f32:192x68 dst0=f32:5x68"), "{report}");
    fails(&["sweep", "--backend", "host", "--replay", "matmull:1"], 2, &["matmull:1", "a family among"]);
    fails(&["sweep", "--backend", "host", "--family", "mat"], 2, &["--family mat", "matmul, convolution"]);
    fails(&["sweep", "--backend", "opencl:none-such", "--cases", "1"], 4, &["opencl:none-such"]);
}

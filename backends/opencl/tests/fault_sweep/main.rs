//! Every OpenCL call of every operation fails with every code that its specification documents, once and from then on: the error is
//! the right one, nothing is leaked, nothing is used after its release, and the next attempt works.
//!
//! In a sample the devices take turns from scenario to scenario.
//!
//! The calls fail in the layer of `anydnn-faults`. The loader reads which layers to use at the first call, so the sweep of each device
//! is a process of its own.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the tests own every handle they pass")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../common/mod.rs"]
mod common;
mod probes;
mod scenarios;
mod sweep;

use std::process::Command;
use std::time::{Duration, Instant};

use anydnn_backend::conformance::Sample;
use anydnn_faults::Control;
use anydnn_opencl::testing::{set_queues_rest, test_engines};
use sweep::Sweep;

/// Tells a child which device to sweep.
const DEVICE: &str = "ANYDNN_FAULT_SWEEP_DEVICE";
/// Tells a child where to note what it is about to try, for when it does not come back.
const NOTE: &str = "ANYDNN_FAULT_SWEEP_NOTE";
/// A part of the names of scenarios; when set, no others run.
const ONLY: &str = "ANYDNN_FAULT_SWEEP_ONLY";

/// The least number of faults to try on all devices together.
const EXPECTED: usize = 2000;
/// An attempt that takes longer than this is stuck.
const STUCK: Duration = Duration::from_secs(20);
/// A sweep that takes longer than this is stuck, though each attempt ends.
const LIMIT: Duration = Duration::from_secs(900);

/// Does nothing unless the test below starts it as a child.
#[test]
fn in_a_child() {
    let Ok(index) = std::env::var(DEVICE) else { return };
    let index: usize = index.parse().unwrap();
    // The ledger is looked at after each of thousands of faults.
    set_queues_rest(Duration::from_millis(1));
    let layer = Control::from_env().unwrap();
    let engine = test_engines().swap_remove(index);
    let _ = anydnn_backend::Engine::capabilities(&engine);
    watch();
    let mut sweep = Sweep::new(&layer, &engine, std::env::var_os(NOTE).unwrap().into());
    let (only, sample) = (std::env::var(ONLY).unwrap_or_default(), Sample::from_env());
    let scenarios = scenarios::all(&engine);
    for (number, scenario) in scenarios.iter().enumerate() {
        if scenario.name.contains(&only) && sample.takes(number, index) {
            sweep.run(scenario);
        }
    }
    if "probes".contains(&only) && sample.takes(scenarios.len(), index) {
        probes::sweep(&mut sweep, &engine);
    }
    sweep.finish();
}

/// Ends the process when one attempt takes too long. Every attempt changes the note.
fn watch() {
    let note = std::path::PathBuf::from(std::env::var_os(NOTE).unwrap());
    std::thread::spawn(move || {
        let (mut last, mut since) = (Vec::new(), Instant::now());
        loop {
            std::thread::sleep(Duration::from_millis(100));
            let now = std::fs::read(&note).unwrap_or_default();
            if now != last {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() > STUCK {
                println!("PROBLEM: it is stuck");
                std::process::abort();
            }
        }
    });
}

#[test]
fn every_fault_on_every_device() {
    let layer = anydnn_faults::layer_path().expect("cargo builds the layer with its dependants");
    let children: Vec<_> = test_engines()
        .iter()
        .enumerate()
        .map(|(index, engine)| {
            let alias = engine.opencl_device().alias();
            let name = format!("anydnn-fault-sweep-{}-{alias}", std::process::id());
            let (note, output) = (std::env::temp_dir().join(&name), std::env::temp_dir().join(name + ".out"));
            let file = std::fs::File::create(&output).unwrap();
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "in_a_child", "--nocapture", "--test-threads=1"])
                .env("OPENCL_LAYERS", &layer)
                .env("RUST_BACKTRACE", "0")
                // What fails here must not be remembered anywhere.
                .env("ANYDNN_CACHE", "0")
                .env(DEVICE, index.to_string())
                .env(NOTE, &note)
                .stdout(file.try_clone().unwrap())
                .stderr(file)
                .spawn()
                .unwrap();
            (alias, child, note, output)
        })
        .collect();
    let start = Instant::now();
    let (mut tried, mut failed) = (0, false);
    for (alias, mut child, note, output) in children {
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if start.elapsed() > LIMIT => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    break None;
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let said = std::fs::read_to_string(&output).unwrap_or_default();
        let at = std::fs::read_to_string(&note).unwrap_or_default();
        for file in [note, output] {
            let _ = std::fs::remove_file(file);
        }
        println!("{alias}:\n{said}");
        let total = said.lines().find_map(|line| line.strip_prefix("faults tried: ")?.parse::<usize>().ok());
        tried += total.unwrap_or(0);
        if !status.is_some_and(|status| status.success()) || total.is_none() {
            println!("{alias} ended with {status:?} at: {at}");
            failed = true;
        }
    }
    println!("faults tried on all devices: {tried}");
    assert!(!failed, "see above");
    let devices = test_engines().len();
    assert!(
        devices == 0 || std::env::var_os(ONLY).is_some() || tried > EXPECTED,
        "only {tried} faults on {devices} devices"
    );
}

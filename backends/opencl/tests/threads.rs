//! One engine and one stream, many threads.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::time::{Duration, Instant};

use anydnn_backend::conformance::Sample;
use anydnn_backend::{Engine, Event, Stream, StreamDesc};
use anydnn_opencl::testing::test_engines;
use common::*;

#[test]
fn sixteen_threads_share_one_out_of_order_stream() {
    for engine in test_engines() {
        let start = Instant::now();
        threads::share_one_stream(&engine, &StreamDesc::out_of_order());
        assert!(start.elapsed() < Duration::from_secs(20), "{engine:?}: {:?}", start.elapsed());
    }
}

#[test]
fn sixteen_threads_share_one_in_order_stream() {
    for engine in test_engines() {
        let start = Instant::now();
        threads::share_one_stream(&engine, &StreamDesc::default());
        assert!(start.elapsed() < Duration::from_secs(20), "{engine:?}: {:?}", start.elapsed());
    }
}

/// A process of its own: the other tests of this program allocate meanwhile.
#[test]
fn memory_does_not_grow_with_the_number_of_executions() {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", "case_memory_stays", "--ignored", "--nocapture"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "run by the test above"]
fn case_memory_stays() {
    // Fewer than 400 bytes per execution: an event with what this crate knows of it takes more.
    const ROUNDS: usize = 5;
    const EXECUTIONS: usize = 6_000;
    let sample = Sample::from_env();
    let descs = [
        StreamDesc::default(),
        StreamDesc::out_of_order(),
        StreamDesc::default().with_profiling(),
        StreamDesc::out_of_order().with_profiling(),
    ];
    for (number, engine) in test_engines().into_iter().enumerate() {
        let step = linear(&engine, 256, (1.0, 1.0), "step");
        for (_, desc) in descs.iter().enumerate().filter(|(at, _)| sample.takes(*at, number)) {
            // Without a wait for the stream or for any but the newest event.
            let stream = engine.create_stream(desc).unwrap();
            let memory = memory(&engine, 4 * 256);
            let args = src_dst(&memory, &memory);
            let round = || {
                let mut last = stream.marker(&[]).unwrap();
                for _ in 0..EXECUTIONS {
                    last = stream.execute(&step, &args, &[last]).unwrap();
                }
                last.wait().unwrap();
                if desc.profiling {
                    stream.reset_profile().unwrap();
                }
            };
            round();
            round();
            let before = resident_bytes();
            (0..ROUNDS).for_each(|_| round());
            let grown = resident_bytes().saturating_sub(before);
            assert!(grown < ROUNDS * EXECUTIONS * 400, "{engine:?}, {desc:?}: {grown} bytes");
        }
    }
}

fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

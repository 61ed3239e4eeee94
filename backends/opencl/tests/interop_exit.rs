//! Objects that live until the process ends, and longer than the drivers: each case in a process of its own.
#![cfg(target_os = "linux")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "the tests own every handle they pass")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anydnn_backend::{
    DataType, Eltwise, Engine, Event, MemoryDesc, Op, PrimitiveDesc, Stream, StreamDesc, Work,
};
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{OpenClEngine, OpenClEvent, OpenClMemory, OpenClPrimitive, OpenClStream};
use common::*;

/// One object of every kind on each device.
type Objects = Vec<(OpenClMemory, OpenClEvent, OpenClPrimitive, OpenClStream, OpenClEngine)>;

static LATE: Mutex<Objects> = Mutex::new(Vec::new());

/// Runs after every handler that the process has registered.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_THE_VERY_END: extern "C" fn() = {
    extern "C" fn end() {
        if std::env::var_os("ANYDNN_TEST_FINI").is_some() {
            LATE.lock().unwrap().clear();
        }
    }
    end
};

extern "C" fn drop_objects() {
    LATE.lock().unwrap().clear();
}

fn objects() -> Objects {
    let make = |engine: OpenClEngine| {
        let stream = engine.create_stream(&StreamDesc::out_of_order().with_profiling()).unwrap();
        let memory = memory(&engine, 256);
        let step = linear(&engine, 64, (1.0, 1.0), "step");
        let event = stream.execute(&step, &src_dst(&memory, &memory), &[]).unwrap();
        event.wait().unwrap();
        (memory, event, step, stream, engine)
    };
    test_engines().into_iter().map(make).collect()
}

/// Runs a case below and checks that it ends well, in time, and prints nothing of its own.
fn ends_quietly(case: &str, variable: Option<(&str, &str)>) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", case, "--ignored", "--nocapture"]).envs(variable);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{case} hangs at exit");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{case}: {}\n{out}\n{errors}", output.status);
    assert!(errors.is_empty(), "{case} prints: {errors}");
    let (_, after) = out.split_once("1 passed").unwrap_or_else(|| panic!("{case}: {out}"));
    assert!(after.lines().count() <= 2, "{case} prints: {after}");
}

#[test]
fn objects_may_be_dropped_by_a_handler_that_was_registered_before_the_drivers() {
    ends_quietly("case_early_handler", None);
}

#[test]
#[ignore = "run by the test above"]
fn case_early_handler() {
    assert_eq!(unsafe { libc::atexit(drop_objects) }, 0);
    *LATE.lock().unwrap() = objects();
}

#[test]
fn objects_may_be_dropped_by_a_handler_that_was_registered_after_the_drivers() {
    ends_quietly("case_late_handler", None);
}

#[test]
#[ignore = "run by the test above"]
fn case_late_handler() {
    *LATE.lock().unwrap() = objects();
    assert_eq!(unsafe { libc::atexit(drop_objects) }, 0);
}

#[test]
fn objects_may_be_dropped_after_every_handler() {
    ends_quietly("case_after_every_handler", Some(("ANYDNN_TEST_FINI", "1")));
}

#[test]
#[ignore = "run by the test above"]
fn case_after_every_handler() {
    *LATE.lock().unwrap() = objects();
}

#[test]
fn objects_may_never_be_dropped() {
    ends_quietly("case_never_dropped", None);
}

#[test]
#[ignore = "run by the test above"]
fn case_never_dropped() {
    std::mem::forget(objects());
}

#[test]
fn thread_locals_may_hold_objects() {
    ends_quietly("case_thread_local", None);
}

#[test]
#[ignore = "run by the test above"]
fn case_thread_local() {
    thread_local!(static OBJECTS: std::cell::RefCell<Objects> = const { std::cell::RefCell::new(Vec::new()) });
    let fill = || OBJECTS.with_borrow_mut(|slot| *slot = objects());
    std::thread::spawn(fill).join().unwrap();
    fill();
}

#[test]
fn programs_may_be_compiled_in_the_background() {
    let cache = tempfile::tempdir().unwrap();
    ends_quietly("case_in_the_background", cache.path().to_str().map(|path| ("ANYDNN_CACHE_DIR", path)));
    let ended = test_engines().len();
    for number in 0..ended {
        assert!(cache.path().join(number.to_string()).exists(), "the process ended before its work");
    }
}

#[test]
#[ignore = "run by the test above"]
fn case_in_the_background() {
    for (number, engine) in test_engines().into_iter().enumerate() {
        let (begun, wait) = std::sync::mpsc::channel();
        let own = engine.clone();
        let compile = move || {
            begun.send(()).unwrap();
            let types = [DataType::F32, DataType::BF16, DataType::S8, DataType::U8, DataType::S32];
            let pairs = types.iter().flat_map(|src| types.iter().map(move |dst| (*src, *dst)));
            for (src, dst) in pairs {
                let (src, dst) = (MemoryDesc::new([64], src), MemoryDesc::new([64], dst));
                let desc = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(src).dst(dst);
                // Those behind the exit's beginning fail.
                let _ = own.create_primitive(&desc.build().unwrap());
            }
            std::thread::sleep(Duration::from_millis(300));
            let cache = std::path::PathBuf::from(std::env::var_os("ANYDNN_CACHE_DIR").unwrap());
            std::fs::write(cache.join(number.to_string()), "").unwrap();
        };
        assert!(engine.in_background(Work::new(compile)).is_none());
        wait.recv().unwrap();
    }
}

//! Error paths of `run` and `bench` on mocks of a device: what the program says, what it exits with, and what it does no more.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anydnn::backend::{BuildFailure, DataType, ErasedEngine, Error, MemoryDesc, Result};
use anydnn::graph::{Attrs, GraphBuilder, OpKind};
use anydnn::select::Selection;
use anydnn_mock::{MockallAllocator, MockallEngine, MockallEvent, MockallIdentity, MockallStream};
use clap::Parser;
use tempfile::TempDir;

use crate::args::{Args, Command};
use crate::failure::Failure;
use crate::{Outcome, bench, run};

/// The steps of [`model`].
const STEPS: [&str; 3] = ["first", "middle", "last"];

/// A file with a graph of three steps, which does not fuse.
fn model() -> (TempDir, PathBuf) {
    let mut g = GraphBuilder::new();
    let x = g.input("x", DataType::F32, [4, 16]);
    let y = g.op(STEPS[0], OpKind::MatMul, &[x, x], Attrs::new().with("transpose_b", true)).unwrap();
    let y = g.op(STEPS[1], OpKind::SoftMax, &[y], Attrs::new().with("axis", 1_i64)).unwrap();
    g.op(STEPS[2], OpKind::MatMul, &[y, y], Attrs::new()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.json");
    std::fs::write(&file, g.build().unwrap().to_json()).unwrap();
    (folder, file)
}

fn lost() -> Error {
    Error::DeviceLost("unplugged".into())
}

/// A device whose calls are noted, and fail where a test wants it.
#[derive(Clone)]
struct Device {
    identity: MockallIdentity,
    calls: Arc<Mutex<Vec<String>>>,
    /// The call that fails, and how often it works before.
    failing: (&'static str, usize),
    error: Error,
}

impl Device {
    fn failing(call: &'static str, after: usize, error: Error) -> Self {
        let calls = Arc::default();
        Self { identity: MockallIdentity::new(), calls, failing: (call, after), error }
    }

    /// The same failure on a device that nothing has been asked of.
    fn again(&self) -> Self {
        Self::failing(self.failing.0, self.failing.1, self.error.clone())
    }

    /// Notes a call; the error where it is the one to fail.
    fn call(&self, call: &str) -> Result<()> {
        let mut calls = self.calls.lock().unwrap();
        let before = calls.iter().filter(|earlier| *earlier == call).count();
        calls.push(call.into());
        if self.failing == (call, before) { Err(self.error.clone()) } else { Ok(()) }
    }

    fn count(&self, call: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|earlier| *earlier == call).count()
    }

    /// The device as what a selector has chosen.
    fn selection(&self) -> Selection {
        let mut engine = MockallEngine::new();
        let own = self.clone();
        engine.expect_create_primitive().returning(move |desc| {
            own.call(desc.name())?;
            Ok(own.identity.primitive(desc))
        });
        let own = self.clone();
        engine.expect_create_memory().returning(move |desc, _| {
            own.call("memory")?;
            Ok(own.identity.memory(desc))
        });
        let own = self.clone();
        engine.expect_create_stream().returning(move |desc| {
            own.call("stream")?;
            Ok(own.identity.stream(own.stream(), desc))
        });
        let own = self.clone();
        engine.expect_allocator().returning(move || Arc::new(own.allocator()));
        engine.expect_ready().returning(|_, _| Ok(None));
        let engine = ErasedEngine::new(self.identity.engine(engine));
        Selection { engine: engine.into(), chosen: "erased".into(), rejected: Vec::new() }
    }

    fn stream(&self) -> MockallStream {
        let mut stream = MockallStream::new();
        let own = self.clone();
        stream.expect_write().returning(move |_, _, _, _| {
            own.call("write")?;
            Ok(own.event())
        });
        // Whether arguments are checked again on the way to a mock is not the program's concern.
        let own = self.clone();
        stream.expect_execute().returning(move |_, _, _| own.execute());
        let own = self.clone();
        stream.expect_execute_validated().returning(move |_, _, _| own.execute());
        let own = self.clone();
        stream.expect_read().returning(move |_, _, _, _| own.call("read"));
        let own = self.clone();
        stream.expect_wait().returning(move || own.call("wait"));
        stream
    }

    fn execute(&self) -> Result<MockallEvent> {
        self.call("execute")?;
        Ok(self.event())
    }

    fn event(&self) -> MockallEvent {
        let mut event = MockallEvent::new();
        event.expect_wait().returning(|| Ok(()));
        event.expect_timestamps().returning(|| Ok(None));
        self.identity.event(event)
    }

    fn allocator(&self) -> MockallAllocator {
        let mut allocator = MockallIdentity::allocator();
        let own = self.clone();
        allocator.expect_allocate().returning(move |bytes, _| {
            own.call("allocate")?;
            Ok(own.identity.memory(&MemoryDesc::new([bytes], DataType::U8)))
        });
        let own = self.clone();
        allocator.expect_free().returning(move |_, _| own.call("free"));
        allocator
    }
}

/// `anydnn run` on a device.
fn run_on(args: &[&str], select: impl FnOnce() -> Result<Selection>) -> Outcome {
    let (_folder, file) = model();
    let file = file.to_str().unwrap();
    let Command::Run(args) = Args::parse_from([&["anydnn", "run", file], args].concat()).command else {
        panic!("another command");
    };
    run::run_on(&args, select)
}

/// `anydnn bench` on a device, with a report to a file that must not be written.
fn bench_on(device: &Device) -> Outcome {
    let (folder, file) = model();
    let report = folder.path().join("report.json");
    let (file, path) = (file.to_str().unwrap(), report.to_str().unwrap());
    let Command::Bench(args) = Args::parse_from(["anydnn", "bench", file, "--json", path]).command else {
        panic!("another command");
    };
    let outcome = bench::bench_on(&args, &device.selection());
    assert!(!report.exists(), "a report of what failed");
    outcome
}

#[track_caller]
fn assert_fails(outcome: Outcome, code: u8, message: &str, help: &str) {
    let failure: Failure = outcome.expect_err("a failure");
    assert_eq!((failure.code(), failure.message()), (code, message));
    assert!(failure.to_string().contains(help), "{failure}");
}

#[test]
fn a_backend_that_does_not_open_has_an_exit_code_of_its_own() {
    let missing = || Err(Error::unavailable("the backend npu", "its driver says 13"));
    let outcome = run_on(&[], missing);
    assert_fails(outcome, 4, "the backend npu is not available: its driver says 13", "`anydnn devices`");
    // What is wrong with the model is told before: no backend is opened for it.
    let outcome = run_on(&["--shape", "nobody=2x2"], || panic!("opened"));
    assert_eq!(outcome.unwrap_err().code(), 2);
}

#[test]
fn what_is_refused_before_the_first_run_is_told_and_nothing_runs() {
    let build = |program: &str| {
        Error::Build(Box::new(BuildFailure {
            program: program.into(),
            device: "npu".into(),
            call: "build".into(),
            code: -11,
            log: "no such thing as exp".into(),
        }))
    };
    for name in STEPS {
        let device = Device::failing(name, 0, build("kernel"));
        let message = format!(
            "{name}: program \"kernel\" does not build on npu (build returned -11); build log:\nno such thing as exp"
        );
        assert_fails(run_on(&[], || Ok(device.selection())), 1, &message, "report the build log above");
        assert_eq!((device.count("stream"), device.count("write")), (0, 0));
        assert_fails(bench_on(&device.again()), 1, &message, "report the build log above");
    }
    let full = || Error::OutOfMemory { what: "a buffer".into(), bytes: 4096 };
    for (call, after) in [("stream", 0), ("memory", 0), ("memory", 1), ("memory", 2)] {
        let device = Device::failing(call, after, full());
        let message = "out of memory: a buffer (4096 bytes)";
        assert_fails(run_on(&[], || Ok(device.selection())), 1, message, "a smaller --batch");
        assert_eq!(device.count("execute"), 0);
        assert_fails(bench_on(&device.again()), 1, message, "a smaller --batch");
    }
}

#[test]
fn a_run_that_fails_in_the_middle_names_the_step_and_ends() {
    // In the first pass, and in the second of four.
    for pass in 0..2 {
        for (at, name) in STEPS.iter().enumerate() {
            let executed = pass * STEPS.len() + at;
            let device = Device::failing("execute", executed, lost());
            let message = format!("{name}: device lost: unplugged");
            assert_fails(run_on(&[], || Ok(device.selection())), 1, &message, "ANYDNN_LOG=debug");
            assert_eq!((device.count("execute"), device.count("read")), (executed + 1, pass));
            assert_eq!(device.count("allocate"), device.count("free"), "temporaries went back");
            assert_eq!(device.identity.handles(), 0);
        }
    }
    for (call, words) in [("write", "device lost"), ("read", "device lost"), ("allocate", "temporaries: ")] {
        let device = Device::failing(call, 1, lost());
        let failure = run_on(&["--json"], || Ok(device.selection())).unwrap_err();
        assert!(failure.code() == 1 && failure.message().starts_with(words), "{failure}");
        assert_eq!((device.count(call), device.identity.handles()), (2, 0));
    }
}

#[test]
fn a_bench_that_fails_in_the_middle_names_the_step_and_reports_nothing() {
    // Seven rounds, each of one execution that is waited for and at least one that is queued, of three steps: a slow machine makes no more.
    for executed in [0, 4, 19, 41] {
        let device = Device::failing("execute", executed, lost());
        let message = format!("{}: device lost: unplugged", STEPS[executed % STEPS.len()]);
        assert_fails(bench_on(&device), 1, &message, "ANYDNN_LOG=debug");
        assert_eq!((device.count("execute"), device.identity.handles()), (executed + 1, 0));
    }
    for (call, after) in [("wait", 0), ("wait", 3), ("read", 0)] {
        let device = Device::failing(call, after, lost());
        assert_fails(bench_on(&device), 1, "device lost: unplugged", "ANYDNN_LOG=debug");
        assert_eq!((device.count(call), device.identity.handles()), (after + 1, 0));
    }
}

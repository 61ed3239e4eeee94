//! The sweep itself: which faults there are for a scenario, and what must hold after each.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anydnn_backend::{Allocator, Engine, Result, Status};
use anydnn_faults::{Control, Fault, code_name, documented_codes};
use anydnn_opencl::OpenClEngine;

/// Something a program does with the library, in pieces.
pub(crate) struct Scenario {
    pub(crate) name: String,
    /// Makes what the action needs. Nothing fails meanwhile.
    pub(crate) prepare: Box<dyn Fn() -> Action>,
    /// Functions whose failure need not be the action's, and why.
    pub(crate) tolerated: &'static [(&'static str, &'static str)],
    /// Whether it compiles, so that each fault is tried once only.
    pub(crate) is_slow: bool,
    /// Tries every so-many-th code of a function.
    pub(crate) every: usize,
}

/// The part during which calls fail. It checks its results, and can be done again.
pub(crate) type Action = Box<dyn FnMut() -> Result<()>>;

/// Functions whose failure need not be the operation's, whatever it is, and why. A `*` ends a beginning.
const TOLERATED: &[(&str, &str)] = &[
    ("clRelease*", "what is given back is gone; the failure is logged"),
    ("clMemFreeINTEL", "as above"),
    ("clGetProgramBuildInfo", "only the compiler's log is missing"),
    ("clWaitForEvents", "the command's status tells that it has ended"),
];

/// Functions that do not fail here, and why.
const EXCLUDED: &[(&str, &str)] = &[
    (
        "clSetUserEventStatus",
        "the test and drivers' callbacks call it; when it fails, what waits for the event is stuck",
    ),
    ("clCreateUserEvent", "the test calls it"),
];

/// Faults in a row of one function and code: a function that is called very often behaves no differently at every call.
const CALLS: usize = 40;

/// How long drivers' callbacks may take.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long what is owned stays the same once nothing is on its way.
const STILL: Duration = Duration::from_millis(100);

/// References that the process owns, by kind of object and the function that made it. Objects themselves may come and go: the library
/// keeps some for reuse.
pub(crate) type Owned = BTreeMap<(String, String), u64>;

/// A sweep over one device.
pub(crate) struct Sweep<'a> {
    layer: &'a Control,
    engine: &'a OpenClEngine,
    note: PathBuf,
    tried: usize,
    missed: usize,
    problems: usize,
    /// What was tolerated, by scenario and function.
    went_well: BTreeMap<(String, String), usize>,
}

impl<'a> Sweep<'a> {
    pub(crate) fn new(layer: &'a Control, engine: &'a OpenClEngine, note: PathBuf) -> Self {
        let went_well = BTreeMap::new();
        Self { layer, engine, note, tried: 0, missed: 0, problems: 0, went_well }
    }

    /// Tries every fault in a scenario.
    pub(crate) fn run(&mut self, scenario: &Scenario) {
        let start = Instant::now();
        let (tried, missed) = (self.tried, self.missed);
        let trace = self.trace(scenario);
        let mut before = self.settled(None);
        let mut seen = BTreeMap::<&str, u64>::new();
        for (k, function) in trace.iter().enumerate() {
            let call = seen.entry(function).or_default();
            *call += 1;
            if *call > CALLS as u64 || EXCLUDED.iter().any(|(excluded, _)| excluded == function) {
                continue;
            }
            let codes = documented_codes(function);
            for &code in codes.iter().step_by(scenario.every) {
                for persistent in if scenario.is_slow { &[false][..] } else { &[false, true] } {
                    let persistent = *persistent;
                    let fault = Fault::new(function, *call, code, persistent).unwrap();
                    self.attempt(scenario, &fault, function, &mut before);
                }
            }
            // From this call on nothing works any more.
            if *call <= 3 {
                let fault = Fault::new("*", k as u64 + 1, -5, true).unwrap();
                self.attempt(scenario, &fault, function, &mut before);
            }
        }
        println!(
            "{}: {} calls, {} faults, {} more not reached, {:.1} s",
            scenario.name,
            trace.len(),
            self.tried - tried,
            self.missed - missed,
            start.elapsed().as_secs_f32()
        );
    }

    /// Tells what was tried; panics when something was wrong.
    pub(crate) fn finish(self) {
        for ((scenario, function), count) in &self.went_well {
            println!("{scenario} went well without {function}: {count}");
        }
        println!("faults tried: {}", self.tried);
        assert_eq!(self.problems, 0, "see above");
    }

    pub(crate) fn layer(&self) -> &'a Control {
        self.layer
    }

    pub(crate) fn problem(&mut self, problem: &str) {
        println!("PROBLEM: {problem}");
        self.problems += 1;
    }

    /// Notes what is about to be tried.
    pub(crate) fn begin(&mut self, what: &str) {
        std::fs::write(&self.note, what).unwrap();
    }

    /// Counts a fault that was tried.
    pub(crate) fn count(&mut self) {
        self.tried += 1;
    }

    /// The functions that the action calls when all goes well, in order.
    fn trace(&mut self, scenario: &Scenario) -> Vec<String> {
        self.begin(&scenario.name);
        for _ in 0..2 {
            let mut action = (scenario.prepare)();
            action().unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        }
        let mut action = (scenario.prepare)();
        self.layer.reset();
        self.layer.start_trace();
        action().unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        let trace = self.layer.trace();
        assert!(self.layer.violations().is_empty(), "{}: {}", scenario.name, self.layer.report());
        trace
    }

    fn attempt(&mut self, scenario: &Scenario, fault: &Fault, function: &str, before: &mut Owned) {
        let what = format!("{}: {function}: {fault:?}", scenario.name);
        self.begin(&what);
        let mut action = (scenario.prepare)();
        self.layer.reset();
        self.layer.arm(fault);
        let result = catch_unwind(AssertUnwindSafe(&mut action));
        let injected = self.layer.injected();
        self.layer.disarm();
        if injected.is_empty() {
            self.missed += 1;
        } else {
            self.tried += 1;
        }
        let struck: Vec<&str> = injected.iter().map(|injection| injection.function.as_str()).collect();
        match result {
            Err(_) => self.problem(&format!("{what}: it panics")),
            Ok(Ok(())) if injected.iter().all(|i| tolerates(scenario, &i.function, i.code)) => {
                if let Some(function) = struck.first() {
                    let key = (scenario.name.clone(), (*function).to_owned());
                    *self.went_well.entry(key).or_default() += 1;
                }
            }
            Ok(Ok(())) => self.problem(&format!("{what}: no error though {struck:?} failed")),
            Ok(Err(error)) => {
                let right = injected.iter().any(|i| statuses(&i.function, i.code).contains(&error.status()));
                if !right {
                    self.problem(&format!("{what}: status {:?}: {error}", error.status()));
                }
            }
        }
        match catch_unwind(AssertUnwindSafe(&mut action)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.problem(&format!("{what}: the next attempt fails: {error}")),
            Err(_) => self.problem(&format!("{what}: the next attempt panics")),
        }
        drop(action);
        let after = self.settled(Some(before));
        if after != *before {
            let change: Vec<_> = after.iter().filter(|(what, n)| before.get(*what) != Some(n)).collect();
            self.problem(&format!("{what}: it owned {before:?} and now {change:?}"));
            *before = after;
        }
        let violations = self.layer.violations();
        if !violations.is_empty() {
            self.problem(&format!("{what}: {violations:?}"));
        }
    }

    /// What is owned once drivers' callbacks have done what they do a moment later, and nothing waits for reuse.
    pub(crate) fn settled(&self, expected: Option<&Owned>) -> Owned {
        let start = Instant::now();
        let (mut last, mut since) = (Owned::new(), start);
        loop {
            for kind in &self.engine.capabilities().memory_kinds {
                self.engine.allocator_of(*kind).unwrap().trim();
            }
            let mut owned = Owned::new();
            for object in self.layer.live() {
                *owned.entry((object.kind, object.creator)).or_default() += object.references;
            }
            // Queues rest before they are released, on a busy machine for longer: what is owned must stay so for a while.
            if last != owned {
                since = Instant::now();
            }
            let is_settled = expected.map_or(since.elapsed() >= STILL, |expected| *expected == owned);
            if is_settled || start.elapsed() > PATIENCE {
                return owned;
            }
            last = owned;
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn tolerates(scenario: &Scenario, function: &str, code: i32) -> bool {
    let matches =
        |name: &str| name.strip_suffix('*').map_or(name == function, |start| function.starts_with(start));
    let tolerated = TOLERATED.iter().chain(scenario.tolerated).any(|(name, _)| matches(name));
    // A lack of memory can be helped, nothing else that a call for memory complains of.
    let allocates = function == "clCreateBuffer" || function.ends_with("MemAllocINTEL");
    tolerated && (!allocates || statuses(function, code) == [Status::OutOfMemory])
}

/// The statuses that an operation may have whose call failed with a code.
fn statuses(function: &str, code: i32) -> &'static [Status] {
    let builds = ["clBuildProgram", "clCreateKernel", "clCreateKernelsInProgram"].contains(&function);
    match code_name(code).unwrap_or_default() {
        // Whatever it says, a program that does not build is the program's failure.
        "CL_INVALID_BINARY"
        | "CL_INVALID_BUILD_OPTIONS"
        | "CL_INVALID_PROGRAM_EXECUTABLE"
        | "CL_INVALID_KERNEL_NAME"
        | "CL_INVALID_KERNEL_DEFINITION"
            if builds =>
        {
            &[Status::RuntimeError]
        }
        // Memory that is larger than a driver can make.
        "CL_INVALID_BUFFER_SIZE" => &[Status::OutOfMemory],
        "CL_INVALID_PLATFORM" | "CL_INVALID_DEVICE" => &[Status::RuntimeError],
        _ => match code {
            -6..=-4 => &[Status::OutOfMemory],
            -63..=-30 => &[Status::InvalidArguments],
            _ => &[Status::RuntimeError],
        },
    }
}

//! The one state of the layer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Kind;
use crate::fault::Faults;
use crate::ledger::Ledger;
use crate::table::Function;

/// Everything the layer knows. No call into a driver is made while it is locked.
pub(crate) struct State {
    pub(crate) ledger: Ledger,
    pub(crate) faults: Faults,
    pub(crate) counts: [u64; Function::COUNT],
    pub(crate) injected: Vec<Injection>,
    pub(crate) violations: Vec<Violation>,
    /// The functions called, in order, while somebody wants to know.
    pub(crate) trace: Option<Vec<Function>>,
    /// Whether calls with dead handles are kept from the driver.
    pub(crate) refuse: bool,
    /// Whether a call that gives something back is made though it is reported as failed.
    pub(crate) perform_releases: bool,
}

/// A fault that was injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Injection {
    pub(crate) function: Function,
    /// Which call of this function it was.
    pub(crate) call: u64,
    pub(crate) code: i32,
}

/// A call that the program must not make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) function: Function,
    pub(crate) wrong: Wrong,
    pub(crate) kind: Kind,
    pub(crate) handle: usize,
    pub(crate) creator: Function,
}

/// What is wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    UseAfterRelease,
    ReleaseWithoutReference,
}

impl Wrong {
    /// In words, with a NUL at the end.
    pub(crate) fn c_name(self) -> &'static str {
        match self {
            Self::UseAfterRelease => "use after release\0",
            Self::ReleaseWithoutReference => "release without a reference\0",
        }
    }
}

/// The state, locked.
pub(crate) fn lock() -> MutexGuard<'static, State> {
    static STATE: Mutex<State> = Mutex::new(State {
        ledger: Ledger::new(),
        faults: Faults::new(),
        counts: [0; Function::COUNT],
        injected: Vec::new(),
        violations: Vec::new(),
        trace: None,
        refuse: true,
        perform_releases: true,
    });
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    pub(crate) fn count(&mut self, function: Function) {
        self.counts[function as usize] += 1;
        if let Some(trace) = &mut self.trace {
            trace.push(function);
        }
    }

    /// The code that an armed fault makes this call return.
    pub(crate) fn strike(&mut self, function: Function) -> Option<i32> {
        let code = self.faults.strike(function.name())?;
        self.injected.push(Injection { function, call: self.counts[function as usize], code });
        Some(code)
    }

    /// Forgets counts, faults, injections, violations and the trace; the ledger stays, since the objects do.
    pub(crate) fn reset(&mut self) {
        self.faults.disarm();
        self.counts = [0; Function::COUNT];
        self.injected.clear();
        self.violations.clear();
        self.trace = None;
    }
}

//! One intercepted call: what its arguments mean, whether it is made, and what the ledger learns from it.

use crate::Kind;
use crate::ledger::Key;
use crate::role::Returned;
use crate::state::{self, Violation, Wrong};
use crate::table::Function;

/// An intercepted call. The parameters fill it in, in order.
pub(crate) struct Call {
    function: Function,
    /// The number before a list.
    pub(crate) count: usize,
    pub(crate) errcode: *mut i32,
    pub(crate) event: *mut usize,
    pub(crate) list: Option<NewList>,
    pub(crate) new_count: *mut u32,
    pub(crate) creates_if_ok: Option<Key>,
    pub(crate) platform: usize,
    pub(crate) name: Option<String>,
    own_count: Option<Box<u32>>,
    uses: Vec<(Key, i32)>,
    retains: Vec<Key>,
    releases: Vec<Key>,
    watches: Option<Key>,
}

/// Where a call puts several new objects.
pub(crate) struct NewList {
    pub(crate) kind: Kind,
    pub(crate) first: *const usize,
    pub(crate) capacity: usize,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is made.
    Make,
    /// It is not made and returns this code.
    Refuse(i32),
    /// It is made, since it gives something back, and returns this code all the same.
    MakeAndFail(i32),
}

impl Call {
    pub(crate) fn new(function: Function) -> Self {
        Self {
            function,
            count: 0,
            errcode: std::ptr::null_mut(),
            event: std::ptr::null_mut(),
            list: None,
            new_count: std::ptr::null_mut(),
            creates_if_ok: None,
            platform: 0,
            name: None,
            own_count: None,
            uses: Vec::new(),
            retains: Vec::new(),
            releases: Vec::new(),
            watches: None,
        }
    }

    pub(crate) fn uses(&mut self, key: Key, code_if_dead: i32) {
        self.uses.push((key, code_if_dead));
    }

    pub(crate) fn retains(&mut self, key: Key) {
        self.uses(key, key.kind.invalid());
        self.retains.push(key);
    }

    pub(crate) fn releases(&mut self, key: Key) {
        self.releases.push(key);
    }

    pub(crate) fn forget_releases(&mut self) {
        self.releases.clear();
    }

    pub(crate) fn watches(&mut self, key: Key) {
        self.uses(key, key.kind.invalid());
        self.watches = Some(key);
    }

    /// The memory object among the arguments so far.
    pub(crate) fn memory(&self) -> usize {
        let memory = self.uses.iter().rev().find(|(key, _)| key.kind == Kind::Memory);
        memory.map_or(0, |(key, _)| key.address)
    }

    /// A place for a number that the program does not want to know.
    pub(crate) fn own_count(&mut self) -> *mut u32 {
        &raw mut **self.own_count.get_or_insert_default()
    }

    pub(crate) fn put_errcode(&self, code: i32) {
        if !self.errcode.is_null() {
            // SAFETY: the program passes a place for the code, or null.
            unsafe { self.errcode.write(code) };
        }
    }

    /// Counts the call and decides about it. References that it gives back leave the ledger here: once the driver has them, another
    /// thread may be given an object at the same address.
    pub(crate) fn begin<R: Returned>(&self) -> Verdict {
        let mut state = state::lock();
        state.count(self.function);
        let wrong = self.wrong(&state.ledger);
        let refused = wrong.as_ref().map(|(code, _)| *code).filter(|_| state.refuse);
        state.violations.extend(wrong.map(|(_, violation)| violation));
        let struck = if R::CAN_FAIL { state.strike(self.function) } else { None };
        let gives_back = !self.releases.is_empty() && state.perform_releases;
        let verdict = match (refused, struck) {
            (None, None) => Verdict::Make,
            (None, Some(code)) if gives_back => Verdict::MakeAndFail(code),
            (Some(code), _) | (None, Some(code)) => Verdict::Refuse(code),
        };
        if !matches!(verdict, Verdict::Refuse(_)) {
            for key in &self.releases {
                state.ledger.release(*key);
            }
        }
        verdict
    }

    /// Notes what a call that was made has done, and returns what the program gets.
    pub(crate) fn end<R: Returned>(self, verdict: Verdict, returned: R) -> R {
        let mut state = state::lock();
        let ledger = &mut state.ledger;
        let parents: Vec<Key> = self.uses.iter().map(|(key, _)| *key).collect();
        if returned.is_ok() {
            for key in &self.retains {
                ledger.retain(*key);
            }
            if let Some(key) = self.watches {
                ledger.watch(key);
            }
            if let Some(key) = returned.created(&self) {
                ledger.create(key, self.function, &parents);
            }
            for key in self.listed() {
                ledger.create(key, self.function, &parents);
            }
            if let Some(event) = self.new_event().filter(|_| verdict == Verdict::Make) {
                ledger.create(event, self.function, &parents);
            }
        } else {
            for key in &self.releases {
                ledger.retain(*key);
            }
        }
        drop(state);
        match verdict {
            Verdict::Make => returned.finish(&self),
            Verdict::Refuse(code) | Verdict::MakeAndFail(code) => R::failure(code, &self),
        }
    }

    /// What is wrong with the call, and the code that says so.
    fn wrong(&self, ledger: &crate::ledger::Ledger) -> Option<(i32, Violation)> {
        let released = self.releases.iter().find_map(|key| {
            let object = ledger.find(*key).filter(|object| object.references == 0)?;
            Some((key.kind.invalid(), *key, Wrong::ReleaseWithoutReference, object.creator))
        });
        let dead = || {
            self.uses.iter().find_map(|(key, code)| {
                Some((*code, *key, Wrong::UseAfterRelease, ledger.dead(*key)?.creator))
            })
        };
        let (code, key, wrong, creator) = released.or_else(dead)?;
        let violation =
            Violation { function: self.function, wrong, kind: key.kind, handle: key.address, creator };
        Some((code, violation))
    }

    /// The objects in the list that the call filled in.
    fn listed(&self) -> Vec<Key> {
        let Some(list) = &self.list else { return Vec::new() };
        // SAFETY: the program's place for the number, or this call's own.
        let made = if self.new_count.is_null() { 0 } else { unsafe { self.new_count.read() } };
        let made = list.capacity.min(made as usize);
        // SAFETY: the program's list has room for `capacity` handles and the driver has written this many.
        (0..made).map(|i| Key::new(list.kind, unsafe { list.first.add(i).read() })).collect()
    }

    fn new_event(&self) -> Option<Key> {
        // SAFETY: the program passes a place for the event, or null; the driver has written it.
        let event = if self.event.is_null() { 0 } else { unsafe { self.event.read() } };
        (event != 0).then(|| Key::new(Kind::Event, event))
    }
}

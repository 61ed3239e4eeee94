//! What all handles of a device share, behind one lock.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use anydnn_backend::{
    Access, AllocatorStats, Capabilities, DeviceInfo, EngineId, Error, ProfileLog, Region, Result,
};

use crate::clock::Clock;
use crate::command::{Key, Node, Work};
use crate::device::{OpenLayouts, RacePolicy};
use crate::faults::{FaultState, Point};
use crate::heap::{Heap, Origin};
use crate::log::Log;
use crate::past::Past;
use crate::race::{Footprint, Moment, Race, Touch};
use crate::random::Random;
use crate::schedule::Schedule;

/// The device: what never changes, and the lock around what does.
pub(crate) struct Shared {
    pub(crate) engine: EngineId,
    pub(crate) info: DeviceInfo,
    pub(crate) capabilities: Capabilities,
    pub(crate) races: RacePolicy,
    pub(crate) open_layouts: OpenLayouts,
    pub(crate) keeps_apart: bool,
    pub(crate) works_ahead: bool,
    pub(crate) state: Mutex<State>,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panicked in another thread must not hide its own message behind a poisoned lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state for a call, after counting it and showing the fault that is due.
    pub(crate) fn enter(&self, point: Point, operation: &str) -> Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        state.call(point, operation)?;
        Ok(state)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockDevice")
            .field("name", &self.info.name)
            .field("engine", &self.engine)
            .finish_non_exhaustive()
    }
}

/// What changes.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) random: Random,
    pub(crate) clock: Clock,
    pub(crate) log: Log,
    pub(crate) faults: FaultState,
    pub(crate) heap: Heap,
    pub(crate) races: Vec<Race>,
    pub(crate) schedule: Schedule,
    /// What the host has waited for.
    pub(crate) host: Past,
    pub(crate) lanes: HashMap<u64, Lane>,
    /// Blocks to free when a command ends, with their bytes.
    pub(crate) frees: HashMap<Key, Vec<(u64, usize)>>,
    /// The allocator's.
    pub(crate) stats: AllocatorStats,
    /// What was begun in the background and waits for the test.
    pub(crate) ahead: Vec<anydnn_backend::Work>,
    live: BTreeMap<u64, String>,
    /// Blocks of the allocator and their entries among the live objects.
    lent: HashMap<u64, u64>,
    submitted: u64,
    counters: [u64; 4],
}

/// What a stream remembers.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// The command submitted last.
    pub(crate) last: Option<Arc<Node>>,
    /// Everything submitted since the last wait, less what ended well and was waited for otherwise.
    pub(crate) open: Vec<Arc<Node>>,
    /// The length of `open` at which to look for such commands again.
    pub(crate) tidy_at: usize,
    /// Executions of a profiling stream.
    pub(crate) profile: ProfileLog<Execution>,
}

/// An execution to profile.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    pub(crate) node: Arc<Node>,
    pub(crate) operation: Arc<str>,
}

/// Things that are numbered from zero.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counter {
    Stream,
    UserEvent,
    Map,
    Live,
}

impl State {
    pub(crate) fn new(seed: u64, faults: FaultState) -> Self {
        Self {
            random: Random::new(seed),
            clock: Clock::default(),
            log: Log::default(),
            faults,
            heap: Heap::default(),
            races: Vec::new(),
            schedule: Schedule::default(),
            host: Past::default(),
            lanes: HashMap::new(),
            frees: HashMap::new(),
            stats: AllocatorStats::default(),
            ahead: Vec::new(),
            live: BTreeMap::new(),
            lent: HashMap::new(),
            submitted: 0,
            counters: [0; 4],
        }
    }

    pub(crate) fn call(&mut self, point: Point, operation: &str) -> Result<()> {
        let Self { faults, log, .. } = self;
        faults
            .call(point, operation)
            .inspect_err(|error| log.line(format_args!("fault {operation}: {error}")))
    }

    pub(crate) fn submission(&mut self, operation: &str) -> Result<()> {
        let Self { faults, log, .. } = self;
        faults.submission(operation).inspect_err(|error| log.line(format_args!("fault {operation}: {error}")))
    }

    pub(crate) fn number(&mut self, counter: Counter) -> u64 {
        let slot = &mut self.counters[counter as usize];
        *slot += 1;
        *slot - 1
    }

    /// Enqueues a command behind `deps`, and on an in-order stream behind the command before.
    pub(crate) fn submit(&mut self, to: &Target<'_>, work: Work, deps: &[Arc<Node>]) -> Result<Arc<Node>> {
        let number = self.submitted + 1;
        let name = format!("#{number} {}", work.name());
        let before =
            if to.in_order { self.lanes.get(&to.stream).and_then(|lane| lane.last.clone()) } else { None };
        let mut waits: Vec<_> = deps.to_vec();
        // What the host has waited for is over, and its failure was told.
        waits.extend(before.filter(|node| !matches!(node.key, Key::Command(n) if self.host.contains(n))));
        let mut past = self.host.clone();
        for node in &waits {
            past.join(&node.past);
        }
        past.insert(number);
        let touches = work.touches(&name);
        for (allocation, touch) in &touches {
            self.check(*allocation, touch, &past, to.races)?;
        }
        self.submitted = number;
        let host = &self.host;
        for (allocation, touch) in touches {
            self.heap.retain(allocation);
            let footprint = Footprint { moment: Moment::Command(number), touch };
            self.heap.block_mut(allocation)?.footprints.add(footprint, &past, host);
        }
        let fault = self.faults.execution(&name);
        let args = work.describe(&self.heap);
        let after = deps.iter().map(|dep| short(&dep.name)).collect::<Vec<_>>().join(" ");
        let after = if after.is_empty() { after } else { format!(" after {after}") };
        self.log.line(format_args!("submit {name}{args} on {}{after}", to.name));
        let node = Arc::new(Node {
            key: Key::Command(number),
            name,
            past,
            profiling: to.profiling,
            queued: self.clock.advance(1),
            submitted: OnceLock::new(),
            outcome: OnceLock::new(),
        });
        self.schedule.add(number, Arc::clone(&node), work, waits, fault);
        let Self { lanes, host, .. } = self;
        lanes.entry(to.stream).or_default().push(&node, host);
        Ok(node)
    }

    /// Reports a race of `touch` with an earlier use of the allocation.
    pub(crate) fn check(
        &mut self,
        allocation: u64,
        touch: &Touch,
        past: &Past,
        policy: RacePolicy,
    ) -> Result<()> {
        let block = self.heap.block(allocation)?;
        let Some(race) = block.footprints.race(touch, past, &block.name) else { return Ok(()) };
        self.log.line(format_args!("race {race}"));
        let error = race.error();
        self.races.push(race);
        match policy {
            RacePolicy::Error => Err(error),
            RacePolicy::Report => Ok(()),
        }
    }

    /// Registers a block of the allocator until it comes back.
    pub(crate) fn lend(&mut self, region: Region) {
        let name = self.heap.name(region);
        let key = self.register(format!("allocator block {name}, not given back"));
        self.lent.insert(region.allocation, key);
        self.stats.create(region.bytes);
    }

    /// From now on every use of the block is a race.
    pub(crate) fn take_back(&mut self, allocation: u64, footprint: Footprint, past: &Past) -> Result<()> {
        let block = self.heap.block_mut(allocation)?;
        block.origin = Origin::Returned;
        block.footprints.add(footprint, past, &self.host);
        if let Some(key) = self.lent.remove(&allocation) {
            self.unregister(key);
        }
        Ok(())
    }

    /// The host has waited for `node`.
    pub(crate) fn waited(&mut self, node: &Node) {
        self.host.join(&node.past);
        self.host.trim();
    }

    /// Makes bytes, behind the limits and the faults.
    pub(crate) fn allocate(
        &mut self,
        bytes: usize,
        origin: Origin,
        what: &str,
        limits: &Capabilities,
    ) -> Result<Region> {
        let made = self
            .faults
            .allocation(what, bytes)
            .and_then(|()| self.heap.allocate(bytes, origin, limits))
            .inspect_err(|error| self.log.line(format_args!("fault {what}: {error}")))?;
        Ok(Region { allocation: made, offset: 0, bytes })
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &String> {
        self.live.values()
    }

    /// Registers something that has to go before the device does.
    pub(crate) fn register(&mut self, what: String) -> u64 {
        let key = self.number(Counter::Live);
        self.live.insert(key, what);
        key
    }

    pub(crate) fn unregister(&mut self, key: u64) {
        self.live.remove(&key);
    }
}

impl Lane {
    fn push(&mut self, node: &Arc<Node>, host: &Past) {
        self.last = Some(Arc::clone(node));
        self.open.push(Arc::clone(node));
        if self.open.len() >= self.tidy_at.max(64) {
            self.open.retain(|node| {
                let waited = matches!(node.key, Key::Command(n) if host.contains(n));
                !(waited && node.is_done() && node.error().is_none())
            });
            self.tidy_at = 2 * self.open.len();
        }
    }
}

/// The stream that a command goes to.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    pub(crate) stream: u64,
    pub(crate) name: &'a str,
    pub(crate) in_order: bool,
    pub(crate) profiling: bool,
    pub(crate) races: RacePolicy,
}

/// The entry of a handle in the register of live objects.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) shared: Arc<Shared>,
    key: u64,
}

impl Token {
    pub(crate) fn new(shared: &Arc<Shared>, state: &mut State, what: String) -> Self {
        Self { shared: Arc::clone(shared), key: state.register(what) }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.shared.lock().unregister(self.key);
    }
}

/// Checks that a handle is one of this device.
pub(crate) fn same_device(operation: &str, what: &str, given: &Shared, expected: &Shared) -> Result<()> {
    if given.engine == expected.engine {
        return Ok(());
    }
    Err(Error::mismatch(
        operation,
        format!("{what} of {} ({})", given.engine, given.info.name),
        format!("{} ({})", expected.engine, expected.info.name),
    ))
}

/// `#3` of `#3 relu`, `u0` of `user event u0`.
pub(crate) fn short(name: &str) -> &str {
    let mut words = name.split(' ');
    match words.next() {
        Some(number) if number.starts_with('#') => number,
        _ => words.next_back().unwrap_or(name),
    }
}

/// Appends a label for messages.
pub(crate) fn labelled(what: String, label: Option<&str>) -> String {
    match label {
        Some(label) => format!("{what} {label:?}"),
        None => what,
    }
}

/// The access of a mapping.
pub(crate) fn map_access(mode: anydnn_backend::MapMode) -> Access {
    match mode {
        anydnn_backend::MapMode::Read => Access::Read,
        anydnn_backend::MapMode::Write => Access::Write,
        anydnn_backend::MapMode::ReadWrite => Access::ReadWrite,
    }
}

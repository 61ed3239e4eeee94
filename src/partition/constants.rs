//! The cache of what follows from constant tensors.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anydnn_backend::{Backend, DeviceKind, Engine, EngineId, Event, EventStatus, Memory, Region};

use super::cache::CacheStats;
use super::process;

/// The variables that say how many bytes the process's own cache may keep; the first that is set holds.
const CAPACITY: [&str; 3] = [
    "ANYDNN_GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY",
    "ONEDNN_GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY",
    "DNNL_GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY",
];

/// What compiled partitions have computed from constant tensors (packed weights, folded factors), kept for the next execution. Every
/// engine has room of its own, at first none; the least recently used goes when there is too little. Clones are handles to the same
/// cache.
///
/// An entry belongs to one compiled partition and the very [objects](Memory::identity) that the constants were given in, which it keeps
/// alive: new memory at an old address never finds it, nor does memory whose bytes were [replaced](Memory::replace). Who writes other
/// values into a constant's memory [invalidates](ConstantCache::invalidate) it.
#[derive(Debug)]
pub struct ConstantCache<B: Backend> {
    shared: Arc<Mutex<State<B>>>,
}

#[derive(Debug)]
struct State<B: Backend> {
    cpu_bytes: usize,
    other_bytes: usize,
    engines: HashMap<EngineId, Room<B>>,
    clock: u64,
}

/// What is kept for one engine.
#[derive(Debug)]
struct Room<B: Backend> {
    /// Set for this engine; else its kind's holds.
    capacity: Option<usize>,
    kind: DeviceKind,
    entries: Vec<Entry<B>>,
    stats: CacheStats,
}

#[derive(Debug)]
struct Entry<B: Backend> {
    key: Key,
    /// Kept so that their identities stay theirs.
    _sources: Vec<B::Memory>,
    value: Prepared<B>,
    bytes: usize,
    used: u64,
}

/// A compiled partition and the constants that it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    plan: u64,
    sources: Vec<(u64, Region)>,
}

impl Key {
    fn new<M: Memory>(plan: u64, sources: &[M]) -> Self {
        Self { plan, sources: sources.iter().map(|memory| (memory.identity(), memory.region())).collect() }
    }
}

/// Temporaries that depend on constants alone, and the event after which they hold their values.
#[derive(Debug)]
pub(super) struct Prepared<B: Backend> {
    pub(super) memories: Arc<[Option<B::Memory>]>,
    pub(super) ready: B::Event,
}

impl<B: Backend> Clone for ConstantCache<B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<B: Backend> Clone for Prepared<B> {
    fn clone(&self) -> Self {
        Self { memories: Arc::clone(&self.memories), ready: self.ready.clone() }
    }
}

impl<B: Backend> Default for ConstantCache<B> {
    fn default() -> Self {
        Self::new(0)
    }
}

impl<B: Backend> ConstantCache<B> {
    /// An empty cache with room for so many bytes on every engine; with none it is off.
    pub fn new(capacity: usize) -> Self {
        let (engines, clock) = (HashMap::new(), 0);
        let state = State { cpu_bytes: capacity, other_bytes: capacity, engines, clock };
        Self { shared: Arc::new(Mutex::new(state)) }
    }

    /// The cache that the process shares: off, or with as much room as `ONEDNN_GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY` says, in megabytes
    /// for each kind of engine (`cpu:1024;gpu:512`).
    pub fn process() -> Self {
        process::shared(|| {
            let cache = Self::new(0);
            let said = CAPACITY.iter().find_map(|name| std::env::var(name).ok()).unwrap_or_default();
            for (kind, bytes) in capacities(&said) {
                cache.set_kind_capacity(kind, bytes);
            }
            cache
        })
    }

    /// The bytes that there is room for on an engine.
    pub fn capacity<E: Engine<B = B>>(&self, engine: &E) -> usize {
        self.lock().room(engine.id(), engine.device().kind).1
    }

    /// Makes room for so many bytes on an engine, and forgets what is kept there.
    pub fn set_capacity<E: Engine<B = B>>(&self, engine: &E, bytes: usize) {
        let mut state = self.lock();
        let (room, _) = state.room(engine.id(), engine.device().kind);
        room.capacity = Some(bytes);
        let gone = std::mem::take(&mut room.entries);
        drop(state);
        drop(gone);
    }

    /// The bytes that there is room for on an engine of a kind that has no capacity of its own.
    pub fn kind_capacity(&self, kind: DeviceKind) -> usize {
        let state = self.lock();
        if kind == DeviceKind::Cpu { state.cpu_bytes } else { state.other_bytes }
    }

    /// Makes room for so many bytes on every engine of a kind that has no capacity of its own, and forgets what is kept there. All kinds
    /// but processors are one.
    pub fn set_kind_capacity(&self, kind: DeviceKind, bytes: usize) {
        let mut state = self.lock();
        let is_cpu = kind == DeviceKind::Cpu;
        *(if is_cpu { &mut state.cpu_bytes } else { &mut state.other_bytes }) = bytes;
        let rooms = state.engines.values_mut();
        let gone: Vec<_> = rooms
            .filter(|room| room.capacity.is_none() && (room.kind == DeviceKind::Cpu) == is_cpu)
            .map(|room| std::mem::take(&mut room.entries))
            .collect();
        drop(state);
        drop(gone);
    }

    /// Forgets everything that follows from bytes of `memory`.
    pub fn invalidate(&self, memory: &B::Memory) {
        let (identity, region) = (memory.identity(), memory.region());
        self.remove(|entry| {
            entry.key.sources.iter().any(|(id, part)| *id == identity || part.overlaps(&region))
        });
    }

    /// Forgets everything.
    pub fn flush(&self) {
        self.remove(|_| true);
    }

    /// What it has done for an engine.
    pub fn stats<E: Engine<B = B>>(&self, engine: &E) -> CacheStats {
        let mut state = self.lock();
        let (room, _) = state.room(engine.id(), engine.device().kind);
        let bytes = room.entries.iter().map(|entry| entry.bytes).sum();
        CacheStats { entries: room.entries.len(), bytes, ..room.stats }
    }

    /// Whether so many bytes can be kept at all.
    pub(super) fn takes(&self, engine: &B::Engine, bytes: usize) -> bool {
        bytes <= self.capacity(engine)
    }

    /// What a compiled partition has made of these constants.
    pub(super) fn find(&self, engine: &B::Engine, plan: u64, sources: &[B::Memory]) -> Option<Prepared<B>> {
        let key = Key::new(plan, sources);
        let mut guard = self.lock();
        guard.clock += 1;
        let used = guard.clock;
        let (room, _) = guard.room(engine.id(), engine.device().kind);
        let at = room.entries.iter().position(|entry| entry.key == key);
        let status = at.map(|at| room.entries[at].value.ready.status());
        match (at, status) {
            // Its making failed, so it holds nothing.
            (Some(at), Some(Ok(EventStatus::Failed) | Err(_))) => {
                let gone = room.entries.swap_remove(at);
                room.stats.misses += 1;
                drop(guard);
                drop(gone);
                None
            }
            (Some(at), _) => {
                room.stats.hits += 1;
                let entry = &mut room.entries[at];
                entry.used = used;
                Some(entry.value.clone())
            }
            (None, _) => {
                room.stats.misses += 1;
                None
            }
        }
    }

    /// Keeps what a compiled partition has made, where there is room.
    pub(super) fn insert(
        &self,
        engine: &B::Engine,
        plan: u64,
        sources: &[B::Memory],
        value: Prepared<B>,
        bytes: usize,
    ) {
        let key = Key::new(plan, sources);
        let mut guard = self.lock();
        guard.clock += 1;
        let used = guard.clock;
        let (room, capacity) = guard.room(engine.id(), engine.device().kind);
        let mut gone = Vec::new();
        if let Some(at) = room.entries.iter().position(|entry| entry.key == key) {
            gone.push(room.entries.swap_remove(at));
        }
        while room.entries.iter().map(|entry| entry.bytes).sum::<usize>().saturating_add(bytes) > capacity {
            let oldest = room.entries.iter().enumerate().min_by_key(|(_, entry)| entry.used);
            let Some((at, _)) = oldest else { return };
            gone.push(room.entries.swap_remove(at));
            room.stats.evictions += 1;
        }
        room.entries.push(Entry { key, _sources: sources.to_vec(), value, bytes, used });
        drop(guard);
        drop(gone);
    }

    /// Forgets what a compiled partition has made, which is no more.
    pub(super) fn forget(&self, plan: u64) {
        self.remove(|entry| entry.key.plan == plan);
    }

    fn remove(&self, unwanted: impl Fn(&Entry<B>) -> bool) {
        let mut state = self.lock();
        let mut gone = Vec::new();
        for room in state.engines.values_mut() {
            let (out, kept): (Vec<_>, Vec<_>) =
                std::mem::take(&mut room.entries).into_iter().partition(&unwanted);
            room.entries = kept;
            gone.push(out);
        }
        drop(state);
        // Freeing memory may run a user's code: without the lock.
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Backend> State<B> {
    /// An engine's room and its capacity in bytes.
    fn room(&mut self, engine: EngineId, kind: DeviceKind) -> (&mut Room<B>, usize) {
        let of_kind = if kind == DeviceKind::Cpu { self.cpu_bytes } else { self.other_bytes };
        let empty = || Room { capacity: None, kind, entries: Vec::new(), stats: CacheStats::default() };
        let room = self.engines.entry(engine).or_insert_with(empty);
        let capacity = room.capacity.unwrap_or(of_kind);
        (room, capacity)
    }
}

/// The bytes for each kind of engine that a setting like `cpu:1024;gpu:512` names, in megabytes. What makes no sense is left out.
fn capacities(text: &str) -> Vec<(DeviceKind, usize)> {
    let one = |part: &str| {
        let (kind, megabytes) = part.split_once(':')?;
        let kind = match kind.trim().to_ascii_lowercase().as_str() {
            "cpu" => DeviceKind::Cpu,
            "gpu" => DeviceKind::Gpu,
            _ => return None,
        };
        Some((kind, megabytes.trim().parse::<usize>().ok()?.saturating_mul(1 << 20)))
    };
    text.split(';').filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_megabytes_for_each_kind() {
        let wanted = [(DeviceKind::Cpu, 2 << 20), (DeviceKind::Gpu, 5 << 20)];
        assert_eq!(capacities("cpu:2;gpu: 5"), wanted);
        assert_eq!(capacities("GPU:1;tpu:4;cpu;gpu:x;"), [(DeviceKind::Gpu, 1 << 20)]);
        assert_eq!(capacities(""), []);
    }
}

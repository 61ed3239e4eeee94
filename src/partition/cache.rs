//! The cache of compiled partitions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anydnn_backend::{Backend, Result};

use super::compiled::Plan;
use super::process;

/// How many compiled partitions a cache keeps when nothing else is said.
const DEFAULT_CAPACITY: usize = 1024;

/// The variables that say how many the process's own cache keeps; the first that is set holds.
const CAPACITY: [&str; 3] = [
    "ANYDNN_GRAPH_COMPILED_PARTITION_CACHE_CAPACITY",
    "ONEDNN_GRAPH_COMPILED_PARTITION_CACHE_CAPACITY",
    "DNNL_GRAPH_COMPILED_PARTITION_CACHE_CAPACITY",
];

/// Compiled partitions by what they were compiled from: operations with their attributes, logical tensors, arithmetic, policy and engine.
/// The least recently used ones go when there are too many. Clones are handles to the same cache.
///
/// A cached partition keeps its engine. Equal requests that come at once are compiled once.
#[derive(Debug)]
pub struct PartitionCache<B: Backend> {
    shared: Arc<Mutex<State<B>>>,
}

/// What a cache has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Requests that were served from it.
    pub hits: usize,
    /// Requests that were not.
    pub misses: usize,
    /// Entries that went because there was no room.
    pub evictions: usize,
    /// Entries now.
    pub entries: usize,
    /// Bytes that they hold; zero where bytes are not what is limited.
    pub bytes: usize,
}

#[derive(Debug)]
struct State<B: Backend> {
    capacity: usize,
    entries: HashMap<String, Entry<B>>,
    /// Counts uses: the larger, the more recent.
    clock: u64,
    stats: CacheStats,
}

#[derive(Debug)]
struct Entry<B: Backend> {
    slot: Arc<Slot<B>>,
    used: u64,
}

/// The place for what is compiled: locked meanwhile, empty when that failed.
#[derive(Debug)]
struct Slot<B: Backend>(Mutex<Option<Arc<Plan<B>>>>);

impl<B: Backend> Clone for PartitionCache<B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<B: Backend> Default for PartitionCache<B> {
    fn default() -> Self {
        Self::new(DEFAULT_CAPACITY)
    }
}

impl<B: Backend> PartitionCache<B> {
    /// An empty cache for so many compiled partitions; with room for none it is off.
    pub fn new(capacity: usize) -> Self {
        let (entries, clock, stats) = (HashMap::new(), 0, CacheStats::default());
        Self { shared: Arc::new(Mutex::new(State { capacity, entries, clock, stats })) }
    }

    /// The cache that the process shares: of 1024 compiled partitions, or of as many as
    /// `ONEDNN_GRAPH_COMPILED_PARTITION_CACHE_CAPACITY` says.
    pub fn process() -> Self {
        process::shared(|| {
            let said = CAPACITY.iter().find_map(|name| std::env::var(name).ok());
            Self::new(said.and_then(|text| text.trim().parse().ok()).unwrap_or(DEFAULT_CAPACITY))
        })
    }

    /// How many compiled partitions there is room for.
    pub fn capacity(&self) -> usize {
        self.lock().capacity
    }

    /// Makes room for so many compiled partitions, or for fewer: the least recently used go.
    pub fn set_capacity(&self, capacity: usize) {
        let mut state = self.lock();
        state.capacity = capacity;
        let gone = state.evict();
        drop(state);
        drop(gone);
    }

    /// Forgets everything.
    pub fn clear(&self) {
        let gone = std::mem::take(&mut self.lock().entries);
        drop(gone);
    }

    /// What it has done.
    pub fn stats(&self) -> CacheStats {
        let state = self.lock();
        CacheStats { entries: state.entries.len(), ..state.stats }
    }

    /// What was compiled for an equal request, or else what `compile` makes, and whether it was there.
    pub(super) fn find_or_compile(
        &self,
        key: &str,
        compile: impl FnOnce() -> Result<Plan<B>>,
    ) -> Result<(Arc<Plan<B>>, bool)> {
        let Some(slot) = self.slot(key) else { return compile().map(|plan| (Arc::new(plan), false)) };
        // Compilers take long: others that want the same wait here, all else goes on.
        let mut found = slot.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = &*found {
            self.lock().stats.hits += 1;
            return Ok((Arc::clone(plan), true));
        }
        self.lock().stats.misses += 1;
        match compile() {
            Ok(plan) => {
                let plan = Arc::new(plan);
                *found = Some(Arc::clone(&plan));
                Ok((plan, false))
            }
            Err(error) => {
                self.forget(key, &slot);
                Err(error)
            }
        }
    }

    /// The place for a request; none when the cache is off.
    fn slot(&self, key: &str) -> Option<Arc<Slot<B>>> {
        let mut state = self.lock();
        if state.capacity == 0 {
            state.stats.misses += 1;
            return None;
        }
        state.clock += 1;
        let used = state.clock;
        if let Some(entry) = state.entries.get_mut(key) {
            entry.used = used;
            return Some(Arc::clone(&entry.slot));
        }
        let slot = Arc::new(Slot(Mutex::new(None)));
        state.entries.insert(key.to_owned(), Entry { slot: Arc::clone(&slot), used });
        let gone = state.evict();
        drop(state);
        // What goes may free memory of a device, and run a user's code: without the lock.
        drop(gone);
        Some(slot)
    }

    fn forget(&self, key: &str, slot: &Arc<Slot<B>>) {
        let mut state = self.lock();
        if state.entries.get(key).is_some_and(|entry| Arc::ptr_eq(&entry.slot, slot)) {
            state.entries.remove(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Backend> State<B> {
    /// Takes out the least recently used entries until the others fit.
    fn evict(&mut self) -> Vec<Entry<B>> {
        let mut gone = Vec::new();
        while self.entries.len() > self.capacity {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            gone.extend(oldest.and_then(|key| self.entries.remove(&key)));
            self.stats.evictions += 1;
        }
        gone
    }
}

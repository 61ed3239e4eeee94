//! The choices that tuning made.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anydnn_backend::PrimitiveDesc;

use crate::cache::ProgramCache;
use crate::driver::platform::OpenClDevice;

/// The budget of an engine, and what was chosen.
#[derive(Debug)]
pub(crate) struct Record {
    budget: Mutex<Option<Duration>>,
    /// By description; none where nothing is known.
    chosen: Mutex<HashMap<String, Option<String>>>,
    /// Whether earlier processes have made choices. Otherwise nothing is looked for on disk, description by description.
    is_any: OnceLock<bool>,
    /// How often choices have changed, or who makes them.
    changes: AtomicUsize,
}

impl Record {
    /// With the budget that `ANYDNN_TUNE` gives, in milliseconds.
    pub(crate) fn from_env() -> Self {
        let given = std::env::var("ANYDNN_TUNE").ok().filter(|text| !text.is_empty());
        let budget = given.and_then(|text| match text.trim().parse() {
            Ok(0) => None,
            Ok(milliseconds) => Some(Duration::from_millis(milliseconds)),
            Err(_) => {
                tracing::warn!(value = text, "ANYDNN_TUNE is no number of milliseconds");
                None
            }
        });
        Self {
            budget: Mutex::new(budget),
            chosen: Mutex::default(),
            is_any: OnceLock::new(),
            changes: AtomicUsize::new(0),
        }
    }

    pub(crate) fn budget(&self) -> Option<Duration> {
        *self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_budget(&self, budget: Option<Duration>) {
        *self.budget.lock().unwrap_or_else(PoisonError::into_inner) = budget;
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Another number whenever a description may be computed in another way than before.
    pub(crate) fn generation(&self) -> usize {
        self.changes.load(Ordering::Relaxed)
    }

    /// What was chosen for a description by this engine, or by an earlier process that used the same disk cache.
    pub(crate) fn recall(
        &self,
        programs: &ProgramCache,
        device: &OpenClDevice,
        desc: &PrimitiveDesc,
    ) -> Option<String> {
        let is_any = *self.is_any.get_or_init(|| programs.load_note(device, CHOICES).is_some());
        if !is_any && self.generation() == 0 {
            return None;
        }
        let topic = topic(desc);
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        let load = || String::from_utf8(programs.load_note(device, &topic)?.to_vec()).ok();
        chosen.entry(topic.clone()).or_insert_with(load).clone()
    }

    pub(crate) fn remember(
        &self,
        programs: &ProgramCache,
        device: &OpenClDevice,
        desc: &PrimitiveDesc,
        implementation: &str,
    ) {
        let topic = topic(desc);
        programs.save_note(device, &topic, implementation.as_bytes());
        programs.save_note(device, CHOICES, b"there are some");
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        chosen.insert(topic, Some(implementation.into()));
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
}

/// What tells that there are choices on disk.
const CHOICES: &str = "choices of implementations";

/// What choices are filed under: everything that kernels depend on, which the label of a description is not.
fn topic(desc: &PrimitiveDesc) -> String {
    // Which implementation is the fastest does not depend on when its programs are made.
    let attributes = desc.attributes().clone().with_specialize(None);
    format!("choice for {:?} {:?} {attributes:?}", desc.op(), desc.args())
}

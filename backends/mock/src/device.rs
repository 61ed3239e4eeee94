//! The device as a test holds it: built with a seed, asked about races and leaks, checked at the end.

use std::sync::{Arc, Mutex};

use anydnn_backend::{Capabilities, DataType, DeviceInfo, DeviceKind, EngineId, MemoryKind};

use crate::engine::MockEngine;
use crate::event::MockUserEvent;
use crate::faults::{FaultState, Faults, Point};
use crate::race::Race;
use crate::state::{Shared, State};

/// A mock device and the guard of a test.
///
/// It panics when dropped while objects made on it are alive, and names them; so make it first, and let everything else go before.
/// Engines are handles to the device and do not count.
///
/// ```
/// use anydnn_backend::{Engine, StreamDesc};
/// use anydnn_mock::MockDevice;
///
/// let device = MockDevice::new(42);
/// let stream = device.engine().create_stream(&StreamDesc::default().labelled("main"))?;
/// assert_eq!(device.leaks(), ["stream s0 \"main\""]);
/// drop(stream);
/// assert!(device.leaks().is_empty());
/// # Ok::<(), anydnn_backend::Error>(())
/// ```
#[derive(Debug)]
pub struct MockDevice {
    shared: Arc<Shared>,
    seed: u64,
    allow_leaks: bool,
}

impl MockDevice {
    /// A device with every capability and no faults.
    pub fn new(seed: u64) -> Self {
        Self::builder().seed(seed).build()
    }

    /// Starts a device to order.
    pub fn builder() -> MockDeviceBuilder {
        MockDeviceBuilder::default()
    }

    /// The device's engine; every call returns a handle to the same one.
    pub fn engine(&self) -> MockEngine {
        MockEngine::new(Arc::clone(&self.shared))
    }

    /// The seed, to name it when a test fails.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// An event that the test completes, to hold back what depends on it.
    pub fn user_event(&self) -> MockUserEvent {
        MockUserEvent::new(&self.shared)
    }

    /// Every race found so far.
    pub fn races(&self) -> Vec<Race> {
        self.shared.lock().races.clone()
    }

    /// What was submitted and what ran, one line each, the same on every run of a program with a seed. Memories are `m0`, `m1` and so
    /// on by creation, streams `s0`, commands `#1`, user events `u0`; `m0[0..16]` are bytes.
    pub fn log(&self) -> String {
        self.shared.lock().log.text()
    }

    /// Starts the log afresh, so that a snapshot holds only what follows.
    pub fn clear_log(&self) {
        self.shared.lock().log.clear();
    }

    /// Objects that are alive, in the order of creation.
    pub fn leaks(&self) -> Vec<String> {
        self.shared.lock().live().cloned().collect()
    }

    /// How often a place was reached, failed calls included.
    pub fn calls(&self, point: Point) -> u64 {
        self.shared.lock().faults.total(point)
    }

    /// Replaces the faults; numbers count from now on. Without faults, a lost device is back.
    pub fn inject(&self, faults: Faults) {
        self.shared.lock().faults.inject(faults);
    }

    /// Does what was begun [in the background](anydnn_backend::Engine::in_background) so far, here and now, and tells how much that was:
    /// the device [works ahead](MockDeviceBuilder::works_ahead) when the test says so.
    pub fn work_ahead(&self) -> usize {
        let begun = std::mem::take(&mut self.shared.lock().ahead);
        let count = begun.len();
        begun.into_iter().for_each(anydnn_backend::Work::run);
        count
    }

    /// Commands that have not run.
    pub fn pending(&self) -> usize {
        self.shared.lock().schedule.pending()
    }

    /// Virtual nanoseconds since the device was made: one passes with each submission, and one for each element of an executed
    /// primitive's result or byte moved.
    pub fn now(&self) -> u64 {
        self.shared.lock().clock.now()
    }
}

impl Drop for MockDevice {
    fn drop(&mut self) {
        let leaks = self.leaks();
        if leaks.is_empty() || self.allow_leaks || std::thread::panicking() {
            return;
        }
        let (name, list) = (&self.shared.info.name, leaks.join("\n  "));
        panic!("{name} (seed {}) was dropped before what was made on it:\n  {list}", self.seed);
    }
}

/// A mock device to order.
///
/// ```
/// use anydnn_mock::{Faults, MockDevice, Point};
/// let device = MockDevice::builder()
///     .seed(3)
///     .label("no frills")
///     .capabilities(|c| c.out_of_order = false)
///     .faults(Faults::new().once(Point::Map, 2))
///     .build();
/// # let _ = device;
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct MockDeviceBuilder {
    seed: u64,
    label: String,
    capabilities: Capabilities,
    faults: Faults,
    races: RacePolicy,
    open_layouts: OpenLayouts,
    keeps_apart: bool,
    works_ahead: bool,
    allow_leaks: bool,
}

/// What a race does besides being kept in [`MockDevice::races`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RacePolicy {
    /// The later submission fails with [`Error::Invalid`](anydnn_backend::Error::Invalid) and nothing is enqueued.
    #[default]
    Error,
    /// The later command is enqueued, and the seed decides what the race does.
    Report,
}

/// How open layouts of primitives' operands are resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OpenLayouts {
    /// To row-major or column-major by the seed, so that code which does not ask
    /// [`Primitive::desc`](anydnn_backend::Primitive::desc) shows.
    #[default]
    Seeded,
    /// To row-major.
    RowMajor,
}

impl Default for MockDeviceBuilder {
    fn default() -> Self {
        let mut capabilities = Capabilities::default();
        capabilities.memory_kinds = MemoryKind::ALL.to_vec();
        // Everything that the reference implementations convert.
        capabilities.storage_types = DataType::ALL.to_vec();
        capabilities.out_of_order = true;
        capabilities.profiling = true;
        capabilities.compute_units = 1;
        capabilities.memory_bytes = 4 << 30;
        capabilities.max_allocation_bytes = 1 << 30;
        Self {
            seed: 0,
            label: "mock device".into(),
            capabilities,
            faults: Faults::new(),
            races: RacePolicy::default(),
            open_layouts: OpenLayouts::default(),
            keeps_apart: false,
            works_ahead: false,
            allow_leaks: false,
        }
    }
}

impl MockDeviceBuilder {
    /// With the seed of everything that may be one way or another.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// With the device's name in messages.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// With changed capabilities; asking for what is not there fails as it does on a real device.
    pub fn capabilities(mut self, change: impl FnOnce(&mut Capabilities)) -> Self {
        change(&mut self.capabilities);
        self
    }

    /// With faults.
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// With what a race does.
    pub fn races(mut self, policy: RacePolicy) -> Self {
        self.races = policy;
        self
    }

    /// With how open layouts are resolved.
    pub fn open_layouts(mut self, how: OpenLayouts) -> Self {
        self.open_layouts = how;
        self
    }

    /// Whether the allocator [keeps allocations apart](anydnn_backend::Allocator::keeps_apart): no by default.
    pub fn keeps_apart(mut self, apart: bool) -> Self {
        self.keeps_apart = apart;
        self
    }

    /// Takes work in the background, as devices do whose programs are compiled, and does it when
    /// [`MockDevice::work_ahead`] says so.
    pub fn works_ahead(mut self) -> Self {
        self.works_ahead = true;
        self
    }

    /// Without the check for leaks at drop.
    pub fn allow_leaks(mut self) -> Self {
        self.allow_leaks = true;
        self
    }

    /// The device.
    #[must_use = "the device is the guard that checks for leaks"]
    pub fn build(self) -> MockDevice {
        let info = DeviceInfo {
            backend: "mock".into(),
            platform: "mock".into(),
            name: self.label,
            vendor: "anydnn".into(),
            driver: env!("CARGO_PKG_VERSION").into(),
            kind: DeviceKind::Other,
        };
        let state = State::new(self.seed, FaultState::new(self.faults));
        let shared = Shared {
            engine: EngineId::unique(),
            info,
            capabilities: self.capabilities,
            races: self.races,
            open_layouts: self.open_layouts,
            keeps_apart: self.keeps_apart,
            works_ahead: self.works_ahead,
            state: Mutex::new(state),
        };
        MockDevice { shared: Arc::new(shared), seed: self.seed, allow_leaks: self.allow_leaks }
    }
}

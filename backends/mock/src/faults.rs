//! Faults that the device shows on purpose.

use std::collections::BTreeMap;

use anydnn_backend::{BuildFailure, DeviceFailure, Error, Result, Status};

/// A place where faults can happen; each is counted on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Point {
    /// `Engine::create_stream`.
    CreateStream,
    /// `Engine::create_memory`.
    CreateMemory,
    /// `Engine::create_primitive`.
    CreatePrimitive,
    /// Anything enqueued: execute, copy, write, read, marker.
    Submit,
    /// `Stream::execute`.
    Execute,
    /// `Stream::copy`.
    Copy,
    /// `Stream::write`.
    Write,
    /// `Stream::read`.
    Read,
    /// `Stream::marker`.
    Marker,
    /// `Stream::flush`.
    Flush,
    /// `Stream::wait`, `Stream::profile` and `Event::wait`.
    Wait,
    /// `Event::status`.
    Status,
    /// `Memory::map`.
    Map,
    /// `Allocator::allocate`.
    Allocate,
    /// `Allocator::free`.
    Free,
    /// Bytes taken from the device, by `create_memory` or by the allocator; fails as out of memory.
    Allocation,
    /// The running of a command, counted by its number of submission whatever order the seed picks. The enqueue succeeds; the event
    /// fails, and what depends on it reports [`Error::Dependency`].
    Execution,
}

/// Which faults happen when. Numbers count from one, from the creation of the device or from
/// [`MockDevice::inject`](crate::MockDevice::inject) on.
///
/// ```
/// use anydnn_backend::{Engine, Error, StreamDesc};
/// use anydnn_mock::{Faults, MockDevice, Point};
///
/// let faults = Faults::new().once(Point::CreateStream, 2).device_lost_from(4);
/// let engine = MockDevice::builder().faults(faults).build().engine();
/// let create = || engine.create_stream(&StreamDesc::default());
/// assert!(create().is_ok());
/// assert!(matches!(create(), Err(Error::Device(_))));
/// assert!(create().is_ok());
/// assert!(matches!(create(), Err(Error::DeviceLost(_))));
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Faults {
    calls: Vec<Fault>,
    builds: Vec<(String, String)>,
    lost_from: Option<u64>,
}

#[derive(Clone, Debug)]
struct Fault {
    point: Point,
    from: u64,
    persistent: bool,
    error: Option<Error>,
}

impl Faults {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// The `n`-th time at `point` fails, no other.
    pub fn once(self, point: Point, n: u64) -> Self {
        self.with(Fault { point, from: n, persistent: false, error: None })
    }

    /// The `n`-th time at `point` and every later one fails.
    pub fn persistently(self, point: Point, n: u64) -> Self {
        self.with(Fault { point, from: n, persistent: true, error: None })
    }

    /// The fault added last shows as `error`; without this it is a device failure, or out of memory for [`Point::Allocation`].
    pub fn showing(mut self, error: Error) -> Self {
        if let Some(fault) = self.calls.last_mut() {
            fault.error = Some(error);
        }
        self
    }

    /// Primitives with this label or operation name do not build; `log` is the build log.
    pub fn build_failure(mut self, name: impl Into<String>, log: impl Into<String>) -> Self {
        self.builds.push((name.into(), log.into()));
        self
    }

    /// The device is lost at the `n`-th call of any kind and stays lost.
    pub fn device_lost_from(mut self, n: u64) -> Self {
        self.lost_from = Some(n);
        self
    }

    fn with(mut self, fault: Fault) -> Self {
        self.calls.push(fault);
        self
    }
}

/// The plan together with its counts.
#[derive(Debug, Default)]
pub(crate) struct FaultState {
    plan: Faults,
    counts: BTreeMap<Point, u64>,
    totals: BTreeMap<Point, u64>,
    calls: u64,
    lost: bool,
}

impl FaultState {
    pub(crate) fn new(plan: Faults) -> Self {
        Self { plan, ..Self::default() }
    }

    pub(crate) fn inject(&mut self, plan: Faults) {
        self.plan = plan;
        self.counts.clear();
        self.calls = 0;
        self.lost = false;
    }

    pub(crate) fn total(&self, point: Point) -> u64 {
        self.totals.get(&point).copied().unwrap_or(0)
    }

    /// Counts a call and fails when it is to fail.
    pub(crate) fn call(&mut self, point: Point, operation: &str) -> Result<()> {
        self.calls += 1;
        self.lost |= self.plan.lost_from.is_some_and(|from| self.calls >= from);
        self.lost(operation)?;
        self.at(point, operation, device_failure)
    }

    /// Counts a call that was counted already as a submission too.
    pub(crate) fn submission(&mut self, operation: &str) -> Result<()> {
        self.at(Point::Submit, operation, device_failure)
    }

    /// Counts an allocation.
    pub(crate) fn allocation(&mut self, what: &str, bytes: usize) -> Result<()> {
        self.at(Point::Allocation, what, |what| Error::OutOfMemory { what: what.into(), bytes })
    }

    /// Counts a submission, which always succeeds, and returns how its execution is to fail.
    pub(crate) fn execution(&mut self, command: &str) -> Option<Error> {
        self.at(Point::Execution, command, device_failure).err()
    }

    /// Fails when a primitive's build is to fail.
    pub(crate) fn build(&self, label: Option<&str>, op: &str, device: &str) -> Result<()> {
        let Some((name, log)) =
            self.plan.builds.iter().find(|(name, _)| Some(&**name) == label || name == op)
        else {
            return Ok(());
        };
        Err(Error::Build(Box::new(BuildFailure {
            program: name.clone(),
            device: device.into(),
            call: "create_primitive".into(),
            code: INJECTED,
            log: log.clone(),
        })))
    }

    /// Fails when the device is lost.
    pub(crate) fn lost(&self, operation: &str) -> Result<()> {
        if self.lost {
            return Err(Error::DeviceLost(format!("{operation}: a fault was injected")));
        }
        Ok(())
    }

    fn at(&mut self, point: Point, what: &str, error: impl Fn(&str) -> Error) -> Result<()> {
        *self.totals.entry(point).or_default() += 1;
        let count = self.counts.entry(point).or_default();
        *count += 1;
        let hit = |fault: &&Fault| {
            fault.point == point && (fault.from == *count || fault.persistent && fault.from < *count)
        };
        match self.plan.calls.iter().find(hit) {
            Some(fault) => Err(fault.error.clone().unwrap_or_else(|| error(what))),
            None => Ok(()),
        }
    }
}

/// No driver returns this code.
const INJECTED: i32 = -7777;

fn device_failure(operation: &str) -> Error {
    Error::Device(Box::new(DeviceFailure {
        operation: operation.into(),
        call: "the mock device".into(),
        code: INJECTED,
        name: "INJECTED_FAULT".into(),
        status: Status::RuntimeError,
    }))
}

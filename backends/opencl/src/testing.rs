//! The engines that a test suite runs on.

use std::time::Duration;

use anydnn_backend::DeviceKind;
use anydnn_backend::conformance::Sample;

use crate::driver::availability::availability;
use crate::{DiskCache, OpenClEngine};

/// Makes out-of-order queues rest for another time before they are released where the driver lets go of them late, for tests that drop
/// thousands and look at what is left.
pub fn set_queues_rest(rest: Duration) {
    crate::queue::deferred_release::set_rest(rest);
}

/// An engine on every OpenCL device there is. Its programs are cached on disk only where `ANYDNN_CACHE_DIR` names a folder, so that no run
/// of the tests depends on another that it knows nothing of.
///
/// `ANYDNN_REQUIRE` lists backends whose absence must not go unnoticed: `opencl` (any device), `opencl:pocl` (a device of that
/// [alias](crate::OpenClDevice::alias)); entries of other backends are none of this function's business.
///
/// # Panics
/// When a required device is missing or an engine cannot be made, so that no test skips quietly.
pub fn test_engines() -> Vec<OpenClEngine> {
    let found = availability();
    let required = std::env::var("ANYDNN_REQUIRE").unwrap_or_default();
    let wanted = required.split(',').map(str::trim).filter_map(|entry| entry.strip_prefix("opencl"));
    for entry in wanted {
        let is_there = match entry.strip_prefix(':') {
            None => !found.devices.is_empty(),
            Some(alias) => found.devices.iter().any(|device| device.alias() == alias),
        };
        assert!(is_there, "ANYDNN_REQUIRE names opencl{entry}, which is missing: {}", found.reason());
    }
    let is_shared = std::env::var_os("ANYDNN_CACHE_DIR").is_some_and(|folder| !folder.is_empty());
    let disk = if is_shared { DiskCache::from_env() } else { DiskCache::off() };
    let engine = |device| match OpenClEngine::on_device(device) {
        Ok(engine) => engine.with_disk_cache(disk.clone()),
        Err(error) => panic!("no engine on {device}: {error}"),
    };
    found.devices.iter().map(engine).collect()
}

/// The engines of [`hasty_test_engines`] that the tests of a process share: what one of them has built, the others need not build again.
/// What compilers make of kernels when they optimise is conformance's and the sweeps' to see.
///
/// # Panics
/// As [`test_engines`].
pub fn shared_test_engines() -> Vec<OpenClEngine> {
    static ENGINES: std::sync::OnceLock<Vec<OpenClEngine>> = std::sync::OnceLock::new();
    ENGINES.get_or_init(hasty_test_engines).clone()
}

/// The [shared engines](shared_test_engines) that check something: all, or with `ANYDNN_SAMPLE` those that have it in their
/// [sample](Sample), by what it looks like.
///
/// # Panics
/// As [`test_engines`].
pub fn engines_for(what: &(impl ToString + ?Sized)) -> impl Iterator<Item = OpenClEngine> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    what.to_string().hash(&mut hasher);
    let (sample, number) = (Sample::from_env(), (hasher.finish() >> 32) as usize);
    let taken = move |(device, engine)| sample.takes(number, device).then_some(engine);
    shared_test_engines().into_iter().enumerate().filter_map(taken)
}

/// As [`test_engines`], for tests of many programs that run once each: they are built without optimisation, in a fraction of the time.
///
/// # Panics
/// As [`test_engines`].
pub fn hasty_test_engines() -> Vec<OpenClEngine> {
    test_engines().into_iter().map(OpenClEngine::building_hastily).collect()
}

/// Of [`hasty_test_engines`] those on devices with sub-groups, which compute by the kernels that GPUs with sub-groups get.
///
/// # Panics
/// As [`test_engines`], and when a device that is known to have sub-groups has none.
pub fn sub_group_test_engines() -> Vec<OpenClEngine> {
    let has_sub_groups = |engine: &OpenClEngine| {
        let has = engine.traits().sub_groups().is_some();
        assert!(
            has || engine.opencl_device().alias() != "intel",
            "{} has no sub-groups",
            engine.opencl_device()
        );
        has
    };
    let engines = hasty_test_engines().into_iter().filter(has_sub_groups);
    engines.map(|engine| engine.planning_for(DeviceKind::Gpu)).collect()
}

//! Processes that start before anybody asks for a program: they load their drivers while this process loads its own, and make their contexts
//! while it makes its engine and reads its model.

use std::path::Path;
use std::sync::Once;

use super::helper::Helper;
use super::{Pool, START, Start, begin, cores, lock, most, number, rest};
use crate::driver::platform::OpenClDevice;

/// How many start.
pub(super) const MOST: usize = 8;

/// What is there where NVIDIA's driver is.
const DRIVER: &str = "/dev/nvidiactl";

/// Whether this process may meet the driver that takes longest.
pub(super) fn has_slow_driver() -> bool {
    Path::new(DRIVER).exists()
}

/// Starts processes before this one loads its drivers.
pub(super) fn start_once() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let Some(first) = START.get() else { return };
        let count = MOST.min(cores() / 2);
        tracing::debug!(count, "processes that compile start");
        let mut pool = lock();
        start(&mut pool, first, count);
        rest(pool);
    });
}

/// Starts processes for a device that is chosen later.
pub(super) fn start(pool: &mut Pool, start: &Start, count: usize) {
    for _ in 0..count {
        match Helper::start(start, usize::MAX, "") {
            Ok(helper) => pool.early.push(Helper { is_early: true, ..helper }),
            Err(error) => {
                tracing::debug!(%error, "no process that compiles");
                break;
            }
        }
    }
}

/// Lets the processes that were started early make their contexts for a device, where others compile or launch for it.
pub(crate) fn expect_work(device: &OpenClDevice) {
    if START.get().is_none() || !(device.compiles_one_at_a_time() || device.compiles_for_binaries()) {
        return;
    }
    if let Some(index) = number(device) {
        assign(&mut lock(), index, device.name(), most(device));
    }
}

/// Gives so many of the processes a device; the others end without one.
pub(super) fn assign(pool: &mut Pool, device: usize, name: &str, count: usize) {
    let count = count.min(pool.early.len());
    for helper in pool.early.drain(..count).collect::<Vec<_>>() {
        begin(pool, Helper { device, name: name.into(), ..helper });
    }
}

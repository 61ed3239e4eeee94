//! Waiting without burning a core.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use anydnn_backend::DeviceKind;
use cl3::event as cl;
use cl3::types::{cl_event, cl_int};

use crate::driver::call::{Returned, Scalar};
use crate::queue::affinity;

/// How to wait for a device's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitMethod {
    /// The driver's wait makes the thread work on the commands itself, or sleep: so it is on processors. It may spin before a user
    /// event all the same.
    Driver,
    /// The driver's wait sleeps until the device's own threads have done everything, and waking takes longer than a small network: short
    /// waits look, and leave the core to others in between, before the driver's. So it is with PoCL.
    Yield,
    /// The driver's wait spins, so the thread sleeps and looks until the command has ended. Drivers of graphics processors do.
    Poll,
}

impl WaitMethod {
    /// The one that suits a kind of device and a platform, by its alias.
    pub(crate) fn with(kind: DeviceKind, platform: &str) -> Self {
        match kind {
            DeviceKind::Cpu if platform == "pocl" => Self::Yield,
            DeviceKind::Cpu => Self::Driver,
            _ => Self::Poll,
        }
    }

    /// Calls the driver's wait.
    pub(crate) fn wait<T>(self, wait: impl FnOnce() -> T) -> T {
        match self {
            Self::Driver | Self::Yield => affinity::watch(wait),
            Self::Poll => wait(),
        }
    }
}

/// Commands that end within this time are looked at all the time: going to sleep takes longer.
const SPIN: Duration = Duration::from_micros(50);
/// The same where a thread's waits of late were so long: waking late would cost a good part of them. Longer ones are slept through.
const SHORT: Duration = Duration::from_millis(1);
/// Waits up to which looking is worth the core: longer ones are the device's, whose threads need it.
const BRIEF: Duration = Duration::from_micros(200);
/// The shortest and longest sleeps.
const SLEEP: (Duration, Duration) = (Duration::from_micros(20), Duration::from_micros(250));
/// The sleep is this part of the time waited so far, so that waking late costs little in proportion.
const PART: u32 = 64;

thread_local! {
    /// The longest of this thread's short waits of late, fading.
    static USUAL: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Sleeps until an event has ended, however it ended, or until its status cannot be told. This does not synchronise: the driver's
/// wait has to follow.
pub(crate) fn sleep_until_ended(event: cl_event) {
    let start = Instant::now();
    let usual = USUAL.get();
    let spin = usual.saturating_mul(2).clamp(SPIN, SHORT);
    let mut waited = Duration::ZERO;
    while matches!(status(event), Ok(code) if code > 0) {
        waited = start.elapsed();
        if waited < spin {
            std::hint::spin_loop();
        } else {
            thread::sleep((waited / PART).clamp(SLEEP.0, SLEEP.1));
        }
    }
    USUAL.set(faded(usual, waited));
}

/// Looks at an event that may end in a moment, and lets other threads run in between: where this thread's waits of late were short, or nothing
/// is known of them. The driver's wait has to follow.
pub(crate) fn yield_until_ended(event: cl_event) -> Returned<()> {
    let usual = USUAL.get();
    let limit = if usual > BRIEF { Duration::ZERO } else { usual.saturating_mul(2).max(SPIN) };
    let start = Instant::now();
    while start.elapsed() < limit && status(event)? > 0 {
        thread::yield_now();
    }
    Ok(())
}

/// Notes how long a wait was that began at some time.
pub(crate) fn note_wait(start: Instant) {
    USUAL.set(faded(USUAL.get(), start.elapsed()));
}

/// What is usual after one more wait.
fn faded(usual: Duration, waited: Duration) -> Duration {
    let less = usual * 7 / 8;
    if waited <= SHORT { less.max(waited) } else { less }
}

fn status(event: cl_event) -> Returned<cl_int> {
    let bytes = cl::get_event_data(event, cl::CL_EVENT_COMMAND_EXECUTION_STATUS)?;
    cl_int::from_bytes(&bytes).ok_or(cl3::error_codes::CL_INVALID_VALUE)
}

#[cfg(test)]
mod tests {
    use anydnn_backend::{Engine, Event, Order, Stream, StreamDesc};

    use super::*;
    use crate::backend::event::OpenClEvent;
    use crate::testing::test_engines;
    use crate::{OpenClEngine, OpenClStream};

    /// Processor time of the calling thread.
    fn thread_time() -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid for the call to fill in.
        assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// What `wait` costs the calling thread while a user event holds a stream's command for a quarter of a second.
    fn cost(engine: &OpenClEngine, order: Order, wait: impl Fn(&OpenClStream, &OpenClEvent)) -> Duration {
        const HELD: Duration = Duration::from_millis(250);
        let raw = cl3::event::create_user_event(engine.raw_context()).unwrap();
        // SAFETY: the event was just made.
        let gate = unsafe { OpenClEvent::from_raw(engine, raw) }.unwrap();
        let stream = engine.create_stream(&StreamDesc { order, ..StreamDesc::default() }).unwrap();
        let held = stream.marker(&[gate]).unwrap();
        let held = stream.marker(&[held]).unwrap();
        let address = raw.expose_provenance();
        let spent = std::thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(HELD);
                let raw = std::ptr::with_exposed_provenance_mut(address);
                cl::set_user_event_status(raw, cl::CL_COMPLETE).unwrap();
            });
            let (before, start) = (thread_time(), Instant::now());
            wait(&stream, &held);
            assert!(start.elapsed() > HELD / 2, "the wait returned early");
            thread_time().saturating_sub(before)
        });
        // SAFETY: the reference of this function.
        unsafe { cl::release_event(raw) }.unwrap();
        spent
    }

    #[test]
    fn short_waits_are_usual_until_they_stop() {
        let after = |waits: &[u64]| {
            waits
                .iter()
                .fold(Duration::ZERO, |usual, &us| faded(usual, Duration::from_micros(us)))
                .as_micros()
        };
        assert_eq!(after(&[600, 20, 600, 20]), 525);
        assert_eq!(after(&[5000, 30, 5000]), 26);
        assert_eq!(after(&[[800; 1].as_slice(), &[10; 50]].concat()), 10);
    }

    #[test]
    fn waiting_leaves_the_core_to_others() {
        for engine in test_engines() {
            for engine in [&engine, &engine.with_wait_method(WaitMethod::Poll)] {
                for order in [Order::InOrder, Order::OutOfOrder] {
                    let limit = Duration::from_millis(40);
                    // Runtimes for processors let a thread that waits compute what other tests have enqueued: one of three waits is
                    // without that. A wait that spins never is below the limit.
                    let rests = |wait: &dyn Fn(&OpenClStream, &OpenClEvent)| {
                        (0..3).any(|_| cost(engine, order, wait) < limit)
                    };
                    assert!(rests(&|_, held| held.wait().unwrap()), "{engine:?}, {order:?}: event");
                    assert!(rests(&|stream, _| stream.wait().unwrap()), "{engine:?}, {order:?}: stream");
                }
            }
        }
    }

    #[test]
    fn polling_streams_report_results_and_failures() {
        for engine in test_engines() {
            let engine = engine.with_wait_method(WaitMethod::Poll);
            for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
                let stream = engine.create_stream(&desc).unwrap();
                stream.wait().unwrap();
                let raw = cl3::event::create_user_event(engine.raw_context()).unwrap();
                // SAFETY: the event was just made.
                let gate = unsafe { OpenClEvent::from_raw(&engine, raw) }.unwrap();
                let held = stream.marker(&[gate]).unwrap();
                cl::set_user_event_status(raw, -7).unwrap();
                assert!(held.wait().is_err() && stream.wait().is_err());
                stream.marker(&[]).unwrap().wait().unwrap();
                stream.wait().unwrap();
                // SAFETY: the reference of this function.
                unsafe { cl::release_event(raw) }.unwrap();
            }
        }
    }
}

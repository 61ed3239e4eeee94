//! Partitions compiled and executed one by one, on every backend.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod caches;
mod common;
mod dumps;
mod errors;
mod execution;
mod layouts;
mod recordings;
mod rules;

/// Runs checks, generic over the engine, on the host, the mock device and every OpenCL device.
macro_rules! everywhere {
    ($($check:ident),* $(,)?) => {$(
        mod $check {
            #[cfg(feature = "host")]
            #[test]
            fn on_the_host() {
                super::$check(&anydnn_host::HostEngine::new());
            }

            #[test]
            fn on_the_mock() {
                super::$check(&anydnn_mock::MockDevice::new(3).engine());
            }

            #[cfg(feature = "opencl")]
            #[test]
            fn on_every_opencl_device() {
                anydnn_opencl::testing::hasty_test_engines().iter().for_each(super::$check);
            }
        }
    )*};
}

pub(crate) use everywhere;

//! The first question for devices in a process, asked by many threads at once.

use std::sync::Barrier;

use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{OpenClDevice, devices};

#[test]
fn threads_that_ask_first_at_once_see_the_same_devices() {
    let start = Barrier::new(16);
    let names = || {
        start.wait();
        devices().unwrap().iter().map(OpenClDevice::to_string).collect::<Vec<_>>()
    };
    let seen: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(names)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let known: Vec<_> = test_engines().iter().map(|engine| engine.opencl_device().to_string()).collect();
    for names in seen {
        assert_eq!(names, known);
    }
}

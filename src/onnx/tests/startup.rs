//! The first answers of a session: the host's, until the device has made its first execution.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anydnn_backend::{Error, Memory, Stream, StreamDesc};
use anydnn_mock::{Faults, MockDevice, Point};

use super::*;
use crate::onnx::{Cancel, Precision, SessionOptions, Startup};

fn sum() -> Model {
    let draft = Draft::new(13).input("x", &["n", "2"]).floats("w", &[2], &[1.0, -4.0]);
    draft.node("s = Add(x, w)", vec![]).node("r = Relu(s)", vec![]).output("r").load().unwrap()
}

fn ones(n: usize) -> [(&'static str, HostTensor); 1] {
    [("x", tensor([n, 2], &vec![1.0; 2 * n]))]
}

fn expected(n: usize) -> Vec<(String, HostTensor)> {
    vec![("r".into(), tensor([n, 2], &[2.0, 0.0].repeat(n)).labelled("r"))]
}

fn on_host() -> SessionOptions {
    SessionOptions { startup: Some(Startup::Host), ..SessionOptions::default() }
}

#[test]
fn the_host_answers_until_the_device_has_executed() {
    let device = MockDevice::builder().works_ahead().build();
    let session = sum().compile_with(&device.engine(), &[("n", 1)], &on_host()).unwrap();
    let made = || (device.calls(Point::CreatePrimitive) > 0, device.calls(Point::Execute) > 0);
    assert!(session.is_starting());
    assert_eq!(made(), (false, false));
    assert_eq!(session.run(&ones(1)).unwrap(), expected(1));
    assert_eq!(made(), (false, false));
    // Other shapes are the host's, too, and begin nothing more: the plan and one execution.
    assert_eq!(session.run(&ones(3)).unwrap(), expected(3));
    assert_eq!(device.work_ahead(), 2);
    assert_eq!(made(), (true, true));
    assert!(!session.is_starting());
    let before = device.calls(Point::Execute);
    assert_eq!(session.run(&ones(1)).unwrap(), expected(1));
    assert!(device.calls(Point::Execute) > before);
}

#[test]
fn the_device_answers_alone_where_that_is_asked_for() {
    for (works_ahead, startup) in [(true, Startup::Device), (false, Startup::Host)] {
        let device = MockDevice::builder();
        let device = if works_ahead { device.works_ahead() } else { device }.build();
        let options = SessionOptions { startup: Some(startup), ..SessionOptions::default() };
        let session = sum().compile_with(&device.engine(), &[("n", 1)], &options).unwrap();
        assert!(!session.is_starting() && device.calls(Point::CreatePrimitive) > 0);
        assert_eq!(session.run(&ones(1)).unwrap(), expected(1));
        assert!(device.calls(Point::Execute) > 0);
        assert_eq!(device.work_ahead(), 0);
    }
}

#[test]
fn the_host_computes_in_the_models_own_types() {
    let device = MockDevice::builder().works_ahead().build();
    let options = SessionOptions { precision: Precision::BF16, ..on_host() };
    let session = sum().compile_with(&device.engine(), &[("n", 1)], &options).unwrap();
    let x = [("x", tensor([1, 2], &[1.001, 9.0]))];
    assert_eq!(session.run(&x).unwrap()[0].1, tensor([1, 2], &[2.001, 5.0]).labelled("r"));
    device.work_ahead();
    assert_eq!(session.run(&x).unwrap()[0].1, tensor([1, 2], &[2.0, 5.0]).labelled("r"));
}

#[test]
fn what_runs_on_the_devices_memory_waits_for_the_device() {
    let device = MockDevice::builder().works_ahead().build();
    let session = sum().compile_with(&device.engine(), &[], &on_host()).unwrap();
    let stream = device.engine().create_stream(&StreamDesc::default()).unwrap();
    let [(name, x)] = ones(2);
    let memory = device.engine().create_memory(x.desc(), device.engine().memory_kinds()[0]).unwrap();
    stream.write(&memory, 0, x.bytes(), &[]).unwrap();
    let (outputs, event) = session.run_on(&stream, &[(name, memory)], &[]).unwrap();
    let mut bytes = vec![0; outputs[0].1.desc().size()];
    stream.read(&outputs[0].1, 0, &mut bytes, &[event]).unwrap();
    assert_eq!(bytes, expected(2)[0].1.bytes());
    device.work_ahead();
}

#[test]
fn warming_up_and_waiting_end_the_hosts_part() {
    let device = MockDevice::builder().works_ahead().build();
    let session = sum().compile_with(&device.engine(), &[], &on_host()).unwrap();
    session.warm_up(&[("n", 2)]).unwrap();
    assert!(!session.is_starting() && device.calls(Point::Execute) > 0);

    let session = sum().compile_with(&device.engine(), &[], &on_host()).unwrap();
    session.wait_for_device();
    let before = device.calls(Point::Execute);
    assert_eq!(session.run(&ones(1)).unwrap(), expected(1));
    assert!(device.calls(Point::Execute) > before);

    // With an execution on its way it is that one's end that is waited for.
    let session = sum().compile_with(&device.engine(), &[], &on_host()).unwrap();
    session.run(&ones(1)).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| session.wait_for_device());
        assert!(session.is_starting());
        device.work_ahead();
        waiting.join().unwrap();
    });
    assert!(!session.is_starting());
}

#[test]
fn what_is_wrong_is_told_at_once_and_begins_nothing() {
    let device = MockDevice::builder().works_ahead().build();
    let session = sum().compile_with(&device.engine(), &[("n", 1)], &on_host()).unwrap();
    device.work_ahead();
    let wrong = [("x", tensor([1, 3], &[0.0; 3]))];
    assert!(matches!(session.run(&wrong).unwrap_err().root(), Error::Invalid { .. }));
    let cancel = Cancel::new();
    cancel.cancel();
    assert_eq!(device.work_ahead(), 0);
    assert!(matches!(session.run_until(&ones(1), &cancel).unwrap_err(), Error::Cancelled { .. }));
    assert!(session.is_starting());
    assert_eq!(session.run(&ones(1)).unwrap(), expected(1));
    device.work_ahead();
}

#[test]
fn a_device_that_fails_is_told_by_the_execution_behind_it() {
    let device = MockDevice::builder().works_ahead().faults(Faults::new().once(Point::Execute, 1)).build();
    let session = sum().compile_with(&device.engine(), &[("n", 1)], &on_host()).unwrap();
    assert_eq!(session.run(&ones(1)).unwrap(), expected(1));
    device.work_ahead();
    assert!(!session.is_starting());
    // The fault was due once.
    assert_eq!(session.run(&ones(1)).unwrap(), expected(1));

    device.inject(Faults::new().device_lost_from(1));
    let session = sum().compile_with(&device.engine(), &[("n", 1)], &on_host()).unwrap();
    assert_eq!(session.run(&ones(1)).unwrap(), expected(1));
    device.work_ahead();
    assert!(session.run(&ones(1)).is_err());
    device.inject(Faults::new());
    assert_eq!(session.run(&ones(1)).unwrap(), expected(1));
}

#[test]
fn nobody_waits_for_a_device_whose_first_execution_panicked() {
    let device = MockDevice::builder().works_ahead().build();
    let is_done = Arc::new(AtomicBool::new(false));
    let once = Arc::clone(&is_done);
    let progress = move |_, _| assert!(once.swap(true, Ordering::Relaxed), "on purpose");
    let options = SessionOptions { progress: Some(Arc::new(progress)), ..on_host() };
    let session = sum().compile_with(&device.engine(), &[], &options).unwrap();
    assert_eq!(session.run(&ones(1)).unwrap(), expected(1));
    assert!(session.is_starting());
    assert!(
        catch_unwind(AssertUnwindSafe(|| device.work_ahead())).is_err() && is_done.load(Ordering::Relaxed)
    );
    assert!(!session.is_starting());
    assert_eq!(session.run(&ones(1)).unwrap(), expected(1));
    assert!(device.calls(Point::Execute) > 0);
}

#[test]
fn devices_that_compile_take_over_while_threads_ask() {
    for engine in anydnn_opencl::testing::test_engines() {
        let session = sum().compile_with(&engine, &[("n", 4)], &on_host()).unwrap();
        std::thread::scope(|scope| {
            for n in 1..4 {
                let session = session.clone();
                scope.spawn(move || {
                    for _ in 0..20 {
                        assert_eq!(session.run(&ones(n)).unwrap(), expected(n));
                    }
                });
            }
        });
        session.wait_for_device();
        assert!(!session.is_starting());
        assert_eq!(session.run(&ones(4)).unwrap(), expected(4));
        assert!(session.describe().iter().any(|stage| stage.device.is_some()));
    }
}

//! Every kind of fault, and what depends on failed work.

mod common;

use anydnn_backend::{
    Engine, Error, Event, EventStatus, MapMode, Memory, MemoryKind, Range, Stream, StreamDesc,
};
use anydnn_mock::{Faults, MockDevice, Point, RacePolicy, is_poison};
use common::{Setup, floats};

fn with(faults: Faults) -> MockDevice {
    MockDevice::builder().seed(4).faults(faults).build()
}

#[test]
fn every_call_can_fail_once() {
    let device = MockDevice::new(4);
    let s = Setup::in_order(&device);
    let (a, b) = (s.memory(), s.memory());
    let linear = s.linear(1.0, 0.0);
    let allocator = s.engine.allocator();
    let block = allocator.allocate(16, 1).unwrap();
    let event = s.stream.marker(&[]).unwrap();
    let range = |memory: &anydnn_mock::MockMemory| Range { memory: memory.clone(), offset: 0, bytes: 16 };
    s.write(&a, [0.0; 4]);
    s.stream.wait().unwrap();
    let call = |point: Point| -> Result<(), Error> {
        match point {
            Point::CreateStream => s.engine.create_stream(&StreamDesc::default()).map(drop),
            Point::CreateMemory => s.engine.create_memory(&floats(), MemoryKind::Buffer).map(drop),
            Point::CreatePrimitive => {
                s.engine.create_primitive(anydnn_backend::Primitive::desc(&linear)).map(drop)
            }
            Point::Execute => s.unary(&linear, &a, &b, &[]).map(drop),
            Point::Copy => s.stream.copy(range(&a), range(&b), &[]).map(drop),
            Point::Write => s.stream.write(&a, 0, &[0; 16], &[]).map(drop),
            Point::Read => s.stream.read(&a, 0, &mut [0; 16], &[]),
            Point::Submit | Point::Marker => s.stream.marker(&[]).map(drop),
            Point::Flush => s.stream.flush(),
            Point::Wait => event.wait().and_then(|()| s.stream.wait()),
            Point::Status => event.status().map(drop),
            Point::Map => s.memory().map(MapMode::Read).map(drop),
            Point::Allocate => allocator.allocate(16, 1).and_then(|m| allocator.free(m, None)),
            Point::Free => allocator.free(block.clone(), None),
            point => unreachable!("{point:?}"),
        }
    };
    for point in [
        Point::CreateStream,
        Point::CreateMemory,
        Point::CreatePrimitive,
        Point::Submit,
        Point::Execute,
        Point::Copy,
        Point::Write,
        Point::Read,
        Point::Marker,
        Point::Flush,
        Point::Wait,
        Point::Status,
        Point::Map,
        Point::Allocate,
        Point::Free,
    ] {
        let before = device.calls(point);
        device.inject(Faults::new().once(point, 1));
        let error = call(point).expect_err(&format!("{point:?}"));
        assert!(matches!(error, Error::Device(_)), "{point:?}: {error}");
        call(point).unwrap_or_else(|error| panic!("{point:?} fails twice: {error}"));
        s.stream.wait().unwrap();
        assert!(device.calls(point) > before + 1);
    }
}

#[test]
fn persistent_faults_stay_and_errors_can_be_chosen() {
    let device = with(
        Faults::new()
            .persistently(Point::Flush, 2)
            .once(Point::Marker, 1)
            .showing(Error::unsupported("marker", "a bad day")),
    );
    let s = Setup::in_order(&device);
    assert!(s.stream.flush().is_ok());
    assert!(s.stream.flush().is_err() && s.stream.flush().is_err());
    assert_eq!(s.stream.marker(&[]).unwrap_err().to_string(), "marker: not supported: a bad day");
    assert!(s.stream.marker(&[]).is_ok());
}

#[test]
fn the_nth_allocation_is_out_of_memory() {
    let device = with(Faults::new().once(Point::Allocation, 2));
    let engine = device.engine();
    let _first = engine.create_memory(&floats(), MemoryKind::Buffer).unwrap();
    let error = engine.allocator().allocate(100, 1).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { bytes: 100, .. }), "{error}");
    let again = engine.allocator().allocate(100, 1).unwrap();
    engine.allocator().free(again, None).unwrap();
}

#[test]
fn a_build_failure_has_its_log() {
    let device = with(Faults::new().build_failure("linear", "kernel.cl:1: out of registers"));
    let s = Setup::in_order(&device);
    let _other = s.add();
    let linear = MockDevice::builder().allow_leaks().build();
    let desc = anydnn_backend::Primitive::desc(&Setup::in_order(&linear).linear(1.0, 0.0)).clone();
    let Err(Error::Build(failure)) = s.engine.create_primitive(&desc) else { panic!() };
    assert_eq!((&*failure.program, &*failure.log), ("linear", "kernel.cl:1: out of registers"));
}

#[test]
fn dependants_of_a_failed_execution_do_not_run_and_name_it() {
    for seed in 0..30 {
        let device = MockDevice::builder().seed(seed).faults(Faults::new().once(Point::Execution, 2)).build();
        let s = Setup::out_of_order(&device);
        let [a, b, c, d] = [s.memory(), s.memory(), s.memory(), s.memory()];
        let written = s.write(&a, [1.0; 4]);
        let copy = s.linear(1.0, 0.0);
        let failed = s.unary(&copy, &a, &b, std::slice::from_ref(&written)).unwrap();
        let second = s.unary(&copy, &b, &c, std::slice::from_ref(&failed)).unwrap();
        let third = s.unary(&s.add(), &c, &d, &[]).err();
        assert!(third.is_some());
        let third = s.binary(&s.add(), [&b, &c], &d, &[second.clone(), failed.clone()]).unwrap();
        let Err(Error::Dependency { operation, cause }) = third.wait() else { panic!("seed {seed}") };
        assert_eq!(operation, "#4 binary");
        assert!(cause.starts_with("#2 linear: ") && cause.contains("INJECTED_FAULT"), "{cause}");
        assert!(matches!(failed.wait(), Err(Error::Device(_))));
        assert!(matches!(second.wait(), Err(Error::Dependency { .. })));
        assert_eq!(second.status().unwrap(), EventStatus::Failed);
        assert!(written.wait().is_ok());
        assert!(matches!(s.stream.wait(), Err(Error::Device(_))), "the first failure");
        assert!(s.stream.wait().is_ok(), "told once");
        assert!(!device.log().contains("run #3"));
        assert!(is_poison(d.map(MapMode::Read).unwrap().bytes()), "results of failed work are void");
    }
}

#[test]
fn an_in_order_stream_recovers_after_the_wait() {
    let device = with(Faults::new().once(Point::Execution, 1));
    let s = Setup::in_order(&device);
    let a = s.memory();
    s.write(&a, [1.0; 4]);
    let marker = s.stream.marker(&[]).unwrap();
    assert!(matches!(marker.wait(), Err(Error::Dependency { .. })));
    s.write(&a, [2.0; 4]);
    assert_eq!(s.read(&a, &[]).unwrap(), [2.0; 4]);
}

#[test]
fn a_failed_user_event_is_a_failed_dependency() {
    let device = MockDevice::new(0);
    let s = Setup::out_of_order(&device);
    let gate = device.user_event();
    let held = s.stream.marker(&[gate.event()]).unwrap();
    gate.set_failed(Error::unavailable("camera", "unplugged")).unwrap();
    let error = held.wait().unwrap_err().to_string();
    assert_eq!(error, "#1 marker: a dependency failed: user event u0: camera is not available: unplugged");
}

#[test]
fn a_lost_device_stays_lost_until_the_faults_are_taken_away() {
    let device = with(Faults::new().device_lost_from(4));
    let s = Setup::in_order(&device);
    let a = s.memory();
    let written = s.write(&a, [1.0; 4]);
    for _ in 0..2 {
        assert!(matches!(written.wait(), Err(Error::DeviceLost(_))));
        assert!(matches!(s.stream.marker(&[]), Err(Error::DeviceLost(_))));
        assert!(matches!(a.map(MapMode::Read), Err(Error::DeviceLost(_))));
    }
    device.inject(Faults::new());
    written.wait().unwrap();
}

#[test]
fn failed_work_spoils_what_was_there() {
    let device = MockDevice::builder()
        .races(RacePolicy::Error)
        .faults(Faults::new().once(Point::Execution, 2))
        .build();
    let s = Setup::in_order(&device);
    let a = s.memory();
    s.write(&a, [1.0; 4]).wait().unwrap();
    assert!(s.write(&a, [2.0; 4]).wait().is_err());
    assert!(is_poison(a.map(MapMode::Read).unwrap().bytes()));
}

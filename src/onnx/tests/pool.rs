//! Pools of sessions: order, failures, devices that are lost.

use anydnn_backend::Error;
use anydnn_mock::{Faults, MockDevice};

use super::*;
use crate::onnx::{Named, SessionOptions, SessionPool};
use crate::select::AnyEngine;

fn doubled() -> Model {
    let draft = Draft::new(13).input("x", &["n"]).node("y = Add(x, x)", vec![]);
    draft.output("y").load().unwrap()
}

fn inputs(count: usize) -> Vec<Named> {
    let values = |i: usize| vec![i as f32; 1 + i % 3];
    (0..count).map(|i| vec![("x".to_owned(), tensor([1 + i % 3], &values(i)))]).collect()
}

fn mock(faults: Faults) -> AnyEngine {
    MockDevice::builder().faults(faults).build().engine().into()
}

/// The devices of every backend that there is.
fn engines() -> Vec<AnyEngine> {
    let opencl = anydnn_opencl::testing::hasty_test_engines().into_iter().map(AnyEngine::from);
    opencl.chain([anydnn_host::HostEngine::new().into(), mock(Faults::new())]).collect()
}

#[test]
fn results_come_in_the_order_of_inputs_from_all_devices() {
    let pool = SessionPool::new(&doubled(), &engines(), &SessionOptions::default()).unwrap();
    let mut told = Vec::new();
    let is_idle = || pool.sessions().iter().any(|session| session.describe().is_empty());
    // There is more to do until every device has done something, however late its thread begins.
    let start = std::time::Instant::now();
    let input = |number: usize| {
        let goes_on = number < 60 || (is_idle() && start.elapsed().as_secs() < 60);
        std::thread::sleep(std::time::Duration::from_millis(1));
        goes_on
            .then(|| vec![("x".to_owned(), tensor([1 + number % 3], &vec![number as f32; 1 + number % 3]))])
    };
    pool.each((0..).map_while(input), |number, result| {
        let own = result.unwrap().remove(0);
        let expected = tensor([1 + number % 3], &vec![2.0 * number as f32; 1 + number % 3]).labelled("y");
        assert_eq!(own, ("y".to_owned(), expected));
        told.push(number);
    });
    assert!(told.len() >= 60);
    assert_eq!(told, (0..told.len()).collect::<Vec<_>>());
    assert!(!is_idle(), "a device had nothing to do");
    assert!(pool.run(Vec::new()).is_empty());
}

#[test]
fn a_wrong_input_fails_alone() {
    let pool = SessionPool::new(&doubled(), &engines(), &SessionOptions::default()).unwrap();
    let mut inputs = inputs(9);
    inputs[4] = vec![("x".to_owned(), tensor([1, 1], &[0.0]))];
    for (number, result) in pool.run(inputs).into_iter().enumerate() {
        assert_eq!(result.is_err(), number == 4, "{result:?}");
    }
}

#[test]
fn others_take_what_a_lost_device_had() {
    let engines = [mock(Faults::new().device_lost_from(40)), mock(Faults::new())];
    let pool = SessionPool::new(&doubled(), &engines, &SessionOptions::default()).unwrap();
    let made = pool.run(inputs(200));
    assert_eq!(made.len(), 200);
    for (number, result) in made.into_iter().enumerate() {
        let expected = tensor([1 + number % 3], &vec![2.0 * number as f32; 1 + number % 3]).labelled("y");
        assert_eq!(result.unwrap()[0].1, expected);
    }
}

#[test]
fn without_a_device_each_input_fails() {
    let engines = [mock(Faults::new().device_lost_from(60))];
    let pool = SessionPool::new(&doubled(), &engines, &SessionOptions::default()).unwrap();
    let made = pool.run(inputs(200));
    let lost = made.iter().filter(|made| matches!(made, Err(Error::DeviceLost(_)))).count();
    assert!(made.len() == 200 && lost > 0 && lost < 200, "{lost} of {}", made.len());
    let first = made.iter().position(Result::is_err).unwrap();
    assert!(made[first + 8..].iter().all(Result::is_err));
    assert!(SessionPool::<crate::select::AnyBackend>::of(Vec::new()).is_err());
}

#[test]
fn inputs_are_taken_when_there_is_room() {
    let engines = [mock(Faults::new())];
    let pool = SessionPool::new(&doubled(), &engines, &SessionOptions::default()).unwrap();
    let taken = std::sync::atomic::AtomicUsize::new(0);
    let counted = inputs(100).into_iter().inspect(|_| {
        taken.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    pool.each(counted, |number, _| {
        let ahead = taken.load(std::sync::atomic::Ordering::Relaxed) - number;
        assert!(ahead <= 9, "{ahead} were taken before they were needed");
    });
}

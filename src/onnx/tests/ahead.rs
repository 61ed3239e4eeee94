//! Plans that a session makes ahead, where its shapes go on by the same step.

use std::sync::atomic::{AtomicBool, Ordering};

use anydnn_mock::{Mock, MockDevice, MockDeviceBuilder, Point};

use super::*;
use crate::onnx::{Session, SessionOptions, Startup};

/// Keys `[n, 2]` with one more behind them, and their sums with a row.
fn growing() -> Model {
    let draft =
        Draft::new(13).input("keys", &["n", "2"]).input("next", &["1", "2"]).floats("w", &[2], &[1.0, -4.0]);
    let draft = draft.node("all = Concat(keys, next)", vec![int("axis", 0)]).node("s = Add(all, w)", vec![]);
    draft.output("s").load().unwrap()
}

fn options(plans_ahead: usize) -> SessionOptions {
    SessionOptions {
        startup: Some(Startup::Device),
        plans_ahead: Some(plans_ahead),
        ..SessionOptions::default()
    }
}

fn device() -> MockDeviceBuilder {
    MockDevice::builder().works_ahead()
}

/// Runs the model on so many keys, one after the other, and checks its results.
fn run(session: &Session<Mock>, counts: impl IntoIterator<Item = usize>) {
    for n in counts {
        let keys: Vec<f32> = (0..2 * n).map(|i| i as f32).collect();
        let inputs = [("keys", tensor([n, 2], &keys)), ("next", tensor([1, 2], &[7.0, 9.0]))];
        let all = keys.iter().chain(&[7.0, 9.0]);
        let sums: Vec<f32> = all.zip([1.0, -4.0].iter().cycle()).map(|(x, w)| x + w).collect();
        let expected = [("s".to_owned(), tensor([n + 1, 2], &sums).labelled("s"))];
        assert_eq!(session.run(&inputs).unwrap(), expected);
    }
}

/// The numbers of keys that there are plans for, in the order in which they were made.
fn planned(session: &Session<Mock>) -> Vec<usize> {
    session.memory().plans.iter().map(|plan| plan.dims[0].1).collect()
}

#[test]
fn shapes_that_go_on_by_the_same_step_find_their_plans() {
    let device = device().build();
    let session = growing().compile_with(&device.engine(), &[], &options(2)).unwrap();
    run(&session, [3, 5]);
    assert_eq!(device.work_ahead(), 0, "one step is no course");
    // The same shapes once more are no step.
    run(&session, [5, 7, 7]);
    assert_eq!(device.work_ahead(), 2);
    assert_eq!(planned(&session), [3, 5, 7, 9, 11]);
    let created = device.calls(Point::CreatePrimitive);
    run(&session, [9]);
    assert_eq!(device.calls(Point::CreatePrimitive), created);
    assert_eq!(device.work_ahead(), 1, "the plan for 11 is there");
    assert_eq!(planned(&session), [3, 5, 7, 11, 9, 13]);
}

#[test]
fn shapes_that_go_back_are_foreseen_until_they_vanish() {
    let device = device().build();
    let session = growing().compile_with(&device.engine(), &[], &options(4)).unwrap();
    run(&session, [8, 6, 4]);
    assert_eq!(device.work_ahead(), 1);
    assert_eq!(planned(&session), [8, 6, 4, 2]);
}

#[test]
fn what_nobody_has_begun_is_planned_by_who_needs_it() {
    let device = device().build();
    let session = growing().compile_with(&device.engine(), &[], &options(2)).unwrap();
    run(&session, [1, 2, 3, 4, 5]);
    // Those of 4 and 5 are there; 6 and 7 are made.
    assert_eq!(device.work_ahead(), 4);
    assert_eq!(planned(&session), [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn nothing_is_planned_ahead_where_steps_differ_or_nobody_wants_it() {
    let few = SessionOptions { plans: 1, ..options(2) };
    let cases: [(SessionOptions, &[usize]); 4] = [
        (options(2), &[1, 2, 4, 5, 7, 4, 2, 9]),
        (options(0), &[1, 2, 3, 4]),
        (few, &[1, 2, 3, 4]),
        (options(2), &[5, 5, 5, 5]),
    ];
    for (options, lengths) in cases {
        let device = device().build();
        let session = growing().compile_with(&device.engine(), &[], &options).unwrap();
        run(&session, lengths.iter().copied());
        assert_eq!(device.work_ahead(), 0, "{lengths:?} with {options:?}");
    }
}

#[test]
fn executions_and_plans_ahead_do_not_get_in_each_others_way() {
    let device = device().build();
    let session = growing().compile_with(&device.engine(), &[], &options(3)).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let background = scope.spawn(|| {
            let mut done = 0;
            while !is_over.load(Ordering::Relaxed) {
                done += device.work_ahead();
            }
            done
        });
        run(&session, 1..200);
        is_over.store(true, Ordering::Relaxed);
        assert!(background.join().unwrap() > 0);
    });
    let mut planned = planned(&session);
    planned.sort_unstable();
    planned.dedup();
    assert_eq!(planned.len(), SessionOptions::default().plans, "each is planned once");
}

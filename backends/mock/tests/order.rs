//! The order in which commands run.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anydnn_backend::{
    Attributes, Eltwise, Engine, Event, EventStatus, MapMode, Memory, MemoryKind, Op, PostOp, PrimitiveDesc,
    Stream, StreamDesc, Timestamps,
};
use anydnn_mock::{MockDevice, is_poison};
use approx::assert_abs_diff_eq;
use common::{Setup, floats, values};
use proptest::prelude::*;

#[test]
fn a_diamond_with_dependencies_computes_under_every_seed() {
    for seed in 0..200 {
        let device = MockDevice::new(seed);
        let s = Setup::out_of_order(&device);
        let [a, b, c, d] = [s.memory(), s.memory(), s.memory(), s.memory()];
        let written = s.write(&a, [1.0, 2.0, 3.0, 4.0]);
        let left = s.unary(&s.linear(2.0, 0.0), &a, &b, std::slice::from_ref(&written)).unwrap();
        let right = s.unary(&s.linear(1.0, 10.0), &a, &c, &[written]).unwrap();
        let joined = s.binary(&s.add(), [&b, &c], &d, &[left, right]).unwrap();
        assert_eq!(s.read(&d, &[joined]).unwrap(), [13.0, 16.0, 19.0, 22.0], "seed {seed}");
        assert!(device.races().is_empty());
    }
}

#[test]
fn an_in_order_stream_needs_no_dependencies() {
    for seed in 0..50 {
        let device = MockDevice::new(seed);
        let s = Setup::in_order(&device);
        let (a, b) = (s.memory(), s.memory());
        let step = s.linear(2.0, 1.0);
        s.write(&a, [0.0, 1.0, 2.0, 3.0]);
        for _ in 0..5 {
            s.unary(&step, &a, &b, &[]).unwrap();
            s.unary(&step, &b, &a, &[]).unwrap();
        }
        let expected: Vec<f32> = (0..4).map(|x| 1024.0 * x as f32 + 1023.0).collect();
        assert_eq!(s.read(&a, &[]).unwrap(), expected);
    }
}

/// Three independent writes, one of them waited for; the order in which they ran.
fn independent_writes(seed: u64) -> String {
    let device = MockDevice::new(seed);
    let s = Setup::out_of_order(&device);
    let memories = [s.memory(), s.memory(), s.memory()];
    let events = memories.each_ref().map(|m| s.write(m, [1.0; 4]));
    events[1].wait().unwrap();
    let log = device.log();
    log.lines().filter(|line| line.starts_with("run")).collect::<Vec<_>>().join(", ")
}

#[test]
fn seeds_reorder_are_lazy_and_eager() {
    let orders: BTreeSet<String> = (0..200).map(independent_writes).collect();
    assert!(orders.contains("run #2 write"), "the laziest: {orders:?}");
    assert!(orders.contains("run #3 write, run #2 write, run #1 write"), "the most backward: {orders:?}");
    assert!(orders.contains("run #1 write, run #2 write, run #3 write"), "the tamest: {orders:?}");
    assert_eq!(independent_writes(17), independent_writes(17));
}

#[test]
fn flush_and_enqueue_run_nothing() {
    for seed in 0..20 {
        let device = MockDevice::new(seed);
        let s = Setup::in_order(&device);
        let memory = s.memory();
        let written = s.write(&memory, [1.0; 4]);
        assert_eq!(device.pending(), 1);
        s.stream.flush().unwrap();
        assert_eq!(device.pending(), 1);
        assert_eq!(written.status().unwrap(), EventStatus::Submitted);
    }
}

#[test]
fn polling_ends() {
    let device = MockDevice::new(5);
    let s = Setup::out_of_order(&device);
    let memories = [s.memory(), s.memory(), s.memory()];
    let events = memories.each_ref().map(|m| s.write(m, [1.0; 4]));
    assert_eq!(events[2].status().unwrap(), EventStatus::Queued);
    let polls = (0..10).take_while(|_| events[2].status().unwrap() != EventStatus::Complete).count();
    assert!(polls <= 3, "{polls}");
}

#[test]
fn waiting_for_a_stream_covers_all_of_it() {
    for seed in 0..50 {
        let device = MockDevice::new(seed);
        let s = Setup::out_of_order(&device);
        let memories: Vec<_> = (0..10).map(|_| s.memory()).collect();
        for (i, memory) in memories.iter().enumerate() {
            s.write(memory, [i as f32; 4]);
        }
        s.stream.wait().unwrap();
        for (i, memory) in memories.iter().enumerate() {
            assert_eq!(values(memory.map(MapMode::Read).unwrap().bytes()), [i as f32; 4]);
        }
    }
}

#[test]
fn dependencies_cross_streams() {
    for seed in 0..50 {
        let device = MockDevice::new(seed);
        let (s, other) = (Setup::out_of_order(&device), Setup::in_order(&device));
        let (a, b) = (s.memory(), s.memory());
        let written = s.write(&a, [5.0; 4]);
        let doubled = other.unary(&other.linear(2.0, 0.0), &a, &b, &[written]).unwrap();
        assert_eq!(s.read(&b, &[doubled]).unwrap(), [10.0; 4]);
    }
}

#[test]
fn a_user_event_holds_back_and_an_unset_one_is_an_error() {
    for seed in 0..20 {
        let device = MockDevice::new(seed);
        let s = Setup::out_of_order(&device);
        let (a, b) = (s.memory(), s.memory());
        let gate = device.user_event();
        let written = s.stream.write(&a, 0, &[0; 16], &[gate.event()]).unwrap();
        let after = s.unary(&s.linear(1.0, 3.0), &a, &b, &[written]).unwrap();
        let error = after.wait().unwrap_err().to_string();
        assert_eq!(
            error,
            "wait: #2 linear is blocked by user event u0, which nobody has set, expected set_complete or set_failed before the wait"
        );
        assert!(gate.event().wait().is_err() && s.stream.wait().is_err());
        gate.set_complete().unwrap();
        assert!(gate.set_complete().is_err(), "set twice");
        assert_eq!(s.read(&b, &[after]).unwrap(), [3.0; 4]);
    }
}

#[test]
fn fresh_memory_and_results_of_commands_that_have_not_run_are_poison() {
    let device = MockDevice::new(1);
    let s = Setup::in_order(&device);
    let memory = s.engine.create_memory(&floats(), MemoryKind::UsmHost).unwrap();
    let mapping = memory.map(MapMode::Read).unwrap();
    assert!(is_poison(mapping.bytes()) && values(mapping.bytes()).iter().all(|v| v.is_nan()));
}

#[test]
fn overwriting_through_a_mapping_starts_from_poison_and_ends_on_the_device() {
    let device = MockDevice::new(1);
    let s = Setup::in_order(&device);
    let memory = s.memory();
    s.write(&memory, [1.0; 4]).wait().unwrap();
    let mut mapping = memory.map(MapMode::Write).unwrap();
    assert!(is_poison(mapping.bytes()));
    mapping.bytes_mut()[..4].copy_from_slice(&7.0_f32.to_le_bytes());
    mapping.unmap().unwrap();
    let after = s.read(&memory, &[]).unwrap();
    assert_abs_diff_eq!(after[0], 7.0, epsilon = f32::EPSILON);
    assert!(after[1].is_nan(), "{after:?}");

    let mut mapping = memory.map(MapMode::Read).unwrap();
    assert!(mapping.bytes_mut().is_empty());
}

#[test]
fn results_in_place_and_old_content_survive_the_poison() {
    for seed in 0..20 {
        let device = MockDevice::new(seed);
        let s = Setup::in_order(&device);
        let a = s.memory();
        s.write(&a, [1.0, 2.0, 3.0, 4.0]);
        s.unary(&s.linear(2.0, 0.0), &a, &a, &[]).unwrap();
        let sum = Attributes::default().with_post_op(PostOp::sum(1.0));
        let desc =
            PrimitiveDesc::builder(Op::Eltwise(Eltwise::Square)).src(floats()).dst(floats()).attributes(sum);
        let square = s.engine.create_primitive(&desc.build().unwrap()).unwrap();
        let b = s.memory();
        s.write(&b, [100.0; 4]);
        s.unary(&square, &a, &b, &[]).unwrap();
        assert_eq!(s.read(&b, &[]).unwrap(), [104.0, 116.0, 136.0, 164.0]);
    }
}

#[test]
fn the_clock_counts_elements_and_bytes() {
    let device = MockDevice::new(3);
    let s = Setup::on(&device, &StreamDesc::default().with_profiling());
    let (a, b) = (s.memory(), s.memory());
    let written = s.write(&a, [1.0; 4]);
    let done = s.unary(&s.linear(1.0, 0.0), &a, &b, &[]).unwrap();
    assert_eq!(done.timestamps().unwrap(), None, "not finished");
    s.stream.flush().unwrap();
    done.wait().unwrap();
    assert_eq!(
        [written.timestamps().unwrap(), done.timestamps().unwrap()],
        [
            Some(Timestamps { queued: 1, submitted: 2, started: 2, ended: 18 }),
            Some(Timestamps { queued: 2, submitted: 2, started: 18, ended: 22 }),
        ]
    );
    assert_eq!(device.now(), 22);
    let profile = s.stream.profile().unwrap();
    let [entry] = &profile[..] else { panic!("{profile:?}") };
    assert_eq!((&*entry.operation, &*entry.implementation), ("linear", "mock:reference"));
    assert_eq!((entry.commands, entry.nanoseconds), (1, 4));
    s.stream.reset_profile().unwrap();
    assert_eq!(s.stream.profile().unwrap(), []);
    let plain = Setup::in_order(&device);
    let silent = plain.stream.marker(&[]).unwrap();
    silent.wait().unwrap();
    assert_eq!(silent.timestamps().unwrap(), None, "no profiling");
}

#[test]
fn a_profile_waits_for_executions_and_leaves_out_those_that_failed() {
    let device = MockDevice::new(5);
    let s = Setup::on(&device, &StreamDesc::out_of_order().with_profiling());
    let (a, b, c) = (s.memory(), s.memory(), s.memory());
    let gate = device.user_event();
    let written = s.write(&a, [1.0; 4]);
    let step = s.linear(1.0, 0.0);
    let fine = s.unary(&step, &a, &b, std::slice::from_ref(&written)).unwrap();
    s.unary(&step, &a, &c, &[written, gate.event()]).unwrap();
    let blocked = s.stream.profile().unwrap_err().to_string();
    assert!(blocked.contains("user event"), "{blocked}");
    gate.set_failed(anydnn_backend::Error::DeviceLost("unplugged".into())).unwrap();
    assert_eq!(s.stream.profile().unwrap().len(), 1);
    assert_eq!(fine.status().unwrap(), EventStatus::Complete);
    assert!(s.stream.wait().is_err(), "the failure is told all the same");
}

#[test]
fn thousands_of_commands_stay_fast() {
    let start = Instant::now();
    let device = MockDevice::new(9);
    let s = Setup::out_of_order(&device);
    let memories: Vec<_> = (0..50).map(|_| s.memory()).collect();
    let step = s.linear(1.0, 1.0);
    let mut last: Vec<_> = memories.iter().map(|m| s.write(m, [0.0; 4])).collect();
    for i in 0..5000 {
        let (from, to) = (i % 50, (i * 7 + 1) % 50);
        if from == to {
            continue;
        }
        let deps = [last[from].clone(), last[to].clone()];
        let done = s.unary(&step, &memories[from], &memories[to], &deps).unwrap();
        (last[from], last[to]) = (done.clone(), done);
    }
    s.stream.wait().unwrap();
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn handles_work_from_many_threads() {
    let device = MockDevice::new(2);
    let s = Setup::out_of_order(&device);
    std::thread::scope(|scope| {
        for t in 0..4 {
            let s = &s;
            scope.spawn(move || {
                let (a, b) = (s.memory(), s.memory());
                for _ in 0..50 {
                    let written = s.write(&a, [t as f32; 4]);
                    let done = s.unary(&s.linear(1.0, 1.0), &a, &b, &[written]).unwrap();
                    assert_eq!(s.read(&b, &[done]).unwrap(), [t as f32 + 1.0; 4]);
                }
            });
        }
    });
    assert!(device.races().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random programs with exactly the dependencies that their accesses need give what running them one by one gives.
    #[test]
    fn declared_programs_compute_what_sequential_ones_do(
        seed in any::<u64>(),
        steps in prop::collection::vec((0..5_usize, 0..5_usize, 0..2_u8), 1..40),
        in_order in any::<bool>(),
    ) {
        let device = MockDevice::new(seed);
        let s = if in_order { Setup::in_order(&device) } else { Setup::out_of_order(&device) };
        let memories: Vec<_> = (0..5).map(|_| s.memory()).collect();
        let mut expected = [[0.0_f32; 4]; 5];
        let mut writer: Vec<_> = memories.iter().map(|m| s.write(m, [0.0; 4])).collect();
        let mut readers: Vec<Vec<_>> = vec![Vec::new(); 5];
        let (double, shift) = (s.linear(0.5, 1.0), s.linear(1.0, -3.0));
        for (from, to, which) in steps {
            let primitive = if which == 0 { &double } else { &shift };
            let mut deps = vec![writer[from].clone(), writer[to].clone()];
            deps.append(&mut readers[to]);
            if in_order {
                deps.clear();
            }
            let done = s.unary(primitive, &memories[from], &memories[to], &deps).unwrap();
            readers[from].push(done.clone());
            if from == to {
                readers[from].clear();
            }
            writer[to] = done;
            expected[to] = expected[from].map(|x| if which == 0 { 0.5 * x + 1.0 } else { x - 3.0 });
        }
        for (i, memory) in memories.iter().enumerate() {
            let deps = if in_order { vec![] } else { vec![writer[i].clone()] };
            prop_assert_eq!(s.read(memory, &deps).unwrap(), expected[i]);
        }
    }
}

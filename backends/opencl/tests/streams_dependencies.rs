//! Dependencies on every kind of queue.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the tests own every handle they pass")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::time::Duration;

use anydnn_backend::{Engine, Error, Event, EventStatus, MapMode, Memory, Order, Stream, StreamDesc};
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{OpenClEngine, OpenClEvent, OpenClStream};
use common::*;

const ELEMENTS: usize = 1024;
const BYTES: usize = 4 * ELEMENTS;
const ORDERS: [Order; 2] = [Order::InOrder, Order::OutOfOrder];

fn stream(engine: &OpenClEngine, order: Order) -> OpenClStream {
    engine.create_stream(&StreamDesc { order, ..StreamDesc::default() }).unwrap()
}

#[track_caller]
fn still_waits(event: &OpenClEvent) {
    std::thread::sleep(Duration::from_millis(20));
    let status = event.status().unwrap();
    assert!(status < EventStatus::Complete, "it did not wait: {status:?}");
}

#[test]
fn a_primitive_waits_for_another_queue_of_any_order() {
    for engine in test_engines() {
        let add = linear(&engine, ELEMENTS, (1.0, 1.0), "add one");
        for (before, after) in ORDERS.into_iter().flat_map(|a| ORDERS.map(|b| (a, b))) {
            let (first, second) = (stream(&engine, before), stream(&engine, after));
            let [a, b, c] = [(); 3].map(|()| memory(&engine, BYTES));
            first.write(&a, 0, &to_bytes(&[1.0; ELEMENTS]), &[]).unwrap();
            first.write(&b, 0, &[0; BYTES], &[]).unwrap();
            // The user's event holds the first queue; only the dependency can make the second wait for it.
            let (raw, gate) = user_event(&engine);
            let made = first.execute(&add, &src_dst(&a, &b), &[gate]).unwrap();
            let used = second.execute(&add, &src_dst(&b, &c), &[made]).unwrap();
            still_waits(&used);
            set(raw, 0);
            used.wait().unwrap();
            assert_eq!(to_floats(c.map(MapMode::Read).unwrap().bytes()), [3.0; ELEMENTS]);
            first.wait().unwrap();
            second.wait().unwrap();
            release_event(raw);
        }
    }
}

#[test]
fn an_execution_without_work_waits_for_its_dependencies() {
    for engine in test_engines() {
        let nothing = linear(&engine, 0, (1.0, 1.0), "nothing");
        let empty = engine.create_memory(&floats(0), anydnn_backend::MemoryKind::Buffer).unwrap();
        for (order, profiling) in ORDERS.into_iter().flat_map(|order| [false, true].map(|p| (order, p))) {
            let desc = StreamDesc { order, profiling, ..StreamDesc::default() };
            let stream = engine.create_stream(&desc).unwrap();
            let (raw, gate) = user_event(&engine);
            let event = stream.execute(&nothing, &src_dst(&empty, &empty), &[gate]).unwrap();
            still_waits(&event);
            set(raw, 0);
            event.wait().unwrap();
            if profiling {
                let profile = stream.profile().unwrap();
                let [entry] = &profile[..] else { panic!("{profile:?}") };
                assert_eq!((&*entry.operation, entry.commands, entry.nanoseconds), ("nothing", 0, 0));
            }
            stream.execute(&nothing, &src_dst(&empty, &empty), &[]).unwrap().wait().unwrap();
            stream.wait().unwrap();
            release_event(raw);
        }
    }
}

#[test]
fn commands_of_the_users_own_queues_are_waited_for() {
    for engine in test_engines() {
        let add = linear(&engine, ELEMENTS, (1.0, 1.0), "add one");
        for (properties, order) in [0, 1].into_iter().flat_map(|p| ORDERS.map(|order| (p, order))) {
            let own = queue(&engine, engine.raw_context(), properties);
            let (a, b) = (memory(&engine, BYTES), memory(&engine, BYTES));
            let stream = stream(&engine, order);
            stream.write(&a, 0, &[0; BYTES], &[]).unwrap();
            let (raw, gate) = user_event(&engine);
            let values = to_bytes(&[5.0; ELEMENTS]);
            let written = unsafe {
                let (source, list) = (values.as_ptr().cast(), &raw const raw);
                cl3::command_queue::enqueue_write_buffer(own, a.raw_mem(), 0, 0, BYTES, source, 1, list)
            }
            .unwrap();
            cl3::command_queue::flush(own).unwrap();
            let theirs = unsafe { OpenClEvent::from_raw(&engine, written) }.unwrap();
            assert_eq!(theirs.raw_event(), written);
            let added = stream.execute(&add, &src_dst(&a, &b), std::slice::from_ref(&theirs)).unwrap();
            still_waits(&added);
            set(raw, 0);
            added.wait().unwrap();
            theirs.wait().unwrap();
            assert_eq!(to_floats(b.map(MapMode::Read).unwrap().bytes()), [6.0; ELEMENTS]);
            // And the other way round: the user's queue waits for ours.
            let list = added.raw_event();
            let after = unsafe { cl3::command_queue::enqueue_marker_with_wait_list(own, 1, &raw const list) }
                .unwrap();
            cl3::event::wait_for_events(&[after]).unwrap();
            release_event(after);
            drop((gate, theirs, added));
            release_event(written);
            release_event(raw);
            cl3::command_queue::finish(own).unwrap();
            common::release_queue(own);
        }
    }
}

#[test]
fn the_same_dependency_may_come_several_times() {
    for engine in test_engines() {
        for order in ORDERS {
            let (one, other) = (stream(&engine, order), stream(&engine, Order::OutOfOrder));
            let (raw, gate) = user_event(&engine);
            let twin = unsafe { OpenClEvent::from_raw(&engine, raw) }.unwrap();
            let held = other.marker(std::slice::from_ref(&gate)).unwrap();
            let deps = [gate.clone(), held.clone(), gate, twin, held];
            let event = one.marker(&deps).unwrap();
            still_waits(&event);
            set(raw, 0);
            event.wait().unwrap();
            // Finished ones too.
            one.marker(&deps).unwrap().wait().unwrap();
            release_event(raw);
        }
    }
}

#[test]
fn a_thousand_dependencies_are_waited_for() {
    for engine in test_engines() {
        for order in ORDERS {
            let (one, others) = (stream(&engine, order), [(); 4].map(|()| stream(&engine, order)));
            let gates: Vec<_> = (0..4).map(|_| user_event(&engine)).collect();
            let mut deps = Vec::new();
            for i in 0..1000 {
                let gate = &gates[i % 4].1;
                deps.push(others[i % 4].marker(std::slice::from_ref(gate)).unwrap());
            }
            let event = one.marker(&deps).unwrap();
            for (raw, _) in &gates {
                still_waits(&event);
                set(*raw, 0);
            }
            event.wait().unwrap();
            assert!(deps.iter().all(|dep| dep.status().unwrap() == EventStatus::Complete));
            for (raw, _) in gates {
                release_event(raw);
            }
        }
    }
}

#[test]
fn a_dependency_of_another_context_is_refused_before_anything_is_enqueued() {
    for engine in test_engines() {
        let other = OpenClEngine::on_device(engine.opencl_device()).unwrap();
        let add = linear(&engine, ELEMENTS, (1.0, 1.0), "add one");
        for order in ORDERS {
            let stream = stream(&engine, order);
            let (a, b) = (memory(&engine, BYTES), memory(&engine, BYTES));
            stream.write(&a, 0, &[1; BYTES], &[]).unwrap();
            stream.write(&b, 0, &[2; BYTES], &[]).unwrap();
            let (raw, gate) = user_event(&engine);
            let (foreign_raw, foreign) = user_event(&other);
            let deps = [gate, foreign];
            let errors = [
                stream.execute(&add, &src_dst(&a, &b), &deps).unwrap_err(),
                stream.copy(whole(&a, BYTES), whole(&b, BYTES), &deps).unwrap_err(),
                stream.write(&b, 0, &[3; BYTES], &deps).unwrap_err(),
                stream.read(&b, 0, &mut [0; BYTES], &deps).unwrap_err(),
                stream.marker(&deps).unwrap_err(),
            ];
            for error in errors {
                assert!(matches!(error.root(), Error::Mismatch { .. }), "{error:?}");
                assert!(error.to_string().contains(&format!("{foreign_raw:p}")), "{error}");
            }
            assert_eq!((event_count(raw), event_count(foreign_raw)), (2, 2));
            // Nothing waits for the gate, which is still shut.
            stream.wait().unwrap();
            let mut seen = [0; BYTES];
            stream.read(&b, 0, &mut seen, &[]).unwrap();
            assert_eq!(seen, [2; BYTES]);
            for raw in [raw, foreign_raw] {
                set(raw, 0);
                release_event(raw);
            }
        }
    }
}

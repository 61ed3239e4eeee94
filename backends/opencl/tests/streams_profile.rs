//! Device time per execution.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the tests own every handle they pass")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use anydnn_backend::{Engine, Error, Event, Order, Primitive, Stream, StreamDesc};
use anydnn_opencl::OpenClStream;
use anydnn_opencl::testing::test_engines;
use common::*;

const ELEMENTS: usize = 4096;

#[test]
fn a_stream_on_the_users_profiling_queue_profiles() {
    for engine in test_engines() {
        let (one, two) =
            (linear(&engine, ELEMENTS, (1.0, 1.0), "one"), linear(&engine, ELEMENTS, (1.0, 2.0), "two"));
        for (properties, order) in [(2, Order::InOrder), (3, Order::OutOfOrder)] {
            let queue = queue(&engine, engine.raw_context(), properties);
            let stream = unsafe { OpenClStream::from_raw(&engine, queue) }.unwrap();
            assert_eq!((stream.desc().order, stream.desc().profiling), (order, true));
            let memory = memory(&engine, 4 * ELEMENTS);
            let args = src_dst(&memory, &memory);
            let first = stream.execute(&one, &args, &[]).unwrap();
            let copied = stream.write(&memory, 0, &[0; 4], std::slice::from_ref(&first)).unwrap();
            let second = stream.execute(&two, &args, &[copied]).unwrap();
            let profile = stream.profile().unwrap();
            let found: Vec<_> = profile.iter().map(|p| (&*p.operation, &*p.implementation)).collect();
            assert_eq!(found, [("one", one.implementation()), ("two", two.implementation())]);
            for (entry, event) in profile.iter().zip([&first, &second]) {
                let times = event.timestamps().unwrap().unwrap();
                assert_eq!((entry.commands, entry.nanoseconds), (1, times.duration()));
            }
            stream.reset_profile().unwrap();
            assert_eq!(stream.profile().unwrap(), []);
            drop((first, second, stream, memory, args));
            eventually(|| queue_count(queue) == 1);
            common::release_queue(queue);
        }
        let plain = engine.create_stream(&StreamDesc::default()).unwrap();
        assert!(matches!(plain.profile().unwrap_err(), Error::Invalid(_)));
        assert!(matches!(plain.reset_profile().unwrap_err(), Error::Invalid(_)));
    }
}

#[test]
fn every_execution_of_every_thread_is_listed() {
    const THREADS: usize = 4;
    const STEPS: usize = 500;
    for engine in test_engines() {
        let steps: Vec<_> =
            (0..THREADS).map(|i| linear(&engine, 64, (1.0, 1.0), &format!("step {i}"))).collect();
        for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
            let stream = engine.create_stream(&desc.with_profiling()).unwrap();
            std::thread::scope(|scope| {
                for step in &steps {
                    let (stream, engine) = (&stream, &engine);
                    scope.spawn(move || {
                        let memory = memory(engine, 4 * 64);
                        let mut last = stream.marker(&[]).unwrap();
                        for i in 0..STEPS {
                            last = stream.execute(step, &src_dst(&memory, &memory), &[last]).unwrap();
                            if i % 200 == 0 {
                                stream.profile().unwrap();
                            }
                        }
                        last.wait().unwrap();
                    });
                }
            });
            let profile = stream.profile().unwrap();
            for i in 0..THREADS {
                let name = format!("step {i}");
                assert_eq!(profile.iter().filter(|entry| *entry.operation == *name).count(), STEPS);
            }
            assert_eq!(profile.len(), THREADS * STEPS);
            assert!(profile.iter().all(|entry| entry.commands == 1));
            assert_eq!(stream.profile().unwrap(), profile, "looking changes nothing");
        }
    }
}

#[test]
fn a_profile_waits_and_leaves_out_what_failed() {
    for engine in test_engines() {
        let step = linear(&engine, 64, (1.0, 1.0), "step");
        for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
            let stream = engine.create_stream(&desc.with_profiling()).unwrap();
            let memory = memory(&engine, 4 * 64);
            let args = src_dst(&memory, &memory);
            let (raw, gate) = user_event(&engine);
            let fine = stream.execute(&step, &args, &[]).unwrap();
            let held = stream.execute(&step, &args, &[fine, gate]).unwrap();
            let profile = later(raw, |raw| set(raw, 0), || stream.profile().unwrap());
            assert_eq!(profile.len(), 2, "it waited");
            release_event(raw);

            let (raw, gate) = user_event(&engine);
            stream.execute(&step, &args, &[held, gate]).unwrap();
            let profile = later(raw, |raw| set(raw, -3), || stream.profile().unwrap());
            assert_eq!(profile.len(), 2);
            // The failure is still reported.
            assert!(matches!(stream.wait().unwrap_err(), Error::Dependency { .. }));
            stream.execute(&step, &args, &[]).unwrap();
            assert_eq!(stream.profile().unwrap().len(), 3);
            stream.wait().unwrap();
            release_event(raw);
        }
    }
}

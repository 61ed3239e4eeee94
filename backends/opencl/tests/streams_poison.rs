//! What depends on something that failed reports it by the name of what failed first.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the tests own every handle they pass")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use anydnn_backend::{Engine, Error, Event, EventStatus, Order, Result, Stream, StreamDesc};
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{OpenClEngine, OpenClEvent, OpenClMemory, OpenClPrimitive, OpenClStream};
use cl3::types::cl_event;
use common::*;

const BYTES: usize = 64;
const ORDERS: [Order; 2] = [Order::InOrder, Order::OutOfOrder];

fn stream(engine: &OpenClEngine, order: Order) -> OpenClStream {
    engine.create_stream(&StreamDesc { order, ..StreamDesc::default() }).unwrap()
}

/// Commands of every kind.
struct Kinds {
    primitive: OpenClPrimitive,
    from: OpenClMemory,
    to: OpenClMemory,
}

const KINDS: [&str; 5] = ["step", "copy", "marker", "write", "read"];

impl Kinds {
    fn new(engine: &OpenClEngine) -> Self {
        let primitive = linear(engine, BYTES / 4, (1.0, 0.0), "step");
        Self { primitive, from: memory(engine, BYTES), to: memory(engine, BYTES) }
    }

    /// Enqueues a command and waits for it where its kind does; reads have no event.
    fn enqueue(
        &self,
        stream: &OpenClStream,
        kind: &str,
        deps: &[OpenClEvent],
    ) -> Result<Option<OpenClEvent>> {
        Ok(Some(match kind {
            "step" => stream.execute(&self.primitive, &src_dst(&self.from, &self.to), deps)?,
            "copy" => stream.copy(whole(&self.from, BYTES), whole(&self.to, BYTES), deps)?,
            "marker" => stream.marker(deps)?,
            "write" => stream.write(&self.to, 0, &[1; BYTES], deps)?,
            _ => {
                stream.read(&self.to, 0, &mut [0; BYTES], deps)?;
                return Ok(None);
            }
        }))
    }
}

#[track_caller]
fn names(error: &Error, expected: &str, raw: cl_event, code: i32) {
    let Error::Dependency { operation, cause } = error.root() else { panic!("{error:?}") };
    let user_event = format!("the user's event {raw:p} ended with {code}");
    assert!(operation == expected && cause.contains(&user_event), "{error}");
}

#[test]
fn every_kind_of_command_names_what_failed_first() {
    for engine in test_engines() {
        let kinds = Kinds::new(&engine);
        for (order, kind) in ORDERS.into_iter().flat_map(|order| KINDS.map(|kind| (order, kind))) {
            let (failing, middle, last) =
                (stream(&engine, Order::OutOfOrder), stream(&engine, order), stream(&engine, order));
            let (raw, gate) = user_event(&engine);
            // Two streams away from what fails.
            let first = failing.marker(&[gate]).unwrap();
            let second = middle.marker(&[first]).unwrap();
            let outcome = later(
                raw,
                |raw| set(raw, -5),
                || {
                    let event = kinds.enqueue(&last, kind, &[second])?;
                    event.as_ref().map_or(Ok(()), |event| {
                        let waited = event.wait();
                        assert_eq!(event.status().unwrap(), EventStatus::Failed);
                        waited
                    })
                },
            );
            names(&outcome.unwrap_err(), kind, raw, -5);
            // Each stream reports its own first failure once and works again.
            names(&last.wait().unwrap_err(), kind, raw, -5);
            names(&middle.wait().unwrap_err(), "marker", raw, -5);
            names(&failing.wait().unwrap_err(), "marker", raw, -5);
            for stream in [&last, &middle, &failing] {
                stream.wait().unwrap();
                for kind in KINDS {
                    kinds.enqueue(stream, kind, &[]).unwrap();
                }
                stream.wait().unwrap();
            }
            release_event(raw);
        }
    }
}

#[test]
fn what_failed_before_is_refused_at_once_and_leaves_the_stream_clean() {
    for engine in test_engines() {
        let kinds = Kinds::new(&engine);
        for order in ORDERS {
            let stream = stream(&engine, order);
            let (raw, gate) = user_event(&engine);
            set(raw, -1000);
            for kind in KINDS {
                let error = kinds.enqueue(&stream, kind, std::slice::from_ref(&gate)).unwrap_err();
                names(&error, kind, raw, -1000);
            }
            kinds.enqueue(&stream, "step", &[]).unwrap();
            stream.wait().unwrap();
            release_event(raw);
        }
    }
}

#[test]
fn a_chain_of_a_thousand_names_its_first_failure_everywhere() {
    const LENGTH: usize = 1000;
    for engine in test_engines() {
        let kinds = Kinds::new(&engine);
        for set_early in [false, true] {
            let streams =
                [Order::InOrder, Order::OutOfOrder, Order::InOrder].map(|order| stream(&engine, order));
            let (raw, gate) = user_event(&engine);
            let mut chain = vec![gate];
            let names_of = |i: usize| ["step", "copy", "marker"][i % 3];
            let mut refused = 0;
            for i in 0..LENGTH {
                if set_early && i == LENGTH / 2 {
                    set(raw, -7);
                }
                let last = chain[chain.len() - 1..].to_vec();
                match kinds.enqueue(&streams[i / 5 % 3], names_of(i), &last) {
                    Ok(event) => chain.extend(event),
                    Err(error) => {
                        names(&error, names_of(i), raw, -7);
                        refused += 1;
                        break;
                    }
                }
            }
            assert!(set_early || (refused == 0 && chain.len() == LENGTH + 1));
            if !set_early {
                set(raw, -7);
            }
            for (i, event) in chain[1..].iter().enumerate().rev() {
                names(&event.wait().unwrap_err(), names_of(i), raw, -7);
            }
            for stream in &streams {
                let error = stream.wait().unwrap_err();
                assert!(matches!(error.root(), Error::Dependency { .. }), "{error:?}");
                assert!(error.to_string().contains("ended with -7"), "{error}");
                stream.wait().unwrap();
                kinds.enqueue(stream, "read", &[]).unwrap();
            }
            release_event(raw);
        }
    }
}

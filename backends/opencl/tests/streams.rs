//! Order, dependencies and failures.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the tests own every handle they pass")]

mod common;

use std::time::Duration;

use anydnn_backend::{
    DataType, Engine, Error, Event, EventStatus, MapMode, Memory, MemoryDesc, MemoryKind, Order, Range,
    Stream, StreamDesc,
};
use anydnn_opencl::OpenClMemory;
use anydnn_opencl::testing::test_engines;
use common::*;

fn range(memory: &OpenClMemory, offset: usize, bytes: usize) -> Range<anydnn_opencl::OpenCl> {
    Range { memory: memory.clone(), offset, bytes }
}

#[test]
fn bytes_go_there_and_back_at_any_offset() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let (a, b) = (memory(&engine, 64), memory(&engine, 64));
        let pattern: Vec<u8> = (0..64).collect();
        stream.write(&a, 0, &pattern, &[]).unwrap();
        stream.write(&b, 0, &[0; 64], &[]).unwrap();
        let view = b.view(&bytes_desc(40), 7).unwrap();
        stream.copy(range(&a, 3, 20), range(&view, 5, 20), &[]).unwrap();
        let mut seen = [0; 22];
        stream.read(&b, 11, &mut seen, &[]).unwrap();
        assert_eq!((seen[0], seen[21]), (0, 0));
        assert_eq!(seen[1..21], pattern[3..23]);
        // Within one buffer.
        stream.copy(range(&a, 0, 8), range(&a, 32, 8), &[]).unwrap().wait().unwrap();
        assert_eq!(a.map(MapMode::Read).unwrap().bytes()[32..40], pattern[..8]);
        assert!(stream.copy(range(&a, 0, 8), range(&a, 7, 8), &[]).is_err());
        assert!(stream.write(&a, 60, &[0; 5], &[]).is_err());
        stream.wait().unwrap();
    }
}

#[test]
fn mappings_write_back() {
    for engine in test_engines() {
        let whole = memory(&engine, 32);
        let mut mapping = whole.map(MapMode::Write).unwrap();
        mapping.bytes_mut().fill(1);
        mapping.unmap().unwrap();
        let view = whole.view(&bytes_desc(8), 5).unwrap();
        let mut mapping = view.map(MapMode::ReadWrite).unwrap();
        assert_eq!(mapping.bytes(), [1; 8]);
        mapping.bytes_mut()[0] = 9;
        drop(mapping);
        let mut mapping = whole.map(MapMode::Read).unwrap();
        assert_eq!(mapping.bytes()[4..7], [1, 9, 1]);
        assert!(mapping.bytes_mut().is_empty());
        drop(mapping);
    }
}

#[test]
fn memory_without_bytes_works_everywhere() {
    for engine in test_engines() {
        let desc = MemoryDesc::new([3, 0], DataType::F32);
        let empty = engine.create_memory(&desc, MemoryKind::Buffer).unwrap();
        assert!(empty.raw_mem().is_null());
        assert!(empty.map(MapMode::ReadWrite).unwrap().bytes().is_empty());
        assert!(empty.view(&desc, 0).is_ok() && empty.view(&bytes_desc(1), 0).is_err());
        let temporary = engine.allocator().allocate(0, 0).unwrap();
        for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
            let stream = engine.create_stream(&desc).unwrap();
            let (raw, gate) = user_event(&engine);
            let copied = stream.copy(range(&empty, 0, 0), range(&temporary, 0, 0), &[gate]).unwrap();
            assert!(
                copied.status().unwrap() < EventStatus::Complete,
                "no work still waits for its dependencies"
            );
            set(raw, 0);
            copied.wait().unwrap();
            stream.write(&empty, 0, &[], &[]).unwrap().wait().unwrap();
            stream.read(&empty, 0, &mut [], &[copied]).unwrap();
            stream.wait().unwrap();
            release_event(raw);
        }
        engine.allocator().free(temporary, None).unwrap();
    }
}

#[test]
fn a_dependency_between_in_order_streams_is_honoured() {
    for engine in test_engines() {
        let first = engine.create_stream(&StreamDesc::default()).unwrap();
        let second = engine.create_stream(&StreamDesc::default()).unwrap();
        let (a, b, c) = (memory(&engine, 16), memory(&engine, 16), memory(&engine, 16));
        first.write(&a, 0, &[7; 16], &[]).unwrap();
        first.write(&b, 0, &[0; 16], &[]).unwrap();
        let (raw, gate) = user_event(&engine);
        let copied = first.copy(range(&a, 0, 16), range(&b, 0, 16), &[gate]).unwrap();
        let taken = second.copy(range(&b, 0, 16), range(&c, 0, 16), std::slice::from_ref(&copied)).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(taken.status().unwrap() < EventStatus::Complete, "it did not wait");
        set(raw, 0);
        taken.wait().unwrap();
        assert_eq!(taken.status().unwrap(), EventStatus::Complete);
        assert_eq!(c.map(MapMode::Read).unwrap().bytes(), [7; 16]);
        first.wait().unwrap();
        second.wait().unwrap();
        release_event(raw);
    }
}

#[test]
fn only_dependencies_order_an_out_of_order_stream() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::out_of_order()).unwrap();
        let (a, b) = (memory(&engine, 4), memory(&engine, 4));
        let mut last = stream.write(&a, 0, &[1; 4], &[]).unwrap();
        let (raw, gate) = user_event(&engine);
        let held = stream.marker(&[gate]).unwrap();
        for _ in 0..200 {
            last = stream.copy(range(&a, 0, 4), range(&b, 0, 4), &[last]).unwrap();
            last = stream.copy(range(&b, 0, 4), range(&a, 0, 4), &[last]).unwrap();
        }
        if engine.opencl_device().alias() == "pocl" {
            last.wait().unwrap();
            assert!(held.status().unwrap() < EventStatus::Complete);
        }
        set(raw, 0);
        last.wait().unwrap();
        stream.wait().unwrap();
        assert_eq!(held.status().unwrap(), EventStatus::Complete);
        assert_eq!(a.map(MapMode::Read).unwrap().bytes(), [1; 4]);
        release_event(raw);
    }
}

#[test]
fn a_failed_event_voids_what_depends_on_it() {
    for engine in test_engines() {
        for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
            let stream = engine.create_stream(&desc).unwrap();
            let other = engine.create_stream(&StreamDesc::out_of_order()).unwrap();
            let (a, b) = (memory(&engine, 4), memory(&engine, 4));
            stream.write(&a, 0, &[1; 4], &[]).unwrap();
            stream.write(&b, 0, &[3; 4], &[]).unwrap();
            let (raw, gate) = user_event(&engine);
            let first = stream.copy(range(&a, 0, 4), range(&b, 0, 4), std::slice::from_ref(&gate)).unwrap();
            let second = other.marker(std::slice::from_ref(&first)).unwrap();
            set(raw, -5);
            for dependant in [&second, &first] {
                let error = dependant.wait().unwrap_err();
                assert!(matches!(error, Error::Dependency { .. }), "{error:?}");
                assert!(error.to_string().contains("-5"), "the cause is named: {error}");
                assert_eq!(dependant.status().unwrap(), EventStatus::Failed);
            }
            assert!(matches!(gate.wait().unwrap_err(), Error::Device(failure) if failure.code == -5));
            // What is known to have failed is refused at once.
            let error = stream.marker(&[first]).unwrap_err();
            assert!(matches!(error, Error::Dependency { .. }), "{error:?}");
            let error = stream.read(&b, 0, &mut [0; 4], &[gate]).unwrap_err();
            assert!(matches!(error, Error::Dependency { .. }), "{error:?}");
            // The stream reports it once, then works again.
            assert!(matches!(stream.wait().unwrap_err(), Error::Dependency { .. }));
            assert!(matches!(other.wait().unwrap_err(), Error::Dependency { .. }));
            stream.wait().unwrap();
            let mut seen = [0; 4];
            stream.read(&a, 0, &mut seen, &[]).unwrap();
            assert_eq!(seen, [1; 4]);
            // On out-of-order streams of Intel's CPU runtime it runs with a void result: the driver would crash otherwise.
            if desc.order == Order::InOrder || engine.opencl_device().alias() != "intel" {
                stream.read(&b, 0, &mut seen, &[]).unwrap();
                assert_eq!(seen, [3; 4], "it did not run");
            }
            release_event(raw);
        }
    }
}

#[test]
fn a_failure_poisons_an_in_order_stream_until_it_is_reported() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let a = memory(&engine, 4);
        let (raw, gate) = user_event(&engine);
        let failing = stream.marker(&[gate]).unwrap();
        let after = stream.marker(&[]).unwrap();
        set(raw, -1);
        assert!(matches!(after.wait().unwrap_err(), Error::Dependency { .. }));
        assert!(matches!(failing.wait().unwrap_err(), Error::Dependency { .. }));
        assert!(matches!(stream.read(&a, 0, &mut [0; 4], &[]).unwrap_err(), Error::Dependency { .. }));
        assert!(matches!(stream.wait().unwrap_err(), Error::Dependency { .. }));
        stream.write(&a, 0, &[2; 4], &[]).unwrap().wait().unwrap();
        stream.wait().unwrap();
        release_event(raw);
    }
}

#[test]
fn a_read_whose_dependency_fails_meanwhile_reports_it() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let a = memory(&engine, 4);
        let (raw, gate) = user_event(&engine);
        let address = raw.addr();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(30));
                set(std::ptr::with_exposed_provenance_mut(address), -7);
            });
            raw.expose_provenance();
            let error = stream.read(&a, 0, &mut [0; 4], &[gate]).unwrap_err();
            assert!(matches!(error, Error::Dependency { .. }), "{error:?}");
        });
        assert!(stream.wait().is_err());
        release_event(raw);
    }
}

#[test]
fn other_threads_may_use_a_stream_that_a_read_blocks() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::out_of_order()).unwrap();
        let a = memory(&engine, 4);
        let (raw, gate) = user_event(&engine);
        let address = raw.expose_provenance();
        std::thread::scope(|scope| {
            scope.spawn(|| stream.read(&a, 0, &mut [0; 4], &[gate]).unwrap());
            std::thread::sleep(Duration::from_millis(30));
            let marker = stream.marker(&[]).unwrap();
            set(std::ptr::with_exposed_provenance_mut(address), 0);
            marker.wait().unwrap();
        });
        release_event(raw);
    }
}

#[test]
fn long_chains_neither_overflow_nor_pile_up() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::out_of_order()).unwrap();
        let (raw, gate) = user_event(&engine);
        let mut last = stream.marker(&[gate]).unwrap();
        for _ in 0..400 {
            last = stream.marker(&[last]).unwrap();
        }
        set(raw, 0);
        last.wait().unwrap();
        stream.wait().unwrap();
        release_event(raw);
    }
}

#[test]
fn temporaries_are_reused_only_after_their_event() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let pool = engine.allocator();
        let first = pool.allocate(1000, 64).unwrap();
        let identity = first.region().allocation;
        assert_eq!(first.region().bytes, 1000);
        let (raw, gate) = user_event(&engine);
        let event = stream.marker(&[gate]).unwrap();
        pool.free(first, Some(&event)).unwrap();
        let second = pool.allocate(1000, 0).unwrap();
        assert_ne!(second.region().allocation, identity, "its command has not ended");
        set(raw, 0);
        stream.wait().unwrap();
        let third = pool.allocate(900, 0).unwrap();
        assert_eq!(third.region().allocation, identity);
        // A forgotten clone keeps the buffer from being handed out twice.
        let clone = third.clone();
        pool.free(third, None).unwrap();
        assert_ne!(pool.allocate(900, 0).unwrap().region().allocation, identity);
        drop(clone);
        let stats = pool.stats();
        assert_eq!((stats.created, stats.reused), (3, 1), "{stats:?}");
        release_event(raw);
    }
}

#[test]
fn errors_name_what_is_missing() {
    for engine in test_engines() {
        let desc = MemoryDesc::any([4], DataType::F32);
        assert!(matches!(engine.create_memory(&desc, MemoryKind::Buffer), Err(Error::Invalid(_))));
        let desc = MemoryDesc::new([4], DataType::F32);
        let error = engine.create_memory(&desc, MemoryKind::Host).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        // Countable, but beyond any device.
        let huge = MemoryDesc::new([isize::MAX as usize / 64], DataType::F32);
        let error = engine.create_memory(&huge, MemoryKind::Buffer).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error:?}");
    }
}

//! The default allocators of every kind of memory, on every device there is.

#![allow(clippy::undocumented_unsafe_blocks, clippy::unwrap_used, reason = "tests of raw handles")]

mod common;

use anydnn_backend::{
    Allocator, AllocatorStats, Engine, Error, Event, EventStatus, Memory, MemoryKind, Range, Stream,
    StreamDesc,
};
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{OpenCl, OpenClEngine, OpenClMemory};
use common::{bytes_desc, eventually, release_event, set, user_event};

/// Every device with every kind of its memory.
fn each_kind(mut check: impl FnMut(&OpenClEngine, MemoryKind)) {
    for engine in test_engines() {
        let kinds = engine.capabilities().memory_kinds.clone();
        assert!(kinds.len() >= 2, "{engine:?} has pointer memory of no kind: {kinds:?}");
        for kind in kinds {
            check(&engine, kind);
        }
    }
}

/// Where memory is: its buffer object or its address.
fn place(memory: &OpenClMemory) -> (u64, usize) {
    (memory.region().allocation, memory.region().offset)
}

fn range(memory: &OpenClMemory, bytes: usize) -> Range<OpenCl> {
    Range { memory: memory.clone(), offset: 0, bytes }
}

#[test]
fn each_kind_has_a_pool_of_its_own() {
    each_kind(|engine, kind| {
        let allocator = engine.allocator_of(kind).unwrap();
        let first = allocator.allocate(1000, 0).unwrap();
        assert_eq!((allocator.kind(), first.kind(), first.region().bytes), (Some(kind), kind, 1000));
        let (at, used) = (place(&first), allocator.stats());
        assert_eq!((used.in_use_bytes, used.parked_bytes), (1024, 0));
        allocator.free(first, None).unwrap();
        let others = engine.capabilities().memory_kinds.iter().filter(|&&other| other != kind);
        for &other in others {
            let other = engine.allocator_of(other).unwrap();
            let memory = other.allocate(1000, 0).unwrap();
            assert_ne!(place(&memory), at, "memory of another kind");
            drop(memory);
        }
        let again = allocator.allocate(900, 0).unwrap();
        assert_eq!(place(&again), at);
        allocator.free(again, None).unwrap();
        let expected =
            AllocatorStats { in_use_bytes: 0, peak_bytes: 1024, parked_bytes: 1024, created: 1, reused: 1 };
        assert_eq!(allocator.stats(), AllocatorStats { created: allocator.stats().created, ..expected });
        allocator.trim();
        assert_eq!(allocator.stats().parked_bytes, 0);
    });
    for engine in test_engines() {
        assert_eq!(engine.opencl_allocator().kind(), Some(MemoryKind::Buffer));
        let error = engine.allocator_of(MemoryKind::Host).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    }
}

#[test]
fn few_bytes_are_enqueued_without_waiting_for_what_is_before_them() {
    each_kind(|engine, kind| {
        let memory = engine.create_memory(&common::bytes_desc(512), kind).unwrap();
        for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
            let stream = engine.create_stream(&desc).unwrap();
            let mut expected: Vec<u8> = (0..=255).chain(0..=255).collect();
            stream.write(&memory, 0, &expected, &[]).unwrap().wait().unwrap();
            let (raw, gate) = user_event(engine);
            let mut events = vec![gate];
            for (offset, bytes) in [(3, 1), (6, 2), (16, 8), (48, 16), (128, 128), (300, 4)] {
                let given: Vec<u8> = (0..bytes).map(|i| (7 + i * 3) as u8).collect();
                // Would wait for the gate for ever otherwise; the bytes are free for reuse.
                let event = stream.enqueue_write(&memory, offset, &given, &events).unwrap();
                assert_ne!(event.status().unwrap(), EventStatus::Complete, "{kind}");
                expected[offset..offset + bytes].copy_from_slice(&given);
                events = vec![event];
            }
            set(raw, 0);
            // What no command can take along waits.
            for (offset, bytes) in [(401, 2), (410, 24), (440, 0)] {
                let given = vec![9; bytes];
                events = vec![stream.enqueue_write(&memory, offset, &given, &events).unwrap()];
                expected[offset..offset + bytes].copy_from_slice(&given);
            }
            let mut found = vec![0; 512];
            stream.read(&memory, 0, &mut found, &events).unwrap();
            assert_eq!(found, expected, "{kind}");
            let error = stream.enqueue_write(&memory, 510, &[0; 4], &[]).unwrap_err().to_string();
            assert!(error.contains("enqueue write") && error.contains("512"), "{error}");
            release_event(raw);
        }
    });
}

#[test]
fn memory_is_reused_and_trimmed_only_after_its_event() {
    each_kind(|engine, kind| {
        let allocator = engine.allocator_of(kind).unwrap();
        for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
            let stream = engine.create_stream(&desc).unwrap();
            let target = common::memory(engine, 4096);
            let first = allocator.allocate(4096, 0).unwrap();
            stream.write(&first, 0, &[5; 4096], &[]).unwrap().wait().unwrap();
            let at = place(&first);
            let (raw, gate) = user_event(engine);
            let copied = stream.copy(range(&first, 4096), range(&target, 4096), &[gate]).unwrap();
            allocator.free(first, Some(&copied)).unwrap();
            allocator.trim();
            assert_eq!(allocator.stats().parked_bytes, 4096, "{kind}: the copy has not run");
            let second = allocator.allocate(4096, 0).unwrap();
            assert_ne!(place(&second), at, "{kind}: the copy has not run");
            let other = engine.create_stream(&desc).unwrap();
            other.write(&second, 0, &[6; 4096], &[]).unwrap().wait().unwrap();
            set(raw, 0);
            copied.wait().unwrap();
            let mut bytes = vec![0; 4096];
            stream.read(&target, 0, &mut bytes, &[copied]).unwrap();
            assert_eq!(bytes, [5; 4096], "{kind}");
            let third = allocator.allocate(4096, 0).unwrap();
            assert_eq!(place(&third), at, "{kind}: the copy has run");
            allocator.free(third, None).unwrap();
            allocator.free(second, None).unwrap();
            allocator.trim();
            let stats = allocator.stats();
            assert_eq!((stats.parked_bytes, stats.in_use_bytes), (0, 0), "{kind}");
            release_event(raw);
        }
    });
}

#[test]
fn commands_in_flight_keep_memory_from_reuse_even_without_an_event() {
    each_kind(|engine, kind| {
        let allocator = engine.allocator_of(kind).unwrap();
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let (first, target) = (allocator.allocate(256, 0).unwrap(), common::memory(engine, 256));
        let at = place(&first);
        let (raw, gate) = user_event(engine);
        let copied = stream.copy(range(&first, 256), range(&target, 256), &[gate]).unwrap();
        allocator.free(first, None).unwrap();
        assert_ne!(place(&allocator.allocate(256, 0).unwrap()), at, "{kind}");
        set(raw, 0);
        copied.wait().unwrap();
        assert_eq!(place(&allocator.allocate(256, 0).unwrap()), at, "{kind}");
        release_event(raw);
    });
}

#[test]
fn addresses_are_aligned_as_asked() {
    each_kind(|engine, kind| {
        let allocator = engine.allocator_of(kind).unwrap();
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        for alignment in [0, 1, 2, 16, 64, 128, 256, 1024, 4096, 1 << 16, 48] {
            for _ in 0..3 {
                let memory = allocator.allocate(1000, alignment).unwrap();
                assert!(memory.raw_pointer().addr().is_multiple_of(alignment.max(1)), "{kind} {alignment}");
                assert!(memory.region().offset.is_multiple_of(alignment.max(1)), "{kind} {alignment}");
                let bytes = [alignment as u8 ^ 0x5A; 1000];
                stream.write(&memory, 0, &bytes, &[]).unwrap();
                let mut read = [0; 1000];
                stream.read(&memory, 0, &mut read, &[]).unwrap();
                assert_eq!(read, bytes, "{kind} {alignment}");
                allocator.free(memory, None).unwrap();
            }
        }
        let stats = allocator.stats();
        assert!(stats.reused > stats.created && stats.in_use_bytes == 0, "{kind}: {stats:?}");
    });
}

#[test]
fn what_is_parked_has_a_limit_and_the_oldest_goes_first() {
    each_kind(|engine, kind| {
        let allocator = engine.allocator_of(kind).unwrap();
        assert!(engine.parked_limit() >= 1 << 20);
        // So far apart that none serves for another.
        let sizes = [1 << 8, 1 << 12, 1 << 16];
        engine.set_parked_limit((1 << 12) + (1 << 16));
        let held = sizes.map(|bytes| allocator.allocate(bytes, 0).unwrap());
        for memory in held {
            allocator.free(memory, None).unwrap();
        }
        assert_eq!(allocator.stats().parked_bytes, (1 << 12) + (1 << 16));
        let before = allocator.stats().reused;
        let held = sizes.map(|bytes| {
            let memory = allocator.allocate(bytes, 0).unwrap();
            (memory, allocator.stats().reused - before)
        });
        assert_eq!([held[0].1, held[1].1, held[2].1], [0, 1, 2], "{kind}: the oldest was not the one freed");
        for (memory, _) in held {
            allocator.free(memory, None).unwrap();
        }
        engine.set_parked_limit(1 << 16);
        assert_eq!(allocator.stats().parked_bytes, 1 << 16, "{kind}: a lower limit holds at once");
        // Beyond the limit, memory still waits for its command.
        engine.set_parked_limit(0);
        assert_eq!(allocator.stats().parked_bytes, 0);
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let (raw, gate) = user_event(engine);
        let event = stream.marker(&[gate]).unwrap();
        let memory = allocator.allocate(100, 0).unwrap();
        allocator.free(memory, Some(&event)).unwrap();
        assert_eq!(allocator.stats().parked_bytes, 256, "{kind}");
        set(raw, 0);
        event.wait().unwrap();
        // Drivers let go of ended commands a moment later.
        eventually(|| {
            let stats = allocator.stats();
            (stats.parked_bytes, stats.in_use_bytes) == (0, 0)
        });
        release_event(raw);
        engine.set_parked_limit(usize::MAX);
    });
}

#[test]
fn sizes_beyond_the_device_are_out_of_memory() {
    each_kind(|engine, kind| {
        let allocator = engine.allocator_of(kind).unwrap();
        let memory = allocator.allocate(1 << 20, 0).unwrap();
        allocator.free(memory, None).unwrap();
        let beyond = engine.opencl_device().memory_bytes() as usize + 1;
        for bytes in [usize::MAX, usize::MAX - 4096, isize::MAX as usize, beyond] {
            for alignment in [0, 64, 4096] {
                let error = allocator.allocate(bytes, alignment).unwrap_err();
                assert!(matches!(error, Error::OutOfMemory { .. }), "{kind} {bytes} {alignment}: {error:?}");
            }
        }
        let error = engine.create_memory(&bytes_desc(beyond), kind).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { bytes, .. } if bytes == beyond), "{error:?}");
        let stats = allocator.stats();
        assert_eq!((stats.in_use_bytes, stats.created), (0, 1), "{kind}");
        assert_eq!(stats.parked_bytes, 1 << 20, "{kind}: no trimming could have helped");
    });
}

#[test]
fn running_out_frees_what_all_kinds_have_parked() {
    each_kind(|engine, kind| {
        for &other in &engine.capabilities().memory_kinds {
            let allocator = engine.allocator_of(other).unwrap();
            let memory = allocator.allocate(1 << 20, 0).unwrap();
            allocator.free(memory, None).unwrap();
        }
        // Within the device's memory, but more than drivers make in one piece or the host has free.
        let most = engine.opencl_device().memory_bytes() as usize;
        let created = engine.create_memory(&bytes_desc(most), kind);
        let parked = |kind| engine.allocator_of(kind).unwrap().stats().parked_bytes;
        let left: usize = engine.capabilities().memory_kinds.iter().map(|&kind| parked(kind)).sum();
        match created {
            Err(Error::OutOfMemory { bytes, .. }) => assert_eq!((bytes, left), (most, 0), "{kind}"),
            Err(other) => panic!("{kind}: {other:?}"),
            Ok(_) => assert!(left > 0, "{kind}: nothing was missing"),
        }
        let from_pool = engine.allocator_of(kind).unwrap().allocate(most, 0);
        assert!(matches!(from_pool, Ok(_) | Err(Error::OutOfMemory { .. })), "{kind}: {from_pool:?}");
    });
}

#[test]
fn what_never_comes_back_properly_is_counted_out_all_the_same() {
    each_kind(|engine, kind| {
        let allocator = engine.allocator_of(kind).unwrap();
        // Dropped instead of given back.
        drop(allocator.allocate(100, 0).unwrap());
        assert_eq!((allocator.stats().in_use_bytes, allocator.stats().parked_bytes), (0, 0));
        // Given back twice, by two handles: a view stands for its memory.
        let memory = allocator.allocate(100, 0).unwrap();
        let view = memory.view(&bytes_desc(10), 50).unwrap();
        allocator.free(memory, None).unwrap();
        allocator.free(view.clone(), None).unwrap();
        assert_eq!((allocator.stats().in_use_bytes, allocator.stats().parked_bytes), (0, 256));
        assert_eq!(allocator.stats().reused, 0);
        drop((allocator.allocate(100, 0).unwrap(), view));
        assert_eq!(allocator.stats().reused, 0, "a view was left");
        // Not from the allocator, and freed after its event.
        let own = engine.create_memory(&bytes_desc(64), kind).unwrap();
        let (raw, gate) = user_event(engine);
        allocator.free(own, Some(&gate)).unwrap();
        set(raw, 0);
        gate.wait().unwrap();
        release_event(raw);
        // Of another engine.
        let other = OpenClEngine::on_device(engine.opencl_device()).unwrap();
        let foreign = other.allocator_of(kind).unwrap().allocate(8, 0).unwrap();
        assert!(matches!(allocator.free(foreign, None), Err(Error::Mismatch { .. })));
        // Without bytes.
        let empty = allocator.allocate(0, 4096).unwrap();
        assert_eq!((empty.kind(), empty.raw_pointer().addr()), (kind, 0));
        allocator.free(empty, None).unwrap();
        allocator.trim();
        let stats = allocator.stats();
        assert_eq!((stats.in_use_bytes, stats.parked_bytes, stats.created), (0, 0, 3), "{kind}");
    });
}

#[test]
fn eight_threads_share_the_pools() {
    each_kind(|engine, kind| {
        let allocator = engine.allocator_of(kind).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8_usize {
                let allocator = &allocator;
                scope.spawn(move || {
                    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
                    for i in 0..1000_usize {
                        let bytes = 1 + (i * 37 + thread * 101) % 5000;
                        let memory = allocator.allocate(bytes, [0, 64, 512][i % 3]).unwrap();
                        if i % 100 != 0 {
                            allocator.free(memory, None).unwrap();
                            continue;
                        }
                        let (value, mut read) = ((thread * 10 + i / 100) as u8, vec![0; bytes]);
                        let written = stream.write(&memory, 0, &vec![value; bytes], &[]).unwrap();
                        stream.read(&memory, 0, &mut read, &[]).unwrap();
                        assert!(read.iter().all(|&byte| byte == value), "two threads got the same bytes");
                        allocator.free(memory, Some(&written)).unwrap();
                    }
                });
            }
        });
        let stats = allocator.stats();
        assert_eq!((stats.in_use_bytes, stats.created + stats.reused), (0, 8000), "{kind}: {stats:?}");
        assert!(stats.reused > 7000, "{kind}: {stats:?}");
        allocator.trim();
        assert_eq!(allocator.stats().parked_bytes, 0, "{kind}");
    });
}

#[test]
fn buffers_are_kept_for_their_event_whatever_becomes_of_the_engine() {
    for engine in test_engines() {
        let engine = OpenClEngine::on_device(engine.opencl_device()).unwrap();
        let allocator = engine.allocator_of(MemoryKind::Buffer).unwrap();
        // Of the pool, of the engine, and beyond what may be parked.
        let pooled = allocator.allocate(100, 0).unwrap();
        let own = common::memory(&engine, 100);
        let evicted = allocator.allocate(1 << 20, 0).unwrap();
        let raws = [pooled.raw_mem(), own.raw_mem(), evicted.raw_mem()];
        for raw in raws {
            unsafe { cl3::memory::retain_mem_object(raw) }.unwrap();
        }
        let (event, gate) = user_event(&engine);
        engine.set_parked_limit(1 << 10);
        for memory in [evicted, own, pooled] {
            allocator.free(memory, Some(&gate)).unwrap();
        }
        assert_eq!(allocator.stats().parked_bytes, (1 << 20) + 256);
        assert_eq!(raws.map(common::mem_count), [2; 3]);
        drop((allocator, engine));
        assert_eq!(raws.map(common::mem_count), [2; 3], "the engine took buffers with it");
        set(event, 0);
        gate.wait().unwrap();
        assert_eq!(raws.map(common::mem_count), [1; 3]);
        for raw in raws {
            unsafe { cl3::memory::release_mem_object(raw) }.unwrap();
        }
        release_event(event);
    }
}

#[test]
fn engines_go_with_memory_parked_and_commands_in_flight() {
    each_kind(|engine, kind| {
        let engine = OpenClEngine::on_device(engine.opencl_device()).unwrap();
        let allocator = engine.allocator_of(kind).unwrap();
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let (source, target) = (allocator.allocate(512, 0).unwrap(), allocator.allocate(512, 0).unwrap());
        stream.write(&source, 0, &[9; 512], &[]).unwrap();
        let (raw, gate) = user_event(&engine);
        let copied = stream.copy(range(&source, 512), range(&target, 512), &[gate]).unwrap();
        let idle = allocator.allocate(100, 0).unwrap();
        allocator.free(idle, None).unwrap();
        allocator.free(source, Some(&copied)).unwrap();
        allocator.free(target, Some(&copied)).unwrap();
        // The event holds no engine.
        drop((allocator, stream, engine));
        assert!(copied.status().unwrap() < anydnn_backend::EventStatus::Complete, "{kind}");
        set(raw, 0);
        copied.wait().unwrap();
        release_event(raw);
    });
}

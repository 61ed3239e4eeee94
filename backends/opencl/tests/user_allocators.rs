//! Temporary memory from the user's callbacks, on every device there is.

#![allow(clippy::undocumented_unsafe_blocks, clippy::unwrap_used, reason = "tests of raw handles")]

mod common;

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use anydnn_backend::{
    Allocator, AllocatorStats, Engine, Error, Event, Memory, MemoryKind, Range, Stream, StreamDesc,
};
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{OpenClEngine, OpenClMemory, UserAllocator};
use common::{bytes_desc, eventually, release_event, set, user_event};

/// One call of a callback.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Call {
    Allocate {
        bytes: usize,
        alignment: usize,
        device: usize,
        context: usize,
    },
    /// With the event and its status at the time.
    Free {
        pointer: usize,
        device: usize,
        context: usize,
        event: Option<(usize, i32)>,
    },
}

/// A user's allocator that writes down its calls. The memory is that of an engine of its own in the same context.
#[derive(Clone)]
struct Recorder {
    calls: Arc<Mutex<Vec<Call>>>,
    memory: Arc<Mutex<HashMap<usize, OpenClMemory>>>,
}

impl Recorder {
    fn new() -> Self {
        Self { calls: Arc::default(), memory: Arc::default() }
    }

    /// An engine in the same context that allocates here, memory of a kind.
    fn engine(&self, base: &OpenClEngine, kind: MemoryKind) -> OpenClEngine {
        let (on_allocate, on_free, source) = (self.clone(), self.clone(), base.clone());
        let allocate = move |bytes, alignment, device: *mut c_void, context: *mut c_void| {
            let memory = source.create_memory(&bytes_desc(bytes), kind).unwrap();
            let pointer = memory.raw_pointer();
            on_allocate.memory.lock().unwrap().insert(pointer.addr(), memory);
            let (device, context) = (device.addr(), context.addr());
            on_allocate.calls.lock().unwrap().push(Call::Allocate { bytes, alignment, device, context });
            pointer
        };
        let free = move |pointer: *mut c_void,
                         device: *mut c_void,
                         context: *mut c_void,
                         event: Option<*mut c_void>| {
            let pointer = pointer.addr();
            let memory = on_free.memory.lock().unwrap().remove(&pointer);
            assert!(memory.is_some(), "{pointer:#x} is freed, but was not allocated");
            let event = event.map(|event| (event.addr(), status(event)));
            let (device, context) = (device.addr(), context.addr());
            on_free.calls.lock().unwrap().push(Call::Free { pointer, device, context, event });
        };
        let allocator = unsafe { UserAllocator::new(allocate, free) };
        let svm = matches!(kind, MemoryKind::Svm | MemoryKind::SvmFine);
        base.with_allocator(if svm { allocator.with_kind(kind) } else { allocator }).unwrap()
    }

    fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    fn frees(&self) -> Vec<(usize, Option<(usize, i32)>)> {
        let freed = |call| match call {
            Call::Free { pointer, event, .. } => Some((pointer, event)),
            Call::Allocate { .. } => None,
        };
        self.calls().into_iter().filter_map(freed).collect()
    }

    fn left(&self) -> usize {
        self.memory.lock().unwrap().len()
    }
}

fn status(event: *mut c_void) -> i32 {
    let bytes = cl3::event::get_event_data(event, cl3::event::CL_EVENT_COMMAND_EXECUTION_STATUS).unwrap();
    i32::from_ne_bytes(bytes.try_into().unwrap())
}

/// Every device with an engine for every kind of pointer memory.
fn each_kind(mut check: impl FnMut(&OpenClEngine, &Recorder, MemoryKind)) {
    for base in test_engines() {
        let kinds = base.capabilities().memory_kinds.iter().copied().filter(|kind| kind.is_pointer());
        let kinds: Vec<_> = kinds.collect();
        assert!(!kinds.is_empty(), "{base:?}");
        for kind in kinds {
            let recorder = Recorder::new();
            let engine = recorder.engine(&base, kind);
            check(&engine, &recorder, kind);
            drop(engine);
            eventually(|| recorder.left() == 0);
        }
    }
}

#[test]
fn callbacks_get_what_was_asked_for() {
    each_kind(|engine, recorder, kind| {
        let allocator = engine.allocator();
        let (device, context) = (engine.raw_device().addr(), engine.raw_context().addr());
        let mut pointers = Vec::new();
        for (bytes, alignment) in [(1000, 64), (1, 0), (4097, 128), (0, 16)] {
            let memory = allocator.allocate(bytes, alignment).unwrap();
            assert_eq!(memory.region().bytes, bytes);
            if bytes > 0 {
                assert_eq!(memory.kind(), kind);
                pointers.push(memory.raw_pointer().addr());
            }
            allocator.free(memory, None).unwrap();
        }
        let allocate = |bytes, alignment| Call::Allocate { bytes, alignment, device, context };
        let free = |i: usize| Call::Free { pointer: pointers[i], device, context, event: None };
        let expected = [allocate(1000, 64), free(0), allocate(1, 0), free(1), allocate(4097, 128), free(2)];
        assert_eq!(recorder.calls(), expected);
        assert_eq!(
            allocator.stats(),
            AllocatorStats { peak_bytes: 4097, created: 3, ..AllocatorStats::default() }
        );
        // Other memory of the engine is none of the user's business.
        drop(engine.create_memory(&bytes_desc(100), kind).unwrap());
        let pooled = engine.allocator_of(kind).unwrap();
        let memory = pooled.allocate(100, 0).unwrap();
        pooled.free(memory, None).unwrap();
        assert_eq!(recorder.calls().len(), 6);
        assert_eq!((pooled.stats().created, pooled.stats().parked_bytes), (1, 256));
    });
}

#[test]
fn memory_is_freed_when_its_event_has_ended_and_not_before() {
    each_kind(|engine, recorder, kind| {
        let allocator = engine.allocator();
        for (round, desc) in [StreamDesc::default(), StreamDesc::out_of_order()].into_iter().enumerate() {
            let stream = engine.create_stream(&desc).unwrap();
            let target = common::memory(engine, 64);
            let memory = allocator.allocate(64, 0).unwrap();
            let pointer = memory.raw_pointer().addr();
            stream.write(&memory, 0, &[3; 64], &[]).unwrap();
            let (raw, gate) = user_event(engine);
            let from = Range { memory: memory.clone(), offset: 0, bytes: 64 };
            let to = Range { memory: target.clone(), offset: 0, bytes: 64 };
            let copied = stream.copy(from, to, &[gate]).unwrap();
            allocator.free(memory, Some(&copied)).unwrap();
            allocator.trim();
            assert_eq!(recorder.frees().len(), 2 * round, "{kind}: the copy has not run");
            assert_eq!((allocator.stats().in_use_bytes, allocator.stats().parked_bytes), (0, 64));
            set(raw, 0);
            copied.wait().unwrap();
            let event = (copied.raw_event().addr(), cl3::event::CL_COMPLETE);
            assert_eq!(recorder.frees().last(), Some(&(pointer, Some(event))), "{kind}");
            assert_eq!(allocator.stats().parked_bytes, 0);
            let mut bytes = [0; 64];
            stream.read(&target, 0, &mut bytes, &[]).unwrap();
            assert_eq!(bytes, [3; 64], "{kind}");
            release_event(raw);

            // Nobody waits, but the allocator is asked.
            let (raw, gate) = user_event(engine);
            let memory = allocator.allocate(64, 0).unwrap();
            allocator.free(memory, Some(&gate)).unwrap();
            assert_eq!(recorder.frees().len(), 2 * round + 1);
            set(raw, 0);
            allocator.trim();
            assert_eq!(recorder.frees().len(), 2 * round + 2, "{kind}");
            release_event(raw);
        }
    });
}

#[test]
fn memory_is_freed_once_when_everything_goes_before_its_commands() {
    for given_back in [true, false] {
        each_kind(|engine, recorder, kind| {
            let (raw, gate) = user_event(engine);
            let target = common::memory(engine, 64);
            {
                let engine = engine.clone();
                let stream = engine.create_stream(&StreamDesc::default()).unwrap();
                let memory = engine.allocator().allocate(64, 0).unwrap();
                let from = Range { memory: memory.clone(), offset: 0, bytes: 64 };
                let to = Range { memory: target, offset: 0, bytes: 64 };
                let copied = stream.copy(from, to, &[gate]).unwrap();
                if given_back {
                    engine.allocator().free(memory, Some(&copied)).unwrap();
                }
            }
            assert_eq!(recorder.frees().len(), 0, "{kind}: the copy has not run");
            set(raw, 0);
            eventually(|| recorder.left() == 0);
            eventually(|| recorder.frees().len() == 1);
            let event = recorder.frees()[0].1;
            assert_eq!(event.map(|(_, status)| status), given_back.then_some(cl3::event::CL_COMPLETE));
            release_event(raw);
        });
    }
}

#[test]
fn every_handle_must_go_before_the_memory_does() {
    each_kind(|engine, recorder, _| {
        let allocator = engine.allocator();
        let memory = allocator.allocate(100, 0).unwrap();
        let view = memory.view(&bytes_desc(10), 5).unwrap();
        allocator.free(memory, None).unwrap();
        allocator.free(view.clone(), None).unwrap();
        assert_eq!((recorder.frees().len(), allocator.stats().parked_bytes), (0, 100));
        drop(view);
        assert_eq!((recorder.frees().len(), allocator.stats().parked_bytes), (1, 0));
        // Dropped instead of given back.
        drop(allocator.allocate(100, 0).unwrap());
        assert_eq!((recorder.frees().len(), allocator.stats().in_use_bytes), (2, 0));
    });
}

#[test]
fn one_event_may_be_that_of_many_frees() {
    each_kind(|engine, recorder, kind| {
        let (raw, gate) = user_event(engine);
        let memories = [10, 20, 30].map(|bytes| engine.allocator().allocate(bytes, 0).unwrap());
        for memory in memories {
            engine.allocator().free(memory, Some(&gate)).unwrap();
        }
        assert_eq!((recorder.frees().len(), engine.allocator().stats().parked_bytes), (0, 60), "{kind}");
        set(raw, 0);
        gate.wait().unwrap();
        assert_eq!((recorder.frees().len(), recorder.left()), (3, 0), "{kind}");
        // It has ended already.
        let memory = engine.allocator().allocate(40, 0).unwrap();
        engine.allocator().free(memory, Some(&gate)).unwrap();
        assert_eq!((recorder.frees().len(), recorder.left()), (4, 0), "{kind}");
        release_event(raw);
    });
}

#[test]
fn a_failed_event_frees_too() {
    each_kind(|engine, recorder, kind| {
        let memory = engine.allocator().allocate(10, 0).unwrap();
        let (raw, gate) = user_event(engine);
        engine.allocator().free(memory, Some(&gate)).unwrap();
        set(raw, -5);
        assert!(gate.wait().is_err());
        assert_eq!(recorder.frees()[0].1.map(|(_, status)| status), Some(-5), "{kind}");
        release_event(raw);
    });
}

#[test]
fn failing_callbacks_are_errors() {
    for base in test_engines() {
        let calls = Arc::new(Mutex::new((0, 0)));
        let counted = Arc::clone(&calls);
        let allocate = move |_, alignment, _, _| -> *mut c_void {
            counted.lock().unwrap().0 += 1;
            assert!(alignment != 64, "a panic of the user");
            std::ptr::null_mut()
        };
        let counted = Arc::clone(&calls);
        let free = move |_, _, _, _| counted.lock().unwrap().1 += 1;
        let engine = base.with_allocator(unsafe { UserAllocator::new(allocate, free) }).unwrap();
        let error = engine.allocator().allocate(12_345, 0).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { bytes: 12_345, .. }), "{error:?}");
        assert_eq!(*calls.lock().unwrap(), (1, 0), "nothing was parked that could have helped");
        let pool = engine.allocator_of(MemoryKind::Buffer).unwrap();
        pool.free(pool.allocate(100, 0).unwrap(), None).unwrap();
        engine.allocator().allocate(12_345, 0).unwrap_err();
        assert_eq!(*calls.lock().unwrap(), (3, 0), "asked again when what was parked is freed");
        assert_eq!(pool.stats().parked_bytes, 0);
        let error = engine.allocator().allocate(1, 64).unwrap_err();
        assert!(
            matches!(error, Error::Unavailable { .. }) && error.to_string().contains("panicked"),
            "{error}"
        );
        assert_eq!(engine.allocator().stats(), AllocatorStats::default());
    }
}

#[test]
fn a_panic_while_freeing_stays_where_it_is() {
    for base in test_engines() {
        let kind = base.capabilities().memory_kinds.iter().copied().find(|kind| kind.is_pointer()).unwrap();
        let block = base.create_memory(&bytes_desc(64), kind).unwrap();
        let address = block.raw_pointer().addr();
        let allocate = move |_, _, _, _| std::ptr::with_exposed_provenance_mut(address);
        let free = |_, _, _, _| panic!("a panic of the user");
        let allocator = unsafe { UserAllocator::new(allocate, free) }.with_kind(kind);
        let engine = base.with_allocator(allocator).unwrap();
        let memory = engine.allocator().allocate(64, 0).unwrap();
        engine.allocator().free(memory, None).unwrap();
        assert_eq!(engine.allocator().stats().in_use_bytes, 0);
        // On a thread that no test waits for, behind a callback of the driver.
        let (raw, gate) = user_event(&engine);
        let memory = engine.allocator().allocate(64, 0).unwrap();
        engine.allocator().free(memory, Some(&gate)).unwrap();
        drop(gate);
        set(raw, 0);
        eventually(|| engine.allocator().stats().parked_bytes == 0);
        release_event(raw);
        drop(block);
    }
}

#[test]
fn allocators_of_kinds_without_addresses_are_refused() {
    for base in test_engines() {
        for kind in MemoryKind::ALL {
            let allocator = unsafe { UserAllocator::new(|_, _, _, _| std::ptr::null_mut(), |_, _, _, _| {}) };
            let engine = base.with_allocator(allocator.with_kind(kind));
            let possible = kind.is_pointer() && base.capabilities().memory_kinds.contains(&kind);
            match engine {
                Ok(engine) => assert!(possible && engine.opencl_allocator().kind() == Some(kind)),
                Err(error) => assert!(!possible && matches!(error, Error::Unsupported { .. }), "{error}"),
            }
        }
    }
}

#[test]
fn an_engine_with_an_allocator_is_another_engine_of_the_same_context() {
    each_kind(|engine, recorder, kind| {
        let twin = recorder.engine(engine, kind);
        assert_eq!((twin.raw_context(), twin.raw_device()), (engine.raw_context(), engine.raw_device()));
        assert_ne!(twin.id(), engine.id());
        let memory = twin.allocator().allocate(10, 0).unwrap();
        assert!(matches!(engine.allocator().free(memory.clone(), None), Err(Error::Mismatch { .. })));
        twin.allocator().free(memory, None).unwrap();
        assert_eq!(recorder.frees().len(), 1);
    });
}

#[test]
fn eight_threads_call_back() {
    each_kind(|engine, recorder, kind| {
        std::thread::scope(|scope| {
            for thread in 0..8_usize {
                scope.spawn(move || {
                    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
                    for i in 0..100_usize {
                        let bytes = 1 + (i * 37 + thread * 101) % 500;
                        let memory = engine.allocator().allocate(bytes, 0).unwrap();
                        let written = stream.write(&memory, 0, &vec![1; bytes], &[]).unwrap();
                        let after = (i % 2 == 0).then_some(&written);
                        engine.allocator().free(memory, after).unwrap();
                    }
                    stream.wait().unwrap();
                });
            }
        });
        let stats = engine.allocator().stats();
        assert_eq!((stats.in_use_bytes, stats.parked_bytes, stats.created), (0, 0, 800), "{kind}: {stats:?}");
        assert_eq!((recorder.frees().len(), recorder.left()), (800, 0), "{kind}");
        let early = recorder.frees().iter().any(|(_, event)| event.is_some_and(|(_, status)| status > 0));
        assert!(!early, "{kind}: freed before its event");
    });
}

//! How long memory lives: as long as a handle, a mapping or a command needs it, and no longer.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the tests own every handle they pass")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use anydnn_backend::{
    Arg, DataType, Eltwise, Engine, Error, Event, MapMode, Memory, MemoryDesc, MemoryKind, Op, PrimitiveDesc,
    Stream, StreamDesc,
};
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{OpenClEngine, OpenClEvent, OpenClMemory, OpenClPrimitive, OpenClStream};
use cl3::types::{cl_context, cl_event};
use common::pointers::{UserMemory, pointer_kinds};
use common::{bytes_desc, context, context_count, eventually, range, read_all, release_event, set};

const COUNT: usize = 1000;
const BYTES: usize = 4 * COUNT;

fn floats() -> MemoryDesc {
    MemoryDesc::new([COUNT], DataType::F32)
}

fn values(value: f32) -> Vec<u8> {
    value.to_ne_bytes().repeat(COUNT)
}

fn abs(engine: &OpenClEngine) -> OpenClPrimitive {
    let desc = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Abs)).src(floats()).dst(floats()).build().unwrap();
    engine.create_primitive(&desc).unwrap()
}

/// A context of the test's own, with a count of its references to come back to.
struct Ground {
    context: cl_context,
    /// Made in the context, but not the engine under test.
    user: OpenClEngine,
    references: u32,
}

impl Ground {
    fn new(own: &OpenClEngine) -> Self {
        let context = context(own);
        let user = unsafe { OpenClEngine::from_raw(own.raw_device(), context) }.unwrap();
        Self { context, user, references: context_count(context) }
    }

    fn engine(&self) -> OpenClEngine {
        unsafe { OpenClEngine::from_raw(self.user.raw_device(), self.context) }.unwrap()
    }

    /// Waits until all that was made since is gone: an allocation that was never freed keeps the context.
    fn is_clean(&self) {
        eventually(|| context_count(self.context) == self.references);
    }

    /// An event that holds commands back until it is set.
    fn gate(&self, engine: &OpenClEngine) -> (cl_event, OpenClEvent) {
        let raw = cl3::event::create_user_event(self.context).unwrap();
        (raw, unsafe { OpenClEvent::from_raw(engine, raw) }.unwrap())
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        unsafe { cl3::context::release_context(self.context) }.unwrap();
    }
}

/// Allocations that would take the place of freed ones of their size, and are written to.
fn scribble(engine: &OpenClEngine, kind: MemoryKind) {
    for _ in 0..4 {
        let others: Vec<_> = (0..4).map(|_| engine.create_memory(&floats(), kind).unwrap()).collect();
        for other in &others {
            let mut mapping = other.map(MapMode::Write).unwrap();
            mapping.bytes_mut().fill(0xEE);
            mapping.unmap().unwrap();
        }
    }
}

fn filled(engine: &OpenClEngine, kind: MemoryKind, value: f32) -> OpenClMemory {
    let memory = engine.create_memory(&floats(), kind).unwrap();
    let mut mapping = memory.map(MapMode::Write).unwrap();
    mapping.bytes_mut().copy_from_slice(&values(value));
    mapping.unmap().unwrap();
    memory
}

fn streams(engine: &OpenClEngine) -> [OpenClStream; 2] {
    [StreamDesc::default(), StreamDesc::out_of_order()].map(|desc| engine.create_stream(&desc).unwrap())
}

/// Whether unified shared memory at an address is still allocated; none where only the context's references tell.
fn is_allocated(engine: &OpenClEngine, kind: MemoryKind, address: *mut std::ffi::c_void) -> Option<bool> {
    let usm = [MemoryKind::UsmHost, MemoryKind::UsmDevice, MemoryKind::UsmShared];
    let found = || {
        unsafe { OpenClMemory::from_pointer(engine, &bytes_desc(1), address) }.is_ok_and(|m| m.kind() == kind)
    };
    usm.contains(&kind).then(found)
}

#[test]
fn memory_dropped_while_its_commands_are_held_back_is_freed_after_them() {
    for own in test_engines() {
        let ground = Ground::new(&own);
        for kind in pointer_kinds(&own) {
            let engine = ground.engine();
            let primitive = abs(&engine);
            for stream in streams(&engine) {
                let (gate, wrapped) = ground.gate(&engine);
                let (src, copied) = (filled(&engine, kind, -2.5), filled(&engine, kind, 7.0));
                let (one, other) = (filled(&engine, kind, 0.0), filled(&engine, MemoryKind::Buffer, 0.0));
                let addresses = [src.raw_pointer(), copied.raw_pointer()];
                let args = [(Arg::SRC, src), (Arg::DST, one.clone())];
                let ran = stream.execute(&primitive, &args, std::slice::from_ref(&wrapped)).unwrap();
                let moved =
                    stream.copy(range(&copied, 0, BYTES), range(&other, 0, BYTES), &[wrapped]).unwrap();
                let references = context_count(ground.context);
                drop((args, copied));
                assert_eq!(context_count(ground.context), references, "{kind}: freed before its command ran");
                for address in addresses {
                    assert_ne!(
                        is_allocated(&engine, kind, address),
                        Some(false),
                        "{kind}: freed before its command ran"
                    );
                }
                scribble(&engine, kind);
                set(gate, 0);
                ran.wait().unwrap();
                moved.wait().unwrap();
                for address in addresses {
                    assert_ne!(
                        is_allocated(&engine, kind, address),
                        Some(true),
                        "{kind}: not freed after its command"
                    );
                }
                assert_eq!(read_all(&stream, &one), values(2.5), "{kind}");
                assert_eq!(read_all(&stream, &other), values(7.0), "{kind}");
                release_event(gate);
            }
        }
        ground.is_clean();
    }
}

#[test]
fn everything_may_be_dropped_before_the_commands_run() {
    for own in test_engines() {
        let ground = Ground::new(&own);
        let kinds = own.capabilities().memory_kinds.clone();
        for &kind in &kinds {
            for order in 0..2 {
                let target = UserMemory::new(&ground.user, pointer_kinds(&own)[0], BYTES);
                target.write(&values(0.0));
                let engine = ground.engine();
                let [a, b] = streams(&engine);
                let stream = if order == 0 { a } else { b };
                let (gate, wrapped) = ground.gate(&engine);
                let (src, middle) =
                    (filled(&engine, kind, -3.0), engine.create_memory(&floats(), kind).unwrap());
                let copy = stream.copy(range(&src, 0, BYTES), range(&middle, 0, BYTES), &[wrapped]).unwrap();
                let args = [(Arg::SRC, middle), (Arg::DST, target.wrap_on(&engine, &floats(), 0))];
                stream.execute(&abs(&engine), &args, &[copy]).unwrap();
                stream.flush().unwrap();
                drop((src, args, stream, engine));
                scribble(&ground.user, kind);
                std::thread::sleep(std::time::Duration::from_millis(2));
                assert_eq!(target.read(), values(0.0), "{kind}: nothing has run yet");
                set(gate, 0);
                eventually(|| target.read() == values(3.0));
                release_event(gate);
            }
        }
        // The user's own engine maps through a queue of its own.
        eventually(|| context_count(ground.context) <= ground.references + 1);
    }
}

#[test]
fn memory_of_commands_whose_dependency_fails_is_freed() {
    for own in test_engines() {
        let ground = Ground::new(&own);
        for kind in pointer_kinds(&own) {
            for keep_handles in [true, false] {
                let engine = ground.engine();
                for stream in streams(&engine) {
                    let (gate, wrapped) = ground.gate(&engine);
                    let (src, dst) = (filled(&engine, kind, -1.0), filled(&engine, kind, 0.0));
                    let address = src.raw_pointer();
                    let args = [(Arg::SRC, src.clone()), (Arg::DST, dst.clone())];
                    let ran = stream.execute(&abs(&engine), &args, std::slice::from_ref(&wrapped)).unwrap();
                    let moved = stream
                        .copy(range(&src, 0, 4), range(&dst, 4, 4), std::slice::from_ref(&ran))
                        .unwrap();
                    drop((args, src, dst));
                    if keep_handles {
                        assert_ne!(is_allocated(&engine, kind, address), Some(false), "{kind}: freed early");
                        set(gate, -5);
                        for event in [&ran, &moved] {
                            let error = event.wait().unwrap_err();
                            assert!(matches!(error, Error::Dependency { .. }), "{kind}: {error:?}");
                        }
                        assert_ne!(is_allocated(&engine, kind, address), Some(true), "{kind}: not freed");
                        assert!(stream.wait().is_err());
                    } else {
                        drop((ran, moved, stream, wrapped));
                        set(gate, -5);
                        eventually(|| is_allocated(&engine, kind, address) != Some(true));
                    }
                    release_event(gate);
                }
            }
        }
        ground.is_clean();
    }
}

#[test]
fn replaced_bytes_live_until_their_commands_have_run() {
    for own in test_engines() {
        let ground = Ground::new(&own);
        let engine = ground.engine();
        let (primitive, stream) = (abs(&engine), engine.create_stream(&StreamDesc::default()).unwrap());
        for kind in pointer_kinds(&own) {
            let (gate, wrapped) = ground.gate(&engine);
            let (mut src, first) = (filled(&engine, kind, -1.0), filled(&engine, kind, 0.0));
            let second = filled(&engine, kind, 0.0);
            let run = |src: &OpenClMemory, dst: &OpenClMemory, deps: &[OpenClEvent]| {
                stream.execute(&primitive, &[(Arg::SRC, src.clone()), (Arg::DST, dst.clone())], deps).unwrap()
            };
            run(&src, &first, &[wrapped]);
            src.replace(&filled(&engine, kind, -2.0)).unwrap();
            run(&src, &second, &[]);
            src.replace(&filled(&engine, MemoryKind::Buffer, -3.0)).unwrap();
            scribble(&engine, kind);
            set(gate, 0);
            stream.wait().unwrap();
            assert_eq!(read_all(&stream, &first), values(1.0), "{kind}");
            assert_eq!(read_all(&stream, &second), values(2.0), "{kind}");
            assert_eq!(read_all(&stream, &src), values(-3.0), "{kind}");
            release_event(gate);
        }
        drop((engine, primitive, stream));
        ground.is_clean();
    }
}

#[test]
fn many_dropped_memories_wait_for_one_event() {
    for own in test_engines() {
        let ground = Ground::new(&own);
        for kind in pointer_kinds(&own) {
            let engine = ground.engine();
            let (primitive, stream) =
                (abs(&engine), engine.create_stream(&StreamDesc::out_of_order()).unwrap());
            let (gate, wrapped) = ground.gate(&engine);
            let target = filled(&engine, kind, 0.0);
            let mut last = wrapped;
            for i in 0..64_u8 {
                let src = filled(&engine, kind, -f32::from(i));
                let args = [(Arg::SRC, src), (Arg::DST, target.clone())];
                last = stream.execute(&primitive, &args, &[last]).unwrap();
            }
            drop((stream, primitive));
            set(gate, 0);
            last.wait().unwrap();
            assert_eq!(target.map(MapMode::Read).unwrap().bytes(), values(63.0), "{kind}");
            release_event(gate);
        }
        ground.is_clean();
    }
}

#[test]
fn a_mapping_outlives_memory_stream_and_engine() {
    for own in test_engines() {
        let ground = Ground::new(&own);
        for &kind in &own.capabilities().memory_kinds.clone() {
            for mode in [MapMode::Read, MapMode::ReadWrite] {
                let engine = ground.engine();
                let memory = filled(&engine, kind, 4.0);
                let mapping = memory.map(mode).unwrap();
                drop((memory, engine));
                scribble(&ground.engine(), kind);
                assert_eq!(mapping.bytes(), values(4.0), "{kind}");
                if mode == MapMode::Read { drop(mapping) } else { mapping.unmap().unwrap() }
            }
        }
        ground.is_clean();
    }
}

#[test]
fn the_users_pointers_are_never_freed() {
    for own in test_engines() {
        let ground = Ground::new(&own);
        for kind in pointer_kinds(&own) {
            let (src, dst) =
                (UserMemory::new(&ground.user, kind, BYTES), UserMemory::new(&ground.user, kind, BYTES));
            src.write(&values(-6.0));
            let engine = ground.engine();
            let stream = engine.create_stream(&StreamDesc::default()).unwrap();
            let (gate, wrapped) = ground.gate(&engine);
            let args = [
                (Arg::SRC, src.wrap_on(&engine, &floats(), 0)),
                (Arg::DST, dst.wrap_on(&engine, &floats(), 0)),
            ];
            stream.execute(&abs(&engine), &args, &[wrapped]).unwrap();
            let mapping = args[0].1.map(MapMode::Read).unwrap();
            drop((args, stream, engine));
            mapping.unmap().unwrap();
            set(gate, 0);
            eventually(|| dst.read() == values(6.0));
            // Freeing them, which is checked when they are dropped, is still the user's to do.
            assert_eq!(src.read(), values(-6.0), "{kind}");
            assert_ne!(is_allocated(&ground.user, kind, src.pointer()), Some(false), "{kind}");
            release_event(gate);
        }
        ground.is_clean();
    }
}

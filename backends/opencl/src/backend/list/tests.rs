use std::sync::Arc;

use anydnn_backend::op::{Eltwise, Op};
use anydnn_backend::{
    Allocator, Arg, DataType, Engine, Error, Event, List, ListStep, Memory, MemoryDesc, MemoryKind, Part,
    PrimitiveDesc, Result, Specialize, Stream, StreamDesc,
};
use cl3::types::cl_event;

use super::*;
use crate::backend::engine::OpenClEngine;
use crate::backend::specialize;
use crate::plan::{KernelPlan, Launch, ProgramSource, SpecialProgram, SpecialText};
use crate::testing::test_engines;

const N: usize = 64;
/// Elements, steps and slots: the source, the destination, and an arena with room for two results.
const SLOTS: usize = 3;

/// A program that adds one to bytes, and one more where addresses are odd.
fn program(options: &str) -> ProgramSource {
    const SOURCE: &str = "
        #ifndef ANYDNN_UNALIGNED
        #define ANYDNN_UNALIGNED 0
        #endif
        #ifndef MORE
        #define MORE 0
        #endif
        kernel void add(global const uchar *src, ulong from, global uchar *dst, ulong to) {
            size_t i = get_global_id(0);
            dst[to + i] = src[from + i] + 1 + ANYDNN_UNALIGNED + MORE;
        }";
    ProgramSource { name: "add".into(), source: SOURCE.into(), options: options.into() }
}

/// A primitive that adds one to bytes, and one more through the kernel for odd addresses.
fn add_one(engine: &OpenClEngine, label: &str, spoil: bool) -> OpenClPrimitive {
    // A range that no device takes.
    let local = spoil.then_some([usize::MAX, 1, 1]);
    primitive(engine, label, local, None)
}

fn primitive(
    engine: &OpenClEngine,
    label: &str,
    local: Option<[usize; 3]>,
    special: Option<SpecialProgram>,
) -> OpenClPrimitive {
    let desc = MemoryDesc::new([N / 4], DataType::F32);
    let desc = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(desc.clone()).dst(desc).label(label);
    let launch = Launch {
        sub_group: None,
        program: program(""),
        kernel: "add".into(),
        args: [Arg::SRC, Arg::DST].map(LaunchArg::Memory).to_vec(),
        table: Vec::new(),
        special,
        numbered: false,
        global: [N, 1, 1],
        local,
        alignment: 1,
    };
    let plan = KernelPlan {
        implementation: "ocl:test:add".into(),
        desc: desc.build().unwrap(),
        scratchpad: 0,
        launches: vec![launch],
    };
    OpenClPrimitive::from_plan(engine, plan).unwrap()
}

/// Source, two temporaries, destination: each one more than the one before. The last step is one that fails if `spoil`.
fn chain(engine: &OpenClEngine, spoil: bool) -> Box<dyn List<OpenCl>> {
    let places = [(0, 0), (2, 0), (2, N), (1, 0)].map(|(slot, offset)| Part { slot, offset });
    let steps: Vec<_> = (0..3)
        .map(|i| ListStep {
            primitive: add_one(engine, &format!("step{i}"), spoil && i == 2),
            args: vec![(Arg::SRC, places[i]), (Arg::DST, places[i + 1])],
            waits_for: if i == 0 { vec![] } else { vec![i - 1] },
        })
        .collect();
    engine.ready(&steps, SLOTS).unwrap().expect("a list")
}

fn memory(engine: &OpenClEngine, bytes: usize) -> OpenClMemory {
    engine.create_memory(&MemoryDesc::new([bytes], DataType::U8), MemoryKind::Buffer).unwrap()
}

fn streams(engine: &OpenClEngine) -> [OpenClStream; 3] {
    [StreamDesc::default(), StreamDesc::out_of_order(), StreamDesc::default().with_profiling()]
        .map(|desc| engine.create_stream(&desc).unwrap())
}

fn content(stream: &OpenClStream, memory: &OpenClMemory, after: &OpenClEvent) -> Result<Vec<u8>> {
    let mut bytes = vec![0; memory.desc().size()];
    stream.read(memory, 0, &mut bytes, std::slice::from_ref(after))?;
    Ok(bytes)
}

fn gate(engine: &OpenClEngine) -> (cl_event, OpenClEvent) {
    let raw = cl3::event::create_user_event(engine.raw_context()).unwrap();
    // SAFETY: a live event.
    (raw, unsafe { OpenClEvent::from_raw(engine, raw) }.unwrap())
}

fn release(raw: cl_event) {
    // SAFETY: the reference that making it gave.
    unsafe { cl3::event::release_event(raw) }.unwrap();
}

#[test]
fn lists_follow_their_memory() {
    for engine in test_engines() {
        let mut list = chain(&engine, false);
        let arena = memory(&engine, 2 * N);
        let whole = memory(&engine, 4 * N);
        for stream in streams(&engine) {
            // The same memory twice, other memory, an odd address, and back.
            for (round, (from, to)) in
                [(0, N), (0, N), (2 * N, N), (2 * N + 1, N), (0, 3 * N - 1), (0, N)].into_iter().enumerate()
            {
                let view = |at| whole.view(&MemoryDesc::new([N], DataType::U8), at).unwrap();
                let (src, dst) = (view(from), view(to));
                let start = round as u8 * 10;
                let written = stream.write(&src, 0, &[start; N], &[]).unwrap();
                let done = list.enqueue(&stream, &[&src, &dst, &arena], &[written]).unwrap();
                let odd = u8::from(from % 4 != 0) + u8::from(to % 4 != 0);
                assert_eq!(content(&stream, &dst, &done).unwrap(), [start + 3 + odd; N], "round {round}");
            }
            stream.wait().unwrap();
        }
    }
}

#[test]
fn a_profile_lists_the_steps() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::default().with_profiling()).unwrap();
        let (src, dst, arena) = (memory(&engine, N), memory(&engine, N), memory(&engine, 2 * N));
        let mut list = chain(&engine, false);
        let written = stream.write(&src, 0, &[1; N], &[]).unwrap();
        list.enqueue(&stream, &[&src, &dst, &arena], &[written]).unwrap();
        let profile = stream.profile().unwrap();
        let names: Vec<_> = profile.iter().map(|entry| &*entry.operation).collect();
        assert_eq!(names, ["step0", "step1", "step2"]);
        assert!(profile.iter().all(|entry| entry.nanoseconds > 0 && entry.commands == 1), "{profile:?}");
    }
}

/// Also lists that are enqueued behind one that waits, and after it all the stream works.
#[test]
fn lists_wait_for_events_of_the_user_and_name_the_one_that_failed() {
    for engine in test_engines() {
        let (src, arena) = (memory(&engine, N), memory(&engine, 2 * N));
        let mut list = chain(&engine, false);
        for stream in streams(&engine) {
            for fails in [false, true] {
                let dst = memory(&engine, N);
                stream.write(&src, 0, &[5; N], &[]).unwrap().wait().unwrap();
                stream.write(&dst, 0, &[0; N], &[]).unwrap().wait().unwrap();
                let (raw, gate) = gate(&engine);
                let first = list.enqueue(&stream, &[&src, &dst, &arena], &[gate]).unwrap();
                let second =
                    list.enqueue(&stream, &[&src, &dst, &arena], std::slice::from_ref(&first)).unwrap();
                cl3::event::set_user_event_status(raw, if fails { -5 } else { 0 }).unwrap();
                if fails {
                    for event in [&second, &first] {
                        let error = event.wait().unwrap_err();
                        let Error::Dependency { cause, .. } = error.root() else { panic!("{error:?}") };
                        assert!(
                            cause.contains(&format!("the user's event {raw:p} ended with -5")),
                            "{cause}"
                        );
                    }
                    assert!(stream.wait().is_err());
                } else {
                    assert_eq!(content(&stream, &dst, &second).unwrap(), [8; N]);
                    stream.wait().unwrap();
                }
                release(raw);
            }
            let dst = memory(&engine, N);
            let done = list.enqueue(&stream, &[&src, &dst, &arena], &[]).unwrap();
            assert_eq!(content(&stream, &dst, &done).unwrap(), [8; N]);
        }
    }
}

/// What was enqueued before the failure holds its memory, whether or not anything holds it back, and the stream goes on.
#[test]
fn a_list_that_fails_half_way_holds_its_memory_until_its_commands_have_ended() {
    for engine in test_engines() {
        let (src, dst) = (memory(&engine, N), memory(&engine, N));
        let (mut spoilt, mut whole) = (chain(&engine, true), chain(&engine, false));
        let allocator = engine.opencl_allocator();
        for stream in streams(&engine) {
            for is_gated in [false, true] {
                let arena = allocator.allocate(2 * N, 128).unwrap();
                let held = Arc::downgrade(&arena.allocation);
                let (raw, gate) = gate(&engine);
                let deps = if is_gated { vec![gate] } else { vec![] };
                let error = spoilt.enqueue(&stream, &[&src, &dst, &arena], &deps).unwrap_err();
                assert!(error.to_string().starts_with("step2: kernel add: "), "{error}");
                allocator.free(arena, None).unwrap();
                if is_gated {
                    assert!(held.strong_count() > 1, "commands that wait hold it");
                    cl3::event::set_user_event_status(raw, 0).unwrap();
                }
                stream.wait().unwrap();
                assert_eq!(held.strong_count(), 1, "the pool has it alone");
                release(raw);
                let arena = allocator.allocate(2 * N, 128).unwrap();
                let written = stream.write(&src, 0, &[1; N], &[]).unwrap();
                let done = whole.enqueue(&stream, &[&src, &dst, &arena], &[written]).unwrap();
                assert_eq!(content(&stream, &dst, &done).unwrap(), [4; N]);
                allocator.free(arena, Some(&done)).unwrap();
            }
        }
    }
}

#[test]
fn the_memory_of_a_list_may_be_dropped_at_once() {
    for engine in test_engines() {
        for kind in engine.capabilities().memory_kinds.clone() {
            for stream in streams(&engine) {
                let create =
                    |bytes| engine.create_memory(&MemoryDesc::new([bytes], DataType::U8), kind).unwrap();
                let (raw, gate) = gate(&engine);
                let dst = create(N);
                let done = {
                    let (mut list, src) = (chain(&engine, false), create(N));
                    let written = stream.write(&src, 0, &[7; N], &[]).unwrap();
                    list.enqueue(&stream, &[&src, &dst, &create(2 * N)], &[written, gate]).unwrap()
                };
                cl3::event::set_user_event_status(raw, 0).unwrap();
                assert_eq!(content(&stream, &dst, &done).unwrap(), [10; N], "{kind}");
                release(raw);
            }
        }
    }
}

/// Lists are kept: one on which nothing has changed makes no call for its arguments, which would show in the kernel's.
#[test]
fn kernels_return_to_their_primitive() {
    for engine in test_engines() {
        let primitive = add_one(&engine, "step", false);
        let part = |slot| Part { slot, offset: 0 };
        let steps = [ListStep {
            primitive: primitive.clone(),
            args: vec![(Arg::SRC, part(0)), (Arg::DST, part(1))],
            waits_for: vec![],
        }];
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let (src, dst) = (memory(&engine, N), memory(&engine, N));
        for round in 0..3 {
            let mut list = engine.ready(&steps, 2).unwrap().unwrap();
            stream.write(&src, 0, &[round; N], &[]).unwrap();
            let done = list.enqueue(&stream, &[&src, &dst], &[]).unwrap();
            assert_eq!(content(&stream, &dst, &done).unwrap(), [round + 1; N]);
            drop(list);
            assert_eq!(
                primitive.pool(0, Form::Planned).unwrap().idle_count(),
                1,
                "one kernel serves all lists in turn"
            );
        }
    }
}

/// The program for one shape adds ten more here, which shows that it was taken.
#[test]
fn lists_take_programs_for_one_shape_whether_or_not_their_memory_is_new() {
    for found in test_engines() {
        let engine = OpenClEngine::on_device(found.opencl_device()).unwrap();
        let engine = engine.with_specialization(Specialize::Background);
        for is_new in [false, true] {
            let special = SpecialProgram {
                text: SpecialText::Own(program("-DMORE=10")),
                operations: u64::MAX / 2,
                share: 1,
            };
            let part = |slot| Part { slot, offset: 0 };
            let steps = [ListStep {
                primitive: primitive(&engine, "step", None, Some(special)),
                args: vec![(Arg::SRC, part(0)), (Arg::DST, part(1))],
                waits_for: vec![],
            }];
            let stream = engine.create_stream(&StreamDesc::default()).unwrap();
            let memories = || (memory(&engine, N), memory(&engine, N));
            let (mut src, mut dst) = memories();
            let mut list = engine.ready(&steps, 2).unwrap().unwrap();
            let mut results = Vec::new();
            for _ in 0..2 {
                stream.write(&src, 0, &[1; N], &[]).unwrap();
                let done = list.enqueue(&stream, &[&src, &dst], &[]).unwrap();
                results.push(content(&stream, &dst, &done).unwrap()[0]);
                while !specialize::is_idle() {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                if is_new {
                    (src, dst) = memories();
                }
            }
            assert_eq!(results, [2, 12], "new memory: {is_new}");
        }
    }
}

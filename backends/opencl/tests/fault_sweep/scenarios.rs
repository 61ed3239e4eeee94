//! What programs do with the library.

use std::ffi::c_void;

use anydnn_backend::op::{Eltwise, MatMul, Op};
use anydnn_backend::{
    Allocator, Arg, DataType, Engine, Event, ListStep, MapMode, Memory, MemoryDesc, MemoryKind, Order, Part,
    Primitive, PrimitiveDesc, Range, Result, Stream, StreamDesc,
};
use anydnn_opencl::{
    DiskCache, OpenClDevice, OpenClEngine, OpenClEvent, OpenClMemory, OpenClPrimitive, OpenClStream,
};

use cl3::types::cl_event;

use crate::common;
use crate::sweep::{Action, Scenario};

/// Bytes of the memory that scenarios use.
const BYTES: usize = 256;
const FLOATS: usize = BYTES / 4;

/// Does something when dropped.
struct Finally<F: FnMut()>(F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Every scenario on a device.
pub(crate) fn all(engine: &OpenClEngine) -> Vec<Scenario> {
    let kinds = engine.capabilities().memory_kinds.clone();
    let mut all = vec![enumerate()];
    all.extend(engines(engine));
    all.extend(streams(engine));
    all.extend(kinds.iter().flat_map(|&kind| memories(engine, kind)));
    all.extend(compilation(engine));
    all.extend(kinds.iter().flat_map(|&kind| transfers(engine, kind)));
    all.extend(kinds.iter().flat_map(|&kind| executions(engine, kind)));
    all.extend(lists(engine));
    all.extend(kinds.iter().flat_map(|&kind| maps(engine, kind)));
    all.extend(kinds.iter().map(|&kind| temporary(engine, kind)));
    all.extend(events(engine));
    all
}

fn scenario(
    name: impl Into<String>,
    tolerated: &'static [(&'static str, &'static str)],
    prepare: impl Fn() -> Action + 'static,
) -> Scenario {
    Scenario { name: name.into(), prepare: Box::new(prepare), tolerated, is_slow: false, every: 1 }
}

fn action(action: impl FnMut() -> Result<()> + 'static) -> Action {
    Box::new(action)
}

/// Queries of what older devices do not know, and of what a device may lack.
const OPTIONAL: (&str, &str) = ("clGetDeviceInfo", "what a device does not tell it does not have");

fn enumerate() -> Scenario {
    const LEFT_OUT: &str = "a platform or device that fails is left out and logged";
    const TOLERATED: &[(&str, &str)] = &[
        ("clGetPlatformIDs", "no platform is no failure"),
        ("clGetPlatformInfo", LEFT_OUT),
        ("clGetDeviceIDs", LEFT_OUT),
        ("clGetDeviceInfo", LEFT_OUT),
        ("clRetainDevice", LEFT_OUT),
        ("clGetExtensionFunctionAddressForPlatform", "a function that is missing is a feature that is"),
    ];
    scenario("enumerate devices", TOLERATED, || action(|| anydnn_opencl::devices().map(drop)))
}

fn engines(engine: &OpenClEngine) -> Vec<Scenario> {
    const TOLERATED: &[(&str, &str)] = &[
        OPTIONAL,
        ("clGetExtensionFunctionAddressForPlatform", "a function that is missing is a feature that is"),
    ];
    let (own, device) = (engine.clone(), engine.opencl_device().clone());
    let on_device = scenario("create engine", TOLERATED, move || {
        let device = device.clone();
        action(move || OpenClEngine::on_device(&device).map(drop))
    });
    let from_raw = scenario("create engine from raw", TOLERATED, move || {
        let own = own.clone();
        let context = common::context(&own);
        let release = Finally(move || unsafe { cl3::context::release_context(context) }.unwrap());
        action(move || {
            let _ = &release;
            unsafe { OpenClEngine::from_raw(own.raw_device(), context) }.map(drop)
        })
    });
    let own = engine.clone();
    let describe = scenario("describe device", TOLERATED, move || {
        let own = own.clone();
        action(move || unsafe { OpenClDevice::from_raw(own.raw_device()) }.map(drop))
    });
    vec![on_device, from_raw, describe]
}

fn stream_descs() -> Vec<(&'static str, StreamDesc)> {
    vec![
        ("in-order", StreamDesc::default()),
        ("out-of-order", StreamDesc::out_of_order()),
        ("profiling", StreamDesc::default().with_profiling()),
    ]
}

/// The streams to use a kind of memory on: times do not depend on it.
fn streams_for(kind: MemoryKind) -> impl Iterator<Item = (&'static str, StreamDesc)> {
    stream_descs().into_iter().filter(move |(_, desc)| kind == MemoryKind::Buffer || !desc.profiling)
}

const LET_GO: &str = "a stream is dropped whatever fails, at worst without the rest that its driver needs";
const LETS_GO: &[(&str, &str)] =
    &[("clGetCommandQueueInfo", LET_GO), ("clRetainCommandQueue", LET_GO), ("clReleaseCommandQueue", LET_GO)];

fn streams(engine: &OpenClEngine) -> Vec<Scenario> {
    let create = stream_descs().into_iter().map(|(name, desc)| {
        let engine = engine.clone();
        scenario(format!("create {name} stream"), LETS_GO, move || {
            let (engine, desc) = (engine.clone(), desc.clone());
            action(move || {
                let stream = engine.create_stream(&desc)?;
                stream.flush()?;
                stream.wait()
            })
        })
    });
    let own = engine.clone();
    let from_raw = scenario("create stream from raw", &[], move || {
        let engine = own.clone();
        let queue = common::queue(&engine, engine.raw_context(), 0);
        let release = Finally(move || unsafe { cl3::command_queue::release_command_queue(queue) }.unwrap());
        action(move || {
            let _ = &release;
            unsafe { OpenClStream::from_raw(&engine, queue) }.map(drop)
        })
    });
    create.chain([from_raw]).collect()
}

fn memories(engine: &OpenClEngine, kind: MemoryKind) -> Vec<Scenario> {
    let own = engine.clone();
    let create = scenario(format!("create {kind} memory"), ALLOCATES, move || {
        let engine = own.clone();
        action(move || {
            let desc = common::bytes_desc(BYTES);
            let memory = engine.create_memory(&desc, kind)?;
            let mut other = engine.create_unbacked_memory(&desc, kind)?;
            other.replace(&memory)?;
            memory.view(&common::bytes_desc(7), 3).map(drop)
        })
    });
    let own = engine.clone();
    let from_user = scenario(format!("create {kind} memory from raw"), &[], move || {
        let engine = own.clone();
        let memory = engine.create_memory(&common::bytes_desc(BYTES), kind).unwrap();
        action(move || {
            let desc = common::bytes_desc(BYTES);
            let pointer: *mut c_void = memory.raw_pointer();
            let taken = unsafe {
                match kind {
                    MemoryKind::Buffer => OpenClMemory::from_raw(&engine, &desc, memory.raw_mem()),
                    MemoryKind::Svm | MemoryKind::SvmFine => OpenClMemory::from_svm(&engine, &desc, pointer),
                    _ => OpenClMemory::from_pointer(&engine, &desc, pointer),
                }
            };
            taken.map(drop)
        })
    });
    vec![create, from_user]
}

fn relu() -> PrimitiveDesc {
    let desc = MemoryDesc::new([FLOATS], DataType::F32);
    PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(desc.clone()).dst(desc).build().unwrap()
}

const MISS: &str = "a program that does not load is built from source";
const REBUILT: &[(&str, &str)] = &[
    ("clCreateProgramWithBinary", MISS),
    ("clBuildProgram", MISS),
    ("clCreateKernelsInProgram", MISS),
    ("clCreateKernel", MISS),
    ("clGetProgramInfo", MISS),
];
const NO_UUID: (&str, &str) =
    ("clGetDeviceInfo", "a blob that does not name the device's UUID is a miss later");

fn compilation(engine: &OpenClEngine) -> Vec<Scenario> {
    let device = engine.opencl_device().clone();
    let fresh = move || OpenClEngine::on_device(&device).unwrap().with_disk_cache(DiskCache::off());
    let make = fresh.clone();
    let source = scenario("compile", &[], move || {
        let engine = make();
        action(move || engine.create_primitive(&relu()).map(drop))
    });
    let first = fresh();
    first.create_primitive(&relu()).unwrap();
    let (blob, device) = (first.cache_blob().unwrap(), engine.opencl_device().clone());
    let warm = scenario("compile from blob", REBUILT, move || {
        let (engine, outcome) = OpenClEngine::from_cache_blob(&device, &blob).unwrap();
        assert!(matches!(outcome, anydnn_opencl::CacheOutcome::Warm { .. }), "{outcome:?}");
        let engine = engine.with_disk_cache(DiskCache::off());
        action(move || engine.create_primitive(&relu()).map(drop))
    });
    let blob = scenario("make blob", &[NO_UUID], move || {
        let engine = fresh();
        engine.create_primitive(&relu()).unwrap();
        action(move || engine.cache_blob().map(|blob| assert!(!blob.is_empty())))
    });
    // What blobs do about a failure does not depend on its code.
    let brief = |scenario| Scenario { is_slow: true, every: 3, ..scenario };
    vec![Scenario { is_slow: true, ..source }, brief(warm), brief(blob)]
}

/// A pattern that differs from round to round.
fn pattern(round: u8) -> Vec<u8> {
    (0..BYTES).map(|i| (i as u8).wrapping_mul(3).wrapping_add(round)).collect()
}

fn range(memory: &OpenClMemory) -> Range<anydnn_opencl::OpenCl> {
    Range { memory: memory.clone(), offset: 0, bytes: BYTES }
}

fn transfers(engine: &OpenClEngine, kind: MemoryKind) -> Vec<Scenario> {
    let transfer = move |(name, desc): (&'static str, StreamDesc)| {
        let engine = engine.clone();
        scenario(format!("transfer {kind} memory on {name} stream"), &[], move || {
            let stream = engine.create_stream(&desc).unwrap();
            let create = |kind| engine.create_memory(&common::bytes_desc(BYTES), kind).unwrap();
            let (a, b) = (create(kind), create(MemoryKind::Buffer));
            let (mut round, mut sent, mut seen) = (0, pattern(0), vec![0; BYTES]);
            action(move || {
                // When nothing worked, commands of the attempt before may still be under way.
                stream.wait()?;
                round += 1;
                sent.copy_from_slice(&pattern(round));
                let written = stream.write(&a, 0, &sent, &[])?;
                let copied = stream.copy(range(&a), range(&b), &[written])?;
                stream.flush()?;
                stream.read(&b, 0, &mut seen, &[copied])?;
                assert_eq!(seen, sent);
                stream.wait()
            })
        })
    };
    streams_for(kind).map(transfer).collect()
}

fn executions(engine: &OpenClEngine, kind: MemoryKind) -> Vec<Scenario> {
    let mut all = Vec::new();
    for (primitive, sizes) in primitives(engine) {
        for (name, desc) in streams_for(kind) {
            let (engine, primitive) = (engine.clone(), primitive.clone());
            let name = format!("execute {} on {kind} memory, {name} stream", primitive.implementation());
            all.push(scenario(name, EXECUTES, move || {
                let stream = engine.create_stream(&desc).unwrap();
                execution(&engine, &stream, primitive.clone(), kind, sizes)
            }));
        }
    }
    all
}

const NOT_SEEN: (&str, &str) =
    ("clGetEventInfo", "memory is not reused unless its command is seen to have ended");
const NO_TIMES: (&str, &str) = ("clGetEventProfilingInfo", "a command without times has none");
/// Why a call that makes memory may fail: only for lack of it.
const POOL: &str = "what the pool keeps is freed, then the memory is there";
const ALLOCATES: &[(&str, &str)] = &[
    ("clCreateBuffer", POOL),
    ("clHostMemAllocINTEL", POOL),
    ("clDeviceMemAllocINTEL", POOL),
    ("clSharedMemAllocINTEL", POOL),
    ("clSVMAlloc", POOL),
    NOT_SEEN,
];
const EXECUTES: &[(&str, &str)] = &[("clCreateBuffer", POOL), NO_TIMES];

/// A primitive without a scratchpad and one with; with the number of floats of source, weights and destination.
fn primitives(engine: &OpenClEngine) -> Vec<(OpenClPrimitive, [usize; 3])> {
    const M: usize = 32;
    let matrix = || MemoryDesc::new([M, M], DataType::F32);
    let matmul = PrimitiveDesc::builder(Op::MatMul(MatMul))
        .src(matrix())
        .weights(matrix())
        .dst(matrix())
        .build()
        .unwrap();
    let create = |desc| engine.create_primitive(desc).unwrap();
    vec![(create(&relu()), [FLOATS, 0, FLOATS]), (create(&matmul), [M * M; 3])]
}

fn execution(
    engine: &OpenClEngine,
    stream: &OpenClStream,
    primitive: OpenClPrimitive,
    kind: MemoryKind,
    [src, weights, dst]: [usize; 3],
) -> Action {
    let create =
        |floats: usize| engine.create_memory(&MemoryDesc::new([floats.max(1)], DataType::F32), kind).unwrap();
    let (stream, source, dst_memory) = (stream.clone(), create(src), create(dst));
    let mut args = vec![(Arg::SRC, source.clone()), (Arg::DST, dst_memory.clone())];
    if weights > 0 {
        args.push((Arg::Weights, create(weights)));
    }
    let profiling = stream.desc().profiling;
    let (mut round, mut sent, mut seen) = (0, vec![0; 4 * src.max(weights)], vec![0; 4 * dst]);
    action(move || {
        // When nothing worked, commands of the attempt before may still be under way.
        stream.wait()?;
        round += 1;
        if profiling {
            stream.reset_profile()?;
        }
        let value = round as f32;
        sent.copy_from_slice(&value.to_ne_bytes().repeat(src.max(weights)));
        let mut deps = vec![stream.write(&source, 0, &sent[..4 * src], &[])?];
        if let Some((_, memory)) = args.get(2) {
            deps.push(stream.write(memory, 0, &sent[..4 * weights], &[])?);
        }
        let executed = stream.execute(&primitive, &args, &deps)?;
        let marked = stream.marker(std::slice::from_ref(&executed))?;
        stream.read(&dst_memory, 0, &mut seen, &[marked])?;
        let expected = if weights > 0 { 32.0 * value * value } else { value };
        assert_eq!(seen, expected.to_ne_bytes().repeat(dst));
        executed.status()?;
        if profiling {
            executed.timestamps()?;
            assert!(stream.profile()?.len() <= 1);
        }
        stream.wait()
    })
}

/// Two primitives enqueued as one, on memory that was seen before and on other memory.
fn lists(engine: &OpenClEngine) -> Vec<Scenario> {
    let list = |(name, desc): (&'static str, StreamDesc)| {
        let engine = engine.clone();
        scenario(format!("enqueue list on {name} stream"), EXECUTES, move || {
            let stream = engine.create_stream(&desc).unwrap();
            let primitive = engine.create_primitive(&relu()).unwrap();
            let step = |from, to, waits_for| ListStep {
                primitive: primitive.clone(),
                args: [(Arg::SRC, from), (Arg::DST, to)]
                    .map(|(arg, slot)| (arg, Part { slot, offset: 0 }))
                    .to_vec(),
                waits_for,
            };
            let mut list = engine.ready(&[step(0, 2, vec![]), step(2, 1, vec![0])], 3).unwrap().unwrap();
            let desc = MemoryDesc::new([FLOATS], DataType::F32);
            let create = || engine.create_memory(&desc, MemoryKind::Buffer).unwrap();
            let (source, between, targets) = (create(), create(), [create(), create()]);
            let (mut round, mut sent, mut seen) = (0_usize, vec![0; BYTES], vec![0; BYTES]);
            let profiling = stream.desc().profiling;
            action(move || {
                stream.wait()?;
                round += 1;
                sent.copy_from_slice(&(round as f32).to_ne_bytes().repeat(FLOATS));
                if profiling {
                    stream.reset_profile()?;
                }
                let target = &targets[round / 2 % 2];
                let written = stream.write(&source, 0, &sent, &[])?;
                let done = list.enqueue(&stream, &[&source, target, &between], &[written])?;
                stream.read(target, 0, &mut seen, &[done])?;
                assert_eq!(seen, sent);
                stream.wait()
            })
        })
    };
    stream_descs().into_iter().map(list).collect()
}

const DROPPED: &[(&str, &str)] = &[
    ("clEnqueueUnmapMemObject", "a mapping that is dropped logs its failure"),
    ("clEnqueueSVMUnmap", "as above"),
];

fn maps(engine: &OpenClEngine, kind: MemoryKind) -> Vec<Scenario> {
    let prepare = move |engine: &OpenClEngine| {
        // The queue for mapping is made once.
        let memory = engine.create_memory(&common::bytes_desc(BYTES), kind).unwrap();
        memory.map(MapMode::ReadWrite).unwrap().unmap().unwrap();
        memory
    };
    let own = engine.clone();
    let unmapped = scenario(format!("map {kind} memory"), &[], move || {
        let (memory, mut round) = (prepare(&own), 0);
        action(move || {
            round += 1;
            let mut mapping = memory.map(MapMode::Write)?;
            mapping.bytes_mut().copy_from_slice(&pattern(round));
            mapping.unmap()?;
            let mapping = memory.map(MapMode::Read)?;
            assert_eq!(mapping.bytes(), pattern(round));
            mapping.unmap()?;
            memory.map(MapMode::ReadWrite)?.unmap()
        })
    });
    let own = engine.clone();
    let dropped = scenario(format!("drop mapping of {kind} memory"), DROPPED, move || {
        let memory = prepare(&own);
        action(move || memory.map(MapMode::Read).map(drop))
    });
    let own = engine.clone();
    let first = scenario(format!("map {kind} memory first"), &[], move || {
        // The engine makes its queue for mapping at the first one.
        let engine = unsafe { OpenClEngine::from_raw(own.raw_device(), own.raw_context()) }.unwrap();
        let memory = engine.create_memory(&common::bytes_desc(BYTES), kind).unwrap();
        action(move || memory.map(MapMode::Read)?.unmap())
    });
    vec![unmapped, dropped, first]
}

fn temporary(engine: &OpenClEngine, kind: MemoryKind) -> Scenario {
    let own = engine.clone();
    scenario(format!("allocate temporary {kind} memory"), ALLOCATES, move || {
        let engine = own.clone();
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        action(move || {
            let allocator = engine.allocator_of(kind)?;
            let first = allocator.allocate(1000, 64)?;
            let used = stream.write(&first, 0, &[1; 1000], &[])?;
            allocator.free(first, Some(&used))?;
            let second = allocator.allocate(900, 0)?;
            allocator.free(second, None)?;
            allocator.trim();
            stream.wait()
        })
    })
}

fn events(engine: &OpenClEngine) -> Vec<Scenario> {
    let own = engine.clone();
    let raw = scenario("take and give events", &[], move || {
        let engine = own.clone();
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let raw = cl3::event::create_user_event(engine.raw_context()).unwrap();
        common::set(raw, 0);
        let release = Finally(move || common::release_event(raw));
        action(move || {
            let _ = &release;
            let event = unsafe { OpenClEvent::from_raw(&engine, raw) }?;
            event.status()?;
            let marked = stream.marker(&[event])?;
            marked.wait()?;
            let given = marked.into_raw()?;
            // Not the library's call, so it may not fail.
            let release = || unsafe { cl3::event::release_event(given) };
            release().or(Ok(()))
        })
    });
    // A dependency that is still open: the events of Intel's runtime are shielded on out-of-order streams.
    let gated = [Order::InOrder, Order::OutOfOrder].map(|order| {
        const AWAKE: (&str, &str) =
            ("clGetEventInfo", "the driver waits where the library cannot see to sleep");
        let own = engine.clone();
        scenario(format!("wait for a user event, {order:?} stream"), &[AWAKE], move || {
            let engine = own.clone();
            let desc = StreamDesc { order, ..StreamDesc::default() };
            let (stream, other) =
                (engine.create_stream(&desc).unwrap(), engine.create_stream(&desc).unwrap());
            let mut closed = Vec::new();
            action(move || {
                // What could not be opened in an attempt in which nothing works is opened in the next.
                open(&mut closed);
                let raw = cl3::event::create_user_event(engine.raw_context()).unwrap();
                closed.push(raw);
                let waited = unsafe { OpenClEvent::from_raw(&engine, raw) }
                    .and_then(|gate| stream.marker(&[gate]))
                    .and_then(|first| other.marker(&[first]));
                open(&mut closed);
                let waited = waited.and_then(|event| event.wait());
                // Both, whatever came before.
                let streams = stream.wait().and(other.wait());
                waited.and(streams)
            })
        })
    });
    [raw].into_iter().chain(gated).collect()
}

/// Completes and releases user events.
fn open(closed: &mut Vec<cl_event>) {
    closed.retain(|&raw| {
        let opened = cl3::event::set_user_event_status(raw, 0).is_ok();
        if opened {
            let _ = unsafe { cl3::event::release_event(raw) };
        }
        !opened
    });
}

use anydnn_backend::op::{Eltwise, Op};
use anydnn_backend::{
    Attributes, DataType, Engine, Event, MapMode, Memory, MemoryDesc, MemoryKind, Stream, StreamDesc,
};

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::UserAllocator;
use crate::plan::ProgramSource;
use crate::testing::test_engines;

/// Copies through the scratchpad: the second launch is wrong unless it runs after the first. `ANYDNN_UNALIGNED` adds 100.
const SOURCE: &str = "
    #ifdef ANYDNN_UNALIGNED
    #define ADD 100
    #else
    #define ADD 0
    #endif
    kernel void first(global const uchar *src, ulong at, global uchar *pad, ulong pad_at) {
        size_t i = get_global_id(0);
        if (i < N) pad[pad_at + i] = src[at + i] + 1;
    }
    kernel void second(global const uchar *pad, ulong pad_at, global uchar *dst, ulong at) {
        size_t i = get_global_id(0);
        if (i < N) dst[at + i] = pad[pad_at + N - 1 - i] + ADD;
    }";

const N: usize = 4096;

fn plan(mode: ScratchpadMode, empty: bool) -> KernelPlan {
    let desc = MemoryDesc::new([N / 4], DataType::F32);
    let desc = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu))
        .src(desc.clone())
        .dst(desc)
        .attributes(Attributes::default().with_scratchpad(mode))
        .label("reverse")
        .build()
        .unwrap();
    let program =
        ProgramSource { name: "reverse".into(), source: SOURCE.into(), options: format!("-DN={N}") };
    let pad = LaunchArg::Scratchpad { offset: 16 };
    let launch = |kernel: &str, args: Vec<LaunchArg>| Launch {
        sub_group: None,
        program: program.clone(),
        kernel: kernel.into(),
        args,
        table: Vec::new(),
        special: None,
        numbered: false,
        global: [if empty { 0 } else { N }, 1, 1],
        local: Some([64, 1, 1]),
        alignment: 1,
    };
    let launches = vec![
        launch("first", vec![LaunchArg::Memory(Arg::SRC), pad]),
        launch("second", vec![pad, LaunchArg::Memory(Arg::DST)]),
    ];
    KernelPlan { implementation: "ocl:test:reverse".into(), desc, scratchpad: N + 16, launches }
}

fn bytes() -> Vec<u8> {
    (0..N).map(|i| (i % 151) as u8).collect()
}

fn reversed(add: u8) -> Vec<u8> {
    bytes().iter().rev().map(|b| b + 1 + add).collect()
}

fn memory(engine: &OpenClEngine, bytes: usize) -> OpenClMemory {
    engine.create_memory(&MemoryDesc::new([bytes], DataType::U8), MemoryKind::Buffer).unwrap()
}

#[test]
fn what_is_made_at_once_stays_in_order_and_the_first_failure_counts() {
    let (here, start) = (AtomicUsize::new(0), std::time::Instant::now());
    let make = |i: usize| {
        here.fetch_add(1, Ordering::SeqCst);
        while here.load(Ordering::SeqCst) < 4 && start.elapsed().as_secs() < 10 {
            std::thread::yield_now();
        }
        Ok((i, here.load(Ordering::SeqCst)))
    };
    assert_eq!(all_at_once(vec![7, 3, 5, 1], &make).unwrap(), [(7, 4), (3, 4), (5, 4), (1, 4)]);
    let fails = |i: usize| match i {
        0 => Ok(i),
        1 => Err(Error::unavailable("one", "it fails")),
        _ => panic!("two"),
    };
    assert!(all_at_once(vec![0, 1, 2], &fails).unwrap_err().to_string().contains("it fails"));
    assert!(all_at_once(vec![0, 2], &fails).unwrap_err().to_string().contains("died"));
}

#[test]
fn launches_run_in_order_on_every_kind_of_stream() {
    for engine in test_engines() {
        let primitive = OpenClPrimitive::from_plan(&engine, plan(ScratchpadMode::Library, false)).unwrap();
        for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
            let stream = engine.create_stream(&desc).unwrap();
            let (src, dst) = (memory(&engine, N), memory(&engine, N));
            let written = stream.write(&src, 0, &bytes(), &[]).unwrap();
            let args = [(Arg::SRC, src), (Arg::DST, dst.clone())];
            let mut last = written;
            for _ in 0..8 {
                last = stream.execute(&primitive, &args, &[last]).unwrap();
            }
            last.wait().unwrap();
            assert_eq!(dst.map(MapMode::Read).unwrap().bytes(), reversed(0));
            stream.wait().unwrap();
        }
        let stats = engine.opencl_allocator().stats();
        assert_eq!(stats.in_use_bytes, 0, "{stats:?}");
        assert!(stats.parked_bytes > 0);
        engine.opencl_allocator().trim();
        assert_eq!(engine.opencl_allocator().stats().parked_bytes, 0);
    }
}

#[test]
fn each_execution_has_a_number_of_its_own() {
    const TELL: &str = "
        typedef struct { long number; } Table;
        kernel void tell(global const uchar *src, ulong at, global uchar *dst, ulong to, const ulong execution,
                         const Table table) {
            if (get_global_id(0) != 0) return;
            ((global ulong *)(dst + to))[0] = execution;
            ((global long *)(dst + to))[1] = table.number;
        }";
    let KernelPlan { implementation, desc, mut launches, .. } = plan(ScratchpadMode::Library, false);
    launches.truncate(1);
    for launch in &mut launches {
        launch.program = ProgramSource { name: "tell".into(), source: TELL.into(), options: String::new() };
        launch.kernel = "tell".into();
        launch.args = vec![LaunchArg::Memory(Arg::SRC), LaunchArg::Memory(Arg::DST)];
        launch.table = 7_i64.to_ne_bytes().to_vec();
        launch.numbered = true;
    }
    let plan = KernelPlan { implementation, desc, scratchpad: 0, launches };
    for engine in test_engines() {
        let primitive = OpenClPrimitive::from_plan(&engine, plan.clone()).unwrap();
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let (src, dst) = (memory(&engine, N), memory(&engine, N));
        let args = [(Arg::SRC, src), (Arg::DST, dst.clone())];
        let execute = |_| {
            stream.execute(&primitive, &args, &[]).unwrap();
            let mut out = [[0; 8]; 2];
            stream.read(&dst, 0, out.as_flattened_mut(), &[]).unwrap();
            assert_eq!(i64::from_ne_bytes(out[1]), 7);
            u64::from_ne_bytes(out[0])
        };
        let numbers: std::collections::BTreeSet<u64> = (0..4).map(execute).collect();
        assert_eq!(numbers.len(), 4, "{numbers:?}");
    }
}

#[test]
fn odd_byte_offsets_take_the_unaligned_program() {
    for engine in test_engines() {
        let primitive = OpenClPrimitive::from_plan(&engine, plan(ScratchpadMode::User, false)).unwrap();
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let whole = memory(&engine, 4 * N);
        let view = |offset| whole.view(&MemoryDesc::new([N / 4], DataType::F32), offset).unwrap();
        let pad = memory(&engine, N + 16);
        for (dst, add) in [(2 * N, 0), (2 * N + 1, 100)] {
            stream.write(&whole, 4, &bytes(), &[]).unwrap();
            let args = [(Arg::SRC, view(4)), (Arg::DST, view(dst)), (Arg::Scratchpad, pad.clone())];
            stream.execute(&primitive, &args, &[]).unwrap();
            let mut out = vec![0; N];
            stream.read(&whole, dst, &mut out, &[]).unwrap();
            assert_eq!(out, reversed(add), "dst at {dst}");
        }
        assert_eq!(engine.opencl_allocator().stats().created, 0, "the user's scratchpad was not used");
    }
}

/// Devices may use the host memory behind such a buffer in place, or a copy that starts aligned.
#[test]
fn buffers_over_odd_host_memory_take_the_unaligned_program() {
    for engine in test_engines() {
        let primitive = OpenClPrimitive::from_plan(&engine, plan(ScratchpadMode::Library, false)).unwrap();
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let src = memory(&engine, N);
        stream.write(&src, 0, &bytes(), &[]).unwrap();
        let mut host = vec![0_u32; N / 4 + 2];
        for (skew, offset, add) in [(0, 0, 0), (1, 0, 100), (1, 3, 100), (2, 3, 100)] {
            let start = host.as_mut_ptr().wrapping_byte_add(skew).cast();
            let flags = cl3::memory::CL_MEM_READ_WRITE | cl3::memory::CL_MEM_USE_HOST_PTR;
            // SAFETY: from `start` on there are as many bytes, which outlive the buffer.
            let buffer =
                unsafe { cl3::memory::create_buffer(engine.raw_context(), flags, N + offset, start) }
                    .unwrap();
            // SAFETY: a live buffer.
            let whole = unsafe {
                OpenClMemory::from_raw(&engine, &MemoryDesc::new([N + offset], DataType::U8), buffer)
            }
            .unwrap();
            let dst = whole.view(&MemoryDesc::new([N / 4], DataType::F32), offset).unwrap();
            stream.execute(&primitive, &[(Arg::SRC, src.clone()), (Arg::DST, dst.clone())], &[]).unwrap();
            let mut out = vec![0; N];
            stream.read(&dst, 0, &mut out, &[]).unwrap();
            assert_eq!(out, reversed(add), "{skew} bytes into a word, {offset} into the buffer");
            stream.wait().unwrap();
            drop((whole, dst));
            // SAFETY: the reference that making it gave.
            unsafe { cl3::memory::release_mem_object(buffer) }.unwrap();
        }
    }
}

#[test]
fn a_plan_without_work_gives_an_event_after_its_dependencies() {
    for engine in test_engines() {
        let primitive = OpenClPrimitive::from_plan(&engine, plan(ScratchpadMode::Library, true)).unwrap();
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let (src, dst) = (memory(&engine, N), memory(&engine, N));
        let before = stream.write(&dst, 0, &vec![7; N], &[]).unwrap();
        let event =
            stream.execute(&primitive, &[(Arg::SRC, src), (Arg::DST, dst.clone())], &[before]).unwrap();
        event.wait().unwrap();
        assert_eq!(dst.map(MapMode::Read).unwrap().bytes(), vec![7; N]);
    }
}

#[test]
fn equal_descriptions_share_kernels_and_keep_their_own_names() {
    let matrix = |rows, columns, label: &str| MemoryDesc::new([rows, columns], DataType::F32).labelled(label);
    for engine in test_engines() {
        let make = |n, label: &str| {
            let product = PrimitiveDesc::builder(Op::MatMul(anydnn_backend::op::MatMul))
                .src(matrix(50, 24, label))
                .weights(matrix(24, n, label).to_any())
                .dst(matrix(50, n, label))
                .label(label);
            engine.create_primitive(&product.build().unwrap()).unwrap()
        };
        let (first, second, other) = (make(40, "first"), make(40, "second"), make(41, "other"));
        assert!(Arc::ptr_eq(&first.inner.compiled, &second.inner.compiled));
        assert!(!Arc::ptr_eq(&first.inner.compiled, &other.inner.compiled));
        for (primitive, label) in [(&first, "first"), (&second, "second"), (&other, "other")] {
            assert_eq!(primitive.desc().name(), label);
            assert_eq!(primitive.operation().as_str(), label);
            let weights = primitive.desc().find(Arg::Weights).unwrap();
            assert!(!weights.is_any() && weights.label().is_none_or(|own| own == label), "{weights:?}");
        }
        assert_eq!(first.desc().args(), second.desc().args());
        let kept = Arc::downgrade(&first.inner.compiled);
        drop((first, second));
        assert_eq!(kept.strong_count(), 0, "kernels go with the last primitive that has them");
    }
}

#[test]
fn many_threads_share_a_primitive() {
    for engine in test_engines() {
        let primitive = OpenClPrimitive::from_plan(&engine, plan(ScratchpadMode::Library, false)).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
                    let (src, dst) = (memory(&engine, N), memory(&engine, N));
                    stream.write(&src, 0, &bytes(), &[]).unwrap();
                    let args = [(Arg::SRC, src), (Arg::DST, dst.clone())];
                    for _ in 0..20 {
                        stream.execute(&primitive, &args, &[]).unwrap();
                    }
                    let mut out = vec![0; N];
                    stream.read(&dst, 0, &mut out, &[]).unwrap();
                    assert_eq!(out, reversed(0));
                });
            }
        });
    }
}

/// An engine whose allocator counts its allocations and frees, on memory of a kind.
fn counting(base: &OpenClEngine, kind: MemoryKind) -> (OpenClEngine, Arc<[AtomicUsize; 2]>) {
    let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let held = Arc::new(Mutex::new(HashMap::new()));
    let (allocated, freed) = (Arc::clone(&counts), Arc::clone(&counts));
    let (source, kept) = (base.clone(), Arc::clone(&held));
    let allocate = move |bytes, alignment, _, _| {
        assert_eq!((bytes, alignment), (N + 16, SCRATCHPAD_ALIGNMENT));
        allocated[0].fetch_add(1, Ordering::Relaxed);
        let memory = source.create_memory(&MemoryDesc::new([bytes], DataType::U8), kind).unwrap();
        let pointer = memory.raw_pointer();
        kept.lock().unwrap().insert(pointer.addr(), memory);
        pointer
    };
    let free = move |pointer: *mut c_void, _, _, _| {
        freed[1].fetch_add(1, Ordering::Relaxed);
        assert!(held.lock().unwrap().remove(&pointer.addr()).is_some());
    };
    // SAFETY: memory of the context, which lives until it is freed.
    let allocator = unsafe { UserAllocator::new(allocate, free) }.with_kind(kind);
    (base.with_allocator(allocator).unwrap(), counts)
}

#[test]
fn scratchpads_come_from_the_engines_allocator_and_go_back_after_failures_too() {
    for base in test_engines() {
        let kinds = base.capabilities().memory_kinds.clone();
        for kind in kinds.into_iter().filter(|kind| kind.is_pointer()) {
            let (engine, counts) = counting(&base, kind);
            let counts = || (counts[0].load(Ordering::Relaxed), counts[1].load(Ordering::Relaxed));
            let mut plan = plan(ScratchpadMode::Library, false);
            let primitive = OpenClPrimitive::from_plan(&engine, plan.clone()).unwrap();
            let stream = engine.create_stream(&StreamDesc::default()).unwrap();
            let (src, dst) = (memory(&engine, N), memory(&engine, N));
            stream.write(&src, 0, &bytes(), &[]).unwrap();
            let args = [(Arg::SRC, src), (Arg::DST, dst.clone())];
            for _ in 0..3 {
                stream.execute(&primitive, &args, &[]).unwrap();
            }
            stream.wait().unwrap();
            assert_eq!(dst.map(MapMode::Read).unwrap().bytes(), reversed(0));
            assert_eq!(counts(), (3, 3), "{kind}");
            // Before anything is enqueued.
            assert!(primitive.enqueue(&stream, &args[..1], &[]).is_err());
            assert_eq!(counts(), (4, 4), "{kind}");
            // Half-way: the second launch has a range that no device takes, and the first runs while the memory comes back.
            plan.launches[1].local = Some([usize::MAX, 1, 1]);
            let primitive = OpenClPrimitive::from_plan(&engine, plan).unwrap();
            // SAFETY: a live context.
            let raw = cl3::event::create_user_event(engine.raw_context()).unwrap();
            // SAFETY: a live event.
            let gate = unsafe { OpenClEvent::from_raw(&engine, raw) }.unwrap();
            assert!(primitive.enqueue(&stream, &args, &[gate]).is_err());
            assert_eq!(counts(), (5, 4), "{kind}: the first launch has not run");
            cl3::event::set_user_event_status(raw, 0).unwrap();
            stream.wait().unwrap();
            assert_eq!(counts(), (5, 5), "{kind}");
            assert_eq!(engine.opencl_allocator().stats().in_use_bytes, 0);
            // SAFETY: the test's own reference.
            unsafe { cl3::event::release_event(raw) }.unwrap();
        }
    }
}

#[test]
fn a_wrong_kernel_name_is_a_build_error_that_names_the_primitive() {
    for engine in test_engines() {
        let mut plan = plan(ScratchpadMode::Library, false);
        plan.launches[1].kernel = "third".into();
        let error = OpenClPrimitive::from_plan(&engine, plan).unwrap_err();
        assert!(matches!(error.root(), Error::Build(_)), "{error}");
        assert!(error.to_string().starts_with("reverse: "), "{error}");
    }
}

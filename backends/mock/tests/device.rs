//! Leaks, the log, capabilities, layouts.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use anydnn_backend::op::Reorder;
use anydnn_backend::{
    Arg, DataType, Eltwise, Engine, Error, Event, Layout, MapMode, Memory, MemoryDesc, MemoryKind, Op,
    Primitive, PrimitiveDesc, Stream, StreamDesc,
};
use anydnn_mock::{MockDevice, MockEngine, OpenLayouts};
use common::{Setup, floats};

#[test]
fn leaks_are_named_when_the_device_goes() {
    let device = MockDevice::builder().seed(6).label("leaky").build();
    let engine = device.engine();
    let s = Setup::on(&device, &StreamDesc::default().labelled("main"));
    let memory = engine.create_memory(&floats().labelled("weights"), MemoryKind::Buffer).unwrap();
    let primitive = s.linear(1.0, 0.0);
    let event = s.write(&memory, [0.0; 4]);
    event.wait().unwrap();
    let mapping = memory.map(MapMode::Read).unwrap();
    drop(engine.allocator().allocate(8, 1).unwrap());
    let gate = device.user_event();

    let panic = catch_unwind(AssertUnwindSafe(move || drop(device))).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    insta::assert_snapshot!(message, @r#"
    leaky (seed 6) was dropped before what was made on it:
      stream s0 "main"
      memory m0 (16 bytes) "weights"
      primitive eltwise "linear"
      event of #1 write
      mapping of m0[0..16]
      allocator block m1[0..8], not given back
      event of user event u0
    "#);
    drop((mapping, gate, event, primitive, s));
}

#[test]
fn leaks_can_be_allowed_and_do_not_hide_a_panic() {
    let device = MockDevice::builder().allow_leaks().build();
    let s = Setup::in_order(&device);
    assert_eq!(device.leaks(), ["stream s0"]);
    drop(device);
    drop(s);

    let panic = catch_unwind(|| {
        let mut kept = Vec::new();
        let device = MockDevice::new(0);
        kept.push(Setup::in_order(&device));
        let _device = device;
        std::panic::panic_any("the test's own");
    });
    assert_eq!(*panic.unwrap_err().downcast_ref::<&str>().unwrap(), "the test's own");
}

#[test]
fn an_engine_alone_is_unguarded() {
    let engine = MockEngine::with_seed(8);
    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
    drop(engine);
    stream.marker(&[]).unwrap().wait().unwrap();
}

fn program(seed: u64) -> String {
    let device = MockDevice::new(seed);
    let s = Setup::on(&device, &StreamDesc::out_of_order().labelled("main"));
    let a = s.engine.create_memory(&floats().labelled("input"), MemoryKind::UsmShared).unwrap();
    let [b, c, d] = [s.memory(), s.memory(), s.memory()];
    let written = s.write(&a, [1.0; 4]);
    let left = s.unary(&s.linear(2.0, 0.0), &a, &b, std::slice::from_ref(&written)).unwrap();
    let right = s.unary(&s.linear(3.0, 0.0), &a, &c, &[written]).unwrap();
    let _race = s.unary(&s.linear(3.0, 0.0), &d, &b, &[]).unwrap_err();
    let joined = s.binary(&s.add(), [&b, &c], &d, &[left, right]).unwrap();
    s.stream.flush().unwrap();
    joined.wait().unwrap();
    drop(d.map(MapMode::Read).unwrap());
    device.log()
}

#[test]
fn the_log_reads_well_and_is_stable() {
    insta::assert_snapshot!(program(11), @r#"
    stream s0 out of order "main"
    memory m0 usm-shared 16 bytes "input"
    memory m1 buffer 16 bytes
    memory m2 buffer 16 bytes
    memory m3 buffer 16 bytes
    submit #1 write to=m0[0..16] on s0
    submit #2 linear src0=m0[0..16] dst0=m1[0..16] on s0 after #1
    submit #3 linear src0=m0[0..16] dst0=m2[0..16] on s0 after #1
    race #2 linear (dst0 write) and #4 linear (dst0 write) are unordered at m1[0..16]
    submit #4 binary src0=m1[0..16] src1=m2[0..16] dst0=m3[0..16] on s0 after #2 #3
    flush s0
    wait #4
    run #1 write
    run #3 linear
    run #2 linear
    run #4 binary
    map m3[0..16] to read
    unmap m3[0..16]
    "#);
    assert_eq!(program(11), program(11));
    let others = (0..20).filter(|&seed| program(seed) != program(11)).count();
    assert!(others > 0);
}

#[test]
fn what_is_not_there_is_unsupported() {
    let device = MockDevice::builder()
        .capabilities(|c| {
            c.out_of_order = false;
            c.profiling = false;
            c.memory_kinds = vec![MemoryKind::Svm];
            c.storage_types = vec![DataType::F32];
            c.max_allocation_bytes = 100;
            c.memory_bytes = 150;
        })
        .build();
    let engine = device.engine();
    let unsupported = |result: Result<(), Error>| {
        let error = result.unwrap_err();
        assert!(matches!(error.root(), Error::Unsupported { .. }), "{error}");
    };
    unsupported(engine.create_stream(&StreamDesc::out_of_order()).map(drop));
    unsupported(engine.create_stream(&StreamDesc::default().with_profiling()).map(drop));
    unsupported(engine.create_memory(&floats(), MemoryKind::Buffer).map(drop));
    let half = MemoryDesc::new([4], DataType::F16);
    unsupported(engine.create_memory(&half, MemoryKind::Svm).map(drop));
    let relu = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(floats()).dst(half).build().unwrap();
    unsupported(engine.create_primitive(&relu).map(drop));
    unsupported(engine.cache_blob().map(drop));

    let sized =
        |elements: usize| engine.create_memory(&MemoryDesc::new([elements], DataType::F32), MemoryKind::Svm);
    assert!(matches!(sized(26), Err(Error::OutOfMemory { bytes: 104, .. })));
    let first = sized(25).unwrap();
    assert!(matches!(sized(25), Err(Error::OutOfMemory { .. })));
    drop(first);
    let again = sized(25).unwrap();
    assert_eq!(again.kind(), MemoryKind::Svm);
    let block = engine.allocator().allocate(10, 1).unwrap();
    assert_eq!((block.kind(), block.desc().data_type()), (MemoryKind::Svm, DataType::U8));
    engine.allocator().free(block, None).unwrap();
}

#[test]
fn objects_of_two_devices_do_not_mix() {
    let (one, two) = (MockDevice::new(0), MockDevice::builder().label("other").build());
    let (s, t) = (Setup::in_order(&one), Setup::in_order(&two));
    let foreign = t.stream.marker(&[]).unwrap();
    let error = s.stream.marker(&[foreign]).unwrap_err();
    assert!(matches!(error, Error::Mismatch { .. }) && error.to_string().contains("other"), "{error}");
    assert!(matches!(s.stream.write(&t.memory(), 0, &[], &[]), Err(Error::Mismatch { .. })));
    let block = t.engine.allocator().allocate(1, 1).unwrap();
    assert!(matches!(s.engine.allocator().free(block.clone(), None), Err(Error::Mismatch { .. })));
    t.engine.allocator().free(block, None).unwrap();
}

#[test]
fn open_layouts_are_resolved_both_ways_unless_asked_otherwise() {
    let resolved = |seed: u64, how: OpenLayouts| {
        let device = MockDevice::builder().seed(seed).open_layouts(how).build();
        let open = MemoryDesc::any([2, 3], DataType::F32).labelled("open");
        let desc = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu))
            .src(MemoryDesc::new([2, 3], DataType::F32))
            .dst(open);
        let primitive = device.engine().create_primitive(&desc.build().unwrap()).unwrap();
        let dst = primitive.desc().dst();
        assert_eq!(dst.label(), Some("open"));
        dst.strides().unwrap().to_vec()
    };
    let seeded: Vec<_> = (0..20).map(|seed| resolved(seed, OpenLayouts::Seeded)).collect();
    assert!(seeded.contains(&vec![3, 1]) && seeded.contains(&vec![1, 2]), "{seeded:?}");
    assert!((0..20).all(|seed| resolved(seed, OpenLayouts::RowMajor) == [3, 1]));
}

#[test]
fn the_types_on_offer_are_those_that_compute() {
    let device = MockDevice::new(0);
    let engine = device.engine();
    let to = MemoryDesc::new([2], DataType::F32);
    for data_type in DataType::ALL {
        let from = MemoryDesc::new([2], data_type);
        let desc =
            PrimitiveDesc::builder(Op::Reorder(Reorder)).src(from.clone()).dst(to.clone()).build().unwrap();
        let (src, mut dst) = (vec![0; from.size()], [1; 8]);
        let computes = anydnn_host::compute(&desc, &[(Arg::SRC, &src)], &mut [(Arg::DST, &mut dst)]).is_ok();
        assert_eq!(engine.capabilities().storage_types.contains(&data_type), computes, "{data_type}");
        assert_eq!(engine.create_primitive(&desc).is_ok(), computes, "{data_type}");
    }
}

#[test]
fn layouts_of_other_engines_are_unsupported() {
    let device = MockDevice::new(0);
    let opaque = MemoryDesc::with_layout([2], DataType::F32, Layout::Opaque { id: 1, bytes: 8 }).unwrap();
    let desc =
        PrimitiveDesc::builder(Op::Reorder(Reorder)).src(opaque).dst(MemoryDesc::new([2], DataType::F32));
    let error = device.engine().create_primitive(&desc.build().unwrap()).unwrap_err();
    assert!(matches!(error.root(), Error::Unsupported { .. }), "{error}");
}

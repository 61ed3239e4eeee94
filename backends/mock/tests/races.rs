//! Races and use after free.

mod common;

use anydnn_backend::{
    Access, AllocatorStats, Arg, Attributes, DataType, Eltwise, Engine, Error, Event, MapMode, Memory,
    MemoryDesc, MemoryKind, Op, Primitive, PrimitiveDesc, Range, ScratchpadMode, Stream,
};
use anydnn_mock::{FREED, Mock, MockDevice, MockMemory, RacePolicy, is_poison};
use common::{Setup, bytes, floats};

#[test]
fn a_diamond_without_dependencies_is_a_race_under_every_seed() {
    for seed in 0..50 {
        let device = MockDevice::new(seed);
        let s = Setup::out_of_order(&device);
        let (a, b) = (s.memory(), s.memory());
        let _written = s.write(&a, [1.0; 4]);
        let error = s.unary(&s.linear(1.0, 0.0), &a, &b, &[]).unwrap_err();
        assert!(matches!(error.root(), Error::Invalid(_)));
        assert_eq!(
            error.to_string(),
            "#2 linear: src0 m0[0..16] (read) is unordered with to m0[0..16] (write) of #1 write, expected a path between them: a \
             dependency, the order of a stream or a wait of the host"
        );
        let races = device.races();
        assert_eq!(races.len(), 1);
        assert_eq!((&*races[0].memory, races[0].bytes.clone()), ("m0", 0..16));
        assert_eq!((races[0].earlier.access, &*races[0].earlier.arg), (Access::Write, "to"));
        assert_eq!((&*races[0].later.command, &*races[0].later.arg), ("#2 linear", "src0"));
        assert_eq!(device.pending(), 1, "nothing was enqueued");
    }
}

#[test]
fn readers_race_with_the_next_writer_but_not_with_one_another() {
    let device = MockDevice::new(0);
    let s = Setup::out_of_order(&device);
    let [a, b, c] = [s.memory(), s.memory(), s.memory()];
    let written = s.write(&a, [1.0; 4]);
    let copy = s.linear(1.0, 0.0);
    let one = s.unary(&copy, &a, &b, std::slice::from_ref(&written)).unwrap();
    let two = s.unary(&copy, &a, &c, &[written]).unwrap();
    assert!(s.stream.write(&a, 0, &[0; 16], std::slice::from_ref(&one)).is_err());
    assert!(s.stream.write(&a, 0, &[0; 16], &[one, two]).is_ok());
}

#[test]
fn only_overlapping_bytes_race() {
    let device = MockDevice::new(0);
    let s = Setup::out_of_order(&device);
    let (a, b) = (s.memory(), s.memory());
    let half = |m: &MockMemory, offset| m.view(&MemoryDesc::new([2], DataType::F32), offset).unwrap();
    s.stream.write(&half(&a, 0), 0, &[0; 8], &[]).unwrap();
    s.stream.write(&half(&a, 8), 0, &[0; 8], &[]).unwrap();
    let part = |memory: &MockMemory, offset, bytes| Range::<Mock> { memory: memory.clone(), offset, bytes };
    let error = s.stream.copy(part(&a, 4, 8), part(&b, 0, 8), &[]).unwrap_err().to_string();
    assert!(
        error.starts_with("#3 copy: from m0[4..12] (read) is unordered with to m0[0..8] (write) of #1"),
        "{error}"
    );
}

#[test]
fn a_wait_of_the_host_is_a_path() {
    for seed in 0..20 {
        let device = MockDevice::new(seed);
        let s = Setup::out_of_order(&device);
        let (a, b) = (s.memory(), s.memory());
        let written = s.write(&a, [1.0; 4]);
        // That it is done does not make it ordered: only a wait does.
        while written.status().unwrap() != anydnn_backend::EventStatus::Complete {}
        assert!(s.unary(&s.linear(1.0, 0.0), &a, &b, &[]).is_err());
        written.wait().unwrap();
        s.unary(&s.linear(1.0, 0.0), &a, &b, &[]).unwrap();
        s.stream.wait().unwrap();
        s.write(&a, [2.0; 4]);
    }
}

#[test]
fn two_in_order_streams_race_and_a_marker_joins_them() {
    let device = MockDevice::new(0);
    let (one, two) = (Setup::in_order(&device), Setup::in_order(&device));
    let (a, b) = (one.memory(), one.memory());
    one.write(&a, [1.0; 4]);
    assert!(two.unary(&two.linear(1.0, 0.0), &a, &b, &[]).is_err());
    let joined = one.stream.marker(&[]).unwrap();
    assert_eq!(two.read(&a, &[joined]).unwrap(), [1.0; 4]);
}

#[test]
fn the_host_races_too() {
    let device = MockDevice::new(0);
    let s = Setup::out_of_order(&device);
    let a = s.memory();
    let written = s.write(&a, [1.0; 4]);
    let error = a.map(MapMode::Read).unwrap_err().to_string();
    assert!(
        error.starts_with("map: memory m0[0..16] (read) is unordered with to m0[0..16] (write) of #1"),
        "{error}"
    );
    assert!(s.read(&a, &[]).is_err());
    written.wait().unwrap();

    let mapping = a.map(MapMode::Read).unwrap();
    let error = s.stream.write(&a, 0, &[0; 4], &[]).unwrap_err().to_string();
    assert!(error.contains("mapped to the host"), "{error}");
    assert!(a.map(MapMode::Read).is_ok(), "two readers");
    assert!(a.map(MapMode::Write).is_err());
    drop(mapping);
    s.stream.write(&a, 0, &[0; 4], &[]).unwrap();
}

#[test]
fn a_shared_scratchpad_races() {
    let device = MockDevice::new(0);
    let s = Setup::out_of_order(&device);
    let desc = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu))
        .src(floats())
        .dst(floats())
        .attributes(Attributes::default().with_scratchpad(ScratchpadMode::User));
    let relu = s.engine.create_primitive(&desc.build().unwrap()).unwrap();
    let [src, one, two] = [s.memory(), s.memory(), s.memory()];
    s.write(&src, [-1.0, 2.0, 0.0, 0.0]).wait().unwrap();
    let scratchpad = MemoryDesc::new([relu.scratchpad_size()], DataType::U8);
    let scratchpad = s.engine.create_memory(&scratchpad, MemoryKind::Buffer).unwrap();
    let args = |dst: &MockMemory| {
        [(Arg::SRC, src.clone()), (Arg::DST, dst.clone()), (Arg::Scratchpad, scratchpad.clone())]
    };
    s.write(&one, [0.0; 4]).wait().unwrap();
    assert!(s.stream.execute(&relu, &args(&one)[..2], &[]).is_err(), "without a scratchpad");
    let first = s.stream.execute(&relu, &args(&one), &[]).unwrap();
    let error = s.stream.execute(&relu, &args(&two), &[]).unwrap_err().to_string();
    assert!(error.contains("#4 eltwise: scratchpad m3[0..64] (write)"), "{error}");
    let second = s.stream.execute(&relu, &args(&two), &[first]).unwrap();
    second.wait().unwrap();
    assert!(is_poison(scratchpad.map(MapMode::Read).unwrap().bytes()));
    assert_eq!(s.read(&two, &[second]).unwrap(), [0.0, 2.0, 0.0, 0.0]);
}

#[test]
fn freed_memory_is_off_limits_and_turns_to_poison_when_its_time_comes() {
    let device = MockDevice::builder().seed(1).races(RacePolicy::Report).build();
    let s = Setup::in_order(&device);
    let allocator = s.engine.allocator();
    let block = allocator.allocate(16, 64).unwrap();
    let view = block.view(&floats(), 0).unwrap();
    let written = s.stream.write(&block, 0, &bytes([1.0; 4]), &[]).unwrap();
    allocator.free(block, Some(&written)).unwrap();
    assert!(device.races().is_empty(), "the free waits for the write");
    let waiting = AllocatorStats { peak_bytes: 16, parked_bytes: 16, created: 1, ..Default::default() };
    assert_eq!(allocator.stats(), waiting);
    written.wait().unwrap();
    assert_eq!(allocator.stats(), AllocatorStats { parked_bytes: 0, ..waiting });
    let mapping = view.map(MapMode::Read).unwrap();
    assert!(mapping.bytes().starts_with(&FREED) && is_poison(mapping.bytes()));
    assert_eq!(
        device.races()[0].to_string(),
        "free (memory write) and map (memory read) are unordered at m0[0..16]"
    );
}

#[test]
fn giving_back_too_early_and_using_after_are_errors() {
    let device = MockDevice::new(1);
    let s = Setup::out_of_order(&device);
    let allocator = s.engine.allocator();
    let block = allocator.allocate(16, 64).unwrap();
    let written = s.stream.write(&block, 0, &bytes([1.0; 4]), &[]).unwrap();
    let early = allocator.free(block.clone(), None).unwrap_err().to_string();
    assert!(
        early.starts_with("free: memory m0[0..16] (write) is unordered with to m0[0..16] (write) of #1"),
        "{early}"
    );
    let view = block.view(&floats(), 0).unwrap();
    allocator.free(block, Some(&written)).unwrap();
    let error = s.stream.read(&view, 0, &mut [0; 16], &[written]).unwrap_err().to_string();
    assert!(error.contains("from m0[0..16] (read) is freed memory"), "{error}");
    let error = allocator.free(view, None).unwrap_err().to_string();
    assert!(error.contains("given back already"), "{error}");
    let error = allocator.free(s.memory(), None).unwrap_err().to_string();
    assert!(error.contains("the engine's own"), "{error}");
}

#[test]
fn reported_races_let_the_seed_decide() {
    let outcome = |seed| {
        let device = MockDevice::builder().seed(seed).races(RacePolicy::Report).build();
        let s = Setup::out_of_order(&device);
        let a = s.memory();
        s.write(&a, [1.0; 4]);
        let second = s.write(&a, [2.0; 4]);
        s.stream.wait().unwrap();
        drop(second);
        let first = s.read(&a, &[]).unwrap()[0];
        assert_eq!(device.races().len(), 1);
        first
    };
    let all: Vec<f32> = (0..50).map(outcome).collect();
    assert!(all.contains(&1.0) && all.contains(&2.0));
}

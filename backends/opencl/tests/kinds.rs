//! Every kind of memory in every place where memory can stand.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the tests own every handle they pass")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use anydnn_backend::op::Reorder;
use anydnn_backend::{
    Arg, Attributes, BinaryAlgorithm, DataType, DeviceKind, Eltwise, Engine, Event, EventStatus, Memory,
    MemoryDesc, Op, Primitive, PrimitiveDesc, PrimitiveDescBuilder, ScratchpadMode, Stream, StreamDesc,
    conformance::data, conformance::values::Values, op,
};
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{OpenClEngine, OpenClMemory};
use common::places::{Origin, Place};
use common::*;

#[test]
fn bytes_go_to_every_kind_and_back_at_any_offset() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        for origin in Origin::all(&engine) {
            let place = Place::new(&engine, origin, &bytes_desc(80), 9, 11);
            let mut expected = pattern(100, 1);
            stream.write(&place.whole, 0, &expected, &[]).unwrap();
            for (offset, length) in [(0, 80), (3, 1), (7, 64), (79, 1), (16, 16), (80, 0)] {
                let bytes = pattern(length, offset as u8);
                stream.write(&place.memory, offset, &bytes, &[]).unwrap();
                expected[9 + offset..9 + offset + length].copy_from_slice(&bytes);
                assert_eq!(read_all(&stream, &place.whole), expected, "{origin:?} {offset} {length}");
                let mut part = vec![0; length];
                stream.read(&place.memory, offset, &mut part, &[]).unwrap();
                assert_eq!(part, bytes, "{origin:?}");
            }
            for (offset, length) in [(0, 81), (80, 1), (usize::MAX, 2)] {
                assert!(stream.write(&place.memory, offset, &vec![0; length], &[]).is_err(), "{origin:?}");
            }
        }
    }
}

#[test]
fn copies_between_every_pair_of_kinds() {
    for engine in test_engines() {
        for stream in [StreamDesc::default(), StreamDesc::out_of_order()] {
            let stream = engine.create_stream(&stream).unwrap();
            for from in Origin::all(&engine) {
                let source = Place::new(&engine, from, &bytes_desc(300), 1, 0);
                let wrote = stream.write(&source.memory, 0, &pattern(300, 5), &[]).unwrap();
                for to in Origin::all(&engine) {
                    let target = Place::new(&engine, to, &bytes_desc(300), 3, 2);
                    let mut expected = pattern(305, 77);
                    let mut last = stream.write(&target.whole, 0, &expected, &[]).unwrap();
                    for (start, end, length) in [
                        (0, 0, 300),
                        (1, 0, 1),
                        (7, 12, 33),
                        (255, 3, 45),
                        (16, 32, 64),
                        (5, 299, 1),
                        (9, 9, 0),
                    ] {
                        let (part, place) =
                            (range(&source.memory, start, length), range(&target.memory, end, length));
                        last = stream.copy(part, place, &[wrote.clone(), last]).unwrap();
                        expected[3 + end..3 + end + length]
                            .copy_from_slice(&pattern(300, 5)[start..start + length]);
                        last.wait().unwrap();
                        assert_eq!(
                            read_all(&stream, &target.whole),
                            expected,
                            "{from:?} to {to:?}: {length} bytes from {start} to {end}"
                        );
                    }
                }
            }
            stream.wait().unwrap();
        }
    }
}

#[test]
fn copies_within_one_allocation_of_every_kind() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        for origin in Origin::all(&engine) {
            let place = Place::new(&engine, origin, &bytes_desc(64), 1, 0);
            stream.write(&place.memory, 0, &pattern(64, 3), &[]).unwrap();
            stream.copy(range(&place.memory, 0, 17), range(&place.memory, 17, 17), &[]).unwrap();
            let mut expected = pattern(64, 3);
            expected.copy_within(0..17, 17);
            assert_eq!(read_all(&stream, &place.memory), expected, "{origin:?}");
            let overlapping = stream.copy(range(&place.memory, 0, 17), range(&place.whole, 17, 17), &[]);
            assert!(overlapping.is_err(), "{origin:?}: byte 16 of one is byte 17 of the other");
        }
    }
}

/// A primitive with the values of its operands and its result on buffers, to repeat on other memory.
struct Sample {
    primitive: anydnn_opencl::OpenClPrimitive,
    /// Every argument with its bytes before the execution.
    args: Vec<(Arg, MemoryDesc, Vec<u8>)>,
    expected: Vec<u8>,
}

impl Sample {
    fn new(engine: &OpenClEngine, builder: PrimitiveDescBuilder) -> Self {
        let desc = builder.build().unwrap().with_scratchpad(ScratchpadMode::User);
        let primitive = engine.create_primitive(&desc).unwrap();
        let mut args: Vec<_> = primitive
            .desc()
            .args()
            .iter()
            .enumerate()
            .map(|(i, arg)| {
                let values = Values::of(arg.desc.data_type()).draw(arg.desc.elements(), i as u64);
                (arg.arg, arg.desc.clone(), data::encode(&arg.desc, &values).unwrap())
            })
            .collect();
        if primitive.scratchpad_size() > 0 {
            let bytes = primitive.scratchpad_size();
            args.push((Arg::Scratchpad, bytes_desc(bytes), vec![0xCD; bytes]));
        }
        let mut sample = Self { primitive, args, expected: Vec::new() };
        sample.expected = sample.run(engine, &mut |_| Origin::UserBuffer);
        sample
    }

    /// The result's bytes with every argument in memory of its own origin.
    fn run(&self, engine: &OpenClEngine, origin: &mut dyn FnMut(Arg) -> Origin) -> Vec<u8> {
        let stream = engine.create_stream(&StreamDesc::out_of_order()).unwrap();
        let mut deps = Vec::new();
        let mut places = Vec::new();
        for (arg, desc, bytes) in &self.args {
            let place = Place::plain(engine, origin(*arg), desc);
            deps.push(stream.write(&place.memory, 0, bytes, &[]).unwrap());
            places.push((*arg, place));
        }
        let args: Vec<(Arg, OpenClMemory)> =
            places.iter().map(|(arg, place)| (*arg, place.memory.clone())).collect();
        let event = stream.execute(&self.primitive, &args, &deps).unwrap();
        let (_, dst) = args.iter().find(|(arg, _)| *arg == Arg::DST).unwrap();
        let mut bytes = vec![0; dst.region().bytes];
        stream.read(dst, 0, &mut bytes, &[event]).unwrap();
        stream.wait().unwrap();
        bytes
    }
}

fn dense(dims: &[usize]) -> MemoryDesc {
    MemoryDesc::new(dims, DataType::F32)
}

fn samples(engine: &OpenClEngine) -> Vec<Sample> {
    let blocked = MemoryDesc::with_tag([2, 20, 3, 3], DataType::F32, "aBcd16b").unwrap();
    let post = Attributes::default()
        .with_post_op(anydnn_backend::PostOp::binary(BinaryAlgorithm::Multiply, dense(&[33])));
    [
        PrimitiveDesc::builder(Op::Eltwise(Eltwise::Tanh))
            .src(dense(&[5, 33]))
            .dst(dense(&[5, 33]))
            .attributes(post),
        PrimitiveDesc::builder(Op::Reorder(Reorder)).src(dense(&[2, 20, 3, 3])).dst(blocked),
        PrimitiveDesc::builder(Op::MatMul(op::MatMul))
            .src(dense(&[50, 64]))
            .weights(MemoryDesc::with_strides([64, 24], DataType::F32, [1, 64]).unwrap())
            .bias(dense(&[1, 24]))
            .dst(dense(&[50, 24])),
        PrimitiveDesc::builder(Op::Softmax(op::Softmax::new(1))).src(dense(&[7, 45])).dst(dense(&[7, 45])),
        // Long enough for parts, whose sums lie in a scratchpad.
        PrimitiveDesc::builder(Op::Reduction(op::Reduction::new(op::ReductionAlgorithm::Sum)))
            .src(dense(&[1, 40_000]))
            .dst(dense(&[1, 1])),
    ]
    .map(|builder| Sample::new(engine, builder))
    .into()
}

#[test]
fn primitives_take_every_kind_for_every_argument() {
    for engine in test_engines() {
        let samples = samples(&engine);
        // The kernels of other devices need none for these.
        assert!(
            engine.device().kind != DeviceKind::Cpu
                || samples.iter().any(|sample| sample.args.iter().any(|(arg, ..)| *arg == Arg::Scratchpad)),
            "no sample needs a scratchpad on {}",
            engine.opencl_device()
        );
        for sample in &samples {
            for origin in Origin::all(&engine) {
                for (one, ..) in &sample.args {
                    let result =
                        sample.run(&engine, &mut |arg| if arg == *one { origin } else { Origin::UserBuffer });
                    assert!(
                        result == sample.expected,
                        "{} with {one} as {origin:?}",
                        sample.primitive.desc()
                    );
                }
                let result = sample.run(&engine, &mut |_| origin);
                assert!(result == sample.expected, "{} on {origin:?}", sample.primitive.desc());
            }
        }
    }
}

/// Kernel objects are used again: what one execution bound must not show in the next.
#[test]
fn one_primitive_goes_from_kind_to_kind() {
    for engine in test_engines() {
        let origins = Origin::all(&engine);
        for sample in &samples(&engine) {
            for shift in 0..origins.len() {
                let mut next = shift;
                let mut turn = |_| {
                    next += 1;
                    origins[next % origins.len()]
                };
                // Every argument of another kind than the one before, and than in the execution before.
                let result = sample.run(&engine, &mut turn);
                assert!(result == sample.expected, "{} from {shift} on", sample.primitive.desc());
            }
        }
    }
}

#[test]
fn dependencies_are_honoured_for_every_kind() {
    for engine in test_engines() {
        for stream_desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
            for origin in Origin::all(&engine) {
                let stream = engine.create_stream(&stream_desc).unwrap();
                let desc = dense(&[64]);
                let place = |offset| Place::new(&engine, origin, &desc, offset, 0);
                let (src, middle, dst) = (place(0), place(4), place(1));
                let primitive = |f| {
                    let desc = PrimitiveDesc::builder(Op::Eltwise(f)).src(desc.clone()).dst(desc.clone());
                    engine.create_primitive(&desc.build().unwrap()).unwrap()
                };
                stream.write(&src.memory, 0, &(-2.0_f32).to_ne_bytes().repeat(64), &[]).unwrap();
                stream.write(&dst.memory, 0, &[0; 256], &[]).unwrap();
                let (gate, wrapped) = user_event(&engine);
                let args = |from: &Place, to: &Place| {
                    [(Arg::SRC, from.memory.clone()), (Arg::DST, to.memory.clone())]
                };
                let first =
                    stream.execute(&primitive(Eltwise::Square), &args(&src, &middle), &[wrapped]).unwrap();
                let second =
                    stream.execute(&primitive(Eltwise::Sqrt), &args(&middle, &dst), &[first]).unwrap();
                let copied = stream
                    .copy(range(&dst.memory, 0, 4), range(&src.memory, 8, 4), std::slice::from_ref(&second))
                    .unwrap();
                std::thread::sleep(std::time::Duration::from_millis(2));
                assert!(
                    copied.status().unwrap() < EventStatus::Complete,
                    "{origin:?}: ran before its dependency"
                );
                set(gate, 0);
                copied.wait().unwrap();
                second.wait().unwrap();
                assert_eq!(read_all(&stream, &dst.memory), 2.0_f32.to_ne_bytes().repeat(64), "{origin:?}");
                assert_eq!(read_all(&stream, &src.memory)[8..12], 2.0_f32.to_ne_bytes(), "{origin:?}");
                release_event(gate);
            }
        }
    }
}

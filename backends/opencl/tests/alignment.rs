//! Any byte offset and any alignment gives the bits that aligned memory gives, and no byte beside the result changes.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the tests own every handle they pass")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use anydnn_backend::conformance::data::{self, Cover};
use anydnn_backend::conformance::values::Values;
use anydnn_backend::op::{
    BatchNormalization, Binary, Concat, Convolution, GroupNormalization, LayerNormalization, MatMul, Pooling,
    PoolingAlgorithm, Reduction, ReductionAlgorithm, Reorder, Softmax,
};
use anydnn_backend::{
    Access, Arg, Attributes, BinaryAlgorithm, DataType, Eltwise, Engine, MemoryDesc, Op, PostOp, Primitive,
    PrimitiveDesc, PrimitiveDescBuilder, ScratchpadMode, Stream, StreamDesc,
};
use anydnn_opencl::testing::test_engines;
use anydnn_opencl::{OpenClEngine, OpenClPrimitive, OpenClStream};
use common::places::{Origin, Place};
use common::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Placements tried for each primitive, besides the fixed ones.
const CASES: u32 = 32;
/// Bytes behind every operand that must not change.
const GUARD: usize = 24;
const POISON: u8 = 0xA5;
/// Arguments that a placement covers; more start over.
const PLACES: usize = 6;

/// Where an argument lies: in which of the device's origins, and how many bytes into it.
type Placement = Vec<(prop::sample::Index, usize)>;

#[test]
fn any_offset_and_alignment_gives_the_same_bits() {
    let engines = test_engines();
    std::thread::scope(|scope| {
        for engine in &engines {
            scope.spawn(|| every_sample(engine));
        }
    });
}

fn every_sample(engine: &OpenClEngine) {
    let origins = Origin::all(engine);
    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
    for builder in samples(engine) {
        let sample = Sample::new(engine, &stream, builder);
        for &origin in &origins {
            sample.check(engine, &stream, &mut |_| (origin, 1)).unwrap();
        }
        let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
        let places = vec((any::<prop::sample::Index>(), 0_usize..40), PLACES);
        let result = TestRunner::new(config).run(&places, |places: Placement| {
            let place = &mut |i: usize| {
                let (origin, offset) = &places[i % PLACES];
                (*origin.get(&origins), *offset)
            };
            sample.check(engine, &stream, place).map_err(TestCaseError::fail)
        });
        if let Err(error) = result {
            panic!("{}: {error}", engine.opencl_device());
        }
    }
}

/// A primitive and what it makes of some bytes in aligned buffers.
struct Sample {
    primitive: OpenClPrimitive,
    args: Vec<Operand>,
}

struct Operand {
    arg: Arg,
    access: Access,
    desc: MemoryDesc,
    before: Vec<u8>,
    /// In aligned memory; the same as before for sources.
    after: Vec<u8>,
}

impl Sample {
    fn new(engine: &OpenClEngine, stream: &OpenClStream, builder: PrimitiveDescBuilder) -> Self {
        let desc = builder.build().unwrap().with_scratchpad(ScratchpadMode::User);
        let primitive = engine.create_primitive(&desc).unwrap();
        let mut args = Vec::new();
        for (i, arg) in primitive.desc().args().iter().enumerate() {
            let mut before = vec![POISON; arg.desc.size()];
            if arg.access.reads() {
                let values = match arg.arg {
                    Arg::Variance => Values::Uniform(0.5, 2.0),
                    _ => Values::of(arg.desc.data_type()),
                };
                let values = values.draw(arg.desc.elements(), i as u64 + 1);
                data::encode_into(&arg.desc, &values, &mut before).unwrap();
            }
            args.push(Operand {
                arg: arg.arg,
                access: arg.access,
                desc: arg.desc.clone(),
                after: before.clone(),
                before,
            });
        }
        if primitive.scratchpad_size() > 0 {
            let desc = bytes_desc(primitive.scratchpad_size());
            let before = vec![POISON; desc.size()];
            args.push(Operand {
                arg: Arg::Scratchpad,
                access: Access::Write,
                desc,
                after: before.clone(),
                before,
            });
        }
        let mut sample = Self { primitive, args };
        let (places, whole) = sample.run(engine, stream, &mut |_| (Origin::UserBuffer, 0));
        drop(places);
        for (operand, bytes) in sample.args.iter_mut().zip(whole) {
            if operand.arg != Arg::Scratchpad && operand.access.writes() {
                operand.after.copy_from_slice(&bytes[..operand.desc.size()]);
                assert_ne!(operand.after, operand.before, "{}: nothing was written", sample.primitive.desc());
            }
        }
        sample
    }

    /// The places of the arguments and all their bytes after an execution.
    fn run(
        &self,
        engine: &OpenClEngine,
        stream: &OpenClStream,
        place: &mut dyn FnMut(usize) -> (Origin, usize),
    ) -> (Vec<(Origin, usize)>, Vec<Vec<u8>>) {
        let mut chosen = Vec::new();
        let mut places = Vec::new();
        for (i, operand) in self.args.iter().enumerate() {
            let (origin, offset) = place(i);
            let memory = Place::new(engine, origin, &operand.desc, offset, GUARD);
            stream.write(&memory.whole, 0, &operand.bytes(&operand.before, offset), &[]).unwrap();
            chosen.push((origin, offset));
            places.push(memory);
        }
        let args: Vec<_> = self
            .args
            .iter()
            .zip(&places)
            .map(|(operand, place)| (operand.arg, place.memory.clone()))
            .collect();
        stream.execute(&self.primitive, &args, &[]).unwrap();
        let whole = places.iter().map(|place| read_all(stream, &place.whole)).collect();
        stream.wait().unwrap();
        (chosen, whole)
    }

    /// Whether the results in such places have the same bits, with nothing around them changed.
    fn check(
        &self,
        engine: &OpenClEngine,
        stream: &OpenClStream,
        place: &mut dyn FnMut(usize) -> (Origin, usize),
    ) -> Result<(), String> {
        let (places, whole) = self.run(engine, stream, place);
        for ((operand, bytes), (_, offset)) in self.args.iter().zip(&whole).zip(&places) {
            let mut expected = operand.bytes(&operand.after, *offset);
            if operand.arg == Arg::Scratchpad {
                let inside = *offset..offset + operand.desc.size();
                expected[inside.clone()].copy_from_slice(&bytes[inside]);
            }
            let changed: Vec<usize> = (0..bytes.len())
                .filter(|&i| bytes[i] != expected[i])
                .map(|i| i.wrapping_sub(*offset))
                .collect();
            if !changed.is_empty() {
                let what = self.primitive.desc();
                let by = self.primitive.implementation();
                let (arg, size) = (operand.arg, operand.desc.size());
                let first = &changed[..changed.len().min(8)];
                return Err(format!(
                    "{what} by {by} at {places:?}: {} of {size} bytes of {arg} differ, first {first:?}",
                    changed.len()
                ));
            }
        }
        Ok(())
    }
}

impl Operand {
    /// The operand between guards.
    fn bytes(&self, inner: &[u8], offset: usize) -> Vec<u8> {
        let mut bytes = vec![POISON; offset + inner.len() + GUARD];
        bytes[offset..offset + inner.len()].copy_from_slice(inner);
        bytes
    }
}

fn t(dims: &[usize], data_type: DataType) -> MemoryDesc {
    MemoryDesc::new(dims, data_type)
}

/// Every family in several types and layouts; sizes leave a remainder in every vector.
fn samples(engine: &OpenClEngine) -> Vec<PrimitiveDescBuilder> {
    use DataType::{BF16, F16, F32, F64, S8, S32, U8};
    let mut list = Vec::new();
    let plain = |op: Op, src: &[usize], from: DataType, dst: &[usize], to: DataType| {
        PrimitiveDesc::builder(op).src(t(src, from)).dst(t(dst, to))
    };
    for (function, data_type) in [
        (Eltwise::Tanh, F32),
        (Eltwise::GeluErf, F16),
        (Eltwise::Exp, BF16),
        (Eltwise::Sigmoid, F64),
        (Eltwise::Relu, S8),
    ] {
        list.push(plain(Op::Eltwise(function), &[3, 45], data_type, &[3, 45], data_type));
    }
    for (algorithm, a, b, dst) in [
        (BinaryAlgorithm::Divide, F32, F32, F32),
        (BinaryAlgorithm::Multiply, S32, S32, S32),
        (BinaryAlgorithm::Add, BF16, F32, F16),
        (BinaryAlgorithm::Subtract, S8, U8, S8),
    ] {
        let op = Op::Binary(Binary::new(algorithm));
        list.push(plain(op, &[5, 23], a, &[5, 23], dst).arg(Arg::Src(1), t(&[1, 23], b)));
    }
    for (src, weights, dst) in [(F32, F32, F32), (BF16, BF16, F32), (S8, S8, S32), (F16, F16, F16)] {
        let op = Op::MatMul(MatMul);
        list.push(plain(op, &[19, 37], src, &[19, 21], dst).weights(t(&[37, 21], weights)));
    }
    let transposed = MemoryDesc::with_strides([70, 33], F32, [1, 70]).unwrap();
    list.push(
        plain(Op::MatMul(MatMul), &[19, 70], F32, &[19, 33], F32).weights(transposed).bias(t(&[1, 33], F32)),
    );
    let post = Attributes::default()
        .with_post_op(PostOp::binary(BinaryAlgorithm::Add, t(&[19, 1], BF16)))
        .with_post_op(PostOp::Eltwise(Eltwise::Relu))
        .with_post_op(PostOp::sum(0.5));
    list.push(plain(Op::Eltwise(Eltwise::Square), &[19, 33], F32, &[19, 33], F32).attributes(post));
    for (groups, data_type) in [(1, F32), (6, BF16), (2, F16)] {
        let op = Op::Convolution(Convolution::new(2).with_groups(groups).with_pads([1, 1], [1, 1]));
        list.push(
            plain(op, &[2, 6, 7, 9], data_type, &[2, 12, 7, 9], data_type)
                .weights(t(&[12, 6 / groups, 3, 3], data_type))
                .bias(t(&[12], data_type)),
        );
    }
    for (algorithm, data_type) in
        [(PoolingAlgorithm::Max, S8), (PoolingAlgorithm::AverageIncludePadding, F16)]
    {
        let op = Op::Pooling(Pooling::new(algorithm, [3, 3]).with_pads([1, 1], [1, 1]));
        list.push(plain(op, &[2, 3, 8, 7], data_type, &[2, 3, 8, 7], data_type));
    }
    for (axis, data_type) in [(1, F32), (0, BF16)] {
        list.push(plain(Op::Softmax(Softmax::new(axis)), &[13, 41], data_type, &[13, 41], data_type));
    }
    let layer = Op::LayerNormalization(LayerNormalization::new(1, 1e-5));
    list.push(
        plain(layer, &[7, 43], F32, &[7, 43], BF16)
            .arg(Arg::Scale, t(&[43], F32))
            .arg(Arg::Shift, t(&[43], F32)),
    );
    let batch = Op::BatchNormalization(BatchNormalization::new(1e-3));
    let channels = [Arg::Mean, Arg::Variance, Arg::Scale, Arg::Shift];
    let batch = plain(batch, &[2, 5, 27], F16, &[2, 5, 27], F16);
    list.push(channels.into_iter().fold(batch, |batch, arg| batch.arg(arg, t(&[5], F32))));
    let group = Op::GroupNormalization(GroupNormalization::new(2, 1e-3));
    let group = plain(group, &[2, 6, 19], F32, &[2, 6, 19], F32);
    list.push(group.arg(Arg::Scale, t(&[6], F32)).arg(Arg::Shift, t(&[6], F32)));
    for (algorithm, data_type) in
        [(ReductionAlgorithm::Sum, F32), (ReductionAlgorithm::Mean, F64), (ReductionAlgorithm::Max, BF16)]
    {
        list.push(plain(
            Op::Reduction(Reduction::new(algorithm)),
            &[6, 37, 3],
            data_type,
            &[6, 1, 3],
            data_type,
        ));
    }
    let blocked = |data_type| MemoryDesc::with_tag([2, 19, 5], data_type, "aBc16b").unwrap();
    list.push(PrimitiveDesc::builder(Op::Reorder(Reorder)).src(t(&[2, 19, 5], F32)).dst(blocked(BF16)));
    list.push(PrimitiveDesc::builder(Op::Reorder(Reorder)).src(blocked(S8)).dst(t(&[2, 19, 5], F32)));
    list.push(PrimitiveDesc::builder(Op::Reorder(Reorder)).src(t(&[2, 19, 5], F64)).dst(t(&[2, 19, 5], S32)));
    for data_type in [F16, U8] {
        list.push(
            plain(Op::Concat(Concat::new(1)), &[3, 11], data_type, &[3, 18], data_type)
                .arg(Arg::Src(1), t(&[3, 7], data_type)),
        );
    }
    let types = &engine.capabilities().storage_types;
    list.retain(|builder| {
        let desc = builder.clone().build().unwrap();
        desc.args().iter().all(|arg| types.contains(&arg.desc.data_type()))
    });
    list
}

#[test]
fn gaps_between_rows_at_odd_offsets_stay() {
    for engine in test_engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let gapped = MemoryDesc::with_strides([5, 9], DataType::F32, [11, 1]).unwrap();
        let builder =
            PrimitiveDesc::builder(Op::Reorder(Reorder)).src(t(&[5, 9], DataType::F32)).dst(gapped.clone());
        let sample = Sample::new(&engine, &stream, builder);
        let cover = data::coverage(&gapped).unwrap();
        let dst = sample.args.iter().find(|operand| operand.arg == Arg::DST).unwrap();
        let gaps = cover.iter().zip(&dst.after).filter(|(cover, _)| **cover == Cover::Gap);
        assert!(gaps.clone().count() > 0 && gaps.clone().all(|(_, &byte)| byte == POISON));
        for origin in Origin::all(&engine) {
            for offset in [1, 2, 3, 6] {
                sample.check(&engine, &stream, &mut |_| (origin, offset)).unwrap();
            }
        }
    }
}

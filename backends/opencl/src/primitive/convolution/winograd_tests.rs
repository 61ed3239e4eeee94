//! Winograd's transforms, against the reference and where they are chosen.

use anydnn_backend::conformance::values::Values;
use anydnn_backend::op::{Convolution, Op, Reorder};
use anydnn_backend::{
    Arg, Attributes, BinaryAlgorithm, DataType, DeviceKind, Eltwise, Engine, Event, Layout, MemoryDesc,
    MemoryKind, PostOp, PrimitiveDesc, PrimitiveDescBuilder, Specialize, Stream, StreamDesc,
};

use crate::plan::DeviceTraits;
use crate::primitive::opaque::transformed;
use crate::primitive::rows::is_cpu;
use crate::primitive::tests::{check_on, cpu, f32, gpu, planned, sweep, tagged};
use crate::testing::shared_test_engines;

/// Windows of 3 x 3 over images with their channels last.
#[derive(Clone, Copy, Debug)]
struct Case {
    images: usize,
    channels: usize,
    outputs: usize,
    height: usize,
    width: usize,
    pads: [[usize; 2]; 2],
}

impl Case {
    fn result(&self) -> [usize; 4] {
        let [begin, end] = self.pads;
        let along = |extent: usize, i: usize| extent + begin[i] + end[i] - 2;
        [self.images, self.outputs, along(self.height, 0), along(self.width, 1)]
    }

    fn with_weights(&self, weights: MemoryDesc) -> PrimitiveDescBuilder {
        let op = Convolution::new(2).with_pads(self.pads[0], self.pads[1]);
        PrimitiveDesc::builder(Op::Convolution(op))
            .src(tagged(&[self.images, self.channels, self.height, self.width], "acdb"))
            .weights(weights)
            .dst(tagged(&self.result(), "acdb"))
    }

    fn weights(&self) -> MemoryDesc {
        f32(&[self.outputs, self.channels, 3, 3])
    }

    /// Of transformed weights, whether that pays or not.
    fn transformed(&self) -> PrimitiveDescBuilder {
        self.with_weights(transformed(&self.weights()).unwrap())
    }
}

fn binary(operand: MemoryDesc) -> PostOp {
    PostOp::Binary { algorithm: BinaryAlgorithm::Add, operand, reversed: false }
}

/// By register tiles for both kinds of registers, on every device as if it were a processor.
fn check(desc: &PrimitiveDesc) {
    for engine in shared_test_engines() {
        for float_lanes in [8, 16] {
            let device = DeviceTraits { kind: DeviceKind::Cpu, float_lanes, ..engine.traits() };
            let plan = crate::primitive::plan(desc, &device).unwrap();
            assert_eq!(plan.implementation, "ocl:convolution:winograd");
            check_on(&engine, plan, |_| None);
        }
    }
}

/// Blocks that end within lines and within images, one line of tiles and one column, odd extents, borders of all sizes, panels and vectors
/// of channels that are filled in part; what comes behind the sums as lists of steps and as text.
#[test]
fn transformed_weights_mean_the_same() {
    let case = |images, channels, outputs, height, width, pads| Case {
        images,
        channels,
        outputs,
        height,
        width,
        pads,
    };
    let same = [[1; 2]; 2];
    let cases = [
        case(1, 32, 32, 14, 14, same),
        case(2, 33, 48, 9, 15, same),
        case(3, 47, 33, 3, 7, [[0, 0], [0, 0]]),
        case(1, 64, 70, 5, 40, [[0, 1], [2, 0]]),
        case(5, 40, 64, 6, 3, [[2, 2], [2, 2]]),
        case(1, 300, 34, 5, 11, same),
    ];
    for (i, case) in cases.into_iter().enumerate() {
        let post_ops = match i {
            0 => vec![],
            1 => vec![PostOp::Eltwise(Eltwise::Relu)],
            2 => vec![binary(tagged(&case.result(), "acdb")), PostOp::Eltwise(Eltwise::Relu)],
            3 => vec![PostOp::Eltwise(Eltwise::Swish { alpha: 1.0 })],
            4 => vec![PostOp::Eltwise(Eltwise::Mish), binary(f32(&[1, case.outputs, 1, 1]))],
            _ => vec![PostOp::Sum { scale: 0.5, zero_point: 0, data_type: None }],
        };
        let attributes = post_ops.into_iter().fold(Attributes::default(), Attributes::with_post_op);
        let builder = case.transformed().attributes(attributes);
        let builder = if i % 2 == 0 { builder.bias(f32(&[case.outputs])) } else { builder };
        check(&builder.build().unwrap());
    }
}

#[test]
fn random_windows_mean_the_same_transformed() {
    let (count, mut random) = sweep(4);
    for _ in 0..count {
        let mut draw = |from: u64, to: u64| (from + random.below(to + 1 - from)) as usize;
        let case = Case {
            images: draw(1, 2),
            channels: draw(32, 70),
            outputs: draw(32, 70),
            height: draw(3, 12),
            width: draw(3, 12),
            pads: [[draw(0, 2), draw(0, 2)], [draw(0, 2), draw(0, 2)]],
        };
        check(&case.transformed().build().unwrap());
    }
}

/// Where they are permitted and save time; nothing else has weights in their layout.
#[test]
fn transforms_are_taken_where_they_pay() {
    let permitted = Attributes::default().with_winograd(true);
    let named = |case: Case, device: &DeviceTraits, attributes: &Attributes| {
        let builder = case.with_weights(case.weights().to_any()).attributes(attributes.clone());
        planned(builder, device).implementation.replace("ocl:convolution:", "")
    };
    let square = |channels: usize, outputs: usize, extent: usize| Case {
        images: 1,
        channels,
        outputs,
        height: extent,
        width: extent,
        pads: [[1; 2]; 2],
    };
    for (channels, outputs, extent, name) in [
        (64, 64, 56, "winograd"),
        (128, 128, 28, "winograd"),
        (256, 256, 14, "winograd"),
        (64, 64, 20, "winograd"),
        // One panel of outputs; few tiles, most of which would be empty; few channels, or outputs.
        (64, 32, 28, "blocked"),
        (512, 512, 7, "blocked"),
        (16, 64, 56, "blocked"),
        (64, 16, 56, "blocked"),
        // Weights beyond offsets of 32 bits once they are transformed, and not before.
        (64, 500_000, 28, "winograd"),
        (64, 530_000, 28, "blocked"),
    ] {
        assert_eq!(named(square(channels, outputs, extent), &cpu(), &permitted), name, "{channels} {extent}");
    }
    let case = square(64, 64, 56);
    assert_eq!(named(case, &cpu(), &Attributes::default()), "blocked");
    // Registers of fewer sums, and other devices.
    assert_eq!(named(case, &DeviceTraits { float_lanes: 8, ..cpu() }, &permitted), "winograd");
    assert_ne!(named(case, &gpu(), &permitted), "winograd");
    // Steps and other types.
    let strided = Convolution::new(2).with_strides([2; 2]).with_pads([1; 2], [1; 2]);
    let builder = PrimitiveDesc::builder(Op::Convolution(strided)).src(tagged(&[1, 64, 56, 56], "acdb"));
    let builder = builder.weights(case.weights().to_any()).dst(tagged(&[1, 64, 28, 28], "acdb"));
    assert_eq!(planned(builder.attributes(permitted), &cpu()).implementation, "ocl:convolution:blocked");
}

/// Weights cannot be had back, and no other layout that strides cannot tell is known.
#[test]
fn opaque_layouts_are_weights_of_windows_alone() {
    let weights = f32(&[64, 64, 3, 3]);
    let own = transformed(&weights).unwrap();
    let other = MemoryDesc::with_layout([64, 64, 3, 3], DataType::F32, Layout::Opaque { id: 7, bytes: 64 });
    for (src, dst) in [(own.clone(), weights.clone()), (weights.clone(), other.unwrap())] {
        let desc = PrimitiveDesc::builder(Op::Reorder(Reorder)).src(src).dst(dst).build().unwrap();
        let error = crate::primitive::plan(&desc, &cpu()).unwrap_err().to_string();
        assert!(error.contains("opaque layout"), "{error}");
    }
    let desc = PrimitiveDesc::builder(Op::Reorder(Reorder)).src(weights).dst(own.clone()).build().unwrap();
    let plan = crate::primitive::plan(&desc, &cpu()).unwrap();
    assert_eq!(
        (plan.implementation.as_str(), plan.desc.find(Arg::DST)),
        ("ocl:reorder:winograd", Some(&own))
    );
}

/// The program for one shape computes what the one for all shapes does, bit for bit.
#[test]
fn transforms_of_both_forms_are_the_same() {
    let case = Case { images: 2, channels: 35, outputs: 50, height: 7, width: 12, pads: [[1; 2]; 2] };
    for engine in shared_test_engines().iter().filter(|engine| is_cpu(&engine.traits())) {
        let result = |specialize: Specialize| {
            let desc = case.transformed().bias(f32(&[50])).build().unwrap();
            let desc = desc.with_specialize(Some(specialize));
            let stream = engine.create_stream(&StreamDesc::default()).unwrap();
            let mut args = Vec::new();
            for (seed, operand) in desc.args().iter().enumerate() {
                let memory = engine.create_memory(&operand.desc, MemoryKind::Buffer).unwrap();
                let drawn = Values::Uniform(-1.0, 1.0).draw(operand.desc.size() / 4, seed as u64);
                let bytes: Vec<u8> = drawn.iter().flat_map(|x| (*x as f32).to_ne_bytes()).collect();
                stream.write(&memory, 0, &bytes, &[]).unwrap();
                args.push((operand.arg, memory));
            }
            let primitive = engine.create_primitive(&desc).unwrap();
            stream.execute(&primitive, &args, &[]).unwrap().wait().unwrap();
            let mut bytes = vec![0; desc.dst().size()];
            let (_, dst) = args.iter().find(|(arg, _)| *arg == Arg::DST).unwrap();
            stream.read(dst, 0, &mut bytes, &[]).unwrap();
            bytes
        };
        assert!(result(Specialize::Never) == result(Specialize::Eager), "{}", engine.traits().name);
    }
}

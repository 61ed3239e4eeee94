//! The functions that vectors of f32 are computed with on processors, over the whole range of their arguments.

use anydnn_backend::conformance::Sample;
use anydnn_backend::op::{Expression, Node};
use anydnn_backend::{
    Arg, DeviceKind, Eltwise, Engine, MemoryKind, Op, Primitive, PrimitiveDesc, Stream, StreamDesc,
};

use super::plan;
use super::tests::f32;
use crate::OpenClPrimitive;
use crate::plan::DeviceTraits;
use crate::testing::shared_test_engines;

/// Arguments of every magnitude, around the places where formulas change and beyond those where results overflow.
fn arguments() -> Vec<f32> {
    let mut list = vec![0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN];
    let edges = [0.346_573_6, 0.55, 1.0, 9.02, 20.0, 30.0, 87.336_54, 88.376_27, 88.722_82, 88.722_9, 104.0];
    let magnitudes = (-120..=40).map(|i| 1.7_f32.powi(i) * 1.25).chain((1..2000).map(|i| i as f32 * 0.0513));
    let near = edges.iter().flat_map(|&x: &f32| [x.next_down(), x, x.next_up()]);
    for x in magnitudes.chain(near).filter(|x| *x >= f32::MIN_POSITIVE) {
        list.extend([x, -x]);
    }
    list
}

#[test]
fn functions_of_vectors_are_right_for_every_argument() {
    let functions = [
        Eltwise::Elu { alpha: 1.5 },
        Eltwise::Exp,
        Eltwise::GeluErf,
        Eltwise::GeluTanh,
        Eltwise::Log,
        Eltwise::Mish,
        Eltwise::Sigmoid,
        Eltwise::SoftPlus { beta: 0.5 },
        Eltwise::Swish { alpha: 1.0 },
        Eltwise::Tanh,
        Eltwise::Pow { alpha: 2.0, beta: 3.0 },
        Eltwise::Pow { alpha: 2.0, beta: 0.5 },
        Eltwise::Pow { alpha: 2.0, beta: -0.5 },
    ];
    let arguments = arguments();
    let bytes: Vec<u8> = arguments.iter().flat_map(|x| x.to_le_bytes()).collect();
    let layout = f32(&[arguments.len()]);
    let sample = Sample::from_env();
    for (number, engine) in shared_test_engines().into_iter().enumerate() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let source = engine.create_memory(&layout, MemoryKind::Buffer).unwrap();
        let result = engine.create_memory(&layout, MemoryKind::Buffer).unwrap();
        stream.write(&source, 0, &bytes, &[]).unwrap();
        let taken = functions.into_iter().enumerate().filter(|(i, _)| sample.takes(*i, number));
        for (_, function) in taken {
            let desc = PrimitiveDesc::builder(Op::Eltwise(function)).src(layout.clone()).build().unwrap();
            let device = DeviceTraits { kind: DeviceKind::Cpu, ..engine.traits() };
            let primitive = OpenClPrimitive::from_plan(&engine, plan(&desc, &device).unwrap()).unwrap();
            let args = [(Arg::SRC, source.clone()), (Arg::DST, result.clone())];
            stream.execute(&primitive, &args, &[]).unwrap();
            let mut bytes = bytes.clone();
            stream.read(&result, 0, &mut bytes, &[]).unwrap();
            for (&x, y) in arguments.iter().zip(bytes.chunks_exact(4)) {
                let y = f32::from_le_bytes(y.try_into().unwrap());
                let exact = function.reference(f64::from(x));
                // What an argument's sum with one or its halving loses near zero is a part of the argument.
                let small = match function {
                    Eltwise::GeluErf | Eltwise::GeluTanh => f64::from(x.abs().min(1.0)) * 4e-7,
                    _ => 0.0,
                };
                let bound = 2e-36 + small + 1.9e-6 * exact.abs();
                let expected = exact as f32;
                let same = y.to_bits() == expected.to_bits() || (y.is_nan() && expected.is_nan());
                let near = (f64::from(y) - exact).abs() <= bound;
                assert!(
                    same || near,
                    "{function:?} of {x:e} is {y:e}, expected {exact:e} ({})",
                    primitive.implementation()
                );
            }
        }
    }
}

/// What is left of one far from zero, to a few units in the last place.
#[test]
fn gradients_of_sigmoids_are_small_numbers_far_from_zero() {
    let arguments: Vec<f32> = (1..200).flat_map(|i| [i as f32 * 0.21, i as f32 * -0.21]).collect();
    let layout = f32(&[arguments.len()]);
    let bytes = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let of_sigmoid = |x: f64| (-x.abs()).exp() / (1.0 + (-x.abs()).exp()).powi(2);
    for engine in shared_test_engines() {
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let [at, diff, result] =
            std::array::from_fn(|_| engine.create_memory(&layout, MemoryKind::Buffer).unwrap());
        stream.write(&at, 0, &bytes(&arguments), &[]).unwrap();
        stream.write(&diff, 0, &bytes(&vec![1.0; arguments.len()]), &[]).unwrap();
        for function in [Eltwise::Sigmoid, Eltwise::Tanh] {
            let mut e = Expression::new([arguments.len()]);
            let (x, y) = (e.push(Node::Operand(0)), e.push(Node::Operand(1)));
            e.results = vec![e.push(Node::Gradient { function, of_result: false, at: x, diff: y })];
            let builder = PrimitiveDesc::builder(Op::Expression(e)).src(layout.clone()).src(layout.clone());
            let primitive = engine.create_primitive(&builder.dst(layout.clone()).build().unwrap()).unwrap();
            let args = [(Arg::SRC, at.clone()), (Arg::Src(1), diff.clone()), (Arg::DST, result.clone())];
            stream.execute(&primitive, &args, &[]).unwrap();
            let mut made = bytes(&arguments);
            stream.read(&result, 0, &mut made, &[]).unwrap();
            for (x, made) in arguments.iter().zip(made.as_chunks::<4>().0) {
                let (x, made) = (f64::from(*x), f64::from(f32::from_le_bytes(*made)));
                let expected =
                    if function == Eltwise::Tanh { 4.0 * of_sigmoid(2.0 * x) } else { of_sigmoid(x) };
                let error = (made - expected).abs() / expected;
                let name = &engine.traits().name;
                assert!(error < 2e-5, "{function:?} at {x} on {name}: {made:e} instead of {expected:e}");
            }
        }
    }
}

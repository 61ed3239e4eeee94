//! Expressions in every shape of kernel against their definition.

use std::collections::BTreeMap;

use anydnn_backend::conformance::data;
use anydnn_backend::conformance::reference::{self, Tensor, Tensors};
use anydnn_backend::conformance::values::{Random, Values};
use anydnn_backend::op::{BinaryAlgorithm as B, Domain, Eltwise as E, Expression, Fold, Node, Op};
use anydnn_backend::{
    Arg, Attributes, DataType, DeviceKind, Dims, Engine, MemoryDesc, MemoryKind, PostOp, Primitive,
    PrimitiveDesc, PrimitiveDescBuilder, Stream, StreamDesc, TensorValues, Tolerance,
};
use approx::relative_eq;

use crate::plan::{DeviceTraits, KernelPlan};
use crate::primitive::plan;
use crate::testing::{engines_for, shared_test_engines};
use crate::{OpenClEngine, OpenClPrimitive};

fn f32(dims: &[usize]) -> MemoryDesc {
    MemoryDesc::new(dims, DataType::F32)
}

fn typed(dims: &[usize], data_type: DataType) -> MemoryDesc {
    MemoryDesc::new(dims, data_type)
}

fn tagged(dims: &[usize], tag: &str) -> MemoryDesc {
    MemoryDesc::with_tag(dims, DataType::F32, tag).unwrap()
}

/// An expression in the making.
struct Made {
    op: Expression,
    sources: Vec<MemoryDesc>,
    results: Vec<MemoryDesc>,
}

impl Made {
    fn new(dims: &[usize], folded: &[usize]) -> Self {
        let op = Expression::new(dims).with_folded(folded);
        Self { op, sources: Vec::new(), results: Vec::new() }
    }

    fn source(&mut self, desc: MemoryDesc) -> usize {
        self.sources.push(desc);
        self.op.push(Node::Operand(self.sources.len() as u16 - 1))
    }

    fn constant(&mut self, x: f32) -> usize {
        self.op.push(Node::Constant(x))
    }

    fn apply(&mut self, function: E, x: usize) -> usize {
        self.op.push(Node::Eltwise(function, x))
    }

    fn both(&mut self, algorithm: B, a: usize, b: usize) -> usize {
        self.op.push(Node::Binary(algorithm, a, b))
    }

    fn fold(&mut self, fold: Fold, x: usize) -> usize {
        self.op.push(Node::Fold(fold, x))
    }

    fn result(&mut self, node: usize, desc: MemoryDesc) {
        self.op.results.push(node);
        self.results.push(desc);
    }

    fn builder(self) -> PrimitiveDescBuilder {
        let mut builder = PrimitiveDesc::builder(Op::Expression(self.op));
        for desc in self.sources {
            builder = builder.src(desc);
        }
        for (i, desc) in self.results.into_iter().enumerate() {
            builder = builder.arg(Arg::Dst(i as u16), desc);
        }
        builder
    }

    fn build(self) -> PrimitiveDesc {
        self.builder().build().unwrap()
    }
}

/// Everything that has no folds: blocks, indices, casts, selection, dropout, several results.
fn pointwise(dims: &[usize; 3], tag: &str) -> Made {
    let [a, b, c] = *dims;
    let mut e = Made::new(dims, &[]);
    let x = e.source(tagged(dims, tag));
    let scale = e.source(f32(&[a, b / 4, 1]));
    let zero = e.source(typed(&[c / 2], DataType::U8));
    let scaled = e.both(B::Multiply, x, scale);
    let moved = e.both(B::Add, scaled, zero);
    let byte = e.op.push(Node::Cast(DataType::S8, moved));
    let (row, column) = (e.op.push(Node::Index(1)), e.op.push(Node::Index(2)));
    let below = e.both(B::GreaterEqual, row, column);
    let fill = e.constant(-3.5);
    let masked = e.op.push(Node::Select(below, x, fill));
    for _ in 0..2 {
        e.sources.push(typed(&[1], DataType::S64));
    }
    e.sources.push(f32(&[1, 1, 1, 1]));
    let keep = e.op.push(Node::Keep { seed: 3, offset: 4, probability: 5 });
    let dropped = e.both(B::Multiply, masked, keep);
    let slope = e.op.push(Node::Gradient { function: E::GeluErf, of_result: false, at: x, diff: moved });
    e.result(dropped, tagged(dims, tag));
    e.result(byte, typed(dims, DataType::S8));
    e.result(slope, typed(dims, DataType::F16));
    e
}

fn softmax(dims: &[usize], axis: usize) -> Made {
    let mut e = Made::new(dims, &[axis]);
    let x = e.source(f32(dims));
    let max = e.fold(Fold::Max, x);
    let shifted = e.both(B::Subtract, x, max);
    let exp = e.apply(E::Exp, shifted);
    let sum = e.fold(Fold::Sum, exp);
    let y = e.both(B::Divide, exp, sum);
    e.result(y, f32(dims));
    e
}

/// A normalisation with its statistics: of layers or, folded along other axes, of batches.
fn normalization(x: MemoryDesc, folded: &[usize], scale: MemoryDesc) -> Made {
    let dims = x.dims().clone();
    let mut e = Made::new(&dims, folded);
    let statistics = MemoryDesc::new(e.op.folded_dims(), DataType::F32);
    let count = dims.elements() / statistics.elements();
    let y = x.clone();
    let x = e.source(x);
    let scale = e.source(scale);
    let sum = e.fold(Fold::Sum, x);
    let mean = e.apply(E::Linear { alpha: 1.0 / count as f32, beta: 0.0 }, sum);
    let difference = e.both(B::Subtract, x, mean);
    let square = e.apply(E::Square, difference);
    let squares = e.fold(Fold::Sum, square);
    let variance = e.apply(E::Linear { alpha: 1.0 / count as f32, beta: 1e-5 }, squares);
    let deviation = e.apply(E::Sqrt, variance);
    let normal = e.both(B::Divide, difference, deviation);
    let scaled = e.both(B::Multiply, normal, scale);
    e.result(scaled, y);
    e.result(mean, statistics.clone());
    e.result(variance, statistics);
    e
}

/// Several folds of one level, of which nothing varies along the folded axes.
fn statistics(x: MemoryDesc, folded: &[usize], post_op: bool) -> PrimitiveDesc {
    let mut e = Made::new(x.dims(), folded);
    let rows = e.op.folded_dims();
    let x = e.source(x);
    let half = e.constant(0.5);
    let small = e.both(B::Multiply, x, half);
    for fold in [Fold::Max, Fold::Sum, Fold::Min] {
        let total = e.fold(fold, if fold == Fold::Sum { small } else { x });
        e.result(total, MemoryDesc::new(rows.clone(), DataType::F32));
    }
    let attributes = if post_op {
        let operand = f32(&[1]);
        Attributes::default().with_post_op(PostOp::binary(B::Add, operand.clone())).with_post_op(
            PostOp::Select { condition: operand.clone(), other: operand, other_where_true: true },
        )
    } else {
        Attributes::default()
    };
    e.builder().attributes(attributes).build().unwrap()
}

fn planned(desc: &PrimitiveDesc, device: DeviceTraits, kind: DeviceKind) -> KernelPlan {
    let group = device.max_work_group.min(64);
    plan(desc, &DeviceTraits { kind, max_work_group: group, ..device }).unwrap()
}

const KINDS: [DeviceKind; 2] = [DeviceKind::Cpu, DeviceKind::Gpu];

fn check_all(list: &[(PrimitiveDesc, [&str; 2])]) {
    for (desc, shapes) in list {
        for engine in engines_for(desc) {
            for (kind, shape) in KINDS.into_iter().zip(shapes) {
                let plan = planned(desc, engine.traits().without_sub_groups(), kind);
                assert_eq!(plan.implementation, format!("ocl:expression:{shape}"), "{desc}");
                check(&engine, plan);
            }
        }
    }
}

#[test]
fn elements_by_themselves_make_one_launch_for_all_results() {
    check_all(&[
        (pointwise(&[3, 8, 38], "abc").build(), ["nd", "nd"]),
        (pointwise(&[2, 20, 6], "aBc8b").build(), ["nd", "nd"]),
    ]);
}

#[test]
fn rows_are_folded_in_every_mode() {
    let mut general = softmax(&[2, 19, 5], 1);
    general.sources = vec![tagged(&[2, 19, 5], "aBc8b")];
    general.results = vec![tagged(&[2, 19, 5], "aBc8b")];
    check_all(&[
        (softmax(&[7, 100], 1).build(), ["vector", "parts"]),
        (softmax(&[3, 20, 40], 1).build(), ["vertical", "ref"]),
        (general.build(), ["ref", "ref"]),
        (normalization(f32(&[5, 300]), &[1], f32(&[5])).build(), ["vector", "group"]),
        (normalization(f32(&[4, 6, 5, 7]), &[0, 2, 3], f32(&[6, 1, 1])).build(), ["vector", "group"]),
    ]);
}

#[test]
fn few_long_rows_are_shared() {
    let long = tagged(&[8, 20, 64, 32], "acdb");
    check_all(&[
        (statistics(f32(&[40, 1000]), &[0, 1], true), ["staged", "staged"]),
        (statistics(long.clone(), &[0, 2, 3], false), ["staged", "staged"]),
        (normalization(long, &[0, 2, 3], f32(&[20, 1, 1])).build(), ["staged", "staged"]),
        (normalization(f32(&[2, 40000]), &[1], f32(&[1])).build(), ["staged", "staged"]),
    ]);
}

#[test]
fn odd_folds_are_folds_too() {
    let none = {
        let mut e = Made::new(&[3, 0], &[1]);
        let x = e.source(f32(&[3, 0]));
        let sum = e.fold(Fold::Sum, x);
        let max = e.fold(Fold::Max, x);
        e.result(sum, f32(&[3, 1]));
        e.result(max, f32(&[3, 1]));
        e.build()
    };
    let constant = {
        let mut e = Made::new(&[3, 37], &[1]);
        let x = e.source(f32(&[3, 1]));
        let sum = e.fold(Fold::Sum, x);
        let one = e.constant(1.0);
        let count = e.fold(Fold::Sum, one);
        let y = e.both(B::Divide, sum, count);
        e.result(y, f32(&[3, 37]));
        e.result(count, f32(&[3, 1]));
        e.build()
    };
    let nothing = {
        let mut e = Made::new(&[20], &[]);
        let x = e.source(f32(&[20]));
        let product = e.fold(Fold::Product, x);
        let y = e.apply(E::Square, product);
        e.result(y, f32(&[20]));
        e.build()
    };
    let wide = {
        let mut e = Made::new(&[4, 33], &[1]);
        let x = e.source(typed(&[4, 33], DataType::F64));
        let sum = e.fold(Fold::Sum, x);
        let y = e.both(B::Subtract, x, sum);
        e.result(y, typed(&[4, 33], DataType::F64));
        e.build()
    };
    for desc in [&none, &constant, &nothing, &wide] {
        for engine in engines_for(desc) {
            for kind in KINDS {
                check(&engine, planned(desc, engine.traits(), kind));
            }
        }
    }
}

#[test]
fn derivatives_are_those_of_the_definition() {
    let mut e = Made::new(&[40], &[]);
    let (x, diff) = (e.source(f32(&[40])), e.source(f32(&[40])));
    let share = e.apply(E::Sigmoid, x);
    for row in E::TABLE {
        let function = row.example;
        let (low, high) = match row.domain {
            Domain::Between(low, high) | Domain::AwayFromZero(low, high) => (low as f32, high as f32),
            Domain::Quarters => (-5.0, 5.0),
        };
        let at = e.apply(E::Linear { alpha: high - low, beta: low }, share);
        for of_result in [false, true] {
            if !of_result || function.has_gradient_of_result() {
                let slope = e.op.push(Node::Gradient { function, of_result, at, diff });
                e.result(slope, f32(&[40]));
            }
        }
    }
    let desc = e.build();
    for engine in shared_test_engines() {
        check(&engine, planned(&desc, engine.traits(), DeviceKind::Cpu));
    }
}

#[test]
fn random_expressions_mean_what_they_say() {
    for seed in 0..12 {
        let desc = random(seed);
        for engine in engines_for(&desc) {
            check(&engine, planned(&desc, engine.traits(), KINDS[seed as usize % 2]));
        }
    }
}

/// A random expression. Its functions are bounded and continuous, so that errors stay small; what decides is exact.
fn random(seed: u64) -> PrimitiveDesc {
    let mut random = Random::new(seed);
    let dims = [2 + 2 * random.below(2) as usize, 4, 1 + random.below(40) as usize];
    let folded: Vec<usize> = (0..3).filter(|_| random.below(2) == 0).collect();
    let mut e = Made::new(&dims, &folded);
    for _ in 0..3 {
        let mut own = dims.to_vec();
        for (axis, dim) in own.iter_mut().enumerate() {
            let shapes = [*dim, *dim, 1, if axis < 2 { 2 } else { *dim }];
            *dim = *random.pick(&shapes).unwrap();
        }
        own.drain(..random.below(2) as usize);
        let types = [DataType::F32, DataType::F16, DataType::S8, DataType::F8E4M3, DataType::U4];
        e.source(typed(&own, *random.pick(&types).unwrap()));
    }
    let exact = e.op.push(Node::Index(random.below(3) as usize));
    for _ in 0..12 {
        let count = e.op.nodes.len() as u64;
        let mut any = || random.below(count) as usize;
        let (a, b) = (any(), any());
        let node = match random.below(9) {
            0 => Node::Eltwise(E::Tanh, a),
            1 => Node::Eltwise(E::Sigmoid, a),
            2 => Node::Eltwise(E::HardSwish { alpha: 0.1, beta: 0.5 }, a),
            3 => Node::Binary(B::Subtract, a, b),
            4 => Node::Binary(B::Maximum, a, b),
            5 => Node::Select(exact, a, b),
            6 => Node::Gradient { function: E::Swish { alpha: 0.5 }, of_result: false, at: a, diff: b },
            7 => Node::Fold(Fold::Max, a),
            _ => Node::Fold(Fold::Sum, a),
        };
        e.op.push(node);
    }
    let varies = e.op.varies(|i| Some(e.sources[usize::from(i)].dims().clone()));
    for i in 0..2 {
        let node = e.op.nodes.len() - 1 - i;
        let rows = e.op.folded_dims();
        let own = if varies[node] || random.below(2) == 0 { Dims::from(dims) } else { rows };
        e.result(node, MemoryDesc::new(own, DataType::F32));
    }
    e.build()
}

fn check(engine: &OpenClEngine, plan: KernelPlan) {
    let primitive = OpenClPrimitive::from_plan(engine, plan).unwrap();
    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
    let desc = primitive.desc();
    let (mut inputs, mut args) = (Tensors::new(), Vec::new());
    for (seed, operand) in desc.args().iter().enumerate() {
        let layout = &operand.desc;
        let mut drawn = Values::of(layout.data_type()).draw(layout.elements(), seed as u64);
        if operand.arg == Arg::Src(5) {
            drawn = vec![0.25];
        }
        let bytes = data::encode(layout, &drawn).unwrap();
        let values = data::decode(layout, &bytes).unwrap();
        inputs.insert(operand.arg, Tensor::new(layout.dims().clone(), values).unwrap());
        let memory = engine.create_memory(layout, MemoryKind::Buffer).unwrap();
        stream.write(&memory, 0, &bytes, &[]).unwrap();
        args.push((operand.arg, memory));
    }
    inputs.retain(|arg, _| !matches!(arg, Arg::Dst(_)));
    stream.execute(&primitive, &args, &[]).unwrap();
    for (arg, expected) in expected(desc, &inputs) {
        let (_, memory) = args.iter().find(|(a, _)| *a == arg).unwrap();
        let layout = desc.find(arg).unwrap();
        let mut bytes = vec![0; layout.size()];
        stream.read(memory, 0, &mut bytes, &[]).unwrap();
        let actual = TensorValues::decode(layout, &bytes).unwrap();
        let scale = expected.iter().filter(|x| x.is_finite()).fold(1.0_f64, |a, x| a.max(x.abs()));
        let data_type = layout.data_type();
        let rounding = if data_type.is_float() { 0.0 } else { 1.0 };
        let tolerance = Tolerance {
            absolute: 2e-5 * scale + rounding,
            relative: 2.0 * data_type.unit_roundoff(),
            scaled: false,
        };
        let stored = expected.iter().map(|value| data_type.stored(*value));
        let expected = TensorValues::new(layout, stored).unwrap();
        assert!(
            relative_eq!(actual, expected.within(tolerance)),
            "{desc} on {} by {}: {arg} is {actual:?} instead of {expected:?}\n{desc:?}",
            engine.opencl_device(),
            primitive.implementation()
        );
    }
}

fn expected(desc: &PrimitiveDesc, inputs: &Tensors) -> BTreeMap<Arg, Vec<f64>> {
    reference::compute(desc, inputs).unwrap().into_iter().map(|(arg, t)| (arg, t.values)).collect()
}

/// A chain of roundings, as pairs of operations around each function of a model of integers make it, of one operand of bytes beside a number.
/// Nothing lies half-way between two integers, and all else is exact.
fn roundings(dims: &[usize], [from, to]: [DataType; 2]) -> Made {
    let mut e = Made::new(dims, &[]);
    let x = e.source(typed(dims, from));
    let displacement = e.source(typed(&[1], DataType::S8));
    let mut v = e.both(B::Add, x, displacement);
    for (function, rounded) in [
        (E::Linear { alpha: 0.25, beta: 0.125 }, DataType::S8),
        (E::HardSigmoid { alpha: 0.0625, beta: 0.5 }, DataType::F32),
        (E::Linear { alpha: 32.0, beta: 0.25 }, DataType::U8),
        (E::Square, DataType::F32),
        (E::Linear { alpha: 0.015_625, beta: -4.992_187_5 }, DataType::S8),
    ] {
        v = e.apply(function, v);
        v = e.op.push(Node::Cast(rounded, v));
    }
    e.result(v, typed(dims, to));
    e
}

#[test]
fn long_expressions_of_bytes_come_from_a_table() {
    use DataType::{F32, S8, U8};
    let mut two = roundings(&[3, 5000], [S8, U8]);
    let other = two.source(typed(&[3, 5000], S8));
    let last = two.op.results[0];
    two.op.results[0] = two.both(B::Add, last, other);
    check_all(&[
        (roundings(&[3, 5003], [S8, U8]).build(), ["tabled", "flat"]),
        (roundings(&[4, 3, 5003], [U8, S8]).build(), ["tabled", "flat"]),
        (roundings(&[9000], [S8, S8]).build(), ["tabled", "flat"]),
        // Short ones do not pay, and those of two operands, or without bytes, have no table.
        (roundings(&[5000], [S8, U8]).build(), ["flat", "flat"]),
        (roundings(&[3, 5000], [S8, F32]).build(), ["flat", "flat"]),
        (two.build(), ["flat", "flat"]),
    ]);
}

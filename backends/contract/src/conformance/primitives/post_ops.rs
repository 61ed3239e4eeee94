use super::convolution::convolution;
use super::matmul::matmul;
use super::{Trials, dense, f32, gapped, tagged, transposed};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::{
    Binary, Convolution, LayerNormalization, Pooling, PoolingAlgorithm, Reduction, ReductionAlgorithm,
    Reorder, Select, Softmax,
};
use crate::{
    Arg, Attributes, BinaryAlgorithm, DataType, Eltwise, MemoryDesc, Op, PostOp, PrimitiveDesc,
    PrimitiveDescBuilder, Result,
};

const RELU: PostOp = PostOp::Eltwise(Eltwise::Relu);

pub(super) fn trials(list: &mut Trials) {
    functions(list);
    binaries(list);
    selections(list);
    sums(list);
    operations(list);
    operands(list);
}

/// Every function, in chains whose arguments stay where they are defined.
fn functions(list: &mut Trials) {
    let chains = [
        [Eltwise::Log, Eltwise::Exp, Eltwise::Sqrt, Eltwise::Square],
        [Eltwise::GeluErf, Eltwise::Tanh, Eltwise::Linear { alpha: -1.5, beta: 0.5 }, Eltwise::Abs],
        [Eltwise::Sigmoid, Eltwise::Reciprocal, Eltwise::Pow { alpha: 0.5, beta: 1.5 }, Eltwise::Relu],
        [
            Eltwise::Linear { alpha: 1.0, beta: -1.0 },
            Eltwise::Elu { alpha: 0.5 },
            Eltwise::LeakyRelu { alpha: 0.25 },
            Eltwise::HardSigmoid { alpha: 0.2, beta: 0.5 },
        ],
        [
            Eltwise::GeluTanh,
            Eltwise::Mish,
            Eltwise::Swish { alpha: 1.25 },
            Eltwise::Clamp { min: 0.2, max: 0.9 },
        ],
        [
            Eltwise::Round,
            Eltwise::HardSwish { alpha: 0.2, beta: 0.5 },
            Eltwise::SoftPlus { beta: 2.0 },
            Eltwise::Relu,
        ],
    ];
    for chain in chains {
        let names: Vec<&str> = chain.iter().map(|op| op.name()).collect();
        list.add(format!("post_ops/chain/{}", names.join("_")), || {
            let builder = with(plain(f32(&[7, 9])), chain.map(PostOp::Eltwise));
            Ok(Trial::of(builder)?.values(Arg::SRC, Values::Uniform(0.5, 2.0)))
        });
    }
    list.add("post_ops/nan_passes_through", || {
        let clamp = PostOp::Eltwise(Eltwise::Clamp { min: 0.0, max: 6.0 });
        let maximum = PostOp::binary(BinaryAlgorithm::Maximum, f32(&[1]));
        let trial = Trial::of(with(plain(f32(&[9])), [RELU, clamp, maximum]))?;
        Ok(trial.values(Arg::SRC, Values::Listed(vec![1.0, f64::NAN, -3.0, 8.0])))
    });
}

/// Every binary algorithm, with operands of every shape on either side.
fn binaries(list: &mut Trials) {
    use BinaryAlgorithm::{
        Add, Divide, Equal, Greater, GreaterEqual, Less, LessEqual, Maximum, Minimum, Multiply, NotEqual,
        Power, SquaredDifference, Subtract,
    };
    let dims = [2, 5, 3, 4];
    let (channel, scalar, row) = (&[1, 5, 1, 1][..], &[][..], &[4][..]);
    let operand =
        |algorithm, dims: &[usize], reversed| PostOp::Binary { algorithm, operand: f32(dims), reversed };
    let mut add = |name: &str, chain: Vec<PostOp>, exact: bool| {
        list.add(format!("post_ops/binary/{name}"), || {
            let positive = Values::Uniform(0.5, 2.0);
            let values = if exact { Values::Integers(-2, 2) } else { positive };
            let count = chain.len() as u16;
            let trial = Trial::of(with(plain(f32(&dims)), chain))?.values(Arg::SRC, values.clone());
            let trial = (0..count).fold(trial, |trial, i| trial.values(Arg::PostOp(i), values.clone()));
            Ok(if exact { trial.exact() } else { trial })
        });
    };
    let arithmetic = |reversed| {
        vec![
            operand(Add, channel, reversed),
            operand(Multiply, &dims, reversed),
            operand(Subtract, scalar, reversed),
            operand(Divide, row, false),
        ]
    };
    add("arithmetic", arithmetic(false), false);
    add("arithmetic_reversed", arithmetic(true), false);
    for reversed in [false, true] {
        let side = if reversed { "_reversed" } else { "" };
        let chain = vec![
            operand(Power, channel, reversed),
            operand(Maximum, row, reversed),
            operand(Minimum, &dims, reversed),
            operand(SquaredDifference, scalar, reversed),
        ];
        add(&format!("powers_and_extremes{side}"), chain, false);
        let chain = vec![
            operand(Greater, &dims, reversed),
            operand(Subtract, channel, reversed),
            operand(LessEqual, row, reversed),
            operand(NotEqual, scalar, reversed),
        ];
        add(&format!("comparisons{side}"), chain, true);
        let chain = vec![
            operand(GreaterEqual, channel, reversed),
            operand(Add, &dims, reversed),
            operand(Less, &[5, 1, 1], reversed),
            operand(Equal, row, reversed),
        ];
        add(&format!("more_comparisons{side}"), chain, true);
    }
    add("divide_reversed", vec![operand(Divide, &dims, true), operand(Power, channel, true)], false);
}

/// One of two by a condition, whichever way round.
fn selections(list: &mut Trials) {
    let select = |condition: MemoryDesc, other: MemoryDesc, other_where_true| PostOp::Select {
        condition,
        other,
        other_where_true,
    };
    let truth = |dims: &[usize]| dense(dims, DataType::Boolean);
    for (name, other_where_true) in [("where_true", true), ("where_false", false)] {
        list.add(format!("post_ops/select/other_{name}"), || {
            let chain = [
                select(truth(&[5, 9]), f32(&[9]), other_where_true),
                RELU,
                select(dense(&[5, 1], DataType::S8), f32(&[]), !other_where_true),
            ];
            let trial = Trial::of(with(plain(f32(&[5, 9])), chain))?;
            Ok(trial.values(Arg::PostOp(2), Values::Integers(-1, 1)).exact())
        });
    }
    // What is not selected must not show.
    list.add("post_ops/select/nan_elsewhere", || {
        let trial = Trial::of(with(plain(f32(&[4])), [select(truth(&[4]), f32(&[4]), true)]))?;
        let (nan, infinity) = (f64::NAN, f64::INFINITY);
        Ok(trial
            .values(Arg::SRC, Values::Listed(vec![nan, 7.0, infinity, 8.0]))
            .values(Arg::PostOp(0), Values::Listed(vec![1.0, 0.0]))
            .values(Arg::PostOpOther(0), Values::Listed(vec![5.0, nan, 6.0, infinity]))
            .exact())
    });
    list.add("post_ops/select/after_matmul", || {
        let chain = [
            PostOp::Eltwise(Eltwise::Linear { alpha: 0.5, beta: 0.0 }),
            select(truth(&[5, 6]), dense(&[1], DataType::F16), true),
            PostOp::binary(BinaryAlgorithm::Add, f32(&[6])),
        ];
        Trial::of(with(matmul(f32(&[2, 5, 8]), f32(&[2, 8, 6]), DataType::F32), chain))
    });
    list.add("post_ops/select/after_convolution", || {
        let builder = convolution(Convolution::new(2), f32(&[2, 3, 5, 5]), f32(&[4, 3, 3, 3]), DataType::F32);
        let other = transposed(&[2, 4, 3, 3], DataType::F32)?;
        Trial::of(with(builder, [select(truth(&[4, 1, 1]), other, false)]))
    });
}

fn sums(list: &mut Trials) {
    let half = || PostOp::Eltwise(Eltwise::Linear { alpha: 0.5, beta: 0.0 });
    for (name, chain) in [
        ("first", vec![PostOp::sum(1.0), RELU]),
        ("scaled_last", vec![half(), PostOp::sum(-0.5)]),
        ("between", vec![RELU, PostOp::sum(2.0), half(), PostOp::binary(BinaryAlgorithm::Add, f32(&[6]))]),
        ("twice", vec![PostOp::sum(1.0), half(), PostOp::sum(3.0)]),
    ] {
        list.add(format!("post_ops/sum/{name}"), || {
            Trial::of(with(matmul(f32(&[5, 8]), f32(&[8, 6]), DataType::F32), chain))
        });
    }
    for data_type in [DataType::F16, DataType::BF16] {
        list.add(format!("post_ops/sum/{data_type}_convolution"), || {
            let (src, weights) = (dense(&[1, 3, 5, 5], data_type), dense(&[4, 3, 3, 3], data_type));
            Trial::of(with(
                convolution(Convolution::new(2), src, weights, data_type),
                [PostOp::sum(1.0), RELU],
            ))
        });
    }
    list.add("post_ops/sum/gaps", || {
        let builder = PrimitiveDesc::builder(Op::Reorder(Reorder)).src(f32(&[6, 7])).dst(gapped(
            &[6, 7],
            DataType::F32,
            2,
            3,
        )?);
        Trial::of(with(builder, [PostOp::sum(0.5)]))
    });
    list.add("post_ops/sum/blocked", || {
        let desc = tagged(&[2, 6, 3, 3], DataType::F32, "aBcd4b")?;
        Trial::of(with(plain(desc), [PostOp::sum(2.0)]))
    });
    for (data_type, read_as) in [(DataType::S8, None), (DataType::U8, Some(DataType::S8))] {
        let name = read_as.map_or(String::new(), |read_as| format!("_read_as_{read_as}"));
        list.add(format!("post_ops/sum/zero_point_{data_type}{name}"), || {
            let sum = PostOp::Sum { scale: 2.0, zero_point: 3, data_type: read_as };
            let src = dense(&[5, 9], DataType::S32);
            let builder =
                PrimitiveDesc::builder(Op::Reorder(Reorder)).src(src).dst(dense(&[5, 9], data_type));
            Ok(Trial::of(with(builder, [sum]))?.exact())
        });
    }
}

/// Every operation that takes post-operations, with one of each kind.
fn operations(list: &mut Trials) {
    let chain = |channel: &[usize], full: &[usize]| {
        vec![
            PostOp::binary(BinaryAlgorithm::Multiply, f32(channel)),
            PostOp::Eltwise(Eltwise::LeakyRelu { alpha: 0.25 }),
            PostOp::binary(BinaryAlgorithm::Subtract, f32(full)),
        ]
    };
    let mut add = |name: &str, make: &dyn Fn() -> Result<PrimitiveDescBuilder>| {
        list.add(format!("post_ops/after/{name}"), || Trial::of(make()?));
    };
    add("matmul", &|| {
        let builder = matmul(f32(&[2, 5, 8]), f32(&[2, 8, 6]), DataType::F32).bias(f32(&[6]));
        Ok(with(builder, chain(&[6], &[2, 5, 6])))
    });
    add("integer_matmul", &|| {
        let builder = matmul(dense(&[5, 8], DataType::U8), dense(&[8, 6], DataType::S8), DataType::S8);
        let scale = PostOp::Eltwise(Eltwise::Linear { alpha: 0.125, beta: 1.0 });
        Ok(with(builder, [scale, PostOp::binary(BinaryAlgorithm::Multiply, f32(&[6])), RELU]))
    });
    add("f16_matmul", &|| {
        let half = |dims: &[usize]| dense(dims, DataType::F16);
        let builder = matmul(half(&[5, 8]), half(&[8, 6]), DataType::F16);
        let add = PostOp::binary(BinaryAlgorithm::Add, half(&[5, 6]));
        Ok(with(builder, [add, PostOp::Eltwise(Eltwise::Tanh)]))
    });
    add("convolution", &|| {
        let builder = convolution(Convolution::new(2), f32(&[2, 3, 5, 5]), f32(&[4, 3, 3, 3]), DataType::F32);
        Ok(with(builder.bias(f32(&[4])), chain(&[1, 4, 1, 1], &[2, 4, 3, 3])))
    });
    add("channels_last_convolution", &|| {
        let layout = |dims: &[usize]| tagged(dims, DataType::F32, "acdb");
        let builder = PrimitiveDesc::builder(Op::Convolution(Convolution::new(2)))
            .src(layout(&[1, 3, 5, 5])?)
            .weights(f32(&[4, 3, 3, 3]))
            .dst(layout(&[1, 4, 3, 3])?);
        let residual = PostOp::binary(BinaryAlgorithm::Add, layout(&[1, 4, 3, 3])?);
        Ok(with(builder, [residual, RELU]))
    });
    add("pooling", &|| {
        let op = Pooling::new(PoolingAlgorithm::AverageExcludePadding, [2, 2]);
        let builder = PrimitiveDesc::builder(Op::Pooling(op)).src(f32(&[2, 3, 4, 5])).dst(f32(&[2, 3, 3, 4]));
        Ok(with(builder, chain(&[3, 1, 1], &[2, 3, 3, 4])))
    });
    add("softmax", &|| {
        let builder =
            PrimitiveDesc::builder(Op::Softmax(Softmax::new(1))).src(f32(&[4, 9])).dst(f32(&[4, 9]));
        Ok(with(builder, chain(&[9], &[4, 9])))
    });
    add("layer_normalization", &|| {
        let op = Op::LayerNormalization(LayerNormalization::new(1, 1e-5));
        let builder =
            PrimitiveDesc::builder(op).src(f32(&[4, 9])).dst(f32(&[4, 9])).arg(Arg::Mean, f32(&[4]));
        // The statistics are results too, and stay as they are.
        Ok(with(builder.arg(Arg::Variance, f32(&[4])), chain(&[4, 1], &[4, 9])))
    });
    add("reduction", &|| {
        let op = Op::Reduction(Reduction::new(ReductionAlgorithm::Sum));
        let builder = PrimitiveDesc::builder(op).src(f32(&[4, 9, 3])).dst(f32(&[4, 1, 3]));
        Ok(with(builder, chain(&[3], &[4, 1, 3])))
    });
    add("eltwise", &|| {
        let builder =
            PrimitiveDesc::builder(Op::Eltwise(Eltwise::Sigmoid)).src(f32(&[4, 9])).dst(f32(&[4, 9]));
        Ok(with(builder, chain(&[4, 1], &[4, 9])))
    });
    add("binary", &|| {
        let op = Op::Binary(Binary::new(BinaryAlgorithm::Add));
        let builder = PrimitiveDesc::builder(op).src(f32(&[4, 9])).src(f32(&[9])).dst(f32(&[4, 9]));
        Ok(with(builder, chain(&[9], &[4, 9])))
    });
    add("select", &|| {
        let builder = PrimitiveDesc::builder(Op::Select(Select))
            .src(dense(&[4, 9], DataType::Boolean))
            .src(f32(&[4, 9]))
            .src(f32(&[1]))
            .dst(f32(&[4, 9]));
        Ok(with(builder, chain(&[9], &[4, 9])))
    });
}

/// Operands of other types and layouts than the result's, and open ones' company.
fn operands(list: &mut Trials) {
    list.add("post_ops/operand/f16", || {
        let add = PostOp::binary(BinaryAlgorithm::Add, dense(&[5, 9], DataType::F16));
        Trial::of(with(plain(f32(&[5, 9])), [add]))
    });
    list.add("post_ops/operand/s8", || {
        let multiply = PostOp::binary(BinaryAlgorithm::Multiply, dense(&[9], DataType::S8));
        Trial::of(with(plain(f32(&[5, 9])), [multiply]))
    });
    list.add("post_ops/operand/transposed", || {
        let subtract = PostOp::binary(BinaryAlgorithm::Subtract, transposed(&[5, 9], DataType::F32)?);
        Trial::of(with(plain(f32(&[5, 9])), [RELU, subtract]))
    });
    list.add("post_ops/operand/in_place", || {
        let subtract = PostOp::binary(BinaryAlgorithm::Subtract, f32(&[5, 9]));
        Ok(Trial::of(with(plain(f32(&[5, 9])), [subtract]))?.in_place(Arg::PostOp(0)))
    });
    for (name, make) in [
        ("matmul", &(|| matmul(f32(&[19, 21]), f32(&[21, 37]), DataType::F32)) as &dyn Fn() -> _),
        ("convolution", &|| {
            convolution(Convolution::new(2), f32(&[1, 5, 6, 7]), f32(&[9, 5, 3, 3]), DataType::F32)
        }),
    ] {
        list.add(format!("post_ops/operand/in_place_{name}"), || {
            let builder: PrimitiveDescBuilder = make();
            let dims = builder.clone().build()?.dst().dims().clone();
            let subtract = PostOp::binary(BinaryAlgorithm::Subtract, MemoryDesc::new(dims, DataType::F32));
            Ok(Trial::of(with(builder, [subtract, RELU]))?.in_place(Arg::PostOp(0)))
        });
    }
    list.add("post_ops/operand/open_result", || {
        let builder = PrimitiveDesc::builder(Op::Convolution(Convolution::new(2)))
            .src(MemoryDesc::any([1, 5, 6, 6], DataType::F32))
            .weights(MemoryDesc::any([7, 5, 3, 3], DataType::F32))
            .dst(MemoryDesc::any([1, 7, 4, 4], DataType::F32));
        Trial::of(with(builder, [PostOp::binary(BinaryAlgorithm::Add, f32(&[1, 7, 4, 4])), RELU]))
    });
}

/// The identity, for post-operations to show on.
fn plain(desc: MemoryDesc) -> PrimitiveDescBuilder {
    PrimitiveDesc::builder(Op::Reorder(Reorder)).src(desc.clone()).dst(desc)
}

fn with(builder: PrimitiveDescBuilder, chain: impl IntoIterator<Item = PostOp>) -> PrimitiveDescBuilder {
    builder.attributes(chain.into_iter().fold(Attributes::default(), Attributes::with_post_op))
}

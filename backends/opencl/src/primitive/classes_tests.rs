//! How many programs shapes that were never met before take: as many as there are classes of them, however many shapes there are.

use std::collections::{BTreeMap, HashSet};

use anydnn_backend::conformance::values::Random;
use anydnn_backend::op::{
    Attention, Binary, Convolution, Deconvolution, Expression, LayerNormalization, Node, Pooling,
    PoolingAlgorithm, Reduction, ReductionAlgorithm, Reorder, Resampling, ResamplingAlgorithm, Softmax,
};
use anydnn_backend::{
    Arg, Attributes, BinaryAlgorithm, DataType, Eltwise, MemoryDesc, Op, PostOp, PrimitiveDesc,
    PrimitiveDescBuilder,
};

use super::plan;
use super::tests::{cpu, f32, gpu, matmul, planned, tagged};
use crate::plan::DeviceTraits;

/// Shapes of each family.
const SHAPES: usize = 300;

/// What draws a description.
type Draw = fn(&mut Random) -> PrimitiveDescBuilder;

fn between(random: &mut Random, low: usize, high: usize) -> usize {
    low + random.below((high - low + 1) as u64) as usize
}

fn finished(random: &mut Random) -> Attributes {
    let high = 1.0 + random.below(6) as f32;
    Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Clamp { min: 0.0, max: high }))
}

fn attention(random: &mut Random) -> PrimitiveDescBuilder {
    let [batch, heads, width] = [between(random, 1, 3), between(random, 1, 12), between(random, 8, 128)];
    let [queries, keys] = [between(random, 1, 300), between(random, 1, 300)];
    let mut scores = Expression::new([batch, heads, queries, keys]);
    let product = scores.push(Node::Operand(0));
    let factor = scores.push(Node::Constant(1.0 / (width as f32).sqrt()));
    let scaled = scores.push(Node::Binary(BinaryAlgorithm::Multiply, product, factor));
    scores.results.push(scaled);
    PrimitiveDesc::builder(Op::Attention(Attention::new(scores)))
        .src(f32(&[batch, heads, queries, width]))
        .src(f32(&[batch, heads, keys, width]))
        .src(f32(&[batch, heads, keys, width]))
}

fn product(random: &mut Random) -> PrimitiveDescBuilder {
    let [batch, m, k, n] = [
        between(random, 1, 3),
        between(random, 17, 2000),
        between(random, 16, 3000),
        between(random, 16, 3000),
    ];
    matmul(f32(&[batch, m, k]), f32(&[1, k, n])).bias(f32(&[1, 1, n])).attributes(finished(random))
}

fn convolution(random: &mut Random) -> PrimitiveDescBuilder {
    let [channels, outputs] = [between(random, 3, 200), between(random, 1, 200)];
    let (kernel, stride) = ([1, 3, 5][between(random, 0, 2)], between(random, 1, 2));
    convolved(random, (channels, outputs, 1), kernel, stride)
}

fn filters(random: &mut Random) -> PrimitiveDescBuilder {
    let channels = between(random, 1, 200);
    let (kernel, stride) = ([3, 5][between(random, 0, 1)], between(random, 1, 2));
    convolved(random, (channels, channels, channels), kernel, stride)
}

fn convolved(
    random: &mut Random,
    (channels, outputs, groups): (usize, usize, usize),
    kernel: usize,
    stride: usize,
) -> PrimitiveDescBuilder {
    let pad = kernel / 2;
    let op = Convolution::new(2).with_pads([pad; 2], [pad; 2]).with_strides([stride; 2]).with_groups(groups);
    let [images, height, width] = [between(random, 1, 2), between(random, 1, 150), between(random, 1, 150)];
    let after = |extent: usize| extent.div_ceil(stride);
    PrimitiveDesc::builder(Op::Convolution(op))
        .src(tagged(&[images, channels, height, width], "acdb"))
        .weights(f32(&[outputs, channels / groups, kernel, kernel]))
        .bias(f32(&[outputs]))
        .dst(tagged(&[images, outputs, after(height), after(width)], "acdb"))
        .attributes(finished(random))
}

fn transposed(random: &mut Random) -> PrimitiveDescBuilder {
    let [channels, outputs] = [between(random, 1, 60), between(random, 1, 60)];
    let [height, width] = [between(random, 1, 80), between(random, 1, 80)];
    PrimitiveDesc::builder(Op::Deconvolution(Deconvolution::new(2).with_strides([2, 2])))
        .src(tagged(&[1, channels, height, width], "acdb"))
        .weights(f32(&[channels, outputs, 2, 2]))
        .dst(tagged(&[1, outputs, 2 * height, 2 * width], "acdb"))
}

fn pooling(random: &mut Random) -> PrimitiveDescBuilder {
    let algorithm = [PoolingAlgorithm::Max, PoolingAlgorithm::AverageExcludePadding][between(random, 0, 1)];
    let [kernel, stride] = [between(random, 1, 4), between(random, 1, 3)];
    let [images, channels] = [between(random, 1, 3), between(random, 1, 100)];
    let [height, width] = [between(random, kernel, 90), between(random, kernel, 90)];
    let after = |extent: usize| (extent - kernel) / stride + 1;
    let tag = ["abcd", "acdb"][between(random, 0, 1)];
    PrimitiveDesc::builder(Op::Pooling(Pooling::new(algorithm, [kernel; 2]).with_strides([stride; 2])))
        .src(tagged(&[images, channels, height, width], tag))
        .dst(tagged(&[images, channels, after(height), after(width)], tag))
}

fn mean(random: &mut Random) -> PrimitiveDescBuilder {
    let [images, channels] = [between(random, 1, 3), between(random, 1, 500)];
    let [height, width] = [between(random, 1, 160), between(random, 1, 160)];
    PrimitiveDesc::builder(Op::Reduction(Reduction::new(ReductionAlgorithm::Mean)))
        .src(tagged(&[images, channels, height, width], "acdb"))
        .dst(f32(&[images, channels, 1, 1]))
}

fn softmax(random: &mut Random) -> PrimitiveDescBuilder {
    let dims = [between(random, 1, 4), between(random, 1, 200), between(random, 1, 4000)];
    PrimitiveDesc::builder(Op::Softmax(Softmax::new(2))).src(f32(&dims))
}

fn normalization(random: &mut Random) -> PrimitiveDescBuilder {
    let dims = [between(random, 1, 4), between(random, 1, 200), between(random, 1, 4000)];
    PrimitiveDesc::builder(Op::LayerNormalization(LayerNormalization::new(2, 1e-5))).src(f32(&dims))
}

fn resampling(random: &mut Random) -> PrimitiveDescBuilder {
    let [channels, height, width] = [between(random, 1, 100), between(random, 1, 60), between(random, 1, 60)];
    let times = between(random, 1, 4);
    PrimitiveDesc::builder(Op::Resampling(Resampling::new(ResamplingAlgorithm::Nearest)))
        .src(tagged(&[1, channels, height, width], "acdb"))
        .dst(tagged(&[1, channels, times * height, times * width], "acdb"))
}

fn sum(random: &mut Random) -> PrimitiveDescBuilder {
    let dims =
        [between(random, 1, 3), between(random, 1, 100), between(random, 1, 90), between(random, 1, 90)];
    PrimitiveDesc::builder(Op::Binary(Binary::new(BinaryAlgorithm::Add)))
        .src(tagged(&dims, "acdb"))
        .src(f32(&[dims[0], dims[1], 1, 1]))
        .dst(tagged(&dims, "acdb"))
}

/// Each family with the most programs that its shapes may take, those of sums in parts and of paddings included: a tile has up to four, as one
/// operand or the result comes in whole vectors or not.
#[test]
fn shapes_of_a_kind_share_few_programs_on_gpus() {
    let families: [(&str, Draw, usize); 11] = [
        ("attention", attention, 20),
        ("product", product, 28),
        ("convolution", convolution, 44),
        ("filters", filters, 19),
        ("transposed", transposed, 22),
        ("pooling", pooling, 14),
        ("mean", mean, 14),
        ("softmax", softmax, 18),
        ("normalization", normalization, 18),
        ("resampling", resampling, 9),
        ("sum", sum, 8),
    ];
    for (family, draw, most) in families {
        let mut random = Random::new(20_261_124);
        let mut programs: BTreeMap<String, HashSet<blake3::Hash>> = BTreeMap::new();
        for _ in 0..SHAPES {
            let made = plan(&draw(&mut random).build().unwrap(), &gpu()).unwrap();
            for launch in made.launches.iter().filter(|launch| !launch.global.contains(&0)) {
                assert!(!launch.table.is_empty(), "{family}: {} has its shape in its text", launch.kernel);
                programs.entry(launch.kernel.clone()).or_default().insert(launch.program.source.hash());
            }
        }
        let all: usize = programs.values().map(HashSet::len).sum();
        let counts: Vec<_> = programs.iter().map(|(kernel, texts)| (kernel, texts.len())).collect();
        assert!(
            all <= most,
            "{SHAPES} shapes of {family} take {all} programs, of at most {most}: {counts:?}"
        );
    }
}

/// What a new length or batch size compiles: tiles of as many rows as registers hold and of one less serve most numbers of rows.
#[test]
fn numbers_of_rows_share_few_programs_on_processors() {
    for (float_lanes, panels) in [(8, "Ba16b"), (16, "Ba64b")] {
        let device = DeviceTraits { float_lanes, ..cpu() };
        let program = |m: usize| {
            let weights = tagged(&[120, 512], panels);
            let open = planned(matmul(f32(&[m, 120]), weights.to_any()), &device);
            assert!(open.desc.find(Arg::Weights).unwrap().same_bytes(&weights), "{m} rows");
            let plan = planned(matmul(f32(&[m, 120]), weights), &device);
            assert_eq!(plan.implementation, "ocl:matmul:blocked", "{m} rows");
            plan.launches.last().unwrap().program.source.hash()
        };
        let programs = |rows: std::ops::Range<usize>| rows.map(program).collect::<HashSet<_>>().len();
        assert_eq!(programs(5..300), 1);
        assert_eq!(programs(1..300), 5);
    }
}

/// What a short line of text compiles on a GPU: programs have registers for one row, or for up to 4, 8, 12 and 16.
#[test]
fn numbers_of_few_rows_share_programs_on_gpus() {
    for weights in [f32(&[1000, 600]), tagged(&[1000, 600], "ba")] {
        let program = |m: usize| {
            let plan = planned(matmul(f32(&[m, 1000]), weights.clone()), &gpu());
            assert_eq!(plan.implementation, "ocl:matmul:skinny", "{m} rows");
            assert_eq!(plan.launches[0].special.is_some(), !matches!(m, 1 | 4 | 8 | 12 | 16), "{m} rows");
            plan.launches[0].program.source.hash()
        };
        assert_eq!((1..=9).map(program).collect::<HashSet<_>>().len(), 4, "{weights}");
    }
}

/// Self-attention of a sequence of any length: few queries fill a tile in part, and keys may be fewer than a tile.
#[test]
fn lengths_of_a_sequence_share_programs_on_processors() {
    let program = |length: usize| {
        let mut scores = Expression::new([1, 8, length, length]);
        let product = scores.push(Node::Operand(0));
        scores.results.push(product);
        let operand = || f32(&[1, 8, length, 32]);
        let desc = PrimitiveDesc::builder(Op::Attention(Attention::new(scores)));
        let plan = planned(desc.src(operand()).src(operand()).src(operand()), &cpu());
        assert_eq!(plan.implementation, "ocl:attention:vector", "{length}");
        plan.launches[0].program.source.hash()
    };
    let programs = |lengths: std::ops::Range<usize>| lengths.map(program).collect::<HashSet<_>>().len();
    assert_eq!(programs(2..257), 1);
    assert_eq!(programs(2..1025), 2);
}

/// What a second model finds of the first one's programs: windows of any size and padding.
#[test]
fn pooled_lines_share_programs_on_processors() {
    let count = |plans: &[PrimitiveDescBuilder]| {
        let hashes =
            plans.iter().map(|builder| planned(builder.clone(), &cpu()).launches[0].program.source.hash());
        hashes.collect::<HashSet<_>>().len()
    };
    let pooled = |[channels, height, width]: [usize; 3], kernel: usize, pad: usize, algorithm| {
        let op = Pooling::new(algorithm, [kernel; 2]).with_strides([2, 2]).with_pads([pad; 2], [pad; 2]);
        let after = |extent: usize| (extent + 2 * pad - kernel) / 2 + 1;
        PrimitiveDesc::builder(Op::Pooling(op))
            .src(tagged(&[1, channels, height, width], "acdb"))
            .dst(tagged(&[1, channels, after(height), after(width)], "acdb"))
    };
    let largest = |dims, kernel, pad| pooled(dims, kernel, pad, PoolingAlgorithm::Max);
    assert_eq!(
        count(&[largest([64, 112, 112], 3, 1), largest([16, 6, 48], 2, 0), largest([40, 3, 9], 3, 0)]),
        1
    );
    let means = [PoolingAlgorithm::AverageExcludePadding, PoolingAlgorithm::AverageIncludePadding];
    let mean = means.map(|algorithm| pooled([32, 7, 7], 3, 1, algorithm));
    assert_eq!(count(&mean), 1);
}

/// The texts of the last launches of descriptions, which compute: those before them may prepare operands.
fn texts(descs: impl IntoIterator<Item = PrimitiveDescBuilder>) -> HashSet<String> {
    let plans = descs.into_iter().map(|desc| planned(desc, &cpu()));
    plans.map(|plan| plan.launches.last().unwrap().program.source.to_string()).collect()
}

#[test]
fn activations_share_a_program_on_processors() {
    let functions = [
        None,
        Some(Eltwise::Relu),
        Some(Eltwise::HardSwish { alpha: 1.0 / 6.0, beta: 0.5 }),
        Some(Eltwise::Sigmoid),
        Some(Eltwise::Swish { alpha: 1.0 }),
        Some(Eltwise::GeluErf),
        Some(Eltwise::GeluTanh),
        Some(Eltwise::Tanh),
    ];
    let attributes = || {
        functions.map(|function| {
            let none = Attributes::default();
            function.map_or(none.clone(), |function| none.with_post_op(PostOp::Eltwise(function)))
        })
    };
    let convolutions = attributes().map(|attributes| {
        let mut random = Random::new(7);
        convolved(&mut random, (64, 96, 1), 3, 1).attributes(attributes)
    });
    assert_eq!(texts(convolutions).len(), 1);
    let products = attributes().map(|attributes| {
        matmul(f32(&[128, 384]), f32(&[384, 1536])).bias(f32(&[1, 1536])).attributes(attributes)
    });
    assert_eq!(texts(products).len(), 1);
}

/// Lengths of a sequence along which elements lie in the result, and far apart in the source; and numbers of a single run.
#[test]
fn turned_rows_of_any_few_elements_share_a_program_on_processors() {
    let copied = |n: usize| {
        PrimitiveDesc::builder(Op::Reorder(Reorder)).src(tagged(&[12, 32, n], "acb")).dst(f32(&[12, 32, n]))
    };
    assert_eq!(texts((4..32).map(copied)).len(), 1);
    let cast = |n: usize| {
        let numbers = MemoryDesc::new([1, 1, 1, n], DataType::S64);
        PrimitiveDesc::builder(Op::Reorder(Reorder)).src(numbers).dst(f32(&[1, 1, 1, n]))
    };
    assert_eq!(texts((4..300).map(cast)).len(), 1);
}

#[test]
fn scales_of_quantised_layers_share_programs_on_processors() {
    let quantised = |scale: f32, zero_point: f32| {
        [
            Eltwise::Linear { alpha: 1.0 / scale, beta: 0.0 },
            Eltwise::Round,
            Eltwise::Linear { alpha: 1.0, beta: zero_point },
        ]
        .into_iter()
        .fold(Attributes::default(), |attributes, function| {
            attributes.with_post_op(PostOp::Eltwise(function))
        })
    };
    let scales = [(0.0123, 124.0), (0.5, 0.0), (1.0, 128.0), (3.7, 1.0)];
    let of = |data_type, dims: &[usize]| MemoryDesc::new(dims, data_type);
    let bytes = || of(DataType::U8, &[128, 384]);
    let products = scales.map(|(scale, zero_point)| {
        let weights = of(DataType::S8, &[384, 384]);
        matmul(bytes(), weights).dst(bytes()).attributes(quantised(scale, zero_point))
    });
    assert_eq!(texts(products).len(), 1);
    let rows = scales.map(|(scale, zero_point)| {
        let op = Op::Softmax(Softmax::new(1));
        PrimitiveDesc::builder(op).src(f32(&[128, 384])).dst(bytes()).attributes(quantised(scale, zero_point))
    });
    assert_eq!(texts(rows).len(), 1);
    let normalizations = scales.map(|(scale, zero_point)| {
        let op = Op::LayerNormalization(LayerNormalization::new(1, 1e-5));
        PrimitiveDesc::builder(op).src(f32(&[128, 384])).dst(bytes()).attributes(quantised(scale, zero_point))
    });
    assert_eq!(texts(normalizations).len(), 1);
}

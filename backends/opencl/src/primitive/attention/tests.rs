//! Attention by every variant, against the reference.

use anydnn_backend::conformance::values::Values;
use anydnn_backend::op::{Attention, Expression, Node, Op};
use anydnn_backend::{
    Arg, Attributes, BinaryAlgorithm, DataType, Dequantize, Eltwise, MemoryDesc, PostOp, PrimitiveDesc,
    PrimitiveDescBuilder, Quantized,
};

use crate::capability::Feature;
use crate::plan::DeviceTraits;
use crate::primitive::tests::{check_everywhere, cpu, f32, gpu, planned};

/// Scores over `[.., S, T]`: the products times a factor.
fn scaled(dims: &[usize], factor: f32) -> Expression {
    let mut e = Expression::new(dims);
    let x = e.push(Node::Operand(0));
    let factor = e.push(Node::Constant(factor));
    let scaled = e.push(Node::Binary(BinaryAlgorithm::Multiply, x, factor));
    e.results.push(scaled);
    e
}

/// Scores with a mask added from the operand `mask`, and only keys up to the query's index.
fn causal(dims: &[usize], mask: u16) -> Expression {
    let mut e = scaled(dims, 0.25);
    let mask = e.push(Node::Operand(mask));
    let sum = e.push(Node::Binary(BinaryAlgorithm::Add, 2, mask));
    let (s, t) = (e.push(Node::Index(dims.len() - 2)), e.push(Node::Index(dims.len() - 1)));
    let seen = e.push(Node::Binary(BinaryAlgorithm::GreaterEqual, s, t));
    let never = e.push(Node::Constant(f32::NEG_INFINITY));
    e.results = vec![e.nodes.len()];
    e.push(Node::Select(seen, sum, never));
    e
}

/// Weights that are kept at random; seed, offset and probability are the operands from `first` on.
fn dropped(dims: &[usize], first: u16) -> Expression {
    let mut e = Expression::new(dims);
    let x = e.push(Node::Operand(0));
    let kept = e.push(Node::Keep { seed: first, offset: first + 1, probability: first + 2 });
    let half = e.push(Node::Constant(2.0));
    let twice = e.push(Node::Binary(BinaryAlgorithm::Multiply, x, half));
    let product = e.push(Node::Binary(BinaryAlgorithm::Multiply, twice, kept));
    let rounded = e.push(Node::Cast(DataType::F16, product));
    e.results.push(rounded);
    e
}

fn attention(op: Attention, [q, k, v]: [MemoryDesc; 3]) -> PrimitiveDescBuilder {
    PrimitiveDesc::builder(Op::Attention(op)).src(q).src(k).src(v)
}

fn typed(dims: &[usize], data_type: DataType) -> MemoryDesc {
    MemoryDesc::new(dims, data_type)
}

#[test]
fn one_launch_by_the_variant_of_the_device() {
    let op = || Attention::new(scaled(&[40, 4, 64, 80], 0.125));
    let qkv = || [f32(&[40, 4, 64, 32]), f32(&[40, 4, 80, 32]), f32(&[40, 4, 80, 32])];
    let small = DeviceTraits { max_work_group: 64, ..gpu() };
    for (device, name) in [(cpu(), "vector"), (gpu(), "tiled"), (small, "ref")] {
        let plan = planned(attention(op(), qkv()), &device);
        assert_eq!(plan.implementation, format!("ocl:attention:{name}"));
        assert_eq!((plan.launches.len(), plan.scratchpad), (1, 0));
        // Programs of vectors say so, or Intel's compiler makes them of 16 work-items at a time as well.
        let source = &plan.launches[0].program.source.to_string();
        assert_eq!(source.contains("vec_type_hint(float16)"), name == "vector");
        if name == "vector" {
            assert!(source.contains("#define LOAD_LINES 1\n") && source.contains("#define STORE_LINES 1\n"));
        }
    }
}

#[test]
fn matrix_units_take_what_fits_them() {
    let device = gpu().with(Feature::NvidiaMma, Ok("made up"));
    let choose = |op: Attention, qkv: [MemoryDesc; 3]| planned(attention(op, qkv), &device);
    let of = |dims: [usize; 4], width: usize, data_type| {
        let [b, h, s, t] = dims;
        [[b, h, s, width], [b, 1, t, width], [b, 1, t, width]].map(|dims| typed(&dims, data_type))
    };
    let dims = [2, 4, 700, 80];
    let op = || Attention::new(scaled(&dims, 0.125));
    for (width, data_type, name) in [
        (128, DataType::F16, "mma"),
        (96, DataType::BF16, "mma"),
        (8, DataType::F16, "mma"),
        (136, DataType::F16, "tiled"),
        (20, DataType::F16, "tiled"),
        (64, DataType::F32, "tiled"),
    ] {
        assert_eq!(choose(op(), of(dims, width, data_type)).implementation, format!("ocl:attention:{name}"));
    }
    let mut dropping = op();
    dropping.weights = Some(scaled(&dims, 2.0));
    assert_eq!(choose(dropping, of(dims, 64, DataType::F16)).implementation, "ocl:attention:tiled");
    // Odd steps between rows leave no chunks of sixteen bytes.
    let strides = [4 * 700 * 65, 700 * 65, 65, 1];
    let wide = MemoryDesc::with_strides([2, 4, 700, 64], DataType::F16, strides).unwrap();
    let [_, key, value] = of(dims, 64, DataType::F16);
    assert_eq!(choose(op(), [wide, key, value]).implementation, "ocl:attention:tiled");
    // What fills a large device, and a causal mask that leaves blocks out.
    let qkv = [0; 3].map(|_| typed(&[64, 2048, 128], DataType::F16));
    let masked = attention(Attention::new(causal(&[64, 2048, 2048], 1)), qkv).src(f32(&[64, 1, 1]));
    let large = planned(masked, &device);
    let launch = &large.launches[0];
    assert_eq!((launch.global, launch.local), ([4096, 64, 1], Some([256, 1, 1])));
    assert!(launch.program.source.to_string().contains("#define HIDES 1"));
    let small = DeviceTraits { local_memory_bytes: 32 << 10, ..device.clone() };
    assert_eq!(
        planned(attention(op(), of(dims, 128, DataType::F16)), &small).implementation,
        "ocl:attention:tiled"
    );
}

/// Much work of wide rows fills the multiprocessors of NVIDIA's Hopper.
#[test]
fn tensor_cores_take_what_fills_them() {
    let hopper = gpu().with(Feature::NvidiaMma, Ok("made up")).with(Feature::Wgmma, Ok("made up"));
    let of = |heads: usize, [s, t]: [usize; 2], [d, e]: [usize; 2], data_type| {
        let qkv = [[heads, s, d], [heads, t, d], [heads, t, e]].map(|dims| typed(&dims, data_type));
        planned(attention(Attention::new(scaled(&[heads, s, t], 0.125)), qkv), &hopper)
    };
    let units = hopper.compute_units;
    for (heads, rows, widths, data_type, name) in [
        (units, [512, 512], [128, 128], DataType::F16, "wgmma"),
        (units, [777, 900], [64, 96], DataType::BF16, "wgmma"),
        (units, [512, 512], [48, 64], DataType::F16, "mma"),
        (units, [512, 512], [64, 80], DataType::F16, "mma"),
        (units, [512, 255], [64, 64], DataType::F16, "mma"),
        (units / 4, [128, 512], [64, 64], DataType::F16, "mma"),
        (units, [512, 512], [64, 64], DataType::F32, "tiled"),
    ] {
        let plan = of(heads, rows, widths, data_type);
        assert_eq!(plan.implementation, format!("ocl:attention:{name}"), "{rows:?} x {widths:?}");
    }
    // A group for each compute unit, and all of local memory, whatever the width.
    for (width, tile) in [(128, 64), (96, 64), (64, 128), (32, 128)] {
        let plan = of(units, [512, 512], [width; 2], DataType::F16);
        let (launch, source) = (&plan.launches[0], plan.launches[0].program.source.to_string());
        assert_eq!((launch.global, launch.local), ([units * 384, 1, 1], Some([384, 1, 1])));
        assert!(source.contains(&format!("#define TILE {tile}\n")) && launch.alignment == 16);
        assert!(
            source.contains(&format!("m64n{width}k16.f32.f16.f16")) && source.contains("#define WHOLE 1\n")
        );
    }
    // The score of hidden keys, which only the device knows, and heads whose keys the second-level cache holds.
    let masked = attention(
        Attention::new(causal(&[64, 2048, 2048], 1)),
        [0; 3].map(|_| typed(&[64, 2048, 128], DataType::F16)),
    );
    let source = planned(masked.src(f32(&[64, 1, 1])), &hopper).launches[0].program.source.to_string();
    assert!(source.contains("#define HIDES 1\n") && source.contains("#define SECTION 64\n"));
    let plain = of(64, [2048, 2048], [128; 2], DataType::F16).launches[0].program.source.to_string();
    assert!(plain.contains("#define SECTION 24\n") && plain.contains("#define FACTOR"));
}

#[test]
fn plain_attention_and_its_statistics() {
    let shapes = [
        // Partial vectors, tiles and blocks of everything.
        ([2, 3, 37, 20], [2, 3, 130, 20], [2, 3, 130, 27]),
        // One query, wide values.
        ([1, 2, 1, 9], [1, 2, 70, 9], [1, 2, 70, 140]),
        // Fewer keys and values than a tile has rows.
        ([1, 1, 5, 3], [1, 1, 3, 3], [1, 1, 3, 2]),
    ];
    let list = shapes.map(|(q, k, v)| {
        let op = Attention::new(scaled(&[q[0], q[1], q[2], k[2]], 0.3));
        attention(op, [f32(&q), f32(&k), f32(&v)])
            .arg(Arg::Dst(1), f32(&[q[0], q[1], q[2], 1]))
            .attributes(Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Tanh)))
            .build()
            .unwrap()
    });
    check_everywhere(&list, |_| None);
}

/// On NVIDIA's devices this is what matrix units compute.
#[test]
fn halves_with_masks_grouped_heads_and_odd_lengths() {
    let of = |[b, h, s, d]: [usize; 4], [heads, t, e]: [usize; 3], data_type| {
        [[b, h, s, d], [b, heads, t, d], [b, heads, t, e]].map(|dims| typed(&dims, data_type))
    };
    let mut hiding = Attention::new(causal(&[1, 4, 77, 150], 1));
    hiding.inf_as_zero = true;
    let tanh = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Tanh));
    let plain = Attention::new(scaled(&[2, 2, 67, 65], 0.3));
    let mut only_causal = Expression::new([2, 130, 130]);
    let x = only_causal.push(Node::Operand(0));
    let (s, t) = (only_causal.push(Node::Index(1)), only_causal.push(Node::Index(2)));
    let seen = only_causal.push(Node::Binary(BinaryAlgorithm::LessEqual, t, s));
    let never = only_causal.push(Node::Constant(f32::NEG_INFINITY));
    let score = only_causal.push(Node::Select(seen, x, never));
    only_causal.results.push(score);
    let rows = [0; 3].map(|_| typed(&[2, 130, 64], DataType::BF16));
    let list = [
        attention(hiding, of([1, 4, 77, 40], [2, 150, 24], DataType::F16)).src(f32(&[4, 77, 1])),
        attention(plain, of([2, 2, 67, 128], [2, 65, 128], DataType::F16))
            .arg(Arg::Dst(1), f32(&[2, 2, 67, 1]))
            .attributes(tanh),
        attention(Attention::new(only_causal), rows),
    ];
    check_everywhere(&list.map(|builder| builder.build().unwrap()), |arg| match arg {
        Arg::Src(3) => Some(Values::Listed(vec![f64::NEG_INFINITY, 0.0, 0.5, 1.0])),
        _ => Some(Values::AwayFromZero(0.1, 1.0)),
    });
}

/// As graphs have it: the factor and the score of hidden keys are sources of one element.
#[test]
fn only_the_device_knows_the_factor_and_the_score_of_hidden_keys() {
    let mut scores = Expression::new([2, 70, 200]);
    let (x, by) = (scores.push(Node::Operand(0)), scores.push(Node::Operand(1)));
    let scaled = scores.push(Node::Binary(BinaryAlgorithm::Divide, x, by));
    let (s, t) = (scores.push(Node::Index(1)), scores.push(Node::Index(2)));
    let seen = scores.push(Node::Binary(BinaryAlgorithm::GreaterEqual, s, t));
    let never = scores.push(Node::Operand(2));
    let score = scores.push(Node::Select(seen, scaled, never));
    scores.results.push(score);
    let qkv = [70, 200, 200].map(|rows| typed(&[2, rows, 16], DataType::F16));
    let number = || typed(&[1, 1, 1], DataType::F16);
    let desc = attention(Attention::new(scores), qkv).src(number()).src(number()).build().unwrap();
    let device = gpu().with(Feature::NvidiaMma, Ok("made up"));
    let plan = crate::primitive::plan(&desc, &device).unwrap();
    assert_eq!(plan.implementation, "ocl:attention:mma");
    let source = &plan.launches[0].program.source.to_string();
    assert!(source.contains("#define HIDDEN_SCORE LD1_SRC4(OFF_SRC4)") && source.contains("#define FACTOR"));
    assert!(planned_source(&desc).contains("#define HIDES 0"));
    // Hidden keys have no weight, or a large one; the factor keeps the order of scores, or turns it round.
    for (by, never) in [(4.0, -60_000.0), (-4.0, -1.0)] {
        check_everywhere(std::slice::from_ref(&desc), |arg| match arg {
            Arg::Src(3) => Some(Values::Listed(vec![by])),
            Arg::Src(4) => Some(Values::Listed(vec![never])),
            _ => None,
        });
    }
}

#[test]
fn grouped_heads_masks_and_empty_rows() {
    let (q, k) = ([2, 4, 21, 8], [2, 2, 33, 8]);
    let mut op = Attention::new(causal(&[2, 4, 21, 33], 1));
    op.inf_as_zero = true;
    let mut many = Attention::new(causal(&[1, 70, 260], 1));
    many.inf_as_zero = true;
    // Keys with D outermost, and the first query sees nothing.
    let transposed = f32(&[2, 2, 8, 33]).permuted(&[0, 1, 3, 2]).unwrap();
    let list = [
        attention(op.clone(), [f32(&q), transposed, f32(&k)])
            .src(f32(&[4, 21, 1]))
            .arg(Arg::Dst(1), f32(&[2, 4, 21, 1])),
        attention(op, [f32(&q), f32(&k), f32(&k)]).src(f32(&[1, 1, 33])),
        // Whole blocks of keys that nobody sees.
        attention(many, [[1, 70, 8], [1, 260, 8], [1, 260, 8]].map(|dims| f32(&dims))).src(f32(&[70, 1])),
    ];
    let list = list.map(|builder| builder.build().unwrap());
    let sources = |desc: &PrimitiveDesc| planned_source(desc).contains("#define HIDES 1");
    assert!(list.iter().all(sources));
    let mask = |arg| {
        let mut values = vec![f64::NEG_INFINITY];
        values.extend((0..20).map(|i| f64::from(i % 7) / 2.0));
        (arg == Arg::Src(3)).then_some(Values::Listed(values))
    };
    check_everywhere(&list, mask);
}

/// Blocks of keys and vectors that are whole or not, masks along the keys, grouped heads, keys that no query sees.
#[test]
fn few_queries_have_vectors_along_their_elements() {
    let mut hiding = Attention::new(causal(&[1, 4, 3, 150], 1));
    hiding.inf_as_zero = true;
    let of = |[h, s, d]: [usize; 3], [heads, t, e]: [usize; 3], data_type| {
        [[1, h, s, d], [1, heads, t, d], [1, heads, t, e]].map(|dims| typed(&dims, data_type))
    };
    let plain = |dims: [usize; 4]| Attention::new(scaled(&dims, 0.3));
    let list = [
        attention(hiding.clone(), of([4, 3, 40], [2, 150, 24], DataType::F16)).src(f32(&[4, 3, 1])),
        attention(hiding, of([4, 3, 64], [4, 150, 64], DataType::F32)).src(f32(&[1, 1, 150])),
        attention(plain([1, 5, 1, 1]), of([5, 1, 128], [5, 1, 7], DataType::F32)),
        attention(plain([1, 2, 7, 300]), of([2, 7, 33], [1, 300, 130], DataType::BF16)),
    ];
    let list = list.map(|builder| builder.build().unwrap());
    assert!(list.iter().all(|desc| planned_name(desc) == "ocl:attention:decode"));
    let mut values = vec![f64::NEG_INFINITY];
    values.extend((0..20).map(|i| f64::from(i % 7) / 2.0));
    check_everywhere(&list, |arg| (arg == Arg::Src(3)).then(|| Values::Listed(values.clone())));
}

/// One part and several, whole and odd blocks of keys, heads that share keys, masks, statistics, more queries than go together.
#[test]
fn keys_are_split_among_work_groups_where_queries_are_few() {
    let of = |[h, s, d]: [usize; 3], [heads, t, e]: [usize; 3], data_type| {
        [[2, h, s, d], [2, heads, t, d], [2, heads, t, e]].map(|dims| typed(&dims, data_type))
    };
    let plain = |h, s, t| Attention::new(scaled(&[2, h, s, t], 0.3));
    let mut hiding = Attention::new(causal(&[2, 4, 2, 300], 1));
    hiding.inf_as_zero = true;
    let tanh = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Tanh));
    let list = [
        attention(plain(8, 1, 1300), of([8, 1, 128], [2, 1300, 128], DataType::F16)),
        attention(plain(2, 1, 100), of([2, 1, 40], [2, 100, 24], DataType::BF16)),
        attention(hiding, of([4, 2, 64], [2, 300, 256], DataType::F32)).src(f32(&[4, 2, 1])),
        attention(plain(1, 5, 257), of([1, 5, 80], [1, 257, 80], DataType::F32))
            .arg(Arg::Dst(1), f32(&[2, 1, 5, 1]))
            .attributes(tanh),
    ];
    let list = list.map(|builder| builder.build().unwrap());
    let plans = list.each_ref().map(|desc| crate::primitive::plan(desc, &gpu()).unwrap());
    assert!(plans.iter().all(|plan| plan.implementation == "ocl:attention:split"));
    assert_eq!(plans.each_ref().map(|plan| plan.launches.len()), [2, 1, 2, 2]);
    // Four heads share the keys of one, and two queries of each of two heads do.
    let global = |plan: usize, launch: usize| plans[plan].launches[launch].global;
    assert_eq!((global(0, 0)[1], global(0, 1)), (4, [4 * 128, 4, 1]));
    assert_eq!((global(2, 0)[1], global(2, 1)), (4, [4 * 128, 4, 1]));
    // Where work-groups can tell each other that they have ended, the last one joins the parts.
    let device = gpu().with(Feature::NvidiaPtx, Ok("made up"));
    let joined = |desc| {
        let plan = crate::primitive::plan(desc, &device).unwrap();
        (plan.launches.len(), plan.launches[0].numbered)
    };
    assert_eq!(list.each_ref().map(joined), [(1, true), (1, false), (1, true), (1, true)]);
    // Matrix units take elements of 16 bits, and fewer parts fill the device.
    let device = gpu().with(Feature::NvidiaMma, Ok("made up"));
    let takes = |desc| {
        let plan = crate::primitive::plan(desc, &device).unwrap();
        plan.launches[0].program.source.to_string().contains("mma.sync.aligned.m16n8k16")
    };
    assert_eq!(list.each_ref().map(takes), [true, true, false, false]);
    // Nine queries that share keys are for other variants where they fill the device.
    let nine = |heads| attention(plain(heads, 9, 257), of([heads, 9, 80], [heads, 257, 80], DataType::F32));
    let name = |desc: &PrimitiveDesc| crate::primitive::plan(desc, &gpu()).unwrap().implementation;
    let many = nine(1).build().unwrap();
    assert_eq!(name(&many), "ocl:attention:split");
    assert_eq!(name(&nine(500).build().unwrap()), "ocl:attention:tiled");
    let mut values = vec![f64::NEG_INFINITY];
    values.extend((0..20).map(|i| f64::from(i % 7) / 2.0));
    let with_many = [&list[..], &[many]].concat();
    check_everywhere(&with_many, |arg| (arg == Arg::Src(3)).then(|| Values::Listed(values.clone())));
}

/// What it does not compute goes to the variant for many queries.
#[test]
fn few_queries_with_statistics_or_post_operations_are_as_many() {
    let qkv = || [f32(&[1, 2, 16]), f32(&[1, 30, 16]), f32(&[1, 30, 16])];
    let of = || attention(Attention::new(scaled(&[1, 2, 30], 0.3)), qkv());
    let tanh = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Tanh));
    assert_eq!(planned_name(&of().build().unwrap()), "ocl:attention:decode");
    for builder in [of().arg(Arg::Dst(1), f32(&[1, 2, 1])), of().attributes(tanh)] {
        assert_eq!(planned_name(&builder.build().unwrap()), "ocl:attention:vector");
    }
}

#[test]
fn weights_change_before_they_meet_the_values() {
    let dims = [3, 20, 37];
    let mut op = Attention::new(causal(&dims, 1));
    op.weights = Some(dropped(&dims, 2));
    let desc = attention(op, [[3, 20, 16], [3, 37, 16], [3, 37, 16]].map(|dims| typed(&dims, DataType::F16)))
        .src(f32(&[1, 20, 37]))
        .src(typed(&[1], DataType::S64))
        .src(typed(&[1], DataType::S64))
        .src(f32(&[1]))
        .build()
        .unwrap();
    check_everywhere(&[desc], |arg| match arg {
        Arg::Src(4) => Some(Values::Listed(vec![11.0])),
        Arg::Src(5) => Some(Values::Listed(vec![5.0])),
        Arg::Src(6) => Some(Values::Listed(vec![0.4])),
        _ => None,
    });
}

#[test]
fn operands_are_dequantised_as_they_are_read() {
    let quantized = |i, scale: &[usize], zero_point: Option<&[usize]>| Dequantize {
        operand: Quantized::Src(i),
        scale: Some(f32(scale)),
        zero_point: zero_point.map(|dims| typed(dims, DataType::S8)),
    };
    let attributes = Attributes::default()
        .with_dequantize(quantized(1, &[2, 33, 4], Some(&[2, 1, 1])))
        .with_dequantize(quantized(2, &[1, 1, 16], None));
    let op = Attention::new(scaled(&[4, 21, 33], 0.2));
    let key = typed(&[2, 33, 16], DataType::U8);
    let value = typed(&[2, 33, 16], DataType::S8);
    let desc = attention(op, [f32(&[4, 21, 16]), key, value]).attributes(attributes).build().unwrap();
    check_everywhere(&[desc], |arg| matches!(arg, Arg::ScaleOf(_)).then_some(Values::AwayFromZero(0.1, 0.4)));
}

#[test]
fn doubles_have_their_own_arithmetic() {
    let op = Attention::new(scaled(&[5, 7], 0.3));
    let qkv = [[5, 4], [7, 4], [7, 3]].map(|dims| typed(&dims, DataType::F64));
    let desc = attention(op, qkv).build().unwrap();
    assert_eq!(planned_name(&desc), "ocl:attention:ref");
    check_everywhere(&[desc], |_| None);
}

fn planned_name(desc: &PrimitiveDesc) -> String {
    crate::primitive::plan(desc, &cpu()).unwrap().implementation
}

fn planned_source(desc: &PrimitiveDesc) -> String {
    crate::primitive::plan(desc, &cpu()).unwrap().launches.remove(0).program.source.to_string()
}

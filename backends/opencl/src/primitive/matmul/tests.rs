//! Gated products and dequantised operands by every variant, against the reference.

use anydnn_backend::conformance::values::{Random, Values};
use anydnn_backend::op::{Convolution, GatedMatMul, MatMul, Op, Reorder};
use anydnn_backend::{
    Arg, Attributes, BinaryAlgorithm, DataType, Dequantize, Eltwise, Layout, MemoryDesc, PostOp,
    PrimitiveDesc, PrimitiveDescBuilder, Quantized, Specialize,
};

use crate::capability::Feature;
use crate::plan::{DeviceTraits, KnownFeatures, Launch, SpecialText};
use crate::primitive::choice::Wanted;
use crate::primitive::tests::{check_choices, check_everywhere, cpu, f32, gpu, planned, sweep, tagged};

fn gated(src: MemoryDesc, up: MemoryDesc, gate: MemoryDesc) -> PrimitiveDescBuilder {
    let op = GatedMatMul::new(Eltwise::Swish { alpha: 1.0 });
    PrimitiveDesc::builder(Op::GatedMatMul(op)).src(src).src(gate).weights(up)
}

fn matmul(src: MemoryDesc, weights: MemoryDesc) -> PrimitiveDescBuilder {
    PrimitiveDesc::builder(Op::MatMul(MatMul)).src(src).weights(weights)
}

fn typed(dims: &[usize], data_type: DataType) -> MemoryDesc {
    MemoryDesc::new(dims, data_type)
}

fn quantized(operand: Quantized, scale: &[usize], zero_point: Option<&[usize]>) -> Dequantize {
    let zero_point = zero_point.map(|dims| typed(dims, DataType::S8));
    Dequantize { operand, scale: Some(f32(scale)), zero_point }
}

fn with(list: impl IntoIterator<Item = Dequantize>) -> Attributes {
    list.into_iter().fold(Attributes::default(), Attributes::with_dequantize)
}

fn small_scales(arg: Arg) -> Option<Values> {
    matches!(arg, Arg::ScaleOf(_)).then_some(Values::AwayFromZero(0.05, 0.2))
}

#[test]
fn gated_products_are_one_launch() {
    let any = |dims: &[usize]| f32(dims).to_any();
    let row_major = || gated(f32(&[64, 48]), f32(&[48, 70]), f32(&[48, 70]));
    let open = || gated(f32(&[64, 48]), any(&[48, 70]), any(&[48, 70]));
    let by_columns = || gated(f32(&[2, 48]), tagged(&[48, 70], "ba"), tagged(&[48, 70], "ba"));
    for (builder, device, name) in [
        (open(), cpu(), "blocked"),
        (row_major(), cpu(), "blocked"),
        (by_columns(), cpu(), "dot"),
        (open(), gpu(), "tiled"),
    ] {
        let plan = planned(builder, &device);
        assert_eq!(plan.implementation, format!("ocl:gated_matmul:{name}"));
        assert_eq!((plan.launches.len(), plan.scratchpad), (1, 0));
    }
    let plan = planned(open(), &cpu());
    assert!(plan.desc.find(Arg::Src(1)).unwrap().same_bytes(&tagged(&[48, 70], "Ba48b")));
}

#[test]
fn gated_products_compute_what_they_mean() {
    let any = |dims: &[usize]| f32(dims).to_any();
    let relu = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::LeakyRelu { alpha: 0.1 }));
    let list = [
        gated(f32(&[33, 20]), any(&[20, 70]), any(&[20, 70])).attributes(relu),
        gated(f32(&[2, 5, 40]), f32(&[1, 40, 20]), f32(&[1, 40, 20])),
        gated(f32(&[3, 64]), tagged(&[64, 20], "ba"), tagged(&[64, 20], "ba")),
        gated(f32(&[3, 10]), tagged(&[10, 20], "ba"), f32(&[10, 20])),
        gated(
            f32(&[17, 32]),
            typed(&[32, 48], DataType::S8).to_any(),
            typed(&[32, 48], DataType::U8).to_any(),
        )
        .attributes(with([
            quantized(Quantized::Weights, &[1, 48], None),
            quantized(Quantized::Src(1), &[2, 48], Some(&[1, 1])),
        ])),
    ];
    check_everywhere(&list.map(|builder| builder.build().unwrap()), small_scales);
}

/// Two products by the tiles of one, with all that may come with a gated one.
#[test]
fn large_gated_products_are_two_where_tiles_of_one_are_faster() {
    let addend =
        PostOp::Binary { algorithm: BinaryAlgorithm::Subtract, operand: f32(&[1, 96]), reversed: true };
    let relu = PostOp::Eltwise(Eltwise::LeakyRelu { alpha: 0.1 });
    let plain = || gated(f32(&[120, 96]), f32(&[96, 96]), f32(&[96, 96]));
    let post_ops =
        [PostOp::sum(0.5), addend, relu].into_iter().fold(Attributes::default(), Attributes::with_post_op);
    let scales = [
        quantized(Quantized::Src(0), &[1, 1], None),
        quantized(Quantized::Weights, &[1, 96], None),
        quantized(Quantized::Src(1), &[2, 96], Some(&[1, 1])),
    ];
    let bytes = |data_type| typed(&[96, 96], data_type);
    let small = || gated(typed(&[120, 96], DataType::U8), bytes(DataType::S8), bytes(DataType::U8));
    let joined = GatedMatMul::new(Eltwise::GeluErf).with_join(BinaryAlgorithm::Subtract);
    let joined = PrimitiveDesc::builder(Op::GatedMatMul(joined))
        .src(typed(&[2, 60, 96], DataType::F16))
        .src(typed(&[1, 96, 96], DataType::F16))
        .weights(typed(&[1, 96, 96], DataType::F16));
    let list = [plain(), plain().attributes(post_ops), small().attributes(with(scales)), joined];
    let list = list.map(|builder| builder.build().unwrap());
    for desc in &list {
        let made = crate::primitive::plan(desc, &gpu()).unwrap();
        assert_eq!(made.implementation, "ocl:gated_matmul:apart");
        assert!(made.launches.len() >= 2 && made.scratchpad >= desc.dst().elements() * size_of::<f32>());
    }
    check_everywhere(&list, small_scales);
}

/// A number of a program that comes with the launch.
fn number(launch: &Launch, name: &str) -> Option<i32> {
    let text = launch.program.source.to_string();
    let member = text.split_once(&format!("#define {name} SHAPE("))?.1.split_once(')')?.0;
    let at = 4 * member.parse::<usize>().ok()?;
    Some(i32::from_ne_bytes(launch.table.get(at..at + 4)?.try_into().ok()?))
}

#[test]
fn blocks_of_weights_are_fetched_ahead() {
    let any = |dims: &[usize]| f32(dims).to_any();
    // More than two blocks of terms, the last of them partial; tiles of two sizes; a partial panel.
    let list = [
        matmul(f32(&[33, 250]), any(&[250, 180])).bias(f32(&[180])).build().unwrap(),
        gated(f32(&[14, 250]), any(&[250, 110]), any(&[250, 110])).build().unwrap(),
        matmul(f32(&[33, 250]), any(&[250, 150])).bias(f32(&[150])).build().unwrap(),
    ];
    // Tiles of 6 rows and of 5, in the second case of 5 and 4, in the third, with panels of two vectors, of 12 and 11; a block has a line
    // of each vector for each term.
    for (desc, ahead) in list.iter().zip([3, 6, 3]) {
        let plan = crate::primitive::plan(desc, &cpu()).unwrap();
        let numbers = ["K_BLOCK", "AHEAD"].map(|name| number(&plan.launches[0], name));
        assert_eq!(numbers, [Some(96), Some(ahead)], "{desc}");
    }
    // Only panels that a tile reads as they lie are followed by the next block.
    let plan = planned(matmul(f32(&[50, 250]), f32(&[250, 150])), &cpu());
    assert_eq!(number(&plan.launches[0], "AHEAD"), Some(0));
    check_everywhere(&list, small_scales);
}

#[test]
fn long_sums_of_a_few_results_and_early_ends_of_panels_have_kernels_of_their_own() {
    let batch = |dims: [&[usize]; 2]| matmul(f32(dims[0]), f32(dims[1]));
    let list = [
        // A row by few columns that do not lie along their terms; more rows, more columns.
        (batch([&[3, 1, 700], &[3, 700, 4]]), "ref"),
        (batch([&[3, 3, 700], &[3, 700, 4]]), "blocked"),
        (batch([&[3, 1, 700], &[3, 700, 40]]), "vector"),
        (batch([&[3, 1, 300], &[3, 300, 4]]), "blocked"),
        (matmul(f32(&[7, 700]), f32(&[700, 1]).to_any()), "dot"),
        // Columns that end within a panel: many rows, few rows, few terms, columns that do not.
        (matmul(f32(&[600, 20]), f32(&[20, 92])), "blocked"),
        (matmul(f32(&[100, 20]), f32(&[20, 92])), "vector"),
        (matmul(f32(&[600, 10]), f32(&[10, 92])), "vector"),
        (matmul(f32(&[600, 20]), f32(&[20, 96])), "vector"),
    ];
    let (list, names): (Vec<_>, Vec<_>) =
        list.into_iter().map(|(builder, name)| (builder.build().unwrap(), name)).unzip();
    for (desc, name) in list.iter().zip(names) {
        let plan = crate::primitive::plan(desc, &cpu()).unwrap();
        assert_eq!(plan.implementation, format!("ocl:matmul:{name}"), "{desc}");
    }
    check_everywhere(&list, small_scales);
}

/// The text of a plan's program for one shape, where that is another one.
fn text_for_one_shape(desc: &PrimitiveDesc) -> Option<String> {
    let plan = crate::primitive::plan(desc, &cpu().with_special()).ok()?;
    match &plan.launches[0].special.as_ref()?.text {
        SpecialText::Own(program) => Some(program.source.to_string()),
        _ => None,
    }
}

#[test]
fn last_panels_have_tiles_of_their_own() {
    let list = [
        // Panels of four vectors, the last of three; of three, of one; parts side by side, of which the last panel has one; a gate.
        matmul(f32(&[50, 70]), f32(&[70, 100]).to_any()).bias(f32(&[100])),
        matmul(f32(&[50, 300]), f32(&[300, 65])),
        matmul(f32(&[3, 100]), tagged(&[100, 135], "Ba16b")),
        gated(f32(&[14, 100]), f32(&[100, 110]).to_any(), f32(&[100, 110]).to_any()),
    ];
    let list = list.map(|builder| builder.build().unwrap().with_specialize(Some(Specialize::Eager)));
    let vectors = |desc| {
        let text = text_for_one_shape(desc)?;
        let line = text.lines().find_map(|line| line.strip_prefix("#define LAST_VECTORS "))?;
        line.parse().ok()
    };
    assert_eq!(list.each_ref().map(vectors), [Some(3), Some(2), Some(1), Some(3)]);
    let whole = matmul(f32(&[48, 70]), f32(&[70, 128]).to_any()).build().unwrap();
    assert_eq!(vectors(&whole), None);
    check_everywhere(&list, small_scales);
}

#[test]
fn weights_in_place_are_fetched_ahead() {
    // More terms than are fetched ahead, and fewer; a partial panel.
    let list = [(11, 140, 99), (3, 9, 918)]
        .map(|(rows, terms, columns)| matmul(f32(&[rows, terms]), f32(&[terms, columns])).build().unwrap());
    for desc in &list {
        let choices = super::choices(desc, &cpu(), Wanted::Named("ocl:matmul:vector"));
        let text = choices[0].plan.launches[0].program.source.to_string();
        assert!(text.lines().any(|line| line == "#define FETCHES 1"), "{desc}");
    }
    // Panels are read as they lie.
    let open = matmul(f32(&[3, 140]), f32(&[140, 99]).to_any()).build().unwrap();
    let panels = super::with_layout(open, Arg::Weights, &cpu()).unwrap();
    let choices = super::choices(&panels, &cpu(), Wanted::Named("ocl:matmul:vector"));
    let text = choices[0].plan.launches[0].program.source.to_string();
    assert!(text.lines().any(|line| line == "#define FETCHES 0"), "{panels}");
    check_everywhere(&list, small_scales);
}

#[test]
fn far_weights_are_read_in_runs_by_a_few_rows() {
    let has = |desc: &PrimitiveDesc, line: &str| {
        let plan = crate::primitive::plan(desc, &cpu()).unwrap();
        let text = plan.launches[0].program.source.to_string();
        plan.implementation == "ocl:matmul:vector" && text.lines().any(|own| own == line)
    };
    // One tile and several, a partial panel, terms behind whole blocks, batches, and what comes behind the sums.
    let relu = || Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::LeakyRelu { alpha: 0.1 }));
    let list = [
        matmul(f32(&[4, 1061]), f32(&[1061, 1024])),
        matmul(f32(&[13, 1100]), f32(&[1100, 990])).bias(f32(&[990])).attributes(relu()),
        matmul(f32(&[3, 20, 380]), f32(&[3, 380, 1001])),
    ];
    let list = list.map(|builder| builder.build().unwrap());
    for (desc, is_one) in list.iter().zip([1, 0, 0]) {
        assert!(
            has(desc, "#define BY_BLOCKS 1") && has(desc, &format!("#define ONE_TILE {is_one}")),
            "{desc}"
        );
    }
    for (rows, terms, columns) in [(4, 1000, 1024), (4, 24, 90_000), (48, 1100, 1000)] {
        let near = matmul(f32(&[rows, terms]), f32(&[terms, columns])).build().unwrap();
        assert!(!has(&near, "#define BY_BLOCKS 1"), "{near}");
    }
    check_everywhere(&list, small_scales);
}

#[test]
fn cores_get_as_many_panels_each() {
    let device = DeviceTraits { compute_units: 2, ..cpu() };
    let items = [(12, 64, 1), (13, 16, 1), (13, 64, 1), (5, 64, 1), (5, 64, 8), (1, 1, 1), (64, 16, 1)];
    let items = items.map(|(panels, most, batch)| super::panels_of_items(panels, most, &device, batch));
    assert_eq!(items, [6, 7, 7, 3, 5, 1, 16]);
}

#[test]
fn few_columns_are_summed_along_rows() {
    let relu = || Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::LeakyRelu { alpha: 0.1 }));
    let list = [
        // Rows shorter than a vector, of whole vectors, and a little longer; the last tile is a partial one.
        matmul(f32(&[100, 7]), f32(&[7, 1])).bias(f32(&[1])),
        matmul(f32(&[37, 32]), f32(&[32, 3])).bias(f32(&[3])).attributes(relu()),
        matmul(f32(&[3, 50, 41]), f32(&[3, 41, 2])),
        matmul(f32(&[18, 1]), f32(&[1, 1])),
        matmul(f32(&[20, 33]), tagged(&[33, 3], "ba")),
        // More columns than at a time, and more of them than the first-level cache holds.
        matmul(f32(&[40, 100]), f32(&[100, 7])).bias(f32(&[7])),
        matmul(f32(&[17, 700]), tagged(&[700, 8], "ba")),
        // Three at a time, of weights whose terms lie in blocks.
        matmul(f32(&[20, 70]), f32(&[70, 5])),
        matmul(f32(&[20, 70]), tagged(&[70, 5], "Ab16a")),
    ];
    for builder in list {
        let desc = builder.build().unwrap();
        assert_eq!(crate::primitive::plan(&desc, &cpu()).unwrap().implementation, "ocl:matmul:narrow");
        check_choices(&desc);
    }
    for (rows, columns, name) in [(8, 1, "blocked"), (100, 5, "blocked"), (100, 9, "blocked")] {
        let plan = planned(matmul(f32(&[rows, 7]), f32(&[7, columns])), &cpu());
        assert_eq!(plan.implementation, format!("ocl:matmul:{name}"), "{rows} x {columns}");
    }
    // Few terms fill too little of a vector along a row, whatever the number of columns.
    for (terms, columns, name) in
        [(11, 2, "blocked"), (12, 2, "narrow"), (83, 8, "blocked"), (84, 8, "narrow"), (4000, 8, "narrow")]
    {
        let plan = planned(matmul(f32(&[100, terms]), f32(&[terms, columns])), &cpu());
        assert_eq!(plan.implementation, format!("ocl:matmul:{name}"), "{terms} x {columns}");
    }
}

/// Blocks pay where sums are long, and where weights lie whole or have rows enough to pay for their copies.
#[test]
fn short_sums_and_few_rows_leave_weights_in_place() {
    for (rows, terms, columns, name) in [
        (100, 64, 96, "vector"),
        (100, 65, 96, "blocked"),
        (5, 8, 96, "blocked"),
        (47, 300, 99, "vector"),
        (48, 300, 99, "blocked"),
        (47, 300, 96, "blocked"),
    ] {
        let plan = planned(matmul(f32(&[rows, terms]), f32(&[terms, columns])), &cpu());
        assert_eq!(plan.implementation, format!("ocl:matmul:{name}"), "{rows} x {terms} x {columns}");
    }
    let packed = planned(matmul(f32(&[20, 300]), f32(&[300, 99]).to_any()), &cpu());
    assert_eq!(packed.implementation, "ocl:matmul:blocked");
}

#[test]
fn terms_of_overlapping_vectors_count_once() {
    for (rows, terms, columns) in [(3, 41, 20), (17, 4100, 1), (2, 16, 5)] {
        check_choices(&matmul(f32(&[rows, terms]), tagged(&[terms, columns], "ba")).build().unwrap());
    }
    let gate = || tagged(&[41, 20], "ba");
    check_choices(&gated(f32(&[3, 41]), gate(), gate()).build().unwrap());
}

#[test]
fn tiles_pass_near_panels_one_after_the_other() {
    let plan = planned(matmul(f32(&[5, 9]), f32(&[9, 90000]).to_any()), &cpu());
    let numbers = ["TILES_OUTSIDE", "ITEM_PANELS"].map(|name| number(&plan.launches[0], name));
    assert_eq!(numbers[0], Some(1));
    assert!(numbers[1] > Some(1), "{numbers:?}");
    let any = |dims: &[usize]| f32(dims).to_any();
    let list = [
        matmul(f32(&[200, 9]), any(&[9, 1000])).bias(f32(&[1000])).build().unwrap(),
        matmul(f32(&[200, 39]), any(&[39, 1001])).build().unwrap(),
    ];
    check_everywhere(&list, small_scales);
}

#[test]
fn quantised_weights_take_the_fast_path() {
    let weights = |t| typed(&[64, 96], t).to_any();
    let scales = || with([quantized(Quantized::Weights, &[1, 96], Some(&[1, 96]))]);
    let plan = planned(matmul(f32(&[64, 64]), weights(DataType::S8)).attributes(scales()), &cpu());
    assert_eq!((plan.implementation.as_str(), plan.launches.len()), ("ocl:matmul:blocked", 1));
    let panels = MemoryDesc::with_tag([64, 96], DataType::S8, "Ba48b").unwrap();
    assert!(plan.desc.find(Arg::Weights).unwrap().same_bytes(&panels));
    // The scale waits for the end of the sum, the zero point cannot.
    let source = &plan.launches[0].program.source.to_string();
    assert!(source.contains("#define OUT_WEIGHTS(v, n) ((v) * LD_SCALE_WEIGHTS(OFF_SCALE_WEIGHTS, n))"));
    assert!(source.contains("#define DEQ_WEIGHTS(x, n) ((x) - LD_ZERO_WEIGHTS(OFF_ZERO_WEIGHTS, n))"));
    let plan = planned(matmul(f32(&[64, 64]), weights(DataType::S8)).attributes(scales()), &gpu());
    assert_eq!(plan.implementation, "ocl:matmul:simt-64x64");
}

#[test]
fn dequantised_products_compute_what_they_mean() {
    let (s8, u8) = (DataType::S8, DataType::U8);
    let column = typed(&[8, 64, 6], s8).permuted(&[0, 2, 1]).unwrap();
    let list = [
        // One scale for each channel, the last panel partial.
        matmul(f32(&[20, 30]), typed(&[30, 70], s8).to_any()).bias(f32(&[70])).attributes(with([quantized(
            Quantized::Weights,
            &[1, 70],
            Some(&[1, 70]),
        )])),
        // Panels of half bytes, groups along K.
        matmul(f32(&[50, 64]), typed(&[64, 70], DataType::S4).to_any()).attributes(with([quantized(
            Quantized::Weights,
            &[2, 70],
            None,
        )])),
        // Both operands, groups along K.
        matmul(typed(&[50, 64], u8), typed(&[64, 40], s8)).dst(f32(&[50, 40])).attributes(with([
            quantized(Quantized::Src(0), &[50, 1], Some(&[1, 1])),
            quantized(Quantized::Weights, &[4, 40], Some(&[4, 1])),
        ])),
        // Groups along K where vectors run along it, and batches.
        matmul(f32(&[8, 2, 6]), column).attributes(with([quantized(Quantized::Weights, &[2, 1, 64], None)])),
        matmul(f32(&[1, 64]), typed(&[20, 64], s8).permuted(&[1, 0]).unwrap()).attributes(with([quantized(
            Quantized::Weights,
            &[2, 20],
            None,
        )])),
        // Zero points alone keep integers exact.
        matmul(typed(&[9, 33], u8), typed(&[33, 20], s8)).attributes(with([Dequantize {
            operand: Quantized::Src(0),
            scale: None,
            zero_point: Some(typed(&[1, 1], DataType::S32)),
        }])),
    ];
    check_everywhere(&list.map(|builder| builder.build().unwrap()), small_scales);
}

#[test]
fn half_bytes_are_copied_into_panels() {
    let panels = MemoryDesc::with_tag([30, 70], DataType::S4, "Ba64b").unwrap();
    let row_major = typed(&[30, 70], DataType::S4);
    let list = [(row_major.clone(), panels.clone()), (panels, row_major)]
        .map(|(from, to)| PrimitiveDesc::builder(Op::Reorder(Reorder)).src(from).dst(to).build().unwrap());
    check_everywhere(&list, |_| None);
}

#[test]
fn dequantised_convolutions_compute_what_they_mean() {
    let op = || Op::Convolution(Convolution::new(2).with_pads([1, 1], [1, 1]));
    let source = |tag: &str| MemoryDesc::with_tag([2, 12, 5, 6], DataType::U8, tag).unwrap();
    let weights = || typed(&[20, 12, 3, 3], DataType::S8).to_any();
    let attributes = || {
        with([
            quantized(Quantized::Src(0), &[1, 1, 1, 1], Some(&[1, 1, 1, 1])),
            quantized(Quantized::Weights, &[20, 1, 1, 1], None),
        ])
    };
    let make = |tag: &str| {
        let result = MemoryDesc::with_tag([2, 20, 5, 6], DataType::F32, tag).unwrap();
        let builder = PrimitiveDesc::builder(op()).src(source(tag)).weights(weights()).dst(result);
        builder.attributes(attributes()).build().unwrap()
    };
    let depthwise = PrimitiveDesc::builder(Op::Convolution(Convolution::new(2).with_groups(20)))
        .src(MemoryDesc::with_tag([1, 20, 5, 6], DataType::U8, "acdb").unwrap())
        .weights(typed(&[20, 1, 3, 3], DataType::S8).to_any())
        .dst(tagged(&[1, 20, 3, 4], "acdb"))
        .attributes(with([quantized(Quantized::Weights, &[20, 1, 1, 1], Some(&[1, 1, 1, 1]))]))
        .build()
        .unwrap();
    check_everywhere(&[make("acdb"), make("abcd"), depthwise], small_scales);
}

#[test]
fn few_rows_read_the_weights_once() {
    let plan_of =
        |m: usize, k: usize, n: usize, tag: &str| planned(matmul(f32(&[m, k]), tagged(&[k, n], tag)), &gpu());
    let plan = |m: usize, n: usize, tag: &str| plan_of(m, 4096, n, tag);
    let sizes =
        |plan: &crate::plan::KernelPlan| (plan.implementation.clone(), plan.launches.len(), plan.scratchpad);
    // Enough columns fill the device, fewer need parts of K and a launch that joins them.
    assert_eq!(sizes(&plan(1, 65536, "ba")), ("ocl:matmul:skinny".into(), 1, 0));
    let parts = |k_slice: usize, m: usize, n: usize| (4096_usize.div_ceil(k_slice) * m * n + 15) * 4;
    assert_eq!(sizes(&plan(4, 1024, "ba")), ("ocl:matmul:skinny".into(), 2, parts(256, 4, 1024)));
    assert_eq!(sizes(&plan(16, 4096, "ab")), ("ocl:matmul:skinny".into(), 2, parts(256, 16, 4096)));
    // Of a single row, groups of few columns are enough, and where these are few, too, as long as they are done before another launch.
    assert_eq!(sizes(&plan(1, 4096, "ab")), ("ocl:matmul:skinny".into(), 1, 0));
    assert_eq!(sizes(&plan(1, 1024, "ab")), ("ocl:matmul:skinny".into(), 1, 0));
    assert_eq!(plan_of(1, 32768, 1024, "ab").launches.len(), 2);
    assert_eq!(plan(17, 4096, "ab").implementation, "ocl:matmul:simt-32x256");
    let device = gpu().with(Feature::NvidiaMma, Ok("made up"));
    let hopper = device.clone().with(Feature::Wgmma, Ok("made up"));
    let name_on = |device: &DeviceTraits, m: usize, k: usize, data_type| {
        let dims = [typed(&[m, k], data_type), typed(&[k, 512], data_type)];
        let [src, weights] = dims;
        planned(matmul(src, weights), device).implementation
    };
    let name = |m: usize, k: usize, data_type| name_on(&device, m, k, data_type);
    // Sixteen rows fill the tiles of warpgroups well enough, but not in odd steps.
    assert!(name_on(&hopper, 16, 4096, DataType::F16).starts_with("ocl:matmul:wgmma-"));
    assert_eq!(name_on(&hopper, 15, 4096, DataType::F16), "ocl:matmul:skinny-mma");
    assert_eq!(name_on(&hopper, 16, 4100, DataType::F16), "ocl:matmul:skinny");
    assert_eq!(name(16, 4096, DataType::F16), "ocl:matmul:skinny-mma");
    assert_eq!(name(2, 4096, DataType::BF16), "ocl:matmul:skinny-mma");
    assert_eq!(name(2, 4100, DataType::BF16), "ocl:matmul:skinny");
    assert_eq!(name(1, 4096, DataType::F16), "ocl:matmul:skinny");
    assert_eq!(name(8, 4096, DataType::F32), "ocl:matmul:skinny");
}

#[test]
fn few_rows_compute_what_they_mean() {
    let all = Attributes::default()
        .with_post_op(PostOp::Eltwise(Eltwise::Tanh))
        .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, f32(&[1, 70])));
    let halves = |dims: &[usize]| typed(dims, DataType::F16);
    let by_columns = |data_type, dims: &[usize]| MemoryDesc::with_tag(dims, data_type, "ba").unwrap();
    let scaled = || with([quantized(Quantized::Weights, &[1, 36], Some(&[1, 1]))]);
    let list = [
        // Partial vectors of columns and parts of K.
        matmul(f32(&[5, 1100]), f32(&[1100, 70])).bias(f32(&[70])).attributes(all.clone()),
        matmul(halves(&[3, 1048]), by_columns(DataType::F16, &[1048, 70])).bias(f32(&[70])).attributes(all),
        matmul(f32(&[16, 200]), tagged(&[200, 33], "ba")),
        matmul(halves(&[13, 520]), halves(&[520, 75])),
        matmul(typed(&[3, 1, 300], DataType::BF16), typed(&[3, 300, 40], DataType::BF16)),
        matmul(f32(&[2, 64]), typed(&[64, 36], DataType::S8)).attributes(scaled()),
        // Too few terms for whole stretches of bytes.
        matmul(f32(&[9, 56]), by_columns(DataType::S8, &[56, 36])).attributes(scaled()),
    ];
    let list = list.map(|builder| builder.build().unwrap());
    for desc in &list {
        assert_eq!(
            crate::primitive::plan(desc, &gpu()).unwrap().implementation,
            "ocl:matmul:skinny",
            "{desc}"
        );
    }
    check_everywhere(&list, small_scales);
}

/// A matrix, or a batch of them, in a random layout: any order, rows further apart than they are long, and a start that is not the first
/// element.
fn scattered(random: &mut Random, dims: &[usize], data_type: DataType) -> MemoryDesc {
    let rank = dims.len();
    let (mut order, gap) = ((0..rank).collect::<Vec<_>>(), random.below(3) as usize * 5);
    if random.below(2) == 0 {
        order.swap(rank - 1, rank - 2);
    }
    let mut strides = vec![0; rank];
    let mut stride = 1;
    for &axis in order.iter().rev() {
        strides[axis] = stride;
        stride = stride * dims[axis] + if stride == 1 { gap } else { 0 };
    }
    let mut blocking =
        MemoryDesc::with_strides(dims, data_type, strides).unwrap().blocking().unwrap().clone();
    blocking.offset = random.below(4) as usize * 3;
    MemoryDesc::with_layout(dims, data_type, Layout::Blocked(blocking)).unwrap()
}

/// A random product of sizes from 1 to 300, of which the reference computes few enough terms.
fn random_product(random: &mut Random) -> PrimitiveDesc {
    // Each number of digits is as likely as another.
    let mut size = || (300.0_f64.powf(random.unit()).round() as usize).clamp(1, 300);
    let (m, mut n, k) = (size(), size(), size());
    n = n.min((2_000_000 / (m * k)).max(1));
    let batch = if random.below(4) == 0 { vec![2] } else { vec![] };
    let types = [DataType::F32, DataType::F32, DataType::F32, DataType::F16, DataType::BF16];
    let data_type = *random.pick(&types).unwrap();
    let matrix = |rows: usize, columns: usize| [batch.as_slice(), &[rows, columns]].concat();
    let src = scattered(random, &matrix(m, k), data_type);
    let mut weights = scattered(random, &matrix(k, n), data_type);
    if random.below(3) == 0 {
        weights = weights.to_any();
    }
    let dst = scattered(random, &matrix(m, n), data_type);
    let mut attributes = Attributes::default();
    if random.below(2) == 0 {
        attributes = attributes.with_post_op(PostOp::Eltwise(Eltwise::LeakyRelu { alpha: 0.1 }));
    }
    if random.below(4) == 0 {
        let gate =
            if weights.is_any() { weights.clone() } else { scattered(random, weights.dims(), data_type) };
        return gated(src, weights, gate).dst(dst).attributes(attributes).build().unwrap();
    }
    let mut builder = matmul(src, weights).dst(dst).attributes(attributes);
    if random.below(2) == 0 {
        builder = builder.bias(f32(&matrix(1, n)[batch.len()..]));
    }
    builder.build().unwrap()
}

#[test]
fn products_of_any_size_mean_the_same_by_every_implementation() {
    let (count, mut random) = sweep(6);
    for _ in 0..count {
        check_choices(&random_product(&mut random));
    }
}

fn zero_point(operand: Quantized, dims: &[usize], data_type: DataType) -> Dequantize {
    Dequantize { operand, scale: None, zero_point: Some(typed(dims, data_type)) }
}

#[test]
fn panels_of_small_integers_are_as_wide_as_few_columns() {
    let vnni = cpu().with(Feature::Bytes, Ok("made up"));
    let amx = cpu().with(Feature::Amx, Ok("made up"));
    let width = |columns: usize, device: &DeviceTraits| {
        let builder =
            matmul(typed(&[400, 1000], DataType::U8), typed(&[1000, columns], DataType::S8).to_any());
        let plan = planned(builder, device);
        let text = plan.launches.last().unwrap().program.source.to_string();
        let line = text.lines().find_map(|line| line.strip_prefix("#define PANEL "));
        line.and_then(|number| number.parse::<usize>().ok())
    };
    assert_eq!([1, 17, 40, 64, 100].map(|columns| width(columns, &vnni)), [16, 32, 48, 64, 64].map(Some));
    // Matrix units multiply two parts at once, or one by more tiles of rows.
    assert_eq!([1, 17, 100].map(|columns| width(columns, &amx)), [16, 32, 32].map(Some));
}

/// A probe compiles a program before anything else does: only what a unit multiplies depends on it.
#[test]
fn products_of_floats_ask_for_no_unit_of_other_types() {
    let features = KnownFeatures::probed(|feature| panic!("asked for {feature:?}"));
    let device = DeviceTraits { features, ..cpu() };
    for [m, k, n] in [[1, 4, 40], [3, 7, 5], [40, 768, 768], [128, 6, 33], [5, 1200, 400], [100, 9, 3]] {
        planned(matmul(f32(&[m, k]), f32(&[k, n]).to_any()), &device);
        planned(matmul(f32(&[2, m, k]), f32(&[2, k, n])), &device);
    }
}

/// What lies behind a row that ends within a tile is no number, which zeros of the weights do not undo.
#[test]
fn rows_that_end_within_a_tile_stay_apart() {
    let bf16 = |dims: &[usize]| typed(dims, DataType::BF16);
    for terms in [33, 50, 63] {
        let rows: Vec<f64> = (0..2 * terms).map(|i| if i < terms { 0.5 } else { f64::NAN }).collect();
        let desc = matmul(bf16(&[40, terms]), bf16(&[terms, 40])).dst(f32(&[40, 40])).build().unwrap();
        check_everywhere(&[desc], |arg| (arg == Arg::SRC).then(|| Values::Listed(rows.clone())));
    }
}

/// Of few rows panels are wide where these keep all compute units at work; what ends within a tile is read where it lies, by one program.
#[test]
fn matrix_units_have_wide_panels_for_few_rows_and_read_in_place() {
    let amx = cpu().with(Feature::Amx, Ok("made up"));
    for types in [[DataType::U8, DataType::S8], [DataType::BF16; 2]] {
        let text = |[m, k, n]: [usize; 3]| {
            let plan = planned(matmul(typed(&[m, k], types[0]), typed(&[k, n], types[1]).to_any()), &amx);
            assert_eq!(plan.launches.len(), 1, "{types:?} {m}x{k}x{n}");
            plan.launches[0].program.source.to_string()
        };
        assert!(text([3, 1001, 5000]).contains("#define PANEL 64\n"));
        assert!(text([3, 1001, 10]).contains("#define PANEL 16\n"));
        assert_eq!(text([400, 1001, 5000]), text([310, 77, 250]));
    }
}

/// Programs of panels serve every shape, and rows that end within four bytes are read where they lie.
#[test]
fn panels_of_units_share_a_program_and_are_read_in_place() {
    let vnni = cpu().with(Feature::Bytes, Ok("made up")).with(Feature::Pairs, Ok("made up"));
    let plan = |[m, k, n]: [usize; 3], [src, weights]: [DataType; 2]| {
        planned(matmul(typed(&[m, k], src), typed(&[k, n], weights).to_any()), &vnni)
    };
    for (types, terms, rest) in [
        ([DataType::U8, DataType::S8], [1001, 905], 1),
        ([DataType::BF16, DataType::BF16], [1001, 905], 2),
        ([DataType::BF16, DataType::BF16], [1000, 906], 0),
    ] {
        let [one, other] = [([400, terms[0], 100], types), ([310, terms[1], 250], types)]
            .map(|(dims, types)| plan(dims, types));
        let [one, other] = [one, other].map(|plan| {
            assert_eq!(plan.launches.len(), 1, "{types:?} {terms:?}");
            plan.launches[0].program.source.to_string()
        });
        assert!(one.contains(&format!("#define REST_BYTES {rest}\n")), "{types:?} {terms:?}");
        assert_eq!(one, other, "{types:?} {terms:?}");
    }
}

#[test]
fn small_integers_and_bf16_find_the_units_that_multiply_them() {
    let (s8, u8, bf16) = (DataType::S8, DataType::U8, DataType::BF16);
    let names = |data_types: [DataType; 2], open: bool, device: &DeviceTraits| {
        let weights = typed(&[100, 70], data_types[1]);
        let weights = if open { weights.to_any() } else { weights };
        planned(matmul(typed(&[40, 100], data_types[0]), weights), device).implementation
    };
    let amx = cpu().with(Feature::Amx, Ok("made up"));
    assert_eq!(names([u8, s8], true, &amx), "ocl:matmul:amx");
    assert_eq!(names([bf16, bf16], true, &amx), "ocl:matmul:amx");
    assert_eq!(names([s8, u8], false, &amx), "ocl:matmul:amx-packing");
    assert_eq!(names([u8, u8], true, &cpu()), "ocl:matmul:words");
    assert_eq!(names([s8, s8], false, &cpu()), "ocl:matmul:words-packing");
    assert_eq!(names([bf16, bf16], true, &cpu()), "ocl:matmul:blocked");
    let pairs = cpu().with(Feature::Pairs, Ok("made up"));
    assert_eq!(names([bf16, bf16], true, &pairs), "ocl:matmul:pairs");
    assert_eq!(names([bf16, bf16], false, &pairs), "ocl:matmul:pairs-packing");
    // Scales that change along K leave no sums of integers, and weights alone none either.
    let groups =
        with([quantized(Quantized::Src(0), &[1, 1], None), quantized(Quantized::Weights, &[4, 70], None)]);
    let builder = matmul(typed(&[40, 100], u8), typed(&[100, 70], s8)).dst(f32(&[40, 70])).attributes(groups);
    assert_eq!(planned(builder, &amx).implementation, "ocl:matmul:blocked");
    let depthwise = PrimitiveDesc::builder(Op::Convolution(Convolution::new(2).with_groups(20)))
        .src(MemoryDesc::with_tag([1, 20, 5, 9], u8, "acdb").unwrap())
        .weights(typed(&[20, 1, 3, 3], s8).to_any())
        .dst(MemoryDesc::with_tag([1, 20, 3, 7], DataType::S32, "acdb").unwrap());
    assert_eq!(planned(depthwise, &amx).implementation, "ocl:convolution:depthwise-rows");
    let half = |dims: &[usize]| typed(dims, DataType::F16);
    let halves = PrimitiveDesc::builder(Op::Convolution(Convolution::new(2)))
        .src(half(&[1, 20, 5, 9]))
        .weights(half(&[20, 20, 3, 3]).to_any());
    assert_eq!(planned(halves, &amx).implementation, "ocl:convolution:blocked-widening");
    let alone = with([quantized(Quantized::Weights, &[1, 70], None)]);
    let builder = matmul(f32(&[40, 100]), typed(&[100, 70], s8)).attributes(alone);
    assert_eq!(planned(builder, &amx).implementation, "ocl:matmul:blocked");
}

/// Every implementation of products of small integers gives the same bits.
#[test]
fn products_of_small_integers_are_exact() {
    let (s8, u8, s32) = (DataType::S8, DataType::U8, DataType::S32);
    let columns = |dims: &[usize], data_type| MemoryDesc::with_tag(dims, data_type, "ba").unwrap();
    let zeros = |src: &[usize], weights: &[usize]| {
        with([zero_point(Quantized::Src(0), src, u8), zero_point(Quantized::Weights, weights, s32)])
    };
    let relu = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Relu));
    let scales = with([
        quantized(Quantized::Src(0), &[1, 1], Some(&[1, 1])),
        quantized(Quantized::Weights, &[1, 37], None),
    ])
    .with_post_op(PostOp::binary(BinaryAlgorithm::Add, f32(&[1, 37])));
    let list = [
        matmul(typed(&[37, 128], u8), typed(&[128, 70], s8).to_any()).dst(typed(&[37, 70], s32)),
        matmul(typed(&[50, 67], s8), columns(&[67, 20], s8))
            .dst(typed(&[50, 20], s32))
            .attributes(zeros(&[1, 1], &[1, 20])),
        matmul(typed(&[2, 17, 65], u8), typed(&[2, 65, 33], u8).to_any())
            .dst(typed(&[2, 17, 33], s32))
            .attributes(zeros(&[1, 17, 1], &[1, 1, 1])),
        matmul(columns(&[5, 300], s8), typed(&[300, 130], u8))
            .dst(columns(&[5, 130], s32))
            .attributes(zeros(&[5, 1], &[1, 130])),
        matmul(typed(&[33, 64], u8), typed(&[64, 37], s8).to_any())
            .dst(f32(&[33, 37]))
            .bias(f32(&[37]))
            .attributes(scales.clone()),
        matmul(typed(&[2, 3, 40], s8), typed(&[1, 40, 37], s8)).dst(typed(&[2, 3, 37], s8)).attributes(relu),
        matmul(typed(&[20, 96], DataType::BF16), typed(&[96, 37], DataType::BF16).to_any()).bias(f32(&[37])),
        matmul(typed(&[2, 45, 70], DataType::BF16), typed(&[2, 70, 50], DataType::BF16))
            .dst(f32(&[2, 45, 50])),
    ];
    for builder in list {
        check_choices(&builder.build().unwrap());
    }
}

/// The same of convolutions.
#[test]
fn convolutions_of_small_integers_are_exact() {
    let (s8, u8, s32, bf16) = (DataType::S8, DataType::U8, DataType::S32, DataType::BF16);
    let image = |dims: &[usize], data_type, tag: &str| MemoryDesc::with_tag(dims, data_type, tag).unwrap();
    let conv = |op: Convolution, src: MemoryDesc, weights: MemoryDesc, dst: MemoryDesc| {
        PrimitiveDesc::builder(Op::Convolution(op)).src(src).weights(weights).dst(dst)
    };
    let op = || Convolution::new(2);
    let zeros = |src: DataType, weights: &[usize]| {
        with([zero_point(Quantized::Src(0), &[1, 1, 1, 1], src), zero_point(Quantized::Weights, weights, s8)])
    };
    let scales = with([
        quantized(Quantized::Src(0), &[1, 1, 1, 1], Some(&[1, 1, 1, 1])),
        quantized(Quantized::Weights, &[24, 1, 1, 1], None),
    ])
    .with_post_op(PostOp::Eltwise(Eltwise::Relu));
    let list = [
        conv(
            op(),
            image(&[2, 64, 3, 19], u8, "acdb"),
            typed(&[40, 64, 1, 1], s8).to_any(),
            image(&[2, 40, 3, 19], s32, "acdb"),
        ),
        conv(
            op().with_pads([1, 1], [1, 1]),
            image(&[1, 20, 5, 18], s8, "abcd"),
            typed(&[37, 20, 3, 3], s8),
            image(&[1, 37, 5, 18], s32, "abcd"),
        )
        .attributes(zeros(s8, &[37, 1, 1, 1])),
        conv(
            op().with_pads([2, 2], [1, 2]).with_strides([2, 1]).with_dilations([1, 2]).with_groups(2),
            image(&[2, 140, 6, 7], u8, "acdb"),
            typed(&[32, 70, 3, 3], u8).to_any(),
            image(&[2, 32, 4, 7], s32, "acdb"),
        )
        .attributes(zeros(u8, &[1, 1, 1, 1])),
        conv(
            op().with_pads([3, 3], [3, 3]).with_strides([2, 2]),
            image(&[1, 3, 12, 20], u8, "acdb"),
            typed(&[24, 3, 7, 7], s8).to_any(),
            image(&[1, 24, 6, 10], s8, "acdb"),
        )
        .bias(f32(&[24]))
        .attributes(scales),
        conv(
            Convolution::new(3).with_pads([1, 0, 1], [0, 1, 1]),
            typed(&[1, 12, 3, 4, 5], s8),
            typed(&[9, 12, 2, 2, 3], u8),
            typed(&[1, 9, 3, 4, 5], s32),
        ),
        conv(
            op().with_pads([1, 1], [1, 1]),
            image(&[1, 40, 4, 9], bf16, "acdb"),
            typed(&[20, 40, 3, 3], bf16).to_any(),
            image(&[1, 20, 4, 9], bf16, "acdb"),
        ),
        // Sums of few products are exact in f32, too.
        conv(
            op().with_pads([1, 1], [1, 1]).with_groups(20),
            image(&[1, 20, 5, 9], u8, "acdb"),
            typed(&[20, 1, 3, 3], s8).to_any(),
            image(&[1, 20, 5, 9], s32, "acdb"),
        ),
        conv(
            op().with_pads([1, 1], [1, 1]),
            image(&[2, 10, 4, 9], DataType::F16, "abcd"),
            typed(&[20, 10, 3, 3], DataType::F16).to_any(),
            image(&[2, 20, 4, 9], DataType::F16, "abcd"),
        ),
    ];
    for builder in list {
        check_choices(&builder.build().unwrap());
    }
}

/// Vectors of a part that started anywhere else would be misaligned, which GPUs refuse.
#[test]
fn parts_of_products_of_few_rows_start_where_vectors_may() {
    let plan = planned(matmul(f32(&[1, 16384]), f32(&[16384, 214])), &gpu());
    assert_eq!((plan.implementation.as_str(), plan.launches.len()), ("ocl:matmul:skinny", 2));
    let parts = plan.launches[0].global[2];
    // A vector may start at the last result.
    assert_eq!(plan.scratchpad, (parts * 216 + 15) * 4);
}

/// Whatever is done behind a product of many terms on a processor, its program is the same; beside few terms a list would take too long.
/// The last tile of rows starts where the one before it has not ended.
#[test]
fn tiles_with_rows_in_common_compute_what_they_mean() {
    let add =
        |dims: &[usize]| Attributes::default().with_post_op(PostOp::binary(BinaryAlgorithm::Add, f32(dims)));
    let sum = || Attributes::default().with_post_op(PostOp::sum(1.0));
    let list = [
        matmul(f32(&[7, 120]), f32(&[120, 70]).to_any()).attributes(add(&[7, 70])),
        matmul(f32(&[9, 40]), f32(&[40, 64]).to_any()).attributes(sum()),
        // Several blocks of terms, of which each adds to the same sums.
        matmul(f32(&[13, 1100]), f32(&[1100, 33]).to_any()).attributes(add(&[13, 33])),
        matmul(f32(&[8, 1100]), f32(&[1100, 64]).to_any()).attributes(sum()),
        // A source that is copied, of a type of its own or by columns.
        matmul(typed(&[37, 60], DataType::F16), typed(&[60, 80], DataType::F16)),
        matmul(tagged(&[49, 300], "ba"), tagged(&[300, 50], "ba")).attributes(add(&[1, 50])),
        matmul(f32(&[3, 19, 24]), f32(&[3, 24, 100])),
    ];
    check_everywhere(&list.map(|builder| builder.build().unwrap()), small_scales);
}

#[test]
fn products_share_a_program_whatever_comes_behind_them() {
    let program = |terms: usize, bias: bool, post_ops: &[PostOp]| {
        let (rows, columns) = (40, 120);
        let mut builder = matmul(f32(&[rows, terms]), f32(&[terms, columns]).to_any());
        if bias {
            builder = builder.bias(f32(&[columns]));
        }
        let attributes = post_ops.iter().cloned().fold(Attributes::default(), Attributes::with_post_op);
        let plan = planned(builder.attributes(attributes), &cpu());
        assert_eq!(plan.implementation, "ocl:matmul:blocked");
        plan.launches[0].program.source.hash()
    };
    let relu = || PostOp::Eltwise(Eltwise::Relu);
    let add =
        || PostOp::Binary { algorithm: BinaryAlgorithm::Add, operand: f32(&[40, 120]), reversed: false };
    let alone = program(128, false, &[]);
    for (bias, post_ops) in [
        (true, vec![]),
        (true, vec![relu()]),
        (false, vec![add()]),
        (true, vec![add(), add()]),
        (false, vec![add(), PostOp::Eltwise(Eltwise::Sigmoid)]),
    ] {
        assert_eq!(program(128, bias, &post_ops), alone, "bias {bias}, {post_ops:?}");
    }
    // One block of terms and several of them.
    assert_eq!(program(500, true, &[relu()]), alone);
    assert_ne!(program(80, true, &[relu()]), program(80, false, &[]));
}

/// Sums of more products than 32 bits hold are those of floats, and never one product after the other: their weights do not lie as units have them.
#[test]
fn sums_that_no_unit_holds_are_floats() {
    let amx = cpu().with(Feature::Amx, Ok("made up"));
    let meant = |operand| Dequantize { operand, scale: Some(f32(&[1, 1])), zero_point: None };
    let build = |rows: usize, terms: usize| {
        let bytes = |dims: &[usize], data_type| MemoryDesc::new(dims, data_type);
        matmul(bytes(&[rows, terms], DataType::U8), bytes(&[terms, 40], DataType::S8).to_any()).attributes(
            Attributes::default()
                .with_dequantize(meant(Quantized::Src(0)))
                .with_dequantize(meant(Quantized::Weights)),
        )
    };
    for (rows, terms, expected) in [(64, 60_000, "amx"), (64, 70_000, "blocked"), (1, 70_000, "vector")] {
        let found = planned(build(rows, terms), &amx).implementation;
        assert_eq!(found, format!("ocl:matmul:{expected}"), "{rows} rows of {terms}");
    }
    check_choices(&build(3, 70_000).build().unwrap());
}

/// Sums of products with a vector, which would fill one column of a unit's tile.
#[test]
fn single_columns_are_dot_products_but_for_many_rows_of_bytes() {
    let amx = cpu().with(Feature::Amx, Ok("made up"));
    let chosen = |[batch, rows, terms]: [usize; 3], data_type, scaled: bool| {
        let of = |operand| Dequantize { operand, scale: Some(f32(&[1, 1, 1])), zero_point: None };
        let both = [Quantized::Src(0), Quantized::Weights].into_iter().filter(|_| scaled);
        let attributes = both.fold(Attributes::default(), |own, operand| own.with_dequantize(of(operand)));
        let operands = [typed(&[batch, rows, terms], data_type), typed(&[batch, terms, 1], data_type)];
        let [src, weights] = operands;
        planned(matmul(src, weights).attributes(attributes), &amx).implementation
    };
    for (dims, data_type, expected) in [
        ([32, 4, 191], DataType::BF16, "dot"),
        ([4, 400, 800], DataType::BF16, "dot"),
        ([32, 4, 191], DataType::S8, "dot"),
        ([4, 400, 800], DataType::S8, "amx-packing"),
    ] {
        let found = chosen(dims, data_type, data_type == DataType::S8);
        assert_eq!(found, format!("ocl:matmul:{expected}"), "{dims:?} {data_type}");
    }
}

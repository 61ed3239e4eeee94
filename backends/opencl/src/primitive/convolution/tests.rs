//! Windows at the edges of their sources, strided, dilated and in groups, by the tiled variants for processors, against the reference.

use anydnn_backend::op::{Convolution, Deconvolution, Op};
use anydnn_backend::{
    Arg, Attributes, BinaryAlgorithm, DataType, Dequantize, Eltwise, MemoryDesc, PostOp, PrimitiveDesc,
    PrimitiveDescBuilder, Quantized, Specialize,
};

use super::blocked::{compete_at, few_tile_size, panel_width};
use crate::capability::units::Feature;
use crate::plan::{DeviceTraits, ProgramSource, SpecialText};
use crate::primitive::choice::Wanted;
use crate::primitive::rows::CPU_LANES;
use crate::primitive::tests::{
    check_choices, check_everywhere, check_those, check_those_with, cpu, f32, gpu, planned, sweep, tagged,
};

/// A convolution whose dimensions but the channels' are all of the same extents, with the channels last.
struct Case {
    spatial: usize,
    extent: usize,
    channels: usize,
    outputs: usize,
    groups: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    pads: (usize, usize),
}

impl Case {
    fn build(&self) -> PrimitiveDescBuilder {
        self.build_from(["acb", "acdb", "acdeb"][self.spatial - 1])
    }

    /// The same with the source in another order.
    fn build_from(&self, order: &str) -> PrimitiveDescBuilder {
        let Self { spatial, extent, kernel, stride, dilation, pads: (begin, end), .. } = *self;
        let result = (extent + begin + end - (kernel - 1) * dilation - 1) / stride + 1;
        let dims = |first: usize, second: usize, rest: usize| {
            [first, second].into_iter().chain(std::iter::repeat_n(rest, spatial)).collect::<Vec<_>>()
        };
        let all = |value: usize| vec![value; spatial];
        let op = Convolution::new(spatial)
            .with_groups(self.groups)
            .with_strides(all(stride))
            .with_dilations(all(dilation))
            .with_pads(all(begin), all(end));
        let last = ["acb", "acdb", "acdeb"][spatial - 1];
        PrimitiveDesc::builder(Op::Convolution(op))
            .src(tagged(&dims(2, self.channels, extent), order))
            .weights(f32(&dims(self.outputs, self.channels / self.groups, kernel)).to_any())
            .dst(tagged(&dims(2, self.outputs, result), last))
    }
}

fn check_tiled(desc: &PrimitiveDesc) {
    let tiled = ["blocked", "blocked-packing", "depthwise-rows"];
    // Register tiles for both kinds of registers, whatever the device has.
    for float_lanes in [8, 16] {
        check_those_with(float_lanes, desc, |name| {
            tiled.iter().any(|variant| name == format!("ocl:convolution:{variant}"))
        });
    }
}

/// A layer in the middle of a network.
const MIDDLE: Case = Case {
    spatial: 2,
    extent: 56,
    channels: 64,
    outputs: 64,
    groups: 1,
    kernel: 3,
    stride: 1,
    dilation: 1,
    pads: (1, 1),
};

#[test]
fn taps_outside_of_the_source_add_nothing() {
    let case = Case {
        spatial: 2,
        extent: 30,
        channels: 3,
        outputs: 64,
        groups: 1,
        kernel: 7,
        stride: 2,
        dilation: 1,
        pads: (3, 2),
    };
    let epilogue = Attributes::default()
        .with_post_op(PostOp::sum(0.5))
        .with_post_op(PostOp::Eltwise(Eltwise::Relu))
        .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, f32(&[1, 64, 1, 1])));
    // The last tap of the first position lies behind a source shorter than a stride.
    let behind = Case { extent: 2, kernel: 3, pads: (0, 1), ..case };
    // Rows that see no tap at all, and groups of one channel.
    let far = Case { extent: 9, kernel: 2, dilation: 3, stride: 1, pads: (5, 4), ..case };
    let alone = Case { channels: 32, outputs: 32, groups: 32, kernel: 3, ..behind };
    for builder in [
        case.build().bias(f32(&[64])).attributes(epilogue),
        behind.build(),
        far.build(),
        alone.build(),
        Case { extent: 12, pads: (1, 1), ..alone }.build(),
    ] {
        check_tiled(&builder.build().unwrap());
    }
}

/// Few channels fill vectors together with their positions; rows' ends, and those of the source, are within vectors.
#[test]
fn depthwise_convolutions_of_few_channels() {
    let of = |channels: usize| Case { channels, outputs: channels, groups: channels, extent: 21, ..MIDDLE };
    let epilogue = |channels: usize, extent: usize| {
        Attributes::default()
            .with_post_op(PostOp::sum(0.5))
            .with_post_op(PostOp::Eltwise(Eltwise::Relu))
            .with_post_op(PostOp::binary(
                BinaryAlgorithm::Add,
                tagged(&[2, channels, extent, extent], "acdb"),
            ))
    };
    let single = || Case { kernel: 1, pads: (0, 0), ..of(1) }.build();
    for (is_flat, builder) in [
        (true, of(1).build()),
        (true, of(3).build().bias(f32(&[3])).attributes(epilogue(3, 21))),
        (true, Case { kernel: 5, dilation: 2, pads: (6, 3), ..of(6) }.build().bias(f32(&[6]))),
        (true, Case { kernel: 2, pads: (0, 0), extent: 9, ..of(5) }.build().attributes(epilogue(5, 8))),
        // Every vector reaches beyond the source.
        (true, Case { kernel: 11, pads: (9, 9), extent: 4, spatial: 1, ..of(2) }.build().bias(f32(&[2]))),
        (true, Case { spatial: 3, extent: 7, ..of(4) }.build()),
        // All rows are one.
        (true, single().bias(f32(&[1])).attributes(epilogue(1, 21))),
        (true, Case { kernel: 1, pads: (0, 0), extent: 300, ..of(13) }.build().bias(f32(&[13]))),
        // A factor a channel does not lie along rows.
        (
            false,
            of(3).build().attributes(
                Attributes::default()
                    .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, f32(&[1, 3, 1, 1]))),
            ),
        ),
        (false, Case { stride: 2, ..of(3) }.build()),
        (false, of(12).build()),
    ] {
        let flat = "ocl:convolution:depthwise-flat";
        assert_eq!(planned(builder.clone(), &cpu()).implementation == flat, is_flat, "{builder:?}");
        if is_flat {
            check_those(&builder.build().unwrap(), |name| name == flat);
        }
    }
}

/// The same of bytes with scales and zero points, and of halves; what lies outside of the source is no zero point.
#[test]
fn depthwise_convolutions_of_few_channels_of_other_types() {
    let flat = "ocl:convolution:depthwise-flat";
    let build =
        |channels: usize, kernel: usize, [src, weights, dst]: [DataType; 3], attributes: Attributes| {
            let pad = kernel / 2;
            let op = Convolution::new(2).with_groups(channels).with_pads([pad; 2], [pad; 2]);
            let image = |data_type| tagged(&[2, channels, 9, 21], "acdb").with_data_type(data_type);
            PrimitiveDesc::builder(Op::Convolution(op))
                .src(image(src))
                .weights(f32(&[channels, 1, kernel, kernel]).with_data_type(weights).to_any())
                .bias(f32(&[channels]))
                .dst(image(dst))
                .attributes(attributes)
                .build()
                .unwrap()
        };
    let meant = |operand, scales: &[usize], zero: Option<(&[usize], DataType)>| Dequantize {
        operand,
        scale: Some(f32(scales)),
        zero_point: zero.map(|(dims, data_type)| f32(dims).with_data_type(data_type)),
    };
    let (u8, s8, bf16) = (DataType::U8, DataType::S8, DataType::BF16);
    for channels in [1, 3, 5] {
        for kernel in [1, 3] {
            let of_source = meant(Quantized::Src(0), &[1, 1, 1, 1], Some((&[1, 1, 1, 1], u8)));
            let of_weights = meant(Quantized::Weights, &[channels, 1, 1, 1], Some((&[1, 1, 1, 1], s8)));
            let both = Attributes::default().with_dequantize(of_source).with_dequantize(of_weights.clone());
            let weights = Attributes::default()
                .with_dequantize(of_weights)
                .with_post_op(PostOp::Eltwise(Eltwise::Relu));
            for desc in [
                build(channels, kernel, [bf16; 3], Attributes::default()),
                build(channels, kernel, [u8, s8, DataType::F32], both),
                build(channels, kernel, [DataType::F32, s8, DataType::F32], weights),
            ] {
                let plan = crate::primitive::plan(&desc, &cpu()).unwrap();
                assert_eq!(plan.implementation, flat, "{desc}");
                check_those(&desc, |name| name == flat);
            }
            // A zero point a channel is of places, which these vectors have in common.
            let apart = meant(Quantized::Src(0), &[1, channels, 1, 1], None);
            let of_weights = meant(Quantized::Weights, &[1, 1, 1, 1], None);
            let apart = Attributes::default().with_dequantize(apart).with_dequantize(of_weights);
            let desc = build(channels, kernel, [u8, s8, DataType::F32], apart);
            let found = crate::primitive::plan(&desc, &cpu()).unwrap().implementation;
            assert_eq!(found == flat, channels == 1, "{desc}");
        }
    }
}

/// A filter a channel where channels do not lie side by side in all operands: those are copied, if there is enough to compute.
#[test]
fn depthwise_convolutions_beside_copies() {
    let case = Case { channels: 20, outputs: 20, groups: 20, extent: 24, ..MIDDLE };
    let plain = |desc: &PrimitiveDesc, arg: Arg| {
        let row_major = desc.find(arg).unwrap().to_row_major();
        desc.clone().opened(arg).resolved(arg, row_major).unwrap()
    };
    let epilogue = || {
        let relu = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Relu));
        relu.with_post_op(PostOp::binary(BinaryAlgorithm::Add, f32(&[2, 20, 24, 24])))
    };
    let device = cpu();
    let resolved = |builder: PrimitiveDescBuilder| planned(builder, &device).desc;
    let bias = || case.build().bias(f32(&[20]));
    let all = [Arg::SRC, Arg::Weights, Arg::DST];
    for (builder, turned) in [
        (case.build(), &all[2..]),
        (bias().attributes(epilogue()), &all[..]),
        (case.build_from("abcd"), &all[..0]),
        (bias(), &all[1..2]),
    ] {
        let desc = turned.iter().fold(resolved(builder), |desc, &arg| plain(&desc, arg));
        let plan = crate::primitive::plan(&desc, &device).unwrap();
        let copies = desc.args().iter().filter(|operand| all.contains(&operand.arg));
        let copies = copies.filter(|operand| operand.desc.same_bytes(&operand.desc.to_row_major())).count();
        assert_eq!(plan.implementation, "ocl:convolution:depthwise-beside", "{desc}");
        assert_eq!(plan.launches.len(), 1 + copies, "{desc}");
        check_choices(&desc);
    }
    // What is added to, and what is little.
    let sum = case.build().attributes(Attributes::default().with_post_op(PostOp::sum(1.0)));
    let small = Case { extent: 5, ..case }.build();
    for builder in [sum, small] {
        let desc = plain(&resolved(builder), Arg::DST);
        let plan = crate::primitive::plan(&desc, &device).unwrap();
        assert!(!plan.implementation.ends_with("beside"), "{desc}");
    }
}

/// The last tile of a line reads no further than the source, whose end it sees.
#[test]
fn tiles_at_the_end_of_the_source_start_earlier() {
    let case = Case { extent: 40, channels: 1, outputs: 77, pads: (0, 0), ..MIDDLE };
    for case in [
        Case { spatial: 1, ..case },
        Case { spatial: 1, channels: 5, pads: (1, 1), ..case },
        Case { extent: 13, outputs: 40, channels: 6, kernel: 5, stride: 2, pads: (2, 2), ..case },
        Case { extent: 20, channels: 64, outputs: 96, ..case },
        // A source of fewer positions than a tile has.
        Case { extent: 3, outputs: 24, channels: 6, ..case },
    ] {
        check_tiled(&case.build().bias(f32(&[case.outputs])).build().unwrap());
    }
}

/// Vectors along the channels, whose last one begins earlier, one output and blocks of four of them, taps that are gathered or lie apart.
#[test]
fn few_outputs_are_sums_of_vectors_along_the_channels() {
    let epilogue = Attributes::default()
        .with_post_op(PostOp::sum(0.5))
        .with_post_op(PostOp::Eltwise(Eltwise::Relu))
        .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, f32(&[1, 1, 1, 1])));
    let case = Case { extent: 13, channels: 37, outputs: 1, ..MIDDLE };
    for case in [
        Case { ..case },
        Case { outputs: 3, pads: (2, 0), ..case },
        Case { outputs: 5, stride: 2, ..case },
        Case { outputs: 6, ..case },
        Case { outputs: 4, dilation: 3, pads: (4, 5), ..case },
        Case { channels: 48, outputs: 4, groups: 2, extent: 5, ..case },
        Case { channels: 64, outputs: 2, kernel: 1, pads: (0, 0), ..case },
    ] {
        let desc = case.build().bias(f32(&[case.outputs])).attributes(epilogue.clone()).build().unwrap();
        assert_eq!(planned(case.build(), &cpu()).implementation, "ocl:convolution:dots");
        check_those_with(16, &desc, |name| name == "ocl:convolution:dots");
    }
    // Half a vector's lanes are mostly full.
    let seven = planned(Case { outputs: 7, ..case }.build(), &cpu());
    assert_eq!(seven.implementation, "ocl:convolution:blocked");
    let deep = Case { spatial: 3, extent: 6, channels: 16, outputs: 2, ..MIDDLE };
    check_those_with(16, &deep.build().build().unwrap(), |name| name == "ocl:convolution:dots");
}

/// Sums of few terms are over before tiles pay, and work-items share short lines evenly, of which the last one has fewer.
#[test]
fn sums_of_few_terms_need_no_tiles() {
    let case = Case { channels: 3, outputs: 21, kernel: 1, pads: (0, 0), extent: 11, ..MIDDLE };
    let vector = |name: &str| name.starts_with("ocl:convolution:vector");
    for (case, is_first) in [
        (Case { ..case }, true),
        (Case { channels: 1, outputs: 70, kernel: 2, pads: (1, 0), ..case }, true),
        // Few lines, of which each has parts.
        (Case { spatial: 1, extent: 701, outputs: 70, ..case }, true),
        // Taps of few outputs, a single position, and more terms.
        (Case { channels: 3, outputs: 21, kernel: 2, ..case }, false),
        (Case { extent: 1, ..case }, false),
        (Case { channels: 16, ..case }, false),
    ] {
        let relu = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Relu));
        let desc = case.build().bias(f32(&[case.outputs])).attributes(relu).build().unwrap();
        let found = planned(case.build(), &cpu()).implementation;
        assert_eq!(vector(&found), is_first, "{} channels: {found}", case.channels);
        check_those_with(16, &desc, vector);
    }
    let items = |units: usize| {
        let plan = planned(case.build(), &DeviceTraits { compute_units: units, ..cpu() });
        plan.launches.last().unwrap().global
    };
    // As many work-items as lines where there are units for them, else a few for each unit.
    let [many, few] = [1000, 1].map(|units| items(units)[0]);
    assert!(many.is_multiple_of(11) && few < many, "{few} of {many}");
}

/// Scales that differ along the width of the source belong to its places, not to the results'.
#[test]
fn depthwise_sources_have_scales_along_the_width() {
    let scaled = |operand, dims: &[usize]| Dequantize { operand, scale: Some(f32(dims)), zero_point: None };
    // Operands that both have scales are real numbers to the kernels.
    let attributes = Attributes::default()
        .with_dequantize(scaled(Quantized::Src(0), &[1, 1, 45]))
        .with_dequantize(scaled(Quantized::Weights, &[1, 1, 1]));
    let image = tagged(&[2, 53, 45], "acb");
    let desc = PrimitiveDesc::builder(Op::Convolution(Convolution::new(1).with_groups(53)))
        .src(image.with_data_type(DataType::S8))
        .weights(f32(&[53, 1, 1]).with_data_type(DataType::S8).to_any())
        .dst(image)
        .attributes(attributes);
    check_choices(&desc.build().unwrap());
}

/// Sums of many products go by register tiles of f32, of which no unit takes the integers; few are multiplied as they are read.
#[test]
fn integers_without_units_become_floats_where_sums_are_many() {
    let scaled = |operand, dims: &[usize], zero: Option<DataType>| Dequantize {
        operand,
        scale: Some(f32(dims)),
        zero_point: zero.map(|data_type| f32(&[1, 1, 1, 1]).with_data_type(data_type)),
    };
    let bytes = |dims: &[usize], tag: &str| tagged(dims, tag).with_data_type(DataType::U8);
    let weights = |dims: &[usize]| f32(dims).with_data_type(DataType::S8).to_any();
    let relu = PostOp::Eltwise(Eltwise::Relu);
    let of_weights = |outputs| scaled(Quantized::Weights, &[outputs, 1, 1, 1], None);
    let convolution = |extent: usize| {
        let attributes = Attributes::default().with_dequantize(of_weights(40)).with_post_op(relu.clone());
        PrimitiveDesc::builder(Op::Convolution(Convolution::new(2).with_pads([1, 1], [1, 1])))
            .src(tagged(&[1, 33, extent, extent], "acdb"))
            .weights(weights(&[40, 33, 3, 3]))
            .bias(f32(&[40]))
            .dst(tagged(&[1, 40, extent, extent], "acdb"))
            .attributes(attributes)
            .build()
            .unwrap()
    };
    let both = |tag: &str, groups: usize| {
        let attributes = Attributes::default()
            .with_dequantize(scaled(Quantized::Src(0), &[1, 1, 1, 1], Some(DataType::U8)))
            .with_dequantize(scaled(Quantized::Weights, &[1, 1, 1, 1], Some(DataType::S8)));
        PrimitiveDesc::builder(Op::Deconvolution(Deconvolution::new(2).with_groups(groups)))
            .src(bytes(&[2, 32, 23, 23], tag))
            .weights(weights(&[32, 48 / groups, 3, 3]))
            .dst(tagged(&[2, 48, 25, 25], tag).with_data_type(DataType::F32))
            .attributes(attributes)
            .build()
            .unwrap()
    };
    let chosen = |desc: &PrimitiveDesc| crate::primitive::plan(desc, &cpu()).unwrap().implementation;
    assert_eq!(chosen(&convolution(30)), "ocl:convolution:dequantized");
    assert_eq!(chosen(&convolution(10)), "ocl:convolution:vector");
    // Scales of floats count as well.
    let floats = PrimitiveDesc::builder(Op::Convolution(Convolution::new(2).with_pads([1, 1], [1, 1])))
        .src(tagged(&[1, 33, 30, 30], "acdb"))
        .weights(weights(&[40, 33, 3, 3]))
        .dst(tagged(&[1, 40, 30, 30], "acdb"))
        .attributes(
            Attributes::default()
                .with_dequantize(scaled(Quantized::Src(0), &[1, 1, 1, 1], None))
                .with_dequantize(of_weights(40)),
        )
        .build()
        .unwrap();
    // What would be transformed if it were f32 is not for each execution.
    let is_winograd = |desc: &PrimitiveDesc| chosen(desc).ends_with("winograd");
    let squares = |weights: MemoryDesc, attributes: Attributes| {
        PrimitiveDesc::builder(Op::Convolution(Convolution::new(2).with_pads([1, 1], [1, 1])))
            .src(tagged(&[1, 64, 24, 24], "acdb"))
            .weights(weights)
            .dst(tagged(&[1, 64, 24, 24], "acdb"))
            .attributes(attributes)
            .build()
            .unwrap()
    };
    let dims = [64, 64, 3, 3];
    let permitted = Attributes::default().with_winograd(true);
    assert!(is_winograd(&squares(f32(&dims).to_any(), permitted.clone())));
    let small = squares(weights(&dims), permitted.with_dequantize(of_weights(64)));
    assert_eq!(chosen(&small), "ocl:convolution:dequantized");
    for desc in [floats, convolution(30), both("acdb", 1), both("abcd", 1), both("abcd", 2)] {
        check_those(&desc, |name| name.ends_with(":dequantized"));
    }
}

/// Images that are one in memory have zero points of their own, and groups that fill no panel are multiplied like others.
#[test]
fn integers_that_become_floats_may_lie_anywhere() {
    let zero = |dims: &[usize]| Dequantize {
        operand: Quantized::Src(0),
        scale: Some(f32(&[1, 1, 1, 1])),
        zero_point: Some(f32(dims).with_data_type(DataType::S32)),
    };
    let one_image = MemoryDesc::with_strides([5, 30, 33, 29], DataType::S8, [0, 957, 29, 1]).unwrap();
    let convolution = |src: MemoryDesc, weights: &[usize], groups: usize, dequantize: Dequantize| {
        let dst = MemoryDesc::new([5, weights[0], 33, 29], DataType::F32);
        let op = Convolution::new(2).with_groups(groups);
        PrimitiveDesc::builder(Op::Convolution(op))
            .src(src)
            .weights(f32(weights).with_data_type(DataType::S8).to_any())
            .dst(dst)
            .attributes(Attributes::default().with_dequantize(dequantize))
            .build()
            .unwrap()
    };
    let image = MemoryDesc::new([5, 30, 33, 29], DataType::S8);
    let list = [
        convolution(one_image, &[30, 30, 1, 1], 1, zero(&[5, 1, 1, 1])),
        convolution(image, &[90, 10, 1, 1], 3, zero(&[1, 1, 1, 1])),
    ];
    for desc in list {
        let all = crate::primitive::choices(&desc, &cpu(), Wanted::All).unwrap();
        assert!(all.iter().any(|choice| choice.plan.implementation.ends_with(":dequantized")), "{desc}");
        check_those(&desc, |name| name.ends_with(":dequantized"));
    }
}

/// Fewer groups than a vector has lanes, and some more than one has: what they store besides their own is never what remains, nor added to.
#[test]
fn groups_fill_vectors_that_they_share() {
    let sum = Attributes::default().with_post_op(PostOp::sum(0.5));
    let relu = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Relu));
    for groups in [6, 21] {
        let case =
            Case { extent: 12, channels: groups, outputs: groups, groups, kernel: 3, pads: (1, 1), ..MIDDLE };
        for attributes in [sum.clone(), relu.clone()] {
            check_tiled(&case.build().bias(f32(&[groups])).attributes(attributes).build().unwrap());
        }
    }
}

/// Whole and partial vectors and strips, windows past all edges, steps and gaps between taps, one to three dimensions.
#[test]
fn depthwise_strips_of_the_width() {
    let sum = Attributes::default()
        .with_post_op(PostOp::sum(0.5))
        .with_post_op(PostOp::Eltwise(Eltwise::Relu))
        .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, f32(&[1, 40, 1, 1])));
    let case = Case { extent: 30, channels: 40, outputs: 40, groups: 40, ..MIDDLE };
    let odd = Case { channels: 41, outputs: 41, groups: 41, ..case };
    // Of 16 bits, four channels go together where they divide them.
    let halves = |channels: usize| {
        let image = MemoryDesc::with_tag([2, channels, 30, 30], DataType::F16, "acdb").unwrap();
        let op = Convolution::new(2).with_groups(channels).with_pads(vec![1; 2], vec![1; 2]);
        let weights = MemoryDesc::new([channels, 1, 3, 3], DataType::F16).to_any();
        PrimitiveDesc::builder(Op::Convolution(op)).src(image.clone()).weights(weights).dst(image)
    };
    let list = [
        halves(40),
        halves(42),
        halves(41),
        case.build().bias(f32(&[40])).attributes(sum),
        Case { kernel: 5, stride: 2, pads: (2, 2), ..odd }.build(),
        Case { kernel: 3, dilation: 3, pads: (3, 1), ..odd }.build(),
        Case { kernel: 2, stride: 3, pads: (5, 4), ..case }.build(),
        Case { spatial: 1, extent: 400, kernel: 7, pads: (3, 3), ..odd }.build(),
        Case { spatial: 3, extent: 13, kernel: 3, ..case }.build(),
    ];
    let gpu = DeviceTraits { compute_units: 4, ..gpu() };
    // Only whole vectors of channels need memory that is aligned to them.
    let alignment = |builder| planned(builder, &gpu).launches[0].alignment;
    assert_eq!([halves(40), halves(42), case.build()].map(alignment), [8, 1, 1]);
    for builder in list {
        assert_eq!(planned(builder.clone(), &gpu).implementation, "ocl:convolution:depthwise-strip");
        check_those(&builder.build().unwrap(), |name| name == "ocl:convolution:depthwise-strip");
    }
}

/// Channels apart, as in pictures, and side by side; more taps than channels, as many, and fewer.
#[test]
fn taps_go_together_in_either_order() {
    let case = Case {
        spatial: 2,
        extent: 33,
        channels: 3,
        outputs: 24,
        groups: 1,
        kernel: 3,
        stride: 2,
        dilation: 1,
        pads: (1, 1),
    };
    for case in
        [Case { ..case }, Case { kernel: 5, outputs: 40, ..case }, Case { channels: 9, outputs: 33, ..case }]
    {
        check_tiled(&case.build().build().unwrap());
        check_tiled(&case.build_from("abcd").build().unwrap());
    }
}

#[test]
fn transposes_without_overlap_are_products() {
    let build = |channels: usize, outputs: usize, kernel: [usize; 2], pad: usize| {
        let (height, width) = (9, 17);
        let result = [2, outputs, height * kernel[0] - 2 * pad, width * kernel[1] - 2 * pad];
        let op = Deconvolution::new(2).with_strides(kernel).with_pads([pad, pad], [pad, pad]);
        PrimitiveDesc::builder(Op::Deconvolution(op))
            .src(tagged(&[2, channels, height, width], "acdb"))
            .weights(f32(&[channels, outputs, kernel[0], kernel[1]]).to_any())
            .bias(f32(&[outputs]))
            .dst(tagged(&result, "acdb"))
    };
    let epilogue = |outputs| {
        Attributes::default()
            .with_post_op(PostOp::Eltwise(Eltwise::Sigmoid))
            .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, f32(&[1, outputs, 1, 1])))
    };
    let is_spread = |name: &str| name == "ocl:deconvolution:spread";
    for (channels, outputs, kernel) in
        [(24, 24, [2, 2]), (24, 1, [2, 2]), (5, 1, [3, 19]), (16, 40, [1, 3]), (7, 9, [2, 2])]
    {
        let builder = || build(channels, outputs, kernel, 0).attributes(epilogue(outputs));
        let desc = builder().build().unwrap();
        assert!(is_spread(&planned(builder(), &cpu()).implementation), "{desc}");
        check_those(&desc, is_spread);
    }
    assert!(!is_spread(&planned(build(24, 24, [2, 2], 1), &cpu()).implementation));
}

#[test]
fn windows_of_any_shape_mean_the_same_in_tiles() {
    let (count, mut random) = sweep(5);
    let mut number = |most: usize| 1 + random.below(most as u64) as usize;
    for _ in 0..count {
        let spatial = number(3);
        let (kernel, dilation, groups) = (number(4), number(2), number(2));
        let reach = (kernel - 1) * dilation + 1;
        let case = Case {
            spatial,
            extent: reach + number([90, 35, 7][spatial - 1]),
            channels: number(9) * groups,
            outputs: (8 + number(72)) * groups,
            groups,
            kernel,
            stride: number(3),
            dilation,
            pads: (number(reach) - 1, number(reach) - 1),
        };
        check_tiled(&case.build().build().unwrap());
    }
}

/// Few outputs, short lines along either side, lone places, all places of all images as one line.
#[test]
fn shapes_that_leave_tiles_empty_mean_the_same() {
    // Images, channels, outputs, height, width, kernel, stride, padding.
    let shapes = [
        (2, 5, 1, 33, 9, [3, 3], 1, 1),
        (1, 6, 7, 9, 40, [5, 3], 2, 0),
        (1, 9, 3, 7, 60, [7, 7], 3, 3),
        (1, 4, 20, 90, 2, [3, 2], 1, 1),
        (33, 3, 24, 3, 3, [3, 3], 1, 0),
        (5, 8, 40, 6, 7, [1, 1], 1, 0),
        (3, 7, 5, 11, 13, [1, 1], 1, 0),
        (1, 30, 17, 1, 1, [1, 1], 1, 0),
    ];
    for (images, channels, outputs, height, width, kernel, stride, pad) in shapes {
        let op = Convolution::new(2).with_strides([stride; 2]).with_pads([pad; 2], [pad; 2]);
        let result = |extent: usize, taps: usize| (extent + 2 * pad - taps) / stride + 1;
        let result = [images, outputs, result(height, kernel[0]), result(width, kernel[1])];
        let desc = PrimitiveDesc::builder(Op::Convolution(op))
            .src(tagged(&[images, channels, height, width], "acdb"))
            .weights(f32(&[outputs, channels, kernel[0], kernel[1]]).to_any())
            .dst(tagged(&result, "acdb"))
            .build()
            .unwrap();
        check_tiled(&desc);
    }
}

/// Two more launches, which widen and pack, pay for much work alone.
#[test]
fn few_outputs_of_16_bits_are_packed_where_that_pays() {
    let named = |extent: usize| {
        let image = |channels| MemoryDesc::with_tag([1, channels, extent, extent], DataType::BF16, "acdb");
        let op = Convolution::new(2).with_pads([1, 1], [1, 1]);
        let builder = PrimitiveDesc::builder(Op::Convolution(op))
            .src(image(12).unwrap())
            .weights(MemoryDesc::new([4, 12, 3, 3], DataType::BF16).to_any())
            .dst(image(4).unwrap());
        let plan = planned(builder, &cpu());
        (plan.implementation, plan.launches.len())
    };
    assert_eq!(named(7), ("ocl:convolution:ref".to_owned(), 1));
    assert_eq!(named(70), ("ocl:convolution:blocked-packing".to_owned(), 3));
}

/// Convolutions of few outputs, by many terms or few, are multiplied by the unit of their type where sums fit it.
#[test]
fn few_outputs_find_the_units() {
    let device = cpu().with(Feature::Bytes, Ok("made up")).with(Feature::Pairs, Ok("made up"));
    let (u8, bf16) = (DataType::U8, DataType::BF16);
    let named = |channels: usize, outputs: usize, kernel: usize, src: DataType, weights: DataType| {
        let image = |count, data_type| MemoryDesc::with_tag([1, count, 60, 60], data_type, "acdb").unwrap();
        let pads = [kernel / 2; 2];
        let builder = PrimitiveDesc::builder(Op::Convolution(Convolution::new(2).with_pads(pads, pads)))
            .src(image(channels, src))
            .weights(MemoryDesc::new([outputs, channels, kernel, kernel], weights).to_any())
            .dst(image(outputs, DataType::F32));
        planned(builder, &device).implementation
    };
    assert_eq!(named(1, 3, 3, u8, DataType::S8), "ocl:convolution:bytes");
    assert_eq!(named(512, 1, 11, u8, DataType::S8), "ocl:convolution:bytes");
    assert_eq!(named(512, 5, 11, bf16, bf16), "ocl:convolution:pairs");
    assert_eq!(named(512, 4, 11, bf16, bf16), "ocl:convolution:dots");
    // 61,952 products of 255 by 255 are more than 31 bits hold: floats hold them nearly.
    assert_eq!(named(512, 1, 11, u8, u8), "ocl:convolution:dequantized");
}

#[test]
fn panels_fit_the_lines() {
    // Long lines want narrow panels, which leave no more lanes empty than wide ones.
    for (outputs, line, width) in [
        (64, 56, 32),
        (64, 7, 64),
        (256, 14, 32),
        (48, 56, 48),
        (96, 56, 32),
        (16, 56, 16),
        (24, 56, 32),
        (20, 7, 32),
        (360, 20, 32),
        (3, 20, 8),
    ] {
        assert_eq!(panel_width(outputs, line, 576, false, 24), width, "{outputs} outputs, {line} positions");
    }
    // Few terms leave room in the first-level cache for wide ones.
    assert_eq!(panel_width(256, 56, 64, false, 24), 64);
    // Positions 4 KB apart find no more than eight places in a cache.
    assert_eq!([1024, 1040, 512, 2 * 512].map(compete_at), [true, false, false, true]);
    assert_eq!([false, true].map(|compete| panel_width(256, 14, 1024, compete, 24)), [32, 64]);
    let case = MIDDLE;
    let plan = planned(case.build(), &cpu());
    let weights = plan.desc.find(anydnn_backend::Arg::Weights).unwrap();
    assert_eq!(weights, &MemoryDesc::with_tag([64, 64, 3, 3], DataType::F32, "Acdb32a").unwrap());
}

/// Tiles of a short line read weights that do not stay near too often: those along the height are longer, and panels narrow for them.
#[test]
fn many_weights_have_long_tiles() {
    let tag = |channels: usize| {
        let op = Convolution::new(2).with_pads([3, 3], [3, 3]);
        let desc = PrimitiveDesc::builder(Op::Convolution(op))
            .src(tagged(&[2, channels, 47, 7], "acdb"))
            .weights(f32(&[256, channels, 7, 7]).to_any())
            .dst(tagged(&[2, 256, 47, 7], "acdb"));
        planned(desc, &cpu()).desc.find(Arg::Weights).cloned().unwrap()
    };
    for (channels, layout) in [(16, "Acdb64a"), (100, "Acdb32a")] {
        let expected = MemoryDesc::with_tag([256, channels, 7, 7], DataType::F32, layout).unwrap();
        assert_eq!(tag(channels), expected);
    }
}

#[test]
fn last_panels_have_tiles_of_their_own() {
    // Panels of two vectors, the last of one; the same of three, by few terms.
    let list = [(70, 8, 0), (72, 8, 1), (65, 7, 0)].map(|(outputs, channels, pad)| {
        let case = Case { extent: 10, outputs, channels, pads: (pad, pad), ..MIDDLE };
        case.build().build().unwrap().with_specialize(Some(Specialize::Eager))
    });
    for desc in &list {
        let plan = crate::primitive::plan(desc, &cpu().with_special()).unwrap();
        let special = plan.launches.last().and_then(|launch| launch.special.as_ref()).unwrap();
        let SpecialText::Own(program) = &special.text else { panic!("{desc}: no text of its own") };
        let text = program.source.to_string();
        assert!(!text.contains("#define LAST_VECTORS 0"), "{desc}");
    }
    check_everywhere(&list, |_| None);
}

/// Lines are cut into parts where there are few of them, in programs for one shape into tiles as even as can be.
#[test]
fn few_lines_are_cut_for_cores() {
    let case = Case { spatial: 1, extent: 101, channels: 9, outputs: 20, pads: (0, 0), ..MIDDLE };
    let list = [
        Case { ..case },
        Case { extent: 33, ..case },
        Case { extent: 47, outputs: 40, ..case },
        Case { stride: 2, channels: 40, outputs: 64, ..case },
        Case { pads: (1, 1), outputs: 12, ..case },
        Case { extent: 100, kernel: 1, outputs: 17, ..case },
        Case { spatial: 2, extent: 25, kernel: 23, outputs: 150, channels: 2, ..case },
        // A line of both images, and, as volumes have none along the images, lines of one place.
        Case { spatial: 2, extent: 3, outputs: 65, ..case },
        Case { spatial: 3, extent: 3, outputs: 65, ..case },
    ]
    .map(|case| case.build().build().unwrap());
    for desc in &list[..5] {
        let plan = crate::primitive::plan(desc, &cpu()).unwrap();
        assert_eq!(plan.implementation, "ocl:convolution:blocked", "{desc}");
        // The lines are those of two images.
        let outputs = desc.dst().dims()[1].div_ceil(CPU_LANES * 2);
        assert!(plan.launches[0].global[0] > 2 * outputs, "{desc}: {:?}", plan.launches[0].global);
    }
    check_everywhere(&list, |_| None);
    // The first of a list has the registers of tiles for one shape.
    for desc in list {
        check_everywhere(&[desc.with_specialize(Some(Specialize::Eager))], |_| None);
    }
}

/// Lines of every length share a program.
#[test]
fn depthwise_lines_share_a_program() {
    let of = |extent: usize| Case { extent, channels: 48, outputs: 48, groups: 48, ..MIDDLE };
    let texts = [1, 4, 7, 8, 30, 101]
        .map(|extent| planned(of(extent).build(), &cpu()).launches[0].program.source.to_string());
    assert!(texts.iter().all(|text| *text == texts[0]));
}

/// Programs know which columns of the source the positions of a tile see, those for every shape where taps lie side by side.
#[test]
fn depthwise_tiles_know_their_columns() {
    let of = |channels: usize| Case { channels, outputs: channels, groups: channels, ..MIDDLE };
    let sum = || Attributes::default().with_post_op(PostOp::sum(0.5));
    let list = [
        // No position sees all taps, or few do; the last vector begins earlier.
        (1, Case { extent: 11, kernel: 11, pads: (5, 5), ..of(37) }.build().bias(f32(&[37]))),
        (1, Case { extent: 11, kernel: 11, stride: 2, pads: (5, 5), ..of(20) }.build().attributes(sum())),
        (0, Case { extent: 20, kernel: 5, dilation: 4, pads: (8, 8), ..of(16) }.build()),
        // Whole tiles between both ends, which differ.
        (1, Case { extent: 30, kernel: 7, pads: (3, 1), ..of(32) }.build().attributes(sum())),
        (1, Case { extent: 31, kernel: 4, stride: 2, pads: (1, 2), ..of(48) }.build().bias(f32(&[48]))),
        (0, Case { spatial: 1, extent: 90, kernel: 11, dilation: 2, pads: (10, 9), ..of(17) }.build()),
        // Lines shorter than a tile, as long, and longer by one; none of their positions sees a first tap, or a last one.
        (1, Case { extent: 2, kernel: 5, pads: (2, 2), ..of(40) }.build().attributes(sum())),
        (1, Case { extent: 7, kernel: 3, pads: (1, 1), ..of(16) }.build()),
        (1, Case { extent: 15, kernel: 2, stride: 2, pads: (1, 0), ..of(33) }.build().attributes(sum())),
        (1, Case { extent: 3, kernel: 7, stride: 2, pads: (6, 6), ..of(18) }.build()),
        // Fewer channels than lanes: what is read at the end of the source has to be there.
        (0, Case { extent: 60, kernel: 5, stride: 3, pads: (4, 2), ..of(9) }.build().bias(f32(&[9]))),
        (1, Case { extent: 9, kernel: 3, pads: (1, 1), ..of(13) }.build().attributes(sum())),
        (1, Case { extent: 5, kernel: 3, pads: (0, 0), ..of(5) }.build().bias(f32(&[5]))),
        (1, Case { spatial: 3, extent: 6, kernel: 3, pads: (2, 0), ..of(10) }.build()),
    ];
    let text = |program: &ProgramSource| program.source.to_string();
    let known = |text: &str, is_known: i32| text.contains(&format!("#define KNOWN_TAPS {is_known}\n"));
    let eager = |builder: &PrimitiveDescBuilder| {
        builder.clone().build().unwrap().with_specialize(Some(Specialize::Eager))
    };
    for (is_known, builder) in &list {
        let desc = eager(builder);
        let plan = crate::primitive::plan(&desc, &cpu().with_special()).unwrap();
        assert_eq!(plan.implementation, "ocl:convolution:depthwise-rows", "{desc}");
        let launch = plan.launches.last().unwrap();
        assert!(known(&text(&launch.program), *is_known), "{desc}");
        let special = launch.special.as_ref().unwrap();
        let SpecialText::Own(program) = &special.text else { panic!("{desc}: no text of its own") };
        assert!(known(&text(program), 1), "{desc}");
    }
    check_everywhere(&list.each_ref().map(|(_, builder)| eager(builder)), |_| None);
    check_everywhere(&list.map(|(_, builder)| builder.build().unwrap()), |_| None);
}

#[test]
fn few_registers_have_panels_of_their_own() {
    for (outputs, width) in [(3, 8), (16, 16), (24, 24), (40, 40), (64, 16), (72, 24), (951, 16)] {
        assert_eq!(panel_width(outputs, 56, 576, false, 6), width, "{outputs} outputs");
    }
    // Tiles of six and four positions make up every even number of them from four on.
    assert_eq!([7, 12, 14, 28, 40, 56].map(few_tile_size), [12, 12, 16, 12, 12, 12]);
    let device = DeviceTraits { float_lanes: 8, ..cpu() };
    let plan = planned(MIDDLE.build(), &device);
    let weights = plan.desc.find(anydnn_backend::Arg::Weights).unwrap();
    assert_eq!(weights, &MemoryDesc::with_tag([64, 64, 3, 3], DataType::F32, "Acdb16a").unwrap());
}

/// What comes behind the sums is a list of the launch where it can be, and the program's text where it cannot.
#[test]
fn post_operations_of_many_kinds_mean_the_same() {
    let case = |kernel: usize, outputs: usize| {
        let pads = (kernel / 2, kernel / 2);
        Case { spatial: 2, extent: 17, channels: 6, outputs, groups: 1, kernel, stride: 1, dilation: 1, pads }
    };
    let result = |kernel: usize, outputs: usize| {
        let extent = 17 + kernel / 2 * 2 - kernel + 1;
        tagged(&[2, outputs, extent, extent], "acdb")
    };
    let binary = PostOp::binary;
    for (kernel, outputs) in [(1, 40), (3, 37)] {
        let (channel, all) = (|| f32(&[1, outputs, 1, 1]), || result(kernel, outputs));
        let lists = [
            vec![PostOp::Eltwise(Eltwise::Clamp { min: -0.5, max: 0.75 })],
            vec![
                binary(BinaryAlgorithm::Multiply, f32(&[1, 1, 1, 1])),
                binary(BinaryAlgorithm::Add, channel()),
                PostOp::Eltwise(Eltwise::HardSwish { alpha: 0.25, beta: 0.5 }),
                binary(BinaryAlgorithm::Add, all()),
            ],
            vec![
                PostOp::Eltwise(Eltwise::LeakyRelu { alpha: 0.1 }),
                binary(BinaryAlgorithm::Subtract, all()),
                PostOp::Eltwise(Eltwise::HardSigmoid { alpha: 0.2, beta: 0.5 }),
                PostOp::Eltwise(Eltwise::Linear { alpha: 2.0, beta: -0.5 }),
            ],
            vec![
                PostOp::Eltwise(Eltwise::Relu),
                binary(BinaryAlgorithm::Multiply, channel()),
                PostOp::Eltwise(Eltwise::Sigmoid),
                PostOp::Eltwise(Eltwise::Tanh),
            ],
            vec![binary(BinaryAlgorithm::Maximum, all()), PostOp::Eltwise(Eltwise::Relu)],
        ];
        for (i, list) in lists.into_iter().enumerate() {
            let attributes = list.into_iter().fold(Attributes::default(), Attributes::with_post_op);
            let builder = case(kernel, outputs).build().attributes(attributes);
            let builder = if i % 2 == 0 { builder.bias(f32(&[outputs])) } else { builder };
            check_tiled(&builder.build().unwrap());
        }
    }
}

#[test]
fn convolutions_of_all_shapes_share_a_program() {
    let relu = || Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Relu));
    let text = |builder: PrimitiveDescBuilder| {
        let plan = planned(builder, &cpu());
        assert_eq!(plan.implementation, "ocl:convolution:blocked");
        plan.launches[0].program.source.to_string()
    };
    let case = MIDDLE;
    let first = text(case.build());
    for text in [
        text(Case { extent: 33, channels: 7, ..case }.build().bias(f32(&[64]))),
        text(
            Case { extent: 40, kernel: 5, stride: 2, dilation: 3, outputs: 32, ..case }
                .build()
                .attributes(relu()),
        ),
        text(Case { kernel: 1, channels: 600, outputs: 75, pads: (0, 0), ..case }.build()),
        text(Case { spatial: 1, extent: 9000, channels: 80, outputs: 96, groups: 2, ..case }.build()),
        text(Case { spatial: 3, extent: 10, channels: 256, outputs: 32, ..case }.build_from("abcde")),
    ] {
        assert!(first == text, "{}", difference(&first, &text));
    }
}

/// The first line in which two texts differ.
fn difference(one: &str, other: &str) -> String {
    let lines = one.lines().zip(other.lines()).find(|(one, other)| one != other);
    format!("{lines:?}")
}

/// Work-groups share the many terms of a result that fills no tile.
#[test]
fn many_terms_of_a_few_outputs_are_split() {
    let narrow = |kernel: usize| {
        let result = 20 - kernel + 1;
        PrimitiveDesc::builder(Op::Convolution(Convolution::new(2)))
            .src(tagged(&[2, 24, 20, 20], "acdb"))
            .weights(f32(&[3, 24, kernel, kernel]))
            .dst(tagged(&[2, 3, result, result], "acdb"))
    };
    let plan = planned(narrow(11), &gpu());
    assert!(plan.implementation.starts_with("ocl:convolution:simt-"), "{}", plan.implementation);
    assert_eq!(plan.launches.len(), 2);
    assert_eq!(planned(narrow(3), &gpu()).implementation, "ocl:convolution:ref");
}

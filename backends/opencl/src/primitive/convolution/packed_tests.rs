//! Convolutions by units that multiply panels: where few channels and few outputs lie, against the reference.

use anydnn_backend::conformance::values::Values;
use anydnn_backend::op::{Convolution, Op};
use anydnn_backend::{
    Arg, Attributes, DataType, Dequantize, Eltwise, MemoryDesc, PostOp, PrimitiveDesc, PrimitiveDescBuilder,
    Quantized,
};

use crate::capability::units::Feature;
use crate::plan::DeviceTraits;
use crate::primitive::tests::{check_everywhere, check_those, cpu, f32, planned};

fn typed(dims: &[usize], data_type: DataType) -> MemoryDesc {
    MemoryDesc::new(dims, data_type)
}

/// A convolution of squares of `taps`, channels last.
struct Case {
    images: usize,
    places: [usize; 2],
    channels: usize,
    outputs: usize,
    taps: usize,
    stride: usize,
    pad: usize,
    types: [DataType; 3],
}

/// Two images of 9 lines of 23 places, unless a case says otherwise.
const CASE: Case =
    Case { images: 2, places: [9, 23], channels: 1, outputs: 20, taps: 3, stride: 1, pad: 1, types: BF16 };

impl Case {
    fn build(&self) -> PrimitiveDescBuilder {
        let Self { images, places: [height, width], channels, outputs, taps, stride, pad, .. } = *self;
        let [src, weights, dst] = self.types;
        let result = |extent: usize| (extent + 2 * pad - taps) / stride + 1;
        let op = Convolution::new(2).with_strides([stride; 2]).with_pads([pad; 2], [pad; 2]);
        let image = |count, height, width, data_type| {
            MemoryDesc::with_tag([images, count, height, width], data_type, "acdb").unwrap()
        };
        PrimitiveDesc::builder(Op::Convolution(op))
            .src(image(channels, height, width, src))
            .weights(typed(&[outputs, channels, taps, taps], weights).to_any())
            .dst(image(outputs, result(height), result(width), dst))
    }
}

const BF16: [DataType; 3] = [DataType::BF16; 3];
const BYTES: [DataType; 3] = [DataType::U8, DataType::S8, DataType::S32];

/// Five by five taps of two channels in bf16, of lines of 23 places.
fn apart(op: Convolution, lines: usize) -> PrimitiveDescBuilder {
    let image =
        |channels, lines| MemoryDesc::with_tag([2, channels, lines, 23], DataType::BF16, "acdb").unwrap();
    PrimitiveDesc::builder(Op::Convolution(op))
        .src(image(2, 9))
        .weights(typed(&[20, 2, 5, 5], DataType::BF16).to_any())
        .dst(image(20, lines))
}

fn units() -> DeviceTraits {
    cpu().with(Feature::Bytes, Ok("made up")).with(Feature::Pairs, Ok("made up"))
}

fn check_units(desc: &PrimitiveDesc) {
    let units = ["amx", "bytes", "pairs", "words"].map(|unit| format!("ocl:convolution:{unit}"));
    let is_unit = |name: &str| units.iter().any(|unit| name.trim_end_matches("-packing") == unit);
    check_those(desc, |name| is_unit(name) || name == "ocl:convolution:dots");
}

/// Terms that are multiplied at once are those of taps side by side; without borders they are read in place, up to where the source ends.
#[test]
fn taps_of_few_channels_are_multiplied_together() {
    let wanted = |channels, types, tag| {
        let case = Case { channels, outputs: 20, taps: 5, stride: 1, pad: 0, types, ..CASE };
        let plan = planned(case.build(), &units());
        let weights = plan.desc.find(Arg::Weights).unwrap();
        let dims = weights.dims().clone();
        assert_eq!(*weights, MemoryDesc::with_tag(dims, types[1], tag).unwrap(), "{channels} {types:?}");
        assert_eq!(plan.launches.len(), 1, "{channels} {types:?}");
    };
    wanted(1, BYTES, "AcDb16a4d");
    wanted(2, BYTES, "AcDB16a2d2b");
    wanted(1, BF16, "AcDb16a2d");
    // An odd number of bf16 in a copy, too: what follows might be no number, which zero does not undo.
    let padded = Case { channels: 1, outputs: 20, taps: 5, stride: 1, pad: 2, types: BF16, ..CASE };
    let text = planned(padded.build(), &units()).launches[1].program.source.to_string();
    assert!(text.contains("#define REST_BYTES 2\n"));
}

/// Matrix units multiply places that a work-item holds, or gathers where taps lie apart or lines are short, where few channels would leave
/// most of a tile empty.
#[test]
fn places_of_few_channels_are_held_for_matrix_units() {
    let amx = units().with(Feature::Amx, Ok("made up"));
    let text = |case: Case, tag, launches| {
        let plan = planned(case.build(), &amx);
        let weights = plan.desc.find(Arg::Weights).unwrap();
        let (dims, data_type) = (weights.dims().clone(), weights.data_type());
        assert_eq!(*weights, MemoryDesc::with_tag(dims, data_type, tag).unwrap(), "{tag}");
        assert_eq!(plan.launches.len(), launches, "{tag}");
        plan.launches.last().unwrap().program.source.to_string()
    };
    let case =
        |channels, stride, types| Case { channels, outputs: 20, taps: 5, stride, pad: 2, types, ..CASE };
    for (channels, types, tag) in [
        (1, BYTES, "AcDb16d16a4d"),
        (2, BYTES, "AcDB16d16a2d2b"),
        (1, BF16, "AcDb16d16a2d"),
        (4, BF16, "AcDB8d2b16a2b"),
        (12, BF16, "AcDB2d8b16a2b"),
    ] {
        for stride in [1, 2] {
            assert!(text(case(channels, stride, types), tag, 1).contains("#define HOLDS_LINES 1\n"));
        }
    }
    // Three channels are held as they are, and the weights are copied; so are those of which a filled place would be empty for more than a
    // quarter.
    for channels in [3, 19, 47] {
        let many = Case { places: [300, 200], ..case(channels, 1, BF16) };
        assert!(text(many, "cdba", 2).contains("#define HOLDS_LINES 1\n"));
        // Of few places, copies of weights would take longer.
        text(case(channels, 2, BF16), "AcdB16b16a2b", 1);
    }
    let full = text(Case { outputs: 40, ..case(60, 1, BF16) }, "AcdB16b16a2b", 1);
    assert!(full.contains("#define HOLDS_LINES 1\n"));
    for (strides, shares_lines) in [([1, 1], 1), ([2, 1], 0)] {
        let op = Convolution::new(2).with_dilations([1, 2]).with_strides(strides).with_pads([2, 4], [2, 4]);
        let apart = planned(apart(op, 9usize.div_ceil(strides[0])), &amx);
        let text = apart.launches.last().unwrap().program.source.to_string();
        assert!(text.contains("#define GATHERS 1\n") && text.contains("#define HOLDS_LINES 0\n"));
        assert!(text.contains(&format!("#define SHARES_LINES {shares_lines}\n")));
    }
    // Windows of more than local memory holds are not gathered, and their weights lie so that other units take them.
    let cubes = Convolution::new(3).with_strides([2; 3]);
    let large = PrimitiveDesc::builder(Op::Convolution(cubes))
        .src(MemoryDesc::with_tag([1, 16, 9, 9, 23], DataType::BF16, "acdeb").unwrap())
        .weights(typed(&[20, 16, 7, 7, 7], DataType::BF16).to_any())
        .dst(MemoryDesc::with_tag([1, 20, 2, 2, 9], DataType::BF16, "acdeb").unwrap());
    let name = planned(large, &amx).implementation;
    assert!(!name.ends_with(":ref"), "{name}");
    // Whole tiles of long lines are read where they lie.
    let long = Case { channels: 64, outputs: 32, taps: 1, stride: 1, pad: 0, types: BF16, ..CASE };
    assert!(text(long, "AcdB16b16a2b", 1).contains("#define GATHERS 0\n"));
}

#[test]
fn few_channels_and_few_outputs_mean_the_same_in_panels() {
    let s8 = [DataType::S8, DataType::S8, DataType::S32];
    let u8 = [DataType::U8, DataType::U8, DataType::U8];
    for (channels, outputs, taps, stride, pad) in [
        (1, 3, 3, 1, 1),
        (1, 20, 5, 2, 2),
        (1, 70, 4, 1, 0),
        (2, 1, 7, 3, 3),
        (2, 33, 2, 1, 1),
        (3, 2, 3, 1, 1),
        (5, 4, 3, 1, 0),
        (12, 150, 1, 2, 0),
        (20, 40, 3, 1, 1),
        (40, 20, 2, 3, 0),
        (47, 7, 3, 2, 2),
    ] {
        for types in [BF16, [DataType::BF16, DataType::BF16, DataType::F32], BYTES, s8, u8] {
            check_units(
                &Case { channels, outputs, taps, stride, pad, types, ..CASE }.build().build().unwrap(),
            );
        }
    }
}

/// Tiles run along what fills them where lines are shorter.
#[test]
fn narrow_images_mean_the_same_along_another_dimension() {
    let amx = units().with(Feature::Amx, Ok("made up"));
    let weights = |case: &Case| planned(case.build(), &amx).desc.find(Arg::Weights).unwrap().clone();
    let tagged = |case: &Case, tag| {
        MemoryDesc::with_tag([case.outputs, case.channels, case.taps, case.taps], case.types[1], tag).unwrap()
    };
    let tall = Case { places: [40, 3], channels: 32, ..CASE };
    assert_eq!(weights(&tall), tagged(&tall, "AdcB16b16a2b"));
    // Places of images one behind the other, and lines that fill tiles.
    for places in [[4, 4], [40, 18]] {
        let case = Case { images: 19, places, channels: 32, pad: 0, ..CASE };
        let case = Case { taps: places[0].min(4), ..case };
        assert_eq!(weights(&case), tagged(&case, "AcdB16b16a2b"), "{places:?}");
    }
    let bytes = [DataType::U8, DataType::S8, DataType::U8];
    for types in [BF16, BYTES, bytes] {
        for (images, places, taps, stride, pad) in [
            (2, [40, 3], 3, 1, 1),
            (1, [37, 1], 3, 2, 1),
            (3, [35, 5], 5, 1, 0),
            (21, [4, 4], 4, 1, 0),
            (18, [5, 4], 3, 2, 1),
        ] {
            for (channels, outputs) in [(1, 9), (3, 20), (12, 5), (32, 40), (70, 17)] {
                let case = Case { images, places, channels, outputs, taps, stride, pad, types };
                let attributes = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Relu));
                check_units(&case.build().bias(f32(&[outputs])).attributes(attributes).build().unwrap());
            }
        }
    }
    // Nothing is the same along both dimensions, nor for all channels.
    let zero = |operand, data_type| Dequantize {
        operand,
        scale: None,
        zero_point: Some(typed(&[1, 1, 1, 1], data_type)),
    };
    let zeros = Attributes::default()
        .with_dequantize(zero(Quantized::Src(0), DataType::U8))
        .with_dequantize(zero(Quantized::Weights, DataType::S8));
    for (groups, channels, outputs) in [(1, 6, 20), (1, 32, 33), (2, 32, 32), (3, 24, 48)] {
        for (images, src, taps) in [(2, [41, 4], [3, 2]), (25, [6, 5], [4, 3]), (1, [33, 2], [2, 1])] {
            let (strides, dilations, begin, end) = ([2, 1], [1, 2], [1, 0], [0, 1]);
            let op =
                Convolution::new(2).with_strides(strides).with_dilations(dilations).with_pads(begin, end);
            let dst: [usize; 2] = std::array::from_fn(|i| {
                (src[i] + begin[i] + end[i] - (taps[i] - 1) * dilations[i] - 1) / strides[i] + 1
            });
            for types in [BF16, BYTES] {
                let image = |count, [height, width]: [usize; 2], data_type| {
                    MemoryDesc::with_tag([images, count, height, width], data_type, "acdb").unwrap()
                };
                let build = |attributes: &Attributes| {
                    PrimitiveDesc::builder(Op::Convolution(op.clone().with_groups(groups)))
                        .src(image(channels, src, types[0]))
                        .weights(typed(&[outputs, channels / groups, taps[0], taps[1]], types[1]).to_any())
                        .dst(image(outputs, dst, types[2]))
                        .attributes(attributes.clone())
                };
                check_units(&build(&Attributes::default()).build().unwrap());
                if types == BYTES {
                    check_units(&build(&zeros).build().unwrap());
                }
            }
        }
    }
    let lines = Convolution::new(1).with_pads([1], [1]);
    let short = PrimitiveDesc::builder(Op::Convolution(lines))
        .src(MemoryDesc::with_tag([30, 32, 5], DataType::BF16, "acb").unwrap())
        .weights(typed(&[20, 32, 3], DataType::BF16).to_any())
        .dst(MemoryDesc::with_tag([30, 20, 5], DataType::BF16, "acb").unwrap());
    check_units(&short.build().unwrap());
    let cubes = Convolution::new(3).with_pads([1; 3], [1; 3]);
    let tall = PrimitiveDesc::builder(Op::Convolution(cubes))
        .src(MemoryDesc::with_tag([2, 20, 30, 3, 2], DataType::BF16, "acdeb").unwrap())
        .weights(typed(&[20, 20, 3, 3, 3], DataType::BF16).to_any())
        .dst(MemoryDesc::with_tag([2, 20, 30, 3, 2], DataType::BF16, "acdeb").unwrap());
    check_units(&tall.build().unwrap());
}

/// A work-item goes through many weights once, for all lines.
#[test]
fn far_weights_are_divided_between_work_items() {
    let amx = units().with(Feature::Amx, Ok("made up"));
    let global = |channels, outputs| {
        let case = Case { images: 1, places: [7, 7], channels, outputs, ..CASE };
        planned(case.build(), &amx).launches.last().unwrap().global
    };
    let [panels, lines, _] = global(512, 512);
    assert!(panels > 1 && lines == 1, "{panels} {lines}");
    let [panels, lines, _] = global(64, 64);
    assert!(panels == 1 && lines > 1, "{panels} {lines}");
}

/// Sums that begin with the bias are results but for their rounding; others pass through memory.
#[test]
fn sums_of_bf16_are_stored_by_the_unit_or_finished() {
    let bias = |outputs| f32(&[outputs]);
    let relu = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Relu));
    let sum = Attributes::default().with_post_op(PostOp::sum(1.0));
    for outputs in [2, 16, 40, 64, 100] {
        let case = Case { channels: 10, outputs, taps: 3, stride: 1, pad: 1, types: BF16, ..CASE };
        check_units(&case.build().bias(bias(outputs)).build().unwrap());
        for attributes in [&relu, &sum] {
            check_units(&case.build().bias(bias(outputs)).attributes(attributes.clone()).build().unwrap());
        }
        let bytes = Case { types: [DataType::U8, DataType::S8, DataType::U8], ..case };
        check_units(&bytes.build().attributes(sum.clone()).build().unwrap());
    }
    // Rows of the result that lie apart, whose last vectors end before what others hold.
    let pads = Convolution::new(2).with_pads([1, 1], [1, 1]);
    let places = [9 * 23 * 30, 1, 23 * 30, 30];
    let apart = PrimitiveDesc::builder(Op::Convolution(pads))
        .src(MemoryDesc::with_tag([2, 10, 9, 23], DataType::BF16, "acdb").unwrap())
        .weights(typed(&[21, 10, 3, 3], DataType::BF16).to_any())
        .dst(MemoryDesc::with_strides([2, 21, 9, 23], DataType::BF16, places).unwrap());
    check_units(&apart.build().unwrap());
}

/// What lies beside a window's terms is no number, which zeros of the weights do not undo.
#[test]
fn gathered_places_stay_apart() {
    let values: Vec<f64> = (0..331).map(|i| if i % 331 == 7 { f64::NAN } else { 0.5 }).collect();
    for (channels, outputs, taps, stride, pad) in [(1, 20, 3, 1, 1), (3, 20, 3, 2, 1), (12, 20, 3, 2, 1)] {
        let desc =
            Case { channels, outputs, taps, stride, pad, types: BF16, ..CASE }.build().build().unwrap();
        check_everywhere(&[desc], |arg| (arg == Arg::SRC).then(|| Values::Listed(values.clone())));
    }
    for strides in [[1, 1], [2, 1]] {
        let op = Convolution::new(2).with_dilations([1, 2]).with_strides(strides).with_pads([2, 4], [2, 4]);
        let desc = apart(op, 9usize.div_ceil(strides[0])).build().unwrap();
        check_units(&desc);
        check_everywhere(&[desc], |arg| (arg == Arg::SRC).then(|| Values::Listed(values.clone())));
    }
}

/// Borders of copies hold the zero point, whole lines of them, too.
#[test]
fn borders_of_few_channels_are_zero_points() {
    let zero = |operand, data_type| Dequantize {
        operand,
        scale: None,
        zero_point: Some(typed(&[1, 1, 1, 1], data_type)),
    };
    for (channels, pad) in [(1, 4), (4, 4), (3, 2)] {
        let case = Case { channels, outputs: 24, taps: 5, stride: 1, pad, types: BYTES, ..CASE };
        let attributes = [zero(Quantized::Src(0), DataType::U8), zero(Quantized::Weights, DataType::S8)]
            .into_iter()
            .fold(Attributes::default(), Attributes::with_dequantize);
        check_units(&case.build().attributes(attributes).build().unwrap());
    }
}

/// Vectors along the channels of bf16, whose last one begins earlier.
#[test]
fn few_outputs_of_many_channels_of_bf16_are_dots() {
    for (channels, outputs, taps, stride, pad) in [(37, 1, 3, 1, 1), (64, 4, 3, 2, 0), (130, 3, 1, 1, 0)] {
        let case = Case { channels, outputs, taps, stride, pad, types: BF16, ..CASE };
        assert_eq!(planned(case.build(), &units()).implementation, "ocl:convolution:dots");
        check_units(&case.build().bias(f32(&[outputs])).build().unwrap());
        let matrix_units = units().with(Feature::Amx, Ok("made up"));
        let name = planned(case.build(), &matrix_units).implementation;
        assert!(name.starts_with("ocl:convolution:amx"), "{name}");
    }
}

/// Sums of more products than 32 bits hold are those of floats, and never one product after the other: their weights do not lie as units have them.
#[test]
fn sums_that_no_unit_holds_are_floats() {
    let meant = |operand, scale: &[usize]| Dequantize { operand, scale: Some(f32(scale)), zero_point: None };
    let build = |channels: usize, outputs: usize| {
        let op = Convolution::new(2).with_pads([2, 2], [2, 2]);
        PrimitiveDesc::builder(Op::Convolution(op))
            .src(MemoryDesc::with_tag([1, channels, 4, 9], DataType::U8, "acdb").unwrap())
            .weights(typed(&[outputs, channels, 5, 5], DataType::S8).to_any())
            .dst(MemoryDesc::with_tag([1, outputs, 4, 9], DataType::F32, "acdb").unwrap())
            .attributes(
                Attributes::default()
                    .with_dequantize(meant(Quantized::Src(0), &[1, 1, 1, 1]))
                    .with_dequantize(meant(Quantized::Weights, &[1, 1, 1, 1])),
            )
    };
    for device in [units(), cpu().with(Feature::Amx, Ok("made up"))] {
        let chosen = |builder| planned(builder, &device).implementation;
        assert!(!["ref", "vector", "dequantized"].iter().any(|name| chosen(build(32, 13)).ends_with(name)));
        assert_eq!(chosen(build(2800, 13)), "ocl:convolution:vector");
        assert_eq!(chosen(build(2800, 3)), "ocl:convolution:dequantized");
    }
    check_those(&build(2800, 3).build().unwrap(), |name| name.ends_with(":dequantized"));
}

//! Transposed convolutions whose positions are taken in the turns of their strides, against the reference.

use anydnn_backend::op::{Deconvolution, Op};
use anydnn_backend::{
    Attributes, BinaryAlgorithm, DataType, Dequantize, Eltwise, PostOp, PrimitiveDesc, PrimitiveDescBuilder,
    Quantized,
};

use crate::primitive::tests::{
    check_choices, check_everywhere, check_those, check_those_with, cpu, f32, planned, tagged,
};

/// A transposed convolution of two images of a number of channels, with windows of these extents.
#[derive(Clone, Copy)]
struct Case {
    src: [usize; 2],
    channels: usize,
    outputs: usize,
    groups: usize,
    kernel: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    pads: [usize; 2],
    /// Rows and columns behind those that a tap reaches.
    more: [usize; 2],
}

const UPSAMPLING: Case = Case {
    src: [5, 12],
    channels: 9,
    outputs: 18,
    groups: 1,
    kernel: [4, 4],
    strides: [2, 2],
    dilations: [1, 1],
    pads: [1, 1],
    more: [0, 0],
};

impl Case {
    fn result(&self, axis: usize) -> usize {
        let reach = (self.kernel[axis] - 1) * self.dilations[axis] + 1;
        (self.src[axis] - 1) * self.strides[axis] + reach + self.more[axis] - 2 * self.pads[axis]
    }

    fn build(&self, tag: &str) -> PrimitiveDescBuilder {
        self.build_of(tag, DataType::F32)
    }

    /// The same of factors of another type.
    fn build_of(&self, tag: &str, of: DataType) -> PrimitiveDescBuilder {
        let Self { src, channels, outputs, groups, kernel, .. } = *self;
        let [above, beside] = self.pads;
        // What is behind the last tap is as if it were cut off less.
        let ends = [0, 1].map(|axis| self.pads[axis] - self.more[axis].min(self.pads[axis]));
        let op = Deconvolution::new(2)
            .with_strides(self.strides)
            .with_dilations(self.dilations)
            .with_groups(groups)
            .with_pads([above, beside], ends);
        PrimitiveDesc::builder(Op::Deconvolution(op))
            .src(tagged(&[2, channels, src[0], src[1]], tag).with_data_type(of))
            .weights(f32(&[channels, outputs / groups, kernel[0], kernel[1]]).with_data_type(of).to_any())
            .bias(f32(&[outputs]))
            .dst(tagged(&[2, outputs, self.result(0), self.result(1)], tag))
    }
}

fn epilogue(outputs: usize) -> Attributes {
    Attributes::default()
        .with_post_op(PostOp::Eltwise(Eltwise::Relu))
        .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, f32(&[1, outputs, 1, 1])))
}

/// Turns of different numbers of positions and taps, some without any, dilations that let taps reach several turns or only some, and
/// windows that begin far before the source.
fn windows() -> Vec<Case> {
    let case = UPSAMPLING;
    vec![
        case,
        Case { kernel: [3, 3], more: [1, 1], ..case },
        Case { kernel: [5, 5], strides: [1, 3], pads: [2, 2], ..case },
        Case { kernel: [2, 2], strides: [3, 5], pads: [0, 0], ..case },
        Case { kernel: [3, 16], strides: [1, 8], pads: [1, 4], src: [1, 9], ..case },
        Case { kernel: [3, 7], strides: [2, 2], pads: [2, 6], ..case },
        Case { kernel: [1, 9], strides: [1, 1], pads: [0, 8], src: [3, 13], ..case },
    ]
}

#[test]
fn vectors_of_outputs_take_turns() {
    let is_vector = |name: &str| name.starts_with("ocl:deconvolution:vector");
    let dilated = [
        Case { dilations: [2, 2], pads: [2, 3], ..UPSAMPLING },
        Case { dilations: [1, 3], strides: [2, 6], pads: [0, 1], ..UPSAMPLING },
        Case { dilations: [2, 4], strides: [3, 6], kernel: [2, 5], ..UPSAMPLING },
    ];
    for (i, case) in windows().into_iter().chain(dilated).enumerate() {
        let other = match i % 2 {
            0 => Case { channels: 6, outputs: 40, groups: 2, ..case },
            _ => Case { channels: 37, outputs: 3, ..case },
        };
        // Few outputs of channels that lie last have vectors of those.
        let tag = if i % 4 == 0 { "acdb" } else { "abcd" };
        for case in [case, other] {
            let builder = || case.build(tag).attributes(epilogue(case.outputs));
            let desc = builder().build().unwrap();
            assert!(is_vector(&planned(builder(), &cpu()).implementation), "{desc}");
            check_those(&desc, is_vector);
        }
    }
}

#[test]
fn vectors_of_channels_take_turns() {
    let is_dots = |name: &str| name == "ocl:deconvolution:dots";
    for (i, case) in windows().into_iter().enumerate() {
        let outputs = [1, 3, 6][i % 3];
        let case = Case { channels: 37, outputs, ..case };
        let builder = || case.build("acdb").attributes(epilogue(outputs));
        let desc = builder().build().unwrap();
        assert!(is_dots(&planned(builder(), &cpu()).implementation), "{desc}");
        check_those_with(16, &desc, is_dots);
    }
    let grouped = Case { channels: 48, outputs: 4, groups: 2, dilations: [2, 1], ..UPSAMPLING };
    check_those_with(16, &grouped.build("acdb").build().unwrap(), is_dots);
    let dilated = Case { channels: 48, outputs: 4, dilations: [1, 2], ..UPSAMPLING };
    assert!(!is_dots(&planned(dilated.build("acdb"), &cpu()).implementation));
}

/// Volumes and lines, and factors of 16 bits.
#[test]
fn turns_of_other_ranks_and_types() {
    let is_fast = |name: &str| name.ends_with(":dots") || name.contains(":vector");
    for outputs in [2, 24] {
        let line = PrimitiveDesc::builder(Op::Deconvolution(
            Deconvolution::new(1).with_strides([4]).with_pads([2], [2]),
        ))
        .src(tagged(&[2, 32, 33], "acb"))
        .weights(f32(&[32, outputs, 8]).to_any())
        .dst(tagged(&[2, outputs, 132], "acb"));
        let volume = PrimitiveDesc::builder(Op::Deconvolution(
            Deconvolution::new(3).with_strides([2, 1, 2]).with_pads([1, 0, 1], [1, 0, 1]),
        ))
        .src(tagged(&[1, 32, 3, 4, 9], "acdeb"))
        .weights(f32(&[32, outputs, 4, 2, 3]).to_any())
        .dst(tagged(&[1, outputs, 6, 5, 17], "acdeb"));
        for desc in [line.build().unwrap(), volume.build().unwrap()] {
            check_those_with(16, &desc, is_fast);
        }
        let case = Case { channels: 32, outputs, ..UPSAMPLING };
        let narrow = case.build_of("acdb", DataType::BF16).build().unwrap();
        check_those_with(16, &narrow, is_fast);
    }
}

/// Channels a multiple of 4 KiB apart are stored behind sums that have them last.
#[test]
fn channels_that_compete_are_copied_to_where_they_are() {
    let build = |size: usize| {
        let case = Case { src: [size - 2; 2], kernel: [3; 2], strides: [1; 2], pads: [0; 2], ..UPSAMPLING };
        case.build("abcd").attributes(epilogue(18))
    };
    let is_copied = |name: &str| name == "ocl:deconvolution:vector-beside";
    assert!(is_copied(&planned(build(32), &cpu()).implementation));
    assert!(!is_copied(&planned(build(31), &cpu()).implementation));
    check_those(&build(32).build().unwrap(), is_copied);
    let added = build(32).attributes(epilogue(18).with_post_op(PostOp::sum(0.5)));
    assert!(!is_copied(&planned(added, &cpu()).implementation));
}

/// A filter a channel, of images with their channels first, is computed between copies that have them last.
#[test]
fn filters_of_single_channels_have_copies() {
    let is_beside = |name: &str| name == "ocl:deconvolution:depthwise-beside";
    for case in windows() {
        let case = Case { channels: 70, outputs: 70, groups: 70, ..case };
        let builder = || case.build("abcd").attributes(epilogue(70));
        assert!(is_beside(&planned(builder(), &cpu()).implementation));
        check_those(&builder().build().unwrap(), is_beside);
    }
}

/// Each position of the source has a scale of its own, which no sum over taps can leave for its end.
#[test]
fn scales_of_positions_are_read_for_each_tap() {
    let scaled = |case: Case, of: DataType| {
        let scale = f32(&[2, 1, 1, case.src[1]]);
        let scale = Dequantize { operand: Quantized::Src(0), scale: Some(scale), zero_point: None };
        case.build_of("acdb", of).attributes(Attributes::default().with_dequantize(scale)).build().unwrap()
    };
    let case = Case { channels: 33, outputs: 20, ..UPSAMPLING };
    let apart = Case { channels: 20, groups: 20, ..case };
    let few = Case { channels: 48, outputs: 3, ..case };
    for case in [case, apart, few, Case { kernel: [1, 3], strides: [1, 1], pads: [0, 0], ..case }] {
        for of in [DataType::F32, DataType::S8] {
            check_choices(&scaled(case, of));
        }
    }
    check_everywhere(&[scaled(case, DataType::S8), scaled(case, DataType::F32)], |_| None);
}

//! Resampling line by line against the reference.

use anydnn_backend::op::{Resampling, ResamplingAlgorithm};
use anydnn_backend::{Attributes, BinaryAlgorithm, DataType, Eltwise, MemoryDesc, PostOp, PrimitiveDesc};

use crate::primitive::tests::{check_those, cpu, f32, planned, tagged};

/// Larger and smaller, of one element, in parts where a line or its sources are long, and of several types.
#[test]
fn lines_are_gathered_from_rows_of_sources() {
    let is_lines = |name: &str| name == "ocl:resampling:lines";
    let sizes: [(&[usize], &[usize]); 8] = [
        (&[9, 14], &[18, 28]),
        (&[9, 37], &[4, 21]),
        (&[7, 1], &[7, 19]),
        (&[5, 16], &[11, 16]),
        (&[3, 5000], &[2, 2100]),
        (&[2, 900], &[3, 4500]),
        (&[33], &[100]),
        (&[3, 4, 17], &[5, 4, 30]),
    ];
    for (i, (from, to)) in sizes.into_iter().enumerate() {
        for algorithm in [ResamplingAlgorithm::Nearest, ResamplingAlgorithm::Linear] {
            let dims = |extents: &[usize]| [&[2, 3], extents].concat();
            let of = [DataType::F32, DataType::BF16, DataType::U8][i % 3];
            let op = Resampling { align_corners: i % 2 == 1, ..Resampling::new(algorithm) };
            let each = [&[1, 3], vec![1; to.len()].as_slice()].concat();
            let attributes = Attributes::default()
                .with_post_op(PostOp::Eltwise(Eltwise::Relu))
                .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, f32(&each)));
            let builder = || {
                PrimitiveDesc::builder(op)
                    .src(MemoryDesc::new(dims(from), of))
                    .dst(MemoryDesc::new(dims(to), DataType::F32))
                    .attributes(attributes.clone())
            };
            assert!(is_lines(&planned(builder(), &cpu()).implementation), "{from:?} {to:?}");
            check_those(&builder().build().unwrap(), is_lines);
        }
    }
    let last = PrimitiveDesc::builder(Resampling::new(ResamplingAlgorithm::Linear))
        .src(tagged(&[1, 32, 4, 5], "acdb"))
        .dst(tagged(&[1, 32, 8, 10], "acdb"));
    assert_eq!(planned(last, &cpu()).implementation, "ocl:resampling:vertical");
}

use super::{Trials, dense, f32, gapped, tagged};
use crate::conformance::trial::Trial;
use crate::op::{LocalResponseNormalization as Normalization, LocalResponseNormalizationBackward};
use crate::{Attributes, BinaryAlgorithm, DataType, Eltwise, MemoryDesc, PostOp, PrimitiveDesc, Result};

pub(super) fn trials(list: &mut Trials) {
    let strong = |op: Normalization| op.with_factors(0.5, 0.75, 2.0);
    let lopsided = Normalization::across_channels(1, 2).with_window([2, 0, 1], [0, 3, 0]).with_count(5);
    for (shape, op, dims) in [
        ("across_0d", Normalization::across_channels(5, 0), &[3, 7][..]),
        ("across_1d", Normalization::across_channels(3, 1), &[2, 17, 5]),
        ("across_2d", Normalization::across_channels(5, 2), &[2, 9, 4, 17]),
        ("across_even", Normalization::across_channels(4, 2), &[1, 6, 3, 3]),
        ("across_3d", Normalization::across_channels(5, 3), &[1, 4, 2, 3, 4]),
        ("across_one", Normalization::across_channels(1, 2), &[1, 4, 3, 3]),
        ("across_more_than_there_is", Normalization::across_channels(9, 2), &[1, 2, 3, 3]),
        ("within_1d", Normalization::within_channel(5, 1), &[2, 3, 11]),
        ("within_2d", Normalization::within_channel(3, 2), &[2, 3, 5, 6]),
        ("within_3d", Normalization::within_channel(3, 3), &[1, 2, 3, 4, 3]),
        ("lopsided", lopsided, &[2, 5, 6, 4]),
        ("no_samples", Normalization::across_channels(3, 2), &[0, 3, 2, 2]),
    ] {
        let op = strong(op);
        list.add(format!("local_response_normalization/{shape}"), || {
            forward(op.clone(), f32(dims), f32(dims))
        });
        list.add(format!("local_response_normalization_backward/{shape}"), || backward(op, f32(dims)));
    }
    for (name, beta) in [("half", 0.5), ("one", 1.0), ("two", 2.0), ("third", 0.333)] {
        let op = Normalization::across_channels(3, 2).with_factors(1.0, beta, 1.0);
        list.add(format!("local_response_normalization/beta_{name}"), || {
            forward(op.clone(), f32(&[1, 5, 3, 4]), f32(&[1, 5, 3, 4]))
        });
        list.add(format!("local_response_normalization_backward/beta_{name}"), || {
            backward(op, f32(&[1, 5, 3, 4]))
        });
    }
    for (name, op) in
        [("across", Normalization::across_channels(5, 2)), ("within", Normalization::within_channel(3, 2))]
    {
        let (op, dims) = (strong(op), &[2, 19, 4, 5][..]);
        list.add(format!("local_response_normalization/{name}/channels_last"), || {
            forward(op.clone(), tagged(dims, DataType::F32, "acdb")?, tagged(dims, DataType::F32, "acdb")?)
        });
        list.add(format!("local_response_normalization/{name}/blocked"), || {
            forward(
                op.clone(),
                tagged(dims, DataType::F32, "aBcd8b")?,
                tagged(dims, DataType::F32, "aBcd16b")?,
            )
        });
        list.add(format!("local_response_normalization_backward/{name}/channels_last"), || {
            backward(op.clone(), tagged(dims, DataType::F32, "acdb")?)
        });
        for data_type in [DataType::F16, DataType::BF16, DataType::F64] {
            list.add(format!("local_response_normalization/{name}/{data_type}"), || {
                forward(op.clone(), dense(dims, data_type), dense(dims, data_type))
            });
            list.add(format!("local_response_normalization_backward/{name}/{data_type}"), || {
                backward(op.clone(), dense(dims, data_type))
            });
        }
    }
    list.add("local_response_normalization/gaps_post_ops", || {
        let attributes = Attributes::default()
            .with_post_op(PostOp::Eltwise(Eltwise::Tanh))
            .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, f32(&[5, 1, 1])))
            .with_post_op(PostOp::sum(0.5));
        let op = strong(Normalization::across_channels(3, 2));
        let builder = PrimitiveDesc::builder(op).src(gapped(&[1, 5, 4, 5], DataType::F32, 2, 1)?);
        Trial::of(builder.dst(tagged(&[1, 5, 4, 5], DataType::F32, "aBcd4b")?).attributes(attributes))
    });
}

fn forward(op: Normalization, src: MemoryDesc, dst: MemoryDesc) -> Result<Trial> {
    Trial::of(PrimitiveDesc::builder(op).src(src).dst(dst))
}

fn backward(op: Normalization, src: MemoryDesc) -> Result<Trial> {
    let op = LocalResponseNormalizationBackward::new(op);
    Trial::of(PrimitiveDesc::builder(op).src(src.clone()).src(src.clone()).dst(src))
}

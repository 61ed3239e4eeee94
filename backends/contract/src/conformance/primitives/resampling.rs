use super::{Trials, dense, f32, gapped, tagged};
use crate::conformance::trial::Trial;
use crate::op::{Resampling, ResamplingAlgorithm, ResamplingBackward};
use crate::{Attributes, BinaryAlgorithm, DataType, Eltwise, MemoryDesc, Op, PostOp, PrimitiveDesc, Result};

const ALGORITHMS: [(&str, ResamplingAlgorithm); 2] =
    [("nearest", ResamplingAlgorithm::Nearest), ("linear", ResamplingAlgorithm::Linear)];

pub(super) fn trials(list: &mut Trials) {
    for (name, algorithm) in ALGORITHMS {
        let op = Resampling::new(algorithm);
        for (shape, op, from, to) in [
            ("1d", op, &[2, 3, 7][..], &[2, 3, 17][..]),
            // Halving puts every position in the middle between two elements.
            ("2d_halved", op, &[1, 3, 6, 8], &[1, 3, 3, 4]),
            ("2d_mixed", op, &[1, 2, 3, 10], &[1, 2, 7, 4]),
            ("2d_aligned", op.with_align_corners(true), &[2, 2, 4, 7], &[2, 2, 7, 3]),
            ("2d_aligned_to_one", op.with_align_corners(true), &[1, 2, 4, 3], &[1, 2, 1, 5]),
            ("3d", op, &[1, 2, 2, 3, 4], &[1, 2, 3, 5, 3]),
            ("no_samples", op, &[0, 2, 3], &[0, 2, 6]),
        ] {
            list.add(format!("resampling/{name}/{shape}"), || forward(op, f32(from), f32(to)));
            list.add(format!("resampling_backward/{name}/{shape}"), || backward(op, f32(to), f32(from)));
        }
        list.add(format!("resampling/{name}/channels_last"), || {
            forward(op, channels_last(&[1, 19, 3, 4])?, channels_last(&[1, 19, 5, 6])?)
        });
        list.add(format!("resampling_backward/{name}/channels_last"), || {
            backward(op, channels_last(&[1, 19, 5, 6])?, channels_last(&[1, 19, 3, 4])?)
        });
        for data_type in [DataType::F16, DataType::BF16] {
            list.add(format!("resampling/{name}/{data_type}"), || {
                forward(op, dense(&[1, 3, 4, 5], data_type), dense(&[1, 3, 6, 9], data_type))
            });
        }
        list.add(format!("resampling_backward/{name}/f16"), || {
            backward(op, dense(&[1, 3, 6, 9], DataType::F16), dense(&[1, 3, 4, 5], DataType::F16))
        });
    }
    list.add("resampling/linear/gaps_post_ops", || {
        let attributes = Attributes::default()
            .with_post_op(PostOp::Eltwise(Eltwise::Tanh))
            .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, f32(&[3, 1, 1])))
            .with_post_op(PostOp::sum(0.5));
        let src = gapped(&[1, 3, 4, 5], DataType::F32, 2, 1)?;
        let builder = PrimitiveDesc::builder(Op::Resampling(Resampling::new(ResamplingAlgorithm::Linear)))
            .src(src)
            .dst(tagged(&[1, 3, 8, 5], DataType::F32, "aBcd4b")?);
        Trial::of(builder.attributes(attributes))
    });
    list.add("resampling/nearest/u8", || {
        let op = Resampling::new(ResamplingAlgorithm::Nearest);
        let builder = PrimitiveDesc::builder(Op::Resampling(op));
        Ok(Trial::of(builder.src(dense(&[1, 3, 4], DataType::U8)).dst(dense(&[1, 3, 6], DataType::U8)))?
            .exact())
    });
}

fn channels_last(dims: &[usize]) -> Result<MemoryDesc> {
    tagged(dims, DataType::F32, "acdb")
}

fn forward(op: Resampling, src: MemoryDesc, dst: MemoryDesc) -> Result<Trial> {
    Trial::of(PrimitiveDesc::builder(Op::Resampling(op)).src(src).dst(dst))
}

fn backward(op: Resampling, src: MemoryDesc, dst: MemoryDesc) -> Result<Trial> {
    Trial::of(PrimitiveDesc::builder(Op::ResamplingBackward(ResamplingBackward::new(op))).src(src).dst(dst))
}

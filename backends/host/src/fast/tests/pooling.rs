//! Windows of all kinds beside the reference.

use anydnn_backend::op::{Op, Pooling, PoolingAlgorithm};
use anydnn_backend::{Attributes, DataType, Eltwise, MemoryDesc, PostOp, PrimitiveDesc};

use super::{check, f32, image};

const ALGORITHMS: [PoolingAlgorithm; 3] =
    [PoolingAlgorithm::Max, PoolingAlgorithm::AverageExcludePadding, PoolingAlgorithm::AverageIncludePadding];

#[test]
fn windows_of_all_kinds() {
    for (dims, kernel, stride, dilation, pad) in [
        // Few channels and many, few pixels and many, wide windows and those of one element.
        ([2, 1, 40, 3], 3, 1, 1, 0),
        ([2, 3, 19, 23], 3, 2, 1, 1),
        ([1, 4, 30, 70], 1, 1, 1, 0),
        ([40, 5, 4, 4], 2, 2, 1, 0),
        ([3, 7, 11, 9], 3, 1, 2, 2),
        ([2, 20, 13, 17], 3, 2, 1, 1),
        ([2, 33, 8, 8], 2, 1, 1, 1),
        ([1, 300, 7, 7], 7, 1, 1, 0),
        ([1, 70, 5, 900], 3, 1, 1, 1),
        ([2, 2, 9, 40], 5, 5, 1, 2),
        ([2, 9, 9, 40], 5, 6, 1, 2),
        ([300, 1, 10, 1], 1, 1, 1, 0),
    ] {
        for algorithm in ALGORITHMS {
            let op = Pooling::new(algorithm, [kernel, kernel])
                .with_strides([stride, stride])
                .with_dilations([dilation, dilation])
                .with_pads([pad, pad], [pad, pad]);
            let op = if dims[3] == 1 { Pooling { kernel: [kernel, 1].into(), ..op } } else { op };
            for tag in ["acdb", "abcd"] {
                let builder = PrimitiveDesc::builder(Op::Pooling(op.clone())).src(image(tag, &dims));
                let made = builder.clone().build().unwrap().dst().dims().clone();
                check(&builder.clone().dst(image(tag, &made)).build().unwrap());
                let relu = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Relu));
                check(&builder.dst(image(tag, &made)).attributes(relu).build().unwrap());
            }
        }
    }
}

#[test]
fn windows_of_three_axes_and_of_one() {
    for algorithm in ALGORITHMS {
        let deep = Pooling::new(algorithm, [2, 3, 2]).with_strides([2, 1, 2]).with_pads([1, 1, 0], [0, 1, 1]);
        for (tag, channels) in [("acdeb", 5), ("abcde", 3)] {
            let src = image(tag, &[2, channels, 5, 7, 12]);
            let builder = PrimitiveDesc::builder(Op::Pooling(deep.clone())).src(src);
            let dims = builder.clone().build().unwrap().dst().dims().clone();
            check(&builder.dst(image(tag, &dims)).build().unwrap());
        }
        let flat = Pooling::new(algorithm, [3]).with_strides([2]).with_pads([1], [1]);
        check(&PrimitiveDesc::builder(Op::Pooling(flat)).src(f32(&[3, 4, 50])).build().unwrap());
    }
}

#[test]
fn images_in_parts_of_others() {
    // Channels, lines and pixels with others between them.
    for strides in [[4000, 1, 200, 10], [4000, 1, 90, 6], [9000, 300, 30, 1]] {
        let src = MemoryDesc::with_strides([2, 6, 9, 15], DataType::F32, strides).unwrap();
        for algorithm in ALGORITHMS {
            for pad in [0, 1] {
                let op = Pooling::new(algorithm, [3, 2]).with_pads([pad, pad], [pad, pad]);
                check(&PrimitiveDesc::builder(Op::Pooling(op)).src(src.clone()).build().unwrap());
            }
        }
    }
}

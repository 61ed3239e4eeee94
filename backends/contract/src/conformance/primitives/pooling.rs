use super::{Trials, dense, f32, gapped, tagged};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::{Pooling, PoolingAlgorithm};
use crate::{DataType, MemoryDesc, Op, PrimitiveDesc, PrimitiveDescBuilder, Result};

const ALGORITHMS: [(&str, PoolingAlgorithm); 3] = [
    ("max", PoolingAlgorithm::Max),
    ("average_exclude", PoolingAlgorithm::AverageExcludePadding),
    ("average_include", PoolingAlgorithm::AverageIncludePadding),
];

pub(super) fn trials(list: &mut Trials) {
    for (name, algorithm) in ALGORITHMS {
        for ceil in [false, true] {
            let rounding = if ceil { "ceil" } else { "floor" };
            list.add(format!("pooling/{name}/2d_{rounding}"), || {
                let op = Pooling::new(algorithm, [3, 2])
                    .with_strides([2, 3])
                    .with_pads([1, 1], [1, 0])
                    .with_ceil(ceil);
                Trial::of(pooling(op, f32(&[2, 3, 8, 9])))
            });
        }
        list.add(format!("pooling/{name}/2d_dilated"), || {
            let op = Pooling::new(algorithm, [2, 3]).with_dilations([2, 2]).with_pads([1, 2], [0, 1]);
            Trial::of(pooling(op, f32(&[1, 2, 6, 7])))
        });
        list.add(format!("pooling/{name}/channels_last"), || {
            let op = Pooling::new(algorithm, [2, 2]).with_strides([2, 2]);
            let builder =
                PrimitiveDesc::builder(Op::Pooling(op)).src(tagged(&[2, 5, 6, 4], DataType::F32, "acdb")?);
            Trial::of(builder.dst(tagged(&[2, 5, 3, 2], DataType::F32, "acdb")?))
        });
    }
    list.add("pooling/max/1d", || {
        Trial::of(pooling(Pooling::new(PoolingAlgorithm::Max, [4]).with_strides([3]), f32(&[2, 3, 14])))
    });
    list.add("pooling/average_include/3d", || {
        let op = Pooling::new(PoolingAlgorithm::AverageIncludePadding, [2, 3, 2])
            .with_strides([2, 1, 2])
            .with_pads([1, 1, 0], [0, 1, 1]);
        Trial::of(pooling(op, f32(&[1, 2, 5, 4, 5])))
    });
    list.add("pooling/average_exclude/global", || {
        Trial::of(pooling(Pooling::new(PoolingAlgorithm::AverageExcludePadding, [7, 5]), f32(&[2, 9, 7, 5])))
    });
    list.add("pooling/max/negative_in_padding", || {
        let op = Pooling::new(PoolingAlgorithm::Max, [3, 3]).with_pads([1, 1], [1, 1]);
        let negative = Values::Uniform(-5.0, -1.0);
        Ok(Trial::of(pooling(op, f32(&[1, 1, 4, 4])))?.values(crate::Arg::SRC, negative))
    });
    // Windows that share little, much, and nothing of their columns; a number that is none stays, wherever in a window it is.
    for (name, kernel, stride, result) in
        [("small", 3, 2, [4, 5]), ("large", 5, 1, [6, 7]), ("single", 9, 9, [1, 1])]
    {
        list.add(format!("pooling/max/nan_{name}"), || {
            let op = Pooling::new(PoolingAlgorithm::Max, [kernel, kernel])
                .with_strides([stride, stride])
                .with_pads([1, 1], [1, 1]);
            let src = tagged(&[2, 19, 8, 9], DataType::F32, "acdb")?;
            let values =
                (0..2 * 19 * 8 * 9).map(|i| if i % 67 == 0 { f64::NAN } else { f64::from(i % 23 - 11) });
            let dst = tagged(&[2, 19, result[0], result[1]], DataType::F32, "acdb")?;
            let trial = Trial::of(PrimitiveDesc::builder(Op::Pooling(op)).src(src).dst(dst))?;
            Ok(trial.values(crate::Arg::SRC, Values::Listed(values.collect())))
        });
    }
    list.add("pooling/max/blocked", || layouts(&|dims| tagged(dims, DataType::F32, "aBcd4b")));
    list.add("pooling/max/blocked_f64", || layouts(&|dims| tagged(dims, DataType::F64, "aBcd4b")));
    list.add("pooling/max/gaps", || layouts(&|dims| gapped(dims, DataType::F32, 2, 1)));
    list.add("pooling/max/no_samples", || {
        Trial::of(pooling(Pooling::new(PoolingAlgorithm::Max, [2]), f32(&[0, 3, 4])))
    });
    types(list);
}

fn layouts(layout: &dyn Fn(&[usize]) -> Result<MemoryDesc>) -> Result<Trial> {
    let op = Pooling::new(PoolingAlgorithm::Max, [2, 2]).with_strides([2, 2]);
    Trial::of(PrimitiveDesc::builder(Op::Pooling(op)).src(layout(&[1, 6, 4, 6])?).dst(layout(&[1, 6, 2, 3])?))
}

fn types(list: &mut Trials) {
    for data_type in [DataType::F16, DataType::BF16] {
        for (name, algorithm) in &ALGORITHMS[..2] {
            list.add(format!("pooling/{name}/{data_type}"), || {
                let op = Pooling::new(*algorithm, [3, 3]).with_strides([2, 2]).with_pads([1, 1], [1, 1]);
                Trial::of(pooling(op, dense(&[1, 4, 7, 7], data_type)))
            });
        }
    }
    for data_type in [DataType::S8, DataType::U8] {
        list.add(format!("pooling/max/{data_type}"), || {
            let op = Pooling::new(PoolingAlgorithm::Max, [2, 2]).with_pads([1, 0], [0, 1]);
            Ok(Trial::of(pooling(op, dense(&[1, 3, 5, 5], data_type)))?.exact())
        });
    }
}

/// A pooling with a row-major result of the source's type.
fn pooling(op: Pooling, src: MemoryDesc) -> PrimitiveDescBuilder {
    let data_type = src.data_type();
    let builder = PrimitiveDesc::builder(Op::Pooling(op)).src(src);
    let dims = builder.clone().build().map(|desc| desc.dst().dims().clone()).unwrap_or_default();
    builder.dst(MemoryDesc::new(dims, data_type))
}

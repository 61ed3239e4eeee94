use super::{Trials, dense, f32, gapped, tagged, transposed};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::{BatchNormalization, GroupNormalization, LayerNormalization};
use crate::{Arg, DataType, MemoryDesc, Op, PrimitiveDesc, PrimitiveDescBuilder};

pub(super) fn trials(list: &mut Trials) {
    layer(list);
    batch(list);
    group(list);
}

fn layer(list: &mut Trials) {
    for (name, begin, dims) in [
        ("last", 2, &[2, 5, 24][..]),
        ("trailing_two", 1, &[3, 4, 7]),
        ("all", 0, &[5, 6]),
        ("one", 1, &[4, 1]),
        ("long", 1, &[2, 601]),
    ] {
        list.add(format!("layer_normalization/{name}"), || {
            let op = LayerNormalization::new(begin, 1e-5);
            Trial::of(scaled(normalization(Op::LayerNormalization(op), f32(dims)), &dims[begin..]))
        });
        list.add(format!("rms_normalization/{name}"), || {
            let op = LayerNormalization::rms(begin, 1e-5);
            Trial::of(
                normalization(Op::LayerNormalization(op), f32(dims)).arg(Arg::Scale, f32(&dims[begin..])),
            )
        });
    }
    let op = || Op::LayerNormalization(LayerNormalization::new(1, 1e-3));
    for data_type in [DataType::F16, DataType::BF16] {
        list.add(format!("layer_normalization/{data_type}"), || {
            Trial::of(scaled(normalization(op(), dense(&[3, 40], data_type)), &[40]))
        });
        list.add(format!("rms_normalization/{data_type}"), || {
            let op = Op::LayerNormalization(LayerNormalization::rms(1, 1e-3));
            Trial::of(normalization(op, dense(&[3, 40], data_type)).arg(Arg::Scale, dense(&[40], data_type)))
        });
    }
    list.add("layer_normalization/without_scale", || Trial::of(normalization(op(), f32(&[4, 15]))));
    for (name, statistics) in [("kept", &[4, 1, 1][..]), ("dropped", &[4])] {
        list.add(format!("layer_normalization/statistics_{name}"), || {
            let builder = scaled(normalization(op(), f32(&[4, 3, 6])), &[3, 6]);
            Ok(off_centre(Trial::of(
                builder.arg(Arg::Mean, f32(statistics)).arg(Arg::Variance, f32(statistics)),
            )?))
        });
    }
    list.add("layer_normalization/layouts", || {
        let dims = [6, 18];
        let builder = PrimitiveDesc::builder(op()).src(transposed(&dims, DataType::F32)?).dst(gapped(
            &dims,
            DataType::F32,
            2,
            1,
        )?);
        Trial::of(scaled(builder, &[18]))
    });
    list.add("layer_normalization/empty", || Trial::of(normalization(op(), f32(&[0, 5]))));
}

fn batch(list: &mut Trials) {
    let positive = |trial: Trial| trial.values(Arg::Variance, Values::Uniform(0.2, 3.0));
    let op = || Op::BatchNormalization(BatchNormalization::new(1e-4));
    let with_statistics = |builder: PrimitiveDescBuilder, channels: usize| {
        builder.arg(Arg::Mean, f32(&[channels])).arg(Arg::Variance, f32(&[channels]))
    };
    for dims in [&[5, 7][..], &[2, 3, 10], &[2, 6, 4, 5], &[1, 4, 3, 2, 5]] {
        list.add(format!("batch_normalization/rank_{}", dims.len()), || {
            let builder = with_statistics(normalization(op(), f32(dims)), dims[1]);
            Ok(positive(Trial::of(scaled(builder, &dims[1..2]))?))
        });
    }
    for data_type in [DataType::F16, DataType::BF16] {
        list.add(format!("batch_normalization/{data_type}"), || {
            let builder = with_statistics(normalization(op(), dense(&[2, 5, 9], data_type)), 5);
            Ok(positive(Trial::of(scaled(builder, &[5]))?))
        });
    }
    list.add("batch_normalization/without_scale", || {
        Ok(positive(Trial::of(with_statistics(normalization(op(), f32(&[3, 4, 5])), 4))?))
    });
    for (name, tag) in [("channels_last", "acdb"), ("blocked", "aBcd4b")] {
        list.add(format!("batch_normalization/{name}"), || {
            let desc = tagged(&[2, 6, 3, 5], DataType::F32, tag)?;
            let builder = PrimitiveDesc::builder(op()).src(desc.clone()).dst(desc);
            Ok(positive(Trial::of(scaled(with_statistics(builder, 6), &[6]))?))
        });
    }
    list.add("batch_normalization/in_place", || {
        let builder = with_statistics(normalization(op(), f32(&[2, 3, 8])), 3);
        Ok(positive(Trial::of(builder)?).in_place(Arg::SRC))
    });
}

fn group(list: &mut Trials) {
    let op = |groups| Op::GroupNormalization(GroupNormalization::new(groups, 1e-5));
    for (name, groups, dims) in [
        ("one_group", 1, &[2, 4, 3, 5][..]),
        ("two_groups", 2, &[2, 6, 4, 3]),
        ("per_channel", 5, &[2, 5, 17]),
        ("3d", 3, &[1, 6, 2, 3, 4]),
        ("no_spatial", 2, &[3, 8]),
    ] {
        list.add(format!("group_normalization/{name}"), || {
            Trial::of(scaled(normalization(op(groups), f32(dims)), &dims[1..2]))
        });
    }
    list.add("group_normalization/statistics", || {
        let builder = normalization(op(2), f32(&[3, 4, 6]));
        Ok(off_centre(Trial::of(builder.arg(Arg::Mean, f32(&[3, 2])).arg(Arg::Variance, f32(&[3, 2])))?))
    });
    list.add("group_normalization/channels_last", || {
        let desc = tagged(&[2, 6, 3, 5], DataType::F32, "acdb")?;
        Trial::of(scaled(PrimitiveDesc::builder(op(3)).src(desc.clone()).dst(desc), &[6]))
    });
    list.add("group_normalization/f16", || {
        Trial::of(scaled(normalization(op(2), dense(&[2, 4, 11], DataType::F16)), &[4]))
    });
}

/// A normalisation with a row-major result of the source's type.
fn normalization(op: Op, src: MemoryDesc) -> PrimitiveDescBuilder {
    let dst = src.to_row_major();
    PrimitiveDesc::builder(op).src(src).dst(dst)
}

fn scaled(builder: PrimitiveDescBuilder, dims: &[usize]) -> PrimitiveDescBuilder {
    builder.arg(Arg::Scale, f32(dims)).arg(Arg::Shift, f32(dims))
}

/// Means away from zero, so that their relative error means something.
fn off_centre(trial: Trial) -> Trial {
    trial.values(Arg::SRC, Values::Uniform(-1.0, 3.0))
}

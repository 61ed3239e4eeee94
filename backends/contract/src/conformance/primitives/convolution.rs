use super::{Trials, dense, f32, gapped, tagged};
use crate::conformance::trial::Trial;
use crate::op::Convolution;
use crate::{
    Attributes, DataType, MemoryDesc, Op, PrimitiveDesc, PrimitiveDescBuilder, Result, ScratchpadMode,
};

pub(super) fn trials(list: &mut Trials) {
    geometries(list);
    layouts(list);
    types(list);
}

fn geometries(list: &mut Trials) {
    let new = Convolution::new;
    for (name, op, src, weights) in [
        ("1d", new(1), &[2, 3, 9][..], &[4, 3, 3][..]),
        (
            "1d_strided_dilated",
            new(1).with_strides([2]).with_dilations([3]).with_pads([2], [1]),
            &[1, 2, 13],
            &[3, 2, 4],
        ),
        ("2d", new(2), &[1, 3, 6, 7], &[5, 3, 3, 3]),
        ("2d_pointwise", new(2), &[2, 8, 5, 5], &[9, 8, 1, 1]),
        ("2d_pointwise_strided", new(2).with_strides([2, 2]), &[1, 4, 7, 6], &[6, 4, 1, 1]),
        ("2d_padded", new(2).with_pads([1, 1], [1, 1]), &[1, 4, 7, 7], &[8, 4, 3, 3]),
        ("2d_uneven_pads", new(2).with_pads([2, 0], [0, 1]), &[1, 2, 5, 6], &[3, 2, 3, 2]),
        ("2d_strided", new(2).with_strides([2, 3]).with_pads([1, 1], [1, 1]), &[1, 3, 9, 10], &[4, 3, 3, 3]),
        ("2d_dilated", new(2).with_dilations([2, 3]), &[1, 2, 9, 11], &[3, 2, 3, 3]),
        ("2d_stem", new(2).with_strides([2, 2]).with_pads([3, 3], [3, 3]), &[1, 3, 13, 13], &[4, 3, 7, 7]),
        ("2d_grouped", new(2).with_groups(2), &[2, 6, 5, 4], &[4, 3, 3, 3]),
        ("2d_depthwise", new(2).with_groups(5).with_pads([1, 1], [1, 1]), &[1, 5, 6, 6], &[5, 1, 3, 3]),
        ("2d_depthwise_multiplied", new(2).with_groups(3).with_strides([2, 1]), &[1, 3, 6, 5], &[6, 1, 2, 3]),
        ("2d_padding_alone", new(2).with_pads([2, 2], [2, 2]), &[1, 1, 1, 1], &[2, 1, 2, 2]),
        ("2d_whole_source", new(2), &[2, 3, 4, 5], &[3, 3, 4, 5]),
        ("3d", new(3).with_pads([1, 0, 1], [0, 1, 1]), &[1, 2, 4, 5, 4], &[3, 2, 2, 3, 3]),
        (
            "3d_grouped_strided",
            new(3).with_groups(2).with_strides([2, 1, 2]),
            &[1, 4, 5, 3, 5],
            &[2, 2, 3, 2, 2],
        ),
        ("no_samples", new(2), &[0, 3, 5, 5], &[2, 3, 3, 3]),
        ("no_channels", new(2), &[1, 0, 4, 4], &[2, 0, 3, 3]),
    ] {
        list.add(format!("convolution/{name}"), || {
            Trial::of(convolution(op, f32(src), f32(weights), DataType::F32).bias(f32(&weights[..1])))
        });
    }
    list.add("convolution/2d_without_bias", || {
        Trial::of(convolution(new(2), f32(&[1, 3, 5, 5]), f32(&[4, 3, 2, 2]), DataType::F32))
    });
}

fn layouts(list: &mut Trials) {
    let op = || Convolution::new(2).with_pads([1, 1], [1, 1]);
    let (src, weights, dst) = ([2, 6, 5, 7], [10, 6, 3, 3], [2, 10, 5, 7]);
    let f32_type = DataType::F32;
    let mut add = |name: &str, make: &dyn Fn() -> Result<[MemoryDesc; 3]>| {
        list.add(format!("convolution/layout/{name}"), || {
            let [src, weights, dst] = make()?;
            let builder = PrimitiveDesc::builder(Op::Convolution(op()));
            Trial::of(builder.src(src).weights(weights).dst(dst).bias(f32(&[10])))
        });
    };
    add("channels_last", &|| {
        Ok([tagged(&src, f32_type, "acdb")?, f32(&weights), tagged(&dst, f32_type, "acdb")?])
    });
    add("channels_last_weights", &|| {
        Ok([tagged(&src, f32_type, "acdb")?, tagged(&weights, f32_type, "cdba")?, f32(&dst)])
    });
    add("blocked", &|| {
        Ok([
            tagged(&src, f32_type, "aBcd4b")?,
            tagged(&weights, f32_type, "ABcd4b4a")?,
            tagged(&dst, f32_type, "aBcd4b")?,
        ])
    });
    add("gaps", &|| Ok([gapped(&src, f32_type, 2, 3)?, f32(&weights), gapped(&dst, f32_type, 1, 1)?]));
    add("open_weights", &|| Ok([f32(&src), MemoryDesc::any(weights, f32_type), f32(&dst)]));
    add("open", &|| {
        Ok([
            MemoryDesc::any(src, f32_type),
            MemoryDesc::any(weights, f32_type),
            MemoryDesc::any(dst, f32_type),
        ])
    });
}

fn types(list: &mut Trials) {
    use DataType::{BF16, F16, F32, S8, S32, U8};
    let op = || Convolution::new(2).with_pads([1, 1], [1, 1]);
    for data_type in [F16, BF16] {
        list.add(format!("convolution/{data_type}/plain"), || {
            let (src, weights) = (dense(&[1, 5, 6, 6], data_type), dense(&[7, 5, 3, 3], data_type));
            Trial::of(convolution(op(), src, weights, data_type).bias(dense(&[7], data_type)))
        });
        list.add(format!("convolution/{data_type}/channels_last_depthwise"), || {
            let layout = |dims: &[usize]| tagged(dims, data_type, "acdb");
            let builder = PrimitiveDesc::builder(Op::Convolution(op().with_groups(6)))
                .src(layout(&[1, 6, 5, 5])?)
                .weights(dense(&[6, 1, 3, 3], data_type))
                .bias(f32(&[6]))
                .dst(layout(&[1, 6, 5, 5])?);
            Trial::of(builder)
        });
    }
    for (left, right) in [(S8, S8), (U8, S8)] {
        list.add(format!("convolution/{left}_{right}_to_s32"), || {
            let (src, weights) = (dense(&[1, 4, 5, 5], left), dense(&[6, 4, 3, 3], right));
            Ok(Trial::of(convolution(op(), src, weights, S32))?.exact())
        });
    }
    list.add("convolution/f16_to_f32", || {
        Trial::of(convolution(op(), dense(&[1, 4, 5, 5], F16), dense(&[3, 4, 3, 3], F16), F32))
    });
    list.add("convolution/user_scratchpad", || {
        let attributes = Attributes::default().with_scratchpad(ScratchpadMode::User);
        Trial::of(convolution(op(), f32(&[1, 4, 6, 6]), f32(&[5, 4, 3, 3]), F32).attributes(attributes))
    });
}

/// A convolution with a row-major result.
pub(super) fn convolution(
    op: Convolution,
    src: MemoryDesc,
    weights: MemoryDesc,
    to: DataType,
) -> PrimitiveDescBuilder {
    let builder = PrimitiveDesc::builder(Op::Convolution(op)).src(src).weights(weights);
    let dims = builder.clone().build().map(|desc| desc.dst().dims().clone()).unwrap_or_default();
    builder.dst(MemoryDesc::new(dims, to))
}

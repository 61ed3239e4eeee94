use super::{Trials, dense, f32, gapped, tagged, transposed};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::{Border, Gather, Remap};
use crate::{Arg, DataType, MemoryDesc, Op, PrimitiveDesc, Result};

pub(super) fn trials(list: &mut Trials) {
    remaps(list);
    gathers(list);
}

fn remaps(list: &mut Trials) {
    use Border::{Edge, Fill, Reflect, Wrap};
    for (name, from, op) in [
        ("slice", &[4, 6, 5][..], Remap::new([2, 3, 5], Fill).with_axis(0, 1, 1).with_axis(1, 1, 2)),
        ("reversed", &[4, 6, 5], Remap::new([4, 3, 5], Fill).with_axis(1, 5, -2).with_axis(2, 4, -1)),
        ("padded", &[2, 3, 4], Remap::new([3, 6, 4], Fill).with_axis(0, -1, 1).with_axis(1, -2, 1)),
        ("cropped", &[2, 3, 4], Remap::new([2, 2, 7], Fill).with_axis(1, 1, 1).with_axis(2, -3, 1)),
        ("edge", &[2, 3, 4], Remap::new([2, 7, 6], Edge).with_axis(1, -2, 1).with_axis(2, -1, 1)),
        ("reflect", &[2, 3, 4], Remap::new([2, 9, 6], Reflect).with_axis(1, -3, 1).with_axis(2, -1, 1)),
        ("repeated", &[2, 3, 1], Remap::new([4, 6, 17], Wrap)),
        ("repeated_value", &[], Remap::new([], Wrap)),
        ("of_nothing", &[2, 0], Remap::new([2, 3], Fill)),
        ("to_nothing", &[2, 3], Remap::new([2, 0], Edge)),
        ("long", &[3, 1031], Remap::new([3, 1035], Fill).with_axis(1, -2, 1)),
    ] {
        list.add(format!("remap/{name}"), || remap(op.clone(), f32(from), f32(&op.dims)));
    }
    for data_type in [DataType::F16, DataType::BF16, DataType::S64, DataType::S8, DataType::Boolean] {
        list.add(format!("remap/{data_type}"), || {
            let op = Remap::new([5, 9], Fill).with_axis(1, -1, 1);
            remap(op, dense(&[5, 7], data_type), dense(&[5, 9], data_type))
        });
    }
    list.add("remap/filled", || {
        let op = Remap::new([5, 9], Fill).with_axis(1, -1, 1).with_axis(0, -2, 1);
        let desc = dense(&[5, 7], DataType::S32);
        let builder = PrimitiveDesc::builder(Op::Remap(op)).src(desc).src(dense(&[1], DataType::S32));
        Ok(Trial::of(builder)?.values(Arg::Src(1), Values::Listed(vec![1_234_567_891.0])).exact())
    });
    list.add("remap/layouts", || {
        let op = Remap::new([3, 6, 4], Reflect).with_axis(1, -2, 1).with_axis(2, 3, -1);
        remap(op, transposed(&[3, 5, 4], DataType::F32)?, gapped(&[3, 6, 4], DataType::F32, 2, 1)?)
    });
    list.add("remap/blocked", || {
        let op = Remap::new([2, 6, 2, 3], Wrap);
        let blocked = |channels: usize| tagged(&[2, channels, 2, 3], DataType::F32, "aBcd4b");
        remap(op, blocked(5)?, blocked(6)?)
    });
}

fn gathers(list: &mut Trials) {
    for (name, op, from, indices) in [
        ("rows", Gather::Axis(0), &[9, 37][..], &[2, 5][..]),
        ("middle", Gather::Axis(1), &[2, 9, 3], &[4]),
        ("last", Gather::Axis(2), &[2, 3, 9], &[2, 2]),
        ("one", Gather::Axis(1), &[2, 9, 3], &[]),
        ("none", Gather::Axis(0), &[9, 3], &[0]),
        ("elements", Gather::Elements(1), &[3, 9, 4], &[3, 5, 4]),
        ("elements_of_part", Gather::Elements(2), &[3, 4, 9], &[2, 3, 5]),
        ("lists", Gather::Lists(0), &[9, 9, 5], &[3, 2]),
        ("lists_of_all", Gather::Lists(0), &[9, 9], &[4, 3, 2]),
        ("lists_in_batches", Gather::Lists(1), &[3, 9, 4], &[3, 2, 1]),
    ] {
        list.add(format!("gather/{name}"), || {
            let dst = op.result(f32(from).dims(), f32(indices).dims())?;
            gather(op, f32(from), dense(indices, DataType::S64), f32(&dst))
        });
    }
    for (data_type, indices) in
        [(DataType::F16, DataType::S32), (DataType::S64, DataType::S32), (DataType::U8, DataType::S64)]
    {
        list.add(format!("gather/{data_type}_by_{indices}"), || {
            gather(
                Gather::Axis(0),
                dense(&[9, 7], data_type),
                dense(&[5], indices),
                dense(&[5, 7], data_type),
            )
        });
    }
    list.add("gather/layouts", || {
        let (src, to) = (transposed(&[9, 5], DataType::F32)?, gapped(&[3, 2, 5], DataType::F32, 1, 2)?);
        gather(Gather::Axis(0), src, transposed(&[3, 2], DataType::S32)?, to)
    });
}

fn remap(op: Remap, src: MemoryDesc, dst: MemoryDesc) -> Result<Trial> {
    Ok(Trial::of(PrimitiveDesc::builder(Op::Remap(op)).src(src).dst(dst))?.exact())
}

/// Indices of both signs and, at both ends, some that are outside of nine.
fn gather(op: Gather, src: MemoryDesc, indices: MemoryDesc, dst: MemoryDesc) -> Result<Trial> {
    let builder = PrimitiveDesc::builder(Op::Gather(op)).src(src).src(indices).dst(dst);
    Ok(Trial::of(builder)?.values(Arg::Src(1), Values::Integers(-11, 10)).exact())
}

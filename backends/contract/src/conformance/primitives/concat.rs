use super::{Trials, dense, f32, gapped, tagged, transposed};
use crate::conformance::trial::Trial;
use crate::op::Concat;
use crate::{DataType, MemoryDesc, Op, PrimitiveDesc, PrimitiveDescBuilder, Result};

pub(super) fn trials(list: &mut Trials) {
    let f32_type = DataType::F32;
    for (name, axis, sources, to) in [
        ("first", 0, vec![f32(&[2, 3]), f32(&[5, 3])], f32(&[7, 3])),
        ("middle", 1, vec![f32(&[2, 3, 4]), f32(&[2, 1, 4]), f32(&[2, 6, 4])], f32(&[2, 10, 4])),
        ("last", 2, vec![f32(&[2, 3, 1]), f32(&[2, 3, 5])], f32(&[2, 3, 6])),
        ("single", 0, vec![f32(&[3, 3])], f32(&[3, 3])),
        ("many", 0, (1..=9).map(|i| f32(&[i, 2])).collect(), f32(&[45, 2])),
        ("with_nothing", 1, vec![f32(&[2, 0]), f32(&[2, 3]), f32(&[2, 0])], f32(&[2, 3])),
        ("empty", 0, vec![f32(&[0, 4]), f32(&[0, 4])], f32(&[0, 4])),
    ] {
        list.add(format!("concat/{name}"), || concat(axis, sources, to));
    }
    for data_type in [DataType::F16, DataType::BF16, DataType::S32, DataType::S8, DataType::Boolean] {
        list.add(format!("concat/{data_type}"), || {
            let sources = vec![dense(&[3, 5], data_type), dense(&[3, 4], data_type)];
            concat(1, sources, dense(&[3, 9], data_type))
        });
    }
    list.add("concat/layouts", || {
        let sources = vec![
            tagged(&[2, 3, 4, 5], f32_type, "acdb")?,
            transposed(&[2, 6, 4, 5], f32_type)?,
            tagged(&[2, 5, 4, 5], f32_type, "aBcd4b")?,
        ];
        concat(1, sources, gapped(&[2, 14, 4, 5], f32_type, 3, 2)?)
    });
    list.add("concat/blocked", || {
        let blocked = |channels| tagged(&[1, channels, 2, 3], f32_type, "aBcd4b");
        // The second source does not begin at a block of the result.
        concat(1, vec![blocked(6)?, blocked(3)?], blocked(9)?)
    });
}

fn concat(axis: usize, sources: Vec<MemoryDesc>, dst: MemoryDesc) -> Result<Trial> {
    let builder = PrimitiveDesc::builder(Op::Concat(Concat::new(axis)));
    Ok(Trial::of(sources.into_iter().fold(builder, PrimitiveDescBuilder::src).dst(dst))?.exact())
}

use super::{Trials, dense, f32, gapped, strided, tagged, transposed};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::Softmax;
use crate::{Arg, DataType, MemoryDesc, Op, PrimitiveDesc, Result};

pub(super) fn trials(list: &mut Trials) {
    let f32_type = DataType::F32;
    for (kind, make) in [("softmax", Softmax::new as fn(usize) -> Softmax), ("log_softmax", Softmax::log)] {
        for (name, axis, dims) in [
            ("last", 2, &[2, 5, 37][..]),
            ("middle", 1, &[3, 11, 4]),
            ("first", 0, &[7, 9]),
            ("long", 1, &[2, 521]),
            ("one", 1, &[4, 1]),
        ] {
            list.add(format!("{kind}/{name}"), || softmax(make(axis), f32(dims), f32(dims)));
        }
        for data_type in [DataType::F16, DataType::BF16] {
            list.add(format!("{kind}/{data_type}"), || {
                let desc = dense(&[3, 29], data_type);
                Ok(softmax(make(1), desc.clone(), desc)?.values(Arg::SRC, Values::Uniform(-6.0, 6.0)))
            });
        }
        list.add(format!("{kind}/large_values"), || {
            let desc = f32(&[3, 8]);
            Ok(softmax(make(1), desc.clone(), desc)?.values(Arg::SRC, Values::Uniform(-300.0, 300.0)))
        });
    }
    let masked = |inf_as_zero| {
        let desc = f32(&[3, 4]);
        let none = f64::NEG_INFINITY;
        let mut rows = vec![none; 4];
        rows.extend([1.0, none, 2.0, none, 0.5, -0.5, none, 3.0]);
        let op = Softmax { inf_as_zero, ..Softmax::new(1) };
        Ok(softmax(op, desc.clone(), desc)?.values(Arg::SRC, Values::Listed(rows)))
    };
    list.add("softmax/masked_rows_give_nan", || masked(false));
    list.add("softmax/masked_rows_give_zero", || masked(true));
    list.add("softmax/empty", || softmax(Softmax::new(1), f32(&[0, 4]), f32(&[0, 4])));
    list.add("softmax/channels_last", || {
        let desc = tagged(&[2, 6, 3, 4], f32_type, "acdb")?;
        softmax(Softmax::new(1), desc.clone(), desc)
    });
    list.add("softmax/transposed_to_gaps", || {
        softmax(Softmax::new(2), transposed(&[2, 5, 9], f32_type)?, gapped(&[2, 5, 9], f32_type, 2, 1)?)
    });
    list.add("softmax/strided_axis", || {
        let desc = strided(&[4, 10], f32_type, &[1, 6], 2)?;
        softmax(Softmax::new(1), desc, f32(&[4, 10]))
    });
    list.add("softmax/f16_to_f32", || {
        softmax(Softmax::new(1), dense(&[5, 12], DataType::F16), f32(&[5, 12]))
    });
}

fn softmax(op: Softmax, src: MemoryDesc, dst: MemoryDesc) -> Result<Trial> {
    Trial::of(PrimitiveDesc::builder(Op::Softmax(op)).src(src).dst(dst))
}

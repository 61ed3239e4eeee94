use super::{Trials, dense, f32, gapped, tagged, transposed};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::Select;
use crate::{Arg, DataType, MemoryDesc, Op, PrimitiveDesc, Result};

pub(super) fn trials(list: &mut Trials) {
    for data_type in [DataType::F32, DataType::F16, DataType::BF16, DataType::S32, DataType::U8] {
        list.add(format!("select/{data_type}"), || {
            let desc = dense(&[5, 11], data_type);
            Ok(select(dense(&[5, 11], DataType::Boolean), [desc.clone(), desc.clone()], desc)?.exact())
        });
    }
    list.add("select/broadcast", || {
        let condition = dense(&[2, 1, 4], DataType::Boolean);
        Ok(select(condition, [f32(&[]), f32(&[3, 1])], f32(&[2, 3, 4]))?.exact())
    });
    list.add("select/float_condition", || {
        let trial = select(f32(&[31]), [f32(&[31]), f32(&[1])], f32(&[31]))?;
        Ok(trial.values(Arg::SRC, Values::Integers(-1, 1)).exact())
    });
    list.add("select/layouts", || {
        let dims = [3, 4, 5];
        let yes = transposed(&dims, DataType::F32)?;
        let no = tagged(&dims, DataType::F32, "aBc2b")?;
        let condition = gapped(&dims, DataType::Boolean, 2, 1)?;
        Ok(select(condition, [yes, no], gapped(&dims, DataType::F32, 1, 0)?)?.exact())
    });
    // What is not selected must not show.
    list.add("select/nan_elsewhere", || {
        let trial = select(dense(&[4], DataType::Boolean), [f32(&[4]), f32(&[4])], f32(&[4]))?;
        let (nan, infinity) = (f64::NAN, f64::INFINITY);
        Ok(trial
            .values(Arg::SRC, Values::Listed(vec![1.0, 0.0]))
            .values(Arg::Src(1), Values::Listed(vec![5.0, nan, 6.0, infinity]))
            .values(Arg::Src(2), Values::Listed(vec![nan, 7.0, infinity, 8.0]))
            .exact())
    });
    list.add("select/in_place", || {
        let trial = select(dense(&[9], DataType::Boolean), [f32(&[9]), f32(&[9])], f32(&[9]))?;
        Ok(trial.in_place(Arg::Src(2)).exact())
    });
}

fn select(condition: MemoryDesc, [yes, no]: [MemoryDesc; 2], dst: MemoryDesc) -> Result<Trial> {
    Trial::of(PrimitiveDesc::builder(Op::Select(Select)).src(condition).src(yes).src(no).dst(dst))
}

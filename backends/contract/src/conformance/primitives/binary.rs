use super::{Trials, dense, f32, gapped, tagged, transposed};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::Binary;
use crate::{Arg, BinaryAlgorithm, DataType, MemoryDesc, Op, PrimitiveDesc, Result};

pub(super) fn trials(list: &mut Trials) {
    for algorithm in BinaryAlgorithm::ALL {
        let to = if algorithm.is_comparison() { DataType::Boolean } else { DataType::F32 };
        list.add(format!("binary/f32/{}", algorithm.name()), || {
            let dims = [3, 5, 7];
            Ok(with_values(algorithm, binary(algorithm, f32(&dims), f32(&dims), dense(&dims, to))?))
        });
    }
    for data_type in [DataType::F16, DataType::BF16] {
        let some = [BinaryAlgorithm::Add, BinaryAlgorithm::Divide, BinaryAlgorithm::Less];
        let chosen = if list.is_thorough() { &BinaryAlgorithm::ALL[..] } else { &some[..] };
        for &algorithm in chosen {
            let to = if algorithm.is_comparison() { DataType::Boolean } else { data_type };
            list.add(format!("binary/{data_type}/{}", algorithm.name()), || {
                let desc = dense(&[4, 9], data_type);
                Ok(with_values(algorithm, binary(algorithm, desc.clone(), desc, dense(&[4, 9], to))?))
            });
        }
    }
    types(list);
    broadcasts(list);
    layouts(list);
}

fn types(list: &mut Trials) {
    use BinaryAlgorithm::{
        Add, And, Equal, GreaterEqual, Maximum, Minimum, Modulo, Multiply, NotEqual, Quotient, Remainder,
        Subtract,
    };
    use DataType::{Boolean, F16, F32, S8, S32, S64, U8};
    for (algorithm, left, right, to) in [
        (Add, S32, S32, S32),
        (Multiply, S32, S32, S32),
        (NotEqual, S32, S32, Boolean),
        (Subtract, S8, S8, S8),
        (Minimum, S8, S8, S8),
        (Add, U8, U8, S32),
        (Subtract, U8, U8, U8),
        (Maximum, Boolean, Boolean, Boolean),
        (Equal, F32, F32, F32),
        (GreaterEqual, S8, U8, Boolean),
        (And, Boolean, Boolean, Boolean),
        (Quotient, S32, S32, S32),
        (Remainder, S64, S64, S64),
        (Modulo, S64, S64, S64),
    ] {
        list.add(format!("binary/{}/{left}_{right}_to_{to}", algorithm.name()), || {
            let trial =
                binary(algorithm, dense(&[5, 13], left), dense(&[5, 13], right), dense(&[5, 13], to))?;
            let small = Values::Integers(if left == U8 || left == Boolean { 0 } else { -3 }, 1);
            Ok(trial.values(Arg::SRC, small).exact())
        });
    }
    list.add("binary/multiply/f16_f32_to_f32", || {
        binary(Multiply, dense(&[5, 13], F16), f32(&[5, 13]), f32(&[5, 13]))
    });
    list.add("binary/add/f32_f32_to_s8", || binary(Add, f32(&[5, 13]), f32(&[5, 13]), dense(&[5, 13], S8)));
}

fn broadcasts(list: &mut Trials) {
    for (left, right, to) in [
        (&[2, 3, 4][..], &[4][..], &[2, 3, 4][..]),
        (&[2, 1, 4], &[3, 1], &[2, 3, 4]),
        (&[], &[5], &[5]),
        (&[1], &[2, 3], &[2, 3]),
        (&[], &[], &[]),
        (&[2, 6, 3, 5], &[6, 1, 1], &[2, 6, 3, 5]),
        (&[1, 1, 4, 1], &[2, 3, 1, 5], &[2, 3, 4, 5]),
        (&[0, 3], &[1, 3], &[0, 3]),
    ] {
        let name = format!("binary/broadcast/{}_and_{}", dims_name(left), dims_name(right));
        list.add(name, || binary(BinaryAlgorithm::Subtract, f32(left), f32(right), f32(to)));
    }
}

fn layouts(list: &mut Trials) {
    let dims = [2, 5, 3, 4];
    let f32_type = DataType::F32;
    list.add("binary/layout/mixed", || {
        let (src0, src1) = (transposed(&dims, f32_type)?, tagged(&dims, f32_type, "acdb")?);
        binary(BinaryAlgorithm::Subtract, src0, src1, gapped(&dims, f32_type, 1, 2)?)
    });
    list.add("binary/layout/blocked", || {
        let blocked = || tagged(&dims, f32_type, "aBcd8b");
        binary(BinaryAlgorithm::Add, blocked()?, tagged(&[5, 1, 1], f32_type, "abc")?, blocked()?)
    });
    list.add("binary/layout/stride_zero", || {
        let repeated = f32(&[5, 1, 4]).broadcast_to(dims)?;
        binary(BinaryAlgorithm::Multiply, f32(&dims), repeated, f32(&dims))
    });
    for arg in [Arg::SRC, Arg::Src(1)] {
        list.add(format!("binary/in_place/{arg}"), || {
            let desc = f32(&[6, 9]);
            Ok(binary(BinaryAlgorithm::Subtract, desc.clone(), desc.clone(), desc)?.in_place(arg))
        });
    }
}

fn binary(algorithm: BinaryAlgorithm, src0: MemoryDesc, src1: MemoryDesc, dst: MemoryDesc) -> Result<Trial> {
    Trial::of(PrimitiveDesc::builder(Op::Binary(Binary::new(algorithm))).src(src0).src(src1).dst(dst))
}

fn with_values(algorithm: BinaryAlgorithm, trial: Trial) -> Trial {
    let nan = f64::NAN;
    match algorithm {
        BinaryAlgorithm::Divide => trial.values(Arg::Src(1), Values::AwayFromZero(0.25, 3.0)),
        BinaryAlgorithm::Power => trial.values(Arg::SRC, Values::Uniform(0.1, 3.0)),
        BinaryAlgorithm::Maximum | BinaryAlgorithm::Minimum => trial
            .values(Arg::SRC, Values::Listed(vec![1.0, nan, -2.0, 0.5, 3.0, -0.25, 2.0]))
            .values(Arg::Src(1), Values::Listed(vec![0.75, 1.5, nan, -1.0, 4.0])),
        BinaryAlgorithm::And | BinaryAlgorithm::Or | BinaryAlgorithm::Xor => trial
            .values(Arg::SRC, Values::Listed(vec![0.0, 1.0, 0.0, -2.5, 0.5]))
            .values(Arg::Src(1), Values::Listed(vec![0.0, 0.0, 3.0, 1.0]))
            .exact(),
        BinaryAlgorithm::Quotient | BinaryAlgorithm::Remainder | BinaryAlgorithm::Modulo => trial
            .values(Arg::SRC, Values::Integers(-200, 200))
            .values(Arg::Src(1), Values::Listed(vec![3.0, -7.0, 1.0, -1.0, 13.0, 0.0]))
            .exact(),
        _ if algorithm.is_comparison() => trial
            .values(Arg::SRC, Values::Listed(vec![1.0, nan, -2.0, 0.5, 1.0, 2.0, f64::INFINITY]))
            .values(Arg::Src(1), Values::Listed(vec![1.0, 0.5, nan, -2.0, f64::INFINITY]))
            .exact(),
        _ => trial,
    }
}

fn dims_name(dims: &[usize]) -> String {
    crate::Dims::new(dims).to_string()
}

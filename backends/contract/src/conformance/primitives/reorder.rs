use super::{Trials, dense, f32, gapped, strided, tagged};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::Reorder;
use crate::{Arg, DataType, MemoryDesc, Op, PrimitiveDesc, Result};

pub(super) fn trials(list: &mut Trials) {
    types(list);
    layouts(list);
}

fn types(list: &mut Trials) {
    use DataType::{BF16, Boolean, F4E2M1, F8E4M3, F8E5M2, F16, F32, S4, S8, S32, U4, U8};
    let narrow = [F32, F16, BF16, S32, S8, U8, Boolean, F8E5M2, F8E4M3, S4, U4, F4E2M1];
    let some = [
        (S32, S8),
        (S32, U8),
        (S8, U8),
        (U8, S8),
        (F16, BF16),
        (BF16, F16),
        (F16, S8),
        (U8, F16),
        (Boolean, S32),
        (F16, F8E4M3),
        (S8, S4),
        (U4, S4),
    ];
    let mut pairs: Vec<(DataType, DataType)> = Vec::new();
    if list.is_thorough() {
        let all = DataType::ALL;
        pairs.extend(all.iter().flat_map(|&from| all.iter().map(move |&to| (from, to))));
    } else {
        pairs.extend(narrow.iter().map(|&to| (F32, to)));
        pairs.extend(narrow[1..].iter().map(|&from| (from, F32)));
        pairs.extend(some);
    }
    for (from, to) in pairs {
        list.add(format!("reorder/type/{from}_to_{to}"), || {
            // An odd number of elements leaves half of a byte where two share one.
            let trial = reorder(dense(&[5, 13], from), dense(&[5, 13], to))?;
            Ok(trial.values(Arg::SRC, across_limits(from)))
        });
    }
}

/// Values that round, tie and saturate, as far as the type has them.
fn across_limits(from: DataType) -> Values {
    let mut list = vec![0.0, 1.0, 2.0, 100.0, 127.0, 7.0, 1.0, 0.0];
    if from != DataType::U8 && from != DataType::Boolean {
        list.extend([-1.0, -5.0, -100.0, -128.0]);
    }
    if !matches!(from, DataType::S8 | DataType::Boolean) {
        list.extend([128.0, 200.0, 255.0]);
    }
    if from.is_float() || matches!(from, DataType::S32 | DataType::S64) {
        list.extend([256.0, 257.0, 300.0, -129.0, -300.0, 2049.0, 2051.0, -4099.0]);
    }
    if from.is_float() {
        let infinity = f64::INFINITY;
        list.extend([0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 0.1, 1.0 / 3.0, -2.75, infinity, -infinity, f64::NAN]);
    }
    if matches!(from, DataType::F32 | DataType::F64) {
        list.extend([65519.0, 65520.0, 1e6, 3e9, -3e9, 1e20]);
    }
    Values::Listed(list)
}

fn layouts(list: &mut Trials) {
    use DataType::{F16, F32, S8};
    let dims = [2, 19, 3, 5];
    for (data_type, from, to) in [
        (F32, "abcd", "acdb"),
        (F32, "acdb", "abcd"),
        (F16, "abcd", "dcba"),
        (F32, "abcd", "aBcd16b"),
        (F32, "aBcd16b", "abcd"),
        (F16, "aBcd8b", "acdb"),
        (S8, "abcd", "ABcd4a8b"),
        (F32, "ABcd8b2a", "aBcd4b"),
        (F32, "abcd", "aBcd4b2b"),
    ] {
        list.add(format!("reorder/layout/{data_type}_{from}_to_{to}"), || {
            reorder(tagged(&dims, data_type, from)?, tagged(&dims, data_type, to)?)
        });
    }
    list.add("reorder/layout/gaps_and_offsets", || {
        reorder(gapped(&dims, F32, 3, 7)?, strided(&dims, F16, &[1, 33, 2, 660], 1)?)
    });
    list.add("reorder/layout/matrix_transpose", || {
        reorder(f32(&[37, 41]), strided(&[37, 41], F32, &[1, 37], 0)?)
    });
    list.add("reorder/layout/repeated", || reorder(strided(&[6, 5], F32, &[0, 1], 0)?, f32(&[6, 5])));
    list.add("reorder/layout/bytes_at_odd_offsets", || {
        reorder(strided(&[5, 3], S8, &[3, 1], 1)?, strided(&[5, 3], S8, &[1, 7], 3)?)
    });
    list.add("reorder/layout/halves_of_bytes", || {
        reorder(gapped(&[5, 6], DataType::U4, 3, 1)?, strided(&[5, 6], DataType::U4, &[1, 7], 3)?)
    });
    list.add("reorder/layout/blocked_halves_of_bytes", || {
        reorder(dense(&[2, 5, 3], DataType::S4), tagged(&[2, 5, 3], DataType::S4, "aBc2b")?)
    });
    list.add("reorder/layout/open", || reorder(f32(&[4, 6]), MemoryDesc::any([4, 6], F16)));
    list.add("reorder/shape/scalar", || reorder(f32(&[]), f32(&[])));
    list.add("reorder/shape/empty", || reorder(f32(&[2, 0, 3]), f32(&[2, 0, 3])));
    list.add("reorder/shape/empty_blocked", || reorder(f32(&[0, 5]), tagged(&[0, 5], F32, "aB4b")?));
    list.add("reorder/in_place", || Ok(reorder(f32(&[12]), f32(&[12]))?.in_place(Arg::SRC)));
}

fn reorder(src: MemoryDesc, dst: MemoryDesc) -> Result<Trial> {
    Ok(Trial::of(PrimitiveDesc::builder(Op::Reorder(Reorder)).src(src).dst(dst))?.exact())
}

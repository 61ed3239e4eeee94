use super::{Trials, dense, f32, gapped, tagged, transposed};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::{Reduction, ReductionAlgorithm};
use crate::{Arg, DataType, MemoryDesc, Op, PrimitiveDesc, Result};

pub(super) fn trials(list: &mut Trials) {
    for algorithm in ReductionAlgorithm::ALL {
        list.add(format!("reduction/{}/last", algorithm.name()), || {
            Ok(suited(algorithm, reduction(algorithm, f32(&[3, 5, 21]), f32(&[3, 5, 1]))?))
        });
        list.add(format!("reduction/{}/outer", algorithm.name()), || {
            Ok(suited(algorithm, reduction(algorithm, f32(&[6, 3, 7]), f32(&[1, 3, 1]))?))
        });
    }
    for (name, from, to) in [
        ("first", &[9, 4][..], &[1, 4][..]),
        ("middle", &[2, 13, 5], &[2, 1, 5]),
        ("all", &[4, 5, 6], &[1, 1, 1]),
        ("none", &[4, 7], &[4, 7]),
        ("long", &[2, 1031], &[2, 1]),
        ("spatial", &[2, 5, 6, 7], &[2, 5, 1, 1]),
        ("scalar", &[], &[]),
        ("no_results", &[0, 4], &[0, 1]),
    ] {
        list.add(format!("reduction/shape/{name}"), || {
            reduction(ReductionAlgorithm::Sum, f32(from), f32(to))
        });
    }
    for algorithm in ReductionAlgorithm::ALL {
        // Neutral elements of folds over nothing.
        if list.is_thorough() || matches!(algorithm, ReductionAlgorithm::Max | ReductionAlgorithm::Product) {
            list.add(format!("reduction/{}/nothing", algorithm.name()), || {
                reduction(algorithm, f32(&[2, 0]), f32(&[2, 1]))
            });
        }
    }
    for algorithm in [ReductionAlgorithm::Max, ReductionAlgorithm::Min] {
        // A number that is none stays, wherever in a row it is: rows have it in each place, one has it in none.
        list.add(format!("reduction/{}/nan", algorithm.name()), || {
            let values = (0..40 * 37).map(|i| if i % 38 == 0 { f64::NAN } else { f64::from(i % 23 - 11) });
            let trial = reduction(algorithm, f32(&[40, 37]), f32(&[40, 1]))?;
            Ok(trial.values(Arg::SRC, Values::Listed(values.collect())))
        });
    }
    for data_type in [DataType::F16, DataType::BF16] {
        list.add(format!("reduction/{data_type}/mean"), || {
            let (src, dst) = (dense(&[4, 33], data_type), dense(&[4, 1], data_type));
            reduction(ReductionAlgorithm::Mean, src, dst)
        });
    }
    list.add("reduction/f16_to_f32/sum", || {
        reduction(ReductionAlgorithm::Sum, dense(&[4, 33], DataType::F16), f32(&[4, 1]))
    });
    for (algorithm, from, to) in [
        (ReductionAlgorithm::Sum, DataType::S32, DataType::S32),
        (ReductionAlgorithm::Sum, DataType::S8, DataType::S32),
        (ReductionAlgorithm::Max, DataType::U8, DataType::U8),
    ] {
        list.add(format!("reduction/{}/{from}_to_{to}", algorithm.name()), || {
            Ok(reduction(algorithm, dense(&[5, 30], from), dense(&[5, 1], to))?.exact())
        });
    }
    layouts(list);
}

fn layouts(list: &mut Trials) {
    let f32_type = DataType::F32;
    list.add("reduction/layout/channels_last", || {
        let src = tagged(&[2, 5, 4, 3], f32_type, "acdb")?;
        reduction(ReductionAlgorithm::Mean, src, f32(&[2, 5, 1, 1]))
    });
    list.add("reduction/layout/transposed_to_gaps", || {
        let src = transposed(&[2, 7, 6], f32_type)?;
        reduction(ReductionAlgorithm::Max, src, gapped(&[2, 7, 1], f32_type, 2, 1)?)
    });
    list.add("reduction/layout/blocked", || {
        let src = tagged(&[2, 5, 4, 3], f32_type, "aBcd4b")?;
        reduction(ReductionAlgorithm::Min, src, f32(&[2, 1, 4, 3]))
    });
}

/// Products of many numbers stay near one, and extremes of negative numbers are not zero.
fn suited(algorithm: ReductionAlgorithm, trial: Trial) -> Trial {
    match algorithm {
        ReductionAlgorithm::Product => trial.values(Arg::SRC, Values::AwayFromZero(0.8, 1.2)),
        ReductionAlgorithm::Max => trial.values(Arg::SRC, Values::Uniform(-9.0, -1.0)),
        ReductionAlgorithm::Min => trial.values(Arg::SRC, Values::Uniform(1.0, 9.0)),
        _ => trial,
    }
}

fn reduction(algorithm: ReductionAlgorithm, src: MemoryDesc, dst: MemoryDesc) -> Result<Trial> {
    Trial::of(PrimitiveDesc::builder(Op::Reduction(Reduction::new(algorithm))).src(src).dst(dst))
}

use super::{Trials, dense, f32, gapped, strided, tagged, transposed};
use crate::conformance::trial::Trial;
use crate::conformance::values::{Values, functions};
use crate::{Arg, Attributes, DataType, Eltwise, MemoryDesc, Op, PrimitiveDesc, Result, ScratchpadMode};

pub(super) fn trials(list: &mut Trials) {
    for (op, values) in functions() {
        list.add(format!("eltwise/f32/{}", op.name()), || {
            Ok(eltwise(op, f32(&[5, 7, 4]), f32(&[5, 7, 4]))?.values(Arg::SRC, with_specials(op, &values)))
        });
    }
    list.add("eltwise/f32/pow_negative_base", || {
        let op = Eltwise::Pow { alpha: 0.5, beta: 3.0 };
        Ok(eltwise(op, f32(&[37]), f32(&[37]))?.values(Arg::SRC, Values::AwayFromZero(0.5, 2.0)))
    });
    for (data_type, step) in [(DataType::F16, 3), (DataType::BF16, 5)] {
        let step = if list.is_thorough() { 1 } else { step };
        for (op, values) in functions().into_iter().step_by(step) {
            list.add(format!("eltwise/{data_type}/{}", op.name()), || {
                let desc = dense(&[3, 43], data_type);
                Ok(eltwise(op, desc.clone(), desc)?.values(Arg::SRC, values))
            });
        }
    }
    types(list);
    layouts(list);
    shapes(list);
}

fn types(list: &mut Trials) {
    use DataType::{F8E5M2, F16, F32, S4, S8, S32, U4, U8};
    for (name, op, from, to) in [
        ("relu", Eltwise::Relu, S32, S32),
        ("abs", Eltwise::Abs, S8, S8),
        ("clamp", Eltwise::Clamp { min: 2.0, max: 6.0 }, U8, U8),
        ("relu", Eltwise::Relu, S4, S4),
        ("relu", Eltwise::Relu, F8E5M2, F8E5M2),
        ("square", Eltwise::Square, S8, U4),
    ] {
        list.add(format!("eltwise/{from}/{name}"), || {
            Ok(eltwise(op, dense(&[5, 13], from), dense(&[5, 13], to))?.exact())
        });
    }
    let linear = Eltwise::Linear { alpha: 40.0, beta: 10.0 };
    for (from, to) in [(F32, U8), (F32, F16), (F16, F32), (S8, F32)] {
        list.add(format!("eltwise/linear/{from}_to_{to}"), || {
            eltwise(linear, dense(&[9, 5], from), dense(&[9, 5], to))
        });
    }
}

fn layouts(list: &mut Trials) {
    use DataType::{F16, F32};
    let op = Eltwise::Linear { alpha: 2.0, beta: -0.5 };
    let mut add = |name: &str, src: Result<MemoryDesc>, dst: Result<MemoryDesc>| {
        list.add(format!("eltwise/layout/{name}"), || eltwise(op, src?, dst?));
    };
    let dims = [2, 5, 3, 4];
    add("transposed_src", transposed(&dims, F32), Ok(f32(&dims)));
    add("transposed_dst", Ok(f32(&dims)), transposed(&dims, F32));
    add("channels_last", tagged(&dims, F32, "acdb"), tagged(&dims, F32, "acdb"));
    add("blocked_to_plain", tagged(&dims, F32, "aBcd4b"), Ok(f32(&dims)));
    add("plain_to_blocked", Ok(f32(&dims)), tagged(&dims, F32, "aBcd16b"));
    add("blocked", tagged(&dims, F16, "ABcd2a4b"), tagged(&dims, F16, "ABcd2a4b"));
    add("offset", strided(&dims, F32, &[60, 12, 4, 1], 5), strided(&dims, F32, &[60, 12, 4, 1], 3));
    add("gaps", gapped(&dims, F16, 3, 1), gapped(&dims, F16, 2, 2));
    add("repeated_src", strided(&dims, F32, &[0, 4, 0, 1], 0), Ok(f32(&dims)));
    add("open_dst", Ok(f32(&dims)), Ok(MemoryDesc::any(dims, F32)));
}

fn shapes(list: &mut Trials) {
    for (name, dims) in [
        ("scalar", &[][..]),
        ("one", &[1, 1, 1]),
        ("empty", &[3, 0, 2]),
        ("prime", &[1031]),
        ("rank_6", &[2, 1, 3, 2, 1, 5]),
    ] {
        list.add(format!("eltwise/shape/{name}"), || eltwise(Eltwise::Square, f32(dims), f32(dims)));
    }
    list.add("eltwise/in_place", || {
        let desc = gapped(&[7, 6], DataType::F32, 1, 0)?;
        Ok(eltwise(Eltwise::Tanh, desc.clone(), desc)?.in_place(Arg::SRC))
    });
    list.add("eltwise/user_scratchpad", || {
        let builder = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu))
            .src(f32(&[10]))
            .dst(f32(&[10]))
            .attributes(Attributes::default().with_scratchpad(ScratchpadMode::User));
        Trial::of(builder)
    });
}

fn eltwise(op: Eltwise, src: MemoryDesc, dst: MemoryDesc) -> Result<Trial> {
    Trial::of(PrimitiveDesc::builder(Op::Eltwise(op)).src(src).dst(dst))
}

/// NaN for every function, and the infinities and large numbers where the definition gives them a limit.
fn with_specials(op: Eltwise, values: &Values) -> Values {
    let mut list = values.draw(130, 7);
    list.push(f64::NAN);
    list.push(0.0);
    list.extend(op.row().specials);
    Values::Listed(list)
}

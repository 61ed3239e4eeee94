//! Functions of elements and their gradients.

use anydnn::backend::DataType::{BF16, Boolean, F16, F32};
use anydnn::graph::{Attrs, OpKind as K};

use super::{Cases, Out, none, x};

fn ab(alpha: f32, beta: f32) -> Attrs {
    none().with("alpha", alpha).with("beta", beta)
}

pub(super) fn add(cases: &mut Cases) {
    unary(cases);
    gradients(cases);
    binary(cases);
    channels(cases);
    cases.add(K::TypeCast, none(), &[x(&[3, 5])]).makes(Out::Other);
    cases.add(K::TypeCast, none(), &[x(&[2, 3, 4]).of(|v| 100.0 * v)]).makes(Out::Is(F16));
    cases.add(K::TypeCast, none(), &[x(&[2, 7]).typed(BF16)]).makes(Out::Is(F32));
    let number = |data_type| x(&[1]).typed(data_type);
    let seed = number(anydnn::backend::DataType::S64).of(|_| 42.0);
    let inputs = [x(&[16, 32]), seed.clone(), seed, number(F32).of(|_| 0.25)];
    cases.add_all(K::Dropout, none(), &inputs, 2);
}

fn unary(cases: &mut Cases) {
    let word = |mode: &str| none().with("mode", mode);
    let functions = [
        (K::Abs, none()),
        (K::Clamp, none().with("min", -0.75_f32).with("max", 1.5_f32)),
        (K::Elu, none().with("alpha", 1.3_f32)),
        (K::Exp, none()),
        (K::GELU, word("gelu_erf")),
        (K::GELU, word("gelu_tanh")),
        (K::HardSigmoid, ab(0.3, 0.4)),
        (K::HardSwish, none()),
        (K::LeakyReLU, none().with("alpha", 0.2_f32)),
        (K::Mish, none()),
        (K::ReLU, none()),
        (K::Round, none()),
        (K::Sigmoid, none()),
        (K::SoftPlus, none()),
        (K::SoftPlus, none().with("beta", 2.5_f32)),
        (K::SoftPlus, none().with("beta", -1.5_f32)),
        (K::Square, none()),
        (K::Tanh, none()),
        (K::Pow, none().with("beta", 2.0_f32)),
        (K::Pow, none().with("beta", 3.0_f32)),
    ];
    for (kind, attrs) in functions {
        cases.add(kind, attrs, &[x(&[3, 17]).of(|v| 4.0 * v)]);
    }
    for (kind, attrs) in [
        (K::Log, none()),
        (K::Reciprocal, none()),
        (K::Sqrt, none()),
        (K::Pow, none().with("beta", -0.5_f32)),
    ] {
        cases.add(kind, attrs, &[x(&[2, 3, 7]).of(|v| 2.5 + 2.0 * v)]);
    }
    cases.add(K::Round, none(), &[x(&[2, 3, 2, 5]).of(|v| (8.0 * v).round() / 2.0)]);
}

fn gradients(cases: &mut Cases) {
    let dst = |flag: bool| none().with("use_dst", flag);
    let word = |mode: &str| none().with("mode", mode);
    let any: fn(f64) -> f64 = |v| 4.0 * v;
    let clamp = |flag| dst(flag).with("min", -0.75_f32).with("max", 1.5_f32);
    let elu = |flag| dst(flag).with("alpha", 1.3_f32);
    let functions: [(K, Attrs, fn(f64) -> f64); 20] = [
        (K::AbsBackward, none(), any),
        (K::ClampBackward, clamp(true), any),
        (K::ClampBackward, clamp(false), any),
        (K::EluBackward, elu(true), |v| 1.2 * v),
        (K::EluBackward, elu(false), any),
        (K::GELUBackward, word("gelu_erf"), any),
        (K::GELUBackward, word("gelu_tanh"), any),
        (K::HardSigmoidBackward, ab(0.3, 0.4), any),
        (K::HardSwishBackward, none(), any),
        (K::MishBackward, none(), any),
        (K::ReLUBackward, dst(true), any),
        (K::ReLUBackward, dst(false), any),
        (K::SigmoidBackward, dst(true), |v| 0.5 + 0.45 * v),
        (K::SigmoidBackward, dst(false), any),
        (K::SoftPlusBackward, none(), any),
        (K::SoftPlusBackward, none().with("beta", 2.5_f32), any),
        (K::SqrtBackward, dst(true), |v| 1.5 + v),
        (K::SqrtBackward, dst(false), |v| 1.5 + v),
        (K::TanhBackward, dst(true), |v| v),
        (K::TanhBackward, dst(false), any),
    ];
    for (kind, attrs, change) in functions {
        cases.add(kind, attrs, &[x(&[3, 11]).of(change), x(&[3, 11])]);
    }
}

fn binary(cases: &mut Cases) {
    let shapes: [(&[usize], &[usize]); 3] =
        [(&[3, 4], &[3, 4]), (&[2, 3, 4], &[3, 1]), (&[2, 1, 3, 4], &[2, 5, 1, 4])];
    for kind in [
        K::Add,
        K::Divide,
        K::GreaterEqual,
        K::Maximum,
        K::Minimum,
        K::Multiply,
        K::SquaredDifference,
        K::Subtract,
    ] {
        for (a, b) in shapes {
            let divisor: fn(f64) -> f64 = |v| if v < 0.0 { v - 0.5 } else { v + 0.5 };
            cases.add(kind, none(), &[x(a), x(b).of(divisor)]);
        }
    }
    let shapes: [[&[usize]; 3]; 3] = [
        [&[2, 3, 4], &[2, 3, 4], &[2, 3, 4]],
        [&[2, 3, 4], &[2, 3, 4], &[1, 1, 4]],
        [&[1, 3, 4], &[2, 3, 4], &[2, 3, 4]],
    ];
    for [cond, a, b] in shapes {
        cases.add(K::Select, none(), &[x(cond).typed(Boolean), x(a), x(b)]);
    }
}

fn channels(cases: &mut Cases) {
    let format = |word: &str| none().with("data_format", word);
    cases.add(K::BiasAdd, format("NXC"), &[x(&[2, 3, 5]), x(&[5])]);
    cases.add(K::BiasAdd, format("NCX"), &[x(&[2, 3, 4, 5]), x(&[3])]);
    cases.add(K::BiasAddBackward, format("NXC"), &[x(&[2, 3, 4, 5])]);
    cases.add(K::BiasAddBackward, format("NCX"), &[x(&[2, 3, 4, 5])]);
    cases.add(K::PReLU, format("NXC"), &[x(&[2, 4, 3]), x(&[3])]);
    cases.add(K::PReLU, format("NCX"), &[x(&[2, 3, 4, 2]), x(&[3])]);
    cases.add(K::PReLU, format("NCX").with("per_channel_broadcast", false), &[x(&[2, 3, 4]), x(&[1, 3, 4])]);
    cases.add(K::PReLUBackward, format("NCX"), &[x(&[2, 3, 4]), x(&[3]), x(&[2, 3, 4])]).twice();
    cases.add(K::PReLUBackward, format("NXC"), &[x(&[2, 4, 3]), x(&[1, 1, 3]), x(&[2, 4, 3])]).twice();
    cases.add(K::PReLUBackward, format("NCX"), &[x(&[2, 3, 4]), x(&[2, 3, 4]), x(&[2, 3, 4])]).twice();
}

impl super::Case {
    fn twice(&mut self) {
        self.outputs.push(Out::Inferred);
    }
}

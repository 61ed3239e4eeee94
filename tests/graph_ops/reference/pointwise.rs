//! Functions of elements.

use std::f64::consts::PI;

use anydnn::backend::op::keeps;
use anydnn::graph::{Op, OpKind as K};

use super::super::tensor::{Tensor, stretch};
use super::channel_axis;

pub fn unary(op: &Op, src: &Tensor) -> Tensor {
    let attr = |name: &str| f64::from(op.attrs.f32(name).unwrap());
    src.map(|x| match op.kind {
        K::Abs => x.abs(),
        K::Clamp => x.max(attr("min")).min(attr("max")),
        K::Elu if x < 0.0 => attr("alpha") * (x.exp() - 1.0),
        K::LeakyReLU if x < 0.0 => attr("alpha") * x,
        K::Elu | K::LeakyReLU => x,
        K::Exp => x.exp(),
        K::GELU if op.attrs.string("mode").unwrap() == "gelu_tanh" => {
            0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
        }
        K::GELU => 0.5 * x * (1.0 + erf(x / 2f64.sqrt())),
        K::HardSigmoid => (attr("alpha") * x + attr("beta")).clamp(0.0, 1.0),
        K::HardSwish => x * (x + 3.0).clamp(0.0, 6.0) / 6.0,
        K::Log => x.ln(),
        K::Mish => x * (1.0 + x.exp()).ln().tanh(),
        K::Pow => x.powf(attr("beta")),
        K::Reciprocal => 1.0 / x,
        K::ReLU => x.max(0.0),
        K::Round => x.round_ties_even(),
        K::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        K::SoftPlus => (1.0 + (attr("beta") * x).exp()).ln() / attr("beta"),
        K::Sqrt => x.sqrt(),
        K::Square => x * x,
        K::Tanh => x.tanh(),
        other => panic!("no reference for {other}"),
    })
}

pub fn binary(op: &Op, inputs: &[Tensor]) -> Tensor {
    let dims = stretch(&inputs[0].dims, &inputs[1].dims);
    Tensor::of(&dims, |index| {
        let (a, b) = (inputs[0].stretched(index), inputs[1].stretched(index));
        match op.kind {
            K::Add => a + b,
            K::Subtract => a - b,
            K::Multiply => a * b,
            K::Divide => a / b,
            K::Maximum => a.max(b),
            K::Minimum => a.min(b),
            K::SquaredDifference => (a - b) * (a - b),
            K::GreaterEqual => f64::from(u8::from(a >= b)),
            other => panic!("no reference for {other}"),
        }
    })
}

pub fn select(inputs: &[Tensor]) -> Tensor {
    let dims = stretch(&stretch(&inputs[0].dims, &inputs[1].dims), &inputs[2].dims);
    Tensor::of(&dims, |index| inputs[if inputs[0].stretched(index) > 0.5 { 1 } else { 2 }].stretched(index))
}

pub fn bias_add(op: &Op, inputs: &[Tensor]) -> Tensor {
    let axis = channel_axis(op, inputs[0].rank());
    Tensor::of(&inputs[0].dims, |index| inputs[0].at(index) + inputs[1].at(&[index[axis]]))
}

pub fn prelu(op: &Op, inputs: &[Tensor]) -> Tensor {
    let (src, slope) = (&inputs[0], &inputs[1]);
    let place = slope_place(op, src, slope);
    Tensor::of(&src.dims, |index| {
        let x = src.at(index);
        if x > 0.0 { x } else { x * slope.at(&place(index)) }
    })
}

/// Where the slope for an index lies: one for each channel, or aligned at the last dimension.
pub fn slope_place(op: &Op, src: &Tensor, slope: &Tensor) -> impl Fn(&[usize]) -> Vec<usize> {
    let channel = channel_axis(op, src.rank());
    let per_channel = slope.rank() == 1
        && slope.dims[0] == src.dims[channel]
        && op.attrs.bool("per_channel_broadcast").unwrap_or(true);
    let dims = slope.dims.clone();
    move |index| {
        if per_channel {
            return vec![index[channel]];
        }
        let tail = &index[index.len() - dims.len()..];
        tail.iter().zip(&dims).map(|(&i, &dim)| if dim == 1 { 0 } else { i }).collect()
    }
}

/// The result and the mask, by the published random numbers.
pub fn dropout(inputs: &[Tensor]) -> Vec<Tensor> {
    let [src, seed, offset, probability] = inputs else { panic!("four inputs") };
    let p = probability.values[0];
    let mut count = 0;
    let mask = src.map(|_| 0.0);
    let mask = Tensor::of(&mask.dims, |_| {
        let kept = keeps(seed.values[0] as i64, offset.values[0] as i64, count, p as f32);
        count += 1;
        f64::from(u8::from(kept))
    });
    let dst = Tensor::of(&src.dims, |i| if mask.at(i) > 0.5 { src.at(i) / (1.0 - p) } else { 0.0 });
    vec![dst, mask]
}

/// `2 / sqrt(pi)` times the integral of `e^(-t^2)` from zero, by Simpson's rule.
fn erf(x: f64) -> f64 {
    let steps = 400;
    let h = x / f64::from(steps);
    let f = |i: i32| (-(f64::from(i) * h).powi(2)).exp();
    let inner: f64 = (1..steps).map(|i| f(i) * if i % 2 == 1 { 4.0 } else { 2.0 }).sum();
    2.0 / PI.sqrt() * h / 3.0 * (f(0) + inner + f(steps))
}

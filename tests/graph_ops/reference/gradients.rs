//! Gradients, by central differences of the functions or by the rules of differentiation.

use anydnn::graph::{Op, OpKind as K};

use super::super::tensor::{Tensor, indices};
use super::{channel_axis, front, pointwise};

/// The gradient of a unary operation from its source, or from its result where `use_dst` says so.
pub fn unary(op: &Op, inputs: &[Tensor]) -> Tensor {
    let (at, diff) = (&inputs[0], &inputs[1]);
    let slope = if op.attrs.bool("use_dst").unwrap_or(false) {
        at.map(|y| slope_at_result(op, y))
    } else if op.kind == K::HardSwishBackward {
        // A difference across a bend is no slope.
        at.map(|x| if x.abs() >= 3.0 { f64::from(u8::from(x > 0.0)) } else { x / 3.0 + 0.5 })
    } else {
        let forward = Op { kind: forward(op.kind), ..op.clone() };
        let h = 1e-5;
        let (above, below) =
            (pointwise::unary(&forward, &at.map(|x| x + h)), pointwise::unary(&forward, &at.map(|x| x - h)));
        Tensor::of(&at.dims, |i| (above.at(i) - below.at(i)) / (2.0 * h))
    };
    Tensor::of(&at.dims, |i| slope.at(i) * diff.at(i))
}

fn slope_at_result(op: &Op, y: f64) -> f64 {
    let attr = |name: &str| f64::from(op.attrs.f32(name).unwrap());
    match op.kind {
        K::ReLUBackward => f64::from(u8::from(y > 0.0)),
        K::SigmoidBackward => y * (1.0 - y),
        K::SqrtBackward => 0.5 / y,
        K::TanhBackward => 1.0 - y * y,
        K::EluBackward if y > 0.0 => 1.0,
        K::EluBackward => y + attr("alpha"),
        K::ClampBackward => f64::from(u8::from(y > attr("min") && y < attr("max"))),
        other => panic!("no gradient of the result of {other}"),
    }
}

fn forward(kind: K) -> K {
    match kind {
        K::AbsBackward => K::Abs,
        K::ClampBackward => K::Clamp,
        K::EluBackward => K::Elu,
        K::GELUBackward => K::GELU,
        K::HardSigmoidBackward => K::HardSigmoid,
        K::HardSwishBackward => K::HardSwish,
        K::MishBackward => K::Mish,
        K::ReLUBackward => K::ReLU,
        K::SigmoidBackward => K::Sigmoid,
        K::SoftPlusBackward => K::SoftPlus,
        K::SqrtBackward => K::Sqrt,
        K::TanhBackward => K::Tanh,
        other => panic!("{other} is not a gradient"),
    }
}

pub fn bias(op: &Op, diff: &Tensor) -> Tensor {
    let axis = channel_axis(op, diff.rank());
    summed(diff, &[diff.dims[axis]], |i| vec![i[axis]], |i| diff.at(i))
}

pub fn prelu(op: &Op, inputs: &[Tensor]) -> Vec<Tensor> {
    let [src, slope, diff] = inputs else { panic!("three inputs") };
    let place = pointwise::slope_place(op, src, slope);
    let diff_src =
        Tensor::of(&src.dims, |i| diff.at(i) * if src.at(i) > 0.0 { 1.0 } else { slope.at(&place(i)) });
    let diff_slope = summed(
        src,
        &slope.dims,
        |i| place(i),
        |i| if src.at(i) > 0.0 { 0.0 } else { diff.at(i) * src.at(i) },
    );
    vec![diff_src, diff_slope]
}

/// From the matrix of partial derivatives of each row.
pub fn softmax(op: &Op, inputs: &[Tensor]) -> Tensor {
    let (diff, y) = (&inputs[0], &inputs[1]);
    let axis = front(op.attrs.s64("axis").unwrap(), y.rank());
    Tensor::of(&y.dims, |index| {
        (0..y.dims[axis])
            .map(|j| {
                let mut other = index.to_vec();
                other[axis] = j;
                let same = f64::from(u8::from(other == index));
                // The derivative of result j for source i.
                let partial = match op.kind {
                    K::LogSoftmaxBackward => same - y.at(index).exp(),
                    _ => y.at(&other) * (same - y.at(index)),
                };
                partial * diff.at(&other)
            })
            .sum()
    })
}

/// `diff_src`, `diff_gamma`, `diff_beta`.
pub fn layer_norm(op: &Op, inputs: &[Tensor]) -> Vec<Tensor> {
    let src = &inputs[0];
    let begin = front(op.attrs.s64("begin_norm_axis").unwrap(), src.rank());
    let inner = src.dims[begin..].to_vec();
    normalization(op, inputs, |i| i[..begin].to_vec(), |i| i[begin..].to_vec(), &inner)
}

pub fn batch_norm(op: &Op, inputs: &[Tensor]) -> Vec<Tensor> {
    let axis = channel_axis(op, inputs[0].rank());
    let channels = [inputs[0].dims[axis]];
    normalization(op, inputs, |i| vec![i[axis]], |i| vec![i[axis]], &channels)
}

/// The gradients of `(x - mean) / sqrt(variance + epsilon) * gamma + beta`, mean and variance being those of the elements with the same
/// `group`: for each element the sum over all of its group of what it changes in them.
fn normalization(
    op: &Op,
    inputs: &[Tensor],
    group: impl Fn(&[usize]) -> Vec<usize>,
    parameter: impl Fn(&[usize]) -> Vec<usize>,
    parameters: &[usize],
) -> Vec<Tensor> {
    let [src, diff, mean, variance, rest @ ..] = inputs else { panic!("four inputs") };
    let epsilon = f64::from(op.attrs.f32("epsilon").unwrap());
    let flat = |tensor: &Tensor, place: &[usize], dims: &[usize]| {
        tensor.values[indices(dims).iter().position(|i| i == place).unwrap()]
    };
    let gamma = |i: &[usize]| rest.first().map_or(1.0, |gamma| flat(gamma, &parameter(i), parameters));
    let root = |i: &[usize]| (variance.at(&group(i)) + epsilon).sqrt();
    let normal = |i: &[usize]| (src.at(i) - mean.at(&group(i))) / root(i);
    let all = indices(&src.dims);
    let diff_src = Tensor::of(&src.dims, |i| {
        let own: Vec<&Vec<usize>> = all.iter().filter(|j| group(j) == group(i)).collect();
        let count = own.len() as f64;
        own.iter()
            .map(|j| {
                let same = f64::from(u8::from(j[..] == *i));
                let partial = (same - 1.0 / count) / root(i) - normal(j) * normal(i) / count / root(i);
                diff.at(j) * gamma(j) * partial
            })
            .sum()
    });
    let diff_gamma = summed(src, parameters, &parameter, |i| diff.at(i) * normal(i));
    let diff_beta = summed(src, parameters, &parameter, |i| diff.at(i));
    vec![diff_src, diff_gamma, diff_beta]
}

/// The sums of a value over the indices of `over` that fall on each index of `dims`.
fn summed(
    over: &Tensor,
    dims: &[usize],
    place: impl Fn(&[usize]) -> Vec<usize>,
    value: impl Fn(&[usize]) -> f64,
) -> Tensor {
    let all = indices(&over.dims);
    Tensor::of(dims, |wanted| all.iter().filter(|i| place(i) == wanted).map(|i| value(i)).sum())
}

use super::{Trials, dense, f32, gapped, tagged, transposed};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::conformance::values::functions;
use crate::op::{Expression, Fold, Node};
use crate::{
    Arg, Attributes, BinaryAlgorithm, DataType, Eltwise, MemoryDesc, Op, PostOp, PrimitiveDesc,
    PrimitiveDescBuilder,
};

pub(super) fn trials(list: &mut Trials) {
    pointwise(list);
    sources(list);
    functions_and_gradients(list);
    folds(list);
    normalizations(list);
    dropouts(list);
}

fn pointwise(list: &mut Trials) {
    use DataType::{BF16, F16, F32, F64, S32, U8};
    // `gelu(x*y + z)` and the larger of its argument and x.
    let chain = |dims: &[usize]| {
        let mut e = Expression::new(dims);
        let [x, y, z] = [0, 1, 2].map(|i| e.push(Node::Operand(i)));
        let product = binary(&mut e, BinaryAlgorithm::Multiply, x, y);
        let sum = binary(&mut e, BinaryAlgorithm::Add, product, z);
        let gelu = e.push(Node::Eltwise(Eltwise::GeluErf, sum));
        let larger = binary(&mut e, BinaryAlgorithm::Maximum, sum, x);
        e.results = vec![gelu, larger];
        e
    };
    let dims = [5, 7, 4];
    list.add("expression/two_results", || {
        Trial::of(expression(chain(&dims), [f32(&dims), f32(&[7, 1]), f32(&[])], [f32(&dims), f32(&dims)]))
    });
    list.add("expression/types", || {
        let sources = [dense(&dims, F16), dense(&[4], BF16), dense(&[5, 1, 1], U8)];
        Trial::of(expression(chain(&dims), sources, [dense(&dims, F16), f32(&dims)]))
    });
    list.add("expression/integer_result", || {
        let sources = [dense(&dims, S32), dense(&dims, U8), f32(&[1])];
        Trial::of(expression(chain(&dims), sources, [f32(&dims), dense(&dims, S32)]))
    });
    list.add("expression/f64", || {
        let tensor = dense(&dims, F64);
        Trial::of(expression(chain(&dims), [tensor.clone(), f32(&dims), f32(&[])], [tensor, f32(&dims)]))
    });
    list.add("expression/layouts", || {
        let sources = [transposed(&dims, F32)?, tagged(&dims, F32, "aBc4b")?, gapped(&dims, F16, 3, 1)?];
        let results = [tagged(&dims, F32, "aBc8b")?, gapped(&dims, BF16, 2, 3)?];
        Trial::of(expression(chain(&dims), sources, results))
    });
    list.add("expression/scalar", || {
        Trial::of(expression(chain(&[]), [f32(&[]), f32(&[]), f32(&[])], [f32(&[]), f32(&[])]))
    });
    list.add("expression/empty", || {
        let none = || f32(&[3, 0]);
        Trial::of(expression(chain(&[3, 0]), [none(), f32(&[1]), none()], [none(), none()]))
    });
    let squared_distance = || {
        let mut e = Expression::new(dims);
        let [x, y] = [0, 1].map(|i| e.push(Node::Operand(i)));
        let distance = binary(&mut e, BinaryAlgorithm::SquaredDifference, x, y);
        let root = e.push(Node::Eltwise(Eltwise::Sqrt, distance));
        e.results = vec![root];
        e
    };
    list.add("expression/in_place", || {
        let trial = Trial::of(expression(squared_distance(), [f32(&[4]), f32(&dims)], [f32(&dims)]))?;
        Ok(trial.in_place(Arg::Src(1)))
    });
    list.add("expression/post_ops", || {
        let attributes = Attributes::default()
            .with_post_op(PostOp::binary(BinaryAlgorithm::Subtract, f32(&[7, 1])))
            .with_post_op(PostOp::sum(0.5))
            .with_post_op(PostOp::Eltwise(Eltwise::Relu));
        let builder = expression(squared_distance(), [f32(&dims), f32(&dims)], [f32(&dims)]);
        Trial::of(builder.attributes(attributes))
    });
}

/// Operands by blocks, indices, constants, conditions and casts.
fn sources(list: &mut Trials) {
    use DataType::{BF16, F8E4M3, F8E5M2, F16, F32, S4, S8, S32, U4, U8};
    list.add("expression/blocks", || {
        // Dequantisation by groups of four along the rows and of three down the columns.
        let dims = [6, 8];
        let mut e = Expression::new(dims);
        let [x, scale, zero] = [0, 1, 2].map(|i| e.push(Node::Operand(i)));
        let shifted = binary(&mut e, BinaryAlgorithm::Subtract, x, zero);
        let y = binary(&mut e, BinaryAlgorithm::Multiply, shifted, scale);
        e.results = vec![y];
        let sources = [dense(&dims, S8), f32(&[6, 2]), dense(&[2, 1], S8)];
        Trial::of(expression(e, sources, [f32(&dims)]))
    });
    list.add("expression/blocks_and_folds", || {
        let dims = [4, 6];
        let mut e = Expression::new(dims).with_folded([1]);
        let [x, scale] = [0, 1].map(|i| e.push(Node::Operand(i)));
        let y = binary(&mut e, BinaryAlgorithm::Multiply, x, scale);
        let sum = e.push(Node::Fold(Fold::Sum, y));
        e.results = vec![sum];
        Trial::of(expression(e, [f32(&dims), f32(&[2, 3])], [f32(&[4, 1])]))
    });
    list.add("expression/index", || {
        // What is right of the diagonal becomes minus infinity; the other result tells the index.
        let mut e = Expression::new([2, 5, 7]);
        let x = e.push(Node::Operand(0));
        let [batch, row, column] = [0, 1, 2].map(|axis| e.push(Node::Index(axis)));
        let seen = binary(&mut e, BinaryAlgorithm::GreaterEqual, row, column);
        let hidden = e.push(Node::Constant(f32::NEG_INFINITY));
        let masked = e.push(Node::Select(seen, x, hidden));
        let far = e.push(Node::Eltwise(Eltwise::Linear { alpha: 100.0, beta: 3.0 }, batch));
        let code = binary(&mut e, BinaryAlgorithm::Add, far, column);
        e.results = vec![masked, code];
        let dims = [2, 5, 7];
        Ok(Trial::of(expression(e, [f32(&dims)], [f32(&dims), dense(&dims, S32)]))?.exact())
    });
    for (name, types) in [("integers", [S8, U8, S4, U4, S32]), ("floats", [F16, BF16, F8E4M3, F8E5M2, F32])] {
        list.add(format!("expression/cast_to_{name}"), || {
            let dims = [4, 11];
            let mut e = Expression::new(dims);
            let x = e.push(Node::Operand(0));
            e.results = types.map(|data_type| e.push(Node::Cast(data_type, x))).to_vec();
            let trial = Trial::of(expression(e, [f32(&dims)], types.map(|_| f32(&dims))))?;
            let mut values: Vec<f64> = (-20..20).map(|i| f64::from(i) * 0.75).collect();
            values.extend([126.5, -300.0, 300.0, -3.0e-3]);
            Ok(trial.values(Arg::SRC, Values::Listed(values)).exact())
        });
    }
}

/// Functions of every kind, and the derivatives of all of them.
fn functions_and_gradients(list: &mut Trials) {
    list.add("expression/every_binary", || {
        let dims = [6, 5];
        let mut e = Expression::new(dims);
        let [x, y] = [0, 1].map(|i| e.push(Node::Operand(i)));
        e.results = BinaryAlgorithm::ALL.map(|algorithm| e.push(Node::Binary(algorithm, x, y))).to_vec();
        let results = [(); BinaryAlgorithm::ALL.len()].map(|()| f32(&dims));
        let trial = Trial::of(expression(e, [f32(&dims), f32(&[5])], results))?;
        let halves = || Values::Listed((1..=7).map(|i| f64::from(i) * 0.5).collect());
        Ok(trial.values(Arg::Src(0), halves()).values(Arg::Src(1), halves()))
    });
    let mut all: Vec<(Eltwise, bool)> =
        functions().into_iter().map(|(function, _)| (function, false)).collect();
    all.extend(functions().iter().map(|(f, _)| (*f, true)).filter(|(f, _)| f.has_gradient_of_result()));
    let positive = |function: &Eltwise| {
        matches!(function, Eltwise::Log | Eltwise::Pow { .. } | Eltwise::Sqrt | Eltwise::Reciprocal)
    };
    let (positive, wide): (Vec<_>, Vec<_>) = all.into_iter().partition(|(function, _)| positive(function));
    let mut add = |name: String, functions: &[(Eltwise, bool)], values: Values| {
        list.add(name, || {
            let dims = [9, 13];
            let mut e = Expression::new(dims);
            let [x, diff] = [0, 1].map(|i| e.push(Node::Operand(i)));
            for &(function, of_result) in functions {
                let at = if of_result { e.push(Node::Eltwise(function, x)) } else { x };
                let gradient = e.push(Node::Gradient { function, of_result, at, diff });
                e.results.push(gradient);
            }
            let results = functions.iter().map(|_| f32(&dims));
            Ok(Trial::of(expression(e, [f32(&dims), f32(&dims)], results))?.values(Arg::SRC, values))
        });
    };
    for (i, functions) in wide.chunks(7).enumerate() {
        add(format!("expression/gradients/{i}"), functions, Values::Uniform(-4.0, 4.0));
    }
    add("expression/gradients/positive".into(), &positive, Values::Uniform(0.2, 4.0));
}

fn folds(list: &mut Trials) {
    let every = |dims: &[usize], folded: &[usize]| {
        let mut e = Expression::new(dims).with_folded(folded);
        let x = e.push(Node::Operand(0));
        e.results = Fold::ALL.map(|fold| e.push(Node::Fold(fold, x))).to_vec();
        let result = f32(&e.folded_dims());
        expression(e, [f32(dims)], [(); Fold::ALL.len()].map(|()| result.clone()))
    };
    for (name, dims, folded) in [
        ("last", &[3, 4, 5][..], &[2][..]),
        ("first", &[4, 35], &[0]),
        ("middle", &[2, 7, 3], &[1]),
        ("outer_and_last", &[3, 4, 5], &[0, 2]),
        ("all", &[3, 5], &[0, 1]),
        ("none_of_length_one", &[4, 1, 3], &[1]),
        ("nothing", &[2, 0, 3], &[1]),
    ] {
        list.add(format!("expression/folds/{name}"), || Trial::of(every(dims, folded)));
    }
    list.add("expression/folds/nan", || {
        let values = Values::Listed(vec![1.0, f64::NAN, -2.0, 4.0, 0.5, 3.0]);
        Ok(Trial::of(every(&[2, 3], &[1]))?.values(Arg::SRC, values))
    });
    for (name, dims, axis, data_type) in [
        ("row", &[6, 37][..], 1, DataType::F32),
        ("column", &[2, 5, 9], 1, DataType::F32),
        ("long_row", &[2, 2111], 1, DataType::F32),
        ("one_element", &[5, 1], 1, DataType::F32),
        ("f16", &[3, 64], 1, DataType::F16),
    ] {
        list.add(format!("expression/softmax/{name}"), || {
            let (e, stats) = softmax(dims, axis);
            let desc = dense(dims, data_type);
            let builder = expression(e, [desc.clone()], [desc, f32(&stats)]);
            Ok(Trial::of(builder)?.values(Arg::SRC, Values::Uniform(-5.0, 8.0)))
        });
    }
    list.add("expression/softmax/layouts", || {
        let dims = [4, 6, 10];
        let (e, stats) = softmax(&dims, 2);
        let source = transposed(&dims, DataType::F32)?;
        Trial::of(expression(
            e,
            [source],
            [gapped(&dims, DataType::F32, 2, 1)?, gapped(&stats, DataType::F32, 1, 2)?],
        ))
    });
    list.add("expression/softmax/backward", || {
        // `y * (dy - sum(dy * y))`
        let dims = [7, 33];
        let mut e = Expression::new(dims).with_folded([1]);
        let [y, diff] = [0, 1].map(|i| e.push(Node::Operand(i)));
        let product = binary(&mut e, BinaryAlgorithm::Multiply, diff, y);
        let sum = e.push(Node::Fold(Fold::Sum, product));
        let rest = binary(&mut e, BinaryAlgorithm::Subtract, diff, sum);
        let result = binary(&mut e, BinaryAlgorithm::Multiply, y, rest);
        e.results = vec![result];
        let trial = Trial::of(expression(e, [f32(&dims), f32(&dims)], [f32(&dims)]))?;
        Ok(trial.values(Arg::SRC, Values::Uniform(0.0, 0.1)))
    });
    list.add("expression/folded_value_everywhere", || {
        // A value of a group, stored for each of its elements too.
        let mut e = Expression::new([3, 4]).with_folded([0]);
        let x = e.push(Node::Operand(0));
        let sum = e.push(Node::Fold(Fold::Sum, x));
        let double = binary(&mut e, BinaryAlgorithm::Add, sum, sum);
        e.results = vec![double, double, sum];
        Trial::of(expression(e, [f32(&[3, 4])], [f32(&[3, 4]), f32(&[1, 4]), f32(&[3, 4])]))
    });
    list.add("expression/folded_post_ops", || {
        let mut e = Expression::new([3, 8]).with_folded([1]);
        let x = e.push(Node::Operand(0));
        let square = e.push(Node::Eltwise(Eltwise::Square, x));
        let sum = e.push(Node::Fold(Fold::Sum, square));
        e.results = vec![sum, x];
        let attributes = Attributes::default()
            .with_post_op(PostOp::Eltwise(Eltwise::Sqrt))
            .with_post_op(PostOp::binary(BinaryAlgorithm::Multiply, f32(&[3, 1])));
        Trial::of(expression(e, [f32(&[3, 8])], [f32(&[3, 1]), f32(&[3, 8])]).attributes(attributes))
    });
}

fn normalizations(list: &mut Trials) {
    for (name, dims, folded, data_type) in [
        ("layer", &[5, 24][..], &[1][..], DataType::F32),
        ("layer_f16", &[4, 40], &[1], DataType::F16),
        ("layer_trailing_two", &[3, 4, 7], &[1, 2], DataType::F32),
        ("batch", &[3, 4, 5, 2], &[0, 2, 3], DataType::F32),
    ] {
        list.add(format!("expression/norm/{name}"), || {
            let kept = folded_dims(dims, folded);
            let affine: Vec<usize> = if folded[0] == 0 { kept.clone() } else { dims[folded[0]..].to_vec() };
            let mut e = Expression::new(dims).with_folded(folded);
            let [x, scale, shift] = [0, 1, 2].map(|i| e.push(Node::Operand(i)));
            let mean = average(&mut e, x);
            let centred = binary(&mut e, BinaryAlgorithm::Subtract, x, mean);
            let square = e.push(Node::Eltwise(Eltwise::Square, centred));
            let variance = average(&mut e, square);
            let factor = reciprocal_root(&mut e, variance);
            let normal = binary(&mut e, BinaryAlgorithm::Multiply, centred, factor);
            let scaled = binary(&mut e, BinaryAlgorithm::Multiply, normal, scale);
            let y = binary(&mut e, BinaryAlgorithm::Add, scaled, shift);
            e.results = vec![y, mean, variance];
            let desc = dense(dims, data_type);
            let sources = [desc.clone(), f32(&affine), f32(&affine)];
            let trial = Trial::of(expression(e, sources, [desc, f32(&kept), f32(&kept)]))?;
            Ok(trial.values(Arg::SRC, Values::Uniform(-1.0, 3.0)))
        });
    }
    for (name, dims, folded) in [("layer", &[5, 24][..], &[1][..]), ("batch", &[3, 4, 5, 2], &[0, 2, 3])] {
        list.add(format!("expression/norm/{name}_backward"), || {
            // `factor * (g - mean(g) - n * mean(g * n))` with `g = dy * scale` and the normal source n.
            let kept = folded_dims(dims, folded);
            let affine: Vec<usize> = if folded[0] == 0 { kept.clone() } else { dims[1..].to_vec() };
            let mut e = Expression::new(dims).with_folded(folded);
            let [x, diff, scale, mean, variance] = [0, 1, 2, 3, 4].map(|i| e.push(Node::Operand(i)));
            let factor = reciprocal_root(&mut e, variance);
            let centred = binary(&mut e, BinaryAlgorithm::Subtract, x, mean);
            let normal = binary(&mut e, BinaryAlgorithm::Multiply, centred, factor);
            let gradient = binary(&mut e, BinaryAlgorithm::Multiply, diff, scale);
            let product = binary(&mut e, BinaryAlgorithm::Multiply, gradient, normal);
            let (first, second) = (average(&mut e, gradient), average(&mut e, product));
            let second = binary(&mut e, BinaryAlgorithm::Multiply, normal, second);
            let rest = binary(&mut e, BinaryAlgorithm::Subtract, gradient, first);
            let rest = binary(&mut e, BinaryAlgorithm::Subtract, rest, second);
            let result = binary(&mut e, BinaryAlgorithm::Multiply, rest, factor);
            e.results = vec![result];
            let sources = [f32(dims), f32(dims), f32(&affine), f32(&kept), f32(&kept)];
            let trial = Trial::of(expression(e, sources, [f32(dims)]))?;
            Ok(trial.values(Arg::Src(4), Values::Uniform(0.5, 2.0)))
        });
    }
    list.add("expression/norm/affine_backward", || {
        // The gradients of scale and shift fold the other way round, and the statistics vary along the folded axis.
        let dims = [6, 21];
        let mut e = Expression::new(dims).with_folded([0]);
        let [x, diff, mean, variance] = [0, 1, 2, 3].map(|i| e.push(Node::Operand(i)));
        let factor = reciprocal_root(&mut e, variance);
        let centred = binary(&mut e, BinaryAlgorithm::Subtract, x, mean);
        let normal = binary(&mut e, BinaryAlgorithm::Multiply, centred, factor);
        let product = binary(&mut e, BinaryAlgorithm::Multiply, diff, normal);
        let scale = e.push(Node::Fold(Fold::Sum, product));
        let shift = e.push(Node::Fold(Fold::Sum, diff));
        e.results = vec![scale, shift];
        let sources = [f32(&dims), f32(&dims), f32(&[6, 1]), f32(&[6, 1])];
        let trial = Trial::of(expression(e, sources, [f32(&[1, 21]), f32(&[1, 21])]))?;
        Ok(trial.values(Arg::Src(3), Values::Uniform(0.5, 2.0)))
    });
}

fn dropouts(list: &mut Trials) {
    for (name, seed, offset, probability) in [
        ("with_offset", 12_345_678_901.0, 4_294_967_299.0, 0.4),
        ("without_offset", 77.0, 0.0, 0.4),
        ("negative_seed", -5.0, -3.0, 0.75),
        ("nothing", 1.0, 1.0, 0.0),
    ] {
        list.add(format!("expression/dropout/{name}"), || {
            let dims = [3, 5, 7];
            let mut e = Expression::new(dims);
            let x = e.push(Node::Operand(0));
            let keep = e.push(Node::Keep { seed: 1, offset: 2, probability: 3 });
            let random = e.push(Node::Random { seed: 1, offset: 2 });
            let probability_node = e.push(Node::Operand(3));
            let kept = e.push(Node::Eltwise(Eltwise::Linear { alpha: -1.0, beta: 1.0 }, probability_node));
            let grown = binary(&mut e, BinaryAlgorithm::Divide, x, kept);
            let zero = e.push(Node::Constant(0.0));
            let y = e.push(Node::Select(keep, grown, zero));
            e.results = vec![y, keep, random];
            let long = || dense(&[1], DataType::S64);
            let sources = [f32(&dims), long(), long(), f32(&[1])];
            let trial =
                Trial::of(expression(e, sources, [f32(&dims), dense(&dims, DataType::U8), f32(&dims)]))?;
            Ok(trial
                .values(Arg::Src(0), Values::AwayFromZero(0.5, 2.0))
                .values(Arg::Src(1), Values::Listed(vec![seed]))
                .values(Arg::Src(2), Values::Listed(vec![offset]))
                .values(Arg::Src(3), Values::Listed(vec![probability])))
        });
    }
}

/// A row's softmax and the logarithm of its sum; the dimensions of that.
fn softmax(dims: &[usize], axis: usize) -> (Expression, Vec<usize>) {
    let mut e = Expression::new(dims).with_folded([axis]);
    let x = e.push(Node::Operand(0));
    let max = e.push(Node::Fold(Fold::Max, x));
    let shifted = binary(&mut e, BinaryAlgorithm::Subtract, x, max);
    let exponential = e.push(Node::Eltwise(Eltwise::Exp, shifted));
    let sum = e.push(Node::Fold(Fold::Sum, exponential));
    let y = binary(&mut e, BinaryAlgorithm::Divide, exponential, sum);
    let log = e.push(Node::Eltwise(Eltwise::Log, sum));
    let stats = binary(&mut e, BinaryAlgorithm::Add, log, max);
    e.results = vec![y, stats];
    (e, folded_dims(dims, &[axis]))
}

fn folded_dims(dims: &[usize], folded: &[usize]) -> Vec<usize> {
    dims.iter().enumerate().map(|(i, &dim)| if folded.contains(&i) { 1 } else { dim }).collect()
}

/// The mean along the folded axes.
fn average(e: &mut Expression, x: usize) -> usize {
    let sum = e.push(Node::Fold(Fold::Sum, x));
    let count: usize = e.folded.iter().map(|&axis| e.dims[axis]).product();
    e.push(Node::Eltwise(Eltwise::Linear { alpha: 1.0 / count as f32, beta: 0.0 }, sum))
}

/// `1 / sqrt(x + 0.001)`
fn reciprocal_root(e: &mut Expression, x: usize) -> usize {
    let shifted = e.push(Node::Eltwise(Eltwise::Linear { alpha: 1.0, beta: 1e-3 }, x));
    e.push(Node::Eltwise(Eltwise::Pow { alpha: 1.0, beta: -0.5 }, shifted))
}

pub(super) fn binary(e: &mut Expression, algorithm: BinaryAlgorithm, a: usize, b: usize) -> usize {
    e.push(Node::Binary(algorithm, a, b))
}

fn expression(
    e: Expression,
    sources: impl IntoIterator<Item = MemoryDesc>,
    results: impl IntoIterator<Item = MemoryDesc>,
) -> PrimitiveDescBuilder {
    let builder =
        sources.into_iter().fold(PrimitiveDesc::builder(Op::Expression(e)), PrimitiveDescBuilder::src);
    let add =
        |builder: PrimitiveDescBuilder, (i, desc): (usize, MemoryDesc)| builder.arg(Arg::Dst(i as u16), desc);
    results.into_iter().enumerate().fold(builder, add)
}

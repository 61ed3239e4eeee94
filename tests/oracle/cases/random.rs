//! A case of any operation whose shapes, types and attributes follow from a seed.

use anydnn::backend::DataType::{self, BF16, Boolean, F8E4M3, F8E5M2, F16, F32, S4, S8, S32, S64, U4, U8};
use anydnn::graph::{Attrs, OpKind as K};

use super::pick::Pick;
use super::{Case, Cases, Input, Out, images, none, x};

/// The case of a kind and a seed.
pub fn case(kind: K, seed: u64) -> Case {
    let mut cases = Cases::default();
    let mut pick = Pick::new(seed.wrapping_mul(131).wrapping_add(kind as u64));
    let data_type = pick.float_type();
    add(&mut cases, kind, &mut pick).main = data_type;
    let case = cases.0.last_mut().unwrap();
    typed(case, &mut pick);
    cases.0.pop().unwrap()
}

/// Types beyond floats, for the kinds that have them.
fn typed(case: &mut Case, p: &mut Pick) {
    match case.kind {
        K::Concat | K::Reorder | K::StaticReshape | K::StaticTranspose | K::MaxPool if p.rarely(2) => {
            case.main = p.one(&[S8, U8, S32]);
        }
        K::Dequantize => {
            case.main = p.one(&[S8, U8, F8E4M3, F8E5M2]);
            if case.main.is_float() {
                let others = case.attrs.iter().filter(|(name, _)| *name != "zps");
                case.attrs = others.fold(none(), |attrs, (name, value)| attrs.with(name, value.clone()));
            }
        }
        K::DynamicDequantize => case.main = p.one(&[S8, U8, S4, U4]),
        K::Quantize | K::DynamicQuantize => case.main = F32,
        K::TypeCast => {
            let (from, to) = p.one(&[(F32, F16), (F32, BF16), (F16, F32), (BF16, F32)]);
            case.main = from;
            case.outputs[0] = Out::Is(to);
        }
        _ => {}
    }
}

fn add<'c>(cases: &'c mut Cases, kind: K, p: &mut Pick) -> &'c mut Case {
    match kind {
        K::MatMul => matmul(cases, p),
        K::ReduceL1
        | K::ReduceL2
        | K::ReduceMax
        | K::ReduceMean
        | K::ReduceMin
        | K::ReduceProd
        | K::ReduceSum => {
            let dims = p.shape(1, 4);
            let count = p.of(1, dims.len());
            let axes: Vec<i64> = p.shuffled(dims.len())[..count].iter().map(|&a| a as i64).collect();
            let axes: Vec<i64> =
                axes.iter().map(|&a| if p.rarely(3) { a - dims.len() as i64 } else { a }).collect();
            let attrs = none().with("axes", axes).with("keep_dims", p.flag() || count == dims.len());
            cases.add(kind, attrs, &[x(&dims)])
        }
        K::SoftMax | K::LogSoftmax => {
            let dims = p.shape(1, 4);
            let attrs = none().with("axis", p.axis(dims.len()));
            cases.add(kind, attrs, &[x(&dims).of(|v| 3.0 * v)])
        }
        K::SoftMaxBackward | K::LogSoftmaxBackward => {
            let dims = p.shape(1, 4);
            let attrs = none().with("axis", p.axis(dims.len()));
            let dst: fn(f64) -> f64 =
                if kind == K::SoftMaxBackward { |v| 0.1 * (v + 1.0) } else { |v| v - 2.0 };
            cases.add(kind, attrs, &[x(&dims), x(&dims).of(dst)])
        }
        K::LayerNorm | K::LayerNormBackward | K::RMSNorm | K::GroupNorm => norms(cases, kind, p),
        K::BatchNormInference | K::BatchNormForwardTraining | K::BatchNormTrainingBackward => {
            batches(cases, kind, p)
        }
        K::Concat => {
            let mut dims = p.shape(1, 4);
            let axis = p.axis(dims.len());
            let at = axis.rem_euclid(dims.len() as i64) as usize;
            let inputs: Vec<_> = (0..p.of(2, 4))
                .map(|_| {
                    dims[at] = p.of(1, 4);
                    x(&dims)
                })
                .collect();
            cases.add(kind, none().with("axis", axis), &inputs)
        }
        K::GenIndex => {
            let dims = p.shape(1, 4);
            cases.add(kind, none().with("axis", p.axis(dims.len())), &[x(&dims)])
        }
        K::Reorder => cases.add(kind, none(), &[x(&p.shape(1, 5))]),
        K::StaticReshape => {
            let dims = p.shape(2, 4);
            let order = p.shuffled(dims.len());
            let special = p.flag();
            let mut shape: Vec<i64> = order.iter().map(|&at| dims[at] as i64).collect();
            if special {
                shape = vec![0, -1];
            } else if p.flag() {
                shape[0] = -1;
            }
            let attrs = none().with("shape", shape).with("special_zero", special);
            cases.add(kind, attrs, &[x(&dims)])
        }
        K::StaticTranspose => {
            let dims = p.shape(2, 5);
            let order: Vec<i64> = p.shuffled(dims.len()).iter().map(|&at| at as i64).collect();
            cases.add(kind, none().with("order", order), &[x(&dims)])
        }
        K::Quantize | K::Dequantize | K::DynamicQuantize | K::DynamicDequantize => quantized(cases, kind, p),
        _ if images::has(kind) => images::add(cases, kind, p),
        _ => pointwise(cases, kind, p),
    }
}

fn pointwise<'c>(cases: &'c mut Cases, kind: K, p: &mut Pick) -> &'c mut Case {
    let dims = p.shape(1, 5);
    match kind {
        K::TypeCast => cases.add(kind, none(), &[x(&dims).of(|v| 100.0 * v)]),
        K::Dropout => {
            let number = |data_type| x(&[1]).typed(data_type);
            let seed = number(S64).of(|v| (1000.0 * v).round());
            let inputs = [x(&dims), seed, number(S64).of(|v| (500.0 * (v + 1.0)).round()), number(F32)];
            let [a, b, c, probability] = inputs;
            cases.add_all(kind, none(), &[a, b, c, probability.of(|v| 0.5 + 0.4 * v)], 2)
        }
        K::Add
        | K::Divide
        | K::GreaterEqual
        | K::Maximum
        | K::Minimum
        | K::Multiply
        | K::SquaredDifference
        | K::Subtract => {
            let other = p.stretching(&dims);
            let first = if p.rarely(4) && other.len() == dims.len() {
                dims.iter().zip(&other).map(|(&d, &o)| if o != 1 && p.flag() { 1 } else { d }).collect()
            } else {
                dims
            };
            let divisor: fn(f64) -> f64 = |v| if v < 0.0 { v - 0.5 } else { v + 0.5 };
            cases.add(kind, none(), &[x(&first), x(&other).of(divisor)])
        }
        K::Select => {
            let (cond, other) = (p.stretching(&dims), p.stretching(&dims));
            cases.add(kind, none(), &[x(&cond).typed(Boolean), x(&dims), x(&other)])
        }
        K::BiasAdd | K::BiasAddBackward | K::PReLU | K::PReLUBackward => channels(cases, kind, p),
        _ => functions(cases, kind, &dims, p),
    }
}

/// Functions of one operand, and gradients.
fn functions<'c>(cases: &'c mut Cases, kind: K, dims: &[usize], p: &mut Pick) -> &'c mut Case {
    let is_gradient = kind.name().ends_with("Backward");
    let mut attrs = match kind {
        K::Clamp | K::ClampBackward => none().with("min", p.float(-2.0, 0.0)).with("max", p.float(0.25, 2.0)),
        K::Elu | K::EluBackward => none().with("alpha", p.float(0.25, 2.0)),
        K::LeakyReLU => none().with("alpha", p.float(0.0, 1.0)),
        K::GELU | K::GELUBackward => none().with("mode", p.one(&["gelu_erf", "gelu_tanh"])),
        K::HardSigmoid | K::HardSigmoidBackward => {
            none().with("alpha", p.float(0.1, 0.5)).with("beta", p.float(0.2, 0.7))
        }
        K::SoftPlus | K::SoftPlusBackward => none().with("beta", p.one(&[1.0_f32, 2.5, -1.5, 0.5])),
        K::Pow => none().with("beta", p.one(&[2.0_f32, 3.0, 0.5, -0.5, -1.0, 1.0, 0.0, 1.7])),
        _ => none(),
    };
    let mut from_dst = false;
    if matches!(
        kind,
        K::ClampBackward
            | K::EluBackward
            | K::ReLUBackward
            | K::SigmoidBackward
            | K::SqrtBackward
            | K::TanhBackward
    ) {
        from_dst = p.flag();
        attrs = attrs.with("use_dst", from_dst);
    }
    let change: fn(f64) -> f64 = match kind {
        K::Log | K::Reciprocal | K::Sqrt | K::Pow => |v| 2.5 + 2.0 * v,
        K::SqrtBackward => |v| 1.5 + v,
        // A destination of these lies within the function's range.
        K::EluBackward if from_dst => |v| 0.2 * v,
        K::SigmoidBackward if from_dst => |v| 0.5 + 0.45 * v,
        K::TanhBackward if from_dst => |v| v,
        _ => |v| 4.0 * v,
    };
    let src = x(dims).of(change);
    if is_gradient { cases.add(kind, attrs, &[src, x(dims)]) } else { cases.add(kind, attrs, &[src]) }
}

fn channels<'c>(cases: &'c mut Cases, kind: K, p: &mut Pick) -> &'c mut Case {
    let dims = p.shape(3, 5);
    let format = p.one(&["NXC", "NCX"]);
    let c = if format == "NCX" { dims[1] } else { dims[dims.len() - 1] };
    let attrs = none().with("data_format", format);
    match kind {
        K::BiasAddBackward => cases.add(kind, attrs, &[x(&dims)]),
        K::BiasAdd | K::PReLU => cases.add(kind, attrs, &[x(&dims), x(&[c])]),
        _ => cases.add_all(kind, attrs, &[x(&dims), x(&[c]), x(&dims)], 2),
    }
}

fn matmul<'c>(cases: &'c mut Cases, p: &mut Pick) -> &'c mut Case {
    let (flip_a, flip_b) = (p.flag(), p.flag());
    let (m, k, n) = (p.of(1, 9), p.of(1, 24), p.of(1, 9));
    let leading = p.of(0, 2);
    let batch = p.dims(leading, 1, 3);
    let side = |batch: &[usize], rows: usize, columns: usize, flip: bool| {
        let mut dims = batch.to_vec();
        dims.extend(if flip { [columns, rows] } else { [rows, columns] });
        dims
    };
    let theirs: Vec<usize> = batch.iter().map(|&dim| if p.rarely(3) { 1 } else { dim }).collect();
    let mut inputs = vec![x(&side(&batch, m, k, flip_a)), x(&side(&theirs, k, n, flip_b))];
    if p.rarely(3) {
        inputs.push(x(&[n]));
    }
    let attrs = none().with("transpose_a", flip_a).with("transpose_b", flip_b);
    cases.add(K::MatMul, attrs, &inputs)
}

fn norms<'c>(cases: &'c mut Cases, kind: K, p: &mut Pick) -> &'c mut Case {
    let vector = |dims: &[usize]| x(dims).typed(F32);
    let mut dims = p.shape(2, 4);
    let last = dims.len() - 1;
    dims[last] += 1;
    let c = dims[last];
    let (stats, affine) = (p.flag(), p.flag());
    let flags =
        |attrs: Attrs| attrs.with("keep_stats", stats).with("use_affine", affine).with("epsilon", 1e-3_f32);
    let outputs = if stats { 3 } else { 1 };
    match kind {
        K::LayerNorm => {
            let mut inputs = vec![x(&dims)];
            if affine {
                inputs.extend([vector(&[c]), vector(&[c])]);
            }
            cases.add_all(kind, flags(none()), &inputs, outputs)
        }
        K::LayerNormBackward => {
            let outer = &dims[..last];
            let mut inputs = vec![x(&dims), x(&dims), vector(outer), vector(outer).of(|v| 1.5 + v)];
            if affine {
                inputs.extend([vector(&[c]), vector(&[c])]);
            }
            let attrs = none().with("use_affine", affine).with("epsilon", 1e-3_f32);
            cases.add_all(kind, attrs, &inputs, if affine { 3 } else { 1 })
        }
        K::RMSNorm => {
            let mut inputs = vec![x(&dims)];
            if affine {
                inputs.push(vector(&[c]));
            }
            cases.add(kind, none().with("epsilon", 1e-3_f32), &inputs)
        }
        _ => {
            let format = p.one(&["NXC", "NCX"]);
            let (groups, size) = (p.of(1, 3), p.of(1, 3));
            let rank = p.of(3, 4);
            let mut dims = p.dims(rank, 2, 4);
            let axis = if format == "NCX" { 1 } else { rank - 1 };
            dims[axis] = groups * size;
            let mut inputs = vec![x(&dims)];
            if affine {
                inputs.extend([vector(&[dims[axis]]), vector(&[dims[axis]])]);
            }
            let attrs = flags(none()).with("groups", groups as i64).with("data_format", format);
            cases.add_all(kind, attrs, &inputs, outputs)
        }
    }
}

fn batches<'c>(cases: &'c mut Cases, kind: K, p: &mut Pick) -> &'c mut Case {
    let rank = p.of(2, 5);
    let dims = p.dims(rank, 2, 4);
    let format = p.one(&["NXC", "NCX"]);
    let c = if format == "NCX" { dims[1] } else { dims[rank - 1] };
    let v = || x(&[c]).typed(F32);
    let positive = || v().of(|v| 1.5 + v);
    let attrs = none().with("epsilon", p.one(&[1e-3_f32, 1e-2])).with("data_format", format);
    match kind {
        K::BatchNormInference => cases.add(kind, attrs, &[x(&dims), v(), v(), v(), positive()]),
        K::BatchNormForwardTraining => {
            let mut inputs = vec![x(&dims), v(), positive()];
            if p.flag() {
                inputs.extend([v(), v()]);
            }
            cases.add_all(kind, attrs.with("momentum", p.float(0.1, 0.9)), &inputs, 5)
        }
        _ => {
            let mut inputs = vec![x(&dims), x(&dims), v(), positive()];
            let affine = p.flag();
            if affine {
                inputs.push(v());
            }
            cases.add_all(kind, attrs, &inputs, if affine { 3 } else { 1 })
        }
    }
}

/// Scales are powers of two, so that a quotient falls on the same side of a half for everybody.
fn quantized<'c>(cases: &'c mut Cases, kind: K, p: &mut Pick) -> &'c mut Case {
    let dims = p.shape(2, 4);
    let quantize = matches!(kind, K::Quantize | K::DynamicQuantize);
    let src = if quantize { x(&dims).of(|v| 24.0 * v) } else { x(&dims) };
    let per_channel = p.flag();
    let axis = p.axis(dims.len());
    let count = if per_channel { dims[axis.rem_euclid(dims.len() as i64) as usize] } else { 1 };
    let to: DataType = p.one(&[S8, U8]);
    let attrs = none().with("qtype", if per_channel { "per_channel" } else { "per_tensor" });
    let attrs = if per_channel { attrs.with("axis", axis) } else { attrs };
    let case = if matches!(kind, K::Quantize | K::Dequantize) {
        let scales: Vec<f32> = (0..count).map(|_| p.one(&[0.125_f32, 0.25, 0.5])).collect();
        let zps: Vec<i64> = if per_channel || kind == K::Dequantize {
            vec![0; count]
        } else {
            vec![p.of(0, 9) as i64 - if to == S8 { 5 } else { 0 }]
        };
        cases.add(kind, attrs.with("scales", scales).with("zps", zps), &[src])
    } else {
        let scales: Input = x(&[count]).typed(F32).of(|v| if v < 0.0 { 0.125 } else { 0.25 });
        let mut inputs = vec![src, scales];
        if p.flag() {
            inputs.push(x(&[count]).typed(S32).of(|v| (4.0 * v).round()));
        }
        cases.add(kind, attrs, &inputs)
    };
    if quantize {
        case.outputs[0] = Out::Is(to);
    }
    case
}

//! A primitive as a graph, which is what peers are told.

use anydnn::backend::op::{Activation, Cell, Direction, Parameter};
use anydnn::backend::{DataType, Eltwise, FpMath, Result};
use anydnn::graph::{Attrs, Graph, GraphBuilder, LogicalTensor, OpKind, TensorId};

use super::spec::{FewBits, Fold, Pair, Post, Spec, Window, Work};

/// The graph of a primitive and its post-operations. Integers are dequantised, which the product then does not do one by one.
pub(crate) fn graph(spec: &Spec) -> Result<Graph> {
    let mut g = GraphBuilder::new().with_fpmath(if spec.tf32 { FpMath::TF32 } else { FpMath::default() });
    let data_type = spec.result_type();
    let (bias, post_ops) = match spec.post_ops.split_first() {
        Some((Post::Bias, rest)) => (true, rest),
        _ => (false, &spec.post_ops[..]),
    };
    let mut value = work(&mut g, spec, bias)?;
    for (i, post) in post_ops.iter().enumerate() {
        let name = format!("post{i}");
        value = match post {
            Post::Bias => value,
            Post::Function(f) => function(&mut g, &name, *f, value)?,
            Post::Pair(pair) => {
                let other = g.input(&format!("other{i}"), data_type, spec.result());
                g.op(&name, pair_kind(*pair), &[value, other], Attrs::new())?
            }
        };
    }
    g.output(value);
    g.build()
}

fn work(g: &mut GraphBuilder, spec: &Spec, bias: bool) -> Result<TensorId> {
    let t = spec.data_type;
    match &spec.work {
        Work::MatMul { src, weights } => {
            let x = g.input("src", t, src.clone());
            let w = match (spec.weights, weights.len()) {
                (Some(few), _) => few_bits(g, few, weights, t)?,
                (None, 2) => {
                    let w = g.constant("weights", weights_type(t), weights.clone());
                    dequantized(g, w, "weights_float", t)?
                }
                _ => {
                    let w = g.input("weights", weights_type(t), weights.clone());
                    dequantized(g, w, "weights_float", t)?
                }
            };
            let mut inputs = vec![dequantized(g, x, "src_float", t)?, w];
            if bias {
                inputs.push(g.constant("bias", spec.result_type(), [weights[weights.len() - 1]]));
            }
            let made = g.op("matmul", OpKind::MatMul, &inputs, Attrs::new())?;
            if t.bits() == 8 && t.is_float() {
                let data_type = Some(spec.result_type());
                g.add_tensor(LogicalTensor { data_type, ..LogicalTensor::unknown(made) })?;
            }
            Ok(made)
        }
        Work::Convolution { src, outputs, window, groups } => {
            let x = g.input("src", t, *src);
            let [kh, kw] = window.kernel;
            let w = g.constant("weights", weights_type(t), [kh, kw, src[3] / groups, *outputs]);
            let mut inputs = vec![dequantized(g, x, "src_float", t)?, dequantized(g, w, "weights_float", t)?];
            if bias {
                inputs.push(g.constant("bias", spec.result_type(), [*outputs]));
            }
            let attrs = windowed(window)
                .with("dilations", pair(window.dilation))
                .with("groups", *groups as i64)
                .with("weights_format", "XIO");
            g.op("conv", OpKind::Convolution, &inputs, attrs)
        }
        Work::Pooling { src, window, average } => {
            let x = g.input("src", t, *src);
            let attrs = windowed(window).with("kernel", pair(window.kernel));
            if *average {
                return g.op("pool", OpKind::AvgPool, &[x], attrs.with("exclude_pad", true));
            }
            g.op("pool", OpKind::MaxPool, &[x], attrs.with("dilations", pair(window.dilation)))
        }
        Work::Softmax { dims } => {
            let x = g.input("src", t, dims.clone());
            g.op("softmax", OpKind::SoftMax, &[x], Attrs::new().with("axis", -1_i64))
        }
        Work::LayerNorm { dims, rms } => {
            let x = g.input("src", t, dims.clone());
            let size = dims[dims.len() - 1];
            let gamma = g.constant("gamma", DataType::F32, [size]);
            let attrs = Attrs::new().with("begin_norm_axis", -1_i64).with("epsilon", 1e-5_f32);
            if *rms {
                return g.op("rmsnorm", OpKind::RMSNorm, &[x, gamma], attrs);
            }
            let beta = g.constant("beta", DataType::F32, [size]);
            g.op("layernorm", OpKind::LayerNorm, &[x, gamma, beta], attrs.with("keep_stats", false))
        }
        Work::BatchNorm { src } => {
            let x = g.input("src", t, *src);
            let vector = |g: &mut GraphBuilder, name| g.constant(name, DataType::F32, [src[3]]);
            let [gamma, beta, mean] = ["gamma", "beta", "mean"].map(|name| vector(g, name));
            let variance = vector(g, "variance");
            let attrs = Attrs::new().with("epsilon", 1e-5_f32).with("data_format", "NXC");
            g.op("batchnorm", OpKind::BatchNormInference, &[x, gamma, beta, mean, variance], attrs)
        }
        Work::Reduction { fold, dims } => {
            let x = g.input("src", t, dims.clone());
            let kind = match fold {
                Fold::Sum => OpKind::ReduceSum,
                Fold::Mean => OpKind::ReduceMean,
                Fold::Max => OpKind::ReduceMax,
                Fold::Min => OpKind::ReduceMin,
            };
            g.op("reduce", kind, &[x], Attrs::new().with("axes", [-1]).with("keep_dims", true))
        }
        Work::Eltwise { function: f, dims } => {
            let x = g.input("src", t, dims.clone());
            function(g, "eltwise", *f, x)
        }
        Work::Binary { function, dims } => {
            let (a, b) = (g.input("src0", t, dims.clone()), g.input("src1", t, dims.clone()));
            g.op("binary", pair_kind(*function), &[a, b], Attrs::new())
        }
        Work::Attention { batch, heads, groups, queries, keys, size, causal } => {
            let q = g.input("query", t, [*batch, *heads, *queries, *size]);
            let [k, v] = ["key", "value"].map(|name| g.input(name, t, [*batch, *groups, *keys, *size]));
            attention(
                g,
                "attention",
                [q, k, v],
                [*batch, *heads, *groups, *queries, *keys, *size],
                *causal,
                t,
            )
        }
        Work::Recurrent { cell, direction, steps, batch, inputs, hidden } => {
            let (d, rows) = (direction.count(), cell.gates() * hidden);
            let x = g.input("src", t, [*steps, *batch, *inputs]);
            let weights = g.constant("weights", t, [d, rows, *inputs]);
            let state_weights = g.constant("state_weights", t, [d, rows, *hidden]);
            let biases = g.constant("bias", t, [d, 2 * rows]);
            let attrs = Attrs::new()
                .with("cell", cell_word(*cell))
                .with("direction", direction_word(*direction))
                .with("bias", true);
            g.op("layer", OpKind::Recurrent, &[x, weights, state_weights, biases], attrs)
        }
        Work::Copy { dims } => {
            let x = g.input("src", t, dims.clone());
            g.op("copy", OpKind::Reorder, &[x], Attrs::new())
        }
    }
}

const fn cell_word(cell: Cell) -> &'static str {
    match cell {
        // The notation has no slopes.
        Cell::Vanilla(Activation::Relu | Activation::LeakyRelu { .. }) => "relu",
        Cell::Vanilla(Activation::Tanh) => "tanh",
        Cell::Vanilla(Activation::Logistic) => "logistic",
        Cell::Lstm(_) => "lstm",
        Cell::Gru => "gru",
        Cell::GruLinearBeforeReset => "linear_gru",
    }
}

const fn direction_word(direction: Direction) -> &'static str {
    match direction {
        Direction::LeftToRight => "forward",
        Direction::RightToLeft => "reverse",
        Direction::Concat | Direction::Sum => "bidirectional",
    }
}

/// Weights of integers have a sign.
const fn weights_type(t: DataType) -> DataType {
    if let DataType::U8 = t { DataType::S8 } else { t }
}

/// Constant weights of few bits as floats.
fn few_bits(g: &mut GraphBuilder, few: FewBits, dims: &[usize], t: DataType) -> Result<TensorId> {
    let FewBits { data_type, group } = few;
    let group = group.unwrap_or(dims[0]);
    let scales = vec![dims[0] / group, dims[1]];
    let w = g.constant("weights", data_type, dims.to_vec());
    let mut inputs = vec![w, g.constant("scales", t, scales.clone())];
    if matches!(data_type, DataType::U4 | DataType::U8) {
        inputs.push(g.constant("points", data_type, scales));
    }
    let attrs = Attrs::new().with("qtype", "per_group").with("group_shape", vec![group as i64, 1]);
    let made = g.op("weights_float", OpKind::DynamicDequantize, &inputs, attrs)?;
    g.add_tensor(LogicalTensor { data_type: Some(t), ..LogicalTensor::unknown(made) })?;
    Ok(made)
}

/// Integers as floats; floats as they are.
fn dequantized(g: &mut GraphBuilder, x: TensorId, name: &str, t: DataType) -> Result<TensorId> {
    if !t.is_integer() {
        return Ok(x);
    }
    let attrs = Attrs::new().with("qtype", "per_tensor").with("scales", vec![0.0625_f32]).with("zps", [0]);
    g.op(name, OpKind::Dequantize, &[x], attrs)
}

/// `softmax(Q K^T / sqrt(D) + mask) V` with sizes `[B, H, G, S, T, D]`; a causal mask looks back from the last keys.
pub(crate) fn attention(
    g: &mut GraphBuilder,
    name: &str,
    [q, k, v]: [TensorId; 3],
    [batch, heads, groups, queries, keys, size]: [usize; 6],
    causal: bool,
    t: DataType,
) -> Result<TensorId> {
    let op = |g: &mut GraphBuilder, part: &str, kind, inputs: &[TensorId], attrs| {
        g.op(&format!("{name}_{part}"), kind, inputs, attrs)
    };
    let shape = |dims: &[usize]| {
        let dims: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
        Attrs::new().with("shape", dims).with("special_zero", false)
    };
    let scale = g.constant(&format!("{name}_scale"), t, [1]);
    let grouped = heads != groups;
    let (mut q, mut k, mut v) = (q, k, v);
    if grouped {
        // Neighbouring heads share their keys and values.
        q = op(g, "q5", OpKind::StaticReshape, &[q], shape(&[batch, groups, heads / groups, queries, size]))?;
        k = op(g, "k5", OpKind::StaticReshape, &[k], shape(&[batch, groups, 1, keys, size]))?;
        v = op(g, "v5", OpKind::StaticReshape, &[v], shape(&[batch, groups, 1, keys, size]))?;
    }
    let scores = op(g, "scores", OpKind::MatMul, &[q, k], Attrs::new().with("transpose_b", true))?;
    let mut scores = op(g, "scaled", OpKind::Divide, &[scores, scale], Attrs::new())?;
    if causal {
        let axes = if grouped { [3, 4] } else { [2, 3] };
        let row = op(g, "row", OpKind::GenIndex, &[scores], Attrs::new().with("axis", axes[0]))?;
        let column = op(g, "column", OpKind::GenIndex, &[scores], Attrs::new().with("axis", axes[1]))?;
        let seen = op(g, "seen", OpKind::GreaterEqual, &[row, column], Attrs::new())?;
        let never = g.constant(&format!("{name}_never"), t, [1]);
        scores = op(g, "masked", OpKind::Select, &[seen, scores, never], Attrs::new())?;
    }
    let attrs = Attrs::new().with("axis", -1_i64).with("mode", "inf_as_zero");
    let weights = op(g, "softmax", OpKind::SoftMax, &[scores], attrs)?;
    let out = op(g, "out", OpKind::MatMul, &[weights, v], Attrs::new())?;
    if !grouped {
        return Ok(out);
    }
    op(g, "out4", OpKind::StaticReshape, &[out], shape(&[batch, heads, queries, size]))
}

fn function(g: &mut GraphBuilder, name: &str, function: Eltwise, x: TensorId) -> Result<TensorId> {
    let Some(graph) = function.row().graph else {
        // The notation has one function that is no operation: its argument times the logistic function of it.
        let sigmoid = g.op(&format!("{name}_sigmoid"), OpKind::Sigmoid, &[x], Attrs::new())?;
        return g.op(name, OpKind::Multiply, &[x, sigmoid], Attrs::new());
    };
    let mut attrs = Attrs::new();
    for (parameter, value) in graph.parameters.iter().zip(function.parameters()) {
        if let Parameter::Attribute(name, _) = parameter {
            attrs.set(name, value);
        }
    }
    if let Some((name, word)) = graph.chosen_by {
        attrs.set(name, word);
    }
    g.op(name, graph.operation.parse()?, &[x], attrs)
}

const fn pair_kind(pair: Pair) -> OpKind {
    match pair {
        Pair::Add => OpKind::Add,
        Pair::Multiply => OpKind::Multiply,
        Pair::Subtract => OpKind::Subtract,
        Pair::Divide => OpKind::Divide,
        Pair::Maximum => OpKind::Maximum,
        Pair::Minimum => OpKind::Minimum,
    }
}

fn windowed(window: &Window) -> Attrs {
    Attrs::new()
        .with("strides", pair(window.stride))
        .with("pads_begin", pair(window.pad))
        .with("pads_end", pair(window.pad))
        .with("data_format", "NXC")
}

fn pair(numbers: [usize; 2]) -> [i64; 2] {
    numbers.map(|number| number as i64)
}

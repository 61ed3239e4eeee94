//! Expressions of random nodes, and attention.

use super::choices::Choices;
use super::operand::{FUNCTIONS, Quantization, Role, by_blocks, finished, modes, operand, placed, post_ops};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::{Attention, Expression, Fold, Node};
use crate::{
    Arg, Attributes, BinaryAlgorithm, DataType, Dims, Eltwise, MemoryDesc, Op, PrimitiveDesc, Quantized,
    Result,
};

/// What is known of a node.
#[derive(Clone, Copy, Debug)]
struct Known {
    node: usize,
    /// A bound of its magnitude.
    most: f64,
    /// Whether every device computes the same.
    exact: bool,
    varies: bool,
}

/// The largest magnitude of a node.
const MOST: f64 = 32.0;

pub(super) fn expression(choices: &mut Choices) -> Result<Trial> {
    let limit = choices.limits().elements;
    let dims = choices.dims(5, limit);
    let folded: Dims = (0..dims.len()).filter(|_| choices.one_in(3)).collect();
    let sources = 1 + choices.below(4);
    let mut types = Vec::new();
    let mut descs: Vec<MemoryDesc> = Vec::new();
    for _ in 0..sources {
        let own = choices.data_type(&super::elementwise::ALL)?;
        let own_dims = if choices.one_in(3) { by_blocks(choices, &dims)? } else { dims.to_vec() };
        types.push(own);
        descs.push(operand(choices, Role::Source, &own_dims, own)?);
    }
    let mut e = Expression::new(dims.clone()).with_folded(folded);
    let mut known: Vec<Known> = Vec::new();
    for (i, own) in types.iter().enumerate() {
        let most = if own.is_float() { 2.0 } else { 9.0 };
        known.push(Known { node: e.push(Node::Operand(i as u16)), most, exact: true, varies: true });
    }
    let count = 1 + choices.below(8);
    for _ in 0..count {
        if let Some(next) = node(choices, &mut e, &known)? {
            known.push(next);
        }
    }
    let last = known[known.len() - 1].node;
    e.results.push(last);
    if choices.one_in(4) {
        let other = choices.below(known.len());
        e.results.push(known[other].node);
    }
    let varies = e.varies(|i| descs.get(usize::from(i)).map(|desc| desc.dims().clone()));
    let folded = e.folded_dims();
    let results = e.results.clone();
    let mut builder = PrimitiveDesc::builder(Op::Expression(e));
    builder = descs.into_iter().fold(builder, crate::PrimitiveDescBuilder::src);
    for (i, &result) in results.iter().enumerate() {
        let whole = varies[result] || choices.one_in(4);
        let own_dims = if whole { &dims } else { &folded };
        let data_type = choices.data_type(&[DataType::F32, DataType::F16, DataType::BF16])?;
        let role = if i == 0 { Role::Result } else { Role::Side };
        builder = builder.arg(Arg::Dst(i as u16), operand(choices, role, own_dims, data_type)?);
    }
    finished(choices, builder)
}

/// One more node over those that are known; none where none fits.
fn node(choices: &mut Choices, e: &mut Expression, known: &[Known]) -> Result<Option<Known>> {
    let a = choices.pick(known)?;
    let b = choices.pick(known)?;
    let both = |node, most, exact| Some(Known { node, most, exact, varies: a.varies || b.varies });
    let one = |node, most, exact| Some(Known { node, most, exact, varies: a.varies });
    Ok(match choices.below(10) {
        0 => {
            let function = choices.pick(&FUNCTIONS)?;
            let most = (1.5 * a.most + 1.0).min(MOST * 2.0);
            if most > MOST { None } else { one(e.push(Node::Eltwise(function, a.node)), most, false) }
        }
        1 if a.most + b.most <= MOST => {
            let algorithm = choices.pick(&[BinaryAlgorithm::Add, BinaryAlgorithm::Subtract])?;
            both(e.push(Node::Binary(algorithm, a.node, b.node)), a.most + b.most, false)
        }
        2 if a.most * b.most <= MOST => {
            both(e.push(Node::Binary(BinaryAlgorithm::Multiply, a.node, b.node)), a.most * b.most, false)
        }
        3 => {
            let algorithm = choices.pick(&[BinaryAlgorithm::Maximum, BinaryAlgorithm::Minimum])?;
            let exact = a.exact && b.exact;
            both(e.push(Node::Binary(algorithm, a.node, b.node)), a.most.max(b.most), exact)
        }
        4 if a.exact && b.exact => {
            use BinaryAlgorithm::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
            let algorithm = choices.pick(&[Greater, GreaterEqual, Less, LessEqual, Equal, NotEqual])?;
            let condition = e.push(Node::Binary(algorithm, a.node, b.node));
            let (yes, no) = (choices.pick(known)?, choices.pick(known)?);
            let select = e.push(Node::Select(condition, yes.node, no.node));
            let most = yes.most.max(no.most);
            Some(Known { node: select, most, exact: yes.exact && no.exact, varies: true })
        }
        5 => {
            use DataType::{BF16, F16, F32, S8, S32};
            let list: &[DataType] = if a.exact { &[F16, BF16, F32, S8, S32] } else { &[F16, BF16, F32] };
            one(e.push(Node::Cast(choices.pick(list)?, a.node)), a.most + 1.0, a.exact)
        }
        6 if !e.dims.is_empty() => {
            let axis = choices.below(e.dims.len());
            let index = e.push(Node::Index(axis));
            // Small beside the other values.
            let alpha = 1.0 / e.dims[axis] as f32;
            let node = e.push(Node::Eltwise(Eltwise::Linear { alpha, beta: 0.0 }, index));
            Some(Known { node, most: 1.0, exact: false, varies: true })
        }
        7 if a.varies => {
            let fold = choices.pick(&[Fold::Sum, Fold::Max, Fold::Min])?;
            let node = e.push(Node::Fold(fold, a.node));
            if fold == Fold::Sum {
                let count: usize = e.folded.iter().map(|&axis| e.dims[axis]).product();
                let alpha = 1.0 / count as f32;
                let mean = e.push(Node::Eltwise(Eltwise::Linear { alpha, beta: 0.0 }, node));
                Some(Known { node: mean, most: a.most, exact: false, varies: false })
            } else {
                Some(Known { node, most: a.most, exact: a.exact, varies: false })
            }
        }
        8 => {
            let value = choices.pick(&[0.0, 1.0, -0.5, 2.0])?;
            let node = e.push(Node::Constant(value));
            Some(Known { node, most: 2.0, exact: true, varies: false })
        }
        9 if a.most * b.most <= MOST => {
            let functions =
                [Eltwise::Tanh, Eltwise::Sigmoid, Eltwise::Swish { alpha: 1.0 }, Eltwise::GeluErf];
            let function = choices.pick(&functions)?;
            let gradient = Node::Gradient { function, of_result: false, at: a.node, diff: b.node };
            both(e.push(gradient), 2.0 * b.most, false)
        }
        _ => None,
    })
}

pub(super) fn attention(choices: &mut Choices) -> Result<Trial> {
    let limits = choices.limits();
    let rank = [4, 3, 2][choices.below(3)];
    let most: Vec<usize> =
        [8192, 8192, 256, 256].into_iter().chain(std::iter::repeat_n(16, rank - 2)).collect();
    let sizes = choices.sizes_where(&most, |s| {
        let batches: usize = s[4..].iter().product();
        batches * s[0] * s[1] * (s[2] + s[3]) <= limits.work / 4
            && batches * s[0].max(s[1]) * s[2].max(s[3]) <= limits.elements
    });
    let (queries, keys, size, columns) = (sizes[0], sizes[1], sizes[2], sizes[3]);
    let columns = if choices.one_in(4) { columns } else { size };
    let batch = &sizes[4..];
    let shared: Vec<usize> = batch
        .iter()
        .map(|&extent| if choices.one_in(3) { choices.divisor(extent) } else { extent })
        .collect();
    let own = choices.data_type(&[DataType::F32, DataType::F16, DataType::BF16])?;
    let quantized = choices.one_in(6);
    let stored = if quantized { choices.pick(&[DataType::S8, DataType::U8])? } else { own };
    let shape = |batch: &[usize], rows: usize, columns: usize| [batch, &[rows, columns]].concat();
    let query = operand(choices, Role::Source, &shape(batch, queries, size), own)?;
    let key = operand(choices, Role::Source, &shape(&shared, keys, size), stored)?;
    let value = operand(choices, Role::Source, &shape(&shared, keys, columns), stored)?;
    let dst = operand(choices, Role::Result, &shape(batch, queries, columns), own)?;
    let space = shape(batch, queries, keys);
    let mut scores = Expression::new(space.clone());
    let product = scores.push(Node::Operand(0));
    let alpha = 1.0 / (size as f32).sqrt();
    let mut x = scores.push(Node::Eltwise(Eltwise::Linear { alpha, beta: 0.0 }, product));
    if choices.one_in(6) {
        x = scores.push(Node::Eltwise(Eltwise::Tanh, x));
        x = scores.push(Node::Eltwise(Eltwise::Linear { alpha: 2.0, beta: 0.0 }, x));
    }
    let mut builder_mask = None;
    match choices.pick_often_first(&["none", "causal", "sum", "condition"])? {
        "causal" => {
            let [row, column] = [rank - 2, rank - 1].map(|axis| scores.push(Node::Index(axis)));
            let seen = scores.push(Node::Binary(BinaryAlgorithm::GreaterEqual, row, column));
            let hidden = scores.push(Node::Constant(f32::NEG_INFINITY));
            x = scores.push(Node::Select(seen, x, hidden));
        }
        "sum" => {
            let mask = by_blocks(choices, &space)?;
            let node = scores.push(Node::Operand(1));
            x = scores.push(Node::Binary(BinaryAlgorithm::Add, x, node));
            builder_mask = Some(operand(choices, Role::Side, &mask, own)?);
        }
        "condition" => {
            let mask = by_blocks(choices, &space)?;
            let node = scores.push(Node::Operand(1));
            let hidden = scores.push(Node::Constant(-1e4));
            x = scores.push(Node::Select(node, x, hidden));
            builder_mask = Some(operand(choices, Role::Side, &mask, DataType::Boolean)?);
        }
        _ => {}
    }
    scores.results = vec![x];
    let mut op = Attention::new(scores);
    op.inf_as_zero = choices.one_in(3);
    let mut builder =
        PrimitiveDesc::builder(Op::Attention(op)).src(query).src(key.clone()).src(value.clone());
    builder = builder_mask.into_iter().fold(builder, crate::PrimitiveDescBuilder::src);
    if choices.one_in(4) {
        builder = builder.arg(Arg::Dst(1), MemoryDesc::new(shape(batch, queries, 1), DataType::F32));
    }
    let mut quantization = Quantization::default();
    if quantized {
        quantization.add(choices, Quantized::Src(1), &key, 2.0)?;
        quantization.add(choices, Quantized::Src(2), &value, 2.0)?;
    }
    let attributes = Attributes { dequantize: quantization.list, ..Attributes::default() };
    let attributes = post_ops(choices, attributes, &dst)?;
    let attributes = modes(choices, attributes);
    let mut trial = Trial::of(builder.dst(dst).attributes(attributes))?;
    for (arg, values) in quantization.values {
        trial = trial.values(arg, values);
    }
    placed(choices, trial.values(Arg::SRC, Values::Uniform(-2.0, 2.0)))
}

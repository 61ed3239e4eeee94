use super::expression::binary;
use super::{Trials, dense, f32, strided, transposed};
use crate::conformance::trial::Trial;
use crate::conformance::values::Values;
use crate::op::{Attention, Expression, Node};
use crate::{
    Arg, Attributes, BinaryAlgorithm, DataType, Dequantize, Dims, Eltwise, MemoryDesc, Op, PostOp,
    PrimitiveDesc, PrimitiveDescBuilder, Quantized,
};

pub(super) fn trials(list: &mut Trials) {
    shapes(list);
    masks(list);
    functions(list);
    layouts(list);
    quantized(list);
}

fn shapes(list: &mut Trials) {
    for (name, query, key, columns) in [
        ("heads", &[2, 3, 9, 8][..], &[2, 3, 11, 8][..], 8),
        ("matrices", &[5, 16], &[7, 16], 12),
        ("one_query", &[2, 2, 1, 16], &[2, 2, 67, 16], 16),
        ("past_a_tile", &[1, 2, 35, 64], &[1, 2, 131, 64], 64),
        ("odd_depth", &[1, 1, 6, 7], &[1, 1, 5, 7], 3),
        // Two and three key heads for six query heads, one batch of keys for two.
        ("grouped_heads", &[1, 6, 7, 8], &[1, 2, 9, 8], 8),
        ("one_key_head", &[2, 4, 3, 8], &[1, 1, 9, 8], 8),
        ("one_key", &[2, 5, 8], &[2, 1, 8], 8),
    ] {
        list.add(format!("attention/shape/{name}"), || {
            let key = Dims::new(key);
            Trial::of(attention(scaled(&space(query, &key)), f32(query), f32(&key), value_of(&key, columns)))
        });
    }
    for data_type in [DataType::F16, DataType::BF16] {
        list.add(format!("attention/{data_type}"), || {
            let (query, key) = ([1, 2, 12, 32], Dims::from([1, 2, 20, 32]));
            let value = dense(&key, data_type);
            Trial::of(attention(
                scaled(&space(&query, &key)),
                dense(&query, data_type),
                dense(&key, data_type),
                value,
            ))
        });
    }
}

fn masks(list: &mut Trials) {
    let (query, key) = ([2, 3, 9, 8], Dims::from([2, 3, 11, 8]));
    let dims = space(&query, &key);
    for (name, mask) in
        [("full", &[2, 3, 9, 11][..]), ("of_batches", &[2, 1, 1, 11]), ("of_rows_and_columns", &[9, 11])]
    {
        list.add(format!("attention/mask/{name}"), || {
            let mut op = scaled(&dims);
            let (x, mask_node) = (op.scores.results[0], op.scores.push(Node::Operand(1)));
            op.scores.results = vec![binary(&mut op.scores, BinaryAlgorithm::Add, x, mask_node)];
            let builder = attention(op, f32(&query), f32(&key), f32(&key)).arg(Arg::Src(3), f32(mask));
            Trial::of(builder)
        });
    }
    list.add("attention/mask/causal", || {
        let mut op = scaled(&dims);
        let x = op.scores.results[0];
        let [row, column] = [2, 3].map(|axis| op.scores.push(Node::Index(axis)));
        let seen = binary(&mut op.scores, BinaryAlgorithm::GreaterEqual, row, column);
        let hidden = op.scores.push(Node::Constant(f32::NEG_INFINITY));
        op.scores.results = vec![op.scores.push(Node::Select(seen, x, hidden))];
        Trial::of(attention(op, f32(&query), f32(&key), f32(&key)))
    });
    // Every third row of the second mask sees nothing.
    for inf_as_zero in [true, false] {
        let name = if inf_as_zero { "zero" } else { "nan" };
        list.add(format!("attention/mask/rows_of_nothing_give_{name}"), || {
            let mut op = scaled(&dims);
            op.inf_as_zero = inf_as_zero;
            let (x, mask) = (op.scores.results[0], op.scores.push(Node::Operand(1)));
            let hidden = op.scores.push(Node::Constant(f32::NEG_INFINITY));
            op.scores.results = vec![op.scores.push(Node::Select(mask, x, hidden))];
            let builder = attention(op, f32(&query), f32(&key), f32(&key))
                .arg(Arg::Src(3), dense(&[9, 11], DataType::Boolean))
                .arg(Arg::Dst(1), f32(&[2, 3, 9, 1]));
            let seen = (0..99).map(|i| f64::from(u8::from(i / 11 % 3 != 1 && i % 4 != 2))).collect();
            Ok(Trial::of(builder)?.values(Arg::Src(3), Values::Listed(seen)))
        });
    }
}

/// What becomes of products, of weights and of the result.
fn functions(list: &mut Trials) {
    let (query, key) = ([2, 2, 7, 16], Dims::from([2, 2, 10, 16]));
    let dims = space(&query, &key);
    list.add("attention/stats", || {
        let builder = attention(scaled(&dims), f32(&query), f32(&key), f32(&key));
        Trial::of(builder.arg(Arg::Dst(1), f32(&[2, 2, 7, 1])))
    });
    list.add("attention/soft_cap", || {
        let mut op = scaled(&dims);
        let mut x = op.scores.results[0];
        for function in [
            Eltwise::Linear { alpha: 0.5, beta: 0.0 },
            Eltwise::Tanh,
            Eltwise::Linear { alpha: 2.0, beta: 0.0 },
        ] {
            x = op.scores.push(Node::Eltwise(function, x));
        }
        op.scores.results = vec![x];
        Trial::of(attention(op, f32(&query), f32(&key), f32(&key)))
    });
    list.add("attention/scale_from_memory", || {
        let mut scores = Expression::new(dims.clone());
        let [x, scale] = [0, 1].map(|i| scores.push(Node::Operand(i)));
        scores.results = vec![binary(&mut scores, BinaryAlgorithm::Divide, x, scale)];
        let builder = attention(Attention::new(scores), f32(&query), f32(&key), f32(&key));
        let trial = Trial::of(builder.arg(Arg::Src(3), f32(&[1])))?;
        Ok(trial.values(Arg::Src(3), Values::Listed(vec![4.0])))
    });
    list.add("attention/dropout", || {
        // More keys than a kernel has at a time.
        let key = [&key[..2], &[150], &key[3..]].concat();
        let dims = space(&query, &key);
        let mut op = scaled(&dims);
        let (x, mask) = (op.scores.results[0], op.scores.push(Node::Operand(1)));
        op.scores.results = vec![binary(&mut op.scores, BinaryAlgorithm::Add, x, mask)];
        let mut weights = Expression::new(dims.clone());
        let weight = weights.push(Node::Operand(0));
        let keep = weights.push(Node::Keep { seed: 2, offset: 3, probability: 4 });
        let kept = binary(&mut weights, BinaryAlgorithm::Multiply, weight, keep);
        weights.results = vec![weights.push(Node::Eltwise(Eltwise::Linear { alpha: 1.25, beta: 0.0 }, kept))];
        op.weights = Some(weights);
        let long = || dense(&[1], DataType::S64);
        let builder = attention(op, f32(&query), f32(&key), f32(&key))
            .arg(Arg::Src(3), f32(&[7, 150]))
            .arg(Arg::Src(4), long())
            .arg(Arg::Src(5), long())
            .arg(Arg::Src(6), f32(&[1]));
        Ok(Trial::of(builder)?
            .values(Arg::Src(4), Values::Listed(vec![99.0]))
            .values(Arg::Src(5), Values::Listed(vec![5.0]))
            .values(Arg::Src(6), Values::Listed(vec![0.2])))
    });
    list.add("attention/post_ops", || {
        let attributes = Attributes::default()
            .with_post_op(PostOp::binary(BinaryAlgorithm::Add, f32(&[16])))
            .with_post_op(PostOp::Eltwise(Eltwise::Relu));
        Trial::of(attention(scaled(&dims), f32(&query), f32(&key), f32(&key)).attributes(attributes))
    });
}

fn layouts(list: &mut Trials) {
    let (query, key) = ([2, 3, 6, 8], Dims::from([2, 3, 7, 8]));
    let dims = space(&query, &key);
    list.add("attention/layout/transposed_key", || {
        let key_desc = transposed(&key, DataType::F32)?;
        Trial::of(attention(scaled(&dims), f32(&query), key_desc, f32(&key)))
    });
    // [batch, sequence, heads, head size] seen as [batch, heads, sequence, head size].
    list.add("attention/layout/heads_behind_the_sequence", || {
        let heads = |sequence: usize, data_type| {
            strided(&[2, 3, sequence, 8], data_type, &[sequence * 24, 8, 24, 1], 0)
        };
        let data_type = DataType::F16;
        let (query, key) = (heads(6, data_type)?, heads(7, data_type)?);
        let builder = PrimitiveDesc::builder(Op::Attention(scaled(&dims)))
            .src(query.clone())
            .src(key.clone())
            .src(key)
            .dst(query);
        Trial::of(builder)
    });
}

fn quantized(list: &mut Trials) {
    list.add("attention/dequantized", || {
        let (query, key) = ([1, 2, 5, 16], Dims::from([1, 2, 12, 16]));
        let of = |operand, scale: MemoryDesc, zero_point: Option<MemoryDesc>| Dequantize {
            operand,
            scale: Some(scale),
            zero_point,
        };
        let attributes = Attributes::default()
            .with_dequantize(of(Quantized::Src(1), f32(&[1, 2, 1, 1]), None))
            // Groups of eight along the columns of the value.
            .with_dequantize(of(
                Quantized::Src(2),
                f32(&[1, 2, 12, 2]),
                Some(dense(&[1, 1, 1, 1], DataType::U8)),
            ));
        let builder = attention(
            scaled(&space(&query, &key)),
            f32(&query),
            dense(&key, DataType::S8),
            dense(&key, DataType::U8),
        );
        let trial = Trial::of(builder.attributes(attributes))?;
        Ok(trial
            .values(Arg::ScaleOf(Quantized::Src(1)), Values::Uniform(0.1, 0.2))
            .values(Arg::ScaleOf(Quantized::Src(2)), Values::Uniform(0.1, 0.5)))
    });
}

/// `[.., S, T]`
fn space(query: &[usize], key: &[usize]) -> Dims {
    let mut space = Dims::new(query);
    let rank = space.len();
    space[rank - 1] = key[rank - 2];
    space
}

fn value_of(key: &Dims, columns: usize) -> MemoryDesc {
    let mut dims = key.clone();
    let last = dims.len() - 1;
    dims[last] = columns;
    f32(&dims)
}

/// Attention with scores a quarter of the products.
fn scaled(space: &Dims) -> Attention {
    let mut scores = Expression::new(space.clone());
    let x = scores.push(Node::Operand(0));
    let y = scores.push(Node::Eltwise(Eltwise::Linear { alpha: 0.25, beta: 0.0 }, x));
    scores.results = vec![y];
    Attention::new(scores)
}

/// With a row-major result of the query's type.
fn attention(op: Attention, query: MemoryDesc, key: MemoryDesc, value: MemoryDesc) -> PrimitiveDescBuilder {
    let mut dims = query.dims().clone();
    let last = dims.len() - 1;
    dims[last] = value.dims()[last];
    let dst = MemoryDesc::new(dims, query.data_type());
    PrimitiveDesc::builder(Op::Attention(op)).src(query).src(key).src(value).dst(dst)
}

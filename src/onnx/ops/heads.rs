//! Attention of ONNX Runtime's own, after the reference of its domain `com.microsoft`.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::activation::scaled;
use super::floats;
use super::fused::sum;
use super::indexing::{part, reversed};
use super::quantized::dequantized;
use super::scales::Inputs;
use crate::graph::{Attrs, OpKind};
use crate::model::HostTensor;

/// `Attention`: queries, keys and values are one product of the source.
pub(super) fn packed(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    refuse(node, &[(6, "lengths of earlier keys and values")], &["do_rotary"])?;
    let (src, weights) = (floats(node, 0)?, floats(node, 1)?);
    let product = network.op(node, OpKind::MatMul, &[src, weights], Attrs::new())?;
    let all = sum(network, node, &[Some(&product), node.optional(2)])?;
    of_product(network, node, &all, [3, 4, 5])
}

/// `QAttention`: the same of scaled integers.
pub(super) fn quantized(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    refuse(node, &[], &["do_rotary"])?;
    let (src, weights) = (node.input(0)?, node.input(1)?);
    let src = dequantized(network, node, src, Inputs { scale: Some(3), point: 6 }, None)?;
    let columns = weights.rank().checked_sub(1);
    let weights = dequantized(network, node, weights, Inputs { scale: Some(4), point: 7 }, columns)?;
    let product =
        network.op_to(node, OpKind::MatMul, &[&src, &weights], Attrs::new(), Some(DataType::F32))?;
    let all = sum(network, node, &[Some(&product), node.optional(2)])?;
    of_product(network, node, &all, [5, 8, usize::MAX])
}

/// Attention of queries, keys and values that lie side by side; `inputs` are those of the mask, of earlier keys and values, and of the bias.
fn of_product(network: &mut Network, node: &Node, all: &Value, inputs: [usize; 3]) -> Result<Vec<Value>> {
    let width = all.dims.last().copied().unwrap_or(0);
    let sizes = match node.ints("qkv_hidden_sizes")? {
        Some(sizes) => sizes.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect(),
        None => vec![width / 3; 3],
    };
    if sizes.len() != 3 || sizes.iter().sum::<usize>() != width || all.rank() != 3 {
        return Err(node.invalid("product", &all.dims, "[batch, length, queries, keys and values]"));
    }
    let heads = heads(node, "num_heads")?;
    let mut start = 0;
    let mut parts = Vec::with_capacity(3);
    for size in sizes {
        let whole = part(network, node, all, 2, start, size)?;
        parts.push(split(network, node, &whole, heads)?);
        start += size;
    }
    let [mask, past, bias] = inputs.map(|index| node.optional(index));
    if let Some(past) = past {
        for (index, own) in [1, 2].into_iter().enumerate() {
            let earlier = part(network, node, past, 0, index, 1)?;
            let earlier = network.reshape(node, &earlier, Dims::new(&past.dims[1..]))?;
            parts[own] = joined(network, node, &[earlier, parts[own].clone()], 2)?;
        }
    }
    let [queries, keys, values] = &parts[..] else { return Err(node.invalid("parts", parts.len(), "three")) };
    let mut made = vec![attend(network, node, [queries, keys, values], [mask, bias])?];
    if node.outputs() > 1 {
        let front = |value: &Value| Dims::from([&[1], &value.dims[..]].concat());
        let both = [network.reshape(node, keys, front(keys))?, network.reshape(node, values, front(values))?];
        made.push(joined(network, node, &both, 0)?);
    }
    Ok(made)
}

/// `MultiHeadAttention`: of queries, keys and values `[batch, length, heads times size]`, or `[batch, heads, length, size]` for the latter two,
/// or packed with keys and values as `[batch, length, heads, 2 or 3, size]`.
pub(super) fn apart(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    refuse(node, &[(8, "earlier lengths"), (9, "a cache")], &[])?;
    let count = heads(node, "num_heads")?;
    let mut parts = Vec::with_capacity(3);
    let mut start = 0;
    for index in 0..3 {
        let (value, place) = match (node.optional(index), parts.len()) {
            (Some(value), _) => (value, 0),
            // What a tensor in front of it has, too.
            (None, 1) if node.input(0)?.rank() == 5 => (node.input(0)?, 1),
            (None, 2) if node.input(0)?.rank() == 5 => (node.input(0)?, 2),
            (None, 2) => (node.input(1)?, 1),
            (None, _) => return Err(node.invalid("inputs", "queries alone", "keys and values")),
        };
        let width = match value.dims[..] {
            [_, _, width] => width,
            [_, heads, _, size] | [_, _, heads, _, size] => heads * size,
            _ => return Err(node.invalid("operand", &value.dims, "three to five dimensions")),
        };
        let value = match value.dims[..] {
            [batch, length, heads, several, size] if place < several => {
                let own = part(network, node, value, 3, place, 1)?;
                let own = network.reshape(node, &own, Dims::from([batch, length, heads, size]))?;
                turned(network, node, &own)?
            }
            [_, _, _, _] => value.clone(),
            _ => split(network, node, value, count)?,
        };
        let bias = match node.optional(3) {
            Some(bias) => {
                let own = part(network, node, bias, 0, start, width)?;
                let dims = Dims::from([1, count, 1, width / count]);
                Some(network.reshape(node, &own, dims)?)
            }
            None => None,
        };
        start += width;
        parts.push(sum(network, node, &[Some(&value), bias.as_ref()])?);
    }
    for (own, past) in [(1, 6), (2, 7)] {
        if let Some(past) = node.optional(past) {
            parts[own] = joined(network, node, &[past.clone(), parts[own].clone()], 2)?;
        }
    }
    let [queries, keys, values] = &parts[..] else { return Err(node.invalid("parts", parts.len(), "three")) };
    let made = attend(network, node, [queries, keys, values], [node.optional(4), node.optional(5)])?;
    Ok(vec![made, keys.clone(), values.clone()])
}

/// Softmax of scaled products of queries and keys, with a mask and a bias, times values: `[batch, heads, length, size]` each. The heads of the
/// result lie side by side.
fn attend(
    network: &mut Network,
    node: &Node,
    [queries, keys, values]: [&Value; 3],
    [mask, bias]: [Option<&Value>; 2],
) -> Result<Value> {
    let (length, most) = (queries.dims[2], keys.dims[2]);
    let scores = scores(network, node, queries, keys)?;
    let hidden = f64::from(node.float("mask_filter_value", -10_000.0)?);
    let mask = mask.map(|mask| additive(network, node, mask, hidden, &scores)).transpose()?;
    let later = if node.flag("unidirectional", false)? {
        Some(later(network, node, [length, most], None, hidden, scores.data_type)?)
    } else {
        None
    };
    let scores = sum(network, node, &[Some(&scores), mask.as_ref(), bias, later.as_ref()])?;
    shared(network, node, &scores, values)
}

/// Products of queries and keys, scaled.
pub(super) fn scores(network: &mut Network, node: &Node, queries: &Value, keys: &Value) -> Result<Value> {
    let attrs = Attrs::new().with("transpose_b", true);
    let scores = network.op(node, OpKind::MatMul, &[queries, keys], attrs)?;
    let scale = match f64::from(node.float("scale", 0.0)?) {
        0.0 => 1.0 / (queries.dims[3] as f64).sqrt(),
        scale => scale,
    };
    scaled(network, node, &scores, scale)
}

/// Scores that go to the number that the node caps them with, if it does.
pub(super) fn capped(network: &mut Network, node: &Node, scores: Value) -> Result<Value> {
    let cap = f64::from(node.float("softcap", 0.0)?);
    if cap <= 0.0 {
        return Ok(scores);
    }
    let scores = scaled(network, node, &scores, 1.0 / cap)?;
    let scores = network.op(node, OpKind::Tanh, &[&scores], Attrs::new())?;
    scaled(network, node, &scores, cap)
}

/// Values by the softmax of scores, their heads side by side.
pub(super) fn shared(network: &mut Network, node: &Node, scores: &Value, values: &Value) -> Result<Value> {
    let shares = network.op(node, OpKind::SoftMax, &[scores], Attrs::new().with("axis", 3_i64))?;
    let made = network.op(node, OpKind::MatMul, &[&shares, values], Attrs::new())?;
    let made = turned(network, node, &made)?;
    let dims = Dims::from([made.dims[0], made.dims[1], made.dims[2] * made.dims[3]]);
    network.reshape(node, &made, dims)
}

/// What is added to the scores of keys behind their query, and of those more than a window before it; the last query is the last key's.
pub(super) fn later(
    network: &mut Network,
    node: &Node,
    [length, most]: [usize; 2],
    window: Option<usize>,
    hidden: f64,
    data_type: DataType,
) -> Result<Value> {
    let at = most.saturating_sub(length);
    let is_hidden = |i: usize| {
        let (key, own) = (i % most.max(1), i / most.max(1) + at);
        key > own || window.is_some_and(|window| key + window <= own)
    };
    let values: Vec<f64> = (0..length * most).map(|i| if is_hidden(i) { hidden } else { 0.0 }).collect();
    let tensor = HostTensor::from_f64([length, most], data_type, &values)?;
    network.constant(&format!("{}/later", node.name()), tensor)
}

/// The number of heads that an attribute gives.
pub(super) fn heads(node: &Node, name: &str) -> Result<usize> {
    match usize::try_from(node.int(name, 0)?) {
        Ok(heads) if heads > 0 => Ok(heads),
        _ => Err(node.invalid(&format!("attribute {name}"), node.int(name, 0)?, "at least 1")),
    }
}

/// `[batch, length, heads times size]` as `[batch, heads, length, size]`.
pub(super) fn split(network: &mut Network, node: &Node, value: &Value, heads: usize) -> Result<Value> {
    let [batch, length, width] = value.dims[..] else {
        return Err(node.invalid("operand", &value.dims, "[batch, length, heads times size]"));
    };
    if !width.is_multiple_of(heads) {
        return Err(node.invalid("attribute num_heads", heads, format!("a divisor of {width}")));
    }
    let value = network.reshape(node, value, Dims::from([batch, length, heads, width / heads]))?;
    turned(network, node, &value)
}

/// A mask with ones for what is seen, or the number of keys that each of the batch has, as what is added to scores.
fn additive(network: &mut Network, node: &Node, mask: &Value, hidden: f64, scores: &Value) -> Result<Value> {
    let most = scores.dims[3];
    let dims = match mask.dims[..] {
        [batch] if batch == scores.dims[0] => {
            let mask = network.converted(node, mask, scores.data_type)?;
            let lengths = network.reshape(node, &mask, Dims::from([batch, 1, 1, 1]))?;
            let places: Vec<f64> = (0..most).map(|place| place as f64).collect();
            let places = HostTensor::from_f64([1, 1, 1, most], scores.data_type, &places)?;
            let places = network.constant(&format!("{}/places", node.name()), places)?;
            let left = network.op(node, OpKind::Subtract, &[&lengths, &places], Attrs::new())?;
            let limits = Attrs::new().with("min", 0.0_f32).with("max", 1.0_f32);
            let seen = network.op(node, OpKind::Clamp, &[&left], limits)?;
            return unseen(network, node, &seen, hidden);
        }
        [batch, most] => Dims::from([batch, 1, 1, most]),
        [batch, length, most] => Dims::from([batch, 1, length, most]),
        _ => return Err(node.unsupported(format!("a mask of dimensions {} is not read", mask.dims))),
    };
    let mask = network.converted(node, mask, scores.data_type)?;
    let mask = network.reshape(node, &mask, dims)?;
    unseen(network, node, &mask, hidden)
}

/// The number for what is hidden, where ones tell what is seen.
fn unseen(network: &mut Network, node: &Node, seen: &Value, hidden: f64) -> Result<Value> {
    let one = network.scalar(node, 1.0, seen)?;
    let unseen = network.op(node, OpKind::Subtract, &[&one, seen], Attrs::new())?;
    scaled(network, node, &unseen, hidden)
}

/// `RotaryEmbedding`: pairs of each head turned by the angle of their position.
pub(super) fn rotary(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?.clone();
    let (cosines, sines) = (floats(node, 2)?, floats(node, 3)?);
    if cosines.rank() != 2 || cosines.dims != sines.dims {
        return Err(node.invalid("angles", &cosines.dims, "two tables alike"));
    }
    let pairs = cosines.dims[1];
    let mut heads = usize::try_from(node.int("num_heads", 0)?).unwrap_or(0);
    let apart = match src.dims[..] {
        [_, _, _, _] => src.clone(),
        [batch, length, width] => {
            if heads == 0 {
                heads = width / (2 * pairs).max(1);
            }
            if heads == 0 || !width.is_multiple_of(heads) {
                return Err(node.invalid("attribute num_heads", heads, format!("a divisor of {width}")));
            }
            let value = network.reshape(node, &src, Dims::from([batch, length, heads, width / heads]))?;
            turned(network, node, &value)?
        }
        _ => return Err(node.invalid("source", &src.dims, "three or four dimensions")),
    };
    let (length, size) = (apart.dims[2], apart.dims[3]);
    if 2 * pairs > size {
        return Err(node.invalid("angles", &cosines.dims, format!("at most {} columns", size / 2)));
    }
    let positions = node.input(1)?;
    let angles = |network: &mut Network, table: &Value| -> Result<Value> {
        let found = if positions.dims.elements() == 1 && length != 1 || positions.rank() == 1 {
            let Some(start) = super::known_number(network, node, positions)? else {
                return Err(node.unsupported("a first position that is given on execution is not read"));
            };
            let start = start.max(0.0) as usize;
            if start + length > table.dims[0] {
                return Err(node.invalid("positions", start + length, format!("at most {}", table.dims[0])));
            }
            part(network, node, table, 0, start, length)?
        } else {
            let attrs = Attrs::new().with("mode", "axis").with("axis", 0_i64);
            network.op(node, OpKind::Gather, &[table, positions], attrs)?
        };
        let batch = found.dims.elements() / (length * pairs).max(1);
        network.reshape(node, &found, Dims::from([batch, 1, length, pairs]))
    };
    let angles = [angles(network, cosines)?, angles(network, sines)?];
    let mut whole = rotated(network, node, &apart, &angles, node.flag("interleaved", false)?)?;
    if src.rank() == 3 {
        whole = turned(network, node, &whole)?;
        whole = network.reshape(node, &whole, src.dims.clone())?;
    }
    Ok(vec![whole])
}

/// Pairs of each head `[batch, heads, length, size]` turned by angles `[1 or batch, 1, length, pairs]`, given as cosines and sines, or both
/// with heads and positions the other way round. A pair is of neighbours, or else of the same places in two halves.
pub(super) fn rotated(
    network: &mut Network,
    node: &Node,
    apart: &Value,
    [cosine, sine]: &[Value; 2],
    is_interleaved: bool,
) -> Result<Value> {
    let (size, pairs) = (apart.dims[3], cosine.dims[3]);
    let round = part(network, node, apart, 3, 0, 2 * pairs)?;
    let axis = if is_interleaved { 4 } else { 3 };
    // Of a tensor whose last dimension has pairs: both numbers of each as a dimension of their own.
    let in_pairs = |dims: &Dims, both: usize| {
        let (outer, inner) = if is_interleaved { (pairs, both) } else { (both, pairs) };
        Dims::from([dims[0], dims[1], dims[2], outer, inner])
    };
    let negative = network.negative(node, sine)?;
    let mut tables = Vec::with_capacity(2);
    for both in [[cosine, cosine], [&negative, sine]] {
        let mut apart = Vec::with_capacity(2);
        for table in both {
            apart.push(network.reshape(node, table, in_pairs(&table.dims, 1))?);
        }
        let table = joined(network, node, &apart, axis)?;
        let dims = &cosine.dims;
        tables.push(network.reshape(node, &table, Dims::from([dims[0], dims[1], dims[2], 2 * pairs]))?);
    }
    let others = network.reshape(node, &round, in_pairs(&round.dims, 2))?;
    let others = reversed(network, node, &others, axis as usize)?;
    let others = network.reshape(node, &others, round.dims.clone())?;
    let own = network.op(node, OpKind::Multiply, &[&round, &tables[0]], Attrs::new())?;
    let others = network.op(node, OpKind::Multiply, &[&others, &tables[1]], Attrs::new())?;
    let mut whole = network.op(node, OpKind::Add, &[&own, &others], Attrs::new())?;
    if 2 * pairs < size {
        let rest = part(network, node, apart, 3, 2 * pairs, size - 2 * pairs)?;
        whole = joined(network, node, &[whole, rest], 3)?;
    }
    Ok(whole)
}

/// Tensors one behind the other along an axis.
pub(super) fn joined(network: &mut Network, node: &Node, parts: &[Value], axis: i64) -> Result<Value> {
    let parts: Vec<&Value> = parts.iter().collect();
    network.op(node, OpKind::Concat, &parts, Attrs::new().with("axis", axis))
}

/// Positions and heads the other way round.
pub(super) fn turned(network: &mut Network, node: &Node, value: &Value) -> Result<Value> {
    let attrs = Attrs::new().with("order", vec![0_i64, 2, 1, 3]);
    network.op(node, OpKind::StaticTranspose, &[value], attrs)
}

fn refuse(node: &Node, inputs: &[(usize, &str)], flags: &[&str]) -> Result<()> {
    for (index, what) in inputs {
        if node.optional(*index).is_some() {
            return Err(node.unsupported(format!("{what} are not read")));
        }
    }
    for flag in flags {
        if node.flag(flag, false)? {
            return Err(node.unsupported(format!("the attribute {flag} is not read")));
        }
    }
    Ok(())
}

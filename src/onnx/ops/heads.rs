//! Attention of ONNX Runtime's own, after the reference of its domain `com.microsoft`, without memories of earlier positions.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::activation::scaled;
use super::floats;
use super::fused::sum;
use super::indexing::part;
use crate::graph::{Attrs, OpKind};
use crate::model::HostTensor;

/// `Attention`: queries, keys and values are one product of the source.
pub(super) fn packed(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    refuse(node, &[(4, "earlier keys and values"), (6, "earlier keys and values")], &["do_rotary"])?;
    let (src, weights) = (floats(node, 0)?, floats(node, 1)?);
    let product = network.op(node, OpKind::MatMul, &[src, weights], Attrs::new())?;
    let all = sum(network, node, &[Some(&product), node.optional(2)])?;
    let width = weights.dims.last().copied().unwrap_or(0);
    let sizes = match node.ints("qkv_hidden_sizes")? {
        Some(sizes) => sizes.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect(),
        None => vec![width / 3; 3],
    };
    if sizes.len() != 3 || sizes.iter().sum::<usize>() != width || all.rank() != 3 {
        return Err(node.invalid("weights", &weights.dims, "[.., queries, keys and values]"));
    }
    let mut start = 0;
    let mut parts = Vec::with_capacity(3);
    for size in sizes {
        parts.push(part(network, node, &all, 2, start, size)?);
        start += size;
    }
    let [queries, keys, values] = &parts[..] else { return Err(node.invalid("parts", parts.len(), "three")) };
    attend(network, node, [queries, keys, values], [node.optional(3), node.optional(5)])
}

/// `MultiHeadAttention`: of queries, keys and values `[batch, length, heads times size]`.
pub(super) fn apart(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    refuse(node, &[(6, "earlier keys"), (7, "earlier values"), (8, "earlier lengths"), (9, "a cache")], &[])?;
    let mut parts = Vec::with_capacity(3);
    let mut start = 0;
    for index in 0..3 {
        let Some(value) = node.optional(index) else {
            return Err(node.unsupported("queries, keys and values in one tensor are not read"));
        };
        if value.rank() != 3 {
            return Err(node.unsupported(format!("operands of {} dimensions are not read", value.rank())));
        }
        let bias = match node.optional(3) {
            Some(bias) => Some(part(network, node, bias, 0, start, value.dims[2])?),
            None => None,
        };
        start += value.dims[2];
        parts.push(sum(network, node, &[Some(value), bias.as_ref()])?);
    }
    let [queries, keys, values] = &parts[..] else { return Err(node.invalid("parts", parts.len(), "three")) };
    attend(network, node, [queries, keys, values], [node.optional(4), node.optional(5)])
}

/// Softmax of scaled products of queries and keys, with a mask and a bias, times values.
fn attend(
    network: &mut Network,
    node: &Node,
    [queries, keys, values]: [&Value; 3],
    [mask, bias]: [Option<&Value>; 2],
) -> Result<Vec<Value>> {
    if node.outputs() > 1 {
        return Err(node.unsupported("keys and values are not handed out"));
    }
    let heads = usize::try_from(node.int("num_heads", 0)?).unwrap_or(0);
    if heads == 0 || [queries, keys, values].iter().any(|value| !value.dims[2].is_multiple_of(heads)) {
        return Err(node.invalid("attribute num_heads", heads, format!("a divisor of {}", queries.dims[2])));
    }
    let (length, most) = (queries.dims[1], keys.dims[1]);
    let mut split = |value: &Value| -> Result<Value> {
        let dims = Dims::from([value.dims[0], value.dims[1], heads, value.dims[2] / heads]);
        let value = network.reshape(node, value, dims)?;
        turned(network, node, &value)
    };
    let (queries, keys, values) = (split(queries)?, split(keys)?, split(values)?);
    let size = queries.dims[3];
    let scores =
        network.op(node, OpKind::MatMul, &[&queries, &keys], Attrs::new().with("transpose_b", true))?;
    let scale = match f64::from(node.float("scale", 0.0)?) {
        0.0 => 1.0 / (size as f64).sqrt(),
        scale => scale,
    };
    let scores = scaled(network, node, &scores, scale)?;
    let hidden = f64::from(node.float("mask_filter_value", -10_000.0)?);
    let mask = mask.map(|mask| additive(network, node, mask, hidden, scores.data_type)).transpose()?;
    let later = if node.flag("unidirectional", false)? {
        let (at, data_type) = (most.saturating_sub(length), scores.data_type);
        let is_later = |i: usize| i % most.max(1) > i / most.max(1) + at;
        let values: Vec<f64> = (0..length * most).map(|i| if is_later(i) { hidden } else { 0.0 }).collect();
        let tensor = HostTensor::from_f64([length, most], data_type, &values)?;
        Some(network.constant(&format!("{}/later", node.name()), tensor)?)
    } else {
        None
    };
    let scores = sum(network, node, &[Some(&scores), mask.as_ref(), bias, later.as_ref()])?;
    let shares = network.op(node, OpKind::SoftMax, &[&scores], Attrs::new().with("axis", 3_i64))?;
    let made = network.op(node, OpKind::MatMul, &[&shares, &values], Attrs::new())?;
    let made = turned(network, node, &made)?;
    let dims = Dims::from([made.dims[0], made.dims[1], made.dims[2] * made.dims[3]]);
    Ok(vec![network.reshape(node, &made, dims)?])
}

/// A mask with ones for what is seen, as what is added to scores.
fn additive(
    network: &mut Network,
    node: &Node,
    mask: &Value,
    hidden: f64,
    data_type: DataType,
) -> Result<Value> {
    let dims = match mask.dims[..] {
        [batch, most] => Dims::from([batch, 1, 1, most]),
        [batch, length, most] => Dims::from([batch, 1, length, most]),
        _ => return Err(node.unsupported(format!("a mask of dimensions {} is not read", mask.dims))),
    };
    let mask = network.converted(node, mask, data_type)?;
    let mask = network.reshape(node, &mask, dims)?;
    let one = network.scalar(node, 1.0, &mask)?;
    let unseen = network.op(node, OpKind::Subtract, &[&one, &mask], Attrs::new())?;
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
    let mut angles = |table: &Value| -> Result<Value> {
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
    let (cosine, sine) = (angles(cosines)?, angles(sines)?);
    let is_interleaved = node.flag("interleaved", false)?;
    let round = part(network, node, &apart, 3, 0, 2 * pairs)?;
    let line = Dims::from([apart.dims[0], apart.dims[1], length, pairs]);
    let mut halves = Vec::with_capacity(2);
    for half in 0..2 {
        halves.push(if is_interleaved {
            let dims = Dims::from([apart.dims[0], apart.dims[1], length, pairs, 2]);
            let pair = network.reshape(node, &round, dims)?;
            let half = part(network, node, &pair, 4, half, 1)?;
            network.reshape(node, &half, line.clone())?
        } else {
            part(network, node, &round, 3, half * pairs, pairs)?
        });
    }
    let mut mixed = |[a, b]: [&Value; 2], kind| -> Result<Value> {
        let first = network.op(node, OpKind::Multiply, &[a, &cosine], Attrs::new())?;
        let second = network.op(node, OpKind::Multiply, &[b, &sine], Attrs::new())?;
        network.op(node, kind, &[&first, &second], Attrs::new())
    };
    let mut made = vec![
        mixed([&halves[0], &halves[1]], OpKind::Subtract)?,
        mixed([&halves[1], &halves[0]], OpKind::Add)?,
    ];
    if is_interleaved {
        for half in &mut made {
            let dims = Dims::from([apart.dims[0], apart.dims[1], length, pairs, 1]);
            *half = network.reshape(node, half, dims)?;
        }
    }
    let mut whole = joined(network, node, &made, if is_interleaved { 4 } else { 3 })?;
    whole = network.reshape(node, &whole, round.dims.clone())?;
    if 2 * pairs < size {
        let rest = part(network, node, &apart, 3, 2 * pairs, size - 2 * pairs)?;
        whole = joined(network, node, &[whole, rest], 3)?;
    }
    if src.rank() == 3 {
        whole = turned(network, node, &whole)?;
        whole = network.reshape(node, &whole, src.dims.clone())?;
    }
    Ok(vec![whole])
}

fn joined(network: &mut Network, node: &Node, parts: &[Value], axis: i64) -> Result<Value> {
    let parts: Vec<&Value> = parts.iter().collect();
    network.op(node, OpKind::Concat, &parts, Attrs::new().with("axis", axis))
}

/// Positions and heads the other way round.
fn turned(network: &mut Network, node: &Node, value: &Value) -> Result<Value> {
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

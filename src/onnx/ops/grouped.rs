//! `GroupQueryAttention`, after the reference of ONNX Runtime's domain `com.microsoft`: several heads of queries share one of keys and values,
//! which are kept from one execution to the next.

use anydnn_backend::{Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::heads::{capped, heads, joined, later, rotated, scores, shared, split};
use super::indexing::part;
use super::{floats, known_number};
use crate::graph::{Attrs, OpKind};

/// Attention to what came before and to what is new, without what comes later. Earlier keys and values are those of one sequence, to which the
/// new ones are appended; several sequences begin together, the shorter ones filled up behind.
pub(super) fn attention(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    refuse(node)?;
    let (count, pairs) = (heads(node, "num_heads")?, heads(node, "kv_num_heads")?);
    if !count.is_multiple_of(pairs) {
        return Err(node.invalid("attribute num_heads", count, format!("a multiple of {pairs}")));
    }
    let [mut queries, mut keys, values] = operands(network, node, count, pairs)?;
    let (batch, length, size) = (queries.dims[0], queries.dims[2], queries.dims[3]);
    let past = match node.optional(3) {
        Some(past) if past.rank() != 4 => {
            return Err(node.invalid("earlier keys", &past.dims, "[batch, heads, length, size]"));
        }
        past => past.map_or(0, |past| past.dims[2]),
    };
    let total = past + length;
    let told = known_number(network, node, node.input(6)?)?;
    if past > 0 && (batch > 1 || told.is_none_or(|told| told as usize != total)) {
        let why = "earlier keys and values are read for one sequence, as many as it has behind it, the new ones not counted";
        return Err(node.unsupported(why));
    }
    if node.flag("do_rotary", false)? {
        let angles = angles(network, node, past, length)?;
        let is_interleaved = node.flag("rotary_interleaved", false)?;
        queries = rotated(network, node, &queries, &angles, is_interleaved)?;
        keys = rotated(network, node, &keys, &angles, is_interleaved)?;
    }
    let mut kept = [keys, values];
    if past > 0 {
        for (own, index) in kept.iter_mut().zip([3, 4]) {
            *own = joined(network, node, &[floats(node, index)?.clone(), own.clone()], 2)?;
        }
    }
    // The queries of a group lie one behind the other, as all of them meet the same keys.
    let group = count / pairs;
    let rows = Dims::from([batch, pairs, group * length, size]);
    let rows = network.reshape(node, &queries, rows)?;
    let products = scores(network, node, &rows, &kept[0])?;
    let mut products = network.reshape(node, &products, Dims::from([batch, count, length, total]))?;
    products = capped(network, node, products)?;
    let window = usize::try_from(node.int("local_window_size", -1)?).ok();
    // Nothing is left of what is hidden, whatever the products are.
    let hidden = f64::from(f32::MIN) / 2.0;
    let later = later(network, node, [length, total], window, hidden, products.data_type)?;
    products = network.op(node, OpKind::Add, &[&products, &later], Attrs::new())?;
    if let Some(bias) = node.optional(10) {
        products = network.op(node, OpKind::Add, &[&products, bias], Attrs::new())?;
    }
    let products = network.reshape(node, &products, Dims::from([batch, pairs, group * length, total]))?;
    let made = shared_heads(network, node, &products, &kept[1], [batch, count, length])?;
    let [keys, values] = kept;
    Ok(vec![made, keys, values])
}

/// Values by the softmax of scores, with the heads of all groups side by side.
fn shared_heads(
    network: &mut Network,
    node: &Node,
    scores: &Value,
    values: &Value,
    [batch, count, length]: [usize; 3],
) -> Result<Value> {
    if values.dims[1] == count {
        return shared(network, node, scores, values);
    }
    let shares = network.op(node, OpKind::SoftMax, &[scores], Attrs::new().with("axis", 3_i64))?;
    let made = network.op(node, OpKind::MatMul, &[&shares, values], Attrs::new())?;
    let size = values.dims[3];
    let made = network.reshape(node, &made, Dims::from([batch, count, length, size]))?;
    let made = super::heads::turned(network, node, &made)?;
    network.reshape(node, &made, Dims::from([batch, length, count * size]))
}

/// Queries, keys and values with their heads apart; all of them lie side by side where the node gives queries alone.
fn operands(network: &mut Network, node: &Node, count: usize, pairs: usize) -> Result<[Value; 3]> {
    let all = floats(node, 0)?;
    let (Some(keys), Some(values)) = (node.optional(1), node.optional(2)) else {
        let width = all.dims.last().copied().unwrap_or(0);
        if all.rank() != 3 || !width.is_multiple_of(count + 2 * pairs) {
            return Err(node.invalid("queries", &all.dims, "[batch, length, queries, keys and values]"));
        }
        let size = width / (count + 2 * pairs);
        let mut own = |start: usize, heads: usize| -> Result<Value> {
            let whole = part(network, node, all, 2, start * size, heads * size)?;
            split(network, node, &whole, heads)
        };
        return Ok([own(0, count)?, own(count, pairs)?, own(count + pairs, pairs)?]);
    };
    Ok([
        split(network, node, all, count)?,
        split(network, node, keys, pairs)?,
        split(network, node, values, pairs)?,
    ])
}

/// Cosines and sines of the angles of positions, `[1 or batch, 1, length, pairs]`.
fn angles(network: &mut Network, node: &Node, past: usize, length: usize) -> Result<[Value; 2]> {
    let mut made = Vec::with_capacity(2);
    for index in [7, 8] {
        let table = floats(node, index)?;
        let [rows, pairs] = table.dims[..] else {
            return Err(node.invalid("angles", &table.dims, "[positions, pairs]"));
        };
        made.push(match node.optional(9) {
            Some(positions) => {
                let attrs = Attrs::new().with("mode", "axis").with("axis", 0_i64);
                let found = network.op(node, OpKind::Gather, &[table, positions], attrs)?;
                let batch = found.dims.elements() / (length * pairs).max(1);
                network.reshape(node, &found, Dims::from([batch, 1, length, pairs]))?
            }
            None if past + length <= rows => {
                let found = part(network, node, table, 0, past, length)?;
                network.reshape(node, &found, Dims::from([1, 1, length, pairs]))?
            }
            None => return Err(node.invalid("positions", past + length, format!("at most {rows}"))),
        });
    }
    <[Value; 2]>::try_from(made).map_err(|made| node.invalid("tables", made.len(), "two"))
}

fn refuse(node: &Node) -> Result<()> {
    for (index, what) in [(11, "sinks of heads"), (12, "scales of keys"), (13, "scales of values")] {
        if node.optional(index).is_some() {
            return Err(node.unsupported(format!("{what} are not read")));
        }
    }
    if node.flag("smooth_softmax", false)? || node.int("qk_output", 0)? != 0 || node.outputs() > 3 {
        return Err(node.unsupported("a smooth softmax and products that are handed out are not read"));
    }
    Ok(())
}

//! The standard's attention and rotary positions.

use anydnn_backend::{DataType, Dims, Result};

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::super::tensor::data_type;
use super::activation::scaled;
use super::floats;
use super::heads::{capped, heads, joined, rotated, split, turned};
use crate::graph::{Attrs, OpKind};
use crate::model::HostTensor;

/// The most numbers that are put behind a mask which is shorter than the keys.
const MOST_MISSING: usize = 1 << 24;

/// How the heads of queries share those of keys and values: `[batch, heads, queries, keys]` and the dimensions that scores are computed in.
struct Layout {
    full: [usize; 4],
    /// Heads of keys and values.
    shared: usize,
    /// Whether the queries that share a head lie one behind the other, which single ones with the same mask do.
    in_rows: bool,
    /// Keys and values before the first query's own.
    past: usize,
}

/// `Attention` over `[batch, heads, length, size]`, or `[batch, length, heads * size]` with the numbers of heads as attributes.
pub(super) fn attention(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    if node.names_output(3) {
        return Err(node.unsupported("products that are handed out are not read"));
    }
    let packed = floats(node, 0)?.rank() == 3;
    let queries = apart(network, node, 0, "q_num_heads")?;
    let (mut keys, mut values) =
        (apart(network, node, 1, "kv_num_heads")?, apart(network, node, 2, "kv_num_heads")?);
    let past = node.optional(4).map_or(0, |past| past.dims.get(2).copied().unwrap_or(0));
    if let (Some(earlier_keys), Some(earlier_values)) = (node.optional(4), node.optional(5)) {
        keys = joined(network, node, &[earlier_keys.clone(), keys], 2)?;
        values = joined(network, node, &[earlier_values.clone(), values], 2)?;
    }
    let [batch, count, length, size] = [0, 1, 2, 3].map(|axis| queries.dims[axis]);
    let [key_batch, shared, total, key_size] = [0, 1, 2, 3].map(|axis| keys.dims[axis]);
    let fits = key_batch == batch
        && key_size == size
        && shared > 0
        && count.is_multiple_of(shared)
        && values.dims[..3] == keys.dims[..3];
    if !fits {
        let given = format!("{}, {} and {}", queries.dims, keys.dims, values.dims);
        return Err(node.invalid("query, key and value", given, "heads of one size"));
    }
    let precision = node.int("softmax_precision", 0)?;
    if precision != 0 {
        let precision = data_type(i32::try_from(precision).unwrap_or(-1))?;
        if precision != DataType::F32 && precision != queries.data_type {
            return Err(node.unsupported(format!("a softmax of {precision} is not read")));
        }
    }
    if total == 0 || length == 0 {
        return Err(node.unsupported("attention of nothing or to nothing is not read"));
    }
    let full = [batch, count, length, total];
    let in_rows = length == 1 && node.optional(3).is_none_or(|mask| mask.rank() < 3 || mask_heads(mask) == 1);
    let layout = Layout { full, shared, in_rows, past };
    let made = layout.attend(network, node, [&queries, &keys, &values])?;
    let width = values.dims[3];
    let mut made = network.reshape(node, &made, Dims::from([batch, count, length, width]))?;
    if packed {
        made = turned(network, node, &made)?;
        made = network.reshape(node, &made, Dims::from([batch, length, count * width]))?;
    }
    Ok(vec![made, keys, values])
}

/// An input with its heads as a dimension.
fn apart(network: &mut Network, node: &Node, index: usize, attribute: &str) -> Result<Value> {
    let value = floats(node, index)?;
    match value.rank() {
        4 => Ok(value.clone()),
        _ => split(network, node, value, heads(node, attribute)?),
    }
}

/// The heads that a mask of at least three dimensions tells apart.
fn mask_heads(mask: &Value) -> usize {
    mask.dims[mask.rank() - 3]
}

impl Layout {
    /// Values by the softmax of scores, in the dimensions of scores.
    fn attend(
        &self,
        network: &mut Network,
        node: &Node,
        [queries, keys, values]: [&Value; 3],
    ) -> Result<Value> {
        let queries = network.reshape(node, queries, self.of_queries(queries.dims[3]))?;
        let keys = network.reshape(node, keys, self.of_keys(keys.dims[3]))?;
        let values = network.reshape(node, values, self.of_keys(values.dims[3]))?;
        let attrs = Attrs::new().with("transpose_b", true);
        let scores = network.op(node, OpKind::MatMul, &[&queries, &keys], attrs)?;
        let size = queries.dims[queries.rank() - 1] as f64;
        let scale = if node.has("scale") { f64::from(node.float("scale", 1.0)?) } else { 1.0 / size.sqrt() };
        let mut scores = scaled(network, node, &scores, scale)?;
        scores = capped(network, node, scores)?;
        let scores = self.masked(network, node, scores)?;
        let scores = self.within(network, node, scores)?;
        // What attends to nothing is zero.
        let attrs = Attrs::new().with("axis", scores.rank() as i64 - 1).with("mode", "inf_as_zero");
        let shares = network.op(node, OpKind::SoftMax, &[&scores], attrs)?;
        network.op(node, OpKind::MatMul, &[&shares, &values], Attrs::new())
    }

    /// The heads that share one of keys and values.
    fn group(&self) -> usize {
        self.full[1] / self.shared
    }

    fn of_queries(&self, size: usize) -> Dims {
        let [batch, count, length, _] = self.full;
        match (self.group(), self.in_rows) {
            (1, _) => Dims::from([batch, count, length, size]),
            (group, true) => Dims::from([batch, self.shared, group, size]),
            (group, false) => Dims::from([batch, self.shared, group, length, size]),
        }
    }

    fn of_keys(&self, size: usize) -> Dims {
        let [batch, _, _, total] = self.full;
        if self.group() == 1 || self.in_rows {
            return Dims::from([batch, self.shared, total, size]);
        }
        Dims::from([batch, self.shared, 1, total, size])
    }

    /// What broadcasts to `[batch, heads, queries, keys]` as it broadcasts to scores.
    fn of_mask(&self, mask: &Value) -> Dims {
        let full = mask.dims.padded_to_rank(4);
        let [batch, count, length, total] = [0, 1, 2, 3].map(|axis| full[axis]);
        match (self.group(), self.in_rows) {
            (1, _) | (_, true) => full,
            (_, false) if count == 1 => Dims::from([batch, 1, 1, length, total]),
            (group, false) => Dims::from([batch, self.shared, group, length, total]),
        }
    }

    /// Scores with the mask, of truth values or of numbers to add. Keys behind its end do not count.
    fn masked(&self, network: &mut Network, node: &Node, scores: Value) -> Result<Value> {
        let Some(mask) = node.optional(3) else { return Ok(scores) };
        let [batch, count, length, total] = self.full;
        let own = mask.dims.last().copied().filter(|&last| last > 1 || total == 1).unwrap_or(total);
        let fits = (2..=4).contains(&mask.rank())
            && own <= total
            && mask.dims.broadcasts_to(&Dims::from([batch, count, length, own]));
        if !fits {
            let expected = format!("dimensions that broadcast to {batch}x{count}x{length}x{total}");
            return Err(node.invalid("mask", &mask.dims, expected));
        }
        let is_truth = mask.data_type == DataType::Boolean;
        let mut mask = if is_truth {
            mask.clone()
        } else if mask.data_type.is_float() {
            network.converted(node, mask, scores.data_type)?
        } else {
            return Err(node.unsupported(format!("a mask of {} is not read", mask.data_type)));
        };
        if own < total {
            let mut missing = mask.dims.to_vec();
            missing[mask.rank() - 1] = total - own;
            let missing = Dims::from(missing);
            if missing.elements() > MOST_MISSING {
                return Err(node.unsupported(format!("{missing} numbers behind a mask are not filled in")));
            }
            let hidden = vec![if is_truth { 0.0 } else { f64::NEG_INFINITY }; missing.elements()];
            let hidden = HostTensor::from_f64(missing, mask.data_type, &hidden)?;
            let hidden = network.constant(&format!("{}/behind", node.name()), hidden)?;
            let last = mask.rank() as i64 - 1;
            mask = joined(network, node, &[mask, hidden], last)?;
        }
        let mask = network.reshape(node, &mask, self.of_mask(&mask))?;
        if is_truth {
            return hide(network, node, &mask, &scores);
        }
        network.op(node, OpKind::Add, &[&scores, &mask], Attrs::new())
    }

    /// Scores of the keys that a query may see by its place: as many as its sample has, none behind it, none beyond a window.
    fn within(&self, network: &mut Network, node: &Node, mut scores: Value) -> Result<Value> {
        let [batch, _, length, total] = self.full;
        let window = [node.int("left_window_size", -1)?, node.int("right_window_size", -1)?];
        let before = usize::try_from(window[0]).ok();
        let mut behind = usize::try_from(window[1]).ok();
        if node.flag("is_causal", false)? {
            behind = Some(0);
        }
        let lengths = match node.optional(6) {
            Some(lengths) if *lengths.dims != [batch] => {
                return Err(node.invalid("numbers of keys", &lengths.dims, format!("{batch} of them")));
            }
            Some(lengths) => {
                let lengths = network.converted(node, lengths, DataType::S32)?;
                let ones = vec![1; scores.rank() - 1];
                Some(network.reshape(node, &lengths, Dims::from([&[batch], &ones[..]].concat()))?)
            }
            None => None,
        };
        // Places of queries are known where no sample has its own number of keys.
        let starts = lengths.as_ref().filter(|_| self.past == 0);
        let sees = |row: usize, key: usize| {
            let place = row + self.past;
            before.is_none_or(|before| key + before >= place)
                && behind.is_none_or(|behind| key <= place + behind)
        };
        let hides_nothing = starts.is_none() && (0..length).all(|row| sees(row, 0) && sees(row, total - 1));
        let is_bounded = (before.is_some() || behind.is_some()) && !hides_nothing;
        if lengths.is_none() && !is_bounded {
            return Ok(scores);
        }
        let along = |axis: i64| Attrs::new().with("axis", axis);
        let keys = network.op(node, OpKind::GenIndex, &[&scores], along(-1))?;
        if let Some(lengths) = &lengths {
            let counts = network.op(node, OpKind::Less, &[&keys, lengths], Attrs::new())?;
            scores = hide(network, node, &counts, &scores)?;
        }
        if !is_bounded {
            return Ok(scores);
        }
        let mut places = if self.in_rows && self.group() > 1 {
            network.scalar(node, 0.0, &keys)?
        } else {
            network.op(node, OpKind::GenIndex, &[&scores], along(-2))?
        };
        let shifted = |network: &mut Network, places: &Value, by: i64| {
            if by == 0 {
                return Ok(places.clone());
            }
            let by = network.scalar(node, by as f64, &keys)?;
            network.op(node, OpKind::Add, &[places, &by], Attrs::new())
        };
        places = match starts {
            // The last query is the last of the keys that count.
            Some(lengths) => {
                let ends = network.op(node, OpKind::Add, &[&places, lengths], Attrs::new())?;
                shifted(network, &ends, -(length as i64))?
            }
            None => shifted(network, &places, self.past as i64)?,
        };
        if let Some(behind) = behind {
            let last = shifted(network, &places, behind.min(total) as i64)?;
            let counts = network.op(node, OpKind::GreaterEqual, &[&last, &keys], Attrs::new())?;
            scores = hide(network, node, &counts, &scores)?;
        }
        if let Some(before) = before {
            let first = shifted(network, &places, -(before.min(total + length) as i64))?;
            let counts = network.op(node, OpKind::GreaterEqual, &[&keys, &first], Attrs::new())?;
            scores = hide(network, node, &counts, &scores)?;
        }
        Ok(scores)
    }
}

/// Scores that count, and the others as if there were nothing of them.
fn hide(network: &mut Network, node: &Node, counts: &Value, scores: &Value) -> Result<Value> {
    let nothing = network.scalar(node, f64::NEG_INFINITY, scores)?;
    network.op(node, OpKind::Select, &[counts, scores, &nothing], Attrs::new())
}

/// `RotaryEmbedding`: pairs of each head turned by the angle of their position.
pub(super) fn rotary(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let src = floats(node, 0)?;
    // Heads stay where they are, behind their position or in front of it.
    let (own, at) = match src.dims[..] {
        [_, _, _, _] => (src.clone(), 2),
        [batch, length, width] => {
            let heads = heads(node, "num_heads")?;
            if !width.is_multiple_of(heads) {
                return Err(node.invalid("attribute num_heads", heads, format!("a divisor of {width}")));
            }
            (network.reshape(node, src, Dims::from([batch, length, heads, width / heads]))?, 1)
        }
        _ => return Err(node.invalid("source", &src.dims, "three or four dimensions")),
    };
    let (batch, length, size) = (own.dims[0], own.dims[at], own.dims[3]);
    let whole = match node.int("rotary_embedding_dim", 0)? {
        0 => size,
        some => usize::try_from(some).unwrap_or(0),
    };
    let pairs = whole / 2;
    if whole > size || pairs == 0 || length == 0 {
        return Err(node.unsupported(format!("{whole} of {size} numbers of a head are not turned here")));
    }
    let angles = |network: &mut Network, index: usize| -> Result<Value> {
        let table = floats(node, index)?;
        let other = || node.unsupported(format!("tables of {} are not read", table.dims));
        if table.dims.last() != Some(&pairs) {
            return Err(other());
        }
        let found = match node.optional(3) {
            Some(positions) if positions.dims.elements() == batch * length && table.rank() == 2 => {
                let attrs = Attrs::new().with("mode", "axis").with("axis", 0_i64);
                network.op(node, OpKind::Gather, &[table, positions], attrs)?
            }
            None if table.dims.elements() == batch * length * pairs => table.clone(),
            _ => return Err(other()),
        };
        let mut dims = [batch, 1, 1, pairs];
        dims[at] = length;
        network.reshape(node, &found, Dims::from(dims))
    };
    let angles = [angles(network, 1)?, angles(network, 2)?];
    let made = rotated(network, node, &own, &angles, node.flag("interleaved", false)?)?;
    Ok(vec![network.reshape(node, &made, src.dims.clone())?])
}

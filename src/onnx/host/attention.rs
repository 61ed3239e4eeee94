//! Scaled dot-product attention, and rotary positions.

use anydnn_backend::{DataType, Dims, Result};

use super::super::tensor::data_type;
use super::call::Call;
use super::movement::{concat_along, transposed};
use super::normalization::rounded;
use super::numbers::{ints, places};
use crate::model::HostTensor;

/// Attention over `[batch, heads, length, size]`, or `[batch, length, heads * size]` with the numbers of heads as attributes.
pub(in crate::onnx) fn attention(call: &mut Call) -> Result<Vec<HostTensor>> {
    let node = call.node;
    let packed = call.tensor(0)?.dims().len() == 3;
    let data_type_of_result = call.tensor(0)?.data_type();
    let query = split(call, 0, "q_num_heads")?;
    let (mut key, mut value) = (split(call, 1, "kv_num_heads")?, split(call, 2, "kv_num_heads")?);
    let past = call.optional(4).map_or(0, |past| past.dims().get(2).copied().unwrap_or(0));
    if let (Some(past_key), Some(past_value)) = (call.optional(4), call.optional(5)) {
        key = concat_along(call, &[past_key, &key], 2)?;
        value = concat_along(call, &[past_value, &value], 2)?;
    }
    let [batch, heads, length, size] = [0, 1, 2, 3].map(|i| query.dims()[i]);
    let [kv_batch, kv_heads, total, key_size] = [0, 1, 2, 3].map(|i| key.dims()[i]);
    let width = value.dims()[3];
    let fits = kv_batch == batch
        && key_size == size
        && kv_heads > 0
        && heads.is_multiple_of(kv_heads)
        && value.dims()[..3] == key.dims()[..3];
    if !fits {
        let given = format!("{}, {} and {}", query.desc(), key.desc(), value.desc());
        return Err(call.invalid("query, key and value", given, "heads of one size"));
    }
    let scale =
        if node.has("scale") { f64::from(node.float("scale", 1.0)?) } else { 1.0 / (size as f64).sqrt() };
    let cap = f64::from(node.float("softcap", 0.0)?);
    let mode = node.int("qk_matmul_output_mode", 0)?;
    let precision = match node.int("softmax_precision", 0)? {
        0 => DataType::F32,
        number => data_type(i32::try_from(number).unwrap_or(-1))?,
    };
    let bias = Bias::of(call, [batch, heads, length, total], past)?;
    let result = Dims::from([batch, heads, length, width]);
    let square = Dims::from([batch, heads, length, total]);
    call.take(&square, DataType::F64)?;
    let (q, k, v) = (query.to_f64s(), key.to_f64s(), value.to_f64s());
    let (mut made, mut products) = (Vec::with_capacity(result.elements()), Vec::new());
    for n in 0..batch {
        for head in 0..heads {
            let other = n * kv_heads + head / (heads / kv_heads);
            for row in 0..length {
                let own = &q[((n * heads + head) * length + row) * size..][..size];
                let mut scores: Vec<f64> = (0..total)
                    .map(|column| {
                        let key = &k[(other * total + column) * size..][..size];
                        own.iter().zip(key).map(|(a, b)| a * b).sum::<f64>() * scale
                    })
                    .collect();
                let mut shown = if mode == 0 { scores.clone() } else { Vec::new() };
                if cap > 0.0 {
                    scores.iter_mut().for_each(|score| *score = cap * (*score / cap).tanh());
                }
                if mode == 1 {
                    shown.clone_from(&scores);
                }
                scores
                    .iter_mut()
                    .enumerate()
                    .for_each(|(column, score)| bias.add(score, n, head, row, column));
                if mode == 2 {
                    shown.clone_from(&scores);
                }
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let closed = most == f64::NEG_INFINITY;
                scores.iter_mut().for_each(|score| *score = if closed { 0.0 } else { (*score - most).exp() });
                let sum: f64 = scores.iter().sum();
                scores.iter_mut().for_each(|score| *score /= if closed { 1.0 } else { sum });
                rounded(&mut scores, precision);
                if mode == 3 {
                    shown.clone_from(&scores);
                }
                products.extend(shown);
                made.extend((0..width).map(|i| {
                    // What nobody attends to must not reach the result, not even as a number that is none.
                    let parts = scores.iter().enumerate().filter(|(_, score)| **score != 0.0);
                    parts.map(|(column, score)| score * v[(other * total + column) * width + i]).sum::<f64>()
                }));
            }
        }
    }
    let mut attended = call.floats(result, data_type_of_result, &made)?;
    if packed {
        attended = transposed(&attended, &[0, 2, 1, 3])?.reshaped([batch, length, heads * width])?;
    }
    let products = if node.outputs() > 3 { products } else { Vec::new() };
    let mut outputs = vec![attended, key, value];
    if node.outputs() > 3 {
        outputs.push(call.floats(square, data_type_of_result, &products)?);
    }
    Ok(outputs)
}

/// An input with its heads as a dimension.
fn split(call: &Call, index: usize, attribute: &str) -> Result<HostTensor> {
    let src = call.tensor(index)?;
    if src.dims().len() == 4 {
        return Ok(src.clone());
    }
    let given = call.node.int(attribute, 0)?;
    let heads = usize::try_from(given)
        .ok()
        .filter(|&heads| heads > 0 && src.dims().len() == 3 && src.dims()[2].is_multiple_of(heads));
    let heads = heads.ok_or_else(|| {
        call.invalid(&format!("attribute {attribute}"), given, format!("heads of {}", src.desc()))
    })?;
    let [batch, length, width] = [0, 1, 2].map(|i| src.dims()[i]);
    transposed(&src.clone().reshaped([batch, length, heads, width / heads])?, &[0, 2, 1, 3])
}

/// What is added to the products, and which of them do not count.
struct Bias {
    /// For each of `[batch, heads, length, masked]`.
    mask: Vec<f64>,
    masked: usize,
    dims: [usize; 4],
    causal: bool,
    /// How many keys come before the first query, for each sample.
    offsets: Vec<i64>,
    /// How many keys count, for each sample.
    valid: Vec<i64>,
    window: (i64, i64),
}

impl Bias {
    fn of(call: &Call, dims: [usize; 4], past: usize) -> Result<Self> {
        let [batch, heads, length, total] = dims;
        let (mut mask, mut masked) = (Vec::new(), total);
        if let Some(tensor) = call.optional(3) {
            let (own, rank) = (tensor.dims(), tensor.dims().len());
            // The last dimension may be shorter than the keys.
            masked = own.last().copied().filter(|&last| last > 1 || total == 1).unwrap_or(total);
            let full = Dims::from([batch, heads, length, masked]);
            if masked > total || rank < 2 || !own.broadcasts_to(&full) {
                let expected = format!("dimensions that broadcast to {batch}x{heads}x{length}x{total}");
                return Err(call.invalid("mask", tensor.desc(), expected));
            }
            let values: Vec<f64> = match ints(tensor) {
                Some(values) => {
                    values.into_iter().map(|on| if on == 0 { f64::NEG_INFINITY } else { 0.0 }).collect()
                }
                None => tensor.to_f64s(),
            };
            mask = places(own, &full).into_iter().map(|place| values[place]).collect();
        }
        let valid = if call.optional(6).is_some() { call.ints(6)? } else { vec![total as i64; batch] };
        if valid.len() != batch {
            return Err(call.invalid("numbers of keys", format!("{valid:?}"), format!("{batch} of them")));
        }
        let offsets = if call.optional(6).is_some() && past == 0 {
            valid.iter().map(|valid| valid.saturating_sub(length as i64)).collect()
        } else {
            vec![past as i64; batch]
        };
        let window = (call.node.int("left_window_size", -1)?, call.node.int("right_window_size", -1)?);
        Ok(Self { mask, masked, dims, causal: call.node.flag("is_causal", false)?, offsets, valid, window })
    }

    fn add(&self, score: &mut f64, n: usize, head: usize, row: usize, column: usize) {
        let [_, heads, length, _] = self.dims;
        let (place, key) = (self.offsets[n].saturating_add(row as i64), column as i64);
        let closed = key >= self.valid[n]
            || self.causal && key > place
            || self.window.0 >= 0 && key < place.saturating_sub(self.window.0)
            || self.window.1 >= 0 && key > place.saturating_add(self.window.1)
            || column >= self.masked;
        if closed {
            *score = f64::NEG_INFINITY;
        } else if !self.mask.is_empty() {
            *score += self.mask[((n * heads + head) * length + row) * self.masked + column];
        }
    }
}

/// Pairs of elements turned by an angle for each position.
pub(in crate::onnx) fn rotary_embedding(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let packed = src.dims().len() == 3;
    let heads = split(call, 0, "num_heads")?;
    let [batch, count, length, size] = [0, 1, 2, 3].map(|i| heads.dims()[i]);
    let turned =
        usize::try_from(call.node.int("rotary_embedding_dim", 0)?).ok().filter(|&turned| turned <= size);
    let turned = turned.ok_or_else(|| {
        call.invalid("attribute rotary_embedding_dim", "too large", format!("up to {size}"))
    })?;
    let half = if turned == 0 { size } else { turned } / 2;
    let (cos, sin) = (call.tensor(1)?, call.tensor(2)?);
    let rows = cos.dims().elements().checked_div(half).unwrap_or(0);
    let (cos, sin) = (call.values(1, rows * half)?, sin.to_f64s());
    let positions = match call.optional(3) {
        Some(_) => call.ints(3)?,
        None => (0..(batch * length) as i64).collect(),
    };
    let within =
        positions.iter().all(|&position| usize::try_from(position).is_ok_and(|position| position < rows));
    if sin.len() != cos.len() || positions.len() != batch * length || !within {
        let expected = format!("a row of {half} for each of {batch}x{length} positions");
        return Err(call.invalid("caches", format!("{rows} rows"), expected));
    }
    let interleaved = call.node.flag("interleaved", false)?;
    let mut values = heads.to_f64s();
    for (at, part) in values.chunks_mut(size.max(1)).enumerate() {
        let (n, t) = (at / (count * length), at % length);
        let row = positions[n * length + t] as usize * half;
        for i in 0..half {
            let (a, b) = if interleaved { (2 * i, 2 * i + 1) } else { (i, half + i) };
            let (x, y) = (part[a], part[b]);
            part[a] = cos[row + i] * x - sin[row + i] * y;
            part[b] = sin[row + i] * x + cos[row + i] * y;
        }
    }
    let made = call.floats(heads.dims().clone(), src.data_type(), &values)?;
    if packed {
        return Ok(vec![transposed(&made, &[0, 2, 1, 3])?.reshaped(src.dims().clone())?]);
    }
    Ok(vec![made])
}

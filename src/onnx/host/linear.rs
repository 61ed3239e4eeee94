//! Recurrences that stand in for attention, and the convolution before them.

use anydnn_backend::{Dims, Result};

use super::activation::sigmoid;
use super::call::Call;
use crate::model::HostTensor;

/// A matrix for each head that every step decays, corrects and reads.
pub(in crate::onnx) fn linear_attention(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (query, value) = (call.ranked(0, 3)?, call.ranked(2, 3)?);
    let heads = |name: &str| call.node.int(name, 0).map(|heads| usize::try_from(heads).unwrap_or(0));
    let (q_heads, heads) = (heads("q_num_heads")?, heads("kv_num_heads")?);
    let [batch, steps, width] = [0, 1, 2].map(|i| query.dims()[i]);
    let whole = heads > 0 && q_heads.is_multiple_of(heads) && q_heads > 0 && width.is_multiple_of(q_heads);
    if !whole || !value.dims()[2].is_multiple_of(heads) {
        return Err(call.invalid(
            "heads",
            format!("{q_heads} and {heads}"),
            format!("divisors of {}", query.desc()),
        ));
    }
    let (dk, dv) = (width / q_heads, value.dims()[2] / heads);
    let rule = call.node.word("update_rule", "gated_delta")?;
    let (gated, delta) = match rule.as_str() {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => {
            return Err(call.invalid("attribute update_rule", other, "linear, gated, delta or gated_delta"));
        }
    };
    let q = query.to_f64s();
    let k = call.values(1, batch * steps * heads * dk)?;
    let v = call.values(2, batch * steps * heads * dv)?;
    let mut state = call.values_or(3, batch * heads * dk * dv, 0.0)?;
    let decays = match call.optional(4) {
        Some(tensor) if gated => tensor.to_f64s(),
        _ => vec![0.0; batch * steps * heads],
    };
    let rates = match call.optional(5) {
        Some(tensor) if delta => tensor.to_f64s(),
        _ => vec![1.0; batch * steps],
    };
    // A decay for each head or each of its rows; a rate for each head or for all.
    let (by_row, by_head) =
        (decays.len() == batch * steps * heads * dk, rates.len() == batch * steps * heads);
    if !by_row && decays.len() != batch * steps * heads || !by_head && rates.len() != batch * steps {
        return Err(call.invalid(
            "decay or beta",
            format!("{} and {}", decays.len(), rates.len()),
            "one for each step and head",
        ));
    }
    let scale = match f64::from(call.node.float("scale", 0.0)?) {
        0.0 => 1.0 / (dk as f64).sqrt(),
        scale => scale,
    };
    let mut made = vec![0.0; batch * steps * q_heads * dv];
    let group = q_heads / heads;
    for n in 0..batch {
        for t in 0..steps {
            let at = n * steps + t;
            for head in 0..heads {
                let own = &mut state[(n * heads + head) * dk * dv..][..dk * dv];
                let key = &k[(at * heads + head) * dk..][..dk];
                for (row, part) in own.chunks_mut(dv.max(1)).enumerate() {
                    let decay = if by_row {
                        decays[(at * heads + head) * dk + row]
                    } else {
                        decays[at * heads + head]
                    };
                    part.iter_mut().for_each(|cell| *cell *= decay.exp());
                }
                let rate = if by_head { rates[at * heads + head] } else { rates[at] };
                for j in 0..dv {
                    let known: f64 =
                        if delta { (0..dk).map(|i| own[i * dv + j] * key[i]).sum() } else { 0.0 };
                    let new = rate * (v[(at * heads + head) * dv + j] - known);
                    (0..dk).for_each(|i| own[i * dv + j] += key[i] * new);
                }
                for reader in head * group..(head + 1) * group {
                    let query = &q[(at * q_heads + reader) * dk..][..dk];
                    let out = &mut made[(at * q_heads + reader) * dv..][..dv];
                    for (j, out) in out.iter_mut().enumerate() {
                        *out = scale * (0..dk).map(|i| query[i] * own[i * dv + j]).sum::<f64>();
                    }
                }
            }
        }
    }
    let state_type = call.optional(3).unwrap_or(query).data_type();
    Ok(vec![
        call.floats([batch, steps, q_heads * dv].into(), query.data_type(), &made)?,
        call.floats([batch, heads, dk, dv].into(), state_type, &state)?,
    ])
}

/// Each channel by its own window over what came before, with the end kept for the next call.
pub(in crate::onnx) fn causal_convolution(call: &mut Call) -> Result<Vec<HostTensor>> {
    let (src, weights) = (call.ranked(0, 3)?, call.ranked(1, 3)?);
    let [batch, channels, length] = [0, 1, 2].map(|i| src.dims()[i]);
    let size = weights.dims()[2];
    if size == 0 {
        return Err(call.invalid("weights", weights.desc(), "at least one tap"));
    }
    let weights = call.values(1, channels * size)?;
    let bias = call.values_or(2, channels, 0.0)?;
    let past = call.values_or(3, batch * channels * (size - 1), 0.0)?;
    let smooth = matches!(call.node.word("activation", "none")?.as_str(), "silu" | "swish");
    let values = src.to_f64s();
    let (mut made, mut kept) = (Vec::with_capacity(values.len()), Vec::new());
    for nc in 0..batch * channels {
        let c = nc % channels;
        let mut line = past[nc * (size - 1)..(nc + 1) * (size - 1)].to_vec();
        line.extend_from_slice(&values[nc * length..(nc + 1) * length]);
        for t in 0..length {
            let parts = weights[c * size..(c + 1) * size].iter().zip(&line[t..]);
            let sum = parts.map(|(w, x)| w * x).sum::<f64>() + bias[c];
            made.push(if smooth { sum * sigmoid(sum) } else { sum });
        }
        kept.extend_from_slice(&line[length..]);
    }
    let state_type = call.optional(3).unwrap_or(src).data_type();
    Ok(vec![
        call.floats(src.dims().clone(), src.data_type(), &made)?,
        call.floats(Dims::from([batch, channels, size - 1]), state_type, &kept)?,
    ])
}

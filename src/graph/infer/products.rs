//! Matrix products.

use anydnn_backend::{Dims, Result};

use super::super::op::Op;
use super::bad_shape;

/// numpy's `matmul`: batches broadcast, a 1-D operand is a row or a column that leaves no dimension behind.
pub(super) fn matmul(op: &Op, inputs: &[Dims]) -> Result<Dims> {
    let (src, weights) = (&inputs[0], &inputs[1]);
    let [m, src_k] = matrix(op, "src", src, op.attrs.bool("transpose_a")?, |d| [1, d])?;
    let [weights_k, n] = matrix(op, "weights", weights, op.attrs.bool("transpose_b")?, |d| [d, 1])?;
    if src_k != weights_k {
        let given = format!("{src} times {weights}");
        let expected = format!("inner dimensions that agree, not {src_k} and {weights_k}");
        return Err(bad_shape(op, "src times weights", given, expected));
    }
    let batch = |dims: &Dims| Dims::new(&dims[..dims.len().saturating_sub(2)]);
    let batches = batch(src).broadcast(&batch(weights)).map_err(|_| {
        let given = format!("{src} times {weights}");
        bad_shape(op, "src times weights", given, "batch dimensions that are equal or one")
    })?;
    let rows = (src.len() > 1).then_some(m);
    let columns = (weights.len() > 1).then_some(n);
    let dst: Dims = batches.iter().copied().chain(rows).chain(columns).collect();
    match inputs.get(2) {
        Some(bias) if !bias.broadcasts_to(&dst) => {
            Err(bad_shape(op, "bias", bias, format!("dimensions that broadcast to dst {dst}")))
        }
        _ => Ok(dst),
    }
}

/// The two matrix dimensions of an operand.
fn matrix(
    op: &Op,
    name: &str,
    dims: &Dims,
    transposed: bool,
    vector: fn(usize) -> [usize; 2],
) -> Result<[usize; 2]> {
    match **dims {
        [] => Err(bad_shape(op, name, dims, "at least one dimension")),
        [d] => Ok(vector(d)),
        [.., rows, columns] if transposed => Ok([columns, rows]),
        [.., rows, columns] => Ok([rows, columns]),
    }
}

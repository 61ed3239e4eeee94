//! Matrix products.

use anydnn_backend::Result;

use super::super::network::{Network, Value};
use super::super::node::Node;
use super::activation::scaled;
use super::floats;
use crate::graph::{Attrs, OpKind};

pub(super) fn matmul(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    Ok(vec![network.op(node, OpKind::MatMul, &[floats(node, 0)?, floats(node, 1)?], Attrs::new())?])
}

/// alpha times the product of two matrices, plus beta times a tensor that broadcasts to it.
#[expect(clippy::float_cmp, reason = "only exactly one leaves the product as it is")]
pub(super) fn gemm(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let (a, b) = (floats(node, 0)?, floats(node, 1)?);
    if a.rank() != 2 || b.rank() != 2 {
        return Err(node.invalid("inputs", format!("{} and {}", a.dims, b.dims), "two matrices"));
    }
    let (alpha, beta) = (f64::from(node.float("alpha", 1.0)?), f64::from(node.float("beta", 1.0)?));
    let (trans_a, trans_b) = (node.flag("transA", false)?, node.flag("transB", false)?);
    let attrs = Attrs::new().with("transpose_a", trans_a).with("transpose_b", trans_b);
    let columns = b.dims[usize::from(!trans_b)];
    let bias = match node.optional(2) {
        Some(bias) if beta != 0.0 => Some(scaled(network, node, bias, beta)?),
        _ => None,
    };
    match bias {
        // A vector along the columns is a bias of the product itself.
        Some(bias) if alpha == 1.0 && *bias.dims == [columns] => {
            Ok(vec![network.op(node, OpKind::MatMul, &[a, b, &bias], attrs)?])
        }
        bias => {
            let product = network.op(node, OpKind::MatMul, &[a, b], attrs)?;
            let product = scaled(network, node, &product, alpha)?;
            let Some(bias) = bias else { return Ok(vec![product]) };
            if !bias.dims.broadcasts_to(&product.dims) {
                let expected = format!("dimensions that broadcast to {}", product.dims);
                return Err(node.invalid("input 2", &bias.dims, expected));
            }
            Ok(vec![network.op(node, OpKind::Add, &[&product, &bias], Attrs::new())?])
        }
    }
}

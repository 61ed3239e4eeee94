//! What is the same before elements change places as behind it: a number that multiplies the rows of a product goes with the product.

use anydnn_backend::Result;

use super::super::network::{Network, Value};
use super::super::node::Node;
use crate::graph::{Attrs, OpKind};

/// A product or quotient of one known number and views of a matrix product, as views of the matrix product times that number; none where
/// the views are of something else. Attention is exported so: both its factors are scaled once heads lie apart.
pub(super) fn before_views(network: &mut Network, node: &Node, kind: OpKind) -> Result<Option<Value>> {
    let is_number = |network: &Network, index: usize| {
        node.inputs()[index].as_ref().is_some_and(|value| {
            value.dims.elements() == 1 && network.is_known(value) && value.data_type.is_float()
        })
    };
    let number = match kind {
        OpKind::Multiply if is_number(network, 0) => 0,
        OpKind::Multiply | OpKind::Divide if is_number(network, 1) => 1,
        _ => return Ok(None),
    };
    let (viewed, factor) = (node.input(1 - number)?, node.input(number)?);
    if factor.rank() > viewed.rank() {
        return Ok(None);
    }
    let (mut source, mut views) = (viewed.clone(), Vec::new());
    while let Some(OpKind::StaticReshape | OpKind::StaticTranspose) = network.made_by(&source) {
        let (Some((view, inputs)), Some(attrs)) = (network.maker(&source), network.attrs(&source)) else {
            return Ok(None);
        };
        views.push((view, attrs.clone()));
        let [before] = &inputs[..] else { return Ok(None) };
        source = before.clone();
    }
    if views.is_empty() || !is_product(network, &source) {
        return Ok(None);
    }
    let factor = network.reshape(node, factor, [].into())?;
    let operands = if number == 0 { [&factor, &source] } else { [&source, &factor] };
    let mut value = network.op(node, kind, &operands, Attrs::new())?;
    for (view, attrs) in views.into_iter().rev() {
        value = network.op(node, view, &[&value], attrs)?;
    }
    Ok(Some(value))
}

/// Whether a value is a matrix product, perhaps with something added.
fn is_product(network: &Network, value: &Value) -> bool {
    let is_matmul = |value: &Value| network.made_by(value) == Some(OpKind::MatMul);
    let is_sum = || network.made_by(value) == Some(OpKind::Add);
    is_matmul(value)
        || is_sum() && network.maker(value).is_some_and(|(_, inputs)| inputs.iter().any(is_matmul))
}

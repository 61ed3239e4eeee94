//! Sums of products over named indices as matrix products.

use anydnn_backend::{Dims, Result};

use super::super::host::Terms;
use super::super::network::{Network, Value};
use super::super::node::Node;
use super::check_floats;
use crate::graph::{Attrs, OpKind};

/// A value with a label for each dimension.
struct Term {
    value: Value,
    labels: Vec<char>,
}

pub(super) fn einsum(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let inputs = node.all_inputs()?;
    let terms = Terms::of(node, &inputs.iter().map(|input| &input.dims).collect::<Vec<_>>())?;
    for (input, labels) in inputs.iter().zip(&terms.inputs) {
        check_floats(node, input)?;
        let is_plain = |(d, label): (usize, &char)| {
            input.dims[d] == terms.extent(*label) && !labels[..d].contains(label)
        };
        if !labels.iter().enumerate().all(is_plain) {
            return Err(node.unsupported("diagonals and dimensions that broadcast are not read"));
        }
    }
    let repeated = (1..terms.result.len()).any(|at| terms.result[..at].contains(&terms.result[at]));
    if repeated || terms.extents.contains(&0) {
        return Err(node.unsupported("no diagonals are made, and nothing of no elements"));
    }
    let mut rest: Vec<Term> = Vec::with_capacity(inputs.len());
    for (value, labels) in inputs.into_iter().zip(&terms.inputs) {
        rest.push(Term { value, labels: labels.clone() });
    }
    let mut rest = rest.into_iter();
    let Some(mut made) = rest.next() else { return Err(node.invalid("inputs", "none", "at least one")) };
    while let Some(next) = rest.next() {
        let wanted = |label: &char| {
            terms.result.contains(label) || rest.as_slice().iter().any(|term| term.labels.contains(label))
        };
        let left = made.summed(network, node, |label| wanted(label) || next.labels.contains(label))?;
        let right = next.summed(network, node, |label| wanted(label) || left.labels.contains(label))?;
        made = multiplied(network, node, &left, &right, wanted)?;
    }
    let made = made.summed(network, node, |label| terms.result.contains(label))?;
    Ok(vec![made.ordered(network, node, &terms.result)?])
}

impl Term {
    /// The sum over all labels that are not kept.
    fn summed(self, network: &mut Network, node: &Node, is_kept: impl Fn(&char) -> bool) -> Result<Self> {
        let gone: Vec<i64> =
            (0..self.labels.len()).filter(|&d| !is_kept(&self.labels[d])).map(|d| d as i64).collect();
        if gone.is_empty() {
            return Ok(self);
        }
        let attrs = Attrs::new().with("axes", gone).with("keep_dims", false);
        let value = network.op(node, OpKind::ReduceSum, &[&self.value], attrs)?;
        let labels = self.labels.iter().copied().filter(is_kept).collect();
        Ok(Self { value, labels })
    }

    /// The value with its dimensions in another order.
    fn ordered(&self, network: &mut Network, node: &Node, labels: &[char]) -> Result<Value> {
        let place = |label: &char| self.labels.iter().position(|own| own == label);
        let order: Vec<i64> = labels.iter().filter_map(place).map(|at| at as i64).collect();
        if order.is_sorted() {
            return Ok(self.value.clone());
        }
        network.op(node, OpKind::StaticTranspose, &[&self.value], Attrs::new().with("order", order))
    }

    fn extents<'a>(&'a self, labels: &'a [char]) -> impl Iterator<Item = usize> + 'a {
        let extent = move |label| self.labels.iter().position(|own| own == label);
        labels.iter().filter_map(extent).map(move |at| self.value.dims[at])
    }
}

/// The product of two terms, summed over what is in both and not wanted.
fn multiplied(
    network: &mut Network,
    node: &Node,
    left: &Term,
    right: &Term,
    wanted: impl Fn(&char) -> bool,
) -> Result<Term> {
    let shared = |label: &char| left.labels.contains(label) && right.labels.contains(label);
    let of = |term: &Term, keep: &dyn Fn(&char) -> bool| -> Vec<char> {
        term.labels.iter().copied().filter(keep).collect()
    };
    let batch = of(left, &|label: &char| shared(label) && wanted(label));
    let inner = of(left, &|label: &char| shared(label) && !wanted(label));
    let rows = of(left, &|label: &char| !shared(label));
    let columns = of(right, &|label: &char| !shared(label));
    let labels = [&batch[..], &rows, &columns].concat();
    let dims: Dims = left.extents(&batch).chain(left.extents(&rows)).chain(right.extents(&columns)).collect();
    let a = left.ordered(network, node, &[&batch[..], &rows, &inner].concat())?;
    let b = right.ordered(network, node, &[&batch[..], &inner, &columns].concat())?;
    let value = if inner.is_empty() {
        // Dimensions of one broadcast.
        let ones = |labels: &[char]| vec![1; labels.len()];
        let before: Dims = left.extents(&batch).chain(left.extents(&rows)).chain(ones(&columns)).collect();
        let behind: Dims = left.extents(&batch).chain(ones(&rows)).chain(right.extents(&columns)).collect();
        let (a, b) = (network.reshape(node, &a, before)?, network.reshape(node, &b, behind)?);
        network.op(node, OpKind::Multiply, &[&a, &b], Attrs::new())?
    } else {
        let count = |term: &Term, labels: &[char]| term.extents(labels).product::<usize>();
        let (stack, sum) = (count(left, &batch), count(left, &inner));
        let a = network.reshape(node, &a, [stack, count(left, &rows), sum].into())?;
        let b = network.reshape(node, &b, [stack, sum, count(right, &columns)].into())?;
        let made = network.op(node, OpKind::MatMul, &[&a, &b], Attrs::new())?;
        network.reshape(node, &made, dims)?
    };
    Ok(Term { value, labels })
}

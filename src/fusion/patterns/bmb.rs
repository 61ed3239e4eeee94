//! Binary operations around two products, as in the cross layers of recommendation models.

use super::shared::bias;
use crate::formula::parts::BINARY;
use crate::formula::{any, it, op, steps, times};
use crate::fusion::pattern::Pattern;
use crate::graph::OpKind::MatMul;
use crate::graph::{Graph, Op};

/// The most layers.
const MOST: usize = 8;

pub(super) fn patterns() -> Vec<Pattern> {
    let binary = || op(BINARY).of([it(), any()]).either();
    // Elsewhere the binary operations in front ride on what makes their source.
    let first = binary().when("it reads what is given from outside", reads_ports);
    let product = || op(MatMul).of([it(), any()]).then(bias());
    let layer = steps![product(), product(), times(1..=MOST, vec![steps![binary()]])];
    vec![Pattern::new(
        "bmb/binary_matmul_binary",
        120,
        &["layers of two products and binary operations"],
        any().repeat(0..=MOST, vec![steps![first]]).repeat(1..=MOST, vec![layer]),
    )]
}

fn reads_ports(graph: &Graph, op: &Op) -> bool {
    op.inputs.iter().all(|&id| graph.producer(id).is_none())
}

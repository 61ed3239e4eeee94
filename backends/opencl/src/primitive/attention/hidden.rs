//! Keys that no query of a block sees, as under a causal mask: the blocks of keys behind them need no work.

use anydnn_backend::op::{Attention, Expression, Node};
use anydnn_backend::{Arg, BinaryAlgorithm, PrimitiveDesc};

/// The node that says whether a query sees a key, where it is known that a key hidden from the last query of a block hides all keys
/// from there on from all of the block's queries. Such scores are minus infinity; weights must then be zero.
pub(super) fn seen(desc: &PrimitiveDesc, op: &Attention) -> Option<usize> {
    let (seen, score) = seen_or_score(desc, op)?;
    (op.scores.nodes[score] == Node::Constant(f32::NEG_INFINITY)).then_some(seen)
}

/// The same where such scores are any number, which all of them have in common, and the node of that number. It shows on the device alone
/// whether it makes their weights zero.
pub(super) fn seen_or_score(desc: &PrimitiveDesc, op: &Attention) -> Option<(usize, usize)> {
    use BinaryAlgorithm as B;
    let scores = &op.scores;
    let Node::Select(seen, _, other) = scores.nodes[scores.results[0]] else { return None };
    if op.weights.is_some() || !is_number(desc, &scores.nodes[other]) {
        return None;
    }
    let (Node::Binary(B::GreaterEqual | B::Greater, of_query, of_key)
    | Node::Binary(B::LessEqual | B::Less, of_key, of_query)) = scores.nodes[seen]
    else {
        return None;
    };
    let rank = scores.dims.len();
    let grows = |node, axis| grows_along(desc, scores, node, axis);
    (grows(of_query, rank - 2) && grows(of_key, rank - 1)).then_some((seen, other))
}

/// Whether a node is the same for all queries and keys, and can be read anywhere.
pub(super) fn is_number(desc: &PrimitiveDesc, node: &Node) -> bool {
    match *node {
        Node::Constant(_) => true,
        Node::Operand(i) if i > 0 => desc.find(Arg::Src(i + 2)).is_some_and(|operand| {
            let dims = operand.dims();
            dims.iter().rev().take(2).all(|&dim| dim == 1)
        }),
        _ => false,
    }
}

/// Whether a node is the index along an axis of the scores plus what is the same for all queries and keys.
fn grows_along(desc: &PrimitiveDesc, scores: &Expression, node: usize, axis: usize) -> bool {
    let grows = |node, axis| grows_along(desc, scores, node, axis);
    let rank = scores.dims.len();
    match scores.nodes[node] {
        Node::Index(of) => of == axis || of + 2 < rank,
        ref number if is_number(desc, number) => true,
        Node::Binary(BinaryAlgorithm::Add, a, b) => grows(a, axis) && grows(b, axis),
        // Only batches have axes that neither queries nor keys vary along.
        Node::Binary(BinaryAlgorithm::Subtract, a, b) => grows(a, axis) && grows(b, usize::MAX),
        _ => false,
    }
}

//! The nodes of an expression as OpenCL C: a variable each.

use std::fmt::Write;

use anydnn_backend::DataType;
use anydnn_backend::op::Node;

use super::source::{arguments, eltwise};
use super::value::Value;

/// Where the values that nodes start from come from, as text.
pub(super) trait Leaves {
    /// An element of the `i`-th operand, of type `V`.
    fn operand(&self, i: u16) -> String;
    /// The index along an axis of the space, of type `V`.
    fn index(&self, axis: usize) -> String;
    /// The row-major index in the space, of type `VEC(ulong)`.
    fn position(&self) -> String;
    /// A number, of type `R`.
    fn constant(&self, value: Value, number: f32) -> String {
        value.literal(number)
    }
    /// The only element of the `i`-th operand, in its natural arithmetic type.
    fn scalar(&self, i: u16) -> String;
    /// The value of the fold that is node `node`, of type `V`.
    fn fold(&self, node: usize) -> String;
}

/// Which nodes the `wanted` ones need, themselves included. What is behind a fold is not needed: the fold has its value already.
pub(super) fn needed(nodes: &[Node], wanted: impl IntoIterator<Item = usize>) -> Vec<bool> {
    let mut needed = vec![false; nodes.len()];
    for node in wanted {
        needed[node] = true;
    }
    for i in (0..nodes.len()).rev() {
        if needed[i] && !matches!(nodes[i], Node::Fold(..)) {
            for used in nodes[i].uses() {
                needed[used] = true;
            }
        }
    }
    needed
}

/// Declares `const V <prefix><i>` for each needed node `i`, in order.
pub(super) fn statements(
    nodes: &[Node],
    needed: &[bool],
    prefix: &str,
    value: Value,
    leaves: &impl Leaves,
) -> String {
    let mut text = String::new();
    for (i, node) in nodes.iter().enumerate().filter(|&(i, _)| needed[i]) {
        let node = match node {
            Node::Fold(..) => leaves.fold(i),
            node => expression(*node, prefix, value, leaves),
        };
        let _ = write!(text, "const V {prefix}{i} = {node}; ");
    }
    text
}

/// The value of a node from those of earlier ones, of type `V`.
fn expression(node: Node, prefix: &str, value: Value, leaves: &impl Leaves) -> String {
    let at = |i: usize| format!("{prefix}{i}");
    match node {
        Node::Operand(i) => leaves.operand(i),
        Node::Constant(c) => format!("(V)({})", leaves.constant(value, c)),
        Node::Index(axis) => leaves.index(axis),
        Node::Eltwise(function, x) => eltwise(value, function, &at(x)),
        Node::Gradient { function, of_result, at: x, diff } => {
            let of = if of_result && function.has_gradient_of_result() { "of_" } else { "" };
            let arguments = arguments(value, function, &at(x));
            format!("derivative_{of}{}({arguments}) * {}", function.name(), at(diff))
        }
        Node::Binary(algorithm, a, b) => format!("binary_{}({}, {})", algorithm.name(), at(a), at(b)),
        Node::Select(condition, a, b) => format!("{} != (V)(0) ? {} : {}", at(condition), at(a), at(b)),
        Node::Cast(data_type, x) => cast(data_type, value, &at(x)),
        Node::Keep { seed, offset, probability } => {
            let [seed, offset, probability] = [seed, offset, probability].map(|i| leaves.scalar(i));
            format!("keeps({}, {seed}, {offset}, {probability})", leaves.position())
        }
        Node::Random { seed, offset } => {
            let [seed, offset] = [seed, offset].map(|i| leaves.scalar(i));
            format!("random_number({}, {seed}, {offset})", leaves.position())
        }
        // The enumeration is open, and folds have been dealt with.
        _ => "(V)(NAN)".into(),
    }
}

/// A value as it is after a store and a load.
fn cast(data_type: DataType, value: Value, x: &str) -> String {
    if data_type == value.storage() || (data_type == DataType::F64 && value == Value::F32) {
        return x.into();
    }
    let range = match data_type {
        DataType::S8 => Some((-128, 127)),
        DataType::U8 => Some((0, 255)),
        _ => None,
    };
    if let Some((least, most)) = range.filter(|_| value == Value::F32) {
        // Takes two thirds of the time of a conversion there and back. The sum makes of a negative zero the integer's.
        return format!("rint(clamp({x} == {x} ? {x} : (V)(0), (V)({least}), (V)({most}))) + (V)(0)");
    }
    let name = data_type.name();
    format!("CONVERT(R, FN(unpack_{name})(FN(pack_{name})({x})))")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anydnn_backend::op::Fold;
    use anydnn_backend::{BinaryAlgorithm, Eltwise};

    struct Named;

    impl Leaves for Named {
        fn operand(&self, i: u16) -> String {
            format!("LD{i}")
        }
        fn index(&self, axis: usize) -> String {
            format!("index{axis}")
        }
        fn position(&self) -> String {
            "position".into()
        }
        fn scalar(&self, i: u16) -> String {
            format!("scalar{i}")
        }
        fn fold(&self, node: usize) -> String {
            format!("fold{node}")
        }
    }

    #[test]
    fn each_needed_node_is_a_variable() {
        let nodes = [
            Node::Operand(0),
            Node::Fold(Fold::Max, 0),
            Node::Constant(f32::INFINITY),
            Node::Operand(1),
            Node::Binary(BinaryAlgorithm::Subtract, 3, 1),
            Node::Cast(DataType::F16, 4),
            Node::Keep { seed: 2, offset: 3, probability: 4 },
            Node::Select(6, 5, 2),
            Node::Gradient { function: Eltwise::Elu { alpha: 1.0 }, of_result: true, at: 7, diff: 4 },
        ];
        let text = statements(&nodes, &needed(&nodes, [8]), "x", Value::F32, &Named);
        insta::assert_snapshot!(text.replace("; ", ";\n"), @r"
        const V x1 = fold1;
        const V x2 = (V)(INFINITY);
        const V x3 = LD1;
        const V x4 = binary_subtract(x3, x1);
        const V x5 = CONVERT(R, FN(unpack_f16)(FN(pack_f16)(x4)));
        const V x6 = keeps(position, scalar2, scalar3, scalar4);
        const V x7 = x6 != (V)(0) ? x5 : x2;
        const V x8 = derivative_of_elu(x7, (1.0f)) * x4;
        ");
    }
}

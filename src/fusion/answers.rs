//! What patterns ask about extents. Everything else that they look at is structure, so graphs of one structure that answer alike have the
//! same partitions.

use std::ptr;
use std::sync::LazyLock;

use super::patterns;
use crate::formula::{Ask, Condition};
use crate::graph::{Graph, Op, OpKind, TensorId};

/// The inputs of which the shapes are compared with the result's; formulas name three at most.
const INPUTS: usize = 32;

/// A condition of patterns, with the kinds of operations that they put it on.
struct Question {
    kinds: Vec<OpKind>,
    ask: Ask,
}

/// What patterns ask.
struct Questions {
    /// Every condition, once.
    asked: Vec<Question>,
    /// The kinds of operations that must not stretch what comes along. No pattern compares shapes around others.
    keep_shape: Vec<OpKind>,
}

static QUESTIONS: LazyLock<Questions> = LazyLock::new(|| {
    let mut questions = Questions { asked: Vec::new(), keep_shape: Vec::new() };
    for pattern in patterns::all() {
        pattern.formula.each_condition(&mut |kinds, condition| match condition {
            Condition::When(_, ask) => {
                // Conditions that compile to the same code give the same answers.
                match questions.asked.iter_mut().find(|known| ptr::fn_addr_eq(known.ask, *ask)) {
                    Some(known) => known.kinds.extend(kinds),
                    None => questions.asked.push(Question { kinds: kinds.to_vec(), ask: *ask }),
                }
            }
            Condition::KeepsShape => questions.keep_shape.extend(kinds),
            // Types are structure.
            Condition::Reads(_) => {}
        });
    }
    let kinds = questions.asked.iter_mut().map(|question| &mut question.kinds);
    for kinds in kinds.chain([&mut questions.keep_shape]) {
        kinds.sort_unstable();
        kinds.dedup();
    }
    questions
});

/// What a graph answers to the questions of all patterns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Answers {
    /// For each operation which inputs have the shape of the result, where a pattern compares them, and what holds of it.
    of_ops: Vec<(u32, u32)>,
}

impl Answers {
    pub(crate) fn of(graph: &Graph) -> Self {
        let Questions { asked, keep_shape } = &*QUESTIONS;
        let of_op = |op: &Op| {
            let result = op.outputs.first();
            let inputs = op.inputs.iter().take(INPUTS);
            let is_compared = keep_shape.binary_search(&op.kind).is_ok();
            let keeps = |input: &TensorId| {
                is_compared && result.is_some_and(|result| same_shape(graph, *input, *result))
            };
            let keeps = inputs.map(keeps);
            let asked = asked
                .iter()
                .map(|question| question.kinds.binary_search(&op.kind).is_ok() && (question.ask)(graph, op));
            (bits(keeps), bits(asked))
        };
        Self { of_ops: graph.ops().iter().map(of_op).collect() }
    }
}

fn bits(truths: impl Iterator<Item = bool>) -> u32 {
    truths.fold(0, |bits, truth| (bits << 1) | u32::from(truth))
}

/// Whether the shapes of two tensors are known and equal.
fn same_shape(graph: &Graph, one: TensorId, other: TensorId) -> bool {
    let dims = |id| graph.tensor(id)?.dims.as_deref();
    match (dims(one), dims(other)) {
        (Some(one), Some(other)) => one == other && one.iter().all(Option::is_some),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use anydnn_backend::DataType;

    use super::*;
    use crate::fusion::{Policy, explained, grouped, partition};
    use crate::graph::{Attrs, GraphBuilder};

    #[test]
    fn questions_have_a_bit_each() {
        let count = QUESTIONS.asked.len();
        assert!((1..=32).contains(&count), "{count}");
    }

    /// A product in whose result an addend may be stretched, a depthwise convolution behind another one where there are eight channels, and
    /// channels that may be shuffled.
    fn graph(rows: usize, channels: usize, last: usize) -> Graph {
        let mut g = GraphBuilder::new();
        let mut constant = |name, dims: &[usize]| g.constant(name, DataType::F32, dims.to_vec());
        let (weights, addend) = (constant("weights", &[4, 6]), constant("addend", &[rows, 6]));
        let (one, each) = (constant("one", &[channels, 3, 1, 1]), constant("each", &[8, channels / 8, 3, 3]));
        let x = g.input("x", DataType::F32, [1, 4]);
        let product = g.op("product", OpKind::MatMul, &[x, weights], Attrs::new()).unwrap();
        let sum = g.op("sum", OpKind::Add, &[product, addend], Attrs::new()).unwrap();
        g.op("relu", OpKind::ReLU, &[sum], Attrs::new()).unwrap();
        let image = g.input("image", DataType::F32, [1, 3, 5, 5]);
        let window = |groups: i64| {
            let attrs = Attrs::new().with("strides", [1, 1]).with("dilations", [1, 1]).with("groups", groups);
            let attrs = attrs.with("pads_begin", [0, 0]).with("pads_end", [0, 0]);
            attrs.with("data_format", "NCX").with("weights_format", "OIX")
        };
        let first = g.op("first", OpKind::Convolution, &[image, one], window(1)).unwrap();
        g.op("second", OpKind::Convolution, &[first, each], window(8)).unwrap();
        let reshape = |dims: [usize; 3]| {
            let dims: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
            Attrs::new().with("shape", dims).with("special_zero", false)
        };
        let flat = g.input("flat", DataType::F32, [4, 3 * last]);
        let split = g.op("split", OpKind::StaticReshape, &[flat], reshape([4, 3, last])).unwrap();
        let turned = Attrs::new().with("order", [1, 0, 2]);
        let turned = g.op("turned", OpKind::StaticTranspose, &[split], turned).unwrap();
        let dims = vec![12, last as i64];
        let joined = Attrs::new().with("shape", dims).with("special_zero", false);
        g.op("joined", OpKind::StaticReshape, &[turned], joined).unwrap();
        g.build().unwrap()
    }

    #[test]
    fn graphs_of_one_structure_that_answer_alike_have_the_same_partitions() {
        let extents = [1, 2, 5]
            .map(|rows| [8, 16, 24].map(|channels| [1, 2, 7].map(|last| graph(rows, channels, last))));
        let graphs: Vec<&Graph> = extents.iter().flatten().flatten().collect();
        let [mut alike, mut differ] = [0, 0];
        for one in &graphs {
            let known = grouped(one, Policy::Fusion);
            for other in &graphs {
                let expected = partition(other, Policy::Fusion);
                assert!(one.has_structure_of(other));
                let is_same = explained(other, Policy::Fusion, known.clone()) == expected;
                if Answers::of(one) == Answers::of(other) {
                    assert!(is_same);
                    alike += usize::from(one != other);
                } else {
                    differ += usize::from(!is_same);
                }
            }
        }
        assert!(alike > 0 && differ > 0, "{alike} and {differ}");
    }

    /// A product whose result has the shape of what it reads where there are six columns, and a sum that stretches one row.
    fn product(columns: usize, rows: usize) -> Graph {
        let mut g = GraphBuilder::new();
        let weights = g.constant("weights", DataType::F32, [columns, 6]);
        let x = g.input("x", DataType::F32, [rows, columns]);
        let product = g.op("product", OpKind::MatMul, &[x, weights], Attrs::new()).unwrap();
        let addend = g.constant("addend", DataType::F32, [4, 6]);
        g.op("sum", OpKind::Add, &[product, addend], Attrs::new()).unwrap();
        g.build().unwrap()
    }

    #[test]
    fn shapes_are_compared_around_those_operations_alone_around_which_patterns_do() {
        let of = |columns, rows| Answers::of(&product(columns, rows));
        assert_eq!(of(5, 4), of(6, 4));
        assert_ne!(of(5, 4), of(5, 1));
        let grouped = |columns, rows| grouped(&product(columns, rows), Policy::Fusion);
        assert_eq!(grouped(5, 4), grouped(6, 4));
        assert_ne!(grouped(5, 4), grouped(5, 1));
    }
}

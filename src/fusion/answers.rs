//! What patterns ask about extents. Everything else that they look at is structure, so graphs of one structure that answer alike have the
//! same partitions.

use std::ptr;
use std::sync::LazyLock;

use super::patterns;
use crate::formula::Ask;
use crate::graph::{Graph, Op, OpKind, TensorId};

/// The inputs of which the shapes are compared with the result's; formulas name three at most.
const INPUTS: usize = 32;

/// A condition of patterns, with the kinds of operations that they put it on.
struct Question {
    kinds: Vec<OpKind>,
    ask: Ask,
}

/// Every condition, once.
static QUESTIONS: LazyLock<Vec<Question>> = LazyLock::new(|| {
    let mut questions: Vec<Question> = Vec::new();
    for pattern in patterns::all() {
        pattern.formula.each_condition(&mut |kinds, ask| {
            // Conditions that compile to the same code give the same answers.
            match questions.iter_mut().find(|known| ptr::fn_addr_eq(known.ask, ask)) {
                Some(known) => known.kinds.extend(kinds),
                None => questions.push(Question { kinds: kinds.to_vec(), ask }),
            }
        });
    }
    questions
});

/// What a graph answers to the questions of all patterns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Answers {
    /// For each operation which inputs have the shape of the result, and what holds of it.
    of_ops: Vec<(u32, u32)>,
}

impl Answers {
    pub(crate) fn of(graph: &Graph) -> Self {
        let of_op = |op: &Op| {
            let result = op.outputs.first();
            let inputs = op.inputs.iter().take(INPUTS);
            let keeps = inputs.map(|input| result.is_some_and(|result| same_shape(graph, *input, *result)));
            let asked = QUESTIONS
                .iter()
                .map(|question| question.kinds.contains(&op.kind) && (question.ask)(graph, op));
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
        assert!((1..=32).contains(&QUESTIONS.len()), "{}", QUESTIONS.len());
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
}

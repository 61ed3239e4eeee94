//! What is written out in graph JSON becomes one operation, and computes the same.

use anydnn_backend::DataType::F32;
use anydnn_backend::{Engine, StreamDesc, Tolerance};
use anydnn_host::HostEngine;
use indexmap::IndexMap;

use super::simplify;
use crate::compile::{CompileOptions, CompiledGraph};
use crate::graph::OpKind::{self as K, HardSwish, LayerNorm};
use crate::graph::{Attrs, Graph, GraphBuilder, TensorId};
use crate::model::HostTensor;

/// A graph under construction, with the values of its constants.
#[derive(Default)]
struct Draft {
    graph: GraphBuilder,
    constants: IndexMap<TensorId, HostTensor>,
}

impl Draft {
    fn x(&mut self, dims: &[usize]) -> TensorId {
        self.graph.input("x", F32, dims.to_vec())
    }

    fn number(&mut self, number: f32) -> TensorId {
        let id = self.graph.constant(&number.to_string(), F32, [1]);
        self.constants.insert(id, HostTensor::from_f32([1], &[number]).unwrap());
        id
    }

    fn weights(&mut self, dims: [usize; 2]) -> TensorId {
        let id = self.graph.constant("w", F32, dims);
        let desc = anydnn_backend::MemoryDesc::new(dims, F32);
        self.constants.insert(id, HostTensor::random_with(&desc, 7, |value| value).unwrap());
        id
    }

    fn op(&mut self, kind: K, inputs: &[TensorId], attrs: Attrs) -> TensorId {
        self.graph.op(kind.name(), kind, inputs, attrs).unwrap()
    }

    fn plain(&mut self, kind: K, inputs: &[TensorId]) -> TensorId {
        self.op(kind, inputs, Attrs::new())
    }

    /// The graph as it is read from JSON.
    fn read(&self) -> Graph {
        let written = self.graph.clone().build().unwrap();
        Graph::from_json(&written.to_json()).unwrap()
    }

    fn simplified(&self) -> Graph {
        simplify(&self.read(), &|id| self.constants.get(&id)?.number()).unwrap()
    }

    /// Checks that the graph becomes these operations, which compute the same from the same ports.
    fn becomes(&self, kinds: &[K]) -> Graph {
        let (before, after) = (self.read(), self.simplified());
        let found: Vec<K> = after.ops().iter().map(|op| op.kind).collect();
        assert_eq!(found, kinds, "{:?}", after.ops());
        assert_eq!((before.inputs(), before.outputs()), (after.inputs(), after.outputs()));
        for op in after.ops() {
            let own = before.ops().iter().find(|own| own.id == op.id).unwrap();
            assert_eq!((&own.name, &own.outputs), (&op.name, &op.outputs));
        }
        let (expected, others) = self.run(&before);
        let (actual, tolerance) = self.run(&after);
        let tolerance = Tolerance {
            absolute: tolerance.absolute.max(others.absolute),
            relative: tolerance.relative.max(others.relative),
            scaled: tolerance.scaled || others.scaled,
        };
        tolerance.compare(&actual, &expected).unwrap();
        after
    }

    fn run(&self, graph: &Graph) -> (Vec<f64>, Tolerance) {
        let engine = HostEngine::new();
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let compiled = CompiledGraph::new(graph, &engine, &CompileOptions::default()).unwrap();
        let mut constants = self.constants.clone();
        constants.retain(|id, _| graph.tensor(*id).is_some());
        let desc = graph.tensor(graph.inputs()[0]).unwrap().memory_desc().unwrap();
        let x = HostTensor::random_with(&desc, 3, |value| 3.0 * value).unwrap();
        let network = compiled.load_tensors(&stream, &constants).unwrap();
        let made = network.run(&stream, &[(graph.inputs()[0], x)]).unwrap();
        (made[0].to_f64s(), Tolerance::of_chain(compiled.steps().iter().map(|step| &step.desc)))
    }

    fn launches(graph: &Graph) -> usize {
        CompiledGraph::new(graph, &HostEngine::new(), &CompileOptions::default()).unwrap().launches()
    }
}

/// The unit of a tensor with an error function; the factors in one of three orders.
fn gelu(draft: &mut Draft, x: TensorId, order: usize, half: f32) -> TensorId {
    let [half, one, root] = [half, 1.0, std::f32::consts::SQRT_2].map(|number| draft.number(number));
    let scaled = draft.plain(K::Divide, &[x, root]);
    let erf = draft.plain(K::Erf, &[scaled]);
    let gate = draft.plain(K::Add, &[erf, one]);
    let [a, b, c] = [[x, gate, half], [half, x, gate], [gate, half, x]][order];
    let product = draft.plain(K::Multiply, &[a, b]);
    draft.plain(K::Multiply, &[c, product])
}

#[test]
fn the_gaussian_unit_rides_on_a_product() {
    for order in 0..3 {
        let mut draft = Draft::default();
        let (x, w) = (draft.x(&[4, 8]), draft.weights([8, 6]));
        let product = draft.plain(K::MatMul, &[x, w]);
        gelu(&mut draft, product, order, 0.5);
        let graph = draft.becomes(&[K::MatMul, K::GELU]);
        assert!(Draft::launches(&draft.read()) > 1);
        assert_eq!(Draft::launches(&graph), 1);
        assert_eq!(graph.constants().map(|tensor| tensor.id).collect::<Vec<_>>(), [w]);
    }
}

#[test]
fn the_cube_of_the_other_gaussian_unit_may_be_multiplied_in_any_order() {
    for form in 0..5 {
        let mut draft = Draft::default();
        let x = draft.x(&[16]);
        let [half, one, factor, scale] =
            [0.5, 1.0, 0.044_715, 0.797_884_6].map(|number| draft.number(number));
        let times = |draft: &mut Draft, a, b| draft.plain(K::Multiply, &[a, b]);
        let cubic = match form {
            0 => {
                let cube = draft.op(K::Pow, &[x], Attrs::new().with("beta", 3.0_f32));
                times(&mut draft, factor, cube)
            }
            1 => {
                let square = times(&mut draft, x, x);
                let cube = times(&mut draft, square, x);
                times(&mut draft, cube, factor)
            }
            2 => {
                let square = draft.plain(K::Square, &[x]);
                let some = times(&mut draft, square, factor);
                times(&mut draft, x, some)
            }
            3 => {
                let some = times(&mut draft, x, factor);
                let more = times(&mut draft, some, x);
                times(&mut draft, more, x)
            }
            _ => {
                let some = times(&mut draft, factor, x);
                let square = times(&mut draft, x, x);
                times(&mut draft, square, some)
            }
        };
        let sum = draft.plain(K::Add, &[cubic, x]);
        let inner = times(&mut draft, scale, sum);
        let tanh = draft.plain(K::Tanh, &[inner]);
        let gate = draft.plain(K::Add, &[one, tanh]);
        let part = times(&mut draft, half, x);
        times(&mut draft, part, gate);
        let graph = draft.becomes(&[K::GELU]);
        assert_eq!(graph.ops()[0].attrs.string("mode").unwrap(), "gelu_tanh");
    }
}

#[test]
fn piecewise_linear_units_are_found_with_and_without_numbers() {
    let mut draft = Draft::default();
    let (x, w) = (draft.x(&[4, 8]), draft.weights([8, 6]));
    let x = draft.plain(K::MatMul, &[x, w]);
    let [three, sixth] = [3.0, 1.0 / 6.0].map(|number| draft.number(number));
    let sum = draft.plain(K::Add, &[x, three]);
    let limited = draft.op(K::Clamp, &[sum], Attrs::new().with("min", 0.0_f32).with("max", 6.0_f32));
    let mut alone = Draft { graph: draft.graph.clone(), constants: draft.constants.clone() };
    alone.plain(K::Multiply, &[limited, sixth]);
    alone.becomes(&[K::MatMul, K::HardSigmoid]);
    let product = draft.plain(K::Multiply, &[x, limited]);
    draft.plain(K::Multiply, &[sixth, product]);
    draft.becomes(&[K::MatMul, HardSwish]);

    let mut draft = Draft::default();
    let (x, w) = (draft.x(&[4, 8]), draft.weights([8, 6]));
    let x = draft.plain(K::MatMul, &[x, w]);
    let attrs = |alpha: f32| Attrs::new().with("alpha", alpha).with("beta", 0.5_f32);
    let mut other = Draft { graph: draft.graph.clone(), constants: draft.constants.clone() };
    let gate = draft.op(K::HardSigmoid, &[x], attrs(1.0 / 6.0));
    draft.plain(K::Multiply, &[x, gate]);
    draft.becomes(&[K::MatMul, HardSwish]);
    // Also with another slope it rides on the product, of which no operation tells.
    let gate = other.op(K::HardSigmoid, &[x], attrs(0.2));
    other.plain(K::Multiply, &[gate, x]);
    let graph = other.becomes(&[K::MatMul, K::HardSigmoid, K::Multiply]);
    assert_eq!([Draft::launches(&draft.read()), Draft::launches(&graph)], [1, 1]);
}

/// `x - mean(x)` over the root of its variance; the second difference over `again` is of its own where that is given.
fn normalized(draft: &mut Draft, x: TensorId, axes: [i64; 1], again: Option<[i64; 1]>) {
    let over = |axes: [i64; 1]| Attrs::new().with("axes", axes).with("keep_dims", true);
    let epsilon = draft.number(1e-3);
    let mean = draft.op(K::ReduceMean, &[x], over(axes));
    let difference = draft.plain(K::Subtract, &[x, mean]);
    let second = match again {
        Some(axes) => {
            let mean = draft.op(K::ReduceMean, &[x], over(axes));
            draft.plain(K::Subtract, &[x, mean])
        }
        None => difference,
    };
    let square = draft.plain(K::Multiply, &[second, second]);
    let variance = draft.op(K::ReduceMean, &[square], over(axes));
    let sum = draft.plain(K::Add, &[epsilon, variance]);
    let root = draft.plain(K::Sqrt, &[sum]);
    draft.plain(K::Divide, &[difference, root]);
}

#[test]
fn normalizations_are_found_by_their_moments() {
    for again in [None, Some([-1]), Some([1])] {
        let mut draft = Draft::default();
        let x = draft.x(&[4, 8]);
        normalized(&mut draft, x, [-1], again);
        let graph = draft.becomes(&[LayerNorm]);
        let attrs = &graph.ops()[0].attrs;
        assert_eq!((attrs.s64("begin_norm_axis").unwrap(), attrs.f32("epsilon").unwrap()), (1, 1e-3));
    }
    for (axes, again) in [([0], None), ([1], Some([0]))] {
        let mut draft = Draft::default();
        let x = draft.x(&[4, 8]);
        normalized(&mut draft, x, axes, again);
        assert_eq!(draft.simplified(), draft.read());
    }
}

/// One over the root of a mean of squares and a number, written in one of three ways.
fn inverse_root(draft: &mut Draft, squares: TensorId, way: usize) -> TensorId {
    let mean =
        draft.op(K::ReduceMean, &[squares], Attrs::new().with("axes", [-1_i64]).with("keep_dims", true));
    let epsilon = draft.number(1e-3);
    let sum = draft.plain(K::Add, &[mean, epsilon]);
    match way {
        0 => {
            let root = draft.plain(K::Sqrt, &[sum]);
            draft.plain(K::Reciprocal, &[root])
        }
        1 => {
            let root = draft.plain(K::Sqrt, &[sum]);
            let one = draft.number(1.0);
            draft.plain(K::Divide, &[one, root])
        }
        _ => draft.op(K::Pow, &[sum], Attrs::new().with("beta", -0.5_f32)),
    }
}

#[test]
fn normalizations_are_products_with_inverse_roots_too() {
    for way in 0..3 {
        let mut draft = Draft::default();
        let x = draft.x(&[4, 8]);
        let over = Attrs::new().with("axes", [-1_i64]).with("keep_dims", true);
        let mean = draft.op(K::ReduceMean, &[x], over);
        let difference = draft.plain(K::Subtract, &[x, mean]);
        let square = draft.plain(K::SquaredDifference, &[x, mean]);
        let inverse = inverse_root(&mut draft, square, way);
        draft.plain(K::Multiply, &[inverse, difference]);
        draft.becomes(&[LayerNorm]);

        let mut draft = Draft::default();
        let x = draft.x(&[4, 8]);
        let square = draft.plain(K::Multiply, &[x, x]);
        let inverse = inverse_root(&mut draft, square, way);
        let weights = draft.weights([1, 8]);
        let normalized = draft.plain(K::Multiply, &[x, inverse]);
        draft.plain(K::Multiply, &[weights, normalized]);
        let graph = draft.becomes(&[K::RMSNorm, K::Multiply]);
        assert_eq!(Draft::launches(&graph), 1);
    }
}

/// The mean goes with the factor, or with `x`. Factors of other shapes are none for each element of a row.
#[test]
fn factors_over_the_root_are_those_of_the_normalization() {
    for (is_apart, gamma, beta) in [
        (true, [1, 8], [1, 8]),
        (false, [1, 8], [1, 8]),
        (true, [4, 8], [1, 8]),
        (true, [1, 8], [4, 8]),
        (false, [1, 8], [4, 1]),
    ] {
        let mut draft = Draft::default();
        let x = draft.x(&[4, 8]);
        let over = Attrs::new().with("axes", [-1_i64]).with("keep_dims", true);
        let mean = draft.op(K::ReduceMean, &[x], over);
        let difference = draft.plain(K::Subtract, &[x, mean]);
        let square = draft.plain(K::Square, &[difference]);
        let inverse = inverse_root(&mut draft, square, 0);
        let (gamma_of, beta_of) = (draft.weights(gamma), draft.weights(beta));
        let factor = draft.plain(K::Multiply, &[inverse, gamma_of]);
        if is_apart {
            let scaled = draft.plain(K::Multiply, &[x, factor]);
            let of_mean = draft.plain(K::Multiply, &[mean, factor]);
            let shift = draft.plain(K::Subtract, &[beta_of, of_mean]);
            draft.plain(K::Add, &[scaled, shift]);
        } else {
            let scaled = draft.plain(K::Multiply, &[difference, factor]);
            draft.plain(K::Add, &[beta_of, scaled]);
        }
        if (gamma, beta) == ([1, 8], [1, 8]) {
            let graph = draft.becomes(&[LayerNorm]);
            assert_eq!(graph.ops()[0].inputs, [x, gamma_of, beta_of]);
        } else {
            assert_eq!(draft.simplified(), draft.read());
        }
    }
}

#[test]
fn weights_that_are_no_numbers_become_zeros_in_attention() {
    let mut draft = Draft::default();
    let x = draft.x(&[2, 4, 4]);
    // A mask that hides the second row of each matrix whole.
    let mask = draft.graph.constant("mask", F32, [4, 1]);
    draft.constants.insert(mask, HostTensor::from_f32([4, 1], &[0.0, f32::NEG_INFINITY, 0.0, 0.0]).unwrap());
    let zero = draft.number(0.0);
    let scores = draft.op(K::MatMul, &[x, x], Attrs::new().with("transpose_b", true));
    let scores = draft.plain(K::Add, &[scores, mask]);
    let weights = draft.op(K::SoftMax, &[scores], Attrs::new().with("axis", -1_i64));
    let is_nan = draft.plain(K::NotEqual, &[weights, weights]);
    let chosen = draft.plain(K::Select, &[is_nan, zero, weights]);
    draft.plain(K::MatMul, &[chosen, x]);
    let graph = draft.becomes(&[K::MatMul, K::Add, K::SoftMax, K::MatMul]);
    assert_eq!(graph.ops()[2].attrs.string("mode").unwrap(), "inf_as_zero");
    assert_eq!(graph.ops()[2].attrs.s64("axis").unwrap(), -1);
    assert_eq!(Draft::launches(&graph), 1);
    let values = draft.run(&graph).0;
    assert!(values.chunks(4).enumerate().all(|(row, values)| (row % 4 == 1) == (values == [0.0; 4])));
}

#[test]
fn other_choices_behind_a_softmax_stay() {
    for (number, own) in [(1.0, true), (0.0, false)] {
        let mut draft = Draft::default();
        let x = draft.x(&[4, 4]);
        let zero = draft.number(number);
        let weights = draft.op(K::SoftMax, &[x], Attrs::new().with("axis", 1_i64));
        let is_nan = draft.plain(K::NotEqual, &[weights, if own { weights } else { x }]);
        draft.plain(K::Select, &[is_nan, zero, weights]);
        assert_eq!(draft.simplified(), draft.read());
    }
}

#[test]
fn other_functions_stay_as_they_are() {
    let mut draft = Draft::default();
    let x = draft.x(&[4]);
    gelu(&mut draft, x, 0, 0.6);
    assert_eq!(draft.simplified(), draft.read());
    // Nothing tells the numbers, or one that gives the result another shape.
    let mut draft = Draft::default();
    let x = draft.x(&[4]);
    gelu(&mut draft, x, 0, 0.5);
    assert_eq!(simplify(&draft.read(), &|_| None).unwrap(), draft.read());
    let mut draft = Draft::default();
    let (x, wide) = (draft.x(&[4]), draft.graph.constant("wide", F32, [1, 1]));
    draft.constants.insert(wide, HostTensor::from_f32([1, 1], &[1.0 / 6.0]).unwrap());
    let three = draft.number(3.0);
    let sum = draft.plain(K::Add, &[x, three]);
    let limited = draft.op(K::Clamp, &[sum], Attrs::new().with("min", 0.0_f32).with("max", 6.0_f32));
    draft.plain(K::Multiply, &[limited, wide]);
    assert_eq!(draft.simplified(), draft.read());
}

#[test]
fn what_is_read_elsewhere_stays() {
    let mut draft = Draft::default();
    let x = draft.x(&[16]);
    let y = gelu(&mut draft, x, 0, 0.5);
    let erf = draft.read().ops().iter().find(|op| op.kind == K::Erf).unwrap().outputs[0];
    let z = draft.plain(K::Exp, &[erf]);
    draft.graph.output(y);
    draft.graph.output(z);
    draft.becomes(&[K::Divide, K::Erf, K::GELU, K::Exp]);
}

#[test]
fn a_transposed_product_with_a_transposed_matrix_is_the_product_the_other_way_round() {
    let order = |order: &[i64]| Attrs::new().with("order", order.to_vec());
    let product = |of_a: bool, of_b: bool, last: &[i64]| {
        let mut draft = Draft::default();
        let x = draft.x(&[2, 5, 4]);
        let w = draft.weights(if of_a { [4, 3] } else { [3, 4] });
        let turned = draft.op(K::StaticTranspose, &[x], order(&[0, 2, 1]));
        let turned = if of_b { draft.op(K::StaticTranspose, &[turned], order(&[0, -1, -2])) } else { turned };
        let attrs = Attrs::new().with("transpose_a", of_a).with("transpose_b", of_b);
        let made = draft.op(K::MatMul, &[w, turned], attrs);
        draft.op(K::StaticTranspose, &[made], order(last));
        draft
    };
    product(false, false, &[0, 2, 1]).becomes(&[K::MatMul]);
    product(true, false, &[0, -1, -2]).becomes(&[K::MatMul]);
    product(false, true, &[0, 2, 1]).becomes(&[K::StaticTranspose, K::MatMul]);
    // Another order, or a product that somebody else reads.
    product(false, false, &[2, 1, 0]).becomes(&[K::StaticTranspose, K::MatMul, K::StaticTranspose]);
    let mut read = product(false, false, &[0, 2, 1]);
    let made = read.graph.clone().build().unwrap().ops()[1].outputs[0];
    read.plain(K::ReLU, &[made]);
    read.becomes(&[K::StaticTranspose, K::MatMul, K::StaticTranspose, K::ReLU]);
}

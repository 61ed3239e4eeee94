use std::sync::Arc;

use anydnn_backend::DataType::{self, F32};
use anydnn_backend::{Engine, StreamDesc};
use anydnn_host::HostEngine;
use approx::assert_abs_diff_eq;

use super::*;
use crate::compile::{CompileOptions, CompiledGraph};
use crate::fusion::{Policy, grouped};
use crate::graph::{Attrs, GraphBuilder, OpKind as K};
use crate::model::HostTensor;

/// A graph; operations are named by their kind.
#[derive(Default)]
struct Net(GraphBuilder);

impl Net {
    fn x(&mut self, dims: &[usize]) -> TensorId {
        self.0.input("x", F32, dims.to_vec())
    }

    fn op(&mut self, kind: K, inputs: &[TensorId]) -> TensorId {
        self.0.op(&kind.to_string(), kind, inputs, Attrs::new()).unwrap()
    }

    /// What a recurrent cell does behind its products, of four gates and the state: the next state and what it tells.
    fn cell(&mut self, dims: &[usize]) -> [TensorId; 2] {
        let [input, forget, candidate, output, state] = [(); 5].map(|()| self.x(dims));
        let [input, forget, output] = [input, forget, output].map(|gate| self.op(K::Sigmoid, &[gate]));
        let candidate = self.op(K::Tanh, &[candidate]);
        let kept = self.op(K::Multiply, &[forget, state]);
        let added = self.op(K::Multiply, &[input, candidate]);
        let next = self.op(K::Add, &[kept, added]);
        let bent = self.op(K::Tanh, &[next]);
        [next, self.op(K::Multiply, &[output, bent])]
    }

    fn finish(mut self, outputs: &[TensorId]) -> Graph {
        for &id in outputs {
            self.0.output(id);
        }
        self.0.build().unwrap()
    }
}

/// The operations of each region, in order.
fn regions(graph: &Graph) -> Vec<Vec<usize>> {
    let partitions = grouped(graph, Policy::Fusion).partitions;
    let regions: Vec<Vec<usize>> =
        joined(graph, &partitions).iter().map(|region| region.ops.clone()).collect();
    let mut done: Vec<usize> = Vec::new();
    for region in &regions {
        let outside = |op: &usize| !region.contains(op);
        let sources = region.iter().flat_map(|&op| &graph.ops()[op].inputs);
        for source in sources.filter_map(|&id| graph.producer(id)).filter(outside) {
            assert!(done.contains(&source), "{regions:?} reads {source} before it is made");
        }
        done.extend(region);
    }
    done.sort_unstable();
    assert_eq!(done, (0..graph.ops().len()).collect::<Vec<_>>());
    regions
}

fn check<E: Engine>(engine: &E, graph: &Graph, launches: usize) {
    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
    let inputs: Vec<(TensorId, HostTensor)> = (graph.inputs().iter())
        .map(|&id| {
            let desc = graph.tensor(id).unwrap().memory_desc().unwrap();
            (id, HostTensor::random_with(&desc, id.0, |value| value).unwrap())
        })
        .collect();
    let run = |policy: Policy| {
        let options = CompileOptions { policy, ..CompileOptions::default() };
        let compiled = CompiledGraph::<E::B>::new(graph, engine, &options).unwrap();
        let loaded = compiled.load_tensors(&stream, &indexmap::IndexMap::default()).unwrap();
        (compiled.launches(), loaded.run(&stream, &inputs).unwrap())
    };
    let (apart, expected) = run(Policy::Debug);
    let (together, made) = run(Policy::Fusion);
    assert!(together <= launches && together < apart, "{together} launches, {apart} one by one");
    for (made, expected) in made.iter().zip(&expected) {
        for (a, b) in made.to_f64s().into_iter().zip(expected.to_f64s()) {
            assert_abs_diff_eq!(a, b, epsilon = 1e-5);
        }
    }
}

#[test]
fn a_cell_is_one_launch() {
    let mut net = Net::default();
    let outputs = net.cell(&[1, 300]);
    let graph = net.finish(&outputs);
    assert_eq!(regions(&graph).len(), 1);
    check(&HostEngine::new(), &graph, 1);
    #[cfg(feature = "opencl")]
    for engine in anydnn_opencl::testing::hasty_test_engines() {
        check(&engine, &graph, 1);
    }
}

#[test]
fn large_tensors_stay_in_their_chains() {
    let mut net = Net::default();
    let outputs = net.cell(&[2, FEW]);
    let graph = net.finish(&outputs);
    assert!(regions(&graph).len() > 1);
}

#[test]
fn what_depends_on_a_region_through_something_else_is_not_in_it() {
    // The product reads one result of the cell and is read behind it.
    let mut net = Net::default();
    let [next, told] = net.cell(&[1, 8]);
    let weights = net.x(&[8, 8]);
    let product = net.op(K::MatMul, &[told, weights]);
    let bent = net.op(K::Sigmoid, &[product]);
    let soft = net.op(K::Multiply, &[bent, next]);
    let last = net.op(K::Add, &[soft, told]);
    let graph = net.finish(&[last, next]);
    let regions = regions(&graph);
    let of = |op: usize| regions.iter().position(|region| region.contains(&op)).unwrap();
    let (product, last) = (graph.producer(product).unwrap(), graph.producer(last).unwrap());
    let told = graph.producer(told).unwrap();
    assert!(of(told) < of(product) && of(product) <= of(last), "{regions:?}");
    check(&HostEngine::new(), &graph, 4);
}

#[test]
fn constants_stay_apart_from_what_is_computed_each_time() {
    let mut net = Net::default();
    let [a, b] = [(); 2].map(|()| net.0.constant("c", F32, vec![1, 8]));
    let sum = net.op(K::Add, &[a, b]);
    let root = net.op(K::Exp, &[sum]);
    let x = net.x(&[1, 8]);
    let (up, down) = (net.op(K::Sigmoid, &[x]), net.op(K::Tanh, &[x]));
    let up = net.op(K::Multiply, &[up, root]);
    let both = net.op(K::Add, &[up, down]);
    let graph = net.finish(&[both, up, down]);
    let regions = regions(&graph);
    let (once, each) = (graph.producer(root).unwrap(), graph.producer(both).unwrap());
    let region = |op: usize| regions.iter().find(|region| region.contains(&op)).unwrap();
    assert!(!region(once).contains(&each), "{regions:?}");
    assert_eq!(region(each).len(), 4, "{regions:?}");
}

/// Random graphs of functions and products: regions are in order, whole, and compute the same.
#[test]
fn random_graphs_stay_in_order_and_compute_the_same() {
    let host = HostEngine::new();
    for seed in 0..60_u64 {
        let mut bits = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut draw = |below: usize| {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            (bits % below as u64) as usize
        };
        let mut net = Net::default();
        let weights = net.x(&[6, 6]);
        let mut made = vec![net.x(&[6, 6]), net.x(&[6, 6]), net.x(&[1, 6])];
        let all = [net.op(K::MatMul, &[made[0], weights]), net.op(K::Add, &made[1..])];
        made.extend(all);
        for _ in 0..4 + draw(20) {
            let [a, b] = [(); 2].map(|()| made[draw(made.len())]);
            let wide = net.op(K::Add, &[a, made[0]]);
            made.push(match draw(7) {
                0 => net.op(K::MatMul, &[wide, weights]),
                1 => net.op(K::Sigmoid, &[a]),
                2 => net.op(K::Tanh, &[wide]),
                3 => net.op(K::Multiply, &[wide, b]),
                4 => net.op(K::Maximum, &[wide, b]),
                5 => {
                    let narrow = net.0.op("cast", K::TypeCast, &[wide], Attrs::new()).unwrap();
                    let tensor =
                        LogicalTensor { data_type: Some(DataType::F16), ..LogicalTensor::unknown(narrow) };
                    net.0.add_tensor(tensor).unwrap();
                    let back = net.0.op("back", K::TypeCast, &[narrow], Attrs::new()).unwrap();
                    let tensor = LogicalTensor { data_type: Some(F32), ..LogicalTensor::unknown(back) };
                    net.0.add_tensor(tensor).unwrap();
                    // Tells where rounding to 16 bits is left out or comes twice.
                    net.op(K::Tanh, &[back])
                }
                _ => wide,
            });
        }
        let mut outputs: Vec<TensorId> = (0..3).map(|_| made[3 + draw(made.len() - 3)]).collect();
        outputs.sort_unstable();
        outputs.dedup();
        let graph = net.finish(&outputs);
        regions(&graph);
        compare(&host, &graph);
        #[cfg(feature = "opencl")]
        if seed < 6 {
            for engine in anydnn_opencl::testing::hasty_test_engines() {
                compare(&engine, &graph);
            }
        }
    }
}

/// Compares a graph with its operations one by one, within what rounding to 16 bits makes of large values.
fn compare<E: Engine>(engine: &E, graph: &Graph) {
    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
    let inputs: Vec<(TensorId, HostTensor)> = (graph.inputs().iter())
        .map(|&id| {
            let desc = graph.tensor(id).unwrap().memory_desc().unwrap();
            (id, HostTensor::random_with(&desc, id.0, |value| value / 4.0).unwrap())
        })
        .collect();
    let run = |policy: Policy| {
        let options = CompileOptions { policy, ..CompileOptions::default() };
        let compiled = CompiledGraph::<E::B>::new(&Arc::new(graph.clone()), engine, &options).unwrap();
        let loaded = compiled.load_tensors(&stream, &indexmap::IndexMap::default()).unwrap();
        loaded.run(&stream, &inputs).unwrap()
    };
    for (made, expected) in run(Policy::Fusion).iter().zip(&run(Policy::Debug)) {
        for (a, b) in made.to_f64s().into_iter().zip(expected.to_f64s()) {
            assert!((a - b).abs() <= 4e-3 * b.abs().max(1.0), "{a} instead of {b}");
        }
    }
}

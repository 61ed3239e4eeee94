//! Partitions of few elements that are lowered together, and what they compute.

use anydnn_backend::DataType::{F16, F32};
use anydnn_backend::conformance::values::Random;

use super::graphs::Net;
use super::*;
use crate::compile::regions::joined;

const FEW: usize = 1 << 12;

/// What a recurrent cell does behind its products, of four gates and the state: the next state and what it tells.
fn cell(net: &mut Net, dims: &[usize]) -> [TensorId; 2] {
    let [input, forget, candidate, output, state] = [(); 5].map(|()| net.x(dims));
    let [input, forget, output] = [input, forget, output].map(|gate| net.plain(K::Sigmoid, &[gate]));
    let candidate = net.plain(K::Tanh, &[candidate]);
    let kept = net.plain(K::Multiply, &[forget, state]);
    let added = net.plain(K::Multiply, &[input, candidate]);
    let next = net.plain(K::Add, &[kept, added]);
    let bent = net.plain(K::Tanh, &[next]);
    [next, net.plain(K::Multiply, &[output, bent])]
}

fn finish(mut net: Net, outputs: &[TensorId]) -> Graph {
    for &id in outputs {
        net.0.output(id);
    }
    net.0.build().unwrap()
}

/// The regions of a graph: all of its operations, each behind what it reads.
fn regions(graph: &Graph, few: usize) -> Option<Vec<Partition>> {
    let partitions = fusion::grouped(graph, Policy::Fusion).partitions;
    let regions = joined(graph, &partitions, few)?;
    let mut done: Vec<usize> = Vec::new();
    for region in &regions {
        let sources = region.ops.iter().flat_map(|&op| &graph.ops()[op].inputs);
        for source in sources.filter_map(|&id| graph.producer(id)) {
            let is_there = region.ops.contains(&source) || done.contains(&source);
            assert!(is_there, "{regions:?} reads {source} before it is made");
        }
        done.extend(&region.ops);
    }
    done.sort_unstable();
    assert_eq!(done, (0..graph.ops().len()).collect::<Vec<_>>());
    Some(regions)
}

/// Compares what regions compute with the operations one by one, on the host and, with `devices`, on every OpenCL device.
fn check_regions(graph: &Graph, devices: bool) {
    let Some(regions) = regions(graph, FEW) else { return };
    let inputs = graph.tensors().filter(|tensor| graph.producer(tensor.id).is_none());
    let values: IndexMap<TensorId, HostTensor> =
        inputs.map(|tensor| (tensor.id, value(graph, tensor.id))).collect();
    let host = HostEngine::new();
    let reference = run(&host, graph, fusion::partition(graph, Policy::Debug), &values);
    let together = || Partitioning { partitions: regions.clone() };
    compare("the host", graph, &run(&host, graph, together(), &values), &reference);
    #[cfg(feature = "opencl")]
    for engine in anydnn_opencl::testing::hasty_test_engines().iter().filter(|_| devices) {
        compare(&engine.device().name, graph, &run(engine, graph, together(), &values), &reference);
    }
}

/// How many launches a whole graph is for an engine.
fn launches<E: Engine>(engine: &E, graph: &Graph) -> usize {
    CompiledGraph::<E::B>::new(graph, engine, &CompileOptions::default()).unwrap().launches()
}

#[test]
fn a_cell_is_one_launch_where_launches_cost() {
    let mut net = Net::default();
    let outputs = cell(&mut net, &[1, 301]);
    let graph = finish(net, &outputs);
    assert_eq!(regions(&graph, FEW).map(|regions| regions.len()), Some(1));
    check_regions(&graph, true);
    // Calls of the host cost nothing, and its vectors are faster than its expressions.
    assert!(launches(&HostEngine::new(), &graph) > 1);
    #[cfg(feature = "opencl")]
    for engine in anydnn_opencl::testing::hasty_test_engines() {
        assert_eq!(launches(&engine, &graph), 1);
    }
}

/// The length of complex numbers, whose parts are squared each by itself: two chains, and one expression.
#[test]
fn two_chains_are_worth_a_region() {
    let mut net = Net::default();
    let (real, imaginary) = (net.x(&[1, 33]), net.x(&[1, 33]));
    let (a, b) = (net.plain(K::Square, &[real]), net.plain(K::Square, &[imaginary]));
    let sum = net.plain(K::Add, &[a, b]);
    let length = net.plain(K::Sqrt, &[sum]);
    let graph = finish(net, &[length]);
    assert_eq!(regions(&graph, FEW).map(|regions| regions.len()), Some(1));
    check_regions(&graph, true);
}

#[test]
fn large_tensors_stay_in_their_chains() {
    let mut net = Net::default();
    let outputs = cell(&mut net, &[1, FEW + 1]);
    let graph = finish(net, &outputs);
    assert_eq!((regions(&graph, FEW), regions(&graph, 0)), (None, None));
}

#[test]
fn what_depends_on_a_region_through_something_else_is_behind_it() {
    // The product reads one result of the cell, and what reads it another one.
    let mut net = Net::default();
    let [next, told] = cell(&mut net, &[1, 8]);
    let weights = net.x(&[8, 8]);
    let product = net.matmul(told, weights);
    let bent = net.plain(K::Sigmoid, &[product]);
    let soft = net.plain(K::Multiply, &[bent, next]);
    let last = net.plain(K::Add, &[soft, told]);
    let graph = finish(net, &[last, next]);
    let regions = regions(&graph, FEW).unwrap();
    let of = |id: TensorId| {
        let op = graph.producer(id).unwrap();
        regions.iter().position(|region| region.ops.contains(&op)).unwrap()
    };
    assert!(of(told) < of(product) && of(product) <= of(last), "{regions:?}");
    check_regions(&graph, true);
}

#[test]
fn constants_stay_apart_from_what_is_computed_each_time() {
    let mut net = Net::default();
    let [a, b] = [(); 2].map(|()| net.weights(F32, &[1, 8]));
    let sum = net.plain(K::Add, &[a, b]);
    let root = net.plain(K::Exp, &[sum]);
    let x = net.x(&[1, 8]);
    let (up, down) = (net.plain(K::Sigmoid, &[x]), net.plain(K::Tanh, &[x]));
    let up = net.plain(K::Multiply, &[up, root]);
    let both = net.plain(K::Add, &[up, down]);
    let graph = finish(net, &[both, up, down]);
    let regions = regions(&graph, FEW).unwrap();
    let region = |id: TensorId| {
        let op = graph.producer(id).unwrap();
        regions.iter().find(|region| region.ops.contains(&op)).unwrap()
    };
    assert!(!region(root).ops.contains(&graph.producer(both).unwrap()), "{regions:?}");
    assert_eq!(region(both).ops.len(), 4, "{regions:?}");
    check_regions(&graph, false);
}

/// Random graphs of functions, products and casts to 16 bits, of odd extents.
#[test]
fn random_graphs_stay_in_order_and_compute_the_same() {
    for seed in 0..80 {
        let mut random = Random::new(seed);
        let mut draw = |below: usize| random.below(below as u64) as usize;
        let mut net = Net::default();
        let n = 2 + draw(36);
        let weights = net.x(&[n, n]);
        let mut made = vec![net.x(&[3, n]), net.x(&[3, n]), net.x(&[1, n])];
        let first = [net.matmul(made[0], weights), net.plain(K::Add, &made[1..])];
        made.extend(first);
        for _ in 0..4 + draw(24) {
            let [a, b] = [(); 2].map(|()| made[draw(made.len())]);
            let wide = net.plain(K::Maximum, &[a, made[0]]);
            made.push(match draw(7) {
                0 => net.matmul(wide, weights),
                1 => net.plain(K::Sigmoid, &[a]),
                2 => net.plain(K::Tanh, &[wide]),
                3 => net.plain(K::Multiply, &[wide, b]),
                4 => net.plain(K::Minimum, &[wide, b]),
                5 => {
                    let narrow = net.cast(wide, F16);
                    net.cast(narrow, F32)
                }
                _ => wide,
            });
        }
        let mut outputs: Vec<TensorId> = (0..3).map(|_| made[3 + draw(made.len() - 3)]).collect();
        outputs.sort_unstable();
        outputs.dedup();
        let graph = finish(net, &outputs);
        check_regions(&graph, seed < 8);
    }
}

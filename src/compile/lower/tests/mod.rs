//! How few primitives whole partitions become, and that these compute what the operations one by one do.

mod attention;
mod graphs;
mod quantized;
mod regions;
mod units;

use std::sync::Arc;

use anydnn_backend::{Arg, DataType, Engine, StreamDesc, TensorValues, Tolerance};
use anydnn_host::HostEngine;
use approx::relative_eq;
use indexmap::IndexMap;

use super::super::program::Program;
use crate::compile::{CompileOptions, CompiledGraph, PortLayouts, Programs, compile};
use crate::fusion::{self, Partition, Partitioning, Policy};
use crate::graph::{Graph, OpKind as K, TensorId};
use crate::model::HostTensor;

/// As [`check_on_host`], and on every OpenCL device too.
fn check(graph: &Graph, expected: &str) {
    let (values, reference) = check_on_host(graph, expected);
    #[cfg(feature = "opencl")]
    for engine in anydnn_opencl::testing::hasty_test_engines() {
        let fused = run(&engine, graph, whole(graph), &values);
        compare(&engine.device().name, graph, &fused, &reference);
    }
}

/// Compiles a graph as one partition to the `expected` primitives, those that run once in brackets, and compares what they compute on
/// the host with the operations one by one.
fn check_on_host(graph: &Graph, expected: &str) -> (IndexMap<TensorId, HostTensor>, Run) {
    assert_eq!(plan(graph), expected);
    let values: IndexMap<TensorId, HostTensor> = graph
        .tensors()
        .filter(|tensor| graph.producer(tensor.id).is_none())
        .map(|tensor| (tensor.id, value(graph, tensor.id)))
        .collect();
    let host = HostEngine::new();
    let reference = run(&host, graph, fusion::partition(graph, Policy::Debug), &values);
    let fused = run(&host, graph, whole(graph), &values);
    compare("the host", graph, &fused, &reference);
    (values, reference)
}

/// The type of an operand of the first primitive that a graph as one partition becomes.
fn operand_type(graph: &Graph, operand: Arg) -> Option<DataType> {
    let partition = Partition::of_ops(graph, "test", 0..graph.ops().len());
    let mut program = Program::new(graph).unwrap();
    super::partition(&mut program, &partition).unwrap();
    let args = &program.steps.first()?.args;
    args.iter().find(|(arg, _)| *arg == operand).map(|(_, value)| value.desc.data_type())
}

/// The names of the primitives that compute a graph as one partition, in order; those that run once in brackets.
fn plan(graph: &Graph) -> String {
    let partition = Partition::of_ops(graph, "test", 0..graph.ops().len());
    let mut program = Program::new(graph).unwrap();
    super::partition(&mut program, &partition).unwrap();
    super::copy_outputs(&mut program).unwrap();
    let words: Vec<String> = program
        .steps
        .iter()
        .map(|step| {
            let name = step.desc.op().name();
            let once = step.args.iter().all(|(_, value)| program.is_constant(value));
            if once { format!("[{name}]") } else { name.to_owned() }
        })
        .collect();
    words.join(" ")
}

fn whole(graph: &Graph) -> Partitioning {
    Partitioning { partitions: vec![Partition::of_ops(graph, "test", 0..graph.ops().len())] }
}

/// Pseudo-random values that suit the operations which read them.
fn value(graph: &Graph, id: TensorId) -> HostTensor {
    let reads = |kind: K, input: usize| {
        graph.consumers(id).iter().any(|&op| {
            let op = &graph.ops()[op];
            op.kind == kind && op.inputs.get(input) == Some(&id)
        })
    };
    let desc = graph.tensor(id).unwrap().memory_desc().unwrap();
    let change = |value: f64| match desc.data_type().is_float() {
        true if reads(K::DynamicDequantize, 1) => (1.5 + value) / 8.0,
        true if reads(K::Divide, 1) => 2.0 + value,
        true if reads(K::Dropout, 3) => 0.25,
        _ => value,
    };
    HostTensor::random_with(&desc, id.0, change).unwrap()
}

/// What a graph computes, and how exactly.
struct Run {
    outputs: Vec<Vec<f64>>,
    tolerance: Tolerance,
    plan: String,
}

fn run<E: Engine>(
    engine: &E,
    graph: &Graph,
    partitioning: Partitioning,
    values: &IndexMap<TensorId, HostTensor>,
) -> Run {
    let name = &engine.device().name;
    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
    let options = CompileOptions::default();
    let (shared, layouts) = (Arc::new(graph.clone()), PortLayouts::Declared);
    let compiled = compile::<E::B>(&shared, partitioning.into(), layouts, Programs::New, engine, &options)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let compiled = CompiledGraph { inner: Arc::new(compiled) };
    let is_constant = |id: &TensorId| graph.constants().any(|tensor| tensor.id == *id);
    let (constants, inputs): (Vec<_>, Vec<_>) =
        values.iter().map(|(&id, tensor)| (id, tensor.clone())).partition(|(id, _)| is_constant(id));
    let network = compiled.load_tensors(&stream, &constants.into_iter().collect()).unwrap();
    let outputs = network.run(&stream, &inputs).unwrap_or_else(|error| panic!("{name}: {error}\n{compiled}"));
    Run {
        outputs: outputs.iter().map(HostTensor::to_f64s).collect(),
        tolerance: Tolerance::of_chain(compiled.steps().iter().map(|step| &step.desc)),
        plan: compiled.to_string(),
    }
}

fn compare(device: &str, graph: &Graph, fused: &Run, reference: &Run) {
    let (a, b) = (fused.tolerance, reference.tolerance);
    let tolerance = Tolerance {
        absolute: a.absolute.max(b.absolute),
        relative: a.relative.max(b.relative),
        scaled: a.scaled || b.scaled,
    };
    for ((actual, expected), &id) in fused.outputs.iter().zip(&reference.outputs).zip(graph.outputs()) {
        let varies = expected.windows(2).any(|pair| pair[0].to_bits() != pair[1].to_bits());
        assert!(varies, "{id} says nothing: {expected:?}");
        let desc = graph.tensor(id).unwrap().memory_desc().unwrap();
        let of = |values: &[f64]| TensorValues::new(&desc, values.iter().copied()).unwrap();
        let (actual, expected) = (of(actual), of(expected));
        assert!(
            relative_eq!(actual, expected.within(tolerance)),
            "{} on {device}: {actual:?} instead of {expected:?}\nfused:\n{}one by one:\n{}",
            graph.label(id),
            fused.plan,
            reference.plan
        );
    }
}

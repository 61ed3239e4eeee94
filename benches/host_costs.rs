//! What the library itself costs on the host: partitioning, compiling, and executing steps too small to matter.
//!
//! `cargo bench --bench host_costs`
//!
//! The example `launch_costs` compares them with the driver's own cost, in turns.

use anydnn::backend::{Backend, DataType, Engine, Event, StreamDesc};
use anydnn::compile::{CompileOptions, CompiledGraph};
use anydnn::fusion::{Policy, partition};
use anydnn::graph::{Attrs, Graph, GraphBuilder, OpKind};
use anydnn::model::Model;
use anydnn_host::HostEngine;
use criterion::{Criterion, criterion_group, criterion_main};

/// Steps of the chain.
const STEPS: usize = 50;

criterion_group!(benches, graphs, executions);
criterion_main!(benches);

fn graphs(c: &mut Criterion) {
    let model =
        Model::load(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/digits")).expect("the digits are there");
    let host = HostEngine::new();
    c.bench_function("partition the digits network", |b| b.iter(|| partition(&model.graph, Policy::Fusion)));
    c.bench_function("compile the digits network for the host", |b| {
        b.iter(|| CompiledGraph::new(&model.graph, &host, &CompileOptions::default()).expect("it compiles"));
    });
    let json = model.graph.to_json();
    c.bench_function("read the digits network from JSON", |b| {
        b.iter(|| Graph::from_json(&json).expect("it reads"));
    });
}

fn executions(c: &mut Criterion) {
    chain_on(c, "host", &HostEngine::new());
    for engine in anydnn_opencl::testing::test_engines() {
        let name = engine.opencl_device().alias();
        chain_on(c, &format!("opencl:{name}"), &engine);
    }
}

/// Executes a chain of one-element matrix products, queued as a whole and waited for once.
fn chain_on<E: Engine>(c: &mut Criterion, name: &str, engine: &E) {
    let graph = chain();
    for (order, desc) in [("in-order", StreamDesc::default()), ("out-of-order", StreamDesc::out_of_order())] {
        let stream: <E::B as Backend>::Stream = engine.create_stream(&desc).expect("a stream");
        let compiled =
            CompiledGraph::<E::B>::new(&graph, engine, &CompileOptions::default()).expect("it compiles");
        let network = compiled.load(&stream, &[]).expect("no constants");
        let kind = engine.capabilities().memory_kinds[0];
        let memory = |id| {
            engine
                .create_memory(compiled.input_desc(id).or(compiled.output_desc(id)).expect("a port"), kind)
                .expect("memory")
        };
        let inputs: Vec<_> = graph.inputs().iter().map(|&id| (id, memory(id))).collect();
        let outputs: Vec<_> = graph.outputs().iter().map(|&id| (id, memory(id))).collect();
        c.bench_function(&format!("{STEPS} tiny steps on {name}, {order}"), |b| {
            b.iter(|| {
                network
                    .execute(&stream, &inputs, &outputs, &[])
                    .and_then(|done| done.wait())
                    .expect("it runs");
            });
        });
        let recording = network.record(&stream, &inputs, &outputs).expect("it records");
        c.bench_function(&format!("{STEPS} tiny steps replayed on {name}, {order}"), |b| {
            b.iter(|| recording.replay(&[]).and_then(|done| done.wait()).expect("it runs"));
        });
    }
}

fn chain() -> Graph {
    let mut g = GraphBuilder::new();
    let w = g.input("w", DataType::F32, [1, 1]);
    let mut x = g.input("x", DataType::F32, [1, 1]);
    for i in 0..STEPS {
        x = g.op(&format!("step{i}"), OpKind::MatMul, &[x, w], Attrs::new()).expect("it fits");
    }
    g.build().expect("a chain")
}

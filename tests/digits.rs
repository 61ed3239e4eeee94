//! The trained network gives the same answers on every backend.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use anydnn::backend::{Backend, DataType, Engine, Stream, StreamDesc, TensorValues, Tolerance};
use anydnn::compile::{CompileOptions, CompiledGraph};
use anydnn::model::Model;
use anydnn_host::HostEngine;
use anydnn_mock::MockDevice;
use approx::assert_relative_eq;

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/digits");

/// The probabilities of the first `count` held-out digits.
fn probabilities<E: Engine>(
    engine: &E,
    stream: &StreamDesc,
    count: usize,
) -> (Vec<f32>, CompiledGraph<E::B>) {
    let model = Model::load(DIGITS).unwrap();
    let graph = model.graph.with_batch(count).unwrap();
    let stream: <E::B as Backend>::Stream = engine.create_stream(stream).unwrap();
    let compiled = CompiledGraph::new(&graph, engine, &CompileOptions::default()).unwrap();
    let network = compiled.load_tensors(&stream, &model.constants).unwrap();
    let input = graph.inputs()[0];
    let images = model
        .dataset
        .as_ref()
        .unwrap()
        .rows("images", 0..count, compiled.input_desc(input).unwrap())
        .unwrap();
    let outputs = network.run(&stream, &[(input, images)]).unwrap();
    stream.wait().unwrap();
    (outputs[0].to_f32s(), compiled)
}

fn classes(probabilities: &[f32]) -> Vec<usize> {
    let best = |row: &[f32]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
    probabilities.chunks_exact(10).map(best).collect()
}

#[test]
fn the_host_reads_at_least_97_percent_of_the_held_out_digits() {
    let model = Model::load(DIGITS).unwrap();
    let labels = model.dataset.as_ref().unwrap().labels().unwrap().to_vec();
    let (output, _) = probabilities(&HostEngine::new(), &StreamDesc::default(), labels.len());
    let right =
        classes(&output).iter().zip(&labels).filter(|&(&class, &label)| class as i64 == label).count();
    assert!(right * 100 >= labels.len() * 97, "{right} of {}", labels.len());
}

#[test]
fn the_network_is_four_chains_and_two_poolings() {
    let (_, compiled) = probabilities(&HostEngine::new(), &StreamDesc::default(), 1);
    insta::assert_snapshot!(compiled.partitioning().describe(compiled.graph()));
    insta::assert_snapshot!("plan", compiled);
}

#[test]
fn the_mock_agrees_with_the_host() {
    let (expected, _) = probabilities(&HostEngine::new(), &StreamDesc::default(), 4);
    for seed in 0..5 {
        let device = MockDevice::builder().seed(seed).build();
        let (actual, compiled) = probabilities(&device.engine(), &StreamDesc::out_of_order(), 4);
        check(&actual, &expected, &compiled);
        drop(compiled);
    }
}

#[cfg(feature = "opencl")]
#[test]
fn every_opencl_device_agrees_with_the_host() {
    let (expected, _) = probabilities(&HostEngine::new(), &StreamDesc::default(), 360);
    for engine in anydnn_opencl::testing::test_engines() {
        for stream in [StreamDesc::default(), StreamDesc::out_of_order()] {
            let (actual, compiled) = probabilities(&engine, &stream, 360);
            check(&actual, &expected, &compiled);
            assert_eq!(classes(&actual), classes(&expected), "{:?}", engine.device());
        }
    }
}

fn check<B: Backend>(actual: &[f32], expected: &[f32], compiled: &CompiledGraph<B>) {
    let tolerance = Tolerance::of_chain(compiled.steps().iter().map(|step| &step.desc));
    let of = |values: &[f32]| TensorValues::list(DataType::F32, values.iter().copied());
    assert_relative_eq!(of(actual), of(expected).within(tolerance));
}

//! A network's inputs and outputs in every kind of memory: the same answers.

#![cfg(feature = "opencl")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use anydnn::backend::{DataType, Engine, Event, Memory, MemoryDesc, MemoryKind, Stream, StreamDesc};
use anydnn::compile::{CompileOptions, CompiledGraph};
use anydnn::model::Model;
use anydnn_opencl::OpenCl;
use anydnn_opencl::testing::test_engines;

const COUNT: usize = 90;

#[test]
fn the_network_reads_digits_in_every_kind_of_memory() {
    let model = Model::load(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/digits")).unwrap();
    let graph = model.graph.with_batch(COUNT).unwrap();
    let (input, output) = (graph.inputs()[0], graph.outputs()[0]);
    let dataset = model.dataset.as_ref().unwrap();
    for engine in test_engines() {
        let compiled = CompiledGraph::<OpenCl>::new(&graph, &engine, &CompileOptions::default()).unwrap();
        let input_desc = compiled.input_desc(input).unwrap().clone();
        let output_desc = MemoryDesc::new([COUNT, 10], DataType::F32);
        let images = dataset.rows("images", 0..COUNT, &input_desc).unwrap();
        let kinds = engine.capabilities().memory_kinds.clone();
        let device = engine.opencl_device();
        let has = |kind| kinds.contains(&kind);
        match device.alias().as_str() {
            "intel" => {
                assert!(has(MemoryKind::UsmDevice) && has(MemoryKind::UsmHost) && has(MemoryKind::Svm));
            }
            "pocl" => assert!(has(MemoryKind::Svm) && has(MemoryKind::SvmFine)),
            _ => {}
        }
        for stream in [StreamDesc::default(), StreamDesc::out_of_order()] {
            let stream = engine.create_stream(&stream).unwrap();
            let network = compiled.load_tensors(&stream, &model.constants).unwrap();
            let run = |from: MemoryKind, to: MemoryKind, offset: usize| {
                let part = |kind, desc: &MemoryDesc| {
                    let bytes = MemoryDesc::new([desc.size() + offset], DataType::U8);
                    engine.create_memory(&bytes, kind).unwrap().view(desc, offset).unwrap()
                };
                let (source, target) = (part(from, &input_desc), part(to, &output_desc));
                assert_eq!((source.kind(), target.kind()), (from, to));
                let given = stream.write(&source, 0, images.bytes(), &[]).unwrap();
                let ran = network
                    .execute(&stream, &[(input, source)], &[(output, target.clone())], &[given])
                    .unwrap();
                ran.wait().unwrap();
                let mut bytes = vec![0; output_desc.size()];
                stream.read(&target, 0, &mut bytes, &[ran]).unwrap();
                bytes
            };
            let expected = run(MemoryKind::Buffer, MemoryKind::Buffer, 0);
            let found = expected.chunks_exact(40).map(|row| {
                let score = |i: usize| f32::from_le_bytes(row[4 * i..4 * i + 4].try_into().unwrap());
                (0..10).max_by(|&a, &b| score(a).total_cmp(&score(b))).unwrap() as i64
            });
            let right = found.zip(dataset.labels().unwrap()).filter(|(found, label)| found == *label).count();
            assert!(right * 100 >= COUNT * 95, "{right} of {COUNT} on {device}");
            for (i, &kind) in kinds.iter().enumerate() {
                let next = kinds[(i + 1) % kinds.len()];
                for (from, to, offset) in [(kind, kind, 0), (kind, next, 1)] {
                    let same = run(from, to, offset) == expected;
                    assert!(same, "{from} to {to} {offset} bytes in on {device}");
                }
            }
            stream.wait().unwrap();
        }
    }
}

//! Recorded executions.

use anydnn::backend::{DataType, Engine, Error, Event, Memory, MemoryDesc, Stream};
use anydnn::compile::{CompileOptions, CompiledGraph};
use anydnn::graph::{Attrs, Graph, GraphBuilder, OpKind};

use crate::common::{default_kind, memory, read, streams};

crate::everywhere!(a_replay_is_an_execution, updates_are_checked);

/// `[4, 4]` through two branches, whose results are temporaries, and a constant.
fn branches() -> Graph {
    let mut g = GraphBuilder::new();
    let x = g.input("x", DataType::F32, [4, 4]);
    let w = g.constant("w", DataType::F32, [4, 4]);
    let left = g.op("left", OpKind::MatMul, &[x, w], Attrs::new()).unwrap();
    let right = g.op("right", OpKind::MatMul, &[w, x], Attrs::new()).unwrap();
    g.op("joined", OpKind::MatMul, &[left, right], Attrs::new()).unwrap();
    g.build().unwrap()
}

/// The same in plain loops.
fn expected(x: impl Fn(usize) -> f32, w: impl Fn(usize) -> f32) -> Vec<f32> {
    let all = |f: &dyn Fn(usize) -> f32| (0..16).map(f).collect::<Vec<f32>>();
    let product = |a: &[f32], b: &[f32]| -> Vec<f32> {
        (0..16).map(|i| (0..4).map(|k| a[i / 4 * 4 + k] * b[k * 4 + i % 4]).sum()).collect()
    };
    let (x, w) = (all(&x), all(&w));
    product(&product(&x, &w), &product(&w, &x))
}

fn a_replay_is_an_execution<E: Engine>(engine: &E) {
    let graph = branches();
    let (input, output) = (graph.inputs()[0], graph.outputs()[0]);
    let constant = graph.constants().next().unwrap().id;
    let compiled = CompiledGraph::<E::B>::new(&graph, engine, &CompileOptions::default()).unwrap();
    let (desc, kind) = (MemoryDesc::new([4, 4], DataType::F32), default_kind(engine));
    let w = |i: usize| (i % 3) as f32 - 1.0;
    for stream in streams(engine) {
        let network = compiled.load(&stream, &[(constant, memory(engine, &desc, kind, w))]).unwrap();
        let make = |value: usize| memory(engine, &desc, kind, move |i| ((i + value) % 5) as f32 - 2.0);
        let blank = || memory(engine, &desc, kind, |_| 0.0);
        let (x, y) = (make(0), blank());
        let plain = network.execute(&stream, &[(input, x.clone())], &[(output, y.clone())], &[]).unwrap();
        let by_execution = read(engine, &y, &plain);
        assert_eq!(by_execution, expected(|i| (i % 5) as f32 - 2.0, w));

        let target = blank();
        let mut recording = network.record(&stream, &[(input, x)], &[(output, target.clone())]).unwrap();
        assert_eq!(recording.commands(), compiled.steps().iter().filter(|step| !step.constant).count());
        let allocator = engine.allocator();
        let before = allocator.stats();
        for _ in 0..3 {
            let done = recording.replay(&[]).unwrap();
            assert_eq!(read(engine, &target, &done), by_execution);
        }
        // Replays one after the other without a wait, to different memory.
        let rounds: Vec<_> = (1..5)
            .map(|value| {
                let target = blank();
                recording.update(input, &make(value)).unwrap();
                recording.update(output, &target).unwrap();
                (value, target, recording.replay(&[]).unwrap())
            })
            .collect();
        let after = allocator.stats();
        assert_eq!(
            (after.created, after.reused),
            (before.created, before.reused),
            "replays allocate nothing"
        );
        for (value, target, done) in &rounds {
            let expected = expected(|i| ((i + value) % 5) as f32 - 2.0, w);
            assert_eq!(read(engine, target, done), expected, "{value}");
        }
        drop(recording);
        stream.wait().unwrap();
        assert_eq!(engine.allocator().stats().in_use_bytes, 0, "the temporaries went back");
    }
}

fn updates_are_checked<E: Engine>(engine: &E) {
    let graph = branches();
    let (input, output) = (graph.inputs()[0], graph.outputs()[0]);
    let constant = graph.constants().next().unwrap().id;
    let compiled = CompiledGraph::<E::B>::new(&graph, engine, &CompileOptions::default()).unwrap();
    let stream = &streams(engine)[0];
    let make = |dims: [usize; 2]| {
        memory(engine, &MemoryDesc::new(dims, DataType::F32), default_kind(engine), |i| (i % 2) as f32)
    };
    let w = make([4, 4]);
    let network = compiled.load(stream, &[(constant, w.clone())]).unwrap();
    let (x, y) = (make([4, 4]), make([4, 4]));
    let mut recording = network.record(stream, &[(input, x.clone())], &[(output, y.clone())]).unwrap();
    let mut fails = |id, memory: &<E::B as anydnn::backend::Backend>::Memory, word: &str| {
        let error = recording.update(id, memory).unwrap_err();
        assert!(matches!(error.root(), Error::Invalid(_)) && error.to_string().contains(word), "{error}");
    };
    fails(input, &make([2, 4]), "2x4");
    fails(constant, &w, "input or output");
    fails(output, &x, "sharing bytes");
    fails(input, &y, "sharing bytes");
    fails(output, &w, "sharing bytes");
    // The recording is as it was.
    let done = recording.replay(&[]).unwrap();
    done.wait().unwrap();
    assert_eq!(read(engine, &y, &done), expected(|i| (i % 2) as f32, |i| (i % 2) as f32));
    assert_eq!(recording.stream().engine_id(), x.engine_id());
    assert!(network.record(stream, &[], &[(output, y)]).is_err());
}

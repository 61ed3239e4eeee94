//! The executor on the mock device: every order that the declared dependencies allow gives the host's result.

mod errors;

use std::cell::Cell;
use std::sync::Arc;

use anydnn_backend::conformance::Sample;
use anydnn_backend::{
    Backend, DataType, Engine, Error, Event, Memory, MemoryDesc, Result, Stream, StreamDesc, TensorValues,
    Tolerance,
};
use anydnn_host::HostEngine;
use anydnn_mock::{Faults, MockDevice, OpenLayouts, Point};
use approx::assert_relative_eq;

use crate::compile::{CompileOptions, CompiledGraph};
use crate::fusion::Policy;
use crate::graph::{Attrs, Graph, GraphBuilder, OpKind, TensorId};

/// Thirty operations with branches that join again, some tensors read several times.
fn branching() -> Graph {
    let mut g = GraphBuilder::new();
    let x = g.input("x", DataType::F32, [4, 6]);
    let row = g.input("row", DataType::F32, [6]);
    let w = g.constant("w", DataType::F32, [6, 6]);
    let mut nodes = vec![x];
    let mut state = 7_usize;
    let mut pick = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    for i in 0..30 {
        let recent = nodes.len().min(5);
        let a = nodes[nodes.len() - 1 - pick(recent)];
        let b = nodes[pick(nodes.len())];
        let name = format!("n{i}");
        let made = match i % 6 {
            0 => g.op(&name, OpKind::MatMul, &[a, w], Attrs::new()),
            1 => g.op(&name, OpKind::Tanh, &[a], Attrs::new()),
            2 => g.op(&name, OpKind::Add, &[a, b], Attrs::new()),
            3 => g.op(&name, OpKind::Multiply, &[a, row], Attrs::new()),
            4 => g.op(&name, OpKind::SoftMax, &[a], Attrs::new().with("axis", 1_i64)),
            _ => g.op(&name, OpKind::Maximum, &[b, a], Attrs::new()),
        };
        nodes.push(made.unwrap());
    }
    g.build().unwrap()
}

fn values(desc: &MemoryDesc, seed: u32) -> Vec<u8> {
    (0..desc.elements() as u32)
        .flat_map(|i| (((i * 7 + seed * 13) % 23) as f32 / 11.5 - 1.0).to_le_bytes())
        .collect()
}

/// Memory with the given tensor's values.
fn filled<E: Engine>(
    engine: &E,
    stream: &<E::B as Backend>::Stream,
    desc: &MemoryDesc,
    seed: u32,
) -> Result<<E::B as Backend>::Memory> {
    let memory = engine.create_memory(desc, engine.capabilities().memory_kinds[0])?;
    stream.write(&memory, 0, &values(desc, seed), &[])?.wait()?;
    Ok(memory)
}

/// The graph's memories on one engine.
struct Bound<B: Backend> {
    inputs: Vec<(TensorId, B::Memory)>,
    outputs: Vec<(TensorId, B::Memory)>,
    constants: Vec<(TensorId, B::Memory)>,
}

fn bound<E: Engine>(
    engine: &E,
    stream: &<E::B as Backend>::Stream,
    compiled: &CompiledGraph<E::B>,
) -> Result<Bound<E::B>> {
    let graph = compiled.graph();
    let make =
        |id: TensorId| filled(engine, stream, compiled.input_desc(id).unwrap(), id.0 as u32).map(|m| (id, m));
    Ok(Bound {
        inputs: graph.inputs().iter().map(|&id| make(id)).collect::<Result<_>>()?,
        constants: graph.constants().map(|t| make(t.id)).collect::<Result<_>>()?,
        outputs: graph
            .outputs()
            .iter()
            .map(|&id| {
                let desc = compiled.output_desc(id).unwrap();
                engine.create_memory(desc, engine.capabilities().memory_kinds[0]).map(|m| (id, m))
            })
            .collect::<Result<_>>()?,
    })
}

fn run_compiled<E: Engine>(
    engine: &E,
    stream_desc: &StreamDesc,
    compiled: &CompiledGraph<E::B>,
) -> Result<Vec<Vec<u8>>> {
    let stream = engine.create_stream(stream_desc)?;
    let bound = bound(engine, &stream, compiled)?;
    let executable = compiled.load(&stream, &bound.constants)?;
    let event = executable.execute(&stream, &bound.inputs, &bound.outputs, &[])?;
    bound
        .outputs
        .iter()
        .map(|(_, memory)| {
            let mut bytes = vec![0; memory.desc().size()];
            stream.read(memory, 0, &mut bytes, std::slice::from_ref(&event))?;
            Ok(bytes)
        })
        .collect()
}

fn compile<E: Engine>(engine: &E, graph: &Graph, policy: Policy) -> CompiledGraph<E::B> {
    CompiledGraph::new(graph, engine, &CompileOptions { policy, ..CompileOptions::default() }).unwrap()
}

#[test]
fn a_thousand_adversarial_orders_agree_with_the_host() {
    let graph = branching();
    let (host, sample) = (HostEngine::reference(), Sample::from_env());
    for policy in [Policy::Debug, Policy::Fusion] {
        let expected = run_compiled(&host, &StreamDesc::default(), &compile(&host, &graph, policy)).unwrap();
        for seed in (0..500).filter(|&seed| sample.takes(seed as usize, 0)) {
            // With weights in the host's layout sums are in the host's order, so results agree to the bit.
            let device = MockDevice::builder().seed(seed).open_layouts(OpenLayouts::RowMajor).build();
            let engine = device.engine();
            let compiled = compile(&engine, &graph, policy);
            let actual = run_compiled(&engine, &StreamDesc::out_of_order(), &compiled).unwrap();
            assert_eq!(actual, expected, "seed {seed}, {policy:?}");
            assert!(device.races().is_empty());
        }
    }
}

#[test]
fn nothing_is_enqueued_behind_a_no() {
    let device = MockDevice::builder().seed(1).build();
    let engine = device.engine();
    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
    let compiled = compile(&engine, &branching(), Policy::Debug);
    let bound = bound(&engine, &stream, &compiled).unwrap();
    let executable = compiled.load(&stream, &bound.constants).unwrap();
    let steps = compiled.steps().iter().filter(|step| !step.constant).count();
    for most in 0..=steps {
        let (asked, before) = (Cell::new(0), device.calls(Point::Execute));
        let go_on = || {
            asked.set(asked.get() + 1);
            if asked.get() <= most { Ok(()) } else { Err(Error::Cancelled { operation: "a test".into() }) }
        };
        let made = executable.execute_while(&stream, &bound.inputs, &bound.outputs, &[], &go_on);
        assert_eq!(made.is_ok(), most == steps, "{most} of {steps}");
        assert_eq!(device.calls(Point::Execute) - before, most as u64);
        stream.wait().unwrap();
    }
}

#[test]
fn temporaries_lie_by_themselves_where_the_allocator_keeps_them_apart() {
    let graph = branching();
    let host = HostEngine::reference();
    let expected =
        run_compiled(&host, &StreamDesc::default(), &compile(&host, &graph, Policy::Debug)).unwrap();
    let run = |apart| {
        let device =
            MockDevice::builder().seed(3).open_layouts(OpenLayouts::RowMajor).keeps_apart(apart).build();
        let engine = device.engine();
        let compiled = compile(&engine, &graph, Policy::Debug);
        assert_eq!(run_compiled(&engine, &StreamDesc::out_of_order(), &compiled).unwrap(), expected);
        assert!(device.races().is_empty());
        (engine.allocator().stats().created, compiled.inner.arena_parts.len())
    };
    assert_eq!(run(false), (1, 1));
    let (created, parts) = run(true);
    assert!(created == parts && parts > 10, "{created} allocations for {parts} temporaries");
}

/// Weights that are only read to be packed are on the device one after the other, not all at once.
#[cfg(feature = "onnx")]
#[test]
fn constants_that_only_prepare_others_go_as_soon_as_these_are_there() {
    const SIDE: usize = 1100;
    let mut g = GraphBuilder::new();
    let mut x = g.input("x", DataType::F32, [2, SIDE]);
    for i in 0..5 {
        let w = g.constant(&format!("w{i}"), DataType::F32, [SIDE, SIDE]);
        x = g.op(&format!("n{i}"), OpKind::MatMul, &[x, w], Attrs::new()).unwrap();
    }
    let row = g.constant("row", DataType::F32, [SIDE]);
    g.op("sum", OpKind::Add, &[x, row], Attrs::new()).unwrap();
    let graph = g.build().unwrap();
    for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
        // Layouts are row-major or column-major by the seed.
        let packs = |seed: &u64| {
            let device = MockDevice::builder().seed(*seed).build();
            let compiled = compile(&device.engine(), &graph, Policy::Fusion);
            compiled.inner.steps.iter().filter(|step| step.constant).count() == 5
        };
        let device = MockDevice::builder().seed((0..99).find(packs).unwrap()).build();
        let engine = device.engine();
        let stream = engine.create_stream(&desc).unwrap();
        let compiled = compile(&engine, &graph, Policy::Fusion);
        let weights = || device.leaks().iter().filter(|object| object.contains("4840000 bytes")).count();
        let mut asked = Vec::new();
        let executable = compiled
            .load_each(&stream, None, |id, is_kept| {
                let at = compiled.inner.constants.iter().position(|&own| own == id).unwrap();
                let desc = &compiled.inner.constant_descs[at];
                asked.push((graph.tensor(id).unwrap().label().clone(), is_kept, weights()));
                filled(&engine, &stream, desc, 1)
            })
            .unwrap();
        let packed = asked[0].2;
        for (i, (label, is_kept, there)) in asked.iter().enumerate() {
            let (name, kept) = if i < 5 { (format!("w{i}"), false) } else { ("row".into(), true) };
            assert_eq!((label, *is_kept), (&name, kept));
            assert!(*there <= packed + 1, "{asked:?}");
        }
        // Neither do the scratchpads of the reorders stay.
        assert_eq!((asked.len(), weights()), (6, 5));
        drop(executable);
    }
}

/// A plan prepares what no other one has: weights of the same name by the same steps are there once, as long as somebody has them.
#[cfg(feature = "onnx")]
#[test]
fn plans_share_what_they_prepare_alike() {
    use anydnn_backend::{MapMode, MemoryKind};

    use crate::execute::{PreparedConstants, Sharing};

    let graph = |rows: usize| {
        let mut g = GraphBuilder::new();
        let x = g.input("x", DataType::F32, [rows, 40]);
        let w = g.constant("w", DataType::F32, [40, 24]);
        let y = g.op("y", OpKind::MatMul, &[x, w], Attrs::new()).unwrap();
        let row = g.constant("row", DataType::F32, [24]);
        g.op("z", OpKind::Add, &[y, row], Attrs::new()).unwrap();
        g.build().unwrap()
    };
    // The mock likes weights row-major or column-major, by the seed.
    let packs = |seed: &u64| {
        let device = MockDevice::builder().seed(*seed).build();
        let compiled = compile(&device.engine(), &graph(3), Policy::Fusion);
        compiled.inner.steps.iter().any(|step| step.constant)
    };
    let device = MockDevice::builder().seed((0..99).find(packs).unwrap()).build();
    let engine = device.engine();
    let stream = engine.create_stream(&StreamDesc::out_of_order()).unwrap();
    let prepared = PreparedConstants::default();
    let load = |rows: usize, model: &str| {
        let (graph, mut asked) = (graph(rows), Vec::new());
        let compiled = compile(&engine, &graph, Policy::Fusion);
        let label = |id: TensorId| graph.tensor(id).unwrap().label().clone();
        let name = |id: TensorId| Some(format!("{} of {model}", label(id)).into());
        let sharing = Sharing { prepared: &prepared, name: &name };
        let executable = compiled
            .load_each(&stream, Some(&sharing), |id, _| {
                let at = compiled.inner.constants.iter().position(|&own| own == id).unwrap();
                asked.push(label(id));
                filled(&engine, &stream, &compiled.inner.constant_descs[at], if model == "a" { 1 } else { 2 })
            })
            .unwrap();
        let x = filled(&engine, &stream, compiled.input_desc(TensorId(0)).unwrap(), 3).unwrap();
        let out = graph.outputs()[0];
        let z = engine.create_memory(compiled.output_desc(out).unwrap(), MemoryKind::Buffer).unwrap();
        executable.execute(&stream, &[(TensorId(0), x)], &[(out, z.clone())], &[]).unwrap().wait().unwrap();
        let first = z.map(MapMode::Read).unwrap().bytes()[..4 * 24].to_vec();
        (executable, asked, first)
    };
    let (first, asked, result) = load(3, "a");
    let bytes = prepared.bytes();
    assert!(asked.iter().any(|label| label == "w") && bytes > 0, "{asked:?}, {bytes}");
    let (second, asked, same) = load(5, "a");
    assert_eq!((asked, prepared.bytes()), (vec!["row".to_owned()], bytes));
    assert_eq!(same, result);
    // It stays with the plan that is left, and other weights are others.
    drop(first);
    let (third, asked, other) = load(3, "b");
    assert_eq!((asked.len(), prepared.bytes()), (2, 2 * bytes));
    assert_ne!(other, result);
    drop((second, third));
    assert_eq!(prepared.bytes(), 0);
}

#[test]
fn in_order_streams_need_no_dependencies() {
    let graph = branching();
    let host = HostEngine::reference();
    let expected =
        run_compiled(&host, &StreamDesc::default(), &compile(&host, &graph, Policy::Fusion)).unwrap();
    for seed in 0..20 {
        let device = MockDevice::builder().seed(seed).open_layouts(OpenLayouts::RowMajor).build();
        let engine = device.engine();
        let actual =
            run_compiled(&engine, &StreamDesc::default(), &compile(&engine, &graph, Policy::Fusion)).unwrap();
        assert_eq!(actual, expected);
    }
}

#[test]
fn weights_are_prepared_in_whatever_layout_the_backend_likes() {
    let graph = branching();
    let host = HostEngine::reference();
    let floats = |outputs: Vec<Vec<u8>>| {
        let all = outputs.concat();
        TensorValues::decode(&MemoryDesc::new([all.len() / 4], DataType::F32), &all).unwrap()
    };
    let compiled = compile(&host, &graph, Policy::Fusion);
    let tolerance = Tolerance::of_chain(compiled.steps().iter().map(|s| &s.desc));
    let expected = floats(run_compiled(&host, &StreamDesc::default(), &compiled).unwrap());
    let mut prepared = 0;
    for seed in 0..40 {
        let device = MockDevice::builder().seed(seed).build();
        let engine = device.engine();
        let compiled = compile(&engine, &graph, Policy::Fusion);
        prepared += compiled.steps().iter().filter(|s| s.constant).count();
        let actual = floats(run_compiled(&engine, &StreamDesc::out_of_order(), &compiled).unwrap());
        assert_relative_eq!(actual, expected.within(tolerance));
    }
    assert!(prepared > 0, "the mock never chose a layout of its own");
}

#[test]
fn every_dependency_is_needed() {
    let graph = branching();
    let device = MockDevice::builder().seed(1).open_layouts(OpenLayouts::RowMajor).build();
    let engine = device.engine();
    let steps = compile(&engine, &graph, Policy::Debug).inner.steps.len();
    let mut deleted = 0;
    for step in 0..steps {
        for at in 0..compile(&engine, &graph, Policy::Debug).inner.steps[step].waits_for.len() {
            let mut compiled = compile(&engine, &graph, Policy::Debug);
            let inner = Arc::get_mut(&mut compiled.inner).unwrap();
            inner.steps[step].waits_for.remove(at);
            let error = run_compiled(&engine, &StreamDesc::out_of_order(), &compiled);
            assert!(error.is_err(), "step {step} runs without its dependency {at}");
            deleted += 1;
        }
    }
    assert!(deleted >= 25, "{deleted}");
}

#[test]
fn bad_arguments_are_named_and_nothing_is_enqueued() {
    let device = MockDevice::builder().seed(3).build();
    let engine = device.engine();
    let stream = engine.create_stream(&StreamDesc::out_of_order()).unwrap();
    let compiled = compile(&engine, &branching(), Policy::Fusion);
    let bound = bound(&engine, &stream, &compiled).unwrap();
    let executable = compiled.load(&stream, &bound.constants).unwrap();
    let before = device.log();
    let fails = |inputs: &[_], outputs: &[_], words: &[&str]| {
        let error: Error = executable.execute(&stream, inputs, outputs, &[]).unwrap_err();
        for word in words {
            assert!(error.to_string().contains(word), "{error} lacks {word}");
        }
    };
    let (x, row) = (bound.inputs[0].clone(), bound.inputs[1].clone());
    fails(std::slice::from_ref(&x), &bound.outputs, &["without", "row"]);
    fails(&[x.clone(), row.clone(), x.clone()], &bound.outputs, &["twice", "(x)"]);
    fails(&[x.clone(), (row.0, x.1.clone())], &bound.outputs, &["row", "4x6", "f32:6"]);
    fails(&[x.clone(), row.clone(), (TensorId(999), x.1.clone())], &bound.outputs, &["t999"]);
    fails(&bound.inputs, &bound.outputs[1..], &["output", "without"]);
    let mut aliased = bound.outputs.clone();
    if let Some(slot) = aliased.iter_mut().find(|(_, m)| m.desc().same_bytes(x.1.desc())) {
        slot.1 = x.1.clone();
        fails(&bound.inputs, &aliased, &["sharing bytes with x"]);
    }
    assert_eq!(device.log(), before);
    let missing = compiled.load(&stream, &[]).unwrap_err().to_string();
    assert!(missing.contains("constant") && missing.contains("(w)"), "{missing}");
}

#[test]
fn objects_of_another_engine_are_refused() {
    let (one, two) = (MockDevice::builder().build(), MockDevice::builder().build());
    let (engine, other) = (one.engine(), two.engine());
    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
    let foreign = other.create_stream(&StreamDesc::default()).unwrap();
    let compiled = compile(&engine, &branching(), Policy::Fusion);
    let bound = bound(&engine, &stream, &compiled).unwrap();
    let executable = compiled.load(&stream, &bound.constants).unwrap();
    assert!(matches!(
        executable.execute(&foreign, &bound.inputs, &bound.outputs, &[]),
        Err(Error::Mismatch { .. })
    ));
    let mut inputs = bound.inputs.clone();
    inputs[0].1 = filled(&other, &foreign, inputs[0].1.desc(), 1).unwrap();
    let error = executable.execute(&stream, &inputs, &bound.outputs, &[]).unwrap_err();
    assert!(matches!(error, Error::Mismatch { .. }) && error.to_string().contains("input"), "{error}");
}

#[test]
fn an_execution_waits_for_its_dependencies_and_reports_their_failure() {
    for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
        let device = MockDevice::builder().seed(5).build();
        let engine = device.engine();
        let stream = engine.create_stream(&desc).unwrap();
        let compiled = compile(&engine, &branching(), Policy::Fusion);
        let bound = bound(&engine, &stream, &compiled).unwrap();
        let executable = compiled.load(&stream, &bound.constants).unwrap();
        let gate = device.user_event();
        let event = executable.execute(&stream, &bound.inputs, &bound.outputs, &[gate.event()]).unwrap();
        assert!(event.wait().is_err(), "nothing has opened the gate");
        gate.set_complete().unwrap();
        event.wait().unwrap();
        let broken = device.user_event();
        let event = executable.execute(&stream, &bound.inputs, &bound.outputs, &[broken.event()]).unwrap();
        broken.set_failed(Error::DeviceLost("the user's kernel".into())).unwrap();
        let error = event.wait().unwrap_err();
        assert!(matches!(error.root(), Error::Dependency { .. }), "{error}");
        assert!(error.to_string().contains("the user's kernel"), "{error}");
    }
}

#[test]
fn concurrent_executions_share_nothing() {
    let device = MockDevice::builder().seed(11).build();
    let engine = device.engine();
    let compiled = compile(&engine, &branching(), Policy::Fusion);
    let stream = engine.create_stream(&StreamDesc::out_of_order()).unwrap();
    let constants = bound(&engine, &stream, &compiled).unwrap().constants;
    let executable = compiled.load(&stream, &constants).unwrap();
    let runs: Vec<_> = (0..8)
        .map(|_| {
            let bound = bound(&engine, &stream, &compiled).unwrap();
            let event = executable.execute(&stream, &bound.inputs, &bound.outputs, &[]).unwrap();
            (bound, event)
        })
        .collect();
    let read = |(bound, event): &(Bound<anydnn_mock::Mock>, _)| {
        let mut bytes = vec![0; bound.outputs[0].1.desc().size()];
        stream.read(&bound.outputs[0].1, 0, &mut bytes, std::slice::from_ref(event)).unwrap();
        bytes
    };
    let first = read(&runs[0]);
    assert!(runs.iter().all(|run| read(run) == first));
}

/// Every place where an execution calls the device fails once: the error names what failed, nothing leaks (the device checks at its
/// end), and the next execution is right.
#[test]
fn every_fault_is_reported_and_the_next_execution_works() {
    let graph = branching();
    let host = HostEngine::reference();
    let expected =
        run_compiled(&host, &StreamDesc::default(), &compile(&host, &graph, Policy::Fusion)).unwrap();
    let mut faults = 0;
    for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
        for point in [
            Point::Allocate,
            Point::Allocation,
            Point::Execute,
            Point::Submit,
            Point::Marker,
            Point::Execution,
        ] {
            for n in 1.. {
                let device = MockDevice::builder().seed(n).open_layouts(OpenLayouts::RowMajor).build();
                let engine = device.engine();
                let stream = engine.create_stream(&desc).unwrap();
                let compiled = compile(&engine, &graph, Policy::Fusion);
                let bound = bound(&engine, &stream, &compiled).unwrap();
                let executable = compiled.load(&stream, &bound.constants).unwrap();
                device.inject(Faults::new().once(point, n));
                let run =
                    || executable.execute(&stream, &bound.inputs, &bound.outputs, &[]).and_then(|e| e.wait());
                let Err(error) = run() else { break };
                assert!(!error.to_string().is_empty());
                faults += 1;
                // A failure that was left on the stream is told once.
                let _ = stream.wait();
                device.inject(Faults::new());
                run().unwrap_or_else(|error| panic!("{point:?} {n}: {error}"));
                let mut bytes = vec![0; expected[0].len()];
                stream.read(&bound.outputs[0].1, 0, &mut bytes, &[]).unwrap();
                assert_eq!(bytes, expected[0], "{point:?} {n}");
            }
        }
    }
    assert!(faults > 60, "{faults}");
}

#[test]
fn a_build_failure_names_the_operation_and_carries_the_log() {
    let device =
        MockDevice::builder().faults(Faults::new().build_failure("softmax", "no such thing as exp")).build();
    let error =
        CompiledGraph::<anydnn_mock::Mock>::new(&branching(), &device.engine(), &CompileOptions::default())
            .unwrap_err();
    assert!(matches!(error.root(), Error::Build(_)), "{error}");
    assert!(
        error.to_string().starts_with("n10: program \"softmax\"")
            && error.to_string().contains("no such thing as exp"),
        "{error}"
    );
}

/// Two branches that share an input alone: on an out-of-order stream either may go first, and on an in-order one the first does.
#[test]
fn independent_branches_overlap_on_out_of_order_streams() {
    let mut g = GraphBuilder::new();
    let x = g.input("x", DataType::F32, [4, 4]);
    for branch in ["left", "right"] {
        let product = g.op(branch, OpKind::MatMul, &[x, x], Attrs::new()).unwrap();
        let rows = Attrs::new().with("axis", 1_i64);
        g.op(&format!("{branch}_end"), OpKind::SoftMax, &[product], rows).unwrap();
    }
    let graph = g.build().unwrap();
    let order = |seed: u64, desc: &StreamDesc| {
        let device = MockDevice::builder().seed(seed).open_layouts(OpenLayouts::RowMajor).build();
        let engine = device.engine();
        run_compiled(&engine, desc, &compile(&engine, &graph, Policy::Debug)).unwrap();
        let log = device.log();
        let runs = log.lines().filter(|line| line.starts_with("run "));
        let ran = |name: &str| runs.clone().position(|line| line.ends_with(name)).unwrap();
        ["left", "left_end", "right", "right_end"].map(ran)
    };
    let orders: Vec<_> = (0..40).map(|seed| order(seed, &StreamDesc::out_of_order())).collect();
    assert!(orders.iter().all(|[left, left_end, right, right_end]| left < left_end && right < right_end));
    let seen = |what: fn(&[usize; 4]) -> bool| orders.iter().any(what);
    assert!(seen(|[_, left_end, right, _]| left_end < right), "left before right");
    assert!(seen(|[left, _, _, right_end]| right_end < left), "right before left");
    assert!(seen(|[_, left_end, right, _]| right < left_end), "one during the other");
    for seed in 0..5 {
        assert!(order(seed, &StreamDesc::default()).is_sorted());
    }
}

/// A replay that fails says so and is over; the next one is right. What it borrowed goes back when the recording ends.
#[test]
fn a_failed_replay_leaves_the_recording_as_it_was() {
    let graph = branching();
    let host = HostEngine::reference();
    let expected =
        run_compiled(&host, &StreamDesc::default(), &compile(&host, &graph, Policy::Fusion)).unwrap();
    let mut faults = 0;
    for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
        for point in [Point::Execute, Point::Submit, Point::Marker, Point::Execution] {
            for n in 1.. {
                let device = MockDevice::builder().seed(n).open_layouts(OpenLayouts::RowMajor).build();
                let engine = device.engine();
                let stream = engine.create_stream(&desc).unwrap();
                let compiled = compile(&engine, &graph, Policy::Fusion);
                let bound = bound(&engine, &stream, &compiled).unwrap();
                let executable = compiled.load(&stream, &bound.constants).unwrap();
                let recording = executable.record(&stream, &bound.inputs, &bound.outputs).unwrap();
                device.inject(Faults::new().once(point, n));
                let Err(error) = recording.replay(&[]).and_then(|event| event.wait()) else { break };
                assert!(!error.to_string().is_empty());
                faults += 1;
                // A failure that was left on the stream is told once.
                let _ = stream.wait();
                device.inject(Faults::new());
                recording
                    .replay(&[])
                    .unwrap()
                    .wait()
                    .unwrap_or_else(|error| panic!("{point:?} {n}: {error}"));
                let mut bytes = vec![0; expected[0].len()];
                stream.read(&bound.outputs[0].1, 0, &mut bytes, &[]).unwrap();
                assert_eq!(bytes, expected[0], "{point:?} {n}");
                drop(recording);
                stream.wait().unwrap();
                assert_eq!(engine.allocator().stats().in_use_bytes, 0);
            }
        }
    }
    assert!(faults > 40, "{faults}");
}

//! Sessions: shapes that change, threads, the device's memory, errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anydnn_backend::{Backend, Error, Event, MapMode, Memory, MemoryDesc, MemoryKind, Stream};

use super::*;
use crate::onnx::{Cancel, SessionOptions};

fn twice() -> Draft {
    let draft = Draft::new(13).input("x", &["n", "2"]).input("y", &["n", "2"]);
    draft.node("s = Add(x, y)", vec![]).node("r = Relu(s)", vec![]).output("r")
}

fn rows(n: usize, value: f32) -> HostTensor {
    tensor([n, 2], &vec![value; 2 * n])
}

#[test]
fn each_shape_is_compiled_once() {
    let engine = anydnn_host::HostEngine::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let progress = move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    let options =
        SessionOptions { progress: Some(Arc::new(progress)), plans: 2, ..SessionOptions::default() };
    let session = twice().load().unwrap().compile_with(&engine, &[("n", 1)], &options).unwrap();
    let compiled = || calls.load(Ordering::Relaxed);
    assert_eq!(compiled(), 1);
    for (n, expected) in [(1, 1), (3, 2), (1, 2), (3, 2), (4, 3), (3, 3), (1, 4)] {
        let outputs = session.run(&[("y", rows(n, -5.0)), ("x", rows(n, 7.0))]).unwrap();
        assert_eq!((outputs[0].0.as_str(), &outputs[0].1), ("r", &rows(n, 2.0).labelled("r")));
        assert_eq!(compiled(), expected, "with {n} rows");
    }
    assert_eq!(session.memory().plans.len(), 2);
}

/// What comes from the host and goes there lies in memory that both touch, where a processor has such, and nothing is left in it for
/// others: results are those of their own inputs, whichever runs were before or are beside.
#[test]
fn few_bytes_of_the_host_take_no_commands_of_processors() {
    for engine in anydnn_opencl::testing::hasty_test_engines() {
        let session = twice().load().unwrap().compile(&engine, &[]).unwrap();
        let run = |n: usize, x: f32| {
            let outputs = session.run(&[("x", rows(n, x)), ("y", rows(n, 1.0))]).unwrap();
            assert_eq!(outputs[0].1, rows(n, x + 1.0).labelled("r"), "{}", engine.device().name);
            outputs
        };
        run(1, 2.0);
        let allocations = || {
            let stats = engine.allocator().stats();
            stats.created + stats.reused
        };
        let (before, kept) = (allocations(), run(1, 8.0));
        run(1, 9.0);
        if engine.device().kind == anydnn_backend::DeviceKind::Cpu {
            assert_eq!(allocations(), before, "{}", engine.device().name);
        }
        assert_eq!(kept[0].1, rows(1, 9.0).labelled("r"), "a later run changed an output");
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let run = &run;
                scope.spawn(move || {
                    for at in 0..20_u8 {
                        run(1 + usize::from(at % 3), f32::from(thread * 20 + at));
                    }
                });
            }
        });
    }
}

#[test]
fn what_is_warm_compiles_no_more() {
    let staged = || {
        let draft = Draft::new(13).input("x", &["n", "2"]).node("k = NonZero(x)", vec![]);
        draft.node("y = Relu(x)", vec![]).output("k").output("y")
    };
    for engine in anydnn_opencl::testing::hasty_test_engines() {
        for draft in [twice(), staged()] {
            let session = draft.load().unwrap().compile(&engine, &[]).unwrap();
            session.warm_up(&[("n", 3)]).unwrap();
            let made = || {
                let stats = engine.program_stats();
                stats.built + stats.from_disk
            };
            let warm = made();
            assert!(warm > 0 && !session.memory().plans.is_empty());
            let inputs: Vec<_> =
                session.inputs().iter().map(|input| (input.name.as_str(), rows(3, 1.0))).collect();
            session.run(&inputs).unwrap();
            assert_eq!(made(), warm);
        }
    }
}

#[test]
fn warming_up_asks_for_every_dimension() {
    let session = twice().load().unwrap().compile(&anydnn_host::HostEngine::new(), &[]).unwrap();
    let refused = |dims: &[(&str, usize)]| session.warm_up(dims).unwrap_err().to_string();
    for (given, parts) in [
        (vec![], ["\"x\"", "dimension \"n\"", "missing"]),
        (vec![("n", 1), ("m", 2)], ["\"m\"", "an open dimension", "n"]),
    ] {
        let text = refused(&given);
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    assert!(session.memory().plans.is_empty());
}

#[test]
fn inputs_that_do_not_fit_are_told() {
    let engine = anydnn_host::HostEngine::new();
    let session = twice().load().unwrap().compile(&engine, &[]).unwrap();
    let refused = |inputs: &[(&str, HostTensor)]| session.run(inputs).unwrap_err().to_string();
    let told = |text: String, parts: &[&str]| {
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    };
    told(refused(&[("x", rows(1, 0.0))]), &["\"y\"", "missing", "y: f32 [n, 2]"]);
    told(refused(&[("z", rows(1, 0.0))]), &["\"z\"", "x: f32 [n, 2]"]);
    told(refused(&[("x", rows(1, 0.0)), ("x", rows(1, 0.0))]), &["\"x\" twice"]);
    told(refused(&[("x", rows(1, 0.0)), ("y", rows(2, 0.0))]), &["\"n\"", "2", "1, as elsewhere"]);
    let flat = tensor([2], &[0.0; 2]);
    told(refused(&[("x", flat)]), &["\"x\"", "2 of f32", "x: f32 [n, 2]"]);
    let halves = rows(1, 0.0).cast(DataType::F16);
    told(refused(&[("x", halves)]), &["1x2", "f16", "x: f32 [n, 2]"]);
}

#[test]
fn threads_share_a_session() {
    let engine = anydnn_host::HostEngine::new();
    let session = twice().load().unwrap().compile(&engine, &[]).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let session = session.clone();
            scope.spawn(move || {
                for round in 0..8 {
                    let n = 1 + (thread + round) % 3;
                    let value = thread as f32;
                    let made = session.run(&[("x", rows(n, value)), ("y", rows(n, 1.0))]).unwrap();
                    assert_eq!(made[0].1.to_f32s(), vec![value + 1.0; 2 * n]);
                }
            });
        }
    });
}

/// Runs on memory of the device, behind the writes of its inputs, and reads what it gives.
fn on_device<B: Backend>(engine: &B::Engine, desc: &StreamDesc) {
    let session = twice().load().unwrap().compile(engine, &[("n", 3)]).unwrap();
    let stream = engine.create_stream(desc).unwrap();
    let kind = engine.capabilities().memory_kinds.first().copied().unwrap_or(MemoryKind::Buffer);
    let mut waits = Vec::new();
    let mut write = |value: f32| {
        let tensor = rows(3, value);
        let memory = engine.create_memory(tensor.desc(), kind).unwrap();
        waits.push(stream.write(&memory, 0, tensor.bytes(), &[]).unwrap());
        memory
    };
    let (x, y) = (write(4.0), write(-1.0));
    let (outputs, event) = session.run_on(&stream, &[("x", x), ("y", y)], &waits).unwrap();
    event.wait().unwrap();
    let (name, memory) = &outputs[0];
    let mut made = HostTensor::zeros(memory.desc().dims().clone(), memory.desc().data_type()).unwrap();
    stream.read(memory, 0, made.bytes_mut(), &[event]).unwrap();
    assert_eq!((name.as_str(), made), ("r", rows(3, 3.0)));
}

/// A model of several stages with its steps on the host gives the same on every stream.
fn staged_on_device<B: Backend>(engine: &B::Engine, desc: &StreamDesc) {
    let draft = Draft::new(13)
        .input("x", &["n", "2"])
        .node("r = Relu(x)", vec![])
        .node("long = Cast(r)", vec![int("to", i64::from(INT64))])
        .node("d = Add(long, long)", vec![])
        .node("f = Cast(d)", vec![int("to", i64::from(FLOAT))])
        .node("y = Mul(f, r)", vec![])
        .output("y");
    let session = draft.load().unwrap().compile(engine, &[("n", 1)]).unwrap();
    let stream = engine.create_stream(desc).unwrap();
    let kind = engine.capabilities().memory_kinds.first().copied().unwrap_or(MemoryKind::Buffer);
    let x = tensor([2, 2], &[1.5, -2.0, 3.0, 4.0]);
    let memory = engine.create_memory(x.desc(), kind).unwrap();
    let written = stream.write(&memory, 0, x.bytes(), &[]).unwrap();
    let (outputs, event) = session.run_on(&stream, &[("x", memory)], &[written]).unwrap();
    let mut made = HostTensor::zeros([2, 2], DataType::F32).unwrap();
    stream.read(&outputs[0].1, 0, made.bytes_mut(), &[event]).unwrap();
    assert_eq!(made.to_f32s(), [3.0, 0.0, 18.0, 32.0]);
    assert_eq!(session.run(&[("x", x)]).unwrap()[0].1.to_f32s(), made.to_f32s());
}

fn on_every_stream<B: Backend>(engine: &B::Engine) {
    on_device::<B>(engine, &StreamDesc::default());
    staged_on_device::<B>(engine, &StreamDesc::default());
    if engine.capabilities().out_of_order {
        on_device::<B>(engine, &StreamDesc::out_of_order());
        staged_on_device::<B>(engine, &StreamDesc::out_of_order());
    }
}

#[test]
fn memory_of_the_device_goes_in_and_out() {
    on_every_stream::<anydnn_host::Host>(&anydnn_host::HostEngine::new());
    for engine in anydnn_opencl::testing::hasty_test_engines() {
        on_every_stream::<anydnn_opencl::OpenCl>(&engine);
    }
}

#[test]
fn outputs_of_the_device_are_the_users_own() {
    let draft = Draft::new(13)
        .input("x", &["2"])
        .node("a = Relu(x)", vec![])
        .node("b = Identity(a)", vec![])
        .node("c = Identity(x)", vec![])
        .output("a")
        .output("b")
        .output("c");
    let engine = anydnn_host::HostEngine::new();
    let session = draft.load().unwrap().compile::<_, anydnn_host::Host>(&engine, &[]).unwrap();
    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
    let x = tensor([2], &[-1.0, 2.0]);
    let memory = engine.create_memory(x.desc(), MemoryKind::Host).unwrap();
    stream.write(&memory, 0, x.bytes(), &[]).unwrap();
    let (outputs, event) = session.run_on(&stream, &[("x", memory.clone())], &[]).unwrap();
    event.wait().unwrap();
    let regions: Vec<_> = std::iter::once(&memory).chain(outputs.iter().map(|(_, memory)| memory)).collect();
    for (at, one) in regions.iter().enumerate() {
        assert!(regions[..at].iter().all(|other| !one.region().overlaps(&other.region())), "memory {at}");
    }
    let mut bytes = [0; 8];
    stream.read(&outputs[1].1, 0, &mut bytes, &[]).unwrap();
    assert_eq!(bytes[4..], 2.0_f32.to_ne_bytes());
}

#[test]
fn times_are_told_for_each_step() {
    let engine = anydnn_host::HostEngine::new();
    let session = twice().load().unwrap().compile::<_, anydnn_host::Host>(&engine, &[]).unwrap();
    let times = session.profile(&[("x", rows(2, 1.0)), ("y", rows(2, 1.0))]).unwrap();
    assert_eq!((times.len(), times[0].stage.as_str(), times[0].on_host), (1, "stage 1", false));
    assert!(times[0].operator.contains("Add"), "{times:?}");
}

/// Weights that the device packs into a layout of its own are there in that alone, once for all shapes, however a file tells them.
#[test]
fn weights_that_were_packed_are_held_once() {
    let draft = || Draft::new(13).input("x", &["n", "64"]).output("y");
    // As large as a weight that stays in the file until it is packed.
    let columns = 512;
    let ones: Vec<f32> = (0..64 * columns).map(|i| f32::from(u8::from(i % columns == i / columns))).collect();
    let shape = [64, columns as i64];
    let product = |draft: Draft| draft.node("y = MatMul(x, w)", vec![]);
    let initializer = product(draft().floats("w", &shape, &ones));
    let node = product(draft().node("w = Constant()", vec![floats("value", &shape, &ones)]));
    let folder = tempfile::tempdir().unwrap();
    let files = [initializer, node].map(|draft| {
        let file = folder.path().join(format!("{}.onnx", draft.bytes().len()));
        std::fs::write(&file, draft.bytes()).unwrap();
        file
    });
    let engines = anydnn_opencl::testing::hasty_test_engines();
    for (engine, file) in engines.iter().flat_map(|engine| files.iter().map(move |file| (engine, file))) {
        let session = Model::load(file).unwrap().compile(engine, &[("n", 48)]).unwrap();
        assert_eq!(session.memory().weights, 0, "{}", engine.device().name);
        for n in [48, 33, 48] {
            let x = tensor([n, 64], &vec![3.0; 64 * n]);
            let made = session.run(&[("x", x)]).unwrap().remove(0).1.to_f32s();
            let expected: Vec<f32> =
                (0..n * columns).map(|i| if i % columns < 64 { 3.0 } else { 0.0 }).collect();
            assert_eq!(made, expected, "{n} rows");
        }
        let held = session.memory();
        assert_eq!((held.weights, held.prepared), (0, 4 * ones.len()), "{}", engine.device().name);
    }
}

/// The first rows of a table, as many as the input is long, behind it.
fn positioned() -> Draft {
    let table: Vec<f32> = (0..64 * 512).map(|i| i as f32).collect();
    let all: Vec<i64> = (0..64).collect();
    Draft::new(13)
        .input("x", &["n", "512"])
        .floats("table", &[64, 512], &table)
        .ints("all", &[64], &all)
        .ints("zero", &[1], &[0])
        .node("shape = Shape(x)", vec![])
        .node("length = Gather(shape, zero)", vec![])
        .node("places = Slice(all, zero, length)", vec![])
        .node("rows = Gather(table, places)", vec![])
        .node("y = Add(x, rows)", vec![])
        .output("y")
}

#[test]
fn rows_of_a_table_for_a_length_are_read_where_the_table_is() {
    for engine in anydnn_opencl::testing::hasty_test_engines() {
        let session = positioned().load().unwrap().compile(&engine, &[]).unwrap();
        let mut held = Vec::new();
        for n in [16, 40, 9, 64] {
            let inputs = [("x", HostTensor::zeros([n, 512], DataType::F32).unwrap())];
            let rows: Vec<f32> = (0..n * 512).map(|i| i as f32).collect();
            let made = session.run(&inputs).unwrap();
            assert_eq!(made[0].1, HostTensor::from_f32([n, 512], &rows).unwrap(), "{n} rows");
            let memory = session.memory();
            held.push((memory.weights, memory.prepared));
        }
        assert!(held.iter().all(|held| *held == (64 * 512 * 4, 0)), "{held:?}");
    }
}

#[test]
fn outputs_go_to_the_users_memory() {
    let draft = || {
        let draft = Draft::new(13).input("x", &["n", "2"]).node("a = Relu(x)", vec![]);
        // One output of the device, one that is another's memory too, one of the host.
        let draft = draft.node("b = Identity(a)", vec![]).node("k = NonZero(x)", vec![]);
        draft.output("a").output("b").output("k")
    };
    for engine in anydnn_opencl::testing::hasty_test_engines() {
        let session = draft().load().unwrap().compile(&engine, &[]).unwrap();
        let memory = |bytes: usize| {
            engine.create_memory(&MemoryDesc::new([bytes], DataType::U8), MemoryKind::Buffer).unwrap()
        };
        for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
            let stream = engine.create_stream(&desc).unwrap();
            let x =
                engine.create_memory(&MemoryDesc::new([3, 2], DataType::F32), MemoryKind::Buffer).unwrap();
            let values = tensor([3, 2], &[1.0, -2.0, 3.0, -4.0, 5.0, -6.0]);
            let written = stream.write(&x, 0, values.bytes(), &[]).unwrap();
            let targets = [("k", memory(100)), ("a", memory(24)), ("b", memory(24))];
            let (made, end) = session.run_into(&stream, &[("x", x.clone())], &targets, &[written]).unwrap();
            for ((name, made), (at, expected)) in made.iter().zip([
                (1, [1.0, 0.0, 3.0, 0.0, 5.0, 0.0].map(f32::to_ne_bytes).concat()),
                (2, [1.0, 0.0, 3.0, 0.0, 5.0, 0.0].map(f32::to_ne_bytes).concat()),
                (0, [0_i64, 0, 1, 1, 2, 2, 0, 1, 0, 1, 0, 1].map(i64::to_ne_bytes).concat()),
            ]) {
                assert_eq!(made.region().allocation, targets[at].1.region().allocation, "{name}");
                let mut bytes = vec![0; expected.len()];
                stream.read(&targets[at].1, 0, &mut bytes, std::slice::from_ref(&end)).unwrap();
                assert_eq!(bytes, expected, "{name}");
            }
            let refused = |targets: &[(&str, _)], part: &str| {
                let error = session.run_into(&stream, &[("x", x.clone())], targets, &[]).unwrap_err();
                assert!(error.to_string().contains(part), "{error}");
            };
            refused(&[("a", memory(20))], "memory of output \"a\" is 20 bytes, expected at least 24");
            refused(&[("z", memory(24))], "\"z\", which the model has not, expected a, b, k");
            refused(&[("a", memory(24)), ("a", memory(24))], "\"a\" twice");
            refused(&[("a", x.clone())], "x");
        }
    }
}

#[test]
fn inputs_and_outputs_are_not_copied_on_the_host() {
    let draft = Draft::new(13).input("x", &["n", "2"]).node("y = Identity(x)", vec![]).output("y");
    let session = draft.load().unwrap().compile(&anydnn_host::HostEngine::new(), &[]).unwrap();
    let bytes = Arc::new(rows(2, 1.5).bytes().to_vec());
    let x = HostTensor::shared(MemoryDesc::new([2, 2], DataType::F32), bytes.clone()).unwrap();
    let outputs = session.run(&[("x", x)]).unwrap();
    assert_eq!(outputs[0].1.bytes().as_ptr(), bytes.as_ptr());
}

#[test]
fn tensors_of_the_host_are_used_where_they_are() {
    let engine = anydnn_host::HostEngine::new();
    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
    let session = twice().load().unwrap().compile(&engine, &[]).unwrap();
    let placed = |tensor: &HostTensor| {
        let memory = engine.create_memory(tensor.desc(), MemoryKind::System).unwrap();
        stream.write(&memory, 0, tensor.bytes(), &[]).unwrap();
        memory
    };
    let (x, y, target) = (rows(3, 7.0), rows(3, -5.0), placed(&rows(3, 0.0)));
    let inputs = [("x", x.clone(), placed(&x)), ("y", y.clone(), placed(&y))];
    let cancel = Cancel::new();
    let run = || session.run_in_place(&stream, &inputs, &[("r", target.clone())], &cancel);
    let (made, end) = run().unwrap();
    end.wait().unwrap();
    assert_eq!((made[0].0.as_str(), made[0].1.region()), ("r", target.region()));
    assert_eq!(made[0].1.map(MapMode::Read).unwrap().bytes(), rows(3, 2.0).bytes());
    cancel.cancel();
    assert!(matches!(run().unwrap_err().root(), Error::Cancelled { .. }));
}

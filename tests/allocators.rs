//! The temporaries of graphs come from the engine's allocator: of every backend, and the user's on every OpenCL device.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use anydnn::backend::{AllocatorStats, Backend, DataType, Engine, Event, Stream, StreamDesc};
use anydnn::compile::{CompileOptions, CompiledGraph};
use anydnn::execute::Executable;
use anydnn::graph::{Attrs, Graph, GraphBuilder, OpKind, TensorId};

/// `[8, 8]` through two branches, whose results are temporaries.
fn graph() -> Graph {
    let mut g = GraphBuilder::new();
    let x = g.input("x", DataType::F32, [8, 8]);
    let square = g.op("square", OpKind::MatMul, &[x, x], Attrs::new()).unwrap();
    let sums = g.op("sums", OpKind::SoftMax, &[square], Attrs::new().with("axis", 1_i64)).unwrap();
    let other = g.op("other", OpKind::SoftMax, &[x], Attrs::new().with("axis", 0_i64)).unwrap();
    g.op("joined", OpKind::MatMul, &[sums, other], Attrs::new()).unwrap();
    g.build().unwrap()
}

/// A compiled graph with memory bound to its ports.
struct Ready<B: Backend> {
    network: Executable<B>,
    inputs: Vec<(TensorId, B::Memory)>,
    outputs: Vec<(TensorId, B::Memory)>,
}

fn ready<E: Engine>(engine: &E, stream: &<E::B as Backend>::Stream) -> Ready<E::B> {
    let compiled = CompiledGraph::<E::B>::new(&graph(), engine, &CompileOptions::default()).unwrap();
    let network = compiled.load(stream, &[]).unwrap();
    let kind = engine.capabilities().memory_kinds[0];
    let (input, output) = (compiled.graph().inputs()[0], compiled.graph().outputs()[0]);
    let source = engine.create_memory(compiled.input_desc(input).unwrap(), kind).unwrap();
    let values: Vec<u8> = (0..64_u8).flat_map(|i| (f32::from(i) / 64.0).to_le_bytes()).collect();
    stream.write(&source, 0, &values, &[]).unwrap().wait().unwrap();
    let target = engine.create_memory(compiled.output_desc(output).unwrap(), kind).unwrap();
    Ready { network, inputs: vec![(input, source)], outputs: vec![(output, target)] }
}

fn result<S: Stream>(
    stream: &S,
    memory: &<S::B as Backend>::Memory,
    after: &<S::B as Backend>::Event,
) -> Vec<u8> {
    let mut bytes = vec![0; 256];
    stream.read(memory, 0, &mut bytes, std::slice::from_ref(after)).unwrap();
    bytes
}

/// Runs the graph ten times; everything that is taken comes back, and is reused where the allocator reuses.
fn balances<E: Engine>(engine: &E, reuses: bool) {
    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
    let ready = ready(engine, &stream);
    for _ in 0..10 {
        let done = ready.network.execute(&stream, &ready.inputs, &ready.outputs, &[]).unwrap();
        done.wait().unwrap();
    }
    stream.wait().unwrap();
    let allocator = engine.allocator();
    let stats = allocator.stats();
    let (device, served) = (engine.device(), stats.created + stats.reused);
    assert!(served >= 10 && stats.in_use_bytes == 0 && stats.peak_bytes > 0, "{device:?}: {stats:?}");
    assert!(!reuses || stats.reused >= 9, "{device:?}: {stats:?}");
    allocator.trim();
    let trimmed = AllocatorStats { parked_bytes: 0, ..stats };
    assert_eq!(allocator.stats(), trimmed, "{device:?}");
}

#[cfg(feature = "host")]
#[test]
fn temporaries_balance_on_the_host() {
    use anydnn::backend::ErasedEngine;

    balances(&anydnn_host::HostEngine::new(), true);
    balances(&anydnn::select::AnyEngine::from(anydnn_host::HostEngine::new()), true);
    balances(&ErasedEngine::new(anydnn_host::HostEngine::new()), true);
}

#[test]
fn temporaries_balance_on_the_mock() {
    balances(&anydnn_mock::MockDevice::new(3).engine(), false);
}

#[cfg(feature = "opencl")]
#[test]
fn temporaries_balance_on_every_opencl_device() {
    for engine in anydnn_opencl::testing::test_engines() {
        balances(&engine, true);
        balances(&anydnn::select::AnyEngine::from(engine.clone()), true);
    }
}

/// A user's allocator behind a graph: unified shared memory where there is some, else shared virtual memory.
#[cfg(feature = "opencl")]
mod users {
    use std::collections::HashMap;
    use std::ffi::c_void;
    use std::sync::{Arc, Mutex};

    use anydnn::backend::{MemoryDesc, MemoryKind};
    use anydnn_opencl::testing::test_engines;
    use anydnn_opencl::{OpenClEngine, OpenClEvent, OpenClMemory, UserAllocator};
    use cl3::event as cl;

    use super::*;

    #[derive(Clone, Default)]
    struct Log {
        blocks: Arc<Mutex<HashMap<usize, OpenClMemory>>>,
        /// The bytes of each allocation, and the status of each free's event.
        allocated: Arc<Mutex<Vec<usize>>>,
        freed: Arc<Mutex<Vec<Option<i32>>>>,
    }

    impl Log {
        fn counts(&self) -> (usize, usize) {
            (self.allocated.lock().unwrap().len(), self.freed.lock().unwrap().len())
        }
    }

    fn engine(base: &OpenClEngine) -> (OpenClEngine, Log, MemoryKind) {
        let has = |kind| base.capabilities().memory_kinds.contains(&kind);
        let kind = if has(MemoryKind::UsmDevice) { MemoryKind::UsmDevice } else { MemoryKind::Svm };
        let log = Log::default();
        let (on_allocate, on_free, source) = (log.clone(), log.clone(), base.clone());
        let handles = (base.raw_device().addr(), base.raw_context().addr());
        let allocate = move |bytes, alignment: usize, device: *mut c_void, context: *mut c_void| {
            assert_eq!((device.addr(), context.addr()), handles);
            assert!(bytes > 0 && (alignment == 0 || alignment.is_power_of_two()));
            let block = source.create_memory(&MemoryDesc::new([bytes], DataType::U8), kind).unwrap();
            let pointer = block.raw_pointer();
            on_allocate.blocks.lock().unwrap().insert(pointer.addr(), block);
            on_allocate.allocated.lock().unwrap().push(bytes);
            pointer
        };
        let free = move |pointer: *mut c_void,
                         device: *mut c_void,
                         context: *mut c_void,
                         event: Option<*mut c_void>| {
            assert_eq!((device.addr(), context.addr()), handles);
            let status = event.map(|event| {
                let bytes = cl::get_event_data(event, cl::CL_EVENT_COMMAND_EXECUTION_STATUS).unwrap();
                i32::from_ne_bytes(bytes.try_into().unwrap())
            });
            assert!(on_free.blocks.lock().unwrap().remove(&pointer.addr()).is_some());
            on_free.freed.lock().unwrap().push(status);
        };
        // SAFETY: device memory of the context that lives until it is freed.
        let allocator = unsafe { UserAllocator::new(allocate, free) }.with_kind(kind);
        (base.with_allocator(allocator).unwrap(), log, kind)
    }

    #[test]
    fn a_graph_takes_its_temporaries_from_the_user_and_gives_them_back_when_they_are_done() {
        for base in test_engines() {
            let stream = base.create_stream(&StreamDesc::default()).unwrap();
            let plain = ready(&base, &stream);
            let done = plain.network.execute(&stream, &plain.inputs, &plain.outputs, &[]).unwrap();
            let expected = result(&stream, &plain.outputs[0].1, &done);
            for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
                let (engine, log, kind) = engine(&base);
                let stream = engine.create_stream(&desc).unwrap();
                let ready = ready(&engine, &stream);
                let before = log.counts();
                assert_eq!(before.0, before.1);
                let raw = cl::create_user_event(engine.raw_context()).unwrap();
                // SAFETY: a live event.
                let gate = unsafe { OpenClEvent::from_raw(&engine, raw) }.unwrap();
                let done = ready.network.execute(&stream, &ready.inputs, &ready.outputs, &[gate]).unwrap();
                let (allocated, freed) = log.counts();
                assert!(allocated > before.0, "{kind}: the temporaries came from elsewhere");
                assert_eq!(freed, before.1, "{kind}: freed while the graph waits");
                cl::set_user_event_status(raw, 0).unwrap();
                done.wait().unwrap();
                assert_eq!(log.counts(), (allocated, allocated), "{kind}");
                let statuses = log.freed.lock().unwrap().clone();
                assert!(
                    statuses.iter().all(|status| *status == Some(cl::CL_COMPLETE)),
                    "{kind}: on every kind of stream the event is a real one, and has ended: {statuses:?}"
                );
                assert_eq!(result(&stream, &ready.outputs[0].1, &done), expected, "{kind}");
                assert!(log.blocks.lock().unwrap().is_empty());
                assert_eq!(engine.allocator().stats().created, allocated);
                // SAFETY: the test's own reference.
                unsafe { cl::release_event(raw) }.unwrap();
            }
        }
    }

    #[test]
    fn a_failed_graph_gives_its_temporaries_back() {
        for base in test_engines() {
            let (engine, log, kind) = engine(&base);
            let stream = engine.create_stream(&StreamDesc::default()).unwrap();
            let ready = ready(&engine, &stream);
            let raw = cl::create_user_event(engine.raw_context()).unwrap();
            // SAFETY: a live event.
            let gate = unsafe { OpenClEvent::from_raw(&engine, raw) }.unwrap();
            // Fails while it is on its way.
            let executed =
                ready.network.execute(&stream, &ready.inputs, &ready.outputs, std::slice::from_ref(&gate));
            cl::set_user_event_status(raw, -7).unwrap();
            assert!(executed.unwrap().wait().is_err());
            stream.wait().unwrap_err();
            let (allocated, freed) = log.counts();
            assert!(allocated > 0 && allocated == freed, "{kind}: {allocated} and {freed}");
            // Fails before anything is enqueued.
            assert!(ready.network.execute(&stream, &ready.inputs, &ready.outputs, &[gate]).is_err());
            let (allocated, freed) = log.counts();
            assert_eq!(allocated, freed, "{kind}");
            let stats = engine.allocator().stats();
            assert_eq!((stats.in_use_bytes, stats.parked_bytes), (0, 0), "{kind}");
            // SAFETY: the test's own reference.
            unsafe { cl::release_event(raw) }.unwrap();
        }
    }

    /// A partition whose blocked input and constant are unpacked into temporaries, with a number of the host: all of it comes from the
    /// user, and goes back after the event.
    #[test]
    fn a_partition_takes_its_working_memory_from_the_user() {
        use anydnn::backend::HostScalar;
        use anydnn::graph::{LogicalTensor, Op, OpId, Property};
        use anydnn::partition::{Argument, OpenGraph, PartitionOptions};

        let tensor = |id| LogicalTensor::new(TensorId(id), DataType::F32, [3, 10]);
        let blocked = |id| {
            LogicalTensor::of(TensorId(id), &MemoryDesc::with_tag([3, 10], DataType::F32, "aB4b").unwrap())
        };
        let number = LogicalTensor::new(TensorId(2), DataType::F32, []).with_property(Property::HostScalar);
        let op = |id, kind, inputs: [u64; 2], output| Op {
            id: OpId(id),
            name: format!("op{id}"),
            kind,
            attrs: Attrs::new(),
            inputs: inputs.map(TensorId).to_vec(),
            outputs: vec![TensorId(output)],
        };
        let constant = blocked(1).with_property(Property::Constant);
        let mut graph = OpenGraph::new();
        let all = [tensor(0), tensor(1), number.clone(), tensor(3), tensor(4)];
        graph.add_op(op(0, OpKind::Add, [0, 1], 3), &all).unwrap();
        graph.add_op(op(1, OpKind::Multiply, [3, 2], 4), &all).unwrap();
        graph.finalize().unwrap();
        let partition = graph.partitions(anydnn::fusion::Policy::Fusion).unwrap().remove(0);
        for base in test_engines() {
            for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
                let (engine, log, kind) = engine(&base);
                let inputs = [blocked(0), constant.clone(), number.clone()];
                let compiled =
                    partition.compile(&engine, &inputs, &[tensor(4)], &PartitionOptions::default()).unwrap();
                let stream = engine.create_stream(&desc).unwrap();
                let memory = |id| {
                    let desc = compiled.memory_desc(TensorId(id)).unwrap();
                    let memory = engine.create_memory(desc, kind).unwrap();
                    let ones = 1_f32.to_le_bytes().repeat(desc.size() / 4);
                    stream.write(&memory, 0, &ones, &[]).unwrap().wait().unwrap();
                    memory
                };
                let (x, c, y) = (memory(0), memory(1), memory(4));
                let inputs = [
                    (TensorId(0), Argument::Memory(x)),
                    (TensorId(1), Argument::Memory(c)),
                    (TensorId(2), HostScalar::new(5.0_f32).into()),
                ];
                let before = log.counts();
                assert_eq!(before.0, before.1);
                let raw = cl::create_user_event(engine.raw_context()).unwrap();
                // SAFETY: a live event.
                let gate = unsafe { OpenClEvent::from_raw(&engine, raw) }.unwrap();
                let outputs = [(TensorId(4), y.clone())];
                let done = compiled.execute(&stream, &inputs, &outputs, None, &[gate]).unwrap();
                assert_eq!(log.counts(), (before.0 + 2, before.1), "{kind}: a scratchpad and the number");
                cl::set_user_event_status(raw, 0).unwrap();
                done.wait().unwrap();
                assert_eq!(log.counts(), (before.0 + 2, before.0 + 2), "{kind}");
                assert!(log.freed.lock().unwrap().iter().all(|status| *status == Some(cl::CL_COMPLETE)));
                let mut bytes = vec![0; 120];
                stream.read(&y, 0, &mut bytes, &[]).unwrap();
                assert_eq!(bytes, 10_f32.to_le_bytes().repeat(30), "{kind}");
                // Refused before anything is enqueued: nothing is kept.
                compiled.execute(&stream, &inputs, &[], None, &[]).unwrap_err();
                let (allocated, freed) = log.counts();
                assert_eq!(allocated, freed, "{kind}");
                assert!(log.blocks.lock().unwrap().is_empty());
                // SAFETY: the test's own reference.
                unsafe { cl::release_event(raw) }.unwrap();
            }
        }
    }
}

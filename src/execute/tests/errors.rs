//! Error paths of the executor on mocks of its collaborators: each test says every call that it allows, and in which order.

use std::sync::{Arc, Mutex};

use anydnn_backend::{DataType, Error, MemoryDesc, Primitive, Result, StreamDesc};
use anydnn_mock::{
    Mockall, MockallAllocator, MockallEngine, MockallEvent, MockallIdentity, MockallList, MockallMemory,
    MockallStream,
};
use mockall::Sequence;

use crate::compile::{CompileOptions, CompiledGraph};
use crate::execute::Executable;
use crate::fusion::Policy;
use crate::graph::{Attrs, Graph, GraphBuilder, OpKind, TensorId};
use crate::model::HostTensor;

/// The steps of [`chain`].
const STEPS: [&str; 3] = ["first", "middle", "last"];

/// Three operations, one behind the other, with two temporaries between them.
fn chain() -> Graph {
    let mut g = GraphBuilder::new();
    let x = g.input("x", DataType::F32, [4, 16]);
    let y = g.op(STEPS[0], OpKind::Tanh, &[x], Attrs::new()).unwrap();
    let y = g.op(STEPS[1], OpKind::SoftMax, &[y], Attrs::new().with("axis", 1_i64)).unwrap();
    g.op(STEPS[2], OpKind::Exp, &[y], Attrs::new()).unwrap();
    g.build().unwrap()
}

/// Two operations that know nothing of each other.
fn branches() -> Graph {
    let mut g = GraphBuilder::new();
    let x = g.input("x", DataType::F32, [4]);
    g.op("left", OpKind::Tanh, &[x], Attrs::new()).unwrap();
    g.op("right", OpKind::Exp, &[x], Attrs::new()).unwrap();
    g.build().unwrap()
}

/// A sum with a function of a constant, which is prepared when that is loaded.
fn with_constant() -> Graph {
    let mut g = GraphBuilder::new();
    let (x, w) = (g.input("x", DataType::F32, [4]), g.constant("w", DataType::F32, [4]));
    let prepared = g.op("once", OpKind::Tanh, &[w], Attrs::new()).unwrap();
    g.op("sum", OpKind::Add, &[x, prepared], Attrs::new()).unwrap();
    g.build().unwrap()
}

fn lost() -> Error {
    Error::DeviceLost("unplugged".into())
}

fn full(what: &str) -> Error {
    Error::OutOfMemory { what: what.into(), bytes: 1 << 40 }
}

/// An engine that makes primitives and memory, and has this allocator.
fn engine(identity: &MockallIdentity, allocator: MockallAllocator) -> MockallEngine {
    let mut engine = MockallEngine::new();
    let own = identity.clone();
    engine.expect_create_primitive().returning(move |desc| Ok(own.primitive(desc)));
    let own = identity.clone();
    engine.expect_create_memory().returning(move |desc, _| Ok(own.memory(desc)));
    let allocator = Arc::new(allocator);
    engine.expect_allocator().returning(move || Arc::clone(&allocator) as _);
    engine
}

fn without_lists(mut engine: MockallEngine) -> MockallEngine {
    engine.expect_ready().returning(|_, _| Ok(None));
    engine
}

fn compile(identity: &MockallIdentity, engine: MockallEngine, graph: &Graph) -> CompiledGraph<Mockall> {
    let options = CompileOptions { policy: Policy::Debug, ..CompileOptions::default() };
    CompiledGraph::new(graph, &identity.engine(engine), &options).unwrap()
}

/// A graph without constants, loaded. Nothing is enqueued for that.
fn load(identity: &MockallIdentity, engine: MockallEngine, graph: &Graph) -> Executable<Mockall> {
    let stream = identity.stream(MockallStream::new(), &StreamDesc::default());
    compile(identity, engine, graph).load(&stream, &[]).unwrap()
}

/// An allocator that is asked for the temporaries once.
fn allocates(identity: &MockallIdentity) -> MockallAllocator {
    let mut allocator = MockallIdentity::allocator();
    let own = identity.clone();
    allocator.expect_allocate().times(1).returning(move |bytes, _| {
        let desc = MemoryDesc::new([bytes], DataType::U8);
        Ok(own.memory(&desc))
    });
    allocator
}

type Bound = (TensorId, MockallMemory);

/// Memory for the inputs and the outputs.
fn ports(identity: &MockallIdentity, executable: &Executable<Mockall>) -> (Vec<Bound>, Vec<Bound>) {
    let compiled = executable.compiled();
    let (inputs, outputs) = (compiled.graph().inputs(), compiled.graph().outputs());
    let input = |&id: &TensorId| (id, identity.memory(compiled.input_desc(id).unwrap()));
    let output = |&id: &TensorId| (id, identity.memory(compiled.output_desc(id).unwrap()));
    (inputs.iter().map(input).collect(), outputs.iter().map(output).collect())
}

fn execute(
    identity: &MockallIdentity,
    executable: &Executable<Mockall>,
    stream: &MockallStream,
) -> Result<MockallEvent> {
    let (inputs, outputs) = ports(identity, executable);
    executable.execute(stream, &inputs, &outputs, &[])
}

/// An event that is waited for once, now.
fn waited(identity: &MockallIdentity, order: &mut Sequence, outcome: Result<()>) -> MockallEvent {
    let mut event = MockallEvent::new();
    event.expect_wait().times(1).in_sequence(order).return_once(move || outcome);
    identity.event(event)
}

/// An event that nobody asks for anything.
fn unasked(identity: &MockallIdentity) -> MockallEvent {
    identity.event(MockallEvent::new())
}

#[test]
fn a_primitive_that_cannot_be_made_is_named_and_nothing_else_is_asked_for() {
    for failing in STEPS {
        let identity = MockallIdentity::new();
        let mut engine = MockallEngine::new();
        let refused = || Err(Error::unsupported("exponentials", "no such unit"));
        engine
            .expect_create_primitive()
            .withf(move |desc| desc.name() == failing)
            .times(1)
            .returning(move |_| refused());
        let own = identity.clone();
        engine.expect_create_primitive().times(2).returning(move |desc| Ok(own.primitive(desc)));
        let options = CompileOptions { policy: Policy::Debug, ..CompileOptions::default() };
        let error = CompiledGraph::new(&chain(), &identity.engine(engine), &options).unwrap_err();
        assert_eq!(error.to_string(), format!("{failing}: exponentials: not supported: no such unit"));
        assert_eq!(identity.handles(), 0, "the other primitives went");
    }
}

#[test]
fn a_failing_step_is_named_and_temporaries_go_back_behind_those_before_it() {
    for stream_desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
        for (at, failing) in STEPS.iter().enumerate() {
            let identity = MockallIdentity::new();
            let (mut allocator, mut order) = (allocates(&identity), Sequence::new());
            let mut stream = MockallStream::new();
            for name in &STEPS[..at] {
                let event = waited(&identity, &mut order, Ok(()));
                stream
                    .expect_execute_validated()
                    .withf(move |primitive, _, _| primitive.desc().name() == *name)
                    .times(1)
                    .return_once(move |_, _, _| Ok(event));
            }
            // No expectation takes another step or a marker behind this one.
            stream.expect_execute_validated().times(1).returning(|_, _, _| Err(lost()));
            allocator
                .expect_free()
                .withf(|_, after| after.is_none())
                .times(1)
                .in_sequence(&mut order)
                .returning(|_, _| Ok(()));
            let executable = load(&identity, without_lists(engine(&identity, allocator)), &chain());
            // The events before the failure are there already.
            let before = identity.handles() - at;
            let stream = identity.stream(stream, &stream_desc);
            let error = execute(&identity, &executable, &stream).unwrap_err();
            assert_eq!(error.to_string(), format!("{failing}: device lost: unplugged"));
            drop(stream);
            assert_eq!(identity.handles(), before, "{failing} leaves nothing");
        }
    }
}

#[test]
fn temporaries_that_are_refused_leave_the_stream_alone() {
    let identity = MockallIdentity::new();
    let mut allocator = MockallIdentity::allocator();
    allocator.expect_allocate().times(2).returning(|_, _| Err(full("a buffer")));
    let executable = load(&identity, without_lists(engine(&identity, allocator)), &chain());
    let before = identity.handles();
    let stream = identity.stream(MockallStream::new(), &StreamDesc::default());
    let error = execute(&identity, &executable, &stream).unwrap_err();
    assert_eq!(error.to_string(), "temporaries: out of memory: a buffer (1099511627776 bytes)");
    let (inputs, outputs) = ports(&identity, &executable);
    let error = executable.record(&stream, &inputs, &outputs).unwrap_err();
    assert!(error.to_string().starts_with("temporaries: out of memory"), "{error}");
    drop((inputs, outputs));
    assert_eq!(identity.handles(), before);
}

#[test]
fn what_failed_first_is_told_where_giving_back_fails_too() {
    let identity = MockallIdentity::new();
    let mut allocator = allocates(&identity);
    allocator.expect_free().times(1).returning(|_, _| Err(full("a list of what is free")));
    let mut stream = MockallStream::new();
    stream.expect_execute_validated().times(1).returning(|_, _, _| Err(lost()));
    let executable = load(&identity, without_lists(engine(&identity, allocator)), &chain());
    let stream = identity.stream(stream, &StreamDesc::default());
    let error = execute(&identity, &executable, &stream).unwrap_err();
    assert_eq!(error.to_string(), "first: device lost: unplugged");
}

/// The commands of an execution whose event nobody gets have ended when its error is told.
#[test]
fn nothing_runs_on_behind_temporaries_that_were_not_taken_back() {
    let identity = MockallIdentity::new();
    let (mut allocator, mut order) = (allocates(&identity), Sequence::new());
    allocator
        .expect_free()
        .withf(|_, after| after.is_some())
        .times(1)
        .in_sequence(&mut order)
        .returning(|_, _| Err(full("a list of what is free")));
    let last = waited(&identity, &mut order, Ok(()));
    let mut stream = MockallStream::new();
    let others = identity.clone();
    stream.expect_execute_validated().times(2).returning(move |_, _, _| Ok(unasked(&others)));
    stream.expect_execute_validated().times(1).return_once(move |_, _, _| Ok(last));
    let executable = load(&identity, without_lists(engine(&identity, allocator)), &chain());
    let stream = identity.stream(stream, &StreamDesc::default());
    let error = execute(&identity, &executable, &stream).unwrap_err();
    assert!(error.to_string().contains("a list of what is free"), "{error}");
}

#[test]
fn a_marker_that_fails_is_told_behind_all_that_it_was_to_join() {
    let identity = MockallIdentity::new();
    let mut order = Sequence::new();
    let mut stream = MockallStream::new();
    for _ in 0..2 {
        let event = waited(&identity, &mut order, Ok(()));
        stream.expect_execute_validated().times(1).return_once(move |_, _, _| Ok(event));
    }
    stream.expect_marker().withf(|deps| deps.len() == 2).times(1).returning(|_| Err(lost()));
    let engine = engine(&identity, MockallIdentity::allocator());
    let executable = load(&identity, without_lists(engine), &branches());
    // Without both events.
    let before = identity.handles() - 2;
    let stream = identity.stream(stream, &StreamDesc::out_of_order());
    let error = execute(&identity, &executable, &stream).unwrap_err();
    assert!(matches!(error.root(), Error::DeviceLost(_)), "{error}");
    drop(stream);
    assert_eq!(identity.handles(), before);
}

#[test]
fn a_list_that_fails_is_kept_and_its_temporaries_go_back() {
    let identity = MockallIdentity::new();
    let mut allocator = MockallIdentity::allocator();
    let own = identity.clone();
    let memory = move |bytes| own.memory(&MemoryDesc::new([bytes], DataType::U8));
    allocator.expect_allocate().times(2).returning(move |bytes, _| Ok(memory(bytes)));
    let mut order = Sequence::new();
    for fails in [true, false] {
        let freed = allocator.expect_free().withf(move |_, after| after.is_none() == fails);
        freed.times(1).in_sequence(&mut order).returning(|_, _| Ok(()));
    }
    let mut list = MockallList::new();
    list.expect_enqueue().times(1).returning(|_, _, _| Err(lost().at("middle")));
    let done = unasked(&identity);
    list.expect_enqueue().times(1).return_once(move |_, _, _| Ok(done));
    let mut engine = engine(&identity, allocator);
    // A list that were lost would have to be readied again.
    engine.expect_ready().times(1).return_once(move |steps, _| {
        assert_eq!(steps.len(), STEPS.len());
        Ok(Some(Box::new(list)))
    });
    let executable = load(&identity, engine, &chain());
    let stream = identity.stream(MockallStream::new(), &StreamDesc::default());
    let error = execute(&identity, &executable, &stream).unwrap_err();
    assert_eq!(error.to_string(), "middle: device lost: unplugged");
    execute(&identity, &executable, &stream).unwrap();
}

#[test]
fn a_list_survives_a_recording_without_temporaries() {
    let identity = MockallIdentity::new();
    let mut allocator = MockallIdentity::allocator();
    allocator.expect_allocate().times(2).returning(|_, _| Err(full("a buffer")));
    let mut engine = engine(&identity, allocator);
    engine.expect_ready().times(1).return_once(|_, _| Ok(Some(Box::new(MockallList::new()))));
    let executable = load(&identity, engine, &chain());
    let stream = identity.stream(MockallStream::new(), &StreamDesc::default());
    let (inputs, outputs) = ports(&identity, &executable);
    for _ in 0..2 {
        let error = executable.record(&stream, &inputs, &outputs).unwrap_err();
        assert!(error.to_string().starts_with("temporaries: out of memory"), "{error}");
    }
}

#[test]
fn steps_that_cannot_be_readied_take_and_enqueue_nothing() {
    let identity = MockallIdentity::new();
    let mut engine = engine(&identity, MockallIdentity::allocator());
    engine.expect_ready().times(1).returning(|_, _| Err(lost()));
    let executable = load(&identity, engine, &chain());
    let stream = identity.stream(MockallStream::new(), &StreamDesc::default());
    assert!(matches!(execute(&identity, &executable, &stream), Err(Error::DeviceLost(_))));
}

#[test]
fn a_replay_that_fails_in_the_middle_waits_and_the_next_one_is_whole() {
    let identity = MockallIdentity::new();
    let (mut allocator, mut order) = (allocates(&identity), Sequence::new());
    let mut stream = MockallStream::new();
    let first = waited(&identity, &mut order, Ok(()));
    stream.expect_execute_validated().times(1).return_once(move |_, _, _| Ok(first));
    stream.expect_execute_validated().times(1).returning(|_, _, _| Err(lost()));
    let others = identity.clone();
    stream.expect_execute_validated().times(3).returning(move |_, _, _| Ok(unasked(&others)));
    allocator.expect_free().withf(|_, after| after.is_some()).times(1).returning(|_, _| Ok(()));
    let executable = load(&identity, without_lists(engine(&identity, allocator)), &chain());
    // Without the event.
    let before = identity.handles() - 1;
    let stream = identity.stream(stream, &StreamDesc::default());
    let (inputs, outputs) = ports(&identity, &executable);
    let recording = executable.record(&stream, &inputs, &outputs).unwrap();
    let error = recording.replay(&[]).unwrap_err();
    assert_eq!(error.to_string(), "middle: device lost: unplugged");
    recording.replay(&[]).unwrap();
    drop((recording, inputs, outputs, stream));
    assert_eq!(identity.handles(), before);
}

/// The memory of a constant and of what follows from it goes when its preparation fails, be it at once or later.
#[test]
fn a_constant_whose_preparation_fails_is_let_go() {
    for is_late in [false, true] {
        let identity = MockallIdentity::new();
        let mut stream = MockallStream::new();
        let made = identity.clone();
        stream.expect_execute_validated().times(1).returning(move |primitive, _, _| {
            assert_eq!(primitive.desc().name(), "once");
            if !is_late {
                return Err(lost());
            }
            let mut event = MockallEvent::new();
            event.expect_wait().times(1..).returning(|| Err(lost()));
            Ok(made.event(event))
        });
        let stream = identity.stream(stream, &StreamDesc::default());
        let engine = engine(&identity, MockallIdentity::allocator());
        let compiled = compile(&identity, engine, &with_constant());
        let before = identity.handles();
        let constant = compiled.graph().constants().next().unwrap().id;
        let memory = identity.memory(compiled.input_desc(constant).unwrap());
        let error = compiled.load(&stream, &[(constant, memory)]).unwrap_err();
        assert!(matches!(error.root(), Error::DeviceLost(_)), "{error}");
        assert_eq!(error.to_string().starts_with("once: "), !is_late, "{error}");
        drop(stream);
        assert_eq!(identity.handles(), before);
    }
}

#[test]
fn memory_that_is_refused_for_what_constants_become_enqueues_nothing() {
    let identity = MockallIdentity::new();
    let mut engine = MockallEngine::new();
    let own = identity.clone();
    engine.expect_create_primitive().returning(move |desc| Ok(own.primitive(desc)));
    engine.expect_allocator().returning(|| Arc::new(MockallIdentity::allocator()));
    engine.expect_create_memory().times(1).returning(|desc, _| Err(full(desc.label().unwrap())));
    let compiled = compile(&identity, engine, &with_constant());
    let constant = compiled.graph().constants().next().unwrap().id;
    let memory = identity.memory(compiled.input_desc(constant).unwrap());
    let stream = identity.stream(MockallStream::new(), &StreamDesc::default());
    let error = compiled.load(&stream, &[(constant, memory)]).unwrap_err();
    assert!(error.to_string().contains("prepared constant"), "{error}");
}

/// Tensors of the host: what fails on the way there or back ends the run where it is.
#[test]
fn a_run_on_the_hosts_tensors_ends_where_it_fails() {
    for failing in ["write", "written", "read"] {
        let identity = MockallIdentity::new();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let note = |calls: &Arc<Mutex<Vec<&'static str>>>, call| calls.lock().unwrap().push(call);
        let event = |outcome: Result<()>| {
            let mut event = MockallEvent::new();
            event.expect_wait().returning(move || outcome.clone());
            identity.event(event)
        };
        let mut stream = MockallStream::new();
        let seen = Arc::clone(&calls);
        let written = event(if failing == "written" { Err(lost()) } else { Ok(()) });
        stream.expect_write().times(1).return_once(move |_, _, _, _| {
            note(&seen, "write");
            if failing == "write" { Err(lost()) } else { Ok(written) }
        });
        let (seen, done) = (Arc::clone(&calls), event(Ok(())));
        stream.expect_execute_validated().returning(move |_, _, _| {
            note(&seen, "execute");
            Ok(done.clone())
        });
        let seen = Arc::clone(&calls);
        stream.expect_read().returning(move |_, _, _, _| {
            note(&seen, "read");
            Err(lost())
        });
        let mut allocator = MockallIdentity::allocator();
        let own = identity.clone();
        let memory = move |bytes| own.memory(&MemoryDesc::new([bytes], DataType::U8));
        allocator.expect_allocate().returning(move |bytes, _| Ok(memory(bytes)));
        allocator.expect_free().returning(|_, _| Ok(()));
        let executable = load(&identity, without_lists(engine(&identity, allocator)), &chain());
        // Without both events.
        let before = identity.handles() - 2;
        let stream = identity.stream(stream, &StreamDesc::default());
        let x = executable.compiled().graph().inputs()[0];
        let given = HostTensor::zeros([4, 16], DataType::F32).unwrap();
        assert!(matches!(executable.run(&stream, &[(x, given)]), Err(Error::DeviceLost(_))));
        let expected: &[&str] = match failing {
            "read" => &["write", "execute", "execute", "execute", "read"],
            _ => &["write"],
        };
        assert_eq!(*calls.lock().unwrap(), expected);
        drop(stream);
        assert_eq!(identity.handles(), before, "{failing}");
    }
}

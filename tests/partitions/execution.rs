//! Arguments, working memory, in-place execution, numbers of the host.

use anydnn::backend::{
    DataType, Engine, Error, Event, HostScalar, MemoryDesc, MemoryKind, Status, Stream, StreamDesc,
};
use anydnn::fusion::Policy;
use anydnn::graph::{LogicalTensor, OpKind, Property};
use anydnn::partition::{Argument, CompiledPartition};

use crate::common::{
    arg, compile, default_kind, graph, lt, memory, op, port, read, single, stream, streams, t,
};

crate::everywhere!(
    elementwise_work_is_in_place,
    working_memory_is_the_users_or_the_allocators,
    numbers_are_copied,
    wrong_arguments_are_refused,
);

fn elementwise_work_is_in_place<E: Engine>(engine: &E) {
    let all = [lt(0, [4, 6]), lt(1, [4, 6]), lt(2, [4, 6]), lt(3, [6])];
    let relu = compile(engine, &single(op(0, OpKind::ReLU, &[0], &[2]), &all), &all[..1], &all[2..3]);
    let add = compile(engine, &single(op(0, OpKind::Add, &[3, 1], &[2]), &all), &all, &all[2..3]);
    let twice = compile(engine, &single(op(0, OpKind::Add, &[0, 0], &[2]), &all), &all, &all[2..3]);
    let square = [lt(0, [4, 4]), lt(1, [4, 4])];
    let product = compile(engine, &single(op(0, OpKind::MatMul, &[0, 0], &[1]), &square), &square, &square);
    assert_eq!(relu.in_place_pairs(), [(t(0), t(2))]);
    assert_eq!(add.in_place_pairs(), [(t(1), t(2))], "the other one is stretched");
    assert_eq!(twice.in_place_pairs(), [], "read twice");
    assert_eq!(product.in_place_pairs(), []);

    for stream in streams(engine) {
        let x = port(engine, &add, 1, |i| i as f32);
        let row = port(engine, &add, 3, |i| 10.0 * i as f32);
        let done =
            add.execute(&stream, &[arg(1, &x), arg(3, &row)], &[(t(2), x.clone())], None, &[]).unwrap();
        let done = relu.execute(&stream, &[arg(0, &x)], &[(t(2), x.clone())], None, &[done]).unwrap();
        let expected: Vec<f32> = (0..24).map(|i| (i + 10 * (i % 6)) as f32).collect();
        assert_eq!(read(engine, &x, &done), expected);
    }
    // A residual, taken up by the product behind which it is added.
    let all = [lt(0, [4, 5]), lt(1, [5, 6]), lt(2, [4, 6]), lt(3, [4, 6]), lt(4, [4, 6])];
    let ops = [op(0, OpKind::MatMul, &[0, 1], &[2]), op(1, OpKind::Add, &[3, 2], &[4])];
    let chain = graph(&ops, &all).partitions(Policy::Fusion).unwrap();
    assert_eq!(chain.len(), 1);
    let residual = compile(engine, &chain[0], &all, &all[4..]);
    assert_eq!((residual.steps().len(), residual.in_place_pairs()), (1, &[(t(3), t(4))][..]));
    for stream in streams(engine) {
        let (a, b) = (port(engine, &residual, 0, |_| 1.0), port(engine, &residual, 1, |i| (i % 6) as f32));
        let x = port(engine, &residual, 3, |i| 100.0 * i as f32);
        let inputs = [arg(0, &a), arg(1, &b), arg(3, &x)];
        let done = residual.execute(&stream, &inputs, &[(t(4), x.clone())], None, &[]).unwrap();
        let expected: Vec<f32> = (0..24).map(|i| (100 * i + 5 * (i % 6)) as f32).collect();
        assert_eq!(read(engine, &x, &done), expected);
    }
    // Half of it is not all of it.
    let kind = default_kind(engine);
    let wide = memory(engine, &MemoryDesc::new([5, 6], DataType::F32), kind, |_| 1.0);
    let part = |row: usize| {
        anydnn::backend::Memory::view(&wide, &MemoryDesc::new([4, 6], DataType::F32), row * 24).unwrap()
    };
    let error =
        relu.execute(&stream(engine), &[arg(0, &part(0))], &[(t(2), part(1))], None, &[]).unwrap_err();
    assert!(error.to_string().contains("sharing bytes"), "{error}");
    let square = port(engine, &product, 0, |_| 1.0);
    product.execute(&stream(engine), &[arg(0, &square)], &[(t(1), square.clone())], None, &[]).unwrap_err();
}

/// An addition of a blocked tensor, which is unpacked into working memory.
fn unpacking<E: Engine>(engine: &E) -> CompiledPartition<E::B> {
    let blocked = LogicalTensor::of(t(0), &MemoryDesc::with_tag([3, 10], DataType::F32, "aB4b").unwrap());
    let all = [lt(0, [3, 10]), lt(1, [3, 10]), lt(2, [3, 10])];
    let partition = single(op(0, OpKind::Add, &[0, 1], &[2]), &all);
    compile(engine, &partition, &[blocked, all[1].clone()], &all[2..])
}

fn working_memory_is_the_users_or_the_allocators<E: Engine>(engine: &E) {
    let compiled = unpacking(engine);
    let bytes = compiled.scratchpad_size();
    assert!(bytes >= 120, "{bytes}");
    let kind = default_kind(engine);
    let scratchpad = |bytes| engine.create_memory(&MemoryDesc::new([bytes], DataType::U8), kind).unwrap();
    let (given, small) = (scratchpad(bytes), scratchpad(bytes - 1));
    let (a, b) = (port(engine, &compiled, 0, |i| i as f32), port(engine, &compiled, 1, |_| 100.0));
    let inputs = [arg(0, &a), arg(1, &b)];
    let expected: Vec<f32> = (0..30).map(|i| (i + 100) as f32).collect();
    let allocator = engine.allocator();
    for stream in streams(engine) {
        let target = port(engine, &compiled, 2, |_| 0.0);
        let outputs = [(t(2), target.clone())];
        let requests = || allocator.stats().created + allocator.stats().reused;
        let before = requests();
        let done = compiled.execute(&stream, &inputs, &outputs, Some(&given), &[]).unwrap();
        assert_eq!(read(engine, &target, &done), expected);
        assert_eq!(requests(), before, "nothing but the user's memory");
        let done = compiled.execute(&stream, &inputs, &outputs, None, &[]).unwrap();
        assert_eq!(read(engine, &target, &done), expected);
        assert_eq!(requests(), before + 1);
        stream.wait().unwrap();
        assert_eq!(allocator.stats().in_use_bytes, 0);
        for wrong in [&small, &target] {
            let error = compiled.execute(&stream, &inputs, &outputs, Some(wrong), &[]).unwrap_err();
            assert!(error.to_string().contains("scratchpad"), "{error}");
        }
        assert_eq!(allocator.stats().in_use_bytes, 0);
    }
}

fn numbers_are_copied<E: Engine>(engine: &E) {
    let scalar = LogicalTensor::new(t(1), DataType::F32, []).with_property(Property::HostScalar);
    let all = [lt(0, [2, 3]), scalar, lt(2, [2, 3])];
    let partition = single(op(0, OpKind::Multiply, &[0, 1], &[2]), &all);
    let compiled = compile(engine, &partition, &all[..2], &all[2..]);
    assert_eq!(compiled.inputs()[1].property, Property::HostScalar);
    for stream in streams(engine) {
        let x = port(engine, &compiled, 0, |i| i as f32);
        let targets = [2.0_f32, -3.0].map(|factor| {
            let y = port(engine, &compiled, 2, |_| 0.0);
            // Goes out of scope before the work is waited for.
            let mut number = HostScalar::new(factor);
            let inputs = [arg(0, &x), (t(1), Argument::from(number))];
            let done = compiled.execute(&stream, &inputs, &[(t(2), y.clone())], None, &[]).unwrap();
            number.set(99.0_f32).unwrap();
            (factor, y, done)
        });
        for (factor, y, done) in targets {
            let expected: Vec<f32> = (0..6).map(|i| i as f32 * factor).collect();
            assert_eq!(read(engine, &y, &done), expected);
        }
        stream.wait().unwrap();
        assert_eq!(engine.allocator().stats().in_use_bytes, 0);
        let (y, number) = (port(engine, &compiled, 2, |_| 0.0), HostScalar::new(1_i32));
        for inputs in [
            [arg(0, &x), (t(1), Argument::from(number))],
            [(t(0), HostScalar::new(1.0_f32).into()), (t(1), HostScalar::new(1.0_f32).into())],
        ] {
            let error = compiled.execute(&stream, &inputs, &[(t(2), y.clone())], None, &[]).unwrap_err();
            assert_eq!(error.status(), Status::InvalidArguments, "{error}");
        }
    }
}

fn wrong_arguments_are_refused<E: Engine>(engine: &E) {
    let all = [lt(0, [2, 3]), lt(1, [2, 3]), lt(2, [2, 3])];
    let compiled = compile(engine, &single(op(0, OpKind::Add, &[0, 1], &[2]), &all), &all[..2], &all[2..]);
    let make = |id| port(engine, &compiled, id, |_| 0.0);
    let (a, b, y) = (make(0), make(1), make(2));
    let stream = stream(engine);
    let other = memory(engine, &MemoryDesc::new([3, 2], DataType::F32), default_kind(engine), |_| 0.0);
    let fails = |inputs: &[_], outputs: &[_], word: &str| {
        let error = compiled.execute(&stream, inputs, outputs, None, &[]).unwrap_err();
        assert!(matches!(error.root(), Error::Invalid(_)) && error.to_string().contains(word), "{error}");
    };
    let right = [(t(2), y.clone())];
    fails(&[arg(0, &a)], &right, "without t1");
    fails(&[arg(0, &a), arg(1, &b), arg(5, &b)], &right, "with t5");
    fails(&[arg(0, &a), arg(1, &b), arg(1, &b)], &right, "twice");
    fails(&[arg(0, &a), arg(1, &other)], &right, "3x2");
    fails(&[arg(0, &a), arg(1, &b)], &[], "without t2");
    fails(&[arg(0, &a), arg(1, &b)], &[(t(2), b.clone())], "sharing bytes");
    assert!(compiled.logical_tensor(t(7)).is_none());
}

/// The same partition with its tensors in every kind of memory that a device has.
#[cfg(feature = "opencl")]
#[test]
fn every_kind_of_memory_works() {
    for engine in anydnn_opencl::testing::test_engines() {
        let compiled = unpacking(&engine);
        let kinds = engine.capabilities().memory_kinds.clone();
        assert!(
            kinds.contains(&MemoryKind::Buffer) && kinds.iter().any(|kind| kind.is_pointer()),
            "{kinds:?}"
        );
        let expected: Vec<f32> = (0..30).map(|i| (i + 100) as f32).collect();
        for stream in streams(&engine) {
            for (i, &kind) in kinds.iter().enumerate() {
                let make = |id, kind, value: fn(usize) -> f32| {
                    memory(&engine, compiled.memory_desc(t(id)).unwrap(), kind, value)
                };
                let (a, b) = (make(0, kind, |i| i as f32), make(1, kind, |_| 100.0));
                // All of one kind, then mixed.
                for kind in [kind, kinds[(i + 1) % kinds.len()]] {
                    let y = make(2, kind, |_| 0.0);
                    let scratchpad = memory(
                        &engine,
                        &MemoryDesc::new([compiled.scratchpad_size()], DataType::F32),
                        kind,
                        |_| 0.0,
                    );
                    for scratchpad in [None, Some(&scratchpad)] {
                        let inputs = [arg(0, &a), arg(1, &b)];
                        let done = compiled
                            .execute(&stream, &inputs, &[(t(2), y.clone())], scratchpad, &[])
                            .unwrap();
                        assert_eq!(read(&engine, &y, &done), expected, "{kind}");
                    }
                }
            }
        }
    }
}

/// Numbers of the host do not wait for what an execution waits for: that may be up to this thread.
#[cfg(feature = "opencl")]
#[test]
fn an_execution_with_numbers_does_not_block() {
    use anydnn_opencl::OpenClEvent;

    for engine in anydnn_opencl::testing::test_engines() {
        let scalar = LogicalTensor::new(t(1), DataType::F32, []).with_property(Property::HostScalar);
        let all = [lt(0, [2, 3]), scalar, lt(2, [2, 3])];
        let partition = single(op(0, OpKind::Multiply, &[0, 1], &[2]), &all);
        let compiled = compile(&engine, &partition, &all[..2], &all[2..]);
        for desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
            let stream = engine.create_stream(&desc).unwrap();
            let raw = cl3::event::create_user_event(engine.raw_context()).unwrap();
            // SAFETY: a live event.
            let gate = unsafe { OpenClEvent::from_raw(&engine, raw) }.unwrap();
            let (x, y) = (port(&engine, &compiled, 0, |_| 3.0), port(&engine, &compiled, 2, |_| 0.0));
            let mut last = gate;
            for factor in [5.0_f32, 2.0] {
                let inputs = [arg(0, &x), (t(1), HostScalar::new(factor).into())];
                last = compiled.execute(&stream, &inputs, &[(t(2), y.clone())], None, &[last]).unwrap();
            }
            assert!(engine.allocator().stats().in_use_bytes + engine.allocator().stats().parked_bytes > 0);
            cl3::event::set_user_event_status(raw, 0).unwrap();
            assert_eq!(read(&engine, &y, &last), [6.0; 6]);
            last.wait().unwrap();
            // SAFETY: the test's own reference.
            unsafe { cl3::event::release_event(raw) }.unwrap();
        }
    }
}

//! Error paths of compiled partitions on mocks of their collaborators: each test says every call that it allows.

use std::sync::Arc;

use anydnn::backend::{
    Arg, DataType, Error, HostScalar, MapMode, Mapping, MemoryDesc, Primitive, Result, StreamDesc,
};
use anydnn::graph::{LogicalTensor, OpKind, Property, TensorId};
use anydnn::partition::{
    Argument, CompiledPartition, ConstantCache, Partition, PartitionCache, PartitionOptions,
};
use anydnn_mock::{
    Mockall, MockallAllocator, MockallEngine, MockallEvent, MockallIdentity, MockallMemory, MockallStream,
};
use mockall::Sequence;

use crate::common::{constant, lt, op, single, t};

fn lost() -> Error {
    Error::DeviceLost("unplugged".into())
}

/// A sum with a blocked tensor, which a step of its own unpacks into working memory.
fn sum_of_blocks() -> (Partition, [LogicalTensor; 3]) {
    let all = [lt(0, [3, 10]), lt(1, [3, 10]), lt(2, [3, 10])];
    let partition = single(op(0, OpKind::Add, &[0, 1], &[2]), &all);
    let blocks = MemoryDesc::with_tag([3, 10], DataType::F32, "aB4b").unwrap();
    let [_, other, sum] = all;
    (partition, [LogicalTensor::of(t(0), &blocks), other, sum])
}

/// The names of the steps of [`sum_of_blocks`].
fn steps() -> [String; 2] {
    let (partition, all) = sum_of_blocks();
    let identity = MockallIdentity::new();
    let compiled = compile(&partition, &engine(&identity, MockallIdentity::allocator()), &all);
    let names: Vec<String> = compiled.steps().iter().map(|step| step.name.clone()).collect();
    names.try_into().unwrap()
}

fn compile(
    partition: &Partition,
    engine: &MockallEngine,
    all: &[LogicalTensor; 3],
) -> CompiledPartition<Mockall> {
    partition.compile(engine, &all[..2], &all[2..], &PartitionOptions::default()).unwrap()
}

/// An engine that makes primitives and memory, has this allocator and readies nothing.
fn engine(identity: &MockallIdentity, allocator: MockallAllocator) -> MockallEngine {
    let mut engine = MockallEngine::new();
    let own = identity.clone();
    engine.expect_create_primitive().returning(move |desc| Ok(own.primitive(desc)));
    let own = identity.clone();
    engine.expect_create_memory().returning(move |desc, _| Ok(own.memory(desc)));
    let allocator = Arc::new(allocator);
    engine.expect_allocator().returning(move || Arc::clone(&allocator) as _);
    engine.expect_ready().returning(|_, _| Ok(None));
    identity.engine(engine)
}

fn bytes(identity: &MockallIdentity, count: usize) -> MockallMemory {
    identity.memory(&MemoryDesc::new([count], DataType::U8))
}

fn memory(identity: &MockallIdentity, compiled: &CompiledPartition<Mockall>, id: TensorId) -> MockallMemory {
    identity.memory(compiled.memory_desc(id).unwrap())
}

/// Executes on new memory for everything.
fn execute(
    identity: &MockallIdentity,
    compiled: &CompiledPartition<Mockall>,
    stream: &MockallStream,
) -> Result<MockallEvent> {
    let input = |tensor: &LogicalTensor| (tensor.id, Argument::Memory(memory(identity, compiled, tensor.id)));
    let inputs: Vec<_> = compiled.inputs().iter().map(input).collect();
    let outputs: Vec<_> =
        compiled.outputs().iter().map(|tensor| (tensor.id, memory(identity, compiled, tensor.id))).collect();
    compiled.execute(stream, &inputs, &outputs, None, &[])
}

#[test]
fn a_primitive_that_cannot_be_made_is_named_and_not_remembered() {
    let (partition, all) = sum_of_blocks();
    for failing in steps() {
        let identity = MockallIdentity::new();
        let mut mock = MockallEngine::new();
        let (own, name, mut refused) = (identity.clone(), failing.clone(), false);
        mock.expect_create_primitive().times(4).returning(move |desc| {
            if desc.name() == name && !std::mem::replace(&mut refused, true) {
                return Err(Error::unsupported("products", "no such unit"));
            }
            Ok(own.primitive(desc))
        });
        mock.expect_allocator().returning(|| Arc::new(MockallIdentity::allocator()));
        let engine = identity.engine(mock);
        let cache = PartitionCache::new(8);
        let options = PartitionOptions { cache: Some(cache.clone()), ..PartitionOptions::default() };
        let compile = || partition.compile(&engine, &all[..2], &all[2..], &options);
        let error = compile().unwrap_err();
        assert!(error.to_string().contains(&format!("{failing}: products: not supported")), "{error}");
        assert_eq!(identity.handles(), 0, "the other primitive went");
        assert!(!compile().unwrap().was_cached());
    }
}

#[test]
fn a_failing_step_is_named_and_the_scratchpad_goes_back_behind_those_before_it() {
    let (partition, all) = sum_of_blocks();
    for stream_desc in [StreamDesc::default(), StreamDesc::out_of_order()] {
        for (at, failing) in steps().into_iter().enumerate() {
            let identity = MockallIdentity::new();
            let (mut stream, mut allocator) = (MockallStream::new(), MockallIdentity::allocator());
            let own = identity.clone();
            allocator.expect_allocate().times(1).returning(move |count, _| Ok(bytes(&own, count)));
            let mut order = Sequence::new();
            for _ in 0..at {
                let mut event = MockallEvent::new();
                event.expect_wait().times(1).in_sequence(&mut order).returning(|| Ok(()));
                let event = identity.event(event);
                stream.expect_execute_validated().times(1).return_once(move |_, _, _| Ok(event));
            }
            // No expectation takes another step behind this one.
            let name = failing.clone();
            stream
                .expect_execute_validated()
                .withf(move |primitive, _, _| primitive.desc().name() == name)
                .times(1)
                .returning(|_, _, _| Err(lost()));
            let freed = allocator.expect_free().withf(|_, after| after.is_none());
            freed.times(1).in_sequence(&mut order).returning(|_, _| Ok(()));
            let engine = engine(&identity, allocator);
            let compiled = compile(&partition, &engine, &all);
            // The events before the failure are there already.
            let before = identity.handles() - at;
            let stream = identity.stream(stream, &stream_desc);
            let error = execute(&identity, &compiled, &stream).unwrap_err();
            assert_eq!(error.to_string(), format!("{failing}: device lost: unplugged"));
            drop(stream);
            assert_eq!(identity.handles(), before, "{failing} leaves nothing");
        }
    }
}

#[test]
fn what_failed_first_is_told_where_giving_back_fails_too() {
    let (partition, all) = sum_of_blocks();
    let identity = MockallIdentity::new();
    let (mut stream, mut allocator) = (MockallStream::new(), MockallIdentity::allocator());
    let own = identity.clone();
    allocator.expect_allocate().times(1).returning(move |count, _| Ok(bytes(&own, count)));
    allocator.expect_free().times(1).returning(|_, _| Err(Error::io("ledger", "full")));
    stream.expect_execute_validated().times(1).returning(|_, _, _| Err(lost()));
    let engine = engine(&identity, allocator);
    let compiled = compile(&partition, &engine, &all);
    let stream = identity.stream(stream, &StreamDesc::default());
    let error = execute(&identity, &compiled, &stream).unwrap_err();
    assert_eq!(error.to_string(), format!("{}: device lost: unplugged", steps()[0]));
}

/// Bytes of the host that pose as mapped memory.
#[derive(Debug)]
struct Mapped(Vec<u8>);

impl Mapping for Mapped {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn unmap(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Memory that was taken for numbers of the host goes back, whatever is refused behind it.
#[test]
fn memory_for_numbers_goes_back_where_the_rest_is_refused() {
    let scalar = LogicalTensor::new(t(1), DataType::F32, []).with_property(Property::HostScalar);
    let all = [lt(0, [2, 3]), scalar, lt(2, [2, 3])];
    let partition = single(op(0, OpKind::Multiply, &[0, 1], &[2]), &all);
    for failing in ["host scalars", "mapping", "output"] {
        let identity = MockallIdentity::new();
        let mut allocator = MockallIdentity::allocator();
        let own = identity.clone();
        allocator.expect_allocate().times(1).returning(move |count, _| {
            if failing == "host scalars" {
                return Err(Error::OutOfMemory { what: "a buffer".into(), bytes: count });
            }
            let mut memory = bytes(&own, count);
            memory.expect_map().times(1).returning(move |mode| {
                assert_eq!(mode, MapMode::Write);
                if failing == "mapping" { Err(lost()) } else { Ok(Box::new(Mapped(vec![0; count]))) }
            });
            Ok(memory)
        });
        let taken = usize::from(failing != "host scalars");
        allocator.expect_free().withf(|_, after| after.is_none()).times(taken).returning(|_, _| Ok(()));
        let engine = engine(&identity, allocator);
        let compiled = compile(&partition, &engine, &all);
        let before = identity.handles();
        // Nothing at all is enqueued.
        let stream = identity.stream(MockallStream::new(), &StreamDesc::default());
        // An output in the same bytes, from another place on, is found wrong when the numbers are there.
        let whole = identity.memory(&MemoryDesc::new([3, 3], DataType::F32));
        let part = |row: usize| {
            anydnn::backend::Memory::view(&whole, &MemoryDesc::new([2, 3], DataType::F32), 12 * row).unwrap()
        };
        let apart = |id| memory(&identity, &compiled, t(id));
        let (input, output) = if failing == "output" { (part(0), part(1)) } else { (apart(0), apart(2)) };
        let inputs = [(t(0), Argument::Memory(input)), (t(1), HostScalar::from(2.5_f32).into())];
        let outputs = [(t(2), output)];
        let error = compiled.execute(&stream, &inputs, &outputs, None, &[]).unwrap_err().to_string();
        let expected = match failing {
            "host scalars" => "host scalars: out of memory",
            "mapping" => "device lost",
            _ => "sharing bytes",
        };
        assert!(error.contains(expected), "{error}");
        drop((inputs, outputs, whole));
        assert_eq!(identity.handles(), before, "{failing}");
    }
}

/// What was not made of constants is not remembered: the next execution makes it.
#[test]
fn a_preparation_that_fails_is_not_kept() {
    let all = [lt(0, [2, 3]), constant(1, [3, 4]), lt(2, [2, 4])];
    let partition = single(op(0, OpKind::MatMul, &[0, 1], &[2]), &all);
    let identity = MockallIdentity::new();
    // Products want their weights column by column, which a step prepares. This engine tells layouts by creating primitives: one more.
    let mut mock = MockallEngine::new();
    let own = identity.clone();
    mock.expect_create_primitive().times(3).returning(move |desc| {
        let columns = MemoryDesc::with_strides([3, 4], DataType::F32, [1, 3])?;
        let is_open = desc.find(Arg::Weights).is_some_and(MemoryDesc::is_any);
        let desc = if is_open { desc.clone().resolved(Arg::Weights, columns)? } else { desc.clone() };
        Ok(own.primitive(&desc))
    });
    let own = identity.clone();
    mock.expect_create_memory().returning(move |desc, _| Ok(own.memory(desc)));
    mock.expect_allocator().returning(|| Arc::new(MockallIdentity::allocator()));
    mock.expect_ready().returning(|_, _| Ok(None));
    let engine = identity.engine(mock);
    let constants = ConstantCache::new(1 << 20);
    let options = PartitionOptions { constants: Some(constants.clone()), ..PartitionOptions::default() };
    let compiled = partition.compile(&engine, &all[..2], &all[2..], &options).unwrap();
    let prepare = compiled.steps()[0].name.clone();
    assert_eq!((compiled.steps().len(), prepare.as_str()), (2, "prepare weights of MatMul0"));

    let mut stream = MockallStream::new();
    stream.expect_execute_validated().times(1).returning(|_, _, _| Err(lost()));
    let own = identity.clone();
    let mut expected = compiled.steps().iter().map(|step| step.name.clone()).collect::<Vec<_>>().into_iter();
    stream.expect_execute_validated().times(2).returning(move |primitive, _, _| {
        assert_eq!(Some(primitive.desc().name()), expected.next().as_deref());
        Ok(own.event(MockallEvent::new()))
    });
    let stream = identity.stream(stream, &StreamDesc::default());
    let error = execute(&identity, &compiled, &stream).unwrap_err();
    assert_eq!(error.to_string(), format!("{prepare}: device lost: unplugged"));
    assert_eq!(constants.stats(&engine).entries, 0);
    execute(&identity, &compiled, &stream).unwrap();
    assert_eq!(constants.stats(&engine).entries, 1);
}

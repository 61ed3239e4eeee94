//! The single mocks serve generic code.
#![cfg(feature = "mockall")]

use anydnn_backend::{
    Allocator, Backend, DataType, Engine, Error, Event, Memory, MemoryDesc, MemoryKind, Result, Stream,
    StreamDesc,
};
use anydnn_mock::{
    Mockall, MockallAllocator, MockallEngine, MockallEvent, MockallIdentity, MockallMemory, MockallPrimitive,
    MockallStream,
};

/// Uploads to new memory, and gives up without a stream.
fn upload<B: Backend>(engine: &B::Engine, desc: &MemoryDesc, bytes: &[u8]) -> Result<B::Memory> {
    let stream = engine.create_stream(&StreamDesc::default())?;
    let memory = engine.create_memory(desc, MemoryKind::Buffer)?;
    stream.write(&memory, 0, bytes, &[])?;
    Ok(memory)
}

#[test]
fn calls_are_counted_and_answered() {
    let mut engine = MockallEngine::new();
    engine.expect_create_stream().times(1).returning(|_| {
        let mut stream = MockallStream::new();
        stream
            .expect_write()
            .times(1)
            .withf(|_, offset, bytes, deps| *offset == 0 && bytes == [1, 2, 3] && deps.is_empty())
            .returning(|_, _, _, _| Ok(MockallEvent::new()));
        Ok(stream)
    });
    engine.expect_create_memory().times(1).returning(|_, _| Ok(MockallMemory::new()));
    let desc = MemoryDesc::new([3], DataType::U8);
    upload::<Mockall>(&engine, &desc, &[1, 2, 3]).unwrap();
}

#[test]
fn errors_reach_the_caller() {
    let mut engine = MockallEngine::new();
    engine.expect_create_stream().returning(|_| Err(Error::DeviceLost("gone".into())));
    engine.expect_create_memory().never();
    let desc = MemoryDesc::new([3], DataType::U8);
    assert!(matches!(upload::<Mockall>(&engine, &desc, &[]), Err(Error::DeviceLost(_))));
}

#[test]
fn allocators_and_primitives_have_mocks_too() {
    let mut allocator = MockallAllocator::new();
    allocator.expect_free().times(1).withf(|_, after| after.is_none()).returning(|_, _| Ok(()));
    allocator
        .expect_stats()
        .return_const(anydnn_backend::AllocatorStats { created: 7, ..Default::default() });
    allocator.expect_trim().times(1).return_const(());
    allocator.free(MockallMemory::new(), None).unwrap();
    allocator.trim();
    assert_eq!(allocator.stats().created, 7);
    let mut primitive = MockallPrimitive::new();
    primitive.expect_implementation().return_const("best:one".into());
    assert_eq!(anydnn_backend::Primitive::implementation(&primitive), "best:one");
    assert_eq!(format!("{primitive:?}"), "MockallPrimitive");
}

#[test]
fn provided_methods_are_answered_as_expected() {
    let mut engine = MockallEngine::new();
    engine.expect_ready().times(1).returning(|_, _| Err(Error::DeviceLost("gone".into())));
    assert!(matches!(engine.ready(&[], 0), Err(Error::DeviceLost(_))));
    let mut primitive = MockallPrimitive::new();
    primitive.expect_launches().return_const(3_usize);
    assert_eq!(anydnn_backend::Primitive::launches(&primitive), 3);
    let mut allocator = MockallAllocator::new();
    allocator.expect_keeps_apart().return_const(true);
    assert!(allocator.keeps_apart());
}

#[test]
fn clones_are_the_same_mock_and_handles_are_counted() {
    let identity = MockallIdentity::new();
    let mut event = MockallEvent::new();
    event.expect_wait().times(2).returning(|| Ok(()));
    let event = identity.event(event);
    event.wait().unwrap();
    event.clone().wait().unwrap();
    let memory = identity.memory(&MemoryDesc::new([8], DataType::F32));
    let view = memory.view(&MemoryDesc::new([4], DataType::F32), 16).unwrap();
    assert_eq!(view.engine_id(), identity.engine(MockallEngine::new()).id());
    assert_eq!((view.region().offset, view.region().bytes), (16, 16));
    assert!(view.clone().region().overlaps(&memory.region()));
    let other = identity.memory(memory.desc());
    assert!(!other.region().overlaps(&memory.region()) && other.is_backed());
    assert_eq!(identity.handles(), 4);
    drop((event, memory, view, other));
    assert_eq!(identity.handles(), 0);
}

#[test]
#[should_panic(expected = "MockallStream::flush")]
fn what_no_expectation_takes_fails_the_test() {
    let stream = MockallIdentity::new().stream(MockallStream::new(), &StreamDesc::default());
    let _ = stream.clone().flush();
}

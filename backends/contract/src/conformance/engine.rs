//! What an engine says about itself.

use super::report::ensure;
use super::subject::{expect_error, is_unsupported};
use super::{Case, Failure, Outcome, Subject};
use crate::{
    Arg, Backend, DataType, Eltwise, Engine, Error, Event, Memory, MemoryDesc, Op, Order, Primitive,
    PrimitiveDesc, Stream, StreamDesc,
};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    vec![
        Case::new("engine/identity", identity),
        Case::new("engine/capabilities", capabilities),
        Case::new("engine/streams_of_unsupported_kinds", unsupported_streams),
        Case::new("engine/cache_blob", cache_blob),
        Case::new("engine/outlived", outlived),
    ]
}

fn identity<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let engine = subject.engine();
    let id = engine.id();
    ensure!(engine.clone().id() == id, "a clone has another identity");
    let stream = subject.stream()?;
    ensure!(stream.engine_id() == id, "a stream belongs to {}, its engine is {id}", stream.engine_id());
    ensure!(stream.desc() == &StreamDesc::default(), "a default stream is {:?}", stream.desc());
    let memory = subject.bytes(16)?;
    ensure!(memory.engine_id() == id, "a memory belongs to {}, its engine is {id}", memory.engine_id());
    let desc = MemoryDesc::new([4], DataType::F32);
    let relu = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(desc).label("a name").build();
    let relu = subject.primitive(relu)?;
    ensure!(relu.engine_id() == id, "a primitive belongs to {}, its engine is {id}", relu.engine_id());
    ensure!(relu.desc().label() == Some("a name"), "a primitive's label is {:?}", relu.desc().label());
    if let Some(second) = subject.second_engine() {
        ensure!(second.id() != id, "two engines have the same identity");
    }
    Ok(Outcome::Passed)
}

fn capabilities<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let (device, can) = (subject.engine().device(), subject.engine().capabilities());
    ensure!(!device.backend.is_empty() && !device.name.is_empty(), "the device has no name: {device:?}");
    ensure!(!can.memory_kinds.is_empty(), "no kind of memory");
    ensure!(!can.storage_types.is_empty(), "no storage type");
    ensure!(can.compute_units > 0 && can.memory_bytes > 0, "a device without units or memory: {can:?}");
    ensure!(
        can.max_allocation_bytes > 0 && can.max_allocation_bytes <= can.memory_bytes,
        "allocations of up to {} bytes in a memory of {}",
        can.max_allocation_bytes,
        can.memory_bytes
    );
    Ok(Outcome::Passed)
}

fn unsupported_streams<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let can = subject.engine().capabilities();
    let variants = [
        (StreamDesc::out_of_order(), can.out_of_order),
        (StreamDesc::default().with_profiling(), can.profiling),
    ];
    for (desc, supported) in variants {
        let stream = subject.engine().create_stream(&desc);
        if supported {
            ensure!(stream?.desc() == &desc, "a stream of {desc:?} says otherwise");
        } else {
            expect_error(stream, &format!("a stream of {desc:?}"), is_unsupported, &[])?;
        }
    }
    let labelled = StreamDesc::default().labelled("copies");
    let stream = subject.engine().create_stream(&labelled)?;
    ensure!(stream.desc().label.as_deref() == Some("copies"), "a stream lost its label");
    ensure!(stream.desc().order == Order::InOrder, "a default stream is not in order");
    Ok(Outcome::Passed)
}

fn cache_blob<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let engine = subject.engine();
    match (engine.cache_blob_id(), engine.cache_blob()) {
        (Ok(id), Ok(_)) => {
            ensure!(!id.is_empty(), "the cache blob's name is empty");
            ensure!(engine.cache_blob_id()? == id, "the cache blob's name changes");
        }
        (Err(Error::Unsupported { .. }), Err(Error::Unsupported { .. })) => {}
        (id, blob) => {
            let (id, blob) = (id.map(|b| b.len()), blob.map(|b| b.len()));
            return Err(Failure::new(format!("cache blob {blob:?} under the name {id:?} (lengths)")));
        }
    }
    Ok(Outcome::Passed)
}

/// Objects keep what they need of their engine alive.
fn outlived<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let desc = MemoryDesc::new([3], DataType::F32);
    let (stream, src, dst, square);
    {
        let engine = subject.engine().clone();
        let short = Subject::<B>::new(&engine);
        stream = short.stream()?;
        src = short.upload(&stream, &desc, &[1.0, 2.0, 3.0])?;
        dst = short.memory(&desc)?;
        let builder = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Square)).src(desc.clone()).dst(desc);
        square = short.primitive(builder.build())?;
    }
    let event = stream.execute(&square, &[(Arg::SRC, src.clone()), (Arg::DST, dst.clone())], &[])?;
    // The command holds what it uses.
    drop((square, src));
    event.wait()?;
    let values = subject.download(&stream, &dst)?;
    ensure!(values == [1.0, 4.0, 9.0], "squares came out as {values:?}");
    Ok(Outcome::Passed)
}

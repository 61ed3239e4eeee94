//! The engine's allocator.

use super::report::ensure;
use super::subject::{expect_error, is_mismatch};
use super::{Case, Failure, Lacking, Outcome, Subject};
use crate::{Backend, DataType, Engine, Event, Memory, MemoryDesc, Stream};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    vec![
        Case::new("engine/allocator", memory),
        Case::new("engine/allocator_keeps_memory_in_use", waits),
        Case::new("engine/allocator_counts", counts),
        Case::new("engine/allocator_refuses_others", refuses),
    ]
}

fn memory<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let allocator = subject.engine().allocator();
    let stream = subject.stream()?;
    let mut held: Vec<B::Memory> = Vec::new();
    for (bytes, alignment) in [(64, 64), (1, 0), (1000, 256), (0, 8), (37, 16)] {
        let memory = allocator.allocate(bytes, alignment)?;
        let region = memory.region();
        let desc = MemoryDesc::new([bytes], DataType::U8);
        ensure!(memory.desc().same_bytes(&desc), "{bytes} bytes came as {}", memory.desc());
        ensure!(region.bytes == bytes, "{bytes} bytes came as {region:?}");
        ensure!(
            alignment == 0 || region.offset.is_multiple_of(alignment),
            "memory aligned to {alignment} begins at byte {}",
            region.offset
        );
        ensure!(
            bytes == 0 || held.iter().all(|other| !other.region().overlaps(&region)),
            "two allocations share bytes: {region:?}"
        );
        stream.write(&memory, 0, &vec![held.len() as u8; bytes], &[])?;
        held.push(memory);
    }
    for (i, memory) in held.iter().enumerate() {
        let mut bytes = vec![0xEE; memory.region().bytes];
        stream.read(memory, 0, &mut bytes, &[])?;
        ensure!(bytes.iter().all(|&b| usize::from(b) == i), "allocation {i} was overwritten by another");
    }
    for memory in held {
        allocator.free(memory, None)?;
    }
    Ok(Outcome::Passed)
}

/// Memory given back before its last command is complete is not given out again until then.
fn waits<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let allocator = subject.engine().allocator();
    let stream = subject.stream()?;
    let bytes = 4096;
    let target = subject.bytes(bytes)?;
    for round in 0..8_u8 {
        let temporary = allocator.allocate(bytes, 64)?;
        stream.write(&temporary, 0, &vec![round; bytes], &[])?;
        let range = |memory: &B::Memory| crate::Range { memory: memory.clone(), offset: 0, bytes };
        let copied = stream.copy(range(&temporary), range(&target), &[])?;
        allocator.free(temporary, Some(&copied))?;
        // Another stream is free to use what it is given at once.
        let other = subject.stream()?;
        let next = allocator.allocate(bytes, 64)?;
        other.write(&next, 0, &vec![0xFF; bytes], &[])?.wait()?;
        let mut result = vec![0; bytes];
        stream.read(&target, 0, &mut result, &[])?;
        ensure!(result.iter().all(|&b| b == round), "freed memory was reused while a copy read it");
        allocator.free(next, None)?;
    }
    Ok(Outcome::Passed)
}

/// What is allocated, given back and trimmed balances in the statistics.
fn counts<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    const SIZES: [usize; 3] = [1000, 64, 70_000];
    let allocator = subject.engine().allocator();
    let stream = subject.stream()?;
    let before = allocator.stats();
    let held = SIZES.iter().map(|&bytes| allocator.allocate(bytes, 64)).collect::<Result<Vec<_>, _>>()?;
    let during = allocator.stats();
    let asked: usize = SIZES.iter().sum();
    ensure!(
        during.in_use_bytes >= before.in_use_bytes + asked,
        "{asked} bytes were handed out: {before:?} became {during:?}"
    );
    ensure!(during.peak_bytes >= during.in_use_bytes, "more is in use than ever was: {during:?}");
    let served = during.created + during.reused - before.created - before.reused;
    ensure!(served == held.len(), "{} requests count as {served}", held.len());
    for (i, memory) in held.into_iter().enumerate() {
        let bytes = memory.region().bytes;
        let written = stream.write(&memory, 0, &vec![7; bytes], &[])?;
        if i == 0 {
            written.wait()?;
            allocator.free(memory, None)?;
        } else {
            allocator.free(memory, Some(&written))?;
        }
    }
    let after = allocator.stats();
    ensure!(
        after.in_use_bytes == before.in_use_bytes,
        "everything came back, but {before:?} became {after:?}"
    );
    ensure!(after.peak_bytes == during.peak_bytes, "the peak was forgotten: {during:?} became {after:?}");
    stream.wait()?;
    allocator.trim();
    let trimmed = allocator.stats();
    ensure!(trimmed.parked_bytes == 0, "trimming left {trimmed:?}");
    ensure!(
        (trimmed.created, trimmed.in_use_bytes) == (after.created, after.in_use_bytes),
        "trimming changed more than what is parked: {after:?} became {trimmed:?}"
    );
    let again = allocator.allocate(SIZES[0], 64)?;
    stream.write(&again, 0, &[1; SIZES[0]], &[])?.wait()?;
    Ok(allocator.free(again, None).map(|()| Outcome::Passed)?)
}

fn refuses<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let Some(second) = subject.second_engine() else {
        return Ok(Outcome::Unsupported(Lacking::SecondEngine));
    };
    let (ours, theirs) = (subject.engine().allocator(), second.allocator());
    let memory = theirs.allocate(100, 0)?;
    let before = ours.stats();
    expect_error(ours.free(memory.clone(), None), "freeing another engine's memory", is_mismatch, &[])?;
    ensure!(ours.stats() == before, "refused memory is counted: {before:?} became {:?}", ours.stats());
    theirs.free(memory, None)?;
    Ok(Outcome::Passed)
}

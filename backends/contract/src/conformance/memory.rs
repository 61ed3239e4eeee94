//! Memory: creating, writing, reading, copying, viewing, mapping.

use super::report::ensure;
use super::subject::{expect_error, is_invalid, is_unsupported, read_all};
use super::{Case, Failure, Lacking, Outcome, Subject};
use crate::op::Binary;
use crate::{
    Arg, Backend, BinaryAlgorithm, DataType, Eltwise, Engine, Event, MapMode, Memory, MemoryDesc, MemoryKind,
    Op, PrimitiveDesc, Range, Stream,
};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    let mut list = vec![
        Case::new("memory/write_is_free_for_reuse", write_reuse),
        Case::new("memory/ranges", ranges),
        Case::new("memory/ranges_out_of_bounds", out_of_bounds),
        Case::new("memory/copy", copies),
        Case::new("memory/copy_refused", refused_copies),
        Case::new("memory/views", views),
        Case::new("memory/views_refused", refused_views),
        Case::new("memory/empty", empty),
        Case::new("memory/open_layout_refused", open_layout),
        Case::new("memory/lifetime", lifetime),
        Case::new("memory/unbacked", unbacked),
    ];
    list.push(Case::new("memory/copies_between_kinds", copies_between_kinds));
    list.push(Case::new("memory/kinds_mixed_in_one_primitive", mixed_kinds));
    for kind in MemoryKind::ALL {
        list.push(Case::new(format!("memory/kind/{kind}"), move |subject| kind_works(subject, kind)));
    }
    list
}

fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

fn range<B: Backend>(memory: &B::Memory, offset: usize, bytes: usize) -> Range<B> {
    Range { memory: memory.clone(), offset, bytes }
}

fn bytes_desc(bytes: usize) -> MemoryDesc {
    MemoryDesc::new([bytes], DataType::U8)
}

fn write_reuse<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let stream = subject.stream()?;
    let memory = subject.bytes(10_000)?;
    let mut source = pattern(10_000, 1);
    stream.write(&memory, 0, &source, &[])?;
    source.fill(0);
    ensure!(
        read_all::<B>(&stream, &memory)? == pattern(10_000, 1),
        "a write took bytes changed after it returned"
    );
    Ok(Outcome::Passed)
}

fn ranges<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let stream = subject.stream()?;
    let memory = subject.bytes(50)?;
    let mut expected = pattern(50, 3);
    stream.write(&memory, 0, &expected, &[])?;
    for (offset, length) in [(0, 1), (7, 13), (49, 1), (20, 0), (50, 0)] {
        let part = pattern(length, 77);
        stream.write(&memory, offset, &part, &[])?;
        expected[offset..offset + length].copy_from_slice(&part);
    }
    ensure!(read_all::<B>(&stream, &memory)? == expected, "partial writes changed other bytes than theirs");
    let mut part = [0; 9];
    stream.read(&memory, 5, &mut part, &[])?;
    ensure!(part[..] == expected[5..14], "a partial read gives other bytes");
    Ok(Outcome::Passed)
}

fn out_of_bounds<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let stream = subject.stream()?;
    let memory = subject.bytes(8)?;
    stream.write(&memory, 0, &pattern(8, 0), &[])?;
    for (offset, length) in [(0, 9), (8, 1), (5, 4), (usize::MAX, 2), (100, 0)] {
        let mut bytes = vec![0xEE; length];
        let what = format!("{length} bytes from {offset} of 8");
        expect_error(
            stream.write(&memory, offset, &bytes, &[]),
            &format!("writing {what}"),
            is_invalid,
            &[],
        )?;
        expect_error(
            stream.read(&memory, offset, &mut bytes, &[]),
            &format!("reading {what}"),
            is_invalid,
            &[],
        )?;
    }
    ensure!(read_all::<B>(&stream, &memory)? == pattern(8, 0), "a refused write changed bytes");
    stream.wait()?;
    Ok(Outcome::Passed)
}

fn copies<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let stream = subject.stream()?;
    let (from, to) = (subject.bytes(40)?, subject.bytes(60)?);
    stream.write(&from, 0, &pattern(40, 9), &[])?;
    let mut expected = vec![0; 60];
    stream.write(&to, 0, &expected, &[])?;
    for (source, target, length) in [(0, 0, 5), (3, 11, 17), (39, 59, 1), (10, 30, 0)] {
        stream.copy(range(&from, source, length), range(&to, target, length), &[])?.wait()?;
        expected[target..target + length].copy_from_slice(&pattern(40, 9)[source..source + length]);
    }
    ensure!(read_all::<B>(&stream, &to)? == expected, "copies changed other bytes than theirs");
    // Within one memory, side by side.
    stream.copy(range(&to, 0, 10), range(&to, 40, 10), &[])?;
    expected.copy_within(0..10, 40);
    ensure!(read_all::<B>(&stream, &to)? == expected, "a copy within a memory went wrong");
    Ok(Outcome::Passed)
}

fn refused_copies<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let stream = subject.stream()?;
    let (from, to) = (subject.bytes(40)?, subject.bytes(20)?);
    stream.write(&from, 0, &pattern(40, 1), &[])?;
    stream.write(&to, 0, &pattern(20, 2), &[])?;
    let part = from.view(&bytes_desc(20), 5)?;
    for (what, source, target) in [
        ("past the end of the source", range::<B>(&from, 30, 11), range(&to, 0, 11)),
        ("past the end of the target", range(&from, 0, 11), range(&to, 10, 11)),
        ("of unequal lengths", range(&from, 0, 5), range(&to, 0, 6)),
        ("onto itself", range(&from, 0, 10), range(&from, 9, 10)),
        ("onto itself through a view", range(&from, 0, 10), range(&part, 0, 10)),
        ("from beyond", range(&from, usize::MAX, 2), range(&to, 0, 2)),
    ] {
        expect_error(stream.copy(source, target, &[]), &format!("a copy {what}"), is_invalid, &[])?;
    }
    stream.wait()?;
    ensure!(read_all::<B>(&stream, &from)? == pattern(40, 1), "a refused copy changed its source");
    ensure!(read_all::<B>(&stream, &to)? == pattern(20, 2), "a refused copy changed its target");
    Ok(Outcome::Passed)
}

fn views<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let stream = subject.stream()?;
    let parent = subject.bytes(120)?;
    stream.write(&parent, 0, &pattern(120, 0), &[])?;
    for (desc, offset) in [
        (bytes_desc(7), 0),
        (bytes_desc(9), 13),
        (bytes_desc(1), 119),
        (bytes_desc(0), 120),
        (MemoryDesc::new([3], DataType::F32), 20),
        (MemoryDesc::new([3], DataType::F16), 34),
    ] {
        let view = parent.view(&desc, offset)?;
        let (region, whole) = (view.region(), parent.region());
        ensure!(view.desc().same_bytes(&desc), "a view of {desc} is one of {}", view.desc());
        ensure!(
            region.allocation == whole.allocation
                && region.offset == whole.offset + offset
                && region.bytes == desc.size(),
            "a view of {desc} at {offset} is {region:?} of {whole:?}"
        );
        ensure!(view.kind() == parent.kind(), "a view has another kind of memory");
        ensure!(
            read_all::<B>(&stream, &view)? == pattern(120, 0)[offset..offset + desc.size()],
            "a view of {desc} at byte {offset} reads other bytes"
        );
    }
    // A view of a view counts from the inner one.
    let outer = parent.view(&bytes_desc(50), 11)?;
    let inner = outer.view(&bytes_desc(5), 6)?;
    stream.write(&inner, 1, &[1, 2, 3], &[])?;
    let mut expected = pattern(120, 0);
    expected[18..21].copy_from_slice(&[1, 2, 3]);
    ensure!(read_all::<B>(&stream, &parent)? == expected, "writing to a view of a view went elsewhere");
    stream.copy(range(&inner, 1, 3), range(&outer, 40, 3), &[])?;
    expected[51..54].copy_from_slice(&[1, 2, 3]);
    ensure!(read_all::<B>(&stream, &parent)? == expected, "copying between views went elsewhere");
    // Primitives on views of bytes that no vector type is aligned to.
    let relu =
        PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(bytes_desc(7)).dst(bytes_desc(7)).build();
    let relu = subject.primitive(relu)?;
    let (src, dst) = (parent.view(&bytes_desc(7), 21)?, parent.view(&bytes_desc(7), 61)?);
    stream.execute(&relu, &[(Arg::SRC, src), (Arg::DST, dst)], &[])?;
    expected.copy_within(21..28, 61);
    ensure!(read_all::<B>(&stream, &parent)? == expected, "a primitive on views at odd bytes went elsewhere");
    Ok(Outcome::Passed)
}

fn refused_views<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let parent = subject.bytes(16)?;
    for (bytes, offset) in [(17, 0), (1, 16), (8, 9), (1, usize::MAX)] {
        let view = parent.view(&bytes_desc(bytes), offset);
        expect_error(view, &format!("a view of {bytes} bytes at {offset} of 16"), is_invalid, &[])?;
    }
    let inner = parent.view(&bytes_desc(4), 4)?;
    expect_error(inner.view(&bytes_desc(5), 0), "a view larger than its view", is_invalid, &[])?;
    let open = parent.view(&MemoryDesc::any([2], DataType::F32), 0);
    expect_error(open, "a view with an open layout", is_invalid, &[])?;
    Ok(Outcome::Passed)
}

fn empty<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let stream = subject.stream()?;
    for desc in [bytes_desc(0), MemoryDesc::new([3, 0, 2], DataType::F32)] {
        let (one, other) = (subject.memory(&desc)?, subject.memory(&desc)?);
        ensure!(one.region().bytes == 0, "memory without elements has {} bytes", one.region().bytes);
        stream.write(&one, 0, &[], &[])?.wait()?;
        stream.read(&one, 0, &mut [], &[])?;
        stream.copy(range(&one, 0, 0), range(&other, 0, 0), &[])?.wait()?;
        let mapping = one.map(MapMode::ReadWrite)?;
        ensure!(mapping.bytes().is_empty(), "a mapping of nothing has {} bytes", mapping.bytes().len());
        mapping.unmap()?;
        one.view(&bytes_desc(0), 0)?;
    }
    Ok(Outcome::Passed)
}

fn open_layout<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let open = MemoryDesc::any([4, 4], DataType::F32);
    let memory = subject.engine().create_memory(&open, subject.kind()?);
    expect_error(memory, "memory with an open layout", is_invalid, &[])?;
    Ok(Outcome::Passed)
}

fn lifetime<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let stream = subject.stream()?;
    let view = {
        let parent = subject.bytes(64)?;
        stream.write(&parent, 0, &pattern(64, 4), &[])?;
        parent.view(&bytes_desc(10), 20)?
    };
    // Room for an allocation that would take the place of the dropped one.
    let others: Vec<B::Memory> = (0..4).map(|_| subject.bytes(64)).collect::<Result<_, _>>()?;
    for other in &others {
        stream.write(other, 0, &[0xEE; 64], &[])?;
    }
    ensure!(
        read_all::<B>(&stream, &view)? == pattern(64, 4)[20..30],
        "a view did not keep its parent's bytes"
    );
    let target = subject.bytes(64)?;
    let source = subject.bytes(64)?;
    stream.write(&source, 0, &pattern(64, 8), &[])?;
    stream.copy(range(&source, 0, 64), range(&target, 0, 64), &[])?;
    drop(source);
    ensure!(read_all::<B>(&stream, &target)? == pattern(64, 8), "memory dropped while a copy read it");
    Ok(Outcome::Passed)
}

fn unbacked<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let (engine, kind, desc) = (subject.engine(), subject.kind()?, MemoryDesc::new([4], DataType::F32));
    let stream = subject.stream()?;
    let mut memory = engine.create_unbacked_memory(&desc, kind)?;
    ensure!(
        !memory.is_backed() && memory.region().bytes == 0,
        "memory without bytes has the region {:?}",
        memory.region()
    );
    ensure!(memory.desc().same_bytes(&desc) && memory.kind() == kind, "memory without bytes says {memory:?}");
    ensure!(memory.map(MapMode::ReadWrite)?.bytes().is_empty(), "memory without bytes maps to some");
    let (target, mut out) = (subject.memory(&desc)?, [0; 16]);
    let builder = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Abs)).src(desc.clone()).dst(desc.clone());
    let abs = subject.primitive(builder.build())?;
    let run =
        |src: &B::Memory| stream.execute(&abs, &[(Arg::SRC, src.clone()), (Arg::DST, target.clone())], &[]);
    expect_error(run(&memory), "a source without bytes", is_invalid, &[])?;
    expect_error(stream.read(&memory, 0, &mut out, &[]), "reading no bytes", is_invalid, &[])?;
    for (first, absolute) in [(-1.0, 1.0), (-7.0, 7.0)] {
        let bytes = subject.bytes(20)?;
        stream.write(&bytes, 0, &super::data::encode(&desc, &[first, 2.0, -3.0, 0.0])?, &[])?;
        let before = memory.clone();
        memory.replace(&bytes)?;
        ensure!(memory.is_backed() && memory.desc().same_bytes(&desc), "replaced bytes give {memory:?}");
        ensure!(before.region() != memory.region(), "a clone made before took the new bytes too");
        drop(bytes);
        run(&memory)?.wait()?;
        let result = subject.download(&stream, &target)?;
        ensure!(result == [absolute, 2.0, 3.0, 0.0], "replaced bytes were read as {result:?}");
    }
    let small = subject.bytes(15)?;
    expect_error(memory.replace(&small), "replacing with fewer bytes", is_invalid, &[])?;
    ensure!(memory.is_backed(), "a refused replacement took the bytes away");
    let mut none = engine.create_unbacked_memory(&MemoryDesc::new([0], DataType::F32), kind)?;
    ensure!(none.is_backed(), "nothing is missing of no elements");
    none.replace(&small)?;
    expect_error(
        engine.create_unbacked_memory(&MemoryDesc::any([4], DataType::F32), kind),
        "memory of an open layout",
        is_invalid,
        &[],
    )?;
    Ok(Outcome::Passed)
}

fn kind_works<B: Backend>(subject: &Subject<B>, kind: MemoryKind) -> Result<Outcome, Failure> {
    let engine = subject.engine();
    let desc = MemoryDesc::new([9], DataType::F32);
    if !engine.capabilities().memory_kinds.contains(&kind) {
        expect_error(
            engine.create_memory(&desc, kind),
            &format!("memory of kind {kind}"),
            is_unsupported,
            &[],
        )?;
        return Ok(Outcome::Unsupported(Lacking::MemoryKind(kind)));
    }
    let stream = subject.stream()?;
    let (src, dst) = (engine.create_memory(&desc, kind)?, engine.create_memory(&desc, kind)?);
    ensure!(src.kind() == kind, "memory of kind {kind} says {}", src.kind());
    ensure!(src.desc().same_bytes(&desc), "memory of {desc} says {}", src.desc());
    ensure!(!src.region().overlaps(&dst.region()), "two memories share bytes");
    mappings(&stream, &src, subject)?;
    // In a primitive, with the source dropped while it may still be read.
    let values = [-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0];
    stream.write(&src, 0, &super::data::encode(&desc, &values)?, &[])?;
    let builder = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Abs)).src(desc.clone()).dst(desc.clone());
    let abs = subject.primitive(builder.build())?;
    let event = stream.execute(&abs, &[(Arg::SRC, src.clone()), (Arg::DST, dst.clone())], &[])?;
    drop(src);
    event.wait()?;
    let result = subject.download(&stream, &dst)?;
    ensure!(result == values.map(f64::abs), "absolute values came out as {result:?}");
    // To and from memory of the default kind.
    let plain = subject.bytes(36)?;
    stream.copy(range(&dst, 0, 36), range(&plain, 0, 36), &[])?;
    let copied = read_all::<B>(&stream, &plain)?;
    ensure!(copied == read_all::<B>(&stream, &dst)?, "a copy to memory of the default kind went wrong");
    Ok(Outcome::Passed)
}

fn copies_between_kinds<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let engine = subject.engine();
    let stream = subject.stream()?;
    let kinds = &engine.capabilities().memory_kinds;
    for &from in kinds {
        let source = engine.create_memory(&bytes_desc(70), from)?;
        stream.write(&source, 0, &pattern(70, 9), &[])?;
        for &to in kinds {
            let target = engine.create_memory(&bytes_desc(70), to)?;
            let mut expected = pattern(70, 50);
            stream.write(&target, 0, &expected, &[])?;
            for (start, end, length) in [(0, 0, 70), (1, 36, 33), (69, 2, 1), (5, 5, 0)] {
                stream.copy(range(&source, start, length), range(&target, end, length), &[])?;
                expected[end..end + length].copy_from_slice(&pattern(70, 9)[start..start + length]);
                ensure!(
                    read_all::<B>(&stream, &target)? == expected,
                    "copying {length} bytes from byte {start} of {from} to byte {end} of {to} went wrong"
                );
            }
        }
    }
    Ok(Outcome::Passed)
}

fn mixed_kinds<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let engine = subject.engine();
    let stream = subject.stream()?;
    let kinds = &engine.capabilities().memory_kinds;
    let desc = MemoryDesc::new([13], DataType::F32);
    let add = Op::Binary(Binary::new(BinaryAlgorithm::Add));
    let add = PrimitiveDesc::builder(add).src(desc.clone()).arg(Arg::Src(1), desc.clone()).dst(desc.clone());
    let add = subject.primitive(add.build())?;
    // One primitive goes from kind to kind: nothing of an execution may show in the next.
    for (i, &first) in kinds.iter().enumerate() {
        for (j, &second) in kinds.iter().enumerate() {
            let third = kinds[(i + 2 * j + 1) % kinds.len()];
            let place = |kind, offset: usize| {
                engine.create_memory(&bytes_desc(60), kind).and_then(|bytes| bytes.view(&desc, offset))
            };
            let (a, b, sum) = (place(first, 0)?, place(second, 4)?, place(third, 1)?);
            let (x, y) = (i as f64, 100.0 * j as f64);
            stream.write(&a, 0, &super::data::encode(&desc, &[x; 13])?, &[])?;
            stream.write(&b, 0, &super::data::encode(&desc, &[y; 13])?, &[])?;
            stream.execute(&add, &[(Arg::SRC, a), (Arg::Src(1), b), (Arg::DST, sum.clone())], &[])?;
            let result = subject.download(&stream, &sum)?;
            ensure!(
                result.iter().all(|value| (value - (x + y)).abs() < 0.5),
                "{x} in {first} and {y} in {second} make {result:?} in {third}"
            );
        }
    }
    Ok(Outcome::Passed)
}

fn mappings<B: Backend>(stream: &B::Stream, memory: &B::Memory, subject: &Subject<B>) -> Result<(), Failure> {
    let size = memory.region().bytes;
    stream.write(memory, 0, &pattern(size, 5), &[])?.wait()?;
    let mut mapping = memory.map(MapMode::Read)?;
    ensure!(mapping.bytes() == pattern(size, 5), "mapping for reading shows other bytes");
    ensure!(mapping.bytes_mut().is_empty(), "mapping for reading can be changed");
    mapping.unmap()?;
    let mut mapping = memory.map(MapMode::Write)?;
    ensure!(mapping.bytes_mut().len() == size, "a mapping of {size} bytes has {}", mapping.bytes_mut().len());
    mapping.bytes_mut().copy_from_slice(&pattern(size, 6));
    mapping.unmap()?;
    ensure!(read_all::<B>(stream, memory)? == pattern(size, 6), "a mapping for writing wrote something else");
    let mut mapping = memory.map(MapMode::ReadWrite)?;
    ensure!(mapping.bytes() == pattern(size, 6), "mapping for both shows other bytes");
    mapping.bytes_mut()[3] = 0xAB;
    // Dropping ends a mapping too.
    drop(mapping);
    let view = memory.view(&bytes_desc(10), 5)?;
    let mut mapping = view.map(MapMode::ReadWrite)?;
    ensure!(mapping.bytes() == &pattern(size, 6)[5..15], "mapping a view shows other bytes");
    mapping.bytes_mut()[0] = 0xCD;
    mapping.unmap()?;
    let mut expected = pattern(size, 6);
    (expected[3], expected[5]) = (0xAB, 0xCD);
    ensure!(read_all::<B>(&subject.stream()?, memory)? == expected, "changes through mappings are lost");
    Ok(())
}

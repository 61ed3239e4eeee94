//! Checks of arguments before a backend sees them.

use crate::arg::{Access, Arg};
use crate::backend::Backend;
use crate::engine::EngineId;
use crate::error::{Error, Result};
use crate::memory::{Memory, Region};
use crate::memory_desc::MemoryDesc;
use crate::op::attributes::ScratchpadMode;
use crate::primitive::Primitive;
use crate::stream::{Range, Stream, StreamDesc};

/// Checks the arguments of one execution: every argument bound once, of the right engine, large enough, and no result sharing bytes
/// with another argument, except where [`may_overwrite`](crate::PrimitiveDesc::may_overwrite) allows it.
///
/// # Errors
/// [`Error::Invalid`] or [`Error::Mismatch`] naming the primitive and the argument.
pub fn execution<B: Backend>(
    stream: &B::Stream,
    primitive: &B::Primitive,
    args: &[(Arg, B::Memory)],
) -> Result<()> {
    let desc = primitive.desc();
    let fail = |error: Error| Err(error.at(desc.name()));
    if primitive.engine_id() != stream.engine_id() {
        return fail(belongs("execute", "the primitive", primitive.engine_id(), stream.engine_id()));
    }
    let scratchpad = (desc.attributes().scratchpad == ScratchpadMode::User)
        .then(|| primitive.scratchpad_size())
        .filter(|&size| size > 0);
    for wanted in desc.args() {
        let Some(memory) = find::<B>(args, wanted.arg) else {
            return fail(Error::invalid(
                "execute",
                "arguments",
                format!("without {}", wanted.arg),
                format!("{} of {}", wanted.arg, wanted.desc),
            ));
        };
        let needed = wanted.desc.size();
        let given = memory.region().bytes;
        if given < needed {
            return fail(Error::invalid(
                "execute",
                format!("size of {}", wanted.arg),
                format!("{given} bytes"),
                format!("{needed} bytes for {}", wanted.desc),
            ));
        }
    }
    if let Some(needed) = scratchpad {
        let given = find::<B>(args, Arg::Scratchpad).map_or(0, |memory| memory.region().bytes);
        if given < needed {
            return fail(Error::invalid(
                "execute",
                "size of scratchpad",
                format!("{given} bytes"),
                format!("{needed} bytes"),
            ));
        }
    }
    for (i, (arg, memory)) in args.iter().enumerate() {
        if args[..i].iter().any(|(other, _)| other == arg) {
            return fail(Error::invalid(
                "execute",
                "arguments",
                format!("{arg} twice"),
                "each argument once",
            ));
        }
        if desc.access(*arg).is_none() {
            return fail(Error::invalid(
                "execute",
                "arguments",
                format!("with {arg}"),
                "only arguments of this primitive",
            ));
        }
        if memory.engine_id() != stream.engine_id() {
            return fail(belongs("execute", arg, memory.engine_id(), stream.engine_id()));
        }
    }
    aliasing::<B>(primitive, args)
}

/// Checks the operands of a copy: inside their memories, equally long, of this engine, not overlapping.
///
/// # Errors
/// [`Error::Invalid`] or [`Error::Mismatch`] naming the operand.
pub fn copy<B: Backend>(engine: EngineId, from: &Range<B>, to: &Range<B>) -> Result<()> {
    if from.bytes != to.bytes {
        return Err(Error::invalid(
            "copy",
            "length of the target",
            format!("{} bytes", to.bytes),
            format!("{} bytes", from.bytes),
        ));
    }
    transfer("copy from", engine, &from.memory, from.offset, from.bytes)?;
    transfer("copy to", engine, &to.memory, to.offset, to.bytes)?;
    let part = |range: &Range<B>| {
        let region = range.memory.region();
        Region { offset: region.offset + range.offset, bytes: range.bytes, ..region }
    };
    if from.bytes > 0 && part(from).overlaps(&part(to)) {
        return Err(Error::invalid("copy", "target", "overlapping the source", "separate bytes"));
    }
    Ok(())
}

/// Checks one side of a transfer: inside its memory, of this engine.
///
/// # Errors
/// [`Error::Invalid`] or [`Error::Mismatch`] naming the operation.
pub fn transfer<M: Memory>(
    operation: &str,
    engine: EngineId,
    memory: &M,
    offset: usize,
    bytes: usize,
) -> Result<()> {
    if memory.engine_id() != engine {
        return Err(belongs(operation, "the memory", memory.engine_id(), engine));
    }
    let size = memory.region().bytes;
    if offset.checked_add(bytes).is_none_or(|end| end > size) {
        return Err(Error::invalid(
            operation,
            "byte range",
            format!("{bytes} from {offset}"),
            format!("inside the {size} bytes of {}", memory.desc()),
        ));
    }
    Ok(())
}

/// Checks that a view of memory lies inside it, and returns its region.
///
/// # Errors
/// [`Error::Invalid`] when it reaches past the end or its layout is open.
pub fn view(parent: Region, desc: &MemoryDesc, offset: usize) -> Result<Region> {
    allocation(desc)?;
    let bytes = desc.size();
    if offset.checked_add(bytes).is_none_or(|end| end > parent.bytes) {
        return Err(Error::invalid(
            "view",
            "byte range",
            format!("{bytes} from {offset} for {desc}"),
            format!("inside {} bytes", parent.bytes),
        ));
    }
    Ok(Region { allocation: parent.allocation, offset: parent.offset + offset, bytes })
}

/// Checks that memory can be made for a descriptor.
///
/// # Errors
/// [`Error::Invalid`] when the descriptor is malformed or its layout is open.
pub fn allocation(desc: &MemoryDesc) -> Result<()> {
    desc.validate()?;
    if desc.is_any() {
        return Err(Error::invalid(
            "create memory",
            "layout",
            desc.to_string(),
            "a resolved layout, such as a primitive's own descriptor",
        ));
    }
    Ok(())
}

/// Checks that memory can take the bytes of other memory: of the same engine.
///
/// # Errors
/// [`Error::Mismatch`].
pub fn replacement<M: Memory>(memory: &M, bytes: &M) -> Result<()> {
    if bytes.engine_id() != memory.engine_id() {
        return Err(Error::mismatch(
            "replace bytes",
            format!("memory of {}", bytes.engine_id()),
            memory.engine_id().to_string(),
        ));
    }
    Ok(())
}

/// Checks that a stream takes device times.
///
/// # Errors
/// [`Error::Invalid`] naming the operation.
pub fn profiling(operation: &str, stream: &StreamDesc) -> Result<()> {
    if stream.profiling {
        return Ok(());
    }
    let label = stream.label.as_deref().map_or_else(String::new, |label| format!(" {label:?}"));
    Err(Error::invalid(operation, format!("the stream{label}"), "without profiling", "one with profiling"))
}

fn find<B: Backend>(args: &[(Arg, B::Memory)], arg: Arg) -> Option<&B::Memory> {
    args.iter().find(|(a, _)| *a == arg).map(|(_, memory)| memory)
}

fn belongs(operation: &str, what: impl std::fmt::Display, given: EngineId, expected: EngineId) -> Error {
    Error::mismatch(operation, format!("{what} of {given}"), format!("the stream's {expected}"))
}

fn aliasing<B: Backend>(primitive: &B::Primitive, args: &[(Arg, B::Memory)]) -> Result<()> {
    let desc = primitive.desc();
    // The bytes that the primitive touches, which may be fewer than the memory has.
    let touched = |arg: Arg, memory: &B::Memory| {
        let region = memory.region();
        let bytes = desc.find(arg).map_or(region.bytes, MemoryDesc::size);
        Region { bytes, ..region }
    };
    let writes = |arg: Arg| desc.access(arg).is_some_and(Access::writes);
    for (i, (a, first)) in args.iter().enumerate() {
        for (b, second) in &args[..i] {
            let (one, other) = (touched(*a, first), touched(*b, second));
            if !(writes(*a) || writes(*b)) || one.bytes == 0 || other.bytes == 0 || !one.overlaps(&other) {
                continue;
            }
            let in_place = |dst: Arg, src: Arg| dst == Arg::DST && desc.may_overwrite(src) && one == other;
            if !in_place(*a, *b) && !in_place(*b, *a) {
                return Err(Error::invalid(
                    "execute",
                    format!("memory of {a}"),
                    format!("sharing bytes with {b}"),
                    "separate bytes",
                )
                .at(desc.name()));
            }
        }
    }
    Ok(())
}

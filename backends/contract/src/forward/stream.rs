//! Streams of a backend that another one holds.

use std::fmt;

use super::{Holder, Holds, Object};
use crate::arg::Arg;
use crate::backend::Backend;
use crate::engine::EngineId;
use crate::error::Result;
use crate::methods;
use crate::primitive::Primitive;
use crate::profile::Profiled;
use crate::stream::{Range, Stream, StreamDesc};

methods!(Stream of W, object! { StreamObject: Stream, Holds<T::B> });

/// The inner stream checks the arguments, so they are checked once.
fn execute<W: Holds<S::B>, S: Stream>(
    stream: &S,
    primitive: &W::Primitive,
    args: &[(Arg, W::Memory)],
    deps: &[W::Event],
) -> Result<W::Event> {
    enqueue::<W, S>(stream, primitive, args, deps, S::execute)
}

fn execute_validated<W: Holds<S::B>, S: Stream>(
    stream: &S,
    primitive: &W::Primitive,
    args: &[(Arg, W::Memory)],
    deps: &[W::Event],
) -> Result<W::Event> {
    enqueue::<W, S>(stream, primitive, args, deps, S::execute_validated)
}

/// One of [`Stream::execute`] and [`Stream::execute_validated`].
type Execute<S, B> = fn(
    &S,
    &<B as Backend>::Primitive,
    &[(Arg, <B as Backend>::Memory)],
    &[<B as Backend>::Event],
) -> Result<<B as Backend>::Event>;

fn enqueue<W: Holds<S::B>, S: Stream>(
    stream: &S,
    primitive: &W::Primitive,
    args: &[(Arg, W::Memory)],
    deps: &[W::Event],
    execute: Execute<S, S::B>,
) -> Result<W::Event> {
    let primitive = W::inner("execute", Named(primitive), primitive)?;
    let args = args
        .iter()
        .map(|(arg, memory)| {
            Ok((*arg, W::inner::<<S::B as Backend>::Memory>("execute", arg, memory)?.clone()))
        })
        .collect::<Result<Vec<_>>>()?;
    execute(stream, primitive, &args, &W::inner_events("execute", deps)?).map(W::Event::hold)
}

/// A primitive's name, asked for only where a message tells it.
struct Named<'a, P>(&'a P);

impl<P: Primitive> fmt::Display for Named<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "primitive {}", self.0.desc().name())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as the trait takes them")]
fn copy<W: Holds<S::B>, S: Stream>(
    stream: &S,
    from: Range<W>,
    to: Range<W>,
    deps: &[W::Event],
) -> Result<W::Event> {
    let (from, to) = (range::<W, S::B>("copy from", &from)?, range::<W, S::B>("copy to", &to)?);
    stream.copy(from, to, &W::inner_events("copy", deps)?).map(W::Event::hold)
}

fn range<W: Holds<B>, B: Backend>(operation: &str, range: &Range<W>) -> Result<Range<B>> {
    let memory: &B::Memory = W::inner(operation, "the memory", &range.memory)?;
    Ok(Range { memory: memory.clone(), offset: range.offset, bytes: range.bytes })
}

fn write<W: Holds<S::B>, S: Stream>(
    stream: &S,
    memory: &W::Memory,
    offset: usize,
    bytes: &[u8],
    deps: &[W::Event],
) -> Result<W::Event> {
    let memory = W::inner("write", "the memory", memory)?;
    stream.write(memory, offset, bytes, &W::inner_events("write", deps)?).map(W::Event::hold)
}

fn enqueue_write<W: Holds<S::B>, S: Stream>(
    stream: &S,
    memory: &W::Memory,
    offset: usize,
    bytes: &[u8],
    deps: &[W::Event],
) -> Result<W::Event> {
    let memory = W::inner("enqueue write", "the memory", memory)?;
    stream.enqueue_write(memory, offset, bytes, &W::inner_events("enqueue write", deps)?).map(W::Event::hold)
}

fn read<W: Holds<S::B>, S: Stream>(
    stream: &S,
    memory: &W::Memory,
    offset: usize,
    bytes: &mut [u8],
    deps: &[W::Event],
) -> Result<()> {
    let memory = W::inner("read", "the memory", memory)?;
    stream.read(memory, offset, bytes, &W::inner_events("read", deps)?)
}

fn marker<W: Holds<S::B>, S: Stream>(stream: &S, deps: &[W::Event]) -> Result<W::Event> {
    stream.marker(&W::inner_events("marker", deps)?).map(W::Event::hold)
}

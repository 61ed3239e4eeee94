//! Streams: queues of commands.

use std::fmt::Debug;

use crate::arg::Arg;
use crate::backend::Backend;
use crate::engine::EngineId;
use crate::error::Result;
use crate::profile::Profiled;
use crate::validate;

/// A queue of commands of an engine. Clones are handles to the same queue.
///
/// On an in-order stream commands run in the order of submission. On an out-of-order stream only dependencies order them; two
/// commands that touch the same bytes, one of them writing, need a path of dependencies between them.
///
/// Dependencies may come from any stream of the same context. When one has failed, the command does not run: the call or its event
/// reports [`Error::Dependency`](crate::Error::Dependency).
pub trait Stream: Clone + Debug + Send + Sync + 'static {
    /// The backend this stream belongs to.
    type B: Backend<Stream = Self>;

    /// The engine this stream runs on.
    fn engine_id(&self) -> EngineId;

    /// Order and profiling.
    fn desc(&self) -> &StreamDesc;

    /// Checks the arguments, then enqueues the primitive.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) or [`Error::Mismatch`](crate::Error::Mismatch) before anything is enqueued; a device
    /// error.
    fn execute(
        &self,
        primitive: &<Self::B as Backend>::Primitive,
        args: &[(Arg, <Self::B as Backend>::Memory)],
        deps: &[<Self::B as Backend>::Event],
    ) -> Result<<Self::B as Backend>::Event> {
        validate::execution::<Self::B>(self, primitive, args)?;
        self.execute_validated(primitive, args, deps)
    }

    /// Enqueues the primitive; the arguments have been checked by [`validate::execution`]. Call [`Stream::execute`] instead.
    ///
    /// # Errors
    /// A device error.
    fn execute_validated(
        &self,
        primitive: &<Self::B as Backend>::Primitive,
        args: &[(Arg, <Self::B as Backend>::Memory)],
        deps: &[<Self::B as Backend>::Event],
    ) -> Result<<Self::B as Backend>::Event>;

    /// Copies bytes within the engine's memory; the ranges must not overlap.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a range outside its memory, [`Error::Mismatch`](crate::Error::Mismatch), a device
    /// error.
    fn copy(
        &self,
        from: Range<Self::B>,
        to: Range<Self::B>,
        deps: &[<Self::B as Backend>::Event],
    ) -> Result<<Self::B as Backend>::Event>;

    /// Writes bytes from the host from byte `offset` on; `bytes` is free for reuse on return.
    ///
    /// # Errors
    /// As [`Stream::copy`].
    fn write(
        &self,
        memory: &<Self::B as Backend>::Memory,
        offset: usize,
        bytes: &[u8],
        deps: &[<Self::B as Backend>::Event],
    ) -> Result<<Self::B as Backend>::Event>;

    /// As [`Stream::write`], but the bytes may be in memory only when the event has completed: where a device takes few bytes along with a
    /// command, nobody waits for what is submitted before it.
    ///
    /// # Errors
    /// As [`Stream::copy`].
    fn enqueue_write(
        &self,
        memory: &<Self::B as Backend>::Memory,
        offset: usize,
        bytes: &[u8],
        deps: &[<Self::B as Backend>::Event],
    ) -> Result<<Self::B as Backend>::Event> {
        self.write(memory, offset, bytes, deps)
    }

    /// Reads bytes to the host from byte `offset` on, and waits for them.
    ///
    /// # Errors
    /// As [`Stream::copy`].
    fn read(
        &self,
        memory: &<Self::B as Backend>::Memory,
        offset: usize,
        bytes: &mut [u8],
        deps: &[<Self::B as Backend>::Event],
    ) -> Result<()>;

    /// An event that completes after `deps`, and on an in-order stream after everything submitted before.
    ///
    /// # Errors
    /// A device error.
    fn marker(&self, deps: &[<Self::B as Backend>::Event]) -> Result<<Self::B as Backend>::Event>;

    /// Hands everything submitted to the device without waiting.
    ///
    /// # Errors
    /// A device error.
    fn flush(&self) -> Result<()>;

    /// Waits for everything submitted.
    ///
    /// # Errors
    /// The first failure among the commands since the last wait; a device error.
    fn wait(&self) -> Result<()>;

    /// Device time of each primitive executed since the stream was made or [reset](Stream::reset_profile), in the order of
    /// submission. Waits for them. Executions that failed have no entry; the newest [`LIMIT`](crate::ProfileLog::LIMIT) are remembered.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) on a stream without profiling; a device error.
    fn profile(&self) -> Result<Vec<Profiled>>;

    /// Forgets the executions so far.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) on a stream without profiling.
    fn reset_profile(&self) -> Result<()>;
}

/// Bytes of a memory: an operand of [`Stream::copy`].
#[derive(Clone, Debug)]
pub struct Range<B: Backend> {
    /// The memory.
    pub memory: B::Memory,
    /// The first byte, counted from the start of the memory.
    pub offset: usize,
    /// The number of bytes.
    pub bytes: usize,
}

/// Order, profiling and label of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StreamDesc {
    /// Whether commands run in the order of submission.
    pub order: Order,
    /// Whether events carry device timestamps.
    pub profiling: bool,
    /// Appears in messages and logs.
    pub label: Option<String>,
}

impl StreamDesc {
    /// A stream on which only dependencies order commands.
    pub fn out_of_order() -> Self {
        Self { order: Order::OutOfOrder, ..Self::default() }
    }

    /// With device timestamps.
    pub fn with_profiling(mut self) -> Self {
        self.profiling = true;
        self
    }

    /// With a label for messages and logs.
    pub fn labelled(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }
}

/// The order in which a stream's commands run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The order of submission.
    #[default]
    InOrder,
    /// Any order that dependencies allow.
    OutOfOrder,
}

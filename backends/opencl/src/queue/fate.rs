//! What became of commands.
//!
//! Drivers disagree about a command whose dependency failed: PoCL reports it as failed, Intel's CPU runtime as complete. So each command
//! remembers the commands it depends on until it is known that they went well.

use std::collections::HashSet;
use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Instant;

use anydnn_backend::{Error, Result, Timestamps};
use cl3::event as cl;
use cl3::types::{cl_context, cl_event, cl_int};

use crate::driver::call::{self, Check};
use crate::driver::handle;
use crate::queue::held::{Held, drop_outside_driver};
use crate::queue::wait::{WaitMethod, note_wait, sleep_until_ended, yield_until_ended};

/// What a command is called in messages.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Fixed(&'static str),
    Named(Arc<str>),
}

impl Operation {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Fixed(name) => name,
            Self::Named(name) => name,
        }
    }

    pub(crate) fn to_shared(&self) -> Arc<str> {
        match self {
            Self::Fixed(name) => (*name).into(),
            Self::Named(name) => Arc::clone(name),
        }
    }
}

/// Why a command has no result.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// It failed itself with this code.
    Own { operation: Operation, code: cl_int },
    /// What it was to compute on the processor failed.
    Native { operation: Operation, error: Arc<Error> },
    /// Something that it depends on failed.
    Dependency { operation: Operation, cause: Arc<str> },
}

impl Failure {
    pub(crate) fn to_error(&self) -> Error {
        match self {
            Self::Own { operation, code } => call::error(operation.as_str(), "execution", *code),
            Self::Native { operation, error } => Error::clone(error).at(operation.as_str()),
            Self::Dependency { operation, cause } => {
                Error::Dependency { operation: operation.as_str().into(), cause: cause.to_string() }
            }
        }
    }

    /// The failure in words, for those that depend on the command.
    pub(crate) fn cause(&self) -> Arc<str> {
        match self {
            Self::Own { operation, code } => {
                format!("{} ended with {code} ({})", operation.as_str(), call::code_name(*code)).into()
            }
            Self::Native { operation, error } => format!("{}: {error}", operation.as_str()).into(),
            Self::Dependency { cause, .. } => Arc::clone(cause),
        }
    }
}

/// How a finished command went.
pub(crate) type Outcome = std::result::Result<(), Failure>;

/// A command on its way: its event, and the commands whose failure would void its result.
pub(crate) struct Fate {
    event: OnceLock<handle::Event>,
    /// Of commands that share an event, which comes later.
    shared: Option<Shared>,
    operation: Operation,
    origin: Origin,
    parents: Mutex<Vec<Arc<Fate>>>,
    outcome: OnceLock<Outcome>,
    /// Whether the driver may come to see a failure in this event because of an event of the user.
    exposed: bool,
    /// Whether it waits for a user event, directly or not, or is one.
    gated: bool,
    shield: OnceLock<handle::Event>,
    /// What must live until the command has ended.
    held: Mutex<Vec<Held>>,
}

/// Commands that share an event, which is made when somebody looks at one of them: on NVIDIA's driver an event for each command takes a
/// third of the time that enqueueing takes.
struct Shared {
    /// In order, and nobody else's: what is enqueued later cannot keep these commands from their end.
    queue: handle::Queue,
    /// How many there are. Locked while one joins them and while the event is made, which has to be behind all of them.
    count: Mutex<usize>,
}

/// The most commands that share an event: the device says how far it is once in so many.
const MOST_SHARED: usize = 32;

/// A queue that hands its commands to the device when it is told to.
pub(crate) trait Flush: Send + Sync {
    /// Hands over every command so far.
    fn flush(&self) -> Result<()>;
}

/// Where an event comes from.
pub(crate) struct Origin {
    /// The address of the context's handle.
    pub(crate) context: usize,
    /// None for an event that is not on any stream of this crate.
    pub(crate) stream: Weak<dyn Flush>,
    pub(crate) wait_method: WaitMethod,
}

impl Fate {
    /// A command.
    pub(crate) fn new(
        event: handle::Event,
        operation: Operation,
        origin: Origin,
        parents: Vec<Arc<Self>>,
        exposed: bool,
    ) -> Arc<Self> {
        let gated = parents.iter().any(|parent| parent.gated);
        Arc::new(Self {
            event: OnceLock::from(event),
            shared: None,
            operation,
            origin,
            parents: Mutex::new(parents),
            outcome: OnceLock::new(),
            exposed,
            gated,
            shield: OnceLock::new(),
            held: Mutex::default(),
        })
    }

    /// Commands of an in-order queue that will [share](Self::join) an event, none of which waits for the user.
    pub(crate) fn shared(
        queue: handle::Queue,
        operation: Operation,
        origin: Origin,
        parents: Vec<Arc<Self>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            event: OnceLock::new(),
            shared: Some(Shared { queue, count: Mutex::new(0) }),
            operation,
            origin,
            parents: Mutex::new(parents),
            outcome: OnceLock::new(),
            exposed: false,
            gated: false,
            shield: OnceLock::new(),
            held: Mutex::default(),
        })
    }

    /// Whether more commands may share the event.
    pub(crate) fn is_open(&self) -> bool {
        self.shared.is_some() && self.event.get().is_none()
    }

    /// Enqueues a command that shares the event: the last one that may is told to have it. False, without the command, where the event
    /// is there already.
    pub(crate) fn join<E>(
        &self,
        enqueue: impl FnOnce(bool) -> std::result::Result<Option<handle::Event>, E>,
    ) -> std::result::Result<bool, E> {
        let Some(shared) = &self.shared else { return Ok(false) };
        let mut count = shared.count.lock().unwrap_or_else(PoisonError::into_inner);
        if self.event.get().is_some() {
            return Ok(false);
        }
        let event = enqueue(*count + 1 >= MOST_SHARED)?;
        *count += 1;
        if let Some(event) = event {
            _ = self.event.set(event);
        }
        Ok(true)
    }

    /// Takes the event of a later command of the same queue, which ends no earlier, unless there is one.
    pub(crate) fn close_with(&self, later: &handle::Event) -> Result<()> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let _count = shared.count.lock().unwrap_or_else(PoisonError::into_inner);
        if self.event.get().is_none() {
            _ = self.event.set(later.try_clone()?);
        }
        Ok(())
    }

    /// The event, which is made now where it has been left for later.
    pub(crate) fn event(&self) -> Result<&handle::Event> {
        let (Some(shared), None) = (&self.shared, self.event.get()) else { return self.known_event() };
        let _count = shared.count.lock().unwrap_or_else(PoisonError::into_inner);
        if self.event.get().is_none() {
            // SAFETY: a live queue and no wait list.
            let raw = unsafe {
                cl3::command_queue::enqueue_marker_with_wait_list(shared.queue.raw(), 0, std::ptr::null())
            }
            .check(self.operation.as_str(), "clEnqueueMarkerWithWaitList")?;
            // SAFETY: the driver returned this event with one reference for the caller.
            _ = self.event.set(unsafe { handle::Event::from_owned(raw) }?);
        }
        self.known_event()
    }

    fn known_event(&self) -> Result<&handle::Event> {
        self.event
            .get()
            .ok_or_else(|| Error::unavailable(self.operation.as_str(), "the command has no event"))
    }

    /// Keeps memory, and what native commands compute, until the command has ended.
    pub(crate) fn hold(&self, held: impl IntoIterator<Item = impl Into<Held>>) {
        self.lock_held().extend(held.into_iter().map(Into::into));
        if self.outcome.get().is_some() {
            self.let_go();
        }
    }

    /// Why what a native command computed has no result.
    fn native_failure(&self) -> Option<Arc<Error>> {
        self.lock_held().iter().find_map(Held::failure)
    }

    /// Releases memory, with the lock open: freeing calls drivers, or the user.
    fn let_go(&self) {
        let held = std::mem::take(&mut *self.lock_held());
        drop(held);
    }

    fn lock_held(&self) -> std::sync::MutexGuard<'_, Vec<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An event of the user, which may be a user event or one of a command.
    pub(crate) fn foreign(event: handle::Event, origin: Origin) -> Result<Arc<Self>> {
        let raw = event.raw();
        let kind: u32 = call::value(
            cl::get_event_data(raw, cl::CL_EVENT_COMMAND_TYPE),
            "create event",
            "clGetEventInfo",
        )?;
        Ok(Arc::new(Self {
            event: OnceLock::from(event),
            shared: None,
            operation: Operation::Named(format!("the user's event {raw:p}").into()),
            origin,
            parents: Mutex::default(),
            outcome: OnceLock::new(),
            exposed: true,
            gated: kind == cl::CL_COMMAND_USER,
            shield: OnceLock::new(),
            held: Mutex::default(),
        }))
    }

    pub(crate) fn is_exposed(&self) -> bool {
        self.exposed
    }

    /// Whether it waits for a user event, directly or not, or is one.
    pub(crate) fn is_gated(&self) -> bool {
        self.gated
    }

    /// An event that completes when this one ends, however it ends. What waits for it runs even after a failure and has a void
    /// result, which [`Fate::poll`] still knows.
    pub(crate) fn shield(&self) -> Result<cl_event> {
        if let Some(shield) = self.shield.get() {
            return Ok(shield.raw());
        }
        let own = self.raw()?;
        let context = cl::get_event_data(own, cl::CL_EVENT_CONTEXT);
        let context: cl_context = call::value(context, "shield event", "clGetEventInfo")?;
        let raw = cl::create_user_event(context).check("shield event", "clCreateUserEvent")?;
        // SAFETY: the driver returned this event with one reference for the caller.
        let shield = unsafe { handle::Event::from_owned(raw) }?;
        let given = shield.try_clone()?.into_raw();
        if let Err(code) = cl::set_event_callback(own, cl::CL_COMPLETE, open_shield, given) {
            // SAFETY: the callback, which would have released this reference, was not installed.
            drop(unsafe { handle::Event::from_owned(given) });
            return Err(code).check("shield event", "clSetEventCallback");
        }
        Ok(self.shield.get_or_init(|| shield).raw())
    }

    pub(crate) fn raw(&self) -> Result<cl_event> {
        Ok(self.event()?.raw())
    }

    /// The address of the context's handle.
    pub(crate) fn context(&self) -> usize {
        self.origin.context
    }

    /// The stream that the command is on, unless it is gone or the event is the user's.
    pub(crate) fn stream(&self) -> Option<Arc<dyn Flush>> {
        self.origin.stream.upgrade()
    }

    /// The execution status: positive while on its way, zero when complete, negative when failed.
    pub(crate) fn code(&self) -> Result<cl_int> {
        let bytes = cl::get_event_data(self.raw()?, cl::CL_EVENT_COMMAND_EXECUTION_STATUS);
        call::value(bytes, self.operation.as_str(), "clGetEventInfo")
    }

    /// The outcome if it is known by now.
    pub(crate) fn poll(self: &Arc<Self>) -> Result<Option<Outcome>> {
        if let Some(outcome) = self.outcome.get() {
            return Ok(Some(outcome.clone()));
        }
        // Depth first with an explicit stack: chains of commands grow long.
        let mut visited = HashSet::new();
        let mut stack = vec![Arc::clone(self)];
        while let Some(top) = stack.last() {
            let code = if top.outcome.get().is_some() { 1 } else { top.code()? };
            if code > 0 {
                stack.pop();
                continue;
            }
            let parents = top.lock_parents().clone();
            let open: Vec<_> = parents
                .iter()
                .filter(|parent| parent.outcome.get().is_none() && visited.insert(Arc::as_ptr(parent)))
                .cloned()
                .collect();
            if open.is_empty() {
                top.decide(code, &parents);
                stack.pop();
            } else {
                stack.extend(open);
            }
        }
        Ok(self.outcome.get().cloned())
    }

    /// Waits for the command and what it depends on.
    pub(crate) fn wait(self: &Arc<Self>) -> Result<Outcome> {
        let mut waiting = vec![Arc::clone(self)];
        while let Some(top) = waiting.last() {
            if top.poll()?.is_some() {
                waiting.pop();
                continue;
            }
            top.wait_for_event()?;
            if top.poll()?.is_none() {
                // The driver reports this command before one that it depends on.
                let open = top.lock_parents().iter().filter(|p| p.outcome.get().is_none()).cloned().collect();
                let open: Vec<_> = open;
                if open.is_empty() {
                    continue;
                }
                waiting.extend(open);
            }
        }
        self.poll()?.ok_or_else(|| Error::unavailable(self.operation.as_str(), "the outcome is unknown"))
    }

    /// Waits until the command no longer touches memory, however it ended. Unlike a poll this synchronises.
    pub(crate) fn wait_for_event(self: &Arc<Self>) -> Result<()> {
        let event = self.raw()?;
        let start = Instant::now();
        self.rest(event)?;
        let waited = self.origin.wait_method.wait(|| cl::wait_for_events(&[event]));
        if self.origin.wait_method == WaitMethod::Yield {
            note_wait(start);
        }
        match waited {
            Err(code) if self.code()? > 0 => Err(code).check(self.operation.as_str(), "clWaitForEvents"),
            _ => Ok(()),
        }
    }

    /// Sleeps as long as the driver's wait would only burn a core. What goes wrong here, that wait will tell.
    ///
    /// # Errors
    /// The driver's, where a wait that yields cannot look.
    fn rest(self: &Arc<Self>, event: cl_event) -> Result<()> {
        let is_open = || matches!(self.code(), Ok(code) if code > 0);
        match self.origin.wait_method {
            WaitMethod::Driver | WaitMethod::Yield if self.gated && is_open() => {
                Self::rest_for_user_events([self]);
            }
            WaitMethod::Yield if self.code()? > 0 => {
                self.hand_over(event)?;
                yield_until_ended(event).check(self.operation.as_str(), "clGetEventInfo")?;
            }
            WaitMethod::Poll if is_open() => {
                if let Err(error) = self.hand_over(event) {
                    tracing::debug!(%error, "the queue of a command could not be flushed");
                }
                sleep_until_ended(event);
            }
            _ => {}
        }
        Ok(())
    }

    /// Sleeps until the user events have ended that commands wait for: before that the driver could do nothing for them.
    pub(crate) fn rest_for_user_events<'a>(commands: impl IntoIterator<Item = &'a Arc<Self>>) {
        let mut visited = HashSet::new();
        let mut stack: Vec<_> = commands.into_iter().cloned().collect();
        while let Some(fate) = stack.pop() {
            if !fate.gated || fate.outcome.get().is_some() || !visited.insert(Arc::as_ptr(&fate)) {
                continue;
            }
            let parents = fate.lock_parents().clone();
            if parents.is_empty()
                && let Ok(event) = fate.raw()
            {
                sleep_until_ended(event);
            }
            stack.extend(parents);
        }
    }

    /// Hands the command to the device: looking at its status does not, as waiting does.
    fn hand_over(&self, event: cl_event) -> Result<()> {
        match self.stream() {
            Some(stream) => stream.flush(),
            None => call::value(
                cl::get_event_data(event, cl::CL_EVENT_COMMAND_QUEUE),
                self.operation.as_str(),
                "clGetEventInfo",
            )
            .and_then(|queue: *mut c_void| {
                // User events have no queue; one that was released before its commands ended was flushed then.
                if queue.is_null() {
                    return Ok(());
                }
                cl3::command_queue::flush(queue).check(self.operation.as_str(), "clFlush")
            }),
        }
    }

    /// Notes how a command ended whose parents are as settled as they get.
    fn decide(&self, code: cl_int, parents: &[Arc<Self>]) {
        let failed = parents.iter().find_map(|parent| parent.outcome.get()?.as_ref().err());
        let operation = || self.operation.clone();
        let outcome = match failed {
            Some(failure) => Err(Failure::Dependency { operation: operation(), cause: failure.cause() }),
            None if code < 0 => Err(Failure::Own { operation: operation(), code }),
            None if let Some(error) = self.native_failure() => {
                Err(Failure::Native { operation: operation(), error })
            }
            None if parents.iter().all(|parent| parent.outcome.get().is_some()) => Ok(()),
            None => return,
        };
        if self.outcome.set(outcome).is_ok() {
            self.let_go();
            drop_chain(std::mem::take(&mut *self.lock_parents()));
        }
    }

    fn lock_parents(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Self>>> {
        self.parents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Fate {
    fn drop(&mut self) {
        drop_chain(std::mem::take(self.parents.get_mut().unwrap_or_else(PoisonError::into_inner)));
        let held = std::mem::take(self.held.get_mut().unwrap_or_else(PoisonError::into_inner));
        if !held.is_empty()
            && self.code().is_ok_and(|code| code > 0)
            && let Ok(event) = self.known_event()
        {
            release_after(event, held);
        }
    }
}

impl fmt::Debug for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fate")
            .field("event", &self.event)
            .field("operation", &self.operation)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

/// Device times of a finished command; none without profiling.
pub(crate) fn times_of(event: cl_event) -> Result<Option<Timestamps>> {
    let read = |info| -> Result<Option<u64>> {
        match cl::get_event_profiling_data(event, info) {
            Err(cl3::error_codes::CL_PROFILING_INFO_NOT_AVAILABLE) => Ok(None),
            bytes => call::value(bytes, "read timestamps", "clGetEventProfilingInfo").map(Some),
        }
    };
    let (Some(queued), Some(submitted), Some(started), Some(ended)) = (
        read(cl::CL_PROFILING_COMMAND_QUEUED)?,
        read(cl::CL_PROFILING_COMMAND_SUBMIT)?,
        read(cl::CL_PROFILING_COMMAND_START)?,
        read(cl::CL_PROFILING_COMMAND_END)?,
    ) else {
        return Ok(None);
    };
    Ok(Some(Timestamps { queued, submitted, started, ended }))
}

/// Lets the driver release memory when a command that nobody follows any more has ended.
fn release_after(event: &handle::Event, held: Vec<Held>) {
    let held = Box::into_raw(Box::new(held)).cast();
    if let Err(code) = cl::set_event_callback(event.raw(), cl::CL_COMPLETE, release_held, held) {
        // The command may still use the memory, so it is better lost than freed.
        tracing::warn!(code, "memory of a command that has not ended is never freed");
    }
}

/// Called by the driver when a command has ended; `held` is the memory to release.
extern "C" fn release_held(_ended: cl_event, _code: cl_int, held: *mut c_void) {
    // SAFETY: `release_after` gave this box to the callback, which is called once.
    drop_outside_driver(*unsafe { Box::from_raw(held.cast::<Vec<Held>>()) });
}

/// Called by the driver when a shielded event has ended; `shield` is the event to complete, with a reference to give back.
extern "C" fn open_shield(_ended: cl_event, _code: cl_int, shield: *mut c_void) {
    if let Err(code) = cl::set_user_event_status(shield, cl::CL_COMPLETE) {
        tracing::warn!(code, "commands that wait for a user event are stuck");
    }
    // SAFETY: `Fate::shield` gave this reference to the callback, which is called once.
    drop(unsafe { handle::Event::from_owned(shield) });
}

/// Drops commands without recursion: a long chain would overflow the stack.
fn drop_chain(mut chain: Vec<Arc<Fate>>) {
    while let Some(fate) = chain.pop() {
        if let Some(mut last) = Arc::into_inner(fate) {
            chain.append(last.parents.get_mut().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

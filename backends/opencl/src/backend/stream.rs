//! Streams: command queues.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use anydnn_backend::{
    Arg, EngineId, Error, Event, Order, Profiled, Range, Result, Stream, StreamDesc, validate,
};
use cl3::command_queue as cl;
use cl3::types::{cl_command_queue, cl_event, cl_uint};
use smallvec::SmallVec;

use crate::backend::engine::OpenClEngine;
use crate::backend::event::OpenClEvent;
use crate::backend::memory::OpenClMemory;
use crate::backend::primitive::{GRID_CALL, Grid, OpenClPrimitive};
use crate::backend::{OpenCl, transfer};
use crate::driver::call::{Check, Returned};
use crate::driver::handle;
use crate::memory::allocation::Allocation;
use crate::program::kernels::Kernel;
use crate::queue::deferred_release;
use crate::queue::fate::{Failure, Fate, Flush, Operation, Origin};
use crate::queue::held::Held;
use crate::queue::native::{Job, NATIVE_CALL, Run, Slot};
use crate::queue::profile::{Execution, Profile};
use crate::queue::wait::{WaitMethod, note_wait, sleep_until_ended, yield_until_ended};

/// A command queue, the library's or the user's.
///
/// When a command on an in-order stream fails, the commands after it report [`Error::Dependency`] until [`Stream::wait`] has
/// reported the failure: they may build on what the failed command did not do.
#[derive(Clone)]
pub struct OpenClStream {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    state: Mutex<State>,
    /// On a profiling stream.
    pub(crate) profile: Option<Profile>,
    queue: handle::Queue,
    owner: Owner,
    /// Whether somebody may enqueue commands that this stream does not see.
    is_known: AtomicBool,
    desc: StreamDesc,
    engine: OpenClEngine,
}

/// Who made a stream's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The stream, for itself.
    Stream,
    /// The user, who goes on holding it.
    User,
}

/// What the stream knows about its commands.
#[derive(Debug, Default)]
struct State {
    /// Commands whose outcome is not known yet, oldest first.
    unsettled: VecDeque<Arc<Fate>>,
    /// The newest command of an in-order stream.
    last: Option<Arc<Fate>>,
    /// The same where more commands may share its event.
    open: Option<Arc<Fate>>,
    /// The first failure since the last wait.
    failure: Option<Failure>,
    /// The number of unsettled commands at which all of them are looked at, not just the oldest.
    sweep_at: usize,
}

impl Stream for OpenClStream {
    type B = OpenCl;

    fn engine_id(&self) -> EngineId {
        self.inner.engine.inner.id
    }

    fn desc(&self) -> &StreamDesc {
        &self.inner.desc
    }

    fn execute_validated(
        &self,
        primitive: &OpenClPrimitive,
        args: &[(Arg, OpenClMemory)],
        deps: &[OpenClEvent],
    ) -> Result<OpenClEvent> {
        primitive.enqueue(self, args, deps)
    }

    fn copy(&self, from: Range<OpenCl>, to: Range<OpenCl>, deps: &[OpenClEvent]) -> Result<OpenClEvent> {
        validate::copy::<OpenCl>(self.engine_id(), &from, &to)?;
        transfer::copy(self, &from, &to, deps)
    }

    fn write(
        &self,
        memory: &OpenClMemory,
        offset: usize,
        bytes: &[u8],
        deps: &[OpenClEvent],
    ) -> Result<OpenClEvent> {
        validate::transfer("write", self.engine_id(), memory, offset, bytes.len())?;
        transfer::write(self, memory, offset, bytes, deps)
    }

    fn enqueue_write(
        &self,
        memory: &OpenClMemory,
        offset: usize,
        bytes: &[u8],
        deps: &[OpenClEvent],
    ) -> Result<OpenClEvent> {
        validate::transfer("enqueue write", self.engine_id(), memory, offset, bytes.len())?;
        transfer::enqueue_write(self, memory, offset, bytes, deps)
    }

    fn read(
        &self,
        memory: &OpenClMemory,
        offset: usize,
        bytes: &mut [u8],
        deps: &[OpenClEvent],
    ) -> Result<()> {
        validate::transfer("read", self.engine_id(), memory, offset, bytes.len())?;
        transfer::read(self, memory, offset, bytes, deps)
    }

    fn marker(&self, deps: &[OpenClEvent]) -> Result<OpenClEvent> {
        self.submit(Operation::Fixed("marker"), deps)?.finish()
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn wait(&self) -> Result<()> {
        let (submitted, open) = {
            let mut state = self.inner.lock();
            (std::mem::take(&mut state.unsettled), state.open.take())
        };
        let start = Instant::now();
        let rested = self.rest(&submitted, open);
        let wait_method = self.inner.engine.inner.wait_method;
        let finished =
            wait_method.wait(|| cl::finish(self.inner.queue.raw())).check("wait for stream", "clFinish");
        if wait_method == WaitMethod::Yield && !submitted.is_empty() {
            note_wait(start);
        }
        let mut first = None;
        for fate in submitted {
            // After a failed finish, waiting for a single command could block forever.
            let outcome = if finished.is_ok() { Some(fate.wait()?) } else { fate.poll()? };
            if let Some(Err(failure)) = outcome {
                first.get_or_insert(failure);
            }
        }
        let mut state = self.inner.lock();
        let failure = state.failure.take().or(first);
        if failure.is_some() {
            // Reported: what is submitted from now on starts afresh.
            state.last = None;
        }
        drop(state);
        finished?;
        rested?;
        failure.map_or(Ok(()), |failure| Err(failure.to_error()))
    }

    fn profile(&self) -> Result<Vec<Profiled>> {
        validate::profiling("profile", &self.inner.desc)?;
        self.inner.profile.as_ref().map_or(Ok(Vec::new()), Profile::collect)
    }

    fn reset_profile(&self) -> Result<()> {
        validate::profiling("reset profile", &self.inner.desc)?;
        if let Some(profile) = &self.inner.profile {
            profile.clear();
        }
        Ok(())
    }
}

impl OpenClStream {
    pub(crate) fn new(engine: &OpenClEngine, queue: handle::Queue, desc: StreamDesc, owner: Owner) -> Self {
        let state = Mutex::new(State { sweep_at: SWEEP, ..State::default() });
        let profile = desc.profiling.then(Profile::default);
        let is_known = AtomicBool::new(owner == Owner::User);
        let engine = engine.clone();
        Self { inner: Arc::new(Inner { state, profile, queue, owner, is_known, desc, engine }) }
    }

    /// The engine this stream runs on.
    pub fn engine(&self) -> &OpenClEngine {
        &self.inner.engine
    }

    /// The queue, for somebody who may enqueue commands of their own.
    pub(crate) fn known_queue(&self) -> cl_command_queue {
        self.inner.is_known.store(true, Ordering::Relaxed);
        // Events must not come behind such commands.
        let open = self.inner.lock().open.take();
        if let Some(Err(error)) = open.map(|open| open.raw()) {
            tracing::warn!(%error, "commands have no event");
        }
        self.inner.queue.raw()
    }

    /// Checks the dependencies and starts a submission, during which the stream takes no other.
    pub(crate) fn submit(&self, operation: Operation, deps: &[OpenClEvent]) -> Result<Submission<'_>> {
        let context = self.inner.engine.raw_context();
        let mut wait_list = Vec::with_capacity(deps.len());
        let mut parents = Vec::new();
        for dep in deps {
            let fate = &dep.fate;
            if fate.context() != context.addr() {
                return Err(Error::mismatch(
                    operation.as_str(),
                    format!("the dependency {:?} of context {:#x}", fate.raw(), fate.context()),
                    format!("the stream's context {:#x}", context.addr()),
                ));
            }
            match fate.poll()? {
                Some(Err(failure)) => return Err(depends_on(&operation, &failure)),
                Some(Ok(())) => wait_list.push(fate.raw()?),
                None => {
                    parents.push(Arc::clone(fate));
                    wait_list.push(if self.inner.is_fragile() && fate.is_exposed() {
                        fate.shield()?
                    } else {
                        fate.raw()?
                    });
                    // A command that is still with its own queue might never reach the device while another queue waits for it.
                    if let Some(stream) = fate.stream().filter(|stream| !self.inner.is(stream)) {
                        stream.flush()?;
                    }
                }
            }
        }
        // Callers join branches by naming the same event twice.
        wait_list.sort_unstable();
        wait_list.dedup();
        let mut state = self.inner.lock();
        if let Some(open) = state.open.take() {
            if deps.is_empty() && state.failure.is_none() && open.is_open() {
                // Nothing is known of it, and to look would take its event.
                parents.push(Arc::clone(&open));
                state.open = Some(open);
                return Ok(self.submission(state, operation, wait_list, parents));
            }
            // What waits for others must not keep earlier commands from being seen to have ended.
            open.raw()?;
        }
        state.settle()?;
        if self.inner.desc.order == Order::InOrder {
            if let Some(failure) = &state.failure {
                return Err(depends_on(&operation, failure));
            }
            if let Some(last) = &state.last {
                match last.poll()? {
                    Some(Err(failure)) => return Err(depends_on(&operation, &failure)),
                    Some(Ok(())) => {}
                    None => parents.push(Arc::clone(last)),
                }
            }
        }
        Ok(self.submission(state, operation, wait_list, parents))
    }

    fn submission<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        operation: Operation,
        wait_list: Vec<cl_event>,
        parents: Vec<Arc<Fate>>,
    ) -> Submission<'a> {
        Submission {
            stream: self,
            state,
            operation,
            wait_list,
            parents,
            current: None,
            is_unseen: false,
            held: Vec::new(),
            profiled: None,
        }
    }

    fn origin(&self) -> Origin {
        let engine = &self.inner.engine;
        Origin {
            context: engine.raw_context().addr(),
            stream: Arc::downgrade(&self.inner) as Weak<dyn Flush>,
            wait_method: engine.inner.wait_method,
        }
    }

    /// Sleeps as long as `clFinish` would only burn a core. What goes wrong here, that call will tell.
    ///
    /// # Errors
    /// The driver's, where a wait that yields cannot look.
    fn rest(&self, submitted: &VecDeque<Arc<Fate>>, open: Option<Arc<Fate>>) -> Result<()> {
        let wait_method = self.inner.engine.inner.wait_method;
        if wait_method != WaitMethod::Poll {
            Fate::rest_for_user_events(submitted);
            if let (WaitMethod::Yield, Some(last)) = (wait_method, submitted.back()) {
                let event = last.raw()?;
                self.inner.flush()?;
                yield_until_ended(event).check("wait for stream", "clGetEventInfo")?;
            }
            return Ok(());
        }
        if let Some(open) = open.filter(|open| open.is_open()) {
            if let (Ok(event), Ok(())) = (open.raw(), self.inner.flush()) {
                sleep_until_ended(event);
            }
            return Ok(());
        }
        // Commands that the user enqueued directly count too.
        // SAFETY: a live queue and no wait list.
        let marker =
            unsafe { cl::enqueue_marker_with_wait_list(self.inner.queue.raw(), 0, std::ptr::null()) };
        // SAFETY: the driver returned this event with one reference for the caller.
        let marker = marker.ok().and_then(|raw| unsafe { handle::Event::from_owned(raw) }.ok());
        if let (Some(marker), Ok(())) = (marker, self.inner.flush()) {
            sleep_until_ended(marker.raw());
        }
        Ok(())
    }

    /// Waits until a transfer no longer touches the host's bytes.
    pub(crate) fn wait_for_transfer(&self, event: &OpenClEvent) -> Result<()> {
        if let Err(error) = event.fate.wait_for_event() {
            // The command may still be under way; the bytes must not be given back before it has ended.
            if cl::finish(self.inner.queue.raw()).is_err() {
                while event.fate.code().is_ok_and(|code| code > 0) {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            }
            return Err(error);
        }
        event.wait()
    }
}

impl Inner {
    /// Whether the driver must not see dependencies fail on this queue, and lets go of it late.
    fn is_fragile(&self) -> bool {
        self.desc.order == Order::OutOfOrder && self.engine.inner.device.has_fragile_queues()
    }

    pub(crate) fn desc(&self) -> &StreamDesc {
        &self.desc
    }

    /// Whether commands may share events: on a device whose driver takes long for them, and where none is behind a user's.
    fn shares_events(&self) -> bool {
        self.desc.order == Order::InOrder
            && self.profile.is_none()
            && self.engine.inner.wait_method == WaitMethod::Poll
            && !self.is_known.load(Ordering::Relaxed)
    }

    /// Whether this is a certain queue.
    fn is(&self, queue: &Arc<dyn Flush>) -> bool {
        std::ptr::addr_eq(self, Arc::as_ptr(queue))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flush for Inner {
    fn flush(&self) -> Result<()> {
        cl::flush(self.queue.raw()).check("flush stream", "clFlush")
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut open: Vec<_> = std::mem::take(&mut state.unsettled).into();
        if handle::is_exiting() {
            return;
        }
        open.retain(|fate| fate.code().is_ok_and(|code| code > 0));
        let device = &self.engine.inner.device;
        // Of a queue of the user's the device is the user's as well, and the references are counted on.
        let is_late_device = self.owner == Owner::Stream && device.is_used_after_release();
        let lets_go_late = self.is_fragile() && self.queue.is_last() || is_late_device;
        if open.is_empty() && !lets_go_late {
            return;
        }
        match self.queue.try_clone() {
            Ok(queue) => deferred_release::keep(queue, device.clone(), open, lets_go_late),
            Err(error) => tracing::warn!(%error, "a queue was released before its commands have ended"),
        }
    }
}

impl fmt::Debug for OpenClStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenClStream")
            .field("queue", &self.inner.queue)
            .field("desc", &self.inner.desc)
            .field("engine", &self.inner.engine.inner.id)
            .finish_non_exhaustive()
    }
}

/// Unsettled commands below this number are looked at oldest first only.
const SWEEP: usize = 1024;

impl State {
    /// Forgets commands that are known to have gone well and remembers the first failure.
    fn settle(&mut self) -> Result<()> {
        while let Some(oldest) = self.unsettled.front() {
            let Some(outcome) = oldest.poll()? else { break };
            self.note(outcome.err());
            self.unsettled.pop_front();
        }
        if self.unsettled.len() >= self.sweep_at {
            for fate in std::mem::take(&mut self.unsettled) {
                match fate.poll()? {
                    None => self.unsettled.push_back(fate),
                    Some(outcome) => self.note(outcome.err()),
                }
            }
            self.sweep_at = SWEEP.max(self.unsettled.len() * 2);
        }
        Ok(())
    }

    fn note(&mut self, failure: Option<Failure>) {
        if self.failure.is_none() {
            self.failure = failure;
        }
    }
}

fn depends_on(operation: &Operation, failure: &Failure) -> Error {
    Error::Dependency { operation: operation.as_str().into(), cause: failure.cause().to_string() }
}

/// Commands that make up one operation. The first waits for the dependencies, each other one for the one before it.
pub(crate) struct Submission<'a> {
    stream: &'a OpenClStream,
    state: MutexGuard<'a, State>,
    operation: Operation,
    wait_list: Vec<cl_event>,
    parents: Vec<Arc<Fate>>,
    current: Option<Arc<Fate>>,
    /// Whether there are commands without events behind the current one.
    is_unseen: bool,
    held: Vec<Held>,
    profiled: Option<Profiling>,
}

/// What the profile is to know of a submission.
struct Profiling {
    implementation: Arc<str>,
    commands: Vec<Arc<Fate>>,
}

impl Submission<'_> {
    /// Keeps memory that OpenCL does not keep for its commands until the last command has ended.
    pub(crate) fn hold(&mut self, allocation: &Arc<Allocation>) {
        if allocation.is_freed_with_last_owner() {
            self.held.push(Arc::clone(allocation).into());
        }
    }

    /// As [`Submission::hold`] for every one of these.
    pub(crate) fn hold_all(&mut self, memories: &[&OpenClMemory]) {
        for memory in memories {
            self.hold(&memory.allocation);
        }
    }

    /// Makes this an execution of a primitive, which the profile of a profiling stream lists.
    pub(crate) fn profile(&mut self, implementation: &Arc<str>) {
        if self.stream.inner.profile.is_some() {
            let implementation = Arc::clone(implementation);
            self.profiled = Some(Profiling { implementation, commands: Vec::new() });
        }
    }

    /// Enqueues one command: `enqueue` gets the queue and the wait list, and returns the command's event.
    pub(crate) fn push(
        &mut self,
        call: &str,
        enqueue: impl FnOnce(cl_command_queue, cl_uint, *const cl_event) -> Returned<cl_event>,
    ) -> Result<()> {
        let events = if self.wait_list.is_empty() { std::ptr::null() } else { self.wait_list.as_ptr() };
        let raw = enqueue(self.stream.inner.queue.raw(), self.wait_list.len() as cl_uint, events)
            .check(self.operation.as_str(), call)?;
        // SAFETY: the driver returned this event with one reference for the caller.
        self.adopt(unsafe { handle::Event::from_owned(raw) }?);
        Ok(())
    }

    /// Enqueues a kernel with every argument set, for an operation. It has an event if it is the last of its submission, or if somebody
    /// is to look at it by itself.
    pub(crate) fn launch(
        &mut self,
        operation: &Operation,
        kernel: &Kernel,
        grid: &Grid,
        is_last: bool,
    ) -> Result<()> {
        if is_last && self.join(operation, kernel, grid)? {
            return Ok(());
        }
        let (queue, is_seen) = (self.stream.inner.queue.raw(), self.is_seen(is_last));
        let event =
            grid.enqueue(queue, kernel, &self.wait_list, is_seen).check(operation.as_str(), GRID_CALL)?;
        self.follow(event, is_seen)
    }

    /// Whether the next command has an event: if it is the last of its submission, or if somebody is to look at it by itself.
    fn is_seen(&self, is_last: bool) -> bool {
        is_last
            || self.stream.inner.desc.order == Order::OutOfOrder
            || self.stream.inner.profile.is_some()
            || self.is_watched()
    }

    /// Goes on behind a command, whose event there is if it is seen.
    fn follow(&mut self, event: cl_event, is_seen: bool) -> Result<()> {
        if is_seen {
            // SAFETY: the driver returned this event with one reference for the caller.
            self.adopt(unsafe { handle::Event::from_owned(event) }?);
        } else {
            // The commands behind it on the queue are behind what it waits for.
            self.wait_list.clear();
            self.is_unseen = true;
        }
        Ok(())
    }

    /// As [`Submission::launch`] for a job on memories.
    pub(crate) fn run(
        &mut self,
        operation: &Operation,
        job: &Arc<Job>,
        memories: &[&OpenClMemory],
        is_last: bool,
    ) -> Result<()> {
        let is_seen = self.is_seen(is_last);
        let event = self.enqueue_job(operation, job, memories, &self.wait_list.clone(), is_seen)?;
        self.follow(event, is_seen)
    }

    /// As [`Submission::run`] after events of the caller's choice, who goes on to name the event where it is waited for.
    pub(crate) fn run_after(
        &mut self,
        operation: &Operation,
        job: &Arc<Job>,
        memories: &[&OpenClMemory],
        waits: &[cl_event],
    ) -> Result<handle::Event> {
        let event = self.enqueue_job(operation, job, memories, waits, true)?;
        self.is_unseen = true;
        // SAFETY: the driver returned this event with one reference for the caller.
        unsafe { handle::Event::from_owned(event) }
    }

    /// Enqueues a job, which is held from then on.
    fn enqueue_job(
        &mut self,
        operation: &Operation,
        job: &Arc<Job>,
        memories: &[&OpenClMemory],
        waits: &[cl_event],
        is_seen: bool,
    ) -> Result<cl_event> {
        let (queue, memories) = (self.stream.inner.queue.raw(), slots(memories));
        let run = Run::new(job, &memories, || self.stream.inner.engine.service_queue())?;
        let event = run.enqueue(&memories, queue, waits, is_seen).check(operation.as_str(), NATIVE_CALL)?;
        self.held.push(Held::Run(run));
        Ok(event)
    }

    /// As [`Submission::launch`] for a last kernel that shares its event with others; false where it cannot.
    fn join(&mut self, operation: &Operation, kernel: &Kernel, grid: &Grid) -> Result<bool> {
        let stream = self.stream;
        let can_share = self.wait_list.is_empty()
            && self.current.is_none()
            && self.held.is_empty()
            && stream.inner.shares_events()
            && !self.is_watched();
        if !can_share {
            return Ok(false);
        }
        let queue = &stream.inner.queue;
        let enqueue = |wants_event| {
            let event =
                grid.enqueue(queue.raw(), kernel, &[], wants_event).check(operation.as_str(), GRID_CALL)?;
            // SAFETY: the driver returned this event with one reference for the caller.
            if wants_event { unsafe { handle::Event::from_owned(event) }.map(Some) } else { Ok(None) }
        };
        let open = self.state.open.clone();
        let joined = match open {
            Some(open) if open.join(enqueue)? => open,
            _ => {
                let parents = std::mem::take(&mut self.parents);
                let operation = Operation::Fixed("a command of the stream");
                let shared = Fate::shared(queue.try_clone()?, operation, stream.origin(), parents);
                shared.join(enqueue)?;
                shared
            }
        };
        self.is_unseen = false;
        self.current = Some(joined);
        Ok(true)
    }

    /// As [`Submission::launch`] after events of the caller's choice, who goes on to name the event where it is waited for.
    pub(crate) fn launch_after(
        &mut self,
        operation: &Operation,
        kernel: &Kernel,
        grid: &Grid,
        waits: &[cl_event],
    ) -> Result<handle::Event> {
        let queue = self.stream.inner.queue.raw();
        let event = grid.enqueue(queue, kernel, waits, true).check(operation.as_str(), GRID_CALL)?;
        self.is_unseen = true;
        // SAFETY: the driver returned this event with one reference for the caller.
        unsafe { handle::Event::from_owned(event) }
    }

    /// As [`Submission::launch_after`] with nothing to do.
    pub(crate) fn marker_after(
        &mut self,
        operation: &Operation,
        waits: &[cl_event],
    ) -> Result<handle::Event> {
        let (queue, count) = (self.stream.inner.queue.raw(), waits.len() as cl_uint);
        let events = if waits.is_empty() { std::ptr::null() } else { waits.as_ptr() };
        // SAFETY: a live queue; the wait list is valid during the call.
        let event = unsafe { cl::enqueue_marker_with_wait_list(queue, count, events) }
            .check(operation.as_str(), "clEnqueueMarkerWithWaitList")?;
        self.is_unseen = true;
        // SAFETY: the driver returned this event with one reference for the caller.
        unsafe { handle::Event::from_owned(event) }
    }

    /// The events that the next command waits for.
    pub(crate) fn waits(&self) -> &[cl_event] {
        &self.wait_list
    }

    /// Makes the next command wait for these events instead.
    pub(crate) fn set_waits(&mut self, events: impl Iterator<Item = cl_event>) {
        self.wait_list.clear();
        self.wait_list.extend(events);
    }

    /// Whether a command may come to fail, or wait for long, because of an event of the user: each is looked at by itself then. PoCL
    /// also frees the events of such commands too early unless somebody holds them.
    pub(crate) fn is_watched(&self) -> bool {
        self.parents.iter().any(|parent| parent.is_exposed() || parent.is_gated())
    }

    /// Takes over the event of a command that is behind all others.
    pub(crate) fn adopt(&mut self, event: handle::Event) {
        let exposed =
            !self.stream.inner.is_fragile() && self.parents.iter().any(|parent| parent.is_exposed());
        if let Some(open) = self.state.open.take()
            && let Err(error) = open.close_with(&event)
        {
            tracing::debug!(%error, "commands get an event of their own");
        }
        let raw = event.raw();
        let parents = std::mem::take(&mut self.parents);
        let fate = Fate::new(event, self.operation.clone(), self.stream.origin(), parents, exposed);
        self.is_unseen = false;
        self.wait_list.clear();
        if self.stream.inner.desc.order == Order::OutOfOrder {
            self.wait_list.push(raw);
        }
        self.parents.push(Arc::clone(&fate));
        if let Some(profiled) = &mut self.profiled {
            profiled.commands.push(Arc::clone(&fate));
        }
        self.current = Some(fate);
    }

    fn mark(&mut self) -> Result<()> {
        self.push("clEnqueueMarkerWithWaitList", |queue, count, events| {
            // SAFETY: a live queue; the wait list is valid during the call.
            unsafe { cl::enqueue_marker_with_wait_list(queue, count, events) }
        })
    }

    /// The operation's event: the last command's, or a marker's where there was nothing to do.
    pub(crate) fn finish(mut self) -> Result<OpenClEvent> {
        let profiled = self.profiled.take();
        if self.current.is_none() || self.is_unseen {
            self.mark()?;
        }
        let Some(fate) = self.current.clone() else {
            return Err(Error::unavailable(self.operation.as_str(), "the command has no event"));
        };
        if let (Some(profile), Some(Profiling { implementation, commands })) =
            (&self.stream.inner.profile, profiled)
        {
            let operation = self.operation.to_shared();
            profile.push(Execution { operation, implementation, commands, last: Arc::clone(&fate) })?;
        }
        Ok(OpenClEvent { fate })
    }
}

impl Drop for Submission<'_> {
    fn drop(&mut self) {
        // Also after an error half-way: what was enqueued runs.
        if self.is_unseen
            && let Err(error) = self.mark()
        {
            tracing::warn!(%error, "memory of commands whose end cannot be seen is never freed");
            std::mem::forget(std::mem::take(&mut self.held));
        }
        let Some(fate) = self.current.take() else { return };
        fate.hold(std::mem::take(&mut self.held));
        if self.state.open.as_ref().is_some_and(|open| Arc::ptr_eq(open, &fate)) {
            return;
        }
        if self.stream.inner.desc.order == Order::InOrder {
            self.state.last = Some(Arc::clone(&fate));
        }
        self.state.open = fate.is_open().then(|| Arc::clone(&fate));
        self.state.unsettled.push_back(fate);
    }
}

/// Memories as native commands take them.
fn slots<'a>(memories: &[&'a OpenClMemory]) -> SmallVec<[Slot<'a>; 8]> {
    memories.iter().map(|memory| Slot { allocation: &memory.allocation, offset: memory.offset() }).collect()
}

#[cfg(test)]
mod tests;

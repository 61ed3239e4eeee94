//! Events of commands, and events that a test completes.

use std::fmt;
use std::sync::{Arc, OnceLock};

use anydnn_backend::{Error, Event, EventStatus, Result, Timestamps};

use crate::command::{Key, Node, Outcome};
use crate::faults::Point;
use crate::past::Past;
use crate::state::{Counter, Shared, State, Token, short};

/// The completion of a recorded command, or of a [`MockUserEvent`].
///
/// Waiting runs the command and what it needs; by the seed other commands run before it, or none. Waiting for what hangs on a user
/// event that nobody has set is an error, never a hang.
#[derive(Clone)]
pub struct MockEvent {
    inner: Arc<Inner>,
}

struct Inner {
    node: Arc<Node>,
    token: Token,
}

impl MockEvent {
    pub(crate) fn new(shared: &Arc<Shared>, state: &mut State, node: Arc<Node>) -> Self {
        let token = Token::new(shared, state, format!("event of {}", node.name));
        Self { inner: Arc::new(Inner { node, token }) }
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.inner.node
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.token.shared
    }

    /// Waits without counting as a call.
    pub(crate) fn force(&self) -> Result<()> {
        let node = self.node();
        let mut state = self.shared().lock();
        state.force(std::slice::from_ref(node))?;
        state.waited(node);
        node.error().map_or(Ok(()), |error| Err(error.clone()))
    }
}

impl Event for MockEvent {
    fn wait(&self) -> Result<()> {
        let mut state = self.shared().enter(Point::Wait, "wait")?;
        state.log.line(format_args!("wait {}", short(&self.node().name)));
        drop(state);
        self.force()
    }

    fn status(&self) -> Result<EventStatus> {
        let mut state = self.shared().enter(Point::Status, "event status")?;
        let node = self.node();
        let status = match (node.outcome.get(), node.submitted.get()) {
            (Some(Outcome { error: None, .. }), _) => EventStatus::Complete,
            (Some(_), _) => EventStatus::Failed,
            (None, Some(_)) => EventStatus::Submitted,
            (None, None) => EventStatus::Queued,
        };
        // Polling has to come to an end, so it lets the device take a step.
        if !node.is_done() {
            state.step();
        }
        Ok(status)
    }

    fn timestamps(&self) -> Result<Option<Timestamps>> {
        self.shared().lock().faults.lost("timestamps")?;
        let node = self.node();
        Ok(node.outcome.get().map(|outcome| outcome.timestamps).filter(|_| node.profiling))
    }
}

impl fmt::Debug for MockEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MockEvent").field(&self.node().name).finish()
    }
}

/// An event that completes when the test says so; made by [`MockDevice::user_event`](crate::MockDevice::user_event).
///
/// ```
/// use anydnn_backend::{Engine, Event, Stream, StreamDesc};
/// use anydnn_mock::MockDevice;
///
/// let device = MockDevice::new(0);
/// let stream = device.engine().create_stream(&StreamDesc::out_of_order())?;
/// let gate = device.user_event();
/// let held = stream.marker(&[gate.event()])?;
/// assert!(held.wait().unwrap_err().to_string().contains("user event u0"));
/// gate.set_complete()?;
/// held.wait()?;
/// # Ok::<(), anydnn_backend::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MockUserEvent {
    event: MockEvent,
}

impl MockUserEvent {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let mut state = shared.lock();
        let number = state.number(Counter::UserEvent);
        let node = Arc::new(Node {
            key: Key::User(number),
            name: format!("user event u{number}"),
            past: Past::default(),
            profiling: false,
            queued: state.clock.now(),
            submitted: OnceLock::new(),
            outcome: OnceLock::new(),
        });
        Self { event: MockEvent::new(shared, &mut state, node) }
    }

    /// The event to depend on.
    pub fn event(&self) -> MockEvent {
        self.event.clone()
    }

    /// Lets what depends on the event run.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it was set before.
    pub fn set_complete(&self) -> Result<()> {
        self.set("complete", None)
    }

    /// Fails the event; what depends on it reports [`Error::Dependency`] with `cause`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it was set before.
    pub fn set_failed(&self, cause: Error) -> Result<()> {
        self.set("failed", Some(cause))
    }

    fn set(&self, how: &str, error: Option<Error>) -> Result<()> {
        let node = self.event.node();
        let mut state = self.event.shared().lock();
        if node.is_done() {
            return Err(Error::invalid("user event", &*node.name, "set already", "set once"));
        }
        state.log.line(format_args!("set {} {how}", short(&node.name)));
        let now = state.clock.now();
        let timestamps = Timestamps { queued: node.queued, submitted: now, started: now, ended: now };
        state.finish(node, Outcome { error, timestamps });
        Ok(())
    }
}

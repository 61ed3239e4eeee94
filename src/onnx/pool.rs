//! Sessions of one model on several devices, which share a row of inputs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use anydnn_backend::{Backend, Engine, Error, Result};

use super::{Model, Session, SessionOptions, Startup};
use crate::model::HostTensor;

/// Inputs of one execution: names with tensors. Outputs are the same.
pub type Named = Vec<(String, HostTensor)>;

/// Executions that each session has under way: one is prepared while another one computes.
const DEPTH: usize = 2;

/// Inputs on their way for each execution under way; what is told late holds up no more than that.
const AHEAD: usize = 4;

/// Sessions of one model, each on a device of its own, that share the work: whoever is free takes the next input.
///
/// ```
/// use anydnn::model::HostTensor;
/// use anydnn::onnx::{Model, SessionOptions, SessionPool};
/// # fn model() -> anydnn::backend::Result<Model> { Model::load("m.onnx") }
/// # fn run() -> anydnn::backend::Result<()> {
/// let engines = [anydnn_host::HostEngine::new()];
/// let pool = SessionPool::new(&model()?, &engines, &SessionOptions::default())?;
/// let inputs = (0..8).map(|i| vec![("x".to_owned(), HostTensor::from_f32([1], &[i as f32]).unwrap())]);
/// pool.each(inputs, |number, outputs| match outputs {
///     Ok(outputs) => println!("{number}: {}", outputs[0].1.desc()),
///     Err(error) => println!("{number}: {error}"),
/// });
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SessionPool<B: Backend> {
    sessions: Vec<Session<B>>,
}

impl<B: Backend> SessionPool<B> {
    /// A session on each of several engines. Where the options do not say who answers first, each device does: in place of several the one
    /// host would hold up the others.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no engine; as [`Model::compile_with`].
    pub fn new<E>(model: &Model, engines: &[E], options: &SessionOptions) -> Result<Self>
    where
        E: Engine<B = B>,
        B: Backend<Engine = E>,
    {
        let startup = Some(options.startup.unwrap_or(Startup::Device));
        let options = SessionOptions { startup, ..options.clone() };
        let sessions = engines.iter().map(|engine| model.compile_with(engine, &[], &options));
        Self::of(sessions.collect::<Result<_>>()?)
    }

    /// A pool of sessions that are there, of one model.
    ///
    /// # Errors
    /// [`Error::Invalid`] for none.
    pub fn of(sessions: Vec<Session<B>>) -> Result<Self> {
        if sessions.is_empty() {
            return Err(Error::invalid("session pool", "sessions", "none", "at least one"));
        }
        Ok(Self { sessions })
    }

    /// The sessions.
    pub fn sessions(&self) -> &[Session<B>] {
        &self.sessions
    }

    /// Runs the model on each of the inputs, and tells its outputs or its error, in their order, on this thread. An input that is wrong fails
    /// alone. A device that is lost takes no more inputs, and others take those that it had; without any left they fail.
    ///
    /// Inputs are taken from the iterator when they are needed, by one thread at a time.
    pub fn each<I>(&self, inputs: I, mut told: impl FnMut(usize, Result<Named>))
    where
        I: IntoIterator<Item = Named>,
        I::IntoIter: Send,
    {
        let room = self.sessions.len() * DEPTH * AHEAD;
        let row = Row { state: Mutex::new(State::new(inputs.into_iter())), changed: Condvar::new(), room };
        thread::scope(|scope| {
            // Where telling panics, nobody waits for it any more.
            let row = &row;
            let _ending = Ending(row);
            let (sender, results) = channel();
            for session in &self.sessions {
                for _ in 0..DEPTH {
                    let sender = sender.clone();
                    scope.spawn(move || work(session, row, &sender));
                }
            }
            drop(sender);
            let mut early = BTreeMap::new();
            let mut next = 0;
            for (number, result) in results {
                early.insert(number, result);
                while let Some(result) = early.remove(&next) {
                    told(next, result);
                    next += 1;
                    row.pass(next);
                }
            }
            // What no device was left for.
            row.lock().told = usize::MAX - row.room;
            while let Some((number, _)) = row.left() {
                early.insert(number, Err(Error::DeviceLost("no device is left in the pool".into())));
            }
            for (number, result) in early {
                told(number, result);
            }
        });
    }

    /// Runs the model on each of the inputs as [`SessionPool::each`] does, and returns a result for each.
    pub fn run(&self, inputs: Vec<Named>) -> Vec<Result<Named>> {
        let mut all = Vec::with_capacity(inputs.len());
        self.each(inputs, |_, result| all.push(result));
        all
    }
}

/// Takes inputs until there are none, or the device is lost.
fn work<B: Backend, I: Iterator<Item = Named>>(
    session: &Session<B>,
    row: &Row<I>,
    results: &Sender<(usize, Result<Named>)>,
) {
    while let Some((number, input)) = row.take() {
        let given: Vec<_> = input.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
        let made = session.run(&given);
        if made.as_ref().is_err_and(|error| matches!(error.root(), Error::DeviceLost(_))) {
            row.put_back(number, input);
            return;
        }
        // Nobody listens where telling has panicked.
        let _ = results.send((number, made));
        row.finish();
    }
}

/// The inputs that are left.
struct Row<I> {
    state: Mutex<State<I>>,
    changed: Condvar,
    room: usize,
}

struct State<I> {
    inputs: Option<I>,
    next: usize,
    /// Those that a lost device had.
    again: VecDeque<(usize, Named)>,
    under_way: usize,
    told: usize,
}

impl<I> State<I> {
    fn new(inputs: I) -> Self {
        Self { inputs: Some(inputs), next: 0, again: VecDeque::new(), under_way: 0, told: 0 }
    }
}

impl<I: Iterator<Item = Named>> Row<I> {
    /// The next input, when there is room; none where there will be none.
    fn take(&self) -> Option<(usize, Named)> {
        let mut state = self.lock();
        loop {
            if state.inputs.is_none() && state.again.is_empty() && state.under_way == 0 {
                return None;
            }
            if !state.again.is_empty() || state.next < state.told.saturating_add(self.room) {
                let found = Self::found(&mut state);
                if found.is_some() {
                    state.under_way += 1;
                    return found;
                }
                if state.under_way == 0 {
                    self.changed.notify_all();
                    return None;
                }
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// An input that nobody takes.
    fn left(&self) -> Option<(usize, Named)> {
        Self::found(&mut self.lock())
    }

    fn found(state: &mut State<I>) -> Option<(usize, Named)> {
        if let Some(again) = state.again.pop_front() {
            return Some(again);
        }
        let input = state.inputs.as_mut()?.next();
        let Some(input) = input else {
            state.inputs = None;
            return None;
        };
        state.next += 1;
        Some((state.next - 1, input))
    }

    fn put_back(&self, number: usize, input: Named) {
        let mut state = self.lock();
        state.again.push_back((number, input));
        state.under_way -= 1;
        self.changed.notify_all();
    }

    fn finish(&self) {
        self.lock().under_way -= 1;
        self.changed.notify_all();
    }

    /// Notes how many results were told.
    fn pass(&self, told: usize) {
        self.lock().told = told;
        self.changed.notify_all();
    }
}

impl<I> Row<I> {
    fn lock(&self) -> MutexGuard<'_, State<I>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leaves nothing to take.
struct Ending<'a, I>(&'a Row<I>);

impl<I> Drop for Ending<'_, I> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.inputs = None;
        state.again.clear();
        self.0.changed.notify_all();
    }
}

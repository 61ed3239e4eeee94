//! The first answers of a session. Programs of a device take seconds to compile where no cache has them; meanwhile the host computes.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};

use anydnn_backend::{Backend, Engine, Error, Result, Work};
use anydnn_host::{Host, HostEngine};

use super::cancel::Cancel;
use super::{Precision, Session, SessionOptions, lock, ports};
use crate::model::HostTensor;

/// Weights beyond these bytes are not laid out for the host as well: that takes about as long as compiling, and room.
const MOST_WEIGHTS: usize = 512 << 20;

/// Who computes what a session is asked for while the programs of its device are compiled.
///
/// The host's first results and the device's later ones differ as those of two devices do: by the order of sums. With a narrower
/// [`Precision`] the host computes in the model's own types all the same.
///
/// ```
/// use anydnn::onnx::Startup;
///
/// # fn main() -> Result<(), anydnn::backend::Error> {
/// assert_eq!("device".parse::<Startup>()?, Startup::Device);
/// assert_eq!(Startup::default().to_string(), "host");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Startup {
    /// The host, until the device has made its first execution in the background, where the device compiles at all and the weights are at
    /// most 512 MiB. Of executions on tensors of the host; those on memory of the device wait for it.
    #[default]
    Host,
    /// The device: compiling a model and first executions wait for the compiler, and all results are the device's.
    Device,
}

impl Startup {
    /// The environment variable that says it where nothing else does.
    pub const VARIABLE: &'static str = "ANYDNN_STARTUP";

    /// Every one with its name.
    const NAMES: [(Self, &str); 2] = [(Self::Host, "host"), (Self::Device, "device")];

    /// What `ANYDNN_STARTUP` says; the default if it says nothing.
    fn from_env() -> Self {
        let text = std::env::var(Self::VARIABLE).unwrap_or_default();
        if text.is_empty() {
            return Self::default();
        }
        text.parse().unwrap_or_else(|error| {
            tracing::warn!(%error, variable = Self::VARIABLE, "a variable is ignored");
            Self::default()
        })
    }
}

impl fmt::Display for Startup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(own, _)| own == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for Startup {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::NAMES.iter().find(|(_, name)| *name == text);
        found.map(|(own, _)| *own).ok_or_else(|| Error::invalid("startup", "who", text, "host or device"))
    }
}

/// The host in place of a device whose programs are compiled.
#[derive(Debug, Default)]
pub(super) struct Fallback {
    /// The same model on the host; none before and once the device answers.
    session: Mutex<Option<Session<Host>>>,
    /// Whether the device answers from now on.
    is_over: Arc<AtomicBool>,
    /// Signalled with that.
    ended: Condvar,
    /// Whether the device's first execution is on its way.
    is_executing: AtomicBool,
}

impl Fallback {
    fn session(&self) -> Option<Session<Host>> {
        lock(&self.session).clone()
    }

    /// Leaves executions to the device from now on; those of the host end at their next step.
    fn end(&self) {
        let ended = {
            let mut session = lock(&self.session);
            self.is_over.store(true, Ordering::Relaxed);
            self.ended.notify_all();
            session.take()
        };
        // Taking it apart takes as long as a plan does, and nobody waits for it with the lock held.
        drop(ended);
    }
}

impl<B: Backend> Session<B> {
    /// Prepares the device, in the background where the host answers first.
    pub(super) fn start(&self, dims: &[(&str, usize)]) -> Result<()> {
        let inner = &*self.inner;
        let who = inner.options.startup.unwrap_or_else(Startup::from_env);
        if who == Startup::Device || inner.scope.program.weight_bytes() > MOST_WEIGHTS {
            return self.prepare(dims);
        }
        let (session, given) = (self.clone(), owned(dims));
        let (go, wait) = mpsc::channel();
        let ahead = move || {
            // What the host needs for the first answer comes first. Where it fails nobody says so.
            if wait.recv().is_err() {
                return;
            }
            let given: Vec<_> = given.iter().map(|(name, extent)| (name.as_str(), *extent)).collect();
            // Whoever runs the model meets it again.
            if let Err(error) = session.prepare(&given) {
                tracing::debug!(%error, "the device could not be prepared");
            }
        };
        if inner.engine.in_background(Work::new(ahead)).is_some() {
            return self.prepare(dims);
        }
        // The host is no faster in narrower types.
        let options = SessionOptions {
            startup: Some(Startup::Device),
            precision: Precision::Model,
            progress: None,
            ..inner.options.clone()
        };
        match Session::<Host>::new(&inner.model, &HostEngine::new(), dims, &options) {
            Ok(session) => {
                *lock(&inner.fallback.session) = Some(session);
                // The thread is there.
                let _ = go.send(());
            }
            Err(error) => {
                tracing::debug!(%error, "the host does not answer in place of the device");
                return self.prepare(dims);
            }
        }
        Ok(())
    }

    /// Whether the host answers at the moment, because programs of the device are being compiled: see [`Startup`].
    pub fn is_starting(&self) -> bool {
        lock(&self.inner.fallback.session).is_some()
    }

    /// Waits until the device answers. Where no execution was asked for so far, the next one waits for what is still compiled.
    pub fn wait_for_device(&self) {
        let fallback = &self.inner.fallback;
        if !fallback.is_executing.load(Ordering::Acquire) {
            fallback.end();
        }
        let mut session = lock(&fallback.session);
        while session.is_some() {
            session = fallback.ended.wait(session).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What the host computes in place of the device; none where the device is to be asked. The first time, the device begins to compute the
    /// same.
    pub(super) fn fall_back(
        &self,
        inputs: &[(&str, HostTensor)],
        cancel: &Cancel,
    ) -> Result<Option<Vec<(String, HostTensor)>>> {
        let fallback = &self.inner.fallback;
        let Some(session) = fallback.session() else { return Ok(None) };
        let given: Vec<_> = inputs.iter().map(|(name, tensor)| (*name, tensor.desc())).collect();
        ports::fit(&self.inner.inputs, &given)?;
        if !fallback.is_executing.swap(true, Ordering::AcqRel) && !self.begin_first(inputs) {
            fallback.end();
            return Ok(None);
        }
        match session.run_until(inputs, &cancel.or(&fallback.is_over)) {
            Ok(outputs) => Ok(Some(outputs)),
            Err(error) if cancel.is_cancelled() => Err(error),
            Err(error) => {
                if !matches!(error.root(), Error::Cancelled { .. }) {
                    tracing::debug!(%error, "the host failed in place of the device");
                    fallback.end();
                }
                Ok(None)
            }
        }
    }

    /// Begins the device's first execution, behind which it answers; false where that is not done in the background.
    fn begin_first(&self, inputs: &[(&str, HostTensor)]) -> bool {
        let inputs: Vec<_> =
            inputs.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
        let ending = Ending(self.clone());
        let first = move || {
            let inputs: Vec<_> =
                inputs.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
            if let Err(error) = ending.0.run_on_device(&inputs, &Cancel::new()) {
                // The next execution tells it whoever asked for that.
                tracing::warn!(%error, "the device's first execution failed");
            }
        };
        self.inner.engine.in_background(Work::new(first)).is_none()
    }

    /// Lets the device answer from now on.
    pub(super) fn end_startup(&self) {
        self.inner.fallback.end();
    }
}

/// Lets the device answer when it is dropped: behind its first execution, also where that panicked or was never begun.
struct Ending<B: Backend>(Session<B>);

impl<B: Backend> Drop for Ending<B> {
    fn drop(&mut self) {
        self.0.end_startup();
    }
}

fn owned(dims: &[(&str, usize)]) -> Vec<(String, usize)> {
    dims.iter().map(|(name, extent)| ((*name).to_owned(), *extent)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for (own, name) in Startup::NAMES {
            assert_eq!((name.parse::<Startup>().unwrap(), own.to_string().as_str()), (own, name));
        }
        let error = "both".parse::<Startup>().unwrap_err().to_string();
        assert!(error.contains("both") && error.contains("host or device"), "{error}");
    }
}

//! A worker at a time: started when there is none, ended when it is old or unwell.

use std::process::Command;
use std::time::Duration;

use anydnn::backend::Error;

use super::answer::{Answer, Ending};
use super::args::SweepArgs;
use super::process::{Heard, Process};
use crate::failure::{Code, Failure};

/// Cases of a process; then another one begins, so that what drivers keep does not add up.
const MOST_OF_A_PROCESS: usize = 400;
/// How long a worker may take to start; a peer may have to be installed.
const START: Duration = Duration::from_secs(600);

/// What answers cases, whatever becomes of the processes that do so.
#[derive(Debug)]
pub(super) struct Workers<'a> {
    args: &'a SweepArgs,
    worker: Option<Process>,
    /// Cases that the worker has run.
    ran: usize,
    /// What the workers run on, in their words.
    device: String,
    patience: Duration,
    /// How a worker ended that had answered everything.
    late: Option<String>,
}

impl<'a> Workers<'a> {
    /// With a first worker.
    pub(super) fn new(args: &'a SweepArgs) -> Result<Self, Failure> {
        let patience = Duration::from_secs(args.patience);
        let mut workers = Self { args, worker: None, ran: 0, device: String::new(), patience, late: None };
        workers.worker()?;
        Ok(workers)
    }

    /// What cases run on.
    pub(super) fn device(&self) -> &str {
        &self.device
    }

    /// What a worker says to a case, or how it ends.
    pub(super) fn ask(&mut self, case: &str) -> Result<Answer, Failure> {
        let patience = self.patience;
        let heard = self.worker()?.ask(Some(case), patience, Answer::parse);
        self.ran += 1;
        let answer = match heard {
            Heard::Answer(answer) => answer,
            Heard::Ended(how) => Answer::new(Ending::Crashed, how),
            Heard::Silence => Answer::new(Ending::Hung, format!("no answer in {} s", patience.as_secs())),
        };
        // After a failed call the device may be of no use.
        if answer.ending >= Ending::Failed {
            self.worker = None;
        }
        Ok(answer)
    }

    /// Ends the worker; how, where it or one before was not well.
    pub(super) fn close(mut self) -> Option<String> {
        self.retire();
        self.late
    }

    fn worker(&mut self) -> Result<&mut Process, Failure> {
        if self.ran >= MOST_OF_A_PROCESS {
            self.retire();
        }
        let process = match self.worker.take() {
            Some(process) => process,
            None => self.start()?,
        };
        Ok(self.worker.insert(process))
    }

    fn start(&mut self) -> Result<Process, Failure> {
        let backend = self.args.backend.clone().or_else(|| std::env::var("ANYDNN_BACKEND").ok());
        let backend = backend.filter(|name| !name.is_empty()).unwrap_or_else(|| "opencl".to_owned());
        let program = std::env::current_exe().map_err(|error| Error::io("this program", error))?;
        let mut command = Command::new(program);
        command.args(["sweep-worker", &backend]);
        if let Some(peer) = self.args.peer {
            command.args(["--peer", peer.name(), "--rounds", &self.args.rounds.to_string()]);
        }
        let broken = |why: String| {
            let help = "`anydnn devices` lists what is there";
            Failure::new(Code::Unavailable, format!("a worker on {backend} does not start: {why}"), help)
        };
        let mut process = Process::start(&mut command).map_err(|error| broken(error.to_string()))?;
        self.ran = 0;
        match process.ask(None, START, Answer::parse) {
            Heard::Answer(hello) => self.device = hello.why,
            Heard::Ended(how) => return Err(broken(how)),
            Heard::Silence => return Err(broken("it says nothing".into())),
        }
        Ok(process)
    }

    /// Ends the worker in peace.
    fn retire(&mut self) {
        if let Some(end) = self.worker.take().and_then(Process::close) {
            self.late = Some(end);
        }
    }
}

//! A helper: a process that compiles, and how requests and answers are told apart on its pipes.

use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{LONGEST, READY, Start};
use crate::driver::background;
use crate::driver::handle::{self, AtExit};
use crate::program::threads;

/// NVIDIA's driver prepares as many ways for a context to the device as this says, eight by default. A process that compiles needs one, and
/// has its context in half the time.
const ONE_CONNECTION: (&str, &str) = ("CUDA_DEVICE_MAX_CONNECTIONS", "1");

/// A process, and the number and name of the device that it compiles for.
#[derive(Debug)]
pub(super) struct Helper {
    pub(super) device: usize,
    pub(super) name: String,
    /// Whether it was started before anybody asked for a program.
    pub(super) is_early: bool,
    pub(super) child: Child,
    pub(super) input: BufWriter<ChildStdin>,
    pub(super) output: BufReader<ChildStdout>,
}

impl Helper {
    pub(super) fn start(start: &Start, device: usize, name: &str) -> io::Result<Self> {
        let Start { program, args, environment } = start;
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .env(ONE_CONNECTION.0, ONE_CONNECTION.1)
            .envs(environment.iter().cloned());
        // It ends a while after this process, and whoever reads what this one says waits for all who might say more.
        if !tracing::enabled!(tracing::Level::DEBUG) {
            command.stderr(Stdio::null());
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(ErrorKind::BrokenPipe.into());
        };
        let (input, output) = (BufWriter::new(input), BufReader::new(output));
        Ok(Self { device, name: name.into(), is_early: false, child, input, output })
    }

    /// Lets it make its context, and waits for that.
    pub(super) fn make_ready(&mut self) -> io::Result<()> {
        write(&mut self.input, format!("{} {}", self.device, self.name).as_bytes())?;
        self.input.flush()?;
        match read(&mut self.output)? {
            Some(answer) if answer == READY => Ok(()),
            Some(_) => Err(ErrorKind::InvalidData.into()),
            None => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    pub(super) fn ask(&mut self, texts: [&str; 3], trial: &[u8]) -> io::Result<Vec<u8>> {
        let process = self.child.id();
        // This process computes in place of the device meanwhile.
        if background::is_busy() {
            threads::let_yield(process);
        }
        let _asked = Asked::new(process);
        for part in texts {
            write(&mut self.input, part.as_bytes())?;
        }
        write(&mut self.input, trial)?;
        self.input.flush()?;
        read(&mut self.output)?.ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }

    /// Lets the process end, and waits for it.
    pub(super) fn end(self) {
        let Self { mut child, input, .. } = self;
        drop(input);
        let _ = child.wait();
    }
}

/// The processes that are being asked.
static ASKED: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// A process that is being asked, until this is dropped; it is there for as long, be it as one that has ended.
struct Asked(u32);

impl Asked {
    fn new(process: u32) -> Self {
        handle::at_exit(AtExit { before: end_asked, after: || {} });
        asked().push(process);
        Self(process)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        asked().retain(|other| *other != self.0);
    }
}

fn asked() -> MutexGuard<'static, Vec<u32>> {
    ASKED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the processes that are being asked, at this one's exit: whoever waits for an answer would hold it up.
fn end_asked() {
    #[cfg(unix)]
    for &process in &*asked() {
        // SAFETY: it takes two numbers. The process is this one's child, and nobody waits for its end before it is taken off the list.
        unsafe {
            libc::kill(process as libc::pid_t, libc::SIGKILL);
        }
    }
}

/// Writes a message: its length, then its bytes.
pub(super) fn write(output: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    output.write_all(&(bytes.len() as u64).to_le_bytes())?;
    output.write_all(bytes)
}

/// The next message; none at the end.
pub(super) fn read(input: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 8];
    match input.read(&mut length[..1])? {
        0 => return Ok(None),
        _ => input.read_exact(&mut length[1..])?,
    }
    let length = u64::from_le_bytes(length);
    if length > LONGEST {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    input.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == length { Ok(Some(bytes)) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

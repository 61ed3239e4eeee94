//! A worker's process from the outside: what it answers, and how it ends when it does not.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A running process that answers lines with lines.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    requests: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard<T> {
    Answer(T),
    /// The process ended: how, and what it last said on standard error.
    Ended(String),
    /// Nothing in time; the process is gone now.
    Silence,
}

/// Bytes of standard error that are kept, the last ones.
const KEPT: usize = 4096;

impl Process {
    pub(super) fn start(command: &mut Command) -> std::io::Result<Self> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                // A receiver that is gone wants no more.
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let errors = child.stderr.take().map(|stream| std::thread::spawn(move || tail(stream)));
        Ok(Self { requests: child.stdin.take(), child, lines, errors })
    }

    /// Sends a request, if there is one, and waits for the first line that means something.
    pub(super) fn ask<T>(
        &mut self,
        request: Option<&str>,
        patience: Duration,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Heard<T> {
        if let (Some(request), Some(pipe)) = (request, &mut self.requests) {
            // A process that has ended is noticed below.
            let _ = writeln!(pipe, "{request}").and_then(|()| pipe.flush());
        }
        let end = std::time::Instant::now() + patience;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(std::time::Instant::now())) {
                Ok(line) => {
                    if let Some(answer) = parse(&line) {
                        return Heard::Answer(answer);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Heard::Ended(self.finish()),
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.child.kill();
                    self.finish();
                    return Heard::Silence;
                }
            }
        }
    }

    /// Closes its input and waits for its end; says how it ended where that is no success.
    pub(super) fn close(mut self) -> Option<String> {
        self.requests = None;
        let success = self.child.wait().is_ok_and(|status| status.success());
        (!success).then(|| self.finish())
    }

    fn finish(&mut self) -> String {
        self.requests = None;
        let how = match self.child.wait() {
            Ok(status) => told(status),
            Err(error) => error.to_string(),
        };
        let errors = self.errors.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        if errors.trim().is_empty() { how } else { format!("{how}: {}", errors.trim()) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.requests = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn told(status: ExitStatus) -> String {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        if let Some(signal) = status.signal() {
            let name = match signal {
                4 => " (SIGILL)",
                6 => " (SIGABRT)",
                7 => " (SIGBUS)",
                8 => " (SIGFPE)",
                9 => " (SIGKILL)",
                11 => " (SIGSEGV)",
                _ => "",
            };
            return format!("signal {signal}{name}");
        }
    }
    match status.code() {
        Some(70) => "status 70 (bytes around a buffer changed)".to_owned(),
        Some(code) => format!("status {code}"),
        None => "no status".to_owned(),
    }
}

/// The end of a stream's text.
fn tail(mut stream: impl Read) -> String {
    let (mut kept, mut part) = (VecDeque::new(), [0; 1024]);
    while let Ok(count @ 1..) = stream.read(&mut part) {
        kept.extend(&part[..count]);
        kept.drain(..kept.len().saturating_sub(KEPT));
    }
    String::from_utf8_lossy(kept.make_contiguous()).into_owned()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        Process::start(Command::new("sh").args(["-c", script])).expect("a shell")
    }

    fn number(line: &str) -> Option<u32> {
        line.parse().ok()
    }

    #[test]
    fn answers_are_told_from_other_lines() {
        let mut process = shell("while read x; do echo noise; echo $((x + 1)); done");
        assert_eq!(process.ask(Some("4"), Duration::from_secs(20), number), Heard::Answer(5));
        assert_eq!(process.ask(Some("6"), Duration::from_secs(20), number), Heard::Answer(7));
        assert_eq!(process.close(), None);
    }

    #[test]
    fn the_end_of_a_process_is_told_with_its_last_words() {
        let mut process = shell("read x; echo why >&2; kill -ABRT $$");
        let heard = process.ask(Some("1"), Duration::from_secs(20), number);
        assert_eq!(heard, Heard::Ended("signal 6 (SIGABRT): why".into()));
        let mut process = shell("exit 70");
        let Heard::Ended(how) = process.ask(None, Duration::from_secs(20), number) else { panic!("no end") };
        assert!(how.starts_with("status 70"), "{how}");
        assert_eq!(shell("read x; exit 3").close(), Some("status 3".into()));
    }

    #[test]
    fn silence_ends_the_process() {
        let mut process = shell("exec sleep 100");
        assert_eq!(process.ask(Some("1"), Duration::from_millis(50), number), Heard::Silence);
    }
}

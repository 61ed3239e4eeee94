//! Other libraries, each in a process of its own: requests and answers are lines of JSON.

mod clblast;
mod model_file;
mod onednn;
mod pin;
mod python;
mod rten;
mod serve;
mod server;
mod suspend;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use clap::ValueEnum;
use serde_json::{Value, json};

pub(crate) use self::model_file::ModelFile;
pub(crate) use self::serve::serve;
use crate::failure::{Code, Failure};

/// A library to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PeerKind {
    /// oneDNN's own CPU library
    Onednn,
    /// ONNX Runtime on the CPU
    Onnxruntime,
    /// Torch: on the CPU, or on an NVIDIA GPU when that is the device
    Torch,
    /// The tuned OpenCL BLAS, on the same device
    Clblast,
    /// rten, which runs ONNX files on the CPU; where this program has the feature of its name
    Rten,
}

/// A running peer.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) kind: PeerKind,
    /// Its own words for what and where it is.
    pub(crate) version: String,
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// How a peer took a case.
#[derive(Clone, Debug)]
pub(crate) enum Prepared {
    /// It will run it; how, in its own words.
    Ready(String),
    /// It does not do that.
    Refused(String),
}

/// Seconds of several executions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerSample {
    pub(crate) wall: f64,
    /// By the device's clock, where there is one.
    pub(crate) device: Option<f64>,
}

impl PeerKind {
    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Onednn => "onednn",
            Self::Onnxruntime => "onnxruntime",
            Self::Torch => "torch",
            Self::Clblast => "clblast",
            Self::Rten => "rten",
        }
    }

    fn command(self, device: &str, gpu: bool) -> Result<Command, Failure> {
        match self {
            Self::Onednn => onednn::command(),
            Self::Onnxruntime => python::command("onnxruntime", gpu),
            Self::Torch => python::command("torch", gpu),
            Self::Clblast => clblast::command(device),
            Self::Rten => rten::command(),
        }
    }
}

impl Peer {
    /// Starts a peer beside a device, which may be a GPU.
    pub(crate) fn start(
        kind: PeerKind,
        device: &str,
        gpu: bool,
        threads: Option<usize>,
    ) -> Result<Self, Failure> {
        let mut command = kind.command(device, gpu)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let missing = |why: String| {
            let help = format!("without --peer {} the rest is measured", kind.name());
            Failure::new(Code::Unavailable, format!("peer {}: {why}", kind.name()), help)
        };
        let mut child = command
            .spawn()
            .map_err(|error| missing(format!("{}: {error}", command.get_program().display())))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(missing("no pipes".into()));
        };
        let mut peer = Self {
            kind,
            version: String::new(),
            child,
            requests: Some(requests),
            answers: BufReader::new(answers),
        };
        let hello = peer
            .ask(&json!({ "hello": { "gpu": gpu, "threads": threads } }))
            .map_err(|failure| missing(failure.to_string()))?;
        match (hello["version"].as_str(), hello["error"].as_str()) {
            (Some(version), _) => version.clone_into(&mut peer.version),
            (_, error) => return Err(missing(error.unwrap_or("no version").to_owned())),
        }
        Ok(peer)
    }

    /// Describes a case; the one before is forgotten.
    pub(crate) fn prepare(&mut self, case: &Value) -> Result<Prepared, Failure> {
        let answer = self.ask(&json!({ "prepare": case }))?;
        let text = |key: &str| answer[key].as_str().map(str::to_owned);
        match (text("ready"), text("refused")) {
            (Some(note), _) => Ok(Prepared::Ready(note)),
            (None, Some(why)) => Ok(Prepared::Refused(why)),
            _ => Err(self.failed(&answer)),
        }
    }

    /// Runs the case a number of times.
    pub(crate) fn run(&mut self, times: usize) -> Result<PeerSample, Failure> {
        let answer = self.ask(&json!({ "run": times }))?;
        let wall = answer["seconds"].as_f64().ok_or_else(|| self.failed(&answer))?;
        Ok(PeerSample { wall, device: answer["device"].as_f64() })
    }

    /// The outputs of the first set of inputs, as f32, one after the other.
    pub(crate) fn outputs(&mut self) -> Result<Vec<f32>, Failure> {
        let path =
            std::env::temp_dir().join(format!("anydnn-bench-{}-{}", std::process::id(), self.kind.name()));
        let answer = self.ask(&json!({ "read": path.display().to_string() }))?;
        let bytes = std::fs::read(&path).map_err(|_| self.failed(&answer));
        // What is not there need not be removed.
        let _ = std::fs::remove_file(&path);
        Ok(bytes?.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    /// Stops all its threads until the next request: some libraries' spin long after their work.
    pub(crate) fn rest(&self) {
        suspend::suspend(&self.child);
    }

    fn ask(&mut self, request: &Value) -> Result<Value, Failure> {
        suspend::resume(&self.child);
        let sent = self.requests.as_mut().map(|pipe| writeln!(pipe, "{request}").and_then(|()| pipe.flush()));
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        match (sent, read) {
            (Some(Ok(())), Ok(1..)) => {
                serde_json::from_str(&line).map_err(|_| self.failed(&Value::String(line.clone())))
            }
            _ => Err(self.failed(&json!({ "error": "it ended early" }))),
        }
    }

    fn failed(&self, answer: &Value) -> Failure {
        let why = answer["error"].as_str().map_or_else(|| answer.to_string(), str::to_owned);
        let help = "its own messages are above; without this --peer the rest is measured";
        Failure::new(Code::Failed, format!("peer {}: {why}", self.kind.name()), help)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        suspend::resume(&self.child);
        // It ends with its requests.
        self.requests = None;
        let _ = self.child.wait();
    }
}

/// Where the project keeps what it installs outside the repository.
fn cache() -> Result<std::path::PathBuf, Failure> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(std::path::PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(std::env::home_dir()?.join(".cache")));
    base.map(|base| base.join("anydnn")).ok_or_else(|| {
        let help = "set HOME, or XDG_CACHE_HOME to a folder to install into";
        Failure::new(Code::Unavailable, "neither XDG_CACHE_HOME nor HOME names a folder", help)
    })
}

/// Makes a virtual environment with packages, once: a receipt that is written last says which.
fn environment(folder: &Path, packages: &str, flags: &[&str]) -> Result<(), Failure> {
    let packages: Vec<&str> = packages.lines().filter(|line| !line.is_empty()).collect();
    let receipt = folder.join("anydnn-installed");
    if std::fs::read_to_string(&receipt).is_ok_and(|text| text == packages.join("\n")) {
        return Ok(());
    }
    eprintln!("installing {} into {}", packages.join(", "), folder.display());
    let by_hand = |why: String| {
        let help = format!(
            "install by hand: python3 -m venv {0} && {0}/bin/pip install {1}",
            folder.display(),
            packages.join(" ")
        );
        Failure::new(Code::Unavailable, why, help)
    };
    let run = |command: &mut Command| match command.stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(by_hand(format!("{command:?} ended with {status}"))),
        Err(error) => Err(by_hand(format!("{command:?}: {error}"))),
    };
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
    run(Command::new(folder.join("bin/python"))
        .args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"])
        .args(flags)
        .args(&packages))?;
    std::fs::write(&receipt, packages.join("\n")).map_err(|error| by_hand(error.to_string()))
}

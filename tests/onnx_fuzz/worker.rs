//! The process that imports mutated models, with limits of its own.

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anydnn::onnx::{Dim, Model};
use anydnn_host::HostEngine;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::models::Corpus;
use crate::mutate::mutated;

/// Names the file that is told how far the work is.
pub const FILE: &str = "ANYDNN_FUZZ_PROGRESS";
/// The seed of the cases.
pub const SEED: &str = "ANYDNN_FUZZ_WORKER_SEED";
/// The first case.
pub const FIRST: &str = "ANYDNN_FUZZ_FIRST";
/// When to end.
pub const NANOSECONDS: &str = "ANYDNN_FUZZ_NANOSECONDS";

/// The address space of the process.
const SPACE: u64 = 2 << 30;
/// The most that one case may compute.
const MOST: u64 = 10_000_000_000;

/// How far the work is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Cases that were begun.
    pub cases: u64,
    /// Cases that are a model's message.
    pub decoded: u64,
    /// Cases that are a graph.
    pub imported: u64,
    /// Cases that are compiled.
    pub compiled: u64,
    /// Time of the processor.
    pub nanoseconds: u64,
}

impl Progress {
    /// The sum with what came after.
    pub fn after(self, later: &Self) -> Self {
        Self {
            cases: self.cases + later.cases,
            decoded: self.decoded + later.decoded,
            imported: self.imported + later.imported,
            compiled: self.compiled + later.compiled,
            nanoseconds: self.nanoseconds + later.nanoseconds,
        }
    }

    pub fn bytes(self) -> [u8; 40] {
        let numbers = [self.cases, self.decoded, self.imported, self.compiled, self.nanoseconds];
        let mut bytes = [0; 40];
        for (part, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            part.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    pub fn from_bytes(bytes: &[u8; 40]) -> Self {
        let number = |index: usize| u64::from_le_bytes(bytes[index * 8..][..8].try_into().unwrap());
        Self {
            cases: number(0),
            decoded: number(1),
            imported: number(2),
            compiled: number(3),
            nanoseconds: number(4),
        }
    }
}

/// How far a file came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Came {
    Nothing,
    Decoded,
    Imported,
    Compiled,
}

/// Imports cases until the time is over.
pub fn run() {
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let (seed, first, end) = (number(SEED), number(FIRST), number(NANOSECONDS));
    let file = std::fs::File::options().write(true).open(std::env::var_os(FILE).unwrap()).unwrap();
    let corpus = Corpus::load();
    setrlimit(Resource::As, Rlimit { current: Some(SPACE), maximum: Some(SPACE) }).unwrap();
    let engine = HostEngine::new();
    watch();
    let mut progress = Progress::default();
    let start = time();
    while progress.nanoseconds < end {
        progress.cases += 1;
        file.write_all_at(&progress.bytes(), 0).unwrap();
        let bytes = mutated(&corpus, seed, first + progress.cases - 1);
        BEGUN.store(time(), Ordering::Relaxed);
        let came = import(&bytes, &engine);
        BEGUN.store(u64::MAX, Ordering::Relaxed);
        progress.decoded += u64::from(came >= Came::Decoded);
        progress.imported += u64::from(came >= Came::Imported);
        progress.compiled += u64::from(came >= Came::Compiled);
        progress.nanoseconds = time() - start;
        file.write_all_at(&progress.bytes(), 0).unwrap();
    }
}

/// Reads a file as a user would, with small values for what is open.
pub fn import(bytes: &[u8], engine: &HostEngine) -> Came {
    let Ok(model) = Model::from_bytes(bytes) else { return Came::Nothing };
    let Ok(inputs) = model.inputs() else { return Came::Decoded };
    let mut names: Vec<String> = Vec::new();
    for dim in inputs.into_iter().flat_map(|input| input.dims) {
        if let Dim::Open(name) = dim
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    let dims: Vec<(&str, usize)> =
        names.iter().enumerate().map(|(i, name)| (name.as_str(), 1 + i % 3)).collect();
    let graph = model.graph(&dims);
    // What is no single graph may still be compiled, in parts.
    match (model.compile(engine, &dims), graph) {
        (Ok(_), _) => Came::Compiled,
        (Err(_), Ok(_)) => Came::Imported,
        (Err(_), Err(_)) => Came::Decoded,
    }
}

/// When the case that runs was begun, by the clock of [`time`].
static BEGUN: AtomicU64 = AtomicU64::new(u64::MAX);

/// Ends the process when a case computes for too long.
fn watch() {
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(Duration::from_millis(200));
            if time().saturating_sub(BEGUN.load(Ordering::Relaxed)) > MOST {
                eprintln!("one case computes for more than {} s", MOST / 1_000_000_000);
                std::process::exit(9);
            }
        }
    });
}

/// Nanoseconds that the process computed.
fn time() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

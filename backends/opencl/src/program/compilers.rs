//! Compilers: as many at a time as there are cores, in this process and, where a driver compiles one program at a time within a process
//! however many threads ask, in helpers: processes of the same program. Where it compiles a kernel at its first launch (PoCL), a helper
//! launches one work-item, and this process finds the kernel in what the driver keeps.

mod early;
mod helper;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anydnn_backend::{DeviceKind, Error, Probe, Result};

pub(crate) use self::early::expect_work;
use self::helper::{Helper, read, write};
use crate::driver::create::create_context;
use crate::driver::handle::{self, Context};
use crate::driver::platform::{OpenClDevice, before_devices, devices};
use crate::program::Program;
use crate::program::trial::Trial;

/// The most processes: each has a context on the device, and memory there.
const MOST: usize = 15;

/// The most that launch kernels.
const MOST_THAT_LAUNCH: usize = 8;

/// Bytes of a GPU's memory for each: a context takes a quarter of that on an H200.
const MEMORY_OF_EACH: u64 = 2 << 30;

/// How many make their contexts at a time. Drivers make one at a time (NVIDIA's takes 0.05 s for each), so that of many at once each has its
/// own only when the last one has.
const AT_ONCE: usize = 3;

/// How long processes without work stay: another model may follow.
const REST: Duration = Duration::from_secs(1);

/// How long who waits for a compiler does so before it looks whether the process exits.
const LOOK: Duration = Duration::from_millis(50);

/// What a process says once it has its context.
const READY: &[u8] = b"ready";

/// The answer where a kernel was launched.
const LAUNCHED: &[u8] = b"launched";

/// What stands in the place of a program's name where a feature is to be probed, whose name is next.
const PROBE: &str = "?";

/// The weight from which on programs are left to other processes: while this one compiles, it loads nothing of theirs.
const HEAVY: usize = 12 << 20;

/// The most bytes of a message: anything longer is no message.
const LONGEST: u64 = 1 << 30;

/// How a process is started.
struct Start {
    program: PathBuf,
    args: Vec<OsString>,
    /// The environment before drivers are loaded: with the later one, processes were seen to find no device of NVIDIA's.
    environment: Vec<(OsString, OsString)>,
}

static START: OnceLock<Start> = OnceLock::new();

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

/// Told where a program has been compiled.
static FREED: Condvar = Condvar::new();

struct Pool {
    /// The programs that this process compiles at the moment.
    here: usize,
    idle: Vec<Helper>,
    /// Of all, those with work and those that start too.
    count: usize,
    /// The devices of those that start.
    starting: Vec<usize>,
    /// Those that wait to make their contexts.
    unready: VecDeque<Helper>,
    /// Those that load their drivers before anybody has asked for a program.
    early: Vec<Helper>,
    /// Threads that see to those.
    starters: usize,
    /// How many did not start: as many programs are compiled here.
    failed: usize,
    /// When the last one was given back.
    since: Option<Instant>,
    /// Who waits for a compiler.
    waiting: Vec<Request>,
    /// How many have waited so far.
    entered: u64,
}

/// A program that waits for a compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    /// The device, by its number, and whether a kernel is going to be launched: others wait for other compilers.
    queue: (Option<usize>, bool),
    /// About how long it takes: the longest goes first, so that none runs alone at the end.
    weight: usize,
    number: u64,
}

/// What compiles a program.
enum Worker {
    Here,
    Helper(Helper),
}

impl Pool {
    const fn new() -> Self {
        Self {
            here: 0,
            idle: Vec::new(),
            count: 0,
            starting: Vec::new(),
            unready: VecDeque::new(),
            early: Vec::new(),
            starters: 0,
            failed: 0,
            since: None,
            waiting: Vec::new(),
            entered: 0,
        }
    }

    fn enter(&mut self, queue: (Option<usize>, bool), weight: usize) -> Request {
        self.entered += 1;
        let request = Request { queue, weight, number: self.entered };
        self.waiting.push(request);
        request
    }

    fn leave(&mut self, request: Request) {
        self.waiting.retain(|other| *other != request);
    }

    /// Whether of those who wait for the same compilers, with a weight below this one, nobody goes before.
    fn is_next(&self, request: Request, below: usize) -> bool {
        let goes_before = |other: &Request| {
            other.queue == request.queue
                && other.weight < below
                && (other.weight, request.number) > (request.weight, other.number)
        };
        !self.waiting.iter().any(goes_before)
    }

    /// A compiler that is free, of so many in this process and those in others.
    fn find(&mut self, device: Option<usize>, here: usize) -> Option<Worker> {
        // This process needs no start.
        if self.here < here {
            self.here += 1;
            return Some(Worker::Here);
        }
        let device = device?;
        if let Some(at) = self.idle.iter().position(|helper| helper.device == device) {
            return Some(Worker::Helper(self.idle.swap_remove(at)));
        }
        (self.failed > 0).then(|| {
            self.failed -= 1;
            self.here += 1;
            Worker::Here
        })
    }

    /// Whether another process shall start: not all who wait will get one of those that start already.
    fn wants(&self, device: usize, most: usize) -> bool {
        let starting = self.starting.iter().filter(|&&starting| starting == device).count();
        self.count < most && starting + self.failed < self.waiting_for(device)
    }

    fn waiting_for(&self, device: usize) -> usize {
        self.waiting.iter().filter(|request| request.queue.0 == Some(device)).count()
    }
}

/// Where a program is compiled, as long as that takes.
#[derive(Debug)]
pub(crate) struct Compiler {
    /// None: in this process.
    helper: Option<Helper>,
}

/// Keeps how such processes are started. `is_first` tells that no earlier process has left programs, so that there is much to compile.
pub(crate) fn start_with(program: PathBuf, args: Vec<OsString>, is_first: bool) {
    let start = Start { program, args, environment: std::env::vars_os().collect() };
    if START.set(start).is_err() || !is_first {
        return;
    }
    if early::has_slow_driver() {
        early::start_once();
    } else {
        // Whether there is work for them shows with the first look at devices.
        before_devices(early::start_once);
    }
}

/// The most processes that compile for a device.
fn most(device: &OpenClDevice) -> usize {
    if !device.compiles_one_at_a_time() {
        return most_that_launch();
    }
    let cores = MOST.min(cores().saturating_sub(1));
    match device.kind() {
        DeviceKind::Cpu => cores,
        _ => cores.min((device.limits().memory_bytes / MEMORY_OF_EACH) as usize),
    }
}

/// The most that launch kernels there.
fn most_that_launch() -> usize {
    MOST_THAT_LAUNCH.min(cores())
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The place of a device among those of this process.
fn number(device: &OpenClDevice) -> Option<usize> {
    devices().ok()?.iter().position(|known| known.raw_device() == device.raw_device())
}

/// Answers requests as [`serve_compiler`](crate::serve_compiler) does; `probe` answers those for a feature.
pub(crate) fn serve(
    mut input: impl Read,
    mut output: impl Write,
    probe: impl Fn(&OpenClDevice, &Context, &str) -> Result<Vec<u8>>,
) -> Result<()> {
    let failed =
        |error: io::Error| Error::invalid("serve compiler", "input", error.to_string(), "whole requests");
    // Drivers are loaded while others make their contexts.
    let found = devices();
    let Some(first) = read(&mut input).map_err(failed)? else { return Ok(()) };
    let wanted = String::from_utf8_lossy(&first);
    let (index, name) = wanted.split_once(' ').unwrap_or_default();
    let found = found?;
    let device =
        index.parse().ok().and_then(|index: usize| found.get(index)).filter(|device| device.name() == name);
    let device = device.ok_or_else(|| {
        Error::invalid("serve compiler", "device", wanted.as_ref(), "the number and name of a device")
    })?;
    let context = create_context(device, "serve compiler")?;
    write(&mut output, READY).and_then(|()| output.flush()).map_err(failed)?;
    while let Some(name) = read(&mut input).map_err(failed)? {
        let mut text = || -> io::Result<String> {
            let bytes = read(&mut input)?.ok_or(ErrorKind::UnexpectedEof)?;
            String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
        };
        let (options, source) = (text().map_err(failed)?, text().map_err(failed)?);
        let trial = read(&mut input).and_then(|bytes| bytes.ok_or(ErrorKind::UnexpectedEof.into()));
        let trial = trial.map_err(failed)?;
        let name = String::from_utf8_lossy(&name);
        if name == PROBE {
            let answer = probe(device, &context, &options)?;
            write(&mut output, &answer).and_then(|()| output.flush()).map_err(failed)?;
            continue;
        }
        let built = Program::build(&context, device, &name, &source, &options);
        let answer = built.and_then(|program| match Trial::read(&trial) {
            Some(trial) => trial.launch(&context, device, Arc::new(program)).map(|()| LAUNCHED.to_vec()),
            None => Ok(program.binary()?.unwrap_or_default()),
        });
        let answer = answer.inspect_err(|error| tracing::debug!(%error, "not compiled"));
        let answer = answer.unwrap_or_default();
        write(&mut output, &answer).and_then(|()| output.flush()).map_err(failed)?;
    }
    Ok(())
}

/// Whether other processes compile for a device because its driver compiles one program at a time.
pub(crate) fn has_others(device: &OpenClDevice) -> bool {
    START.get().is_some() && device.compiles_one_at_a_time()
}

/// What a probe finds in another process that compiles for the device; nothing where there is none, or it does not find that the feature works.
pub(crate) fn probe_elsewhere(device: &OpenClDevice, feature: &str) -> Option<Probe> {
    if !has_others(device) {
        return None;
    }
    let answer = Compiler::that_launches(device, usize::MAX).ask([PROBE, feature, ""], &[])?;
    let (&works, detail) = answer.split_first()?;
    let detail = std::str::from_utf8(detail).ok()?.into();
    Some(Probe { works: works == 1, detail }).filter(|probe| probe.works)
}

impl Compiler {
    /// Waits for one that is free, for a device and a text that takes about so long. Threads that wait for one another's programs take none, so that
    /// more threads than compilers find work for all of them.
    pub(crate) fn of(device: &OpenClDevice, weight: usize) -> Self {
        Self::or_launcher(device, weight, false)
    }

    /// One that launches kernels for [`Compiler::launch`], where there are other processes.
    pub(crate) fn that_launches(device: &OpenClDevice, weight: usize) -> Self {
        Self::or_launcher(device, weight, true)
    }

    fn or_launcher(device: &OpenClDevice, weight: usize, launches: bool) -> Self {
        let helped = START.get().filter(|_| launches || device.compiles_one_at_a_time());
        let start = helped.and_then(|start| Some((start, number(device)?)));
        let (here, most) = match start {
            Some(_) if launches => (0, most_that_launch()),
            Some(_) => (usize::from(weight < HEAVY), most(device)),
            None => (cores(), 0),
        };
        let number = start.map(|(_, index)| index);
        let mut pool = lock();
        let request = pool.enter((number, launches), weight);
        loop {
            // Nobody compiles in a process that exits.
            if handle::is_leaving() {
                pool.leave(request);
                pool.here += 1;
                return Self { helper: None };
            }
            // What this process compiles waits for nothing that it leaves to others.
            let below = if pool.here < here && start.is_some() { HEAVY } else { usize::MAX };
            let worker = if pool.is_next(request, below) { pool.find(number, here) } else { None };
            if let Some(worker) = worker {
                pool.leave(request);
                drop(pool);
                // Another one may be free for who is next now.
                FREED.notify_all();
                let helper = match worker {
                    Worker::Here => None,
                    Worker::Helper(helper) => Some(helper),
                };
                return Self { helper };
            }
            match start {
                Some((start, index)) if pool.wants(index, most) => {
                    match Helper::start(start, index, device.name()) {
                        Ok(helper) => begin(&mut pool, helper),
                        Err(error) => {
                            tracing::debug!(%error, "no process that compiles");
                            pool.failed += 1;
                        }
                    }
                }
                _ => pool = FREED.wait_timeout(pool, LOOK).unwrap_or_else(PoisonError::into_inner).0,
            }
        }
    }

    /// Whether it is another process.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.helper.is_some()
    }

    /// The binary of a program that another process has compiled; none where this one has to compile it.
    pub(crate) fn compile(&mut self, name: &str, source: &str, options: &str) -> Option<Vec<u8>> {
        self.ask([name, options, source], &[])
    }

    /// Lets another process compile a program and one of its kernels, as far as the driver keeps that for this one. Whether it has.
    pub(crate) fn launch(&mut self, name: &str, source: &str, options: &str, trial: &Trial) -> bool {
        trial.bytes().and_then(|bytes| self.ask([name, options, source], &bytes)).is_some()
    }

    fn ask(&mut self, texts: [&str; 3], trial: &[u8]) -> Option<Vec<u8>> {
        match self.helper.as_mut()?.ask(texts, trial) {
            // It could not be built: building it here says why.
            Ok(answer) => Some(answer).filter(|answer| !answer.is_empty()),
            Err(error) => {
                tracing::debug!(%error, "a process that compiles has failed");
                let mut pool = lock();
                pool.count -= 1;
                pool.here += 1;
                drop(pool);
                self.helper.take()?.end();
                None
            }
        }
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        match self.helper.take() {
            Some(helper) => give(helper),
            None => lock().here -= 1,
        }
        FREED.notify_all();
    }
}

/// Lets a process make its context, with which it is of use.
fn begin(pool: &mut Pool, helper: Helper) {
    if pool.starters < AT_ONCE {
        match thread::Builder::new().name("anydnn-helpers".into()).spawn(make_ready) {
            Ok(_) => pool.starters += 1,
            Err(error) => tracing::debug!(%error, "no thread for processes that compile"),
        }
    }
    // Nobody would see to it.
    if pool.starters == 0 {
        pool.failed += 1;
        helper.end();
        return;
    }
    pool.count += 1;
    pool.starting.push(helper.device);
    pool.unready.push_back(helper);
}

/// Lets the processes that start make their contexts, as long as somebody waits for them.
fn make_ready() {
    let mut pool = lock();
    while let Some(mut helper) = pool.unready.pop_front() {
        let device = helper.device;
        let is_wanted = helper.is_early || pool.waiting_for(device) > 0;
        drop(pool);
        let ready = if is_wanted { helper.make_ready() } else { Ok(()) };
        pool = lock();
        if let Some(at) = pool.starting.iter().position(|&starting| starting == device) {
            pool.starting.swap_remove(at);
        }
        if is_wanted && ready.is_ok() {
            drop(pool);
            give(helper);
            FREED.notify_all();
        } else {
            pool.count -= 1;
            if let Err(error) = ready {
                tracing::debug!(%error, "a process that compiles has no context");
                pool.failed += 1;
            }
            drop(pool);
            FREED.notify_all();
            helper.end();
        }
        pool = lock();
    }
    pool.starters -= 1;
}

fn give(helper: Helper) {
    let mut pool = lock();
    pool.idle.push(helper);
    rest(pool);
}

/// Lets the processes without work end after a while.
fn rest(mut pool: MutexGuard<'static, Pool>) {
    let has_thread = pool.since.replace(Instant::now()).is_some();
    drop(pool);
    if !has_thread && thread::Builder::new().name("anydnn-compilers".into()).spawn(watch).is_err() {
        lock().since = None;
    }
}

/// Ends the processes that had no work for a while.
fn watch() {
    loop {
        thread::sleep(REST / 4);
        let mut pool = lock();
        let rests = pool.since.is_none_or(|since| since.elapsed() >= REST);
        let mut ended = if rests { std::mem::take(&mut pool.idle) } else { Vec::new() };
        pool.count -= ended.len();
        if rests {
            ended.append(&mut pool.early);
        }
        let is_last = pool.count == 0 && pool.early.is_empty();
        if is_last {
            pool.since = None;
        }
        drop(pool);
        ended.into_iter().for_each(Helper::end);
        FREED.notify_all();
        if is_last {
            return;
        }
    }
}

fn lock() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

//! Programs for one shape. What serves every shape is compiled first; a kernel that is faster by numbers that its compiler knows, and that
//! has computed for so long that compiling pays, gets a program of its own in the background, which the next execution takes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use anydnn_backend::{DeviceKind, Specialize};

use crate::driver::handle::{self, AtExit};
use crate::plan::SpecialProgram;
use crate::program::kernels::KernelPool;
use crate::program::threads;

/// What `ANYDNN_SPECIALIZE` says; the default if it says nothing.
pub(crate) fn from_env() -> Specialize {
    let text = std::env::var(Specialize::VARIABLE).unwrap_or_default();
    if text.is_empty() {
        return Specialize::default();
    }
    text.parse().unwrap_or_else(|error| {
        tracing::warn!(%error, variable = Specialize::VARIABLE, "a variable is ignored");
        Specialize::default()
    })
}

/// Operations that a core of a processor makes within a nanosecond, about, and a compute unit of another device.
const RATE: u64 = 32;
const UNIT_RATE: u64 = 256;

/// What a compilation takes, as long as an engine has not seen one, in nanoseconds.
const COMPILATION: u64 = 300_000_000;

/// The most programs for one shape that an engine keeps.
const MOST: usize = 128;

/// The kernels of one launch for its shape alone.
#[derive(Debug, Default)]
pub(crate) struct SpecialKernels {
    kernels: RwLock<Option<Arc<KernelPool>>>,
    is_ready: AtomicBool,
    /// For how many nanoseconds the other kernels have computed, about.
    spent: AtomicU64,
    /// When they were last used, by [`CLOCK`].
    used: AtomicU64,
}

/// Counts uses of special kernels.
static CLOCK: AtomicU64 = AtomicU64::new(1);

impl SpecialKernels {
    /// Whether the kernels are made and were not dropped for others. Each time counts as a use of theirs.
    pub(crate) fn is_ready(&self) -> bool {
        let is_ready = self.is_ready.load(Ordering::Relaxed);
        if is_ready {
            self.used.store(CLOCK.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        }
        is_ready
    }

    /// The kernels, if they are made.
    pub(crate) fn kernels(&self) -> Option<Arc<KernelPool>> {
        self.kernels.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts kernels in place; without any the launch starts to earn them again.
    fn set(&self, kernels: Option<KernelPool>) {
        self.is_ready.store(kernels.is_some(), Ordering::Relaxed);
        self.used.store(CLOCK.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        self.spent.store(0, Ordering::Relaxed);
        *self.kernels.write().unwrap_or_else(PoisonError::into_inner) = kernels.map(Arc::new);
    }

    /// Counts an execution on a device. Tells once that the program pays, which takes this time to compile.
    pub(crate) fn pays(
        &self,
        own: &SpecialProgram,
        (kind, units): (DeviceKind, usize),
        compilation: Option<Duration>,
    ) -> bool {
        let rate = if kind == DeviceKind::Cpu { RATE } else { UNIT_RATE };
        let time = own.operations / (rate * units as u64) + 1;
        let spent = self.spent.fetch_add(time, Ordering::Relaxed);
        let compilation = compilation.map_or(COMPILATION, |time| time.as_nanos() as u64);
        let enough = compilation.saturating_mul(own.share);
        spent < enough && spent + time >= enough
    }
}

/// The special kernels that an engine keeps. Beyond [`MOST`] those go that were not used for longest: a session that meets ever new shapes
/// does not grow by them.
#[derive(Debug, Default)]
pub(crate) struct SpecialStore {
    kept: Mutex<Vec<Weak<SpecialKernels>>>,
}

impl SpecialStore {
    /// Gives a launch its special kernels.
    pub(crate) fn keep(&self, launch: &Arc<SpecialKernels>, kernels: KernelPool) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // Launches whose primitives are gone have taken their kernels with them.
        kept.retain(|other| other.strong_count() > 0);
        while kept.len() >= MOST {
            let age =
                |other: &Weak<SpecialKernels>| other.upgrade().map_or(0, |o| o.used.load(Ordering::Relaxed));
            let Some(oldest) = (0..kept.len()).min_by_key(|&i| age(&kept[i])) else { break };
            if let Some(other) = kept.swap_remove(oldest).upgrade() {
                other.set(None);
            }
        }
        launch.set(Some(kernels));
        kept.push(Arc::downgrade(launch));
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// What is to be compiled, one after another.
struct Queue {
    jobs: VecDeque<Job>,
    has_thread: bool,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { jobs: VecDeque::new(), has_thread: false });

/// Whether the thread may be in a call into a driver.
static BUSY: AtomicBool = AtomicBool::new(false);

/// The longest that the process's exit waits for a compilation: drivers tear their compilers down then.
const LONGEST: Duration = Duration::from_secs(10);

/// Does a job on a thread of low priority, after those before it.
pub(crate) fn later(job: impl FnOnce() + Send + 'static) {
    handle::at_exit(AtExit { before: || {}, after: settle });
    let mut queue = lock();
    queue.jobs.push_back(Box::new(job));
    if !queue.has_thread {
        queue.has_thread = thread::Builder::new().name("anydnn-special".into()).spawn(work).is_ok();
    }
    if !queue.has_thread {
        tracing::warn!("no thread to compile programs for one shape");
        queue.jobs.clear();
    }
}

/// Whether nothing is left to do.
#[cfg(test)]
pub(crate) fn is_idle() -> bool {
    let queue = lock();
    queue.jobs.is_empty() && !BUSY.load(Ordering::SeqCst)
}

fn work() {
    yield_to_others();
    threads::compile_on_this_one();
    loop {
        let job = {
            let mut queue = lock();
            let Some(job) = queue.jobs.pop_front() else {
                queue.has_thread = false;
                return;
            };
            BUSY.store(true, Ordering::SeqCst);
            job
        };
        fence(Ordering::SeqCst);
        if handle::is_leaving() {
            std::mem::forget(job);
        } else {
            job();
        }
        BUSY.store(false, Ordering::SeqCst);
    }
}

/// Gives this thread the lowest priority.
fn yield_to_others() {
    #[cfg(target_os = "linux")]
    // SAFETY: it changes this thread's priority alone, which Linux tells by the number of the thread, here the caller's own.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, 19);
    }
}

/// Waits while the thread is in a call into a driver, at the process's exit.
fn settle() {
    fence(Ordering::SeqCst);
    let start = Instant::now();
    while BUSY.load(Ordering::SeqCst) && start.elapsed() < LONGEST {
        thread::sleep(Duration::from_millis(1));
    }
}

fn lock() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use anydnn_backend::conformance::values::Random;
    use anydnn_backend::op::Convolution;
    use anydnn_backend::{
        Arg, DataType, Engine, Event, MapMode, Memory, MemoryDesc, MemoryKind, Op, PrimitiveDesc, Stream,
        StreamDesc,
    };

    use super::*;
    use crate::backend::primitive::Form;
    use crate::plan::{KernelPlan, ProgramSource, SpecialText};
    use crate::program::kernels::{Addresses, Fixed};
    use crate::testing::{shared_test_engines, test_engines};
    use crate::{DiskCache, OpenClEngine, OpenClMemory, OpenClPrimitive};

    fn convolution(channels: usize, groups: usize) -> PrimitiveDesc {
        let image = |channels| MemoryDesc::with_tag([1, channels, 9, 15], DataType::F32, "acdb").unwrap();
        let op = Convolution::new(2).with_pads([1, 1], [1, 1]).with_groups(groups);
        PrimitiveDesc::builder(Op::Convolution(op))
            .src(image(channels))
            .weights(MemoryDesc::new([40, channels / groups, 3, 3], DataType::F32).to_any())
            .dst(image(40))
            .build()
            .unwrap()
    }

    /// The plan on a processor, whose special programs are to be made at once.
    fn plan(engine: &OpenClEngine, desc: &PrimitiveDesc) -> KernelPlan {
        let mut plan = crate::primitive::plan(desc, &engine.traits()).unwrap();
        let own: Vec<_> = plan.launches.iter_mut().filter_map(|launch| launch.special.as_mut()).collect();
        assert_eq!(own.len(), 1, "{}", plan.implementation);
        for own in own {
            own.operations = u64::MAX / 2;
        }
        plan
    }

    /// A text that no compiler takes.
    fn broken() -> SpecialText {
        let source = "kernel void broken(".into();
        SpecialText::Own(ProgramSource { name: "broken".into(), source, options: String::new() })
    }

    struct Work {
        primitive: OpenClPrimitive,
        args: Vec<(Arg, OpenClMemory)>,
    }

    impl Work {
        fn new(engine: &OpenClEngine, plan: KernelPlan) -> Self {
            let primitive = OpenClPrimitive::from_plan(engine, plan).unwrap();
            let stream = engine.create_stream(&StreamDesc::default()).unwrap();
            let desc = anydnn_backend::Primitive::desc(&primitive).clone();
            let args = [Arg::SRC, Arg::Weights, Arg::DST].map(|arg| {
                let desc = desc.find(arg).unwrap();
                let memory = engine.create_memory(desc, MemoryKind::Buffer).unwrap();
                let mut random = Random::new(desc.size() as u64);
                let bytes: Vec<u8> = (0..desc.size() / 4)
                    .flat_map(|_| (random.below(2001) as f32 / 1000.0 - 1.0).to_ne_bytes())
                    .collect();
                stream.write(&memory, 0, &bytes, &[]).unwrap();
                stream.wait().unwrap();
                (arg, memory)
            });
            Self { primitive, args: args.into() }
        }

        fn result(&self, engine: &OpenClEngine) -> Vec<u8> {
            let stream = engine.create_stream(&StreamDesc::default()).unwrap();
            stream.execute(&self.primitive, &self.args, &[]).unwrap().wait().unwrap();
            self.args[2].1.map(MapMode::Read).unwrap().bytes().to_vec()
        }

        /// Which kernels the next execution takes, after all that was asked for.
        fn forms(&self) -> Vec<Form> {
            while !is_idle() {
                thread::sleep(Duration::from_millis(1));
            }
            (0..anydnn_backend::Primitive::launches(&self.primitive))
                .map(|i| self.primitive.form(i, true))
                .collect()
        }
    }

    #[test]
    fn both_programs_give_the_same_bits() {
        for found in test_engines() {
            let engine = |choice| {
                let engine = OpenClEngine::on_device(found.opencl_device()).unwrap();
                engine.with_disk_cache(DiskCache::off()).with_specialization(choice)
            };
            for desc in [convolution(5, 1), convolution(40, 40)] {
                let background = engine(Specialize::Background);
                let work = Work::new(&background, plan(&background, &desc));
                let general = work.result(&background);
                assert!(work.forms().contains(&Form::Special), "{desc:?}");
                assert_eq!(work.result(&background), general, "{desc:?}");
                for (choice, same) in [(Specialize::Never, true), (Specialize::Eager, false)] {
                    let engine = engine(choice);
                    let work = Work::new(&engine, plan(&engine, &desc));
                    assert_eq!(work.result(&engine), general, "{choice:?}: {desc:?}");
                    assert!(!work.forms().contains(&Form::Special), "{choice:?}");
                    let mut plan = plan(&engine, &desc);
                    for own in plan.launches.iter_mut().filter_map(|launch| launch.special.as_mut()) {
                        own.text = broken();
                    }
                    assert_eq!(OpenClPrimitive::from_plan(&engine, plan).is_ok(), same, "{choice:?}");
                }
            }
        }
    }

    #[test]
    fn what_does_not_compile_leaves_the_program_for_every_shape() {
        for engine in shared_test_engines() {
            let mut plan = plan(&engine, &convolution(5, 1));
            for own in plan.launches.iter_mut().filter_map(|launch| launch.special.as_mut()) {
                own.text = broken();
            }
            let work = Work::new(&engine, plan);
            let first = work.result(&engine);
            assert!(!work.forms().contains(&Form::Special));
            assert_eq!(work.result(&engine), first);
        }
    }

    #[test]
    fn the_programs_that_were_not_used_for_longest_go_and_may_be_earned_again() {
        let engine = shared_test_engines().remove(0);
        let pool = || {
            let source = "kernel void one(global uchar *dst, ulong at) { dst[at] = 1; }".into();
            let source = ProgramSource { name: "one".into(), source, options: String::new() };
            let inner = &engine.inner;
            let program = inner.programs.program(&inner.context, &inner.device, &source, "").unwrap();
            KernelPool::new(program, "one", Fixed::default()).unwrap()
        };
        let store = SpecialStore::default();
        let launches: Vec<_> = (0..=MOST).map(|_| Arc::new(SpecialKernels::default())).collect();
        let (last, all) = launches.split_last().unwrap();
        for launch in all {
            store.keep(launch, pool());
        }
        // The first is used once more, so that the second is the oldest.
        let lent = all[1].kernels().unwrap();
        assert!(all[0].is_ready());
        store.keep(last, pool());
        let gone: Vec<usize> = (0..=MOST).filter(|&i| !launches[i].is_ready()).collect();
        assert_eq!(gone, [1]);
        assert!(all[1].kernels().is_none());
        // What was lent lives on.
        lent.lend(Addresses::default()).unwrap();
        // A launch that is gone makes room.
        drop(launches);
        let again = Arc::new(SpecialKernels::default());
        store.keep(&again, pool());
        assert_eq!(store.kept.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_program_pays_once_after_many_times_its_compilation() {
        let special = SpecialKernels::default();
        // A microsecond each.
        let own = SpecialProgram {
            text: SpecialText::Launched { wide: false },
            operations: 2 * RATE * 1000,
            share: 20,
        };
        let pays = || special.pays(&own, (DeviceKind::Cpu, 2), Some(Duration::from_micros(50)));
        let paid: Vec<usize> = (1..3000).filter(|_| pays()).collect();
        assert_eq!(paid.len(), 1);
        assert!((900..1100).contains(&paid[0]), "{paid:?}");
    }
}

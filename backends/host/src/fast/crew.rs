//! Threads that share short pieces of work: they look for the next piece for a moment before they sleep, so that a piece of some
//! microseconds is worth sharing.

use std::cell::UnsafeCell;
use std::fmt;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, Once, PoisonError, TryLockError};
use std::thread::{Builder, panicking, yield_now};
use std::time::{Duration, Instant};

/// How long a thread looks for work before it sleeps.
const PATIENCE: Duration = Duration::from_micros(100);
/// Looks between two looks at the clock.
const LOOKS: usize = 128;
/// How often a thread takes pieces, where there are so many: where each is short, asking for the next one takes as long.
const TIMES: usize = 32;
/// The bit of [`Shared::inside`] that is set while a job takes threads.
const OPEN: usize = 1 << (usize::BITS - 1);

/// A caller with threads that help it, which start when they are first needed.
pub(crate) struct Crew {
    threads: usize,
    shared: Arc<Shared>,
    start: Once,
    busy: Mutex<()>,
}

struct Shared {
    /// The number of jobs so far.
    jobs: AtomicUsize,
    /// The threads that work on the job, and whether more may come.
    inside: AtomicUsize,
    job: UnsafeCell<Option<Job>>,
    /// The job's next piece.
    next: AtomicUsize,
    panicked: AtomicBool,
    sleepers: AtomicUsize,
    asleep: Mutex<()>,
    awake: Condvar,
    ended: AtomicBool,
    /// Threads that were started.
    helpers: AtomicUsize,
}

#[derive(Clone, Copy)]
struct Job {
    work: *const (dyn Fn(usize) + Sync),
    count: usize,
    /// Pieces that a thread takes at a time.
    together: usize,
}

// SAFETY: `job` changes only while no thread is inside and none may come, and is read only by threads inside. What it points to is
// shared between threads (`Sync`) and outlives the job.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Crew {
    /// The caller with helpers, together so many threads.
    pub(crate) fn new(threads: usize) -> Self {
        let shared = Shared {
            jobs: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            job: UnsafeCell::new(None),
            next: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            asleep: Mutex::new(()),
            awake: Condvar::new(),
            ended: AtomicBool::new(false),
            helpers: AtomicUsize::new(0),
        };
        Self { threads: threads.max(1), shared: Arc::new(shared), start: Once::new(), busy: Mutex::new(()) }
    }

    /// The threads of the process, one for each core.
    pub(crate) fn global() -> Arc<Self> {
        static GLOBAL: LazyLock<Arc<Crew>> =
            LazyLock::new(|| Arc::new(Crew::new(rayon::current_num_threads())));
        Arc::clone(&GLOBAL)
    }

    /// The caller and its helpers.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Calls `work` with every number below `count`, each once, by all threads; by the caller alone while the others help somebody else.
    pub(crate) fn run(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        match (count > 1).then(|| self.gather()).flatten() {
            Some(_busy) => self.share(count, work),
            None => (0..count).for_each(work),
        }
    }

    /// Calls `work` on `members` threads at the same time, which may wait for one another, with the number of each and how many there
    /// are: one alone while the others help somebody else.
    pub(crate) fn run_together(&self, members: usize, work: &(dyn Fn(usize, usize) + Sync)) {
        let members = members.min(self.threads);
        match (members > 1).then(|| self.gather()).flatten() {
            Some(_busy) if self.shared.helpers.load(Ordering::Acquire) + 1 >= members => {
                self.share(members, &|number| work(number, members));
            }
            _ => work(0, 1),
        }
    }

    /// Takes the helpers, unless they help somebody else.
    fn gather(&self) -> Option<MutexGuard<'_, ()>> {
        if self.threads == 1 {
            return None;
        }
        let busy = match self.busy.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.start.call_once(|| self.start());
        Some(busy)
    }

    /// Shares the pieces with the helpers that were gathered.
    fn share(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        let shared = &*self.shared;
        // SAFETY: the job ends before this function does, so that the pointer never outlives `work`.
        let work: *const (dyn Fn(usize) + Sync) = unsafe {
            std::mem::transmute::<&(dyn Fn(usize) + Sync), *const (dyn Fn(usize) + Sync + 'static)>(work)
        };
        let job = Job { work, count, together: (count / (self.threads * TIMES)).max(1) };
        // SAFETY: `busy` keeps other callers out, and the last job ended with no thread inside.
        unsafe { *shared.job.get() = Some(job) };
        shared.next.store(0, Ordering::Relaxed);
        shared.inside.store(OPEN, Ordering::Release);
        shared.jobs.fetch_add(1, Ordering::SeqCst);
        if shared.sleepers.load(Ordering::SeqCst) > 0 {
            let _asleep = lock(&shared.asleep);
            shared.awake.notify_all();
        }
        let own = {
            let _end = End(shared);
            catch_unwind(AssertUnwindSafe(|| shared.pieces(job)))
        };
        if let Err(panic) = own {
            shared.panicked.store(false, Ordering::Relaxed);
            resume_unwind(panic);
        }
        assert!(!shared.panicked.swap(false, Ordering::Relaxed), "a thread of the host backend panicked");
    }

    fn start(&self) {
        for number in 1..self.threads {
            let shared = Arc::clone(&self.shared);
            // Where the system starts no more threads, those that are there do the work.
            let started = Builder::new().name(format!("anydnn-crew-{number}")).spawn(move || shared.help());
            match started {
                Ok(_) => {
                    self.shared.helpers.fetch_add(1, Ordering::Release);
                }
                Err(error) => tracing::warn!(%error, "a thread of the host backend does not start"),
            }
        }
    }
}

/// Where the members of a team wait for one another.
#[derive(Debug, Default)]
pub(super) struct Meeting {
    arrivals: AtomicUsize,
    /// Whether a member ended early.
    gone: AtomicBool,
}

/// One member's part in meetings.
#[derive(Debug)]
pub(super) struct Member<'m> {
    meeting: &'m Meeting,
    members: usize,
    meetings: usize,
}

impl Meeting {
    /// A member of so many, each of which comes to every meeting.
    pub(super) fn join(&self, members: usize) -> Member<'_> {
        Member { meeting: self, members, meetings: 0 }
    }
}

impl Member<'_> {
    /// Waits until every member has come here as often. What they wrote before is seen behind it.
    pub(super) fn meet(&mut self) {
        self.meetings += 1;
        let meeting = self.meeting;
        meeting.arrivals.fetch_add(1, Ordering::AcqRel);
        let mut looked = 0;
        while meeting.arrivals.load(Ordering::Acquire) < self.meetings * self.members {
            assert!(!meeting.gone.load(Ordering::Relaxed), "another thread of the same layer ended early");
            looked += 1;
            if looked < LOOKS * LOOKS { spin_loop() } else { yield_now() }
        }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        if panicking() {
            self.meeting.gone.store(true, Ordering::Relaxed);
        }
    }
}

/// Ends the job: no more threads come, and those inside have left.
struct End<'a>(&'a Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_and(!OPEN, Ordering::AcqRel);
        let mut looked = 0;
        while self.0.inside.load(Ordering::Acquire) != 0 {
            looked += 1;
            if looked < 1 << 14 { spin_loop() } else { yield_now() }
        }
    }
}

impl Shared {
    fn pieces(&self, job: Job) {
        loop {
            let first = self.next.fetch_add(job.together, Ordering::Relaxed);
            if first >= job.count {
                return;
            }
            for piece in first..job.count.min(first + job.together) {
                // SAFETY: the caller of `run` waits for every thread inside, so that what the pointer leads to is alive.
                unsafe { (*job.work)(piece) };
            }
        }
    }

    /// What a helper does until the crew ends.
    fn help(&self) {
        let mut seen = 0;
        while !self.ended.load(Ordering::Acquire) {
            let jobs = self.jobs.load(Ordering::SeqCst);
            if jobs == seen {
                self.wait(seen);
                continue;
            }
            seen = jobs;
            let enter = |inside: usize| (inside & OPEN != 0).then_some(inside + 1);
            if self.inside.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter).is_err() {
                continue;
            }
            // SAFETY: this thread is inside, so the job does not change.
            if let Some(job) = unsafe { *self.job.get() }
                && catch_unwind(AssertUnwindSafe(|| self.pieces(job))).is_err()
            {
                self.panicked.store(true, Ordering::Relaxed);
            }
            self.inside.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Waits for another job than those that were seen.
    fn wait(&self, seen: usize) {
        let start = Instant::now();
        let here = || self.jobs.load(Ordering::SeqCst) != seen || self.ended.load(Ordering::SeqCst);
        while start.elapsed() < PATIENCE {
            for _ in 0..LOOKS {
                if here() {
                    return;
                }
                spin_loop();
            }
        }
        let mut asleep = lock(&self.asleep);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !here() {
            asleep = self.awake.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        let _asleep = lock(&self.shared.asleep);
        self.shared.awake.notify_all();
    }
}

/// Locks a mutex whose content is valid at every point, so that a panic elsewhere does not matter.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew").field("threads", &self.threads).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_once() {
        for threads in [1, 2, 5] {
            let crew = Crew::new(threads);
            for count in [0, 1, 2, 100, 777] {
                let done: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                for round in 1..=200 {
                    crew.run(count, &|i| {
                        done[i].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == round));
                }
            }
        }
    }

    #[test]
    fn callers_at_the_same_time_and_inside_one_another_all_get_their_work_done() {
        let crew = Crew::new(3);
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        crew.run(4, &|_| {
                            crew.run(5, &|_| {
                                done.fetch_add(1, Ordering::Relaxed);
                            });
                        });
                    }
                });
            }
        });
        assert_eq!(done.load(Ordering::Relaxed), 4 * 100 * 4 * 5);
    }

    #[test]
    fn sleeping_threads_wake() {
        let crew = Crew::new(2);
        let (here, there) = (AtomicUsize::new(0), AtomicUsize::new(0));
        for _ in 0..3 {
            std::thread::sleep(10 * PATIENCE);
            // Both pieces wait for one another.
            crew.run(2, &|i| {
                let (own, other) = if i == 0 { (&here, &there) } else { (&there, &here) };
                let round = own.fetch_add(1, Ordering::SeqCst) + 1;
                while other.load(Ordering::SeqCst) < round {
                    yield_now();
                }
            });
        }
        assert_eq!((here.into_inner(), there.into_inner()), (3, 3));
    }

    #[test]
    fn members_meet_and_see_what_others_wrote() {
        for threads in [1, 2, 4] {
            let crew = Crew::new(threads);
            let (meeting, steps) = (Meeting::default(), 100);
            let seen: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
            crew.run_together(threads, &|number, members| {
                let mut member = meeting.join(members);
                for step in 1..=steps {
                    seen[number].store(step, Ordering::Relaxed);
                    member.meet();
                    assert!(seen[..members].iter().all(|seen| seen.load(Ordering::Relaxed) == step));
                    member.meet();
                }
            });
            assert_eq!(seen[0].load(Ordering::Relaxed), steps);
        }
    }

    #[test]
    fn nobody_waits_for_a_member_that_ended_early() {
        let crew = Crew::new(3);
        let meeting = Meeting::default();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            crew.run_together(3, &|number, members| {
                let mut member = meeting.join(members);
                assert!(number != 1 || members == 1, "ends");
                member.meet();
            });
        }));
        assert!(outcome.is_err());
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_crew_goes_on() {
        let crew = Crew::new(2);
        let failed = catch_unwind(AssertUnwindSafe(|| crew.run(8, &|i| assert!(i != 5, "ends"))));
        assert!(failed.is_err());
        let done = AtomicUsize::new(0);
        crew.run(8, &|_| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.into_inner(), 8);
    }
}

//! Jobs of the test run: commands that run a few at a time, the longest first, each telling its output when it has ended.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::Mutex;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::command::{read, shown};
use crate::tally::{Tally, complains, test_result};

/// A command of a step.
#[derive(Debug)]
pub(crate) struct Job {
    /// The number of the step.
    pub(crate) step: usize,
    /// What it is, in a few words.
    pub(crate) name: String,
    pub(crate) command: Command,
    /// Whether it is `cargo`, which locks what it builds: a second one beside it would only wait.
    pub(crate) locks: bool,
}

/// What came of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Report {
    pub(crate) step: usize,
    pub(crate) name: String,
    pub(crate) succeeded: bool,
    /// The tests that its output tells of.
    pub(crate) tally: Tally,
    /// What its output says about failures, a line each.
    pub(crate) complaints: Vec<String>,
    pub(crate) time: Duration,
}

/// The most lines about failures that are repeated at the end.
const MOST_COMPLAINTS: usize = 40;

/// What is left to do.
#[derive(Debug)]
struct Queue {
    jobs: VecDeque<Job>,
    is_locked: bool,
}

impl Queue {
    /// The first job that need not wait. Where only such are left that wait for the lock, its holder takes them afterwards.
    fn next(&mut self) -> Option<Job> {
        let at = self.jobs.iter().position(|job| !(job.locks && self.is_locked))?;
        let job = self.jobs.remove(at)?;
        self.is_locked |= job.locks;
        Some(job)
    }
}

/// Runs jobs in their order, one more at a time than the machine has cores, as most wait now and then; of those that lock, one at a time.
pub(crate) fn run_all(jobs: Vec<Job>) -> Result<Vec<Report>> {
    let workers = available_parallelism().map_or(2, |cores| cores.get() + 1);
    let queue = Mutex::new(Queue { jobs: jobs.into(), is_locked: false });
    let reports = Mutex::new(Vec::new());
    let work = || {
        while let Some(job) = queue.lock().ok().and_then(|mut queue| queue.next()) {
            let locks = job.locks;
            let report = run(job);
            if let (true, Ok(mut queue)) = (locks, queue.lock()) {
                queue.is_locked = false;
            }
            if let Ok(mut reports) = reports.lock() {
                reports.push(report);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    reports.into_inner().map_err(|_| anyhow!("a job panicked"))
}

/// Runs a job and then tells its output, between two lines with its name, outcome and time. One that does not start has failed.
fn run(mut job: Job) -> Report {
    let start = Instant::now();
    let mut output = format!("\n== {} ==\n$ {}\n", job.name, shown(&job.command));
    let (mut tally, mut complaints) = (Tally::default(), Vec::new());
    let status = read(&mut job.command, |line| {
        output.extend([line, "\n"]);
        tally += test_result(line).unwrap_or_default();
        if complains(line) && complaints.len() < MOST_COMPLAINTS {
            complaints.push(line.to_owned());
        }
    });
    if let Err(error) = &status {
        complaints.push(format!("error: {error:#}"));
    }
    let succeeded = status.is_ok_and(|status| status.success());
    let (time, verdict) = (start.elapsed(), if succeeded { "passed" } else { "FAILED" });
    println!("{output}== {}: {verdict} ({:.0} s) ==", job.name, time.as_secs_f64());
    Report { step: job.step, name: job.name, succeeded, tally, complaints, time }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(step: usize, name: &str, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job { step, name: name.to_owned(), command, locks: false }
    }

    #[test]
    fn every_job_runs_and_is_reported() {
        let mut reports =
            run_all((0..7).map(|i| job(i, "a job", &format!("exit {}", i % 2))).collect()).unwrap();
        reports.sort_by_key(|report| report.step);
        let succeeded: Vec<_> = reports.iter().map(|report| (report.step, report.succeeded)).collect();
        assert_eq!(succeeded, [0, 1, 2, 3, 4, 5, 6].map(|i| (i, i % 2 == 0)));
    }

    #[test]
    fn jobs_run_at_the_same_time() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        // Each waits for what the other one writes.
        let script = |own, others| {
            let (own, others) = (at(own), at(others));
            format!(
                "touch {own}; for i in $(seq 1000); do [ -e {others} ] && exit 0; sleep 0.01; done; exit 1"
            )
        };
        let jobs = vec![job(0, "one", &script("a", "b")), job(1, "two", &script("b", "a"))];
        assert!(run_all(jobs).unwrap().iter().all(|report| report.succeeded));
    }

    #[test]
    fn jobs_that_lock_run_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("lock").display().to_string();
        // Fails where another one has the folder.
        let script = format!("mkdir {at} && sleep 0.05 && rmdir {at}");
        let jobs = (0..8).map(|i| Job { locks: true, ..job(i, "alone", &script) }).collect();
        let reports = run_all(jobs).unwrap();
        assert_eq!(reports.iter().filter(|report| report.succeeded).count(), 8);
    }

    #[test]
    fn what_need_not_wait_goes_first() {
        let jobs = [true, true, false].map(|locks| Job { locks, ..job(0, "", "") });
        let mut queue = Queue { jobs: jobs.into(), is_locked: false };
        let next = |queue: &mut Queue| queue.next().map(|job| job.locks);
        assert_eq!([next(&mut queue), next(&mut queue), next(&mut queue)], [Some(true), Some(false), None]);
        queue.is_locked = false;
        assert_eq!([next(&mut queue), next(&mut queue)], [Some(true), None]);
    }

    #[test]
    fn a_report_has_the_tests_and_what_was_said_about_failures() {
        let script = "echo 'test a ... FAILED'; echo 'test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 \
                      filtered out; finished in 0.01s'; exit 101";
        let report = run(job(2, "a job", script));
        assert_eq!((report.step, report.succeeded), (2, false));
        assert_eq!(report.tally, Tally { passed: 3, failed: 1, ignored: 0 });
        assert_eq!(report.complaints, ["test a ... FAILED"]);
    }

    #[test]
    fn what_does_not_start_has_failed() {
        let command = Command::new("anydnn-no-such-program");
        let job = Job { step: 0, name: "nothing".to_owned(), command, locks: false };
        let report = run(job);
        assert!(!report.succeeded && report.complaints[0].contains("anydnn-no-such-program"), "{report:?}");
    }
}

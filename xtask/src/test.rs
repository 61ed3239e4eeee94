//! The whole test run.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::command::{cargo, root};
use crate::fence::{self, Mode};
use crate::jobs::{self, Job, Report};
use crate::ledger;
use crate::programs::{self, Program};
use crate::sample::{SAMPLE, Sample};
use crate::setup::{Ready, setup};
use crate::steps::{BUILD, Expect, Extent, Step, Work, forget_programs, steps};
use crate::tally::Tally;

/// The backends that tests must find, in the form of `ANYDNN_REQUIRE`.
pub(crate) const REQUIRED: &str = "host,mock,opencl:pocl,opencl:intel";

/// Sets up, runs the steps, and ends with the line `N passed, N failed`. A step that fails without a failed test counts as one, so
/// that the line never looks better than the run. Returns whether all passed.
pub(crate) fn test(extent: Extent) -> Result<bool> {
    let ready = match setup() {
        Ok(ready) => ready,
        Err(error) => {
            eprintln!("error: set-up: {error:#}");
            println!("Backends required: {REQUIRED}\nNothing was tested: the set-up failed");
            println!("0 passed, 1 failed");
            return Ok(false);
        }
    };
    // Its place, where a build may put another one before programs are started.
    let starter = std::env::current_exe()?;
    let day = fence::today();
    println!("{ready}\nDay {day}: buffers are fenced in the mode `{}`", Mode::of_day(day));
    if let Some(sample) = Sample::of(extent, day) {
        println!("Cases of long lists: {SAMPLE}={sample} (docs/reference/environment.md)");
    }
    let programs = match programs::build(cargo().args(BUILD).current_dir(root())) {
        Ok(programs) => programs,
        Err(error) => {
            println!("error: {error:#}\n0 passed, 1 failed");
            return Ok(false);
        }
    };
    let steps = steps(&ready.variables, day, extent);
    let programs = chosen(programs, extent);
    // A quick run goes on from what the one before has compiled.
    if extent > Extent::Fast {
        forget_programs()?;
    }
    let jobs_of = |(i, step): (_, &Step)| jobs_of(i, step, step.sample(extent, day), &programs, &starter);
    let reports = jobs::run_all(steps.iter().enumerate().flat_map(jobs_of).collect())?;
    let outcomes: Vec<_> =
        steps.iter().enumerate().map(|(i, step)| (step.name, judge(step.expect, i, &reports))).collect();
    Ok(conclude(&ready, &outcomes))
}

/// The programs of a run. What a quick one leaves out is told.
fn chosen(programs: Vec<Program>, extent: Extent) -> Vec<Program> {
    let (kept, left): (Vec<_>, Vec<_>) =
        programs.into_iter().partition(|program| extent > Extent::Fast || !program.is_slow());
    for program in left {
        println!("Not started in a quick run: {}", program.title());
    }
    kept
}

/// The commands of a step, with a sample of long lists of cases.
fn jobs_of(
    number: usize,
    step: &Step,
    sample: Option<Sample>,
    programs: &[Program],
    starter: &Path,
) -> Vec<Job> {
    let job = |name: String, mut command: Command, sample: Option<Sample>| {
        // The caller's choice of a backend is not the step's.
        command.env_remove("ANYDNN_BACKEND").env_remove("ANYDNN_REQUIRE").envs(&step.variables);
        command.envs(sample.map(|sample| (SAMPLE, sample.to_string())));
        let locks = matches!(step.work, Work::Cargo(_) | Work::OwnThatBuilds(_));
        Job { step: number, name, command, locks }
    };
    let listed = match &step.work {
        Work::Cargo(arguments) => {
            let mut command = cargo();
            command.args(arguments).current_dir(root());
            return vec![job(step.name.to_owned(), command, sample)];
        }
        Work::Own(arguments) | Work::OwnThatBuilds(arguments) => {
            let mut command = Command::new(starter);
            command.args(arguments).current_dir(root());
            return vec![job(step.name.to_owned(), command, sample)];
        }
        Work::Programs(names) => {
            let is_listed = |program: &&Program| names.is_none_or(|names| program.is_one_of(names));
            programs.iter().filter(is_listed)
        }
    };
    let mut listed: Vec<&Program> = listed.collect();
    listed.sort_by_key(|program| {
        let is_long = ledger::UNDER_THE_FENCE.contains(&&*program.name) || program.is_long();
        (!program.is_longest(), !is_long)
    });
    listed
        .into_iter()
        .map(|program| {
            let mut command = Command::new(starter);
            command.arg("start").arg(&program.path).current_dir(&program.folder);
            // As cargo starts it.
            command.env("CARGO_MANIFEST_DIR", &program.folder);
            let sample = sample.map(|s| if program.is_complete() { s.complete() } else { s });
            job(format!("{}: {}", step.name, program.title()), command, sample)
        })
        .collect()
}

/// How a step ended.
#[derive(Clone, Debug, Default, PartialEq)]
struct Outcome {
    tally: Tally,
    /// Why the step failed, if it did.
    failure: Option<String>,
    /// What its output says about failures, a line each.
    complaints: Vec<String>,
    /// Of all its jobs, one after another.
    time: Duration,
}

impl Outcome {
    fn verdict(&self) -> String {
        self.failure.as_ref().map_or_else(|| "passed".to_owned(), |why| format!("FAILED: {why}"))
    }

    /// The tests, and the step itself if it failed without a failed test.
    fn counted(&self) -> Tally {
        let failed_itself = self.failure.is_some() && self.tally.failed == 0;
        Tally { failed: self.tally.failed + usize::from(failed_itself), ..self.tally }
    }
}

/// What the reports of its jobs say of a step.
fn judge(expect: Expect, step: usize, reports: &[Report]) -> Outcome {
    let (mut outcome, mut failed) = (Outcome::default(), Vec::new());
    let mut complaints = Vec::new();
    for report in reports.iter().filter(|report| report.step == step) {
        outcome.time += report.time;
        if expect == Expect::Tests {
            outcome.tally += report.tally;
        }
        if !report.succeeded {
            failed.push(&*report.name);
            complaints.extend_from_slice(&report.complaints);
        }
    }
    outcome.failure = match expect {
        _ if outcome.tally.failed > 0 => Some(format!("{} tests", outcome.tally.failed)),
        _ if !failed.is_empty() => Some(format!("the command failed: {}", failed.join(", "))),
        Expect::Tests if outcome.tally.passed == 0 => Some("no test ran".to_owned()),
        Expect::Success | Expect::Tests => None,
    };
    // A test may provoke such lines and pass.
    Outcome { complaints, ..outcome }
}

fn conclude(ready: &Ready, outcomes: &[(&str, Outcome)]) -> bool {
    println!("\nBackends required and found:");
    for backend in REQUIRED.split(',') {
        match ready.platform_of(backend) {
            Some(platform) => println!("  {backend}: {}: {}", platform.name, platform.devices.join(", ")),
            None => println!("  {backend}: part of the workspace"),
        }
    }
    println!("Steps, with the time of their commands one after another:");
    let mut total = Tally::default();
    for (name, outcome) in outcomes {
        println!("  {name}: {} ({:.0} s)", outcome.verdict(), outcome.time.as_secs_f64());
        outcome.complaints.iter().for_each(|line| println!("    {line}"));
        total += outcome.counted();
    }
    if total.ignored > 0 {
        println!("{} tests were ignored", total.ignored);
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    total.failed == 0 && total.passed > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Variables;

    fn tally(passed: usize, failed: usize) -> Tally {
        Tally { passed, failed, ignored: 0 }
    }

    fn step(work: Work) -> Step {
        Step {
            name: "a step",
            work,
            variables: Variables::new(),
            expect: Expect::Tests,
            extent: Extent::Fast,
        }
    }

    fn report(step: usize, succeeded: bool, tally: Tally) -> Report {
        Report { step, name: format!("job of {step}"), succeeded, tally, ..Report::default() }
    }

    fn ready() -> Ready {
        Ready { platforms: Vec::new(), variables: Variables::new() }
    }

    #[test]
    fn tests_pass_only_when_some_ran_and_none_failed() {
        let judge = |succeeded, tally| judge(Expect::Tests, 1, &[report(1, succeeded, tally)]);
        assert_eq!(judge(true, tally(3, 0)).failure, None);
        assert!(judge(true, tally(0, 0)).failure.unwrap().contains("no test ran"));
        assert!(judge(false, tally(3, 2)).failure.unwrap().contains("2 tests"));
        assert!(judge(true, tally(3, 2)).failure.is_some());
        assert!(judge(false, tally(3, 0)).failure.unwrap().contains("job of 1"));
    }

    #[test]
    fn a_step_is_judged_by_all_of_its_jobs_and_no_others() {
        let complaining = Report { complaints: vec!["why".to_owned()], ..report(2, false, tally(1, 0)) };
        let reports = [report(1, true, tally(3, 0)), complaining, report(1, true, tally(4, 0))];
        assert_eq!(judge(Expect::Tests, 1, &reports), Outcome { tally: tally(7, 0), ..Outcome::default() });
        assert_eq!(judge(Expect::Success, 2, &reports).complaints, ["why"]);
        assert!(judge(Expect::Success, 2, &reports).failure.is_some());
    }

    #[test]
    fn a_step_that_fails_without_a_failed_test_counts_as_one() {
        let ended = |tally, failure: Option<&str>| {
            Outcome { tally, failure: failure.map(str::to_owned), ..Outcome::default() }.counted()
        };
        assert_eq!(ended(tally(3, 0), Some("why")), tally(3, 1));
        assert_eq!(ended(tally(3, 2), Some("why")), tally(3, 2));
        assert_eq!(ended(tally(3, 0), None), tally(3, 0));
    }

    #[test]
    fn the_run_passes_only_when_tests_ran_and_every_step_passed() {
        let passed = |n| Outcome { tally: tally(n, 0), ..Outcome::default() };
        let failed = Outcome { failure: Some("why".to_owned()), ..Outcome::default() };
        assert!(conclude(&ready(), &[("one", passed(3)), ("two", passed(0))]));
        assert!(!conclude(&ready(), &[("one", passed(0))]));
        assert!(!conclude(&ready(), &[("one", passed(3)), ("two", failed)]));
    }

    #[test]
    fn programs_are_jobs_of_their_own_and_long_ones_come_first() {
        let program = |name: &str| Program {
            name: name.to_owned(),
            path: format!("/t/deps/{name}-1").into(),
            folder: "/w/tests".into(),
        };
        let programs = [program("short"), program("oracle"), program("anydnn_opencl")];
        let names = |work| -> Vec<String> {
            let jobs = jobs_of(4, &step(work), None, &programs, Path::new("/t/xtask"));
            assert!(jobs.iter().all(|job| job.step == 4));
            jobs.into_iter().map(|job| job.name).collect()
        };
        let all = ["anydnn_opencl", "oracle", "short"].map(|name| format!("a step: {name} of tests"));
        assert_eq!(names(Work::Programs(None)), all);
        assert_eq!(names(Work::Programs(Some(&["short"]))), all[2..]);
        assert_eq!(names(Work::Programs(Some(&["short of tests", "oracle of others"]))), all[2..]);
        assert_eq!(names(Work::Cargo(vec!["fmt"])), ["a step"]);
        assert_eq!(names(Work::Own(vec!["book"])), ["a step"]);
    }

    #[test]
    fn quick_runs_leave_the_slowest_programs_out() {
        let program =
            |name: &str| Program { name: name.to_owned(), path: "/t".into(), folder: "/w/tests".into() };
        let all = ["short", "fault_sweep", "conformance"].map(program).to_vec();
        assert_eq!(chosen(all.clone(), Extent::Whole), all);
        assert_eq!(chosen(all, Extent::Fast), [program("short"), program("conformance")]);
    }

    #[test]
    fn programs_that_are_complete_take_more_cases() {
        let sample = Sample::of(Extent::Whole, 3);
        let samples = ["short", "oracle"].map(|name| {
            let program = Program { name: name.to_owned(), path: "/t".into(), folder: "/w/tests".into() };
            let jobs = jobs_of(0, &step(Work::Programs(None)), sample, &[program], Path::new("/t/xtask"));
            let mut variables = jobs[0].command.get_envs();
            variables.find_map(|(name, value)| (name == SAMPLE).then_some(value?.to_owned()))
        });
        assert_eq!(samples, [Some("4@1".into()), Some("2@1".into())]);
    }

    #[test]
    fn programs_start_as_cargo_starts_them() {
        let program =
            Program { name: "short".to_owned(), path: "/t/deps/short-1".into(), folder: "/w/tests".into() };
        let jobs = jobs_of(0, &step(Work::Programs(None)), None, &[program], Path::new("/t/xtask"));
        let command = &jobs[0].command;
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["start", "/t/deps/short-1"]);
        assert_eq!(command.get_current_dir(), Some(Path::new("/w/tests")));
        let has = |name: &str, value: Option<&str>| {
            command.get_envs().any(|(own, own_value)| own == name && own_value == value.map(str::as_ref))
        };
        assert!(has("CARGO_MANIFEST_DIR", Some("/w/tests")) && has("ANYDNN_BACKEND", None));
    }
}

//! The whole test run.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, anyhow};

use crate::command::{read, root, shown};
use crate::fence::{self, Mode};
use crate::ledger;
use crate::setup::{Ready, setup};
use crate::steps::{Expect, Extent, Step, steps};
use crate::tally::{Tally, complains, test_result};

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
    let steps: Vec<Step> =
        steps(&ready.variables, day).into_iter().filter(|step| step.extent <= extent).collect();
    let mut reports = Vec::new();
    for group in steps.chunk_by(|_, next| next.beside) {
        reports.extend(side_by_side(group, &starter)?);
    }
    Ok(conclude(&ready, &reports))
}

/// Runs the first of some steps with its output as it comes, and beside it the others one after another, each telling its output when it
/// has ended.
fn side_by_side<'a>(group: &'a [Step], starter: &Path) -> Result<Vec<(&'a str, Outcome)>> {
    let Some((first, others)) = group.split_first() else { return Ok(Vec::new()) };
    std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            others.iter().map(|step| timed(step, starter, Telling::AtTheEnd)).collect::<Result<Vec<_>>>()
        });
        let first = timed(first, starter, Telling::AsItComes)?;
        let others = others.join().map_err(|_| anyhow!("a step panicked"))??;
        Ok(std::iter::once(first).chain(others).collect())
    })
}

/// When the output of a step appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Telling {
    AsItComes,
    AtTheEnd,
}

/// Runs a step between two lines that tell its name, outcome and time.
fn timed<'a>(step: &'a Step, starter: &Path, telling: Telling) -> Result<(&'a str, Outcome)> {
    let start = Instant::now();
    let mut kept = String::new();
    let mut tell = |line: &str| match telling {
        Telling::AsItComes => println!("{line}"),
        Telling::AtTheEnd => kept.extend([line, "\n"]),
    };
    tell(&format!("\n== {} ==", step.name));
    let outcome = run(step, starter, &mut tell)?;
    tell(&format!("== {}: {} ({:.0} s) ==", step.name, outcome.verdict(), start.elapsed().as_secs_f64()));
    print!("{kept}");
    Ok((step.name, outcome))
}

/// The most lines about failures that are repeated at the end.
const MOST_COMPLAINTS: usize = 40;

/// How a step ended.
#[derive(Clone, Debug, Default, PartialEq)]
struct Outcome {
    tally: Tally,
    /// Why the step failed, if it did.
    failure: Option<String>,
    /// What its output says about failures, a line each.
    complaints: Vec<String>,
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

fn run(step: &Step, starter: &Path, tell: &mut impl FnMut(&str)) -> Result<Outcome> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // The caller's choice of a backend is not the step's.
    command.env_remove("ANYDNN_BACKEND").env_remove("ANYDNN_REQUIRE");
    if step.under_the_ledger {
        command.args(ledger::option(starter));
    }
    command.args(&step.cargo).envs(&step.variables).current_dir(root());
    let (mut tally, mut complaints) = (Tally::default(), Vec::new());
    tell(&format!("$ {}", shown(&command)));
    let status = read(&mut command, |line| {
        tell(line);
        if step.expect == Expect::Tests {
            tally += test_result(line).unwrap_or_default();
        }
        if complains(line) && complaints.len() < MOST_COMPLAINTS {
            complaints.push(line.to_owned());
        }
    })?;
    let outcome = judge(step.expect, status.success(), tally);
    // A test may provoke such lines and pass.
    Ok(if outcome.failure.is_some() { Outcome { complaints, ..outcome } } else { outcome })
}

fn judge(expect: Expect, success: bool, tally: Tally) -> Outcome {
    let failure = match expect {
        _ if tally.failed > 0 => Some(format!("{} tests", tally.failed)),
        _ if !success => Some("the command failed".to_owned()),
        Expect::Tests if tally.passed == 0 => Some("no test ran".to_owned()),
        Expect::Success | Expect::Tests => None,
    };
    Outcome { tally, failure, complaints: Vec::new() }
}

fn conclude(ready: &Ready, reports: &[(&str, Outcome)]) -> bool {
    println!("\nBackends required and found:");
    for backend in REQUIRED.split(',') {
        match ready.platform_of(backend) {
            Some(platform) => println!("  {backend}: {}: {}", platform.name, platform.devices.join(", ")),
            None => println!("  {backend}: part of the workspace"),
        }
    }
    println!("Steps:");
    let mut total = Tally::default();
    for (name, outcome) in reports {
        println!("  {name}: {}", outcome.verdict());
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

    fn a_step(cargo: Vec<&'static str>) -> Step {
        Step {
            name: "a step",
            cargo,
            variables: Variables::new(),
            expect: Expect::Success,
            under_the_ledger: false,
            extent: Extent::Fast,
            beside: false,
        }
    }

    fn ready() -> Ready {
        Ready { platforms: Vec::new(), variables: Variables::new() }
    }

    #[test]
    fn tests_pass_only_when_some_ran_and_none_failed() {
        let judge = |success, tally| judge(Expect::Tests, success, tally);
        assert_eq!(judge(true, tally(3, 0)).failure, None);
        assert!(judge(true, tally(0, 0)).failure.unwrap().contains("no test ran"));
        assert!(judge(false, tally(3, 2)).failure.unwrap().contains("2 tests"));
        assert!(judge(true, tally(3, 2)).failure.is_some());
        assert!(judge(false, tally(3, 0)).failure.unwrap().contains("command failed"));
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
    fn a_command_is_judged_by_its_output_and_status() {
        let mut lines = Vec::new();
        let mut run = |cargo| {
            run(&a_step(cargo), Path::new("xtask"), &mut |line: &str| lines.push(line.to_owned())).unwrap()
        };
        assert_eq!(run(vec!["--version"]).failure, None);
        assert!(run(vec!["no-such-command"]).failure.is_some());
        assert!(lines[0].starts_with("$ ") && lines[1].starts_with("cargo "), "{lines:?}");
    }

    #[test]
    fn steps_side_by_side_are_all_reported_in_order() {
        let step = |name, cargo, beside| Step { name, beside, ..a_step(cargo) };
        let steps = [
            step("one", vec!["--version"], false),
            step("two", vec!["no-such-command"], true),
            step("three", vec!["--version"], true),
        ];
        let reports = side_by_side(&steps, Path::new("xtask")).unwrap();
        let failed: Vec<_> =
            reports.iter().map(|(name, outcome)| (*name, outcome.failure.is_some())).collect();
        assert_eq!(failed, [("one", false), ("two", true), ("three", false)]);
    }
}

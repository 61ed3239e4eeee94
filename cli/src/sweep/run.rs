//! The sweep itself: cases to a worker, its answers into the findings, failures made small.

use std::time::{Duration, Instant};

use anydnn::backend::Error;
use anydnn_backend::conformance::random::{Limits, Recipe, Sample, shrink};

use super::answer::Answer;
use super::args::SweepArgs;
use super::cases::Cases;
use super::race::race;
use super::report::{Defect, Findings, Small};
use super::workers::Workers;
use crate::failure::Outcome;
use crate::failure::{Code, Failure};
use crate::output::{Style, print, progress};

/// Failures alike that are made small; the others are listed.
const MADE_SMALL: usize = 3;
/// Attempts to make a failure small, and their time.
const ATTEMPTS: usize = 250;
const LONGEST: Duration = Duration::from_secs(90);

/// Runs random cases, or those of `--replay`, and reports.
pub(crate) fn sweep(args: &SweepArgs) -> Outcome {
    if args.peer.is_some() {
        return race(args);
    }
    let style = Style::new(args.no_color);
    let told = args.replay.iter().map(|text| text.parse::<Recipe>()).collect::<Result<Vec<_>, Error>>()?;
    let seed = args.seed;
    let mut cases = Cases::new(&args.families, seed, args.data_type)?;
    let mut runner = Runner { args, workers: Workers::new(args)? };
    let what = if told.is_empty() { format!("seed {seed}") } else { format!("{} told cases", told.len()) };
    print(&format!("sweep of {}, {what}\n", runner.workers.device()))?;
    let mut findings = Findings::default();
    let start = Instant::now();
    if told.is_empty() {
        let most = args.cases.unwrap_or(if args.seconds.is_some() { u64::MAX } else { 1000 });
        let bar = progress("sweeping", if most == u64::MAX { 0 } else { most });
        let over = |start: Instant| args.seconds.is_some_and(|s| start.elapsed().as_secs() >= s);
        for _ in 0..most {
            if over(start) {
                break;
            }
            let (recipe, sample) = cases.draw()?;
            runner.case(&recipe, &sample, Limits::QUICK, &mut findings, style)?;
            bar.inc(1);
        }
        bar.finish_and_clear();
    } else {
        for recipe in told {
            let sample = recipe.sample(Limits::WIDE)?;
            print(&format!("{recipe}\n  {sample}\n"))?;
            runner.case(&recipe, &sample, Limits::WIDE, &mut findings, style)?;
        }
    }
    findings.set_late(runner.workers.close());
    print(&findings.text(style))?;
    print(&format!("{} cases in {:.0} s, seed {seed}\n", findings.total(), start.elapsed().as_secs_f64()))?;
    findings.wrong().map_or(Ok(()), |message| {
        let help = "run one again with `anydnn sweep --replay TEXT`";
        Err(Failure::new(Code::Check, message, help))
    })
}

struct Runner<'a> {
    args: &'a SweepArgs,
    workers: Workers<'a>,
}

impl Runner<'_> {
    /// Runs a case, and makes it small if it fails.
    fn case(
        &mut self,
        recipe: &Recipe,
        sample: &Sample,
        limits: Limits,
        findings: &mut Findings,
        style: Style,
    ) -> Outcome {
        let start = Instant::now();
        let answer = self.workers.ask(&recipe.to_string())?;
        findings.add(recipe, &answer, start.elapsed());
        if !answer.ending.is_defect() {
            return Ok(());
        }
        let few = findings.alike(recipe.family, &answer) < MADE_SMALL;
        let small = if few && !self.args.no_shrink {
            Some(self.shrunk(recipe, sample, limits, &answer)?)
        } else {
            None
        };
        let defect = Defect { recipe: recipe.clone(), answer, small };
        print(&defect.text(style))?;
        findings.add_defect(defect);
        Ok(())
    }

    fn shrunk(
        &mut self,
        recipe: &Recipe,
        sample: &Sample,
        limits: Limits,
        answer: &Answer,
    ) -> Result<Small, Failure> {
        let (start, mut trouble) = (Instant::now(), None);
        let mut small = Small { recipe: recipe.clone(), description: sample.to_string(), why: String::new() };
        shrink(recipe, limits, ATTEMPTS, |candidate, sample| {
            if start.elapsed() > LONGEST || trouble.is_some() {
                return false;
            }
            match self.workers.ask(&candidate.to_string()) {
                Ok(found) if found.ending == answer.ending => {
                    let description = sample.to_string();
                    small = Small { recipe: candidate.clone(), description, why: found.why };
                    true
                }
                Ok(_) => false,
                Err(failure) => {
                    trouble = Some(failure);
                    false
                }
            }
        });
        trouble.map_or(Ok(small), Err)
    }
}

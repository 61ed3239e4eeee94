//! The process that runs cases: recipes on standard input, an answer for each on standard output.

use std::io::{BufRead, Write};
use std::time::Duration;

use anydnn::backend::{Engine, Error};
use anydnn::select::{AnyBackend, AnyEngine, Selection, Selector};
use anydnn_backend::conformance::random::{Limits, Oracle, Recipe};
use anydnn_backend::conformance::{Outcome, Subject};

use super::answer::{Answer, Ending};
use crate::bench::{Compared, Duel, PeerKind};
use crate::failure::Outcome as Done;

/// Plants a fault for tests: `abort:softmax` ends the process at every case whose description begins so; `hang`, `wrong` likewise.
const PLANT: &str = "ANYDNN_SWEEP_PLANT";

/// Runs cases on a backend until there are no more: recipes, or with a peer cases of the bench.
pub(crate) fn work(backend: &str, peer: Option<PeerKind>, rounds: u32) -> Done {
    if let Some(peer) = peer {
        return measure(backend, peer, rounds);
    }
    let selection = Selector::parse(backend).and_then(|selector| selector.select())?;
    let subject = Subject::<AnyBackend>::new(&selection.engine);
    let host = Subject::<AnyBackend>::new(&AnyEngine::reference());
    say(&Answer::new(Ending::Passed, format!("{} ({})", selection.chosen, name(&selection))))?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Error::io("standard input", error))?;
        say(&answer(&line, &subject, &host))?;
    }
    Ok(())
}

/// Measures cases beside a peer.
fn measure(backend: &str, peer: PeerKind, rounds: u32) -> Done {
    let mut duel = Duel::start(backend, peer, rounds)?;
    say(&Answer::new(Ending::Passed, duel.name()))?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Error::io("standard input", error))?;
        let answer = match duel.measure(&line) {
            Ok(Compared::Refused(why)) => Answer::new(Ending::Refused, why),
            Ok(Compared::Wrong(why)) => Answer::new(Ending::Wrong, why),
            Ok(Compared::Ratio(numbers)) => Answer::new(Ending::Passed, numbers.to_string()),
            Err(failure) => Answer::new(Ending::Failed, failure.to_string()),
        };
        say(&answer)?;
    }
    Ok(())
}

fn name(selection: &Selection) -> String {
    let device = selection.engine.device();
    format!("{}, {}", device.name, device.driver)
}

fn answer(line: &str, subject: &Subject<AnyBackend>, host: &dyn Oracle) -> Answer {
    let sample = match line.parse::<Recipe>().and_then(|recipe| recipe.sample(Limits::WIDE)) {
        Ok(sample) => sample,
        Err(error) => return Answer::new(Ending::Failed, error.to_string()),
    };
    if let Some(answer) = planted(&sample.to_string()) {
        return answer;
    }
    match sample.run(subject, Some(host)) {
        Ok(Outcome::Passed) => Answer::new(Ending::Passed, ""),
        Ok(Outcome::Unsupported(lacking)) => Answer::new(Ending::Refused, lacking.to_string()),
        Err(failure) if failure.is_error() => Answer::new(Ending::Failed, failure.to_string()),
        Err(failure) => Answer::new(Ending::Wrong, failure.to_string()),
    }
}

fn planted(description: &str) -> Option<Answer> {
    let plant = std::env::var(PLANT).ok()?;
    let (fault, whose) = plant.split_once(':')?;
    if !description.starts_with(whose) {
        return None;
    }
    match fault {
        "abort" => std::process::abort(),
        "hang" => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
        _ => Some(Answer::new(Ending::Wrong, "planted")),
    }
}

fn say(answer: &Answer) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", answer.line())
        .and_then(|()| out.flush())
        .map_err(|error| Error::io("standard output", error))
}

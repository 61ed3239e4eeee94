//! The table and the JSON of a run.

use std::fmt::Write as _;
use std::time::Duration;

use anydnn::backend::{DataType, Engine};
use anydnn::select::Selection;

use super::Row;
use super::case::Case;
use super::measure::{Measured, PeerTimes, median};
use super::peers::Peer;
use crate::args::BenchArgs;
use crate::output::{Style, table, time};

/// Everything there is to tell.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) args: &'a BenchArgs,
    pub(crate) selection: &'a Selection,
    pub(crate) peers: &'a [Peer],
    pub(crate) rows: &'a [Row],
}

impl Report<'_> {
    pub(crate) fn text(&self, style: Style) -> String {
        let device = self.selection.engine.device();
        let mut text = format!(
            "device    {}  {} ({})\n",
            style.bold(&self.selection.chosen),
            device.name,
            device.driver
        );
        for peer in self.peers {
            let _ = writeln!(text, "peer      {}", peer.version);
        }
        let rounds = self.args.rounds;
        let _ = writeln!(
            text,
            "medians of {rounds} rounds by turns; time: one of several queued at once, alone: one enqueued and waited for;\nratio: the peer's time over ours, above 1 we are faster\n"
        );
        let mut head = vec!["case", "time", "device", "alone", "queued", "GFLOP/s", "GB/s"];
        let names: Vec<[String; 2]> =
            self.peers.iter().map(|peer| [peer.kind.name().to_owned(), "ratio".to_owned()]).collect();
        head.extend(names.iter().flatten().map(String::as_str));
        let rows: Vec<Vec<String>> = self.rows.iter().map(|(case, measured)| cells(case, measured)).collect();
        let numbers: Vec<usize> = (1..head.len()).collect();
        text += &table(style, &head, &numbers, &rows);
        for (case, measured) in self.rows {
            for peer in &measured.peers {
                if let Err(why) = &peer.outcome {
                    let _ = writeln!(text, "{}: not by {}: {why}", case.text, peer.name);
                }
            }
        }
        if self.args.explain {
            text += &self.explanation(style);
        }
        text
    }

    fn explanation(&self, style: Style) -> String {
        let mut text = String::new();
        for (case, measured) in self.rows {
            let _ = writeln!(text, "\n{}", style.bold(&case.text));
            for step in &measured.steps {
                let _ = writeln!(
                    text,
                    "  {}: {} ({} launches)",
                    step.name,
                    style.good(&step.implementation),
                    step.launches
                );
            }
            for peer in &measured.peers {
                if let Ok(times) = &peer.outcome {
                    let _ = writeln!(
                        text,
                        "  {}: {} (difference {:.1e})",
                        peer.name, times.note, times.difference
                    );
                }
            }
        }
        text
    }

    /// What is wrong with the first result that differs from a peer's.
    pub(crate) fn wrong(&self) -> Option<String> {
        for (case, measured) in self.rows {
            for peer in &measured.peers {
                if let Ok(times) = &peer.outcome
                    && !agrees(case, times)
                {
                    let most = tolerance(case);
                    return Some(format!(
                        "{}: the result differs from {}'s by {:.1e} of its norm, expected at most {most:.1e}",
                        case.text, peer.name, times.difference
                    ));
                }
            }
        }
        None
    }
}

fn cells(case: &Case, measured: &Measured) -> Vec<String> {
    let seconds = median(&measured.times);
    let shown = |seconds: f64| {
        if seconds.is_finite() { time(Duration::from_secs_f64(seconds)) } else { "-".to_owned() }
    };
    let rate = |count: f64| {
        let rate = count / seconds * 1e-9;
        match rate {
            r if r <= 0.0 => "-".to_owned(),
            r if r < 100.0 => format!("{r:.1}"),
            r => format!("{r:.0}"),
        }
    };
    let mut cells = vec![
        case.text.clone(),
        shown(seconds),
        shown(median(&measured.device)),
        shown(median(&measured.alone)),
        measured.queued.to_string(),
        rate(case.flops),
        rate(case.bytes),
    ];
    for peer in &measured.peers {
        match &peer.outcome {
            Ok(times) => {
                let wrong = if agrees(case, times) { "" } else { " WRONG" };
                cells.push(shown(median(&times.times)));
                cells.push(format!("{:.2}{wrong}", ratio(measured, times)));
            }
            Err(_) => cells.extend(["-".to_owned(), "-".to_owned()]),
        }
    }
    cells
}

/// The peer's time over ours, paired by rounds.
fn ratio(measured: &Measured, peer: &PeerTimes) -> f64 {
    let ratios: Vec<f64> =
        peer.times.iter().zip(&measured.times).map(|(theirs, ours)| theirs / ours).collect();
    median(&ratios)
}

fn agrees(case: &Case, peer: &PeerTimes) -> bool {
    // Not a number is no agreement.
    peer.difference <= tolerance(case)
}

/// How far apart two right results may be, by the coarsest type in the case.
fn tolerance(case: &Case) -> f64 {
    let types = case.tensors.iter().map(|tensor| tensor.data_type);
    let of = |data_type| match data_type {
        DataType::F16 => 5e-3,
        DataType::BF16 => 4e-2,
        _ => 1e-4,
    };
    types.map(of).fold(0.0, f64::max)
}

//! The table and the JSON of a run.

use std::fmt::Write as _;
use std::time::Duration;

use anydnn::backend::{DataType, Engine};
use anydnn::graph::{Op, OpKind};
use anydnn::select::Selection;
use indexmap::IndexMap;
use serde_json::{Value, json};

use super::Row;
use super::args::BenchArgs;
use super::case::Case;
use super::ceilings::Ceilings;
use super::each::Candidate;
use super::measure::{Measured, PeerTimes, median};
use super::opponent::Opponent;
use crate::backend::specialization;
use crate::devices::device_json;
use crate::output::{Style, table, time};

/// Of more steps than these a summary is told.
const FEW: usize = 16;

/// Everything there is to tell.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) args: &'a BenchArgs,
    pub(crate) selection: &'a Selection,
    /// What the device can do at most, where that is known.
    pub(crate) ceilings: Option<Ceilings>,
    pub(crate) peers: &'a [Box<dyn Opponent>],
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
        if let Some(ceilings) = self.ceilings {
            let (flops, bytes) = (ceilings.flops * 1e-9, ceilings.bytes * 1e-9);
            let alone = shown(ceilings.alone);
            let _ = writeln!(
                text,
                "ceilings  {flops:.0} GFLOP/s of f32 products, {bytes:.1} GB/s of copies, {alone} for a launch alone, measured"
            );
        }
        if let Some(when) = specialization(&self.selection.engine) {
            let _ = writeln!(text, "programs  for one shape: {when}");
        }
        for peer in self.peers {
            let _ = writeln!(text, "peer      {}", peer.version());
        }
        let _ = writeln!(
            text,
            "medians of {} rounds by turns. time: of one of so many queued at once; device: by its own clock; alone: enqueued\n\
             and waited for after a pause; ratio: a peer's time over ours by rounds, above 1 we are faster\n",
            self.args.rounds
        );
        let mut head = vec!["case", "time", "device", "alone", "queued", "GFLOP/s"];
        let of_ceilings = self.ceilings.is_some();
        head.extend(if of_ceilings { &["%", "GB/s", "%"][..] } else { &["GB/s"] });
        let names: Vec<[String; 3]> = self
            .peers
            .iter()
            .map(|peer| [peer.name().to_owned(), "alone".to_owned(), "ratio".to_owned()])
            .collect();
        head.extend(names.iter().flatten().map(String::as_str));
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|(case, measured)| cells(case, measured, self.ceilings)).collect();
        let numbers: Vec<usize> = (1..head.len()).collect();
        text += &table(style, &head, &numbers, &rows);
        for (i, _) in self.peers.iter().enumerate().filter(|(_, peer)| peer.is_pool()) {
            for (case, measured) in self.rows {
                if let Ok(times) = &measured.peers[i].outcome {
                    let (speed_up, shares) = (1.0 / ratio(measured, times), &times.note);
                    let _ = writeln!(
                        text,
                        "  {}: on all devices at once {speed_up:.2} times one ({shares})",
                        case.text
                    );
                }
            }
        }
        for (i, peer) in self.peers.iter().enumerate().filter(|(_, peer)| !peer.is_pool()) {
            if let Some(mean) = self.mean_ratio(i) {
                let _ = writeln!(text, "  geometric mean of the ratios to {}: {mean:.2}", peer.name());
            }
        }
        for (case, measured) in self.rows {
            for peer in &measured.peers {
                match &peer.outcome {
                    Err(why) => {
                        let _ = writeln!(text, "  {}: not by {}: {why}", case.text, peer.name);
                    }
                    Ok(times) if !agrees(case, times.difference) && is_confirmed(case, measured) => {
                        let _ = writeln!(
                            text,
                            "  {}: odd is the result of {}, which differs from those of others by {:.1e} of its norm",
                            case.text, peer.name, times.difference
                        );
                    }
                    Ok(_) => {}
                }
            }
        }
        if self.args.explain || self.args.each {
            text += &self.explanation(style);
        }
        text
    }

    pub(crate) fn json(&self) -> Value {
        let cases: Vec<Value> = self.rows.iter().map(|(case, measured)| row_json(case, measured)).collect();
        let peers: Vec<Value> = self.peers.iter().enumerate().map(|(i, peer)| {
            json!({ "name": peer.name(), "version": peer.version(), "geometric_mean": self.mean_ratio(i) })
        }).collect();
        json!({
            "backend": self.selection.chosen,
            "device": device_json(self.selection.engine.device()),
            "ceilings": self.ceilings.map(|c| json!({ "flops": c.flops, "bytes_per_second": c.bytes, "alone_seconds": c.alone })),
            "specialize": specialization(&self.selection.engine).map(|when| when.to_string()),
            "rounds": self.args.rounds,
            "sets": self.args.sets,
            "peers": peers,
            "cases": cases,
        })
    }

    /// What is wrong with the first result that differs from a peer's or from another implementation's.
    pub(crate) fn wrong(&self) -> Option<String> {
        self.rows.iter().find_map(|(case, measured)| wrong(case, measured))
    }

    fn mean_ratio(&self, peer: usize) -> Option<f64> {
        let ratio = |(_, measured): &Row| Some(ratio(measured, measured.peers[peer].outcome.as_ref().ok()?));
        let logarithms: Vec<f64> = self.rows.iter().filter_map(ratio).map(f64::ln).collect();
        let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
        (!logarithms.is_empty()).then(|| mean.exp())
    }

    fn explanation(&self, style: Style) -> String {
        let mut text = String::new();
        for (case, measured) in self.rows {
            let _ = writeln!(text, "\n{}", style.bold(&case.text));
            if measured.steps.len() > FEW {
                text += &summary(measured);
            }
            for (i, step) in measured.steps.iter().enumerate().filter(|_| measured.steps.len() <= FEW) {
                let launches = if step.launches == 1 {
                    "1 launch".to_owned()
                } else {
                    format!("{} launches", step.launches)
                };
                let _ = writeln!(text, "  {}: {} ({launches})", step.name, style.good(&step.implementation));
                for candidate in measured.candidates.get(i).into_iter().flatten() {
                    let _ = writeln!(text, "    {}", described(candidate, &step.implementation));
                }
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
}

/// How often each implementation was chosen.
fn summary(measured: &Measured) -> String {
    let mut counts: IndexMap<(&str, &str), usize> = IndexMap::new();
    for step in &measured.steps {
        *counts.entry((step.desc.op().name(), &step.implementation)).or_default() += 1;
    }
    counts.iter().fold(String::new(), |mut text, ((op, name), count)| {
        let _ = writeln!(text, "  {count} of {op}: {name}");
        text
    })
}

/// An implementation with its reason, and its time and difference where they were measured.
fn described(candidate: &Candidate, chosen: &str) -> String {
    let mark = if candidate.name == chosen { "*" } else { " " };
    let mut text = format!("{mark} {}: {}", candidate.name, candidate.reason);
    if let Some(seconds) = candidate.time {
        let _ = write!(text, "; {}", shown(seconds));
    }
    if let Some(difference) = candidate.difference {
        let _ = write!(text, ", difference {difference:.1e}");
    }
    text
}

fn cells(case: &Case, measured: &Measured, ceilings: Option<Ceilings>) -> Vec<String> {
    let seconds = median(&measured.times);
    let rate = |count: f64| match count / seconds * 1e-9 {
        r if r <= 0.0 => "-".to_owned(),
        r if r < 100.0 => format!("{r:.1}"),
        r => format!("{r:.0}"),
    };
    let share = |count: f64, most: f64| {
        if count > 0.0 { format!("{:.0}", count / seconds / most * 100.0) } else { "-".to_owned() }
    };
    let mut cells = vec![
        case.text.clone(),
        shown(seconds),
        shown(median(&measured.device)),
        shown(median(&measured.alone)),
        measured.queued.to_string(),
        rate(case.flops),
    ];
    cells.extend(ceilings.map(|ceilings| share(case.flops, ceilings.flops)));
    cells.push(rate(case.bytes));
    cells.extend(ceilings.map(|ceilings| share(case.bytes, ceilings.bytes)));
    for peer in &measured.peers {
        match &peer.outcome {
            Ok(times) => {
                let wrong = match (agrees(case, times.difference), is_confirmed(case, measured)) {
                    (true, _) => "",
                    (false, true) => " ODD",
                    (false, false) => " WRONG",
                };
                cells.push(shown(median(&times.times)));
                cells.push(shown(median(&times.alone)));
                cells.push(format!("{:.2}{wrong}", ratio(measured, times)));
            }
            Err(_) => cells.extend(["-"; 3].map(str::to_owned)),
        }
    }
    cells
}

fn row_json(case: &Case, measured: &Measured) -> Value {
    let number = |value: f64| if value.is_finite() { json!(value) } else { Value::Null };
    let candidate = |c: &Candidate| json!({ "name": c.name, "reason": c.reason, "seconds": c.time, "difference": c.difference.map(number) });
    let steps = measured.steps.iter().enumerate().map(|(i, step)| {
        let candidates = measured.candidates.get(i).into_iter().flatten().map(candidate);
        json!({
            "name": step.name,
            "implementation": step.implementation,
            "launches": step.launches,
            "candidates": candidates.collect::<Vec<_>>(),
        })
    });
    let peers = measured.peers.iter().map(|peer| match &peer.outcome {
        Ok(times) => json!({
            "name": peer.name,
            "seconds": number(median(&times.times)),
            "alone_seconds": number(median(&times.alone)),
            "device_seconds": number(median(&times.device)),
            "ratio": number(ratio(measured, times)),
            "difference": number(times.difference),
            "agrees": agrees(case, times.difference),
            "odd": !agrees(case, times.difference) && is_confirmed(case, measured),
            "note": times.note,
            "samples": times.times,
        }),
        Err(why) => json!({ "name": peer.name, "refused": why }),
    });
    let seconds = median(&measured.times);
    json!({
        "case": case.text,
        "seconds": number(seconds),
        "device_seconds": number(median(&measured.device)),
        "alone_seconds": number(median(&measured.alone)),
        "enqueue_seconds": number(median(&measured.enqueue)),
        "queued": measured.queued,
        "flops": case.flops,
        "bytes": case.bytes,
        "samples": measured.times,
        "steps": steps.collect::<Vec<_>>(),
        "peers": peers.collect::<Vec<_>>(),
    })
}

fn shown(seconds: f64) -> String {
    if seconds.is_finite() { time(Duration::from_secs_f64(seconds)) } else { "-".to_owned() }
}

/// The peer's time over ours, paired by rounds.
fn ratio(measured: &Measured, peer: &PeerTimes) -> f64 {
    let ratios: Vec<f64> =
        peer.times.iter().zip(&measured.times).map(|(theirs, ours)| theirs / ours).collect();
    median(&ratios)
}

/// What is wrong with a result that differs from somebody's by a part of its norm; nothing where it is close enough.
pub(crate) fn disagreement(case: &Case, whose: &str, difference: f64) -> Option<String> {
    let (most, text) = (tolerance(case), &case.text);
    (!agrees(case, difference)).then(|| {
        format!(
            "{text}: the result differs from {whose}'s by {difference:.1e} of its norm, expected at most {most:.1e}"
        )
    })
}

/// What is wrong with a case's results.
fn wrong(case: &Case, measured: &Measured) -> Option<String> {
    let peers = measured.peers.iter().filter(|_| !is_confirmed(case, measured));
    let mut peers =
        peers.filter_map(|peer| disagreement(case, &peer.name, peer.outcome.as_ref().ok()?.difference));
    let mut candidates = measured.candidates.iter().flatten();
    peers.next().or_else(|| candidates.find_map(|one| disagreement(case, &one.name, one.difference?)))
}

/// Whether a peer has the result too: one that differs from it then is the odd one.
fn is_confirmed(case: &Case, measured: &Measured) -> bool {
    let mut results = measured.peers.iter().filter_map(|peer| peer.outcome.as_ref().ok());
    results.any(|times| agrees(case, times.difference))
}

fn agrees(case: &Case, difference: f64) -> bool {
    // Not a number is no agreement.
    difference <= tolerance(case)
}

/// How far apart two right results may be, by the coarsest type in the case.
fn tolerance(case: &Case) -> f64 {
    let types = case.tensors.iter().map(|tensor| tensor.data_type);
    let of = |data_type| match data_type {
        DataType::F16 => 5e-3,
        // Products of floats of eight bits have results of bf16.
        DataType::BF16 | DataType::F8E4M3 | DataType::F8E5M2 => 4e-2,
        _ => 1e-4,
    };
    // Its mantissa is as long as that of f16.
    let products = if case.graph.fpmath().allows_tf32() { 5e-3 } else { 0.0 };
    // A value beside a half rounds to either step of eight bits, which are as many as those of bf16.
    let is_byte =
        |id| case.graph.tensor(id).is_some_and(|t| matches!(t.data_type, Some(DataType::U8 | DataType::S8)));
    let quantizes = |op: &Op| match op.kind {
        OpKind::Quantize | OpKind::DynamicQuantize => true,
        OpKind::TypeCast => op.outputs.iter().any(|&id| is_byte(id)),
        _ => false,
    };
    let steps = if case.graph.ops().iter().any(quantizes) { 4e-2 } else { 0.0 };
    types.map(of).fold(f64::max(products, steps), f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measure::PeerResult;

    fn measured(differences: &[f64]) -> Measured {
        let peer = |(number, &difference): (usize, &f64)| {
            let times =
                PeerTimes { times: vec![], alone: vec![], device: vec![], note: String::new(), difference };
            PeerResult { name: format!("peer {number}"), outcome: Ok(times) }
        };
        Measured {
            times: vec![],
            queued: 1,
            device: vec![],
            alone: vec![],
            enqueue: vec![],
            steps: vec![],
            candidates: vec![],
            peers: differences.iter().enumerate().map(peer).collect(),
        }
    }

    #[test]
    fn a_result_that_a_peer_has_too_is_not_wrong_because_of_another_one() {
        let case = Case::new("matmul 2x3:3x4", &[]).unwrap_or_else(|failure| panic!("{failure}"));
        let of = |differences: &[f64]| wrong(&case, &measured(differences));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[1e-7, 5e-5]), None);
        assert_eq!(of(&[1e-7, 9e-2]), None);
        assert!(of(&[9e-2]).is_some_and(|why| why.contains("peer 0's by 9.0e-2")));
        assert!(of(&[3e-2, 9e-2]).is_some_and(|why| why.contains("peer 0's by 3.0e-2")));
        assert!(of(&[f64::NAN]).is_some());
    }
}

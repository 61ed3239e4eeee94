//! A case measured shortly beside one peer.

use anydnn::backend::{DeviceKind, Engine};
use anydnn::select::{Selection, Selector};
use serde_json::{Value, json};

use super::case::Case;
use super::measure::{Effort, measure, median};
use super::opponent::Opponent;
use super::peers::{Peer, PeerKind};
use super::report::disagreement;
use crate::backend::{specialization_measured, specialize};
use crate::failure::Failure;

/// A backend of ours and a peer.
#[derive(Debug)]
pub(crate) struct Duel {
    selection: Selection,
    peers: Vec<Box<dyn Opponent>>,
    effort: Effort,
}

/// What came of a case.
#[derive(Debug)]
pub(crate) enum Compared {
    /// The peer does not take it.
    Refused(String),
    /// The results differ.
    Wrong(String),
    /// `ratio`: the peer's time over ours; `seconds`: ours; `how`: our implementations.
    Ratio(Value),
}

impl Duel {
    /// What measures cases by so many rounds of short samples: there are many cases.
    pub(crate) fn start(backend: &str, peer: PeerKind, rounds: u32) -> Result<Self, Failure> {
        let selection = Selector::parse(backend).and_then(|selector| selector.select())?;
        if let Some(when) = specialization_measured() {
            specialize(&selection.engine, when);
        }
        let gpu = selection.engine.device().kind == DeviceKind::Gpu;
        let peer = Peer::start(peer, &selection.chosen, gpu, None)?;
        let effort = Effort { rounds, sets: 2, sample: 10e-3, each: false, explain: false };
        Ok(Self { selection, peers: vec![Box::new(peer)], effort })
    }

    /// Both sides in their own words.
    pub(crate) fn name(&self) -> String {
        let peers: Vec<&str> = self.peers.iter().map(|peer| peer.version()).collect();
        format!(
            "{} ({}) beside {}",
            self.selection.chosen,
            self.selection.engine.device().name,
            peers.join(", ")
        )
    }

    /// Measures a case and compares the results.
    pub(crate) fn measure(&mut self, text: &str) -> Result<Compared, Failure> {
        let case = Case::new(text, &[])?;
        let measured = match measure(&self.selection.engine, &case, &mut self.peers, &self.effort) {
            Err(failure) if self.is_a_peers(&failure) => {
                return Ok(Compared::Refused(failure.message().into()));
            }
            measured => measured?,
        };
        let seconds = median(&measured.times);
        let how: Vec<&str> = measured.steps.iter().map(|step| step.implementation.as_str()).collect();
        let Some(peer) = measured.peers.first() else { return Ok(Compared::Refused("no peer".into())) };
        Ok(match &peer.outcome {
            Err(why) => Compared::Refused(why.clone()),
            Ok(times) => {
                let ratio = median(&times.times) / seconds;
                let numbers = json!({ "ratio": ratio, "seconds": seconds, "how": how.join(" + ") });
                disagreement(&case, &peer.name, times.difference)
                    .map_or(Compared::Ratio(numbers), Compared::Wrong)
            }
        })
    }

    /// Whether it is a peer that does not do the case, and lives on.
    fn is_a_peers(&self, failure: &Failure) -> bool {
        let mut names = self.peers.iter().map(|peer| format!("peer {}: ", peer.name()));
        names.any(|name| failure.message().starts_with(&name)) && !failure.message().contains("ended early")
    }
}

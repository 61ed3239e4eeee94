//! A case measured shortly beside one peer.

use anydnn::backend::{DeviceKind, Engine};
use anydnn::select::{Selection, Selector};
use serde_json::{Value, json};

use super::case::Case;
use super::measure::{Effort, measure, median};
use super::opponent::Opponent;
use super::peers::{Peer, PeerKind};
use super::report::disagreement;
use crate::failure::Failure;

/// A backend of ours and a peer.
#[derive(Debug)]
pub(crate) struct Duel {
    selection: Selection,
    peers: Vec<Box<dyn Opponent>>,
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

/// Few rounds of short samples: there are many cases.
const EFFORT: Effort = Effort { rounds: 5, sets: 2, sample: 10e-3, each: false, explain: false };

impl Duel {
    pub(crate) fn start(backend: &str, peer: PeerKind) -> Result<Self, Failure> {
        let selection = Selector::parse(backend).and_then(|selector| selector.select())?;
        let gpu = selection.engine.device().kind == DeviceKind::Gpu;
        let peer = Peer::start(peer, &selection.chosen, gpu, None)?;
        Ok(Self { selection, peers: vec![Box::new(peer)] })
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
        let measured = match measure(&self.selection.engine, &case, &mut self.peers, &EFFORT) {
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

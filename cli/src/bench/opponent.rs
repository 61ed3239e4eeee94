//! What is measured by turns with us: a library in a process of its own, or another backend of ours in this one.

use anydnn::backend::{Engine, Specialize};
use anydnn::fusion::Policy;
use anydnn::model::HostTensor;
use anydnn::select::{AnyBackend, Selection, Selector};

use super::case::{Case, Told};
use super::ours::Ours;
use super::peers::{Peer, PeerSample, Prepared};
use crate::backend::specialize;
use crate::failure::{Code, Failure};

/// One that takes turns with us.
pub(crate) trait Opponent: std::fmt::Debug {
    fn name(&self) -> &str;
    /// Its own words for what and where it is.
    fn version(&self) -> &str;
    /// Takes a case; the one before is forgotten.
    fn prepare(&mut self, case: &Case, told: &Told, sets: usize) -> Result<Prepared, Failure>;
    /// The outputs of the first set of inputs, as f32, one after the other.
    fn outputs(&mut self) -> Result<Vec<f32>, Failure>;
    /// Runs the case a number of times.
    fn run(&mut self, times: usize) -> Result<PeerSample, Failure>;
    /// Whether it is the backend that is measured alone, together with others.
    fn is_pool(&self) -> bool {
        false
    }
    /// Leaves the processor to the others until its next turn.
    fn rest(&self) {}
}

impl Opponent for Peer {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn prepare(&mut self, _: &Case, told: &Told, _: usize) -> Result<Prepared, Failure> {
        Self::prepare(self, told.json())
    }

    fn outputs(&mut self) -> Result<Vec<f32>, Failure> {
        Self::outputs(self)
    }

    fn run(&mut self, times: usize) -> Result<PeerSample, Failure> {
        Self::run(self, times)
    }

    fn rest(&self) {
        Self::rest(self);
    }
}

/// Another backend of ours or the same one without fusion, with the case that it took.
#[derive(Debug)]
pub(crate) struct Other {
    name: String,
    selection: Selection,
    version: String,
    policy: Policy,
    ours: Option<Ours<AnyBackend>>,
}

impl Other {
    /// The backend of this name.
    pub(crate) fn start(name: &str, when: Option<Specialize>) -> Result<Self, Failure> {
        let other = Self::with_policy(name, when, Policy::default())?;
        Ok(Self { name: other.selection.chosen.clone(), ..other })
    }

    /// The backend of this name with every operation by itself.
    pub(crate) fn unfused(name: &str, when: Option<Specialize>) -> Result<Self, Failure> {
        let other = Self::with_policy(name, when, Policy::Debug)?;
        let version = format!("{}, its operations one by one", other.version);
        Ok(Self { version, ..other })
    }

    fn with_policy(name: &str, when: Option<Specialize>, policy: Policy) -> Result<Self, Failure> {
        let selection = Selector::parse(name).and_then(|selector| selector.select());
        let selection = selection.map_err(|error| error.at("--beside"))?;
        if let Some(when) = when {
            specialize(&selection.engine, when);
        }
        let device = selection.engine.device();
        let version = format!("{}  {} ({})", selection.chosen, device.name, device.driver);
        Ok(Self { name: "unfused".to_owned(), selection, version, policy, ours: None })
    }

    fn taken(&mut self) -> Result<&mut Ours<AnyBackend>, Failure> {
        let help = "this is a defect of the benchmark: please report it";
        self.ours
            .as_mut()
            .ok_or_else(|| Failure::new(Code::Failed, "a backend that took no case was run", help))
    }
}

impl Opponent for Other {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn prepare(&mut self, case: &Case, _: &Told, sets: usize) -> Result<Prepared, Failure> {
        self.ours = None;
        Ok(match Ours::new(&self.selection.engine, case, sets, self.policy) {
            Ok(ours) => {
                let note = ours.chosen();
                self.ours = Some(ours);
                Prepared::Ready(note)
            }
            Err(error) => Prepared::Refused(error.to_string()),
        })
    }

    fn outputs(&mut self) -> Result<Vec<f32>, Failure> {
        Ok(self.taken()?.outputs()?.iter().flat_map(HostTensor::to_f32s).collect())
    }

    fn run(&mut self, times: usize) -> Result<PeerSample, Failure> {
        Ok(PeerSample { wall: self.taken()?.run(times)?.wall, device: None })
    }
}

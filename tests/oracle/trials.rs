//! What is run: every case with its type, values and graph.

use anydnn::backend::conformance::Sample;
use anydnn::backend::{DataType, MemoryDesc};
use anydnn::graph::{Graph, OpKind};
use anydnn::model::HostTensor;

use super::cases::{Case, Cases, random};
use super::{EMPTY, TYPES};

/// How many cases of every kind follow from seeds.
pub const DRAWN: u64 = 16;

/// How many of those also run on OpenCL devices where all cases do; each needs programs of its own.
const DRAWN_ON_DEVICES: u64 = 2;

/// Why a case is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Chosen.
    Chosen,
    /// The first chosen one of its kind, in another type.
    Typed,
    /// Follows from a seed.
    Drawn(u64),
}

/// A case in a type.
pub struct Trial {
    /// Among all.
    number: usize,
    pub case: Case,
    pub data_type: DataType,
    pub role: Role,
    /// Whether the table of types tells of it.
    pub in_table: bool,
    /// The graph; none where it cannot be described.
    pub graph: Result<Graph, String>,
    pub values: Vec<HostTensor>,
}

impl Trial {
    fn new(case: Case, data_type: DataType, role: Role, in_table: bool, seed: u64) -> Self {
        let values = case.values(data_type, seed);
        let graph = case.graph(data_type).map_err(|error| error.to_string());
        Self { number: 0, case, data_type, role, in_table, graph, values }
    }

    pub fn kind(&self) -> OpKind {
        self.case.kind
    }

    pub fn name(&self) -> String {
        let name = self.case.name(self.data_type);
        match self.role {
            Role::Drawn(seed) => format!("{name} (seed {seed})"),
            _ => name,
        }
    }

    /// Whether it runs on the OpenCL device of a number: the first chosen case of each kind where the sample has it, and one that follows
    /// from a seed on one of two devices.
    pub fn on_device(&self, number: usize) -> bool {
        match self.role {
            Role::Drawn(seed) if everywhere() => seed < DRAWN_ON_DEVICES,
            _ if everywhere() => true,
            Role::Chosen => self.in_table && Sample::from_env().takes(self.number, number),
            Role::Typed => false,
            // Intel's compiler takes several times as long as PoCL's.
            Role::Drawn(seed) => seed == number as u64 && (self.kind() as usize % 4 == 3) == (number == 1),
        }
    }
}

/// Whether every case runs that belongs to the table.
pub fn are_all() -> bool {
    only_some().is_none() && Sample::from_env().covers_all()
}

/// The part of a name that is asked for.
fn only_some() -> Option<String> {
    std::env::var("ANYDNN_ORACLE").ok().filter(|text| text != "all")
}

/// Whether devices run all cases.
fn everywhere() -> bool {
    std::env::var_os("ANYDNN_ORACLE").is_some()
}

/// Chosen cases in their own types, the first of each kind in every type, and those that follow from seeds.
pub fn all() -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut seen = Vec::new();
    for (i, case) in Cases::all().into_iter().enumerate() {
        let (main, seed) = (case.main, i as u64 + 1);
        let is_first = !seen.contains(&case.kind);
        if is_first {
            seen.push(case.kind);
            for data_type in TYPES.into_iter().filter(|&t| t != main) {
                trials.push(Trial::new(case.clone(), data_type, Role::Typed, true, seed));
            }
        }
        trials.push(Trial::new(case, main, Role::Chosen, is_first, seed));
    }
    for &kind in OpKind::ALL.iter().filter(|kind| !EMPTY.contains(kind)) {
        for seed in 0..DRAWN {
            let case = random::case(kind, seed);
            let main = case.main;
            trials.push(Trial::new(case, main, Role::Drawn(seed), false, seed + 1000));
        }
    }
    if let Some(part) = only_some() {
        trials.retain(|trial| trial.name().contains(&part));
    }
    let sample = Sample::from_env();
    for (i, trial) in trials.iter_mut().enumerate() {
        trial.number = i;
    }
    trials.retain(|trial| sample.takes_somewhere(trial.number));
    trials
}

/// What the operation of a graph of one makes.
pub fn results(graph: &Graph) -> Vec<MemoryDesc> {
    graph.ops()[0].outputs.iter().map(|&id| graph.tensor(id).unwrap().memory_desc().unwrap()).collect()
}

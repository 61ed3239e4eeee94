//! Graphs written to files while they are partitioned and compiled, in the format that [`Graph::from_json`] reads.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use anydnn_backend::{DeviceKind, Error, Result};

use super::{Partition, PartitionId};
use crate::graph::{AttrValue, Graph};

/// Which graphs are written, and where to.
///
/// - `graph`: `graph-<id>.json` when a graph is partitioned, and `graph-<id>-partitioning.json`, in which every operation names its
///   partition.
/// - `subgraph`: `graph-<partition id>-<hash>.json` when a partition is compiled, with the logical tensors of that compilation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// Whether graphs are written.
    pub graphs: bool,
    /// Whether partitions are written as they are compiled.
    pub subgraphs: bool,
    /// The folder; none for the working directory.
    pub folder: Option<PathBuf>,
}

/// The variables that say what is dumped; the first that is set holds.
const MODES: [&str; 3] = ["ANYDNN_GRAPH_DUMP", "ONEDNN_GRAPH_DUMP", "DNNL_GRAPH_DUMP"];
const FOLDER: &str = "ANYDNN_GRAPH_DUMP_DIR";

impl Dump {
    /// What `ANYDNN_GRAPH_DUMP` or else `ONEDNN_GRAPH_DUMP` says (`graph`, `subgraph` or both with a comma), into the folder
    /// `ANYDNN_GRAPH_DUMP_DIR`.
    pub fn from_env() -> Self {
        let Some(modes) = MODES.iter().find_map(|name| std::env::var(name).ok()) else {
            return Self::default();
        };
        let has = |wanted: &str| modes.split(',').any(|mode| mode.trim().eq_ignore_ascii_case(wanted));
        let folder = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty()).map(PathBuf::from);
        Self { graphs: has("graph"), subgraphs: has("subgraph"), folder }
    }

    pub(super) fn graph(&self, id: u64, graph: &Graph, kind: DeviceKind) -> Result<()> {
        if !self.graphs {
            return Ok(());
        }
        self.write(&format!("graph-{id}.json"), &graph.to_json_with(word(kind), |_| Vec::new()))
    }

    pub(super) fn partitioning(
        &self,
        id: u64,
        graph: &Graph,
        partitions: &[Partition],
        kind: DeviceKind,
    ) -> Result<()> {
        if !self.graphs {
            return Ok(());
        }
        let more = |op: usize| {
            let of = partitions.iter().find(|partition| partition.fused().ops.contains(&op));
            let id = of.map_or(-1, |partition| partition.id().0 as i64);
            let backend = if of.is_some_and(Partition::is_supported) { "anydnn" } else { "none" };
            vec![("partition_id", AttrValue::S64(id)), ("backend", AttrValue::from(backend))]
        };
        self.write(&format!("graph-{id}-partitioning.json"), &graph.to_json_with(word(kind), more))
    }

    pub(super) fn subgraph(&self, id: PartitionId, graph: &Graph, kind: DeviceKind) -> Result<()> {
        if !self.subgraphs {
            return Ok(());
        }
        let text = graph.to_json_with(word(kind), |_| Vec::new());
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        self.write(&format!("graph-{}-{}.json", id.0, hasher.finish()), &text)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.clone().unwrap_or_default().join(name);
        fs::write(&path, text).map_err(|error| Error::io(path.display(), error))
    }
}

const fn word(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Cpu => "cpu",
        _ => "gpu",
    }
}

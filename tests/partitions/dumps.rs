//! Files that are written while graphs are partitioned and compiled.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anydnn::backend::Status;
use anydnn::fusion::Policy;
use anydnn::graph::{Graph, LogicalTensor, OpKind};
use anydnn::partition::{Dump, OpenGraph, PartitionOptions};

use crate::common::{lt, op, unknown};

/// Partitions and compiles a chain.
fn work(dump: Option<Dump>) -> OpenGraph {
    let mut graph = OpenGraph::new();
    if let Some(dump) = dump {
        graph = graph.with_dump(dump);
    }
    let all: Vec<LogicalTensor> =
        (0..4).map(|id| if id == 0 { lt(0, [2, 3]) } else { unknown(id) }).collect();
    let mut elu = op(1, OpKind::Elu, &[1], &[2]);
    elu.attrs.set("alpha", 0.5_f32);
    for op in [op(0, OpKind::Abs, &[0], &[1]), elu, op(2, OpKind::Exp, &[2], &[3])] {
        graph.add_op(op, &all).unwrap();
    }
    graph.finalize().unwrap();
    let engine = anydnn_mock::MockDevice::new(1).engine();
    for partition in graph.partitions(Policy::Debug).unwrap() {
        let inputs: Vec<_> = partition.inputs().iter().map(|tensor| lt(tensor.id.0, [7, 3])).collect();
        let outputs: Vec<_> = partition.outputs().iter().map(|tensor| unknown(tensor.id.0)).collect();
        partition.compile(&engine, &inputs, &outputs, &PartitionOptions::default()).unwrap();
    }
    graph
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn dump(folder: &Path, graphs: bool, subgraphs: bool) -> Dump {
    Dump { graphs, subgraphs, folder: Some(folder.to_owned()) }
}

#[test]
fn a_graph_and_its_partitioning_are_read_again_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let graph = work(Some(dump(folder.path(), true, false)));
    let id = graph.id();
    let (whole, parts) = (format!("graph-{id}.json"), format!("graph-{id}-partitioning.json"));
    assert_eq!(names(folder.path()), BTreeSet::from([whole.clone(), parts.clone()]));
    let graph = graph.graph().unwrap();
    for name in [whole, parts.clone()] {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        let read = Graph::from_json(&text).unwrap();
        assert_eq!(read.to_json(), graph.to_json());
        assert_eq!(read.ops(), graph.ops());
    }
    let text = std::fs::read_to_string(folder.path().join(parts)).unwrap();
    assert_eq!(text.matches("\"partition_id\"").count(), 3);
}

#[test]
fn compiled_partitions_are_written_with_the_shapes_of_the_compilation() {
    let folder = tempfile::tempdir().unwrap();
    work(Some(dump(folder.path(), false, true)));
    let names = names(folder.path());
    assert_eq!(names.len(), 3, "{names:?}");
    for name in names {
        let text = std::fs::read_to_string(folder.path().join(&name)).unwrap();
        let graph = Graph::from_json(&text).unwrap();
        assert_eq!(graph.ops().len(), 1);
        for tensor in graph.tensors() {
            assert_eq!(tensor.known_dims().unwrap(), [7, 3].into(), "{name}");
        }
    }
}

#[test]
fn nothing_is_written_unasked_and_a_missing_folder_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    work(Some(dump(folder.path(), false, false)));
    assert!(names(folder.path()).is_empty());
    let mut graph = OpenGraph::new().with_dump(dump(&folder.path().join("none"), true, true));
    graph.add_op(op(0, OpKind::Abs, &[0], &[1]), &[lt(0, [2]), lt(1, [2])]).unwrap();
    graph.finalize().unwrap();
    let error = graph.partitions(Policy::Fusion).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArguments);
    assert!(error.to_string().contains("none"), "{error}");
}

/// This program once more, with the variables set.
#[test]
fn the_environment_asks_for_dumps() {
    const CHILD: &str = "ANYDNN_TEST_DUMPS";
    if std::env::var_os(CHILD).is_some() {
        work(None);
        return;
    }
    let run = |variables: &[(&str, &str)]| {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "dumps::the_environment_asks_for_dumps"]).current_dir(folder.path());
        child.env_remove("ANYDNN_GRAPH_DUMP").env_remove("ONEDNN_GRAPH_DUMP").env(CHILD, "1");
        for (name, value) in variables {
            let value = if *value == "OTHER" { other.path().to_str().unwrap() } else { value };
            child.env(name, value);
        }
        assert!(child.output().unwrap().status.success());
        (names(folder.path()).len(), names(other.path()).len())
    };
    assert_eq!(run(&[]), (0, 0));
    assert_eq!(run(&[("ONEDNN_GRAPH_DUMP", "graph")]), (2, 0));
    assert_eq!(run(&[("ONEDNN_GRAPH_DUMP", "subgraph")]), (3, 0));
    let both = [("ONEDNN_GRAPH_DUMP", "graph"), ("ANYDNN_GRAPH_DUMP", "graph,subgraph")];
    assert_eq!(run(&[both[0], both[1], ("ANYDNN_GRAPH_DUMP_DIR", "OTHER")]), (0, 5));
}

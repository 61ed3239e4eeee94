//! `anydnn graph`.

mod args;

use std::path::Path;

use anydnn::backend::Error;
use anydnn::draw::{self, shape};
use anydnn::fusion::{Partitioning, Policy, partition};
use anydnn::graph::Graph;
use serde_json::{Value, json};

pub(crate) use self::args::GraphArgs;
use crate::failure::Outcome;
use crate::model::{is_onnx, load_graph};
use crate::output::{print, print_json};
use crate::run::staged;

/// Shows the partitions of a model's graph in words, as JSON or as a picture.
pub(crate) fn graph(args: &GraphArgs) -> Outcome {
    let graph = match load_graph(&args.model, &args.dims) {
        Err(error) if is_onnx(&args.model) && matches!(error.root(), Error::Unsupported { .. }) => {
            return stages(args);
        }
        graph => graph?,
    };
    show(args, &graph)
}

/// Shows the stages of a model that is no single graph: what the device computes, and what the host and why. Pictures are of the largest.
fn stages(args: &GraphArgs) -> Outcome {
    let session = staged::session(&args.model, &args.dims)?;
    let words = args.dot.is_none() && args.svg.is_none() && !args.json;
    if words {
        print(&session.to_string())?;
        return Ok(());
    }
    let stages = session.describe();
    let graphs = stages.iter().filter_map(|stage| Some(stage.device.as_ref()?.graph()));
    match graphs.max_by_key(|graph| graph.ops().len()) {
        Some(graph) => show(args, graph),
        None => {
            Err(Error::unsupported(args.model.display().to_string(), "all of it runs on the host").into())
        }
    }
}

fn show(args: &GraphArgs, graph: &Graph) -> Outcome {
    let partitioning = partition(graph, Policy::Fusion);
    if let Some(file) = &args.dot {
        save(file, &draw::dot(graph, &partitioning))?;
    } else if let Some(file) = &args.svg {
        save(file, &draw::svg(graph, &partitioning))?;
    } else if args.json {
        print_json(&json(graph, &partitioning))?;
    } else {
        let head =
            format!("{} operations in {} partitions\n\n", graph.ops().len(), partitioning.partitions.len());
        print(&(head + &partitioning.describe(graph)))?;
    }
    Ok(())
}

fn save(file: &Path, text: &str) -> Result<(), Error> {
    if file == Path::new("-") {
        return print(text);
    }
    std::fs::write(file, text).map_err(|cause| Error::io(file.display(), cause))
}

fn json(graph: &Graph, partitioning: &Partitioning) -> Value {
    let tensors = |ids: &[anydnn::graph::TensorId]| {
        ids.iter().map(|&id| json!({ "id": id.0, "type": shape(graph, id) })).collect::<Vec<_>>()
    };
    let partitions: Vec<Value> = partitioning
        .partitions
        .iter()
        .map(|partition| {
            let ops: Vec<Value> = partition
                .ops
                .iter()
                .map(|&index| {
                    let op = &graph.ops()[index];
                    json!({ "id": op.id.0, "name": op.name, "kind": op.kind.name() })
                })
                .collect();
            let next =
                partition.stopped.as_ref().and_then(|stop| stop.next).map(|next| &graph.ops()[next].name);
            json!({
                "id": partition.id,
                "pattern": partition.pattern,
                "ops": ops,
                "inputs": tensors(&partition.inputs),
                "outputs": tensors(&partition.outputs),
                "stopped": partition.stopped.as_ref().map(ToString::to_string),
                "stopped_at": next,
            })
        })
        .collect();
    json!({
        "ops": graph.ops().len(),
        "inputs": tensors(graph.inputs()),
        "outputs": tensors(graph.outputs()),
        "partitions": partitions,
    })
}

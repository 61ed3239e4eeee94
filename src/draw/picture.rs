//! What a picture of a graph shows: a box for each operation, input and output, and the tensors between them.

use crate::fusion::Partitioning;
use crate::graph::{Graph, LogicalTensor, Property, TensorId};

/// A box of the picture.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The lines of text.
    pub(super) lines: Vec<String>,
    /// The partition of an operation; none for an input or output.
    pub(super) partition: Option<usize>,
    /// A longer text for readers who ask.
    pub(super) note: String,
}

/// A tensor on its way from a box to another.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) label: String,
}

/// The boxes, in an order in which every edge leads to a later one, and the edges.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    pub(super) nodes: Vec<Node>,
    pub(super) edges: Vec<Edge>,
}

impl Picture {
    /// The picture of a partitioned graph. Constants are lines of the operations that read them.
    pub(super) fn new(graph: &Graph, partitioning: &Partitioning) -> Self {
        let mut nodes: Vec<Node> = graph.inputs().iter().map(|&id| port(graph, id, "input")).collect();
        let inputs = nodes.len();
        let mut edges = Vec::new();
        for (index, op) in graph.ops().iter().enumerate() {
            let mut lines = vec![op.name.clone(), op.kind.to_string()];
            for &id in &op.inputs {
                let from = graph.producer(id).map(|op| inputs + op);
                match from.or_else(|| graph.inputs().iter().position(|&input| input == id)) {
                    Some(from) => edges.push(Edge { from, to: inputs + index, label: shape(graph, id) }),
                    None => lines.push(format!("{} {}", constant(graph.tensor(id)), shape(graph, id))),
                }
            }
            let partition = partitioning.of(index);
            let note = partition.map_or_else(String::new, |p| {
                let stop =
                    p.stopped.as_ref().map_or_else(String::new, |stop| format!(": ends because {stop}"));
                format!("partition {} ({}){stop}", p.id, p.pattern)
            });
            nodes.push(Node { lines, partition: partition.map(|p| p.id), note });
        }
        for &id in graph.outputs() {
            let to = nodes.len();
            nodes.push(port(graph, id, "output"));
            if let Some(op) = graph.producer(id) {
                edges.push(Edge { from: inputs + op, to, label: shape(graph, id) });
            }
        }
        Self { nodes, edges }
    }
}

/// A colour of a partition: hues a golden angle apart differ however many there are.
pub(super) fn colour(partition: Option<usize>) -> String {
    match partition {
        None => "#ffffff".into(),
        Some(id) => {
            let hue = (id as f64 * 137.508) % 360.0;
            let channel = |offset: f64| {
                let k = (offset + hue / 30.0) % 12.0;
                let value = 0.85 - 0.13 * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
                format!("{:02x}", (value * 255.0).round() as u8)
            };
            format!("#{}{}{}", channel(0.0), channel(8.0), channel(4.0))
        }
    }
}

fn port(graph: &Graph, id: TensorId, what: &str) -> Node {
    let name = graph.tensor(id).map_or_else(|| id.to_string(), LogicalTensor::label);
    Node { lines: vec![name, format!("{what} {}", shape(graph, id))], partition: None, note: String::new() }
}

fn constant(tensor: Option<&LogicalTensor>) -> String {
    tensor.map_or_else(String::new, |t| {
        if t.property == Property::HostScalar { "scalar".into() } else { t.label() }
    })
}

/// A tensor's type and shape, as `f32 2x3`.
pub fn shape(graph: &Graph, id: TensorId) -> String {
    let Some(tensor) = graph.tensor(id) else { return "?".into() };
    let data_type = tensor.data_type.map_or_else(|| "?".into(), |t| t.to_string());
    let dims = tensor.dims.as_ref().map_or_else(
        || "?".into(),
        |dims| {
            let dims: Vec<_> = dims.iter().map(|d| d.map_or_else(|| "?".into(), |d| d.to_string())).collect();
            if dims.is_empty() { "scalar".into() } else { dims.join("x") }
        },
    );
    format!("{data_type} {dims}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_have_light_colours_of_their_own() {
        let colours: std::collections::BTreeSet<_> = (0..24).map(|id| colour(Some(id))).collect();
        assert_eq!(colours.len(), 24);
        assert!(
            colours
                .iter()
                .all(|c| c.len() == 7 && c.as_bytes()[1..].chunks(2).all(|hex| hex >= b"b0".as_slice()))
        );
    }
}

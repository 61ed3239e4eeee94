//! How few primitives whole partitions become.

mod attention;
mod graphs;
mod quantized;
mod units;

use super::super::program::Program;
use crate::fusion::Partition;
use crate::graph::Graph;

/// The names of the primitives that compute a graph as one partition, in order; those that run once in brackets.
fn plan(graph: &Graph) -> String {
    let partition = Partition::of_ops(graph, "test", 0..graph.ops().len());
    let mut program = Program::new(graph).unwrap();
    super::partition(&mut program, &partition).unwrap();
    super::copy_outputs(&mut program).unwrap();
    let words: Vec<String> = program
        .steps
        .iter()
        .map(|step| {
            let name = step.desc.op().name();
            let once = step.args.iter().all(|(_, value)| program.is_constant(value));
            if once { format!("[{name}]") } else { name.to_owned() }
        })
        .collect();
    words.join(" ")
}

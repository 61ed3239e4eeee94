//! The picture as a graph of Graphviz's DOT language.

use std::fmt::Write;

use crate::fusion::Partitioning;

use super::picture::{Picture, colour};

/// The text of a DOT file: partitions are clusters, tensors are labelled edges.
pub(super) fn render(picture: &Picture, partitioning: &Partitioning) -> String {
    let mut text = String::from(
        "digraph anydnn {\n  rankdir=TB;\n  node [shape=box, style=\"filled,rounded\", fontname=\"Helvetica\", fontsize=11];\n  \
         edge [fontname=\"Helvetica\", fontsize=9];\n",
    );
    let node = |index: usize| {
        let node = &picture.nodes[index];
        format!(
            "n{index} [label={}, fillcolor=\"{}\"];",
            quoted(&node.lines.join("\n")),
            colour(node.partition)
        )
    };
    for (index, _) in picture.nodes.iter().enumerate().filter(|(_, n)| n.partition.is_none()) {
        let _ = writeln!(text, "  {}", node(index));
    }
    for partition in &partitioning.partitions {
        let _ = writeln!(text, "  subgraph cluster_{} {{", partition.id);
        let _ = writeln!(text, "    label={};", quoted(&format!("{}: {}", partition.id, partition.pattern)));
        if let Some(stop) = &partition.stopped {
            let _ = writeln!(text, "    tooltip={};", quoted(&stop.to_string()));
        }
        let own = (0..picture.nodes.len()).filter(|&i| picture.nodes[i].partition == Some(partition.id));
        for index in own {
            let _ = writeln!(text, "    {}", node(index));
        }
        text += "  }\n";
    }
    for edge in &picture.edges {
        let _ = writeln!(text, "  n{} -> n{} [label={}];", edge.from, edge.to, quoted(&edge.label));
    }
    text + "}\n"
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_quotes() {
        assert_eq!(quoted("a\"b\\c\nd"), "\"a\\\"b\\\\c\\nd\"");
    }
}

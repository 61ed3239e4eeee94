//! Operators with graphs as steps around the nodes of these.

use anydnn_backend::Result;

use super::build::{Builder, described, graph_of};
use super::{PARTS, Step, ValueId, wrong};
use crate::onnx::proto::{NodeProto, OperatorSetIdProto};

impl Builder<'_> {
    /// Attention as the two products that it has, the exponentials between them, and the graphs that the node has for scores and
    /// probabilities.
    pub(super) fn flex_attention(
        &mut self,
        node: &NodeProto,
        opsets: &[OperatorSetIdProto],
        inputs: &[Option<ValueId>],
        outputs: Vec<Option<ValueId>>,
    ) -> Result<()> {
        let input = |index: usize| inputs.get(index).copied().flatten();
        let mut plain = node.clone();
        plain.attribute.retain(|attribute| attribute.g.is_none());
        let part = |builder: &mut Self, operator: &str, domain: Option<&str>, inputs, outputs| {
            let proto = NodeProto {
                op_type: Some(operator.into()),
                domain: domain.map(str::to_owned),
                ..plain.clone()
            };
            builder.push(Step::plain(proto, inputs, outputs))
        };
        let scores = self.program.value("scores");
        part(self, "FlexScores", Some(PARTS), vec![input(0), input(1)], vec![Some(scores)])?;
        let changed = self.changed(node, "score_mod", opsets, scores)?;
        let probabilities = self.program.value("probabilities");
        part(self, "Softmax", None, vec![Some(changed)], vec![Some(probabilities)])?;
        let changed = self.changed(node, "prob_mod", opsets, probabilities)?;
        part(self, "FlexValues", Some(PARTS), vec![Some(changed), input(2)], outputs)
    }

    /// A value as a graph of a node changes it, if the node has the graph.
    fn changed(
        &mut self,
        node: &NodeProto,
        name: &str,
        opsets: &[OperatorSetIdProto],
        value: ValueId,
    ) -> Result<ValueId> {
        if !node.attribute.iter().any(|attribute| attribute.name.as_deref() == Some(name)) {
            return Ok(value);
        }
        let graph = graph_of(node, name)?;
        let made = self.deeper(node, |builder| builder.branch(graph, opsets, &[value]))?;
        match made[..] {
            [changed] if graph.input.len() == 1 => Ok(changed),
            _ => {
                Err(wrong(&described(node), format!("{} outputs of {name}", made.len()), "one of one input"))
            }
        }
    }
}

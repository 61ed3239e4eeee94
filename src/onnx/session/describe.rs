//! What a session compiled so far, in words.

use std::collections::BTreeMap;
use std::fmt;

use anydnn_backend::Backend;

use super::Session;
use super::scope::{Plan, Scope};
use crate::compile::CompiledGraph;
use crate::onnx::network::End;

/// One stage of a session: a graph on the device and what the host does after it.
#[derive(Clone, Debug)]
pub struct StageInfo<B: Backend> {
    /// The loops around it, each with a slash behind; empty for the model's own graph.
    pub path: String,
    /// The values of the model's open dimensions when it was compiled.
    pub dims: Vec<(String, usize)>,
    /// The graph; none where the device has nothing to do.
    pub device: Option<CompiledGraph<B>>,
    /// The nodes that the graph computes.
    pub device_nodes: Vec<NodeInfo>,
    /// The nodes that the host computes afterwards.
    pub host_nodes: Vec<NodeInfo>,
    /// Values that are read from the device for what they say about shapes and branches.
    pub fetched: Vec<String>,
    /// Values that this stage is good for: another value has a stage of its own.
    pub made_for: Vec<String>,
    /// Whether the outputs are there after it.
    pub is_last: bool,
}

/// A node of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// The name, or else that of what it makes.
    pub name: String,
    /// The operator.
    pub operator: String,
    /// Why the device does not compute it; empty where it does.
    pub why: String,
}

impl<B: Backend> StageInfo<B> {
    pub(super) fn new(scope: &Scope<B>, plan: &Plan<B>) -> Self {
        let program = &scope.program;
        let node = |index: usize, why: &str| {
            let step = &program.steps[index];
            NodeInfo {
                name: step.name().to_owned(),
                operator: step.operator().to_owned(),
                why: why.to_owned(),
            }
        };
        let demanded = plan.stage.demanded.iter().map(|(value, tensor)| {
            let numbers: Vec<_> = tensor.to_f64s().iter().take(8).map(ToString::to_string).collect();
            let more = if tensor.desc().elements() > 8 { ", .." } else { "" };
            format!("{} = [{}{more}]", program.names[*value], numbers.join(", "))
        });
        let stretches = plan.stage.stretches.iter().map(|stretch| {
            let end = match stretch.end {
                End::Held(value) => program.names[value].to_string(),
                End::At(end) => end.to_string(),
            };
            format!("{} from {} to {end}", stretch.length, program.names[stretch.start])
        });
        Self {
            path: scope.path.clone(),
            dims: plan.dims.clone(),
            device: plan.executable.as_ref().map(crate::execute::Executable::compiled),
            device_nodes: plan.stage.device.iter().map(|&index| node(index, "")).collect(),
            host_nodes: plan.stage.host.iter().map(|(index, why)| node(*index, why)).collect(),
            fetched: plan.stage.fetched.iter().map(|&value| program.names[value].to_string()).collect(),
            made_for: demanded.chain(stretches).collect(),
            is_last: plan.stage.is_last,
        }
    }
}

impl<B: Backend> fmt::Display for StageInfo<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<_> = self.dims.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        let path = if self.path.is_empty() {
            String::new()
        } else {
            format!(" of {}", self.path.trim_end_matches('/'))
        };
        writeln!(f, "stage{path}{}", dims.concat())?;
        if !self.made_for.is_empty() {
            writeln!(f, "  made for {}", self.made_for.join("; "))?;
        }
        if let Some(device) = &self.device {
            let (steps, launches) =
                (device.steps().iter().filter(|step| !step.constant).count(), device.launches());
            writeln!(
                f,
                "  device   {} nodes in {steps} primitives, {launches} launches: {}",
                self.device_nodes.len(),
                counted(&self.device_nodes)
            )?;
        }
        for node in &self.host_nodes {
            writeln!(f, "  host     {} {:?}: {}", node.operator, node.name, node.why)?;
        }
        if !self.fetched.is_empty() {
            writeln!(f, "  read     {}", self.fetched.join(", "))?;
        }
        Ok(())
    }
}

/// Operators with their numbers.
fn counted(nodes: &[NodeInfo]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for node in nodes {
        *counts.entry(&node.operator).or_default() += 1;
    }
    let counts: Vec<_> = counts.iter().map(|(operator, count)| format!("{count} {operator}")).collect();
    counts.join(", ")
}

impl<B: Backend> fmt::Display for Session<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe().iter().try_for_each(|stage| stage.fmt(f))
    }
}

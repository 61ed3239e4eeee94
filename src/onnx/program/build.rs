//! From graphs of a file to steps: functions and branches are put in place, loops keep their bodies.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anydnn_backend::{Error, Result};

use super::{
    Body, DEPTH, Prepared, Program, STEPS, Step, StepKind, ValueId, invariants, key, nchwc, twins, wrong,
};
use crate::onnx::is_standard;
use crate::onnx::proto::{
    AttributeProto, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto, TensorProto,
};

/// What all graphs of a model share.
pub(super) struct Shared<'a> {
    pub(super) functions: HashMap<(&'a str, &'a str), &'a FunctionProto>,
    pub(super) steps: std::cell::Cell<usize>,
    pub(super) is_random: twins::Ask,
}

/// The names of a graph, branch or function; none is a value left out.
#[derive(Default)]
struct Names {
    values: HashMap<String, Option<ValueId>>,
    /// Whether the graph around it is not seen.
    is_function: bool,
}

pub(super) struct Builder<'a> {
    shared: &'a Shared<'a>,
    pub(super) program: Program,
    scopes: Vec<Names>,
    depth: usize,
}

impl<'a> Builder<'a> {
    /// A graph as a program of its own.
    pub(super) fn graph(
        shared: &'a Shared<'a>,
        graph: &GraphProto,
        opsets: &[OperatorSetIdProto],
        depth: usize,
        is_body: bool,
    ) -> Result<Program> {
        let mut builder = Self { shared, program: Program::default(), scopes: vec![Names::default()], depth };
        builder.weights(graph)?;
        let mut seen = HashSet::new();
        for info in &graph.input {
            let name = info.name.as_deref().unwrap_or("");
            if !seen.insert(name) {
                return twice("input", name);
            }
            let known = builder.scopes[0].values.get(name).copied().flatten();
            let value = match known {
                // An initializer is the value of an input that is not given.
                Some(_) if !is_body => continue,
                Some(value) => {
                    builder.program.weights[value] = None;
                    value
                }
                None => builder.define(name)?,
            };
            builder.program.inputs.push(value);
        }
        builder.nodes(&graph.node, opsets)?;
        nchwc::settle(&mut builder.program);
        builder.program.outputs = builder.outputs(graph);
        twins::unite(&mut builder.program, shared.is_random);
        let declared = graph.output.iter().map(|info| {
            let tensor = info.r#type.as_ref().and_then(|of| of.tensor_type.as_ref());
            let dims = tensor.and_then(|tensor| tensor.shape.as_ref()).map_or(&[][..], |shape| &shape.dim);
            let dims = dims
                .iter()
                .map(|dim| dim.dim_value.and_then(|value| usize::try_from(value).ok()).unwrap_or(0));
            (tensor.and_then(|tensor| tensor.elem_type), dims.collect())
        });
        builder.program.declared = declared.collect();
        if !is_body {
            invariants::settle(&mut builder.program, shared.is_random);
        }
        Ok(builder.program)
    }

    fn weights(&mut self, graph: &GraphProto) -> Result<()> {
        for tensor in &graph.initializer {
            let name = tensor.name.as_deref().unwrap_or("");
            if self.is_defined(name) {
                return twice("initializer", name);
            }
            let value = self.define(name)?;
            self.program.weights[value] = Some(Arc::new(tensor.clone()));
        }
        Ok(())
    }

    fn outputs(&mut self, graph: &GraphProto) -> Vec<ValueId> {
        let names = graph.output.iter().map(|info| info.name.as_deref().unwrap_or(""));
        names.map(|name| self.resolve(name).unwrap_or_else(|| self.program.value(name))).collect()
    }

    fn nodes(&mut self, nodes: &[NodeProto], opsets: &[OperatorSetIdProto]) -> Result<()> {
        // Whoever reads a value may stand before its node.
        let mut made = HashSet::new();
        for node in nodes {
            for name in node.output.iter().filter(|name| !name.is_empty()) {
                let is_output_of_function =
                    self.scopes.last().is_some_and(|scope| scope.is_function) && self.is_defined(name);
                if !made.insert(name.as_str()) || (self.is_defined(name) && !is_output_of_function) {
                    return twice("output of a node", name);
                }
                if !is_output_of_function {
                    self.define(name)?;
                }
            }
        }
        // Plans share weights. Some exporters write all of them as nodes.
        for (name, tensor) in nodes.iter().filter_map(constant) {
            if let Some(value) = self.resolve(name) {
                self.program.weights[value] = Some(Arc::new(tensor.clone()));
            }
        }
        nodes.iter().filter(|node| constant(node).is_none()).try_for_each(|node| self.node(node, opsets))
    }

    fn node(&mut self, node: &NodeProto, opsets: &[OperatorSetIdProto]) -> Result<()> {
        let named = |builder: &mut Self, names: &[String]| -> Vec<Option<ValueId>> {
            names.iter().map(|name| if name.is_empty() { None } else { builder.resolve(name) }).collect()
        };
        let (mut inputs, mut outputs) = (named(self, &node.input), named(self, &node.output));
        let mut same = Vec::new();
        let key = key(node.domain.as_deref(), node.op_type.as_deref());
        if let Some(function) = self.shared.functions.get(&key) {
            return self.deeper(node, |builder| builder.call(function, node, &inputs, &outputs));
        }
        if key == ("ai.onnx.preview", "FlexAttention") {
            return self.flex_attention(node, opsets, &inputs, outputs);
        }
        let kind = match (key.0, key.1) {
            ("", "If") => {
                let [then, otherwise] = ["then_branch", "else_branch"].map(|name| graph_of(node, name));
                let (then, otherwise) = (then?, otherwise?);
                let branches = [
                    self.deeper(node, |b| b.branch(then, opsets, &[]))?,
                    self.deeper(node, |b| b.branch(otherwise, opsets, &[]))?,
                ];
                for (branch, name) in branches.iter().zip(["then_branch", "else_branch"]) {
                    if branch.len() < node.output.len() {
                        let given = format!("{} outputs of {name}", branch.len());
                        return Err(wrong(
                            &described(node),
                            given,
                            &format!("{}, as of the node", node.output.len()),
                        ));
                    }
                }
                StepKind::If(Box::new(branches))
            }
            ("", "Loop" | "Scan") => {
                let body = graph_of(node, "body")?;
                let depth = self.depth + 1;
                let shared = self.shared;
                let program = self.deeper(node, |_| Builder::graph(shared, body, opsets, depth, true))?;
                let mut program = program;
                let free: Vec<_> =
                    program.free.iter().map(|&inner| (inner, program.names[inner].clone())).collect();
                let mut seen: Vec<_> =
                    free.iter().filter_map(|(inner, name)| Some((*inner, self.resolve(name)?))).collect();
                if key.1 == "Loop" {
                    same = take_unchanged(&mut program, &mut inputs, &mut outputs);
                    seen.extend(same.iter().map(|&(inner, outer, _)| (inner, outer)));
                }
                // What of them are weights is known once the graphs around are complete.
                StepKind::Repeat(Body { program: Arc::new(program), captures: seen })
            }
            _ => StepKind::Plain,
        };
        let standard = is_standard(node.domain.as_deref());
        let is_its = |set: &&OperatorSetIdProto| match set.domain.as_deref() {
            domain if standard => is_standard(domain),
            domain => domain == node.domain.as_deref(),
        };
        let opset = opsets.iter().find(is_its).and_then(|set| set.version).unwrap_or(1);
        let mut proto = node.clone();
        proto.attribute.retain(|attribute| attribute.g.is_none());
        for (_, outer, output) in same {
            if let Some(output) = output {
                self.hand_on(node, Some(outer), output)?;
            }
        }
        self.push(Step { proto, opset, inputs, outputs, kind, prepared: Prepared::default() })
    }

    /// A value under another name.
    fn hand_on(&mut self, node: &NodeProto, from: Option<ValueId>, to: ValueId) -> Result<()> {
        let proto = NodeProto {
            op_type: Some("Identity".into()),
            name: node.name.clone(),
            output: node.output.clone(),
            ..NodeProto::default()
        };
        let (inputs, outputs) = (vec![from], vec![Some(to)]);
        self.push(Step::plain(proto, inputs, outputs))
    }

    pub(super) fn push(&mut self, step: Step) -> Result<()> {
        let steps = self.shared.steps.get() + 1;
        self.shared.steps.set(steps);
        if steps > STEPS {
            return Err(Error::unsupported(
                "ONNX graph",
                format!("more than {STEPS} nodes, functions inlined, are not read"),
            ));
        }
        self.program.push(step);
        Ok(())
    }

    /// A branch within this program, with values for its inputs: its outputs.
    pub(super) fn branch(
        &mut self,
        graph: &GraphProto,
        opsets: &[OperatorSetIdProto],
        inputs: &[ValueId],
    ) -> Result<Vec<ValueId>> {
        let mut names = Names::default();
        for (info, &input) in graph.input.iter().zip(inputs) {
            names.values.insert(info.name.clone().unwrap_or_default(), Some(input));
        }
        self.scopes.push(names);
        let made = self.weights(graph).and_then(|()| self.nodes(&graph.node, opsets));
        let outputs = self.outputs(graph);
        self.scopes.pop();
        made.map(|()| outputs)
    }

    /// The nodes of a function in place of its call.
    fn call(
        &mut self,
        function: &FunctionProto,
        node: &NodeProto,
        inputs: &[Option<ValueId>],
        outputs: &[Option<ValueId>],
    ) -> Result<()> {
        let mut names = Names { is_function: true, ..Names::default() };
        for (index, name) in function.input.iter().enumerate() {
            names.values.insert(name.clone(), inputs.get(index).copied().flatten());
        }
        let mut handed_on = Vec::new();
        for (index, name) in function.output.iter().enumerate() {
            let Some(output) = outputs.get(index).copied().flatten() else { continue };
            if let Some(input) = names.values.get(name) {
                handed_on.push((*input, output));
            } else {
                names.values.insert(name.clone(), Some(output));
            }
        }
        self.scopes.push(names);
        let nodes: Vec<_> =
            function.node.iter().map(|inner| with_attributes(inner, node, function)).collect();
        let made = self.nodes(&nodes, &function.opset_import);
        self.scopes.pop();
        made?;
        handed_on.into_iter().try_for_each(|(input, output)| self.hand_on(node, input, output))
    }

    pub(super) fn deeper<T>(
        &mut self,
        node: &NodeProto,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if self.depth >= DEPTH {
            let why = format!("at most {DEPTH} graphs and functions within one another are read");
            return Err(Error::unsupported(described(node), why));
        }
        self.depth += 1;
        let made = work(self);
        self.depth -= 1;
        made
    }

    fn is_defined(&self, name: &str) -> bool {
        self.scopes.last().is_some_and(|scope| scope.values.contains_key(name))
    }

    /// A new value of the innermost names.
    fn define(&mut self, name: &str) -> Result<ValueId> {
        let value = self.program.value(name);
        match self.scopes.last_mut() {
            Some(scope) => scope.values.insert(name.to_owned(), Some(value)),
            None => return Err(wrong("value", format!("{name:?} outside"), "a graph")),
        };
        Ok(value)
    }

    /// The value of a name; what no graph here has is left to those around it. None for an input that a function's caller left out.
    fn resolve(&mut self, name: &str) -> Option<ValueId> {
        let mut at = self.scopes.len();
        while at > 0 {
            at -= 1;
            if let Some(value) = self.scopes[at].values.get(name) {
                return *value;
            }
            if self.scopes[at].is_function {
                break;
            }
        }
        let value = self.program.value(name);
        if !self.scopes[at].is_function {
            self.program.free.push(value);
        }
        self.scopes[at].values.insert(name.to_owned(), Some(value));
        Some(value)
    }
}

/// Takes from a loop what its rounds hand on as it is, as some exporters write what every round reads: returns the body's value, that of the
/// graph around it, and the loop's result, which is the same.
fn take_unchanged(
    body: &mut Program,
    inputs: &mut Vec<Option<ValueId>>,
    outputs: &mut Vec<Option<ValueId>>,
) -> Vec<(ValueId, ValueId, Option<ValueId>)> {
    // In front of what is carried are the count and the condition; the body's results have the condition alone.
    let carried = inputs.len().saturating_sub(2);
    if body.inputs.len() != carried + 2 || body.outputs.len() < carried + 1 {
        return Vec::new();
    }
    let mut taken = Vec::new();
    for at in (0..carried).rev() {
        let inner = body.inputs[at + 2];
        let Some(outer) = inputs[at + 2].filter(|_| body.outputs[at + 1] == inner) else { continue };
        inputs.remove(at + 2);
        body.inputs.remove(at + 2);
        body.outputs.remove(at + 1);
        body.declared.remove(at + 1);
        let output = if at < outputs.len() { outputs.remove(at) } else { None };
        taken.push((inner, outer, output));
    }
    taken
}

/// A node of a function with the attributes of its call.
fn with_attributes(inner: &NodeProto, call: &NodeProto, function: &FunctionProto) -> NodeProto {
    let substitute = |attribute: &AttributeProto| {
        let Some(wanted) = attribute.ref_attr_name.as_deref().filter(|name| !name.is_empty()) else {
            return match &attribute.g {
                None => Some(attribute.clone()),
                Some(graph) => {
                    let mut graph = graph.clone();
                    for node in &mut graph.node {
                        *node = with_attributes(node, call, function);
                    }
                    Some(AttributeProto { g: Some(graph), ..attribute.clone() })
                }
            };
        };
        let named = |attribute: &&AttributeProto| attribute.name.as_deref() == Some(wanted);
        let given = call.attribute.iter().find(named).or_else(|| function.attribute_proto.iter().find(named));
        given.map(|given| AttributeProto { name: attribute.name.clone(), ..given.clone() })
    };
    let mut node = inner.clone();
    node.attribute = inner.attribute.iter().filter_map(substitute).collect();
    if let Some(name) = call.name.as_deref().filter(|name| !name.is_empty()) {
        node.name = Some(format!(
            "{name}/{}",
            inner.name.as_deref().filter(|name| !name.is_empty()).or(inner.op_type.as_deref()).unwrap_or("")
        ));
    }
    node
}

pub(super) fn graph_of<'n>(node: &'n NodeProto, name: &str) -> Result<&'n GraphProto> {
    let found = node.attribute.iter().find(|attribute| attribute.name.as_deref() == Some(name));
    found
        .and_then(|attribute| attribute.g.as_ref())
        .ok_or_else(|| wrong(&described(node), format!("no {name}"), "a graph"))
}

/// A node in words.
pub(super) fn described(node: &NodeProto) -> String {
    format!("{} {:?}", node.op_type.as_deref().unwrap_or("?"), node.name.as_deref().unwrap_or(""))
}

/// The name and the tensor of a node that is nothing but a tensor.
fn constant(node: &NodeProto) -> Option<(&str, &TensorProto)> {
    let ([output], [attribute]) = (node.output.as_slice(), node.attribute.as_slice()) else { return None };
    let is_constant = key(node.domain.as_deref(), node.op_type.as_deref()) == ("", "Constant");
    let is_plain = !output.is_empty() && attribute.name.as_deref() == Some("value");
    attribute.t.as_ref().filter(|_| is_constant && is_plain).map(|tensor| (output.as_str(), tensor))
}

fn twice<T>(what: &str, name: &str) -> Result<T> {
    Err(wrong(what, format!("{name:?}, which is there already"), "a name of its own for every value"))
}

//! A graph of a file as steps over numbered values: functions and branches are inlined, bodies of loops are programs of their own.

use std::collections::HashMap;
use std::sync::Arc;

use anydnn_backend::{DataType, Error, InvalidKind, Result};

use super::is_standard;
use super::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
};
use super::tensor::data_type;

/// The most graphs and functions within one another.
const DEPTH: usize = 32;
/// The most steps of a model, its functions inlined.
const STEPS: usize = 1 << 20;

/// A value, an index into the values of a program.
pub(super) type ValueId = usize;

/// Steps in the order of the file; only those that outputs need are looked at.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    /// The values' names in the file.
    pub(super) names: Vec<String>,
    /// The step that makes a value.
    pub(super) producers: Vec<Option<usize>>,
    pub(super) weights: Vec<Option<Arc<TensorProto>>>,
    /// What executions are given; of a model without those that are weights.
    pub(super) inputs: Vec<ValueId>,
    pub(super) outputs: Vec<ValueId>,
    /// The types and dimensions of the outputs, as far as the file says them.
    declared: Vec<(Option<i32>, Vec<usize>)>,
    /// Values that only a graph around this one can have.
    pub(super) free: Vec<ValueId>,
}

/// A node of the file.
#[derive(Debug)]
pub(super) struct Step {
    /// Without its graphs.
    pub(super) proto: NodeProto,
    /// The opset of its domain.
    pub(super) opset: i64,
    /// None where one is left out.
    pub(super) inputs: Vec<Option<ValueId>>,
    pub(super) outputs: Vec<Option<ValueId>>,
    pub(super) kind: StepKind,
}

/// What a step does.
#[derive(Debug)]
pub(super) enum StepKind {
    /// What its operator says.
    Plain,
    /// Hands on the values of one branch: the first unless its input is false.
    If(Box<[Vec<ValueId>; 2]>),
    /// Runs a body again and again.
    Repeat(Body),
}

/// The graph of a loop.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) program: Arc<Program>,
    /// Values of the body with those of the graph around it that they are.
    pub(super) captures: Vec<(ValueId, ValueId)>,
}

impl Step {
    /// All values that must be there before it.
    pub(super) fn needs(&self) -> impl Iterator<Item = ValueId> {
        let captures = match &self.kind {
            StepKind::Repeat(body) => body.captures.as_slice(),
            _ => &[],
        };
        self.inputs.iter().flatten().copied().chain(captures.iter().map(|(_, outer)| *outer))
    }

    /// Whether it hands on a value or works with it.
    fn reads(&self, value: ValueId) -> bool {
        let in_branch = match &self.kind {
            StepKind::If(branches) => branches.iter().any(|branch| branch.contains(&value)),
            _ => false,
        };
        in_branch || self.needs().any(|read| read == value)
    }

    pub(super) fn operator(&self) -> &str {
        self.proto.op_type.as_deref().unwrap_or("?")
    }

    /// The node's name, or else that of what it makes.
    pub(super) fn name(&self) -> &str {
        let own = self.proto.name.as_deref().filter(|name| !name.is_empty());
        own.or_else(|| self.proto.output.first().map(String::as_str)).unwrap_or("")
    }

    /// The step in words.
    pub(super) fn described(&self) -> String {
        format!("{} {:?}", self.operator(), self.proto.name.as_deref().unwrap_or(""))
    }
}

impl Program {
    /// The program of a model.
    ///
    /// # Errors
    /// [`Error::Invalid`] for values with the same name, [`Error::Unsupported`] for graphs too deep within one another.
    pub(super) fn of(model: &ModelProto) -> Result<Self> {
        let empty = GraphProto::default();
        let graph = model.graph.as_ref().unwrap_or(&empty);
        let functions = model
            .functions
            .iter()
            .map(|function| (key(function.domain.as_deref(), function.name.as_deref()), function));
        let shared = Shared { functions: functions.collect(), steps: std::cell::Cell::new(0) };
        Builder::graph(&shared, graph, &model.opset_import, 0, false)
    }

    /// Whether anything works with a value, or it is an output.
    pub(super) fn is_read(&self, value: ValueId) -> bool {
        self.outputs.contains(&value) || self.steps.iter().any(|step| step.reads(value))
    }

    /// The type and dimensions of an output as the file says them, f32 and no elements where it does not.
    pub(super) fn declared(&self, output: ValueId) -> (DataType, Vec<usize>) {
        let at = self.outputs.iter().position(|&own| own == output);
        let (number, dims) = at.and_then(|at| self.declared.get(at)).cloned().unwrap_or_default();
        (number.and_then(|number| data_type(number).ok()).unwrap_or(DataType::F32), dims)
    }

    fn value(&mut self, name: &str) -> ValueId {
        self.names.push(name.to_owned());
        self.producers.push(None);
        self.weights.push(None);
        self.names.len() - 1
    }
}

fn key<'a>(domain: Option<&'a str>, name: Option<&'a str>) -> (&'a str, &'a str) {
    (if is_standard(domain) { "" } else { domain.unwrap_or("") }, name.unwrap_or(""))
}

struct Shared<'a> {
    functions: HashMap<(&'a str, &'a str), &'a FunctionProto>,
    steps: std::cell::Cell<usize>,
}

/// The names of a graph, branch or function; none is a value left out.
#[derive(Default)]
struct Names {
    values: HashMap<String, Option<ValueId>>,
    /// Whether the graph around it is not seen.
    is_function: bool,
}

struct Builder<'a> {
    shared: &'a Shared<'a>,
    program: Program,
    scopes: Vec<Names>,
    depth: usize,
}

impl<'a> Builder<'a> {
    /// A graph as a program of its own.
    fn graph(
        shared: &'a Shared<'a>,
        graph: &GraphProto,
        opsets: &[OperatorSetIdProto],
        depth: usize,
        is_body: bool,
    ) -> Result<Program> {
        let mut builder = Self { shared, program: Program::default(), scopes: vec![Names::default()], depth };
        builder.weights(graph)?;
        let mut seen = std::collections::HashSet::new();
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
        builder.program.outputs = builder.outputs(graph);
        let declared = graph.output.iter().map(|info| {
            let tensor = info.r#type.as_ref().and_then(|of| of.tensor_type.as_ref());
            let dims = tensor.and_then(|tensor| tensor.shape.as_ref()).map_or(&[][..], |shape| &shape.dim);
            let dims = dims
                .iter()
                .map(|dim| dim.dim_value.and_then(|value| usize::try_from(value).ok()).unwrap_or(0));
            (tensor.and_then(|tensor| tensor.elem_type), dims.collect())
        });
        builder.program.declared = declared.collect();
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
        let mut made = std::collections::HashSet::new();
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
        nodes.iter().try_for_each(|node| self.node(node, opsets))
    }

    fn node(&mut self, node: &NodeProto, opsets: &[OperatorSetIdProto]) -> Result<()> {
        let named = |builder: &mut Self, names: &[String]| -> Vec<Option<ValueId>> {
            names.iter().map(|name| if name.is_empty() { None } else { builder.resolve(name) }).collect()
        };
        let (inputs, outputs) = (named(self, &node.input), named(self, &node.output));
        let key = key(node.domain.as_deref(), node.op_type.as_deref());
        if let Some(function) = self.shared.functions.get(&key) {
            return self.deeper(node, |builder| builder.call(function, node, &inputs, &outputs));
        }
        let kind = match (key.0, key.1) {
            ("", "If") => {
                let [then, otherwise] = ["then_branch", "else_branch"].map(|name| graph_of(node, name));
                let (then, otherwise) = (then?, otherwise?);
                let branches = [
                    self.deeper(node, |b| b.branch(then, opsets))?,
                    self.deeper(node, |b| b.branch(otherwise, opsets))?,
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
                let mut captures = Vec::new();
                for (inner, name) in free {
                    let Some(outer) = self.resolve(&name) else { continue };
                    match &self.program.weights[outer] {
                        Some(weight) => program.weights[inner] = Some(Arc::clone(weight)),
                        None => captures.push((inner, outer)),
                    }
                }
                StepKind::Repeat(Body { program: Arc::new(program), captures })
            }
            _ => StepKind::Plain,
        };
        let standard = is_standard(node.domain.as_deref());
        let same = |set: &&OperatorSetIdProto| match set.domain.as_deref() {
            domain if standard => is_standard(domain),
            domain => domain == node.domain.as_deref(),
        };
        let opset = opsets.iter().find(same).and_then(|set| set.version).unwrap_or(1);
        let mut proto = node.clone();
        proto.attribute.retain(|attribute| attribute.g.is_none());
        self.push(Step { proto, opset, inputs, outputs, kind })
    }

    fn push(&mut self, step: Step) -> Result<()> {
        let steps = self.shared.steps.get() + 1;
        self.shared.steps.set(steps);
        if steps > STEPS {
            return Err(Error::unsupported(
                "ONNX graph",
                format!("more than {STEPS} nodes, functions inlined, are not read"),
            ));
        }
        let index = self.program.steps.len();
        for output in step.outputs.iter().flatten() {
            self.program.producers[*output] = Some(index);
        }
        self.program.steps.push(step);
        Ok(())
    }

    /// A branch within this program: its outputs.
    fn branch(&mut self, graph: &GraphProto, opsets: &[OperatorSetIdProto]) -> Result<Vec<ValueId>> {
        self.scopes.push(Names::default());
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
        handed_on.into_iter().try_for_each(|(input, output)| {
            let proto = NodeProto {
                op_type: Some("Identity".into()),
                name: node.name.clone(),
                output: node.output.clone(),
                ..NodeProto::default()
            };
            self.push(Step {
                proto,
                opset: 13,
                inputs: vec![input],
                outputs: vec![Some(output)],
                kind: StepKind::Plain,
            })
        })
    }

    fn deeper<T>(&mut self, node: &NodeProto, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
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

fn graph_of<'n>(node: &'n NodeProto, name: &str) -> Result<&'n GraphProto> {
    let found = node.attribute.iter().find(|attribute| attribute.name.as_deref() == Some(name));
    found
        .and_then(|attribute| attribute.g.as_ref())
        .ok_or_else(|| wrong(&described(node), format!("no {name}"), "a graph"))
}

/// A node in words.
fn described(node: &NodeProto) -> String {
    format!("{} {:?}", node.op_type.as_deref().unwrap_or("?"), node.name.as_deref().unwrap_or(""))
}

fn twice<T>(what: &str, name: &str) -> Result<T> {
    Err(wrong(what, format!("{name:?}, which is there already"), "a name of its own for every value"))
}

pub(super) fn wrong(subject: &str, given: String, expected: &str) -> Error {
    Error::invalid_kind(InvalidKind::Graph, "ONNX graph", subject, given, expected)
}

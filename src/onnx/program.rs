//! A graph of a file as steps over numbered values: functions and branches are inlined, bodies of loops are programs of their own.

mod build;
mod invariants;
pub(super) mod nchwc;
mod parts;
mod twins;

use std::sync::{Arc, OnceLock};

use anydnn_backend::{DataType, Error, InvalidKind, Result};

use super::constant::Constant;
use super::is_standard;
use super::node::Prepared;
use super::proto::{GraphProto, ModelProto, NodeProto, TensorProto};
use super::tensor::data_type;
use build::{Builder, Shared};

/// The domain of what a program makes of operators with graphs.
pub(super) const PARTS: &str = "anydnn.parts";

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
    pub(super) names: Vec<Arc<str>>,
    /// The step that makes a value.
    pub(super) producers: Vec<Option<usize>>,
    pub(super) weights: Vec<Option<Arc<TensorProto>>>,
    /// Weights of few bytes, as they were read for the first plan that asked for them.
    pub(super) small: Vec<OnceLock<Constant>>,
    /// What executions are given; of a model without those that are weights.
    pub(super) inputs: Vec<ValueId>,
    pub(super) outputs: Vec<ValueId>,
    /// The types and dimensions of the outputs, as far as the file says them.
    declared: Vec<(Option<i32>, Vec<usize>)>,
    /// Values that only a graph around this one can have.
    pub(super) free: Vec<ValueId>,
    /// How often each value is read.
    readings: OnceLock<Vec<u32>>,
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
    /// What the host has read from the node.
    pub(super) prepared: Prepared,
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

    /// A step of the importer's own, which no file has.
    fn plain(proto: NodeProto, inputs: Vec<Option<ValueId>>, outputs: Vec<Option<ValueId>>) -> Self {
        Self { proto, opset: 13, inputs, outputs, kind: StepKind::Plain, prepared: Prepared::default() }
    }

    /// The values that it hands on or works with, each as often as it does.
    fn reads(&self) -> impl Iterator<Item = ValueId> {
        let branches = match &self.kind {
            StepKind::If(branches) => branches.as_slice(),
            _ => &[],
        };
        self.needs().chain(branches.iter().flatten().copied())
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
    /// The program of a model; `is_random` tells steps whose results differ from one node to the next, as those of random numbers.
    ///
    /// # Errors
    /// [`Error::Invalid`] for values with the same name, [`Error::Unsupported`] for graphs too deep within one another.
    pub(super) fn of(model: &ModelProto, is_random: fn(&Step) -> bool) -> Result<Self> {
        let empty = GraphProto::default();
        let graph = model.graph.as_ref().unwrap_or(&empty);
        let functions = model
            .functions
            .iter()
            .map(|function| (key(function.domain.as_deref(), function.name.as_deref()), function));
        let shared = Shared { functions: functions.collect(), steps: std::cell::Cell::new(0), is_random };
        Builder::graph(&shared, graph, &model.opset_import, 0, false)
    }

    /// Bytes of the weights as the file tells them, those of loops with them; of types that we have.
    pub(super) fn weight_bytes(&self) -> usize {
        let bytes = |tensor: &Arc<TensorProto>| {
            let bits = tensor.data_type.and_then(|number| data_type(number).ok()).map_or(0, DataType::bits);
            let extents = tensor.dims.iter().map(|&extent| usize::try_from(extent).unwrap_or(0));
            extents.fold(bits, usize::saturating_mul) / 8
        };
        let own = self.weights.iter().flatten().map(bytes);
        let bodies = self.steps.iter().filter_map(|step| match &step.kind {
            StepKind::Repeat(body) => Some(body.program.weight_bytes()),
            _ => None,
        });
        own.chain(bodies).fold(0, usize::saturating_add)
    }

    /// Whether anything works with a value, or it is an output.
    pub(super) fn is_read(&self, value: ValueId) -> bool {
        self.readings(value) > 0
    }

    /// How often a value is worked with or handed on; an output is handed on once more.
    pub(super) fn readings(&self, value: ValueId) -> u32 {
        let count = || {
            let mut readings = vec![0; self.names.len()];
            let all = self.steps.iter().flat_map(Step::reads).chain(self.outputs.iter().copied());
            all.for_each(|value| readings[value] += 1);
            readings
        };
        self.readings.get_or_init(count)[value]
    }

    /// The type and dimensions of an output as the file says them, f32 and no elements where it does not.
    pub(super) fn declared(&self, output: ValueId) -> (DataType, Vec<usize>) {
        let at = self.outputs.iter().position(|&own| own == output);
        let (number, dims) = at.and_then(|at| self.declared.get(at)).cloned().unwrap_or_default();
        (number.and_then(|number| data_type(number).ok()).unwrap_or(DataType::F32), dims)
    }

    /// Adds a step, which makes its outputs.
    fn push(&mut self, step: Step) {
        let index = self.steps.len();
        step.outputs.iter().flatten().for_each(|&output| self.producers[output] = Some(index));
        self.steps.push(step);
    }

    fn value(&mut self, name: &str) -> ValueId {
        self.names.push(name.into());
        self.producers.push(None);
        self.weights.push(None);
        self.small.push(OnceLock::new());
        self.names.len() - 1
    }
}

fn key<'a>(domain: Option<&'a str>, name: Option<&'a str>) -> (&'a str, &'a str) {
    (if is_standard(domain) { "" } else { domain.unwrap_or("") }, name.unwrap_or(""))
}

pub(super) fn wrong(subject: &str, given: String, expected: &str) -> Error {
    Error::invalid_kind(InvalidKind::Graph, "ONNX graph", subject, given, expected)
}

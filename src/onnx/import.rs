//! From the steps of a program to graphs: everything that an execution can compute on the device with what it has so far.

use std::sync::Arc;

use anydnn_backend::{DataType, Dims, Error, MemoryDesc, Result, ResultExt};
use rustc_hash::FxHashSet;

use super::files::{ExternalData, Origin};
use super::network::{Finished, Held, Network, Stretch, Value};
use super::node::Node;
use super::ops;
use super::program::{Program, Step, StepKind, ValueId, wrong};
use crate::graph::TensorId;
use crate::model::HostTensor;

/// The most elements of a value that graphs are made for.
const FEW: usize = 1024;
/// Values of at most so many elements are computed on the host wherever they are.
const TINY: usize = 8;

/// What an execution has of a value before a stage.
#[derive(Clone, Debug)]
pub(super) struct Have {
    pub(super) dims: Dims,
    pub(super) data_type: DataType,
    /// The elements, where they are few integers that are on the host.
    pub(super) tensor: Option<Arc<HostTensor>>,
}

/// One graph of an execution, and what follows on the host.
#[derive(Debug)]
pub(super) struct Stage {
    /// None where there is nothing for the device to do.
    pub(super) finished: Option<Finished>,
    /// What the graph makes.
    pub(super) outputs: Vec<(ValueId, TensorId)>,
    /// Values that follow from shapes and constants alone.
    pub(super) known: Vec<(ValueId, Arc<HostTensor>)>,
    /// Values that are others held already.
    pub(super) same: Vec<(ValueId, ValueId)>,
    /// The held values that this is good for.
    pub(super) demanded: Vec<(ValueId, Arc<HostTensor>)>,
    /// The stretches that executions may have anywhere.
    pub(super) stretches: Vec<Stretch>,
    /// Values whose elements the next stage needs on the host.
    pub(super) fetched: Vec<ValueId>,
    /// The steps that the host computes now, with the reason.
    pub(super) host: Vec<(usize, String)>,
    /// The steps that the graph computes.
    pub(super) device: Vec<usize>,
    /// Whether this was the last.
    pub(super) is_last: bool,
}

/// What is imported.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) program: &'a Program,
    pub(super) origin: &'a Origin,
    /// The type in place of f32, if not f32.
    pub(super) narrow: Option<DataType>,
    /// Whether graphs are made for values that executions have.
    pub(super) specialises: bool,
    /// Whether it is the body of a loop.
    pub(super) repeats: bool,
    /// Whether calling a function of the host costs no more than a primitive.
    pub(super) calls_are_free: bool,
    /// Steps that stay on the host whatever the importer says.
    pub(super) kept_back: &'a [usize],
}

/// Imports a whole program as one graph.
///
/// # Errors
/// That of the first step that has no place in it.
pub(super) fn whole(request: Request<'_>, inputs: Vec<(ValueId, DataType, Dims)>) -> Result<Finished> {
    let mut stage = Walk::new(request, true);
    for (value, data_type, dims) in inputs {
        let held = Held::new(value, &request.program.names[value], dims, data_type);
        let made = stage.network.held(held);
        stage.network.declare(&made);
        stage.values[value] = Some(made);
    }
    stage.walk()?;
    for &output in &request.program.outputs {
        let name = &request.program.names[output];
        let value = stage.value(output, || "an output of the graph".to_owned())?;
        stage.network.output(name, &value).at(|| format!("output {name:?}"))?;
    }
    stage.network.finish()
}

/// Imports what can be computed on the device with the values that an execution has.
///
/// # Errors
/// [`Error::Unsupported`] for a step that neither the device nor the host computes; what the file has wrong.
pub(super) fn stage(request: Request<'_>, have: &[Option<Have>]) -> Result<Stage> {
    let mut walk = Walk::new(request, false);
    for (value, have) in have.iter().enumerate() {
        let Some(have) = have else { continue };
        let mut held = Held::new(value, &request.program.names[value], have.dims.clone(), have.data_type);
        let few = |tensor: &&Arc<HostTensor>| {
            request.specialises || tensor.desc().elements() == 1 && tensor.data_type() == DataType::Boolean
        };
        held.tensor = have.tensor.as_ref().filter(few).cloned();
        held.of_round = have.tensor.as_ref().filter(|_| request.repeats).cloned();
        walk.values[value] = Some(walk.network.held(held));
        walk.given[value] = true;
    }
    walk.walk()?;
    walk.finish()
}

/// Whether graphs may be made for the elements of such a value. Conditions have as many dimensions as what they compare.
pub(super) fn may_specialise(dims: &Dims, data_type: DataType) -> bool {
    let few = dims.len() <= 1 && dims.elements() <= FEW || dims.elements() == 1;
    (data_type.is_integer() || data_type == DataType::Boolean) && few
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Entered,
    Done,
    /// A value before it is not there in this stage.
    Pending,
    /// The host computes it after this stage.
    Host,
}

struct Walk<'a> {
    request: Request<'a>,
    program: &'a Program,
    /// Whether everything must become one graph.
    is_whole: bool,
    network: Network,
    external: ExternalData<'a>,
    values: Vec<Option<Value>>,
    /// The values that were there before.
    given: Vec<bool>,
    states: Vec<State>,
    host: Vec<(usize, String)>,
    device: Vec<usize>,
    fetched: Vec<ValueId>,
}

/// A step with the number of values before it that were followed.
struct Visit {
    step: usize,
    followed: usize,
    /// The values of the branch that was taken.
    branch: Option<Vec<ValueId>>,
}

impl<'a> Walk<'a> {
    fn new(request: Request<'a>, is_whole: bool) -> Self {
        let program = request.program;
        Self {
            request,
            program,
            is_whole,
            network: Network::of(request.narrow, program.steps.len(), program.names.len()),
            external: ExternalData::new(request.origin),
            values: vec![None; program.names.len()],
            given: vec![false; program.names.len()],
            states: vec![State::New; program.steps.len()],
            host: Vec::new(),
            device: Vec::new(),
            fetched: Vec::new(),
        }
    }

    /// Follows the outputs to everything before them.
    fn walk(&mut self) -> Result<()> {
        let program = self.program;
        // Steps are entered with a list of their own: long chains need no stack.
        let mut path: Vec<Visit> = Vec::new();
        for &output in &program.outputs {
            path.extend(self.enter(output, None)?);
            while let Some(mut visit) = path.pop() {
                let step = &program.steps[visit.step];
                let next = match &visit.branch {
                    Some(branch) => branch.get(visit.followed).copied(),
                    None => step.needs().nth(visit.followed),
                };
                if let Some(value) = next {
                    visit.followed += 1;
                    let reader = visit.step;
                    path.push(visit);
                    path.extend(self.enter(value, Some(reader))?);
                } else if let Some(branch) = self.leave(visit.step, visit.branch)? {
                    path.push(Visit { step: visit.step, followed: 0, branch: Some(branch) });
                }
            }
        }
        Ok(())
    }

    /// The step that makes a value, if it was not followed yet; a weight is read.
    fn enter(&mut self, value: ValueId, reader: Option<usize>) -> Result<Option<Visit>> {
        if self.values[value].is_some() {
            return Ok(None);
        }
        let program = self.program;
        let name = &program.names[value];
        if let Some(tensor) = &program.weights[value] {
            let small = &program.small[value];
            let made = self.network.weight(name, value, tensor, small, &mut self.external);
            self.values[value] = Some(made.at(|| format!("initializer {name:?}"))?);
            return Ok(None);
        }
        let reader = || {
            reader.map_or_else(|| "an output of the graph".to_owned(), |step| program.steps[step].described())
        };
        let Some(step) = program.producers[value] else {
            let expected = "an input, an initializer or an output of a node";
            return Err(wrong(&reader(), format!("{name:?}, which nothing makes"), expected));
        };
        match self.states[step] {
            State::New => {
                self.states[step] = State::Entered;
                Ok(Some(Visit { step, followed: 0, branch: None }))
            }
            State::Entered => {
                let given = format!("a cycle through {name:?}, made by {}", program.steps[step].described());
                Err(wrong(&reader(), given, "a graph without cycles"))
            }
            State::Done | State::Pending | State::Host => Ok(None),
        }
    }

    /// A value that must be there for its reader, whose name messages alone tell.
    fn value(&self, value: ValueId, reader: impl FnOnce() -> String) -> Result<Value> {
        if let Some(found) = &self.values[value] {
            return Ok(found.clone());
        }
        let name = &self.program.names[value];
        Err(match self.program.producers[value] {
            // Whoever reads a value comes after its node, which then made only its first outputs.
            Some(step) => Error::unsupported(
                format!("output {name:?} of {}", self.program.steps[step].described()),
                "only the first outputs of this operator are read",
            ),
            None => wrong(&reader(), format!("{name:?}, which nothing makes"), "a value of the graph"),
        })
    }

    /// Imports a step whose values were followed. Returns the values of a branch that are to be followed first.
    fn leave(&mut self, index: usize, branch: Option<Vec<ValueId>>) -> Result<Option<Vec<ValueId>>> {
        let program = self.program;
        let step = &program.steps[index];
        if let Some(branch) = branch {
            return self.hand_on(index, &branch).map(|()| None);
        }
        let waits = |value: ValueId| {
            let state = program.producers[value].map(|step| self.states[step]);
            self.values[value].is_none() && matches!(state, Some(State::Pending | State::Host))
        };
        if step.needs().any(waits) {
            self.states[index] = State::Pending;
            return Ok(None);
        }
        let mut inputs = Vec::with_capacity(step.inputs.len());
        for input in &step.inputs {
            inputs.push(match input {
                // An input without a name is left out.
                None => None,
                Some(value) => Some(self.value(*value, || step.described())?),
            });
        }
        let is_sole = |index: usize| step.inputs[index].is_some_and(|value| program.readings(value) == 1);
        let node = Node::new(&step.proto, step.opset, inputs).reading_alone(is_sole);
        match &step.kind {
            StepKind::If(branches) => {
                let given = node.input(0)?;
                if given.data_type != DataType::Boolean || given.dims.elements() != 1 {
                    let given = MemoryDesc::new(given.dims.clone(), given.data_type);
                    return Err(node.invalid("condition", given, "one truth value"));
                }
                let Some(condition) = self.network.demand(given) else {
                    return self.later(index, &node, "its condition is computed on execution");
                };
                let condition = condition.to_f64s().first().copied().unwrap_or_default();
                Ok(Some(branches[usize::from(condition == 0.0)].clone()))
            }
            StepKind::Repeat(_) => self.host(index, &node, "its body is run step by step"),
            StepKind::Plain if self.is_for_host(step) => {
                self.host(index, &node, "shapes and indices are computed there")
            }
            StepKind::Plain if self.is_written_alone(&node) => {
                self.host(index, &node, "a function writes the places alone")
            }
            StepKind::Plain if self.request.kept_back.contains(&index) => {
                self.host(index, &node, "the device cannot run it")
            }
            StepKind::Plain => match import_node(&mut self.network, &node).and_then(|made| {
                // What an operator makes beside its first result may be known on the host alone.
                let mut beside = step.outputs.iter().skip(made.len()).flatten();
                if !self.is_whole && beside.any(|&output| program.is_read(output)) {
                    return Err(node.unsupported("the device makes fewer results of it"));
                }
                Ok(made)
            }) {
                Ok(made) => {
                    self.network.take_missing(&[]);
                    for (value, made) in step.outputs.iter().zip(made) {
                        let Some(value) = *value else { continue };
                        self.network.name(&made, &program.names[value]);
                        self.values[value] = Some(made);
                    }
                    self.states[index] = State::Done;
                    self.device.push(index);
                    Ok(None)
                }
                Err(error) if !self.is_whole && matches!(error.root(), Error::Unsupported { .. }) => {
                    let why = match error.root() {
                        Error::Unsupported { why, .. } => why.clone(),
                        _ => error.to_string(),
                    };
                    let missing = self.network.take_missing(node.inputs());
                    let fetched =
                        missing.iter().filter_map(|&input| step.inputs.get(input).copied().flatten());
                    let fetched: Vec<_> = fetched.filter(|&value| self.may_fetch(value)).collect();
                    if fetched.is_empty() {
                        if !ops::has_host(&node) {
                            return Err(error);
                        }
                        return self.host(index, &node, &why);
                    }
                    self.fetched.extend(fetched);
                    self.states[index] = State::Pending;
                    Ok(None)
                }
                Err(error) => Err(error),
            },
        }
    }

    /// A step after what the host computes: its missing values are fetched.
    fn later(&mut self, index: usize, node: &Node, why: &str) -> Result<Option<Vec<ValueId>>> {
        let missing = self.network.take_missing(node.inputs());
        if self.is_whole {
            return Err(node.unsupported(why));
        }
        let inputs = &self.program.steps[index].inputs;
        self.fetched.extend(missing.iter().filter_map(|&input| inputs.get(input).copied().flatten()));
        self.states[index] = State::Pending;
        Ok(None)
    }

    fn host(&mut self, index: usize, node: &Node, why: &str) -> Result<Option<Vec<ValueId>>> {
        if self.is_whole {
            return Err(node.unsupported(why));
        }
        self.states[index] = State::Host;
        self.host.push((index, why.to_owned()));
        Ok(None)
    }

    /// Whether a value that is not known can be another time.
    fn may_fetch(&self, value: ValueId) -> bool {
        let known = |found: &Value| self.request.specialises && may_specialise(&found.dims, found.data_type);
        self.values[value].as_ref().is_some_and(known)
    }

    /// Whether a step only computes with few integers that are on the host, or are better there.
    fn is_for_host(&self, step: &Step) -> bool {
        if self.is_whole {
            return false;
        }
        let mut held = false;
        let fits = step.inputs.iter().flatten().all(|&value| {
            let Some(found) = &self.values[value] else { return false };
            let few = may_specialise(&found.dims, found.data_type);
            if self.network.is_held(found).is_none() {
                return few && self.network.is_known(found);
            }
            held = true;
            few && (found.dims.elements() <= TINY || self.network.has_elements(found))
        });
        let node = Node::new(&step.proto, step.opset, Vec::new());
        fits && held && !matches!(step.operator(), "Identity" | "Shape" | "Size") && ops::is_at_once(&node)
    }

    /// Whether a step of a round writes to places that come with it: a graph compares all places with these.
    fn is_written_alone(&self, node: &Node) -> bool {
        let writes = matches!(node.operator(), "Scatter" | "ScatterElements" | "ScatterND");
        let are_given = || node.optional(1).is_some_and(|indices| !self.network.is_known(indices));
        !self.is_whole && self.request.repeats && self.request.calls_are_free && writes && are_given()
    }

    /// Makes the outputs of a step those of the branch that was taken.
    fn hand_on(&mut self, index: usize, branch: &[ValueId]) -> Result<()> {
        let step = &self.program.steps[index];
        let there = branch.iter().all(|&value| {
            let state = self.program.producers[value].map(|step| self.states[step]);
            self.values[value].is_some() || !matches!(state, Some(State::Pending | State::Host))
        });
        if !there {
            self.states[index] = State::Pending;
            return Ok(());
        }
        for (output, &value) in step.outputs.iter().zip(branch) {
            let made = self.value(value, || step.described())?;
            if let Some(output) = *output {
                self.values[output] = Some(made);
            }
        }
        self.states[index] = State::Done;
        Ok(())
    }

    /// The stage with everything that later ones and the host need.
    fn finish(mut self) -> Result<Stage> {
        let program = self.program;
        let mut needed = self.needed_later();
        needed.extend(self.fetched.iter().copied());
        let (mut outputs, mut known, mut same) = (Vec::new(), Vec::new(), Vec::new());
        let is_output: FxHashSet<_> = program.outputs.iter().copied().collect();
        let mut done = FxHashSet::default();
        for value in program.outputs.iter().copied().chain(needed) {
            let Some(made) = self.values[value].clone() else { continue };
            // Weights are at hand wherever they are read.
            let is_weight = program.weights[value].is_some();
            if self.given[value] || is_weight || !done.insert(value) {
                continue;
            }
            let name = &program.names[value];
            if let Some(held) = self.network.is_held(&made) {
                same.push((value, held));
            } else if let Some(tensor) = self.network.known(&made) {
                known.push((value, Arc::new(tensor.clone())));
            } else {
                // Only what leaves the model has its own type.
                let data_type = is_output.contains(&value).then(|| program.declared(value).0);
                let id = self.network.result(name, &made, data_type).at(|| format!("value {name:?}"))?;
                outputs.push((value, id));
            }
        }
        self.network.check()?;
        let (demanded, stretches) = (self.network.demanded(), self.network.stretches());
        let is_last = program.outputs.iter().all(|&output| self.values[output].is_some());
        let finished = if self.network.has_outputs() { Some(self.network.finish()?) } else { None };
        let (fetched, host, device) = (self.fetched, self.host, self.device);
        Ok(Stage { finished, outputs, known, same, demanded, stretches, fetched, host, device, is_last })
    }

    /// The values of this stage that steps after it read, also those in branches that were not chosen yet.
    fn needed_later(&self) -> Vec<ValueId> {
        let program = self.program;
        let mut open: Vec<usize> = (0..program.steps.len())
            .filter(|&step| matches!(self.states[step], State::Pending | State::Host))
            .collect();
        let mut seen: FxHashSet<usize> = open.iter().copied().collect();
        let mut needed = Vec::new();
        while let Some(index) = open.pop() {
            let step = &program.steps[index];
            let mut reads: Vec<ValueId> = step.needs().collect();
            if let StepKind::If(branches) = &step.kind {
                reads.extend(branches.iter().flatten());
            }
            for value in reads {
                needed.push(value);
                if self.values[value].is_none()
                    && let Some(step) = program.producers[value]
                    && seen.insert(step)
                {
                    open.push(step);
                }
            }
        }
        needed
    }
}

/// What one node makes.
fn import_node(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let made = ops::import(network, node);
    network.check()?;
    made.map_err(|error| node.place(error))
}

//! Operators as operations of the graph, or as what they make of known inputs.

mod activation;
mod aligned;
mod attention;
mod blocks;
mod compound;
mod convolution;
mod einsum;
mod elementwise;
mod folding;
mod fused;
mod grouped;
mod heads;
mod indexing;
mod integers;
mod logic;
mod moved;
mod movement;
mod nchwc;
mod normalization;
mod pooling;
mod product;
mod quantization;
mod quantized;
mod recurrent;
mod reduction;
mod resize;
mod sampling;
mod scales;
mod scatter;
mod source;
mod table;

use anydnn_backend::{DataType, Error, Result};

use self::table::{FEW, Folds, MOST, OnHost, Operator};
use super::host::{self, Call};
use super::is_standard;
use super::known::{Known, computed};
use super::network::{Network, Value};
use super::node::Node;
use super::program::Step;
use super::room::Room;
use crate::model::HostTensor;

/// Makes a node's outputs, now or in the graph.
pub(super) fn import(network: &mut Network, node: &Node) -> Result<Vec<Value>> {
    let operator = Operator::find(node)?;
    // What other extents have otherwise is computed anew for each of them.
    let varies = node.inputs().iter().flatten().any(|value| network.follows_shape(value));
    let most = if varies && operator.import.is_some() { operator.most().min(FEW) } else { operator.most() };
    if let Some(made) = operator.fold(network, node, most, varies)? {
        return Ok(made);
    }
    match operator.in_graph(network, node) {
        // The device may lack what the host has.
        Err(error) if most < operator.most() && matches!(error.root(), Error::Unsupported { .. }) => {
            operator.fold(network, node, operator.most(), varies)?.ok_or(error)
        }
        made => made,
    }
}
/// Whether the host computes an operator.
pub(super) fn has_host(node: &Node) -> bool {
    Operator::find(node).is_ok()
}

/// Whether the host computes an operator of few integers without a graph for them.
pub(super) fn is_at_once(node: &Node) -> bool {
    Operator::find(node).is_ok_and(|operator| !matches!(operator.host, OnHost::Graph))
}

/// Whether the host computes an operator of single numbers of any type by a function. Counters of loops are floats for a while where
/// frameworks have one kind of numbers.
pub(super) fn is_of_numbers(node: &Node) -> bool {
    let moves = matches!(node.operator(), "Cast" | "Reshape" | "Squeeze" | "Unsqueeze");
    is_standard(node.domain())
        && (moves || host::orders(node.operator()) || host::is_arithmetic(node.operator()))
}

/// Whether an operator's results differ from one node to the next. What nobody knows may be such.
pub(super) fn is_random(step: &Step) -> bool {
    let node = Node::new(&step.proto, step.opset, Vec::new());
    Operator::find(&node).map_or(true, |operator| operator.is_random)
}

/// Computes all outputs of a node on the host, whatever their size. The node's own values are not looked at.
///
/// # Errors
/// [`Error::Unsupported`] for an operator that the host does not compute, or not for these inputs.
pub(super) fn on_host(node: &Node, inputs: Known) -> Result<Vec<HostTensor>> {
    let operator = Operator::find(node)?;
    operator.compute(node, inputs, &mut Room::default()).map_err(|error| node.place(error))
}

impl Operator {
    /// The most elements of a result that is computed while importing.
    fn most(&self) -> usize {
        match self.folds {
            Folds::Always => usize::MAX,
            Folds::Small => MOST,
            Folds::Never => 0,
        }
    }

    /// The outputs as operations of the graph.
    fn in_graph(&self, network: &mut Network, node: &Node) -> Result<Vec<Value>> {
        // What has such elements stays on the host.
        if let Some(value) = node.inputs().iter().flatten().find(|value| value.data_type.is_host_only()) {
            return Err(node.unsupported(format!("no device computes with {}", value.data_type)));
        }
        let aligned = aligned::in_graph(network, node)?;
        let node = aligned.as_ref().unwrap_or(node);
        match self.import {
            Some(import) => import(network, node),
            None => {
                Err(node.unsupported("it is read only where its inputs are known when the model is imported"))
            }
        }
    }

    /// The outputs where all inputs are known and they have at most so many elements each. `varies` tells whether other extents of what
    /// executions give make others.
    fn fold(
        &self,
        network: &mut Network,
        node: &Node,
        most: usize,
        varies: bool,
    ) -> Result<Option<Vec<Value>>> {
        if self.folds == Folds::Never {
            return Ok(None);
        }
        let Some((inputs, room)) = network.known_inputs(node) else { return Ok(None) };
        room.limit((most < usize::MAX).then_some(most));
        let made = self.compute(node, &inputs, room);
        room.limit(None);
        match made {
            Ok(tensors) => {
                let mut made = Vec::with_capacity(tensors.len());
                for tensor in tensors {
                    made.push(network.constant_of_shape(node.name(), tensor, varies)?);
                }
                Ok(Some(made))
            }
            // The device may have what the host has not.
            Err(error) if self.import.is_some() && matches!(error.root(), Error::Unsupported { .. }) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The outputs for known inputs.
    fn compute(&self, node: &Node, inputs: Known, room: &mut Room) -> Result<Vec<HostTensor>> {
        let aligned = aligned::on_host(node, inputs)?;
        let with_aligned;
        let inputs = match &aligned {
            None => inputs,
            Some(second) => {
                with_aligned = [inputs[0], Some(second)];
                &with_aligned
            }
        };
        let has_floats = || inputs.iter().flatten().any(|tensor| tensor.data_type().is_float());
        let is_number = || {
            let mut given = inputs.iter().flatten();
            host::is_arithmetic(node.operator())
                && given.all(|tensor| tensor.desc().elements() == 1 && tensor.data_type().bits() <= 32)
        };
        match (self.host, self.import) {
            (OnHost::All(host), _) => host(&mut Call::new(node, inputs, room)),
            (OnHost::Integers(host), _) if host::orders(node.operator()) || !has_floats() || is_number() => {
                host(&mut Call::new(node, inputs, room))
            }
            (_, Some(import)) => computed(node, import, inputs, room),
            (_, None) => Err(node.unsupported("the host does not compute the operator")),
        }
    }
}

/// An input of floats, as arithmetic on a device needs it.
fn floats<'a>(node: &'a Node, index: usize) -> Result<&'a Value> {
    let value = node.input(index)?;
    check_floats(node, value)?;
    Ok(value)
}

/// An input of numbers that arithmetic is done with: floats, or integers of at least eight bits.
fn numbers<'a>(node: &'a Node, index: usize) -> Result<&'a Value> {
    let value = node.input(index)?;
    if !is_whole(value.data_type) {
        check_floats(node, value)?;
    }
    Ok(value)
}

/// Whether elements are integers that arithmetic is done with.
fn is_whole(data_type: DataType) -> bool {
    data_type.is_integer() && data_type.bits() >= 8
}

fn check_floats(node: &Node, value: &Value) -> Result<()> {
    if value.data_type.is_float() {
        return Ok(());
    }
    let why = format!("it is not read for inputs of {} that are given on execution", value.data_type);
    Err(node.unsupported(why))
}

/// The integers of a value that must be known.
fn known_ints(network: &Network, node: &Node, value: &Value, what: &str) -> Result<Vec<i64>> {
    let Some(tensor) = network.demand(value) else {
        return Err(node.unsupported(format!("{what} depend on values that are given on execution")));
    };
    host::ints(tensor).ok_or_else(|| node.invalid(what, tensor.desc(), "integers"))
}

/// The integers of an input or, in older opsets, of an attribute; none where neither is there.
fn input_or_ints(network: &Network, node: &Node, index: usize, name: &str) -> Result<Option<Vec<i64>>> {
    match node.optional(index) {
        Some(value) => known_ints(network, node, value, name).map(Some),
        None => node.ints(name),
    }
}

/// The one number of a value that is known; none where it is not.
fn known_number(network: &Network, node: &Node, value: &Value) -> Result<Option<f64>> {
    match network.known(value) {
        None => Ok(None),
        Some(tensor) => match tensor.to_f64s()[..] {
            [number] => Ok(Some(number)),
            _ => Err(node.invalid("number", tensor.desc(), "one element")),
        },
    }
}

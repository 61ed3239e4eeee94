//! An expression under construction: its space, nodes and operands, before anything is emitted.

use std::collections::HashMap;

use anydnn_backend::op::{BinaryAlgorithm, Eltwise, Expression, Fold, Node};
use anydnn_backend::{DataType, Dims, Error, InvalidKind, Result};

use super::layout::{Fit, Layout, Side, Split};
use crate::graph::{Graph, Op, OpKind as K, TensorId, is_truth};

/// The indices of an expression.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Space {
    pub(super) dims: Dims,
    pub(super) folded: Vec<usize>,
    pub(super) split: Option<Split>,
}

impl Space {
    /// The dimensions with the split axis taken apart.
    pub(super) fn whole(&self) -> Dims {
        let dims = self.dims.clone();
        self.split_dims(dims.clone()).unwrap_or(dims)
    }

    /// The folded axes, counted with the split axis taken apart.
    pub(super) fn axes(&self) -> Dims {
        let mut axes: Vec<usize> = self.folded.iter().map(|&axis| self.axis(axis)).collect();
        axes.extend(self.split.map(|split| split.axis + 1));
        axes.sort_unstable();
        Dims::from(axes)
    }

    /// Where an axis is with the split axis taken apart.
    pub(super) fn axis(&self, axis: usize) -> usize {
        axis + usize::from(self.split.is_some_and(|split| axis > split.axis))
    }

    /// The dimensions under which a tensor broadcasts to the space.
    pub(super) fn view(&self, fit: &Fit, map: &[usize]) -> Result<Dims> {
        let mut view = Dims::from(vec![1; self.dims.len()]);
        let (last, first) = match fit.axes.split_last() {
            Some((last, rest)) if fit.grouped => (Some(*last), rest),
            _ => (None, &fit.axes[..]),
        };
        for (&axis, &dim) in first.iter().zip(fit.dims.iter()) {
            view[map[axis]] = dim;
        }
        let mut view = self
            .split_dims(view)
            .ok_or_else(|| Error::unsupported("expression", "blocks that do not fit into groups"))?;
        if let (Some(axis), Some(&groups)) = (last, fit.dims.last()) {
            view[map[axis]] = groups;
        }
        Ok(view)
    }

    fn split_dims(&self, dims: Dims) -> Option<Dims> {
        let Some(Split { axis, groups }) = self.split else { return Some(dims) };
        let halves = match dims[axis] {
            1 => [1, 1],
            dim if dim.is_multiple_of(groups) => [groups, dim / groups],
            dim if dim > 0 && groups.is_multiple_of(dim) => [dim, 1],
            _ => return None,
        };
        Some(dims[..axis].iter().copied().chain(halves).chain(dims[axis + 1..].iter().copied()).collect())
    }
}

/// Where an operand's elements come from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Source {
    Tensor(TensorId),
    Literal(Vec<f32>),
}

/// A source of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Operand {
    pub(super) source: Source,
    /// The dimensions under which it broadcasts to the space.
    pub(super) view: Dims,
}

/// A value of the graph that a node of the draft is.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) node: usize,
    fit: Fit,
    /// The axis of the space for each of the operation's.
    map: Vec<usize>,
}

/// Nodes, operands and the graph's tensors among them.
#[derive(Clone, Debug)]
pub(super) struct Draft<'g> {
    pub(super) graph: &'g Graph,
    pub(super) space: Space,
    pub(super) nodes: Vec<Node>,
    pub(super) operands: Vec<Operand>,
    /// The number of the first operand.
    pub(super) first: usize,
    made: HashMap<TensorId, Made>,
}

impl<'g> Draft<'g> {
    pub(super) fn new(graph: &'g Graph, space: Space) -> Self {
        Self { graph, space, nodes: Vec::new(), operands: Vec::new(), first: 0, made: HashMap::new() }
    }

    /// Says that a node is a tensor that lies along all axes of the space.
    pub(super) fn define(&mut self, id: TensorId, dims: Dims, node: usize) {
        let rank = self.space.dims.len();
        let fit = Fit { axes: (rank.saturating_sub(dims.len())..rank).collect(), dims, grouped: false };
        self.made.insert(id, Made { node, fit, map: (0..rank).collect() });
    }

    /// The node that is a tensor.
    pub(super) fn node_of(&self, id: TensorId) -> Option<usize> {
        self.made.get(&id).map(|made| made.node)
    }

    /// The dimensions under which a tensor made here is stored.
    pub(super) fn view_of(&self, id: TensorId) -> Option<Result<Dims>> {
        self.made.get(&id).map(|made| self.space.view(&made.fit, &made.map))
    }

    /// The expression without its results.
    pub(super) fn expression(&self) -> Expression {
        let mut expression = Expression::new(self.space.whole()).with_folded(self.space.axes());
        expression.nodes.clone_from(&self.nodes);
        expression
    }

    /// Adds a node, or finds an equal one.
    pub(super) fn push(&mut self, node: Node) -> usize {
        // A zero's sign is lost in comparison.
        let negative_zero = matches!(node, Node::Constant(value) if value == 0.0 && value.is_sign_negative());
        let known = if negative_zero { None } else { self.nodes.iter().position(|other| *other == node) };
        known.unwrap_or_else(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        })
    }

    fn operand(&mut self, source: Source, view: Dims) -> u16 {
        let operand = Operand { source, view };
        let at = self.operands.iter().position(|known| *known == operand).unwrap_or_else(|| {
            self.operands.push(operand);
            self.operands.len() - 1
        });
        (self.first + at) as u16
    }
}

/// The translation of one part: its tensors and shorthands for nodes.
#[derive(Debug)]
pub(super) struct Scope<'a, 'g> {
    pub(super) draft: &'a mut Draft<'g>,
    pub(super) op: &'g Op,
    pub(super) side: Side,
    pub(super) layout: &'a Layout,
    pub(super) map: &'a [usize],
}

impl Scope<'_, '_> {
    /// The node that reads an input.
    pub(super) fn input(&mut self, i: usize) -> Result<usize> {
        let (id, fit) = self.port(i)?;
        let Some(made) = self.draft.made.get(&id) else {
            let view = self.draft.space.view(&fit, self.map)?;
            let operand = self.draft.operand(Source::Tensor(id), view);
            return Ok(self.draft.push(Node::Operand(operand)));
        };
        let aligned = !made.fit.grouped
            && made.fit.dims == fit.dims
            && (0..fit.dims.len())
                .all(|k| fit.dims[k] == 1 || made.map[made.fit.axes[k]] == self.map[fit.axes[k]]);
        if aligned { Ok(made.node) } else { Err(apart(self.op)) }
    }

    /// The number of the operand that reads an input of one element.
    pub(super) fn element(&mut self, i: usize) -> Result<u16> {
        let (id, fit) = self.port(i)?;
        if self.draft.made.contains_key(&id) {
            return Err(apart(self.op));
        }
        let view = self.draft.space.view(&fit, self.map)?;
        Ok(self.draft.operand(Source::Tensor(id), view))
    }

    /// Whether the operation has an input at this position.
    pub(super) fn has_input(&self, i: usize) -> bool {
        i < self.op.inputs.len()
    }

    /// Says which node an output is.
    pub(super) fn output(&mut self, i: usize, node: usize) {
        let Some(&id) = self.op.outputs.get(i) else { return };
        let Some((_, fit)) = self.layout.outputs.iter().find(|(at, _)| *at == i) else { return };
        let data_type = self.draft.graph.tensor(id).and_then(|tensor| tensor.data_type);
        let node = match data_type {
            Some(data_type) if must_round(self.op.kind, data_type) => {
                self.draft.push(Node::Cast(data_type, node))
            }
            _ => node,
        };
        let made = Made { node, fit: fit.clone(), map: self.map.to_vec() };
        self.draft.made.insert(id, made);
    }

    /// The number of elements that a fold joins.
    pub(super) fn count(&self) -> f32 {
        let space = &self.draft.space;
        let whole = space.whole();
        space.axes().iter().map(|&axis| whole[axis]).product::<usize>() as f32
    }

    pub(super) fn constant(&mut self, value: f32) -> usize {
        self.draft.push(Node::Constant(value))
    }

    /// A vector of numbers along an axis of the operation.
    pub(super) fn literal(&mut self, values: &[f32], axis: usize) -> Result<usize> {
        if let Some((first, rest)) = values.split_first()
            && rest.iter().all(|value| value.to_bits() == first.to_bits())
        {
            return Ok(self.constant(*first));
        }
        let fit = Fit { dims: Dims::from([values.len()]), axes: vec![axis], grouped: false };
        let view = self.draft.space.view(&fit, self.map)?;
        let operand = self.draft.operand(Source::Literal(values.to_vec()), view);
        Ok(self.draft.push(Node::Operand(operand)))
    }

    pub(super) fn eltwise(&mut self, function: Eltwise, x: usize) -> usize {
        self.draft.push(Node::Eltwise(function, x))
    }

    pub(super) fn binary(&mut self, algorithm: BinaryAlgorithm, a: usize, b: usize) -> usize {
        self.draft.push(Node::Binary(algorithm, a, b))
    }

    pub(super) fn add(&mut self, a: usize, b: usize) -> usize {
        self.binary(BinaryAlgorithm::Add, a, b)
    }

    pub(super) fn subtract(&mut self, a: usize, b: usize) -> usize {
        self.binary(BinaryAlgorithm::Subtract, a, b)
    }

    pub(super) fn multiply(&mut self, a: usize, b: usize) -> usize {
        self.binary(BinaryAlgorithm::Multiply, a, b)
    }

    pub(super) fn divide(&mut self, a: usize, b: usize) -> usize {
        self.binary(BinaryAlgorithm::Divide, a, b)
    }

    pub(super) fn select(&mut self, condition: usize, a: usize, b: usize) -> usize {
        self.draft.push(Node::Select(condition, a, b))
    }

    /// A fold; along no axes the value itself.
    pub(super) fn fold(&mut self, fold: Fold, x: usize) -> usize {
        if self.layout.folded.is_empty() && self.layout.split.is_none() {
            return x;
        }
        self.draft.push(Node::Fold(fold, x))
    }

    pub(super) fn mean(&mut self, x: usize) -> usize {
        let sum = self.fold(Fold::Sum, x);
        let count = self.constant(self.count());
        self.divide(sum, count)
    }

    fn port(&self, i: usize) -> Result<(TensorId, Fit)> {
        match (self.op.inputs.get(i), self.layout.inputs.get(i)) {
            (Some(&id), Some(Some(fit))) => Ok((id, fit.clone())),
            _ => Err(Error::invalid_kind(
                InvalidKind::GraphOp,
                self.op.to_string(),
                "inputs",
                self.op.inputs.len().to_string(),
                format!("at least {}", i + 1),
            )),
        }
    }
}

/// Whether a value between operations must become what storing it would make of it. Roundings to narrower floats are left out.
fn must_round(kind: K, data_type: DataType) -> bool {
    match data_type {
        DataType::F32 | DataType::F64 | DataType::F16 | DataType::BF16 => false,
        DataType::Boolean => !is_truth(kind),
        // Whole numbers stay whole.
        DataType::S32 | DataType::S64 => !matches!(
            kind,
            K::GenIndex
                | K::Add
                | K::Subtract
                | K::Multiply
                | K::Maximum
                | K::Minimum
                | K::Select
                | K::Reorder
        ),
        _ => !matches!(kind, K::Dropout | K::Select | K::Reorder),
    }
}

/// Why an operation does not go with others.
pub(super) fn apart(op: &Op) -> Error {
    Error::unsupported(op.to_string(), "its indices are not those of the operations before it")
}

//! Reshapes of products move behind what is computed of each element, which rides on the product then.

use anydnn_backend::{DataType, Dims, Result};
use rustc_hash::FxHashMap;

use crate::formula::parts::{BINARY, UNARY};
use crate::graph::{Attrs, Graph, LogicalTensor, Op, OpId, OpKind, Property, TensorId, TensorLayout};

/// The graph with biases, functions and sums that stand behind the reshape of a product before it. Some exporters multiply matrices for
/// tensors of more dimensions, and add the biases to these.
///
/// # Errors
/// [`Error::Invalid`](anydnn_backend::Error::Invalid) when the operations are in a cycle.
pub(crate) fn behind(graph: Graph) -> Result<Graph> {
    let is_start = |op: &Op| {
        let maker = op.inputs.first().and_then(|&id| graph.producer(id));
        op.kind == OpKind::StaticReshape && maker.is_some_and(|at| graph.ops()[at].kind == OpKind::MatMul)
    };
    if !graph.ops().iter().any(is_start) {
        return Ok(graph);
    }
    let is_read_once = |id: TensorId| graph.consumers(id).len() == 1 && !graph.outputs().contains(&id);
    let mut moving = Moving::new(&graph);
    for op in graph.ops() {
        let moved = moving.pass(op).or_else(|| {
            moving.ops.push(op.clone());
            let ([source], true) = (&op.inputs[..], is_start(op)) else { return None };
            is_read_once(*source).then(|| View { of: *source, name: op.name.clone() })
        });
        if let (Some(view), Some(&made)) = (moved, op.outputs.first())
            && is_read_once(made)
        {
            moving.views.insert(made, view);
        }
    }
    let Moving { ops, tensors, passed, .. } = moving;
    if passed.is_empty() {
        return Ok(graph);
    }
    let is_left = |op: &Op| op.outputs.iter().any(|id| passed.contains(id));
    graph.with_ops(ops.into_iter().filter(|op| !is_left(op)).collect(), tensors)
}

/// What a reshape is of, which nothing else reads, and its name.
struct View {
    of: TensorId,
    name: String,
}

/// A graph whose reshapes are on the move.
struct Moving<'g> {
    graph: &'g Graph,
    ops: Vec<Op>,
    /// Tensors that the graph has not.
    tensors: FxHashMap<TensorId, LogicalTensor>,
    next_op: u64,
    next_tensor: u64,
    /// The results of reshapes that are read once.
    views: FxHashMap<TensorId, View>,
    /// Those whose only reader has passed.
    passed: Vec<TensorId>,
}

impl<'g> Moving<'g> {
    fn new(graph: &'g Graph) -> Self {
        Self {
            graph,
            ops: Vec::with_capacity(graph.ops().len()),
            tensors: FxHashMap::default(),
            next_op: graph.ops().iter().map(|op| op.id.0).max().unwrap_or(0),
            next_tensor: graph.tensors().map(|tensor| tensor.id.0).max().unwrap_or(0),
            views: FxHashMap::default(),
            passed: Vec::new(),
        }
    }

    fn known(&self, id: TensorId) -> Option<(Dims, Option<DataType>)> {
        let tensor = self.tensors.get(&id).or_else(|| self.graph.tensor(id))?;
        Some((tensor.known_dims()?, tensor.data_type))
    }

    /// Adds an operation before the reshape of one of its inputs, and the reshape behind it, which is returned. Two reshapes are one. None where
    /// it is no operation on elements, its other input has no counterpart before the reshape, or it rides on what makes that.
    fn pass(&mut self, op: &Op) -> Option<View> {
        let at = op.inputs.iter().position(|id| self.views.contains_key(id))?;
        let (view, &[made]) = (op.inputs[at], &op.outputs[..]) else { return None };
        let of = self.views.get(&view)?.of;
        let ((behind, _), (before, _)) = (self.known(view)?, self.known(of)?);
        let (dims, data_type) = self.known(made)?;
        if op.kind == OpKind::StaticReshape {
            self.reshape(op.name.clone(), of, made);
            self.views.remove(&view);
            self.passed.push(view);
            return Some(View { of, name: op.name.clone() });
        }
        if dims != behind {
            return None;
        }
        let mut inputs = op.inputs.clone();
        inputs[at] = of;
        match &op.inputs[..] {
            [_] if UNARY.contains(&op.kind) => {}
            &[a, b] if a != b && BINARY.contains(&op.kind) => {
                let other = if at == 0 { b } else { a };
                let (own, of_type) = self.known(other)?;
                let wanted = counterpart(&own, &behind, &before)?;
                if own == behind && self.carries(other) {
                    return None;
                }
                let fits = own == wanted || own.elements() == 1 && own.len() <= before.len();
                if !fits {
                    inputs[1 - at] = self.tensor(&wanted, of_type);
                    self.reshape(format!("{}/operand", op.name), other, inputs[1 - at]);
                }
            }
            _ => return None,
        }
        let name = self.views.remove(&view)?.name;
        let result = self.tensor(&before, data_type);
        self.ops.push(Op { inputs, outputs: vec![result], ..op.clone() });
        self.reshape(name.clone(), result, made);
        self.passed.push(view);
        Some(View { of: result, name })
    }

    /// Whether what makes a tensor takes along what its only reader does.
    fn carries(&self, id: TensorId) -> bool {
        let maker = self.graph.producer(id).map(|at| self.graph.ops()[at].kind);
        let carries = matches!(maker, Some(OpKind::Convolution | OpKind::ConvTranspose | OpKind::MatMul));
        carries && self.graph.consumers(id).len() == 1
    }

    fn tensor(&mut self, dims: &Dims, data_type: Option<DataType>) -> TensorId {
        self.next_tensor += 1;
        let id = TensorId(self.next_tensor);
        let dims = Some(dims.iter().map(|&extent| Some(extent)).collect());
        let (layout, property) = (TensorLayout::Undefined, Property::Variable);
        self.tensors.insert(id, LogicalTensor { id, data_type, dims, layout, property, name: None });
        id
    }

    fn reshape(&mut self, name: String, from: TensorId, made: TensorId) {
        let shape: Vec<i64> = match self.known(made) {
            Some((dims, _)) => dims.iter().map(|&extent| extent as i64).collect(),
            None => Vec::new(),
        };
        self.next_op += 1;
        let (id, kind) = (OpId(self.next_op), OpKind::StaticReshape);
        let attrs = Attrs::new().with("shape", shape).with("special_zero", false);
        self.ops.push(Op { id, name, kind, attrs, inputs: vec![from], outputs: vec![made] });
    }
}

/// The dimensions under which a tensor is to one of `before` what it is to one of `behind`, of as many elements: one number, all of them, or
/// whole last dimensions.
fn counterpart(dims: &Dims, behind: &Dims, before: &Dims) -> Option<Dims> {
    let own = &dims[dims.iter().take_while(|&&extent| extent == 1).count()..];
    if own.is_empty() {
        return Some(Dims::from([1]));
    }
    let elements: usize = own.iter().product();
    let of_last = |first: &usize| before[*first..].iter().product::<usize>() == elements;
    let first = (0..before.len()).rev().find(of_last)?;
    behind.ends_with(own).then(|| Dims::new(&before[first..]))
}

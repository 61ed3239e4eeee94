//! The program under construction: steps in order, and where each value lives.

use anydnn_backend::{Access, Arg, DataType, Dims, MemoryDesc, PrimitiveDesc, Result};
use rustc_hash::FxHashSet;

use super::images;
use super::liveness::{data_inputs, live};
use crate::graph::{ByTensor, Graph, Op, OpKind, TensorId};

/// Where the bytes of a value live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Storage {
    /// The `i`-th input, given on every execution.
    Input(usize),
    /// The `i`-th output, given on every execution.
    Output(usize),
    /// The `i`-th constant, given once.
    Constant(usize),
    /// The `i`-th temporary, in the arena, or prepared once when it depends on constants alone.
    Temp(usize),
    /// The `i`-th literal: a small constant that lowering made, written once.
    Literal(usize),
}

/// A small constant that lowering made: scales, zero points.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Literal {
    /// Dense and row-major.
    pub(crate) desc: MemoryDesc,
    /// The elements.
    pub(crate) bytes: Vec<u8>,
}

/// A value: bytes and what they mean at this place. Views of one storage have different descriptors.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Where the bytes live.
    pub storage: Storage,
    /// What they mean.
    pub desc: MemoryDesc,
}

impl Value {
    /// The same bytes with another meaning.
    pub(super) fn with_desc(&self, desc: MemoryDesc) -> Self {
        Self { storage: self.storage, desc }
    }
}

/// A primitive to execute with the values it works on.
#[derive(Clone, Debug)]
pub(super) struct ProtoStep {
    pub(super) desc: PrimitiveDesc,
    pub(super) args: Vec<(Arg, Value)>,
    /// The graph operations this computes, indices into [`Graph::ops`].
    pub(super) ops: Vec<usize>,
}

/// A temporary value's storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Temp {
    pub(super) bytes: usize,
    /// Whether it depends on constants alone: prepared once.
    pub(super) constant: bool,
}

/// Steps in order and the values so far.
#[derive(Clone, Debug)]
pub(super) struct Program<'g> {
    pub(super) graph: &'g Graph,
    pub(super) steps: Vec<ProtoStep>,
    pub(super) temps: Vec<Temp>,
    pub(super) constants: Vec<TensorId>,
    pub(super) literals: Vec<Literal>,
    /// Whether outputs depend on each operation.
    live: Vec<bool>,
    /// Images whose temporaries are channels last.
    images: FxHashSet<TensorId>,
    /// What is known of the layouts of ports.
    pub(super) ports: super::ports::Ports,
    values: ByTensor<Value>,
}

impl<'g> Program<'g> {
    /// A program that knows the graph's inputs and constants.
    pub(super) fn new(graph: &'g Graph) -> Result<Self> {
        let mut values = ByTensor::default();
        for (i, &id) in graph.inputs().iter().enumerate() {
            values.insert(id, Value { storage: Storage::Input(i), desc: declared(graph, id)? });
        }
        let constants: Vec<TensorId> = graph.constants().map(|t| t.id).collect();
        for (i, &id) in constants.iter().enumerate() {
            values.insert(id, Value { storage: Storage::Constant(i), desc: declared(graph, id)? });
        }
        let (steps, temps, literals) = (Vec::new(), Vec::new(), Vec::new());
        let (ports, live) = (super::ports::Ports::default(), live(graph));
        let images = images::channels_last(graph);
        Ok(Self { graph, steps, temps, constants, literals, live, images, ports, values })
    }

    /// The value of a tensor that has been computed or given.
    pub(super) fn value(&self, id: TensorId) -> Result<Value> {
        self.values.get(&id).cloned().ok_or_else(|| {
            anydnn_backend::Error::invalid(
                "compile",
                format!("tensor {id}"),
                "used before it is made",
                "a topological order",
            )
        })
    }

    /// Says that a tensor is this value, a view of something else.
    pub(super) fn alias(&mut self, id: TensorId, value: Value) {
        self.values.insert(id, value);
    }

    /// Makes a tensor another value for a while; returns what it was, to be put back the same way.
    pub(super) fn rebind(&mut self, id: TensorId, value: Option<Value>) -> Option<Value> {
        match value {
            Some(value) => self.values.insert(id, value),
            None => self.values.shift_remove(&id),
        }
    }

    /// Whether the graph's outputs depend on an operation.
    pub(super) fn is_live(&self, op: usize) -> bool {
        self.live.get(op).copied().unwrap_or(false)
    }

    /// Whether anything that matters reads a tensor.
    pub(super) fn is_read(&self, id: TensorId) -> bool {
        let reads = |&op: &usize| self.is_live(op) && data_inputs(&self.graph.ops()[op]).contains(&id);
        self.graph.outputs().contains(&id) || self.graph.consumers(id).iter().any(reads)
    }

    /// Where an operation's result goes: the graph's output port, or a temporary.
    pub(super) fn result(&mut self, id: TensorId) -> Result<Value> {
        let desc = declared(self.graph, id)?;
        let port = self.graph.outputs().iter().position(|&out| out == id);
        // Primitives make what has strides; an output in blocks is packed at the end.
        let value = if let Some(port) = port.filter(|_| desc.strides().is_some()) {
            Value { storage: Storage::Output(port), desc }
        } else if let Some(port) = self.port_behind(id, &desc) {
            Value { storage: Storage::Output(port), desc: desc.to_row_major() }
        } else if self.images.contains(&id) {
            self.temp(images::to_channels_last(&desc))
        } else {
            self.temp(desc.to_row_major())
        };
        self.values.insert(id, value.clone());
        Ok(value)
    }

    /// The output that is a dense tensor under other dimensions alone: whatever makes the tensor writes it there.
    fn port_behind(&self, id: TensorId, desc: &MemoryDesc) -> Option<usize> {
        if self.images.contains(&id) || self.graph.outputs().contains(&id) {
            return None;
        }
        let mut behind = id;
        loop {
            let is_view = |op: &&Op| op.kind == OpKind::StaticReshape && op.inputs.first() == Some(&behind);
            let mut readers = self.graph.consumers(behind).iter().map(|&op| &self.graph.ops()[op]);
            behind = *readers.find(is_view)?.outputs.first()?;
            if let Some(port) = self.graph.outputs().iter().position(|&out| out == behind) {
                let wanted = declared(self.graph, behind).ok()?;
                let is_same = wanted.is_row_major() && wanted.data_type() == desc.data_type();
                return is_same.then_some(port);
            }
        }
    }

    /// The descriptor of an input, constant or output: the chosen one, or what the declaration asks for.
    pub(super) fn port_desc(&self, port: Storage, id: TensorId) -> Result<MemoryDesc> {
        self.ports.chosen(port).map_or_else(|| declared(self.graph, id), |desc| Ok(desc.clone()))
    }

    /// A temporary of this descriptor.
    pub(super) fn temp(&mut self, desc: MemoryDesc) -> Value {
        self.temps.push(Temp { bytes: desc.size(), constant: false });
        Value { storage: Storage::Temp(self.temps.len() - 1), desc }
    }

    /// A constant of these elements in row-major order.
    pub(super) fn literal(&mut self, dims: impl Into<Dims>, values: &[f32]) -> Value {
        let bytes = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        self.add_literal(MemoryDesc::new(dims, DataType::F32), bytes)
    }

    /// A constant of these integers in row-major order.
    pub(super) fn literal_s32(&mut self, dims: impl Into<Dims>, values: &[i32]) -> Value {
        let bytes = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        self.add_literal(MemoryDesc::new(dims, DataType::S32), bytes)
    }

    /// A zero point of elements of a type: of that type if it fits, as what stands for a padded image's borders has to be, else of `s32`.
    pub(super) fn literal_zero(&mut self, dims: impl Into<Dims>, value: i32, element: DataType) -> Value {
        let byte = match element {
            DataType::U8 => u8::try_from(value).ok(),
            DataType::S8 => i8::try_from(value).ok().map(i8::cast_unsigned),
            _ => None,
        };
        match byte {
            Some(byte) => self.add_literal(MemoryDesc::new(dims, element), vec![byte]),
            None => self.literal_s32(dims, &[value]),
        }
    }

    fn add_literal(&mut self, desc: MemoryDesc, bytes: Vec<u8>) -> Value {
        debug_assert_eq!(desc.size(), bytes.len());
        let literal = Literal { desc: desc.clone(), bytes };
        let at = self.literals.iter().position(|known| *known == literal).unwrap_or_else(|| {
            self.literals.push(literal);
            self.literals.len() - 1
        });
        Value { storage: Storage::Literal(at), desc }
    }

    /// Whether a value is known before the first execution.
    pub(super) fn is_constant(&self, value: &Value) -> bool {
        match value.storage {
            Storage::Constant(_) | Storage::Literal(_) => true,
            Storage::Temp(i) => self.temps[i].constant,
            Storage::Input(_) | Storage::Output(_) => false,
        }
    }

    /// Adds a step. Temporaries that it makes from constants alone become constants.
    pub(super) fn emit(&mut self, desc: PrimitiveDesc, args: Vec<(Arg, Value)>, ops: Vec<usize>) {
        let reads = |arg: Arg| desc.access(arg).is_some_and(Access::reads);
        let constant = args.iter().filter(|(arg, _)| reads(*arg)).all(|(_, value)| self.is_constant(value));
        for (arg, value) in &args {
            if let (false, Storage::Temp(i)) = (reads(*arg), value.storage) {
                self.temps[i].constant = constant;
            }
        }
        self.steps.push(ProtoStep { desc, args, ops });
    }
}

/// The descriptor that a tensor's declaration asks for.
pub(super) fn declared(graph: &Graph, id: TensorId) -> Result<MemoryDesc> {
    let tensor = graph.tensor(id).ok_or_else(|| {
        anydnn_backend::Error::invalid("compile", "tensor", id.to_string(), "a tensor of the graph")
    })?;
    tensor.memory_desc()
}

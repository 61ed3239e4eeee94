//! A graph under test with the values of its inputs and constants, run on every engine and held against the reference.

use std::collections::HashMap;
use std::fmt::Debug;

use anydnn::backend::{
    Backend, DataType, Engine, Event, Memory, MemoryDesc, Result, Stream, StreamDesc, TensorValues, Tolerance,
};
use anydnn::compile::{CompileOptions, CompiledGraph};
use anydnn::fusion::Policy;
use anydnn::graph::{Attrs, Graph, GraphBuilder, LogicalTensor, OpKind, Property, TensorId, TensorLayout};
use anydnn::model::HostTensor;
use anydnn_host::HostEngine;
use anydnn_mock::MockDevice;
use approx::relative_eq;

use super::reference;
use super::tensor::{Tensor, indices};

/// A graph being built, with values.
#[derive(Debug, Default)]
pub struct Case {
    pub g: GraphBuilder,
    values: HashMap<TensorId, Tensor>,
    count: u64,
    expected_steps: Option<usize>,
    on_devices: bool,
    sharp: bool,
}

impl Case {
    pub fn new() -> Self {
        Self::default()
    }

    /// A case that runs on every OpenCL device too; in a sample they take turns.
    pub fn on_devices() -> Self {
        Self { on_devices: cfg!(feature = "opencl"), ..Self::default() }
    }

    /// An f32 input of values between -1 and 1.
    pub fn input(&mut self, dims: &[usize]) -> TensorId {
        self.input_of(DataType::F32, dims, |v| v)
    }

    /// An input of values between -1 and 1 put through a function and rounded to the type.
    pub fn input_of(&mut self, data_type: DataType, dims: &[usize], f: impl Fn(f64) -> f64) -> TensorId {
        let values = self.random(data_type, dims, f);
        let name = format!("in{}", self.count);
        let id = self.g.input(&name, data_type, dims.to_vec());
        self.values.insert(id, values);
        id
    }

    /// As [`Case::input_of`], given once.
    pub fn constant_of(&mut self, data_type: DataType, dims: &[usize], f: impl Fn(f64) -> f64) -> TensorId {
        let values = self.random(data_type, dims, f);
        let name = format!("constant{}", self.count);
        let id = self.g.constant(&name, data_type, dims.to_vec());
        self.values.insert(id, values);
        id
    }

    pub fn constant(&mut self, dims: &[usize]) -> TensorId {
        self.constant_of(DataType::F32, dims, |v| v)
    }

    /// An f32 input with strides.
    pub fn strided_input(&mut self, dims: &[usize], strides: &[usize]) -> TensorId {
        let values = self.random(DataType::F32, dims, |v| v);
        let id = TensorId(900 + self.count);
        let layout = TensorLayout::Strided(strides.iter().copied().map(Some).collect());
        let tensor = LogicalTensor { layout, ..LogicalTensor::new(id, DataType::F32, dims.to_vec()) };
        self.g
            .add_tensor(tensor.with_property(Property::Variable).named(format!("strided{}", self.count)))
            .unwrap();
        self.g.input_port(id);
        self.values.insert(id, values);
        id
    }

    /// The given values instead of an input's or constant's own.
    pub fn set(&mut self, id: TensorId, values: &[f64]) {
        let dims = self.values[&id].dims.clone();
        self.values.insert(id, Tensor::new(&dims, values.to_vec()));
    }

    pub fn op(&mut self, kind: OpKind, inputs: &[TensorId], attrs: Attrs) -> TensorId {
        self.ops(kind, inputs, attrs, 1)[0]
    }

    pub fn ops(&mut self, kind: OpKind, inputs: &[TensorId], attrs: Attrs, outputs: usize) -> Vec<TensorId> {
        self.count += 1;
        self.g.op_multi(&format!("{kind}{}", self.count), kind, inputs, attrs, outputs).unwrap()
    }

    /// A `TypeCast`, or another operation whose result's type is given.
    pub fn typed(
        &mut self,
        kind: OpKind,
        inputs: &[TensorId],
        attrs: Attrs,
        data_type: DataType,
    ) -> TensorId {
        let id = self.op(kind, inputs, attrs);
        let mut tensor = LogicalTensor::unknown(id);
        tensor.data_type = Some(data_type);
        self.g.add_tensor(tensor).unwrap();
        id
    }

    /// Makes tensors outputs, in this order; all others are not.
    pub fn outputs(&mut self, ids: &[TensorId]) {
        for &id in ids {
            self.g.output(id);
        }
    }

    /// Says a tensor's dimensions, where they do not follow from the operation.
    pub fn dims_of(&mut self, id: TensorId, dims: &[usize]) {
        let mut tensor = LogicalTensor::unknown(id);
        tensor.dims = Some(dims.iter().copied().map(Some).collect());
        self.g.add_tensor(tensor).unwrap();
    }

    /// Gives a tensor strides.
    pub fn strides_of(&mut self, id: TensorId, strides: &[usize]) {
        let mut tensor = LogicalTensor::unknown(id);
        tensor.layout = TensorLayout::Strided(strides.iter().copied().map(Some).collect());
        self.g.add_tensor(tensor).unwrap();
    }

    /// Expects this many steps on every execution when fused.
    pub fn in_steps(mut self, steps: usize) -> Self {
        self.expected_steps = Some(steps);
        self
    }

    /// Expects integers to be equal, and floats to differ by few roundings of f32: for values that are nowhere near a rounding boundary.
    pub fn sharp(mut self) -> Self {
        self.sharp = true;
        self
    }

    /// The graph, the given values and those of all tensors by the reference.
    pub fn evaluated(self) -> (Graph, HashMap<TensorId, Tensor>, HashMap<TensorId, Tensor>) {
        let graph = self.g.build().unwrap();
        let expected = reference::evaluate(&graph, &self.values);
        (graph, self.values, expected)
    }

    /// Builds the graph and compares every output, under both policies and stream orders, on the host, a mock device and, where asked
    /// for, OpenCL devices, in a sample those whose turn it is.
    pub fn check(self) {
        let graph = self.g.clone().build().unwrap();
        let expected = reference::evaluate(&graph, &self.values);
        for policy in [Policy::Fusion, Policy::Debug] {
            for stream in [StreamDesc::default(), StreamDesc::out_of_order()] {
                self.check_on(&HostEngine::new(), &graph, policy, &stream, &expected);
            }
            let device = MockDevice::builder().seed(self.count).build();
            self.check_on(&device.engine(), &graph, policy, &StreamDesc::out_of_order(), &expected);
        }
        #[cfg(feature = "opencl")]
        if self.on_devices {
            let tensors: Vec<String> = graph.tensors().map(ToString::to_string).collect();
            for engine in anydnn_opencl::testing::engines_for(&tensors.join(", ")) {
                self.check_on(&engine, &graph, Policy::Fusion, &StreamDesc::out_of_order(), &expected);
            }
        }
    }

    fn check_on<E: Engine>(
        &self,
        engine: &E,
        graph: &Graph,
        policy: Policy,
        stream: &StreamDesc,
        expected: &HashMap<TensorId, Tensor>,
    ) {
        let what = format!("{policy:?}, {:?}, on {}", stream.order, engine.device().name);
        let run = run(engine, graph, policy, stream, &self.values).unwrap_or_else(|e| panic!("{what}: {e}"));
        if let (Some(steps), Policy::Fusion) = (self.expected_steps, policy) {
            let every_time = run.compiled.steps().iter().filter(|step| !step.constant).count();
            assert_eq!(every_time, steps, "{what}:\n{}", run.compiled);
        }
        for (&id, actual) in graph.outputs().iter().zip(&run.outputs) {
            let tolerance = if self.sharp {
                let whole = graph.tensor(id).unwrap().data_type.is_some_and(|t| !t.is_float());
                Tolerance { absolute: 0.0, relative: if whole { 0.0 } else { 1e-5 }, scaled: true }
            } else {
                tolerance(&run.compiled, id)
            };
            let desc = run.compiled.output_desc(id).unwrap();
            let of = |values: &[f64]| TensorValues::new(desc, values.iter().copied()).unwrap();
            let (actual, expected) = (of(actual), of(&expected[&id].values));
            assert!(
                relative_eq!(actual, expected.within(tolerance)),
                "{what}: output {} is {actual:?} instead of {expected:?}\n{}",
                graph.tensor(id).unwrap(),
                run.compiled
            );
        }
    }

    fn random(&mut self, data_type: DataType, dims: &[usize], f: impl Fn(f64) -> f64) -> Tensor {
        self.count += 1;
        // Knuth's MMIX generator; its upper bits are the random ones.
        let mut state = self.count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / f64::from(1 << 23) - 1.0
        };
        let values: Vec<f64> = (0..dims.iter().product()).map(|_| f(next())).collect();
        let rounded = HostTensor::from_f64(dims.to_vec(), data_type, &values).unwrap();
        Tensor::new(dims, rounded.to_f64s())
    }
}

/// A compiled graph and what it computed.
#[derive(Debug)]
pub struct Run<B: Backend> {
    pub compiled: CompiledGraph<B>,
    pub outputs: Vec<Vec<f64>>,
}

/// Compiles a graph, loads its constants, runs it once and reads its outputs, whatever their strides.
pub fn run<E: Engine>(
    engine: &E,
    graph: &Graph,
    policy: Policy,
    stream: &StreamDesc,
    values: &HashMap<TensorId, Tensor>,
) -> Result<Run<E::B>> {
    let stream = engine.create_stream(stream)?;
    let compiled =
        CompiledGraph::new(graph, engine, &CompileOptions { policy, ..CompileOptions::default() })?;
    let kind = engine.capabilities().memory_kinds[0];
    let memory = |id: TensorId| -> Result<(TensorId, <E::B as Backend>::Memory)> {
        let desc = compiled.input_desc(id).unwrap();
        let memory = engine.create_memory(desc, kind)?;
        stream.write(&memory, 0, &scatter(desc, &values[&id]), &[])?.wait()?;
        Ok((id, memory))
    };
    let constants = graph.constants().map(|t| memory(t.id)).collect::<Result<Vec<_>>>()?;
    let inputs = graph.inputs().iter().map(|&id| memory(id)).collect::<Result<Vec<_>>>()?;
    let outputs = graph
        .outputs()
        .iter()
        .map(|&id| Ok((id, engine.create_memory(compiled.output_desc(id).unwrap(), kind)?)))
        .collect::<Result<Vec<_>>>()?;
    let executable = compiled.load(&stream, &constants)?;
    let done = executable.execute(&stream, &inputs, &outputs, &[])?;
    let outputs = outputs
        .iter()
        .map(|(_, memory)| {
            let mut bytes = vec![0; memory.desc().size()];
            stream.read(memory, 0, &mut bytes, std::slice::from_ref(&done))?;
            Ok(gather(memory.desc(), &bytes))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Run { compiled, outputs })
}

/// The bound for one output: of the steps that lead to it.
pub fn tolerance<B: Backend>(compiled: &CompiledGraph<B>, output: TensorId) -> Tolerance {
    let graph = compiled.graph();
    let mut leads = vec![false; graph.ops().len()];
    let mut open = vec![output];
    while let Some(id) = open.pop() {
        if let Some(op) = graph.producer(id).filter(|&op| !leads[op]) {
            leads[op] = true;
            open.extend(&graph.ops()[op].inputs);
        }
    }
    let steps = compiled.steps().iter().filter(|s| s.ops.is_empty() || s.ops.iter().any(|&op| leads[op]));
    Tolerance::of_chain(steps.map(|step| &step.desc))
}

/// The bytes of a tensor with the layout of a descriptor.
fn scatter(desc: &MemoryDesc, tensor: &Tensor) -> Vec<u8> {
    let dense = HostTensor::from_f64(tensor.dims.clone(), desc.data_type(), &tensor.values).unwrap();
    let size = desc.data_type().bits() / 8;
    if size == 0 {
        // Two elements to a byte, one behind the other.
        return dense.bytes().to_vec();
    }
    let mut bytes = vec![0xA5; desc.size()];
    for (index, element) in indices(&tensor.dims).iter().zip(dense.bytes().chunks_exact(size)) {
        let at = desc.offset_of(index).unwrap() * size;
        bytes[at..at + size].copy_from_slice(element);
    }
    bytes
}

fn gather(desc: &MemoryDesc, bytes: &[u8]) -> Vec<f64> {
    let size = desc.data_type().bits() / 8;
    let dense: Vec<u8> = indices(desc.dims())
        .iter()
        .flat_map(|index| {
            let at = desc.offset_of(index).unwrap() * size;
            bytes[at..at + size].to_vec()
        })
        .collect();
    HostTensor::new(MemoryDesc::new(desc.dims().clone(), desc.data_type()), dense).unwrap().to_f64s()
}

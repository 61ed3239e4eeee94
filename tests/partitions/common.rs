//! Small graphs, and memory with values that every backend computes with exactly.

use anydnn::backend::{Backend, DataType, Engine, Event, Memory, MemoryDesc, MemoryKind, Stream, StreamDesc};
use anydnn::fusion::Policy;
use anydnn::graph::{Attrs, LogicalTensor, Op, OpId, OpKind, Property, TensorId, TensorLayout};
use anydnn::partition::{Argument, CompiledPartition, OpenGraph, Partition, PartitionOptions};

pub(crate) fn t(id: u64) -> TensorId {
    TensorId(id)
}

pub(crate) fn lt(id: u64, dims: impl Into<anydnn::backend::Dims>) -> LogicalTensor {
    LogicalTensor::new(t(id), DataType::F32, dims)
}

pub(crate) fn any(id: u64, dims: impl Into<anydnn::backend::Dims>) -> LogicalTensor {
    lt(id, dims).with_layout(TensorLayout::Any)
}

pub(crate) fn constant(id: u64, dims: impl Into<anydnn::backend::Dims>) -> LogicalTensor {
    lt(id, dims).with_property(Property::Constant)
}

/// Of unknown rank.
pub(crate) fn unknown(id: u64) -> LogicalTensor {
    LogicalTensor { data_type: Some(DataType::F32), ..LogicalTensor::unknown(t(id)) }
}

pub(crate) fn op(id: u64, kind: OpKind, inputs: &[u64], outputs: &[u64]) -> Op {
    let ids = |ids: &[u64]| ids.iter().copied().map(TensorId).collect();
    let name = format!("{}{id}", OpKind::name(kind));
    Op { id: OpId(id), name, kind, attrs: Attrs::new(), inputs: ids(inputs), outputs: ids(outputs) }
}

/// A finalised graph of operations on these tensors.
pub(crate) fn graph(ops: &[Op], tensors: &[LogicalTensor]) -> OpenGraph {
    let mut graph = OpenGraph::new();
    for op in ops {
        graph.add_op(op.clone(), tensors).unwrap();
    }
    graph.finalize().unwrap();
    graph
}

/// The only partition of one operation.
pub(crate) fn single(op: Op, tensors: &[LogicalTensor]) -> Partition {
    graph(&[op], tensors).partitions(Policy::Fusion).unwrap().remove(0)
}

pub(crate) fn stream<E: Engine>(engine: &E) -> <E::B as Backend>::Stream {
    engine.create_stream(&StreamDesc::default()).unwrap()
}

/// The streams that an engine has.
pub(crate) fn streams<E: Engine>(engine: &E) -> Vec<<E::B as Backend>::Stream> {
    let mut all = vec![stream(engine)];
    if engine.capabilities().out_of_order {
        all.push(engine.create_stream(&StreamDesc::out_of_order()).unwrap());
    }
    all
}

pub(crate) fn default_kind<E: Engine>(engine: &E) -> MemoryKind {
    engine.capabilities().memory_kinds[0]
}

/// Memory of a descriptor, whose bytes are row-major values in the order of its layout.
pub(crate) fn memory<E: Engine>(
    engine: &E,
    desc: &MemoryDesc,
    kind: MemoryKind,
    value: impl Fn(usize) -> f32,
) -> <E::B as Backend>::Memory {
    let memory = engine.create_memory(desc, kind).unwrap();
    write(engine, &memory, value);
    memory
}

/// Writes element `i` in row-major order, wherever the layout has it; padding becomes zero.
pub(crate) fn write<E: Engine>(engine: &E, memory: &<E::B as Backend>::Memory, value: impl Fn(usize) -> f32) {
    let desc = memory.desc();
    let mut bytes = vec![0; desc.size()];
    for i in 0..desc.elements() {
        let at = 4 * desc.offset_of(&index(desc, i)).unwrap();
        bytes[at..at + 4].copy_from_slice(&value(i).to_le_bytes());
    }
    stream(engine).write(memory, 0, &bytes, &[]).unwrap().wait().unwrap();
}

/// The elements in row-major order, after an event.
pub(crate) fn read<E: Engine>(
    engine: &E,
    memory: &<E::B as Backend>::Memory,
    after: &<E::B as Backend>::Event,
) -> Vec<f32> {
    after.wait().unwrap();
    let desc = memory.desc();
    let mut bytes = vec![0; desc.size()];
    stream(engine).read(memory, 0, &mut bytes, std::slice::from_ref(after)).unwrap();
    (0..desc.elements())
        .map(|i| {
            let at = 4 * desc.offset_of(&index(desc, i)).unwrap();
            f32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
        })
        .collect()
}

fn index(desc: &MemoryDesc, mut i: usize) -> Vec<usize> {
    let mut index = vec![0; desc.rank()];
    for axis in (0..desc.rank()).rev() {
        (index[axis], i) = (i % desc.dims()[axis], i / desc.dims()[axis]);
    }
    index
}

/// Memory for a port of a compiled partition.
pub(crate) fn port<E: Engine>(
    engine: &E,
    compiled: &CompiledPartition<E::B>,
    id: u64,
    value: impl Fn(usize) -> f32,
) -> <E::B as Backend>::Memory {
    memory(engine, compiled.memory_desc(t(id)).unwrap(), default_kind(engine), value)
}

pub(crate) fn arg<B: Backend>(id: u64, memory: &B::Memory) -> (TensorId, Argument<B>) {
    (t(id), Argument::Memory(memory.clone()))
}

pub(crate) fn compile<E: Engine>(
    engine: &E,
    partition: &Partition,
    inputs: &[LogicalTensor],
    outputs: &[LogicalTensor],
) -> CompiledPartition<E::B> {
    partition.compile(engine, inputs, outputs, &PartitionOptions::default()).unwrap()
}

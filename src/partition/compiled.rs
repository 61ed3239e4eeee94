//! Compiled partitions.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anydnn_backend::{Backend, Engine, Error, MemoryDesc, Result, ResultExt, Specialize};

use super::{ConstantCache, Partition, PartitionOptions};
use crate::compile::{self, CompileOptions, Compiled, PortLayouts, Programs, StepInfo, TempPlace};
use crate::execute::literal_memories;
use crate::fusion;
use crate::graph::{Graph, LogicalTensor, Property, TensorId};

/// A partition compiled for an engine. Clones are handles to the same one; several streams and threads may execute it at once.
#[derive(Debug)]
pub struct CompiledPartition<B: Backend> {
    pub(super) partition: Partition,
    pub(super) plan: Arc<Plan<B>>,
    pub(super) constants: Option<ConstantCache<B>>,
    was_cached: bool,
}

impl<B: Backend> Clone for CompiledPartition<B> {
    fn clone(&self) -> Self {
        Self {
            partition: self.partition.clone(),
            plan: Arc::clone(&self.plan),
            constants: self.constants.clone(),
            was_cached: self.was_cached,
        }
    }
}

/// What equal requests share.
#[derive(Debug)]
pub(super) struct Plan<B: Backend> {
    /// Not used before in this process.
    pub(super) id: u64,
    pub(super) compiled: Compiled<B>,
    pub(super) literals: Vec<B::Memory>,
    /// The inputs and outputs with their final shapes and layouts, in the order of the partition.
    inputs: Vec<LogicalTensor>,
    outputs: Vec<LogicalTensor>,
    pub(super) in_place: Vec<(TensorId, TensorId)>,
    /// Where the temporaries that depend on constants alone lie in a scratchpad, by index: `(offset, bytes)`.
    pub(super) prepared: Vec<Option<(usize, usize)>>,
    pub(super) prepared_bytes: usize,
    pub(super) scratchpad_bytes: usize,
}

impl<B: Backend> Plan<B> {
    fn new(compiled: Compiled<B>, partition: &fusion::Partition) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut end = compiled.arena_bytes;
        let mut prepared = Vec::with_capacity(compiled.temp_bytes.len());
        for place in &compiled.temp_bytes {
            prepared.push(match place {
                TempPlace::Prepared { bytes } => {
                    let too_large = || Error::OutOfMemory { what: "scratchpad".into(), bytes: usize::MAX };
                    let start = end.checked_next_multiple_of(compile::ARENA_ALIGNMENT);
                    let start = start.ok_or_else(too_large)?;
                    end = start.checked_add(*bytes).ok_or_else(too_large)?;
                    Some((start, *bytes))
                }
                TempPlace::Arena { .. } | TempPlace::Unused => None,
            });
        }
        Ok(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            inputs: ports(&compiled, &partition.inputs)?,
            outputs: ports(&compiled, &partition.outputs)?,
            literals: literal_memories(&compiled)?,
            in_place: compiled.in_place_pairs(),
            prepared_bytes: prepared.iter().flatten().map(|(_, bytes)| bytes).sum(),
            prepared,
            scratchpad_bytes: end,
            compiled,
        })
    }
}

/// As [`Partition::compile`].
pub(super) fn compile<E>(
    partition: &Partition,
    engine: &E,
    inputs: &[LogicalTensor],
    outputs: &[LogicalTensor],
    options: &PartitionOptions<E::B>,
) -> Result<CompiledPartition<E::B>>
where
    E: Engine,
    E::B: Backend<Engine = E>,
{
    if let Some(why) = partition.why_unsupported() {
        return Err(Error::invalid("compile", partition.id().to_string(), why, "a supported partition"));
    }
    let (fused, policy, specialize) = (&partition.inner.fused, partition.inner.policy, options.specialize);
    let given: Vec<LogicalTensor> = inputs.iter().chain(outputs).cloned().collect();
    let graph = partition
        .inner
        .graph
        .subgraph(&fused.ops, &fused.inputs, &fused.outputs, &given)
        .at(|| partition.id().to_string())?;
    partition.inner.dump.subgraph(partition.id(), &graph, partition.engine_kind())?;
    let make = || {
        let options = CompileOptions { policy, specialize, ..CompileOptions::default() };
        let whole = fusion::Partition::of_ops(&graph, fused.pattern, 0..graph.ops().len());
        let partitioning = fusion::Partitioning { partitions: vec![whole] };
        let graph = Arc::new(graph.clone());
        let compiled = compile::compile(
            &graph,
            Arc::new(partitioning),
            PortLayouts::Chosen,
            Programs::New,
            engine,
            &options,
        )?;
        Plan::new(compiled, fused)
    };
    let (plan, was_cached) = match &options.cache {
        Some(cache) => cache.find_or_compile(&key(&graph, engine, policy, specialize), make)?,
        None => (Arc::new(make()?), false),
    };
    Ok(CompiledPartition {
        partition: partition.clone(),
        plan,
        constants: options.constants.clone(),
        was_cached,
    })
}

/// All that the result of a compilation depends on, in words.
fn key<E: Engine>(
    graph: &Graph,
    engine: &E,
    policy: fusion::Policy,
    specialize: Option<Specialize>,
) -> String {
    let fpmath = (graph.fpmath(), graph.fpmath_apply_to_int());
    let mut key = format!("{} {policy:?} {specialize:?} {fpmath:?}\n", engine.id());
    for op in graph.ops() {
        let _ = writeln!(key, "{} {:?} {:?} {:?}", op.kind, op.attrs, op.inputs, op.outputs);
    }
    for tensor in graph.tensors() {
        let LogicalTensor { id, data_type, dims, layout, property, name: _ } = tensor;
        let _ = writeln!(key, "{id} {data_type:?} {dims:?} {layout:?} {property:?}");
    }
    let _ = write!(key, "{:?} {:?}", graph.inputs(), graph.outputs());
    key
}

fn ports<B: Backend>(compiled: &Compiled<B>, ids: &[TensorId]) -> Result<Vec<LogicalTensor>> {
    let missing =
        |id: TensorId| Error::invalid("compile", "tensor", id.to_string(), "a port of the partition");
    ids.iter()
        .map(|&id| {
            let desc = port_desc(compiled, id).ok_or_else(|| missing(id))?;
            let tensor = compiled.graph.tensor(id).ok_or_else(|| missing(id))?;
            Ok(LogicalTensor {
                property: tensor.property,
                name: tensor.name.clone(),
                ..LogicalTensor::of(id, desc)
            })
        })
        .collect()
}

/// The descriptor that a port's memory has.
fn port_desc<B: Backend>(compiled: &Compiled<B>, id: TensorId) -> Option<&MemoryDesc> {
    let of = |ids: &[TensorId], descs: &'_ [MemoryDesc]| {
        ids.iter().position(|other| *other == id).filter(|at| *at < descs.len())
    };
    let Compiled { graph, constants, input_descs, output_descs, constant_descs, .. } = compiled;
    let found = of(graph.inputs(), input_descs).map(|at| &input_descs[at]);
    let found = found.or_else(|| of(constants, constant_descs).map(|at| &constant_descs[at]));
    found.or_else(|| of(graph.outputs(), output_descs).map(|at| &output_descs[at]))
}

impl<B: Backend> CompiledPartition<B> {
    /// The partition that was compiled.
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// The engine.
    pub fn engine(&self) -> &B::Engine {
        &self.plan.compiled.engine
    }

    /// The inputs with their final shapes and layouts, constants and host scalars among them.
    pub fn inputs(&self) -> &[LogicalTensor] {
        &self.plan.inputs
    }

    /// The outputs with their final shapes and layouts.
    pub fn outputs(&self) -> &[LogicalTensor] {
        &self.plan.outputs
    }

    /// An input or output with its final shape and layout; none when the partition has no such tensor.
    pub fn logical_tensor(&self, id: TensorId) -> Option<&LogicalTensor> {
        self.inputs().iter().chain(self.outputs()).find(|tensor| tensor.id == id)
    }

    /// The descriptor that an input or output is bound with.
    pub fn memory_desc(&self, id: TensorId) -> Option<&MemoryDesc> {
        port_desc(&self.plan.compiled, id)
    }

    /// Inputs whose memory may be that of an output: `(input, output)`. Every tensor is in one pair at most.
    pub fn in_place_pairs(&self) -> &[(TensorId, TensorId)] {
        &self.plan.in_place
    }

    /// Bytes of working memory for one execution.
    pub fn scratchpad_size(&self) -> usize {
        self.plan.scratchpad_bytes
    }

    /// The steps in order; those that a [`ConstantCache`] saves come first.
    pub fn steps(&self) -> &[StepInfo] {
        self.plan.compiled.infos()
    }

    /// Whether a [`PartitionCache`](super::PartitionCache) had it.
    pub fn was_cached(&self) -> bool {
        self.was_cached
    }

    /// The property of an input.
    pub(super) fn property(&self, id: TensorId) -> Property {
        self.plan.compiled.graph.tensor(id).map_or(Property::Undefined, |tensor| tensor.property)
    }
}

impl<B: Backend> Drop for CompiledPartition<B> {
    fn drop(&mut self) {
        // Nobody else will ask for what was made of its constants.
        if let (1, Some(constants)) = (Arc::strong_count(&self.plan), &self.constants) {
            constants.forget(self.plan.id);
        }
    }
}

//! Partitions, compiled one by one: oneDNN's graph programming model.
//!
//! An [`OpenGraph`] takes operations until it is finalised and then names its [`Partition`]s. A partition is compiled for an engine with
//! the logical tensors that are known by then, and the [`CompiledPartition`] runs on any stream of that engine, its arguments bound by
//! tensor. Between partitions a tensor may have any layout: declared with [`TensorLayout::Any`](crate::graph::TensorLayout::Any) it takes
//! the one that the implementation likes, which [`CompiledPartition::logical_tensor`] tells, strided or opaque.
//!
//! Two caches save work. A [`PartitionCache`] returns what was compiled for an equal request; a [`ConstantCache`] keeps what was computed
//! from constant tensors. Both are values to pass in [`PartitionOptions`]; without them everything is done anew. To run a whole graph with
//! its constants loaded once, [`CompiledGraph`](crate::compile::CompiledGraph) is simpler.
//!
//! ```
//! use anydnn::backend::{DataType, Engine, Event, MemoryDesc, Stream, StreamDesc};
//! use anydnn::fusion::Policy;
//! use anydnn::graph::{Attrs, LogicalTensor, Op, OpId, OpKind, TensorId};
//! use anydnn::partition::{Argument, OpenGraph, PartitionOptions};
//!
//! let tensor = |id| LogicalTensor::new(TensorId(id), DataType::F32, [2, 3]);
//! let op = |id, kind, inputs, outputs| Op { id: OpId(id), name: format!("op{id}"), kind, attrs: Attrs::new(), inputs, outputs };
//! let mut graph = OpenGraph::new();
//! graph.add_op(op(0, OpKind::Add, vec![TensorId(0), TensorId(1)], vec![TensorId(2)]), &[tensor(0), tensor(1), tensor(2)])?;
//! graph.add_op(op(1, OpKind::ReLU, vec![TensorId(2)], vec![TensorId(3)]), &[tensor(2), tensor(3)])?;
//! graph.finalize()?;
//! let partitions = graph.partitions(Policy::Fusion)?;
//! assert_eq!(partitions.len(), 1);
//!
//! let engine = anydnn_host::HostEngine::new();
//! let compiled = partitions[0].compile(&engine, &[tensor(0), tensor(1)], &[tensor(3)], &PartitionOptions::default())?;
//! let stream = engine.create_stream(&StreamDesc::default())?;
//! let kind = engine.capabilities().memory_kinds[0];
//! let memory = || engine.create_memory(&MemoryDesc::new([2, 3], DataType::F32), kind);
//! let (a, b, y) = (memory()?, memory()?, memory()?);
//! let inputs = [(TensorId(0), Argument::Memory(a)), (TensorId(1), Argument::Memory(b))];
//! compiled.execute(&stream, &inputs, &[(TensorId(3), y)], None, &[])?.wait()?;
//! # Ok::<(), anydnn::backend::Error>(())
//! ```

mod cache;
mod compiled;
mod constants;
mod dump;
mod execute;
mod open_graph;
mod process;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anydnn_backend::{Backend, DeviceKind, Engine, Error, Result, Specialize};

pub use cache::{CacheStats, PartitionCache};
pub use compiled::CompiledPartition;
pub use constants::ConstantCache;
pub use dump::Dump;
pub use execute::Argument;
pub use open_graph::OpenGraph;

use crate::fusion::{self, Policy};
use crate::graph::{Graph, LogicalTensor, Op, OpKind, TensorId};

/// Identifies a partition within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId(pub u64);

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "partition {}", self.0)
    }
}

/// Operations of a finalised graph that run as one. Clones are handles to the same partition.
#[derive(Clone, Debug)]
pub struct Partition {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: PartitionId,
    graph: Arc<Graph>,
    fused: fusion::Partition,
    policy: Policy,
    engine_kind: DeviceKind,
    dump: Dump,
}

/// How to compile a partition.
#[derive(Debug)]
pub struct PartitionOptions<B: Backend> {
    /// Where equal requests find what was compiled before.
    pub cache: Option<PartitionCache<B>>,
    /// Where executions keep what follows from constants.
    pub constants: Option<ConstantCache<B>>,
    /// When kernels get programs for one shape; if none, the engine decides.
    pub specialize: Option<Specialize>,
}

impl<B: Backend> PartitionOptions<B> {
    /// With the caches that the process shares.
    pub fn shared() -> Self {
        let (cache, constants) = (Some(PartitionCache::process()), Some(ConstantCache::process()));
        Self { cache, constants, specialize: None }
    }
}

impl<B: Backend> Clone for PartitionOptions<B> {
    fn clone(&self) -> Self {
        let Self { cache, constants, specialize } = self;
        Self { cache: cache.clone(), constants: constants.clone(), specialize: *specialize }
    }
}

impl<B: Backend> Default for PartitionOptions<B> {
    fn default() -> Self {
        Self { cache: None, constants: None, specialize: None }
    }
}

impl Partition {
    fn new(
        graph: &Arc<Graph>,
        fused: fusion::Partition,
        policy: Policy,
        engine_kind: DeviceKind,
        dump: Dump,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = PartitionId(NEXT.fetch_add(1, Ordering::Relaxed));
        let graph = Arc::clone(graph);
        Self { inner: Arc::new(Inner { id, graph, fused, policy, engine_kind, dump }) }
    }

    /// A partition of one operation that is in no graph. Its tensors must all be given.
    ///
    /// # Errors
    /// As [`OpenGraph::add_op`].
    pub fn of_op(op: Op, tensors: &[LogicalTensor], engine_kind: DeviceKind) -> Result<Self> {
        let mut graph = OpenGraph::new().with_engine_kind(engine_kind);
        graph.add_op(op, tensors)?;
        graph.finalize()?;
        let expected = "one operation that makes one partition";
        let found = graph.partitions(Policy::Debug)?.pop();
        found.ok_or_else(|| Error::invalid("partition", "operation", "none", expected))
    }

    /// The partition's identity.
    pub fn id(&self) -> PartitionId {
        self.inner.id
    }

    /// The operations, every one after those it depends on.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.inner.fused.ops.iter().map(|&i| &self.inner.graph.ops()[i])
    }

    /// The graph that the partition is part of.
    pub fn graph(&self) -> &Graph {
        &self.inner.graph
    }

    /// The pattern that matched, and why it took no more.
    pub fn fused(&self) -> &fusion::Partition {
        &self.inner.fused
    }

    /// The tensors that come from outside, constants among them, with what the graph knows of them.
    pub fn inputs(&self) -> Vec<LogicalTensor> {
        self.tensors(&self.inner.fused.inputs)
    }

    /// The tensors that leave.
    pub fn outputs(&self) -> Vec<LogicalTensor> {
        self.tensors(&self.inner.fused.outputs)
    }

    /// The kind of engine that the graph was made for.
    pub fn engine_kind(&self) -> DeviceKind {
        self.inner.engine_kind
    }

    /// Whether the partition can be compiled.
    pub fn is_supported(&self) -> bool {
        self.inner.fused.supported
    }

    /// Why the partition cannot be compiled; none when it can.
    pub fn why_unsupported(&self) -> Option<String> {
        if self.is_supported() {
            return None;
        }
        let op = self.ops().find(|op| matches!(op.kind, OpKind::Wildcard | OpKind::End));
        Some(op.map_or_else(|| "without operations".to_owned(), |op| format!("{op}, which computes nothing")))
    }

    /// Compiles the partition for an engine. The logical tensors say what is known by now: inputs their shapes, and any tensor its
    /// layout; outputs' unknown dimensions are inferred. Tensors that the partition does not have are ignored.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a partition that is not [supported](Partition::is_supported), for a tensor that is missing or an opaque
    /// layout of something else, and for shapes that are unknown or do not fit; else as
    /// [`CompiledGraph::new`](crate::compile::CompiledGraph::new).
    pub fn compile<E>(
        &self,
        engine: &E,
        inputs: &[LogicalTensor],
        outputs: &[LogicalTensor],
        options: &PartitionOptions<E::B>,
    ) -> Result<CompiledPartition<E::B>>
    where
        E: Engine,
        E::B: Backend<Engine = E>,
    {
        compiled::compile(self, engine, inputs, outputs, options)
    }

    fn tensors(&self, ids: &[TensorId]) -> Vec<LogicalTensor> {
        ids.iter().filter_map(|id| self.inner.graph.tensor(*id)).cloned().collect()
    }
}

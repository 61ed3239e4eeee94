//! A graph that takes operations until it is finalised.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anydnn_backend::{DeviceKind, Error, FpMath, InvalidKind, Result};

use super::{Dump, Partition};
use crate::formula::parts::UNARY;
use crate::fusion::{self, Policy};
use crate::graph::{self, Graph, GraphBuilder, LogicalTensor, Op, OpId, OpKind, TensorId};

/// A graph in the making: operations are added, then it is [finalised](OpenGraph::finalize), then it names its partitions.
///
/// Shapes need not be known before a partition is compiled.
#[derive(Clone, Debug)]
pub struct OpenGraph {
    id: u64,
    ops: Vec<(Op, Vec<LogicalTensor>)>,
    op_ids: HashSet<OpId>,
    /// The operations whose attribute `data_format` was not given.
    without_format: HashSet<OpId>,
    fpmath: FpMath,
    fpmath_apply_to_int: bool,
    engine_kind: DeviceKind,
    dump: Dump,
    graph: Option<Arc<Graph>>,
}

impl Default for OpenGraph {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenGraph {
    /// An empty graph. What it [dumps](Dump) the environment says.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            ops: Vec::new(),
            op_ids: HashSet::new(),
            without_format: HashSet::new(),
            fpmath: FpMath::default(),
            fpmath_apply_to_int: false,
            engine_kind: DeviceKind::Cpu,
            dump: Dump::from_env(),
            graph: None,
        }
    }

    /// For a kind of engine, which dumps name. Partitions compile for any engine.
    pub fn with_engine_kind(mut self, kind: DeviceKind) -> Self {
        self.engine_kind = kind;
        self
    }

    /// With other dumps than the environment says.
    pub fn with_dump(mut self, dump: Dump) -> Self {
        self.dump = dump;
        self
    }

    /// Which narrower arithmetic f32 work may use, and whether integer work may use it too.
    ///
    /// # Errors
    /// [`Error::Invalid`] of the kind [`InvalidKind::Graph`] once the graph is finalised.
    pub fn set_fpmath(&mut self, fpmath: FpMath, apply_to_int: bool) -> Result<()> {
        self.check_open("set fpmath mode")?;
        (self.fpmath, self.fpmath_apply_to_int) = (fpmath, apply_to_int);
        Ok(())
    }

    /// What [`OpenGraph::set_fpmath`] has set.
    pub fn fpmath(&self) -> (FpMath, bool) {
        (self.fpmath, self.fpmath_apply_to_int)
    }

    /// Adds an operation with what is known of its tensors: inputs, then outputs. An operation whose identity is already there is
    /// ignored.
    ///
    /// # Errors
    /// [`Error::Invalid`] of the kind [`InvalidKind::GraphOp`] when the operation does not fit its
    /// [`Schema`](crate::graph::Schema) in counts, attributes or types, of the kind [`InvalidKind::Graph`] once the graph is finalised.
    pub fn add_op(&mut self, mut op: Op, tensors: &[LogicalTensor]) -> Result<()> {
        self.check_open("add operation")?;
        if self.op_ids.contains(&op.id) {
            return Ok(());
        }
        let has_format = op.attrs.get("data_format").is_some();
        graph::complete(&mut op)?;
        let of_op = |error: String| {
            let kind = InvalidKind::GraphOp;
            Error::invalid_kind(kind, "add operation", op.to_string(), error, "one that fits its schema")
        };
        let types = |ids: &[graph::TensorId]| {
            ids.iter()
                .map(|id| {
                    let tensor = tensors.iter().find(|tensor| tensor.id == *id);
                    tensor.map(|t| t.data_type).ok_or_else(|| of_op(format!("without the tensor {id}")))
                })
                .collect::<Result<Vec<_>>>()
        };
        graph::infer_types(&op, &types(&op.inputs)?, &types(&op.outputs)?)
            .map_err(|error| of_op(error.to_string()))?;
        self.op_ids.insert(op.id);
        if !has_format {
            self.without_format.insert(op.id);
        }
        let own = tensors.iter().filter(|t| op.inputs.contains(&t.id) || op.outputs.contains(&t.id));
        let own = own.cloned().collect();
        self.ops.push((op, own));
        Ok(())
    }

    /// Ends the adding of operations. Calling it again does nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] of the kind [`InvalidKind::Graph`] when one tensor is said to be two different things, its layout included, or
    /// is made twice, or operations form a cycle. The graph stays open then.
    pub fn finalize(&mut self) -> Result<()> {
        if self.graph.is_some() {
            return Ok(());
        }
        let mut builder =
            GraphBuilder::new().with_fpmath(self.fpmath).with_fpmath_apply_to_int(self.fpmath_apply_to_int);
        let mut layouts = HashMap::new();
        for (op, tensors) in &self.ops {
            for tensor in tensors {
                let first = layouts.entry(tensor.id).or_insert(&tensor.layout);
                if **first != tensor.layout {
                    let subject = format!("layout of tensor {}", tensor.label());
                    let (given, expected) = (format!("{:?}", tensor.layout), format!("{first:?}, as before"));
                    return Err(Error::invalid_kind(
                        InvalidKind::Graph,
                        op.to_string(),
                        subject,
                        given,
                        expected,
                    ));
                }
            }
            let mut op = op.clone();
            if self.follows(&op)
                && let Some(format) =
                    op.inputs.first().and_then(|&input| self.format_of(input, self.ops.len()))
            {
                op.attrs.set("data_format", format);
            }
            builder.add_op(op, tensors)?;
        }
        self.graph = Some(Arc::new(builder.build_open()?));
        Ok(())
    }

    /// Whether an operation has its channels where the operation has them that makes its input: one by channel whose format was not given.
    fn follows(&self, op: &Op) -> bool {
        matches!(op.kind, OpKind::BiasAdd | OpKind::BatchNormInference)
            && self.without_format.contains(&op.id)
    }

    /// The format that operations up to a tensor were given, at most `depth` of them.
    fn format_of(&self, tensor: TensorId, depth: usize) -> Option<&str> {
        let (op, _) = self.ops.iter().find(|(op, _)| op.outputs.contains(&tensor))?;
        if !self.without_format.contains(&op.id) {
            return op.attrs.string("data_format").ok();
        }
        let passes_on = self.follows(op) || UNARY.contains(&op.kind);
        op.inputs
            .first()
            .filter(|_| passes_on && depth > 0)
            .and_then(|&input| self.format_of(input, depth - 1))
    }

    /// Whether the graph is finalised.
    pub fn is_finalized(&self) -> bool {
        self.graph.is_some()
    }

    /// The finalised graph.
    pub fn graph(&self) -> Option<&Arc<Graph>> {
        self.graph.as_ref()
    }

    /// The number in the names of this graph's dumps, unique within the process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The partitions, every one after those it depends on. Operations that no pattern takes are partitions of their own.
    ///
    /// # Errors
    /// [`Error::Invalid`] of the kind [`InvalidKind::Graph`] when the graph is not finalised; [`Error::Io`] when a dump that was asked
    /// for cannot be written.
    pub fn partitions(&self, policy: Policy) -> Result<Vec<Partition>> {
        let Some(graph) = &self.graph else {
            let (kind, expected) = (InvalidKind::Graph, "finalised");
            return Err(Error::invalid_kind(kind, "partitions", "the graph", "open", expected));
        };
        self.dump.graph(self.id, graph, self.engine_kind)?;
        let partitioning = fusion::partition(graph, policy);
        let make = |fused| Partition::new(graph, fused, policy, self.engine_kind, self.dump.clone());
        let partitions: Vec<Partition> = partitioning.partitions.into_iter().map(make).collect();
        self.dump.partitioning(self.id, graph, &partitions, self.engine_kind)?;
        Ok(partitions)
    }

    fn check_open(&self, operation: &str) -> Result<()> {
        if self.is_finalized() {
            let (kind, expected) = (InvalidKind::Graph, "open");
            return Err(Error::invalid_kind(kind, operation, "the graph", "finalised", expected));
        }
        Ok(())
    }
}

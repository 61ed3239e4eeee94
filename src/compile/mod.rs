//! Compilation: from a graph to a plan for one engine.
//!
//! [`CompiledGraph::new`] partitions the graph, lowers each partition to a primitive, lets the backend choose layouts for constant
//! weights, plans the memory of temporaries and works out which step waits for which. [`CompiledGraph::load`] takes the constants,
//! prepares them once and gives an [`Executable`](crate::execute::Executable).

mod creation;
mod dependencies;
mod images;
mod instantiate;
#[cfg(feature = "onnx")]
mod likeness;
mod lists;
mod liveness;
mod lower;
mod memory_plan;
mod ports;
mod program;
mod regions;

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use anydnn_backend::{Arg, Backend, Engine, Error, MemoryDesc, Primitive, PrimitiveDesc, Result, Specialize};

use self::dependencies::{dependencies, touches};
pub(crate) use self::instantiate::Programs;
use self::instantiate::{instantiate, instantiate_beside, threads};
#[cfg(feature = "onnx")]
pub(crate) use self::likeness::Likeness;
pub(crate) use self::lists::Lists;
pub(crate) use self::memory_plan::ALIGNMENT as ARENA_ALIGNMENT;
pub(crate) use self::program::Literal;
use self::program::{Program, ProtoStep, Temp};
pub use self::program::{Storage, Value};
use crate::fusion::{self, Partitioning, Policy};
use crate::graph::{Graph, Property, TensorId};

/// How to compile.
#[derive(Clone, Default)]
pub struct CompileOptions {
    /// How far fusion goes.
    pub policy: Policy,
    /// Called with the number of primitives created and their total; possibly from several threads.
    pub progress: Option<Arc<dyn Fn(usize, usize) + Send + Sync>>,
    /// When kernels get programs for one shape; if none, the engine decides.
    pub specialize: Option<Specialize>,
    /// Whether convolutions are always sums of products, never computed by Winograd's transforms. Without fusion they always are.
    pub direct: bool,
}

impl fmt::Debug for CompileOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompileOptions")
            .field("policy", &self.policy)
            .field("progress", &self.progress.is_some())
            .field("specialize", &self.specialize)
            .field("direct", &self.direct)
            .finish()
    }
}

/// A graph compiled for one engine.
///
/// ```
/// use anydnn::backend::{Backend, DataType, Engine};
/// use anydnn::compile::{CompileOptions, CompiledGraph};
/// use anydnn::graph::{Attrs, GraphBuilder, OpKind};
///
/// fn compile<E: Engine>(engine: &E) -> anydnn::backend::Result<CompiledGraph<E::B>> {
///     let mut g = GraphBuilder::new();
///     let x = g.input("x", DataType::F32, [4, 8]);
///     let y = g.op("act", OpKind::ReLU, &[x], Attrs::new())?;
///     g.op("twice", OpKind::Add, &[y, y], Attrs::new())?;
///     CompiledGraph::new(&g.build()?, engine, &CompileOptions::default())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct CompiledGraph<B: Backend> {
    pub(crate) inner: Arc<Compiled<B>>,
}

/// One step of a compiled graph, in words.
#[derive(Clone, Debug)]
pub struct StepInfo {
    /// The names of the operations it computes.
    pub name: String,
    /// The backend's name for how it computes them.
    pub implementation: String,
    /// The operations, indices into [`Graph::ops`]; empty for a preparation of weights.
    pub ops: Vec<usize>,
    /// The primitive, with every layout resolved.
    pub desc: PrimitiveDesc,
    /// Whether it runs once, when the constants are loaded.
    pub constant: bool,
    /// How many commands of the device it takes, such as kernel launches.
    pub launches: usize,
    /// The steps it waits for on an out-of-order stream.
    pub waits_for: Vec<usize>,
}

/// What is known after compilation.
#[derive(Debug)]
pub(crate) struct Compiled<B: Backend> {
    pub(crate) engine: B::Engine,
    pub(crate) graph: Arc<Graph>,
    /// The partitions without reasons, which graphs that differ in extents share.
    groups: Arc<Partitioning>,
    policy: Policy,
    /// With reasons, once somebody has asked.
    partitioning: OnceLock<Partitioning>,
    /// What others of its kind have in common with it, once somebody has asked.
    #[cfg(feature = "onnx")]
    likeness: OnceLock<Likeness>,
    pub(crate) constants: Vec<TensorId>,
    pub(crate) input_descs: Vec<MemoryDesc>,
    pub(crate) output_descs: Vec<MemoryDesc>,
    pub(crate) constant_descs: Vec<MemoryDesc>,
    pub(crate) literals: Vec<Literal>,
    /// Steps that prepare constants come first.
    pub(crate) steps: Vec<Step<B>>,
    /// The steps in words, once somebody has asked.
    infos: OnceLock<Vec<StepInfo>>,
    pub(crate) temp_bytes: Vec<TempPlace>,
    pub(crate) arena_bytes: usize,
    /// The parts of the arena that are allocated each by itself, in order.
    pub(crate) arena_parts: Vec<Range<usize>>,
    pub(crate) arena_bytes_without_reuse: usize,
    pub(crate) in_place: usize,
    /// What executions enqueue.
    pub(crate) lists: Lists<B>,
}

/// Where a temporary lies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TempPlace {
    /// In the arena of an execution.
    Arena { part: usize, offset: usize, bytes: usize },
    /// In memory of its own, prepared once.
    Prepared { bytes: usize },
    /// Nothing uses it.
    Unused,
}

/// A primitive with the places of its arguments.
#[derive(Debug)]
pub(crate) struct Step<B: Backend> {
    pub(crate) primitive: B::Primitive,
    pub(crate) args: Vec<(Arg, Storage)>,
    pub(crate) waits_for: Vec<usize>,
    pub(crate) constant: bool,
    /// The operations that it computes.
    ops: Vec<usize>,
}

impl<B: Backend> Compiled<B> {
    /// The steps in words.
    pub(crate) fn infos(&self) -> &[StepInfo] {
        let info = |step: &Step<B>| StepInfo {
            name: step.primitive.desc().name().to_owned(),
            implementation: step.primitive.implementation().to_owned(),
            ops: step.ops.clone(),
            desc: step.primitive.desc().clone(),
            constant: step.constant,
            launches: step.primitive.launches(),
            waits_for: step.waits_for.clone(),
        };
        self.infos.get_or_init(|| self.steps.iter().map(info).collect())
    }

    /// Whether a step of executions reads a constant itself, not what was prepared from it.
    pub(crate) fn reads_constant(&self, at: usize) -> bool {
        let mut running = self.steps.iter().filter(|step| !step.constant);
        running.any(|step| step.args.iter().any(|(_, storage)| *storage == Storage::Constant(at)))
    }

    /// Inputs whose memory may be that of an output: one elementwise step makes the output, all of it, and nothing else reads the input.
    /// Every tensor is in one pair at most.
    pub(crate) fn in_place_pairs(&self) -> Vec<(TensorId, TensorId)> {
        let users = |storage| {
            let all = self.steps.iter().flat_map(|step| &step.args);
            all.filter(|(_, other)| *other == storage).count()
        };
        let mut pairs: Vec<(TensorId, TensorId)> = Vec::new();
        for step in &self.steps {
            let desc = step.primitive.desc();
            let Some((_, Storage::Output(port))) = step.args.iter().find(|(arg, _)| *arg == Arg::DST) else {
                continue;
            };
            let fits = |(arg, storage): &(Arg, Storage)| {
                let Storage::Input(i) = *storage else { return None };
                let input = self.graph.inputs()[i];
                let whole = self.input_descs[i].size() == self.output_descs[*port].size();
                let free = users(*storage) == 1 && !pairs.iter().any(|(taken, _)| *taken == input);
                let varies = self.graph.tensor(input).is_some_and(|t| t.property != Property::HostScalar);
                (desc.may_overwrite(*arg) && whole && free && varies).then_some(input)
            };
            if users(Storage::Output(*port)) == 1
                && let Some(input) = step.args.iter().find_map(fits)
            {
                pairs.push((input, self.graph.outputs()[*port]));
            }
        }
        pairs
    }
}

impl<B: Backend> CompiledGraph<B> {
    /// Compiles a graph for an engine.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an operation or type that the engine cannot run, [`Error::Invalid`] for shapes that do not fit,
    /// [`Error::Build`] with the build log; each with the operation's name in front.
    pub fn new<E>(graph: &Graph, engine: &E, options: &CompileOptions) -> Result<Self>
    where
        E: Engine<B = B>,
        B: Backend<Engine = E>,
    {
        let groups = Arc::new(fusion::grouped(graph, options.policy));
        let graph = Arc::new(graph.clone());
        let compiled = compile(&graph, groups, PortLayouts::Declared, Programs::New, engine, options)?;
        Ok(Self { inner: Arc::new(compiled) })
    }

    /// As [`CompiledGraph::new`], for an engine that others are compiled for, perhaps the same one for other extents.
    #[cfg(feature = "onnx")]
    pub(crate) fn beside(
        graph: &Arc<Graph>,
        engine: &B::Engine,
        options: &CompileOptions,
        others: &[Self],
    ) -> Result<Self> {
        let likeness = Likeness::of(graph);
        let is_alike = |other: &&Self| {
            let its = other.inner.likeness.get_or_init(|| Likeness::of(other.graph()));
            likeness.unites(graph, its, other.graph())
        };
        // Other graphs of the engine have other programs.
        let (groups, programs) = match others.iter().find(is_alike) {
            Some(alike) => (Arc::clone(&alike.inner.groups), Programs::Known),
            None => (Arc::new(fusion::grouped(graph, options.policy)), Programs::New),
        };
        let compiled = compile(graph, groups, PortLayouts::Declared, programs, engine, options)?;
        let _ = compiled.likeness.set(likeness);
        Ok(Self { inner: Arc::new(compiled) })
    }

    /// Whether the partitions were taken over from another one, or by it.
    #[cfg(all(test, feature = "onnx"))]
    pub(crate) fn shares_partitions_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner.groups, &other.inner.groups)
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.inner.graph
    }

    /// The engine.
    pub fn engine(&self) -> &B::Engine {
        &self.inner.engine
    }

    /// The partitions.
    pub fn partitioning(&self) -> &Partitioning {
        let Compiled { graph, policy, groups, partitioning, .. } = &*self.inner;
        partitioning.get_or_init(|| fusion::explained(graph, *policy, Partitioning::clone(groups)))
    }

    /// The steps in order; those that run once come first.
    pub fn steps(&self) -> &[StepInfo] {
        self.inner.infos()
    }

    /// How many commands of the device one execution takes, such as kernel launches; what runs once does not count.
    pub fn launches(&self) -> usize {
        self.inner.steps.iter().filter(|step| !step.constant).map(|step| step.primitive.launches()).sum()
    }

    /// Bytes of temporary memory for one execution.
    pub fn arena_bytes(&self) -> usize {
        self.inner.arena_bytes
    }

    /// Bytes that the temporaries would take without reuse.
    pub fn arena_bytes_without_reuse(&self) -> usize {
        self.inner.arena_bytes_without_reuse
    }

    /// The descriptor that an input or constant must be given with.
    pub fn input_desc(&self, id: TensorId) -> Option<&MemoryDesc> {
        let inner = &self.inner;
        let at = |ids: &[TensorId]| ids.iter().position(|&i| i == id);
        at(inner.graph.inputs())
            .map(|i| &inner.input_descs[i])
            .or_else(|| at(&inner.constants).map(|i| &inner.constant_descs[i]))
    }

    /// The descriptor of an output.
    pub fn output_desc(&self, id: TensorId) -> Option<&MemoryDesc> {
        self.inner.graph.outputs().iter().position(|&i| i == id).map(|i| &self.inner.output_descs[i])
    }
}

impl<B: Backend> fmt::Display for CompiledGraph<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.inner;
        for (i, step) in inner.infos().iter().enumerate() {
            let when = if step.constant { "once" } else { "" };
            let waits = step.waits_for.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            writeln!(f, "{i:>3} {when:<4} {:<24} after [{waits}] {}", step.implementation, step.desc)?;
        }
        let saved = inner.arena_bytes_without_reuse;
        writeln!(
            f,
            "arena {} bytes ({saved} without reuse), {} steps in place",
            inner.arena_bytes, inner.in_place
        )
    }
}

/// Who chooses the layout of an input, constant or output that is declared with [`TensorLayout::Any`](crate::graph::TensorLayout::Any).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortLayouts {
    /// Dense row-major.
    Declared,
    /// The primitive that reads or makes it.
    Chosen,
}

/// Compiles a graph whose partitions are known.
pub(crate) fn compile<B: Backend>(
    graph: &Arc<Graph>,
    groups: Arc<Partitioning>,
    layouts: PortLayouts,
    programs: Programs,
    engine: &B::Engine,
    options: &CompileOptions,
) -> Result<Compiled<B>> {
    let mut program = Program::new(graph)?;
    ports::unpack_inputs(&mut program)?;
    // Each operation by itself finds the one that misbehaves.
    let joins = options.policy == Policy::Fusion && layouts == PortLayouts::Declared;
    let few = if joins { engine.launch_elements() } else { 0 };
    let joined = regions::joined(graph, &groups.partitions, few);
    let regions = joined.as_deref().unwrap_or(&groups.partitions);
    // A region is a primitive, about.
    let threads = threads(regions.len());
    let is_plain = layouts == PortLayouts::Declared && options.progress.is_none();
    let (program, primitives) = if is_plain && matches!(programs, Programs::Known) && threads > 1 {
        instantiate_beside::<B>(program, engine, options, threads, |program, more| {
            for region in regions {
                lower::partition(program, region)?;
                more(program)?;
            }
            lower::copy_outputs(program)
        })?
    } else {
        for region in regions {
            lower::partition(&mut program, region)?;
        }
        lower::copy_outputs(&mut program)?;
        if layouts == PortLayouts::Chosen {
            ports::open(&mut program);
        }
        instantiate::<B>(program, programs, engine, options)?
    };
    assemble(program, graph, primitives, engine.clone(), groups, options.policy)
}

/// Orders the steps, plans memory and dependencies.
fn assemble<B: Backend>(
    mut program: Program<'_>,
    graph: &Arc<Graph>,
    primitives: Vec<B::Primitive>,
    engine: B::Engine,
    groups: Arc<Partitioning>,
    policy: Policy,
) -> Result<Compiled<B>> {
    // Working memory depends on nothing.
    let is_once = |step: &ProtoStep| {
        step.args.iter().all(|(arg, value)| *arg == Arg::Scratchpad || program.is_constant(value))
    };
    let mut order: Vec<usize> = (0..program.steps.len()).collect();
    order.sort_by_key(|&i| !is_once(&program.steps[i]));
    let once = order.iter().filter(|&&i| is_once(&program.steps[i])).count();
    let mut temps = program.temps.clone();
    for &i in &order[..once] {
        for (_, value) in &program.steps[i].args {
            if let Storage::Temp(t) = value.storage {
                temps[t].constant = true;
            }
        }
    }
    check_temporaries(&temps)?;
    let running: Vec<&ProtoStep> = order[once..].iter().map(|&i| &program.steps[i]).collect();
    let plan = memory_plan::plan(&running, &temps, engine.allocator().keeps_apart());
    let all_touches: Vec<_> =
        order.iter().map(|&i| touches(&program.steps[i], &plan.offsets, |t| temps[t].bytes)).collect();
    let mut waits = dependencies(&all_touches[..once]);
    // Constants are ready before the first execution: its steps wait for each other alone.
    waits.extend(
        dependencies(&all_touches[once..])
            .into_iter()
            .map(|w| w.into_iter().map(|j| j + once).collect::<Vec<_>>()),
    );
    let mut primitives: Vec<Option<B::Primitive>> = primitives.into_iter().map(Some).collect();
    let mut steps = Vec::with_capacity(order.len());
    for ((position, &i), waits_for) in order.iter().enumerate().zip(waits) {
        let step = &mut program.steps[i];
        let Some(primitive) = primitives[i].take() else { continue };
        let args = step.args.iter().map(|(arg, value)| (*arg, value.storage)).collect();
        let ops = std::mem::take(&mut step.ops);
        steps.push(Step { primitive, args, waits_for, constant: position < once, ops });
    }
    let place = |t: usize| match plan.offsets[t] {
        _ if temps[t].constant => TempPlace::Prepared { bytes: temps[t].bytes },
        Some(offset) => {
            let (part, offset) = plan.part_of(offset, temps[t].bytes);
            TempPlace::Arena { part, offset, bytes: temps[t].bytes }
        }
        None => TempPlace::Unused,
    };
    let graph = Arc::clone(graph);
    let descs = |ids: &[TensorId], port: fn(usize) -> Storage| {
        ids.iter().enumerate().map(|(i, &id)| program.port_desc(port(i), id)).collect::<Result<Vec<_>>>()
    };
    Ok(Compiled {
        input_descs: descs(graph.inputs(), Storage::Input)?,
        output_descs: descs(graph.outputs(), Storage::Output)?,
        constant_descs: descs(&program.constants, Storage::Constant)?,
        temp_bytes: (0..temps.len()).map(place).collect(),
        constants: program.constants.clone(),
        literals: program.literals.clone(),
        engine,
        groups,
        policy,
        partitioning: OnceLock::new(),
        steps,
        infos: OnceLock::new(),
        arena_bytes: plan.bytes,
        arena_parts: plan.parts,
        arena_bytes_without_reuse: plan.bytes_without_reuse,
        in_place: plan.in_place.len(),
        lists: Lists::default(),
        #[cfg(feature = "onnx")]
        likeness: OnceLock::new(),
        graph,
    })
}

/// Checks that the plan's offsets stay countable: no more is ever needed than all temporaries side by side.
fn check_temporaries(temps: &[Temp]) -> Result<()> {
    let aligned = |temp: &Temp| temp.bytes.checked_next_multiple_of(ARENA_ALIGNMENT);
    let total = temps.iter().try_fold(0_usize, |sum, temp| sum.checked_add(aligned(temp)?));
    match total.filter(|&total| isize::try_from(total).is_ok()) {
        Some(_) => Ok(()),
        None => Err(Error::OutOfMemory { what: "temporaries".into(), bytes: total.unwrap_or(usize::MAX) }),
    }
}

//! The primitives of a program: layouts are chosen first, then everything is created at the same time.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use anydnn_backend::op::Reorder;
use anydnn_backend::{
    Arg, Attributes, Backend, DataType, Engine, Error, MemoryDesc, Primitive, PrimitiveDesc, Result,
    ResultExt, ScratchpadMode,
};

use super::creation::Creation;
use super::program::{Program, ProtoStep, Value};
use super::{CompileOptions, ports};
use crate::fusion::Policy;

/// Whether the backend has to be expected to make programs for primitives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Programs {
    /// Most of the time goes to compilers.
    New,
    /// It has most of them.
    #[cfg_attr(not(feature = "onnx"), expect(dead_code, reason = "sessions alone know"))]
    Known,
}

/// The most threads that create primitives. One that waits for a program that another one compiles leaves the core to others, and most
/// steps of a network wait for few programs.
const THREADS: usize = 256;

/// Operations of a graph from which on native commands pay, as neighbours share them: by itself one takes about as long as a launch.
const NETWORK: usize = 8;

/// How long threads may take for nothing before more of them are started: longer than any primitive whose program is there.
const PATIENCE: Duration = Duration::from_millis(2);

/// Primitives whose programs are known for which another thread is worthwhile.
const FEW: usize = 16;

/// The cores, which the system tells after a look into several files.
static CORES: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));

/// Whether `ANYDNN_CONVOLUTIONS` asks for sums of products: `direct`, or `auto`, which is the default.
static DIRECT: LazyLock<bool> = LazyLock::new(|| match std::env::var("ANYDNN_CONVOLUTIONS").as_deref() {
    Ok("direct") => true,
    Ok("" | "auto") | Err(_) => false,
    Ok(value) => {
        tracing::warn!(value, "ANYDNN_CONVOLUTIONS is neither direct nor auto");
        false
    }
});

/// Creates the primitives. Where a primitive wants its weights in a layout of its own, a reorder comes before it.
pub(super) fn instantiate<'g, B: Backend>(
    mut program: Program<'g>,
    programs: Programs,
    engine: &B::Engine,
    options: &CompileOptions,
) -> Result<(Program<'g>, Vec<B::Primitive>)> {
    let (mut ready, mut descs) = (Vec::with_capacity(program.steps.len()), Vec::new());
    resolve::<B>(&mut program, engine, options, &mut |desc, step| {
        descs.push(desc);
        ready.push(step);
    })?;
    let primitives = create_all::<B>(&descs, programs, engine, options)?;
    Ok(finish::<B>(program, ready, primitives))
}

/// The same while the program is lowered: `lower` tells whenever there are more steps, and other threads create their primitives, for which
/// the backend has the programs. Nothing is known of their number, so nothing is told of progress.
pub(super) fn instantiate_beside<'g, B: Backend>(
    mut program: Program<'g>,
    engine: &B::Engine,
    options: &CompileOptions,
    threads: usize,
    lower: impl FnOnce(&mut Program<'g>, &mut dyn FnMut(&mut Program<'g>) -> Result<()>) -> Result<()>,
) -> Result<(Program<'g>, Vec<B::Primitive>)> {
    let creation = Creation::<B>::new(engine);
    let mut ready = Vec::new();
    std::thread::scope(|scope| -> Result<()> {
        let ending = creation.ending();
        for _ in 1..threads {
            scope.spawn(|| creation.work());
        }
        let mut more = |program: &mut Program<'g>| {
            resolve::<B>(program, engine, options, &mut |desc, step| {
                creation.add(desc);
                ready.push(step);
            })
        };
        lower(&mut program, &mut more)?;
        more(&mut program)?;
        drop(ending);
        creation.work();
        Ok(())
    })?;
    Ok(finish::<B>(program, ready, creation.made()?))
}

/// The threads that so many primitives are worth whose programs are known.
pub(super) fn threads(primitives: usize) -> usize {
    CORES.min(primitives / FEW + 1)
}

/// A step without its primitive: the arguments and the operations.
type Open = (Vec<(Arg, Value)>, Vec<usize>);

/// Takes a program's steps, and the reorders before them, in order: each as the description of its primitive, with every layout chosen, and
/// the rest.
fn resolve<B: Backend>(
    program: &mut Program<'_>,
    engine: &B::Engine,
    options: &CompileOptions,
    told: &mut dyn FnMut(PrimitiveDesc, Open),
) -> Result<()> {
    let is_direct = options.direct || options.policy != Policy::Fusion || *DIRECT;
    let is_network = program.graph.ops().len() >= NETWORK;
    let attributed = |desc: PrimitiveDesc| {
        let winograd = desc.attributes().winograd && !is_direct;
        let native = options.policy == Policy::Fusion && is_network;
        let desc = desc.with_scratchpad(ScratchpadMode::User).with_specialize(options.specialize);
        desc.with_winograd(winograd).with_native(native)
    };
    for mut step in std::mem::take(&mut program.steps) {
        step.desc = attributed(step.desc);
        if step.desc.args().iter().any(|operand| operand.desc.is_any()) {
            step.desc = engine.resolve(&step.desc).at(|| step.desc.name().to_owned())?;
        }
        for (i, reorder) in packs(program, &mut step)? {
            let packed = program.temp(reorder.dst().clone());
            let given = std::mem::replace(&mut step.args[i].1, packed.clone());
            let args = vec![(Arg::SRC, given), (Arg::DST, packed)];
            told(attributed(reorder), (args, Vec::new()));
        }
        told(step.desc, (step.args, step.ops));
    }
    Ok(())
}

/// The program with its primitives.
fn finish<B: Backend>(
    mut program: Program<'_>,
    ready: Vec<Open>,
    mut primitives: Vec<B::Primitive>,
) -> (Program<'_>, Vec<B::Primitive>) {
    for ((args, ops), primitive) in ready.into_iter().zip(&primitives) {
        program.emit(primitive.desc().clone(), args, ops);
        add_scratchpad::<B>(&mut program, primitive);
    }
    ports::drop_unread(&mut program, &mut primitives);
    (program, primitives)
}

/// The reorders that a step's arguments need, by argument. Those that can be had in the wanted layout are taken so.
fn packs(program: &mut Program<'_>, step: &mut ProtoStep) -> Result<Vec<(usize, PrimitiveDesc)>> {
    let mut packs = Vec::new();
    for (i, (arg, value)) in step.args.iter_mut().enumerate() {
        let Some(wanted) = step.desc.find(*arg) else { continue };
        if wanted.same_bytes(&value.desc) {
            continue;
        }
        if let Some(direct) = ports::direct(program, value, wanted) {
            *value = direct;
            continue;
        }
        let once = Attributes::default().with_once(program.is_constant(value));
        let reorder = PrimitiveDesc::builder(anydnn_backend::Op::Reorder(Reorder))
            .src(value.desc.clone())
            .dst(wanted.clone())
            .attributes(once)
            .label(format!("prepare {arg} of {}", step.desc.name()))
            .build()?;
        packs.push((i, reorder));
    }
    Ok(packs)
}

/// Gives the last step working memory.
fn add_scratchpad<B: Backend>(program: &mut Program<'_>, primitive: &B::Primitive) {
    let bytes = primitive.scratchpad_size();
    if bytes > 0 {
        let scratchpad = program.temp(MemoryDesc::new([bytes], DataType::U8));
        if let Some(step) = program.steps.last_mut() {
            step.args.push((Arg::Scratchpad, scratchpad));
        }
    }
}

/// Creates primitives on all cores.
fn create_all<B: Backend>(
    descs: &[PrimitiveDesc],
    programs: Programs,
    engine: &B::Engine,
    options: &CompileOptions,
) -> Result<Vec<B::Primitive>> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Vec<Mutex<Option<Result<B::Primitive>>>> = descs.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(desc) = descs.get(i) else { return };
            let result = engine.create_primitive(desc).at(|| desc.name().to_owned());
            if let Ok(mut slot) = results[i].lock() {
                *slot = Some(result);
            }
            let created = done.fetch_add(1, Ordering::Relaxed) + 1;
            if let Some(progress) = &options.progress {
                progress(created, descs.len());
            }
        }
    };
    let few = threads(descs.len());
    std::thread::scope(|scope| {
        if let Programs::Known = programs {
            for _ in 1..few {
                scope.spawn(work);
            }
            return work();
        }
        // They may all be there nevertheless: only where threads wait for compilers are there many of them.
        let (ended, waits) = mpsc::channel::<Infallible>();
        for _ in 0..few {
            let ended = ended.clone();
            scope.spawn(move || {
                work();
                drop(ended);
            });
        }
        drop(ended);
        let mut before = 0;
        while waits.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let created = done.load(Ordering::Relaxed);
            if created == before {
                let left = descs.len().saturating_sub(next.load(Ordering::Relaxed));
                for _ in 1..THREADS.min(left) {
                    scope.spawn(work);
                }
                return work();
            }
            before = created;
        }
    });
    let lost = || Error::unsupported("compile", "a thread that created primitives died");
    results.into_iter().map(|slot| slot.into_inner().ok().flatten().ok_or_else(lost)?).collect()
}

#[cfg(all(test, feature = "host"))]
mod tests {
    use anydnn_backend::{Attributes, DataType};
    use anydnn_host::HostEngine;

    use crate::compile::{CompileOptions, CompiledGraph};
    use crate::fusion::Policy;
    use crate::graph::{Attrs, GraphBuilder, OpKind};

    /// The attributes of a convolution of a graph, with so many functions in front.
    fn attributes_behind(functions: usize, options: &CompileOptions) -> Attributes {
        let mut g = GraphBuilder::new();
        let mut x = g.input("x", DataType::F32, [1, 4, 8, 8]);
        for at in 0..functions {
            x = g.op(&format!("f{at}"), OpKind::Exp, &[x], Attrs::new()).expect("a function");
        }
        let w = g.constant("w", DataType::F32, [4, 4, 3, 3]);
        let attrs = Attrs::new()
            .with("strides", [1_i64, 1])
            .with("pads_begin", [1_i64, 1])
            .with("pads_end", [1_i64, 1])
            .with("dilations", [1_i64, 1])
            .with("data_format", "NCX")
            .with("weights_format", "OIX");
        g.op("conv", OpKind::Convolution, &[x, w], attrs).expect("a convolution");
        let graph = g.build().expect("a graph");
        let compiled = CompiledGraph::new(&graph, &HostEngine::new(), options).expect("a plan");
        let last = compiled.steps().last().expect("a step");
        assert_eq!(last.ops.len(), 1);
        last.desc.attributes().clone()
    }

    fn attributes(options: &CompileOptions) -> Attributes {
        attributes_behind(0, options)
    }

    /// Without fusion everything is what it says.
    #[test]
    fn convolutions_are_direct_where_that_is_asked_for() {
        let fused = CompileOptions::default();
        assert!(attributes(&fused).winograd);
        assert!(!attributes(&CompileOptions { direct: true, ..CompileOptions::default() }).winograd);
        assert!(!attributes(&CompileOptions { policy: Policy::Debug, ..fused }).winograd);
    }

    #[test]
    fn steps_of_networks_may_be_native_where_they_are_fused() {
        let fused = CompileOptions::default();
        assert!(attributes_behind(7, &fused).native);
        assert!(!attributes(&fused).native, "neighbours are what pays");
        assert!(!attributes_behind(7, &CompileOptions { policy: Policy::Debug, ..fused }).native);
    }
}

//! Primitives: kernel plans with their programs built, and how they are launched.

use std::fmt;
use std::ptr;
use std::sync::{Arc, OnceLock};

use anydnn_backend::{
    Allocator, Arg, EngineId, Error, MemoryDesc, Primitive, PrimitiveDesc, Result, ResultExt, ScratchpadMode,
    Specialize,
};
use anydnn_host::HostPrimitive;
use cl3::types::{cl_command_queue, cl_event, cl_uint};
use smallvec::SmallVec;

use crate::backend::OpenCl;
use crate::backend::engine::OpenClEngine;
use crate::backend::event::OpenClEvent;
use crate::backend::memory::OpenClMemory;
use crate::backend::native;
use crate::backend::reuse::Conditions;
use crate::backend::specialize::{self, SpecialKernels};
use crate::backend::stream::{OpenClStream, Submission};
use crate::backend::sub_groups;
use crate::driver::call::{self, Returned};
use crate::memory::allocation::Binding;
use crate::plan::{self, KernelPlan, Launch, LaunchArg, SpecialText};
use crate::primitive;
use crate::program::kernels::{Fixed, Kernel, KernelPool, Lent, Place};
use crate::program::trial::Trial;
use crate::queue::fate::Operation;
use crate::queue::native::Job;

/// A compiled operation.
#[derive(Clone)]
pub struct OpenClPrimitive {
    inner: Arc<Inner>,
}

struct Inner {
    operation: Operation,
    /// With every layout resolved.
    desc: PrimitiveDesc,
    compiled: Arc<Compiled>,
}

/// What primitives of equal descriptions share.
pub(crate) struct Compiled {
    implementation: Arc<str>,
    plan: KernelPlan,
    /// One for each launch that has work.
    kernels: Vec<LaunchKernels>,
    /// The processor's own form, in place of launches.
    native: Option<HostPrimitive>,
    engine: OpenClEngine,
    /// As its attributes say, else the engine as it was made.
    specialize: Specialize,
}

/// The kernels of one launch.
struct LaunchKernels {
    launch: usize,
    planned: Arc<KernelPool>,
    unaligned: OnceLock<Arc<KernelPool>>,
    special: Arc<SpecialKernels>,
}

/// Which of a launch's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Planned,
    /// For memory whose start is no multiple of its element's size.
    Unaligned,
    /// For its shape alone.
    Special,
}

/// What programs for odd byte offsets are built with besides.
const UNALIGNED: &str = "-DANYDNN_UNALIGNED=1";

/// Offsets of a scratchpad that suit any element type.
const SCRATCHPAD_ALIGNMENT: usize = 16;

impl Primitive for OpenClPrimitive {
    type B = OpenCl;

    fn engine_id(&self) -> EngineId {
        self.inner.compiled.engine.inner.id
    }

    fn desc(&self) -> &PrimitiveDesc {
        &self.inner.desc
    }

    fn implementation(&self) -> &str {
        &self.inner.compiled.plan.implementation
    }

    fn scratchpad_size(&self) -> usize {
        self.inner.compiled.plan.scratchpad
    }

    fn launches(&self) -> usize {
        self.kernels() + usize::from(self.native().is_some())
    }
}

impl OpenClPrimitive {
    /// The launches of kernels that have work.
    pub(crate) fn kernels(&self) -> usize {
        self.inner.compiled.kernels.len()
    }

    /// What a native command computes in place of kernels.
    pub(crate) fn native(&self) -> Option<&HostPrimitive> {
        self.inner.compiled.native.as_ref()
    }

    /// The primitive of a description, with what an equal one has where there is one.
    pub(crate) fn new(engine: &OpenClEngine, desc: &PrimitiveDesc) -> Result<Self> {
        let reuse = &engine.inner.reuse;
        let conditions = Conditions {
            specialize: desc.attributes().specialize.unwrap_or_else(|| engine.specialization()),
            native: desc.attributes().native && engine.runs_native(),
            tuning: engine.inner.tuning.generation(),
        };
        if let Some(compiled) = reuse.find(desc, conditions) {
            return Self::like(compiled, desc);
        }
        let primitive = match native::primitive(engine, desc) {
            Some(native) => Self::from_native(engine, native),
            None => Self::from_plan(engine, engine.plan(desc)?)?,
        };
        reuse.keep(desc, conditions, &primitive.inner.compiled);
        Ok(primitive)
    }

    /// The primitive of a description that equals that of what is built.
    fn like(compiled: Arc<Compiled>, desc: &PrimitiveDesc) -> Result<Self> {
        let mut own = desc.clone();
        for operand in desc.args().iter().filter(|operand| operand.desc.is_any()) {
            let Some(chosen) = compiled.plan.desc.find(operand.arg).cloned() else { continue };
            // Its label, where layouts keep one, is this description's.
            let chosen = match (chosen.label(), operand.desc.label()) {
                (Some(_), Some(own)) => chosen.labelled(own),
                _ => chosen,
            };
            own = own.resolved(operand.arg, chosen)?;
        }
        let operation = Operation::Named(own.name().into());
        Ok(Self { inner: Arc::new(Inner { operation, desc: own, compiled }) })
    }

    /// What the processor computes without kernels.
    pub(crate) fn from_native(engine: &OpenClEngine, native: HostPrimitive) -> Self {
        let desc = native.desc().clone();
        let implementation = native::name(&native);
        let plan = KernelPlan { implementation, desc: desc.clone(), scratchpad: 0, launches: Vec::new() };
        let compiled = Compiled {
            implementation: plan.implementation.as_str().into(),
            plan,
            kernels: Vec::new(),
            native: Some(native),
            engine: engine.clone(),
            specialize: Specialize::Never,
        };
        let operation = Operation::Named(desc.name().into());
        Self { inner: Arc::new(Inner { operation, desc, compiled: Arc::new(compiled) }) }
    }

    /// Builds the programs of a plan.
    pub(crate) fn from_plan(engine: &OpenClEngine, plan: KernelPlan) -> Result<Self> {
        let mut plan = sub_groups::fitting(engine, plan, &engine.traits())?;
        for launch in &mut plan.launches {
            engine.inner.programs.texts.share(&mut launch.program.source);
        }
        let own = plan.desc.attributes().specialize;
        let specialize = own.unwrap_or_else(|| engine.specialization());
        let has_work = |launch: &Launch| !launch.global.contains(&0);
        let kernels = plan.launches.iter().enumerate().filter(|(_, launch)| has_work(launch));
        let make = |(i, launch): (usize, &Launch)| {
            let special = Arc::new(SpecialKernels::default());
            let planned = match &launch.special {
                Some(own) if specialize == Specialize::Eager => special_pool(engine, &plan, i, own)?,
                _ => kernel_pool(engine, launch, "", Some(&trial(&plan, launch)))?,
            };
            let planned = Arc::new(planned);
            Ok(LaunchKernels { launch: i, planned, unaligned: OnceLock::new(), special })
        };
        let is_new = |launch: &&Launch| !engine.inner.programs.has(&launch.program);
        let has_several = plan.launches.len() > 1 && plan.launches.iter().filter(is_new).nth(1).is_some();
        // Their programs are compiled at the same time then.
        let kernels: Result<Vec<_>> =
            if has_several { all_at_once(kernels.collect(), &make) } else { kernels.map(make).collect() };
        let kernels = kernels.at(|| plan.desc.name())?;
        let desc = plan.desc.clone();
        let operation = Operation::Named(desc.name().into());
        let implementation = plan.implementation.as_str().into();
        let engine = engine.clone();
        let compiled = Arc::new(Compiled { implementation, plan, kernels, native: None, engine, specialize });
        Ok(Self { inner: Arc::new(Inner { operation, desc, compiled }) })
    }

    /// Enqueues every launch on a stream.
    pub(crate) fn enqueue(
        &self,
        stream: &OpenClStream,
        args: &[(Arg, OpenClMemory)],
        deps: &[OpenClEvent],
    ) -> Result<OpenClEvent> {
        let scratchpad = self.scratchpad(args)?;
        let result = self.enqueue_with(stream, args, &scratchpad, deps);
        if let Some(memory) = scratchpad.library {
            // Commands before a failure hold what they use.
            self.inner.compiled.engine.opencl_allocator().free(memory, result.as_ref().ok())?;
        }
        result
    }

    fn enqueue_with(
        &self,
        stream: &OpenClStream,
        args: &[(Arg, OpenClMemory)],
        scratchpad: &Scratchpad,
        deps: &[OpenClEvent],
    ) -> Result<OpenClEvent> {
        let mut lent = Vec::with_capacity(self.inner.compiled.kernels.len());
        for i in 0..self.inner.compiled.kernels.len() {
            lent.push(self.prepare(i, args, scratchpad)?);
        }
        let mut submission = stream.submit(self.inner.operation.clone(), deps)?;
        submission.profile(&self.inner.compiled.implementation);
        for (_, memory) in args {
            submission.hold(&memory.allocation);
        }
        if let Some(memory) = &scratchpad.library {
            submission.hold(&memory.allocation);
        }
        if let Some(native) = self.native() {
            let mut job = Job::default();
            job.add(native, args.iter().enumerate().map(|(slot, (arg, _))| (*arg, slot, 0)));
            let memories: SmallVec<[&OpenClMemory; 8]> = args.iter().map(|(_, memory)| memory).collect();
            submission.run(&self.inner.operation, &Arc::new(job), &memories, true)?;
        }
        for (i, ready) in lent.iter().enumerate() {
            ready.launch(&self.inner.operation, &mut submission, i + 1 == lent.len())?;
        }
        submission.finish()
    }

    /// A kernel with every argument set.
    fn prepare(&self, i: usize, args: &[(Arg, OpenClMemory)], scratchpad: &Scratchpad) -> Result<Ready<'_>> {
        let launch = self.launch(i);
        let aligned = launch.args.iter().all(|arg| self.is_aligned(launch, *arg, args, scratchpad));
        let pool = self.pool(i, self.form(i, aligned))?;
        let place = |arg: &LaunchArg| match *arg {
            LaunchArg::Memory(arg) => self.find(args, arg).map(|memory| memory.place(0)),
            LaunchArg::Scratchpad { offset } => {
                let start = scratchpad.place;
                Ok(Place { offset: start.offset + offset, ..start })
            }
        };
        let places = launch.args.iter().map(place).collect::<Result<SmallVec<[_; 8]>>>()?;
        let mut lent = pool.lend(places.iter().map(|place| place.binding).collect())?;
        if let Some(kernel) = lent.kernel_mut() {
            for (i, place) in places.into_iter().enumerate() {
                kernel.bind(i, place, &launch.kernel)?;
            }
        }
        Ok(Ready { lent, launch })
    }

    fn unaligned(&self, kernels: &LaunchKernels, launch: &Launch) -> Result<Arc<KernelPool>> {
        if let Some(pool) = kernels.unaligned.get() {
            return Ok(Arc::clone(pool));
        }
        let pool = kernel_pool(&self.inner.compiled.engine, launch, UNALIGNED, None)?;
        Ok(Arc::clone(kernels.unaligned.get_or_init(|| Arc::new(pool))))
    }

    fn is_aligned(
        &self,
        launch: &Launch,
        arg: LaunchArg,
        args: &[(Arg, OpenClMemory)],
        scratchpad: &Scratchpad,
    ) -> bool {
        match arg {
            LaunchArg::Memory(arg) => {
                let memory = args.iter().find(|(bound, _)| *bound == arg);
                let alignment = self.alignment(launch, LaunchArg::Memory(arg));
                memory.is_none_or(|(_, memory)| memory.is_aligned_to(alignment))
            }
            LaunchArg::Scratchpad { .. } => scratchpad.is_aligned,
        }
    }

    /// What the address of an argument is a multiple of unless the kernel for odd byte offsets is needed.
    pub(crate) fn alignment(&self, launch: &Launch, arg: LaunchArg) -> usize {
        let desc = match arg {
            LaunchArg::Memory(arg) => self.inner.desc.find(arg),
            LaunchArg::Scratchpad { .. } => None,
        };
        let element = desc.map_or(SCRATCHPAD_ALIGNMENT, |desc| desc.data_type().bits().div_ceil(8));
        element.max(launch.alignment)
    }

    /// What the operation is called in messages.
    pub(crate) fn operation(&self) -> &Operation {
        &self.inner.operation
    }

    pub(crate) fn shared_implementation(&self) -> &Arc<str> {
        &self.inner.compiled.implementation
    }

    /// The `i`-th of the launches that have work.
    pub(crate) fn launch(&self, i: usize) -> &Launch {
        &self.inner.compiled.plan.launches[self.inner.compiled.kernels[i].launch]
    }

    /// What a launch is called in messages.
    pub(crate) fn launch_name(&self, i: usize) -> String {
        format!("kernel {}", self.launch(i).kernel)
    }

    /// Which kernels the next execution of the `i`-th launch takes.
    pub(crate) fn form(&self, i: usize, is_aligned: bool) -> Form {
        let Compiled { kernels, engine, specialize, .. } = &*self.inner.compiled;
        let special = &kernels[i].special;
        match &self.launch(i).special {
            _ if !is_aligned => Form::Unaligned,
            Some(_) if special.is_ready() => Form::Special,
            Some(own) if *specialize == Specialize::Background => {
                let device = &engine.inner.device;
                let units = (device.kind(), device.limits().compute_units);
                if special.pays(own, units, engine.inner.programs.build_time()) {
                    let inner = Arc::downgrade(&self.inner);
                    specialize::later(move || {
                        // Nobody executes it any more if it is gone.
                        if let Some(inner) = inner.upgrade() {
                            Self { inner }.specialize(i);
                        }
                    });
                }
                Form::Planned
            }
            _ => Form::Planned,
        }
    }

    /// Makes the program of the `i`-th launch for its shape. The other one goes on where that fails.
    fn specialize(&self, i: usize) {
        let Inner { operation, compiled, .. } = &*self.inner;
        let Compiled { kernels, engine, plan, .. } = &**compiled;
        let launch = self.launch(i);
        let Some(own) = &launch.special else { return };
        match special_pool(engine, plan, kernels[i].launch, own) {
            Ok(pool) => {
                engine.inner.special.keep(&kernels[i].special, pool);
                tracing::debug!(
                    operation = operation.as_str(),
                    kernel = launch.kernel,
                    "has a program for its shape"
                );
            }
            Err(error) => tracing::warn!(%error, kernel = launch.kernel, "no program for one shape"),
        }
    }

    /// The kernels of the `i`-th launch, built if need be.
    pub(crate) fn pool(&self, i: usize, form: Form) -> Result<Arc<KernelPool>> {
        let kernels = &self.inner.compiled.kernels[i];
        match form {
            Form::Unaligned => self.unaligned(kernels, self.launch(i)),
            Form::Special => Ok(kernels.special.kernels().unwrap_or_else(|| Arc::clone(&kernels.planned))),
            Form::Planned => Ok(Arc::clone(&kernels.planned)),
        }
    }

    /// What an argument is bound to.
    pub(crate) fn find<'a, T>(&self, args: &'a [(Arg, T)], wanted: Arg) -> Result<&'a T> {
        args.iter().find(|(arg, _)| *arg == wanted).map(|(_, bound)| bound).ok_or_else(|| {
            let given = format!("without {wanted}");
            Error::invalid(self.inner.operation.as_str(), "arguments", given, "every argument of the plan")
        })
    }

    /// The working memory of one execution.
    fn scratchpad(&self, args: &[(Arg, OpenClMemory)]) -> Result<Scratchpad> {
        let plan = &self.inner.compiled.plan;
        if plan.scratchpad == 0 {
            return Ok(Scratchpad::none());
        }
        if plan.desc.attributes().scratchpad == ScratchpadMode::User {
            return Ok(Scratchpad::on(self.find(args, Arg::Scratchpad)?));
        }
        let allocator = self.inner.compiled.engine.opencl_allocator();
        let memory = allocator.allocate(plan.scratchpad, SCRATCHPAD_ALIGNMENT)?;
        Ok(Scratchpad { library: Some(memory.clone()), ..Scratchpad::on(&memory) })
    }
}

impl fmt::Debug for OpenClPrimitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenClPrimitive")
            .field("plan", &self.inner.compiled.plan)
            .field("engine", &self.inner.compiled.engine.inner.id)
            .finish_non_exhaustive()
    }
}

/// The working memory of one execution.
struct Scratchpad {
    place: Place,
    is_aligned: bool,
    /// To give back to the engine's allocator.
    library: Option<OpenClMemory>,
}

impl Scratchpad {
    fn none() -> Self {
        let place = Place { binding: Binding::Mem(ptr::null_mut()), allocation: 0, offset: 0 };
        Self { place, is_aligned: true, library: None }
    }

    fn on(memory: &OpenClMemory) -> Self {
        let is_aligned = memory.is_aligned_to(SCRATCHPAD_ALIGNMENT);
        Self { place: memory.place(0), is_aligned, library: None }
    }
}

/// A kernel with every argument set.
struct Ready<'a> {
    lent: Lent,
    launch: &'a Launch,
}

impl Ready<'_> {
    fn launch(&self, operation: &Operation, submission: &mut Submission<'_>, is_last: bool) -> Result<()> {
        let Some(kernel) = self.lent.kernel() else { return Ok(()) };
        submission
            .launch(operation, kernel, &Grid::of(self.launch), is_last)
            .at(|| format!("kernel {}", self.launch.kernel))
    }
}

/// The work-items of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    global: [usize; 3],
    local: Option<[usize; 3]>,
    /// The parameter that gets the number of the execution.
    number: Option<u32>,
}

/// The call that [`Grid::enqueue`] makes.
pub(crate) const GRID_CALL: &str = "clEnqueueNDRangeKernel";

impl Grid {
    pub(crate) fn of(launch: &Launch) -> Self {
        let number = launch.numbered.then_some(2 * launch.args.len() as u32);
        Self { global: launch.global, local: launch.local, number }
    }

    /// Enqueues a kernel with every argument set. The bindings always ask for an event, which costs time on some drivers; here it is
    /// null unless wanted.
    pub(crate) fn enqueue(
        &self,
        queue: cl_command_queue,
        kernel: &Kernel,
        waits: &[cl_event],
        wants_event: bool,
    ) -> Returned<cl_event> {
        let library = cl3::load_library().as_ref().map_err(|_| call::LIBRARY_MISSING)?;
        if let Some(index) = self.number {
            kernel.number(index)?;
        }
        let mut event = ptr::null_mut();
        let code = library
            .clEnqueueNDRangeKernel(
                queue,
                kernel.raw(),
                3,
                ptr::null(),
                self.global.as_ptr(),
                self.local.as_ref().map_or(ptr::null(), |local| local.as_ptr()),
                waits.len() as cl_uint,
                if waits.is_empty() { ptr::null() } else { waits.as_ptr() },
                if wants_event { &raw mut event } else { ptr::null_mut() },
            )
            .ok_or(call::FUNCTION_MISSING)?;
        if code == 0 { Ok(event) } else { Err(code) }
    }
}

/// What the first work-item of a launch needs.
fn trial(plan: &KernelPlan, launch: &Launch) -> Trial {
    let bytes = |arg: &LaunchArg| match *arg {
        LaunchArg::Memory(arg) => plan.desc.find(arg).map_or(0, MemoryDesc::size),
        LaunchArg::Scratchpad { offset } => plan.scratchpad.saturating_sub(offset),
    };
    let memories = launch.args.iter().map(bytes).collect();
    let numbered = launch.numbered;
    Trial { kernel: launch.kernel.clone(), memories, numbered, table: launch.table.clone() }
}

/// Makes several things at once, each on a thread of its own; they stay in order.
fn all_at_once<I: Send, T: Send>(items: Vec<I>, make: &(impl Fn(I) -> Result<T> + Sync)) -> Result<Vec<T>> {
    let dispatch = &tracing::dispatcher::get_default(Clone::clone);
    std::thread::scope(|scope| {
        let made = |item| scope.spawn(move || tracing::dispatcher::with_default(dispatch, || make(item)));
        let threads: Vec<_> = items.into_iter().map(made).collect();
        let lost = || Error::unavailable("kernels", "the thread that made them died");
        // A panic that nobody has joined would go on here.
        let ended: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        ended.into_iter().map(|made| made.map_err(|_| lost())?).collect()
    })
}

fn kernel_pool(
    engine: &OpenClEngine,
    launch: &Launch,
    options: &str,
    trial: Option<&Trial>,
) -> Result<KernelPool> {
    let inner = &engine.inner;
    let (context, device) = (&inner.context, &inner.device);
    let program = inner.programs.program_to_launch(context, device, &launch.program, options, trial)?;
    KernelPool::new(
        program,
        &launch.kernel,
        Fixed { memories: launch.args.len(), numbered: launch.numbered, table: launch.table.clone() },
    )
}

/// The kernels of one of a plan's launches for its shape alone.
fn special_pool(
    engine: &OpenClEngine,
    plan: &KernelPlan,
    launch: usize,
    special: &plan::SpecialProgram,
) -> Result<KernelPool> {
    let source = match &special.text {
        SpecialText::Own(source) => source.clone(),
        SpecialText::Launched { wide } => primitive::with_numbers(&plan.launches[launch], *wide),
        SpecialText::Asked => asked(engine, plan, launch)?,
    };
    let inner = &engine.inner;
    let program = inner.programs.program(&inner.context, &inner.device, &source, "")?;
    KernelPool::new(program, &plan.launches[launch].kernel, Fixed::default())
}

/// The program for one shape of a launch whose plan has none: that of the same plan, made once more.
fn asked(engine: &OpenClEngine, plan: &KernelPlan, launch: usize) -> Result<plan::ProgramSource> {
    let device = engine.traits().with_special();
    let choice = primitive::choose(&plan.desc, &device, primitive::Wanted::Named(&plan.implementation))?;
    let special = choice.plan.launches.into_iter().nth(launch).and_then(|launch| launch.special);
    match special.map(|special| special.text) {
        Some(SpecialText::Own(source)) => Ok(source),
        _ => Err(Error::unsupported(plan.desc.name(), "its plan has no program for one shape")),
    }
}

#[cfg(test)]
mod tests;

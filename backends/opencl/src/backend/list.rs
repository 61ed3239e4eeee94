//! Lists of executions: kernels that keep their arguments, enqueued with no more events than their order needs.

use std::ops::Range;
use std::sync::Arc;

use anydnn_backend::{Arg, List, ListStep, Order, Part, Primitive, Result, ResultExt, ScratchpadMode};
use cl3::types::cl_event;
use smallvec::SmallVec;

use crate::backend::OpenCl;
use crate::backend::event::OpenClEvent;
use crate::backend::memory::OpenClMemory;
use crate::backend::primitive::{Form, Grid, OpenClPrimitive};
use crate::backend::stream::{OpenClStream, Submission};
use crate::driver::handle;
use crate::plan::LaunchArg;
use crate::program::kernels::{Addresses, Kernel, Lent};
use crate::queue::fate::Operation;
use crate::queue::native::Job;

/// A list of executions.
#[derive(Debug)]
pub(crate) struct OpenClList {
    steps: Vec<Step>,
    launches: Vec<Ready>,
    /// What is enqueued on an in-order stream, in order.
    commands: Vec<Command>,
    slots: Vec<Slot>,
    /// The steps that no other waits for.
    ends: Vec<usize>,
    /// The events of an enqueueing on an out-of-order stream; empty between them.
    events: Vec<handle::Event>,
}

/// One command of an in-order stream.
#[derive(Debug)]
enum Command {
    Launch(usize),
    /// Neighbours that are computed without kernels.
    Native {
        job: Arc<Job>,
        last: usize,
    },
}

#[derive(Debug)]
struct Step {
    primitive: OpenClPrimitive,
    launches: Range<usize>,
    /// What it is by itself where it is computed without kernels.
    native: Option<Arc<Job>>,
    waits_for: Vec<usize>,
}

/// A launch with a kernel of its own.
#[derive(Debug)]
struct Ready {
    step: usize,
    /// Which of its primitive's launches that have work.
    index: usize,
    grid: Grid,
    args: SmallVec<[Bound; 6]>,
    /// There once the memory is known.
    kernel: Option<Lent>,
    /// Which of the launch's kernels it is.
    form: Form,
    /// Whether the kernel's arguments are of the slots' memory.
    is_bound: bool,
    is_aligned: bool,
}

/// One memory of a launch.
#[derive(Clone, Copy, Debug)]
struct Bound {
    slot: usize,
    /// Bytes from the start of the slot's memory to the argument, and from there to what the kernel gets.
    start: usize,
    offset: usize,
    /// What the argument's address is a multiple of unless the kernel is to be another one.
    alignment: usize,
}

/// What is known of a slot.
#[derive(Debug, Default)]
struct Slot {
    /// The memory that the kernels are bound to: its allocation's serial number and its offset.
    bound: Option<(u64, usize)>,
    /// The launches that it is an argument of.
    users: Vec<usize>,
}

impl OpenClList {
    /// Readies a list; none where a primitive takes working memory by itself.
    pub(crate) fn new(steps: &[ListStep<OpenCl>], slots: usize) -> Result<Option<Self>> {
        let takes_memory = |step: &ListStep<OpenCl>| {
            let mode = step.primitive.desc().attributes().scratchpad;
            step.primitive.scratchpad_size() > 0 && mode == ScratchpadMode::Library
        };
        if steps.is_empty() || steps.iter().any(takes_memory) {
            return Ok(None);
        }
        let mut list = Self {
            steps: Vec::with_capacity(steps.len()),
            launches: Vec::new(),
            commands: Vec::new(),
            slots: (0..slots).map(|_| Slot::default()).collect(),
            ends: Vec::new(),
            events: Vec::new(),
        };
        let mut is_end = vec![true; steps.len()];
        for step in steps {
            step.waits_for.iter().for_each(|&earlier| is_end[earlier] = false);
            list.add(step)?;
        }
        list.commands = commands(steps, &list.steps)?;
        list.ends = (0..steps.len()).filter(|&i| is_end[i]).collect();
        for (i, launch) in list.launches.iter().enumerate() {
            for bound in &launch.args {
                let users = &mut list.slots[bound.slot].users;
                if users.last() != Some(&i) {
                    users.push(i);
                }
            }
        }
        Ok(Some(list))
    }

    /// How many commands an in-order stream gets.
    #[cfg(test)]
    pub(crate) fn commands(&self) -> usize {
        self.commands.len()
    }

    fn add(&mut self, step: &ListStep<OpenCl>) -> Result<()> {
        let (at, first) = (self.steps.len(), self.launches.len());
        for index in 0..step.primitive.kernels() {
            let launch = step.primitive.launch(index);
            let bound = |arg: &LaunchArg| {
                let (name, offset) = match *arg {
                    LaunchArg::Memory(name) => (name, 0),
                    LaunchArg::Scratchpad { offset } => (Arg::Scratchpad, offset),
                };
                let Part { slot, offset: start } = *step.primitive.find(&step.args, name)?;
                Ok(Bound { slot, start, offset, alignment: step.primitive.alignment(launch, *arg) })
            };
            let args = launch.args.iter().map(bound).collect::<Result<_>>()?;
            let grid = Grid::of(launch);
            self.launches.push(Ready {
                step: at,
                index,
                grid,
                args,
                kernel: None,
                form: Form::Planned,
                is_bound: false,
                is_aligned: false,
            });
        }
        let launches = first..self.launches.len();
        let native = if step.primitive.native().is_some() {
            let mut job = Job::default();
            add_native(&mut job, step)?;
            Some(Arc::new(job))
        } else {
            None
        };
        self.steps.push(Step {
            primitive: step.primitive.clone(),
            launches,
            native,
            waits_for: step.waits_for.clone(),
        });
        Ok(())
    }

    /// Readies a kernel for each launch: the one that its next execution takes, told of memory that is new to it.
    fn bind(&mut self, memories: &[&OpenClMemory]) -> Result<()> {
        for (slot, memory) in self.slots.iter_mut().zip(memories) {
            let given = (memory.allocation.serial, memory.offset());
            if slot.bound.replace(given) != Some(given) {
                slot.users.iter().for_each(|&user| self.launches[user].is_bound = false);
            }
        }
        for launch in &mut self.launches {
            launch.bind(&self.steps[launch.step].primitive, memories)?;
        }
        Ok(())
    }

    /// On an in-order stream the last command's event covers the others.
    fn enqueue_in_order(
        &self,
        mut submission: Submission<'_>,
        memories: &[&OpenClMemory],
    ) -> Result<OpenClEvent> {
        let last = self.commands.len().saturating_sub(1);
        for (i, command) in self.commands.iter().enumerate() {
            let launch = match command {
                Command::Launch(launch) => &self.launches[*launch],
                Command::Native { job, last: step } => {
                    let operation = self.steps[*step].primitive.operation();
                    submission.run(operation, job, memories, i == last)?;
                    continue;
                }
            };
            let Some(kernel) = launch.kernel.as_ref().and_then(Lent::kernel) else { continue };
            let primitive = &self.steps[launch.step].primitive;
            submission
                .launch(primitive.operation(), kernel, &launch.grid, i == last)
                .at(|| primitive.launch_name(launch.index))
                .at(|| primitive.desc().name().to_owned())?;
        }
        submission.finish()
    }

    /// On an out-of-order stream each command has an event, which what waits for it names.
    fn enqueue_out_of_order(
        &mut self,
        mut submission: Submission<'_>,
        memories: &[&OpenClMemory],
    ) -> Result<OpenClEvent> {
        let enqueued = self.enqueue_linked(&mut submission, memories);
        let finished = enqueued.and_then(|ends| {
            if let [only] = ends.as_slice() {
                submission.adopt(self.events.swap_remove(*only));
            } else {
                submission.set_waits(ends.iter().map(|&end| self.events[end].raw()));
            }
            submission.finish()
        });
        self.events.clear();
        finished
    }

    /// Enqueues every step behind those that it waits for, and tells where the events of the ends are. Where that fails, the submission
    /// is behind what was enqueued.
    fn enqueue_linked(
        &mut self,
        submission: &mut Submission<'_>,
        memories: &[&OpenClMemory],
    ) -> Result<SmallVec<[usize; 8]>> {
        let mut event_of: SmallVec<[usize; 64]> = SmallVec::with_capacity(self.steps.len());
        for step in &self.steps {
            let mut waits: SmallVec<[cl_event; 8]> = SmallVec::new();
            if step.waits_for.is_empty() {
                waits.extend_from_slice(submission.waits());
            }
            waits.extend(step.waits_for.iter().map(|&earlier| self.events[event_of[earlier]].raw()));
            let operation = step.primitive.operation();
            let enqueued = if let Some(job) = &step.native {
                let made = submission.run_after(operation, job, memories, &waits);
                made.map(|event| self.events.push(event))
            } else if step.launches.is_empty() {
                submission.marker_after(operation, &waits).map(|event| self.events.push(event))
            } else {
                self.launches[step.launches.clone()].iter().try_for_each(|launch| {
                    let Some(kernel) = launch.kernel.as_ref().and_then(Lent::kernel) else { return Ok(()) };
                    let event = submission
                        .launch_after(operation, kernel, &launch.grid, &waits)
                        .at(|| step.primitive.launch_name(launch.index))?;
                    waits.clear();
                    waits.push(event.raw());
                    self.events.push(event);
                    Ok(())
                })
            };
            if let Err(error) = enqueued {
                submission.set_waits(self.events.iter().map(handle::Event::raw));
                return Err(error.at(step.primitive.desc().name()));
            }
            event_of.push(self.events.len() - 1);
        }
        Ok(self.ends.iter().map(|&end| event_of[end]).collect())
    }

    /// Each step as an operation of its own: what a profile lists, and what may fail because of an event of the user.
    fn enqueue_apart(
        &self,
        stream: &OpenClStream,
        memories: &[&OpenClMemory],
        deps: &[OpenClEvent],
    ) -> Result<OpenClEvent> {
        let is_ordered = stream.inner.desc().order == Order::InOrder;
        let mut done: Vec<OpenClEvent> = Vec::with_capacity(self.steps.len());
        for (at, step) in self.steps.iter().enumerate() {
            let waits: Vec<OpenClEvent> = match (is_ordered, at) {
                (true, 0) => deps.to_vec(),
                (true, _) => Vec::new(),
                (false, _) if step.waits_for.is_empty() => deps.to_vec(),
                (false, _) => step.waits_for.iter().map(|&earlier| done[earlier].clone()).collect(),
            };
            done.push(
                self.enqueue_step(stream, step, memories, &waits)
                    .at(|| step.primitive.desc().name().to_owned())?,
            );
        }
        match (is_ordered, self.ends.as_slice()) {
            (false, [only]) => Ok(done.swap_remove(*only)),
            (false, ends) => {
                let ends: Vec<_> = ends.iter().map(|&end| done[end].clone()).collect();
                anydnn_backend::Stream::marker(stream, &ends)
            }
            (true, _) => Ok(done.swap_remove(self.steps.len() - 1)),
        }
    }

    fn enqueue_step(
        &self,
        stream: &OpenClStream,
        step: &Step,
        memories: &[&OpenClMemory],
        waits: &[OpenClEvent],
    ) -> Result<OpenClEvent> {
        let mut submission = stream.submit(step.primitive.operation().clone(), waits)?;
        submission.profile(step.primitive.shared_implementation());
        submission.hold_all(memories);
        if let Some(job) = &step.native {
            submission.run(step.primitive.operation(), job, memories, true)?;
        }
        for launch in &self.launches[step.launches.clone()] {
            let Some(kernel) = launch.kernel.as_ref().and_then(Lent::kernel) else { continue };
            submission
                .launch(step.primitive.operation(), kernel, &launch.grid, true)
                .at(|| step.primitive.launch_name(launch.index))?;
        }
        submission.finish()
    }

    /// What the list is called where its last command has failed.
    fn operation(&self) -> Operation {
        self.steps.last().map_or(Operation::Fixed("execute"), |step| step.primitive.operation().clone())
    }
}

/// The commands of steps in order: neighbours without kernels are one.
fn commands(given: &[ListStep<OpenCl>], steps: &[Step]) -> Result<Vec<Command>> {
    let mut commands = Vec::new();
    let mut open: Option<Job> = None;
    for (at, (step, own)) in given.iter().zip(steps).enumerate() {
        if own.native.is_none() {
            commands.extend(own.launches.clone().map(Command::Launch));
            continue;
        }
        add_native(open.get_or_insert_default(), step)?;
        let goes_on = steps.get(at + 1).is_some_and(|next| next.native.is_some());
        if let Some(job) = open.take_if(|_| !goes_on) {
            commands.push(Command::Native { job: Arc::new(job), last: at });
        }
    }
    Ok(commands)
}

/// Adds a step that is computed without kernels to a job.
fn add_native(job: &mut Job, step: &ListStep<OpenCl>) -> Result<()> {
    let Some(native) = step.primitive.native() else { return Ok(()) };
    for operand in native.desc().args() {
        step.primitive.find(&step.args, operand.arg)?;
    }
    job.add(native, step.args.iter().map(|(arg, part)| (*arg, part.slot, part.offset)));
    Ok(())
}

impl List<OpenCl> for OpenClList {
    fn enqueue(
        &mut self,
        stream: &OpenClStream,
        slots: &[&OpenClMemory],
        deps: &[OpenClEvent],
    ) -> Result<OpenClEvent> {
        self.bind(slots)?;
        if stream.inner.profile.is_some() {
            return self.enqueue_apart(stream, slots, deps);
        }
        let mut submission = stream.submit(self.operation(), deps)?;
        if stream.inner.desc().order == Order::InOrder {
            submission.hold_all(slots);
            return self.enqueue_in_order(submission, slots);
        }
        if submission.is_watched() {
            drop(submission);
            return self.enqueue_apart(stream, slots, deps);
        }
        submission.hold_all(slots);
        self.enqueue_out_of_order(submission, slots)
    }
}

impl Ready {
    /// Binds the memories in their slots to the kernel that suits them, unless they are.
    fn bind(&mut self, primitive: &OpenClPrimitive, memories: &[&OpenClMemory]) -> Result<()> {
        if !self.is_bound {
            let is_aligned = |bound: &Bound| memories[bound.slot].is_aligned_at(bound.start, bound.alignment);
            self.is_aligned = self.args.iter().all(is_aligned);
        }
        let form = primitive.form(self.index, self.is_aligned);
        if self.is_bound && form == self.form {
            return Ok(());
        }
        // After a failure nothing is known.
        self.is_bound = false;
        let addresses: Addresses = self.args.iter().map(|bound| memories[bound.slot].binding()).collect();
        let fits = |kernel: &Kernel| form == self.form && kernel.addresses() == addresses;
        if !self.kernel.as_ref().and_then(Lent::kernel).is_some_and(fits) {
            self.kernel = None;
            self.kernel = Some(primitive.pool(self.index, form)?.lend(addresses)?);
            self.form = form;
        }
        let Some(kernel) = self.kernel.as_mut().and_then(Lent::kernel_mut) else { return Ok(()) };
        for (i, bound) in self.args.iter().enumerate() {
            let place = memories[bound.slot].place(bound.start + bound.offset);
            kernel.bind(i, place, &primitive.launch(self.index).kernel)?;
        }
        self.is_bound = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests;

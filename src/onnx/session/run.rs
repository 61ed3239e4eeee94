//! One execution: stages on the device with steps of the host between them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use anydnn_backend::{
    Backend, DataType, Engine, Error, Event, Memory, MemoryDesc, Order, Range, Result, ResultExt, Stream,
};

use super::cancel::Cancel;
use super::direct;
use super::profile::Trace;
use super::scope::{Plan, Scope};
use super::slot::{Lease, OnDevice, Slot};
use super::{Inner, memory_kind};
use crate::model::HostTensor;
use crate::onnx::node::Node;
use crate::onnx::ops;
use crate::onnx::program::{StepKind, ValueId};

/// The values of a graph in an execution.
#[derive(Debug)]
pub(super) struct Values<B: Backend> {
    pub(super) slots: Vec<Option<Arc<Slot<B>>>>,
    /// Values that follow from shapes and constants, for steps of the host. Graphs compute them for themselves.
    pub(super) known: HashMap<ValueId, Arc<HostTensor>>,
}

impl<B: Backend> Values<B> {
    pub(super) fn new(scope: &Scope<B>) -> Self {
        let mut slots = Vec::new();
        slots.resize_with(scope.program.names.len(), || None);
        Self { slots, known: HashMap::new() }
    }

    pub(super) fn set(&mut self, value: ValueId, slot: Arc<Slot<B>>) {
        self.slots[value] = Some(slot);
    }
}

/// What a loop reads: values of the graphs around it, by their number in the body, and its own inputs.
#[derive(Debug)]
pub(super) struct LoopInputs<B: Backend> {
    pub(super) captures: Vec<(ValueId, Arc<Slot<B>>)>,
    pub(super) inputs: Vec<Option<Arc<Slot<B>>>>,
}

/// An execution on a stream.
#[derive(Debug)]
pub(super) struct Run<'s, B: Backend> {
    pub(super) inner: &'s Inner<B>,
    pub(super) stream: &'s B::Stream,
    /// What the first commands wait for.
    waits: Vec<B::Event>,
    /// Outputs that were handed out.
    owned: Vec<Arc<Slot<B>>>,
    /// The events that cover everything enqueued.
    ends: Vec<B::Event>,
    pub(super) trace: Option<Trace<B>>,
    pub(super) cancel: Cancel,
    /// The user's memory for outputs of the model, in their order; empty where none is given.
    pub(super) targets: Vec<Option<B::Memory>>,
    /// Whether memory of outputs is the user's afterwards.
    pub(super) hands_out: bool,
    pub(super) dims: Vec<(String, usize)>,
    /// Bytes of what a plan reads and makes beyond which the device is to compute what this one, on the host, is asked for in its place.
    pub(super) most_bytes: Option<usize>,
}

impl<'s, B: Backend> Run<'s, B> {
    pub(super) fn new(
        inner: &'s Inner<B>,
        stream: &'s B::Stream,
        waits: &[B::Event],
        dims: Vec<(String, usize)>,
    ) -> Self {
        Self {
            inner,
            stream,
            waits: waits.to_vec(),
            owned: Vec::new(),
            ends: Vec::new(),
            trace: None,
            cancel: Cancel::new(),
            targets: Vec::new(),
            hands_out: false,
            dims,
            most_bytes: None,
        }
    }

    /// Runs a graph on what it is given, and returns its outputs in order.
    pub(super) fn scope(&mut self, scope: &Scope<B>, values: &mut Values<B>) -> Result<Vec<Arc<Slot<B>>>> {
        let program = &scope.program;
        let mut last: Option<Arc<Plan<B>>> = None;
        for stage in 0.. {
            self.cancel.check()?;
            let plan = scope.plan(self.inner, &values.slots, &self.dims)?;
            if let Some(most) = self.most_bytes
                && plan.bytes() > most
            {
                return Err(Error::unsupported(
                    "loop",
                    format!("the host is left what has at most {most} bytes"),
                ));
            }
            let is_again = last.replace(Arc::clone(&plan)).is_some_and(|last| Arc::ptr_eq(&last, &plan));
            self.on_device(scope, &plan, values, stage)?;
            scope.end_retired();
            if stage == 0 && scope.path.is_empty() {
                self.inner.plan_ahead(&plan);
            }
            for (value, tensor) in &plan.stage.known {
                values.known.insert(*value, Arc::clone(tensor));
            }
            for &(value, held) in &plan.stage.same {
                let same = values.slots[held].clone();
                values.slots[value] = same;
            }
            if plan.stage.is_last {
                break;
            }
            // What a stage has not got is not there after another turn of it either.
            if is_again || plan.stage.host.is_empty() && plan.stage.fetched.is_empty() {
                return Err(Error::invalid(
                    "session",
                    "stage",
                    if is_again { "that repeats" } else { "without anything to do" },
                    "a step for the device or the host",
                ));
            }
            self.on_host(scope, &plan, values, stage)?;
            // Where the host made the last of them, as of a loop's body whose condition is one of numbers, nothing is left to do.
            if program.outputs.iter().all(|&output| values.slots[output].is_some()) {
                break;
            }
        }
        program.outputs.iter().map(|&output| self.slot(scope, values, output)).collect()
    }

    /// A value as a slot, be it known, a weight or held.
    pub(super) fn slot(&self, scope: &Scope<B>, values: &Values<B>, value: ValueId) -> Result<Arc<Slot<B>>> {
        if let Some(slot) = &values.slots[value] {
            return Ok(Arc::clone(slot));
        }
        let tensor = match values.known.get(&value) {
            Some(known) => Some(Arc::clone(known)),
            None => scope.weight(self.inner, value)?,
        };
        let missing = || {
            Error::invalid(
                "session",
                format!("value {:?}", scope.program.names[value]),
                "missing",
                "a value of this stage",
            )
        };
        Ok(Arc::new(Slot::of_host(tensor.ok_or_else(missing)?)))
    }

    /// Enqueues a plan's graph.
    fn on_device(
        &mut self,
        scope: &Scope<B>,
        plan: &Plan<B>,
        values: &mut Values<B>,
        stage: usize,
    ) -> Result<()> {
        let (Some(executable), Some(finished)) = (&plan.executable, &plan.stage.finished) else {
            return Ok(());
        };
        let compiled = executable.compiled();
        let mut slots = Vec::with_capacity(finished.inputs.len());
        let mut inputs = Vec::with_capacity(finished.inputs.len());
        for &(value, id) in &finished.inputs {
            let slot = self.slot(scope, values, value)?;
            let device = self.device(&slot).at(|| format!("value {:?}", scope.program.names[value]))?;
            inputs.push((id, device.memory.clone()));
            slots.push(slot);
        }
        let is_for_host = |value: ValueId| {
            let reads =
                |(step, _): &(usize, String)| scope.program.steps[*step].inputs.contains(&Some(value));
            plan.stage.fetched.contains(&value)
                || scope.program.outputs.contains(&value)
                || plan.stage.host.iter().any(reads)
        };
        let mut outputs = Vec::with_capacity(plan.stage.outputs.len());
        let mut made = Vec::with_capacity(plan.stage.outputs.len());
        for &(value, id) in &plan.stage.outputs {
            if let Some((_, memory)) = outputs.iter().find(|(other, _)| *other == id) {
                let _: &B::Memory = memory;
                made.push((value, id, None));
                continue;
            }
            let desc = compiled
                .output_desc(id)
                .ok_or_else(|| Error::invalid("session", "output", id.to_string(), "one of the plan"))?;
            // What leaves the session stays with the user.
            let leaving = scope.program.outputs.iter().position(|&output| output == value);
            let leaving = leaving.filter(|_| self.hands_out && scope.path.is_empty());
            let (memory, lease) = match leaving.map(|at| self.target(at, desc)).transpose()?.flatten() {
                Some(memory) => (memory, None),
                None if leaving.is_none() && is_for_host(value) => self.memory_for_host(desc)?,
                None => self.memory(desc, leaving.is_some())?,
            };
            outputs.push((id, memory.clone()));
            made.push((value, id, Some((memory, lease))));
        }
        let mut deps = self.deps();
        if self.stream.desc().order == Order::OutOfOrder {
            deps.extend(slots.iter().filter_map(|slot| slot.device.get()?.ready.clone()));
        }
        let event = match &mut self.trace {
            None => {
                let go_on = || self.cancel.check_at_once();
                executable.execute_while(self.stream, &inputs, &outputs, &deps, &go_on)?
            }
            Some(trace) => {
                let start = Instant::now();
                let (event, steps) = executable.execute_traced(self.stream, &inputs, &outputs, &deps)?;
                trace.device(&format!("{}stage {}", scope.path, stage + 1), &compiled, start, steps);
                event
            }
        };
        self.note(&event);
        for slot in &slots {
            if let Some(lease) = slot.device.get().and_then(|device| device.lease.as_ref()) {
                lease.used(&event);
            }
        }
        let mut shared: HashMap<_, Arc<Slot<B>>> = HashMap::new();
        for (value, id, memory) in made {
            if let Some((memory, lease)) = memory {
                if let Some(lease) = &lease {
                    lease.used(&event);
                }
                let device = OnDevice { memory, ready: Some(event.clone()), lease };
                shared.insert(id, Arc::new(Slot::of_device(device)));
            }
            values.slots[value] = shared.get(&id).cloned();
        }
        Ok(())
    }

    /// Fetches what is wanted and computes the steps of the host, then whatever follows from few integers alone.
    fn on_host(
        &mut self,
        scope: &Scope<B>,
        plan: &Plan<B>,
        values: &mut Values<B>,
        stage: usize,
    ) -> Result<()> {
        for &value in &plan.stage.fetched {
            let slot = self.slot(scope, values, value)?;
            self.host(&slot)?;
            slot.open();
            values.set(value, slot);
        }
        let mut made = plan.stage.fetched.clone();
        for (index, _) in &plan.stage.host {
            self.cancel.check()?;
            let step = &scope.program.steps[*index];
            let start = Instant::now();
            if let StepKind::Repeat(body) = &step.kind {
                self.repeat(scope, *index, body, values, stage)?;
            } else {
                self.compute(scope, *index, values)?;
                if let Some(trace) = &mut self.trace {
                    trace.host(&format!("{}stage {}", scope.path, stage + 1), step, start);
                }
            }
            made.extend(step.outputs.iter().flatten());
        }
        while let Some(value) = made.pop() {
            for &index in &scope.readers[value] {
                let step = &scope.program.steps[index];
                let is_new = step.outputs.iter().flatten().all(|&output| values.slots[output].is_none());
                if is_new
                    && self.is_small(scope, index, values)?
                    && self.compute(scope, index, values).is_ok()
                {
                    made.extend(step.outputs.iter().flatten());
                }
            }
        }
        Ok(())
    }

    /// Whether a step only reads few integers that are on the host, or computes with single numbers that are.
    fn is_small(&self, scope: &Scope<B>, index: usize, values: &Values<B>) -> Result<bool> {
        let step = &scope.program.steps[index];
        if !matches!(step.kind, StepKind::Plain)
            || !ops::is_at_once(&Node::new(&step.proto, step.opset, Vec::new()))
        {
            return Ok(false);
        }
        let of_numbers = ops::is_of_numbers(&Node::new(&step.proto, step.opset, Vec::new()));
        let small = |tensor: &HostTensor| {
            let is_single = of_numbers && tensor.desc().elements() == 1;
            is_single || crate::onnx::import::may_specialise(tensor.dims(), tensor.data_type())
        };
        for &input in step.inputs.iter().flatten() {
            let fits = match (&values.slots[input], values.known.get(&input)) {
                (Some(slot), _) => slot.known().is_some() || of_numbers && slot.is_single(),
                (None, Some(known)) => small(known),
                (None, None) => {
                    scope.program.weights[input].is_some()
                        && scope.weight(self.inner, input)?.is_some_and(|tensor| small(&tensor))
                }
            };
            if !fits {
                return Ok(false);
            }
        }
        Ok(!step.inputs.is_empty())
    }

    /// Computes a step on the host.
    fn compute(&mut self, scope: &Scope<B>, index: usize, values: &mut Values<B>) -> Result<()> {
        let step = &scope.program.steps[index];
        let mut inputs = Vec::with_capacity(step.inputs.len());
        for input in &step.inputs {
            inputs.push(match input {
                None => None,
                Some(value) => {
                    let slot = self.slot(scope, values, *value)?;
                    Some(self.wide(&slot)?)
                }
            });
        }
        let known: Vec<_> = inputs.iter().map(|input| input.as_deref()).collect();
        let node = Node::new(&step.proto, step.opset, vec![None; known.len()]).prepared_at(&step.prepared);
        let made = ops::on_host(&node, &known)?;
        for (output, tensor) in step.outputs.iter().zip(made) {
            if let Some(output) = *output {
                let slot = Slot::of_host(Arc::new(tensor));
                slot.open();
                values.set(output, Arc::new(slot));
            }
        }
        Ok(())
    }

    /// A value on the host in the type that the model has for it.
    pub(super) fn wide(&mut self, slot: &Slot<B>) -> Result<Arc<HostTensor>> {
        let tensor = self.host(slot)?;
        match self.inner.options.precision.narrow() {
            Some(narrow) if tensor.data_type() == narrow => Ok(Arc::new(tensor.cast(DataType::F32))),
            _ => Ok(tensor),
        }
    }

    /// A value on the host, read from the device unless it was.
    pub(super) fn host(&mut self, slot: &Slot<B>) -> Result<Arc<HostTensor>> {
        if let Some(tensor) = slot.host.get() {
            return Ok(Arc::clone(tensor));
        }
        let Some(device) = slot.device.get() else {
            return Err(Error::invalid("session", "value", "nowhere", "on the host or on the device"));
        };
        let is_direct = device.lease.as_ref().is_some_and(Lease::is_direct);
        let tensor = match &device.ready {
            Some(ready) if is_direct => {
                ready.wait()?;
                let desc = device.memory.desc();
                let mut tensor = HostTensor::zeros(desc.dims().clone(), desc.data_type())?;
                direct::read::<B>(&device.memory, tensor.bytes_mut())?;
                tensor.labelled(desc.label().unwrap_or_default())
            }
            _ => {
                let mut deps = self.deps();
                deps.extend(device.ready.clone());
                read::<B>(self.stream, &device.memory, &deps)?
            }
        };
        Ok(Arc::clone(slot.host.get_or_init(|| Arc::new(tensor))))
    }

    /// A value on the device, written there unless it was.
    pub(super) fn device<'a>(&mut self, slot: &'a Slot<B>) -> Result<&'a OnDevice<B>> {
        if let Some(device) = slot.device.get() {
            return Ok(device);
        }
        let Some(tensor) = slot.host.get() else {
            return Err(Error::invalid("session", "value", "nowhere", "on the host or on the device"));
        };
        let (memory, lease) = self.memory_for_host(&slot.desc)?;
        if lease.as_ref().is_some_and(Lease::is_direct) {
            direct::write::<B>(&memory, tensor.bytes())?;
            return Ok(slot.device.get_or_init(|| OnDevice { memory, ready: None, lease }));
        }
        let ready = self.stream.enqueue_write(&memory, 0, tensor.bytes(), &self.deps())?;
        self.note(&ready);
        if let Some(lease) = &lease {
            lease.used(&ready);
        }
        Ok(slot.device.get_or_init(|| OnDevice { memory, ready: Some(ready), lease }))
    }

    /// The memory of an output, which is the user's from now on. What is another value's memory too is copied, and so is what is elsewhere
    /// than the user wants it.
    pub(super) fn own(&mut self, slot: &Arc<Slot<B>>, at: usize) -> Result<B::Memory> {
        let target = self.target(at, &slot.desc)?;
        let is_given =
            slot.device.get().is_some_and(|device| device.ready.is_none() || device.lease.is_some());
        let is_twice = self.owned.iter().any(|other| Arc::ptr_eq(other, slot));
        let is_there = slot.device.get().is_some_and(|device| {
            target.as_ref().is_none_or(|target| target.region() == device.memory.region())
        });
        if !is_given && !is_twice && is_there {
            self.owned.push(Arc::clone(slot));
        } else {
            let source = self.device(slot)?;
            let memory = match target {
                Some(memory) => memory,
                None => self.memory(&slot.desc, true)?.0,
            };
            let range =
                |memory: &B::Memory| Range { memory: memory.clone(), offset: 0, bytes: slot.desc.size() };
            let mut deps = self.deps();
            deps.extend(source.ready.clone());
            let event = self.stream.copy(range(&source.memory), range(&memory), &deps)?;
            if let Some(lease) = &source.lease {
                lease.used(&event);
            }
            self.note(&event);
            return Ok(memory);
        }
        self.device(slot).map(|device| device.memory.clone())
    }

    /// The user's memory for an output of the model, if there is any, under the output's descriptor.
    fn target(&self, at: usize, desc: &MemoryDesc) -> Result<Option<B::Memory>> {
        let Some(Some(memory)) = self.targets.get(at) else { return Ok(None) };
        let given = memory.desc().size();
        if given < desc.size() {
            let subject = format!("memory of output {:?}", self.inner.outputs[at].name);
            let expected = format!("at least {} for {desc}", desc.size());
            return Err(Error::invalid("session", subject, format!("{given} bytes"), expected));
        }
        memory.view(desc, 0).map(Some)
    }

    /// Memory for a value: the allocator's where the stream's order tells when it is free again.
    pub(super) fn memory(&self, desc: &MemoryDesc, is_users: bool) -> Result<(B::Memory, Option<Lease<B>>)> {
        let engine = &self.inner.engine;
        if is_users || self.stream.desc().order == Order::OutOfOrder {
            return Ok((engine.create_memory(desc, memory_kind::<B>(engine)?)?, None));
        }
        let (memory, lease) = Lease::take(engine, desc)?;
        Ok((memory, Some(lease)))
    }

    /// The same for a value that the host writes or reads, in place where it can.
    fn memory_for_host(&self, desc: &MemoryDesc) -> Result<(B::Memory, Option<Lease<B>>)> {
        if let (Some(direct), Order::InOrder) = (&self.inner.direct, self.stream.desc().order)
            && let Some((memory, lease)) = Lease::take_direct(direct, &self.inner.engine, desc)?
        {
            return Ok((memory, Some(lease)));
        }
        self.memory(desc, false)
    }

    /// What a command waits for beside what it reads.
    pub(super) fn deps(&mut self) -> Vec<B::Event> {
        match self.stream.desc().order {
            // Everything is behind the first command.
            Order::InOrder => std::mem::take(&mut self.waits),
            Order::OutOfOrder => self.waits.clone(),
        }
    }

    pub(super) fn note(&mut self, event: &B::Event) {
        if self.stream.desc().order == Order::InOrder {
            self.ends.clear();
        }
        self.ends.push(event.clone());
    }

    /// Whether anything was enqueued, or is waited for.
    pub(super) fn has_commands(&self) -> bool {
        !self.ends.is_empty() || !self.waits.is_empty()
    }

    /// One event for everything.
    pub(super) fn end(mut self) -> Result<B::Event> {
        let waits = self.deps();
        match (&self.ends[..], &waits[..]) {
            ([only], _) if self.stream.desc().order == Order::InOrder => Ok(only.clone()),
            ([], waits) => self.stream.marker(waits),
            (ends, _) => self.stream.marker(ends),
        }
    }
}

/// The elements of dense memory.
pub(super) fn read<B: Backend>(
    stream: &B::Stream,
    memory: &B::Memory,
    deps: &[B::Event],
) -> Result<HostTensor> {
    let desc = memory.desc();
    let mut tensor = HostTensor::zeros(desc.dims().clone(), desc.data_type())?;
    stream.read(memory, 0, tensor.bytes_mut(), deps)?;
    Ok(tensor.labelled(desc.label().unwrap_or_default()))
}

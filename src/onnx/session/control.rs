//! Loops and scans: the body runs as a graph of its own, again and again, with the plans of the first time.

use std::sync::Arc;
use std::time::Instant;

use anydnn_backend::{Backend, DataType, Dims, Error, MemoryDesc, Range, Result, ResultExt, Stream};

use super::run::{LoopInputs, Run, Values};
use super::scope::Scope;
use super::slot::{OnDevice, Slot};
use crate::graph::normalize_axis;
use crate::model::HostTensor;
use crate::onnx::node::Node;
use crate::onnx::program::{Body, ValueId};

/// What a scan does with its tensors: how many there are, their axes, and which run backwards.
struct Scanned {
    axis: Vec<i64>,
    backwards: Vec<bool>,
}

impl<B: Backend> Run<'_, B> {
    /// Runs a loop or a scan.
    pub(super) fn repeat(
        &mut self,
        scope: &Scope<B>,
        index: usize,
        body: &Body,
        values: &mut Values<B>,
        stage: usize,
    ) -> Result<()> {
        let step = &scope.program.steps[index];
        let node = Node::new(&step.proto, step.opset, vec![None; step.inputs.len()]);
        let Some(inner) = scope.bodies.get(&index) else {
            return Err(node.invalid("body", "missing", "a graph"));
        };
        let mut captures = Vec::with_capacity(body.captures.len());
        for &(value, outer) in &body.captures {
            captures.push((value, self.slot(scope, values, outer)?));
        }
        let mut inputs = Vec::with_capacity(step.inputs.len());
        for input in &step.inputs {
            inputs.push(match input {
                None => None,
                Some(value) => Some(self.slot(scope, values, *value)?),
            });
        }
        let loop_inputs = LoopInputs { captures, inputs };
        let start = Instant::now();
        let made = match self.repeat_on_host(&node, inner, &loop_inputs)? {
            Some(made) => {
                if let Some(trace) = &mut self.trace {
                    trace.host(&format!("{}stage {}", scope.path, stage + 1), step, start);
                }
                Ok(made)
            }
            None => self.rounds(&node, inner, loop_inputs),
        };
        let made = made.map_err(|error| node.place(error))?;
        for (output, slot) in step.outputs.iter().zip(made) {
            if let Some(output) = *output {
                // What a loop counts may be a shape.
                if slot.host.get().is_some() {
                    slot.open();
                }
                values.set(output, slot);
            }
        }
        Ok(())
    }

    /// The rounds of a loop or a scan, and what comes of them.
    pub(super) fn rounds(
        &mut self,
        node: &Node,
        inner: &Scope<B>,
        loop_inputs: LoopInputs<B>,
    ) -> Result<Vec<Arc<Slot<B>>>> {
        let LoopInputs { captures, inputs } = loop_inputs;
        match node.operator() {
            "Loop" => self.run_loop(node, inner, &captures, inputs),
            _ if node.opset() < 9 => self.run_batches(node, inner, &captures, &inputs),
            _ => self.run_scan(node, inner, &captures, &inputs),
        }
    }

    fn run_loop(
        &mut self,
        node: &Node,
        inner: &Scope<B>,
        captures: &[(ValueId, Arc<Slot<B>>)],
        mut inputs: Vec<Option<Arc<Slot<B>>>>,
    ) -> Result<Vec<Arc<Slot<B>>>> {
        let carried_count = inputs.len().saturating_sub(2);
        check_body(node, inner, carried_count + 2, carried_count + 1)?;
        let mut carried: Vec<Arc<Slot<B>>> =
            inputs.split_off(inputs.len().min(2)).into_iter().flatten().collect();
        if carried.len() != carried_count {
            return Err(node.invalid("carried values", "left out", "a first value for each"));
        }
        let mut first = |at: usize| -> Result<Option<f64>> {
            let Some(slot) = inputs.get(at).and_then(Option::as_ref) else { return Ok(None) };
            single(node, &*self.host(slot)?).map(Some)
        };
        let (most, mut goes_on) = (first(0)?, first(1)?.is_none_or(|value| value != 0.0));
        let mut stacks: Vec<Vec<Arc<Slot<B>>>> =
            vec![Vec::new(); inner.program.outputs.len() - 1 - carried_count];
        let mut round = 0_i64;
        while goes_on && most.is_none_or(|most| (round as f64) < most) {
            let counter = HostTensor::new(
                MemoryDesc::new(Dims::default(), DataType::S64),
                round.to_ne_bytes().to_vec(),
            )?;
            let condition = HostTensor::new(MemoryDesc::new(Dims::default(), DataType::Boolean), vec![1])?;
            let mut given = vec![opened(counter), opened(condition)];
            given.append(&mut carried);
            let mut made = self.body(inner, captures, given)?;
            let scanned = made.split_off(1 + carried_count);
            carried = made.split_off(1);
            goes_on = single(node, &*self.host(&made[0])?)? != 0.0;
            stacks.iter_mut().zip(scanned).for_each(|(stack, slot)| stack.push(slot));
            round += 1;
        }
        let outputs = &inner.program.outputs[1 + carried_count..];
        for (stack, &output) in stacks.into_iter().zip(outputs) {
            carried.push(self.stack(inner, output, &stack, 0, false)?);
        }
        Ok(carried)
    }

    /// Runs a scan along the axes that its attributes name.
    pub(super) fn run_scan(
        &mut self,
        node: &Node,
        inner: &Scope<B>,
        captures: &[(ValueId, Arc<Slot<B>>)],
        inputs: &[Option<Arc<Slot<B>>>],
    ) -> Result<Vec<Arc<Slot<B>>>> {
        let scan_count = usize::try_from(node.int("num_scan_inputs", 0)?).unwrap_or(0);
        let Some(state_count) = inputs.len().checked_sub(scan_count).filter(|_| scan_count > 0) else {
            return Err(node.invalid(
                "attribute num_scan_inputs",
                scan_count,
                "from 1 to the number of inputs",
            ));
        };
        check_body(node, inner, inputs.len(), state_count)?;
        let mut carried: Vec<Arc<Slot<B>>> = inputs.iter().flatten().cloned().collect();
        if carried.len() != inputs.len() {
            return Err(node.invalid("inputs", "left out", "all of them"));
        }
        let sources = carried.split_off(state_count);
        let output_count = inner.program.outputs.len() - state_count;
        let scanned = |what: &str, count: usize| -> Result<Scanned> {
            let list = |name: String| -> Result<Vec<i64>> {
                let list = node.ints(&name)?.unwrap_or_else(|| vec![0; count]);
                if list.len() == count {
                    Ok(list)
                } else {
                    Err(node.invalid(&name, list.len(), count.to_string()))
                }
            };
            // Before opset 9 only inputs have a direction.
            let directions = match (node.opset(), what) {
                (..9, "input") => "directions".to_owned(),
                _ => format!("scan_{what}_directions"),
            };
            let backwards = list(directions)?.into_iter().map(|way| way != 0).collect();
            Ok(Scanned { axis: list(format!("scan_{what}_axes"))?, backwards })
        };
        let (read, written) = (scanned("input", scan_count)?, scanned("output", output_count)?);
        let mut tensors = Vec::with_capacity(scan_count);
        let mut length = None;
        for (source, &axis) in sources.iter().zip(&read.axis) {
            let axis = normalize_axis(axis, source.desc.dims().len())?;
            let extent = source.desc.dims()[axis];
            if *length.get_or_insert(extent) != extent {
                return Err(node.invalid("lengths", extent, format!("{length:?}, as of the others")));
            }
            tensors.push((self.host(source)?, axis));
        }
        let length = length.unwrap_or(0);
        let mut stacks: Vec<Vec<Arc<Slot<B>>>> = vec![Vec::new(); output_count];
        for round in 0..length {
            let mut given = std::mem::take(&mut carried);
            for ((tensor, axis), &backwards) in tensors.iter().zip(&read.backwards) {
                let at = if backwards { length - 1 - round } else { round };
                given.push(Arc::new(Slot::of_host(Arc::new(slice(tensor, *axis, at)?))));
            }
            let mut made = self.body(inner, captures, given)?;
            let scanned = made.split_off(state_count);
            carried = made;
            stacks.iter_mut().zip(scanned).for_each(|(stack, slot)| stack.push(slot));
        }
        let outputs = &inner.program.outputs[state_count..];
        for (at, (stack, &output)) in stacks.into_iter().zip(outputs).enumerate() {
            carried.push(self.stack(inner, output, &stack, written.axis[at], written.backwards[at])?);
        }
        Ok(carried)
    }

    /// One round.
    fn body(
        &mut self,
        inner: &Scope<B>,
        captures: &[(ValueId, Arc<Slot<B>>)],
        given: Vec<Arc<Slot<B>>>,
    ) -> Result<Vec<Arc<Slot<B>>>> {
        let mut values = Values::new(inner);
        for (&input, slot) in inner.program.inputs.iter().zip(given) {
            values.set(input, slot);
        }
        for (value, slot) in captures {
            values.set(*value, Arc::clone(slot));
        }
        self.scope(inner, &mut values).at(|| "body".to_owned())
    }

    /// The results of all rounds, which are on the device, one behind the other: nobody waits for a round.
    fn stack_on_device(&mut self, stack: &[Arc<Slot<B>>], backwards: bool) -> Result<Arc<Slot<B>>> {
        let first = &stack[0].desc;
        if let Some(other) = stack.iter().find(|slot| !slot.desc.same_bytes(first)) {
            return Err(differs(&other.desc, first));
        }
        let dims: Dims = std::iter::once(stack.len()).chain(first.dims().iter().copied()).collect();
        let bytes = first.size();
        let (memory, lease) = self.memory(&MemoryDesc::new(dims, first.data_type()), false)?;
        let mut last = None;
        for (round, slot) in stack.iter().enumerate() {
            let at = if backwards { stack.len() - 1 - round } else { round };
            let Some(source) = slot.device.get().filter(|_| bytes > 0) else { continue };
            let range = |memory: &B::Memory, offset| Range { memory: memory.clone(), offset, bytes };
            let mut deps = self.deps();
            deps.extend(source.ready.clone());
            // Commands of an out-of-order stream come one after the other, so that the last one's event is that of all.
            deps.extend(last.take());
            let event = self.stream.copy(range(&source.memory, 0), range(&memory, at * bytes), &deps)?;
            if let Some(lease) = &source.lease {
                lease.used(&event);
            }
            self.note(&event);
            last = Some(event);
        }
        if let (Some(lease), Some(event)) = (&lease, &last) {
            lease.used(event);
        }
        Ok(Arc::new(Slot::of_device(OnDevice { memory, ready: last, lease })))
    }

    /// The results of all rounds as one tensor along a new axis.
    pub(super) fn stack(
        &mut self,
        inner: &Scope<B>,
        output: ValueId,
        stack: &[Arc<Slot<B>>],
        axis: i64,
        backwards: bool,
    ) -> Result<Arc<Slot<B>>> {
        let on_device = |slot: &Arc<Slot<B>>| slot.host.get().is_none() && slot.device.get().is_some();
        if !stack.is_empty() && stack[0].desc.data_type().bits() >= 8 && stack.iter().all(on_device) {
            let rank = stack[0].desc.rank() + 1;
            if normalize_axis(axis, rank)? == 0 {
                return self.stack_on_device(stack, backwards);
            }
        }
        let mut tensors = Vec::with_capacity(stack.len());
        for slot in stack {
            tensors.push(self.wide(slot)?);
        }
        if backwards {
            tensors.reverse();
        }
        let Some(first) = tensors.first() else {
            let (data_type, dims) = inner.program.declared(output);
            let dims: Dims = std::iter::once(0).chain(dims).collect();
            return Ok(Arc::new(Slot::of_host(Arc::new(HostTensor::zeros(dims, data_type)?))));
        };
        let axis = normalize_axis(axis, first.dims().len() + 1)?;
        if let Some(other) = tensors.iter().find(|tensor| !tensor.desc().same_bytes(first.desc())) {
            return Err(differs(other.desc(), first.desc()));
        }
        let bits = first.data_type().bits();
        if bits < 8 {
            return Err(Error::unsupported(
                "loop",
                format!("results of {} are not put together", first.data_type()),
            ));
        }
        let row = Dims::new(&first.dims()[axis..]).elements() * bits / 8;
        let outer = Dims::new(&first.dims()[..axis]).elements();
        let mut bytes = Vec::with_capacity(outer * row * tensors.len());
        for at in 0..outer {
            for tensor in &tensors {
                bytes.extend_from_slice(&tensor.bytes()[at * row..(at + 1) * row]);
            }
        }
        let mut dims: Vec<usize> = first.dims().to_vec();
        dims.insert(axis, tensors.len());
        let tensor = HostTensor::new(MemoryDesc::new(dims, first.data_type()), bytes)?;
        Ok(Arc::new(Slot::of_host(Arc::new(tensor))))
    }
}

fn differs(other: &MemoryDesc, first: &MemoryDesc) -> Error {
    Error::invalid("loop", "result of a round", other.to_string(), format!("{first}, as of the first round"))
}

fn check_body<B: Backend>(node: &Node, inner: &Scope<B>, inputs: usize, least_outputs: usize) -> Result<()> {
    let program = &inner.program;
    if program.inputs.len() != inputs || program.outputs.len() < least_outputs {
        let given = format!("with {} inputs and {} outputs", program.inputs.len(), program.outputs.len());
        return Err(node.invalid(
            "body",
            given,
            format!("{inputs} inputs and at least {least_outputs} outputs"),
        ));
    }
    Ok(())
}

/// A number of the host that graphs may be made for.
fn opened<B: Backend>(tensor: HostTensor) -> Arc<Slot<B>> {
    let slot = Slot::of_host(Arc::new(tensor));
    slot.open();
    Arc::new(slot)
}

fn single(node: &Node, tensor: &HostTensor) -> Result<f64> {
    match tensor.to_f64s()[..] {
        [number] => Ok(number),
        _ => Err(node.invalid("condition or count", tensor.desc(), "one element")),
    }
}

/// One place along an axis, without it.
pub(super) fn slice(tensor: &HostTensor, axis: usize, at: usize) -> Result<HostTensor> {
    let bits = tensor.data_type().bits();
    if bits < 8 {
        return Err(Error::unsupported(
            "scan",
            format!("tensors of {} are not taken apart", tensor.data_type()),
        ));
    }
    let dims = tensor.dims();
    let row = Dims::new(&dims[axis + 1..]).elements() * bits / 8;
    let (outer, extent) = (Dims::new(&dims[..axis]).elements(), dims[axis]);
    let starts = (0..outer).map(|outer| (outer * extent + at) * row);
    let bytes = starts.flat_map(|start| &tensor.bytes()[start..start + row]).copied().collect();
    let dims: Dims =
        dims.iter().enumerate().filter(|(index, _)| *index != axis).map(|(_, dim)| *dim).collect();
    HostTensor::new(MemoryDesc::new(dims, tensor.data_type()), bytes)
}

//! Lists of executions: which arguments are read and written, and how much of them, is known before their memory is.

use anydnn_backend::{Arg, List, ListStep, Order, Part, Primitive, Result, ResultExt, Stream};

use crate::Host;
use crate::binding::{self, Few, with_operands};
use crate::event::HostEvent;
use crate::memory::HostMemory;
use crate::primitive::HostPrimitive;
use crate::stream::HostStream;

/// A list of executions.
#[derive(Debug)]
pub(crate) struct HostList {
    steps: Vec<Step>,
    /// The steps that no other waits for.
    ends: Vec<usize>,
}

#[derive(Debug)]
struct Step {
    primitive: HostPrimitive,
    read: Few<Operand>,
    written: Few<Operand>,
    waits_for: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Operand {
    arg: Arg,
    part: Part,
    bytes: usize,
}

impl HostList {
    /// Readies a list.
    pub(crate) fn new(steps: &[ListStep<Host>]) -> Self {
        let mut is_end = vec![true; steps.len()];
        for &earlier in steps.iter().flat_map(|step| &step.waits_for) {
            is_end[earlier] = false;
        }
        let ends = (0..steps.len()).filter(|&i| is_end[i]).collect();
        Self { steps: steps.iter().map(Step::new).collect(), ends }
    }
}

impl Step {
    fn new(step: &ListStep<Host>) -> Self {
        let desc = step.primitive.desc();
        let (mut read, mut written) = (Few::new(), Few::new());
        for &(arg, part) in &step.args {
            let (Some(operand), Some(access)) = (desc.find(arg), desc.access(arg)) else { continue };
            let list = if access.writes() { &mut written } else { &mut read };
            list.push(Operand { arg, part, bytes: operand.size() });
        }
        Self { primitive: step.primitive.clone(), read, written, waits_for: step.waits_for.clone() }
    }

    fn run(&self, stream: &HostStream, slots: &[&HostMemory], deps: &[HostEvent]) -> Result<HostEvent> {
        let bound = |operand: &Operand| {
            let Operand { arg, part, bytes } = *operand;
            (arg, binding::Part::new(slots[part.slot], part.offset, bytes))
        };
        let read: Few<_> = self.read.iter().map(bound).collect();
        let written: Few<_> = self.written.iter().map(bound).collect();
        stream.execute_with(&self.primitive, deps, |work| {
            let in_place = |arg| self.primitive.reads_in_place(arg);
            with_operands(self.primitive.desc(), &read, &written, &in_place, work)
        })
    }
}

impl List<Host> for HostList {
    fn enqueue(
        &mut self,
        stream: &HostStream,
        slots: &[&HostMemory],
        deps: &[HostEvent],
    ) -> Result<HostEvent> {
        let is_ordered = stream.desc().order == Order::InOrder;
        let mut done: Vec<HostEvent> = Vec::with_capacity(self.steps.len());
        for (at, step) in self.steps.iter().enumerate() {
            let waits: Few<HostEvent> = match (is_ordered, at) {
                (true, 0) => deps.iter().cloned().collect(),
                (true, _) => Few::new(),
                (false, _) if step.waits_for.is_empty() => deps.iter().cloned().collect(),
                (false, _) => step.waits_for.iter().map(|&earlier| done[earlier].clone()).collect(),
            };
            let ran = step.run(stream, slots, &waits);
            done.push(ran.at(|| step.primitive.desc().name().to_owned())?);
        }
        match (is_ordered, self.ends.as_slice(), done.last()) {
            (true, _, Some(last)) => Ok(last.clone()),
            (_, ends, _) => {
                let ends: Few<HostEvent> = ends.iter().map(|&end| done[end].clone()).collect();
                stream.marker(if self.steps.is_empty() { deps } else { &ends })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostEngine;
    use anydnn_backend::op::{Eltwise, Op};
    use anydnn_backend::{
        DataType, Engine, Error, Event, Memory, MemoryDesc, MemoryKind, PrimitiveDesc, StreamDesc,
    };

    /// `max(x, 0)` of the first four bytes of slot 0 into the last four of slot 1, and of these to slot 2.
    fn twice(engine: &HostEngine) -> Box<dyn List<Host>> {
        let relu = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(MemoryDesc::new([4], DataType::S8));
        let primitive = engine.create_primitive(&relu.build().unwrap()).unwrap();
        let step = |from: (usize, usize), to: (usize, usize), waits_for: Vec<usize>| ListStep {
            primitive: primitive.clone(),
            args: vec![
                (Arg::SRC, Part { slot: from.0, offset: from.1 }),
                (Arg::DST, Part { slot: to.0, offset: to.1 }),
            ],
            waits_for,
        };
        let steps = [step((0, 0), (1, 4), vec![]), step((1, 4), (2, 0), vec![0])];
        engine.ready(&steps, 3).unwrap().expect("a list")
    }

    #[test]
    fn steps_run_one_behind_the_other_on_the_memory_of_each_time() {
        let engine = HostEngine::new();
        let mut list = twice(&engine);
        for desc in
            [StreamDesc::default(), StreamDesc::out_of_order(), StreamDesc::out_of_order().with_profiling()]
        {
            let stream = engine.create_stream(&desc).unwrap();
            for values in [[1_i8, -2, 3, -4], [-1, 20, -3, 40]] {
                let memory =
                    || engine.create_memory(&MemoryDesc::new([8], DataType::S8), MemoryKind::Host).unwrap();
                let slots = [memory(), memory(), memory()];
                let written = stream.write(&slots[0], 0, bytemuck::cast_slice(&values), &[]).unwrap();
                let [a, b, c] = &slots;
                let done = list.enqueue(&stream, &[a, b, c], &[written]).unwrap();
                let mut result = [0_u8; 8];
                stream.read(c, 0, &mut result, &[done]).unwrap();
                let expected = values.map(|value| value.max(0));
                assert_eq!(result[..4], *bytemuck::cast_slice::<i8, u8>(&expected));
                stream.read(b, 0, &mut result, &[]).unwrap();
                assert_eq!(result[..4], [0; 4], "{}", b.desc());
            }
            let counted = desc.profiling.then(|| stream.profile().unwrap().len());
            assert_eq!(counted, desc.profiling.then_some(4));
        }
    }

    #[test]
    fn nothing_runs_behind_a_failure() {
        let engine = HostEngine::new();
        let stream = engine.create_stream(&StreamDesc::out_of_order()).unwrap();
        let tensor = MemoryDesc::new([8], DataType::S8);
        let slots = [(); 3].map(|()| engine.create_memory(&tensor, MemoryKind::Host).unwrap());
        stream.write(&slots[0], 0, &[1; 8], &[]).unwrap();
        let failed = HostEvent::new(Err(Error::DeviceLost("unplugged".into())), None);
        let [a, b, c] = &slots;
        let ended = twice(&engine).enqueue(&stream, &[a, b, c], &[failed]).unwrap();
        assert!(matches!(ended.wait(), Err(Error::Dependency { .. })));
        let mut result = [9; 4];
        stream.read(c, 0, &mut result, &[]).unwrap();
        assert_eq!(result, [0; 4]);
    }
}

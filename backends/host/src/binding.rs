//! From memories bound to arguments to slices that a computation may use at once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{RwLockReadGuard, RwLockWriteGuard};

use anydnn_backend::{Arg, Error, PrimitiveDesc, Result};

use crate::memory::{Allocation, Bytes, HostMemory};

/// Locks every allocation that the arguments touch, once and in ascending order, and runs `work` on the slices of what is read and of
/// what is written. An input that shares bytes with a result is copied first.
pub(crate) fn with_slices<R>(
    desc: &PrimitiveDesc,
    args: &[(Arg, HostMemory)],
    work: impl FnOnce(&[(Arg, &[u8])], &mut [(Arg, &mut [u8])]) -> Result<R>,
) -> Result<R> {
    let mut groups: BTreeMap<u64, Group<'_>> = BTreeMap::new();
    for (arg, memory) in args {
        let (Some(operand), Some(access)) = (desc.find(*arg), desc.access(*arg)) else { continue };
        let allocation = memory.allocation();
        let group = groups.entry(allocation.id()).or_insert_with(|| Group::new(allocation));
        let list = if access.writes() { &mut group.written } else { &mut group.read };
        list.push((*arg, memory.range(0, operand.size())));
    }
    let mut locked: Vec<(Group<'_>, Guard<'_>)> = groups
        .into_values()
        .map(|group| {
            let guard = Guard::new(&group);
            (group, guard)
        })
        .collect();
    let mut copies = Vec::new();
    for (group, guard) in &mut locked {
        copies.extend(group.detach(guard)?);
    }
    let mut inputs: Vec<(Arg, &[u8])> =
        copies.iter().map(|(arg, bytes, len)| (*arg, &bytes[..*len])).collect();
    let mut outputs = Vec::new();
    for (group, guard) in &mut locked {
        match guard {
            Guard::Read(bytes) => {
                inputs.extend(group.read.iter().map(|(arg, range)| (*arg, &bytes[range.clone()])));
            }
            Guard::Write(bytes) => {
                group.split(bytes, &mut inputs, &mut outputs).map_err(|e| e.at(desc.name()))?;
            }
        }
    }
    work(&inputs, &mut outputs)
}

/// The parts of one allocation that a computation touches.
struct Group<'a> {
    allocation: &'a Allocation,
    read: Vec<(Arg, Range<usize>)>,
    written: Vec<(Arg, Range<usize>)>,
}

enum Guard<'a> {
    Read(RwLockReadGuard<'a, Bytes>),
    Write(RwLockWriteGuard<'a, Bytes>),
}

impl<'a> Guard<'a> {
    fn new(group: &Group<'a>) -> Self {
        if group.written.is_empty() {
            Self::Read(group.allocation.read())
        } else {
            Self::Write(group.allocation.write())
        }
    }
}

impl<'a> Group<'a> {
    fn new(allocation: &'a Allocation) -> Self {
        Self { allocation, read: Vec::new(), written: Vec::new() }
    }

    /// Takes out the inputs that share bytes with a result, as aligned copies with their lengths.
    fn detach(&mut self, guard: &Guard<'_>) -> Result<Vec<(Arg, Bytes, usize)>> {
        let Guard::Write(bytes) = guard else { return Ok(Vec::new()) };
        let written = &self.written;
        let shared = |range: &Range<usize>| {
            written.iter().any(|(_, other)| range.start < other.end && other.start < range.end)
        };
        let (copied, kept): (Vec<_>, Vec<_>) = self.read.drain(..).partition(|(_, range)| shared(range));
        self.read = kept;
        copied
            .into_iter()
            .map(|(arg, range)| Ok((arg, Bytes::copied(&bytes[range.clone()])?, range.len())))
            .collect()
    }

    /// Splits the bytes into one slice for each result and for each run of inputs, which may overlap one another.
    fn split<'b>(
        &self,
        bytes: &'b mut [u8],
        inputs: &mut Vec<(Arg, &'b [u8])>,
        outputs: &mut Vec<(Arg, &'b mut [u8])>,
    ) -> Result<()> {
        let mut parts: Vec<(&Range<usize>, Arg, bool)> = Vec::new();
        for (list, written) in [(&self.read, false), (&self.written, true)] {
            for (arg, range) in list {
                match (range.is_empty(), written) {
                    (false, _) => parts.push((range, *arg, written)),
                    (true, false) => inputs.push((*arg, &[])),
                    (true, true) => outputs.push((*arg, &mut [])),
                }
            }
        }
        parts.sort_by_key(|(range, ..)| range.start);
        let (mut rest, mut at) = (bytes, 0);
        let mut parts = &parts[..];
        while let [(first, arg, written), following @ ..] = parts {
            if first.start < at {
                return Err(Error::invalid(
                    "execute",
                    format!("memory of {arg}"),
                    "sharing bytes with another result",
                    "separate bytes",
                ));
            }
            let mut end = first.end;
            let mut count = 0;
            while !written
                && following.get(count).is_some_and(|(range, _, other)| !other && range.start < end)
            {
                end = end.max(following[count].0.end);
                count += 1;
            }
            let (_, tail) = rest.split_at_mut(first.start - at);
            let (run, tail) = tail.split_at_mut(end - first.start);
            if *written {
                outputs.push((*arg, run));
            } else {
                let run: &'b [u8] = run;
                for (range, arg, _) in &parts[..=count] {
                    inputs.push((*arg, &run[range.start - first.start..range.end - first.start]));
                }
            }
            (rest, at, parts) = (tail, end, &parts[count + 1..]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostEngine;
    use anydnn_backend::op::{Binary, Op};
    use anydnn_backend::{BinaryAlgorithm, DataType, Engine, MapMode, Memory, MemoryDesc, MemoryKind};

    /// `dst = src0 - src1` on parts of one allocation of the bytes 10, 20, .. 80.
    fn subtract(offsets: [usize; 3], bytes: usize) -> Result<Vec<u8>> {
        let part = MemoryDesc::new([bytes], DataType::U8);
        let desc = PrimitiveDesc::builder(Op::Binary(Binary::new(BinaryAlgorithm::Subtract)))
            .src(part.clone())
            .src(part.clone())
            .dst(part.clone())
            .build()?;
        let whole = HostEngine::new().create_memory(&MemoryDesc::new([8], DataType::U8), MemoryKind::Host)?;
        let mut mapping = whole.map(MapMode::Write)?;
        mapping.bytes_mut().copy_from_slice(&[10, 20, 30, 40, 50, 60, 70, 80]);
        mapping.unmap()?;
        let args: Vec<(Arg, HostMemory)> = [Arg::Src(0), Arg::Src(1), Arg::DST]
            .into_iter()
            .zip(offsets)
            .map(|(arg, offset)| Ok((arg, whole.view(&part, offset)?)))
            .collect::<Result<_>>()?;
        with_slices(&desc, &args, |inputs, outputs| crate::compute(&desc, inputs, outputs))?;
        Ok(whole.map(MapMode::Read)?.bytes().to_vec())
    }

    #[test]
    fn disjoint_parts_of_one_allocation() {
        assert_eq!(subtract([4, 0, 2], 2).unwrap(), [10, 20, 40, 40, 50, 60, 70, 80]);
        assert_eq!(subtract([2, 0, 6], 2).unwrap()[6..], [20, 20]);
    }

    #[test]
    fn inputs_may_overlap_each_other_and_the_result() {
        assert_eq!(subtract([1, 0, 4], 3).unwrap(), [10, 20, 30, 40, 10, 10, 10, 80]);
        assert_eq!(subtract([3, 3, 0], 3).unwrap()[..3], [0, 0, 0]);
        // In place, and half over an input: as if the inputs had been read before.
        assert_eq!(subtract([4, 0, 4], 4).unwrap(), [10, 20, 30, 40, 40, 40, 40, 40]);
        assert_eq!(subtract([4, 0, 2], 4).unwrap(), [10, 20, 40, 40, 40, 40, 70, 80]);
    }

    #[test]
    fn empty_parts_are_bound_too() {
        assert_eq!(subtract([8, 0, 3], 0).unwrap(), [10, 20, 30, 40, 50, 60, 70, 80]);
    }

    #[test]
    fn results_may_not_overlap() {
        let engine = HostEngine::new();
        let whole = engine.create_memory(&MemoryDesc::new([8], DataType::F32), MemoryKind::Host).unwrap();
        let tensor = |dims: &[usize]| MemoryDesc::new(dims, DataType::F32);
        let norm = anydnn_backend::op::LayerNormalization::new(1, 0.0);
        let desc = PrimitiveDesc::builder(Op::LayerNormalization(norm))
            .src(tensor(&[2, 1]))
            .arg(Arg::Mean, tensor(&[2]))
            .dst(tensor(&[2, 1]))
            .build()
            .unwrap();
        let at = |offset| whole.view(&tensor(&[2]), offset).unwrap();
        let args = [(Arg::SRC, at(0)), (Arg::Mean, at(12)), (Arg::DST, at(16))];
        let error = with_slices(&desc, &args, |_, _| Ok(())).unwrap_err();
        assert!(error.to_string().contains("sharing bytes"), "{error}");
    }
}

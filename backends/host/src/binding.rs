//! From memories bound to arguments to slices that a computation may use at once.

use std::cell::RefCell;

use anydnn_backend::{Arg, Error, Memory, PrimitiveDesc, Region, Result};
use smallvec::SmallVec;

use crate::allocation::{Allocation, Bytes, Guard};
use crate::memory::HostMemory;

/// As many as most primitives have, off the heap.
pub(crate) type Few<T> = SmallVec<[T; 8]>;

/// Runs `work` on the slices of what a primitive reads and of what it writes. An input that shares bytes with a result is copied first;
/// where it may be read `in_place` and has exactly those of the first result, one of them is left out.
pub(crate) fn with_slices<R>(
    desc: &PrimitiveDesc,
    args: &[(Arg, HostMemory)],
    in_place: &dyn Fn(Arg) -> bool,
    work: impl FnOnce(&[(Arg, &[u8])], &mut [(Arg, &mut [u8])]) -> Result<R>,
) -> Result<R> {
    let (mut read, mut written) = (Few::new(), Few::new());
    for (arg, memory) in args {
        let (Some(operand), Some(access)) = (desc.find(*arg), desc.access(*arg)) else { continue };
        let list = if access.writes() { &mut written } else { &mut read };
        list.push((*arg, Part::new(memory, 0, operand.size())));
    }
    with_operands(desc, &read, &written, in_place, work)
}

/// The same where it is known what is read and what is written.
pub(crate) fn with_operands<R>(
    desc: &PrimitiveDesc,
    read: &[(Arg, Part<'_>)],
    written: &[(Arg, Part<'_>)],
    in_place: &dyn Fn(Arg) -> bool,
    work: impl FnOnce(&[(Arg, &[u8])], &mut [(Arg, &mut [u8])]) -> Result<R>,
) -> Result<R> {
    for (i, (arg, part)) in written.iter().enumerate() {
        if written[..i].iter().any(|(_, other)| part.region.overlaps(&other.region)) {
            let subject = format!("memory of {arg}");
            let error =
                Error::invalid("execute", subject, "sharing bytes with another result", "separate bytes");
            return Err(error.at(desc.name()));
        }
    }
    // SAFETY: results lie apart from each other.
    unsafe { with_parts(read, written, in_place, work) }
}

/// Bytes of an allocation.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    allocation: &'a Allocation,
    region: Region,
}

impl<'a> Part<'a> {
    /// So many bytes from byte `offset` of a memory on, which are there.
    ///
    /// # Panics
    /// Where they are not.
    pub(crate) fn new(memory: &'a HostMemory, offset: usize, bytes: usize) -> Self {
        let whole = memory.region();
        assert!(offset + bytes <= whole.bytes, "{bytes} bytes from {offset} of {}", whole.bytes);
        let region = Region { offset: whole.offset + offset, bytes, ..whole };
        Self { allocation: memory.allocation(), region }
    }

    /// All bytes of a memory.
    pub(crate) fn whole(memory: &'a HostMemory) -> Self {
        Self { allocation: memory.allocation(), region: memory.region() }
    }

    /// Runs `work` on the bytes.
    pub(crate) fn read<R>(self, work: impl FnOnce(&[u8]) -> R) -> R {
        let mut guard = self.allocation.lock(false);
        // SAFETY: locked to be read.
        work(unsafe { self.slice(guard.origin()) })
    }

    /// Runs `work` on the bytes, which it may change.
    pub(crate) fn write<R>(self, work: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut guard = self.allocation.lock(true);
        // SAFETY: locked to be written, and there is one slice.
        work(unsafe { self.slice_mut(guard.origin()) })
    }

    /// Copies these bytes to others, of which there are as many and which lie apart.
    pub(crate) fn copy_to(self, to: Self) -> Result<()> {
        // SAFETY: one result.
        unsafe {
            with_parts(&[(Arg::SRC, self)], &[(Arg::DST, to)], &|_| false, |inputs, outputs| {
                outputs[0].1.copy_from_slice(inputs[0].1);
                Ok(())
            })
        }
    }

    /// # Safety
    /// `origin` is that of the allocation, which is locked for `'b`; nothing in the region is written meanwhile.
    unsafe fn slice<'b>(&self, origin: *mut u8) -> &'b [u8] {
        if self.region.bytes == 0 {
            return &[];
        }
        // SAFETY: regions lie inside their allocations; the rest by contract.
        unsafe { std::slice::from_raw_parts(origin.wrapping_add(self.region.offset), self.region.bytes) }
    }

    /// # Safety
    /// `origin` is that of the allocation, which is locked to be written for `'b`; nothing else touches the region meanwhile.
    unsafe fn slice_mut<'b>(&self, origin: *mut u8) -> &'b mut [u8] {
        if self.region.bytes == 0 {
            return &mut [];
        }
        // SAFETY: regions lie inside their allocations; the rest by contract.
        unsafe { std::slice::from_raw_parts_mut(origin.wrapping_add(self.region.offset), self.region.bytes) }
    }
}

/// Locks every allocation that the parts lie in, once and in ascending order, and runs `work` on their slices. What is read and shares bytes
/// with what is written is copied first, or left out as [`with_slices`] says.
///
/// # Safety
/// What is written lies apart.
unsafe fn with_parts<R>(
    read: &[(Arg, Part<'_>)],
    written: &[(Arg, Part<'_>)],
    in_place: &dyn Fn(Arg) -> bool,
    work: impl FnOnce(&[(Arg, &[u8])], &mut [(Arg, &mut [u8])]) -> Result<R>,
) -> Result<R> {
    let reads = read.iter().map(|(_, part)| (part.allocation, false));
    let mut allocations: Few<(&Allocation, bool)> =
        reads.chain(written.iter().map(|(_, part)| (part.allocation, true))).collect();
    // Of each, what writes comes first and stays.
    allocations.sort_unstable_by_key(|(allocation, writes)| (allocation.id(), !writes));
    allocations.dedup_by_key(|(allocation, _)| allocation.id());
    let mut locked: Few<(u64, Guard<'_>)> = allocations
        .into_iter()
        .map(|(allocation, writes)| (allocation.id(), allocation.lock(writes)))
        .collect();
    let origins: Few<(u64, *mut u8)> = locked.iter_mut().map(|(id, guard)| (*id, guard.origin())).collect();
    let origin = |part: &Part<'_>| {
        let at = origins.binary_search_by_key(&part.allocation.id(), |(id, _)| *id);
        // Every part's allocation was locked.
        at.map_or(std::ptr::null_mut(), |at| origins[at].1)
    };
    let is_shared = |part: &Part<'_>| written.iter().any(|(_, other)| part.region.overlaps(&other.region));
    let result = written.iter().find(|(arg, _)| *arg == Arg::DST).map(|(_, part)| part.region);
    let mut in_its_place = read.iter().filter(|(_, part)| Some(part.region) == result);
    let left_out = in_its_place.find(|(arg, _)| in_place(*arg)).map(|(arg, _)| *arg);
    let copies = read
        .iter()
        .filter(|(arg, part)| is_shared(part) && left_out != Some(*arg))
        // SAFETY: locked, and nothing is written before the copies are made.
        .map(|(arg, part)| Ok((*arg, Copied::new(unsafe { part.slice(origin(part)) })?)))
        .collect::<Result<Few<_>>>()?;
    let mut inputs: Few<(Arg, &[u8])> = copies.iter().map(|(arg, copy)| (*arg, copy.bytes())).collect();
    let apart = read.iter().filter(|(_, part)| !is_shared(part));
    // SAFETY: locked until the work is done, and apart from what is written.
    inputs.extend(apart.map(|(arg, part)| (*arg, unsafe { part.slice(origin(part)) })));
    let mut outputs: Few<(Arg, &mut [u8])> =
        // SAFETY: locked to be written until the work is done, and apart from all else.
        written.iter().map(|(arg, part)| (*arg, unsafe { part.slice_mut(origin(part)) })).collect();
    let result = work(&inputs, &mut outputs);
    drop(locked);
    result
}

/// Rooms of copies that a thread keeps, and the most bytes of one.
const KEPT: usize = 2;
const KEPT_BYTES: usize = 1 << 24;

thread_local! {
    static SPARE: RefCell<Vec<Bytes>> = const { RefCell::new(Vec::new()) };
}

/// A copy, whose room the thread keeps for the next one: to get new memory from the system takes ten times as long as to copy into it.
struct Copied {
    room: Bytes,
    length: usize,
}

impl Copied {
    fn new(bytes: &[u8]) -> Result<Self> {
        let spare = SPARE.with_borrow_mut(|spare| {
            let fitting = spare.iter().position(|room| room.len() >= bytes.len())?;
            Some(spare.swap_remove(fitting))
        });
        let room = match spare {
            None => Bytes::copied(bytes)?,
            Some(mut room) => {
                room[..bytes.len()].copy_from_slice(bytes);
                room
            }
        };
        Ok(Self { room, length: bytes.len() })
    }

    fn bytes(&self) -> &[u8] {
        &self.room[..self.length]
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        let room = std::mem::take(&mut self.room);
        if room.len() > KEPT_BYTES {
            return;
        }
        // At a thread's end the rooms may be gone already, and nothing is kept.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            spare.push(room);
            if spare.len() > KEPT {
                spare.sort_unstable_by_key(|room| std::cmp::Reverse(room.len()));
                spare.truncate(KEPT);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostEngine;
    use anydnn_backend::op::{Binary, Op};
    use anydnn_backend::{
        BinaryAlgorithm, DataType, Engine, Event, MapMode, Memory, MemoryDesc, MemoryKind, Stream, StreamDesc,
    };

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
        with_slices(&desc, &args, &|_| false, |inputs, outputs| crate::compute(&desc, inputs, outputs))?;
        Ok(whole.map(MapMode::Read)?.bytes().to_vec())
    }

    /// Fast forms read it where it is; where one cannot run, as on bytes that are no numbers, it is copied.
    #[test]
    fn an_operand_in_the_place_of_the_result_keeps_its_values() {
        let engine = HostEngine::new();
        let tensor = MemoryDesc::new([5, 700], DataType::F32);
        let desc = PrimitiveDesc::builder(Op::Binary(Binary::new(BinaryAlgorithm::Subtract)))
            .src(tensor.clone())
            .src(tensor.clone())
            .dst(tensor.clone())
            .build()
            .unwrap();
        let primitive = engine.create_primitive(&desc).unwrap();
        assert!(primitive.reads_in_place(Arg::Src(0)) && primitive.reads_in_place(Arg::Src(1)));
        let stream = engine.create_stream(&StreamDesc::default()).unwrap();
        let values = |from: f32| -> Vec<f32> { (0..3500).map(|i| i as f32 + from).collect() };
        for (shift, places) in [(0, [0, 1, 0]), (0, [1, 0, 0]), (0, [0, 0, 0]), (2, [0, 1, 0])] {
            let bytes = MemoryDesc::new([2 * 14_000 + shift], DataType::U8);
            let whole = engine.create_memory(&bytes, MemoryKind::Host).unwrap();
            let at = |place: usize| whole.view(&tensor, shift + place * 14_000).unwrap();
            stream.write(&at(0), 0, bytemuck::cast_slice(&values(1.0)), &[]).unwrap();
            stream.write(&at(1), 0, bytemuck::cast_slice(&vec![3.0_f32; 3500]), &[]).unwrap();
            let args = [Arg::Src(0), Arg::Src(1), Arg::DST].into_iter().zip(places.map(at));
            stream.execute(&primitive, &args.collect::<Vec<_>>(), &[]).unwrap().wait().unwrap();
            let made = at(0).map(MapMode::Read).unwrap().bytes().to_vec();
            let expected: Vec<f32> = match places {
                [0, 1, 0] => values(-2.0),
                [1, 0, 0] => values(-2.0).into_iter().map(|x| 0.0 - x).collect(),
                _ => vec![0.0; 3500],
            };
            assert_eq!(made, bytemuck::cast_slice::<f32, u8>(&expected), "{places:?}, {shift} bytes on");
        }
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
    fn a_thread_keeps_the_largest_rooms_of_copies_up_to_a_size() {
        let at = |bytes: &[u8]| {
            let copy = Copied::new(bytes).unwrap();
            assert_eq!(copy.bytes(), bytes);
            copy.bytes().as_ptr()
        };
        std::thread::spawn(move || {
            let first = at(&[1; 5000]);
            assert_eq!(at(&[2; 5000]), first);
            assert_eq!(at(&[3; 70]), first);
            let two = [[4; 100], [5; 100]].map(|bytes| Copied::new(&bytes).unwrap());
            drop(two);
            let sizes = || SPARE.with_borrow(|spare| spare.iter().map(|room| room.len()).collect::<Vec<_>>());
            assert_eq!(sizes(), [5056, 128]);
            at(&vec![6; KEPT_BYTES + 1]);
            assert_eq!(sizes(), [5056, 128]);
            let three = [300, 9000, 40].map(|length| Copied::new(&vec![7; length]).unwrap());
            drop(three);
            assert_eq!(sizes(), [9024, 5056]);
        })
        .join()
        .unwrap();
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
        let error = with_slices(&desc, &args, &|_| false, |_, _| Ok(())).unwrap_err();
        assert!(error.to_string().contains("sharing bytes"), "{error}");
    }

    /// What is written into a result shows in no input, wherever they lie: in one allocation, or at addresses of the process.
    #[test]
    fn inputs_keep_their_values_while_results_are_written() {
        let engine = HostEngine::new();
        let part = MemoryDesc::new([4], DataType::U8);
        let desc = PrimitiveDesc::builder(Op::Binary(Binary::new(BinaryAlgorithm::Subtract)))
            .src(part.clone())
            .src(part.clone())
            .dst(part.clone())
            .build()
            .unwrap();
        let old = [10_u8, 20, 30, 40, 50, 60, 70, 80];
        let check = |memories: &[HostMemory], offsets: [usize; 3]| {
            let args: Vec<_> =
                [Arg::Src(0), Arg::Src(1), Arg::DST].into_iter().zip(memories.to_vec()).collect();
            with_slices(&desc, &args, &|_| false, |inputs, outputs| {
                outputs[0].1.fill(0);
                for (arg, bytes) in inputs {
                    let offset = offsets[usize::from(*arg == Arg::Src(1))];
                    assert_eq!(*bytes, &old[offset..offset + 4], "{arg} of {offsets:?}");
                }
                Ok(())
            })
            .unwrap();
        };
        for offsets in [[4, 0, 4], [0, 0, 0], [0, 4, 2], [1, 0, 4]] {
            let whole = engine.create_memory(&MemoryDesc::new([8], DataType::U8), MemoryKind::Host).unwrap();
            Part::whole(&whole).write(|bytes| bytes.copy_from_slice(&old));
            check(&offsets.map(|offset| whole.view(&part, offset).unwrap()), offsets);
            let mut bytes = old;
            let start: *mut u8 = bytes.as_mut_ptr();
            let at = |offset| {
                // SAFETY: four bytes of the array, which is not touched meanwhile.
                unsafe { HostMemory::from_pointer(&engine, &part, start.wrapping_add(offset).cast()) }
                    .unwrap()
            };
            check(&offsets.map(at), offsets);
            let written = offsets[2];
            assert!(bytes.iter().zip(old).enumerate().all(|(i, (&new, old))| {
                new == if (written..written + 4).contains(&i) { 0 } else { old }
            }));
        }
    }
}

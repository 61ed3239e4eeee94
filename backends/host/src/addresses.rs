//! Primitives on operands at addresses, for backends whose devices are the processor.

use std::slice;
use std::sync::LazyLock;

use anydnn_backend::{Arg, Primitive, Result};

use crate::binding::Few;
use crate::fast::Crew;
use crate::primitive::HostPrimitive;

/// The threads of such computations: the caller alone.
static ALONE: LazyLock<Crew> = LazyLock::new(|| Crew::new(1));

impl HostPrimitive {
    /// Computes it on the calling thread, on operands at addresses. Those in place of a result, and those that share
    /// bytes with one, are read as they were before.
    ///
    /// # Errors
    /// An operand is missing.
    ///
    /// # Safety
    /// - At each address lie as many bytes as the description says of the argument, which nobody else writes meanwhile, nor reads where they
    ///   are written.
    /// - Results lie apart from each other.
    pub unsafe fn compute_at(&self, operands: &[(Arg, *mut u8)]) -> Result<()> {
        let desc = self.desc();
        let (mut read, mut written) =
            (Few::<(Arg, *mut u8, usize)>::new(), Few::<(Arg, *mut u8, usize)>::new());
        // Operands between elements are copied to where vectors can read them: results are the same wherever operands are.
        let mut between = Few::new();
        for &(arg, address) in operands {
            let (Some(operand), Some(access)) = (desc.find(arg), desc.access(arg)) else { continue };
            let list = if access.writes() { &mut written } else { &mut read };
            list.push((arg, address, operand.size()));
            if !address.addr().is_multiple_of(operand.data_type().bits().div_ceil(8)) {
                between.push(arg);
            }
        }
        let overlap = |a: (*mut u8, usize), b: (*mut u8, usize)| {
            a.1 > 0 && b.1 > 0 && a.0.addr() < b.0.addr() + b.1 && b.0.addr() < a.0.addr() + a.1
        };
        let first = written.first().filter(|(arg, ..)| !between.contains(arg));
        let first = first.map(|&(_, address, bytes)| (address.addr(), bytes));
        let mut left_out = None;
        let mut copies: Few<(Arg, Copied)> = Few::new();
        let mut inputs: Few<(Arg, &[u8])> = Few::new();
        for &(arg, address, bytes) in &read {
            let shares = written.iter().any(|&(_, other, size)| overlap((address, bytes), (other, size)));
            if !shares && !between.contains(&arg) {
                // SAFETY: by contract, and no result shares these bytes.
                inputs.push((arg, unsafe { bytes_at(address, bytes) }));
            } else if left_out.is_none() && first == Some((address.addr(), bytes)) && self.reads_in_place(arg)
            {
                left_out = Some(arg);
            } else {
                // SAFETY: by contract; there is no slice of the result yet.
                copies.push((arg, Copied::of(unsafe { bytes_at(address, bytes) })));
            }
        }
        inputs.extend(copies.iter().map(|(arg, copy)| (*arg, copy.bytes())));
        let mut results: Few<(*mut u8, Copied)> = Few::new();
        for &(_, address, bytes) in written.iter().filter(|(arg, ..)| between.contains(arg)) {
            // SAFETY: by contract; there is no slice of the result.
            results.push((address, Copied::of(unsafe { bytes_at(address, bytes) })));
        }
        let mut aside = results.iter_mut();
        let mut outputs: Few<(Arg, &mut [u8])> = Few::new();
        for &(arg, address, bytes) in &written {
            let slice: &mut [u8] = if between.contains(&arg) {
                aside.next().map_or(&mut [], |(_, copy)| copy.bytes_mut())
            } else if bytes == 0 {
                &mut []
            } else {
                // SAFETY: by contract; inputs in the same place were copied or left out.
                unsafe { slice::from_raw_parts_mut(address, bytes) }
            };
            outputs.push((arg, slice));
        }
        self.compute_by(&ALONE, |work| work(), &inputs, &mut outputs)?;
        drop(outputs);
        for (address, copy) in &results {
            // SAFETY: by contract, as many bytes are there.
            unsafe { address.copy_from_nonoverlapping(copy.bytes().as_ptr(), copy.bytes) };
        }
        Ok(())
    }
}

/// Bytes where numbers of any type may lie.
struct Copied {
    words: Vec<u64>,
    bytes: usize,
}

impl Copied {
    fn of(bytes: &[u8]) -> Self {
        let mut copied = Self { words: vec![0; bytes.len().div_ceil(8)], bytes: bytes.len() };
        copied.bytes_mut().copy_from_slice(bytes);
        copied
    }

    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.bytes]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.bytes]
    }
}

/// # Safety
/// The bytes are there for as long as the slice is, and nobody writes them.
unsafe fn bytes_at<'a>(address: *mut u8, bytes: usize) -> &'a [u8] {
    // SAFETY: by contract.
    if bytes == 0 { &[] } else { unsafe { slice::from_raw_parts(address, bytes) } }
}

#[cfg(test)]
mod tests {
    use anydnn_backend::op::{Binary, BinaryAlgorithm};
    use anydnn_backend::{DataType, Engine, MemoryDesc, Op, PrimitiveDesc};

    use super::*;
    use crate::engine::HostEngine;

    #[test]
    fn results_are_the_same_wherever_operands_are() {
        let engine = HostEngine::new();
        let builder = PrimitiveDesc::builder(Op::MatMul(anydnn_backend::op::MatMul));
        let matrix = |rows, columns| MemoryDesc::new([rows, columns], DataType::F32);
        let builder = builder.src(matrix(3, 40)).weights(matrix(40, 17)).dst(matrix(3, 17));
        let product = engine.create_primitive(&builder.build().unwrap()).unwrap();
        let numbers = |count: usize| (0..count).map(|i| ((i * 37 % 101) as f32 - 50.0) / 17.0);
        let mut expected = Vec::new();
        for (at, offset) in [0_usize, 1, 2, 3].into_iter().enumerate() {
            let place = |numbers: &mut dyn Iterator<Item = f32>| -> Vec<u8> {
                std::iter::repeat_n(0, offset).chain(numbers.flat_map(f32::to_ne_bytes)).collect()
            };
            let [mut src, mut weights, mut dst] = [120, 680, 51].map(|count| place(&mut numbers(count)));
            let operands = [(Arg::SRC, &mut src), (Arg::Weights, &mut weights), (Arg::DST, &mut dst)];
            let operands = operands.map(|(arg, bytes)| (arg, bytes.as_mut_ptr().wrapping_add(offset)));
            // SAFETY: the operands lie there.
            unsafe { product.compute_at(&operands) }.unwrap();
            if at == 0 {
                expected = dst[offset..].to_vec();
            }
            assert!(dst[offset..] == expected, "{offset} bytes in");
        }
    }

    #[test]
    fn operands_that_share_bytes_with_a_result_are_read_as_they_were() {
        let engine = HostEngine::new();
        let desc = MemoryDesc::new([4], DataType::F32);
        let builder = PrimitiveDesc::builder(Op::Binary(Binary::new(BinaryAlgorithm::Subtract)));
        let builder = builder.src(desc.clone()).arg(Arg::Src(1), desc.clone()).dst(desc);
        let subtract = engine.create_primitive(&builder.build().unwrap()).unwrap();
        // The left operand and the result are one, or a number apart; the right one is in place, too.
        for (left, right, result) in [(0, 8, 0), (8, 0, 0), (0, 0, 0), (1, 8, 0), (8, 1, 0), (0, 8, 4)] {
            let mut numbers: Vec<f32> = (0..12_u8).map(|number| f32::from(number * number)).collect();
            let before = numbers.clone();
            let start = numbers.as_mut_ptr();
            let at = |place: usize| start.wrapping_add(place).cast::<u8>();
            let operands = [(Arg::SRC, at(left)), (Arg::Src(1), at(right)), (Arg::DST, at(result))];
            // SAFETY: four numbers lie at each place.
            unsafe { subtract.compute_at(&operands) }.unwrap();
            for i in 0..4 {
                assert_eq!(
                    numbers[result + i],
                    before[left + i] - before[right + i],
                    "{left} {right} {result}"
                );
            }
        }
    }
}

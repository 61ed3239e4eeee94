//! Convolutions and deconvolutions of dequantised integers on CPUs without units for them: the operands become f32 in working memory, once for
//! all the sums that read them, and are convolved by register tiles.

use anydnn_backend::{Arg, DataType, MemoryDesc, PrimitiveDesc, Quantized};

use super::Shape;
use crate::plan::{DeviceTraits, Launch, LaunchArg};
use crate::primitive::choice::Planned;
use crate::primitive::embedded::{Scratch, embedded};
use crate::primitive::pointwise::{self, Statements};
use crate::primitive::quantized;
use crate::primitive::rows::CPU_LANES;
use crate::primitive::space::{Binding, Index, Space};
use crate::primitive::sums::{accumulator, is_real};
use crate::primitive::value::Value;

/// Products for each element that becomes f32 from which on the copies take little beside the sums.
const SHARE: usize = 64;
/// The same where products would be one after the other.
const SLOW_SHARE: usize = 4;
/// Products that take longer than launches of copies.
const WORTH: usize = 4 << 20;

impl Shape<'_> {
    /// The copies, and the convolution of them by what suits f32; none of few sums, which read their factors as they lie.
    pub(super) fn dequantized(&self, value: Value, device: &DeviceTraits) -> Option<Planned> {
        let desc = self.desc;
        let products = desc.dst().elements().saturating_mul(self.terms());
        let read = desc.src().elements().saturating_add(self.weights.elements());
        let own = |of: Quantized| if of == Quantized::Weights { self.weights } else { desc.src() };
        let is_dequantized = |of: Quantized| quantized::is_dequantized(desc, of.arg());
        let is_copied = |of: Quantized| own(of).data_type() != DataType::F32 || is_dequantized(of);
        let is_small = |of: Quantized| !own(of).data_type().is_float() && own(of).data_type().bits() <= 8;
        let means_f32 = |of: Quantized| !is_copied(of) || is_small(of) || is_dequantized(of);
        let both = [Quantized::Src(0), Quantized::Weights];
        // Sums of integers that 32 bits do not hold are floats in the end.
        let sums = is_real(desc)
            || desc.dst().data_type().is_float() && accumulator(desc, self.terms(), value) != "int";
        // Nothing else serves these but one product after the other.
        let is_last = !is_real(desc) || self.outputs < CPU_LANES / 2;
        let share = if is_last { SLOW_SHARE } else { SHARE };
        let applies = value == Value::F32
            && sums
            && both.into_iter().any(is_copied)
            && both.into_iter().all(means_f32)
            && products >= WORTH
            && products >= read.saturating_mul(share);
        if !applies {
            return None;
        }
        let mut attributes = desc.attributes().clone();
        attributes.dequantize.clear();
        // Each execution would transform its copy of the weights.
        attributes.winograd &= !is_copied(Quantized::Weights);
        let in_f32 = |own: &MemoryDesc| {
            // What lies in one place may mean several numbers, each with a zero point of its own.
            if own.overlaps_itself() {
                return MemoryDesc::new(own.dims().clone(), DataType::F32);
            }
            let same = MemoryDesc::with_layout(own.dims().clone(), DataType::F32, own.layout().clone());
            same.unwrap_or_else(|_| MemoryDesc::new(own.dims().clone(), DataType::F32))
        };
        let src = if is_copied(Quantized::Src(0)) { in_f32(desc.src()) } else { desc.src().clone() };
        let weights = if is_copied(Quantized::Weights) {
            MemoryDesc::new(self.weights.dims().clone(), DataType::F32).to_any()
        } else {
            self.weights.clone()
        };
        let mut builder = PrimitiveDesc::builder(desc.op().clone()).src(src).weights(weights);
        if let Some(bias) = desc.find(Arg::Bias) {
            builder = builder.bias(bias.clone());
        }
        let inner = builder.dst(desc.dst().clone()).attributes(attributes).build().ok()?;
        let mut inner = crate::primitive::resolved(inner, device).ok()?;
        // Elements are written one by one into what strides tell.
        let weights = inner.find(Arg::Weights)?;
        if is_copied(Quantized::Weights) && weights.blocking().is_none() {
            let plain = weights.to_row_major();
            inner = inner.opened(Arg::Weights).resolved(Arg::Weights, plain).ok()?;
        }

        let (mut scratch, mut launches, mut places) = (Scratch::default(), Vec::new(), Vec::new());
        for of in both {
            if is_copied(of) {
                let copy = inner.find(of.arg())?;
                let offset = scratch.take(copy.size());
                launches.push(self.dequantize(of, own(of), copy, offset, device)?);
                places.push((of.arg(), offset));
            }
        }
        launches.extend(embedded(&inner, device, &mut scratch, |arg| {
            let place = places.iter().find(|place| place.0 == arg);
            place.map_or(LaunchArg::Memory(arg), |&(_, offset)| LaunchArg::Scratchpad { offset })
        })?);
        Some(Planned { scratchpad: scratch.bytes, launches })
    }

    /// The launch that writes what an operand's elements mean into working memory from this byte on.
    fn dequantize(
        &self,
        of: Quantized,
        own: &MemoryDesc,
        copy: &MemoryDesc,
        start: usize,
        device: &DeviceTraits,
    ) -> Option<Launch> {
        let dims = own.dims();
        let mut space = Space::default();
        let mut index = vec![Index::default(); dims.len()];
        // Elements that are stored side by side come last: lanes of a panel, or else the axis of the shortest step.
        let blocking = copy.blocking()?;
        let shortest = (0..dims.len()).min_by_key(|&axis| blocking.strides[axis]).unwrap_or(0);
        let (last, width) = blocking.inner.first().copied().unwrap_or((shortest, 1));
        for axis in (0..dims.len()).filter(|&axis| axis != last) {
            index[axis] = Index::of(space.push(format!("d{axis}"), dims[axis]));
        }
        index[last] = if width > 1 && dims[last].is_multiple_of(width) {
            let (panel, lane) = (space.push("panel", dims[last] / width), space.push("lane", width));
            Index::sum(&[(panel, width), (lane, 1)])
        } else {
            Index::of(space.push(format!("d{last}"), dims[last]))
        };
        space.operand("SRC0", Binding::Arg(of.arg()), own, &index);
        let compute = quantized::meaning(&mut space, self.desc, of, dims, &index, true);
        space.operand("DST", Binding::Scratchpad(start), copy, &index);
        let compute = format!("V v = {compute};");
        let statements = Statements { compute: &compute, ..Statements::default() };
        let wide = self.wide || i32::try_from(start + copy.size()).is_err();
        Some(pointwise::launch_all(space, Value::F32, None, statements, wide, device).0)
    }
}

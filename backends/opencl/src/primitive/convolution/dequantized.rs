//! Convolutions and deconvolutions of dequantised integers on CPUs without units for them: the operands become f32 in working memory, once for
//! all the sums that read them, and are convolved by register tiles.

use anydnn_backend::{Arg, DataType, MemoryDesc, PrimitiveDesc, Quantized};

use super::Shape;
use crate::plan::{DeviceTraits, Launch, LaunchArg};
use crate::primitive::choice::Planned;
use crate::primitive::embedded::{Scratch, embedded};
use crate::primitive::pointwise::{self, Statements};
use crate::primitive::quantized;
use crate::primitive::space::{Binding, Index, Space};
use crate::primitive::sums::is_real;
use crate::primitive::value::Value;

/// Products for each element that becomes f32 from which on the copies take little beside the sums.
const SHARE: usize = 64;
/// Products that take longer than launches of copies.
const WORTH: usize = 4 << 20;

impl Shape<'_> {
    /// The copies, and the convolution of them by what suits f32; none of few sums, which read their factors as they lie.
    pub(super) fn dequantized(&self, value: Value, device: &DeviceTraits) -> Option<Planned> {
        let desc = self.desc;
        let products = desc.dst().elements().saturating_mul(self.terms());
        let read = desc.src().elements().saturating_add(self.weights.elements());
        let is_f32 =
            |arg, own: &MemoryDesc| own.data_type() == DataType::F32 || quantized::is_dequantized(desc, arg);
        let applies = value == Value::F32
            && is_real(desc)
            && !desc.attributes().dequantize.is_empty()
            && is_f32(Arg::SRC, desc.src())
            && is_f32(Arg::Weights, self.weights)
            && products >= WORTH.max(read.saturating_mul(SHARE));
        if !applies {
            return None;
        }
        let mut attributes = desc.attributes().clone();
        attributes.dequantize.clear();
        let in_f32 = |own: &MemoryDesc| {
            let same = MemoryDesc::with_layout(own.dims().clone(), DataType::F32, own.layout().clone());
            same.unwrap_or_else(|_| MemoryDesc::new(own.dims().clone(), DataType::F32))
        };
        let is_copied = |of: Quantized| quantized::is_dequantized(desc, of.arg());
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
        let inner = crate::primitive::resolved(inner, device).ok()?;

        let (mut scratch, mut launches, mut places) = (Scratch::default(), Vec::new(), Vec::new());
        for (of, own) in [(Quantized::Src(0), desc.src()), (Quantized::Weights, self.weights)] {
            if is_copied(of) {
                let copy = inner.find(of.arg())?;
                let offset = scratch.take(copy.size());
                launches.push(self.dequantize(of, own, copy, offset, device)?);
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

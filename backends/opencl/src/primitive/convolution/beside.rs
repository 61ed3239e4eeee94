//! Convolutions of images whose channels do not lie side by side, for CPUs: copies that have them so take less time than elements one by
//! one.

use anydnn_backend::op::{Op, Reorder};
use anydnn_backend::{Arg, MemoryDesc, PostOp, PrimitiveDesc};

use super::Shape;
use super::blocked::compete_at;
use crate::plan::{DeviceTraits, LaunchArg};
use crate::primitive::choice::Planned;
use crate::primitive::embedded::{Scratch, embedded};
use crate::primitive::rows::CPU_LANES;
use crate::primitive::value::Value;

/// Groups that fill enough of a vector.
const GROUPS: usize = 4;
/// Products that take longer one by one than launches of copies.
const WORTH: usize = 16 << 10;

impl Shape<'_> {
    /// A depthwise convolution, or a transposed one, between copies with the channels last; none where all operands have them so, or where
    /// vectors of them do not serve that one either.
    pub(super) fn depthwise_beside(&self, value: Value, device: &DeviceTraits) -> Option<Planned> {
        if self.groups < GROUPS {
            return None;
        }
        self.beside(&[(Arg::SRC, 1), (Arg::Weights, 0), (Arg::DST, 1)], device, |inner| {
            match self.desc.op() {
                Op::Convolution(op) => Shape::new(inner, op, device).depthwise_rows(value, device).is_some(),
                Op::Deconvolution(op) => {
                    Shape::transposed(inner, op, device).depthwise(value, device).is_some()
                }
                _ => false,
            }
        })
    }

    /// A transposed convolution with its channels last in a copy of the result, where otherwise channels that are stored one after the other
    /// share places in a cache.
    pub(super) fn vector_beside(&self, value: Value, device: &DeviceTraits) -> Option<Planned> {
        let Op::Deconvolution(op) = self.desc.op() else { return None };
        let competes = self.desc.dst().strides().is_some_and(|steps| compete_at(steps[1]));
        if !competes || self.outputs < CPU_LANES {
            return None;
        }
        self.beside(&[(Arg::DST, 1)], device, |inner| {
            Shape::transposed(inner, op, device).vector(value, device, false).is_some()
        })
    }

    /// The same convolution with these arguments copied to have the axes that are given last; none where all have, where the result is added
    /// to what it replaces, or where it does not serve.
    fn beside(
        &self,
        copied: &[(Arg, usize)],
        device: &DeviceTraits,
        serves: impl Fn(&PrimitiveDesc) -> bool,
    ) -> Option<Planned> {
        let desc = self.desc;
        let adds = desc.attributes().post_ops.iter().any(|post_op| matches!(post_op, PostOp::Sum { .. }));
        if adds || desc.dst().elements().saturating_mul(self.terms()) < WORTH {
            return None;
        }
        let (mut scratch, mut inner) = (Scratch::default(), desc.clone());
        let mut copies = Vec::new();
        for &(arg, axis) in copied {
            let own = desc.find(arg)?;
            let copy = with_last(own, axis)?;
            if !own.same_bytes(&copy) {
                let at = LaunchArg::Scratchpad { offset: scratch.take(copy.size()) };
                inner = inner.opened(arg).resolved(arg, copy.clone()).ok()?;
                copies.push((arg, own, copy, at));
            }
        }
        if copies.is_empty() || !serves(&inner) {
            return None;
        }
        let moved = |arg: Arg| copies.iter().find(|copy| copy.0 == arg);
        let mut launches = Vec::new();
        for (arg, own, copy, at) in copies.iter().filter(|copy| copy.0 != Arg::DST) {
            let to = |place| if place == Arg::DST { *at } else { LaunchArg::Memory(*arg) };
            launches.extend(embedded(&reorder(own, copy)?, device, &mut scratch, to)?);
        }
        let place = |arg| moved(arg).map_or(LaunchArg::Memory(arg), |copy| copy.3);
        launches.extend(embedded(&inner, device, &mut scratch, place)?);
        if let Some((arg, own, copy, at)) = moved(Arg::DST) {
            let from = |place| if place == Arg::SRC { *at } else { LaunchArg::Memory(*arg) };
            launches.extend(embedded(&reorder(copy, own)?, device, &mut scratch, from)?);
        }
        Some(Planned { scratchpad: scratch.bytes, launches })
    }
}

fn reorder(from: &MemoryDesc, to: &MemoryDesc) -> Option<PrimitiveDesc> {
    PrimitiveDesc::builder(Reorder).src(from.clone()).dst(to.clone()).build().ok()
}

/// The dense layout that has one axis last, behind the others in their order.
fn with_last(desc: &MemoryDesc, axis: usize) -> Option<MemoryDesc> {
    let letter = |axis: usize| char::from(b'a' + axis as u8);
    let others = (0..desc.rank()).filter(|&other| other != axis).map(letter);
    let tag: String = others.chain([letter(axis)]).collect();
    MemoryDesc::with_tag(desc.dims().clone(), desc.data_type(), &tag).ok()
}

//! The fast forms of primitives: f32 in plain layouts, by the processor's vector instructions and without memory between executions.
//!
//! Narrow types are converted before and behind the form of f32; products of 8-bit integers are exact sums of words of four.
//!
//! A form is planned once from the description and takes what it knows; everything else is computed by the reference in
//! [`compute`](crate::compute), with which conformance compares it. `ANYDNN_HOST` masks it, see [`Mode`].

#![expect(
    clippy::inline_always,
    reason = "bodies take the instructions of the functions that they are compiled into"
)]

mod attention;
mod call;
mod cells;
mod concat;
mod conversion;
mod convolution;
mod crew;
mod deconvolution;
mod depthwise;
mod dots;
mod finish;
mod functions;
mod images;
mod integers;
mod lanes;
mod level;
mod lines;
mod math;
mod matmul;
mod mode;
mod nodes;
mod panels;
mod places;
mod pooling;
mod pooling_blocks;
mod product;
mod quantizing;
mod recurrent;
mod reduction;
mod resampling;
mod rows;
mod scores;
mod short_rows;
mod sink;
mod spread;
mod streaming;
mod sums;
mod tasks;
mod tile;
mod transpose;
mod units;
mod weights;
mod widened;
mod windows;
mod words;

use std::fmt::Debug;
use std::marker::PhantomData;

use anydnn_backend::{Arg, Op, PrimitiveDesc};

pub(crate) use call::Call;
pub(crate) use crew::Crew;
#[cfg(test)]
pub(crate) use level::Level;
pub(crate) use mode::Mode;

/// A primitive as it is computed fast.
pub(crate) trait Fast: Debug + Send + Sync {
    /// The name of the implementation.
    fn name(&self) -> &'static str;

    /// Whether an operand that lies in the place of the result, and is exactly as large, may be missing in a call, where no other one is: each of
    /// its elements is read before that of the result is written.
    fn reads_in_place(&self, arg: Arg) -> bool {
        let _ = arg;
        false
    }

    /// Computes it. The call binds every operand of the description but those that are in the place of the result.
    fn run(&self, call: &Call<'_>);
}

/// The description with the layouts that fast forms prefer, where they are open.
pub(crate) fn resolve(desc: PrimitiveDesc) -> PrimitiveDesc {
    if !desc.args().iter().any(|operand| operand.desc.is_any()) {
        return desc;
    }
    match desc.op().clone() {
        Op::MatMul(_) => matmul::resolve(desc),
        Op::Convolution(op) => convolution::resolve(&op, desc),
        Op::Deconvolution(op) => deconvolution::resolve(&op, desc),
        _ => desc,
    }
}

/// The fast form of a description whose layouts are resolved; none where there is none.
pub(crate) fn plan(desc: &PrimitiveDesc) -> Option<Box<dyn Fast>> {
    plan_of_f32(desc).or_else(|| widened::Widened::new(desc).map(|made| Box::new(made) as Box<dyn Fast>))
}

/// The fast form of a description of f32.
fn plan_of_f32(desc: &PrimitiveDesc) -> Option<Box<dyn Fast>> {
    if !desc.attributes().dequantize.is_empty() {
        return None;
    }
    match desc.op() {
        Op::MatMul(_) => matmul::MatMul::new(desc).map(|made| Box::new(made) as Box<dyn Fast>),
        Op::Concat(op) => concat::Concat::new(*op, desc).map(|made| Box::new(made) as Box<dyn Fast>),
        Op::Convolution(op) => convolution::plan(op, desc),
        Op::Deconvolution(op) => {
            deconvolution::Deconvolution::new(op, desc).map(|made| Box::new(made) as Box<dyn Fast>)
        }
        Op::Attention(op) => attention::Attention::new(op, desc).map(|made| Box::new(made) as Box<dyn Fast>),
        Op::Expression(op) => quantizing::Quantizing::new(op, desc)
            .map(|made| Box::new(made) as Box<dyn Fast>)
            .or_else(|| Some(Box::new(nodes::Nodes::of_expression(op, desc)?))),
        Op::Pooling(op) => pooling::Pooling::new(op, desc).map(|made| Box::new(made) as Box<dyn Fast>),
        Op::Recurrent(op) => recurrent::Recurrent::new(op, desc).map(|made| Box::new(made) as Box<dyn Fast>),
        Op::Reduction(op) => reduction::Reduction::new(*op, desc).map(|made| Box::new(made) as Box<dyn Fast>),
        Op::Resampling(op) => {
            resampling::Resampling::new(*op, desc).map(|made| Box::new(made) as Box<dyn Fast>)
        }
        Op::Softmax(_) | Op::LayerNormalization(_) => rows::plan(desc),
        Op::Binary(op) => streaming::Streaming::new(desc)
            .map(|made| Box::new(made) as Box<dyn Fast>)
            .or_else(|| Some(Box::new(nodes::Nodes::of_truth(op, desc)?))),
        Op::Select(_) => nodes::Nodes::of_select(desc).map(|made| Box::new(made) as Box<dyn Fast>),
        Op::Reorder(_) | Op::Eltwise(_) | Op::BatchNormalization(_) => {
            streaming::Streaming::new(desc).map(|made| Box::new(made) as Box<dyn Fast>)
        }
        _ => None,
    }
}

/// Numbers of which threads write parts of their own.
#[derive(Clone, Copy)]
struct Shared<'a> {
    data: *mut f32,
    length: usize,
    /// The bytes in all, which may be more or lie as no numbers do.
    bytes: usize,
    lifetime: PhantomData<&'a mut [f32]>,
}

// SAFETY: `part` promises that threads write parts of their own.
unsafe impl Sync for Shared<'_> {}
// SAFETY: as above.
unsafe impl Send for Shared<'_> {}

impl<'a> Shared<'a> {
    fn new(data: &'a mut [f32]) -> Self {
        Self { data: data.as_mut_ptr(), length: data.len(), bytes: size_of_val(data), lifetime: PhantomData }
    }

    /// Bytes that hold numbers, or are not used as such.
    fn of_bytes(bytes: &'a mut [u8]) -> Self {
        Self {
            data: bytes.as_mut_ptr().cast(),
            length: bytes.len() / size_of::<f32>(),
            bytes: bytes.len(),
            lifetime: PhantomData,
        }
    }

    /// A pointer to some numbers.
    fn pointer(&self, first: usize, count: usize) -> *mut f32 {
        assert!(first <= self.length && count <= self.length - first, "a part of the numbers");
        // SAFETY: the place is inside of the numbers or at their end.
        unsafe { self.data.add(first) }
    }

    /// So many numbers from a place on.
    ///
    /// # Safety
    /// No other part that is alive has any of them.
    unsafe fn part(&self, first: usize, count: usize) -> &'a mut [f32] {
        // SAFETY: the part lies inside, and is the caller's alone.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(first, count), count) }
    }

    /// So many bytes from one on.
    ///
    /// # Safety
    /// No other part that is alive has any of them.
    unsafe fn bytes_part(&self, first: usize, count: usize) -> &'a mut [u8] {
        assert!(first <= self.bytes && count <= self.bytes - first, "a part of the bytes");
        // SAFETY: the part lies inside, and is the caller's alone.
        unsafe { std::slice::from_raw_parts_mut(self.data.cast::<u8>().add(first), count) }
    }
}

#[cfg(test)]
mod tests;

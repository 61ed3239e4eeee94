//! What every operation means, in f64 on logical row-major arrays: plain index loops, independent of every backend.
//!
//! Where the descriptions of the operations leave room, these are the decisions: a bias is added before the post-operations; the
//! post-operations see the unrounded result; the last step stores it, see [`DataType::stored`](crate::DataType::stored).

mod attention;
mod expression;
mod gradients;
mod local_response;
mod matmul;
mod movement;
mod normalization;
mod recurrent;
mod recurrent_backward;
mod reduction;
mod resampling;
mod softmax;
mod tensor;
mod windows;

use std::collections::BTreeMap;

pub use tensor::Tensor;

use crate::op::Op;
use crate::{Access, Arg, Dequantize, Dims, Error, PostOp, PrimitiveDesc, Result};

/// The operands that an operation reads, and the results that it gives.
pub type Tensors = BTreeMap<Arg, Tensor>;

/// Every result of a primitive as stored, by argument.
///
/// `inputs` holds every operand that the primitive reads, after rounding to its type; with a sum among the post-operations,
/// [`Arg::DST`] is the old content as the sum reads it. Layouts do not matter.
///
/// ```
/// use anydnn_backend::conformance::reference::{self, Tensor};
/// use anydnn_backend::op::{MatMul, Op};
/// use anydnn_backend::{Arg, DataType, MemoryDesc, PrimitiveDesc};
/// let desc = PrimitiveDesc::builder(Op::MatMul(MatMul))
///     .src(MemoryDesc::new([1, 2], DataType::F32))
///     .weights(MemoryDesc::new([2, 1], DataType::F32))
///     .build()?;
/// let inputs = [
///     (Arg::SRC, Tensor::new([1, 2], vec![3.0, 4.0])?),
///     (Arg::Weights, Tensor::new([2, 1], vec![5.0, 6.0])?),
/// ];
/// assert_eq!(reference::compute(&desc, &inputs.into())?[&Arg::DST].values, [39.0]);
/// # Ok::<(), anydnn_backend::Error>(())
/// ```
///
/// # Errors
/// [`Error::Invalid`] when an operand is missing or has other dimensions than its descriptor.
pub fn compute(desc: &PrimitiveDesc, inputs: &Tensors) -> Result<Tensors> {
    for operand in desc.args().iter().filter(|operand| operand.access.reads()) {
        let given = inputs.get(&operand.arg).map(|tensor| &tensor.dims);
        if given != Some(operand.desc.dims()) {
            let given = given.map_or("missing".to_owned(), Dims::to_string);
            return Err(Error::invalid(
                desc.op().name(),
                operand.arg.to_string(),
                given,
                operand.desc.dims().to_string(),
            ));
        }
    }
    let seen = dequantize(desc, inputs);
    let operands = Operands { desc, inputs: &seen };
    let mut results = match desc.op() {
        Op::MatMul(_) => operands.result(matmul::matmul(&operands)),
        Op::Convolution(op) => operands.result(windows::convolution(op, &operands)),
        Op::Pooling(op) => operands.result(windows::pooling(op, &operands)),
        Op::Deconvolution(op) => operands.result(gradients::deconvolution(op, &operands)),
        Op::ConvolutionWeights(op) => operands.result(gradients::convolution_weights(op, &operands)),
        Op::PoolingBackward(op) => operands.result(gradients::pooling(op, &operands)),
        Op::Resampling(op) => operands.result(resampling::forward(*op, &operands)),
        Op::ResamplingBackward(op) => operands.result(resampling::backward(op.resampling, &operands)),
        Op::Eltwise(op) => operands.map(|_, x| op.reference(x)),
        Op::Binary(op) => {
            let other = operands.get(Arg::Src(1));
            operands.map(|index, x| op.algorithm.reference(x, other.broadcast_at(index)))
        }
        Op::Select(_) => {
            let (yes, no) = (operands.get(Arg::Src(1)), operands.get(Arg::Src(2)));
            operands.map(|index, x| if x == 0.0 { no.broadcast_at(index) } else { yes.broadcast_at(index) })
        }
        Op::Softmax(op) => operands.result(softmax::softmax(op, &operands)),
        Op::LayerNormalization(op) => normalization::layer(op, &operands),
        Op::BatchNormalization(op) => operands.result(normalization::batch(op, &operands)),
        Op::GroupNormalization(op) => normalization::group(op, &operands),
        Op::Reduction(op) => operands.result(reduction::reduction(op, &operands)),
        Op::Concat(op) => operands.result(movement::concat(*op, &operands)),
        Op::Remap(op) => operands.result(movement::remap(op, &operands)),
        Op::LocalResponseNormalization(op) => operands.result(local_response::forward(op, &operands)),
        Op::LocalResponseNormalizationBackward(op) => {
            operands.result(local_response::backward(&op.forward, &operands))
        }
        Op::Gather(op) => operands.result(movement::gather(*op, &operands)),
        Op::Reorder(_) => operands.map(|_, x| x),
        Op::Expression(op) => expression::expression(op, &operands),
        Op::Attention(op) => attention::attention(op, &operands),
        Op::GatedMatMul(op) => operands.result(matmul::gated(*op, &operands)),
        Op::GroupedMatMul(op) => operands.result(matmul::grouped(*op, &operands)),
        Op::Recurrent(op) => recurrent::recurrent(*op, &operands),
        Op::RecurrentBackward(op) => recurrent_backward::gradients(op.forward, &operands),
    };
    if let Some(dst) = results.get_mut(&Arg::DST) {
        apply_post_ops(&operands, dst);
    }
    for (arg, tensor) in &mut results {
        if let Some(desc) = desc.find(*arg) {
            tensor.values.iter_mut().for_each(|v| *v = desc.data_type().stored(*v));
        }
    }
    results.retain(|arg, _| desc.access(*arg).is_some_and(Access::writes));
    Ok(results)
}

/// A description with its operands' values, which [`compute`] has checked.
struct Operands<'a> {
    desc: &'a PrimitiveDesc,
    inputs: &'a Tensors,
}

impl Operands<'_> {
    /// An operand that the operation requires.
    fn get(&self, arg: Arg) -> &Tensor {
        &self.inputs[&arg]
    }

    /// An operand that may be absent.
    fn find(&self, arg: Arg) -> Option<&Tensor> {
        // Only declared operands count, whatever else the caller passes.
        self.desc.find(arg).and(self.inputs.get(&arg))
    }

    /// The result's dimensions.
    fn dst_dims(&self) -> &Dims {
        self.desc.dst().dims()
    }

    /// The dimensions of any declared operand or result.
    fn dims(&self, arg: Arg) -> Option<&Dims> {
        self.desc.find(arg).map(crate::MemoryDesc::dims)
    }

    fn result(&self, dst: Tensor) -> Tensors {
        Tensors::from([(Arg::DST, dst)])
    }

    /// A function of the first source's element that belongs to each result element.
    fn map(&self, f: impl Fn(&[usize], f64) -> f64) -> Tensors {
        let src = self.get(Arg::SRC);
        self.result(Tensor::from_fn(self.dst_dims(), |index| f(index, src.broadcast_at(index))))
    }
}

/// The operands as the operation sees them: scaled and shifted where the attributes say so.
fn dequantize<'a>(desc: &PrimitiveDesc, inputs: &'a Tensors) -> std::borrow::Cow<'a, Tensors> {
    let mut seen = std::borrow::Cow::Borrowed(inputs);
    for Dequantize { operand, scale, zero_point } in &desc.attributes().dequantize {
        let factors = scale.as_ref().map(|_| &inputs[&Arg::ScaleOf(*operand)]);
        let zeros = zero_point.as_ref().map(|_| &inputs[&Arg::ZeroPointOf(*operand)]);
        let stored = &inputs[&operand.arg()];
        let values = Tensor::from_fn(&stored.dims, |index| {
            let of = |tensor: Option<&Tensor>, otherwise: f64| {
                tensor.map_or(otherwise, |tensor| tensor.block_at(index, &stored.dims))
            };
            (stored.at(index) - of(zeros, 0.0)) * of(factors, 1.0)
        });
        seen.to_mut().insert(operand.arg(), values);
    }
    seen
}

fn apply_post_ops(operands: &Operands, dst: &mut Tensor) {
    for (i, post_op) in operands.desc.attributes().post_ops.iter().enumerate() {
        *dst = Tensor::from_fn(&dst.dims, |index| {
            let x = dst.at(index);
            match post_op {
                PostOp::Eltwise(op) => op.reference(x),
                PostOp::Binary { algorithm, reversed, .. } => {
                    let y = operands.get(Arg::PostOp(i as u16)).broadcast_at(index);
                    if *reversed { algorithm.reference(y, x) } else { algorithm.reference(x, y) }
                }
                PostOp::Select { other_where_true, .. } => {
                    let condition = operands.get(Arg::PostOp(i as u16)).broadcast_at(index) != 0.0;
                    let other = operands.get(Arg::PostOpOther(i as u16)).broadcast_at(index);
                    if condition == *other_where_true { other } else { x }
                }
                PostOp::Sum { scale, zero_point, .. } => {
                    x + f64::from(*scale) * (operands.get(Arg::DST).at(index) - f64::from(*zero_point))
                }
            }
        });
    }
}

#[cfg(test)]
mod tests;

//! From a primitive's description to kernels: which variant, its generated source, its launches.
//!
//! Kernels are written once, in `kernels/`, against macros that [`source`] generates for the layouts, types, sizes and
//! post-operations of one description. Each plan is a pure value.

mod attention;
mod axes;
mod choice;
mod convolution;
mod convolution_weights;
mod expression;
mod folds;
#[cfg(test)]
mod functions_tests;
mod gemm;
mod limits;
mod matmul;
mod movement;
mod nodes;
mod panels;
mod pointwise;
mod pooling;
mod quantized;
mod relayout;
mod resampling;
mod rows;
mod source;
mod space;
#[cfg(test)]
mod tests;
mod tiles;
mod value;
mod window;

use anydnn_backend::{Arg, Error, MemoryDesc, Op, PrimitiveDesc, Result};

use crate::plan::{DeviceTraits, KernelPlan};
pub(crate) use choice::{Choice, Wanted};
pub(crate) use value::stored;

/// Chooses kernels for a primitive on a device.
///
/// # Errors
/// [`Error::Unsupported`] when a data type, layout or operation has no kernel on this device.
pub(crate) fn plan(desc: &PrimitiveDesc, device: &DeviceTraits) -> Result<KernelPlan> {
    choose(desc, device, Wanted::First).map(|choice| choice.plan)
}

/// The first implementation that is wanted.
///
/// # Errors
/// As [`plan`], also where no implementation has the wanted name.
pub(crate) fn choose(desc: &PrimitiveDesc, device: &DeviceTraits, wanted: Wanted<'_>) -> Result<Choice> {
    choice::first(choices(desc, device, wanted)?, desc, wanted)
}

/// The implementations that are wanted, best first.
///
/// # Errors
/// As [`plan`].
pub(crate) fn choices(
    desc: &PrimitiveDesc,
    device: &DeviceTraits,
    wanted: Wanted<'_>,
) -> Result<Vec<Choice>> {
    value::check(desc, device)?;
    limits::check(desc)?;
    let desc = resolved(desc.clone(), device)?;
    let plan = match desc.op().clone() {
        Op::MatMul(_) | Op::GatedMatMul(_) => return Ok(matmul::choices(&desc, device, wanted)),
        Op::Attention(op) => return Ok(attention::choices(&desc, &op, device, wanted)),
        Op::Convolution(op) => return Ok(convolution::choices(&desc, &op, device, wanted)),
        Op::Deconvolution(op) => return Ok(convolution::choices_transposed(&desc, &op, device, wanted)),
        Op::Reorder(_) => return Ok(relayout::choices(&desc, device, wanted)),
        Op::Eltwise(_) | Op::Binary(_) | Op::Select(_) | Op::BatchNormalization(_) => {
            pointwise::plan(desc, device)
        }
        Op::Concat(op) => pointwise::plan_concat(desc, op.axis, device),
        Op::Softmax(op) => folds::plan_softmax(desc, op, device),
        Op::LayerNormalization(_) | Op::GroupNormalization(_) => folds::plan_normalization(desc, device)?,
        Op::Reduction(op) => folds::plan_reduction(desc, op.algorithm, device),
        Op::Expression(op) => expression::plan(desc, &op, device),
        Op::Pooling(op) => return pooling::choices(&desc, &op, device, wanted),
        Op::ConvolutionWeights(op) => convolution_weights::plan(desc, &op.convolution, device),
        Op::PoolingBackward(op) => pooling::plan_backward(desc, &op.pooling, device)?,
        Op::Resampling(op) => resampling::plan(desc, op, device),
        Op::ResamplingBackward(op) => resampling::plan_backward(desc, op.resampling, device),
        Op::Remap(op) => movement::plan_remap(desc, &op, device)?,
        Op::Gather(op) => movement::plan_gather(desc, op, device),
        _ => return Err(Error::unsupported(desc.name(), "no kernel for this operation")),
    };
    Ok(choice::only(plan, wanted))
}

/// Resolves open layouts: weights as the kernels like them best, the rest row-major.
fn resolved(mut desc: PrimitiveDesc, device: &DeviceTraits) -> Result<PrimitiveDesc> {
    if let Some(weights) = desc.find(Arg::Weights).filter(|w| w.is_any()) {
        let layout = match desc.op() {
            Op::Convolution(op) => convolution::weights_layout(&desc, op.groups, weights, device)?,
            Op::Deconvolution(op) => convolution::weights_layout(&desc, op.groups, weights, device)?,
            _ => matmul::weights_layout(&desc, weights, device)?,
        };
        desc = desc.resolved(Arg::Weights, layout)?;
    }
    if let Some(gate) =
        desc.find(Arg::Src(1)).filter(|g| g.is_any() && matches!(desc.op(), Op::GatedMatMul(_)))
    {
        let layout = matmul::weights_layout(&desc, gate, device)?;
        desc = desc.resolved(Arg::Src(1), layout)?;
    }
    if let Op::Convolution(_) = desc.op()
        && let Some(layout) = convolution::channels_last(&desc, device)
    {
        for arg in [Arg::SRC, Arg::DST] {
            if let Some(open) = desc.find(arg).filter(|d| d.is_any()) {
                let layout = MemoryDesc::with_tag(open.dims().clone(), open.data_type(), &layout)?;
                desc = desc.resolved(arg, layout)?;
            }
        }
    }
    Ok(desc.resolved_row_major())
}

//! From a primitive's description to kernels: which variant, its generated source, its launches.
//!
//! Kernels are written once, in `kernels/`, against macros that [`source`] generates for the layouts, types, sizes and
//! post-operations of one description. Each plan is a pure value.

mod attention;
mod axes;
mod choice;
#[cfg(test)]
mod classes_tests;
mod convolution;
mod convolution_weights;
mod embedded;
mod epilogue;
mod expression;
mod folds;
#[cfg(test)]
mod functions_tests;
mod gemm;
mod grouped_matmul;
mod limits;
mod local_response;
mod matmul;
mod movement;
mod nodes;
mod numbers;
mod opaque;
mod panels;
mod pointwise;
mod pooling;
mod quantized;
mod recurrent;
mod recurrent_backward;
mod recurrent_pieces;
mod recurrent_training;
mod relayout;
mod resampling;
mod rows;
mod source;
mod space;
#[cfg(test)]
mod sub_groups_tests;
mod sums;
#[cfg(test)]
mod tests;
mod tiles;
mod unit_panels;
mod value;
mod window;

use anydnn_backend::op::Node;
use anydnn_backend::{Error, PrimitiveDesc, Result, each_operation};

use crate::plan::{DeviceTraits, KernelPlan};
pub(crate) use choice::{Choice, Wanted};
pub(crate) use source::with_numbers;
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

/// The implementations that are wanted, best first. On devices with sub-groups those that do without them come last.
///
/// # Errors
/// As [`plan`].
pub(crate) fn choices(
    desc: &PrimitiveDesc,
    device: &DeviceTraits,
    wanted: Wanted<'_>,
) -> Result<Vec<Choice>> {
    let mut list = choices_on(desc, device, wanted)?;
    let is_open = match wanted {
        Wanted::First => false,
        Wanted::Named(_) => list.is_empty(),
        Wanted::All => true,
    };
    if is_open && !rows::is_cpu(device) && device.sub_groups().is_some() {
        let seen: Vec<String> = list.iter().map(|choice| choice.plan.implementation.clone()).collect();
        let others = choices_on(desc, &device.without_sub_groups(), wanted)?;
        list.extend(others.into_iter().filter(|choice| !seen.contains(&choice.plan.implementation)));
    }
    Ok(list)
}

/// The implementations that are wanted on a device, best first.
fn choices_on(desc: &PrimitiveDesc, device: &DeviceTraits, wanted: Wanted<'_>) -> Result<Vec<Choice>> {
    value::check(desc, device)?;
    limits::check(desc)?;
    let desc = resolved(desc.clone(), device)?;
    let mut results = desc.args().iter().filter(|operand| operand.access.writes());
    if results.all(|operand| operand.desc.elements() == 0) {
        let mut choices = choice::Choices::new(&desc, wanted);
        choices.offer("empty", "the results have no elements", || {
            Some(choice::Planned { scratchpad: 0, launches: Vec::new() })
        });
        return Ok(choices.followed_by(|| None));
    }
    each_operation!(
        desc.op(),
        op => op.choices(&desc, device, wanted),
        _ => Err(Error::unsupported(desc.name(), "no kernel for this operation"))
    )
}

/// Resolves open layouts: weights as the kernels like them best, the rest row-major.
///
/// # Errors
/// [`Error::Unsupported`] where no layout suits the description.
pub(crate) fn resolved(desc: PrimitiveDesc, device: &DeviceTraits) -> Result<PrimitiveDesc> {
    let desc = each_operation!(desc.op().clone(), op => op.resolve(desc, device)?, _ => desc);
    Ok(desc.resolved_row_major())
}

/// How kernels serve an operation, implemented in the operation's own file.
trait Planner {
    /// The implementations that are wanted, best first; all layouts are resolved.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where no kernel serves the description.
    fn choices(&self, desc: &PrimitiveDesc, device: &DeviceTraits, wanted: Wanted<'_>)
    -> Result<Vec<Choice>>;

    /// The description with the open layouts that kernels prefer to be other than row-major.
    ///
    /// # Errors
    /// As [`PrimitiveDesc::resolved`].
    fn resolve(&self, desc: PrimitiveDesc, _device: &DeviceTraits) -> Result<PrimitiveDesc> {
        Ok(desc)
    }

    /// Whether the kernels take any number of elements along a dimension.
    fn counts_in_64_bits(&self) -> bool {
        false
    }

    /// The nodes of the expressions inside of it.
    fn nodes(&self) -> impl Iterator<Item = &Node> {
        [].iter()
    }
}

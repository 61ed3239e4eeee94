//! Kernels for sub-groups of one width, and compilers that choose another one.

use anydnn_backend::{Error, Result};

use crate::backend::engine::OpenClEngine;
use crate::plan::{DeviceTraits, KernelPlan, Launch};
use crate::primitive;

/// A plan whose kernels run in sub-groups as wide as they are written for. Where the compiler chose another width, that is planned
/// for; where it then chooses again, kernels without sub-groups are.
pub(crate) fn fitting(engine: &OpenClEngine, plan: KernelPlan, device: &DeviceTraits) -> Result<KernelPlan> {
    let Some(width) = other_width(engine, &plan)? else { return Ok(plan) };
    tracing::debug!(implementation = plan.implementation, width, "the compiler chose other sub-groups");
    if let Some(found) = device.sub_groups().filter(|_| width > 0) {
        let device = device.clone().with_sub_groups(&found.of_width(width));
        let plan = primitive::plan(&plan.desc, &device)?;
        if other_width(engine, &plan)?.is_none() {
            return Ok(plan);
        }
    }
    primitive::plan(&plan.desc, &device.without_sub_groups())
}

/// The width of a kernel's sub-groups that is not the one it is written for; zero if it is unknown.
fn other_width(engine: &OpenClEngine, plan: &KernelPlan) -> Result<Option<usize>> {
    for launch in plan.launches.iter().filter(|launch| !launch.global.contains(&0)) {
        let Some(wanted) = launch.sub_group else { continue };
        let width = width(engine, launch)?;
        if width != wanted {
            return Ok(Some(width));
        }
    }
    Ok(None)
}

/// The width of the sub-groups that a launch would have; zero where the driver does not say.
fn width(engine: &OpenClEngine, launch: &Launch) -> Result<usize> {
    use cl3::kernel::CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE as WIDTH;
    let inner = &engine.inner;
    let program = inner.programs.program(&inner.context, &inner.device, &launch.program, "")?;
    let kernel = program.kernel(&launch.kernel)?;
    let local = launch.local.ok_or_else(|| {
        Error::invalid("plan", "work-group", "the driver's choice", "a size, where there are sub-groups")
    })?;
    let (raw, device) = (kernel.raw(), inner.device.raw_device());
    let width = cl3::kernel::get_kernel_sub_group_info(
        raw,
        device,
        WIDTH,
        size_of_val(&local),
        local.as_ptr().cast(),
    );
    Ok(width.map_or(0, cl3::info_type::InfoType::to_size))
}

//! What plans know of a device.

use std::fmt;
use std::sync::Arc;

use anydnn_backend::{DeviceKind, Probe};

use crate::capability::instruction::Multiplicand;
use crate::capability::sub_groups::SubGroups;
use crate::capability::units::{Feature, Work};
use crate::driver::platform::Vendor;

/// The facts about a device that a plan may depend on.
#[derive(Clone, Debug)]
pub(crate) struct DeviceTraits {
    /// What kind of processor it is.
    pub(crate) kind: DeviceKind,
    /// Who makes it.
    pub(crate) vendor: Vendor,
    /// The most work-items of a work-group.
    pub(crate) max_work_group: usize,
    /// Bytes of local memory of a work-group.
    pub(crate) local_memory_bytes: usize,
    /// Parallel compute units.
    pub(crate) compute_units: usize,
    /// Floats of a register.
    pub(crate) float_lanes: usize,
    /// Which features work.
    pub(crate) features: KnownFeatures,
    /// The device's name.
    pub(crate) name: String,
    /// Whether plans shall have the texts of programs for one shape.
    pub(crate) special: bool,
}

/// The outcomes of probes: those that are set, and those that the device is asked for when a plan first depends on one.
#[derive(Clone)]
pub(crate) struct KnownFeatures {
    set: Vec<(Feature, Probe)>,
    ask: Option<Arc<dyn Fn(Feature) -> Probe + Send + Sync>>,
}

impl DeviceTraits {
    /// Whether a feature works.
    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.features.probe(feature).is_some_and(|probe| probe.works)
    }

    /// The device's sub-groups, if it has such.
    pub(crate) fn sub_groups(&self) -> Option<SubGroups> {
        let probe = self.features.probe(Feature::SubGroups).filter(|probe| probe.works)?;
        probe.detail.parse().ok()
    }

    /// Whether tiles of work-groups of such factors are multiplied by a unit.
    pub(crate) fn has_tiles_of(&self, factor: Multiplicand) -> bool {
        let takes = |feature: &Feature| {
            let unit = feature.row().unit.as_ref();
            unit.is_some_and(|unit| {
                matches!(unit.work, Work::Tiles(_)) && unit.instructions.iter().any(|i| i.factor == factor)
            })
        };
        Feature::ALL.iter().filter(|feature| takes(feature)).any(|&feature| self.has(feature))
    }

    /// The same device with other sub-groups.
    pub(crate) fn with_sub_groups(self, sub_groups: &SubGroups) -> Self {
        self.with(Feature::SubGroups, Ok(&sub_groups.to_string()))
    }

    /// The same device for plans with the texts of programs for one shape.
    pub(crate) fn with_special(self) -> Self {
        Self { special: true, ..self }
    }

    /// The same device without sub-groups.
    pub(crate) fn without_sub_groups(&self) -> Self {
        self.clone().with(Feature::SubGroups, Err("not wanted"))
    }

    /// The same device with a feature that works, or does not.
    pub(crate) fn with(mut self, feature: Feature, outcome: Result<&str, &str>) -> Self {
        let (Ok(detail) | Err(detail)) = outcome;
        let probe = Probe { works: outcome.is_ok(), detail: detail.into() };
        self.features.set.retain(|(set, _)| *set != feature);
        self.features.set.push((feature, probe));
        self
    }
}

impl KnownFeatures {
    /// Those of a device, which `ask` probes.
    pub(crate) fn probed(ask: impl Fn(Feature) -> Probe + Send + Sync + 'static) -> Self {
        Self { set: Vec::new(), ask: Some(Arc::new(ask)) }
    }

    /// Those of a made-up device.
    #[cfg(test)]
    pub(crate) fn of(features: &[Feature]) -> Self {
        let probe = || Probe { works: true, detail: "made up".into() };
        Self { set: features.iter().map(|&feature| (feature, probe())).collect(), ask: None }
    }

    fn probe(&self, feature: Feature) -> Option<Probe> {
        let set = self.set.iter().find(|(set, _)| *set == feature).map(|(_, probe)| probe.clone());
        set.or_else(|| self.ask.as_ref().map(|ask| ask(feature)))
    }
}

impl fmt::Debug for KnownFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownFeatures").field("set", &self.set).finish_non_exhaustive()
    }
}

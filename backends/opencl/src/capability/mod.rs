//! What a device can do: found out by trying, once per device and process.

pub(crate) mod instruction;
pub(crate) mod probe;
pub(crate) mod sub_groups;
pub(crate) mod units;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anydnn_backend::{Capabilities, DataType, Probe, Result};
use cl3::command_queue::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;

use crate::capability::probe::Prober;
use crate::capability::units::Way;
use crate::driver::handle::Context;
use crate::driver::platform::OpenClDevice;
use crate::program::compilers;

pub(crate) use units::Feature;

/// The probes of one device, each made when it is first asked for.
#[derive(Debug, Default)]
pub(crate) struct Features {
    probes: [OnceLock<Probe>; Feature::ALL.len()],
    needs: [OnceLock<std::result::Result<(), String>>; Feature::ALL.len()],
}

impl Features {
    /// The outcome of a probe that was made or learned before.
    pub(crate) fn known(&self, feature: Feature) -> Option<&Probe> {
        self.probes[feature as usize].get()
    }

    /// Why the device cannot have a feature, where that takes no program to tell.
    pub(crate) fn ruled_out(&self, device: &OpenClDevice, feature: Feature) -> Option<&str> {
        let needs = self.needs[feature as usize].get_or_init(|| (feature.row().needs)(device));
        needs.as_ref().err().map(String::as_str)
    }

    /// Takes over the outcome of a probe that an earlier process made.
    pub(crate) fn learn(&self, feature: Feature, outcome: &Probe) {
        let _ = self.probes[feature as usize].set(outcome.clone());
    }

    /// The outcome of one probe.
    pub(crate) fn probe(&self, device: &OpenClDevice, feature: Feature) -> &Probe {
        self.probes[feature as usize].get_or_init(|| {
            let is_compiled = matches!(feature.row().way, Way::Program(_) | Way::Product(..));
            let may_have = is_compiled && self.ruled_out(device, feature).is_none();
            let elsewhere = may_have.then(|| compilers::probe_elsewhere(device, feature.name())).flatten();
            let outcome = elsewhere.unwrap_or_else(|| match self.ruled_out(device, feature) {
                Some(why) => Probe { works: false, detail: why.into() },
                None => run(device, feature, None),
            });
            tracing::debug!(
                feature = feature.name(),
                works = outcome.works,
                detail = outcome.detail,
                "probed"
            );
            outcome
        })
    }
}

/// Probes a feature that nothing rules out, in a context of the caller's or else one of its own.
pub(crate) fn run(device: &OpenClDevice, feature: Feature, context: Option<Context>) -> Probe {
    let row = feature.row();
    let prober = || Prober::new(device, context);
    let outcome = match &row.way {
        Way::Told(told) => told(device),
        Way::Commands(try_out) | Way::Program(try_out) => prober().and_then(|prober| try_out(&prober)),
        &Way::Product(text, items) => {
            let first = row.unit.as_ref().and_then(|unit| unit.instructions.first());
            let first = first.ok_or_else(|| "the table has no instruction".to_owned());
            first.and_then(|first| probe::product(&prober()?, first, text, items))
        }
    };
    match outcome {
        Ok(detail) => Probe { works: true, detail },
        Err(detail) => Probe { works: false, detail },
    }
}

/// Answers the requests of a process that called [`compile_in_processes`](crate::compile_in_processes), until it closes `input`.
///
/// # Errors
/// A request that is cut short or names no device of this process; a device error.
pub fn serve_compiler(input: impl Read, output: impl Write) -> Result<()> {
    compilers::serve(input, output, probed)
}

/// What a probe finds in this context: whether the feature works, then the detail. Nothing for an unknown one.
fn probed(device: &OpenClDevice, context: &Context, feature: &str) -> Result<Vec<u8>> {
    let Some(feature) = Feature::compiled().find(|known| known.name() == feature) else {
        return Ok(Vec::new());
    };
    // What a device needs is asked for as well: without the system's permission, matrix units end the process that uses them.
    let outcome = match (feature.row().needs)(device) {
        Ok(()) => run(device, feature, Some(context.try_clone()?)),
        Err(detail) => Probe { works: false, detail },
    };
    Ok([&[u8::from(outcome.works)], outcome.detail.as_bytes()].concat())
}

/// The probes of a device, shared by all its engines.
pub(crate) fn features_of(device: &OpenClDevice) -> Arc<Features> {
    type Key = (usize, String, String, usize);
    static KNOWN: Mutex<Option<HashMap<Key, Arc<Features>>>> = Mutex::new(None);
    // The handle alone would not do: that of a released sub-device may come back as another one's.
    let key = (
        device.raw_device().addr(),
        device.name().to_owned(),
        device.driver_version().to_owned(),
        device.limits().compute_units,
    );
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(known.get_or_insert_default().entry(key).or_default())
}

/// Everything about a device whose kernels store these types; makes every probe that was not made yet.
pub(crate) fn capabilities(
    device: &OpenClDevice,
    features: &Features,
    stored: fn(DataType) -> bool,
) -> Capabilities {
    let limits = device.limits();
    let probed: Vec<_> = Feature::ALL.iter().map(|&f| (f, features.probe(device, f).clone())).collect();
    let works = |feature| probed.iter().any(|(f, probe)| *f == feature && probe.works);
    let mut capabilities = Capabilities::default();
    capabilities.memory_kinds = device.memory_kinds().to_vec();
    capabilities.storage_types = DataType::ALL
        .into_iter()
        .filter(|&t| stored(t) && (t != DataType::F64 || works(Feature::Fp64)))
        .collect();
    capabilities.out_of_order = limits.queue_properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE != 0;
    capabilities.profiling = device.has_profiling();
    capabilities.compute_units = limits.compute_units;
    capabilities.memory_bytes = limits.memory_bytes;
    capabilities.max_allocation_bytes = limits.max_allocation_bytes;
    capabilities.local_memory_bytes = limits.local_memory_bytes;
    capabilities.max_work_group = limits.max_work_group;
    capabilities.features = probed.into_iter().map(|(f, probe)| (f.name().to_owned(), probe)).collect();
    capabilities
}

#[cfg(test)]
mod tests {
    use anydnn_backend::Engine;

    use super::*;
    use crate::testing::test_engines;

    #[test]
    fn every_feature_is_probed_once_per_device() {
        for engine in test_engines() {
            let capabilities = engine.capabilities();
            let device = engine.opencl_device();
            assert_eq!(capabilities.features.len(), Feature::ALL.len());
            assert!(
                capabilities.features.values().all(|probe| !probe.detail.is_empty()),
                "{capabilities:#?}"
            );
            // What any OpenCL 1.2 device has.
            for feature in ["vload_half", "profiling", "vector_width"] {
                assert!(capabilities.has(feature), "{device}: {:?}", capabilities.features[feature]);
            }
            assert!(Arc::ptr_eq(&features_of(device), &features_of(device)));
            assert_eq!(capabilities.has("nvidia_ptx"), device.alias() == "nvidia", "{device}");
            let other = crate::OpenClEngine::on_device(device).unwrap();
            assert_eq!(other.capabilities(), capabilities);
        }
    }

    #[test]
    fn known_drivers_have_what_they_are_known_for() {
        for engine in test_engines() {
            let has = |feature: &str| engine.capabilities().has(feature);
            let device = engine.opencl_device();
            match device.alias().as_str() {
                "pocl" => assert!(has("fp64") && has("svm") && has("out_of_order"), "{device}"),
                "intel" => {
                    assert!(has("fp64") && has("usm") && has("svm") && has("sub_groups"), "{device}");
                    let sub_groups = engine.traits().sub_groups().unwrap();
                    assert!(sub_groups.settable.contains(&sub_groups.width), "{sub_groups:?}");
                }
                "nvidia" => assert!(has("fp64") && has("svm") && !has("usm"), "{device}"),
                _ => {}
            }
        }
    }
}

//! What a device can do: found out by trying, once per device and process.

pub(crate) mod probe;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anydnn_backend::{Capabilities, DataType, Probe};
use cl3::command_queue::{CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROFILING_ENABLE};

use crate::capability::probe::Prober;
use crate::driver::platform::OpenClDevice;
use crate::driver::processor;
use crate::primitive::stored;

/// A feature that is probed on the device. Its name is the key in [`Capabilities::features`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Feature {
    /// Arithmetic in f64.
    Fp64,
    /// Arithmetic in f16.
    Fp16,
    /// f16 in memory, arithmetic in f32.
    VloadHalf,
    /// Sub-groups (Khronos's or Intel's).
    SubGroups,
    /// Dot products of four 8-bit integers.
    Int8Dot,
    /// Local memory.
    LocalMemory,
    /// Vectors of floats that the device prefers.
    VectorWidth,
    /// Out-of-order queues that honour dependencies.
    OutOfOrder,
    /// Queues with timestamps.
    Profiling,
    /// Unified shared memory (`cl_intel_unified_shared_memory`).
    Usm,
    /// Shared virtual memory.
    Svm,
    /// Command buffers (`cl_khr_command_buffer`).
    CommandBuffer,
    /// NVIDIA's PTX inside of OpenCL C.
    NvidiaPtx,
    /// Matrix instructions and asynchronous copies in NVIDIA's PTX (Ampere and newer).
    NvidiaMma,
    /// NVIDIA's warpgroup matrix instructions inside of OpenCL C.
    Wgmma,
    /// x86's matrix units (AMX) in inline assembly, and the system's permission to use them.
    Amx,
    /// x86's products of pairs of words that add up (AVX-512 VNNI), in inline assembly.
    Words,
}

impl Feature {
    const ALL: [Self; 17] = [
        Self::Fp64,
        Self::Fp16,
        Self::VloadHalf,
        Self::SubGroups,
        Self::Int8Dot,
        Self::LocalMemory,
        Self::VectorWidth,
        Self::OutOfOrder,
        Self::Profiling,
        Self::Usm,
        Self::Svm,
        Self::CommandBuffer,
        Self::NvidiaPtx,
        Self::NvidiaMma,
        Self::Wgmma,
        Self::Amx,
        Self::Words,
    ];

    /// The features that take a program to probe, which caches spare a process.
    pub(crate) const COMPILED: [Self; 10] = [
        Self::Fp64,
        Self::Fp16,
        Self::VloadHalf,
        Self::SubGroups,
        Self::Int8Dot,
        Self::NvidiaPtx,
        Self::NvidiaMma,
        Self::Wgmma,
        Self::Amx,
        Self::Words,
    ];

    /// Says why a device cannot have a feature where that takes no program to tell.
    pub(crate) fn rule_out(self, device: &OpenClDevice) -> Result<(), String> {
        match self {
            Self::Wgmma => probe::is_hopper(device),
            Self::Amx => {
                processor::runs_here(device).and_then(|()| processor::may_use_tiles().map_err(str::to_owned))
            }
            Self::Words => processor::has_wide_words(device),
            _ => Ok(()),
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fp64 => "fp64",
            Self::Fp16 => "fp16",
            Self::VloadHalf => "vload_half",
            Self::SubGroups => "sub_groups",
            Self::Int8Dot => "int8_dot",
            Self::LocalMemory => "local_memory",
            Self::VectorWidth => "vector_width",
            Self::OutOfOrder => "out_of_order",
            Self::Profiling => "profiling",
            Self::Usm => "usm",
            Self::Svm => "svm",
            Self::CommandBuffer => "command_buffer",
            Self::NvidiaPtx => "nvidia_ptx",
            Self::NvidiaMma => "nvidia_mma",
            Self::Wgmma => "wgmma",
            Self::Amx => "amx",
            Self::Words => "avx512_vnni",
        }
    }
}

/// The probes of one device, each made when it is first asked for.
#[derive(Debug, Default)]
pub(crate) struct Features {
    probes: [OnceLock<Probe>; Feature::ALL.len()],
}

impl Features {
    /// The outcome of a probe that was made or learned before.
    pub(crate) fn known(&self, feature: Feature) -> Option<&Probe> {
        self.probes[feature as usize].get()
    }

    /// Takes over the outcome of a probe that an earlier process made.
    pub(crate) fn learn(&self, feature: Feature, outcome: &Probe) {
        let _ = self.probes[feature as usize].set(outcome.clone());
    }

    /// The outcome of one probe.
    pub(crate) fn probe(&self, device: &OpenClDevice, feature: Feature) -> &Probe {
        self.probes[feature as usize].get_or_init(|| {
            let outcome = run(device, feature);
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

/// Everything about a device; makes every probe that was not made yet.
pub(crate) fn capabilities(device: &OpenClDevice, features: &Features) -> Capabilities {
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
    capabilities.profiling = limits.queue_properties & CL_QUEUE_PROFILING_ENABLE != 0;
    capabilities.compute_units = limits.compute_units;
    capabilities.memory_bytes = limits.memory_bytes;
    capabilities.max_allocation_bytes = limits.max_allocation_bytes;
    capabilities.local_memory_bytes = limits.local_memory_bytes;
    capabilities.max_work_group = limits.max_work_group;
    capabilities.features = probed.into_iter().map(|(f, probe)| (f.name().to_owned(), probe)).collect();
    capabilities
}

fn run(device: &OpenClDevice, feature: Feature) -> Probe {
    let possible = || feature.rule_out(device).and_then(|()| Prober::new(device));
    let outcome = match feature {
        Feature::LocalMemory => value(device.limits().local_memory_bytes, "bytes"),
        Feature::VectorWidth => value(u64::from(device.limits().float_vector_width), "floats"),
        Feature::Fp64 => Prober::new(device).and_then(|prober| probe::fp64(&prober)),
        Feature::Fp16 => Prober::new(device).and_then(|prober| probe::fp16(&prober)),
        Feature::VloadHalf => Prober::new(device).and_then(|prober| probe::vload_half(&prober)),
        Feature::SubGroups => Prober::new(device).and_then(|prober| probe::sub_groups(&prober)),
        Feature::Int8Dot => Prober::new(device).and_then(|prober| probe::int8_dot(&prober)),
        Feature::NvidiaPtx => Prober::new(device).and_then(|prober| probe::nvidia_ptx(&prober)),
        Feature::NvidiaMma => Prober::new(device).and_then(|prober| probe::nvidia_mma(&prober)),
        Feature::Wgmma => possible().and_then(|prober| probe::wgmma(&prober)),
        Feature::Amx => possible().and_then(|prober| probe::amx(&prober)),
        Feature::Words => possible().and_then(|prober| probe::words(&prober)),
        Feature::OutOfOrder => Prober::new(device).and_then(|prober| probe::out_of_order(&prober)),
        Feature::Profiling => Prober::new(device).and_then(|prober| probe::profiling(&prober)),
        Feature::Svm => Prober::new(device).and_then(|prober| probe::svm(&prober)),
        Feature::Usm => probe::usm(device),
        Feature::CommandBuffer => probe::command_buffer(device),
    };
    match outcome {
        Ok(detail) => Probe { works: true, detail },
        Err(detail) => Probe { works: false, detail },
    }
}

fn value(value: u64, unit: &str) -> Result<String, String> {
    if value > 0 { Ok(format!("{value} {unit}")) } else { Err("none".into()) }
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
    fn indices_follow_the_list() {
        for (i, feature) in Feature::ALL.iter().enumerate() {
            assert_eq!(*feature as usize, i);
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
                }
                "nvidia" => assert!(has("fp64") && has("svm") && !has("usm"), "{device}"),
                _ => {}
            }
        }
    }
}

//! Platforms and devices of any type and vendor.

use std::collections::BTreeSet;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use anydnn_backend::{DeviceInfo, DeviceKind, MemoryKind, Result};
use cl3::command_queue::{CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROFILING_ENABLE};
use cl3::device as cl;
use cl3::device::CL_EXEC_NATIVE_KERNEL;
use cl3::types::{cl_device_id, cl_platform_id};

use crate::driver::call::{self, Check, device_text, device_value};
use crate::driver::handle;
use crate::driver::usm::Usm;

/// What is done before drivers are loaded.
static BEFORE: OnceLock<fn()> = OnceLock::new();

/// Sets what is done whenever devices are asked for, before their drivers are loaded.
pub(crate) fn before_devices(action: fn()) {
    let _ = BEFORE.set(action);
}

/// Every device of every platform, in the order of the loader; none where there is no OpenCL.
/// [`availability`](crate::availability) tells why there is none.
///
/// # Errors
/// A device error of the loader. A platform or device that fails is left out and logged.
pub fn devices() -> Result<Vec<OpenClDevice>> {
    if let Some(action) = BEFORE.get() {
        action();
    }
    let start = Instant::now();
    let mut devices = Vec::new();
    for platform in platforms()? {
        match platform.devices() {
            Ok(found) => devices.extend(found),
            Err(error) => tracing::warn!(%error, platform = platform.name, "an OpenCL platform is left out"),
        }
    }
    // Later calls take no time.
    let milliseconds = start.elapsed().as_millis();
    if milliseconds > 0 {
        tracing::debug!(devices = devices.len(), milliseconds, "platforms are loaded");
    }
    Ok(devices)
}

/// The short name that selectors use for a platform: `pocl`, `intel`, `nvidia`, or else the first word in lower case.
pub fn platform_alias(platform: &str) -> String {
    for (part, alias) in [("Portable Computing Language", "pocl"), ("Intel", "intel"), ("NVIDIA", "nvidia")] {
        if platform.contains(part) {
            return alias.into();
        }
    }
    platform.split_whitespace().next().unwrap_or("unknown").to_lowercase()
}

/// A device with what its driver says about it. Clones are handles to the same description.
#[derive(Clone)]
pub struct OpenClDevice {
    inner: Arc<Inner>,
}

struct Inner {
    handle: handle::Device,
    platform: PlatformId,
    info: DeviceInfo,
    version: Version,
    extensions: BTreeSet<String>,
    limits: Limits,
    /// Whether it is a part of another device.
    is_part: bool,
    usm: OnceLock<Option<Usm>>,
    memory_kinds: OnceLock<Vec<MemoryKind>>,
}

/// Who makes a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vendor {
    Nvidia,
    Amd,
    Intel,
    Other,
}

impl Vendor {
    /// The vendor of this name.
    pub(crate) fn of(name: &str) -> Self {
        let names = [
            ("NVIDIA", Self::Nvidia),
            ("Advanced Micro Devices", Self::Amd),
            ("AMD", Self::Amd),
            ("Intel", Self::Intel),
        ];
        names.into_iter().find(|(part, _)| name.contains(part)).map_or(Self::Other, |(_, vendor)| vendor)
    }

    /// The multiply-adds of f32 that a compute unit starts in a clock, where it is a GPU's.
    pub(crate) fn multiply_adds(self) -> usize {
        match self {
            Self::Nvidia | Self::Other => 128,
            Self::Amd => 64,
            // Drivers count vector engines.
            Self::Intel => 16,
        }
    }
}

/// Numbers that a driver states about a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) compute_units: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) max_allocation_bytes: u64,
    pub(crate) local_memory_bytes: u64,
    pub(crate) max_work_group: usize,
    pub(crate) float_vector_width: u32,
    /// Floats of a register.
    pub(crate) float_lanes: u32,
    pub(crate) queue_properties: u64,
    pub(crate) double_config: u64,
    pub(crate) svm: u64,
    /// What its queues execute.
    pub(crate) execution: u64,
}

impl OpenClDevice {
    /// The device's names and kind.
    pub fn info(&self) -> &DeviceInfo {
        &self.inner.info
    }

    /// The short name of the platform, such as `pocl`; see [`platform_alias`].
    pub fn alias(&self) -> String {
        platform_alias(self.platform_name())
    }

    /// The platform's name.
    pub fn platform_name(&self) -> &str {
        &self.inner.info.platform
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.inner.info.name
    }

    /// The device's vendor.
    pub fn vendor(&self) -> &str {
        &self.inner.info.vendor
    }

    /// The driver's version.
    pub fn driver_version(&self) -> &str {
        &self.inner.info.driver
    }

    /// What kind of processor it is.
    pub fn kind(&self) -> DeviceKind {
        self.inner.info.kind
    }

    /// The OpenCL version as `(major, minor)`.
    pub fn opencl_version(&self) -> (u32, u32) {
        (self.inner.version.major, self.inner.version.minor)
    }

    /// Bytes of device memory.
    pub fn memory_bytes(&self) -> u64 {
        self.inner.limits.memory_bytes
    }

    /// The extensions that the driver names.
    pub fn extensions(&self) -> impl Iterator<Item = &str> {
        self.inner.extensions.iter().map(String::as_str)
    }

    /// Whether the driver names an extension.
    pub fn has_extension(&self, name: &str) -> bool {
        self.inner.extensions.contains(name)
    }

    /// The device's handle, not retained.
    pub fn raw_device(&self) -> cl_device_id {
        self.inner.handle.raw()
    }

    /// The platform's handle.
    pub fn raw_platform(&self) -> cl_platform_id {
        self.inner.platform.0.as_ptr()
    }

    /// Describes a device of the caller, a sub-device for instance, and retains it.
    ///
    /// # Errors
    /// [`Error::Invalid`](anydnn_backend::Error::Invalid) for a null handle; a device error.
    ///
    /// # Safety
    /// - `device` is a live device, or null.
    pub unsafe fn from_raw(device: cl_device_id) -> Result<Self> {
        // SAFETY: live or null by contract.
        let handle = unsafe { handle::Device::from_borrowed(device) }?;
        let platform: cl_platform_id = device_value(device, cl::CL_DEVICE_PLATFORM)?;
        let platform = Platform::new(platform)?;
        Self::new(handle, &platform)
    }

    /// Whether a command on an out-of-order queue that fails for its dependency corrupts the queue: Intel's CPU runtime crashes at
    /// the queue's next barrier, at its release or at exit. It cannot be probed without risking the process.
    pub(crate) fn has_fragile_queues(&self) -> bool {
        self.kind() == DeviceKind::Cpu && self.alias() == "intel"
    }

    /// Whether the driver still uses the device for a moment after the last command on it has ended, whether it was released or not:
    /// PoCL does with sub-devices, which it then reads after they were freed.
    pub(crate) fn is_used_after_release(&self) -> bool {
        self.inner.is_part && self.alias() == "pocl"
    }

    /// Whether the driver compiles kernels as it is asked for a program's binary, and those again that are launched, for the sizes of the
    /// launch: PoCL does, and keeps the latter itself for later processes.
    pub(crate) fn compiles_for_binaries(&self) -> bool {
        self.alias() == "pocl"
    }

    /// Whether the threads of a process compile little faster than one of them: NVIDIA's driver takes as long on one core as on sixteen,
    /// Intel's on two cores 0.8 of the time on one.
    pub(crate) fn compiles_one_at_a_time(&self) -> bool {
        matches!(&*self.alias(), "nvidia" | "intel")
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// The functions of unified shared memory, if the driver has them.
    pub(crate) fn usm(&self) -> Option<Usm> {
        *self.inner.usm.get_or_init(|| {
            // SAFETY: the device's platform is valid for the life of the process.
            self.has_extension(crate::driver::usm::EXTENSION)
                .then(|| unsafe { Usm::of_platform(self.raw_platform()) })
                .flatten()
        })
    }

    /// Whether the driver says that its queues profile.
    pub(crate) fn has_profiling(&self) -> bool {
        self.limits().queue_properties & CL_QUEUE_PROFILING_ENABLE != 0
    }

    /// Whether its queues run functions of this process on memory of the device, and it is the processor, for which that is as good.
    pub(crate) fn has_native_commands(&self) -> bool {
        self.kind() == DeviceKind::Cpu && self.limits().execution & CL_EXEC_NATIVE_KERNEL != 0
    }

    /// The kinds of memory that the driver names, the default first.
    pub(crate) fn memory_kinds(&self) -> &[MemoryKind] {
        self.inner.memory_kinds.get_or_init(|| self.named_kinds())
    }

    fn named_kinds(&self) -> Vec<MemoryKind> {
        use MemoryKind::{Buffer, Svm, SvmFine, System};
        let mut kinds = vec![Buffer];
        if self.usm().is_some() {
            kinds.extend(crate::driver::usm::kinds(self.raw_device()));
        }
        for (bit, kind) in [
            (cl::CL_DEVICE_SVM_COARSE_GRAIN_BUFFER, Svm),
            (cl::CL_DEVICE_SVM_FINE_GRAIN_BUFFER, SvmFine),
            (cl::CL_DEVICE_SVM_FINE_GRAIN_SYSTEM, System),
        ] {
            if self.inner.limits.svm & bit != 0 && !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    fn new(handle: handle::Device, platform: &Platform) -> Result<Self> {
        let raw = handle.raw();
        let info = DeviceInfo {
            backend: "opencl".into(),
            platform: platform.name.clone(),
            name: device_text(raw, cl::CL_DEVICE_NAME)?,
            vendor: device_text(raw, cl::CL_DEVICE_VENDOR)?,
            driver: device_text(raw, cl::CL_DRIVER_VERSION)?,
            kind: call::device_kind(device_value(raw, cl::CL_DEVICE_TYPE)?),
        };
        let version = Version::parse(&device_text(raw, cl::CL_DEVICE_VERSION)?);
        let extensions = device_text(raw, cl::CL_DEVICE_EXTENSIONS)?;
        let extensions = extensions.split_whitespace().map(str::to_owned).collect();
        let mut limits = Limits {
            compute_units: device_value::<u32>(raw, cl::CL_DEVICE_MAX_COMPUTE_UNITS)? as usize,
            memory_bytes: device_value(raw, cl::CL_DEVICE_GLOBAL_MEM_SIZE)?,
            max_allocation_bytes: device_value(raw, cl::CL_DEVICE_MAX_MEM_ALLOC_SIZE)?,
            local_memory_bytes: device_value(raw, cl::CL_DEVICE_LOCAL_MEM_SIZE)?,
            max_work_group: device_value(raw, cl::CL_DEVICE_MAX_WORK_GROUP_SIZE)?,
            float_vector_width: device_value(raw, cl::CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT)?,
            float_lanes: device_value(raw, cl::CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT)?,
            queue_properties: device_value(raw, cl::CL_DEVICE_QUEUE_ON_HOST_PROPERTIES)?,
            // Older devices know neither query; zero then means that they lack the feature.
            double_config: device_value(raw, cl::CL_DEVICE_DOUBLE_FP_CONFIG).unwrap_or(0),
            svm: device_value(raw, cl::CL_DEVICE_SVM_CAPABILITIES).unwrap_or(0),
            execution: device_value(raw, cl::CL_DEVICE_EXECUTION_CAPABILITIES).unwrap_or(0),
        };
        let parent = device_value::<cl_device_id>(raw, cl::CL_DEVICE_PARENT_DEVICE);
        let is_part = parent.is_ok_and(|parent| !parent.is_null());
        if is_part && info.kind == DeviceKind::Cpu && platform_alias(&platform.name) == "intel" {
            // Releasing an out-of-order queue on a part of the device now and then blocks the part's only worker for ever.
            limits.queue_properties &= !CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
        }
        Ok(Self {
            inner: Arc::new(Inner {
                handle,
                platform: platform.id,
                info,
                version,
                extensions,
                limits,
                is_part,
                usm: OnceLock::new(),
                memory_kinds: OnceLock::new(),
            }),
        })
    }
}

impl fmt::Display for OpenClDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, driver {})", self.name(), self.platform_name(), self.driver_version())
    }
}

impl fmt::Debug for OpenClDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenClDevice")
            .field("handle", &self.inner.handle)
            .field("info", &self.inner.info)
            .field("version", &self.inner.version)
            .finish_non_exhaustive()
    }
}

/// A platform: one driver.
pub(crate) struct Platform {
    id: PlatformId,
    pub(crate) name: String,
}

impl Platform {
    fn new(raw: cl_platform_id) -> Result<Self> {
        let id = NonNull::new(raw).map(PlatformId).ok_or_else(|| {
            anydnn_backend::Error::unavailable("OpenCL platform", "the driver returned a null platform")
        })?;
        let name = cl3::platform::get_platform_data(raw, cl3::platform::CL_PLATFORM_NAME);
        let name = call::text(name, "read platform information", "clGetPlatformInfo")?;
        Ok(Self { id, name })
    }

    /// The platform's devices of any type; one that fails is left out and logged.
    pub(crate) fn devices(&self) -> Result<Vec<OpenClDevice>> {
        let ids = {
            // PoCL shows devices half made to a thread that asks while another's question makes them.
            static ONE_BY_ONE: Mutex<()> = Mutex::new(());
            let _turn = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
            cl3::device::get_device_ids(self.id.0.as_ptr(), cl::CL_DEVICE_TYPE_ALL)
        };
        let ids = match ids {
            Err(code) if call::means_none(code) => Vec::new(),
            ids => ids.check("enumerate devices", "clGetDeviceIDs")?,
        };
        let describe = |id| {
            // SAFETY: the platform just returned this device; devices that a platform enumerates live as long as the process.
            let handle = unsafe { handle::Device::from_borrowed(id) }?;
            OpenClDevice::new(handle, self)
        };
        let known = ids.into_iter().filter_map(|id| match describe(id) {
            Ok(device) => Some(device),
            Err(error) => {
                tracing::warn!(%error, platform = self.name, "an OpenCL device is left out");
                None
            }
        });
        Ok(known.collect())
    }
}

/// Every platform; none where there is no OpenCL.
pub(crate) fn platforms() -> Result<Vec<Platform>> {
    let ids = match cl3::platform::get_platform_ids() {
        Err(code) if call::means_none(code) => return Ok(Vec::new()),
        ids => ids.check("enumerate platforms", "clGetPlatformIDs")?,
    };
    let known = ids.into_iter().filter_map(|id| match Platform::new(id) {
        Ok(platform) => Some(platform),
        Err(error) => {
            tracing::warn!(%error, "an OpenCL platform is left out");
            None
        }
    });
    Ok(known.collect())
}

/// A platform's handle. Platforms are not counted and live as long as the process.
#[derive(Clone, Copy)]
struct PlatformId(NonNull<std::ffi::c_void>);

// SAFETY: platform handles are valid on any thread.
unsafe impl Send for PlatformId {}
// SAFETY: as for `Send`.
unsafe impl Sync for PlatformId {}

/// A version such as `OpenCL 3.0 PoCL ...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    major: u32,
    minor: u32,
}

impl Version {
    /// The version in a driver's text; 1.2, the least that this crate works with, where the text is malformed.
    fn parse(text: &str) -> Self {
        let numbers = text.split_whitespace().nth(1).and_then(|word| {
            let (major, minor) = word.split_once('.')?;
            Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
        });
        numbers.unwrap_or(Self { major: 1, minor: 2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_name_the_known_platforms() {
        assert_eq!(platform_alias("Portable Computing Language"), "pocl");
        assert_eq!(platform_alias("Intel(R) OpenCL Graphics"), "intel");
        assert_eq!(platform_alias("NVIDIA CUDA"), "nvidia");
        assert_eq!(platform_alias("Clover over Mesa"), "clover");
        assert_eq!(platform_alias(""), "unknown");
    }

    #[test]
    fn versions_are_read_from_the_driver_s_text() {
        assert_eq!(Version::parse("OpenCL 3.0 PoCL HSTR: x"), Version { major: 3, minor: 0 });
        assert_eq!(Version::parse("nonsense"), Version { major: 1, minor: 2 });
    }

    #[test]
    fn devices_describe_themselves() {
        for device in devices().unwrap() {
            assert!(!device.name().is_empty() && !device.platform_name().is_empty(), "{device:?}");
            let limits = device.limits();
            assert!(limits.compute_units > 0 && limits.max_work_group > 0, "{device}: {limits:?}");
        }
    }
}

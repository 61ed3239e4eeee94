//! What compiled programs depend on.

use std::sync::OnceLock;

use anydnn_backend::{DeviceKind, Result};
use cl3::device as cl;
use cl3::platform::{CL_PLATFORM_NAME, CL_PLATFORM_VERSION, get_platform_data};
use serde::{Deserialize, Serialize};

use super::frame::CacheMiss;
use crate::driver::call::{self, Check, Returned, device_text};
use crate::driver::platform::OpenClDevice;

/// Everything about a device and this library that a program's binary depends on, besides the program itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DeviceKey {
    pub(super) platform: String,
    pub(super) platform_version: String,
    pub(super) device: String,
    pub(super) vendor: String,
    pub(super) driver: String,
    pub(super) opencl: String,
    /// `CL_DEVICE_UUID_KHR`, of drivers that name `cl_khr_device_uuid`.
    pub(super) uuid: Option<[u8; cl::CL_UUID_SIZE_KHR]>,
    /// The processor's instruction sets where the processor is the device: drivers compile for them and name only its model.
    pub(super) processor: String,
    pub(super) library: String,
    pub(super) kernels: [u8; blake3::OUT_LEN],
}

impl DeviceKey {
    pub(super) fn of(device: &OpenClDevice) -> Result<Self> {
        let (raw, platform) = (device.raw_device(), device.raw_platform());
        let version = get_platform_data(platform, CL_PLATFORM_VERSION);
        let uuid = device.has_extension("cl_khr_device_uuid").then(|| {
            let bytes = cl::get_device_data(raw, cl::CL_DEVICE_UUID_KHR).unwrap_or_default();
            bytes.first_chunk().copied()
        });
        Ok(Self {
            platform: device.platform_name().into(),
            platform_version: call::text(version, "read platform information", "clGetPlatformInfo")?,
            device: device.name().into(),
            vendor: device.vendor().into(),
            driver: device.driver_version().into(),
            opencl: device_text(raw, cl::CL_DEVICE_VERSION)?,
            uuid: uuid.flatten(),
            processor: processor(device.kind()),
            library: env!("CARGO_PKG_VERSION").into(),
            kernels: *kernels().as_bytes(),
        })
    }

    /// Checks that `given` is this key, or says what differs first.
    pub(super) fn accept(&self, given: &Self) -> Result<(), CacheMiss> {
        let uuid = |key: &Self| {
            key.uuid.map_or("unknown".into(), |uuid| format!("{:032x}", u128::from_be_bytes(uuid)))
        };
        let facts = |key: &Self| {
            [
                ("platform", key.platform.clone()),
                ("platform's version", key.platform_version.clone()),
                ("device", key.device.clone()),
                ("vendor", key.vendor.clone()),
                ("driver", key.driver.clone()),
                ("OpenCL version", key.opencl.clone()),
                ("device's UUID", uuid(key)),
                ("processor", key.processor.clone()),
                ("library version", key.library.clone()),
                ("kernel sources' hash", blake3::Hash::from_bytes(key.kernels).to_hex().to_string()),
            ]
        };
        let differs = facts(given).into_iter().zip(facts(self)).find(|((_, given), (_, here))| given != here);
        differs.map_or(Ok(()), |((what, given), (_, expected))| {
            Err(CacheMiss::Foreign {
                what: what.into(),
                given: format!("{given:?}"),
                expected: format!("{expected:?}"),
            })
        })
    }
}

/// The name of what a device's cache blobs depend on, in the layout that `dnnl_ocl_interop_engine_get_cache_blob_id` documents:
/// platform's name, device's name and driver's version as the driver gives them, this library's version, and the hash of its kernels.
/// Texts follow their length (`size_t`), numbers are `int`s, all in the machine's byte order.
pub(crate) fn id(device: &OpenClDevice) -> Result<Vec<u8>> {
    const OPERATION: &str = "name cache blob";
    let raw = device.raw_device();
    let platform = get_platform_data(device.raw_platform(), CL_PLATFORM_NAME);
    let mut id = Vec::new();
    text(&mut id, &platform.check(OPERATION, "clGetPlatformInfo")?);
    for info in [cl::CL_DEVICE_NAME, cl::CL_DRIVER_VERSION] {
        let queried: Returned<Vec<u8>> = cl::get_device_data(raw, info);
        text(&mut id, &queried.check(OPERATION, "clGetDeviceInfo")?);
    }
    for part in
        [env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"), env!("CARGO_PKG_VERSION_PATCH")]
    {
        id.extend_from_slice(&part.parse::<i32>().unwrap_or(0).to_ne_bytes());
    }
    text(&mut id, kernels().to_hex().as_bytes());
    Ok(id)
}

fn text(id: &mut Vec<u8>, bytes: &[u8]) {
    id.extend_from_slice(&bytes.len().to_ne_bytes());
    id.extend_from_slice(bytes);
}

/// The machine, and for a processor that is its own device its instruction sets.
fn processor(kind: DeviceKind) -> String {
    let mut text = std::env::consts::ARCH.to_owned();
    if kind != DeviceKind::Cpu {
        return text;
    }
    for (name, there) in instruction_sets() {
        if there {
            text.push(' ');
            text.push_str(name);
        }
    }
    if crate::driver::processor::may_use_tiles().is_ok() {
        text.push_str(" amx");
    }
    text
}

#[cfg(target_arch = "x86_64")]
fn instruction_sets() -> Vec<(&'static str, bool)> {
    macro_rules! sets {
        ($($name:tt),*) => { vec![$(($name, std::arch::is_x86_feature_detected!($name))),*] };
    }
    sets!(
        "sse4.1",
        "sse4.2",
        "avx",
        "avx2",
        "fma",
        "f16c",
        "bmi2",
        "avx512f",
        "avx512bw",
        "avx512dq",
        "avx512vl",
        "avx512vnni",
        "avx512bf16",
        "avx512fp16"
    )
}

#[cfg(not(target_arch = "x86_64"))]
fn instruction_sets() -> Vec<(&'static str, bool)> {
    Vec::new()
}

/// Code that decides what a cache holds: the probes, and how programs are translated.
const CODE: [(&str, &str); 6] = [
    ("instruction.rs", include_str!("../capability/instruction.rs")),
    ("probe.rs", include_str!("../capability/probe.rs")),
    ("sub_groups.rs", include_str!("../capability/sub_groups.rs")),
    ("units.rs", include_str!("../capability/units.rs")),
    ("processor.rs", include_str!("../driver/processor.rs")),
    ("ptx.rs", include_str!("../program/ptx.rs")),
];

/// The hash of the library's kernels and probes, which stands for the build of the library.
fn kernels() -> blake3::Hash {
    static HASH: OnceLock<blake3::Hash> = OnceLock::new();
    *HASH.get_or_init(|| {
        let mut hasher = blake3::Hasher::new();
        for (name, text) in anydnn_kernels::FILES.iter().copied().chain(CODE) {
            for part in [name, text] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part.as_bytes());
            }
        }
        hasher.finalize()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_accepts_itself_and_names_each_difference() {
        for device in crate::devices().unwrap() {
            let key = DeviceKey::of(&device).unwrap();
            assert_eq!(key.accept(&DeviceKey::of(&device).unwrap()), Ok(()));
            let changes: [(_, fn(&mut DeviceKey)); 10] = [
                ("platform", |key| key.platform.push('x')),
                ("platform's version", |key| key.platform_version.push('x')),
                ("device", |key| key.device.push('x')),
                ("vendor", |key| key.vendor.push('x')),
                ("driver", |key| key.driver.push('x')),
                ("OpenCL version", |key| key.opencl.push('x')),
                ("device's UUID", |key| key.uuid = Some([7; 16])),
                ("processor", |key| key.processor.push('x')),
                ("library version", |key| key.library.push('x')),
                ("kernel sources' hash", |key| key.kernels[0] ^= 1),
            ];
            for (what, change) in changes {
                let mut other = key.clone();
                change(&mut other);
                let Err(CacheMiss::Foreign { what: named, given, expected }) = key.accept(&other) else {
                    panic!("a key with another {what} was accepted");
                };
                assert_eq!(named, what);
                assert_ne!(given, expected);
            }
        }
    }

    #[test]
    fn ids_name_device_driver_and_library() {
        for device in crate::devices().unwrap() {
            let bytes = id(&device).unwrap();
            assert_eq!(bytes, id(&device).unwrap());
            let mut rest = bytes.as_slice();
            let text = |rest: &mut &[u8]| {
                let (length, after) = rest.split_first_chunk::<{ size_of::<usize>() }>().unwrap();
                let (text, after) = after.split_at(usize::from_ne_bytes(*length));
                *rest = after;
                String::from_utf8(text.to_vec()).unwrap()
            };
            for expected in [device.platform_name(), device.name(), device.driver_version()] {
                let text = text(&mut rest);
                assert_eq!(text.strip_suffix('\0').map(str::trim), Some(expected));
            }
            let version: Vec<_> = rest[..12].as_chunks().0.iter().map(|n| i32::from_ne_bytes(*n)).collect();
            let dotted = version.iter().map(i32::to_string).collect::<Vec<_>>().join(".");
            assert_eq!(dotted, env!("CARGO_PKG_VERSION"));
            rest = &rest[12..];
            assert_eq!(text(&mut rest), kernels().to_hex().as_str());
            assert!(rest.is_empty());
        }
    }
}

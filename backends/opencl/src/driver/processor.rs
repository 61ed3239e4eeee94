//! What the processor itself has where it is the device, which drivers name nowhere.

use std::sync::OnceLock;

use anydnn_backend::DeviceKind;

use crate::driver::platform::OpenClDevice;

/// Whether a device runs its kernels on this process's own processor, by a compiler that takes x86's inline assembly.
fn runs_here(device: &OpenClDevice) -> Result<(), String> {
    let known = matches!(device.alias().as_str(), "pocl" | "intel");
    if device.kind() == DeviceKind::Cpu && known {
        Ok(())
    } else {
        Err("not a compiler for this processor that is known".into())
    }
}

/// Whether a device's kernels may use the processor's matrix units.
pub(crate) fn has_tiles(device: &OpenClDevice) -> Result<(), String> {
    runs_here(device).and_then(|()| may_use_tiles().map_err(str::to_owned))
}

/// Whether this process may use the processor's matrix units; asks the system for them once.
pub(crate) fn may_use_tiles() -> Result<(), &'static str> {
    static ANSWER: OnceLock<Result<(), &'static str>> = OnceLock::new();
    *ANSWER.get_or_init(ask_for_tiles)
}

/// Whether the compiler of a device knows the processor's 512-bit registers, by the processor's name that it compiles for: others end
/// the process when they are given such operands.
pub(crate) fn has_wide_words(device: &OpenClDevice) -> Result<(), String> {
    const NAMES: [&str; 9] = [
        "avx512",
        "cascadelake",
        "cooperlake",
        "icelake",
        "tigerlake",
        "rocketlake",
        "rapids",
        "znver4",
        "znver5",
    ];
    runs_here(device)?;
    let text = crate::driver::call::device_text(device.raw_device(), cl3::device::CL_DEVICE_VERSION)
        .map_err(|error| error.to_string())?;
    if device.alias() != "pocl" || !NAMES.iter().any(|name| text.contains(name)) {
        return Err("not compiled for 512-bit registers by name".into());
    }
    if has_vnni() { Ok(()) } else { Err("the processor has no products of words that add up".into()) }
}

/// Whether a device's kernels may multiply bytes in 512-bit registers. Their assembly names none, so that any compiler takes it.
pub(crate) fn has_wide_bytes(device: &OpenClDevice) -> Result<(), String> {
    runs_here(device)?;
    if has_vnni() { Ok(()) } else { Err("the processor has no products of bytes that add up".into()) }
}

/// The same of bf16 in pairs.
pub(crate) fn has_wide_pairs(device: &OpenClDevice) -> Result<(), String> {
    runs_here(device)?;
    if has_bf16() { Ok(()) } else { Err("the processor has no products of bf16 that add up".into()) }
}

#[cfg(target_arch = "x86_64")]
fn has_bf16() -> bool {
    is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512bw")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_bf16() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
fn has_vnni() -> bool {
    is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512bw")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_vnni() -> bool {
    false
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn ask_for_tiles() -> Result<(), &'static str> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};

    const TILES: u32 = 1 << 24 | 1 << 25 | 1 << 22;
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    if __cpuid(0).eax < 7 || __cpuid_count(7, 0).edx & TILES != TILES {
        return Err("the processor has no tiles of 8-bit integers and bf16");
    }
    // SAFETY: the call takes two numbers and changes nothing but what the process's threads may do.
    let answer = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) };
    if answer == 0 { Ok(()) } else { Err("the system does not permit tiles") }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn ask_for_tiles() -> Result<(), &'static str> {
    Err("tiles are known on x86-64 Linux alone")
}

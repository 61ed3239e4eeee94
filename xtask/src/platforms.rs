//! The OpenCL platforms that the loader really offers.

use std::process::{Command, Stdio};

use crate::setup::Variables;

/// The platform of the Portable Computing Language.
pub(crate) const POCL: &str = "Portable Computing Language";
/// The platform of Intel's CPU runtime. That of Intel's GPU driver has a longer name.
pub(crate) const INTEL_CPU: &str = "Intel(R) OpenCL";

/// A platform with the names of its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Platform {
    pub(crate) name: String,
    pub(crate) devices: Vec<String>,
}

/// The platforms that `clinfo` sees with `variables` set. They are listed in another process because a broken driver can
/// end the one that loads it. Without `clinfo` none are known.
pub(crate) fn list(variables: &Variables) -> Vec<Platform> {
    let output = Command::new("clinfo")
        .arg("--list")
        .envs(variables)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    output.map(|output| parse(&String::from_utf8_lossy(&output.stdout))).unwrap_or_default()
}

/// The platform of that name, if it has a device.
pub(crate) fn find<'a>(platforms: &'a [Platform], name: &str) -> Option<&'a Platform> {
    platforms.iter().find(|platform| platform.name == name && !platform.devices.is_empty())
}

fn parse(listing: &str) -> Vec<Platform> {
    let mut platforms: Vec<Platform> = Vec::new();
    for line in listing.lines() {
        if let Some(name) = entry(line, "Platform #") {
            platforms.push(Platform { name, devices: Vec::new() });
        } else if let (Some(name), Some(platform)) = (entry(line, "Device #"), platforms.last_mut()) {
            platform.devices.push(name);
        }
    }
    platforms
}

/// The name in a line such as ` +-- Device #0: NAME`.
fn entry(line: &str, kind: &str) -> Option<String> {
    let line = line.trim_start_matches(|c: char| c.is_whitespace() || "`+-|".contains(c));
    let (_, name) = line.strip_prefix(kind)?.split_once(": ")?;
    Some(name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\
Platform #0: Intel(R) OpenCL Graphics
Platform #1: Intel(R) OpenCL
 `-- Device #0: Some(R) CPU: 2 cores
Platform #2: Portable Computing Language
 +-- Device #0: pthread-one
 `-- Device #1: pthread-two
";

    #[test]
    fn platforms_keep_their_devices() {
        let platforms = parse(LISTING);
        assert_eq!(platforms.len(), 3);
        assert_eq!(platforms[0].devices, [""; 0]);
        assert_eq!(platforms[1].devices, ["Some(R) CPU: 2 cores"]);
        assert_eq!(platforms[2].devices, ["pthread-one", "pthread-two"]);
    }

    #[test]
    fn a_platform_is_found_by_its_whole_name_and_only_with_a_device() {
        let platforms = parse(LISTING);
        assert_eq!(find(&platforms, INTEL_CPU), Some(&platforms[1]));
        assert_eq!(find(&platforms, POCL), Some(&platforms[2]));
        assert_eq!(find(&platforms, "Intel(R) OpenCL Graphics"), None);
        assert_eq!(find(&parse("Number of platforms: 0\n"), POCL), None);
    }
}

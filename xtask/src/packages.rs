//! Debian packages.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{output, run, succeeds};

/// The loader, PoCL, two tools to look at devices and kernels with, what makes Python environments, and what compiles C and C++
/// programs that use OpenCL.
const PACKAGES: [&str; 7] = [
    "ocl-icd-libopencl1",
    "pocl-opencl-icd",
    "clinfo",
    "oclgrind",
    "python3-venv",
    "g++",
    "opencl-c-headers",
];

/// Installs the packages, as root or through `sudo` without a password.
pub(crate) fn install() -> Result<()> {
    install_also(&[])
}

/// Installs the packages and some more.
pub(crate) fn install_also(more: &[&str]) -> Result<()> {
    let by_hand = || {
        format!(
            "install by hand what provides {} on this system, then run this again; \
             on Debian: sudo apt-get install {}",
            "the OpenCL loader, PoCL, clinfo, Python's venv, a C++ compiler and OpenCL's C headers",
            [&PACKAGES, more].concat().join(" ")
        )
    };
    if !succeeds("apt-get", &["--version"]) {
        bail!("there is no apt-get: {}", by_hand());
    }
    let prefix = prefix().with_context(by_hand)?;
    // A source that cannot be reached need not be one that matters; the installation tells.
    if let Err(error) = run(&mut apt_get(prefix, &["update"])) {
        eprintln!("warning: {error:#}");
    }
    let mut install = vec!["install", "-y"];
    install.extend(PACKAGES.iter().chain(more));
    run(&mut apt_get(prefix, &install)).with_context(by_hand)
}

/// Whether C and C++ programs that use OpenCL can be compiled.
pub(crate) fn compilers_are_ready() -> bool {
    let header = ["-E", "-include", "CL/cl.h", "-x", "c", "/dev/null"];
    succeeds("cc", &header) && succeeds("c++", &["--version"])
}

/// What to put before a command so that it runs as root.
fn prefix() -> Result<&'static [&'static str]> {
    if output("id", &["-u"]).is_some_and(|id| id.trim() == "0") {
        Ok(&[])
    } else if succeeds("sudo", &["-n", "true"]) {
        Ok(&["sudo", "-n"])
    } else {
        bail!("installing packages needs root, and `sudo` is missing or asks for a password")
    }
}

fn apt_get(prefix: &[&str], args: &[&str]) -> Command {
    let words: Vec<&str> = prefix
        .iter()
        .copied()
        // `sudo` clears variables set for itself.
        .chain(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=300"])
        .chain(args.iter().copied())
        .collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_of_dpkg_is_turned_off_behind_sudo() {
        let command = apt_get(&["sudo", "-n"], &["update"]);
        assert_eq!(command.get_program(), "sudo");
        let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
        assert_eq!(args[..3], ["-n", "env", "DEBIAN_FRONTEND=noninteractive"]);
        assert_eq!(args.last().unwrap(), "update");
    }

    #[test]
    fn as_root_no_other_program_stands_before() {
        assert_eq!(apt_get(&[], &["update"]).get_program(), "env");
    }
}

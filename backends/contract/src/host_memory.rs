//! How much memory the host has left, so that absurd sizes are refused before they are asked of the system: systems that promise more
//! than they have end the program when it writes.

use std::fs;

use crate::error::{Error, Result};

/// Smaller requests are not worth a look.
const WORTH_A_LOOK: usize = 64 << 20;

/// Checks that the host has so many bytes free; `what` says for what. Systems that do not tell pass.
///
/// ```
/// assert!(anydnn_backend::check_host_memory(1 << 10, || "a row".into()).is_ok());
/// assert!(anydnn_backend::check_host_memory(usize::MAX, || "weights".into()).is_err());
/// ```
///
/// # Errors
/// [`Error::OutOfMemory`] when it has not.
pub fn check_host_memory(bytes: usize, what: impl FnOnce() -> String) -> Result<()> {
    let fits = isize::try_from(bytes).is_ok()
        && (bytes < WORTH_A_LOOK || free().is_none_or(|free| bytes as u64 <= free));
    if fits { Ok(()) } else { Err(Error::OutOfMemory { what: what(), bytes }) }
}

/// The bytes that the system, the limit of this process's addresses and, where there is one, its control group have left.
fn free() -> Option<u64> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let system = kibibytes(&read("/proc/meminfo"), "MemAvailable:");
    let group = group(
        &read("/sys/fs/cgroup/memory.max"),
        &read("/sys/fs/cgroup/memory.current"),
        &read("/sys/fs/cgroup/memory.stat"),
    );
    let addresses = addresses(&read("/proc/self/limits"), &read("/proc/self/status"));
    [system, group, addresses].into_iter().flatten().min()
}

/// What a process may still map.
fn addresses(limits: &str, status: &str) -> Option<u64> {
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u64 = limit.split_whitespace().next()?.parse().ok()?;
    Some(limit.saturating_sub(kibibytes(status, "VmSize:")?))
}

fn kibibytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()?.saturating_mul(1024))
}

/// What a control group has left; pages of files that it can drop count as free.
fn group(limit: &str, current: &str, stat: &str) -> Option<u64> {
    let limit: u64 = limit.trim().parse().ok()?;
    let current: u64 = current.trim().parse().ok()?;
    let droppable = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.parse::<u64>().ok());
    Some(limit.saturating_sub(current.saturating_sub(droppable.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_files_are_understood() {
        let meminfo = "MemTotal:  16 kB\nMemAvailable:    3 kB\n";
        assert_eq!(kibibytes(meminfo, "MemAvailable:"), Some(3072));
        assert_eq!(kibibytes("", "MemAvailable:"), None);
        assert_eq!(group("100\n", "90\n", "anon 5\ninactive_file 30\n"), Some(40));
        assert_eq!(group("max\n", "90\n", ""), None);
        assert_eq!(group("100\n", "190\n", ""), Some(0));
        let limits = |limit: &str| {
            format!("Max stack size  8388608  unlimited  bytes\nMax address space  {limit}  {limit}  bytes\n")
        };
        assert_eq!(addresses(&limits("4096"), "VmPeak:  9 kB\nVmSize:  3 kB\n"), Some(1024));
        assert_eq!(addresses(&limits("unlimited"), "VmSize:  3 kB\n"), None);
    }

    #[test]
    fn absurd_sizes_are_refused_with_their_purpose() {
        check_host_memory(0, || unreachable!()).unwrap();
        let error = check_host_memory(1 << 60, || "constant w".into()).unwrap_err().to_string();
        assert!(error.contains("constant w") && error.contains(&(1_u64 << 60).to_string()), "{error}");
    }
}

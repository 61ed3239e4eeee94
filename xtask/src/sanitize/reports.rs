//! What the sanitizers' run-times write down, a file for each process.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The most lines of a report that are shown.
const MOST_LINES: usize = 60;

/// A folder for reports.
#[derive(Debug)]
pub(super) struct Reports {
    folder: PathBuf,
}

impl Reports {
    /// An empty folder within `folder`.
    pub(super) fn within(folder: &Path) -> Result<Self> {
        let folder = folder.join("reports");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(Self { folder })
    }

    /// The path that run-times append a process's number to.
    pub(super) fn path(&self) -> String {
        self.folder.join("report").display().to_string()
    }

    /// The distinct findings with the numbers of their reports, each shown once in whole.
    pub(super) fn findings(&self) -> Result<Vec<String>> {
        let reading = || format!("reading {}", self.folder.display());
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for entry in fs::read_dir(&self.folder).with_context(reading)? {
            let bytes = fs::read(entry.with_context(reading)?.path()).with_context(reading)?;
            let mut lines = Vec::new();
            for line in String::from_utf8_lossy(&bytes).lines() {
                lines.push(line.to_owned());
                let Some(summary) = summary(line) else { continue };
                let count = found.entry(summary.to_owned()).or_default();
                *count += 1;
                if *count == 1 {
                    lines.iter().take(MOST_LINES).for_each(|line| println!("{line}"));
                }
                lines.clear();
            }
            // A report that was cut off is one as well.
            let is_ruler = |line: &String| line.chars().all(|c| c == '=' || c.is_whitespace());
            lines.retain(|line| !is_ruler(line));
            if let Some(first) = lines.first() {
                lines.iter().take(MOST_LINES).for_each(|line| println!("{line}"));
                *found.entry(format!("without a summary: {first}")).or_default() += 1;
            }
        }
        Ok(found.into_iter().map(|(summary, count)| format!("({count} times) {summary}")).collect())
    }
}

/// What is behind the last line of a report: `SUMMARY: ThreadSanitizer: data race a.rs:3 in f`.
fn summary(line: &str) -> Option<&str> {
    line.strip_prefix("SUMMARY: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_one_place_are_one_finding() {
        let folder = tempfile::tempdir().unwrap();
        let reports = Reports::within(folder.path()).unwrap();
        assert!(reports.findings().unwrap().is_empty());
        let race = "==\nWARNING: ThreadSanitizer: data race (pid=1)\n  Write of size 8\nSUMMARY: ThreadSanitizer: data race a.rs:3 in f\n==\n";
        fs::write(format!("{}.1", reports.path()), race.repeat(2)).unwrap();
        fs::write(format!("{}.2", reports.path()), race).unwrap();
        fs::write(
            format!("{}.3", reports.path()),
            "SUMMARY: AddressSanitizer: heap-use-after-free b.rs:4 in g\n",
        )
        .unwrap();
        let found = reports.findings().unwrap();
        assert_eq!(
            found,
            [
                "(1 times) AddressSanitizer: heap-use-after-free b.rs:4 in g",
                "(3 times) ThreadSanitizer: data race a.rs:3 in f"
            ]
        );
        // Reports of an earlier run are none of the next.
        assert!(Reports::within(folder.path()).unwrap().findings().unwrap().is_empty());
    }

    #[test]
    fn a_report_that_was_cut_off_counts() {
        let folder = tempfile::tempdir().unwrap();
        let reports = Reports::within(folder.path()).unwrap();
        fs::write(format!("{}.1", reports.path()), "==1==ERROR: AddressSanitizer: SEGV on unknown address\n")
            .unwrap();
        assert_eq!(reports.findings().unwrap().len(), 1);
    }
}

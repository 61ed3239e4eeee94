//! What the output of a step says about its outcome.

use std::ops::AddAssign;

/// Numbers of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

/// The numbers in the line with which a test program ends, such as
/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s`.
pub(crate) fn test_result(line: &str) -> Option<Tally> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |what: &str| {
        counts.split("; ").find_map(|part| part.strip_suffix(what)?.strip_suffix(' ')?.parse().ok())
    };
    Some(Tally { passed: count("passed")?, failed: count("failed")?, ignored: count("ignored")? })
}

/// Whether a line says what failed, or may hang: a test, a program, or the ledger of one.
pub(crate) fn complains(line: &str) -> bool {
    let line = line.trim_start();
    (line.starts_with("test ") && (line.ends_with("FAILED") || line.ends_with("over 60 seconds")))
        || ["error", "thread '", "anydnn-faults:"].iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_line_gives_its_numbers() {
        let line =
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s";
        assert_eq!(test_result(line), Some(Tally { passed: 12, failed: 0, ignored: 1 }));
        let line = "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s";
        assert_eq!(test_result(line), Some(Tally { passed: 1, failed: 2, ignored: 0 }));
    }

    #[test]
    fn other_lines_give_none() {
        for line in [
            "",
            "running 3 tests",
            "test tally::tests::one ... ok",
            "a test result: ok. 1 passed; 0 failed; 0 ignored",
            "test result: ok. many passed; 0 failed; 0 ignored",
            "test result: ok",
        ] {
            assert_eq!(test_result(line), None, "{line}");
        }
    }

    #[test]
    fn lines_about_failures_are_told_from_others() {
        for line in [
            "test a::b ... FAILED",
            "test a::b has been running for over 60 seconds",
            "error: test failed, to rerun pass `--test a`",
            "thread 'a' (7) panicked at tests/a.rs:3:5:",
            "anydnn-faults: leaked: 1 cl_event",
        ] {
            assert!(complains(line), "{line}");
        }
        assert!(!complains("test a::b ... ok") && !complains("     Running tests/a.rs"));
    }

    #[test]
    fn tallies_add_up() {
        let mut total = Tally::default();
        total += Tally { passed: 1, failed: 2, ignored: 3 };
        total += Tally { passed: 10, failed: 20, ignored: 30 };
        assert_eq!(total, Tally { passed: 11, failed: 22, ignored: 33 });
    }
}

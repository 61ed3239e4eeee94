//! What Oclgrind writes down, as findings.

use std::collections::BTreeMap;
use std::fmt;

/// One kind of misbehaviour at one place; the work-items and addresses of its reports differ.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// In Oclgrind's words, without the address.
    pub(crate) what: String,
    pub(crate) kernel: String,
    /// Lines of the program with their text: one, or the two that race.
    pub(crate) places: Vec<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: kernel {}", self.what, self.kernel)?;
        self.places.iter().try_for_each(|place| write!(f, "\n    {place}"))
    }
}

/// The distinct findings of a log with the numbers of their reports. A report is one line that starts at the margin and the lines behind it
/// that do not; whatever is reported counts, known or not.
pub(crate) fn findings(log: &str) -> BTreeMap<Finding, usize> {
    let mut found = BTreeMap::new();
    let mut lines = log.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() || line.starts_with(char::is_whitespace) {
            continue;
        }
        let mut finding =
            Finding { what: without_address(line), kernel: "unknown".to_owned(), places: Vec::new() };
        while let Some(line) = lines.next_if(|line| line.is_empty() || line.starts_with(char::is_whitespace))
        {
            let text = line.trim();
            if let Some(kernel) = text.strip_prefix("Kernel: ") {
                kernel.clone_into(&mut finding.kernel);
            } else if let Some(place) = text.strip_prefix("At ") {
                let source = lines.peek().map_or("", |next| next.trim());
                finding.places.push(format!("{}: {source}", line_alone(place)));
            }
        }
        finding.places.sort();
        finding.places.dedup();
        *found.entry(finding).or_default() += 1;
    }
    found
}

/// `Invalid write of size 4 at global memory address 0x20` without the number.
fn without_address(line: &str) -> String {
    let words = line.split_whitespace().filter(|word| !word.starts_with("0x"));
    words.collect::<Vec<_>>().join(" ").trim_end_matches(" address").to_owned()
}

/// `line 72 (column 5) of input.cl:` without the column.
fn line_alone(place: &str) -> &str {
    place.split_once(" (").map_or(place, |(line, _)| line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INVALID: &str = "
Invalid write of size 4 at global memory address 0x2000000000020
\tKernel: pointwise
\tEntity: Global(8,0,0) Local(8,0,0) Group(0,0,0)
\t  %call = call spir_func i32 @_Z10atomic_andPU3AS1Vjj(i32 addrspace(1)* noundef %7, i32 noundef %neg) #8, !dbg !67
\tAt line 72 (column 5) of input.cl:
\t  atomic_and(word, ~(15u << shift));
\t
";
    const RACE: &str = "
Read-write data race at local memory address 0x1000000000000
\tKernel: race
\t
\tFirst entity:  Global(1,0,0) Local(1,0,0) Group(0,0,0)
\t  %0 = load i32, i32 addrspace(1)* %arrayidx, align 4, !dbg !32
\tAt line 9 (column 40) of input.cl:
\t  y = x[0];
\t
\tSecond entity: Global(0,0,0) Local(0,0,0) Group(0,0,0)
\t  store i32 %conv, i32 addrspace(1)* %arrayidx, align 4, !dbg !32
\tAt line 7 (column 40) of input.cl:
\t  x[0] = 1;
\t
";

    #[test]
    fn reports_of_one_place_are_one_finding() {
        let log =
            format!("{INVALID}{RACE}{}", INVALID.replace("Global(8", "Global(9").replace("0020", "0024"));
        let found = findings(&log);
        let invalid = Finding {
            what: "Invalid write of size 4 at global memory".to_owned(),
            kernel: "pointwise".to_owned(),
            places: vec!["line 72: atomic_and(word, ~(15u << shift));".to_owned()],
        };
        assert_eq!(found[&invalid], 2);
        let (race, _) = found.iter().find(|(finding, _)| finding.kernel == "race").unwrap();
        assert_eq!(race.places, ["line 7: x[0] = 1;", "line 9: y = x[0];"]);
        assert_eq!(found.len(), 2);
        assert!(race.to_string().contains("Read-write data race at local memory: kernel race\n    line 7"));
    }

    #[test]
    fn whatever_is_reported_counts() {
        let log = "\nOCLGRIND FATAL ERROR (./src/plugins/Uninitialized.cpp:1805)\nUnsupported instruction: freeze\n\tKernel: softmax\n";
        assert_eq!(findings(log).len(), 2);
        let log = "Oclgrind: 1000 errors generated - suppressing further errors\n";
        assert_eq!(findings(log).len(), 1);
        assert!(findings("\n\n").is_empty());
    }
}

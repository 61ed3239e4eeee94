//! What a sweep found, in words.

use std::fmt::Write as _;
use std::time::Duration;

use anydnn_backend::conformance::random::{Family, Recipe};
use indexmap::IndexMap;

use super::answer::{Answer, Ending};
use crate::output::{Style, table};

/// Everything that a sweep found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    rows: IndexMap<&'static str, Row>,
    /// How often each reason for a refusal was given, with one case of it.
    refusals: IndexMap<String, (usize, Recipe)>,
    defects: Vec<Defect>,
    late: Option<String>,
}

#[derive(Clone, Debug, Default)]
struct Row {
    counts: [usize; 6],
    time: Duration,
}

/// A case that did not end as it should, and the smallest one that was found to end alike.
#[derive(Clone, Debug)]
pub(super) struct Defect {
    pub(super) recipe: Recipe,
    pub(super) answer: Answer,
    pub(super) small: Option<Small>,
}

#[derive(Clone, Debug)]
pub(super) struct Small {
    pub(super) recipe: Recipe,
    pub(super) description: String,
    pub(super) why: String,
}

impl Findings {
    pub(super) fn add(&mut self, recipe: &Recipe, answer: &Answer, time: Duration) {
        let row = self.rows.entry(recipe.family.name()).or_default();
        row.counts[answer.ending as usize] += 1;
        row.time += time;
        if answer.ending == Ending::Refused {
            self.refusals.entry(answer.why.clone()).or_insert_with(|| (0, recipe.clone())).0 += 1;
        }
    }

    pub(super) fn add_defect(&mut self, defect: Defect) {
        self.defects.push(defect);
    }

    /// How a worker ended that had answered everything, where that was not well.
    pub(super) fn set_late(&mut self, late: Option<String>) {
        self.late = late;
    }

    /// How many defects are like this one: calls that failed for one cause, or cases of one family that ended so.
    pub(super) fn alike(&self, family: Family, answer: &Answer) -> usize {
        let alike = |defect: &&Defect| {
            defect.answer.ending == answer.ending
                && match answer.ending {
                    Ending::Failed => cause(&defect.answer.why) == cause(&answer.why),
                    _ => defect.recipe.family == family,
                }
        };
        self.defects.iter().filter(alike).count()
    }

    pub(super) fn total(&self) -> usize {
        self.rows.values().flat_map(|row| row.counts).sum()
    }

    /// What is wrong, in a line; nothing if nothing is.
    pub(super) fn wrong(&self) -> Option<String> {
        let count = |ending: Ending| self.rows.values().map(|row| row.counts[ending as usize]).sum::<usize>();
        let mut parts: Vec<String> = Ending::ALL
            .into_iter()
            .filter(|ending| ending.is_defect() && count(*ending) > 0)
            .map(|ending| format!("{} {}", count(ending), ending.name()))
            .collect();
        parts.extend(self.late.iter().map(|how| format!("and a worker ended with {how}")));
        (!parts.is_empty()).then(|| format!("of {} cases {}", self.total(), parts.join(", ")))
    }

    pub(super) fn text(&self, style: Style) -> String {
        let mut text = String::from("\n");
        for defect in &self.defects {
            text += &defect.text(style);
        }
        if !self.refusals.is_empty() {
            let _ = writeln!(text, "{}", style.bold("refused"));
            for (why, (count, recipe)) in &self.refusals {
                let _ = writeln!(text, "  {count:>5}  {why}\n         such as {recipe}");
            }
        }
        let head = ["family", "passed", "refused", "wrong", "failed", "crashed", "hung", "s"];
        let mut total = Row::default();
        let mut rows: Vec<Vec<String>> = Vec::new();
        for (name, row) in &self.rows {
            rows.push(row.cells(name));
            total.time += row.time;
            total.counts.iter_mut().zip(row.counts).for_each(|(sum, count)| *sum += count);
        }
        rows.push(total.cells("all"));
        text += &table(style, &head, &[1, 2, 3, 4, 5, 6, 7], &rows);
        text
    }
}

impl Row {
    fn cells(&self, name: &str) -> Vec<String> {
        let mut cells = vec![name.to_owned()];
        cells.extend(self.counts.iter().map(ToString::to_string));
        cells.push(format!("{:.1}", self.time.as_secs_f64()));
        cells
    }
}

impl Defect {
    pub(super) fn text(&self, style: Style) -> String {
        let ending = style.bad(self.answer.ending.name());
        let mut text =
            format!("{ending}  {}  {}\n", self.recipe.family.name(), first_lines(&self.answer.why));
        if let Some(small) = &self.small {
            let _ = writeln!(text, "    small   {}", small.description);
            if !small.why.is_empty() {
                let _ = writeln!(text, "    says    {}", first_lines(&small.why));
            }
            let _ = writeln!(text, "    replay  {}", small.recipe);
        }
        let _ = writeln!(text, "    found   {}", self.recipe);
        text
    }
}

/// The first line of a reason, without the operation in front and without numbers.
fn cause(why: &str) -> String {
    let first = why.lines().next().unwrap_or_default();
    let behind = first.split_once(": ").map_or(first, |(_, behind)| behind);
    behind.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// A reason without its long end: build logs have hundreds of lines.
fn first_lines(why: &str) -> String {
    let lines: Vec<&str> = why.lines().take(12).collect();
    lines.join("\n            ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_calls_have_a_cause_in_common() {
        let mut findings = Findings::default();
        let answer = |why: &str| Answer::new(Ending::Failed, why);
        let told = "softmax: program \"padding\" does not build (-11)\nline 4";
        findings.add_defect(Defect { recipe: recipe("softmax:4"), answer: answer(told), small: None });
        let family = recipe("matmul:").family;
        assert_eq!(findings.alike(family, &answer("matmul: program \"padding\" does not build (-5)")), 1);
        assert_eq!(findings.alike(family, &answer("matmul: program \"blocked\" does not build (-11)")), 0);
    }

    fn recipe(text: &str) -> Recipe {
        text.parse().unwrap()
    }

    #[test]
    fn counts_refusals_and_defects_are_told() {
        let mut findings = Findings::default();
        assert_eq!(findings.wrong(), None);
        let second = Duration::from_secs(1);
        findings.add(&recipe("matmul:1"), &Answer::new(Ending::Passed, ""), second);
        findings.add(&recipe("matmul:2"), &Answer::new(Ending::Refused, "no such"), second);
        findings.add(&recipe("matmul:3"), &Answer::new(Ending::Refused, "no such"), second);
        assert_eq!(findings.wrong(), None);
        let answer = Answer::new(Ending::Crashed, "signal 11 (SIGSEGV)");
        findings.add(&recipe("softmax:4"), &answer, second);
        let small =
            Small { recipe: recipe("softmax:1"), description: "tiny".into(), why: "signal 11".into() };
        findings.add_defect(Defect { recipe: recipe("softmax:4"), answer, small: Some(small) });
        let family = |text: &str| recipe(text).family;
        assert_eq!(findings.alike(family("softmax:"), &Answer::new(Ending::Crashed, "signal 6")), 1);
        assert_eq!(findings.alike(family("matmul:"), &Answer::new(Ending::Crashed, "signal 11")), 0);
        assert_eq!(findings.wrong().unwrap(), "of 4 cases 1 crashed");
        let text = findings.text(Style { color: false });
        for part in [
            "2  no such",
            "such as matmul:2",
            "crashed  softmax  signal 11 (SIGSEGV)",
            "replay  softmax:1",
            "found   softmax:4",
        ] {
            assert!(text.contains(part), "{part} not in {text}");
        }
        assert!(text.contains("  matmul        1        2      0"), "{text}");
    }
}

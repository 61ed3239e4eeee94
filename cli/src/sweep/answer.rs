//! How a case ended, and the line in which a worker says so.

use serde_json::{Value, json};

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) ending: Ending,
    /// The reason, where there is one.
    pub(super) why: String,
}

/// The kinds of ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ending {
    /// Everything was as it should be.
    Passed,
    /// The backend says that it does not do that.
    Refused,
    /// A result or a byte beside it is wrong.
    Wrong,
    /// A call failed.
    Failed,
    /// The process ended, with a signal or a status.
    Crashed,
    /// There was no answer in time.
    Hung,
}

/// What a worker's lines begin with: drivers may print too.
const MARK: &str = "sweep: ";

impl Ending {
    pub(super) const ALL: [Self; 6] =
        [Self::Passed, Self::Refused, Self::Wrong, Self::Failed, Self::Crashed, Self::Hung];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Refused => "refused",
            Self::Wrong => "wrong",
            Self::Failed => "failed",
            Self::Crashed => "crashed",
            Self::Hung => "hung",
        }
    }

    /// Whether it is a defect.
    pub(super) const fn is_defect(self) -> bool {
        !matches!(self, Self::Passed | Self::Refused)
    }
}

impl Answer {
    pub(super) fn new(ending: Ending, why: impl Into<String>) -> Self {
        Self { ending, why: why.into() }
    }

    pub(super) fn line(&self) -> String {
        format!("{MARK}{}", json!({ "ending": self.ending.name(), "why": self.why }))
    }

    /// The answer of a line; none of what others print.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line.strip_prefix(MARK)?).ok()?;
        let name = value["ending"].as_str()?;
        let ending = Ending::ALL.into_iter().find(|ending| ending.name() == name)?;
        Some(Self::new(ending, value["why"].as_str()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_survives_its_line() {
        for ending in Ending::ALL {
            let answer = Answer::new(ending, "because\nof \"this\"");
            assert_eq!(Answer::parse(&answer.line()), Some(answer.clone()));
            assert!(!answer.line().contains('\n'));
        }
        assert_eq!(Answer::parse("a driver's own words"), None);
        assert_eq!(Answer::parse("sweep: {}"), None);
    }
}

//! What each trial is held against.

use super::exceptions::{NOT_TAKEN, OTHERWISE};
use super::expected::{Answer, ENDS, by_reference};
use super::trials::{Role, Trial};

/// How results are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Against oneDNN in the same type.
    Oracle,
    /// Against oneDNN on the same values in a wider type.
    Wider,
    /// Against the reference alone.
    Reference,
}

/// What a trial should make.
pub struct Check {
    pub how: How,
    /// Why oneDNN does not tell.
    pub why: String,
    pub oracle: Option<Vec<Vec<f64>>>,
    pub reference: Option<Vec<Vec<f64>>>,
}

/// The checks of all trials.
pub fn all(trials: &[Trial], answers: Vec<Answer>) -> Vec<Check> {
    trials.iter().zip(answers).map(|(trial, answer)| check(trial, answer)).collect()
}

fn check(trial: &Trial, answer: Answer) -> Check {
    let reference = by_reference(trial);
    let made = match answer {
        Ok(made) => made,
        Err(why) => return Check { how: How::Reference, why, oracle: None, reference },
    };
    if let Some(exception) = OTHERWISE.iter().find(|exception| (exception.applies)(trial)) {
        return Check { how: How::Reference, why: exception.why.to_owned(), oracle: None, reference };
    }
    let how = if made.data_type == trial.data_type { How::Oracle } else { How::Wider };
    Check { how, why: String::new(), oracle: Some(made.outputs), reference }
}

/// Trials of chosen and drawn cases where [`NOT_TAKEN`] is not true.
pub fn untrue(trials: &[Trial], checks: &[Check]) -> Vec<String> {
    let mut untrue = Vec::new();
    for (trial, check) in trials.iter().zip(checks).filter(|(trial, _)| trial.role != Role::Typed) {
        // Types that the processor lacks say nothing about operations.
        if check.why == ENDS || OTHERWISE.iter().any(|exception| (exception.applies)(trial)) {
            continue;
        }
        let listed = NOT_TAKEN.iter().any(|exception| (exception.applies)(trial));
        let taken = check.oracle.is_some();
        if taken == listed {
            let text = if taken { "is taken" } else { "is not taken" };
            untrue.push(format!("{} {text}: {}", trial.name(), check.why));
        }
    }
    untrue
}

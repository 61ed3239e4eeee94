//! Random descriptions, the same on every run.

use super::Trials;
use crate::conformance::random::{Family, Limits, Recipe, Sample, regressions};

/// How many of each family.
const EACH: u64 = 20;

/// What failed once, on whatever backend.
pub(super) fn regression_trials(list: &mut Trials) {
    match regressions() {
        Err(error) => list.add("regression/list", || Err(error)),
        Ok(recipes) => {
            for (name, recipe) in recipes {
                list.add(format!("regression/{name}"), || {
                    recipe.sample(Limits::WIDE).map(Sample::into_trial)
                });
            }
        }
    }
}

pub(super) fn trials(list: &mut Trials) {
    for (number, family) in Family::all().iter().enumerate() {
        for i in 0..EACH {
            let seed = number as u64 * EACH + i;
            list.add(format!("sweep/{}/{i}", family.name()), || {
                Recipe::draw(*family, seed, Limits::SMALL, None).map(|(_, sample)| sample.into_trial())
            });
        }
    }
}

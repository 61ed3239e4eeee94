//! Which cases there are: at random by a seed, or told.

use std::time::{SystemTime, UNIX_EPOCH};

use anydnn::backend::DataType;
use anydnn_backend::conformance::random::{Family, Limits, Recipe, Sample};
use anydnn_backend::conformance::values::Random;

use crate::failure::{Code, Failure};

/// The cases of a sweep, one after the other.
#[derive(Debug)]
pub(super) struct Cases {
    families: Vec<Family>,
    seed: u64,
    wanted: Option<DataType>,
    next: u64,
}

impl Cases {
    /// Of some families, or of all where none is named; `wanted` is the type of what is chosen at random.
    pub(super) fn new(names: &[String], seed: u64, wanted: Option<DataType>) -> Result<Self, Failure> {
        let mut families = Vec::new();
        for name in names {
            let family = Family::named(name).ok_or_else(|| {
                let known: Vec<_> = Family::all().iter().map(|family| family.name()).collect();
                let message = format!("--family {name}: expected one of {}", known.join(", "));
                Failure::new(Code::Input, message, "`anydnn sweep --help` describes the command line")
            })?;
            families.push(family);
        }
        if families.is_empty() {
            families = Family::turns();
        }
        Ok(Self { families, seed, wanted, next: 0 })
    }

    /// The next case. The families take turns; a case depends on the seed and its number alone.
    pub(super) fn draw(&mut self) -> Result<(Recipe, Sample), Failure> {
        let number = self.next;
        self.next += 1;
        let count = self.families.len() as u64;
        let family = self.families[(number % count) as usize];
        let seed = Random::new(self.seed).bits() ^ Random::new(number).bits();
        Ok(Recipe::draw(family, seed, Limits::QUICK, self.wanted)?)
    }
}

/// A number, or `today` for that of the day.
pub(crate) fn seed(text: &str) -> Result<u64, String> {
    if matches!(text, "today" | "day") {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
        return Ok(now.as_secs() / 86_400);
    }
    text.parse().map_err(|_| format!("expected a number or the word today, not {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_follow_from_the_seed() {
        let texts = |seed: u64| -> Vec<String> {
            let mut cases = Cases::new(&[], seed, None).unwrap();
            (0..60).map(|_| cases.draw().unwrap().0.to_string()).collect()
        };
        assert_eq!(texts(4), texts(4));
        assert_ne!(texts(4), texts(5));
        // Not the same choices for every family either.
        let mut families: Vec<_> =
            texts(4).iter().map(|text| text.split(':').next().unwrap().to_owned()).collect();
        families.truncate(Family::turns().len());
        families.sort();
        families.dedup();
        assert_eq!(families.len(), Family::all().len());
    }

    #[test]
    fn families_are_named() {
        let mut cases = Cases::new(&["softmax".into()], 1, None).unwrap();
        assert!((0..5).all(|_| cases.draw().unwrap().0.family.name() == "softmax"));
        assert!(Cases::new(&["sofmax".into()], 1, None).is_err());
    }

    #[test]
    fn the_day_is_a_number() {
        assert!(seed("today").unwrap() > 20_000);
        assert_eq!(seed("17"), Ok(17));
        assert!(seed("-1").is_err() && seed("tomorrow").is_err());
    }
}

//! From a recipe that fails to a small one that fails alike.

use super::choices::Limits;
use super::recipe::Recipe;
use super::sample::Sample;

/// The simplest recipe that was found for which `fails` still holds, after at most `attempts` calls of it; `fails` says
/// no to end early.
///
/// What choices mean does not matter: parts of the list are deleted, set to zero, and single ones lowered by halves, as often as one of
/// these helps.
pub fn shrink(
    recipe: &Recipe,
    limits: Limits,
    attempts: usize,
    mut fails: impl FnMut(&Recipe, &Sample) -> bool,
) -> Recipe {
    let mut search = Search { best: recipe.clone(), left: attempts, limits, fails: &mut fails };
    loop {
        let before = search.best.clone();
        search.zeros();
        search.deletions();
        search.structures();
        search.lower();
        if search.best == before || search.left == 0 {
            return search.best;
        }
    }
}

/// A larger choice is a size, which others do not hang on.
const MOST_KINDS: u64 = 12;

struct Search<'a> {
    best: Recipe,
    left: usize,
    limits: Limits,
    fails: &'a mut dyn FnMut(&Recipe, &Sample) -> bool,
}

impl Search<'_> {
    /// Takes a list instead of the best one if it is simpler and fails too.
    fn try_list(&mut self, choices: Vec<u64>) -> bool {
        if self.left == 0 {
            return false;
        }
        let candidate = Recipe { family: self.best.family, choices };
        // What describes nothing is no candidate.
        let Ok((candidate, sample)) = candidate.normalized(self.limits) else { return false };
        if !candidate.is_simpler_than(&self.best) {
            return false;
        }
        self.left -= 1;
        let holds = (self.fails)(&candidate, &sample);
        if holds {
            self.best = candidate;
        }
        holds
    }

    /// Everything from a place on becomes zero, then parts of it.
    fn zeros(&mut self) {
        let mut length = self.best.choices.len();
        while length > 0 {
            let mut start = 0;
            while start < self.best.choices.len() {
                let mut list = self.best.choices.clone();
                let end = (start + length).min(list.len());
                if list[start..end].iter().any(|&choice| choice > 0) {
                    list[start..end].fill(0);
                    self.try_list(list);
                }
                start += length;
            }
            length /= 2;
        }
    }

    fn deletions(&mut self) {
        for length in [8, 4, 2, 1] {
            let mut start = self.best.choices.len();
            while start >= length {
                start -= 1;
                if start + length <= self.best.choices.len() {
                    let mut list = self.best.choices.clone();
                    list.drain(start..start + length);
                    self.try_list(list);
                }
            }
        }
    }

    /// A choice goes down together with some behind it, which it made necessary.
    fn structures(&mut self) {
        let mut at = 0;
        while at < self.best.choices.len() {
            for behind in 1..=5 {
                let own = self.best.choices.get(at).copied().unwrap_or(0);
                if own == 0 || own > MOST_KINDS || at + 1 + behind > self.best.choices.len() {
                    break;
                }
                let mut list = self.best.choices.clone();
                list[at] = 0;
                list.drain(at + 1..at + 1 + behind);
                self.try_list(list);
            }
            at += 1;
        }
    }

    /// Single choices go down as far as the failure stays.
    fn lower(&mut self) {
        let mut at = 0;
        while at < self.best.choices.len() {
            let (mut passes, mut fails) = (0, self.best.choices[at]);
            // Zero was tried; between them lies where it begins to fail, if that is one place.
            while fails > passes + 1 {
                let middle = u64::midpoint(passes, fails);
                let mut list = self.best.choices.clone();
                list[at] = middle;
                if self.try_list(list) && self.best.choices.get(at).is_some_and(|&now| now <= middle) {
                    fails = self.best.choices[at];
                } else {
                    passes = middle;
                }
                if self.left == 0 || at >= self.best.choices.len() {
                    return;
                }
            }
            at += 1;
        }
    }
}

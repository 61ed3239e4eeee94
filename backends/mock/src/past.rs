//! What has happened before: the relation that race checks ask.

/// The commands that happen before a point, as a bit set over command numbers, which start at one.
///
/// Once everything up to some number has happened before, those words are cut off; so a program that waits now and then keeps short
/// sets however many commands it submits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    /// Words cut off from the front; every bit in them counts as set.
    cut: usize,
    words: Vec<u64>,
}

impl Past {
    pub(crate) fn contains(&self, command: u64) -> bool {
        let (word, bit) = place(command);
        word < self.cut || self.words.get(word - self.cut).is_some_and(|w| w >> bit & 1 == 1)
    }

    pub(crate) fn insert(&mut self, command: u64) {
        let (word, bit) = place(command);
        let Some(at) = word.checked_sub(self.cut) else { return };
        if at >= self.words.len() {
            self.words.resize(at + 1, 0);
        }
        self.words[at] |= 1 << bit;
    }

    /// Adds everything in `other`.
    pub(crate) fn join(&mut self, other: &Self) {
        if other.cut > self.cut {
            let implied = (other.cut - self.cut).min(self.words.len());
            self.words.drain(..implied);
            self.cut = other.cut;
        }
        let known = self.cut - other.cut;
        let Some(rest) = other.words.get(known..) else { return };
        if rest.len() > self.words.len() {
            self.words.resize(rest.len(), 0);
        }
        for (own, more) in self.words.iter_mut().zip(rest) {
            *own |= more;
        }
    }

    /// Cuts off the words at the front that are full.
    pub(crate) fn trim(&mut self) {
        let full = self.words.iter().take_while(|&&w| w == u64::MAX).count();
        self.words.drain(..full);
        self.cut += full;
    }
}

fn place(command: u64) -> (usize, u32) {
    let index = command.saturating_sub(1);
    ((index / 64) as usize, (index % 64) as u32)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_plain_set(steps in prop::collection::vec((0..3_usize, 0..3_usize, 1..300_u64, 0..4_u8), 1..200)) {
            let mut pasts = [Past::default(), Past::default(), Past::default()];
            let mut sets = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
            for (a, b, command, what) in steps {
                match what {
                    0 => {
                        let (other, set) = (pasts[b].clone(), sets[b].clone());
                        pasts[a].join(&other);
                        sets[a].extend(set);
                    }
                    1 => {
                        // Filling from the front is what makes cutting happen.
                        for command in 1..=command {
                            pasts[a].insert(command);
                            sets[a].insert(command);
                        }
                    }
                    2 => pasts[a].trim(),
                    _ => {
                        pasts[a].insert(command);
                        sets[a].insert(command);
                    }
                }
                for i in 0..3 {
                    for command in 1..=300 {
                        prop_assert_eq!(pasts[i].contains(command), sets[i].contains(&command));
                    }
                }
            }
        }
    }

    #[test]
    fn full_words_take_no_room() {
        let mut past = Past::default();
        for command in 1..=10_000 {
            past.insert(command);
            past.trim();
        }
        assert!(past.words.len() <= 1);
        assert!(past.contains(1) && past.contains(10_000) && !past.contains(10_001));
    }
}

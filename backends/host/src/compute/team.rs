//! Threads that compute parts of the same rows, step after step, and meet in between to exchange them.

use std::hint::spin_loop;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};
use std::thread::{panicking, scope, yield_now};

use super::element::Float;

/// How often to look for the others before their threads get this one's turn.
const PATIENCE: usize = 4000;

/// What members share.
struct Team<T> {
    members: usize,
    arrivals: AtomicUsize,
    /// Whether a member ended early.
    gone: AtomicBool,
    /// The part of each member, of this meeting and the next one.
    parts: Vec<[RwLock<Vec<T>>; 2]>,
}

/// One of the threads.
pub(super) struct Member<'t, T> {
    team: &'t Team<T>,
    /// Below the number of members.
    pub(super) number: usize,
    meetings: usize,
}

/// Runs `work` on so many threads; their results are in the order of their numbers.
pub(super) fn work_together<T: Float, R: Send>(
    members: usize,
    work: &(dyn Fn(Member<'_, T>) -> R + Sync),
) -> Vec<R> {
    let team = Team {
        members,
        arrivals: AtomicUsize::new(0),
        gone: AtomicBool::new(false),
        parts: (0..members).map(|_| [RwLock::default(), RwLock::default()]).collect(),
    };
    let member = |number| Member { team: &team, number, meetings: 0 };
    if members <= 1 {
        return vec![work(member(0))];
    }
    scope(|scope| {
        let others: Vec<_> = (1..members)
            .map(|number| {
                let member = member(number);
                scope.spawn(move || work(member))
            })
            .collect();
        let mut results = vec![work(member(0))];
        for other in others {
            results.push(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        results
    })
}

impl<T: Float> Member<'_, T> {
    /// Hands a part to all others and takes theirs, each with its member's number.
    pub(super) fn exchange(&mut self, own: &[T], mut take: impl FnMut(usize, &[T])) {
        let team = self.team;
        if team.members == 1 {
            return;
        }
        // A part is written again when everybody came to the next meeting, and so has read it.
        let turn = self.meetings % 2;
        {
            let mut part = team.parts[self.number][turn].write().unwrap_or_else(PoisonError::into_inner);
            part.clear();
            part.extend_from_slice(own);
        }
        self.meet();
        for number in (0..team.members).filter(|&number| number != self.number) {
            take(number, &team.parts[number][turn].read().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Waits until every member has come here as often.
    fn meet(&mut self) {
        self.meetings += 1;
        let team = self.team;
        team.arrivals.fetch_add(1, Ordering::AcqRel);
        let mut looked = 0;
        while team.arrivals.load(Ordering::Acquire) < self.meetings * team.members {
            assert!(!team.gone.load(Ordering::Relaxed), "another thread of the same layer ended early");
            looked += 1;
            if looked < PATIENCE { spin_loop() } else { yield_now() }
        }
    }
}

impl<T> Drop for Member<'_, T> {
    fn drop(&mut self) {
        if panicking() {
            self.team.gone.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_sees_the_parts_of_all_others() {
        for members in [1, 2, 5] {
            let seen = work_together::<f64, _>(members, &|mut member| {
                let mut all = vec![0; members];
                for step in 0..200 {
                    all[member.number] = member.number * 1000 + step;
                    let own = [all[member.number] as f64];
                    member.exchange(&own, |number, part| all[number] = part[0] as usize);
                    assert!(all.iter().enumerate().all(|(i, &value)| value == i * 1000 + step), "{all:?}");
                }
                all
            });
            assert_eq!(seen.len(), members);
            assert!(seen.iter().all(|all| *all == seen[0]));
        }
    }

    #[test]
    fn nobody_waits_for_who_ended_early() {
        let outcome = std::panic::catch_unwind(|| {
            work_together::<f32, _>(3, &|mut member| {
                assert!(member.number != 1, "ends");
                member.exchange(&[0.0], |_, _| ());
            })
        });
        assert!(outcome.is_err());
    }
}

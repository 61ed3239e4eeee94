//! The order in which commands run: any that was not forbidden.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use anydnn_backend::{Error, Result, Timestamps};

use crate::command::{Key, Node, Outcome, Work};
use crate::random::Random;
use crate::state::State;

/// Commands that have not run.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    pending: BTreeMap<u64, Pending>,
    ready: BTreeSet<u64>,
    /// Who waits for what.
    waiters: HashMap<Key, Vec<u64>>,
}

#[derive(Debug)]
struct Pending {
    node: Arc<Node>,
    work: Work,
    deps: Vec<Arc<Node>>,
    /// Dependencies that have not ended.
    missing: usize,
    fault: Option<Error>,
}

/// How one forced step goes about it. Every wait draws one.
#[derive(Clone, Copy, Debug)]
struct Mood {
    reach: Reach,
    taste: Taste,
}

/// Which commands run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// What is waited for and what it needs, nothing else.
    Lazy,
    /// Others too, until what is waited for is done.
    Mixed,
    /// Everything that can.
    Eager,
}

/// Which of several runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taste {
    Oldest,
    Newest,
    Any,
}

impl Mood {
    fn draw(random: &mut Random) -> Self {
        let reach = [Reach::Lazy, Reach::Mixed, Reach::Eager][random.below(3) as usize];
        let taste = [Taste::Oldest, Taste::Newest, Taste::Any, Taste::Any][random.below(4) as usize];
        Self { reach, taste }
    }
}

impl Taste {
    fn pick(self, from: &BTreeSet<u64>, random: &mut Random) -> Option<u64> {
        let (first, last) = (*from.first()?, *from.last()?);
        match self {
            Self::Oldest => Some(first),
            Self::Newest => Some(last),
            Self::Any => from.range(first + random.below(last - first + 1)..).next().copied(),
        }
    }
}

impl Schedule {
    pub(crate) fn add(
        &mut self,
        number: u64,
        node: Arc<Node>,
        work: Work,
        deps: Vec<Arc<Node>>,
        fault: Option<Error>,
    ) {
        let mut missing = 0;
        for dep in deps.iter().filter(|dep| !dep.is_done()) {
            self.waiters.entry(dep.key).or_default().push(number);
            missing += 1;
        }
        if missing == 0 {
            self.ready.insert(number);
        }
        self.pending.insert(number, Pending { node, work, deps, missing, fault });
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The commands that have not run among the goals and what they need.
    fn needed(&self, goals: &[Arc<Node>]) -> HashSet<u64> {
        let mut needed = HashSet::new();
        let mut open: Vec<Key> = goals.iter().map(|node| node.key).collect();
        while let Some(key) = open.pop() {
            if let Key::Command(number) = key
                && let Some(pending) = self.pending.get(&number)
                && needed.insert(number)
            {
                open.extend(pending.deps.iter().map(|dep| dep.key));
            }
        }
        needed
    }

    /// The user event that keeps a command from running.
    fn blocker(&self, goal: &Arc<Node>) -> Option<String> {
        let mut numbers: Vec<u64> = self.needed(std::slice::from_ref(goal)).into_iter().collect();
        numbers.sort_unstable();
        let direct = std::iter::once(goal);
        let deps = numbers.iter().filter_map(|number| self.pending.get(number)).flat_map(|p| &p.deps);
        direct
            .chain(deps)
            .find(|node| matches!(node.key, Key::User(_)) && !node.is_done())
            .map(|node| node.name.clone())
    }
}

impl State {
    /// Runs commands until the goals are done, in an order of the seed's choice.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a user event that nobody has set stands in the way.
    pub(crate) fn force(&mut self, goals: &[Arc<Node>]) -> Result<()> {
        let mut open = goals.iter().filter(|goal| !goal.is_done()).peekable();
        if open.peek().is_none() {
            return Ok(());
        }
        let mood = Mood::draw(&mut self.random);
        let needed = self.schedule.needed(goals);
        let mut urgent: BTreeSet<u64> =
            self.schedule.ready.iter().copied().filter(|number| needed.contains(number)).collect();
        for goal in open {
            while !goal.is_done() {
                let from = if mood.reach == Reach::Lazy { &urgent } else { &self.schedule.ready };
                let Some(next) = mood.taste.pick(from, &mut self.random) else {
                    return Err(self.deadlock(goal));
                };
                urgent.remove(&next);
                urgent.extend(self.run(next).into_iter().filter(|number| needed.contains(number)));
            }
        }
        if mood.reach == Reach::Eager {
            while let Some(next) = mood.taste.pick(&self.schedule.ready, &mut self.random) {
                self.run(next);
            }
        }
        Ok(())
    }

    /// Runs one command, if any can: whoever polls an event sees it end some time.
    pub(crate) fn step(&mut self) {
        let taste = Mood::draw(&mut self.random).taste;
        if let Some(next) = taste.pick(&self.schedule.ready, &mut self.random) {
            self.run(next);
        }
    }

    /// Ends a command or user event; returns the commands that can run now.
    pub(crate) fn finish(&mut self, node: &Node, outcome: Outcome) -> Vec<u64> {
        // Set twice only by a user event's owner, who was told.
        let _ = node.outcome.set(outcome);
        let mut released = Vec::new();
        for number in self.schedule.waiters.remove(&node.key).unwrap_or_default() {
            if let Some(pending) = self.schedule.pending.get_mut(&number) {
                pending.missing -= 1;
                if pending.missing == 0 {
                    self.schedule.ready.insert(number);
                    released.push(number);
                }
            }
        }
        for (allocation, bytes) in self.frees.remove(&node.key).unwrap_or_default() {
            self.stats.release(bytes);
            self.heap.free(allocation);
        }
        released
    }

    fn run(&mut self, number: u64) -> Vec<u64> {
        self.schedule.ready.remove(&number);
        let Some(Pending { node, work, deps, fault, .. }) = self.schedule.pending.remove(&number) else {
            return Vec::new();
        };
        let started = self.clock.now();
        let result = self.attempt(&node, &work, &deps, fault);
        let ended = if result.is_ok() { self.clock.advance(work.cost()) } else { started };
        let error = result.err();
        match &error {
            None => self.log.line(format_args!("run {}", node.name)),
            Some(error) => {
                // Memory that a pending command uses is alive, so this cannot fail; the command has failed anyway.
                let _ = work.spoil(&mut self.heap);
                self.log.line(format_args!("fail {}: {error}", node.name));
            }
        }
        for (_, _, region) in work.args() {
            self.heap.release(region.allocation);
        }
        let submitted = *node.submitted.get_or_init(|| started);
        let timestamps = Timestamps { queued: node.queued, submitted, started, ended };
        self.finish(&node, Outcome { error, timestamps })
    }

    fn attempt(&mut self, node: &Node, work: &Work, deps: &[Arc<Node>], fault: Option<Error>) -> Result<()> {
        self.faults.lost(&node.name)?;
        if let Some((dep, error)) = deps.iter().find_map(|dep| Some((dep, dep.error()?))) {
            let cause = match error.root() {
                // The first failure is the one to look for.
                Error::Dependency { cause, .. } => cause.clone(),
                _ => format!("{}: {error}", dep.name),
            };
            return Err(Error::Dependency { operation: node.name.clone(), cause });
        }
        fault.map_or(Ok(()), Err)?;
        work.run(&mut self.heap)
    }

    fn deadlock(&mut self, goal: &Arc<Node>) -> Error {
        let blocker = self.schedule.blocker(goal).unwrap_or_else(|| "an event".into());
        self.log.line(format_args!("deadlock {} behind {blocker}", goal.name));
        Error::invalid(
            "wait",
            &*goal.name,
            format!("blocked by {blocker}, which nobody has set"),
            "set_complete or set_failed before the wait",
        )
    }
}

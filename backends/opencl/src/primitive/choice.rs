//! The choice of an implementation: each operation offers its implementations, best first, with the reason.

use anydnn_backend::{Error, Op, PrimitiveDesc, Result};

use crate::plan::{KernelPlan, Launch};

/// Which of the implementations that serve a description are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted<'a> {
    /// The best one.
    First,
    /// The one of this name.
    Named(&'a str),
    /// Every one.
    All,
}

/// An implementation that serves a description.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) plan: KernelPlan,
    /// Why it stands where it does in the list.
    pub(crate) reason: &'static str,
}

/// What an implementation needs and launches.
#[derive(Debug)]
pub(super) struct Planned {
    /// Bytes of working memory.
    pub(super) scratchpad: usize,
    pub(super) launches: Vec<Launch>,
}

impl From<Launch> for Planned {
    fn from(launch: Launch) -> Self {
        Self { scratchpad: 0, launches: vec![launch] }
    }
}

/// The implementations offered so far.
#[derive(Debug)]
pub(super) struct Choices<'a> {
    desc: &'a PrimitiveDesc,
    wanted: Wanted<'a>,
    /// Names of the variants seen, whether they applied or not.
    seen: Vec<&'static str>,
    made: Vec<Choice>,
}

impl<'a> Choices<'a> {
    pub(super) fn new(desc: &'a PrimitiveDesc, wanted: Wanted<'a>) -> Self {
        Self { desc, wanted, seen: Vec::new(), made: Vec::new() }
    }

    /// Offers a variant behind those offered before; planning, which is done only when it is wanted, tells whether it applies. One that
    /// was offered before keeps its place.
    pub(super) fn offer<P: Into<Planned>>(
        &mut self,
        variant: &'static str,
        reason: &'static str,
        plan: impl FnOnce() -> Option<P>,
    ) {
        let wanted = match self.wanted {
            Wanted::First => self.made.is_empty(),
            Wanted::Named(wanted) => self.made.is_empty() && wanted == name(self.desc.op(), variant),
            Wanted::All => true,
        };
        if !wanted || self.seen.contains(&variant) {
            return;
        }
        self.seen.push(variant);
        if let Some(planned) = plan() {
            let Planned { scratchpad, launches } = planned.into();
            let implementation = name(self.desc.op(), variant);
            let plan = KernelPlan { implementation, scratchpad, launches, desc: self.desc.clone() };
            self.made.push(Choice { plan, reason });
        }
    }

    /// The implementations, each followed by these launches.
    pub(super) fn followed_by<L: IntoIterator<Item = Launch>>(mut self, last: impl Fn() -> L) -> Vec<Choice> {
        for choice in &mut self.made {
            choice.plan.launches.extend(last());
        }
        self.made
    }
}

/// The one implementation of an operation, if it is wanted.
pub(super) fn only(plan: KernelPlan, wanted: Wanted<'_>) -> Vec<Choice> {
    if matches!(wanted, Wanted::Named(name) if name != plan.implementation) {
        return Vec::new();
    }
    vec![Choice { plan, reason: "the only implementation" }]
}

/// The first of a list of choices.
pub(super) fn first(choices: Vec<Choice>, desc: &PrimitiveDesc, wanted: Wanted<'_>) -> Result<Choice> {
    choices.into_iter().next().ok_or_else(|| match wanted {
        Wanted::Named(name) => Error::unsupported(
            desc.name(),
            format!("no implementation {name} serves it; `implementations` lists those that do"),
        ),
        _ => Error::unsupported(desc.name(), "no kernel for this operation"),
    })
}

/// The name of a variant of an operation.
fn name(op: &Op, variant: &str) -> String {
    format!("ocl:{}:{variant}", op.name())
}

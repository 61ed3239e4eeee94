//! Looks for a formula in a graph, from a result back to what it is made of.
//!
//! A search is a stack of goals, each a formula for a tensor. Where a formula leaves a choice, the longer one is tried first, and another
//! one when what follows does not come out. Whatever was assumed since then is forgotten by cutting the lists of the state short.

use std::collections::BTreeSet;

use super::expr::{Condition, Expr, OpExpr, Step, Web};
use super::found::Match;
use super::obstacle::{Obstacle, seen_outside};
use super::results::{Formula, Outcome};
use super::scope::Scope;
use crate::graph::{Graph, LogicalTensor, Op, OpKind, TensorId};

/// The most goals of one search; graphs made to be hard end there instead of taking exponential time.
const MOST_GOALS: usize = 20_000;

/// The most operations between what is matched and a further result of a formula.
const REACH: usize = 6;

/// A search in a graph.
pub(crate) struct Matcher<'g> {
    pub(super) scope: &'g dyn Scope,
    pub(super) graph: &'g Graph,
    pub(super) members: Vec<usize>,
    /// Members that make results.
    roots: Vec<usize>,
    /// Tensors that may be seen outside.
    open: Vec<TensorId>,
    /// What comes along, by the frame it comes through.
    slots: Vec<(usize, TensorId)>,
    names: Vec<(&'static str, TensorId)>,
    captures: Vec<(&'static str, usize)>,
    frames: usize,
    goals: usize,
    /// Whether failures are remembered.
    pub(super) explains: bool,
    /// The deepest failure.
    pub(super) obstacle: Option<Obstacle>,
    /// Whether a match is the one that is looked for; any is where nobody asks.
    accepts: Option<&'g mut dyn FnMut(&Match) -> bool>,
}

/// What `make` makes of the first match around `root` from which it makes anything; `root` makes the formula's first result.
pub(crate) fn find_map<T>(
    scope: &dyn Scope,
    formula: &Formula,
    root: usize,
    mut make: impl FnMut(&Match) -> Option<T>,
) -> Option<T> {
    let mut made = None;
    let mut accepts = |found: &Match| {
        made = make(found);
        made.is_some()
    };
    let mut matcher = Matcher { accepts: Some(&mut accepts), ..Matcher::new(scope) };
    matcher.find(formula, root);
    made
}

/// Where a formula has to fit.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Tensor(TensorId),
    /// An operation that makes a result, which may have no tensor at all.
    Root(usize),
}

/// What comes before a point of a chain.
#[derive(Clone, Copy)]
struct Rest<'a> {
    steps: &'a [Step],
    /// How often the last step was taken.
    used: usize,
    base: &'a Expr,
    env: Option<&'a Frame<'a>>,
}

/// What [`Expr::It`] means.
struct Frame<'a> {
    rest: Rest<'a>,
    id: usize,
}

#[derive(Clone, Copy)]
enum Task<'a> {
    Expr(&'a Expr, Option<&'a Frame<'a>>),
    Rest(Rest<'a>),
    /// The further results of a formula.
    Results(&'a [Outcome]),
}

struct Goal<'a> {
    task: Task<'a>,
    place: Place,
    next: Option<&'a Goal<'a>>,
}

/// The lengths of the lists at a choice.
struct Mark([usize; 6]);

impl<'g> Matcher<'g> {
    pub(crate) fn new(scope: &'g dyn Scope) -> Self {
        Self {
            scope,
            graph: scope.graph(),
            members: Vec::new(),
            roots: Vec::new(),
            open: Vec::new(),
            slots: Vec::new(),
            names: Vec::new(),
            captures: Vec::new(),
            frames: 0,
            goals: 0,
            explains: false,
            obstacle: None,
            accepts: None,
        }
    }

    /// The same, which also remembers where it got stuck.
    pub(crate) fn explaining(scope: &'g dyn Scope) -> Self {
        Self { explains: true, ..Self::new(scope) }
    }

    /// The match of the formula whose first result `root` makes; none when operations do not fit or are fewer than two.
    pub(crate) fn find(&mut self, formula: &Formula, root: usize) -> Option<Match> {
        self.undo(&Mark([0; 6]));
        (self.frames, self.goals) = (0, 0);
        let (first, others) = formula.results.split_first()?;
        let place = Place::Root(root);
        let results = Goal { task: Task::Results(others), place, next: None };
        let goal = Goal { task: Task::Expr(&first.expr, None), place, next: Some(&results) };
        self.roots.push(root);
        self.solve(Some(&goal)).then(|| self.found())
    }

    fn found(&self) -> Match {
        let mut ops = self.members.clone();
        ops.sort_unstable();
        Match { ops, captures: self.captures.clone(), names: self.names.clone() }
    }

    /// Where the deepest of all searches got stuck.
    pub(crate) fn obstacle(self) -> Option<Obstacle> {
        self.obstacle
    }

    fn solve(&mut self, goal: Option<&Goal<'_>>) -> bool {
        let Some(&Goal { task, place, next }) = goal else { return self.is_closed() && self.is_accepted() };
        self.goals += 1;
        if self.goals > MOST_GOALS {
            return false;
        }
        match task {
            Task::Expr(expr, env) => self.expr(expr, env, place, next),
            Task::Rest(rest) => self.rest(rest, place, next),
            Task::Results([]) => self.solve(next),
            Task::Results([first, others @ ..]) => self.result(first, others, next),
        }
    }

    fn expr<'a>(
        &mut self,
        expr: &'a Expr,
        env: Option<&'a Frame<'a>>,
        place: Place,
        next: Option<&'a Goal<'a>>,
    ) -> bool {
        match expr {
            // What a formula begins with lies outside, so it is none of its results.
            Expr::Any => matches!(place, Place::Tensor(_)) && self.solve(next),
            Expr::Number(number) => {
                let Place::Tensor(tensor) = place else { return false };
                self.scope.number(tensor).is_some_and(|known| number.fits(known)) && self.solve(next)
            }
            Expr::Op(op) => self.op(op, env, place, next),
            Expr::Chain(base, steps) => self.rest(Rest { steps, used: 0, base, env }, place, next),
            Expr::OneOf(choices) => choices.iter().any(|choice| {
                let mark = self.mark();
                self.solve(Some(&Goal { task: Task::Expr(choice, env), place, next })) || self.undo(&mark)
            }),
            Expr::Named(name, expr) => {
                let Some(tensor) = self.tensor(place) else { return false };
                if let Some(&(_, known)) = self.names.iter().find(|(known, _)| known == name) {
                    return known == tensor && self.solve(next);
                }
                self.names.push((name, tensor));
                self.expr(expr, env, place, next)
            }
            Expr::It => {
                let (Some(frame), Some(tensor)) = (env, self.tensor(place)) else { return false };
                if let Some(&(_, known)) = self.slots.iter().find(|(id, _)| *id == frame.id) {
                    return known == tensor && self.solve(next);
                }
                self.slots.push((frame.id, tensor));
                self.rest(frame.rest, place, next)
            }
        }
    }

    fn rest<'a>(&mut self, rest: Rest<'a>, place: Place, next: Option<&'a Goal<'a>>) -> bool {
        let Some((step, before)) = rest.steps.split_last() else {
            return self.expr(rest.base, rest.env, place, next);
        };
        match step {
            Step::Then(expr) => {
                let frame = self.frame(Rest { steps: before, used: 0, ..rest });
                let task = Task::Expr(expr, Some(&frame));
                self.solve(Some(&Goal { task, place, next }))
            }
            Step::Web(web) => self.web(web, Rest { steps: before, used: 0, ..rest }, place, next),
            Step::Times { least, most, choices } => {
                if rest.used < *most {
                    for choice in choices {
                        let mark = self.mark();
                        let frame = self.frame(Rest { used: rest.used + 1, ..rest });
                        let inner = Rest { steps: choice, used: 0, base: &Expr::It, env: Some(&frame) };
                        if self.solve(Some(&Goal { task: Task::Rest(inner), place, next })) {
                            return true;
                        }
                        self.undo(&mark);
                    }
                }
                rest.used >= *least && {
                    let task = Task::Rest(Rest { steps: before, used: 0, ..rest });
                    self.solve(Some(&Goal { task, place, next }))
                }
            }
        }
    }

    /// Tries every tensor that the operations of a web may follow from, the latest first.
    fn web<'a>(&mut self, web: &Web, rest: Rest<'a>, place: Place, next: Option<&'a Goal<'a>>) -> bool {
        let Place::Tensor(end) = place else { return false };
        let (graph, scope) = (self.graph, self.scope);
        let (mut above, mut starts, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![end]);
        while let Some(tensor) = open.pop() {
            let Some(op) = graph.producer(tensor).filter(|&op| scope.is_free(op)) else { continue };
            if !web.kinds.contains(&graph.ops()[op].kind) {
                starts.insert((op, tensor));
            } else if above.insert(op) {
                open.extend(scope.reads(op));
            }
        }
        starts.into_iter().rev().any(|(_, start)| {
            let mut made = vec![start];
            let mut inner: Vec<usize> = Vec::new();
            for &op in &above {
                if scope.reads(op).iter().any(|tensor| made.contains(tensor)) {
                    inner.push(op);
                    made.extend(&graph.ops()[op].outputs);
                }
            }
            if !made.contains(&end) || inner.iter().any(|op| self.members.contains(op)) {
                return false;
            }
            let mark = self.mark();
            self.captures.extend(inner.iter().map(|&op| (web.capture, op)));
            let (kinds, capture) = &web.aside;
            for &op in above.iter().rev() {
                let Err(at) = inner.binary_search(&op) else { continue };
                let Op { kind, outputs, .. } = &graph.ops()[op];
                if kinds.contains(kind) && !outputs.iter().any(|&tensor| scope.leaves(&inner, tensor)) {
                    inner.insert(at, op);
                    self.captures.push((capture, op));
                }
            }
            self.members.extend(&inner);
            self.solve(Some(&Goal { task: Task::Rest(rest), place: Place::Tensor(start), next }))
                || self.undo(&mark)
        })
    }

    fn op<'a>(
        &mut self,
        expr: &'a OpExpr,
        env: Option<&'a Frame<'a>>,
        place: Place,
        next: Option<&'a Goal<'a>>,
    ) -> bool {
        let graph = self.graph;
        let index = match place {
            Place::Root(index) => index,
            Place::Tensor(tensor) => {
                let Some(index) = graph.producer(tensor) else {
                    let why = || format!("{} comes from outside the graph", graph.label(tensor));
                    return self.stuck(None, Some(expr), why);
                };
                index
            }
        };
        let op = &graph.ops()[index];
        if !expr.kinds.contains(&op.kind) {
            return self.stuck(Some(index), Some(expr), || format!("there is {op}"));
        }
        if !self.scope.is_free(index) {
            return self.stuck(Some(index), None, || format!("{op} is already part of another partition"));
        }
        if !expr.beside && self.members.contains(&index) {
            return false;
        }
        if let Place::Tensor(tensor) = place {
            let port = op.outputs.iter().position(|&output| output == tensor);
            if port != Some(0) {
                return false;
            }
            if !expr.open.contains(&0) && !expr.beside && self.scope.is_result(tensor) {
                let why = || format!("{} is also an output of the graph", graph.label(tensor));
                return self.stuck(Some(index), None, why);
            }
        }
        for condition in &expr.conditions {
            let failed = match condition {
                Condition::Reads(types) => {
                    let given = op.inputs.first().and_then(|&id| graph.tensor(id)?.data_type);
                    (!given.is_some_and(|given| types.contains(&given))).then(|| {
                        let names: Vec<_> = types.iter().map(|t| t.name()).collect();
                        let given = given.map_or("unknown", anydnn_backend::DataType::name);
                        format!("{op} reads {given}, not {}", names.join(" or "))
                    })
                }
                Condition::When(words, fits) => {
                    (!fits(graph, op)).then(|| format!("of {op} does not hold: {words}"))
                }
                Condition::KeepsShape => None,
            };
            if let Some(reason) = failed {
                return self.stuck(Some(index), None, || reason);
            }
        }
        if !expr.beside {
            self.members.push(index);
        }
        self.captures.extend(expr.capture.map(|name| (name, index)));
        self.open.extend(expr.open.iter().filter_map(|&port| op.outputs.get(port)));
        let swappable = (expr.either || commutes(op.kind)) && op.inputs.len() > 1 && !expr.inputs.is_empty();
        // Equal inputs give equal searches.
        let orders = if swappable && op.inputs[0] != op.inputs[1] { 2 } else { 1 };
        (0..orders).any(|order| {
            let mark = self.mark();
            let input = |i: usize| if order == 1 && i < 2 { 1 - i } else { i };
            self.fits(expr, index, input) && self.inputs(expr, env, index, &input, 0, next)
                || self.undo(&mark)
        })
    }

    /// Whether the inputs in this order can be what the operation needs.
    fn fits(&mut self, expr: &OpExpr, index: usize, input: impl Fn(usize) -> usize) -> bool {
        let (graph, op) = (self.graph, &self.graph.ops()[index]);
        if op.inputs.len() < expr.inputs.len() - usize::from(expr.each) {
            return false;
        }
        if !expr.conditions.iter().any(|condition| matches!(condition, Condition::KeepsShape)) {
            return true;
        }
        let along = expr.inputs.iter().position(|input| matches!(input, Expr::It)).unwrap_or(0);
        let dims = |id: TensorId| graph.tensor(id).and_then(LogicalTensor::known_dims);
        let along = op.inputs.get(input(along)).copied();
        match (along.and_then(dims), op.outputs.first().copied().and_then(dims)) {
            (Some(own), Some(result)) if own == result => true,
            (Some(own), Some(result)) => {
                self.stuck(Some(index), None, || format!("{op} stretches {own} to {result}"))
            }
            _ => self.stuck(Some(index), None, || format!("the shapes around {op} are not known")),
        }
    }

    /// Puts the inputs from `from` on before the next goal.
    fn inputs<'a>(
        &mut self,
        expr: &'a OpExpr,
        env: Option<&'a Frame<'a>>,
        index: usize,
        input: &dyn Fn(usize) -> usize,
        from: usize,
        next: Option<&'a Goal<'a>>,
    ) -> bool {
        let op = &self.graph.ops()[index];
        let count = if expr.each { op.inputs.len() } else { expr.inputs.len() };
        if from == count {
            return self.solve(next);
        }
        // The last input lies deepest, so that the first one is looked at first.
        let at = count - 1 - from;
        let Some(wanted) = expr.inputs.get(at).or(expr.inputs.last()) else { return self.solve(next) };
        let place = Place::Tensor(op.inputs[input(at)]);
        let goal = Goal { task: Task::Expr(wanted, env), place, next };
        self.inputs(expr, env, index, input, from + 1, Some(&goal))
    }

    /// A further result: one of the operations around what is matched.
    fn result<'a>(&mut self, first: &'a Outcome, others: &'a [Outcome], next: Option<&'a Goal<'a>>) -> bool {
        let place = Place::Root(usize::MAX);
        let rest = Goal { task: Task::Results(others), place, next };
        for root in self.around() {
            if !first.heads.contains(&self.graph.ops()[root].kind) {
                continue;
            }
            let mark = self.mark();
            self.roots.push(root);
            let task = Task::Expr(&first.expr, None);
            if self.solve(Some(&Goal { task, place: Place::Root(root), next: Some(&rest) })) {
                return true;
            }
            self.undo(&mark);
        }
        !first.required && self.solve(Some(&rest))
    }

    /// The operations that read what the members read or make, and those behind them, latest first.
    fn around(&self) -> Vec<usize> {
        let ops = self.graph.ops();
        let mut found: Vec<usize> = Vec::new();
        let mut edge: Vec<usize> = self
            .members
            .iter()
            .flat_map(|&op| ops[op].inputs.iter().chain(&ops[op].outputs))
            .flat_map(|&id| self.graph.consumers(id))
            .copied()
            .collect();
        for _ in 0..REACH {
            edge.retain(|op| !found.contains(op) && !self.members.contains(op) && self.scope.is_free(*op));
            edge.sort_unstable();
            edge.dedup();
            found.extend(&edge);
            edge = edge
                .iter()
                .flat_map(|&op| &ops[op].outputs)
                .flat_map(|&id| self.graph.consumers(id))
                .copied()
                .collect();
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        found
    }

    /// Whether nothing is seen outside but what may be.
    fn is_closed(&mut self) -> bool {
        if self.members.len() < 2 {
            return false;
        }
        let graph = self.graph;
        let mut ops = self.members.clone();
        ops.sort_unstable();
        for &op in ops.iter().filter(|op| !self.roots.contains(op)) {
            for &tensor in graph.ops()[op].outputs.iter().filter(|tensor| !self.open.contains(tensor)) {
                if self.scope.leaves(&ops, tensor) {
                    return self.stuck(Some(op), None, || seen_outside(graph, &ops, tensor));
                }
            }
        }
        true
    }

    fn is_accepted(&mut self) -> bool {
        let Some(accepts) = self.accepts.take() else { return true };
        let accepted = accepts(&self.found());
        self.accepts = Some(accepts);
        accepted
    }

    fn tensor(&self, place: Place) -> Option<TensorId> {
        match place {
            Place::Tensor(tensor) => Some(tensor),
            Place::Root(op) => self.graph.ops().get(op)?.outputs.first().copied(),
        }
    }

    fn frame<'a>(&mut self, rest: Rest<'a>) -> Frame<'a> {
        self.frames += 1;
        Frame { rest, id: self.frames }
    }

    fn mark(&self) -> Mark {
        Mark([
            self.members.len(),
            self.roots.len(),
            self.open.len(),
            self.slots.len(),
            self.names.len(),
            self.captures.len(),
        ])
    }

    /// Back to a choice; false, so that the search goes on.
    fn undo(&mut self, mark: &Mark) -> bool {
        let [members, roots, open, slots, names, captures] = mark.0;
        self.members.truncate(members);
        self.roots.truncate(roots);
        self.open.truncate(open);
        self.slots.truncate(slots);
        self.names.truncate(names);
        self.captures.truncate(captures);
        false
    }
}

/// Operations whose first two inputs may stand in either order.
fn commutes(kind: OpKind) -> bool {
    use OpKind::{Add, Maximum, Minimum, Multiply, SquaredDifference};
    matches!(kind, Add | Maximum | Minimum | Multiply | SquaredDifference)
}

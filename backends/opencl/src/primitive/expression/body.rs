//! What is done on a row, as text: passes over its elements that join folds, and the stores.

use std::fmt::Write;

use anydnn_backend::Eltwise;
use anydnn_backend::op::{Fold, Node};

use super::{Program, Stored};
use crate::primitive::nodes::{Leaves, needed, statements};
use crate::primitive::numbers::float;
use crate::primitive::value::Value;

/// Leaves of an expression as the macros name them. Folds that were joined before are loaded.
#[derive(Default)]
pub(super) struct Elements<'a> {
    folds: &'a [Node],
    loaded: &'a [bool],
}

impl Leaves for Elements<'_> {
    fn operand(&self, i: u16) -> String {
        format!("LD_SRC{i}(OFF_SRC{i}, n)")
    }

    fn index(&self, axis: usize) -> String {
        format!("LD_INDEX{axis}(OFF_INDEX{axis}, n)")
    }

    fn position(&self) -> String {
        "AT_POSITION(OFF_POSITION)".into()
    }

    fn constant(&self, value: Value, number: f32) -> String {
        // Expressions that differ in numbers alone share a program. What leaves something out of it is no such number.
        let is_special = !number.is_finite() || [0.0, 1.0, 2.0].contains(&number.abs());
        if value == Value::F32 && !is_special { float(number) } else { value.literal(number) }
    }

    fn scalar(&self, i: u16) -> String {
        format!("NAT1_SRC{i}(OFF_SRC{i})")
    }

    fn fold(&self, node: usize) -> String {
        match self.folds.get(node) {
            Some(Node::Fold(fold, _)) if !self.loaded[node] => total(*fold, node),
            _ => format!("LD_SAVE{node}(OFF_SAVE{node}, n)"),
        }
    }
}

/// One kernel's part of an expression with folds.
pub(super) struct Body<'a> {
    pub(super) program: &'a Program<'a>,
    /// The folds up to this pass have been joined before and are in memory.
    pub(super) joined: usize,
    /// The last pass to make.
    pub(super) last: usize,
    /// Whether each work-item stores what it has joined of the last pass, instead of going on with it.
    pub(super) partial: bool,
    /// The vectors of a row that local memory has room for.
    pub(super) room: usize,
    /// Whether results of every element, and those of every row, are stored.
    pub(super) elements: bool,
    pub(super) rows: bool,
}

impl<'a> Body<'a> {
    /// Everything in one kernel.
    pub(super) fn whole(program: &'a Program<'a>, room: usize) -> Self {
        let last = program.last_pass();
        Self { program, joined: 0, last, partial: false, room, elements: true, rows: true }
    }

    pub(super) fn text(&self) -> String {
        let Self { program, joined, last, partial, .. } = *self;
        let wanted = self.wanted();
        let kept = self.kept();
        let mut text = self.of_row(&wanted, |pass| pass <= joined);
        for pass in joined + 1..=last {
            text += &self.pass(pass, kept.as_ref().filter(|_| pass == last));
            if partial && pass == last {
                for (i, fold, _) in program.folds(pass) {
                    let _ = write!(text, "const V x{i} = {}; ", total(fold, i));
                    let _ = write!(text, "if (first_item) {{ ST_PART{i}(OFF_PART{i}, n, x{i}); }} ");
                }
            } else {
                text += &self.of_row(&wanted, |at| at == pass);
            }
        }
        if self.elements {
            text += &self.element_stores(kept);
        }
        if self.rows {
            text += &self.row_stores();
        }
        text
    }

    /// The kernel that joins what work-items have stored of the last pass: [`Body::text`] with the elements of a row being its parts.
    pub(super) fn join(&self, save: bool) -> String {
        let Self { program, last, .. } = *self;
        let totals = program.folds(last).map(|(i, ..)| i);
        let wanted = needed(&program.op.nodes, totals.chain(self.stored().map(|result| result.node)));
        let mut text = self.of_row(&wanted, |pass| pass < last);
        for (i, fold, _) in program.folds(last) {
            text += &start(fold, i);
        }
        text += "EACH_ELEMENT ";
        for (i, fold, _) in program.folds(last) {
            let _ = write!(
                text,
                "const V p{i} = LD_PART{i}(OFF_PART{i}, n); {}",
                step(fold, i, &format!("p{i}"))
            );
        }
        text += "END_ELEMENT ";
        text += &self.of_row(&wanted, |pass| pass == last);
        if save {
            for (i, ..) in program.folds(last) {
                let _ = write!(text, "if (first_item) {{ ST_SAVE{i}(OFF_SAVE{i}, n, x{i}); }} ");
            }
        }
        if self.rows {
            text += &self.row_stores();
        }
        text
    }

    /// Which nodes this kernel needs, those behind its folds included.
    fn wanted(&self) -> Vec<bool> {
        let program = self.program;
        let folds = (self.joined + 1..=self.last).flat_map(|pass| program.folds(pass));
        let roots: Vec<usize> =
            folds.flat_map(|(i, _, of)| [i, of]).chain(self.stored().map(|r| r.node)).collect();
        needed(&program.op.nodes, roots)
    }

    fn stored(&self) -> impl Iterator<Item = &Stored<'a>> {
        self.program.results.iter().filter(|result| if result.per_row { self.rows } else { self.elements })
    }

    /// Values of rows, those that depend on certain passes.
    fn of_row(&self, wanted: &[bool], is_ready: impl Fn(usize) -> bool) -> String {
        let program = self.program;
        let mask: Vec<bool> = (0..wanted.len())
            .map(|i| wanted[i] && !program.varies[i] && is_ready(program.passes[i]))
            .collect();
        self.statements(&program.op.nodes, &mask)
    }

    /// A pass over the elements that joins folds.
    fn pass(&self, pass: usize, kept: Option<&(usize, Option<String>)>) -> String {
        let program = self.program;
        let operands: Vec<usize> = program.folds(pass).map(|(.., of)| of).collect();
        let mut text: String = program.folds(pass).map(|(i, fold, _)| start(fold, i)).collect();
        text += "EACH_ELEMENT ";
        text += &self.of_element(&program.op.nodes, operands);
        if let Some((node, name)) = kept {
            let _ = match name {
                Some(name) => write!(text, "KEEP_{name}(OFF_{name}, n, x{node}); "),
                None => write!(text, "kept[slot] = x{node}; "),
            };
        }
        for (i, fold, of) in program.folds(pass) {
            text += &step(fold, i, &format!("x{of}"));
        }
        text + "END_ELEMENT "
    }

    fn element_stores(&self, kept: Option<(usize, Option<String>)>) -> String {
        let program = self.program;
        let whole: Vec<&Stored> = program.results.iter().filter(|result| !result.per_row).collect();
        if whole.is_empty() {
            return String::new();
        }
        let mut text = String::from("EACH_ELEMENT ");
        let roots = whole.iter().map(|result| result.node);
        if let Some((node, name)) = kept {
            // What it was computed from is not needed again.
            let mut nodes = program.op.nodes.clone();
            nodes[node] = Node::Constant(0.0);
            let _ = match name {
                Some(name) => write!(text, "const V x{node} = LD_{name}(OFF_{name}, n); "),
                None => write!(text, "const V x{node} = kept[slot]; "),
            };
            let mut mask = self.varying(needed(&nodes, roots));
            mask[node] = false;
            text += &self.statements(&nodes, &mask);
        } else {
            text += &self.of_element(&program.op.nodes, roots);
        }
        for result in whole {
            text += &self.store(result);
        }
        text + "END_ELEMENT "
    }

    fn row_stores(&self) -> String {
        let per_row = self.program.results.iter().filter(|result| result.per_row);
        let stores: String = per_row.map(|result| self.store(result)).collect();
        if stores.is_empty() { stores } else { format!("if (first_item) {{ {stores}}} ") }
    }

    fn store(&self, Stored { name, node, .. }: &Stored) -> String {
        if name == "DST" {
            return format!("{{ V v = x{node}; POST_OPS(v, n) ST_DST(OFF_DST, n, v); }} ");
        }
        format!("ST_{name}(OFF_{name}, n, x{node}); ")
    }

    fn of_element(&self, nodes: &[Node], roots: impl IntoIterator<Item = usize>) -> String {
        self.statements(nodes, &self.varying(needed(nodes, roots)))
    }

    fn varying(&self, mut mask: Vec<bool>) -> Vec<bool> {
        mask.iter_mut().zip(&self.program.varies).for_each(|(wanted, varies)| *wanted &= varies);
        mask
    }

    fn statements(&self, nodes: &[Node], mask: &[bool]) -> String {
        let loaded: Vec<bool> = self.program.passes.iter().map(|&pass| pass <= self.joined).collect();
        let leaves = Elements { folds: &self.program.op.nodes, loaded: &loaded };
        statements(nodes, mask, "x", self.program.value, &leaves)
    }

    /// A node that the last joining pass computes at a cost and the stores need again, with the result that can hold it meanwhile; without
    /// one it is held in local memory.
    fn kept(&self) -> Option<(usize, Option<String>)> {
        let program = self.program;
        if !self.elements || self.partial || self.last == self.joined {
            return None;
        }
        let result = program.results.iter().find(|result| program.holds_values(result) && self.room == 0);
        if result.is_none() && self.room == 0 {
            return None;
        }
        let nodes = &program.op.nodes;
        let before = needed(nodes, program.folds(self.last).map(|(.., of)| of));
        let after = needed(nodes, program.results.iter().filter(|r| !r.per_row).map(|r| r.node));
        let node = (0..nodes.len())
            .rev()
            .find(|&i| before[i] && after[i] && program.varies[i] && is_dear(&nodes[i]))?;
        Some((node, result.map(|result| result.name.clone())))
    }
}

/// Whether computing a node again costs more than a store and a load.
fn is_dear(node: &Node) -> bool {
    use Eltwise as E;
    let is_cheap = |function: Eltwise| {
        matches!(
            function,
            E::Abs
                | E::Clamp { .. }
                | E::HardSigmoid { .. }
                | E::HardSwish { .. }
                | E::LeakyRelu { .. }
                | E::Linear { .. }
                | E::Relu
                | E::Round
                | E::Square
        )
    };
    match *node {
        Node::Eltwise(function, _) | Node::Gradient { function, .. } => !is_cheap(function),
        Node::Keep { .. } | Node::Random { .. } => true,
        _ => false,
    }
}

/// The declaration of what a fold has joined so far.
fn start(fold: Fold, i: usize) -> String {
    format!("START_FOLD(sum{i}, {}) ", nothing(fold))
}

/// Joins one more value.
fn step(fold: Fold, i: usize, x: &str) -> String {
    let join = match fold {
        Fold::Product => "TIMES",
        Fold::Max => "LARGER",
        Fold::Min => "SMALLER",
        _ => "PLUS",
    };
    format!("const V m{i} = MASK({x}, n, {}); JOIN_FOLD(sum{i}, {join}, m{i}) ", nothing(fold))
}

/// What a row's lanes or work-items have joined together.
fn total(fold: Fold, i: usize) -> String {
    let name = match fold {
        Fold::Product => "product",
        Fold::Max => "max",
        Fold::Min => "min",
        _ => "sum",
    };
    format!("FOLD(fold_{name}, sum{i})")
}

/// The value of no elements.
fn nothing(fold: Fold) -> &'static str {
    match fold {
        Fold::Product => "1",
        Fold::Max => "(-INFINITY)",
        Fold::Min => "INFINITY",
        _ => "0",
    }
}

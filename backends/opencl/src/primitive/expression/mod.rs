//! Expressions: without folds a pointwise launch for all results, or a table where there are 256 of them, else passes over rows.

mod body;
mod staged;
mod tabled;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use super::Planner;
use super::choice::{Choice, Wanted, only};
use anydnn_backend::op::{Expression, Fold, Node};
use anydnn_backend::{Access, Arg, DataType, MemoryDesc, PrimitiveDesc, Result};

use super::axes::push_axes;
use super::nodes::{needed, statements};
use super::pointwise::{Statements, is_wide, launch_all, padding};
use super::rows::{Mode, Rows};
use super::source::add_post_ops;
use super::space::{Binding, Index, Space, broadcast_by_blocks};
use super::value::Value;
use crate::plan::{DeviceTraits, KernelPlan, Launch};
use body::{Body, Elements};

const EXPRESSION: &str = anydnn_kernels::text("expression/expression.cl");

/// Plans an expression.
pub(super) fn plan(desc: PrimitiveDesc, op: &Expression, device: &DeviceTraits) -> KernelPlan {
    let program = Program::new(&desc, op);
    let (mut launches, scratchpad, shape) = if program.is_pointwise() {
        let (launch, shape) = program.pointwise(device);
        (vec![launch], 0, shape)
    } else {
        program.rows(device)
    };
    for result in &program.results {
        launches.extend(padding(result.desc, result.arg, device));
    }
    let implementation = format!("ocl:{}:{shape}", desc.op().name());
    KernelPlan { implementation, desc, scratchpad, launches }
}

/// An expression and what its kernels need to know of it.
struct Program<'a> {
    desc: &'a PrimitiveDesc,
    op: &'a Expression,
    value: Value,
    wide: bool,
    /// Whether each node is needed for a result.
    reached: Vec<bool>,
    /// Whether each node may vary along the folded axes.
    varies: Vec<bool>,
    /// The pass over a row that joins a fold, from one on; of other nodes the last pass that they depend on.
    passes: Vec<usize>,
    results: Vec<Stored<'a>>,
}

/// A result.
struct Stored<'a> {
    arg: Arg,
    /// The name in macros.
    name: String,
    desc: &'a MemoryDesc,
    node: usize,
    /// Whether it has one element for each row.
    per_row: bool,
}

impl<'a> Program<'a> {
    fn new(desc: &'a PrimitiveDesc, op: &'a Expression) -> Self {
        let varies = op.varies(|i| desc.find(Arg::Src(i)).map(|desc| desc.dims().clone()));
        let mut reached = vec![false; op.nodes.len()];
        for &node in &op.results {
            reached[node] = true;
        }
        for i in (0..op.nodes.len()).rev() {
            if reached[i] {
                op.nodes[i].uses().for_each(|used| reached[used] = true);
            }
        }
        let mut passes: Vec<usize> = Vec::with_capacity(op.nodes.len());
        for node in &op.nodes {
            let last = node.uses().map(|used| passes[used]).max().unwrap_or(0);
            passes.push(last + usize::from(matches!(node, Node::Fold(..))));
        }
        let folded = op.folded_dims();
        let results = op.results.iter().enumerate().filter_map(|(i, &node)| {
            let arg = Arg::Dst(i as u16);
            let desc = desc.find(arg)?;
            let name = if i == 0 { "DST".into() } else { format!("DST{i}") };
            let per_row = *desc.dims() == folded && !varies[node];
            Some(Stored { arg, name, desc, node, per_row })
        });
        let results = results.collect();
        let wide = is_wide(desc) || op.dims.elements() > i32::MAX as usize;
        let value = Value::of(desc, false);
        Self { desc, op, value, wide, reached, varies, passes, results }
    }

    /// Whether no value depends on several elements and no element on several values.
    fn is_pointwise(&self) -> bool {
        self.last_pass() == 0 && self.results.iter().all(|result| *result.desc.dims() == self.op.dims)
    }

    /// The number of passes that join folds.
    fn last_pass(&self) -> usize {
        self.passes
            .iter()
            .zip(&self.reached)
            .filter(|(_, reached)| **reached)
            .map(|(p, _)| *p)
            .max()
            .unwrap_or(0)
    }

    /// The folds that a pass joins.
    fn folds(&self, pass: usize) -> impl Iterator<Item = (usize, Fold, usize)> {
        self.op.nodes.iter().enumerate().filter_map(move |(i, node)| match *node {
            Node::Fold(fold, of) if self.reached[i] && self.passes[i] == pass => Some((i, fold, of)),
            _ => None,
        })
    }

    /// One launch that computes every element of every result by itself.
    fn pointwise(&self, device: &DeviceTraits) -> (Launch, &'static str) {
        if let Some(launch) = tabled::launch(self, device) {
            return (launch, "tabled");
        }
        let (space, _) = self.space(|_| false);
        let nodes = &self.op.nodes;
        let wanted = needed(nodes, self.op.results.iter().copied());
        let mut compute = statements(nodes, &wanted, "x", self.value, &Elements::default());
        let mut store = String::new();
        for (i, result) in self.results.iter().enumerate() {
            let Stored { name, node, .. } = result;
            if i == 0 {
                let _ = write!(compute, "V v = x{node};");
            } else {
                let _ = write!(store, "ST_{name}(OFF_{name}, n, x{node}); ");
            }
        }
        let statements = Statements { compute: &compute, store: &store, ..Statements::default() };
        launch_all(space, self.value, Some(self.desc), statements, self.wide, device)
    }

    /// The loops over the axes that stay, then over the folded ones, with every operand; the number of the former.
    fn space(&self, folded: impl Fn(usize) -> bool) -> (Space, usize) {
        let op = self.op;
        let dims = &op.dims;
        let is_used = |i: u16| self.desc.find(Arg::Src(i)).filter(|_| self.uses_source(i));
        let sources: Vec<(u16, &MemoryDesc)> =
            (0..op.sources() as u16).filter_map(|i| Some((i, is_used(i)?))).collect();
        let layouts: Vec<&MemoryDesc> = self
            .results
            .iter()
            .map(|result| result.desc)
            .chain(sources.iter().map(|(_, desc)| *desc))
            .collect();
        let mut space = Space::default();
        let mut index = vec![Index::default(); dims.len()];
        push_axes(&mut space, (0..dims.len()).filter(|&a| !folded(a)), dims, &layouts, &mut index);
        let outer = space.loops.len();
        push_axes(&mut space, (0..dims.len()).filter(|&a| folded(a)), dims, &layouts, &mut index);
        for (i, source) in sources {
            // One element broadcasts whatever its rank.
            let index = match source.elements() {
                1 => vec![Index::default(); source.rank()],
                _ => broadcast_by_blocks(source.dims(), dims, &index),
            };
            space.operand(format!("SRC{i}"), Binding::Arg(Arg::Src(i)), source, &index);
        }
        for (axis, index) in index.iter().enumerate() {
            if self.reaches(|node| *node == Node::Index(axis)) {
                space.number(format!("INDEX{axis}"), index.terms.iter().copied());
            }
        }
        if self.reaches(|node| matches!(node, Node::Keep { .. } | Node::Random { .. })) {
            let terms = index.iter().enumerate().flat_map(|(axis, index)| {
                let stride: usize = dims[axis + 1..].iter().product();
                index.terms.iter().map(move |&(variable, factor)| (variable, factor * stride))
            });
            space.number("POSITION", terms.collect::<Vec<_>>());
        }
        let mut first = Vec::new();
        for (i, result) in self.results.iter().enumerate() {
            let kept = |(axis, index): (usize, &Index)| {
                if result.per_row && op.folded.contains(&axis) { Index::default() } else { index.clone() }
            };
            let index: Vec<Index> = index.iter().enumerate().map(kept).collect();
            space.operand(&result.name, Binding::Arg(result.arg), result.desc, &index);
            if i == 0 {
                first = index;
            }
        }
        add_post_ops(&mut space, self.desc, &first);
        (space, outer)
    }

    fn reaches(&self, is_wanted: impl Fn(&Node) -> bool) -> bool {
        self.op.nodes.iter().zip(&self.reached).any(|(node, reached)| *reached && is_wanted(node))
    }

    fn uses_source(&self, source: u16) -> bool {
        self.reaches(|node| match *node {
            Node::Operand(i) => i == source,
            _ => node.scalars().any(|i| i == source),
        })
    }

    /// Launches that pass over rows, the working memory between them and what the implementation is called.
    fn rows(&self, device: &DeviceTraits) -> (Vec<Launch>, usize, &'static str) {
        let (space, outer) = self.space(|axis| self.op.folded.contains(&axis));
        let rows = Rows::folded_along(space, outer, self.value, device, (&self.widest(), None));
        if let Some((launches, scratchpad)) = staged::launches(self, &rows, device) {
            return (launches, scratchpad, "staged");
        }
        let body = Body::whole(self, rows.kept_vectors(device)).text();
        let shape = match rows.mode {
            Mode::Part => "parts",
            Mode::SubGroup => "sub-groups",
            Mode::Item if rows.lanes > 1 => "vector",
            Mode::Lane if rows.lanes > 1 => "vertical",
            Mode::Group => "group",
            _ => "ref",
        };
        (vec![self.launch(&rows, &body, self.last_pass() + 1, true, device)], 0, shape)
    }

    /// A launch over rows that does this work on each; `fused` when it stores the first result.
    fn launch(&self, rows: &Rows, body: &str, passes: usize, fused: bool, device: &DeviceTraits) -> Launch {
        let work = rows.space.count(rows.outer..rows.space.loops.len()).saturating_mul(passes);
        let mut source = rows.source(self.value, self.wide, device, work);
        if body.contains("kept[slot]") {
            source.define("KEPT", rows.kept_vectors(device));
        }
        source.define("BODY", body);
        if fused {
            source.post_ops(self.desc);
        }
        if passes > 1 {
            let held = self.repeated_sources();
            rows.hold(&mut source, device, &held.iter().map(String::as_str).collect::<Vec<_>>());
        }
        rows.launch(source, "expression", &[EXPRESSION], device, work)
    }

    /// The names of the operands that several passes over a row's elements read.
    fn repeated_sources(&self) -> Vec<String> {
        let nodes = &self.op.nodes;
        let joining = (1..=self.last_pass()).map(|pass| needed(nodes, self.folds(pass).map(|(.., of)| of)));
        let stored = self.results.iter().filter(|result| !result.per_row).map(|result| result.node);
        let passes: Vec<Vec<bool>> = joining.chain([needed(nodes, stored)]).collect();
        let reads = |i: u16, pass: &Vec<bool>| {
            (0..nodes.len()).any(|node| pass[node] && self.varies[node] && nodes[node] == Node::Operand(i))
        };
        (0..self.op.sources() as u16)
            .filter(|&i| passes.iter().filter(|pass| reads(i, pass)).count() > 1)
            .map(|i| format!("SRC{i}"))
            .collect()
    }

    /// The operand by which loops are ordered and lanes are laid: the largest that varies along rows.
    fn widest(&self) -> String {
        let varying = |i: &u16| {
            let desc = self.desc.find(Arg::Src(*i))?;
            let varies = self.op.nodes.iter().zip(&self.varies).any(|(n, v)| *v && *n == Node::Operand(*i));
            (varies && self.uses_source(*i)).then(|| (desc.elements(), format!("SRC{i}")))
        };
        let sources = (0..self.op.sources() as u16).filter_map(|i| varying(&i));
        let whole = self.results.iter().filter(|result| !result.per_row);
        let results = whole.map(|result| (result.desc.elements(), result.name.clone()));
        // The first of the largest.
        let all: Vec<_> = sources.chain(results).collect();
        all.into_iter().rev().max_by_key(|(elements, _)| *elements).map_or("DST".into(), |(_, name)| name)
    }

    /// Whether a result may hold values on the way, by its type and because its old content does not matter.
    fn holds_values(&self, result: &Stored) -> bool {
        let storage: DataType = self.value.storage();
        let reads = self.desc.access(result.arg).is_some_and(Access::reads);
        !result.per_row && result.desc.data_type() == storage && !reads
    }
}

impl Planner for Expression {
    fn choices(
        &self,
        desc: &PrimitiveDesc,
        device: &DeviceTraits,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Choice>> {
        Ok(only(plan(desc.clone(), self, device), wanted))
    }

    fn counts_in_64_bits(&self) -> bool {
        true
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }
}
